//! Random programs survive every form, and run without leaving their types.

use crate::common::random::{program, program_in};
use quincunx_dais::binary::{self, Dialect, ReadOptions};
use quincunx_dais::files;
use quincunx_dais::files::packed;
use quincunx_dais::isa::{Inst, TABLE, layout};
use quincunx_dais::program::{Operation, Pipeline, Program, SlotType};
use quincunx_dais::simulate::Executor;
use quincunx_dais::text;
use quincunx_dais::verify::{Rules, verify};
use quincunx_dais::words;
use quincunx_isa::Coverage;
use quincunx_testkit::Random;

const PROGRAMS: u64 = 400;

fn programs() -> impl Iterator<Item = (u64, Program)> {
    (0..PROGRAMS).map(|seed| (seed, program(&mut Random::new(seed), 40)))
}

/// Programs with the instructions of one dialect.
fn programs_in(dialect: Dialect) -> impl Iterator<Item = (u64, Program)> {
    (0..PROGRAMS).map(move |seed| (seed, program_in(&mut Random::new(seed), 40, dialect)))
}

#[test]
fn random_programs_break_no_rule_and_reach_every_instruction() {
    let mut coverage = Coverage::new(&TABLE);
    for (seed, program) in programs() {
        let mut problems = verify(&program, &Rules::default());
        problems.retain(|problem| !["Q1037", "Q1039"].contains(&problem.code()));
        assert_eq!(problems, [], "seed {seed}");
        program.operations.iter().for_each(|operation| coverage.mark(operation.inst.row()));
    }
    assert_eq!(coverage.missing(), Vec::<&str>::new());
}

#[test]
fn random_programs_never_leave_their_types() {
    for (seed, program) in programs() {
        let mut executor = Executor::new(&program).unwrap();
        let mut random = Random::new(seed);
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

#[test]
fn packed_files_are_lossless() {
    for (seed, program) in programs() {
        let pipeline = Pipeline { stages: vec![program.clone(), program] };
        let bytes = packed::write(&pipeline);
        assert_eq!(packed::read(&bytes).unwrap(), pipeline, "seed {seed}");
        assert_eq!(packed::read(&bytes[..bytes.len() - 1]).unwrap_err()[0].code(), "Q1070");
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

/// What has a simpler form: a shift of 0, a constant in the scale of the result.
fn simplify(operation: &mut Operation) {
    operation.inst = match operation.inst {
        Inst::QuantiseShifted { x, shift: 0 } => Inst::Quantise { x },
        Inst::AddScaled { x, value, scale } if scale == operation.slot_type.kif().fraction => {
            Inst::AddConstant { x, value }
        }
        inst => inst,
    };
}

#[test]
fn binaries_keep_what_they_hold() {
    for dialect in Dialect::ALL {
        let mut coverage = Coverage::new(&TABLE);
        for (seed, program) in programs_in(dialect) {
            program.operations.iter().for_each(|operation| coverage.mark(operation.inst.row()));
            let bytes = binary::write(&program, dialect).unwrap();
            let options = ReadOptions { dialect: Some(dialect), lenient: false };
            let read = binary::read(&bytes, &options).unwrap();
            assert_eq!((read.dialect, read.warnings.len()), (dialect, 0));
            let mut expected = in_binary(&program);
            if dialect == Dialect::A4 {
                expected.operations.iter_mut().for_each(simplify);
            }
            assert_eq!(read.program, expected, "seed {seed}, {}", dialect.name());
            assert_eq!(binary::write(&read.program, dialect).unwrap(), bytes);
        }
        // Every instruction of the dialect occurred.
        let mut random = Random::new(1);
        for name in coverage.missing() {
            let row = TABLE.rows.iter().position(|row| row.name == name).unwrap();
            let raw = TABLE.random_of(row, &mut |n| random.below(n), layout());
            assert!(!dialect.has(Inst::from_raw(&raw).unwrap()), "{name} in {}", dialect.name());
        }
    }
}

#[test]
fn instructions_of_other_dialects_are_refused() {
    for (_, program) in programs().take(50) {
        for dialect in Dialect::ALL {
            let foreign = program.operations.iter().any(|operation| !dialect.has(operation.inst));
            let problem = binary::write(&program, dialect).err();
            // A table without its instruction is refused first.
            let code = problem.as_ref().map(|p| p.code());
            assert_eq!(code.is_some(), foreign);
            assert!(matches!(code, None | Some("Q1005" | "Q1057")), "{code:?}");
        }
        let foreign = program.operations.iter().any(|o| !Dialect::D1.has(o.inst));
        assert_eq!(files::write_json(&program).is_err(), foreign);
    }
}

#[test]
fn json_means_the_same() {
    for (seed, program) in programs_in(Dialect::D1) {
        let json = files::write_json(&program).unwrap();
        let read = files::read_json(&json, false).unwrap().pipeline.stages.remove(0);
        assert_eq!(files::write_json(&read).unwrap(), json, "seed {seed}");
        assert_eq!(in_binary(&read), in_binary(&program), "seed {seed}");
    }
}

#[test]
fn words_are_the_machine_code() {
    for dialect in [Dialect::D0, Dialect::D0Doc, Dialect::D1Version0, Dialect::D1] {
        for (seed, program) in programs_in(dialect).take(40) {
            let list = words::to_words(&program, dialect).unwrap();
            let bytes: Vec<u8> = list.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(bytes, binary::write(&program, dialect).unwrap());
            assert_eq!(words::from_words(&list, Some(dialect)).unwrap(), in_binary(&program));
            let mut interpreter = words::Interpreter::in_dialect(&list, Some(dialect)).unwrap();
            let mut executor = Executor::new(&program).unwrap();
            let mut random = Random::new(seed);
            let inputs: Vec<f64> = (0..3 * interpreter.inputs()).map(|_| random.float()).collect();
            let expected: Vec<f64> = inputs
                .chunks_exact(interpreter.inputs())
                .flat_map(|sample| executor.run(sample).unwrap())
                .collect();
            assert_eq!(interpreter.run_batch(&inputs).unwrap(), expected);
            assert_eq!(interpreter.slots(), executor.slots());
            let problem = interpreter.run_batch(&vec![0.0; interpreter.inputs() + 1]);
            assert_eq!(problem.is_err(), interpreter.inputs() > 1);
        }
    }
    let empty = Program::default();
    assert_eq!(words::to_words(&empty, Dialect::A4).unwrap_err().code(), "Q1058");
    assert_eq!(words::from_words(&[1], Some(Dialect::A4)).unwrap_err()[0].code(), "Q1058");
    // "ALIR", version 4, and nothing: byte code, not words.
    let byte_code = [i32::from_le_bytes(*b"ALIR"), 4, 0, 0, 0, 0];
    assert_eq!(words::from_words(&byte_code, None).unwrap_err()[0].code(), "Q1058");
}
