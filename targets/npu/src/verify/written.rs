//! Which bytes of an L2 were written.

/// A bit for every byte.
#[derive(Clone, Debug)]
pub(super) struct Written(Vec<u64>);

impl Written {
    /// Nothing was written.
    pub(super) fn new(bytes: u32) -> Written {
        Written(vec![0; (bytes as usize).div_ceil(64)])
    }

    /// The words of the bytes from `start` to `end`, and which of their bits. Bytes behind the
    /// memory have none.
    fn words(&self, start: u64, end: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let end = end.min((self.0.len() as u64).saturating_mul(64));
        let range = if start < end { start / 64..end.div_ceil(64) } else { 0..0 };
        range.map(move |word| {
            let first = word.saturating_mul(64);
            // The bits below a byte; 64 of them need no shift.
            let below = |byte: u64| {
                let bits = u32::try_from(byte.saturating_sub(first)).unwrap_or(u32::MAX);
                1_u64.checked_shl(bits).map_or(u64::MAX, |bit| bit.wrapping_sub(1))
            };
            (word as usize, below(end) & !below(start))
        })
    }

    /// The bytes from `start` to `end` are written.
    pub(super) fn set(&mut self, start: u64, end: u64) {
        for (word, bits) in self.words(start, end) {
            self.0[word] |= bits;
        }
    }

    /// Whether all of them were.
    pub(super) fn all(&self, start: u64, end: u64) -> bool {
        self.words(start, end).all(|(word, bits)| self.0[word] & bits == bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a list of bytes.
    #[test]
    fn bits_are_those_of_bytes() {
        let (mut written, mut bytes) = (Written::new(256), [false; 256]);
        for (start, end) in [(3, 5), (60, 70), (64, 64), (127, 193), (0, 1), (250, 400)] {
            written.set(start, end);
            bytes[start as usize..(end as usize).min(256)].fill(true);
            for low in 0..256 {
                for high in low..=256 {
                    let all = bytes[low..high].iter().all(|&byte| byte);
                    assert_eq!(written.all(low as u64, high as u64), all, "{low} {high}");
                }
            }
        }
    }
}
