//! Programs that were read, as tables: where no compiler has just said more.

use quincunx::Opened;
use quincunx::inspect::views;
use quincunx::report::{Cell, Column, Report, Table};
use quincunx::target::Verb;

/// Who executes what, as compiling told it, the size, and what the machine shows of the program.
pub(crate) fn described(opened: &Opened<'_>) -> Report {
    let rows = (!opened.plan.is_empty()).then(|| plan(opened));
    let views = views(&opened.executable, Verb::Inspect);
    let tables = rows.into_iter().chain([summary(opened)]).chain(views);
    tables.fold(Report::new(), Report::table)
}

fn plan(opened: &Opened<'_>) -> Table {
    let columns = vec![
        Column::text("node"),
        Column::text("op"),
        Column::text("segment"),
        Column::text("place"),
        Column::number("macs"),
        Column::number("share"),
        Column::text("reason"),
    ];
    let all: u64 = opened.plan.iter().map(|row| row.macs).sum();
    let mut table = Table::new("rows", columns);
    for row in &opened.plan {
        table.push(vec![
            row.node.as_str().into(),
            row.op.as_str().into(),
            row.segment.as_str().into(),
            row.place.name().into(),
            row.macs.into(),
            Cell::Share(row.macs as f64 / all.max(1) as f64),
            row.reason.clone().into(),
        ]);
    }
    table
}

fn summary(opened: &Opened<'_>) -> Table {
    let stats = opened.executable.stats();
    let mut table = Table::properties("summary");
    for share in &opened.machines {
        table.property("target", share.setup.name());
        table.property("machine", share.setup.arch.name());
    }
    table.property("instructions", stats.instructions);
    table.property("bytes", stats.bytes);
    table.property("cycles", stats.cycles);
    table.property("microseconds", stats.seconds().map(|seconds| Cell::Brief(seconds * 1e6)));
    for (_, program) in opened.executable.programs() {
        for (name, value) in program.stats().figures {
            table.property(name, value);
        }
    }
    table
}
