//! Layers: how they are cut, where their weights come from, and what they move.

use super::Run;
use crate::replay::Node;
use crate::time::mini_image;
use crate::work::{
    Conv, Copy, Vector, WeightDest, WeightSource, Weights, Work, element_bytes, product,
};
use quincunx_report::{Cell, Column, Table};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that a line reads from DRAM and writes to it.
pub(crate) fn dram_bytes(work: &Work) -> (u64, u64) {
    match work {
        Work::Copy(Copy { images, tile: [c, h, w], format, load, .. }) => {
            let moved = product([*images, *c, *h, *w, element_bytes(*format)].map(u64::from));
            if *load { (moved, 0) } else { (0, moved) }
        }
        Work::Weights(weights) if weights.uses_dram() => {
            (weights.dense_bytes(weights.source_row), 0)
        }
        _ => (0, 0),
    }
}

/// Bytes from and to DRAM, by layer.
pub(super) fn moved(run: &Run<'_>) -> BTreeMap<Option<i32>, u64> {
    let mut moved: BTreeMap<Option<i32>, u64> = BTreeMap::new();
    for &node in &run.replay.order {
        let Some(work) = run.work(node) else { continue };
        let (read, written) = dram_bytes(work);
        let sum = moved.entry(run.layer(node)).or_default();
        *sum = sum.saturating_add(read).saturating_add(written);
    }
    moved
}

/// How a convolution finds its weights.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Path {
    /// From DRAM to WL0.
    Direct,
    /// From L2, where they came from DRAM.
    L2,
    /// From another core.
    Core,
    /// Used before.
    Resident,
}

impl Path {
    fn name(self) -> &'static str {
        match self {
            Path::Direct => "direct",
            Path::L2 => "L2",
            Path::Core => "core",
            Path::Resident => "resident",
        }
    }
}

/// A block of weights in WL0.
struct Block {
    /// One past its last byte.
    end: u64,
    path: Path,
    /// Where convolutions that used it began to read.
    used: BTreeSet<u64>,
}

/// The blocks of a core's WL0 by their first bytes.
#[derive(Default)]
struct Wl0(BTreeMap<u64, Block>);

impl Wl0 {
    fn load(&mut self, start: u64, bytes: u64, path: Path) {
        let end = start.saturating_add(bytes);
        // Blocks do not overlap, so those that are overwritten lie together.
        let over = self.0.range(..end).rev().take_while(|(_, block)| block.end > start);
        let over: Vec<u64> = over.map(|(&start, _)| start).collect();
        over.iter().for_each(|start| drop(self.0.remove(start)));
        self.0.insert(start, Block { end, path, used: BTreeSet::new() });
    }

    fn use_at(&mut self, start: u64) -> Option<Path> {
        let (_, block) = self.0.range_mut(..=start).next_back()?;
        let fresh = start < block.end && block.used.insert(start);
        (start < block.end).then_some(if fresh { block.path } else { Path::Resident })
    }
}

/// What is told of a layer: its first tile, how often its weights come by which way, and its bytes.
#[derive(Default)]
struct Layer {
    cut: Option<[String; 3]>,
    paths: BTreeMap<Path, u64>,
    read: u64,
    written: u64,
}

/// A row per layer of a core that computes or uses DRAM.
pub(super) fn table(run: &Run<'_>) -> Table {
    let mut columns = vec![Column::number("core"), Column::number("layer")];
    if !run.names.is_empty() {
        columns.push(Column::text("name"));
    }
    columns.extend(["tile", "mini_tile", "y_cut", "weights"].map(Column::text));
    columns.extend(["read", "written"].map(|key| Column::number(key).unit("bytes")));
    let mut table = Table::new("tiles", columns);
    for ((core, number), layer) in layers(run) {
        let Layer { cut, paths, read, written } = layer;
        let mut row = vec![core.into(), Cell::Integer(number.into())];
        if !run.names.is_empty() {
            row.push(run.names.get(&number).copied().unwrap_or_default().into());
        }
        row.extend(cut.unwrap_or_default().map(Cell::from));
        let several = paths.len() > 1;
        let words = paths.into_iter().map(|(path, count)| match several {
            true => format!("{} {count}", path.name()),
            false => path.name().to_owned(),
        });
        row.push(words.collect::<Vec<_>>().join(", ").into());
        row.extend([read.into(), written.into()]);
        table.push(row);
    }
    table
}

fn layers(run: &Run<'_>) -> BTreeMap<(usize, i32), Layer> {
    let mut buffers: Vec<Wl0> = run.programs.iter().map(|_| Wl0::default()).collect();
    let mut layers: BTreeMap<(usize, i32), Layer> = BTreeMap::new();
    for &node in &run.replay.order {
        let Some(work) = run.work(node) else { continue };
        let path = weights(run, &mut buffers[node.core], node, work);
        let bytes = dram_bytes(work);
        let cut = cut(work);
        let Some(number) = run.layer(node).filter(|_| cut.is_some() || bytes != (0, 0)) else {
            continue;
        };
        let layer = layers.entry((node.core, number)).or_default();
        layer.read = layer.read.saturating_add(bytes.0);
        layer.written = layer.written.saturating_add(bytes.1);
        layer.cut = layer.cut.take().or(cut);
        if let Some(path) = path {
            let count = layer.paths.entry(path).or_default();
            *count = count.saturating_add(1);
        }
    }
    layers
}

/// Follows a line through WL0; how it finds its weights, if it is a convolution.
fn weights(run: &Run<'_>, wl0: &mut Wl0, node: Node, work: &Work) -> Option<Path> {
    let byte = |unit: u32| product([unit, run.arch.wl0_unit].map(u64::from));
    if let Work::Weights(weights @ Weights { dest: WeightDest::Wl0(unit), source, .. }) = work {
        let path = match source {
            WeightSource::Dram { .. } => Path::Direct,
            WeightSource::L2(_) => Path::L2,
            WeightSource::Remote { .. } => Path::Core,
        };
        wl0.load(byte(*unit), weights.buffer_bytes(), path);
    }
    wl0.use_at(byte(run.conv(node)?.weights))
}

/// The tile, the mini tile and what the rows of the array divide.
fn cut(work: &Work) -> Option<[String; 3]> {
    match work {
        Work::Conv(conv) => Some(cut_of_conv(conv)),
        Work::Vector(Vector { config, .. }) => {
            Some([extents(&config.tile), String::new(), String::new()])
        }
        _ => None,
    }
}

fn cut_of_conv(conv: &Conv) -> [String; 3] {
    let (rows, columns) = mini_image(conv);
    let mini = [conv.mini[0].saturating_mul(8), conv.mini[1], rows, columns];
    [extents(&conv.tile), extents(&mini), conv.y_cut.name().to_owned()]
}

fn extents(extents: &[u32]) -> String {
    let words: Vec<String> = extents.iter().map(u32::to_string).collect();
    words.join("x")
}
