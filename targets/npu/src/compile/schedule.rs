//! From steps to lines: what is loaded when, and to where.
//!
//! Steps of the array and the vector queue keep their order. DRAM operations form one chain. The
//! schedule is simulated while it is written: whenever the port is free, the transfer that is needed
//! next goes, into WL0 if there is room, else through L2; what has no room waits for the steps that
//! free it. Weights pass WL0 as a ring, in the order of their use.

use super::layers::{Network, Operation};
use super::memory::{ALIGN, Block, Occupied, pack};
use super::steps::{Cut, Cutter, Step, Tile, Ways, format, image_bytes};
use super::writer::{Op, Writer};
use crate::isa::{DataFmt, Queue};
use crate::program::{Indices, Map, Program};
use crate::time::{conv_line_cycles, vector_line_cycles};
use crate::work::{
    Conv, Copy, Extents, Place, Regions, WeightDest, WeightSource, Weights, Work, channel_bytes,
    dense_row_bytes, element_bytes,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::ValueId;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};

/// With this patience weights go through L2 only where nothing else is possible.
pub(crate) const NEVER: u64 = 1 << 40;

/// A tensor of the whole batch in DRAM, dense.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DramTensor {
    /// The value.
    pub(crate) value: ValueId,
    /// First byte behind base 0.
    pub(crate) address: u32,
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
    /// Images of the batch.
    pub(crate) images: u32,
}

/// Where a part of a value lies when it is complete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Landing {
    /// The value.
    pub(crate) value: ValueId,
    /// The line after which it is there.
    pub(crate) line: usize,
    /// First image and images.
    pub(crate) images: (u32, u32),
    /// First byte in L2.
    pub(crate) address: u64,
}

/// A schedule.
pub(crate) struct Scheduled {
    /// The program.
    pub(crate) program: Program,
    /// Cycles by the model it was made for.
    pub(crate) cycles: u64,
    /// Where values lie.
    pub(crate) landings: Vec<Landing>,
    /// Bytes of L2 for activations.
    pub(crate) activations: u64,
    /// Workloads, by layer: the first line of each.
    pub(crate) firsts: Vec<(usize, usize)>,
}

/// A set of weights for the steps that use it.
struct Instance {
    layer: usize,
    tiles: Vec<Tile>,
    y: crate::isa::YCutMode,
    /// The first and the last step that use it.
    steps: (usize, usize),
    /// Where every tile lies in WL0, once its load is written.
    places: Vec<Option<u32>>,
    /// A tile came through L2, and no step has used it.
    streamed: bool,
}

/// What the DRAM port has to load.
#[derive(Clone, Copy)]
enum Item {
    /// Rows of images of an input.
    Input { tensor: usize, images: (u32, u32), rows: (u32, u32), block: usize },
    /// A tile of weights.
    Weights { instance: usize, tile: usize },
}

/// Weights in L2 on their way to WL0.
struct Staged {
    instance: usize,
    tile: usize,
    block: Block,
}

/// Weights in WL0.
struct Resident {
    start: u32,
    end: u32,
    instance: usize,
    tile: usize,
}

/// A result that is to be stored.
struct Store {
    work: Work,
    map: Map,
    after: Op,
    /// The step before which it must be written.
    before: usize,
}

