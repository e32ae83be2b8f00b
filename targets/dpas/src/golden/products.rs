//! Convolutions and matrix products: exact sums of products with constant weights.

use super::finish::{Unit, ratio, whole_quotient};
use super::misfit;
use super::numbers::{Grid, is_scale};
use super::pools::place;
use quincunx_diag::Result;
use quincunx_graph::{Conv, Gemm, Graph, Node, Op, Param, Value, ValueId, Window};
use quincunx_num::Ratio;
use quincunx_tensor::View;

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

/// Windows of images.
struct Windows {
    window: Window,
    groups: usize,
    /// Channels of an image.
    channels: usize,
    /// Extents of a plane of the operand, and of the result.
    input: Vec<usize>,
    output: Vec<usize>,
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
        let missing = || misfit("a product lacks an operand");
        let value = |at: usize| node.input(at).map(|id| &graph[id]).ok_or_else(missing);
        let (input, weights, output) = (value(0)?, value(1)?, &graph[node.output]);
        if [input, weights, output].iter().any(|value| value.shape.contains(&0)) {
            return Err(misfit("a product has no elements"));
        }
        let (windows, layout, alpha) = match &node.op {
            Op::Conv(conv) => {
                let windows = Windows::new(conv, &input.shape, &output.shape)?;
                (Some(windows), Layout::OutputsFirst, 1.0)
            }
            Op::Gemm(gemm) => (None, layout(gemm, node.input(2).is_some())?, gemm.alpha),
            _ => (None, Layout::OutputsLast, 1.0),
        };
        let weights = Weights::new(weights, layout)?;
        let unit = ratio(x.scale) * ratio(alpha.into());
        let units: Vec<Ratio> = weights.scales.iter().map(|&scale| &unit * ratio(scale)).collect();
        // Where channels are in what the bias broadcasts to.
        let is_conv = windows.is_some();
        let outputs = [units.len()];
        let along = match (is_conv, weights.is_vector) {
            (true, _) => (&output.shape[..], 1),
            (false, true) => (&outputs[..], 0),
            (false, false) => (&output.shape[..], output.shape.len().saturating_sub(1)),
        };
        let own = node.input(2).map(|id| (id, if is_conv { (&outputs[..], 0) } else { along }));
        let behind = sum.and_then(|sum| addend(graph, sum)).map(|id| (id, along));
        let biases = match (own, behind) {
            (Some(_), Some(_)) => return Err(misfit("a product has two biases")),
            (None, None) => units.iter().map(|_| (0, Ratio::ZERO)).collect(),
            (Some((id, along)), None) | (None, Some((id, along))) => {
                biases(&graph[id], along, &units)?
            }
        };
        let (biases, rests): (Vec<i64>, Vec<Ratio>) = biases.into_iter().unzip();
        let units = units.into_iter().zip(rests).map(|(one, rest)| Unit { one, rest }).collect();
        Ok((Product { windows, weights, biases }, units))
    }

    /// Results of an output that follow one another.
    pub(super) fn run(&self) -> usize {
        self.windows.as_ref().map_or(1, |windows| windows.output.iter().product())
    }

    /// The sums, in the order of the result.
    pub(super) fn apply(&self, codes: &[i16]) -> Vec<i64> {
        let Some(windows) = &self.windows else { return self.of_rows(codes) };
        let image = windows.channels * windows.input.iter().product::<usize>();
        codes.chunks_exact(image).flat_map(|image| self.of_image(windows, image)).collect()
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
        let (positions, taps) = (self.run(), window.kernel.iter().product::<usize>());
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

impl Windows {
    fn new(conv: &Conv, input: &[usize], output: &[usize]) -> Result<Windows> {
        match (input, output) {
            ([_, channels, input @ ..], [_, _, output @ ..]) => Ok(Windows {
                window: conv.window.clone(),
                groups: conv.groups,
                channels: *channels,
                input: input.to_vec(),
                output: output.to_vec(),
            }),
            _ => Err(misfit("a convolution is not one of images")),
        }
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

/// Where outputs are in the shape of weights.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    OutputsFirst,
    /// All axes before the last two have extent 1. A vector has one output.
    OutputsLast,
}

/// How Gemm's weights lie.
///
/// # Errors
/// `Q6190` for a left operand that is to be transposed, factors that are 0 or no numbers, and a
/// factor of the bias.
fn layout(gemm: &Gemm, has_bias: bool) -> Result<Layout> {
    if gemm.transpose_a {
        return Err(misfit("the left operand of a product is transposed"));
    }
    if has_bias && gemm.beta != 1.0 {
        return Err(misfit("a bias has a factor"));
    }
    if !is_scale(gemm.alpha.abs().into()) {
        return Err(misfit(format!("a product has the factor {}", gemm.alpha)));
    }
    Ok(if gemm.transpose_b { Layout::OutputsFirst } else { Layout::OutputsLast })
}

/// Constant weights.
struct Weights {
    /// Codes minus their zero points, those of an output one after the other.
    codes: Vec<i16>,
    /// Distance between two codes, for every output.
    scales: Vec<f64>,
    /// Weights of an output; at least 1.
    depth: usize,
    /// They have no axis of outputs.
    is_vector: bool,
}

impl Weights {
    fn new(value: &Value, layout: Layout) -> Result<Weights> {
        let wrong = |what: &str| misfit(format!("the weights {:?} {what}", value.name));
        let constant = value.constant.as_ref().ok_or_else(|| wrong("are computed"))?;
        let quantiser = constant.quantiser.as_ref().ok_or_else(|| wrong("are no codes"))?;
        let codes = constant.tensor.to_i64().ok_or_else(|| wrong("are no codes"))?;
        if quantiser.width.values().iter().any(|&width| width > 8) {
            return Err(wrong("are codes of more than 8 bits"));
        }
        let shape = &value.shape[..];
        let is_vector = shape.len() == 1;
        // A vector has one output, whatever lies along its axis.
        let (axis, outputs) = match (layout, shape) {
            (Layout::OutputsFirst, [outputs, _, ..]) => (Some(0), *outputs),
            (Layout::OutputsLast, [_]) => (None, 1),
            (Layout::OutputsLast, [ones @ .., _, outputs]) if ones.iter().all(|&one| one == 1) => {
                (Some(shape.len() - 1), *outputs)
            }
            _ => return Err(wrong("are not one matrix")),
        };
        let several = || wrong("have several grids for an output");
        let zeros = per_output(&quantiser.zero, shape, axis).ok_or_else(several)?;
        let scales = per_output(&quantiser.scale, shape, axis).ok_or_else(several)?;
        if !scales.iter().all(|&scale| is_scale(scale)) {
            return Err(wrong("have a scale that is no f32 number"));
        }
        let depth = codes.len() / outputs;
        let inner = if layout == Layout::OutputsFirst { depth } else { 1 };
        let centred = |(at, code): (usize, i64)| {
            let code = code.checked_sub(zeros[at / inner % outputs])?;
            i16::try_from(code).ok().filter(|code| (-255..=255).contains(code))
        };
        let codes: Option<Vec<i16>> = codes.into_iter().enumerate().map(centred).collect();
        let mut codes = codes.ok_or_else(|| wrong("are no codes of 8 bits"))?;
        if layout == Layout::OutputsLast {
            codes = View::new(&codes, &[depth, outputs]).permute(&[1, 0]).to_vec();
        }
        Ok(Weights { codes, scales, depth, is_vector })
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

/// One element for every position along an axis of a shape: all elements of a tensor that
/// broadcasts to the shape and varies along that axis only.
fn along<T: Clone>(
    elements: &[T],
    shape: &[usize],
    (whole, axis): (&[usize], usize),
) -> Option<Vec<T>> {
    let extent = *whole.get(axis)?;
    if let [element] = elements {
        return Some(vec![element.clone(); extent]);
    }
    let axis = axis.checked_sub(whole.len().checked_sub(shape.len())?)?;
    let is_along = elements.len() == extent && shape.get(axis) == Some(&extent);
    is_along.then(|| elements.to_vec())
}

/// The constant that a sum adds.
pub(super) fn addend(graph: &Graph, sum: &Node) -> Option<ValueId> {
    sum.operands().find(|&id| graph[id].constant.is_some())
}

/// A bias in whole units of every output, and what is left of it.
fn biases(value: &Value, whole: (&[usize], usize), units: &[Ratio]) -> Result<Vec<(i64, Ratio)>> {
    let wrong = |what: &str| misfit(format!("the bias {:?} {what}", value.name));
    let constant = value.constant.as_ref().ok_or_else(|| wrong("is computed"))?;
    let reals = constant.tensor.to_f64();
    if reals.iter().any(|real| !real.is_finite()) {
        return Err(wrong("is not finite"));
    }
    let mut exact: Vec<Ratio> = reals.into_iter().map(ratio).collect();
    if let Some(quantiser) = &constant.quantiser {
        let scalars = quantiser.scalars(&value.shape).ok_or_else(|| wrong("has another shape"))?;
        for (number, scalar) in exact.iter_mut().zip(scalars) {
            *number = (&*number - Ratio::from(scalar.zero)) * scalar.ratio();
        }
    }
    let exact = along(&exact, &value.shape, whole);
    let exact = exact.filter(|exact| exact.len() == units.len());
    let exact = exact.ok_or_else(|| wrong("is not one number for every output"))?;
    let split = |(real, unit): (&Ratio, &Ratio)| {
        let whole = whole_quotient(real, unit)?;
        Some((whole, real - Ratio::from(whole) * unit))
    };
    let wholes: Option<Vec<(i64, Ratio)>> = exact.iter().zip(units).map(split).collect();
    wholes.ok_or_else(|| wrong("is too large for the scales"))
}
