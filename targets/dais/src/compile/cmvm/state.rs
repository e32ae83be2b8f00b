//! A system of sums that changes: every change of a term updates the counts of pairs, the readers
//! of nodes and the levels of sums, and can be undone.

use super::pairs::{self, Pairs};
use super::system::{System, Term};
use super::{Input, Problem, Range, digits};

/// One sum.
#[derive(Clone, Debug, Default)]
struct Row {
    terms: Vec<Term>,
    /// An output is this sum: it stays whatever reads it.
    root: bool,
    alive: bool,
    /// Sum of `2^level` over the terms. Outputs that are late until a change is undone may need twice
    /// the levels that there are.
    weight: u128,
}

/// What undoing has to turn around.
#[derive(Clone, Copy, Debug)]
enum Change {
    Added(u32, Term),
    Removed(u32, Term),
    Born(u32),
    Died(u32),
}

/// The values of a node, for estimates.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    low: f64,
    high: f64,
}

/// The system that is being improved.
#[derive(Debug)]
pub(super) struct State {
    inputs: usize,
    rows: Vec<Row>,
    outputs: Vec<Option<Term>>,
    /// Sums that read a node, once per term.
    readers: Vec<Vec<u32>>,
    sizes: Vec<Size>,
    /// Level of a node, if levels bind.
    levels: Vec<u8>,
    /// Most levels of an output.
    limit: Option<u8>,
    /// Outputs that are later.
    late: usize,
    /// Sums that died, to be used again.
    free: Vec<u32>,
    log: Vec<Change>,
    cost: usize,
    /// Counts of pairs.
    pub(super) pairs: Pairs,
}

/// The level of all that is later: the weight of many of them still fits.
const TOO_LATE: u8 = 100;

/// The level of a sum whose terms have the given sum of `2^level`.
pub(super) fn level(weight: impl Into<u128>) -> u8 {
    let weight = weight.into();
    if weight <= 1 { 0 } else { (128 - (weight - 1).leading_zeros() as u8).min(TOO_LATE) }
}

impl Size {
    fn of_terms(sizes: &[Size], terms: &[Term]) -> Size {
        terms.iter().fold(Size::default(), |all, term| {
            let Size { low, high } = sizes[term.node as usize];
            let factor = f64::from(term.shift).exp2();
            let (low, high) = (low * factor, high * factor);
            let (low, high) = if term.negate { (-high, -low) } else { (low, high) };
            Size { low: all.low + low, high: all.high + high }
        })
    }

    /// Bits of the largest value.
    fn bits(&self) -> i32 {
        let largest = self.high.max(-self.low).max(1.0);
        // The exponent of a float is where its highest bit is.
        ((largest.to_bits() >> 52) as i32) - 1022
    }
}

/// Terms of a sum above which bits are estimated in the order in which the terms are there.
const MANY: usize = 12;

impl State {
    /// The state of a system; `limit` are the most levels of an output, where latencies matter.
    pub(super) fn new(system: &System, inputs: &[Input], limit: Option<u8>) -> State {
        let size = |input: &Input| Size { low: input.low as f64, high: input.high as f64 };
        let nodes = system.inputs + system.sums.len();
        let mut state = State {
            inputs: system.inputs,
            rows: vec![Row::default(); system.sums.len()],
            outputs: system.outputs.clone(),
            readers: vec![Vec::new(); nodes],
            sizes: inputs.iter().map(size).collect(),
            levels: levels(inputs),
            limit,
            late: 0,
            free: Vec::new(),
            log: Vec::new(),
            cost: 0,
            pairs: Pairs::new(),
        };
        state.sizes.resize(nodes, Size::default());
        state.levels.resize(nodes, 0);
        for output in system.outputs.iter().flatten() {
            if let Some(row) = system.sum_of(output.node) {
                state.rows[row].root = true;
            }
        }
        let order = system.order();
        for &row in &order {
            state.rows[row].alive = true;
            state.sizes[system.inputs + row] = Size::of_terms(&state.sizes, &system.sums[row]);
            for &term in &system.sums[row] {
                state.add(row, term);
            }
        }
        state
            .free
            .extend((0..system.sums.len() as u32).filter(|&row| !state.rows[row as usize].alive));
        state.tidy(order);
        state.log.clear();
        state
    }

    /// What the state has become.
    pub(super) fn system(&self) -> System {
        let sums = self.rows.iter().map(|row| row.terms.clone()).collect();
        System { inputs: self.inputs, sums, outputs: self.outputs.clone() }
    }

