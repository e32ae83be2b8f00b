# %% [markdown]
# # A small network as an adder graph
#
# A network of three layers is written in numpy, quantised as it is written, and traced to a program of
# additions: logic that an FPGA runs in one go. Where da4ml is installed, it traces the same lines, for
# comparison, and runs our program.
#
#     python examples/python/dais.py

# %%
import tempfile
import time
from pathlib import Path

import numpy as np

from quincunx.dais import FixedArray, trace

rng = np.random.default_rng(0)
SIZES = [16, 32, 32, 5]
WEIGHTS = [rng.integers(-31, 32, shape) / 32 for shape in zip(SIZES, SIZES[1:])]
BIASES = [rng.integers(-8, 9, size) / 16 for size in SIZES[1:]]


# %% [markdown]
# The network. `x` is an array of fixed-point numbers, in Quincunx as in da4ml.


# %%
def network(x):
    for weights, bias in zip(WEIGHTS[:-1], BIASES):
        x = x @ weights + bias
        # Three integer and four fraction bits, rounded to the nearest.
        x = x.relu(np.full(x.shape, 3), np.full(x.shape, 4), "RND")
    return x @ WEIGHTS[-1] + BIASES[-1]


# %% [markdown]
# Inputs have a sign, three integer and four fraction bits. The program is checked against numpy.

# %%
start = time.perf_counter()
x = FixedArray.input(16, k=1, i=3, f=4)
program = trace(x, network(x))
seconds = time.perf_counter() - start
print(
    f"quincunx: {program.adders} adders, cost {program.cost:g} bits, latency {program.latency[1]:g}, {seconds:.3f} s"
)


# %%
def rounded(x):
    """What `relu` does, in numpy."""
    return np.floor(np.maximum(x, 0) * 16 + 0.5) / 16 % 8


samples = rng.integers(-128, 128, (1000, 16)) / 16
expected = samples
for weights, bias in zip(WEIGHTS[:-1], BIASES):
    expected = rounded(expected @ weights + bias)
expected = expected @ WEIGHTS[-1] + BIASES[-1]
assert np.array_equal(program.predict(samples), expected)
print(f"{len(samples)} samples are exact")

# %% [markdown]
# The same in stages with registers between, as Verilog, and in the words of da4ml.

# %%
staged = program.pipeline(5)
files = staged.emit("verilog", stem="mlp", clock=5)
print(f"in stages: {staged.stages} of them, {staged.reg_bits} register bits, {len(files)} files of Verilog")

# %%
try:
    from da4ml.trace import FixedVariableArrayInput, comb_trace
    from da4ml.types import CombLogic
except ImportError:
    print("da4ml is not installed")
else:
    start = time.perf_counter()
    x = FixedVariableArrayInput(16)
    theirs = comb_trace(x, network(x.quantize(1, 3, 4)))
    seconds = time.perf_counter() - start
    adders = sum(op.opcode in (0, 1) for op in theirs.ops)
    print(
        f"da4ml:    {adders} adders, cost {theirs.cost:g} bits, latency {theirs.latency[1]:g}, {seconds:.3f} s"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mlp.json")
        program.save(path)
        assert np.array_equal(CombLogic.load(path).predict(samples), expected)
    print("da4ml runs our program, with the same numbers")
