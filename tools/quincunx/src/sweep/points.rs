//! The combinations of a sweep, each of which can be computed alone.

use super::choices::{self, Point, of_options};
use super::finding::{Figures, Finding, Misfit, Told};
use super::store::Store;
use super::{Row, Sweep, Variation, marked};
use crate::compile::build;
use crate::model::{Prepared, prepare};
use crate::quantise::{self, Widths, scheme_named};
use crate::{InputFile, Model, Outcome, Setup, VERSION, parallel};
use quincunx_contract::folder::option_values;
use quincunx_contract::{Log, Numbers, compiler_of};
use quincunx_diag::{Class, Diagnostic, Result, first};
use quincunx_graph::execute::{self, Keep};
use quincunx_graph::passes::{Method, Scheme};
use quincunx_tensor::{Tensor, Tensors};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::OnceLock;

/// How a model is quantised: names and words.
type Recipe = Vec<(String, String)>;

/// What is computed when it is first needed.
type Once<T> = OnceLock<Outcome<T>>;

/// The combinations of a sweep. What several need is computed once, when the first one needs it.
pub struct Points<'a> {
    sweep: Sweep<'a>,
    points: Vec<Point<'a>>,
    /// By how it is quantised; the first one is the model as given.
    models: Vec<(Recipe, Once<Model>)>,
    /// By model and numbers.
    prepared: Vec<(usize, Numbers, Once<Prepared>)>,
    /// Outputs of the model as given, image by image.
    expected: OnceLock<Result<Vec<Tensors>>>,
    /// What all findings depend on.
    subject: OnceLock<String>,
}

impl<'a> Points<'a> {
    /// The combinations of a sweep.
    ///
    /// # Errors
    /// `Q0653` for values that cannot be combined; `Q0652` for an unknown parameter; what the target says
    /// about a value that it refuses in every combination; `Q0655` for what varies within a row without
    /// classes.
    pub fn new(sweep: Sweep<'a>) -> Outcome<Points<'a>> {
        let compiler = compiler_of(sweep.setup.target)?;
        if !sweep.over.is_empty() && !sweep.has_classes() {
            return Err(Diagnostic::usage("Q0655", "the data has no classes of its images")
                .help("accuracy needs an array `labels` in an .npz file")
                .into());
        }
        let points = choices::points(&sweep)?;
        let mut models = vec![(Vec::new(), OnceLock::new())];
        let mut prepared: Vec<(usize, Numbers, _)> = Vec::new();
        for point in &points {
            if models.iter().all(|(known, _)| *known != point.quantise) {
                models.push((point.quantise.clone(), OnceLock::new()));
            }
            let Ok(setup) = &point.machine else { continue };
            let model = models.iter().position(|(known, _)| *known == point.quantise).unwrap_or(0);
            let numbers = compiler.numbers(&*setup.arch, &setup.options);
            if prepared.iter().all(|(own, known, _)| (*own, known) != (model, &numbers)) {
                prepared.push((model, numbers, OnceLock::new()));
            }
        }
        let (expected, subject) = (OnceLock::new(), OnceLock::new());
        Ok(Points { sweep, points, models, prepared, expected, subject })
    }

    /// What is swept.
    pub fn sweep(&self) -> &Sweep<'a> {
        &self.sweep
    }

    /// How many there are, with those within rows.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// What a combination is, as JSON: names and values.
    pub fn values(&self, index: usize) -> Value {
        let names = self.sweep.vary.iter().chain(self.sweep.over).map(|v| v.parameter.clone());
        names.zip(self.points[index].values.iter().cloned()).collect()
    }

