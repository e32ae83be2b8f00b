//! Weights and biases become codes.

use super::clip::Method;
use super::grids::{power_of_two, symmetric_scale, uniform};
use super::recipe::{Grid, Settings};
use crate::{
    Binary, Constant, Conv, ConvTranspose, Gemm, Graph, Node, Op, Param, Quantiser, ValueId,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::Rounding;
use quincunx_tensor::{DType, Tensor, View, broadcast_shapes};

/// Parts of the largest weight that are tried as limit.
const LIMITS: std::ops::RangeInclusive<u32> = 20..=40;

/// What an operand of a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Factors; with the axis of the output channels, if there is one.
    Weights(Option<usize>),
    /// Added to the sums of products.
    Bias,
    /// Stays float.
    Float,
}

/// What the constant operand `index` of a node is for these grids.
pub(super) fn role(graph: &Graph, node: &Node, index: usize, grid: Grid) -> Role {
    if is_mask(graph, node, index) {
        return Role::Float;
    }
    let is_layer = matches!(node.op, Op::Conv(_) | Op::Gemm(_) | Op::MatMul);
    if grid == Grid::PowerOfTwo {
        return if is_layer && index == 2 { Role::Bias } else { Role::Weights(None) };
    }
    let rank = node.input(index).map_or(0, |id| graph[id].shape.len());
    let role = match (&node.op, index) {
        (Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_), 2) => Role::Bias,
        (Op::Conv(_), 1) => Role::Weights(Some(0)),
        (Op::ConvTranspose(_), 1) => Role::Weights(Some(1)),
        (Op::Gemm(gemm), 0) => Role::Weights(Some(usize::from(gemm.transpose_a))),
        (Op::Gemm(gemm), 1) => Role::Weights(Some(usize::from(!gemm.transpose_b))),
        (Op::MatMul, 0) => Role::Weights(rank.checked_sub(2)),
        (Op::MatMul, 1) if rank >= 2 => Role::Weights(Some(rank - 1)),
        (Op::Recurrent(_), 1 | 2) => Role::Weights(Some(1)),
        // An exponent or threshold a little off can mean something else.
        (Op::Binary(Binary::Pow), 1) | (Op::Compare(_), _) => Role::Float,
        (
            Op::BatchNorm(_)
            | Op::LayerNorm(_)
            | Op::InstanceNorm(_)
            | Op::Recurrent(_)
            | Op::Softmax(_)
            | Op::Lrn(_),
            _,
        ) => Role::Float,
        _ => Role::Weights(None),
    };
    match (grid, role) {
        (Grid::Uniform { .. }, Role::Weights(_)) => Role::Weights(None),
        _ => role,
    }
}

/// If a node adds a constant row to a product of rows with constant weights: the product, and the
/// operand that is the constant.
pub(super) fn biased_product<'g>(graph: &'g Graph, sum: &Node) -> Option<(&'g Node, usize)> {
    let is_constant =
        |index: &usize| sum.input(*index).is_some_and(|x| graph[x].constant.is_some());
    let index = (0..2).find(is_constant).filter(|_| sum.op == Op::Binary(Binary::Add))?;
    let product = &graph[graph[sum.input(1 - index)?].producer?];
    let weights = product.input(1).map(|id| &graph[id]).filter(|w| w.constant.is_some())?;
    let (&[_, columns], Op::MatMul) = (&weights.shape[..], &product.op) else { return None };
    let (&last, outer) = graph[sum.input(index)?].shape.split_last()?;
    let is_row = last == columns && outer.iter().all(|&extent| extent == 1);
    let same = graph[product.output].shape == graph[sum.output].shape;
    (is_row && same).then_some((product, index))
}

/// True for infinities that only decide what is chosen: no grid has them.
fn is_mask(graph: &Graph, node: &Node, index: usize) -> bool {
    let chooses = matches!(node.op, Op::Binary(Binary::Max | Binary::Min) | Op::Where | Op::Pad(_));
    let tensor = node.input(index).and_then(|id| plain_floats(graph, id));
    chooses && tensor.is_some_and(|tensor| tensor.to_f64().iter().any(|x| x.is_infinite()))
}

/// A constant of plain f32 numbers.
pub(super) fn plain_floats(graph: &Graph, value: ValueId) -> Option<&Tensor> {
    let constant = graph[value].constant.as_ref()?;
    (constant.quantiser.is_none() && constant.tensor.dtype() == DType::F32)
        .then_some(&constant.tensor)
}

