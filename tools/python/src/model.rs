//! Networks.

use crate::arrays::{Array, Given, arrays, numpy_name, tensors};
use crate::errors::warn;
use crate::report::Report;
use crate::work::{busy, threads};
use pyo3::prelude::*;
use quincunx::diag::{Diagnostic, Result, Sources, suggestion};
use quincunx::graph::passes::{Method, Scheme};
use quincunx::import::{Dialect, ExportOptions, Options, write_onnx};
use quincunx::quantise::{Job, Widths, quantise as quantised, scheme_named, table};
use quincunx::run::{self, Idle, Layers};
use quincunx::target::Engine;
use quincunx::tensor::Tensors;
use quincunx::{Dataset, Executable, InputFile, InputSpec, Outcome, Stack, is_quantised};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// A network as it was read.
#[pyclass(frozen)]
pub(crate) struct Model(pub(crate) Arc<quincunx::Model>, OnceLock<Executable>);

impl Model {
    fn new(model: quincunx::Model) -> Self {
        Model(Arc::new(model), OnceLock::new())
    }

    /// The network as it is, which is prepared on its first run.
    fn reference(&self) -> &Executable {
        self.1.get_or_init(|| Executable::reference(&self.0.graph))
    }
}

/// Data as Python code gives it.
#[derive(FromPyObject)]
pub(crate) enum Data {
    /// A path, or `random:SEED`, `zeros`, `ones`, with the number of images to make up.
    Text((String, usize)),
    /// Arrays by name.
    Arrays(Vec<Given>),
}

impl Data {
    /// The images for these inputs, and the file that they are from.
    pub(crate) fn images(self, inputs: &[InputSpec]) -> Outcome<(Dataset, Option<InputFile>)> {
        match self {
            Data::Arrays(given) => {
                let arrays = tensors(given)?;
                check_names(&arrays, inputs)?;
                Ok((Dataset::of_arrays(arrays, inputs)?, None))
            }
            Data::Text((text, count)) => match Dataset::generate(&text, inputs, count) {
                Some(made) => Ok((made?, None)),
                None => {
                    let file = InputFile::open(&PathBuf::from(text))?;
                    Ok((Dataset::read(&file, inputs)?, Some(file)))
                }
            },
        }
    }
}

/// Arrays that Python code gives have the names that it says: unlike that of a file, an array alone is not
/// taken for the only input whatever it is called.
fn check_names(arrays: &Tensors, inputs: &[InputSpec]) -> Result<()> {
    let names = || inputs.iter().map(|input| input.name.as_str());
    let missing = |name: &str| !arrays.contains_key(name);
    let strange = arrays.keys().find(|name| !names().any(|input| input == *name));
    match strange {
        Some(name) if names().any(missing) && name != "labels" => {
            let problem = Diagnostic::usage("Q0811", format!("no input is named {name:?}"));
            Err(problem.help(suggestion(name, "inputs", names())))
        }
        _ => Ok(()),
    }
}

/// Which part of a model is read: outputs, inputs, shapes of inputs, extents of symbols, numbers of
/// inputs.
type Part = (
    Vec<String>,
    Vec<String>,
    Vec<(String, Vec<usize>)>,
    Vec<(String, usize)>,
    Vec<(String, String)>,
);

#[pyfunction]
pub(crate) fn load(
    py: Python<'_>,
    path: Option<PathBuf>,
    bytes: Option<Vec<u8>>,
    name: String,
    part: Part,
) -> PyResult<Model> {
    let (outputs, inputs, shapes, bindings, values) = part;
    let options = Options {
        outputs,
        inputs,
        input_shapes: shapes.into_iter().collect(),
        bindings: bindings.into_iter().collect(),
        input_values: values.into_iter().collect(),
        ..Options::default()
    };
    busy(py, None, move |_| {
        let file = match (path, bytes) {
            (Some(path), _) => InputFile::open(&path)?,
            (None, bytes) => {
                let bytes = bytes.unwrap_or_default().into();
                InputFile { name, path: None, bytes }
            }
        };
        Ok(Model::new(quincunx::Model::read_with(&file, &options)?))
    })
}

#[pymethods]
impl Model {
    /// The name for messages.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn format(&self) -> &'static str {
        self.0.format
    }

    /// Name, type and shape of every input.
    #[getter]
    fn inputs(&self) -> Vec<(String, String, Vec<usize>)> {
        specs(&InputSpec::of(&self.0.graph))
    }

    /// The same of every output.
    #[getter]
    fn outputs(&self) -> Vec<(String, String, Vec<usize>)> {
        let graph = &self.0.graph;
        let spec = |&id| {
            let value: &quincunx::graph::Value = &graph[id];
            (value.name.clone(), numpy_name(value.dtype), value.shape.to_vec())
        };
        graph.outputs().iter().map(spec).collect()
    }

    /// Name, operator, result and multiplications of every node.
    #[getter]
    fn nodes(&self) -> Vec<(String, &'static str, String, u64)> {
        let graph = &self.0.graph;
        let node = |(_, node): (_, &quincunx::graph::Node)| {
            let result = graph[node.output].name.clone();
            (node.name.clone(), node.op.name(), result, graph.macs(node))
        };
        graph.nodes().map(node).collect()
    }

    #[getter]
    fn is_quantised(&self) -> bool {
        is_quantised(&self.0.graph)
    }

    fn onnx(&self, py: Python<'_>, dialect: &str) -> PyResult<Vec<u8>> {
        let model = Arc::clone(&self.0);
        let dialect = dialect.to_owned();
        busy(py, None, move |_| {
            let options = ExportOptions { dialect: dialect_named(&dialect)? };
            Ok(write_onnx(&model.graph, &options)?)
        })
    }

    /// Outputs, or every value, in f32 and exactly where the model is quantised.
    fn run(
        &self,
        py: Python<'_>,
        data: Data,
        layers: bool,
        count: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<(String, Array)>> {
        executed(py, self.reference(), data, (Engine::Fast, layers, count), None, progress)
    }
}