    /// A digest of everything that decides a finding: version, model, data, machine, options.
    ///
    /// # Errors
    /// Calibration data that cannot be read.
    pub fn key(&self, index: usize) -> Outcome<String> {
        let subject = match self.subject.get() {
            Some(subject) => subject,
            None => {
                let subject = self.subject()?;
                self.subject.get_or_init(|| subject)
            }
        };
        let point = &self.points[index];
        let machine = match &point.machine {
            Ok(setup) => json!([setup.arch.to_file(), option_values(&setup.options)]),
            Err(problem) => json!([problem.to_string(), point.values]),
        };
        let target = self.sweep.setup.name();
        let text = json!([VERSION, subject, target, machine, point.quantise]).to_string();
        Ok(hexadecimal(Sha256::digest(text)))
    }

    /// What all combinations have in common.
    fn subject(&self) -> Outcome<String> {
        let Sweep { model, data, strict, fold_batch_norm, calibration, .. } = &self.sweep;
        let mut digest = Sha256::new();
        digest.update(model.graph.to_string());
        for (_, value) in model.graph.values() {
            value.constant.iter().for_each(|constant| of_tensor(&mut digest, &constant.tensor));
        }
        digest.update([u8::from(*strict), u8::from(*fold_batch_norm)]);
        let images = data.iter().flat_map(|data| &data.images);
        // Without data for it, nothing is calibrated.
        let known = calibration.has_data(model) || calibration.images.is_some();
        let samples = known.then(|| calibration.samples(model, &model.graph)).transpose()?;
        for tensors in images.chain(samples.iter().flatten()) {
            for (name, tensor) in tensors {
                digest.update(name);
                of_tensor(&mut digest, tensor);
            }
        }
        let labels = data.iter().flat_map(|data| &data.labels).flatten();
        labels.for_each(|label| digest.update(label.to_le_bytes()));
        Ok(hexadecimal(digest.finalize()))
    }

    /// What the store knows of a combination, else what is found, which is put there.
    ///
    /// # Errors
    /// As [`Points::finding`], and those of the store.
    pub fn finding_or_stored(&self, index: usize, store: Option<&Store>) -> Outcome<Finding> {
        let Some(store) = store else { return self.finding(index) };
        let key = self.key(index)?;
        if let Some(known) = store.get(&key)? {
            return Ok(known);
        }
        let finding = self.finding(index)?;
        store.put(&key, &self.values(index), &self.sweep, &finding)?;
        Ok(finding)
    }

    /// What becomes of a combination.
    ///
    /// # Errors
    /// A model that cannot be prepared or, with images, executed. What does not fit, and bugs, are
    /// findings.
    pub fn finding(&self, index: usize) -> Outcome<Finding> {
        let nothing = |misfit| Finding { result: Err(misfit), told: Vec::new() };
        let point = &self.points[index];
        let setup = match &point.machine {
            Ok(setup) => setup,
            Err(problem) => return Ok(nothing(Misfit::new(true, problem))),
        };
        match self.compiled(point, setup) {
            Ok(finding) => Ok(finding),
            Err(failure) => {
                let problem = first(failure.diagnostics.clone());
                match problem.class() {
                    Class::Unsupported | Class::Bug => Ok(nothing(Misfit::new(false, &problem))),
                    _ => Err(failure),
                }
            }
        }
    }

    fn compiled(&self, point: &Point<'_>, setup: &Setup<'_>) -> Outcome<Finding> {
        let prepared = self.prepared(point, setup)?;
        let mut log = Log::default();
        let (plan, result) = build(prepared, setup, self.sweep.strict, &mut log)?;
        let executable = result?;
        let mut figures = Figures::of(&plan, &executable);
        if let Some(data) = self.sweep.data {
            let expected = self.expected.get_or_init(|| reference(&self.sweep));
            let expected = expected.as_ref().map_err(Clone::clone)?;
            figures = figures.judged(&executable, data, expected)?;
        }
        let told = log.diagnostics.iter().map(Told::of).collect();
        Ok(Finding { result: Ok(figures), told })
    }

