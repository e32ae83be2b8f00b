//! Which bytes of an L2 were written.

use crate::regions::Region;
use crate::work::Pattern;
use std::ops::ControlFlow;

/// A bit for every byte.
#[derive(Clone, Debug)]
pub(super) struct Written(Vec<u64>);

/// The bits of a word from one on, and below one; both less than 64.
fn from(bit: u64) -> u64 {
    u64::MAX.wrapping_shl(bit as u32)
}

impl Written {
    /// Nothing was written.
    pub(super) fn new(bytes: u32) -> Written {
        Written(vec![0; (bytes as usize).div_ceil(64)])
    }

    /// First and last word of the bytes from `start` to `end`, and which of their bits; `None`
    /// without bytes. Bytes behind the memory have no word.
    #[inline]
    fn words(&self, start: u64, end: u64) -> Option<([usize; 2], [u64; 2])> {
        let end = end.min((self.0.len() as u64).saturating_mul(64));
        let last = end.checked_sub(1).filter(|&last| last >= start)?;
        let masks = [from(start % 64), !from(last % 64) | 1 << (last % 64)];
        Some(([start / 64, last / 64].map(|word| word as usize), masks))
    }

    /// The bytes from `start` to `end` are written.
    #[inline]
    pub(super) fn set(&mut self, start: u64, end: u64) {
        let Some(([first, last], masks)) = self.words(start, end) else { return };
        if first == last {
            self.0[first] |= masks[0] & masks[1];
            return;
        }
        self.0[first] |= masks[0];
        self.0[last] |= masks[1];
        self.0[first.saturating_add(1)..last].fill(u64::MAX);
    }

    /// Whether all of them were.
    #[inline]
    pub(super) fn all(&self, start: u64, end: u64) -> bool {
        let Some(([first, last], masks)) = self.words(start, end) else { return true };
        let has = |word: usize, bits: u64| self.0[word] & bits == bits;
        if first == last {
            return has(first, masks[0] & masks[1]);
        }
        let between = &self.0[first.saturating_add(1)..last];
        // Whole blocks are compared at once.
        let full = |block: &[u64]| block.iter().fold(u64::MAX, |all, &word| all & word) == u64::MAX;
        has(first, masks[0]) && has(last, masks[1]) && between.chunks(64).all(full)
    }

    /// The bytes of runs in a region are written. They are no further apart than the region is long.
    pub(super) fn set_runs(&mut self, region: Region, start: i64, pattern: Pattern) {
        let _ = runs(region, start, pattern, |low, high| {
            self.set(low, high);
            ControlFlow::Continue(())
        });
    }

    /// Whether all of them were.
    pub(super) fn all_runs(&self, region: Region, start: i64, pattern: Pattern) -> bool {
        let visit = |low, high| match self.all(low, high) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        runs(region, start, pattern, visit).is_continue()
    }
}

/// Visits the bytes of L2 of runs in a region, from the first to the last of each; one that goes
/// round the ring in two pieces.
fn runs(
    region: Region,
    start: i64,
    pattern: Pattern,
    mut visit: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (first, end) = (region.byte(start), region.end());
    let Pattern { counts, pitches: [image, row, column], bytes } = pattern;
    // Loops instead of an iterator of offsets: this is most of what the check of a program does.
    let mut images = first;
    for _ in 0..counts[0] {
        let mut rows = images;
        for _ in 0..counts[1] {
            let mut low = rows;
            for _ in 0..counts[2] {
                // No run begins a whole round later.
                let at = if low >= end { low.saturating_sub(region.length) } else { low };
                let high = at.saturating_add(bytes as u64);
                visit(at, high.min(end))?;
                if high > end {
                    let rest = high.saturating_sub(end);
                    visit(region.start, region.start.saturating_add(rest))?;
                }
                low = low.saturating_add(column as u64);
            }
            rows = rows.saturating_add(row as u64);
        }
        images = images.saturating_add(image as u64);
    }
    ControlFlow::Continue(())
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

    /// Against the pieces of each run.
    #[test]
    fn runs_go_round_the_ring() {
        let region = Region { start: 128, length: 700 };
        for (start, counts, pitches, bytes) in [
            (0, [2, 3, 4], [300, 100, 24], 8),
            (690, [1, 1, 9], [0, 0, 64], 64),
            (-40, [1, 2, 3], [0, 90, 30], 13),
            (500, [1, 5, 1], [0, 128, 0], 100),
            (3, [1, 1, 1], [0, 0, 0], 700),
        ] {
            let pattern = Pattern { counts, pitches, bytes };
            let (mut fast, mut slow) = (Written::new(1024), Written::new(1024));
            fast.set_runs(region, start, pattern);
            for offset in pattern.starts() {
                let low = start + offset;
                for (low, high) in region.pieces(low, low + bytes).into_iter().flatten() {
                    slow.set(low, high);
                }
            }
            assert_eq!(fast.0, slow.0);
            assert!(fast.all_runs(region, start, pattern));
            // Without any one of the bytes they are not all there.
            for word in 0..slow.0.len() {
                for bit in 0..64 {
                    let mut less = slow.clone();
                    less.0[word] &= !(1 << bit);
                    let all = less.all_runs(region, start, pattern);
                    assert_eq!(all, less.0 == slow.0, "{start} {word} {bit}");
                }
            }
        }
    }
}
