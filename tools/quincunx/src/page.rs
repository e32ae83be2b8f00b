//! `report`: one network on several machines as one page that needs nothing else.
//!
//! Everything is drawn here, as text and pictures; one script chooses what is shown, another draws
//! timelines. Nothing on a page depends on threads or on the clock.

mod errors;
mod histogram;
mod layers;
mod maps;
mod network;
mod numbers;
mod panel;
mod values;

use crate::compare::{Figures, Layer, Row};
use crate::executable::Executable;
use crate::verify::Agreement;
use crate::{InputSpec, Opened, Outcome, Setup};
use quincunx_contract::folder::{PlanRow, plan_rows};
use quincunx_contract::{Format, Numbers, compiler_of};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Graph;
use quincunx_report::{Cell, Column, Heading, Table, html};
use quincunx_tensor::{Tensors, show_shape};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use values::Image;

/// Styles of the page.
const STYLE: &str = include_str!("page/page.css");

/// What chooses, sorts and tells.
const SCRIPT: &str = include_str!("page/page.js");

/// What the columns of the summary are.
const SUMMARY: &str = "<p class=\"help\">agree: images whose class is that of the model as given. \
                       exact: images on which every value that can be observed equals the golden \
                       model, bit for bit. max error: between the golden model and exact arithmetic. \
                       max difference: of an output from that of the model as given. clipped: numbers \
                       beyond the ends of a type. MACs: share of the multiplications that the machine \
                       computes. used: share of the machine that works. limit: what decides the \
                       time. Times are those of the machine, without the host.</p>\n";

/// Colours of machines.
const COLOURS: usize = 8;

/// What runs before there is anything to choose: what is not chosen need not be laid out then.
const EARLY: &str = "document.documentElement.className = \"scripted\";";

/// What a page is about.
pub struct Subject<'a> {
    /// Name of the model, or of the programs.
    pub name: String,
    /// The model as given; `None` for programs alone.
    pub model: Option<&'a Graph>,
    /// Images of which values are shown, with their numbers; the first one is that of the histograms.
    pub images: Vec<(usize, &'a Tensors)>,
}

/// One machine on a page.
pub struct Machine<'a> {
    /// What it is called on the page: its target and its name.
    pub name: String,
    /// What became of the model: as in reports of `compare`.
    pub status: &'static str,
    /// Images that it was judged on, and on how many of them it equals its golden model.
    pub exact: Option<(usize, usize)>,
    /// What was measured on them.
    pub figures: Option<&'a Figures>,
    /// What runs; `None` when it could not be compiled.
    pub executable: Option<&'a Executable>,
    /// Warnings, or why it could not be compiled.
    pub problems: &'a [Diagnostic],
    /// The graph that was compiled; `None` when only its programs are there.
    pub graph: Option<&'a Graph>,
    /// Who computes which node, and why.
    pub plan: Vec<PlanRow>,
    /// The one grid of a machine whose numbers all have the same.
    pub format: Option<Format>,
}

impl<'a> Machine<'a> {
    /// A row of `compare`, which was set up so.
    pub fn of_row(row: &'a Row, setup: &Setup<'_>) -> Self {
        let compilation = row.compilation.as_ref();
        let numbers = compiler_of(setup.target).ok();
        let numbers = numbers.map(|compiler| compiler.numbers(&*setup.arch, &setup.options));
        let format = match numbers {
            Some(Numbers::Own { formats, .. }) => formats.into_iter().next(),
            Some(Numbers::Quantised(_) | Numbers::Float { .. }) | None => None,
        };
        Machine {
            name: setup.machine(),
            status: row.status.name(),
            exact: row.figures.as_ref().map(|figures| (row.images, figures.bit_exact)),
            figures: row.figures.as_ref(),
            executable: row.executable(),
            problems: &row.problems.diagnostics,
            graph: compilation.map(|compilation| &compilation.graph),
            plan: compilation.map(|own| plan_rows(&own.plan.rows)).unwrap_or_default(),
            format,
        }
    }

    /// A program folder, and how it agrees with its model where that was asked for.
    pub fn of_program(opened: &'a Opened<'_>, agreement: Option<&Agreement>) -> Self {
        Machine {
            name: opened.machine(),
            status: "program",
            exact: agreement.map(|agreement| (agreement.images, agreement.bit_exact)),
            figures: None,
            executable: Some(&opened.executable),
            problems: &opened.warnings,
            graph: None,
            plan: opened.plan.clone(),
            format: None,
        }
    }
}

