//! The suite `compare`: whole comparisons, from the file to the table.

use crate::compare::{Comparison, Status, compare, quick, report};
use crate::{
    Calibration, Dataset, InputFile, InputSpec, Model, Outcome, Setup, Silent, find_target, targets,
};
use quincunx_contract::bench::{Calls, Row, Run, Suite};
use quincunx_contract::{ArchSource, OptionInfo, Target};
use quincunx_diag::{Diagnostic, Result};
use quincunx_report::Format;
use std::path::Path;

pub(super) const SUITE: Suite = Suite {
    name: "compare",
    doc: "comparisons: digits on all machines, ResNet-20 and ResNet-50 of a folder",
    options: &[OptionInfo::text(
        "models",
        "Folder with resnet20v2_cifar.onnx and resnet50v2.onnx; without it digits alone",
        "",
    )],
    run,
};

const DIGITS: &[u8] = include_bytes!("../../../../examples/digits/digits.onnx");
const CALIBRATION: &[u8] = include_bytes!("../../../../examples/digits/calib.npz");
const IMAGES: &[u8] = include_bytes!("../../../../examples/digits/test.npz");

/// Networks of the folder: the name of the row, the file, and the targets; all where none is named.
const NETWORKS: [(&str, &str, &[&str]); 2] = [
    ("resnet20", "resnet20v2_cifar.onnx", &[]),
    ("resnet50", "resnet50v2.onnx", &["tcu", "npu", "dpas"]),
];

fn run(run: &Run) -> Result<Vec<Row>> {
    let in_memory = |name: &str, bytes: &[u8]| InputFile::from_reader(name, bytes);
    let digits = in_memory("digits.onnx", DIGITS)?;
    let calibration = in_memory("calib.npz", CALIBRATION)?;
    let images = in_memory("test.npz", IMAGES)?;
    let mut rows = measured(run, "digits", || {
        let model = Model::read(&digits)?;
        let data = Dataset::read(&images, &InputSpec::of(&model.graph))?;
        let calibration = Calibration { file: Some(&calibration), ..Calibration::default() };
        compared(run, &model, &data, calibration, targets())
    })?;
    let folder = run.options.get("models");
    for (name, file, wanted) in NETWORKS.iter().filter(|_| !folder.is_empty()) {
        let file = InputFile::open(&Path::new(folder).join(file))?;
        let named = wanted.iter().map(|name| find_target(name)).collect::<Result<Vec<_>>>()?;
        rows.extend(measured(run, name, || {
            let model = Model::read(&file)?;
            let made = Dataset::generate("random:2", &InputSpec::of(&model.graph), 1);
            let data = made.ok_or_else(|| Diagnostic::bug("random data has a name"))??;
            let made_up = Some("random:1");
            let calibration = Calibration { made_up, ..Calibration::default() };
            let machines = if named.is_empty() { targets() } else { &named };
            compared(run, &model, &data, calibration, machines)
        })?);
    }
    Ok(rows)
}

fn measured(run: &Run, name: &str, work: impl Fn() -> Outcome<u64>) -> Result<Vec<Row>> {
    let bug = || Diagnostic::bug("a comparison failed without a reason");
    let first =
        |failure: crate::Failure| failure.diagnostics.into_iter().next().unwrap_or_else(bug);
    let Calls { seconds, peak, last } = run.calls(|| work().map_err(first))?;
    let row = Row::named(name);
    let peak = peak.map(|bytes| row("peak_bytes", bytes as f64, "bytes", 0));
    let rows = [row("seconds", seconds, "s", 3), row("machines", last as f64, "", 0)];
    Ok(rows.into_iter().chain(peak).collect())
}

/// Compares as the verb does, up to the text; returns how many machines could take the model.
fn compared(
    run: &Run,
    model: &Model,
    data: &Dataset,
    calibration: Calibration<'_>,
    machines: &[&'static dyn Target],
) -> Outcome<u64> {
    let setup = |target: &&'static dyn Target| {
        Setup::for_model(*target, &ArchSource::Default, model, &quick(*target, Vec::new()))
    };
    let setups = machines.iter().map(setup).collect::<Result<Vec<_>>>()?;
    let comparison = Comparison {
        model,
        data,
        calibration,
        fold_batch_norm: true,
        layers: false,
        threads: run.threads,
    };
    let rows = compare(&comparison, &setups, &Silent)?;
    std::hint::black_box(report(&rows, false, false).render(Format::Text));
    Ok(rows.iter().filter(|row| row.status != Status::Unsupported).count() as u64)
}
