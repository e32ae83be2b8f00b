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

use super::hir::{Layer, Network, Plane, SumOrder, TableId, TempId};
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
}

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
    };
    let (mut ends, mut orders, mut tiles) = (Vec::new(), Vec::new(), Vec::new());
    for (index, layer) in network.layers.iter().enumerate() {
        let info = LayerInfo::new(layer, network, arch);
        let (plan, room) = (&placement.plans[index], &placement.rooms[index]);
        lowering.lir.comment(format!("layer {}", layer.name));
        orders.push(lowering.layer(&info, plan, room)?);
        lowering.constants.fits(index, arch)?;
        let first = ends.last().copied().unwrap_or(0);
        lowering
            .lir
            .check_registers(first)
            .map_err(|needed| registers(layer, index, needed, arch))?;
        ends.push(lowering.lir.len());
        tiles.push(std::mem::take(&mut lowering.tiles));
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

impl Lowering<'_> {
    fn layer(
        &mut self,
        info: &LayerInfo<'_>,
        plan: &Plan,
        room: &Room,
    ) -> Result<Option<SumOrder>> {
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
        let groups = info.blocks.div_ceil(plan.group);
        match plan.nest {
            Nest::Tiles => {
                for (index, demand) in demands.iter().enumerate() {
                    weights.begin_tile(self, &current, index, demand)?;
                    for number in 0..groups {
                        self.tile(&current, &mut weights, demand, index, number)?;
                    }
                }
            }
            Nest::Groups => {
                weights.begin_layer(self, &current)?;
                for number in 0..groups {
                    weights.begin_group(self, &current, number as usize)?;
                    for (index, demand) in demands.iter().enumerate() {
                        self.tile(&current, &mut weights, demand, index, number)?;
                    }
                }
            }
        }
        Ok(order)
    }

    /// One tile of one group, by their numbers.
    fn tile(
        &mut self,
        current: &Current<'_>,
        weights: &mut Weights,
        demand: &Demand,
        index: usize,
        number: u32,
    ) -> Result<()> {
        let Current { info, plan, .. } = current;
        let first_block = number * plan.group;
        let blocks = first_block..(first_block + plan.group).min(info.blocks);
        let (row_blocks, first_row_block) = match plan.constants_stay {
            true => (info.blocks, 0),
            false => (plan.group, first_block),
        };
        let counts: Vec<u32> = demand.temps.iter().map(|positions| positions.len()).collect();
        let depth = self.arch.accumulator_depth;
        let width = blocks.end - blocks.start;
        let accumulators = place(info.layer, &info.constants, &counts, width, row_blocks, depth)
            .ok_or_else(|| Diagnostic::bug("a tile needs more accumulators than there are"))?;
        let tile = Tile { current, demand, accumulators, blocks, row_blocks, first_row_block };
        let first = index == 0 && number == 0;
        // The tile before was of another group.
        let next_group = index == 0 || (plan.nest == Nest::Tiles && plan.group < info.blocks);
        self.load_constants(&tile, first, first || (next_group && !plan.constants_stay))?;
        self.operations(&tile, |lowering| weights.run(lowering, &tile, number as usize))?;
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
