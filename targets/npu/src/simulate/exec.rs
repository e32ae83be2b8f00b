//! Lines in an order in which they can execute, one function per kind of work.

#![deny(clippy::wildcard_enum_match_arm)]

use super::state::State;
use crate::arch::NpuArch;
use crate::program::Program;
use crate::replay::Node;
use crate::verify::{Subject, executable};
use crate::work::{Memory, Resolved, Work, accesses, resolve};
use quincunx_diag::{Diagnostic, Place, Result};

/// Choices of the arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Sums of convolutions are f32 numbers to which eight products at a time are added; otherwise
    /// they are whole numbers.
    pub float_accumulation: bool,
    /// The machine advances the addresses of vector instructions from image to image.
    pub advance_images: bool,
}

/// Programs of all cores, ready to run.
pub struct Executor {
    programs: Vec<Program>,
    work: Vec<Vec<Resolved>>,
    order: Vec<Node>,
    arch: NpuArch,
    settings: Settings,
}

impl Executor {
    /// Prepares the programs, one per core.
    ///
    /// # Errors
    /// Everything that keeps them from being executed.
    pub fn new(
        programs: Vec<Program>,
        arch: &NpuArch,
        settings: Settings,
    ) -> std::result::Result<Executor, Vec<Diagnostic>> {
        let work = programs.iter().map(|program| work_of(program, settings)).collect();
        Executor::with_work(programs, work, arch, settings)
    }

    fn with_work(
        programs: Vec<Program>,
        work: Vec<Vec<Resolved>>,
        arch: &NpuArch,
        settings: Settings,
    ) -> std::result::Result<Executor, Vec<Diagnostic>> {
        let list: Vec<&Program> = programs.iter().collect();
        let replay = executable(&Subject { programs: &list, work: &work, arch })?;
        Ok(Executor { order: replay.order, work, programs, arch: arch.clone(), settings })
    }

    /// Memories for a run.
    pub fn state(&self) -> State {
        State::new(&self.arch, self.programs.len())
    }

    /// The work of every line.
    pub fn work(&self) -> &[Vec<Resolved>] {
        &self.work
    }

    /// The order in which lines execute.
    pub fn order(&self) -> &[Node] {
        &self.order
    }

    /// Runs the programs.
    ///
    /// # Errors
    /// The first access outside of a region, with its line.
    pub fn run(&self, state: &mut State) -> Result<()> {
        self.run_in(&self.order, state, &mut |_, _| ())
    }

    /// Runs the lines in this order and calls `after` behind each.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn run_in(
        &self,
        order: &[Node],
        state: &mut State,
        after: &mut dyn FnMut(Node, &mut State),
    ) -> Result<()> {
        for &node in order {
            self.line(node, state)?;
            after(node, state);
        }
        Ok(())
    }

    /// Executes one line; a problem names it.
    pub(super) fn line(&self, node: Node, state: &mut State) -> Result<()> {
        let Ok(work) = &self.work[node.core][node.line] else { return Ok(()) };
        self.step(node, work, state).map_err(|problem| self.located(node, problem))
    }

    /// A problem with its line.
    pub(super) fn located(&self, node: Node, problem: Diagnostic) -> Diagnostic {
        let name = self.programs[node.core].lines[node.line].inst.mnemonic();
        let problem = problem.at(Place::Line(node.number()));
        problem.with_note(format!("in {name} of core {}", node.core))
    }

    /// The machine.
    pub(super) fn arch(&self) -> &NpuArch {
        &self.arch
    }

    /// Choices of the arithmetic.
    pub(super) fn settings(&self) -> Settings {
        self.settings
    }

    /// Executes one line.
    fn step(&self, node: Node, work: &Work, state: &mut State) -> Result<()> {
        let core = node.core;
        self.check_lengths(core, work, state)?;
        match work {
            Work::Begin | Work::End | Work::Configure => Ok(()),
            Work::Regions(regions) => {
                state.cores[core].regions.set(regions);
                Ok(())
            }
            Work::Copy(copy) => state.copy(core, copy),
            Work::Weights(weights) => state.weights(core, weights, self.arch.wl0_unit),
            Work::Conv(conv) => state.conv(core, conv, self.arch.wl0_unit, self.settings),
            Work::Vector(vector) => state.vector(core, vector),
            Work::Reorder(reorder) => state.reorder(core, reorder),
            Work::Remote(remote) => state.remote(core, remote),
        }
    }

    /// Every access fits its region, so that no loop is longer than the memory.
    pub(super) fn check_lengths(&self, core: usize, work: &Work, state: &State) -> Result<()> {
        for access in accesses(work, &self.arch) {
            let (core, region) = match access.memory {
                Memory::L2(region) => (core, region),
                Memory::Remote(core, region) => (usize::from(core), region),
                Memory::Wl0 | Memory::Dram(_) | Memory::RemoteWhole(_) => continue,
            };
            let place = crate::work::Place { region, address: access.span.start };
            let ring = state.region(core, place)?;
            if access.span.length() > ring.length {
                let message = format!(
                    "{} bytes are accessed in region {region}, which has {}",
                    access.span.length(),
                    ring.length
                );
                return Err(Diagnostic::invalid("Q4024", message));
            }
        }
        Ok(())
    }
}

/// The work of every line, with advanced addresses if the settings ask for them.
pub(crate) fn work_of(program: &Program, settings: Settings) -> Vec<Resolved> {
    let mut work = resolve(program);
    if settings.advance_images {
        crate::work::advance_images(program, &mut work);
    }
    work
}
