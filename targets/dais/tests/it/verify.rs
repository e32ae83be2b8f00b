//! Every legality rule has a program that breaks it and no other.

use quincunx_dais::binary::{self, Dialect, ReadOptions};
use quincunx_dais::files::{self, Pipeline};
use quincunx_dais::isa::{BinaryBits, Inst, UnaryBits};
use quincunx_dais::program::{
    InputIndex, LookupTable, Operation, Output, Program, Slot, SlotType, TableIndex,
};
use quincunx_dais::simulate::Executor;
use quincunx_dais::verify::{Rules, verify, verify_pipeline};
use quincunx_diag::{Place, Severity, any_error};
use quincunx_num::Kif;

const X: Slot = Slot(0);
const Y: Slot = Slot(1);

fn operation(inst: Inst, signed: bool, integer: i32, fraction: i32) -> Operation {
    let slot_type = SlotType::Kif(Kif::new(signed, integer, fraction));
    Operation { inst, slot_type, latency: 0.0, cost: 0.0 }
}

/// Two inputs of type (1, 3, 2), a table of 64 entries, and one output that reads slot 1.
fn base() -> Program {
    let input = |index| Inst::Input { source: InputIndex(index) };
    Program {
        input_shifts: vec![0, 0],
        outputs: vec![Output { source: Some(Y), shift: 0, negate: false }],
        operations: vec![operation(input(0), true, 3, 2), operation(input(1), true, 3, 2)],
        tables: vec![LookupTable {
            values: (0..64).collect(),
            range: None,
            operand_width: None,
            hash: None,
        }],
        ..Program::default()
    }
}

/// The base with one more operation.
fn with(inst: Inst, signed: bool, integer: i32, fraction: i32) -> Program {
    let mut program = base();
    program.operations.push(operation(inst, signed, integer, fraction));
    program.outputs.push(Output { source: Some(Slot(2)), shift: 0, negate: false });
    program
}

fn with_interval(min: f64, max: f64, step: f64) -> Program {
    let mut program = with(Inst::Quantise { x: X }, true, 3, 2);
    program.operations[2].slot_type = SlotType::Interval { min, max, step };
    program
}

fn expect(program: &Program, code: &str, severity: Severity) {
    let found = verify(program, &Rules::default());
    let codes: Vec<_> = found.iter().map(|problem| (problem.code(), problem.severity())).collect();
    assert_eq!(codes, [(code, severity)], "{found:?}");
    assert_eq!(Executor::new(program).is_err(), severity == Severity::Error);
}

fn expect_error(program: &Program, code: &str) {
    expect(program, code, Severity::Error);
}

fn expect_warning(program: &Program, code: &str) {
    expect(program, code, Severity::Warning);
}

#[test]
fn the_base_is_legal() {
    assert_eq!(verify(&base(), &Rules::default()), []);
}

#[test]
fn q1001_operations_read_earlier_slots() {
    let program = with(Inst::Add { a: X, b: Slot(2), shift: 0 }, true, 5, 2);
    expect_error(&program, "Q1001");
    let found = verify(&program, &Rules::default());
    assert_eq!(found[0].place(), Some(&Place::Instruction(2)));
    let condition = Slot(7);
    let mux = Inst::Mux { condition, when_set: X, when_clear: Y, shift: 0 };
    expect_error(&with(mux, true, 3, 2), "Q1001");
}

#[test]
fn q1002_to_q1004_what_is_named_exists() {
    expect_error(&with(Inst::Input { source: InputIndex(2) }, true, 3, 2), "Q1002");
    let lookup = Inst::Lookup { x: X, table: TableIndex(1), pad: 0 };
    expect_error(&with(lookup, false, 6, 0), "Q1003");
    let mut program = base();
    program.outputs[0].source = Some(Slot(2));
    expect_error(&program, "Q1004");
}

#[test]
fn q1005_the_dialect_has_the_instruction() {
    for (inst, first) in [
        (Inst::Multiply { a: X, b: Y }, Dialect::D0),
        (Inst::Lookup { x: X, table: TableIndex(0), pad: 0 }, Dialect::D1Version0),
        (Inst::Bits { x: X, op: UnaryBits::Any }, Dialect::D1),
    ] {
        let mut program = with(inst, true, 9, 4);
        for dialect in Dialect::ALL {
            let rules = Rules { dialect: Some(dialect), ..Rules::default() };
            let found = verify(&program, &rules);
            assert_eq!(found.iter().any(|p| p.code() == "Q1005"), dialect < first);
            assert_eq!(any_error(&found), dialect < first);
            if dialect < Dialect::D1Version0 {
                program.tables.clear();
            }
            assert_eq!(binary::write(&program, dialect).is_err(), dialect < first);
            program.tables = base().tables;
        }
    }
}

