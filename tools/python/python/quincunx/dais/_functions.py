"""Functions of numpy on arrays that are traced.

Arrays ask for them here, so that they can import arrays only when they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._errors import misused

FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""What stands for a function of numpy."""


def _own(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(own: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS.update(dict.fromkeys(functions, own))
        return own

    return register


# Those that only move elements do so with the places of numbers, whatever they are.


def _moving(function: Any) -> Callable[..., Any]:
    def moved(first: Any, *args: Any, **options: Any) -> Any:
        from ._array import FixedArray, together

        several = isinstance(first, (list, tuple))
        graph, places = together(*(first if several else [first]))
        result = function(places if several else places[0], *args, **options)
        if isinstance(result, (list, tuple)):
            return [FixedArray(graph, part) for part in result]
        return FixedArray(graph, np.asarray(result))

    return moved


for _name in (
    "reshape transpose ravel squeeze expand_dims moveaxis swapaxes rollaxis broadcast_to repeat tile flip fliplr "
    "flipud roll rot90 take diagonal concatenate stack vstack hstack dstack column_stack atleast_1d atleast_2d "
    "atleast_3d split array_split vsplit hsplit dsplit delete copy"
).split():
    FUNCTIONS[getattr(np, _name)] = _moving(getattr(np, _name))


@_own(np.broadcast_arrays)
def _broadcast(*arrays: Any, subok: bool = False) -> Any:
    from ._array import FixedArray, together

    graph, places = together(*arrays)
    return tuple(FixedArray(graph, part) for part in np.broadcast_arrays(*places))


@_own(np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", constant_values: float = 0) -> Any:
    from ._array import FixedArray, together

    graph, (places, value) = together(array, constant_values)
    if mode != "constant":
        return FixedArray(graph, np.pad(places, pad_width, mode))
    return FixedArray(graph, np.pad(places, pad_width, mode, constant_values=int(value)))


@_own(np.shape)
def _shape(array: Any) -> Any:
    return array.shape


@_own(np.ndim)
def _ndim(array: Any) -> Any:
    return array.ndim


@_own(np.size)
def _size(array: Any, axis: int | None = None) -> Any:
    return array.size if axis is None else array.shape[axis]


@_own(np.zeros_like)
def _zeros_like(array: Any, dtype: Any = None) -> Any:
    return np.zeros(array.shape)


@_own(np.ones_like)
def _ones_like(array: Any, dtype: Any = None) -> Any:
    return np.ones(array.shape)


# Reductions


def _reducing(name: str) -> Callable[..., Any]:
    def reduced(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        return getattr(a, name)(axis, keepdims)

    return reduced


for _name in "sum mean prod max min any all".split():
    FUNCTIONS[getattr(np, _name)] = _reducing(_name)
FUNCTIONS[np.amax], FUNCTIONS[np.amin] = FUNCTIONS[np.max], FUNCTIONS[np.min]


@_own(np.ptp)
def _ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return a.max(axis, keepdims) - a.min(axis, keepdims)


@_own(np.cumsum)
def _cumsum(a: Any, axis: int | None = None) -> Any:
    from ._array import FixedArray

    places = a.places.ravel() if axis is None else np.moveaxis(a.places, axis, -1)
    graph, sums = a.graph, []
    for row in places.reshape(-1, places.shape[-1]).tolist():
        total = None
        for number in row:
            total = number if total is None else graph.add(total, number)
            sums.append(total)
    result = np.array(sums, np.int64).reshape(places.shape)
    return FixedArray(graph, result if axis is None else np.moveaxis(result, -1, axis))


@_own(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    for _ in range(n):
        rows = np.moveaxis(a, axis, -1)
        a = np.moveaxis(rows[..., 1:] - rows[..., :-1], -1, axis)
    return a


# Choices


@_own(np.where)
def _where(condition: Any, x: Any, y: Any) -> Any:
    from ._array import _elementwise

    return _elementwise(lambda graph: lambda c, a, b: graph.mux(graph.truth(c), a, b), condition, x, y)


@_own(np.clip)
def _clip(a: Any, a_min: Any = None, a_max: Any = None) -> Any:
    a = a if a_min is None else np.maximum(a, a_min)
    return a if a_max is None else np.minimum(a, a_max)


@_own(np.sort)
def _sort(a: Any, axis: int | None = -1, kind: Any = None) -> Any:
    """By a network of comparisons, Batcher's odd-even merging."""
    from ._array import FixedArray

    places = a.places.ravel() if axis is None else np.moveaxis(a.places, axis, -1)
    graph, pairs = a.graph, list(_network(places.shape[-1]))
    rows = places.reshape(-1, places.shape[-1]).tolist()
    for row in rows:
        for i, j in pairs:
            row[i], row[j] = graph.minimum(row[i], row[j]), graph.maximum(row[i], row[j])
    result = np.array(rows, np.int64).reshape(places.shape)
    return FixedArray(graph, result if axis is None else np.moveaxis(result, -1, axis))


def _network(count: int) -> Any:
    """Pairs to put in order, so that everything is in order in the end."""
    block = 1
    while block < count:
        step = block
        while step:
            for first in range(step % block, count - step, 2 * step):
                for i in range(first, min(first + step, count - step)):
                    if i // (2 * block) == (i + step) // (2 * block):
                        yield i, i + step
            step //= 2
        block *= 2


# Products


@_own(np.dot)
def _dot(a: Any, b: Any) -> Any:
    from ._array import matmul

    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return np.multiply(a, b)
    if np.ndim(b) <= 2:
        return matmul(a, b)
    return np.tensordot(a, b, (-1, -2))


@_own(np.inner)
def _inner(a: Any, b: Any) -> Any:
    return np.tensordot(a, b, (-1, -1))


@_own(np.vdot)
def _vdot(a: Any, b: Any) -> Any:
    from ._array import matmul

    return matmul(np.ravel(a), np.ravel(b))


@_own(np.outer)
def _outer(a: Any, b: Any) -> Any:
    return np.multiply(np.ravel(a)[:, np.newaxis], np.ravel(b)[np.newaxis])


@_own(np.tensordot)
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    from ._array import matmul

    if isinstance(axes, int):
        axes = list(range(np.ndim(a) - axes, np.ndim(a))), list(range(axes))
    pairs = [[part] if isinstance(part, int) else list(part) for part in axes]
    left, right = ([axis % np.ndim(x) for axis in part] for x, part in zip((a, b), pairs))
    outer = [axis for axis in range(np.ndim(a)) if axis not in left]
    inner = [axis for axis in range(np.ndim(b)) if axis not in right]
    shape = [np.shape(a)[axis] for axis in outer] + [np.shape(b)[axis] for axis in inner]
    count = int(np.prod([np.shape(a)[axis] for axis in left], dtype=np.int64))
    rows = np.transpose(a, outer + left).reshape(-1, count)
    return matmul(rows, np.transpose(b, right + inner).reshape(count, -1)).reshape(*shape)


@_own(np.einsum)
def _einsum(subscripts: str, *operands: Any) -> Any:
    """Of one or two operands, none of which has an axis twice."""
    if not isinstance(subscripts, str) or len(operands) not in (1, 2):
        raise misused("einsum is traced for one or two operands, with subscripts as a text")
    labels, output = _subscripts(subscripts, [np.ndim(x) for x in operands])
    if any(len(set(own)) != len(own) for own in labels):
        raise misused(f'einsum "{subscripts}" takes a diagonal', "take it with numpy.diagonal first")
    # What only one operand has and nobody wants is summed up first.
    given, labels = _summed(list(operands), labels, output)
    if len(given) == 1:
        return np.transpose(given[0], [labels[0].index(label) for label in output])
    return _contracted(given, labels, output)


def _summed(operands: list[Any], labels: list[str], output: str) -> tuple[list[Any], list[str]]:
    for place, own in enumerate(labels):
        others = output + "".join(labels[:place] + labels[place + 1 :])
        alone = tuple(axis for axis, label in enumerate(own) if label not in others)
        if alone:
            operands[place] = np.sum(operands[place], axis=alone)
            labels[place] = "".join(label for label in own if label in others)
    return operands, labels


def _contracted(operands: list[Any], labels: list[str], output: str) -> Any:
    from ._array import matmul

    first, second = labels
    both = [label for label in first if label in second]
    batch = [label for label in both if label in output]
    summed = [label for label in both if label not in output]
    left = [label for label in first if label not in second]
    right = [label for label in second if label not in first]
    sizes: dict[str, int] = {}
    for x, own in zip(operands, labels):
        for label, extent in zip(own, np.shape(x)):
            if sizes.setdefault(label, extent) != extent:
                raise misused(
                    f"axis {label} has {sizes[label]} elements in one operand, {extent} in the other"
                )

    def form(x: Any, own: str, *groups: list[str]) -> Any:
        turned = np.transpose(x, [own.index(label) for group in groups for label in group])
        return turned.reshape(
            [int(np.prod([sizes[label] for label in group], dtype=np.int64)) for group in groups]
        )

    product = matmul(
        form(operands[0], first, batch, left, summed), form(operands[1], second, batch, summed, right)
    )
    order = batch + left + right
    product = product.reshape([sizes[label] for label in order])
    return product.transpose([order.index(label) for label in output])


def _subscripts(text: str, ndims: list[int]) -> tuple[list[str], str]:
    """Labels of the operands and of the result, an ellipsis replaced by labels of its own."""
    text = text.replace(" ", "")
    given, arrow, output = text.partition("->")
    labels = given.split(",")
    if len(labels) != len(ndims):
        raise misused(f'einsum "{text}" has {len(labels)} operands, {len(ndims)} are given')
    longest = 0
    for place, (own, ndim) in enumerate(zip(labels, ndims)):
        count = ndim - len(own.replace("...", ""))
        if count < 0 or count and "..." not in own:
            raise misused(f'"{own}" of einsum does not fit an operand of {ndim} axes')
        # Digits are no labels of users. They are counted from the last axis, as in broadcasting.
        labels[place] = own.replace("...", "".join(chr(0x100 + n) for n in reversed(range(count))))
        longest = max(longest, count)
    hidden = "".join(chr(0x100 + n) for n in reversed(range(longest)))
    if not arrow:
        joined = "".join(labels)
        output = "..." + "".join(sorted(c for c in set(joined) if joined.count(c) == 1 and c not in hidden))
    output = output.replace("...", hidden)
    if set(output) - set("".join(labels)) or len(set(output)) != len(output):
        raise misused(f'the result of einsum "{text}" has an axis that no operand has, or one twice')
    return labels, output
