//! From instructions to a prepared program.
//!
//! No address depends on data, and DRAM offsets are constants of `Configure`. So everything an
//! instruction touches is known before the first run: it is checked here, and the pages of DRAM
//! that are used are laid side by side behind the other memories.

#![deny(clippy::wildcard_enum_match_arm)]

use super::op::{Layout, Op, Placed, Run, Write};
use super::pages::{Pages, Touched};
use crate::arch::{DataType, TcuArch};
use crate::isa::{Access, Compute, Inst, Register, SimdOp};
use crate::program::{Action, Memory, Span, Step, Transfer, written_registers};

/// Most cells of a machine.
const MAX_CELLS: usize = 1 << 28;

/// A prepared program and its machine.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) program: Vec<Placed>,
    /// Operations of the steps that are not counted.
    pub(super) prologue: usize,
    pub(super) layout: Layout,
    pub(super) pages: [Pages; 2],
    /// The program writes to DRAM1.
    pub(super) changes_constants: bool,
}

/// Prepares steps, of which the first `prologue` are not counted, and what the host touches.
/// `None` for a program that only the executor can run: one that fails, raises a tracepoint, or
/// spreads over too much DRAM.
pub(super) fn prepare(
    arch: &TcuArch,
    steps: &[Step],
    prologue: usize,
    host: &[(Span, u32)],
) -> Option<Prepared> {
    let mut touched = Touched::default();
    for &(span, offset) in host {
        if span.count > 0 {
            check(arch, &span)?;
            touch(arch, &mut touched, &span, offset)?;
        }
    }
    let mut changes_constants = false;
    let mut host_side = Configuration::new();
    for step in steps {
        check_step(arch, &step.inst)?;
        if let Some(transfer) = step.inst.transfer() {
            let offset = host_side.offset(transfer.other.memory);
            touch(arch, &mut touched, &transfer.other, offset)?;
            changes_constants |= transfer.other.memory == Memory::Dram1 && !transfer.to_local;
        }
        host_side.step(&step.inst)?;
    }
    let layout = layout(arch, &touched)?;
    let pages = touched.finish(layout.drams);
    let mut builder = Builder {
        arch,
        layout: &layout,
        pages: &pages,
        configuration: Configuration::new(),
        fresh: true,
        at: 0,
        program: Vec::new(),
    };
    let mut operations = 0;
    for (index, step) in steps.iter().enumerate() {
        if index == prologue {
            operations = builder.program.len();
        }
        builder.at = index.saturating_sub(prologue) as u32;
        builder.step(&step.inst)?;
    }
    let program = builder.program;
    Some(Prepared { program, prologue: operations, layout, pages, changes_constants })
}

/// Registers that decide what a program touches.
struct Configuration {
    offsets: [u32; 2],
    tracepoint: u32,
    counter: u32,
}

impl Configuration {
    fn new() -> Configuration {
        let default = Register::default_value;
        Configuration {
            offsets: [default(Register::Dram0Offset), default(Register::Dram1Offset)],
            tracepoint: default(Register::Tracepoint),
            counter: default(Register::ProgramCounter),
        }
    }

    fn offset(&self, memory: Memory) -> u32 {
        match memory {
            Memory::Dram0 => self.offsets[0],
            Memory::Dram1 => self.offsets[1],
            Memory::Local | Memory::Acc => 0,
        }
    }

    /// `None` when the tracepoint is reached, of which the executor takes notice.
    fn step(&mut self, inst: &Inst) -> Option<()> {
        let mut counter = self.counter.wrapping_add(1);
        if let Inst::Configure { register, value } = *inst {
            // All of these have 32 bits.
            let value = value as u32;
            #[expect(clippy::wildcard_enum_match_arm, reason = "the others decide no address")]
            match register {
                Register::Dram0Offset => self.offsets[0] = value,
                Register::Dram1Offset => self.offsets[1] = value,
                Register::Tracepoint => self.tracepoint = value,
                Register::ProgramCounter => counter = value,
                _ => {}
            }
        }
        self.counter = counter;
        (counter != self.tracepoint).then_some(())
    }
}

/// The physical address of a vector.
pub(super) fn physical(arch: &TcuArch, address: u64, offset: u32) -> u64 {
    let block = (1_u64 << 16) / arch.data_type.bytes() as u64;
    u64::from(offset) * block + address * arch.lanes() as u64
}

fn check(arch: &TcuArch, span: &Span) -> Option<()> {
    (span.last() < span.memory.depth(arch)).then_some(())
}

