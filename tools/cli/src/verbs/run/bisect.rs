//! `run --bisect`.

use super::{Compiled, Run};
use crate::console::Console;
use crate::input;
use quincunx::bisect::{Bisection, Case, Machine, bisect};
use quincunx::diag::{Diagnostic, Sources};
use quincunx::report::{Heading, Report};
use quincunx::verify::{Against, bisect_against, refuse_illegal};
use quincunx::{InputFile, Outcome, exit_code, is_model, targets};
use std::path::Path;

/// What was found, on which machine, and the texts it was read from.
struct Found {
    bisection: Bisection,
    machine: String,
    sources: Sources,
}

impl Run {
    /// Where the machine parts from its model.
    pub(super) fn bisected(&self, console: &Console) -> Outcome<u8> {
        let data = input::data_file(&self.data)?;
        let file = match &self.program[..] {
            [path] if !path.is_dir() => Some(input::open(path)?),
            _ => None,
        };
        let of_model = file.filter(|file| is_model(file, targets()));
        let Found { bisection, machine, sources } = match (&of_model, &self.model) {
            (Some(file), None) => self.bisected_model(file, data.as_ref(), console)?,
            (None, Some(model)) => self.bisected_program(model, data.as_ref(), console)?,
            (Some(_), Some(_)) => {
                let message = "--model has no effect on a model";
                return Err(Diagnostic::usage("Q0708", message).into());
            }
            (None, None) => {
                let help = "give the model it was compiled from with --model";
                return Err(missing("--bisect of a program needs its model", help).into());
            }
        };
        let image = format!("image {}", bisection.image);
        let problems = bisection.problems.iter().map(|problem| problem.clone().with_note(&*image));
        console.diagnostics(&problems.collect::<Vec<_>>(), &sources);
        let tables = std::iter::once(bisection.table()).chain(bisection.origin_table());
        let heading = Heading::new("Bisection").of(input::subject(&self.program)).on(machine);
        console.report(&tables.fold(Report::new(), Report::table).headed(heading), None)?;
        Ok(exit_code(&bisection.problems))
    }

    fn bisected_model(
        &self,
        file: &InputFile,
        data: Option<&InputFile>,
        console: &Console,
    ) -> Outcome<Found> {
        let target = self.reading.named()?.ok_or_else(|| {
            missing("--bisect of a model needs a machine", "name it with --target")
        })?;
        let Compiled { model, compilation, setup } =
            self.compilation(file, target, data, console)?;
        let executable = compilation.result?;
        let images = input::dataset(&self.data, data, &executable.inputs, console)?;
        let machine =
            Machine { plan: &compilation.plan, setup: &setup, scaled: &compilation.scaled };
        let case = Case { executable: &executable, machines: &[machine], model: &model.graph };
        let bisection = bisect(&case, &images, console.progress())?;
        Ok(Found { bisection, machine: setup.machine(), sources: Sources::new() })
    }

    fn bisected_program(
        &self,
        model: &Path,
        data: Option<&InputFile>,
        console: &Console,
    ) -> Outcome<Found> {
        let opened = input::program(&self.program, &self.reading)?;
        console.diagnostics(&opened.warnings, &opened.sources);
        refuse_illegal(&opened)?;
        let images = input::dataset(&self.data, data, &opened.executable.inputs, console)?;
        let calibration = input::calibration(&self.preparation)?;
        let known = data.into_iter().chain(&calibration);
        let model = input::model_of(&opened, model, &self.preparation, known)?;
        let against = Against {
            model: &model,
            no_fold_batch_norm: self.preparation.no_fold_batch_norm,
            calibration: self.calibration(calibration.as_ref(), data),
        };
        let bisection = bisect_against(&opened, &against, &images, console.progress())
            .map_err(|failure| failure.with_sources(&opened.sources))?;
        Ok(Found { bisection, machine: opened.machine(), sources: opened.sources })
    }
}

fn missing(message: &str, help: &str) -> Diagnostic {
    Diagnostic::usage("Q0720", message).help(help)
}
