//! Schedules to programs: the scheduler IR and the frontend IR of a network say everything about a
//! program but its bytes.
//!
//! 1. [`transfers`]: what is moved between DRAM and the core, and where it lies in DRAM.
//! 2. [`order`]: the order of lines.
//! 3. [`place`], [`lines`]: addresses and fields.
//!
//! Tokens are those of [`writer`](crate::writer). Facts: `gemini`, `npu-measured`
//! (`docs/bibliography.md`).

mod lines;
mod order;
mod place;
mod scales;
mod transfers;

use crate::arch::NpuArch;
use crate::files::layers::{Layer, Layers, Operation};
use crate::files::schedule::{Area, Holds, Schedule, Workload};
use crate::files::{At, IrFile};
use crate::isa::YCutMode;
use crate::program::{Map, Program};
use crate::time::Model;
use crate::work::{Place, Regions, WeightDest, WeightSource, Work, lines as lines_of};
use crate::writer::{Need, Op, Writer};
use lines::{Written, narrow};
use order::{Order, Step};
use place::{Blocks, Held};
use quincunx_diag::{Diagnostic, Result, any_error};
use std::collections::BTreeMap;
use transfers::{Dram, Moved, Transfer, row_bytes, transfers};

/// How to derive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As the original tool does, with its errors.
    Compat,
    /// Without them.
    Ours,
}

/// A file and its name.
pub(crate) type Named<'a> = (&'a str, &'a IrFile);

/// The program of a schedule.
///
/// # Errors
/// `Q4072` to `Q4076` for files that break their rules, lack something or contradict each other,
/// `Q4102` for schedules without a form, all with the path.
pub(crate) fn derive(
    schedule: Named<'_>,
    network: Named<'_>,
    scales: Option<Named<'_>>,
    arch: &NpuArch,
    manner: Manner,
    warnings: &mut Vec<Diagnostic>,
) -> std::result::Result<Program, Vec<Diagnostic>> {
    for (name, file) in [schedule, network].into_iter().chain(scales) {
        let problems: Vec<_> = file.validate().into_iter().map(|p| p.name_file(name)).collect();
        if any_error(&problems) {
            return Err(problems);
        }
        warnings.extend(problems);
    }
    let named = |problem: Diagnostic, (name, _): Named<'_>| vec![problem.name_file(name)];
    let layers = Layers::read(network.1).map_err(|problem| named(problem, network))?;
    if let Some(scales) = scales {
        scales::check(&layers, scales.1).map_err(|problem| named(problem, scales))?;
    }
    let program = Schedule::read(schedule.1).and_then(|mut schedule| {
        if manner == Manner::Ours {
            // Keys are in alphabetical order.
            let workloads = schedule.workloads.iter_mut();
            workloads.for_each(|work| work.tiles.sort_by_key(|tile| tile.number));
        }
        let transfers = transfers(&schedule)?;
        Deriver::new(&schedule, &layers, &transfers, arch, manner)?.program()
    });
    program.map_err(|problem| named(problem, schedule))
}

/// A problem of the whole schedule.
fn contradiction(schedule: &Schedule<'_>, message: String) -> Diagnostic {
    match schedule.workloads.first() {
        Some(workload) => workload.at.wrong("Q4073", message),
        None => Diagnostic::invalid("Q4073", format!("$: {message}")),
    }
}

/// Bytes of a unit of WL0 in schedules of the original tool.
const UNIT_BYTES: u32 = 64;

struct Deriver<'a> {
    schedule: &'a Schedule<'a>,
    layers: &'a Layers<'a>,
    transfers: &'a [Transfer<'a>],
    manner: Manner,
    dram: Dram<'a>,
    blocks: Blocks<'a>,
    /// How workloads cut the array, by layer and position.
    cuts: BTreeMap<(&'a str, usize), YCutMode>,
    writer: Writer<'a>,
    /// The newest line of compute when each workload began.
    begun: Vec<Option<Op>>,
    newest: Option<Op>,
}

