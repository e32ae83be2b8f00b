"""Compares compiled npu programs with onnxruntime on the same quantised ResNet-50.

    python tests/peers/npu_top1.py [MODELS] [--images N] [--quincunx BINARY] [--keep DIR]

MODELS holds resnet50.onnx, or is the script that makes it; without it, make_models.py of
../shared/golden/npu is run. onnxruntime quantises the network (QDQ, 8-bit activations, weights with a
scale per channel) on random images, other random images go through onnxruntime and through the
program, and the largest logits are compared.

A network of random weights gives nearly all images the same class, so the logits are compared as
well: they may differ from onnxruntime's no more than twice as much (root of the mean square) as
onnxruntime differs from itself without its optimisations, which fuse layers and so round elsewhere.
Prints both; exit 1 where less than 99 % of the classes are equal, or the logits differ more.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime as ort
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIDES = [1, 2, 4, 7, 14, 28, 56, 112, 224]


def images(count, seed):
    """Squares of random colours, from one for the whole image to one per pixel, of any contrast."""
    random = np.random.Generator(np.random.PCG64(seed))
    result = np.empty((count, 3, 224, 224), np.float32)
    for image in result:
        side = random.choice(SIDES)
        contrast = np.exp(random.uniform(np.log(0.1), np.log(3)))
        colours = contrast * random.normal(size=(3, side, side))
        image[:] = colours.repeat(224 // side, 1).repeat(224 // side, 2)
    return result


class Calibration(CalibrationDataReader):
    """Hands over images one by one."""

    def __init__(self, data):
        self.rest = iter(data)

    def get_next(self):
        image = next(self.rest, None)
        return None if image is None else {"input": image[None]}


def network(models, folder):
    """The float network."""
    if models.suffix == ".py":
        subprocess.run([sys.executable, models, folder], check=True)
        models = folder
    return models / "resnet50.onnx"


def quantise(model, path):
    """Everything is on grids but the logits."""
    quantize_static(
        model,
        path,
        Calibration(images(16, 1)),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod.MinMax,
        extra_options={"OpTypesToExcludeOutputQuantization": ["Gemm"]},
    )


def reference(path, data, optimised):
    """Logits of onnxruntime."""
    options = ort.SessionOptions()
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"input": image[None]})[0] for image in data])


def program(binary, path, data, folder):
    """Logits of the compiled program, and the share of the work that it does."""
    np.save(folder / "images.npy", data)
    shape = ["--input-shape", "input=1x3x224x224"]
    out = folder / "program"
    subprocess.run([*binary, "compile", path, "-t", "npu", *shape, "-o", out], check=True)
    logits = folder / "logits.npy"
    command = [*binary, "run", out, "--data", folder / "images.npy", "--output", logits]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return np.load(logits).reshape(len(data), -1)


def spread(difference):
    """The root of the mean square."""
    return float(np.sqrt(np.square(difference, dtype=np.float64).mean()))


def compare(args, folder):
    quantised = folder / "resnet50_qdq.onnx"
    quantise(network(args.models, folder), quantised)
    data = images(args.images, 2)
    expected = reference(quantised, data, True)
    unfused = reference(quantised, data, False)
    found = program(args.quincunx, quantised, data, folder)
    classes = expected.argmax(1)
    equal = float((found.argmax(1) == classes).mean())
    own, ours = spread(unfused - expected), spread(found - expected)
    print(f"images {len(data)}, classes {len(set(classes))}, equal top-1 {equal:.2%}")
    print(f"difference of logits {ours:.4f}, of onnxruntime without optimisations {own:.4f}")
    return int(equal < 0.99 or ours > 2 * own)


def main():
    parser = argparse.ArgumentParser()
    default = ROOT.parent / "shared/golden/npu/make_models.py"
    parser.add_argument("models", type=pathlib.Path, nargs="?", default=default)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--quincunx", help="the binary; without it cargo runs a release build")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for what is made on the way")
    args = parser.parse_args()
    manifest = ROOT / "Cargo.toml"
    cargo = ["cargo", "run", "--release", "--quiet", "--manifest-path", manifest, "-p", "quincunx-cli", "--"]
    args.quincunx = [args.quincunx] if args.quincunx else cargo
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
        return compare(args, args.keep)
    with tempfile.TemporaryDirectory() as folder:
        return compare(args, pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(main())
