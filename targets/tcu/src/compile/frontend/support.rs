//! What the frontend can lower, and why not the rest.

use super::channels::{MAX_SCALARS, aligned_block, is_channels, mixed};
use super::constants::{all_finite, operand, reals};
use super::dims::Dims;
use super::moves::selection;
use super::pointwise::{affine, power, spread};
use super::reduce::{reduces_channels, refuse_reduction};
use super::windows::{has_empty_window, interpolates_positions, is_reduced};
use crate::arch::TcuArch;
use crate::compile::tables::{self, Function};
use quincunx_graph::{
    Activation, Binary, Conv, ConvTranspose, Coordinates, Graph, Node, Op, PadMode, ReduceKind,
    Resize, Softmax, Unary, Window,
};
use quincunx_num::Overflow;

/// Most pairs of positions that a node may have.
const MAX_PAIRS: usize = 1 << 27;

/// Most scalars in the weights of a node.
const MAX_WEIGHTS: usize = 1 << 27;

/// Why the machine does not take a node, given the largest error of functions as polynomials; `None`
/// when it does.
pub(crate) fn refusal(
    graph: &Graph,
    arch: &TcuArch,
    approximate: Option<f64>,
    node: &Node,
) -> Option<String> {
    refuse_tensors(graph, arch, node)
        .or_else(|| refuse_operator(graph, arch, approximate, node))
        .or_else(|| refuse_registers(graph, arch, node))
        .or_else(|| refuse_numbers(graph, node))
}

/// Types and extents.
fn refuse_tensors(graph: &Graph, arch: &TcuArch, node: &Node) -> Option<String> {
    let moving = node.operands().filter(|&id| graph[id].constant.is_none());
    let mut tensors: Vec<_> = moving.collect();
    if tensors.is_empty() {
        return Some("its operands are constant".to_owned());
    }
    tensors.push(node.output);
    tensors.into_iter().find_map(|id| {
        let value = &graph[id];
        if !value.dtype.is_float() {
            return Some(format!("\"{}\" is {}, not a real number", value.name, value.dtype));
        }
        let Some(dims) = Dims::of(&value.shape) else {
            return Some(format!("\"{}\" has no axes or elements, or too many", value.name));
        };
        let vectors = dims.positions() as u64 * dims.blocks(arch.lanes()) as u64;
        (vectors > arch.dram0_depth).then(|| {
            let depth = arch.dram0_depth;
            format!("\"{}\" needs {vectors} vectors; DRAM0 has {depth}", value.name)
        })
    })
}

/// Numbers without a scalar.
fn refuse_numbers(graph: &Graph, node: &Node) -> Option<String> {
    let infinite = node.operands().find(|&id| {
        graph[id].constant.as_ref().is_some_and(|c| graph[id].dtype.is_float() && !all_finite(c))
    })?;
    Some(format!("its constant \"{}\" holds a number that is not finite", graph[infinite].name))
}

