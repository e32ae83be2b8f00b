//! A page for a browser that needs nothing else.

use crate::Timeline;
use crate::perfetto::PARTS;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The page around the data.
const PAGE: &str = include_str!("page.html");

/// Where the data goes.
const PLACE: &str = "/*DATA*/";

/// Where further pictures go.
const PICTURES: &str = "<!--PICTURES-->";

impl Timeline {
    /// A page with the lanes, to zoom (wheel) and to move (drag) in; a click on an event shows it
    /// and what it waits for.
    pub fn html(&self, title: &str) -> String {
        let tracks = self.tracks();
        let (before, after) = PAGE.split_once(PLACE).unwrap_or((PAGE, ""));
        let picture = self.roofline().map(|roofline| roofline.svg()).unwrap_or_default();
        let mut out = before.replace(PICTURES, &picture);
        let mut field = |name: &str, value: Value| {
            let _ = writeln!(out, "{name}: {},", script(&value));
        };
        field("title", json!(title));
        field("unit", json!(self.unit()));
        field("total", json!(self.total()));
        let above = usize::from(!self.parts().is_empty());
        let rows = std::iter::repeat_n(PARTS, above).chain(tracks.names.iter().map(String::as_str));
        field("tracks", rows.collect());
        field("critical", self.critical_path().iter().map(|step| step.event.index()).collect());
        field(
            "counters",
            self.counters()
                .iter()
                .map(|counter| {
                    json!({
                        "name": counter.name, "unit": counter.unit, "samples": counter.samples,
                    })
                })
                .collect(),
        );
        field("figures", self.figures().iter().map(|f| json!([f.name, f.value])).collect());
        let events = self.events().iter().zip(&tracks.of).map(|(event, track)| {
            json!([track + above, event.start, event.duration, event.name, event.detail])
        });
        // Behind the events, whose numbers the critical path and the dependencies name.
        let parts = self.parts().iter();
        let parts = parts.map(|part| json!([0, part.start, part.end - part.start, part.name, ""]));
        list(&mut out, "events", events.chain(parts));
        let dependencies = self.dependencies().iter();
        list(
            &mut out,
            "dependencies",
            dependencies.map(|d| json!([d.from.index(), d.to.index(), d.kind])),
        );
        out + after
    }
}

/// Adds a long list, value by value: all values at once take much more room than their text.
fn list(out: &mut String, name: &str, values: impl Iterator<Item = Value>) {
    let _ = writeln!(out, "{name}: [");
    for value in values {
        let _ = writeln!(out, "{},", script(&value));
    }
    *out += "],\n";
}

/// A value for a script. Names may come from hostile files: no text can end the script.
fn script(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}
