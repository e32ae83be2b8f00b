//! The executor: one short function per primitive instruction.

mod logic;
mod run;
mod trace;

use super::budget::{self, Budget};
use super::lower::{Lowered, lower};
use super::noise::Device;
use super::number::{Number, length};
use super::state::Planes;
use super::{Noise, Settings};
use crate::arch::ScampArch;
use crate::isa::{Direction, Reg};
use crate::program::{Named, Program, Space};
use quincunx_diag::{Diagnostic, Place as At, Result};
use quincunx_num::Ratio;
use run::Run;
use std::collections::BTreeMap;
pub(crate) use trace::{Cell, Write};

/// Most numbers of all planes together, in floats and in fractions.
const MAX_NUMBERS: usize = 1 << 25;
const MAX_FRACTIONS: usize = 1 << 21;

/// Called after every instruction with its index, for tests that plant faults.
pub type Mutate<'a> = &'a mut dyn FnMut(usize, &mut Planes<f64>);

/// A program made ready to run.
#[derive(Clone, Debug)]
pub struct Executor {
    lowered: Lowered,
    arch: ScampArch,
    settings: Settings,
    /// Errors of the device, if it has any.
    device: Option<Device>,
    width: usize,
    height: usize,
    /// Elements of the whole array north and east of those that are run.
    corner: [usize; 2],
    /// What a run costs in floats.
    work: u64,
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    planes: Planes<f64>,
    analogue: BTreeMap<Reg, usize>,
    digital: BTreeMap<Reg, usize>,
    /// Writes that stopped at the saturation.
    pub saturated: u64,
    /// True when floats were not enough and fractions were used.
    pub used_fractions: bool,
}

impl Outcome {
    /// The values of a register, row 0 northmost; `None` for one that the program does not know.
    pub fn register(&self, (space, register): Named) -> Option<Vec<f64>> {
        match space {
            Space::Analogue => {
                self.analogue.get(&register).map(|&plane| self.planes.analogue[plane].clone())
            }
            Space::Digital => self.digital.get(&register).map(|&plane| {
                self.planes.digital[plane].iter().map(|&bit| f64::from(u8::from(bit))).collect()
            }),
        }
    }
}

impl Executor {
    /// Prepares a program for an array of `width` by `height` elements.
    ///
    /// # Errors
    /// `Q5027` for unknown 1-bit registers, `Q5060` when the array is too large, or the work beyond
    /// the limit of the settings, `Q5142` for maps of another array.
    pub fn new(
        program: &Program,
        arch: &ScampArch,
        width: usize,
        height: usize,
        settings: Settings,
    ) -> Result<Executor> {
        let lowered = lower(program, arch)?;
        let size = width.saturating_mul(height);
        let patterns = settings.noise.as_ref().map_or(0, Noise::patterns);
        let planes = (1 + patterns) * lowered.analogue.len() + lowered.digital.len();
        if size == 0 || size.saturating_mul(planes) > MAX_NUMBERS {
            let message = format!("{width} x {height} elements with {planes} numbers each");
            return Err(Diagnostic::unsupported("Q5060", message + " are not simulated")
                .help("`--size WIDTHxHEIGHT` makes the array smaller"));
        }
        let work = budget::work(&lowered, size, &settings);
        settings.work.check(work)?;
        let noise = settings.noise.as_ref();
        noise.map_or(Ok(()), |noise| noise.check(size))?;
        let device = noise.map(|noise| Device::new(noise, &lowered.analogue, size));
        let (arch, corner) = (arch.clone(), [0; 2]);
        Ok(Executor { lowered, arch, settings, device, width, height, corner, work })
    }

    /// The same as a part of a larger array, which goes on so far to the north and to the east:
    /// patterns count rows and columns from there.
    #[must_use]
    pub fn within(self, north: usize, east: usize) -> Executor {
        Executor { corner: [north, east], ..self }
    }

    pub(super) fn corner(&self) -> [usize; 2] {
        self.corner
    }

    /// Refuses so many runs when all of them together are beyond the limit of the settings.
    ///
    /// # Errors
    /// `Q5060`.
    pub fn check_runs(&self, runs: u64) -> Result<()> {
        self.settings.work.check(self.work.saturating_mul(runs))
    }

