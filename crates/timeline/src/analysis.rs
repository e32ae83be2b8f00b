//! Why a run takes as long as it does.

use crate::{Event, EventId, LaneId, Timeline};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// What a lane does over the whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The lane.
    pub lane: LaneId,
    /// Events on it.
    pub events: usize,
    /// Time in which it works; events that overlap count once.
    pub busy: u64,
    /// Time on the critical path, each event until the next one of the path starts.
    pub critical: u64,
    /// Time before events in which it does nothing because they depend on others, by the lane that
    /// is waited for, most first.
    pub waits: Vec<(LaneId, u64)>,
}

/// One event of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The event.
    pub event: EventId,
    /// Why it starts when it does: the kind of the dependency, `order` after the event before it
    /// on its lane, `start` for the first event.
    pub reason: &'static str,
}

/// Why an event starts that waits for its lane alone.
const ORDER: &str = "order";

/// What an event waits for: the last of its predecessors to end before it starts.
#[derive(Clone, Copy)]
struct Cause {
    event: EventId,
    reason: &'static str,
}

impl Timeline {
    /// The chain of events that decides how long the run takes, first event first: from the last
    /// event to end back to what each event waited for longest.
    pub fn critical_path(&self) -> Vec<Step> {
        let causes = self.causes();
        let last =
            (0..self.events().len()).max_by_key(|&index| (self.events()[index].end(), index));
        let mut path = Vec::new();
        let mut next = last;
        while let Some(index) = next {
            let cause = causes[index];
            path.push(Step { event: EventId(index), reason: cause.map_or("start", |c| c.reason) });
            next = cause.map(|cause| cause.event.index());
        }
        path.reverse();
        path
    }

    /// What every lane does.
    pub fn usage(&self) -> Vec<Usage> {
        let lanes = self.lanes().len();
        let empty =
            |lane| Usage { lane: LaneId(lane), events: 0, busy: 0, critical: 0, waits: Vec::new() };
        let mut usage: Vec<Usage> = (0..lanes).map(empty).collect();
        let mut waits = vec![BTreeMap::<LaneId, u64>::new(); lanes];
        let mut free = vec![0_u64; lanes];
        let causes = self.causes();
        for index in self.by_time() {
            let event = &self.events()[index];
            let lane = event.lane.index();
            usage[lane].events += 1;
            usage[lane].busy += event.end().saturating_sub(event.start.max(free[lane]));
            let idle = event.start.saturating_sub(free[lane]);
            if let Some(cause) = causes[index].filter(|cause| idle > 0 && cause.reason != ORDER) {
                let other = self.events()[cause.event.index()].lane;
                *waits[lane].entry(other).or_default() += idle;
            }
            free[lane] = free[lane].max(event.end());
        }
        let path: Vec<&Event> =
            self.critical_path().iter().map(|step| &self.events()[step.event.index()]).collect();
        for (index, event) in path.iter().enumerate() {
            let next = path.get(index + 1).map_or(u64::MAX, |next| next.start);
            usage[event.lane.index()].critical += event.end().min(next) - event.start;
        }
        for (usage, waits) in usage.iter_mut().zip(waits) {
            usage.waits = waits.into_iter().collect();
            usage.waits.sort_by_key(|&(lane, time)| (Reverse(time), lane));
        }
        usage
    }

    /// Positions of the events in the order of time, those that start together as they were added.
    pub(crate) fn by_time(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.events().len()).collect();
        order.sort_by_key(|&index| self.events()[index].start);
        order
    }

    /// For every event the predecessor that ends last: an event before it on its lane, or one it
    /// depends on, which is preferred among equals. An event it depends on may still work when it
    /// starts, and counts as ending then; one that starts later cannot be why it starts.
    ///
    /// A cause is earlier than its event in the order of time, so causes form no circle.
    fn causes(&self) -> Vec<Option<Cause>> {
        let events = self.events();
        let mut causes = self.lane_order();
        for dependency in self.dependencies() {
            let start = events[dependency.to.index()].start;
            let ready = |event: EventId| events[event.index()].end().min(start);
            let cause = &mut causes[dependency.to.index()];
            let is_early = events[dependency.from.index()].start <= start;
            if is_early && cause.is_none_or(|known| ready(dependency.from) >= ready(known.event)) {
                *cause = Some(Cause { event: dependency.from, reason: dependency.kind });
            }
        }
        causes
    }

    /// For every event the last one of its lane to end before it starts.
    fn lane_order(&self) -> Vec<Option<Cause>> {
        let mut causes = vec![None; self.events().len()];
        // By lane: events that work, the first to end on top, and the last one that has ended.
        let mut working: Vec<BinaryHeap<Reverse<(u64, usize)>>> = Vec::new();
        working.resize_with(self.lanes().len(), BinaryHeap::new);
        let mut ended: Vec<Option<usize>> = vec![None; self.lanes().len()];
        for index in self.by_time() {
            let event = &self.events()[index];
            let (working, ended) =
                (&mut working[event.lane.index()], &mut ended[event.lane.index()]);
            while let Some(&Reverse((end, earlier))) = working.peek()
                && end <= event.start
            {
                *ended = Some(earlier);
                working.pop();
            }
            causes[index] = ended.map(|before| Cause { event: EventId(before), reason: ORDER });
            working.push(Reverse((event.end(), index)));
        }
        causes
    }
}
