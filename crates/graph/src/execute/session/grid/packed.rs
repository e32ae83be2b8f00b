//! Packed weights of layers on integers.

use super::super::data::{Data, Integer, Ints, with_ints};
use super::super::real::convolve;
use super::super::threads::Threads;
use super::super::value::GridValue;
use super::ranges::Width;
use quincunx_diag::Result;
use quincunx_num::{ConvShape, Convolution, Left, Level, Matrix, Packed};

/// The integers minus their zero point.
pub(super) fn centred(ints: &Ints, zero: i64) -> Vec<i64> {
    with_ints!(ints, values => values.iter().map(|&v| Integer::wide(v) - zero).collect())
}

/// Starts that make up for the zero point: minus it times the sum of a channel's weights, modulo
/// 2^32.
fn starts(weights: &[i64], depth: usize, zero: i64) -> Vec<i32> {
    let start = |weights: &[i64]| {
        let sum = weights.iter().fold(0_i64, |sum, &w| sum.wrapping_add(w));
        sum.wrapping_mul(zero).wrapping_neg() as i32
    };
    weights.chunks(depth.max(1)).map(start).collect()
}

fn narrowed<T: Integer>(values: &[i64]) -> Vec<T> {
    values.iter().map(|&v| T::narrow(v)).collect()
}

/// A convolution on narrow integers.
pub(super) struct ConvLayer {
    packed: PackedConv,
    starts: Vec<i32>,
    zero: i64,
}

enum PackedConv {
    U8(Convolution<u8>),
    I8(Convolution<i8>),
    I16(Convolution<i16>),
}

impl ConvLayer {
    /// `None` for 64 bits.
    pub(super) fn new(
        shape: ConvShape,
        width: Width,
        weights: &[i64],
        x: &GridValue,
        level: Level,
    ) -> Option<Self> {
        let zero = x.uniform_zero()?;
        let packed = match width {
            Width::U8 => PackedConv::U8(Convolution::for_level(shape, &narrowed(weights), level)),
            Width::I8 => PackedConv::I8(Convolution::for_level(shape, &narrowed(weights), level)),
            Width::I16 => PackedConv::I16(Convolution::for_level(shape, &narrowed(weights), level)),
            Width::I64 => return None,
        };
        let depth = weights.len() / shape.outputs;
        Some(ConvLayer { packed, starts: starts(weights, depth, zero), zero })
    }

    pub(super) fn run(&self, threads: Threads, x: &Ints) -> Result<Data> {
        let (starts, zero) = (&self.starts, self.zero);
        let sums = match &self.packed {
            PackedConv::U8(conv) => convolve(threads, conv, &x.as_u8(), zero as u8, starts),
            PackedConv::I8(conv) => convolve(threads, conv, &x.as_i8(), zero as i8, starts),
            PackedConv::I16(conv) => convolve(threads, conv, &x.as_i16(), zero as i16, starts),
        };
        Ok(Data::Ints(Ints::I32(sums)))
    }
}

/// A packed right-hand side, or the plain one for 64 bits, columns first.
pub(super) enum Sides {
    U8(Packed<u8>, Vec<i32>),
    I8(Packed<i8>, Vec<i32>),
    I16(Packed<i16>, Vec<i32>),
    I64(Vec<i64>),
}

impl Sides {
    pub(super) fn new(
        width: Width,
        columns: &[i64],
        depth: usize,
        count: usize,
        level: Level,
    ) -> Self {
        let sums = || {
            let sum =
                |weights: &[i64]| weights.iter().fold(0_i64, |s, &w| s.wrapping_add(w)) as i32;
            columns.chunks(depth.max(1)).map(sum).collect::<Vec<i32>>()
        };
        fn pack<L: Left>(
            right: &[L::Right],
            depth: usize,
            count: usize,
            level: Level,
        ) -> Packed<L> {
            Packed::for_level(Matrix::row_major(right, count, depth).transposed(), level)
        }
        match width {
            Width::U8 => Sides::U8(pack(&narrowed::<i8>(columns), depth, count, level), sums()),
            Width::I8 => Sides::I8(pack(&narrowed::<i8>(columns), depth, count, level), sums()),
            Width::I16 => Sides::I16(pack(&narrowed::<i16>(columns), depth, count, level), sums()),
            Width::I64 => Sides::I64(columns.to_vec()),
        }
    }
}

/// A product with a constant right-hand side.
pub(super) struct ProductLayer {
    pub(super) sides: Sides,
    pub(super) zero: i64,
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
}

impl ProductLayer {
    pub(super) fn run(&self, threads: Threads, x: &Ints) -> Result<Data> {
        Ok(Data::Ints(match &self.sides {
            Sides::U8(packed, sums) => Ints::I32(self.multiply(threads, packed, sums, &x.as_u8())),
            Sides::I8(packed, sums) => Ints::I32(self.multiply(threads, packed, sums, &x.as_i8())),
            Sides::I16(packed, sums) => {
                Ints::I32(self.multiply(threads, packed, sums, &x.as_i16()))
            }
            Sides::I64(right) => Ints::I64(self.multiply_wide(right, &centred(x, self.zero))),
        }))
    }

    fn multiply<L: Left<Sum = i32>>(
        &self,
        threads: Threads,
        packed: &Packed<L>,
        sums: &[i32],
        left: &[L],
    ) -> Vec<i32> {
        let (depth, columns) = (self.depth, self.columns);
        let mut out = vec![0; self.rows * columns];
        if out.is_empty() {
            return out;
        }
        let work = (out.len() * depth) as u64;
        let rows = threads.part_size(self.rows, 8, work);
        threads.each(out.chunks_mut(rows * columns).enumerate(), |(index, out)| {
            let count = out.len() / columns;
            for row in out.chunks_mut(columns) {
                for (start, sum) in row.iter_mut().zip(sums) {
                    *start = sum.wrapping_mul(self.zero as i32).wrapping_neg();
                }
            }
            let left = Matrix::row_major(&left[index * rows * depth..], count, depth);
            packed.multiply_add(left, out, columns);
        });
        out
    }

    fn multiply_wide(&self, right: &[i64], left: &[i64]) -> Vec<i64> {
        let mut out = Vec::with_capacity(self.rows * self.columns);
        for row in 0..self.rows {
            let left = &left[row * self.depth..][..self.depth];
            for column in 0..self.columns {
                let right = &right[column * self.depth..][..self.depth];
                out.push(left.iter().zip(right).map(|(a, b)| a * b).sum());
            }
        }
        out
    }
}

impl Ints {
    /// A row-major matrix of so many rows with its axes exchanged.
    pub(super) fn transposed(&self, rows: usize) -> Ints {
        fn turn<T: Copy + Default>(values: &[T], rows: usize) -> Vec<T> {
            let mut turned = vec![T::default(); values.len()];
            if rows > 0 && !values.is_empty() {
                quincunx_num::transpose(values, rows, &mut turned);
            }
            turned
        }
        match self {
            Ints::U8(values) => Ints::U8(turn(values, rows)),
            Ints::I8(values) => Ints::I8(turn(values, rows)),
            Ints::I16(values) => Ints::I16(turn(values, rows)),
            Ints::I32(values) => Ints::I32(turn(values, rows)),
            Ints::I64(values) => Ints::I64(turn(values, rows)),
        }
    }
}
