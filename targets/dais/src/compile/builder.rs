//! Building programs operation by operation, with exact intervals.

use super::cmvm;
use super::known::{Known, key_of};
use super::wire::Wire;
use crate::arch::DaisArch;
use crate::isa::Inst;
use crate::program::{InputIndex, LookupTable, Operation, Slot, SlotType, TableIndex};
use crate::time;
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Int, Interval};
use rustc_hash::FxHashMap;

/// Most operations of a program: above any FPGA, and some 1.5 GiB of memory.
pub(crate) const MAX_OPERATIONS: u64 = 1 << 23;

/// Largest power of two an operation may shift by (`da4ml` in `docs/bibliography.md`).
const MAX_SHIFT: i32 = 63;

/// A program under construction. Equal operations are built once.
pub(super) struct Builder<'a> {
    pub(super) arch: &'a DaisArch,
    /// Operations so far; none while measuring.
    pub(super) operations: Vec<Operation>,
    /// Tables so far.
    pub(super) tables: Vec<LookupTable>,
    intervals: Vec<Interval>,
    known: Known,
    known_tables: FxHashMap<Vec<i32>, TableIndex>,
    /// How products are searched.
    pub(super) settings: cmvm::Settings,
    /// Only the ranges of results are computed.
    pub(super) measuring: bool,
    /// How many operations there may be.
    pub(super) limit: u64,
    /// What was worked out once and holds for equal operands elsewhere.
    pub(super) memory: super::memory::Memory,
}

impl<'a> Builder<'a> {
    pub(super) fn new(arch: &'a DaisArch, settings: cmvm::Settings) -> Self {
        Builder {
            arch,
            settings,
            operations: Vec::new(),
            tables: Vec::new(),
            intervals: Vec::new(),
            known: Known::default(),
            known_tables: FxHashMap::default(),
            measuring: false,
            limit: MAX_OPERATIONS,
            memory: super::memory::Memory::default(),
        }
    }

    /// A builder that finds out what can be built, and with which ranges, without building it.
    pub(super) fn measuring(arch: &'a DaisArch) -> Self {
        // Nothing is searched.
        let settings = cmvm::Settings::of(cmvm::Effort::Fast, None);
        Builder { measuring: true, ..Builder::new(arch, settings) }
    }

    /// Every value the wire can take.
    pub(super) fn range(&self, wire: &Wire) -> Interval {
        match wire {
            Wire::Constant(value) => Interval::point(value),
            Wire::Slot { slot, shift, negate } => {
                let range = self.interval(*slot).shifted(*shift);
                if *negate { range.negated() } else { range }
            }
        }
    }

    /// Declared interval of a slot.
    pub(super) fn interval(&self, slot: Slot) -> &Interval {
        &self.intervals[slot.0 as usize]
    }

    /// Latency at which a wire is stable.
    pub(super) fn latency(&self, wire: &Wire) -> f64 {
        match wire {
            Wire::Constant(_) => 0.0,
            Wire::Slot { slot, .. } => self.latency_of(*slot),
        }
    }

    /// Latency of a slot; 0 while measuring.
    pub(super) fn latency_of(&self, slot: Slot) -> f64 {
        self.operations.get(slot.0 as usize).map_or(0.0, |operation| operation.latency)
    }

    /// An input on the grid of `range`.
    pub(super) fn input(&mut self, source: InputIndex, range: Interval) -> Result<Wire> {
        self.wire(Inst::Input { source }, range, 0, false)
    }

    /// `a + b`.
    pub(super) fn add(&mut self, a: &Wire, b: &Wire) -> Result<Wire> {
        let range = self.range(a).plus(&self.range(b));
        self.add_within(a, b, range)
    }

