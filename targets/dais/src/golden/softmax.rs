//! Softmax by tables: what the tables hold, from their definition.

use super::{Fixed, function, index_of};
use quincunx_diag::Result;
use quincunx_graph::Softmax;
use quincunx_num::{Int, Ratio, Rounding, power_of_two, round_ratio};
use quincunx_tensor::DType;

/// `number` rounded to so many fraction bits.
fn rounded(number: &Ratio, bits: u32, rounding: Rounding) -> Ratio {
    let scale = Ratio::from(power_of_two(bits));
    Ratio::from(round_ratio(&(number * &scale), rounding)) / scale
}

/// Powers of e of the distances from the largest number, with `bits + 2 + log2 n` fraction bits,
/// times the inverse of their sum, which is looked up by `bits + 2` of its fraction bits and has as
/// many itself.
pub(super) fn softmax(softmax: &Softmax, x: &Fixed, bits: u32, dtype: DType) -> Result<Fixed> {
    let count = x.shape[softmax.axis];
    let mut results = vec![Ratio::ZERO; x.codes.len()];
    let numbers: Vec<Ratio> = x.numbers().collect();
    let kept = bits + 2;
    let levels = count.next_power_of_two().trailing_zeros();
    for first in 0..numbers.len() {
        if index_of(first, &x.shape)[softmax.axis] != 0 {
            continue;
        }
        let step: usize = x.shape[softmax.axis + 1..].iter().product();
        let line: Vec<usize> = (0..count).map(|i| first + i * step).collect();
        if count == 1 {
            results[first] = Ratio::ONE;
            continue;
        }
        let top = line.iter().map(|&at| numbers[at].clone()).max().unwrap_or(Ratio::ZERO);
        let mut powers = Vec::with_capacity(count);
        for &at in &line {
            let power = function::in_f64(&(&numbers[at] - &top), dtype, f64::exp)?;
            powers.push(rounded(&power, kept + levels, Rounding::HalfEven));
        }
        let total = powers.iter().fold(Ratio::ZERO, |sum, power| sum + power);
        let middle = Ratio::from_parts_signed(Int::ONE, power_of_two(kept + 1));
        let known = rounded(&total, kept, Rounding::Floor) + middle;
        let inverse = rounded(&(Ratio::ONE / known), kept, Rounding::HalfEven);
        for (&at, power) in line.iter().zip(powers) {
            results[at] = power * &inverse;
        }
    }
    Ok(Fixed::of(&x.shape, &results, false))
}
