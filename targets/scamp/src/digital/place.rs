//! Circuits as instructions: an order of the gates, and a register for every signal.

use super::circuit::{Circuit, Gate};
use super::plan::{Plan, Step};
use crate::isa::{Direction, Inst, Reg};
use std::collections::BTreeMap;

/// In which order the gates of a plan are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// One number after the other.
    Numbers,
    /// One number after the other, each bit of a moved operand when a sum needs it.
    Pairs,
    /// One bit of all numbers after the other: few registers, many changes of direction.
    Bits,
}

/// The registers of a machine, and those that are given.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// Registers that may be written.
    pub(crate) pool: Vec<Reg>,
    /// Bits of the input channels.
    pub(crate) inputs: Vec<Vec<Reg>>,
    /// Bits of the results; `None` for any registers.
    pub(crate) outputs: Option<Vec<Vec<Reg>>>,
    /// Direction registers, in the order of [`Direction::ALL`].
    pub(crate) directions: [Reg; 4],
    /// Direction registers hold signals as well, between moves.
    pub(crate) lends: bool,
}

/// Instructions, and where the results are.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub(crate) instructions: Vec<Inst>,
    pub(crate) outputs: Vec<Vec<Reg>>,
}

/// The order of the gates that results depend on.
pub(super) fn order(circuit: &Circuit, plan: &Plan, order: Order) -> Vec<usize> {
    let (live, width) = (circuit.live(), circuit.chunks.first().map_or(0, Vec::len));
    let mut sequence =
        Sequence { circuit, done: vec![false; circuit.gates.len()], list: Vec::new() };
    for group in groups(plan, order) {
        for at in 0..width {
            for &step in &group {
                let chunk = circuit.chunks[step][at].iter();
                chunk.filter(|&&gate| live[gate]).for_each(|&gate| sequence.push(gate));
            }
        }
    }
    sequence.list
}

/// Steps whose bits are computed in turn.
fn groups(plan: &Plan, order: Order) -> Vec<Vec<usize>> {
    let all = 0..plan.steps.len();
    match order {
        Order::Numbers => all.map(|step| vec![step]).collect(),
        Order::Bits => vec![all.collect()],
        Order::Pairs => {
            let mut groups: Vec<Vec<usize>> = all.map(|step| vec![step]).collect();
            for (index, step) in plan.steps.iter().enumerate() {
                let Step::Sum { a, b, .. } = step else { continue };
                let moved = [a.value, b.value].into_iter().find(|&operand| {
                    let readers = plan.steps.iter().flat_map(Step::operands);
                    let once = readers.filter(|&read| read == operand).count() == 1;
                    once && matches!(plan.steps[operand], Step::Move(..))
                });
                if let Some(operand) = moved {
                    groups[operand].clear();
                    groups[index].insert(0, operand);
                }
            }
            groups
        }
    }
}

struct Sequence<'a> {
    circuit: &'a Circuit,
    done: Vec<bool>,
    list: Vec<usize>,
}

impl Sequence<'_> {
    /// A gate after what it reads.
    fn push(&mut self, gate: usize) {
        if std::mem::replace(&mut self.done[gate], true) {
            return;
        }
        for &operand in self.circuit.gates[gate].operands() {
            self.push(operand);
        }
        if !matches!(self.circuit.gates[gate], Gate::Input(..)) {
            self.list.push(gate);
        }
    }
}

/// Registers for the gates of a list; the number of registers that are missing if there are too few.
pub(super) fn place(circuit: &Circuit, list: &[usize], room: &Room) -> Result<Code, usize> {
    let mut placer = Placer::new(circuit, list, room);
    for (now, &gate) in list.iter().enumerate() {
        placer.gate(now, gate);
    }
    let outputs = placer.finish();
    match placer.extra {
        0 => Ok(Code { instructions: placer.instructions, outputs }),
        missing => Err(missing),
    }
}

/// Never read again.
const NEVER: usize = 0;
/// Read after the last gate.
const END: usize = usize::MAX;

struct Placer<'a> {
    circuit: &'a Circuit,
    list: &'a [usize],
    room: &'a Room,
    /// The gate that reads a signal last, counted from 1.
    last: Vec<usize>,
    /// Where a signal belongs in the end.
    targets: BTreeMap<usize, Reg>,
    /// The register of a signal, and the signals in registers.
    register: BTreeMap<usize, Reg>,
    held: BTreeMap<Reg, usize>,
    /// The direction that is set, while the direction registers hold nothing else.
    direction: Option<Direction>,
    instructions: Vec<Inst>,
    /// Registers that the machine would need besides.
    extra: usize,
}

