//! Vector instructions: each module is a loop over the values of some output positions.

use super::Scratch;
use super::codes::{Code, decode, encode};
use super::place::{Axes, Tensor};
use super::pool::Windows;
use crate::isa::{CMPS, Float2Fixed, MG0S, QSMD, SG0M, SG1M, SUMM};
use crate::simulate::conv::rectified;
use crate::simulate::state::{Counts, State};
use crate::simulate::vector::{COMPARE, MULTIPLY, POST, RELU, SCALAR, SUM0, SUM1, extreme};
use crate::work::{self, Place, Scalar, VectorKind};
use quincunx_num::{Level, Loop};

/// Values that are worked on together, which stay in the first-level cache.
const VALUES: usize = 4096;

/// A vector instruction whose tensors do not wrap in their rings; outputs share no byte with inputs,
/// or each lies in the place of its input.
pub(super) struct Vector {
    core: usize,
    input: Input,
    output: Tensor,
    output_code: Code,
    channels: usize,
    rows: usize,
    columns: usize,
    pub(super) modules: Modules,
    post: Post,
}

enum Input {
    /// One or two tensors of which each output has its own position.
    Single(Operand, Option<Operand>),
    Windows(Windows),
}

/// A tensor that is read position by position.
struct Operand {
    first: usize,
    /// Bytes from an output row and column to the next: 0 on an axis with one entry.
    row: usize,
    column: usize,
    /// One number counts for all channels.
    splat: bool,
    code: Code,
    map: Option<(f32, f32)>,
}

/// Scalars may be those of registers, which are known when the line runs.
pub(super) struct Modules {
    /// Channels on which groups work.
    segment: usize,
    /// Multiplication group 0: by tensor 1 without a scalar.
    multiply: Option<Option<Scalar>>,
    /// Sum group 1.
    sum1: Option<(SG1M, Scalar)>,
    /// Sum group 0: with tensor 1 without a scalar.
    sum0: Option<(SG0M, Option<Scalar>)>,
    relu: bool,
    /// Compare of single positions.
    compare: Option<(CMPS, Scalar)>,
    /// Scalar module: sum mode, factor, sum.
    scalar: Option<(SUMM, Scalar, Scalar)>,
    /// 2^SHMD.
    divisor: f32,
}

/// The quantiser.
struct Post {
    factor: Option<f32>,
    offset: Option<(QSMD, f32)>,
    rounding: Float2Fixed,
}

impl Vector {
    pub(super) fn prepare(
        core: usize,
        vector: &work::Vector,
        axes: &mut Axes,
        state: &State,
    ) -> Option<Vector> {
        let config = &vector.config;
        // The executor alone says which NaN 32-bit results are, and in which order scalars are summed.
        if vector.output_bytes() == 4 || matches!(vector.scalar_result, 1..=3) {
            return None;
        }
        let bytes = vector.output_bytes();
        let output = Tensor::new(state, core, vector.output, (1, config.tile), config.dest, bytes)?;
        let input = match vector.kind {
            VectorKind::Single => {
                let first = Operand::new(core, vector, 0, &output, state)?;
                let second = match vector.has_second() {
                    true => Some(Operand::new(core, vector, 1, &output, state)?),
                    false => None,
                };
                Input::Single(first, second)
            }
            VectorKind::Pool | VectorKind::Enlarge => {
                Input::Windows(Windows::new(core, vector, &output, axes, state)?)
            }
        };
        let [channels, rows, columns] = config.tile.map(|extent| extent as usize);
        Some(Vector {
            core,
            input,
            output,
            output_code: Code::new(bytes, config.signed[1]),
            channels,
            rows,
            columns,
            modules: Modules::new(vector),
            post: Post::new(vector),
        })
    }

    pub(super) fn run(&self, state: &mut State, scratch: &mut Scratch, level: Level) {
        let core = &mut state.cores[self.core];
        let scalars = core.scalars;
        let (values, l2, counts) = (&mut scratch.values, &mut core.l2, &mut state.counts);
        level.run(Run { vector: self, scalars, values, l2, counts });
    }
}