/// Refuses programs that are not of one network: they have the same inputs and outputs, and layers
/// that multiply have the same work wherever they have one name.
///
/// # Errors
/// `Q0660` with what differs.
pub fn belong_together(programs: &[(String, Opened<'_>)]) -> Result<()> {
    let Some(((first, known), others)) = programs.split_first() else { return Ok(()) };
    for (name, opened) in others {
        let (one, other) = (&known.executable, &opened.executable);
        let inputs = |all: &Executable| {
            let input = |input: &InputSpec| format!("{} {}", input.name, show_shape(&input.shape));
            let mut inputs: Vec<String> = all.inputs.iter().map(input).collect();
            inputs.sort_unstable();
            inputs.join(", ")
        };
        let outputs = |all: &Executable| {
            let mut outputs: Vec<&str> = all.outputs.iter().map(String::as_str).collect();
            outputs.sort_unstable();
            outputs.join(", ")
        };
        let (one_inputs, other_inputs) = (inputs(one), inputs(other));
        let (one_outputs, other_outputs) = (outputs(one), outputs(other));
        let difference = if one_inputs != other_inputs {
            format!("{first} reads {one_inputs}, {name} reads {other_inputs}")
        } else if one_outputs != other_outputs {
            format!("{first} computes {one_outputs}, {name} computes {other_outputs}")
        } else if let Some(node) = other_work(&known.plan, &opened.plan) {
            format!("the work of the layer \"{node}\" differs in {first} and {name}")
        } else {
            continue;
        };
        let message = format!("the programs are not of one network: {difference}");
        return Err(Diagnostic::usage("Q0660", message)
            .help("give programs of the same model, or one report for each"));
    }
    Ok(())
}

/// A node that multiplies, has one name in both plans and another count of multiplications.
fn other_work<'p>(one: &'p [PlanRow], other: &[PlanRow]) -> Option<&'p str> {
    let works = |row: &&PlanRow| row.macs > 0;
    let known: BTreeMap<&str, u64> =
        other.iter().filter(works).map(|row| (row.node.as_str(), row.macs)).collect();
    let differs = |row: &&PlanRow| known.get(&*row.node).is_some_and(|&macs| macs != row.macs);
    one.iter().filter(works).find(differs).map(|row| row.node.as_str())
}

/// The page.
///
/// # Errors
/// Images that do not fit, and faults of programs that run them.
pub fn page(subject: &Subject<'_>, machines: &[Machine<'_>]) -> Outcome<String> {
    let images = Image::all(subject, machines)?;
    let mut body = Body::default();
    body.section("summary", "Summary", &format!("{}{SUMMARY}", sortable(&summary(machines))));
    if let Some(picture) = differences(subject, machines) {
        body.section("errors", "Distance of every layer from the model", &picture);
    }
    body.section("machines", "Machines", &panels(machines, images.first()));
    if let Some(maps) = values::section(machines, &images)? {
        body.section("maps", "Feature maps", &maps);
    }
    let names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    let heading = Heading::new("Report").of(subject.name.as_str()).on(names.join(", "));
    let style = format!("{}{STYLE}", quincunx_timeline::STYLE);
    Ok(heading.page(&style, &body.finish()))
}

/// Sections, and links to them.
#[derive(Default)]
struct Body {
    links: String,
    sections: String,
}

impl Body {
    fn section(&mut self, id: &str, title: &str, content: &str) {
        // Writing to a string cannot fail.
        let _ = write!(self.links, "<a href=\"#{id}\">{title}</a> ");
        let _ = writeln!(
            self.sections,
            "<section id=\"{id}\" aria-label=\"{title}\">\n<h2>{title}</h2>\n{content}</section>"
        );
    }

    fn finish(self) -> String {
        format!(
            "<nav aria-label=\"Contents\">{}</nav>\n{}<script>\n{SCRIPT}</script>\n\
             <script>\n{}</script>\n",
            self.links.trim_end(),
            self.sections,
            quincunx_timeline::SCRIPT
        )
    }
}

/// A table whose columns the script sorts by.
fn sortable(table: &Table) -> String {
    format!("<div class=\"wide sortable\">\n{}</div>\n", table.html())
}

