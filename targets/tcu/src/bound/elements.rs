//! What operators cost at least that work on accumulators element by element.

use super::demand::{Demand, Layout, Set, split};
use crate::arch::TcuArch;
use quincunx_graph::{Activation, Binary, Node, Op, Pool, PoolKind, ReduceKind, Unary, ValueId};

/// Instructions of the ALUs for a node: each reads one accumulator and writes one, and does one
/// operation.
pub(super) fn instructions(node: &Node, demand: &Demand<'_>, arch: &TcuArch) -> u64 {
    let lanes = u64::from(arch.array_size);
    if let Some(windows) = windows(node, demand) {
        return largest(node, demand, &windows, lanes);
    }
    let operations = operations(node, demand, arch);
    if operations == 0 {
        return 0;
    }
    let vectors = vectors(node, demand, lanes);
    match demand.pooled(node.output) {
        // Of a monotone function only the largest results are needed. The first operation belongs
        // to taking the maximum.
        Some(window) => (operations - 1) * (vectors / window),
        None => operations * vectors,
    }
}

/// Operations for a vector of the result.
fn operations(node: &Node, demand: &Demand<'_>, arch: &TcuArch) -> u64 {
    let encode = |real: f32| arch.data_type.encode(f64::from(real));
    let is_inside = |real: f32| match arch.data_type.range() {
        Some([low, high]) => f64::from(real) > low && f64::from(real) < high,
        None => true,
    };
    match &node.op {
        Op::Unary(Unary::Relu | Unary::Abs) => u64::from(!is_positive(node, demand)),
        Op::Unary(Unary::Neg) => 0,
        Op::Activation(Activation::LeakyRelu { alpha }) => match encode(*alpha) {
            alpha if alpha == encode(1.0) => 0,
            // `x / 2 + max(x / 2, 0)` is one instruction that accumulates.
            alpha if alpha == 0 || alpha == encode(0.5) => 1,
            _ => 2,
        },
        Op::Activation(Activation::Clip { min, max }) => {
            let low = min.is_some_and(is_inside);
            let needed = low && !(min <= &Some(0.0) && is_positive(node, demand));
            u64::from(needed || max.is_some_and(is_inside))
        }
        Op::Unary(_) | Op::Activation(_) | Op::PRelu | Op::Softmax(_) => 1,
        Op::Binary(Binary::Max | Binary::Min) => 1,
        Op::Binary(Binary::Mul) => u64::from(!demand.passes(node)),
        _ => 0,
    }
}

/// The operand is the result of a ReLU.
fn is_positive(node: &Node, demand: &Demand<'_>) -> bool {
    let producer = node.input(0).and_then(|x| demand.graph[x].producer);
    let op = producer.map(|id| &demand.graph[id].op);
    matches!(op, Some(Op::Unary(Unary::Relu)))
}

/// Vectors of the result, or of the operand with the most elements if all were moved: what is moved
/// after the operation is computed once.
fn vectors(node: &Node, demand: &Demand<'_>, lanes: u64) -> u64 {
    let wanted = demand.wanted(node.output);
    let shape = |id: ValueId| &demand.graph[id].shape;
    let reads = demand.reads(node, wanted);
    let direct = |(operand, _): &(ValueId, Set)| {
        shape(*operand) == shape(node.output) && !demand.is_moved(*operand)
    };
    if reads.iter().any(direct) {
        return demand.layout(node.output).vectors(wanted, lanes);
    }
    let elements = reads.iter().map(|(operand, set)| demand.distinct(*operand, set));
    elements.max().unwrap_or(0).div_ceil(lanes)
}

/// What every element of a maximum over rows and columns reads.
fn windows(node: &Node, demand: &Demand<'_>) -> Option<Vec<Vec<usize>>> {
    let [x, out] = [node.input(0)?, node.output].map(|id| &demand.graph[id].shape);
    let plane = Layout::new(x).plane;
    match &node.op {
        Op::Pool(Pool { kind: PoolKind::Max, window, .. }) => {
            let of = |at: usize| window.reads(&split(at, &out[2..]), &x[2..]);
            let elements = |at| of(at).into_iter().map(|(element, _)| element).collect();
            Some((0..Layout::new(out).plane).map(elements).collect())
        }
        Op::GlobalMaxPool => Some(vec![(0..plane).collect()]),
        Op::Reduce(reduce) if reduce.kind == ReduceKind::Max => {
            let mut axes = reduce.axes.clone();
            axes.sort_unstable();
            let of_space = axes.iter().copied().eq(2..x.len());
            of_space.then(|| vec![(0..plane).collect()])
        }
        _ => None,
    }
}

/// Every element that is compared is read, and every result written.
fn largest(node: &Node, demand: &Demand<'_>, windows: &[Vec<usize>], lanes: u64) -> u64 {
    let Some(x) = node.input(0) else { return 0 };
    let [from, _] = [x, node.output].map(|id| demand.layout(id));
    let planes = windows.len();
    let (mut read, mut written) = (Set::default(), Set::default());
    for element in demand.wanted(node.output).iter() {
        let (row, at) = (element / planes, element % planes);
        let elements = windows[at].iter().map(|at| row * from.plane + at);
        let data: Vec<usize> = elements.filter(|&at| demand.data(x).has(at)).collect();
        if data.len() > 1 {
            written.insert(element);
            data.into_iter().for_each(|at| read.insert(at));
        }
    }
    let to = Layout { images: from.images, channels: from.channels, plane: planes };
    let written = to.vectors(&written, lanes);
    let read = match demand.is_moved(x) {
        true => demand.distinct(x, &read).div_ceil(lanes),
        false => from.vectors(&read, lanes),
    };
    // What an operation has just computed is in a register.
    match demand.is_from_alus(x) {
        true => written.max(read.saturating_sub(written)),
        false => written.max(read),
    }
}
