"""Networks of Keras and PyTorch, through the exporters to ONNX that these have."""

from __future__ import annotations

import inspect
import io
import re
import tempfile
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ._errors import QuincunxError, misused
from ._model import Model, load
from ._quantisers import Marks, fixed_point


def from_keras(model: Any, *, name: str | None = None) -> Model:
    """Reads a network of Keras 3, which writes it as ONNX itself, or of ``tf_keras``, through tf2onnx.

    Nodes are called like their layers: the node that multiplies as the layer, others of it
    ``layer.operator``; outputs as the layers that compute them. The batch is 1. Fixed-point quantisers of HGQ2 and QKeras become one ``Quantise``
    each, exactly (on TensorFlow); quantisers that are something else, the operators that they are made of.

    Args:
        model: A ``keras.Model`` with known shapes of its inputs.
        name: What messages call it; the name of the network if ``None``.

    Raises:
        QuincunxError: What cannot be exported, or is not supported.
    """
    known = {layer.name for layer in _layers_of_keras(model)}

    def layer_of(node: str) -> str | None:
        # Scopes of TensorFlow: `network_1/conv1_1/convolution`, with a count behind names.
        for part in node.replace(";", "/").split("/"):
            for candidate in (part, part.rsplit("_", 1)[0]):
                if candidate in known:
                    return candidate
        return None

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # What the exporter's own code is warned of is not the user's.
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        try:
            # The exporter wants a network that has been called, and so do quantisers.
            model(_zeros_of_keras(model))
            with fixed_point(list(model._flatten_layers())) as marks:
                if "format" in inspect.signature(model.export).parameters:
                    model.export(str(path), format="onnx", verbose=False)
                else:
                    convert: Any = import_module("tf2onnx.convert")
                    convert.from_keras(model, output_path=str(path))
        except QuincunxError:
            raise
        except Exception as error:
            raise misused(f"Keras cannot export the network: {error}", "see keras.Model.export") from error
        outputs = [str(tensor._keras_history[0].name) for tensor in model.outputs]
        return _named(path.read_bytes(), layer_of, name or str(model.name), outputs, marks)


def _layers_of_keras(model: Any) -> list[Any]:
    """All layers, those within layers too."""
    if not hasattr(model, "layers") or not hasattr(model, "export"):
        raise misused(f"a {type(model).__name__} is no network of Keras", "give a keras.Model")
    found = []
    for layer in model.layers:
        found += _layers_of_keras(layer) if hasattr(layer, "layers") else [layer]
    return found


def _zeros_of_keras(model: Any) -> Any:
    inputs = model.inputs
    if not inputs or any(extent is None for tensor in inputs for extent in tensor.shape[1:]):
        raise misused("the network has inputs of unknown shape", "begin it with a keras.layers.Input")
    zeros = [np.zeros((1, *tensor.shape[1:]), _dtype_name(tensor)) for tensor in inputs]
    return zeros[0] if len(zeros) == 1 else zeros


def _dtype_name(tensor: Any) -> str:
    # Keras 3 has names, TensorFlow objects.
    return str(getattr(tensor.dtype, "name", tensor.dtype))


