//! stdout, stderr and files.

use crate::args::{Color, Global, Messages};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quincunx::diag::{Diagnostic, Severity, Sources, render};
use quincunx::report::{Format, Report};
use quincunx::{Failure, Outcome, Progress, available_threads, write_atomically};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::Path;

/// The user's side: how results and messages are written.
pub(crate) struct Console {
    /// Form of results.
    pub(crate) format: Format,
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

    /// Writes a report to a file or stdout.
    pub(crate) fn report(&self, report: &Report, output: Option<&Path>) -> Outcome<()> {
        self.write(output, report.render(self.format).as_bytes())
    }

    /// Writes bytes to a file, or to stdout for `-` and without a name.
    pub(crate) fn write(&self, output: Option<&Path>, bytes: &[u8]) -> Outcome<()> {
        self.bar.finish_and_clear();
        match output {
            Some(path) if path != Path::new("-") => Ok(write_atomically(path, bytes)?),
            _ => write_stdout(bytes),
        }
    }

    /// Prints the diagnostics of a failure.
    pub(crate) fn failure(&self, failure: &Failure) {
        self.diagnostics(&failure.diagnostics, &failure.sources);
    }

    /// Prints diagnostics; with `--quiet`, errors only.
    pub(crate) fn diagnostics(&self, diagnostics: &[Diagnostic], sources: &Sources) {
        self.bar.finish_and_clear();
        for diagnostic in diagnostics {
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
            Err(Diagnostic::invalid("Q0701", format!("cannot write the result: {error}"))
                .in_file("<stdout>")
                .into())
        }
        _ => Ok(()),
    }
}

/// Nothing can be told when stderr is closed.
fn to_stderr(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