struct Scheduler<'c, 'a> {
    cutter: &'c mut Cutter<'a>,
    job: &'c Job<'a>,
    ways: &'c Ways,
    steps: Vec<Step>,
    cuts: FxHashMap<usize, Cut>,
    /// Blocks of activations, by value and group.
    blocks: Vec<Block>,
    block_of: FxHashMap<(ValueId, u32), usize>,
    occupied: Occupied,
    instances: Vec<Instance>,
    /// The instance of a step with weights.
    instance_of: Vec<Option<usize>>,
    items: Vec<Item>,
    /// The first step that needs each item.
    needs: Vec<usize>,
    next_item: usize,
    staged: VecDeque<Staged>,
    residents: Vec<Resident>,
    /// Where the ring of WL0 goes on.
    head: u32,
    stores: VecDeque<Store>,
    /// The step that is next, and the tile of it.
    step: usize,
    tile: usize,
    writer: Writer<'a>,
    landings: Vec<Landing>,
    firsts: Vec<(usize, usize)>,
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
) -> Result<Scheduled> {
    let (steps, cuts) = steps(cutter, job, ways)?;
    let mut scheduler = Scheduler::new(cutter, job, ways, steps, cuts)?;
    scheduler.run()?;
    let Scheduler { writer, landings, firsts, blocks, .. } = scheduler;
    let cycles = writer.total();
    let activations = blocks.iter().map(Block::end).max().unwrap_or(0);
    Ok(Scheduled { program: writer.finish(), cycles, landings, activations, firsts })
}

/// The steps of all groups, and how layers with weights are cut.
fn steps(
    cutter: &mut Cutter<'_>,
    job: &Job<'_>,
    ways: &Ways,
) -> Result<(Vec<Step>, FxHashMap<usize, Cut>)> {
    let mut steps = Vec::new();
    let mut cuts: FxHashMap<usize, Cut> = FxHashMap::default();
    let mut first = 0;
    let mut group = 0;
    while first < job.images {
        let images = ways.all.group.min(job.images - first);
        for (index, layer) in job.network.layers.iter().enumerate() {
            if matches!(layer.operation, Operation::Enter | Operation::Alias) {
                continue;
            }
            let knobs = &ways.of(index);
            let pieces = cutter.pieces(layer, (first, images), knobs);
            let mut push = |piece, set| {
                steps.push(Step { layer: index, group, piece, set });
            };
            if !matches!(layer.operation, Operation::Conv { .. }) {
                pieces.into_iter().for_each(|piece| push(piece, None));
                continue;
            }
            if !cuts.contains_key(&index) {
                cuts.insert(index, cutter.cut(layer, &pieces, knobs)?);
            }
            for set in 0..cuts[&index].sets.len() {
                pieces.iter().for_each(|&piece| push(piece, Some(set)));
            }
        }
        first += images;
        group += 1;
    }
    Ok((steps, cuts))
}

impl<'c, 'a> Scheduler<'c, 'a> {
    fn new(
        cutter: &'c mut Cutter<'a>,
        job: &'c Job<'a>,
        ways: &'c Ways,
        steps: Vec<Step>,
        cuts: FxHashMap<usize, Cut>,
    ) -> Result<Scheduler<'c, 'a>> {
        let writer = Writer::new(cutter.arch, cutter.model);
        let instance_of = vec![None; steps.len()];
        let mut scheduler = Scheduler {
            cutter,
            job,
            ways,
            steps,
            cuts,
            blocks: Vec::new(),
            block_of: FxHashMap::default(),
            occupied: Occupied::new(&[]),
            instances: Vec::new(),
            instance_of,
            items: Vec::new(),
            needs: Vec::new(),
            next_item: 0,
            staged: VecDeque::new(),
            residents: Vec::new(),
            head: 0,
            stores: VecDeque::new(),
            step: 0,
            tile: 0,
            writer,
            landings: Vec::new(),
            firsts: Vec::new(),
        };
        scheduler.place()?;
        scheduler.gather();
        Ok(scheduler)
    }

    fn root(&self, value: ValueId) -> ValueId {
        self.job.network.root(value)
    }

