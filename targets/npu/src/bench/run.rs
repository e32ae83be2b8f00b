//! `quincunx bench npu:run --models DIR`: how fast compiled networks are simulated.

use super::models::{Network, compile, inputs};
use crate::TARGET;
use quincunx_contract::bench::{Row, Run};
use quincunx_contract::{ArchSource, Engine, Program as _, Target as _};
use quincunx_diag::Result;

/// ResNet-50 on one image in the fast simulator: `seconds` of a run, from real numbers to real
/// numbers, without preparing the program, and `peak_bytes` of the process meanwhile.
pub(super) fn measure(run: &Run) -> Result<Vec<Row>> {
    let arch = TARGET.arch(&ArchSource::Default)?;
    let graph = Network::read(run.options.get("models"), "resnet50")?.quantised(1)?;
    let artifact = compile(&graph, &*arch, &[("effort", "fast")])?;
    let image = inputs(&graph, 2)?;
    drop(graph);
    let mut machine = artifact.load(Engine::Fast)?;
    machine.run(&image)?;
    let calls = run.calls(|| machine.run(&image))?;
    let row = Row::named("resnet50/b1");
    let mut rows = vec![row("seconds", calls.seconds, "s", 4)];
    rows.extend(calls.peak.map(|bytes| row("peak_bytes", bytes as f64, "bytes", 0)));
    Ok(rows)
}
