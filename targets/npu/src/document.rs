//! Files that are not programs: the intermediate representations of the ecosystem.

use crate::files;
use quincunx_contract::{Document, File, ModelFile};
use quincunx_diag::Diagnostic;

/// The document of a file; `None` for programs and unknown files.
pub(crate) fn document(file: &File) -> Option<Document> {
    let file = ir_file(file)?;
    Some(Document {
        kind: file.kind.name().to_owned(),
        tables: file.tables(),
        texts: Vec::new(),
        problems: file.validate(),
    })
}

/// The network of a frontend IR; `None` for any other file.
pub(crate) fn model(file: &File) -> Result<Option<ModelFile>, Vec<Diagnostic>> {
    let Some(contents) = ir_file(file) else { return Ok(None) };
    let graph = contents.to_graph()?;
    let kind = contents.kind.name();
    Ok(graph.map(|graph| ModelFile { kind, graph, options: Vec::new() }))
}

/// The JSON file of this ecosystem that a file is; `None` when it is something else, such as text
/// that is not JSON.
pub(crate) fn ir_file(file: &File) -> Option<files::IrFile> {
    let start = file.bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if start != Some(&b'{') {
        return None;
    }
    files::read(&file.bytes).ok().filter(|file| file.kind != files::Kind::Unknown)
}
