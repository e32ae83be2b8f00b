"""Products with constant matrices as adder graphs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core
from .._errors import QuincunxWarning, misused
from ._numbers import bounds_of, whole, whole_matrix
from ._program import Program

_BYTE = (-128, 127, 0)

EFFORTS = ("quick", "fast", "default", "max")


class Search(NamedTuple):
    """How products are searched: an effort, and levels of adders above the fewest possible, any number if -1."""

    effort: str = "quick"
    hard_dc: int = -1

    @staticmethod
    def checked(effort: str, hard_dc: int) -> Search:
        """A search that there is."""
        if effort not in EFFORTS:
            raise misused(f"no effort is named {effort!r}", f"efforts are {', '.join(EFFORTS)}")
        return Search(effort, whole(hard_dc, "hard_dc", -1, 2**31 - 1))

    def given(self, sizes: tuple[int, int]) -> tuple[str, int | None, tuple[int, int]]:
        """The same for the library, with sizes of adders and carries."""
        return self.effort, None if self.hard_dc < 0 else self.hard_dc, sizes

    def both(self, other: Search) -> Search:
        """The greater effort, and the fewer levels."""
        effort = max(self.effort, other.effort, key=EFFORTS.index)
        bounds = [search.hard_dc for search in (self, other) if search.hard_dc >= 0]
        return Search(effort, min(bounds, default=-1))


def solve(
    kernel: npt.ArrayLike,
    method0: str = "wmc",
    method1: str = "auto",
    hard_dc: int = -1,
    decompose_dc: int = -2,
    qintervals: Sequence[tuple[float, float, float]] | None = None,
    latencies: Sequence[float] | None = None,
    adder_size: int = -1,
    carry_size: int = -1,
    search_all_decompose_dc: bool = True,
    *,
    effort: str = "quick",
) -> Program:
    """``x @ kernel`` as additions, subtractions and shifts, with as few of them as the search finds.

    Arguments are those of ``da4ml.cmvm.solve``, in the same order.

    Args:
        kernel: Fixed-point numbers, shape ``(inputs, outputs)``. Every float is one; together they take no more
            than 48 bits.
        method0, method1, decompose_dc, search_all_decompose_dc: Settings of da4ml's own search. This search has
            no use for them; other values than those here are warned of.
        hard_dc: Levels of adders above the fewest possible; any number if -1.
        qintervals: ``(min, max, step)`` of every input, ends included; ``(-128, 127, 1)`` each if ``None``.
        latencies: When each input is there, in the unit of the carry size; 0 if ``None``.
        adder_size: Bits of one unit of cost; -1 counts additions.
        carry_size: Bits that a carry passes in one unit of latency; -1 counts levels of adders.
        effort: How long to search: ``quick`` and ``fast`` take milliseconds, of which ``fast`` takes some for tiny
            kernels too; ``default`` less than a millisecond for every adder, ``max`` seconds.

    Raises:
        QuincunxError: ``Q0811``: an argument is no such thing, or shapes do not fit. ``Q1143``: numbers are too
            large.
    """
    weights, unit = whole_matrix(kernel)
    if weights.ndim != 2 or 0 in weights.shape:
        raise misused(
            f"the kernel has the shape {weights.shape}", "expected (inputs, outputs), none of them 0"
        )
    _unused(method0, method1, decompose_dc, search_all_decompose_dc)
    inputs, columns = weights.shape
    bounds = [_BYTE] * inputs
    if qintervals is not None:
        bounds = [bounds_of(interval, f"the interval of input {i}") for i, interval in enumerate(qintervals)]
    times = [0.0] * inputs if latencies is None else _times(latencies)
    for name, given in (("intervals", bounds), ("latencies", times)):
        if len(given) != inputs:
            raise misused(f"{len(given)} {name} are given", f"the kernel has {inputs} inputs")
    search = Search.checked(effort, hard_dc)
    sizes = _size(adder_size, "adder_size"), _size(carry_size, "carry_size")
    core = _core.solve(
        (weights.ravel().tolist(), unit, columns),
        [(*bound, time) for bound, time in zip(bounds, times)],
        search.given(sizes),
    )
    return Program(core)


def _times(latencies: Sequence[float]) -> list[float]:
    try:
        times = [float(time) for time in latencies]
    except (TypeError, ValueError):
        raise misused("latencies are no list of numbers") from None
    if not all(0 <= time <= 1e6 for time in times):
        raise misused("a latency is below 0, above 1000000 or no number")
    return times


def _size(value: int, name: str) -> int:
    size = whole(value, name, -1, 65535)
    if size == 0:
        raise misused(f"{name} is 0", "expected a number of bits, or -1 for any")
    return size


def _unused(method0: str, method1: str, decompose_dc: int, search_all: bool) -> None:
    if (method0, method1, decompose_dc, bool(search_all)) == ("wmc", "auto", -2, True):
        return
    warnings.warn(
        "method0, method1, decompose_dc and search_all_decompose_dc choose among searches of da4ml, and nothing here",
        QuincunxWarning,
        stacklevel=3,
    )


def solve_rows(
    weights: npt.NDArray[np.int64], inputs: list[tuple[int, int, int, float]], search: Search
) -> _core.Graph:
    """The product of whole numbers with bounds, a step and a latency each, for a trace."""
    return _core.solve((weights.ravel().tolist(), 0, weights.shape[1]), inputs, search.given((1, -1)))
