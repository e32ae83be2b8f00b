//! Registers for steps, by colouring the graph of the values that are alive together.
//!
//! Facts: `cain-paper` section 5.

use super::steps::{Op, Step, Steps};
use crate::isa::{Inst, Reg};
use smallvec::SmallVec;

/// Choices that are tried before a colouring is given up.
const MAX_CHOICES: usize = 50_000;

/// Where values may be.
#[derive(Clone, Debug)]
pub(super) struct Room {
    /// The register of each input.
    pub(super) inputs: Vec<Reg>,
    /// Inputs that are still needed afterwards.
    pub(super) kept: Vec<bool>,
    /// Where the result goes.
    pub(super) output: Reg,
    /// Registers that may be written.
    pub(super) free: Vec<Reg>,
}

/// The instructions of steps; the result is moved in the end where it cannot be made in its place.
/// `None` where registers do not suffice.
pub(super) fn instructions(steps: &Steps, room: &Room) -> Option<Vec<Inst>> {
    let found = coloured(steps, room, Some(room.output));
    let registers = found.or_else(|| coloured(steps, room, None))?;
    let mut list: Vec<Inst> = Vec::new();
    for (index, step) in steps.list.iter().enumerate() {
        list.push(instruction(step, registers[steps.inputs + index], &registers));
    }
    let (y, x) = (room.output, registers[steps.output]);
    if y != x {
        list.push(Inst::Mov { y, x });
    }
    Some(list)
}

fn instruction(Step { op, operands }: &Step, y: Reg, registers: &[Reg]) -> Inst {
    let operand = |at: usize| registers[operands[at]];
    match *op {
        Op::Zero => Inst::Res { y },
        Op::Move(d) => Inst::Movx { y, x: operand(0), d },
        Op::Halve => Inst::Divq { y, x: operand(0) },
        Op::Negate => Inst::Neg { y, x: operand(0) },
        Op::Add => Inst::Add { y, a: operand(0), b: operand(1) },
        Op::Subtract => Inst::Sub { y, a: operand(0), b: operand(1) },
    }
}

/// A register for every value, with the result in a certain one.
fn coloured(steps: &Steps, room: &Room, output: Option<Reg>) -> Option<Vec<Reg>> {
    let mut colours: Vec<Option<Reg>> = room.inputs.iter().copied().map(Some).collect();
    colours.resize(steps.inputs + steps.list.len(), None);
    if let (Some(output), true) = (output, steps.output >= steps.inputs) {
        colours[steps.output] = Some(output);
    }
    let neighbours = neighbours(steps, room);
    let clash = |value: usize| {
        let of_other =
            |&other: &usize| colours[other].is_some() && colours[other] == colours[value];
        neighbours[value].iter().any(of_other)
    };
    if (0..colours.len()).any(clash) {
        return None;
    }
    let mut colouring = Colouring { neighbours, free: &room.free, colours, choices: 0 };
    colouring
        .next()
        .then(|| colouring.colours.into_iter().map(|c| c.unwrap_or(Reg::NONE)).collect())
}

/// The values that are alive together with each value, or must be apart from it. An input that nobody
/// reads is not alive.
fn neighbours(steps: &Steps, room: &Room) -> Vec<Vec<usize>> {
    let last = steps.last_uses(&room.kept);
    let mut neighbours = vec![Vec::new(); last.len()];
    let mut join = |a: usize, b: usize| {
        neighbours[a].push(b);
        neighbours[b].push(a);
    };
    for (index, Step { op, operands }) in steps.list.iter().enumerate() {
        let made = steps.inputs + index;
        let apart = op.apart().map(|at| operands[at]);
        for value in (0..made).filter(|value| last[*value] >= Some(index)) {
            if last[value] > Some(index) || apart == Some(value) {
                join(made, value);
            }
        }
    }
    for (a, b) in (0..steps.inputs).flat_map(|a| (0..a).map(move |b| (a, b))) {
        if last[a].is_some() && last[b].is_some() {
            join(a, b);
        }
    }
    neighbours
}

struct Colouring<'a> {
    neighbours: Vec<Vec<usize>>,
    free: &'a [Reg],
    colours: Vec<Option<Reg>>,
    choices: usize,
}

impl Colouring<'_> {
    /// Colours the value with the fewest colours left, of those the one with the most neighbours, and
    /// then the others.
    fn next(&mut self) -> bool {
        let open = (0..self.colours.len()).filter(|&value| self.colours[value].is_none());
        let key = |value: usize| {
            (self.left(value).len(), std::cmp::Reverse(self.neighbours[value].len()), value)
        };
        let Some((_, _, value)) = open.map(key).min() else { return true };
        for colour in self.left(value) {
            self.choices += 1;
            if self.choices > MAX_CHOICES {
                return false;
            }
            self.colours[value] = Some(colour);
            if self.next() {
                return true;
            }
        }
        self.colours[value] = None;
        false
    }

    /// Colours that no neighbour has.
    fn left(&self, value: usize) -> SmallVec<[Reg; 8]> {
        let is_taken = |colour: &&Reg| {
            self.neighbours[value].iter().any(|&other| self.colours[other] == Some(**colour))
        };
        self.free.iter().filter(|colour| !is_taken(colour)).copied().collect()
    }
}
