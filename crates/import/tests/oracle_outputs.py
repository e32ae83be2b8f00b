"""Compares what models compute with stored numbers, for src/tests/oracle_quantised.rs and
src/tests/oracle_export.rs.

oracle_outputs.py onnxruntime FOLDER   runs each NAME.onnx with onnxruntime, without optimisations
oracle_outputs.py numpy FOLDER         runs it with the reference operators of the package onnx in
                                       float64 and the Quant below, which is written after the
                                       definition of QONNX

Every NAME.K.npz holds inputs in0, in1, ... and expected outputs out0, out1, ... in the order of the
model. Where it also holds stepI, output I lies on a grid and may be one such step off; else it must
be equal (integers), within 1e-5 relative (onnxruntime), or equal bit for bit (numpy).
"""
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun


class Quant(OpRun):
    op_domain = "qonnx.custom_op.general"

    def _run(self, x, scale, zero, bits, signed=1, narrow=0, rounding_mode="ROUND"):
        low = np.where(signed, -(2.0 ** (bits - 1)) + narrow, 0.0)
        high = np.where(signed, 2.0 ** (bits - 1) - 1, 2.0**bits - 1 - narrow)
        rounding = {"ROUND": np.rint, "FLOOR": np.floor, "CEIL": np.ceil}[rounding_mode]
        return ((rounding(np.clip(x / scale + zero, low, high)) - zero) * scale,)


class DequantizeLinear(OpRun):
    """Of the biases, in float64 whatever the opset."""

    def _run(self, codes, scale, axis=None, block_size=None, output_dtype=None):
        shape = [-1 if i == axis % codes.ndim else 1 for i in range(codes.ndim)]
        return (codes * (scale.reshape(shape) if scale.ndim else scale),)


def widened(model):
    """The model with every f32 tensor as f64, so that sums of codes are exact."""
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            wide = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    return model


def by_numpy(path):
    model = widened(onnx.load(path))
    session = ReferenceEvaluator(model, new_ops=[Quant, DequantizeLinear])
    names = [value.name for value in model.graph.input]

    def run(inputs):
        feeds = {name: x.astype(np.float64) for name, x in zip(names, inputs, strict=True)}
        return session.run(None, feeds)

    return run


def by_onnxruntime(path):
    import onnxruntime as ort

    onnx.checker.check_model(onnx.load(path))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(inputs):
        feeds = {}
        for value, x in zip(session.get_inputs(), inputs, strict=True):
            feeds[value.name] = x.astype(bool) if value.type == "tensor(bool)" else x
        return session.run(None, feeds)

    return run


def numbered(stored, what):
    return [stored[f"{what}{i}"] for i in range(len(stored.files)) if f"{what}{i}" in stored.files]


def check(found, stored, exact):
    """The number of codes that are one step off, and of all codes. Outputs without a grid are
    compared where no code is off, since they follow from the codes."""
    off = total = 0
    outputs = list(enumerate(zip(found, numbered(stored, "out"), strict=True)))
    outputs.sort(key=lambda output: f"step{output[0]}" not in stored.files)
    for index, (have, want) in outputs:
        assert have.shape == want.shape, f"output {index} is {have.shape}, expected {want.shape}"
        if f"step{index}" in stored.files:
            steps = np.rint(np.abs(have - want) / stored[f"step{index}"])
            assert steps.max(initial=0) <= 1, f"output {index} is {steps.max()} codes off"
            off, total = off + int(steps.sum()), total + steps.size
            assert not (exact and off), f"output {index} differs"
        elif off:
            continue
        elif have.dtype.kind != "f" or exact:
            np.testing.assert_array_equal(have, want, f"output {index}")
        else:
            np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5, err_msg=f"output {index}")
    return off, total


def compare(folder, load, exact):
    failed = off = total = 0
    files = sorted(folder.glob("*.onnx"))
    for path in files:
        samples = sorted(folder.glob(f"{path.stem}.*.npz"))
        try:
            assert samples, "no numbers"
            run = load(path)
            for sample in samples:
                stored = np.load(sample)
                counts = check(run(numbered(stored, "in")), stored, exact)
                off, total = off + counts[0], total + counts[1]
        except Exception as error:
            failed += 1
            print(f"{path.name}: {str(error)[:500]}")
    print(f"{len(files)} models, {failed} failed; {off} of {total} codes one step off")
    return failed or not files


if __name__ == "__main__":
    mode, folder = sys.argv[1], Path(sys.argv[2])
    by, exact = {"onnxruntime": (by_onnxruntime, False), "numpy": (by_numpy, True)}[mode]
    sys.exit(1 if compare(folder, by, exact) else 0)
