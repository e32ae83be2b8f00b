//! From steps to lines: what is loaded when, and to where.
//!
//! Steps of the array and the vector queue keep their order. DRAM operations form one chain. The
//! schedule is simulated while it is written: whenever the port is free, the transfer that is needed
//! next goes, into WL0 if there is room, else through L2; what has no room waits for the steps that
//! free it. Weights pass WL0 as a ring, in the order of their use.

use super::functions::{self, Base};
use super::layers::{Network, Operation};
use super::memory::{Block, Occupied, pack};
use super::products;
use super::steps::{Cut, Cutter, Step, Tile, Ways, format, image_bytes};
use super::team::{Ops, Shares, Staged, Team};
use super::turns::Turn;
use crate::isa::{DataFmt, Queue};
use crate::program::{Indices, Map, Program};
use crate::time::{conv_line_cycles, vector_line_cycles};
use crate::work::{Conv, Copy, Extents, Place, Regions, Reorder, Work, element_bytes, pitch};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::ValueId;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Steps before a product in which its parameters are loaded.
const AHEAD: usize = 8;

/// How layers with weights are cut.
pub(crate) type Cuts = FxHashMap<usize, Arc<Cut>>;

/// Steps that a program may have.
const MAX_STEPS: usize = 1 << 18;

/// A tensor of the whole batch in DRAM, dense.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DramTensor {
    /// The value.
    pub(crate) value: ValueId,
    /// First byte behind its base.
    pub(crate) address: u32,
    /// It is constant: numbers for all images, behind base 1. Otherwise the base is 0.
    pub(crate) is_constant: bool,
    /// Channels, rows and columns.
    pub(crate) extents: Extents,
    /// Format of the elements.
    pub(crate) format: DataFmt,
}

/// What the schedule works on.
#[derive(Clone)]
pub(crate) struct Job<'a> {
    pub(crate) network: &'a Network,
    /// Inputs in DRAM, and where they go.
    pub(crate) inputs: Vec<DramTensor>,
    /// Outputs in DRAM.
    pub(crate) outputs: Vec<DramTensor>,
    /// First byte of the weights of every layer behind base 1.
    pub(crate) weights: FxHashMap<usize, u32>,
    /// Images of every core.
    pub(crate) shares: Shares,
}

/// Where a part of a value lies when it is complete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Landing {
    /// The value.
    pub(crate) value: ValueId,
    /// The core.
    pub(crate) core: usize,
    /// The line after which it is there.
    pub(crate) line: usize,
    /// First image and images.
    pub(crate) images: (u32, u32),
    /// First byte in L2.
    pub(crate) address: u64,
}

/// Steps and places of a schedule.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Images that go through the network together.
    pub(crate) group: u32,
    /// The workloads.
    pub(crate) steps: Vec<Step>,
    /// How layers with weights are cut.
    pub(crate) cuts: Cuts,
    /// First byte in L2 of every value of a group.
    pub(crate) places: BTreeMap<(ValueId, u32), u64>,
}

/// A schedule.
pub(crate) struct Scheduled {
    /// The program of every core.
    pub(crate) programs: Vec<Program>,
    /// Cycles by the model it was made for.
    pub(crate) cycles: u64,
    /// Where values lie.
    pub(crate) landings: Vec<Landing>,
    /// Steps and places.
    pub(crate) layout: Layout,
}

/// A set of weights for the steps that use it.
pub(super) struct Instance {
    pub(super) layer: usize,
    /// Number of its set.
    pub(super) set: usize,
    pub(super) tiles: Vec<Tile>,
    pub(super) y: crate::isa::YCutMode,
    /// The first and the last step that use it.
    pub(super) steps: (usize, usize),
    /// Where every tile lies in WL0, once its load is written.
    pub(super) places: Vec<Option<u32>>,
    /// A tile came through L2, and no step has used it.
    pub(super) streamed: bool,
}

/// Rows of an image of an input that are to be loaded.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) tensor: usize,
    pub(super) image: u32,
    /// First row and rows.
    pub(super) rows: (u32, u32),
    pub(super) block: usize,
    /// The first step that reads it.
    pub(super) need: usize,
    /// Loads of weights that come before it.
    pub(super) rank: usize,
}

/// A tile of weights that is to be loaded.
pub(super) struct Load {
    pub(super) instance: usize,
    pub(super) tile: usize,
    pub(super) state: State,
}

