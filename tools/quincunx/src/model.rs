//! Reading a model and preparing it for a machine.

use crate::detect::arrays_or_model;
use crate::{Dataset, Failure, InputFile, InputSpec, Outcome, targets};
use quincunx_contract::{Log, ModelFile, Numbers};
use quincunx_diag::Diagnostic;
use quincunx_graph::passes;
use quincunx_graph::{Graph, Op};
use quincunx_import::{Options, format_of, read_model};
use quincunx_tensor::Tensors;
use std::path::PathBuf;

/// File that calibration data is looked for in, beside the model.
pub(crate) const BESIDE: &str = "calib.npz";

/// A network as it was read.
#[derive(Clone, Debug)]
pub struct Model {
    /// File name for messages.
    pub name: String,
    /// Where it is; `None` for a stream.
    pub path: Option<PathBuf>,
    /// What it means.
    pub graph: Graph,
    /// How it was written, in words.
    pub format: &'static str,
    /// Options of a target that the file gives, by the name of the target.
    pub options: Option<(&'static str, Vec<(&'static str, String)>)>,
}

impl Model {
    /// Reads an ONNX model, a frozen TensorFlow graph, or a model of a machine's ecosystem; the
    /// contents say which it is.
    ///
    /// # Errors
    /// What the target says about its models; `Q04xx`, see [`quincunx_import::read_onnx`] and [`quincunx_import::read_graph_def`].
    pub fn read(file: &InputFile) -> Outcome<Self> {
        Self::read_with(file, &Options::default())
    }

    /// As [`Model::read`], with options. External data is looked up beside the file.
    ///
    /// # Errors
    /// As [`Model::read`]; `Q0637` for arrays, `Q0647` for options that a machine's model cannot have, `Q0415` for an option that names nothing of the model.
    pub fn read_with(file: &InputFile, options: &Options) -> Outcome<Self> {
        if let Some(found @ "arrays") = arrays_or_model(&file.name, &file.bytes) {
            let message = format!("expected a model, found {found}");
            return Err(Diagnostic::invalid("Q0637", message).in_file(&file.name).into());
        }
        if let Some((target, model)) = native(file)? {
            let without = Options { base_dir: options.base_dir.clone(), ..Options::default() };
            if *options != without {
                let message = format!("parts and shapes cannot be chosen in {}", model.kind);
                return Err(Diagnostic::usage("Q0647", message).in_file(&file.name).into());
            }
            return Ok(Model {
                name: file.name.clone(),
                path: file.path.clone(),
                graph: model.graph,
                format: model.kind,
                options: Some((target, model.options)),
            });
        }
        let beside = file.path.as_deref().map(Options::beside).unwrap_or_default();
        let options = Options { base_dir: beside.base_dir, ..options.clone() };
        let graph = read_model(file.bytes.clone(), &options)
            .map_err(|problems| crate::Failure::from(problems).name_file(&file.name))?;
        Ok(Model {
            name: file.name.clone(),
            path: file.path.clone(),
            graph,
            format: format_of(&file.bytes).name(),
            options: None,
        })
    }

    /// File name without folder.
    pub fn file_name(&self) -> String {
        let name = self.path.as_deref().and_then(|path| path.file_name());
        name.map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// File name without folder and ending.
    pub fn stem(&self) -> String {
        let stem = self.path.as_deref().and_then(|path| path.file_stem());
        stem.map_or_else(|| "model".to_owned(), |stem| stem.to_string_lossy().into_owned())
    }
}

/// A model of a machine's ecosystem, with the target that reads it.
fn native(file: &InputFile) -> Outcome<Option<(&'static str, ModelFile)>> {
    let whole = file.to_file();
    for target in targets() {
        let model = target.model(&whole).map_err(|problems| {
            Failure::in_files(problems, std::slice::from_ref(&whole)).name_file(&whole.name)
        })?;
        if let Some(model) = model {
            return Ok(Some((target.info().name, model)));
        }
    }
    Ok(None)
}

/// Where calibration data comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calibration<'a> {
    /// The file the user gave; without one, `calib.npz` beside the model.
    pub file: Option<&'a InputFile>,
    /// Data the result will be judged on, which must not be calibrated on.
    pub evaluated: Option<&'a InputFile>,
}

impl Calibration<'_> {
    fn samples(&self, model: &Model, graph: &Graph) -> Outcome<Vec<Tensors>> {
        let beside;
        let file = match self.file {
            Some(file) => file,
            None => {
                beside = find_beside(model)?;
                &beside
            }
        };
        if self.evaluated.is_some_and(|data| file.same_as(data)) {
            return Err(Diagnostic::usage(
                "Q0609",
                "the calibration data is the data being evaluated",
            )
            .in_file(&file.name)
            .help("give other data with --calibrate, or quantise the model beforehand")
            .into());
        }
        Ok(Dataset::read(file, &InputSpec::of(graph))?.images)
    }
}

fn find_beside(model: &Model) -> Outcome<InputFile> {
    let path = model.path.as_ref().map(|path| path.with_file_name(BESIDE));
    match path {
        Some(path) if path.is_file() => Ok(InputFile::open(&path)?),
        _ => Err(Diagnostic::usage(
            "Q0608",
            "the machine needs a quantised model, and there is no data to calibrate this one",
        )
        .in_file(&model.name)
        .help(format!(
            "give data with --calibrate, put {BESIDE} beside the model, or quantise the model \
             beforehand"
        ))
        .into()),
    }
}

/// True when some value lies on a grid: a quantiser node or a constant stored as codes.
pub fn is_quantised(graph: &Graph) -> bool {
    let quantises = |op: &Op| matches!(op, Op::Quantise(_) | Op::ToCodes(_) | Op::FromCodes(_));
    graph.nodes().any(|(_, node)| quantises(&node.op))
        || graph
            .values()
            .any(|(_, value)| value.constant.as_ref().is_some_and(|c| c.quantiser.is_some()))
}

/// The graph that is compiled: constants and, if wanted, batch normalisations folded, dead nodes
/// removed, and quantised if the machine needs that and the model is not.
pub(crate) fn prepare(
    model: &Model,
    fold_batch_norm: bool,
    numbers: &Numbers,
    calibration: Calibration<'_>,
    log: &mut Log,
) -> Outcome<Graph> {
    let summary =
        |graph: &Graph| format!("{} nodes, {} values", graph.nodes().len(), graph.values().len());
    log.start();
    log.pass("import", summary(&model.graph), || model.graph.to_string());
    let mut graph = passes::fold_constants(&model.graph)?;
    log.pass("fold-constants", summary(&graph), || graph.to_string());
    let (fold, scheme) = match numbers {
        Numbers::Quantised(scheme) => (true, Some(scheme)),
        Numbers::Float { fold, .. } => (*fold, None),
        // The machine decides itself what is folded.
        Numbers::Own => (false, None),
    };
    if fold_batch_norm && fold {
        graph = passes::fold_batch_norm(&graph)?;
        log.pass("fold-batch-norm", summary(&graph), || graph.to_string());
    }
    graph = passes::remove_dead(&graph)?;
    log.pass("remove-dead", summary(&graph), || graph.to_string());
    // Integers lie on grids as they are.
    let has_floats = graph.values().any(|(_, value)| value.dtype.is_float());
    if let Some(scheme) = scheme
        && has_floats
        && !is_quantised(&graph)
    {
        let ranges = passes::calibrate(&graph, calibration.samples(model, &graph)?)?;
        graph = passes::quantise(&graph, &ranges, scheme)?;
        log.pass("quantise", summary(&graph), || graph.to_string());
    }
    Ok(graph)
}
