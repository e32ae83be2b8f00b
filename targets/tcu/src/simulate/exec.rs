//! What every instruction does (`tensil`, and `tensil-doc` 3.4 for lookups;
//! `docs/bibliography.md`).

#![deny(clippy::wildcard_enum_match_arm)]

use super::state::out_of_memory;
use super::{Arithmetic, Flow, State, with_arithmetic};
use crate::arch::TcuArch;
use crate::isa::{Inst, Register};
use crate::program::{Action, Memory, Span, Step, Transfer};
use quincunx_diag::{Diagnostic, Place, Result};

/// Notices of each kind that are kept.
const MAX_NOTICES: usize = 100;

/// Vectors to look at while a program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Name in notices.
    pub name: String,
    /// The vectors.
    pub span: Span,
}

/// Something that happened besides computing.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// The program counter reached the tracepoint register.
    Tracepoint {
        /// The instruction after which it did.
        instruction: usize,
        /// Program counter.
        counter: u32,
    },
    /// An instruction wrote to a watched vector.
    Written {
        /// Instruction.
        instruction: usize,
        /// Name of the watch.
        name: String,
        /// Address of the vector.
        address: u64,
        /// Its new contents as real numbers.
        values: Vec<f64>,
    },
}

/// Executes instructions in the order of the stream.
#[derive(Clone, Debug)]
pub struct Executor {
    /// What the machine holds.
    pub state: State,
    /// A result that saturates is a fault.
    pub strict: bool,
    watches: Vec<Watch>,
    next: usize,
    /// Instructions whose results saturated, and how often.
    flows: Vec<(usize, Flow)>,
    notices: Vec<Notice>,
    pub(super) input: Vec<i32>,
    pub(super) result: Vec<i32>,
}

impl Executor {
    /// A machine at its start.
    pub fn new(arch: &TcuArch) -> Executor {
        Executor {
            state: State::new(arch),
            strict: false,
            watches: Vec::new(),
            next: 0,
            flows: Vec::new(),
            notices: Vec::new(),
            input: vec![0; arch.lanes()],
            result: vec![0; arch.lanes()],
        }
    }

    /// Counts instructions from 0 again, for messages; what was noticed so far was noticed before
    /// the first one.
    pub fn restart_count(&mut self) {
        self.next = 0;
        for notice in &mut self.notices {
            match notice {
                Notice::Tracepoint { instruction, .. } | Notice::Written { instruction, .. } => {
                    *instruction = 0;
                }
            }
        }
    }

    /// Back to the start; watches stay.
    pub fn reset(&mut self) {
        self.state.reset();
        self.next = 0;
        self.flows.clear();
        self.notices.clear();
    }

    /// Looks at vectors from now on.
    pub fn watch(&mut self, watches: Vec<Watch>) {
        self.watches = watches;
    }

    /// Instructions whose results saturated, in order, and how often.
    pub fn saturations(&self) -> &[(usize, Flow)] {
        &self.flows
    }

    /// What was noticed since the start.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Executes a program.
    ///
    /// # Errors
    /// As [`Executor::step`].
    pub fn run(&mut self, steps: &[Step]) -> Result<()> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    /// Executes one instruction.
    ///
    /// # Errors
    /// `Q3060` to `Q3064` at the instruction: memory, register or table that is not there,
    /// saturation when strict, too much DRAM.
    pub fn step(&mut self, step: &Step) -> Result<()> {
        let index = self.next;
        self.next += 1;
        let mut flow = Flow::default();
        let done = with_arithmetic!(self.state.arch.data_type, A => self.execute::<A>(&step.inst, &mut flow));
        done.map_err(|problem| problem.at(Place::Instruction(index)))?;
        if !flow.is_zero() {
            self.saturated(index, flow)?;
        }
        if !self.watches.is_empty() {
            self.look(step, index)?;
        }
        self.count(step, index);
        Ok(())
    }

    fn saturated(&mut self, index: usize, flow: Flow) -> Result<()> {
        if self.strict {
            let Flow { over, under } = flow;
            let message =
                format!("{over} results are too high and {under} too low for their format");
            return Err(Diagnostic::answer("Q3063", message).at(Place::Instruction(index)));
        }
        self.flows.push((index, flow));
        Ok(())
    }

    /// Every instruction adds 1 to the program counter, unless it sets it.
    fn count(&mut self, step: &Step, index: usize) {
        let counter = self.state.configuration(Register::ProgramCounter);
        let sets = matches!(step.inst, Inst::Configure { register: Register::ProgramCounter, .. });
        let counter = if sets { counter } else { counter.wrapping_add(1) };
        self.state.configure(Register::ProgramCounter, counter.into());
        if counter == self.state.configuration(Register::Tracepoint) {
            self.notice(Notice::Tracepoint { instruction: index, counter });
        }
    }

