//! The judges, image by image.

use super::layers::{self, Distance, Given, Layer, Layers};
use super::{Comparison, NEAR};
use crate::compile::{Compilation, goldens};
use crate::executable::{Executable, Goldens, Session, Trace, top1};
use crate::{Dataset, Progress, Setup, is_quantised, parallel};
use quincunx_contract::{Clipped, Engine};
use quincunx_diag::{Class, Diagnostic, Result};
use quincunx_graph::Graph;
use quincunx_graph::execute::{self, Keep};
use quincunx_tensor::{Tensor, Tensors};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::time::Instant;

/// The model as given.
pub(super) struct Reference {
    session: execute::Session,
    /// Outputs of every image.
    outputs: Vec<Tensors>,
}

impl Reference {
    pub(super) fn new(comparison: &Comparison<'_>, progress: &dyn Progress) -> Result<Reference> {
        let graph = &comparison.model.graph;
        let images = &comparison.data.images;
        progress.start("reference", images.len());
        // Threads that no image keeps busy divide the work of one image.
        let threads = NonZeroUsize::new(comparison.threads.get() / images.len().max(1));
        let settings = execute::Settings {
            threads: threads.unwrap_or(NonZeroUsize::MIN),
            keep: if comparison.layers { Keep::All } else { Keep::Outputs },
            ..execute::Settings::default()
        };
        let session = execute::Session::new(graph, settings)?;
        let names: BTreeSet<&str> = graph.outputs().iter().map(|&id| &*graph[id].name).collect();
        let outputs = parallel::map(
            images.len(),
            comparison.threads,
            || Ok(()),
            |(), index| {
                let mut outputs = session
                    .run(&images[index])
                    .map_err(|problem| comparison.data.at_image(index, problem))?;
                outputs.retain(|name, _| names.contains(&**name));
                progress.step();
                Ok(outputs)
            },
        )?;
        Ok(Reference { session, outputs })
    }

    /// An output is of real numbers, whose distance says how good they are; classes are right or
    /// wrong.
    fn is_real(&self, name: &str) -> bool {
        let output = self.outputs.first().and_then(|outputs| outputs.get(name));
        output.is_some_and(|output| output.dtype().is_float())
    }
}

/// How far the outputs of an image are from those of the model, by name.
fn distances(outputs: &Tensors, expected: &Tensors) -> BTreeMap<String, Distance> {
    let distance = |(name, found): (&String, &Tensor)| {
        Some((name.clone(), Distance::of(found, expected.get(name)?)?))
    };
    outputs.iter().filter_map(distance).collect()
}

/// What one image says.
struct Verdict {
    class: Option<usize>,
    /// The class is that of the model as given.
    agrees: bool,
    difference: Option<String>,
    error: Option<f64>,
    /// Of the outputs from those of the model as given, by name.
    distances: BTreeMap<String, Distance>,
    clipped: Vec<Clipped>,
    layers: Layers,
    /// Seconds in the simulator.
    seconds: f64,
}

/// What all images say.
pub(super) struct Judged {
    verdicts: Vec<Verdict>,
    threads: usize,
}

impl Judged {
    /// The threads simulate side by side, each as fast as it measured.
    pub(super) fn images_per_second(&self) -> f64 {
        let seconds: f64 = self.verdicts.iter().map(|verdict| verdict.seconds).sum();
        (self.verdicts.len() * self.threads) as f64 / seconds.max(1e-9)
    }

    /// The first image on which simulator and golden model differ.
    pub(super) fn difference(&self, target: &str) -> Option<Diagnostic> {
        self.verdicts.iter().enumerate().find_map(|(image, verdict)| {
            let text = verdict.difference.as_ref()?;
            Some(Diagnostic::answer("Q0620", format!("{target}: image {image}: {text}")))
        })
    }

    /// What the machine's type did not hold, of all images.
    pub(super) fn clipped(&self) -> Vec<Clipped> {
        let mut all = Vec::new();
        self.verdicts.iter().for_each(|verdict| Clipped::gather(&mut all, &verdict.clipped));
        all
    }

