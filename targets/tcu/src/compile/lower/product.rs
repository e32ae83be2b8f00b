//! The product of a layer: loading inputs and weights, and multiplying.

use super::pack::{Placed, pack};
use super::{Current, Feed, Lowering, Tile, acc, local};
use crate::compile::hir::{Pair, SumOrder};
use crate::compile::lir::{MemoryAddress, Tag};
use crate::compile::runs::{Run, roll_up};
use crate::compile::schedule::{Demand, Nest, Unit, pairs_of};
use crate::program::Memory;
use quincunx_diag::{Diagnostic, Result};
use std::ops::Range;

/// Weights and inputs of a layer while it is lowered.
pub(super) struct Weights {
    /// Units of every group, one behind the other in DRAM1.
    groups: Vec<Vec<Placed>>,
    /// First vector in DRAM1 of every group, and of the end.
    starts: Vec<u64>,
    /// Local memory for inputs: of a source, its first vector and the positions of one plane.
    regions: Vec<Region>,
    /// The place of every plane of every source: `None` for those that are in local memory
    /// already.
    slots: Vec<Vec<Option<Slot>>>,
    chunk: u32,
    /// There is room twice for inputs that stay for a tile, or for those that do not.
    doubled: Option<bool>,
    /// The second room is in use.
    second: bool,
    /// Vectors of DRAM1 that are in the row buffer.
    buffered: Range<u64>,
    /// Vectors of DRAM1 that stay in local memory, from the start of the plan's room.
    resident: Range<u64>,
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

/// Vectors of zeros.
const ZEROS: MemoryAddress = MemoryAddress { tag: Tag::Zeroes, raw: 0 };

/// Vectors that are left to the stage when inputs get room twice.
const LEAST_STAGE: u64 = 64;

/// Local memory for the planes of a source.
#[derive(Clone, Copy, Debug, Default)]
struct Region {
    vectors: u64,
}

/// Local memory for a plane.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// First vector, from the start of all inputs.
    offset: u64,
    /// It stays.
    stays: bool,
}

/// Which accumulators of a block hold a value already.
struct Written {
    /// The first of them.
    base: u64,
    flags: Vec<bool>,
    missing: usize,
}

