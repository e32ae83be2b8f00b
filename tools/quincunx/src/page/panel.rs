//! What a page shows of one machine.

use super::network::{Network, Node};
use super::values::Image;
use super::{Machine, layers, numbers, sortable};
use crate::executable::{Executable, Stage};
use quincunx_contract::folder::PlanRow;
use quincunx_contract::plan::Place;
use quincunx_diag::Result;
use quincunx_graph::Graph;
use quincunx_report::{Heading, html};
use quincunx_tensor::show_shape;
use quincunx_timeline::{Roofline, Timeline};
use std::collections::BTreeMap;

/// Most events of a timeline; neighbours become one where there are more.
const EVENTS: usize = 3000;

/// The parts of a panel, with titles.
pub(super) fn panel(machine: &Machine<'_>, image: Option<(&Image, usize)>) -> String {
    let mut out = problems(machine);
    let Some(executable) = machine.executable else { return out };
    let mut part = |title: &str, content: String| {
        if !content.is_empty() {
            out += &format!("<h4>{title}</h4>\n{content}");
        }
    };
    part("Network", network(machine, executable));
    if !machine.plan.is_empty() {
        part("Layers", sortable(&layers::table(machine, executable)));
    }
    for (stage, program) in executable.programs() {
        let of = match executable.programs().count() {
            1 => String::new(),
            _ => format!(" of {}", html(&stage.name)),
        };
        let timeline = program.time();
        part(&format!("Timeline{of}"), drawn(machine, stage, &timeline));
        let roofline = timeline.as_ref().ok().and_then(Timeline::roofline);
        part(&format!("Roofline{of}"), roofline.map(picture).unwrap_or_default());
    }
    part("Numbers and grids", numbers::section(machine, image));
    out
}

/// What is to be known about the machine before its figures.
fn problems(machine: &Machine<'_>) -> String {
    let item = |text: &str| format!("<li>{}</li>", html(text));
    let items: String = machine.problems.iter().map(|problem| item(problem.message())).collect();
    if items.is_empty() { items } else { format!("<ul class=\"problems\">{items}</ul>\n") }
}

fn drawn(machine: &Machine<'_>, stage: &Stage, timeline: &Result<Timeline>) -> String {
    match timeline {
        Ok(timeline) => {
            let name = format!("Timeline of {} on {}", stage.name, machine.name);
            timeline.condensed(EVENTS).element(&name)
        }
        Err(problem) => format!("<p>Not timed: {}.</p>\n", html(problem.message())),
    }
}

fn picture(roofline: &Roofline) -> String {
    format!("<div class=\"wide\">{}</div>\n", roofline.svg(&Heading::new("")))
}

/// The network as it was compiled, or the segments of a program.
fn network(machine: &Machine<'_>, executable: &Executable) -> String {
    let network = match machine.graph {
        Some(graph) => of_graph(graph, &machine.plan),
        None => of_stages(executable, &machine.plan),
    };
    let Some(strips) = network.svg() else {
        return format!("<p>{} nodes are too many to draw.</p>\n", network.nodes.len());
    };
    format!(
        "<p class=\"help\">Coloured: on the machine. Grey: on the host. A click on a node, or arrow \
         keys, tell about it.</p>\n<div class=\"network\" role=\"group\" aria-label=\"Network\">\n\
         {strips}</div>\n<div class=\"told\" aria-live=\"polite\"></div>\n"
    )
}

/// A node for every input and node of a graph.
fn of_graph(graph: &Graph, plan: &[PlanRow]) -> Network {
    let rows: BTreeMap<&str, &PlanRow> = plan.iter().map(|row| (row.node.as_str(), row)).collect();
    let mut network = Network::default();
    let mut numbers = BTreeMap::new();
    for &id in graph.inputs() {
        let value = &graph[id];
        numbers.insert(id, network.nodes.len());
        let about = format!("input {}\n{} {}", value.name, value.dtype, show_shape(&value.shape));
        let (op, name) = ("input".to_owned(), value.name.clone());
        network.nodes.push(Node { op, name, place: None, about });
    }
    for (_, node) in graph.nodes() {
        let row = rows.get(&*node.name);
        let value = &graph[node.output];
        let number = network.nodes.len();
        let mut about = format!("{} {}", node.op.name(), node.name);
        about += &format!("\n{}: {} {}", value.name, value.dtype, show_shape(&value.shape));
        if let Some(row) = row {
            about += &placement(row);
        }
        let (op, name) = (node.op.name().to_owned(), node.name.clone());
        network.nodes.push(Node { op, name, place: row.map(|row| row.place), about });
        let from = node.operands().filter_map(|operand| numbers.get(&operand));
        network.edges.extend(from.map(|&from| (from, number)));
        numbers.insert(node.output, number);
    }
    network
}

fn placement(row: &PlanRow) -> String {
    let macs = if row.macs > 0 { format!("\n{} MACs", row.macs) } else { String::new() };
    let reason = row.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    format!("{macs}\non the {}, in {}{reason}", row.place.name(), row.segment)
}

/// A node for every segment.
fn of_stages(executable: &Executable, plan: &[PlanRow]) -> Network {
    let mut network = Network::default();
    for (number, stage) in executable.stages.iter().enumerate() {
        let on_host = matches!(stage.body, crate::Body::Host(_));
        let place = if on_host { Place::Host } else { Place::Device };
        let nodes = plan.iter().filter(|row| row.segment == stage.name);
        let nodes: Vec<String> = nodes
            .map(|row| format!("\n{} {}{}", row.op, row.node, placement(row).replace('\n', ", ")))
            .collect();
        let about = format!(
            "{}\nreads {}\ncomputes {}{}",
            stage.name,
            stage.inputs.join(", "),
            stage.outputs.join(", "),
            nodes.concat()
        );
        let reads =
            |earlier: &Stage| earlier.outputs.iter().any(|name| stage.inputs.contains(name));
        let from =
            executable.stages[..number].iter().enumerate().filter(|(_, earlier)| reads(earlier));
        network.edges.extend(from.map(|(earlier, _)| (earlier, number)));
        let op = match nodes.len() {
            0 => "program".to_owned(),
            count => format!("{count} nodes"),
        };
        network.nodes.push(Node { op, name: stage.name.clone(), place: Some(place), about });
    }
    network
}
