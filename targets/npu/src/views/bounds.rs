//! What if a part of the machine took no time.

use super::{Run, order};
use crate::isa::Queue;
use crate::replay::Node;
use crate::work::Work;
use quincunx_report::{Cell, Column, Table};

/// Cycles of the program when some lines take none; all others keep their cycles and their order. No
/// way to make these lines faster makes this program faster than that.
pub(super) fn table(run: &Run<'_>) -> Table {
    let columns = vec![
        Column::text("free"),
        Column::number("cycles"),
        Column::number("saved"),
        Column::number("share"),
    ];
    let mut table = Table::new("bounds", columns);
    let all = run.replay.total();
    let queue = |queue: Queue| move |node: Node| run.queue(node) == queue;
    let is_configuration = |node: Node| matches!(run.work(node), Some(Work::Configure));
    let parts: [(&str, &dyn Fn(Node) -> bool); 6] = [
        ("nothing", &|_| false),
        ("DRAM", &|node| run.uses_dram(node)),
        ("LW", &queue(Queue::Lw)),
        ("PE", &queue(Queue::Pe)),
        ("VP", &queue(Queue::Vp)),
        ("configuration", &is_configuration),
    ];
    for (name, is_free) in parts {
        let cycles = |node: Node| if is_free(node) { 0 } else { run.cycles[node.core][node.line] };
        let total = order::total(run, cycles);
        let saved = all.saturating_sub(total);
        let share = Cell::Share(saved as f64 / (all as f64).max(1.0));
        table.push(vec![name.into(), total.into(), saved.into(), share]);
    }
    table
}
