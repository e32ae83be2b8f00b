//! What a program computes, as nodes: sums of nodes at neighbours, halved sums, comparisons, choices,
//! and 1-bit planes, in which a 1 is a number of all ones.
//!
//! Copies, negations and NEWS on their way cost nothing here: a register holds a [`Form`], and a form
//! becomes a node only where something needs its numbers.

mod bits;

use super::super::lower::{BusStep, Lowered, NEWS, Op, Place};
use crate::isa::Direction;
use crate::program::Space;
use std::collections::BTreeMap;

/// Number of a node.
pub(super) type Id = usize;

/// A node at an element some rows further south and some columns further east; 0 beyond the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term {
    pub(super) node: Id,
    pub(super) rows: i32,
    pub(super) columns: i32,
}

/// A sum of terms, each a whole number of times.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form(BTreeMap<Term, i64>);

/// Offsets of terms go so far, and the guards of planes as well.
pub(super) const MAX_OFFSET: i32 = 8;
/// Terms of what NEWS holds, on its way to a register.
const MAX_TERMS: usize = 4;

impl Form {
    /// The terms and how often each is added.
    pub(super) fn terms(&self) -> impl Iterator<Item = (Term, i64)> {
        self.0.iter().map(|(&term, &times)| (term, times))
    }

    fn of(node: Id) -> Form {
        Form(BTreeMap::from([(Term { node, rows: 0, columns: 0 }, 1)]))
    }

    fn add(&mut self, other: &Form) {
        for (term, times) in other.terms() {
            let sum = self.0.entry(term).or_insert(0);
            *sum += times;
            if *sum == 0 {
                self.0.remove(&term);
            }
        }
    }

    fn scaled(mut self, change: impl Fn(i64) -> i64) -> Form {
        self.0.values_mut().for_each(|times| *times = change(*times));
        self
    }

    /// The node that it is.
    fn is_node(&self) -> Option<Id> {
        let mut terms = self.terms();
        match (terms.next(), terms.next()) {
            (Some((Term { node, rows: 0, columns: 0 }, 1)), None) => Some(node),
            _ => None,
        }
    }

    fn is_short(&self, most: usize) -> bool {
        self.0.len() <= most && self.0.values().all(|times| times.abs() == 1)
    }
}

/// How a plane is computed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Node {
    /// What a plane held at first.
    Input(usize),
    /// The float with these bits everywhere.
    Constant(u64),
    /// A sum, so often halved.
    Sum(Form, u32),
    /// All ones where the sum is above 0.
    Positive(Form),
    /// One of two nodes, the first where the mask is set.
    Choice { mask: Id, set: Id, clear: Id },
    /// All ones where row and column agree with a pattern.
    Pattern([u8; 4]),
    /// Two 1-bit planes, joined bit by bit.
    Logic(Join, Id, Id),
}

/// How 1-bit planes are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Join {
    And,
    Or,
    Xor,
    Nor,
}

impl Node {
    /// The nodes that it reads.
    pub(super) fn operands(&self) -> Vec<Id> {
        match self {
            Node::Input(_) | Node::Constant(_) | Node::Pattern(_) => Vec::new(),
            Node::Sum(form, _) | Node::Positive(form) => {
                form.terms().map(|(term, _)| term.node).collect()
            }
            Node::Choice { mask, set, clear } => vec![*mask, *set, *clear],
            Node::Logic(_, a, b) => vec![*a, *b],
        }
    }
}

/// The nodes of a program, operands first, and those that are read out.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) nodes: Vec<Node>,
    pub(super) reads: Vec<Id>,
}