#[test]
fn q1010_to_q1012_intervals() {
    for step in [0.3, 0.0, -1.0, f64::NAN, f64::INFINITY] {
        expect_error(&with_interval(-1.0, 1.0, step), "Q1010");
    }
    expect_error(&with_interval(1.0, -1.0, 0.5), "Q1011");
    expect_error(&with_interval(f64::NEG_INFINITY, 1.0, 0.5), "Q1011");
    expect_error(&with_interval(-1.0, f64::NAN, 0.5), "Q1011");
    expect_error(&with_interval(-1.25, 1.0, 0.5), "Q1012");
    expect_error(&with_interval(-1.0, 1.25, 0.5), "Q1012");
    for step in [f64::INFINITY, 0.3, f64::NAN] {
        assert_eq!(verify(&with_interval(0.0, -0.0, step), &Rules::default()), []);
    }
    assert_eq!(verify(&with_interval(-1.0, 1.0, 0.5), &Rules::default()), []);
}

#[test]
fn q1013_types_are_not_wider_than_the_limit() {
    assert_eq!(verify(&with(Inst::Quantise { x: X }, true, 61, 2), &Rules::default()), []);
    let wide = with(Inst::Quantise { x: X }, true, 62, 2);
    let found = verify(&wide, &Rules::default());
    assert_eq!(found.iter().map(|p| p.code()).collect::<Vec<_>>(), ["Q1013"]);
    assert!(found[0].is_error());
    assert!(Executor::new(&wide).is_ok(), "the executor runs wider types");
    expect_error(&with(Inst::Quantise { x: X }, false, 4096, 2), "Q1013");
}

#[test]
fn q1014_and_q1015_absurd_types() {
    expect_error(&with(Inst::Quantise { x: X }, true, i32::MAX, i32::MAX), "Q1014");
    expect_error(&with(Inst::Quantise { x: X }, true, i32::MAX, i32::MIN), "Q1014");
    expect_error(&with(Inst::Quantise { x: X }, true, -5000, 5001), "Q1014");
    expect_warning(&with(Inst::Quantise { x: X }, false, -4, 2), "Q1015");
}

#[test]
fn q1020_shifts() {
    let legal = Inst::Add { a: X, b: Y, shift: 56 };
    assert_eq!(verify(&with(legal, true, 60, 2), &Rules::default()), []);
    for shift in [64, -64, i64::MAX, i64::MIN] {
        expect_error(&with(Inst::Sub { a: X, b: Y, shift }, true, 60, 2), "Q1020");
        expect_error(&with(Inst::QuantiseShifted { x: X, shift }, true, 60, 2), "Q1020");
    }
    let (negate_a, negate_b, op) = (false, true, BinaryBits::And);
    let bitwise = Inst::Bitwise { a: X, b: Y, shift: 64, negate_a, negate_b, op };
    expect_error(&with(bitwise, true, 60, 2), "Q1020");
    let mut program = base();
    program.input_shifts[1] = -128;
    expect_error(&program, "Q1020");
    let mut program = base();
    program.outputs[0].shift = 128;
    expect_error(&program, "Q1020");
}

#[test]
fn q1021_branches_of_a_mux() {
    let mux = |shift| Inst::Mux { condition: X, when_set: X, when_clear: Y, shift };
    for (shift, fraction) in [(0, 2), (3, 2), (-1, 3)] {
        assert_eq!(verify(&with(mux(shift), true, 3, fraction), &Rules::default()), []);
    }
    // To the right, both to the left, the branch for a set bit to the right.
    for (shift, fraction) in [(-1, 2), (0, 3), (1, 1)] {
        expect_error(&with(mux(shift), true, 3, fraction), "Q1021");
    }
    // A branch without bits is 0, whatever its step: da4ml gives it one of 1.
    for (zero, shift, fraction) in [(0, 0, 3), (1, 0, 3), (1, 5, 2), (1, -4, 2)] {
        let mut program = with(mux(shift), true, 3, fraction);
        program.operations[zero].slot_type = SlotType::Interval { min: 0.0, max: 0.0, step: 1.0 };
        assert_eq!(verify(&program, &Rules { values: false, ..Rules::default() }), []);
    }
}

#[test]
fn q1022_tables_have_an_entry_for_every_value() {
    let lookup = |pad| with(Inst::Lookup { x: X, table: TableIndex(0), pad }, false, 6, 0);
    assert_eq!(verify(&lookup(0), &Rules::default()), []);
    let interval = |pad, max| {
        let mut program = lookup(pad);
        program.operations[0].slot_type = SlotType::Interval { min: -8.0, max, step: 0.25 };
        program
    };
    assert_eq!(verify(&interval(0, 7.75), &Rules::default()), []);
    expect_error(&interval(1, 7.75), "Q1022");
    expect_error(&interval(-1, 7.75), "Q1022");
    // The bits of a type say less: it may hold fewer values than it could.
    let codes: Vec<_> = verify(&lookup(3), &Rules::default()).iter().map(|p| p.code()).collect();
    assert_eq!(codes, ["Q1039"]);
    expect_error(&lookup(64), "Q1022");
    expect_error(&lookup(-64), "Q1022");
    let mut program = lookup(0);
    program.tables[0].values.clear();
    expect_error(&program, "Q1022");
}

