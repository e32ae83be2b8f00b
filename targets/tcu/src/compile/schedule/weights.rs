//! The blocks of weights of a product, in the order in which they are used.

use crate::compile::hir::{Const, MatMul, Network, SumOrder};

/// A block of weights: products of one input plane with one block of output channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Tap.
    pub(crate) tap: u32,
    /// Input plane of the tap.
    pub(crate) plane: u32,
    /// Rows of weights, one for each lane that holds a channel; none where the bias stands alone.
    pub(crate) rows: u32,
    /// The product starts with the bias, which is one more row, before the others.
    pub(crate) bias: bool,
}

impl Unit {
    /// Vectors in memory.
    pub(crate) fn vectors(&self) -> u64 {
        u64::from(self.rows) + u64::from(self.bias)
    }
}

/// Where the blocks of a constant are not zeros only.
struct Blocks {
    columns: u32,
    filled: Vec<bool>,
}

impl Blocks {
    fn new(weights: &Const, lanes: u32) -> Blocks {
        let columns = weights.channels.div_ceil(lanes).max(1);
        let mut filled = vec![false; (weights.rows.div_ceil(lanes) * columns) as usize];
        if weights.channels > 0 {
            for (row, scalars) in weights.data.chunks(weights.channels as usize).enumerate() {
                let first = row / lanes as usize * columns as usize;
                for (column, block) in scalars.chunks(lanes as usize).enumerate() {
                    filled[first + column] |= block.iter().any(|&scalar| scalar != 0);
                }
            }
        }
        Blocks { columns, filled }
    }

    fn filled(&self, plane: u32, column: u32) -> bool {
        self.filled[(plane * self.columns + column) as usize]
    }
}

/// The order of the sum that is used for a product: the one that must be kept, or `chunk` input
/// planes at a time, beginning with a tap that reaches every output position if there is one.
pub(crate) fn sum_order(product: &MatMul, outputs: u32, chunk: u32) -> SumOrder {
    let mut taps: Vec<u32> = (0..product.taps.len() as u32).collect();
    if product.ordered {
        let planes = product.taps.iter().map(|tap| tap.inputs.len() as u32).max();
        return SumOrder { taps, chunk: planes.unwrap_or(1).max(1) };
    }
    let whole = product.taps.iter().position(|tap| tap.pairs.len() == outputs as usize);
    if let Some(whole) = whole {
        taps[..=whole].rotate_right(1);
    }
    SumOrder { taps, chunk: chunk.max(1) }
}

/// The units of every block of output channels.
///
/// Blocks of zeros are left out: their products are 0, and adding that changes no number. Of one that
/// carries the bias only that is left, and it is used along with the plane of a neighbour.
pub(crate) fn units(
    product: &MatMul,
    network: &Network,
    order: &SumOrder,
    lanes: u32,
    columns: u32,
) -> Vec<Vec<Unit>> {
    let blocks: Vec<Blocks> = product
        .taps
        .iter()
        .map(|tap| Blocks::new(&network.consts[tap.weights.0 as usize], lanes))
        .collect();
    let sequence = sequence(product, order);
    let bias = product.bias.and_then(|bias| match product.ordered {
        true => Some((bias.tap, bias.block)),
        false => sequence.first().copied(),
    });
    let unit = |&(tap, plane): &(u32, u32), column: u32| {
        let inputs = &product.taps[tap as usize];
        let last = plane as usize + 1 == inputs.inputs.len();
        let rows = if last { inputs.last_lanes } else { lanes };
        let bias = bias == Some((tap, plane));
        let filled = blocks[tap as usize].filled(plane, column);
        let rows = if filled { rows } else { 0 };
        (bias || filled).then_some(Unit { tap, plane, rows, bias })
    };
    let of_column = |column: u32| {
        let mut units: Vec<Unit> =
            sequence.iter().filter_map(|place| unit(place, column)).collect();
        if let Some(alone) = units.iter().position(|unit| unit.rows == 0) {
            let neighbour = alone.checked_sub(1).unwrap_or(alone + 1);
            units[alone].plane = units.get(neighbour).map_or(0, |unit| unit.plane);
        }
        units
    };
    (0..columns).map(of_column).collect()
}

/// Taps and planes in the order of the sum.
fn sequence(product: &MatMul, order: &SumOrder) -> Vec<(u32, u32)> {
    let planes = |tap: u32| product.taps[tap as usize].inputs.len() as u32;
    let most = order.taps.iter().map(|&tap| planes(tap)).max().unwrap_or(0);
    let mut sequence = Vec::new();
    for first in (0..most).step_by(order.chunk as usize) {
        for &tap in &order.taps {
            let end = first.saturating_add(order.chunk).min(planes(tap));
            sequence.extend((first..end).map(|plane| (tap, plane)));
        }
    }
    sequence
}