impl Written {
    fn new(base: u64, count: u32) -> Written {
        Written { base, flags: vec![false; count as usize], missing: count as usize }
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
            doubled: None,
            second: false,
            buffered: 0..0,
            resident: 0..0,
            reads: Vec::new(),
        };
        let (Some(product), Some(order)) = (current.info.product, order) else { return weights };
        (weights.groups, weights.starts) = pack(lowering, current, product, order, weights.chunk);
        weights.divide(current, demands);
        weights
    }

    fn divide(&mut self, current: &Current<'_>, demands: &[Demand]) {
        let Current { info, plan, room, .. } = current;
        let mut offset = 0;
        for (index, source) in info.sources.iter().enumerate() {
            let most = demands.iter().map(|demand| demand.sources[index].len()).max();
            let of_tile = u64::from(most.unwrap_or(0));
            let kept = match plan.nest {
                Nest::Tiles => of_tile,
                Nest::Groups => u64::from(source.positions),
            };
            let resident = plan.resident[index] as usize;
            let there = |number: usize| room.has(source.planes[number].var);
            let stay = (0..resident).filter(|&number| !there(number)).count() as u64 * kept;
            let (mut slots, mut next, mut end) = (Vec::new(), offset, offset + stay);
            for number in 0..source.planes.len() {
                let stays = number < resident;
                if number == resident || (!stays && (number as u32).is_multiple_of(self.chunk)) {
                    next = offset + stay;
                }
                slots.push((!there(number)).then_some(Slot { offset: next, stays }));
                if !there(number) {
                    next += if stays { kept } else { of_tile };
                }
                end = end.max(next);
            }
            self.regions.push(Region { vectors: end - offset });
            self.slots.push(slots);
            offset = end;
        }
    }

    /// Vectors of local memory for inputs.
    fn input_vectors(&self) -> u64 {
        self.regions.iter().map(|region| region.vectors).sum()
    }

    /// Places the stage behind the inputs. If inputs are loaded more than once and the stage is
    /// large, a part of it becomes room for a second set of inputs, so that the next ones can come
    /// before these have been used.
    pub(super) fn place_inputs(&mut self, current: &mut Current<'_>) {
        let vectors = self.input_vectors();
        current.stage = current.inputs[0] + vectors;
        let least = LEAST_STAGE.max(current.info.lookup.0);
        let left = current.stage_vectors.checked_sub(vectors).filter(|&left| left >= least);
        let (Some(stays), Some(left)) = (self.loaded_again(current), left) else { return };
        self.doubled = Some(stays);
        current.inputs[1] = current.stage;
        current.stage += vectors;
        current.stage_vectors = left;
    }

    /// Whether all inputs stay for a tile or none does, when they are loaded more than once.
    fn loaded_again(&self, current: &Current<'_>) -> Option<bool> {
        let mut slots = self.slots.iter().flatten().flatten();
        let stays = slots.next()?.stays;
        let once = stays && current.plan.nest == Nest::Groups;
        (!once && slots.all(|slot| slot.stays == stays)).then_some(stays)
    }

    /// First vector of the inputs that are in use.
    fn inputs(&self, current: &Current<'_>) -> u64 {
        current.inputs[usize::from(self.second)]
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
        self.load_planes(lowering, current, demand, 0..u32::MAX, true)
    }

    /// Begins a layer whose groups are outside.
    pub(super) fn begin_layer(
        &mut self,
        lowering: &mut Lowering<'_>,
        current: &Current<'_>,
    ) -> Result<()> {
        for source in 0..self.regions.len() {
            let positions: Vec<u32> = (0..current.info.sources[source].positions).collect();
            self.load_source(lowering, current, source, &positions, 0..u32::MAX, true)?;
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
        if lowering.constants_in == Memory::Local {
            return Ok(());
        }
        // Only whole units are kept, since they are used as a whole.
        let limit = end.min(start + current.plan.rows_stay);
        let ends = self.groups.iter().flatten().map(|p| p.address + p.unit.vectors());
        let kept = ends.filter(|&end| end > start && end <= limit).max().unwrap_or(start);
        self.resident = start..kept;
        self.buffered = 0..0;
        lowering.moves(
            true,
            false,
            Tag::Consts,
            (start..kept).map(|a| (current.rows + a - start, a)),
        )
    }

    /// Loads some planes of every source, of those that stay or of the others.
    fn load_planes(
        &mut self,
        lowering: &mut Lowering<'_>,
        current: &Current<'_>,
        demand: &Demand,
        planes: Range<u32>,
        stays: bool,
    ) -> Result<()> {
        if self.doubled == Some(stays) {
            self.second = !self.second;
        }
        for source in 0..self.regions.len() {
            let positions = &demand.sources[source].list;
            self.load_source(lowering, current, source, positions, planes.clone(), stays)?;
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
        numbers: Range<u32>,
        stays: bool,
    ) -> Result<()> {
        let planes = &current.info.sources[source].planes;
        for number in numbers.start..numbers.end.min(planes.len() as u32) {
            let slot = self.slots[source][number as usize].filter(|slot| slot.stays == stays);
            let Some(slot) = slot else { continue };
            let to = self.inputs(current) + slot.offset;
            let (_, from, step) = lowering.plane(planes[number as usize]);
            let pairs = positions.iter().enumerate();
            let pairs = pairs.map(|(i, &p)| (to + i as u64, from + u64::from(p) * step));
            lowering.moves(true, false, Tag::Vars, pairs)?;
        }
        Ok(())
    }

    /// Computes the product of a tile of a group.
    pub(super) fn run<'a>(
        &mut self,
        lowering: &mut Lowering<'a>,
        tile: &Tile<'_>,
        number: usize,
        mut feed: Option<&mut Feed<'_, 'a>>,
    ) -> Result<()> {
        let current = tile.current;
        let product = current.info.product.ok_or_else(no_product)?;
        self.reads = vec![None; product.taps.len()];
        let outputs = tile.positions(product.output).len();
        let base = tile.accumulators.temps[product.output.0 as usize];
        let of_block = |block| Written::new(base + u64::from(block) * u64::from(outputs), outputs);
        let mut written: Vec<Written> =
            (0..tile.blocks.end - tile.blocks.start).map(of_block).collect();
        // Chunks that are there, up to the current one, or that one alone.
        let mut there = 0..0;
        for index in 0..self.groups[number].len() {
            let placed = self.groups[number][index];
            let chunk = placed.unit.plane / self.chunk;
            if let Some(feed) = feed.as_deref_mut() {
                self.feed(lowering, current, there.end..chunk + 1, feed)?;
            } else if !there.contains(&chunk) {
                let first = chunk * self.chunk;
                let planes = first..first.saturating_add(self.chunk);
                self.load_planes(lowering, current, tile.demand, planes, false)?;
            }
            there = chunk..chunk + 1;
            let written = &mut written[(placed.column - tile.blocks.start) as usize];
            self.unit(lowering, tile, number, index, written)?;
        }
        if let Some(feed) = feed {
            // What the layer before saves besides is wanted even where the weights are zeros.
            let planes = current.info.sources[0].planes.len() as u32;
            self.feed(lowering, current, there.end..planes.div_ceil(self.chunk), feed)?;
        }
        for Written { base, flags, .. } in written.iter().filter(|w| w.missing > 0) {
            let places = (*base..).zip(flags).filter(|(_, is_written)| !**is_written);
            lowering.zero(places.map(|(place, _)| place))?;
        }
        Ok(())
    }

    /// Makes chunks of planes instead of loading them.
    fn feed<'a>(
        &mut self,
        lowering: &mut Lowering<'a>,
        current: &Current<'_>,
        chunks: Range<u32>,
        feed: &mut Feed<'_, 'a>,
    ) -> Result<()> {
        for chunk in chunks {
            self.second ^= self.doubled == Some(false);
            feed(lowering, chunk, self.inputs(current))?;
        }
        Ok(())
    }

    /// Multiplies with one block of weights.
    fn unit(
        &mut self,
        lowering: &mut Lowering<'_>,
        tile: &Tile<'_>,
        number: usize,
        index: usize,
        written: &mut Written,
    ) -> Result<()> {
        let (current, base) = (tile.current, written.base);
        let Placed { unit, .. } = self.groups[number][index];
        let product = current.info.product.ok_or_else(no_product)?;
        if unit.rows == 0 {
            let rows = self.rows(lowering, current, number, index)?;
            load_weights(lowering, &unit, rows)?;
            return lowering.bias_alone(&[], written);
        }
        let tap = &product.taps[unit.tap as usize];
        let outputs = tile.positions(product.output);
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
        let rows = self.rows(lowering, current, number, index)?;
        load_weights(lowering, &unit, rows)?;
        let input = self.input(lowering, current, &unit)?;
        let strides = (lowering.arch.stride0_depth, lowering.arch.stride1_depth);
        let addresses =
            |(pair, place): (Pair, u32)| (input.place(tile.demand, pair.input), u64::from(place));
        let reads = self.reads[unit.tap as usize].as_mut();
        let reads = reads.ok_or_else(|| Diagnostic::bug("what a tap reads was forgotten"))?;
        if new == 0 || new == reads.reached.len() {
            let runs = reads.runs[usize::from(input.whole)].get_or_insert_with(|| {
                roll_up(pairs_of(tap, outputs).map(addresses), strides.0, strides.1)
            });
            for run in runs {
                lowering.multiply(new == 0, run.moved(input.first, base))?;
            }
        } else {
            for accumulate in [false, true] {
                let pairs = pairs_of(tap, outputs)
                    .filter(|(_, place)| written.flags[*place as usize] == accumulate);
                for run in roll_up(pairs.map(addresses), strides.0, strides.1) {
                    lowering.multiply(accumulate, run.moved(input.first, base))?;
                }
            }
        }
        if unit.bias {
            lowering.bias_alone(&reads.reached, written)?;
        }
        if new > 0 {
            reads.reached.iter().for_each(|&place| written.set(place));
        }
        Ok(())
    }

    /// Where the plane of a unit lies.
    fn input(&self, lowering: &Lowering<'_>, current: &Current<'_>, unit: &Unit) -> Result<Input> {
        let sources = &current.info.sources;
        let source = sources.iter().position(|s| s.taps.contains(&(unit.tap as usize)));
        let source = source.ok_or_else(|| Diagnostic::bug("a tap reads no source"))?;
        Ok(match self.slots[source][unit.plane as usize] {
            Some(slot) => Input {
                source,
                first: self.inputs(current) + slot.offset,
                whole: current.plan.nest == Nest::Groups && slot.stays,
            },
            None => Input {
                source,
                first: lowering.plane(sources[source].planes[unit.plane as usize]).1,
                whole: true,
            },
        })
    }

    /// The address of the rows of a unit in local memory, after loading them if need be.
    fn rows(
        &mut self,
        lowering: &mut Lowering<'_>,
        current: &Current<'_>,
        number: usize,
        index: usize,
    ) -> Result<u64> {
        let placed = self.groups[number][index];
        let end = placed.address + placed.unit.vectors();
        if lowering.constants_in == Memory::Local {
            return Ok(placed.address);
        }
        if placed.address >= self.resident.start && end <= self.resident.end {
            return Ok(current.rows + placed.address - self.resident.start);
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
    lowering.lir.emit_load_weights(local(rows), unit.vectors())?;
    if !unit.bias {
        lowering.lir.emit_load_weights(ZEROS, 1)?;
    }
    Ok(())
}

/// A plane in local memory.
#[derive(Clone, Copy)]
struct Input {
    source: usize,
    /// Its first vector.
    first: u64,
    /// It is there with all its positions.
    whole: bool,
}

impl Input {
    /// Place of a position, from the start of the plane.
    fn place(self, demand: &Demand, position: u32) -> u64 {
        let place = match self.whole {
            true => Some(position),
            false => demand.sources[self.source].place(position),
        };
        place.expect("the demand of a tile lists what its taps read").into()
    }
}

fn no_product() -> Diagnostic {
    Diagnostic::bug("weights without a product")
}

impl Lowering<'_> {
    fn multiply(&mut self, accumulate: bool, run: Run) -> Result<()> {
        let input = local(run.a).with_stride(run.a_stride);
        let output = acc(run.b).with_stride(run.b_stride);
        self.lir.emit_mat_mul(accumulate, input, output, run.count.into())
    }

    /// Gives the bias to positions that the unit with it does not reach.
    fn bias_alone(&mut self, reached: &[u32], written: &mut Written) -> Result<()> {
        let mut rest = vec![true; written.flags.len()];
        reached.iter().for_each(|&place| rest[place as usize] = false);
        for accumulate in [false, true] {
            let places = (0..rest.len()).filter(|&p| rest[p] && written.flags[p] == accumulate);
            // Zeros have no addresses, so that only the accumulators have steps.
            let addresses = places.map(|place| written.base + place as u64);
            let strides = self.arch.stride1_depth;
            let runs = roll_up(addresses.map(|to| (to, to)), strides, strides);
            for run in runs {
                let output = acc(run.b).with_stride(run.b_stride);
                self.lir.emit_mat_mul(accumulate, ZEROS, output, run.count.into())?;
            }
        }
        (0..rest.len()).filter(|&place| rest[place]).for_each(|place| written.set(place as u32));
        Ok(())
    }
}
