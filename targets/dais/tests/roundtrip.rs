//! Random programs survive every form, and run without leaving their types.

mod common;

use common::random::{Random, program};
use quincunx_dais::binary::{self, Dialect, ReadOptions};
use quincunx_dais::files;
use quincunx_dais::isa::TABLE;
use quincunx_dais::program::{Program, SlotType};
use quincunx_dais::simulate::Executor;
use quincunx_dais::text;
use quincunx_dais::verify::{Rules, verify};
use quincunx_isa::Coverage;

const PROGRAMS: u64 = 400;

fn programs() -> impl Iterator<Item = (u64, Program)> {
    (0..PROGRAMS).map(|seed| (seed, program(&mut Random(seed), 40)))
}

#[test]
fn random_programs_break_no_rule_and_reach_every_instruction() {
    let mut coverage = Coverage::new(&TABLE);
    for (seed, program) in programs() {
        assert_eq!(verify(&program, &Rules::default()), [], "seed {seed}");
        program.operations.iter().for_each(|operation| coverage.mark(operation.inst.row()));
    }
    assert_eq!(coverage.missing(), Vec::<&str>::new());
}

#[test]
fn random_programs_never_leave_their_types() {
    for (seed, program) in programs() {
        let mut executor = Executor::new(&program).unwrap();
        let mut random = Random(seed);
        for _ in 0..8 {
            let inputs: Vec<f64> = program.input_shifts.iter().map(|_| random.float()).collect();
            let outputs = executor.run_strict(&inputs).unwrap();
            assert_eq!(outputs, executor.run(&inputs).unwrap(), "seed {seed}");
        }
    }
}

#[test]
fn text_is_lossless() {
    for (seed, program) in programs() {
        let printed = text::print(&program);
        assert!(text::recognises(&printed));
        assert_eq!(text::read(&printed, "x").unwrap().0, program, "seed {seed}:\n{printed}");
    }
}

/// What a program is once the binary has forgotten what it has no room for.
fn in_binary(program: &Program) -> Program {
    let mut program = program.clone();
    for operation in &mut program.operations {
        operation.slot_type = SlotType::Kif(operation.slot_type.kif());
        (operation.latency, operation.cost) = (0.0, 0.0);
    }
    for table in &mut program.tables {
        (table.range, table.operand_width, table.hash) = (None, None, None);
    }
    program
}

#[test]
fn binaries_keep_what_they_hold() {
    for (seed, program) in programs() {
        for dialect in Dialect::ALL {
            let Ok(bytes) = binary::write(&program, dialect) else {
                let missing = |o: &quincunx_dais::program::Operation| !dialect.has(o.inst);
                assert!(dialect != Dialect::D1 && program.operations.iter().any(missing));
                continue;
            };
            let options = ReadOptions { dialect: Some(dialect), lenient: false };
            let read = binary::read(&bytes, &options).unwrap();
            assert_eq!((read.dialect, read.warnings.len()), (dialect, 0));
            assert_eq!(read.program, in_binary(&program), "seed {seed}, {}", dialect.name());
            assert_eq!(binary::write(&read.program, dialect).unwrap(), bytes);
        }
    }
}

#[test]
fn json_means_the_same() {
    for (seed, program) in programs() {
        let json = files::write_json(&program).unwrap();
        let read = files::read_json(&json, false).unwrap().pipeline.stages.remove(0);
        assert_eq!(files::write_json(&read).unwrap(), json, "seed {seed}");
        assert_eq!(in_binary(&read), in_binary(&program), "seed {seed}");
    }
}
