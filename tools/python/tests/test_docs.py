"""What is written about the package: docstrings, the pages of the book, the examples."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

import quincunx

EXAMPLES = ROOT / "examples" / "python"


def functions() -> Iterator[tuple[str, Any]]:
    """Public functions and methods."""
    for name in quincunx.__all__:
        value = getattr(quincunx, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            members = vars(value).items()
            yield from (
                (f"{name}.{key}", member)
                for key, member in members
                if not key.startswith("_") and inspect.isfunction(member)
            )


@pytest.mark.parametrize(("name", "function"), list(functions()), ids=lambda value: value if isinstance(value, str) else "")
def test_docstrings_tell_of_every_argument(name: str, function: Any) -> None:
    doc = inspect.getdoc(function) or ""
    assert doc.partition("\n")[0].endswith((".", ",")) or "\n" in doc, name
    arguments = [key for key in inspect.signature(function).parameters if key != "self"]
    # One or two that a sentence tells of need no list.
    if len(arguments) > 2:
        assert all(f"{key}:" in doc or f"{key}," in doc for key in arguments), (name, arguments)


def test_classes_and_properties_have_docstrings() -> None:
    for name in quincunx.__all__:
        value = getattr(quincunx, name)
        if inspect.isclass(value):
            assert inspect.getdoc(value), name
            for key, member in vars(value).items():
                if isinstance(member, property) and not key.startswith("_"):
                    assert inspect.getdoc(member), f"{name}.{key}"


def test_the_page_of_the_book_is_up_to_date() -> None:
    words = [sys.executable, str(ROOT / "tools" / "python" / "docs.py"), "--check"]
    assert subprocess.run(words).returncode == 0, "run python tools/python/docs.py"


def code_blocks(path: Path) -> list[str]:
    """Blocks of Python of a page."""
    parts = path.read_text(encoding="utf-8").split("```python\n")[1:]
    return [part.split("```")[0] for part in parts]


@pytest.mark.parametrize("page", ["README.md", "from-tensil.md", "from-hls4ml.md"])
def test_pages_show_what_runs(page: str, tmp_path: Path) -> None:
    folder = ROOT / "examples" / "digits"
    for name in ("digits.onnx", "digits_pow2.onnx", "calib.npz", "test.npz"):
        (tmp_path / name).symlink_to(folder / name)
    (tmp_path / "model.json").symlink_to(ROOT / "tests/golden/dais/traced/jet_mlp_6b.json")
    samples = "import numpy\nsamples = numpy.zeros((3, 16))\n"
    code = samples + "\n".join(code_blocks(ROOT / "docs" / "python" / page))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert page != "README.md" or 'Q0415 did you mean "pool1_out"?' in done.stdout


def test_the_quickstart_runs_from_any_folder(tmp_path: Path) -> None:
    words = [sys.executable, str(EXAMPLES / "quickstart.py")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and done.stdout.count("360 of 360 exact") == 5
    assert "<html" in (tmp_path / "digits.html").read_text(encoding="utf-8")


def test_the_bench_prints_rows() -> None:
    # The other suites take too long here.
    words = [sys.executable, str(EXAMPLES / "bench.py"), "calls", "run", "--repeat", "1"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    calls, run = map(json.loads, done.stdout.splitlines())
    assert {row["name"] for row in calls["rows"]} == {"model", "dais", "scamp", "dpas", "tcu", "npu"}
    assert [row["metric"] for row in run["rows"]][0] == "rate"
    assert all(set(row) == {"name", "metric", "value", "unit"} for row in calls["rows"] + run["rows"])
