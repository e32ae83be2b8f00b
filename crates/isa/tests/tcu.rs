//! The instructions of the Tensil TCU, whose field positions and widths follow from the machine's
//! parameters, against golden encodings. Facts: `specs/tcu.md` section 3.

mod laws;

use laws::parse;
use proptest::prelude::*;
use quincunx_isa::{
    Bits, Coverage, FieldSpec, Kind, Layout, Operand, Piece, Term, instructions, operand_enum,
};
use serde_json::Value;

operand_enum! {
    /// From where to where a DataMove copies.
    #[derive(Debug)]
    pub enum Move {
        /// From DRAM 0 to local memory.
        Dram0ToLocal = 0 "dram0_to_local",
        /// From local memory to DRAM 0.
        LocalToDram0 = 1 "local_to_dram0",
        /// From DRAM 1 to local memory.
        Dram1ToLocal = 2 "dram1_to_local",
        /// From local memory to DRAM 1.
        LocalToDram1 = 3 "local_to_dram1",
        /// From the accumulators to local memory.
        AccToLocal = 12 "acc_to_local",
        /// From local memory to the accumulators.
        LocalToAcc = 13 "local_to_acc",
        /// From local memory, added to the accumulators.
        LocalAddToAcc = 15 "local_add_to_acc",
    }
}

operand_enum! {
    /// What a SIMD instruction computes.
    #[derive(Debug)]
    pub enum Simd {
        /// Nothing.
        Nop = 0 "nop",
        /// Zero.
        Zero = 1 "zero",
        /// The left operand.
        Move = 2 "move",
        /// One where left is zero, else zero.
        Not = 3 "not",
        /// One where both are not zero, else zero.
        And = 4 "and",
        /// One where one is not zero, else zero.
        Or = 5 "or",
        /// Left plus one.
        Increment = 6 "inc",
        /// Left minus one.
        Decrement = 7 "dec",
        /// Sum.
        Add = 8 "add",
        /// Difference.
        Subtract = 9 "sub",
        /// Product.
        Multiply = 10 "mul",
        /// Magnitude of left.
        Abs = 11 "abs",
        /// One where left is greater, else zero.
        Greater = 12 "gt",
        /// One where left is not less, else zero.
        GreaterEqual = 13 "ge",
        /// The smaller one.
        Min = 14 "min",
        /// The greater one.
        Max = 15 "max",
    }
}

const LOW0: Term = Term::Const(0);
const LOW1: Term = Term::Param("operand0_bits");
const O1: Term = Term::Param("operand1_bits");
const LOW2: Term = Term::Sum(&[LOW1, O1]);
const A0: Term = Term::Param("operand0_address_bits");
const A1: Term = Term::Param("operand1_address_bits");
const REGISTER: Term = Term::Param("simd_register_bits");
const TID: Term = Term::Param("tid_bits");

/// A field in the header, the last byte.
macro_rules! header {
    ($at:literal, $width:expr) => {
        &[Piece {
            at: Term::Sum(&[LOW2, Term::Param("operand2_bits"), Term::Const($at)]),
            width: $width,
        }]
    };
}

static FIELDS: &[FieldSpec] = &[
    FieldSpec::unsigned("opcode", header!(4, Term::Const(3))),
    FieldSpec::unsigned("flags", header!(0, Term::Const(4))),
    FieldSpec::unsigned("flag0", header!(0, Term::Const(1))),
    FieldSpec::unsigned("flag1", header!(1, Term::Const(1))),
    FieldSpec::unsigned("flag2", header!(2, Term::Const(1))),
    FieldSpec::unsigned("tid", header!(7, TID)),
    FieldSpec::unsigned("wait", &[Piece { at: LOW0, width: TID }]),
    FieldSpec::unsigned("address0", &[Piece { at: LOW0, width: A0 }]),
    FieldSpec::unsigned("stride0", &[Piece { at: A0, width: Term::Param("stride0_bits") }]),
    FieldSpec::unsigned("address1", &[Piece { at: LOW1, width: A1 }]),
    FieldSpec::unsigned(
        "stride1",
        &[Piece { at: Term::Sum(&[LOW1, A1]), width: Term::Param("stride1_bits") }],
    ),
    FieldSpec::unsigned("size1", &[Piece { at: LOW1, width: O1 }]),
    FieldSpec::unsigned("size2", &[Piece { at: LOW2, width: Term::Param("operand2_value_bits") }]),
    FieldSpec::unsigned("dest", &[Piece { at: LOW2, width: REGISTER }]),
    FieldSpec::unsigned("right", &[Piece { at: Term::Sum(&[LOW2, REGISTER]), width: REGISTER }]),
    FieldSpec::unsigned(
        "left",
        &[Piece { at: Term::Sum(&[LOW2, REGISTER, REGISTER]), width: REGISTER }],
    ),
    FieldSpec::unsigned(
        "simd_op",
        &[Piece { at: Term::Sum(&[LOW2, REGISTER, REGISTER, REGISTER]), width: Term::Const(4) }],
    ),
];

