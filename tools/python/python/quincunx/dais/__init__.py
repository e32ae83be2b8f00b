"""Adder graphs: what da4ml and alkaid do, on the library.

>>> import numpy as np
>>> from quincunx.dais import FixedArray, solve, trace
>>> solve(np.array([[5, 5], [3, -3]])).cost
4.0
>>> x = FixedArray.input(4, k=1, i=3, f=2)
>>> y = (x @ np.array([[1, 2], [3, -4], [0.5, 6], [7, 8]])).relu(i=4, f=2)
>>> trace(x, y)(np.array([1, 2, -3, 0.25]))
array([7.25, 0.  ])
"""

from ._array import Deferred, FixedArray, FixedArrayInput
from ._hls4ml import in_hls4ml
from ._program import Op, Program, load
from ._solve import solve
from ._trace import comb_trace, trace

__all__ = [
    "Deferred",
    "FixedArray",
    "FixedArrayInput",
    "Op",
    "Program",
    "comb_trace",
    "in_hls4ml",
    "load",
    "solve",
    "trace",
]