#[deny(clippy::wildcard_enum_match_arm)]
fn refuse_operator(
    graph: &Graph,
    arch: &TcuArch,
    approximate: Option<f64>,
    node: &Node,
) -> Option<String> {
    let none = || Some(format!("the machine has no instructions for {}", node.op.name()));
    match &node.op {
        Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul => {
            refuse_product(graph, arch, node)
        }
        Op::Pool(_) | Op::GlobalAveragePool | Op::GlobalMaxPool | Op::Reduce(_) => {
            refuse_window(graph, arch, node)
        }
        Op::BatchNorm(norm) => {
            if (1..5).any(|index| operand(graph, node, index).is_none()) {
                return Some("its parameters are not constant".to_owned());
            }
            let rows = affine(graph, norm, node);
            let finite = rows.is_ok_and(|rows| rows.iter().flatten().all(|x| x.is_finite()));
            (!finite).then(|| "its scale or offset is not finite".to_owned())
        }
        Op::Unary(unary) => match unary {
            Unary::Relu | Unary::Neg | Unary::Abs | Unary::HardSwish => None,
            Unary::Floor | Unary::Ceil | Unary::Round | Unary::Sign | Unary::Not => none(),
            Unary::Sqrt | Unary::Log | Unary::Reciprocal | Unary::Sin | Unary::Cos | Unary::Tan => {
                Some(format!("{} is too steep or too long for a table", node.op.name()))
            }
            Unary::Exp | Unary::Erf | Unary::Sigmoid | Unary::Tanh | Unary::Atan => {
                refuse_function(arch, approximate, &node.op)
            }
            Unary::Gelu | Unary::GeluTanh | Unary::Softplus => {
                refuse_function(arch, approximate, &node.op)
            }
        },
        Op::Activation(activation) => refuse_activation(arch, *activation),
        Op::PRelu => refuse_prelu(graph, node),
        Op::Binary(op) => refuse_binary(graph, arch, *op, node),
        Op::Resize(resize) if !resize.is_nearest() => refuse_interpolation(graph, resize, node),
        Op::Quantise(_) => (!is_on_grid(arch, &node.op))
            .then(|| format!("it rounds to another grid than that of {}", arch.data_type.name())),
        Op::Softmax(softmax) => refuse_softmax(graph, arch, softmax, node),
        Op::LayerNorm(_) | Op::InstanceNorm(_) | Op::Lrn(_) | Op::Recurrent(_) => none(),
        Op::Compare(_) | Op::Logic(_) | Op::Where | Op::ArgExtreme(_) => none(),
        Op::Cast { .. } | Op::CastUnbounded { .. } | Op::ToCodes(_) | Op::FromCodes(_) => {
            Some("the machine has one number format".to_owned())
        }
        Op::Identity
        | Op::Reshape { .. }
        | Op::Flatten { .. }
        | Op::Transpose { .. }
        | Op::Concat { .. }
        | Op::Slice { .. }
        | Op::Pad(_)
        | Op::Gather { .. }
        | Op::Expand { .. }
        | Op::Tile { .. }
        | Op::Resize(_) => refuse_movement(graph, arch, node),
    }
}

/// What the ALUs compute from two numbers, one of which lies in a register: a machine may have none.
/// Sums of tensors need none, since accumulators add.
fn refuse_registers(graph: &Graph, arch: &TcuArch, node: &Node) -> Option<String> {
    let sums = matches!(node.op, Op::Binary(Binary::Add))
        && node.operands().all(|id| graph[id].constant.is_none());
    let computes = match &node.op {
        // A product.
        Op::Reduce(reduce) if reduce.kind == ReduceKind::Sum => {
            !reduces_channels(graph, reduce, node)
        }
        Op::Pool(_) | Op::GlobalAveragePool | Op::GlobalMaxPool | Op::Reduce(_) => true,
        Op::BatchNorm(_) | Op::Unary(_) | Op::Activation(_) | Op::PRelu | Op::Softmax(_) => true,
        Op::Binary(_) => !sums,
        Op::Resize(resize) => !resize.is_nearest(),
        _ => false,
    };
    (computes && arch.simd_registers_depth == 0)
        .then(|| "it needs a register of the ALUs, and the machine has none".to_owned())
}

fn refuse_product(graph: &Graph, arch: &TcuArch, node: &Node) -> Option<String> {
    let constant = |index: usize| node.input(index).is_none_or(|id| graph[id].constant.is_some());
    if node.input(0).is_some_and(|x| graph[x].constant.is_some()) || !constant(1) {
        return Some("its weights are not constant".to_owned());
    }
    if !constant(2) {
        return Some("its bias is not constant".to_owned());
    }
    let (x, w) = (&graph[node.input(0)?].shape, &graph[node.input(1)?].shape);
    let out = Dims::of(&graph[node.output].shape)?;
    let padded = |channels: usize| channels.next_multiple_of(arch.lanes());
    let (taps, rows) = match &node.op {
        Op::Conv(Conv { window, .. }) | Op::ConvTranspose(ConvTranspose { window, .. }) => {
            if let Some(reason) = refuse_rank(window) {
                return Some(reason);
            }
            (w[2..].iter().product::<usize>(), padded(x[1]))
        }
        Op::Gemm(gemm) => {
            if gemm.transpose_a {
                return Some("its first operand is transposed".to_owned());
            }
            if let Some(c) = node.input(2).map(|c| &graph[c].shape) {
                let row = c.iter().rev().skip(1).all(|&extent| extent == 1);
                if !row {
                    return Some("its bias is not one row".to_owned());
                }
            }
            (1, padded(x[1]))
        }
        _ if x.len() < 2 || w.len() != 2 => {
            return Some("its weights are not one matrix for rows of numbers".to_owned());
        }
        _ if x.len() > 2 => (w[1], padded(w[0])),
        _ => (1, padded(x[1])),
    };
    let too_large = taps.saturating_mul(out.positions()) > MAX_PAIRS
        || taps.saturating_mul(rows).saturating_mul(padded(out.c)) > MAX_WEIGHTS;
    too_large.then(|| "its kernel is too large".to_owned())
}

