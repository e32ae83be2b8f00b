//! How long lines take. Facts: `npu-measured` (`docs/bibliography.md`).
//!
//! The `upstream` model gives the cycles of the original tool's traces. It spreads the work of a
//! workload over the lines that have its number in their maps, counts vector work on a batch once,
//! and the path from L2 to WL0 not at all. `physical` counts all of it, and times a line by its own
//! fields: what a map says changes nothing. Neither was compared with hardware. Values of tensors
//! never matter.

#![deny(clippy::arithmetic_side_effects)]

use crate::arch::NpuArch;
use crate::isa::{DataFmt, YCutMode};
use crate::program::Program;
use crate::replay::{Node, Port, Replay, replay_with};
use crate::work::{
    Conv, Copy, Extents, Resolved, Vector, VectorKind, WeightDest, WeightSource, Weights, Work,
    buffer_row_bytes, channel_bytes, element_bytes, pitch, product,
};
use rustc_hash::FxHashMap;

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
    /// Convolutions of a workload each take their part of what it takes when all of its tiles are
    /// as the first, weights from L2 included. Otherwise each takes what its own tile does.
    pub workloads: bool,
    /// Copies from L2 to WL0, between cores and of the reordering queue take time, as does the read
    /// of a destination that is added.
    pub moves: bool,
    /// Who may use DRAM at a time.
    pub port: Port,
}

impl Model {
    /// What the traces of the original tool hold.
    pub const UPSTREAM: Model =
        Model { vp: VpCost::Upstream, workloads: true, moves: false, port: Port::Many };
    /// Everything counts, by the fields of each line; one DRAM port for all cores.
    pub const PHYSICAL: Model =
        Model { vp: VpCost::PerImage, workloads: false, moves: true, port: Port::One };
}

/// Cycles of every line of every core, and when it starts and ends.
pub fn timed(
    programs: &[&Program],
    work: &[Vec<Resolved>],
    arch: &NpuArch,
    model: Model,
) -> (Vec<Vec<u64>>, Replay) {
    let of = |core: usize| core_durations(core, programs[core], &work[core], arch, model);
    let cycles: Vec<Vec<u64>> = (0..programs.len()).map(of).collect();
    let replay =
        replay_with(programs, work, &|node: Node| cycles[node.core][node.line], model.port);
    (cycles, replay)
}

/// Cycles of every line of the program of core 0; 0 for lines without work.
pub fn durations(program: &Program, work: &[Resolved], arch: &NpuArch, model: Model) -> Vec<u64> {
    core_durations(0, program, work, arch, model)
}

/// Cycles of every line of the program of a core; 0 for lines without work.
pub fn core_durations(
    core: usize,
    program: &Program,
    work: &[Resolved],
    arch: &NpuArch,
    model: Model,
) -> Vec<u64> {
    let line = |work: &Work| {
        line_cycles(work, arch, model).saturating_add(hop_cycles(core, work, arch, model))
    };
    let mut cycles: Vec<u64> = work.iter().map(|work| work.as_ref().map_or(0, line)).collect();
    if model.workloads {
        conv_workloads(program, work, arch, model, &mut cycles);
    }
    if model.vp == VpCost::Upstream {
        vector_workloads(program, work, arch, model, &mut cycles);
    }
    cycles
}

/// Cycles of a line by its own fields: what every model takes for all lines but those of the array
/// and of the vector unit, and what a model takes for these when they are alone in their workload.
/// Those of the way between cores are [`hop_cycles`].
pub fn line_cycles(work: &Work, arch: &NpuArch, model: Model) -> u64 {
    match work {
        Work::Configure => arch.config_cycles.into(),
        Work::Begin | Work::End | Work::Regions(_) => arch.control_cycles.into(),
        Work::Copy(copy) => copy_cycles(copy, arch),
        Work::Weights(weights) => weight_cycles(weights, arch, model),
        Work::Vector(vector) => vector_line_cycles(vector, 1, arch, model),
        Work::Conv(conv) => conv_line_cycles(conv, 1, false, arch, model),
        Work::Reorder(_) | Work::Remote(_) if !model.moves => 0,
        Work::Reorder(reorder) => {
            let bytes = tile_bytes(reorder.images, reorder.tile, reorder.format);
            started(bytes.div_ceil(arch.l2_bytes_per_cycle.into()), arch)
        }
        Work::Remote(remote) => {
            let bytes = tile_bytes(remote.images, remote.tile, remote.format);
            started(bytes.div_ceil(link_rate(arch)), arch)
        }
    }
}

