//! Small programs made of instructions: what the cases of costs and of operators are run as.

use super::Check;
use quincunx_npu::isa::{
    ACCD, ActMode, CMPD, CMPS, DataFmt, DataSign, Float2Fixed, Inst, MG0S, Number, QSMD, Queues,
    SG0M, SG1M, SUMM, SWRS, TREED, XCutMode, YCutMode,
};
use quincunx_npu::program::{Line, Map, Program};
use serde_json::Value;

pub(super) fn extents<const N: usize>(case: &Value, key: &str) -> Check<[u16; N]> {
    let list = case.get(key).and_then(Value::as_array).ok_or_else(|| format!("no list {key}"))?;
    let list: Option<Vec<u16>> = list.iter().map(|n| u16::try_from(n.as_u64()?).ok()).collect();
    list.and_then(|list| list.try_into().ok()).ok_or_else(|| format!("{key} has another length"))
}

pub(super) fn word<'a>(case: &'a Value, key: &str) -> Check<&'a str> {
    case.get(key).and_then(Value::as_str).ok_or_else(|| format!("no text {key}"))
}

pub(super) fn number(case: &Value, key: &str) -> Check<f64> {
    case.get(key).and_then(Value::as_f64).ok_or_else(|| format!("no number {key}"))
}

pub(super) fn real(value: f64) -> Number {
    Number::real(value).unwrap_or(Number::whole(0))
}

pub(super) fn format(name: &str) -> DataFmt {
    if name == "FP16" { DataFmt::FP16 } else { DataFmt::INT8 }
}

/// Lines of one workload, without tokens.
pub(super) fn program(insts: Vec<Inst>) -> Program {
    let map = Map { wkl: 0, ..Map::none() };
    let line = |inst| Line { inst, map: Some(map.clone()), time: None };
    Program { lines: insts.into_iter().map(line).collect(), spellings: Vec::new() }
}

/// Everything about a convolution that its tile's cycles and results depend on.
pub(super) struct ConvCase {
    pub(super) source: [u16; 3],
    pub(super) dest: [u16; 3],
    pub(super) tile: [u16; 5],
    pub(super) kernel: [u8; 2],
    pub(super) stride: [u8; 2],
    pub(super) mini: (u8, u16, [u8; 2]),
    pub(super) y_cut: YCutMode,
    pub(super) start: [i8; 2],
    pub(super) pad: f64,
    pub(super) relu: bool,
    pub(super) quantiser: (f64, f64),
    pub(super) output: DataFmt,
    pub(super) places: (i32, i32),
}

pub(super) fn conv(case: &ConvCase) -> Vec<Inst> {
    let [source_c, source_h, source_w] = case.source;
    let [dest_c, dest_h, dest_w] = case.dest;
    let [tile_n, tile_k, tile_c, tile_h, tile_w] = case.tile;
    vec![
        Inst::PeCfgFm {
            if_sign: DataSign::SIGNED,
            of_sign: DataSign::SIGNED,
            sf: DataFmt::INT8,
            wf: DataFmt::INT8,
            df: case.output,
            padv: real(case.pad),
            source_c,
            source_h,
            source_w,
            dest_c,
            dest_h,
            dest_w,
        },
        Inst::PeCfgPm {
            actmd: if case.relu { ActMode::RELU } else { ActMode::DISABLE },
            actpm: real(0.0),
            qc: Float2Fixed::ROUND,
            qb: real(case.quantiser.1),
            qk: real(case.quantiser.0),
            adden: 0,
            stride_h: case.stride[0],
            stride_w: case.stride[1],
            x_cut: XCutMode::CUT_K,
            y_cut: case.y_cut,
        },
        Inst::PeCfgTp {
            kernel_r: case.kernel[0],
            kernel_s: case.kernel[1],
            tile_n: tile_n as u8,
            tile_k,
            tile_c,
            tile_h,
            tile_w,
            mtk0: case.mini.0,
            mtc0: case.mini.1,
            mti_h: case.mini.2[0],
            mti_w: case.mini.2[1],
        },
        Inst::PeConv {
            ps: 0,
            sphi: case.start[0],
            spwi: case.start[1],
            sbsg: 0,
            dbsg: 0,
            staddr: case.places.0,
            swaddr: 0,
            dtaddr: case.places.1,
            prev: Queues::NONE,
            next: Queues::NONE,
        },
    ]
}

/// Everything about a vector instruction.
pub(super) struct VectorCase {
    pub(super) pool: bool,
    pub(super) formats: [DataFmt; 2],
    pub(super) source: [u16; 3],
    pub(super) tile: [u16; 3],
    pub(super) window: [u8; 2],
    pub(super) stride: u8,
    pub(super) pad: i8,
    pub(super) two: bool,
    pub(super) relu: bool,
    pub(super) max: bool,
    pub(super) dequantise: bool,
    pub(super) first: (f64, f64),
    pub(super) second: (f64, f64),
    pub(super) mean: f64,
    pub(super) quantiser: (f64, f64),
    pub(super) places: (i32, i32, i32),
}

