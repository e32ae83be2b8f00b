//! The weight buffer: does a convolution find the weights that were loaded for it?
//!
//! Every byte of WL0 has the label of the line that loaded it last. The weights of a convolution
//! must all have labels that fit: rows of the same size, spread over the array in the same way, at
//! the place of a row, and where the maps tell, of the same layer. In the same way, weights that come through L2 are taken in the rows in
//! which they were left there.

use super::Subject;
use crate::isa::YCutMode;
use crate::regions::{Region, RegionTable};
use crate::replay::{Node, Replay, replay};
use crate::work::{
    Conv, Memory, WeightDest, Weights, Work, accesses, buffer_row_bytes, channel_bytes,
    dense_row_bytes, element_bytes, product, wide,
};
use quincunx_diag::{Diagnostic, Problems};
use std::collections::BTreeMap;
use std::num::Saturating;

/// Bytes of WL0 with their labels: start to end and line.
#[derive(Default)]
pub(super) struct Labels(BTreeMap<u64, (u64, usize)>);

impl Labels {
    /// Labels bytes anew; gives how many bytes of which labels that replaces.
    pub(super) fn set(&mut self, start: u64, end: u64, line: usize) -> Vec<(u64, usize)> {
        self.split(start);
        self.split(end);
        let old: Vec<u64> = self.0.range(start..end).map(|(&at, _)| at).collect();
        let replaced = old.into_iter().filter_map(|at| {
            let (end, line) = self.0.remove(&at)?;
            Some((end.saturating_sub(at), line))
        });
        let replaced = replaced.collect();
        if start < end {
            self.0.insert(start, (end, line));
        }
        replaced
    }

    fn split(&mut self, at: u64) {
        if let Some((&start, &(end, line))) = self.0.range(..at).next_back()
            && end > at
        {
            self.0.insert(start, (at, line));
            self.0.insert(at, (end, line));
        }
    }

    /// The labels of bytes in order, each once in a row; `None` for bytes without.
    pub(super) fn of(&self, start: u64, end: u64) -> Vec<Option<usize>> {
        let first = self.0.range(..=start).next_back().map_or(start, |(&at, _)| at);
        let (mut labels, mut at) = (Vec::new(), start);
        for (&low, &(high, line)) in self.0.range(first..end) {
            if high <= start {
                continue;
            }
            if low > at {
                labels.push(None);
            }
            if labels.last() != Some(&Some(line)) {
                labels.push(Some(line));
            }
            at = high;
        }
        if at < end {
            labels.push(None);
        }
        labels
    }
}

/// Convolutions that do not find their weights: line of a core and what is wrong.
pub fn clobbered(subject: &Subject<'_>) -> Vec<(Node, String)> {
    find(subject, &replay(subject.programs, subject.work, &|_| 0))
}

pub(super) fn check(subject: &Subject<'_>, replay: &Replay, problems: &mut Problems) {
    for (node, what) in find(subject, replay).into_iter().chain(layouts(subject, replay)) {
        problems.push(subject.at(node, Diagnostic::invalid("Q4032", what)));
    }
}

/// The core whose L2 an access touches, and the region; `None` for other memories, and where there
/// is no such core or region.
pub(super) fn l2_of(
    subject: &Subject<'_>,
    regions: &[RegionTable],
    node: Node,
    memory: Memory,
) -> Option<(usize, Region)> {
    let (core, region) = match memory {
        Memory::L2(region) => (node.core, Some(region)),
        Memory::Remote(core, region) => (usize::from(core), Some(region)),
        Memory::RemoteWhole(core) => (usize::from(core), None),
        Memory::Wl0 | Memory::Dram(_) => return None,
    };
    let table = regions.get(core)?;
    let region =
        region.map_or_else(|| Some(Region::whole(subject.arch)), |region| table.get(region));
    Some((core, region?))
}

/// Weights that `lw_mov` takes from L2 in other rows than those in which `ldw_mov` left them. What
/// other lines left has no rows.
fn layouts(subject: &Subject<'_>, replay: &Replay) -> Vec<(Node, String)> {
    let cores = subject.programs.len();
    let mut regions = vec![RegionTable::default(); cores];
    let mut labels: Vec<Labels> = (0..cores).map(|_| Labels::default()).collect();
    let mut found = Vec::new();
    for (number, &node) in replay.order.iter().enumerate() {
        let Ok(work) = &subject.work[node.core][node.line] else { continue };
        if let Work::Regions(cuts) = work {
            regions[node.core].set(cuts);
        }
        for access in accesses(work, subject.arch) {
            let place = l2_of(subject, &regions, node, access.memory);
            let Some((core, region)) = place else { continue };
            let labels = &mut labels[core];
            let pieces = region.pieces(access.span.start, access.span.end).into_iter().flatten();
            match work {
                _ if access.write => {
                    pieces.for_each(|(start, end)| drop(labels.set(start, end, number)));
                }
                Work::Weights(weights) => {
                    let start = region.byte(access.span.start);
                    let lines = pieces.flat_map(|(start, end)| labels.of(start, end)).flatten();
                    let mut wrong = lines.filter_map(|line| {
                        let load = replay.order[line];
                        let why = other_rows(subject, &regions, load, weights, start)?;
                        Some(format!(
                            "the weights in L2 are those of {}, {why}",
                            subject.show(load)
                        ))
                    });
                    found.extend(wrong.next().map(|what| (node, what)));
                }
                _ => {}
            }
        }
    }
    found
}

