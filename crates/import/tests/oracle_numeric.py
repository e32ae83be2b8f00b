"""Operators that compute, compare, select and reduce numbers, for src/tests/oracle_numeric.rs.

oracle_numeric.py make FOLDER     writes NAME.onnx for every form, and NAME.npz with the inputs and
                                  the output y that onnxruntime computes
oracle_numeric.py compare FOLDER  runs each NAME.exported.onnx on the inputs of NAME.npz: its output
                                  must be y
"""
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

RANDOM = np.random.default_rng(11)


def session(path):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class Maker:
    """Writes models of one node with the output y."""

    def __init__(self, folder):
        self.folder = folder
        self.count = 0

    def __call__(self, opset, op, inputs, inits=(), absent=(), **attributes):
        """inputs, then inits, are the operands; absent lists positions that are left out."""
        self.count += 1
        name = f"{self.count:03}_{op}_{opset}"
        feeds = {f"x{i}": np.asarray(v) for i, v in enumerate(inputs)}
        constants = {f"c{i}": np.asarray(v) for i, v in enumerate(inits)}
        operands = [*feeds, *constants]
        for position in absent:
            operands.insert(position, "")
        node = helper.make_node(op, operands, ["y"], **attributes)
        info = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                for n, v in feeds.items()]
        y = helper.make_empty_tensor_value_info("y")
        graph = helper.make_graph([node], name, info, [y],
                                  [numpy_helper.from_array(v, n) for n, v in constants.items()])
        ir = 7 if opset < 15 else 10
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
        path = self.folder / f"{name}.onnx"
        onnx.save(model, path)
        result = session(path).run(["y"], feeds)[0]
        # Truth values travel as bytes.
        bools = {f"bool_{n}": v.astype(np.uint8) for n, v in [*feeds.items(), ("y", result)] if v.dtype == bool}
        rest = {n: v for n, v in [*feeds.items(), ("y", result)] if v.dtype != bool}
        np.savez(self.folder / f"{name}.npz", **bools, **rest)


def floats(*shape, dtype=np.float32):
    return RANDOM.normal(size=shape).astype(dtype) * dtype(2)


def integers(*shape, dtype=np.int32, low=-20, high=20):
    return RANDOM.integers(low, high, shape).astype(dtype)


def bools(*shape):
    return RANDOM.integers(0, 2, shape).astype(bool)


def elementwise(make):
    x = np.concatenate([floats(40), np.array([0, 0.5, -0.5, 1.5, 2.5, -2.5, 30, -30], np.float32)])
    for opset, names in [
        (7, ["Exp", "Elu", "LeakyRelu", "Selu", "Sigmoid", "Tanh", "HardSigmoid", "Floor", "Ceil", "Reciprocal",
             "Softplus"]),
        (13, ["Exp", "Erf", "Sign", "Abs", "Neg", "Sigmoid", "Tanh", "Round", "Relu"]),
        (14, ["HardSwish"]),
        (20, ["Gelu"]),
    ]:
        for name in names:
            make(opset, name, [np.abs(x) + np.float32(0.1) if name == "Reciprocal" else x])
    make(20, "Gelu", [x], approximate="tanh")
    for name in ["Sqrt", "Log"]:
        make(13, name, [np.abs(x) + np.float32(0.01)])
    for name in ["Exp", "Floor", "Sqrt", "Tanh", "Sigmoid"]:
        make(13, name, [np.abs(floats(9, dtype=np.float64))])
    for name in ["Elu", "LeakyRelu", "HardSigmoid"]:
        make(13, name, [x], alpha=0.3)
    make(13, "HardSigmoid", [x], alpha=0.1, beta=0.6)
    make(13, "Selu", [x], alpha=1.5, gamma=0.7)
    for dtype in [np.int8, np.int32, np.int64]:
        for name in ["Abs", "Neg", "Sign"]:
            make(13, name, [integers(9, dtype=dtype)])
    make(14, "Relu", [integers(9)])
    make(13, "Not", [bools(7)])


