//! The prepared simulator gives what the executor gives.

use crate::common::random::program;
use crate::common::{FOLDERS, cases, read_binary, same};
use quincunx_dais::files::{self, Pipeline};
use quincunx_dais::isa::{BinaryBits, Inst, TABLE, UnaryBits};
use quincunx_dais::program::{
    InputIndex, LookupTable, Operation, Output, Program, Slot, SlotType, TableIndex,
};
use quincunx_dais::simulate::{Fast, PipelineExecutor};
use quincunx_num::{Kif, Level};
use quincunx_testkit::Random;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;

const ONE: NonZeroUsize = NonZeroUsize::MIN;

/// Every level gives the results of the executor on all samples, which it repeats to fill several
/// blocks, or the error of the first sample that has one.
fn check(name: &str, pipeline: &Pipeline, samples: &[Vec<f64>]) {
    let mut executor = PipelineExecutor::new(pipeline).unwrap();
    let expected = samples.iter().map(|sample| executor.run(sample)).collect::<Result<Vec<_>, _>>();
    let inputs = samples.concat();
    for level in Level::available() {
        let Some(fast) = Fast::with(pipeline, &[], level).unwrap() else {
            panic!("{name}: not prepared");
        };
        let found = fast.run(samples.len(), &inputs, ONE);
        match (&expected, found) {
            (Ok(expected), Ok(found)) => {
                let width = fast.outputs();
                assert_eq!(found.len(), expected.len() * width, "{name}");
                for (number, expected) in expected.iter().enumerate() {
                    let found = &found[number * width..][..width];
                    let level = level.name();
                    assert!(
                        same(found, expected),
                        "{name}, sample {number}, {level}: {found:?}, expected {expected:?}, \
                         inputs {:?}",
                        samples[number]
                    );
                }
            }
            (Err(expected), Err(found)) => assert_eq!(expected.to_string(), found.to_string()),
            (expected, found) => panic!("{name}: {found:?}, expected {expected:?}"),
        }
    }
}

/// All slots of a program as outputs, so that every operation is compared.
fn observed(mut program: Program) -> Pipeline {
    let slots = 0..program.operations.len() as u32;
    let all = slots.map(|slot| Output { source: Some(Slot(slot)), shift: 0, negate: false });
    program.outputs.extend(all);
    program.into()
}

#[test]
fn random_programs_at_every_level() {
    let mut seen = BTreeSet::new();
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let program = program(&mut random, 50);
        seen.extend(program.operations.iter().map(|operation| operation.inst.row()));
        let samples: Vec<Vec<f64>> = (0..70)
            .map(|_| program.input_shifts.iter().map(|_| random.float()).collect())
            .collect();
        check(&format!("seed {seed}"), &program.clone().into(), &samples);
        check(&format!("seed {seed}, every slot"), &observed(program), &samples);
    }
    assert_eq!(seen.len(), TABLE.rows.len(), "every instruction occurs");
}

#[test]
fn golden_programs_give_the_golden_outputs() {
    for case in cases(&FOLDERS) {
        let binary = read_binary(&case.file(".bin").unwrap()).program;
        let pipelines = case.pipelines().into_iter();
        let pipelines = pipelines.map(|(_, json)| files::read_json(&json, false).unwrap().pipeline);
        let programs = [case.program().into(), binary.into()].into_iter().chain(pipelines);
        for pipeline in programs {
            for level in Level::available() {
                let fast = Fast::with(&pipeline, &[], level).unwrap().unwrap();
                let found = fast.run(case.inputs.len(), &case.inputs.concat(), ONE).unwrap();
                assert!(same(&found, &case.outputs.concat()), "{}", case.name);
            }
        }
    }
}

#[test]
fn more_than_64_bits_are_left_to_the_executor() {
    let mut wide = one_input(operation(Inst::Input { source: InputIndex(0) }, false, 64, 0));
    assert!(Fast::new(&observed(wide.clone())).unwrap().is_none());
    wide.operations[0] = operation(Inst::Input { source: InputIndex(0) }, true, 63, 0);
    assert!(Fast::new(&observed(wide.clone())).unwrap().is_some());
    let sum = Inst::Add { a: Slot(0), b: Slot(0), shift: 1 };
    wide.operations.push(operation(sum, true, 64, 0));
    assert!(Fast::new(&observed(wide)).unwrap().is_none());
}

