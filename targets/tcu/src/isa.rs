//! The instruction table.
//!
//! Facts: `tensil`, and `tensil-doc` 3.4 for LoadLUT and Lookup (`docs/bibliography.md`). An
//! instruction is three operands and a header, the last byte: flags in its low half, opcode in its
//! high half. With two threads the top bit of the opcode is the number of the thread; the thread
//! belongs to the step of a program ([`Step`](crate::program::Step)), not to the instruction.

mod operands;

pub use operands::{Access, Compute, Register, SimdOp};

use operands::{COMPUTE, COMPUTE_FIXUP, DESTINATION};
use quincunx_isa::{FieldSpec, Kind, Operand, Piece, Term, instructions};

const LOW0: Term = Term::Const(0);
const LOW1: Term = Term::Param("operand0_bits");
const O1: Term = Term::Param("operand1_bits");
const LOW2: Term = Term::Sum(&[LOW1, O1]);
const A0: Term = Term::Param("operand0_address_bits");
const A1: Term = Term::Param("operand1_address_bits");
const REGISTER: Term = Term::Param("simd_register_bits");

/// A field in the header, the last byte.
macro_rules! header {
    ($at:literal, $width:literal) => {
        &[Piece {
            at: Term::Sum(&[Term::Param("header_at"), Term::Const($at)]),
            width: Term::Const($width),
        }]
    };
}

static FIELDS: &[FieldSpec] = &[
    FieldSpec::unsigned("opcode", header!(4, 4)),
    FieldSpec::unsigned("flags", header!(0, 4)),
    FieldSpec::unsigned("flag0", header!(0, 1)),
    FieldSpec::unsigned("flag1", header!(1, 1)),
    FieldSpec::unsigned("flags_above", header!(2, 2)),
    FieldSpec::unsigned("flag3", header!(3, 1)),
    FieldSpec::unsigned("access", header!(0, 3)),
    FieldSpec::unsigned("wait", &[Piece { at: LOW0, width: Term::Param("tid_bits") }]),
    FieldSpec::unsigned("address0", &[Piece { at: LOW0, width: A0 }]),
    FieldSpec::unsigned("stride0", &[Piece { at: A0, width: Term::Param("stride0_bits") }]),
    FieldSpec::unsigned("address1", &[Piece { at: LOW1, width: A1 }]),
    FieldSpec::unsigned(
        "stride1",
        &[Piece { at: Term::Sum(&[LOW1, A1]), width: Term::Param("stride1_bits") }],
    ),
    FieldSpec::unsigned("size1", &[Piece { at: LOW1, width: O1 }]),
    FieldSpec::unsigned("size2", &[Piece { at: LOW2, width: Term::Param("operand2_value_bits") }]),
    FieldSpec::unsigned("destination", &[Piece { at: LOW2, width: REGISTER }]),
    FieldSpec::unsigned(
        "compute",
        &[Piece {
            at: Term::Sum(&[LOW2, REGISTER]),
            width: Term::Sum(&[REGISTER, REGISTER, Term::Param("simd_op_bits")]),
        }],
    ),
    FieldSpec::unsigned("register", &[Piece::fixed(0, 4)]),
    FieldSpec::unsigned("value", &[Piece { at: Term::Const(4), width: Term::Param("value_bits") }]),
];

const fn number(field: &'static str) -> Operand {
    Operand::at(field, Kind::Unsigned)
}

const fn absent_or(field: &'static str) -> Operand {
    Operand::at(field, Kind::Unsigned).or(0)
}