/// Where a tile of weights is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum State {
    /// In DRAM.
    Waiting,
    /// An operand of a product, which is not a block of weights yet.
    Operand,
    /// An operand of a product that is weights at this byte of L2.
    Packed(u64),
    /// On its way through L2.
    Staged(Block, Staged),
    /// In WL0.
    Resident,
}

/// Weights in WL0.
pub(super) struct Resident {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) instance: usize,
    pub(super) tile: usize,
}

/// A result that is to be stored.
pub(super) struct Store {
    pub(super) work: Work,
    pub(super) map: Map,
    pub(super) images: (u32, u32),
    pub(super) after: Ops,
    /// The step before which it must be written.
    pub(super) before: usize,
}

pub(super) struct Scheduler<'c, 'a> {
    pub(super) cutter: &'c mut Cutter<'a>,
    pub(super) job: &'c Job<'a>,
    pub(super) ways: &'c Ways,
    pub(super) steps: Vec<Step>,
    pub(super) cuts: Cuts,
    /// Blocks of activations, by value and group.
    pub(super) blocks: Vec<Block>,
    pub(super) block_of: BTreeMap<(ValueId, u32), usize>,
    /// Blocks that only one layer uses, by layer and group.
    own_block_of: BTreeMap<(usize, u32), usize>,
    /// Parameters of products that are to be loaded: before which step, layer and group.
    parameters: VecDeque<(usize, usize, u32)>,
    pub(super) occupied: Occupied,
    pub(super) instances: Vec<Instance>,
    /// The instance of a step with weights.
    pub(super) instance_of: Vec<Option<usize>>,
    /// Inputs, in the order of need.
    pub(super) inputs: VecDeque<Part>,
    /// Weights, in the order of need; in this order they take their places in WL0.
    pub(super) loads: Vec<Load>,
    /// The first load that has no place in WL0 yet.
    pub(super) next: usize,
    /// The first load that may be staged.
    pub(super) ahead: usize,
    /// Where weights were staged that are in WL0 and still to be used. Other weights take these bytes
    /// only where nothing else is free, so that they need not wait and a schedule can list them.
    pub(super) moved: Vec<Block>,
    pub(super) residents: Vec<Resident>,
    /// Where the ring of WL0 goes on.
    pub(super) head: u32,
    pub(super) stores: VecDeque<Store>,
    /// The step that is next, and the tile of it.
    pub(super) step: usize,
    pub(super) tile: usize,
    pub(super) team: Team<'a>,
    /// Workloads so far beyond one for each step.
    more_workloads: usize,
    pub(super) landings: Vec<Landing>,
}

/// Why there is no schedule.
pub(crate) struct Misfit {
    /// The layer of which no piece fits, if it is one.
    pub(crate) layer: Option<usize>,
    /// Why.
    pub(crate) problem: Diagnostic,
}

impl From<Diagnostic> for Misfit {
    fn from(problem: Diagnostic) -> Self {
        Misfit { layer: None, problem }
    }
}

/// Writes the program of a network.
///
/// # Errors
/// `Q4090` when the activations of a group do not fit L2, `Q4091` and `Q4092` for a layer of which
/// no piece fits.
pub(crate) fn schedule<'a>(
    cutter: &mut Cutter<'a>,
    job: &Job<'a>,
    ways: &Ways,
) -> std::result::Result<Scheduled, Misfit> {
    let (steps, cuts) = steps(cutter, job, ways)?;
    let mut scheduler = Scheduler::new(cutter, job, ways, steps, cuts)?;
    scheduler.run()?;
    let Scheduler { team, landings, steps, cuts, blocks, block_of, .. } = scheduler;
    let place = |(key, block): (_, usize)| (key, blocks[block].start);
    let places = block_of.into_iter().map(place).collect();
    let layout = Layout { group: ways.all.group, steps, cuts, places };
    let cycles = team.total();
    Ok(Scheduled { programs: team.finish(), cycles, landings, layout })
}

