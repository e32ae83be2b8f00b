//! Numbers of the network: exact functions of binary fractions.
//!
//! The machine holds binary fractions. A number of the network need not be one: its grid may have
//! any scale, it may be the mean of three. So a number is a wire and what is to be made of it:
//!
//! * nothing: the number is the wire;
//! * `unit * wire + offset` with exact rational `unit` and `offset`. Sums and products with
//!   constants change unit and offset and cost nothing by themselves;
//! * a function of the wire ([`Expr`]), which may be one that fixed point does not have.
//!
//! A quantiser makes a binary fraction of each ([`super::quantiser`]), with the exact result for
//! every value that the wire can take. Without one, units and exact functions are carried out by
//! [`super::exact`].

use super::builder::Builder;
use super::expr::Expr;
use super::linear::MIN_UNIT_BITS;
use super::sums::multiple_of;
use super::wire::Wire;
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Int, Ratio, bit_length};
use std::rc::Rc;

/// A number of the network.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Number {
    /// The binary fraction it is made of.
    pub(super) wire: Wire,
    /// What is made of it; `None` for the fraction itself.
    pub(super) form: Option<Rc<Form>>,
}

/// What a number makes of its wire.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// `unit * wire + offset`.
    Affine(Affine),
    /// A function of the wire, which is a slot as it is.
    Function(Rc<Expr>),
}

/// `unit * x + offset`.
///
/// Invariant: `unit` is positive, and numerator and denominator are odd.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Affine {
    /// Factor.
    pub(super) unit: Ratio,
    /// Addend.
    pub(super) offset: Ratio,
}

impl Affine {
    /// `x`.
    pub(super) const ONE: Affine = Affine { unit: Ratio::ONE, offset: Ratio::ZERO };
}

impl From<Wire> for Number {
    fn from(wire: Wire) -> Self {
        Number { wire, form: None }
    }
}

/// Longest offset, in steps of the wire, that is added to it at once. Longer ones wait for a
/// quantiser, and so do those that are not a whole number of steps.
const MAX_ADDEND_BITS: i64 = 40;

/// Most bits by which an offset that is added at once may lengthen the fraction.
pub(super) const MAX_BITS_BELOW: i32 = 4;

impl Number {
    /// The number 0.
    pub(super) fn zero() -> Number {
        Wire::zero().into()
    }

    /// A known number.
    pub(super) fn constant(builder: &mut Builder<'_>, value: &Ratio) -> Number {
        match Dyadic::from_ratio(value) {
            Some(value) => Wire::Constant(value).into(),
            None => {
                let affine = Affine { unit: Ratio::ONE, offset: value.clone() };
                Number { wire: Wire::zero(), form: Some(builder.memory.affine(affine)) }
            }
        }
    }

    /// The value of a known number.
    pub(super) fn known(&self) -> Option<Ratio> {
        let Wire::Constant(value) = &self.wire else { return None };
        match self.form.as_deref() {
            None => Some(value.to_ratio()),
            Some(Form::Affine(Affine { unit, offset })) => Some(unit * value.to_ratio() + offset),
            Some(Form::Function(function)) => Some(function.at(&value.to_ratio()).ok()?.value),
        }
    }

    /// Unit and offset; `None` for a function.
    pub(super) fn affine(&self) -> Option<Affine> {
        match self.form.as_deref() {
            None => Some(Affine::ONE),
            Some(Form::Affine(affine)) => Some(affine.clone()),
            Some(Form::Function(_)) => None,
        }
    }

    /// Unit and offset of a number whose function was carried out.
    pub(super) fn carried_out(&self) -> Result<Affine> {
        self.affine().ok_or_else(|| Diagnostic::bug("a function was not carried out"))
    }

    /// True when the number is its wire, or that times a unit.
    pub(super) fn is_scaled(&self) -> bool {
        self.affine().is_some_and(|affine| affine.offset.is_zero())
    }

    /// `factor * wire + offset` with any factor but 0.
    ///
    /// # Errors
    /// When adding the offset to the wire does not fit the machine.
    pub(super) fn scaled(
        builder: &mut Builder<'_>,
        wire: &Wire,
        factor: &Ratio,
        offset: &Ratio,
    ) -> Result<Number> {
        if let Wire::Constant(value) = wire {
            let value = factor * value.to_ratio() + offset;
            return Ok(Number::constant(builder, &value));
        }
        let (negative, exponent, unit) = split(factor);
        let wire = wire.shifted(exponent);
        let wire = if negative { wire.negated() } else { wire };
        let (wire, unit) = match short_factor(&unit) {
            Some(factor) => (multiple_of(builder, &wire, &factor)?, Ratio::ONE),
            None => (wire, unit),
        };
        let addend = offset / &unit;
        let short = Dyadic::from_ratio(&addend).filter(|addend| {
            let step = builder.range(&wire).exponent();
            // Without a unit a few bits below the step are no harm.
            is_short_on(addend, step)
                || unit == Ratio::ONE && addend.exponent() >= step.saturating_sub(MAX_BITS_BELOW)
        });
        let (wire, offset) = match short {
            Some(addend) => (builder.add(&wire, &Wire::Constant(addend))?, Ratio::ZERO),
            None => (wire, offset.clone()),
        };
        if unit == Ratio::ONE && offset.is_zero() {
            return Ok(wire.into());
        }
        Ok(Number { wire, form: Some(builder.memory.affine(Affine { unit, offset })) })
    }

