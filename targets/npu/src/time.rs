//! How long lines take. Facts: `npu-measured` (`docs/bibliography.md`).
//!
//! The `upstream` model gives the cycles of the original tool's traces. It counts vector work on a
//! batch once and the path from L2 to WL0 not at all; `physical` counts both. Neither was compared
//! with hardware. Values of tensors never matter.

#![deny(clippy::arithmetic_side_effects)]

use crate::arch::NpuArch;
use crate::isa::{DataFmt, YCutMode};
use crate::program::Program;
use crate::work::{
    Conv, Copy, Extents, Resolved, Vector, VectorKind, WeightDest, WeightSource, Weights, Work,
    buffer_row_bytes, channel_bytes, element_bytes, pitch, product,
};
use std::collections::BTreeMap;

/// Cycles of a configuration instruction.
const CONFIGURE: u64 = 21;
/// Cycles of a control instruction; traces have 30 to 39.
const CONTROL: u64 = 34;
/// Cycles before an instruction does its work; stores need more.
const START: u64 = 20;

/// Which cycles of the vector queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VpCost {
    /// The cost of one image is spread over the images of a workload.
    Upstream,
    /// Every image costs what one image costs.
    PerImage,
}

/// How lines are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Vector work.
    pub vp: VpCost,
    /// Copies from L2 to WL0, between cores and of the reordering queue take time.
    pub moves: bool,
}

impl Model {
    /// What the traces of the original tool hold.
    pub const UPSTREAM: Model = Model { vp: VpCost::Upstream, moves: false };
    /// Everything counts.
    pub const PHYSICAL: Model = Model { vp: VpCost::PerImage, moves: true };
}

/// Cycles of every line.
pub fn durations(program: &Program, work: &[Resolved], arch: &NpuArch, model: Model) -> Vec<u64> {
    let groups = Groups::new(program, work);
    let streams = streams(program, work);
    let moved = |images: u32, [c, h, w]: Extents, format: DataFmt| {
        let bytes = product([images, pitch(c, element_bytes(format)), h, w].map(u64::from));
        START.saturating_add(bytes.div_ceil(arch.l2_bytes_per_cycle.into()))
    };
    let line = |index: usize| match &work[index] {
        Err(_) => 0,
        Ok(Work::Configure) => CONFIGURE,
        Ok(Work::Begin | Work::End | Work::Regions(_)) => CONTROL,
        Ok(Work::Copy(copy)) => copy_cycles(copy, arch),
        Ok(Work::Weights(weights)) => weight_cycles(weights, arch, model),
        Ok(Work::Vector(vector)) => {
            let count = match model.vp {
                VpCost::Upstream => groups.vector(index),
                VpCost::PerImage => 1,
            };
            START.saturating_add(rounded(vector_cycles(vector, arch) as f64 / count as f64))
        }
        Ok(Work::Conv(conv)) => conv_cycles(conv, work, &groups, &streams, index, arch, model),
        Ok(Work::Reorder(reorder)) if model.moves => {
            moved(reorder.images, reorder.tile, reorder.format)
        }
        Ok(Work::Remote(remote)) if model.moves => moved(remote.images, remote.tile, remote.format),
        Ok(Work::Reorder(_) | Work::Remote(_)) => 0,
    };
    (0..program.lines.len()).map(line).collect()
}

/// Rounds half up, as the original tool does.
fn rounded(value: f64) -> u64 {
    (value + 0.5).floor() as u64
}

/// Cycles of the DRAM port for so many bytes.
///
/// The second branch is an empirical fit to sizes above about 136 KB.
pub fn dram_cycles(bytes: u64, arch: &NpuArch) -> u64 {
    let (bytes, rate) = (bytes as f64, arch.cycles_per_dram_byte());
    (bytes * rate).max(bytes * (rate + 1.1e-5) - 1.5).ceil() as u64
}

fn copy_cycles(copy: &Copy, arch: &NpuArch) -> u64 {
    let [c, h, w] = copy.tile;
    let pixel = pitch(c, element_bytes(copy.format));
    let bytes = product([copy.images, pixel, h, w].map(u64::from));
    dram_cycles(bytes, arch).saturating_add(if copy.load { START } else { 30 })
}

