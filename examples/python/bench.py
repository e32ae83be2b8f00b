"""How fast the package is, beside the command line and, where it is installed, da4ml.

    python bench.py [SUITE ...] [--repeat N] [--quincunx COMMAND]

Suites, all of them unless some are named:

    calls   what a call from Python takes beyond the simulator's own time, digits on five machines
    solve   the adder graphs of the matrices in tests/golden/dais/cmvm, beside the command and da4ml
    trace   functions in numpy as programs, beside da4ml (tests/peers/traces.py prints the same in full)
    run     65,536 samples of jet_mlp_6b, beside the command
    sweep   200 machines of the kind tcu for digits, with every engine that is installed

Prints rows as `quincunx bench --format json` does: medians; `overhead` is the shortest time of a call for one image less
what one more image adds to a call. Products and traces are measured in time of the processor,
rates and sweeps in real time.
"""

import argparse
import importlib.util
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import quincunx
import quincunx.dais

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits"
GOLDEN = ROOT / "tests" / "golden" / "dais"

Row = dict[str, object]


def seconds(act: Callable[[], object], repeat: int, clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Seconds of so many calls."""
    times = []
    for _ in range(repeat):
        start = clock()
        act()
        times.append(clock() - start)
    return times


def median(act: Callable[[], object], repeat: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Median of the seconds of a call."""
    return statistics.median(seconds(act, repeat, clock))


def row(name: str, metric: str, value: float, unit: str) -> Row:
    return {"name": name, "metric": metric, "value": round(value, 4), "unit": unit}


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def by_command(command: str, suite: str, folder: Path, repeat: int, *options: str) -> dict[tuple[str, str], float]:
    """Rows of `quincunx bench` for a folder."""
    call = [command, "bench", suite, "--dir", str(folder), "--repeat", str(repeat), "--format", "json", *options]
    rows = json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)["rows"]
    return {(row["name"], row["metric"]): row["value"] for row in rows}


OPTIONS = {"dais": {"effort": "fast"}, "scamp": {"effort": "fast"}, "dpas": {}, "tcu": {}, "npu": {}}

FULL = {"dais": 1024}
"""Images of a call to which one more adds its whole time: dais computes up to so many together."""


def calls(repeat: int, command: str | None) -> Iterator[Row]:
    """A call for one image, and the rate of many."""
    images = np.load(DIGITS / "test.npz")["image"]
    one, many = images[:1], np.concatenate([images] * 4)
    model = quincunx.load(DIGITS / "digits.onnx")
    yield row("model", "call", median(lambda: model.run(one, threads=1), 20 * repeat) * 1e6, "us")
    for target, options in OPTIONS.items():
        program = quincunx.compile(DIGITS / "digits.onnx", target, calibrate=DIGITS / "calib.npz", **options)
        program.run(one)
        call = median(lambda: program.run(one, threads=1), 20 * repeat)
        rate = len(many) / median(lambda: program.run(many, threads=1), repeat)
        full = FULL.get(target, 1)
        shortest = [
            min(seconds(lambda count=count: program.run(many[:count], threads=1), 20 * repeat))
            for count in (1, full, full + 1)
        ]
        yield row(target, "call", call * 1e6, "us")
        yield row(target, "overhead", (shortest[0] - (shortest[2] - shortest[1])) * 1e6, "us")
        yield row(target, "rate", rate, "images/s")


def solve(repeat: int, command: str | None) -> Iterator[Row]:
    """Seconds and adders of all matrices together, with the same effort on both sides."""
    kernels = {path.stem: np.load(path) for path in sorted((GOLDEN / "cmvm").glob("*.npy"))}
    kernels = {name: kernel for name, kernel in kernels.items() if kernel.ndim == 2}
    if command:
        with tempfile.TemporaryDirectory() as folder:
            for name, kernel in kernels.items():
                np.save(Path(folder) / f"{name}.npy", kernel)
            theirs = by_command(command, "dais:cmvm", Path(folder), repeat, "--effort", "fast")
        yield row("command fast", "seconds", theirs["total", "seconds"], "s")
        yield row("command fast", "adders", theirs["total", "adders"], "")
    times: dict[str, dict[str, float]] = {}
    for effort in ("quick", "fast", "default"):
        times[effort], adders = {}, 0
        for name, kernel in kernels.items():
            act = lambda kernel=kernel, effort=effort: quincunx.dais.solve(kernel, effort=effort)  # noqa: E731
            adders += act().adders
            times[effort][name] = median(act, repeat, time.process_time)
        yield row(effort, "seconds", sum(times[effort].values()), "s")
        yield row(effort, "adders", adders, "")
    if not installed("da4ml"):
        return
    from da4ml.cmvm import solve as peer

    adders, peers = 0, {}
    for name, kernel in kernels.items():
        floats = kernel.astype(np.float32)
        stages = peer(floats).solutions
        adders += sum(op.opcode in (0, 1) for stage in stages for op in stage.ops)
        peers[name] = median(lambda floats=floats: peer(floats), repeat, time.process_time)
    yield row("da4ml", "seconds", sum(peers.values()), "s")
    yield row("da4ml", "adders", adders, "")
    for effort, ours in times.items():
        yield row(effort, "times da4ml, all", sum(peers.values()) / sum(ours.values()), "")
        yield row(effort, "times da4ml, median", statistics.median(peers[n] / ours[n] for n in peers), "")


