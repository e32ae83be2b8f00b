//! Fixed-point types and expressions of C++. Facts: `hls-types` (`docs/bibliography.md`).

use super::Flavour;
use quincunx_num::Kif;

/// A fixed-point type as the libraries count: `integer` includes the sign, and there is a bit at
/// least. Bits beyond either end of the point are possible, as in types of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fixed {
    pub(super) signed: bool,
    pub(super) width: u32,
    pub(super) integer: i64,
}

impl Fixed {
    /// The type of a slot; one bit, which is 0, for a type without bits.
    pub(super) fn of(kif: Kif) -> Fixed {
        match kif.width() {
            0 => Fixed { signed: false, width: 1, integer: 1 },
            width => {
                let integer = i64::from(kif.integer) + i64::from(kif.signed);
                Fixed { signed: kif.signed, width, integer }
            }
        }
    }

    /// A type from the places of its ends.
    pub(super) fn between(signed: bool, integer: i64, fraction: i64) -> Fixed {
        let width = (integer + fraction).clamp(1, u32::MAX.into());
        Fixed { signed, width: u32::try_from(width).unwrap_or(u32::MAX), integer }
    }

    /// Bits behind the point.
    pub(super) fn fraction(self) -> i64 {
        i64::from(self.width) - self.integer
    }

    /// A type with a sign that holds the same numbers.
    pub(super) fn with_sign(self) -> Fixed {
        let more = u32::from(!self.signed);
        let integer = self.integer + i64::from(more);
        Fixed { signed: true, width: self.width + more, integer }
    }

    /// The type of the bits alone, without a sign.
    pub(super) fn without_sign(self) -> Fixed {
        Fixed { signed: false, ..self }
    }

    /// A type that holds all values of both and a carry.
    pub(super) fn sum(self, other: Fixed) -> Fixed {
        let signed = self.signed || other.signed;
        let integer = self.integer.max(other.integer) + 2;
        Fixed::between(signed, integer, self.fraction().max(other.fraction()))
    }
}

impl Flavour {
    /// The type in which a number is kept. Intel's `ac_fixed` has no signed type of one bit.
    pub(super) fn kept(self, fixed: Fixed) -> Fixed {
        match self == Flavour::OneApi && fixed.signed && fixed.width == 1 {
            true => Fixed { width: 2, integer: fixed.integer + 1, ..fixed },
            false => fixed,
        }
    }

    /// What a type is called.
    pub(super) fn type_name(self, fixed: Fixed) -> String {
        let Fixed { signed, width, integer } = self.kept(fixed);
        match (self, signed) {
            (Flavour::Vitis, true) => format!("ap_fixed<{width}, {integer}>"),
            (Flavour::Vitis, false) => format!("ap_ufixed<{width}, {integer}>"),
            _ => format!("ac_fixed<{width}, {integer}, {signed}>"),
        }
    }

    /// A number of a type of ours whose bits may be brought to that type: `text` as initialiser.
    /// Where the type is kept in one more bit, its one bit is taken first, then the sign.
    pub(super) fn converted(self, fixed: Fixed, text: &str) -> String {
        match self.kept(fixed) == fixed {
            true => text.to_owned(),
            false => format!("-{}({text})", self.type_name(fixed.without_sign())),
        }
    }

    /// The same as an expression of the type.
    pub(super) fn cast(self, fixed: Fixed, text: &str) -> String {
        format!("{}({})", self.type_name(fixed), self.converted(fixed, text))
    }

    /// The constant 0.
    pub(super) fn zero(self) -> Value {
        self.constant(0, 0)
    }

    /// `code * 2^-fraction`.
    pub(super) fn constant(self, code: i64, fraction: i64) -> Value {
        let signed = code < 0;
        let magnitude = if signed { !code } else { code };
        let width = (i64::BITS - magnitude.leading_zeros() + u32::from(signed)).max(1);
        let fixed = self.kept(Fixed { signed, width, integer: width.into() });
        let text = format!("{}({})", self.type_name(fixed), literal(code));
        let value = Value { text, fixed };
        if code == 0 { value } else { value.shifted(-fraction) }
    }
}

/// An integer constant; the lowest of 64 bits has no literal of its own.
pub(super) fn literal(code: i64) -> String {
    match code {
        i64::MIN => format!("({}LL - 1)", i64::MIN + 1),
        _ if i32::try_from(code).is_ok() => code.to_string(),
        _ => format!("{code}LL"),
    }
}

/// An expression and a type that holds it.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) text: String,
    pub(super) fixed: Fixed,
}

impl Value {
    /// The number times `2^by`: the point moves, the bits stay.
    pub(super) fn shifted(&self, by: i64) -> Value {
        let Value { text, fixed } = self;
        let text = if by == 0 { text.clone() } else { format!("shl<{by}>({text})") };
        Value { text, fixed: Fixed { integer: fixed.integer + by, ..*fixed } }
    }

    /// The opposite number.
    pub(super) fn negated(&self) -> Value {
        let fixed = self.fixed.with_sign();
        let fixed = Fixed { width: fixed.width + 1, integer: fixed.integer + 1, ..fixed };
        Value { text: format!("-{}", self.text), fixed }
    }

    /// The highest bit, as a condition.
    pub(super) fn top(&self) -> String {
        format!("{}[{}]", self.text, self.fixed.width - 1)
    }
}
