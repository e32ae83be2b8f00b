//! Running a kernel: groups of threads, their arguments, and the memory that they share.
//!
//! r0 and the arguments are as the launch of the machine sets them (`visa`, `zebin` in
//! `docs/bibliography.md`). Groups run one after the other, x fastest; the threads of a group in turns
//! from barrier to barrier.

mod memory;
mod origin;
mod writer;

pub use memory::{Buffer, Memory};
pub use origin::{Asked, Origin, Touched, origin};
pub use writer::{Store, Watched, last_store};

use super::fast::kernel::Prepared;
use super::float::Rules;
use super::message::{Fault, Space, Storage, Stretch};
use super::thread::{Program, Stop, Thread, Trap};
use crate::arch::DpasArch;
use crate::program::Listing;
use crate::shape::RowStride;
use quincunx_diag::{Diagnostic, Result, Span};
use quincunx_num::Level;

/// Most bytes of shared memory of a group.
pub const MAX_SHARED: usize = 1 << 20;
/// Most threads of a group.
pub const MAX_THREADS: u32 = 1024;
/// Address of the arguments that do not arrive in registers (ours).
pub(crate) const ARGUMENTS: u64 = 0xfff0_0000;
/// Most bytes of arguments.
const MAX_ARGUMENTS: usize = 1 << 19;

/// A kernel that is ready to run.
#[derive(Clone, Debug)]
pub struct Kernel {
    name: String,
    program: Program,
    spans: Vec<Option<Span>>,
    arch: DpasArch,
}

impl Kernel {
    /// Prepares a listing.
    ///
    /// # Errors
    /// As [`listing_steps`](super::lower::listing_steps).
    pub fn new(
        name: &str,
        listing: &Listing,
        arch: &DpasArch,
        stride: RowStride,
    ) -> Result<Kernel> {
        let program = Program::new(listing, arch, stride)?;
        let spans = listing.items.iter().map(|item| item.span).collect();
        Ok(Kernel { name: name.to_owned(), program, spans, arch: arch.clone() })
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The machine with the kernel's registers.
    pub(crate) fn arch(&self) -> &DpasArch {
        &self.arch
    }

    /// Bytes of a register.
    pub(crate) fn grf_bytes(&self) -> usize {
        self.arch.platform.grf_bytes() as usize
    }

    /// Prepares the instructions for [`run_prepared`].
    ///
    /// # Panics
    /// When the processor lacks the vector instructions.
    pub fn prepare(&self, rules: Rules, level: Level) -> Prepared {
        Prepared::new(&self.program, &self.arch, rules, level)
    }
}

/// How a kernel is started.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Groups in x, y, z.
    pub groups: [u32; 3],
    /// Hardware threads of a group.
    pub threads: u32,
    /// Arguments: cross-thread data.
    pub payload: &'a [u8],
    /// Data of the threads of a group, one behind the other: the same number of bytes each.
    pub local: &'a [u8],
    /// Bytes of the payload that arrive in r1: 0, 32 or 64. The rest lies in memory.
    pub inline_bytes: usize,
    /// Bytes of memory that a group shares.
    pub slm_bytes: usize,
    /// Lanes that are switched on.
    pub dispatch_mask: u32,
}

