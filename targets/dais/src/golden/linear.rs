//! Products with weights.

use super::movement::transpose;
use super::{Fixed, divisor, exact, index_of, offset};
use quincunx_diag::Result;
use quincunx_graph::{Conv, ConvTranspose, Gemm};
use quincunx_num::{Int, Ratio};

pub(super) fn convolution(
    conv: &Conv,
    x: &Fixed,
    w: &Fixed,
    bias: Option<&Fixed>,
    shape: &[usize],
) -> Result<Fixed> {
    let input = &x.shape[2..];
    let (plane, taps): (usize, usize) = (input.iter().product(), w.shape[2..].iter().product());
    let (filters, depth) = (w.shape[0], w.shape[1]);
    let mut codes = Vec::new();
    for n in 0..shape[0] {
        for m in 0..filters {
            let group = m / (filters / conv.groups);
            for position in 0..shape[2..].iter().product() {
                let reads = conv.window.reads(&index_of(position, &shape[2..]), input);
                let mut sum = Int::ZERO;
                for c in 0..depth {
                    for &(source, tap) in &reads {
                        let channel = n * x.shape[1] + group * depth + c;
                        sum += &x.codes[channel * plane + source]
                            * &w.codes[(m * depth + c) * taps + tap];
                    }
                }
                codes.push(sum);
            }
        }
    }
    let sums = Fixed { shape: shape.to_vec(), codes, unit: &x.unit * &w.unit, float: false };
    let bias = bias.map(|b| {
        let mut per_channel = vec![1; shape.len() - 1];
        per_channel[0] = filters;
        Fixed { shape: per_channel, ..b.clone() }
    });
    add_bias(sums, bias)
}

/// `sum over k of a[.., i, k] * b[.., k, j]`; a vector on the left has no `i`, on the right no `j`.
pub(super) fn matrix_product(a: &Fixed, b: &Fixed, shape: &[usize]) -> Fixed {
    let depth = *a.shape.last().expect("an operand of a product has an axis");
    let (has_row, has_column) = (a.shape.len() > 1, b.shape.len() > 1);
    let inner = usize::from(has_row) + usize::from(has_column);
    // From one `k` to the next.
    let step = if has_column { b.shape[b.shape.len() - 1] } else { 1 };
    let codes = (0..shape.iter().product())
        .map(|position| {
            let out = index_of(position, shape);
            let (outer, inner) = out.split_at(out.len() - inner);
            let mut at_a = outer.to_vec();
            at_a.extend(has_row.then(|| inner[0]));
            at_a.push(0);
            let mut at_b = outer.to_vec();
            at_b.push(0);
            at_b.extend(has_column.then(|| inner[inner.len() - 1]));
            let (from_a, from_b) = (offset(&at_a, &a.shape), offset(&at_b, &b.shape));
            (0..depth).map(|k| &a.codes[from_a + k] * &b.codes[from_b + k * step]).sum()
        })
        .collect();
    Fixed { shape: shape.to_vec(), codes, unit: &a.unit * &b.unit, float: false }
}

pub(super) fn general_product(
    gemm: &Gemm,
    a: &Fixed,
    b: &Fixed,
    c: Option<&Fixed>,
    shape: &[usize],
) -> Result<Fixed> {
    let a = if gemm.transpose_a { transpose(a, &[1, 0]) } else { a.clone() };
    let b = if gemm.transpose_b { transpose(b, &[1, 0]) } else { b.clone() };
    let scaled = |x: &Fixed, factor: f32| {
        let factor = exact(f64::from(factor));
        if factor > Ratio::ZERO {
            return Fixed { unit: &x.unit * factor, ..x.clone() };
        }
        let numbers: Vec<Ratio> = x.numbers().map(|number| number * &factor).collect();
        Fixed::of(&x.shape, &numbers, false)
    };
    let sums = scaled(&matrix_product(&a, &b, shape), gemm.alpha);
    add_bias(sums, c.map(|c| scaled(c, gemm.beta)))
}

/// Adds a bias that broadcasts to the sums.
fn add_bias(sums: Fixed, bias: Option<Fixed>) -> Result<Fixed> {
    let Some(bias) = bias else { return Ok(sums) };
    // Both in units of one fraction.
    let own = |x: &Fixed| Int::from(x.unit.denominator().clone());
    let common = own(&sums) / divisor(&own(&sums), &own(&bias)) * own(&bias);
    let factor = |x: &Fixed| x.unit.numerator() * (&common / own(x));
    let (of_sum, of_bias) = (factor(&sums), factor(&bias));
    let add = |(position, sum): (usize, &Int)| {
        sum * &of_sum
            + &bias.codes[offset(&index_of(position, &sums.shape), &bias.shape)] * &of_bias
    };
    let codes = sums.codes.iter().enumerate().map(add).collect();
    Ok(Fixed { codes, unit: Ratio::from_parts_signed(Int::ONE, common), ..sums })
}

/// Every element of the result collects the products that the definition sends to it.
pub(super) fn transposed(
    conv: &ConvTranspose,
    x: &Fixed,
    w: &Fixed,
    bias: Option<&Fixed>,
    shape: &[usize],
) -> Result<Fixed> {
    let (input, window) = (&x.shape[2..], &conv.window);
    let (plane, taps): (usize, usize) = (input.iter().product(), w.shape[2..].iter().product());
    let (filters, depth) = (w.shape[1], x.shape[1] / conv.groups);
    let mut codes = Vec::new();
    for position in 0..shape.iter().product() {
        let out = index_of(position, shape);
        let (group, filter) = (out[1] / filters, out[1] % filters);
        let mut sum = Int::ZERO;
        for (source, tap) in (0..plane).flat_map(|s| (0..taps).map(move |t| (s, t))) {
            let (at, offsets) = (index_of(source, input), index_of(tap, &window.kernel));
            let meets = (0..input.len()).all(|axis| {
                at[axis] * window.strides[axis] + offsets[axis] * window.dilations[axis]
                    == out[axis + 2] + window.pads[axis].0
            });
            for c in (group * depth..(group + 1) * depth).filter(|_| meets) {
                sum += &x.codes[(out[0] * x.shape[1] + c) * plane + source]
                    * &w.codes[(c * filters + filter) * taps + tap];
            }
        }
        codes.push(sum);
    }
    let sums = Fixed { shape: shape.to_vec(), codes, unit: &x.unit * &w.unit, float: false };
    let bias = bias.map(|bias| {
        let mut per_channel = vec![1; shape.len() - 1];
        per_channel[0] = shape[1];
        Fixed { shape: per_channel, ..bias.clone() }
    });
    add_bias(sums, bias)
}
