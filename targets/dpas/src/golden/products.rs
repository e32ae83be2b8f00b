//! Convolutions and matrix products: exact sums of products with constant weights.

use super::finish::{Unit, ratio, whole_quotient};
use super::misfit;
use super::numbers::{Grid, is_scale};
use super::operands::{Bias, Matrix, Operands, Windows, along};
use super::pools::place;
use quincunx_diag::Result;
use quincunx_graph::{Graph, Node, Param, Value};
use quincunx_num::Ratio;

/// Patches that are multiplied with the weights of an output one after the other.
const TILE: usize = 16;

/// A product of codes with constant weights.
pub(super) struct Product {
    /// What the weights of an output are multiplied with; rows of a matrix without them.
    windows: Option<Windows>,
    weights: Weights,
    /// Added to the sums of every output.
    biases: Vec<i64>,
}

impl Product {
    /// The product that a node is, with the bias that a sum behind it adds, if there is one; and
    /// what the sums of every output mean.
    ///
    /// # Errors
    /// `Q6190` for weights that are no codes of 8 bits with one grid for an output, a bias that is
    /// not one constant for an output, and for attributes that the machine does not have.
    pub(super) fn new(
        graph: &Graph,
        node: &Node,
        sum: Option<&Node>,
        x: Grid,
    ) -> Result<(Product, Vec<Unit>)> {
        let Operands { windows, alpha, weights, matrix, bias } = Operands::new(graph, node, sum)?;
        let weights = Weights::new(weights, &matrix)?;
        let unit = ratio(x.scale) * ratio(alpha.into());
        let units: Vec<Ratio> = weights.scales.iter().map(|&scale| &unit * ratio(scale)).collect();
        let biases = match bias {
            Some(bias) => biases(&bias, &units)?,
            None => units.iter().map(|_| (0, Ratio::ZERO)).collect(),
        };
        let (biases, rests): (Vec<i64>, Vec<Ratio>) = biases.into_iter().unzip();
        let units = units.into_iter().zip(rests).map(|(one, rest)| Unit { one, rest }).collect();
        Ok((Product { windows, weights, biases }, units))
    }

    /// Results of an output that follow one another.
    pub(super) fn run(&self) -> usize {
        self.windows.as_ref().map_or(1, Windows::positions)
    }

    /// The sums, in the order of the result.
    pub(super) fn apply(&self, codes: &[i16]) -> Vec<i64> {
        let Some(windows) = &self.windows else { return self.of_rows(codes) };
        codes
            .chunks_exact(windows.image())
            .flat_map(|image| self.of_image(windows, image))
            .collect()
    }

    fn of_rows(&self, codes: &[i16]) -> Vec<i64> {
        let (depth, outputs) = (self.weights.depth, self.biases.len());
        let mut sums = vec![0; codes.len() / depth * outputs];
        let tiles = codes.chunks(TILE * depth).zip(sums.chunks_mut(TILE * outputs));
        for (rows, sums) in tiles {
            for (output, (weights, bias)) in self.outputs().enumerate() {
                let sums = sums.iter_mut().skip(output).step_by(outputs);
                let rows = rows.chunks_exact(depth);
                rows.zip(sums).for_each(|(row, sum)| *sum = dot(row, weights) + bias);
            }
        }
        sums
    }

    fn of_image(&self, windows: &Windows, image: &[i16]) -> Vec<i64> {
        let Windows { window, groups, channels, input, output } = windows;
        let (depth, plane) = (self.weights.depth, input.iter().product::<usize>());
        let (positions, taps) = (windows.positions(), windows.taps());
        let group_codes = channels / groups * plane;
        let mut sums = vec![0; positions * self.biases.len()];
        let group_sums = sums.len() / groups;
        let mut patches = vec![0; TILE * depth];
        for first in (0..positions).step_by(TILE) {
            let tile = first..positions.min(first + TILE);
            let reads = tile.clone().map(|at| window.reads(&place(at, output), input));
            let reads: Vec<Vec<(usize, usize)>> = reads.collect();
            let of_groups = image.chunks_exact(group_codes).zip(sums.chunks_exact_mut(group_sums));
            for (group, (image, sums)) in of_groups.enumerate() {
                patches.fill(0);
                for (channel, plane) in image.chunks_exact(plane).enumerate() {
                    for (reads, patch) in reads.iter().zip(patches.chunks_exact_mut(depth)) {
                        let part = &mut patch[channel * taps..][..taps];
                        reads.iter().for_each(|&(element, tap)| part[tap] = plane[element]);
                    }
                }
                let outputs = self.outputs().skip(group * (self.biases.len() / groups));
                for (sums, (weights, bias)) in sums.chunks_exact_mut(positions).zip(outputs) {
                    let patches = patches.chunks_exact(depth);
                    for (sum, patch) in sums[tile.clone()].iter_mut().zip(patches) {
                        *sum = dot(patch, weights) + bias;
                    }
                }
            }
        }
        sums
    }