fn weight_cycles(weights: &Weights, arch: &NpuArch, model: Model) -> u64 {
    let row = buffer_row_bytes(weights.row, element_bytes(weights.format));
    let bytes = channel_bytes(weights.channels, row);
    match (weights.source, weights.dest) {
        (WeightSource::Dram { .. }, _) => START.saturating_add(dram_cycles(bytes, arch)),
        (_, WeightDest::Wl0(_)) if model.moves => {
            START.saturating_add(bytes.div_ceil(arch.l2_bytes_per_cycle.into()))
        }
        _ => 0,
    }
}

/// Cycles of the vector unit for one image.
fn vector_cycles(vector: &Vector, arch: &NpuArch) -> u64 {
    let config = &vector.config;
    let bytes = vector.input_bytes().max(vector.output_bytes());
    let [channels, h, w] = match vector.kind {
        VectorKind::Pool => config.source,
        _ => config.tile,
    };
    let constant: u64 = match vector.kind {
        VectorKind::Pool if vector.modules & 1 != 0 => 16,
        VectorKind::Pool => 21,
        _ if vector.has_second() => 18,
        _ if config.formats == [DataFmt::INT8, DataFmt::FP16] => 28,
        _ => 14,
    };
    let words = product([channels, bytes].map(u64::from));
    let words = words.div_ceil(arch.l2_bytes_per_cycle.into());
    product([h.into(), w.into(), words]).saturating_add(constant)
}

/// Cycles of one tile of a convolution, in the order of evaluation of the original tool.
pub fn tile_cycles(conv: &Conv, arch: &NpuArch) -> f64 {
    let [mut n, k, _, mut h, mut w] = conv.tile;
    let rows = arch.rows.max(1);
    let mut c = conv.weight_row()[0].div_ceil(8);
    let mtk0 = conv.mini[0];
    let mut block = [arch.columns, 8, mtk0, 1];
    match conv.y_cut {
        YCutMode::CUT_H => h = h.div_ceil(rows),
        YCutMode::CUT_W => w = w.div_ceil(rows),
        YCutMode::CUT_N => n = n.div_ceil(rows),
        YCutMode::CUT_C => c = c.div_ceil(rows),
        YCutMode::CUT_K => block[3] = rows,
        _ => {}
    }
    let (hm, wm) = mini_image(conv);
    let area = product([hm, wm].map(u64::from));
    let vectors = product([mtk0, hm, wm].map(u64::from)) as f64;
    let steps = f64::from(n) * f64::from(h.div_ceil(hm.max(1))) * f64::from(w.div_ceil(wm.max(1)));
    let block = product(block.map(u64::from));
    let blocks = u64::from(k).div_ceil(block.max(1)) as f64;
    let load = al1_words(conv) as f64;
    let kernel = f64::from(conv.kernel[0]) * f64::from(conv.kernel[1]);
    // Fewer than three positions that share a weight wait for the weights.
    let compute = f64::from(c) * kernel * f64::from(mtk0) * (area as f64).max(2.5);
    let output = match conv.y_cut {
        YCutMode::CUT_C => 8.0 * vectors + 62.0,
        _ => 19.0 * vectors,
    };
    let pass = load + compute + output + (steps - 1.0) * compute.max(output);
    blocks * (pass * 1.005) - (blocks - 1.0) * load
}

/// Rows and columns of a mini tile.
pub fn mini_image(conv: &Conv) -> (u32, u32) {
    let [h, w] = conv.mini_image.map(|extent| extent.saturating_add(1));
    (h.min(conv.tile[3]), w.min(conv.tile[4]))
}

/// Words of 8 bytes that a mini tile holds in AL1.
pub fn al1_words(conv: &Conv) -> u64 {
    let (hm, wm) = mini_image(conv);
    let extent = |axis: usize, outputs: u32| {
        let steps = product([outputs.saturating_sub(1), conv.stride[axis]].map(u64::from));
        steps.saturating_add(conv.kernel[axis].into())
    };
    product([conv.mini[1].into(), extent(0, hm), extent(1, wm)])
}