/// Lowest and highest of the numbers and 0.
pub(super) fn bounds(tensor: &Tensor) -> (f64, f64) {
    tensor.to_f64().iter().fold((0.0, 0.0), |(low, high), &v| (v.min(low), v.max(high)))
}

/// The quantiser of weights.
pub(super) fn weight_quantiser(
    tensor: &Tensor,
    axis: Option<usize>,
    settings: &Settings,
    method: Method,
) -> Result<Quantiser> {
    let width = settings.weights;
    if settings.grid == Grid::PowerOfTwo {
        let (low, high) = bounds(tensor);
        return Ok(power_of_two(low.min(-f64::MIN_POSITIVE), high, width, None));
    }
    if let Grid::Uniform { point } = settings.grid {
        let rounding = Param::uniform(Rounding::HalfCeil);
        return Ok(Quantiser { rounding, ..uniform(width, point) });
    }
    // Parameters align at the innermost axis.
    let mut shape = vec![1; axis.map_or(0, |axis| tensor.shape().len() - axis)];
    let extent = axis.map_or(1, |axis| tensor.shape()[axis]);
    if let Some(outermost) = shape.first_mut() {
        *outermost = extent;
    }
    let mut channels = vec![Vec::new(); extent];
    let inner: usize = axis.map_or(1, |axis| tensor.shape()[axis + 1..].iter().product());
    for (index, weight) in tensor.to_f64().into_iter().enumerate() {
        channels[index / inner % extent].push(weight);
    }
    let scales = channels.iter().map(|weights| channel_scale(weights, width, method));
    let mut scales: Vec<f64> = scales.collect();
    if scales.is_empty() {
        (scales, shape) = (vec![1.0], vec![]);
    }
    Ok(Quantiser { scale: Param::new(&shape, scales)?, ..Quantiser::symmetric(true, width, 1.0) })
}

fn channel_scale(weights: &[f64], width: u32, method: Method) -> f64 {
    let largest = weights.iter().fold(0.0_f64, |largest, w| largest.max(w.abs()));
    let whole = symmetric_scale(largest, width);
    if method != Method::Mse {
        return whole;
    }
    let top = ((1_i64 << (width - 1)) - 1) as f64;
    let error = |scale: f64| -> f64 {
        let kept = |w: f64| (w / scale).round_ties_even().clamp(-top - 1.0, top) * scale;
        weights.iter().map(|&w| (w - kept(w)).powi(2)).sum()
    };
    let mut best = (error(whole), whole);
    for limit in LIMITS.rev() {
        let part = f64::from(limit) / f64::from(*LIMITS.end());
        let scale = symmetric_scale(largest * part, width);
        let error = error(scale);
        if error < best.0 {
            best = (error, scale);
        }
    }
    best.1
}

/// A bias in 32 bits on the grid of the layer's sums, which is the product of the scales of its
/// operands; coarser where 32 bits do not reach. Where the layer's input is on no grid, the finest
/// power of two.
///
/// Gives the codes' tensor as well, which is repeated where sums vary and the bias does not.
pub(super) fn bias(
    graph: &Graph,
    node: &Node,
    inputs: &[Option<ValueId>],
    bias: &Tensor,
    grid: Grid,
) -> Result<(Tensor, Quantiser)> {
    let (low, high) = bounds(bias);
    let finest = power_of_two(low.min(-f64::MIN_POSITIVE), high, 32, Some(true));
    let grid_of = |index: usize| graph.grid(inputs.get(index).copied().flatten()?);
    let (Some(x), Some(w)) = (grid_of(0), grid_of(1)) else {
        return Ok((bias.clone(), finest));
    };
    if grid == Grid::PowerOfTwo {
        let sums = x.scale.as_uniform().zip(w.scale.as_uniform()).map(|(x, w)| x * w);
        let finest_scale = finest.scale.as_uniform().unwrap_or(1.0);
        return Ok(match sums {
            Some(sums) if sums > finest_scale => {
                (bias.clone(), Quantiser::symmetric(true, 32, sums))
            }
            _ => (bias.clone(), finest),
        });
    }
    let (Some(factor), Some(scales)) = (x.scale.as_uniform(), channels(node, &w.scale)) else {
        return Ok((bias.clone(), finest));
    };
    let factor = factor * bias_factor(&node.op);
    let scales = scales.iter().map(|scale| f64::from((scale * factor) as f32)).collect();
    on_sums(bias, scales)
}

