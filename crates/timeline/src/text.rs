//! Timelines as text.

use crate::{Event, Timeline};
use std::fmt::Write as _;
use std::ops::Range;

/// Characters for a column that is busy for no, up to a quarter, half, three quarters and all of
/// its time.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

impl Timeline {
    /// One line per lane: how busy it is in each of `width` equal parts of the run.
    pub fn chart(&self, width: usize) -> String {
        let width = width.max(1);
        let mut busy = vec![vec![0.0_f64; width]; self.lanes().len()];
        let part = self.total().max(1) as f64 / width as f64;
        for event in self.events() {
            add(&mut busy[event.lane.index()], event, part);
        }
        let margin = self.lanes().iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let mut out = String::new();
        for (name, parts) in self.lanes().iter().zip(&busy) {
            let line: String = parts.iter().map(|&time| shade(time / part)).collect();
            let _ = writeln!(out, "{name:margin$} │{line}│");
        }
        let end = format!("{} {}", self.total(), self.unit());
        let _ = writeln!(out, "{:margin$}  0{end:>gap$}", "", gap = width);
        out
    }

    /// One line per event of a range, with its time drawn on an axis of `width` columns: `=` while
    /// it works, `-` while it waits for its lane or for others after the event before it in the
    /// list has started.
    pub fn listing(&self, events: Range<usize>, width: usize) -> String {
        let width = width.max(1) as u64;
        let end = events.end.min(self.events().len());
        let chosen = self.events().get(events.start.min(end)..end).unwrap_or_default();
        let first = chosen.iter().map(|event| event.start).min().unwrap_or(0);
        let last = chosen.iter().map(Event::end).max().unwrap_or(0);
        let span = (last - first).max(1);
        let column =
            |time: u64| ((time - first) as u128 * u128::from(width) / u128::from(span)) as usize;
        let lanes = self.lanes().iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let names = chosen.iter().map(|event| event.name.chars().count()).max().unwrap_or(0);
        let mut out = String::new();
        let mut earlier = first;
        for (index, event) in chosen.iter().enumerate() {
            let (ready, start) = (column(earlier.min(event.start)), column(event.start));
            let work = (column(event.end()) - start).max(1);
            let bar =
                format!("{}{}{}", " ".repeat(ready), "-".repeat(start - ready), "=".repeat(work));
            let Event { name, detail, .. } = event;
            let (number, lane) = (events.start + index, &self.lanes()[event.lane.index()]);
            let line = format!(
                "{number:6} {lane:lanes$} {:>10} {:>8}  {bar:width$}  {name:names$} {detail}",
                event.start,
                event.duration,
                width = width as usize + 1,
            );
            let _ = writeln!(out, "{}", line.trim_end());
            earlier = earlier.max(event.start);
        }
        out
    }
}

/// Adds the time of an event to the parts of the run it lies in.
fn add(parts: &mut [f64], event: &Event, part: f64) {
    let (start, end) = (event.start as f64 / part, event.end() as f64 / part);
    let last = parts.len().saturating_sub(1);
    for (index, time) in parts.iter_mut().enumerate().skip((start as usize).min(last)) {
        if index as f64 >= end {
            break;
        }
        *time += (end.min(index as f64 + 1.0) - start.max(index as f64)).max(0.0) * part;
    }
}

fn shade(share: f64) -> char {
    SHADES[((share * 4.0).ceil() as usize).min(SHADES.len() - 1)]
}
