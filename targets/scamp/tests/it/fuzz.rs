//! Arbitrary and damaged files: no reader panics, and what a reader accepts can be verified, fixed,
//! written and run without a panic.

use crate::common::{Random, golden_text, kernel_programs, random_program, scamp5};
use proptest::prelude::*;
use quincunx_contract::{Arch, ArchSource};
use quincunx_diag::{SourceId, any_error};
use quincunx_scamp::ScampArch;
use quincunx_scamp::files::{read_kernels, to_graph};
use quincunx_scamp::fix::fix;
use quincunx_scamp::isa::Class;
use quincunx_scamp::program::Program;
use quincunx_scamp::simulate::{Executor, Settings};
use quincunx_scamp::symbolic::{Level, computed};
use quincunx_scamp::text::{self, Dialect, print};
use quincunx_scamp::time::{Model, timeline};
use quincunx_scamp::verify::verify;
use quincunx_testkit::damaged_text;

/// Everything that can be done with a program that the reader has accepted.
fn exercise(program: &Program) {
    let arch = scamp5();
    let problems = verify(program, &arch);
    let (fixed, _) = fix(program, &arch);
    let _ = verify(&fixed, &arch);
    for dialect in [Dialect::Cain, Dialect::Cpp("f".to_owned())] {
        let printed = print(program, &dialect).unwrap();
        assert_eq!(&text::parse(&printed, SourceId(0)).unwrap(), program, "{printed}");
    }
    let jss = print(program, &Dialect::Jss("s".to_owned())).unwrap();
    if program.instructions.iter().all(|inst| inst.class() != Class::Frame) {
        assert_eq!(&text::parse(&jss, SourceId(0)).unwrap(), program, "{jss}");
    }
    let listing = print(program, &Dialect::Bus).unwrap();
    assert_eq!(text::parse(&listing, SourceId(0)).unwrap(), program.expanded());
    let _ = print(program, &Dialect::Csim);
    for level in [Level::Bus, Level::Meaning] {
        if let Ok(list) = computed(program, level, &scamp5()) {
            list.iter().for_each(|computed| drop(computed.describe()));
        }
    }
    let _ = timeline(program, &[], Model::Device, &arch);
    if !any_error(&problems) {
        let executor = Executor::new(program, &arch, 3, 3, Settings::default()).unwrap();
        executor.run(&[]).unwrap();
    }
}

fn read_text(source: &str) {
    let _ = text::recognises(source);
    match text::parse(source, SourceId(0)) {
        Ok(program) => exercise(&program),
        Err(problems) => assert!(any_error(&problems)),
    }
}

fn read_json(source: &str) {
    match read_kernels(source) {
        Ok(file) => {
            let (depth, _) = file.approximation();
            if let Ok(bag) = file.goals(depth) {
                let _ = bag.compact();
                bag.0.iter().for_each(|goal| drop(goal.atoms(100)));
            }
            if let Ok(graph) = to_graph(&file, 4, 4) {
                assert!(graph.verify().is_empty());
            }
        }
        Err(problem) => assert!(problem.is_error()),
    }
}

fn read_arch(source: &str) {
    let text = |text: &str| ArchSource::Text { name: "x".to_owned(), text: text.to_owned() };
    if let Ok(arch) = ScampArch::from_source(&text(source)) {
        assert_eq!(ScampArch::from_source(&text(&arch.to_file())).unwrap(), arch);
    }
}

/// Some characters become others that mean something in these languages.
fn damaged(text: &str, random: &mut Random) -> String {
    damaged_text(text, "0123456789-.,:;[](){}/*\"#\\ \nABNXEeastx", random)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        read_text(&text);
        read_json(&text);
        read_arch(&text);
    }

    /// Pieces of the language in any order.
    #[test]
    fn arbitrary_words(words in prop::collection::vec(0_usize..24, 0..40)) {
        const WORDS: [&str; 24] = [
            "add(", "A", ", ", "B", ")", "; ", "/*", "*/", "//", "\n", "s.", "north", "NEWS",
            "scamp5_kernel_begin()", "scamp5_kernel_end()", "NOT(", "R5", "bus(", "XE", "0x1f", "(",
            "R[x]", "Inputs in: [A]", "Null Instruction: [] <- [B]",
        ];
        read_text(&words.iter().map(|&index| WORDS[index]).collect::<String>());
    }

    #[test]
    fn damaged_programs(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let program = random_program(6, &mut random);
        exercise(&program);
        let dialects =
            [Dialect::Cain, Dialect::Jss("s".to_owned()), Dialect::Cpp("f".to_owned()), Dialect::Bus];
        let dialect = &dialects[random.below(4) as usize];
        read_text(&damaged(&print(&program, dialect).unwrap(), &mut random));
    }

    #[test]
    fn damaged_files(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let names = ["gauss5_3", "analognet2", "box2", "rand4_1"];
        let name = names[random.below(4) as usize];
        read_json(&damaged(&golden_text(&format!("cain_inputs/{name}.json")), &mut random));
        read_arch(&damaged(&scamp5().to_file(), &mut random));
    }
}

#[test]
fn golden_programs() {
    kernel_programs().iter().for_each(|(_, program)| exercise(program));
}

/// Texts made to be hostile are refused or read at once.
#[test]
fn hostile_texts() {
    let many = 200_000;
    for source in [
        "(".repeat(many),
        "/*".repeat(many),
        "/**/".repeat(many),
        format!("{}{}", "/*".repeat(many), "*/".repeat(many - 1)),
        "//\n".repeat(many),
        "s.".repeat(many),
        "A ".repeat(many) + "(",
        "res(A);".repeat(many),
        "addx(A,A,B,east);addx(B,B,A,north);".repeat(many / 4),
        format!("/*Inputs in: [{}]*/ res(A);", "A, ".repeat(many)),
        format!("add({}", "A,".repeat(many)),
    ] {
        if let Ok(program) = text::parse(&source, SourceId(0)) {
            let _ = verify(&program, &scamp5());
            let _ = computed(&program, Level::Bus, &scamp5());
            let _ = print(&program, &Dialect::Bus);
        }
    }
    for source in [
        "[".repeat(many),
        "{\"filter\":".repeat(many),
        golden_text("cain_inputs/box2.json")
            .replace("\"maxApproximationDepth\": 6", "\"maxApproximationDepth\": 4000000000"),
        golden_text("cain_inputs/box2.json").replace("\"depth\": 0", "\"depth\": 2000000000"),
        golden_text("cain_inputs/box2.json").replace("\"depth\": 0", "\"scale\": 1e300"),
    ] {
        read_json(&source);
    }
    read_arch("name = \"x\"\nwidth = 18446744073709551615\n");
}
