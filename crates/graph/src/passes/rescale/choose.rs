//! Which exponents.
//!
//! A machine with numbers of one step rounds weights and sums to it. With `x` and `y` for operand and
//! result as the machine has them, in its own unit, the error of a sum of `n` products is about
//! `sqrt(n * (1 + x²))` steps, of which the 1 comes from rounding sums and the `x²` from rounding
//! weights; relative to `y` it is that over `y`. Exponents are moved one group at a time as long as
//! the sum of the squares of these shares becomes less.

use super::Extent;
use super::roles::{Role, plain};
use crate::{Graph, Node, NodeId, Op, PoolKind, ReduceKind, ValueId};

/// Room for sums on the way to a result of products, and for data beyond the calibration's.
const MARGIN: f64 = 4.0;

/// Room of other results.
const OTHERS: f64 = 2.0;

/// Ratio of the largest number of a value to a typical one: of 3, 4, 5.5 and 8, errors of ResNet-20 and a
/// tiny YOLO are least with 4.
const CREST: f64 = 4.0;

/// Least square that counts: values that are zeros on all data need no bits.
const LEAST: f64 = 1e-12;

/// Most factors that are rounded to see what is lost; of more the mean is that of arbitrary numbers.
const FEW: usize = 1024;

/// Largest magnitude of an exponent.
const MOST: i32 = 24;

/// Scales of batch normalisations that can become part of weights behind a ReLU.
const MOVED: std::ops::RangeInclusive<f64> = 0.25..=4.0;

/// What a constant beyond the range costs: more than errors.
const PENALTY: f64 = 1e9;

/// What a multiplication to mend exponents costs, for every power of two, so that others follow.
const MENDED: f64 = 16.0;

/// Exponents that are tried below the present one.
const REACH: i32 = 8;

/// Most walks over the groups.
const WALKS: usize = 16;

/// An exponent for every value; 0 for constants.
pub(super) fn exponents(
    graph: &Graph,
    peaks: &[Option<f64>],
    roles: &[Role],
    extent: Extent,
) -> Vec<i32> {
    let mut groups = Groups::new(graph.values().len());
    for ((_, node), role) in graph.nodes().zip(roles) {
        groups.join(graph, node, *role);
    }
    let constants = graph.values().map(|(id, _)| magnitude(graph, id)).collect();
    let (exponents, shares) = (vec![0; peaks.len()], shares(graph));
    let mut search = Search { graph, peaks, constants, shares, roles, extent, exponents };
    let mut members: Vec<Vec<Member>> = vec![Vec::new(); peaks.len()];
    for (id, value) in graph.values() {
        if value.constant.is_none() && peaks[id.index()].is_some() {
            let (root, offset) = groups.find(id.index());
            members[root].push(Member { id, offset });
        }
    }
    let pinned = search.pinned();
    let consumers = graph.consumers();
    let mut free = Vec::new();
    for group in members.into_iter().filter(|group| !group.is_empty()) {
        let cap = search.cap(&group, |id| search.margin(id));
        let held = search.cap(&group, |_| 1.0);
        match group.iter().find(|member| pinned[member.id.index()]) {
            Some(member) if held >= -member.offset => search.set(&group, -member.offset),
            _ => {
                search.set(&group, cap.min(0));
                let mut nodes: Vec<NodeId> = Vec::new();
                for member in &group {
                    nodes.extend(graph[member.id].producer);
                    nodes.extend(&consumers[member.id.index()]);
                }
                nodes.sort_unstable();
                nodes.dedup();
                let ids = group.iter().map(|member| member.id);
                let inputs = ids.filter(|id| graph.inputs().contains(id)).collect();
                free.push(Free { group, cap, base: cap.min(0), nodes, inputs });
            }
        }
    }
    search.descend(&mut free);
    search.exponents
}

/// A value of a group: its exponent is that of the group and an offset.
#[derive(Clone, Copy, Debug)]
struct Member {
    id: ValueId,
    offset: i32,
}

