//! Adder graphs: products with constant matrices, and programs of da4ml and alkaid.

use crate::arrays::{Array, Given, tensors};
use crate::errors::warn;
use crate::program::{Program, native};
use crate::work::{busy, threads};
use pyo3::prelude::*;
use quincunx::diag::{Diagnostic, Sources};
use quincunx::target::File;
use quincunx::tensor::Tensor;
use quincunx::{Failure, Outcome};
use quincunx_dais::binary::convert;
use quincunx_dais::files::{self, packed};
use quincunx_dais::isa::{Dialect, Inst};
use quincunx_dais::program::{Operation, Pipeline};
use quincunx_dais::simulate::{Fast, PipelineExecutor};
use quincunx_dais::time::{Origin, model};
use quincunx_dais::{Cutoff, Effort, Product, ProductInput, register_bits, to_pipeline};
use std::sync::OnceLock;

/// A program of the machine, or the stages of a pipeline.
#[pyclass(frozen)]
pub(crate) struct Graph {
    pipeline: Pipeline,
    /// Prepared when it is first run; `None` where only the executor can.
    fast: OnceLock<Option<Fast>>,
}

impl From<Pipeline> for Graph {
    fn from(pipeline: Pipeline) -> Graph {
        Graph { pipeline, fast: OnceLock::new() }
    }
}

/// How a product is searched: effort, adder levels above the fewest, sizes of adders and carries.
type Search = (String, Option<u32>, (i32, i32));

/// The product with a constant matrix: rows of whole numbers and their common power of two, the number of
/// columns, and bounds, power of two of the step and latency of every input.
#[pyfunction]
pub(crate) fn solve(
    py: Python<'_>,
    matrix: (Vec<i64>, i32, usize),
    inputs: Vec<(i64, i64, i32, f64)>,
    search: Search,
) -> PyResult<Graph> {
    let (weights, exponent, columns) = matrix;
    let (effort, depth_slack, sizes) = search;
    let known = |(low, high, exponent, latency)| ProductInput { low, high, exponent, latency };
    let inputs: Vec<ProductInput> = inputs.into_iter().map(known).collect();
    busy(py, None, |_| {
        let effort = effort_named(&effort)?;
        let product = Product {
            weights: &weights,
            exponent,
            columns,
            inputs: &inputs,
            effort,
            depth_slack,
            sizes,
            origin: Origin::Solver,
        };
        Ok(Pipeline::from(product.program()?).into())
    })
}

/// How hard to search.
fn effort_named(name: &str) -> Outcome<Effort> {
    match name {
        "quick" => Ok(Effort::Quick),
        "fast" => Ok(Effort::Fast),
        "default" => Ok(Effort::Default),
        "max" => Ok(Effort::Max),
        _ => Err(Diagnostic::usage("Q0811", format!("no effort is named {name:?}"))
            .help("efforts are quick, fast, default and max")
            .into()),
    }
}

/// A program in the JSON of da4ml or alkaid, which may be compressed. `timed` gives it the latencies and
/// costs of the model.
#[pyfunction(name = "graph")]
pub(crate) fn read(py: Python<'_>, bytes: Vec<u8>, timed: bool) -> PyResult<Graph> {
    let (graph, warnings) = busy(py, None, |_| {
        let text = match bytes.starts_with(&[0x1f, 0x8b]) {
            true => files::decompress(&bytes)?,
            false => String::from_utf8(bytes)
                .map_err(|_| Diagnostic::invalid("Q0813", "a program in JSON is text in UTF-8"))?,
        };
        let mut read = files::read_json(&text, false).map_err(Failure::from)?;
        for stage in read.pipeline.stages.iter_mut().filter(|_| timed) {
            for (operation, time) in model(stage, Origin::Tracer)?.into_iter().enumerate() {
                let operation = &mut stage.operations[operation];
                (operation.latency, operation.cost) = time;
            }
        }
        Ok((Graph::from(read.pipeline), read.warnings))
    })?;
    warn(py, &warnings, &Sources::new())?;
    Ok(graph)
}

/// `a ± b * 2^shift`: a, b, shift, whether b is subtracted, bounds in steps and power of two of the step.
type Adder = (u32, u32, i64, bool, i128, i128, i32);

/// What an output reads: slot, shift, whether it is negated.
type Read = Option<(u32, i32, bool)>;

impl Graph {
    fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.pipeline.stages.iter().flat_map(|stage| &stage.operations)
    }

    fn run(&self, samples: usize, inputs: &[f64], count: Option<usize>) -> Outcome<Vec<f64>> {
        // Prepared twice where two threads begin at once, which does no harm.
        let fast = match self.fast.get() {
            Some(fast) => fast,
            None => {
                let prepared = Fast::new(&self.pipeline)?;
                self.fast.get_or_init(|| prepared)
            }
        };
        if let Some(fast) = fast {
            return Ok(fast.run(samples, inputs, threads(count))?);
        }
        let mut executor = PipelineExecutor::new(&self.pipeline)?;
        let mut results = Vec::new();
        let width = inputs.len() / samples.max(1);
        for sample in 0..samples {
            quincunx_stop::check();
            results.extend(executor.run(&inputs[sample * width..][..width])?);
        }
        Ok(results)
    }
}

