"""Writes programs that the tracers of da4ml 0.6.0 and alkaid 0.8.2 make, plain and pipelined.

    python tests/peers/tracers.py DIR [NAME ...]

Both tools trace every operation below. X.TOOL.json is the program, X.TOOL.pipeline.json what `to_pipeline`
makes of it; X_in.npy and X_out.npy are samples and what NumPy computes from them, which knows
nothing of either tool. Prints how many programs of each tool there are, and a line for each on which the
tool's own interpreter disagrees with NumPy; exit 1 if there is one.
"""

import pathlib
import sys

import numpy as np

SAMPLES = 16
MATRIX = np.random.default_rng(5).integers(-15, 16, (4, 3)).astype(float)
SQUARE = np.random.default_rng(6).integers(-7, 8, (4, 4)) / 4


def quantize(x, k, i, f, overflow="WRAP", rounding="TRN"):
    """Fixed point of sign k, i integer and f fraction bits."""
    if hasattr(x, "quantize"):
        return x.quantize(k, i, f, overflow, rounding)
    x = np.floor(np.asarray(x, float) * 2.0**f + (0.5 if rounding == "RND" else 0))
    low, high = -k * 2.0 ** (i + f), 2.0 ** (i + f) - 1
    if overflow == "WRAP":
        x = (x - low) % (high - low + 1) + low
    else:
        x = np.clip(x, -high * k if overflow == "SAT_SYM" else low, high)
    return x / 2.0**f


def relu(x, i=None, f=None, rounding="TRN"):
    """max(x, 0), perhaps with i integer and f fraction bits."""
    if hasattr(x, "relu"):
        wide = [None if bits is None else np.full(x.shape, bits) for bits in (i, f)]
        return x.relu(*wide, rounding)
    x = np.maximum(x, 0)
    return x if i is None else quantize(x, 0, i, f, rounding=rounding)


def lookup(function, k=1, i=3, f=4):
    return lambda x: quantize(function(x), k, i, f)


def bits(x):
    """Bit operations are on whole numbers."""
    return x if hasattr(x, "quantize") else x.astype(np.int64)


# The types of the four inputs: sign, integer, fraction bits.
USUAL, WHOLE, COARSE, SHORT, POSITIVE = (1, 3, 2), (1, 4, 0), (1, 6, -2), (1, 2, 1), (0, 4, 0)

# What is traced, of four inputs.
OPERATIONS = {
    "add": (USUAL, lambda x: x[:2] + x[2:]),
    "add_shifted": (USUAL, lambda x: x[:2] + x[2:] * 8),
    "sub": (USUAL, lambda x: x[:2] - x[2:] / 4),
    "negate": (USUAL, lambda x: -x),
    "add_constant": (USUAL, lambda x: x + np.array([0.5, -3, 7.25, 100])),
    "scale": (USUAL, lambda x: x * np.array([3, -5, 0.75, 23])),
    "multiply": (USUAL, lambda x: x[:2] * x[2:]),
    "square": (USUAL, lambda x: x * x),
    "power": (SHORT, lambda x: x**3),
    "divide": (USUAL, lambda x: x / 8),
    "relu": (USUAL, relu),
    "relu_negated": (USUAL, lambda x: relu(-x)),
    "relu_narrow": (USUAL, lambda x: relu(x, 2, 1)),
    "relu_rounded": (USUAL, lambda x: relu(x, 2, 1, "RND")),
    "wrap": (USUAL, lambda x: quantize(x, 1, 1, 1)),
    "wrap_rounded": (USUAL, lambda x: quantize(x, 1, 1, 1, "WRAP", "RND")),
    "saturate": (USUAL, lambda x: quantize(x, 1, 1, 1, "SAT")),
    "saturate_rounded": (USUAL, lambda x: quantize(x, 1, 1, 1, "SAT", "RND")),
    "symmetric": (USUAL, lambda x: quantize(x, 1, 1, 1, "SAT_SYM")),
    "symmetric_rounded": (USUAL, lambda x: quantize(x, 1, 2, 0, "SAT_SYM", "RND")),
    "wrap_unsigned": (USUAL, lambda x: quantize(x, 0, 2, 1)),
    "saturate_unsigned": (USUAL, lambda x: quantize(x, 0, 2, 1, "SAT")),
    "absolute": (USUAL, np.abs),
    "maximum": (USUAL, lambda x: np.maximum(x[:2], x[2:])),
    "minimum": (USUAL, lambda x: np.minimum(x[:2], x[2:])),
    "maximum_of_constant": (USUAL, lambda x: np.maximum(x, 1.5)),
    "max": (USUAL, lambda x: np.max(x, keepdims=True)),
    "min": (USUAL, lambda x: np.min(x, keepdims=True)),
    "clip": (USUAL, lambda x: np.clip(x, -1.5, 2.25)),
    "greater": (USUAL, lambda x: x[:2] > x[2:]),
    "less": (USUAL, lambda x: x[:2] < x[2:]),
    "at_least": (USUAL, lambda x: x >= 1),
    "at_most": (USUAL, lambda x: x[:2] <= x[2:]),
    "equal": (SHORT, lambda x: x[:2] == x[2:]),
    "not_equal": (SHORT, lambda x: x[:2] != x[2:]),
    "where": (USUAL, lambda x: np.where(x[:2] > x[2:], x[:2], x[2:] * 2)),
    "where_zero": (COARSE, lambda x: np.where(x > 3, 0, x)),
    "where_else_zero": (COARSE, lambda x: np.where(x > 3, x, 0)),
    "sort": (USUAL, np.sort),
    "sort_coarse": (COARSE, np.sort),
    "argsort": (COARSE, lambda x: x[np.argsort(x)]),
    "sum": (USUAL, lambda x: np.sum(x, keepdims=True)),
    "mean": (USUAL, lambda x: np.mean(x, keepdims=True)),
    "prod": (SHORT, lambda x: np.prod(x, keepdims=True)),
    "matmul": (USUAL, lambda x: x @ MATRIX),
    "matmul_twice": (USUAL, lambda x: relu(x @ SQUARE) @ MATRIX),
    "rmatmul": (USUAL, lambda x: MATRIX.T @ x),
    "dot": (USUAL, lambda x: np.dot(x, SQUARE)),
    "dot_variable": (SHORT, lambda x: x[:2].reshape(1, 2) @ x[2:].reshape(2, 1)),
    "einsum": (USUAL, lambda x: np.einsum("ij,jk->ik", x.reshape(2, 2), SQUARE[:2])),
    "sine": (USUAL, lookup(np.sin)),
    "exponential": (SHORT, lookup(np.exp, 0, 4, 3)),
    "tanh": (USUAL, lookup(np.tanh, 1, 0, 6)),
    "bit_and": (POSITIVE, lambda x: bits(x)[:2] & bits(x)[2:]),
    "bit_or": (WHOLE, lambda x: bits(x)[:2] | bits(x)[2:]),
    "bit_xor": (WHOLE, lambda x: bits(x)[:2] ^ bits(x)[2:]),
    "bit_not": (WHOLE, lambda x: ~bits(x)),
    "any": (SHORT, lambda x: np.any(x > 1, keepdims=True)),
    "all": (SHORT, lambda x: np.all(x < 1, keepdims=True)),
    "concatenate": (USUAL, lambda x: np.concatenate([x[1:] - x[:-1], np.stack([x[3], x[0]])])),
}


