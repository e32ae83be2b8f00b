//! Loads from the DRAMs earlier in the stream, so that they run beside what is computed before them.
//!
//! Everything but these loads keeps its order, and so do the loads among themselves. A load may come
//! as early as nothing behind it reads or writes, before it has come, the vectors that it writes, or
//! writes those that it reads. How early it comes is up to two clocks, one of the array and one of
//! the DRAMs: a load that may come does when the DRAMs have nothing else to do. Long loads are
//! divided, and put together again where they meet. No load is put right before a product, which
//! would then start later.

use crate::arch::TcuArch;
use crate::isa::Inst;
use crate::program::{Memory, Program, Span, Step};

/// Vectors that are moved at once where a load is divided.
const PIECE: u32 = 64;

/// What the clocks count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Cycles of a vector between DRAM and local memory.
    pub(crate) dram: u64,
    /// Cycles until the results of a product are out.
    pub(crate) latency: u64,
}

/// Some vectors of a load.
struct Piece {
    inst: Inst,
    /// Instruction that it is of, and its first vector there.
    of: usize,
    first: u32,
    /// Places among what is not a load: the first at which it may be, and where it was.
    earliest: usize,
    latest: usize,
}

/// A stream in another order.
pub(crate) struct Reordered {
    /// The stream.
    pub(crate) steps: Vec<Step>,
    /// For every instruction of the old stream, and the end, where what came before it is done but
    /// for loads.
    pub(crate) places: Vec<u32>,
}

/// When vectors were last touched, counted by what is not a load.
struct Touched {
    /// Local memory, read or written.
    local: Vec<u32>,
    /// The DRAMs, written.
    drams: [Vec<u32>; 2],
}

impl Touched {
    fn new(arch: &TcuArch) -> Touched {
        Touched { local: vec![0; arch.local_depth as usize], drams: [Vec::new(), Vec::new()] }
    }

    fn memory(&mut self, memory: Memory) -> Option<&mut Vec<u32>> {
        match memory {
            Memory::Local => Some(&mut self.local),
            Memory::Dram0 => Some(&mut self.drams[0]),
            Memory::Dram1 => Some(&mut self.drams[1]),
            Memory::Acc => None,
        }
    }

    fn touch(&mut self, span: &Span, when: u32) {
        let Some(times) = self.memory(span.memory) else { return };
        let end = span.last() as usize + 1;
        if times.len() < end {
            times.resize(end, 0);
        }
        let step = 1 << span.stride;
        times[span.base as usize..end].iter_mut().step_by(step).for_each(|time| *time = when);
    }

    fn last(&mut self, span: &Span) -> u32 {
        let Some(times) = self.memory(span.memory) else { return 0 };
        let end = times.len().min(span.last() as usize + 1);
        let start = end.min(span.base as usize);
        times[start..end].iter().step_by(1 << span.stride).copied().max().unwrap_or(0)
    }
}

/// True for what loads.
pub(crate) fn is_load(inst: &Inst) -> bool {
    matches!(inst, Inst::Dram0ToLocal { .. } | Inst::Dram1ToLocal { .. })
}

/// True for what writes to a DRAM.
fn is_save(inst: &Inst) -> bool {
    matches!(inst, Inst::LocalToDram0 { .. } | Inst::LocalToDram1 { .. })
}

fn is_product(inst: &Inst) -> bool {
    matches!(inst, Inst::MatMul { .. } | Inst::MatMulZeroes { .. })
}

/// Vectors `first` to `first + count` of a load.
fn part(inst: &Inst, first: u32, count: u32) -> Inst {
    let mut inst = *inst;
    if let Inst::Dram0ToLocal { local, local_stride, address, stride, size }
    | Inst::Dram1ToLocal { local, local_stride, address, stride, size } = &mut inst
    {
        *local += first << *local_stride;
        *address += u64::from(first) << *stride;
        *size = count - 1;
    }
    inst
}