impl Flow {
    /// The nodes behind what planes hold after some instructions; 1-bit planes as 0 and 1. `None` for
    /// programs with shares that are no halvings, and masked writes to neighbours.
    pub(super) fn of(lowered: &Lowered, reads: &[(usize, Space, usize)]) -> Option<Flow> {
        let mut tracer = Tracer::new(lowered);
        let mut found = vec![None; reads.len()];
        let ends = lowered.steps.iter().skip(1).map(|next| Some(next.index)).chain([None]);
        for (step, next) in lowered.steps.iter().zip(ends) {
            tracer.step(&step.op)?;
            if next == Some(step.index) {
                continue;
            }
            for (&(after, space, plane), found) in reads.iter().zip(&mut found) {
                if after == step.index {
                    *found = Some(match space {
                        Space::Analogue => tracer.held(plane),
                        Space::Digital => tracer.count(plane),
                    });
                }
            }
        }
        let reads = found.into_iter().collect::<Option<Vec<Id>>>()?;
        Some(Flow { nodes: tracer.nodes, reads }.needed())
    }

    /// Without the nodes that nobody reads.
    fn needed(self) -> Flow {
        let mut used = vec![false; self.nodes.len()];
        self.reads.iter().for_each(|&id| used[id] = true);
        for id in (0..self.nodes.len()).rev() {
            if used[id] {
                self.nodes[id].operands().into_iter().for_each(|operand| used[operand] = true);
            }
        }
        let mut number = vec![0; used.len()];
        let mut nodes = Vec::new();
        for (id, node) in self.nodes.into_iter().enumerate().filter(|(id, _)| used[*id]) {
            number[id] = nodes.len();
            nodes.push(node.renumbered(&number));
        }
        Flow { nodes, reads: self.reads.iter().map(|&id| number[id]).collect() }
    }
}

impl Node {
    fn renumbered(self, number: &[Id]) -> Node {
        let form = |form: Form| {
            let term = |(Term { node, rows, columns }, times)| {
                (Term { node: number[node], rows, columns }, times)
            };
            Form(form.0.into_iter().map(term).collect())
        };
        match self {
            Node::Input(_) | Node::Constant(_) | Node::Pattern(_) => self,
            Node::Sum(sum, halvings) => Node::Sum(form(sum), halvings),
            Node::Positive(sum) => Node::Positive(form(sum)),
            Node::Choice { mask, set, clear } => {
                Node::Choice { mask: number[mask], set: number[set], clear: number[clear] }
            }
            Node::Logic(join, a, b) => Node::Logic(join, number[a], number[b]),
        }
    }
}

/// What planes hold while a program is followed.
struct Tracer<'a> {
    lowered: &'a Lowered,
    nodes: Vec<Node>,
    known: BTreeMap<Node, Id>,
    planes: Vec<Form>,
    /// What 1-bit planes hold; of FLAG, `flag` says it.
    bits: Vec<Id>,
    /// The mask of analogue writes; none where FLAG is set everywhere.
    flag: Option<Id>,
}

