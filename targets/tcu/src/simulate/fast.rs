//! The same machine, prepared and vectorised: equal to the executor in every number.
//!
//! A program is looked through once: addresses become places in one array of cells, bounds are
//! checked, weights are marked where they change. Products of formats with at most 16 bits run in
//! kernels of vector instructions (`fast/narrow.rs`); everything else is compiled from plain loops.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod core;
#[cfg(target_arch = "x86_64")]
mod exact;
mod format;
mod lanes;
mod narrow;
mod op;
mod pages;
mod prepare;
mod products;
#[cfg(test)]
mod tests;

use self::core::{Core, Machine};
use super::{Driver, Float, Flow, Pattern};
use crate::arch::{DataType, TcuArch};
use crate::package::{ConstData, Package};
use crate::program::{Memory, Span};
use format::{Narrow, Wide};
use prepare::{Prepared, prepare};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::Level;

/// A program that is ready to run.
pub struct Fast {
    arch: TcuArch,
    prepared: Prepared,
    machine: Box<dyn Machine>,
    driver: Driver,
    constants: Vec<ConstData>,
    /// Nothing but the constants is ever written to DRAM1, where they stay.
    keeps_constants: bool,
}

impl Fast {
    /// Prepares a program with its constants; the host will write and read `spans` besides.
    /// `None` for a program that only the [`Executor`](super::Executor) can run: one that fails,
    /// raises a tracepoint, or spreads over too much DRAM.
    pub fn new(package: &Package, driver: &Driver, spans: &[Span]) -> Option<Fast> {
        Fast::for_level(package, driver, spans, Level::best())
    }

    /// As [`Fast::new`], with certain instructions.
    ///
    /// # Panics
    /// When this processor does not have the instructions.
    pub fn for_level(
        package: &Package,
        driver: &Driver,
        spans: &[Span],
        level: Level,
    ) -> Option<Fast> {
        assert!(level.is_available(), "this processor lacks {level}");
        let arch = package.arch();
        let lanes = arch.lanes() as u64;
        let mut host: Vec<Span> = spans.to_vec();
        host.extend(package.consts.iter().map(|part| Span {
            memory: Memory::Dram1,
            base: part.base,
            stride: 0,
            count: part.scalars.len() as u64 / lanes,
        }));
        if driver.flush_probe {
            let base = arch.dram0_depth.checked_sub(2)?;
            host.push(Span { memory: Memory::Dram0, base, stride: 0, count: 2 });
        }
        let host: Vec<(Span, u32)> =
            host.into_iter().map(|span| (span, offset(arch, driver, span.memory))).collect();
        let mut steps = driver.configuration(arch);
        steps.extend(driver.before(arch));
        let prologue = steps.len();
        steps.extend(&package.program.steps);
        steps.extend(driver.after(arch, package.program.steps.len()).ok()?);
        let prepared = prepare(arch, &steps, prologue, &host)?;
        let layout = prepared.layout.clone();
        let data_type = arch.data_type;
        let machine: Box<dyn Machine> = match (data_type, data_type.width()) {
            (DataType::Float32, _) => Box::new(Core::new(Float, layout, level)),
            (_, ..=16) => Box::new(Core::new(Narrow::new(data_type), layout, level)),
            _ => Box::new(Core::new(Wide::new(data_type), layout, level)),
        };
        let is_input = spans.iter().any(|span| span.memory == Memory::Dram1);
        let mut fast = Fast {
            arch: arch.clone(),
            keeps_constants: !prepared.changes_constants && !is_input,
            prepared,
            machine,
            driver: driver.clone(),
            constants: package.consts.clone(),
        };
        fast.load_constants().ok()?;
        Some(fast)
    }

    fn load_constants(&mut self) -> Result<()> {
        let constants = std::mem::take(&mut self.constants);
        let loaded = constants
            .iter()
            .try_for_each(|part| self.write(Memory::Dram1, part.base, &part.scalars));
        self.constants = constants;
        loaded
    }

