//! A program in memory, and what its instructions touch.
//!
//! Invariants that readers establish: a thread number is below the machine's number of threads, and
//! every instruction can be encoded for the machine. Everything else is for
//! [`verify`](crate::verify) to judge.

#![deny(clippy::wildcard_enum_match_arm)]

pub(crate) mod layers;

use crate::arch::TcuArch;
use crate::isa::{Access, Compute, Inst, Register, SimdOp};
use smallvec::SmallVec;

/// One instruction of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// Thread, 0 in a machine with one.
    pub tid: u8,
    /// Instruction.
    pub inst: Inst,
}

/// A program for one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The machine.
    pub arch: TcuArch,
    /// The stream of instructions, threads mixed.
    pub steps: Vec<Step>,
}

/// A memory of the machine. Addresses count vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// DRAM bank 0.
    Dram0,
    /// DRAM bank 1.
    Dram1,
    /// Local memory.
    Local,
    /// Accumulators.
    Acc,
}

impl Memory {
    /// Name in assembly text.
    pub fn name(self) -> &'static str {
        match self {
            Memory::Dram0 => "DRAM0",
            Memory::Dram1 => "DRAM1",
            Memory::Local => "Local",
            Memory::Acc => "Acc",
        }
    }

    /// Vectors it has.
    pub fn depth(self, arch: &TcuArch) -> u64 {
        match self {
            Memory::Dram0 => arch.dram0_depth,
            Memory::Dram1 => arch.dram1_depth,
            Memory::Local => arch.local_depth,
            Memory::Acc => arch.accumulator_depth,
        }
    }
}

/// Vectors `base`, `base + 2^stride`, and so on, `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Memory.
    pub memory: Memory,
    /// Address of the first vector.
    pub base: u64,
    /// Logarithm of the step from one vector to the next; at most 31.
    pub stride: u32,
    /// Number of vectors, at least 1.
    pub count: u64,
}

impl Span {
    /// One vector.
    pub fn one(memory: Memory, base: u64) -> Span {
        Span { memory, base, stride: 0, count: 1 }
    }

    /// Address of vector `index`.
    pub fn at(&self, index: u64) -> u64 {
        self.base.saturating_add(index.saturating_mul(1 << self.stride.min(63)))
    }

    /// Address of the last vector.
    pub fn last(&self) -> u64 {
        self.at(self.count.saturating_sub(1))
    }

    /// True if both name a vector in common.
    pub fn meets(&self, other: &Span) -> bool {
        let (low, high) = (self.base.max(other.base), self.last().min(other.last()));
        if self.memory != other.memory || low > high {
            return false;
        }
        let coarse = self.stride.max(other.stride).min(63);
        let fine = self.stride.min(other.stride).min(63);
        // A span of one vector has no step.
        if self.count == 1 || other.count == 1 {
            let (single, many) = if self.count == 1 { (self, other) } else { (other, self) };
            let offset = single.base.wrapping_sub(many.base);
            return offset.is_multiple_of(1 << many.stride.min(63)) || many.count == 1;
        }
        let sparse = if self.stride >= other.stride { self } else { other };
        let dense = if self.stride >= other.stride { other } else { self };
        if !sparse.base.abs_diff(dense.base).is_multiple_of(1 << fine) {
            return false;
        }
        // The first vector of the sparse span that is not below the common range.
        let step = 1_u64 << coarse;
        let offset = low.saturating_sub(sparse.base).checked_next_multiple_of(step);
        let first = offset.and_then(|offset| sparse.base.checked_add(offset));
        first.is_some_and(|first| first <= high)
    }
}

/// State of the machine besides its memories that instructions of two threads share.
pub mod state {
    /// The weights in the array.
    pub const WEIGHTS: u32 = 1;
    /// The last vector that the array gave.
    pub const ARRAY: u32 = 2;
    /// The lookup tables.
    pub const TABLES: u32 = 4;
    /// The configuration registers.
    pub const CONFIGURATION: u32 = 8;

    /// SIMD register `number`, 1 to 17; a lookup may name registers that do not exist.
    pub fn register(number: u32) -> u32 {
        1 << number.min(17).saturating_add(7)
    }
}

/// What an instruction reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Vectors that are read.
    pub reads: SmallVec<[Span; 2]>,
    /// Vectors that are written; what is added to is read as well.
    pub writes: SmallVec<[Span; 2]>,
    /// Other state that is read, as bits of [`state`].
    pub state_reads: u32,
    /// Other state that is written.
    pub state_writes: u32,
}

impl Effects {
    /// Every vector that is read or written; what is added to comes twice.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        self.reads.iter().chain(&self.writes)
    }

    fn write(&mut self, span: Span, accumulate: bool) {
        self.writes.push(span);
        if accumulate {
            self.reads.push(span);
        }
    }
}