const fn number(field: &'static str) -> Operand {
    Operand::at(field, Kind::Unsigned)
}

const fn absent_or(field: &'static str) -> Operand {
    Operand::at(field, Kind::Unsigned).or(0)
}

const fn count(field: &'static str) -> Operand {
    Operand::at(field, Kind::Biased(1))
}

const fn flag(field: &'static str) -> Operand {
    Operand::at(field, Kind::Flag)
}

instructions! {
    /// Tensil TCU. Strides are exponents of 2.
    pub enum Inst, table TABLE = "tcu";
    bits Term::Sum(&[LOW2, Term::Param("operand2_bits"), Term::Const(8)]);
    params ["instruction_bytes", "simd_bits"]; fields FIELDS;

    /// Waits for a thread.
    Wait = "wait" "wait {thread}[ thread {tid}]" ["opcode" = 0, "flags" = 0] {
        /// The thread to wait for.
        thread: u8 = number("wait"),
        /// The thread that waits.
        tid: u8 = absent_or("tid"),
    }
    /// Multiplies vectors of local memory by the weights.
    MatMul = "matmul" "matmul{accumulate?.acc} {local}[ << {local_stride}], {acc}[ << {acc_stride}], {count}[ thread {tid}]"
        ["opcode" = 1, "flag1" = 0, "flag2" = 0]
    {
        /// Adds to the accumulators.
        accumulate: bool = flag("flag0"),
        /// First address in local memory.
        local: u32 = number("address0"),
        /// Its stride.
        local_stride: u32 = absent_or("stride0"),
        /// First accumulator.
        acc: u64 = number("address1"),
        /// Its stride.
        acc_stride: u32 = absent_or("stride1"),
        /// Vectors.
        count: u64 = count("size2"),
        /// Thread.
        tid: u8 = absent_or("tid"),
    }
    /// Multiplies zeros by the weights, which leaves the bias.
    MatMulZeroes = "matmul" "matmul{accumulate?.acc} zeroes, {acc}[ << {acc_stride}], {count}[ thread {tid}]"
        ["opcode" = 1, "flag1" = 1, "flag2" = 0]
    {
        /// Adds to the accumulators.
        accumulate: bool = flag("flag0"),
        /// First accumulator.
        acc: u64 = number("address1"),
        /// Its stride.
        acc_stride: u32 = absent_or("stride1"),
        /// Vectors.
        count: u64 = count("size2"),
        /// Thread.
        tid: u8 = absent_or("tid"),
    }
    /// Copies vectors between memories.
    DataMove = "move" "move.{kind} {local}[ << {local_stride}], {other}[ << {other_stride}], {count}[ thread {tid}]"
        ["opcode" = 2]
    {
        /// Direction.
        kind: Move = Operand::at("flags", Kind::Names(Move::NAMES)),
        /// First address in local memory.
        local: u32 = number("address0"),
        /// Its stride.
        local_stride: u32 = absent_or("stride0"),
        /// First address in the other memory.
        other: u64 = number("address1"),
        /// Its stride.
        other_stride: u32 = absent_or("stride1"),
        /// Vectors.
        count: u64 = count("size2"),
        /// Thread.
        tid: u8 = absent_or("tid"),
    }
    /// Pushes vectors of local memory into the weights.
    LoadWeights = "load_weights" "load_weights {local}[ << {stride}], {count}[ thread {tid}]"
        ["opcode" = 3, "flags" = 0]
    {
        /// First address in local memory.
        local: u32 = number("address0"),
        /// Its stride.
        stride: u32 = absent_or("stride0"),
        /// Vectors.
        count: u64 = count("size1"),
        /// Thread.
        tid: u8 = absent_or("tid"),
    }
    /// Pushes zeros into the weights.
    LoadZeroes = "load_weights" "load_weights zeroes, {count}[ thread {tid}]"
        ["opcode" = 3, "flags" = 1]
    {
        /// Vectors.
        count: u64 = count("size1"),
        /// Thread.
        tid: u8 = absent_or("tid"),
    }
    /// Computes with accumulators and registers.
    Simd = "simd" "simd.{op} r{dest}, r{left}, r{right}[, read {source}][, write {target}]{read?, from_acc}{write?, to_acc}{accumulate?, acc}[ thread {tid}]"
        ["opcode" = 4]
    {
        /// Operation.
        op: Simd = Operand::at("simd_op", Kind::Names(Simd::NAMES)),
        /// Register of the result, 0 for none.
        dest: u8 = number("dest"),
        /// Left operand, 0 for the input.
        left: u8 = number("left"),
        /// Right operand, 0 for the input.
        right: u8 = number("right"),
        /// Accumulator that is read.
        source: u64 = absent_or("address1"),
        /// Accumulator that is written.
        target: u32 = absent_or("address0"),
        /// Reads an accumulator.
        read: bool = flag("flag0"),
        /// Writes an accumulator.
        write: bool = flag("flag1"),
        /// Adds to the accumulator.
        accumulate: bool = flag("flag2"),
        /// Thread.
        tid: u8 = absent_or("tid"),
    }
}