def clip(make):
    x = floats(30)
    make(7, "Clip", [x], min=-0.5, max=1.0)
    make(10, "Clip", [x], min=0.0)
    make(10, "Clip", [x])
    for opset in [11, 13]:
        make(opset, "Clip", [x], [np.float32(-1), np.float32(6)])
        make(opset, "Clip", [x], [np.float32(0.5)])
        make(opset, "Clip", [x], [np.float32(0.5)], absent=[1])
        make(opset, "Clip", [x, np.float32(-0.25), np.float32(0.75)])
    make(13, "Clip", [integers(20)], [np.int32(-3), np.int32(4)])
    make(13, "Clip", [integers(20, dtype=np.int64)], [np.int64(4)], absent=[1])
    make(13, "Clip", [floats(9, dtype=np.float64)], [np.float64(0.1), np.float64(0.9)])


def binary(make):
    for opset in [7, 13]:
        for name in ["Add", "Sub", "Mul", "Div"]:
            make(opset, name, [floats(2, 1, 3), floats(4, 1)])
    for dtype in [np.int32, np.int64]:
        for name in ["Add", "Sub", "Mul"]:
            make(14, name, [integers(2, 3, dtype=dtype), integers(3, dtype=dtype)])
        make(14, "Div", [integers(4, 3, dtype=dtype), integers(3, dtype=dtype, low=1) * dtype(-1)])
        for name in ["Max", "Min"]:
            make(13, name, [integers(2, 3, dtype=dtype), integers(3, dtype=dtype), integers(2, 1, dtype=dtype)])
    make(14, "Mul", [integers(9, low=2**20, high=2**30), integers(9, low=2**20, high=2**30)])
    make(14, "Add", [integers(9, dtype=np.uint8, low=0, high=256), integers(9, dtype=np.uint8, low=0, high=256)])
    for name in ["Add", "Sub", "Mul", "Div", "Max", "Min"]:
        make(13, name, [floats(5, dtype=np.float64), floats(5, dtype=np.float64)])
    base = np.abs(floats(3, 4)) + np.float32(0.1)
    make(7, "Pow", [base, floats(4)])
    make(13, "Pow", [floats(3, 4)], [np.float32(2)])
    make(13, "Pow", [floats(3, 4)], [np.int64(3)])
    make(13, "Pow", [integers(5)], [np.int32(2)])
    make(13, "Pow", [integers(5, dtype=np.int64)], [np.float32(3)])
    for name in ["Sum", "Mean", "Max", "Min"]:
        for count in [1, 2, 4]:
            make(8, name, [floats(2, 3) for _ in range(count)])
        make(13, name, [floats(2, 3), floats(3), floats(2, 1)])
    for opset, slope in [(7, (3, 1, 1)), (9, (1,)), (16, (3, 1, 4))]:
        make(opset, "PRelu", [floats(2, 3, 4, 4)], [floats(*slope)])


def selection(make):
    a, b = np.round(floats(4, 5)), np.round(floats(5))
    for opset, names in [(9, ["Greater", "Less"]), (11, ["Equal", "Greater", "Less"]),
                         (13, ["Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"])]:
        for name in names:
            make(opset, name, [a, b])
            make(opset, name, [integers(4, 5), integers(4, 1)])
            make(opset, name, [integers(9, dtype=np.int64), integers(9, dtype=np.int64)])
    make(7, "Equal", [integers(30, high=0), integers(30, high=0)])
    make(13, "Equal", [bools(9), bools(9)])
    for name in ["And", "Or", "Xor"]:
        make(7, name, [bools(4, 3), bools(3)])
    make(9, "Where", [bools(4, 1), floats(3), floats(4, 3)])
    make(16, "Where", [bools(5), integers(5, dtype=np.int64)], [np.int64(7)])
    make(16, "Where", [bools(5), integers(5, dtype=np.uint8, low=0), integers(5, dtype=np.uint8, low=0)])


