//! The same machine, prepared and vectorised: equal to the executor in every number.
//!
//! A program is looked through once. The range of every value is proved from the inputs on, so that
//! every operation runs in the narrowest of 16, 32 and 64-bit lanes that holds its operands, its
//! result and what is between, and wraps only where something may wrap. Registers of lanes are used
//! again as soon as their values are read no more. A block of samples goes through all steps
//! before the next one, in registers that stay in the cache. Steps are plain loops, compiled once
//! for every set of vector instructions.
//!
//! Samples of a program with registers run one after the other, each alone in its block.
//!
//! What this cannot do goes through the executor: programs with numbers of more than 64 bits as a
//! whole, and blocks of samples in which a lookup finds no entry or an input is not a number.

mod emit;
mod integer;
mod lower;
mod node;
mod ports;
mod range;
mod run;
mod step;

use super::PipelineExecutor;
use crate::program::{Output, Pipeline};
use crate::verify::{Rules, verify_pipeline};
use integer::LINE;
use ports::Rows;
use quincunx_diag::{Diagnostic, Result, first_error};
use quincunx_num::Level;
use run::{Block, State};
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use step::Steps;

/// Bytes of registers that a block may fill: what stays in a second-level cache beside the samples.
const BLOCK_BYTES: usize = 512 << 10;

/// Most lines of a block.
const MAX_LINES: usize = 32;

/// Most threads that are started, whatever is asked for.
const MAX_THREADS: usize = 256;

/// A program, or the stages of a pipeline, ready to run on many samples.
#[derive(Clone, Debug)]
pub struct Fast {
    steps: Steps,
    level: Level,
    columns: usize,
    /// Lines of a block.
    lines: usize,
    pipeline: Arc<Pipeline>,
    /// For what the steps cannot do; most programs never need it.
    executor: OnceLock<PipelineExecutor>,
    /// Results besides the outputs.
    taps: Vec<(usize, Output)>,
    /// Start values of the registers, which follow the inputs and the outputs of a sample.
    start: Vec<f64>,
}

/// What a thread needs to run blocks.
#[derive(Clone, Debug)]
pub struct Worker {
    state: State,
    /// Whole lines, for blocks that do not fill theirs.
    numbers: Vec<f64>,
    results: Vec<f64>,
    /// What the registers of the program hold.
    pub(crate) registers: Vec<f64>,
}

impl Fast {
    /// Prepares a program; `None` when only the executor can run it, because it needs more than
    /// 64 bits, or one of its registers more than a float holds.
    ///
    /// # Errors
    /// As [`PipelineExecutor::new`].
    pub fn new(pipeline: &Pipeline) -> Result<Option<Fast>> {
        Fast::with(pipeline, &[], Level::best())
    }

    /// As [`Fast::new`], with certain instructions, and with `taps`: further results, read from
    /// slots of a stage, that follow the outputs of each sample.
    ///
    /// # Errors
    /// As [`Fast::new`].
    ///
    /// # Panics
    /// When this processor does not have the instructions.
    pub fn with(
        pipeline: &Pipeline,
        taps: &[(usize, Output)],
        level: Level,
    ) -> Result<Option<Fast>> {
        first_error(verify_pipeline(pipeline, &Rules::EXECUTABLE))?;
        Ok(Fast::of_legal(&Arc::new(pipeline.clone()), taps, level))
    }

