//! A page for a browser that needs nothing else.

use crate::Timeline;
use crate::perfetto::PARTS;
use quincunx_report::Heading;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The page around the data.
const BODY: &str = include_str!("page.html");

/// Its styles.
const STYLE: &str = include_str!("page.css");

/// Where the data goes.
const PLACE: &str = "/*DATA*/";

/// Where further pictures go.
const PICTURES: &str = "<!--PICTURES-->";

impl Timeline {
    /// A page with the lanes, to zoom (wheel) and to move (drag) in; what one points at is told in
    /// numbers, a click on an event shows what it waits for.
    pub fn html(&self, heading: &Heading) -> String {
        let tracks = self.tracks();
        let (before, after) = BODY.split_once(PLACE).unwrap_or((BODY, ""));
        let roofline = self.roofline().map(|roofline| roofline.svg(heading));
        let memories = self.memories().iter();
        let memories = memories.map(|map| map.svg(self.total(), self.unit(), heading));
        let pictures: String = roofline.into_iter().chain(memories).collect();
        let mut out = before.replace(PICTURES, &pictures);
        let mut field = |name: &str, value: Value| {
            let _ = writeln!(out, "{name}: {},", script(&value));
        };
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
        field("parts", json!(self.events().len()));
        let parts = self.parts().iter();
        let parts = parts.map(|part| json!([0, part.start, part.end - part.start, part.name, ""]));
        list(&mut out, "events", events.chain(parts));
        let dependencies = self.dependencies().iter();
        list(
            &mut out,
            "dependencies",
            dependencies.map(|d| json!([d.from.index(), d.to.index(), d.kind])),
        );
        heading.page(STYLE, &(out + after))
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
