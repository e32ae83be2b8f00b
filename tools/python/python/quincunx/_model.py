"""Networks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from . import _core
from ._arrays import ArrayLike, Data, data, given, taken_all
from ._errors import misused, whole, whole_or_none
from ._report import Report

Progress: TypeAlias = Callable[[str, int, int], object]
"""Told ``(what, done, of)`` now and then, from the thread that does the work. What it raises stops the
work. ``of`` is 0 where the number of steps is not known."""


class Spec(NamedTuple):
    """An input or output.

    Attributes:
        name: Name in the model.
        dtype: Element type, in the words of numpy (or of ``ml_dtypes``).
        shape: Extents for one inference.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


class Node(NamedTuple):
    """A node of a network.

    Attributes:
        name: Name in the model.
        op: Operator, in the words of ONNX.
        output: Name of its result.
        macs: Multiplications with accumulation.
    """

    name: str
    op: str
    output: str
    macs: int


class Model:
    """A network as :func:`load` has read it. It does not change."""

    def __init__(self, core: _core.Model, source: tuple[Any, ...] | None = None) -> None:
        self._core = core
        # What it was read from, for processes that read it again.
        self._source = source

    @property
    def name(self) -> str:
        """What messages call it."""
        return self._core.name

    @property
    def format(self) -> str:
        """How it was written, in words."""
        return self._core.format

    @property
    def inputs(self) -> list[Spec]:
        """What it needs."""
        return [Spec(name, dtype, tuple(shape)) for name, dtype, shape in self._core.inputs]

    @property
    def outputs(self) -> list[Spec]:
        """What it computes. The first one decides the class of an image."""
        return [Spec(name, dtype, tuple(shape)) for name, dtype, shape in self._core.outputs]

    @property
    def nodes(self) -> list[Node]:
        """Its nodes, in an order in which they can run."""
        return [Node(*node) for node in self._core.nodes]

    @property
    def is_quantised(self) -> bool:
        """Whether some value lies on a grid: a quantiser, or constants stored as codes."""
        return self._core.is_quantised

    def onnx(self, dialect: str = "auto") -> bytes:
        """The network as an ONNX file.

        Args:
            dialect: ``qdq`` or ``qonnx`` for how quantisers are written; ``auto`` takes QDQ where it can
                say the same.
        """
        return self._core.onnx(dialect)

    def save(self, path: str | os.PathLike[str], dialect: str = "auto") -> None:
        """Writes it as an ONNX file; what is there is replaced once all of it is written."""
        _core.write(path, self.onnx(dialect))

    def run(
        self,
        inputs: Data,
        *,
        images: int = 1,
        layers: bool = False,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> dict[str, npt.NDArray[Any]]:
        """Runs the network as it is: in f32, and exactly where it is quantised.

        Args:
            inputs: See :data:`quincunx.Data`.
            images: How many to make up, where inputs are ``"random:SEED"`` and the like.
            layers: Every value of the network, not only its outputs.
            threads: Threads over images; as many as there are processors if ``None``. The result does not
                depend on it.
            progress: See :data:`quincunx.Progress`.

        Returns:
            Arrays by name, of several images stacked along the outermost axis.
        """
        images_given = data(inputs, self._core.inputs, images)
        count = whole_or_none("threads", threads)
        return taken_all(self._core.run(images_given, layers, count, progress))

    def __repr__(self) -> str:
        def spec(all: list[Spec]) -> str:
            return ", ".join(f"{s.name} {s.dtype}{list(s.shape)}" for s in all)

        count = len(self._core.nodes)
        return f"<Model {self.name}: {count} nodes, {spec(self.inputs)} -> {spec(self.outputs)}>"


ModelLike: TypeAlias = Union[Model, str, "os.PathLike[str]", bytes, Any]
"""A model, a path, the bytes of a file, an ``onnx.ModelProto`` or a ``GraphDef``: what has a method
``SerializeToString``."""


def _names(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _extents(name: str, shape: Sequence[int]) -> list[int]:
    return [whole(f"an extent of {name}", extent, 0) for extent in shape]


def _numbers(name: str, value: ArrayLike) -> str:
    """Numbers as the command line has them, without a loss."""
    array = given(name, value)[4]
    if array.dtype.kind not in "iu":
        array = array.astype(np.uint8 if array.dtype.kind == "b" else np.float64)
    return ",".join(map(repr, array.ravel().tolist()))


def load(
    source: ModelLike,
    *,
    name: str = "model",
    outputs: str | Sequence[str] = (),
    inputs: str | Sequence[str] = (),
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, ArrayLike] | None = None,
) -> Model:
    """Reads a network: ONNX (also QDQ and QONNX), a frozen TensorFlow graph, or a model of a machine's
    own ecosystem. The contents say which it is.

    Args:
        source: See :data:`quincunx.ModelLike`. External data of a file is looked up beside it.
        name: What messages call a model that is not a file.
        outputs: Names (or one name) of the values that become its outputs; those that it declares if there
            are none.
        inputs: Names of values that become inputs; what computes them is not looked at.
        shapes: Shapes of inputs by name, in place of those in the file.
        dims: Extents of symbolic dimensions by name; an open dimension without a name is called
            ``input:axis``. All others become 1.
        values: Numbers of inputs by name, which become constants.

    Raises:
        QuincunxError: All that is wrong with the file, or what is not supported in it.
    """
    if isinstance(source, Model):
        return source
    part = (
        _names(outputs),
        _names(inputs),
        [(key, _extents(key, shape)) for key, shape in (shapes or {}).items()],
        [(key, whole(key, extent, 0)) for key, extent in (dims or {}).items()],
        [(key, _numbers(key, value)) for key, value in (values or {}).items()],
    )
    if isinstance(source, (str, os.PathLike)):
        return _loaded(source, None, name, part)
    serialise = getattr(source, "SerializeToString", None)
    if serialise is not None:
        source = serialise()
    if not isinstance(source, (bytes, bytearray, memoryview)):
        raise misused(
            f"a {type(source).__name__} is no model",
            "give a path, the bytes of a file, an onnx.ModelProto or a GraphDef",
        )
    return _loaded(None, bytes(source), name, part)


def _loaded(*source: Any) -> Model:
    return Model(_core.load(*source), source)


def quantise(
    model: ModelLike,
    calibrate: Data,
    *,
    images: int = 1,
    scheme: str = "affine-int8",
    method: str = "mse",
    percentile: float = 99.99,
    activations: str | None = None,
    widths: str | None = None,
    dialect: str = "auto",
    fold_batch_norm: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[Model, Report]:
    """Quantises a float network with calibration data.

    Args:
        model: See :data:`quincunx.ModelLike`.
        calibrate: Inputs to find ranges and to measure errors on; see :data:`quincunx.Data`.
        images: How many to make up, where that is asked for.
        scheme: ``affine-int8`` (scale and zero point per activation, scale per output channel of weights),
            ``pow2`` (all scales are powers of two), or ``uniform:FP16BP8`` and the like (one format for all
            numbers).
        method: How ranges follow from data: ``mse``, ``min-max`` or ``percentile``.
        percentile: The percentile of that method.
        activations: ``u8`` or ``s8`` for the codes of results.
        widths: The text of a file of ``--widths``: what is different for single layers.
        dialect: How quantisers are written: ``qdq``, ``qonnx`` or ``auto``.
        fold_batch_norm: Batch normalisations become part of the layers before them.
        threads: Threads; the result does not depend on it.
        progress: See :data:`quincunx.Progress`.

    Returns:
        The quantised network, and what became of its layers: grids and signal to noise.
    """
    choices = {"mse", "min-max", "percentile"}
    if method not in choices:
        raise misused(f'no method is named "{method}"', f"methods are {', '.join(sorted(choices))}")
    if activations not in (None, "u8", "s8"):
        raise misused(f'activations cannot be "{activations}"', "they are u8 or s8")
    model = load(model)
    how = {
        "scheme": scheme,
        "method": method,
        "percentile": float(percentile),
        "activations": activations,
        "widths": widths,
        "dialect": dialect,
        "fold_batch_norm": fold_batch_norm,
        "threads": whole_or_none("threads", threads),
    }
    images_given = data(calibrate, model._core.inputs, images)
    quantised, report = _core.quantise(model._core, images_given, how, progress)
    return Model(quantised), Report(report)
