//! The reverse split: from the kernel back to the inputs, depth first, with branch and bound.
//!
//! A node is a set of goals that are still to be made. The largest one is split; goals that are
//! equal are one. Passes with more and more splits of each goal share the nodes, so that a wrong
//! turn at the top does not take them all.
//!
//! Facts: `cain-paper` section 5.

use super::split::{Others, Split, splits};
use super::transform::Transform;
use crate::cain::goals::{ByHash, Goals, Id, Shape, mix, x_of, y_of};
use smallvec::SmallVec;

/// Splits of each goal that a pass tries.
const WIDTHS: [usize; 9] = [1, 2, 3, 4, 6, 8, 12, 20, usize::MAX];

/// Most goals that are remembered, about 300 MB: then the search ends.
const MAX_GOALS: usize = 1 << 20;

/// How a goal is made, by the numbers of goals.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// The goal.
    pub(super) goal: Id,
    /// What it is the sum of.
    pub(super) operands: SmallVec<[(Id, Transform); 3]>,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes whose largest goal was split.
    pub nodes: u64,
    /// Nodes that could not lead to fewer instructions than a program that is known.
    pub bound: u64,
    /// Nodes that were met before at the same or a lower cost.
    pub repeated: u64,
    /// Nodes with more goals than registers.
    pub registers: u64,
    /// Plans: ways to make the kernel.
    pub plans: u64,
    /// Plans for which registers do not suffice.
    pub unallocated: u64,
}

/// What makes programs of plans, and tells their lengths.
type Take<'t, 'a> = dyn FnMut(&Reverse<'a>, &[Made]) -> Option<u32> + 't;

type Open = SmallVec<[Id; 8]>;

/// A node on the way to the current one.
struct Level {
    /// What is to be made, in the order of numbers.
    open: Open,
    cost: u32,
    /// The goal that is split.
    goal: Id,
    rest: std::vec::IntoIter<Split>,
    /// The split that is being tried.
    made: Option<Made>,
}

/// What a search works on.
pub(super) struct Reverse<'a> {
    /// The identities of the channels.
    inputs: &'a [Shape],
    input_ids: Vec<Id>,
    goals: Goals,
    wanted: Id,
    /// Values that can be alive at once, an input that may be overwritten included.
    registers: usize,
    /// Inputs that keep their registers, which are not counted.
    kept: Vec<bool>,
    depth: u32,
    seen: ByHash<u32>,
    best: u32,
    pub(super) counts: Counts,
}

impl<'a> Reverse<'a> {
    /// A search that has not begun.
    pub(super) fn new(
        wanted: &Shape,
        inputs: &'a [Shape],
        kept: Vec<bool>,
        registers: usize,
        depth: u32,
    ) -> Self {
        let mut goals = Goals::default();
        let input_ids = inputs.iter().map(|input| goals.intern(input.clone())).collect();
        let wanted = goals.intern(wanted.clone());
        Reverse {
            inputs,
            input_ids,
            goals,
            wanted,
            registers,
            kept,
            depth,
            seen: ByHash::default(),
            best: u32::MAX,
            counts: Counts::default(),
        }
    }

    /// A goal by its number.
    pub(super) fn goal(&self, id: Id) -> &Shape {
        self.goals.get(id)
    }

