//! Timelines as text.

use crate::{Event, Timeline};
use quincunx_report::{distinct, shortened};
use std::fmt::Write as _;
use std::ops::Range;

/// Characters for a column that is busy for no, up to a quarter, half, three quarters and all of
/// its time.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// Columns of the times of events, where there is room.
const BAR: usize = 36;

impl Timeline {
    /// One line per lane: how busy it is in equal parts of the run, in so many columns with its
    /// name.
    pub fn chart(&self, columns: usize) -> String {
        let names = distinct(self.lanes().iter().map(String::as_str), columns / 3);
        let margin = widest(&names);
        let width = columns.saturating_sub(margin + 3).max(1);
        let mut busy = vec![vec![0.0_f64; width]; self.lanes().len()];
        let part = self.total().max(1) as f64 / width as f64;
        for event in self.events() {
            add(&mut busy[event.lane.index()], event, part);
        }
        let mut out = String::new();
        for (name, parts) in names.iter().zip(&busy) {
            let line: String = parts.iter().map(|&time| shade(time / part)).collect();
            let _ = writeln!(out, "{name:margin$} │{line}│");
        }
        let end = format!("{} {}", self.total(), self.unit());
        let _ = writeln!(out, "{:margin$}  0{end:>gap$}", "", gap = width);
        out
    }

    /// One line per event of a range, with its time drawn on an axis: `=` while it works, `-` while
    /// it waits for its lane or for others after the event before it in the list has started. With
    /// a number of columns, names and details are shortened to fit into it.
    pub fn listing(&self, events: Range<usize>, columns: Option<usize>) -> String {
        let end = events.end.min(self.events().len());
        let chosen = self.events().get(events.start.min(end)..end).unwrap_or_default();
        let first = chosen.iter().map(|event| event.start).min().unwrap_or(0);
        let last = chosen.iter().map(Event::end).max().unwrap_or(0);
        let lanes = self.lanes().iter().map(String::as_str);
        let lanes = distinct(lanes, columns.map_or(usize::MAX, |columns| columns / 5));
        let digits = |most: u64| most.to_string().len();
        let longest = chosen.iter().map(|event| event.duration).max().unwrap_or(0);
        let (lane, number) = (widest(&lanes), digits(end as u64));
        let (starts, durations) = (digits(last), digits(longest));
        // What the numbers leave is for the bars, the names and their details.
        let room = columns.map(|c| c.saturating_sub(number + lane + starts + durations + 7));
        let bar = room.map_or(BAR, |room| (room / 2).min(BAR));
        let axis = Axis { first, last, width: bar.saturating_sub(1).max(1) };
        let names = chosen.iter().map(|event| event.name.chars().count()).max().unwrap_or(0);
        let names = room.map_or(names, |room| names.min(room.saturating_sub(bar) / 2));
        let rest = room.map(|room| room.saturating_sub(bar));
        let mut out = String::new();
        let mut earlier = first;
        for (index, event) in chosen.iter().enumerate() {
            let what = match event.detail.starts_with(&event.name) {
                true => event.detail.clone(),
                false => format!("{:names$} {}", shortened(&event.name, names), event.detail),
            };
            let what = rest.map_or(what.clone(), |rest| beginning(&what, rest));
            let line = format!(
                "{:number$} {:lane$} {:>starts$} {:>durations$}  {:bar$}  {what}",
                events.start + index,
                lanes[event.lane.index()],
                event.start,
                event.duration,
                axis.bar(earlier, event),
            );
            let _ = writeln!(out, "{}", line.trim_end());
            earlier = earlier.max(event.start);
        }
        out
    }
}

/// Times of events in so many columns and one more.
struct Axis {
    first: u64,
    last: u64,
    width: usize,
}

impl Axis {
    fn column(&self, time: u64) -> usize {
        let span = u128::from((self.last - self.first).max(1));
        ((time - self.first) as u128 * self.width as u128 / span) as usize
    }

    fn bar(&self, earlier: u64, event: &Event) -> String {
        let start = self.column(event.start);
        let ready = self.column(earlier.min(event.start));
        let work = (self.column(event.end()) - start).max(1);
        format!("{}{}{}", " ".repeat(ready), "-".repeat(start - ready), "=".repeat(work))
    }
}

/// The first characters of a text that does not fit.
fn beginning(text: &str, width: usize) -> String {
    let text = text.trim_end();
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

fn widest(names: &[String]) -> usize {
    names.iter().map(|name| name.chars().count()).max().unwrap_or(0)
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
