//! What every slot can hold: intervals from the inputs on, exact for each operation.
//!
//! The interval of an input is the declared one, which is a promise of whoever drives it; what
//! quantises has the type's interval unless nothing is cut off. Where an interval leaves the type of
//! a result that must not overflow, operands that depend on each other may be the reason: then the
//! result is written as a linear form of slots that are not sums, and its interval is taken.

#![deny(clippy::wildcard_enum_match_arm)]

use super::linear;
use crate::isa::{BinaryBits, Inst, UnaryBits};
use crate::program::{Operation, Places, Program, Slot, SlotType, places};
use quincunx_num::{Int, Kif, bit_length, power_of_two, shift_floor};

/// Lowest and highest integer of a slot, in units of the step of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) low: Int,
    pub(crate) high: Int,
}

/// Reads this many entries of a table at most; of longer parts the whole table's extremes count.
const MAX_ENTRIES: usize = 1 << 12;

/// Steps of [`linear`] in any program, and more for every operation, so that time grows with the
/// program; beyond, plain intervals have to do.
const STEPS: usize = 1 << 17;
const STEPS_PER_OPERATION: usize = 64;

impl Range {
    /// Every value of a type.
    pub(crate) fn of_kif(kif: Kif) -> Range {
        let (low, high) = kif.range();
        Range { low, high }
    }

    fn point(value: Int) -> Range {
        Range { low: value.clone(), high: value }
    }

    /// The range between two bounds, in either order.
    fn between(a: Int, b: Int) -> Range {
        if a <= b { Range { low: a, high: b } } else { Range { low: b, high: a } }
    }

    pub(crate) fn negated(&self) -> Range {
        Range { low: -&self.high, high: -&self.low }
    }

    /// Every value shifted, rounded down.
    pub(crate) fn shifted(&self, shift: Places) -> Range {
        Range { low: shift_floor(&self.low, shift.0), high: shift_floor(&self.high, shift.0) }
    }

    fn plus(&self, other: &Range) -> Range {
        Range { low: &self.low + &other.low, high: &self.high + &other.high }
    }

    fn union(self, other: Range) -> Range {
        Range { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// What both hold; `self` where that is nothing, which happens to results that overflow.
    pub(super) fn meet(self, other: &Range) -> Range {
        let both = Range {
            low: self.low.clone().max(other.low.clone()),
            high: self.high.clone().min(other.high.clone()),
        };
        if both.low <= both.high { both } else { self }
    }

    pub(super) fn is_within(&self, other: &Range) -> bool {
        self.low >= other.low && self.high <= other.high
    }

    /// True when a type holds all of it.
    pub(crate) fn fits(&self, kif: Kif) -> bool {
        kif.contains(&self.low) && kif.contains(&self.high)
    }

    /// The range after the bits above the type are dropped.
    fn wrapped(self, kif: Kif) -> Range {
        if self.fits(kif) { self } else { Range::of_kif(kif) }
    }
}

/// What inputs or outputs hold, in units of `2^-scale`.
pub(crate) type Given = [(Range, i32)];

/// How much is done to find narrow ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    /// Linear forms of results that leave their types.
    Doubtful,
    /// Linear forms of all results that leave their declared intervals, or have none.
    Every,
    /// As `Every`, and quantised results lie in their declared intervals, which tools may know for
    /// reasons that intervals do not show.
    Trusting,
}

/// The ranges of a program without errors.
pub(crate) struct Ranges {
    /// What each slot holds, never more than its type does.
    pub(crate) slots: Vec<Range>,
    /// Results that may leave their types, with what they would be.
    pub(crate) overflows: Vec<(usize, Range)>,
}

impl Ranges {
    /// The ranges of the slots; `inputs` are what the inputs hold, in units of `2^-scale`, where
    /// that is known better than from the declared intervals. Linear forms are looked at where
    /// they decide something.
    pub(crate) fn of(program: &Program, inputs: Option<&Given>) -> Ranges {
        let quick = Ranges::with(program, inputs, Care::Doubtful);
        match quick.overflows.is_empty() {
            true => quick,
            false => Ranges::with(program, inputs, Care::Every),
        }
    }

