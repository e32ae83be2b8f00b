//! `quincunx bench npu:cores --models DIR`: how much faster several cores are.

use super::models::{Network, compile};
use crate::TARGET;
use crate::artifact::Artifact;
use crate::verify::hazard_statistics;
use quincunx_contract::bench::{Row, Run};
use quincunx_contract::{ArchSource, Program as _, Target as _};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Graph;

/// Several rows for 2 and 4 cores: `honest_cycles` by the `physical` model, in which the cores share
/// one DRAM port; `speedup` over one core; `hazards` as in `npu:schedule`.
pub(super) fn measure(run: &Run) -> Result<Vec<Row>> {
    let graph = Network::read(run.options.get("models"), "resnet50")?.quantised(16)?;
    let one = cycles(&program(&graph, "gemini")?);
    let mut rows = Vec::new();
    for (name, preset) in [("resnet50/b16x2", "gemini-2x1"), ("resnet50/b16x4", "gemini-2x2")] {
        let artifact = program(&graph, preset)?;
        let row = Row::named(name);
        let statistics = artifact.subject(hazard_statistics);
        let hazards = statistics.unordered + statistics.unordered_dram;
        rows.push(row("honest_cycles", cycles(&artifact), "cycles", 0));
        rows.push(row("speedup", one / cycles(&artifact), "", 3));
        rows.push(row("hazards", hazards as f64, "", 0));
    }
    Ok(rows)
}

/// The verified program for a machine.
fn program(graph: &Graph, preset: &str) -> Result<Artifact> {
    let arch = TARGET.arch(&ArchSource::Preset(preset.to_owned()))?;
    let artifact = compile(graph, &*arch, &[("timing", "physical"), ("subset", "published")])?;
    match artifact.verify().into_iter().find(Diagnostic::is_error) {
        Some(problem) => Err(problem),
        None => Ok(artifact),
    }
}

fn cycles(artifact: &Artifact) -> f64 {
    artifact.stats().cycles.unwrap_or(0) as f64
}