    /// The outputs that are less than [`NEAR`] from those of the model.
    pub(super) fn far(&self, target: &str, reference: &Reference) -> Vec<Diagnostic> {
        let mut all: BTreeMap<&str, Distance> = BTreeMap::new();
        for (name, &distance) in self.verdicts.iter().flat_map(|verdict| &verdict.distances) {
            let sum = all.entry(name).or_default();
            *sum = sum.join(distance);
        }
        let far = |(name, distance): (&str, Distance)| {
            let is_far = distance.is_below(NEAR) && reference.is_real(name);
            let noise = match distance.decibels() {
                Some(decibels) => format!("signal to noise is {decibels:.1} dB"),
                None => "numbers are infinite or missing".to_owned(),
            };
            let message = format!("{target}: output \"{name}\" is far from the model: {noise}");
            is_far.then(|| {
                Diagnostic::warning("Q0624", message)
                    .help("`compare --layers` shows where the machine parts from the model")
            })
        };
        all.into_iter().filter_map(far).collect()
    }

    pub(super) fn layers(&mut self, executable: &Executable) -> Vec<Layer> {
        let images = self.verdicts.iter_mut().map(|verdict| std::mem::take(&mut verdict.layers));
        layers::total(images, executable)
    }

    /// Images without a difference between simulator and golden model.
    pub(super) fn bit_exact(&self) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.difference.is_none()).count()
    }

    /// Images with the class of the model as given.
    pub(super) fn agree(&self) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.agrees).count()
    }

    pub(super) fn accuracy(&self, data: &Dataset) -> Option<f64> {
        data.accuracy(self.verdicts.iter().map(|verdict| verdict.class))
    }

    pub(super) fn max_error(&self) -> Option<f64> {
        let worst = self.verdicts.iter().map(|verdict| verdict.error);
        worst.reduce(|a, b| Some(larger(a?, b?))).flatten()
    }

    pub(super) fn max_difference(&self) -> f64 {
        let distances = self.verdicts.iter().flat_map(|verdict| verdict.distances.values());
        distances.map(|distance| distance.max).fold(0.0, f64::max)
    }
}

/// A model compiled for a machine.
pub(super) struct Case<'a> {
    pub(super) compilation: &'a Compilation,
    pub(super) executable: &'a Executable,
    pub(super) goldens: Goldens,
    /// The golden model is compared with exact arithmetic.
    pub(super) with_error: bool,
}

impl<'a> Case<'a> {
    pub(super) fn new(
        setup: &Setup<'_>,
        compilation: &'a Compilation,
        executable: &'a Executable,
        images: usize,
    ) -> Result<Case<'a>> {
        Ok(Case {
            compilation,
            executable,
            goldens: goldens(executable, &[(&compilation.plan, setup)])?,
            with_error: is_exact_affordable(&compilation.graph, images),
        })
    }
}

pub(super) fn judge(
    comparison: &Comparison<'_>,
    case: &Case<'_>,
    reference: &Reference,
    progress: &dyn Progress,
) -> Result<Judged> {
    let images = &comparison.data.images;
    let verdicts = parallel::map(
        images.len(),
        comparison.threads,
        || case.executable.load_with(Engine::Fast),
        |session, index| {
            let verdict = verdict(comparison, case, reference, session, index)
                .map_err(|problem| comparison.data.at_image(index, problem))?;
            progress.step();
            Ok(verdict)
        },
    )?;
    Ok(Judged { verdicts, threads: comparison.threads.get().min(images.len()) })
}

