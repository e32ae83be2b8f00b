//! Steps of a graph on values that have no registers yet, and an order in which registers suffice.

use super::graph::{Edge, Graph, tree};
use super::transform::Transform;
use crate::isa::Direction;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashSet};

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// 0.
    Zero,
    /// The operand of a neighbour.
    Move(Direction),
    /// Half of the operand.
    Halve,
    /// Minus the operand.
    Negate,
    /// The sum of two operands, which are not the same value.
    Add,
    /// The first operand minus the second one.
    Subtract,
}

impl Op {
    /// The operand that must be in another register than the result.
    pub(super) fn apart(self) -> Option<usize> {
        match self {
            Op::Halve | Op::Negate => Some(0),
            Op::Subtract => Some(1),
            Op::Zero | Op::Move(_) | Op::Add => None,
        }
    }
}

/// A step: what it makes has its number, after the inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) op: Op,
    pub(super) operands: SmallVec<[usize; 2]>,
}

/// Steps, each after all whose results it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    /// Number of inputs, the first values.
    pub(super) inputs: usize,
    /// The steps.
    pub(super) list: Vec<Step>,
    /// The value of the kernel.
    pub(super) output: usize,
}

impl Steps {
    /// No steps yet.
    pub(super) fn new(inputs: usize) -> Steps {
        Steps { inputs, list: Vec::new(), output: 0 }
    }

    /// Adds a step: the number of its result.
    pub(super) fn push(&mut self, op: Op, operands: &[usize]) -> usize {
        self.list.push(Step { op, operands: SmallVec::from_slice(operands) });
        self.inputs + self.list.len() - 1
    }

    /// The steps of a graph. What a value is transformed to is made of what it was transformed to
    /// before, or always of the value itself: that takes more steps, and fewer values at once.
    pub(super) fn of(graph: &Graph, is_shared: bool) -> Steps {
        let mut steps = Steps::new(graph.inputs);
        let mut values: BTreeMap<(usize, Transform), usize> = BTreeMap::new();
        let needs = graph.needs();
        for (node, edges) in graph.nodes.iter().enumerate() {
            if node >= graph.inputs && edges.is_empty() && node < graph.output() {
                // It is part of another sum.
                continue;
            }
            let own = if node < graph.inputs { node } else { steps.sum(edges, &values) };
            values.insert((node, Transform::NONE), own);
            for (from, to, _) in tree(&needs[node]) {
                let from = if is_shared { from } else { Transform::NONE };
                let value = steps.transform(values[&(node, from)], from.inverse().then(to));
                values.insert((node, to), value);
            }
            steps.output = own;
        }
        steps
    }

    /// Moves, then halvings, then the sign.
    pub(super) fn transform(&mut self, mut value: usize, by: Transform) -> usize {
        use Direction::{East, North, South, West};
        let Transform { x, y, halvings, negated } = by;
        for (count, more, less) in [(x, East, West), (y, North, South)] {
            // What an element reads of its east neighbour lies one cell further east.
            let direction = if count > 0 { more } else { less };
            for _ in 0..count.unsigned_abs() {
                value = self.push(Op::Move(direction), &[value]);
            }
        }
        for _ in 0..halvings {
            value = self.push(Op::Halve, &[value]);
        }
        if negated { self.push(Op::Negate, &[value]) } else { value }
    }

    /// Twice a value is the value minus its negation: CSIM has no copy.
    pub(super) fn twice(&mut self, value: usize) -> usize {
        let minus = self.push(Op::Negate, &[value]);
        self.push(Op::Subtract, &[value, minus])
    }

    /// A sum of transformed values, or a transformed value.
    fn sum(&mut self, edges: &[Edge], values: &BTreeMap<(usize, Transform), usize>) -> usize {
        let operand = |edge: &Edge| match edges.len() {
            1 => (values[&(edge.from, edge.by)], false),
            _ => (values[&(edge.from, edge.by.positive())], edge.by.negated),
        };
        let mut terms: Vec<(usize, bool)> = edges.iter().map(operand).collect();
        let is_minus = terms.len() > 1 && terms.iter().all(|term| term.1);
        if is_minus {
            terms.iter_mut().for_each(|term| term.1 = false);
        }
        // In the order in which they are made; but what is added first has no sign, and what comes next
        // is something else.
        terms.sort_unstable();
        if let Some(first) = terms.iter().position(|term| !term.1) {
            terms[..=first].rotate_right(1);
        }
        if let Some(other) = terms.iter().position(|term| *term != terms[0]) {
            terms[1..=other].rotate_right(1);
        }
        let Some(&(first, _)) = terms.first() else { return self.push(Op::Zero, &[]) };
        let mut sum = first;
        for &(value, negated) in &terms[1..] {
            sum = match negated {
                true => self.push(Op::Subtract, &[sum, value]),
                false if value == sum => self.twice(value),
                false => self.push(Op::Add, &[sum, value]),
            };
        }
        if is_minus { self.push(Op::Negate, &[sum]) } else { sum }
    }

