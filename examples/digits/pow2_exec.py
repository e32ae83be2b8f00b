"""Run digits_pow2.onnx in exact arithmetic.

Every value is an integer times a power of two.  `on_grid` asserts that the
operands of each product are multiples of 2^-10 below 2^10, so products are
multiples of 2^-20 below 2^20, and sums of fewer than 2^13 of them fit the
53-bit significand of float64: no operation rounds, except in Quant.
"""
import numpy as np
from onnx import helper, numpy_helper


def on_grid(*tensors):
    for v in tensors:
        assert np.all(v * 1024 == np.rint(v * 1024)) and np.all(np.abs(v) < 1024)


def quant(a, x, scale, zero, bits):
    assert np.all(np.frexp(scale)[0] == 0.5) and zero == 0  # powers of two
    top = 2 ** (int(bits) - a["signed"])
    lo = a["narrow"] - top if a["signed"] else 0
    hi = top - 1 if a["signed"] else top - 1 - a["narrow"]
    rounding = {b"ROUND": np.rint, b"FLOOR": np.floor}[a["rounding_mode"]]
    return rounding(np.clip(x / scale, lo, hi)) * scale


def conv(a, x, w, b=None):
    on_grid(x, w)
    (top, left, bottom, right), (kh, kw) = a["pads"], a["kernel_shape"]
    assert a["strides"] == [1, 1]
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    rows, cols = x.shape[2] - kh + 1, x.shape[3] - kw + 1
    y = np.zeros((len(x), len(w), rows, cols))
    for o in range(len(w)):
        for c in range(w.shape[1]):
            for i in range(kh):
                for j in range(kw):
                    y[:, o] += w[o, c, i, j] * x[:, c, i : i + rows, j : j + cols]
    if b is not None:
        on_grid(b)
        y += b.reshape(-1, 1, 1)
    return y


def corners(a, x):
    """The four elements of each 2x2 block."""
    assert a["kernel_shape"] == [2, 2] and a["strides"] == [2, 2]
    return [x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)]


def max_pool(a, x):
    p, q, r, s = corners(a, x)
    return np.maximum(np.maximum(p, q), np.maximum(r, s))


def average_pool(a, x):
    p, q, r, s = corners(a, x)
    return (p + q + r + s) / 4


def gemm(a, x, w, b):
    assert a["transB"] == 1
    on_grid(x, w, b)
    y = np.zeros((len(x), len(w))) + b
    for k in range(w.shape[1]):
        y += np.outer(x[:, k], w[:, k])
    return y


OPS = {
    "Quant": quant,
    "Conv": conv,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "Gemm": gemm,
    "Relu": lambda a, x: np.maximum(x, 0),
    "Add": lambda a, x, y: x + y,
    "Flatten": lambda a, x: x.reshape(len(x), -1),
}


def run(model, image):
    """All tensors of the model by name, in float64."""
    t = {i.name: numpy_helper.to_array(i).astype(np.float64) for i in model.graph.initializer}
    t["image"] = image.astype(np.float64)
    for node in model.graph.node:
        attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        t[node.output[0]] = OPS[node.op_type](attrs, *(t[i] for i in node.input))
    return t