fn log2(number: u64) -> u32 {
    number.next_power_of_two().trailing_zeros()
}

/// The layout that follows from an architecture; `name` is a key of the golden file's `layout`.
fn param(arch: &Value, name: &str) -> Option<u32> {
    let depth = |key: &str| log2(arch[key].as_u64().unwrap());
    let round = |bits: u32| bits.next_multiple_of(8);
    let of = |name: &str| param(arch, name).unwrap();
    let (local, acc) = (depth("local_depth"), depth("accumulator_depth"));
    let (dram0, dram1) = (depth("dram0_depth"), depth("dram1_depth"));
    Some(match name {
        "tid_bits" => depth("number_of_threads"),
        "stride0_bits" => depth("stride0_depth"),
        "stride1_bits" => depth("stride1_depth"),
        "simd_register_bits" => log2(arch["simd_registers_depth"].as_u64()? + 1),
        "simd_bits" => 4 + 3 * of("simd_register_bits"),
        "operand0_address_bits" => local.max(acc),
        "operand1_address_bits" => local.max(acc).max(dram0).max(dram1),
        "operand2_value_bits" => {
            local.min(acc).max(local.min(dram0)).max(local.min(dram1)).max(of("simd_bits"))
        }
        "operand0_bits" => round(of("operand0_address_bits") + of("stride0_bits")),
        "operand1_bits" => round(of("operand1_address_bits") + of("stride1_bits")),
        "operand2_bits" => round(of("operand2_value_bits")),
        "instruction_bytes" => {
            (8 + of("operand0_bits") + of("operand1_bits") + of("operand2_bits")) / 8
        }
        _ => return None,
    })
}

fn layout(arch: &Value) -> Layout {
    Layout::resolve(&TABLE, &|name| param(arch, name)).unwrap()
}

