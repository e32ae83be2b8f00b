//! What a search did first: its nodes in the order in which they were made.

use super::goals::{Goals, Id};
use super::op::{Bag as Held, Op, Step, WAYS};
use crate::goal::Bag;
use crate::isa::TABLE;
use crate::program::Program;
use smallvec::SmallVec;

/// What became of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// It was not visited as long as the record went on.
    Waits,
    /// It was expanded.
    Expanded,
    /// It was left out, for this reason.
    Culled(&'static str),
    /// Its bag is that of an earlier node, which cost no more.
    Repeats(usize),
    /// The inputs are few instructions away: the instructions of the whole program.
    Plan(Vec<String>),
}

/// The step from a node to its child.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The parent.
    pub from: usize,
    /// The instruction without registers, such as `movx east`.
    pub instruction: String,
    /// What it makes.
    pub uppers: Bag,
    /// What it makes it of.
    pub lowers: Bag,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Noted {
    /// How it was made; nothing for the outputs, with which the search begins.
    pub edge: Option<Edge>,
    /// The goals.
    pub bag: Bag,
    /// What became of it.
    pub fate: Fate,
}

/// The first nodes of a search, in the order in which they were made: those of node 0, the outputs,
/// first. A parent is before its children.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchGraph {
    /// The nodes.
    pub nodes: Vec<Noted>,
}

/// A node that is recorded.
pub(super) type Mark = Option<u32>;

/// A record in progress.
#[derive(Default)]
pub(super) struct Record {
    most: usize,
    nodes: Vec<Entry>,
}

/// A node before its goals are written out.
struct Entry {
    parent: Mark,
    step: Option<Step>,
    ids: SmallVec<[Id; 6]>,
    fate: Fate,
}

impl Record {
    /// A record of so many nodes.
    pub(super) fn new(most: usize) -> Record {
        Record { most, nodes: Vec::new() }
    }

    /// Notes a new node while there is room.
    pub(super) fn add(&mut self, parent: Mark, step: Option<&Step>, bag: &Held) -> Mark {
        if self.nodes.len() >= self.most {
            return None;
        }
        let ids = bag.iter().map(|held| held.id).collect();
        self.nodes.push(Entry { parent, step: step.cloned(), ids, fate: Fate::Waits });
        u32::try_from(self.nodes.len() - 1).ok()
    }

    /// Notes what becomes of a node, if nothing did before.
    pub(super) fn settle(&mut self, mark: Mark, fate: impl FnOnce() -> Fate) {
        let node = mark.and_then(|mark| self.nodes.get_mut(mark as usize));
        if let Some(node) = node.filter(|node| node.fate == Fate::Waits) {
            node.fate = fate();
        }
    }

    /// Notes a plan.
    pub(super) fn plan(&mut self, mark: Mark, program: &Program) {
        self.settle(mark, || Fate::Plan(program.instructions.iter().map(|i| i.text()).collect()));
    }

    /// Notes that the bag of a node was met before.
    pub(super) fn repeat(&mut self, mark: Mark) {
        let Some(at) = mark.map(|mark| mark as usize) else { return };
        let sorted = |at: usize| {
            let mut ids = self.nodes[at].ids.clone();
            ids.sort_unstable();
            ids
        };
        let own = sorted(at);
        let is_same = |other: &usize| {
            matches!(self.nodes[*other].fate, Fate::Expanded | Fate::Plan(_))
                && sorted(*other) == own
        };
        let first = (0..at).find(is_same);
        self.settle(mark, || first.map_or(Fate::Culled("repeated"), Fate::Repeats));
    }

    /// What was recorded.
    pub(super) fn graph(self, goals: &Goals) -> SearchGraph {
        let bag = |ids: &[Id]| Bag(ids.iter().map(|&id| goals.get(id).to_goal()).collect());
        let nodes = self.nodes.into_iter().map(|Entry { parent, step, ids, fate }| {
            let edge = parent.zip(step).map(|(parent, step)| Edge {
                from: parent as usize,
                instruction: step.op.words(),
                uppers: bag(&step.uppers),
                lowers: bag(&step.lowers),
            });
            Noted { edge, bag: bag(&ids), fate }
        });
        SearchGraph { nodes: nodes.collect() }
    }
}

impl Op {
    /// The instruction without registers.
    fn words(self) -> String {
        let row = self.rows().first();
        let row = row.and_then(|name| TABLE.rows.iter().find(|row| row.name == *name));
        let mnemonic = row.map_or("", |row| row.mnemonic);
        let way = match self {
            Op::Mov(way) | Op::Add(way) | Op::Sub(way) => WAYS[usize::from(way)],
            Op::Res | Op::Res2 | Op::Neg | Op::Divq | Op::Div | Op::DivFrom | Op::Add3 => &[],
        };
        way.iter()
            .fold(mnemonic.to_owned(), |text, direction| format!("{text} {}", direction.name()))
    }
}
