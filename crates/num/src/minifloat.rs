//! Floats of at most 32 bits: [`Minifloat`].
//!
//! A format is a sign bit, `EXP` exponent bits, `MAN` mantissa bits and a rule for the codes that
//! are not finite numbers ([`Specials`]). Facts: IEEE 754-2019; OCP 8-bit floating point 1.0 and
//! OCP microscaling formats 1.0; the FNUZ forms as ONNX states them.
//!
//! Decoding is exact. Encoding rounds once, to nearest, ties to even, in integer arithmetic.
//!
//! NaN is canonical: every NaN becomes the one code [`Minifloat::NAN`], and every NaN code decodes
//! to the positive quiet NaN with no payload. Payloads and signs of NaN are not kept, because
//! floating-point arithmetic does not promise to carry them.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

mod sealed {
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub enum Rule {
        Ieee,
        FiniteNan,
        Finite,
        Fnuz,
    }

    pub trait Sealed {
        const RULE: Rule;
    }
}
use sealed::{Rule, Sealed};

/// Which codes of a [`Minifloat`] are not finite numbers.
pub trait Specials: Sealed + Copy + Eq + Hash {}

macro_rules! specials {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {}

        impl Sealed for $name {
            const RULE: Rule = Rule::$name;
        }

        impl Specials for $name {}
    )*};
}

specials! {
    /// As in IEEE 754: the highest exponent holds the infinities and NaN.
    Ieee
    /// No infinity; NaN is the code whose exponent and mantissa are all ones ("FN").
    FiniteNan
    /// Neither infinity nor NaN.
    Finite
    /// No infinity and no negative zero, whose code is NaN; the bias is one higher ("FNUZ").
    Fnuz
}

/// What becomes of a number above the largest finite one of a format. A number that rounds down to
/// the largest finite one is not above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatOverflow {
    /// Infinity; NaN in formats that have no infinity (OCP "non-saturating").
    Infinity,
    /// The largest finite number, for infinities too (OCP and ONNX "saturating").
    Saturate,
}

/// The code of a float with a sign bit, `EXP` exponent bits and `MAN` mantissa bits, from the
/// highest bit down.
///
/// Invariant: bits above the format's width are zero.
///
/// Equality is equality of codes: `+0` and `-0` differ and NaN equals itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Minifloat<const EXP: u32, const MAN: u32, S> {
    bits: u32,
    specials: PhantomData<S>,
}

/// IEEE binary16.
pub type F16 = Minifloat<5, 10, Ieee>;
/// The upper half of an f32.
pub type Bf16 = Minifloat<8, 7, Ieee>;
/// The upper 19 bits of an f32. Machines store it as an f32, which is [`Minifloat::to_f32`].
pub type Tf32 = Minifloat<8, 10, Ieee>;
/// OCP 8-bit float with 2 mantissa bits.
pub type E5M2 = Minifloat<5, 2, Ieee>;
/// OCP 8-bit float with 3 mantissa bits (`float8_e4m3fn`).
pub type E4M3 = Minifloat<4, 3, FiniteNan>;
/// `float8_e5m2fnuz`.
pub type E5M2Fnuz = Minifloat<5, 2, Fnuz>;
/// `float8_e4m3fnuz`.
pub type E4M3Fnuz = Minifloat<4, 3, Fnuz>;
/// OCP 6-bit float with 2 mantissa bits.
pub type E3M2 = Minifloat<3, 2, Finite>;
/// OCP 6-bit float with 3 mantissa bits.
pub type E2M3 = Minifloat<2, 3, Finite>;
/// OCP 4-bit float.
pub type E2M1 = Minifloat<2, 1, Finite>;

/// The scale that an E8M0 code stands for, `2^(code - 127)`; NaN for 255.
pub const fn e8m0_to_f64(code: u8) -> f64 {
    match code {
        255 => CANONICAL_NAN,
        _ => f64::from_bits((code as u64 + 1023 - 127) << 52),
    }
}

