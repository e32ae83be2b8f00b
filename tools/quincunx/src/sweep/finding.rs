//! What became of a model on a machine, in a form that can be kept.

use crate::compare::Distance;
use crate::executable::top1;
use crate::{Dataset, Executable, explain};
use quincunx_contract::plan::{Place, Plan, Row};
use quincunx_contract::{Engine, Stats};
use quincunx_diag::{Diagnostic, Result, Severity, Sources, render};
use quincunx_tensor::Tensors;
use serde::{Deserialize, Serialize};

/// What became of a combination of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What was compiled, or why nothing was.
    pub result: std::result::Result<Figures, Misfit>,
    /// What the compiler warned of or noted.
    pub(super) told: Vec<Told>,
}

/// Why there is no program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misfit {
    /// The target refuses the machine itself, not the model.
    pub of_machine: bool,
    /// Code of the message.
    pub code: String,
    /// The message, where it is known what it is about, and what to do.
    pub text: String,
}

/// A warning or note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    code: String,
    message: String,
    is_warning: bool,
    notes: Vec<String>,
    help: Option<String>,
}

/// What was compiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Size and speed.
    #[serde(with = "speed")]
    pub stats: Stats,
    /// Share of the multiplications on the machine.
    pub share: f64,
    /// Why a layer that multiplies is on the host, if one is.
    pub left: Option<String>,
    /// Shares of images whose class is right, one for each choice of what varies within the row;
    /// empty without images that have classes.
    pub accuracies: Vec<f64>,
    /// How far the outputs are from those of the model as given; `None` without images.
    pub distance: Option<Distance>,
    /// Some of it runs on the machine.
    pub(super) uses_device: bool,
    /// What the target tells of every program.
    pub(super) figures: Vec<(String, Vec<String>)>,
}

/// What became of a model, in a word.
pub(super) fn status(result: &std::result::Result<Figures, Misfit>) -> &'static str {
    match result {
        Ok(figures) if !figures.uses_device => "host",
        Ok(figures) if figures.left.is_some() => "in part",
        Ok(_) => "ok",
        Err(misfit) => misfit.status(),
    }
}

/// What keeps it from running on the machine as a whole.
pub(super) fn problem(result: &std::result::Result<Figures, Misfit>) -> Option<String> {
    match result {
        Ok(figures) => figures.left.clone(),
        Err(misfit) => Some(misfit.text.clone()),
    }
}

impl Finding {
    /// A failure that is none of the library: whoever computed it ended, or ran out of memory.
    pub fn failed(code: &str, text: String) -> Finding {
        let misfit = Misfit { of_machine: false, code: code.to_owned(), text };
        Finding { result: Err(misfit), told: Vec::new() }
    }

    /// The same combination with other values within the row.
    pub(super) fn joined(mut self, other: Finding) -> Finding {
        let new = other.told.into_iter().filter(|one| !self.told.contains(one));
        let new: Vec<Told> = new.collect();
        self.told.extend(new);
        self.result = match (self.result, other.result) {
            (Ok(mut first), Ok(other)) => {
                first.accuracies.extend(other.accuracies);
                let distances = [first.distance, other.distance].into_iter().flatten();
                first.distance = distances.reduce(Distance::join);
                Ok(first)
            }
            (Err(misfit), _) | (_, Err(misfit)) => Err(misfit),
        };
        self
    }
}

impl Misfit {
    /// A problem of the machine, or of the model on it.
    pub(super) fn new(of_machine: bool, problem: &Diagnostic) -> Misfit {
        let help = problem.help_text().map(|help| format!("; {help}"));
        let text = render::short(problem, &Sources::new()) + &help.unwrap_or_default();
        Misfit { of_machine, code: problem.code().to_owned(), text }
    }

    /// It says nothing about the model or the machine: a bug, or a process that ended.
    pub fn is_failure(&self) -> bool {
        [bug(), LOST].contains(&self.code.as_str())
    }

    /// In a word.
    pub fn status(&self) -> &'static str {
        match (self.of_machine, self.is_failure()) {
            (true, _) => "no machine",
            (false, true) => "failed",
            (false, false) => "misfit",
        }
    }
}

/// The code of a bug.
fn bug() -> &'static str {
    Diagnostic::bug("").code()
}

/// The code of a combination whose process ended.
pub const LOST: &str = "Q0662";

impl Told {
    pub(super) fn of(diagnostic: &Diagnostic) -> Told {
        Told {
            code: diagnostic.code().to_owned(),
            message: diagnostic.message().to_owned(),
            is_warning: diagnostic.severity() == Severity::Warning,
            notes: diagnostic.notes().to_vec(),
            help: diagnostic.help_text().map(str::to_owned),
        }
    }

