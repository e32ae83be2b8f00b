//! What convolutions and matrix products cost at least.

use super::Classes;
use super::demand::{Demand, Layout, split};
use crate::arch::TcuArch;
use quincunx_graph::{Node, Op, ValueId, Window};
use std::collections::{BTreeMap, BTreeSet};

/// What a product multiplies: operand, weights, bias, and what every output position reads.
struct Product {
    x: ValueId,
    weights: ValueId,
    bias: bool,
    groups: usize,
    /// Channels of the operand and of the result.
    depth: usize,
    width: usize,
    window: Option<Window>,
}

impl Product {
    /// The node, if one operand is data and the other one constant.
    fn new(node: &Node, demand: &Demand<'_>) -> Option<Product> {
        let [x, weights] = [node.input(0)?, node.input(1)?];
        let shape = |id: ValueId| &demand.graph[id].shape[..];
        let (rows, out) = (shape(x), shape(node.output));
        let (groups, window) = match &node.op {
            Op::Conv(conv) => (conv.groups, Some(conv.window.clone())),
            Op::Gemm(gemm) if !gemm.transpose_a => (1, None),
            Op::MatMul if rows.len() == 2 && out.len() == 2 => (1, None),
            _ => return None,
        };
        let holds = !demand.is_constant(x) && demand.is_constant(weights);
        let (depth, width) = (*rows.get(1)?, *out.get(1)?);
        let bias = node.input(2).is_some();
        holds.then_some(Product { x, weights, bias, groups, depth, width, window })
    }

    /// What an output position reads: element of a plane of the operand, and tap.
    fn reads(&self, at: usize, out: &[usize], x: &[usize]) -> Vec<(usize, usize)> {
        match &self.window {
            Some(window) => window.reads(&split(at, &out[2..]), &x[2..]),
            None => vec![(0, 0)],
        }
    }
}

/// Sums over what is multiplied.
struct Sums {
    lanes: u64,
    groups: usize,
    /// Products that a vector has at most, where channels are in groups.
    most: u64,
    /// By tap: vectors through the array, channels of the operand by group, and whether all its
    /// output positions read and compute the same channels.
    taps: BTreeMap<usize, Tap>,
    /// Output channels by group.
    width: Vec<u64>,
    /// By blocks of the output: elements that are multiplied.
    elements: BTreeMap<u64, u64>,
    /// Products of single numbers.
    macs: u64,
}

#[derive(Default)]
struct Tap {
    vectors: u64,
    positions: u64,
    depth: Vec<u64>,
    widths: BTreeSet<u64>,
}

impl Sums {
    /// Vectors that multiply channels of the operand by channels of the result.
    fn vectors(&self, depth: &[u64], width: &[u64]) -> u64 {
        match (depth, width) {
            (&[depth], &[width]) => depth.div_ceil(self.lanes) * width.div_ceil(self.lanes),
            _ => {
                let pairs = depth.iter().zip(width).map(|(depth, width)| depth * width);
                pairs.sum::<u64>().div_ceil(self.lanes * self.most)
            }
        }
    }

    fn add(&mut self, tap: usize, depth: &[u64], width: &[u64]) {
        let vectors = self.vectors(depth, width);
        if vectors == 0 {
            return;
        }
        let tap = self.taps.entry(tap).or_default();
        tap.vectors += vectors;
        tap.positions += 1;
        tap.depth.resize(self.groups, 0);
        tap.depth.iter_mut().zip(depth).for_each(|(most, &depth)| *most = depth.max(*most));
        tap.widths.insert(width.iter().sum::<u64>() << 32 | depth.iter().sum::<u64>());
        let blocks = width.iter().sum::<u64>().div_ceil(self.lanes);
        *self.elements.entry(blocks).or_default() += depth.iter().sum::<u64>();
        self.macs += depth.iter().zip(width).map(|(depth, width)| depth * width).sum::<u64>();
    }
}

/// Adds a node. Weights that several nodes have are counted with the first of them.
pub(super) fn add(
    bound: &mut Classes,
    node: &Node,
    demand: &Demand<'_>,
    arch: &TcuArch,
    known: &mut BTreeSet<ValueId>,
) {
    let Some(product) = Product::new(node, demand) else { return };
    let sums = sums(&product, node, demand, arch);
    let packed = packed(&product, &sums, demand);
    let aligned: u64 = sums.taps.values().map(|tap| tap.vectors).sum();
    bound.products += packed.map_or(aligned, |packed| packed.min(aligned));
    if known.insert(product.weights) {
        weights(bound, &product, &sums, packed.is_some(), arch);
    }
}

