"""Programs of the machine, in the forms of da4ml and alkaid."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core
from .._arrays import given, taken
from .._errors import misused
from .._program import Option, texts
from .._program import Program as AnyProgram
from ._numbers import numbers

_NAMES = {
    -1: "input", 0: "add", 1: "sub", 2: "relu", 3: "quantise", 4: "add_const", 5: "const", 6: "mux",
    7: "multiply", 8: "lookup", 9: "bits", 10: "bitwise",
}  # fmt: skip


class Op(NamedTuple):
    """One operation, as da4ml has it.

    Attributes:
        id0: First operand, a slot; of an input its number. -1 if there is none.
        id1: Second operand; -1 if there is none.
        opcode: What is done; ``quincunx.isa("dais")`` lists them.
        data: Shift, constant, table, or shift and condition.
        qint: ``(min, max, step)`` of the result.
        latency: When the result is there, in the unit of the carry size.
        cost: In the unit of the adder size.
    """

    id0: int
    id1: int
    opcode: int
    data: int
    qint: tuple[float, float, float]
    latency: float
    cost: float

    @property
    def name(self) -> str:
        """Name of the instruction."""
        return _NAMES[self.opcode if self.opcode == -1 else abs(self.opcode)]


class Program:
    """An adder graph: what :func:`solve` and :func:`trace` make and :func:`load` reads. It does not change.

    ``n`` numbers enter and ``m`` leave; :attr:`shape` is ``(n, m)``.
    """

    def __init__(self, core: _core.Graph) -> None:
        self._core = core
        self._ops: list[list[Op]] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """How many numbers enter, and how many leave."""
        return self._core.shape

    @property
    def cost(self) -> float:
        """Cost of all operations in da4ml's model: additions where the adder size is -1, bits of adders
        where it is 1."""
        return self._core.size[2]

    @property
    def adders(self) -> int:
        """Additions and subtractions of two numbers."""
        return self._core.size[1]

    @property
    def latency(self) -> tuple[float, float]:
        """When the first and when the last output is there: levels of adders where the carry size is -1."""
        return self._core.latency

    @property
    def stages(self) -> int:
        """Stages of a pipeline; 1 for logic without registers between."""
        return self._core.stages

    @property
    def reg_bits(self) -> int:
        """Bits of the registers at the inputs and behind every stage."""
        return self._core.register_bits

    def __len__(self) -> int:
        return self._core.size[0]

    def _models(self) -> list[Any]:
        model = json.loads(self.to_json())
        return [model] if self.stages == 1 else list(model[0])

    @property
    def ops(self) -> list[Op]:
        """All operations in order; of a pipeline those of one stage after the other."""
        if self._ops is None:
            self._ops = [[_op(row) for row in model[5]] for model in self._models()]
        return [op for stage in self._ops for op in stage]

    @property
    def kernel(self) -> npt.NDArray[np.float64]:
        """The matrix that the program multiplies with, shape ``(n, m)``, computed from its operations.

        Raises:
            QuincunxError: ``Q0811``: some operation is not linear.
        """
        matrix = np.eye(self.shape[0])
        for model in self._models():
            matrix = _linear(model, matrix)
        return matrix

    def predict(self, data: npt.ArrayLike, *, n_threads: int | None = None) -> npt.NDArray[np.float64]:
        """Outputs of samples, bit for bit.

        Args:
            data: Samples along the first axis; each has ``n`` numbers in any shape. What an input's type does
                not hold is cut to it: low bits dropped, high bits wrapped.
            n_threads: Threads; as many as there are processors if ``None`` or 0. The result does not depend on it.

        Returns:
            An array of floats, shape ``(samples, m)``.

        Raises:
            QuincunxError: ``Q0811``: the shape does not fit, or a number is NaN or infinite.
        """
        array = numbers(data, "the data")
        count, columns = len(array) if array.ndim else -1, self.shape[0]
        if count < 0 or array.size != count * columns:
            raise misused(
                f"the data has the shape {array.shape}",
                f"expected samples along the first axis, of {columns} numbers each",
            )
        rows = np.ascontiguousarray(array.reshape(count, columns), np.float64)
        return taken(self._core.run_rows(given("data", rows), n_threads or None))

    def __call__(self, data: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Outputs of one sample of shape ``(n,)``, or of several; see :meth:`predict`."""
        array = numbers(data, "the data")
        if array.shape == (self.shape[0],):
            result: npt.NDArray[np.float64] = self.predict(array[np.newaxis])[0]
            return result
        return self.predict(array)

    def to_json(self, dialect: str = "da4ml") -> str:
        """The program in the JSON of ``da4ml`` or ``alkaid``, from which these tools load it.

        Raises:
            QuincunxError: An instruction that the tool does not have.
        """
        if dialect not in ("da4ml", "alkaid"):
            raise misused(f"no dialect is named {dialect!r}", "expected da4ml or alkaid")
        return self._core.json(dialect == "alkaid")

    def save(self, path: str | os.PathLike[str], dialect: str = "da4ml") -> None:
        """Writes the program as JSON; what is there is replaced once all of it is written."""
        target = Path(path)
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            beside.write_text(self.to_json(dialect), encoding="utf-8")
            os.replace(beside, target)
        finally:
            beside.unlink(missing_ok=True)

    def pipeline(self, latency_cutoff: float, *, retiming: bool = True) -> Program:
        """The same in stages with registers between, none longer than a cutoff.

        Args:
            latency_cutoff: Longest latency of a stage, in the unit of :attr:`latency`.
            retiming: Whether stages are balanced, and operations moved to where registers hold fewer bits.
        """
        if not latency_cutoff > 0:
            raise misused(f"the cutoff is {latency_cutoff}", "expected a number above 0")
        return Program(self._core.staged(float(latency_cutoff), retiming))

    def program(self, **options: Option) -> AnyProgram:
        """The same for all verbs: timing, verification, tables; see :class:`quincunx.Program`.

        Args:
            **options: Options of the target, such as ``clock`` or ``rtl_part``.
        """
        return AnyProgram(self._core.program(texts(options)))

    def emit(self, kind: str, *, stem: str = "program", **options: Option) -> dict[str, bytes]:
        """Files by name: ``verilog``, ``vhdl``, ``asm``, ``bin``, ``svg``, ``dot`` and others.

        Args:
            kind: One of ``program().kinds``.
            stem: What the files are called, without ending.
            **options: As for :meth:`program`.
        """
        return self.program(**options).emit(kind, stem=stem)

    def __repr__(self) -> str:
        (inputs, outputs), (low, high) = self.shape, self.latency
        stages = f", {self.stages} stages" if self.stages > 1 else ""
        when = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        return f"<dais.Program {inputs} -> {outputs}: {len(self)} operations{stages}, cost {self.cost:g}, latency {when}>"

    def _repr_html_(self) -> str:
        return self.program()._repr_html_()