    /// As it was, without its place.
    pub(super) fn diagnostic(&self) -> Diagnostic {
        let code = explain::entries().map(|entry| entry.code).find(|code| *code == self.code);
        let code = code.unwrap_or_else(bug);
        let told = match self.is_warning {
            true => Diagnostic::warning(code, self.message.clone()),
            false => Diagnostic::note(code, self.message.clone()),
        };
        let told = self.notes.iter().fold(told, |told, note| told.with_note(note.clone()));
        told.help_if(self.help.clone())
    }
}

impl Figures {
    pub(super) fn of(plan: &Plan, executable: &Executable) -> Figures {
        let mut figures: Vec<(String, Vec<String>)> = Vec::new();
        for (name, value) in executable.programs().flat_map(|(_, program)| program.stats().figures)
        {
            match figures.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => figures.push((name.to_owned(), vec![value])),
            }
        }
        let stats = Stats { figures: Vec::new(), ..executable.stats() };
        let (share, left, uses_device) = (plan.device_share(), left(plan), plan.uses_device());
        Figures { stats, share, left, accuracies: Vec::new(), distance: None, uses_device, figures }
    }

    /// With what images tell: the share of those whose class is right on the machine, where they have
    /// classes, and how far the outputs are from those of the model as given.
    pub(super) fn judged(
        mut self,
        executable: &Executable,
        data: &Dataset,
        expected: &[Tensors],
    ) -> Result<Figures> {
        let mut session = executable.load_with(Engine::Fast)?;
        let mut classes = Vec::with_capacity(data.images.len());
        let mut distance: Option<Distance> = None;
        for (index, image) in data.images.iter().enumerate() {
            quincunx_stop::check();
            let trace = session.run(image).map_err(|problem| data.at_image(index, problem))?;
            let output = executable.outputs.first();
            classes.push(output.and_then(|output| trace.outputs.get(output)).and_then(top1));
            for (name, found) in trace.outputs.iter().filter(|(_, found)| found.dtype().is_float())
            {
                let own = expected[index].get(name).and_then(|known| Distance::of(found, known));
                distance = own.map(|own| distance.map_or(own, |all| all.join(own))).or(distance);
            }
        }
        self.accuracies = data.accuracy(classes.into_iter()).into_iter().collect();
        self.distance = distance;
        Ok(self)
    }

    /// The mean accuracy; `None` without images.
    pub fn accuracy(&self) -> Option<f64> {
        let list = &self.accuracies;
        (!list.is_empty()).then(|| list.iter().sum::<f64>() / list.len() as f64)
    }

    /// The least accuracy and the largest one; `None` without images.
    pub fn accuracy_range(&self) -> Option<(f64, f64)> {
        let list = || self.accuracies.iter().copied();
        list().reduce(f64::min).zip(list().reduce(f64::max))
    }

    /// Time where the clock is known, else cycles; infinite where nothing runs on the machine.
    pub(super) fn time(&self) -> f64 {
        let cycles = self.stats.cycles.map(|cycles| cycles as f64);
        self.stats.seconds().or(cycles).unwrap_or(f64::INFINITY)
    }
}

/// The layer on the host with the most multiplications, why it is there, and how many others are.
fn left(plan: &Plan) -> Option<String> {
    let on_host = |row: &&Row| row.place == Place::Host && row.macs > 0;
    let rows: Vec<_> = plan.rows.iter().filter(on_host).collect();
    let most = rows.iter().rev().max_by_key(|row| row.macs)?;
    let others = match rows.len() - 1 {
        0 => String::new(),
        1 => "; and another one".to_owned(),
        others => format!("; and {others} others"),
    };
    let reason = most.reason.as_deref().unwrap_or_default();
    Some(format!("{} is on the host: {reason}{others}", most.node))
}

/// Size and speed without the figures of the target.
mod speed {
    use quincunx_contract::Stats;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Speed {
        instructions: u64,
        bytes: u64,
        cycles: Option<u64>,
        interval: Option<u64>,
        hertz: Option<f64>,
    }

    pub(super) fn serialize<S: Serializer>(stats: &Stats, to: S) -> Result<S::Ok, S::Error> {
        let Stats { instructions, bytes, cycles, interval, hertz, .. } = *stats;
        Speed { instructions, bytes, cycles, interval, hertz }.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Stats, D::Error> {
        let Speed { instructions, bytes, cycles, interval, hertz } = Speed::deserialize(from)?;
        Ok(Stats { instructions, bytes, cycles, interval, hertz, figures: Vec::new() })
    }
}
