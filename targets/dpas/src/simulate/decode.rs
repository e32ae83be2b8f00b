//! Elements of packed operands as numbers.

use crate::precision::Precision;
use quincunx_num::{E2M1, E4M3, E5M2, F16};

/// The integer code of an element: its bits, extended by the sign where the precision has one.
pub fn integer(precision: Precision, code: u64) -> i32 {
    let bits = precision.bits().min(32);
    let shift = 32 - bits;
    let high = (code as u32) << shift;
    if precision.is_signed() { (high as i32) >> shift } else { (high >> shift) as i32 }
}

/// The number of an element of a float precision of at most 32 bits. The 13 low bits of tf32 are
/// ignored. NaN is canonical.
pub fn real(precision: Precision, code: u64) -> f32 {
    let code = code as u32;
    let value = match precision {
        Precision::Bf => f32::from_bits(code << 16),
        Precision::Hf => half(code),
        Precision::Tf32 => f32::from_bits(code & 0xffff_e000),
        Precision::Bf8 => E5M2::from_bits(code).to_f32(),
        Precision::Hf8 => E4M3::from_bits(code).to_f32(),
        Precision::E2m1 => E2M1::from_bits(code).to_f32(),
        // Not a float of 32 bits; the shape does not allow it.
        _ => f32::NAN,
    };
    if value.is_nan() { f32::NAN } else { value }
}

/// IEEE binary16; normal numbers without a detour.
fn half(code: u32) -> f32 {
    let exponent = code >> 10 & 31;
    if exponent == 0 || exponent == 31 {
        return F16::from_bits(code).to_f32();
    }
    f32::from_bits((code & 0x8000) << 16 | (exponent + 112) << 23 | (code & 0x3ff) << 13)
}

/// The `bits <= 64` bits of a byte string from bit `at` on; `bits` is a power of two and `at` a
/// multiple of it.
pub fn bits_at(bytes: &[u8], at: usize, bits: u32) -> u64 {
    let byte = at / 8;
    if bits < 8 {
        return u64::from(bytes[byte]) >> (at % 8) & ((1 << bits) - 1);
    }
    let mut value = 0;
    for (index, &b) in bytes[byte..byte + bits as usize / 8].iter().enumerate() {
        value |= u64::from(b) << (8 * index);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_equal_their_definition() {
        for code in 0..0x1_0000 {
            let (a, b) = (half(code), F16::from_bits(code).to_f32());
            assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{code:#x}");
        }
    }

    #[test]
    fn integers_extend_their_sign() {
        assert_eq!(integer(Precision::S1, 1), -1);
        assert_eq!(integer(Precision::U1, 1), 1);
        assert_eq!(integer(Precision::S2, 2), -2);
        assert_eq!(integer(Precision::S4, 8), -8);
        assert_eq!(integer(Precision::U4, 15), 15);
        assert_eq!(integer(Precision::S8, 0x80), -128);
        assert_eq!(integer(Precision::U8, 0xff), 255);
    }

    #[test]
    fn tf32_ignores_its_low_bits() {
        assert_eq!(real(Precision::Tf32, 0x3f80_1fff), 1.0);
        assert_eq!(real(Precision::Tf32, 0x3f80_2000), 1.0 + 2f32.powi(-10));
    }
}