    /// The ranges where inputs may be anything their types hold.
    pub(crate) fn of_any_input(program: &Program) -> Ranges {
        let mut program = program.clone();
        for operation in &mut program.operations {
            if matches!(operation.inst, Inst::Input { .. }) {
                operation.slot_type = SlotType::Kif(operation.slot_type.kif());
            }
        }
        Ranges::of(&program, None)
    }

    /// The ranges with as much care as asked for.
    pub(crate) fn with(program: &Program, inputs: Option<&Given>, care: Care) -> Ranges {
        let types = program.operations.iter().map(|o| o.slot_type.kif()).collect();
        let slots = Vec::with_capacity(program.operations.len());
        let steps = program.operations.len().saturating_mul(STEPS_PER_OPERATION);
        let steps = STEPS.saturating_add(steps);
        let mut analysis = Analysis { program, inputs, types, slots, steps };
        let mut overflows = Vec::new();
        for (index, operation) in program.operations.iter().enumerate() {
            let to = analysis.types[index];
            let mut range = analysis.result(operation, to);
            if care == Care::Trusting && operation.inst.facts().quantises {
                range = range.meet(&declared(operation, to));
            }
            if care != Care::Doubtful || !range.fits(to) {
                let goal = analysis.goal(operation, to, care);
                range = analysis.tightened(index, range, goal.as_ref());
            }
            if !range.fits(to) {
                overflows.push((index, range.clone()));
                range = Range::of_kif(to).meet(&range);
            }
            analysis.slots.push(range);
        }
        Ranges { slots: analysis.slots, overflows }
    }

    /// What the outputs hold: integers in units of `2^-scale`, with that scale.
    pub(crate) fn outputs(&self, program: &Program) -> Vec<(Range, i32)> {
        let output = |output: &crate::program::Output| {
            let Some(Slot(slot)) = output.source else { return (Range::point(Int::ZERO), 0) };
            let range = &self.slots[slot as usize];
            let fraction = program.operations[slot as usize].slot_type.kif().fraction;
            let range = if output.negate { range.negated() } else { range.clone() };
            (range, fraction.saturating_sub(output.shift))
        };
        program.outputs.iter().map(output).collect()
    }
}

/// The types and ranges so far.
struct Analysis<'a> {
    program: &'a Program,
    inputs: Option<&'a Given>,
    types: Vec<Kif>,
    slots: Vec<Range>,
    /// Steps left for linear forms.
    steps: usize,
}