#[pymethods]
impl Graph {
    /// Numbers of inputs and outputs, registers aside.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        let inputs = self.pipeline.stages.first().map_or(0, |stage| stage.ends().0);
        (inputs, self.pipeline.stages.last().map_or(0, |stage| stage.ends().1))
    }

    #[getter]
    fn stages(&self) -> usize {
        self.pipeline.stages.len()
    }

    /// Operations, additions among them, and their cost.
    #[getter]
    fn size(&self) -> (usize, usize, f64) {
        let adds = |o: &&Operation| matches!(o.inst, Inst::Add { .. } | Inst::Sub { .. });
        let cost = self.operations().map(|operation| operation.cost).sum::<f64>();
        (self.operations().count(), self.operations().filter(adds).count(), cost)
    }

    /// The earliest and the latest output.
    #[getter]
    fn latency(&self) -> (f64, f64) {
        let Some(last) = self.pipeline.stages.last() else { return (0.0, 0.0) };
        let of = |output: &quincunx_dais::program::Output| {
            let source = output.source.and_then(|slot| last.operations.get(slot.0 as usize));
            source.map_or(0.0, |operation| operation.latency)
        };
        let latencies = || last.outputs.iter().map(of);
        let latest = latencies().fold(0.0, f64::max);
        (latencies().fold(latest, f64::min), latest)
    }

    #[getter]
    fn register_bits(&self) -> u64 {
        register_bits(&self.pipeline)
    }

    /// The additions of a product, and what its outputs read.
    fn adders(&self) -> (Vec<Adder>, Vec<Read>) {
        let adder = |operation: &Operation| {
            let (a, b, shift, subtract) = match operation.inst {
                Inst::Add { a, b, shift } => (a, b, shift, false),
                Inst::Sub { a, b, shift } => (a, b, shift, true),
                _ => return None,
            };
            let range = operation.slot_type.interval()?;
            let [low, high] = [range.low(), range.high()].map(|bound| i128::try_from(bound).ok());
            Some((a.0, b.0, shift, subtract, low?, high?, range.exponent()))
        };
        let read = |output: &quincunx_dais::program::Output| {
            output.source.map(|slot| (slot.0, output.shift, output.negate))
        };
        let outputs = self.pipeline.stages.iter().flat_map(|stage| &stage.outputs);
        (self.operations().filter_map(adder).collect(), outputs.map(read).collect())
    }

    /// JSON as da4ml writes it, or alkaid.
    fn json(&self, py: Python<'_>, alkaid: bool) -> PyResult<String> {
        busy(py, None, |_| {
            let dialect = if alkaid { Dialect::A4 } else { Dialect::D1 };
            let stages = self.pipeline.stages.iter();
            let stages = stages.map(|stage| convert(stage, dialect).map(|done| done.program));
            let stages = stages.collect::<Result<Vec<_>, _>>()?;
            Ok(match (&stages[..], alkaid) {
                ([single], false) => files::write_json(single)?,
                ([single], true) if single.state.is_empty() => files::write_alir_json(single)?,
                (_, false) => files::write_pipeline_json(&Pipeline { stages })?,
                (_, true) => files::write_alir_pipeline_json(&Pipeline { stages })?,
            })
        })
    }

    /// Outputs of samples, which lie in the rows of an array of floats of 64 bits.
    fn run_rows(&self, py: Python<'_>, data: Given, count: Option<usize>) -> PyResult<Array> {
        busy(py, None, |_| {
            let (_, tensor) = tensors(vec![data])?.pop_first().expect("one array is given");
            let samples = tensor.shape()[0];
            let inputs = tensor.values::<f64>()?;
            let results = self.run(samples, &inputs, count)?;
            let shape = [samples, self.shape().1];
            Ok(Array::new(Tensor::from_vec(&shape, results)?))
        })
    }

    /// Divided into stages that take no longer than a cutoff.
    fn staged(&self, py: Python<'_>, latency: f64, retiming: bool) -> PyResult<Graph> {
        let (pipeline, warnings) = busy(py, None, |_| {
            let [program] = &self.pipeline.stages[..] else {
                let message = "a pipeline cannot be divided again";
                return Err(Diagnostic::usage("Q0814", message).into());
            };
            let staged = to_pipeline(program, Cutoff { latency, retiming }, &[])?;
            Ok((staged.pipeline, staged.warnings))
        })?;
        warn(py, &warnings, &Sources::new())?;
        Ok(pipeline.into())
    }

    /// The same as a program for all verbs.
    fn program(&self, py: Python<'_>, options: Vec<(String, String)>) -> PyResult<Program> {
        busy(py, None, |_| {
            let file = File::new("program.qdais".to_owned(), packed::write(&self.pipeline));
            native(&[file], &("dais".to_owned(), None, options), "program".to_owned())
        })
    }
}
