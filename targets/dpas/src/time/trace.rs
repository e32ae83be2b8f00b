//! The instructions that a thread executes, and what its messages move, without any data.
//!
//! The walk computes what follows from the launch alone: r0, arguments, immediates. Everything else
//! is unknown, above all what memory holds, so that time cannot depend on values of tensors. A
//! branch on something unknown is refused.

mod known;
mod touched;

use known::Known;
pub(super) use touched::{Access, LINE};

use super::engine::Instruction;
use crate::arch::DpasArch;
use crate::isa::vector::{Op, Receiver, Terms};
use crate::simulate::launch::{ARGUMENTS, Launch};
use crate::simulate::message::{Fault, Request, Space, Storage};
use crate::simulate::thread::{Program, Thread};
use crate::simulate::{Rules, Step};
use quincunx_diag::{Diagnostic, Result};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// What a thread did.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// Indices of the instructions that it executed.
    pub(super) steps: Vec<u32>,
    /// What its messages to memory moved, in order, with their instructions.
    pub(super) accesses: Vec<(u32, Access)>,
}

/// A kernel that is ready to be timed.
pub(super) struct Prepared {
    /// Its instructions.
    pub(super) program: Program,
    /// What they cost.
    pub(super) instructions: Vec<Instruction>,
    /// The machine with the kernel's registers.
    pub(super) arch: DpasArch,
}

/// Which thread of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Group.
    pub(super) group: [u32; 3],
    /// Thread in it.
    pub(super) thread: u32,
}

/// The arguments are all the memory that is known.
struct Arguments(Vec<u8>);

impl Storage for Arguments {
    fn load(
        &mut self,
        space: Space,
        address: u64,
        bytes: &mut [u8],
    ) -> std::result::Result<(), Fault> {
        let start = address.checked_sub(ARGUMENTS).and_then(|at| usize::try_from(at).ok());
        let own = start.and_then(|at| self.0.get(at..at.checked_add(bytes.len())?));
        match own {
            Some(own) if space == Space::Global => bytes.copy_from_slice(own),
            _ => return Err(Fault { address, reason: "not an argument".to_owned() }),
        }
        Ok(())
    }

    fn store(&mut self, _: Space, address: u64, _: &[u8]) -> std::result::Result<(), Fault> {
        Err(Fault { address, reason: "not known".to_owned() })
    }
}

struct Walk<'a> {
    kernel: &'a Prepared,
    thread: Thread,
    known: Known,
    arguments: Arguments,
    /// Lines of memory that the thread has touched and the first cache still holds, with the message
    /// that brought them.
    lines: HashMap<u64, u32>,
    /// Most of them: the part of a thread of an engine (ours).
    capacity: usize,
    trace: Trace,
}

/// The trace of a thread, up to so many instructions.
///
/// # Errors
/// `Q6170` for a branch that depends on data, `Q6149` and `Q6152` for messages and jumps that are not
/// known.
pub(super) fn trace(
    kernel: &Prepared,
    launch: &Launch<'_>,
    place: Place,
    limit: usize,
) -> Result<Trace> {
    let arch = &kernel.arch;
    let mut walk = Walk {
        kernel,
        thread: launch.thread(arch, place.group, place.thread),
        known: Known::new(arch, launch.dispatch_mask == u32::MAX),
        arguments: Arguments(launch.arguments()),
        lines: HashMap::new(),
        capacity: ((u64::from(arch.l1_kib) << 10) / LINE / u64::from(arch.threads())) as usize,
        trace: Trace::default(),
    };
    while !walk.thread.ended && walk.trace.steps.len() < limit {
        let index = walk.thread.position();
        if index >= kernel.program.steps.len() {
            break;
        }
        walk.trace.steps.push(index as u32);
        walk.step(index).map_err(|problem| problem.with_note(format!("instruction {index}")))?;
    }
    Ok(walk.trace)
}

impl Walk<'_> {
    fn step(&mut self, index: usize) -> Result<()> {
        let kernel = self.kernel;
        let effects = &kernel.instructions[index].effects;
        match &kernel.program.steps[index] {
            Step::Wait => self.thread.skip(),
            Step::Multiply(_) => {
                self.known.forget(effects);
                self.thread.skip();
            }
            Step::Vector(terms) => {
                let known = self.known.inputs(terms, effects);
                match terms.op {
                    Op::Send => self.send(terms, index)?,
                    Op::SyncBarrier => {
                        self.thread.signalled = true;
                        self.execute()?;
                        self.thread.signalled = false;
                    }
                    op if op.jumps() && !known => return Err(depends_on_data()),
                    op if op.jumps() => self.execute()?,
                    _ => self.compute(terms, index, known),
                }
            }
        }
        Ok(())
    }

    /// Lets the thread execute its next instruction.
    fn execute(&mut self) -> Result<()> {
        let (program, rules) = (&self.kernel.program, Rules::default());
        let done = self.thread.run(program, &mut self.arguments, rules, &mut 1);
        done.map(drop).map_err(|trap| trap.problem)
    }

    /// Computes what can be known; what cannot is passed over.
    fn compute(&mut self, terms: &Terms, index: usize, known: bool) {
        let effects = &self.kernel.instructions[index].effects;
        let together = self.thread.is_together();
        if known && self.execute().is_ok() {
            self.known.learn(terms, together);
        } else {
            self.known.forget(effects);
            self.known.forget_flags(terms);
            self.thread.skip();
        }
    }

    fn send(&mut self, terms: &Terms, index: usize) -> Result<()> {
        let Some(message) = terms.message else { return Ok(()) };
        if message.receiver == Receiver::Gateway {
            self.thread.signalled = false;
            return self.execute();
        }
        let effects = &self.kernel.instructions[index].effects;
        let descriptor = message.descriptor.ok_or_else(depends_on_data)?;
        let platform = self.kernel.arch.platform;
        let request = Request::new(&message, descriptor, terms.size.lanes(), platform)?;
        request.check_counts(&message, descriptor, platform)?;
        let address = self.known.registers(message.src0, touched::address_bytes(&request));
        let file = address.as_ref().map(|range| &self.thread.grf[range.clone()]);
        let number = self.trace.accesses.len() as u32;
        let access = touched::access(&request, &message, descriptor, file, |line| {
            if self.lines.len() >= self.capacity {
                self.lines.clear();
            }
            match self.lines.entry(line) {
                Entry::Occupied(held) => Some(*held.get()),
                Entry::Vacant(free) => {
                    free.insert(number);
                    None
                }
            }
        });
        // An argument is known; a store has nothing that the walk could know later.
        let is_argument = access.base.is_some_and(|base| base >= ARGUMENTS);
        self.trace.accesses.push((index as u32, access));
        self.known.forget(effects);
        if is_argument && self.execute().is_ok() {
            self.known.learn_bytes(&effects.writes);
        } else {
            self.thread.skip();
        }
        Ok(())
    }
}

fn depends_on_data() -> Diagnostic {
    let message = "how the thread goes on depends on data";
    let help = "time knows r0, arguments and immediates, and what is computed from them; loops \
                that count with these can be timed";
    Diagnostic::unsupported("Q6170", message).help(help)
}