def samples(kind):
    """Numbers of a type, its lowest and highest among them."""
    k, i, f = kind
    low, high = -k * 2 ** (i + f), 2 ** (i + f) - 1
    numbers = np.random.default_rng(1).integers(low, high, (SAMPLES, 4), endpoint=True)
    numbers[0], numbers[1], numbers[2] = low, high, [0, high, low, 0]
    return np.ascontiguousarray(numbers * 2.0**-f)


def da4ml(kind, operation):
    from da4ml.trace import FixedVariableArrayInput, HWConfig, comb_trace, to_pipeline

    inputs = FixedVariableArrayInput((4,), HWConfig(1, -1, -1))
    program = comb_trace(inputs, operation(inputs.quantize(*kind)))
    return program, lambda cutoff: to_pipeline(program, cutoff, verbose=False)


def alkaid(kind, operation):
    from alkaid.trace import FVArrayInput, HWConfig, to_pipeline, trace

    inputs = FVArrayInput((4,), HWConfig(1, -1, -1))
    program = trace(inputs, operation(inputs.quantize(*kind)))
    return program, lambda cutoff: to_pipeline(program, latency_cutoff=cutoff, verbose=False)


def differs(program, inputs, expected):
    """None where the tool computes what is expected, else what is wrong."""
    if hasattr(program, "predict"):
        found = program.predict(inputs)
        found = found["model_out"] if isinstance(found, dict) else found
    else:  # da4ml runs no pipelines, but their stages
        found = inputs
        for stage in program.solutions:
            found = stage.predict(np.ascontiguousarray(found))
    wrong = np.argwhere(found.reshape(expected.shape) != expected)
    if len(wrong) == 0:
        return None
    sample, output = wrong[0]
    return f"sample {sample}, output {output}: {found[sample, output]}, NumPy {expected[sample, output]}"


def write(folder, name, tool):
    kind, operation = OPERATIONS[name]
    inputs = samples(kind)
    # Adding 0 makes 0 of -0, which fixed point does not have.
    outputs = np.ascontiguousarray([np.ravel(operation(row)) + 0.0 for row in inputs])
    np.save(folder / f"{name}_in.npy", inputs)
    np.save(folder / f"{name}_out.npy", outputs)
    program, staged = tool(kind, operation)
    slowest = max([op.latency for op in program.ops], default=0)
    longest = max([op.latency - max([program.ops[i].latency for i in operands(op)], default=0)
                   for op in program.ops])
    pipeline = staged(max(longest, slowest / 3, 1))
    program.save(folder / f"{name}.{tool.__name__}.json")
    pipeline.save(folder / f"{name}.{tool.__name__}.pipeline.json")
    return [problem for it in (program, pipeline) if (problem := differs(it, inputs, outputs))]


def operands(op):
    """The slots that an operation of either tool reads, its condition aside."""
    if hasattr(op, "addr"):
        return op.addr
    return [] if op.opcode == -1 else [slot for slot in (op.id0, op.id1) if slot >= 0]


def main():
    folder = pathlib.Path(sys.argv[1])
    names = sys.argv[2:] or OPERATIONS
    failed = False
    for tool in (da4ml, alkaid):
        for name in names:
            for problem in write(folder, name, tool):
                failed = True
                print(f"{name}.{tool.__name__}: {problem}")
        print(f"{tool.__name__}={len(names)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