impl<'a> Placer<'a> {
    fn new(circuit: &'a Circuit, list: &'a [usize], room: &'a Room) -> Placer<'a> {
        let mut last = vec![NEVER; circuit.gates.len()];
        for (now, &gate) in list.iter().enumerate() {
            circuit.gates[gate].operands().iter().for_each(|&operand| last[operand] = now + 1);
        }
        circuit.outputs.iter().flatten().flatten().for_each(|&signal| last[signal] = END);
        let mut targets = BTreeMap::new();
        for (bits, registers) in circuit.outputs.iter().zip(room.outputs.iter().flatten()) {
            for (bit, &register) in bits.iter().zip(registers) {
                if let Some(signal) = *bit {
                    targets.entry(signal).or_insert(register);
                }
            }
        }
        let mut placer = Placer {
            circuit,
            list,
            room,
            last,
            targets,
            register: BTreeMap::new(),
            held: BTreeMap::new(),
            direction: None,
            instructions: Vec::new(),
            extra: 0,
        };
        for (signal, gate) in circuit.gates.iter().enumerate() {
            if let Gate::Input(channel, at) = *gate {
                let register = room.inputs[channel][at];
                placer.register.insert(signal, register);
                if placer.last[signal] != NEVER {
                    placer.held.insert(register, signal);
                }
            }
        }
        placer
    }

    fn gate(&mut self, now: usize, gate: usize) {
        let made = &self.circuit.gates[gate];
        if let Gate::Move(direction, _) = made {
            self.look(*direction);
        }
        let sources: Vec<Reg> = made.operands().iter().map(|o| self.register[o]).collect();
        for operand in made.operands() {
            // A register is free as soon as it is read for the last time.
            if self.last[*operand] == now + 1 {
                self.held.remove(&self.register[operand]);
            }
        }
        let d = self.choose(now, gate);
        self.held.insert(d, gate);
        self.register.insert(gate, d);
        self.instructions.push(instruction(made, d, &sources));
    }

    /// Lets every element look at its neighbour in a direction.
    fn look(&mut self, direction: Direction) {
        if self.direction == Some(direction) {
            return;
        }
        let all = self.room.directions;
        match self.direction {
            Some(old) => self.instructions.push(clear(&[all[old as usize]])),
            None => {
                let others = Direction::ALL.into_iter().filter(|other| *other != direction);
                let others: Vec<Reg> = others.map(|other| all[other as usize]).collect();
                self.instructions.push(clear(&others));
            }
        }
        self.instructions.push(set(all[direction as usize]));
        self.direction = Some(direction);
    }

    /// A register for the result of a gate.
    fn choose(&mut self, now: usize, gate: usize) -> Reg {
        let free = |register: &Reg| !self.held.contains_key(register);
        if let Some(target) = self.targets.get(&gate).filter(|target| free(target)) {
            return *target;
        }
        // What is a result later stays free as long as others are.
        let awaited = |register: &Reg| {
            let mut waiting =
                self.targets.iter().filter(|(signal, _)| !self.register.contains_key(signal));
            waiting.any(|(_, target)| target == register)
        };
        let pool = || self.room.pool.iter().copied().filter(|register| free(register));
        if let Some(register) = pool().find(|register| !awaited(register)).or_else(|| pool().next())
        {
            return register;
        }
        let moves = |end: usize| {
            let between = &self.list[now + 1..end.min(self.list.len())];
            between.iter().any(|&gate| matches!(self.circuit.gates[gate], Gate::Move(..)))
        };
        if self.room.lends
            && self.last[gate] != END
            && !moves(self.last[gate])
            && let Some(register) = self.room.directions.into_iter().find(|register| free(register))
        {
            self.direction = None;
            return register;
        }
        let missing = (0..).map(missing).find(|register| free(register));
        let missing = missing.unwrap_or(Reg::NONE);
        let number = self.held.keys().filter(|register| is_missing(**register)).count() + 1;
        self.extra = self.extra.max(number);
        missing
    }

    /// Brings the results to where they belong.
    fn finish(&mut self) -> Vec<Vec<Reg>> {
        let Some(wanted) = &self.room.outputs else { return self.anywhere() };
        let mut moves: BTreeMap<Reg, Option<Reg>> = BTreeMap::new();
        for (bits, registers) in self.circuit.outputs.iter().zip(wanted) {
            for (bit, &register) in bits.iter().zip(registers) {
                let source = bit.map(|signal| self.register[&signal]);
                if source != Some(register) {
                    moves.insert(register, source);
                }
            }
        }
        while !moves.is_empty() {
            let blocked =
                |to: &Reg| moves.iter().any(|(other, from)| other != to && *from == Some(*to));
            let next = moves.keys().copied().find(|to| !blocked(to));
            if let Some(to) = next.filter(|to| moves[to].is_some()) {
                let a = moves.remove(&to).flatten().unwrap_or(Reg::NONE);
                self.instructions.push(Inst::Move { d: to, a });
            } else if next.is_some() {
                let zeros: Vec<Reg> = moves
                    .iter()
                    .filter(|(to, from)| from.is_none() && !blocked(to))
                    .map(|(to, _)| *to)
                    .collect();
                zeros.chunks(4).for_each(|chunk| self.instructions.push(clear(chunk)));
                moves.retain(|to, _| !zeros.contains(to));
            } else {
                self.break_cycle(&mut moves);
            }
        }
        wanted.clone()
    }

    /// Registers that exchange their bits: one of them goes to a free register meanwhile.
    fn break_cycle(&mut self, moves: &mut BTreeMap<Reg, Option<Reg>>) {
        let Some(held) = moves.keys().next().copied() else { return };
        let taken: Vec<Reg> =
            self.circuit.outputs.iter().flatten().flatten().map(|s| self.register[s]).collect();
        let is_free = |register: &Reg| {
            !taken.contains(register)
                && !moves.contains_key(register)
                && !moves.values().any(|from| *from == Some(*register))
        };
        // Directions matter no more.
        let mut candidates = self.room.pool.iter().chain(&self.room.directions).copied();
        let spare = candidates.find(is_free).unwrap_or_else(|| {
            self.extra = self.extra.max(1);
            missing(0)
        });
        self.instructions.push(Inst::Move { d: spare, a: held });
        for from in moves.values_mut().filter(|from| **from == Some(held)) {
            *from = Some(spare);
        }
    }

    /// The registers in which results happen to be; bits that are always 0 share one.
    fn anywhere(&mut self) -> Vec<Vec<Reg>> {
        let bits = self.circuit.outputs.iter().flatten();
        let zero = bits.clone().any(Option::is_none).then(|| {
            let free = |register: &&Reg| !self.held.contains_key(register);
            self.room.pool.iter().find(free).copied().unwrap_or_else(|| {
                self.extra = self.extra.max(1);
                missing(0)
            })
        });
        self.instructions.extend(zero.map(|zero| clear(&[zero])));
        let register = |bit: &Option<usize>| match bit {
            Some(signal) => self.register[signal],
            None => zero.unwrap_or(Reg::NONE),
        };
        self.circuit.outputs.iter().map(|bits| bits.iter().map(register).collect()).collect()
    }
}

/// A register that the machine does not have, to count how many are missing.
pub(super) fn missing(number: usize) -> Reg {
    Reg::new(&format!("MISSING{number}")).unwrap_or(Reg::NONE)
}

pub(super) fn is_missing(register: Reg) -> bool {
    register.to_string().starts_with("MISSING")
}

/// The instruction of a gate.
fn instruction(gate: &Gate, d: Reg, sources: &[Reg]) -> Inst {
    let source = |index: usize| sources.get(index).copied().unwrap_or(Reg::NONE);
    let (a, b, c, e) = (source(0), source(1), source(2), source(3));
    match (gate, sources.len()) {
        (Gate::Move(..), _) => Inst::Dnews0 { d, a },
        (Gate::Nor(_), 1) => Inst::Not { d, a },
        (Gate::Nor(_), _) => Inst::Nor { d, a, b, c, e },
        (Gate::Or(_), 2..) => Inst::Or { d, a, b, c, e },
        (Gate::Or(_) | Gate::Input(..), _) => Inst::Move { d, a },
    }
}

/// Clears up to four registers.
pub(crate) fn clear(registers: &[Reg]) -> Inst {
    let register = |index: usize| registers.get(index).copied().unwrap_or(Reg::NONE);
    Inst::Clear { a: register(0), b: register(1), c: register(2), e: register(3) }
}

/// Sets a register.
pub(crate) fn set(a: Reg) -> Inst {
    Inst::Set { a, b: Reg::NONE, c: Reg::NONE, e: Reg::NONE }
}
