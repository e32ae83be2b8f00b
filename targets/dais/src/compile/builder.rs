//! Building programs operation by operation, with exact intervals.

use crate::arch::DaisArch;
use crate::isa::Inst;
use crate::program::{InputIndex, Operation, Slot, SlotType};
use crate::time;
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Int, Interval};
use rustc_hash::FxHashMap;

/// Most operations of a program: above any FPGA, and some 400 MiB of memory.
const MAX_OPERATIONS: usize = 1 << 20;

/// Largest power of two an operation may shift by (`specs/dais.md` section 3, rule 3).
const MAX_SHIFT: i32 = 63;

/// A number of the network while it is being compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// Known at compile time.
    Constant(Dyadic),
    /// `(-1 if negate) * slot * 2^shift`; shifting and negating cost nothing until an operation
    /// needs the number.
    Slot {
        /// The slot.
        slot: Slot,
        /// Power of two.
        shift: i32,
        /// Negated.
        negate: bool,
    },
}

impl Wire {
    /// The number 0.
    pub(super) fn zero() -> Wire {
        Wire::Constant(Dyadic::ZERO)
    }

    /// `-self`.
    #[must_use]
    pub(super) fn negated(&self) -> Wire {
        match self {
            Wire::Constant(value) => Wire::Constant(value.neg()),
            Wire::Slot { slot, shift, negate } => {
                Wire::Slot { slot: *slot, shift: *shift, negate: !negate }
            }
        }
    }

    /// `self * 2^by`.
    #[must_use]
    pub(super) fn shifted(&self, by: i32) -> Wire {
        match self {
            Wire::Constant(value) => Wire::Constant(value.mul(&Dyadic::new(Int::ONE, by))),
            Wire::Slot { slot, shift, negate } => {
                Wire::Slot { slot: *slot, shift: shift + by, negate: *negate }
            }
        }
    }
}