impl Operand {
    /// Tensor 0 or 1. `None` when it wraps, or what is written changes what is read later.
    fn new(
        core: usize,
        vector: &work::Vector,
        index: usize,
        output: &Tensor,
        state: &State,
    ) -> Option<Operand> {
        let config = &vector.config;
        let place: Place = [vector.input, vector.second][index];
        let tensor = vector.masked([config.first_axes, config.second_axes][index]);
        let bytes = vector.input_bytes();
        let [stride_h, stride_w] = config.stride;
        let [channels, rows, columns] = config.tile;
        let touched = [channels, (rows - 1) * stride_h + 1, (columns - 1) * stride_w + 1];
        let touched = [0, 1, 2].map(|axis| if tensor[axis] == 1 { 1 } else { touched[axis] });
        let read = Tensor::new(state, core, place, (1, touched), tensor, bytes)?;
        let step = |axis: usize, pitch: usize| {
            if tensor[axis] == 1 { 0 } else { pitch * config.stride[axis - 1] as usize }
        };
        let (row, column) = (step(1, read.row), step(2, read.pixel));
        let splat = tensor[0] == 1 && channels > 1;
        let same_rows = rows == 1 || row == output.row;
        let same_columns = columns == 1 || column == output.pixel;
        let in_place = read.first == output.first && same_rows && same_columns;
        if !in_place && !read.extent.is_apart(&output.extent) {
            return None;
        }
        Some(Operand {
            first: read.first,
            row,
            column,
            splat,
            code: Code::new(bytes, config.signed[0]),
            map: vector.dequantise.then_some(config.dequantisers[index]),
        })
    }

    /// The values of some columns of a row.
    #[inline(always)]
    fn load(&self, l2: &[u8], y: usize, x: usize, channels: usize, values: &mut [f32]) {
        let bytes = self.code.bytes();
        let first = self.first + y * self.row + x * self.column;
        if !self.splat && self.column == channels * bytes {
            return decode(&l2[first..][..values.len() * bytes], self.code, self.map, values);
        }
        for (x, values) in values.chunks_exact_mut(channels).enumerate() {
            let at = first + x * self.column;
            if self.splat {
                let mut value = [0.0];
                decode(&l2[at..][..bytes], self.code, self.map, &mut value);
                values.fill(value[0]);
            } else {
                decode(&l2[at..][..channels * bytes], self.code, self.map, values);
            }
        }
    }
}

impl Modules {
    fn new(vector: &work::Vector) -> Modules {
        let config = &vector.config;
        let module = |bit: u8| vector.modules & bit != 0;
        let (channels, tensors) = (config.tile[0] as usize, vector.has_second());
        let segment = match config.segment {
            Ok(Some(channels)) => channels as usize,
            _ => channels,
        };
        Modules {
            segment: segment.min(channels),
            multiply: module(MULTIPLY).then_some(match config.multiply.0 {
                MG0S::TENSOR => None,
                _ => Some(config.multiply.1),
            }),
            sum1: (vector.groups & SUM1 != 0).then_some(config.sum1),
            sum0: module(SUM0).then_some((config.sum0.0, (!tensors).then_some(config.sum0.1))),
            relu: vector.groups & RELU != 0,
            compare: (module(COMPARE) && vector.kind == VectorKind::Single)
                .then_some(config.compare),
            scalar: module(SCALAR).then_some(config.scalar),
            divisor: f32::from(1_u8 << vector.shift),
        }
    }

    /// Multiplication group 0 and sum group 1 on whole positions.
    #[inline(always)]
    pub(super) fn groups(
        &self,
        values: &mut [f32],
        others: Option<&[f32]>,
        channels: usize,
        scalars: [f32; 3],
    ) {
        if self.multiply.is_none() && self.sum1.is_none() {
            return;
        }
        for (index, values) in values.chunks_exact_mut(channels).enumerate() {
            let values = &mut values[..self.segment];
            match (self.multiply, others) {
                (Some(None), Some(others)) => {
                    for (value, other) in values.iter_mut().zip(&others[index * channels..]) {
                        *value *= other;
                    }
                }
                (Some(Some(factor)), _) => {
                    let factor = number(factor, scalars);
                    values.iter_mut().for_each(|value| *value *= factor);
                }
                (None, _) | (Some(None), None) => {}
            }
            if let Some((mode, scalar)) = self.sum1 {
                let scalar = number(scalar, scalars);
                match mode {
                    SG1M::SUB => values.iter_mut().for_each(|value| *value -= scalar),
                    _ => values.iter_mut().for_each(|value| *value += scalar),
                }
            }
        }
    }

