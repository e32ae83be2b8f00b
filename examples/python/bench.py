"""How much time the package adds to the library: calls, and images a second.

    python bench.py [--repeat N]

Prints rows as `quincunx bench --format json` does: medians, in microseconds or images a second.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import quincunx

DIGITS = Path(__file__).resolve().parents[1] / "digits"


def microseconds(act: Callable[[], object], repeat: int) -> float:
    """Median of the time of a call."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def row(name: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"name": name, "metric": metric, "value": round(value, 3), "unit": unit}


def rows_of(target: str, images: np.ndarray, repeat: int) -> list[dict[str, object]]:
    """A call for one image, and the rate of many."""
    program = quincunx.compile(DIGITS / "digits.onnx", target, calibrate=DIGITS / "calib.npz", **OPTIONS[target])
    one, many = images[:1], np.concatenate([images] * 4)
    program.run(one)
    call = microseconds(lambda: program.run(one, threads=1), repeat)
    batch = microseconds(lambda: program.run(many, threads=1), max(repeat // 50, 3))
    rate = len(many) / batch * 1e6
    return [
        row(target, "call", call, "us"),
        row(target, "overhead", call - 1e6 / rate, "us"),
        row(target, "rate", rate, "images/s"),
    ]


OPTIONS = {"dais": {"effort": "fast"}, "scamp": {"effort": "fast"}, "dpas": {}, "tcu": {}, "npu": {}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeat", type=int, default=200)
    repeat = parser.parse_args().repeat
    warnings.simplefilter("ignore", quincunx.QuincunxWarning)
    images = np.load(DIGITS / "test.npz")["image"]
    model = quincunx.load(DIGITS / "digits.onnx")
    rows = [row("model", "call", microseconds(lambda: model.run(images[:1], threads=1), repeat), "us")]
    for target in OPTIONS:
        rows += rows_of(target, images, repeat)
    print(json.dumps({"schema": 1, "suite": "python", "rows": rows}))


if __name__ == "__main__":
    main()
