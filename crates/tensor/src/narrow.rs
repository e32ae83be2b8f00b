//! Element types that are computed in wider ones.

use crate::{DType, Tensor};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{
    Bf16, E2M1, E4M3, E4M3Fnuz, E5M2, E5M2Fnuz, F16, FloatOverflow, Minifloat, Specials,
    e8m0_to_f64,
};

/// An element type that nothing computes with directly: operands are widened to
/// [`Narrow::wide`], which is exact, and results are rounded once.
///
/// An element takes one byte, [`Narrow::F16`] and [`Narrow::Bf16`] two. Floats are codes in the low
/// bits, the others zero; integers of less than 8 bits are the byte of that value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Narrow {
    /// IEEE binary16.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// OCP 8-bit float with 2 mantissa bits.
    E5M2,
    /// E5M2 without infinities and negative zero.
    E5M2Fnuz,
    /// OCP 8-bit float with 3 mantissa bits.
    E4M3,
    /// E4M3 without infinities and negative zero.
    E4M3Fnuz,
    /// OCP 8-bit scale: `2^(code - 127)`, NaN for 255.
    E8M0,
    /// OCP 4-bit float.
    E2M1,
    /// 4-bit signed.
    I4,
    /// 4-bit unsigned.
    U4,
    /// 2-bit signed.
    I2,
    /// 2-bit unsigned.
    U2,
}

impl Narrow {
    /// Every narrow type.
    pub const ALL: [Narrow; 12] = [
        Narrow::F16,
        Narrow::Bf16,
        Narrow::E5M2,
        Narrow::E5M2Fnuz,
        Narrow::E4M3,
        Narrow::E4M3Fnuz,
        Narrow::E8M0,
        Narrow::E2M1,
        Narrow::I4,
        Narrow::U4,
        Narrow::I2,
        Narrow::U2,
    ];

    /// Bits that carry information.
    pub fn bits(self) -> u32 {
        match self {
            Narrow::F16 | Narrow::Bf16 => 16,
            Narrow::E5M2 | Narrow::E5M2Fnuz | Narrow::E4M3 | Narrow::E4M3Fnuz | Narrow::E8M0 => 8,
            Narrow::E2M1 | Narrow::I4 | Narrow::U4 => 4,
            Narrow::I2 | Narrow::U2 => 2,
        }
    }

    /// The type it is computed in.
    pub fn wide(self) -> DType {
        match self.signed() {
            None => DType::F32,
            Some(true) => DType::I8,
            Some(false) => DType::U8,
        }
    }

    /// True for floats.
    pub fn is_float(self) -> bool {
        self.signed().is_none()
    }

    /// Signedness of an integer type; `None` for floats.
    pub fn signed(self) -> Option<bool> {
        match self {
            Narrow::I4 | Narrow::I2 => Some(true),
            Narrow::U4 | Narrow::U2 => Some(false),
            _ => None,
        }
    }

    /// Lower-case name: `f16`, `f8e4m3fn`, `u4`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Narrow::F16 => "f16",
            Narrow::Bf16 => "bf16",
            Narrow::E5M2 => "f8e5m2",
            Narrow::E5M2Fnuz => "f8e5m2fnuz",
            Narrow::E4M3 => "f8e4m3fn",
            Narrow::E4M3Fnuz => "f8e4m3fnuz",
            Narrow::E8M0 => "f8e8m0",
            Narrow::E2M1 => "f4e2m1",
            Narrow::I4 => "i4",
            Narrow::U4 => "u4",
            Narrow::I2 => "i2",
            Narrow::U2 => "u2",
        }
    }

    /// The number of an element, exactly.
    pub(crate) fn decode(self, code: u16) -> f64 {
        let bits = code.into();
        match self {
            Narrow::F16 => F16::from_bits(bits).to_f64(),
            Narrow::Bf16 => Bf16::from_bits(bits).to_f64(),
            Narrow::E5M2 => E5M2::from_bits(bits).to_f64(),
            Narrow::E5M2Fnuz => E5M2Fnuz::from_bits(bits).to_f64(),
            Narrow::E4M3 => E4M3::from_bits(bits).to_f64(),
            Narrow::E4M3Fnuz => E4M3Fnuz::from_bits(bits).to_f64(),
            Narrow::E8M0 => e8m0_to_f64(code as u8),
            Narrow::E2M1 => E2M1::from_bits(bits).to_f64(),
            Narrow::I4 | Narrow::I2 => f64::from(code as u8 as i8),
            Narrow::U4 | Narrow::U2 => f64::from(code as u8),
        }
    }

    /// The element nearest to a number.
    ///
    /// Floats round ties to even; what is above the largest number becomes what `overflow` says,
    /// always the largest number in formats without infinity and NaN. NaN becomes 0 in formats
    /// without NaN. E8M0 rounds up to a power of two; what is not above 0 counts as out of range
    /// with [`FloatOverflow::Infinity`], else 0 becomes the lowest scale; negative numbers are NaN.
    /// On the way to integers the fraction is lost and the low bits are kept.
    pub fn encode(self, value: f64, overflow: FloatOverflow) -> u16 {
        match self {
            Narrow::F16 => minifloat(F16::from_f64(value, overflow)),
            Narrow::Bf16 => minifloat(Bf16::from_f64(value, overflow)),
            Narrow::E5M2 => minifloat(E5M2::from_f64(value, overflow)),
            Narrow::E5M2Fnuz => minifloat(E5M2Fnuz::from_f64(value, overflow)),
            Narrow::E4M3 => minifloat(E4M3::from_f64(value, overflow)),
            Narrow::E4M3Fnuz => minifloat(E4M3Fnuz::from_f64(value, overflow)),
            Narrow::E8M0 => scale(value, overflow).into(),
            Narrow::E2M1 => minifloat(E2M1::from_f64(value, FloatOverflow::Saturate)),
            Narrow::I4 | Narrow::U4 | Narrow::I2 | Narrow::U2 => self.wrap(value as i64),
        }
    }

    /// The low bits of an integer as an element of an integer type; 0 for floats.
    pub fn wrap(self, value: i64) -> u16 {
        let unused = 64 - self.bits();
        match self.signed() {
            Some(true) => u16::from((value << unused >> unused) as u8),
            Some(false) => u16::from(((value as u64) << unused >> unused) as u8),
            None => 0,
        }
    }

    /// What becomes of a number above the range where nothing else is said: infinity in types of
    /// 16 bits, the largest number in smaller ones.
    pub fn overflow(self) -> FloatOverflow {
        match self.bits() {
            16 => FloatOverflow::Infinity,
            _ => FloatOverflow::Saturate,
        }
    }
}

