//! Cases of single operators, and of cycles of single lines: small programs made of instructions.

use super::{Check, first, read_json};
use crate::folder;
use crate::report::Report;
use quincunx_npu::arch::NpuArch;
use quincunx_npu::isa::{
    ACCD, ActMode, CMPD, CMPS, DataFmt, DataSign, Float2Fixed, Inst, MG0S, Number, QSMD, Queues,
    SG0M, SG1M, SUMM, SWRS, TREED, XCutMode, YCutMode,
};
use quincunx_npu::program::{Line, Map, Program};
use quincunx_npu::simulate::{Executor, Settings, State};
use quincunx_npu::time::{Model, durations, tile_cycles};
use quincunx_npu::work::{Work, resolve};
use quincunx_tensor::{Tensor, npy};
use serde_json::Value;
use std::path::Path;

/// Cycles of single lines.
pub(super) fn cost_cases(cases: &Value, arch: &NpuArch, report: &mut Report) {
    let groups =
        [("pe_tile", pe_tile as fn(&Value, &NpuArch) -> Check), ("vp", vp), ("dram", dram)];
    for (group, check) in groups {
        for (index, case) in cases[group].as_array().into_iter().flatten().enumerate() {
            report.case(&format!("cost_cases/{group}/{index}"), check(case, arch));
        }
    }
}

fn extents<const N: usize>(case: &Value, key: &str) -> Check<[u16; N]> {
    let list = case.get(key).and_then(Value::as_array).ok_or_else(|| format!("no list {key}"))?;
    let list: Option<Vec<u16>> = list.iter().map(|n| u16::try_from(n.as_u64()?).ok()).collect();
    list.and_then(|list| list.try_into().ok()).ok_or_else(|| format!("{key} has another length"))
}

fn word<'a>(case: &'a Value, key: &str) -> Check<&'a str> {
    case.get(key).and_then(Value::as_str).ok_or_else(|| format!("no text {key}"))
}

fn number(case: &Value, key: &str) -> Check<f64> {
    case.get(key).and_then(Value::as_f64).ok_or_else(|| format!("no number {key}"))
}

fn real(value: f64) -> Number {
    Number::real(value).unwrap_or(Number::whole(0))
}

fn format(name: &str) -> DataFmt {
    if name == "FP16" { DataFmt::FP16 } else { DataFmt::INT8 }
}

/// Lines of one workload, without tokens.
fn program(insts: Vec<Inst>) -> Program {
    let map = Map { wkl: 0, ..Map::none() };
    let line = |inst| Line { inst, map: Some(map.clone()), time: None };
    Program { lines: insts.into_iter().map(line).collect(), spellings: Vec::new() }
}

/// Everything about a convolution that its tile's cycles and results depend on.
struct ConvCase {
    source: [u16; 3],
    dest: [u16; 3],
    tile: [u16; 5],
    kernel: [u8; 2],
    stride: [u8; 2],
    mini: (u8, u16, [u8; 2]),
    y_cut: YCutMode,
    start: [i8; 2],
    pad: f64,
    relu: bool,
    quantiser: (f64, f64),
    output: DataFmt,
    places: (i32, i32),
}

