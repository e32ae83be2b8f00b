"""Programs of machines."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias, Union

import numpy.typing as npt

from . import _core
from ._arrays import Data, data, taken_all
from ._errors import QuincunxError, misused, whole_or_none
from ._model import ModelLike, Progress, Spec, load
from ._report import Page, Report, picture

DRAWN = ("svg", "steps")
"""Kinds of files that a browser shows."""

MOST_DRAWN = 1 << 20
"""Most bytes of a picture that is shown."""

Option: TypeAlias = Union[str, int, float, bool]
"""The value of an option of a target. ``quincunx targets NAME`` lists them; ``-`` in a name is ``_``."""


class Row(NamedTuple):
    """Who executes a node, and why.

    Attributes:
        node: Name of the node.
        op: Its operator.
        segment: The part of the program that it is in.
        place: ``device`` or ``host``.
        reason: Why the host executes it; ``None`` for nodes on the machine.
        macs: Multiplications with accumulation.
    """

    node: str
    op: str
    segment: str
    place: str
    reason: str | None
    macs: int


class Stats(NamedTuple):
    """Size and speed of a program.

    Attributes:
        instructions: Instructions.
        bytes: Bytes of machine code and data.
        cycles: Cycles of one inference; ``None`` where no timing model knows.
        seconds: The same at the clock of the machine; ``None`` where that has no clock.
    """

    instructions: int
    bytes: int
    cycles: int | None
    seconds: float | None


class Verdict:
    """What :meth:`Program.verify` found. It is true when the program is legal and, where that was asked,
    computes exactly what the golden model of its machine computes.

    Attributes:
        images: Images that were run; 0 without a model.
        bit_exact: Images without a difference in any value that can be observed.
        report: The rules that were checked.
    """

    def __init__(self, passed: bool, images: int, bit_exact: int, report: Report) -> None:
        self._passed = passed
        self.images = images
        self.bit_exact = bit_exact
        self.report = report

    def __bool__(self) -> bool:
        return self._passed

    def __repr__(self) -> str:
        return f"<Verdict: {'ok' if self else 'failed'}, {self.bit_exact} of {self.images} images exact>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>{self.report._repr_html_()}"


class Timing:
    """How long a program takes on its machine, and why.

    Attributes:
        report: Totals, lanes, what decides the time.
        pages: A timeline with the reasons for every start, by the name of the segment.
    """

    def __init__(self, report: Report, pages: dict[str, Page]) -> None:
        self.report = report
        self.pages = pages

    def __str__(self) -> str:
        return str(self.report)

    def __repr__(self) -> str:
        return f"<Timing of {', '.join(self.pages)}>"

    def _repr_html_(self) -> str:
        return "".join(page._repr_html_() for page in self.pages.values())


class Program:
    """A program of a machine, with stages of the host for what that does not take.

    It is made by :func:`compile` and :func:`read`. It may be used from several threads. In a ``with``
    statement its memory is given back at the end.
    """

    def __init__(self, core: _core.Program) -> None:
        self._open: _core.Program | None = core

    @property
    def _core(self) -> _core.Program:
        if self._open is None:
            raise misused("the program is closed", "compile or read it again")
        return self._open

    def close(self) -> None:
        """Gives its memory back; it cannot be used any more."""
        self._open = None

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def machines(self) -> list[tuple[str, str]]:
        """Target and machine; several where the model was split."""
        return self._core.machines

    @property
    def inputs(self) -> list[Spec]:
        """What it needs."""
        return [Spec(name, dtype, tuple(shape)) for name, dtype, shape in self._core.inputs]

    @property
    def outputs(self) -> list[str]:
        """Names of its outputs."""
        return self._core.outputs

    @property
    def plan(self) -> list[Row]:
        """Who executes which node, and why; empty for native files."""
        return [Row(*row) for row in self._core.plan]

    @property
    def share(self) -> float:
        """Share of the multiplications that the machines do, from 0 to 1; 0 where there are none."""
        all = sum(row.macs for row in self.plan)
        device = sum(row.macs for row in self.plan if row.place == "device")
        return device / all if all else 0.0

    @property
    def stats(self) -> Stats:
        """Size and speed of all programs together."""
        return Stats(*self._core.stats)

    @property
    def report(self) -> Report:
        """Nodes (``rows``) and ``summary``, as ``quincunx compile`` prints them; of a program that was read
        also what ``quincunx inspect`` shows of it."""
        return Report(self._core.report())

    def run(
        self,
        inputs: Data,
        *,
        images: int = 1,
        layers: bool = False,
        strict_overflow: bool = False,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> dict[str, npt.NDArray[Any]]:
        """Runs the program in the simulator of its machine, bit for bit.

        Args:
            inputs: See :data:`quincunx.Data`. Dense arrays of the type of the input are not copied.
            images: How many to make up, where inputs are ``"random:SEED"`` and the like.
            layers: Every value that can be observed, not only outputs.
            strict_overflow: A result that leaves its type where nothing quantises it is an error.
            threads: Threads over images; as many as there are processors if ``None``. The result does not
                depend on it.
            progress: See :data:`quincunx.Progress`.

        Returns:
            Arrays by name, of several images stacked along the outermost axis.
        """
        core = self._core
        given = data(inputs, core.inputs, images)
        count = whole_or_none("threads", threads)
        return taken_all(core.run(given, layers, strict_overflow, count, progress))

    def time(self) -> Timing:
        """How long it takes on its machine. Stages of the host take no time there."""
        report, pages = self._core.time()
        return Timing(Report(report), {name: Page(page) for name, page in pages})

    def verify(
        self,
        model: ModelLike | None = None,
        inputs: Data | None = None,
        *,
        images: int = 1,
        calibrate: Data | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Verdict:
        """Checks the program against the rules of its machine and, with a model, all values that can be
        observed against the golden model. What is wrong is also warned of.

        Args:
            model: The model that it was compiled from.
            inputs: Images to compare on.
            images: How many to make up, where that is asked for.
            calibrate: Data that a float model was quantised with, where the program does not keep ranges.
            threads: Threads over images.
            progress: See :data:`quincunx.Progress`.
        """
        if (model is None) != (inputs is None):
            raise misused("a model and inputs belong together", "give both, or none")
        core = self._core
        own = None if model is None else load(model)._core
        given = None if inputs is None else data(inputs, core.inputs, images)
        known = None if calibrate is None else data(calibrate, core.inputs, 1)
        workers = whole_or_none("threads", threads)
        passed, count, exact, report = core.verify(own, given, known, workers, progress)
        return Verdict(passed, count, exact, Report(report))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program folder, replacing one that is there."""
        self._core.save(path)

    @property
    def kinds(self) -> dict[str, str]:
        """Kinds of native files that :meth:`emit` makes, and what they are."""
        return dict(self._core.kinds)

    def emit(self, kind: str, *, stem: str = "program") -> dict[str, bytes]:
        """Native files of a kind: contents by file name.

        Args:
            kind: One of :attr:`kinds`.
            stem: What the files are called, without ending.
        """
        return dict(self._core.emit(kind, stem))

    def __repr__(self) -> str:
        if self._open is None:
            return "<Program, closed>"
        machines = ", ".join(" ".join(machine) for machine in self.machines)
        stats = self.stats
        cycles = "" if stats.cycles is None else f", {stats.cycles} cycle{'s' * (stats.cycles != 1)}"
        return f"<Program on {machines}: {stats.instructions} instructions{cycles}>"

    def _repr_html_(self) -> str:
        return "".join([self.report._repr_html_(), *self._pictures()])

    def _pictures(self) -> list[str]:
        """What its machine draws of it, unless that is large: adder graphs, registers step by step."""
        kind = next((kind for kind in DRAWN if kind in self.kinds), None)
        if kind is None or len(self.machines) > 1:
            return []
        try:
            files = self.emit(kind)
        except QuincunxError:
            # Machines say so of programs that are too large to draw.
            return []
        small = {name: file for name, file in files.items() if len(file) <= MOST_DRAWN}
        return [
            picture(file) if name.endswith(".svg") else Page(file.decode())._repr_html_()
            for name, file in small.items()
        ]