    fn notice(&mut self, notice: Notice) {
        if self.notices.len() < MAX_NOTICES {
            self.notices.push(notice);
        }
    }

    /// Notes what the instruction wrote to watched vectors.
    fn look(&mut self, step: &Step, index: usize) -> Result<()> {
        let writes = step.inst.effects(&self.state.arch).writes;
        for watch in self.watches.clone() {
            for span in writes.iter().filter(|span| span.meets(&watch.span)) {
                for address in (0..span.count).map(|i| span.at(i)) {
                    if !watch.span.meets(&Span::one(span.memory, address)) {
                        continue;
                    }
                    if self.notices.len() >= MAX_NOTICES {
                        return Ok(());
                    }
                    let mut vector = vec![0; self.state.arch.lanes()];
                    self.state.read(span.memory, address, &mut vector)?;
                    let data_type = self.state.arch.data_type;
                    let values = vector.iter().map(|&scalar| data_type.decode(scalar)).collect();
                    let name = watch.name.clone();
                    self.notice(Notice::Written { instruction: index, name, address, values });
                }
            }
        }
        Ok(())
    }

    fn execute<A: Arithmetic>(&mut self, inst: &Inst, flow: &mut Flow) -> Result<()> {
        for span in inst.effects(&self.state.arch).spans() {
            self.check(span)?;
        }
        match inst.action() {
            Action::Wait => {}
            Action::Product { local, acc, accumulate } => {
                for i in 0..acc.count {
                    self.product::<A>(local.map(|span| span.at(i)), acc.at(i), accumulate, flow);
                }
            }
            Action::Move(transfer) => self.transfer::<A>(&transfer, flow)?,
            Action::Push { local, count } => {
                // More rows than the array has push the first ones out again.
                for i in (0..count).rev() {
                    match local {
                        Some(span) => self.state.push_local(span.at(i)),
                        None => self.state.push_weights().fill(0),
                    }
                }
            }
            Action::Simd { access, write, read, destination, compute } => {
                self.simd::<A>(access, write, read, destination, compute, flow)?;
            }
            Action::Table { local, stride, table } => self.load_table(local, stride, table)?,
            Action::Configure { register, value } => self.state.configure(register, value),
        }
        Ok(())
    }

    fn check(&self, span: &Span) -> Result<()> {
        let depth = span.memory.depth(&self.state.arch);
        if span.last() < depth {
            Ok(())
        } else {
            Err(out_of_memory(span.memory, span.last(), depth))
        }
    }

    /// Bias plus the weights times a vector of local memory, or zeros.
    fn product<A: Arithmetic>(
        &mut self,
        local: Option<u64>,
        acc: u64,
        accumulate: bool,
        flow: &mut Flow,
    ) {
        let mut sums = std::mem::take(&mut self.state.array);
        sums.copy_from_slice(self.state.weight_row(0));
        if let Some(local) = local {
            let vector = self.state.local(local);
            for (lane, &x) in vector.iter().enumerate() {
                if x != 0 || !A::SKIPS_ZERO {
                    A::accumulate_product(x, self.state.weight_row(lane + 1), &mut sums, flow);
                }
            }
        } else if !A::SKIPS_ZERO {
            // A float 0 times infinity is not a number, and -0 + 0 is 0.
            for lane in 0..sums.len() {
                A::accumulate_product(0, self.state.weight_row(lane + 1), &mut sums, flow);
            }
        }
        self.state.array = sums;
        let (acc, sums) = self.state.acc_and_array(acc);
        match accumulate {
            true => A::add_vector(sums, acc, flow),
            false => acc.copy_from_slice(sums),
        }
    }

    fn transfer<A: Arithmetic>(&mut self, transfer: &Transfer, flow: &mut Flow) -> Result<()> {
        for i in 0..transfer.local.count {
            let (local, other) = (transfer.local.at(i), transfer.other.at(i));
            if transfer.other.memory != Memory::Acc {
                self.state.move_dram(transfer.other.memory, other, local, transfer.to_local)?;
                continue;
            }
            let (acc, local) = self.state.acc_and_local(other, local);
            match (transfer.to_local, transfer.accumulate) {
                (true, _) => local.copy_from_slice(acc),
                (false, true) => A::add_vector(local, acc, flow),
                (false, false) => acc.copy_from_slice(local),
            }
        }
        Ok(())
    }
}