impl Analysis<'_> {
    /// Everything an operation can give, its operands being what they are.
    fn result(&self, operation: &Operation, to: Kif) -> Range {
        let own = places(to.fraction);
        match operation.inst {
            Inst::Input { source } => self.input(operation, source.0 as usize, to),
            Inst::Add { .. } | Inst::Sub { .. } | Inst::Sum { .. } => self.sum(operation.inst, own),
            Inst::Relu { x } => relu(self.of(x)).shifted(own - self.fraction(x)).wrapped(to),
            Inst::ReluNegated { x } => {
                relu(&self.of(x).negated()).shifted(own - self.fraction(x)).wrapped(to)
            }
            Inst::Quantise { x } => self.of(x).shifted(own - self.fraction(x)).wrapped(to),
            Inst::QuantiseNegated { x } => {
                self.of(x).negated().shifted(own - self.fraction(x)).wrapped(to)
            }
            Inst::QuantiseShifted { x, shift } => {
                self.of(x).shifted(own - self.fraction(x) + places(shift)).wrapped(to)
            }
            Inst::Negate { x } => self.of(x).negated().shifted(own - self.fraction(x)),
            Inst::AddConstant { x, value } => {
                let constant = Range::point(Int::from(value));
                self.of(x).shifted(own - self.fraction(x)).plus(&constant)
            }
            Inst::AddScaled { x, value, scale: bits } => {
                let (from, scale) = (self.fraction(x), places(bits));
                let finest = from.max(scale);
                let constant = Range::point(Int::from(value)).shifted(finest - scale);
                self.of(x).shifted(finest - from).plus(&constant).shifted(own - finest)
            }
            Inst::Constant { value } => Range::point(Int::from(value)),
            Inst::Mux { condition, when_set, when_clear, shift } => {
                self.mux([condition, when_set, when_clear], shift, false, to)
            }
            Inst::MuxNegated { condition, when_set, when_clear, shift } => {
                self.mux([condition, when_set, when_clear], shift, true, to)
            }
            Inst::Multiply { a, b } => product(self.of(a), self.of(b), a == b)
                .shifted(own - self.fraction(a) - self.fraction(b)),
            Inst::Lookup { x, table, pad } => self.lookup(x, table.0 as usize, pad),
            Inst::Bits { x, op } => unary_bits(self.of(x), self.kif(x), op, to),
            Inst::BitsNegated { x, op } => unary_bits(&self.of(x).negated(), self.kif(x), op, to),
            Inst::Bitwise { a, b, shift, negate_a, negate_b, op } => {
                let (fa, fb) = (self.fraction(a), self.fraction(b) - places(shift));
                let finest = fa.max(fb);
                let sign = |range: Range, negate| if negate { range.negated() } else { range };
                let a = sign(self.of(a).shifted(finest - fa), negate_a);
                let b = sign(self.of(b).shifted(finest - fb), negate_b);
                binary_bits(&a, &b, op)
            }
        }
    }

    fn of(&self, slot: Slot) -> &Range {
        &self.slots[slot.0 as usize]
    }

    fn kif(&self, slot: Slot) -> Kif {
        self.types[slot.0 as usize]
    }

    fn fraction(&self, slot: Slot) -> Places {
        places(self.kif(slot).fraction)
    }

    /// The declared interval of an input, or what the stage before gives if nothing is cut off.
    /// Nobody drives a register so that it keeps its interval: it may hold all that its type does.
    fn input(&self, operation: &Operation, source: usize, to: Kif) -> Range {
        if source >= self.program.ends().0 {
            return Range::of_kif(to);
        }
        let given = self.inputs.and_then(|inputs| inputs.get(source));
        if let Some((range, fraction)) = given {
            let shift = self.program.input_shifts.get(source).copied().unwrap_or(0);
            let bits = places(to.fraction) - places(*fraction) + places(shift);
            return range.shifted(bits).wrapped(to);
        }
        declared(operation, to)
    }

    fn sum(&self, inst: Inst, own: Places) -> Range {
        let fraction_of = |slot, shift: i64| self.fraction(slot) - places(shift);
        let finest = inst.terms().map(|(slot, shift, _)| fraction_of(slot, shift)).max();
        let finest = finest.unwrap_or_default();
        let terms = inst.terms().map(|(slot, shift, minus)| {
            let term = self.of(slot).shifted(finest - fraction_of(slot, shift));
            if minus { term.negated() } else { term }
        });
        terms.fold(Range::point(Int::ZERO), |total, term| total.plus(&term)).shifted(own - finest)
    }

    fn mux(&self, [condition, set, clear]: [Slot; 3], shift: i32, minus: bool, to: Kif) -> Range {
        let own = places(to.fraction);
        let (decides, kif) = (condition, self.kif(condition));
        // What a comparison says about its operands; an unsigned condition is not a comparison.
        let given = |slot, is_set| match kif.signed {
            true => self.forms().given(slot, decides, is_set),
            false => self.of(slot).clone(),
        };
        let when_set = || given(set, true).shifted(own - self.fraction(set)).wrapped(to);
        let when_clear = || {
            let range = given(clear, false);
            let range = if minus { range.negated() } else { range };
            range.shifted(own - self.fraction(clear) + places(shift)).wrapped(to)
        };
        let condition = self.of(condition);
        // The top bit is set from this value on: below 0, or in the upper half.
        let half = power_of_two(kif.width().saturating_sub(1));
        let (never, always) = match (kif.width(), kif.signed) {
            (0, _) => (true, false),
            (_, true) => (condition.low >= Int::ZERO, condition.high < Int::ZERO),
            (_, false) => (condition.high < half, condition.low >= half),
        };
        match (never, always) {
            (true, _) => when_clear(),
            (_, true) => when_set(),
            _ => when_set().union(when_clear()),
        }
    }

    fn lookup(&self, x: Slot, table: usize, pad: i32) -> Range {
        let values = &self.program.tables[table].values;
        let offset = crate::program::lookup_offset(self.kif(x), pad);
        let end = values.len().saturating_sub(1);
        // Entries below 0 and beyond the end are not read.
        let entry = |bound: &Int| {
            let entry = bound + &offset;
            if entry < Int::ZERO { 0 } else { usize::try_from(&entry).map_or(end, |e| e.min(end)) }
        };
        let part = values.get(entry(&self.of(x).low)..=entry(&self.of(x).high));
        let part = part.filter(|part| part.len() <= MAX_ENTRIES).unwrap_or(values);
        let low = part.iter().min().copied().unwrap_or(0);
        let high = part.iter().max().copied().unwrap_or(0);
        Range::between(low.into(), high.into())
    }

    /// A range that is narrow enough; `None` where only the narrowest is.
    fn goal(&self, operation: &Operation, to: Kif, care: Care) -> Option<Range> {
        match operation.slot_type {
            SlotType::Interval { .. } if care != Care::Doubtful => Some(declared(operation, to)),
            SlotType::Kif(_) if care != Care::Doubtful => None,
            SlotType::Kif(_) | SlotType::Interval { .. } => Some(Range::of_kif(to)),
        }
    }

    /// The range of a sum as a linear form, where that is narrower.
    fn tightened(&mut self, index: usize, range: Range, goal: Option<&Range>) -> Range {
        if goal.is_some_and(|goal| range.is_within(goal)) {
            return range;
        }
        let mut steps = self.steps;
        let form = self.forms().range(index, goal, &mut steps);
        self.steps = steps;
        match form {
            Some(form) => range.meet(&form),
            None => range,
        }
    }

    fn forms(&self) -> linear::Forms<'_> {
        linear::Forms {
            operations: &self.program.operations,
            types: &self.types,
            ranges: &self.slots,
        }
    }
}

