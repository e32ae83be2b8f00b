//! The instruction table.
//!
//! Facts: `gemini`, `qiming`, `npu-measured` (`docs/bibliography.md`). What these leave open
//! is defined here and marked "ours". Text and machine code, ranges and the manual derive from
//! the rows; the syntax of a row is the text of its name and its fields exactly as files have it.

mod fields;
mod members;
mod number;
mod queue;

pub(crate) use members::lookup as enumeration_of;
pub use members::{
    ACCD, ActMode, CMPD, CMPS, DataFmt, DataSign, ENUMERATIONS, Enumeration, Float2Fixed, MG0S,
    QSMD, SG0M, SG1M, SUMM, SWRS, TREED, XCutMode, YCutMode,
};
pub use number::Number;
pub use queue::{Queue, Queues};

use fields::{
    Convert, DRAM, L2, L2_THRICE, L2_TWICE, Specs, WL0, dram, in_opcode, l2, member, number,
    other_queues, queues, s, times, u, wl0,
};
use quincunx_diag::Result;
use quincunx_isa::{
    Cursor, Custom, FieldSpec, Fixup, OperandValue as _, Piece, Row, Term, instructions,
};

/// A truth value, written as a word.
pub(crate) static TRUTH: Custom = Custom {
    name: "False or True",
    parse: |cursor: &mut Cursor<'_>| match (cursor.eat("False"), cursor.eat("True")) {
        (true, _) => Ok(0),
        (_, true) => Ok(1),
        _ => Err(cursor.expected("`False` or `True`")),
    },
    print: |value, out| out.push_str(if value == 0 { "False" } else { "True" }),
    legal: |value| value == 0 || value == 1,
    random: |below| i128::from(below(2)),
};

const fn truth() -> fields::Spec {
    member(&TRUTH, 1)
}