#[expect(clippy::too_many_lines, reason = "long instructions")]
pub(super) fn vector(case: &VectorCase) -> Vec<Inst> {
    let [source_c, source_h, source_w] = case.source;
    let [dest_c, dest_h, dest_w] = case.tile;
    let zero = Number::whole(0);
    let half = case.formats[1] == DataFmt::FP16;
    let mut insts = vec![
        Inst::VpCfgGcs {
            cmps: if case.max { CMPS::MAX } else { CMPS::DEFAULT },
            sg0m: SG0M::DEFAULT,
            cmpvs: 0,
            sg0vs: 0,
            sg0v: zero,
            cmpv: zero,
        },
        Inst::VpCfgGms {
            used: false,
            sege: 0,
            segn: 0,
            mg0s: MG0S::DEFAULT,
            sg1m: SG1M::DEFAULT,
            mg0vs: 0,
            sg1vs: 0,
            sg1v: zero,
            mg0v: real(case.mean),
        },
        Inst::VpCfgSms { summ: SUMM::DEFAULT, mulvs: 0, sumvs: 0, sumv: zero, mulv: zero },
        Inst::VpCfgQp {
            qcs: if half { Float2Fixed::CEIL } else { Float2Fixed::ROUND },
            qsmd: QSMD::DEFAULT,
            qb: real(case.quantiser.1),
            qk: real(case.quantiser.0),
        },
        Inst::VpCfgIq { iqcs: 0, iqb0: real(case.first.1), iqk0: real(case.first.0) },
        Inst::VpCfgIq1 { iqb1: real(case.second.1), iqk1: real(case.second.0) },
        Inst::VpCfgFm {
            if_sign: DataSign::SIGNED,
            of_sign: DataSign::SIGNED,
            idf: case.formats[0],
            odf: case.formats[1],
            vf32: 0,
            source_c,
            source_h,
            source_w,
            dest_c,
            dest_h,
            dest_w,
        },
        Inst::VpCfgTp {
            stride_h: case.stride,
            stride_w: case.stride,
            kernel_h: case.window[0],
            kernel_w: case.window[1],
            tile_c: dest_c,
            tile_h: dest_h,
            tile_w: dest_w,
            t1f: if case.two { 7 } else { 0 },
            t0f: 7,
            padv_area: if case.max { i16::MIN } else { 0 },
        },
    ];
    let (iqen, lut) = match (case.pool, case.max, case.two) {
        (true, true, _) => (1, 17),
        (true, false, _) => (1, 56),
        (_, _, true) => (1, 18),
        _ => (u8::from(case.dequantise), 16),
    };
    let gpmd = if case.two { 5 + if case.relu { 64 } else { 0 } } else { 4 };
    let (staddr, staddr1, dtaddr) = case.places;
    let (prev, next) = (Queues::NONE, Queues::NONE);
    let (cmpd, treed, accd, swrs) = (CMPD::DEFAULT, TREED::DEFAULT, ACCD::DEFAULT, SWRS::DEFAULT);
    let (qen, shmd, sbsg, sbsg1, dbsg, tm) = (3, 0, 0, 0, 0, 0);
    insts.push(match case.pool {
        true => Inst::VpPool {
            iqen,
            qen,
            shmd,
            gpmd,
            cmpd,
            treed,
            accd,
            swrs,
            lut,
            iph: -case.pad,
            ipw: -case.pad,
            sbsg,
            dbsg,
            staddr,
            dtaddr,
            prev,
            next,
        },
        false => Inst::VpSelf {
            iqen,
            qen,
            shmd,
            gpmd,
            cmpd,
            treed,
            accd,
            tm,
            swrs,
            lut,
            sbsg,
            sbsg1,
            dbsg,
            staddr,
            staddr1,
            dtaddr,
            prev,
            next,
        },
    });
    insts
}

/// Weights from DRAM base 1.
pub(super) fn lw(size_k: u16, [size_c, r, s]: [u16; 3], staddr: u32) -> Vec<Inst> {
    let (size_r, size_s) = (r as u8, s as u8);
    let (source_c, source_r, source_s) = (size_c, size_r, size_s);
    let (dest_c, dest_r, dest_s) = (size_c, size_r, size_s);
    vec![
        Inst::LwCfg {
            bas: 1,
            df: DataFmt::INT8,
            mkc: 0,
            mken: 0,
            source_c,
            source_r,
            source_s,
            dest_c,
            dest_r,
            dest_s,
        },
        Inst::LwMov {
            ss: 1,
            x_cut: XCutMode::CUT_K,
            y_cut: YCutMode::CUT_H,
            sbsg: 0,
            staddr,
            dtaddr: 0,
            size_k,
            size_c,
            size_r,
            size_s,
            prev: Queues::NONE,
            next: Queues::NONE,
        },
    ]
}

/// Full-size regions, so that every address can be used.
pub(super) fn regions() -> Inst {
    let (prev, next) = (Queues::NONE, Queues::NONE);
    Inst::CtBc {
        bcs: 0,
        len0: 0,
        last0: 8191,
        len1: 0,
        last1: 0,
        len2: 0,
        last2: 0,
        len3: 0,
        last3: 0,
        prev,
        next,
    }
}

/// The same instruction with other addresses.
pub(super) fn advanced(mut inst: Inst, from: i32, to: i32) -> Inst {
    match &mut inst {
        Inst::VpSelf { staddr, staddr1, dtaddr, .. } => {
            *staddr += from;
            *staddr1 += from;
            *dtaddr += to;
        }
        Inst::VpPool { staddr, dtaddr, .. } => {
            *staddr += from;
            *dtaddr += to;
        }
        _ => {}
    }
    inst
}
