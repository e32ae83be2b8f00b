//! Products of formats with at most 16 bits.
//!
//! A step of a sum adds `x * w`, a number with `P` more bits below the point, rounds to nearest
//! with ties to even, and saturates. What is not saturated needs 16-bit lanes only. Let
//! `up(p)` be `p / 2^P` rounded with ties up. The sum becomes `y + up(x * w)`, except that a tie
//! must end even: then its lowest bit is cleared. A tie is where rounding up and rounding down
//! differ, and rounding down is `-up(-p)`, so that `up(x * w) + up(x * -w)` is 1 at a tie, else 0.
//! `up` is one instruction (`vpmulhrsw`, which computes `(a * b + 2^14) >> 15`) when the two
//! factors together are shifted left by `15 - P` bits and still fit in 16.
//!
//! Which vectors may be computed like that is seen from the largest magnitude in them:
//! * up to [`Packed::safe`] no sum can leave its range, whatever the order of signs;
//! * up to [`Packed::wide`] products fit, and sums are watched. If one touches an end of its
//!   range, the vectors are computed again;
//! * beyond, and again, [`one_by_one`] computes in 32 bits and counts what saturates, as does
//!   `exact.rs`. It is the twin that tests compare everything with.

use super::format::{Format, Narrow, one_by_one};
use super::products::Products;
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512, exact};
use crate::simulate::Flow;
use quincunx_num::Level;

/// Lanes of a line.
pub(super) const LINE: usize = 32;

/// Most lanes of a machine.
const MAX_LANES: usize = 256;

/// Most lines of vectors in a tile.
pub(super) const TILE: usize = 8;

/// 32 lanes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [i16; LINE]);

/// Weights as the kernels read them.
///
/// A machine with few lanes computes several vectors side by side in a line; its rows are then
/// repeated. One with many lanes has several lines for a row.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    pub(super) level: Level,
    pub(super) lanes: usize,
    /// Vectors in a line.
    pub(super) group: usize,
    /// Lines of a row.
    pub(super) chunks: usize,
    /// The bias by chunk, then the weights by chunk and row, shifted left.
    pub(super) lines: Vec<Line>,
    /// By lane of a vector: where each lane of a line finds its factor, if vectors lie side by
    /// side.
    pub(super) places: Vec<Line>,
    /// By how much vectors are shifted left.
    pub(super) shift: u32,
    /// The ends of the range.
    pub(super) ends: (i16, i16),
    /// The largest magnitude with which no sum leaves its range.
    pub(super) safe: u16,
    /// The largest magnitude with which products fit.
    pub(super) wide: u16,
}

impl Packed {
    /// For a machine with so many lanes.
    pub(super) fn new(lanes: usize, level: Level) -> Packed {
        let side_by_side = match level {
            Level::Scalar => false,
            // Bytes move within 128 bits only.
            Level::Avx2 => lanes <= 8 && 8 % lanes == 0,
            Level::Avx512 => lanes <= LINE / 2,
        };
        let group = if side_by_side { LINE / lanes } else { 1 };
        let chunks = lanes.div_ceil(LINE);
        let used = group * lanes;
        let place = |lane: usize, at: usize| match (level, at < used) {
            (_, false) => 0,
            (Level::Avx2, _) => {
                // The two bytes of a lane, within its eight.
                let lane = (at % 8) / lanes * lanes + lane;
                i16::from_le_bytes([2 * lane as u8, 2 * lane as u8 + 1])
            }
            _ => (at / lanes * lanes + lane) as i16,
        };
        let places = match side_by_side {
            true => (0..lanes).map(|k| Line(std::array::from_fn(|at| place(k, at)))).collect(),
            false => Vec::new(),
        };
        let lines = match level {
            Level::Scalar => Vec::new(),
            _ => vec![Line([0; LINE]); chunks * (lanes + 1)],
        };
        let ends = (i16::MIN, i16::MAX);
        Packed { level, lanes, group, chunks, lines, places, shift: 0, ends, safe: 0, wide: 0 }
    }

    /// Takes the bias and the rows; `K` divides the lanes.
    #[inline(always)]
    pub(super) fn pack<const K: usize>(&mut self, format: Narrow, weights: &[i16]) {
        if self.lines.is_empty() {
            return;
        }
        let (bias, weights) = weights.split_at(self.lanes);
        let bias_top = bias.iter().map(|b| b.unsigned_abs()).fold(0, u16::max);
        let mut sums = [0_u16; MAX_LANES];
        let mut top = [0_u16; K];
        for row in weights.chunks_exact(self.lanes) {
            for (sums, row) in sums.as_chunks_mut::<K>().0.iter_mut().zip(row.as_chunks::<K>().0) {
                for ((sum, top), &weight) in sums.iter_mut().zip(&mut top).zip(row) {
                    *sum = sum.saturating_add(weight.unsigned_abs());
                    *top = (*top).max(weight.unsigned_abs());
                }
            }
        }
        let greatest = |values: &[u16]| values.iter().copied().fold(0, u16::max);
        self.limit(format, greatest(&top), greatest(&sums[..self.lanes]), bias_top);
        // Magnitudes shifted by this stay below 2^15.
        let by = 15 - format.point - self.shift;
        self.put::<K>(0, bias, 0);
        for (lane, row) in weights.chunks_exact(self.lanes).enumerate() {
            self.put::<K>(1 + lane, row, by);
        }
    }