/// Expands the rows into the kit's table and the fields that follow from the widths.
macro_rules! rows {
    (
        $(
            $(#[doc = $row_doc:literal])+
            $name:ident = $mnemonic:literal $syntax:literal [$match_field:literal = $match_value:literal]
            {
                $( #[doc = $operand_doc:literal] $operand:ident : $type:ty = $spec:expr ),* $(,)?
            }
        )+
    ) => {
        /// Operands of every row in order.
        #[allow(non_upper_case_globals, reason = "named after the rows")]
        mod specs {
            use super::*;
            $( pub(super) const $name: &Specs = &[$( (stringify!($operand), $spec) ),*]; )+
        }

        /// Conversions of every row.
        #[allow(non_upper_case_globals, reason = "named after the rows")]
        mod fixups {
            use super::*;
            $(
                pub(super) const $name: Fixup = Fixup {
                    to_fields: |values, _| to_fields(specs::$name, values),
                    to_values: |values, _| to_values(specs::$name, values),
                };
            )+
        }

        static FIELDS: &[FieldSpec] = &[
            FieldSpec::unsigned("opcode", &[Piece::fixed(0, 8)]),
            FieldSpec::unsigned("opcode_high", &[Piece::fixed(2, 6)]),
            $($(
                FieldSpec {
                    name: concat!(stringify!($name), ".", stringify!($operand)),
                    pieces: &[Piece {
                        at: Term::Sum(&{
                            const BEFORE: [u32; 4] =
                                fields::before(specs::$name, stringify!($operand));
                            [
                                Term::Const(BEFORE[0]),
                                times(BEFORE[1], L2, L2_TWICE, L2_THRICE),
                                times(BEFORE[2], DRAM, DRAM, DRAM),
                                times(BEFORE[3], WL0, WL0, WL0),
                            ]
                        }),
                        width: { const SPEC: fields::Spec = $spec; fields::width(SPEC) },
                    }],
                    signed: { const SPEC: fields::Spec = $spec; SPEC.signed },
                    rest: 0,
                },
            )*)+
        ];

        instructions! {
            /// Instructions of an NPU with nine in-order queues. A line of a program is an instruction
            /// with its fields; `*_cfg` instructions set registers of their queue, the others use
            /// them. The lists `Prev_Insts` and `Next_Insts` order queues among each other. In the
            /// syntax, doubled braces and brackets stand for single ones.
            pub enum Inst, table TABLE = "npu";
            bits Term::Const(128); params ["wl0_address_bits", "dram_address_bits", "l2_address_bits"];
            fields FIELDS;
            $(
                $(#[doc = $row_doc])+
                $name = $mnemonic $syntax [$match_field = $match_value] fixup fixups::$name {
                    $(
                        #[doc = $operand_doc]
                        $operand: $type = {
                            const SPEC: fields::Spec = $spec;
                            fields::operand(concat!(stringify!($name), ".", stringify!($operand)), SPEC)
                        }
                    ),*
                }
            )+
        }
    };
}

fn to_fields(specs: &Specs, values: &mut [i128]) -> Result<()> {
    for ((_, spec), value) in specs.iter().zip(values) {
        match spec.convert {
            Convert::Keep => {}
            Convert::Number => {
                let single = Number::from_raw(*value).map_or(0.0, Number::single);
                *value = i128::from(single.to_bits());
            }
            Convert::Queues(first) => {
                let mask = i128::from(Queues::from_raw(*value).unwrap_or_default().mask());
                // A queue below the first bit leaves a fraction, which the field refuses.
                *value = if mask & ((1 << first) - 1) == 0 { mask >> first } else { -1 };
            }
        }
    }
    Ok(())
}

fn to_values(specs: &Specs, values: &mut [i128]) -> Result<()> {
    for ((name, spec), value) in specs.iter().zip(values) {
        match spec.convert {
            Convert::Keep => {}
            Convert::Number => {
                let single = f32::from_bits(*value as u32);
                let number = Number::real(f64::from(single)).ok_or_else(|| {
                    let message = format!("field {name} is {single}, expected a finite number");
                    quincunx_diag::Diagnostic::invalid("Q4006", message)
                })?;
                *value = number.to_raw();
            }
            Convert::Queues(first) => *value = Queues::of_mask((*value << first) as u16).to_raw(),
        }
    }
    Ok(())
}

/// The queue of a row.
pub fn queue_of(row: usize) -> Queue {
    TABLE.rows.get(row).and_then(|row| Queue::of_mnemonic(row.mnemonic)).unwrap_or(Queue::Ct)
}

rows! {
    /// Begins a task.
    CtSt = "ct_st" "ct_st {{'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 0] {
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Sets four regions of L2. A region is a ring: addresses wrap at its length.
    CtBc = "ct_bc" "ct_bc {{'BCS': {bcs}, 'BufCut': [[{len0}, {last0}, {len1}, {last1}, {len2}, {last2}, {len3}, {last3}]], 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode_high" = 4] {
        /// Which four: regions 4*BCS to 4*BCS+3; only 0 to 3 can be selected by instructions.
        bcs: u8 = in_opcode(0, 2),
        /// KiB of region 0 of the four; 0 with a last KiB stands for 8192.
        len0: u16 = u(13),
        /// Its last KiB; 0 with length 0: unused.
        last0: u16 = u(13),
        /// KiB of region 1 of the four; 0 with a last KiB stands for 8192.
        len1: u16 = u(13),
        /// Its last KiB; 0 with length 0: unused.
        last1: u16 = u(13),
        /// KiB of region 2 of the four; 0 with a last KiB stands for 8192.
        len2: u16 = u(13),
        /// Its last KiB; 0 with length 0: unused.
        last2: u16 = u(13),
        /// KiB of region 3 of the four; 0 with a last KiB stands for 8192.
        len3: u16 = u(13),
        /// Its last KiB; 0 with length 0: unused.
        last3: u16 = u(13),
        /// Queues from which it takes a token before it starts.
        prev: Queues = other_queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = other_queues(),
    }
    /// Configures lda_mov.
    LdaCfg = "lda_cfg" "lda_cfg {{'SME': {sme}, 'RS': {rs}, 'BAS': {bas}, 'DF': {df}, 'STile': [[{source_c}, {source_h}, {source_w}]], 'DTile': [[{dest_c}, {dest_h}, {dest_w}]]}}" ["opcode" = 32] {
        /// 1: the DRAM side is dense; 0: its pixels are padded to 8 bytes (ours).
        sme: u8 = u(1),
        /// Configuration register that is written.
        rs: u8 = u(1),
        /// DRAM base: 0 activations, 1 weights, 2 further data (ours); 3 is the L2 of another core (ours, lw_mov only).
        bas: u8 = u(2),
        /// Format of the elements.
        df: DataFmt = member(DataFmt::KIND, 3),
        /// Channels of the source tensor.
        source_c: u16 = u(14),
        /// Rows of the source tensor.
        source_h: u16 = u(12),
        /// Columns of the source tensor.
        source_w: u16 = u(12),
        /// Channels of the destination tensor.
        dest_c: u16 = u(14),
        /// Rows of the destination tensor.
        dest_h: u16 = u(12),
        /// Columns of the destination tensor.
        dest_w: u16 = u(12),
    }
    /// Configures ldw_mov.
    LdwCfg = "ldw_cfg" "ldw_cfg {{'RS': {rs}, 'BAS': {bas}, 'DF': {df}, 'MKC': {mkc}, 'MKEN': {mken}, 'SWsize': [[{source_c}, {source_r}, {source_s}]], 'DWsize': [[{dest_c}, {dest_r}, {dest_s}]]}}" ["opcode" = 33] {
        /// Configuration register that is written.
        rs: u8 = u(1),
        /// DRAM base: 0 activations, 1 weights, 2 further data (ours); 3 is the L2 of another core (ours, lw_mov only).
        bas: u8 = u(2),
        /// Format of the elements.
        df: DataFmt = member(DataFmt::KIND, 3),
        /// Masked channels: bit b stands for the input channels c with c mod 8 = b (ours).
        mkc: u8 = u(8),
        /// 1: weights of masked channels are loaded as 0 (ours).
        mken: u8 = u(1),
        /// Channels of one source row of weights.
        source_c: u16 = u(14),
        /// Kernel rows of one source row of weights.
        source_r: u8 = u(5),
        /// Kernel columns of one source row of weights.
        source_s: u8 = u(5),
        /// Channels of one destination row of weights.
        dest_c: u16 = u(14),
        /// Kernel rows of one destination row of weights.
        dest_r: u8 = u(5),
        /// Kernel columns of one destination row of weights.
        dest_s: u8 = u(5),
    }
    /// Copies activations from DRAM to L2.
    LdaMov = "lda_mov" "lda_mov {{'RS': {rs}, 'DBSG': {dbsg}, 'STaddr': {staddr}, 'DTaddr': {dtaddr}, 'Tile': [[{tile_n}, {tile_c}, {tile_h}, {tile_w}]], 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 40] {
        /// Configuration register that is used.
        rs: u8 = u(1),
        /// Region of the destination.
        dbsg: u8 = u(2),
        /// Source, bytes from the base.
        staddr: u32 = dram(),
        /// Destination, bytes in its region.
        dtaddr: i32 = l2(),
        /// Images of the block.
        tile_n: u8 = u(8),
        /// Channels of the block.
        tile_c: u16 = u(14),
        /// Rows of the block.
        tile_h: u16 = u(12),
        /// Columns of the block.
        tile_w: u16 = u(12),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Copies a block of weights from DRAM to L2.
    LdwMov = "ldw_mov" "ldw_mov {{'RS': {rs}, 'DBSG': {dbsg}, 'STaddr': {staddr}, 'DTaddr': {dtaddr}, 'Wsize': [[{size_k}, {size_c}, {size_r}, {size_s}]], 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 41] {
        /// Configuration register that is used.
        rs: u8 = u(1),
        /// Region of the destination.
        dbsg: u8 = u(2),
        /// Source, bytes from the base.
        staddr: u32 = dram(),
        /// Destination, bytes in its region.
        dtaddr: i32 = l2(),
        /// Output channels of the weight block.
        size_k: u16 = u(14),
        /// Channels of the weight block.
        size_c: u16 = u(14),
        /// Kernel rows of the weight block.
        size_r: u8 = u(5),
        /// Kernel columns of the weight block.
        size_s: u8 = u(5),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Configures siaa_mov. Fields are ours.
    SiSynCfg = "si_syn_cfg" "si_syn_cfg {{'CORE': {core}, 'SYN': {syn}, 'DF': {df}, 'STile': [[{source_c}, {source_h}, {source_w}]], 'DTile': [[{dest_c}, {dest_h}, {dest_w}]]}}" ["opcode" = 52] {
        /// The other core (ours).
        core: u8 = u(8),
        /// Bit 0: the move waits for a signal of the other core; bit 1: it signals the other core when it ends (ours).
        syn: u8 = u(2),
        /// Format of the elements.
        df: DataFmt = member(DataFmt::KIND, 3),
        /// Channels of the source tensor.
        source_c: u16 = u(14),
        /// Rows of the source tensor.
        source_h: u16 = u(12),
        /// Columns of the source tensor.
        source_w: u16 = u(12),
        /// Channels of the destination tensor.
        dest_c: u16 = u(14),
        /// Rows of the destination tensor.
        dest_h: u16 = u(12),
        /// Columns of the destination tensor.
        dest_w: u16 = u(12),
    }
    /// Copies activations or weights from the L2 of another core to this one. Fields are ours.
    SiaaMov = "siaa_mov" "siaa_mov {{'SBSG': {sbsg}, 'DBSG': {dbsg}, 'STaddr': {staddr}, 'DTaddr': {dtaddr}, 'Tile': [[{tile_n}, {tile_c}, {tile_h}, {tile_w}]], 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 56] {
        /// Region of the source.
        sbsg: u8 = u(2),
        /// Region of the destination.
        dbsg: u8 = u(2),
        /// Source, bytes in its region.
        staddr: i32 = l2(),
        /// Destination, bytes in its region.
        dtaddr: i32 = l2(),
        /// Images of the block.
        tile_n: u8 = u(8),
        /// Channels of the block.
        tile_c: u16 = u(14),
        /// Rows of the block.
        tile_h: u16 = u(12),
        /// Columns of the block.
        tile_w: u16 = u(12),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Configures lw_mov.
    LwCfg = "lw_cfg" "lw_cfg {{'BAS': {bas}, 'DF': {df}, 'MKC': {mkc}, 'MKEN': {mken}, 'SWsize': [[{source_c}, {source_r}, {source_s}]], 'DWsize': [[{dest_c}, {dest_r}, {dest_s}]]}}" ["opcode" = 65] {
        /// DRAM base: 0 activations, 1 weights, 2 further data (ours); 3 is the L2 of another core (ours, lw_mov only).
        bas: u8 = u(2),
        /// Format of the elements.
        df: DataFmt = member(DataFmt::KIND, 3),
        /// Masked channels: bit b stands for the input channels c with c mod 8 = b (ours).
        mkc: u8 = u(8),
        /// 1: weights of masked channels are loaded as 0 (ours).
        mken: u8 = u(1),
        /// Channels of one source row of weights.
        source_c: u16 = u(14),
        /// Kernel rows of one source row of weights.
        source_r: u8 = u(5),
        /// Kernel columns of one source row of weights.
        source_s: u8 = u(5),
        /// Channels of one destination row of weights.
        dest_c: u16 = u(14),
        /// Kernel rows of one destination row of weights.
        dest_r: u8 = u(5),
        /// Kernel columns of one destination row of weights.
        dest_s: u8 = u(5),
    }
    /// Copies a block of weights into the weight buffer WL0.
    LwMov = "lw_mov" "lw_mov {{'SS': {ss}, 'XYmode': [[{x_cut}, {y_cut}]], 'SBSG': {sbsg}, 'STaddr': {staddr}, 'DTaddr': {dtaddr}, 'Wsize': [[{size_k}, {size_c}, {size_r}, {size_s}]], 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 73] {
        /// Source: 0 this L2, 1 DRAM, or with BAS 3 the L2 of core STaddr / 2^24 at byte STaddr mod 2^24 (ours).
        ss: u8 = u(1),
        /// What the columns of the array divide.
        x_cut: XCutMode = member(XCutMode::KIND, 3),
        /// What the rows of the array divide.
        y_cut: YCutMode = member(YCutMode::KIND, 3),
        /// Region of the source.
        sbsg: u8 = u(2),
        /// Source, bytes from the base or in its region.
        staddr: u32 = dram(),
        /// Destination in units of WL0.
        dtaddr: u32 = wl0(),
        /// Output channels of the weight block.
        size_k: u16 = u(14),
        /// Channels of the weight block.
        size_c: u16 = u(14),
        /// Kernel rows of the weight block.
        size_r: u8 = u(5),
        /// Kernel columns of the weight block.
        size_s: u8 = u(5),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Configures sta_mov.
    StaCfg = "sta_cfg" "sta_cfg {{'SME': {sme}, 'RS': {rs}, 'BAS': {bas}, 'DF': {df}, 'STile': [[{source_c}, {source_h}, {source_w}]], 'DTile': [[{dest_c}, {dest_h}, {dest_w}]]}}" ["opcode" = 96] {
        /// 1: the DRAM side is dense; 0: its pixels are padded to 8 bytes (ours).
        sme: u8 = u(1),
        /// Configuration register that is written.
        rs: u8 = u(1),
        /// DRAM base: 0 activations, 1 weights, 2 further data (ours); 3 is the L2 of another core (ours, lw_mov only).
        bas: u8 = u(2),
        /// Format of the elements.
        df: DataFmt = member(DataFmt::KIND, 3),
        /// Channels of the source tensor.
        source_c: u16 = u(14),
        /// Rows of the source tensor.
        source_h: u16 = u(12),
        /// Columns of the source tensor.
        source_w: u16 = u(12),
        /// Channels of the destination tensor.
        dest_c: u16 = u(14),
        /// Rows of the destination tensor.
        dest_h: u16 = u(12),
        /// Columns of the destination tensor.
        dest_w: u16 = u(12),
    }
    /// Copies activations from L2 to DRAM.
    StaMov = "sta_mov" "sta_mov {{'RS': {rs}, 'SBSG': {sbsg}, 'STaddr': {staddr}, 'DTaddr': {dtaddr}, 'Tile': [[{tile_n}, {tile_c}, {tile_h}, {tile_w}]], 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 104] {
        /// Configuration register that is used.
        rs: u8 = u(1),
        /// Region of the source.
        sbsg: u8 = u(2),
        /// Source, bytes in its region.
        staddr: i32 = l2(),
        /// Destination, bytes from the base.
        dtaddr: u32 = dram(),
        /// Images of the block.
        tile_n: u8 = u(8),
        /// Channels of the block.
        tile_c: u16 = u(14),
        /// Rows of the block.
        tile_h: u16 = u(12),
        /// Columns of the block.
        tile_w: u16 = u(12),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Configures sopw_mov. Fields are ours.
    SoSynCfg = "so_syn_cfg" "so_syn_cfg {{'CORE': {core}, 'SYN': {syn}, 'DF': {df}, 'STile': [[{source_c}, {source_h}, {source_w}]], 'DTile': [[{dest_c}, {dest_h}, {dest_w}]]}}" ["opcode" = 116] {
        /// The other core (ours).
        core: u8 = u(8),
        /// Bit 0: the move waits for a signal of the other core; bit 1: it signals the other core when it ends (ours).
        syn: u8 = u(2),
        /// Format of the elements.
        df: DataFmt = member(DataFmt::KIND, 3),
        /// Channels of the source tensor.
        source_c: u16 = u(14),
        /// Rows of the source tensor.
        source_h: u16 = u(12),
        /// Columns of the source tensor.
        source_w: u16 = u(12),
        /// Channels of the destination tensor.
        dest_c: u16 = u(14),
        /// Rows of the destination tensor.
        dest_h: u16 = u(12),
        /// Columns of the destination tensor.
        dest_w: u16 = u(12),
    }
    /// Copies activations or weights from this core's L2 to that of another core. Fields are ours.
    SopwMov = "sopw_mov" "sopw_mov {{'SBSG': {sbsg}, 'DBSG': {dbsg}, 'STaddr': {staddr}, 'DTaddr': {dtaddr}, 'Tile': [[{tile_n}, {tile_c}, {tile_h}, {tile_w}]], 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 121] {
        /// Region of the source.
        sbsg: u8 = u(2),
        /// Region of the destination.
        dbsg: u8 = u(2),
        /// Source, bytes in its region.
        staddr: i32 = l2(),
        /// Destination, bytes in its region.
        dtaddr: i32 = l2(),
        /// Images of the block.
        tile_n: u8 = u(8),
        /// Channels of the block.
        tile_c: u16 = u(14),
        /// Rows of the block.
        tile_h: u16 = u(12),
        /// Columns of the block.
        tile_w: u16 = u(12),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Formats and tensors of convolutions.
    PeCfgFm = "pe_cfg_fm" "pe_cfg_fm {{'IF': {if_sign}, 'OF': {of_sign}, 'SF': {sf}, 'WF': {wf}, 'DF': {df}, 'PADV': {padv}, 'STile': [[{source_c}, {source_h}, {source_w}]], 'DTile': [[{dest_c}, {dest_h}, {dest_w}]]}}" ["opcode" = 128] {
        /// Sign of 8-bit inputs.
        if_sign: DataSign = member(DataSign::KIND, 1),
        /// Sign of 8-bit outputs.
        of_sign: DataSign = member(DataSign::KIND, 1),
        /// Format of the input; FP16 is refused.
        sf: DataFmt = member(DataFmt::KIND, 3),
        /// Format of the weights; FP16 is refused.
        wf: DataFmt = member(DataFmt::KIND, 3),
        /// Format of the output.
        df: DataFmt = member(DataFmt::KIND, 3),
        /// Code of positions outside the image.
        padv: Number = number(),
        /// Channels of the source tensor.
        source_c: u16 = u(14),
        /// Rows of the source tensor.
        source_h: u16 = u(12),
        /// Columns of the source tensor.
        source_w: u16 = u(12),
        /// Channels of the destination tensor.
        dest_c: u16 = u(14),
        /// Rows of the destination tensor.
        dest_h: u16 = u(12),
        /// Columns of the destination tensor.
        dest_w: u16 = u(12),
    }
    /// How ADDEN reads what is in the destination (ours): x = code * DQK + DQB.
    PeCfgDq = "pe_cfg_dq" "pe_cfg_dq {{'DQC': {dqc}, 'DQB': {dqb}, 'DQK': {dqk}}}" ["opcode" = 129] {
        /// 0: x stays; 1: negative x become 0 (ours); others are refused.
        dqc: u8 = u(2),
        /// Offset.
        dqb: Number = number(),
        /// Factor.
        dqk: Number = number(),
    }
    /// Arithmetic of convolutions.
    PeCfgPm = "pe_cfg_pm" "pe_cfg_pm {{'ACTMD': {actmd}, 'ACTPM': {actpm}, 'QC': {qc}, 'QB': {qb}, 'QK': {qk}, 'ADDEN': {adden}, 'STRIDE': [[{stride_h}, {stride_w}]], 'XYmode': [[{x_cut}, {y_cut}]]}}" ["opcode" = 130] {
        /// Activation function.
        actmd: ActMode = member(ActMode::KIND, 4),
        /// Its parameter: slope of LEAKY_RELU, limit of RELU_X (ours).
        actpm: Number = number(),
        /// Rounding of 8-bit outputs.
        qc: Float2Fixed = member(Float2Fixed::KIND, 2),
        /// Offset of 8-bit outputs.
        qb: Number = number(),
        /// Factor of 8-bit outputs.
        qk: Number = number(),
        /// 1: what is in the destination, read as pe_cfg_dq says, is added before the activation (ours).
        adden: u8 = u(1),
        /// Stride of rows.
        stride_h: u8 = u(4),
        /// Stride of columns.
        stride_w: u8 = u(4),
        /// What the columns of the array divide.
        x_cut: XCutMode = member(XCutMode::KIND, 3),
        /// What the rows of the array divide.
        y_cut: YCutMode = member(YCutMode::KIND, 3),
    }
    /// Parameters of pe_dicv, pe_decv and pe_gpcv. Fields are ours.
    PeCfgDe = "pe_cfg_de" "pe_cfg_de {{'DILATE': [[{dilate_h}, {dilate_w}]], 'INSERT': [[{insert_h}, {insert_w}]], 'GROUPS': {groups}}}" ["opcode" = 131] {
        /// Distance of kernel rows.
        dilate_h: u8 = u(4),
        /// Distance of kernel columns.
        dilate_w: u8 = u(4),
        /// Distance of input rows after zeros are inserted.
        insert_h: u8 = u(4),
        /// Distance of input columns.
        insert_w: u8 = u(4),
        /// Groups of channels.
        groups: u16 = u(14),
    }
    /// Tile of convolutions.
    PeCfgTp = "pe_cfg_tp" "pe_cfg_tp {{'KERNEL': [[{kernel_r}, {kernel_s}]], 'Tile': [[{tile_n}, {tile_k}, {tile_c}, {tile_h}, {tile_w}]], 'MTK0': {mtk0}, 'MTC0': {mtc0}, 'MTI': [[{mti_h}, {mti_w}]]}}" ["opcode" = 132] {
        /// Kernel rows.
        kernel_r: u8 = u(5),
        /// Kernel columns.
        kernel_s: u8 = u(5),
        /// Images of the tile.
        tile_n: u8 = u(8),
        /// Output channels of the tile.
        tile_k: u16 = u(14),
        /// Channels of the tile.
        tile_c: u16 = u(14),
        /// Rows of the tile.
        tile_h: u16 = u(12),
        /// Columns of the tile.
        tile_w: u16 = u(12),
        /// Output channels of a mini tile in units of 8.
        mtk0: u8 = u(4),
        /// Input channels of a mini tile in words of 8 bytes.
        mtc0: u16 = u(10),
        /// Output rows of a mini tile minus 1.
        mti_h: u8 = u(5),
        /// Output columns of a mini tile minus 1.
        mti_w: u8 = u(5),
    }
    /// Convolves a tile.
    PeConv = "pe_conv" "pe_conv {{'PS': {ps}, 'SPHI': {sphi}, 'SPWI': {spwi}, 'SBSG': {sbsg}, 'DBSG': {dbsg}, 'STaddr': {staddr}, 'SWaddr': {swaddr}, 'DTaddr': {dtaddr}, 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 144] {
        /// Block of 8 input channels that is summed first; visible in f32 accumulation only (ours).
        ps: u8 = u(4),
        /// First input row; negative rows are padding.
        sphi: i8 = s(5),
        /// First input column; negative columns are padding.
        spwi: i8 = s(5),
        /// Region of the source.
        sbsg: u8 = u(2),
        /// Region of the destination.
        dbsg: u8 = u(2),
        /// Byte of input position (SPHI, SPWI), which may lie in front of the tensor.
        staddr: i32 = l2(),
        /// Weights, in units of WL0.
        swaddr: u32 = wl0(),
        /// Destination, bytes in its region.
        dtaddr: i32 = l2(),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Convolves with a kernel whose points lie DILATE apart (ours).
    PeDicv = "pe_dicv" "pe_dicv {{'PS': {ps}, 'SPHI': {sphi}, 'SPWI': {spwi}, 'SBSG': {sbsg}, 'DBSG': {dbsg}, 'STaddr': {staddr}, 'SWaddr': {swaddr}, 'DTaddr': {dtaddr}, 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 145] {
        /// Block of 8 input channels that is summed first; visible in f32 accumulation only (ours).
        ps: u8 = u(4),
        /// First input row; negative rows are padding.
        sphi: i8 = s(5),
        /// First input column; negative columns are padding.
        spwi: i8 = s(5),
        /// Region of the source.
        sbsg: u8 = u(2),
        /// Region of the destination.
        dbsg: u8 = u(2),
        /// Byte of input position (SPHI, SPWI), which may lie in front of the tensor.
        staddr: i32 = l2(),
        /// Weights, in units of WL0.
        swaddr: u32 = wl0(),
        /// Destination, bytes in its region.
        dtaddr: i32 = l2(),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Convolves an input between whose points zeros are inserted, so that they lie INSERT apart: a transposed convolution (ours).
    PeDecv = "pe_decv" "pe_decv {{'PS': {ps}, 'SPHI': {sphi}, 'SPWI': {spwi}, 'SBSG': {sbsg}, 'DBSG': {dbsg}, 'STaddr': {staddr}, 'SWaddr': {swaddr}, 'DTaddr': {dtaddr}, 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 146] {
        /// Block of 8 input channels that is summed first; visible in f32 accumulation only (ours).
        ps: u8 = u(4),
        /// First input row; negative rows are padding.
        sphi: i8 = s(5),
        /// First input column; negative columns are padding.
        spwi: i8 = s(5),
        /// Region of the source.
        sbsg: u8 = u(2),
        /// Region of the destination.
        dbsg: u8 = u(2),
        /// Byte of input position (SPHI, SPWI), which may lie in front of the tensor.
        staddr: i32 = l2(),
        /// Weights, in units of WL0.
        swaddr: u32 = wl0(),
        /// Destination, bytes in its region.
        dtaddr: i32 = l2(),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Convolves GROUPS groups of channels separately (ours).
    PeGpcv = "pe_gpcv" "pe_gpcv {{'PS': {ps}, 'SPHI': {sphi}, 'SPWI': {spwi}, 'SBSG': {sbsg}, 'DBSG': {dbsg}, 'STaddr': {staddr}, 'SWaddr': {swaddr}, 'DTaddr': {dtaddr}, 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 147] {
        /// Block of 8 input channels that is summed first; visible in f32 accumulation only (ours).
        ps: u8 = u(4),
        /// First input row; negative rows are padding.
        sphi: i8 = s(5),
        /// First input column; negative columns are padding.
        spwi: i8 = s(5),
        /// Region of the source.
        sbsg: u8 = u(2),
        /// Region of the destination.
        dbsg: u8 = u(2),
        /// Byte of input position (SPHI, SPWI), which may lie in front of the tensor.
        staddr: i32 = l2(),
        /// Weights, in units of WL0.
        swaddr: u32 = wl0(),
        /// Destination, bytes in its region.
        dtaddr: i32 = l2(),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Fully connected layer: the kernel covers the source tensor, the output has one position (ours).
    PeFc = "pe_fc" "pe_fc {{'PS': {ps}, 'SPHI': {sphi}, 'SPWI': {spwi}, 'SBSG': {sbsg}, 'DBSG': {dbsg}, 'STaddr': {staddr}, 'SWaddr': {swaddr}, 'DTaddr': {dtaddr}, 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 148] {
        /// Block of 8 input channels that is summed first; visible in f32 accumulation only (ours).
        ps: u8 = u(4),
        /// First input row; negative rows are padding.
        sphi: i8 = s(5),
        /// First input column; negative columns are padding.
        spwi: i8 = s(5),
        /// Region of the source.
        sbsg: u8 = u(2),
        /// Region of the destination.
        dbsg: u8 = u(2),
        /// Byte of input position (SPHI, SPWI), which may lie in front of the tensor.
        staddr: i32 = l2(),
        /// Weights, in units of WL0.
        swaddr: u32 = wl0(),
        /// Destination, bytes in its region.
        dtaddr: i32 = l2(),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Configures dt_cal.
    DtCfg = "dt_cfg" "dt_cfg {{'DF': {df}, 'STile': [[{source_c}, {source_h}, {source_w}]], 'DTile': [[{dest_c}, {dest_h}, {dest_w}]]}}" ["opcode" = 160] {
        /// Format of the elements.
        df: DataFmt = member(DataFmt::KIND, 3),
        /// Channels of the source tensor.
        source_c: u16 = u(14),
        /// Rows of the source tensor.
        source_h: u16 = u(12),
        /// Columns of the source tensor.
        source_w: u16 = u(12),
        /// Channels of the destination tensor.
        dest_c: u16 = u(14),
        /// Rows of the destination tensor.
        dest_h: u16 = u(12),
        /// Columns of the destination tensor.
        dest_w: u16 = u(12),
    }
    /// Copies tensors inside L2 and reorders their axes.
    DtCal = "dt_cal" "dt_cal {{'Order': {order}, 'SBSG': {sbsg}, 'DBSG': {dbsg}, 'STaddr': {staddr}, 'DTaddr': {dtaddr}, 'Tile': [[{tile_n}, {tile_c}, {tile_h}, {tile_w}]], 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 168] {
        /// Order of the axes in memory: 0 HWC (a copy); ours: 1 WHC, 2 HCW, 3 CHW, 4 WCH, 5 CWH; others are refused.
        order: u8 = u(4),
        /// Region of the source.
        sbsg: u8 = u(2),
        /// Region of the destination.
        dbsg: u8 = u(2),
        /// Source, bytes in its region.
        staddr: i32 = l2(),
        /// Destination, bytes in its region.
        dtaddr: i32 = l2(),
        /// Images of the block.
        tile_n: u8 = u(8),
        /// Channels of the block.
        tile_c: u16 = u(14),
        /// Rows of the block.
        tile_h: u16 = u(12),
        /// Columns of the block.
        tile_w: u16 = u(12),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Formats and tensors of vector instructions.
    VpCfgFm = "vp_cfg_fm" "vp_cfg_fm {{'IF': {if_sign}, 'OF': {of_sign}, 'IDF': {idf}, 'ODF': {odf}, 'VF32': {vf32}, 'STile': [[{source_c}, {source_h}, {source_w}]], 'DTile': [[{dest_c}, {dest_h}, {dest_w}]]}}" ["opcode" = 192] {
        /// Sign of 8-bit inputs.
        if_sign: DataSign = member(DataSign::KIND, 1),
        /// Sign of 8-bit outputs.
        of_sign: DataSign = member(DataSign::KIND, 1),
        /// Format of the inputs.
        idf: DataFmt = member(DataFmt::KIND, 3),
        /// Format of the output.
        odf: DataFmt = member(DataFmt::KIND, 3),
        /// 1: FP16 stands for single precision, 4 bytes (ours).
        vf32: u8 = u(1),
        /// Channels of the source tensor.
        source_c: u16 = u(14),
        /// Rows of the source tensor.
        source_h: u16 = u(12),
        /// Columns of the source tensor.
        source_w: u16 = u(12),
        /// Channels of the destination tensor.
        dest_c: u16 = u(14),
        /// Rows of the destination tensor.
        dest_h: u16 = u(12),
        /// Columns of the destination tensor.
        dest_w: u16 = u(12),
    }
    /// Compare module and sum group 0.
    VpCfgGcs = "vp_cfg_gcs" "vp_cfg_gcs {{'CMPS': {cmps}, 'SG0M': {sg0m}, 'CMPVS': {cmpvs}, 'SG0VS': {sg0vs}, 'SG0V': {sg0v}, 'CMPV': {cmpv}}}" ["opcode" = 193] {
        /// What compare keeps.
        cmps: CMPS = member(CMPS::KIND, 2),
        /// Calculation of sum group 0.
        sg0m: SG0M = member(SG0M::KIND, 2),
        /// Scalar of compare: 0 the immediate, r scalar register r.
        cmpvs: u8 = u(2),
        /// Scalar of sum group 0: 0 the immediate, r scalar register r.
        sg0vs: u8 = u(2),
        /// Immediate of sum group 0.
        sg0v: Number = number(),
        /// Immediate of compare.
        cmpv: Number = number(),
    }
    /// Multiplication group 0 and sum group 1.
    VpCfgGms = "vp_cfg_gms" "vp_cfg_gms {{'USED': {used}, 'SEGE': {sege}, 'SEGN': {segn}, 'MG0S': {mg0s}, 'SG1M': {sg1m}, 'MG0VS': {mg0vs}, 'SG1VS': {sg1vs}, 'SG1V': {sg1v}, 'MG0V': {mg0v}}}" ["opcode" = 194] {
        /// Whether SEGE and SEGN are used.
        used: bool = truth(),
        /// 1: both groups work on the first SEGN channels only (ours).
        sege: u8 = u(1),
        /// Channels of the segment.
        segn: u8 = u(8),
        /// Second factor.
        mg0s: MG0S = member(MG0S::KIND, 2),
        /// Calculation of sum group 1.
        sg1m: SG1M = member(SG1M::KIND, 2),
        /// Scalar of multiplication group 0: 0 the immediate, r scalar register r.
        mg0vs: u8 = u(2),
        /// Scalar of sum group 1: 0 the immediate, r scalar register r.
        sg1vs: u8 = u(2),
        /// Immediate of sum group 1.
        sg1v: Number = number(),
        /// Immediate of multiplication group 0.
        mg0v: Number = number(),
    }
    /// Scalar module: x * MUL + SUM.
    VpCfgSms = "vp_cfg_sms" "vp_cfg_sms {{'SUMM': {summ}, 'MULVS': {mulvs}, 'SUMVS': {sumvs}, 'SUMV': {sumv}, 'MULV': {mulv}}}" ["opcode" = 195] {
        /// Calculation of the sum.
        summ: SUMM = member(SUMM::KIND, 2),
        /// Scalar of the factor: 0 the immediate, r scalar register r.
        mulvs: u8 = u(2),
        /// Scalar of the sum: 0 the immediate, r scalar register r.
        sumvs: u8 = u(2),
        /// Immediate of the sum.
        sumv: Number = number(),
        /// Immediate of the factor.
        mulv: Number = number(),
    }
    /// Quantiser of the output: x * QK + QB.
    VpCfgQp = "vp_cfg_qp" "vp_cfg_qp {{'QCS': {qcs}, 'QSMD': {qsmd}, 'QB': {qb}, 'QK': {qk}}}" ["opcode" = 196] {
        /// Rounding.
        qcs: Float2Fixed = member(Float2Fixed::KIND, 2),
        /// How the offset is applied.
        qsmd: QSMD = member(QSMD::KIND, 2),
        /// Offset.
        qb: Number = number(),
        /// Factor.
        qk: Number = number(),
    }
    /// Dequantiser of tensor 0: code * IQK0 + IQB0.
    VpCfgIq = "vp_cfg_iq" "vp_cfg_iq {{'IQCS': {iqcs}, 'IQB0': {iqb0}, 'IQK0': {iqk0}}}" ["opcode" = 197] {
        /// Conversion mode; only 0 is defined, others are refused.
        iqcs: u8 = u(2),
        /// Offset.
        iqb0: Number = number(),
        /// Factor.
        iqk0: Number = number(),
    }
    /// Dequantiser of tensor 1: code * IQK1 + IQB1.
    VpCfgIq1 = "vp_cfg_iq1" "vp_cfg_iq1 {{'IQB1': {iqb1}, 'IQK1': {iqk1}}}" ["opcode" = 198] {
        /// Offset.
        iqb1: Number = number(),
        /// Factor.
        iqk1: Number = number(),
    }
    /// Tile of vector instructions.
    VpCfgTp = "vp_cfg_tp" "vp_cfg_tp {{'STRIDE': [[{stride_h}, {stride_w}]], 'KERNEL': [[{kernel_h}, {kernel_w}]], 'Tile': [[{tile_c}, {tile_h}, {tile_w}]], 'T1F': {t1f}, 'T0F': {t0f}, 'PADV_AREA': {padv_area}}}" ["opcode" = 199] {
        /// Stride of rows.
        stride_h: u8 = u(4),
        /// Stride of columns.
        stride_w: u8 = u(4),
        /// Rows of the window.
        kernel_h: u8 = u(6),
        /// Columns of the window.
        kernel_w: u8 = u(6),
        /// Channels of the output.
        tile_c: u16 = u(14),
        /// Rows of the output.
        tile_h: u16 = u(12),
        /// Columns of the output.
        tile_w: u16 = u(12),
        /// Axes of tensor 1: bit 2 rows, bit 1 columns, bit 0 channels; an axis without its bit has one entry that counts for all (ours). 0: there is no tensor 1.
        t1f: u8 = u(3),
        /// Axes of tensor 0, as T1F; 0 is refused.
        t0f: u8 = u(3),
        /// Value of positions outside the image; -32768: they are left out, vp_upsm takes the nearest inside (ours).
        padv_area: i16 = s(16),
    }
    /// Works on one image, position by position.
    VpSelf = "vp_self" "vp_self {{'IQEN': {iqen}, 'QEN': {qen}, 'SHMD': {shmd}, 'GPMD': {gpmd}, 'CMPD': {cmpd}, 'TREED': {treed}, 'ACCD': {accd}, 'TM': {tm}, 'SWRS': {swrs}, 'LUT': {lut}, 'SBSG': {sbsg}, 'SBSG1': {sbsg1}, 'DBSG': {dbsg}, 'STaddr': {staddr}, 'STaddr1': {staddr1}, 'DTaddr': {dtaddr}, 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 200] {
        /// 1: inputs are dequantised.
        iqen: u8 = u(1),
        /// Quantiser of the output: bit 0 the factor, bit 1 the offset (the bits are ours).
        qen: u8 = u(2),
        /// The result is divided by 2^SHMD before the quantiser (ours).
        shmd: u8 = u(2),
        /// Groups: 4 tensor 0, 1 tensor 1, 64 ReLU after sum group 0, 2 sum group 1 (bits are ours); others are refused.
        gpmd: u8 = u(8),
        /// Axes of compare.
        cmpd: CMPD = member(CMPD::KIND, 3),
        /// Axes of the adder tree.
        treed: TREED = member(TREED::KIND, 3),
        /// Axes of the accumulator.
        accd: ACCD = member(ACCD::KIND, 3),
        /// Transposition; only 0 is defined, others are refused.
        tm: u8 = u(2),
        /// Scalar register for the scalar result: the extreme of all results if compare is on, else their f32 sum (ours).
        swrs: SWRS = member(SWRS::KIND, 3),
        /// Entry of the predefined table of module sets: 16 quantiser, 1 compare, 2 sum group 0, 8 multiplication group 0, 32 accumulator, 4 scalar module (bits are ours).
        lut: u8 = u(6),
        /// Region of the source.
        sbsg: u8 = u(2),
        /// Region of tensor 1.
        sbsg1: u8 = u(2),
        /// Region of the destination.
        dbsg: u8 = u(2),
        /// Tensor 0, bytes in its region.
        staddr: i32 = l2(),
        /// Tensor 1, bytes in its region.
        staddr1: i32 = l2(),
        /// Destination, bytes in its region.
        dtaddr: i32 = l2(),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Enlarges an image: output row h is input row IPH + h / STRIDE, columns alike. Fields are ours.
    VpUpsm = "vp_upsm" "vp_upsm {{'IQEN': {iqen}, 'QEN': {qen}, 'SHMD': {shmd}, 'GPMD': {gpmd}, 'CMPD': {cmpd}, 'TREED': {treed}, 'ACCD': {accd}, 'SWRS': {swrs}, 'LUT': {lut}, 'IPH': {iph}, 'IPW': {ipw}, 'SBSG': {sbsg}, 'DBSG': {dbsg}, 'STaddr': {staddr}, 'DTaddr': {dtaddr}, 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 201] {
        /// 1: inputs are dequantised.
        iqen: u8 = u(1),
        /// Quantiser of the output: bit 0 the factor, bit 1 the offset (the bits are ours).
        qen: u8 = u(2),
        /// The result is divided by 2^SHMD before the quantiser (ours).
        shmd: u8 = u(2),
        /// Groups: 4 tensor 0, 1 tensor 1, 64 ReLU after sum group 0, 2 sum group 1 (bits are ours); others are refused.
        gpmd: u8 = u(8),
        /// Axes of compare.
        cmpd: CMPD = member(CMPD::KIND, 3),
        /// Axes of the adder tree.
        treed: TREED = member(TREED::KIND, 3),
        /// Axes of the accumulator.
        accd: ACCD = member(ACCD::KIND, 3),
        /// Scalar register for the scalar result: the extreme of all results if compare is on, else their f32 sum (ours).
        swrs: SWRS = member(SWRS::KIND, 3),
        /// Entry of the predefined table of module sets: 16 quantiser, 1 compare, 2 sum group 0, 8 multiplication group 0, 32 accumulator, 4 scalar module (bits are ours).
        lut: u8 = u(6),
        /// First input row.
        iph: i8 = s(6),
        /// First input column.
        ipw: i8 = s(6),
        /// Region of the source.
        sbsg: u8 = u(2),
        /// Region of the destination.
        dbsg: u8 = u(2),
        /// Byte of input position (IPH, IPW), which may lie in front of the tensor.
        staddr: i32 = l2(),
        /// Destination, bytes in its region.
        dtaddr: i32 = l2(),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Reduces windows of one image.
    VpPool = "vp_pool" "vp_pool {{'IQEN': {iqen}, 'QEN': {qen}, 'SHMD': {shmd}, 'GPMD': {gpmd}, 'CMPD': {cmpd}, 'TREED': {treed}, 'ACCD': {accd}, 'SWRS': {swrs}, 'LUT': {lut}, 'IPH': {iph}, 'IPW': {ipw}, 'SBSG': {sbsg}, 'DBSG': {dbsg}, 'STaddr': {staddr}, 'DTaddr': {dtaddr}, 'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 202] {
        /// 1: inputs are dequantised.
        iqen: u8 = u(1),
        /// Quantiser of the output: bit 0 the factor, bit 1 the offset (the bits are ours).
        qen: u8 = u(2),
        /// The result is divided by 2^SHMD before the quantiser (ours).
        shmd: u8 = u(2),
        /// Groups: 4 tensor 0, 1 tensor 1, 64 ReLU after sum group 0, 2 sum group 1 (bits are ours); others are refused.
        gpmd: u8 = u(8),
        /// Axes of compare.
        cmpd: CMPD = member(CMPD::KIND, 3),
        /// Axes of the adder tree.
        treed: TREED = member(TREED::KIND, 3),
        /// Axes of the accumulator.
        accd: ACCD = member(ACCD::KIND, 3),
        /// Scalar register for the scalar result: the extreme of all results if compare is on, else their f32 sum (ours).
        swrs: SWRS = member(SWRS::KIND, 3),
        /// Entry of the predefined table of module sets: 16 quantiser, 1 compare, 2 sum group 0, 8 multiplication group 0, 32 accumulator, 4 scalar module (bits are ours).
        lut: u8 = u(6),
        /// First input row.
        iph: i8 = s(6),
        /// First input column.
        ipw: i8 = s(6),
        /// Region of the source.
        sbsg: u8 = u(2),
        /// Region of the destination.
        dbsg: u8 = u(2),
        /// Byte of input position (IPH, IPW), which may lie in front of the tensor.
        staddr: i32 = l2(),
        /// Destination, bytes in its region.
        dtaddr: i32 = l2(),
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
    /// Ends a task.
    CtEd = "ct_ed" "ct_ed {{'Prev_Insts': {prev}, 'Next_Insts': {next}}}" ["opcode" = 255] {
        /// Queues from which it takes a token before it starts.
        prev: Queues = queues(),
        /// Queues to which it gives a token when it ends.
        next: Queues = queues(),
    }
}

impl Inst {
    /// The queues of which the instruction takes a token, and those to which it gives one; `None`
    /// for instructions without lists.
    pub fn tokens(&self) -> Option<(Queues, Queues)> {
        let lists = self.operands_of::<Queues>();
        Some((*lists.first()?, *lists.get(1)?))
    }

    /// The queue that executes the instruction.
    pub fn queue(&self) -> Queue {
        queue_of(self.row())
    }

    /// The row of the table.
    pub fn spec(&self) -> &'static Row {
        &TABLE.rows[self.row()]
    }

    /// The name in text.
    pub fn mnemonic(&self) -> &'static str {
        self.spec().mnemonic
    }

    /// True for instructions that set registers and carry no tokens.
    pub fn is_config(&self) -> bool {
        self.mnemonic().contains("_cfg")
    }

    /// The same instruction with other lists; instructions without lists stay as they are.
    #[must_use]
    pub fn with_tokens(&self, prev: Queues, next: Queues) -> Inst {
        let mut lists = [prev, next].into_iter();
        let mut inst = *self;
        inst.visit_operands(|list| *list = lists.next().unwrap_or(*list));
        inst
    }
}
