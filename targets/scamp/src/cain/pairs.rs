//! The children of a node: what an instruction can make of what, cheapest first.
//!
//! A node has tens of thousands of children of which few are ever asked for. So the cheapest few are
//! looked for, with a bound that spares most of the others; the whole is gone through again when
//! they are used up.
//!
//! Facts: `cain` (`docs/bibliography.md`).

mod build;
mod distance;
mod exhaustive;

use super::goals::{ByHash, Goals, Id, Shape, mix};
use super::heuristics::{Cost, Heuristic};
use super::op::{Op, Ops, Pair};
use super::parts::Parts;
use super::settings::{OpSet, Settings, Strategy};
use crate::task::Task;
use build::build;
use smallvec::SmallVec;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// How a child is made, small enough to keep many.
#[derive(Clone, Copy, Debug)]
struct Choice {
    upper: u8,
    other: u8,
    op: Op,
    made: Made,
}

#[derive(Clone, Copy, Debug)]
enum Made {
    /// By the instruction alone.
    Whole,
    /// A part by its code, and what remains.
    Split(u32),
    /// Two parts by their codes, and what remains.
    Triple(u32, u32),
    /// Cells of 7, 14 and 15 atoms as the next power of two and negative atoms.
    Signed,
    /// The part of a goal that is a translation of (a part of) another one.
    Near { x: i16, y: i16, negated: bool },
}

/// A child with its place in the order.
#[derive(Clone, Copy, Debug)]
struct Ranked {
    cost: f64,
    index: u64,
    choice: Choice,
}

impl Ranked {
    fn key(&self) -> (f64, u64) {
        (self.cost, self.index)
    }
}

fn compare(a: (f64, u64), b: (f64, u64)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        compare(self.key(), other.key())
    }
}

/// Children that are looked for at first, and how many times more each next time.
const FIRST: usize = 4;
const GROWTH: usize = 4;

/// The children of one node that are still to come.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The next ones, the last one first.
    next: Vec<Ranked>,
    /// The last one that was found.
    last: Option<(f64, u64)>,
    wanted: usize,
    is_complete: bool,
}

/// Collects the cheapest children after a place in the order.
struct Sink {
    heap: BinaryHeap<Ranked>,
    wanted: usize,
    after: Option<(f64, u64)>,
    /// The cost from which a child is of no interest.
    limit: f64,
    index: u64,
}

impl Sink {
    fn push(&mut self, cost: f64, index: u64, choice: Choice) {
        // Among equal ones the first stays.
        if cost >= self.limit {
            return;
        }
        let ranked = Ranked { cost, index, choice };
        if self.after.is_some_and(|after| compare(ranked.key(), after).is_le()) {
            return;
        }
        self.heap.push(ranked);
        if self.heap.len() > self.wanted {
            self.heap.pop();
        }
        if self.heap.len() == self.wanted {
            self.limit = self.heap.peek().map_or(f64::INFINITY, |worst| worst.cost);
        }
    }
}

/// Makes children.
pub(super) struct Maker<'a> {
    pub(super) cost: Cost,
    /// Instructions of the sets `all` and `basic` and of the task.
    pub(super) sets: [Ops; 3],
    pub(super) registers: usize,
    /// The inputs.
    pub(super) identities: &'a [Shape],
    /// Tables of goals, and the number of parts of all of them.
    pub(super) tables: ByHash<Rc<Parts>>,
    pub(super) table_size: usize,
}

/// Most parts of all tables that are kept.
const MAX_TABLES: usize = 1 << 18;

/// One pass over the children of a bag.
struct Pass<'a> {
    goals: &'a Goals,
    bag: &'a [Id],
    cost: Cost,
    ops: &'a Ops,
    registers: usize,
    identities: &'a [Shape],
    sink: Sink,
    /// Hash of the bag, for the random order.
    hash: u64,
}

impl<'a> Maker<'a> {
    /// A maker for a task.
    pub(super) fn new(task: &Task, settings: &Settings, identities: &'a [Shape]) -> Self {
        let Task { wanted, pool, .. } = task;
        let outside = wanted.inputs.iter().filter(|input| !pool.contains(input)).count();
        Maker {
            cost: Cost {
                heuristic: settings.strategy.heuristic(),
                depth: wanted.depth,
                seed: mix(settings.seed),
            },
            sets: [OpSet::All, OpSet::Basic, OpSet::Task].map(|set| set.of(task)),
            registers: pool.len() + outside,
            identities,
            tables: ByHash::default(),
            table_size: 0,
        }
    }

    /// The next child of a bag; `None` after the last one.
    pub(super) fn next(
        &mut self,
        goals: &Goals,
        bag: &[Id],
        strategy: &Strategy,
        order: &mut Order,
    ) -> Option<Pair> {
        loop {
            self.fill(goals, bag, strategy, order);
            let choice = order.next.pop()?.choice;
            if let Some(pair) = self.build(goals, bag, choice) {
                return Some(pair);
            }
        }
    }