fn refuse_rank(window: &Window) -> Option<String> {
    (window.rank() > 2).then(|| "it has more than two spatial axes".to_owned())
}

fn refuse_window(graph: &Graph, arch: &TcuArch, node: &Node) -> Option<String> {
    let x = &graph[node.input(0)?].shape;
    let positions = Dims::of(&graph[node.output].shape)?.positions();
    match &node.op {
        Op::Pool(pool) => {
            let taps: usize = pool.window.kernel.iter().product();
            let reads = taps.min(x[2..].iter().product());
            refuse_rank(&pool.window)
                .or_else(|| {
                    (positions.saturating_mul(reads) > MAX_PAIRS)
                        .then(|| "its windows are too large".to_owned())
                })
                .or_else(|| {
                    has_empty_window(graph, node)
                        .then(|| "one of its windows lies wholly in the padding".to_owned())
                })
        }
        Op::Reduce(reduce) if reduces_channels(graph, reduce, node) => {
            refuse_reduction(graph, arch, reduce.kind, node)
        }
        Op::Reduce(reduce) if !is_reduced(reduce, x) => {
            Some("only means, sums and maxima over channels or positions are supported".to_owned())
        }
        _ if x.len() < 3 => Some("it has no positions to reduce".to_owned()),
        _ => None,
    }
}

/// Functions from tables or as polynomials.
fn refuse_function(arch: &TcuArch, approximate: Option<f64>, op: &Op) -> Option<String> {
    let problem = tables::form(arch).err()?;
    let reason = format!("{} needs lookup tables: {problem}", op.name());
    let Some(function) = Function::of(op).filter(|&function| tables::has_polynomial(function))
    else {
        return Some(reason);
    };
    match approximate {
        Some(bound) => tables::polynomial(function, arch.data_type, bound).err(),
        None => Some(format!("{reason}; with --rounding free it can be a polynomial")),
    }
}

fn refuse_softmax(graph: &Graph, arch: &TcuArch, softmax: &Softmax, node: &Node) -> Option<String> {
    if softmax.log {
        return Some("the logarithm of a softmax is too steep for a table".to_owned());
    }
    let x = &graph[node.input(0)?].shape;
    let (dims, count) = (Dims::of(x)?, *x.get(softmax.axis)?);
    if dims.positions().saturating_mul(count.min(2 * arch.lanes())) > MAX_PAIRS {
        return Some("it has too many positions".to_owned());
    }
    tables::refuse_softmax(count, arch)
}

fn refuse_activation(arch: &TcuArch, activation: Activation) -> Option<String> {
    match activation {
        Activation::LeakyRelu { alpha } => refuse_slope(alpha),
        Activation::Clip { min, max } => {
            let limits = [min, max];
            let bad = limits.iter().flatten().any(|limit| limit.is_nan());
            bad.then(|| "one of its limits is not a number".to_owned())
        }
        Activation::Elu { alpha } => refuse_parameters(arch, activation, &[alpha]),
        Activation::Selu { alpha, gamma } => refuse_parameters(arch, activation, &[alpha, gamma]),
        Activation::HardSigmoid { alpha, beta } => refuse_wild(&[alpha, beta]),
    }
}

fn refuse_wild(parameters: &[f32]) -> Option<String> {
    let wild = parameters.iter().any(|parameter| !parameter.is_finite());
    wild.then(|| "one of its parameters is not finite".to_owned())
}

