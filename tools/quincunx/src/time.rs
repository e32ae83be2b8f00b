//! `time`: how long a program takes, and why.

use crate::{Body, Executable, Outcome, Stage};
use quincunx_contract::{Program, Verb};
use quincunx_diag::{Diagnostic, Result};
use quincunx_report::{Cell, Column, Report, Table};
use quincunx_timeline::Timeline;
use std::ops::Range;

/// What stands for all segments.
const ALL: &str = "all";

/// Columns of charts that go where there is no limit.
const WIDTH: usize = 80;

/// The timeline of one program.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Name of its segment.
    pub segment: String,
    /// When what happens.
    pub timeline: Timeline,
    /// Where the time goes.
    pub profile: Vec<Table>,
}

/// Times every program; host segments take no time on the machine.
///
/// # Errors
/// `Q0640` without a program; a program that its machine's model cannot time.
pub fn time(executable: &Executable) -> Outcome<Vec<Timing>> {
    let timing = |(stage, program): (&Stage, &dyn Program)| {
        let (timeline, profile) = (program.time()?, program.shown_by(Verb::Time)?);
        let profile = profile.into_iter().map(costliest_first).collect();
        Ok(Timing { segment: stage.name.clone(), timeline, profile })
    };
    let timings = executable.programs().map(timing).collect::<Result<Vec<_>>>()?;
    if timings.is_empty() {
        return Err(Diagnostic::unsupported("Q0640", "no part of it runs on the machine").into());
    }
    Ok(timings)
}

/// Layers in the order of what they cost: their cycles, or the bits of their adders.
fn costliest_first(table: Table) -> Table {
    match table.key() {
        "layers" => table.largest_first("bits").largest_first("cycles"),
        _ => table,
    }
}

/// Adds what a synthesis tool makes of every program to its profile.
///
/// # Errors
/// `Q0648` for a machine whose programs are not logic; a tool that is missing or fails.
pub fn synthesise(executable: &Executable, timings: &mut [Timing]) -> Outcome<()> {
    for ((_, program), timing) in executable.programs().zip(timings) {
        if program.views().iter().all(|view| view.verb != Verb::Synth) {
            let message = "programs of this machine cannot be synthesised";
            return Err(Diagnostic::unsupported("Q0648", message).help("leave --synth out").into());
        }
        timing.profile.extend(program.shown_by(Verb::Synth)?);
    }
    Ok(())
}

/// What the timings leave out: segments on the host, whose time no model of a machine knows.
pub fn left_out(executable: &Executable) -> Option<Diagnostic> {
    let on_host = |stage: &&Stage| matches!(stage.body, Body::Host(_));
    let names: Vec<&str> =
        executable.stages.iter().filter(on_host).map(|stage| stage.name.as_str()).collect();
    let message = format!("not timed, since the host computes it: {}", names.join(", "));
    (!names.is_empty()).then(|| Diagnostic::note("Q0646", message))
}

/// Totals of every program and of all, lanes, the profile, a chart and, if asked for, single events
/// of every program; in so many columns, if there is a limit.
pub fn report(timings: &[Timing], events: Option<&Range<usize>>, columns: Option<usize>) -> Report {
    let profiles = timings.iter().map(|timing| (timing.segment.as_str(), timing.profile.clone()));
    let tables = by_segment(profiles.collect());
    let mut report = Report::new().table(summary(timings)).table(lanes(timings));
    report = tables.into_iter().fold(report, Report::table);
    for (number, Timing { segment, timeline, .. }) in timings.iter().enumerate() {
        let key = |what: &str| match timings {
            [_] => what.to_owned(),
            _ => format!("{what}_{number}"),
        };
        let title = if timings.len() > 1 { format!("{segment}\n") } else { String::new() };
        report = report
            .text(key("chart"), format!("{title}{}", timeline.chart(columns.unwrap_or(WIDTH))));
        if let Some(events) = events {
            report = report.text(key("events"), timeline.listing(events.clone(), columns));
        }
    }
    report
}

fn summary(timings: &[Timing]) -> Table {
    let columns = ["segment", "name", "value"].map(Column::text).to_vec();
    let mut table = Table::new("summary", columns);
    if let [first, _, ..] = timings {
        let all = || timings.iter().map(|timing| &timing.timeline);
        let total = all().map(Timeline::total).fold(0, u64::saturating_add);
        let clock = |timeline: &Timeline| (timeline.unit(), timeline.hertz());
        // Machines with other clocks have no cycles together.
        if all().all(|timeline| clock(timeline) == clock(&first.timeline)) {
            table.push(vec![ALL.into(), first.timeline.unit().into(), total.into()]);
        }
        if let Some(seconds) = all().map(Timeline::seconds).sum::<Option<f64>>() {
            table.push(vec![ALL.into(), "microseconds".into(), Cell::Brief(seconds * 1e6)]);
        }
    }
    for Timing { segment, timeline, .. } in timings {
        let mut row = |name: &str, value: Cell| {
            table.push(vec![segment.as_str().into(), name.into(), value]);
        };
        row(timeline.unit(), timeline.total().into());
        if let Some(seconds) = timeline.seconds() {
            row("microseconds", Cell::Brief(seconds * 1e6));
        }
        for figure in timeline.figures() {
            row(&figure.name, figure.value.as_str().into());
        }
    }
    table
}

/// One row per lane: how much it works, its share of the critical path, whom it waits for.
fn lanes(timings: &[Timing]) -> Table {
    let columns = vec![
        Column::text("segment"),
        Column::text("lane"),
        Column::number("events"),
        Column::number("busy_time"),
        Column::number("busy"),
        Column::number("critical"),
        Column::text("waits_for"),
    ];
    let mut table = Table::new("lanes", columns);
    for Timing { segment, timeline, .. } in timings {
        let share = |time: u64| Cell::Share(time as f64 / timeline.total().max(1) as f64);
        for usage in timeline.usage() {
            let name = |lane: quincunx_timeline::LaneId| timeline.lanes()[lane.index()].as_str();
            let waits = usage.waits.iter().map(|&(lane, time)| format!("{} {time}", name(lane)));
            table.push(vec![
                segment.as_str().into(),
                name(usage.lane).into(),
                usage.events.into(),
                usage.busy.into(),
                share(usage.busy),
                share(usage.critical),
                waits.collect::<Vec<_>>().join(", ").into(),
            ]);
        }
    }
    table
}

/// The tables of several programs as one of each kind, with the segment in front when there are
/// several.
pub(crate) fn by_segment(programs: Vec<(&str, Vec<Table>)>) -> Vec<Table> {
    if programs.len() == 1 {
        return programs.into_iter().flat_map(|(_, tables)| tables).collect();
    }
    let mut joined: Vec<Table> = Vec::new();
    for (segment, tables) in programs {
        for table in tables {
            let table = table.with_first("segment", segment);
            match joined.iter_mut().find(|known| known.has_form_of(&table)) {
                Some(known) => known.append(table),
                None => joined.push(table),
            }
        }
    }
    joined
}
