//! `quincunx bench npu:schedule --models DIR`: how good and how fast the compiler is.

use super::models::{Network, compile};
use crate::TARGET;
use crate::artifact::Artifact;
use crate::verify::{Subject, clobbered, hazard_statistics, mislabelled};
use quincunx_contract::bench::{Row, Run};
use quincunx_contract::{ArchSource, Program as _, Target as _};
use quincunx_diag::{Diagnostic, Result};
use std::collections::BTreeMap;

/// The rows that are measured unless others are asked for: network and images of a batch.
const ROWS: &str = "resnet50/b1,resnet50/b4,resnet50/b16,resnet50/b64,resnet34/b1,\
                               resnet34/b4,resnet34/b16";

/// Several rows for every network and batch. Programs use the instructions of published ones, and
/// there are two: one made for the `upstream` model of time, one for `physical`.
///
/// * `cycles`: of the first, by the `upstream` model, in which published traces are exact.
/// * `honest_cycles`: of the second, by the `physical` model.
/// * `lower_bound`: the least that the multiplications of all of the array or the bytes of inputs,
///   weights and outputs through the DRAM port could take.
/// * `dram_bytes`: that the first moves from and to DRAM.
/// * `hazards`: accesses to the same bytes, and neighbours among DRAM operations, that no tokens
///   order; `clobbered`: convolutions that do not find their weights; `mislabelled`: workloads that
///   are not what their numbers say; all of both programs.
/// * `compile_seconds`: of the slower of the two, verified; `peak_bytes`: of the process meanwhile.
pub(super) fn measure(run: &Run) -> Result<Vec<Row>> {
    let mut networks: BTreeMap<&str, Network> = BTreeMap::new();
    let mut rows = Vec::new();
    let rows_wanted = match run.options.get("rows") {
        "" => ROWS,
        wanted => wanted,
    };
    for name in rows_wanted.split(',') {
        let (model, images) = parse(name)?;
        if !networks.contains_key(model) {
            networks.insert(model, Network::read(run.options.get("models"), model)?);
        }
        rows.extend(measure_one(run, name, &networks[model], images)?);
    }
    Ok(rows)
}

/// The network of a row and its images: `resnet50/b4`.
fn parse(name: &str) -> Result<(&str, usize)> {
    let parts = name.split_once("/b").and_then(|(model, images)| {
        let images = images.parse().ok().filter(|images| (1..=256).contains(images))?;
        (!model.is_empty()).then_some((model, images))
    });
    parts.ok_or_else(|| {
        let message = format!("{name:?} is not a row, expected a network and 1 to 256 images");
        Diagnostic::usage("Q4100", message).help("write rows as in resnet50/b4,resnet34/b1")
    })
}

fn measure_one(run: &Run, name: &str, network: &Network, images: usize) -> Result<Vec<Row>> {
    let arch = TARGET.arch(&ArchSource::Default)?;
    let graph = network.quantised(images)?;
    let effort = run.options.get("effort");
    let calls = ["upstream", "physical"].map(|timing| {
        let chosen = [("timing", timing), ("subset", "published"), ("effort", effort)];
        run.calls(|| {
            let artifact = compile(&graph, &*arch, &chosen)?;
            match artifact.verify().into_iter().find(Diagnostic::is_error) {
                Some(problem) => Err(problem),
                None => Ok(artifact),
            }
        })
    });
    let [first, second] = calls;
    let (first, second) = (first?, second?);
    let row = Row::named(name);
    let cycles = |artifact: &Artifact| artifact.stats().cycles.unwrap_or(0) as f64;
    let found = Problems::of(&first.last) + Problems::of(&second.last);
    let mut rows = vec![
        row("cycles", cycles(&first.last), "cycles", 0),
        row("honest_cycles", cycles(&second.last), "cycles", 0),
        row("lower_bound", first.last.lower_bound() as f64, "cycles", 0),
        row("dram_bytes", first.last.dram_bytes() as f64, "bytes", 0),
        row("hazards", found.hazards as f64, "", 0),
        row("clobbered", found.clobbered as f64, "", 0),
        row("mislabelled", found.mislabelled as f64, "", 0),
        row("compile_seconds", first.seconds.max(second.seconds), "s", 3),
    ];
    let peak = first.peak.max(second.peak);
    rows.extend(peak.map(|bytes| row("peak_bytes", bytes as f64, "bytes", 0)));
    Ok(rows)
}

/// What the checkers count in a program.
struct Problems {
    hazards: u64,
    clobbered: usize,
    mislabelled: usize,
}

impl Problems {
    fn of(artifact: &Artifact) -> Problems {
        artifact.subject(|subject: &Subject<'_>| {
            let statistics = hazard_statistics(subject);
            Problems {
                hazards: statistics.unordered + statistics.unordered_dram,
                clobbered: clobbered(subject).len(),
                mislabelled: mislabelled(subject).len(),
            }
        })
    }
}

impl std::ops::Add for Problems {
    type Output = Problems;

    fn add(self, other: Problems) -> Problems {
        Problems {
            hazards: self.hazards + other.hazards,
            clobbered: self.clobbered + other.clobbered,
            mislabelled: self.mislabelled + other.mislabelled,
        }
    }
}
