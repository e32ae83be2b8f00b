//! Every rule of what flows through a program with a description has a program that breaks it and
//! no other.

use crate::common::random::small;
use quincunx_diag::{Diagnostic, Place, Severity};
use quincunx_tcu::TcuArch;
use quincunx_tcu::arch::DataType;
use quincunx_tcu::files::{Consts, Model, Prog, Vectors};
use quincunx_tcu::isa::{Access, Compute, Inst, Register, SimdOp};
use quincunx_tcu::package::{ConstData, Package};
use quincunx_tcu::program::{Program, Step};
use quincunx_tcu::verify::{Rules, dataflow, verify};

fn vectors(name: &str, base: u64, size: u64) -> Vectors {
    Vectors { name: name.to_owned(), base, size }
}

/// A program between two vectors of input at 0 and two of output at 4, with the four rows of the
/// weights at the start of DRAM1.
fn package(insts: &[Inst]) -> Package {
    let arch = small(DataType::FP16BP8, 1);
    let lanes = arch.lanes();
    let consts = Consts { file_name: "m.tdata".to_owned(), base: 0, size: 4 };
    let model = Model {
        name: "m".to_owned(),
        prog: Prog { file_name: "m.tprog".to_owned(), size: 0 },
        consts: vec![consts],
        inputs: vec![vectors("x", 0, 2)],
        outputs: vec![vectors("y", 4, 2)],
        arch: arch.clone(),
        load_consts_to_local: false,
        packed: Default::default(),
        unknown: Vec::new(),
    };
    let data = ConstData { name: "m.tdata".to_owned(), base: 0, scalars: vec![1; 4 * lanes] };
    let steps = insts.iter().map(|&inst| Step { tid: 0, inst }).collect();
    Package { program: Program { arch, steps }, model: Some(model), consts: vec![data] }
}

fn check(package: &Package) -> Vec<Diagnostic> {
    let problems = verify(&package.program, &Rules::default());
    assert!(problems.iter().all(|problem| !problem.is_error()), "{problems:?}");
    dataflow(package, &package.driver())
}

/// DataMoves of `size` vectors and one more.
fn dram0_to_local(address: u64, local: u32, size: u32) -> Inst {
    Inst::Dram0ToLocal { local, local_stride: 0, address, stride: 0, size }
}

fn dram1_to_local(address: u64, local: u32, size: u32) -> Inst {
    Inst::Dram1ToLocal { local, local_stride: 0, address, stride: 0, size }
}

fn local_to_dram0(local: u32, address: u64, size: u32) -> Inst {
    Inst::LocalToDram0 { local, local_stride: 0, address, stride: 0, size }
}

fn local_to_dram1(local: u32, address: u64) -> Inst {
    Inst::LocalToDram1 { local, local_stride: 0, address, stride: 0, size: 0 }
}

fn acc_to_local(address: u64, local: u32, size: u32) -> Inst {
    Inst::AccToLocal { local, local_stride: 0, address, stride: 0, size }
}

fn matmul(local: u32, acc: u64, size: u32) -> Inst {
    let accumulate = false;
    Inst::MatMul { accumulate, local, local_stride: 0, acc, acc_stride: 0, size }
}

fn simd(access: Access, destination: u8, op: SimdOp, left: u8) -> Inst {
    let compute = Compute { op, left, right: 0 };
    Inst::Simd { access, write: 0, read: 0, destination, compute }
}

const LOAD: Inst = Inst::LoadWeights { local: 0, stride: 0, size: 3 };

/// Both outputs are products of both inputs, and the first has gone through a register.
fn sound() -> Vec<Inst> {
    vec![
        dram1_to_local(0, 0, 3),
        LOAD,
        dram0_to_local(0, 8, 1),
        matmul(8, 0, 1),
        simd(Access::Read, 1, SimdOp::Move, 0),
        simd(Access::Write, 0, SimdOp::Increment, 1),
        acc_to_local(0, 10, 1),
        local_to_dram0(10, 4, 1),
    ]
}

/// The sound program with one instruction instead of others.
fn with(index: usize, inst: Inst) -> Vec<Inst> {
    let mut insts = sound();
    insts[index] = inst;
    insts
}

/// The sound program with one more instruction.
fn and(index: usize, inst: Inst) -> Vec<Inst> {
    let mut insts = sound();
    insts.insert(index, inst);
    insts
}

/// The one problem of a program, at an instruction.
fn expect(insts: &[Inst], code: &str, at: Option<usize>, message: &str) {
    let found = check(&package(insts));
    let codes: Vec<&str> = found.iter().map(|problem| problem.code()).collect();
    assert_eq!(codes, [code], "{found:?}");
    assert!(found[0].message().contains(message), "{}", found[0].message());
    assert_eq!(found[0].place(), at.map(Place::Instruction).as_ref());
    let is_warning = ["Q3059", "Q3098", "Q3099"].contains(&code);
    assert_eq!(found[0].severity() == Severity::Warning, is_warning);
}