def trace(repeat: int, command: str | None) -> Iterator[Row]:
    """From a Python function to the finished program."""
    if not installed("da4ml"):
        return
    sys.path.insert(0, str(ROOT / "tests" / "peers"))
    import traces

    for name, of_name in traces.PROGRAMS.items():
        ours = median(lambda of_name=of_name: traces.quincunx(*of_name), repeat, time.process_time)
        theirs = median(lambda of_name=of_name: traces.da4ml(*of_name), repeat, time.process_time)
        yield row(name, "seconds", ours, "s")
        yield row(name, "times da4ml", theirs / ours, "")


def run(repeat: int, command: str | None) -> Iterator[Row]:
    """Samples a second, with one thread."""
    program = quincunx.read(GOLDEN / "traced" / "jet_mlp_6b.json")
    few = np.load(GOLDEN / "traced" / "jet_mlp_6b_in.npy")
    samples = np.resize(few, (1 << 16, few.shape[1]))
    program.run(samples, threads=1)
    rate = len(samples) / median(lambda: program.run(samples, threads=1), repeat)
    yield row("jet_mlp_6b", "rate", rate, "samples/s")
    if command:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("jet_mlp_6b.json", "jet_mlp_6b_in.npy"):
                shutil.copy(GOLDEN / "traced" / name, folder)
            theirs = by_command(command, "dais:run", Path(folder), repeat, "--threads", "1")
        rate_of_command = theirs["jet_mlp_6b", "samples_per_second"]
        yield row("jet_mlp_6b", "rate of the command", rate_of_command, "samples/s")
        yield row("jet_mlp_6b", "share of the command's rate", rate / rate_of_command, "")


SIZES = {
    "array_size": [4, 8, 12, 16, 24],
    "accumulator_depth": [512, 1024, 2048, 4096, 8192],
    "local_depth": [2048, 4096, 8192, 16384],
    "simd_registers_depth": [1, 2],
}


def sweep(repeat: int, command: str | None) -> Iterator[Row]:
    """200 points with 360 images each; once, as a sweep takes seconds."""
    points = None
    for engine in ("local", *(engine for engine in ("dask", "ray") if installed(engine))):
        start = time.perf_counter()
        found = quincunx.sweep(
            DIGITS / "digits.onnx",
            "tcu",
            SIZES,
            data=DIGITS / "test.npz",
            calibrate=DIGITS / "calib.npz",
            engine=engine,
        )
        yield row(engine, "seconds", time.perf_counter() - start, "s")
        rows = found.rows
        assert points is None or points == rows, "all engines give the same rows"
        points = rows
    yield row("points", "count", len(points or []), "")


SUITES = {"calls": calls, "solve": solve, "trace": trace, "run": run, "sweep": sweep}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("suite", nargs="*", help=", ".join(SUITES))
    parser.add_argument("--repeat", type=int, default=9, help="measurements of a row; calls are measured 20 times as often")
    parser.add_argument("--quincunx", default=shutil.which("quincunx"), metavar="COMMAND", help="the command line")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.suite if name not in SUITES]
    if unknown:
        parser.error(f"no suite is called {unknown[0]}; there are {', '.join(SUITES)}")
    warnings.simplefilter("ignore", quincunx.QuincunxWarning)
    for name in arguments.suite or SUITES:
        rows = list(SUITES[name](arguments.repeat, arguments.quincunx))
        print(json.dumps({"schema": 1, "suite": f"python:{name}", "rows": rows}), flush=True)


if __name__ == "__main__":
    main()
