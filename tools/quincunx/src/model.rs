//! Reading a model and preparing it for a machine.

use crate::detect::arrays_or_model;
use crate::ranges::{self, Range};
use crate::{Dataset, Failure, InputFile, InputSpec, Outcome, targets};
use quincunx_contract::{Format, Log, ModelFile, Numbers, Refused};
use quincunx_diag::Diagnostic;
use quincunx_graph::passes::{
    self, Beyond, Extent, Method, Observations, Ranges, Recipe, Rescaled, Scaled,
};
use quincunx_graph::{Graph, Op};
use quincunx_import::{Options, Survey, format_of, read_model, survey};
use quincunx_tensor::Tensors;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
    /// Which part was read, in which shapes; shapes that data gave are among those that were asked
    /// for.
    pub reading: Options,
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
        let options = match source(file, options)? {
            Source::Native(model) => return Ok(*model),
            Source::File(options) => options,
        };
        let graph = read_model(file.bytes.clone(), &options)
            .map_err(|problems| Failure::from(problems).name_file(&file.name))?;
        let reading = settled(options, &graph);
        Ok(Model {
            name: file.name.clone(),
            path: file.path.clone(),
            graph,
            format: format_of(&file.bytes).name(),
            options: None,
            reading,
        })
    }

    /// The calibration data beside the model, if there is any.
    pub fn data_beside(&self) -> Option<PathBuf> {
        let path = self.path.as_ref()?.with_file_name(BESIDE);
        path.is_file().then_some(path)
    }

    /// Where it is, or what it is called where it is no file; `None` for a stream.
    fn called(&self) -> Option<&Path> {
        let name = Some(Path::new(&self.name)).filter(|_| !self.name.starts_with('<'));
        self.path.as_deref().or(name)
    }

    /// File name without folder.
    pub fn file_name(&self) -> String {
        let name = self.called().and_then(Path::file_name);
        name.map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// File name without folder and ending.
    pub fn stem(&self) -> String {
        let stem = self.called().and_then(Path::file_stem);
        stem.map_or_else(|| "model".to_owned(), |stem| stem.to_string_lossy().into_owned())
    }
}

/// Options that read the same graph without the data that gave its shapes.
fn settled(options: Options, graph: &Graph) -> Options {
    let data_shapes = options.data_shapes;
    let mut settled = Options { base_dir: None, data_shapes: BTreeMap::new(), ..options };
    let inputs = graph.inputs().iter().map(|&id| &graph[id]);
    for input in inputs.filter(|input| data_shapes.contains_key(&input.name)) {
        settled.input_shapes.insert(input.name.clone(), input.shape.to_vec());
    }
    settled
}

/// What a model is read from.
enum Source {
    /// A model of a machine's ecosystem, which has been read.
    Native(Box<Model>),
    /// A file of a format of networks, to be read with these options.
    File(Options),
}

fn source(file: &InputFile, options: &Options) -> Outcome<Source> {
    if let Some(found @ "arrays") = arrays_or_model(&file.name, &file.bytes) {
        let message = format!("expected a model, found {found}");
        return Err(Diagnostic::invalid("Q0637", message).in_file(&file.name).into());
    }
    if let Some((target, model)) = native(file)? {
        let without = Options {
            base_dir: options.base_dir.clone(),
            data_shapes: options.data_shapes.clone(),
            ..Options::default()
        };
        if *options != without {
            let message = format!("parts and shapes cannot be chosen in {}", model.kind);
            return Err(Diagnostic::usage("Q0647", message).in_file(&file.name).into());
        }
        return Ok(Source::Native(Box::new(Model {
            name: file.name.clone(),
            path: file.path.clone(),
            graph: model.graph,
            format: model.kind,
            options: Some((target, model.options)),
            reading: Options::default(),
        })));
    }
    let beside = file.path.as_deref().map(Options::beside).unwrap_or_default();
    Ok(Source::File(Options { base_dir: beside.base_dir, ..options.clone() }))
}

/// What can be read of a model file: the model, or a look at it.
pub(crate) enum Look {
    /// A model of a machine's ecosystem.
    Native(Box<Model>),
    /// A network, of which parts may be unsupported.
    Network(Box<Survey>),
}