    /// Number of adders.
    pub(super) fn cost(&self) -> usize {
        self.cost
    }

    /// Number of sums, dead ones included.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The terms of a sum.
    pub(super) fn terms(&self, row: usize) -> &[Term] {
        &self.rows[row].terms
    }

    /// Whether a sum is there that others read.
    pub(super) fn is_read(&self, row: usize) -> bool {
        self.rows[row].alive && !self.readers_of(row).is_empty()
    }

    /// Whether the sum is there and no output.
    pub(super) fn is_inner(&self, row: usize) -> bool {
        self.rows[row].alive && !self.rows[row].root
    }

    /// The sum that makes a node.
    pub(super) fn row_of(&self, node: u32) -> Option<usize> {
        (node as usize).checked_sub(self.inputs)
    }

    /// The node that a sum makes.
    pub(super) fn node_of(&self, row: usize) -> u32 {
        (self.inputs + row) as u32
    }

    /// Sums that are there, operands first.
    pub(super) fn order(&self) -> Vec<usize> {
        self.system().order()
    }

    /// Sums that read a node, once per term.
    pub(super) fn readers(&self, node: u32) -> &[u32] {
        &self.readers[node as usize]
    }

    /// Sums that read a sum, once per term.
    pub(super) fn readers_of(&self, row: usize) -> &[u32] {
        &self.readers[self.inputs + row]
    }

    /// Bits that both operands of the adder of a pair have.
    pub(super) fn overlap(&self, key: pairs::Key) -> i32 {
        let [x, y] = pairs::terms(key);
        let (a, b) = (&self.sizes[x.node as usize], &self.sizes[y.node as usize]);
        let top = (a.bits() + i32::from(x.shift)).min(b.bits() + i32::from(y.shift));
        top - i32::from(x.shift.max(y.shift))
    }

    /// Whether some output is later than it may be.
    pub(super) fn is_late(&self) -> bool {
        self.late > 0
    }

    /// Level of a node, where levels bind.
    pub(super) fn level_of(&self, node: u32) -> u8 {
        self.levels[node as usize]
    }

    /// Whether the terms of a sum would be there earlier if they were not added up first.
    pub(super) fn has_slack(&self, row: usize) -> bool {
        self.rows[row].weight < 1 << self.levels[self.inputs + row]
    }

    /// Whether the sum is an output.
    pub(super) fn is_root(&self, row: usize) -> bool {
        self.rows[row].root
    }

    /// The first output that is later than it may be.
    pub(super) fn late_row(&self) -> Option<usize> {
        let limit = self.limit?;
        let is_late = |&row: &usize| self.rows[row].root && self.levels[self.inputs + row] > limit;
        (0..self.rows.len()).find(|row| self.late > 0 && is_late(row))
    }

    /// The level of a sum in the place of one of whose terms its own terms are put.
    pub(super) fn level_with(&self, row: usize, inlined: usize) -> u8 {
        let node = (self.inputs + inlined) as u32;
        let own = &self.rows[row];
        let times = own.terms.iter().filter(|term| term.node == node).count() as u128;
        let removed = 1_u128 << self.levels[node as usize];
        level(own.weight - times * removed + times * self.rows[inlined].weight)
    }

    /// The highest level of an output, where levels bind.
    pub(super) fn highest_level(&self) -> u8 {
        let roots = self.outputs.iter().flatten().map(|term| self.levels[term.node as usize]);
        roots.max().unwrap_or(0)
    }

    /// The column that a sum is, up to a power of two and a sign.
    pub(super) fn column_of(&self, row: usize) -> Option<(usize, Term)> {
        let node = self.node_of(row);
        let is_it = |(column, output): (usize, &Option<Term>)| {
            output.filter(|term| term.node == node).map(|term| (column, term))
        };
        self.outputs.iter().enumerate().find_map(is_it)
    }

