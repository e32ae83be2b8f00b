"""Check the files of this folder and print the numbers.

    python check.py [folder]

Needs numpy, onnx and onnxruntime.  If the package qonnx is installed,
digits_pow2.onnx is also run with it.
"""
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import pow2_exec

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
models = {n: onnx.load(folder / (n + ".onnx")) for n in ("digits", "digits_qdq", "digits_pow2")}
expected, layers, test = (np.load(folder / n) for n in ("expected.npz", "layers.npz", "test.npz"))
calib, image, labels = np.load(folder / "calib.npz")["image"], test["image"], test["labels"]


def ort(model, optimise):
    options = onnxruntime.SessionOptions()
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(["logits"], {"image": image})[0]


def tensor(model, name):
    return next(numpy_helper.to_array(i) for i in model.graph.initializer if i.name == name)


# data
assert image.shape == (360, 1, 8, 8) and labels.shape == (360,) and calib.shape == (128, 1, 8, 8)
assert image.dtype == calib.dtype == np.float32 and labels.dtype == np.int64
for x in (image, calib):
    assert np.all(x * 16 == np.rint(x * 16)) and x.min() == 0 and x.max() == 1
assert not {x.tobytes() for x in calib} & {x.tobytes() for x in image}
print("test images per digit:", np.bincount(labels).tolist())

# form of the models
for name, model in models.items():
    if name != "digits_pow2":  # the checker does not know the operator Quant
        onnx.checker.check_model(model, full_check=True)
    nodes = [n.name for n in model.graph.node]
    assert len(set(nodes)) == len(nodes) and all(nodes)
    assert model.ir_version <= 8 and model.opset_import[0].version == 13
    assert all(i.raw_data for i in model.graph.initializer)
    print(f"{name}: {len(nodes)} nodes, {len(model.graph.initializer)} initializers")
params = sum(np.prod(i.dims, dtype=int) for i in models["digits"].graph.initializer
             if i.name.endswith((".w", ".b")))
print("weights and biases:", params)

# first layer: the same multiples of 1/8 everywhere, no bias
w = tensor(models["digits"], "conv1.w").astype(np.float64)
assert np.all(w * 8 == np.rint(w * 8)) and np.abs(w).max() <= 1
qdq_scale = tensor(models["digits_qdq"], "conv1.w_scale").reshape(-1, 1, 1, 1)
assert np.array_equal(tensor(models["digits_qdq"], "conv1.w") * qdq_scale.astype(np.float64), w)
pow2 = pow2_exec.run(models["digits_pow2"], image)
assert np.array_equal(pow2["conv1.w_quant_out"], w)
for model in models.values():
    assert len(next(n for n in model.graph.node if n.name == "conv1").input) == 2
print("conv1 kernels, in eighths:", (w * 8).astype(int).reshape(4, 9).tolist())

# accuracy
for key, least in (("logits", 0.97), ("logits_qdq", 0.96), ("logits_pow2", 0.96)):
    right = int((expected[key].argmax(1) == labels).sum())
    print(f"{key}: {right} of 360 right, {right / 360:.4f}")
    assert right / 360 >= least

# the stored results
assert np.array_equal(pow2["logits"], expected["logits_pow2"])
scale, zero = tensor(models["digits_qdq"], "fc2_scale"), tensor(models["digits_qdq"], "fc2_zero")


def codes(logits):
    return np.rint(logits / scale).astype(int) + zero


for optimise in (False, True):
    label = "onnxruntime, default optimisations:" if optimise else "onnxruntime, no optimisations:"
    error = np.abs(ort(models["digits"], optimise) - expected["logits"]).max()
    got = ort(models["digits_qdq"], optimise)
    delta = np.abs(codes(got) - codes(expected["logits_qdq"]))
    print(f"{label} digits differs from expected.npz by at most {error:.3g}; digits_qdq in"
          f" {np.count_nonzero(delta)} of {delta.size} codes, by at most {delta.max()},"
          f" and in {np.count_nonzero(got.argmax(1) != expected['logits_qdq'].argmax(1))} classes")
    assert error < 1e-4

outputs = [n.output[0] for n in models["digits"].graph.node]
assert sorted(layers) == sorted(outputs)
for name in outputs:
    print(f"layers.npz {name}: {list(layers[name].shape)}")
assert np.allclose(layers["logits"], expected["logits"][:8], atol=1e-4)

try:
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.transformation.infer_shapes import InferShapes
except ImportError:
    print("qonnx is not installed: not run")
else:
    wrapper = ModelWrapper(models["digits_pow2"])
    wrapper.set_tensor_shape("image", [1, 1, 8, 8])
    wrapper.set_tensor_shape("logits", [1, 10])
    wrapper = wrapper.transform(InferShapes())
    got = np.concatenate([execute_onnx(wrapper, {"image": x[None]})["logits"] for x in image])
    print("qonnx: differs from logits_pow2 in", np.count_nonzero(got != expected["logits_pow2"]), "of", got.size)
    assert np.array_equal(got, expected["logits_pow2"])
print("ok")
