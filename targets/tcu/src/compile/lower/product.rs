//! The product of a layer: loading inputs and weights, and multiplying.

use super::pack::{Placed, pack};
use super::{Current, Lowering, Tile, acc, local};
use crate::compile::hir::{Pair, SumOrder};
use crate::compile::lir::{MemoryAddress, Tag};
use crate::compile::runs::{Run, roll_up};
use crate::compile::schedule::{Demand, Nest, Unit, pairs_of};

use quincunx_diag::{Diagnostic, Result};

/// Weights and inputs of a layer while it is lowered.
pub(super) struct Weights {
    /// Units of every group, one behind the other in DRAM1.
    groups: Vec<Vec<Placed>>,
    /// First vector in DRAM1 of every group, and of the end.
    starts: Vec<u64>,
    /// Local memory for inputs: of a source, its first vector and the positions of one plane.
    regions: Vec<Region>,
    /// Planes of every source in the order of their places: `None` for those that are in local
    /// memory already.
    slots: Vec<Vec<Option<u64>>>,
    chunk: u32,
    /// Vectors of DRAM1 that are in the row buffer.
    buffered: std::ops::Range<u64>,
    /// Vectors of DRAM1 that stay in local memory, from its start.
    resident: std::ops::Range<u64>,
    /// What the current tile reads, by tap.
    reads: Vec<Option<Reads>>,
}

/// What a tap reads for a tile.
#[derive(Clone, Debug)]
struct Reads {
    /// Places of the outputs it reaches.
    reached: Vec<u32>,
    /// Runs of all of them: for planes that are loaded, and for those that were there.
    runs: [Option<Vec<Run>>; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    offset: u64,
    positions: u64,
    vectors: u64,
}

/// Which accumulators of a block hold a value already.
struct Written {
    flags: Vec<bool>,
    missing: usize,
}

impl Written {
    fn new(count: u32) -> Written {
        Written { flags: vec![false; count as usize], missing: count as usize }
    }

    fn set(&mut self, place: u32) {
        if !std::mem::replace(&mut self.flags[place as usize], true) {
            self.missing -= 1;
        }
    }
}

impl Weights {
    /// Puts the weights of a layer into DRAM1 and divides the room for its inputs.
    pub(super) fn new(
        lowering: &mut Lowering<'_>,
        current: &Current<'_>,
        order: Option<&SumOrder>,
        demands: &[Demand],
    ) -> Weights {
        let mut weights = Weights {
            groups: Vec::new(),
            starts: vec![0],
            regions: Vec::new(),
            slots: Vec::new(),
            chunk: current.plan.chunk.max(1),
            buffered: 0..0,
            resident: 0..0,
            reads: Vec::new(),
        };
        let (Some(product), Some(order)) = (current.info.product, order) else { return weights };
        (weights.groups, weights.starts) = pack(lowering, current, (product, order), weights.chunk);
        weights.divide(current, demands);
        weights
    }

    fn divide(&mut self, current: &Current<'_>, demands: &[Demand]) {
        let Current { info, plan, room, .. } = current;
        let mut offset = 0;
        for (index, source) in info.sources.iter().enumerate() {
            let all = plan.nest == Nest::Groups && plan.inputs_stay;
            let most = demands.iter().map(|demand| demand.sources[index].len()).max();
            let positions = u64::from(if all { source.positions } else { most.unwrap_or(0) });
            let mut slots = Vec::new();
            let mut next = 0;
            for (number, plane) in source.planes.iter().enumerate() {
                if !plan.inputs_stay && (number as u32).is_multiple_of(self.chunk) {
                    next = 0;
                }
                let there = room.has(plane.var);
                slots.push((!there).then_some(next));
                next += u64::from(!there);
            }
            let planes = slots.iter().flatten().map(|slot| slot + 1).max().unwrap_or(0);
            let vectors = planes * positions;
            self.regions.push(Region { offset, positions, vectors });
            self.slots.push(slots);
            offset += vectors;
        }
    }