/// Positive, quiet, no payload. The bits of `f64::NAN` are not promised, so they are spelt out.
const CANONICAL_NAN: f64 = f64::from_bits(0x7ff8 << 48);
const CANONICAL_NAN_F32: f32 = f32::from_bits(0x7fc0 << 16);

impl<const EXP: u32, const MAN: u32, S: Specials> Minifloat<EXP, MAN, S> {
    /// Bits of a code.
    pub const WIDTH: u32 = {
        assert!(EXP >= 2 && EXP <= 8, "2 to 8 exponent bits");
        assert!(MAN >= 1 && MAN <= 23, "1 to 23 mantissa bits");
        1 + EXP + MAN
    };

    /// The NaN that every NaN becomes: the sign clear and the highest mantissa bit set where there
    /// is a choice. `None` in formats without NaN.
    pub const NAN: Option<Self> = match S::RULE {
        Rule::Ieee => Some(Self::new(Self::TOP | 1 << (MAN - 1))),
        Rule::FiniteNan => Some(Self::new(Self::MAGNITUDE)),
        Rule::Finite => None,
        Rule::Fnuz => Some(Self::new(Self::SIGN)),
    };

    /// Positive infinity. `None` in formats without it.
    pub const INFINITY: Option<Self> = match S::RULE {
        Rule::Ieee => Some(Self::new(Self::TOP)),
        _ => None,
    };

    /// The largest finite number.
    pub const MAX: Self = Self::new(match S::RULE {
        Rule::Ieee => Self::TOP - 1,
        Rule::FiniteNan => Self::MAGNITUDE - 1,
        Rule::Finite | Rule::Fnuz => Self::MAGNITUDE,
    });

    const SIGN: u32 = 1 << (Self::WIDTH - 1);
    /// Exponent and mantissa bits.
    const MAGNITUDE: u32 = Self::SIGN - 1;
    /// The highest exponent with mantissa 0.
    const TOP: u32 = Self::MAGNITUDE >> MAN << MAN;
    /// Exponent of the smallest normal number. Subnormal numbers have the same step.
    const MIN_EXPONENT: i32 = {
        let bias = (1 << (EXP - 1)) - if matches!(S::RULE, Rule::Fnuz) { 0 } else { 1 };
        1 - bias
    };

    const fn new(bits: u32) -> Self {
        Minifloat { bits, specials: PhantomData }
    }

    /// The number with this code; bits above the format's width are dropped.
    pub const fn from_bits(bits: u32) -> Self {
        Self::new(bits & (Self::SIGN | Self::MAGNITUDE))
    }

    /// The code.
    pub const fn to_bits(self) -> u32 {
        self.bits
    }

    /// True for a NaN code.
    pub const fn is_nan(self) -> bool {
        let magnitude = self.bits & Self::MAGNITUDE;
        match S::RULE {
            Rule::Ieee => magnitude > Self::TOP,
            Rule::FiniteNan => magnitude == Self::MAGNITUDE,
            Rule::Finite => false,
            Rule::Fnuz => self.bits == Self::SIGN,
        }
    }

    /// True for an infinity.
    pub const fn is_infinite(self) -> bool {
        matches!(S::RULE, Rule::Ieee) && self.bits & Self::MAGNITUDE == Self::TOP
    }

    /// The value, exactly; NaN is canonical.
    pub const fn to_f64(self) -> f64 {
        if self.is_nan() {
            return CANONICAL_NAN;
        }
        let sign = if self.bits & Self::SIGN == 0 { 1.0 } else { -1.0 };
        if self.is_infinite() {
            return sign * f64::INFINITY;
        }
        let magnitude = self.bits & Self::MAGNITUDE;
        let (exponent, mantissa) = (magnitude >> MAN, magnitude & ((1 << MAN) - 1));
        // A number is a whole number of steps; both factors are normal in f64, so nothing rounds.
        let (steps, exponent) = match exponent {
            0 => (mantissa, Self::MIN_EXPONENT),
            _ => (mantissa | 1 << MAN, Self::MIN_EXPONENT + exponent as i32 - 1),
        };
        sign * steps as f64 * power_of_two(exponent - MAN as i32)
    }

