//! Native instructions in the terms of the machine: numbers, bytes and types instead of codes.

use super::{
    DEPTH, DST, DST_SUB, DST_TYPE, Form, Inst, LANES, NO_MASK, OFFSET, OPTION_LIST, REPEAT, SCALES,
    SRC0, SRC0_SUB, SRC0_TYPE, SRC1, SRC1_TYPE, SRC2, SRC2_SUB, SRC2_TYPE, TABLE, standard,
};
use crate::isa::operands::{GrfOrNull, Options};
use crate::precision::{Acc, Precision};
use quincunx_isa::RawInst;

/// An instruction in the terms of the machine, the same for all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Native {
    /// `dpasw`.
    pub fused: bool,
    /// Writes all lanes.
    pub no_mask: bool,
    /// 1, 2, 4 or 8.
    pub depth: u32,
    /// 1 to 8.
    pub repeat: u32,
    /// 4, 8 or 16.
    pub lanes: u32,
    /// Dispatch-mask bit of lane 0.
    pub offset: u32,
    /// Register and byte in it.
    pub dst: (u8, u32),
    /// Type.
    pub dst_type: Acc,
    /// Register and byte in it; `None` for null.
    pub src0: Option<(u8, u32)>,
    /// Type.
    pub src0_type: Acc,
    /// Register.
    pub src1: u8,
    /// Precision.
    pub src1_type: Precision,
    /// Register and byte in it.
    pub src2: (u8, u32),
    /// Bits of src2's sub-register past a whole byte.
    pub src2_odd_bits: u32,
    /// Precision.
    pub src2_type: Precision,
    /// Of `bdpas` the scales of B and of A: register and byte in it; `None` for null.
    pub scales: Option<[Option<(u8, u32)>; 2]>,
    /// Options.
    pub options: Options,
}

impl Native {
    /// The terms of an instruction of [`TABLE`]; `None` for a row of another table or a type that
    /// does not exist.
    pub fn new(raw: &RawInst) -> Option<Native> {
        let row = TABLE.rows.get(raw.row)?;
        let &Form { float, fused, scaled } = Inst::FACTS.get(raw.row)?;
        if raw.values.len() != row.operands.len() {
            return None;
        }
        let expanded = scaled.then(|| standard(&raw.values));
        let values = expanded.as_ref().map_or(&raw.values[..], |values| &values[..]);
        let small = |index: usize| u32::try_from(values[index]).ok();
        let byte = |index: usize| u8::try_from(values[index]).ok();
        let acc = |index| acc_of(values[index], float);
        let factor = |index| precision_of(values[index], float);
        let (dst_type, src0_type) = (acc(DST_TYPE)?, acc(SRC0_TYPE)?);
        let src2_type = factor(SRC2_TYPE)?;
        let src0 = GrfOrNull(u16::try_from(values[SRC0]).ok()?).register();
        let src0_byte = small(SRC0_SUB)?.saturating_mul(src0_type.bytes());
        let src2_bit = small(SRC2_SUB)?.saturating_mul(src2_type.bits());
        Some(Native {
            fused,
            no_mask: values[NO_MASK] != 0,
            depth: 1 << small(DEPTH)?.min(3),
            repeat: small(REPEAT)?,
            lanes: 1 << small(LANES)?.min(5),
            offset: small(OFFSET)?,
            dst: (byte(DST)?, small(DST_SUB)?.saturating_mul(dst_type.bytes())),
            dst_type,
            src0: src0.map(|register| (register, src0_byte)),
            src0_type,
            src1: byte(SRC1)?,
            src1_type: factor(SRC1_TYPE)?,
            src2: (byte(SRC2)?, src2_bit / 8),
            src2_odd_bits: src2_bit % 8,
            src2_type,
            scales: scaled.then(|| scales(&raw.values)),
            options: Options(u32::try_from(values[OPTION_LIST]).ok()?),
        })
    }
}

impl Inst {
    /// The instruction in the terms of the machine.
    pub fn native(&self) -> Native {
        // Every value of the enum has a type; a test builds them all.
        Native::new(&self.to_raw()).expect("every instruction of the table has terms")
    }
}

/// The registers of scales and the bytes in them.
fn scales(values: &[i128]) -> [Option<(u8, u32)>; 2] {
    SCALES.map(|(register, sub, _)| {
        let number = GrfOrNull(u16::try_from(values[register]).ok()?).register()?;
        Some((number, u32::try_from(values[sub]).ok()?))
    })
}

fn acc_of(code: i128, float: bool) -> Option<Acc> {
    Some(match (float, code) {
        (false, 2) => Acc::Ud,
        (false, 6) => Acc::D,
        (true, 1) => Acc::Hf,
        (true, 2) => Acc::F,
        (true, 3) => Acc::Df,
        (true, 5) => Acc::Bf,
        _ => return None,
    })
}

fn precision_of(code: i128, float: bool) -> Option<Precision> {
    Some(match (float, code) {
        (false, 0) => Precision::U8,
        (false, 4) => Precision::S8,
        (false, 8) => Precision::U4,
        (false, 12) => Precision::S4,
        (false, 16) => Precision::U2,
        (false, 20) => Precision::S2,
        (false, 24) => Precision::U1,
        (false, 28) => Precision::S1,
        (true, 0) => Precision::Bf8,
        (true, 1) => Precision::Hf,
        (true, 3) => Precision::Df,
        (true, 4) => Precision::Hf8,
        (true, 5) => Precision::Bf,
        (true, 6) => Precision::Tf32,
        (true, 16) => Precision::E2m1,
        _ => return None,
    })
}
