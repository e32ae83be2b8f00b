//! Where the data of workloads lies in L2 and WL0.

use super::Manner;
use super::order::{in_l2, shared, slot};
use super::transfers::{row_bytes, units};
use crate::files::schedule::{Buffer, Holds, Schedule, Tile, Workload};
use crate::isa::DataFmt;
use crate::work::{Extents, Place, element_bytes, pitch};
use quincunx_diag::Result;
use std::collections::{BTreeMap, BTreeSet};

/// A tensor in L2, and where in it a workload reads or writes.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) buffer: &'a Buffer<'a>,
    /// Where the workload's part begins.
    pub(super) first: [i64; 4],
    pub(super) format: DataFmt,
}

impl<'a> Part<'a> {
    fn new(buffer: &'a Buffer<'a>, first: [i64; 4]) -> Result<Part<'a>> {
        let format = match buffer.bits {
            8 => DataFmt::INT8,
            16 => DataFmt::FP16,
            bits => {
                let message = format!("expected elements of 8 or 16 bits, found {bits}");
                return Err(buffer.at.wrong("Q4073", message));
            }
        };
        Ok(Part { buffer, first, format })
    }

    /// Channels, rows and columns of the buffer.
    pub(super) fn extents(&self) -> Extents {
        let [_, c, h, w] = self.buffer.area.extents();
        [c, h, w].map(|extent| extent as u32)
    }

    /// Bytes from a pixel to the next.
    pub(super) fn pixel(&self) -> i64 {
        pitch(self.extents()[0], element_bytes(self.format)).into()
    }

    /// The place of a box so far from where the workload's part begins.
    ///
    /// # Errors
    /// `Q4073` when the buffer does not hold it.
    pub(super) fn place(&self, offset: [i64; 4], size: [i64; 4]) -> Result<Place> {
        let room = self.buffer.area.extents();
        let at: [i64; 4] = std::array::from_fn(|axis| self.first[axis] + offset[axis]);
        if let Some(axis) = (0..4).find(|&a| at[a] < 0 || at[a] + size[a] > room[a]) {
            let message = format!(
                "{} of axis {axis} from {} on do not fit the {} of the buffer",
                size[axis], at[axis], room[axis]
            );
            return Err(self.buffer.at.wrong("Q4073", message));
        }
        let [n, c, h, w] = at;
        let pixel = (n * room[2] + h) * room[3] + w;
        let byte = pixel * self.pixel() + c * i64::from(element_bytes(self.format));
        Ok(Place { region: 0, address: self.buffer.address + byte })
    }
}

/// Where the data of a workload lies.
pub(super) struct Held<'a> {
    /// What it reads, operand by operand.
    pub(super) inputs: Vec<Part<'a>>,
    /// Where its results go.
    pub(super) output: Part<'a>,
    /// Where a copy of them goes.
    pub(super) copy: Option<Part<'a>>,
    /// The first corner of what its tiles read.
    pub(super) origin: [i64; 4],
}

impl<'a> Held<'a> {
    /// The places of a workload of a layer that reads these results.
    ///
    /// # Errors
    /// `Q4073` when no buffer holds what it reads or computes.
    pub(super) fn new(
        workload: &'a Workload<'a>,
        operands: &[&str],
        schedule: &Schedule<'_>,
        manner: Manner,
    ) -> Result<Held<'a>> {
        let (output, copy) = outputs(workload, schedule)?;
        let inputs = inputs(workload, operands, manner)?;
        Ok(Held { inputs, output, copy, origin: origin(workload) })
    }
}

/// What the workload reads: of `Manner::Compat` in the order of the schedule, else in that of the
/// operands.
fn inputs<'a>(
    workload: &'a Workload<'a>,
    operands: &[&str],
    manner: Manner,
) -> Result<Vec<Part<'a>>> {
    if workload.inputs.len() != operands.len() {
        let message =
            format!("reads {} tensors, its layer {}", workload.inputs.len(), operands.len());
        return Err(workload.at.wrong("Q4073", message));
    }
    let mut found = Vec::new();
    for (area, transfers) in &workload.inputs {
        let brings = |buffer: &&Buffer<'_>| {
            buffer.holds == Holds::Input
                && buffer.sources.iter().any(|source| transfers.contains(&source.transfer))
        };
        let held = workload.buffers.iter().filter(brings);
        // The marked one comes first.
        let Some(buffer) = held.max_by_key(|buffer| buffer.current) else {
            let message = format!("no buffer holds the transfers {transfers:?} that it reads");
            return Err(workload.at.wrong("Q4073", message));
        };
        found.push((buffer, Part::new(buffer, area.lower)?, transfers));
    }
    if manner == Manner::Compat || operands.len() < 2 {
        return Ok(found.into_iter().map(|(_, held, _)| held).collect());
    }
    let mut ordered = Vec::new();
    for operand in operands {
        let of = |(buffer, _, transfers): &(&Buffer<'_>, Part<'_>, &BTreeSet<i64>)| {
            let mut sources = buffer.sources.iter();
            sources.any(|s| s.layer == *operand && transfers.contains(&s.transfer))
        };
        let Some(index) = found.iter().position(of) else {
            let message = format!("reads nothing of {operand:?}, which its layer reads");
            return Err(workload.at.wrong("Q4073", message));
        };
        // A layer may read the same result twice.
        let held = if found.len() > 1 { found.remove(index) } else { found[index] };
        ordered.push(held.1);
    }
    Ok(ordered)
}