    /// As [`Fast::with`], of a pipeline that was verified.
    pub(crate) fn of_legal(
        pipeline: &Arc<Pipeline>,
        taps: &[(usize, Output)],
        level: Level,
    ) -> Option<Fast> {
        assert!(level.is_available(), "this processor lacks {level}");
        // Registers become inputs and outputs.
        let (mut pipeline, mut start) = (Arc::clone(pipeline), Vec::new());
        if pipeline.has_state() {
            let stages = Arc::make_mut(&mut pipeline).stages.iter_mut();
            start = stages.flat_map(|stage| std::mem::take(&mut stage.state)).collect();
        }
        let lowered = lower::lower(&pipeline, taps)?;
        let steps = lowered.outputs_are_floats(start.len()).then(|| emit::emit(&lowered))??;
        let columns = pipeline.stages.first().map_or(0, |stage| stage.input_shifts.len());
        let line = (steps.bytes() * LINE).max(1);
        let lines = (BLOCK_BYTES / line).clamp(1, MAX_LINES);
        let (executor, taps) = (OnceLock::new(), taps.to_vec());
        Some(Fast { steps, level, columns, lines, pipeline, executor, taps, start })
    }

    /// Numbers of a sample that go in.
    pub fn inputs(&self) -> usize {
        self.columns - self.start.len()
    }

    /// Numbers of a sample that come out: outputs, then taps.
    pub fn outputs(&self) -> usize {
        self.steps.outputs.len() - self.start.len()
    }

    /// Samples that go through all operations together.
    pub fn block_len(&self) -> usize {
        self.lines * LINE
    }