    /// Weights and bias of every output.
    fn outputs(&self) -> impl Iterator<Item = (&[i16], i64)> {
        self.weights.codes.chunks_exact(self.weights.depth).zip(self.biases.iter().copied())
    }
}

/// The sum of the products of two lists of numbers from -255 to 255.
fn dot(a: &[i16], b: &[i16]) -> i64 {
    /// So many products do not leave 32 bits.
    const CHUNK: usize = 1 << 15;
    let product = |(&a, &b): (&i16, &i16)| i32::from(a) * i32::from(b);
    let chunks = a.chunks(CHUNK).zip(b.chunks(CHUNK));
    chunks.map(|(a, b)| i64::from(a.iter().zip(b).map(product).sum::<i32>())).sum()
}

/// Constant weights.
pub(super) struct Weights {
    /// Codes minus their zero points, those of an output one after the other.
    pub(super) codes: Vec<i16>,
    /// Distance between two codes, for every output.
    pub(super) scales: Vec<f64>,
    /// Weights of an output; at least 1.
    depth: usize,
}

impl Weights {
    /// # Errors
    /// `Q6190` for weights that are no codes of 8 bits with one grid for an output.
    pub(super) fn new(value: &Value, matrix: &Matrix) -> Result<Weights> {
        let wrong = |what: &str| misfit(format!("the weights {:?} {what}", value.name));
        let constant = value.constant.as_ref().ok_or_else(|| wrong("are computed"))?;
        let quantiser = constant.quantiser.as_ref().ok_or_else(|| wrong("are no codes"))?;
        let codes = constant.tensor.to_i64().ok_or_else(|| wrong("are no codes"))?;
        if quantiser.width.values().iter().any(|&width| width > 8) {
            return Err(wrong("are codes of more than 8 bits"));
        }
        let several = || wrong("have several grids for an output");
        let zeros = per_output(&quantiser.zero, &value.shape, matrix.axis).ok_or_else(several)?;
        let scales = per_output(&quantiser.scale, &value.shape, matrix.axis).ok_or_else(several)?;
        if !scales.iter().all(|&scale| is_scale(scale)) {
            return Err(wrong("have a scale that is no f32 number"));
        }
        let centred = |(at, code): (usize, i64)| {
            let code = code.checked_sub(zeros[matrix.output_of(at)])?;
            i16::try_from(code).ok().filter(|code| (-255..=255).contains(code))
        };
        let codes: Option<Vec<i16>> = codes.into_iter().enumerate().map(centred).collect();
        let codes = codes.ok_or_else(|| wrong("are no codes of 8 bits"))?;
        Ok(Weights { codes: matrix.by_output(codes), scales, depth: matrix.depth })
    }
}

/// A parameter of every output, which varies along that axis of the weights only.
fn per_output<T: Copy + PartialEq>(
    parameter: &Param<T>,
    shape: &[usize],
    axis: Option<usize>,
) -> Option<Vec<T>> {
    match axis {
        Some(axis) => along(parameter.values(), parameter.shape(), (shape, axis)),
        None => Some(vec![parameter.as_uniform()?]),
    }
}

/// A bias in whole units of every output, and what is left of it.
fn biases(bias: &Bias<'_>, units: &[Ratio]) -> Result<Vec<(i64, Ratio)>> {
    let value = bias.value;
    let constant = value.constant.as_ref().ok_or_else(|| bias.wrong("is computed"))?;
    let reals = constant.tensor.to_f64();
    if reals.iter().any(|real| !real.is_finite()) {
        return Err(bias.wrong("is not finite"));
    }
    let mut exact: Vec<Ratio> = reals.into_iter().map(ratio).collect();
    if let Some(quantiser) = &constant.quantiser {
        let scalars = quantiser.scalars(&value.shape);
        let scalars = scalars.ok_or_else(|| bias.wrong("has another shape"))?;
        for (number, scalar) in exact.iter_mut().zip(scalars) {
            *number = (&*number - Ratio::from(scalar.zero)) * scalar.ratio();
        }
    }
    let split = |(real, unit): (&Ratio, &Ratio)| {
        let whole = whole_quotient(real, unit)?;
        Some((whole, real - Ratio::from(whole) * unit))
    };
    let exact = bias.per_output(&exact)?;
    let wholes: Option<Vec<(i64, Ratio)>> = exact.iter().zip(units).map(split).collect();
    wholes.ok_or_else(|| bias.wrong("is too large for the scales"))
}
