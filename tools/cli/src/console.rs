//! stdout, stderr and files.

use crate::args::{Color, Global, Messages};
use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quincunx::diag::{Diagnostic, Severity, Sources, render};
use quincunx::inspect::select;
use quincunx::report::{Format, MAIN, Report};
use quincunx::{Failure, Outcome, Progress, available_threads};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::Path;

/// Fewest columns that tables are fitted into.
const FEWEST: usize = 40;

/// Warnings of one kind that are shown.
const EXAMPLES: usize = 3;

/// The user's side: how results and messages are written.
pub(crate) struct Console {
    /// Form of results.
    pub(crate) format: Format,
    /// The only tables of the result that are wanted; all without names.
    pub(crate) tables: Vec<String>,
    /// Columns of tables on stdout, if there is a limit.
    columns: Option<usize>,
    /// Threads to use.
    pub(crate) threads: NonZeroUsize,
    messages: Messages,
    color: bool,
    quiet: bool,
    verbose: bool,
    bar: ProgressBar,
}

impl Console {
    pub(crate) fn new(global: &Global) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let hidden = global.quiet || global.message_format == Messages::Json;
        Console {
            format: global.format(),
            tables: global.table.clone(),
            columns: global.columns.map(NonZeroUsize::get).or_else(terminal),
            threads: global.threads.unwrap_or_else(available_threads),
            messages: global.message_format,
            color: match global.color {
                Color::Always => true,
                Color::Never => false,
                Color::Auto => io::stderr().is_terminal() && !no_color,
            },
            quiet: global.quiet,
            verbose: global.verbose,
            bar: progress_bar(hidden),
        }
    }

    /// Progress for the library; shown only on a terminal.
    pub(crate) fn progress(&self) -> &dyn Progress {
        self
    }

    /// Adds a report, or the tables of it that are asked for, to the results, or writes it to
    /// stdout.
    ///
    /// # Errors
    /// `Q0617` for a table that is not there, `Q0717` when CSV would have several.
    pub(crate) fn report(&self, report: &Report, output: Option<&Path>) -> Outcome<()> {
        let mut report = select(report.clone(), &self.tables)?;
        if self.format == Format::Csv {
            report = one_table(report)?;
        }
        self.write(output, report.render_within(self.format, self.columns(output)).as_bytes())
    }

    /// True where people see what matters most and ask for the rest.
    pub(crate) fn shows_brief(&self) -> bool {
        self.tables.is_empty() && matches!(self.format, Format::Text | Format::Markdown)
    }

    /// Columns of a result that goes there, if there is a limit.
    pub(crate) fn columns(&self, output: Option<&Path>) -> Option<usize> {
        self.columns.filter(|_| self.format == Format::Text && output.is_none_or(output::is_stdout))
    }

    /// Adds a file to the results; `-` and no name are stdout, which is written at once.
    pub(crate) fn write(&self, output: Option<&Path>, bytes: &[u8]) -> Outcome<()> {
        self.bar.finish_and_clear();
        match output {
            Some(path) if !output::is_stdout(path) => Ok(output::file(path, bytes)?),
            _ => write_stdout(bytes),
        }
    }

    /// Prints the diagnostics of a failure.
    pub(crate) fn failure(&self, failure: &Failure) {
        self.diagnostics(&failure.diagnostics, &failure.sources);
    }

    /// Prints diagnostics; with `--quiet`, errors only. People see warnings and notes of one kind
    /// once.
    pub(crate) fn diagnostics(&self, diagnostics: &[Diagnostic], sources: &Sources) {
        self.bar.finish_and_clear();
        let shown = match self.messages {
            Messages::Json => diagnostics.to_vec(),
            Messages::Human | Messages::Short => of_a_kind(diagnostics, sources),
        };
        for diagnostic in &shown {
            if self.quiet && diagnostic.severity() != Severity::Error {
                continue;
            }
            let text = match self.messages {
                Messages::Human => render::human(diagnostic, sources, self.color),
                Messages::Short => render::short(diagnostic, sources),
                Messages::Json => render::json(diagnostic, sources),
            };
            to_stderr(&text);
        }
    }

    /// Prints a line for people who asked for details.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose && self.messages != Messages::Json {
            self.bar.finish_and_clear();
            to_stderr(&quincunx::report::visible(text));
        }
    }
}