/// Everything that the instruction names exists.
fn check_step(arch: &TcuArch, inst: &Inst) -> Option<()> {
    let effects = inst.effects(arch);
    effects.spans().try_for_each(|span| check(arch, span))?;
    match inst.action() {
        Action::Table { table, .. } => {
            let tables = arch.lookup_tables?;
            (table <= u64::from(tables)).then_some(())
        }
        Action::Simd { destination, compute, .. } => {
            let Compute { op, left, right } = compute;
            let sources = [left, right].into_iter().take(op.arity()).max().unwrap_or(0);
            if op == SimdOp::Lookup && arch.lookup_tables.is_none() {
                return None;
            }
            let last = written_registers(arch, op, destination).last().unwrap_or(0);
            (last.max(sources.into()) <= arch.simd_registers_depth).then_some(())
        }
        Action::Wait | Action::Product { .. } | Action::Move(_) => Some(()),
        Action::Push { .. } | Action::Configure { .. } => Some(()),
    }
}

/// Notes the pages of vectors.
fn touch(arch: &TcuArch, touched: &mut Touched, span: &Span, offset: u32) -> Option<()> {
    let bank = match span.memory {
        Memory::Dram0 => 0,
        Memory::Dram1 => 1,
        Memory::Local | Memory::Acc => return Some(()),
    };
    let lanes = arch.lanes() as u64;
    if span.stride == 0 {
        return touched.add(bank, physical(arch, span.base, offset), span.count * lanes);
    }
    (0..span.count).try_for_each(|i| touched.add(bank, physical(arch, span.at(i), offset), lanes))
}

fn layout(arch: &TcuArch, touched: &Touched) -> Option<Layout> {
    let lanes = arch.lanes();
    let table_count = arch.lookup_tables.map_or(0, |tables| tables as usize + 1);
    let entries = arch.lookup_table_depth.unwrap_or(0) as usize;
    let mut end = 0;
    let mut place = |cells: usize| {
        end += cells;
        end - cells
    };
    let acc = place(arch.accumulator_depth as usize * lanes);
    debug_assert_eq!(acc, 0);
    let layout = Layout {
        lanes,
        local: place(arch.local_depth as usize * lanes),
        registers: place(arch.simd_registers_depth as usize * lanes),
        weights: place((lanes + 1) * lanes),
        array: place(lanes),
        zero: place(lanes),
        nowhere: place(lanes),
        tables: place(table_count * entries * lanes),
        table_count,
        entries,
        drams: [place(touched.size(0)), place(touched.size(1))],
        end: place(0),
    };
    (layout.end <= MAX_CELLS).then_some(layout)
}

struct Builder<'a> {
    arch: &'a TcuArch,
    layout: &'a Layout,
    pages: &'a [Pages; 2],
    configuration: Configuration,
    /// The weights changed after the last product.
    fresh: bool,
    /// Index of the instruction.
    at: u32,
    program: Vec<Placed>,
}

