"""Compares models with onnxruntime, for src/tests/oracle.rs.

oracle.py make FOLDER      writes models with every form of the supported operators
oracle.py compare FOLDER   runs each NAME.onnx and NAME.exported.onnx on equal inputs: outputs must
                           be equal bit for bit (averages nearly). Where there is only an exported file, it must run
                           and its outputs must have the declared shapes.
"""
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(7)


def save(folder, name, opset, shape, nodes, inits=None, outputs=("y",)):
    """One model with input x; nodes are (operator, inputs, outputs, attributes)."""
    nodes = [helper.make_node(op, i, o, f"{op}_{n}", **a) for n, (op, i, o, a) in enumerate(nodes)]
    inits = [numpy_helper.from_array(np.asarray(v), k) for k, v in (inits or {}).items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = [helper.make_tensor_value_info(o, TensorProto.UNDEFINED, None) for o in outputs]
    for value in y:
        value.type.Clear()
    graph = helper.make_graph(nodes, name, [x], y, inits)
    ir = 7 if opset < 15 else 10
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    onnx.save(model, folder / f"{name}.onnx")


def floats(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def windows(folder):
    number = 0
    for auto in ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]:
        for stride, dilation, kernel in [(1, 1, 3), (2, 1, 3), (3, 1, 2), (1, 2, 2), (2, 2, 3)]:
            number += 1
            if auto.startswith("SAME") and (dilation > 1 or stride > kernel):
                continue  # onnxruntime does not follow the standard here
            window = {"strides": [stride, 1], "auto_pad": auto, "kernel_shape": [kernel, 2]}
            conv = {**window, "dilations": [dilation, 1]}
            if auto == "NOTSET":
                window["pads"] = conv["pads"] = [kernel - 1, 0, 0, 1]
            save(folder, f"conv{number}", 11, [2, 4, 9, 8], [("Conv", ["x", "w", "b"], ["y"], {**conv, "group": 2})],
                 {"w": floats(6, 2, kernel, 2), "b": floats(6)})
            save(folder, f"maxpool{number}", 11, [2, 3, 9, 8], [("MaxPool", ["x"], ["y"], conv)])
            average = {**window, "count_include_pad": number % 2}
            save(folder, f"averagepool{number}", 11, [2, 3, 9, 8], [("AveragePool", ["x"], ["y"], average)])
            if auto == "NOTSET":
                for op, extra in [("MaxPool", {}), ("AveragePool", {"count_include_pad": number % 2})]:
                    save(folder, f"ceil{op}{number}", 19, [1, 2, 10, 9],
                         [(op, ["x"], ["y"], {**conv, **extra, "ceil_mode": 1})])
    save(folder, "conv1d", 11, [1, 2, 9], [("Conv", ["x", "w"], ["y"], {})], {"w": floats(3, 2, 3)})
    save(folder, "conv3d", 11, [1, 2, 4, 5, 6], [("Conv", ["x", "w"], ["y"], {"auto_pad": "SAME_UPPER"})],
         {"w": floats(3, 2, 2, 3, 2)})


def others(folder):
    save(folder, "globalaverage", 13, [2, 3, 4, 5], [("GlobalAveragePool", ["x"], ["y"], {})])
    for opset in [7, 9, 15]:
        names = ["scale", "bias", "mean", "variance"]
        save(folder, f"batchnorm{opset}", opset, [2, 3, 4],
             [("BatchNormalization", ["x", *names], ["y"], {"epsilon": 0.01, "momentum": 0.5})],
             {n: np.abs(floats(3)) for n in names})
    for opset in [7, 13]:
        save(folder, f"gemm{opset}", opset, [3, 4],
             [("Gemm", ["x", "b", "c"], ["y"], {"alpha": 0.5, "beta": 2.0, "transA": 1, "transB": 1})],
             {"b": floats(5, 3), "c": floats(1, 5)})
    save(folder, "gemmplain", 13, [3, 4], [("Gemm", ["x", "b"], ["y"], {})], {"b": floats(4, 5)})
    save(folder, "matmul", 13, [2, 1, 3, 4], [("MatMul", ["x", "b"], ["y"], {})], {"b": floats(5, 4, 2)})
    for op in ["Add", "Sub", "Mul", "Div"]:
        save(folder, op.lower(), 13, [2, 1, 3], [(op, ["x", "b"], ["y"], {})], {"b": floats(4, 1)})
    for op in ["Max", "Min"]:
        save(folder, op.lower(), 13, [2, 3], [(op, ["x", "b", "x", "c"], ["y"], {})],
             {"b": floats(3), "c": floats(2, 1)})
    for op in ["Relu", "Neg", "Abs", "Identity"]:
        save(folder, op.lower(), 13, [2, 3], [(op, ["x"], ["y"], {})])
    save(folder, "dropout", 13, [2, 3], [("Dropout", ["x"], ["y"], {})])
    for axis in [-3, -1, 0, 1, 3]:
        save(folder, f"flatten{axis}", 13, [2, 3, 4], [("Flatten", ["x"], ["y"], {"axis": axis})])
    for n, (shape, zero) in enumerate([([0, -1], 0), ([4, 3, 2], 0), ([-1], 0), ([2, 0, 2, 2], 0)]):
        save(folder, f"reshape{n}", 14, [2, 3, 4], [("Reshape", ["x", "s"], ["y"], {"allowzero": zero})],
             {"s": np.array(shape)})
    save(folder, "reshapezero", 14, [0, 3], [("Reshape", ["x", "s"], ["y"], {"allowzero": 1})],
         {"s": np.array([3, 0])})
    save(folder, "transpose", 13, [2, 3, 4], [("Transpose", ["x"], ["y"], {"perm": [2, 0, 1]})])
    save(folder, "reverse", 13, [2, 3, 4], [("Transpose", ["x"], ["y"], {})])
    save(folder, "squeeze11", 11, [2, 1, 3, 1], [("Squeeze", ["x"], ["y"], {"axes": [-1, 1]})])
    save(folder, "squeeze13", 13, [2, 1, 3, 1], [("Squeeze", ["x", "a"], ["y"], {})], {"a": np.array([3])})
    save(folder, "squeezeall", 13, [2, 1, 3, 1], [("Squeeze", ["x"], ["y"], {})])
    save(folder, "unsqueeze11", 11, [2, 3], [("Unsqueeze", ["x"], ["y"], {"axes": [0, -1]})])
    save(folder, "unsqueeze13", 13, [2, 3], [("Unsqueeze", ["x", "a"], ["y"], {})], {"a": np.array([-2, 0])})
    save(folder, "constant", 13, [2, 3],
         [("Constant", [], ["c"], {"value_floats": [1.0, 2.0, 3.0]}), ("Mul", ["x", "c"], ["y"], {})])


def quantised(folder):
    for kind, opset in [(np.uint8, 10), (np.int8, 13), (np.uint16, 21), (np.int16, 21)]:
        name, args = np.dtype(kind).name, ["s", "z"]
        inits = {"s": np.float32(0.03), "z": kind(5)}
        save(folder, f"pair_{name}", opset, [2, 3, 4],
             [("QuantizeLinear", ["x", *args], ["q"], {}), ("DequantizeLinear", ["q", *args], ["y"], {})], inits)
        save(folder, f"codes_{name}", opset, [2, 3, 4], [("QuantizeLinear", ["x", *args], ["y"], {})], inits)
    inits = {"s": np.abs(floats(3)) + 0.01, "z": np.array([0, 3, -2], np.int8)}
    for axis, perm in [(1, [0, 1, 2]), (-1, [0, 2, 1]), (0, [1, 0, 2])]:
        save(folder, f"axis{axis}", 13, [2, 3, 4],
             [("Transpose", ["x"], ["t"], {"perm": perm}),
              ("QuantizeLinear", ["t", "s", "z"], ["q"], {"axis": axis}),
              ("DequantizeLinear", ["q", "s", "z"], ["y"], {"axis": axis})], inits)
    save(folder, "weights", 13, [2, 4],
         [("DequantizeLinear", ["w", "s", "z"], ["d"], {"axis": 1}), ("MatMul", ["x", "d"], ["y"], {})],
         {"w": RANDOM.integers(-128, 128, (4, 3)).astype(np.int8), **inits})


def feed(session):
    random = np.random.default_rng(1)
    shapes = {i.name: [d if isinstance(d, int) else 3 for d in i.shape] for i in session.get_inputs()}
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def session(path):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def check(exported):
    ours = session(exported)
    outputs = ours.run(None, feed(ours))
    for declared, found in zip(ours.get_outputs(), outputs):
        for want, have in zip(declared.shape, found.shape, strict=True):
            assert not isinstance(want, int) or want == have, f"{declared.shape} is {found.shape}"
    onnx.checker.check_model(onnx.load(exported))
    original = exported.with_name(exported.name.replace(".exported", ""))
    if original.exists():
        theirs = session(original)
        for want, have in zip(theirs.run(None, feed(theirs)), outputs, strict=True):
            assert want.dtype == have.dtype, f"{want.dtype} became {have.dtype}"
            # Different opsets add up averages in different orders.
            tolerance = 1e-6 if "average" in original.name.lower() else 0
            np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)


def compare(folder):
    files = sorted(folder.glob("*.exported.onnx"))
    failed = 0
    for file in files:
        try:
            check(file)
        except Exception as error:
            failed += 1
            print(f"{file.name}: {error}")
    print(f"{len(files)} models, {failed} failed")
    return failed or not files


if __name__ == "__main__":
    mode, folder = sys.argv[1], Path(sys.argv[2])
    if mode == "make":
        windows(folder)
        others(folder)
        quantised(folder)
    else:
        sys.exit(1 if compare(folder) else 0)