def _op(row: list[Any]) -> Op:
    id0, id1, opcode, data, (low, high, step), latency, cost = row
    return Op(id0, id1, opcode, data, (low, high, step), latency, cost)


def _linear(model: Any, inputs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """What a stage makes of linear forms, which are rows over the inputs of the program."""
    _, shifts, sources, out_shifts, negated, rows = model[:6]
    forms: list[npt.NDArray[np.float64]] = []
    for id0, id1, opcode, data, *_ in rows:
        if opcode == -1:
            form = inputs[:, id0] * 2.0 ** shifts[id0]
        elif opcode in (0, 1):
            form = forms[id0] + forms[id1] * (2.0**data * (1 - 2 * opcode))
        elif opcode == 5 and data == 0:
            form = np.zeros(len(inputs))
        else:
            raise misused(
                f"a program with `{_op([0, 0, opcode, 0, [0, 0, 1], 0, 0]).name}` has no kernel",
                "only sums of inputs have one",
            )
        forms.append(form)
    zero = np.zeros(len(inputs))
    columns = [
        zero if source < 0 else forms[source] * (2.0**shift * (-1.0 if negate else 1.0))
        for source, shift, negate in zip(sources, out_shifts, negated)
    ]
    return np.stack(columns, axis=1) + 0.0 if columns else np.zeros((len(inputs), 0))


def load(source: str | bytes | os.PathLike[str]) -> Program:
    """Reads a program or pipeline that da4ml, alkaid or :meth:`Program.save` has written as JSON.

    Args:
        source: A path, or the text itself, which begins with ``[`` or ``{``. Files may be compressed with gzip.

    Raises:
        QuincunxError: What is wrong with the file.
    """
    if isinstance(source, str) and source.lstrip()[:1] in ("[", "{"):
        return Program(_core.graph(source.encode(), False))
    if isinstance(source, bytes):
        return Program(_core.graph(source, False))
    try:
        contents = Path(source).read_bytes()
    except OSError as problem:
        raise misused(
            f"{os.fspath(source)} cannot be read: {problem.strerror}", "expected a file of JSON"
        ) from None
    return Program(_core.graph(contents, False))