/// The steps of all groups, and how layers with weights are cut.
fn steps(
    cutter: &mut Cutter<'_>,
    job: &Job<'_>,
    ways: &Ways,
) -> std::result::Result<(Vec<Step>, Cuts), Misfit> {
    let mut steps = Vec::new();
    let mut cuts = Cuts::default();
    let mut first = 0;
    let mut group = 0;
    let end = job.shares[0];
    while first < end {
        let images = ways.all.group.min(end - first);
        for (index, layer) in job.network.layers.iter().enumerate() {
            if matches!(layer.operation, Operation::Enter | Operation::Alias) {
                continue;
            }
            let knobs = &ways.of(index);
            let pieces = cutter.pieces(layer, (first, images), knobs);
            let mut push = |piece, set| {
                steps.push(Step { layer: index, group, piece, set });
            };
            let heads = match &layer.operation {
                Operation::Conv { .. } => 1,
                Operation::Product(product) => product.heads.len(),
                _ => 0,
            };
            if heads == 0 {
                pieces.into_iter().for_each(|piece| push(piece, None));
                continue;
            }
            let sets = match cuts.entry(index) {
                Entry::Occupied(cut) => cut.get().sets.len(),
                Entry::Vacant(place) => {
                    let misfit = |problem| Misfit { layer: Some(index), problem };
                    let cut = cutter.cut(index, images, knobs).map_err(misfit)?;
                    place.insert(cut).sets.len()
                }
            };
            // Every image of a product has its own weights.
            let is_product = matches!(layer.operation, Operation::Product(_));
            for pieces in pieces.chunk_by(|a, b| !is_product || a.image == b.image) {
                for set in 0..sets * heads {
                    pieces.iter().for_each(|&piece| push(piece, Some(set)));
                }
            }
        }
        first += images;
        group += 1;
    }
    if steps.len() > MAX_STEPS {
        let message =
            format!("the batch has {} steps, at most {MAX_STEPS} are possible", steps.len());
        return Err(Diagnostic::unsupported("Q4098", message).into());
    }
    Ok((steps, cuts))
}

impl<'c, 'a> Scheduler<'c, 'a> {
    fn new(
        cutter: &'c mut Cutter<'a>,
        job: &'c Job<'a>,
        ways: &'c Ways,
        steps: Vec<Step>,
        cuts: Cuts,
    ) -> Result<Scheduler<'c, 'a>> {
        let team = Team::new(cutter.arch, cutter.model, job.shares.clone());
        let instance_of = vec![None; steps.len()];
        let mut scheduler = Scheduler {
            cutter,
            job,
            ways,
            steps,
            cuts,
            blocks: Vec::new(),
            block_of: BTreeMap::new(),
            own_block_of: BTreeMap::new(),
            parameters: VecDeque::new(),
            occupied: Occupied::new(&[]),
            instances: Vec::new(),
            instance_of,
            inputs: VecDeque::new(),
            loads: Vec::new(),
            next: 0,
            ahead: 0,
            moved: Vec::new(),
            residents: Vec::new(),
            head: 0,
            stores: VecDeque::new(),
            step: 0,
            tile: 0,
            team,
            more_workloads: 0,
            landings: Vec::new(),
        };
        scheduler.place()?;
        scheduler.gather();
        Ok(scheduler)
    }

    fn is_constant(&self, value: ValueId) -> bool {
        self.job.network.constants.contains(&value)
    }

    pub(super) fn root(&self, value: ValueId) -> ValueId {
        self.job.network.root(value)
    }

    /// Images of a group, counted from the first of each core.
    pub(super) fn images_of(&self, group: u32) -> (u32, u32) {
        let first = group * self.ways.all.group;
        (first, self.ways.all.group.min(self.job.shares[0] - first))
    }