fn dialect_named(name: &str) -> Outcome<Dialect> {
    match name {
        "auto" => Ok(Dialect::Auto),
        "qdq" => Ok(Dialect::Qdq),
        "qonnx" => Ok(Dialect::Qonnx),
        _ => Err(Diagnostic::usage("Q0811", format!("no dialect is named {name:?}"))
            .help("dialects are auto, qdq and qonnx")
            .into()),
    }
}

pub(crate) fn specs(inputs: &[InputSpec]) -> Vec<(String, String, Vec<usize>)> {
    let spec =
        |input: &InputSpec| (input.name.clone(), numpy_name(input.dtype), input.shape.clone());
    inputs.iter().map(spec).collect()
}

/// Outputs of all images, or everything that can be observed; in a simulator, on threads.
pub(crate) fn executed(
    py: Python<'_>,
    executable: &Executable,
    data: Data,
    (engine, layers, count): (Engine, bool, Option<usize>),
    idle: Option<&Idle>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<(String, Array)>> {
    let options = run::Options {
        layers: if layers { Layers::All } else { Layers::None },
        engine,
        threads: threads(count),
    };
    let (results, warnings) = busy(py, progress, |progress| {
        let mut data = match data {
            Data::Arrays(given) => {
                let tensors = tensors(given)?;
                check_names(&tensors, &executable.inputs)?;
                let stack = Stack::of_arrays(&tensors, &executable.inputs);
                if let (Some(stack), Some(idle)) = (&stack, idle)
                    && let Some(outputs) =
                        run::run_stacked(executable, stack, &options, progress, idle)
                {
                    return Ok((arrays(outputs), Vec::new()));
                }
                let tensors = stack.map_or(tensors, Stack::into_arrays);
                Dataset::of_arrays(tensors, &executable.inputs)?
            }
            other => other.images(&executable.inputs)?.0,
        };
        let traces = run::run_with(executable, &data, &options, progress, idle)?;
        let mut warnings = std::mem::take(&mut data.warnings);
        warnings.extend(run::clipped(&traces).iter().map(quincunx::target::Clipped::warning));
        let results = match layers {
            true => run::layers(&traces)?,
            false => run::outputs(&traces)?,
        };
        drop(traces);
        Ok((arrays(results), warnings))
    })?;
    warn(py, &warnings, &Sources::new())?;
    Ok(results)
}

/// How a model is quantised, in the words of the command line.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Quantising {
    scheme: String,
    method: String,
    percentile: f64,
    activations: Option<String>,
    widths: Option<String>,
    dialect: String,
    fold_batch_norm: bool,
    threads: Option<usize>,
}

/// A quantised model, and what became of its layers.
#[pyfunction]
pub(crate) fn quantise(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    data: Data,
    how: Quantising,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Model, Report)> {
    let model = Arc::clone(&model.get().0);
    let (result, report, warnings) = busy(py, progress, |progress| {
        let (mut data, _) = data.images(&InputSpec::of(&model.graph))?;
        let mut warnings = std::mem::take(&mut data.warnings);
        let scheme = scheme_named(&how.scheme)?;
        let widths = how.widths.map(|text| Widths::read(&widths_file(text)));
        let widths = widths.transpose()?;
        let job = Job {
            // As on the command line: a fixed-point machine has no batch normalisation in its weights.
            fold_batch_norm: how.fold_batch_norm && !matches!(scheme, Scheme::Uniform { .. }),
            scheme,
            signed: how.activations.as_deref().map(|sign| sign == "s8"),
            method: match how.method.as_str() {
                "min-max" => Method::MinMax,
                "percentile" => Method::Percentile(how.percentile),
                _ => Method::Mse,
            },
            widths: widths.as_ref(),
            dialect: dialect_named(&how.dialect)?,
            threads: threads(how.threads),
            ..Job::new(&model, &data.images)
        };
        let result = quantised(&job, progress)?;
        let report = quincunx::report::Report::from(table(&result));
        warnings.extend(result.warnings);
        let file = InputFile { name: model.name.clone(), path: None, bytes: result.file.into() };
        Ok((quincunx::Model::read(&file)?, report, warnings))
    })?;
    warn(py, &warnings, &Sources::new())?;
    Ok((Model::new(result), Report(report)))
}

fn widths_file(text: String) -> InputFile {
    InputFile { name: "<widths>".to_owned(), path: None, bytes: text.into_bytes().into() }
}