impl Launch<'_> {
    /// The machine can make the launch of a kernel with this name.
    ///
    /// # Errors
    /// `Q6160` if not.
    pub(crate) fn check(&self, name: &str, arch: &DpasArch) -> Result<()> {
        let grf = arch.platform.grf_bytes() as usize;
        let arguments = self.payload.len().saturating_add(self.local.len());
        let rules = [
            (self.groups.contains(&0), "a launch has at least one group in x, y and z".to_owned()),
            (
                self.threads == 0 || self.threads > MAX_THREADS,
                format!("a group has 1 to {MAX_THREADS} threads, found {}", self.threads),
            ),
            (
                self.inline_bytes > grf,
                format!("{} bytes of arguments do not fit r1", self.inline_bytes),
            ),
            (
                self.slm_bytes > MAX_SHARED,
                format!("a group shares {} bytes, more than {MAX_SHARED}", self.slm_bytes),
            ),
            (
                arguments > MAX_ARGUMENTS,
                format!("{arguments} bytes of arguments, more than {MAX_ARGUMENTS}"),
            ),
        ];
        match rules.into_iter().find(|(broken, _)| *broken) {
            None => Ok(()),
            Some((_, text)) => Err(Diagnostic::invalid("Q6160", format!("kernel {name}: {text}"))),
        }
    }

    /// The arguments that arrive in r1.
    fn inline(&self) -> &[u8] {
        self.payload.get(..self.inline_bytes).unwrap_or(self.payload)
    }

    /// The arguments in memory, at [`ARGUMENTS`].
    pub(crate) fn arguments(&self) -> Vec<u8> {
        let mut arguments = self.payload[self.inline().len()..].to_vec();
        arguments.extend_from_slice(self.local);
        arguments
    }

    /// A thread of a group as it starts.
    pub(crate) fn thread(&self, arch: &DpasArch, group: [u32; 3], number: u32) -> Thread {
        let mut thread = Thread::new(arch, self.dispatch_mask);
        self.start(&mut thread, group, number);
        thread
    }

    /// Gives a thread the state in which it begins.
    fn start(&self, thread: &mut Thread, [x, y, z]: [u32; 3], number: u32) {
        thread.reset();
        for (dword, value) in [(0, ARGUMENTS as u32), (1, x), (2, number), (6, y), (7, z)] {
            let at = 4 * dword;
            if let Some(place) = thread.grf.get_mut(at..at + 4) {
                place.copy_from_slice(&value.to_le_bytes());
            }
        }
        let (inline, start) = (self.inline(), thread.grf_bytes);
        if let Some(place) = thread.grf.get_mut(start..start + inline.len()) {
            place.copy_from_slice(inline);
        }
    }
}

/// What a launch may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Instructions of all threads together.
    pub steps: u64,
}

/// What a launch did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Instructions that all threads executed.
    pub steps: u64,
}

/// Runs a kernel.
///
/// # Errors
/// `Q6160` for a launch that the machine cannot make, `Q6155` when the steps are used up, `Q6154` when
/// threads wait for one that has ended, and what stops an instruction, with kernel, instruction, group
/// and thread.
pub fn run(
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &mut Memory,
    rules: Rules,
    limits: Limits,
) -> Result<Report> {
    run_groups(kernel, Engine::Executor(rules), launch, memory, limits)
}

/// Runs a kernel that [`Kernel::prepare`] has prepared: the same as [`run`], faster.
///
/// # Errors
/// As [`run`].
pub fn run_prepared(
    kernel: &Kernel,
    prepared: &mut Prepared,
    launch: &Launch<'_>,
    memory: &mut Memory,
    limits: Limits,
) -> Result<Report> {
    run_groups(kernel, Engine::Prepared(prepared), launch, memory, limits)
}

fn run_groups(
    kernel: &Kernel,
    engine: Engine<'_>,
    launch: &Launch<'_>,
    memory: &mut Memory,
    limits: Limits,
) -> Result<Report> {
    launch.check(&kernel.name, &kernel.arch)?;
    let arguments = launch.arguments();
    let thread = Thread::new(&kernel.arch, launch.dispatch_mask);
    let mut runner = Runner {
        kernel,
        launch,
        arguments,
        engine,
        steps: limits.steps,
        threads: vec![thread; launch.threads as usize],
        shared: vec![0; launch.slm_bytes],
    };
    let [x, y, z] = launch.groups;
    for z in 0..z {
        for y in 0..y {
            for x in 0..x {
                runner.group([x, y, z], memory)?;
            }
        }
    }
    Ok(Report { steps: limits.steps - runner.steps })
}

/// Who executes the instructions.
enum Engine<'a> {
    Executor(Rules),
    Prepared(&'a mut Prepared),
}

impl Engine<'_> {
    fn run(
        &mut self,
        thread: &mut Thread,
        program: &Program,
        view: &mut View<'_>,
        steps: &mut u64,
    ) -> std::result::Result<Stop, Trap> {
        match self {
            Engine::Executor(rules) => thread.run(program, view, *rules, steps),
            Engine::Prepared(prepared) => prepared.run(thread, program, view, steps),
        }
    }
}

struct Runner<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch<'a>,
    /// The arguments in memory.
    arguments: Vec<u8>,
    engine: Engine<'a>,
    steps: u64,
    /// The threads of the current group, and its shared memory.
    threads: Vec<Thread>,
    shared: Vec<u8>,
}