/// A group that may have any exponent up to a cap.
struct Free {
    group: Vec<Member>,
    cap: i32,
    base: i32,
    /// Nodes that read or compute its values.
    nodes: Vec<NodeId>,
    /// Values of it that are inputs.
    inputs: Vec<ValueId>,
}

/// Values whose exponents depend on each other: a forest, with the offset from the parent.
struct Groups {
    parents: Vec<(usize, i32)>,
}

impl Groups {
    fn new(values: usize) -> Groups {
        Groups { parents: (0..values).map(|value| (value, 0)).collect() }
    }

    /// The root of a value and the offset from it; all on the way become its children.
    fn find(&mut self, value: usize) -> (usize, i32) {
        let (mut root, mut offset) = (value, 0);
        while self.parents[root].0 != root {
            offset += self.parents[root].1;
            root = self.parents[root].0;
        }
        let (mut at, mut left) = (value, offset);
        while at != root {
            let (next, step) = std::mem::replace(&mut self.parents[at], (root, left));
            (at, left) = (next, left - step);
        }
        (root, offset)
    }

    /// From now on, `value` has the exponent of `other` and `offset`.
    fn tie(&mut self, value: usize, other: usize, offset: i32) {
        let ((a, of_value), (b, of_other)) = (self.find(value), self.find(other));
        if a != b {
            self.parents[a] = (b, of_other + offset - of_value);
        }
    }

    fn join(&mut self, graph: &Graph, node: &Node, role: Role) {
        match role {
            Role::Shared { operands } => {
                for operand in node.operands().take(operands) {
                    if graph[operand].constant.is_none() {
                        self.tie(operand.index(), node.output.index(), 0);
                    }
                }
            }
            Role::Linear { .. } if matches!(node.op, Op::BatchNorm(_)) => {
                if let Some((operand, offset)) = folded(graph, node) {
                    self.tie(operand.index(), node.output.index(), offset);
                }
            }
            _ => {}
        }
    }
}

/// The operand of a batch normalisation, and an exponent for it beyond that of the result. Where the
/// scales can become part of the weights before it, their root mean square is then at least 1, so that
/// nothing is lost; where they can become part of those behind it, they stay as they are.
fn folded(graph: &Graph, norm: &Node) -> Option<(ValueId, i32)> {
    let Op::BatchNorm(attributes) = &norm.op else { return None };
    let operand = norm.input(0)?;
    let producer = graph[operand].producer.map(|producer| &graph[producer].op);
    let is_product =
        matches!(producer, Some(Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul));
    let readers = graph.nodes().filter(|(_, node)| node.operands().any(|id| id == operand)).count();
    let of = |index| Some(plain(graph, norm.input(index)?)?.to_f64());
    let (scales, variances) = (of(1)?, of(4)?);
    let epsilon = f64::from(attributes.epsilon);
    let scales = || scales.iter().zip(&variances).map(|(s, v)| s / (v + epsilon).sqrt());
    if is_product && readers == 1 && !graph.outputs().contains(&operand) {
        let squares: f64 = scales().map(|scale| scale * scale).sum();
        let offset = (squares / scales().count().max(1) as f64).log2() / 2.0;
        let offset = offset.is_finite().then(|| offset.floor() as i32)?;
        return Some((operand, offset.clamp(-MOST / 2, MOST / 2)));
    }
    scales().all(|scale| MOVED.contains(&scale)).then_some((operand, 0))
}

/// The largest magnitude of a constant; 0 for other values.
fn magnitude(graph: &Graph, id: ValueId) -> f64 {
    let values = plain(graph, id).and_then(|constant| constant.values::<f32>().ok());
    let magnitudes = values.iter().flat_map(|values| values.iter()).map(|x| x.abs());
    magnitudes.filter(|x| x.is_finite()).fold(0.0, f32::max).into()
}

