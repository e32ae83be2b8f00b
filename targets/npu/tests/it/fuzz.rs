//! Arbitrary and damaged files: no reader panics, and what a reader accepts can be verified, timed
//! and written without a panic.

use crate::common::cases::all;
use crate::common::{Random, arch, fragment, fragments, problems, read_lenient};
use proptest::prelude::*;
use quincunx_contract::{File, Log, Target};
use quincunx_isa::RawInst;
use quincunx_npu::TARGET;
use quincunx_npu::binary;
use quincunx_npu::files;
use quincunx_npu::isa::Inst;
use quincunx_npu::program::Program;
use quincunx_npu::text;
use quincunx_npu::time::{Model, durations};
use quincunx_npu::work::resolve;
use quincunx_testkit::damaged;
use std::collections::BTreeSet;

/// Everything that can be done with a program that a reader has accepted, short of running it.
fn exercise(program: Program) {
    let printed = text::print(&program);
    let read = read_lenient(&printed, true).unwrap();
    assert_eq!(text::print(&read.program), printed);
    let work = resolve(&program);
    for model in [Model::UPSTREAM, Model::PHYSICAL] {
        durations(&program, &work, &arch(), model);
    }
    if let Ok(code) = binary::write(&program, &arch(), true) {
        assert_eq!(text::print(&binary::read(&code, &arch()).unwrap()), printed);
    }
    problems(&[program]);
}

fn read_text(bytes: &[u8]) {
    let _ = text::recognises(bytes);
    for lenient in [false, true] {
        match read_lenient(bytes, lenient) {
            Ok(read) => exercise(read.program),
            Err(problems) => assert!(problems.iter().any(|problem| problem.is_error())),
        }
    }
}

fn read_binary(bytes: &[u8]) {
    if let Ok(program) = binary::read(bytes, &arch()) {
        exercise(program);
    }
}

fn read_json(bytes: &[u8]) {
    if let Ok(file) = files::read(bytes) {
        file.validate();
        file.tables();
        let again = files::read(&file.write()).unwrap();
        assert_eq!(again.value, file.value);
    }
}

fn valid(seed: u64) -> Vec<u8> {
    let stems = fragments();
    fragment(&stems[seed as usize % stems.len()])
}

/// A small schedule with everything the rules look at.
const SCHEDULE: &str = r#"{"-1": {"in": [{"transfer_id": 2, "related_ofmap": [0]}], "out": [{"destination":
    [{"core_id": 0, "type": "core", "workload_id": 0}], "lower": [0, 0, 0, 0], "upper": [0, 7, 1, 1], "size": 32,
    "transfer_id": 0, "related_ifmap": [2]}]}, "0": [{"workload_id": 0, "layer_type": "pe", "layer_name": "a",
    "time": 3, "workload": [[0, 0, 0, 0], [0, 7, 1, 1]], "tile_info": {"tile_num_0": {"ofmap_lower": [0, 0, 0, 0],
    "ofmap_upper": [0, 7, 1, 1]}}, "ifmap": [{"align": 8, "bitwidth": 8, "lower": [0, 0, 0, 0], "upper":
    [0, 7, 1, 1], "size": 32, "transfer_id": [0]}], "weight": {"lower": [0, 0, 0, 0], "upper": [0, 7, 7, 0],
    "size": 320, "transfer_id": [1]}, "buffer": [{"address": 64, "size": 32, "align": 8, "bitwidth": 8, "lower":
    [0, 0, 0, 0], "upper": [0, 7, 1, 1], "cur_wl_ifmap": true}], "wl0_buffer": [{"address": 32, "size": 64,
    "layer_name": "a"}], "ofmap": [{"transfer_id": 3, "destination": []}]}], "buffersize": 8388608,
    "top_batch_cut": 1, "xlen": 1, "ylen": 1}"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_text(&bytes);
        read_binary(&bytes);
        read_json(&bytes);
        let _ = quincunx_npu::NpuArch::parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn arbitrary_words(words in prop::collection::vec(any::<u128>(), 0..20)) {
        let mut bytes = b"QNPU\x01\0\0\0".to_vec();
        bytes.extend((words.len() as u32).to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        read_binary(&bytes);
    }

    #[test]
    fn damaged_text(seed in any::<u64>()) {
        read_text(&damaged(&valid(seed), b"0123456789-.,:[](){}'<> \neTLD_", &mut Random::new(seed)));
    }

    #[test]
    fn damaged_machine_code(seed in any::<u64>()) {
        let program = read_lenient(&valid(seed), false).unwrap().program;
        let code = binary::write(&program, &arch(), seed % 2 == 0).unwrap();
        read_binary(&damaged(&code, b"\x00\xff\x10\x20[]{}\",0129", &mut Random::new(seed)));
    }

    #[test]
    fn damaged_schedules(seed in any::<u64>()) {
        read_json(&damaged(SCHEDULE.as_bytes(), b"0123456789-.,:[]{}\"enltrufas", &mut Random::new(seed)));
    }
}

