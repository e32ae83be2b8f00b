"""Writes the backend tests of the onnx package as folders, for tests/backend.rs.

backend.py cases FOLDER   every case of one node or few: FOLDER/NAME/model.onnx, in_K.npz and
                          out_K.npz for each data set K; facts.txt has the lines `op NAME` for each
                          operator and `type NAME` for each element type of inputs and outputs.
backend.py versions FOLDER  the same cases converted to older opsets by onnx.version_converter, as
                          NAME_opsetK, where it can do that and the package's own reference agrees.
backend.py light FOLDER   the light_* models in the same form; they have no stored inputs, so they
                          get the ramp 0..1 that the package's own runner feeds them.

numpy has no types for most floats of 16 bits and less and integers below 8 bits; those arrays are
stored as float32 and (u)int8, and types.txt has a line `NAME TYPE` for each output of such a type.

Graphs of Quincunx have static shapes. Inputs that decide a shape (and quantisation parameters)
become initialisers with the numbers of the first data set.
"""
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import numpy as np
import onnx
import onnx.version_converter
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.reference import ReferenceEvaluator

# Operand positions that are parameters, by operator.
PARAMETERS = {
    "Reshape": [1],
    "Expand": [1],
    "Tile": [1],
    "Slice": [1, 2, 3, 4],
    "Pad": [1, 2, 3],
    "Split": [1],
    "Squeeze": [1],
    "Unsqueeze": [1],
    "ConstantOfShape": [0],
    "Range": [0, 1, 2],
    "Resize": [1, 2, 3],
    "Upsample": [1],
    "Clip": [1, 2],
    "CumSum": [1],
    "OneHot": [1],
    "Trilu": [1],
    "Dropout": [1, 2],
    "QuantizeLinear": [1, 2],
    "DequantizeLinear": [1, 2],
    "QLinearConv": [1, 2, 3, 4, 5, 6, 7, 8],
    "QLinearMatMul": [1, 2, 4, 5, 6, 7],
    "ReduceMax": [1],
    "ReduceMin": [1],
    "ReduceMean": [1],
    "ReduceSum": [1],
    "ReduceProd": [1],
    "ReduceL1": [1],
    "ReduceL2": [1],
    "ReduceLogSum": [1],
    "ReduceLogSumExp": [1],
    "ReduceSumSquare": [1],
    "LSTM": [4],
    "GRU": [4],
    "RNN": [4],
}

PLAIN = {"float16", "float32", "float64", "bool"} | {f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)}

# What arrays of types that numpy lacks are stored as.
STORED = {"bfloat16": np.float32, "float4_e2m1fn": np.float32}
STORED |= {f"float8_{name}": np.float32 for name in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")}
STORED |= {"int4": np.int8, "int2": np.int8, "uint4": np.uint8, "uint2": np.uint8}


def stored(value):
    value = np.asarray(value)
    return value.astype(STORED.get(value.dtype.name, value.dtype))


def kind(value):
    """The element type of a value, or what it is when it is no tensor."""
    which = value.type.WhichOneof("value") or "unknown"
    if which != "tensor_type":
        return which.removesuffix("_type")
    return TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower()


def bind_parameters(model, inputs):
    """Turns inputs at parameter positions into initialisers; returns the inputs that are left."""
    graph = model.graph
    bound = set()
    for node in graph.node:
        if node.domain not in ("", "ai.onnx"):
            continue
        for index in PARAMETERS.get(node.op_type, []):
            if index < len(node.input) and node.input[index] in inputs:
                bound.add(node.input[index])
    for name in sorted(bound):
        graph.initializer.append(numpy_helper.from_array(np.asarray(inputs[name]), name))
    kept = [value for value in graph.input if value.name not in bound]
    del graph.input[:]
    graph.input.extend(kept)
    return bound


def array(value):
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def write_case(folder, model, data_sets):
    folder.mkdir(parents=True)
    operators = {node.op_type for node in model.graph.node}
    operators |= {"subgraphs" for n in model.graph.node for a in n.attribute if a.type in (5, 10)}
    values = list(model.graph.input) + list(model.graph.output)
    types = {kind(value) for value in values}
    facts = [f"op {name}" for name in sorted(operators)] + [f"type {name}" for name in sorted(types)]
    (folder / "facts.txt").write_text("\n".join(facts) + "\n")
    # Optional inputs that are absent have no name.
    constants = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in constants]
    outputs = [value.name for value in model.graph.output]
    data_sets = [([array(v) for v in given], [array(v) for v in out]) for given, out in data_sets]
    sets = [(dict(zip(names, given)), dict(zip(outputs, expected))) for given, expected in data_sets]
    plain = all(
        isinstance(value, (np.ndarray, np.generic))
        and np.asarray(value).dtype.name in PLAIN | set(STORED)
        for arrays in sets
        for value in (*arrays[0].values(), *arrays[1].values())
    )
    bound = bind_parameters(model, sets[0][0]) if plain and sets else set()
    onnx.save(model, folder / "model.onnx")
    if not plain:
        return
    for number, (given, expected) in enumerate(sets):
        given = {name: stored(v) for name, v in given.items() if name not in bound}
        types = [f"{name} {v.dtype.name}\n" for name, v in expected.items() if v.dtype.name in STORED]
        (folder / "types.txt").write_text("".join(types))
        expected = {name: stored(v) for name, v in expected.items()}
        np.savez(folder / f"in_{number}.npz", **given)
        np.savez(folder / f"out_{number}.npz", **expected)


