"""Train the camera's digits network and write every file of this folder.

    python train.py [output folder]

Plain NumPy in float64, one thread, fixed seeds.
"""
import os

for _var in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_var] = "1"  # must precede the import of numpy

import sys
from pathlib import Path

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED = 20
SIDE = 24  # pixels of an image along a side
BINS = 4  # bins along a side
KERNELS = 3
HIDDEN = 32
WIDTH = 0.25  # of the slope that stands for the step of a threshold while training


def enlarge(images):
    """8 x 8 pixels to SIDE x SIDE, by linear interpolation."""
    at = np.clip((np.arange(SIDE) + 0.5) * 8 / SIDE - 0.5, 0, 7)
    low = np.minimum(at.astype(int), 6)
    weights = np.zeros((SIDE, 8))
    weights[np.arange(SIDE), low] = 1 - (at - low)
    weights[np.arange(SIDE), low + 1] = at - low
    return weights @ images @ weights.T


def load():
    """Images as [N,1,SIDE,SIDE] in steps of 1/64, and labels: train, test, train, test."""
    digits = load_digits()
    x = np.rint(enlarge(digits.images / 16) * 64) / 64
    y = digits.target.astype(np.int64)
    x = x[:, None].astype(np.float32)
    return train_test_split(x, y, test_size=360, stratify=y, random_state=SEED)


def quarters(w):
    """The weights that the array computes with: k/4, at most 1."""
    return np.clip(np.rint(w * 4), -4, 4) / 4


def steps(c):
    """The thresholds: multiples of 1/64."""
    return np.rint(c * 64) / 64


def windows(x):
    padded = np.pad(x[:, 0], ((0, 0), (1, 1), (1, 1)))
    return sliding_window_view(padded, (3, 3), (1, 2)).reshape(len(x), SIDE, SIDE, 9)


def forward(p, x):
    """All tensors by name; kernels and thresholds are those of the array."""
    t = {"windows": windows(x)}
    t["conv"] = t["windows"] @ quarters(p["conv.w"]).reshape(KERNELS, 9).T
    t["above"] = t["conv"] - steps(p["threshold"])
    side = SIDE // BINS
    bits = (t["above"] > 0).reshape(len(x), BINS, side, BINS, side, KERNELS)
    t["bins"] = bits.mean((2, 4)).transpose(0, 3, 1, 2).reshape(len(x), -1)
    t["hidden"] = np.maximum(t["bins"] @ p["fc1.w"].T + p["fc1.b"], 0)
    t["logits"] = t["hidden"] @ p["fc2.w"].T + p["fc2.b"]
    return t


def backward(p, t, dlogits):
    """Gradients; a threshold passes what lies within WIDTH of it, a rounding everything."""
    g = {"fc2.w": dlogits.T @ t["hidden"], "fc2.b": dlogits.sum(0)}
    dhidden = (dlogits @ p["fc2.w"]) * (t["hidden"] > 0)
    g["fc1.w"], g["fc1.b"] = dhidden.T @ t["bins"], dhidden.sum(0)
    dbins = (dhidden @ p["fc1.w"]).reshape(-1, KERNELS, BINS, BINS).transpose(0, 2, 3, 1)
    side = SIDE // BINS
    dbits = np.repeat(np.repeat(dbins, side, 1), side, 2) / side**2
    dabove = dbits * (np.abs(t["above"]) < WIDTH) / (2 * WIDTH)
    dw = np.tensordot(dabove, t["windows"], ((0, 1, 2), (0, 1, 2)))
    g["conv.w"], g["threshold"] = dw.reshape(KERNELS, 1, 3, 3), -dabove.sum((0, 1, 2))
    return g