    /// Sum group 0, ReLU, compare, scalar module, shift.
    #[inline(always)]
    fn after(&self, values: &mut [f32], others: Option<&[f32]>, scalars: [f32; 3]) {
        match (self.sum0, others) {
            (Some((SG0M::SUB, None)), Some(others)) => {
                values.iter_mut().zip(others).for_each(|(value, other)| *value -= other);
            }
            (Some((_, None)), Some(others)) => {
                values.iter_mut().zip(others).for_each(|(value, other)| *value += other);
            }
            (Some((mode, Some(scalar))), _) => {
                let scalar = number(scalar, scalars);
                match mode {
                    SG0M::SUB => values.iter_mut().for_each(|value| *value -= scalar),
                    _ => values.iter_mut().for_each(|value| *value += scalar),
                }
            }
            (None, _) | (Some((_, None)), None) => {}
        }
        if self.relu {
            values.iter_mut().for_each(|value| *value = rectified(*value));
        }
        if let Some((kept, scalar)) = self.compare {
            let scalar = number(scalar, scalars);
            values.iter_mut().for_each(|value| *value = extreme(*value, scalar, kept));
        }
        if let Some((mode, factor, sum)) = self.scalar {
            let (factor, sum) = (number(factor, scalars), number(sum, scalars));
            match mode {
                SUMM::SUB => values.iter_mut().for_each(|value| *value = *value * factor - sum),
                _ => values.iter_mut().for_each(|value| *value = *value * factor + sum),
            }
        }
        if self.divisor != 1.0 {
            values.iter_mut().for_each(|value| *value /= self.divisor);
        }
    }
}

/// An immediate or the number of a register.
#[inline(always)]
fn number(scalar: Scalar, registers: [f32; 3]) -> f32 {
    match scalar.register {
        register @ 1..=3 => registers[usize::from(register) - 1],
        _ => scalar.immediate,
    }
}

impl Post {
    fn new(vector: &work::Vector) -> Post {
        let (rounding, mode, offset, factor) = vector.config.quantiser;
        let stage = |bit: u8| vector.modules & POST != 0 && vector.quantise & bit != 0;
        Post {
            factor: stage(1).then_some(factor),
            offset: stage(2).then_some((mode, offset)),
            rounding,
        }
    }

    #[inline(always)]
    fn apply(&self, values: &mut [f32]) {
        if let Some(factor) = self.factor {
            values.iter_mut().for_each(|value| *value *= factor);
        }
        match self.offset {
            Some((QSMD::SUB, offset)) => values.iter_mut().for_each(|value| *value -= offset),
            Some((_, offset)) => values.iter_mut().for_each(|value| *value += offset),
            None => {}
        }
    }
}

/// A line at work.
struct Run<'a> {
    vector: &'a Vector,
    scalars: [f32; 3],
    values: &'a mut [Vec<f32>; 3],
    l2: &'a mut [u8],
    counts: &'a mut Counts,
}

impl Loop for Run<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let Vector { channels, rows, columns, .. } = *self.vector;
        let (vector, modules) = (self.vector, &self.vector.modules);
        let most = (VALUES / channels).clamp(1, columns);
        let [values, others, window] = self.values;
        values.resize(most * channels, 0.0);
        others.resize(most * channels, 0.0);
        window.resize(channels, 0.0);
        for y in 0..rows {
            for x in (0..columns).step_by(most) {
                let count = most.min(columns - x) * channels;
                let values = &mut values[..count];
                let mut second = None;
                match &vector.input {
                    Input::Single(first, other) => {
                        first.load(self.l2, y, x, channels, values);
                        if let Some(other) = other {
                            other.load(self.l2, y, x, channels, &mut others[..count]);
                            second = Some(&others[..count]);
                        }
                        modules.groups(values, second, channels, self.scalars);
                    }
                    Input::Windows(windows) => {
                        for (x, values) in (x..).zip(values.chunks_exact_mut(channels)) {
                            windows.reduce(
                                self.l2,
                                modules,
                                self.scalars,
                                [y, x],
                                (values, window),
                            );
                        }
                    }
                }
                modules.after(values, second, self.scalars);
                vector.post.apply(values);
                vector.store(values, [y, x], self.l2, self.counts);
            }
        }
    }
}

impl Vector {
    /// Writes the values of some columns of a row.
    #[inline(always)]
    fn store(&self, values: &[f32], [y, x]: [usize; 2], l2: &mut [u8], counts: &mut Counts) {
        let (bytes, rounding) = (self.output_code.bytes(), self.post.rounding);
        let first = self.output.first + y * self.output.row + x * self.output.pixel;
        let together = self.output.pixel == self.channels * bytes;
        let length = if together { values.len() } else { self.channels };
        for (x, values) in values.chunks_exact(length).enumerate() {
            let out = &mut l2[first + x * self.output.pixel..][..length * bytes];
            encode(values, self.output_code, rounding, out, counts);
        }
    }
}
