//! Rows for pictures: in each of them one event at a time.

use crate::Timeline;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rows and the events in them.
pub(crate) struct Tracks {
    /// Names, lane by lane.
    pub(crate) names: Vec<String>,
    /// The track of every event.
    pub(crate) of: Vec<usize>,
}

impl Timeline {
    /// One track per lane; events that overlap on a lane get further tracks of it.
    pub(crate) fn tracks(&self) -> Tracks {
        let lanes = self.lanes().len();
        // By lane: when its rows are free, the first on top.
        let mut rows: Vec<BinaryHeap<Reverse<(u64, usize)>>> = Vec::new();
        rows.resize_with(lanes, BinaryHeap::new);
        let mut row_of = vec![0; self.events().len()];
        for index in self.by_time() {
            let event = &self.events()[index];
            let rows = &mut rows[event.lane.index()];
            let row = match rows.peek() {
                Some(&Reverse((free, row))) if free <= event.start => {
                    rows.pop();
                    row
                }
                _ => rows.len(),
            };
            row_of[index] = row;
            rows.push(Reverse((event.end(), row)));
        }
        let mut names = Vec::new();
        let mut first = Vec::with_capacity(lanes);
        for (lane, rows) in self.lanes().iter().zip(&rows) {
            first.push(names.len());
            names.push(lane.clone());
            names.extend((2..=rows.len()).map(|row| format!("{lane} ({row})")));
        }
        let rows = self.events().iter().zip(row_of);
        Tracks { names, of: rows.map(|(event, row)| first[event.lane.index()] + row).collect() }
    }
}
