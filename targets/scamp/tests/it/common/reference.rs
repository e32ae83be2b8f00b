//! A second simulator, written for comparison: one element at a time, in fractions, macros by their
//! documented results instead of their bus steps. Zeros lie beyond the edge.

use quincunx_num::Ratio;
use quincunx_scamp::isa::{Direction, Inst, Reg};
use quincunx_scamp::meaning::meaning;
use std::collections::BTreeMap;

/// (x, y) with x to the east and y to the north, (0, 0) in the south-west.
type At = (i32, i32);

/// Registers of all elements; what is not there is 0.
#[derive(Clone)]
pub struct Reference {
    pub width: i32,
    pub height: i32,
    pub values: BTreeMap<(Reg, At), Ratio>,
    pub bits: BTreeMap<(Reg, At), bool>,
    pub flag: BTreeMap<At, bool>,
}

fn named(name: &str) -> Reg {
    Reg::new(name).unwrap()
}

/// Aliases of the default machine.
fn canonical(register: Reg) -> Reg {
    match register.to_string().as_str() {
        "RF" => named("R0"),
        "RS" => named("R1"),
        "RW" => named("R2"),
        "RN" => named("R3"),
        "RE" => named("R4"),
        "RP" => named("R12"),
        _ => register,
    }
}

impl Reference {
    pub fn new(width: usize, height: usize) -> Reference {
        Reference {
            width: width as i32,
            height: height as i32,
            values: BTreeMap::new(),
            bits: BTreeMap::new(),
            flag: BTreeMap::new(),
        }
    }

    pub fn elements(&self) -> impl Iterator<Item = At> + use<> {
        let (width, height) = (self.width, self.height);
        (0..height).rev().flat_map(move |y| (0..width).map(move |x| (x, y)))
    }

    fn inside(&self, (x, y): At) -> bool {
        (0..self.width).contains(&x) && (0..self.height).contains(&y)
    }

    fn go(&self, (x, y): At, direction: Direction) -> Option<At> {
        let (dx, dy) = direction.step();
        Some((x + dx, y + dy)).filter(|&at| self.inside(at))
    }

    pub fn value(&self, register: Reg, at: At) -> Ratio {
        if register == Reg::NONE {
            return Ratio::ONE;
        }
        self.values.get(&(register, at)).cloned().unwrap_or(Ratio::ZERO)
    }

    pub fn bit(&self, register: Reg, at: At) -> bool {
        match register == Reg::FLAG {
            true => self.flagged(at),
            false => self.bits.get(&(canonical(register), at)).copied().unwrap_or(false),
        }
    }

    pub fn flagged(&self, at: At) -> bool {
        self.flag.get(&at).copied().unwrap_or(true)
    }

    /// What an element sees as a register: its own, or the NEWS of a neighbour.
    fn seen(&self, register: Reg, at: At) -> Ratio {
        match register.direction() {
            None => self.value(register, at),
            Some(direction) => {
                self.go(at, direction).map_or(Ratio::ZERO, |at| self.value(Reg::NEWS, at))
            }
        }
    }

    pub fn step(&mut self, inst: &Inst) {
        let old = self.clone();
        if let Some(bus) = inst.bus() {
            return self.bus(&old, &bus.receivers, &bus.sources);
        }
        if let Some(assignments) = meaning(inst) {
            for assignment in assignments {
                for at in old.elements() {
                    let mut sum = Ratio::ZERO;
                    for term in &assignment.terms {
                        // The last direction is the first step of the way.
                        let mut steps = term.steps.iter().rev();
                        let end = steps.try_fold(at, |at, &step| old.go(at, step));
                        if let Some(end) = end {
                            sum += &term.factor * old.value(term.register, end);
                        }
                    }
                    self.values.insert((assignment.target, at), sum);
                }
            }
            return;
        }
        match *inst {
            Inst::Input { y, value } => {
                for at in old.elements() {
                    self.values.insert((y, at), Ratio::from_parts(value.into(), 128_u8.into()));
                }
            }
            Inst::LoadIn { v } => {
                for at in old.elements() {
                    self.values.insert((Reg::IN, at), Ratio::from(v));
                }
            }
            Inst::Abs { y, x } => {
                for at in old.elements() {
                    let value = old.value(x, at);
                    let size = if value < Ratio::ZERO { -value.clone() } else { value.clone() };
                    self.values.insert((y, at), size);
                    self.values.insert((Reg::NEWS, at), -value);
                    self.flag.insert(at, true);
                }
            }
            Inst::Where { .. } => {
                let sources: Vec<Reg> = inst.registers().collect();
                for at in old.elements() {
                    let sum = sources.iter().fold(Ratio::ZERO, |sum, &r| sum + old.seen(r, at));
                    self.flag.insert(at, sum > Ratio::ZERO);
                }
            }
            Inst::All {} | Inst::AllBits {} => {
                self.flag.extend(old.elements().map(|at| (at, true)));
            }
            Inst::WhereBit { a } => {
                self.flag.extend(old.elements().map(|at| (at, old.bit(a, at))));
            }
            _ => self.logic(&old, inst),
        }
    }

