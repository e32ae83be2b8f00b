//! Vector instructions. Facts: `gemini` (`docs/bibliography.md`); the modules and their order are
//! ours: dequantise, multiplication group 0, sum group 1, in pooling the reduction of the window,
//! sum group 0, ReLU, compare with a scalar, scalar module, division by 2^SHMD, quantise.

use super::conv::{decode, encode, rectified};
use super::state::State;
use crate::isa::{CMPS, MG0S, QSMD, SG0M, SG1M, SUMM};
use crate::regions::Region;
use crate::work::{Extents, Place, Scalar, Vector, VectorKind, pitch};
use quincunx_diag::Result;

/// Bits of LUT.
pub(super) const COMPARE: u8 = 1;
pub(super) const SUM0: u8 = 2;
pub(super) const SCALAR: u8 = 4;
pub(super) const MULTIPLY: u8 = 8;
pub(super) const POST: u8 = 16;
/// Bits of GPMD.
pub(super) const SUM1: u8 = 2;
pub(super) const RELU: u8 = 64;

/// One input tensor and where it lies.
#[derive(Clone, Copy)]
struct Input {
    ring: Region,
    place: Place,
    /// Extents as stored: axes without a bit have one entry.
    tensor: Extents,
    pixel: i64,
    bytes: usize,
}

impl State {
    pub(super) fn vector(&mut self, core: usize, vector: &Vector) -> Result<()> {
        let config = &vector.config;
        let first = self.input(core, vector, vector.input, config.first_axes)?;
        let second = match vector.has_second() {
            true => Some(self.input(core, vector, vector.second, config.second_axes)?),
            false => None,
        };
        let ring = self.region(core, vector.output)?;
        let bytes = vector.output_bytes() as usize;
        let pixel = i64::from(pitch(config.dest[0], vector.output_bytes()));
        let [channels, rows, columns] = config.tile;
        let mut buffer = vec![0; channels as usize * bytes];
        let mut scalar: Option<f32> = None;
        for y in 0..rows {
            for x in 0..columns {
                for c in 0..channels {
                    let value = self.element(core, vector, &first, second.as_ref(), [c, y, x]);
                    scalar = Some(scalar_result(vector, scalar, value));
                    let at = c as usize * bytes;
                    self.post(vector, value, &mut buffer[at..at + bytes]);
                }
                let place = i64::from(y) * i64::from(config.dest[2]) + i64::from(x);
                let address = vector.output.address + place * pixel;
                self.cores[core].write(ring, address, &buffer);
            }
        }
        if let (Some(value), 1..=3) = (scalar, vector.scalar_result) {
            self.cores[core].scalars[usize::from(vector.scalar_result) - 1] = value;
        }
        Ok(())
    }

    fn input(&self, core: usize, vector: &Vector, place: Place, axes: u8) -> Result<Input> {
        let tensor = match vector.kind {
            VectorKind::Single => vector.masked(axes),
            _ => vector.config.source,
        };
        let pixel = i64::from(pitch(tensor[0], vector.input_bytes()));
        let ring = self.region(core, place)?;
        Ok(Input { ring, place, tensor, pixel, bytes: vector.input_bytes() as usize })
    }

    pub(super) fn scalar(&self, core: usize, scalar: Scalar) -> f32 {
        match scalar.register {
            1..=3 => self.cores[core].scalars[usize::from(scalar.register) - 1],
            _ => scalar.immediate,
        }
    }

    /// The value of an output position before the quantiser.
    fn element(
        &self,
        core: usize,
        vector: &Vector,
        first: &Input,
        second: Option<&Input>,
        [c, y, x]: Extents,
    ) -> f32 {
        let config = &vector.config;
        let value = match vector.kind {
            VectorKind::Single => {
                let at = [c, y * config.stride[0], x * config.stride[1]];
                let other = second.map(|input| self.load(core, vector, input, at, 1));
                let own = self.load(core, vector, first, at, 0);
                let value = self.groups(core, vector, c, own, other);
                return self.after(core, vector, value, other);
            }
            VectorKind::Pool => self.window(core, vector, first, [c, y, x]),
            VectorKind::Enlarge => {
                let place = [
                    i64::from(vector.start[0]) + i64::from(y / config.stride[0]),
                    i64::from(vector.start[1]) + i64::from(x / config.stride[1]),
                ];
                self.outside(core, vector, first, c, place, true).unwrap_or(0.0)
            }
        };
        self.after(core, vector, value, None)
    }

    /// A dequantised element of a tensor.
    fn load(&self, core: usize, vector: &Vector, input: &Input, at: Extents, index: usize) -> f32 {
        // An axis with one entry counts for all positions.
        let [c, y, x] = [0, 1, 2].map(|axis| if input.tensor[axis] == 1 { 0 } else { at[axis] });
        let place = i64::from(y) * i64::from(input.tensor[2]) + i64::from(x);
        self.element_at(core, vector, input, place * input.pixel, c, index)
    }

    fn element_at(
        &self,
        core: usize,
        vector: &Vector,
        input: &Input,
        offset: i64,
        c: u32,
        index: usize,
    ) -> f32 {
        let config = &vector.config;
        let mut code = [0; 4];
        let code = &mut code[..input.bytes];
        let address = input.place.address + offset + i64::from(c) * input.bytes as i64;
        self.cores[core].read(input.ring, address, code);
        let value = decode(code, config.formats[0], config.signed[0]);
        let (offset, factor) = config.dequantisers[index];
        if vector.dequantise { value * factor + offset } else { value }
    }

