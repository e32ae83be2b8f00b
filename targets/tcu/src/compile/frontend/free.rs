//! What is chosen where numbers are free: what becomes part of a product's weights, and what is
//! summed together.

use super::constants::{operand, reals};
use super::dims::Dims;
use super::pointwise::affine;
use super::support::renames;
use super::{Choices, Frontend};
use crate::arch::{DataType, TcuArch};
use quincunx_graph::{Binary, Conv, Graph, Node, NodeId, Op, Pool, PoolKind, Unary, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// Scales for which a batch normalisation may be moved behind a ReLU: weights are multiplied by
/// them and keep nearly all of their bits.
const SCALES: std::ops::RangeInclusive<f32> = 0.25..=4.0;

/// Least root mean square of the scales of a batch normalisation that becomes part of the weights
/// before it. Sums of products and weights are rounded to the same step with and without it: without
/// it what is lost is multiplied by the scale.
const FOLDED: f64 = 0.98;

/// Least vectors of a leaky ReLU that is a sum.
const SUMMED_VECTORS: usize = 32;

/// What becomes of a batch normalisation behind a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// It is part of weights and bias.
    All,
    /// The offset, divided by the scale, is part of the bias; the scale stays.
    Offset,
    /// All of it stays.
    Nothing,
}

/// Two products whose sum is computed as one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// The first one, which the second one takes along.
    pub(super) first: NodeId,
    /// The node that adds them.
    pub(super) sum: NodeId,
}

/// What was chosen.
#[derive(Clone, Debug)]
pub(super) struct Free {
    /// The batch normalisation that readers take in, by the result of the ReLU behind it and by
    /// means of that.
    moved: BTreeMap<usize, NodeId>,
    /// Batch normalisations that are taken in.
    norms: BTreeSet<usize>,
    /// By the second product of a pair.
    pairs: BTreeMap<usize, Pair>,
    /// The first products of pairs.
    firsts: BTreeMap<usize, NodeId>,
    /// Batch normalisations whose offsets are part of the bias before them.
    pub(super) offsets: BTreeSet<usize>,
    data_type: DataType,
}

/// A bias with the offset of a batch normalisation behind it, divided by the scale as the machine holds
/// it: what is lost of the scale then makes no difference to the offset.
pub(super) fn offset_before(data_type: DataType, bias: f32, scale: f32, offset: f32) -> f32 {
    let held = data_type.decode(data_type.encode(scale.into()));
    (f64::from(bias) + f64::from(offset) / held) as f32
}

impl Free {
    fn empty(data_type: DataType) -> Free {
        Free {
            moved: BTreeMap::new(),
            norms: BTreeSet::new(),
            pairs: BTreeMap::new(),
            firsts: BTreeMap::new(),
            offsets: BTreeSet::new(),
            data_type,
        }
    }

    /// Chooses for a graph.
    pub(super) fn new(graph: &Graph, arch: &TcuArch, choices: Choices) -> Free {
        let mut free = Free::empty(arch.data_type);
        if !choices.joins() {
            return free;
        }
        let look = Look { graph, consumers: graph.consumers(), data_type: arch.data_type };
        for (id, node) in graph.nodes() {
            if let Some(values) = look.moved(node) {
                free.norms.insert(id.index());
                free.moved.extend(values.into_iter().map(|value| (value.index(), id)));
            }
            if let Some((second, pair)) = look.pair(id, node) {
                free.pairs.insert(second.index(), pair);
                free.firsts.insert(pair.first.index(), second);
            }
        }
        free
    }

    /// The batch normalisation that readers of a value take in.
    pub(super) fn before(&self, value: ValueId) -> Option<NodeId> {
        self.moved.get(&value.index()).copied()
    }

    /// True for a batch normalisation that the readers of the ReLU behind it take in.
    pub(super) fn is_moved(&self, norm: NodeId) -> bool {
        self.norms.contains(&norm.index())
    }