    /// Sums that have changed since all changes were final, each once.
    pub(super) fn changed(&self) -> Vec<usize> {
        let row = |change: &Change| match *change {
            Change::Added(row, _) | Change::Removed(row, _) => row as usize,
            Change::Born(row) | Change::Died(row) => row as usize,
        };
        let mut rows: Vec<usize> = self.log.iter().map(row).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Bits of the adders of a sum, about: terms are added two by two, the narrowest first.
    pub(super) fn bits_of(&self, row: usize) -> u32 {
        if !self.rows[row].alive {
            return 0;
        }
        let part = |term: &Term| {
            let Size { low, high } = self.sizes[term.node as usize];
            let range = Range { low: low as i128, high: high as i128, exponent: 0 };
            range.scaled(term.shift.into(), term.negate)
        };
        let mut parts: Vec<Range> = self.rows[row].terms.iter().map(part).collect();
        let mut bits = 0;
        while parts.len() > 1 {
            let mut best = (u32::MAX, 0, 1);
            let many = if parts.len() > MANY { 2 } else { parts.len() };
            for x in 0..many {
                for y in x + 1..many {
                    best = best.min((parts[x].order(&parts[y]), x, y));
                }
            }
            let second = parts.remove(best.2);
            bits += parts[best.1].adder_bits(&second);
            parts[best.1] = parts[best.1].plus(&second);
        }
        bits
    }

    /// A point to which [`State::undo`] can return.
    pub(super) fn mark(&self) -> usize {
        self.log.len()
    }

    /// The changes so far are final.
    pub(super) fn commit(&mut self) {
        self.log.clear();
    }

    /// Undoes all changes since a mark.
    pub(super) fn undo(&mut self, mark: usize) {
        while self.log.len() > mark {
            match self.log.pop() {
                Some(Change::Added(row, term)) => {
                    let row = row as usize;
                    if let Some(at) = self.rows[row].terms.iter().rposition(|t| *t == term) {
                        self.take(row, at);
                    }
                }
                Some(Change::Removed(row, term)) => self.put(row as usize, term),
                Some(Change::Born(row)) => {
                    self.rows[row as usize].alive = false;
                    self.free.push(row);
                }
                Some(Change::Died(row)) => {
                    self.rows[row as usize].alive = true;
                    self.free.pop();
                }
                None => {}
            }
        }
    }

    /// A new sum of a pair; `None` when there are too many.
    pub(super) fn new_row(&mut self, pair: [Term; 2]) -> Option<usize> {
        let row = match self.free.pop() {
            Some(row) => row as usize,
            None if self.readers.len() < pairs::MAX_NODES => {
                self.rows.push(Row::default());
                self.readers.push(Vec::new());
                self.sizes.push(Size::default());
                self.levels.push(0);
                self.rows.len() - 1
            }
            None => return None,
        };
        self.rows[row].alive = true;
        self.sizes[self.inputs + row] = Size::of_terms(&self.sizes, &pair);
        self.log.push(Change::Born(row as u32));
        for term in pair {
            self.add(row, term);
        }
        Some(row)
    }

    /// Adds a term to a sum; equal terms become one or none.
    pub(super) fn add(&mut self, row: usize, mut term: Term) {
        let same = |t: &Term, term: Term| t.node == term.node && t.shift == term.shift;
        while let Some(at) = self.rows[row].terms.iter().position(|t| same(t, term)) {
            let cancels = self.rows[row].terms[at].negate != term.negate;
            self.remove(row, at);
            if cancels {
                return;
            }
            term.shift += 1;
        }
        self.log.push(Change::Added(row as u32, term));
        self.put(row, term);
    }

    /// Removes a term of a sum; the last one takes its place.
    pub(super) fn remove(&mut self, row: usize, at: usize) -> Term {
        let term = self.take(row, at);
        self.log.push(Change::Removed(row as u32, term));
        term
    }

    fn put(&mut self, row: usize, term: Term) {
        let terms = &mut self.rows[row].terms;
        for &other in terms.iter() {
            self.pairs.increase(pairs::key(term, other));
        }
        self.cost += usize::from(!terms.is_empty());
        terms.push(term);
        self.readers[term.node as usize].push(row as u32);
        if self.limit.is_some() {
            self.reweigh(row, 1 << self.levels[term.node as usize]);
        }
    }

    fn take(&mut self, row: usize, at: usize) -> Term {
        let terms = &mut self.rows[row].terms;
        let term = terms.swap_remove(at);
        for &other in terms.iter() {
            self.pairs.decrease(pairs::key(term, other));
        }
        self.cost -= usize::from(!terms.is_empty());
        let readers = &mut self.readers[term.node as usize];
        if let Some(at) = readers.iter().rposition(|&reader| reader == row as u32) {
            readers.swap_remove(at);
        }
        if self.limit.is_some() {
            self.reweigh(row, (1_u128 << self.levels[term.node as usize]).wrapping_neg());
        }
        term
    }

    /// Adds to the weight of a sum, and to those of its readers what follows.
    fn reweigh(&mut self, row: usize, more: u128) {
        let weight = self.rows[row].weight.wrapping_add(more);
        self.rows[row].weight = weight;
        let node = self.inputs + row;
        let (old, new) = (self.levels[node], level(weight));
        if old == new {
            return;
        }
        self.levels[node] = new;
        if self.rows[row].root {
            let is_late = |level: u8| usize::from(self.limit.is_some_and(|limit| level > limit));
            self.late = self.late + is_late(new) - is_late(old);
        }
        // In long chains this is most of the work.
        self.pairs.work += 1;
        let more = (1_u128 << new).wrapping_sub(1 << old);
        for at in 0..self.readers[node].len() {
            self.reweigh(self.readers[node][at] as usize, more);
        }
    }

    /// Whether no output is late for sure when a pair of a sum becomes one term; a first guess.
    pub(super) fn fits(&self, row: usize, pair: [Term; 2]) -> bool {
        let Some(limit) = self.limit else {
            return true;
        };
        let [a, b] = pair.map(|term| self.levels[term.node as usize]);
        let more = (2_u128 << a.max(b)) - (1 << a) - (1 << b);
        more == 0 || self.bears(row, more, limit)
    }

    fn bears(&self, row: usize, more: u128, limit: u8) -> bool {
        let node = self.inputs + row;
        let (old, new) = (self.levels[node], level(self.rows[row].weight + more));
        if new <= old {
            return true;
        }
        let more = (1_u128 << new) - (1 << old);
        new <= limit
            && self.readers[node].iter().all(|&reader| self.bears(reader as usize, more, limit))
    }

    /// Puts the terms of a sum in its place wherever it is read.
    pub(super) fn dissolve(&mut self, row: usize) -> Vec<usize> {
        let node = (self.inputs + row) as u32;
        let mut touched = vec![row];
        while let Some(&reader) = self.readers[node as usize].last() {
            self.inline(row, reader as usize);
            touched.push(reader as usize);
        }
        touched
    }

    /// Puts the terms of a sum in its place in one reader.
    pub(super) fn inline(&mut self, row: usize, reader: usize) {
        let node = (self.inputs + row) as u32;
        while let Some(at) = self.rows[reader].terms.iter().position(|term| term.node == node) {
            let Term { shift, negate, .. } = self.remove(reader, at);
            for at in 0..self.rows[row].terms.len() {
                let term = self.rows[row].terms[at];
                self.add(reader, term.scaled(shift, negate));
            }
        }
    }

    /// Brings sums into their usual form: sums of one term or none and sums that are read once
    /// become part of their readers, those that nothing reads die.
    pub(super) fn tidy(&mut self, mut work: Vec<usize>) {
        while let Some(row) = work.pop() {
            if !self.rows[row].alive {
                continue;
            }
            let readers = self.readers_of(row).len();
            let root = self.rows[row].root;
            if readers > 0 && (self.rows[row].terms.len() < 2 || (readers == 1 && !root)) {
                work.extend(self.dissolve(row));
            } else if readers == 0 && !root {
                while let Some(term) = self.rows[row].terms.last() {
                    work.extend(self.row_of(term.node));
                    self.remove(row, self.rows[row].terms.len() - 1);
                }
                self.rows[row].alive = false;
                self.free.push(row as u32);
                self.log.push(Change::Died(row as u32));
            }
        }
    }
}

/// The level that counts as 0, so that `2^level` fits: earlier inputs count as later.
pub(super) fn base(inputs: &[Input]) -> u32 {
    const MOST: u32 = 32;
    inputs.iter().map(|input| input.latency).max().unwrap_or(0).saturating_sub(MOST)
}

/// Levels of the inputs above the base.
pub(super) fn levels(inputs: &[Input]) -> Vec<u8> {
    let base = base(inputs);
    inputs.iter().map(|input| input.latency.saturating_sub(base) as u8).collect()
}

/// The levels that the earliest possible addition of signed digits needs.
pub(super) fn least_levels(problem: &Problem) -> u8 {
    let levels = levels(problem.inputs());
    let column = |column: usize| {
        let count = |row: usize| u64::from(digits::count(problem.weight(row, column)));
        level(levels.iter().enumerate().map(|(row, &level)| count(row) << level).sum::<u64>())
    };
    (0..problem.columns()).map(column).max().unwrap_or(0)
}
