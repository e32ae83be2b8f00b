//! The order of lines. Facts: measurements on published programs (`npu-measured`,
//! `docs/bibliography.md`).
//!
//! A queue executes its lines in order, and transfers of DRAM follow each other: only which of two
//! lines of one queue, or of two transfers, comes first makes a difference.

use super::Manner;
use super::transfers::{Moved, Transfer};
use crate::files::schedule::{Area, Buffer, Holds, Schedule, Slot, Tile, Workload};
use std::collections::BTreeMap;

/// Addresses in WL0 are multiples of so many units.
const CELL: i64 = 32;

/// What is written next for a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The next transfer.
    Transfer(usize),
    /// Weights of the tile at this position, from L2 to WL0.
    Stream(usize),
    /// The tile at this position.
    Tile(usize),
    /// A second copy of the result.
    Copy,
}

/// The slot of WL0 with the weights of a tile, and the box of the layer's weights that it is for;
/// those from L2 come first.
pub(super) fn slot<'a>(
    workload: &'a Workload<'a>,
    tile: &Tile<'_>,
) -> Option<(&'a Slot<'a>, &'a Area)> {
    let own = workload.slots.iter().filter(|slot| workload.owns(slot.layer, &slot.transfers));
    let held = own.filter_map(|slot| {
        let area = slot.areas.iter().find(|area| area.holds_channels(&tile.output))?;
        Some((slot, area))
    });
    held.min_by_key(|(slot, _)| slot.order.is_some())
}

/// The buffer of L2 with the weights of a tile.
pub(super) fn in_l2<'a>(workload: &'a Workload<'a>, tile: &Tile<'_>) -> Option<&'a Buffer<'a>> {
    workload.buffers.iter().find(|buffer| {
        let is_own = matches!(
            buffer.holds,
            Holds::Weights(layer) if workload.owns(layer, &buffer.transfers)
        );
        is_own && buffer.area.holds_channels(&tile.output)
    })
}

/// The tiles for which a part of WL0 has room one after the other.
pub(super) fn shared(workload: &Workload<'_>, area: &Area) -> usize {
    workload.tiles.iter().filter(|tile| area.holds_channels(&tile.output)).count()
}

/// Puts the lines in order, workload by workload.
pub(super) struct Order<'a> {
    schedule: &'a Schedule<'a>,
    transfers: &'a [Transfer<'a>],
    manner: Manner,
    /// The next transfer.
    next: usize,
    /// For every 32 units of WL0 the last workload that used them.
    used: BTreeMap<i64, usize>,
}

