//! Instructions on 1-bit registers.

#![deny(clippy::wildcard_enum_match_arm)]

use super::run::Run;
use crate::isa::{Direction, Gate};
use crate::simulate::lower::{FLAG, LogicStep, Pattern};
use crate::simulate::number::Number;

impl<T: Number> Run<'_, T> {
    pub(super) fn logic(&mut self, LogicStep { gate, writes, reads }: &LogicStep) {
        let read = |index: usize| &self.planes.digital[reads[index]][..];
        let join = |combine: fn(bool, bool) -> bool, invert: bool| {
            let mut bits = read(0).to_vec();
            for index in 1..reads.len() {
                bits.iter_mut().zip(read(index)).for_each(|(bit, &b)| *bit = combine(*bit, b));
            }
            bits.iter_mut().for_each(|bit| *bit ^= invert);
            bits
        };
        let bits = match *gate {
            Gate::Or | Gate::Copy => join(|a, b| a | b, false),
            Gate::Nor | Gate::Not => join(|a, b| a | b, true),
            Gate::And => join(|a, b| a & b, false),
            Gate::Nand => join(|a, b| a & b, true),
            Gate::Xor => join(|a, b| a ^ b, false),
            Gate::Imply => join(|a, b| !a | b, false),
            Gate::Mux => mux(read(0), read(1), read(2)),
            Gate::Constant(value) => vec![value; self.bus.len()],
            Gate::Neighbours { beyond } => self.dnews(reads[0], beyond),
            Gate::Refresh => return,
            Gate::Where => {
                self.planes.digital[FLAG] = read(0).to_vec();
                return;
            }
            Gate::All => {
                self.planes.digital[FLAG].fill(true);
                return;
            }
        };
        self.assign(writes, &bits);
    }

    /// Sets 1-bit planes; the masked one where the mask is 1.
    pub(super) fn assign(&mut self, targets: &[usize], bits: &[bool]) {
        // The mask is what it was before the instruction.
        let mask = targets
            .contains(&self.lowered.masked)
            .then(|| self.planes.digital[self.lowered.mask].clone());
        for &target in targets {
            let plane = &mut self.planes.digital[target];
            match mask.as_ref().filter(|_| target == self.lowered.masked) {
                None => plane.copy_from_slice(bits),
                Some(mask) => {
                    for ((old, &new), &open) in plane.iter_mut().zip(bits).zip(mask) {
                        *old = if open { new } else { *old };
                    }
                }
            }
        }
    }

    /// The bit of any neighbour whose direction register is set here.
    fn dnews(&self, source: usize, outside: bool) -> Vec<bool> {
        let planes = &self.planes;
        let seen = |element: usize, direction: Direction| {
            planes.digital[self.lowered.directions[direction as usize]][element]
                && planes
                    .neighbour(element, direction)
                    .map_or(outside, |other| planes.digital[source][other])
        };
        (0..self.bus.len())
            .map(|element| Direction::ALL.into_iter().any(|direction| seen(element, direction)))
            .collect()
    }

    /// 1 where row and column agree with a pattern.
    pub(super) fn pattern(&self, pattern: Pattern) -> Vec<bool> {
        let width = self.planes.width;
        let is_set = |element: usize| {
            pattern.has_row(element / width) && pattern.has_column(element % width, width)
        };
        (0..self.bus.len()).map(is_set).collect()
    }
}

fn mux(select: &[bool], set: &[bool], clear: &[bool]) -> Vec<bool> {
    let choices = select.iter().zip(set).zip(clear);
    choices.map(|((&select, &set), &clear)| if select { set } else { clear }).collect()
}