impl Progress for Console {
    fn start(&self, what: &str, steps: usize) {
        self.bar.reset();
        self.bar.set_length(steps as u64);
        self.bar.set_message(what.to_owned());
        self.bar.tick();
    }

    fn step(&self) {
        self.bar.inc(1);
    }
}

/// Columns of the terminal that stdout is; none where it is something else, so that nothing is
/// shortened in files and pipes.
fn terminal() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0).max(FEWEST))
}

/// The only table, or the one that is called like the result itself.
fn one_table(report: Report) -> Outcome<Report> {
    let tables = report.tables();
    if tables.len() <= 1 {
        return Ok(report);
    }
    if tables.contains(&MAIN) {
        return Ok(report.only(|key| key == MAIN));
    }
    let message = format!("CSV holds one table, and there are {}", tables.len());
    Err(Diagnostic::usage("Q0717", message)
        .help(format!("choose one with --table: {}", tables.join(", ")))
        .into())
}

/// Warnings and notes with one code and one text but for names and numbers as the first of them,
/// with the number of all and examples.
fn of_a_kind(diagnostics: &[Diagnostic], sources: &Sources) -> Vec<Diagnostic> {
    let mut kinds: Vec<(String, Vec<&Diagnostic>)> = Vec::new();
    let mut places = BTreeMap::new();
    for (index, diagnostic) in diagnostics.iter().enumerate() {
        let kind = match diagnostic.is_error() {
            // Errors are told one by one.
            true => index.to_string(),
            false => format!("{} {}", diagnostic.code(), pattern(diagnostic.message())),
        };
        let at = *places.entry(kind.clone()).or_insert_with(|| {
            kinds.push((kind, Vec::new()));
            kinds.len() - 1
        });
        kinds[at].1.push(diagnostic);
    }
    let joined = kinds.into_iter().flat_map(|(_, all)| match all[..] {
        [first, ref others @ ..] if all.len() > EXAMPLES => {
            let mut joined = first.clone().with_note(format!("{} of this kind, also:", all.len()));
            for other in others.iter().take(EXAMPLES - 1) {
                let place = render::place(other, sources);
                let place = place.map(|place| format!(" ({place})")).unwrap_or_default();
                joined = joined.with_note(format!("{}{place}", other.message()));
            }
            vec![joined]
        }
        _ => all.into_iter().cloned().collect(),
    });
    joined.collect()
}

/// The text without its numbers and quoted names.
fn pattern(message: &str) -> String {
    let unquoted = message.split('"').step_by(2).collect::<Vec<_>>().join("\"");
    unquoted.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect()
}

fn progress_bar(hidden: bool) -> ProgressBar {
    let target = if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}");
    ProgressBar::with_draw_target(Some(0), target)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// A reader that has seen enough closes the pipe; that is not an error.
fn write_stdout(bytes: &[u8]) -> Outcome<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Diagnostic::system("Q0701", "write the result", &error).in_file("<stdout>").into())
        }
        _ => Ok(()),
    }
}

/// Nothing can be told when stderr is closed.
fn to_stderr(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_one_kind_are_one_with_examples() {
        let warning = |name: &str| {
            Diagnostic::warning("Q0635", format!("array {name:?} is not a value of the run"))
        };
        let mut all: Vec<Diagnostic> = (0..12).map(|n| warning(&format!("conv{n}"))).collect();
        all.insert(3, Diagnostic::warning("Q0635", "there is no array for the output \"y\""));
        all.push(Diagnostic::answer("Q0636", "1 of 2 values differ"));
        all.push(Diagnostic::answer("Q0636", "2 of 2 values differ"));
        let shown: Vec<String> = of_a_kind(&all, &Sources::new())
            .iter()
            .map(|diagnostic| render::human(diagnostic, &Sources::new(), false))
            .collect();
        assert_eq!(shown.len(), 4, "{shown:?}");
        assert!(shown[0].contains("12 of this kind"), "{}", shown[0]);
        for (name, there) in [("conv0", true), ("conv1\"", true), ("conv2", true), ("conv3", false)]
        {
            assert_eq!(shown[0].contains(name), there, "{}", shown[0]);
        }
        // Few of a kind stay as they are.
        let few = &all[..3];
        assert_eq!(of_a_kind(few, &Sources::new()), few);
    }
}