    /// Vectors of local memory for inputs.
    pub(super) fn input_vectors(&self) -> u64 {
        self.regions.iter().map(|region| region.vectors).sum()
    }

    /// Begins a tile of which all groups follow.
    pub(super) fn begin_tile(
        &mut self,
        lowering: &mut Lowering<'_>,
        current: &Current<'_>,
        index: usize,
        demand: &Demand,
    ) -> Result<()> {
        if index == 0 {
            self.keep(lowering, current, self.starts[0], self.starts[self.starts.len() - 1])?;
        }
        if current.plan.inputs_stay {
            self.load_planes(lowering, current, demand, 0, u32::MAX)?;
        }
        Ok(())
    }

    /// Begins a layer whose groups are outside.
    pub(super) fn begin_layer(
        &mut self,
        lowering: &mut Lowering<'_>,
        current: &Current<'_>,
    ) -> Result<()> {
        if !current.plan.inputs_stay {
            return Ok(());
        }
        for source in 0..self.regions.len() {
            let positions: Vec<u32> = (0..current.info.sources[source].positions).collect();
            self.load_source(lowering, current, source, &positions, (0, u32::MAX))?;
        }
        Ok(())
    }

    /// Begins a group of which all tiles follow.
    pub(super) fn begin_group(
        &mut self,
        lowering: &mut Lowering<'_>,
        current: &Current<'_>,
        number: usize,
    ) -> Result<()> {
        match self.starts.get(number..number + 2) {
            Some(&[start, end]) => self.keep(lowering, current, start, end),
            _ => Ok(()),
        }
    }

    /// Loads rows that stay.
    fn keep(
        &mut self,
        lowering: &mut Lowering<'_>,
        current: &Current<'_>,
        start: u64,
        end: u64,
    ) -> Result<()> {
        // Only whole units are kept, since they are used as a whole.
        let limit = end.min(start + current.plan.rows_stay);
        let ends = self.groups.iter().flatten().map(|p| p.address + p.unit.vectors());
        let kept = ends.filter(|&end| end > start && end <= limit).max().unwrap_or(start);
        self.resident = start..kept;
        self.buffered = 0..0;
        lowering.moves(true, false, Tag::Consts, (start..kept).map(|a| (a - start, a)))
    }

    fn load_planes(
        &mut self,
        lowering: &mut Lowering<'_>,
        current: &Current<'_>,
        demand: &Demand,
        first: u32,
        count: u32,
    ) -> Result<()> {
        for source in 0..self.regions.len() {
            let positions = &demand.sources[source].list;
            self.load_source(lowering, current, source, positions, (first, count))?;
        }
        Ok(())
    }

    /// Loads some planes of a source, those that are not there.
    fn load_source(
        &self,
        lowering: &mut Lowering<'_>,
        current: &Current<'_>,
        source: usize,
        positions: &[u32],
        (first, count): (u32, u32),
    ) -> Result<()> {
        let planes = &current.info.sources[source].planes;
        let end = first.saturating_add(count).min(planes.len() as u32);
        for number in first..end {
            let Some(slot) = self.slots[source][number as usize] else { continue };
            let region = self.regions[source];
            let to = current.inputs + region.offset + slot * region.positions;
            let (_, from, step) = lowering.plane(planes[number as usize]);
            let pairs = positions.iter().enumerate();
            let pairs = pairs.map(|(i, &p)| (to + i as u64, from + u64::from(p) * step));
            lowering.moves(true, false, Tag::Vars, pairs)?;
        }
        Ok(())
    }

