//! Cores that do the same on different images of a batch.
//!
//! Each has its own lines, its own images in DRAM, and the same addresses in L2 and WL0. Weights are
//! read from DRAM once: by one core into its L2, from where the others load them. A signal says that
//! they are there, another that they were loaded and the bytes are free.

use crate::arch::NpuArch;
use crate::isa::{DataFmt, Queue};
use crate::program::{Map, Program};
use crate::replay::Port;
use crate::time::{Model, hop_cycles, line_cycles};
use crate::work::{Copy, Place, Remote, WeightSource, Weights, Work, element_bytes, product};
use crate::writer::{Need, Op, Writer};
use smallvec::SmallVec;

/// The lines of all cores for one piece of work, by core; `None` for a core that has no part of it.
pub(crate) type Ops = SmallVec<[Option<Op>; 4]>;

/// Images of every core: how many, the first core having the most. They follow each other.
pub(crate) type Shares = Vec<u32>;

/// A block of weights in the L2 of one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Staged {
    /// The core.
    core: usize,
    /// The line that loads it.
    op: Op,
}

/// Programs that are being written.
pub(crate) struct Team<'a> {
    arch: &'a NpuArch,
    model: Model,
    writers: Vec<Writer<'a>>,
    shares: Shares,
    /// When the last of all DRAM operations ends, where cores share the port.
    port: u64,
    /// Blocks of weights that were staged.
    staged: usize,
}

