//! What the host does around a program (`tensil` in `docs/bibliography.md`): it sets the
//! configuration, moves constants, and behind the program sends a probe that comes back when
//! everything before it is done, and padding.

use super::{Executor, State};
use crate::arch::TcuArch;
use crate::binary::Coder;
use crate::isa::{Inst, Register};
use crate::package::{ConstData, Package};
use crate::program::{Memory, Program, Step};
use quincunx_diag::{Diagnostic, Result};

/// What the host may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Base of DRAM0 in blocks of 64 KiB.
    pub dram0_offset: u32,
    /// Base of DRAM1 in blocks of 64 KiB.
    pub dram1_offset: u32,
    /// The timeout register.
    pub timeout: u32,
    /// The tracepoint register; `None` leaves it.
    pub tracepoint: Option<u32>,
    /// Cycles between samples, 0 for none.
    pub sample_interval: u32,
    /// Bytes of the instruction stream's bus; the stream is padded to a multiple of it.
    pub stream_bytes: u32,
    /// Sends the probe.
    pub flush_probe: bool,
    /// Vectors of constants to move from the start of DRAM1 to that of local memory.
    pub local_consts: u64,
}

/// The contents of the two probe vectors before the probe: they differ, and are equal behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The vector that is sent.
    Sent,
    /// The vector that is overwritten.
    Overwritten,
}

impl Pattern {
    /// The vector. Its scalars are small numbers in every format.
    pub fn vector(self, arch: &TcuArch) -> Vec<i32> {
        let start = match self {
            Pattern::Sent => 1,
            Pattern::Overwritten => 2,
        };
        (0..arch.lanes()).map(|lane| start + (lane % 2) as i32).collect()
    }
}

fn step(inst: Inst) -> Step {
    Step { tid: 0, inst }
}

/// The instructions of the probe, through the last vector of local memory: from the last vector of
/// DRAM0 to the one before it.
///
/// # Errors
/// `Q3065` when DRAM0 has less than two vectors.
pub fn flush_probe(arch: &TcuArch) -> Result<[Step; 2]> {
    let Some(overwritten) = arch.dram0_depth.checked_sub(2) else {
        let message = "the flush probe needs two vectors of DRAM0";
        return Err(Diagnostic::unsupported("Q3065", message).help("give --flush-probe=false"));
    };
    let local = (arch.local_depth - 1) as u32;
    let (local_stride, stride, size) = (0, 0, 0);
    let sent = overwritten + 1;
    Ok([
        step(Inst::Dram0ToLocal { local, local_stride, address: sent, stride, size }),
        step(Inst::LocalToDram0 { local, local_stride, address: overwritten, stride, size }),
    ])
}

impl Package {
    /// What the host does for this program when nothing else is asked for.
    pub fn driver(&self) -> Driver {
        let local = self.model.as_ref().is_some_and(|model| model.load_consts_to_local);
        let vectors = |part: &ConstData| self.arch().vectors(part.scalars.len());
        let ends = self.consts.iter().map(|part| part.base.saturating_add(vectors(part)));
        Driver {
            dram0_offset: 0,
            dram1_offset: 0,
            timeout: 100,
            tracepoint: None,
            sample_interval: 0,
            stream_bytes: 8,
            flush_probe: true,
            local_consts: if local { ends.max().unwrap_or(0) } else { 0 },
        }
    }

    /// Writes the constants to DRAM1.
    ///
    /// # Errors
    /// Those of [`State::write`].
    pub fn load(&self, state: &mut State) -> Result<()> {
        self.consts.iter().try_for_each(|part| state.write(Memory::Dram1, part.base, &part.scalars))
    }
}

impl Driver {
    /// Sets the configuration. A machine with two threads has no instruction for it, and starts with
    /// the defaults.
    pub fn configuration(&self, arch: &TcuArch) -> Vec<Step> {
        if arch.number_of_threads > 1 {
            return Vec::new();
        }
        let mut values = vec![
            (Register::Dram0Offset, self.dram0_offset),
            (Register::Dram1Offset, self.dram1_offset),
            (Register::Timeout, self.timeout),
        ];
        values.extend(self.tracepoint.map(|value| (Register::Tracepoint, value)));
        if self.sample_interval > 0 {
            values.push((Register::SampleInterval, self.sample_interval));
        }
        let configure = |(register, value): (Register, u32)| {
            step(Inst::Configure { register, value: value.into() })
        };
        values.into_iter().map(configure).collect()
    }