/// A DataMove in detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Vectors in local memory.
    pub local: Span,
    /// Vectors in the other memory.
    pub other: Span,
    /// From the other memory to local memory.
    pub to_local: bool,
    /// Added to what is there.
    pub accumulate: bool,
}

/// What an instruction does, in terms that several instructions share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing, or waiting for a thread.
    Wait,
    /// Products of vectors of local memory, or of zeros, with the weights.
    Product {
        /// Vectors in local memory.
        local: Option<Span>,
        /// Accumulators that receive the results.
        acc: Span,
        /// Added to what is there.
        accumulate: bool,
    },
    /// A DataMove.
    Move(Transfer),
    /// Vectors of local memory, or zeros, pushed into the weights.
    Push {
        /// Vectors in local memory.
        local: Option<Span>,
        /// How many.
        count: u64,
    },
    /// An operation of the ALUs, as [`Inst::Simd`].
    Simd {
        /// Which of the accumulators are used.
        access: Access,
        /// Accumulator that is written.
        write: u64,
        /// Accumulator that is read.
        read: u64,
        /// Register that receives the result as well.
        destination: u8,
        /// Operation and its sources.
        compute: Compute,
    },
    /// A lookup table from local memory, as many vectors as it has entries.
    Table {
        /// First vector in local memory.
        local: u64,
        /// Logarithm of the step from one vector to the next.
        stride: u32,
        /// Number of the table.
        table: u64,
    },
    /// A configuration register.
    Configure {
        /// The register.
        register: Register,
        /// Its new value.
        value: u64,
    },
}

impl Inst {
    /// What it does.
    pub fn action(&self) -> Action {
        let moved = |memory, to_local, accumulate, local, local_stride, address, stride, size| {
            let local = local_span(local, local_stride, size);
            let other = span(memory, address, stride, size);
            Action::Move(Transfer { local, other, to_local, accumulate })
        };
        match *self {
            Inst::NoOp { .. } => Action::Wait,
            Inst::MatMul { accumulate, local, local_stride, acc, acc_stride, size } => {
                let local = Some(local_span(local, local_stride, size));
                Action::Product { local, acc: span(Memory::Acc, acc, acc_stride, size), accumulate }
            }
            Inst::MatMulZeroes { accumulate, acc, acc_stride, size } => {
                let acc = span(Memory::Acc, acc, acc_stride, size);
                Action::Product { local: None, acc, accumulate }
            }
            Inst::Dram0ToLocal { local, local_stride, address, stride, size } => {
                moved(Memory::Dram0, true, false, local, local_stride, address, stride, size)
            }
            Inst::LocalToDram0 { local, local_stride, address, stride, size } => {
                moved(Memory::Dram0, false, false, local, local_stride, address, stride, size)
            }
            Inst::Dram1ToLocal { local, local_stride, address, stride, size } => {
                moved(Memory::Dram1, true, false, local, local_stride, address, stride, size)
            }
            Inst::LocalToDram1 { local, local_stride, address, stride, size } => {
                moved(Memory::Dram1, false, false, local, local_stride, address, stride, size)
            }
            Inst::AccToLocal { local, local_stride, address, stride, size } => {
                moved(Memory::Acc, true, false, local, local_stride, address, stride, size)
            }
            Inst::LocalToAcc { local, local_stride, address, stride, size } => {
                moved(Memory::Acc, false, false, local, local_stride, address, stride, size)
            }
            Inst::LocalAddToAcc { local, local_stride, address, stride, size } => {
                moved(Memory::Acc, false, true, local, local_stride, address, stride, size)
            }
            Inst::LoadWeights { local, stride, size } => {
                let local = local_span(local, stride, size);
                Action::Push { local: Some(local), count: local.count }
            }
            Inst::LoadWeightsZeroes { size } => {
                Action::Push { local: None, count: u64::from(size) + 1 }
            }
            Inst::Simd { access, write, read, destination, compute } => {
                Action::Simd { access, write: write.into(), read, destination, compute }
            }
            Inst::LoadLut { local, stride, table } => {
                Action::Table { local: local.into(), stride, table }
            }
            Inst::Configure { register, value } => Action::Configure { register, value },
        }
    }

    /// Vectors that a MatMul, DataMove or LoadWeights handles; 1 for other instructions.
    pub fn count(&self) -> u64 {
        match self.action() {
            Action::Product { acc, .. } => acc.count,
            Action::Move(transfer) => transfer.local.count,
            Action::Push { count, .. } => count,
            Action::Wait | Action::Simd { .. } | Action::Table { .. } => 1,
            Action::Configure { .. } => 1,
        }
    }

