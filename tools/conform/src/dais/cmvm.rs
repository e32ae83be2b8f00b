//! Constant matrices: `X.npy` (one row per input) and da4ml's solutions `X.RUN.pipeline.json` with
//! what it recorded about them. Our own solution and da4ml's must be exactly the product.
//!
//! da4ml's solutions are adder graphs rather than programs: the second stage declares the intervals of
//! its inputs without the shifts and signs that the first gives them. So their inputs are not
//! quantised here.

use super::{Check, check_text, first, read_json};
use crate::folder;
use crate::report::Report;
use quincunx_dais::files::{self, Pipeline};
use quincunx_dais::isa::Inst;
use quincunx_dais::program::{Operation, Output, Program};
use quincunx_dais::simulate::PipelineExecutor;
use quincunx_dais::time::{Origin, model};
use quincunx_dais::verify::{Rules, verify_pipeline};
use quincunx_dais::{Effort, constant_product};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::npy;
use serde_json::Value;
use std::path::Path;

/// Random samples besides the unit vectors and the bounds.
const SAMPLES: usize = 32;

/// What da4ml recorded about its solutions.
const RECORDED: &str = "results_da4ml_0.6.0.json";

/// A constant matrix.
struct Matrix {
    /// One row per input.
    rows: Vec<Vec<i64>>,
    columns: usize,
}

/// Runs every matrix and every pipeline of the folder.
pub(super) fn run(path: &Path, report: &mut Report) -> Result<()> {
    let files = folder::list(path)?.files;
    let recorded = match files.iter().any(|name| name == RECORDED) {
        true => folder::read_text(&path.join(RECORDED)).and_then(|text| {
            serde_json::from_str(&text).map_err(|error| format!("{RECORDED}: {error}"))
        }),
        false => Ok(Value::Null),
    };
    for name in &files {
        if let Some(stem) = name.strip_suffix(".npy") {
            report.case(stem, Matrix::read(path, stem).and_then(|matrix| matrix.solve()));
        } else if let Some(stem) = name.strip_suffix(".pipeline.json") {
            let check = |recorded: &Value| check_pipeline(path, name, stem, recorded);
            report.case(stem, recorded.as_ref().map_err(String::clone).and_then(check));
        }
    }
    Ok(())
}

impl Matrix {
    fn read(path: &Path, stem: &str) -> Check<Matrix> {
        let name = format!("{stem}.npy");
        let bytes = folder::read(&path.join(&name))?;
        let tensor = npy::read_npy(bytes).map_err(|error| format!("{name}: {error}"))?;
        let (&[rows, columns], Some(weights)) = (tensor.shape(), tensor.to_i64()) else {
            return Err(format!("{name} is not a matrix of integers"));
        };
        let row = |row: usize| weights[row * columns..(row + 1) * columns].to_vec();
        Ok(Matrix { rows: (0..rows).map(row).collect(), columns })
    }

    /// Our own program of the matrix, at effort fast, with 8-bit signed inputs.
    fn solve(&self) -> Check {
        let weights: Vec<i64> = self.rows.concat();
        let inputs = vec![(-128, 127); self.rows.len()];
        let program = constant_product(&weights, self.columns, &inputs, Effort::Fast, None)
            .map_err(reason)?;
        let is_adder =
            |inst| matches!(inst, Inst::Input { .. } | Inst::Add { .. } | Inst::Sub { .. });
        if !program.operations.iter().all(|operation| is_adder(operation.inst)) {
            return Err("the program has other operations than adders".to_owned());
        }
        self.check(&program)
    }

    /// No result leaves its type, and every sample gives exactly the product. The programs are
    /// linear, so that unit vectors and the absence of overflows prove it for all inputs.
    fn check(&self, program: &Program) -> Check {
        let pipeline = Pipeline::from(program.clone());
        let problems = verify_pipeline(&pipeline, &Rules::default());
        let broken = |problem: &&Diagnostic| problem.is_error() || problem.code() == "Q1036";
        if let Some(problem) = problems.iter().find(broken) {
            return Err(problem.to_string());
        }
        let mut executor = PipelineExecutor::new(&pipeline).map_err(reason)?;
        self.compare(&pipeline, |sample| executor.run(sample).map_err(reason))
    }

    fn compare(&self, of: &Pipeline, mut run: impl FnMut(&[f64]) -> Check<Vec<f64>>) -> Check {
        for sample in self.samples(of)? {
            let outputs = run(&sample)?;
            let expected: Vec<f64> = (0..self.columns).map(|j| self.column(&sample, j)).collect();
            if outputs != expected {
                return Err(format!("{sample:?} gives {outputs:?}, expected {expected:?}"));
            }
        }
        Ok(())
    }

    /// Exact: weights and inputs have few bits.
    fn column(&self, sample: &[f64], column: usize) -> f64 {
        // A zero of either sign.
        self.rows.iter().zip(sample).map(|(row, x)| row[column] as f64 * x).sum::<f64>() + 0.0
    }

