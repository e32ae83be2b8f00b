//! Arbitrary and damaged files: no reader panics, and what a reader accepts can be verified,
//! written and run without a panic.

use crate::common::random::program;
use crate::common::{Case, cases};
use proptest::prelude::*;
use quincunx_contract::{ArchSource, File, Log, Options, Target};
use quincunx_dais::binary::{self, Dialect, ReadOptions, convert};
use quincunx_dais::files::packed;
use quincunx_dais::files::{self, Pipeline};
use quincunx_dais::program::Program;
use quincunx_dais::simulate::{Executor, Fast, PipelineExecutor};
use quincunx_dais::verify::{Rules, verify, verify_pipeline};
use quincunx_dais::{TARGET, text};
use quincunx_diag::{SourceId, any_error};
use quincunx_testkit::{self as testkit, Random, within_seconds};
use std::num::NonZeroUsize;
use std::sync::LazyLock;

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| cases(&["ops", "fuzz"]));

/// Everything that can be done with a pipeline that a reader has accepted.
fn exercise(pipeline: &Pipeline) {
    let _ = verify_pipeline(pipeline, &Rules::default());
    let _ = files::write_pipeline_json(pipeline);
    let _ = files::write_alir_pipeline_json(pipeline);
    for stage in &pipeline.stages {
        exercise_program(stage);
    }
    let inputs = pipeline.stages.first().map_or(0, |stage| stage.ends().0);
    let Ok(executor) = PipelineExecutor::new(pipeline) else { return };
    for number in [0.0, -1e300, f64::NAN] {
        let (mut executor, sample) = (executor.clone(), vec![number; inputs]);
        let results = [(); 2].map(|()| executor.run(&sample));
        let expected = results.into_iter().collect::<Result<Vec<_>, _>>().map(|all| all.concat());
        if let Ok(Some(fast)) = Fast::new(pipeline) {
            let found = fast.run(2, &[&sample[..], &sample].concat(), NonZeroUsize::MIN);
            assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        }
    }
}

fn exercise_program(program: &Program) {
    let legal = !any_error(&verify(program, &Rules::EXECUTABLE));
    for dialect in Dialect::ALL {
        let _ = binary::write(program, dialect);
        if let Ok(converted) = convert(program, dialect)
            && legal
        {
            let _ = binary::write(&converted.program, dialect);
            assert!(!any_error(&verify(&converted.program, &Rules::EXECUTABLE)));
        }
    }
    if let Ok(json) = files::write_alir_json(program)
        && legal
    {
        assert!(files::read_json(&json, false).is_ok(), "{json}");
    }
    // Numbers that are none are the only ones that differ from themselves.
    let printed = text::print(program);
    let read = text::read(&printed, "x").unwrap().0;
    assert_eq!(text::print(&read), printed);
    let executor = Executor::new(program);
    assert_eq!(executor.is_ok(), legal);
    if let Ok(mut executor) = executor {
        let inputs = program.ends().0;
        let _ = executor.run(&vec![0.0; inputs]);
        let _ = executor.run_strict(&vec![-1e300; inputs]);
    }
}

fn read_binary(bytes: &[u8]) {
    let _ = binary::recognises(bytes);
    let dialects = Dialect::ALL.into_iter().map(Some).chain([None]);
    for dialect in dialects {
        for lenient in [false, true] {
            match binary::read(bytes, &ReadOptions { dialect, lenient }) {
                Ok(read) => exercise(&read.program.into()),
                Err(problems) => assert!(any_error(&problems)),
            }
        }
    }
}

fn read_json(text: &str) {
    for lenient in [false, true] {
        match files::read_json(text, lenient) {
            Ok(read) => exercise(&read.pipeline),
            Err(problems) => assert!(any_error(&problems)),
        }
    }
}

fn read_compressed(bytes: &[u8]) {
    match files::decompress(bytes) {
        Ok(text) => read_json(&text),
        Err(problem) => assert_eq!(problem.code(), "Q1093"),
    }
}

