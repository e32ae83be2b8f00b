//! Pages for a browser that need nothing else. A timeline is an element that can be put on a page
//! several times; its script and its styles are put there once.

use crate::Timeline;
use crate::perfetto::PARTS;
use quincunx_report::{Heading, html};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What explains a timeline, and its buttons.
const TOOLS: &str = include_str!("widget.html");

/// Styles of the timelines of a page.
pub const STYLE: &str = include_str!("widget.css");

/// The script that draws the timelines of a page, to be put behind them.
pub const SCRIPT: &str = include_str!("widget.js");

/// What there is without a script.
const WITHOUT: &str = "<noscript><p>The timeline is drawn by a script, which this browser does not \
                       run.</p></noscript>\n";

impl Timeline {
    /// A page with the lanes, to zoom (wheel) and to move (drag) in; what one points at is told in
    /// numbers, a click on an event shows what it waits for.
    pub fn html(&self, heading: &Heading) -> String {
        let roofline = self.roofline().map(|roofline| roofline.svg(heading));
        let memories = self.memories().iter();
        let memories = memories.map(|map| map.svg(self.total(), self.unit(), heading));
        let pictures: String = roofline.into_iter().chain(memories).collect();
        let body = format!("{}{pictures}<script>\n{SCRIPT}</script>\n", self.element("timeline"));
        heading.page(STYLE, &body)
    }

    /// The timeline as an element for a page with [`STYLE`] that ends with [`SCRIPT`]; `name` is what
    /// it is called where it is not seen.
    pub fn element(&self, name: &str) -> String {
        let mut figures = String::new();
        let total = format!("{} {}", self.total(), self.unit());
        let own = self.figures().iter().map(|figure| (&*figure.name, &*figure.value));
        for (name, value) in [("total", &*total)].into_iter().chain(own) {
            let _ = writeln!(figures, "<tr><td>{}</td><td>{}</td></tr>", html(name), html(value));
        }
        format!(
            "<div class=\"timeline\">\n<table class=\"figures\">\n{figures}</table>\n{TOOLS}\
             <canvas tabindex=\"0\" role=\"application\" aria-label=\"{}\"></canvas>\n\
             <ul class=\"legend\"></ul>\n<div class=\"about\" aria-live=\"polite\"></div>\n\
             <div class=\"tip\"></div>\n{WITHOUT}\
             <script type=\"application/json\">{}</script>\n</div>\n",
            html(name),
            self.data()
        )
    }

    /// What the script draws. Texts that events share are there once.
    fn data(&self) -> String {
        let tracks = self.tracks();
        let above = usize::from(!self.parts().is_empty());
        let mut words = Words::default();
        let mut out = "{\n".to_owned();
        let mut field = |name: &str, value: Value| {
            let _ = writeln!(out, "\"{name}\":{},", script(&value));
        };
        field("unit", json!(self.unit()));
        field("total", json!(self.total()));
        let rows = std::iter::repeat_n(PARTS, above).chain(tracks.names.iter().map(String::as_str));
        field("tracks", rows.collect());
        field("critical", self.critical_path().iter().map(|step| step.event.index()).collect());
        let counter = |counter: &crate::Counter| json!({ "name": counter.name, "unit": counter.unit, "samples": counter.samples });
        field("counters", self.counters().iter().map(counter).collect());
        // Behind the events, whose numbers the critical path and the dependencies name.
        field("parts", json!(self.events().len()));
        let mut texts = |name, detail| (words.number(name), words.number(detail));
        let mut events = Vec::with_capacity(self.events().len() + self.parts().len());
        for (event, track) in self.events().iter().zip(&tracks.of) {
            let (name, detail) = texts(&event.name, &event.detail);
            events.push(format!(
                "[{},{},{},{name},{detail}]",
                track + above,
                event.start,
                event.duration
            ));
        }
        for part in self.parts() {
            let (name, detail) = texts(&part.name, "");
            events.push(format!("[0,{},{},{name},{detail}]", part.start, part.end - part.start));
        }
        list(&mut out, "events", &events);
        let mut dependencies = self.dependencies().to_vec();
        dependencies.sort_by_key(|dependency| dependency.to);
        let dependency = |d: &crate::Dependency| {
            format!("[{},{},{}]", d.from.index(), d.to.index(), words.number(d.kind))
        };
        let dependencies: Vec<String> = dependencies.iter().map(dependency).collect();
        list(&mut out, "dependencies", &dependencies);
        out + "\"words\":" + &script(&json!(words.all)) + "\n}"
    }
}

/// Texts with their numbers.
#[derive(Default)]
struct Words<'a> {
    all: Vec<&'a str>,
    numbers: BTreeMap<&'a str, usize>,
}

impl<'a> Words<'a> {
    fn number(&mut self, word: &'a str) -> usize {
        let next = self.all.len();
        let number = *self.numbers.entry(word).or_insert(next);
        if number == next {
            self.all.push(word);
        }
        number
    }
}

/// Adds a long list, one value on a line.
fn list(out: &mut String, name: &str, values: &[String]) {
    let _ = writeln!(out, "\"{name}\":[{}],", values.join(",\n"));
}

/// A value for a script. Names may come from hostile files: no text can end the script.
fn script(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}