    /// What becomes of the batch normalisation behind a product with a bias.
    pub(super) fn fold(&self, scale: &[f32], offset: &[f32], bias: impl Fn(usize) -> f32) -> Fold {
        let most = self.data_type.decode(self.data_type.max());
        let squares: f64 = scale.iter().map(|&scale| f64::from(scale).powi(2)).sum();
        if squares >= FOLDED * FOLDED * scale.len() as f64 {
            return Fold::All;
        }
        let sound = scale.iter().zip(offset).enumerate().all(|(channel, (&scale, &offset))| {
            let moved = offset_before(self.data_type, bias(channel), scale, offset);
            f64::from(moved).abs() <= most / 4.0
        });
        if sound { Fold::Offset } else { Fold::Nothing }
    }

    /// True when layers are others than without.
    pub(super) fn is_any(&self) -> bool {
        !self.norms.is_empty() || !self.pairs.is_empty()
    }

    /// What a product takes along.
    pub(super) fn pair(&self, second: NodeId) -> Option<Pair> {
        self.pairs.get(&second.index()).copied()
    }

    /// True for a product that another one takes along.
    pub(super) fn is_first(&self, node: NodeId) -> bool {
        self.firsts.contains_key(&node.index())
    }
}

/// A graph that is looked at.
struct Look<'a> {
    graph: &'a Graph,
    consumers: Vec<Vec<NodeId>>,
    data_type: DataType,
}

