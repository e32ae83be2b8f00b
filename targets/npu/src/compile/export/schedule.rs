//! Scheduler IR.
//!
//! A workload is a step of the schedule. It lists what is in L2 and WL0 while it runs: a transfer
//! that is written among its lines counts for the next one, which may use what they free. An input
//! is one transfer, in the place of the first of its parts. Weights that come through L2 stay there
//! for the first workload that uses them, which moves them on.

use super::{Members, Record, area, list, refuse};
use crate::arch::NpuArch;
use crate::compile::layers::{Layer, Operation};
use crate::compile::schedule::DramTensor;
use crate::compile::steps::{Step, Tile};
use crate::files::Json;
use crate::files::schedule::Area;
use crate::isa::{Number, YCutMode};
use crate::program::Program;
use crate::time::{conv_workload_cycles, tile_cycles, vector_cycles};
use crate::work::{
    Conv, Copy, Resolved, WeightDest, WeightSource, Weights, Work, channel_bytes, dense_row_bytes,
    element_bytes, product,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::ValueId;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// An object whose keys are put into their order.
fn sorted(members: impl IntoIterator<Item = (&'static str, Json)>) -> Json {
    members.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect()
}

fn boxed(area: &Area) -> [(&'static str, Json); 2] {
    [("lower", list(area.lower)), ("upper", list(area.upper))]
}

/// Bytes of a tensor in L2.
fn bytes(area: &Area, bits: i64) -> i64 {
    let [n, c, h, w] = area.extents();
    let align = 64 / bits;
    n * ((c + align - 1) / align * align) * h * w * bits / 8
}

/// What a tensor is made of.
fn held(area: &Area, bits: i64) -> Members {
    let mut members = vec![
        ("align", (64 / bits).into()),
        ("bitwidth", bits.into()),
        ("size", bytes(area, bits).into()),
    ];
    members.extend(boxed(area));
    members
}

/// Where the parts of two boxes are that both have.
fn meet(a: &Area, b: &Area) -> bool {
    (0..4).all(|axis| a.lower[axis] <= b.upper[axis] && b.lower[axis] <= a.upper[axis])
}

/// A value of a group of images in L2.
struct Tensor {
    value: ValueId,
    /// First image.
    image: i64,
    address: i64,
    /// What it has room for.
    area: Area,
    /// The first and the last workload that list it.
    from: usize,
    to: usize,
    /// Position of its load among the transfers.
    load: Option<usize>,
    /// Position of its store, and the workload that writes it.
    store: Option<(usize, usize)>,
    /// What fills it: transfer, box, and the workload that computes it.
    sources: Vec<(i64, Area, Option<usize>)>,
    /// The last workload that computes a part of it.
    done: usize,
}

/// A block of weights.
struct Block {
    layer: usize,
    area: Area,
    /// Bytes in DRAM and L2.
    bytes: i64,
    units: i64,
    /// Number of its transfer, and position among all.
    id: i64,
    order: usize,
    /// The first workload that lists it.
    from: usize,
    l2: Option<i64>,
    wl0: Option<i64>,
    /// Workloads that use it.
    users: Vec<usize>,
}

impl Block {
    fn first_user(&self) -> usize {
        self.users.first().copied().unwrap_or(self.from)
    }

    /// The first and the last workload that list it in L2.
    fn in_l2(&self) -> (usize, usize) {
        let end = self.first_user();
        if self.l2.is_some() { (self.from, end) } else { (1, 0) }
    }

    /// The same in WL0: weights from L2 are there from their first use on.
    fn in_wl0(&self) -> (usize, usize) {
        let from = if self.l2.is_some() { self.first_user() } else { self.from };
        (from, self.users.last().copied().unwrap_or(from))
    }
}

/// For every workload what lies in memory while it runs.
struct Listed {
    tensors: Vec<Vec<usize>>,
    l2: Vec<Vec<usize>>,
    wl0: Vec<Vec<usize>>,
}

struct Schedule<'r> {
    record: &'r Record,
    arch: &'r NpuArch,
    tensors: Vec<Tensor>,
    tensor_of: BTreeMap<(ValueId, u32), usize>,
    blocks: Vec<Block>,
    /// The blocks that each workload uses, tile by tile.
    own_blocks: Vec<Vec<usize>>,
    /// What every workload computes.
    works: Vec<Vec<Work>>,
    /// Transfers of DRAM, and how many of them are loads.
    transfers: usize,
    loads: i64,
}

/// The scheduler IR of a program.
///
/// # Errors
/// `Q4103` for what it cannot say.
pub(super) fn schedule(
    record: &Record,
    program: &Program,
    work: &[Resolved],
    arch: &NpuArch,
) -> Result<Json> {
    let steps = record.layout.steps.len();
    let mut schedule = Schedule {
        record,
        arch,
        tensors: Vec::new(),
        tensor_of: BTreeMap::new(),
        blocks: Vec::new(),
        own_blocks: vec![Vec::new(); steps],
        works: vec![Vec::new(); steps],
        transfers: 0,
        loads: 0,
    };
    schedule.place();
    schedule.follow(program, work)?;
    schedule.connect();
    schedule.hold_stores()?;
    schedule.file()
}

impl<'r> Schedule<'r> {
    fn steps(&self) -> &'r [Step] {
        &self.record.layout.steps
    }

    fn layer(&self, step: usize) -> &'r Layer {
        &self.record.network.layers[self.steps()[step].layer]
    }

    fn bits(&self, tensor: &Tensor) -> i64 {
        self.record.bits(tensor.value)
    }

    fn tensor(&self, value: ValueId, step: usize) -> usize {
        self.tensor_of[&(self.record.network.root(value), self.steps()[step].group)]
    }

    /// Values of groups with their places, from the first to the last workload that touches them.
    fn place(&mut self) {
        let record = self.record;
        let group = record.layout.group;
        for (index, step) in self.steps().iter().enumerate() {
            let layer = self.layer(index);
            for &value in layer.inputs.iter().chain([&layer.output]) {
                let key = (record.network.root(value), step.group);
                let first = step.group * group;
                let tensor = *self.tensor_of.entry(key).or_insert_with(|| {
                    let [n, c, h, w] = record.extents(key.0);
                    let images = n - i64::from(first);
                    self.tensors.push(Tensor {
                        value: key.0,
                        image: first.into(),
                        address: record.layout.places.get(&key).map_or(0, |&at| at as i64),
                        area: area([0; 4], [images.min(group.into()), c, h, w]),
                        from: index,
                        to: index,
                        load: None,
                        store: None,
                        sources: Vec::new(),
                        done: index,
                    });
                    self.tensors.len() - 1
                });
                self.tensors[tensor].to = index;
                if value == layer.output {
                    self.tensors[tensor].done = index;
                }
            }
        }
    }

    /// Which tensor of DRAM a copy is of, and of which group.
    fn key(&self, copy: &Copy, tensors: &[DramTensor]) -> Option<(ValueId, u32)> {
        let image = |tensor: &DramTensor| {
            product(tensor.extents.map(u64::from)) * u64::from(element_bytes(tensor.format))
        };
        let before = tensors.iter().filter(|t| !t.is_constant && t.address <= copy.dram);
        let tensor = before.max_by_key(|tensor| tensor.address)?;
        let number = u64::from(copy.dram - tensor.address) / image(tensor).max(1);
        Some((tensor.value, number as u32 / self.record.layout.group.max(1)))
    }

    /// Takes the lines one after the other.
    fn follow(&mut self, program: &Program, work: &[Resolved]) -> Result<()> {
        let computes = |work: &Resolved| matches!(work, Ok(Work::Conv(_) | Work::Vector(_)));
        let last = self.steps().len().saturating_sub(1);
        let workload = |line: usize| program.lines[line].workload().unwrap_or(0).max(0) as usize;
        let mut next = vec![last; work.len() + 1];
        for line in (0..work.len()).rev() {
            next[line] = if computes(&work[line]) { workload(line) } else { next[line + 1] };
        }
        let missing = || refuse_text("weights are missing");
        // The newest blocks at places in WL0 and L2.
        let mut newest: FxHashMap<i64, usize> = FxHashMap::default();
        let mut in_l2: FxHashMap<i64, usize> = FxHashMap::default();
        let mut before = None;
        for (line, work) in work.iter().enumerate() {
            let listed = (next[line] + usize::from(before == Some(next[line]))).min(last);
            let map = program.lines[line].map.as_ref();
            let carried = map.and_then(|map| map.clyr.first()).map_or(0, |&l| l.max(0) as usize);
            match work {
                Ok(Work::Conv(_) | Work::Vector(_)) => {
                    let step = workload(line);
                    before = Some(step);
                    let work = (*work).map_err(refuse_text)?;
                    if let Work::Conv(conv) = &work {
                        let block = newest.get(&i64::from(conv.weights)).copied();
                        let block = block.ok_or_else(missing)?;
                        self.blocks[block].users.push(step);
                        self.own_blocks[step].push(block);
                    }
                    self.works[step].push(work);
                }
                Ok(Work::Copy(copy)) => self.copy(copy, listed)?,
                Ok(Work::Weights(weights)) => {
                    let block = match weights.source {
                        WeightSource::L2(place) => {
                            in_l2.get(&place.address).copied().ok_or_else(missing)?
                        }
                        WeightSource::Dram { address, .. } => {
                            self.block(weights, address, carried, listed)
                        }
                        WeightSource::Remote { .. } => return Err(missing()),
                    };
                    self.blocks[block].wl0 = wl0(weights);
                    newest.extend(wl0(weights).map(|unit| (unit, block)));
                    in_l2.extend(self.blocks[block].l2.map(|at| (at, block)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The next position among the transfers of DRAM.
    fn order(&mut self) -> usize {
        self.transfers += 1;
        self.transfers - 1
    }

    /// The number of the next load.
    fn id(&mut self) -> i64 {
        self.loads += 1;
        self.loads - 1
    }

    fn copy(&mut self, copy: &Copy, listed: usize) -> Result<()> {
        let tensors = if copy.load { &self.record.inputs } else { &self.record.outputs };
        let key = self.key(copy, tensors).and_then(|key| self.tensor_of.get(&key));
        let tensor = *key.ok_or_else(|| refuse_text("a transfer is of no tensor"))?;
        if copy.load && self.tensors[tensor].load.is_some() {
            return Ok(());
        }
        let order = self.order();
        if !copy.load {
            let own = &mut self.tensors[tensor];
            own.store = Some((order, listed));
            own.to = own.to.max(listed);
            return Ok(());
        }
        let id = self.id();
        let own = &mut self.tensors[tensor];
        own.load = Some(order);
        own.from = own.from.min(listed);
        own.sources.push((id, own.area, None));
        Ok(())
    }

    /// Notes a block of weights that comes from DRAM; gives its number.
    fn block(&mut self, weights: &Weights, address: u32, layer: usize, from: usize) -> usize {
        let row = channel_bytes(1, dense_row_bytes(weights.row, 1));
        let base = self.record.weights.get(&layer).copied().unwrap_or(0);
        let first = i64::from(address.saturating_sub(base)) / row.max(1) as i64;
        let [c, r, s] = weights.row.map(i64::from);
        let l2 = match weights.dest {
            WeightDest::L2(place) => Some(place.address),
            WeightDest::Wl0(_) => None,
        };
        let (id, order) = (self.id(), self.order());
        self.blocks.push(Block {
            layer,
            area: area([0, first, 0, 0], [1, weights.channels.into(), c, r * s]),
            bytes: weights.dense_bytes(weights.row) as i64,
            units: (weights.buffer_bytes() / u64::from(self.arch.wl0_unit.max(1))) as i64,
            id,
            order,
            from,
            l2,
            wl0: None,
            users: Vec::new(),
        });
        self.blocks.len() - 1
    }

    /// What every workload computes fills a part of its tensor.
    fn connect(&mut self) {
        for step in 0..self.steps().len() {
            let tensor = self.tensor(self.layer(step).output, step);
            let mut own = self.result(step);
            for end in [&mut own.lower, &mut own.upper] {
                end[0] -= self.tensors[tensor].image;
            }
            let id = self.result_id(step);
            self.tensors[tensor].sources.push((id, own, Some(step)));
        }
    }

    /// For every workload the things whose first and last workloads are around it.
    fn listed(&self, spans: impl Iterator<Item = (usize, usize)>) -> Vec<Vec<usize>> {
        let mut lists = vec![Vec::new(); self.steps().len()];
        for (index, (from, to)) in spans.enumerate() {
            (from..=to).for_each(|step| lists[step].push(index));
        }
        lists
    }

    /// The transfer of a workload's result.
    fn result_id(&self, step: usize) -> i64 {
        self.loads + step as i64
    }

    /// A result over an operand is listed as waiting for its store when the operand is gone.
    fn hold_stores(&mut self) -> Result<()> {
        let listed = self.listed(self.tensors.iter().map(|tensor| (tensor.from, tensor.to)));
        for index in 0..self.tensors.len() {
            let Tensor { done, address, value, store: Some(_), .. } = self.tensors[index] else {
                continue;
            };
            let over = listed[done].iter().any(|&other| {
                self.tensors[other].value != value && self.tensors[other].address == address
            });
            let own = &mut self.tensors[index];
            own.done += usize::from(over);
            if own.done >= self.record.layout.steps.len() {
                let layer = self.record.layout.steps[done].layer;
                let why = "its result lies over an operand when it is stored";
                return Err(self.record.refuse(layer, why));
            }
            own.to = own.to.max(own.done);
        }
        Ok(())
    }

    /// What a workload computes of its layer's result.
    fn result(&self, step: usize) -> Area {
        let piece = self.steps()[step].piece;
        let [_, channels, _, w] = self.record.extents(self.layer(step).output);
        let tiles = self.tiles(step);
        let (first, end) = match (tiles.first(), tiles.last()) {
            (Some(first), Some(last)) => (first.first, last.first + last.channels),
            _ => (0, channels as u32),
        };
        area(
            [piece.image, first, piece.row, 0].map(i64::from),
            [piece.images.into(), (end - first).into(), piece.rows.into(), w],
        )
    }

    /// The blocks of output channels of a workload with weights.
    fn tiles(&self, step: usize) -> &'r [Tile] {
        let Step { layer, set, .. } = self.steps()[step];
        let cut = set.zip(self.record.layout.cuts.get(&layer));
        cut.map_or(&[], |(set, cut)| &cut.sets[set % cut.sets.len()][..])
    }

    /// What is read for a part of a layer's result, and how much padding is on each side: top, bottom,
    /// left, right.
    fn read(&self, step: usize, result: &Area) -> (Area, [i64; 4]) {
        let layer = self.layer(step);
        let [_, c, h, w] = self.record.extents(layer.inputs[0]);
        let frame = self.record.frame(layer);
        let (mut lower, mut upper) = (result.lower, result.upper);
        (lower[1], upper[1]) = match layer.operation {
            Operation::Conv { .. } => (0, c - 1),
            _ => (lower[1], upper[1]),
        };
        let mut padding = [0; 4];
        for (axis, extent) in [h, w].into_iter().enumerate() {
            let (stride, kernel) = (i64::from(frame.stride[axis]), i64::from(frame.kernel[axis]));
            let first = i64::from(frame.start[axis]) + result.lower[axis + 2] * stride;
            let last = i64::from(frame.start[axis]) + result.upper[axis + 2] * stride + kernel - 1;
            padding[2 * axis] = (-first).max(0);
            padding[2 * axis + 1] = (last - extent + 1).max(0);
            (lower[axis + 2], upper[axis + 2]) = (first.max(0), last.min(extent - 1));
        }
        // Columns are never divided.
        (lower[3], upper[3]) = (0, w - 1);
        (Area { lower, upper }, padding)
    }

    fn file(&self) -> Result<Json> {
        let steps = 0..self.steps().len();
        let reads: Vec<Vec<(Area, Vec<i64>)>> =
            steps.clone().map(|step| self.reads(step)).collect();
        let mut readers: BTreeMap<i64, BTreeSet<usize>> = BTreeMap::new();
        for (step, reads) in reads.iter().enumerate() {
            let blocks = self.own_blocks[step].iter().map(|&block| self.blocks[block].id);
            for id in reads.iter().flat_map(|(_, ids)| ids).copied().chain(blocks) {
                readers.entry(id).or_default().insert(step);
            }
        }
        let mut shown = BTreeSet::new();
        let mut workloads = Vec::new();
        let listed = Listed {
            tensors: self.listed(self.tensors.iter().map(|tensor| (tensor.from, tensor.to))),
            l2: self.listed(self.blocks.iter().map(Block::in_l2)),
            wl0: self.listed(self.blocks.iter().map(Block::in_wl0)),
        };
        for step in steps {
            workloads.push(self.workload(step, &reads[step], &readers, &listed, &mut shown)?);
        }
        let groups = self.steps().last().map_or(1, |step| i64::from(step.group) + 1);
        let dram = [("in", self.stores()), ("out", self.loads(&readers))];
        Ok(sorted([
            ("-1", sorted(dram)),
            ("0", workloads.into_iter().collect()),
            ("buffersize", i64::from(self.arch.l2_bytes).into()),
            ("top_batch_cut", groups.into()),
            ("xlen", 1.into()),
            ("ylen", 1.into()),
        ]))
    }

    fn name(&self, step: usize) -> &'r str {
        self.record.name(self.layer(step).output)
    }

    /// What goes to DRAM.
    fn stores(&self) -> Json {
        let mut stored: Vec<_> =
            self.tensors.iter().filter_map(|tensor| Some((tensor.store?.0, tensor))).collect();
        stored.sort_by_key(|(order, _)| *order);
        let entry = |(_, tensor): (usize, &Tensor)| {
            let last = tensor.sources.iter().filter_map(|(_, _, step)| *step).max().unwrap_or(0);
            let mut whole = tensor.area;
            whole.lower[0] += tensor.image;
            whole.upper[0] += tensor.image;
            let members = [
                ("core_id", 0.into()),
                ("layer_name", self.record.name(tensor.value).into()),
                ("transfer_id", self.result_id(last).into()),
                ("workload_id", (last as i64).into()),
            ];
            sorted(members.into_iter().chain(boxed(&whole)))
        };
        stored.into_iter().map(entry).collect()
    }

    /// What comes from DRAM.
    fn loads(&self, readers: &BTreeMap<i64, BTreeSet<usize>>) -> Json {
        let mut loads = BTreeMap::new();
        let entry = |id: i64, kind: &str, area: Area, size: i64| {
            let to = |&step: &usize| {
                sorted([
                    ("core_id", 0.into()),
                    ("layer_name", self.name(step).into()),
                    ("type", "core".into()),
                    ("workload_id", (step as i64).into()),
                ])
            };
            let members = [
                ("destination", readers.get(&id).into_iter().flatten().map(to).collect()),
                ("related_ifmap", list([])),
                ("size", size.into()),
                ("transfer_id", id.into()),
                ("type", kind.into()),
            ];
            sorted(members.into_iter().chain(boxed(&area)))
        };
        for block in &self.blocks {
            loads.insert(block.id, entry(block.id, "weight", block.area, block.bytes));
        }
        for tensor in &self.tensors {
            for &(id, own, _) in tensor.sources.iter().filter(|(_, _, step)| step.is_none()) {
                let mut whole = own;
                whole.lower[0] += tensor.image;
                whole.upper[0] += tensor.image;
                loads.insert(id, entry(id, "fmap", whole, bytes(&own, self.bits(tensor))));
            }
        }
        loads.into_values().collect()
    }

    /// What a workload reads of each operand: the box in its tensor, and the transfers that fill it.
    fn reads(&self, step: usize) -> Vec<(Area, Vec<i64>)> {
        let (read, _) = self.read(step, &self.result(step));
        let operand = |&value: &ValueId| {
            let tensor = &self.tensors[self.tensor(value, step)];
            let mut own = read;
            own.lower[0] -= tensor.image;
            own.upper[0] -= tensor.image;
            let sources = tensor.sources.iter().filter(|(_, area, _)| meet(area, &own));
            (own, sources.map(|(id, ..)| *id).collect())
        };
        self.layer(step).inputs.iter().map(operand).collect()
    }

    fn workload(
        &self,
        step: usize,
        reads: &[(Area, Vec<i64>)],
        readers: &BTreeMap<i64, BTreeSet<usize>>,
        listed: &Listed,
        shown: &mut BTreeSet<usize>,
    ) -> Result<Json> {
        let (layer, result) = (self.layer(step), self.result(step));
        let (_, padding) = self.read(step, &result);
        let ifmap = layer.inputs.iter().zip(reads).map(|(&value, (area, ids))| {
            let ids = ("transfer_id", list(ids.iter().copied()));
            sorted(held(area, self.record.bits(value)).into_iter().chain([ids]))
        });
        let own = area([0; 4], result.extents());
        let size = bytes(&own, self.record.bits(layer.output));
        let id = self.result_id(step);
        let to = readers.get(&id).into_iter().flatten().map(|&to| {
            let to = ("workload_id", (to as i64).into());
            sorted([("core_id", 0.into()), ("type", "core".into()), to])
        });
        let stored = self.tensors[self.tensor(layer.output, step)].store;
        let dram = stored.map(|_| sorted([("core_id", (-1).into()), ("type", "DRAM".into())]));
        let ofmap = [
            ("destination", dram.into_iter().chain(to).collect()),
            ("size", size.into()),
            ("transfer_id", id.into()),
        ];
        let ofmap = sorted(ofmap.into_iter().chain(boxed(&own)));
        let is_pe = self.steps()[step].set.is_some();
        let (time, tiles) = self.tile_info(step, &result);
        let wl0 = self.weight_buffer(&listed.wl0[step]);
        let ring = [0, i64::from(self.arch.l2_bytes)];
        let mut members = vec![
            ("buffer", self.buffer(step, listed, shown)?),
            ("ifmap", ifmap.collect()),
            ("layer_name", self.name(step).into()),
            ("layer_type", if is_pe { "pe" } else { "vp" }.into()),
            ("ofmap", [ofmap].into_iter().collect()),
            ("ofmap_size", size.into()),
            ("ring_buffer_info", [list(ring)].into_iter().collect()),
            ("tile_info", tiles),
            ("tile_padding_tblr", list(padding)),
            ("time", time.into()),
            ("wl0_buffer", wl0),
            ("workload", [list(result.lower), list(result.upper)].into_iter().collect()),
            ("workload_id", (step as i64).into()),
        ];
        if is_pe {
            members.push(("weight", self.weight(step, &result)));
        }
        Ok(sorted(members))
    }

    /// The weights of a workload.
    fn weight(&self, step: usize, result: &Area) -> Json {
        let blocks = || self.own_blocks[step].iter().map(|&block| &self.blocks[block]);
        let mut whole = blocks().next().map_or(*result, |block| block.area);
        (whole.lower[1], whole.upper[1]) = (result.lower[1], result.upper[1]);
        let members = [
            ("size", blocks().map(|block| block.bytes).sum::<i64>().into()),
            ("transfer_id", list(blocks().map(|block| block.id))),
        ];
        sorted(members.into_iter().chain(boxed(&whole)))
    }

    /// What lies in L2 while a workload runs. A result that replaces an operand shares its buffer.
    fn buffer(&self, step: usize, listed: &Listed, shown: &mut BTreeSet<usize>) -> Result<Json> {
        let inputs: Vec<usize> =
            self.layer(step).inputs.iter().map(|&value| self.tensor(value, step)).collect();
        let mut entries: BTreeMap<i64, (i64, Members)> = BTreeMap::new();
        let mut now = BTreeSet::new();
        let mut places: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for &index in &listed.tensors[step] {
            places.entry(self.tensors[index].address).or_default().push(index);
        }
        for (address, indices) in places {
            let tensor = &self.tensors[indices[0]];
            let mut members = held(&tensor.area, self.bits(tensor));
            let current = indices.iter().any(|index| inputs.contains(index));
            let waits = indices.iter().find(|&&index| {
                let own = &self.tensors[index];
                own.store.is_some() && own.done <= step && !current
            });
            members.push(("tensor_id", (indices[0] as i64).into()));
            match waits.map(|&index| &self.tensors[index]) {
                Some(stored) => {
                    let (order, written) = stored.store.unwrap_or_default();
                    members.push(("layer_name", self.record.name(stored.value).into()));
                    members.push(("start_send", (step >= written).into()));
                    members.push(("tensor_order", (order as i64).into()));
                    members.push(("type", "ofmap".into()));
                }
                None => self.input(&indices, current, shown, &mut members),
            }
            now.extend(&indices);
            entries.insert(address, (bytes(&tensor.area, self.bits(tensor)), members));
        }
        for &index in &listed.l2[step] {
            let block = &self.blocks[index];
            let Some(address) = block.l2 else { continue };
            let index = self.tensors.len() + index;
            let members = self.staged(block, index, !shown.contains(&index));
            now.insert(index);
            if entries.insert(address, (block.bytes, members)).is_some() {
                return Err(self.overlap(step));
            }
        }
        let mut end = 0;
        let mut list = Vec::new();
        for (address, (bytes, mut members)) in entries {
            if address < end {
                return Err(self.overlap(step));
            }
            end = address + bytes;
            members.push(("address", address.into()));
            list.push(sorted(members));
        }
        *shown = now;
        Ok(list.into_iter().collect())
    }

    fn overlap(&self, step: usize) -> Diagnostic {
        let why = "a part of L2 is used again for other weights while it runs";
        self.record.refuse(self.steps()[step].layer, why)
    }

    /// What a buffer says besides its box that workloads read or fill.
    fn input(
        &self,
        indices: &[usize],
        current: bool,
        shown: &BTreeSet<usize>,
        members: &mut Members,
    ) {
        let tensors = || indices.iter().map(|&index| &self.tensors[index]);
        let sources =
            || tensors().flat_map(|tensor| tensor.sources.iter().map(move |s| (tensor, s)));
        let source = |(tensor, (id, area, step)): (&Tensor, &(i64, Area, Option<usize>))| {
            let core = if step.is_some() { 0 } else { -1 };
            let kind = if step.is_some() { "core" } else { "DRAM" };
            let members = [
                ("core_id", core.into()),
                ("layer_name", self.record.name(tensor.value).into()),
                ("size", bytes(area, self.bits(tensor)).into()),
                ("transfer_id", (*id).into()),
                ("type", kind.into()),
            ];
            sorted(members.into_iter().chain(boxed(area)))
        };
        let order = tensors().find_map(|tensor| tensor.load).unwrap_or(self.transfers);
        let is_new = indices.iter().any(|index| !shown.contains(index));
        if current {
            members.push(("cur_wl_ifmap", true.into()));
        }
        members.push(("newly_added", is_new.into()));
        members.push(("source", sources().map(source).collect()));
        members.push(("tensor_order", (order as i64).into()));
        members.push(("transfer_id", list(sources().map(|(_, (id, ..))| *id))));
        members.push(("type", "ifmap".into()));
    }

    /// A block of weights in L2.
    fn staged(&self, block: &Block, index: usize, is_new: bool) -> Members {
        let size = ("size", Json::from(block.bytes));
        let source = [
            ("core_id", (-1).into()),
            size.clone(),
            ("transfer_id", block.id.into()),
            ("type", "DRAM".into()),
        ];
        let source = sorted(source.into_iter().chain(boxed(&block.area)));
        let members = [
            ("align", 8.into()),
            ("bitwidth", 8.into()),
            ("layer_name", self.weights_of(block).into()),
            ("newly_added", is_new.into()),
            size,
            ("source", [source].into_iter().collect()),
            ("tensor_id", (index as i64).into()),
            ("tensor_order", (block.order as i64).into()),
            ("transfer_id", list([block.id])),
            ("type", "weight".into()),
        ];
        members.into_iter().chain(boxed(&block.area)).collect()
    }

    fn weights_of(&self, block: &Block) -> &'r str {
        self.record.name(self.record.network.layers[block.layer].output)
    }

    /// What lies in WL0 while a workload runs, `null` for nothing. Weights from L2 are there from
    /// their first use on.
    fn weight_buffer(&self, listed: &[usize]) -> Json {
        let entry = |&index: &usize| {
            let block = &self.blocks[index];
            let address = block.wl0?;
            let mut members = vec![
                ("address", Json::from(address)),
                ("align", 8.into()),
                ("bitwidth", 8.into()),
                ("layer_name", self.weights_of(block).into()),
                ("size", block.units.into()),
                ("transfer_id", list([block.id])),
            ];
            match block.l2 {
                Some(_) => {
                    members.extend([("source", "CORE".into()), ("tensor_order", Json::Null)]);
                }
                None => {
                    let order = ("tensor_order", (block.order as i64).into());
                    members.extend([("source", "DDR".into()), order]);
                    members.extend(boxed(&block.area));
                }
            }
            Some((address, sorted(members)))
        };
        let entries: BTreeMap<i64, Json> = listed.iter().filter_map(entry).collect();
        match entries.is_empty() {
            true => Json::Null,
            false => entries.into_values().collect(),
        }
    }

    /// The cycles of a workload and its tiles.
    fn tile_info(&self, step: usize, result: &Area) -> (i64, Json) {
        let works = &self.works[step];
        let mut time = 0;
        let mut tiles = BTreeMap::new();
        for (index, work) in works.iter().enumerate() {
            let mut own = *result;
            let mut members = Vec::new();
            match work {
                Work::Conv(conv) => {
                    let tile = self.tiles(step)[index];
                    own.lower[1] = tile.first.into();
                    own.upper[1] = i64::from(tile.first + tile.channels) - 1;
                    members = self.cut(step, conv);
                    if index == 0 {
                        let fresh = |&block: &usize| {
                            let block = &self.blocks[block];
                            block.l2.is_some() && block.first_user() == step
                        };
                        let streamed = self.own_blocks[step].iter().any(fresh);
                        let count = works.len() as u64;
                        time = conv_workload_cycles(conv, count, streamed, self.arch) as i64;
                    }
                }
                Work::Vector(vector) => {
                    own.lower[0] += index as i64;
                    own.upper[0] = own.lower[0];
                    time = vector_cycles(vector, self.arch) as i64;
                    members.push(("single_tile_time_pred", cycles(time as f64)));
                }
                _ => {}
            }
            let (read, padding) = self.read(step, &own);
            if self.layer(step).inputs.len() > 1 {
                members.push(("ifmap_lower2", list(read.lower)));
                members.push(("ifmap_upper2", list(read.upper)));
            }
            members.extend([
                ("ifmap_lower", list(read.lower)),
                ("ifmap_upper", list(read.upper)),
                ("ofmap_lower", list(own.lower)),
                ("ofmap_upper", list(own.upper)),
                ("tile_padding_tblr", list(padding)),
            ]);
            // In the order of text, as keys are.
            tiles.insert(format!("tile_num_{index}"), sorted(members));
        }
        (time, tiles.iter().map(|(key, tile)| (&**key, tile.clone())).collect())
    }

    /// How a tile of a convolution is divided.
    fn cut(&self, step: usize, conv: &Conv) -> Members {
        let [rows, columns] = conv.mini_image.map(|extent| i64::from(extent) + 1);
        let [mtk0, mtc0] = conv.mini.map(i64::from);
        let reach = |axis: usize, extent: i64| {
            (extent - 1) * i64::from(conv.stride[axis]) + i64::from(conv.kernel[axis])
        };
        let y = match conv.y_cut {
            YCutMode::CUT_W => "KW",
            YCutMode::CUT_H => "KH",
            YCutMode::CUT_N => "KN",
            YCutMode::CUT_K => "KK",
            _ => "KC",
        };
        let blocks = i64::from(conv.tile[2].div_ceil(8));
        vec![
            ("act_mini_tile", list([1, blocks, reach(0, rows), reach(1, columns)])),
            ("ci_cut_num", 1.into()),
            ("cut_mode", y.into()),
            ("layer_name", self.name(step).into()),
            ("loop_order", "KNHW".into()),
            ("mtc0_mtk0", list([mtc0, mtk0])),
            ("out_mini_tile", list([1, 8 * mtk0, rows, columns])),
            ("single_tile_time_pred", cycles(tile_cycles(conv, self.arch))),
        ]
    }
}

fn cycles(cycles: f64) -> Json {
    Number::real(cycles).unwrap_or(Number::whole(0)).into()
}

fn wl0(weights: &Weights) -> Option<i64> {
    match weights.dest {
        WeightDest::Wl0(unit) => Some(unit.into()),
        WeightDest::L2(_) => None,
    }
}

fn refuse_text(why: &str) -> Diagnostic {
    refuse(why.to_owned())
}