#[test]
fn the_schedule_is_legal() {
    let file = files::read(SCHEDULE.as_bytes()).unwrap();
    assert_eq!(file.kind, files::Kind::Scheduler);
    assert_eq!(file.validate(), []);
    // What a rule forbids is found.
    for (old, new, code) in [
        ("\"size\": 32, \"transfer_id\": [0]", "\"size\": 33, \"transfer_id\": [0]", "Q4074"),
        ("\"address\": 64", "\"address\": 65", "Q4075"),
        ("\"address\": 32", "\"address\": 18900", "Q4076"),
        ("\"workload_id\": 0, \"layer_type\"", "\"workload_id\": 1, \"layer_type\"", "Q4073"),
        ("\"xlen\": 1", "\"xlen\": 0", "Q4072"),
        ("\"ofmap_upper\": [0, 7, 1, 1]", "\"ofmap_upper\": [0, 7, 1, 0]", "Q4074"),
        ("\"related_ifmap\": [2]", "\"related_ifmap\": []", "Q4073"),
    ] {
        let one_line = SCHEDULE.replace("\n    ", " ");
        assert!(one_line.contains(old), "{old}");
        let file = files::read(one_line.replacen(old, new, 1).as_bytes()).unwrap();
        let found = file.validate();
        assert!(found.iter().any(|problem| problem.code() == code), "{old}: {found:?}");
    }
}

/// Headers and nesting that announce more than there is.
#[test]
fn hostile_files() {
    let mut header = b"QNPU\x01\0\0\0".to_vec();
    header.extend(u32::MAX.to_le_bytes());
    assert_eq!(binary::read(&header, &arch()).unwrap_err().code(), "Q4014");
    assert!(files::read("[".repeat(1_000_000).as_bytes()).is_err());
    assert!(files::read(format!("{{\"a\": {}", "[[[[".repeat(1000)).as_bytes()).is_err());
    read_text("[ct_st, {'slyr': 99999999999999999999999, ".as_bytes());
    let many = "[ct_st\n".repeat(100_000);
    assert_eq!(read_lenient(many.as_bytes(), false).unwrap_err().len(), 101);
}

/// Machine code without instructions is as little a program as an empty text.
#[test]
fn files_without_lines_are_no_programs() {
    let read = |bytes: &[u8]| {
        let options = quincunx_testkit::options(&TARGET, &[]);
        let files = [File::new("x", bytes.to_vec())];
        let problems = TARGET.read(&files, None, &arch(), &options, &mut Log::default()).err();
        problems.map(|problems| problems[0].code())
    };
    assert_eq!(read(b"QNPU\x01\0\0\0\0\0\0\0"), Some("Q4082"));
    assert_eq!(read(b""), Some("Q4082"));
    let options = quincunx_testkit::options(&TARGET, &[]);
    let data = [File::new("net.dram.bin", vec![0; 64])];
    let problems = TARGET.read(&data, None, &arch(), &options, &mut Log::default()).err().unwrap();
    assert_eq!(problems[0].code(), "Q4080");
    assert!(problems[0].help_text().unwrap().contains("net.qnpu"), "{problems:?}");
}