    /// Unit vectors, all bounds at once, and others, within the declared intervals.
    fn samples(&self, pipeline: &Pipeline) -> Check<Vec<Vec<f64>>> {
        let mut bounds = vec![(0.0, 0.0, 1.0); self.rows.len()];
        let stage = pipeline.stages.first().ok_or("a pipeline without stages")?;
        for operation in &stage.operations {
            let Inst::Input { source } = operation.inst else { continue };
            let (index, range) = (source.0 as usize, operation.slot_type.interval());
            if let (Some(bounds), Some(range)) = (bounds.get_mut(index), range) {
                let step = 2f64.powi(range.exponent());
                *bounds = (range.min().to_f64(), range.max().to_f64(), step);
            }
        }
        let mut samples: Vec<Vec<f64>> = vec![
            bounds.iter().map(|bound| bound.0).collect(),
            bounds.iter().map(|bound| bound.1).collect(),
        ];
        for index in 0..bounds.len() {
            for end in [bounds[index].0, bounds[index].1] {
                let mut unit = vec![0.0; bounds.len()];
                unit[index] = end;
                samples.push(unit);
            }
        }
        let mut state = 1_u64;
        for _ in 0..SAMPLES {
            let value = |&(low, high, step): &(f64, f64, f64)| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let part = (state >> 33) as f64 / 2f64.powi(31);
                low + ((high - low) / step * part).floor() * step
            };
            samples.push(bounds.iter().map(value).collect());
        }
        Ok(samples)
    }
}

/// A solution of da4ml: it reads, is the product, costs what was recorded, and is written again.
fn check_pipeline(path: &Path, name: &str, stem: &str, recorded: &Value) -> Check {
    let (matrix, run) = stem.rsplit_once('.').ok_or("expected MATRIX.RUN.pipeline.json")?;
    let pipeline = read_json(&folder::read_text(&path.join(name))?)?;
    let problems = verify_pipeline(&pipeline, &Rules::default());
    if let Some(problem) = problems.iter().find(|problem| problem.is_error()) {
        return Err(problem.to_string());
    }
    Matrix::read(path, matrix)?.compare(&pipeline, |sample| graph_outputs(&pipeline, sample))?;
    check_text(&pipeline)?;
    let written = files::write_pipeline_json(&pipeline).map_err(reason)?;
    let again = files::read_json(&written, false).map_err(|problems| first(&problems))?;
    if again.pipeline != pipeline {
        return Err("written and read again differs".to_owned());
    }
    let total = check_costs(&pipeline)?;
    let expected = &recorded[matrix]["results"][run]["cost"];
    match expected.as_f64() {
        Some(cost) if (cost - total).abs() > 1e-6 * cost => {
            Err(format!("the cost is {total}, da4ml says {cost}"))
        }
        _ => Ok(()),
    }
}

/// What the adders give, their inputs being any numbers. Exact: the numbers have few bits.
fn graph_outputs(pipeline: &Pipeline, sample: &[f64]) -> Check<Vec<f64>> {
    let mut values = sample.to_vec();
    for stage in &pipeline.stages {
        let mut slots: Vec<f64> = Vec::with_capacity(stage.operations.len());
        for Operation { inst, .. } in &stage.operations {
            slots.push(match *inst {
                Inst::Input { source } => {
                    let index = source.0 as usize;
                    values[index] * power(stage.input_shifts[index].into())
                }
                Inst::Add { a, b, shift } => {
                    slots[a.0 as usize] + slots[b.0 as usize] * power(shift)
                }
                Inst::Sub { a, b, shift } => {
                    slots[a.0 as usize] - slots[b.0 as usize] * power(shift)
                }
                _ => return Err(format!("`{}` is not an adder", inst.mnemonic())),
            });
        }
        let output = |output: &Output| {
            let value = output.source.map_or(0.0, |slot| slots[slot.0 as usize]);
            let value = value * power(output.shift.into());
            // A zero of either sign.
            if output.negate { 0.0 - value } else { value + 0.0 }
        };
        values = stage.outputs.iter().map(output).collect();
    }
    Ok(values)
}

fn power(exponent: i64) -> f64 {
    2f64.powi(i32::try_from(exponent).unwrap_or(0))
}

/// The recorded latency and cost of every operation, computed again; the sum of the costs.
fn check_costs(pipeline: &Pipeline) -> Check<f64> {
    let mut total = 0.0;
    for (number, stage) in pipeline.stages.iter().enumerate() {
        let model = model(stage, Origin::Solver).map_err(reason)?;
        for (index, (operation, found)) in stage.operations.iter().zip(model).enumerate() {
            let recorded = (operation.latency, operation.cost);
            if recorded != found {
                let place = format!("stage {number}, operation {index}");
                return Err(format!("{place}: latency and cost {found:?}, recorded {recorded:?}"));
            }
            total += found.1;
        }
    }
    Ok(total)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn reason(problem: Diagnostic) -> String {
    problem.to_string()
}