    fn images_of(&self, group: u32) -> (u32, u32) {
        let first = group * self.ways.all.group;
        (first, self.ways.all.group.min(self.job.images - first))
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
        }
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
            let step = worst.map_or(0, |block| block.first.min(self.steps.len() - 1));
            let message = format!(
                "activations of {} images need {total} bytes of L2, which has {limit}; the largest \
                 tensor has {}",
                self.ways.all.group,
                worst.map_or(0, |block| block.bytes)
            );
            let layer = &self.job.network.layers[self.steps[step].layer];
            let problem = Diagnostic::unsupported("Q4090", message)
                .with_note(format!("in layer {}", layer.nodes[0].index()));
            return Err(problem);
        }
        self.occupied = Occupied::new(&self.blocks);
        Ok(())
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
        for (_, block) in &mut self.block_of {
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
        let mut needed: Vec<(usize, Item)> = Vec::new();
        let mut keys: FxHashMap<(usize, usize, u32), usize> = FxHashMap::default();
        for (index, step) in self.steps.iter().enumerate() {
            let Some(set) = step.set else { continue };
            let instance = *keys.entry((step.layer, set, step.group)).or_insert_with(|| {
                let cut = &self.cuts[&step.layer];
                let tiles = cut.sets[set].clone();
                let instance = self.instances.len();
                let items = (0..tiles.len()).map(|tile| (index, Item::Weights { instance, tile }));
                needed.extend(items);
                let places = vec![None; tiles.len()];
                let steps = (index, index);
                self.instances.push(Instance {
                    layer: step.layer,
                    tiles,
                    y: cut.y,
                    steps,
                    places,
                    streamed: false,
                });
                instance
            });
            self.instances[instance].steps.1 = index;
            self.instance_of[index] = Some(instance);
        }
        for (tensor, input) in self.job.inputs.iter().enumerate() {
            let groups = self.steps.last().map_or(0, |step| step.group + 1);
            for group in 0..groups {
                let Some(&block) = self.block_of.get(&(input.value, group)) else { continue };
                let (first, count) = self.images_of(group);
                let [_, rows, _] = input.extents;
                // One image is loaded in four parts, so that work can begin sooner.
                let parts = if count == 1 && rows >= 32 { 4 } else { 1 };
                for image in first..first + count {
                    for part in 0..parts {
                        let [row, end] = [part, part + 1].map(|at| rows * at / parts);
                        let rows = (row, end - row);
                        let images = (image, 1);
                        let item = Item::Input { tensor, images, rows, block };
                        needed.push((self.reader(input.value, group, image, row), item));
                    }
                }
            }
        }
        // Of several images the first ones come before the weights that they meet.
        needed.sort_by_key(|&(step, item)| match item {
            Item::Weights { .. } => (step, 1),
            Item::Input { images, .. } => {
                let ahead = images.0 - self.steps[step].piece.image;
                (step + ahead.saturating_sub(self.ways.all.chunk - 1) as usize * 2, 0)
            }
        });
        (self.needs, self.items) = needed.into_iter().unzip();
        // What a step needs may lie behind what later ones need.
        for index in (1..self.needs.len()).rev() {
            self.needs[index - 1] = self.needs[index - 1].min(self.needs[index]);
        }
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
                Operation::Conv { frame, .. } | Operation::Pool { frame, .. } => {
                    let span = (frame.kernel[0] - 1) * frame.dilate[0] + 1;
                    (frame.stride[0], span, frame.start[0])
                }
                _ => (1, 1, 0),
            };
            let last = (piece.row + piece.rows - 1) * stride + kernel;
            i64::from(last) + i64::from(start) > i64::from(row)
        };
        self.steps.iter().position(reads).unwrap_or(0)
    }

    fn run(&mut self) -> Result<()> {
        let none = Map::none();
        self.writer.write(&Work::Begin, &none, None);
        let kib = self.cutter.arch.l2_bytes / 1024;
        let cut = ((kib % 8192) as u16, (kib - 1) as u16);
        let regions = Regions { first: 0, cuts: [cut, (0, 0), (0, 0), (0, 0)] };
        self.writer.write(&Work::Regions(regions), &none, None);
        for step in 0..self.steps.len() {
            (self.step, self.tile) = (step, 0);
            self.work(step)?;
        }
        self.step = self.steps.len();
        self.flush(usize::MAX);
        self.writer.write(&Work::End, &none, None);
        Ok(())
    }

    /// Stores results that must be stored before a step.
    fn flush(&mut self, step: usize) {
        while self.stores.front().is_some_and(|store| store.before <= step) {
            self.store();
        }
    }

    fn store(&mut self) {
        if let Some(store) = self.stores.pop_front() {
            self.writer.write(&store.work, &store.map, None);
        }
    }

    fn map(&self, step: usize, tile: Option<i32>) -> Map {
        let layer = self.steps[step].layer as i32;
        Map {
            slyr: layer,
            clyr: Indices::new(),
            s_flyr: layer,
            c_flyr: Indices::new(),
            wkl: step as i32,
            tile: Some(tile.unwrap_or(-1)),
        }
    }

    /// The map of a transfer for a layer, as of the step that is next.
    fn transfer_map(&self, layer: usize) -> Map {
        let step = self.step.min(self.steps.len() - 1);
        let indices = Indices::from_slice(&[layer as i32]);
        Map { clyr: indices.clone(), c_flyr: indices, ..self.map(step, None) }
    }

    fn work(&mut self, step: usize) -> Result<()> {
        self.flush(step);
        self.supply(step)?;
        self.firsts.push((self.steps[step].layer, step));
        match self.instance_of[step] {
            Some(instance) => self.convolve(step, instance)?,
            None => self.vectors(step),
        }
        self.land(step);
        Ok(())
    }

    /// Writes the loads that a step waits for.
    fn supply(&mut self, step: usize) -> Result<()> {
        loop {
            let loaded = self.needs.get(self.next_item).is_none_or(|&need| need > step);
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
        while self.writer.dram_free() < until && self.advance(until) {}
    }

    fn convolve(&mut self, step: usize, instance: usize) -> Result<()> {
        let Step { layer, piece, group, .. } = self.steps[step];
        let network = self.job.network;
        let layer = &network.layers[layer];
        let mut whole = self.cutter.conv(layer, piece);
        let input = self.image(self.root(layer.inputs[0]), group, piece.image);
        let output = self.image(layer.output, group, piece.image);
        let form = network.forms[&layer.output];
        let pixel = crate::work::pitch(whole.dest[0], element_bytes(format(form.grid)));
        let rows = u64::from(piece.row) * u64::from(whole.dest[2]) * u64::from(pixel);
        whole.input.address += input as i64;
        whole.output.address = (output + rows) as i64;
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
            let start = self.writer.plan(&work).start;
            self.prefetch(start);
            let map = self.map(step, Some(index as i32));
            self.writer.write(&work, &map, Some(cycles));
        }
        self.tile = tiles.len();
        Ok(())
    }

    /// First byte of an image of a value.
    fn image(&self, value: ValueId, group: u32, image: u32) -> u64 {
        let block = self.blocks[self.block_of[&(value, group)]];
        let form = self.cutter.form(value);
        let bytes = image_bytes(self.cutter.extents(value), format(form.grid));
        block.start + bytes * u64::from(image - self.images_of(group).0)
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
            let start = self.writer.plan(&work).start;
            self.prefetch(start);
            self.writer.write(&work, &self.map(step, Some(index as i32)), Some(cycles));
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
        let value = self.job.network.layers[layer].output;
        let images = self.images_of(group);
        let address = self.image(value, group, images.0);
        let queue = match self.instance_of[step] {
            Some(_) => Queue::Pe,
            None => Queue::Vp,
        };
        let Some(op) = self.writer.newest(queue) else { return };
        let line = self.writer.line(op);
        self.landings.push(Landing { value, line, images, address });
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
            self.stores.push_back(Store { work: Work::Copy(copy), map, after: op, before });
        }
    }

    /// Writes one transfer that can start before a time; false when there is none.
    fn advance(&mut self, until: u64) -> bool {
        let free = self.writer.dram_free();
        if self.stores.front().is_some_and(|store| self.writer.end(store.after) <= free) {
            self.store();
            return true;
        }
        if self.move_staged() {
            return true;
        }
        let Some(&item) = self.items.get(self.next_item) else {
            let waits = !self.stores.is_empty() && until == u64::MAX;
            if waits {
                self.store();
            }
            return waits;
        };
        match item {
            Item::Input { tensor, images, rows, block } => {
                self.load_input(tensor, images, rows, block, until)
            }
            Item::Weights { instance, tile } => self.load_weights(instance, tile, until),
        }
    }

    fn load_input(
        &mut self,
        tensor: usize,
        images: (u32, u32),
        (row, rows): (u32, u32),
        block: usize,
        until: u64,
    ) -> bool {
        if self.blocks[block].first > self.step {
            return false;
        }
        let input = self.job.inputs[tensor];
        let group = images.0 / self.ways.all.group;
        let [c, _, w] = input.extents;
        let bytes = u64::from(element_bytes(input.format));
        let dense = |rows: u64| rows * u64::from(w) * u64::from(c) * bytes;
        let height = u64::from(input.extents[1]);
        let pixel = u64::from(crate::work::pitch(c, bytes as u32));
        let at = self.image(input.value, group, images.0);
        let work = Work::Copy(Copy {
            load: true,
            bas: 0,
            dense: true,
            format: input.format,
            dram: input.address + dense(height * u64::from(images.0) + u64::from(row)) as u32,
            l2: Place { region: 0, address: (at + u64::from(row) * u64::from(w) * pixel) as i64 },
            images: images.1,
            tile: [c, rows, w],
            dram_tensor: input.extents,
            l2_tensor: input.extents,
        });
        if self.writer.plan(&work).start >= until {
            return false;
        }
        let map = self.transfer_map(self.steps[self.needs[self.next_item]].layer);
        let op = self.writer.write(&work, &map, None);
        let is_last = row + rows == input.extents[1];
        if let Some(op) = op.filter(|_| is_last) {
            let line = self.writer.line(op);
            self.landings.push(Landing { value: input.value, line, images, address: at });
        }
        self.next_item += 1;
        true
    }

    /// The transfer of a tile from DRAM, to WL0 or L2.
    fn weights(
        &self,
        instance: usize,
        tile: usize,
        source: WeightSource,
        dest: WeightDest,
    ) -> Work {
        let own = &self.instances[instance];
        let piece = self.steps[own.steps.0].piece;
        let conv = self.cutter.conv(&self.job.network.layers[own.layer], piece);
        let row = conv.weight_row();
        Work::Weights(Weights {
            source,
            dest,
            format: DataFmt::INT8,
            mask: None,
            y_cut: matches!(dest, WeightDest::Wl0(_)).then_some(own.y),
            source_row: row,
            dest_row: row,
            channels: own.tiles[tile].channels,
            row,
        })
    }

    fn dram_source(&self, instance: usize, tile: usize) -> (WeightSource, u64) {
        let own = &self.instances[instance];
        let piece = self.steps[own.steps.0].piece;
        let conv = self.cutter.conv(&self.job.network.layers[own.layer], piece);
        let row = dense_row_bytes(conv.weight_row(), 1);
        let offset = channel_bytes(own.tiles[tile].first, row);
        let address = self.job.weights[&own.layer] + offset as u32;
        let bytes = channel_bytes(own.tiles[tile].channels, row);
        (WeightSource::Dram { bas: 1, address }, bytes)
    }

    fn load_weights(&mut self, instance: usize, tile: usize, until: u64) -> bool {
        let (source, bytes) = self.dram_source(instance, tile);
        let layer = self.instances[instance].layer;
        let patience = self.ways.of(layer).patience;
        let direct = self.staged.is_empty().then(|| self.room(instance, tile)).flatten();
        let direct = direct.map(|at| {
            let work = self.weights(instance, tile, source, WeightDest::Wl0(at));
            (self.writer.plan(&work).start, at, work)
        });
        let free = self.writer.dram_free();
        let prompt = direct.as_ref().is_some_and(|plan| plan.0 <= free.saturating_add(patience));
        // Without a place in WL0 yet it is not known how long one takes to be free.
        let waits = direct.is_none() && patience >= NEVER && until != u64::MAX;
        let staged = match prompt || waits {
            true => None,
            false => self.stage(instance, tile, source, bytes),
        };
        let map = self.transfer_map(layer);
        match (direct, staged) {
            (Some((start, at, work)), other)
                if start < until && other.as_ref().is_none_or(|other| other.0 >= start) =>
            {
                self.writer.write(&work, &map, None);
                self.reside(instance, tile, at);
            }
            (_, Some((start, block, work))) if start < until => {
                self.writer.write(&work, &map, None);
                self.staged.push_back(Staged { instance, tile, block });
            }
            _ => return false,
        }
        self.next_item += 1;
        true
    }

    /// A place in L2 for a tile until its step.
    fn stage(
        &self,
        instance: usize,
        tile: usize,
        source: WeightSource,
        bytes: u64,
    ) -> Option<(u64, Block, Work)> {
        let (first, last) = (self.step, self.instances[instance].steps.0);
        let others: Vec<Block> = self.staged.iter().map(|staged| staged.block).collect();
        let limit = u64::from(self.cutter.arch.l2_bytes);
        let bytes = bytes.next_multiple_of(ALIGN);
        let start = self.occupied.find(bytes, first, last, &others, limit)?;
        let place = Place { region: 0, address: start as i64 };
        let work = self.weights(instance, tile, source, WeightDest::L2(place));
        let plan = self.writer.plan(&work);
        Some((plan.start, Block { start, bytes, first, last }, work))
    }

    /// Moves the first staged tile to WL0 if there is room.
    fn move_staged(&mut self) -> bool {
        let Some(staged) = self.staged.front() else { return false };
        let (instance, tile, block) = (staged.instance, staged.tile, staged.block);
        let Some(at) = self.room(instance, tile) else { return false };
        let source = WeightSource::L2(Place { region: 0, address: block.start as i64 });
        let work = self.weights(instance, tile, source, WeightDest::Wl0(at));
        let map = self.transfer_map(self.instances[instance].layer);
        self.writer.write(&work, &map, None);
        self.reside(instance, tile, at);
        self.instances[instance].streamed = true;
        self.staged.pop_front();
        true
    }

    fn units(&self, instance: usize, tile: usize) -> u32 {
        let own = &self.instances[instance];
        let piece = self.steps[own.steps.0].piece;
        let conv = self.cutter.conv(&self.job.network.layers[own.layer], piece);
        self.cutter.units(&conv, own.tiles[tile].channels)
    }

    /// True when no line that is still to be written uses the weights.
    fn is_done(&self, resident: &Resident) -> bool {
        let last = self.instances[resident.instance].steps.1;
        last < self.step || last == self.step && resident.tile < self.tile
    }

    /// Where the ring goes on with room for a tile, if it has room.
    fn room(&self, instance: usize, tile: usize) -> Option<u32> {
        let units = self.units(instance, tile);
        let arch = self.cutter.arch;
        let head = self.head.next_multiple_of(arch.wl0_align);
        let at = if head + units <= arch.wl0_units { head } else { 0 };
        // What lies between is passed over, so that nothing of it may be in use either.
        let mut busy = self.residents.iter().filter(|resident| {
            resident.start < at + units && at < resident.end && !self.is_done(resident)
        });
        (at + units <= arch.wl0_units && busy.next().is_none()).then_some(at)
    }

    fn reside(&mut self, instance: usize, tile: usize, at: u32) {
        let end = at + self.units(instance, tile);
        let residents = std::mem::take(&mut self.residents);
        let keep = |resident: &Resident| resident.end <= at || end <= resident.start;
        self.residents = residents.into_iter().filter(keep).collect();
        self.residents.push(Resident { start: at, end, instance, tile });
        self.instances[instance].places[tile] = Some(at);
        self.head = end;
    }
}