/// Cycles of the way between cores that a line of a core needs besides [`line_cycles`].
pub fn hop_cycles(core: usize, work: &Work, arch: &NpuArch, model: Model) -> u64 {
    let other = match work {
        Work::Remote(remote) => remote.core,
        Work::Weights(Weights { source: WeightSource::Remote { core, .. }, .. }) => *core,
        _ => return 0,
    };
    if !model.moves {
        return 0;
    }
    product([arch.hops(core, other.into()), arch.hop_cycles.into()])
}

/// Bytes of a tile in L2, with what pads its pixels.
fn tile_bytes(images: u32, [c, h, w]: Extents, format: DataFmt) -> u64 {
    product([images, pitch(c, element_bytes(format)), h, w].map(u64::from))
}

/// Cycles of work and of the start before it.
fn started(cycles: u64, arch: &NpuArch) -> u64 {
    cycles.saturating_add(arch.start_cycles.into())
}

/// Bytes per cycle from the L2 of a core to another core, which also pass the ports of L2.
fn link_rate(arch: &NpuArch) -> u64 {
    arch.link_bytes_per_cycle.min(arch.l2_bytes_per_cycle).into()
}

/// Cycles of each line of a workload of `count` convolutions, at least 1, of which `first` is the
/// first; `streamed` says whether they are the first to use weights that came from L2.
///
/// A model without workloads takes what `first` takes alone: there each line is asked for itself.
pub fn conv_line_cycles(
    first: &Conv,
    count: u64,
    streamed: bool,
    arch: &NpuArch,
    model: Model,
) -> u64 {
    let tile = tile_cycles(first, arch);
    if !model.workloads {
        let read = if model.moves { accumulate_cycles(first, arch) } else { 0 };
        return started(rounded(tile.floor()).saturating_add(read), arch);
    }
    let total = conv_workload_cycles(first, count, streamed && !model.moves, arch);
    started(rounded(total as f64 / count.max(1) as f64), arch)
}

/// Cycles of a workload of `count` convolutions, at least 1, of which `first` is the first.
pub(crate) fn conv_workload_cycles(
    first: &Conv,
    count: u64,
    streamed: bool,
    arch: &NpuArch,
) -> u64 {
    let (tile, count) = (tile_cycles(first, arch), count.max(1) as f64);
    let total = if streamed {
        // The first tile waits for its weights; later ones for the slower of weights and work.
        let row = buffer_row_bytes(first.weight_row(), element_bytes(first.formats[1]));
        // A whole number of cycles and one more.
        let cycles = row.saturating_add(1).div_ceil(arch.l2_bytes_per_cycle.into());
        let weights = product([first.tile[1].into(), cycles]) as f64;
        weights + (count - 1.0) * weights.max(tile) + tile
    } else {
        count * tile
    };
    total.floor() as u64
}

/// Cycles of reading the destination of a convolution that adds to it; 0 of one that does not.
fn accumulate_cycles(conv: &Conv, arch: &NpuArch) -> u64 {
    if conv.accumulate.is_none() {
        return 0;
    }
    let [n, k, _, h, w] = conv.tile;
    tile_bytes(n, [k, h, w], conv.formats[2]).div_ceil(arch.l2_bytes_per_cycle.into())
}

/// Cycles of each line of a workload of so many vector instructions, at least 1, each of which
/// works on one image.
pub fn vector_line_cycles(vector: &Vector, images: u64, arch: &NpuArch, model: Model) -> u64 {
    let count = match model.vp {
        VpCost::Upstream => images.max(1),
        VpCost::PerImage => 1,
    };
    started(rounded(vector_cycles(vector, arch) as f64 / count as f64), arch)
}

/// Rounds half up, as the original tool does.
fn rounded(value: f64) -> u64 {
    (value + 0.5).floor() as u64
}

/// Cycles of the DRAM port for so many bytes.
///
/// The second branch is an empirical fit to sizes above about 136 KB of `gemini`.
pub fn dram_cycles(bytes: u64, arch: &NpuArch) -> u64 {
    let (bytes, rate) = (bytes as f64, arch.cycles_per_dram_byte());
    let large = bytes * (rate + arch.dram_large_cycles_per_byte) - arch.dram_large_offset;
    (bytes * rate).max(large).ceil() as u64
}

fn copy_cycles(copy: &Copy, arch: &NpuArch) -> u64 {
    let start = if copy.load { arch.start_cycles } else { arch.store_start_cycles };
    dram_cycles(tile_bytes(copy.images, copy.tile, copy.format), arch).saturating_add(start.into())
}

