//! Numbers in and out: floats of samples one after the other, to and from lines of integers.

use super::integer::{Integer, LINE};
use super::node::Wrap;
use super::step::Port;

/// Samples of a block, each with a number for every input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'a> {
    pub(super) numbers: &'a [f64],
    pub(super) columns: usize,
    /// Samples; those beyond whole lines are not vectorised.
    pub(super) samples: usize,
}

/// Floors below this become integers by adding a large float.
const SMALL: f64 = (1_i64 << 51) as f64;

/// Added to an integer of a magnitude below [`SMALL`], it leaves the integer in the bits of the
/// float.
const MAGIC: f64 = 3.0 * SMALL;

/// Powers of two up to this and their inverses are normal floats, and so are products of numbers
/// that are not tiny with them.
const MAX_SCALE: i32 = 900;

/// True when there is neither an infinity nor a NaN.
#[inline(always)]
pub(super) fn are_finite(numbers: &[f64]) -> bool {
    const INFINITY: u64 = f64::INFINITY.to_bits();
    let largest = numbers.iter().fold(0, |most: u64, x| most.max(x.to_bits() & !(1 << 63)));
    largest < INFINITY
}

/// The floors of an input times `2^scale`, wrapped. All numbers are finite.
#[inline(always)]
pub(super) fn read<T: Integer>(rows: Rows<'_>, column: usize, scale: i32, to: Wrap, out: &mut [T]) {
    let factor = if scale.abs() <= MAX_SCALE { 2_f64.powi(scale) } else { f64::NAN };
    let lines = rows.numbers.chunks_exact(rows.columns * LINE);
    let cut = T::BITS - to.width;
    let mask = T::low_bits(if to.signed { -1 } else { to.mask() });
    let cut = if to.signed { cut } else { 0 };
    let (whole, rest) = out.as_chunks_mut::<LINE>();
    let numbers = &rows.numbers[whole.len() * LINE * rows.columns..];
    for (out, row) in rest.iter_mut().zip(numbers.chunks_exact(rows.columns)) {
        let integer = scaled_floor(row[column], scale);
        *out = T::low_bits(integer).left(cut).right(cut).and(mask);
    }
    for (out, numbers) in whole.iter_mut().zip(lines) {
        let mut line = [0.0; LINE];
        for (x, row) in line.iter_mut().zip(numbers.chunks_exact(rows.columns)) {
            *x = row[column];
        }
        let mut is_small = true;
        let mut integers = [0_i64; LINE];
        for (integer, &x) in integers.iter_mut().zip(&line) {
            let scaled = x * factor;
            let floor = scaled.floor();
            // What is rounded to 0 may have been less.
            is_small &= (floor.abs() < SMALL) & ((scaled != 0.0) | (x == 0.0));
            // Floats between 2^52 and 2^53 are as far apart as their bits.
            *integer = (floor + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()).cast_signed();
        }
        if !is_small {
            integers = line.map(|x| scaled_floor(x, scale));
        }
        for (out, &integer) in out.iter_mut().zip(&integers) {
            *out = T::low_bits(integer).left(cut).right(cut).and(mask);
        }
    }
}

/// The low 64 bits of the floor of a finite number times `2^scale`.
#[inline(never)]
fn scaled_floor(x: f64, scale: i32) -> i64 {
    let bits = x.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i64, (bits & ((1 << 52) - 1)) as i64);
    let (magnitude, exponent) = match exponent {
        0 => (fraction, -1074),
        _ => (fraction | 1 << 52, exponent - 1075),
    };
    let value = if x < 0.0 { -magnitude } else { magnitude };
    match exponent + i64::from(scale) {
        by @ 0..64 => value << by,
        64.. => 0,
        by => value >> by.unsigned_abs().min(63),
    }
}

/// Writes an output of a block into its column of so many.
#[inline(always)]
pub(super) fn write<T: Integer>(
    integers: &[T],
    port: &Port,
    numbers: &mut [f64],
    column: usize,
    columns: usize,
) {
    let real = |integer: &T| {
        let value = integer.real();
        // There is no negative zero.
        let value = if port.negate { 0.0 - value } else { value };
        value * port.scale
    };
    let (whole, rest) = integers.as_chunks::<LINE>();
    let (lines, others) = numbers.split_at_mut(whole.len() * LINE * columns);
    for (integer, row) in rest.iter().zip(others.chunks_exact_mut(columns)) {
        row[column] = real(integer);
    }
    for (line, numbers) in whole.iter().zip(lines.chunks_exact_mut(columns * LINE)) {
        let mut reals = [0.0; LINE];
        for (result, integer) in reals.iter_mut().zip(line) {
            *result = real(integer);
        }
        for (row, &real) in numbers.chunks_exact_mut(columns).zip(&reals) {
            row[column] = real;
        }
    }
}
