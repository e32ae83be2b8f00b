//! Constants of products and batch normalisations, on their way to scalars.

use super::choices::{Choices, Extents};
use super::product::Factor;
use super::{misfit, never_claimed};
use crate::arch::DataType;
use quincunx_diag::Result;
use quincunx_graph::{BatchNorm, Conv, ConvTranspose, Gemm, Graph, Node, Op, Value};

/// Weights and bias of a product as real numbers.
pub(super) struct Weights {
    /// Positions of the kernel.
    pub(super) taps: usize,
    /// Positions of a row of the kernel.
    columns: usize,
    /// Input channels.
    pub(super) channels: usize,
    /// Output channels.
    pub(super) outputs: usize,
    groups: usize,
    /// For every tap and input channel the weights of the outputs of its group.
    rows: Vec<f64>,
    /// One number for every output.
    bias: Option<Vec<f64>>,
}

impl Weights {
    /// Weights and bias of a product that is not computed from other results, with the batch
    /// normalisation that it takes in.
    pub(super) fn of_node(graph: &Graph, choices: &Choices, node: &Node) -> Result<Weights> {
        let choice = choices.of(&node.name);
        let positions = choice.and_then(|choice| choice.positions);
        let mut weights = match &node.op {
            Op::Conv(conv) => Weights::of_conv(graph, node, conv)?,
            Op::ConvTranspose(conv) => Weights::of_transposed(graph, node, conv)?,
            Op::Gemm(gemm) => Weights::of_matrix(graph, node, Some(gemm), positions)?,
            _ => Weights::of_matrix(graph, node, None, positions)?,
        };
        if let Some(before) = choice.and_then(|choice| choice.before.as_ref()) {
            weights.take_in(&norm_named(graph, before, None)?)?;
        }
        Ok(weights)
    }

    /// Weights `[M, C / groups, ...]` and bias `[M]`.
    fn of_conv(graph: &Graph, node: &Node, conv: &Conv) -> Result<Weights> {
        let (shape, w) = constant(graph, node, 1)?;
        let (outputs, depth, taps) = (shape[0], shape[1], shape[2..].iter().product());
        let (channels, width) = (depth * conv.groups, outputs / conv.groups);
        let mut rows = Vec::with_capacity(w.len());
        for tap in 0..taps {
            for channel in 0..channels {
                let (group, inner) = (channel / depth, channel % depth);
                let outputs = group * width..(group + 1) * width;
                rows.extend(outputs.map(|m| w[(m * depth + inner) * taps + tap]));
            }
        }
        let bias = node.input(2).map(|_| constant(graph, node, 2)).transpose()?;
        let bias = bias.map(|(_, bias)| bias);
        let groups = conv.groups;
        let columns = conv.window.kernel.last().copied().unwrap_or(1);
        Ok(Weights { taps, columns, channels, outputs, groups, rows, bias })
    }

    /// Weights `[C, M / groups, ...]` and bias `[M]`.
    fn of_transposed(graph: &Graph, node: &Node, conv: &ConvTranspose) -> Result<Weights> {
        let (shape, w) = constant(graph, node, 1)?;
        let (channels, width, taps) = (shape[0], shape[1], shape[2..].iter().product());
        let outputs = width * conv.groups;
        let mut rows = Vec::with_capacity(w.len());
        for (tap, channel) in (0..taps).flat_map(|tap| (0..channels).map(move |c| (tap, c))) {
            rows.extend((0..width).map(|m| w[(channel * width + m) * taps + tap]));
        }
        let bias = node.input(2).map(|_| constant(graph, node, 2)).transpose()?;
        let bias = bias.map(|(_, bias)| bias);
        Ok(Weights { taps, columns: taps, channels, outputs, groups: conv.groups, rows, bias })
    }

