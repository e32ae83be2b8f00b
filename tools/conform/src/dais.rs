//! Golden cases of dais; the layout is described in `tests/golden/dais/README.md`.

mod alir;
mod cmvm;
mod rtl;

use crate::report::Report;
use crate::{Request, folder};
use quincunx_dais::binary::{self, Dialect, ReadOptions};
use quincunx_dais::files::{self, Pipeline};
use quincunx_dais::program::Program;
use quincunx_dais::simulate::PipelineExecutor;
use quincunx_dais::text;
use quincunx_dais::verify::{Rules, verify_pipeline};
use quincunx_diag::{Class, Diagnostic, Result, SourceId};
use quincunx_tensor::npy;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The reason why a case failed.
type Check<T = ()> = std::result::Result<T, String>;

/// Folders of the layout, in the order in which they run.
const FOLDERS: [&str; 8] = ["ops", "fuzz", "traced", "quirks", "invalid", "rtl", "cmvm", "alir4"];

/// Files about cases that are not cases themselves.
const ABOUT: [&str; 3] = ["manifest.json", "expect.json", "README.md"];

/// Runs every folder of the layout that is present, and every other one with program cases in it.
pub(crate) fn run(request: &Request<'_>, emit: &mut dyn FnMut(Report)) -> Result<()> {
    let present = folder::list(request.dir)?.folders;
    let mut known: Vec<String> = FOLDERS.map(str::to_owned).to_vec();
    known.extend(present.iter().filter(|name| !FOLDERS.contains(&name.as_str())).cloned());
    request.check_names(&known)?;
    for name in known.iter().filter(|name| present.contains(name) && request.wants(name)) {
        let path = request.dir.join(name);
        let mut report = Report::new(name);
        let is_layout = FOLDERS.contains(&name.as_str());
        match name.as_str() {
            "invalid" => run_invalid(&path, &mut report)?,
            "rtl" => rtl::run(&path, &mut report)?,
            "alir4" => alir::run(&path, &mut report)?,
            "cmvm" => cmvm::run(&path, &mut report)?,
            _ => run_programs(&path, is_layout, &mut report)?,
        }
        if is_layout || report.totals() != crate::report::Totals::default() {
            emit(report);
        }
    }
    Ok(())
}

/// Runs a folder of programs with inputs and outputs. A folder outside the layout may hold
/// anything; only its complete-looking cases count.
fn run_programs(path: &Path, is_layout: bool, report: &mut Report) -> Result<()> {
    for (stem, case) in find_cases(path)? {
        let is_case = case.has_program() && case.files.contains("_in.npy");
        if !(is_layout || is_case) {
            continue;
        }
        let samples = case.samples();
        report.case(&stem, samples.clone().and_then(|samples| case.check(&samples)));
        for pipeline in &case.pipelines {
            let result =
                samples.clone().and_then(|samples| case.check_pipeline(pipeline, &samples));
            report.case(pipeline.trim_end_matches(".json"), result);
        }
    }
    Ok(())
}

/// The files of one case: `X.json`, `X.bin`, `X.v0.bin`, `X_in.npy`, `X_out.npy` and
/// `X_pipeline_*.json`.
struct Case {
    stem: PathBuf,
    /// Endings of the files that are there.
    files: BTreeSet<&'static str>,
    /// Names of the pipelines.
    pipelines: Vec<String>,
}

/// Numbers for every input and the numbers expected of every output, sample by sample.
#[derive(Clone)]
struct Samples {
    inputs: Vec<Vec<f64>>,
    outputs: Vec<Vec<f64>>,
}

/// Groups the files of a folder by the name of the case.
fn find_cases(path: &Path) -> Result<BTreeMap<String, Case>> {
    // The longer endings come first, because `.bin` ends `.v0.bin` as well.
    const ENDINGS: [&str; 5] = ["_in.npy", "_out.npy", ".v0.bin", ".bin", ".json"];
    let mut cases = BTreeMap::new();
    for name in folder::list(path)?.files {
        if ABOUT.contains(&name.as_str()) {
            continue;
        }
        let of_pipeline = name.ends_with(".json").then(|| name.rsplit_once("_pipeline_")).flatten();
        let ending = ENDINGS.into_iter().find(|ending| name.ends_with(ending));
        let stem = match (of_pipeline, ending) {
            (Some((stem, _)), _) => stem,
            (None, Some(ending)) => name.strip_suffix(ending).unwrap_or(&name),
            (None, None) => continue,
        };
        let new = || Case { stem: path.join(stem), files: BTreeSet::new(), pipelines: Vec::new() };
        let case: &mut Case = cases.entry(stem.to_owned()).or_insert_with(new);
        match (of_pipeline, ending) {
            (None, Some(ending)) => {
                case.files.insert(ending);
            }
            _ => case.pipelines.push(name.clone()),
        }
    }
    Ok(cases)
}