    /// The value, exactly; NaN is canonical. Every format here is a subset of f32.
    pub const fn to_f32(self) -> f32 {
        if self.is_nan() { CANONICAL_NAN_F32 } else { self.to_f64() as f32 }
    }

    /// The nearest number of the format, ties to even.
    ///
    /// `None` when the result would be a NaN (because `value` is one, or above the range with
    /// [`FloatOverflow::Infinity`] in a format without infinity) and the format has no NaN.
    pub const fn from_f64(value: f64, overflow: FloatOverflow) -> Option<Self> {
        if value.is_nan() {
            return Self::NAN;
        }
        let magnitude = match Self::round(value.to_bits() & !(1 << 63)) {
            Some(magnitude) => Self::new(magnitude),
            None => match (overflow, Self::INFINITY) {
                (FloatOverflow::Saturate, _) => Self::MAX,
                (FloatOverflow::Infinity, Some(infinity)) => infinity,
                (FloatOverflow::Infinity, None) => return Self::NAN,
            },
        };
        Some(if value.is_sign_negative() { magnitude.negated() } else { magnitude })
    }

    /// As [`Minifloat::from_f64`]: widening to f64 is exact, so the rounding is still a single one.
    pub const fn from_f32(value: f32, overflow: FloatOverflow) -> Option<Self> {
        // NaN is looked for first, since the cast need not keep it canonical.
        if value.is_nan() { Self::NAN } else { Self::from_f64(value as f64, overflow) }
    }

    /// The code of a number without sign, given as the bits of an f64; `None` above the range.
    const fn round(bits: u64) -> Option<u32> {
        // Subnormal numbers of f64 count as 2^-1022: both are far below half a step.
        let exponent = (bits >> 52) as i32 - 1023;
        let significand = if bits == 0 { 0 } else { bits & ((1 << 52) - 1) | 1 << 52 };
        // The last place that is kept: MAN bits below the leading one, or the subnormal step.
        let below = if exponent < Self::MIN_EXPONENT { Self::MIN_EXPONENT - exponent } else { 0 };
        let drop = 52 - MAN + if below < 11 + MAN as i32 { below as u32 } else { 11 + MAN };
        let kept = round_half_even(significand, drop);
        // `kept` holds the leading one, which is 1 in the exponent field; a carry lands there too.
        let field = if below == 0 { (exponent - Self::MIN_EXPONENT) as u64 } else { 0 };
        let code = (field << MAN) + kept;
        if code <= Self::MAX.bits as u64 { Some(code as u32) } else { None }
    }

    /// The number of opposite sign. Zero keeps its sign where the format has only one zero.
    const fn negated(self) -> Self {
        match (S::RULE, self.bits) {
            (Rule::Fnuz, 0) => self,
            (_, bits) => Self::new(bits ^ Self::SIGN),
        }
    }
}

impl<const EXP: u32, const MAN: u32, S: Specials> fmt::Debug for Minifloat<EXP, MAN, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = Self::WIDTH.div_ceil(4) as usize;
        write!(f, "0x{:0digits$x} ({})", self.bits, self.to_f64())
    }
}

/// `value / 2^drop` to the nearest integer, ties to even; `drop` is 1 to 63.
const fn round_half_even(value: u64, drop: u32) -> u64 {
    let (kept, rest, half) = (value >> drop, value & ((1 << drop) - 1), 1 << (drop - 1));
    kept + (rest > half || (rest == half && kept & 1 == 1)) as u64
}

/// `2^exponent`, for normal numbers of f64.
const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}