/// Where the workload's results go: to a buffer that is stored, or one that others read; the second
/// gets a copy of the first.
fn outputs<'a>(
    workload: &'a Workload<'a>,
    schedule: &Schedule<'_>,
) -> Result<(Part<'a>, Option<Part<'a>>)> {
    let base = schedule.store(workload.layer, workload.id).map_or([0; 4], |area| area.lower);
    let stored = workload.buffers.iter().filter_map(|buffer| {
        let is_own = buffer.holds == Holds::Output(workload.layer);
        is_own.then_some((buffer, from(base, workload.area.lower)))
    });
    let read = workload.buffers.iter().filter_map(|buffer| {
        let source = buffer.sources.iter().find(|source| {
            !source.dram
                && workload.outputs.contains(&source.transfer)
                && source.layer == workload.layer
        });
        Some((buffer, source?.area.lower))
    });
    let mut all = stored.chain(read).map(|(buffer, first)| Part::new(buffer, first));
    let Some(first) = all.next() else {
        return Err(workload.at.wrong("Q4073", "no buffer takes its results"));
    };
    Ok((first?, all.next().transpose()?))
}

/// The first corner of what all tiles read.
fn origin(workload: &Workload<'_>) -> [i64; 4] {
    let lowers = workload.tiles.iter().map(|tile| tile.input.lower);
    let least = |a: [i64; 4], b: [i64; 4]| std::array::from_fn(|axis| a[axis].min(b[axis]));
    lowers.reduce(least).unwrap_or([0; 4])
}

/// The difference of two corners.
pub(super) fn from(origin: [i64; 4], corner: [i64; 4]) -> [i64; 4] {
    std::array::from_fn(|axis| corner[axis] - origin[axis])
}

/// Where weights lie in WL0, and in L2 for those that come from there.
pub(super) struct Blocks<'a> {
    /// Published programs keep the slot of a layer's first workload.
    first: BTreeMap<&'a str, [i64; 2]>,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(schedule: &'a Schedule<'a>, manner: Manner) -> Blocks<'a> {
        let mut first = BTreeMap::new();
        for workload in schedule.workloads.iter().filter(|_| manner == Manner::Compat) {
            let slot = workload.tiles.first().and_then(|tile| slot(workload, tile));
            if let Some((slot, _)) = slot.filter(|(slot, _)| slot.order.is_none()) {
                first.entry(workload.layer).or_insert([slot.address, slot.size]);
            }
        }
        Blocks { first }
    }

    /// Unit of WL0 with the weights of the tile at this position.
    ///
    /// # Errors
    /// `Q4073` when they are not there, or not whole blocks.
    pub(super) fn unit(
        &self,
        workload: &Workload<'_>,
        position: usize,
        weights: [i64; 4],
    ) -> Result<i64> {
        let tile = &workload.tiles[position];
        let (first, count) = (tile.output.lower[1], tile.output.extents()[1]);
        let held = slot(workload, tile);
        if let Some((slot, area)) = held.filter(|(slot, _)| slot.order.is_none()) {
            let known = self.first.get(workload.layer).copied();
            let [address, size] = known.unwrap_or([slot.address, slot.size]);
            let room = if shared(workload, area) > 1 { size / 2 } else { size };
            let need = units(weights, count);
            if need > room {
                let message =
                    format!("weights of {count} channels need {need} units, found {room}");
                return Err(slot.at.wrong("Q4073", message));
            }
            let second = shared(workload, area) > 1 && !position.is_multiple_of(2);
            return Ok(address + i64::from(second) * room);
        }
        let Some((slot, area)) = held.filter(|(_, area)| (first - area.lower[1]) % 64 == 0) else {
            let message = format!("no slot of WL0 has the weights of channels {first} on");
            return Err(tile.at.wrong("Q4073", message));
        };
        Ok(slot.address + units(weights, first - area.lower[1]))
    }

    /// Byte of L2 with the weights of a tile.
    ///
    /// # Errors
    /// `Q4073` when they are not there.
    pub(super) fn source(
        &self,
        workload: &Workload<'_>,
        tile: &Tile<'_>,
        weights: [i64; 4],
    ) -> Result<i64> {
        let first = tile.output.lower[1];
        let Some(buffer) = in_l2(workload, tile) else {
            let message = format!("no buffer of L2 has the weights of channels {first} on");
            return Err(tile.at.wrong("Q4073", message));
        };
        Ok(buffer.address + (first - buffer.area.lower[1]) * row_bytes(weights))
    }
}
