"""A convolution network of QKeras on an FPGA, bit for bit.

    python from_qkeras.py

docs/python/frameworks.md says how to install QKeras beside a current TensorFlow. Nothing is trained: the weights are random.
"""

# %% A network with quantisers. QKeras is made for Keras 2, which is the package tf_keras.
import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tf_keras
from qkeras import QActivation, QConv2D, QDense, quantized_bits, quantized_relu

import quincunx

tf_keras.utils.set_random_seed(0)


def weights(bits: int) -> dict[str, object]:
    return {"kernel_quantizer": quantized_bits(bits, 0, alpha=1), "bias_quantizer": quantized_bits(bits, 0, alpha=1)}


network = tf_keras.Sequential(
    [
        tf_keras.layers.Input((8, 8, 1), name="image"),
        QActivation(quantized_bits(8, 2, alpha=1), name="start"),
        QConv2D(4, 3, padding="same", name="conv1", **weights(6)),
        QActivation(quantized_relu(6, 2), name="relu1"),
        tf_keras.layers.MaxPooling2D(2, name="pool1"),
        QConv2D(6, 3, name="conv2", **weights(4)),
        QActivation(quantized_relu(6, 2), name="relu2"),
        tf_keras.layers.Flatten(name="flat"),
        QDense(5, name="logits", **weights(5)),
    ],
    name="cnn",
)


# %% The network, a program, and what both compute.
def main() -> None:
    samples = np.random.default_rng(0).normal(0, 1, (500, 8, 8, 1)).astype(np.float32)
    model = quincunx.from_keras(network)
    for node in model.nodes:
        print(f"{node.name:12} {node.op}")
    program = quincunx.compile(model, "dais", effort="fast")
    print(program)
    [found] = program.run(samples).values()
    expected = network.predict(samples, verbose=0)
    # QKeras computes x + (q(x) - x) in f32, so that its own numbers lie beside those that it means.
    print(f"largest distance to QKeras: {np.abs(found - expected).max():.1e}")
    assert np.abs(found - expected).max() < 1e-5
    print(program.verify(model, samples))


if __name__ == "__main__":
    main()