fn read_text(text: &str) {
    let _ = text::recognises(text);
    match text::parse(text, SourceId(0)) {
        Ok(pipeline) => exercise(&pipeline),
        Err(problems) => assert!(any_error(&problems)),
    }
}

fn read_packed(bytes: &[u8]) {
    match packed::read(bytes) {
        Ok(pipeline) => exercise(&pipeline),
        Err(problems) => assert!(any_error(&problems)),
    }
}

/// What the verbs do with a file: no panic, whatever it holds.
fn exercise_verbs(bytes: &[u8], given: &[(&str, &str)]) {
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    testkit::exercise(&TARGET, &*arch, given, &[File::new("x", bytes.to_vec())], &|_| true);
}

fn damaged(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    testkit::damaged(bytes, &[0, 0xff], random)
}

fn damaged_text(text: &str, random: &mut Random) -> String {
    testkit::damaged_text(text, "0123456789-.,:[](){}%<>=\"#\\ \neINaxlut", random)
}

/// Programs with registers that alkaid saved.
const MACHINES: [&str; 3] = [
    include_str!("../../../../examples/dais/filter.json"),
    include_str!("../../../../examples/dais/staged.json"),
    include_str!("../../../../examples/dais/controlled.json"),
];

/// The text with some of its words in other places.
fn swapped(text: &str, random: &mut Random) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let mut parts: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (part, others) = rest.split_at(end);
        parts.push(part);
        rest = others;
    }
    for _ in 0..=random.below(3) {
        let (from, to) = (random.below(parts.len()), random.below(parts.len()));
        parts[to] = parts[from];
    }
    parts.concat()
}

