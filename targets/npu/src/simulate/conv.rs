//! Convolutions. Facts: `gemini`, `qiming` (`docs/bibliography.md`).

use super::exec::Settings;
use super::state::{Counts, State};
use crate::isa::{ActMode, DataFmt, Float2Fixed};
use crate::regions::Region;
use crate::work::{Conv, PARAMETER_BYTES, buffer_row_bytes, ceil8, element_bytes, pitch};
use quincunx_diag::Result;
use quincunx_num::{F16, FloatOverflow};

/// Products that a sum of 32 bits holds without overflow, with room to spare.
const CHUNK: usize = 1 << 15;

impl State {
    pub(super) fn conv(
        &mut self,
        core: usize,
        conv: &Conv,
        unit: u32,
        settings: Settings,
    ) -> Result<()> {
        let rings = [self.region(core, conv.input)?, self.region(core, conv.output)?];
        let [n, k, _, h, w] = conv.tile;
        let per_group = k / conv.groups.max(1);
        let mut patch = vec![0; patch_length(conv)];
        let mut results = vec![0.0; k as usize];
        for position in
            (0..n).flat_map(|n| (0..h).flat_map(move |y| (0..w).map(move |x| [n, y, x])))
        {
            for group in 0..conv.groups {
                self.gather(core, conv, rings[0], position, group, &mut patch);
                for k in group * per_group..(group + 1) * per_group {
                    results[k as usize] = self.scaled(core, conv, unit, k, &patch, settings);
                }
            }
            self.finish(core, conv, rings[1], position, &mut results);
        }
        Ok(())
    }

    /// The inputs under the kernel, channels together, each position padded to 8 channels.
    pub(super) fn gather(
        &self,
        core: usize,
        conv: &Conv,
        ring: Region,
        [n, y, x]: [u32; 3],
        group: u32,
        patch: &mut [i16],
    ) {
        let [channels, rows, columns] = conv.weight_row();
        let pad = conv.pad.value() as i16;
        let pixel = i64::from(pitch(conv.source[0], element_bytes(conv.formats[0])));
        let image = i64::from(conv.source[1]) * i64::from(conv.source[2]) * pixel;
        let first = conv.input.address + i64::from(n) * image + i64::from(group * channels);
        let mut bytes = vec![0; channels as usize];
        // A position in the input with zeros inserted, as a position of the input.
        let inside = |axis: usize, output: u32, kernel: u32| {
            let step = i64::from(output) * i64::from(conv.stride[axis])
                + i64::from(kernel) * i64::from(conv.dilate[axis]);
            let spread = i64::from(conv.start[axis]) + step;
            let insert = i64::from(conv.insert[axis]);
            let place = spread.div_euclid(insert);
            let exists = spread.rem_euclid(insert) == 0
                && (0..i64::from(conv.source[axis + 1])).contains(&place);
            exists.then_some(place - i64::from(conv.start[axis]))
        };
        let width = ceil8(channels) as usize;
        for r in 0..rows {
            for s in 0..columns {
                let at = (r * columns + s) as usize * width;
                let place = &mut patch[at..at + channels as usize];
                match (inside(0, y, r), inside(1, x, s)) {
                    (Some(row), Some(column)) => {
                        let offset = (row * i64::from(conv.source[2]) + column) * pixel;
                        self.cores[core].read(ring, first + offset, &mut bytes);
                        for (place, &byte) in place.iter_mut().zip(&bytes) {
                            *place =
                                if conv.signed[0] { i16::from(byte as i8) } else { byte.into() };
                        }
                    }
                    _ => place.fill(pad),
                }
            }
        }
    }