/// Looks at a model.
///
/// # Errors
/// As [`Model::read_with`], but not for what is unsupported or has an unknown shape.
pub(crate) fn look(file: &InputFile, options: &Options) -> Outcome<Look> {
    match source(file, options)? {
        Source::Native(model) => Ok(Look::Native(model)),
        Source::File(options) => survey(file.bytes.clone(), &options)
            .map(|survey| Look::Network(Box::new(survey)))
            .map_err(|problems| Failure::from(problems).name_file(&file.name)),
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
    /// Data that is made up on the spot, as [`Dataset::generate`] takes it; one image.
    pub made_up: Option<&'a str>,
    /// Images in memory, in place of those of the file, each with arrays for all inputs.
    pub images: Option<&'a [Tensors]>,
    /// Ranges that a program folder has kept; they count where no file is given.
    pub known: Option<&'a Ranges>,
    /// Data the result will be judged on, which must not be calibrated on.
    pub evaluated: Option<&'a InputFile>,
    /// The numbers of every value are set against those of the machine, where there is data.
    pub report: bool,
}

/// What a calibration found.
struct Found {
    ranges: Ranges,
    /// The data; `None` for ranges that were known.
    samples: Option<Vec<Tensors>>,
}

impl Calibration<'_> {
    fn ranges(&self, model: &Model, graph: &Graph) -> Outcome<Found> {
        if let (Some(known), None, None) = (self.known, self.file, self.made_up) {
            return Ok(Found { ranges: known.clone(), samples: None });
        }
        let samples = self.samples(model, graph)?;
        let ranges = passes::calibrate(graph, samples.iter().cloned())?;
        Ok(Found { ranges, samples: Some(samples) })
    }

    /// Whether the user gave data.
    pub(crate) fn is_given(&self) -> bool {
        self.file.is_some() || self.made_up.is_some()
    }

    /// True where there is data, without a look into it.
    pub(crate) fn has_data(&self, model: &Model) -> bool {
        self.is_given() || model.data_beside().is_some()
    }

    pub(crate) fn samples(&self, model: &Model, graph: &Graph) -> Outcome<Vec<Tensors>> {
        let inputs = InputSpec::of(graph);
        if let Some(images) = self.images {
            let wanted = |name: &String| inputs.iter().any(|input| input.name == *name);
            let own = images.iter().map(|image| {
                let arrays = image.iter().filter(|(name, _)| wanted(name));
                arrays.map(|(name, array)| (name.clone(), array.clone())).collect()
            });
            return Ok(own.collect());
        }
        if let Some(made) = self.made_up.and_then(|text| Dataset::generate(text, &inputs, 1)) {
            return Ok(made?.images);
        }
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
        Ok(Dataset::read(file, &inputs)?.images)
    }
}