    /// `a + b`, known to lie in `range`, which may be tighter than the sum of the ranges.
    pub(super) fn add_within(&mut self, a: &Wire, b: &Wire, range: Interval) -> Result<Wire> {
        let (a, b) = match (a, b) {
            (Wire::Constant(a), Wire::Constant(b)) => return Ok(Wire::Constant(a.add(b))),
            (Wire::Constant(c), wire) | (wire, Wire::Constant(c)) if c.is_zero() => {
                return Ok(wire.clone());
            }
            (Wire::Constant(c), wire) | (wire, Wire::Constant(c)) => {
                return self.add_constant(wire, c);
            }
            slots => slots,
        };
        let (
            &Wire::Slot { slot: x, shift: x_shift, negate: x_negate },
            &Wire::Slot { slot: y, shift: y_shift, negate: y_negate },
        ) = (a, b)
        else {
            return Err(Diagnostic::bug("constants were handled"));
        };
        if relative_shift(x_shift, y_shift).is_err() {
            let (a, b) = (self.rebased(a)?, self.rebased(b)?);
            return self.add_within(&a, &b, range);
        }
        // The left operand of an operation is neither shifted nor negated.
        match (x_negate, y_negate) {
            (false, false) => {
                let shift = relative_shift(y_shift, x_shift)?;
                self.wire(Inst::Add { a: x, b: y, shift }, range, x_shift, false)
            }
            (false, true) => {
                let shift = relative_shift(y_shift, x_shift)?;
                self.wire(Inst::Sub { a: x, b: y, shift }, range, x_shift, false)
            }
            (true, false) => {
                let shift = relative_shift(x_shift, y_shift)?;
                self.wire(Inst::Sub { a: y, b: x, shift }, range, y_shift, false)
            }
            (true, true) => {
                let shift = relative_shift(y_shift, x_shift)?;
                self.wire(Inst::Add { a: x, b: y, shift }, range, x_shift, true)
            }
        }
    }

    /// The same number in a slot of its own scale, for operations that cannot shift as far as the
    /// wire does: added to 0 in steps that they can.
    pub(super) fn rebased(&mut self, wire: &Wire) -> Result<Wire> {
        let &Wire::Slot { mut slot, mut shift, negate } = wire else { return Ok(wire.clone()) };
        let zero = self.push(Inst::Constant { value: 0 }, Interval::zero())?;
        while shift != 0 {
            let by = shift.clamp(-MAX_SHIFT, MAX_SHIFT);
            let range = self.interval(slot).shifted(by);
            slot = self.push(Inst::Add { a: zero, b: slot, shift: by.into() }, range)?;
            shift -= by;
        }
        Ok(Wire::Slot { slot, shift, negate })
    }

    /// `a - b`.
    pub(super) fn subtract(&mut self, a: &Wire, b: &Wire) -> Result<Wire> {
        self.add(a, &b.negated())
    }

    fn add_constant(&mut self, wire: &Wire, constant: &Dyadic) -> Result<Wire> {
        let &Wire::Slot { slot, shift, negate } = wire else {
            return Err(Diagnostic::bug("constants were handled"));
        };
        let constant = if negate { constant.neg() } else { constant.clone() };
        let mut constant = constant.mul(&Dyadic::new(Int::ONE, -shift));
        let mut slot = slot;
        // Two constants are one.
        if let Some(Operation { inst: Inst::AddConstant { x, value }, .. }) =
            self.operations.get(slot.0 as usize)
        {
            let before = Dyadic::new(Int::from(*value), self.interval(slot).exponent());
            (slot, constant) = (*x, constant.add(&before));
            if constant.is_zero() {
                return Ok(Wire::Slot { slot, shift, negate });
            }
        }
        let range = match self.interval(slot).plus(&Interval::point(&constant)).shifted(shift) {
            exact if negate => exact.negated(),
            exact => exact,
        };
        let unit = self.interval(slot).exponent().min(constant.exponent());
        let value = constant.in_units(unit).and_then(|v| i64::try_from(v).ok());
        let value = value.ok_or_else(|| too_wide("a constant", "63 bits of the result's step"))?;
        self.wire(Inst::AddConstant { x: slot, value }, range, shift, negate)
    }

    /// `a * b`.
    pub(super) fn multiply(&mut self, a: &Wire, b: &Wire) -> Result<Wire> {
        match (a, b) {
            (Wire::Constant(a), Wire::Constant(b)) => Ok(Wire::Constant(a.mul(b))),
            (Wire::Constant(c), wire) | (wire, Wire::Constant(c)) => {
                super::sums::multiple_of(self, wire, c)
            }
            (
                &Wire::Slot { slot: x, shift: x_shift, negate: x_negate },
                &Wire::Slot { slot: y, shift: y_shift, negate: y_negate },
            ) => {
                let range = if a == b {
                    square(&self.range(a))
                } else {
                    self.range(a).times(&self.range(b))
                };
                let inst = Inst::Multiply { a: x, b: y };
                self.wire(inst, range, x_shift + y_shift, x_negate != y_negate)
            }
        }
    }

