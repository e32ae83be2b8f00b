"""Arrays of fixed-point numbers that record what is computed with them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, Union, cast

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from .._errors import misused
from ._functions import FUNCTIONS
from ._graph import Graph, Number, new_serial
from ._numbers import exact, kif, numbers, real, whole, whole_matrix
from ._solve import Search

Numbers: TypeAlias = npt.NDArray[np.int64]
Operand: TypeAlias = Union["FixedArray", npt.ArrayLike]
Widths: TypeAlias = npt.ArrayLike

OVERFLOWS = ("WRAP", "SAT", "SAT_SYM")
ROUNDINGS = ("TRN", "RND")

MOST_ENTRIES = 1 << 20
"""Most entries of a table: one of 20 bits takes thousands of LUTs."""


class FixedArray(NDArrayOperatorsMixin):
    """Fixed-point numbers that are inputs, constants, or computed from such, in an array of any shape.

    Work with it as with an array of numpy: operators, ``@``, slices, ``np.einsum``, ``np.where``, ``np.sort``
    and others record operations. Nothing is rounded but by :meth:`quantize`, and by :meth:`relu` where it is
    told to. The bounds and the step of every element are known exactly (:attr:`kif`, :attr:`lhs`), and the
    program that :func:`trace` makes computes exactly what numpy computes with numbers of these types.
    """

    __array_priority__ = 1000

    def __init__(self, graph: Graph, places: Numbers, entry: FixedArrayInput | None = None) -> None:
        self._own = graph
        self._places = places
        self.entry = entry

    @staticmethod
    def input(
        shape: int | Sequence[int],
        k: Widths,
        i: Widths,
        f: Widths,
        *,
        effort: str = "quick",
        hard_dc: int = -1,
    ) -> FixedArray:
        """What enters a program, quantised by dropping bits: low ones floored, high ones wrapped.

        Args:
            shape: Shape of the array.
            k: 1 with a sign bit, else 0. ``k``, ``i`` and ``f`` are numbers, or arrays that broadcast to the shape.
            i: Integer bits without the sign; may be negative.
            f: Fraction bits; may be negative.
            effort: How long products with constants are searched; see :func:`solve`. Where arrays with several
                meet, the greatest counts.
            hard_dc: Levels of adders that such a product may have above the fewest possible; any number if -1.

        Raises:
            QuincunxError: ``Q0811``: a width is no integer, or shapes do not fit.
        """
        return FixedArrayInput(shape, effort=effort, hard_dc=hard_dc).quantize(k, i, f)

    @staticmethod
    def constant(value: npt.ArrayLike) -> FixedArray:
        """Numbers that are known; every finite float is a fixed-point number."""
        graph = Graph()
        return FixedArray(graph, _constants(graph, value))

    # Where its numbers are

    @property
    def graph(self) -> Graph:
        """The graph that its numbers are in."""
        while self._own.moved is not None:
            self._own, places = self._own.moved
            self._places = places[self._places]
        return self._own

    @property
    def places(self) -> Numbers:
        """The numbers of the graph that it holds, in its shape."""
        _ = self.graph
        return self._places

    def _with(self, places: list[Number] | Numbers, shape: tuple[int, ...] | None = None) -> FixedArray:
        array: Numbers = np.asarray(places, np.int64)
        return FixedArray(self.graph, array if shape is None else array.reshape(shape))

    def _map(self, of: Callable[[Number], Number]) -> FixedArray:
        """A function of every element."""
        return self._with([of(x) for x in self.places.ravel().tolist()], self.shape)

    # What is known

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of all axes."""
        return self._places.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._places.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._places.size

    def __len__(self) -> int:
        return len(self._places)

    @property
    def kif(self) -> npt.NDArray[np.int64]:
        """The smallest type of every element: sign, integer and fraction bits, shape ``(3, *shape)``."""
        bounds = self.graph.bounds
        types = [kif(bounds[x]) for x in self.places.ravel().tolist()]
        return np.array(types, np.int64).reshape(-1, 3).T.reshape(3, *self.shape)

    @property
    def lhs(self) -> npt.NDArray[np.float64]:
        """Lowest and highest number and step of every element, shape ``(3, *shape)``."""
        bounds = [self.graph.bounds[x] for x in self.places.ravel().tolist()]
        rows = [(real(low, unit), real(high, unit), real(1, unit)) for low, high, unit in bounds]
        return np.array(rows, np.float64).reshape(-1, 3).T.reshape(3, *self.shape)

    def __repr__(self) -> str:
        if not self.size:
            return f"<FixedArray {self.shape}>"
        k, i, f = (part.ravel() for part in self.kif)
        return (
            f"<FixedArray {self.shape}: sign {k.max()}, up to {i.max()} integer and {f.max()} fraction bits>"
        )

    def __bool__(self) -> bool:
        raise misused("what is traced has no truth value yet", "choose with numpy.where instead of if")

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        raise misused(
            "what is traced has no values yet", "a function that numpy alone computes cannot be traced"
        )

    # Forms

    def __getitem__(self, key: Any) -> FixedArray:
        return self._with(np.asarray(self.places[key]))

    def __iter__(self) -> Iterator[FixedArray]:
        return (self[place] for place in range(len(self)))

    def reshape(self, *shape: Any) -> FixedArray:
        """The same numbers in another shape."""
        return self._with(self.places.reshape(*shape))

    def transpose(self, *axes: Any) -> FixedArray:
        """The same numbers with permuted axes."""
        return self._with(self.places.transpose(*axes))

    @property
    def T(self) -> FixedArray:
        """The same numbers with reversed axes."""
        return self._with(self.places.T)

    def ravel(self) -> FixedArray:
        """The same numbers with one axis."""
        return self._with(self.places.ravel())

    flatten = ravel

    def copy(self) -> FixedArray:
        """The same; it never changes."""
        return self

    # Arithmetic

    def quantize(
        self,
        k: Widths | None = None,
        i: Widths | None = None,
        f: Widths | None = None,
        overflow_mode: str = "WRAP",
        round_mode: str = "TRN",
    ) -> FixedArray:
        """Every element in a type of ``k`` sign bits, ``i`` integer bits and ``f`` fraction bits.

        Args:
            k, i, f: Numbers, or arrays that broadcast to the shape; as many bits as there are if ``None``.
            overflow_mode: ``WRAP`` drops high bits; ``SAT`` takes the nearest number of the type; ``SAT_SYM``
                the same of those whose negative is a number of the type too.
            round_mode: ``TRN`` drops low bits, ``RND`` rounds to the nearest, halves up.
        """
        _word(overflow_mode, OVERFLOWS, "overflow_mode")
        _word(round_mode, ROUNDINGS, "round_mode")
        known = self.kif if k is None or i is None or f is None else (None,) * 3
        ks, is_, fs = (
            _widths(own if part is None else part, self.shape) for part, own in zip((k, i, f), known)
        )
        quantize = self.graph.quantize
        rows = zip(self.places.ravel().tolist(), ks, is_, fs)
        return self._with([quantize(*row, overflow_mode, round_mode) for row in rows], self.shape)

    def relu(self, i: Widths | None = None, f: Widths | None = None, round_mode: str = "TRN") -> FixedArray:
        """``max(x, 0)``; where ``i`` or ``f`` is given, wrapped to so many integer bits, rounded to fraction bits."""
        _word(round_mode, ROUNDINGS, "round_mode")
        graph = self.graph
        if i is None and f is None:
            return self._map(graph.relu)
        own = self.kif if i is None or f is None else (None,) * 3
        is_, fs = (_widths(bits if part is None else part, self.shape) for part, bits in zip((i, f), own[1:]))
        rows = zip(self.places.ravel().tolist(), is_, fs)
        return self._with([graph.rounded_relu(*row, round_mode) for row in rows], self.shape)

    def apply(self, function: Callable[[npt.NDArray[np.float64]], npt.ArrayLike]) -> Deferred:
        """A function of numbers, to become tables once :meth:`Deferred.quantize` says which numbers they hold.

        Args:
            function: Takes an array of floats and gives one of the same shape.
        """
        return Deferred(self, function)

    def sum(self, axis: Any = None, keepdims: bool = False) -> FixedArray:
        """Sums along axes."""
        return self._reduced(self.graph.add, axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> FixedArray:
        """Means along axes: sums times the reciprocal of the count, as a float has it."""
        total = self.sum(axis, keepdims)
        count = self.size // max(total.size, 1)
        if count & (count - 1):
            raise misused(
                f"the mean of {count} numbers is no fixed-point number",
                "take the sum, and scale it by a rounded constant",
            )
        return cast(FixedArray, total * (1.0 / count))

    def prod(self, axis: Any = None, keepdims: bool = False) -> FixedArray:
        """Products along axes."""
        return self._reduced(self.graph.multiply, axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> FixedArray:
        """Greatest numbers along axes."""
        return self._reduced(self.graph.maximum, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> FixedArray:
        """Least numbers along axes."""
        return self._reduced(self.graph.minimum, axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> FixedArray:
        """Whether any element along axes is not 0."""
        graph = self.graph
        return self._map(graph.truth)._reduced(lambda x, y: graph.bitwise(x, y, 1), axis, keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> FixedArray:
        """Whether no element along axes is 0."""
        graph = self.graph
        return self._map(graph.truth)._reduced(lambda x, y: graph.bitwise(x, y, 0), axis, keepdims)

    def clip(self, low: Operand, high: Operand) -> FixedArray:
        """The nearest numbers between two bounds."""
        return cast(FixedArray, np.minimum(np.maximum(self, low), high))

    def _reduced(self, combine: Callable[[Number, Number], Number], axis: Any, keepdims: bool) -> FixedArray:
        axes = range(self.ndim) if axis is None else _axes(axis, self.ndim)
        kept = [a for a in range(self.ndim) if a not in axes]
        outer = tuple(self.shape[a] for a in kept)
        inner = self.places.transpose(*kept, *axes).reshape(math.prod(outer), -1)
        if inner.shape[-1] == 0:
            raise misused("there is nothing along an axis to combine")
        shape = (
            tuple(1 if a in axes else extent for a, extent in enumerate(self.shape)) if keepdims else outer
        )
        return self._with([self.graph.reduce(row, combine) for row in inner.tolist()], shape)

    # numpy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if ufunc is np.matmul and method == "__call__" and not options:
            return matmul(*inputs)
        if method == "reduce":
            return _reduce(ufunc, *inputs, **options)
        if method != "__call__" or options:
            return NotImplemented
        if ufunc in _BINARY:
            return _elementwise(_BINARY[ufunc], *inputs)
        if ufunc in _UNARY:
            graph, (places,) = together(inputs[0])
            return FixedArray(graph, places)._map(_UNARY[ufunc](graph))
        if ufunc in _SPECIAL:
            return _SPECIAL[ufunc](*inputs)
        if ufunc.nin == 1 and ufunc.nout == 1:
            return inputs[0].apply(ufunc)
        return NotImplemented

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        own = FUNCTIONS.get(function)
        return NotImplemented if own is None else own(*args, **options)


# An array never changes: `x += y` is `x = x + y`.
for _name in "add sub mul truediv pow lshift rshift and or xor matmul".split():
    setattr(FixedArray, f"__i{_name}__", getattr(FixedArray, f"__{_name}__"))


class FixedArrayInput:
    """What enters a program, before its types are said: as da4ml's ``FixedVariableArrayInput``."""

    def __init__(self, shape: int | Sequence[int], *, effort: str = "quick", hard_dc: int = -1) -> None:
        extents = numbers(shape, "the shape").ravel().tolist()
        self.shape = tuple(whole(extent, "an extent", 0, 2**31) for extent in extents)
        self.serials = [new_serial() for _ in range(math.prod(self.shape))]
        self._graph = Graph(Search.checked(effort, hard_dc))

    def quantize(
        self, k: Widths, i: Widths, f: Widths, overflow_mode: str = "WRAP", round_mode: str = "TRN"
    ) -> FixedArray:
        """The numbers in a type; see :meth:`FixedArray.input`. What enters can only be wrapped and floored."""
        if (overflow_mode, round_mode) != ("WRAP", "TRN"):
            raise misused(
                "what enters can only be wrapped and floored", "let it enter wider, and quantize that"
            )
        while self._graph.moved is not None:
            self._graph = self._graph.moved[0]
        places = []
        for serial, *widths in zip(self.serials, *(_widths(part, self.shape) for part in (k, i, f))):
            sign, integer, fraction = widths
            if sign not in (0, 1):
                raise misused(f"k is {sign}", "expected 1 for a sign bit or 0 for none")
            bits = integer + fraction
            low, high = (-sign << bits, (1 << bits) - 1) if sign + bits > 0 else (0, 0)
            places.append(self._graph.input(low, high, -fraction, serial))
        return FixedArray(self._graph, np.array(places, np.int64).reshape(self.shape), self)


class Deferred(NDArrayOperatorsMixin):
    """A function of fixed-point numbers whose results lie on no grid yet; :meth:`quantize` gives them one."""

    def __init__(self, array: FixedArray, function: Callable[..., Any]) -> None:
        self._array = array
        self._function = function

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of all axes."""
        return self._array.shape

    def apply(self, function: Callable[..., Any]) -> Deferred:
        """Another function of the results."""
        first = self._function
        return Deferred(self._array, lambda x: function(first(x)))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options or any(x is not self and not np.isscalar(x) for x in inputs):
            return NotImplemented
        return self.apply(lambda own: ufunc(*(own if x is self else x for x in inputs)))

    def quantize(
        self, k: Widths, i: Widths, f: Widths, overflow_mode: str = "WRAP", round_mode: str = "TRN"
    ) -> FixedArray:
        """The function as tables, rounded to a type; see :meth:`FixedArray.quantize`."""
        _word(overflow_mode, OVERFLOWS, "overflow_mode")
        _word(round_mode, ROUNDINGS, "round_mode")
        array, made = self._array, {}
        results = []
        rows = zip(array.places.ravel().tolist(), *(_widths(part, array.shape) for part in (k, i, f)))
        for x, sign, integer, fraction in rows:
            grid = _grid(array.graph, x)
            key = (grid, sign, integer, fraction)
            if key not in made:
                made[key] = self._entries(*key, overflow_mode, round_mode)
            results.append(array.graph.lookup(x, made[key], -fraction))
        return array._with(results, array.shape)

    def _entries(
        self, grid: tuple[int, int, int, int], k: int, i: int, f: int, overflow: str, rounding: str
    ) -> tuple[int, ...]:
        """Results for the numbers of a grid, in units of ``2**-f``."""
        start, stop, sign, unit = grid
        points = np.ldexp(np.arange(start, stop, dtype=np.float64) * sign, unit)
        with np.errstate(all="ignore"):
            values = np.asarray(self._function(points), np.float64)
        if values.shape != points.shape:
            raise misused(
                f"a function of {points.shape} numbers gives {values.shape}", "expected a result for each"
            )
        if not np.isfinite(values).all():
            at = points[~np.isfinite(values)][0]
            raise misused(
                f"the function is not finite at {at}", "quantize or clip its operand to where it is"
            )
        if not 0 < k + i + f <= 31:
            raise misused(f"a table of {k + i + f} bits cannot be made", "its entries have 1 to 31 bits")
        return tuple(_rounded(values, k, i, f, overflow, rounding).tolist())


def _rounded(
    values: npt.NDArray[np.float64], k: int, i: int, f: int, overflow: str, rounding: str
) -> npt.NDArray[np.int64]:
    scaled = np.floor(np.ldexp(values, f) + (0.5 if rounding == "RND" else 0.0))
    low, high = float(-k * 2 ** (i + f)), 2.0 ** (i + f) - 1
    if overflow == "WRAP":
        scaled = np.mod(scaled - low, high - low + 1) + low
    else:
        scaled = np.clip(scaled, -high * k if overflow == "SAT_SYM" else low, high)
    return scaled.astype(np.int64)


def _grid(graph: Graph, x: Number) -> tuple[int, int, int, int]:
    """The numbers that ``x`` is for those of its slot: first and one behind the last, sign, power of two."""
    slot, shift, negate = graph.numbers[x]
    op = graph.ops[slot]
    if op.high - op.low >= MOST_ENTRIES:
        raise misused(
            f"a table of {op.high - op.low + 1} entries is too large",
            f"quantize its operand to at most {MOST_ENTRIES} numbers",
        )
    return op.low, op.high + 1, -1 if negate else 1, op.unit + shift


# Operands


def _constants(graph: Graph, value: npt.ArrayLike) -> Numbers:
    array = numbers(value, "a constant")
    flat = [graph.constant(*exact(number)) for number in array.ravel().tolist()]
    return np.array(flat, np.int64).reshape(array.shape)


def together(*operands: Operand) -> tuple[Graph, list[Numbers]]:
    """Operands as numbers of one graph."""
    graphs = [operand.graph for operand in operands if isinstance(operand, FixedArray)]
    largest = max(graphs, key=lambda graph: len(graph.ops)) if graphs else Graph()
    for graph in graphs:
        if graph is not largest and graph.moved is None:
            largest.absorb(graph)
    places = [
        operand.places if isinstance(operand, FixedArray) else _constants(largest, operand)
        for operand in operands
    ]
    return largest, places


def _elementwise(choose: Callable[[Graph], Callable[..., Number]], *operands: Operand) -> FixedArray:
    """A function of the elements of arrays that broadcast."""
    if any(isinstance(operand, Deferred) for operand in operands):
        raise misused("the result of a function is used before it is quantised", "call quantize on it first")
    graph, places = together(*operands)
    try:
        places = list(np.broadcast_arrays(*places))
    except ValueError as problem:
        raise misused(f"shapes do not fit: {problem}") from None
    of = choose(graph)
    results = [of(*row) for row in zip(*(array.ravel().tolist() for array in places))]
    return FixedArray(graph, np.array(results, np.int64).reshape(places[0].shape))


def _widths(value: Any, shape: tuple[int, ...]) -> list[int]:
    array = numbers(value, "a number of bits")
    if (
        array.dtype.kind == "f"
        and (array != np.floor(array)).any()
        or array.size
        and np.abs(array).max() > 1024
    ):
        raise misused("a number of bits is no integer, or above 1024")
    if array.ndim == 0:
        return [int(array)] * math.prod(shape)
    try:
        return [int(bits) for bits in np.broadcast_to(array, shape).ravel().tolist()]
    except ValueError:
        raise misused(f"numbers of bits of the shape {array.shape} do not fit an array of {shape}") from None


def _word(value: str, words: tuple[str, ...], name: str) -> None:
    if value not in words:
        raise misused(f"{name} is {value!r}", f"expected one of {', '.join(words)}")


def _axes(axis: Any, ndim: int) -> list[int]:
    axes: list[int] = [int(a) for a in np.atleast_1d(axis)]
    if any(not -ndim <= a < ndim for a in axes):
        raise misused(f"there is no axis {axis} of {ndim}")
    return [a % ndim for a in axes]


# Universal functions


def _not(of: Callable[[Graph], Callable[..., Number]]) -> Callable[[Graph], Callable[..., Number]]:
    return lambda graph: lambda *operands: graph.invert(of(graph)(*operands))


def _swapped(graph: Graph) -> Callable[..., Number]:
    return lambda x, y: graph.less(y, x)


def _bits(operation: int) -> Callable[[Graph], Callable[..., Number]]:
    return lambda graph: lambda x, y: graph.bitwise(x, y, operation)


def _logic(operation: int) -> Callable[[Graph], Callable[..., Number]]:
    return lambda graph: lambda x, y: graph.bitwise(graph.truth(x), graph.truth(y), operation)


_BINARY: dict[np.ufunc, Callable[[Graph], Callable[..., Number]]] = {
    np.add: lambda graph: graph.add,
    np.subtract: lambda graph: graph.sub,
    np.multiply: lambda graph: graph.multiply,
    np.maximum: lambda graph: graph.maximum,
    np.minimum: lambda graph: graph.minimum,
    np.fmax: lambda graph: graph.maximum,
    np.fmin: lambda graph: graph.minimum,
    np.less: lambda graph: graph.less,
    np.greater: _swapped,
    np.less_equal: _not(_swapped),
    np.greater_equal: _not(lambda graph: graph.less),
    np.equal: lambda graph: graph.equal,
    np.not_equal: _not(lambda graph: graph.equal),
    np.bitwise_and: _bits(0),
    np.bitwise_or: _bits(1),
    np.bitwise_xor: _bits(2),
    np.logical_and: _logic(0),
    np.logical_or: _logic(1),
    np.logical_xor: _logic(2),
}

_UNARY: dict[np.ufunc, Callable[[Graph], Callable[[Number], Number]]] = {
    np.negative: lambda graph: graph.negate,
    np.positive: lambda graph: lambda x: x,
    np.absolute: lambda graph: graph.absolute,
    np.fabs: lambda graph: graph.absolute,
    np.square: lambda graph: lambda x: graph.multiply(x, x),
    np.floor: lambda graph: lambda x: graph.floor(x, 0),
    np.bitwise_not: lambda graph: graph.invert,
    np.logical_not: lambda graph: lambda x: graph.invert(graph.truth(x)),
}


def _divide(x: Operand, y: Operand) -> FixedArray:
    """By powers of two."""
    if isinstance(y, FixedArray):
        raise misused(
            "a number that is not known cannot divide", "multiply with a table of reciprocals: apply"
        )
    divisor = numbers(y, "the divisor").astype(np.float64)
    if not (np.abs(np.frexp(divisor)[0]) == 0.5).all():
        raise misused("only powers of two divide exactly", "multiply by a rounded reciprocal instead")
    return cast(FixedArray, x * (1.0 / divisor))  # type: ignore[operator]


def _power(x: Operand, y: Operand) -> FixedArray:
    """To the same whole power."""
    if isinstance(y, FixedArray) or np.ndim(y):
        raise misused("an exponent must be one number", "such as 2 or 3")
    exponent = whole(y, "the exponent", 1, 64)
    # By the bits of the exponent, so that few products are taken.
    squared, result = x, None
    while exponent:
        if exponent & 1:
            result = squared if result is None else result * squared  # type: ignore[operator]
        exponent >>= 1
        squared = squared * squared if exponent else squared  # type: ignore[operator]
    return cast(FixedArray, result)


def _shifted(sign: int, x: Operand, y: Operand) -> FixedArray:
    """Times powers of two; no bits are lost."""
    if isinstance(y, FixedArray):
        raise misused("a shift must be known", "an integer, or an array of integers")
    shifts = numbers(y, "the shift")
    if shifts.dtype.kind == "f":
        raise misused("a shift is no integer")
    return cast(FixedArray, x * np.ldexp(1.0, sign * shifts.astype(np.int64)))


_SPECIAL: dict[np.ufunc, Callable[..., FixedArray]] = {
    np.true_divide: _divide,
    np.power: _power,
    np.float_power: _power,
    np.left_shift: functools.partial(_shifted, 1),
    np.right_shift: functools.partial(_shifted, -1),
}


def _reduce(ufunc: np.ufunc, array: Any, axis: Any = 0, keepdims: bool = False, **options: Any) -> Any:
    names: dict[Any, str] = {
        np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min",
        np.logical_or: "any", np.logical_and: "all",
    }  # fmt: skip
    name = names.get(ufunc)
    if name is None or any(value is not None for value in options.values()):
        return NotImplemented
    return getattr(array, name)(axis, keepdims)


# Matrix products


def matmul(x: Operand, y: Operand) -> FixedArray:
    """``x @ y`` with numpy's rules for axes."""
    a, b = (
        operand if isinstance(operand, FixedArray) else numbers(operand, "a factor") for operand in (x, y)
    )
    if a.ndim == 0 or b.ndim == 0:
        raise misused("a factor of a matrix product has no axis", "multiply with * instead")
    rows, columns = a.ndim == 1, b.ndim == 1
    a = a[np.newaxis] if rows else a
    b = b[:, np.newaxis] if columns else b
    if a.shape[-1] != b.shape[-2]:
        raise misused(
            f"shapes {a.shape} and {b.shape} do not fit",
            "the last axis of one is the second last of the other",
        )
    try:
        outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise misused(f"shapes {a.shape} and {b.shape} do not fit") from None
    result = _products(_stacked(a, outer), _stacked(b, outer)).reshape(*outer, a.shape[-2], b.shape[-1])
    result = result[..., 0, :] if rows else result
    return result[..., 0] if columns else result


def _stacked(array: Any, outer: tuple[int, ...]) -> Any:
    """Matrices along one axis."""
    shape = (*outer, *array.shape[-2:])
    if isinstance(array, FixedArray):
        return array._with(np.broadcast_to(array.places, shape).reshape(-1, *array.shape[-2:]))
    return np.broadcast_to(array, shape).reshape(-1, *array.shape[-2:])


def _products(x: Any, y: Any) -> FixedArray:
    """Products of matrices one by one: shapes ``(n, r, c)`` and ``(n, c, s)``."""
    if isinstance(x, FixedArray) and isinstance(y, FixedArray):
        return _of_variables(x, y)
    if isinstance(y, FixedArray):
        return _products(y.transpose(0, 2, 1), np.swapaxes(x, 1, 2)).transpose(0, 2, 1)
    weights, unit = whole_matrix(y, "a factor")
    graph = x.graph
    results: list[Number] = []
    for rows, matrix in zip(x.places.tolist(), weights):
        for row in rows:
            results += graph.product(row, matrix)
    results = [graph.scale(number, unit) for number in results] if unit else results
    return FixedArray(graph, np.array(results, np.int64).reshape(len(weights), x.shape[1], y.shape[2]))


def _of_variables(x: FixedArray, y: FixedArray) -> FixedArray:
    graph, (left, right) = together(x, y)
    results = []
    for rows, columns in zip(left.tolist(), right.transpose(0, 2, 1).tolist()):
        for row in rows:
            for column in columns:
                products = [graph.multiply(a, b) for a, b in zip(row, column)]
                results.append(graph.reduce(products, graph.add) if products else graph.constant(0))
    return FixedArray(graph, np.array(results, np.int64).reshape(len(left), left.shape[1], right.shape[2]))