impl Builder<'_> {
    fn push(&mut self, op: Op) {
        self.program.push(Placed { op, instruction: self.at });
    }

    /// Vectors of local memory or accumulators.
    fn run(&self, span: &Span) -> Run {
        let first = if span.memory == Memory::Local { self.layout.local } else { 0 };
        let lanes = self.layout.lanes;
        // The only vector may have any step.
        let step = if span.count > 1 { lanes << span.stride } else { lanes };
        Run { base: (first + span.base as usize * lanes) as u32, step: step as u32 }
    }

    /// Vectors that follow one another.
    fn dense(&self, base: usize) -> Run {
        Run { base: base as u32, step: self.layout.lanes as u32 }
    }

    fn step(&mut self, inst: &Inst) -> Option<()> {
        match inst.action() {
            Action::Wait | Action::Configure { .. } => {}
            Action::Product { local: Some(local), acc, accumulate: add } => {
                let (from, to) = (self.run(&local), self.run(&acc));
                let count = acc.count as u32;
                let fresh = std::mem::take(&mut self.fresh);
                self.push(Op::Products { from, to, count, add, fresh });
            }
            Action::Product { local: None, acc, accumulate } => {
                self.bias(self.run(&acc), acc.count as u32, accumulate);
            }
            Action::Move(transfer) => self.transfer(&transfer)?,
            Action::Push { local, count } => self.load_weights(local, count),
            Action::Simd { access, write, read, destination, compute } => {
                self.simd(access, write, read, destination, compute);
            }
            Action::Table { local, stride, table } => {
                let count = self.layout.entries as u32;
                let entries =
                    Span { memory: Memory::Local, base: local, stride, count: count.into() };
                let from = self.run(&entries);
                let size = self.layout.entries * self.layout.lanes;
                let to = self.dense(self.layout.tables + table as usize * size);
                self.push(Op::Move { from, to, count, add: false });
            }
        }
        self.configuration.step(inst)
    }

    /// The weights times zeros: the bias. Not so with floats, where 0 times infinity is not a
    /// number.
    fn bias(&mut self, to: Run, count: u32, add: bool) {
        let Layout { zero, weights, array, .. } = *self.layout;
        if self.arch.data_type == DataType::Float32 {
            let from = Run { base: zero as u32, step: 0 };
            let fresh = std::mem::take(&mut self.fresh);
            self.push(Op::Products { from, to, count, add, fresh });
            return;
        }
        let (from, array) = (self.dense(weights), self.dense(array));
        self.push(Op::Move { from, to: array, count: 1, add: false });
        let from = Run { step: 0, ..array };
        self.push(Op::Move { from, to, count, add });
    }

    /// Moves on what is in the array, and pushes vectors of local memory or zeros.
    fn load_weights(&mut self, local: Option<Span>, count: u64) {
        self.fresh = true;
        let rows = self.layout.lanes as u32 + 1;
        // The vector at the lowest address is pushed last: behind the rows are the first ones.
        let count = count.min(rows.into()) as u32;
        if count < rows {
            self.push(Op::Shift { rows: count });
        }
        let to = self.dense(self.layout.weights);
        match local {
            Some(span) => {
                let from = self.run(&Span { count: count.into(), ..span });
                self.push(Op::Move { from, to, count, add: false });
            }
            None => self.push(Op::Zero { to: to.base, count }),
        }
    }

    fn register(&self, number: u8) -> u32 {
        (self.layout.registers + (usize::from(number) - 1) * self.layout.lanes) as u32
    }

    fn simd(&mut self, access: Access, write: u64, read: u64, destination: u8, compute: Compute) {
        let Layout { zero, array, nowhere, .. } = *self.layout;
        let acc = |address| self.run(&Span::one(Memory::Acc, address)).base;
        let input = if access.reads() { acc(read) } else { zero as u32 };
        let source = |number: u8| if number == 0 { input } else { self.register(number) };
        let Compute { op, left, right } = compute;
        let (op, left, right, destination) = match (op == SimdOp::NoOp, op.arity()) {
            (true, _) if access.reads() => (SimdOp::Move, input, input, 0),
            (true, _) => (SimdOp::Move, array as u32, array as u32, 0),
            (false, 0) => (op, input, input, destination),
            (false, 1) => (op, source(left), source(left), destination),
            (false, _) => (op, source(left), source(right), destination),
        };
        let write = if access.writes() { acc(write) } else { nowhere as u32 };
        let mut mode = match (access.writes(), access.accumulates()) {
            (false, _) => Write::Nothing,
            (true, false) => Write::Copy,
            (true, true) => Write::Add,
        };
        let result = match (destination, mode) {
            (0, Write::Copy) => {
                mode = Write::Nothing;
                write
            }
            (0, _) => nowhere as u32,
            _ => self.register(destination),
        };
        if op == SimdOp::Lookup {
            let registers = self.register(destination + 1);
            self.push(Op::Lookup { source: left, result, registers, write, mode });
        } else {
            self.push(Op::Simd { op, left, right, result, write, mode });
        }
    }

    fn transfer(&mut self, transfer: &Transfer) -> Option<()> {
        let Transfer { local, other, to_local, accumulate } = *transfer;
        let count = local.count as u32;
        let here = self.run(&local);
        let bank = match other.memory {
            Memory::Dram0 => &self.pages[0],
            Memory::Dram1 => &self.pages[1],
            Memory::Local | Memory::Acc => {
                self.moves(here, self.run(&other), count, to_local, accumulate);
                return Some(());
            }
        };
        let offset = self.configuration.offset(other.memory);
        let cell = |i| bank.cell(physical(self.arch, other.at(i), offset));
        let (first, last) = (cell(0)?, cell(other.count - 1)?);
        let step = self.layout.lanes as u32;
        let wanted = (other.at(other.count - 1) - other.base) * self.layout.lanes as u64;
        if (last - first) as u64 == wanted {
            // No page is missing in between.
            let step = if count > 1 { wanted / u64::from(count - 1) } else { step.into() };
            let there = Run { base: first as u32, step: step as u32 };
            self.moves(here, there, count, to_local, accumulate);
            return Some(());
        }
        for i in 0..other.count {
            let there = Run { base: cell(i)? as u32, step };
            let here = Run { base: here.base + i as u32 * here.step, ..here };
            self.moves(here, there, 1, to_local, accumulate);
        }
        Some(())
    }

    fn moves(&mut self, local: Run, other: Run, count: u32, to_local: bool, add: bool) {
        let (from, to) = if to_local { (other, local) } else { (local, other) };
        self.push(Op::Move { from, to, count, add });
    }
}