fn minifloat<const EXP: u32, const MAN: u32, S: Specials>(
    code: Option<Minifloat<EXP, MAN, S>>,
) -> u16 {
    code.map_or(0, |code| code.to_bits() as u16)
}

/// The E8M0 code of the lowest power of two that is not below a number.
fn scale(value: f64, overflow: FloatOverflow) -> u8 {
    const NAN: u8 = 255;
    let (lowest, highest) = (e8m0_to_f64(0), e8m0_to_f64(NAN - 1));
    if value.is_nan() || value < 0.0 {
        return NAN;
    }
    if overflow == FloatOverflow::Infinity && !(lowest..=highest).contains(&value) {
        return NAN;
    }
    let value = value.clamp(lowest, highest);
    // Both bounds are normal in f64, so the exponent field is the floor of the logarithm.
    let floor = (value.to_bits() >> 52) as i32 - 1023 + 127;
    let up = value.to_bits() & ((1 << 52) - 1) != 0;
    u8::try_from(floor + i32::from(up)).unwrap_or(NAN)
}

impl Tensor {
    /// The same numbers in the type they are computed in, see [`DType::wide`]. NaN is canonical.
    pub fn widen(&self) -> Tensor {
        let DType::Narrow(narrow) = self.dtype else {
            return self.clone();
        };
        let (dtype, shape) = (narrow.wide(), self.shape.clone());
        if dtype != DType::F32 {
            return Tensor { dtype, shape, bytes: self.bytes.clone() };
        }
        let values = narrow.codes(&self.bytes).map(|code| narrow.decode(code) as f32);
        let bytes = bytes::Bytes::from_owner(crate::Values(values.collect::<Vec<f32>>()));
        Tensor { dtype, shape, bytes }
    }

    /// The numbers in a narrow type; [`Narrow::encode`] says how they round.
    ///
    /// # Errors
    /// `Q0201` never for a tensor that exists.
    pub fn narrow(&self, to: Narrow, overflow: FloatOverflow) -> Result<Tensor> {
        let bytes = to.store(self.to_f64().into_iter().map(|value| to.encode(value, overflow)));
        Tensor::new(DType::Narrow(to), self.shape(), bytes.into())
    }

    /// The low bits of integers as an integer type of less than 8 bits.
    ///
    /// # Errors
    /// `Q0202` when one of the types is none of integers.
    pub fn wrap(&self, to: Narrow) -> Result<Tensor> {
        let values = if self.dtype == DType::U64 {
            // The low bits are all that counts.
            Some(self.values::<u64>()?.iter().map(|&value| value as i64).collect())
        } else {
            self.to_i64()
        };
        match values {
            Some(values) if !to.is_float() => {
                let bytes = to.store(values.into_iter().map(|value| to.wrap(value)));
                Tensor::new(DType::Narrow(to), self.shape(), bytes.into())
            }
            _ => Err(Diagnostic::invalid(
                "Q0202",
                format!("expected integers, found {} and {}", self.dtype, to.name()),
            )),
        }
    }
}

impl Narrow {
    /// The elements as they are stored.
    pub(crate) fn codes(self, bytes: &[u8]) -> Box<dyn Iterator<Item = u16> + '_> {
        match self.bits() {
            16 => Box::new(bytes.as_chunks().0.iter().map(|&code| u16::from_le_bytes(code))),
            _ => Box::new(bytes.iter().map(|&code| code.into())),
        }
    }

    /// The bytes of elements.
    fn store(self, codes: impl Iterator<Item = u16>) -> Vec<u8> {
        match self.bits() {
            16 => codes.flat_map(u16::to_le_bytes).collect(),
            _ => codes.map(|code| code as u8).collect(),
        }
    }
}