    /// Weights `[K, N]` or `[N, K]`, multiplied by `alpha`; a row of biases, multiplied by `beta`.
    /// Row `k` belongs to tap `k % positions` and channel `k / positions`.
    fn of_matrix(
        graph: &Graph,
        node: &Node,
        gemm: Option<&Gemm>,
        positions: Option<usize>,
    ) -> Result<Weights> {
        let (shape, w) = constant(graph, node, 1)?;
        let [first, second] = shape[..] else {
            return Err(never_claimed("weights of another rank"));
        };
        if gemm.is_some_and(|gemm| gemm.transpose_a) {
            return Err(never_claimed("a transposed operand"));
        }
        let by_rows = gemm.is_some_and(|gemm| gemm.transpose_b);
        let (alpha, beta) = gemm.map_or((1.0, 1.0), |gemm| (gemm.alpha, gemm.beta));
        let (depth, outputs) = if by_rows { (second, first) } else { (first, second) };
        let taps = positions.unwrap_or(1);
        if taps == 0 || depth % taps != 0 {
            return Err(misfit(format!("{:?} has no {taps} positions", node.name)));
        }
        let channels = depth / taps;
        let mut rows = Vec::with_capacity(w.len());
        for (tap, channel) in (0..taps).flat_map(|tap| (0..channels).map(move |c| (tap, c))) {
            let k = channel * taps + tap;
            rows.extend((0..outputs).map(|n| {
                let at = if by_rows { n * depth + k } else { k * outputs + n };
                times(alpha, w[at])
            }));
        }
        let bias = node.input(2).map(|_| constant(graph, node, 2)).transpose()?;
        let bias = bias.map(|(_, bias)| match bias.len() {
            1 => Ok(vec![times(beta, bias[0]); outputs]),
            n if n == outputs => Ok(bias.iter().map(|&b| times(beta, b)).collect()),
            _ => Err(never_claimed("a Gemm whose C is not a row")),
        });
        let bias = bias.transpose()?;
        Ok(Weights { taps, columns: taps, channels, outputs, groups: 1, rows, bias })
    }

    /// What is summed over.
    pub(super) fn extents(&self) -> Extents {
        Extents { taps: self.taps, columns: self.columns, channels: self.channels }
    }

    /// Takes scale and offset of every input in: `w * scale`, and a bias larger by the sum of
    /// `w * offset`, in binary64 over channels and then taps. The results are rounded to binary32.
    fn take_in(&mut self, norm: &[(f32, f32)]) -> Result<()> {
        if norm.len() != self.channels || self.groups != 1 {
            return Err(misfit("a batch normalisation before a product of other channels"));
        }
        let mut more = vec![0.0; self.outputs];
        for (channel, &(_, offset)) in norm.iter().enumerate() {
            for tap in 0..self.taps {
                let row = &self.rows[(tap * self.channels + channel) * self.outputs..];
                let sums = more.iter_mut().zip(row);
                sums.for_each(|(sum, w)| *sum += w * f64::from(offset));
            }
        }
        for (at, w) in self.rows.iter_mut().enumerate() {
            *w = times(norm[at / self.outputs % self.channels].0, *w);
        }
        let bias = self.bias.get_or_insert_with(|| vec![0.0; more.len()]);
        let sums = bias.iter_mut().zip(more);
        sums.for_each(|(bias, more)| *bias = f64::from((*bias + more) as f32));
        Ok(())
    }

    /// Takes the offset of a batch normalisation behind in, divided by the scalar of its scale.
    pub(super) fn add_offset(&mut self, norm: &[(f32, f32)], data_type: DataType) -> Result<()> {
        if norm.len() != self.outputs {
            return Err(never_claimed("a batch normalisation of other channels"));
        }
        let bias = self.bias.get_or_insert_with(|| vec![0.0; norm.len()]);
        let parts = bias.iter_mut().zip(norm);
        parts.for_each(|(bias, &(scale, offset))| {
            let scalar = data_type.decode(data_type.encode(scale.into()));
            *bias = f64::from((*bias + f64::from(offset) / scalar) as f32);
        });
        Ok(())
    }

    /// Takes the bias of a product in that is summed along.
    pub(super) fn add_bias(&mut self, other: &Weights) {
        let Some(other) = &other.bias else { return };
        let bias = self.bias.get_or_insert_with(|| vec![0.0; other.len()]);
        let sums = bias.iter_mut().zip(other);
        sums.for_each(|(bias, other)| *bias = f64::from((*bias + other) as f32));
    }

