//! The layers of a compiled network: what they cost on the array, and what reading them out costs.

use super::Artifact;
use crate::ports::Wiring;
use crate::program::Program;
use crate::readout::bytes;
use crate::time::total;
use quincunx_report::{Column, Table};

/// A row for every layer: its instructions, and the bytes of the results that the host gets of it. A
/// byte takes a cycle of the clock, which is ours.
pub(super) fn table(artifact: &Artifact, wiring: &Wiring) -> Table {
    let Artifact { program, arch, chosen, interface, .. } = artifact;
    let mut table = Table::new(
        "layers",
        vec![
            Column::text("layer"),
            Column::number("groups"),
            Column::number("instructions"),
            Column::number("bus steps"),
            Column::number("cost"),
            Column::text("unit"),
            Column::number("bytes read out"),
            Column::number("read-out").unit("ns"),
        ],
    );
    let ends = interface.sections.iter().skip(1).map(|next| next.first);
    let ends = ends.chain([program.instructions.len()]);
    for (section, end) in interface.sections.iter().zip(ends) {
        let part = program.instructions.get(section.first..end).unwrap_or_default();
        let part = Program::new(part.to_vec());
        let is_output = |value: &str| interface.outputs.iter().any(|port| port.name == value);
        let read = wiring.results.iter().filter(|lie| is_output(&lie.value)).flat_map(|lie| {
            let pixels = lie.area.rows.count * lie.area.columns.count;
            let planes = lie.planes.iter().filter(|p| (section.first..end).contains(&p.after));
            planes.map(move |plane| bytes(plane.register.0, pixels))
        });
        let bytes: u64 = read.sum();
        let nanoseconds = bytes as f64 * 1000.0 / arch.cost.clock_mhz;
        table.push(vec![
            section.name.as_str().into(),
            section.pieces.len().max(1).into(),
            part.length().into(),
            part.bus_steps().into(),
            total(&part, chosen.model, arch).into(),
            chosen.model.unit().into(),
            bytes.into(),
            (nanoseconds.round() as u64).into(),
        ]);
    }
    table
}
