"""Check the files of this folder and print the numbers.

    python check.py [folder]

Needs numpy, onnx and onnxruntime.
"""
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
model, test = onnx.load(folder / "scamp_digits.onnx"), np.load(folder / "test.npz")
image, labels = test["image"], test["labels"]
onnx.checker.check_model(model, full_check=True)
inits = {i.name: numpy_helper.to_array(i).astype(np.float64) for i in model.graph.initializer}

# data: multiples of 1/64, so that sums on the array are exact
assert image.shape == (360, 1, 24, 24) and labels.shape == (360,)
assert np.all(image * 64 == np.rint(image * 64)) and image.min() == 0 and image.max() <= 1

# what the array computes with
kernels, thresholds = inits["conv.w"] * 4, inits["threshold"] * 64
assert kernels.shape == (3, 1, 3, 3) and np.abs(kernels).max() <= 4
assert np.all(kernels == np.rint(kernels)) and np.all(thresholds == np.rint(thresholds))
print("kernels in quarters:", kernels.astype(int).reshape(3, 9).tolist())
print("thresholds:", inits["threshold"].reshape(3).tolist())

# the network by hand, against onnxruntime
padded = np.pad(image[:, 0].astype(np.float64), ((0, 0), (1, 1), (1, 1)))
taps = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
events = np.einsum("nijkl,ckl->ncij", taps, inits["conv.w"][:, 0]) > inits["threshold"]
bins = events.reshape(360, 3, 4, 6, 4, 6).mean((3, 5)).reshape(360, -1)
hidden = np.maximum(bins @ inits["fc1.w"].T + inits["fc1.b"], 0)
logits = hidden @ inits["fc2.w"].T + inits["fc2.b"]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(
    model.SerializeToString(), options, providers=["CPUExecutionProvider"])
found = session.run(["logits"], {"image": image})[0]
assert np.allclose(found, logits, atol=1e-4)
right = found.argmax(1) == labels
print(f"test images: {right.sum()} of 360 right, {right.mean():.4f}")
print(f"events in an image: {events.sum((1, 2, 3)).mean():.1f} of {3 * 24 * 24} on average")