def from_torch(
    module: Any,
    inputs: Any,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    name: str | None = None,
) -> Model:
    """Reads a network of PyTorch, which writes it as ONNX itself; one with quantisers of Brevitas as QONNX.

    Nodes are called like their modules: the node that multiplies ``block.conv1``, others of the module
    ``block.conv1.operator``. The module is exported as it is used, in evaluation.

    Args:
        module: A ``torch.nn.Module``.
        inputs: What it is called with: a tensor, or a tuple of them. Their shapes are those of the network.
        input_names: Names of the inputs; ``x``, ``x1`` and so on if ``None``.
        output_names: Names of the outputs; ``y``, ``y1`` and so on if ``None``.
        name: What messages call it; the class of the module if ``None``.

    Raises:
        QuincunxError: What cannot be exported, or is not supported.
    """
    if not hasattr(module, "named_modules"):
        raise misused(f"a {type(module).__name__} is no module of PyTorch", "give a torch.nn.Module")
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    known = {path for path, _ in module.named_modules() if path}
    names_in = list(input_names or (f"x{number or ''}" for number in range(len(given))))

    def layer_of(node: str) -> str | None:
        # Scopes: `/block/conv1/Conv`.
        parts = [part for part in node.split("/") if part][:-1]
        while parts and ".".join(parts) not in known:
            parts.pop()
        return ".".join(parts) or None

    was_training = module.training
    module.eval()
    try:
        text = _exported(module, given, names_in, list(output_names or ["y"]))
    finally:
        module.train(was_training)
    return _named(text, layer_of, name or type(module).__name__)


def _exported(module: Any, given: tuple[Any, ...], inputs: list[str], outputs: list[str]) -> bytes:
    """The module as ONNX, or as QONNX where Brevitas quantises."""
    is_quantised = any(type(part).__module__.startswith("brevitas.") for part in module.modules())
    try:
        if is_quantised:
            export_qonnx: Any = import_module("brevitas.export").export_qonnx
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.onnx"
                export_qonnx(module, args=given, export_path=str(path), input_names=inputs, output_names=outputs)
                return path.read_bytes()
        torch: Any = import_module("torch")
        # Of the two exporters that newer versions have, the one that keeps the names of modules.
        new = "dynamo" in inspect.signature(torch.onnx.export).parameters
        more: dict[str, Any] = {"dynamo": False} if new else {}
        stream = io.BytesIO()
        torch.onnx.export(module, given, stream, input_names=inputs, output_names=outputs, **more)
        return stream.getvalue()
    except Exception as error:
        raise misused(f"PyTorch cannot export the module: {error}", "see torch.onnx.export") from error


MULTIPLIES = ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN")
PREPARES = ("Quantise", "Quant", "Transpose", "Reshape")


def _named(
    text: bytes,
    layer_of: Callable[[str], str | None],
    name: str,
    outputs: Sequence[str] = (),
    marks: Marks | None = None,
) -> Model:
    """The model with nodes and outputs called like layers, and with its quantisers."""
    try:
        onnx: Any = import_module("onnx")
    except ImportError:
        raise misused("the package onnx is not installed", "pip install onnx") from None
    proto = onnx.load_model_from_string(text)
    if marks is not None:
        marks.replace(proto)
    if outputs:
        _name_outputs(proto.graph, outputs)
    taken: set[str] = set()

    def rank(node: Any) -> int:
        # What multiplies gets the name of the layer, else what does not only prepare its operands.
        return 0 if node.op_type in MULTIPLIES else 1 if node.op_type not in PREPARES else 2

    for node in sorted(proto.graph.node, key=rank):
        layer = layer_of(node.name)
        if layer is None:
            taken.add(node.name)
            continue
        wanted = layer if layer not in taken else f"{layer}.{node.op_type.lower()}"
        number = 1
        while wanted in taken:
            number += 1
            wanted = f"{layer}.{node.op_type.lower()}{number}"
        taken.add(wanted)
        node.name = wanted
    return load(proto, name=name)


def _name_outputs(graph: Any, layers: Sequence[str]) -> None:
    """Names outputs that only have numbers, unless another value has the name."""
    values = {value.name for value in (*graph.input, *graph.initializer)}
    values |= {value for node in graph.node for value in node.output}
    for output in graph.output:
        before, numbered = output.name, re.fullmatch(r"Identity(?:_(\d+))?:0", output.name)
        name = layers[int(numbered[1] or 0)] if numbered else before
        if name in values:
            continue
        values.add(name)
        output.name = name
        for node in graph.node:
            node.input[:] = [name if value == before else value for value in node.input]
            node.output[:] = [name if value == before else value for value in node.output]
