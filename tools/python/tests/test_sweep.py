"""Sweeps: every engine gives the same rows, nothing is computed twice, and the death of a worker loses no
point."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import quincunx
from quincunx import QuincunxError

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits"
MODEL = DIGITS / "digits.onnx"
CALIBRATE = DIGITS / "calib.npz"
VARY: dict[str, Any] = {"array_size": [4, 8], "local_depth": [2048, 4096, 8192]}
REQUIRED = os.environ.get("QUINCUNX_REQUIRE_TOOLS") == "1"


def swept(**more: Any) -> quincunx.Sweep:
    vary = more.pop("vary", VARY if "points" not in more else None)
    return quincunx.sweep(MODEL, "tcu", vary, calibrate=CALIBRATE, **more)


@pytest.fixture(scope="module")
def local() -> quincunx.Sweep:
    return swept(workers=2)


def test_rows_are_those_of_compiling_alone(local: quincunx.Sweep) -> None:
    assert len(local.rows) == local.computed == 6
    assert all(row["status"] == "ok" and row["problem"] is None for row in local.rows)
    by_size = {row["array_size"]: row["cycles"] for row in local.rows}
    alone = quincunx.compile(MODEL, "tcu", calibrate=CALIBRATE)
    assert by_size[8] == alone.stats.cycles and by_size[4] > by_size[8]
    assert [row for row in local.rows if row["pareto"]] == local.pareto != []
    assert set(local.pictures) == {"scatter", "coordinates", "picture"}
    assert all(text.startswith("<svg") for text in local.pictures.values())
    assert "<svg" not in local._repr_html_() and "data:image/svg+xml" in local._repr_html_()


def test_lists_and_draws_are_parts_of_the_grid(local: quincunx.Sweep) -> None:
    some = [{"array_size": 8, "local_depth": 4096}, {"array_size": 4, "local_depth": 2048}]
    listed = swept(points=some)
    assert [row["cycles"] for row in listed.rows] == [local.rows[at]["cycles"] for at in (4, 0)]
    drawn = swept(random=3, seed=7)
    assert drawn.rows == swept(random=3, seed=7).rows and len(drawn.rows) == 3
    names = {"array_size", "local_depth", "cycles", "bytes"}
    known = [{key: row[key] for key in names} for row in local.rows]
    assert all({key: row[key] for key in names} in known for row in drawn.rows)
    assert swept(random=100).rows == local.rows
    assert any(swept(random=3, seed=seed).rows != drawn.rows for seed in range(4))


def test_a_stopped_sweep_goes_on(tmp_path: Path, local: quincunx.Sweep) -> None:
    store = tmp_path / "found.sqlite"

    def stop(what: str, done: int, of: int) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swept(store=store, workers=1, progress=stop)
    # Nothing goes on behind its back.
    until = time.monotonic() + 10
    while worker() is not None and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.5)
    assert worker() is None
    kept = len(quincunx.stored(store))
    assert 2 <= kept < 6
    rest = swept(store=store)
    assert rest.computed == 6 - kept and rest.rows == local.rows
    assert swept(store=store).computed == 0
    rows = quincunx.stored(store)
    assert len(rows) == 6 and rows[0]["point"]["array_size"] in (4, 8) and rows[0]["status"] == "ok"
    # With other options they are other points.
    assert swept(store=store, strict=True).computed == 6


def worker() -> int | None:
    """A process that computes points for this one."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        if b"quincunx._worker" in words and parent == os.getpid():
            return int(folder.name)
    return None


def test_a_killed_worker_loses_nothing(local: quincunx.Sweep) -> None:
    killed: list[int] = []

    def kill() -> None:
        until = time.monotonic() + 30
        while not killed and time.monotonic() < until:
            number = worker()
            if number is not None:
                os.kill(number, signal.SIGKILL)
                killed.append(number)
            time.sleep(0.01)

    thread = threading.Thread(target=kill)
    thread.start()
    again = swept(workers=1)
    thread.join()
    assert killed and again.rows == local.rows
    assert worker() is None


def test_too_much_memory_is_a_row_that_is_not_kept(tmp_path: Path) -> None:
    store = tmp_path / "found.sqlite"
    [row] = swept(points=[{"array_size": 8}], memory=1 << 26, workers=1, store=store).rows
    assert row["status"] == "failed" and "its process ended" in row["problem"]
    assert quincunx.stored(store) == []


def test_what_does_not_fit_is_a_row_with_its_code() -> None:
    rows = swept(vary={"local_depth": [16, 8192]}, strict=True).rows
    assert [row["status"] for row in rows] == ["misfit", "ok"] and "Q" in rows[0]["problem"]


def test_widths_of_quantisation_vary() -> None:
    vary = {"quantise.weights": [2, 8], "quantise.activations": [8]}
    known: dict[str, Any] = {"calibrate": CALIBRATE, "data": DIGITS / "test.npz", "effort": "fast"}
    coarse, fine = quincunx.sweep(MODEL, "npu", vary, **known).rows
    assert fine["accuracy"] > 0.95 and coarse["rms_difference"] > fine["rms_difference"]
    few = quincunx.sweep(MODEL, "npu", vary, metrics=["accuracy"], **known).rows
    assert few[1]["accuracy"] == fine["accuracy"] and "cycles" not in few[0]


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_clusters_give_the_same_rows(engine: str, tmp_path: Path, local: quincunx.Sweep) -> None:
    if not REQUIRED:
        pytest.importorskip("ray" if engine == "ray" else "dask.distributed")
    rows, script = tmp_path / "rows.json", tmp_path / "cluster.py"
    # In a process of its own: schedulers leave threads behind.
    script.write_text(f"""
import json, sys
import quincunx
if __name__ == "__main__":
    done = quincunx.sweep({str(MODEL)!r}, "tcu", {VARY!r}, calibrate={str(CALIBRATE)!r}, engine={engine!r})
    json.dump(done.rows, open({str(rows)!r}, "w"))
""")
    done = subprocess.run([sys.executable, script], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert json.loads(rows.read_text()) == local.rows


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"vary": {"array_sise": [4]}}, "Q0652"),
        ({"vary": {"quantise.wieghts": [4]}}, "Q0652"),
        ({"vary": {"array_size": [4, 4]}}, "Q0653"),
        ({"vary": {"array_size": list(range(1, 6000))}}, "Q0653"),
        ({"vary": {"array_size": [0]}}, None),
        ({"vary": None}, "Q0811"),
        ({"points": []}, "Q0811"),
        ({"points": [{"a": 1}, {"b": 1}]}, "Q0811"),
        ({"engine": "mpi"}, "Q0811"),
        ({"random": 0}, "Q0811"),
        ({"engine": "dask", "memory": 1 << 30}, "Q0811"),
        ({"over": {"array_size": [8]}, "vary": {"local_depth": [4096]}}, "Q0655"),
    ],
)
def test_wrong_use_is_told(arguments: dict[str, Any], code: str | None) -> None:
    with pytest.raises(QuincunxError) as caught:
        swept(**arguments)
    assert code is None or caught.value.code == code, caught.value


def test_a_file_that_is_no_store_is_told(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.sqlite"
    wrong.write_text("no database at all, but long enough to look like the head of one" * 20)
    with pytest.raises(QuincunxError) as caught:
        swept(store=wrong)
    assert caught.value.code == "Q0661" and wrong.name in str(caught.value)
