"""The compiled part; what it takes has been checked."""

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, final

__all__ = [
    "Array",
    "Model",
    "Program",
    "Report",
    "__version__",
    "compare",
    "compile",
    "explain",
    "isa",
    "load",
    "options",
    "pages",
    "quantise",
    "read",
    "report",
    "split",
    "targets",
    "write",
]

__version__: str

_Spec: TypeAlias = tuple[str, str, list[int]]
_Options: TypeAlias = list[tuple[str, str]]
_Machine: TypeAlias = tuple[str, str | None, _Options]
_Told: TypeAlias = Callable[[str, int, int], object] | None
_Path: TypeAlias = str | os.PathLike[str]

@final
class Array:
    @property
    def dtype(self) -> str: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

@final
class Model:
    @property
    def name(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def inputs(self) -> list[_Spec]: ...
    @property
    def outputs(self) -> list[_Spec]: ...
    @property
    def nodes(self) -> list[tuple[str, str, str, int]]: ...
    @property
    def is_quantised(self) -> bool: ...
    def onnx(self, dialect: str) -> bytes: ...
    def run(
        self, data: Any, layers: bool, count: int | None, progress: _Told
    ) -> list[tuple[str, Array]]: ...

@final
class Program:
    @property
    def machines(self) -> list[tuple[str, str]]: ...
    @property
    def inputs(self) -> list[_Spec]: ...
    @property
    def outputs(self) -> list[str]: ...
    @property
    def plan(self) -> list[tuple[str, str, str, str, str | None, int]]: ...
    @property
    def stats(self) -> tuple[int, int, int | None, float | None]: ...
    @property
    def kinds(self) -> list[tuple[str, str]]: ...
    def report(self) -> Report: ...
    def run(
        self, data: Any, layers: bool, strict_overflow: bool, count: int | None, progress: _Told
    ) -> list[tuple[str, Array]]: ...
    def time(self) -> tuple[Report, list[tuple[str, str]]]: ...
    def verify(
        self,
        model: Model | None,
        data: Any,
        calibrate: Any,
        count: int | None,
        progress: _Told,
    ) -> tuple[bool, int, int, Report]: ...
    def save(self, path: _Path) -> None: ...
    def emit(self, kind: str, stem: str) -> list[tuple[str, bytes]]: ...

@final
class Report:
    def text(self, columns: int | None) -> str: ...
    def json(self) -> str: ...
    def render(self, format: str) -> str: ...

def load(
    path: _Path | None,
    bytes: bytes | None,
    name: str,
    part: tuple[
        list[str],
        list[str],
        list[tuple[str, list[int]]],
        list[tuple[str, int]],
        list[tuple[str, str]],
    ],
) -> Model: ...
def quantise(
    model: Model, data: Any, how: Mapping[str, Any], progress: _Told
) -> tuple[Model, Report]: ...
def compile(model: Model, machine: _Machine, calibrate: Any, how: Mapping[str, bool]) -> Program: ...
def split(
    model: Model,
    parts: str,
    options: list[tuple[str, _Options]],
    calibrate: Any,
    how: Mapping[str, bool],
) -> Program: ...
def read(
    paths: list[_Path], target: str | None, arch: str | None, options: _Options
) -> Program: ...
def compare(model: Model, how: Mapping[str, Any], progress: _Told) -> Report: ...
def report(model: Model, how: Mapping[str, Any], images: list[int], progress: _Told) -> str: ...
def pages(programs: list[Program]) -> str: ...
def write(path: _Path, contents: bytes) -> None: ...
def targets(target: str | None) -> Report: ...
def isa(target: str, mnemonic: str | None, format: str) -> str: ...
def explain(codes: list[str]) -> str: ...
def options(target: str) -> list[str]: ...
