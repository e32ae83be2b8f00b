//! The instruction that gave an element of a layer its number.

use super::session::{SHOWN, Session};
use crate::arch::{DataType, TcuArch};
use crate::isa::{Access, Compute, Register, SimdOp};
use crate::ports::Tap;
use crate::program::{Action, Memory, Span, Step, Transfer};
use crate::simulate::{Executor, State};
use crate::text::describe;
use quincunx_contract::Origin;
use quincunx_diag::Result;
use quincunx_tensor::Tensors;

/// A place and the number there.
type Held = (String, String);

/// A vector that an instruction writes.
#[derive(Clone, Copy)]
struct Write {
    /// The instruction.
    index: usize,
    address: u64,
}

impl Write {
    /// The last of some instructions that writes a vector.
    fn last(steps: &[Step], arch: &TcuArch, memory: Memory, address: u64) -> Option<Write> {
        let place = Span::one(memory, address);
        let writes = |step: &Step| step.inst.effects(arch).writes.iter().any(|w| w.meets(&place));
        steps.iter().rposition(writes).map(|index| Write { index, address })
    }

    /// The write that gave the number which a plain move, or several, took here; itself for what is no
    /// move, `None` for a number that no instruction wrote.
    fn computed(self, steps: &[Step], arch: &TcuArch) -> Option<Write> {
        let mut write = self;
        while let Action::Move(transfer @ Transfer { accumulate: false, .. }) =
            steps[write.index].inst.action()
        {
            let (from, at) = source(&transfer, write.address);
            write = Write::last(&steps[..write.index], arch, from, at)?;
        }
        Some(write)
    }
}

/// Memory and address from which a move writes a vector.
fn source(transfer: &Transfer, address: u64) -> (Memory, u64) {
    let (from, to) = match transfer.to_local {
        true => (transfer.other, transfer.local),
        false => (transfer.local, transfer.other),
    };
    (from.memory, from.at(index_of(&to, address)))
}

impl Session {
    /// Runs the program up to the last instruction before the tap is read that writes the vector in
    /// which an element lies. Addresses are in the instructions, so that it is known before. Values end
    /// in plain moves; what these took is told with what the instruction read that computed it.
    ///
    /// # Errors
    /// `Q0522` where addresses of a DRAM mean another place in the course of the program; as a run.
    pub(super) fn origin(
        &mut self,
        inputs: &Tensors,
        tap: &Tap,
        element: usize,
    ) -> Result<Option<Origin>> {
        let (memory, address, lane) = tap.vector_of(element);
        let arch = self.package().arch().clone();
        let steps = &self.package().program.steps[..tap.after];
        if steps.iter().any(moves_dram) {
            return Err(Origin::not_followed("the program moves the DRAM"));
        }
        let Some(last) = Write::last(steps, &arch, memory, address) else { return Ok(None) };
        let before = last.computed(steps, &arch).filter(|first| first.index < last.index);
        self.observe(inputs, |executor, steps| {
            let mut done = 0;
            let mut read = |executor: &mut Executor, write: Write| {
                executor.run(&steps[done..write.index])?;
                done = write.index;
                View::new(&executor.state, lane).operands(steps[done].inst.action(), write.address)
            };
            let computed = before.map(|first| read(executor, first)).transpose()?;
            let mut operands = read(executor, last)?;
            for (first, computed) in before.iter().zip(computed) {
                let (index, text) = (first.index, describe(&steps[first.index].inst));
                for (place, _) in &mut operands {
                    *place += &format!(", computed by instruction {index}: {text}");
                }
                let of = |(place, held)| (format!("{place} before instruction {index}"), held);
                operands.extend(computed.into_iter().map(of));
            }
            let step = &steps[last.index];
            executor.step(step)?;
            let thread = match arch.number_of_threads {
                1 => String::new(),
                _ => format!(" of thread {}", step.tid),
            };
            Ok(Some(Origin {
                place: format!("instruction {}{thread}", last.index),
                text: describe(&step.inst),
                operands,
                result: View::new(&executor.state, lane).scalar(memory, address)?,
            }))
        })
    }
}