/// Every operand of every instruction at both ends of its field.
#[test]
fn operands_at_their_ends() {
    let mut seen = BTreeSet::new();
    for program in all().into_iter().flat_map(|case| case.programs) {
        for (index, line) in program.lines.iter().enumerate() {
            let RawInst { row, values } = line.inst.to_raw();
            for operand in (0..values.len()).filter(|&operand| seen.insert((row, operand))) {
                let changed = |value: i128| {
                    let mut values = values.clone();
                    values[operand] = value;
                    let mut program = program.clone();
                    program.lines[index].inst = Inst::from_raw(&RawInst { row, values })?;
                    read_lenient(&text::print(&program), true).ok()?;
                    Some(program)
                };
                let ends = (0..34).flat_map(|bit| [-(1 << bit), (1 << bit) - 1, (1 << bit) - 8]);
                let mut ends: Vec<i128> = ends.collect();
                ends.sort_unstable();
                let mut programs = ends.iter().filter_map(|&value| changed(value));
                programs.next().into_iter().chain(programs.next_back()).for_each(exercise);
                changed(0).into_iter().for_each(exercise);
            }
        }
    }
}

/// Numbers of 64 bits in the files around a program.
#[test]
fn numbers_at_their_ends() {
    let large = i64::MAX.to_string();
    let schedule = SCHEDULE.replace("\n    ", " ");
    for (old, new) in [
        ("\"size\": 32", format!("\"size\": {large}")),
        ("\"align\": 8", format!("\"align\": {large}")),
        ("\"bitwidth\": 8", format!("\"bitwidth\": {large}")),
        ("[0, 7, 1, 1]", "[16777215, 16777215, 16777215, 16777215]".to_owned()),
        ("\"address\": 64", format!("\"address\": {large}")),
        ("\"xlen\": 1", format!("\"xlen\": {large}")),
    ] {
        assert!(schedule.contains(old), "{old}");
        read_json(schedule.replace(old, &new).as_bytes());
    }
    let wide = schedule.replace("[0, 7, 1, 1]", "[16777215, 16777215, 16777215, 16777215]");
    read_json(wide.replace("\"bitwidth\": 8", &format!("\"bitwidth\": {large}")).as_bytes());
    let sizes = format!("{{\"size\": {large}}}, ").repeat(3);
    let dram = schedule.replacen("\"out\": [", &format!("\"out\": [{sizes}"), 1);
    read_json(dram.as_bytes());
    let layer = format!(
        "{{\"a\": {{\"layer_index\": {large}, \"operation\": \"conv2d\", \"name\": \"a\", \
         \"kernel_size\": [0, 1], \"padding\": [0, 0, 0, 0], \"stride\": [1, 1], \
         \"input_shape\": [[1, 1, {large}, {large}]], \"output_shape\": [[1, 1, 1, 1]]}}}}"
    );
    read_json(layer.as_bytes());
}

/// A machine whose DRAM takes for ever, and a trace whose lines do.
#[test]
fn cycles_at_their_ends() {
    use quincunx_contract::{ArchSource, File, Log, Options, Target as _};
    let slow = "name = \"slow\"\nhertz = 1e18\ndram_bytes_per_second = 1.0";
    let slow = quincunx_npu::NpuArch::parse(slow).unwrap();
    for program in all().into_iter().flat_map(|case| case.programs) {
        durations(&program, &resolve(&program), &slow, Model::PHYSICAL);
    }
    let target = &quincunx_npu::TARGET;
    let trace = |extra: u64| {
        let mut program = all().swap_remove(0).programs.swap_remove(0);
        let end = 1_000_000_000_000_000_000_u64.saturating_mul(extra);
        program.lines.iter_mut().for_each(|line| line.time = Some((0, end)));
        let file = File::new("a.qnpu", binary::write(&program, &arch(), true).unwrap());
        let arch = target.arch(&ArchSource::Default).unwrap();
        let options = Options::new(target.info().options, &[]).unwrap();
        target.read(&[file], None, arch.as_ref(), &options, &mut Log::default()).unwrap()
    };
    let (left, right) = (trace(9), trace(99));
    assert!(target.diff(left.as_ref(), right.as_ref()).is_some());
    for program in [left, right] {
        program.time().unwrap().usage();
        program.stats();
        program.view("kinds").unwrap();
    }
}
