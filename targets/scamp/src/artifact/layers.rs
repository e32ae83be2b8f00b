//! The layers of a compiled network: what they cost on the array, and what reading them out costs.

use super::Artifact;
use crate::program::Program;
use crate::time::{Model, Read, total};
use quincunx_report::{Column, Table};

/// A row for every layer: its instructions, and the bytes of the results that the host gets of it.
pub(super) fn table(artifact: &Artifact, reads: &[Read]) -> Table {
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
        let own = reads.iter().filter(|read| (section.first..end).contains(&read.after));
        let bytes: u64 = own.map(|read| read.bytes).sum();
        table.push(vec![
            section.name.as_str().into(),
            section.pieces.len().max(1).into(),
            part.length().into(),
            part.bus_steps().into(),
            total(&part, chosen.model, arch).into(),
            chosen.model.unit().into(),
            bytes.into(),
            Model::Device.read_out(bytes, arch).into(),
        ]);
    }
    table
}