    /// Gives every value of every group its bytes in L2.
    fn place(&mut self) -> Result<()> {
        let mut group_starts: BTreeMap<u32, usize> = BTreeMap::new();
        for (index, step) in self.steps.iter().enumerate() {
            group_starts.entry(step.group).or_insert(index);
        }
        let starts: Vec<usize> = group_starts.values().copied().collect();
        for index in 0..self.steps.len() {
            let step = self.steps[index];
            let layer = &self.job.network.layers[step.layer];
            let mut touched: Vec<ValueId> = layer.inputs.iter().map(|&v| self.root(v)).collect();
            touched.push(layer.output);
            for value in touched {
                let key = (value, step.group);
                if let Some(&block) = self.block_of.get(&key) {
                    self.blocks[block].last = index;
                    continue;
                }
                let images = self.images_of(step.group).1;
                let form = self.cutter.form(value);
                let bytes = image_bytes(self.cutter.extents(value), format(form.grid));
                let images = if self.is_constant(value) { 1 } else { images };
                let bytes = bytes * u64::from(images);
                // Inputs are loaded ahead, while the group before is still worked on.
                let is_input = self.job.inputs.iter().any(|input| input.value == value);
                let group = step.group as usize;
                let ahead = match group {
                    0 => 0,
                    _ => starts[group] - (starts[group] - starts[group - 1]) / 3,
                };
                let first = if is_input { ahead } else { index };
                self.block_of.insert(key, self.blocks.len());
                self.blocks.push(Block { start: 0, bytes, first, last: index });
            }
            if let Operation::Function(_) = layer.operation {
                let bytes = functions::scratch(self.cutter, layer, step.piece.rows);
                let key = (step.layer, step.group);
                let block = *self.own_block_of.entry(key).or_insert(self.blocks.len());
                match self.blocks.get_mut(block) {
                    Some(block) => (block.bytes, block.last) = (block.bytes.max(bytes), index),
                    None => self.blocks.push(Block { start: 0, bytes, first: index, last: index }),
                }
            }
        }
        self.place_operands();
        // Results stay until they are stored.
        for output in &self.job.outputs {
            for group in 0..starts.len() as u32 {
                if let Some(&block) = self.block_of.get(&(output.value, group)) {
                    let block = &mut self.blocks[block];
                    block.last = (block.last + 2).min(self.steps.len());
                }
            }
        }
        self.share();
        for block in &mut self.blocks {
            block.last = (block.last + self.ways.all.linger).min(self.steps.len());
        }
        let total = pack(&mut self.blocks);
        let limit = u64::from(self.cutter.arch.l2_bytes);
        if total > limit {
            let worst = self.blocks.iter().max_by_key(|block| block.bytes).copied();
            let message = format!(
                "activations of {} images need {total} bytes of L2, which has {limit}; the largest \
                 tensor has {}",
                self.ways.all.group,
                worst.map_or(0, |block| block.bytes)
            );
            return Err(Diagnostic::unsupported("Q4090", message));
        }
        self.occupied = Occupied::new(&self.blocks);
        Ok(())
    }

    /// Gives right operands of products the bytes in which they are weights.
    fn place_operands(&mut self) {
        for (index, step) in self.steps.iter().enumerate() {
            let Operation::Product(product) = &self.job.network.layers[step.layer].operation else {
                continue;
            };
            let key = (step.layer, step.group);
            if let Some(&block) = self.own_block_of.get(&key) {
                self.blocks[block].last = index;
                continue;
            }
            let count = product.heads.len() as u64 * u64::from(self.images_of(step.group).1);
            let bytes = product.bytes() * count.min(products::SLOTS.into());
            let first = index.saturating_sub(AHEAD);
            self.parameters.push_back((first, step.layer, step.group));
            self.own_block_of.insert(key, self.blocks.len());
            self.blocks.push(Block { start: 0, bytes, first, last: index });
        }
    }

    /// Sums that are the last to read an operand of the same size are written over it.
    fn share(&mut self) {
        let mut replaced: BTreeMap<usize, usize> = BTreeMap::new();
        for (index, step) in self.steps.iter().enumerate() {
            let layer = &self.job.network.layers[step.layer];
            if !matches!(layer.operation, Operation::Add | Operation::Copy) {
                continue;
            }
            let Some(&output) = self.block_of.get(&(layer.output, step.group)) else { continue };
            if self.blocks[output].first != index || replaced.contains_key(&output) {
                continue;
            }
            // The last step of this layer in the group.
            let last = (index..self.steps.len())
                .take_while(|&at| {
                    let other = self.steps[at];
                    other.layer == step.layer && other.group == step.group
                })
                .last()
                .unwrap_or(index);
            let operand = layer.inputs.iter().rev().find_map(|&value| {
                let root = self.root(value);
                let &block = self.block_of.get(&(root, step.group))?;
                let kept = self.job.inputs.iter().chain(&self.job.outputs);
                let is_kept = kept.into_iter().any(|tensor| tensor.value == root);
                let fits = self.blocks[block].last == last
                    && self.blocks[block].bytes == self.blocks[output].bytes
                    && self.same_layout(root, layer.output);
                (fits && !is_kept && !replaced.contains_key(&block)).then_some(block)
            });
            let twice =
                layer.inputs.len() == 2 && self.root(layer.inputs[0]) == self.root(layer.inputs[1]);
            if let Some(operand) = operand.filter(|_| !twice) {
                self.blocks[operand].last = self.blocks[output].last;
                self.blocks[output].bytes = 0;
                replaced.insert(output, operand);
            }
        }
        for block in self.block_of.values_mut() {
            while let Some(&operand) = replaced.get(block) {
                *block = operand;
            }
        }
        // A chain of sums keeps the first block until the last of them is read.
        for (&output, &operand) in replaced.iter().rev() {
            let mut target = operand;
            while let Some(&next) = replaced.get(&target) {
                target = next;
            }
            let last = self.blocks[output].last;
            self.blocks[target].last = self.blocks[target].last.max(last);
        }
    }

