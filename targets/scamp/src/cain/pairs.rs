//! The children of a node: what an instruction can make of what, cheapest first.
//!
//! A node has tens of thousands of children of which few are ever asked for. So the cheapest few are
//! looked for, with a bound that spares most of the others; the whole is gone through again when
//! they are used up.
//!
//! Facts: `cain` (`docs/bibliography.md`).

use super::goals::{ATOMS, ByHash, Cells, Goals, Id, Shape, mix, moved, x_of, y_of};
use super::heuristics::{Brief, Cost, Heuristic, range};
use super::op::{Op, Ops, Pair, Way, offset, way_to};
use super::parts::{MAX_PARTS, Part, Parts, count};
use super::settings::{OpSet, Settings, Strategy};
use crate::task::Task;
use smallvec::{SmallVec, smallvec};
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
        let ranked = Ranked { cost, index, choice };
        if self.after.is_some_and(|after| compare(ranked.key(), after).is_le()) {
            return;
        }
        self.heap.push(ranked);
        if self.heap.len() > self.wanted {
            self.heap.pop();
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
        self.fill(goals, bag, strategy, order);
        let choice = order.next.pop()?.choice;
        self.build(goals, bag, choice)
    }

    /// The cost of the next child.
    pub(super) fn peek(
        &mut self,
        goals: &Goals,
        bag: &[Id],
        strategy: &Strategy,
        order: &mut Order,
    ) -> Option<f64> {
        self.fill(goals, bag, strategy, order);
        order.next.last().map(|ranked| ranked.cost)
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
            bag.iter().fold(self.cost.seed, |sum, &id| sum.wrapping_add(mix(goals.get(id).hash)));
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

fn build(goals: &Goals, bag: &[Id], choice: Choice, table: Option<&Parts>) -> Option<Pair> {
    let Choice { upper: at, other, op, made } = choice;
    let upper = goals.get(bag[usize::from(at)]);
    let mut uppers = smallvec![bag[usize::from(at)]];
    let lowers: SmallVec<[Shape; 3]> = match (made, table) {
        (Made::Whole, _) => {
            if op == Op::Res2 {
                uppers.push(bag[usize::from(other)]);
            }
            whole(upper, op)?
        }
        (Made::Split(code), Some(table)) => {
            let first = table.cells(code);
            let second = upper.minus(&first);
            operands(Shape::new(first), second, op)?
        }
        (Made::Triple(code, part), Some(table)) => {
            let (first, second) = (table.cells(part), table.cells(code - part));
            let third = upper.minus(&table.cells(code));
            smallvec![Shape::new(first), Shape::new(second), third]
        }
        (Made::Signed, _) => {
            let first = Shape::new(rounded_up(upper));
            let second = upper.minus(&first.cells);
            operands(first, second, op)?
        }
        (Made::Near { x, y, negated }, _) => {
            let (x, y) = (i32::from(x), i32::from(y));
            let part =
                common(upper, goals.get(bag[usize::from(other)]), (x, y), negated, at == other);
            near(upper, part, (x, y), negated, at == other, op)?
        }
        (Made::Split(_) | Made::Triple(..), None) => return None,
    };
    Some(Pair { op, uppers, lowers })
}

/// Operands of instructions that have one or none.
fn whole(upper: &Shape, op: Op) -> Option<SmallVec<[Shape; 3]>> {
    Some(match op {
        Op::Neg => smallvec![upper.negated()],
        Op::Div | Op::DivFrom | Op::Divq if 2 * upper.total <= ATOMS => smallvec![upper.doubled()],
        Op::Mov(way) => smallvec![back(upper, way)?],
        Op::Res | Op::Res2 => SmallVec::new(),
        _ => return None,
    })
}

/// A goal before it is moved by a way.
fn back(goal: &Shape, way: Way) -> Option<Shape> {
    let (x, y) = offset(way);
    goal.may_move(-x, -y).then(|| goal.translated(-x, -y))
}

/// Operands of an addition or subtraction whose result is the sum of two goals.
fn operands(first: Shape, second: Shape, op: Op) -> Option<SmallVec<[Shape; 3]>> {
    Some(match op {
        Op::Add(way) => smallvec![back(&first, way)?, back(&second, way)?],
        Op::Sub(way) => smallvec![back(&first, way)?, second.negated()],
        _ => return None,
    })
}

/// Cells of 7, 14 and 15 atoms with 8, 16 and 16.
fn rounded_up(goal: &Shape) -> Cells {
    let round = |n: i32| match n.abs() {
        7 => 8 * n.signum(),
        14 | 15 => 16 * n.signum(),
        _ => n,
    };
    goal.cells.iter().map(|&(place, n)| (place, round(n))).collect()
}

/// The largest part of `b` that lies in `a` when it is moved back by an offset, and negated.
fn common(a: &Shape, b: &Shape, (x, y): (i32, i32), negated: bool, is_own: bool) -> Cells {
    let mut cells = Cells::new();
    if is_own && (x, y) == (0, 0) {
        let halves = a.cells.iter().map(|&(place, n)| (place, n / 2));
        return halves.filter(|cell| cell.1 != 0 && !negated).collect();
    }
    let mut rest = a.cells.iter();
    let mut next = rest.next();
    for &(place, n) in &b.cells {
        let from = moved(place, -x, -y);
        while next.is_some_and(|cell| cell.0 < from) {
            next = rest.next();
        }
        let Some(&(at, m)) = next else { break };
        let m = if negated { -m } else { m };
        if at == from && (m < 0) == (n < 0) {
            cells.push((place, m.abs().min(n.abs()) * n.signum()));
        }
    }
    cells
}

/// Operands that use that a part is a translation of another one.
fn near(
    upper: &Shape,
    part: Cells,
    (x, y): (i32, i32),
    negated: bool,
    is_own: bool,
    op: Op,
) -> Option<SmallVec<[Shape; 3]>> {
    let sign = if negated { -1 } else { 1 };
    let home: Cells = part.iter().map(|&(place, n)| (moved(place, -x, -y), sign * n)).collect();
    if op == Op::Add3 {
        let (home, part) = (Shape::new(home), Shape::new(part));
        let shared = common(&part, &home, (0, 0), false, false);
        let own = home.minus(&shared);
        let rest = upper.minus(&part.cells).minus(&own.cells);
        return Some(smallvec![rest, own, part]);
    }
    let (first, second) = if is_own {
        (upper.minus(&part), Shape::new(part))
    } else {
        let rest = upper.minus(&home);
        (Shape::new(home), rest)
    };
    operands(first, second, op)
}

/// The way of one step, or of two, towards an offset in units of `unit`, the longer axis first;
/// east and west before north and south where both are as long.
fn towards((mut x, mut y): (i64, i64), unit: i64, steps: usize) -> Option<Way> {
    let (mut dx, mut dy) = (0, 0);
    for _ in 0..steps {
        if x.abs().max(y.abs()) * 2 <= unit {
            return None;
        }
        if x.abs() >= y.abs() {
            dx += x.signum() as i32;
            x -= x.signum() * unit;
        } else {
            dy += y.signum() as i32;
            y -= y.signum() * unit;
        }
    }
    // The operand moves there, so that the instruction reads from the opposite side.
    way_to(-dx, -dy)
}

/// Goals of a bag but for one, as bounds need them.
struct Rest {
    forms: SmallVec<[u64; 8]>,
    /// Least cost of their atoms and distances.
    atoms: f64,
    reps: f64,
    low: i64,
    high: i64,
    largest: i64,
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
        fits.then(|| self.cost.of(&goals, pair.op == Op::Mov(0)))
    }

    /// Bag positions of different goals.
    fn distinct(&self) -> SmallVec<[usize; 8]> {
        (0..self.bag.len()).filter(|&at| !self.bag[..at].contains(&self.bag[at])).collect()
    }

    fn exhaustive(&mut self, maker: &mut Maker<'_>) {
        for at in self.distinct() {
            self.unary(at);
            if self.shape(at).total == 0 {
                continue;
            }
            if count(self.shape(at)) > MAX_PARTS {
                self.distances(true, Some(at));
                continue;
            }
            let table = maker.table(self.goals.get(self.bag[at]));
            self.splits(at, &table);
            self.signed(at);
        }
    }

    /// What makes a goal of one other goal, or of nothing.
    fn unary(&mut self, at: usize) {
        let choice = |op, other: usize| Choice {
            upper: at as u8,
            other: other as u8,
            op,
            made: Made::Whole,
        };
        let id = self.bag[at];
        let copy = (at + 1..self.bag.len()).find(|&other| self.bag[other] == id);
        let ops = self.ops;
        let free = |ok: bool, op| ok.then_some(op);
        if self.shape(at).total == 0 {
            if let (Some(other), true) = (copy, ops.res2) {
                self.consider(0.0, choice(Op::Res2, other), None);
            }
            let res = free(ops.res, Op::Res);
            res.into_iter().for_each(|op| self.consider(0.0, choice(op, at), None));
            return;
        }
        let neg = free(ops.neg, Op::Neg).into_iter();
        let moves = ops.mov.iter().filter(|&&way| way != 0 || copy.is_some());
        let moves = moves.map(|&way| Op::Mov(way));
        for op in neg.chain(ops.halve.iter().copied()).chain(moves) {
            self.consider(0.0, choice(op, at), None);
        }
    }

    fn rest(&self, at: usize) -> Rest {
        let others = (0..self.bag.len()).filter(|&other| other != at);
        let shapes: SmallVec<[&Shape; 8]> = others.map(|other| self.shape(other)).collect();
        let briefs: SmallVec<[Brief; 8]> = shapes.iter().map(|shape| Brief::of(shape)).collect();
        let relief = self.cost.most_relief() as f64;
        let atoms = |shape: &&Shape| {
            shape.total as f64 + self.cost.ways(shape.way, shape.minus) as f64 / relief
        };
        let (low, high) = range(&briefs);
        Rest {
            forms: briefs.iter().map(|brief| brief.form).collect(),
            atoms: shapes.iter().map(atoms).sum(),
            reps: self.cost.reps(&briefs),
            low,
            high,
            largest: shapes.iter().map(|shape| shape.total).max().unwrap_or(0),
        }
    }

    /// The least that a bag costs when some parts replace a goal, distances of the parts aside;
    /// nothing is known if a part is a translation of another goal.
    fn bound(&self, rest: &Rest, parts: &[Brief]) -> f64 {
        let is_other = |part: &Brief| rest.forms.contains(&part.form);
        if self.cost.heuristic == Heuristic::Random || parts.iter().any(is_other) {
            return f64::NEG_INFINITY;
        }
        let (low, high) = range(parts);
        let low = if rest.low == 0 { low } else { low.min(rest.low) };
        let divs = self.cost.divs(low, high.max(rest.high));
        rest.atoms + rest.reps + self.cost.reps(parts) + divs
    }

    /// The largest relief for a goal of so many atoms beside others.
    fn relief(&self, total: i64, largest: i64) -> f64 {
        let relief = self.cost.most_relief();
        // What is part of no other goal has the relief in the paper's print only.
        let has = total <= largest || self.cost.heuristic == Heuristic::PaperAsPrinted;
        if has { relief as f64 } else { 1.0 }
    }

    /// All sums of two or three parts.
    fn splits(&mut self, at: usize, table: &Parts) {
        let rest = self.rest(at);
        let total = self.shape(at).total as f64;
        let full = table.list.len() as u32 - 1;
        let fits = |parts: usize| self.bag.len() - 1 + parts <= self.registers + rest.forms.len();
        let triples = self.ops.add3 && fits(3);
        for code in 1..full {
            let other = full - code;
            let (a, b) = (&table.list[code as usize], &table.list[other as usize]);
            let reliefs = [
                self.relief(a.total, rest.largest.max(b.total)),
                self.relief(b.total, rest.largest.max(a.total)),
            ];
            let choice = |op| Choice { upper: at as u8, other: 0, op, made: Made::Split(code) };
            let (cost, ops) = (self.cost, self.ops);
            let dist = |part: &Part, way: Way, minus: i64| {
                cost.ways(i64::from(part.ways[usize::from(way)]), minus) as f64
            };
            if code <= other {
                let base = total + self.bound(&rest, &[a.brief, b.brief]);
                for &way in &ops.add {
                    let near =
                        dist(a, way, a.minus) / reliefs[0] + dist(b, way, b.minus) / reliefs[1];
                    self.consider(base + near, choice(Op::Add(way)), Some(table));
                }
            }
            let negated = Brief { form: b.negated_form(), ..b.brief };
            let base = total + self.bound(&rest, &[a.brief, negated]);
            for &way in &ops.sub {
                let near =
                    dist(a, way, a.minus) / reliefs[0] + dist(b, 0, b.total - b.minus) / reliefs[1];
                self.consider(base + near, choice(Op::Sub(way)), Some(table));
            }
            if triples {
                self.triples(at, code, table, &rest);
            }
        }
    }

    /// All sums of two parts of a part, and what remains.
    fn triples(&mut self, at: usize, code: u32, table: &Parts, rest: &Rest) {
        let whole = self.shape(at);
        let ways = self.cost.ways(whole.way, whole.minus) as f64;
        let least = whole.total as f64 + ways / self.cost.most_relief() as f64;
        let last = table.list.len() as u32 - 1 - code;
        table.each_part_of(code, |part| {
            let second = code - part;
            if part == 0 || part > second || second > last {
                return;
            }
            let brief = |code: u32| table.list[code as usize].brief;
            let bound = least + self.bound(rest, &[brief(part), brief(second), brief(last)]);
            let made = Made::Triple(code, part);
            let choice = Choice { upper: at as u8, other: 0, op: Op::Add3, made };
            self.consider(bound, choice, Some(table));
        });
    }

    /// Cells of 7, 14 and 15 atoms as differences.
    fn signed(&mut self, at: usize) {
        if !self.shape(at).cells.iter().any(|cell| [7, 14, 15].contains(&cell.1.abs())) {
            return;
        }
        let ops = self.ops;
        let adds = ops.add.iter().map(|&way| Op::Add(way));
        for op in adds.chain(ops.sub.iter().map(|&way| Op::Sub(way))) {
            let choice = Choice { upper: at as u8, other: 0, op, made: Made::Signed };
            self.consider(f64::NEG_INFINITY, choice, None);
        }
    }

    /// Children by parts that are translations of each other; only of one goal if one is given.
    fn distances(&mut self, sorted: bool, only: Option<usize>) {
        let list = self.distinct();
        let uppers = list.iter().copied().filter(|&at| only.is_none_or(|only| only == at));
        let uppers: SmallVec<[usize; 8]> = uppers.collect();
        for own in [false, true] {
            for &a in &uppers {
                for b in (0..self.bag.len()).filter(|&b| (b == a) == own) {
                    self.pair(a, b, sorted);
                }
            }
        }
        if only.is_none() {
            for &at in &uppers {
                self.direct(at, sorted);
            }
        }
    }

    /// Considers a child in the order of the heuristic, or of sizes and distances.
    fn offer(&mut self, choice: Choice, sorted: bool, size: i64, distance: i32) {
        if sorted {
            return self.consider(0.0, choice, None);
        }
        let index = self.sink.index;
        self.sink.index += 1;
        let fits = build(self.goals, self.bag, choice, None)
            .is_some_and(|pair| self.judge(&pair).is_some());
        if fits {
            self.sink.push(f64::from(distance) - size as f64 * 4096.0, index, choice);
        }
    }

    fn pair(&mut self, a: usize, b: usize, sorted: bool) {
        let own = a == b;
        let (goals, bag) = (self.goals, self.bag);
        let (upper, other) = (goals.get(bag[a]), goals.get(bag[b]));
        for (x, y) in offsets(upper, other) {
            for negated in [false, true] {
                let part = common(upper, other, (x, y), negated, own);
                let size: i64 = part.iter().map(|cell| i64::from(cell.1.abs())).sum();
                if size == 0 || !own && size != other.total {
                    continue;
                }
                let near = Made::Near { x: x as i16, y: y as i16, negated };
                let is_all = !own && size == upper.total;
                let made = if is_all { Made::Whole } else { near };
                for op in self.forms(upper, (x, y), negated, own, is_all) {
                    let choice = Choice { upper: a as u8, other: b as u8, op, made };
                    self.offer(choice, sorted, size, x.abs() + y.abs());
                }
            }
        }
    }

    /// Instructions for two goals, or parts of one, that are translations of each other.
    fn forms(
        &self,
        upper: &Shape,
        (x, y): (i32, i32),
        negated: bool,
        own: bool,
        is_all: bool,
    ) -> SmallVec<[Op; 8]> {
        let ops = self.ops;
        let (target, unit) = match own {
            true => (centre(upper), upper.total),
            false => ((i64::from(x), i64::from(y)), 1),
        };
        let ways = [towards(target, unit, 1), towards(target, unit, 2)];
        let moves = || ways.into_iter().flatten();
        let mut list: SmallVec<[Op; 8]> = SmallVec::new();
        if is_all {
            list.extend(moves().filter(|way| ops.mov.contains(way)).map(Op::Mov));
            if (x, y) == (0, 0) {
                let op = if negated { Op::Neg } else { Op::Mov(0) };
                let has = if negated { ops.neg } else { ops.mov.contains(&0) };
                list.extend(has.then_some(op));
            }
            return list;
        }
        let both = || std::iter::once(0).chain(moves());
        list.extend(both().filter(|way| ops.add.contains(way)).map(Op::Add));
        list.extend(both().filter(|way| ops.sub.contains(way)).map(Op::Sub));
        if own && ops.add3 {
            list.push(Op::Add3);
        }
        list
    }

    /// Moves to the centre, halvings of what an input contains, and zeros.
    fn direct(&mut self, at: usize, sorted: bool) {
        let (ops, shape) = (self.ops, self.goals.get(self.bag[at]));
        let mut list: SmallVec<[Op; 8]> = SmallVec::new();
        if shape.total == 0 {
            list.extend(ops.res.then_some(Op::Res));
        } else {
            let ways = [1, 2].map(|steps| towards(centre(shape), shape.total, steps));
            let ways = ways.into_iter().flatten().filter(|way| ops.mov.contains(way));
            list.extend(ways.map(Op::Mov));
            let doubled = shape.doubled();
            if self.identities.iter().any(|identity| doubled.is_within(identity)) {
                list.extend(ops.halve.iter().copied());
            }
        }
        for op in list {
            let choice = Choice { upper: at as u8, other: at as u8, op, made: Made::Whole };
            self.offer(choice, sorted, shape.total, 0);
        }
    }
}

/// From the centre of mass to the centre, times the number of atoms.
fn centre(goal: &Shape) -> (i64, i64) {
    goal.cells.iter().fold((0, 0), |(x, y), &(place, n)| {
        let atoms = i64::from(n.abs());
        (x - atoms * i64::from(x_of(place)), y - atoms * i64::from(y_of(place)))
    })
}

/// All offsets from a cell of one goal to a cell of another one in the same channel.
fn offsets(a: &Shape, b: &Shape) -> Vec<(i32, i32)> {
    let mut list = Vec::with_capacity(a.cells.len() * b.cells.len());
    for &(from, _) in &a.cells {
        let same = b.cells.iter().filter(|&&(to, _)| to >> 20 == from >> 20);
        list.extend(same.map(|&(to, _)| (x_of(to) - x_of(from), y_of(to) - y_of(from))));
    }
    list.sort_unstable();
    list.dedup();
    list
}