fn find_beside(model: &Model) -> Outcome<InputFile> {
    match model.data_beside() {
        Some(path) => Ok(InputFile::open(&path)?),
        None => Err(Diagnostic::usage(
            "Q0608",
            "the machine needs a quantised model, and there is no data to calibrate this one",
        )
        .in_file(&model.name)
        .help(format!(
            "give data with --calibrate (random:1 makes some up), put {BESIDE} beside the model, or \
             quantise the model beforehand"
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

/// A graph that is ready for a machine.
pub(crate) struct Prepared {
    /// It.
    pub(crate) graph: Graph,
    /// What the calibration found, if there was one.
    pub(crate) calibrated: Option<Ranges>,
    /// The numbers of values against those of the machine; empty unless asked for.
    pub(crate) ranges: Vec<Range>,
    /// Values that are those of the model times a power of two, by name.
    pub(crate) scaled: BTreeMap<String, Scaled>,
    /// Nodes with numbers that the machine does not hold.
    pub(crate) refused: Refused,
}

impl Prepared {
    fn new(graph: Graph) -> Prepared {
        let (ranges, scaled, refused) = Default::default();
        Prepared { graph, calibrated: None, ranges, scaled, refused }
    }

    /// The graph with a scale for every value.
    fn rescaled(graph: &Graph, ranges: Ranges, format: &Format) -> Outcome<Prepared> {
        let scalar = format.grid.scalars(&[]).and_then(|scalars| scalars.first().copied());
        let scalar = scalar.ok_or_else(|| Diagnostic::bug("a format is one grid for all"))?;
        let extent = Extent { most: scalar.ends()[1], step: scalar.scale };
        let Rescaled { graph, scaled, beyond } = passes::rescale(graph, &ranges, extent)?;
        let mut refused = Refused::default();
        for Beyond { node, value, reach } in beyond {
            let (largest, name) = (reach as f32, format.name);
            let reason = match reach <= extent.most {
                true => format!(
                    "numbers of \"{value}\" are at most {largest}, of which {name} keeps too little"
                ),
                false => format!("numbers of \"{value}\" reach {largest}, beyond those of {name}"),
            };
            graph.node_named(&node).map(|id| refused.insert(id, reason));
        }
        let calibrated = Some(ranges);
        Ok(Prepared { calibrated, scaled, refused, ..Prepared::new(graph) })
    }
}

/// Records a pass that gave a graph, and checks the graph if that is asked for.
fn passed(log: &mut Log, name: &'static str, graph: &Graph) -> Outcome<()> {
    let summary = format!("{} nodes, {} values", graph.nodes().len(), graph.values().len());
    log.pass(name, summary, || graph.to_string());
    sound(log, name, graph)
}

/// Checks what a pass gave, if that is asked for: a graph that breaks rules is a bug of the pass.
pub(crate) fn sound(log: &Log, pass: &str, graph: &Graph) -> Outcome<()> {
    let problems = if log.verify_each { graph.verify() } else { Vec::new() };
    let told = |problem: Diagnostic| problem.with_note(format!("behind the pass {pass}"));
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.into_iter().map(told).collect::<Vec<_>>().into()),
    }
}

/// The graph that is compiled: constants and, if wanted, batch normalisations folded, functions in
/// simple operators recognised, dead nodes removed, and quantised if the machine needs that and the
/// model is not, or given scales.
pub(crate) fn prepare(
    model: &Model,
    fold_batch_norm: bool,
    numbers: &Numbers,
    calibration: Calibration<'_>,
    log: &mut Log,
) -> Outcome<Prepared> {
    log.start();
    passed(log, "import", &model.graph)?;
    let mut graph = passes::fold_constants(&model.graph)?;
    passed(log, "fold-constants", &graph)?;
    let (fold, scheme) = match numbers {
        Numbers::Quantised(scheme) => (true, Some(scheme)),
        Numbers::Float { fold, .. } => (*fold, None),
        // The machine decides itself what is folded.
        Numbers::Own { .. } => (false, None),
    };
    // Scales would hide functions from a machine that recognises them itself.
    if !matches!(numbers, Numbers::Own { rescale: false, .. }) {
        graph = passes::recognise_functions(&graph)?;
        passed(log, "recognise-functions", &graph)?;
    }
    if fold_batch_norm && fold {
        graph = passes::fold_batch_norm(&graph)?;
        passed(log, "fold-batch-norm", &graph)?;
    }
    graph = passes::remove_dead(&graph)?;
    passed(log, "remove-dead", &graph)?;
    // Integers lie on grids as they are.
    let has_floats = graph.values().any(|(_, value)| value.dtype.is_float());
    if let Some(scheme) = scheme
        && has_floats
        && !is_quantised(&graph)
    {
        let found = calibration.ranges(model, &graph)?;
        let recipe = Recipe { method: Method::MinMax, ..Recipe::from(scheme) };
        let quantised = passes::quantise_by(&graph, &Observations::from(&found.ranges), &recipe)?;
        let ranges = match &found.samples {
            Some(samples) if calibration.report => {
                let ranges = ranges::on_grids(&graph, &quantised, samples)?;
                log.diagnostics.extend(ranges::advice(std::slice::from_ref(&ranges)));
                ranges
            }
            _ => Vec::new(),
        };
        graph = quantised.graph;
        passed(log, "quantise", &graph)?;
        let calibrated = Some(found.ranges);
        return Ok(Prepared { calibrated, ranges, ..Prepared::new(graph) });
    }
    let Numbers::Own { formats, rescale } = numbers else { return Ok(Prepared::new(graph)) };
    let mut prepared = match formats.first() {
        Some(format) if *rescale => {
            let ranges = calibration.ranges(model, &graph)?.ranges;
            let prepared = Prepared::rescaled(&graph, ranges, format)?;
            let count = prepared.scaled.len();
            log.pass("rescale", format!("{count} values with scales"), || {
                prepared.graph.to_string()
            });
            sound(log, "rescale", &prepared.graph)?;
            prepared
        }
        _ => Prepared::new(graph),
    };
    if calibration.report && calibration.is_given() && !formats.is_empty() {
        let samples = calibration.samples(model, &prepared.graph)?;
        let mut all = ranges::in_formats(&prepared.graph, formats, &samples)?;
        log.diagnostics.extend(ranges::advice(&all));
        prepared.ranges = std::mem::take(&mut all[0]);
    }
    Ok(prepared)
}