fn golden() -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/tcu");
    let text = std::fs::read_to_string(format!("{folder}/encodings.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The instruction of the golden file's fields.
fn instruction(fields: &Value) -> Inst {
    let get = |key: &str| fields[key].as_u64().unwrap();
    let small = |key: &str| get(key) as u32;
    let bit = |key: &str| get(key) == 1;
    let tid = get("tid") as u8;
    let count = || get("size") + 1;
    let named = |raw: u64| i128::from(raw);
    match fields["op"].as_str().unwrap() {
        "wait" => Inst::Wait { thread: get("wait_tid") as u8, tid },
        "matmul" if bit("z") => {
            assert_eq!((get("la"), get("ls")), (0, 0));
            let (acc, acc_stride) = (get("aa"), small("as"));
            Inst::MatMulZeroes { accumulate: bit("acc"), acc, acc_stride, count: count(), tid }
        }
        "matmul" => Inst::MatMul {
            accumulate: bit("acc"),
            local: small("la"),
            local_stride: small("ls"),
            acc: get("aa"),
            acc_stride: small("as"),
            count: count(),
            tid,
        },
        "move" => Inst::DataMove {
            kind: quincunx_isa::OperandValue::from_raw(named(get("kind"))).unwrap(),
            local: small("la"),
            local_stride: small("ls"),
            other: get("aa"),
            other_stride: small("as"),
            count: count(),
            tid,
        },
        "loadw" if bit("z") => {
            assert_eq!((get("la"), get("ls")), (0, 0));
            Inst::LoadZeroes { count: count(), tid }
        }
        "loadw" => {
            Inst::LoadWeights { local: small("la"), stride: small("ls"), count: count(), tid }
        }
        "simd" => Inst::Simd {
            op: quincunx_isa::OperandValue::from_raw(named(get("sop"))).unwrap(),
            dest: get("sd") as u8,
            left: get("sl") as u8,
            right: get("sr") as u8,
            source: get("ra"),
            target: small("wa"),
            read: get("flags") & 1 != 0,
            write: get("flags") & 2 != 0,
            accumulate: get("flags") & 4 != 0,
            tid,
        },
        other => panic!("{other}"),
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn layouts_follow_from_the_architecture() {
    let architectures = golden();
    assert_eq!(architectures.len(), 14);
    for architecture in architectures {
        let layout = layout(&architecture["arch"]);
        let expected = architecture["layout"].as_object().unwrap();
        assert_eq!(expected.len(), 12);
        for (key, value) in expected {
            assert_eq!(layout.param(key).map(u64::from), value.as_u64(), "{key}");
        }
        assert_eq!(layout.bytes(), expected["instruction_bytes"].as_u64().unwrap() as usize);
        let width = |field: &str| layout.width(field).map(u64::from);
        assert_eq!(width("address0"), expected["operand0_address_bits"].as_u64());
        assert_eq!(width("stride1"), expected["stride1_bits"].as_u64());
        assert_eq!(width("tid"), expected["tid_bits"].as_u64());
    }
}

#[test]
fn golden_instructions_encode_decode_and_read_back() {
    let mut coverage = Coverage::new(&TABLE);
    let mut instructions = 0;
    for architecture in golden() {
        let layout = layout(&architecture["arch"]);
        for case in architecture["instructions"].as_array().unwrap() {
            let (inst, bytes) = (instruction(&case[0]), bytes(case[1].as_str().unwrap()));
            let raw = inst.to_raw();
            let word = TABLE.encode(&raw, &layout).unwrap();
            assert_eq!(word.to_le_bytes()[..layout.bytes()], bytes, "{case}");
            let word = Bits::from_le_bytes(&bytes).unwrap();
            let (decoded, warnings) = TABLE.decode(&word, &layout, false).unwrap();
            assert!(warnings.is_empty());
            assert_eq!(Inst::from_raw(&decoded), Some(inst), "{case}");
            let text = TABLE.print(&raw);
            assert_eq!(parse(&TABLE, &text, Some(&layout)), Some(raw), "{text}");
            coverage.mark(inst.row());
            instructions += 1;
        }
    }
    assert_eq!(instructions, 953);
    assert_eq!(coverage.missing(), Vec::<&str>::new());
}

#[test]
fn worked_examples_of_the_specification() {
    let layout = layout(&golden()[0]["arch"]);
    for (text, hex) in [
        ("matmul 0, 0, 1", "0000000000000010"),
        ("load_weights 0, 9", "0000080000000030"),
        ("move.dram1_to_local 0, 0, 73", "0000000000480022"),
        ("move.acc_to_local 0x1fff << 7, 5 << 1, 1", "ffff05001000002c"),
        ("simd.max r0, r0, r1, read 9, write 7, from_acc, to_acc", "07000900007a0043"),
    ] {
        let inst = parse(&TABLE, text, Some(&layout)).unwrap();
        let word = TABLE.encode(&inst, &layout).unwrap();
        assert_eq!(word.to_le_bytes()[..8], bytes(hex), "{text}");
    }
}

#[test]
fn words_of_other_machines_are_refused() {
    let layout = layout(&golden()[0]["arch"]);
    for (hex, code) in [
        // The driver's configuration opcode, reserved opcodes, move kind 4, a padding bit, a
        // second thread, an address in the zeroes form.
        ("40230100000000f0", "Q2111"),
        ("0000000000000050", "Q2111"),
        ("0000000000000024", "Q2113"),
        ("0000000000002010", "Q2112"),
        ("0000000080000010", "Q2112"),
        ("0000000000000090", "Q2112"),
        ("0100000000000012", "Q2112"),
    ] {
        let word = Bits::from_le_bytes(&bytes(hex)).unwrap();
        let problem = TABLE.decode(&word, &layout, false).unwrap_err();
        assert_eq!(problem.code(), code, "{hex}: {problem}");
    }
}

#[test]
fn the_laws_hold_on_every_architecture() {
    for architecture in golden() {
        laws::hold(&TABLE, &layout(&architecture["arch"]));
    }
}

proptest! {
    #[test]
    fn any_text_is_survived(text in r"((matmul|move|simd|load_weights|wait)[.a-z_]{0,16})?[ \PC]{0,40}") {
        laws::survives(&TABLE, &text, None);
    }
}
