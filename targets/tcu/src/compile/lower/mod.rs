//! Layers to instructions.
//!
//! Local memory of a layer, from the bottom: all constants if they are there, rows of weights that stay, rows that do not, inputs,
//! and the stage, through which everything passes between accumulators and DRAM. What
//! [`memory`](super::memory) keeps there for several layers is above.

mod epilogue;
mod lookup;
mod mix;
mod pack;
mod preload;
mod product;
mod transfer;

use super::hir::{Layer, Network, Plane, SumOrder, TableId, TempId, VarId};
use super::lir::{Lir, MemoryAddress, Tag};
use super::memory::{Misfit, Place, Placement, Pool, plane_layout};
use super::schedule::{
    Accumulators, Demand, LayerInfo, Nest, Plan, Positions, Room, place, product, sum_order,
};
use crate::arch::TcuArch;
use crate::program::{Memory, Program};
pub(crate) use preload::preload;
use product::Weights;
use quincunx_diag::{Diagnostic, Result};
use std::ops::Range;

/// A network as a program.
pub(crate) struct Lowered {
    pub(crate) program: Program,
    /// Instructions with comments before them.
    pub(crate) comments: Vec<(usize, String)>,
    /// Constants from the start of DRAM1.
    pub(crate) constants: Pool,
    /// The first instruction behind every layer.
    pub(crate) ends: Vec<usize>,
    /// The first instruction behind every tile of every group, by layer.
    pub(crate) tiles: Vec<Vec<usize>>,
    /// The order of the sum of every product, by layer.
    pub(crate) orders: Vec<Option<SumOrder>>,
}

impl Lowered {
    /// The stream has been changed: every instruction and the end have new places.
    pub(crate) fn follow(&mut self, places: &[u32]) {
        self.ends.iter_mut().for_each(|end| *end = places[*end] as usize);
        self.tiles.iter_mut().flatten().for_each(|end| *end = places[*end] as usize);
        self.comments.iter_mut().for_each(|(at, _)| *at = places[*at] as usize);
    }
}

/// Instructions under way.
struct Lowering<'a> {
    arch: &'a TcuArch,
    network: &'a Network,
    places: &'a [Place],
    lir: Lir,
    constants: Pool,
    /// Where the machine reads constants: DRAM1, or local memory, where they have the same addresses.
    constants_in: Memory,
    /// What the lookup tables hold.
    table: Option<TableId>,
    /// The first instruction behind every tile of the layer under way.
    tiles: Vec<usize>,
    /// The next vector of the stage, from its start.
    staged: u64,
    /// Where the blocks under way of a tensor go that passes to the next layer.
    link: Option<Link>,
}

/// Local memory for some blocks of a tile.
#[derive(Clone, Copy)]
struct Link {
    var: VarId,
    /// First vector.
    first: u64,
    /// Vectors of a block.
    step: u64,
}

/// A layer, what has been loaded for it, what its tiles need, and the order of its sum.
struct Work<'a> {
    current: Current<'a>,
    weights: Weights,
    demands: Vec<Demand>,
    order: Option<SumOrder>,
}

/// Makes a group of blocks of the only input of a product, where these are not loaded: from this
/// vector of local memory on.
type Feed<'f, 'a> = dyn FnMut(&mut Lowering<'a>, u32, u64) -> Result<()> + 'f;

/// A layer under way.
struct Current<'a> {
    info: &'a LayerInfo<'a>,
    plan: &'a Plan,
    room: &'a Room,
    /// First vector of rows that stay.
    rows: u64,
    /// First vector of rows that do not stay.
    row_buffer: u64,
    /// First vector of inputs, and of those that come while they are in use.
    inputs: [u64; 2],
    /// First vector of the stage, and its vectors.
    stage: u64,
    stage_vectors: u64,
}

/// A tile of a group under way.
struct Tile<'a> {
    current: &'a Current<'a>,
    demand: &'a Demand,
    accumulators: Accumulators,
    /// Blocks of the group.
    blocks: Range<u32>,
    /// Blocks for which the accumulators hold rows, and the first of them.
    row_blocks: u32,
    first_row_block: u32,
}

