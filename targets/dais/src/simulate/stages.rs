//! Pipelines, stage by stage.

use super::exec::{Executor, exact_inputs, instruction, overflow, overflows};
use crate::program::{Operation, Pipeline};
use crate::verify::{Rules, verify_pipeline};
use quincunx_diag::{Diagnostic, Result, first_error};
use quincunx_num::{Dyadic, Int};

/// Runs the stages of a pipeline one after the other: output `j` of a stage is input `j` of the
/// next.
#[derive(Clone, Debug)]
pub struct PipelineExecutor {
    stages: Vec<Executor>,
}

impl PipelineExecutor {
    /// Prepares all stages.
    ///
    /// # Errors
    /// As [`Executor::new`], and when the ports of two stages do not fit each other.
    pub fn new(pipeline: &Pipeline) -> Result<PipelineExecutor> {
        first_error(verify_pipeline(pipeline, &Rules::EXECUTABLE))?;
        Ok(PipelineExecutor::of_legal(pipeline))
    }

    /// Prepares a pipeline that was verified.
    pub(crate) fn of_legal(pipeline: &Pipeline) -> PipelineExecutor {
        PipelineExecutor { stages: pipeline.stages.iter().map(Executor::of_legal).collect() }
    }

    /// As [`Executor::with_exact_mux`], for all stages.
    #[must_use]
    pub fn with_exact_mux(mut self, exact: bool) -> PipelineExecutor {
        let stages = self.stages.into_iter().map(|stage| stage.with_exact_mux(exact));
        self.stages = stages.collect();
        self
    }

    /// The stages.
    pub fn stages(&self) -> &[Executor] {
        &self.stages
    }

    /// One run. Registers keep what they hold for the next run.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn run(&mut self, inputs: &[f64]) -> Result<Vec<f64>> {
        self.run_with(inputs, &mut |_, _, _, _| {})
    }

    /// Says in which stage a fault is, unless there is only one.
    fn placed(&self) -> impl Fn(usize, Diagnostic) -> Diagnostic + use<> {
        let is_pipeline = self.stages.len() > 1;
        move |stage, fault| match is_pipeline {
            true => fault.with_note(format!("in stage {stage}")),
            false => fault,
        }
    }

    /// One run that calls `observe` after every operation, as [`Executor::run_with`] does, with
    /// the number of the stage before the other arguments.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn run_with(
        &mut self,
        inputs: &[f64],
        observe: &mut impl FnMut(usize, usize, &Operation, &mut Int),
    ) -> Result<Vec<f64>> {
        let mut values = exact_inputs(inputs)?;
        let placed = self.placed();
        for (number, stage) in self.stages.iter_mut().enumerate() {
            let results = stage.run_exact(values, &mut |index, operation, value| {
                observe(number, index, operation, value);
            });
            values = results.map_err(|fault| placed(number, fault))?;
        }
        Ok(values.iter().map(Dyadic::to_f64).collect())
    }

    /// One run that also checks that no operation leaves its type; see [`Executor::run_strict`].
    ///
    /// # Errors
    /// As [`Executor::run_strict`].
    pub fn run_strict(&mut self, inputs: &[f64]) -> Result<Vec<f64>> {
        let placed = self.placed();
        let mut fault = None;
        // Those of an earlier run, if this one does not reach all stages.
        self.stages.iter_mut().for_each(|stage| stage.mux_fault = None);
        let result = self.run_with(inputs, &mut |stage, index, operation, value| {
            if fault.is_none() && overflows(operation, value) {
                fault = Some((stage, placed(stage, overflow(index, operation, value))));
            }
        });
        let mux = self.stages.iter_mut().enumerate().find_map(|(number, stage)| {
            let fault = stage.mux_fault.take()?;
            Some((number, placed(number, fault)))
        });
        let faults = fault.into_iter().chain(mux);
        let first = faults.min_by_key(|(stage, fault)| (*stage, instruction(fault)));
        first.map_or(result, |(_, fault)| Err(fault))
    }
}