    /// The strides of operands 0 and 1.
    pub(crate) fn strides(&self) -> [Option<u32>; 2] {
        match self.action() {
            Action::Product { local, acc, .. } => [local.map(|s| s.stride), Some(acc.stride)],
            Action::Move(transfer) => [Some(transfer.local.stride), Some(transfer.other.stride)],
            Action::Push { local, .. } => [local.map(|s| s.stride), None],
            Action::Table { stride, .. } => [Some(stride), None],
            Action::Wait | Action::Simd { .. } | Action::Configure { .. } => [None, None],
        }
    }

    /// What a DataMove moves; `None` for other instructions.
    pub fn transfer(&self) -> Option<Transfer> {
        if let Action::Move(transfer) = self.action() { Some(transfer) } else { None }
    }

    /// What it reads and writes on a machine.
    pub fn effects(&self, arch: &TcuArch) -> Effects {
        let mut effects = Effects::default();
        match self.action() {
            Action::Wait => {}
            Action::Product { local, acc, accumulate } => {
                effects.reads.extend(local);
                effects.write(acc, accumulate);
                effects.state_reads = state::WEIGHTS;
                effects.state_writes = state::ARRAY;
            }
            Action::Move(transfer) => transfer_effects(&transfer, &mut effects),
            Action::Push { local, .. } => {
                effects.reads.extend(local);
                // Pushing moves on what is there.
                effects.state_reads = state::WEIGHTS;
                effects.state_writes = state::WEIGHTS;
            }
            Action::Simd { .. } => self.simd_effects(arch, &mut effects),
            Action::Table { local, stride, .. } => {
                let count = u64::from(arch.lookup_table_depth.unwrap_or(1));
                effects.reads.push(Span { memory: Memory::Local, base: local, stride, count });
                effects.state_writes = state::TABLES;
            }
            Action::Configure { .. } => effects.state_writes = state::CONFIGURATION,
        }
        effects
    }

    fn simd_effects(&self, arch: &TcuArch, effects: &mut Effects) {
        let Inst::Simd { access, write, read, destination, compute } = *self else { return };
        if access.reads() {
            effects.reads.push(Span::one(Memory::Acc, read));
        }
        if access.writes() {
            effects.write(Span::one(Memory::Acc, write.into()), access.accumulates());
            if compute.op == SimdOp::NoOp && !access.reads() {
                effects.state_reads |= state::ARRAY;
            }
        }
        for source in [compute.left, compute.right].into_iter().take(compute.op.arity()) {
            if source > 0 {
                effects.state_reads |= state::register(source.into());
            }
        }
        for register in written_registers(arch, compute.op, destination) {
            effects.state_writes |= state::register(register);
        }
        if compute.op == SimdOp::Lookup {
            effects.state_reads |= state::TABLES;
        }
    }
}

/// The registers that a SIMD operation writes: the destination unless it is the output only, and
/// for a lookup those behind it, one for each table.
pub fn written_registers(
    arch: &TcuArch,
    op: SimdOp,
    destination: u8,
) -> impl Iterator<Item = u32> + use<> {
    let first = u32::from(destination);
    let tables = if op == SimdOp::Lookup { arch.lookup_tables.unwrap_or(0) } else { 0 };
    let last = first.saturating_add(tables);
    (first..=last).filter(move |&register| register > 0 && op != SimdOp::NoOp)
}

fn span(memory: Memory, base: u64, stride: u32, size: u32) -> Span {
    Span { memory, base, stride, count: u64::from(size) + 1 }
}

fn local_span(base: u32, stride: u32, size: u32) -> Span {
    span(Memory::Local, base.into(), stride, size)
}

fn transfer_effects(transfer: &Transfer, effects: &mut Effects) {
    let (from, to) = match transfer.to_local {
        true => (transfer.other, transfer.local),
        false => (transfer.local, transfer.other),
    };
    effects.reads.push(from);
    effects.write(to, transfer.accumulate);
    match transfer.other.memory {
        Memory::Dram0 | Memory::Dram1 => effects.state_reads |= state::CONFIGURATION,
        Memory::Local | Memory::Acc => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spans meet exactly where enumerating them finds a common vector.
    #[test]
    fn spans_meet_as_sets_do() {
        let memory = Memory::Local;
        let spans: Vec<Span> = (0..9)
            .flat_map(|base| (0..4).flat_map(move |stride| (1..5).map(move |c| (base, stride, c))))
            .map(|(base, stride, count)| Span { memory, base, stride, count })
            .collect();
        let set = |span: &Span| (0..span.count).map(|i| span.at(i)).collect::<Vec<_>>();
        for a in &spans {
            let of_a = set(a);
            for b in &spans {
                let common = set(b).iter().any(|address| of_a.contains(address));
                assert_eq!(a.meets(b), common, "{a:?} {b:?}");
            }
        }
        let other = Span { memory: Memory::Acc, ..spans[0] };
        assert!(!spans[0].meets(&other));
    }
}