/// The scales of the weights of each output channel.
fn channels(node: &Node, scale: &Param<f64>) -> Option<Vec<f64>> {
    let values = scale.values();
    match &node.op {
        Op::Gemm(Gemm { .. }) | Op::Conv(Conv { .. }) | Op::MatMul => Some(values.to_vec()),
        Op::ConvTranspose(ConvTranspose { groups, .. }) if values.len() > 1 => {
            Some(values.repeat(*groups))
        }
        Op::ConvTranspose(_) => Some(values.to_vec()),
        _ => None,
    }
}

/// What the sums are worth beside the bias.
fn bias_factor(op: &Op) -> f64 {
    match op {
        Op::Gemm(gemm) if gemm.alpha != 0.0 && gemm.beta != 0.0 => {
            f64::from((gemm.alpha / gemm.beta).abs())
        }
        _ => 1.0,
    }
}

fn on_sums(bias: &Tensor, scales: Vec<f64>) -> Result<(Tensor, Quantiser)> {
    let param = if scales.len() == 1 { vec![] } else { vec![scales.len()] };
    let shape = broadcast_shapes(bias.shape(), &param)
        .ok_or_else(|| Diagnostic::bug("a bias broadcasts to the channels"))?;
    let values = bias.values::<f32>()?;
    let values = View::new(&values, bias.shape()).broadcast(&shape).map(|view| view.to_vec());
    let values = values.ok_or_else(|| Diagnostic::bug("a bias broadcasts to the channels"))?;
    let channels = scales.len();
    let mut scales = scales;
    for (index, &value) in values.iter().enumerate() {
        let scale = &mut scales[index % channels];
        while f64::from(value).abs() > f64::from(i32::MAX) * *scale {
            *scale *= 2.0;
        }
    }
    let scale = Param::new(&param, scales)?;
    let quantiser = Quantiser { scale, ..Quantiser::symmetric(true, 32, 1.0) };
    Ok((Tensor::from_vec(&shape, values)?, quantiser))
}

/// Codes of plain numbers in the narrowest type that holds them. They are rounded half to even, those
/// of fixed-point machines half up, as their tools do; nothing rounds them again.
pub(super) fn codes(tensor: &Tensor, quantiser: &Quantiser) -> Result<Constant> {
    let broken = || Diagnostic::bug("a quantiser of constants broadcasts");
    let shape = tensor.shape();
    let scales = quantiser.scale.expand(shape).ok_or_else(broken)?;
    let scalar = quantiser.scalars(&[]);
    // Of all parameters only the scale varies.
    let format = Quantiser { scale: Param::uniform(1.0), ..quantiser.clone() };
    let format = scalar.or_else(|| format.scalars(&[])).ok_or_else(broken)?[0];
    let limit = |bound: quincunx_num::Int| i64::try_from(bound).unwrap_or(i64::MAX);
    let (low, high) = format.range();
    let (low, high) = (limit(low), limit(high));
    let numbers = tensor.to_f64();
    let half_up = format.rounding == Rounding::HalfCeil;
    let nearest = |steps: f64| match half_up {
        true => steps.floor() + f64::from(u8::from(steps - steps.floor() >= 0.5)),
        false => steps.round_ties_even(),
    };
    let code = |(x, scale): (&f64, &f64)| {
        (nearest(x / scale) as i64).saturating_add(format.zero).clamp(low, high)
    };
    let codes = numbers.iter().zip(&scales).map(code);
    let tensor = match (format.signed, format.width) {
        (true, ..=8) => Tensor::from_vec(shape, codes.map(|c| c as i8).collect()),
        (false, ..=8) => Tensor::from_vec(shape, codes.map(|c| c as u8).collect()),
        (true, ..=16) => Tensor::from_vec(shape, codes.map(|c| c as i16).collect()),
        (false, ..=16) => Tensor::from_vec(shape, codes.map(|c| c as u16).collect()),
        (true, ..=32) => Tensor::from_vec(shape, codes.map(|c| c as i32).collect()),
        _ => Tensor::from_vec(shape, codes.collect::<Vec<i64>>()),
    }?;
    let rounding = Param::uniform(Rounding::HalfEven);
    Ok(Constant { tensor, quantiser: Some(Quantiser { rounding, ..quantiser.clone() }) })
}