    /// `max(x, 0)`.
    pub(super) fn relu(&mut self, x: &Wire) -> Result<Wire> {
        let range = self.range(x);
        if range.low() >= &Int::ZERO {
            return Ok(x.clone());
        }
        let &Wire::Slot { slot, shift, negate } = x else {
            return Ok(Wire::zero());
        };
        let inst = if negate { Inst::ReluNegated { x: slot } } else { Inst::Relu { x: slot } };
        let range = Interval::new(Int::ZERO, range.high().clone().max(Int::ZERO), range.exponent());
        self.wire(inst, range, shift, false)
    }

    /// The bits of `x` that the type of `range` has: truncated at its step, wrapped at its width.
    /// The caller knows that the result lies in `range`.
    pub(super) fn cut(&mut self, x: &Wire, range: Interval) -> Result<Wire> {
        match x {
            Wire::Constant(value) => {
                let kif = range.kif();
                let units = quincunx_num::shift_floor(
                    value.mantissa(),
                    i64::from(value.exponent()) + i64::from(kif.fraction),
                );
                Ok(Wire::Constant(Dyadic::new(kif.wrap(&units), -kif.fraction)))
            }
            &Wire::Slot { slot, shift, negate } => {
                let inst = if negate {
                    Inst::QuantiseNegated { x: slot }
                } else {
                    Inst::Quantise { x: slot }
                };
                self.wire(inst, range, shift, false)
            }
        }
    }

    /// A slot that holds a constant.
    pub(super) fn constant(&mut self, value: &Dyadic) -> Result<Slot> {
        let data =
            i64::try_from(value.mantissa()).map_err(|_| too_wide("a constant", "63 bits"))?;
        self.push(Inst::Constant { value: data }, Interval::point(value))
    }

    /// A new wire `(-1 if negate) * inst * 2^shift` with the given range of real values.
    pub(super) fn wire(
        &mut self,
        inst: Inst,
        range: Interval,
        shift: i32,
        negate: bool,
    ) -> Result<Wire> {
        if range.low() == range.high() {
            return Ok(Wire::Constant(range.min()));
        }
        let range = if negate { range.negated() } else { range };
        let slot = self.push(inst, range.shifted(-shift))?;
        Ok(Wire::Slot { slot, shift, negate })
    }

    /// A table, once.
    pub(super) fn table(&mut self, values: Vec<i32>) -> TableIndex {
        if let Some(&known) = self.known_tables.get(&values) {
            return known;
        }
        let index = TableIndex::of(self.tables.len());
        self.known_tables.insert(values.clone(), index);
        let table = LookupTable { values, range: None, operand_width: None, hash: None };
        self.tables.push(table);
        index
    }

    /// The entry of a table that belongs to `x`, in units of `2^exponent`; entry 0 belongs to the
    /// lowest value of the slot.
    pub(super) fn lookup(&mut self, x: Slot, values: Vec<i32>, exponent: i32) -> Result<Wire> {
        let (low, high) = (values.iter().min(), values.iter().max());
        let (Some(&low), Some(&high)) = (low, high) else {
            return Err(Diagnostic::bug("a table has an entry"));
        };
        let range = Interval::new(Int::from(low), Int::from(high), exponent);
        let operand = self.interval(x);
        let pad = operand.low() - operand.kif().range().0;
        let pad = i32::try_from(&pad).map_err(|_| Diagnostic::bug("tables are short"))?;
        let table = self.table(values);
        self.wire(Inst::Lookup { x, table, pad }, range, 0, false)
    }

    /// Adds an operation unless it is there.
    pub(super) fn push(&mut self, inst: Inst, interval: Interval) -> Result<Slot> {
        if self.measuring {
            self.check_width(&interval)?;
            self.check_limit()?;
            return Ok(self.next_slot(interval));
        }
        if let Some(slot) = self.find(&inst, &interval) {
            return Ok(slot);
        }
        self.check_width(&interval)?;
        let zero = Interval::zero();
        let mut operands = [&zero; 3];
        let mut count = 0;
        for slot in inst.operands() {
            operands[count] = &self.intervals[slot.0 as usize];
            count += 1;
        }
        let (delay, cost) = time::operation(&inst, &interval, &operands[..count], self.arch);
        let slot_type = slot_type(&interval);
        self.append(Operation { inst, slot_type, latency: delay, cost }, interval)
    }

