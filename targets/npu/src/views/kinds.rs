//! How often instructions are executed.

use super::Run;
use crate::isa::Queue;
use quincunx_report::{Cell, Column, Table};
use std::collections::BTreeMap;

/// A row per instruction.
pub(super) fn table(run: &Run<'_>) -> Table {
    let mut kinds: BTreeMap<(Queue, &str), (u64, u64)> = BTreeMap::new();
    for (program, cycles) in run.programs.iter().zip(&run.cycles) {
        for (inst, cycles) in program.instructions().zip(cycles) {
            let entry = kinds.entry((inst.queue(), inst.mnemonic())).or_default();
            *entry = (entry.0.saturating_add(1), entry.1.saturating_add(*cycles));
        }
    }
    let columns = vec![
        Column::text("queue"),
        Column::text("instruction"),
        Column::number("count"),
        Column::number("busy").unit("cycles"),
    ];
    let mut table = Table::new("kinds", columns);
    for ((queue, name), (count, busy)) in kinds {
        table.push(vec![queue.name().into(), name.into(), Cell::Count(count), Cell::Count(busy)]);
    }
    table
}
