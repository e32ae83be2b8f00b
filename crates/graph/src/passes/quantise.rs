//! Quantising a float graph with calibration data.

use super::rewrite::Rewrite;
use crate::execute::{Keep, float};
use crate::{Constant, Graph, Node, Op, Quantiser, ReduceKind, Unary, ValueId};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::Rounding;
use quincunx_tensor::{DType, Tensor, Tensors};
use rustc_hash::FxHashMap;

/// Lowest and highest number a value took on the calibration data, by value name.
pub type Ranges = FxHashMap<String, (f64, f64)>;

/// How to quantise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Fixed point: every scale is a power of two, one per tensor; no zero points.
    PowerOfTwo {
        /// Bits of weights.
        weights: u32,
        /// Bits of activations and inputs.
        activations: u32,
    },
}

impl Scheme {
    /// Fixed point with 8-bit weights and activations.
    pub const POWER_OF_TWO_8: Scheme = Scheme::PowerOfTwo { weights: 8, activations: 8 };
}

/// Runs the graph in f32 on each sample and records the range of every input and result.
///
/// # Errors
/// `Q0313` when there is no sample, or a value is not finite; otherwise those of [`float`].
pub fn calibrate(graph: &Graph, samples: impl IntoIterator<Item = Tensors>) -> Result<Ranges> {
    let mut ranges = Ranges::default();
    let mut count = 0;
    for sample in samples {
        count += 1;
        for (name, tensor) in float(graph, &sample, Keep::All)? {
            let values = tensor.to_f64();
            if values.iter().any(|v| !v.is_finite()) {
                return Err(Diagnostic::invalid(
                    "Q0313",
                    format!("value \"{name}\" is not finite on calibration sample {count}"),
                ));
            }
            let range = ranges.entry(name).or_insert((f64::INFINITY, f64::NEG_INFINITY));
            for v in values {
                *range = (range.0.min(v), range.1.max(v));
            }
        }
    }
    if count == 0 {
        return Err(Diagnostic::invalid("Q0313", "the calibration data holds no sample"));
    }
    Ok(ranges)
}

/// Inserts quantisers after the inputs and after every layer that computes new numbers (behind
/// its ReLU where one follows), and turns weights and biases into codes. Results of layers that
/// are outputs of the graph stay exact. Scales cover the calibrated range; what lies outside
/// saturates. Values that already lie on a grid are left alone.
///
/// # Errors
/// `Q0313` when a value was not calibrated.
pub fn quantise(graph: &Graph, ranges: &Ranges, scheme: &Scheme) -> Result<Graph> {
    let consumers = graph.consumers();
    let mut rewrite = Rewrite::new(graph)?;
    for &input in graph.inputs() {
        if graph[input].dtype == DType::F32 && !feeds_quantiser(graph, &consumers, input) {
            insert_after(graph, &mut rewrite, input, ranges, scheme)?;
        }
    }
    for (_, node) in graph.nodes() {
        copy_with_quantised_parameters(graph, &mut rewrite, node, scheme)?;
        let is_output = graph.outputs().contains(&node.output);
        if computes(graph, &consumers, node)
            && !is_output
            && !feeds_quantiser(graph, &consumers, node.output)
        {
            insert_after(graph, &mut rewrite, node.output, ranges, scheme)?;
        }
    }
    super::remove_dead(&rewrite.finish()?)
}

/// True when the node's result needs a grid of its own.
fn computes(graph: &Graph, consumers: &[Vec<crate::NodeId>], node: &Node) -> bool {
    if graph[node.output].dtype != DType::F32 {
        return false;
    }
    match &node.op {
        Op::Conv(_)
        | Op::Gemm(_)
        | Op::MatMul
        | Op::Binary(_)
        | Op::GlobalAveragePool
        | Op::BatchNorm(_) => {
            // A ReLU that is the only reader is quantised instead.
            let readers = &consumers[node.output.index()];
            !matches!(readers[..], [reader] if graph[reader].op == Op::Unary(Unary::Relu))
        }
        Op::Pool(pool) => pool.kind != crate::PoolKind::Max,
        Op::Reduce(reduce) => !matches!(reduce.kind, ReduceKind::Max | ReduceKind::Min),
        Op::Unary(_)
        | Op::Activation(_)
        | Op::PRelu
        | Op::Where
        | Op::Softmax(_)
        | Op::LayerNorm(_)
        | Op::InstanceNorm(_)
        | Op::ConvTranspose(_)
        | Op::Recurrent(_)
        | Op::Lrn(_) => true,
        Op::Resize(resize) => !resize.is_nearest(),
        Op::GlobalMaxPool
        | Op::Compare(_)
        | Op::Logic(_)
        | Op::ArgExtreme(_)
        | Op::Concat { .. }
        | Op::Slice { .. }
        | Op::Pad(_)
        | Op::Gather { .. }
        | Op::Expand { .. }
        | Op::Tile { .. }
        | Op::Cast { .. }
        | Op::Flatten { .. }
        | Op::Reshape { .. }
        | Op::Transpose { .. }
        | Op::Identity
        | Op::Quantise(_)
        | Op::ToCodes(_)
        | Op::FromCodes(_) => false,
    }
}

fn feeds_quantiser(graph: &Graph, consumers: &[Vec<crate::NodeId>], value: ValueId) -> bool {
    let readers = &consumers[value.index()];
    !readers.is_empty()
        && readers.iter().all(|&r| matches!(graph[r].op, Op::Quantise(_) | Op::ToCodes(_)))
}

