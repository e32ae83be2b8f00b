//! What would let a machine take a node: other machines and options, one at a time.

use quincunx::alternatives::{alternatives, explain};
use quincunx::compile::{Job, compile, stop_after};
use quincunx::report::{Format, Report};
use quincunx::target::{ArchSource, plan::Place};
use quincunx::{InputFile, Model, Setup, find_target};
use std::path::Path;

fn model() -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/digits.onnx");
    Model::read(&InputFile::open(&path).unwrap()).unwrap()
}

/// A tensor unit without registers at its ALUs, which cannot do what needs them.
fn without_registers() -> Setup<'static> {
    let tcu = find_target("tcu").unwrap();
    let text = tcu.arch(&ArchSource::Preset("pynqz1".to_owned())).unwrap().to_file();
    let changed = text.replace("\"simd_registers_depth\": 1", "\"simd_registers_depth\": 0");
    assert_ne!(text, changed);
    let arch = ArchSource::Text { name: "bare".to_owned(), text: changed };
    Setup::new(tcu, &arch, &[]).unwrap()
}

#[test]
fn a_machine_with_registers_takes_what_one_without_does_not() {
    let (model, setup) = (model(), without_registers());
    let job = Job::new(&model, &setup);
    let compilation = compile(&job).unwrap();
    let found = alternatives(&job, &compilation);
    let rows = &compilation.plan.rows;
    let on_host: Vec<&str> =
        rows.iter().filter(|row| row.place == Place::Host).map(|row| &*row.node).collect();
    assert!(on_host.contains(&"pool1"), "{on_host:?}");
    for node in &on_host {
        assert!(found[*node].iter().any(|words| words == "--arch pynqz1"), "{node}: {found:?}");
    }
    assert_eq!(found.len(), on_host.len());
    let table = Report::from(explain(rows, &found)).render(Format::Csv);
    let heading = table.lines().next().unwrap();
    assert!(heading.ends_with("reason,taken_with"), "{heading}");
    // All of it is on the machine otherwise, and there is nothing to change.
    let setup = Setup::default_for(find_target("tcu").unwrap()).unwrap();
    let job = Job::new(&model, &setup);
    assert!(alternatives(&job, &compile(&job).unwrap()).is_empty());
}

#[test]
fn a_pass_ends_the_work_whatever_comes_behind_it() {
    let (model, setup) = (model(), without_registers());
    let strict = Job { strict: true, ..Job::new(&model, &setup) };
    assert!(compile(&strict).unwrap().result.is_err());
    let text = stop_after(&strict, "fold-constants").unwrap();
    assert!(text.starts_with("graph \"digits\"") && text.contains("# fc2"), "{text}");
    assert!(stop_after(&strict, "plan").unwrap().contains("conv1"));
    // What fails before the pass is told of.
    assert_eq!(stop_after(&strict, "schedule").unwrap_err().exit_code(), 4);
    let unknown = stop_after(&Job::new(&model, &setup), "fold-constant").unwrap_err();
    assert_eq!(unknown.exit_code(), 2);
    assert!(unknown.to_string().contains("did you mean \"fold-constants\"?"), "{unknown}");
}
