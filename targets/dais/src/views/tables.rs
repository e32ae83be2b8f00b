//! Tables of programs.

use super::csd::naive;
use super::flat::Flat;
use crate::compile::pipeline::outgoing_bits;
use crate::program::Pipeline;
use crate::time;
use quincunx_report::{Cell, Column, Table};
use std::collections::BTreeMap;

/// What every layer costs, against constants in signed digits without sharing, and when it is done:
/// `clock` is the period in ns, and the results of a stage are there when it ends.
pub(crate) fn layers(flat: &Flat, clock: f64) -> Table {
    let columns = vec![
        Column::text("layer"),
        Column::number("operations"),
        Column::number("adders"),
        Column::number("bits"),
        Column::number("depth"),
        Column::number("csd_adders"),
        Column::number("csd_depth"),
        Column::number("saved"),
        Column::number("latency"),
        Column::number("stage"),
        Column::number("done").unit("ns"),
    ];
    let mut table = Table::new("layers", columns);
    let naive = naive(flat);
    for (number, (group, sum)) in flat.groups.iter().zip(totals(flat)).enumerate() {
        if sum.operations == 0 {
            continue;
        }
        let naive = naive.as_ref().map(|naive| naive[number]);
        let saved = naive.filter(|naive| naive.adders > 0);
        let saved = saved.map(|naive| Cell::Share(1.0 - sum.adders as f64 / naive.adders as f64));
        table.push(vec![
            group.name.as_str().into(),
            sum.operations.into(),
            sum.adders.into(),
            Cell::Number(sum.bits),
            u64::from(sum.depth).into(),
            naive.map_or(Cell::Empty, |naive| naive.adders.into()),
            naive.map_or(Cell::Empty, |naive| u64::from(naive.depth).into()),
            saved.unwrap_or(Cell::Empty),
            Cell::Number(sum.latency),
            sum.stage.into(),
            Cell::Number((sum.stage + 1) as f64 * clock),
        ]);
    }
    table
}

/// What the operations of a group are together.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    operations: u64,
    adders: u64,
    bits: f64,
    depth: u32,
    latency: f64,
    stage: usize,
}

fn totals(flat: &Flat) -> Vec<Total> {
    let mut totals = vec![Total::default(); flat.groups.len()];
    for (node, chain) in flat.nodes.iter().zip(chains(flat)) {
        let total = &mut totals[node.group];
        total.operations += 1;
        total.adders += u64::from(node.adders);
        total.bits += node.bits;
        total.depth = total.depth.max(chain);
        total.latency = total.latency.max(node.latency);
        total.stage = total.stage.max(node.stage);
    }
    totals
}

/// By operation, adders on the longest chain to it within its group.
fn chains(flat: &Flat) -> Vec<u32> {
    let mut chains: Vec<u32> = Vec::with_capacity(flat.nodes.len());
    for node in &flat.nodes {
        let same = node.operands.iter().filter(|&&o| flat.nodes[o].group == node.group);
        let before = same.map(|&operand| chains[operand]).max().unwrap_or(0);
        chains.push(before + u32::from(node.adders > 0));
    }
    chains
}

/// Operations and adders by the width of their results.
pub(crate) fn widths(flat: &Flat) -> Table {
    let columns = vec![
        Column::number("width").unit("bits"),
        Column::number("operations"),
        Column::number("adders"),
        Column::number("share"),
    ];
    let mut table = Table::new("widths", columns);
    let mut counts: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for node in &flat.nodes {
        let count = counts.entry(node.width).or_default();
        *count = (count.0 + 1, count.1 + u64::from(node.adders));
    }
    for (width, (operations, adders)) in counts {
        let share = operations as f64 / flat.nodes.len() as f64;
        let row = [u64::from(width), operations, adders].map(Cell::from);
        table.push(row.into_iter().chain([Cell::Share(share)]).collect());
    }
    table
}

/// Operations by instruction, with the widths of their results together and their costs.
pub(crate) fn operations(flat: &Flat) -> Table {
    let columns = vec![
        Column::text("instruction"),
        Column::number("operations"),
        Column::number("bits"),
        Column::number("cost"),
    ];
    let mut table = Table::new("operations", columns);
    let mut counts: BTreeMap<&str, (u64, u64, f64)> = BTreeMap::new();
    for node in &flat.nodes {
        let (operations, bits, cost) = counts.entry(node.inst.mnemonic()).or_default();
        *operations += 1;
        *bits += u64::from(node.width);
        *cost += node.cost;
    }
    for (name, (operations, bits, cost)) in counts {
        table.push(vec![name.into(), operations.into(), bits.into(), Cell::Number(cost)]);
    }
    table
}

/// The stages of a pipeline, with the bits of the registers behind each.
pub(crate) fn stages(pipeline: &Pipeline) -> Table {
    let columns = vec![
        Column::number("stage"),
        Column::number("operations"),
        Column::number("adders"),
        Column::number("latency"),
        Column::number("cost"),
        Column::number("register_bits"),
    ];
    let mut table = Table::new("stages", columns);
    for (number, stage) in pipeline.stages.iter().enumerate() {
        let operations = &stage.operations;
        let adders: usize = operations.iter().map(|o| o.inst.terms().count().max(1) - 1).sum();
        let cost: f64 = operations.iter().map(|operation| operation.cost).sum();
        table.push(vec![
            number.into(),
            operations.len().into(),
            adders.into(),
            Cell::Number(time::stage_latency(stage)),
            Cell::Number(cost),
            outgoing_bits(stage).into(),
        ]);
    }
    table
}
