"""Fixed-point numbers in exact arithmetic: integers times powers of two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .._errors import misused

Bounds: TypeAlias = tuple[int, int, int]
"""``(low, high, exponent)``: every multiple of ``2**exponent`` from ``low * 2**exponent`` to
``high * 2**exponent``."""

ZERO: Bounds = (0, 0, 0)

LARGEST_EXPONENT = 1100
"""Farthest power of two: that of the smallest float."""


def shifted(number: int, by: int) -> int:
    """``floor(number * 2**by)``."""
    return number << by if by >= 0 else number >> -by


def aligned(a: Bounds, b: Bounds) -> tuple[int, int, int, int, int]:
    """Bounds of both in the finer of the two steps, and its power of two. Zero has any step."""
    (low_a, high_a, unit_a), (low_b, high_b, unit_b) = a, b
    if unit_a == unit_b:
        return low_a, high_a, low_b, high_b, unit_a
    if low_a == high_a == 0:
        return 0, 0, low_b, high_b, unit_b
    if low_b == high_b == 0:
        return low_a, high_a, 0, 0, unit_a
    if unit_a > unit_b:
        by = unit_a - unit_b
        return low_a << by, high_a << by, low_b, high_b, unit_b
    by = unit_b - unit_a
    return low_a, high_a, low_b << by, high_b << by, unit_a


def negated(bounds: Bounds) -> Bounds:
    """Bounds of the negated number."""
    low, high, unit = bounds
    return -high, -low, unit


def integer_bits(low: int, high: int) -> int:
    """Bits of a two's complement number of this range, its sign aside."""
    return max((-low - 1).bit_length() if low < 0 else 0, high.bit_length() if high > 0 else 0)


def kif(bounds: Bounds) -> tuple[int, int, int]:
    """The smallest type of a range: sign, integer and fraction bits."""
    low, high, unit = bounds
    if low == high == 0:
        return 0, 0, 0
    return int(low < 0), integer_bits(low, high) + unit, -unit


def exact(number: float | int) -> tuple[int, int]:
    """A number as ``(integer, exponent)``, the integer odd or 0."""
    if isinstance(number, float):
        if not math.isfinite(number):
            raise misused(f"{number} is no fixed-point number", "constants must be finite")
        numerator, denominator = number.as_integer_ratio()
        exponent = 1 - denominator.bit_length()
    else:
        numerator, exponent = int(number), 0
    if numerator == 0:
        return 0, 0
    zeros = (numerator & -numerator).bit_length() - 1
    return numerator >> zeros, exponent + zeros


def real(low: int, unit: int) -> float:
    """``low * 2**unit``, which a float must hold."""
    if low.bit_length() > 53:
        raise misused(
            f"a number of {low.bit_length()} bits is too wide", "quantize what is added or multiplied first"
        )
    try:
        return math.ldexp(low, unit)
    except OverflowError:
        raise misused("a number is too large", "quantize what is multiplied first") from None


def whole(value: object, name: str, low: int, high: int) -> int:
    """An integer argument within a range, both ends included."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or number != value or not low <= number <= high:
        raise misused(f"{name} is {value!r}", f"expected an integer from {low} to {high}")
    return int(number)


def numbers(value: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    """An array of integers, truth values or floats, all of them finite."""
    try:
        array = np.asarray(value)
    except ValueError as problem:
        raise misused(f"{name} is no array: {problem}", "rows must be equally long") from None
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise misused(
            f"{name} has elements of type {array.dtype}", "expected integers or floats of up to 64 bits"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise misused(f"{name} holds NaN or infinity", "fixed-point numbers are finite")
    return array


def whole_matrix(kernel: npt.ArrayLike, name: str = "the kernel") -> tuple[npt.NDArray[np.int64], int]:
    """A matrix as integers and their common power of two, exactly."""
    array = numbers(kernel, name)
    if array.dtype.kind != "f":
        if array.size and max(int(np.max(array)), -int(np.min(array))) >= 1 << 62:
            raise _large(name)
        return array.astype(np.int64), 0
    mantissas, exponents = np.frexp(array.astype(np.float64))
    odd = np.ldexp(mantissas, 53).astype(np.int64)
    used = odd != 0
    if not used.any():
        return np.zeros(array.shape, np.int64), 0
    zeros = np.frexp((odd & -odd).astype(np.float64))[1] - 1
    unit = int(np.min((exponents - 53 + zeros)[used]))
    if int(np.max(exponents[used])) - unit > 62:
        raise _large(name)
    # In two steps, since a power of two alone may be no float.
    scaled = np.ldexp(np.ldexp(array.astype(np.float64), -(unit // 2)), unit // 2 - unit)
    return scaled.astype(np.int64), unit


def _large(name: str) -> Exception:
    return misused(f"{name} has numbers of more than 62 bits together", "round it to fewer bits first")


def bounds_of(interval: Sequence[float], name: str) -> Bounds:
    """Bounds of ``(min, max, step)``."""
    try:
        low, high, step = (float(number) for number in interval)
    except (TypeError, ValueError):
        raise misused(f"{name} is {interval!r}", "expected three numbers: min, max and step") from None
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise misused(f"{name} goes from {low} to {high}", "expected finite numbers, min not above max")
    if low == high == 0:
        return ZERO
    mantissa, exponent = math.frexp(step)
    if mantissa != 0.5 or not math.isfinite(step):
        raise misused(f"the step of {name} is {step}", "expected a power of two")
    unit = exponent - 1
    ends = [math.ldexp(end, -unit) if abs(end) < step * 2.0**53 else math.inf for end in (low, high)]
    if any(not math.isfinite(end) or end != int(end) for end in ends):
        raise misused(
            f"{name} goes from {low} to {high} in steps of {step}",
            "expected multiples of the step, fewer than 2**53",
        )
    return int(ends[0]), int(ends[1]), unit