    /// The cost of the next child; `None` without one, or where the order is none of costs.
    pub(super) fn peek(
        &mut self,
        goals: &Goals,
        bag: &[Id],
        strategy: &Strategy,
        order: &mut Order,
    ) -> Option<f64> {
        self.fill(goals, bag, strategy, order);
        order.next.last().map(|ranked| ranked.cost).filter(|&cost| cost >= 0.0)
    }

    /// Number of children of a bag.
    pub(super) fn count(&mut self, goals: &Goals, bag: &[Id], strategy: &Strategy) -> usize {
        let mut order = Order { wanted: usize::MAX, ..Order::default() };
        self.fill(goals, bag, strategy, &mut order);
        order.next.len()
    }

    fn fill(&mut self, goals: &Goals, bag: &[Id], strategy: &Strategy, order: &mut Order) {
        if !order.next.is_empty() || order.is_complete {
            return;
        }
        order.wanted = order.wanted.saturating_mul(GROWTH).max(FIRST);
        let largest = bag.iter().map(|&id| goals.get(id).total).max().unwrap_or(0);
        let strategy = strategy.of(largest);
        let (heuristic, ops) = match *strategy {
            Strategy::Exhaustive { heuristic, ops }
            | Strategy::AtomDistanceSorted { heuristic, ops } => (heuristic, ops),
            Strategy::AtomDistance { ops } => (Heuristic::Pattern, ops),
            // A threshold was resolved above.
            Strategy::Threshold { .. } => return,
        };
        let ops = match ops {
            OpSet::All => &self.sets[0],
            OpSet::Basic => &self.sets[1],
            OpSet::Task => &self.sets[2],
        }
        .clone();
        let hash =
            bag.iter().fold(self.cost.seed, |sum, &id| sum.wrapping_add(goals.get(id).key()));
        let mut pass = Pass {
            goals,
            bag,
            cost: Cost { heuristic, ..self.cost },
            ops: &ops,
            registers: self.registers,
            identities: self.identities,
            sink: Sink {
                heap: BinaryHeap::new(),
                wanted: order.wanted,
                after: order.last,
                limit: f64::INFINITY,
                index: 0,
            },
            hash,
        };
        match strategy {
            Strategy::Exhaustive { .. } => pass.exhaustive(self),
            Strategy::AtomDistance { .. } => pass.distances(false, None),
            _ => pass.distances(true, None),
        }
        order.next = pass.sink.heap.into_sorted_vec();
        order.is_complete = order.next.len() < order.wanted;
        order.last = order.next.last().map(Ranked::key);
        order.next.reverse();
    }

    fn table(&mut self, goal: &Shape) -> Rc<Parts> {
        if let Some(table) = self.tables.get(&goal.hash) {
            return Rc::clone(table);
        }
        let table = Rc::new(Parts::new(goal));
        self.table_size += table.list.len();
        if self.table_size > MAX_TABLES {
            self.tables.clear();
            self.table_size = table.list.len();
        }
        self.tables.insert(goal.hash, Rc::clone(&table));
        table
    }

    /// What a choice stands for; `None` where a goal would reach too far.
    fn build(&mut self, goals: &Goals, bag: &[Id], choice: Choice) -> Option<Pair> {
        let upper = goals.get(bag[usize::from(choice.upper)]);
        let table = match choice.made {
            Made::Split(_) | Made::Triple(..) => Some(self.table(upper)),
            _ => None,
        };
        build(goals, bag, choice, table.as_deref())
    }
}

impl Pass<'_> {
    fn shape(&self, at: usize) -> &Shape {
        self.goals.get(self.bag[at])
    }

    /// Counts a child, and takes it where neither its bound nor its cost is too high.
    fn consider(&mut self, bound: f64, choice: Choice, table: Option<&Parts>) {
        let index = self.sink.index;
        self.sink.index += 1;
        if bound >= self.sink.limit {
            return;
        }
        let cost = if self.cost.heuristic == Heuristic::Random {
            Some((mix(self.hash.wrapping_add(mix(index))) >> 12) as f64)
        } else {
            build(self.goals, self.bag, choice, table).and_then(|pair| self.judge(&pair))
        };
        if let Some(cost) = cost {
            self.sink.push(cost, index, choice);
        }
    }

    /// The cost of the bag before a pair; `None` if it needs too many registers.
    fn judge(&self, pair: &Pair) -> Option<f64> {
        let mut after: SmallVec<[Id; 8]> = self.bag.into();
        for upper in &pair.uppers {
            after.remove(after.iter().position(|id| id == upper)?);
        }
        let is_lower = |shape: &Shape| pair.lowers.iter().any(|lower| lower.hash == shape.hash);
        let mut goals: SmallVec<[&Shape; 10]> = SmallVec::new();
        goals.extend(after.iter().map(|&id| self.goals.get(id)).filter(|shape| !is_lower(shape)));
        goals.extend(&pair.lowers);
        let fits = goals.len() + pair.op.extra() <= self.registers;
        fits.then(|| self.cost.of(&goals, pair.op == Op::Mov(0), self.sink.limit))
    }

    /// Bag positions of different goals.
    fn distinct(&self) -> SmallVec<[usize; 8]> {
        (0..self.bag.len()).filter(|&at| !self.bag[..at].contains(&self.bag[at])).collect()
    }
}