/// Loads and the rest: the numbers of the instructions that are none.
fn divide(program: &Program) -> (Vec<Piece>, Vec<u32>) {
    let arch = &program.arch;
    let mut touched = Touched::new(arch);
    let (mut pieces, mut rest) = (Vec::new(), Vec::new());
    for (index, step) in program.steps.iter().enumerate() {
        let latest = rest.len();
        if !is_load(&step.inst) {
            rest.push(index as u32);
            let effects = step.inst.effects(arch);
            let local = effects.reads.iter().filter(|span| span.memory == Memory::Local);
            local.chain(&effects.writes).for_each(|span| touched.touch(span, latest as u32 + 1));
            continue;
        }
        let count = step.inst.count() as u32;
        for first in (0..count).step_by(PIECE as usize) {
            let inst = part(&step.inst, first, PIECE.min(count - first));
            let effects = inst.effects(arch);
            let earliest = effects.spans().map(|span| touched.last(span)).max().unwrap_or(0);
            let earliest = earliest as usize;
            pieces.push(Piece { inst, of: index, first, earliest, latest });
        }
    }
    (pieces, rest)
}

/// A stream under way, and the clocks.
struct Stream {
    pace: Pace,
    steps: Vec<Step>,
    /// The instruction that the last step is of, and the vectors of it that are there.
    open: Option<(usize, u32)>,
    compute: u64,
    dram: u64,
    product_before: bool,
}

impl Stream {
    fn load(&mut self, piece: &Piece) {
        let count = piece.inst.count() as u32;
        let cycles = u64::from(count) * self.pace.dram;
        self.dram = self.dram.max(self.compute) + cycles;
        let goes_on = self.open == Some((piece.of, piece.first));
        self.open = Some((piece.of, piece.first + count));
        match self.steps.last_mut() {
            Some(Step {
                inst: Inst::Dram0ToLocal { size, .. } | Inst::Dram1ToLocal { size, .. },
                ..
            }) if goes_on => *size += count,
            _ => self.steps.push(Step { tid: 0, inst: piece.inst }),
        }
    }

    fn other(&mut self, step: Step) {
        self.open = None;
        let product = is_product(&step.inst);
        if is_save(&step.inst) {
            self.dram = self.dram.max(self.compute) + step.inst.count() * self.pace.dram;
        } else {
            let wait = if self.product_before && !product { self.pace.latency } else { 0 };
            self.compute += wait + step.inst.count();
            self.product_before = product;
        }
        self.steps.push(step);
    }
}

/// The stream with loads earlier.
pub(crate) fn prefetch(program: &Program, pace: Pace) -> Reordered {
    let (pieces, rest) = divide(program);
    let steps = Vec::with_capacity(program.steps.len());
    let mut stream = Stream { pace, steps, open: None, compute: 0, dram: 0, product_before: false };
    let mut starts: Vec<u32> = Vec::with_capacity(rest.len() + 1);
    let mut pieces = pieces.iter().peekable();
    for place in 0..=rest.len() {
        starts.push(stream.steps.len() as u32);
        while let Some(piece) = pieces.next_if(|piece| piece.latest == place) {
            stream.load(piece);
            // What follows waits for it.
            stream.compute = stream.compute.max(stream.dram);
        }
        let Some(&index) = rest.get(place) else { break };
        let step = program.steps[index as usize];
        if !is_product(&step.inst) {
            while stream.dram <= stream.compute {
                let Some(piece) = pieces.next_if(|piece| piece.earliest <= place) else { break };
                stream.load(piece);
            }
        }
        stream.other(step);
    }
    let mut places = Vec::with_capacity(program.steps.len() + 1);
    let mut place = 0;
    for step in &program.steps {
        places.push(starts[place]);
        place += usize::from(!is_load(&step.inst));
    }
    places.push(stream.steps.len() as u32);
    Reordered { steps: stream.steps, places }
}
