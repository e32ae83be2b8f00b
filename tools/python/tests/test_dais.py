"""quincunx.dais: what it makes computes what numpy computes, in our simulator, in da4ml and in alkaid."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import itertools
import os
import runpy
import sys
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quincunx
from quincunx import QuincunxError, QuincunxWarning
from quincunx.dais import FixedArray, FixedArrayInput, Program, load, solve, trace

ROOT = Path(__file__).resolve().parents[3]
SEEDED = settings(derandomize=True, deadline=None, max_examples=60)


def tool(name: str) -> Any:
    """A package of another tool."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if os.environ.get("QUINCUNX_REQUIRE_TOOLS") == "1":
            raise
        pytest.skip(f"{name} is not installed")


def tracers() -> Any:
    """The operations that da4ml and alkaid are tested with, in numpy's words."""
    spec = importlib.util.spec_from_file_location("tracers", ROOT / "tests/peers/tracers.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["tracers"] = module
    spec.loader.exec_module(module)
    return module


TRACERS = tracers()
OPERATIONS = [name for name in TRACERS.OPERATIONS if name != "argsort"]


def quantize(x: Any, k: Any, i: Any, f: Any, overflow: str = "WRAP", rounding: str = "TRN") -> Any:
    """Fixed point in numpy, exact for numbers that floats hold."""
    x = np.floor(np.asarray(x, float) * 2.0**f + (0.5 if rounding == "RND" else 0))
    low, high = -k * 2.0 ** (i + f), 2.0 ** (i + f) - 1
    if overflow == "WRAP":
        x = np.mod(x - low, high - low + 1) + low
    else:
        x = np.clip(x, -high * k if overflow == "SAT_SYM" else low, high)
    return x * 2.0**-f


def rows(rng: np.random.Generator, count: int, k: Any, i: Any, f: Any, shape: tuple[int, ...]) -> Any:
    """Random numbers of types, the lowest and the highest among them."""
    k, i, f = (np.broadcast_to(part, shape) for part in (k, i, f))
    low, high = -k * 2 ** (i + f), 2 ** (i + f) - 1
    x = rng.integers(low, high, (count, *shape), endpoint=True)
    x[0], x[1] = low, high
    return x * 2.0**-f


# Products with constants


def test_cost_and_kernel_of_a_small_product() -> None:
    program = solve(np.array([[5, 5], [3, -3]]))
    assert (program.shape, program.adders, program.cost, program.latency) == ((2, 2), 4, 4.0, (2.0, 2.0))
    assert program.kernel.tolist() == [[5, 5], [3, -3]]
    assert program(np.array([7, -2])).tolist() == [29, 41]
    assert program.predict([[7, -2], [1, 1]]).tolist() == [[29, 41], [8, 2]]
    assert repr(program) == "<dais.Program 2 -> 2: 6 operations, cost 4, latency 2>"


def test_every_input_of_small_kernels() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        inputs, outputs = rng.integers(1, 4, 2)
        kernel = rng.integers(-16, 17, (inputs, outputs)) * 2.0 ** rng.integers(-3, 3)
        intervals = []
        for _ in range(inputs):
            low = int(rng.integers(-4, 3))
            step = 2.0 ** int(rng.integers(-2, 2))
            intervals.append((low * step, (low + int(rng.integers(0, 5))) * step, step))
        axes = [np.arange(low, high + step, step) for low, high, step in intervals]
        samples = np.array(list(itertools.product(*axes)))
        program = solve(kernel, qintervals=intervals)
        assert np.array_equal(program.predict(samples), samples @ kernel)


def fewest_adders() -> dict[int, int]:
    """The fewest adders for the odd constants below 256, by trying all graphs of up to three."""
    most, fewest = 1 << 10, {1: 0}

    def sums(known: tuple[int, ...]) -> set[int]:
        found = set()
        for x, y in itertools.product(known, known):
            for shift in range(11):
                for sum_ in (x + (y << shift), abs(x - (y << shift))):
                    odd = sum_ // (sum_ & -sum_) if sum_ else 0
                    if 0 < odd < most:
                        found.add(odd)
        return found - set(known)

    sets: list[tuple[int, ...]] = [(1,)]
    for adders in (1, 2, 3):
        following: set[tuple[int, ...]] = set()
        for known in sets:
            new = sums(known)
            for number in new:
                fewest.setdefault(number, adders)
            if adders < 3:
                following |= {tuple(sorted((*known, number))) for number in new}
        sets = sorted(following)
        if all(constant in fewest for constant in range(1, 256, 2)):
            break
    return fewest


def test_single_constants_have_the_fewest_adders() -> None:
    fewest = fewest_adders()
    for constant in range(1, 256, 2):
        assert solve([[constant]]).adders == fewest[constant], constant


@SEEDED
@given(st.integers(0, 2**32 - 1))
def test_products_are_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs, outputs, bits = int(rng.integers(1, 9)), int(rng.integers(1, 9)), int(rng.integers(1, 12))
    kernel = rng.integers(-(2**bits), 2**bits, (inputs, outputs)) * 2.0 ** rng.integers(-20, 20)
    k, i, f = rng.integers(0, 2, inputs), rng.integers(0, 5, inputs), rng.integers(0, 5, inputs)
    intervals = [(-a * 2.0**b, 2.0**b - 2.0**-c, 2.0**-c) for a, b, c in zip(k, i, f)]
    latencies = rng.integers(0, 5, inputs).astype(float).tolist()
    program = solve(kernel, qintervals=intervals, latencies=latencies, hard_dc=int(rng.integers(-1, 3)))
    x = rows(rng, 12, k, i, f, (inputs,))
    assert np.array_equal(program.predict(x), x @ kernel)
    assert np.array_equal(
        program.kernel[[b + c > 0 for b, c in zip(i + k, f)]], kernel[[b + c > 0 for b, c in zip(i + k, f)]]
    )
    assert program.cost == program.adders == sum(op.opcode in (0, 1) for op in program.ops)
    assert program.latency[1] <= max(latencies) + 40
    assert bool(program.program().verify())


def test_levels_are_bounded() -> None:
    kernel = np.random.default_rng(3).integers(-128, 128, (16, 16))
    latencies = [solve(kernel, hard_dc=slack).latency[1] for slack in (0, 2, -1)]
    adders = [solve(kernel, hard_dc=slack).adders for slack in (0, 2, -1)]
    assert latencies[1] <= latencies[0] + 2
    assert adders[0] >= adders[2]


def test_sizes_are_those_of_da4ml() -> None:
    bits = solve([[1, 3], [2, 5]], adder_size=1, carry_size=-1)
    carried = solve([[1, 3], [2, 5]], adder_size=-1, carry_size=4)
    assert bits.cost > bits.adders == carried.cost
    assert carried.latency[1] > bits.latency[1]


def test_costs_are_those_that_da4ml_counts() -> None:
    types = tool("da4ml.types")
    for sizes in ((-1, -1), (1, -1), (4, 8)):
        program = solve(
            np.random.default_rng(4).integers(-9, 9, (5, 4)), adder_size=sizes[0], carry_size=sizes[1]
        )
        ours = [(op.id0, op.id1, op.opcode, op.cost, op.latency) for op in program.ops]
        assert ours[:5] == [(i, -1, -1, 0.0, 0.0) for i in range(5)]
        assert types.QInterval(*program.ops[0].qint) == (-128, 127, 1)


def test_settings_of_other_searches_are_warned_of() -> None:
    with pytest.warns(QuincunxWarning, match="method0"):
        solve([[3]], "mc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve([[3]], "wmc", "auto", -1, -2, [(0, 3, 1)], [1.0])


# Traces


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str, tmp_path: Path) -> None:
    """Every operation that the peers trace gives what numpy computes, in our simulator and in theirs."""
    kind, operation = TRACERS.OPERATIONS[name]
    x = FixedArray.input(4, *kind)
    program = trace(x, operation(x))
    inputs = TRACERS.samples([kind] * 4)
    expected = np.array([np.ravel(operation(row)) + 0.0 for row in inputs])
    assert np.array_equal(program.predict(inputs), expected)
    assert bool(program.program().verify())
    for package, dialect in (("da4ml", "da4ml"), ("alkaid", "alkaid")):
        types = tool(f"{package}.types")
        program.save(tmp_path / "program.json", dialect)
        theirs = types.CombLogic.load(tmp_path / "program.json")
        found = theirs.predict(inputs)
        found = found["model_out"] if isinstance(found, dict) else found
        assert np.array_equal(np.reshape(found, expected.shape), expected), package
        assert theirs.shape == program.shape


@pytest.mark.parametrize("package", ["da4ml", "alkaid"])
def test_programs_of_the_peers_are_read(package: str, tmp_path: Path) -> None:
    tool(package)
    for name, (kind, operation) in TRACERS.OPERATIONS.items():
        theirs, _ = getattr(TRACERS, package)(kind, operation)
        theirs.save(tmp_path / "program.json")
        program = load(tmp_path / "program.json")
        inputs = TRACERS.samples([kind] * 4)
        expected = np.array([np.ravel(operation(row)) + 0.0 for row in inputs])
        assert np.array_equal(program.predict(inputs), expected), name
        assert (program.cost, program.latency) == (pytest.approx(theirs.cost), theirs.latency), name


def random_step(rng: np.random.Generator, x: Any, y: Any) -> Any:
    """One of many operations on two arrays of equal shape, each a traced one or one of numpy."""
    steps = [
        lambda: x + y,
        lambda: x - y * 2,
        lambda: x * y,
        lambda: -x + 3.25,
        lambda: 1.5 - y,
        lambda: np.abs(x),
        lambda: np.maximum(x, y),
        lambda: np.minimum(x, 1.5),
        lambda: np.where(x > y, x, -y),
        lambda: np.where(x <= 0.5, 2.0, y),
        lambda: np.where((x < y) | (y >= 1), x, 0),
        lambda: np.where(~(x == y) & (x != 0), y * 0.25, x),
        lambda: x * np.array([3, -0.375, 5, 0])[: x.shape[-1]],
        lambda: np.sort(x, axis=0),
        lambda: np.sum(x, axis=0, keepdims=True) + y,
        lambda: x[::-1] - np.roll(y, 1, axis=-1),
        lambda: np.concatenate([x, y], axis=-1)[..., 1 : 1 + x.shape[-1]],
        lambda: np.clip(x, -1.25, y * 0 + 2.5),
        lambda: x.T @ np.arange(-2, 2 * x.shape[0] - 2).reshape(x.shape[0], 2) + np.max(y),
        lambda: np.einsum("ij,kj->ik", x, y),
        lambda: x**2 - y / 4,
        lambda: np.cumsum(x, axis=-1),
        lambda: np.stack([x, y]).min(axis=0),
    ]
    return steps[int(rng.integers(len(steps)))]()


def random_values(seed: int, x: Any, y: Any) -> Any:
    """Random operations and quantisers in a row, on two traced arrays or two of numpy: all results."""
    rng, seen = np.random.default_rng(seed), [x, y]
    for _ in range(int(rng.integers(1, 6))):
        first = seen[int(rng.integers(len(seen)))]
        others = [array for array in seen if array.shape == first.shape]
        result = random_step(rng, first, others[int(rng.integers(len(others)))])
        result = result if result.ndim == 2 else np.reshape(result, (1, -1))
        kind = int(rng.integers(2)), int(rng.integers(0, 4)), int(rng.integers(0, 4))
        modes = ["WRAP", "SAT", "SAT_SYM"][int(rng.integers(3))], ["TRN", "RND"][int(rng.integers(2))]
        is_relu, is_traced = rng.integers(3) == 0, isinstance(result, FixedArray)
        if is_relu and is_traced:
            result = result.relu(*kind[1:])
        elif is_relu:
            result = quantize(np.maximum(result, 0), 0, *kind[1:])
        else:
            result = result.quantize(*kind, *modes) if is_traced else quantize(result, *kind, *modes)
        seen.append(result)
    return np.concatenate([np.ravel(array) for array in seen[2:]])


def random_program(seed: int) -> tuple[Program, Any, Any]:
    """A program of random operations, samples, and what numpy makes of them."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(extent) for extent in rng.integers(1, 5, 2))
    ranges = ((0, 2), (1, 4), (-1, 4))
    kinds = [tuple(rng.integers(low, high, shape) for low, high in ranges) for _ in range(2)]
    samples = [rows(rng, 6, *kind, shape) for kind in kinds]
    inputs = [FixedArray.input(shape, *kind) for kind in kinds]
    program = trace(inputs, random_values(seed + 1, *inputs))
    expected = np.array([random_values(seed + 1, *both) + 0.0 for both in zip(*samples)])
    return program, np.concatenate([array.reshape(6, -1) for array in samples], axis=1), expected


@settings(derandomize=True, deadline=None, max_examples=250)
@given(st.integers(0, 2**32 - 2))
def test_random_programs(seed: int) -> None:
    """All numbers of a trace are those of numpy."""
    program, samples, expected = random_program(seed)
    assert np.array_equal(program.predict(samples), expected)
    assert load(program.to_json()).to_json() == program.to_json()
    assert bool(program.program().verify())


@pytest.mark.parametrize("package", ["da4ml", "alkaid"])
def test_random_programs_in_the_peers(package: str, tmp_path: Path) -> None:
    types = tool(f"{package}.types")
    for seed in range(100):
        program, samples, expected = random_program(seed)
        # da4ml 0.6.0 crashes on a program without operations.
        if program.ops:
            program.save(tmp_path / "program.json", package)
            found = types.CombLogic.load(tmp_path / "program.json").predict(np.ascontiguousarray(samples))
            found = found["model_out"] if isinstance(found, dict) else found
            assert np.array_equal(np.reshape(found, expected.shape), expected), seed


@SEEDED
@given(st.integers(0, 2**32 - 1))
def test_what_is_known_of_numbers_is_true(seed: int) -> None:
    """Bounds and steps hold for what is computed, and are reached by inputs."""
    rng = np.random.default_rng(seed)
    k, i, f = rng.integers(0, 2, 3), rng.integers(0, 4, 3), rng.integers(0, 4, 3)
    x = FixedArray.input(3, k, i, f)
    low, high, step = x.lhs
    used = k + i + f > 0
    assert np.array_equal(low[used], (-k * 2.0**i)[used]) and np.array_equal(
        high[used], (2.0**i - 2.0**-f)[used]
    )
    y = np.abs(x * 3 - x[::-1]) + x[0] * x[1]
    samples = rows(rng, 40, k, i, f, (3,))
    low, high, step = y.lhs
    for row in samples:
        values = np.abs(row * 3 - row[::-1]) + row[0] * row[1]
        assert (low <= values).all() and (values <= high).all()
        assert all(Fraction(value) % Fraction(unit) == 0 for value, unit in zip(values, step))


def test_shapes_follow_numpy() -> None:
    values = np.arange(24.0).reshape(2, 3, 4) / 4
    x = FixedArray.input(values.shape, 0, 3, 2)
    matrix = np.arange(8).reshape(4, 2) - 3.0
    functions = [
        lambda a: a @ matrix,
        lambda a: np.einsum("abc,cd->adb", a, matrix),
        lambda a: np.einsum("...c,dc->d...", a, matrix.T),
        lambda a: np.einsum("abc->b", a),
        lambda a: np.tensordot(a, matrix, (2, 0)),
        lambda a: np.dot(a, matrix),
        lambda a: np.inner(a, matrix.T),
        lambda a: np.outer(a[0, 0], matrix[0]),
        lambda a: matrix.T @ a.transpose(0, 2, 1),
        lambda a: np.einsum("abc,adc->bd", a, a),
        lambda a: a[0] @ a[1].T,
        lambda a: np.pad(a, ((0, 0), (1, 0), (0, 2)), constant_values=0.5),
        lambda a: np.max(a, axis=(0, 2)) + np.min(a, axis=1).mean(axis=0)[:3],
        lambda a: np.sum(a, axis=-1, keepdims=True) * np.ones((1, 1, 2)),
        lambda a: np.swapaxes(np.flip(a, 1), 0, 2).reshape(-1, 2),
        lambda a: np.split(np.moveaxis(a, 0, -1), 2, axis=1)[1],
        lambda a: np.diff(a, axis=1),
        lambda a: np.any(a > 3, axis=0) * 1 + np.all(a < 5, axis=0) * 2,
        lambda a: np.repeat(np.expand_dims(a[..., 0], 0), 2, axis=0),
        lambda a: np.add.reduce(a, axis=0),
        lambda a: a.prod(axis=0)[..., None],
        lambda a: 0.5 - a[1, :, 2] // 1 if isinstance(a, np.ndarray) else 0.5 - np.floor(a[1, :, 2]),
    ]
    for number, function in enumerate(functions):
        expected = np.asarray(function(values))
        found = function(x)
        assert found.shape == expected.shape, number
        result = trace(x, found).predict(values[np.newaxis])
        assert np.array_equal(result[0], expected.ravel()), number


def test_tables() -> None:
    x = FixedArray.input(3, 1, 2, 3)
    samples = rows(np.random.default_rng(0), 30, 1, 2, 3, (3,))
    for function in (np.sin, np.tanh, lambda v: np.sqrt(np.abs(v)), lambda v: v * 0 + 1.25):
        for modes in (("WRAP", "TRN"), ("SAT", "RND"), ("SAT_SYM", "RND")):
            y = (-x * 0.5).apply(function).quantize(1, 0, 5, *modes)
            expected = quantize(function(-samples * 0.5), 1, 0, 5, *modes)
            assert np.array_equal(trace(x, y).predict(samples), expected)
    composed = trace(x, np.exp(np.sin(x) * 2.0 + 1).quantize(0, 5, 3))
    assert np.array_equal(composed.predict(samples), quantize(np.exp(np.sin(samples) * 2 + 1), 0, 5, 3))
    assert len({op.data for op in composed.ops if op.opcode == 8}) == 1


def test_nothing_is_computed_twice_or_for_nobody() -> None:
    x = FixedArray.input(2, 1, 3, 2)
    a, b = x
    once = trace(x, FixedArray.constant(0) + (a * b))
    twice = trace(x, np.stack([a * b, b * a, (a * b) / 4, -(b * a)]))
    assert len(once) == len(twice) == 3
    _ = a + b
    assert len(trace(x, a)) == 1
    assert trace(x, a).shape == (2, 1)
    assert trace(x, a - a).ops == []
    matrix = np.random.default_rng(5).integers(-7, 8, (2, 3))
    assert trace(x, np.stack([x @ matrix, x @ matrix])).adders == trace(x, x @ matrix).adders


def test_inputs_of_one_program_meet() -> None:
    x, y, z = FixedArray.input(2, 1, 3, 0), FixedArray.input(3, 0, 2, 1), FixedArray.input((), 1, 1, 0)
    program = trace([x, y, z], [x + z, y * z])
    assert program(np.array([3, -4, 1, 2.5, 0.5, -1])).tolist() == [2, -5, -1, -2.5, -0.5]
    raw = FixedArrayInput(2)
    both = np.concatenate([raw.quantize(1, 3, 0), raw.quantize(1, 3, 2)])
    assert trace(raw, both)(np.array([1.75, -0.5])).tolist() == [1, -1, 1.75, -0.5]


# Files


def test_files_and_pictures(tmp_path: Path) -> None:
    x = FixedArray.input(4, 1, 3, 2)
    program = trace(x, (x @ np.arange(-4, 8).reshape(4, 3)).relu(4, 1))
    for dialect in ("da4ml", "alkaid"):
        program.save(tmp_path / "p.json", dialect)
        again = load(str(tmp_path / "p.json"))
        samples = rows(np.random.default_rng(0), 20, 1, 3, 2, (4,))
        assert np.array_equal(again.predict(samples), program.predict(samples))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.json"]
    assert load(program.to_json()).to_json() == program.to_json()
    assert any(name.endswith(".v") for name in program.emit("verilog"))
    assert any(name.endswith((".vhd", ".vhdl")) for name in program.emit("vhdl", stem="mlp"))
    assert "data:image/svg+xml" in program._repr_html_()
    staged = program.pipeline(2)
    assert staged.stages > 1 and staged.reg_bits > 0
    assert np.array_equal(staged.predict(samples), program.predict(samples))
    assert np.array_equal(load(staged.to_json()).predict(samples), program.predict(samples))
    assert np.array_equal(solve([[3, 1], [2, -7]]).pipeline(1).kernel, [[3, 1], [2, -7]])
    assert quincunx.explain("Q0813")


def blocks(page: str) -> list[str]:
    """The Python code of a page of the book."""
    return [part.split("```")[0] for part in (ROOT / page).read_text().split("```python\n")[1:]]


def test_the_page_shows_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = blocks("docs/python/dais.md")
    names: dict[str, Any] = {}
    exec(first, names)
    assert names["program"](np.array([1, 2, -3, 0.25])).tolist() == [7.25, 0]
    assert load("relu.json").to_json() == names["program"].to_json()
    tool("da4ml")
    exec(second, names)
    assert (tmp_path / "build").is_dir()


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples/python/dais.py"))
    assert "samples are exact" in capsys.readouterr().out


def test_the_docstring_shows_what_runs() -> None:
    failed, tried = doctest.testmod(quincunx.dais)
    assert tried > 4 and not failed


def test_hls4ml_asks_us() -> None:
    """What hls4ml 1.3.0 does for a dense layer of the strategy distributed_arithmetic."""
    tool("da4ml")
    generate = importlib.import_module("da4ml.codegen.hls").hls_logic_and_bridge_gen
    theirs = importlib.import_module("da4ml.trace")
    before = theirs.FixedVariableArray, theirs.comb_trace
    rng = np.random.default_rng(9)
    kernel, bias = (rng.integers(-31, 32, shape).astype(np.float32) / 8 for shape in ((8, 6), 6))
    k, i, f = np.ones(8, np.int8), rng.integers(-1, 4, 8).astype(np.int8), np.full(8, 3, np.int8)

    def solution() -> Any:
        from da4ml.trace import FixedVariableArray, HWConfig, comb_trace

        options = {"hard_dc": 2, "search_all_decompose_dc": True}
        inp = FixedVariableArray.from_kif(k, i, f, HWConfig(1, -1, -1), solver_options=options)
        out = inp @ kernel
        out += bias
        return comb_trace(inp, out)

    usual = solution()
    with quincunx.dais.in_hls4ml():
        ours = solution()
        again = theirs.FixedVariableArrayInput(8).quantize(1, 3, 3)
        assert theirs.comb_trace(again, again * 2.0).shape == (8, 8)
        assert isinstance(theirs.FixedVariableArray.from_kif(k, i, f), before[0])
    assert (theirs.FixedVariableArray, theirs.comb_trace) == before
    samples = rows(rng, 50, k.astype(int), i.astype(int), f.astype(int), (8,))
    assert np.array_equal(ours.predict(samples), samples @ kernel + bias)
    assert np.array_equal(usual.predict(samples), samples @ kernel + bias)
    assert ours.cost <= usual.cost and ours.latency[1] <= usual.latency[1] + 2
    code, _ = generate(ours, "dense_da_1", "vitis", pragmas=["#pragma HLS INLINE"], print_latency=True)
    assert "dense_da_1" in code


# Bad input

X = FixedArray.input(3, 1, 3, 2)

BAD = {
    "kernel of one axis": lambda: solve([1, 2]),
    "kernel without rows": lambda: solve(np.zeros((0, 3))),
    "kernel of texts": lambda: solve([["a"]]),
    "ragged kernel": lambda: solve([[1], [2, 3]]),
    "complex kernel": lambda: solve([[1j]]),
    "NaN": lambda: solve([[np.nan]]),
    "infinity": lambda: solve([[np.inf, 1]]),
    "too many bits": lambda: solve([[1.0, 2.0**-70]]),
    "wide weights": lambda: solve([[2**50 + 1]]),
    "wide integers": lambda: solve(np.array([[2**63]], np.uint64)),
    "tiny and huge": lambda: solve([[5e-324, 1e308]]),
    "objects": lambda: solve(np.array([[object()]])),
    "intervals of other inputs": lambda: solve([[1], [3]], qintervals=[(0, 1, 1)]),
    "min above max": lambda: solve([[3]], qintervals=[(2, 1, 1)]),
    "negative step": lambda: solve([[3]], qintervals=[(0, 1, -1)]),
    "step of no power of two": lambda: solve([[3]], qintervals=[(0, 3, 3)]),
    "step of zero": lambda: solve([[3]], qintervals=[(0, 1, 0)]),
    "infinite step": lambda: solve([[3]], qintervals=[(0, 1, np.inf)]),
    "off the grid": lambda: solve([[3]], qintervals=[(0, 1.5, 1)]),
    "interval of NaN": lambda: solve([[3]], qintervals=[(np.nan, 1, 1)]),
    "infinite interval": lambda: solve([[3]], qintervals=[(0, np.inf, 1)]),
    "short interval": lambda: solve([[3]], qintervals=[(0, 1)]),  # type: ignore[list-item]
    "interval of texts": lambda: solve([[3]], qintervals=[("a", "b", "c")]),  # type: ignore[list-item]
    "latency below 0": lambda: solve([[3]], latencies=[-1]),
    "latency of NaN": lambda: solve([[3]], latencies=[np.nan]),
    "latencies of other inputs": lambda: solve([[3]], latencies=[0, 0]),
    "hard_dc": lambda: solve([[3]], hard_dc=-2),
    "hard_dc of half": lambda: solve([[3]], hard_dc=0.5),  # type: ignore[arg-type]
    "no adder size": lambda: solve([[3]], adder_size=0),
    "no effort": lambda: solve([[3]], effort="much"),
    "k": lambda: FixedArray.input(3, 2, 1, 1),
    "half a bit": lambda: FixedArray.input(3, 1, 1.5, 1),
    "bits of another shape": lambda: FixedArray.input(3, 1, [1, 2], 1),
    "thousands of bits": lambda: FixedArray.input(3, 1, 10**6, 1),
    "no shape": lambda: FixedArray.input(-1, 1, 1, 1),
    "shape of texts": lambda: FixedArray.input("ab", 1, 1, 1),
    "saturating input": lambda: FixedArrayInput(2).quantize(1, 1, 1, "SAT"),
    "shapes": lambda: X + np.ones(2),
    "matrix of another shape": lambda: X @ np.ones((2, 2)),
    "matrix of NaN": lambda: X @ np.full((3, 2), np.nan),
    "constant of infinity": lambda: X + np.inf,
    "text": lambda: X + "a",
    "complex": lambda: X * 1j,
    "division by 3": lambda: X / 3,
    "division by 0": lambda: X / 0,
    "division by numbers": lambda: 1 / X,
    "power of numbers": lambda: 2**X,
    "power of half": lambda: X**0.5,
    "mean of three": lambda: X.mean(),
    "truth": lambda: bool(X[0] > 1),
    "values": lambda: np.asarray(X),
    "no axis": lambda: X.sum(axis=3),
    "einsum of a diagonal": lambda: np.einsum("aa->a", np.outer(X, X)),
    "einsum of other axes": lambda: np.einsum("ab->a", X),
    "einsum of other extents": lambda: np.einsum("a,a->a", X, np.ones(2)),
    "einsum of nothing": lambda: np.einsum("a->b", X),
    "overflow mode": lambda: X.quantize(1, 1, 1, "CLIP"),
    "round mode": lambda: X.quantize(1, 1, 1, "WRAP", "UP"),
    "function of infinity": lambda: np.log(X).quantize(1, 3, 3),
    "function of other shape": lambda: X.apply(lambda v: v[:1]).quantize(1, 3, 3),
    "wide table": lambda: np.sin(X).quantize(1, 3, 40),
    "large table": lambda: np.sin(FixedArray.input(1, 1, 20, 20)).quantize(1, 1, 1),
    "function not quantised": lambda: np.sin(X) + X,
    "output of numpy": lambda: trace(X, np.ones(3)),  # type: ignore[arg-type]
    "function as output": lambda: trace(X, np.sin(X)),
    "computed input": lambda: trace(X + 1, X),
    "input of numpy": lambda: trace(np.ones(3), X),  # type: ignore[arg-type]
    "input twice": lambda: trace([X, X], X),
    "input missing": lambda: trace(FixedArray.input(3, 1, 3, 2), X),
    "wide product": lambda: trace(X, np.prod(np.stack([X] * 16))),
    "samples of another shape": lambda: trace(X, X).predict(np.ones((2, 4))),
    "samples of NaN": lambda: trace(X, X).predict([[1, 2, np.nan]]),
    "sample of nothing": lambda: trace(X, X).predict(1.0),
    "kernel of a relu": lambda: trace(X, X.relu()).kernel,
    "dialect": lambda: trace(X, X).to_json("vhdl"),
    "kind": lambda: trace(X, X).emit("nothing"),
    "cutoff": lambda: trace(X, X).pipeline(0),
    "cutoff of NaN": lambda: trace(X, X).pipeline(float("nan")),
    "stages again": lambda: solve([[3, 5], [7, 9]]).pipeline(1).pipeline(1),
    "no file": lambda: load("/nonexistent/program.json"),
    "no JSON": lambda: load("[1, 2"),
    "no text": lambda: load(b"\xff\xfe\x00"),
    "no gzip": lambda: load(b"\x1f\x8bxxxx"),
    "an illegal program": lambda: load(
        "[[1,1],[0],[0],[0],[false],[[5,5,0,0,[0,1,1],0,0]],-1,-1,null]"
    ).predict([[1]]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_an_error_with_a_code(name: str) -> None:
    with pytest.raises(QuincunxError) as error:
        BAD[name]()
    assert error.value.code.startswith("Q") and str(error.value)


def test_program_is_a_class_of_the_package() -> None:
    assert isinstance(solve([[3]]), Program) and quincunx.dais.solve is solve


def test_many_samples_are_computed_in_parts() -> None:
    """More than are handed to the simulator at once, whatever the threads; progress counts all of them."""
    x = FixedArray.input(4, 1, 3, 0)
    program = trace(x, x @ np.arange(12).reshape(4, 3)).program()
    samples = np.random.default_rng(0).integers(-8, 8, (20_001, 4)).astype(float)
    for threads in (1, 2):
        told: list[tuple[str, int, int]] = []
        [found] = program.run(samples, threads=threads, progress=lambda *now: told.append(now)).values()
        assert np.array_equal(found, samples @ np.arange(12).reshape(4, 3))
        assert told[0] == ("run", 0, 20_001) and told[-1] == ("run", 20_001, 20_001)
