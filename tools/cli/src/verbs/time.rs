//! `time`.

use crate::args::{Reading, TextOutput};
use crate::console::Console;
use crate::input;
use crate::verbs::compile::{is_stdout, two_on_stdout};
use clap::Args;
use quincunx::diag::{Diagnostic, Result};
use quincunx::time::{Timing, report, time};
use quincunx::{Outcome, Selection};
use std::path::{Path, PathBuf};

/// Tell how long a program takes on its machine, and why
///
/// Prints the total, how busy every unit is, its share of the critical path (the chain of events
/// that decides the total) and what it waits for. The timing model is one of the target's options.
#[derive(Args)]
pub(crate) struct Time {
    /// Program folder, or native files of one program
    #[arg(required = true)]
    program: Vec<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Also list the first N events, or those from A on and before B
    #[arg(long, value_name = "N|A..B")]
    events: Option<Selection>,
    /// Write the timeline for ui.perfetto.dev to this file
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write the timeline as a page for a browser to this file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    #[command(flatten)]
    output: TextOutput,
}

impl Time {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        let results = [&self.perfetto, &self.page, &self.output.output];
        let is_stream = |path: &Option<PathBuf>| path.as_deref().is_some_and(is_stdout);
        let streams = results.iter().filter(|path| is_stream(path)).count();
        if streams + usize::from(self.output.output.is_none()) > 1 {
            return Err(two_on_stdout().into());
        }
        let opened = input::program(&self.program, &self.reading)?;
        console.diagnostics(&opened.warnings, &opened.sources);
        let timings = time(&opened.executable)?;
        let events = self.events.as_ref().map(|Selection(range)| range);
        if let Some(path) = &self.perfetto {
            console.write(Some(path), only(&timings)?.timeline.perfetto().as_bytes())?;
        }
        if let Some(path) = &self.page {
            console.write(Some(path), only(&timings)?.timeline.html(&self.title()).as_bytes())?;
        }
        console.report(&report(&timings, events), self.output.output.as_deref())?;
        Ok(0)
    }

    fn title(&self) -> String {
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        self.program.first().and_then(|path| name(path)).unwrap_or_default()
    }
}

/// One file holds one timeline.
fn only(timings: &[Timing]) -> Result<&Timing> {
    match timings {
        [timing] => Ok(timing),
        _ => Err(Diagnostic::unsupported(
            "Q0712",
            format!("there are {} programs, a file holds the timeline of one", timings.len()),
        )
        .help("give the native files of one segment")),
    }
}
