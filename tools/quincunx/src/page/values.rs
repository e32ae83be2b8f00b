//! Values of images: what the model and the machines compute, and feature maps of it.

use super::maps::Maps;
use super::{COLOURS, Machine, Subject};
use crate::Outcome;
use quincunx_contract::Engine;
use quincunx_diag::Result;
use quincunx_graph::execute::{Session, Settings};
use quincunx_graph::{Node, Op};
use quincunx_report::html;
use quincunx_tensor::{Tensor, Tensors};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Most values of which feature maps are shown.
const MOST: usize = 24;

/// Pixels of the screen that maps are wide at most, and that one of their pixels is.
const WIDTH: usize = 900;
const SCALE: usize = 12;

/// What everybody computes for an image.
pub(super) struct Image {
    /// Its number.
    number: usize,
    /// There is a model.
    is_of_model: bool,
    /// Values of the model as given, in the order in which they are computed, inputs first.
    pub(super) model: Vec<(String, Tensor)>,
    /// Those of the machines, in their order; empty for machines without a program.
    pub(super) machines: Vec<Tensors>,
}

impl Image {
    /// All images of a page.
    pub(super) fn all(subject: &Subject<'_>, machines: &[Machine<'_>]) -> Outcome<Vec<Image>> {
        let session = subject.model.filter(|_| !subject.images.is_empty());
        let session = session.map(|graph| Session::for_values(graph, Settings::default()));
        let session = session.transpose()?;
        let mut sessions = Vec::new();
        for machine in machines {
            let wanted = machine.executable.filter(|_| !subject.images.is_empty());
            let load = wanted.map(|executable| executable.load_with(Engine::Fast));
            sessions.push(load.transpose()?);
        }
        let mut images = Vec::new();
        for &(number, given) in &subject.images {
            let mut model: Vec<(String, Tensor)> =
                given.iter().map(|(name, tensor)| (name.clone(), tensor.clone())).collect();
            for value in session.iter().map(|session| session.values(given)) {
                let values =
                    value?.map(|value| value.map(|(name, tensor)| (name.to_owned(), tensor)));
                model.extend(values.collect::<Result<Vec<_>>>()?);
            }
            let of = |session: &mut Option<crate::Session<'_>>| {
                let Some(session) = session else { return Ok(Tensors::new()) };
                let trace = session.run_layers(given)?;
                let mut values = trace.host;
                values.extend(trace.device);
                values.extend(trace.outputs);
                Ok(values)
            };
            let machines = sessions.iter_mut().map(of).collect::<Result<_>>()?;
            images.push(Image { number, is_of_model: session.is_some(), model, machines });
        }
        Ok(images)
    }

    /// A value of the model.
    pub(super) fn of_model(&self, name: &str) -> Option<&Tensor> {
        self.model.iter().find(|(other, _)| other == name).map(|(_, tensor)| tensor)
    }

    /// Names of values that somebody has, in the order of the model, or of the machines without one.
    fn names(&self, machines: &[Machine<'_>]) -> Vec<String> {
        let mut names: Vec<String> = self.model.iter().map(|(name, _)| name.clone()).collect();
        let executables = machines.iter().filter_map(|machine| machine.executable);
        names.extend(executables.flat_map(|executable| executable.value_order()));
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }
}

/// The feature maps of the images, and what chooses among them; `None` without images.
pub(super) fn section(machines: &[Machine<'_>], images: &[Image]) -> Result<Option<String>> {
    let Some(first) = images.first() else { return Ok(None) };
    let has = |name: &str| {
        let mut all = machines.iter().zip(&first.machines);
        all.any(|(machine, values)| own_value(machine, values, name).is_some())
    };
    let is_input = |name: &str| first.model.first().is_some_and(|(input, _)| input == name);
    // With a model, only what it has too: everything else has no counterpart.
    let shown = |name: &String| {
        is_input(name) || has(name) && (!first.is_of_model || first.of_model(name).is_some())
    };
    let names: Vec<String> = first.names(machines).into_iter().filter(shown).collect();
    let names = spread(&names);
    let mut options = String::new();
    for (index, name) in names.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(options, "<option value=\"{index}\">{}</option>", html(name));
    }
    let mut numbers = String::new();
    for (index, image) in images.iter().enumerate() {
        let _ = write!(numbers, "<option value=\"{index}\">{}</option>", image.number);
    }
    let mut out = format!(
        "<p class=\"choice\"><label>Image <select id=\"image\">{numbers}</select></label> \
         <label>Value <select id=\"value\">{options}</select></label></p>\n<p>Channels side by side, \
         the same shades of grey for all: black is the lowest number, white the highest.</p>\n"
    );
    for (number, image) in images.iter().enumerate() {
        for (index, name) in names.iter().enumerate() {
            let _ =
                write!(out, "<div class=\"maps\" data-image=\"{number}\" data-value=\"{index}\">");
            out += &figures(machines, image, name)?;
            out += "</div>\n";
        }
    }
    Ok(Some(out))
}

/// At most [`MOST`] of the names, the first and the last among them.
fn spread(names: &[String]) -> Vec<&String> {
    let last = names.len().saturating_sub(1);
    let steps = last.min(MOST - 1);
    let at = |step: usize| (step * last + steps / 2).checked_div(steps).unwrap_or(0);
    (0..=steps).filter_map(|step| names.get(at(step))).collect()
}

/// A value of the model as a machine has it: under its name, or moved onto a grid.
fn own_value<'a>(machine: &Machine<'_>, values: &'a Tensors, name: &str) -> Option<&'a Tensor> {
    let on_grid = || {
        let graph = machine.graph?;
        let value = graph.value_named(name)?;
        let quantises =
            |node: &&Node| matches!(node.op, Op::Quantise(_)) && node.input(0) == Some(value);
        let node = graph.nodes().map(|(_, node)| node).find(quantises)?;
        values.get(&graph[node.output].name)
    };
    values.get(name).or_else(on_grid)
}

/// A value as the model and every machine have it.
fn figures(machines: &[Machine<'_>], image: &Image, name: &str) -> Result<String> {
    let title = if image.is_of_model { "model as given" } else { "as given" };
    let model = image.of_model(name).map(|value| ("model".to_owned(), title, value));
    let of = |(number, machine): (usize, &Machine<'_>)| {
        let value = own_value(machine, image.machines.get(number)?, name)?;
        Some((format!("m{}", number % COLOURS), machine.name.clone(), value))
    };
    let own: Vec<(String, String, &Tensor)> = machines.iter().enumerate().filter_map(of).collect();
    let model = model.into_iter().map(|(class, title, value)| (class, title.to_owned(), value));
    let mut shown = Vec::new();
    for (class, title, value) in model.chain(own) {
        shown.extend(Maps::of(value).map(|maps| (class, title, maps)));
    }
    let ends = shown.iter().map(|(.., maps)| maps.ends());
    let ends = ends
        .reduce(|[low, high], [other_low, other_high]| [low.min(other_low), high.max(other_high)]);
    let mut out = String::new();
    for (class, title, maps) in &shown {
        let [low, high] = maps.ends().map(|end| end as f32);
        let (width, height, picture) = maps.picture(ends.unwrap_or_default())?;
        let scale = (WIDTH / width).clamp(1, SCALE);
        let (width, height) = (width * scale, height * scale);
        let _ = write!(
            out,
            "<figure class=\"{class}\"><figcaption>{}: {low} to {high}</figcaption>\
             <img width=\"{width}\" height=\"{height}\" alt=\"{} of {}\" src=\"{picture}\"></figure>",
            html(title),
            html(name),
            html(title)
        );
    }
    Ok(out)
}
