"""Long work: threads, progress, Ctrl-C, and processes that divide."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pytest
from conftest import DIGITS

import quincunx

Images = npt.NDArray[np.float32]


def test_two_threads_use_one_program(program: quincunx.Program, images: Images) -> None:
    expected = program.run(images)["logits"].tobytes()
    meet = threading.Barrier(2)

    def act(_: int) -> list[bytes]:
        meet.wait()
        return [program.run(images)["logits"].tobytes() for _ in range(5)]

    with ThreadPoolExecutor(2) as pool:
        results = [result for results in pool.map(act, range(2)) for result in results]
    assert set(results) == {expected}


def test_work_lets_other_threads_run(programs: dict[str, quincunx.Program]) -> None:
    images = np.zeros((3000, 1, 8, 8), np.float32)
    work = threading.Thread(target=programs["dais"].run, args=(images,), kwargs={"threads": 1})
    work.start()
    ticks = 0
    while work.is_alive():
        time.sleep(0.001)
        ticks += 1
    assert ticks >= 5


def test_closing_does_not_end_what_runs(images: Images) -> None:
    program = quincunx.compile(DIGITS / "digits.onnx", "tcu")
    expected = program.run(images)["logits"].tobytes()
    many = np.concatenate([images] * 20)
    with ThreadPoolExecutor(1) as pool:
        started = threading.Event()
        result = pool.submit(program.run, many, threads=1, progress=lambda *_: started.set())
        started.wait()
        program.close()
        assert result.result()["logits"][:20].tobytes() == expected


def test_progress_is_told(program: quincunx.Program, images: Images) -> None:
    told: list[tuple[str, int, int]] = []
    program.run(images, threads=2, progress=lambda what, done, of: told.append((what, done, of)))
    assert told[0] == ("run", 0, 20) and told[-1] == ("run", 20, 20)
    assert all(0 <= done <= of for _, done, of in told)


@pytest.mark.parametrize("error", [ValueError("enough"), KeyboardInterrupt(), SystemExit(3)])
def test_what_a_callback_raises_stops_the_work(
    error: BaseException, programs: dict[str, quincunx.Program], model: quincunx.Model
) -> None:
    calls = 0

    def enough(what: str, done: int, of: int) -> None:
        nonlocal calls
        calls += 1
        raise error

    many = np.zeros((20_000, 1, 8, 8), np.float32)
    start = time.monotonic()
    for act in (
        lambda: programs["tcu"].run(many, progress=enough),
        lambda: model.run(many, progress=enough),
        lambda: programs["tcu"].verify(model, many, progress=enough),
        lambda: quincunx.compare(model, many, "tcu", progress=enough),
    ):
        with pytest.raises(type(error)) as caught:
            act()
        assert caught.value is error
    assert calls == 4 and time.monotonic() - start < 10
    assert programs["tcu"].run(many[:2])["logits"].shape == (2, 10)


def test_a_callback_that_cannot_be_called(model: quincunx.Model) -> None:
    with pytest.raises(TypeError):
        model.run("zeros", progress=3)  # type: ignore[arg-type]


def child(text: str) -> subprocess.Popen[str]:
    """A Python process of its own."""
    before = f"""
        import os, sys, warnings
        import numpy as np, quincunx
        warnings.simplefilter("ignore")
        DIGITS = {str(DIGITS)!r}
        model = quincunx.load(DIGITS + "/digits.onnx")
        images = np.load(DIGITS + "/test.npz")["image"][:20]
    """
    code = textwrap.dedent(before) + textwrap.dedent(text)
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


LONG = [
    'quincunx.compile(model, "scamp", effort="max")',
    'quincunx.compile(model, "dais", effort="max", calibrate=DIGITS + "/calib.npz")',
    'quincunx.compare(model, "random:1", ["tcu", "npu"], images=50_000, calibrate="random:2")',
    'quincunx.compile(model, "npu", calibrate="random:2").run("random:3", images=50_000)',
]


@pytest.mark.parametrize("work", LONG, ids=["scamp", "dais", "compare", "run"])
def test_ctrl_c_stops_the_work(work: str) -> None:
    process = child(f"""
        print("begins", flush=True)
        try:
            {work}
        except KeyboardInterrupt:
            print("stopped", flush=True)
            # And the library can be used again.
            print(model.run(images)["logits"].shape, flush=True)
    """)
    with process:
        assert process.stdout is not None and process.stdout.readline() == "begins\n"
        time.sleep(0.5)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        line = process.stdout.readline()
        took = time.monotonic() - start
        rest, errors = process.communicate(timeout=60)
    assert line == "stopped\n", errors
    assert took < 1 and rest == "(20, 10)\n" and process.returncode == 0


def test_a_process_divides_after_it_ran_programs() -> None:
    process = child("""
        programs = [quincunx.compile(model, t, calibrate="random:1") for t in ("dpas", "tcu", "npu")]
        def results():
            all = [program.run(images, threads=2)["logits"].tobytes() for program in programs]
            return all + [model.run(images, threads=2)["logits"].tobytes()]
        own = results()
        child = os.fork()
        if child == 0:
            os._exit(0 if results() == own else 5)
        status = os.waitpid(child, 0)[1]
        assert results() == own
        sys.exit(os.waitstatus_to_exitcode(status))
    """)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
