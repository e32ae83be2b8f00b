//! How exponents of operands and results depend on each other.

use super::Extent;
use crate::{Activation, Binary, Conv, ConvTranspose, Graph, Node, Op, ReduceKind, Unary, ValueId};
use quincunx_tensor::{DType, Tensor};

/// Exponents of the constants of a linear node: operand, how often the exponent of the data counts,
/// how often that of the result.
pub(super) type Constants = &'static [(usize, [i32; 2])];

const PRODUCT: Constants = &[(1, [-1, 1]), (2, [0, 1])];
const FIRST: Constants = &[(0, [-1, 1])];
const DIVISOR: Constants = &[(1, [1, -1])];
const NORM: Constants = &[(1, [-1, 1]), (2, [0, 1]), (3, [1, 0])];

/// What a node does with exponents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Role {
    /// Operands and result have exponent 0.
    Fixed,
    /// The first operands and the result have the same exponent, constants among them too.
    Shared {
        /// How many operands.
        operands: usize,
    },
    /// The result may have any exponent.
    Linear {
        /// The operand that is no constant.
        data: usize,
        /// The others.
        constants: Constants,
        /// Products in a sum.
        terms: f64,
    },
    /// The exponent of the result is the sum of those of the operands.
    Product,
    /// It is so many times that of the operand, which may be there twice.
    Power(i32),
    /// Sums of elements: as [`Role::Shared`], but the operand may be multiplied before.
    Sum,
}

/// The roles of all nodes.
pub(super) fn roles(graph: &Graph, peaks: &[Option<f64>], extent: Extent) -> Vec<Role> {
    let known = |id: ValueId| graph[id].dtype == DType::F32 && peaks[id.index()].is_some();
    let held = |id: ValueId| peaks[id.index()].is_some_and(|peak| extent.holds(peak));
    let role = |node: &Node| {
        let role = role(graph, node);
        let data = node.operands().filter(|&id| graph[id].constant.is_none());
        let known = known(node.output) && data.filter(|&id| graph[id].dtype.is_float()).all(known);
        // An output that nothing holds is for the host, and what it joins keeps its exponents.
        let lost = graph.outputs().contains(&node.output) && !held(node.output);
        match role {
            Role::Shared { .. } if lost => Role::Fixed,
            role if known => role,
            _ => Role::Fixed,
        }
    };
    graph.nodes().map(|(_, node)| role(node)).collect()
}

/// A constant of plain f32.
pub(super) fn plain(graph: &Graph, id: ValueId) -> Option<&Tensor> {
    let constant = graph[id].constant.as_ref()?;
    let plain = constant.quantiser.is_none() && constant.tensor.dtype() == DType::F32;
    plain.then_some(&constant.tensor)
}

fn role(graph: &Graph, node: &Node) -> Role {
    const ALL: Role = Role::Shared { operands: usize::MAX };
    const FIRST_ONLY: Role = Role::Shared { operands: 1 };
    let shared = match &node.op {
        Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) => linear(graph, node, 0, PRODUCT),
        Op::MatMul => product(graph, node, [PRODUCT, FIRST]),
        Op::BatchNorm(_) => linear(graph, node, 0, NORM),
        Op::Binary(Binary::Mul) => product(graph, node, [PRODUCT, FIRST]),
        Op::Binary(Binary::Div) => linear(graph, node, 0, DIVISOR),
        Op::Binary(Binary::Pow) => power(graph, node),
        Op::Binary(Binary::Add | Binary::Sub | Binary::Max | Binary::Min) => Some(ALL),
        Op::Unary(Unary::Relu | Unary::Neg | Unary::Abs) => Some(ALL),
        Op::Activation(Activation::LeakyRelu { .. } | Activation::Clip { .. }) => Some(ALL),
        Op::Reduce(reduce) => {
            use ReduceKind::{L1, Max, Mean, Min, Sum};
            match reduce.kind {
                Sum => Some(Role::Sum),
                Mean | Max | Min | L1 => Some(ALL),
                _ => None,
            }
        }
        Op::Pool(_) | Op::GlobalAveragePool | Op::GlobalMaxPool | Op::Resize(_) => Some(ALL),
        Op::PRelu | Op::Gather { .. } => Some(FIRST_ONLY),
        op if op.only_moves() => Some(ALL),
        _ => None,
    };
    let role = shared.unwrap_or(Role::Fixed);
    let Role::Shared { operands } = role else { return role };
    // Constants among the operands become others, which only plain ones can.
    let fits = |id: ValueId| graph[id].constant.is_none() || plain(graph, id).is_some();
    let mut data = node.operands().take(operands);
    if data.all(fits) { role } else { Role::Fixed }
}

/// A product with constants, of which the first have to be there.
fn linear(graph: &Graph, node: &Node, data: usize, constants: Constants) -> Option<Role> {
    let x = node.input(data)?;
    let is_plain = |&(index, _): &(usize, [i32; 2])| match node.input(index) {
        Some(id) => plain(graph, id).is_some(),
        None => index == 2,
    };
    let used = constants.iter().filter(|&&(index, _)| index < node.op.arity().1);
    if graph[x].constant.is_some() || !used.clone().all(is_plain) {
        return None;
    }
    Some(Role::Linear { data, constants, terms: terms(graph, node) })
}

/// A product of two tensors, one of which may be constant.
fn product(graph: &Graph, node: &Node, [second, first]: [Constants; 2]) -> Option<Role> {
    if matches!(node.op, Op::Binary(_)) && node.input(0) == node.input(1) {
        return Some(Role::Power(2));
    }
    linear(graph, node, 0, second).or_else(|| linear(graph, node, 1, first)).or_else(|| {
        let constant = node.operands().any(|id| graph[id].constant.is_some());
        (!constant).then_some(Role::Product)
    })
}

fn power(graph: &Graph, node: &Node) -> Option<Role> {
    let exponents = plain(graph, node.input(1)?)?.to_f64();
    let &first = exponents.first()?;
    let same = exponents.iter().all(|&exponent| exponent == first);
    (same && (first == 2.0 || first == 3.0)).then_some(Role::Power(first as i32))
}

/// Products that are summed to an element of the result.
fn terms(graph: &Graph, node: &Node) -> f64 {
    let elements: usize = graph[node.output].shape.iter().product();
    match &node.op {
        Op::Conv(Conv { .. })
        | Op::ConvTranspose(ConvTranspose { .. })
        | Op::Gemm(_)
        | Op::MatMul => (graph.macs(node) as f64 / elements.max(1) as f64).max(1.0),
        _ => 1.0,
    }
}
