//! What a scheduler IR says, for those who derive a program from it. Facts: `gemini`
//! (`docs/bibliography.md`).
//!
//! Extents are small enough that products of four of them and a pixel fit 64 bits.

use super::{At, IrFile};
use crate::isa::YCutMode;
use quincunx_diag::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Most elements of an axis: extents have 14 bits.
const MOST: i64 = 1 << 14;
/// Addresses and identifiers.
const NUMBERS: std::ops::RangeInclusive<i64> = 0..=1 << 40;

/// A box of `[image, channel, row, column]`, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) lower: [i64; 4],
    pub(crate) upper: [i64; 4],
}

impl Area {
    fn read(lower: &At<'_>, upper: &At<'_>) -> Result<Area> {
        let area = Area { lower: lower.wholes(0..=MOST - 1)?, upper: upper.wholes(0..=MOST - 1)? };
        match (0..4).all(|axis| area.lower[axis] <= area.upper[axis]) {
            true => Ok(area),
            false => Err(upper.wrong("Q4073", "the end of the box lies before its begin")),
        }
    }

    /// The box between two members.
    pub(crate) fn of(at: &At<'_>, lower: &str, upper: &str) -> Result<Area> {
        Area::read(&at.need(lower)?, &at.need(upper)?)
    }

    /// How many elements each axis has.
    pub(crate) fn extents(&self) -> [i64; 4] {
        std::array::from_fn(|axis| {
            self.upper[axis].saturating_sub(self.lower[axis]).saturating_add(1)
        })
    }

    /// True when the other box lies in this one.
    pub(crate) fn holds(&self, other: &Area) -> bool {
        (0..4).all(|a| self.lower[a] <= other.lower[a] && other.upper[a] <= self.upper[a])
    }
}

impl Area {
    /// True for a box of weights that has the channels of a result.
    pub(crate) fn holds_channels(&self, result: &Area) -> bool {
        self.lower[1] <= result.lower[1] && result.upper[1] <= self.upper[1]
    }
}

/// A schedule of one core.
#[derive(Debug)]
pub(crate) struct Schedule<'a> {
    /// Bytes of L2.
    pub(crate) bytes: i64,
    /// What comes from DRAM: where in its tensor, by transfer.
    pub(crate) loads: BTreeMap<i64, Area>,
    /// What goes there: where in the result of this layer, which this workload completes.
    pub(crate) stores: BTreeMap<(&'a str, i64), Area>,
    /// Transfers from and to DRAM.
    pub(crate) transfers: usize,
    /// In the order in which they run.
    pub(crate) workloads: Vec<Workload<'a>>,
}

/// A piece of a layer.
#[derive(Debug)]
pub(crate) struct Workload<'a> {
    pub(crate) at: At<'a>,
    /// Its number.
    pub(crate) id: i32,
    /// Its layer.
    pub(crate) layer: &'a str,
    /// True for convolutions, false for vector work.
    pub(crate) pe: bool,
    /// What it computes of the layer's result.
    pub(crate) area: Area,
    /// What it reads: boxes of buffers, and the transfers that brought them.
    pub(crate) inputs: Vec<(Area, BTreeSet<i64>)>,
    /// The transfers of its results.
    pub(crate) outputs: BTreeSet<i64>,
    /// The transfers of its weights.
    pub(crate) weights: BTreeSet<i64>,
    /// In the order of the file.
    pub(crate) tiles: Vec<Tile<'a>>,
    /// L2 while it runs.
    pub(crate) buffers: Vec<Buffer<'a>>,
    /// WL0 while it runs.
    pub(crate) slots: Vec<Slot<'a>>,
    /// Regions of L2: begin and length.
    pub(crate) rings: Vec<[i64; 2]>,
}

/// What one line computes.
#[derive(Debug)]
pub(crate) struct Tile<'a> {
    pub(crate) at: At<'a>,
    /// Its number in the workload.
    pub(crate) number: i32,
    /// What it computes.
    pub(crate) output: Area,
    /// What it reads of its first input.
    pub(crate) input: Area,
    /// Rows above and columns on the left that are padding, rows below and columns on the right.
    pub(crate) padding: [[i64; 2]; 2],
    /// Of convolutions: how the array is cut.
    pub(crate) cut: Option<Cut>,
}

/// How a tile is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) y: YCutMode,
    /// Input channels in words and output channels in eights of the mini tile.
    pub(crate) channels: [i64; 2],
    /// Rows and columns of the mini tile.
    pub(crate) image: [i64; 2],
}