    /// The plane of a register among those that [`Executor::run_with`] shows.
    pub fn plane(&self, (space, register): Named) -> Option<usize> {
        match space {
            Space::Analogue => self.lowered.analogue.get(&register).copied(),
            Space::Digital => {
                let register = self.arch.digital(register)?;
                self.lowered.digital.get(&register).copied()
            }
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn lowered(&self) -> &Lowered {
        &self.lowered
    }

    /// Columns and rows of the array.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    /// Runs the program on images, row 0 northmost; registers that are not given hold 0, and FLAG 1.
    ///
    /// # Errors
    /// `Q5061` for an image of another size or a number that is not finite, `Q5062` when fractions
    /// are needed and the array is too large for them, or they become too long.
    pub fn run(&self, inputs: &[(Named, Vec<f64>)]) -> Result<Outcome> {
        self.run_with(inputs, &mut |_, _| {})
    }

    /// The same, calling `mutate` after every instruction; what it changes stays changed.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn run_with(&self, inputs: &[(Named, Vec<f64>)], mutate: Mutate<'_>) -> Result<Outcome> {
        match self.run_floats(inputs, mutate)? {
            Some(outcome) => Ok(outcome),
            None => self.run_exactly(inputs, &mut |_, _| {}),
        }
    }

    /// As [`Executor::run`]; gives what registers hold after instructions too, each row 0 northmost,
    /// in the order of `reads`.
    ///
    /// # Errors
    /// As [`Executor::run`]; a bug for registers that the program does not know.
    pub fn run_reading(
        &self,
        inputs: &[(Named, Vec<f64>)],
        reads: &[(usize, Named)],
    ) -> Result<(Outcome, Vec<Vec<f64>>)> {
        let known = |&(after, named): &(usize, Named)| {
            let unknown = || Diagnostic::bug(format!("no plane for {}", named.1));
            Ok((after, named.0, self.plane(named).ok_or_else(unknown)?))
        };
        let places = reads.iter().map(known).collect::<Result<Vec<_>>>()?;
        let mut found = vec![Vec::new(); reads.len()];
        let floats = self.run_floats(inputs, &mut |index, planes| {
            keep(&places, index, planes, &mut found);
        })?;
        let outcome = match floats {
            Some(outcome) => outcome,
            None => self.run_exactly(inputs, &mut |index, planes| {
                keep(&places, index, planes, &mut found);
            })?,
        };
        Ok((outcome, found))
    }

    /// The run in floats; `None` when they were not exact.
    fn run_floats(
        &self,
        inputs: &[(Named, Vec<f64>)],
        mutate: Mutate<'_>,
    ) -> Result<Option<Outcome>> {
        let mut run = Run::<f64>::new(self);
        run.load(inputs)?;
        let mut last = None;
        for (number, step) in self.lowered.steps.iter().enumerate() {
            if let Some(last) = last.filter(|&last| last != step.index) {
                mutate(last, &mut run.planes);
            }
            last = Some(step.index);
            run.step(number, &step.op);
        }
        if let Some(last) = last {
            mutate(last, &mut run.planes);
        }
        let done = run.exact || self.settings.noise.is_some();
        Ok(done.then(|| self.outcome(run.planes, run.saturated, false)))
    }

    /// The run in fractions; `look` sees the planes after every instruction.
    fn run_exactly(
        &self,
        inputs: &[(Named, Vec<f64>)],
        look: &mut dyn FnMut(usize, &Planes<Ratio>),
    ) -> Result<Outcome> {
        let numbers = self.width * self.height * self.lowered.analogue.len();
        if numbers > MAX_FRACTIONS {
            let message =
                "the results are not exact in floats, and the array is too large for fractions";
            return Err(Diagnostic::unsupported("Q5062", message)
                .help("run it on a smaller array, or with inputs that are multiples of 2^-d"));
        }
        let (mut run, mut budget) =
            (Run::<Ratio>::new(self), Budget::new(self.settings.work, self.work));
        run.load(inputs)?;
        let ends = self.lowered.steps.iter().skip(1).map(|next| Some(next.index)).chain([None]);
        for ((number, step), next) in self.lowered.steps.iter().enumerate().zip(ends) {
            run.step(number, &step.op);
            let times = step.op.bus_length();
            if times > 0 {
                budget
                    .spend(run.bus.iter().map(length), times, self.lowered.analogue.len())
                    .map_err(|p| p.at(At::Instruction(step.index)))?;
            }
            if next != Some(step.index) {
                look(step.index, &run.planes);
            }
        }
        let Planes { width, height, analogue, digital, .. } = run.planes;
        let floats = |plane: Vec<Ratio>| plane.iter().map(Number::float).collect();
        let analogue = analogue.into_iter().map(floats).collect();
        let beyond = Direction::ALL.map(|_| Vec::new());
        let planes = Planes { width, height, analogue, digital, beyond };
        Ok(self.outcome(planes, run.saturated, true))
    }

    fn outcome(&self, planes: Planes<f64>, saturated: u64, used_fractions: bool) -> Outcome {
        let (analogue, mut digital) = (self.lowered.analogue.clone(), self.lowered.digital.clone());
        for (&alias, register) in &self.arch.aliases {
            if let Some(&plane) = self.lowered.digital.get(register) {
                digital.entry(alias).or_insert(plane);
            }
        }
        Outcome { planes, analogue, digital, saturated, used_fractions }
    }
}

/// Keeps the planes that are read after an instruction.
fn keep<T: Number>(
    places: &[(usize, Space, usize)],
    index: usize,
    planes: &Planes<T>,
    found: &mut [Vec<f64>],
) {
    for (&(_, space, plane), found) in
        places.iter().zip(found).filter(|((after, ..), _)| *after == index)
    {
        *found = match space {
            Space::Analogue => planes.analogue[plane].iter().map(Number::float).collect(),
            Space::Digital => {
                planes.digital[plane].iter().map(|&bit| f64::from(u8::from(bit))).collect()
            }
        };
    }
}