    /// Comes right before the program: constants for local memory, and the program counter, which
    /// is 1 at the first instruction when samples are taken (as upstream has it), else 0.
    pub fn before(&self, arch: &TcuArch) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Some(size) = self.local_consts.checked_sub(1) {
            let (local, local_stride, address, stride) = (0, 0, 0, 0);
            let size = size as u32;
            steps.push(step(Inst::Dram1ToLocal { local, local_stride, address, stride, size }));
        }
        if arch.number_of_threads == 1 {
            let value = u64::from(self.sample_interval > 0);
            steps.push(step(Inst::Configure { register: Register::ProgramCounter, value }));
        }
        steps
    }

    /// Comes behind a stream of so many instructions: the probe and the padding.
    ///
    /// # Errors
    /// Those of [`flush_probe`] and of the layout.
    pub fn after(&self, arch: &TcuArch, instructions: usize) -> Result<Vec<Step>> {
        let mut steps = match self.flush_probe {
            true => flush_probe(arch)?.to_vec(),
            false => Vec::new(),
        };
        let bytes = Coder::new(arch)?.bytes();
        let width = self.stream_bytes.max(1) as usize;
        while !((instructions + steps.len()) * bytes).is_multiple_of(width) {
            steps.push(step(Inst::NoOp { thread: 0 }));
        }
        Ok(steps)
    }

    /// Everything that the host sends.
    ///
    /// # Errors
    /// As [`Driver::after`].
    pub fn stream(&self, program: &Program) -> Result<Program> {
        let arch = &program.arch;
        let mut steps = self.configuration(arch);
        steps.extend(self.before(arch));
        steps.extend(&program.steps);
        steps.extend(self.after(arch, steps.len())?);
        Ok(Program { arch: arch.clone(), steps })
    }

    /// Runs a program as the host does; `load` fills the DRAMs when the configuration is set.
    /// Instructions in messages are those of the program. True when the probe came back, or none
    /// was sent.
    ///
    /// # Errors
    /// Those of [`Executor::step`] and [`Driver::after`].
    pub fn run(
        &self,
        executor: &mut Executor,
        program: &Program,
        load: impl FnOnce(&mut State) -> Result<()>,
    ) -> Result<bool> {
        self.run_with(executor, program, load, |executor| executor.run(&program.steps))
    }

    /// As [`Driver::run`], where `execute` runs the instructions of the program itself.
    ///
    /// # Errors
    /// As [`Driver::run`], and those of `execute`.
    pub fn run_with(
        &self,
        executor: &mut Executor,
        program: &Program,
        load: impl FnOnce(&mut State) -> Result<()>,
        execute: impl FnOnce(&mut Executor) -> Result<()>,
    ) -> Result<bool> {
        let arch = &program.arch;
        executor.reset();
        executor.run(&self.configuration(arch))?;
        load(&mut executor.state)?;
        let probe = arch.dram0_depth.checked_sub(2).filter(|_| self.flush_probe);
        if let Some(overwritten) = probe {
            let (sent, other) = (Pattern::Sent.vector(arch), Pattern::Overwritten.vector(arch));
            executor.state.write(Memory::Dram0, overwritten + 1, &sent)?;
            executor.state.write(Memory::Dram0, overwritten, &other)?;
        }
        executor.run(&self.before(arch))?;
        executor.restart_count();
        execute(executor)?;
        executor.run(&self.after(arch, program.steps.len())?)?;
        // The host looks where it has put things, whatever the program did to the offsets.
        self.restore_offsets(&mut executor.state);
        let Some(overwritten) = probe else { return Ok(true) };
        let mut found = vec![0; arch.lanes()];
        executor.state.read(Memory::Dram0, overwritten, &mut found)?;
        Ok(found == Pattern::Sent.vector(arch))
    }

    fn restore_offsets(&self, state: &mut State) {
        if state.arch().number_of_threads == 1 {
            state.configure(Register::Dram0Offset, self.dram0_offset.into());
            state.configure(Register::Dram1Offset, self.dram1_offset.into());
        }
    }
}