    /// Computes the product of a tile of a group.
    pub(super) fn run(
        &mut self,
        lowering: &mut Lowering<'_>,
        current: &Current<'_>,
        tile: &Tile<'_>,
        number: usize,
    ) -> Result<()> {
        let Some(product) = current.info.product else { return Ok(()) };
        self.reads = vec![None; product.taps.len()];
        let output = product.output.0 as usize;
        let outputs = tile.demand.temps[output].len();
        let mut written: Vec<Written> =
            tile.blocks.clone().map(|_| Written::new(outputs)).collect();
        let mut loaded = None;
        for index in 0..self.groups[number].len() {
            let placed = self.groups[number][index];
            let chunk = placed.unit.plane / self.chunk;
            if !current.plan.inputs_stay && loaded != Some(chunk) {
                let first = chunk * self.chunk;
                self.load_planes(lowering, current, tile.demand, first, self.chunk)?;
                loaded = Some(chunk);
            }
            let block = placed.column - tile.blocks.start;
            let base = tile.accumulators.temps[output] + u64::from(block) * u64::from(outputs);
            let written = &mut written[block as usize];
            self.unit(lowering, current, tile, (number, index), (base, written))?;
        }
        for (block, written) in written.iter().enumerate().filter(|(_, w)| w.missing > 0) {
            let base = tile.accumulators.temps[output] + block as u64 * u64::from(outputs);
            let places = (0..u64::from(outputs)).filter(|&place| !written.flags[place as usize]);
            lowering.zero(places.map(|place| base + place))?;
        }
        Ok(())
    }

    /// Multiplies with one block of weights.
    fn unit(
        &mut self,
        lowering: &mut Lowering<'_>,
        current: &Current<'_>,
        tile: &Tile<'_>,
        (number, index): (usize, usize),
        (base, written): (u64, &mut Written),
    ) -> Result<()> {
        let Placed { unit, .. } = self.groups[number][index];
        let Some(product) = current.info.product else { return Ok(()) };
        let tap = &product.taps[unit.tap as usize];
        let outputs = &tile.demand.temps[product.output.0 as usize];
        let reads = self.reads[unit.tap as usize].get_or_insert_with(|| {
            let reached = pairs_of(tap, outputs).map(|(_, place)| place).collect();
            Reads { reached, runs: [None, None] }
        });
        if reads.reached.is_empty() && !unit.bias {
            return Ok(());
        }
        let new = match written.missing {
            0 => 0,
            _ => reads.reached.iter().filter(|&&place| !written.flags[place as usize]).count(),
        };
        let rows = self.rows(lowering, current, (number, index))?;
        load_weights(lowering, &unit, rows)?;
        let (source, input, there) = self.input(lowering, current, &unit);
        let strides = (lowering.arch.stride0_depth, lowering.arch.stride1_depth);
        let addresses = |(pair, place): (Pair, u32)| {
            (input_place(tile.demand, source, pair.input, there), u64::from(place))
        };
        let Some(reads) = &mut self.reads[unit.tap as usize] else { return Ok(()) };
        if new == 0 || new == reads.reached.len() {
            let runs = reads.runs[usize::from(there)].get_or_insert_with(|| {
                roll_up(pairs_of(tap, outputs).map(addresses), strides.0, strides.1)
            });
            for run in runs {
                lowering.multiply(new == 0, run.moved(input, base))?;
            }
        } else {
            for accumulate in [false, true] {
                let pairs = pairs_of(tap, outputs)
                    .filter(|(_, place)| written.flags[*place as usize] == accumulate);
                for run in roll_up(pairs.map(addresses), strides.0, strides.1) {
                    lowering.multiply(accumulate, run.moved(input, base))?;
                }
            }
        }
        if unit.bias {
            lowering.bias_alone(&reads.reached, base, written)?;
        }
        if new > 0 {
            reads.reached.iter().for_each(|&place| written.set(place));
        }
        Ok(())
    }

