//! When what happens on a machine: lanes, events, dependencies and counters.
//!
//! A [`Timeline`] is plain data that a target's timing model fills; no target is known here. It
//! answers why a program takes as long as it does ([`Timeline::critical_path`],
//! [`Timeline::usage`]) and is drawn as text ([`Timeline::chart`], [`Timeline::listing`]), as
//! Perfetto JSON ([`Timeline::perfetto`]) and as a page for a browser ([`Timeline::html`]), or
//! as one element of it ([`Timeline::element`]). Runs of
//! millions of events are drawn after [`Timeline::condensed`]. A [`Roofline`] shows what the parts
//! of a program reach of what the machine can do; a [`MemoryMap`] shows who holds which bytes when.

mod analysis;
mod condense;
mod html;
mod memory;
mod perfetto;
mod roofline;
mod text;
mod tracks;

pub use analysis::{Step, Usage};
pub use html::{SCRIPT, STYLE};
pub use memory::{Block, MemoryMap};
pub use roofline::{Point, Roofline};

/// A unit of a machine that does one thing at a time: a queue, an engine, a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(usize);

/// An event of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(usize);

/// A counter of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterId(usize);

impl LaneId {
    /// Position among the lanes.
    pub fn index(self) -> usize {
        self.0
    }
}

impl EventId {
    /// Position among the events.
    pub fn index(self) -> usize {
        self.0
    }
}

/// Something that occupies a lane for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where.
    pub lane: LaneId,
    /// When it starts, in the unit of the timeline.
    pub start: u64,
    /// How long it takes; may be 0.
    pub duration: u64,
    /// What it is: a mnemonic.
    pub name: String,
    /// More about it: operands, sizes.
    pub detail: String,
}

impl Event {
    /// When it ends.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.duration)
    }
}

/// One event waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The event that is waited for.
    pub from: EventId,
    /// The event that waits.
    pub to: EventId,
    /// Why: `token`, `data`, `weights`.
    pub kind: &'static str,
}

/// A number that changes over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// What is counted.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Times and the value from then on, in the order of time.
    pub samples: Vec<(u64, f64)>,
}

/// A number about the whole run: energy, efficiency, frames per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// Its value with its unit.
    pub value: String,
}

/// A stretch of the run that has a name of its own: a layer of a network. Parts follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// When it starts.
    pub start: u64,
    /// When it ends.
    pub end: u64,
}

/// What happens when.
///
/// Invariants: lanes, events and counters that are referred to exist; the total is not before the
/// end of an event; a dependency leads from an earlier event of the list to another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    unit: &'static str,
    hertz: Option<f64>,
    total: u64,
    lanes: Vec<String>,
    events: Vec<Event>,
    dependencies: Vec<Dependency>,
    counters: Vec<Counter>,
    figures: Vec<Figure>,
    parts: Vec<Part>,
    roofline: Option<Roofline>,
    memories: Vec<MemoryMap>,
}

impl Timeline {
    /// An empty timeline whose times have this unit: `cycles`, `ns`.
    pub fn new(unit: &'static str) -> Self {
        Timeline {
            unit,
            hertz: None,
            total: 0,
            lanes: Vec::new(),
            events: Vec::new(),
            dependencies: Vec::new(),
            counters: Vec::new(),
            figures: Vec::new(),
            parts: Vec::new(),
            roofline: None,
            memories: Vec::new(),
        }
    }

    /// Says how many units of time a second has.
    pub fn set_hertz(&mut self, hertz: f64) {
        self.hertz = Some(hertz);
    }

    /// Adds a lane.
    pub fn lane(&mut self, name: impl Into<String>) -> LaneId {
        self.lanes.push(name.into());
        LaneId(self.lanes.len() - 1)
    }

    /// Adds an event; the total grows to its end.
    ///
    /// # Panics
    /// When the lane is of another timeline, which is a bug of the caller.
    pub fn event(&mut self, event: Event) -> EventId {
        assert!(event.lane.0 < self.lanes.len(), "the lane of an event exists");
        self.total = self.total.max(event.end());
        self.events.push(event);
        EventId(self.events.len() - 1)
    }

    /// Says that `to` waits for `from`.
    ///
    /// # Panics
    /// When an event does not exist or waits for itself or a later one of the list, which is a bug
    /// of the caller.
    pub fn depend(&mut self, from: EventId, to: EventId, kind: &'static str) {
        assert!(from < to && to.0 < self.events.len(), "a dependency leads to a later event");
        self.dependencies.push(Dependency { from, to, kind });
    }

    /// Adds a counter.
    pub fn counter(&mut self, name: impl Into<String>, unit: &'static str) -> CounterId {
        self.counters.push(Counter { name: name.into(), unit, samples: Vec::new() });
        CounterId(self.counters.len() - 1)
    }

    /// The counter has this value from this time on.
    ///
    /// # Panics
    /// When the counter is of another timeline, which is a bug of the caller.
    pub fn sample(&mut self, counter: CounterId, time: u64, value: f64) {
        self.counters[counter.0].samples.push((time, value));
    }

    /// Adds a number about the whole run.
    pub fn figure(&mut self, name: impl Into<String>, value: impl ToString) {
        self.figures.push(Figure { name: name.into(), value: value.to_string() });
    }

    /// Adds a part behind those there are; the total grows to its end.
    ///
    /// # Panics
    /// When it starts before the part before it ends, or ends before it starts, which is a bug of
    /// the caller.
    pub fn part(&mut self, name: impl Into<String>, start: u64, end: u64) {
        let free = self.parts.last().map_or(0, |part| part.end);
        assert!(free <= start && start <= end, "parts follow each other");
        self.total = self.total.max(end);
        self.parts.push(Part { name: name.into(), start, end });
    }

    /// Says what the machine could do at most.
    pub fn set_roofline(&mut self, roofline: Roofline) {
        self.roofline = Some(roofline);
    }

    /// Adds the use of a memory.
    pub fn memory(&mut self, map: MemoryMap) {
        self.memories.push(map);
    }

    /// Lets the run last at least this long, for work after the last event.
    pub fn extend(&mut self, total: u64) {
        self.total = self.total.max(total);
    }

    /// Unit of all times.
    pub fn unit(&self) -> &'static str {
        self.unit
    }

    /// Units of time in a second, when known.
    pub fn hertz(&self) -> Option<f64> {
        self.hertz
    }

    /// How long the run takes.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How long the run takes in seconds, when that is known.
    pub fn seconds(&self) -> Option<f64> {
        self.hertz.map(|hertz| self.total as f64 / hertz)
    }

    /// Names of the lanes, in order.
    pub fn lanes(&self) -> &[String] {
        &self.lanes
    }

    /// Events in the order in which they were added.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Who waits for whom.
    pub fn dependencies(&self) -> &[Dependency] {
        &self.dependencies
    }

    /// Counters.
    pub fn counters(&self) -> &[Counter] {
        &self.counters
    }

    /// Parts of the run, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// What the machine could do at most, when that is known.
    pub fn roofline(&self) -> Option<&Roofline> {
        self.roofline.as_ref()
    }

    /// The use of memories, where that is known.
    pub fn memories(&self) -> &[MemoryMap] {
        &self.memories
    }

    /// Numbers about the whole run.
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }
}

#[cfg(test)]
mod tests;
