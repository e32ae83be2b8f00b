"""Train the digits network and write every file of this folder.

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
import onnxruntime
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import export
import pow2_exec
from quant import Quant, best_scale

SEED = 20
BN_EPS = 1e-5
SHAPES = {
    "conv1.w": (4, 1, 3, 3),
    "conv2.w": (8, 4, 3, 3), "conv2.b": (8,), "bn2.gamma": (8,), "bn2.beta": (8,),
    "conv3.w": (8, 8, 1, 1), "conv3.b": (8,),
    "fc1.w": (32, 32), "fc1.b": (32,),
    "fc2.w": (10, 32), "fc2.b": (10,),
}
# The first layer is held on multiples of 1/8, at most 7/8, in all three models.
CONV1 = {"conv1.w": Quant(0.125, 4, signed=1, narrow=1)}


def load():
    """Images as [N,1,8,8] in steps of 1/16, and labels: train, test, train, test."""
    digits = load_digits()
    x = (digits.images[:, None] / 16).astype(np.float32)
    y = digits.target.astype(np.int64)
    return train_test_split(x, y, test_size=360, stratify=y, random_state=SEED)


# ---- layers: each returns its output and a function that maps the gradient of
# ---- the output to the gradients of the arguments, in their order

def conv(x, w, b):
    """Stride 1, square odd kernel, padded to keep the image size."""
    k = w.shape[2]
    pad = ((0, 0), (0, 0), (k // 2, k // 2), (k // 2, k // 2))
    win = sliding_window_view(np.pad(x, pad), (k, k), (2, 3))
    y = np.moveaxis(np.tensordot(win, w, ((1, 4, 5), (1, 2, 3))), -1, 1)

    def back(dy):
        dw = np.tensordot(dy, win, ((0, 2, 3), (0, 2, 3)))
        dwin = sliding_window_view(np.pad(dy, pad), (k, k), (2, 3))
        dx = np.tensordot(dwin, w[:, :, ::-1, ::-1], ((1, 4, 5), (0, 2, 3)))
        return np.moveaxis(dx, -1, 1), dw, dy.sum((0, 2, 3))

    return y + b[:, None, None], back


def conv_no_bias(x, w):
    y, back = conv(x, w, np.zeros(len(w)))
    return y, lambda dy: back(dy)[:2]


def dense(x, w, b):
    return x @ w.T + b, lambda dy: (dy @ w, dy.T @ x, dy.sum(0))


def relu(x):
    return np.maximum(x, 0), lambda dy: (dy * (x > 0),)


def add(x, y):
    return x + y, lambda dy: (dy, dy)


def flatten(x):
    return x.reshape(len(x), -1), lambda dy: (dy.reshape(x.shape),)


def max_pool(x):
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
    y = blocks.max((3, 5), keepdims=True)

    def back(dy):
        hit = blocks == y
        share = hit / hit.sum((3, 5), keepdims=True)  # ties share the gradient
        return ((share * dy[:, :, :, None, :, None]).reshape(x.shape),)

    return y[:, :, :, 0, :, 0], back


def avg_pool(x):
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // 2, 2, w // 2, 2).mean((3, 5))
    return y, lambda dy: (np.repeat(np.repeat(dy, 2, 2), 2, 3) / 4,)


def batch_norm(x, gamma, beta):
    """Training form: the statistics are those of the batch."""
    axes = (0, 2, 3)
    m = x.size / x.shape[1]
    inv = 1 / np.sqrt(x.var(axes, keepdims=True) + BN_EPS)
    xn = (x - x.mean(axes, keepdims=True)) * inv
    g = gamma[:, None, None]

    def back(dy):
        dgamma, dbeta = (dy * xn).sum(axes), dy.sum(axes)
        dx = g * inv * (dy - (dbeta[:, None, None] + xn * dgamma[:, None, None]) / m)
        return dx, dgamma, dbeta

    return g * xn + beta[:, None, None], back


# ---- network -----------------------------------------------------------------

def network(params, image, quants):
    """Forward pass: all tensors by name, and a function for the gradients.

    A tensor or parameter named in `quants` is rounded.  Its gradient passes
    unchanged where the value was in range and is zero elsewhere.
    Batch norm follows conv2 if its parameters are present.
    """
    t, tape, in_range = {}, [], {}

    def put(name, value):
        q = quants.get(name)
        if q is not None:
            in_range[name] = q.in_range(value)
            value = q(value)
        t[name] = value

    def op(fn, out, *args):
        y, back = fn(*(t[a] for a in args))
        put(out, y)
        tape.append((back, out, args))

    put("image", image)
    for name, value in params.items():
        put(name, value)
    op(conv_no_bias, "conv1", "image", "conv1.w")
    op(relu, "relu1", "conv1")
    op(max_pool, "pool1", "relu1")
    op(conv, "conv2", "pool1", "conv2.w", "conv2.b")
    if "bn2.gamma" in params:
        op(batch_norm, "bn2", "conv2", "bn2.gamma", "bn2.beta")
        op(relu, "relu2", "bn2")
    else:
        op(relu, "relu2", "conv2")
    op(conv, "conv3", "relu2", "conv3.w", "conv3.b")
    op(add, "add3", "relu2", "conv3")
    op(relu, "relu3", "add3")
    op(avg_pool, "pool2", "relu3")
    op(flatten, "flatten", "pool2")
    op(dense, "fc1", "flatten", "fc1.w", "fc1.b")
    op(relu, "relu4", "fc1")
    op(dense, "logits", "relu4", "fc2.w", "fc2.b")

    def gradients(dlogits):
        d = {"logits": dlogits}
        for back, out, args in reversed(tape):
            dy = d[out] * in_range.get(out, 1)
            for a, g in zip(args, back(dy)):
                d[a] = d[a] + g if a in d else g
        return {n: d[n] * in_range.get(n, 1) for n in params}

    return t, gradients


def loss_gradient(logits, y):
    """Gradient of the mean cross entropy."""
    e = np.exp(logits - logits.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return p / len(y)


def fit(params, quants, x, y, epochs, rate, rng, frozen=(), batch=32, decay=0.15):
    """Adam, cosine schedule, decoupled weight decay, Gaussian noise on the images."""
    m = {n: np.zeros_like(v) for n, v in params.items()}
    v = {n: np.zeros_like(v) for n, v in params.items()}
    steps = len(x) // batch
    for step in range(epochs * steps):
        if step % steps == 0:
            order = rng.permutation(len(x))
        at = order[step % steps * batch :][:batch]
        image = x[at] + rng.normal(0, 0.1, x[at].shape)
        t, gradients = network(params, image, quants)
        grads = gradients(loss_gradient(t["logits"], y[at]))
        lr = rate * 0.5 * (1 + np.cos(np.pi * step / (epochs * steps)))
        for n, g in grads.items():
            if n in frozen:
                continue
            m[n] = 0.9 * m[n] + 0.1 * g
            v[n] = 0.999 * v[n] + 0.001 * g * g
            mh, vh = m[n] / (1 - 0.9 ** (step + 1)), v[n] / (1 - 0.999 ** (step + 1))
            params[n] = params[n] - lr * mh / (np.sqrt(vh) + 1e-8)
            if n.endswith(".w"):
                params[n] = params[n] * (1 - decay * lr)


def initial(rng):
    p = {}
    for name, shape in SHAPES.items():
        if name.endswith(".w"):
            p[name] = rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
        elif name == "bn2.gamma":
            p[name] = np.ones(shape)
        else:
            p[name] = rng.normal(0, 0.1, shape)
    p["conv1.w"] = np.clip(p["conv1.w"], -0.8, 0.8)
    return p


def to_f32(params):
    """Round to float32, the precision of the files."""
    return {n: v.astype(np.float32).astype(np.float64) for n, v in params.items()}


def fold(params, mean, var):
    """Replace conv2 + batch norm by one convolution."""
    p = dict(params)
    g = p.pop("bn2.gamma") / np.sqrt(var + BN_EPS)
    p["conv2.w"] = p["conv2.w"] * g[:, None, None, None]
    p["conv2.b"] = (p["conv2.b"] - mean) * g + p.pop("bn2.beta")
    return p


def pow2_quants(params, image):
    """Choose the widths and the power-of-two scales of digits_pow2.onnx."""
    t, _ = network(params, image, {})
    quants = dict(CONV1, image=Quant(1 / 16, 5))
    for n in ("conv2", "conv3", "fc1", "fc2"):
        quants[n + ".w"] = best_scale(params[n + ".w"], 6, 1, 1, per_channel=n == "conv2")
        quants[n + ".b"] = best_scale(params[n + ".b"], 8, 1)
    for n in ("relu1", "relu2", "relu4"):
        quants[n] = best_scale(t[n], 6)
    quants["conv3"] = best_scale(t["conv3"], 7, 1)
    quants["relu3"] = best_scale(t["relu3"], 6, mode="FLOOR")
    quants["logits"] = best_scale(t["logits"], 10, 1)
    return quants


def qdq_grids(params, image):
    """Scale and zero point of each uint8 activation, from the range on `image`."""
    t, _ = network(params, image, {})
    grids = {"image": (np.float32(1 / 240), 0)}  # pixel k has the code 15 k
    for n in ("relu1", "relu2", "conv3", "relu3", "pool2", "relu4", "logits"):
        lo = min(t[n].min(), 0)
        scale = np.float32((max(t[n].max(), 0) - lo) / 255)
        grids["fc2" if n == "logits" else n] = scale, np.rint(-lo / scale)
    return grids


def ort_run(model, image, optimise=False):
    """The graph output by onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs = [o.name for o in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, {"image": image})))


