//! What instructions do to goals, apart from registers.

use super::goals::{Id, Shape};
use crate::isa::Direction::{self, East, North, South, West};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// A way of at most two steps: the row of [`WAYS`].
pub(super) type Way = u8;

/// No step, one step, and the eight ends of two steps.
pub(super) const WAYS: [&[Direction]; 13] = [
    &[],
    &[North],
    &[East],
    &[South],
    &[West],
    &[North, North],
    &[North, East],
    &[East, East],
    &[East, South],
    &[South, South],
    &[South, West],
    &[West, West],
    &[West, North],
];

/// Where a way leads.
pub(super) fn offset(way: Way) -> (i32, i32) {
    let steps = WAYS[usize::from(way)].iter().map(|direction| direction.step());
    steps.fold((0, 0), |(x, y), (dx, dy)| (x + dx, y + dy))
}

/// The way that leads to an offset.
pub(super) fn way_to(x: i32, y: i32) -> Option<Way> {
    (0..WAYS.len() as Way).find(|&way| offset(way) == (x, y))
}

/// An instruction without its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// One 0.
    Res,
    /// Two times 0.
    Res2,
    /// The operand of the element at the end of a way.
    Mov(Way),
    /// Minus the operand.
    Neg,
    /// Half of the operand, with the error of one bus2.
    Divq,
    /// Half of the operand, which is lost.
    Div,
    /// Half of the operand, which stays.
    DivFrom,
    /// The sum of two operands of the element at the end of a way.
    Add(Way),
    /// An operand of the element at the end of a way minus another one.
    Sub(Way),
    /// The sum of three operands.
    Add3,
}

impl Op {
    /// Registers that it needs besides those of operands and results.
    pub(super) fn extra(self) -> usize {
        match self {
            Op::Neg | Op::Divq | Op::Sub(_) => 1,
            Op::Div => 2,
            Op::DivFrom => 3,
            Op::Res | Op::Res2 | Op::Mov(_) | Op::Add(_) | Op::Add3 => 0,
        }
    }

    /// The operand that must be in another register than the result.
    pub(super) fn apart(self) -> Option<usize> {
        match self {
            Op::Neg | Op::Divq | Op::DivFrom => Some(0),
            Op::Sub(_) => Some(1),
            Op::Res | Op::Res2 | Op::Mov(_) | Op::Div | Op::Add(_) | Op::Add3 => None,
        }
    }

    /// Rows of the table that can do it.
    pub(super) fn rows(self) -> &'static [&'static str] {
        let steps = |way: Way, names: &'static [[&'static str; 1]; 3]| {
            names[WAYS[usize::from(way)].len()].as_slice()
        };
        match self {
            Op::Res => &["Res"],
            Op::Res2 => &["Res2"],
            Op::Mov(way) => steps(way, &[["Mov"], ["Movx"], ["Mov2x"]]),
            Op::Neg => &["Neg"],
            Op::Divq => &["Divq"],
            Op::Div => &["Div", "Diva"],
            Op::DivFrom => &["DivFrom"],
            Op::Add(way) => steps(way, &[["Add"], ["Addx"], ["Add2x"]]),
            Op::Sub(way) => steps(way, &[["Sub"], ["Subx"], ["Sub2x"]]),
            Op::Add3 => &["Add3"],
        }
    }

    /// True if one of some rows can do it.
    pub(super) fn is_among(self, rows: &BTreeSet<&'static str>) -> bool {
        self.rows().iter().any(|row| rows.contains(row))
    }
}

/// Which instructions a generator may use.
#[derive(Clone, Debug)]
pub(super) struct Ops {
    pub(super) res: bool,
    pub(super) res2: bool,
    pub(super) neg: bool,
    /// The halvings, in the order of the search.
    pub(super) halve: SmallVec<[Op; 3]>,
    pub(super) mov: SmallVec<[Way; 13]>,
    pub(super) add: SmallVec<[Way; 13]>,
    pub(super) sub: SmallVec<[Way; 13]>,
    pub(super) add3: bool,
}

impl Ops {
    /// The instructions of some rows.
    pub(super) fn new(rows: &BTreeSet<&'static str>) -> Ops {
        let has = |op: Op| op.is_among(rows);
        let ways = |op: fn(Way) -> Op| {
            let ways = 0..WAYS.len() as Way;
            ways.filter(|&way| has(op(way))).collect()
        };
        Ops {
            res: has(Op::Res),
            res2: has(Op::Res2),
            neg: has(Op::Neg),
            halve: [Op::Div, Op::DivFrom, Op::Divq].into_iter().filter(|&op| has(op)).collect(),
            mov: ways(Op::Mov),
            add: ways(Op::Add),
            sub: ways(Op::Sub),
            add3: has(Op::Add3),
        }
    }
}

/// An instruction on goals: what it makes of what.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) op: Op,
    /// Results.
    pub(super) uppers: SmallVec<[Id; 2]>,
    /// Operands, in the order of the instruction.
    pub(super) lowers: SmallVec<[Id; 3]>,
}

/// The same before operands are interned.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) op: Op,
    pub(super) uppers: SmallVec<[Id; 2]>,
    pub(super) lowers: Vec<Shape>,
}

/// Where the value of an operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Entry of the bag.
    Old(usize),
    /// The same as an earlier operand.
    Same(usize),
    /// A value of its own.
    New,
}

impl Step {
    /// Where operands come from, when the bag without the uppers is `bag`: what is halved in place
    /// is lost, and operands of one addition are two registers; everything else is shared.
    pub(super) fn origins(&self, bag: &[Id]) -> SmallVec<[Origin; 3]> {
        let mut list: SmallVec<[Origin; 3]> = SmallVec::new();
        for (index, &lower) in self.lowers.iter().enumerate() {
            let same = self.lowers[..index].iter().position(|&other| other == lower);
            let origin = match same {
                Some(earlier) if matches!(self.op, Op::Sub(_)) => Origin::Same(earlier),
                _ if self.op == Op::Div => Origin::New,
                _ => {
                    let is_free =
                        |&at: &usize| bag[at] == lower && !list.contains(&Origin::Old(at));
                    (0..bag.len()).find(is_free).map_or(Origin::New, Origin::Old)
                }
            };
            list.push(origin);
        }
        list
    }
}

/// A goal of a bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) id: Id,
    /// Length of the longest chain of instructions from it to an output.
    pub(super) level: u32,
}

pub(super) type Bag = SmallVec<[Held; 6]>;

/// The bag before a step. The uppers must be in the bag.
pub(super) fn before(bag: &Bag, step: &Step) -> Bag {
    let mut bag = bag.clone();
    let mut level = 0;
    for upper in &step.uppers {
        if let Some(at) = bag.iter().rposition(|held| held.id == *upper) {
            level = level.max(bag.remove(at).level);
        }
    }
    let ids: SmallVec<[Id; 8]> = bag.iter().map(|held| held.id).collect();
    let origins = step.origins(&ids);
    for (&id, origin) in step.lowers.iter().zip(origins) {
        match origin {
            Origin::Old(at) => bag[at].level = bag[at].level.max(level + 1),
            Origin::Same(_) => {}
            Origin::New => bag.push(Held { id, level: level + 1 }),
        }
    }
    bag
}