/// A program under construction. Equal operations are built once.
pub(super) struct Builder<'a> {
    arch: &'a DaisArch,
    /// Operations so far.
    pub(super) operations: Vec<Operation>,
    intervals: Vec<Interval>,
    known: FxHashMap<(Inst, Interval), Slot>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(arch: &'a DaisArch) -> Self {
        Builder { arch, operations: Vec::new(), intervals: Vec::new(), known: FxHashMap::default() }
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
            Wire::Slot { slot, .. } => self.operations[slot.0 as usize].latency,
        }
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

    /// `a - b`.
    pub(super) fn subtract(&mut self, a: &Wire, b: &Wire) -> Result<Wire> {
        self.add(a, &b.negated())
    }

    fn add_constant(&mut self, wire: &Wire, constant: &Dyadic) -> Result<Wire> {
        let &Wire::Slot { slot, shift, negate } = wire else {
            return Err(Diagnostic::bug("constants were handled"));
        };
        let range = self.range(wire).plus(&Interval::point(constant));
        let constant = if negate { constant.neg() } else { constant.clone() };
        let constant = constant.mul(&Dyadic::new(Int::ONE, -shift));
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
                super::linear::sum(self, &[(wire.clone(), c.clone())], &Dyadic::ZERO)
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

    /// `negative` where `test < 0`, else `otherwise`. The caller knows that the result lies in
    /// `range`.
    pub(super) fn select(
        &mut self,
        test: &Wire,
        negative: &Wire,
        otherwise: &Wire,
        range: Interval,
    ) -> Result<Wire> {
        let tested = self.range(test);
        if tested.low() >= &Int::ZERO {
            return Ok(otherwise.clone());
        }
        if tested.high() < &Int::ZERO || negative == otherwise {
            return Ok(negative.clone());
        }
        let Wire::Slot { slot: condition, .. } = self.without_sign(test)? else {
            return Err(Diagnostic::bug("a constant has one sign"));
        };
        // Only the branch for a clear bit can be negated and shifted.
        let flip = matches!(negative, Wire::Slot { negate: true, .. });
        let (set, clear, range) = match flip {
            true => (negative.negated(), otherwise.negated(), range.negated()),
            false => (negative.clone(), otherwise.clone(), range),
        };
        let (when_set, set_shift) = self.branch(&set)?;
        let (when_clear, clear_shift) = self.branch(&clear)?;
        let negated = matches!(clear, Wire::Slot { negate: true, .. });
        // A zero has the type (0, 0, 0); any shift is right for it, and one aligns it.
        let fraction = |slot: Slot| -self.interval(slot).exponent();
        let base = match (self.interval(when_set).is_zero(), self.interval(when_clear).is_zero()) {
            (true, false) => clear_shift - fraction(when_clear),
            _ => set_shift,
        };
        let clear_shift = match self.interval(when_clear).is_zero() {
            true => base - fraction(when_set),
            false => clear_shift,
        };
        let shift = i32_shift(relative_shift(clear_shift, base)?)?;
        let inst = match negated {
            true => Inst::MuxNegated { condition, when_set, when_clear, shift },
            false => Inst::Mux { condition, when_set, when_clear, shift },
        };
        let wire = self.wire(inst, range, base, false)?;
        Ok(if flip { wire.negated() } else { wire })
    }

    /// Slot and shift of a wire whose sign the caller handles; constants become operations.
    fn branch(&mut self, wire: &Wire) -> Result<(Slot, i32)> {
        match wire {
            &Wire::Slot { slot, shift, .. } => Ok((slot, shift)),
            Wire::Constant(value) => Ok((self.constant(value)?, 0)),
        }
    }

    /// The same number as a wire that is not negated.
    fn without_sign(&mut self, wire: &Wire) -> Result<Wire> {
        match wire {
            Wire::Slot { negate: true, .. } => {
                let range = self.range(wire);
                self.cut(wire, range)
            }
            _ => Ok(wire.clone()),
        }
    }

    /// The larger of two numbers.
    pub(super) fn max(&mut self, a: &Wire, b: &Wire) -> Result<Wire> {
        let (ra, rb) = (self.range(a), self.range(b));
        if ra.min() >= rb.max() || a == b {
            return Ok(a.clone());
        }
        if rb.min() >= ra.max() {
            return Ok(b.clone());
        }
        let both = ra.union(&rb);
        let low = ra.min().max(rb.min()).in_units(both.exponent()).unwrap_or_default();
        let range = Interval::new(low, both.high().clone(), both.exponent());
        let difference = self.subtract(a, b)?;
        self.select(&difference, b, a, range)
    }

    /// The smaller of two numbers.
    pub(super) fn min(&mut self, a: &Wire, b: &Wire) -> Result<Wire> {
        Ok(self.max(&a.negated(), &b.negated())?.negated())
    }

    /// A slot that holds a constant.
    pub(super) fn constant(&mut self, value: &Dyadic) -> Result<Slot> {
        let data =
            i64::try_from(value.mantissa()).map_err(|_| too_wide("a constant", "63 bits"))?;
        self.push(Inst::Constant { value: data }, Interval::point(value))
    }

    /// A new wire `(-1 if negate) * inst * 2^shift` with the given range of real values.
    fn wire(&mut self, inst: Inst, range: Interval, shift: i32, negate: bool) -> Result<Wire> {
        if range.low() == range.high() {
            return Ok(Wire::Constant(range.min()));
        }
        let range = if negate { range.negated() } else { range };
        let slot = self.push(inst, range.shifted(-shift))?;
        Ok(Wire::Slot { slot, shift, negate })
    }

    fn push(&mut self, inst: Inst, interval: Interval) -> Result<Slot> {
        let key = (inst, interval);
        if let Some(&slot) = self.known.get(&key) {
            return Ok(slot);
        }
        let (inst, interval) = key.clone();
        let width = interval.kif().width();
        if width > self.arch.max_width {
            return Err(too_wide(&format!("a slot of {width} bits"), &format!("{} bits", self.arch.max_width))
                .help("quantise the layer's operands to fewer bits, or choose an architecture with a larger max_width"));
        }
        if self.operations.len() >= MAX_OPERATIONS {
            return Err(Diagnostic::unsupported(
                "Q1201",
                format!("the unrolled program has more than {MAX_OPERATIONS} operations"),
            ));
        }
        let slot = Slot(u32::try_from(self.operations.len()).unwrap_or(u32::MAX));
        let operands: Vec<_> = inst.operands().collect();
        let ready =
            operands.iter().map(|o| self.operations[o.0 as usize].latency).fold(0.0, f64::max);
        let intervals: Vec<&Interval> = operands.iter().map(|o| self.interval(*o)).collect();
        let (delay, cost) = time::operation(&inst, &interval, &intervals, self.arch);
        let slot_type = SlotType::of_interval(&interval);
        self.operations.push(Operation { inst, slot_type, latency: ready + delay, cost });
        self.intervals.push(interval);
        self.known.insert(key, slot);
        Ok(slot)
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

fn i32_shift(shift: i64) -> Result<i32> {
    i32::try_from(shift).map_err(|_| Diagnostic::bug("shifts were checked"))
}

fn too_wide(what: &str, limit: &str) -> Diagnostic {
    Diagnostic::unsupported("Q1202", format!("the program needs {what}, the limit is {limit}"))
}
