"""What is traced: a list of operations in the form of da4ml's JSON, and numbers that read them.

A *slot* is the result of an operation. A *number* is plus or minus a slot times a power of two; it is named by
its place in :attr:`Graph.numbers`. Signs and powers of two cost nothing, so they are never operations. What a
number can be is known exactly: its bounds and its step.

Nothing is computed twice: an operation on the same slots is the slot that is there already, and what can only
be one number is a constant.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .._errors import misused
from ._numbers import ZERO, Bounds, aligned, exact, integer_bits, negated, shifted
from ._solve import Search, solve_rows

Number: TypeAlias = int

_serial = itertools.count()


class Op(NamedTuple):
    """An operation; ``c`` is the condition of a mux."""

    opcode: int
    a: int
    b: int
    data: int
    c: int
    low: int
    high: int
    unit: int


class Graph:
    """Operations, and numbers made of them."""

    def __init__(self, search: Search = Search()) -> None:
        self.ops: list[Op] = []
        self.levels: list[int] = []
        self.tables: list[tuple[tuple[int, ...], Bounds]] = []
        self.numbers: list[tuple[int, int, bool]] = []
        self.bounds: list[Bounds] = []
        self.search = search
        self._slots: dict[tuple[int, ...], int] = {}
        self._named: dict[tuple[int, int, bool], Number] = {}
        self._constants: dict[tuple[int, int], Number] = {}
        self._products: dict[Any, Any] = {}
        self._tables: dict[tuple[tuple[int, ...], Bounds], int] = {}
        # Where its numbers are, once it is part of another graph.
        self.moved: tuple[Graph, npt.NDArray[np.int64]] | None = None

    # Slots and numbers

    def number(self, slot: int, shift: int, negate: bool) -> Number:
        """Plus or minus a slot times a power of two."""
        key = (slot, shift, negate)
        found = self._named.get(key)
        if found is not None:
            return found
        op = self.ops[slot]
        if op.low == op.high == 0:
            bounds = ZERO
        else:
            low, high = (-op.high, -op.low) if negate else (op.low, op.high)
            bounds = (low, high, op.unit + shift)
        self._named[key] = place = len(self.numbers)
        self.numbers.append(key)
        self.bounds.append(bounds)
        return place

    def _op(self, opcode: int, a: int, b: int, data: int, bounds: Bounds, c: int = -1, delay: int = 0) -> int:
        """The slot of an operation, with the bounds of its result. What quantises differs by its type."""
        key: tuple[int, ...] = (opcode, a, b, data, c)
        if opcode in (-1, 2, -2, 3, -3, 4, 5):
            key = (*key, *bounds)
        found = self._slots.get(key)
        if found is not None:
            return found
        levels = self.levels
        begin = max(levels[slot] if slot >= 0 else 0 for slot in (a, b, c)) if opcode not in (-1, 5) else 0
        self._slots[key] = slot = len(self.ops)
        self.ops.append(Op(opcode, a, b, data, c, *bounds))
        levels.append(begin + delay)
        return slot

    def _result(self, slot: int, shift: int, negate: bool, bounds: Bounds) -> Number:
        """The number of a slot; a constant where it can be nothing else."""
        low, high, unit = bounds
        return self.constant(low, unit) if low == high else self.number(slot, shift, negate)

    def input(self, low: int, high: int, unit: int, serial: int) -> Number:
        """What enters, cut to these bounds. Entries of one serial number are the same input."""
        if low == high == 0:
            return self.constant(0, 0)
        return self.number(self._op(-1, serial, -1, 0, (low, high, unit)), 0, False)

    def constant(self, number: int, unit: int = 0) -> Number:
        """``number * 2**unit``."""
        key = (number, unit)
        found = self._constants.get(key)
        if found is None:
            odd, shift = exact(number)
            shift += unit if odd else 0
            size = abs(odd)
            slot = self._op(5, -1, -1, size, (size, size, 0))
            self._constants[key] = found = self.number(slot, shift, odd < 0)
        return found

    def fixed(self, x: Number) -> tuple[int, int] | None:
        """A constant as an integer and a power of two."""
        low, high, unit = self.bounds[x]
        return (low, unit) if low == high else None

    def level(self, x: Number) -> int:
        """Levels of adders before a number."""
        return self.levels[self.numbers[x][0]]

    def scale(self, x: Number, by: int) -> Number:
        """``x * 2**by``."""
        slot, shift, negate = self.numbers[x]
        return self.number(slot, shift + by, negate)

    def negate(self, x: Number) -> Number:
        """``-x``."""
        slot, shift, negate = self.numbers[x]
        return self.number(slot, shift, not negate)

    # Arithmetic

    def add(self, x: Number, y: Number, bounds: Bounds | None = None) -> Number:
        """``x + y``, with bounds where they are known better than from those of both."""
        for one, other in ((x, y), (y, x)):
            constant = self.fixed(one)
            if constant:
                return self._add_constant(other, *constant)
        if bounds is None:
            low_x, high_x, low_y, high_y, unit = aligned(self.bounds[x], self.bounds[y])
            bounds = (low_x + low_y, high_x + high_y, unit)
        (a, shift_a, negate_a), (b, shift_b, negate_b) = self.numbers[x], self.numbers[y]
        if (a, shift_a) == (b, shift_b):
            return self.constant(0) if negate_a != negate_b else self.scale(x, 1)
        # Sums have their operands in one order; of differences the positive one comes first.
        swap = negate_a if negate_a != negate_b else (a, shift_a) > (b, shift_b)
        if swap:
            a, shift_a, negate_a, b, shift_b, negate_b = b, shift_b, negate_b, a, shift_a, negate_a
        slot = self._op(
            int(negate_a != negate_b), a, b, shift_b - shift_a, _moved(bounds, -shift_a, negate_a), delay=1
        )
        return self._result(slot, shift_a, negate_a, bounds)

    def sub(self, x: Number, y: Number) -> Number:
        """``x - y``."""
        return self.add(x, self.negate(y))

    def _add_constant(self, x: Number, number: int, unit: int) -> Number:
        known = self.fixed(x)
        low, high, low_c, _, step = aligned(self.bounds[x], (number, number, unit))
        bounds = (low + low_c, high + low_c, step)
        if known:
            return self.constant(low + low_c, step)
        if number == 0:
            return x
        a, shift, negate = self.numbers[x]
        data = -low_c if negate else low_c
        if abs(data) >= 1 << 62:
            raise misused("a sum with a constant is too wide", "quantize the constant or the number first")
        slot = self._op(4, a, -1, data, _moved(bounds, -shift, negate))
        return self._result(slot, shift, negate, bounds)

    def multiply(self, x: Number, y: Number) -> Number:
        """``x * y``."""
        for one, other in ((x, y), (y, x)):
            constant = self.fixed(one)
            if constant:
                return self._times_constant(other, *constant)
        (a, shift_a, negate_a), (b, shift_b, negate_b) = sorted((self.numbers[x], self.numbers[y]))
        first, second = self.ops[a], self.ops[b]
        ends = [m * n for m in (first.low, first.high) for n in (second.low, second.high)]
        low, high = min(ends), max(ends)
        if a == b:
            low = 0 if first.low <= 0 <= first.high else min(first.low**2, first.high**2)
        width = max(1, integer_bits(first.low, first.high), integer_bits(second.low, second.high))
        slot = self._op(7, a, b, 0, (low, high, first.unit + second.unit), delay=width)
        return self.number(slot, shift_a + shift_b, negate_a != negate_b)

    def _times_constant(self, x: Number, number: int, unit: int) -> Number:
        odd, zeros = exact(number)
        known = self.fixed(x)
        if known or odd == 0:
            value, step = known or (0, 0)
            return self.constant(value * number, step + unit)
        if abs(odd) == 1:
            scaled = self.scale(x, zeros + unit)
            return scaled if odd > 0 else self.negate(scaled)
        if abs(odd) >= 1 << 48:
            raise misused(f"a factor has {abs(odd).bit_length()} bits", "round it to at most 48 bits")
        (product,) = self.product([x], np.array([[odd]], np.int64))
        return self.scale(product, zeros + unit)

    def product(self, xs: list[Number], weights: npt.NDArray[np.int64]) -> list[Number]:
        """``xs @ weights``."""
        rows, added = self._rows(xs, weights)
        results = [self.constant(0)] * weights.shape[1]
        if rows:
            results = self._spliced(list(rows), np.stack(list(rows.values())))
        for j, (number, unit) in enumerate(added):
            if number:
                results[j] = self._add_constant(results[j], number, unit)
        return results

    def _rows(
        self, xs: list[Number], weights: npt.NDArray[np.int64]
    ) -> tuple[dict[Number, npt.NDArray[np.int64]], list[tuple[int, int]]]:
        """Rows by numbers, none of which is a constant or there twice, and what constants add."""
        rows: dict[Number, npt.NDArray[np.int64]] = {}
        added: list[tuple[int, int]] = [(0, 0)] * weights.shape[1]
        for x, row in zip(xs, weights):
            constant = self.fixed(x)
            if constant:
                number, unit = constant
                added = [_sum(sum_, (number * int(weight), unit)) for sum_, weight in zip(added, row)]
                continue
            slot, shift, negate = self.numbers[x]
            # A number and its negative are one row.
            positive = self.number(slot, shift, False) if negate else x
            signed = -row if negate else row
            rows[positive] = rows[positive] + signed if positive in rows else signed
        used = {x: row for x, row in rows.items() if row.any()}
        return used, added

    def _spliced(self, xs: list[Number], weights: npt.NDArray[np.int64]) -> list[Number]:
        """The adder graph of a product, as operations. Equal products have equal graphs."""
        base = min(self.bounds[x][2] for x in xs)
        first = min(self.level(x) for x in xs)
        inputs = []
        for x in xs:
            low, high, unit = self.bounds[x]
            if integer_bits(low, high) > 62:
                raise misused("a number is too wide for a product with constants", "quantize it first")
            inputs.append((low, high, unit - base, float(self.level(x) - first)))
        key = (weights.tobytes(), weights.shape, tuple(inputs))
        found = self._products.get(key)
        if found is None:
            found = self._products[key] = solve_rows(weights, inputs, self.search).adders()
        adders, outputs = found
        nodes = list(xs)
        for a, b, shift, subtract, low, high, unit in adders:
            second = self.scale(nodes[b], shift) if shift else nodes[b]
            second = self.negate(second) if subtract else second
            nodes.append(self.add(nodes[a], second, (low, high, unit + base)))
        zero = self.constant(0)
        results = []
        for output in outputs:
            result = zero if output is None else self.scale(nodes[output[0]], output[1])
            results.append(self.negate(result) if output is not None and output[2] else result)
        return results

    def reduce(self, xs: list[Number], combine: Callable[[Number, Number], Number]) -> Number:
        """All numbers in one, the earliest first: a balanced tree."""
        waiting = [(self.level(x), place, x) for place, x in enumerate(xs)]
        heapq.heapify(waiting)
        for place in range(len(xs), 2 * len(xs) - 1):
            _, _, x = heapq.heappop(waiting)
            _, _, y = heapq.heappop(waiting)
            result = combine(x, y)
            heapq.heappush(waiting, (self.level(result), place, result))
        return waiting[0][2]

    # Bits

    def relu(self, x: Number, bounds: Bounds | None = None) -> Number:
        """``max(x, 0)``, cut to bounds if such are given."""
        low, high, unit = self.bounds[x]
        if low >= 0:
            return x if bounds is None else self.cut(x, bounds)
        if high <= 0 or bounds is not None and bounds[1] == 0:
            return self.constant(0)
        slot, shift, negate = self.numbers[x]
        result = self._op(-2 if negate else 2, slot, -1, 0, _moved(bounds or (0, high, unit), -shift, False))
        return self.number(result, shift, False)

    def rounded_relu(self, x: Number, i: int, f: int, rounding: str) -> Number:
        """``max(x, 0)`` with ``i`` integer and ``f`` fraction bits."""
        if i + f <= 0:
            return self.constant(0)
        if rounding == "RND" and self.bounds[x][2] < -f:
            x = self._add_constant(x, 1, -f - 1)
        _, high, unit = self._floored(x, -f)
        bits = i - unit
        if bits <= 0 or high <= 0:
            return self.constant(0)
        most = (1 << bits) - 1
        own = self.bounds[x]
        if own[0] >= 0 and own[2] >= -f and high <= most:
            return x
        if self.fixed(x):
            return self.quantize(x, 0, i, f)
        return self.relu(x, (0, min(high, most), unit))

    def cut(self, x: Number, bounds: Bounds) -> Number:
        """Drops bits: those below the step, and those above what the bounds need."""
        slot, shift, negate = self.numbers[x]
        if bounds[0] == bounds[1]:
            return self.constant(bounds[0], bounds[2])
        result = self._op(-3 if negate else 3, slot, -1, 0, _moved(bounds, -shift, False))
        return self.number(result, shift, False)

    def floor(self, x: Number, unit: int) -> Number:
        """The multiple of ``2**unit`` at or below ``x``."""
        return x if self.bounds[x][2] >= unit else self.cut(x, self._floored(x, unit))

    def _floored(self, x: Number, unit: int) -> Bounds:
        low, high, own = self.bounds[x]
        by = own - unit
        return (low, high, own) if by >= 0 else (low >> -by, high >> -by, unit)

    def quantize(
        self, x: Number, k: int, i: int, f: int, overflow: str = "WRAP", rounding: str = "TRN"
    ) -> Number:
        """``x`` in a type of sign ``k``, ``i`` integer and ``f`` fraction bits."""
        if k + i + f <= 0:
            return self.constant(0)
        if rounding == "RND" and self.bounds[x][2] < -f:
            x = self._add_constant(x, 1, -f - 1)
        low, high, unit = self._floored(x, -f)
        least, most = -k << i + f, (1 << i + f) - 1
        if overflow == "SAT_SYM" and k:
            least = -most
        if shifted(low, unit + f) >= least and shifted(high, unit + f) <= most:
            return self.floor(x, -f)
        if overflow == "WRAP":
            return self._wrapped(x, k, i, unit)
        x = self.minimum(self.floor(x, -f), self.constant(most, -f))
        return self.maximum(x, self.constant(least, -f))

    def _wrapped(self, x: Number, k: int, i: int, unit: int) -> Number:
        """Drops the bits above ``i`` integer bits, and those below ``2**unit``."""
        bits = i - unit
        if k + bits <= 0:
            return self.constant(0)
        known, least = self.fixed(x), -k << bits
        if known:
            return self.constant((shifted(known[0], known[1] - unit) - least) % (1 << bits + k) + least, unit)
        return self.cut(x, (least, (1 << bits) - 1, unit))

    def mux(self, condition: Number, x: Number, y: Number, bounds: Bounds | None = None) -> Number:
        """``x`` where the condition, a truth value, is 1, else ``y``."""
        known = self.fixed(condition)
        if known or x == y:
            return x if x == y or (known and known[0]) else y
        return self._choose(self.numbers[condition][0], x, y, bounds)

    def _choose(self, slot: int, x: Number, y: Number, bounds: Bounds | None) -> Number:
        """``x`` where the highest bit of a slot is 1, else ``y``."""
        if bounds is None:
            low_x, high_x, low_y, high_y, unit = aligned(self.bounds[x], self.bounds[y])
            bounds = (min(low_x, low_y), max(high_x, high_y), unit)
        (a, shift_a, negate_a), (b, shift_b, negate_b) = self.numbers[x], self.numbers[y]
        # A constant is made with the sign that the other one needs.
        if self.fixed(x):
            a, shift_a, negate_a = self._signed(x, negate_b)
        elif self.fixed(y):
            b, shift_b, negate_b = self._signed(y, negate_a)
        opcode = 6 if negate_a == negate_b else -6
        result = self._op(opcode, a, b, shift_b - shift_a, _moved(bounds, -shift_a, negate_a), slot, 1)
        return self._result(result, shift_a, negate_a, bounds)

    def _signed(self, x: Number, negate: bool) -> tuple[int, int, bool]:
        """A constant as minus a slot, or as a slot."""
        number, unit = self.fixed(x) or (0, 0)
        odd, zeros = exact(-number if negate else number)
        return self._op(5, -1, -1, odd, (odd, odd, 0)), zeros + unit if odd else 0, negate

    def is_negative(self, x: Number) -> Number:
        """The truth value of ``x < 0``."""
        low, high, _ = self.bounds[x]
        if low >= 0 or high < 0:
            return self.constant(int(high < 0))
        slot, shift, negate = self.numbers[x]
        op = self.ops[slot]
        least, most = (-op.high, -op.low) if negate else (op.low, op.high)
        # All bits but the sign are dropped; what is left is 0 or minus its unit.
        unit = integer_bits(least, most) + op.unit
        sign = self._op(-3 if negate else 3, slot, -1, 0, (-1, 0, unit))
        return self.number(sign, -unit, True)

    def less(self, x: Number, y: Number) -> Number:
        """The truth value of ``x < y``."""
        low_x, high_x, low_y, high_y, _ = aligned(self.bounds[x], self.bounds[y])
        if low_x >= high_y or high_x < low_y:
            return self.constant(int(high_x < low_y))
        return self.is_negative(self.sub(x, y))

    def truth(self, x: Number) -> Number:
        """The truth value of ``x != 0``."""
        low, high, unit = self.bounds[x]
        if (low, high, unit) == (0, 1, 0):
            return x
        if low == high == 0 or low > 0 or high < 0:
            return self.constant(int(low != 0 or high != 0))
        slot = self.numbers[x][0]
        return self.number(self._op(9, slot, -1, 1, (0, 1, 0), delay=1), 0, False)

    def invert(self, x: Number) -> Number:
        """``not x`` of a truth value; of other numbers the inverted bits of the two's complement, ``-x`` less a step."""
        low, high, unit = self.bounds[x]
        if low == high:
            return self.constant(1 - low if (low, unit) in ((0, 0), (1, 0)) else ~low, unit)
        slot, shift, negate = self.numbers[x]
        if (low, high, unit) == (0, 1, 0):
            op = self.ops[slot]
            return self.number(self._op(9, slot, -1, 0, (op.low, op.high, op.unit)), shift, negate)
        result = self._op(-9 if negate else 9, slot, -1, 0, (~high, ~low, unit - shift))
        return self.number(result, shift, False)

    def equal(self, x: Number, y: Number) -> Number:
        """The truth value of ``x == y``."""
        return self.invert(self.truth(self.sub(x, y)))

    def bitwise(self, x: Number, y: Number, operation: int) -> Number:
        """AND (0), OR (1) or XOR (2) of the bits of two's complement numbers."""
        known = self.fixed(x), self.fixed(y)
        if known[0] and known[1]:
            m, _, n, _, unit = aligned(self.bounds[x], self.bounds[y])
            return self.constant((m & n, m | n, m ^ n)[operation], unit)
        for one, other in ((known[0], y), (known[1], x)):
            if one and one[0] == 0:
                return other if operation else self.constant(0)
        if x == y:
            return self.constant(0) if operation == 2 else x
        (a, shift_a, negate_a), (b, shift_b, negate_b) = self.numbers[x], self.numbers[y]
        shift = shift_b - shift_a
        data = operation << 56 | negate_b << 33 | negate_a << 32 | shift & 0xFFFF_FFFF
        low_x, high_x, low_y, high_y, unit = aligned(self.bounds[x], self.bounds[y])
        bits = integer_bits(min(low_x, low_y), max(high_x, high_y))
        low, high = (-1 << bits, (1 << bits) - 1) if min(low_x, low_y) < 0 else (0, (1 << bits) - 1)
        if operation == 0 and max(low_x, low_y) >= 0:
            low, high = 0, min(top for bottom, top in ((low_x, high_x), (low_y, high_y)) if bottom >= 0)
        bounds = (low, high, unit)
        slot = self._op(10, a, b, data, _moved(bounds, -shift_a, False), delay=1)
        return self._result(slot, shift_a, False, bounds)

    # Choices

    def maximum(self, x: Number, y: Number) -> Number:
        """The greater of both."""
        return self._extreme(x, y, True)

    def minimum(self, x: Number, y: Number) -> Number:
        """The lesser of both."""
        return self._extreme(x, y, False)

    def _extreme(self, x: Number, y: Number, greater: bool) -> Number:
        low_x, high_x, low_y, high_y, unit = aligned(self.bounds[x], self.bounds[y])
        if x == y or (low_x >= high_y if greater else high_x <= low_y):
            return x
        if low_y >= high_x if greater else high_y <= low_x:
            return y
        if greater and (low_x == high_x == 0 or low_y == high_y == 0):
            return self.relu(y if low_x == high_x == 0 else x)
        # Both extremes of two numbers ask the same question.
        x, y = min(x, y), max(x, y)
        end = max if greater else min
        bounds = (end(low_x, low_y), end(high_x, high_y), unit)
        difference = self.sub(x, y)
        slot, _, negate = self.numbers[difference]
        # The highest bit of the slot says which is less; it has a sign, since either may be.
        less, other = (y, x) if negate else (x, y)
        return self._choose(slot, other, less, bounds) if greater else self._choose(slot, less, other, bounds)

    def absolute(self, x: Number) -> Number:
        """``|x|``."""
        low, high, unit = self.bounds[x]
        if low >= 0 or high <= 0:
            return x if low >= 0 else self.negate(x)
        slot, shift, _ = self.numbers[x]
        own = self.number(slot, shift, False)
        return self._choose(slot, self.negate(own), own, (0, max(-low, high), unit))

    def lookup(self, x: Number, entries: tuple[int, ...], unit: int) -> Number:
        """The entry for ``x``; there is one for every multiple of the step of its slot, in order."""
        bounds = (min(entries), max(entries), unit)
        if bounds[0] == bounds[1]:
            return self.constant(bounds[0], unit)
        slot = self.numbers[x][0]
        table = self._table(entries, bounds)
        return self.number(self._op(8, slot, -1, table, bounds, delay=1), 0, False)

    def _table(self, entries: tuple[int, ...], bounds: Bounds) -> int:
        """The number of a table."""
        found = self._tables.setdefault((entries, bounds), len(self.tables))
        if found == len(self.tables):
            self.tables.append((entries, bounds))
        return found

    # Together

    def absorb(self, other: Graph) -> None:
        """Takes all numbers of another graph, which then only knows where they are."""
        self.search = self.search.both(other.search)
        slots: list[int] = []
        for op in other.ops:
            a, b, c = (
                slots[slot] if slot >= 0 else -1 for slot in (op.a if op.opcode != -1 else -1, op.b, op.c)
            )
            data = op.data
            if op.opcode == -1:
                a = op.a
            if op.opcode == 8:
                data = self._table(*other.tables[op.data])
            slots.append(self._op(op.opcode, a, b, data, (op.low, op.high, op.unit), c))
        for slot, level in zip(slots, other.levels):
            self.levels[slot] = level
        places = [self.number(slots[slot], shift, negate) for slot, shift, negate in other.numbers]
        other.moved = (self, np.array(places, np.int64))


def new_serial() -> int:
    """Names an input among all."""
    return next(_serial)


def _moved(bounds: Bounds, shift: int, negate: bool) -> Bounds:
    low, high, unit = negated(bounds) if negate else bounds
    return low, high, unit + shift


def _sum(x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    """The sum of two integers times powers of two."""
    low, _, other, _, unit = aligned((x[0], x[0], x[1]), (y[0], y[0], y[1]))
    return low + other, unit