    fn same_layout(&self, a: ValueId, b: ValueId) -> bool {
        self.cutter.extents(a) == self.cutter.extents(b)
            && format(self.cutter.form(a).grid) == format(self.cutter.form(b).grid)
    }

    /// What the DRAM port has to load, in the order of need.
    fn gather(&mut self) {
        let mut needs: Vec<usize> = Vec::new();
        let mut keys: FxHashMap<(usize, usize, u32, u32), usize> = FxHashMap::default();
        for (index, step) in self.steps.iter().enumerate() {
            let Some(set) = step.set else { continue };
            let layer = &self.job.network.layers[step.layer];
            let (image, state) = match layer.operation {
                Operation::Product(_) => (step.piece.image, State::Operand),
                _ => (0, State::Waiting),
            };
            let instance = *keys.entry((step.layer, set, step.group, image)).or_insert_with(|| {
                let cut = &self.cuts[&step.layer];
                let tiles = cut.sets[set % cut.sets.len()].clone();
                let instance = self.instances.len();
                for tile in 0..tiles.len() {
                    needs.push(index);
                    self.loads.push(Load { instance, tile, state });
                }
                let places = vec![None; tiles.len()];
                let (layer, y, steps) = (step.layer, cut.y, (index, index));
                self.instances.push(Instance {
                    layer,
                    set,
                    tiles,
                    y,
                    steps,
                    places,
                    streamed: false,
                });
                instance
            });
            self.instances[instance].steps.1 = index;
            self.instance_of[index] = Some(instance);
        }
        let mut parts: Vec<Part> = Vec::new();
        let groups = self.steps.last().map_or(0, |step| step.group + 1);
        for (tensor, input) in self.job.inputs.iter().enumerate() {
            for group in 0..groups {
                let Some(&block) = self.block_of.get(&(input.value, group)) else { continue };
                let (first, count) = self.images_of(group);
                let count = if input.is_constant { 1 } else { count };
                let [_, height, _] = input.extents;
                // One image is loaded in four parts, so that work can begin sooner.
                let pieces = if count == 1 && height >= 32 { 4 } else { 1 };
                for image in first..first + count {
                    for piece in 0..pieces {
                        let [row, end] = [piece, piece + 1].map(|at| height * at / pieces);
                        let need = self.reader(input.value, group, image, row);
                        // Of several images the first ones come before the weights that they meet.
                        let ahead = (image - first).saturating_sub(self.ways.all.chunk - 1);
                        let rank =
                            needs.partition_point(|&other| other < need + 2 * ahead as usize);
                        let rows = (row, end - row);
                        parts.push(Part { tensor, image, rows, block, need, rank });
                    }
                }
            }
        }
        parts.sort_by_key(|part| (part.rank, part.need, part.image, part.rows));
        self.inputs = parts.into();
    }

    /// The first step that reads a row of an image of an input.
    fn reader(&self, value: ValueId, group: u32, image: u32, row: u32) -> usize {
        let reads = |step: &Step| {
            let layer = &self.job.network.layers[step.layer];
            let piece = step.piece;
            let images = piece.image..piece.image + piece.images;
            if step.group != group
                || !images.contains(&image)
                || !layer.inputs.iter().any(|&input| self.root(input) == value)
            {
                return false;
            }
            let (stride, kernel, start) = match layer.operation {
                Operation::Product(_) | Operation::Turn(_) => return true,
                Operation::Conv { frame, .. } if frame.insert != [1, 1] => return true,
                Operation::Conv { frame, .. } | Operation::Pool { frame, .. } => {
                    let span = (frame.kernel[0] - 1) * frame.dilate[0] + 1;
                    (frame.stride[0], span, frame.start[0])
                }
                _ => (1, 1, 0),
            };
            let last = (piece.row + piece.rows - 1) * stride + kernel;
            i64::from(last) + i64::from(start) > i64::from(row)
        };
        let first = self.steps.partition_point(|step| step.group < group);
        first + self.steps[first..].iter().position(reads).unwrap_or(0)
    }