REDUCTIONS = ["Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]


def reductions(make):
    x = np.abs(floats(2, 3, 4)) + np.float32(0.1)
    for name in [f"Reduce{r}" for r in REDUCTIONS]:
        for opset in [7, 11]:
            make(opset, name, [x], axes=[1])
            make(opset, name, [x], axes=[0, 2], keepdims=0)
        make(11, name, [x], axes=[-1], keepdims=0)
        make(11, name, [x])
        attribute = {"axes": [1, 2]} if name != "ReduceSum" else {}
        make(13, name, [x], [np.array([1, 2])] if name == "ReduceSum" else [], **attribute)
        make(18, name, [x], [np.array([2, 0])], keepdims=0)
        make(18, name, [x], [np.array([-2])])
        make(18, name, [x], keepdims=0)
    for name in ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd"]:
        make(18, name, [integers(3, 4)], [np.array([1])])
    make(18, "ReduceSum", [integers(3, 4, dtype=np.int64)], [np.array([0])])
    make(18, "ReduceMean", [floats(3, 4, dtype=np.float64)], [np.array([0])])
    make(18, "ReduceSum", [x], noop_with_empty_axes=1)
    make(18, "ReduceMax", [x], [np.array([], np.int64)], noop_with_empty_axes=1)
    ties = np.round(floats(3, 5))
    for name in ["ArgMax", "ArgMin"]:
        make(7, name, [ties])
        make(11, name, [ties], axis=-1, keepdims=0)
        make(12, name, [ties], axis=1, select_last_index=1)
        make(13, name, [integers(3, 5)], axis=1)
    for name in ["Softmax", "LogSoftmax"]:
        make(7, name, [floats(2, 3, 4)])
        for axis in [0, 1, 2, -1]:
            make(11, name, [floats(2, 3, 4)], axis=axis)
            make(13, name, [floats(2, 3, 4)], axis=axis)
        make(13, name, [floats(2, 3)])


def normalisations(make):
    make(7, "GlobalMaxPool", [floats(2, 3, 4, 5)])
    make(13, "GlobalMaxPool", [floats(2, 3, 5)])
    x = floats(2, 3, 4, 5)
    for axis, shape in [(-1, (5,)), (2, (4, 5)), (1, (3, 4, 5))]:
        make(17, "LayerNormalization", [x], [floats(*shape), floats(*shape)], axis=axis, epsilon=1e-3)
    make(17, "LayerNormalization", [x], [floats(5)])
    for opset in [7, 13]:
        make(opset, "InstanceNormalization", [x], [floats(3), floats(3)], epsilon=1e-2)
    make(13, "InstanceNormalization", [floats(2, 3, 9)], [floats(3), floats(3)])
    for opset, size in [(7, 3), (13, 5)]:
        make(opset, "LRN", [floats(2, 7, 3, 3)], size=size, alpha=0.5, beta=0.7, bias=1.5)
    make(13, "LRN", [floats(1, 5, 2, 2)], size=3)


def compare(folder):
    files = sorted(folder.glob("*.exported.onnx"))
    failed = 0
    for file in files:
        stored = np.load(folder / file.name.replace(".exported.onnx", ".npz"))
        values = {n.removeprefix("bool_"): stored[n].astype(bool) if n.startswith("bool_") else stored[n]
                  for n in stored}
        want = values.pop("y")
        try:
            onnx.checker.check_model(onnx.load(file))
            have = session(file).run(None, values)[0]
            assert want.dtype == have.dtype, f"{want.dtype} became {have.dtype}"
            np.testing.assert_allclose(have, want, rtol=1e-6, atol=1e-6)
        except Exception as error:
            failed += 1
            print(f"{file.name}: {error}")
    print(f"{len(files)} models, {failed} failed")
    return failed or not files


if __name__ == "__main__":
    mode, folder = sys.argv[1], Path(sys.argv[2])
    if mode == "make":
        maker = Maker(folder)
        for family in [elementwise, clip, binary, selection, reductions, normalisations]:
            family(maker)
    else:
        sys.exit(1 if compare(folder) else 0)
