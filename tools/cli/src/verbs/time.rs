//! `time`.

use crate::args::{Reading, TextOutput};
use crate::console::Console;
use crate::input;
use crate::output::{self, is_stdout, two_on_stdout};
use clap::Args;
use quincunx::diag::{Diagnostic, Sources};
use quincunx::report::Heading;
use quincunx::time::{Timing, left_out, report, synthesise, time};
use quincunx::timeline::Timeline;
use quincunx::verify::refuse_illegal;
use quincunx::{Outcome, Selection};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// What pages show.
const TITLE: &str = "Timeline";

/// Show how long a program takes on its machine, and why
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
    /// Also list the first N events, or those from A up to but not including B
    #[arg(long, value_name = "N|A..B")]
    events: Option<Selection>,
    /// Write the timeline for ui.perfetto.dev to this file; with several programs one file each,
    /// FILE with the name of the segment before its extension
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write the timeline as a page for a browser to this file; with several programs as for
    /// --perfetto
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Write the roofline of the machine as a picture (SVG), with a point for every part of the
    /// program that multiplies; with several programs as for --perfetto
    #[arg(long, value_name = "FILE")]
    roofline: Option<PathBuf>,
    /// Draw at most this many events in --perfetto and --page; neighbours become one where there are
    /// more
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_events: u32,
    /// Also run a synthesis tool on the program and print its counts: Yosys (`synth_xilinx`) for
    /// dais, which must be installed
    #[arg(long)]
    synth: bool,
    #[command(flatten)]
    output: TextOutput,
}

impl Time {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        let results = [&self.perfetto, &self.page, &self.roofline, &self.output.output];
        let is_stream = |path: &Option<PathBuf>| path.as_deref().is_some_and(is_stdout);
        let streams = results.iter().filter(|path| is_stream(path)).count();
        if streams + usize::from(self.output.output.is_none()) > 1 {
            return Err(two_on_stdout().into());
        }
        output::expect(results.into_iter().flatten())?;
        let opened = input::program(&self.program, &self.reading)?;
        console.diagnostics(&opened.warnings, &opened.sources);
        refuse_illegal(&opened)?;
        let mut timings =
            time(&opened.executable).map_err(|failure| failure.with_sources(&opened.sources))?;
        if self.synth {
            synthesise(&opened.executable, &mut timings)?;
        }
        console.diagnostics(left_out(&opened.executable).as_slice(), &Sources::new());
        let events = self.events.as_ref().map(|Selection(range)| range);
        let subject = input::subject(&self.program);
        let heading = |timing: &Timing| match timings.len() {
            1 => opened.heading(TITLE, &subject),
            _ => opened.heading(TITLE, &format!("{subject}, {}", timing.segment)),
        };
        if let Some(path) = &self.perfetto {
            write_each(path, &timings, console, |timing| Ok(self.drawn(timing).perfetto()))?;
        }
        if let Some(path) = &self.page {
            write_each(path, &timings, console, |timing| {
                Ok(self.drawn(timing).html(&heading(timing)))
            })?;
        }
        if let Some(path) = &self.roofline {
            write_each(path, &timings, console, |timing| roofline(timing, &heading(timing)))?;
        }
        let output = self.output.output.as_deref();
        let report = report(&timings, events, console.columns(output));
        console.report(&report.headed(opened.heading(TITLE, &subject)), output)?;
        Ok(0)
    }

    /// What pictures show.
    fn drawn<'a>(&self, timing: &'a Timing) -> Cow<'a, Timeline> {
        timing.timeline.condensed(self.max_events as usize)
    }
}

fn roofline(timing: &Timing, heading: &Heading) -> Outcome<String> {
    let roofline = timing.timeline.roofline();
    let svg = roofline.map(|roofline| roofline.svg(heading)).ok_or_else(|| {
        Diagnostic::unsupported("Q0716", "the timing model of this machine has no roofline")
            .help("leave --roofline out")
    });
    Ok(svg?)
}

/// Writes one file per program: under the name that is given, or with the name of the segment
/// before its ending when there are several.
fn write_each(
    path: &Path,
    timings: &[Timing],
    console: &Console,
    text: impl Fn(&Timing) -> Outcome<String>,
) -> Outcome<()> {
    if let [only] = timings {
        return console.write(Some(path), text(only)?.as_bytes());
    }
    if is_stdout(path) {
        let message =
            format!("there are {} programs, stdout takes the timeline of one", timings.len());
        let problem = Diagnostic::usage("Q0712", message);
        return Err(problem.help("name a file; each program gets its own").into());
    }
    for timing in timings {
        let path = path_of_segment(path, &timing.segment);
        console.write(Some(&path), text(timing)?.as_bytes())?;
    }
    Ok(())
}

/// `out.json` becomes `out.device0.json`.
fn path_of_segment(path: &Path, segment: &str) -> PathBuf {
    let name = match (path.file_stem(), path.extension()) {
        (Some(stem), Some(extension)) => {
            format!("{}.{segment}.{}", stem.to_string_lossy(), extension.to_string_lossy())
        }
        _ => format!("{}.{segment}", path.file_name().unwrap_or_default().to_string_lossy()),
    };
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;
    use quincunx::timeline::Event;

    fn timing(segment: &str) -> Timing {
        let mut timeline = Timeline::new("cycles");
        let lane = timeline.lane("unit");
        let (name, detail) = (segment.to_owned(), String::new());
        timeline.event(Event { lane, start: 0, duration: 1, name, detail });
        Timing { segment: segment.to_owned(), timeline, profile: Vec::new() }
    }

    #[test]
    fn several_programs_get_a_file_each() {
        let cli = Cli::try_parse_from(["quincunx", "targets"]).unwrap_or_else(|e| panic!("{e}"));
        let console = Console::new(&cli.global);
        let place = std::env::temp_dir().join(format!("quincunx-time-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let timings = [timing("device0"), timing("device1")];
        let write = |path: &Path, timings: &[Timing]| {
            write_each(path, timings, &console, |timing| Ok(timing.timeline.perfetto()))
        };
        for (given, files) in [
            ("t.json", ["t.device0.json", "t.device1.json"]),
            ("a.b/t", ["a.b/t.device0", "a.b/t.device1"]),
        ] {
            std::fs::create_dir_all(place.join("a.b")).unwrap();
            write(&place.join(given), &timings).unwrap();
            output::commit().unwrap();
            for (file, segment) in files.iter().zip(["device0", "device1"]) {
                let text = std::fs::read_to_string(place.join(file)).unwrap();
                assert!(text.contains(segment), "{file}");
            }
        }
        assert_eq!(write(Path::new("-"), &timings).unwrap_err().exit_code(), 2);
        write(&place.join("one"), &timings[..1]).unwrap();
        output::commit().unwrap();
        assert!(place.join("one").is_file());
        std::fs::remove_dir_all(&place).unwrap();
    }
}
