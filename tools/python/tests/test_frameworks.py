"""Networks of Keras and PyTorch: numbers of the framework, names of its layers."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import quincunx
from quincunx import QuincunxError
from quincunx._frameworks import _named

onnx = pytest.importorskip("onnx")


def test_nodes_are_called_like_layers() -> None:
    make = onnx.helper
    weights = onnx.numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    value = [make.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in ("x", "y")]
    nodes = [
        make.make_node("Relu", ["x"], ["a"], "/fc1/Relu"),
        make.make_node("MatMul", ["a", "w"], ["b"], "/fc1/MatMul"),
        make.make_node("Relu", ["b"], ["c"], "/fc1/Relu_1"),
        make.make_node("MatMul", ["c", "w"], ["y"], "/other"),
    ]
    proto = make.make_model(make.make_graph(nodes, "g", value[:1], value[1:], [weights]))
    proto.opset_import[0].version = 17
    model = _named(proto.SerializeToString(), lambda name: "fc1" if "fc1" in name else None, "net")
    assert [node.name for node in model.nodes] == ["fc1.relu", "fc1", "fc1.relu2", "/other"]
    assert model.name == "net"


@pytest.mark.parametrize("wrong", [3, "text", None, object()])
def test_what_is_no_network_is_told(wrong: Any) -> None:
    with pytest.raises(QuincunxError) as caught:
        quincunx.from_keras(wrong)
    assert caught.value.code == "Q0811" and "no network of Keras" in str(caught.value)
    with pytest.raises(QuincunxError) as caught:
        quincunx.from_torch(wrong, None)
    assert caught.value.code == "Q0811" and "no module of PyTorch" in str(caught.value)


needs_keras = pytest.mark.skipif(
    importlib.util.find_spec("keras") is None or importlib.util.find_spec("tensorflow") is None,
    reason="Keras with TensorFlow is not installed",
)


@needs_keras
def test_keras() -> None:
    import keras

    layers = keras.layers
    keras.utils.set_random_seed(1)
    network = keras.Sequential(
        [
            layers.Input((8, 8, 1), name="image"),
            layers.Conv2D(4, 3, padding="same", activation="relu", name="conv1"),
            layers.MaxPooling2D(2, name="pool1"),
            layers.DepthwiseConv2D(3, padding="same", name="dw"),
            layers.Flatten(name="flat"),
            layers.Dense(10, name="fc"),
        ],
        name="net",
    )
    model = quincunx.from_keras(network)
    assert model.name == "net" and model.inputs[0].name == "image"
    named = {node.name: node.op for node in model.nodes if node.macs}
    assert named == {"conv1": "Conv", "dw": "Conv", "fc": "MatMul"}
    images = np.random.default_rng(0).normal(size=(5, 8, 8, 1)).astype(np.float32)
    [found] = model.run(images).values()
    np.testing.assert_allclose(found, network.predict(images, verbose=0), rtol=1e-5, atol=1e-6)
    program = quincunx.compile(model, "tcu", calibrate=images)
    assert program.share == 1.0 and program.verify(model, images, calibrate=images)


@needs_keras
def test_networks_of_unknown_shape_are_told() -> None:
    import keras

    network = keras.Sequential([keras.layers.Input((None, 3)), keras.layers.Dense(2)])
    with pytest.raises(QuincunxError) as caught:
        quincunx.from_keras(network)
    assert "unknown shape" in str(caught.value)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_torch() -> None:
    import torch

    class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.conv(x)) + x

    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), Block(), torch.nn.Flatten(), torch.nn.Linear(144, 10))
    images = torch.randn(5, 1, 8, 8)
    model = quincunx.from_torch(module, images[:1], input_names=["image"], output_names=["logits"])
    assert module.training
    assert model.inputs[0].name == "image" and model.outputs[0].name == "logits"
    assert [node.name for node in model.nodes if node.macs] == ["0", "1.conv", "3"]
    found = model.run(images.numpy())["logits"]
    np.testing.assert_allclose(found, module.eval()(images).detach().numpy(), rtol=1e-4, atol=1e-5)