impl<'a> Order<'a> {
    /// Nothing is written yet.
    pub(super) fn new(
        schedule: &'a Schedule<'a>,
        transfers: &'a [Transfer<'a>],
        manner: Manner,
    ) -> Order<'a> {
        Order { schedule, transfers, manner, next: 0, used: BTreeMap::new() }
    }

    /// The steps of the workload at this position, which is asked for once, in order.
    pub(super) fn steps(&mut self, position: usize) -> Vec<Step> {
        let workload = &self.schedule.workloads[position];
        let count = workload.tiles.len();
        let (weights, inputs) = self.needs(workload);
        let mut steps = Vec::new();
        let streams: Vec<bool> = (0..count).map(|tile| self.streams(position, tile)).collect();
        let any = streams.contains(&true);
        if any {
            self.up_to(weights, &mut steps);
        }
        // What waited for its turn.
        while self.transfers.get(self.next).is_some_and(|next| next.workload < position) {
            self.take(&mut steps);
        }
        let together = any && count > 1 && self.together(workload);
        if any {
            let first = if together { vec![0, 1] } else { vec![0] };
            steps.extend(self.loads(first, &streams));
        }
        self.up_to(weights.max(inputs), &mut steps);
        if together {
            self.ahead(position, &mut steps);
        }
        for tile in 0..count {
            if tile > 0 && any {
                let late = (tile == 1 && !together).then_some(1);
                steps.extend(self.loads(late.into_iter().chain([tile + 1]).collect(), &streams));
            }
            if tile == 1 {
                self.ahead(position, &mut steps);
            }
            steps.push(Step::Tile(tile));
        }
        steps.push(Step::Copy);
        while self.transfers.get(self.next).is_some_and(|next| next.workload <= position) {
            self.take(&mut steps);
        }
        self.use_slots(workload, position);
        steps
    }

    fn take(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::Transfer(self.next));
        self.next += 1;
    }

    /// All transfers before `end`.
    fn up_to(&mut self, end: usize, steps: &mut Vec<Step>) {
        while self.next < end.min(self.transfers.len()) {
            self.take(steps);
        }
    }

    /// One load that this workload or an earlier one lists, usually for a later one.
    fn ahead(&mut self, position: usize, steps: &mut Vec<Step>) {
        let Some(next) = self.transfers.get(self.next) else { return };
        let stores = matches!(next.moved, Moved::Store(..));
        if next.workload <= position && !stores {
            self.take(steps);
        }
    }

    /// Up to which transfers a workload needs its weights, and its inputs.
    fn needs(&self, workload: &Workload<'_>) -> (usize, usize) {
        let after = |order: usize| if order < self.transfers.len() { order + 1 } else { 0 };
        let buffers = workload.buffers.iter();
        let weights = buffers.clone().filter(
            |b| matches!(b.holds, Holds::Weights(layer) if workload.owns(layer, &b.transfers)),
        );
        let slots = workload.slots.iter().filter(|s| workload.owns(s.layer, &s.transfers));
        let slots = slots.filter_map(|slot| slot.order.map(after));
        let weights = weights.map(|buffer| after(buffer.order)).chain(slots).max();
        let inputs = buffers.filter(|buffer| buffer.holds == Holds::Input && buffer.current);
        let inputs = inputs.map(|buffer| after(buffer.order)).max();
        (weights.filter(|_| workload.pe).unwrap_or(0), inputs.unwrap_or(0))
    }

    /// Loads of these tiles; published programs have the later one first.
    fn loads(&self, mut tiles: Vec<usize>, streams: &[bool]) -> Vec<Step> {
        tiles.retain(|&tile| streams.get(tile) == Some(&true));
        if self.manner == Manner::Compat {
            tiles.reverse();
        }
        tiles.into_iter().map(Step::Stream).collect()
    }

    /// True when the weights of a tile come from L2 for this workload. What L2 no longer has has
    /// stayed in WL0 since the workload before.
    fn streams(&self, position: usize, tile: usize) -> bool {
        let workload = &self.schedule.workloads[position];
        let tile = &workload.tiles[tile];
        let Some((slot, area)) = slot(workload, tile).filter(|(slot, _)| slot.order.is_none())
        else {
            return false;
        };
        let before = position.checked_sub(1).map(|before| &self.schedule.workloads[before]);
        let kept = before.is_some_and(|before| before.slots.iter().any(|other| other.is(slot)));
        in_l2(workload, tile).is_some() || !kept || shared(workload, area) > 1
    }

    /// True when the weights of the first two tiles are loaded before the first: in published
    /// programs where the same workload used both places last.
    fn together(&self, workload: &Workload<'_>) -> bool {
        let Some((slot, _)) = workload.tiles.first().and_then(|tile| slot(workload, tile)) else {
            return false;
        };
        let half = slot.size / 2;
        let newest = |start: i64| {
            let cells = start / CELL..(start + half + CELL - 1) / CELL;
            self.used.range(cells).map(|(_, position)| *position).max()
        };
        self.manner == Manner::Ours || newest(slot.address) == newest(slot.address + half)
    }

    fn use_slots(&mut self, workload: &Workload<'_>, position: usize) {
        let own = workload.slots.iter().filter(|slot| workload.pe && slot.layer == workload.layer);
        for slot in own {
            // The rules of schedules keep slots in WL0.
            for cell in slot.address / CELL..(slot.address + slot.size) / CELL {
                self.used.insert(cell, position);
            }
        }
    }
}