impl<'a> Team<'a> {
    /// Empty programs.
    pub(crate) fn new(arch: &'a NpuArch, model: Model, shares: Shares) -> Team<'a> {
        let writers = shares.iter().map(|_| Writer::new(arch, model)).collect();
        Team { arch, model, writers, shares, port: 0, staged: 0 }
    }

    /// True for cores that could load weights from each other.
    pub(crate) fn is_several(&self) -> bool {
        self.writers.len() > 1
    }

    /// The latest end of an operation.
    pub(crate) fn end(&self, ops: &Ops) -> u64 {
        let ends = self.writers.iter().zip(ops);
        ends.filter_map(|(writer, op)| op.map(|op| writer.end(op))).max().unwrap_or(0)
    }

    /// Cores that have a part in an operation, with their lines and images of the batch.
    pub(crate) fn parts<'s>(
        &'s self,
        ops: &'s Ops,
        images: (u32, u32),
    ) -> impl Iterator<Item = (usize, usize, (u32, u32))> + 's {
        ops.iter().enumerate().filter_map(move |(core, op)| {
            let count = self.count(core, images);
            let first = self.first(core) + images.0;
            op.filter(|_| count > 0).map(|op| (core, self.writers[core].line(op), (first, count)))
        })
    }

    /// When the DRAM port is free.
    pub(crate) fn dram_free(&self) -> u64 {
        match self.model.port {
            Port::One => self.port,
            Port::Many => self.writers.iter().map(Writer::dram_free).max().unwrap_or(0),
        }
    }

    /// The newest operations of a queue.
    pub(crate) fn newest(&self, queue: Queue) -> Ops {
        self.writers.iter().map(|writer| writer.newest(queue)).collect()
    }

    /// The latest end of all operations.
    pub(crate) fn total(&self) -> u64 {
        self.writers.iter().map(Writer::total).max().unwrap_or(0)
    }

    /// The finished programs.
    pub(crate) fn finish(self) -> Vec<Program> {
        self.writers.into_iter().map(Writer::finish).collect()
    }

    /// First image of a core.
    fn first(&self, core: usize) -> u32 {
        self.shares[..core].iter().sum()
    }

    /// How many of the images a core has, counted from its first.
    fn count(&self, core: usize, (first, count): (u32, u32)) -> u32 {
        self.shares[core].saturating_sub(first).min(count)
    }

    /// From when on work can run on the first core, which has a part of all of it.
    pub(crate) fn start(&self, work: &Work) -> u64 {
        let from = self.port_free(work);
        self.writers[0].plan(work, Need { from, ..Need::default() }).start
    }

    fn port_free(&self, work: &Work) -> u64 {
        if self.model.port == Port::One && work.uses_dram() { self.port } else { 0 }
    }

    /// Writes work on some of a core's images for every core that has them; `cycles` in place of
    /// those of the timing model.
    pub(crate) fn write(
        &mut self,
        work: &Work,
        map: &Map,
        images: (u32, u32),
        cycles: Option<u64>,
    ) -> Ops {
        let mut ops = Ops::new();
        for core in 0..self.writers.len() {
            let own = self.own(core, work, images);
            ops.push(own.and_then(|own| self.line(core, &own, map, cycles, Need::default())));
        }
        ops
    }

    /// The part of work that a core does.
    fn own(&self, core: usize, work: &Work, images: (u32, u32)) -> Option<Work> {
        let count = self.count(core, images);
        if count == 0 && images.1 > 0 {
            return None;
        }
        let mut own = *work;
        match &mut own {
            // Constants are the same for all images.
            Work::Copy(copy) if copy.bas == 0 => {
                copy.dram += dense_bytes(copy) as u32 * self.first(core);
                copy.images = copy.images.min(count);
            }
            Work::Conv(conv) => conv.tile[0] = conv.tile[0].min(count),
            _ => {}
        }
        Some(own)
    }

    fn line(
        &mut self,
        core: usize,
        work: &Work,
        map: &Map,
        cycles: Option<u64>,
        need: Need,
    ) -> Option<Op> {
        let from = need.from.max(self.port_free(work));
        let cycles = cycles.unwrap_or_else(|| line_cycles(work, self.arch, self.model));
        let cycles = cycles + hop_cycles(core, work, self.arch, self.model);
        let op = self.writers[core].write(work, map, cycles, Need { from, ..need });
        if work.uses_dram() {
            self.port = self.port.max(op.map_or(0, |op| self.writers[core].end(op)));
        }
        op
    }

    /// Loads weights into the L2 of one of the cores that have some of the images.
    pub(crate) fn stage(&mut self, work: &Work, map: &Map, images: (u32, u32)) -> Option<Staged> {
        let users = (0..self.writers.len()).filter(|&core| self.count(core, images) > 0).count();
        let core = self.staged % users.max(1);
        self.staged += 1;
        let op = self.line(core, work, map, None, Need::default())?;
        Some(Staged { core, op })
    }

    /// Moves staged weights to the WL0 of every core that has some of the images.
    pub(crate) fn fetch(
        &mut self,
        staged: Staged,
        weights: &Weights,
        map: &Map,
        images: (u32, u32),
    ) {
        self.line(staged.core, &Work::Weights(*weights), map, None, Need::default());
        let WeightSource::L2(place) = weights.source else { return };
        let address = place.address.max(0) as u64;
        let bytes = (address, address + weights.dense_bytes(weights.source_row));
        for core in 0..self.writers.len() {
            if core == staged.core || self.count(core, images) == 0 {
                continue;
            }
            let source = WeightSource::Remote { core: staged.core as u8, address: address as u32 };
            let remote = Work::Weights(Weights { source, ..*weights });
            let here = self.signal((staged.core, core), Some(staged.op), None, map);
            let need = Need { after: here, ..Need::default() };
            let loaded = self.line(core, &remote, map, None, need);
            self.signal((core, staged.core), loaded, Some(bytes), map);
        }
    }

    /// A signal from a core to another when an operation has ended. The line that takes it stands for
    /// a reader of the bytes.
    fn signal(
        &mut self,
        (from, to): (usize, usize),
        after: Option<Op>,
        reads: Option<(u64, u64)>,
        map: &Map,
    ) -> Option<Op> {
        let says = signal(false, to);
        let said = self.line(from, &says, map, None, Need { after, ..Need::default() })?;
        let need = Need { from: self.writers[from].end(said), reads, ..Need::default() };
        self.line(to, &signal(true, from), map, None, need)
    }
}

/// Bytes of an image in DRAM.
fn dense_bytes(copy: &Copy) -> u64 {
    product(copy.dram_tensor.map(u64::from)) * u64::from(element_bytes(copy.format))
}

/// A line that moves nothing, and waits for a signal of another core or gives one.
fn signal(receive: bool, core: usize) -> Work {
    let place = Place { region: 0, address: 0 };
    Work::Remote(Remote {
        receive,
        core: core as u8,
        waits: receive,
        signals: !receive,
        format: DataFmt::INT8,
        tensors: [[1, 1, 1]; 2],
        places: [place; 2],
        images: 0,
        tile: [1, 1, 1],
    })
}
