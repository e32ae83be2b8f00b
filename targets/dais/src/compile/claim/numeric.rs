//! Which operators that compute, select and reduce numbers the machine takes.

use super::refuse_divisor;
use quincunx_graph::{Activation, Binary, Graph, Node, Op, Reduce, ReduceKind, Unary};
use quincunx_num::{Dyadic, bit_length};

/// Widest odd part of a slope: each bit of it may become an adder, and widens the result.
const MAX_SLOPE_BITS: u32 = 8;

/// Why a node is not taken, whatever its numbers are; `None` when that depends on them.
pub(super) fn refuse_operator(graph: &Graph, node: &Node) -> Option<String> {
    let op = &node.op;
    match op {
        Op::BatchNorm(_) => Some("a batch normalisation needs a square root; fold it".to_owned()),
        Op::FromCodes(_) => {
            Some("integer codes do not enter a program; real numbers do".to_owned())
        }
        Op::Where => {
            let constant = graph[node.input(0)?].constant.is_some();
            (!constant).then(|| "its condition is not constant".to_owned())
        }
        Op::Unary(unary) => refuse_unary(*unary),
        Op::Activation(activation) => match activation {
            Activation::Elu { .. } | Activation::Selu { .. } => Some(no_instruction(op)),
            Activation::HardSigmoid { .. }
            | Activation::LeakyRelu { .. }
            | Activation::Clip { .. } => None,
        },
        Op::Reduce(reduce) => match reduce.kind {
            ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Max | ReduceKind::Min => None,
            ReduceKind::Prod | ReduceKind::L1 | ReduceKind::SumSquare => {
                Some("of the reductions, sum, mean, max and min are taken".to_owned())
            }
            ReduceKind::L2 | ReduceKind::LogSum | ReduceKind::LogSumExp => Some(no_instruction(op)),
        },
        Op::Binary(Binary::Pow)
        | Op::Softmax(_)
        | Op::LayerNorm(_)
        | Op::InstanceNorm(_)
        | Op::Lrn(_) => Some(no_instruction(op)),
        Op::Compare(_) | Op::Logic(_) | Op::ArgExtreme(_) => {
            Some("its result is no real number".to_owned())
        }
        Op::ToCodes(_) => Some("integer codes do not leave a program; real numbers do".to_owned()),
        Op::Conv(_)
        | Op::Gemm(_)
        | Op::MatMul
        | Op::Pool(_)
        | Op::GlobalAveragePool
        | Op::GlobalMaxPool
        | Op::Binary(_)
        | Op::PRelu
        | Op::Flatten { .. }
        | Op::Reshape { .. }
        | Op::Transpose { .. }
        | Op::Identity
        | Op::Quantise(_) => None,
        // These have a function of their own.
        Op::ConvTranspose(_)
        | Op::Recurrent(_)
        | Op::Concat { .. }
        | Op::Slice { .. }
        | Op::Pad(_)
        | Op::Gather { .. }
        | Op::Expand { .. }
        | Op::Tile { .. }
        | Op::Resize(_)
        | Op::Cast { .. }
        | Op::CastUnbounded { .. } => None,
    }
}

fn no_instruction(op: &Op) -> String {
    format!("{} has no exact result in fixed point", op.name())
}

fn refuse_unary(unary: Unary) -> Option<String> {
    match unary {
        Unary::Relu | Unary::Neg | Unary::Abs => None,
        Unary::Sign => Some("the sign of a number is no instruction".to_owned()),
        Unary::Floor | Unary::Ceil | Unary::Round => Some(
            "it rounds without a range; a quantiser of scale 1 rounds on the machine".to_owned(),
        ),
        Unary::HardSwish => Some("a sixth is no short binary fraction".to_owned()),
        Unary::Not => Some("the machine has no truth values".to_owned()),
        Unary::Sqrt
        | Unary::Reciprocal
        | Unary::Exp
        | Unary::Log
        | Unary::Erf
        | Unary::Sigmoid
        | Unary::Tanh
        | Unary::Gelu
        | Unary::GeluTanh
        | Unary::Softplus
        | Unary::Sin
        | Unary::Cos
        | Unary::Tan
        | Unary::Atan => Some(no_instruction(&Op::Unary(unary))),
    }
}

pub(super) fn refuse_activation(activation: Activation) -> Option<String> {
    match activation {
        Activation::LeakyRelu { alpha } => refuse_slope(f64::from(alpha)),
        Activation::HardSigmoid { alpha, beta } => {
            refuse_slope(f64::from(alpha)).or_else(|| refuse_slope(f64::from(beta)))
        }
        Activation::Clip { min, max } => {
            let min = min.filter(|&min| min != f32::NEG_INFINITY);
            let max = max.filter(|&max| max != f32::INFINITY);
            let odd = [min, max].into_iter().flatten().find(|limit| !limit.is_finite());
            odd.map(|limit| format!("its limit {limit} has no fixed-point code"))
        }
        Activation::Elu { .. } | Activation::Selu { .. } => None,
    }
}

/// A factor must be a short binary fraction.
fn refuse_slope(slope: f64) -> Option<String> {
    let bits = Dyadic::from_f64(slope.abs()).map(|slope| bit_length(slope.mantissa()));
    bits.is_none_or(|bits| bits > MAX_SLOPE_BITS).then(|| {
        format!("its factor {slope} is no binary fraction of at most {MAX_SLOPE_BITS} bits")
    })
}

pub(super) fn refuse_prelu(graph: &Graph, node: &Node) -> Option<String> {
    let Some(constant) = node.input(1).and_then(|id| graph[id].constant.as_ref()) else {
        return Some("its slope is not constant".to_owned());
    };
    let slopes = match &constant.quantiser {
        None => constant.tensor.to_f64(),
        // Codes times a power of two are as short as the codes.
        Some(quantiser) if quantiser.is_fixed_point() => constant.tensor.to_f64(),
        Some(_) => return Some("the scale of its slopes is not a power of two".to_owned()),
    };
    slopes.into_iter().find_map(refuse_slope)
}

pub(super) fn refuse_reduce(graph: &Graph, node: &Node, reduce: &Reduce) -> Option<String> {
    let x = &graph[node.input(0)?].shape;
    let count: usize = reduce.axes.iter().map(|&axis| x[axis]).product();
    match reduce.kind {
        ReduceKind::Mean => refuse_divisor(count),
        ReduceKind::Max | ReduceKind::Min if count == 0 => {
            Some("the extreme of no element is infinite".to_owned())
        }
        _ => None,
    }
}