/// What a buffer of L2 holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds<'a> {
    /// Activations that workloads read.
    Input,
    /// Weights of this layer.
    Weights(&'a str),
    /// Results of this layer that go to DRAM.
    Output(&'a str),
}

/// A part of L2.
#[derive(Debug)]
pub(crate) struct Buffer<'a> {
    pub(crate) at: At<'a>,
    pub(crate) holds: Holds<'a>,
    pub(crate) address: i64,
    /// What it has room for, counted from itself; of weights the box of the layer's.
    pub(crate) area: Area,
    /// Bits of an element.
    pub(crate) bits: i64,
    /// Position among the transfers of DRAM; at least their number for what none brings.
    pub(crate) order: usize,
    /// The transfers that fill it.
    pub(crate) transfers: BTreeSet<i64>,
    /// Who fills it.
    pub(crate) sources: Vec<Source<'a>>,
    /// The workload reads it.
    pub(crate) current: bool,
}

/// What fills a part of a buffer.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) layer: &'a str,
    pub(crate) transfer: i64,
    /// Where in the buffer.
    pub(crate) area: Area,
    pub(crate) dram: bool,
}

/// A part of WL0.
#[derive(Debug)]
pub(crate) struct Slot<'a> {
    pub(crate) at: At<'a>,
    pub(crate) layer: &'a str,
    pub(crate) address: i64,
    pub(crate) size: i64,
    /// The transfers that bring its weights from DRAM.
    pub(crate) transfers: BTreeSet<i64>,
    /// Boxes of the weights.
    pub(crate) areas: Vec<Area>,
    /// Of weights from DRAM: position among the transfers. Others come from L2.
    pub(crate) order: Option<usize>,
}

impl Workload<'_> {
    /// True for weights of this layer and these transfers when they are those of the workload.
    pub(crate) fn owns(&self, layer: &str, transfers: &BTreeSet<i64>) -> bool {
        self.pe && layer == self.layer && !transfers.is_disjoint(&self.weights)
    }
}

impl Slot<'_> {
    /// True when the other slot is the same one with the same weights.
    pub(crate) fn is(&self, other: &Slot<'_>) -> bool {
        self.address == other.address && self.transfers == other.transfers
    }
}

impl<'a> Schedule<'a> {
    /// What of a layer's result goes to DRAM that no workload behind this one completes.
    pub(crate) fn store(&self, layer: &str, workload: i32) -> Option<Area> {
        let before = (layer, i64::MIN)..=(layer, workload.into());
        self.stores.range(before).next_back().map(|(_, area)| *area)
    }

    /// Reads a schedule whose rules [`IrFile::validate`] has checked.
    ///
    /// # Errors
    /// `Q4072`, `Q4073` with the path; `Q4102` for several cores.
    pub(crate) fn read(file: &'a IrFile) -> Result<Schedule<'a>> {
        let root = At::root(&file.value);
        let bytes = root.need("buffersize")?.whole(NUMBERS)?;
        let dram = root.need("-1")?;
        let (out, back) = (dram.items("out")?, dram.items("in")?);
        let load = |at: &At<'a>| {
            Ok((at.need("transfer_id")?.whole(NUMBERS)?, Area::of(at, "lower", "upper")?))
        };
        let store = |at: &At<'a>| {
            let (layer, area) = (at.need("layer_name")?.text()?, Area::of(at, "lower", "upper")?);
            Ok(((layer, at.need("workload_id")?.whole(NUMBERS)?), area))
        };
        let loads: BTreeMap<i64, Area> = out.iter().map(load).collect::<Result<_>>()?;
        let mut workloads = Vec::new();
        for (key, list) in root.members()? {
            match key.parse::<i64>() {
                Ok(0) => workloads = list.list()?,
                Ok(1..) => {
                    let problem = list.wrong("Q4102", "expected the workloads of one core");
                    return Err(
                        problem.help("derive the program of every core from a file of its own")
                    );
                }
                _ => {}
            }
        }
        Ok(Schedule {
            bytes,
            stores: back.iter().map(store).collect::<Result<_>>()?,
            transfers: out.len().saturating_add(back.len()),
            workloads: workloads
                .into_iter()
                .map(|at| workload(at, &loads))
                .collect::<Result<_>>()?,
            loads,
        })
    }
}

fn identifiers(at: &At<'_>) -> Result<BTreeSet<i64>> {
    at.items("transfer_id")?.iter().map(|id| id.whole(NUMBERS)).collect()
}