#[test]
fn a_sound_program_has_no_problems() {
    assert_eq!(check(&package(&sound())), []);
    // Without a description everything is an input.
    let mut raw = package(&[matmul(8, 0, 1)]);
    raw.model = None;
    assert_eq!(check(&raw), []);
}

#[test]
fn q3054_what_is_read_was_written() {
    expect(&with(2, dram0_to_local(1, 8, 1)), "Q3054", Some(2), "DRAM0(2) is read");
    let extra = Inst::LoadWeights { local: 0, stride: 0, size: 0 };
    let mut insts = and(2, dram1_to_local(4, 0, 0));
    insts.insert(3, extra);
    expect(&insts, "Q3054", Some(2), "DRAM1(4) is read");
    let mut insts = with(2, dram0_to_local(0, 8, 0));
    expect(&insts, "Q3054", Some(3), "Local(9) is read");
    insts[3] = matmul(8, 0, 0);
    expect(&insts, "Q3054", Some(6), "Acc(1) is read");
    let insts = and(4, simd(Access::Write, 0, SimdOp::Move, 2));
    assert_eq!(check(&package(&insts))[0].message(), "R2 is read, but was never written");
    let no_weights = [&[dram0_to_local(0, 8, 1)], &sound()[3..]].concat();
    expect(&no_weights, "Q3054", Some(1), "the weights are read");
    let no_product = vec![
        dram0_to_local(0, 8, 0),
        simd(Access::Write, 0, SimdOp::NoOp, 0),
        acc_to_local(0, 9, 0),
        local_to_dram0(8, 4, 1),
    ];
    expect(&no_product, "Q3054", Some(1), "the output of the array");
    // What is added to is read.
    let add = Inst::LocalAddToAcc { local: 8, local_stride: 0, address: 5, stride: 0, size: 0 };
    let mut insts = and(4, add);
    insts.insert(5, acc_to_local(5, 12, 0));
    insts.insert(6, local_to_dram0(12, 4, 0));
    let codes: Vec<_> =
        check(&package(&insts)).iter().map(|p| (p.code(), p.place().cloned())).collect();
    assert_eq!(codes[0], ("Q3054", Some(Place::Instruction(4))));
}

#[test]
fn every_read_that_is_missing_is_counted_once() {
    let mut package = package(&with(3, matmul(12, 0, 1)));
    let found = check(&package);
    assert!(found[0].message().contains("Local(12)"), "{found:?}");
    assert!(found[0].message().contains("as 1 others"), "{found:?}");
    // The second time nothing is said about the same vectors.
    let again = package.program.steps[3];
    package.program.steps.insert(4, again);
    let errors = |found: &[Diagnostic]| found.iter().filter(|p| p.is_error()).count();
    assert_eq!((errors(&found), errors(&check(&package))), (1, 1));
}

#[test]
fn q3057_constants_stay() {
    let mut insts = sound();
    insts.push(local_to_dram1(10, 3));
    let found = check(&package(&insts));
    let codes: Vec<&str> = found.iter().map(|problem| problem.code()).collect();
    // Nothing reads it either.
    assert_eq!(codes, ["Q3057", "Q3059"]);
    assert_eq!(found[0].place(), Some(&Place::Instruction(8)));
    // Behind the constants there is room.
    insts[8] = local_to_dram1(10, 4);
    insts.push(dram1_to_local(4, 12, 0));
    insts.push(local_to_dram0(12, 5, 0));
    expect(&insts, "Q3059", Some(10), "1 vectors are written");
    insts.remove(7);
    insts.push(local_to_dram0(12, 4, 0));
    expect(&insts, "Q3059", None, "1 vectors are written");
}

#[test]
fn q3058_outputs_are_written() {
    let mut insts = with(7, local_to_dram0(10, 4, 0));
    insts[6] = acc_to_local(0, 10, 0);
    insts[3] = matmul(8, 0, 0);
    insts[2] = dram0_to_local(0, 8, 0);
    expect(&insts, "Q3058", None, "output \"y\" is not written at DRAM0(5)");
    // An output that is an input as it lies is there already, one that only overlaps it is not.
    let mut package = package(&sound());
    let model = package.model.as_mut().unwrap();
    model.outputs.push(vectors("z", 0, 2));
    assert_eq!(check(&package), []);
    package.model.as_mut().unwrap().outputs[1].size = 1;
    let found = check(&package);
    assert!(found[0].message().contains("\"z\" is not written at DRAM0(0)"), "{found:?}");
    assert_eq!(found.len(), 1);
}