/// True for an instruction behind which an address of a DRAM may be another place.
fn moves_dram(step: &Step) -> bool {
    let Action::Configure { register, .. } = step.inst.action() else { return false };
    matches!(register, Register::Dram0Offset | Register::Dram1Offset)
}

/// A lane of what the machine holds.
struct View<'a> {
    state: &'a State,
    data_type: DataType,
    lane: usize,
}

impl View<'_> {
    fn new(state: &State, lane: usize) -> View<'_> {
        View { state, data_type: state.arch().data_type, lane }
    }

    /// What an instruction reads for the vector that it writes at an address.
    fn operands(&self, action: Action, address: u64) -> Result<Vec<Held>> {
        match action {
            Action::Product { local, acc, accumulate } => {
                let index = index_of(&acc, address);
                let mut read = self.product(local.map(|span| span.at(index)))?;
                read.extend(accumulate.then(|| self.scalar(Memory::Acc, address)).transpose()?);
                Ok(read)
            }
            Action::Move(transfer) => self.moved(&transfer, address),
            Action::Simd { access, read, compute, .. } => self.simd(access, read, compute, address),
            Action::Wait | Action::Push { .. } => Ok(Vec::new()),
            Action::Table { .. } | Action::Configure { .. } => Ok(Vec::new()),
        }
    }

    /// A vector, or zeros, and what it meets in the array.
    fn product(&self, local: Option<u64>) -> Result<Vec<Held>> {
        let lanes = self.state.arch().lanes();
        let mut read = Vec::new();
        if let Some(local) = local {
            let mut vector = vec![0; lanes];
            self.state.read(Memory::Local, local, &mut vector)?;
            read.push((format!("Local({local})"), self.several(&vector)));
        }
        let column = (1..=lanes).map(|row| self.state.weight_row(row)[self.lane]);
        let column: Vec<i32> = column.collect();
        read.push((format!("weights of lane {}", self.lane), self.several(&column)));
        let bias = self.state.weight_row(0)[self.lane];
        read.push((format!("bias of lane {}", self.lane), self.number(bias)));
        Ok(read)
    }

    fn moved(&self, transfer: &Transfer, address: u64) -> Result<Vec<Held>> {
        let (from, at) = source(transfer, address);
        let mut read = vec![self.scalar(from, at)?];
        if transfer.accumulate {
            read.push(self.scalar(Memory::Acc, address)?);
        }
        Ok(read)
    }

    fn simd(&self, access: Access, read: u64, compute: Compute, address: u64) -> Result<Vec<Held>> {
        let mut held = Vec::new();
        if access.reads() {
            held.push(self.scalar(Memory::Acc, read)?);
        } else if compute.op == SimdOp::NoOp {
            held.push((
                format!("array[{}]", self.lane),
                self.number(self.state.array()[self.lane]),
            ));
        }
        let sources = [compute.left, compute.right].into_iter().take(compute.op.arity());
        for source in sources.filter(|&source| source > 0) {
            let number = self.number(self.state.register(source.into())?[self.lane]);
            held.push((format!("R{source}[{}]", self.lane), number));
        }
        if access.accumulates() {
            held.push(self.scalar(Memory::Acc, address)?);
        }
        Ok(held)
    }

    /// A scalar of a vector.
    fn scalar(&self, memory: Memory, address: u64) -> Result<Held> {
        let mut vector = vec![0; self.state.arch().lanes()];
        self.state.read(memory, address, &mut vector)?;
        let place = format!("{}({address})[{}]", memory.name(), self.lane);
        Ok((place, self.number(vector[self.lane])))
    }

    fn number(&self, scalar: i32) -> String {
        self.data_type.decode(scalar).to_string()
    }

    /// The first of several numbers, and how many there are.
    fn several(&self, scalars: &[i32]) -> String {
        let shown = scalars.iter().take(SHOWN).map(|&scalar| self.number(scalar));
        let shown = shown.collect::<Vec<_>>().join(", ");
        match scalars.len() {
            count if count > SHOWN => format!("[{shown}, … {count} numbers]"),
            _ => format!("[{shown}]"),
        }
    }
}

/// Which vector of a span lies at an address that is in it.
fn index_of(span: &Span, address: u64) -> u64 {
    address.saturating_sub(span.base) >> span.stride.min(63)
}
