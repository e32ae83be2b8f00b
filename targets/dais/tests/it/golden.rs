//! The peers' data: every golden program gives exactly the golden outputs.

use crate::common::{Case, FOLDERS, cases, names, read_binary, root, same};
use quincunx_dais::binary::{self, Dialect, ReadOptions};
use quincunx_dais::files::{self, Pipeline};
use quincunx_dais::program::Program;
use quincunx_dais::simulate::{Executor, PipelineExecutor};
use quincunx_dais::text;
use quincunx_dais::verify::{Rules, verify, verify_pipeline};
use quincunx_diag::{Class, SourceId, any_error};
use std::fs;

fn check(name: &str, program: &Program, case: &Case) {
    assert!(!any_error(&verify(program, &Rules::default())), "{name}");
    let mut executor = Executor::new(program).unwrap();
    for (sample, (inputs, expected)) in case.inputs.iter().zip(&case.outputs).enumerate() {
        let outputs = executor.run(inputs).unwrap();
        assert!(same(&outputs, expected), "{name}, sample {sample}: {outputs:?}, {expected:?}");
    }
}

#[test]
fn json_programs_give_the_golden_outputs() {
    for case in cases(&FOLDERS) {
        check(&format!("{}.json", case.name), &case.program(), &case);
    }
}

#[test]
fn binary_programs_give_the_golden_outputs() {
    for case in cases(&FOLDERS) {
        let d1 = read_binary(&case.file(".bin").unwrap());
        assert_eq!(d1.dialect, Dialect::D1, "{}", case.name);
        check(&format!("{}.bin", case.name), &d1.program, &case);
        if let Some(bytes) = case.file(".v0.bin") {
            let d0 = read_binary(&bytes);
            assert_eq!(d0.dialect, Dialect::D0, "{}", case.name);
            check(&format!("{}.v0.bin", case.name), &d0.program, &case);
        }
    }
}

#[test]
fn programs_of_alkaid_give_the_golden_outputs() {
    let cases = cases(&["alir4"]);
    assert_eq!(cases.len(), 5);
    for case in cases {
        let program = case.program();
        check(&format!("{}.json", case.name), &program, &case);
        let name = &case.name;
        let json = files::write_alir_json(&program).unwrap();
        let again = files::read_json(&json, false).unwrap();
        assert_eq!(
            (again.pipeline.stages.as_slice(), again.dialect),
            (&[program.clone()][..], Dialect::A4)
        );
        assert_eq!(without_points(&json), without_points(&case.json()), "{name}");
        if let Some(bytes) = case.file(".json.gz") {
            assert_eq!(files::decompress(&bytes).unwrap(), case.json(), "{name}");
        }
        let compressed = files::compress(&json).unwrap();
        assert_eq!(files::decompress(&compressed).unwrap(), json);
        let Some(bytes) = case.file(".bytecode") else { continue };
        assert!(
            binary::write(&program, Dialect::A4).unwrap() == bytes,
            "{name}: JSON to byte code"
        );
        let read = read_binary(&bytes);
        assert_eq!(read.dialect, Dialect::A4);
        check(&format!("{name}.bytecode"), &read.program, &case);
        assert!(binary::write(&read.program, Dialect::A4).unwrap() == bytes, "{name}: byte code");
    }
}

/// Python writes some numbers without a point, which are the same.
fn without_points(json: &str) -> String {
    json.replace(".0,", ",").replace(".0]", "]").replace(".0}", "}")
}

#[test]
fn pipelines_give_the_golden_outputs() {
    let mut count = 0;
    for case in cases(&FOLDERS) {
        for (name, json) in case.pipelines() {
            let pipeline = files::read_json(&json, false).unwrap().pipeline;
            assert!(pipeline.stages.len() > 1, "{name}");
            assert!(!any_error(&verify_pipeline(&pipeline, &Rules::default())), "{name}");
            let mut executor = PipelineExecutor::new(&pipeline).unwrap();
            for (inputs, expected) in case.inputs.iter().zip(&case.outputs) {
                assert!(same(&executor.run(inputs).unwrap(), expected), "{name}");
            }
            let again = files::read_json(&files::write_pipeline_json(&pipeline).unwrap(), false);
            assert_eq!(again.unwrap().pipeline, pipeline, "{name}");
            let assembly = text::print_pipeline(&pipeline);
            assert_eq!(text::parse(&assembly, SourceId(0)).unwrap(), pipeline, "{name}");
            count += 1;
        }
    }
    assert_eq!(count, 2);
}

#[test]
fn files_are_written_as_they_were_read() {
    for case in cases(&FOLDERS) {
        let (name, program) = (&case.name, case.program());
        let json = files::write_json(&program).unwrap();
        let again = files::read_json(&json, false).unwrap().pipeline;
        assert_eq!(again, Pipeline::from(program.clone()), "{name}");
        // The tracer writes some costs without a point, which is the same number.
        assert!(json == case.json() || name.starts_with("traced"), "{name}");
        assert_eq!(text::read(&text::print(&program), name).unwrap().0, program, "{name}");
        let bytes = case.file(".bin").unwrap();
        assert!(binary::write(&program, Dialect::D1).unwrap() == bytes, "{name}: JSON to binary");
        let d1 = read_binary(&bytes).program;
        assert!(binary::write(&d1, Dialect::D1).unwrap() == bytes, "{name}: binary to binary");
        if let Some(v0) = case.file(".v0.bin") {
            assert!(binary::write(&d1, Dialect::D0).unwrap() == v0, "{name}: D1 to D0");
            let d0 = read_binary(&v0).program;
            assert!(binary::write(&d0, Dialect::D1).unwrap() == bytes, "{name}: D0 to D1");
        }
    }
}

#[test]
fn the_documented_word_order_is_read_on_request() {
    for case in cases(&["ops"]) {
        let Some(v0) = case.file(".v0.bin") else { continue };
        let program = read_binary(&v0).program;
        let bytes = binary::write(&program, Dialect::D0Doc).unwrap();
        let options = ReadOptions { dialect: Some(Dialect::D0Doc), lenient: false };
        assert_eq!(binary::read(&bytes, &options).unwrap().program, program);
    }
}

/// JSON that is made of a binary means the same, although it cannot know the intervals.
#[test]
fn binaries_become_json() {
    for case in cases(&FOLDERS) {
        let d1 = read_binary(&case.file(".bin").unwrap()).program;
        let text = files::write_json(&d1).unwrap();
        let read = files::read_json(&text, false).unwrap().pipeline.stages.remove(0);
        check(&format!("{} through JSON", case.name), &read, &case);
        assert!(binary::write(&read, Dialect::D1).unwrap() == case.file(".bin").unwrap());
    }
}

#[test]
fn malformed_binaries_are_rejected() {
    let folder = root().join("invalid");
    let mut count = 0;
    for name in names(&folder).iter().filter(|name| name.ends_with(".bin")) {
        let bytes = fs::read(folder.join(name)).unwrap();
        let problems = match binary::read(&bytes, &ReadOptions::default()) {
            Ok(read) => verify(&read.program, &Rules::default()),
            Err(problems) => problems,
        };
        let mut errors = problems.iter().filter(|problem| problem.is_error());
        let first = errors.next().unwrap_or_else(|| panic!("{name} is accepted"));
        assert_eq!(first.class(), Class::Invalid, "{name}: {first}");
        count += 1;
    }
    assert_eq!(count, 13);
}