    /// The identities of the channels.
    pub(super) fn inputs(&self) -> &'a [Shape] {
        self.inputs
    }

    /// The channel of the kernel, where it is an input.
    pub(super) fn wanted_channel(&self) -> Option<usize> {
        self.channel(self.wanted)
    }

    /// The channel of a goal that is an input.
    pub(super) fn channel(&self, id: Id) -> Option<usize> {
        self.input_ids.iter().position(|&input| input == id)
    }

    /// Calls with plans, each cheaper by its splits than the programs of those before; `take` gives the
    /// length of the program of a plan, if registers suffice for one. The splits of a plan are in the
    /// order of the search, the kernel first.
    pub(super) fn plans(&mut self, max_nodes: u64, take: &mut Take<'_, 'a>) {
        for width in WIDTHS {
            let left = max_nodes.saturating_sub(self.counts.nodes);
            if left == 0 || self.goals.len() > MAX_GOALS {
                return;
            }
            // Half for the next passes.
            let share = if width == usize::MAX { left } else { left.div_ceil(2) };
            let end = self.counts.nodes + share;
            self.seen.clear();
            self.pass(width, end, take);
        }
    }

    fn pass(&mut self, width: usize, end: u64, take: &mut Take<'_, 'a>) {
        let mut levels: Vec<Level> = Vec::new();
        let mut next = Some((Open::from_slice(&[self.wanted]), 0));
        loop {
            quincunx_stop::check();
            if let Some((open, cost)) = next.take() {
                if self.is_done(&open) {
                    let plan: Vec<Made> =
                        levels.iter().filter_map(|level| level.made.clone()).collect();
                    self.counts.plans += 1;
                    match take(self, &plan) {
                        Some(length) => self.best = self.best.min(cost.max(length)),
                        None => self.counts.unallocated += 1,
                    }
                } else if !self.is_culled(&open, cost) {
                    if self.counts.nodes >= end || self.goals.len() > MAX_GOALS {
                        return;
                    }
                    levels.push(self.expand(open, cost, width));
                }
            }
            let Some(level) = levels.last_mut() else { return };
            let Some(split) = level.rest.next() else {
                levels.pop();
                continue;
            };
            let cost = level.cost + split.cost;
            let mut open = level.open.clone();
            open.retain(|id| *id != level.goal);
            let operands: SmallVec<[(Id, Transform); 3]> = split
                .operands
                .into_iter()
                .map(|(shape, by)| (self.goals.intern(shape), by))
                .collect();
            for &(id, _) in &operands {
                if let Err(at) = open.binary_search(&id) {
                    open.insert(at, id);
                }
            }
            // What is transformed while it stays needs a register of its own.
            let is_sum = operands.len() > 1;
            let needs = operands.iter().any(|&(_, by)| is_sum && by != Transform::NONE);
            level.made = Some(Made { goal: level.goal, operands });
            match self.alive(&open) + usize::from(needs) > self.registers {
                true => self.counts.registers += 1,
                false => next = Some((open, cost)),
            }
        }
    }

    /// Only inputs are left.
    fn is_done(&self, open: &Open) -> bool {
        open.iter().all(|id| self.input_ids.contains(id))
    }

    /// Values in registers that the program may use.
    fn alive(&self, open: &Open) -> usize {
        let is_kept = |id: Id| self.channel(id).is_some_and(|channel| self.kept[channel]);
        open.iter().filter(|id| !is_kept(**id)).count()
    }

    fn is_culled(&mut self, open: &Open, cost: u32) -> bool {
        if cost.saturating_add(self.least(open)) >= self.best {
            self.counts.bound += 1;
            return true;
        }
        let key = open.iter().fold(0, |key, &id| mix(key ^ (u64::from(id) + 1)));
        if self.seen.get(&key).is_some_and(|&known| known <= cost) {
            self.counts.repeated += 1;
            return true;
        }
        self.seen.insert(key, cost);
        false
    }

    /// Instructions that goals take at least: additions, each of which doubles the cells at most;
    /// halvings for what is no multiple of a power of two; moves as far as the goals reach.
    fn least(&self, open: &Open) -> u32 {
        let (mut cells, mut halvings, mut bounds) = (1, 0, [0; 4]);
        for shape in open.iter().map(|&id| self.goal(id)) {
            cells = cells.max(shape.cells.len());
            for &(place, count) in &shape.cells {
                halvings = halvings.max(self.depth.saturating_sub(count.trailing_zeros()));
                let (x, y) = (x_of(place), y_of(place));
                let [west, east, south, north] = bounds;
                bounds = [west.min(x), east.max(x), south.min(y), north.max(y)];
            }
        }
        let moves: i32 = bounds.iter().map(|bound| bound.abs()).sum();
        cells.next_power_of_two().ilog2() + halvings + moves.unsigned_abs()
    }

    /// Splits the largest goal.
    fn expand(&mut self, open: Open, cost: u32, width: usize) -> Level {
        self.counts.nodes += 1;
        let size = |id: &&Id| {
            let shape = self.goals.get(**id);
            (shape.total, shape.cells.len(), shape.way, **id)
        };
        let goal = open.iter().filter(|id| !self.input_ids.contains(id)).max_by_key(size);
        let goal = *goal.expect("a node that is not done has a goal that is no input");
        let others: Vec<&Shape> =
            open.iter().filter(|id| **id != goal).map(|&id| self.goals.get(id)).collect();
        let others = Others { open: &others, inputs: self.inputs };
        let mut list = splits(self.goals.get(goal), &others);
        list.truncate(width);
        Level { open, cost, goal, rest: list.into_iter(), made: None }
    }
}