impl<'a> Deriver<'a> {
    fn new(
        schedule: &'a Schedule<'a>,
        layers: &'a Layers<'a>,
        transfers: &'a [Transfer<'a>],
        arch: &'a NpuArch,
        manner: Manner,
    ) -> Result<Deriver<'a>> {
        if schedule.bytes > arch.l2_bytes.into() {
            let (need, have) = (schedule.bytes, arch.l2_bytes);
            let message =
                format!("$.buffersize: the schedule is for {need} bytes of L2, of {have}");
            let problem = Diagnostic::unsupported("Q4102", message);
            return Err(problem.help("take a machine with more L2"));
        }
        if schedule.bytes % 1024 != 0 {
            let message = format!("buffersize {} is no multiple of 1024", schedule.bytes);
            return Err(contradiction(schedule, message));
        }
        if arch.wl0_unit != UNIT_BYTES {
            let message =
                format!("schedules have WL0 units of {UNIT_BYTES} bytes, not of {}", arch.wl0_unit);
            let problem = Diagnostic::unsupported("Q4102", message);
            return Err(problem.help("take a machine with this unit"));
        }
        let cuts = schedule.workloads.iter().enumerate().filter_map(|(position, workload)| {
            let cut = workload.tiles.first()?.cut?;
            Some(((workload.layer, position), cut.y))
        });
        Ok(Deriver {
            schedule,
            layers,
            transfers,
            manner,
            dram: Dram::new(layers, transfers)?,
            blocks: Blocks::new(schedule, manner),
            cuts: cuts.collect(),
            writer: Writer::new(arch, Model::UPSTREAM),
            begun: Vec::new(),
            newest: None,
        })
    }

    fn program(mut self) -> Result<Program> {
        let Some(first) = self.schedule.workloads.first() else {
            return Err(contradiction(self.schedule, "there are no workloads".to_owned()));
        };
        let map = self.map(first, None, -1);
        self.control(Work::Begin, &map);
        self.regions(&map)?;
        let mut order = Order::new(self.schedule, self.transfers, self.manner);
        let mut last = map;
        for (position, workload) in self.schedule.workloads.iter().enumerate() {
            self.begun.push(self.newest);
            last = self.map(workload, None, -1);
            let layer = self.layer(workload)?;
            let held = Held::new(workload, &layer.operands, self.schedule, self.manner)?;
            for step in order.steps(position) {
                self.step(step, workload, layer, &held)?;
            }
        }
        self.control(Work::End, &last);
        Ok(self.writer.finish())
    }

    fn control(&mut self, work: Work, map: &Map) {
        if let Some(lines) = lines_of(&work) {
            self.writer.write_lines(&work, lines, map, 0, Need::default());
        }
    }

    /// One region for the whole schedule.
    fn regions(&mut self, map: &Map) -> Result<()> {
        let whole = [0, self.schedule.bytes];
        for workload in &self.schedule.workloads {
            if workload.rings.iter().any(|ring| *ring != whole) {
                let message = format!("expected one ring of {} bytes", self.schedule.bytes);
                return Err(workload.at.wrong("Q4102", message));
            }
        }
        let kib = self.schedule.bytes / 1024;
        // The field has 13 bits: the length of the largest region is 0.
        let cut = ((kib % 8192) as u16, (kib - 1).clamp(0, 8191) as u16);
        for first in [0, 4, 8, 12] {
            let cuts = if first == 0 { [cut, (0, 0), (0, 0), (0, 0)] } else { [(0, 0); 4] };
            self.control(Work::Regions(Regions { first, cuts }), map);
        }
        Ok(())
    }

    fn layer(&self, workload: &Workload<'a>) -> Result<&'a Layer<'a>> {
        let name = workload.layer;
        let Some(layer) = self.layers.layers.get(name) else {
            let message = format!("the network has no layer {name:?} that the machine computes");
            return Err(workload.at.wrong("Q4073", message));
        };
        let whole = Area { lower: [0; 4], upper: layer.output.map(|extent| extent - 1) };
        if !whole.holds(&workload.area) {
            let message = format!("lies outside of {name:?}, which has {:?}", layer.output);
            return Err(workload.at.wrong("Q4073", message));
        }
        if workload.pe != lines::conv_of(layer).is_some() {
            return Err(workload.at.wrong("Q4073", format!("{name:?} is work of the other unit")));
        }
        Ok(layer)
    }

    /// Debug data: where a line belongs, and the layer whose data it moves.
    fn map(&self, workload: &Workload<'_>, carried: Option<&str>, tile: i32) -> Map {
        let index = |name: &str| self.layers.layers.get(name).map_or(-1, |layer| layer.index);
        let carried: Vec<i32> = carried.into_iter().map(index).collect();
        Map {
            slyr: index(workload.layer),
            clyr: carried.iter().copied().collect(),
            s_flyr: 0,
            c_flyr: carried.iter().map(|_| 0).collect(),
            wkl: workload.id,
            tile: Some(tile),
        }
    }

    fn step(
        &mut self,
        step: Step,
        workload: &'a Workload<'a>,
        layer: &'a Layer<'a>,
        held: &Held<'a>,
    ) -> Result<()> {
        match step {
            Step::Transfer(order) => self.transfer(order),
            Step::Stream(position) => self.stream(workload, layer, position),
            Step::Tile(position) => {
                let tile = &workload.tiles[position];
                let written = match &layer.operation {
                    Operation::Conv(conv) => {
                        let unit = self.blocks.unit(workload, position, conv.weights)?;
                        lines::conv(workload, layer, conv, tile, held, unit, self.manner)?
                    }
                    Operation::Vector(vector) => {
                        lines::vector(workload, layer, vector, tile, held, self.manner)?
                    }
                };
                let map = self.map(workload, None, tile.number);
                self.newest = Some(self.write(written, &map, None));
                Ok(())
            }
            Step::Copy => {
                let Some(copy) = held.copy else { return Ok(()) };
                let map = self.map(workload, None, -1);
                self.write(lines::copy(workload, held.output, copy)?, &map, None);
                Ok(())
            }
        }
    }

    fn write(&mut self, (work, lines): Written, map: &Map, after: Option<Op>) -> Op {
        self.writer.write_lines(&work, lines, map, 0, Need { after, ..Need::default() })
    }

    /// Weights of a tile from L2 to WL0.
    fn stream(
        &mut self,
        workload: &Workload<'_>,
        layer: &Layer<'_>,
        position: usize,
    ) -> Result<()> {
        let Operation::Conv(conv) = &layer.operation else { return Ok(()) };
        let tile = &workload.tiles[position];
        let address = self.blocks.source(workload, tile, conv.weights)?;
        let unit = self.blocks.unit(workload, position, conv.weights)?;
        let written = lines::weights(
            WeightSource::L2(Place { region: 0, address }),
            WeightDest::Wl0(narrow(unit, &tile.at)?),
            tile.cut.map(|cut| cut.y),
            tile.output.extents()[1],
            conv.weights,
            &tile.at,
        )?;
        let map = self.map(workload, Some(workload.layer), -1);
        self.write(written, &map, None);
        Ok(())
    }

    fn transfer(&mut self, order: usize) -> Result<()> {
        let transfer = &self.transfers[order];
        let workload = &self.schedule.workloads[transfer.workload];
        let (written, carried) = match transfer.moved {
            Moved::Weights(buffer) => {
                let Holds::Weights(layer) = buffer.holds else { return Ok(()) };
                let dest = WeightDest::L2(Place { region: 0, address: buffer.address });
                (self.weights(layer, &buffer.area, dest, None, &buffer.at)?, Some(layer))
            }
            Moved::Resident(slot, area) => {
                let dest = WeightDest::Wl0(narrow(slot.address, &slot.at)?);
                let cut = self.cut(transfer.workload, slot.layer, &slot.at)?;
                (self.weights(slot.layer, &area, dest, Some(cut), &slot.at)?, Some(slot.layer))
            }
            moved => {
                let written = lines::activations(&moved, workload, self.schedule, &self.dram)?;
                (written, None)
            }
        };
        let map = self.map(workload, carried, -1);
        // Published programs load nothing before the workload that lists it is the next.
        let begun = self.begun.get(transfer.workload).copied().flatten();
        let after = begun.filter(|_| self.manner == Manner::Compat);
        self.write(written, &map, after);
        Ok(())
    }

    /// Weights of a box of a layer's from DRAM.
    fn weights(
        &self,
        layer: &str,
        area: &Area,
        dest: WeightDest,
        cut: Option<YCutMode>,
        at: &At<'_>,
    ) -> Result<Written> {
        let conv = self.layers.layers.get(layer).and_then(lines::conv_of);
        let (Some(conv), Some(&first)) = (conv, self.dram.weights.get(layer)) else {
            return Err(at.wrong("Q4073", format!("the network has no convolution {layer:?}")));
        };
        let [k, c, r, s] = conv.weights;
        let whole = Area { lower: [0; 4], upper: [0, k - 1, c - 1, r * s - 1] };
        let [_, channels, inputs, points] = area.extents();
        if !whole.holds(area) || inputs != c || points != r * s {
            let message = format!("is no block of the weights of {layer:?}, [{k}, {c}, {r}, {s}]");
            return Err(at.wrong("Q4073", message));
        }
        let byte = first.saturating_add(area.lower[1] * row_bytes(conv.weights));
        let source = WeightSource::Dram { bas: 1, address: narrow(byte, at)? };
        lines::weights(source, dest, cut, channels, conv.weights, at)
    }

    /// How the next workload of a layer cuts the array.
    fn cut(&self, position: usize, layer: &str, at: &At<'_>) -> Result<YCutMode> {
        let later = self.cuts.range((layer, position)..).next();
        let next = later.filter(|((name, _), _)| *name == layer);
        next.map(|(_, cut)| *cut)
            .ok_or_else(|| at.wrong("Q4073", format!("no later workload computes {layer:?}")))
    }
}
