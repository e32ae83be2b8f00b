//! The JSON that ui.perfetto.dev and chrome://tracing read (Trace Event Format).

use crate::{Dependency, Timeline};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The only process.
const PROCESS: u32 = 1;

/// Name of the row of parts.
pub(crate) const PARTS: &str = "parts";

impl Timeline {
    /// Trace events: one thread per lane (more where its events overlap, which a thread cannot
    /// show) and one for the parts, a complete event each, arrows for dependencies, counters. A unit
    /// of time is shown as a microsecond, the smallest the format counts in whole numbers.
    pub fn perfetto(&self) -> String {
        let tracks = self.tracks();
        let other = json!({ "unit": self.unit(), "total": self.total() });
        let mut out =
            format!("{{\"displayTimeUnit\":\"ns\",\"otherData\":{other},\"traceEvents\":[");
        // Written one by one: the values of a million events take much more room than their text.
        let mut separator = "\n";
        let mut push = |event: Value| {
            let _ = write!(out, "{separator}{event}");
            separator = ",\n";
        };
        let rows = tracks.names.len();
        // The parts lie above the lanes.
        let parts = (!self.parts().is_empty()).then_some((rows + 1, PARTS, 0));
        let lanes = tracks.names.iter().enumerate();
        let lanes = lanes.map(|(track, name)| (track + 1, name.as_str(), track + 1));
        for (thread, name, order) in lanes.chain(parts) {
            let args = json!({ "name": name });
            push(
                json!({"ph": "M", "pid": PROCESS, "tid": thread, "name": "thread_name", "args": args}),
            );
            let args = json!({ "sort_index": order });
            push(
                json!({"ph": "M", "pid": PROCESS, "tid": thread, "name": "thread_sort_index", "args": args}),
            );
        }
        for (event, track) in self.events().iter().zip(&tracks.of) {
            let mut shown = json!({
                "ph": "X", "pid": PROCESS, "tid": track + 1, "name": event.name,
                "ts": event.start, "dur": event.duration,
            });
            if !event.detail.is_empty() {
                shown["args"] = json!({ "detail": event.detail });
            }
            push(shown);
        }
        for part in self.parts() {
            push(json!({
                "ph": "X", "pid": PROCESS, "tid": rows + 1, "name": part.name,
                "ts": part.start, "dur": part.end - part.start,
            }));
        }
        for (id, dependency) in self.dependencies().iter().enumerate() {
            self.arrow(id, dependency, &tracks.of).into_iter().flatten().for_each(&mut push);
        }
        for counter in self.counters() {
            let name = format!("{} [{}]", counter.name, counter.unit);
            // JSON has neither infinities nor NaN.
            for &(time, value) in counter.samples.iter().filter(|(_, value)| value.is_finite()) {
                push(
                    json!({"ph": "C", "pid": PROCESS, "ts": time, "name": name, "args": {"value": value}}),
                );
            }
        }
        out + "\n]}\n"
    }

    /// Both ends of an arrow. It leaves inside its event, whose end is not part of it, and not after
    /// it arrives; back in time there is none.
    fn arrow(&self, id: usize, dependency: &Dependency, tracks: &[usize]) -> Option<[Value; 2]> {
        let (from, to) =
            (&self.events()[dependency.from.index()], &self.events()[dependency.to.index()]);
        if from.start > to.start {
            return None;
        }
        let leaves = from.end().saturating_sub(1).max(from.start).min(to.start);
        let at = |phase: &str, track: usize, time: u64| {
            json!({
                "ph": phase, "pid": PROCESS, "tid": track + 1, "ts": time, "id": id,
                "name": dependency.kind, "cat": "d",
            })
        };
        let from = at("s", tracks[dependency.from.index()], leaves);
        let mut to = at("f", tracks[dependency.to.index()], to.start);
        to["bp"] = json!("e");
        Some([from, to])
    }
}
