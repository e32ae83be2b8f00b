"""Networks of Keras and PyTorch: numbers of the framework, names of its layers."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quincunx
import quincunx.dais
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


needs_hgq = pytest.mark.skipif(
    importlib.util.find_spec("hgq") is None or importlib.util.find_spec("tensorflow") is None,
    reason="HGQ2 with TensorFlow is not installed",
)

HGQ_MODES = [
    (rounding, overflow, signed)
    for rounding in ("RND", "RND_CONV", "TRN", "TRN_ZERO", "S_RND", "S_RND_CONV")
    for overflow in ("WRAP", "SAT", "SAT_SYM")
    for signed in (True, False)
] + [("RND", "WRAP_SM", True)]


@needs_hgq
def test_quantisers_of_hgq2() -> None:
    import keras
    from hgq.quantizer import QuantizerConfig
    from hgq.layers import Quantizer

    x = keras.layers.Input((24,), name="x")
    made = [
        Quantizer(
            QuantizerConfig(
                "kif", "datalane", round_mode=rounding, overflow_mode=overflow, k0=signed, i0=2, f0=1, trainable=False
            ),
            name=f"q{number}",
        )(x)
        for number, (rounding, overflow, signed) in enumerate(HGQ_MODES)
    ]
    network = keras.Model(x, made, name="modes")
    network(np.zeros((1, 24), np.float32))
    rng = np.random.default_rng(3)
    for variable in network.variables:
        # Another type for every element, some without any bit.
        if variable.path.rsplit("/", 1)[-1] == "f":
            variable.assign(rng.integers(-4, 5, variable.shape))
    model = quincunx.from_keras(network)
    kinds = [node.op for node in model.nodes]
    assert kinds.count("Quantise") == len(HGQ_MODES) - 1, "the sign-magnitude one stays as operators"
    # Ties of all types, and what is beyond them.
    samples = rng.integers(-600, 600, (200, 24)).astype(np.float32) / 32
    expected = network.predict(samples, verbose=0)
    found = model.run(samples)
    for number, (mode, theirs) in enumerate(zip(HGQ_MODES, expected, strict=True)):
        assert np.array_equal(found[f"q{number}"], theirs), mode


@needs_hgq
def test_hgq2() -> None:
    import keras
    from hgq.config import LayerConfigScope, QuantizerConfigScope
    from hgq.layers import QAdd, QBatchNormDense, QConv2D, QDense, QMaxPool2D

    keras.utils.set_random_seed(2)
    rng = np.random.default_rng(2)
    with QuantizerConfigScope(default_q_type="kif"), LayerConfigScope(enable_ebops=False):
        x = keras.layers.Input((6, 6, 2), name="x")
        y = QConv2D(3, 3, padding="same", activation="relu", name="conv")(x)
        y = keras.layers.Flatten(name="flat")(QMaxPool2D(2, name="pool")(y))
        y = QBatchNormDense(6, name="fc1")(y)
        y = QDense(4, name="fc2")(QAdd(name="add")([y, QDense(6, activation="relu", name="around")(y)]))
        network = keras.Model(x, y, name="net")
    network(np.zeros((1, 6, 6, 2), np.float32))
    for variable in network.variables:
        if variable.path.endswith("/f"):
            variable.assign(rng.integers(1, 6, variable.shape))
    model = quincunx.from_keras(network)
    named = {node.name: node.op for node in model.nodes if node.macs}
    assert named == {"conv": "Conv", "fc1": "MatMul", "around": "MatMul", "fc2": "MatMul"}
    assert {node.name for node in model.nodes} >= {"pool", "add"} and model.outputs[0].name == "fc2"
    samples = rng.normal(0, 3, (200, 6, 6, 2)).astype(np.float32)
    expected = network.predict(samples, verbose=0)
    assert np.array_equal(model.run(samples)["fc2"], expected)
    program = quincunx.compile(model, "dais", effort="fast")
    assert program.share == 1.0 and np.array_equal(program.run(samples)["fc2"], expected)
    # A file keeps them.
    again = quincunx.load(model.onnx())
    assert np.array_equal(again.run(samples)["fc2"], expected)
    with pytest.raises(QuincunxError) as caught:
        model.onnx("qonnx")
    assert caught.value.code == "Q0420"


@needs_hgq
@pytest.mark.skipif(importlib.util.find_spec("hls4ml") is None, reason="hls4ml is not installed")
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler of C++")
def test_hls4ml_converts_with_our_adder_graphs(tmp_path: Path) -> None:
    import hls4ml
    import keras
    from hgq.config import LayerConfigScope, QuantizerConfigScope
    from hgq.layers import QDense

    keras.utils.set_random_seed(5)
    rng = np.random.default_rng(5)
    with QuantizerConfigScope(default_q_type="kif"), LayerConfigScope(enable_ebops=False):
        network = keras.Sequential(
            [keras.layers.Input((8,), name="x"), QDense(6, activation="relu", name="fc1"), QDense(4, name="fc2")]
        )
    network(np.zeros((1, 8), np.float32))
    for variable in network.variables:
        if variable.path.endswith("/f"):
            variable.assign(rng.integers(2, 6, variable.shape))
    config = {"Model": {"Precision": "fixed<-1,0>", "ReuseFactor": 1, "Strategy": "distributed_arithmetic"}}

    def converted(name: str) -> Any:
        project = hls4ml.converters.convert_from_keras_model(
            network, output_dir=str(tmp_path / name), project_name=name, backend="vitis", hls_config=config
        )
        project.write()
        return project

    def code(name: str) -> str:
        return (tmp_path / name / "firmware/nnet_utils/nnet_code_gen.h").read_text()

    converted("usual")
    with quincunx.dais.in_hls4ml(effort="fast"):
        project = converted("ours")
    assert "dense_da_" in code("ours") and code("ours") != code("usual")
    project.compile()
    samples = rng.normal(0, 2, (500, 8)).astype(np.float32)
    assert np.array_equal(project.predict(samples), network.predict(samples, verbose=0))


@needs_hgq
def test_quantisers_in_loops_are_told() -> None:
    import keras
    from hgq.config import LayerConfigScope
    from hgq.layers import QGRU

    with LayerConfigScope(enable_ebops=False):
        network = keras.Sequential([keras.layers.Input((4, 6)), QGRU(3, name="gru")])
    with pytest.raises(QuincunxError) as caught:
        quincunx.from_keras(network)
    assert caught.value.code == "Q0811" and "gru/" in str(caught.value) and "unroll" in str(caught.value)


@pytest.mark.skipif(
    importlib.util.find_spec("qkeras") is None or importlib.util.find_spec("tf_keras") is None,
    reason="QKeras with Keras 2 is not installed",
)
def test_qkeras() -> None:
    qkeras = pytest.importorskip("qkeras", exc_type=ImportError)
    if not hasattr(qkeras, "QActivation"):
        pytest.skip("another package's folder is called qkeras")
    import tf_keras
    from qkeras import quantized_bits, quantized_relu, quantized_tanh

    # The last three are more than fixed-point numbers: another slope, a function, a scale that depends on the values.
    quantisers = [
        quantized_bits(4, 1, alpha=1),
        quantized_bits(5, 2, symmetric=1, alpha=1),
        quantized_bits(4, 1, keep_negative=0, alpha=1),
        quantized_relu(4, 2),
        quantized_relu(4, 2, negative_slope=0.25),
        quantized_tanh(4),
        quantized_bits(4, 1, alpha="auto"),
    ]
    x = tf_keras.layers.Input((40,), name="x")
    made = [qkeras.QActivation(quantiser, name=f"q{number}")(x) for number, quantiser in enumerate(quantisers)]
    weights = {"alpha": 1, "symmetric": 1}
    fc = qkeras.QDense(
        8, kernel_quantizer=quantized_bits(3, 0, **weights), bias_quantizer=quantized_bits(5, 1, **weights), name="fc"
    )
    network = tf_keras.Model(x, [*made, fc(made[0])], name="modes")
    rng = np.random.default_rng(4)
    network.get_layer("fc").set_weights([rng.normal(size=(40, 8)), rng.normal(size=8)])
    model = quincunx.from_keras(network)
    assert [node.op for node in model.nodes].count("Quantise") == 4
    samples = rng.integers(-400, 400, (100, 40)).astype(np.float32) / 32
    samples[samples == 0] = 2.0**-5  # Of 0, QKeras makes NaN with a scale of its own.
    expected = network.predict(samples, verbose=0, batch_size=1)
    found = model.run(samples)
    names = [f"q{number}" for number in range(7)] + ["fc"]
    for name, theirs in zip(names, expected, strict=True):
        # QKeras computes x + (q(x) - x) in f32.
        np.testing.assert_allclose(found[name], theirs, atol=1e-5, err_msg=name)
    for name, step in (("q0", 2.0**-2), ("q1", 2.0**-2), ("q2", 2.0**-3), ("q3", 2.0**-2)):
        assert np.array_equal(found[name], np.round(found[name] / step) * step), name
    # Weights are on their grid, so that what is made of them is as well.
    assert np.array_equal(found["fc"], np.round(found["fc"] * 2**5) / 2**5)


@pytest.mark.skipif(importlib.util.find_spec("brevitas") is None, reason="Brevitas is not installed")
def test_brevitas() -> None:
    import brevitas.nn as qnn
    import torch
    from brevitas.quant import Int8ActPerTensorFixedPoint, Int8WeightPerTensorFixedPoint

    torch.manual_seed(3)
    module = torch.nn.Sequential(
        qnn.QuantIdentity(act_quant=Int8ActPerTensorFixedPoint, bit_width=6),
        qnn.QuantConv2d(1, 4, 3, bias=False, weight_quant=Int8WeightPerTensorFixedPoint, weight_bit_width=4),
        torch.nn.Flatten(),
        qnn.QuantLinear(64, 5, bias=False, weight_quant=Int8WeightPerTensorFixedPoint, weight_bit_width=3),
    )
    images = torch.randn(50, 1, 6, 6)
    module(images)
    with torch.no_grad():
        expected = module.eval()(images).numpy()
    model = quincunx.from_torch(module, images[:1])
    assert [node.op for node in model.nodes].count("Quantise") == 1, "weights are constants"
    assert {node.name for node in model.nodes if node.macs} == {"1", "3"}
    assert np.array_equal(model.run(images.numpy())["y"], expected)


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
