//! What the two-engine model makes of threads, and samples without an interval.

use crate::common::random::{program, small};
use quincunx_contract::{File, Log, Target as _};
use quincunx_tcu::arch::DataType;
use quincunx_tcu::isa::Inst;
use quincunx_tcu::program::{Program, Step};
use quincunx_tcu::time::engines;
use quincunx_tcu::{TARGET, TcuArch, text};
use quincunx_testkit::{Random, options};

/// Both threads share the decoder and the engines: who an instruction belongs to changes nothing,
/// and a NoOp takes a cycle of the decoder.
#[test]
fn threads_share_one_decoder() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let mut two = program(&mut random, &small(DataType::FP16BP8, 2), 30);
        let timing = engines(&two);
        let issues: Vec<u64> = timing.runs.iter().map(|run| run.issue).collect();
        assert!(issues.is_sorted_by(|a, b| a < b), "seed {seed}");
        two.steps.iter_mut().for_each(|step| step.tid = 0);
        assert_eq!(engines(&two), timing, "seed {seed}");
    }
    let noop = |tid| Step { tid, inst: Inst::NoOp { thread: 0 } };
    let program =
        Program { arch: small(DataType::FP16BP8, 2), steps: vec![noop(0), noop(1), noop(0)] };
    assert_eq!(engines(&program).total, 3);
}

/// A file without a sample would say nothing, so none is written.
#[test]
fn samples_need_an_interval() {
    let arch = TcuArch::preset("pynqz1").unwrap();
    let emit = |source: &str, given: &[(&str, &str)]| {
        let options = options(&TARGET, given);
        assert!(text::recognises(source));
        let files = [File::new("x.tasm", source.as_bytes().to_vec())];
        let program = TARGET.read(&files, None, &arch, &options, &mut Log::default()).unwrap();
        program.emit("samples", "x")
    };
    let problem = emit("NoOp\n", &[]).unwrap_err();
    assert_eq!(problem.code(), "Q3084");
    assert!(problem.help_text().unwrap().contains("--sample-interval"));
    assert!(!emit("NoOp\n", &[("sample-interval", "1")]).unwrap()[0].bytes.is_empty());
    // The program may set it itself.
    assert!(!emit("Configure SampleInterval 1\nNoOp\n", &[]).unwrap()[0].bytes.is_empty());
}