/// One row per machine. What is measured by the clock of this computer is left out.
fn summary(machines: &[Machine<'_>]) -> Table {
    let is_judged = machines.iter().any(|machine| machine.exact.is_some());
    let columns = vec![
        Column::text("machine"),
        Column::text("status"),
        Column::number("accuracy"),
        Column::number("agree"),
        Column::number("bit_exact").titled("exact"),
        Column::number("images"),
        Column::number("max_error"),
        Column::number("max_difference"),
        Column::number("clipped"),
        Column::number("device_mac_share").titled("MACs"),
        Column::number("utilisation").titled("used"),
        Column::text("limit"),
        Column::number("instructions"),
        Column::number("bytes"),
        Column::number("cycles"),
        Column::number("time").unit("µs"),
        Column::number("rate").unit("images/s"),
    ];
    let judged = 2..12;
    let kept = |at: &usize| is_judged || !judged.contains(at);
    let keep = |columns: Vec<Column>| {
        let kept = columns.into_iter().enumerate().filter(|(at, _)| kept(at));
        kept.map(|(_, column)| column).collect()
    };
    let mut table = Table::new("summary", keep(columns));
    for machine in machines {
        let cells = cells(machine).into_iter().enumerate().filter(|(at, _)| kept(at));
        table.push(cells.map(|(_, cell)| cell).collect());
    }
    table
}

fn cells(machine: &Machine<'_>) -> [Cell; 17] {
    let figures = machine.figures;
    let demand = figures.and_then(Figures::demand);
    let stats = machine.executable.map(Executable::stats);
    let stats = stats.as_ref();
    // Machines whose time is not counted in cycles have one, too.
    let known = figures.and_then(|figures| figures.seconds);
    let seconds = known.or_else(|| stats.and_then(|stats| stats.seconds()));
    [
        machine.name.as_str().into(),
        machine.status.into(),
        figures.and_then(|figures| figures.accuracy).map_or(Cell::Empty, Cell::Share),
        figures.map(|figures| figures.agree).into(),
        machine.exact.map(|(_, exact)| exact).into(),
        machine.exact.map(|(images, _)| images).into(),
        figures.and_then(|figures| figures.max_error).map_or(Cell::Empty, Cell::Brief),
        figures.map_or(Cell::Empty, |figures| Cell::Brief(figures.max_difference)),
        figures.map(|figures| figures.clipped).into(),
        figures.map_or(Cell::Empty, |figures| Cell::Share(figures.device_mac_share)),
        demand.and_then(|demand| demand.utilisation).map_or(Cell::Empty, Cell::Share),
        demand.and_then(|demand| demand.limit.clone()).into(),
        stats.map(|stats| stats.instructions).into(),
        stats.map(|stats| stats.bytes).into(),
        stats.and_then(|stats| stats.cycles).into(),
        seconds.map_or(Cell::Empty, |seconds| Cell::Brief(seconds * 1e6)),
        stats.and_then(|stats| stats.rate()).map_or(Cell::Empty, Cell::Brief),
    ]
}

/// How far the layers of all machines are from the model, in one picture.
fn differences(subject: &Subject<'_>, machines: &[Machine<'_>]) -> Option<String> {
    let model = subject.model?;
    let lines: Vec<errors::Line<'_>> = machines
        .iter()
        .enumerate()
        .filter_map(|(number, machine)| {
            let layers = &machine.figures?.layers;
            Some(errors::Line {
                machine: number % COLOURS,
                name: &machine.name,
                layers: placed(model, layers),
            })
        })
        .collect();
    let picture = errors::svg(&lines, model.nodes().len())?;
    let explained = "<p>Signal over noise of every value against the model as given, in decibels; \
                     what is equal stands at the top.</p>\n";
    Some(format!("{}{explained}<div class=\"wide\">{picture}</div>\n", legend(machines)))
}

/// Layers with their places among the nodes of the model.
fn placed<'a>(model: &Graph, layers: &'a [Layer]) -> Vec<(f64, &'a str, Option<f64>)> {
    let place = |layer: &'a Layer| {
        let distance = layer.distance?;
        let node = model[model.value_named(&layer.value)?].producer?;
        let decibels = distance.decibels();
        // Infinities and values that are not numbers are as far as can be.
        let lost = decibels.is_none() && distance.noise > 0.0;
        let decibels = if lost { Some(0.0) } else { decibels };
        Some((node.index() as f64, layer.value.as_str(), decibels))
    };
    let mut placed: Vec<_> = layers.iter().filter_map(place).collect();
    placed.sort_by(|(one, ..), (other, ..)| one.total_cmp(other));
    placed
}

/// The colours of the machines.
fn legend(machines: &[Machine<'_>]) -> String {
    let mut out = "<ul class=\"machines\">".to_owned();
    for (number, machine) in machines.iter().enumerate() {
        let _ = write!(out, "<li class=\"m{}\">{}</li>", number % COLOURS, html(&machine.name));
    }
    out + "</ul>\n"
}

/// A panel for every machine, and tabs to choose one.
fn panels(machines: &[Machine<'_>], image: Option<&Image>) -> String {
    let mut out = format!(
        "<script>{EARLY}</script>\n<div class=\"tabs\" role=\"tablist\" aria-label=\"Machines\">"
    );
    for (number, machine) in machines.iter().enumerate() {
        let _ = write!(
            out,
            "<button type=\"button\" role=\"tab\" class=\"m{}\" id=\"tab{number}\" \
             aria-controls=\"machine{number}\">{}</button>",
            number % COLOURS,
            html(&machine.name)
        );
    }
    out += "</div>\n";
    for (number, machine) in machines.iter().enumerate() {
        let _ = writeln!(
            out,
            "<article class=\"panel m{}\" id=\"machine{number}\" role=\"tabpanel\" \
             aria-labelledby=\"tab{number}\">\n<h3>{}</h3>\n{}</article>",
            number % COLOURS,
            html(&machine.name),
            panel::panel(machine, image.map(|image| (image, number)))
        );
    }
    out
}