impl Case {
    fn has_program(&self) -> bool {
        [".json", ".bin"].iter().any(|ending| self.files.contains(ending))
    }

    fn path(&self, ending: &str) -> PathBuf {
        let mut name = self.stem.clone().into_os_string();
        name.push(ending);
        PathBuf::from(name)
    }

    fn samples(&self) -> Check<Samples> {
        let inputs = rows(&self.path("_in.npy"))?;
        let outputs = rows(&self.path("_out.npy"))?;
        if inputs.len() != outputs.len() || inputs.is_empty() {
            return Err(format!("{} inputs but {} outputs", inputs.len(), outputs.len()));
        }
        Ok(Samples { inputs, outputs })
    }

    /// Every reader, every writer and every sample of a program.
    fn check(&self, samples: &Samples) -> Check {
        let program = read_json(&folder::read_text(&self.path(".json"))?)?;
        let program = single(program)?;
        let bytes = folder::read(&self.path(".bin"))?;
        check_outputs("JSON", &program.clone().into(), samples)?;
        check_text(&program.clone().into())?;
        same_bytes("JSON written as binary", &write(&program, Dialect::D1)?, &bytes)?;
        let d1 = read_binary(&bytes, Dialect::D1)?;
        check_outputs("binary", &d1.clone().into(), samples)?;
        check_text(&d1.clone().into())?;
        same_bytes("binary written again", &write(&d1, Dialect::D1)?, &bytes)?;
        let rewritten = files::write_json(&program).map_err(|problem| problem.to_string())?;
        if single(read_json(&rewritten)?)? != program {
            return Err("JSON written and read again differs".to_owned());
        }
        self.check_seed_layout(&d1, &bytes, samples)
    }

    /// Programs of da4ml 0.4's instructions exist in its layout as well.
    fn check_seed_layout(&self, d1: &Program, bytes: &[u8], samples: &Samples) -> Check {
        let in_seed = d1.operations.iter().all(|operation| Dialect::D0.has(operation.inst));
        if !in_seed && !self.files.contains(".v0.bin") {
            return Ok(());
        }
        let expected = folder::read(&self.path(".v0.bin"))?;
        same_bytes("D1 written as D0", &write(d1, Dialect::D0)?, &expected)?;
        let d0 = read_binary(&expected, Dialect::D0)?;
        check_outputs("seed binary", &d0.clone().into(), samples)?;
        same_bytes("D0 written again", &write(&d0, Dialect::D0)?, &expected)?;
        same_bytes("D0 written as D1", &write(&d0, Dialect::D1)?, bytes)
    }

    fn check_pipeline(&self, name: &str, samples: &Samples) -> Check {
        let pipeline = read_json(&folder::read_text(&self.stem.with_file_name(name))?)?;
        check_outputs("pipeline", &pipeline, samples)?;
        check_text(&pipeline)?;
        let text = files::write_pipeline_json(&pipeline).map_err(|problem| problem.to_string())?;
        let again = read_json(&text)?;
        if again == pipeline { Ok(()) } else { Err("written and read again differs".to_owned()) }
    }
}

/// No rule is broken, and every sample gives exactly the expected numbers; -0 is not 0.
fn check_outputs(form: &str, pipeline: &Pipeline, samples: &Samples) -> Check {
    let problems = verify_pipeline(pipeline, &Rules::default());
    if let Some(error) = problems.iter().find(|problem| problem.is_error()) {
        return Err(format!("{form}: {error}"));
    }
    let failed = |problem: Diagnostic| format!("{form}: {problem}");
    let mut executor = PipelineExecutor::new(pipeline).map_err(failed)?;
    for (sample, (inputs, expected)) in samples.inputs.iter().zip(&samples.outputs).enumerate() {
        let outputs = executor.run(inputs).map_err(failed)?;
        if outputs.len() != expected.len() {
            return Err(format!("{form}: {} outputs, expected {}", outputs.len(), expected.len()));
        }
        for (output, (found, expected)) in outputs.iter().zip(expected).enumerate() {
            if found.to_bits() != expected.to_bits() {
                let place = format!("{form}: sample {sample}, output {output}");
                return Err(format!("{place} is {found:?}, expected {expected:?}"));
            }
        }
    }
    Ok(())
}