    /// Puts a row in its lines, as often as there are vectors in a line.
    #[inline(always)]
    fn put<const K: usize>(&mut self, number: usize, row: &[i16], by: u32) {
        for (index, part) in row.as_chunks::<K>().0.iter().enumerate() {
            let (chunk, at) = (index * K / LINE, index * K % LINE);
            let line = match number {
                0 => chunk,
                _ => self.chunks + chunk * self.lanes + number - 1,
            };
            let part = part.map(|weight| weight << by);
            let Line(line) = &mut self.lines[line];
            for copy in 0..self.group {
                line[copy * self.lanes + at..][..K].copy_from_slice(&part);
            }
        }
    }

    /// Sets shift and limits for weights of magnitude `top`, columns of which add up to `sum`, and
    /// biases of magnitude `bias`.
    #[inline(always)]
    fn limit(&mut self, format: Narrow, top: u16, sum: u16, bias: u16) {
        let Narrow { point, low, high } = format;
        self.ends = (low as i16, high as i16);
        // -2^15 has no counterpart, and goes the exact way like weights without room to shift.
        let room = (u32::from(top) | 1).leading_zeros().saturating_sub(17).min(15 - point);
        self.shift = 15 - point - room;
        if top > i16::MAX.unsigned_abs() {
            (self.safe, self.wide) = (0, 0);
            return;
        }
        // Where both factors fit when they are shifted, the product fits as well: it is less than
        // 2^15 behind the point by more than rounding adds.
        let wide = u32::from(i16::MAX.unsigned_abs()) >> self.shift;
        self.wide = wide as u16;
        // Every step adds at most a half by rounding.
        let room = high.cast_unsigned().saturating_sub(u32::from(bias) + self.lanes as u32 + 1);
        self.safe = match sum {
            // The sum itself may have been greater.
            u16::MAX => 0,
            _ => (room << point).checked_div(u32::from(sum)).unwrap_or(u32::MAX).min(wide) as u16,
        };
    }

    /// Vectors that a kernel takes at once.
    fn most(&self) -> usize {
        TILE * self.group
    }
}

/// Vectors for a kernel, at most [`Packed::most`].
pub(super) struct Tile<'a> {
    pub(super) vectors: usize,
    pub(super) x: &'a [i16],
    pub(super) y: &'a mut [i16],
    pub(super) packed: &'a Packed,
}

impl Tile<'_> {
    /// Checks what kernels rely on.
    #[inline(always)]
    pub(super) fn check(&self) {
        let Packed { lanes, group, chunks, ref lines, ref places, .. } = *self.packed;
        assert!(self.vectors > 0 && self.vectors <= TILE * group, "the vectors of a tile");
        assert!(self.x.len() == self.vectors * lanes && self.y.len() == self.x.len());
        assert!(lines.len() == chunks * (lanes + 1));
        match group {
            1 => assert!(lanes <= LINE * chunks),
            _ => assert!(group * lanes <= LINE && chunks == 1 && places.len() == lanes),
        }
    }

    /// The vectors from `first` on, `count` of them or those that there are.
    #[inline(always)]
    pub(super) fn part(&mut self, first: usize, count: usize) -> Tile<'_> {
        let end = self.vectors.min(first + count);
        let range = first * self.packed.lanes..end * self.packed.lanes;
        Tile {
            vectors: end - first,
            x: &self.x[range.clone()],
            y: &mut self.y[range],
            packed: self.packed,
        }
    }
}

/// All vectors, tile by tile.
#[inline(always)]
pub(super) fn products<const K: usize>(format: Narrow, work: &mut Products<'_, Narrow>) {
    let packed = work.packed;
    let vectors = work.vectors;
    let mut all = Tile { vectors, x: work.x, y: work.y, packed };
    let mut first = 0;
    while first < vectors {
        let mut tile = all.part(first, packed.most());
        match packed.level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                if !avx512::products(&mut tile) {
                    exact::exact(format, &mut tile, work.weights, work.flow);
                }
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => {
                if !avx2::products(&mut tile) {
                    exact::exact(format, &mut tile, work.weights, work.flow);
                }
            }
            _ => one_by_one::<_, K>(format, work.lanes, tile.x, work.weights, tile.y, work.flow),
        }
        first += packed.most();
    }
}

/// `sums = sums + values`, `K` lanes at a time.
#[inline(always)]
pub(super) fn add_to<const K: usize>(
    format: Narrow,
    sums: &mut [i16],
    values: &[i16],
    flow: &mut Flow,
) {
    let (low, high) = (format.low as i16, format.high as i16);
    for (sums, values) in sums.as_chunks_mut::<K>().0.iter_mut().zip(values.as_chunks::<K>().0) {
        let mut next = *sums;
        let mut is_beyond = false;
        for (sum, &value) in next.iter_mut().zip(values) {
            // Not `clamp`, of which the compiler makes more instructions.
            let saturated = sum.saturating_add(value).max(low).min(high);
            is_beyond |= saturated != sum.wrapping_add(value);
            *sum = saturated;
        }
        if is_beyond {
            count(format, sums, values, flow);
        }
        *sums = next;
    }
}

/// Counts which sums saturate; not inlined, since that is seldom.
#[cold]
#[inline(never)]
fn count(format: Narrow, sums: &[i16], values: &[i16], flow: &mut Flow) {
    for (&sum, &value) in sums.iter().zip(values) {
        let exact = Narrow::sum(sum.into(), value.into());
        flow.over += u64::from(format.is_over(exact));
        flow.under += u64::from(format.is_under(exact));
    }
}
