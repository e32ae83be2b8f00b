//! Plans as gates on single bits: one signal for each bit that is not known to be 0.
//!
//! A full adder takes 8 gates of the device (`OR` and `NOR` of up to four operands, `NOT`); fewer do
//! not suffice, as a search over all networks shows. One of 9 gates needs fewer registers.

use super::plan::{Plan, Step};
use crate::isa::Direction;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// A signal; `None` is 0.
pub(crate) type Bit = Option<usize>;

/// What makes a signal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gate {
    /// A bit of an input: channel, position.
    Input(usize, usize),
    /// The signal of the neighbour in a direction.
    Move(Direction, usize),
    /// 1 where any operand is 1.
    Or(SmallVec<[usize; 4]>),
    /// 1 where no operand is 1.
    Nor(SmallVec<[usize; 4]>),
}

impl Gate {
    /// The signals that it reads.
    pub(super) fn operands(&self) -> &[usize] {
        match self {
            Gate::Input(..) => &[],
            Gate::Move(_, operand) => std::slice::from_ref(operand),
            Gate::Or(operands) | Gate::Nor(operands) => operands,
        }
    }
}

/// Which adders a circuit has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adder {
    /// The fewest gates.
    Short,
    /// The fewest registers.
    Small,
}

/// A circuit.
#[derive(Clone, Debug)]
pub(super) struct Circuit {
    pub(super) gates: Vec<Gate>,
    known: BTreeMap<Gate, usize>,
    adder: Adder,
    /// The gates of every step of the plan and every bit, in an order that needs few registers.
    pub(super) chunks: Vec<Vec<Vec<usize>>>,
    /// The bits of every result, the least significant first.
    pub(super) outputs: Vec<Vec<Bit>>,
}

impl Circuit {
    /// The gates of a plan. Inputs have `bits` bits; sums are computed modulo `2^width`, and bits of
    /// results below `2^dropped` are dropped.
    pub(super) fn new(plan: &Plan, bits: usize, dropped: usize, adder: Adder) -> Circuit {
        let mut circuit = Circuit {
            gates: Vec::new(),
            known: BTreeMap::new(),
            adder,
            chunks: Vec::new(),
            outputs: Vec::new(),
        };
        let width = bits + dropped;
        let mut values: Vec<Vec<Bit>> = Vec::new();
        for step in &plan.steps {
            let value = circuit.step(step, &values, bits, width);
            values.push(value);
        }
        let bit = |part: super::plan::Part, at: usize| {
            at.checked_sub(part.shift as usize).and_then(|at| values[part.value][at])
        };
        let output = |part: &Option<super::plan::Part>| {
            (dropped..width).map(|at| part.and_then(|part| bit(part, at))).collect()
        };
        circuit.outputs = plan.outputs.iter().map(output).collect();
        circuit
    }

    fn step(&mut self, step: &Step, values: &[Vec<Bit>], bits: usize, width: usize) -> Vec<Bit> {
        let mut value = Vec::with_capacity(width);
        // What goes on from bit to bit.
        let mut carry: Bit = None;
        self.chunks.push(Vec::new());
        for at in 0..width {
            self.push_chunk();
            let part = |part: super::plan::Part| {
                at.checked_sub(part.shift as usize).and_then(|at| values[part.value][at])
            };
            let (bit, next) = match *step {
                Step::Input(channel) => {
                    ((at < bits).then(|| self.gate(Gate::Input(channel, at))), None)
                }
                Step::Move(from, direction) => {
                    (values[from][at].map(|signal| self.gate(Gate::Move(direction, signal))), None)
                }
                Step::Sum { a, b, minus: false } => self.add(part(a), part(b), carry),
                Step::Sum { a, b, minus: true } => self.subtract(part(a), part(b), carry),
                Step::Negate(from) => self.subtract(None, values[from][at], carry),
            };
            carry = next;
            value.push(bit);
        }
        value
    }

    fn push_chunk(&mut self) {
        if let Some(chunks) = self.chunks.last_mut() {
            chunks.push(Vec::new());
        }
    }

    /// A gate, which is made once.
    fn gate(&mut self, gate: Gate) -> usize {
        let next = self.gates.len();
        let index = *self.known.entry(gate.clone()).or_insert(next);
        if index == next {
            self.gates.push(gate);
        }
        if let Some(chunk) = self.chunks.last_mut().and_then(|chunks| chunks.last_mut()) {
            chunk.push(index);
        }
        index
    }