fn check_text(pipeline: &Pipeline) -> Check {
    let read = text::parse(&text::print_pipeline(pipeline), SourceId(0));
    match read {
        Ok(read) if read == *pipeline => Ok(()),
        Ok(_) => Err("the assembly text reads back differently".to_owned()),
        Err(problems) => Err(format!("the assembly text: {}", first(&problems))),
    }
}

fn same_bytes(what: &str, found: &[u8], expected: &[u8]) -> Check {
    match found.iter().zip(expected).position(|(a, b)| a != b) {
        Some(byte) => Err(format!("{what} differs from byte {byte} on")),
        None if found.len() == expected.len() => Ok(()),
        None => Err(format!("{what} has {} bytes, not {}", found.len(), expected.len())),
    }
}

fn read_json(text: &str) -> Check<Pipeline> {
    let read = files::read_json(text, false).map_err(|problems| first(&problems))?;
    Ok(read.pipeline)
}

fn single(mut pipeline: Pipeline) -> Check<Program> {
    match (pipeline.stages.pop(), pipeline.stages.len()) {
        (Some(program), 0) => Ok(program),
        (_, rest) => Err(format!("expected one program, found {}", rest + 1)),
    }
}

/// Reads machine code, whose dialect must be recognised.
fn read_binary(bytes: &[u8], dialect: Dialect) -> Check<Program> {
    let read = binary::read(bytes, &ReadOptions::default()).map_err(|problems| first(&problems))?;
    if read.dialect == dialect {
        return Ok(read.program);
    }
    Err(format!("recognised as {}, expected {}", read.dialect.name(), dialect.name()))
}

fn write(program: &Program, dialect: Dialect) -> Check<Vec<u8>> {
    binary::write(program, dialect).map_err(|problem| problem.to_string())
}

/// The first error in words.
fn first(problems: &[Diagnostic]) -> String {
    let error = problems.iter().find(|problem| problem.is_error());
    error.map_or("rejected without an error".to_owned(), Diagnostic::to_string)
}

/// A matrix of numbers, row by row.
fn rows(path: &Path) -> Check<Vec<Vec<f64>>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let tensor = npy::read_npy(folder::read(path)?).map_err(|error| format!("{name}: {error}"))?;
    let [samples, width] = *tensor.shape() else {
        return Err(format!("{name}: expected two dimensions"));
    };
    let values = tensor.to_f64();
    let row = |sample: usize| values[sample * width..(sample + 1) * width].to_vec();
    Ok((0..samples).map(row).collect())
}

/// Every file of the folder must be rejected as invalid input, by its reader or by `verify`.
fn run_invalid(path: &Path, report: &mut Report) -> Result<()> {
    let files = folder::list(path)?.files;
    let mut cases = BTreeMap::new();
    for name in files.iter().filter(|name| !ABOUT.contains(&name.as_str())) {
        if let Some((stem, ending @ ("bin" | "json"))) = name.rsplit_once('.') {
            cases.insert(stem.to_owned(), check_invalid(&path.join(name), ending));
        }
    }
    for name in expected_names(&path.join("expect.json")).unwrap_or_default() {
        cases.entry(name).or_insert_with(|| Err("the file is missing".to_owned()));
    }
    for (name, result) in cases {
        report.case(&name, result);
    }
    Ok(())
}

/// The cases that `expect.json` names, if it is there.
fn expected_names(path: &Path) -> Check<Vec<String>> {
    let value: serde_json::Value = serde_json::from_str(&folder::read_text(path)?)
        .map_err(|error| format!("expect.json: {error}"))?;
    Ok(value.as_object().into_iter().flat_map(|object| object.keys().cloned()).collect())
}

fn check_invalid(path: &Path, ending: &str) -> Check {
    let read = match ending {
        "json" => files::read_json(&folder::read_text(path)?, false).map(|read| read.pipeline),
        _ => binary::read(&folder::read(path)?, &ReadOptions::default())
            .map(|read| Pipeline::from(read.program)),
    };
    let problems = match read {
        Ok(pipeline) => verify_pipeline(&pipeline, &Rules::default()),
        Err(problems) => problems,
    };
    match problems.iter().find(|problem| problem.is_error()) {
        Some(error) if error.class() == Class::Invalid => Ok(()),
        Some(error) => Err(format!("rejected, but not as invalid input: {error}")),
        None => Err("accepted".to_owned()),
    }
}
