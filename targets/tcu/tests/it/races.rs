//! The rule about races against its definition, pair by pair, and with queues as deep as they get.

use crate::common::random::{legal_step, rows, small};
use quincunx_diag::Place;
use quincunx_tcu::TcuArch;
use quincunx_tcu::arch::DataType;
use quincunx_tcu::isa::Inst;
use quincunx_tcu::program::{Effects, Program, Step};
use quincunx_tcu::time::{costs, sequence};
use quincunx_tcu::verify::races;
use quincunx_testkit::Random;
use quincunx_testkit::within_seconds;

fn conflict(a: &Effects, b: &Effects) -> bool {
    let meet = |left: &[_], right: &[_]| {
        let left: &[quincunx_tcu::program::Span] = left;
        left.iter().any(|span| right.iter().any(|other| span.meets(other)))
    };
    a.state_writes & (b.state_reads | b.state_writes) != 0
        || a.state_reads & b.state_writes != 0
        || meet(&a.writes, &b.reads)
        || meet(&a.writes, &b.writes)
        || meet(&a.reads, &b.writes)
}

/// Every instruction that races, with the latest one that it races with.
fn by_definition(program: &Program) -> Vec<(usize, usize)> {
    let intervals = sequence(program, &costs(program, false)).intervals;
    let effects: Vec<Effects> =
        program.steps.iter().map(|step| step.inst.effects(&program.arch)).collect();
    let races_with = |index: usize| {
        (0..index).rev().find(|&earlier| {
            program.steps[earlier].tid != program.steps[index].tid
                && intervals[earlier].end > intervals[index].start
                && conflict(&effects[earlier], &effects[index])
        })
    };
    (0..program.steps.len()).filter_map(|index| Some((index, races_with(index)?))).collect()
}

#[test]
fn races_are_found_as_defined() {
    let (mut racing, mut clean) = (0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let arch = TcuArch {
            thread_queue_depth: random.pick(&[0, 2, 9, 65_536]),
            local_depth: 200,
            accumulator_depth: 150,
            dram0_depth: 300,
            ..small(DataType::FP16BP8, 2)
        };
        let rows = rows(&arch);
        let length = 2 + random.below(30);
        let steps = (0..length).map(|_| {
            let row = random.pick(&rows);
            legal_step(&mut random, &arch, row)
        });
        let program = Program { steps: steps.collect(), arch };
        let found: Vec<(usize, usize)> = races(&program)
            .iter()
            .map(|problem| {
                assert_eq!(problem.code(), "Q3052");
                let Some(&Place::Instruction(index)) = problem.place() else { panic!() };
                let words = problem.message().split(' ');
                (index, words.filter_map(|word| word.parse().ok()).next().unwrap())
            })
            .collect();
        let expected = by_definition(&program);
        assert_eq!(found, expected, "seed {seed}");
        racing += expected.len();
        clean += usize::from(expected.is_empty());
    }
    assert!(racing > 500 && clean > 20, "{racing} {clean}");
}

fn deep(steps: Vec<Step>) -> Program {
    let arch = TcuArch {
        number_of_threads: 2,
        thread_queue_depth: 65_536,
        ..TcuArch::preset("pynqz1").unwrap()
    };
    Program { arch, steps }
}

fn to_local(tid: u8, local: u32, local_stride: u32, size: u32) -> Step {
    Step { tid, inst: Inst::Dram0ToLocal { local, local_stride, address: 0, stride: 0, size } }
}

/// With every instruction compared with everything in the queue these would be billions of
/// comparisons.
#[test]
fn deep_queues_take_no_longer() {
    let mut steps = Vec::new();
    for index in 0..130_000 {
        let tid = (index % 2) as u8;
        // The threads share nothing, and thread 0 is far slower.
        let (size, half) = if tid == 0 { (63, 0) } else { (0, 4096) };
        steps.push(to_local(tid, half + index / 2 % 4000, 0, size));
    }
    let mut program = deep(steps);
    assert_eq!(within_seconds(10, || races(&program)), []);
    // One instruction of thread 1 reaches what thread 0 has not done yet.
    program.steps[129_999] = to_local(1, 3990, 0, 0);
    let found = within_seconds(10, || races(&program));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].place(), Some(&Place::Instruction(129_999)));
}

/// Vectors that lie apart are looked at one by one, so there is a bound, and it is said.
#[test]
fn too_many_vectors_that_lie_apart_are_refused() {
    let steps = (0..20_000).map(|index| {
        let tid = (index % 2) as u8;
        to_local(tid, u32::from(tid), 1, 4094)
    });
    let found = races(&deep(steps.collect()));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].code(), "Q3056");
    assert!(found[0].is_error() && found[0].help_text().is_some());
}