    /// Adds an operation as it is elsewhere, on other operands of the same ranges. Slots from `new`
    /// on are read by the same template only, none of whose operations are equal, so that an
    /// operation that reads one is not there yet.
    pub(super) fn repeat(
        &mut self,
        like: &Operation,
        inst: Inst,
        range: &Interval,
        new: Slot,
    ) -> Result<Slot> {
        let is_new = inst.operands().any(|slot| slot >= new);
        let known = if is_new { None } else { self.find(&inst, range) };
        match known {
            Some(slot) => Ok(slot),
            None => self.append(Operation { inst, ..like.clone() }, range.clone()),
        }
    }

    fn find(&self, inst: &Inst, interval: &Interval) -> Option<Slot> {
        let equal = |slot: u32| {
            let slot = slot as usize;
            self.operations[slot].inst == *inst && self.intervals[slot] == *interval
        };
        self.known.find(key_of(inst), equal).map(Slot)
    }

    /// Adds an operation that is not there. Its latency is that of the operation alone.
    fn append(&mut self, mut operation: Operation, interval: Interval) -> Result<Slot> {
        self.check_limit()?;
        let operands = operation.inst.operands();
        let ready = operands.map(|o| self.operations[o.0 as usize].latency).fold(0.0, f64::max);
        operation.latency += ready;
        let slot = self.next_slot(interval);
        self.operations.push(operation);
        let operations = &self.operations;
        self.known.insert(slot.0, |slot| key_of(&operations[slot as usize].inst));
        Ok(slot)
    }

    /// Latency of an operation itself.
    pub(super) fn delay_of(&self, slot: Slot) -> f64 {
        let Some(operation) = self.operations.get(slot.0 as usize) else { return 0.0 };
        let operands = operation.inst.operands();
        operation.latency - operands.map(|o| self.latency_of(o)).fold(0.0, f64::max)
    }

    /// The slot of the next operation.
    pub(super) fn end(&self) -> Slot {
        Slot::of(self.intervals.len())
    }

    /// A slot whose operation is not looked at any further, with its range.
    pub(super) fn next_slot(&mut self, interval: Interval) -> Slot {
        let slot = self.end();
        self.intervals.push(interval);
        slot
    }

    /// How many operations there are, built or measured.
    pub(super) fn count(&self) -> u64 {
        self.intervals.len() as u64
    }

    fn check_limit(&self) -> Result<()> {
        let limit = self.limit;
        if self.count() < limit {
            return Ok(());
        }
        let message = format!("the unrolled program has more than {limit} operations");
        Err(Diagnostic::unsupported("Q1201", message))
    }

    fn check_width(&self, interval: &Interval) -> Result<()> {
        let width = interval.kif().width();
        if width <= self.arch.max_width {
            return Ok(());
        }
        Err(too_wide(&format!("a slot of {width} bits"), &format!("{} bits", self.arch.max_width))
            .help("quantise the layer's operands to fewer bits, or choose an architecture with a larger max_width"))
    }
}

/// The interval form, without detours where the bounds are short.
fn slot_type(interval: &Interval) -> SlotType {
    let short = |value: &Int| i64::try_from(value).ok().filter(|v| v.unsigned_abs() < 1 << 53);
    let exponent = interval.exponent();
    match (short(interval.low()), short(interval.high())) {
        (Some(low), Some(high)) if (-900..900).contains(&exponent) => {
            let step = f64::from_bits(
                u64::try_from(exponent + 1023).expect("an exponent of floats") << 52,
            );
            SlotType::Interval { min: low as f64 * step, max: high as f64 * step, step }
        }
        _ => SlotType::of_interval(interval),
    }
}

fn square(range: &Interval) -> Interval {
    let corners = range.times(range);
    let low = if range.low() < &Int::ZERO && range.high() > &Int::ZERO {
        Int::ZERO
    } else {
        (range.low() * range.low()).min(range.high() * range.high())
    };
    Interval::new(low, corners.high().clone(), corners.exponent())
}

/// `shift - base`, if operations and outputs can shift that far.
pub(super) fn relative_shift(shift: i32, base: i32) -> Result<i64> {
    let relative = i64::from(shift) - i64::from(base);
    if relative.abs() > i64::from(MAX_SHIFT) {
        return Err(too_wide(&format!("a shift by {relative}"), &format!("{MAX_SHIFT} bits")));
    }
    Ok(relative)
}

pub(super) fn i32_shift(shift: i64) -> Result<i32> {
    i32::try_from(shift).map_err(|_| Diagnostic::bug("shifts were checked"))
}

pub(super) fn too_wide(what: &str, limit: &str) -> Diagnostic {
    Diagnostic::unsupported("Q1202", format!("the program needs {what}, the limit is {limit}"))
}