#[test]
fn inputs_far_outside_their_types_wrap() {
    let input = |index, kif: Kif| Operation {
        inst: Inst::Input { source: InputIndex(index) },
        slot_type: SlotType::Kif(kif),
        latency: 0.0,
        cost: 0.0,
    };
    for fraction in [-1000, -70, -40, -3, 0, 5, 40, 70, 900, 1100] {
        for (signed, width) in [(true, 1), (true, 7), (true, 16), (false, 15), (false, 16)]
            .into_iter()
            .chain([(true, 33), (false, 52), (true, 53), (true, 64), (false, 63)])
        {
            let kif = Kif::new(signed, width - i32::from(signed) - fraction, fraction);
            // A wide type far from 1 leaves the normal floats on the way out.
            if fraction.abs() > 900 {
                assert!(Fast::new(&observed(one_input(input(0, kif)))).unwrap().is_none());
                continue;
            }
            let numbers = [0.0, -0.0, 1.0, -1.0, 0.3, -0.3, 5e-324, -5e-324, 1e-310, -1e-310]
                .into_iter()
                .chain([f64::MAX, f64::MIN, f64::MIN_POSITIVE, -f64::MIN_POSITIVE, 1e19, -1e19])
                .chain((-80..80).map(|e| -1.1 * 2f64.powi(e)))
                .chain((-80..80).map(|e| 1.7 * 2f64.powi(e)))
                .chain((48..66).map(|e| 2f64.powi(e) - 1.0))
                .chain((48..66).map(|e| 1.0 - 2f64.powi(e)));
            let samples: Vec<Vec<f64>> = numbers.map(|number| vec![number]).collect();
            check(&format!("{kif}"), &observed(one_input(input(0, kif))), &samples);
        }
    }
}

fn one_input(operation: Operation) -> Program {
    Program { input_shifts: vec![0], operations: vec![operation], ..Program::default() }
}

fn operation(inst: Inst, signed: bool, width: i32, fraction: i32) -> Operation {
    let kif = Kif::new(signed, width - i32::from(signed) - fraction, fraction);
    Operation { inst, slot_type: SlotType::Kif(kif), latency: 0.0, cost: 0.0 }
}

/// Sums leave their declared types, products fill 64 bits, and widths lie around those of lanes.
#[test]
fn values_around_the_ends_of_lanes() {
    let mut random = Random::new(77);
    let mut prepared = 0;
    for seed in 0..400 {
        let [w, v] = [0, 1].map(|_| random.range(1, 31));
        let signed = random.below(2) == 1;
        let mut operations = vec![
            operation(Inst::Input { source: InputIndex(0) }, true, w, 0),
            operation(Inst::Input { source: InputIndex(1) }, signed, v, 0),
        ];
        for _ in 0..12 {
            let count = operations.len() as u64;
            let [a, b, c] = [0, 1, 2].map(|_| Slot(random.below(count) as u32));
            let shift = random.range(-2, 2);
            let inst = match random.below(12) {
                0 | 1 => Inst::Add { a, b, shift: shift.into() },
                2 | 3 => Inst::Sub { a, b, shift: shift.into() },
                4 => Inst::AddConstant { x: a, value: random.range(-70_000, 70_000).into() },
                5 => Inst::ReluNegated { x: a },
                6 => Inst::QuantiseNegated { x: a },
                7 => Inst::Bits { x: a, op: UnaryBits::Not },
                8 => Inst::BitsNegated { x: a, op: UnaryBits::All },
                9 => Inst::Bitwise {
                    a,
                    b,
                    shift,
                    negate_a: true,
                    negate_b: false,
                    op: BinaryBits::Xor,
                },
                10 => Inst::Mux { condition: c, when_set: a, when_clear: b, shift: 0 },
                _ => Inst::Quantise { x: a },
            };
            let width = [15, 16, 17, 31, 32, 33, 8, 1][random.below(8) as usize];
            operations.push(operation(inst, random.below(2) == 1, width, 0));
        }
        let program = Program { input_shifts: vec![0, 0], operations, ..Program::default() };
        let samples: Vec<Vec<f64>> = (0..40)
            .map(|_| vec![random.float() * 1e4, [1e9, -1e9, 3.0][random.below(3) as usize]])
            .collect();
        let pipeline = observed(program);
        if Fast::new(&pipeline).unwrap().is_some() {
            check(&format!("number {seed}"), &pipeline, &samples);
            prepared += 1;
        }
    }
    assert!(prepared > 300, "{prepared}");
}