/// Why the rows that a line left in L2 are not those that a copy expects from byte `start` on.
fn other_rows(
    subject: &Subject<'_>,
    regions: &[RegionTable],
    load: Node,
    weights: &Weights,
    start: u64,
) -> Option<String> {
    let Ok(Work::Weights(left)) = &subject.work[load.core][load.line] else { return None };
    let WeightDest::L2(place) = left.dest else { return None };
    if left.dest_row != weights.source_row || left.format != weights.format {
        let [[c, r, s], [own_c, own_r, own_s]] = [left.dest_row, weights.source_row];
        return Some(format!("whose rows are {c}x{r}x{s}, not {own_c}x{own_r}x{own_s}"));
    }
    let region = regions[load.core].get(place.region)?;
    let row = channel_bytes(1, dense_row_bytes(left.dest_row, element_bytes(left.format)));
    // Round the ring there may be no whole number of rows.
    let [start, first, row, round] =
        [start, region.byte(place.address), row, region.length].map(|bytes| bytes as i64);
    let offset = Saturating(start) - Saturating(first);
    let offset = if offset.0 < 0 { offset + Saturating(round) } else { offset };
    (offset.0.rem_euclid(row) != 0).then(|| "where no row begins".to_owned())
}

fn find(subject: &Subject<'_>, replay: &Replay) -> Vec<(Node, String)> {
    let mut labels: Vec<Labels> = subject.programs.iter().map(|_| Labels::default()).collect();
    let unit = u64::from(subject.arch.wl0_unit);
    let mut found = Vec::new();
    for &node in &replay.order {
        match &subject.work[node.core][node.line] {
            Ok(Work::Weights(weights)) => {
                if let WeightDest::Wl0(at) = weights.dest {
                    let start = unit.saturating_mul(at.into());
                    let end = start.saturating_add(weights.buffer_bytes());
                    labels[node.core].set(start, end, node.line);
                }
            }
            Ok(Work::Conv(conv)) => {
                if let Some(what) = problem(subject, node, conv, &labels[node.core]) {
                    found.push((node, what));
                }
            }
            _ => {}
        }
    }
    found
}

/// What is wrong with the weights of a convolution.
fn problem(subject: &Subject<'_>, node: Node, conv: &Conv, labels: &Labels) -> Option<String> {
    let start = product([conv.weights, subject.arch.wl0_unit].map(u64::from));
    // Rows of channels that only round the block up may hold anything.
    let row = buffer_row_bytes(conv.weight_row(), element_bytes(conv.formats[1]));
    let end = start.saturating_add(channel_bytes(conv.tile[1], row));
    let row = channel_bytes(1, row);
    let labels = labels.of(start, end);
    if labels.contains(&None) {
        return Some(match labels.len() {
            1 => "the convolution reads weights that no line loaded".to_owned(),
            _ => "a part of the weights of the convolution was never loaded".to_owned(),
        });
    }
    labels.into_iter().flatten().find_map(|line| {
        let Ok(Work::Weights(weights)) = &subject.work[node.core][line] else { return None };
        let why = misfit(subject, node, conv, line, weights, row)?;
        let load = subject.show(Node { core: node.core, line });
        Some(format!("the weights of the convolution are those of {load}, {why}"))
    })
}

/// Why the weights that a line loaded are not those of a convolution.
fn misfit(
    subject: &Subject<'_>,
    node: Node,
    conv: &Conv,
    line: usize,
    weights: &Weights,
    row: u64,
) -> Option<String> {
    if weights.dest_row != conv.weight_row() || weights.format != conv.formats[1] {
        let [c, r, s] = weights.dest_row;
        let [own_c, own_r, own_s] = conv.weight_row();
        return Some(format!("whose rows are {c}x{r}x{s}, not {own_c}x{own_r}x{own_s}"));
    }
    if let Some(cut) = weights.y_cut.filter(|&cut| cut != conv.y_cut) {
        let [cut, own] = [cut, conv.y_cut].map(YCutMode::name);
        return Some(format!("which were spread over the array by {cut}, not {own}"));
    }
    let WeightDest::Wl0(at) = weights.dest else { return None };
    let row = i64::try_from(row).unwrap_or(i64::MAX);
    let offset = (wide(conv.weights) - wide(at)) * wide(subject.arch.wl0_unit);
    if offset.0.rem_euclid(row) != 0 {
        return Some("where no row begins".to_owned());
    }
    // Rows that only round the block up hold no weights.
    let last = Saturating(offset.0.div_euclid(row)) + wide(conv.tile[1]);
    if last > wide(weights.channels) {
        return Some(format!("which has {} output channels, not {last}", weights.channels));
    }
    let lines = &subject.programs[node.core].lines;
    let (load, own) = (lines[line].map.as_ref()?, lines[node.line].map.as_ref()?);
    let foreign = !load.clyr.is_empty() && own.slyr >= 0 && !load.clyr.contains(&own.slyr);
    foreign.then(|| format!("which are of layer {}, not {}", load.clyr[0], own.slyr))
}
