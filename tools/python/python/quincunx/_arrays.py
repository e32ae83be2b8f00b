"""Arrays of numpy for the library, and back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from . import _core
from ._errors import misused, whole

ArrayLike: TypeAlias = npt.ArrayLike
"""What numpy makes an array of."""

Data: TypeAlias = Union[str, "os.PathLike[str]", ArrayLike, Mapping[str, ArrayLike]]
"""A file (``.npz``, ``.npy``, ``.csv``, ``.png``, ``.pgm``), ``"random:SEED"``, ``"zeros"``, ``"ones"``,
arrays by the names of inputs (and ``labels``), or one array for a network with one input. Images are
stacked along the outermost axis."""

Given: TypeAlias = tuple[str, str, tuple[int, ...], int, npt.NDArray[Any]]


def given(name: str, value: ArrayLike) -> Given:
    """An array as the library takes it: dense, in the order of C and the bytes of this machine.

    Such an array is used where it lies; any other is copied.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise misused(f'array "{name}" is masked', "fill it first, with numpy.ma.filled")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise misused(f'"{name}" is no array', str(error)) from error
    if array.dtype.kind not in "biuf" and array.dtype.kind != "V" or array.dtype.names:
        raise misused(
            f'array "{name}" has elements of type {array.dtype}',
            "integers, floats and truth values can be used; convert it with numpy.asarray(..., dtype=...)",
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = array.copy(order="C")
    if array.dtype.name == "longdouble" or array.dtype.itemsize > 8:
        raise misused(f'array "{name}" has elements of type {array.dtype}', "convert it to float64 first")
    return (name, array.dtype.name, array.shape, array.__array_interface__["data"][0], array)


def data(value: Data, inputs: list[tuple[str, str, list[int]]], count: int) -> Any:
    """Data as the library takes it; an array alone is that of the only input."""
    if isinstance(value, (bytes, bytearray)):
        raise misused("bytes are no data", "numpy.frombuffer makes an array of them")
    if isinstance(value, (str, os.PathLike)):
        return (os.fspath(value), whole("images", count))
    if isinstance(value, Mapping):
        return [given(str(name), array) for name, array in value.items()]
    if len(inputs) != 1:
        names = ", ".join(f'"{name}"' for name, _, _ in inputs)
        raise misused(f"one array is given, the inputs are {names}", "give a dict of arrays by name")
    return [given(inputs[0][0], value)]


def taken(array: _core.Array) -> npt.NDArray[Any]:
    """A tensor as an array, in the memory that the library has written it to."""
    result: npt.NDArray[Any] = np.asarray(array)
    name = array.dtype
    if result.dtype.name == name:
        return result
    if name == "bool":
        return result.view(np.bool_)
    # A type that numpy has not: bits, unless the package with these types is there.
    try:
        import ml_dtypes
    except ImportError:
        return result
    return result.view(getattr(ml_dtypes, name))


def taken_all(arrays: list[tuple[str, _core.Array]]) -> dict[str, npt.NDArray[Any]]:
    """The same of several, by name."""
    return {name: taken(array) for name, array in arrays}