    fn run(&mut self) -> Result<()> {
        let none = Map::none();
        self.team.write(&Work::Begin, &none, (0, 0), None);
        let kib = self.cutter.arch.l2_bytes / 1024;
        let cut = ((kib % 8192) as u16, (kib - 1) as u16);
        let regions = Regions { first: 0, cuts: [cut, (0, 0), (0, 0), (0, 0)] };
        self.team.write(&Work::Regions(regions), &none, (0, 0), None);
        for step in 0..self.steps.len() {
            (self.step, self.tile) = (step, 0);
            self.work(step)?;
        }
        self.step = self.steps.len();
        self.flush(usize::MAX);
        self.team.write(&Work::End, &none, (0, 0), None);
        Ok(())
    }

    /// Stores results that must be stored before a step.
    fn flush(&mut self, step: usize) {
        while self.stores.front().is_some_and(|store| store.before <= step) {
            self.store();
        }
    }

    pub(super) fn store(&mut self) {
        if let Some(store) = self.stores.pop_front() {
            self.team.write(&store.work, &store.map, store.images, None);
        }
    }

    pub(super) fn map(&self, step: usize, tile: Option<i32>) -> Map {
        let layer = self.steps[step].layer as i32;
        Map {
            slyr: layer,
            clyr: Indices::new(),
            s_flyr: layer,
            c_flyr: Indices::new(),
            wkl: (step + self.more_workloads) as i32,
            tile: Some(tile.unwrap_or(-1)),
        }
    }

    /// The map of a transfer for a layer, as of the step that is next.
    pub(super) fn transfer_map(&self, layer: usize) -> Map {
        let step = self.step.min(self.steps.len() - 1);
        let indices = Indices::from_slice(&[layer as i32]);
        Map { clyr: indices.clone(), c_flyr: indices, ..self.map(step, None) }
    }