fn verdict(
    comparison: &Comparison<'_>,
    case: &Case<'_>,
    reference: &Reference,
    session: &mut Session<'_>,
    index: usize,
) -> Result<Verdict> {
    let image = &comparison.data.images[index];
    let started = Instant::now();
    let mut trace =
        if comparison.layers { session.run_layers(image)? } else { session.run_traced(image)? };
    let seconds = started.elapsed().as_secs_f64();
    let mut golden = case.executable.golden(&case.goldens, image)?;
    let mut expected = reference.outputs[index].clone();
    for values in [&mut trace.device, &mut trace.outputs, &mut golden.device, &mut expected] {
        case.executable.blank(values)?;
    }
    let layers = match comparison.layers {
        true => {
            let mut given = reference.session.run(image)?;
            case.executable.blank(&mut given)?;
            let given = Given { model: &comparison.model.graph, values: &given };
            layers::layers(given, &case.compilation.scaled, &trace, &golden)
        }
        false => Layers::new(),
    };
    let output = case.executable.outputs.first();
    let class = output.and_then(|output| trace.outputs.get(output)).and_then(top1);
    Ok(Verdict {
        class,
        agrees: class == output.and_then(|output| expected.get(output)).and_then(top1),
        difference: first_difference(&trace.device, &golden.device),
        error: error(case, image, &golden)?,
        distances: distances(&trace.outputs, &expected),
        clipped: trace.clipped,
        layers,
        seconds,
    })
}

/// The first observed value that the golden model does not have bit for bit, in words.
pub(crate) fn first_difference(observed: &Tensors, golden: &Tensors) -> Option<String> {
    observed.iter().find_map(|(name, tensor)| {
        let Some(expected) = golden.get(name) else {
            return Some(format!("the golden model does not know the value {name:?}"));
        };
        element_difference(tensor, expected).map(|(_, text)| format!("value {name:?} {text}"))
    })
}

/// The first element with other bits, and in words what differs.
pub(crate) fn element_difference(found: &Tensor, expected: &Tensor) -> Option<(usize, String)> {
    if found.shape() != expected.shape() {
        let (found, expected) = (found.shape(), expected.shape());
        let text =
            format!("has shape {found:?} in the simulator, {expected:?} in the golden model");
        return Some((0, text));
    }
    let pairs = found.to_f64().into_iter().zip(expected.to_f64());
    pairs.enumerate().find(|(_, (a, b))| a.to_bits() != b.to_bits()).map(|(index, (a, b))| {
        (index, format!("differs at element {index}: simulator {a:?}, golden model {b:?}"))
    })
}

/// True when exact arithmetic on every image takes no longer than the other judges. Where numbers lie
/// on grids, sums of products fit machine integers; where they do not, they become longer with every
/// layer.
fn is_exact_affordable(graph: &Graph, images: usize) -> bool {
    let most = if is_quantised(graph) { 1 << 31 } else { 1 << 24 };
    let work = graph.nodes().map(|(_, node)| graph.work(node)).fold(0, u64::saturating_add);
    work.saturating_mul(images as u64) <= most
}

/// Largest difference between the golden model and exact arithmetic on any value of the machine;
/// `None` when exact arithmetic does not cover the graph.
fn error(case: &Case<'_>, image: &Tensors, golden: &Trace) -> Result<Option<f64>> {
    if !case.with_error {
        return Ok(None);
    }
    let exact = match execute::exact(&case.compilation.graph, image, Keep::All) {
        Ok(exact) => exact,
        Err(problem) if problem.class() == Class::Unsupported => return Ok(None),
        Err(problem) => return Err(problem),
    };
    let mut known = Tensors::new();
    for (name, tensor) in &golden.device {
        if let Some(exact) = exact.get(name) {
            known.insert(name.clone(), Tensor::from_vec(tensor.shape(), exact.to_f64())?);
        }
    }
    case.executable.blank(&mut known)?;
    let mut worst = 0.0;
    for (name, exact) in &known {
        let pairs = golden.device[name].to_f64().into_iter().zip(exact.to_f64());
        worst = pairs.map(|(a, b)| (a - b).abs()).fold(worst, larger);
    }
    Ok(Some(worst))
}

/// The larger number; a NaN is larger than all, so that it cannot hide.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}
