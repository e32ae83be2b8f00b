//! Numbers as wires: integers in two's complement or without a sign, on a grid.

use super::netlist::{Builder, Wires};
use quincunx_num::{Int, Kif, bit_length};

/// An integer that stands for itself times `2^-fraction`. Without bits it is 0.
#[derive(Clone, Debug)]
pub(super) struct Number {
    pub(super) wires: Wires,
    /// The top bit is a sign.
    pub(super) signed: bool,
    pub(super) fraction: i64,
}

/// What bits of a result are wanted: the low `width` bits of the integer in units of `2^-fraction`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) width: u32,
    pub(super) fraction: i64,
}

impl From<Kif> for Wanted {
    fn from(kif: Kif) -> Wanted {
        Wanted { width: kif.width(), fraction: kif.fraction.into() }
    }
}

impl Number {
    /// A known number.
    pub(super) fn constant(value: &Int, fraction: i64) -> Number {
        let signed = value < &Int::ZERO;
        let magnitude = if signed { !value } else { value.clone() };
        let width = bit_length(&magnitude) + u32::from(signed);
        Number { wires: Wires::constant(value, width), signed, fraction }
    }

    pub(super) fn width(&self) -> u32 {
        self.wires.width()
    }

    /// The same number on another grid, rounded down; only wires.
    pub(super) fn rescaled(&self, fraction: i64) -> Number {
        let by = fraction - self.fraction;
        let bits = u32::try_from(by.unsigned_abs()).unwrap_or(u32::MAX);
        let wires = match (by >= 0, self.width()) {
            (_, 0) => Wires::none(),
            (true, _) => Wires::zeros(bits).below(&self.wires),
            (false, width) if bits < width => self.wires.from(bits),
            // Everything is dropped but the sign.
            (false, _) if self.signed => self.wires.top(),
            (false, _) => Wires::none(),
        };
        Number { wires, signed: self.signed, fraction }
    }

    /// The low bits on another grid, which is what quantising means; only wires.
    pub(super) fn quantised(&self, to: Wanted) -> Wires {
        self.rescaled(to.fraction).wires.fitted(to.width, self.signed)
    }

    /// Bits of a type with a sign that holds it.
    fn signed_width(&self) -> u32 {
        self.width() + u32::from(!self.signed)
    }
}

/// `x + y` or `x - y`. The adder is no wider than the wanted bits or the whole result, and begins at
/// the lowest bit that both operands have.
pub(super) fn sum(
    builder: &mut Builder,
    x: &Number,
    y: &Number,
    subtract: bool,
    to: Wanted,
) -> Wires {
    let fraction = x.fraction.max(y.fraction);
    let (x, y) = (x.rescaled(fraction), y.rescaled(fraction));
    let signed = subtract || x.signed || y.signed;
    let whole = match signed {
        true => x.signed_width().max(y.signed_width()) + 1,
        false => x.width().max(y.width()) + 1,
    };
    let dropped = u32::try_from(fraction - to.fraction).unwrap_or(0);
    let width = whole.min(to.width.saturating_add(dropped));
    let (a, b) = (x.wires.fitted(width, x.signed), y.wires.fitted(width, y.signed));
    let wires = adder(builder, &a, &b, subtract);
    Number { wires, signed, fraction }.quantised(to)
}

/// `x + y` or `x - y` with all of its bits.
pub(super) fn exact_sum(builder: &mut Builder, x: &Number, y: &Number, subtract: bool) -> Number {
    let fraction = x.fraction.max(y.fraction);
    let (a, b) = (x.rescaled(fraction), y.rescaled(fraction));
    let signed = subtract || a.signed || b.signed;
    let width = match signed {
        true => a.signed_width().max(b.signed_width()) + 1,
        false => a.width().max(b.width()) + 1,
    };
    let wires = sum(builder, &a, &b, subtract, Wanted { width, fraction });
    Number { wires, signed, fraction }
}

/// The low bits of the sum or difference of equally wide operands.
fn adder(builder: &mut Builder, a: &Wires, b: &Wires, subtract: bool) -> Wires {
    let width = a.width();
    let (free_a, free_b) = (a.trailing_zeros(), b.trailing_zeros());
    // Below the lowest bit of an operand the bits of the other one pass, except that zero minus
    // something is not that something.
    let (free, passed) = match subtract {
        false if free_a > free_b => (free_a, b),
        _ => (free_b, a),
    };
    let low = passed.slice(0, free);
    let (a, b) = (a.slice(free, width - free), b.slice(free, width - free));
    let high = if subtract { builder.subtract(a, b) } else { builder.add(a, b) };
    low.below(&high)
}

/// `-x`.
pub(super) fn negation(builder: &mut Builder, x: &Number, to: Wanted) -> Wires {
    let zero = Number { wires: Wires::none(), signed: false, fraction: x.fraction };
    sum(builder, &zero, x, true, to)
}

/// `-x` with all of its bits.
pub(super) fn negated(builder: &mut Builder, x: &Number) -> Number {
    let to = Wanted { width: x.width() + 1, fraction: x.fraction };
    let wires = if x.width() == 0 { Wires::none() } else { negation(builder, x, to) };
    Number { wires, signed: true, fraction: x.fraction }
}

/// `x * y`.
pub(super) fn product(builder: &mut Builder, x: &Number, y: &Number, to: Wanted) -> Wires {
    let signed = x.signed || y.signed;
    // A factor without a sign gets one that is 0 when the other has one.
    let factor = |x: &Number| match signed {
        true => x.wires.fitted(x.signed_width(), x.signed),
        false => x.wires.clone(),
    };
    let (a, b) = (factor(x), factor(y));
    let fraction = x.fraction + y.fraction;
    if a.width() == 0 || b.width() == 0 {
        return Wires::zeros(to.width);
    }
    let wires = builder.multiply(a, b, signed);
    Number { wires, signed, fraction }.quantised(to)
}
