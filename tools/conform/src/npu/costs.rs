//! Cycles of single lines.

use super::Check;
use super::build::{
    ConvCase, VectorCase, conv, extents, format, lw, number, program, vector, word,
};
use crate::report::Report;
use quincunx_npu::arch::NpuArch;
use quincunx_npu::isa::{DataFmt, Inst, Queues, YCutMode};
use quincunx_npu::time::{Model, durations, tile_cycles};
use quincunx_npu::work::{Work, resolve};
use serde_json::Value;

/// Runs the cases of every group.
pub(super) fn run(cases: &Value, arch: &NpuArch, report: &mut Report) {
    let groups =
        [("pe_tile", pe_tile as fn(&Value, &NpuArch) -> Check), ("vp", vp), ("dram", dram)];
    for (group, check) in groups {
        for (index, case) in cases[group].as_array().into_iter().flatten().enumerate() {
            report.case(&format!("cost_cases/{group}/{index}"), check(case, arch));
        }
    }
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

#[expect(clippy::too_many_lines, reason = "long instructions")]
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