fn refuse_parameters(arch: &TcuArch, activation: Activation, parameters: &[f32]) -> Option<String> {
    refuse_wild(parameters).or_else(|| refuse_function(arch, None, &Op::Activation(activation)))
}

/// The machine computes the larger of the number and its product with the slope.
fn refuse_slope(slope: f32) -> Option<String> {
    (!(slope.is_finite() && slope <= 1.0)).then(|| format!("its slope {slope} is above 1"))
}

fn refuse_prelu(graph: &Graph, node: &Node) -> Option<String> {
    let Some(slopes) = operand(graph, node, 1) else {
        return Some("its slope is not constant".to_owned());
    };
    if operand(graph, node, 0).is_some() {
        return Some("its first operand is constant".to_owned());
    }
    let slopes = reals(slopes).ok()?;
    slopes.iter().find_map(|&slope| refuse_slope(slope))
}

fn refuse_binary(graph: &Graph, arch: &TcuArch, op: Binary, node: &Node) -> Option<String> {
    match op {
        Binary::Pow if power(graph, node).is_none() => {
            return Some("its exponent is not the constant 2 or 3".to_owned());
        }
        Binary::Div => {
            let Some(divisors) = operand(graph, node, 1).and_then(|c| reals(c).ok()) else {
                return Some("its divisor is not constant".to_owned());
            };
            if let Some(&divisor) = divisors.iter().find(|&&d| !has_reciprocal(arch, d)) {
                let name = arch.data_type.name();
                return Some(format!("{name} has no number near the reciprocal of {divisor}"));
            }
        }
        _ => {}
    }
    let mut tensors = node.operands().filter(|&id| graph[id].constant.is_none());
    let misfit = tensors.find(|&id| spread(graph, id, node.output).is_none())?;
    let name = &graph[misfit].name;
    Some(format!("its operand \"{name}\" gets new axes"))
}

/// True for a divisor whose reciprocal is encoded with an error of at most 1 in 64.
fn has_reciprocal(arch: &TcuArch, divisor: f32) -> bool {
    let reciprocal = f64::from(1.0 / divisor);
    let encoded = arch.data_type.decode(arch.data_type.encode(reciprocal));
    reciprocal.is_finite() && (encoded - reciprocal).abs() <= reciprocal.abs() / 64.0
}

fn refuse_interpolation(graph: &Graph, resize: &Resize, node: &Node) -> Option<String> {
    let (x, out) = (&graph[node.input(0)?].shape, &graph[node.output].shape);
    if !(3..=4).contains(&x.len()) || !interpolates_positions(resize, x, out) {
        return Some("it resizes axes other than rows and columns".to_owned());
    }
    if let Some(reason) = refuse_extrapolation(resize) {
        return Some(reason);
    }
    let positions = Dims::of(out)?.positions();
    (positions.saturating_mul(16) > MAX_PAIRS).then(|| "its result is too large".to_owned())
}

fn refuse_extrapolation(resize: &Resize) -> Option<String> {
    match resize.coordinates {
        Coordinates::CropAndResize { extrapolation } if extrapolation != 0.0 => {
            Some("positions outside of its operand are not zero".to_owned())
        }
        _ => None,
    }
}

fn refuse_movement(graph: &Graph, arch: &TcuArch, node: &Node) -> Option<String> {
    if let Op::Concat { axis } = node.op {
        return refuse_concat(graph, arch, axis, node);
    }
    match &node.op {
        Op::Pad(pad) => {
            if matches!(pad.mode, PadMode::Constant(value) if value != 0.0) {
                return Some("it pads with a number that is not zero".to_owned());
            }
        }
        Op::Resize(resize) => {
            if let Some(reason) = refuse_extrapolation(resize) {
                return Some(reason);
            }
        }
        _ => {}
    }
    if renames(graph, node) || flattens_for_products(graph, arch, node) {
        return None;
    }
    let (x, out) = (Dims::of(&graph[node.input(0)?].shape)?, Dims::of(&graph[node.output].shape)?);
    match selection(graph, node) {
        Some(selection) if selection.channels.is_none() => None,
        Some(_) => refuse_matrix(arch, x.c, out.c),
        None => mixed(graph, node).is_none().then(|| {
            "moving its elements between positions and channels takes matrices that are too large".to_owned()
        }),
    }
}