fn conv(case: &ConvCase) -> Vec<Inst> {
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

fn pe_tile(case: &Value, arch: &NpuArch) -> Check {
    let [kernel_r, kernel_s] = extents::<2>(case, "kernel")?;
    let [stride_h, stride_w] = extents::<2>(case, "stride")?;
    let [mti_h, mti_w] = extents::<2>(case, "MTI")?;
    let y_cut = match word(case, "ycut")? {
        "W" => YCutMode::CUT_W,
        "H" => YCutMode::CUT_H,
        "N" => YCutMode::CUT_N,
        "K" => YCutMode::CUT_K,
        "C" => YCutMode::CUT_C,
        other => return Err(format!("an unknown cut {other}")),
    };
    let conv = ConvCase {
        source: [1; 3],
        dest: [1; 3],
        tile: extents(case, "tile_NKCHW")?,
        kernel: [kernel_r as u8, kernel_s as u8],
        stride: [stride_h as u8, stride_w as u8],
        mini: (
            number(case, "MTK0")? as u8,
            number(case, "MTC0")? as u16,
            [mti_h as u8, mti_w as u8],
        ),
        y_cut,
        start: [0, 0],
        pad: 0.0,
        relu: false,
        quantiser: (0.0, 0.0),
        output: DataFmt::INT8,
        places: (0, 0),
    };
    let work = resolve(&program(self::conv(&conv)));
    let Some(Ok(Work::Conv(work))) = work.last() else { return Err("no convolution".to_owned()) };
    super::equal("cycles", tile_cycles(work, arch), number(case, "tile_time_float")?)
}

/// Everything about a vector instruction.
struct VectorCase {
    pool: bool,
    formats: [DataFmt; 2],
    source: [u16; 3],
    tile: [u16; 3],
    window: [u8; 2],
    stride: u8,
    pad: i8,
    two: bool,
    relu: bool,
    max: bool,
    dequantise: bool,
    first: (f64, f64),
    second: (f64, f64),
    mean: f64,
    quantiser: (f64, f64),
    places: (i32, i32, i32),
}

fn vector(case: &VectorCase) -> Vec<Inst> {
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

fn vp(case: &Value, arch: &NpuArch) -> Check {
    let pool = word(case, "kind")? == "vp_pool";
    let vector = vector(&VectorCase {
        pool,
        formats: [format(word(case, "idf")?), format(word(case, "odf")?)],
        source: extents(case, "src_CHW")?,
        tile: extents(case, "tile_CHW")?,
        window: [1, 1],
        stride: 1,
        pad: 0,
        two: case.get("two_inputs") == Some(&Value::Bool(true)),
        relu: false,
        max: word(case, "cmps")? == "MAX",
        dequantise: true,
        first: (1.0, 0.0),
        second: (1.0, 0.0),
        mean: 0.0,
        quantiser: (1.0, 0.0),
        places: (0, 0, 0),
    });
    let tiles = number(case, "tiles_in_workload")? as usize;
    let (exec, config) = vector.split_last().ok_or("no line")?;
    let insts = config.iter().copied().chain(std::iter::repeat_n(*exec, tiles)).collect();
    let program = program(insts);
    let cycles = durations(&program, &resolve(&program), arch, Model::UPSTREAM);
    super::equal("cycles", cycles.last().copied(), case["cycles"].as_u64())
}

fn dram(case: &Value, arch: &NpuArch) -> Check {
    let df = format(word(case, "fmt")?);
    let (prev, next) = (Queues::NONE, Queues::NONE);
    let kind = word(case, "kind")?;
    let insts = if kind.starts_with("ld") && kind != "ldw_mov" || kind == "sta_mov" {
        let [n, c, h, w] = extents::<4>(case, "tile")?;
        let (source_c, source_h, source_w, dest_c, dest_h, dest_w) = (c, h, w, c, h, w);
        let (tile_n, tile_c, tile_h, tile_w) = (n as u8, c, h, w);
        let (sme, rs, bas) = (1, 0, 0);
        match kind {
            "sta_mov" => vec![
                Inst::StaCfg {
                    sme,
                    rs,
                    bas,
                    df,
                    source_c,
                    source_h,
                    source_w,
                    dest_c,
                    dest_h,
                    dest_w,
                },
                Inst::StaMov {
                    rs,
                    sbsg: 0,
                    staddr: 0,
                    dtaddr: 0,
                    tile_n,
                    tile_c,
                    tile_h,
                    tile_w,
                    prev,
                    next,
                },
            ],
            _ => vec![
                Inst::LdaCfg {
                    sme,
                    rs,
                    bas,
                    df,
                    source_c,
                    source_h,
                    source_w,
                    dest_c,
                    dest_h,
                    dest_w,
                },
                Inst::LdaMov {
                    rs,
                    dbsg: 0,
                    staddr: 0,
                    dtaddr: 0,
                    tile_n,
                    tile_c,
                    tile_h,
                    tile_w,
                    prev,
                    next,
                },
            ],
        }
    } else {
        let [size_k, size_c, r, s] = extents::<4>(case, "wsize")?;
        let (size_r, size_s) = (r as u8, s as u8);
        let (source_c, source_r, source_s) = (size_c, size_r, size_s);
        let (dest_c, dest_r, dest_s) = (size_c, size_r, size_s);
        let (bas, mkc, mken) = (1, 0, 0);
        match kind {
            "ldw_mov" => vec![
                Inst::LdwCfg {
                    rs: 1,
                    bas,
                    df,
                    mkc,
                    mken,
                    source_c,
                    source_r,
                    source_s,
                    dest_c,
                    dest_r,
                    dest_s,
                },
                Inst::LdwMov {
                    rs: 1,
                    dbsg: 0,
                    staddr: 0,
                    dtaddr: 0,
                    size_k,
                    size_c,
                    size_r,
                    size_s,
                    prev,
                    next,
                },
            ],
            "lw_mov" => lw(size_k, [size_c, r, s], 0),
            other => return Err(format!("an unknown kind {other}")),
        }
    };
    let program = program(insts);
    let cycles = durations(&program, &resolve(&program), arch, Model::UPSTREAM);
    super::equal("cycles", cycles.last().copied(), case["cycles"].as_u64())
}

/// Weights from DRAM base 1.
fn lw(size_k: u16, [size_c, r, s]: [u16; 3], staddr: u32) -> Vec<Inst> {
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

// ---- functional ----

/// Single operators against outputs of a reference.
pub(super) fn run(path: &Path, report: &mut Report) {
    let cases = match read_json(&path.join("cases.json")) {
        Err(reason) => return report.case("cases", Err(reason)),
        Ok(cases) => cases,
    };
    for case in cases.as_array().into_iter().flatten() {
        let name = case["name"].as_str().unwrap_or("?");
        report.case(name, operator(path, name, case));
    }
}

fn tensor(path: &Path, name: &str, part: &str) -> Check<Tensor> {
    let file = format!("{name}.{part}.npy");
    npy::read_npy(folder::read(&path.join(&file))?).map_err(|error| format!("{file}: {error}"))
}

fn operator(path: &Path, name: &str, case: &Value) -> Check {
    let expected = tensor(path, name, "y")?;
    let found = match word(case, "op")? {
        "pe_conv" => convolve(path, name, case, &expected)?,
        _ => vectorise(path, name, case, &expected)?,
    };
    let wanted = expected.to_f64();
    match found.iter().zip(&wanted).position(|(a, b)| a != b) {
        _ if found.len() != wanted.len() => Err("another number of results".to_owned()),
        Some(at) => Err(format!("element {at} is {}, expected {}", found[at], wanted[at])),
        None => Ok(()),
    }
}

fn shape4(tensor: &Tensor) -> Check<[u16; 4]> {
    let shape = tensor.shape();
    let list: Vec<u16> = match shape.len() {
        4 => shape.iter().map(|&extent| extent as u16).collect(),
        3 => std::iter::once(1).chain(shape.iter().map(|&extent| extent as u16)).collect(),
        2 => shape.iter().map(|&e| e as u16).chain([1, 1]).collect(),
        _ => return Err(format!("a tensor with {} axes", shape.len())),
    };
    list.try_into().map_err(|_| "four axes".to_owned())
}

/// Full-size regions, so that every address can be used.
fn regions() -> Inst {
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

/// NCHW numbers to pixels whose channels are padded to 8 bytes.
fn pack(values: &[f64], [n, c, h, w]: [u16; 4], half: bool) -> Vec<u8> {
    let [n, c, h, w] = [n, c, h, w].map(usize::from);
    let bytes = if half { 2 } else { 1 };
    let pitch = (c * bytes).div_ceil(8) * 8;
    let mut out = vec![0; n * h * w * pitch];
    for (index, &value) in values.iter().enumerate() {
        let (x, y) = (index % w, index / w % h);
        let (channel, image) = (index / (w * h) % c, index / (w * h * c));
        let at = ((image * h + y) * w + x) * pitch + channel * bytes;
        match half {
            true => {
                let half =
                    quincunx_num::F16::from_f64(value, quincunx_num::FloatOverflow::Infinity);
                let bits = half.map_or(0, quincunx_num::F16::to_bits) as u16;
                out[at..at + 2].copy_from_slice(&bits.to_le_bytes());
            }
            false => out[at] = value as i8 as u8,
        }
    }
    out
}

fn unpack(bytes: &[u8], [n, c, h, w]: [u16; 4], half: bool) -> Vec<f64> {
    let [n, c, h, w] = [n, c, h, w].map(usize::from);
    let width = if half { 2 } else { 1 };
    let pitch = (c * width).div_ceil(8) * 8;
    let element = |index: usize| {
        let (x, y) = (index % w, index / w % h);
        let (channel, image) = (index / (w * h) % c, index / (w * h * c));
        let at = ((image * h + y) * w + x) * pitch + channel * width;
        match half {
            true => {
                let bits = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
                quincunx_num::F16::from_bits(bits.into()).to_f64()
            }
            false => f64::from(bytes[at] as i8),
        }
    };
    (0..n * c * h * w).map(element).collect()
}

/// Inputs at 64 KiB and 2 MiB, output at 4 MiB.
const FIRST: i32 = 1 << 16;
const SECOND: i32 = 2 << 20;
const OUTPUT: i32 = 4 << 20;

fn simulate(insts: Vec<Inst>, prepare: impl FnOnce(&mut State) -> Check) -> Check<State> {
    let (prev, next) = (Queues::NONE, Queues::NONE);
    let begin = [Inst::CtSt { prev, next }, regions()];
    let insts = begin.into_iter().chain(insts).chain([Inst::CtEd { prev, next }]).collect();
    let arch = NpuArch::preset("gemini").map_err(|problem| problem.to_string())?;
    let executor = Executor::new(vec![program(insts)], &arch, Settings::default());
    let executor = executor.map_err(|problems| first(&problems))?;
    let mut state = executor.state();
    prepare(&mut state)?;
    executor.run(&mut state).map_err(|problem| problem.to_string())?;
    Ok(state)
}

fn convolve(path: &Path, name: &str, case: &Value, expected: &Tensor) -> Check<Vec<f64>> {
    let (x, w) = (tensor(path, name, "x")?, tensor(path, name, "w")?);
    let (a, b) = (tensor(path, name, "a")?.to_f64(), tensor(path, name, "b")?.to_f64());
    let input = shape4(&x)?;
    let weights = shape4(&w)?;
    let output = shape4(expected)?;
    let [top, _, left, _] = case["padding_tblr"].as_array().map_or([0; 4], |pads| {
        std::array::from_fn(|i| pads.get(i).and_then(Value::as_i64).unwrap_or(0) as i32)
    });
    let [k, c, r, s] = weights;
    let half = word(case, "out")? == "float16";
    let pitch = i32::from(c).div_euclid(8) * 8 + if c % 8 == 0 { 0 } else { 8 };
    let start = (-top * i32::from(input[3]) - left) * pitch;
    let stride = number(case, "stride")? as u8;
    let mut insts = lw(k, [c, r, s], 0);
    insts.extend(conv(&ConvCase {
        source: [input[1], input[2], input[3]],
        dest: [output[1], output[2], output[3]],
        tile: [output[0], k, c, output[2], output[3]],
        kernel: [r as u8, s as u8],
        stride: [stride, stride],
        mini: (1, 1, [0, 0]),
        y_cut: YCutMode::CUT_H,
        start: [-top as i8, -left as i8],
        pad: number(case, "PADV")?,
        relu: case["relu"] == Value::Bool(true),
        quantiser: (number(case, "QK")?, number(case, "QB")?),
        output: if half { DataFmt::FP16 } else { DataFmt::INT8 },
        places: (FIRST + start, OUTPUT),
    }));
    let mut state = simulate(insts, |state| {
        let bytes = pack(&x.to_f64(), input, false);
        state.l2(0)[FIRST as usize..][..bytes.len()].copy_from_slice(&bytes);
        let block = weight_block(&w.to_f64(), weights, &a, &b);
        state.dram[1].write(0, &block).map_err(|problem| problem.to_string())
    })?;
    Ok(unpack(&state.l2(0)[OUTPUT as usize..], output, half))
}

/// Weights as DRAM holds them: per output channel `[r][s][c]` with padded channels, then a and b.
fn weight_block(values: &[f64], [k, c, r, s]: [u16; 4], a: &[f64], b: &[f64]) -> Vec<u8> {
    let [k, c, r, s] = [k, c, r, s].map(usize::from);
    let width = c.div_ceil(8) * 8;
    let row = width * r * s + 32;
    let mut out = vec![0; k * row];
    for (index, &value) in values.iter().enumerate() {
        let (column, line) = (index % s, index / s % r);
        let (channel, own) = (index / (s * r) % c, index / (s * r * c));
        out[own * row + (line * s + column) * width + channel] = value as i8 as u8;
    }
    for (own, (&a, &b)) in a.iter().zip(b).enumerate() {
        let at = own * row + width * r * s;
        out[at..at + 4].copy_from_slice(&(a as f32).to_le_bytes());
        out[at + 4..at + 8].copy_from_slice(&(b as f32).to_le_bytes());
    }
    out
}

/// The same instruction with other addresses.
fn advanced(mut inst: Inst, from: i32, to: i32) -> Inst {
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

fn vectorise(path: &Path, name: &str, case: &Value, expected: &Tensor) -> Check<Vec<f64>> {
    let x = tensor(path, name, "x")?;
    let (input, output) = (shape4(&x)?, shape4(expected)?);
    let mode = word(case, "mode")?;
    let halves = [mode == "fp16->int8", mode == "int8->fp16"];
    let or = |key: &str, value: f64| case.get(key).and_then(Value::as_f64).unwrap_or(value);
    let pad = or("pad", 0.0) as i8;
    let width = if halves[0] { 2 } else { 1 };
    let pitch = (i32::from(input[1]) * width + 7) / 8 * 8;
    let offset = -i32::from(pad) * (i32::from(input[3]) + 1) * pitch;
    let window = or("kernel", 1.0) as u8;
    let formats = halves.map(|half| if half { DataFmt::FP16 } else { DataFmt::INT8 });
    let two = mode == "add";
    let mut insts = vector(&VectorCase {
        pool: ["max", "avg"].contains(&mode),
        formats,
        source: [input[1], input[2], input[3]],
        tile: [output[1], output[2], output[3]],
        window: [window, window],
        stride: or("stride", 1.0) as u8,
        pad,
        two,
        relu: case.get("relu") == Some(&Value::Bool(true)),
        max: mode == "max",
        dequantise: case.get("IQK0").is_some(),
        first: (or("IQK0", 1.0), or("IQB0", 0.0)),
        second: (or("IQK1", 0.0), or("IQB1", 0.0)),
        mean: or("MG0V", 0.0),
        quantiser: (or("QK", 1.0), or("QB", 0.0)),
        places: (FIRST + offset, SECOND, OUTPUT),
    });
    for image in 1..i32::from(input[0]) {
        let step = |[_, c, h, w]: [u16; 4], half: bool| {
            let pitch = (i32::from(c) * if half { 2 } else { 1 } + 7) / 8 * 8;
            image * pitch * i32::from(h) * i32::from(w)
        };
        let (from, to) = (step(input, halves[0]), step(output, halves[1]));
        insts.push(advanced(insts[8], from, to));
    }
    let second = if two { Some(tensor(path, name, "z")?) } else { None };
    let mut state = simulate(insts, |state| {
        let bytes = pack(&x.to_f64(), input, halves[0]);
        state.l2(0)[FIRST as usize..][..bytes.len()].copy_from_slice(&bytes);
        if let Some(second) = second {
            let bytes = pack(&second.to_f64(), input, halves[0]);
            state.l2(0)[SECOND as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    })?;
    Ok(unpack(&state.l2(0)[OUTPUT as usize..], output, halves[1]))
}