    /// Where each value is read last: a step, or the number of steps for what stays.
    pub(super) fn last_uses(&self, kept: &[bool]) -> Vec<Option<usize>> {
        let mut last = vec![None; self.inputs + self.list.len()];
        for (index, step) in self.list.iter().enumerate() {
            for &operand in &step.operands {
                last[operand] = Some(index);
            }
        }
        last[self.output] = Some(self.list.len());
        for input in (0..self.inputs).filter(|&input| kept[input]) {
            last[input] = Some(self.list.len());
        }
        last
    }
}

/// Sets of steps that are looked at for an order.
const MAX_VISITS: usize = 2_000;

/// Most steps that are put into another order than they have.
const MAX_ORDERED: usize = 512;

/// The steps in an order in which so many registers suffice; kept inputs have registers besides.
/// `None` where none was found.
pub(super) fn ordered(steps: &Steps, kept: &[bool], registers: usize) -> Option<Steps> {
    if steps.list.len() > MAX_ORDERED {
        return Some(steps.clone());
    }
    let mut readers = vec![0; steps.inputs + steps.list.len()];
    for &operand in steps.list.iter().flat_map(|step| &step.operands) {
        readers[operand] += 1;
    }
    readers[steps.output] += 1;
    let counted = |input: &usize| !kept[*input] && readers[*input] > 0;
    let alive = (0..steps.inputs).filter(counted).count();
    let mut search = Search {
        steps,
        kept,
        registers,
        readers,
        done: vec![false; steps.list.len()],
        order: Vec::new(),
        failed: HashSet::new(),
        visits: 0,
    };
    search.order(alive).then(|| search.renumbered())
}

struct Search<'a> {
    steps: &'a Steps,
    kept: &'a [bool],
    registers: usize,
    /// How often values are still read.
    readers: Vec<usize>,
    done: Vec<bool>,
    order: Vec<usize>,
    /// Sets of steps after which no order was found.
    failed: HashSet<Vec<bool>>,
    visits: usize,
}

impl Search<'_> {
    fn order(&mut self, alive: usize) -> bool {
        if self.order.len() == self.steps.list.len() {
            return true;
        }
        self.visits += 1;
        if alive > self.registers || self.visits > MAX_VISITS || self.failed.contains(&self.done) {
            return false;
        }
        let mut ready: Vec<(usize, usize)> = (0..self.done.len())
            .filter_map(|step| Some((self.after(step, alive)?, step)))
            .collect();
        // What leaves the fewest values alive; of those what goes on with the newest one.
        ready.sort_by_key(|&(after, step)| {
            let newest = self.steps.list[step].operands.iter().max().copied();
            (after, std::cmp::Reverse(newest), step)
        });
        for (after, step) in ready {
            self.set(step, true);
            if self.order(after) {
                return true;
            }
            self.set(step, false);
        }
        self.failed.insert(self.done.clone());
        false
    }

    /// Values that are alive after a step; `None` if it cannot be done now.
    fn after(&self, step: usize, alive: usize) -> Option<usize> {
        let Step { op, operands } = &self.steps.list[step];
        let is_there =
            |value: &usize| *value < self.steps.inputs || self.done[value - self.steps.inputs];
        if self.done[step] || !operands.iter().all(is_there) {
            return None;
        }
        let own = |value: usize| operands.iter().filter(|&&other| other == value).count();
        let dies = |value: usize| {
            self.readers[value] == own(value) && !self.kept.get(value).is_some_and(|kept| *kept)
        };
        let mut dying: SmallVec<[usize; 2]> =
            operands.iter().copied().filter(|&value| dies(value)).collect();
        dying.dedup();
        let apart = op.apart().map(|at| operands[at]);
        let in_place = dying.iter().any(|&value| Some(value) != apart);
        let most = if in_place { alive } else { alive + 1 };
        (most <= self.registers).then_some(alive + 1 - dying.len())
    }

    fn set(&mut self, step: usize, done: bool) {
        self.done[step] = done;
        for &operand in &self.steps.list[step].operands {
            match done {
                true => self.readers[operand] -= 1,
                false => self.readers[operand] += 1,
            }
        }
        match done {
            true => self.order.push(step),
            false => drop(self.order.pop()),
        }
    }

    fn renumbered(&self) -> Steps {
        let inputs = self.steps.inputs;
        let mut numbers: Vec<usize> = (0..inputs + self.order.len()).collect();
        for (new, &old) in self.order.iter().enumerate() {
            numbers[inputs + old] = inputs + new;
        }
        let step = |&old: &usize| {
            let Step { op, operands } = &self.steps.list[old];
            let operands = operands.iter().map(|&value| numbers[value]).collect();
            Step { op: *op, operands }
        };
        let list = self.order.iter().map(step).collect();
        Steps { inputs, list, output: numbers[self.steps.output] }
    }
}