fn refuse_matrix(arch: &TcuArch, from: usize, to: usize) -> Option<String> {
    let rows = from.next_multiple_of(arch.lanes());
    (rows.saturating_mul(to) > MAX_SCALARS)
        .then(|| "moving its channels takes a matrix that is too large".to_owned())
}

fn refuse_concat(graph: &Graph, arch: &TcuArch, axis: usize, node: &Node) -> Option<String> {
    if node.operands().any(|id| graph[id].constant.is_some()) {
        return Some("one of its operands is constant".to_owned());
    }
    if !is_channels(axis, &graph[node.output].shape) {
        return None;
    }
    let lanes = arch.lanes();
    let padded: usize =
        node.operands().map(|id| Dims::of_value(graph, id).c.next_multiple_of(lanes)).sum();
    let channels = Dims::of_value(graph, node.output).c;
    let aligned = node.operands().all(|id| aligned_block(graph, node, id, lanes).is_some());
    if aligned && node.operands().count() <= 1 {
        return None;
    }
    // Operands may be read at different positions, each with a matrix of its own.
    let matrices = node.operands().count();
    (padded.saturating_mul(channels).saturating_mul(matrices) > 16 * MAX_SCALARS)
        .then(|| "moving its channels takes matrices that are too large".to_owned())
}

/// True when the result has the elements of the operand at the same positions and channels.
pub(super) fn renames(graph: &Graph, node: &Node) -> bool {
    let Some(x) = node.input(0) else {
        return false;
    };
    let (from, to) = (&graph[x].shape, &graph[node.output].shape);
    let in_order = match &node.op {
        Op::Identity | Op::Reshape { .. } | Op::Flatten { .. } => true,
        Op::Transpose { order } => order.iter().filter(|&&axis| from[axis] != 1).is_sorted(),
        _ => false,
    };
    let same = Dims::of(from).zip(Dims::of(to)).is_some_and(|(x, out)| x.same_table(out));
    in_order && same && graph[x].constant.is_none()
}

/// True for a node that changes neither numbers nor places.
pub(super) fn is_silent(graph: &Graph, arch: &TcuArch, node: &Node) -> bool {
    renames(graph, node) || is_on_grid(arch, &node.op)
}

/// True when a quantiser's grid is that of the data type, on which all numbers are.
pub(super) fn is_on_grid(arch: &TcuArch, op: &Op) -> bool {
    let (Op::Quantise(quantiser), Some(point)) = (op, arch.data_type.binary_point()) else {
        return false;
    };
    quantiser.signed.as_uniform() == Some(true)
        && quantiser.width.as_uniform() == Some(arch.data_type.width())
        && quantiser.zero.as_uniform() == Some(0)
        && quantiser.overflow.as_uniform() == Some(Overflow::Saturate)
        && quantiser.scale.as_uniform() == Some(1.0 / f64::from(1_u32 << point))
}

/// True when a tensor is flattened only for products, which can read it unflattened.
pub(super) fn flattens_for_products(graph: &Graph, arch: &TcuArch, node: &Node) -> bool {
    if !matches!(node.op, Op::Reshape { .. } | Op::Flatten { .. })
        || graph.outputs().contains(&node.output)
    {
        return false;
    }
    let Some(x) = node.input(0).and_then(|x| Dims::of(&graph[x].shape)) else {
        return false;
    };
    let flat = graph[node.output].shape[..] == [x.n, x.c * x.spatial()];
    let reads = |reader: &Node| {
        matches!(reader.op, Op::Gemm(_) | Op::MatMul)
            && reader.input(0) == Some(node.output)
            && refusal(graph, arch, None, reader).is_none()
    };
    let mut readers = graph
        .nodes()
        .map(|(_, reader)| reader)
        .filter(|reader| reader.operands().any(|operand| operand == node.output))
        .peekable();
    flat && readers.peek().is_some() && readers.all(reads)
}
