"""From what was traced to a program."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, TypeAlias, Union, cast

import numpy as np
import numpy.typing as npt

from .. import _core
from .._errors import misused
from ._array import FixedArray, FixedArrayInput, together
from ._graph import Graph, Op
from ._numbers import kif, real, whole
from ._program import Program

Entering: TypeAlias = Union[FixedArray, FixedArrayInput]
"""What enters a program."""

Leaving: TypeAlias = Union[FixedArray, npt.NDArray[Any]]
"""What leaves a program; numpy declares that its functions give arrays of its own, also where they do not."""


def trace(
    inputs: Entering | Sequence[Entering],
    outputs: Leaving | Sequence[Leaving],
    *,
    adder_size: int = 1,
    carry_size: int = -1,
) -> Program:
    """The program that computes outputs from inputs.

    Args:
        inputs: What enters: arrays of :meth:`FixedArray.input`, or :class:`FixedArrayInput`. The numbers of all,
            in the order of C, are the inputs of the program.
        outputs: What leaves, likewise.
        adder_size: Bits of one unit of cost; -1 counts additions.
        carry_size: Bits that a carry passes in one unit of latency; -1 counts levels of adders.

    Returns:
        A program without anything that no output needs. Inputs that are not needed stay.

    Raises:
        QuincunxError: ``Q0811``: something that enters is computed or no array, or outputs need an input that is
            not given, or more than 53 bits.
    """
    given = list(inputs) if isinstance(inputs, (list, tuple)) else [cast(Entering, inputs)]
    wanted = list(outputs) if isinstance(outputs, (list, tuple)) else [cast(Leaving, outputs)]
    if not all(isinstance(array, FixedArray) for array in wanted):
        raise misused(
            "an output is no FixedArray", "outputs are computed from inputs; functions must be quantised"
        )
    graph, places = together(*wanted)
    entering = [serial for array in given for serial in _serials(array)]
    serials = {serial: index for index, serial in enumerate(entering)}
    if len(serials) != len(entering):
        raise misused("an input is given twice")
    numbers = [x for array in places for x in array.ravel().tolist()]
    sizes = whole(adder_size, "adder_size", -1, 65535), whole(carry_size, "carry_size", -1, 65535)
    if 0 in sizes:
        raise misused("a size is 0", "expected a number of bits, or -1 for any")
    model = _model(graph, serials, numbers, sizes)
    return Program(_core.graph(json.dumps(model, separators=(",", ":")).encode(), True))


comb_trace = trace


def _serials(array: Entering) -> list[int]:
    if isinstance(array, FixedArrayInput):
        return array.serials
    if not isinstance(array, FixedArray):
        raise misused("an input is no FixedArray", "make it with FixedArray.input")
    if array.entry is not None:
        return array.entry.serials
    # Parts of inputs, in any order.
    graph, serials = array.graph, []
    for x in array.places.ravel().tolist():
        slot, shift, negate = graph.numbers[x]
        if graph.ops[slot].opcode != -1 or shift or negate:
            raise misused(
                "an input is computed from others, or a constant", "give what FixedArray.input has made"
            )
        serials.append(graph.ops[slot].a)
    return serials


def _model(graph: Graph, serials: dict[int, int], outputs: list[int], sizes: tuple[int, int]) -> list[Any]:
    """The program as da4ml's JSON has it."""
    reads = [(-1, 0, False) if graph.bounds[x][:2] == (0, 0) else graph.numbers[x] for x in outputs]
    needed = _needed(graph.ops, [slot for slot, _, _ in reads if slot >= 0])
    where = {old: new for new, old in enumerate(needed)}
    where[-1] = -1
    tables = sorted({graph.ops[slot].data for slot in needed if graph.ops[slot].opcode == 8})
    named = {old: new for new, old in enumerate(tables)}
    rows = [_row(graph.ops[slot], where, serials, named) for slot in needed]
    return [
        [len(serials), len(outputs)],
        [0] * len(serials),
        [where[slot] for slot, _, _ in reads],
        [shift for _, shift, _ in reads],
        [negate for _, _, negate in reads],
        rows,
        sizes[1],
        sizes[0],
        [_table(graph, table) for table in tables] or None,
    ]


def _needed(ops: list[Op], roots: list[int]) -> list[int]:
    """Operations that some root needs, in order. Operands come before what reads them."""
    needed = bytearray(len(ops))
    for slot in roots:
        needed[slot] = True
    for slot in range(len(ops) - 1, -1, -1):
        if needed[slot]:
            op = ops[slot]
            for operand in (op.b, op.c) if op.opcode == -1 else (op.a, op.b, op.c):
                if operand >= 0:
                    needed[operand] = True
    return [slot for slot, is_needed in enumerate(needed) if is_needed]


def _row(op: Op, where: dict[int, int], serials: dict[int, int], tables: dict[int, int]) -> list[Any]:
    opcode, a, b, data, c, low, high, unit = op
    if opcode == -1:
        if a not in serials:
            raise misused("an output needs an input that is not given")
        a = serials[a]
    else:
        a = where[a]
    if opcode == 8:
        data = tables[data]
    elif opcode in (6, -6):
        data = (data << 32) | where[c]
    interval = [real(low, unit), real(high, unit), real(1, unit)]
    return [a, where[b], opcode, data, interval, 0.0, 0.0]


def _table(graph: Graph, table: int) -> dict[str, Any]:
    entries, bounds = graph.tables[table]
    low, high, unit = bounds
    fraction = kif(bounds)[2]
    contents = np.array(entries, np.int32).tobytes() + str(fraction).encode()
    width = max(1, (len(entries) - 1).bit_length())
    interval = {"min": real(low, unit), "max": real(high, unit), "step": real(1, unit)}
    spec = {"hash": hashlib.sha256(contents).hexdigest(), "out_qint": interval, "inp_width": width}
    return {"spec": spec, "table": list(entries)}