    fn bus(&mut self, old: &Reference, receivers: &[Reg], sources: &[Reg]) {
        let share = Ratio::from(receivers.len());
        for at in old.elements().filter(|&at| old.flagged(at)) {
            let sum = sources.iter().fold(Ratio::ZERO, |sum, &source| sum + old.seen(source, at));
            let value = -sum / &share;
            for receiver in receivers {
                match receiver.direction() {
                    None => drop(self.values.insert((*receiver, at), value.clone())),
                    Some(direction) => {
                        if let Some(other) = old.go(at, direction) {
                            self.values.insert((Reg::NEWS, other), value.clone());
                        }
                    }
                }
            }
        }
        for direction in receivers.iter().filter_map(|receiver| receiver.direction()) {
            for at in old.elements() {
                if old.go(at, direction.opposite()).is_none() {
                    self.values.insert((Reg::NEWS, at), Ratio::ZERO);
                }
            }
        }
    }

    fn logic(&mut self, old: &Reference, inst: &Inst) {
        let list: Vec<Reg> = inst.registers().collect();
        let is_set = |index: usize, at: At| old.bit(list[index], at);
        let count = |at: At| (1..list.len()).filter(|&index| is_set(index, at)).count();
        let neighbours = |outside: bool, at: At| {
            let directions = [
                ("R3", Direction::North),
                ("R4", Direction::East),
                ("R1", Direction::South),
                ("R2", Direction::West),
            ];
            directions.into_iter().any(|(enable, direction)| {
                old.bit(named(enable), at)
                    && old.go(at, direction).map_or(outside, |other| old.bit(list[1], other))
            })
        };
        let matches = |number: i32, value: u8, any: u8| {
            (0..8).all(|bit| any >> bit & 1 == 1 || (number >> bit & 1) as u8 == value >> bit & 1)
        };
        for at in old.elements() {
            let pattern = |[r, c, rx, cx]: [u8; 4]| {
                let (row, column) = (old.height - 1 - at.1, old.width - 1 - at.0);
                matches(row, r, rx) && matches(column, c, cx)
            };
            let value = match *inst {
                Inst::Or { .. } => count(at) > 0,
                Inst::Nor { .. } => count(at) == 0,
                Inst::And { .. } => count(at) == 2,
                Inst::Nand { .. } => count(at) < 2,
                Inst::Xor { .. } => is_set(1, at) != is_set(2, at),
                Inst::Imp { .. } => is_set(2, at) || !is_set(1, at),
                Inst::Not { .. } => !is_set(1, at),
                Inst::Move { .. } => is_set(1, at),
                Inst::Mux { .. } => is_set(if is_set(1, at) { 2 } else { 3 }, at),
                Inst::Set { .. } => true,
                Inst::Clear { .. } => false,
                Inst::Dnews0 { .. } => neighbours(false, at),
                Inst::Dnews1 { .. } => neighbours(true, at),
                Inst::LoadPattern { r, c, rx, cx, .. } | Inst::SelectPattern { r, c, rx, cx } => {
                    pattern([r, c, rx, cx])
                }
                _ => return,
            };
            let targets = match inst {
                Inst::Set { .. } | Inst::Clear { .. } => list.clone(),
                Inst::SelectPattern { .. } => vec![named("SELECT")],
                _ => vec![list[0]],
            };
            for target in targets.into_iter().map(canonical) {
                if target != named("R12") || old.bit(named("R0"), at) {
                    self.bits.insert((target, at), value);
                }
            }
        }
    }
}
