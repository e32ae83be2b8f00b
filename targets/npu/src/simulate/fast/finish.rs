//! From sums to codes in L2.

use super::codes::{Code, decode, encode, limited, range};
use super::pack::Pack;
use super::place::Tensor;
use crate::isa::{ActMode, Float2Fixed};
use crate::simulate::conv::{activate, rectified, round};
use crate::simulate::state::Counts;
use crate::work::{Conv, element_bytes};
use quincunx_num::Loop;

/// What becomes of sums, and where.
pub(super) struct Output {
    tensor: Tensor,
    rows: usize,
    columns: usize,
    code: Code,
    activation: (ActMode, f32),
    rounding: Float2Fixed,
    /// Offset and factor of codes.
    quantiser: (f32, f32),
    /// Offset and factor with which the destination is read, and whether only what is above 0 is
    /// added.
    accumulate: Option<((f32, f32), bool)>,
}

impl Output {
    pub(super) fn new(conv: &Conv, tensor: Tensor) -> Output {
        let (rounding, offset, factor) = conv.quantiser;
        let accumulate = conv
            .accumulate
            .map(|(mode, offset, factor)| ((offset.single(), factor.single()), mode == 1));
        Output {
            tensor,
            rows: conv.tile[3] as usize,
            columns: conv.tile[4] as usize,
            code: Code::new(element_bytes(conv.formats[2]), conv.signed[1]),
            activation: (conv.activation.0, conv.activation.1.single()),
            rounding,
            quantiser: (offset.single(), factor.single()),
            accumulate,
        }
    }
}

/// Sums of some output positions, from `first` on.
pub(super) struct Finish<'a> {
    pub(super) output: &'a Output,
    pub(super) pack: &'a Pack,
    pub(super) first: usize,
    pub(super) sums: &'a [i32],
    pub(super) l2: &'a mut [u8],
    pub(super) values: &'a mut [Vec<f32>; 3],
    pub(super) counts: &'a mut Counts,
}

impl Loop for Finish<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let (mode, parameter) = self.output.activation;
        match mode {
            ActMode::RELU => self.activated(rectified),
            ActMode::LEAKY_RELU => {
                self.activated(|value| activate(value, ActMode::LEAKY_RELU, parameter));
            }
            ActMode::RELU_X => self.activated(|value| activate(value, ActMode::RELU_X, parameter)),
            _ => self.activated(|value| value),
        }
    }
}

impl Finish<'_> {
    #[inline(always)]
    fn activated(self, active: impl Fn(f32) -> f32) {
        let Output { code, accumulate, rounding, .. } = *self.output;
        if code == Code::Half || accumulate.is_some() {
            self.staged(active);
        } else if rounding == Float2Fixed::ROUND {
            self.direct(active, f32::round_ties_even);
        } else {
            self.direct(active, |value| round(value, rounding));
        }
    }

    /// Codes, without looking at the destination, in one loop.
    #[inline(always)]
    fn direct(self, active: impl Fn(f32) -> f32, whole: impl Fn(f32) -> f32) {
        let (offset, factor) = self.output.quantiser;
        let range = range(self.output.code == Code::Signed);
        let Pack { factors, offsets, .. } = self.pack;
        let channels = factors.len();
        let mut place = Walk::new(self.output, self.first);
        let mut saturated = 0_u32;
        for sums in self.sums.chunks_exact(channels) {
            let out = &mut self.l2[place.byte..place.byte + channels];
            for (((out, &sum), a), b) in out.iter_mut().zip(sums).zip(factors).zip(offsets) {
                let value = active(sum as f32 * a + b) * factor + offset;
                *out = limited(whole(value), range, &mut saturated);
            }
            place.step();
        }
        self.counts.results += self.sums.len() as u64;
        self.counts.saturated += u64::from(saturated);
    }

    /// Everything, step by step.
    #[inline(always)]
    fn staged(self, active: impl Fn(f32) -> f32) {
        let Output { code, accumulate, rounding, quantiser: (offset, factor), .. } = *self.output;
        let Pack { factors, offsets, .. } = self.pack;
        let channels = factors.len();
        let mut place = Walk::new(self.output, self.first);
        let [values, olds, _] = self.values;
        values.resize(channels, 0.0);
        olds.resize(channels, 0.0);
        for sums in self.sums.chunks_exact(channels) {
            let codes = &mut self.l2[place.byte..place.byte + channels * code.bytes()];
            for (((value, &sum), a), b) in values.iter_mut().zip(sums).zip(factors).zip(offsets) {
                *value = sum as f32 * a + b;
            }
            if let Some((map, above)) = accumulate {
                decode(codes, code, Some(map), olds);
                for (value, &old) in values.iter_mut().zip(&*olds) {
                    *value += if above { rectified(old) } else { old };
                }
            }
            for value in values.iter_mut() {
                *value = active(*value);
            }
            if code != Code::Half {
                for value in values.iter_mut() {
                    *value = *value * factor + offset;
                }
            }
            encode(values, code, rounding, codes, self.counts);
            place.step();
        }
    }
}

/// The bytes of output positions, one after the other.
struct Walk<'a> {
    output: &'a Output,
    image: usize,
    y: usize,
    x: usize,
    byte: usize,
}

impl Walk<'_> {
    #[inline(always)]
    fn new(output: &Output, position: usize) -> Walk<'_> {
        let (row, x) = (position / output.columns, position % output.columns);
        let (image, y) = (row / output.rows, row % output.rows);
        let Tensor { first, pixel, row, image: images, .. } = output.tensor;
        Walk { output, image, y, x, byte: first + image * images + y * row + x * pixel }
    }

    #[inline(always)]
    fn step(&mut self) {
        let Tensor { first, pixel, row, image, .. } = self.output.tensor;
        self.x += 1;
        self.byte += pixel;
        if self.x < self.output.columns {
            return;
        }
        (self.x, self.y) = (0, self.y + 1);
        if self.y == self.output.rows {
            (self.y, self.image) = (0, self.image + 1);
        }
        self.byte = first + self.image * image + self.y * row;
    }
}