/// What is left of the square of a rounding error of every value where it is averaged least: the mean of
/// `n` has an `n`-th. Errors of weights, which are the same everywhere, stay.
fn shares(graph: &Graph) -> Vec<f64> {
    let mut shares = vec![0.0_f64; graph.values().len()];
    graph.outputs().iter().for_each(|output| shares[output.index()] = 1.0);
    for (_, node) in graph.nodes().rev() {
        let elements = |id: ValueId| graph[id].shape.iter().product::<usize>() as f64;
        let averages = match &node.op {
            Op::GlobalAveragePool => true,
            Op::Pool(pool) => matches!(pool.kind, PoolKind::Average { .. }),
            Op::Reduce(reduce) => matches!(reduce.kind, ReduceKind::Mean | ReduceKind::Sum),
            _ => false,
        };
        let Some(x) = node.input(0) else { continue };
        let count = if averages { elements(x) / elements(node.output).max(1.0) } else { 1.0 };
        let share = shares[node.output.index()] / count.max(1.0);
        for operand in node.operands() {
            let known = &mut shares[operand.index()];
            *known = known.max(share);
        }
    }
    shares
}

struct Search<'a> {
    graph: &'a Graph,
    peaks: &'a [Option<f64>],
    /// What of errors of values is left in the end.
    shares: Vec<f64>,
    /// The largest magnitude of every constant.
    constants: Vec<f64>,
    roles: &'a [Role],
    extent: Extent,
    exponents: Vec<i32>,
}