    /// Multiplication group 0 and sum group 1, on the channels of the segment.
    fn groups(
        &self,
        core: usize,
        vector: &Vector,
        c: u32,
        mut value: f32,
        other: Option<f32>,
    ) -> f32 {
        let config = &vector.config;
        if let Ok(Some(channels)) = config.segment
            && c >= channels
        {
            return value;
        }
        if vector.modules & MULTIPLY != 0 {
            value *= match config.multiply.0 {
                MG0S::TENSOR => other.unwrap_or(1.0),
                _ => self.scalar(core, config.multiply.1),
            };
        }
        if vector.groups & SUM1 != 0 {
            let scalar = self.scalar(core, config.sum1.1);
            value = if config.sum1.0 == SG1M::SUB { value - scalar } else { value + scalar };
        }
        value
    }

    /// The reduction of a window.
    fn window(&self, core: usize, vector: &Vector, input: &Input, [c, y, x]: Extents) -> f32 {
        let config = &vector.config;
        let compare = (vector.modules & COMPARE != 0).then_some(config.compare.0);
        let mut result: Option<f32> = None;
        for r in 0..config.window[0] {
            for s in 0..config.window[1] {
                let place = [
                    i64::from(vector.start[0]) + i64::from(y * config.stride[0] + r),
                    i64::from(vector.start[1]) + i64::from(x * config.stride[1] + s),
                ];
                let Some(value) = self.outside(core, vector, input, c, place, false) else {
                    continue;
                };
                result = Some(match (result, compare) {
                    (None, _) => value,
                    (Some(old), None) => old + value,
                    (Some(old), Some(kept)) => extreme(old, value, kept),
                });
            }
        }
        result.unwrap_or(0.0)
    }

    /// The element at a row and column that may lie outside: then the value of PADV_AREA, or
    /// without one the nearest inside (if `nearest`) or none.
    fn outside(
        &self,
        core: usize,
        vector: &Vector,
        input: &Input,
        c: u32,
        place: [i64; 2],
        nearest: bool,
    ) -> Option<f32> {
        let config = &vector.config;
        let extent = |axis: usize| i64::from(config.source[axis + 1]);
        let mut inside = place;
        for (axis, place) in inside.iter_mut().enumerate() {
            *place = (*place).clamp(0, extent(axis) - 1);
        }
        let value = match (inside == place, config.pad) {
            (false, i16::MIN) if !nearest => return None,
            (false, pad) if pad != i16::MIN => f32::from(pad),
            _ => {
                let [row, column] = [0, 1].map(|axis| inside[axis] - i64::from(vector.start[axis]));
                let offset = (row * i64::from(input.tensor[2]) + column) * input.pixel;
                self.element_at(core, vector, input, offset, c, 0)
            }
        };
        Some(self.groups(core, vector, c, value, None))
    }

    /// Sum group 0, ReLU, compare of single positions, scalar module, shift.
    fn after(&self, core: usize, vector: &Vector, mut value: f32, other: Option<f32>) -> f32 {
        let config = &vector.config;
        if vector.modules & SUM0 != 0 {
            let addend = other.unwrap_or_else(|| self.scalar(core, config.sum0.1));
            value = if config.sum0.0 == SG0M::SUB { value - addend } else { value + addend };
        }
        if vector.groups & RELU != 0 {
            value = rectified(value);
        }
        if vector.modules & COMPARE != 0 && vector.kind == VectorKind::Single {
            value = extreme(value, self.scalar(core, config.compare.1), config.compare.0);
        }
        if vector.modules & SCALAR != 0 {
            let (mode, factor, sum) = config.scalar;
            let (factor, sum) = (self.scalar(core, factor), self.scalar(core, sum));
            value = if mode == SUMM::SUB { value * factor - sum } else { value * factor + sum };
        }
        value / f32::from(1u8 << vector.shift)
    }

    /// The quantiser and the conversion.
    fn post(&mut self, vector: &Vector, mut value: f32, code: &mut [u8]) {
        let config = &vector.config;
        let (rounding, mode, offset, factor) = config.quantiser;
        if vector.modules & POST != 0 {
            if vector.quantise & 1 != 0 {
                value *= factor;
            }
            if vector.quantise & 2 != 0 {
                value = if mode == QSMD::SUB { value - offset } else { value + offset };
            }
        }
        let (format, signed) = (config.formats[1], config.signed[1]);
        encode(value, format, rounding, signed, code, &mut self.counts);
    }
}

/// The scalar result so far: the extreme where compare is on, else the sum.
fn scalar_result(vector: &Vector, old: Option<f32>, value: f32) -> f32 {
    match (old, vector.modules & COMPARE != 0) {
        (None, _) => value,
        (Some(old), false) => old + value,
        (Some(old), true) => extreme(old, value, vector.config.compare.0),
    }
}

/// The smaller or larger number; of equal ones (zeros with different signs) the old one, and a
/// number rather than NaN.
#[inline(always)]
pub(super) fn extreme(old: f32, new: f32, kept: CMPS) -> f32 {
    let better = if kept == CMPS::MIN { new < old } else { new > old };
    if better || old.is_nan() { new } else { old }
}
