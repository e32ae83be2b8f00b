//! The suite `import`: how long models take to read.

use super::{Row, Run, Suite, models};
use crate::{InputFile, Model, Outcome};
use quincunx_diag::{Diagnostic, Result};
use quincunx_target::OptionInfo;

pub(super) const SUITE: Suite = Suite {
    name: "import",
    doc: "reading the files of models, and making graphs of them",
    options: &[OptionInfo {
        name: "models",
        doc: "Folder with the ONNX files to read",
        default: "",
        values: &[],
    }],
    run,
};

fn run(run: &Run) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for path in models(run.options.get("models"))? {
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let file = InputFile::open(&path)?;
        import(&file)?;
        let mut row = |metric, value, unit, decimals| {
            rows.push(Row { name: name.clone(), metric, value, unit, decimals });
        };
        row("read_seconds", run.seconds(|| InputFile::open(&path)), "s", 6);
        row("import_seconds", run.seconds(|| import(&file)), "s", 6);
        row("bytes", file.bytes.len() as f64, "B", 0);
    }
    Ok(rows)
}

/// The graph, or the first problem.
fn import(file: &InputFile) -> Result<Model> {
    Model::read(file).map_err(|failure| {
        let problem = failure.diagnostics.into_iter().next();
        problem.unwrap_or_else(|| Diagnostic::bug("a failure without a problem"))
    })
}
