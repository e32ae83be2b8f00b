"""Writes programs that the tracers of da4ml 0.6.0 and alkaid 0.8.2 make: plain, pipelined, and with registers.

    python tests/peers/tracers.py DIR [NAME ...]

Both tools trace every operation below. X.TOOL.json is the program, X.TOOL.pipeline.json what `to_pipeline`
makes of it; X_in.npy and X_out.npy are samples and what NumPy computes from them, which knows
nothing of either tool. machines/X.machine.json are alkaid's programs with registers, whose
samples are steps one after the other. Prints how many programs of each tool and machines there are, and a line for each
on which the tool's own interpreter disagrees with NumPy; exit 1 if there is one.
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


def iir(v):
    """A filter of second order, whose registers are quantised."""
    x, near, far = v[:1], v[1:2], v[2:]
    y = quantize(x * 0.25 + near * 1.25 - far * 0.5, 1, 4, 6, "SAT", "RND")
    return np.concatenate([y, y, near])


def oscillator(v):
    """Two registers, each of which moves the other; the input is a push."""
    a = quantize(v[1:2] + v[2:] / 8, 1, 3, 5, "SAT")
    b = quantize(v[2:] - a / 8 + v[:1] / 4, 1, 3, 5, "SAT")
    return np.concatenate([a, b, a, b])


def chirp(v):
    """The sine of a phase, which grows by a step, which grows by the input."""
    step = quantize(v[1:2] + v[:1], 1, 2, 2)
    phase = quantize(v[2:] + step, 0, 3, 2)
    return np.concatenate([quantize(np.sin(v[2:]), 1, 1, 5), step, phase])


# Programs with registers: the types of what goes in, types and start values of the registers, how many
# numbers come out, and these and what the registers hold next, of what goes in and what they hold.
MACHINES = {
    "accumulator": ([USUAL], [(1, 5, 2)], [2.5], 1,
                    lambda v: quantize(np.concatenate([np.sum(v, keepdims=True)] * 2), 1, 5, 2)),
    "moving_sum": ([USUAL], [USUAL] * 3, [1.0, -2.0, 0.25], 1,
                   lambda v: np.concatenate([np.sum(v, keepdims=True), v[:3]])),
    "counter": ([POSITIVE], [POSITIVE], [5.0], 1,
                lambda v: np.concatenate([v[1:], quantize(v[:1] + v[1:], 0, 4, 0)])),
    "iir": ([USUAL], [(1, 4, 6)] * 2, [0.0, 0.5], 1, iir),
    "oscillator": ([SHORT], [(1, 3, 5)] * 2, [4.0, -0.25], 2, oscillator),
    "chirp": ([SHORT], [(1, 2, 2), (0, 3, 2)], [0.25, 1.5], 1, chirp),
    "differences": ([USUAL, SHORT], [USUAL, SHORT], [7.75, -1.5], 2,
                    lambda v: np.concatenate([v[2:] - v[:2], v[:2]])),
}


def samples(kinds):
    """Numbers of some types, their lowest and highest among them."""
    k, i, f = (np.array(bits) for bits in zip(*kinds))
    low, high = -k * 2 ** (i + f), 2 ** (i + f) - 1
    numbers = np.random.default_rng(1).integers(low, high, (SAMPLES, len(kinds)), endpoint=True)
    numbers[0], numbers[1], numbers[2] = low, high, np.resize([0, 1, -1, 0], len(kinds))
    numbers[2] = np.where(numbers[2] > 0, high, np.where(numbers[2] < 0, low, 0))
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
    inputs = samples([kind] * 4)
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


def comb(kinds, operation):
    """A program of alkaid with inputs of some types."""
    from alkaid.trace import FVArrayInput, HWConfig, trace

    inputs = FVArrayInput((len(kinds),), HWConfig(1, -1, -1))
    return trace(inputs, operation(inputs.quantize(*(np.array(bits) for bits in zip(*kinds)))))


def ends(name, program):
    """The signals that a program reads and writes."""
    from alkaid.stateful import Signal

    kinds = program.inp_kifs, program.out_kifs
    return [Signal(f"INTERNAL_{name}_{end}", False, tuple(zip(*(bits.tolist() for bits in kind))), reg=False)
            for end, kind in zip(("inp", "outp"), kinds)]


def machine(name):
    """The program around its registers, and what NumPy computes."""
    from alkaid.stateful import FSM, Conn, Signal

    kinds, held, start, count, operation = MACHINES[name]
    program = comb(kinds + held, operation)
    inp, outp = ends("step", program)
    size = len(kinds)
    x = Signal("x", True, tuple(kinds), reg=False)
    y = Signal("y", True, tuple(outp.precisions[:count]), reg=True)
    state = Signal("state", False, tuple(held), rst_to=tuple(start), reg=True)
    fsm = FSM({"step": program}, (
        Conn(x, inp[0:size]), Conn(state, inp[size:size + len(held)]),
        Conn(outp[0:count], y), Conn(outp[count:count + len(held)], state),
    ))
    inputs, outputs, now = samples(kinds), [], np.array(start)
    for row in inputs:
        row, now = np.split(operation(np.concatenate([row, now])), [count])
        outputs.append(row + 0.0)
    return fsm, {"x": inputs}, np.array(outputs)


def staged_machine():
    """Three programs with registers between them, one of which adds up, and two input ports."""
    from alkaid.stateful import FSM, Conn, Signal

    product, total, last = lambda v: v[:1] * v[1:], lambda v: quantize(v[:1] + v[1:], 1, 7, 3), lambda v: 3 - v
    wide = (1, 7, 3)
    logic = {"a": comb([USUAL, SHORT], product), "b": comb([wide, wide], total), "c": comb([wide], last)}
    (a, to_b), (b, to_c), (c, result) = (ends(name, program) for name, program in logic.items())
    left, right = Signal("left", True, (USUAL,), reg=False), Signal("right", True, (SHORT,), reg=False)
    held = Signal("held", False, (USUAL, SHORT), rst_to=(1.0, 0.5), reg=True)
    middle = Signal("middle", False, (wide,), rst_to=(-2.5,), reg=True)
    grown = Signal("grown", False, (wide,), rst_to=(100.0,), reg=True)
    wire = Signal("wire", False, (wide,), reg=False)
    both = Signal("both", False, (USUAL, SHORT), reg=False)
    y = Signal("y", True, tuple(result.precisions), reg=True)
    before = Signal("before", True, (wide,), reg=True)
    fsm = FSM(logic, (
        Conn(left, both[0:1]), Conn(right, both[1:2]), Conn(both, held), Conn(held, a), Conn(to_b, middle),
        Conn(middle, b[0:1]), Conn(grown, b[1:2]), Conn(to_c, grown), Conn(to_c, wire), Conn(wire, c),
        Conn(result, y), Conn(grown, before),
    ))
    inputs, outputs = samples([USUAL, SHORT]), []
    pair, middle, grown = np.array([1.0, 0.5]), np.array([-2.5]), np.array([100.0])
    for row in inputs:
        new = total(np.concatenate([middle, grown]))
        outputs.append(np.concatenate([last(new), grown]))
        pair, middle, grown = row, product(pair), new
    return fsm, {"left": inputs[:, :1], "right": inputs[:, 1:]}, np.array(outputs)


def controlled_machine():
    """A sum that is reset, another that waits, and the input or what it was before."""
    from alkaid.stateful import FSM, Conn, Signal

    wide, bit = (1, 5, 2), (0, 1, 0)
    total = lambda v: quantize(v[:1] + v[1:], *wide)
    logic = {"a": comb([USUAL, wide], total), "b": comb([USUAL, wide], total)}
    (a, new), (b, later) = (ends(name, program) for name, program in logic.items())
    x, go, clear = (Signal(name, True, (kind,), reg=False)
                    for name, kind in (("x", USUAL), ("go", bit), ("clear", bit)))
    cleared = Signal("cleared", False, (wide,), rst_if=clear, rst_to=(-1.75,), reg=True)
    waiting = Signal("waiting", False, (wide,), rst_to=(3.5,), rst_if=clear, reg=True)
    held = Signal("held", False, (USUAL,), rst_to=(0.25,), reg=True)
    which, old = (Signal(name, False, (USUAL,), reg=False) for name in ("which", "old"))
    u, v, w = (Signal(name, True, (kind,), reg=True) for name, kind in (("w", wide), ("v", wide), ("u", USUAL)))
    fsm = FSM(logic, (
        Conn(x, a[0:1]), Conn(cleared, a[1:2]), Conn(new, cleared), Conn(x, b[0:1]), Conn(waiting, b[1:2]),
        Conn(later, waiting, enable_if=go), Conn(held, old),
        Conn(x, which, enable_if=go, alt_src=old), Conn(x, held),
        Conn(cleared, u), Conn(waiting, v), Conn(which, w), Conn(clear, Signal("seen", False, (bit,), reg=True)),
    ))
    bits = np.random.default_rng(3).integers(0, 2, (SAMPLES, 2)).astype(float)
    inputs, outputs = np.hstack([samples([USUAL]), bits]), []
    cleared, waiting, held = np.array([-1.75]), np.array([3.5]), np.array([0.25])
    for x, go, clear in (np.split(row, 3) for row in inputs):
        outputs.append(np.concatenate([cleared, waiting, x if go else held]))
        cleared = np.array([-1.75]) if clear else total(np.concatenate([x, cleared]))
        new = total(np.concatenate([x, waiting])) if go else waiting
        waiting, held = np.array([3.5]) if clear else new, x
    return fsm, {"x": inputs[:, :1], "go": inputs[:, 1:2], "clear": inputs[:, 2:]}, np.array(outputs)


# Machines of more than one program, or with more than registers.
SPECIAL = {"staged": staged_machine, "controlled": controlled_machine}


def write_machine(folder, name):
    fsm, inputs, outputs = SPECIAL[name]() if name in SPECIAL else machine(name)
    np.save(folder / f"{name}_in.npy", np.hstack(list(inputs.values())))
    np.save(folder / f"{name}_out.npy", outputs)
    fsm.save(folder / f"{name}.machine.json")
    found = np.hstack([signal for _, signal in sorted(fsm.run(inputs).items(), reverse=True)])
    wrong = np.argwhere(found != outputs)
    return [f"sample {at[0]}, output {at[1]}: {found[tuple(at)]}, NumPy {outputs[tuple(at)]}" for at in wrong[:1]]


def operands(op):
    """The slots that an operation of either tool reads, its condition aside."""
    if hasattr(op, "addr"):
        return op.addr
    return [] if op.opcode == -1 else [slot for slot in (op.id0, op.id1) if slot >= 0]


def main():
    folder = pathlib.Path(sys.argv[1])
    wanted = sys.argv[2:] or [*OPERATIONS, *MACHINES, *SPECIAL]
    failed = False
    for tool in (da4ml, alkaid):
        names = [name for name in OPERATIONS if name in wanted]
        for name in names:
            for problem in write(folder, name, tool):
                failed = True
                print(f"{name}.{tool.__name__}: {problem}")
        print(f"{tool.__name__}={len(names)}")
    (folder / "machines").mkdir(exist_ok=True)
    names = [name for name in (*MACHINES, *SPECIAL) if name in wanted]
    for name in names:
        for problem in write_machine(folder / "machines", name):
            failed = True
            print(f"{name}.machine: {problem}")
    print(f"machines={len(names)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