def fit(p, x, y, epochs, rate, rng, batch=32, decay=0.02):
    """Adam, cosine schedule, decoupled weight decay of the dense layers, noise on the images."""
    m = {n: np.zeros_like(v) for n, v in p.items()}
    v = {n: np.zeros_like(v) for n, v in p.items()}
    count = len(x) // batch
    for step in range(epochs * count):
        if step % count == 0:
            order = rng.permutation(len(x))
        at = order[step % count * batch :][:batch]
        t = forward(p, x[at] + rng.normal(0, 0.02, x[at].shape))
        e = np.exp(t["logits"] - t["logits"].max(1, keepdims=True))
        d = e / e.sum(1, keepdims=True)
        d[np.arange(batch), y[at]] -= 1
        lr = rate * 0.5 * (1 + np.cos(np.pi * step / (epochs * count)))
        for n, g in backward(p, t, d / batch).items():
            m[n] = 0.9 * m[n] + 0.1 * g
            v[n] = 0.999 * v[n] + 0.001 * g * g
            mh, vh = m[n] / (1 - 0.9 ** (step + 1)), v[n] / (1 - 0.999 ** (step + 1))
            p[n] = p[n] - lr * mh / (np.sqrt(vh) + 1e-8)
            if n.startswith("fc") and n.endswith(".w"):
                p[n] = p[n] * (1 - decay * lr)


def model(p):
    """The network as ONNX."""
    inits = {
        "conv.w": quarters(p["conv.w"]) + 0.0,  # no -0
        "threshold": steps(p["threshold"]).reshape(KERNELS, 1, 1),
        **{n: p[n] for n in ("fc1.w", "fc1.b", "fc2.w", "fc2.b")},
    }
    side = SIDE // BINS
    nodes = [
        helper.make_node("Conv", ["image", "conv.w"], ["conv_out"], "conv",
                         kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Greater", ["conv_out", "threshold"], ["above_out"], "above"),
        helper.make_node("Cast", ["above_out"], ["events_out"], "events", to=TensorProto.FLOAT),
        helper.make_node("AveragePool", ["events_out"], ["bins_out"], "bins",
                         kernel_shape=[side, side], strides=[side, side]),
        helper.make_node("Flatten", ["bins_out"], ["flatten_out"], "flatten", axis=1),
        helper.make_node("Gemm", ["flatten_out", "fc1.w", "fc1.b"], ["fc1_out"], "fc1", transB=1),
        helper.make_node("Relu", ["fc1_out"], ["relu_out"], "relu"),
        helper.make_node("Gemm", ["relu_out", "fc2.w", "fc2.b"], ["logits"], "fc2", transB=1),
    ]
    real = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        nodes, "scamp_digits", [real("image", ["N", 1, SIDE, SIDE])], [real("logits", ["N", 10])],
        [numpy_helper.from_array(np.array(v, np.float32, order="C"), n) for n, v in inits.items()])
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, ir_version=8, opset_imports=opset, producer_name="train.py")


def main(out):
    rng = np.random.default_rng(SEED)
    x, x_test, y, y_test = load()
    features = KERNELS * BINS * BINS
    p = {
        "conv.w": rng.normal(0, 0.5, (KERNELS, 1, 3, 3)),
        "threshold": np.full(KERNELS, 0.25),
        "fc1.w": rng.normal(0, np.sqrt(2 / features), (HIDDEN, features)),
        "fc1.b": np.zeros(HIDDEN),
        "fc2.w": rng.normal(0, np.sqrt(2 / HIDDEN), (10, HIDDEN)),
        "fc2.b": np.zeros(10),
    }
    fit(p, x, y, epochs=120, rate=1e-2, rng=rng)
    p = {n: v.astype(np.float32).astype(np.float64) for n, v in p.items()}
    out.mkdir(parents=True, exist_ok=True)
    onnx.save(model(p), out / "scamp_digits.onnx")
    np.savez_compressed(out / "test.npz", image=x_test, labels=y_test)
    for name, images, labels in (("training", x, y), ("test", x_test, y_test)):
        right = forward(p, images)["logits"].argmax(1) == labels
        print(f"{name} images: {right.sum()} of {len(right)} right, {right.mean():.4f}")
    print("kernels in quarters:", (quarters(p["conv.w"]) * 4).astype(int).reshape(KERNELS, 9).tolist())
    print("thresholds:", steps(p["threshold"]).tolist())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