impl Look<'_> {
    /// The only reader of a value that is not an output.
    fn only_reader(&self, value: ValueId) -> Option<NodeId> {
        match self.consumers[value.index()][..] {
            [reader] if !self.graph.outputs().contains(&value) => Some(reader),
            _ => None,
        }
    }

    /// For a batch normalisation before a ReLU that only products without padding read, or means
    /// that only products read: the values between. With `s` and `o` for scale and offset,
    /// `max(s * x + o, 0)` is `s * max(x, -o / s) + o`, of which the products take in all but the
    /// maximum.
    fn moved(&self, node: &Node) -> Option<Vec<ValueId>> {
        let Op::BatchNorm(norm) = &node.op else { return None };
        let folds = |producer: NodeId| {
            let op = &self.graph[producer].op;
            matches!(op, Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul)
        };
        let x = node.input(0)?;
        let folded = self.graph[x].producer.is_some_and(folds) && self.only_reader(x).is_some();
        let relu = &self.graph[self.only_reader(node.output)?];
        if folded || !matches!(relu.op, Op::Unary(Unary::Relu)) {
            return None;
        }
        let (mut value, mut values) = (relu.output, vec![relu.output]);
        // Positions whose sum may not leave the range because of limits far from zero.
        let mut positions = 1;
        while let Some(reader) = self.only_reader(value).map(|reader| &self.graph[reader]) {
            let before = Dims::of_value(self.graph, value);
            match &reader.op {
                op if is_mean(op) => {
                    let after = Dims::of_value(self.graph, reader.output);
                    positions = positions.max(before.spatial().div_ceil(after.spatial()));
                }
                _ if renames(self.graph, reader) => {}
                _ => break,
            }
            value = reader.output;
            values.push(value);
        }
        let [scale, offset] = affine(self.graph, norm, node).ok()?;
        let most = self.data_type.decode(self.data_type.max()) as f32;
        let sound = scale.iter().zip(&offset).all(|(scale, offset)| {
            let limit = (offset / scale).abs();
            SCALES.contains(scale) && limit * positions as f32 <= most / 4.0
        });
        let takes = |&reader: &NodeId| {
            let reader = &self.graph[reader];
            let once = reader.operands().filter(|&operand| operand == value).count() == 1;
            once && reader.input(0) == Some(value) && self.takes_in(reader, &scale, &offset)
        };
        let readers = &self.consumers[value.index()];
        let all = !readers.is_empty() && readers.iter().all(takes);
        (sound && all && !self.graph.outputs().contains(&value)).then_some(values)
    }

    /// True for a product of all positions without padding whose weights and bias stay far from
    /// the ends of the range.
    fn takes_in(&self, node: &Node, scale: &[f32], offset: &[f32]) -> bool {
        let Some(weights) = operand(self.graph, node, 1).and_then(|w| reals(w).ok()) else {
            return false;
        };
        // Elements from one input to the next, and to the same one of the next output.
        let channels = scale.len();
        let (taps, factor, [by_input, by_output]) = match &node.op {
            Op::Conv(Conv { window, groups: 1 }) => {
                if window.pads.iter().any(|&(before, after)| before + after > 0) {
                    return false;
                }
                let taps: usize = window.kernel.iter().product();
                (taps, 1.0, [taps, taps * channels])
            }
            Op::Gemm(gemm) if gemm.transpose_b => (1, gemm.alpha, [1, channels]),
            Op::Gemm(gemm) => (1, gemm.alpha, [weights.len() / channels, 1]),
            // Of more axes the last one is summed over.
            Op::MatMul if node.input(0).is_some_and(|x| self.graph[x].shape.len() == 2) => {
                (1, 1.0, [weights.len() / channels, 1])
            }
            _ => return false,
        };
        let outputs = weights.len() / (taps * channels);
        let most = self.data_type.decode(self.data_type.max());
        weights.len() == taps * channels * outputs
            && (0..outputs).all(|output| {
                let (mut sum, mut largest) = (0.0, 0.0_f64);
                for (channel, (scale, offset)) in scale.iter().zip(offset).enumerate() {
                    for tap in 0..taps {
                        let w = factor * weights[output * by_output + channel * by_input + tap];
                        sum += f64::from(w * offset).abs();
                        largest = largest.max(f64::from(w * scale).abs());
                    }
                }
                sum <= most / 4.0 && largest <= most / 2.0
            })
    }

    /// Two convolutions that are read by a sum only.
    fn pair(&self, sum: NodeId, node: &Node) -> Option<(NodeId, Pair)> {
        if !matches!(node.op, Op::Binary(Binary::Add)) {
            return None;
        }
        let (a, b) = (node.input(0)?, node.input(1)?);
        let of = |value: ValueId| {
            let producer = self.graph[value].producer?;
            let conv = matches!(self.graph[producer].op, Op::Conv(Conv { groups: 1, .. }));
            let all = Dims::of_value(self.graph, value) == Dims::of_value(self.graph, node.output);
            (conv && all && self.only_reader(value) == Some(sum)).then_some(producer)
        };
        let (a, b) = (of(a)?, of(b)?);
        let (first, second) = if a.index() < b.index() { (a, b) } else { (b, a) };
        (a != b).then_some((second, Pair { first, sum }))
    }
}

impl Frontend<'_> {
    /// True when a leaky ReLU is a sum: that of the number and of a multiple of its negative part,
    /// which no saturation changes. It is that of upstream but for the rounding of ties, and shorter
    /// where there is one register, more than a few vectors, and room for the parts.
    pub(super) fn adds_leaks(&self, dims: Dims, alpha: f32) -> bool {
        let fixed = self.arch.data_type.binary_point().is_some();
        let many = dims.positions() * dims.blocks(self.lanes) >= SUMMED_VECTORS;
        let pays = many && self.arch.simd_registers_depth == 1;
        !self.choices.keeps_order() && fixed && pays && (0.0..=1.0).contains(&alpha)
    }
}

/// True for an operation that makes means of positions, all of which are there.
fn is_mean(op: &Op) -> bool {
    match op {
        Op::GlobalAveragePool => true,
        Op::Pool(Pool { kind: PoolKind::Average { .. }, window, ceil: false }) => {
            window.pads.iter().all(|&pads| pads == (0, 0))
        }
        _ => false,
    }
}