#[test]
fn q1030_to_q1035_what_no_tracer_writes() {
    for inst in [Inst::Relu { x: X }, Inst::ReluNegated { x: X }, Inst::Quantise { x: X }] {
        expect_warning(&with(inst, true, 3, 3), "Q1030");
        assert_eq!(verify(&with(inst, true, 3, 1), &Rules::default()), []);
    }
    expect_warning(&with(Inst::AddConstant { x: X, value: 1 }, true, 4, 1), "Q1031");
    expect_warning(&with(Inst::Multiply { a: X, b: Y }, true, 7, 3), "Q1032");
    expect_warning(&with(Inst::Bits { x: X, op: UnaryBits::Not }, true, 4, 1), "Q1033");
    let (negate_a, negate_b, op) = (false, false, BinaryBits::Or);
    let bitwise = Inst::Bitwise { a: X, b: Y, shift: -1, negate_a, negate_b, op };
    assert_eq!(verify(&with(bitwise, true, 3, 3), &Rules::default()), []);
    expect_warning(&with(bitwise, true, 5, 2), "Q1033");
    expect_warning(&with(Inst::Constant { value: 4 }, true, 2, 0), "Q1034");
    let lookup = Inst::Lookup { x: X, table: TableIndex(0), pad: 0 };
    expect_warning(&with(lookup, false, 5, 0), "Q1035");
}

#[test]
fn q1040_stages_fit_each_other() {
    let pipeline = Pipeline { stages: vec![base(), base()] };
    let found = verify_pipeline(&pipeline, &Rules::default());
    assert_eq!(found.iter().map(|p| p.code()).collect::<Vec<_>>(), ["Q1040"]);
}

#[test]
fn warnings_never_hide_an_error() {
    let mut program = base();
    for _ in 0..1000 {
        program.operations.push(operation(Inst::Constant { value: 9 }, false, 2, 0));
    }
    program.operations.push(operation(Inst::Relu { x: Slot(5000) }, false, 2, 0));
    let found = verify(&program, &Rules::default());
    assert!(found.len() < 120 && any_error(&found));
    for _ in 0..1000 {
        program.operations.push(operation(Inst::Relu { x: Slot(5000) }, false, 2, 0));
    }
    assert!(verify(&program, &Rules::default()).len() < 220);
}

/// Rules about files: what a program in memory cannot say.
#[test]
fn readers_check_unused_fields_and_the_sign_word() {
    let bytes = binary::write(&with(Inst::Relu { x: X }, true, 3, 2), Dialect::D1).unwrap();
    let third = bytes.len() - 4 * (1 + 64) - 32;
    let patched = |word: usize, value: i32| {
        let mut bytes = bytes.clone();
        bytes[third + 4 * word..][..4].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    let strict = |bytes: &[u8]| binary::read(bytes, &ReadOptions::default());
    assert!(strict(&bytes).is_ok());
    let id1 = patched(2, 0);
    assert_eq!(strict(&id1).unwrap_err().len(), 1);
    let lenient = ReadOptions { lenient: true, ..ReadOptions::default() };
    let read = binary::read(&id1, &lenient).unwrap();
    assert_eq!(read.warnings.len(), 1);
    assert_eq!(read.warnings[0].severity(), Severity::Warning);
    assert_eq!(binary::write(&read.program, Dialect::D1).unwrap(), bytes);
    assert_eq!(strict(&patched(5, 2)).unwrap_err()[0].code(), "Q1054");
    assert!(strict(&patched(0, 8)).is_ok(), "a lookup in table 0");
    for (word, value) in [(0, 11), (0, -4), (1, -1), (3, 1)] {
        assert!(strict(&patched(word, value)).is_err(), "word {word} is {value}");
    }
}

#[test]
fn json_readers_check_unused_fields() {
    let text = "[[1,1],[0],[1],[0],[false],[[0,-1,-1,0,[0.0,7.0,1.0],0.0,0.0],\
                [0,ID1,2,0,[0.0,7.0,1.0],0.0,0.0]],-1,1]";
    assert!(files::read_json(&text.replace("ID1", "-1"), false).is_ok());
    assert!(files::read_json(&text.replace("ID1", "0"), false).is_err());
    assert_eq!(files::read_json(&text.replace("ID1", "0"), true).unwrap().warnings.len(), 1);
}