/// A case or a random program, so that both small and large numbers occur.
fn valid(seed: u64) -> Program {
    match seed % 2 {
        0 => program(&mut Random::new(seed), 12),
        _ => CASES[seed as usize / 2 % CASES.len()].program(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read_binary(&bytes);
        let byte_code: Vec<u8> = b"ALIR\x04\0\0\0".iter().chain(&bytes).copied().collect();
        read_binary(&byte_code);
        let compressed: Vec<u8> = [0x1f, 0x8b, 8, 0].iter().chain(&bytes).copied().collect();
        read_compressed(&compressed);
        read_json(&String::from_utf8_lossy(&bytes));
        read_text(&String::from_utf8_lossy(&bytes));
        let packed: Vec<u8> = b"\x7fQxDais\x01\x06.dais\n".iter().chain(&bytes).copied().collect();
        read_packed(&packed);
    }

    #[test]
    fn damaged_packed_files(seed in any::<u64>()) {
        let bytes = packed::write(&valid(seed).into());
        read_packed(&damaged(&bytes, &mut Random::new(seed)));
    }

    /// Small words are likelier to be counts, opcodes and slots.
    #[test]
    fn arbitrary_words(words in prop::collection::vec(-3i32..12, 3..80)) {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        read_binary(&bytes);
        bytes.splice(..0, *b"ALIR\x04\0\0\0");
        read_binary(&bytes);
    }

    #[test]
    fn damaged_binaries(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let program = valid(seed);
        for dialect in [Dialect::D1, Dialect::D0, Dialect::A4] {
            if let Ok(converted) = convert(&program, dialect) {
                let bytes = binary::write(&converted.program, dialect).unwrap();
                read_binary(&damaged(&bytes, &mut random));
            }
        }
    }

    #[test]
    fn damaged_files_of_alkaid(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let program = convert(&valid(seed), Dialect::A4).unwrap().program;
        if let Ok(json) = files::write_alir_json(&program) {
            read_json(&damaged_text(&json, &mut random));
            read_compressed(&damaged(&files::compress(&json).unwrap(), &mut random));
        }
        if let Ok(json) = files::write_alir_pipeline_json(&program.into()) {
            read_json(&damaged_text(&json, &mut random));
        }
    }

    /// Machines: characters, names and numbers that are others.
    #[test]
    fn damaged_machines(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let file = MACHINES[seed as usize % MACHINES.len()];
        read_json(&damaged_text(file, &mut random));
        read_json(&swapped(file, &mut random));
        let mut program = convert(&valid(seed), Dialect::A4).unwrap().program;
        program.state = (0..random.below(4)).map(|_| random.float()).collect();
        read_text(&damaged_text(&text::print(&program), &mut random));
        if program.ends().0 + program.state.len() == program.input_shifts.len()
            && program.ends().1 + program.state.len() == program.outputs.len()
            && let Ok(json) = files::write_alir_pipeline_json(&program.into())
        {
            read_json(&json);
            read_json(&swapped(&json, &mut random));
        }
    }

    #[test]
    fn damaged_json(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let program = convert(&valid(seed), Dialect::D1).unwrap().program;
        if let Ok(json) = files::write_json(&program) {
            read_json(&damaged_text(&json, &mut random));
        }
    }

    #[test]
    fn damaged_assembly(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        read_text(&damaged_text(&text::print(&valid(seed)), &mut random));
    }
}

/// Options with which files are read in [`exercise_verbs`].
const GIVEN: [&[(&str, &str)]; 5] = [
    &[],
    &[("latency-cutoff", "2"), ("lenient", "true")],
    &[("to", "a4")],
    &[("to", "d1"), ("dump-buffer", "true")],
    &[("dialect", "d0"), ("to", "d0"), ("rtl-registers", "2")],
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn damaged_files_in_all_verbs(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let program = valid(seed);
        let given = GIVEN[seed as usize / 7 % GIVEN.len()];
        let (d1, a4) = (convert(&program, Dialect::D1).unwrap(), convert(&program, Dialect::A4).unwrap());
        exercise_verbs(&damaged(&binary::write(&d1.program, Dialect::D1).unwrap(), &mut random), given);
        if let Ok(bytes) = binary::write(&a4.program, Dialect::A4) {
            exercise_verbs(&damaged(&bytes, &mut random), given);
        }
        if let Ok(json) = files::write_json(&d1.program) {
            exercise_verbs(damaged_text(&json, &mut random).as_bytes(), given);
        }
        exercise_verbs(damaged_text(&text::print(&program), &mut random).as_bytes(), given);
    }
}

/// Numbers at the ends of their words, of which differences leave the word.
#[test]
fn extreme_types_and_shifts() {
    let ends = [i32::MIN, 0, i32::MAX];
    let long = [i64::MIN, 0, i64::MAX];
    for (integer, fraction) in ends.into_iter().flat_map(|i| ends.map(|f| (i, f))) {
        for (shift, far) in ends.into_iter().zip(long) {
            let source = format!(
                ".dais\n.inputs 1\n.input 0 << {shift}\n.table 0\n.values 1\n\
                 %0 = input 0 : (1, {integer}, {fraction})\n\
                 %1 = rescale %0 << {far} : (0, {fraction}, {integer})\n\
                 %2 = add %0, %1 << {far} : (0, {integer}, {fraction})\n\
                 %3 = add_scaled %2, {far} >> {} : (1, 0, {fraction})\n\
                 %4 = mux %0, %1, %2 << {shift} : (1, {integer}, {fraction})\n\
                 %5 = lookup %1, table 0, pad {shift} : (1, 3, {fraction})\n\
                 %6 = sum %0 << {shift}, -%1 << {shift}, %2 : (1, 3, 0)\n\
                 %7 = bits.and %0, %1 << {shift} : (1, 3, {integer})\nout -%7 << {shift}\n",
                shift >> 16
            );
            read_text(&source);
            text::parse(&source, SourceId(0)).unwrap_or_else(|found| panic!("{source}{found:?}"));
        }
    }
}

/// An illegal program is an error to every verb that needs a legal one.
#[test]
fn times_of_illegal_programs() {
    let source = b".dais\n.inputs 1\n%0 = input 5 : (1, 3, 0)\nout %0\n";
    exercise_verbs(source, &[]);
    let options = Options::new(TARGET.info().options, &[]).unwrap();
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    let file = File::new("x.dasm", source.to_vec());
    let read = TARGET.read(&[file], None, &*arch, &options, &mut Log::default()).unwrap();
    assert_eq!(read.time().unwrap_err().code(), "Q1002");
}

/// A file with an error in it is still one of this target, so that the error is shown.
#[test]
fn files_with_errors_are_recognised() {
    let recognises = |name: &str, bytes: &[u8]| TARGET.recognises(&File::new(name, bytes.to_vec()));
    let ports = "[[1,1],[0],[0],[0],[false]";
    let operation = "[0,-1,99,0,[0.0,1.0,1.0],0,0]";
    let alkaid = "[[],99,[],[0.0,1.0,1.0],0,0]";
    for text in [
        format!("{ports},[{operation}],-1,1,null]"),
        format!("{ports},[]"),
        format!(" [[{ports},[{operation}"),
        format!("{{\"model\":{ports},[{alkaid}],-1"),
        "{\"spec_version\":7,\"meta\":\"ALIRModel\"".to_owned(),
        "{\"meta\":\"ALIRFSM\",\"spec_version\":4,\"fsm\":{}}".to_owned(),
    ] {
        assert!(recognises("x", text.as_bytes()), "{text}");
        assert!(files::read_json(&text, true).is_err(), "{text}");
        assert!(recognises("x", &files::compress(&text).unwrap()), "{text}");
    }
    for text in [
        "[[1,2],[3,4],[5,6]]",
        "[[1,1],[0],[0],[0],[1],[2]]",
        "{\"model\":[1,2]}",
        "[[[[1,2]]]]",
        "[]",
        "",
    ] {
        assert!(!recognises("x", text.as_bytes()), "{text}");
    }
    let damaged = files::compress("[[1").unwrap();
    assert!(recognises("x.json.gz", &damaged[..12]));
    assert!(!recognises("x.gz", &damaged[..12]));
}

/// Chains whose factors are as long as the chain, forward and cancelled: linear forms are given up.
#[test]
fn sums_with_long_factors_take_no_time() {
    for operation in ["add %{a}, %{a} << 63", "sub %{a}, %{a} << 63", "add %{a}, %0 << -63"] {
        let mut source = String::from(".dais\n.inputs 1\n%0 = input 0 : (1, 3, 0)\n");
        for slot in 1..3000 {
            let body = operation.replace("{a}", &(slot - 1).to_string());
            source += &format!("%{slot} = {body} : (1, 3, 0)\n");
        }
        let program = text::read(&(source + "out %2999\n"), "x").unwrap().0;
        let _ = within_seconds(20, || verify(&program, &Rules::default()));
    }
}

fn words(list: &[i32]) -> Vec<u8> {
    list.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Headers that announce far more than the file holds are refused before anything is allocated.
#[test]
fn hostile_counts() {
    const MAX: i32 = i32::MAX;
    for header in [
        [1, 0, 0, 0, MAX, 0, 0, 0, 0, 0],
        [1, 0, MAX, MAX, MAX, MAX, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, MAX, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 2, MAX, MAX, 0, 0],
        [0, 0, MAX, 0, 0, 0, 0, 0, 0, 0],
        [MAX, MAX, MAX, 0, 0, 0, 0, 0, 0, 0],
        [2, 0, MAX, 0, 0, 0, 0, 0, 0, 0],
        [1, 0, -1, 0, 0, 0, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 1, -1, 0, 0, 0],
    ] {
        let bytes = words(&header);
        assert_eq!(bytes.len(), 40);
        for dialect in Dialect::ALL.into_iter().map(Some).chain([None]) {
            let result = binary::read(&bytes, &ReadOptions { dialect, lenient: true });
            assert!(result.is_err_and(|problems| any_error(&problems)), "{header:?}");
        }
    }
    for json in ["[[4000000000,1],[0]", "[[0,4000000000],[],[]", "[[1e9,0]", "[[-1,0],[]"] {
        assert!(files::read_json(json, true).is_err());
    }
    assert!(files::read_json(&"[".repeat(1_000_000), true).is_err());
    assert!(files::read_json(&"{\"a\":".repeat(1_000_000), true).is_err());
    for counts in [[u32::MAX; 4], [0, u32::MAX, 0, 0], [0, 0, u32::MAX, 0], [0, 0, 0, u32::MAX]] {
        let counts = counts.iter().flat_map(|count| count.to_le_bytes());
        let bytes: Vec<u8> =
            b"ALIR\x04\0\0\0".iter().copied().chain(counts).chain([0; 40]).collect();
        assert!(binary::read(&bytes, &ReadOptions::default()).is_err());
    }
    assert!(text::parse(".dais\n.inputs 4000000000\n", SourceId(0)).is_err());
    let stages = [".dais\n.inputs 1\n", ".stage\n.inputs 1048575\n"].concat();
    assert!(text::parse(&stages, SourceId(0)).is_ok());
    let problems = text::parse(&(stages + ".stage\n.inputs 1\n"), SourceId(0)).unwrap_err();
    assert_eq!(problems[0].message(), "the stages have 1048577 inputs, at most 1048576");
    assert!(text::parse("%4000000000000 = const 1 : (0, 1, 0)\n", SourceId(0)).is_err());
}

/// A file may hold 64 times its own length of text, or 2^20 bytes, or 2^28.
#[test]
fn decompression_bombs() {
    let zeros = "0".repeat(1 << 20);
    let mut short = files::compress(&zeros).unwrap();
    assert!(short.len() < 1 << 12);
    assert_eq!(files::decompress(&short).unwrap(), zeros);
    short.push(0);
    assert_eq!(files::decompress(&short).unwrap_err().code(), "Q1093", "something follows");
    for end in [0, 2, 9, 10, short.len() / 2] {
        assert!(files::decompress(&short[..end]).is_err());
    }
    let bomb = files::compress(&"0".repeat(1 << 28)).unwrap();
    let problem = files::decompress(&bomb).unwrap_err();
    let most = 64 * bomb.len();
    assert_eq!(problem.message(), format!("the file holds more than {most} bytes of text"));
    // Digits of a generator of numbers: what real text can be.
    let mut random = Random::new(1);
    let text: String = (0..1 << 19).map(|_| (random.below(1000) + 1000).to_string()).collect();
    assert_eq!(files::decompress(&files::compress(&text).unwrap()).unwrap(), text);
}

/// Sums of very many terms cost no more than their text.
#[test]
fn sums_of_any_length() {
    let terms = 10_000;
    let (addr, data) = (vec!["0"; terms].join(","), vec!["1,0"; terms].join(","));
    let json = format!(
        "{{\"model\":[[1,1],[0],[1],[0],[false],[[[],-1,[0],[0.0,1.0,1.0],0,0],\
         [[{addr}],11,[{data}],[0.0,16383.0,1.0],0,0]],-1,1,null],\"meta\":\"ALIRModel\",\
         \"spec_version\":4}}"
    );
    let program = files::read_json(&json, false).unwrap().pipeline.stages.remove(0);
    assert_eq!(program.operations.len(), 1 + terms / 2 + 1);
    assert_eq!(Executor::new(&program).unwrap().run(&[1.0]).unwrap(), [10_000.0]);
}

/// Squaring again and again: a value that would have 2^64 bits is refused while it is small.
#[test]
fn values_that_grow_without_bound() {
    let mut source = String::from(".dais\n.inputs 1\n%0 = input 0 : (1, 40, 20)\n");
    for slot in 1..64 {
        let operand = slot - 1;
        source += &format!("%{slot} = mul %{operand}, %{operand} : (1, 40, 20)\n");
    }
    source += "out %63\n";
    // The products keep 20 fraction bits, so that every squaring doubles the integer bits.
    let program = text::read(&source, "x").unwrap().0;
    let problem = Executor::new(&program).unwrap().run(&[1e9]).unwrap_err();
    assert_eq!(problem.code(), "Q1104");
}