def wanted(target: str, arch: str | os.PathLike[str] | None, options: Mapping[str, Option]) -> Any:
    """A machine as the library takes it."""
    if not isinstance(target, str):
        raise misused(f"a {type(target).__name__} is no target", 'targets have names, as in "tcu@bench8"')
    if arch is None and "@" in target:
        target, arch = target.split("@", 1)
    return (target, None if arch is None else os.fspath(arch), texts(options))


def texts(options: Mapping[str, Option]) -> list[tuple[str, str]]:
    """Options as the command line has them."""

    def text(value: Option) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    return [(name.replace("_", "-"), text(value)) for name, value in options.items()]


def compile(
    model: ModelLike,
    target: str | None = None,
    *,
    arch: str | os.PathLike[str] | None = None,
    split: str | None = None,
    calibrate: Data | None = None,
    images: int = 1,
    strict: bool = False,
    fold_batch_norm: bool = True,
    verify_each: bool = False,
    **options: Option,
) -> Program:
    """Compiles a network for a machine.

    Args:
        model: See :data:`quincunx.ModelLike`.
        target: ``dais``, ``scamp``, ``dpas``, ``tcu`` or ``npu``, also with a preset: ``tcu@bench8``.
        arch: A preset of the target, a machine file, or the text of one.
        split: In place of a target: several machines, as in ``"conv1@scamp, rest@dais"``. Options are then
            dicts by target: ``scamp={"effort": "fast"}``.
        calibrate: Data to quantise a float model with; see :data:`quincunx.Data`.
        images: How many to make up, where that is asked for.
        strict: A node that the machine does not take is an error.
        fold_batch_norm: Batch normalisations become part of the layers before them.
        verify_each: Checks the network behind every pass, and the programs by the rules of their machine.
        **options: Options of the target; see :data:`quincunx.Option`.

    Raises:
        QuincunxError: What cannot be compiled, and why.
    """
    model = load(model)
    how = {"strict": strict, "fold_batch_norm": fold_batch_norm, "verify_each": verify_each}
    known = None if calibrate is None else data(calibrate, model._core.inputs, images)
    if (target is None) == (split is None):
        raise misused("expected either a target or a split")
    if split is not None:
        wrong = [name for name, value in options.items() if not isinstance(value, Mapping)]
        if wrong or arch is not None:
            name = wrong[0] if wrong else "arch"
            raise misused(f"{name} does not say for which target", 'as in scamp={"effort": "fast"}')
        own = [(name, texts(value)) for name, value in options.items()]  # type: ignore[arg-type]
        return Program(_core.split(model._core, split, own, known, how))
    assert target is not None
    return Program(_core.compile(model._core, wanted(target, arch, options), known, how))


def read(
    *paths: str | os.PathLike[str],
    target: str | None = None,
    arch: str | os.PathLike[str] | None = None,
    **options: Option,
) -> Program:
    """Reads a program: a folder that ``save`` or ``quincunx compile`` has written, or native files of one
    program (text or machine code of any of the five machines).

    Args:
        *paths: The folder, or the files. Files that belong to them and lie beside them are found.
        target: Whose files they are; found out where it is not given.
        arch: The machine, for native files.
        **options: Options of the target.
    """
    if not paths:
        raise misused("expected a program folder or native files")
    machine = None if arch is None else os.fspath(arch)
    return Program(_core.read([Path(path) for path in paths], target, machine, texts(options)))
