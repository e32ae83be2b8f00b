//! Choosing between numbers: by a sign, by a bit, by size.

use super::builder::{Builder, i32_shift, relative_shift};
use super::wire::Wire;
use crate::isa::{BinaryBits, Dialect, Inst, UnaryBits};
use crate::program::Slot;
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Int, Interval, Kif, Rounding, round_shift};

impl Builder<'_> {
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
        let Some(condition) = self.condition(test)? else {
            return Err(Diagnostic::bug("a constant has one sign"));
        };
        // Only the branch for a clear bit can be negated and shifted.
        let flip = matches!(negative, Wire::Slot { negate: true, .. });
        let (set, clear, range) = match flip {
            true => (negative.negated(), otherwise.negated(), range.negated()),
            false => (negative.clone(), otherwise.clone(), range),
        };
        let far = |a: &Wire, b: &Wire| match (a, b) {
            (Wire::Slot { shift: a, .. }, Wire::Slot { shift: b, .. }) => {
                relative_shift(*a, *b).is_err()
            }
            _ => false,
        };
        let (set, clear) = match far(&set, &clear) {
            true => (self.rebased(&set)?, self.rebased(&clear)?),
            false => (set, clear),
        };
        let (when_set, set_shift) = self.branch(&set, &clear)?;
        let (when_clear, clear_shift) = self.branch(&clear, &set)?;
        // The result has the step of the finer branch, whatever is known of its numbers.
        let steps = [(when_set, set_shift), (when_clear, clear_shift)];
        let steps = steps.iter().filter(|(slot, _)| !self.interval(*slot).is_zero());
        let finest = steps.map(|&(slot, shift)| self.interval(slot).exponent() + shift).min();
        let finest = finest.unwrap_or(range.exponent());
        let range = in_steps(range, finest);
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

    /// Slot and shift of a wire whose sign the caller handles; constants become operations, in the
    /// scale of the other branch where operations cannot shift as far as that does.
    fn branch(&mut self, wire: &Wire, other: &Wire) -> Result<(Slot, i32)> {
        let value = match wire {
            &Wire::Slot { slot, shift, .. } => return Ok((slot, shift)),
            Wire::Constant(value) => value,
        };
        match *other {
            Wire::Slot { shift, .. } if relative_shift(shift, 0).is_err() => {
                let value = value.mul(&Dyadic::new(Int::ONE, shift.saturating_neg()));
                Ok((self.constant(&value)?, shift))
            }
            _ => Ok((self.constant(value)?, 0)),
        }
    }

    /// A slot whose top bit is set where `test < 0`.
    fn condition(&mut self, test: &Wire) -> Result<Option<Slot>> {
        // The negative of one bit is negative where the bit is set.
        if let &Wire::Slot { slot, negate: true, .. } = test
            && is_bit(self.interval(slot).kif())
        {
            return Ok(Some(slot));
        }
        match self.without_sign(test)? {
            Wire::Slot { slot, .. } => Ok(Some(slot)),
            Wire::Constant(_) => Ok(None),
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
        let is_zero = |wire: &Wire| matches!(wire, Wire::Constant(value) if value.is_zero());
        if is_zero(a) || is_zero(b) {
            return self.relu(if is_zero(a) { b } else { a });
        }
        let both = ra.union(&rb);
        let low = ra.min().max(rb.min()).in_units(both.exponent());
        let low = low.ok_or_else(|| Diagnostic::bug("a union is finer than both ranges"))?;
        let range = Interval::new(low, both.high().clone(), both.exponent());
        let difference = self.subtract(a, b)?;
        self.select(&difference, b, a, range)
    }

    /// The magnitude of a number.
    pub(super) fn abs(&mut self, x: &Wire) -> Result<Wire> {
        let (range, negative) = (self.range(x), x.negated());
        if range.low() >= &Int::ZERO {
            return Ok(x.clone());
        }
        if range.high() <= &Int::ZERO {
            return Ok(negative);
        }
        let most = range.high().clone().max(-range.low());
        let most = Interval::new(Int::ZERO, most, range.exponent());
        // The sign of a slot costs nothing, that of its negative a negation.
        match x {
            Wire::Slot { negate: true, .. } => self.select(&negative, x, &negative, most),
            _ => self.select(x, &negative, x, most),
        }
    }

    /// The smaller of two numbers.
    pub(super) fn min(&mut self, a: &Wire, b: &Wire) -> Result<Wire> {
        Ok(self.max(&a.negated(), &b.negated())?.negated())
    }

    /// 1 where `x < 0`, else 0.
    pub(super) fn is_negative(&mut self, x: &Wire) -> Result<Wire> {
        let range = self.range(x);
        if range.low() >= &Int::ZERO {
            return Ok(Wire::zero());
        }
        if range.high() < &Int::ZERO {
            return Ok(Wire::one());
        }
        // Seen as unsigned, the sign bit is the bit above the integer bits.
        let top = range.kif().integer;
        let bit = self.cut(x, Interval::new(Int::ZERO, Int::ONE, top))?;
        Ok(bit.shifted(-top))
    }

    /// 1 where `x` is not 0, else 0.
    pub(super) fn is_not_zero(&mut self, x: &Wire) -> Result<Wire> {
        let range = self.range(x);
        match x {
            Wire::Constant(value) => Ok(if value.is_zero() { Wire::zero() } else { Wire::one() }),
            _ if range.low() > &Int::ZERO || range.high() < &Int::ZERO => Ok(Wire::one()),
            // No multiple of the slot but 0 is 0.
            &Wire::Slot { slot, .. } if self.arch.dialect >= Dialect::D1 => {
                let inst = Inst::Bits { x: slot, op: UnaryBits::Any };
                self.wire(inst, Interval::new(Int::ZERO, Int::ONE, 0), 0, false)
            }
            Wire::Slot { .. } => {
                let (below, above) = (self.is_negative(x)?, self.is_negative(&x.negated())?);
                self.max(&below, &above)
            }
        }
    }

    /// `yes` where a truth value (0 or 1) is 1, else `no`.
    pub(super) fn choose(&mut self, truth: &Wire, yes: &Wire, no: &Wire) -> Result<Wire> {
        if let Wire::Constant(value) = truth {
            return Ok(if value.is_zero() { no.clone() } else { yes.clone() });
        }
        // 0 or -1 decides by its sign.
        let range = self.range(yes).union(&self.range(no));
        let decides = truth.negated();
        self.select(&decides, yes, no, range)
    }

    /// A bit operation on two truth values.
    pub(super) fn combine_truths(&mut self, op: BinaryBits, a: &Wire, b: &Wire) -> Result<Wire> {
        let truth = Interval::new(Int::ZERO, Int::ONE, 0);
        if let (&Wire::Slot { slot: x, .. }, &Wire::Slot { slot: y, .. }) = (a, b)
            && self.arch.dialect >= Dialect::D1
            && [x, y].iter().all(|&slot| is_bit(self.interval(slot).kif()))
            && let at = self.interval(x).exponent()
            && let Ok(shift) = relative_shift(at, self.interval(y).exponent())
        {
            // Bits that stand for 1 wherever they are.
            let shift = i32_shift(shift)?;
            let inst = Inst::Bitwise { a: x, b: y, shift, negate_a: false, negate_b: false, op };
            return self.wire(inst, truth, -at, false);
        }
        match op {
            BinaryBits::And => self.min(a, b),
            BinaryBits::Or => self.max(a, b),
            BinaryBits::Xor => {
                let difference = self.subtract(a, b)?;
                self.abs(&difference)
            }
        }
    }

    /// 1 minus a truth value.
    pub(super) fn not(&mut self, truth: &Wire) -> Result<Wire> {
        self.subtract(&Wire::Constant(Dyadic::new(Int::ONE, 0)), truth)
    }
}

fn is_bit(kif: Kif) -> bool {
    !kif.signed && kif.width() == 1
}

/// The multiples of `2^step` in a range.
fn in_steps(range: Interval, step: i32) -> Interval {
    if let Some(range) = range.with_exponent(step) {
        return range;
    }
    let drop = i64::from(step) - i64::from(range.exponent());
    let low = round_shift(range.low(), drop, Rounding::Ceil);
    Interval::new(low, round_shift(range.high(), drop, Rounding::Floor), step)
}
