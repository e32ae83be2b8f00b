"""Writes a tensor of every element type in every storage form, for tests/storage.rs.

storage.py FOLDER   NAME/model.onnx casts an initialiser to float; NAME/out.npz is what the onnx
                    package reads from it. Forms are raw_data, the typed fields, and external data.
"""
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = ["FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL"]
TYPES += [f"{sign}INT{bits}" for sign in ("", "U") for bits in (2, 4, 8, 16, 32, 64)]
TYPES += ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0", "FLOAT4E2M1"]


def values(name):
    """An odd number of elements, so that packed ones end within a byte."""
    dtype = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name))
    random = np.random.default_rng(5)
    if name == "BOOL":
        return random.integers(0, 2, 37).astype(dtype)
    if "INT" in name:
        bits = int(name.split("INT")[1])
        low = 0 if name[0] == "U" else -(2 ** (bits - 1))
        return random.integers(low, low + 2**bits, 37, dtype=np.uint64 if bits == 64 and low == 0 else np.int64).astype(dtype)
    if "8" in name:
        return np.arange(255, dtype=np.uint8).view(dtype)
    return (random.normal(size=37) * 3).astype(np.float32).astype(dtype)


def save(folder, tensor, external=False):
    folder.mkdir(parents=True)
    cast = helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([cast], "storage", [], [output], [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    expected = numpy_helper.to_array(tensor).astype(np.float32)
    options = dict(save_as_external_data=True, location="w.bin", size_threshold=0) if external else {}
    onnx.save_model(model, folder / "model.onnx", **options)
    np.savez(folder / "out.npz", y=expected)


def main(folder):
    for name in TYPES:
        array, code = values(name), getattr(TensorProto, name)
        save(folder / f"{name}_raw", numpy_helper.from_array(array, "w"))
        save(folder / f"{name}_external", numpy_helper.from_array(array, "w"), external=True)
        save(folder / f"{name}_typed", helper.make_tensor("w", code, array.shape, array))


main(Path(sys.argv[1]))