impl Runner<'_> {
    fn group(&mut self, group: [u32; 3], memory: &mut Memory) -> Result<()> {
        self.shared.fill(0);
        for (number, thread) in self.threads.iter_mut().enumerate() {
            self.launch.start(thread, group, number as u32);
        }
        while self.threads.iter().any(|thread| !thread.ended) {
            let Runner { kernel, engine, steps, threads, shared, arguments, .. } = self;
            for (number, thread) in threads.iter_mut().enumerate().filter(|(_, t)| !t.ended) {
                let mut view = View { memory, shared, arguments };
                let stop = engine
                    .run(thread, &kernel.program, &mut view, steps)
                    .map_err(|trap| place(kernel, trap, group, number))?;
                if stop == Stop::Limit {
                    return Err(Runner::limit(kernel, thread.position(), group, number));
                }
            }
            barrier(kernel, threads, group)?;
        }
        Ok(())
    }

    /// Too many instructions.
    fn limit(kernel: &Kernel, index: usize, group: [u32; 3], thread: usize) -> Diagnostic {
        let message = "the launch has executed as many instructions as it may";
        let problem = Diagnostic::invalid("Q6155", message)
            .help("a loop may not end; the limit is an option");
        place(kernel, Trap { index, problem }, group, thread)
    }
}

/// Lets the threads pass, if all are there.
fn barrier(kernel: &Kernel, threads: &mut [Thread], group: [u32; 3]) -> Result<()> {
    let waiting = threads.iter().position(|thread| !thread.ended);
    let missing = threads.iter().position(|thread| !thread.signalled);
    if let (Some(waiting), Some(missing)) = (waiting, missing) {
        let message =
            format!("thread {waiting} waits at a barrier that thread {missing} never reaches");
        let problem = Diagnostic::invalid("Q6154", message);
        let index = threads.get(waiting).map_or(0, Thread::position);
        return Err(place(kernel, Trap { index, problem }, group, waiting));
    }
    threads.iter_mut().for_each(|thread| thread.signalled = false);
    Ok(())
}

/// An error with its place.
fn place(kernel: &Kernel, trap: Trap, [x, y, z]: [u32; 3], thread: usize) -> Diagnostic {
    let Trap { index, problem } = trap;
    let name = &kernel.name;
    let problem = problem.with_note(format!(
        "kernel {name}, instruction {index}, group {x} {y} {z}, thread {thread}"
    ));
    match kernel.spans.get(index).copied().flatten() {
        Some(span) => problem.label(span, ""),
        None => problem,
    }
}

/// Memory as a thread sees it.
struct View<'a> {
    memory: &'a mut Memory,
    shared: &'a mut [u8],
    arguments: &'a [u8],
}

impl View<'_> {
    /// True for global memory apart from the arguments.
    fn is_plain(&self, Stretch { space, address, length }: Stretch) -> bool {
        let end = ARGUMENTS + self.arguments.len() as u64;
        let behind = address.checked_add(length as u64);
        space == Space::Global
            && (address >= end || behind.is_some_and(|behind| behind <= ARGUMENTS))
    }

    fn shared(&mut self, address: u64, length: usize) -> std::result::Result<&mut [u8], Fault> {
        let size = self.shared.len();
        let start = usize::try_from(address).ok();
        let range = start.and_then(|start| Some(start..start.checked_add(length)?));
        range
            .and_then(|range| self.shared.get_mut(range))
            .ok_or_else(|| Fault { address, reason: format!("the group shares {size} bytes") })
    }
}

impl Storage for View<'_> {
    fn load(
        &mut self,
        space: Space,
        address: u64,
        bytes: &mut [u8],
    ) -> std::result::Result<(), Fault> {
        if space == Space::Shared {
            bytes.copy_from_slice(self.shared(address, bytes.len())?);
            return Ok(());
        }
        let offset = address.checked_sub(ARGUMENTS).and_then(|offset| usize::try_from(offset).ok());
        let own =
            offset.and_then(|offset| self.arguments.get(offset..offset.checked_add(bytes.len())?));
        match own {
            Some(own) => bytes.copy_from_slice(own),
            None => self.memory.load(address, bytes)?,
        }
        Ok(())
    }

    fn store(
        &mut self,
        space: Space,
        address: u64,
        bytes: &[u8],
    ) -> std::result::Result<(), Fault> {
        match space {
            Space::Shared => {
                self.shared(address, bytes.len())?.copy_from_slice(bytes);
                Ok(())
            }
            Space::Global => self.memory.store(address, bytes),
        }
    }

    fn bytes(&self, place: Stretch, hint: &mut usize) -> Option<&[u8]> {
        if self.is_plain(place) { self.memory.bytes(place, hint) } else { None }
    }

    fn bytes_mut(&mut self, place: Stretch, hint: &mut usize) -> Option<&mut [u8]> {
        if self.is_plain(place) { self.memory.bytes_mut(place, hint) } else { None }
    }
}