    /// Where a vector is.
    fn place(&self, memory: Memory, address: u64, length: usize) -> Result<usize> {
        let layout = &self.prepared.layout;
        let lanes = layout.lanes as u64;
        let end = address.saturating_add((length as u64).div_ceil(lanes));
        if end > memory.depth(&self.arch) {
            let depth = memory.depth(&self.arch);
            return Err(super::state::out_of_memory(memory, end.saturating_sub(1), depth));
        }
        let physical =
            prepare::physical(&self.arch, address, offset(&self.arch, &self.driver, memory));
        let cell = match memory {
            Memory::Dram0 | Memory::Dram1 => self.prepared.pages[memory as usize].cell(physical),
            Memory::Local => Some(layout.local + address as usize * layout.lanes),
            Memory::Acc => Some(address as usize * layout.lanes),
        };
        cell.ok_or_else(|| Diagnostic::bug("the host touches what it did not announce"))
    }

    /// Copies vectors from consecutive addresses on.
    ///
    /// # Errors
    /// `Q3060` for addresses that the memory does not have; spans that were not announced are a bug.
    pub fn read(&self, memory: Memory, address: u64, out: &mut [i32]) -> Result<()> {
        if !out.is_empty() {
            self.machine.read(self.place(memory, address, out.len())?, out);
        }
        Ok(())
    }

    /// Writes vectors to consecutive addresses.
    ///
    /// # Errors
    /// As [`Fast::read`].
    pub fn write(&mut self, memory: Memory, address: u64, scalars: &[i32]) -> Result<()> {
        if !scalars.is_empty() {
            let place = self.place(memory, address, scalars.len())?;
            self.machine.write(place, scalars);
        }
        Ok(())
    }

    /// Runs the program from the start as the host does; `load` writes what was announced. True
    /// when the probe came back, or none was sent.
    ///
    /// # Errors
    /// Those of `load`.
    pub fn run(&mut self, load: impl FnOnce(&mut Fast) -> Result<()>) -> Result<bool> {
        self.run_past(load, &[], |_, _| Ok(()))
    }

    /// As [`Fast::run`]; stops behind so many instructions of the program, in order, and calls
    /// `observe` with the number of the stop. What it reads must have been announced.
    ///
    /// # Errors
    /// As [`Fast::run`], and those of `observe`.
    pub fn run_past(
        &mut self,
        load: impl FnOnce(&mut Fast) -> Result<()>,
        stops: &[usize],
        mut observe: impl FnMut(usize, &Fast) -> Result<()>,
    ) -> Result<bool> {
        let layout = &self.prepared.layout;
        let end = if self.keeps_constants { layout.drams[1] } else { layout.end };
        self.machine.reset(end);
        if !self.keeps_constants {
            self.load_constants()?;
        }
        load(self)?;
        let probe = self.arch.dram0_depth.checked_sub(2).filter(|_| self.driver.flush_probe);
        let [sent, other] =
            [Pattern::Sent, Pattern::Overwritten].map(|pattern| pattern.vector(&self.arch));
        if let Some(overwritten) = probe {
            self.write(Memory::Dram0, overwritten + 1, &sent)?;
            self.write(Memory::Dram0, overwritten, &other)?;
        }
        let mut done = 0;
        for (number, &stop) in stops.iter().enumerate() {
            let Prepared { program, prologue, .. } = &self.prepared;
            let end = program.partition_point(|placed| (placed.instruction as usize) < stop);
            let end = end.max(*prologue).max(done);
            self.machine.run(&program[done..end]);
            done = end;
            observe(number, self)?;
        }
        self.machine.run(&self.prepared.program[done..]);
        let Some(overwritten) = probe else { return Ok(true) };
        let mut found = vec![0; self.arch.lanes()];
        self.read(Memory::Dram0, overwritten, &mut found)?;
        Ok(found == sent)
    }

    /// Instructions whose results saturated in the last run, in order, and how often.
    pub fn saturations(&self) -> &[(usize, Flow)] {
        self.machine.flows()
    }
}

/// The offset at which the host finds a bank.
fn offset(arch: &TcuArch, driver: &Driver, memory: Memory) -> u32 {
    match memory {
        // A machine with two threads has no instruction that sets it.
        _ if arch.number_of_threads > 1 => 0,
        Memory::Dram0 => driver.dram0_offset,
        Memory::Dram1 => driver.dram1_offset,
        Memory::Local | Memory::Acc => 0,
    }
}
