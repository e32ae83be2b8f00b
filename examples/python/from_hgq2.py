"""A jet tagger and a small convolution network of HGQ2, on an FPGA: three ways in, one result.

    pip install './tools/python[hgq]' da4ml qonnx 'onnxruntime>=1.32'
    python from_hgq2.py

The tagger has the layers of hls4ml's (16, 64, 32, 32, 5, without the softmax). Nothing is trained: weights and widths
are random, with a width for every weight and every layer.
"""

# %% Networks with quantisers.
import os
import tempfile
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from da4ml.converter import trace_model
from da4ml.trace import comb_trace
from hgq.config import LayerConfigScope, QuantizerConfigScope
from hgq.layers import QConv2D, QDense, QMaxPool2D
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_shapes import InferShapes

import quincunx

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)

# What all three ways have: QONNX has no ties upwards and no numbers that wrap, the package qonnx only one width for a
# tensor, da4ml no ties to even. HGQ2's own defaults are lost on QONNX alone.
numbers = QuantizerConfigScope(default_q_type="kif", round_mode="TRN", overflow_mode="SAT")
values = QuantizerConfigScope(place="datalane", heterogeneous_axis=())
with numbers, values, LayerConfigScope(enable_ebops=False):
    tagger = keras.Sequential(
        [
            keras.layers.Input((16,), name="jet"),
            QDense(64, activation="relu", name="fc1"),
            QDense(32, activation="relu", name="fc2"),
            QDense(32, activation="relu", name="fc3"),
            QDense(5, name="logits"),
        ],
        name="jet_tagger",
    )
    cnn = keras.Sequential(
        [
            keras.layers.Input((8, 8, 1), name="image"),
            QConv2D(4, 3, padding="same", activation="relu", name="conv1"),
            QMaxPool2D(2, name="pool1"),
            QConv2D(6, 3, activation="relu", name="conv2"),
            keras.layers.Flatten(name="flat"),
            QDense(5, name="logits"),
        ],
        name="cnn",
    )


def with_random_widths(network: keras.Model) -> keras.Model:
    """Fraction bits from 1 to 4, as training would leave them; without any, an element is 0."""
    network(np.zeros((1, *network.inputs[0].shape[1:]), np.float32))
    for variable in network.weights:
        if variable.path.endswith("/f"):
            variable.assign(rng.integers(1, 5, variable.shape))
    return network


# %% Three ways.
def by_qonnx(model: quincunx.Model, folder: Path, samples: np.ndarray) -> tuple[quincunx.Model, np.ndarray]:
    """The model of a QONNX file, and what the package qonnx computes from that file."""
    path = folder / "model.qonnx.onnx"
    model.save(path, dialect="qonnx")
    theirs = ModelWrapper(str(path))
    [name, answer] = [theirs.graph.input[0].name, theirs.graph.output[0].name]
    theirs.set_tensor_shape(name, [1, *samples.shape[1:]])
    theirs = theirs.transform(InferShapes())
    rows = [execute_onnx(theirs, {name: sample[None]})[answer][0] for sample in samples]
    return quincunx.load(path), np.stack(rows)


def by_da4ml(network: keras.Model, folder: Path) -> quincunx.Program:
    """The program that da4ml traces and optimises, read from its JSON."""
    path = folder / "model.json"
    comb_trace(*trace_model(network, inputs_kif=(1, 6, 10))).save(path)
    return quincunx.read(path, latency_cutoff=5)


def answers(program: quincunx.Program, samples: np.ndarray) -> np.ndarray:
    """What a program makes of samples, a row each."""
    [found] = program.run(samples).values()
    return found.reshape(len(samples), -1)


def main() -> None:
    for network in (with_random_widths(tagger), with_random_widths(cnn)):
        # Numbers of 17 bits, beyond the range of the first quantiser: da4ml must know what comes in.
        samples = rng.normal(0, 2, (500, *network.inputs[0].shape[1:])).astype(np.float32)
        samples = np.round(samples * 2**10) / 2**10
        expected = network.predict(samples, verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            model = quincunx.from_keras(network)
            ours = quincunx.compile(model, "dais", latency_cutoff=5, effort="fast")
            read_again, computed_by_qonnx = by_qonnx(model, Path(folder), samples[:20])
            through_file = quincunx.compile(read_again, "dais", latency_cutoff=5, effort="fast")
            theirs = by_da4ml(network, Path(folder))
            found = {
                "Keras": expected,
                "from_keras": answers(ours, samples),
                "QONNX": answers(through_file, samples),
                "da4ml's JSON": answers(theirs, samples.reshape(len(samples), -1)),
            }
        print(f"{network.name}: {ours}")
        for way, values in found.items():
            same = np.array_equal(values, found["from_keras"])
            print(f"  {way:13} {'the same in every bit' if same else 'differs'}")
            assert same, way
        assert np.array_equal(computed_by_qonnx, expected[:20]), "the file as the package qonnx computes it"
        print(f"  {ours.stats.instructions} instructions, {theirs.stats.instructions} by da4ml")


if __name__ == "__main__":
    main()