def all_outputs(model):
    """A copy of the model with every node output as a graph output."""
    copy = onnx.shape_inference.infer_shapes(model)
    copy.graph.output.extend(copy.graph.value_info)
    return copy


def main(out):
    rng = np.random.default_rng(SEED)
    x, x_test, y, y_test = load()
    calib = x[:128]  # the split is shuffled

    params = initial(rng)
    fit(params, CONV1, x, y, epochs=150, rate=1e-2, rng=rng)
    params["conv1.w"] = CONV1["conv1.w"](params["conv1.w"]) + 0.0  # no -0
    params = to_f32(params)
    conv2 = network(params, x, {})[0]["conv2"]
    stats = to_f32({"mean": conv2.mean((0, 2, 3)), "var": conv2.var((0, 2, 3))})
    folded = to_f32(fold(params, **stats))

    quants = pow2_quants(folded, calib)
    tuned = dict(folded)
    fit(tuned, quants, x, y, epochs=20, rate=1e-3, rng=rng, frozen=["conv1.w"])
    tuned = to_f32(tuned)
    expected_pow2 = network(tuned, x_test, quants)[0]["logits"]
    quants["fc2"] = quants.pop("logits")  # the exporter names tensors after nodes

    models = {
        "digits": export.BatchNormGraph(params, **stats, epsilon=BN_EPS).model(),
        "digits_qdq": export.QdqGraph(folded, qdq_grids(folded, calib)).model(),
        "digits_pow2": export.Pow2Graph(tuned, quants).model(),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, model in models.items():
        onnx.save(model, out / (name + ".onnx"))

    expected = {
        "logits": ort_run(models["digits"], x_test)["logits"],
        "logits_qdq": ort_run(models["digits_qdq"], x_test)["logits"],
        "logits_pow2": pow2_exec.run(models["digits_pow2"], x_test)["logits"],
    }
    assert np.array_equal(expected["logits_pow2"], expected_pow2)
    np.savez(out / "expected.npz", **expected)
    np.savez(out / "calib.npz", image=calib)
    np.savez(out / "test.npz", image=x_test, labels=y_test)
    np.savez(out / "layers.npz", **ort_run(all_outputs(models["digits"]), x_test[:8]))
    for name, logits in expected.items():
        print(name, "accuracy on the test images:", (logits.argmax(1) == y_test).mean())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