def read_tensor(path):
    return numpy_helper.to_array(onnx.load_tensor(path))


def stored_sets(model_dir):
    """The data sets of a case that lies in a folder."""
    for folder in sorted(Path(model_dir).glob("test_data_set_*")):
        def load(stem):
            return [read_tensor(folder / f"{stem}_{i}.pb") for i in range(len(list(folder.glob(f"{stem}_*.pb"))))]
        yield load("input"), load("output")


def write_cases(folder):
    for case in load_model_tests(kind="node"):
        write_case(folder / case.name, case.model, case.data_sets)
    for suite in ("pytorch-converted", "pytorch-operator", "simple"):
        for case in load_model_tests(kind=suite):
            model = onnx.load(Path(case.model_dir) / "model.onnx")
            try:
                sets = list(stored_sets(case.model_dir))
            except Exception:  # Sequences and the like are not stored as tensors.
                sets = [([None] * len(model.graph.input), [None] * len(model.graph.output))]
            write_case(folder / f"{suite}_{case.name}", model, sets)


OPSETS = [18, 13, 11, 7]

# Neither the converter nor the reference know that these joined axes before opset 13.
JOINING = {"Softmax", "LogSoftmax", "Hardmax"}


def forms(model, opset):
    """The versions of a model's operators in an opset; None where one does not exist yet."""
    try:
        return tuple(onnx.defs.get_schema(node.op_type, opset).since_version for node in model.graph.node)
    except onnx.defs.SchemaError:
        return None


def agrees(model, given, expected):
    """True when the package's reference computes the expected numbers with a converted model."""
    found = ReferenceEvaluator(model).run(None, given)
    return all(
        np.asarray(f).shape == np.asarray(e).shape and np.allclose(f, e, 1e-3, 1e-5, equal_nan=True)
        for f, e in zip(found, expected)
    )


def write_versions(folder):
    for case in load_model_tests(kind="node"):
        names = [value.name for value in case.model.graph.input]
        sets = [([array(v) for v in given], [array(v) for v in out]) for given, out in case.data_sets]
        newest = max((o.version for o in case.model.opset_import if o.domain in ("", "ai.onnx")), default=0)
        operators = {node.op_type for node in case.model.graph.node}
        written = {forms(case.model, newest), None}
        for opset in [v for v in OPSETS if v < newest and not case.name.endswith("_expanded")]:
            form = forms(case.model, opset)
            if form in written or opset < 13 and operators & JOINING:
                continue
            written.add(form)
            try:
                model = onnx.version_converter.convert_version(case.model, opset)
                onnx.checker.check_model(model)
                if all(agrees(model, dict(zip(names, given)), out) for given, out in sets):
                    write_case(folder / f"{case.name}_opset{opset}", model, case.data_sets)
            except Exception:  # No adapter for this operator, or not in this form.
                continue


def ramp(value):
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    count = int(np.prod(shape))
    return (np.arange(count) / count).reshape(shape).astype(np.float32)


def write_light(folder):
    data = Path(onnx.__file__).parent / "backend/test/data/light"
    for path in sorted(data.glob("light_*.onnx")):
        model = onnx.load(path)
        constants = {tensor.name for tensor in model.graph.initializer}
        inputs = [ramp(value) for value in model.graph.input if value.name not in constants]
        outputs = [read_tensor(path.with_name(f"{path.stem}_output_0.pb"))]
        write_case(folder / path.stem, model, [(inputs, outputs)])


if __name__ == "__main__":
    command, target = sys.argv[1], Path(sys.argv[2])
    {"cases": write_cases, "versions": write_versions, "light": write_light}[command](target)