impl Tile<'_> {
    /// The positions of a temp that the tile has.
    fn positions(&self, temp: TempId) -> &Positions {
        &self.demand.temps[temp.0 as usize]
    }
}

fn local(raw: u64) -> MemoryAddress {
    MemoryAddress::new(Tag::Local, raw)
}

fn acc(raw: u64) -> MemoryAddress {
    MemoryAddress::new(Tag::Accumulator, raw)
}

/// Lowers a network.
///
/// # Errors
/// `Q3086` when a layer needs more registers than there are, `Q3087` when the constants do not fit
/// DRAM1; bugs of the plans.
pub(crate) fn lower(
    network: &Network,
    arch: &TcuArch,
    placement: &Placement,
) -> std::result::Result<Lowered, Misfit> {
    let mut lowering = Lowering {
        arch,
        network,
        places: &placement.vars,
        lir: Lir::new(arch),
        constants: placement.constants.clone().unwrap_or_else(|| Pool::new(arch.lanes())),
        constants_in: if placement.constants.is_some() { Memory::Local } else { Memory::Dram1 },
        table: None,
        tiles: Vec::new(),
        staged: 0,
        link: None,
    };
    let (mut ends, mut orders, mut tiles) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(layer) = network.layers.get(ends.len()) {
        let (index, first) = (ends.len(), ends.last().copied().unwrap_or(0));
        let link = placement.link(index);
        let layers = index..index + if link.is_some() { 2 } else { 1 };
        let infos: Vec<LayerInfo<'_>> = layers
            .clone()
            .map(|layer| LayerInfo::new(&network.layers[layer], network, arch))
            .collect();
        for layer in layers.clone() {
            lowering.lir.comment(format!("layer {}", network.layers[layer].name));
        }
        let mut works = Vec::new();
        for (info, layer) in infos.iter().zip(layers) {
            works.push(lowering.begin(info, &placement.plans[layer], &placement.rooms[layer])?);
        }
        match (&mut works[..], link) {
            ([first, second], Some(link)) => lowering.pair(first, second, link)?,
            (works, _) => works.iter_mut().try_for_each(|work| lowering.layer(work))?,
        }
        lowering.constants.fits(index, arch)?;
        lowering
            .lir
            .check_registers(first)
            .map_err(|needed| registers(layer, index, needed, arch))?;
        for work in works {
            orders.push(work.order);
            ends.push(lowering.lir.len());
            tiles.push(std::mem::take(&mut lowering.tiles));
        }
    }
    let (program, comments) = lowering.lir.finish();
    Ok(Lowered { program, comments, constants: lowering.constants, ends, tiles, orders })
}

fn registers(layer: &Layer, index: usize, needed: u8, arch: &TcuArch) -> Misfit {
    let message = format!(
        "layer \"{}\" does not fit: it needs {needed} of {} registers of the ALUs",
        layer.name, arch.simd_registers_depth
    );
    let problem =
        Diagnostic::unsupported("Q3086", message).help("use a machine with more SIMD registers");
    Misfit { layers: vec![index], finer: None, problem }
}

