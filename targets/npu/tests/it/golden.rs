//! Hand-built fragments: text, machine code, replay, cycles; files of the original tool where they
//! are present.

use crate::common::{arch, fragment, fragments, golden, parse, problems, read_lenient};
use quincunx_npu::binary;
use quincunx_npu::replay::replay;
use quincunx_npu::text;
use quincunx_npu::time::{Model, durations};
use quincunx_npu::work::resolve;
use serde_json::Value;

fn expected(stem: &str) -> Value {
    let path = golden().join(format!("fragments/{stem}.expected.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

#[test]
fn text_and_machine_code_give_the_file_back() {
    for stem in fragments() {
        let bytes = fragment(&stem);
        let program = parse(&bytes);
        assert_eq!(text::print(&program), bytes, "{stem}");
        let code = binary::write(&program, &arch(), true).unwrap();
        assert_eq!(text::print(&binary::read(&code, &arch()).unwrap()), bytes, "{stem}");
        let bare = binary::write(&program, &arch(), false).unwrap();
        assert_eq!(bare.len(), 12 + 16 * program.lines.len());
        assert_eq!(bare[..], code[..bare.len()]);
    }
}

#[test]
fn cycles_and_times_are_the_expected_ones() {
    for stem in fragments().iter().filter(|stem| !stem.starts_with('e')) {
        let (program, expected) = (parse(&fragment(stem)), expected(stem));
        let work = [resolve(&program)];
        let cycles = durations(&program, &work[0], &arch(), Model::UPSTREAM);
        assert_eq!(cycles, numbers(&expected["durations"]), "{stem}");
        let replay = replay(&[&program], &work, &|node| cycles[node.line]);
        let (starts, ends): (Vec<u64>, Vec<u64>) = replay.times[0].iter().copied().unzip();
        assert_eq!(starts, numbers(&expected["start"]), "{stem}");
        assert_eq!(ends, numbers(&expected["end"]), "{stem}");
        assert_eq!(Some(replay.total()), expected["total"].as_u64(), "{stem}");
        let errors: Vec<_> = problems(&[program]).into_iter().filter(|p| p.is_error()).collect();
        assert_eq!(errors, [], "{stem}");
    }
}

/// The physical model counts every image and every move.
#[test]
fn the_physical_model_takes_longer() {
    let work_of = |stem: &str, model| {
        let program = parse(&fragment(stem));
        let work = resolve(&program);
        durations(&program, &work, &arch(), model)
    };
    let [batch, physical] =
        [Model::UPSTREAM, Model::PHYSICAL].map(|model| work_of("f09_batch_vp_self_tokens", model));
    // One image of 64 x 28 x 28 in FP16: 3136 cycles and 18 more, four times.
    assert_eq!(&batch[15..19], &[809; 4]);
    assert_eq!(&physical[15..19], &[20 + 28 * 28 * 4 + 18; 4]);
    let reorder = work_of("f06_add_dt", Model::PHYSICAL);
    assert!(reorder[18] > 20);
}

#[test]
fn error_fragments_are_reported_where_they_are() {
    let find = |stem: &str, code: &str| {
        let found = problems(&[parse(&fragment(stem))]);
        let problem = found.iter().find(|problem| problem.code() == code);
        problem.unwrap_or_else(|| panic!("{stem}: {found:?}")).clone()
    };
    let deadlock = find("e01_deadlock", "Q4021");
    assert!(deadlock.message().contains("LD waits for token PE->LD"));
    assert!(deadlock.to_string().contains("(line 7)"));
    let leftover = find("e02_leftover_token", "Q4022");
    assert!(leftover.message().contains("1 unconsumed token CT->PE") && !leftover.is_error());
    let hazard = find("e03_unordered_war", "Q4031");
    assert!(hazard.message().contains("L2 [0,4096): line 8 (lda_mov)"));
    assert!(hazard.message().contains("line 10 (sta_mov)"));
}

#[test]
fn bad_lines_are_refused() {
    let path = golden().join("fragments/bad_lines.json");
    let lines: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for case in lines.as_array().unwrap() {
        let line = format!("{}\n", case["line"].as_str().unwrap());
        let problems = read_lenient(line.as_bytes(), false).unwrap_err();
        assert!(!problems[0].labels().is_empty(), "{problems:?}");
    }
}
