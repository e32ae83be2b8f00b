"""Type checkers agree with the package, and its stubs with what is compiled."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import CHECKS

import quincunx


@pytest.mark.parametrize("name", CHECKS)
def test_checkers_find_nothing(name: str, checks: dict[str, subprocess.Popen[str]]) -> None:
    if name not in checks:
        pytest.skip(f"{name} is not installed")
    text, _ = checks[name].communicate(timeout=300)
    assert checks[name].returncode == 0, text


def test_the_package_is_marked_as_typed() -> None:
    assert (Path(quincunx.__file__).parent / "py.typed").is_file()
