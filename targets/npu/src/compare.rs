//! Differences between two programs or traces, for the verb `diff`.

#![deny(clippy::arithmetic_side_effects)]

use crate::artifact::Artifact;
use crate::isa::Queue;
use crate::text;
use quincunx_report::{Cell, Column, Table};
use std::collections::BTreeMap;

/// Lines that are shown.
const SHOWN: usize = 20;

/// Totals, queues, and the first lines that differ; `None` when the programs are equal and take
/// equally long.
pub(crate) fn compare(left: &Artifact, right: &Artifact) -> Option<Vec<Table>> {
    if left.programs() == right.programs() && left.replay().0 == right.replay().0 {
        return None;
    }
    let mut tables = vec![totals(left, right)];
    for core in 0..left.programs().len().max(right.programs().len()) {
        tables.extend(lines(left, right, core));
    }
    Some(tables)
}

/// Cycles of each queue.
fn totals(left: &Artifact, right: &Artifact) -> Table {
    let columns = vec![
        Column::text("what"),
        Column::number("left"),
        Column::number("right"),
        Column::number("difference"),
    ];
    let mut table = Table::new("cycles", columns);
    let mut push = |what: String, left: u64, right: u64| {
        let difference = right.checked_signed_diff(left);
        let most = if right < left { i64::MIN } else { i64::MAX };
        let difference = Cell::Integer(difference.unwrap_or(most));
        table.push(vec![what.into(), left.into(), right.into(), difference]);
    };
    let sides = [left, right].map(|artifact| (artifact, artifact.replay()));
    let count =
        |artifact: &Artifact| artifact.programs().iter().map(|p| p.lines.len() as u64).sum();
    push("lines".to_owned(), count(left), count(right));
    push("total cycles".to_owned(), sides[0].1.1.total(), sides[1].1.1.total());
    let busy = |(artifact, (cycles, _)): &(&Artifact, (Vec<Vec<u64>>, _))| {
        let mut sums: BTreeMap<Queue, u64> = BTreeMap::new();
        for (program, cycles) in artifact.programs().iter().zip(cycles) {
            for (inst, cycles) in program.instructions().zip(cycles) {
                let sum = sums.entry(inst.queue()).or_default();
                *sum = sum.saturating_add(*cycles);
            }
        }
        sums
    };
    let busy = [busy(&sides[0]), busy(&sides[1])];
    for queue in Queue::ALL {
        let of = |side: usize| busy[side].get(&queue).copied().unwrap_or(0);
        if of(0).max(of(1)) > 0 {
            push(format!("{queue} busy"), of(0), of(1));
        }
    }
    table
}

/// The first lines of a core that differ in their text, or in traces in their times.
fn lines(left: &Artifact, right: &Artifact, core: usize) -> Option<Table> {
    let columns = vec![Column::number("line"), Column::text("left"), Column::text("right")];
    let mut table = Table::new("lines", columns);
    let list = |artifact: &Artifact| -> Vec<String> {
        let Some(program) = artifact.programs().get(core) else { return Vec::new() };
        let text = text::print(program);
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
    };
    let (left, right) = (list(left), list(right));
    let pairs = (0..left.len().max(right.len())).map(|index| (left.get(index), right.get(index)));
    let mut differing = (1..).zip(pairs).filter(|(_, (a, b))| a != b).peekable();
    differing.peek()?;
    for (number, (a, b)) in differing.by_ref().take(SHOWN) {
        let show = |line: Option<&String>| line.cloned().unwrap_or_else(|| "(none)".to_owned());
        table.push(vec![Cell::Count(number), show(a).into(), show(b).into()]);
    }
    let more = differing.count();
    if more > 0 {
        table.push(vec![Cell::Empty, format!("{more} more lines differ").into(), Cell::Empty]);
    }
    Some(table)
}
