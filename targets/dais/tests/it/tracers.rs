//! What the tracers of da4ml and alkaid write, sixty operations each, plain and pipelined: read,
//! run, converted, written, and simulated as logic; so are programs with registers. See `tests/peers/tracers.py`; inputs and outputs
//! are NumPy's.

use crate::common::simulators::{Bench, ghdl, icarus, present};
use crate::common::{names, rows, same};
use crate::peers::{folder, judge, python};
use quincunx_dais::binary::{self, Dialect, ReadOptions, convert};
use quincunx_dais::files::{
    Pipeline, read_json, write_alir_json, write_alir_pipeline_json, write_json, write_pipeline_json,
};
use quincunx_dais::program::Program;
use quincunx_dais::rtl::{Design, Field, Language, Vectors, emit_with_vectors};
use quincunx_dais::simulate::{Fast, PipelineExecutor};
use quincunx_dais::text;
use quincunx_dais::verify::{Rules, verify_pipeline};
use quincunx_diag::{SourceId, any_error};
use quincunx_num::{Dyadic, Int};
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;

/// Operations that each tool traces.
const OPERATIONS: usize = 60;

/// Endings of the files of every operation.
const FORMS: [&str; 4] =
    ["da4ml.json", "da4ml.pipeline.json", "alkaid.json", "alkaid.pipeline.json"];

/// Programs with registers.
const MACHINES: [&str; 9] = [
    "accumulator",
    "moving_sum",
    "counter",
    "iir",
    "oscillator",
    "chirp",
    "differences",
    "staged",
    "controlled",
];

/// One file with samples and what NumPy computes from them.
struct Traced {
    name: String,
    dialect: Dialect,
    pipeline: Pipeline,
    inputs: Vec<Vec<f64>>,
    outputs: Vec<Vec<f64>>,
}

fn traced(folder: &Path, operation: &str, form: &str) -> Traced {
    let name = format!("{operation}.{form}");
    let text = fs::read_to_string(folder.join(&name)).unwrap();
    let read = read_json(&text, false).unwrap_or_else(|problems| panic!("{name}: {problems:?}"));
    let samples = |end: &str| rows(&folder.join(format!("{operation}_{end}.npy")));
    let dialect = if form.starts_with("da4ml") { Dialect::D1 } else { Dialect::A4 };
    assert_eq!(read.dialect, dialect, "{name}");
    let (inputs, outputs) = (samples("in"), samples("out"));
    Traced { name, dialect, pipeline: read.pipeline, inputs, outputs }
}

impl Traced {
    /// The executor and the prepared simulator give what is expected.
    fn runs(&self, pipeline: &Pipeline, how: &str) {
        let name = &self.name;
        let found = verify_pipeline(pipeline, &Rules::default());
        assert!(!any_error(&found), "{name} {how}: {found:?}");
        let mut executor = PipelineExecutor::new(pipeline).unwrap();
        for (inputs, expected) in self.inputs.iter().zip(&self.outputs) {
            let found = executor.run(inputs).unwrap();
            assert!(same(&found, expected), "{name} {how}: {inputs:?} {found:?} {expected:?}");
        }
        let fast = Fast::new(pipeline).unwrap().unwrap_or_else(|| panic!("{name} is not prepared"));
        for threads in [1, 2] {
            let threads = NonZeroUsize::new(threads).unwrap();
            let found = fast.run(self.inputs.len(), &self.inputs.concat(), threads).unwrap();
            assert!(same(&found, &self.outputs.concat()), "{name} {how}: {found:?}");
        }
    }

    /// The same in another dialect.
    fn converted(&self, dialect: Dialect) -> Pipeline {
        let stage = |stage: &Program| convert(stage, dialect).unwrap().program;
        Pipeline { stages: self.pipeline.stages.iter().map(stage).collect() }
    }

    /// Machine code and JSON of every stage in every dialect are read again as the same.
    fn forms(&self, folder: &Path) {
        for dialect in [Dialect::D1, Dialect::A4] {
            let pipeline = self.converted(dialect);
            self.runs(&pipeline, dialect.name());
            let options = ReadOptions { dialect: Some(dialect), lenient: false };
            let code = pipeline.stages.iter().map(|stage| {
                let bytes = binary::write(stage, dialect).unwrap();
                binary::read(&bytes, &options).unwrap().program
            });
            self.runs(&Pipeline { stages: code.collect() }, "as machine code");
            let text = match (&pipeline.stages[..], dialect) {
                ([single], Dialect::A4) => write_alir_json(single),
                ([single], _) => write_json(single),
                (_, Dialect::A4) => write_alir_pipeline_json(&pipeline),
                _ => write_pipeline_json(&pipeline),
            };
            let text = text.unwrap();
            let again = read_json(&text, false).unwrap().pipeline;
            self.runs(&again, "as JSON");
            if let (Dialect::A4, 2..) = (dialect, pipeline.stages.len()) {
                let name = self.name.replace(['.', '_'], "-");
                let outputs = [("in", &self.inputs), ("out", &self.outputs)];
                for (end, rows) in outputs {
                    crate::peers::save(&folder.join(format!("{name}_{end}.npy")), rows);
                }
                fs::write(folder.join(format!("{name}.pipeline.json")), text).unwrap();
            }
        }
    }