    fn operation(&self, step: usize) -> &'c Operation {
        &self.job.network.layers[self.steps[step].layer].operation
    }

    fn work(&mut self, step: usize) -> Result<()> {
        self.flush(step);
        self.pack(step);
        self.supply(step)?;
        match self.instance_of[step] {
            Some(instance) => self.convolve(step, instance)?,
            None if matches!(self.operation(step), Operation::Function(_)) => self.sequence(step),
            None => match self.operation(step) {
                Operation::Turn(turn) => self.turn(step, *turn),
                _ => self.vectors(step),
            },
        }
        self.land(step);
        Ok(())
    }

    /// Writes the loads that a step waits for.
    fn supply(&mut self, step: usize) -> Result<()> {
        loop {
            let loaded = self.inputs.iter().all(|part| part.need > step);
            let resident = self.instance_of[step]
                .is_none_or(|instance| self.instances[instance].places.iter().all(Option::is_some));
            if loaded && resident {
                return Ok(());
            }
            if !self.advance(u64::MAX) {
                return Err(Diagnostic::bug(format!("no room for what step {step} needs")));
            }
        }
    }

    /// Lets the DRAM port work on until a time.
    fn prefetch(&mut self, until: u64) {
        while self.team.dram_free() < until && self.advance(until) {}
    }

    fn convolve(&mut self, step: usize, instance: usize) -> Result<()> {
        let Step { layer, piece, group, .. } = self.steps[step];
        let network = self.job.network;
        let layer = &network.layers[layer];
        let (mut whole, mut result) = (self.cutter.conv(layer, piece), 0);
        if let Operation::Product(product) = &layer.operation {
            let head = product.heads[self.head(instance)];
            let byte = |(position, channel): (u32, u32), channels: u32, bytes: u32| {
                i64::from(position) * i64::from(pitch(channels, bytes)) + i64::from(channel * bytes)
            };
            whole.input.address += byte(head.left, whole.source[0], 1);
            result = byte(head.result, whole.dest[0], element_bytes(whole.formats[2]));
        }
        let input = self.image(self.root(layer.inputs[0]), group, piece.image);
        let output = self.image(layer.output, group, piece.image);
        let form = network.forms[&layer.output];
        let pixel = pitch(whole.dest[0], element_bytes(format(form.grid)));
        let rows = u64::from(piece.row) * u64::from(whole.dest[2]) * u64::from(pixel);
        whole.input.address += input as i64;
        whole.output.address = (output + rows) as i64 + result;
        let (tiles, y) = (self.instances[instance].tiles.clone(), self.instances[instance].y);
        let streamed = std::mem::take(&mut self.instances[instance].streamed);
        let mut first: Option<Conv> = None;
        for (index, &tile) in tiles.iter().enumerate() {
            self.tile = index;
            let (mut conv, _) = self.cutter.part(&whole, y, tile)?;
            let place = self.instances[instance].places[index];
            conv.weights = place.ok_or_else(|| Diagnostic::bug("weights are not in WL0"))?;
            let (arch, model) = (self.cutter.arch, self.cutter.model);
            let counted = match model == crate::time::Model::UPSTREAM {
                true => *first.get_or_insert(conv),
                false => conv,
            };
            let cycles = conv_line_cycles(&counted, tiles.len() as u64, streamed, arch, model);
            let work = Work::Conv(conv);
            let start = self.team.start(&work);
            self.prefetch(start);
            let map = self.map(step, Some(index as i32));
            self.team.write(&work, &map, (piece.image, piece.images), Some(cycles));
        }
        self.tile = tiles.len();
        Ok(())
    }

    /// The product of a layer that weights are for.
    fn head(&self, instance: usize) -> usize {
        let own = &self.instances[instance];
        own.set / self.cuts[&own.layer].sets.len().max(1)
    }

    /// Loads the parameters of products that come soon, and makes weights of the right operand of the
    /// next one.
    fn pack(&mut self, step: usize) {
        while let Some(&(_, layer, group)) = self.parameters.front().filter(|next| next.0 <= step) {
            self.parameters.pop_front();
            let Operation::Product(product) = &self.job.network.layers[layer].operation else {
                continue;
            };
            let block = self.blocks[self.own_block_of[&(layer, group)]];
            let slots = (block.start..block.end()).step_by(product.bytes().max(1) as usize);
            for copy in slots.flat_map(|slot| product.loads(self.job.weights[&layer], slot)) {
                self.team.write(&Work::Copy(copy), &self.transfer_map(layer), (0, 0), None);
            }
        }
        let Some(instance) = self.instance_of[step] else { return };
        let Step { layer, group, piece, .. } = self.steps[step];
        let Operation::Product(product) = &self.job.network.layers[layer].operation else { return };
        let first = self.loads[self.next.min(self.loads.len())..].first();
        if first.is_none_or(|load| load.instance != instance || load.state != State::Operand) {
            return;
        }
        let (head, bytes) = (self.head(instance), product.bytes());
        let block = self.blocks[self.own_block_of[&(layer, group)]];
        let image = piece.image - self.images_of(group).0;
        let number = u64::from(image) * product.heads.len() as u64 + head as u64;
        let slot = block.start + number % (block.bytes / bytes.max(1)).max(1) * bytes;
        let right = self.job.network.layers[layer].inputs[1];
        let from = self.image(self.root(right), group, piece.image);
        for line in product.packs(head, self.cutter.extents(right), from, slot) {
            let map = self.map(step, None);
            self.team.write(&Work::Reorder(line), &map, (piece.image, 1), None);
        }
        for at in self.next..self.loads.len() {
            let Load { instance: other, tile, .. } = self.loads[at];
            let own = &self.instances[other];
            let start = &self.steps[own.steps.0];
            if (own.layer, start.piece.image, start.group, self.head(other))
                != (layer, piece.image, group, head)
            {
                break;
            }
            let row = bytes / u64::from(product.columns);
            self.loads[at].state = State::Packed(slot + u64::from(own.tiles[tile].first) * row);
        }
    }

    /// Notes where images of a value lie in every core.
    pub(super) fn lands(&mut self, value: ValueId, ops: &Ops, images: (u32, u32), address: u64) {
        let parts = self.team.parts(ops, images);
        let landing = |(core, line, images)| Landing { value, core, line, images, address };
        self.landings.extend(parts.map(landing));
    }

    /// First byte of an image of a value.
    pub(super) fn image(&self, value: ValueId, group: u32, image: u32) -> u64 {
        let block = self.blocks[self.block_of[&(value, group)]];
        let form = self.cutter.form(value);
        let bytes = image_bytes(self.cutter.extents(value), format(form.grid));
        let before = if self.is_constant(value) { 0 } else { image - self.images_of(group).0 };
        block.start + bytes * u64::from(before)
    }

    /// The sequence of a function, each line of which is a workload.
    fn sequence(&mut self, step: usize) {
        let Step { layer, piece, group, .. } = self.steps[step];
        let own = self.own_block_of.get(&(layer, group)).map_or(0, |&own| self.blocks[own].start);
        let layer = &self.job.network.layers[layer];
        for (index, line) in functions::lines(self.cutter, layer, piece).into_iter().enumerate() {
            self.more_workloads += usize::from(index > 0);
            let at = |base: Base| match base {
                Base::Operand(index) => {
                    self.image(self.root(layer.inputs[index]), group, piece.image)
                }
                Base::Output => self.image(layer.output, group, piece.image),
                Base::Scratch => own,
            };
            let [input, second, output] = line.bases.map(|base| at(base) as i64);
            let mut vector = line.vector;
            vector.input.address += input;
            vector.second.address += second;
            vector.output.address += output;
            let work = Work::Vector(vector);
            let start = self.team.start(&work);
            self.prefetch(start);
            let map = self.map(step, Some(0));
            self.team.write(&work, &map, (piece.image, 1), None);
        }
    }

    fn turn(&mut self, step: usize, turn: Turn) {
        let Step { layer, piece, group, .. } = self.steps[step];
        let layer = &self.job.network.layers[layer];
        let Turn { order, tile } = turn;
        let tensors = [tile, self.cutter.extents(layer.output)];
        let format = format(self.cutter.form(layer.output).grid);
        for image in piece.image..piece.image + piece.images {
            let places = [self.root(layer.inputs[0]), layer.output]
                .map(|value| Place { region: 0, address: self.image(value, group, image) as i64 });
            let work = Work::Reorder(Reorder { order, format, tensors, places, images: 1, tile });
            self.prefetch(self.team.start(&work));
            self.team.write(&work, &self.map(step, None), (image, 1), None);
        }
    }

    fn vectors(&mut self, step: usize) {
        let Step { layer, piece, group, .. } = self.steps[step];
        let layer = &self.job.network.layers[layer];
        let whole = self.cutter.vector(layer, piece);
        for index in 0..piece.images {
            let image = piece.image + index;
            let mut vector = whole;
            let at = |value: ValueId| self.image(self.root(value), group, image) as i64;
            vector.input.address += at(layer.inputs[0]);
            vector.second.address = match layer.inputs.get(1) {
                Some(&second) => whole.second.address + at(second),
                None => vector.input.address,
            };
            vector.output.address += at(layer.output);
            let (arch, model) = (self.cutter.arch, self.cutter.model);
            let cycles = vector_line_cycles(&vector, piece.images.into(), arch, model);
            let work = Work::Vector(vector);
            let start = self.team.start(&work);
            self.prefetch(start);
            let map = self.map(step, Some(index as i32));
            self.team.write(&work, &map, (image, 1), Some(cycles));
        }
    }

    /// Notes what a step completed, and stores outputs.
    fn land(&mut self, step: usize) {
        let Step { layer, group, .. } = self.steps[step];
        let ends =
            self.steps.get(step + 1).is_none_or(|next| (next.layer, next.group) != (layer, group));
        if !ends {
            return;
        }
        if let Operation::Slice { is_last: false, .. } = self.job.network.layers[layer].operation {
            return;
        }
        let value = self.job.network.layers[layer].output;
        let images = self.images_of(group);
        let address = self.image(value, group, images.0);
        let queue = match self.instance_of[step] {
            Some(_) => Queue::Pe,
            None if matches!(self.operation(step), Operation::Turn(_)) => Queue::Dt,
            None => Queue::Vp,
        };
        let ops = self.team.newest(queue);
        self.lands(value, &ops, images, address);
        for output in self.job.outputs.iter().filter(|output| output.value == value) {
            let dense = output.extents.map(u64::from).iter().product::<u64>()
                * u64::from(element_bytes(output.format));
            let copy = Copy {
                load: false,
                bas: 0,
                dense: true,
                format: output.format,
                dram: output.address + (dense * u64::from(images.0)) as u32,
                l2: Place { region: 0, address: address as i64 },
                images: images.1,
                tile: output.extents,
                dram_tensor: output.extents,
                l2_tensor: output.extents,
            };
            let map = self.transfer_map(layer);
            let before = step + 2;
            let after = ops.clone();
            self.stores.push_back(Store { work: Work::Copy(copy), map, images, after, before });
        }
    }
}
