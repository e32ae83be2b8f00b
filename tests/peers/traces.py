"""Times tracing and products with constants in `quincunx.dais`, da4ml 0.6.0 and, if installed, alkaid 0.8.2.

    OMP_NUM_THREADS=1 python tests/peers/traces.py [--alkaid]

Every program and matrix is made by each tool in turn, three times; the shortest time counts, in seconds of the
processor, which other work on the machine disturbs less. What we trace is compared with numpy. The first lines have
seconds from a Python function to the finished program, the others those of `solve`, beside the call of the library
alone. Last comes the time of `predict` for 65,536 samples.
"""

import sys
import time

import numpy as np
from tracers import OPERATIONS, quantize, relu, samples

REPEATS = 3


def mlp(sizes, bits, seed):
    """A network of dense layers with biases."""
    rng = np.random.default_rng(seed)
    high = 2 ** (bits - 1)
    weights = [rng.integers(-high, high, shape) / (high / 2) for shape in zip(sizes, sizes[1:])]
    biases = [rng.integers(-8, 8, size) / 8 for size in sizes[1:]]

    def network(x):
        for matrix, bias in zip(weights[:-1], biases):
            x = relu(x @ matrix + bias, 4, 3, "RND")
        return x @ weights[-1] + biases[-1]

    return network


FILTERS = np.random.default_rng(7).integers(-7, 8, (9, 4)).astype(float)
COSINES = np.random.default_rng(3).integers(-15, 16, (8, 6)).astype(float)


def convolution(x):
    """Four filters of 3x3 on 8x8 numbers, and the maxima of 2x2."""
    x = x.reshape(8, 8)
    patches = np.stack([x[i : i + 6, j : j + 6] for i in range(3) for j in range(3)], -1)
    y = relu(patches.reshape(36, 9) @ FILTERS, 4, 2)
    y = y.reshape(3, 2, 3, 2, 4).transpose((0, 2, 1, 3, 4)).reshape(3, 3, 4, 4)
    return np.max(y, axis=2)


def sines(x):
    """A product of matrices and tables."""
    y = np.einsum("ij,jk->ik", x.reshape(8, 8), COSINES)
    return quantize(np.sin(quantize(y, 1, 2, 4)), 1, 1, 6)


PROGRAMS = {
    "mlp 4-8-3, 4 bits": ((1, 3, 2), 4, mlp([4, 8, 3], 4, 2)),
    "mlp 32-32-16-10, 8 bits": ((1, 3, 4), 32, mlp([32, 32, 16, 10], 8, 4)),
    "mlp 16-64-32-32-5, 6 bits": ((1, 3, 4), 16, mlp([16, 64, 32, 32, 5], 6, 1)),
    "convolution and maxima": ((0, 4, 2), 64, convolution),
    "matrices and sines": ((1, 3, 2), 64, sines),
    "sort 16 numbers": ((1, 4, 3), 16, np.sort),
}


def da4ml(kind, count, operation):
    from da4ml.trace import FixedVariableArrayInput, HWConfig, comb_trace

    x = FixedVariableArrayInput((count,), HWConfig(1, -1, -1))
    return comb_trace(x, operation(x.quantize(*kind)))


def alkaid(kind, count, operation):
    from alkaid.trace import FVArrayInput, HWConfig, trace

    x = FVArrayInput((count,), HWConfig(1, -1, -1))
    return trace(x, operation(x.quantize(*kind)))


def quincunx(kind, count, operation):
    from quincunx.dais import FixedArray, trace

    x = FixedArray.input(count, *kind)
    return trace(x, operation(x))


def shortest(function):
    """The shortest time, and the result."""
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        result = function()
        seconds.append(time.process_time() - start)
    return min(seconds), result


def traces(tools):
    for name, (kind, count, operation) in PROGRAMS.items():
        cells, times = [], {}
        for tool in tools:
            times[tool], program = shortest(lambda tool=tool: tool(kind, count, operation))
            adders = sum(op.opcode in (0, 1) for op in program.ops)
            cells.append(f"{times[tool]:.4f} s {len(program.ops)} ops {adders} adders cost {program.cost:g}")
            if tool is quincunx:
                inputs = samples([kind] * count)
                expected = np.array([np.ravel(operation(row)) + 0.0 for row in inputs])
                assert np.array_equal(program.predict(inputs), expected), name
        print(f"{name}: " + " | ".join(cells) + f" | {times[da4ml] / times[quincunx]:.1f} times")
    names = [name for name in OPERATIONS if name != "argsort"]
    for tool in tools:
        seconds, _ = shortest(lambda tool=tool: [tool(OPERATIONS[n][0], 4, OPERATIONS[n][1]) for n in names])
        print(f"{len(names)} single operations, {tool.__name__}: {seconds:.4f} s")


def products():
    from da4ml.cmvm import solve as theirs

    from quincunx import _core
    from quincunx.dais import solve

    rng = np.random.default_rng(0)
    for inputs, outputs, bits in (
        (1, 1, 8), (1, 8, 8), (4, 4, 8), (8, 8, 8), (16, 16, 8), (32, 32, 6), (64, 32, 6), (64, 64, 6)
    ):  # fmt: skip
        rows = {
            "da4ml": [0.0, 0],
            "library": [0.0, 0],
            "quick": [0.0, 0],
            "fast": [0.0, 0],
            "default": [0.0, 0],
        }
        for _ in range(3):
            kernel = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (inputs, outputs))
            flat, known = kernel.ravel().tolist(), [(-128, 127, 0, 0.0)] * inputs
            calls = {
                "da4ml": lambda k=kernel: theirs(k.astype(np.float32)).cost,
                "library": lambda f=flat, k=known: _core.solve(
                    (f, 0, outputs), k, ("quick", None, (-1, -1))
                ).size[1],
                "quick": lambda k=kernel: solve(k).adders,
                "fast": lambda k=kernel: solve(k, effort="fast").adders,
                "default": lambda k=kernel: solve(k, effort="default").adders,
            }
            for name, call in calls.items():
                seconds, adders = shortest(call)
                rows[name][0] += seconds / 3
                rows[name][1] += int(adders)
        cells = [f"{name} {seconds * 1e3:.2f} ms {adders} adders" for name, (seconds, adders) in rows.items()]
        times = rows["da4ml"][0] / rows["quick"][0]
        print(f"3 of {inputs}x{outputs}, {bits} bits: " + " | ".join(cells) + f" | {times:.1f} times")


def predictions():
    import tempfile

    from da4ml.types import CombLogic

    kind, count, operation = PROGRAMS["mlp 16-64-32-32-5, 6 bits"]
    program = quincunx(kind, count, operation)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        program.save(file.name)
        theirs = CombLogic.load(file.name)
    inputs = np.random.default_rng(0).integers(-128, 128, (1 << 16, count)) / 16
    ours, found = shortest(lambda: program.predict(inputs, n_threads=1))
    seconds, expected = shortest(lambda: theirs.predict(inputs, n_threads=1))
    assert np.array_equal(found, expected)
    print(f"predict: da4ml {seconds:.3f} s | quincunx {ours:.3f} s")


if __name__ == "__main__":
    traces([da4ml, quincunx, *([alkaid] if "--alkaid" in sys.argv else [])])
    products()
    predictions()
