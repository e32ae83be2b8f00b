//! Why every line starts when it does.

use super::{Run, order};
use crate::replay::Node;
use quincunx_report::{Cell, Column, Table};

/// A row per line: when it starts, and the line that held it until then; `queue` is the line before
/// it in its queue, `task` the last line of the task before.
pub(super) fn table(run: &Run<'_>) -> Table {
    let text = Column::text;
    let number = Column::number;
    let columns = vec![
        number("core"),
        number("line"),
        text("queue"),
        text("instruction"),
        text("layer"),
        number("start"),
        number("cycles"),
        text("held_by"),
        number("of_core"),
        number("of_line"),
        text("of_queue"),
        text("of_instruction"),
    ];
    let mut table = Table::new("starts", columns);
    let holds = order::holds(run);
    let mut ran: Vec<Node> = run.replay.order.clone();
    ran.sort_unstable();
    let name = |node: Node| run.programs[node.core].lines[node.line].inst.mnemonic();
    for node in ran {
        let mut row: Vec<Cell> = vec![
            node.core.into(),
            node.number().into(),
            run.queue(node).name().into(),
            name(node).into(),
            run.title(run.layer(node)).into(),
            run.time(node).0.into(),
            run.cycles[node.core][node.line].into(),
        ];
        match holds[node.core][node.line] {
            None => row.extend([const { Cell::Empty }; 5]),
            Some((line, kind)) => row.extend([
                kind.into(),
                line.core.into(),
                line.number().into(),
                run.queue(line).name().into(),
                name(line).into(),
            ]),
        }
        table.push(row);
    }
    table
}