fn conv_cycles(
    conv: &Conv,
    convs: &[Resolved],
    groups: &Groups,
    streams: &[bool],
    index: usize,
    arch: &NpuArch,
    model: Model,
) -> u64 {
    let Some(group) = groups.conv(index) else {
        return START.saturating_add(rounded(tile_cycles(conv, arch).floor()));
    };
    // All tiles count as the first one does, also a smaller last one.
    let first = group.first().and_then(|&line| convs.get(line));
    let conv = match first {
        Some(Ok(Work::Conv(first))) => first,
        _ => conv,
    };
    let tile = tile_cycles(conv, arch);
    let count = group.len() as f64;
    let streamed = group.iter().any(|&line| streams[line]);
    let total = if streamed && !model.moves {
        // The first tile waits for its weights; later ones for the slower of weights and work.
        let row = buffer_row_bytes(conv.weight_row(), element_bytes(conv.formats[1]));
        // A whole number of cycles and one more.
        let cycles = row.saturating_add(1).div_ceil(arch.l2_bytes_per_cycle.into());
        let weights = product([conv.tile[1].into(), cycles]) as f64;
        weights + (count - 1.0) * weights.max(tile) + tile
    } else {
        count * tile
    };
    START.saturating_add(rounded(total.floor() / count))
}

/// Lines of the same workload: convolutions, and how many vector instructions.
struct Groups {
    convs: BTreeMap<i32, Vec<usize>>,
    conv_of: Vec<Option<i32>>,
    vectors: Vec<u64>,
}

impl Groups {
    fn new(program: &Program, work: &[Resolved]) -> Groups {
        let mut convs: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        let mut counts: BTreeMap<(usize, i32), u64> = BTreeMap::new();
        let mut conv_of = vec![None; work.len()];
        let mut keys = vec![None; work.len()];
        let tasks = program.tasks();
        for (task, lines) in tasks.into_iter().enumerate() {
            let mut own: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
            for index in lines {
                let Some(workload) = program.lines[index].workload() else { continue };
                match &work[index] {
                    Ok(Work::Conv(_)) => own.entry(workload).or_default().push(index),
                    Ok(Work::Vector(_)) => {
                        let count = counts.entry((task, workload)).or_default();
                        *count = count.saturating_add(1);
                        keys[index] = Some((task, workload));
                    }
                    _ => {}
                }
            }
            for lines in own.into_values() {
                let key = convs.len() as i32;
                lines.iter().for_each(|&line| conv_of[line] = Some(key));
                convs.insert(key, lines);
            }
        }
        let count = |key: Option<(usize, i32)>| key.and_then(|key| counts.get(&key)).copied();
        let vectors = keys.into_iter().map(|key| count(key).unwrap_or(1)).collect();
        Groups { convs, conv_of, vectors }
    }

    fn conv(&self, line: usize) -> Option<&[usize]> {
        Some(&self.convs[&self.conv_of[line]?])
    }

    fn vector(&self, line: usize) -> u64 {
        self.vectors[line]
    }
}

/// For every line whether it is a convolution that is the first to use weights from L2: the newest
/// `lw_mov` to its address came from L2, and no earlier convolution used it.
fn streams(program: &Program, work: &[Resolved]) -> Vec<bool> {
    let mut newest: BTreeMap<u32, bool> = BTreeMap::new();
    let mut result = vec![false; program.lines.len()];
    for (index, work) in work.iter().enumerate() {
        match work {
            Ok(Work::Weights(Weights { dest: WeightDest::Wl0(unit), source, .. })) => {
                newest.insert(*unit, matches!(source, WeightSource::L2(_)));
            }
            Ok(Work::Conv(conv)) => {
                if let Some(fresh) = newest.get_mut(&conv.weights) {
                    result[index] = std::mem::take(fresh);
                }
            }
            _ => {}
        }
    }
    result
}