fn weight_cycles(weights: &Weights, arch: &NpuArch, model: Model) -> u64 {
    let row = buffer_row_bytes(weights.row, element_bytes(weights.format));
    let bytes = channel_bytes(weights.channels, row);
    match weights.source {
        WeightSource::Dram { .. } => started(dram_cycles(bytes, arch), arch),
        _ if !model.moves => 0,
        WeightSource::L2(_) => started(bytes.div_ceil(arch.l2_bytes_per_cycle.into()), arch),
        WeightSource::Remote { .. } => started(bytes.div_ceil(link_rate(arch)), arch),
    }
}

/// Cycles of the vector unit for one image.
pub(crate) fn vector_cycles(vector: &Vector, arch: &NpuArch) -> u64 {
    let config = &vector.config;
    let bytes = vector.input_bytes().max(vector.output_bytes());
    let [channels, h, w] = match vector.kind {
        VectorKind::Pool => config.source,
        _ => config.tile,
    };
    let constant = match vector.kind {
        VectorKind::Pool if vector.modules & 1 != 0 => arch.vp_compare_cycles,
        VectorKind::Pool => arch.vp_sum_cycles,
        _ if vector.has_second() => arch.vp_two_cycles,
        _ if config.formats == [DataFmt::INT8, DataFmt::FP16] => arch.vp_dequantise_cycles,
        _ => arch.vp_cycles,
    };
    let words = product([channels, bytes].map(u64::from));
    let words = words.div_ceil(arch.vp_bytes_per_cycle.into());
    product([h.into(), w.into(), words]).saturating_add(constant.into())
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
    // Too few positions that share a weight wait for the weights.
    let compute =
        f64::from(c) * kernel * f64::from(mtk0) * (area as f64).max(arch.pe_weight_positions);
    let output = match conv.y_cut {
        YCutMode::CUT_C => arch.pe_sum_cycles * vectors + arch.pe_sum_start_cycles,
        _ => arch.pe_output_cycles * vectors,
    };
    let pass = load + compute + output + (steps - 1.0) * compute.max(output);
    blocks * (pass * arch.pe_factor) - (blocks - 1.0) * load
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

/// Lines of one task and one workload that `counts` picks, in the order of their first lines.
pub(crate) fn workloads(
    program: &Program,
    work: &[Resolved],
    counts: impl Fn(&Work) -> bool,
) -> Vec<Vec<usize>> {
    let mut lists: Vec<Vec<usize>> = Vec::new();
    for task in program.tasks() {
        let mut numbers: FxHashMap<i32, usize> = FxHashMap::default();
        for index in task {
            let Some(workload) = program.lines[index].workload() else { continue };
            if !work[index].as_ref().is_ok_and(&counts) {
                continue;
            }
            let number = *numbers.entry(workload).or_insert(lists.len());
            if number == lists.len() {
                lists.push(Vec::new());
            }
            lists[number].push(index);
        }
    }
    lists
}

/// Sets the cycles of convolutions by their workloads.
fn conv_workloads(
    program: &Program,
    work: &[Resolved],
    arch: &NpuArch,
    model: Model,
    cycles: &mut [u64],
) {
    let streams = streams(program, work);
    for lines in workloads(program, work, |work| matches!(work, Work::Conv(_))) {
        let Some(Ok(Work::Conv(first))) = lines.first().map(|&line| &work[line]) else { continue };
        let streamed = lines.iter().any(|&line| streams[line]);
        let each = conv_line_cycles(first, lines.len() as u64, streamed, arch, model);
        lines.into_iter().for_each(|line| cycles[line] = each);
    }
}

/// Sets the cycles of vector instructions by how many a workload has.
fn vector_workloads(
    program: &Program,
    work: &[Resolved],
    arch: &NpuArch,
    model: Model,
    cycles: &mut [u64],
) {
    for lines in workloads(program, work, |work| matches!(work, Work::Vector(_))) {
        let images = lines.len() as u64;
        for line in lines {
            let Ok(Work::Vector(vector)) = &work[line] else { continue };
            cycles[line] = vector_line_cycles(vector, images, arch, model);
        }
    }
}

/// For every line whether it is a convolution that is the first to use weights from L2: the newest
/// `lw_mov` to its address came from L2, and no earlier convolution used it.
fn streams(program: &Program, work: &[Resolved]) -> Vec<bool> {
    let mut newest: FxHashMap<u32, bool> = FxHashMap::default();
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