#[test]
fn q3059_what_is_written_is_read() {
    expect(&and(3, dram0_to_local(0, 8, 1)), "Q3059", Some(3), "2 vectors are written");
    expect(&and(3, dram0_to_local(0, 20, 0)), "Q3059", None, "1 vectors are written");
    expect(&and(7, local_to_dram0(10, 9, 1)), "Q3059", None, "2 vectors are written");
    expect(&and(4, matmul(8, 0, 0)), "Q3059", Some(4), "1 vectors are written");
}

#[test]
fn q3098_inputs_are_read() {
    let insts = [
        Inst::LoadWeightsZeroes { size: 3 },
        Inst::MatMulZeroes { accumulate: false, acc: 0, acc_stride: 0, size: 0 },
        acc_to_local(0, 1, 0),
        local_to_dram0(1, 4, 0),
        local_to_dram0(1, 5, 0),
    ];
    assert_eq!(check(&package(&insts)), []);
    let mut lost = insts.to_vec();
    lost.insert(3, local_to_dram0(1, 1, 0));
    lost.push(dram0_to_local(1, 2, 0));
    lost.push(local_to_dram0(2, 5, 0));
    let found = check(&package(&lost));
    let codes: Vec<_> = found.iter().map(|p| (p.code(), p.place().cloned())).collect();
    let at = |index| Some(Place::Instruction(index));
    assert_eq!(codes, [("Q3059", at(7)), ("Q3098", at(3))]);
    // A vector that was read may be used again.
    let mut used = sound();
    used.extend([local_to_dram0(11, 1, 0), dram0_to_local(1, 2, 0), local_to_dram0(2, 6, 0)]);
    let mut package = package(&used);
    package.model.as_mut().unwrap().outputs[0].size = 3;
    assert_eq!(check(&package), []);
}

#[test]
fn q3099_a_program_that_moves_a_bank_is_followed_so_far() {
    let offset = |value| Inst::Configure { register: Register::Dram1Offset, value };
    assert_eq!(check(&package(&and(0, offset(0)))), []);
    expect(&and(7, offset(1)), "Q3099", Some(7), "moves a DRAM bank");
    let mut insts = and(7, offset(1));
    insts[2] = dram0_to_local(1, 8, 1);
    let found = check(&package(&insts));
    assert_eq!(found.iter().map(Diagnostic::code).collect::<Vec<_>>(), ["Q3054", "Q3099"]);
}

/// The host moves constants and sends its probe.
#[test]
fn what_the_host_writes_is_there() {
    let mut package = package(&sound()[1..]);
    assert_eq!(check(&package)[0].code(), "Q3054");
    package.model.as_mut().unwrap().load_consts_to_local = true;
    assert_eq!(check(&package), []);
    package.program.steps.insert(0, Step { tid: 0, inst: dram0_to_local(22, 12, 1) });
    package.program.steps.push(Step { tid: 0, inst: local_to_dram0(12, 4, 1) });
    let codes = |package: &Package, flush_probe| {
        let driver = quincunx_tcu::simulate::Driver { flush_probe, ..package.driver() };
        dataflow(package, &driver).iter().map(Diagnostic::code).collect::<Vec<_>>()
    };
    assert_eq!(codes(&package, true), ["Q3059"]);
    assert_eq!(codes(&package, false), ["Q3054", "Q3059"]);
}

/// Banks of 2^32 vectors cost what the program touches.
#[test]
fn deep_banks_cost_what_is_touched() {
    let mut package = package(&[
        Inst::Dram0ToLocal { local: 0, local_stride: 0, address: 1, stride: 29, size: 7 },
        Inst::LocalToDram0 { local: 0, local_stride: 0, address: 0, stride: 29, size: 7 },
    ]);
    let whole = 1 << 32;
    let arch = TcuArch {
        dram0_depth: whole,
        stride0_depth: 32,
        stride1_depth: 32,
        ..package.program.arch.clone()
    };
    package.program.arch = arch;
    let model = package.model.as_mut().unwrap();
    model.inputs = vec![vectors("x", 0, whole)];
    model.outputs = vec![vectors("y", 0, 1), vectors("y", 1, whole - 1)];
    let found = check(&package);
    let codes: Vec<&str> = found.iter().map(Diagnostic::code).collect();
    assert_eq!(codes, ["Q3058", "Q3098"], "{found:?}");
    assert!(found[0].message().contains("DRAM0(1)"), "{found:?}");
    assert!(found[1].message().starts_with("8 vectors"), "{found:?}");
    // Too many pages are too many.
    let strided =
        |address| Inst::Dram0ToLocal { local: 0, local_stride: 0, address, stride: 12, size: 15 };
    let insts = (0..5000).map(|i| Step { tid: 0, inst: strided(i << 17) }).collect();
    package.program.steps = insts;
    assert_eq!(check(&package).last().unwrap().code(), "Q3099");
}
