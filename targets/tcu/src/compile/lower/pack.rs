//! The weights of a product as they lie in DRAM1: in the order in which they are used.

use super::{Current, Lowering};
use crate::compile::hir::{MatMul, Network, SumOrder};
use crate::compile::schedule::{Unit, units};
use crate::program::Memory;

/// A unit in the order in which a group uses it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) unit: Unit,
    /// Block of output channels.
    pub(super) column: u32,
    /// First vector in DRAM1.
    pub(super) address: u64,
}

/// Puts the weights of a layer into DRAM1: the units of every group, and where each group starts
/// and the last one ends. Input planes are used `chunk` at a time. Where all constants stay in local
/// memory every unit lies alone, at the place that it has there as well.
pub(super) fn pack(
    lowering: &mut Lowering<'_>,
    current: &Current<'_>,
    product: &MatMul,
    order: &SumOrder,
    chunk: u32,
) -> (Vec<Vec<Placed>>, Vec<u64>) {
    let (blocks, width) = (current.info.blocks, current.plan.group);
    let lanes = lowering.arch.lanes();
    let alone = lowering.constants_in == Memory::Local;
    let columns = units(product, lowering.network, order, lowering.arch.array_size, blocks);
    let chunk_of = |unit: &Unit| unit.plane / chunk;
    let chunks = columns.iter().flatten().map(chunk_of).max().map_or(0, |last| last + 1);
    let (mut groups, mut starts) = (Vec::new(), vec![0]);
    let (mut scalars, mut vectors) = (Vec::new(), 0);
    for first in (0..blocks).step_by(width as usize) {
        let mut placed = Vec::new();
        for chunk in 0..chunks {
            for column in first..(first + width).min(blocks) {
                let of_chunk = columns[column as usize].iter().filter(|u| chunk_of(u) == chunk);
                for &unit in of_chunk {
                    unit_scalars(lowering.network, lanes, product, &unit, column, &mut scalars);
                    let mut address = vectors;
                    if alone {
                        address = lowering.constants.add(&scalars);
                        scalars.clear();
                    }
                    placed.push(Placed { unit, column, address });
                    vectors += unit.vectors();
                }
            }
        }
        groups.push(placed);
        starts.push(vectors);
    }
    if !alone {
        let base = lowering.constants.add(&scalars);
        groups.iter_mut().flatten().for_each(|placed| placed.address += base);
        starts.iter_mut().for_each(|start| *start += base);
    }
    (groups, starts)
}

/// Adds the vectors of a unit for a block of output channels: the bias, then the rows.
pub(super) fn unit_scalars(
    network: &Network,
    lanes: usize,
    product: &MatMul,
    unit: &Unit,
    column: u32,
    scalars: &mut Vec<i32>,
) {
    let mut push = |constant: u32, row: usize| {
        let constant = &network.consts[constant as usize];
        let channels = constant.channels as usize;
        let first = column as usize * lanes;
        let count = channels.saturating_sub(first).min(lanes);
        let of_row = &constant.data[row * channels + first.min(channels)..][..count];
        scalars.extend_from_slice(of_row);
        scalars.extend(std::iter::repeat_n(0, lanes - count));
    };
    if let Some(bias) = product.bias.filter(|_| unit.bias) {
        push(bias.row.0, 0);
    }
    for row in 0..unit.rows as usize {
        push(product.taps[unit.tap as usize].weights.0, unit.plane as usize * lanes + row);
    }
}