    /// Runs samples, which lie one after the other in `inputs`, on so many threads. The results do
    /// not depend on the number of threads. Registers begin with their start values; samples of a
    /// program that has any run in order, on one thread.
    ///
    /// # Errors
    /// Those of the executor on the first sample that has any.
    pub fn run(&self, samples: usize, inputs: &[f64], threads: NonZeroUsize) -> Result<Vec<f64>> {
        let (columns, found) = (self.inputs(), inputs.len());
        if samples.checked_mul(columns) != Some(found) {
            let message =
                format!("{samples} samples of {columns} inputs each, found {found} numbers");
            return Err(Diagnostic::invalid("Q1101", message));
        }
        let width = self.outputs();
        let mut results = vec![0.0; samples * width];
        let part = if self.start.is_empty() { self.part(samples, threads) } else { samples };
        if part >= samples {
            let mut worker = self.worker_for(samples);
            self.run_on(&mut worker, samples, inputs, &mut results)?;
            return Ok(results);
        }
        let done: Vec<Result<()>> = std::thread::scope(|scope| {
            let mut rest = &mut results[..];
            let mut workers = Vec::new();
            for first in (0..samples).step_by(part) {
                let count = part.min(samples - first);
                let (own, others) = rest.split_at_mut(count * width);
                rest = others;
                let inputs = &inputs[first * self.columns..][..count * self.columns];
                workers.push(scope.spawn(move || {
                    let mut worker = self.worker();
                    self.run_on(&mut worker, count, inputs, own)
                }));
            }
            let join = |worker: std::thread::ScopedJoinHandle<'_, Result<()>>| {
                worker.join().unwrap_or_else(|bug| std::panic::resume_unwind(bug))
            };
            workers.into_iter().map(join).collect()
        });
        done.into_iter().collect::<Result<()>>()?;
        Ok(results)
    }

    /// Samples for one thread: whole blocks.
    fn part(&self, samples: usize, threads: NonZeroUsize) -> usize {
        let block = self.block_len();
        let threads = threads.get().min(MAX_THREADS);
        samples.div_ceil(block).div_ceil(threads) * block
    }

    /// Registers for a thread of its own.
    pub fn worker(&self) -> Worker {
        self.worker_for(usize::MAX)
    }

    /// Registers for no more samples at a time.
    fn worker_for(&self, samples: usize) -> Worker {
        let lines = samples.div_ceil(LINE).clamp(1, self.lines);
        let state = State::new(&self.steps, lines * LINE);
        let registers = self.start.clone();
        Worker { state, numbers: Vec::new(), results: Vec::new(), registers }
    }

    /// Runs samples on this thread and writes their results one after the other. Registers keep
    /// what they hold for the next run.
    ///
    /// # Errors
    /// As [`Fast::run`].
    pub fn run_on(
        &self,
        worker: &mut Worker,
        samples: usize,
        inputs: &[f64],
        results: &mut [f64],
    ) -> Result<()> {
        if !self.start.is_empty() {
            return self.in_order(worker, samples, inputs, results);
        }
        let width = self.outputs();
        let block = self.block_len();
        for first in (0..samples).step_by(block) {
            quincunx_stop::check();
            let count = block.min(samples - first);
            let inputs = &inputs[first * self.columns..][..count * self.columns];
            let results = &mut results[first * width..][..count * width];
            self.block_or_each(worker, count, inputs, results)?;
        }
        Ok(())
    }

    /// One sample after the other, with what the one before left in the registers.
    fn in_order(
        &self,
        worker: &mut Worker,
        samples: usize,
        inputs: &[f64],
        results: &mut [f64],
    ) -> Result<()> {
        let (columns, width, own) =
            (self.inputs(), self.outputs(), self.outputs() - self.taps.len());
        let mut row = vec![0.0; self.columns];
        let mut all = vec![0.0; self.steps.outputs.len()];
        for sample in 0..samples {
            row[..columns].copy_from_slice(&inputs[sample * columns..][..columns]);
            row[columns..].copy_from_slice(&worker.registers);
            self.block_or_each(worker, 1, &row, &mut all)?;
            let (outputs, rest) = all.split_at(own);
            let (registers, taps) = rest.split_at(self.start.len());
            worker.registers.copy_from_slice(registers);
            let result = &mut results[sample * width..][..width];
            result[..own].copy_from_slice(outputs);
            result[own..].copy_from_slice(taps);
        }
        Ok(())
    }

    /// Runs a block, by the executor if need be. Registers are inputs and outputs here.
    fn block_or_each(
        &self,
        worker: &mut Worker,
        count: usize,
        inputs: &[f64],
        results: &mut [f64],
    ) -> Result<()> {
        let is_done = ports::are_finite(inputs) && self.block(worker, count, inputs, results);
        if is_done { Ok(()) } else { self.one_by_one(count, inputs, results) }
    }

    /// Runs a block; false when a lookup finds no entry.
    fn block(&self, worker: &mut Worker, count: usize, inputs: &[f64], out: &mut [f64]) -> bool {
        let in_lines = count.next_multiple_of(LINE);
        let samples = if self.start.is_empty() { in_lines } else { count };
        let Worker { state, numbers, results, .. } = worker;
        if samples == count {
            let rows = Rows { numbers: inputs, columns: self.columns, samples };
            return self.level.run(Block { steps: &self.steps, state, rows, results: out });
        }
        // What a lookup does with samples that are none is not seen: they repeat the first one.
        numbers.clear();
        numbers.extend_from_slice(inputs);
        for _ in count..samples {
            numbers.extend_from_slice(&inputs[..self.columns]);
        }
        results.resize(samples * self.steps.outputs.len(), 0.0);
        let rows = Rows { numbers, columns: self.columns, samples };
        let is_fine = self.level.run(Block { steps: &self.steps, state, rows, results });
        out.copy_from_slice(&results[..out.len()]);
        is_fine
    }

    /// The same by the executor.
    #[cold]
    fn one_by_one(&self, count: usize, inputs: &[f64], results: &mut [f64]) -> Result<()> {
        let new = || PipelineExecutor::of_legal(&self.pipeline);
        let mut executor = self.executor.get_or_init(new).clone();
        let width = self.steps.outputs.len();
        for sample in 0..count {
            let outputs = executor.run(&inputs[sample * self.columns..][..self.columns])?;
            let stages = executor.stages();
            let taps = self.taps.iter().map(|(stage, tap)| stages[*stage].read(tap));
            let numbers = outputs.into_iter().chain(taps);
            for (result, number) in results[sample * width..][..width].iter_mut().zip(numbers) {
                *result = number;
            }
        }
        Ok(())
    }
}