fn insert_after(
    graph: &Graph,
    rewrite: &mut Rewrite<'_>,
    value: ValueId,
    ranges: &Ranges,
    Scheme::PowerOfTwo { activations, .. }: &Scheme,
) -> Result<()> {
    let name = &graph[value].name;
    let &(low, high) = ranges.get(name).ok_or_else(|| {
        Diagnostic::invalid("Q0313", format!("value \"{name}\" has no calibrated range"))
    })?;
    let quantiser = power_of_two_quantiser(low, high, *activations);
    let current = rewrite.value(value)?;
    let quantised = rewrite.insert(
        &format!("{name}_quantiser"),
        Op::Quantise(quantiser),
        &[Some(current)],
        &format!("{name}_quantised"),
    )?;
    rewrite.replace(value, quantised);
    Ok(())
}

/// The finest fixed-point grid of `width` bits that covers `low..=high`; unsigned when nothing is
/// negative.
fn power_of_two_quantiser(low: f64, high: f64, width: u32) -> Quantiser {
    let signed = low < 0.0;
    let magnitude_bits = width.saturating_sub(u32::from(signed)).min(62);
    let top = ((1_u64 << magnitude_bits) - 1) as f64;
    let bottom = (1_u64 << magnitude_bits) as f64;
    let covers = |exponent: i32| {
        let scale = 2.0_f64.powi(exponent);
        high <= top * scale && -low <= bottom * scale
    };
    let exponent = (-64..=64).find(|&e| covers(e)).unwrap_or(64);
    let exponent = if low == 0.0 && high == 0.0 { 0 } else { exponent };
    Quantiser::symmetric(signed, width, 2.0_f64.powi(exponent))
}

/// Copies a node; weights of a layer become codes, and its bias codes on the grid of the sums.
fn copy_with_quantised_parameters(
    graph: &Graph,
    rewrite: &mut Rewrite<'_>,
    node: &Node,
    Scheme::PowerOfTwo { weights, .. }: &Scheme,
) -> Result<()> {
    let mut inputs = rewrite.operands(node)?;
    let is_layer = matches!(node.op, Op::Conv(_) | Op::Gemm(_) | Op::MatMul);
    for index in 0..inputs.len() {
        let bias = is_layer && index == 2;
        if let Some(old) = node.input(index)
            && let Some(tensor) = plain_floats(graph, old)
        {
            let quantiser = if bias {
                bias_quantiser(&rewrite.new, &inputs, tensor)
            } else {
                let (low, high) = bounds(tensor);
                power_of_two_quantiser(low.min(-f64::MIN_POSITIVE), high, *weights)
            };
            let constant =
                Constant { tensor: codes(tensor, &quantiser)?, quantiser: Some(quantiser) };
            let name = format!("{}_quantised", graph[old].name);
            inputs[index] = Some(rewrite.constant(&name, constant)?);
        }
    }
    rewrite.emit(node, node.op.clone(), &inputs)
}

fn plain_floats(graph: &Graph, value: ValueId) -> Option<&Tensor> {
    let constant = graph[value].constant.as_ref()?;
    (constant.quantiser.is_none() && constant.tensor.dtype() == DType::F32)
        .then_some(&constant.tensor)
}

fn bounds(tensor: &Tensor) -> (f64, f64) {
    tensor.to_f64().iter().fold((0.0, 0.0), |(low, high), &v| (v.min(low), v.max(high)))
}

/// 32 bits on the grid of the layer's sums, coarser only where the range demands it.
fn bias_quantiser(graph: &Graph, inputs: &[Option<ValueId>], bias: &Tensor) -> Quantiser {
    let (low, high) = bounds(bias);
    let finest = power_of_two_quantiser(low.min(-f64::MIN_POSITIVE), high, 32);
    let scale = |index: usize| {
        let grid = graph.grid(inputs.get(index).copied().flatten()?)?;
        grid.scale.as_uniform()
    };
    let sums = scale(0).zip(scale(1)).map(|(x, w)| x * w);
    let finest_scale = finest.scale.as_uniform().unwrap_or(1.0);
    match sums {
        Some(sums) if sums > finest_scale => Quantiser::symmetric(true, 32, sums),
        _ => finest,
    }
}

/// Codes of plain numbers, rounded half to even, exactly: f64 divides by a power of two without
/// rounding.
fn codes(tensor: &Tensor, quantiser: &Quantiser) -> Result<Tensor> {
    let scalars = quantiser
        .scalars(tensor.shape())
        .ok_or_else(|| Diagnostic::bug("a quantiser of constants broadcasts"))?;
    let code = |(x, scalar): (&f64, &crate::Scalar)| {
        debug_assert_eq!(scalar.rounding, Rounding::HalfEven);
        let (low, high) = scalar.range();
        let limit = |bound: quincunx_num::Int| i64::try_from(bound).unwrap_or(i64::MAX);
        ((x / scalar.scale).round_ties_even() as i64).clamp(limit(low), limit(high))
    };
    Tensor::from_vec::<i64>(
        tensor.shape(),
        tensor.to_f64().iter().zip(&scalars).map(code).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_is_the_finest_that_covers() {
        let scale = |low, high, width| {
            let q = power_of_two_quantiser(low, high, width);
            (q.signed.as_uniform().unwrap(), q.scale.as_uniform().unwrap())
        };
        assert_eq!(scale(0.0, 1.0, 8), (false, 2.0_f64.powi(-7)));
        assert_eq!(scale(0.0, 255.0, 8), (false, 1.0));
        assert_eq!(scale(-1.0, 0.5, 8), (true, 2.0_f64.powi(-7)));
        assert_eq!(scale(-1.0, 1.0, 8), (true, 2.0_f64.powi(-6)));
        assert_eq!(scale(0.0, 0.0, 8), (false, 1.0));
    }
}