    /// Weights and bias in scalars, with scale and offset of every output folded in.
    pub(super) fn scalars(
        &self,
        data_type: DataType,
        norm: Option<&[(f32, f32)]>,
    ) -> Result<(Factor, Option<Vec<i32>>)> {
        if norm.is_some_and(|norm| norm.len() != self.outputs) {
            return Err(never_claimed("a batch normalisation of other channels"));
        }
        // Every step is rounded to binary32.
        let encode = |real: f64| data_type.encode(real);
        let width = self.outputs / self.groups;
        let depth = self.channels / self.groups;
        let rows = self.rows.iter().enumerate().map(|(at, &w)| {
            let (channel, inner) = (at / width % self.channels, at % width);
            let output = channel / depth * width + inner;
            encode(norm.map_or(w, |norm| times(norm[output].0, w)))
        });
        let rows = rows.collect();
        let bias_of = |output: usize| {
            let bias = self.bias.as_ref().map_or(0.0, |bias| bias[output]);
            encode(norm.map_or(bias, |norm| {
                let (scale, offset) = norm[output];
                f64::from(times(scale, bias) as f32 + offset)
            }))
        };
        let has_bias = self.bias.is_some() || norm.is_some();
        let bias = has_bias.then(|| (0..self.outputs).map(bias_of).collect());
        Ok((Factor { channels: self.channels, groups: self.groups, rows }, bias))
    }
}

/// A product in binary32.
fn times(factor: f32, real: f64) -> f64 {
    f64::from(factor * real as f32)
}

/// Shape and real numbers of an operand that must be constant.
fn constant(graph: &Graph, node: &Node, index: usize) -> Result<(Vec<usize>, Vec<f64>)> {
    let id = node.input(index).ok_or_else(|| never_claimed("an absent operand"))?;
    Ok((graph[id].shape.to_vec(), reals(&graph[id])?))
}

/// The real numbers of a constant.
pub(super) fn reals(value: &Value) -> Result<Vec<f64>> {
    let constant = value.constant.as_ref().ok_or_else(|| never_claimed("computed weights"))?;
    let numbers = constant.tensor.to_f64();
    let Some(quantiser) = &constant.quantiser else { return Ok(numbers) };
    let scalars = quantiser.scalars(&value.shape);
    let scalars = scalars.ok_or_else(|| misfit("a quantiser does not broadcast"))?;
    let real = |(code, of): (&f64, &quincunx_graph::Scalar)| (code - of.zero as f64) * of.scale;
    Ok(numbers.iter().zip(&scalars).map(real).collect())
}

/// Scale and offset of the batch normalisation of this name, which reads the result of `after`.
pub(super) fn norm_named(
    graph: &Graph,
    name: &str,
    after: Option<&Node>,
) -> Result<Vec<(f32, f32)>> {
    let node = graph.node_named(name).map(|id| &graph[id]);
    match node.map(|node| (node, &node.op)) {
        Some((node, Op::BatchNorm(norm)))
            if after.is_none_or(|after| node.input(0) == Some(after.output)) =>
        {
            affine(graph, node, norm)
        }
        _ => Err(misfit(format!("{name:?} is not a batch normalisation in this place"))),
    }
}

/// Scale and offset of every channel in binary32: `scale = gamma / sqrt(variance + epsilon)`,
/// `offset = beta - mean * scale`.
pub(super) fn affine(graph: &Graph, node: &Node, norm: &BatchNorm) -> Result<Vec<(f32, f32)>> {
    let parameter = |index| constant(graph, node, index).map(|(_, reals)| reals);
    let (gamma, beta) = (parameter(1)?, parameter(2)?);
    let (mean, variance) = (parameter(3)?, parameter(4)?);
    let channel = |c: usize| {
        let [gamma, beta, mean, variance] =
            [gamma[c], beta[c], mean[c], variance[c]].map(|number| number as f32);
        let scale = gamma / (variance + norm.epsilon).sqrt();
        (scale, beta - mean * scale)
    };
    Ok((0..gamma.len()).map(channel).collect())
}