    /// The source of a unit, the first vector of its plane in local memory, and whether the plane
    /// is there with all its positions.
    fn input(
        &self,
        lowering: &Lowering<'_>,
        current: &Current<'_>,
        unit: &Unit,
    ) -> (usize, u64, bool) {
        let sources = &current.info.sources;
        let source = sources.iter().position(|s| s.taps.contains(&(unit.tap as usize)));
        let source = source.unwrap_or(0);
        match self.slots[source][unit.plane as usize] {
            Some(slot) => {
                let region = self.regions[source];
                let first = current.inputs + region.offset + slot * region.positions;
                (source, first, current.plan.nest == Nest::Groups && current.plan.inputs_stay)
            }
            None => {
                let first = lowering.plane(sources[source].planes[unit.plane as usize]).1;
                (source, first, true)
            }
        }
    }

    /// The address of the rows of a unit in local memory, after loading them if need be.
    fn rows(
        &mut self,
        lowering: &mut Lowering<'_>,
        current: &Current<'_>,
        (number, index): (usize, usize),
    ) -> Result<u64> {
        let placed = self.groups[number][index];
        let end = placed.address + placed.unit.vectors();
        if placed.address >= self.resident.start && end <= self.resident.end {
            return Ok(placed.address - self.resident.start);
        }
        if placed.address < self.buffered.start || end > self.buffered.end {
            let limit = placed.address + current.plan.row_buffer;
            let ends = self.groups[number][index..].iter().map(|p| p.address + p.unit.vectors());
            let last = ends.take_while(|&end| end <= limit).last();
            let last = last.ok_or_else(|| Diagnostic::bug("rows do not fit their buffer"))?;
            self.buffered = placed.address..last;
            let to = current.row_buffer;
            let pairs = self.buffered.clone().map(|a| (to + a - placed.address, a));
            lowering.moves(true, false, Tag::Consts, pairs)?;
        }
        Ok(current.row_buffer + placed.address - self.buffered.start)
    }
}

/// Pushes a unit, which lies at an address of local memory, and zeros where it has no bias.
fn load_weights(lowering: &mut Lowering<'_>, unit: &Unit, rows: u64) -> Result<()> {
    lowering.lir.emit_load_weights((0, local(rows)), unit.vectors())?;
    if !unit.bias {
        lowering.lir.emit_load_weights((0, MemoryAddress::new(Tag::Zeroes, 0)), 1)?;
    }
    Ok(())
}

/// Place of an input position in local memory, from the start of its plane.
fn input_place(demand: &Demand, source: usize, position: u32, there: bool) -> u64 {
    if there {
        return position.into();
    }
    demand.sources[source].place(position).unwrap_or(0).into()
}

impl Lowering<'_> {
    fn multiply(&mut self, accumulate: bool, run: Run) -> Result<()> {
        let input = (run.a_stride, local(run.a));
        let output = (run.b_stride, acc(run.b));
        self.lir.emit_mat_mul(accumulate, input, output, run.count.into())
    }

    /// Gives the bias to positions that the unit with it does not reach.
    fn bias_alone(&mut self, reached: &[u32], base: u64, written: &mut Written) -> Result<()> {
        let mut rest = vec![true; written.flags.len()];
        reached.iter().for_each(|&place| rest[place as usize] = false);
        for accumulate in [false, true] {
            let places = (0..rest.len()).filter(|&p| rest[p] && written.flags[p] == accumulate);
            // Zeros have no addresses, so that only the accumulators have steps.
            let addresses = places.map(|place| base + place as u64);
            let strides = self.arch.stride1_depth;
            let runs = roll_up(addresses.map(|to| (to, to)), strides, strides);
            for run in runs {
                let zeroes = (0, MemoryAddress::new(Tag::Zeroes, 0));
                let output = (run.b_stride, acc(run.b));
                self.lir.emit_mat_mul(accumulate, zeroes, output, run.count.into())?;
            }
        }
        (0..rest.len()).filter(|&place| rest[place]).for_each(|place| written.set(place as u32));
        Ok(())
    }
}
