//! Which vectors of the memories an instruction touched last. Ranges of vectors are held whole, so
//! that looking one up does not depend on its length, nor on how many instructions there are.

use crate::program::{Memory, Span};
use std::collections::BTreeMap;

/// Ranges below which forgetting is not worth while.
const FEW: usize = 1 << 10;

/// Vectors from the key of the map to `last`, touched last by instruction `by`.
#[derive(Clone, Copy, Debug)]
struct Range {
    last: u64,
    by: usize,
}

/// Ranges that do not overlap, by memory and first vector.
#[derive(Debug, Default)]
pub(super) struct Touched {
    ranges: BTreeMap<(Memory, u64), Range>,
    /// How many were left when finished instructions were forgotten.
    kept: usize,
}

/// Ranges that a span consists of: one, or with a step one for each vector.
pub(super) fn pieces(span: &Span) -> u64 {
    if span.stride == 0 { 1 } else { span.count }
}

fn ranges(span: &Span) -> impl Iterator<Item = (u64, u64)> {
    let length = if span.stride == 0 { span.count } else { 1 };
    (0..pieces(span)).map(move |index| {
        let first = span.at(index);
        (first, first.saturating_add(length.saturating_sub(1)))
    })
}

impl Touched {
    /// Ranges that are held.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// An instruction that comes behind all others touches vectors.
    pub(super) fn touch(&mut self, span: &Span, by: usize) {
        for (first, last) in ranges(span) {
            self.cut(span.memory, first, last);
            self.ranges.insert((span.memory, first), Range { last, by });
        }
    }

    /// Takes vectors out of the ranges.
    fn cut(&mut self, memory: Memory, first: u64, last: u64) {
        let before = self.ranges.range_mut((memory, 0)..(memory, first)).next_back();
        if let Some((_, range)) = before.filter(|(_, range)| range.last >= first) {
            let whole = *range;
            range.last = first.saturating_sub(1);
            self.put_back(memory, last, whole);
        }
        while let Some((&key, &range)) = self.ranges.range((memory, first)..=(memory, last)).next()
        {
            self.ranges.remove(&key);
            self.put_back(memory, last, range);
        }
    }

    /// What is left of a range behind a vector.
    fn put_back(&mut self, memory: Memory, last: u64, range: Range) {
        if range.last > last {
            self.ranges.insert((memory, last.saturating_add(1)), range);
        }
    }

    /// The latest instruction that touched one of these vectors and is not done. Those that are
    /// done are forgotten: what is done stays so for whoever asks next.
    pub(super) fn latest(
        &mut self,
        span: &Span,
        is_done: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut latest = None;
        for (first, last) in ranges(span) {
            let before = self.ranges.range((span.memory, 0)..(span.memory, first)).next_back();
            let before = before.filter(|(_, range)| range.last >= first).map(|(&key, _)| key);
            let start = before.unwrap_or((span.memory, first));
            let mut done = Vec::new();
            for (&key, range) in self.ranges.range(start..=(span.memory, last)) {
                if is_done(range.by) {
                    done.push(key);
                } else {
                    latest = latest.max(Some(range.by));
                }
            }
            for key in done {
                self.ranges.remove(&key);
            }
        }
        latest
    }

    /// Forgets instructions that are done, when there are many.
    pub(super) fn forget(&mut self, is_done: &impl Fn(usize) -> bool) {
        if self.ranges.len() > self.kept.saturating_mul(2).saturating_add(FEW) {
            self.ranges.retain(|_, range| !is_done(range.by));
            self.kept = self.ranges.len();
        }
    }
}