    /// `factor * self + offset`.
    ///
    /// # Errors
    /// As [`Number::scaled`]; a function cannot be scaled so.
    pub(super) fn rescaled(
        &self,
        builder: &mut Builder<'_>,
        factor: &Ratio,
        offset: &Ratio,
    ) -> Result<Number> {
        if factor.is_zero() {
            return Ok(Number::constant(builder, offset));
        }
        let number = super::exact::affine(builder, self)?;
        let affine = number.carried_out()?;
        let offset = factor * affine.offset + offset;
        Number::scaled(builder, &number.wire, &(factor * affine.unit), &offset)
    }

    /// The same number with its offset added, if it has no unit: for what cannot wait.
    ///
    /// # Errors
    /// When the sum does not fit the machine.
    pub(super) fn settled(&self, builder: &mut Builder<'_>) -> Result<Number> {
        let offset = match self.form.as_deref() {
            Some(Form::Affine(Affine { unit, offset })) if *unit == Ratio::ONE => {
                Dyadic::from_ratio(offset)
            }
            _ => None,
        };
        match offset {
            Some(offset) => Ok(builder.add(&self.wire, &Wire::Constant(offset))?.into()),
            None => Ok(self.clone()),
        }
    }

    /// A number that is the same function of another wire.
    #[must_use]
    pub(super) fn with_wire(&self, wire: Wire) -> Number {
        Number { wire, form: self.form.clone() }
    }

    /// `-self`.
    ///
    /// # Errors
    /// As [`Number::rescaled`].
    pub(super) fn negated(&self, builder: &mut Builder<'_>) -> Result<Number> {
        match self.is_scaled() {
            true => Ok(self.with_wire(self.wire.negated())),
            false => self.rescaled(builder, &Ratio::from(-1), &Ratio::ZERO),
        }
    }
}

/// A unit that is a short whole number: multiplying is cheaper than working with it.
fn short_factor(unit: &Ratio) -> Option<Dyadic> {
    let bits = bit_length(unit.numerator());
    let short = unit.is_int() && (2..MIN_UNIT_BITS).contains(&bits);
    short.then(|| Dyadic::new(unit.numerator().clone(), 0))
}

/// True when a number lies on a grid and is not much larger than its step.
fn is_short_on(value: &Dyadic, step: i32) -> bool {
    let magnitude = value.clone().max(value.neg());
    let above = i64::from(value.exponent()) - i64::from(step);
    value.is_zero()
        || (0..=MAX_ADDEND_BITS).contains(&above)
            && i64::from(bit_length(magnitude.mantissa())) + above <= MAX_ADDEND_BITS
}

/// Sign, power of two, and the odd rest of a fraction that is not 0.
pub(super) fn split(value: &Ratio) -> (bool, i32, Ratio) {
    let numerator = Dyadic::new(value.numerator().clone(), 0);
    let denominator = Dyadic::new(value.denominator().clone().into(), 0);
    let negative = numerator.mantissa() < &Int::ZERO;
    let magnitude = if negative { numerator.neg() } else { numerator };
    let odd =
        Ratio::from_parts_signed(magnitude.mantissa().clone(), denominator.mantissa().clone());
    (negative, magnitude.exponent() - denominator.exponent(), odd)
}

/// The greatest fraction of which both are whole multiples; both are positive or 0.
pub(super) fn common_unit(a: &Ratio, b: &Ratio) -> Ratio {
    if a.is_zero() || b.is_zero() {
        return if a.is_zero() { b.clone() } else { a.clone() };
    }
    let (p, q): (Int, Int) = (a.denominator().clone().into(), b.denominator().clone().into());
    let numerator = gcd(a.numerator() * &q, b.numerator() * &p);
    Ratio::from_parts_signed(numerator, p * q)
}

/// The greatest common divisor of two integers.
pub(super) fn gcd(mut a: Int, mut b: Int) -> Int {
    while b != Int::ZERO {
        (a, b) = (b.clone(), a % b);
    }
    if a < Int::ZERO { -a } else { a }
}