impl<'a> Tracer<'a> {
    /// 1-bit planes are 0 at first, and FLAG is set.
    fn new(lowered: &'a Lowered) -> Tracer<'a> {
        let (nodes, known, planes) = (Vec::new(), BTreeMap::new(), Vec::new());
        let mut tracer = Tracer { lowered, nodes, known, planes, bits: Vec::new(), flag: None };
        let count = lowered.analogue.len();
        tracer.planes =
            (0..count).map(|plane| Form::of(tracer.intern(Node::Input(plane)))).collect();
        tracer.bits = vec![tracer.constant(false); lowered.digital.len()];
        tracer
    }

    fn intern(&mut self, node: Node) -> Id {
        let next = self.nodes.len();
        let id = *self.known.entry(node.clone()).or_insert(next);
        if id == next {
            self.nodes.push(node);
        }
        id
    }

    /// A node with the numbers of a form.
    fn node(&mut self, form: &Form) -> Id {
        form.is_node().unwrap_or_else(|| self.intern(Node::Sum(form.clone(), 0)))
    }

    /// The node that a plane holds.
    fn held(&mut self, plane: usize) -> Id {
        let form = self.planes[plane].clone();
        self.node(&form)
    }

    fn step(&mut self, op: &Op) -> Option<()> {
        match op {
            Op::Bus(step) => self.bus_step(step)?,
            Op::Where(sources) => {
                let sum = self.sum(sources);
                self.flag = Some(self.intern(Node::Positive(sum)));
            }
            Op::All => self.flag = None,
            Op::Fill(plane, value) => {
                self.planes[*plane] = Form::of(self.intern(Node::Constant(value.to_bits())));
            }
            Op::Logic(step) => self.logic(step),
            Op::Pattern(plane, bytes) => {
                let bits = self.intern(Node::Pattern(*bytes));
                self.assign(&[*plane], bits);
            }
            Op::Nothing => {}
        }
        Some(())
    }

    fn sum(&mut self, sources: &[Place]) -> Form {
        let mut sum = Form::default();
        for source in sources {
            match *source {
                Place::Own(plane) => sum.add(&self.planes[plane]),
                Place::Neighbour(direction) => {
                    let news = self.planes[NEWS].clone();
                    let seen = self.moved(news, direction);
                    sum.add(&seen);
                }
            }
        }
        sum
    }

    fn bus_step(&mut self, step: &BusStep) -> Option<()> {
        let halvings = match step.receivers.len() {
            1 => 0,
            2 => 1,
            4 => 2,
            _ => return None,
        };
        let sum = self.sum(&step.sources);
        let value = self.halved(sum, halvings).scaled(|times| -times);
        for receiver in &step.receivers {
            match *receiver {
                Place::Own(plane) => self.receive(plane, value.clone()),
                Place::Neighbour(direction) if self.flag.is_none() => {
                    let sent = self.moved(value.clone(), direction.opposite());
                    self.receive(NEWS, sent);
                }
                Place::Neighbour(_) => return None,
            }
        }
        Some(())
    }

    /// A form halved so often; what is even needs no node, and what is the same but for its sign
    /// shares one.
    fn halved(&mut self, mut form: Form, mut halvings: u32) -> Form {
        while halvings > 0 && form.0.values().all(|times| times % 2 == 0) {
            (form, halvings) = (form.scaled(|times| times / 2), halvings - 1);
        }
        if halvings == 0 {
            return form;
        }
        let sign = form.0.values().next().map_or(1, |times| times.signum());
        let node = self.intern(Node::Sum(form.scaled(|times| times * sign), halvings));
        Form::of(node).scaled(|times| times * sign)
    }

    /// What elements see of a form that their neighbours hold.
    ///
    /// Offsets add up unless a way leads back: who sees nothing because the neighbour lies beyond the
    /// array must see nothing of what lies behind it either.
    fn moved(&mut self, form: Form, direction: Direction) -> Form {
        let (x, y) = direction.step();
        let (rows, columns) = (-y, x);
        let goes_on = |term: &Term| {
            term.rows * rows >= 0
                && term.columns * columns >= 0
                && (term.rows + rows).abs() <= MAX_OFFSET
                && (term.columns + columns).abs() <= MAX_OFFSET
        };
        let form = match form.0.keys().all(goes_on) {
            true => form,
            false => Form::of(self.node(&form)),
        };
        let moved = |(Term { node, rows: south, columns: east }, times)| {
            (Term { node, rows: south + rows, columns: east + columns }, times)
        };
        Form(form.0.into_iter().map(moved).collect())
    }

    /// A plane gets a value, where FLAG is set.
    fn receive(&mut self, plane: usize, value: Form) {
        let value = match self.flag {
            Some(_) if value == self.planes[plane] => value,
            Some(mask) => {
                let (set, clear) = (self.node(&value), self.held(plane));
                Form::of(self.intern(Node::Choice { mask, set, clear }))
            }
            None => value,
        };
        // What a register holds is often read more than once, NEWS mostly once.
        let most = if plane == NEWS { MAX_TERMS } else { 1 };
        let value = if value.is_short(most) { value } else { Form::of(self.node(&value)) };
        self.planes[plane] = value;
    }
}