/// The declared interval of a result in units of its step.
fn declared(operation: &Operation, to: Kif) -> Range {
    let interval = operation.slot_type.interval();
    let aligned = interval.and_then(|interval| interval.with_exponent(to.exponent()));
    aligned.map_or_else(
        || Range::of_kif(to),
        |interval| Range { low: interval.low().clone(), high: interval.high().clone() },
    )
}

fn relu(x: &Range) -> Range {
    Range { low: x.low.clone().max(Int::ZERO), high: x.high.clone().max(Int::ZERO) }
}

fn product(a: &Range, b: &Range, square: bool) -> Range {
    let corners = [&a.low * &b.low, &a.low * &b.high, &a.high * &b.low, &a.high * &b.high];
    let low = corners.iter().min().cloned().expect("four corners");
    let high = corners.iter().max().cloned().expect("four corners");
    if !square {
        return Range { low, high };
    }
    let crosses_zero = a.low <= Int::ZERO && a.high >= Int::ZERO;
    let [low_square, _, _, high_square] = corners;
    let low = if crosses_zero { Int::ZERO } else { low_square.min(high_square) };
    Range { low, high }
}

fn unary_bits(x: &Range, from: Kif, op: UnaryBits, to: Kif) -> Range {
    match op {
        UnaryBits::Not if to.signed => Range { low: !&x.high, high: !&x.low },
        UnaryBits::Not => {
            let ones = power_of_two(from.width()) - Int::ONE;
            if x.low >= Int::ZERO && x.high <= ones {
                return Range { low: &ones - &x.high, high: &ones - &x.low };
            }
            Range { low: Int::ZERO, high: ones }
        }
        UnaryBits::Any | UnaryBits::All => Range { low: Int::ZERO, high: Int::ONE },
    }
}

/// In two's complement no operation of bits needs more of them than its operands do.
fn binary_bits(a: &Range, b: &Range, op: BinaryBits) -> Range {
    let magnitude = |value: &Int| if value < &Int::ZERO { !value } else { value.clone() };
    let bits = [&a.low, &a.high, &b.low, &b.high].map(|bound| bit_length(&magnitude(bound)));
    let top = power_of_two(bits.into_iter().max().expect("four bounds"));
    let (zero, ones) = (Int::ZERO, &top - Int::ONE);
    let (a_positive, b_positive) = (a.low >= zero, b.low >= zero);
    match (op, a_positive, b_positive) {
        (BinaryBits::And, true, true) => {
            Range { low: zero, high: a.high.clone().min(b.high.clone()) }
        }
        (BinaryBits::And, true, false) => Range { low: zero, high: a.high.clone() },
        (BinaryBits::And, false, true) => Range { low: zero, high: b.high.clone() },
        (BinaryBits::Or, true, true) => Range { low: a.low.clone().max(b.low.clone()), high: ones },
        (BinaryBits::Xor, true, true) => Range { low: zero, high: ones },
        _ => Range { low: -top, high: ones },
    }
}
