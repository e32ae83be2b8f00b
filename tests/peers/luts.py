"""LUTs that Yosys makes of constant matrices: the Verilog of da4ml 0.6.0 beside that of `quincunx`.

    python tests/peers/luts.py DIR [--quincunx PATH] [--effort NAME ...] [--only NAME ...]

DIR holds integer matrices as .npy files, rows are inputs of 8 signed bits. Both tools write one
combinational module, which `synth_xilinx` maps with the options of `quincunx time --synth`. da4ml
runs with its defaults (adder_size 1, carry_size -1). It needs `onnx` beside da4ml in one Python. Prints a
line for every matrix: LUTs, carry blocks and adders of each, how far ours is from da4ml's LUTs, and the
estimate of ours.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SYNTH = "synth_xilinx -flatten -noiopad -noclkbuf -top {top}; tee -q -o cells.json stat -json"


def yosys(folder, files, top):
    """LUTs and carry blocks of a module."""
    # Modules of a library that are not used are not elaborated.
    script = f"read_verilog -defer {' '.join(map(str, files))}; {SYNTH.format(top=top)}"
    subprocess.run(["yosys", "-q", "-p", script], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    cells = json.loads((folder / "cells.json").read_text())["design"]["num_cells_by_type"]
    luts = sum(n for name, n in cells.items() if name[:3] == "LUT" or name == "INV")
    return luts, cells.get("CARRY4", 0)


def da4ml(weights, folder):
    """LUTs, carry blocks and adders of da4ml's solution."""
    from da4ml.codegen import VerilogModel
    from da4ml.trace import FixedVariableArrayInput, HWConfig, comb_trace

    inputs = FixedVariableArrayInput(weights.shape[0], hwconf=HWConfig(1, -1, -1))
    x = inputs.quantize(1, 7, 0)
    logic = comb_trace(inputs, x @ np.ascontiguousarray(weights, dtype=np.float64))
    adders = sum(op.opcode in (0, 1) for op in logic.ops)
    VerilogModel(logic, "peer", folder / "peer", print_latency=False).write()
    files = [path for path in (folder / "peer").rglob("*.v") if "wrapper" not in path.name]
    return (*yosys(folder, files, "peer"), adders)


def model(weights, path):
    """A graph of one product with inputs of 8 signed bits."""
    rows, columns = weights.shape
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["values"]),
        helper.make_node("MatMul", ["values", "weights"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array(np.float32(1), "scale"),
        numpy_helper.from_array(np.int8(0), "zero"),
        numpy_helper.from_array(weights.astype(np.float32), "weights"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.INT8, [1, rows])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, columns])
    graph = helper.make_graph(nodes, "product", [x], [y], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    onnx.save(made, path)


def ours(weights, effort, binary, folder):
    """LUTs, carry blocks, adders and estimated LUTs of ours."""
    model(weights, folder / "product.onnx")
    emit = ["--emit", f"verilog={folder}/ours/", "--set", "rtl-name=ours", "--set", "rtl-vectors=1"]
    command = [binary, "compile", folder / "product.onnx", "--target", "dais", "--effort", effort]
    text = subprocess.run([*command, *emit], check=True, capture_output=True, text=True).stdout
    row = lambda name: next(int(line.split()[-1]) for line in text.splitlines() if line.startswith(name))
    return (*yosys(folder, ["ours/ours.v"], "ours"), row("adders "), row("LUTs, estimated "))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--quincunx", default="target/release/quincunx")
    parser.add_argument("--effort", nargs="+", default=["default"])
    parser.add_argument("--only", nargs="+")
    args = parser.parse_args()
    for path in sorted(args.dir.glob("*.npy")):
        if args.only and path.stem not in args.only:
            continue
        weights = np.load(path)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            peer = da4ml(weights, folder)
            line = f"{path.stem:24} da4ml {peer[0]:6} {peer[1]:5} {peer[2]:5}"
            for effort in args.effort:
                found = ours(weights, effort, args.quincunx, folder)
                more = found[0] / peer[0] - 1
                line += f"  {effort} {found[0]:6} {found[1]:5} {found[2]:5} {more:+7.1%} {found[3]:6}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
