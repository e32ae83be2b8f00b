"""Our adder graphs in hls4ml, whose strategy ``distributed_arithmetic`` asks da4ml for them."""

from __future__ import annotations

import contextlib
import importlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import misused
from ._array import FixedArray
from ._solve import Search
from ._trace import trace


@contextlib.contextmanager
def in_hls4ml(effort: str = "default") -> Iterator[None]:
    """While it lasts, products with constants that hls4ml traces with da4ml are traced here.

    hls4ml asks for them while it converts a model; what it writes, and how, stays its own::

        with quincunx.dais.in_hls4ml():
            hls_model = hls4ml.converters.convert_from_keras_model(model, ...)

    Only layers of the strategy ``distributed_arithmetic`` are affected (dense layers, convolutions, einsum). Whole
    networks that da4ml converts for hls4ml are not.

    Args:
        effort: How long products are searched; see :func:`solve`.

    Raises:
        QuincunxError: ``Q0811``: da4ml is not installed.
    """
    Search.checked(effort, -1)
    try:
        theirs: Any = importlib.import_module("da4ml.trace")
        load = importlib.import_module("da4ml.types").CombLogic.load
    except ImportError:
        raise misused("da4ml is not installed", "hls4ml needs it: pip install da4ml") from None
    arrays, comb_trace = theirs.FixedVariableArray, theirs.comb_trace

    class Arrays(arrays):  # type: ignore[misc, valid-type]
        """da4ml's arrays; those for products with constants, for which hls4ml says how to search, are ours."""

        @classmethod
        def from_kif(
            cls,
            k: Any,
            i: Any,
            f: Any,
            hwconf: Any = None,
            latency: Any = 0.0,
            solver_options: Mapping[str, Any] | None = None,
        ) -> Any:
            if solver_options is None or np.any(latency):
                given = {} if hwconf is None else {"hwconf": hwconf}
                return arrays.from_kif(k, i, f, latency=latency, solver_options=solver_options, **given)
            hard_dc = solver_options.get("hard_dc", -1)
            return FixedArray.input(np.shape(k), k, i, f, effort=effort, hard_dc=hard_dc)

    def traced(inputs: Any, outputs: Any, *args: Any, **options: Any) -> Any:
        if not isinstance(outputs, FixedArray):
            return comb_trace(inputs, outputs, *args, **options)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "program.json")
            trace(inputs, outputs).save(path)
            return load(path)

    theirs.FixedVariableArray, theirs.comb_trace = Arrays, traced
    try:
        yield
    finally:
        theirs.FixedVariableArray, theirs.comb_trace = arrays, comb_trace