fn workload<'a>(at: At<'a>, loads: &BTreeMap<i64, Area>) -> Result<Workload<'a>> {
    let kind = at.need("layer_type")?.text()?;
    let area = at.need("workload")?.list()?;
    let [lower, upper] = &area[..] else {
        return Err(at.wrong("Q4072", "expected a box of two ends in workload"));
    };
    let inputs = at.items("ifmap")?;
    let input = |at: &At<'_>| Ok((Area::of(at, "lower", "upper")?, identifiers(at)?));
    let weights = at.get("weight").map(|at| identifiers(&at)).transpose()?;
    let output = |at: &At<'_>| at.need("transfer_id")?.whole(NUMBERS);
    // The key has two names.
    let slots = match at.get("wl0_buffer") {
        Some(slots) => slots.list()?,
        None => at.items("wl1_buffer")?,
    };
    let rings = at.items("ring_buffer_info")?;
    Ok(Workload {
        id: at.need("workload_id")?.whole(0..=i64::from(i32::MAX))? as i32,
        layer: at.need("layer_name")?.text()?,
        pe: kind == "pe",
        area: Area::read(lower, upper)?,
        inputs: inputs.iter().map(input).collect::<Result<_>>()?,
        outputs: at.items("ofmap")?.iter().map(output).collect::<Result<_>>()?,
        weights: weights.unwrap_or_default(),
        tiles: at.need("tile_info")?.members()?.into_iter().map(tile).collect::<Result<_>>()?,
        buffers: at.items("buffer")?.into_iter().map(buffer).collect::<Result<_>>()?,
        slots: slots.into_iter().map(|at| slot(at, loads)).collect::<Result<_>>()?,
        rings: rings.iter().map(|ring| ring.wholes(NUMBERS)).collect::<Result<_>>()?,
        at,
    })
}

fn tile<'a>((key, at): (&'a str, At<'a>)) -> Result<Tile<'a>> {
    let number = key.strip_prefix("tile_num_").and_then(|number| number.parse::<i32>().ok());
    let number = number.filter(|number| *number >= 0);
    let number = number.ok_or_else(|| at.wrong("Q4072", "expected a key as tile_num_0"))?;
    let [top, bottom, left, right] = at.need("tile_padding_tblr")?.wholes(0..=MOST)?;
    Ok(Tile {
        number,
        output: Area::of(&at, "ofmap_lower", "ofmap_upper")?,
        input: Area::of(&at, "ifmap_lower", "ifmap_upper")?,
        padding: [[top, left], [bottom, right]],
        cut: at.get("cut_mode").map(|mode| cut(&at, &mode)).transpose()?,
        at,
    })
}

fn cut(tile: &At<'_>, mode: &At<'_>) -> Result<Cut> {
    let y = match mode.text()? {
        "KW" => YCutMode::CUT_W,
        "KH" => YCutMode::CUT_H,
        "KN" => YCutMode::CUT_N,
        "KK" => YCutMode::CUT_K,
        "KC" => YCutMode::CUT_C,
        other => {
            let message = format!("expected KW, KH, KN, KK or KC, found {other:?}");
            return Err(mode.wrong("Q4072", message));
        }
    };
    let [_, _, rows, columns] = tile.need("out_mini_tile")?.wholes(1..=MOST)?;
    let channels = tile.need("mtc0_mtk0")?.wholes(1..=MOST)?;
    Ok(Cut { y, channels, image: [rows, columns] })
}

fn buffer(at: At<'_>) -> Result<Buffer<'_>> {
    let layer = || at.need("layer_name")?.text();
    let holds = match at.need("type")?.text()? {
        "weight" => Holds::Weights(layer()?),
        "ofmap" => Holds::Output(layer()?),
        _ => Holds::Input,
    };
    // Weights come from DRAM, where boxes are those of the layer.
    let sources = if holds == Holds::Input { at.items("source")? } else { Vec::new() };
    Ok(Buffer {
        holds,
        address: at.need("address")?.whole(NUMBERS)?,
        area: Area::of(&at, "lower", "upper")?,
        bits: at.need("bitwidth")?.whole(1..=64)?,
        order: at.need("tensor_order")?.whole(NUMBERS)? as usize,
        transfers: identifiers(&at)?,
        sources: sources.into_iter().map(source).collect::<Result<_>>()?,
        current: at.get("cur_wl_ifmap").is_some_and(|current| current.is_true()),
        at,
    })
}

fn source(at: At<'_>) -> Result<Source<'_>> {
    Ok(Source {
        layer: at.get("layer_name").map_or(Ok(""), |name| name.text())?,
        transfer: at.need("transfer_id")?.whole(NUMBERS)?,
        area: Area::of(&at, "lower", "upper")?,
        dram: at.need("type")?.text()? == "DRAM",
    })
}

fn slot<'a>(at: At<'a>, loads: &BTreeMap<i64, Area>) -> Result<Slot<'a>> {
    let (from, transfers) = (at.need("source")?, identifiers(&at)?);
    let (areas, order) = match from.text()? {
        "CORE" => (transfers.iter().filter_map(|id| loads.get(id)).copied().collect(), None),
        "DDR" => {
            let order = at.need("tensor_order")?.whole(NUMBERS)? as usize;
            (vec![Area::of(&at, "lower", "upper")?], Some(order))
        }
        other => {
            return Err(from.wrong("Q4072", format!("expected DDR or CORE, found {other:?}")));
        }
    };
    Ok(Slot {
        layer: at.need("layer_name")?.text()?,
        address: at.need("address")?.whole(NUMBERS)?,
        size: at.need("size")?.whole(NUMBERS)?,
        transfers,
        areas,
        order,
        at,
    })
}