    /// The sum of an output channel, times a, plus b.
    fn scaled(
        &self,
        core: usize,
        conv: &Conv,
        unit: u32,
        k: u32,
        patch: &[i16],
        settings: Settings,
    ) -> f32 {
        let row = buffer_row_bytes(conv.weight_row(), 1);
        let start =
            u64::from(conv.weights) * u64::from(unit) + u64::from(k) * (row + PARAMETER_BYTES);
        let (start, row) = (start as usize, row as usize);
        let bytes = &self.cores[core].wl0[start..start + row + 8];
        let weights = &bytes[..patch.len()];
        let sum = match settings.float_accumulation {
            false => exact_sum(weights, patch) as f32,
            true => float_sum(weights, patch, conv),
        };
        let parameter = |at: usize| {
            f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        sum * parameter(row) + parameter(row + 4)
    }

    /// Accumulation with the destination, activation, conversion, and writing.
    fn finish(
        &mut self,
        core: usize,
        conv: &Conv,
        ring: Region,
        [n, y, x]: [u32; 3],
        results: &mut [f32],
    ) {
        let format = conv.formats[2];
        let bytes = element_bytes(format);
        let pixel = i64::from(pitch(conv.dest[0], bytes));
        let [_, height, width] = conv.dest.map(i64::from);
        let place = (i64::from(n) * height + i64::from(y)) * width + i64::from(x);
        let address = conv.output.address + place * pixel;
        let mut buffer = vec![0; results.len() * bytes as usize];
        if let Some((mode, offset, factor)) = conv.accumulate {
            self.cores[core].read(ring, address, &mut buffer);
            for (result, code) in results.iter_mut().zip(buffer.chunks_exact(bytes as usize)) {
                let old = decode(code, format, conv.signed[1]) * factor.single() + offset.single();
                *result += if mode == 1 { rectified(old) } else { old };
            }
        }
        let (rounding, offset, factor) = conv.quantiser;
        for (&result, code) in results.iter().zip(buffer.chunks_exact_mut(bytes as usize)) {
            let active = activate(result, conv.activation.0, conv.activation.1.single());
            let value = match format {
                DataFmt::FP16 => active,
                _ => active * factor.single() + offset.single(),
            };
            encode(value, format, rounding, conv.signed[1], code, &mut self.counts);
        }
        self.cores[core].write(ring, address, &buffer);
    }
}

/// Elements of the patch: kernel positions times channels rounded up.
pub(super) fn patch_length(conv: &Conv) -> usize {
    let [channels, rows, columns] = conv.weight_row();
    ceil8(channels) as usize * rows as usize * columns as usize
}

fn exact_sum(weights: &[u8], patch: &[i16]) -> i64 {
    let chunks = weights.chunks(CHUNK).zip(patch.chunks(CHUNK));
    let sum = |(weights, patch): (&[u8], &[i16])| {
        let products = weights.iter().zip(patch);
        i64::from(products.map(|(&w, &x)| i32::from(w as i8) * i32::from(x)).sum::<i32>())
    };
    chunks.map(sum).sum()
}

/// Sums of eight products are exact; an f32 takes them up position by position, and in each block
/// by block of channels, beginning with block PS.
fn float_sum(weights: &[u8], patch: &[i16], conv: &Conv) -> f32 {
    let width = ceil8(conv.weight_row()[0]) as usize;
    let blocks = width / 8;
    let mut sum = 0.0;
    for (weights, patch) in weights.chunks_exact(width).zip(patch.chunks_exact(width)) {
        for block in 0..blocks {
            let at = (block + conv.phase as usize) % blocks * 8;
            let products = weights[at..at + 8].iter().zip(&patch[at..at + 8]);
            let eight: i32 = products.map(|(&w, &x)| i32::from(w as i8) * i32::from(x)).sum();
            sum += eight as f32;
        }
    }
    sum
}

/// What is above 0, else 0; never the negative zero or NaN.
#[inline(always)]
pub(super) fn rectified(value: f32) -> f32 {
    if value > 0.0 { value } else { 0.0 }
}

#[inline(always)]
pub(super) fn activate(value: f32, mode: ActMode, parameter: f32) -> f32 {
    match mode {
        ActMode::RELU => rectified(value),
        ActMode::LEAKY_RELU if value < 0.0 => value * parameter,
        ActMode::RELU_X => value.clamp(0.0, parameter.max(0.0)),
        _ => value,
    }
}

/// Rounds to a whole number.
#[inline(always)]
pub(super) fn round(value: f32, mode: Float2Fixed) -> f32 {
    match mode {
        Float2Fixed::CEIL => value.ceil(),
        Float2Fixed::FLOOR => value.floor(),
        Float2Fixed::TRUNC => value.trunc(),
        _ => value.round_ties_even(),
    }
}

/// The number of a code of 1, 2 or 4 bytes.
pub(super) fn decode(code: &[u8], format: DataFmt, signed: bool) -> f32 {
    match (code, format) {
        (&[a, b, c, d], _) => f32::from_le_bytes([a, b, c, d]),
        (&[a, b], _) => F16::from_bits(u32::from(u16::from_le_bytes([a, b]))).to_f32(),
        (&[a], _) if signed => f32::from(a as i8),
        (&[a], _) => f32::from(a),
        _ => 0.0,
    }
}

/// Writes a number as a code of 1, 2 or 4 bytes. NaN becomes code 0.
pub(super) fn encode(
    value: f32,
    format: DataFmt,
    rounding: Float2Fixed,
    signed: bool,
    code: &mut [u8],
    counts: &mut Counts,
) {
    counts.results += 1;
    match (code.len(), format) {
        (4, _) => code.copy_from_slice(&value.to_le_bytes()),
        (2, _) => {
            let half = F16::from_f32(value, FloatOverflow::Infinity).map_or(0x7e00, F16::to_bits);
            let became = half & 0x7fff == 0x7c00 && value.is_finite();
            counts.infinite += u64::from(became);
            code.copy_from_slice(&(half as u16).to_le_bytes());
        }
        _ => {
            let (low, high) = if signed { (-128.0, 127.0) } else { (0.0, 255.0) };
            let whole = round(value, rounding);
            counts.saturated += u64::from(whole < low || whole > high);
            let limited = whole.clamp(low, high);
            code[0] = if signed { limited as i8 as u8 } else { limited as u8 };
        }
    }
}
