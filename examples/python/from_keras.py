"""A convolution network of Keras on a machine that quantises: how far apart, layer by layer.

    pip install './tools/python[keras]'
    python from_keras.py

Nothing is trained: the weights are random.
"""

# %% A network.
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import quincunx

keras.utils.set_random_seed(0)
layers = keras.layers
network = keras.Sequential(
    [
        layers.Input((16, 16, 1), name="image"),
        layers.Conv2D(8, 3, padding="same", activation="relu", name="conv1"),
        layers.MaxPooling2D(2, name="pool1"),
        layers.DepthwiseConv2D(3, padding="same", name="depthwise"),
        layers.Conv2D(16, 1, activation="relu", name="pointwise"),
        layers.GlobalAveragePooling2D(name="mean"),
        layers.Dense(10, name="logits"),
    ],
    name="net",
)


# %% The network as it is, then on two machines.
def main() -> None:
    samples = np.random.default_rng(0).normal(size=(200, 16, 16, 1)).astype(np.float32)
    model = quincunx.from_keras(network)
    [found] = model.run(samples).values()
    distance = np.abs(found - network.predict(samples, verbose=0)).max()
    print(f"{model}\nlargest distance to Keras: {distance:.1e}")
    assert distance < 1e-4
    for target in ("tcu", "npu"):
        program = quincunx.compile(model, target, calibrate=samples)
        print(program)
        print(program.verify(model, samples[:20], calibrate=samples))


if __name__ == "__main__":
    main()
