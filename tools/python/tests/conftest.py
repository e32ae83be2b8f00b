"""What all tests share: the example network, its programs on all machines, and the command line."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import quincunx

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits"

MACHINES = ("dais", "scamp", "dpas", "tcu", "npu")

# Short searches: what they find is judged elsewhere.
OPTIONS: dict[str, dict[str, quincunx.Option]] = {"dais": {"effort": "fast"}, "scamp": {"effort": "fast"}}


def compiled(target: str, model: quincunx.ModelLike = DIGITS / "digits.onnx") -> quincunx.Program:
    """The example on a machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", quincunx.QuincunxWarning)
        return quincunx.compile(
            model, target, calibrate=DIGITS / "calib.npz", **OPTIONS.get(target, {})
        )


@pytest.fixture(scope="session")
def model() -> quincunx.Model:
    """The example, in f32."""
    return quincunx.load(DIGITS / "digits.onnx")


@pytest.fixture(scope="session")
def images() -> npt.NDArray[np.float32]:
    """20 images that belong to no calibration."""
    array: npt.NDArray[np.float32] = np.load(DIGITS / "test.npz")["image"][:20]
    return array


@pytest.fixture(scope="session")
def programs() -> dict[str, quincunx.Program]:
    """The example on every machine."""
    return {target: compiled(target) for target in MACHINES}


@pytest.fixture(scope="session", params=MACHINES)
def program(request: pytest.FixtureRequest, programs: dict[str, quincunx.Program]) -> quincunx.Program:
    """One of them after the other."""
    return programs[request.param]


CHECKS = {
    "mypy": ["mypy", "--strict", "-p", "quincunx"],
    "pyright": ["pyright", "."],
    "stubtest": ["mypy.stubtest", "quincunx._core"],
}


@pytest.fixture(scope="session", autouse=True)
def checks(request: pytest.FixtureRequest) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Type checkers at work on the installed package, beside the tests: they take long to start."""
    package = Path(quincunx.__file__).parent
    wanted = any(item.path.name == "test_types.py" for item in request.session.items)
    started = {
        name: subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=package if name == "pyright" else ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, words in CHECKS.items()
        if wanted and importlib.util.find_spec(words[0].split(".")[0])
    }
    yield started
    for process in started.values():
        process.kill()
        process.communicate()


def tool(variable: str, places: list[Path]) -> str:
    """A program that tests need: from a variable, else the newest of some places."""
    if given := os.environ.get(variable):
        return given
    found = [place for place in places if place.is_file()]
    if found:
        return str(max(found, key=lambda place: place.stat().st_mtime))
    message = f"{places[0].name} is missing; {variable} says where it is"
    if os.environ.get("QUINCUNX_REQUIRE_TOOLS") == "1":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def command() -> Callable[..., str]:
    """What the command line prints."""
    places = [ROOT / "target" / profile / "quincunx" for profile in ("debug", "release", "dist")]
    path = tool("QUINCUNX", places)

    def run(*arguments: object) -> str:
        words = [path, *map(str, arguments)]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout

    return run
