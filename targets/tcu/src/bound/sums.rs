//! What sums of tensors cost at least whose operands cannot wait in accumulators.

use super::demand::{Demand, Set};
use crate::arch::TcuArch;
use quincunx_graph::{Binary, Node, Op, Unary, ValueId};
use std::collections::BTreeSet;

/// What other sums were counted with.
#[derive(Default)]
pub(super) struct Known {
    products: BTreeSet<ValueId>,
    saved: BTreeSet<ValueId>,
}

/// Cycles for a sum `a + b` where `a` is computed from `b` by a chain of products: every vector of
/// `b` leaves the accumulators and comes back, or waits there while its products pass. At most all
/// accumulators wait at a time, so that of more than them the weights pass again.
pub(super) fn moves(
    node: &Node,
    demand: &Demand<'_>,
    leaving: &[Set],
    arch: &TcuArch,
    known: &mut Known,
) -> u64 {
    let (Op::Binary(Binary::Add), Some(a), Some(b)) = (&node.op, node.input(0), node.input(1))
    else {
        return 0;
    };
    if [a, b].iter().any(|&id| demand.graph[id].shape != demand.graph[node.output].shape) {
        return 0;
    }
    let chain = chain(demand, a, b).or_else(|| chain(demand, b, a));
    let Some((shortcut, products)) = chain else { return 0 };
    let fresh = products.iter().all(|&product| known.products.insert(product));
    let lanes = u64::from(arch.array_size);
    let layout = demand.layout(node.output);
    let vectors = layout.vectors(demand.wanted(node.output), lanes);
    if !fresh || makings(demand, shortcut, lanes) < 2 {
        return 0;
    }
    let is_saved = !leaving[shortcut.index()].is_empty() || !known.saved.insert(shortcut);
    let each = if is_saved { 1 } else { 2 };
    let room = arch.accumulator_depth.min(arch.local_depth);
    let counted = ((layout.images * layout.plane) as u64).div_ceil(room);
    // Loading all weights of the position itself again, and starting the array.
    let pass = |&product: &ValueId| {
        let (depth, width) = channels(demand, product);
        let rest = if depth % lanes == 0 { lanes } else { depth % lanes };
        let blocks = depth.div_ceil(lanes) * width.div_ceil(lanes);
        blocks * (lanes + lanes.min(rest + 1))
    };
    let pass: u64 = products.iter().map(pass).sum();
    let waiting = |passes: u64| {
        let moved = vectors.saturating_sub(passes * arch.accumulator_depth);
        each * moved + passes.saturating_sub(counted) * pass
    };
    (0..=vectors.div_ceil(arch.accumulator_depth)).map(waiting).min().unwrap_or(0)
}

/// The value that `b` is, scaled at most, and the products but the last one by which `a` is computed
/// from it, position by position. There is at least one.
fn chain(demand: &Demand<'_>, a: ValueId, b: ValueId) -> Option<(ValueId, Vec<ValueId>)> {
    let shortcut = *steps(demand, b, |op| matches!(op, Op::BatchNorm(_))).last()?;
    let mut products = Vec::new();
    let mut at = a;
    loop {
        let values = steps(demand, at, is_elementwise);
        if values.contains(&shortcut) {
            break;
        }
        let product = *values.last()?;
        products.push(product);
        at = demand.producer(product).filter(|node| is_central(node))?.input(0)?;
    }
    // The last product is the first that was found.
    let others = products.split_off(products.len().min(1));
    (!others.is_empty()).then_some((shortcut, others))
}

/// A value and those from which it is computed by such operators on one operand, the last one first.
fn steps(demand: &Demand<'_>, value: ValueId, passes: impl Fn(&Op) -> bool) -> Vec<ValueId> {
    let mut values = vec![value];
    let mut at = value;
    while let Some(x) = demand.producer(at).filter(|node| passes(&node.op)).and_then(|n| n.input(0))
    {
        values.push(x);
        at = x;
    }
    values
}

/// A convolution without groups that reads, at every position, this position.
fn is_central(node: &Node) -> bool {
    let Op::Conv(conv) = &node.op else { return false };
    let window = &conv.window;
    let reads = |axis: usize| {
        let (pad, dilation) = (window.pads[axis].0, window.dilations[axis]);
        pad % dilation == 0 && pad / dilation < window.kernel[axis] && window.strides[axis] == 1
    };
    conv.groups == 1 && (0..window.rank()).all(reads)
}

/// Channels of the operand and of the result of a product.
fn channels(demand: &Demand<'_>, product: ValueId) -> (u64, u64) {
    let x = demand.producer(product).and_then(|node| node.input(0));
    let depth = x.map_or(0, |x| demand.layout(x).channels);
    (depth as u64, demand.layout(product).channels as u64)
}

/// Vectors through the array to make one again of a value that products made; 0 for any other.
fn makings(demand: &Demand<'_>, value: ValueId, lanes: u64) -> u64 {
    let Some(node) = demand.producer(value) else { return 0 };
    match &node.op {
        Op::Conv(conv) if conv.groups == 1 => {
            let taps = conv.window.kernel.iter().product::<usize>() as u64;
            taps * channels(demand, value).0.div_ceil(lanes)
        }
        Op::Binary(Binary::Add) => {
            node.operands().map(|id| makings(demand, id, lanes)).max().unwrap_or(0)
        }
        Op::BatchNorm(_) => node.input(0).map_or(0, |x| makings(demand, x, lanes)),
        _ => 0,
    }
}

/// One operand, element by element, and constants.
fn is_elementwise(op: &Op) -> bool {
    matches!(op, Op::Unary(Unary::Relu | Unary::Neg) | Op::Activation(_) | Op::BatchNorm(_))
}