instructions! {
    /// Tensil TCU: a systolic array between a local memory and accumulators, with an ALU for each
    /// accumulator lane. Addresses count vectors. `@2^k` is the step from one vector to the next;
    /// `n(+1)` says that n + 1 vectors take part, and is absent for one vector.
    pub enum Inst, table TABLE = "tcu";
    bits Term::Param("instruction_bits");
    params ["instruction_bytes", "simd_bits", "operand2_bits"]; fields FIELDS;

    /// Does nothing. With two threads the number says which thread is waited for; upstream fills
    /// time with instructions that wait for their own thread. That waiting for the other thread
    /// orders it before what its earlier instructions do is ours.
    NoOp = "NoOp" "NoOp[({thread})]" ["opcode" = 0, "flags" = 0] {
        /// The thread that is waited for.
        thread: u8 = absent_or("wait"),
    }
    /// Multiplies vectors of local memory by the weights, adds the bias, and puts the results into
    /// accumulators. The sum starts with the bias; every product is added with one rounding (to
    /// nearest, ties to even) and saturation, in the order of lanes.
    MatMul = "MatMul" "MatMul{accumulate?(Acc)} Local({local})[@2^{local_stride}] Acc({acc})[@2^{acc_stride}][ {size}(+1)]"
        ["opcode" = 1, "flag1" = 0, "flags_above" = 0]
    {
        /// Adds to the accumulators, with saturation.
        accumulate: bool = Operand::at("flag0", Kind::Flag),
        /// First vector in local memory.
        local: u32 = number("address0"),
        /// Its step.
        local_stride: u32 = absent_or("stride0"),
        /// First accumulator.
        acc: u64 = number("address1"),
        /// Its step.
        acc_stride: u32 = absent_or("stride1"),
        /// Vectors minus 1.
        size: u32 = absent_or("size2"),
    }
    /// As MatMul with vectors of zeros, whose results are the bias.
    MatMulZeroes = "MatMul" "MatMul{accumulate?(Acc)} Zeroes Acc({acc})[@2^{acc_stride}][ {size}(+1)]"
        ["opcode" = 1, "flag1" = 1, "flags_above" = 0]
    {
        /// Adds to the accumulators, with saturation.
        accumulate: bool = Operand::at("flag0", Kind::Flag),
        /// First accumulator.
        acc: u64 = number("address1"),
        /// Its step.
        acc_stride: u32 = absent_or("stride1"),
        /// Vectors minus 1.
        size: u32 = absent_or("size2"),
    }
    /// Copies vectors from DRAM0 to local memory.
    Dram0ToLocal = "DataMove" "DataMove(<-) Local({local})[@2^{local_stride}] DRAM0({address})[@2^{stride}][ {size}(+1)]"
        ["opcode" = 2, "flags" = 0]
    {
        /// First vector in local memory.
        local: u32 = number("address0"),
        /// Its step.
        local_stride: u32 = absent_or("stride0"),
        /// First vector in DRAM0.
        address: u64 = number("address1"),
        /// Its step.
        stride: u32 = absent_or("stride1"),
        /// Vectors minus 1.
        size: u32 = absent_or("size2"),
    }
    /// Copies vectors from local memory to DRAM0.
    LocalToDram0 = "DataMove" "DataMove(->) Local({local})[@2^{local_stride}] DRAM0({address})[@2^{stride}][ {size}(+1)]"
        ["opcode" = 2, "flags" = 1]
    {
        /// First vector in local memory.
        local: u32 = number("address0"),
        /// Its step.
        local_stride: u32 = absent_or("stride0"),
        /// First vector in DRAM0.
        address: u64 = number("address1"),
        /// Its step.
        stride: u32 = absent_or("stride1"),
        /// Vectors minus 1.
        size: u32 = absent_or("size2"),
    }
    /// Copies vectors from DRAM1 to local memory.
    Dram1ToLocal = "DataMove" "DataMove(<-) Local({local})[@2^{local_stride}] DRAM1({address})[@2^{stride}][ {size}(+1)]"
        ["opcode" = 2, "flags" = 2]
    {
        /// First vector in local memory.
        local: u32 = number("address0"),
        /// Its step.
        local_stride: u32 = absent_or("stride0"),
        /// First vector in DRAM1.
        address: u64 = number("address1"),
        /// Its step.
        stride: u32 = absent_or("stride1"),
        /// Vectors minus 1.
        size: u32 = absent_or("size2"),
    }
    /// Copies vectors from local memory to DRAM1.
    LocalToDram1 = "DataMove" "DataMove(->) Local({local})[@2^{local_stride}] DRAM1({address})[@2^{stride}][ {size}(+1)]"
        ["opcode" = 2, "flags" = 3]
    {
        /// First vector in local memory.
        local: u32 = number("address0"),
        /// Its step.
        local_stride: u32 = absent_or("stride0"),
        /// First vector in DRAM1.
        address: u64 = number("address1"),
        /// Its step.
        stride: u32 = absent_or("stride1"),
        /// Vectors minus 1.
        size: u32 = absent_or("size2"),
    }
    /// Copies vectors from accumulators to local memory.
    AccToLocal = "DataMove" "DataMove(<-) Local({local})[@2^{local_stride}] Acc({address})[@2^{stride}][ {size}(+1)]"
        ["opcode" = 2, "flags" = 12]
    {
        /// First vector in local memory.
        local: u32 = number("address0"),
        /// Its step.
        local_stride: u32 = absent_or("stride0"),
        /// First accumulator.
        address: u64 = number("address1"),
        /// Its step.
        stride: u32 = absent_or("stride1"),
        /// Vectors minus 1.
        size: u32 = absent_or("size2"),
    }
    /// Copies vectors from local memory to accumulators.
    LocalToAcc = "DataMove" "DataMove(->) Local({local})[@2^{local_stride}] Acc({address})[@2^{stride}][ {size}(+1)]"
        ["opcode" = 2, "flags" = 13]
    {
        /// First vector in local memory.
        local: u32 = number("address0"),
        /// Its step.
        local_stride: u32 = absent_or("stride0"),
        /// First accumulator.
        address: u64 = number("address1"),
        /// Its step.
        stride: u32 = absent_or("stride1"),
        /// Vectors minus 1.
        size: u32 = absent_or("size2"),
    }
    /// Adds vectors of local memory to accumulators, with saturation.
    LocalAddToAcc = "DataMove" "DataMove(->Acc) Local({local})[@2^{local_stride}] Acc({address})[@2^{stride}][ {size}(+1)]"
        ["opcode" = 2, "flags" = 15]
    {
        /// First vector in local memory.
        local: u32 = number("address0"),
        /// Its step.
        local_stride: u32 = absent_or("stride0"),
        /// First accumulator.
        address: u64 = number("address1"),
        /// Its step.
        stride: u32 = absent_or("stride1"),
        /// Vectors minus 1.
        size: u32 = absent_or("size2"),
    }
    /// Pushes vectors of local memory into the weights, from the last one down to the first. A
    /// push moves every row on by one; the row pushed last is the bias, the one before it belongs
    /// to lane 0.
    LoadWeights = "LoadWeights" "LoadWeight[s] Local({local})[@2^{stride}][ {size}(+1)]"
        ["opcode" = 3, "flags" = 0]
    {
        /// First vector in local memory.
        local: u32 = number("address0"),
        /// Its step.
        stride: u32 = absent_or("stride0"),
        /// Vectors minus 1.
        size: u32 = absent_or("size1").within(0, 0xffff),
    }
    /// Pushes vectors of zeros into the weights.
    LoadWeightsZeroes = "LoadWeights" "LoadWeight[s] Zeroes[ {size}(+1)]"
        ["opcode" = 3, "flags" = 1]
    {
        /// Vectors minus 1.
        size: u32 = absent_or("size1").within(0, 0xffff),
    }
    /// Computes in every lane from accumulators and registers. The result always goes to the output,
    /// which a writing instruction puts into an accumulator, and to a register if one is named.
    /// Reading precedes writing; without reading the input is zero. NoOp computes nothing and leaves
    /// the registers alone: reading with it takes an accumulator out of the ALUs, writing with it
    /// puts in what was taken out by the same instruction, or else the last vector that the array
    /// gave (ours). Lookup finds the key closest to its source, the lower one of two; its result is
    /// the source minus the key, and the registers behind the destination receive the entries of
    /// the tables there.
    Simd = "SIMD" "SIMD[({access})] Acc({write}) Acc({read}) {destination}={compute}"
        ["opcode" = 4, "flag3" = 0] fixup COMPUTE_FIXUP
    {
        /// Which of the accumulators are used.
        access: Access = Operand::at("access", Kind::Names(Access::NAMES)).or(0),
        /// Accumulator that is written.
        write: u32 = number("address0"),
        /// Accumulator that is read.
        read: u64 = number("address1"),
        /// Register that receives the result as well.
        destination: u8 = Operand::at("destination", Kind::Custom(&DESTINATION)),
        /// Operation and its sources.
        compute: Compute = Operand::at("compute", Kind::Custom(&COMPUTE)).converted(),
    }
    /// Fills a lookup table from local memory, one vector for each entry: lane `l` of entry `i` is
    /// lane `l` of vector `i` (ours). For machines with lookup tables.
    LoadLut = "LoadLUT" "LoadLUT Local({local})[@2^{stride}] {table}" ["opcode" = 5, "flags" = 0] {
        /// First vector in local memory.
        local: u32 = number("address0"),
        /// Its step.
        stride: u32 = absent_or("stride0"),
        /// 0 for the index of keys, then the tables of values (ours).
        table: u64 = number("address1"),
    }
    /// Sets a configuration register. For machines with one thread, whose opcodes have four bits.
    Configure = "Configure" "Configure {register} {value}" ["opcode" = 15, "flags" = 0] {
        /// The register.
        register: Register = Operand::at("register", Kind::Names(Register::NAMES)),
        /// Its new value.
        value: u64 = number("value"),
    }
}

#[cfg(test)]
mod tests {
    use super::operands::COMPUTE_OPERAND;
    use super::*;

    #[test]
    fn the_table_is_sound() {
        assert_eq!(TABLE.check(), Vec::<String>::new());
    }

    #[test]
    fn the_fixup_knows_its_operand() {
        let (_, row) = TABLE.find("SIMD").next().unwrap();
        assert_eq!(row.operands[COMPUTE_OPERAND].name, "compute");
    }
}
