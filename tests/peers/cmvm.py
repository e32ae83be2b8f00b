"""Measures da4ml 0.6.0 and alkaid 0.8.2 on constant matrices, in the terms of `bench dais:cmvm`.

    OMP_NUM_THREADS=1 python tests/peers/cmvm.py DIR [--slack S]

DIR holds integer matrices as .npy files, rows are inputs. Both are used as installed from PyPI.
Prints a line for every matrix and the total: adders, bits and seconds (median of three runs) of each.
"""

import argparse
import math
import pathlib
import statistics
import time

import numpy as np


def width(op, buffer):
    """Bits of an adder: sign, integer bits of the larger operand with its step, down to the coarser step."""
    x, y = buffer[op["a"]], buffer[op["b"]]
    scale = 2.0 ** op["shift"]
    low, high, step = (v * scale for v in y)
    # A subtraction looks at the second operand with its ends exchanged.
    y = (high, low, step) if op["code"] == 1 else (low, high, step)
    reach = max(abs(x[0]), abs(x[1] + x[2]), abs(y[0]), abs(y[1] + y[2]))
    signed = x[0] < 0 or low < 0
    return int(signed) + math.ceil(math.log2(reach)) - int(math.log2(max(x[2], y[2])))


def plain(op):
    """An operation of either tool in one form."""
    q = (op.qint.min, op.qint.max, op.qint.step)
    if hasattr(op, "id0"):
        return {"code": op.opcode, "a": op.id0, "b": op.id1, "shift": op.data, "q": q}
    operands = list(op.addr)
    a, b = (operands + [0, 0])[:2]
    return {"code": op.opcode, "a": a, "b": b, "shift": (list(op.data) + [0])[0], "q": q}


def measures(stages):
    """Adders and bits of the stages of a solution."""
    adders = bits = 0
    for stage in stages:
        ops = [plain(op) for op in stage.ops]
        buffer = [op["q"] for op in ops]
        for op in ops:
            if op["code"] in (0, 1):
                adders += 1
                bits += width(op, buffer)
    return adders, bits


def da4ml(kernel, adder_size=1, **options):
    from da4ml.cmvm import solve

    return solve(kernel, adder_size=adder_size, carry_size=-1, **options).solutions


def alkaid(kernel, **options):
    from alkaid.cmvm import cmvm_solve

    return cmvm_solve(kernel, **options)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--slack", type=int, default=-1)
    args = parser.parse_args()
    tools = {"da4ml": da4ml, "alkaid": alkaid}
    totals = {name: [0, 0, 0.0] for name in tools}
    for path in sorted(args.dir.glob("*.npy")):
        kernel = np.load(path).astype(np.float32)
        line = path.stem
        for name, solve in tools.items():
            seconds = []
            for _ in range(3):
                start = time.perf_counter()
                stages = solve(kernel, hard_dc=args.slack)
                seconds.append(time.perf_counter() - start)
            row = (*measures(stages), statistics.median(seconds))
            totals[name] = [t + r for t, r in zip(totals[name], row)]
            line += f"  {name} {row[0]} {row[1]} {row[2]:.4f}"
        print(line)
    for name, (adders, bits, seconds) in totals.items():
        print(f"total  {name} {adders} {bits} {seconds:.2f}")


if __name__ == "__main__":
    main()