impl Search<'_> {
    /// Values that should have exponent 0 if they are held.
    fn pinned(&self) -> Vec<bool> {
        let mut pinned = vec![false; self.peaks.len()];
        let ends = self.graph.inputs().iter().chain(self.graph.outputs());
        ends.for_each(|id| pinned[id.index()] = true);
        for ((_, node), role) in self.graph.nodes().zip(self.roles) {
            if *role == Role::Fixed {
                pinned[node.output.index()] = true;
                node.operands().for_each(|id| pinned[id.index()] = true);
            }
        }
        let lost = |peak: &Option<f64>| peak.is_some_and(|peak| self.extent.loses(peak));
        pinned.iter_mut().zip(self.peaks).for_each(|(pinned, peak)| *pinned &= !lost(peak));
        pinned
    }

    fn margin(&self, id: ValueId) -> f64 {
        let role = self.graph[id].producer.map(|node| self.roles[node.index()]);
        match role {
            Some(Role::Linear { terms, .. }) if terms > 1.0 => MARGIN,
            Some(Role::Product | Role::Sum) => MARGIN,
            _ => OTHERS,
        }
    }

    /// The largest exponent of a group with which all its values are held, with room.
    fn cap(&self, group: &[Member], margin: impl Fn(ValueId) -> f64) -> i32 {
        let caps = group.iter().filter_map(|member| {
            let room = self.extent.most / margin(member.id) / self.peaks[member.id.index()]?;
            Some((room.log2().floor() as i32).clamp(-MOST, MOST) - member.offset)
        });
        caps.min().unwrap_or(0)
    }

    fn set(&mut self, group: &[Member], base: i32) {
        for member in group {
            self.exponents[member.id.index()] = base + member.offset;
        }
    }

    fn descend(&mut self, free: &mut [Free]) {
        for _ in 0..WALKS {
            let mut moved = false;
            for Free { group, cap, base, nodes, inputs } in free.iter_mut() {
                let (mut best, mut least) = (*base, self.cost(nodes, inputs));
                let lowest = (*base - REACH).max(-2 * MOST);
                for exponent in (lowest..=*cap).rev().filter(|exponent| exponent != base) {
                    self.set(group, exponent);
                    let cost = self.cost(nodes, inputs);
                    // A little less may be no more than rounding.
                    if cost < least * (1.0 - 1e-6) {
                        (best, least) = (exponent, cost);
                    }
                }
                self.set(group, best);
                moved |= best != *base;
                *base = best;
            }
            if !moved {
                break;
            }
        }
    }

    fn cost(&self, nodes: &[NodeId], inputs: &[ValueId]) -> f64 {
        let rounded = inputs.iter().map(|&id| self.shares[id.index()] / self.power(id));
        nodes.iter().map(|&node| self.of_node(node)).chain(rounded).sum()
    }

    /// The square of a typical number of a value, as the machine has it.
    fn power(&self, id: ValueId) -> f64 {
        let peak = self.peaks[id.index()].unwrap_or(1.0);
        (peak / CREST * 2.0_f64.powi(self.exponents[id.index()])).powi(2).max(LEAST)
    }

    fn of_node(&self, id: NodeId) -> f64 {
        let (node, role) = (&self.graph[id], self.roles[id.index()]);
        let exponent = |id: ValueId| self.exponents[id.index()];
        let of_result = exponent(node.output);
        let (power, share) = (self.power(node.output), self.shares[node.output.index()]);
        match role {
            // Values that are free although a function reads or computes them.
            Role::Fixed => {
                let values = node.operands().chain([node.output]);
                let mended = values.map(|id| f64::from(exponent(id).abs())).sum::<f64>();
                share / power + MENDED * mended.min(1.0)
            }
            Role::Shared { operands } => {
                let constants = node.operands().take(operands);
                let beyond = constants.map(|id| self.beyond(id, of_result)).sum::<f64>();
                share / power + beyond
            }
            Role::Linear { data, constants, terms } => {
                let Some(x) = node.input(data) else { return 0.0 };
                let beyond = constants.iter().filter_map(|&(index, [of_data, own])| {
                    let exponent = of_data * exponent(x) + own * of_result;
                    Some(self.beyond(node.input(index)?, exponent))
                });
                let factor = constants.first().and_then(|&(index, [of_data, own])| {
                    let exponent = of_data * exponent(x) + own * of_result;
                    Some(self.rounding(node.input(index)?, exponent))
                });
                let rounding = factor.unwrap_or(1.0);
                terms * (share + rounding * self.power(x)) / power + beyond.sum::<f64>()
            }
            Role::Product => {
                let sum: i32 = node.operands().map(exponent).sum();
                share / power + MENDED * f64::from((sum - of_result).abs())
            }
            Role::Power(times) => {
                let natural = times * node.input(0).map_or(0, exponent);
                share / power + MENDED * f64::from((natural - of_result).abs())
            }
            Role::Sum => {
                let Some(x) = node.input(0).filter(|&x| exponent(x) != of_result) else {
                    return share / power;
                };
                // Every element is rounded before.
                let elements = |id: ValueId| self.graph[id].shape.iter().product::<usize>().max(1);
                share * elements(x) as f64 / elements(node.output) as f64 / power + MENDED
            }
        }
    }

    /// The mean square of what rounding changes in factors, over that of arbitrary numbers.
    fn rounding(&self, id: ValueId, exponent: i32) -> f64 {
        let values = plain(self.graph, id).and_then(|constant| constant.values::<f32>().ok());
        let Some(values) = values.filter(|values| values.len() <= FEW) else { return 1.0 };
        let unit = 2.0_f64.powi(exponent) / self.extent.step;
        let lost = |&x: &f32| {
            let x = f64::from(x) * unit;
            (x - x.round()).powi(2)
        };
        let mean = values.iter().map(lost).sum::<f64>() / values.len().max(1) as f64;
        if mean.is_finite() { 12.0 * mean } else { 1.0 }
    }

    /// What it costs that the machine holds a constant only in part.
    fn beyond(&self, id: ValueId, exponent: i32) -> f64 {
        let peak = self.constants[id.index()] * 2.0_f64.powi(exponent);
        PENALTY * (2.0 * peak / self.extent.most).log2().max(0.0)
    }
}
