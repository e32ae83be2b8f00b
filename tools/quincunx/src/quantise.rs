//! `quantise`: a float model becomes a quantised one, from calibration data.

mod advice;
mod scheme;
mod table;
mod widths;

use advice::Advice;
pub use scheme::scheme_named;
pub use table::table;
pub use widths::Widths;

use crate::model::{BESIDE, prepare};
use crate::parallel::map;
use crate::{Calibration, InputFile, Model, Outcome, Progress, is_quantised};
use quincunx_contract::{Log, Numbers};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Graph;
use quincunx_graph::execute::{Keep, Session, Settings};
use quincunx_graph::passes::{
    Calibrator, Method, Noise, Observations, Quantised, Recipe, Scheme, check_quantisable,
    quantise_by,
};
use quincunx_import::{Dialect, ExportOptions, write_onnx};
use quincunx_tensor::{DType, Tensors};
use std::num::NonZeroUsize;
use std::path::Path;

/// Most parts that images are observed in; each has histograms of its own.
const MAX_PARTS: usize = 8;

/// What to quantise, and how.
pub struct Job<'a> {
    /// The model.
    pub model: &'a Model,
    /// Inputs to calibrate with, and to measure errors on.
    pub images: &'a [Tensors],
    /// For layers that `widths` says nothing about.
    pub scheme: Scheme,
    /// Sign of the codes of activations; `None` leaves it to the scheme.
    pub signed: Option<bool>,
    /// How ranges follow from the data.
    pub method: Method,
    /// What is different for single layers.
    pub widths: Option<&'a Widths>,
    /// Batch normalisations are folded into the layers before them.
    pub fold_batch_norm: bool,
    /// How quantisers are written.
    pub dialect: Dialect,
    /// Threads; the result does not depend on it.
    pub threads: NonZeroUsize,
}

impl<'a> Job<'a> {
    /// A job with defaults: 8-bit affine grids of least squared error, batch normalisations folded.
    pub fn new(model: &'a Model, images: &'a [Tensors]) -> Self {
        Job {
            model,
            images,
            scheme: Scheme::AFFINE_INT8,
            signed: None,
            method: Method::default(),
            widths: None,
            fold_batch_norm: true,
            dialect: Dialect::Auto,
            threads: NonZeroUsize::MIN,
        }
    }
}

/// A quantised model.
pub struct Quantisation {
    /// The graph and what was done to its layers.
    pub quantised: Quantised,
    /// For every layer, then for every output, what its result has lost on the calibration data; all
    /// errors of the layers before it are in it.
    pub noise: Vec<Noise>,
    /// What has lost too much.
    pub warnings: Vec<Diagnostic>,
    /// The model as ONNX.
    pub file: Vec<u8>,
}

/// Calibration data beside a model.
///
/// # Errors
/// `Q0631` when there is none; `Q0602` when it cannot be read.
pub fn data_beside(model: &Path) -> Result<InputFile> {
    let path = model.with_file_name(BESIDE);
    if path.is_file() && model != Path::new("-") {
        return InputFile::open(&path);
    }
    Err(Diagnostic::usage("Q0631", "there is no data to calibrate with")
        .in_file(model.display().to_string())
        .help(format!("give data with --calibrate, or put {BESIDE} beside the model")))
}

/// Quantises a model.
///
/// # Errors
/// `Q0631` without an image, `Q0632` when there is nothing to quantise, `Q0633` for layers that
/// [`Widths`] names and the model does not have; those of the passes and of the writer.
pub fn quantise(job: &Job<'_>, progress: &dyn Progress) -> Outcome<Quantisation> {
    let mut log = Log::default();
    let nobody = Calibration::default();
    let floats = Numbers::Float { dtype: DType::F32, fold: true };
    let prepared = prepare(job.model, job.fold_batch_norm, &floats, nobody, &mut log)?;
    let graph = prepared.graph;
    if is_quantised(&graph) {
        return Err(nothing(job.model, "the model is quantised already").into());
    }
    if job.images.is_empty() {
        return Err(Diagnostic::invalid("Q0631", "the calibration data holds no images").into());
    }
    let mut recipe = Recipe { method: job.method, ..Recipe::from(&job.scheme) };
    recipe.default.signed = job.signed;
    if let Some(widths) = job.widths {
        widths.apply(&mut recipe, &job.model.graph, &graph)?;
    }
    check_quantisable(&graph, &recipe)?;
    // What cannot be written is known before anything is measured.
    write_onnx(&graph, &ExportOptions { dialect: job.dialect })?;
    let found = calibrated(job, &graph, &recipe, progress)?;
    let quantised = quantise_by(&graph, &found, &recipe)?;
    if quantised.layers.iter().all(|l| l.activation.is_none() && l.parameters.is_empty()) {
        return Err(nothing(job.model, "there is nothing to quantise").into());
    }
    progress.start("measure", job.images.len());
    let noise = measure(job, &graph, &quantised, job.images.len(), progress)?;
    let warnings =
        Advice { job, graph: &graph, found: &found, recipe: &recipe }.give(&quantised, &noise)?;
    let file = write_onnx(&quantised.graph, &ExportOptions { dialect: job.dialect })?;
    Ok(Quantisation { quantised, noise, warnings, file })
}

fn nothing(model: &Model, what: &str) -> Diagnostic {
    Diagnostic::unsupported("Q0632", what)
        .in_file(&model.name)
        .help("a float model with layers that compute f32 numbers is expected")
}

/// Every thread observes a part of the images; observations do not depend on how they are divided.
fn calibrated(
    job: &Job<'_>,
    graph: &Graph,
    recipe: &Recipe,
    progress: &dyn Progress,
) -> Result<Observations> {
    let count = job.images.len();
    progress.start("calibrate", count);
    let part = count.div_ceil(job.threads.get().min(MAX_PARTS)).max(1);
    let mut all = Calibrator::new(graph, recipe.method)?;
    let observe = |_: &mut (), index: usize| {
        let mut calibrator = all.another();
        for number in index * part..((index + 1) * part).min(count) {
            calibrator.add(&job.images[number], number + 1)?;
            progress.step();
        }
        Ok(calibrator)
    };
    let parts = map(count.div_ceil(part), job.threads, || Ok(()), observe)?;
    parts.into_iter().for_each(|part| all.merge(part));
    all.finish()
}

/// What is lost on the first images. Errors are added up in the order of the images, whatever the threads do.
fn measure(
    job: &Job<'_>,
    graph: &Graph,
    quantised: &Quantised,
    images: usize,
    progress: &dyn Progress,
) -> Result<Vec<Noise>> {
    let settings = Settings { keep: Keep::All, ..Settings::default() };
    let original = Session::new(graph, settings)?;
    let own = Session::new(&quantised.graph, settings)?;
    let measure = |_: &mut (), index: usize| {
        let noise = quantised.noise(&original, &own, &job.images[index]);
        progress.step();
        noise
    };
    let all = map(images, job.threads, || Ok(()), measure)?;
    let mut total = vec![Noise::default(); quantised.layers.len() + graph.outputs().len()];
    for image in all {
        total.iter_mut().zip(image).for_each(|(total, noise)| total.add(noise));
    }
    Ok(total)
}
