//! The instruction word.

use std::fmt;

/// Most bits an instruction word can have.
pub const MAX_BITS: u32 = 320;
pub(crate) const WORDS: usize = (MAX_BITS / 64) as usize;
const BYTES: usize = (MAX_BITS / 8) as usize;

/// An instruction word of up to [`MAX_BITS`] bits. Bit 0 is the low bit of byte 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Bits(pub(crate) [u64; WORDS]);

impl Bits {
    /// The word with all bits 0.
    pub const ZERO: Bits = Bits([0; WORDS]);

    /// The `width <= 64` bits from bit `at` upwards. Bits past the end of the word read as 0.
    pub fn get(&self, at: u32, width: u32) -> u64 {
        let (index, shift) = ((at / 64) as usize, at % 64);
        let low = self.0.get(index).copied().unwrap_or(0);
        let high = self.0.get(index + 1).copied().unwrap_or(0);
        let pair = (u128::from(high) << 64) | u128::from(low);
        (pair >> shift) as u64 & mask(width)
    }

    /// Replaces the `width <= 64` bits from bit `at` upwards by the low bits of `value`. Bits past
    /// the end of the word are dropped.
    pub fn set(&mut self, at: u32, width: u32, value: u64) {
        let (index, shift) = ((at / 64) as usize, at % 64);
        let ones = u128::from(mask(width)) << shift;
        let value = (u128::from(value) << shift) & ones;
        for (word, half) in self.0.iter_mut().skip(index).zip([0, 64]) {
            *word = (*word & !((ones >> half) as u64)) | (value >> half) as u64;
        }
    }

    /// Reads a little-endian word; `None` if it is longer than [`MAX_BITS`].
    pub fn from_le_bytes(bytes: &[u8]) -> Option<Bits> {
        let mut padded = [0; BYTES];
        padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let mut bits = Bits::ZERO;
        for (word, chunk) in bits.0.iter_mut().zip(padded.as_chunks().0) {
            *word = u64::from_le_bytes(*chunk);
        }
        Some(bits)
    }

    /// The whole word, [`MAX_BITS`] long, as little-endian bytes; cut it to the length of the
    /// instruction.
    pub fn to_le_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (chunk, word) in bytes.as_chunks_mut().0.iter_mut().zip(self.0) {
            *chunk = word.to_le_bytes();
        }
        bytes
    }

    /// True when all bits are 0.
    pub fn is_zero(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    /// The lowest bit that is 1.
    pub fn first_one(&self) -> Option<u32> {
        let index = self.0.iter().position(|&word| word != 0)?;
        Some(64 * index as u32 + self.0[index].trailing_zeros())
    }

    /// Bitwise and.
    #[must_use]
    pub fn and(&self, other: &Bits) -> Bits {
        self.zip(other, |a, b| a & b)
    }

    /// Bitwise or.
    #[must_use]
    pub fn or(&self, other: &Bits) -> Bits {
        self.zip(other, |a, b| a | b)
    }

    /// Bitwise exclusive or: the bits that differ.
    #[must_use]
    pub fn xor(&self, other: &Bits) -> Bits {
        self.zip(other, |a, b| a ^ b)
    }

    /// The bits of `self` that are 0 in `other`.
    #[must_use]
    pub fn without(&self, other: &Bits) -> Bits {
        self.zip(other, |a, b| a & !b)
    }

    fn zip(&self, other: &Bits, f: impl Fn(u64, u64) -> u64) -> Bits {
        Bits(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().rev().map(|word| format!("{word:016x}")).collect();
        write!(f, "0x{}", words.join("_"))
    }
}

/// The low `width` bits set.
pub(crate) fn mask(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cross_word_boundaries() {
        let mut bits = Bits::ZERO;
        bits.set(60, 8, 0xa5);
        assert_eq!(bits.get(60, 8), 0xa5);
        assert_eq!(bits.get(64, 4), 0xa);
        assert_eq!(bits.get(56, 4), 0);
        bits.set(192, 64, u64::MAX);
        bits.set(60, 8, 0);
        assert_eq!(bits.get(192, 64), u64::MAX);
        assert_eq!(bits.first_one(), Some(192));
    }

    #[test]
    fn bits_past_the_end_are_zero() {
        let mut bits = Bits::ZERO;
        bits.set(MAX_BITS - 6, 64, u64::MAX);
        assert_eq!(bits.get(MAX_BITS - 6, 64), 0x3f);
        bits.set(MAX_BITS + 44, 4, 15);
        assert_eq!(bits.get(MAX_BITS + 44, 4), 0);
        assert_eq!(bits.get(0, 0), 0);
    }

    #[test]
    fn bytes_are_little_endian() {
        let bits = Bits::from_le_bytes(&[0x12, 0x34]).unwrap();
        assert_eq!(bits.get(0, 16), 0x3412);
        assert_eq!(bits.to_le_bytes()[..3], [0x12, 0x34, 0]);
        assert!(Bits::from_le_bytes(&[0; 41]).is_none());
    }
}
