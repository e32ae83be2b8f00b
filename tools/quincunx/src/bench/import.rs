//! The suite `import`: how long models take to read.

use super::{models, read};
use crate::InputFile;
use quincunx_contract::OptionInfo;
use quincunx_contract::bench::{Row, Run, Suite};
use quincunx_diag::Result;

pub(super) const SUITE: Suite = Suite {
    name: "import",
    doc: "reading model files and making graphs of them",
    options: &[OptionInfo::text("models", "Folder with the ONNX files to read (required)", "")],
    run,
};

fn run(run: &Run) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for path in models(run.options.get("models"))? {
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let file = InputFile::open(&path)?;
        read(&file)?;
        let row = Row::named(&name);
        rows.push(row("read_seconds", run.seconds(|| InputFile::open(&path)), "s", 6));
        rows.push(row("import_seconds", run.seconds(|| read(&file)), "s", 6));
        rows.push(row("bytes", file.bytes.len() as f64, "B", 0));
    }
    Ok(rows)
}