    fn or<const N: usize>(&mut self, operands: [usize; N]) -> usize {
        self.gate(Gate::Or(sorted(operands)))
    }

    fn nor<const N: usize>(&mut self, operands: [usize; N]) -> usize {
        self.gate(Gate::Nor(sorted(operands)))
    }

    /// Sum and carry.
    fn add(&mut self, a: Bit, b: Bit, c: Bit) -> (Bit, Bit) {
        let there: SmallVec<[usize; 3]> = [a, b, c].into_iter().flatten().collect();
        match there[..] {
            [] => (None, None),
            [only] => (Some(only), None),
            [a, b] => {
                let (sum, none) = self.exclusive(a, b);
                (Some(sum), Some(self.nor([sum, none])))
            }
            [a, b, c, ..] => {
                let (sum, carry) = match self.adder {
                    Adder::Short => {
                        let Parts { sum, none, lone, other, .. } = self.parity(a, b, c);
                        (sum, self.nor([none, lone, other]))
                    }
                    Adder::Small => {
                        let none = self.nor([a, b]);
                        let same = self.same(a, b, none);
                        let below = self.nor([c, same]);
                        let both = self.nor([same, below]);
                        let neither = self.nor([c, below]);
                        let carry = self.nor([below, none]);
                        (self.nor([both, neither]), carry)
                    }
                };
                (Some(sum), Some(carry))
            }
        }
    }

    /// `a - b - c`, and whether it is below 0.
    fn subtract(&mut self, a: Bit, b: Bit, c: Bit) -> (Bit, Bit) {
        let (Some(a), taken) = (a, [b, c]) else { return self.subtract_from_zero(b, c) };
        match taken {
            [None, None] => (Some(a), None),
            [Some(b), None] | [None, Some(b)] => {
                let none = self.nor([a, b]);
                let (below, rest) = (self.nor([a, none]), self.nor([b, none]));
                (Some(self.or([below, rest])), Some(below))
            }
            [Some(b), Some(c)] => {
                let (difference, below) = match self.adder {
                    Adder::Short => {
                        let Parts { sum, lone, first, last, .. } = self.parity(b, a, c);
                        (sum, self.nor([lone, first, last]))
                    }
                    Adder::Small => self.small_subtract(a, b, c),
                };
                (Some(difference), Some(below))
            }
        }
    }

    fn subtract_from_zero(&mut self, b: Bit, c: Bit) -> (Bit, Bit) {
        match (b, c) {
            (Some(b), Some(c)) => {
                let (difference, _) = self.exclusive(b, c);
                (Some(difference), Some(self.or([b, c])))
            }
            (only, None) | (None, only) => (only, only),
        }
    }

    fn small_subtract(&mut self, a: usize, b: usize, c: usize) -> (usize, usize) {
        let none = self.nor([a, b]);
        let only_b = self.nor([a, none]);
        let only_a = self.nor([b, none]);
        let same = self.nor([only_b, only_a]);
        let below = self.nor([c, same]);
        let both = self.nor([same, below]);
        let neither = self.nor([c, below]);
        let passed = self.nor([neither, below, both]);
        let borrow = self.or([only_b, passed]);
        (self.nor([both, neither]), borrow)
    }

    /// Where two signals are equal, given where neither is 1.
    fn same(&mut self, a: usize, b: usize, none: usize) -> usize {
        let (left, right) = (self.nor([a, none]), self.nor([b, none]));
        self.nor([left, right])
    }

    /// Where one of two signals is 1, and where none is.
    fn exclusive(&mut self, a: usize, b: usize) -> (usize, usize) {
        let none = self.nor([a, b]);
        let (left, right) = (self.nor([a, none]), self.nor([b, none]));
        (self.or([left, right]), none)
    }

    /// The sum of three signals without carry, in 7 gates, and what carries are made of.
    fn parity(&mut self, a: usize, b: usize, c: usize) -> Parts {
        let none = self.nor([a, b]);
        let lone = self.nor([a, c, none]);
        let first = self.nor([a, none, lone]);
        let other = self.nor([b, c, none]);
        let second = self.nor([b, none, lone, other]);
        let last = self.nor([c, lone, first, other]);
        Parts { none, lone, first, other, last, sum: self.nor([first, second, last]) }
    }

    /// Which signals results depend on.
    pub(super) fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.gates.len()];
        self.outputs.iter().flatten().flatten().for_each(|&signal| live[signal] = true);
        for (index, gate) in self.gates.iter().enumerate().rev() {
            if live[index] {
                gate.operands().iter().for_each(|&operand| live[operand] = true);
            }
        }
        live
    }
}

