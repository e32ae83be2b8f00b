"""Problems as exceptions and warnings."""

from __future__ import annotations

import operator
import sys
import warnings
from dataclasses import dataclass
from typing import SupportsIndex


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, or that one should know.

    Attributes:
        code: Stable code, such as ``Q0605``; :func:`quincunx.explain` says what it means.
        severity: ``error``, ``warning`` or ``note``.
        message: What is wrong.
        place: Where: a file, a line of it, a node of the model.
        notes: What else is known.
        help: What to do about it.
    """

    code: str
    severity: str
    message: str
    place: str | None = None
    notes: tuple[str, ...] = ()
    help: str | None = None

    def __str__(self) -> str:
        lines = [f"{self.severity}[{self.code}]: {self.message}"]
        lines += [f"--> {self.place}"] if self.place else []
        lines += [f" = note: {note}" for note in self.notes]
        lines += [f" = help: {self.help}"] if self.help else []
        return "\n".join(lines)


class QuincunxError(Exception):
    """Something cannot be done, and why.

    Attributes:
        problems: Everything that is wrong, and notes about it.
        exit_code: What the command line would end with: 1 for an answer that is no, 2 for wrong usage,
            3 for malformed input, 4 for what is not supported, 70 for a bug, 74 for the file system.
    """

    problems: tuple[Problem, ...]
    exit_code: int

    def __init__(
        self,
        text: str,
        problems: list[tuple[str, str, str, str | None, list[str], str | None]],
        exit_code: int,
    ) -> None:
        super().__init__(text, problems, exit_code)
        self.problems = tuple(_problem(*problem) for problem in problems)
        self.exit_code = exit_code

    def __str__(self) -> str:
        return str(self.args[0])

    def _first(self) -> Problem | None:
        errors = [problem for problem in self.problems if problem.severity == "error"]
        return next(iter(errors or self.problems), None)

    @property
    def code(self) -> str:
        """Code of the first error."""
        first = self._first()
        return first.code if first else ""

    @property
    def place(self) -> str | None:
        """Place of the first error."""
        first = self._first()
        return first.place if first else None

    @property
    def help(self) -> str | None:
        """What to do about the first error."""
        first = self._first()
        return first.help if first else None


class QuincunxWarning(UserWarning):
    """Something that can be used, but should be looked at. Its text begins with a code."""


def _problem(
    code: str,
    severity: str,
    message: str,
    place: str | None,
    notes: list[str],
    help: str | None,
) -> Problem:
    return Problem(code, severity, message, place, tuple(notes), help)


def warn(problem: tuple[str, str, str, str | None, list[str], str | None]) -> None:
    """Warns of a problem that the library tells, in the name of who called the package."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "quincunx":
        frame, level = frame.f_back, level + 1
    warnings.warn(str(_problem(*problem)), QuincunxWarning, stacklevel=level)


def misused(message: str, help: str | None = None) -> QuincunxError:
    """An error about how the package is used, which Python code has found."""
    problem = Problem("Q0811", "error", message, None, (), help)
    return QuincunxError(str(problem), [("Q0811", "error", message, None, [], help)], 2)


MOST = 2**31
"""Most of anything that is counted here."""


def whole(name: str, value: SupportsIndex, least: int = 1) -> int:
    """A whole number in the range of what can be counted."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not least <= number <= MOST:
        raise misused(f"{name} is {value!r}", f"expected a whole number from {least} to {MOST}")
    return number


def whole_or_none(name: str, value: SupportsIndex | None) -> int | None:
    """The same, where it need not be given."""
    return None if value is None else whole(name, value)