    /// The graph that is compiled for a machine.
    fn prepared(&self, point: &Point<'_>, setup: &Setup<'_>) -> Outcome<&Prepared> {
        let numbers = compiler_of(setup.target)?.numbers(&*setup.arch, &setup.options);
        let is_own = |(model, known, _): &&(usize, Numbers, Once<Prepared>)| {
            self.models[*model].0 == point.quantise && *known == numbers
        };
        let found = self.prepared.iter().find(is_own);
        let bug = || Diagnostic::bug("a machine wants other numbers than it did");
        let (model, _, graph) = found.ok_or_else(bug)?;
        let (recipe, quantised) = &self.models[*model];
        let graph = graph.get_or_init(|| {
            let sweep = &self.sweep;
            let model = match recipe.is_empty() {
                true => sweep.model,
                false => {
                    let quantised = quantised.get_or_init(|| quantised_by(sweep, recipe));
                    quantised.as_ref().map_err(Clone::clone)?
                }
            };
            let (fold, data) = (sweep.fold_batch_norm, sweep.calibration);
            prepare(model, fold, &numbers, data, &mut Log::default())
        });
        graph.as_ref().map_err(Clone::clone)
    }

    /// Rows of all findings, in order, with those marked that no other one beats.
    ///
    /// # Errors
    /// None for a sound target.
    pub fn rows(&self, findings: Vec<Finding>) -> Outcome<Vec<Row>> {
        let sweep = &self.sweep;
        let within = choices::count(sweep.over).max(1);
        let mut findings = findings.into_iter();
        let row = |point: &Point<'_>| {
            let values = point.values[..sweep.vary.len()].to_vec();
            Row::joined(values, findings.by_ref().take(within))
        };
        let rows = self.points.iter().step_by(within).filter_map(row).collect();
        let options = of_options(sweep.setup, sweep.vary)?;
        let is_cost = |variation: &Variation| {
            !options.contains(&variation) && !choices::is_of_quantisation(variation)
        };
        Ok(marked(rows, &sweep.vary.iter().map(is_cost).collect::<Vec<_>>()))
    }
}

fn of_tensor(digest: &mut Sha256, tensor: &Tensor) {
    digest.update(format!("{}{:?}", tensor.dtype(), tensor.shape()));
    digest.update(tensor.bytes());
}

fn hexadecimal(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Outputs of the model as given, image by image.
fn reference(sweep: &Sweep<'_>) -> Result<Vec<Tensors>> {
    let Some(data) = sweep.data else { return Ok(Vec::new()) };
    let settings = execute::Settings { keep: Keep::Outputs, ..execute::Settings::default() };
    let session = execute::Session::new(&sweep.model.graph, settings)?;
    parallel::map(
        data.images.len(),
        sweep.threads,
        || Ok(()),
        |(), index| session.run(&data.images[index]).map_err(|error| data.at_image(index, error)),
    )
}

/// The model quantised with these settings, of which [`choices`] has checked the names.
fn quantised_by(sweep: &Sweep<'_>, recipe: &[(String, String)]) -> Outcome<Model> {
    let find = |name: &str| {
        let mut own = recipe.iter().filter(|(known, _)| known == name);
        own.next().map(|(_, word)| word.as_str())
    };
    let widths = ["weights", "activations"]
        .map(|name| find(name).map(|word| format!("{name} = {word}\n")).unwrap_or_default());
    let file = InputFile {
        name: "quantise".to_owned(),
        path: None,
        bytes: widths.concat().into_bytes().into(),
    };
    let widths = Widths::read(&file)?;
    let scheme = scheme_named(find("scheme").unwrap_or("affine-int8"))?;
    let images = sweep.calibration.samples(sweep.model, &sweep.model.graph)?;
    let job = quantise::Job {
        fold_batch_norm: sweep.fold_batch_norm && !matches!(scheme, Scheme::Uniform { .. }),
        scheme,
        method: match find("method") {
            Some("min-max") => Method::MinMax,
            _ => Method::Mse,
        },
        widths: Some(&widths),
        ..quantise::Job::new(sweep.model, &images)
    };
    let result = quantise::quantise(&job, &crate::Silent)?;
    let name = sweep.model.name.clone();
    Model::read(&InputFile { name, path: None, bytes: result.file.into() })
}