/// Gates of a full adder.
struct Parts {
    none: usize,
    lone: usize,
    first: usize,
    other: usize,
    last: usize,
    sum: usize,
}

fn sorted<const N: usize>(operands: [usize; N]) -> SmallVec<[usize; 4]> {
    let mut list: SmallVec<[usize; 4]> = operands.into_iter().collect();
    list.sort_unstable();
    list.dedup();
    list
}

#[cfg(test)]
mod tests {
    use super::super::plan::Part;
    use super::*;

    /// The values of all signals for inputs of one element; moves give what is there.
    fn evaluate(circuit: &Circuit, inputs: &[u64]) -> Vec<bool> {
        let mut values: Vec<bool> = Vec::new();
        for gate in &circuit.gates {
            let any = gate.operands().iter().any(|&operand| values[operand]);
            values.push(match gate {
                Gate::Input(channel, at) => inputs[*channel] >> at & 1 == 1,
                Gate::Move(..) | Gate::Or(_) => any,
                Gate::Nor(_) => !any,
            });
        }
        values
    }

    fn output(circuit: &Circuit, inputs: &[u64]) -> u64 {
        let values = evaluate(circuit, inputs);
        let bit = |(at, bit): (usize, &Bit)| u64::from(bit.is_some_and(|s| values[s])) << at;
        circuit.outputs[0].iter().enumerate().map(bit).sum()
    }

    fn plan(steps: &[Step]) -> Plan {
        let steps: Vec<Step> =
            [Step::Input(0), Step::Input(1)].into_iter().chain(steps.iter().copied()).collect();
        let last = steps.len() - 1;
        Plan { steps, outputs: vec![Some(Part { value: last, shift: 0 })] }
    }

    /// All numbers of three bits: sums, differences, shifted ones, and minus a number.
    #[test]
    fn arithmetic_is_right() {
        for adder in [Adder::Short, Adder::Small] {
            for (shift, minus) in [(0, false), (0, true), (1, false), (1, true), (2, true)] {
                for swapped in [false, true] {
                    let (a, b) = (Part { value: 0, shift: 0 }, Part { value: 1, shift });
                    let (a, b) = if swapped { (b, a) } else { (a, b) };
                    let sum = plan(&[Step::Sum { a, b, minus }, Step::Negate(2)]);
                    for (last, steps) in [(2, 3), (3, 4)] {
                        let mut plan = sum.clone();
                        plan.steps.truncate(steps);
                        plan.outputs = vec![Some(Part { value: last, shift: 0 })];
                        let circuit = Circuit::new(&plan, 3, 0, adder);
                        for (x, y) in (0..8_u64).flat_map(|x| (0..8).map(move |y| (x, y))) {
                            let (first, second) =
                                if swapped { (y << shift, x) } else { (x, y << shift) };
                            let second = if minus { second.wrapping_neg() } else { second };
                            let sum = first.wrapping_add(second);
                            let expected = if last == 3 { sum.wrapping_neg() } else { sum } & 7;
                            assert_eq!(output(&circuit, &[x, y]), expected, "{adder:?} {plan:?}");
                        }
                    }
                }
            }
        }
    }

    /// A sum of three bits each costs 5, 8 and 7 gates: no carry comes in, and none goes out.
    #[test]
    fn adders_have_their_length() {
        let (a, b) = (Part { value: 0, shift: 0 }, Part { value: 1, shift: 0 });
        for (minus, count) in [(false, 5 + 8 + 7), (true, 4 + 8 + 7)] {
            let circuit = Circuit::new(&plan(&[Step::Sum { a, b, minus }]), 3, 0, Adder::Short);
            let live = circuit.live();
            let gates = circuit.gates.iter().zip(&live);
            let gates = gates.filter(|(gate, live)| **live && !matches!(gate, Gate::Input(..)));
            assert_eq!(gates.count(), count);
        }
    }

    /// Dropped bits are not computed unless carries need them.
    #[test]
    fn means_are_exact() {
        let (a, b) = (Part { value: 0, shift: 0 }, Part { value: 1, shift: 0 });
        let mean = plan(&[Step::Sum { a, b, minus: false }]);
        let circuit = Circuit::new(&mean, 3, 1, Adder::Short);
        for (x, y) in (0..8_u64).flat_map(|x| (0..8).map(move |y| (x, y))) {
            assert_eq!(output(&circuit, &[x, y]), (x + y) / 2);
        }
    }
}
