//! The suite `graph`: models in prepared execution.

use super::{models, read};
use crate::{Dataset, InputFile, InputSpec};
use quincunx_contract::OptionInfo;
use quincunx_contract::bench::{Row, Run, Suite};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::execute::{Session, Settings};
use std::path::Path;
use std::time::Instant;

pub(super) const SUITE: Suite = Suite {
    name: "graph",
    doc: "models of a folder: import, preparation, execution of one image",
    options: &[OptionInfo::text("models", "Folder with the ONNX files to run (required)", "")],
    run,
};

fn run(run: &Run) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for path in models(run.options.get("models"))? {
        rows.extend(measure(run, &path)?);
    }
    Ok(rows)
}

fn measure(run: &Run, path: &Path) -> Result<[Row; 4]> {
    let started = Instant::now();
    let model = read(&InputFile::open(path)?)?;
    let import = started.elapsed().as_secs_f64();
    let graph = &model.graph;
    let settings = Settings { threads: run.threads, ..Settings::default() };
    let started = Instant::now();
    let session = Session::new(graph, settings)?;
    let prepare = started.elapsed().as_secs_f64();
    let image = image(graph)?;
    // The first run fails where the measured ones would.
    session.run(&image)?;
    let rate = run.rate(1.0, || {
        std::hint::black_box(session.run(&image).ok());
    });
    let macs: u64 = graph.nodes().map(|(_, node)| graph.macs(node)).sum();
    let name = model.stem();
    let row = Row::named(&name);
    Ok([
        row("seconds_per_image", 1.0 / rate, "s", 4),
        row("gmacs", macs as f64 / 1e9 * rate, "GMAC/s", 2),
        row("import_seconds", import, "s", 4),
        row("prepare_seconds", prepare, "s", 4),
    ])
}

/// Made-up numbers for every input.
fn image(graph: &quincunx_graph::Graph) -> Result<quincunx_tensor::Tensors> {
    let data = Dataset::generate("random:1", &InputSpec::of(graph), 1)
        .ok_or_else(|| Diagnostic::bug("random data has a name"))??;
    data.images.into_iter().next().ok_or_else(|| Diagnostic::bug("one image was asked for"))
}