/// Goes through all output positions.
fn sums(product: &Product, node: &Node, demand: &Demand<'_>, arch: &TcuArch) -> Sums {
    let (x, out) = (&demand.graph[product.x].shape, &demand.graph[node.output].shape);
    let (from, to) = (Layout::new(x), Layout::new(out));
    let groups = product.groups;
    let wide = |counts: Vec<u32>| -> Vec<u64> { counts.into_iter().map(u64::from).collect() };
    let depths = wide(from.counts(demand.data(product.x), groups));
    let widths = wide(to.counts(demand.wanted(node.output), groups));
    let mut width = vec![0; groups];
    for position in widths.chunks(groups) {
        width.iter_mut().zip(position).for_each(|(most, &width)| *most = width.max(*most));
    }
    let lanes = u64::from(arch.array_size);
    let of_group = (product.depth.min(product.width) / groups) as u64;
    let most = lanes.min(of_group).max(1);
    let (taps, elements) = (BTreeMap::new(), BTreeMap::new());
    let mut sums = Sums { lanes, groups, most, taps, width, elements, macs: 0 };
    for at in 0..to.plane {
        let reads = product.reads(at, out, x);
        for image in 0..to.images {
            let place = (image * to.plane + at) * groups;
            let width = &widths[place..place + groups];
            if width.iter().all(|&width| width == 0) {
                continue;
            }
            for &(element, tap) in &reads {
                let place = (image * from.plane + element) * groups;
                sums.add(tap, &depths[place..place + groups], width);
            }
        }
    }
    sums
}

/// Vectors where the operand has so few channels that those of several positions fit into one: a
/// vector multiplies at most as many elements as there are lanes.
fn packed(product: &Product, sums: &Sums, demand: &Demand<'_>) -> Option<u64> {
    let (lanes, channels) = (sums.lanes, product.depth as u64);
    if 2 * channels > lanes || sums.taps.len() < 2 {
        return None;
    }
    if product.groups > 1 {
        return Some(sums.macs.div_ceil(lanes * sums.most));
    }
    let is_input = demand.is_moved_input(product.x);
    let total = sums.elements.iter().map(|(&blocks, &elements)| {
        let of_positions = |positions: u64| {
            let held = lanes.min(positions * channels);
            let uses = product.window.as_ref().map_or(1, |window| uses(window, positions));
            // Only products combine lanes, and their result leaves the accumulators.
            let made = if is_input && positions > 1 { positions + 1 } else { 0 };
            u128::from(elements) * u128::from(blocks * uses + made) / u128::from(uses * held)
        };
        (1..=lanes.div_ceil(channels)).map(of_positions).min().unwrap_or(0) as u64
    });
    Some(total.sum())
}

/// How many windows share this many positions at most.
fn uses(window: &Window, positions: u64) -> u64 {
    // By extents of a box of taps: its size, and the windows around it.
    let mut boxes = vec![(1, 1)];
    for axis in 0..window.rank() {
        let kernel = window.kernel[axis];
        let along = |&(size, uses): &(u64, u64)| {
            (1..=kernel).map(move |extent| {
                let slack = (kernel - extent) * window.dilations[axis];
                (size * extent as u64, uses * (slack / window.strides[axis] + 1) as u64)
            })
        };
        boxes = boxes.iter().flat_map(along).collect();
    }
    let enough = boxes.into_iter().filter(|&(size, _)| size >= positions);
    enough.map(|(_, uses)| uses).max().unwrap_or(1)
}

/// Loading weights, and the runs of MatMuls that use them. A run writes every accumulator once at
/// most and reads what lies in local memory.
fn weights(bound: &mut Classes, product: &Product, sums: &Sums, packed: bool, arch: &TcuArch) {
    let lanes = sums.lanes;
    let room = arch.accumulator_depth.min(arch.local_depth);
    let blocks_of = |depth: &[u64]| -> u64 {
        let rows = depth.iter().zip(&sums.width);
        rows.map(|(depth, width)| depth * width.div_ceil(lanes)).sum()
    };
    let (mut rows, mut loads, mut again) = (0, 0, 0);
    let mut costs_of_again = 0;
    for tap in sums.taps.values() {
        rows += blocks_of(&tap.depth);
        let blocks = sums.vectors(&tap.depth, &sums.width);
        let runs = match tap.widths.len() {
            1 if tap.vectors == blocks * tap.positions => blocks * tap.positions.div_ceil(room),
            _ => tap.vectors.div_ceil(room).max(blocks),
        };
        loads += blocks;
        again += runs - blocks;
        let least = tap.depth.iter().map(|depth| depth % lanes).min().unwrap_or(0);
        let least = if least == 0 { lanes } else { least + 1 };
        costs_of_again += (runs - blocks) * least.min(lanes);
    }
    if packed {
        loads = rows.div_ceil(lanes);
        (again, costs_of_again) = (0, 0);
    }
    bound.weights += rows + loads + costs_of_again;
    bound.startups += (loads + again) * lanes;
    let bias = sums.width.iter().sum::<u64>().div_ceil(lanes);
    bound.drams += rows + if product.bias && loads > 0 { bias } else { 0 };
}