    /// A program with registers as text and as a file of alkaid, in both dialects; judged by alkaid.
    fn machine_forms(&self, folder: &Path) {
        self.runs(&self.converted(Dialect::D1), "converted");
        let text = text::print_pipeline(&self.pipeline);
        let again = text::parse(&text, SourceId(0)).unwrap();
        assert_eq!(again, self.pipeline, "{text}");
        let json = write_alir_pipeline_json(&self.converted(Dialect::A4)).unwrap();
        let again = read_json(&json, false).unwrap();
        assert!(again.warnings.is_empty(), "{:?}", again.warnings);
        self.runs(&again.pipeline, "as JSON");
        let name = self.name.replace('.', "-");
        crate::peers::save(&folder.join(format!("{name}_in.npy")), &self.inputs);
        crate::peers::save(&folder.join(format!("{name}_out.npy")), &self.outputs);
        fs::write(folder.join(format!("{name}.pipeline.json")), json).unwrap();
    }

    /// What the logic computes step by step.
    fn steps(&self) {
        let design = Design::new(&self.pipeline).unwrap();
        let mut state = design.start().clone();
        for (inputs, expected) in self.inputs.iter().zip(&self.outputs) {
            let found = design.unpack(&design.step(&mut state, &design.pack(inputs).unwrap()));
            assert!(same(&found, expected), "{}: {found:?} {expected:?}", self.name);
        }
    }

    fn bench(&self, name: String, registers: u32, language: Language) -> Bench {
        let design = Design::new(&self.pipeline).unwrap();
        let put = |fields: &[Field], numbers: &Vec<f64>| -> Int {
            let number = |value: &f64| Dyadic::from_f64(*value).unwrap();
            fields.iter().zip(numbers).map(|(field, value)| field.put(&number(value))).sum()
        };
        let vectors = Vectors {
            inputs: self.inputs.iter().map(|row| design.pack(row).unwrap()).collect(),
            outputs: self.outputs.iter().map(|row| put(design.outputs(), row)).collect(),
        };
        let files =
            emit_with_vectors(&self.pipeline, language, registers, &name, &vectors).unwrap();
        Bench { name, files }
    }
}

/// Runs the script on some programs, or all.
fn trace(python: &str, folder: &Path, names: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/tracers.py");
    let output = Command::new(python).arg(script).arg(folder).args(names).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn what_tracers_write_is_read_run_and_simulated() {
    let Some(python) = python() else { return };
    let from_tracers = folder("tracers");
    let said = trace(&python, &from_tracers, &[]);
    for tool in ["da4ml", "alkaid"] {
        assert!(said.contains(&format!("{tool}={OPERATIONS}\n")), "{said}");
    }
    assert!(said.contains(&format!("machines={}\n", MACHINES.len())), "{said}");
    let operations: Vec<String> = names(&from_tracers)
        .iter()
        .filter_map(|name| Some(name.strip_suffix("_in.npy")?.to_owned()))
        .collect();
    assert_eq!(operations.len(), OPERATIONS);
    let files: Vec<Traced> = operations
        .iter()
        .flat_map(|operation| FORMS.map(|form| traced(&from_tracers, operation, form)))
        .collect();
    let written = folder("tracers-written");
    for file in &files {
        file.runs(&file.pipeline, "as it is");
        file.forms(&written);
    }
    let staged = files.iter().filter(|file| file.pipeline.stages.len() > 1);
    let count = staged.clone().filter(|file| file.dialect == Dialect::A4).count();
    assert!(count >= 20, "{count}");
    let found = names(&written).iter().filter(|name| name.ends_with(".pipeline.json")).count();
    assert_eq!(found, staged.count());
    judge(&python, &written);
    simulate(&|language| {
        let bench = |(number, file): (usize, &Traced)| {
            let registers = u32::from(file.name.contains("pipeline"));
            file.bench(format!("traced{number}"), registers, language)
        };
        files.iter().enumerate().map(bench).collect()
    });
}

/// Lets both simulators run the testbenches.
fn simulate(benches: &dyn Fn(Language) -> Vec<Bench>) {
    if present("iverilog") {
        icarus(&benches(Language::Verilog));
    }
    if present("ghdl") {
        ghdl(&benches(Language::Vhdl));
    }
}

/// Programs with registers, whose samples are steps one after the other.
#[test]
fn machines_are_read_run_written_and_simulated() {
    let Some(python) = python() else { return };
    let from_tracers = folder("machines");
    trace(&python, &from_tracers, &MACHINES);
    let from_tracers = from_tracers.join("machines");
    let files = MACHINES.map(|name| traced(&from_tracers, name, "machine.json"));
    let written = folder("machines-written");
    for file in &files {
        assert!(!file.pipeline.stages[0].state.is_empty(), "{}", file.name);
        file.runs(&file.pipeline, "as it is");
        file.machine_forms(&written);
        file.steps();
    }
    judge(&python, &written);
    // With registers behind the outputs, and without.
    simulate(&|language| {
        let bench = |(number, file): (usize, &Traced)| {
            [0, 1, 2].map(|ranks| file.bench(format!("machine{number}_{ranks}"), ranks, language))
        };
        files.iter().enumerate().flat_map(bench).collect()
    });
}
