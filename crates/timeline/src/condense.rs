//! Timelines of millions of events in pictures of bounded size.

use crate::{Counter, Dependency, Event, EventId, Timeline};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Events that are drawn as one.
struct Group {
    event: Event,
    events: usize,
    busy: u64,
    /// Time of the name that the group has, and of all others.
    names: BTreeMap<String, u64>,
}

impl Timeline {
    /// The same with at most so many events, counters included, for pictures: neighbours on a lane
    /// become one event that says how many they are. Parts stay, and no event belongs to two.
    ///
    /// What there is too much of is decided by the time of the run: all events that start in one
    /// piece of it are drawn as one. `limit` is exceeded where there are more lanes and parts.
    pub fn condensed(&self, limit: usize) -> Cow<'_, Timeline> {
        let samples = self.counters().iter().map(|counter| counter.samples.len()).max();
        if self.events().len().max(samples.unwrap_or(0)) <= limit {
            return Cow::Borrowed(self);
        }
        let pieces = (limit / self.lanes().len().max(1)).max(1) as u64;
        let piece = self.total().div_ceil(pieces).max(1);
        let (groups, of) = self.groups(piece);
        let mut out = Timeline { events: Vec::new(), dependencies: Vec::new(), ..self.clone() };
        out.events = groups.into_iter().map(Group::into_event).collect();
        out.dependencies = self.between_groups(&of, &out.events);
        out.counters = self.counters().iter().map(|counter| coarse(counter, piece)).collect();
        let shown = format!("{} for {}, neighbours as one", out.events.len(), self.events().len());
        out.figure("events in this picture", shown);
        Cow::Owned(out)
    }

    /// Groups in the order in which their first events were added, and the group of every event.
    fn groups(&self, piece: u64) -> (Vec<Group>, Vec<usize>) {
        let mut groups: Vec<Group> = Vec::new();
        let mut known: BTreeMap<(usize, u64, usize), usize> = BTreeMap::new();
        let mut of = Vec::with_capacity(self.events().len());
        for event in self.events() {
            let part = self.parts().partition_point(|part| part.start <= event.start);
            let key = (event.lane.index(), event.start / piece, part);
            let index = *known.entry(key).or_insert_with(|| {
                let names = BTreeMap::new();
                groups.push(Group { event: event.clone(), events: 0, busy: 0, names });
                groups.len() - 1
            });
            groups[index].add(event);
            of.push(index);
        }
        (groups, of)
    }

    /// Who waits for whom, once for every two groups, and never back.
    fn between_groups(&self, of: &[usize], events: &[Event]) -> Vec<Dependency> {
        let mut known = BTreeSet::new();
        let mut list = Vec::new();
        for dependency in self.dependencies() {
            let (from, to) = (of[dependency.from.index()], of[dependency.to.index()]);
            let forward = from < to && events[from].start <= events[to].start;
            if forward && known.insert((from, to, dependency.kind)) {
                list.push(Dependency { from: EventId(from), to: EventId(to), ..*dependency });
            }
        }
        list
    }
}

impl Group {
    fn add(&mut self, event: &Event) {
        let end = self.event.end().max(event.end());
        self.event.start = self.event.start.min(event.start);
        self.event.duration = end - self.event.start;
        self.events += 1;
        self.busy += event.duration;
        *self.names.entry(event.name.clone()).or_default() += event.duration;
    }

    fn into_event(self) -> Event {
        let Group { mut event, events, busy, names } = self;
        if events == 1 {
            return event;
        }
        let longest = names.iter().max_by_key(|&(_, time)| *time).map(|(name, _)| name.as_str());
        let others = if names.len() > 1 { " and others" } else { "" };
        event.name = format!("{}{others}, {events}", longest.unwrap_or_default());
        let times: Vec<String> =
            names.iter().map(|(name, time)| format!("{name} {time}")).collect();
        event.detail = format!("{events} events that work for {busy}: {}", times.join(", "));
        event
    }
}

/// The highest value of every piece of time.
fn coarse(counter: &Counter, piece: u64) -> Counter {
    let mut samples: Vec<(u64, f64)> = Vec::new();
    for &(time, value) in &counter.samples {
        match samples.last_mut() {
            Some((start, most)) if *start / piece == time / piece => *most = most.max(value),
            _ => samples.push((time, value)),
        }
    }
    Counter { samples, ..counter.clone() }
}
