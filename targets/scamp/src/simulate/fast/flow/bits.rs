//! 1-bit instructions as nodes.

use super::super::super::lower::{FLAG, LogicStep};
use super::{Form, Id, Join, Node, Tracer};
use crate::isa::{Direction, Gate};

impl Tracer<'_> {
    /// A 1-bit plane that is the same everywhere.
    pub(super) fn constant(&mut self, value: bool) -> Id {
        let zero = self.intern(Node::Sum(Form::default(), 0));
        if value { self.not(zero) } else { zero }
    }

    fn not(&mut self, bits: Id) -> Id {
        self.intern(Node::Logic(Join::Nor, bits, bits))
    }

    fn bit(&mut self, plane: usize) -> Id {
        match plane {
            FLAG => self.flag.unwrap_or_else(|| self.constant(true)),
            _ => self.bits[plane],
        }
    }

    /// The 1-bit plane as a plane of 0 and 1.
    pub(super) fn count(&mut self, plane: usize) -> Id {
        let bits = Form::of(self.bit(plane)).scaled(|times| -times);
        self.intern(Node::Sum(bits, 0))
    }

    pub(super) fn logic(&mut self, LogicStep { gate, writes, reads }: &LogicStep) {
        let reads: Vec<Id> = reads.iter().map(|&plane| self.bit(plane)).collect();
        let mut join = |join| {
            let pairs = reads[1..].iter().copied();
            pairs.fold(reads[0], |a, b| self.intern(Node::Logic(join, a, b)))
        };
        let bits = match *gate {
            Gate::Copy => reads[0],
            Gate::Or => join(Join::Or),
            Gate::And => join(Join::And),
            Gate::Xor => join(Join::Xor),
            Gate::Nor | Gate::Not => {
                let any = join(Join::Or);
                self.not(any)
            }
            Gate::Nand => {
                let all = join(Join::And);
                self.not(all)
            }
            Gate::Imply => {
                let not = self.not(reads[0]);
                self.intern(Node::Logic(Join::Or, not, reads[1]))
            }
            Gate::Mux => {
                let (mask, set, clear) = (reads[0], reads[1], reads[2]);
                self.intern(Node::Choice { mask, set, clear })
            }
            Gate::Constant(value) => self.constant(value),
            Gate::Neighbours { beyond } => self.neighbours(reads[0], beyond),
            Gate::Where => return self.set_flag(reads[0]),
            Gate::All => return self.flag = None,
            Gate::Refresh => return,
        };
        self.assign(writes, bits);
    }

    /// The bit of any neighbour whose direction register is set.
    fn neighbours(&mut self, bits: Id, beyond: bool) -> Id {
        // Beyond the array there are zeros.
        let bits = if beyond { self.not(bits) } else { bits };
        let mut any = self.constant(false);
        for direction in Direction::ALL {
            let moved = self.moved(Form::of(bits), direction);
            let mut seen = self.node(&moved);
            if beyond {
                seen = self.not(seen);
            }
            let wanted = self.bit(self.lowered.directions[direction as usize]);
            let seen = self.intern(Node::Logic(Join::And, seen, wanted));
            any = self.intern(Node::Logic(Join::Or, any, seen));
        }
        any
    }

    fn set_flag(&mut self, bits: Id) {
        self.flag = (bits != self.constant(true)).then_some(bits);
    }

    /// Sets 1-bit planes; the masked one where the mask was 1 before.
    pub(super) fn assign(&mut self, targets: &[usize], bits: Id) {
        let mask = self.bit(self.lowered.mask);
        for &target in targets {
            let clear = self.bit(target);
            let new = match target == self.lowered.masked {
                true => self.intern(Node::Choice { mask, set: bits, clear }),
                false => bits,
            };
            match target {
                FLAG => self.set_flag(new),
                _ => self.bits[target] = new,
            }
        }
    }
}