/// A table of three entries, read with whatever comes.
fn looks_up() -> Pipeline {
    let table =
        LookupTable { values: vec![7, -8, 9], range: None, operand_width: None, hash: None };
    let x = Slot(0);
    let operations = vec![
        operation(Inst::Input { source: InputIndex(0) }, true, 6, 0),
        operation(Inst::Lookup { x, table: TableIndex(0), pad: 31 }, true, 5, 0),
    ];
    let outputs = vec![Output { source: Some(x), shift: 0, negate: true }];
    Program {
        input_shifts: vec![0, 3],
        tables: vec![table],
        operations,
        outputs,
        ..Program::default()
    }
    .into()
}

#[test]
fn faults_are_those_of_the_executor() {
    let pipeline = looks_up();
    let good = vec![vec![-1.0, 0.0], vec![0.0, 1.0], vec![1.0, 2.0]];
    check("in the table", &pipeline, &good);
    check("samples do not fill a line", &pipeline, &good[2..]);
    // The lookup's result is not read; that it fails counts all the same.
    let mut bad: Vec<Vec<f64>> = good.iter().cycle().take(5000).cloned().collect();
    bad[4711] = vec![5.0, 0.0];
    bad[4900] = vec![-9.0, 0.0];
    let inputs = bad.concat();
    let fast = Fast::new(&pipeline).unwrap().unwrap();
    for threads in 1..4 {
        let threads = NonZeroUsize::new(threads).unwrap();
        let problem = fast.run(5000, &inputs, threads).unwrap_err();
        assert_eq!(problem.code(), "Q1103");
        assert!(problem.message().contains("entry 6 "), "{problem}");
    }
    // The second input is read by nobody.
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        check("no number", &pipeline, &[vec![0.0, 1.0], vec![0.0, number]]);
    }
    assert_eq!(fast.run(2, &[0.0; 3], ONE).unwrap_err().code(), "Q1101");
    assert!(fast.run(0, &[], ONE).unwrap().is_empty());
}

#[test]
fn results_do_not_depend_on_threads() {
    let mut random = Random::new(5);
    for _ in 0..10 {
        let program = program(&mut random, 40);
        let samples = 3000;
        let count = samples * program.input_shifts.len();
        let inputs: Vec<f64> = (0..count).map(|_| random.float()).collect();
        let fast = Fast::new(&program.into()).unwrap().unwrap();
        let one = fast.run(samples, &inputs, ONE).unwrap();
        for threads in [2, 3, 7] {
            let threads = NonZeroUsize::new(threads).unwrap();
            assert!(same(&fast.run(samples, &inputs, threads).unwrap(), &one));
        }
    }
}

#[test]
fn programs_without_inputs_or_outputs() {
    let constant = operation(Inst::Constant { value: -3 }, true, 4, 1);
    let outputs = vec![
        Output { source: Some(Slot(0)), shift: 2, negate: true },
        Output { source: None, shift: 0, negate: true },
    ];
    let program = Program { operations: vec![constant], outputs, ..Program::default() };
    let fast = Fast::new(&program.into()).unwrap().unwrap();
    assert!(same(&fast.run(3, &[], ONE).unwrap(), &[6.0, 0.0, 6.0, 0.0, 6.0, 0.0]));
    let nothing = Fast::new(&Program::default().into()).unwrap().unwrap();
    assert!(nothing.run(5, &[], ONE).unwrap().is_empty());
}