impl<'a> Lowering<'a> {
    /// Divides local memory for a layer and loads its tables.
    fn begin<'w>(
        &mut self,
        info: &'w LayerInfo<'w>,
        plan: &'w Plan,
        room: &'w Room,
    ) -> Result<Work<'w>> {
        let order = product(info.layer).map(|product| {
            let outputs = info.layer.temps[product.output.0 as usize];
            sum_order(product, outputs, plan.chunk)
        });
        let demands: Vec<Demand> =
            (0..plan.tiles.len()).map(|index| info.demand(&plan.tiles, index)).collect();
        let rows = room.first;
        let row_buffer = rows + plan.rows_stay;
        let inputs = [row_buffer + plan.row_buffer; 2];
        let (stage, stage_vectors) = (0, plan.stage);
        let mut current =
            Current { info, plan, room, rows, row_buffer, inputs, stage, stage_vectors };
        let mut weights = Weights::new(self, &current, order.as_ref(), &demands);
        weights.place_inputs(&mut current);
        if current.stage + current.stage_vectors > room.first + room.local {
            return Err(Diagnostic::bug("a plan needs more local memory than there is"));
        }
        self.load_tables(&current)?;
        self.staged = 0;
        Ok(Work { current, weights, demands, order })
    }

    fn layer(&mut self, work: &mut Work<'_>) -> Result<()> {
        let Current { info, plan, .. } = work.current;
        let groups = info.blocks.div_ceil(plan.group);
        match plan.nest {
            Nest::Tiles => {
                for index in 0..work.demands.len() {
                    self.begin_tile(work, index)?;
                    for number in 0..groups {
                        self.tile(work, index, number, None)?;
                    }
                }
            }
            Nest::Groups => {
                work.weights.begin_layer(self, &work.current)?;
                for number in 0..groups {
                    work.weights.begin_group(self, &work.current, number as usize)?;
                    for index in 0..work.demands.len() {
                        self.tile(work, index, number, None)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Two layers of which the first makes what the second multiplies.
    fn pair(&mut self, first: &mut Work<'_>, second: &mut Work<'_>, var: VarId) -> Result<()> {
        let most = second.demands.iter().map(|demand| demand.sources[0].len()).max();
        let step = most.unwrap_or(0).into();
        for index in 0..second.demands.len() {
            self.begin_tile(first, index)?;
            self.begin_tile(second, index)?;
            let mut feed = |lowering: &mut Lowering<'a>, number: u32, to: u64| {
                lowering.link = Some(Link { var, first: to, step });
                lowering.tile(first, index, number, None)
            };
            self.tile(second, index, 0, Some(&mut feed))?;
        }
        Ok(())
    }

    /// Begins a tile of which all groups follow.
    fn begin_tile(&mut self, work: &mut Work<'_>, index: usize) -> Result<()> {
        work.weights.begin_tile(self, &work.current, index, &work.demands[index])
    }

    /// One tile of one group, by their numbers.
    fn tile(
        &mut self,
        work: &mut Work<'_>,
        index: usize,
        number: u32,
        mut feed: Option<&mut Feed<'_, 'a>>,
    ) -> Result<()> {
        let Work { current, weights, demands, .. } = work;
        let (current, demand) = (&*current, &demands[index]);
        let Current { info, plan, .. } = current;
        let first_block = number * plan.group;
        let blocks = first_block..(first_block + plan.group).min(info.blocks);
        let (row_blocks, first_row_block) = match plan.constants_stay {
            true => (info.blocks, 0),
            false => (plan.group, first_block),
        };
        let counts: Vec<u32> = demand.temps.iter().map(|positions| positions.len()).collect();
        let depth = self.arch.accumulator_depth.saturating_sub(plan.first_accumulator);
        let width = blocks.end - blocks.start;
        let accumulators = place(info.layer, &info.constants, &counts, width, row_blocks, depth)
            .ok_or_else(|| Diagnostic::bug("a tile needs more accumulators than there are"))?
            .behind(plan.first_accumulator);
        let tile = Tile { current, demand, accumulators, blocks, row_blocks, first_row_block };
        let first = index == 0 && number == 0;
        // The tile before was of another group.
        let next_group = index == 0 || (plan.nest == Nest::Tiles && plan.group < info.blocks);
        self.load_constants(&tile, first, first || (next_group && !plan.constants_stay))?;
        self.operations(&tile, |lowering| {
            weights.run(lowering, &tile, number as usize, feed.as_deref_mut())
        })?;
        self.tiles.push(self.lir.len());
        Ok(())
    }

    /// First vector and step of the positions of a plane, and its memory.
    fn plane(&self, plane: Plane) -> (Memory, u64, u64) {
        let place = self.places[plane.var.0 as usize];
        let var = &self.network.vars[plane.var.0 as usize];
        let (step, offset) = plane_layout(var, plane.block, place.memory == Memory::Local);
        (place.memory, place.base + offset, step)
    }
}
