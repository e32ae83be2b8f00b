//! One constant: the fewest adders, by trying.

use super::system::{System, Term};

/// Bits of constants that are tried; larger ones need more adders than are tried anyway.
const MOST_BITS: u32 = 14;

/// A number that is made of two earlier ones, `±a * 2^i ± b * 2^j`.
type Step = [(usize, u16, bool); 2];

/// The sums of one input that make an odd constant with the fewest adders; `None` when that is
/// more than three or the constant is large. Chains of three adders make every constant of up to
/// 8 bits.
pub(super) fn one_constant(constant: i64) -> Option<Vec<Step>> {
    if constant < 3 || constant % 2 == 0 || constant >= 1 << MOST_BITS {
        return None;
    }
    let shifts = 64 - constant.leading_zeros() as u16 + 1;
    (1..=3).find_map(|adders| {
        let mut chain = Chain { shifts, constant, values: vec![1], steps: Vec::new() };
        chain.reach(adders).then_some(chain.steps)
    })
}

/// Numbers that are made so far, each of two before it.
struct Chain {
    shifts: u16,
    constant: i64,
    values: Vec<i64>,
    steps: Vec<Step>,
}

impl Chain {
    /// Whether the constant can be made with that many more adders.
    fn reach(&mut self, adders: u32) -> bool {
        if adders == 1 {
            return self.finish();
        }
        for a in 0..self.values.len() {
            for b in 0..=a {
                for shift in 1..self.shifts {
                    for step in steps(a, b, shift) {
                        let value = self.value(&step);
                        // Odd positive numbers stand for all their multiples.
                        let fresh = value > 0 && value % 2 == 1 && !self.values.contains(&value);
                        if !fresh || value >= self.constant << 2 {
                            continue;
                        }
                        self.values.push(value);
                        self.steps.push(step);
                        if self.reach(adders - 1) {
                            return true;
                        }
                        self.values.pop();
                        self.steps.pop();
                    }
                }
            }
        }
        false
    }

    /// Whether one adder makes the constant: as it is odd, one of the two is not shifted.
    fn finish(&mut self) -> bool {
        for (a, &value) in self.values.iter().enumerate() {
            for negate in [false, true] {
                let rest = self.constant - if negate { -value } else { value };
                let shift = rest.trailing_zeros();
                let odd = if rest == 0 { 0 } else { rest.abs() >> shift };
                if let Some(b) = self.values.iter().position(|&value| value == odd) {
                    self.steps.push([(a, 0, negate), (b, shift as u16, rest < 0)]);
                    return true;
                }
            }
        }
        false
    }

    fn value(&self, step: &Step) -> i64 {
        step.iter()
            .map(|&(of, shift, negate)| {
                let value = self.values[of] << shift;
                if negate { -value } else { value }
            })
            .sum()
    }
}

/// The sums and differences of two numbers of which one is shifted.
fn steps(a: usize, b: usize, shift: u16) -> [Step; 6] {
    let (low, high) = ([(a, 0), (b, shift)], [(a, shift), (b, 0)]);
    let signed = |[x, y]: [(usize, u16); 2], first: bool, second: bool| -> Step {
        [(x.0, x.1, first), (y.0, y.1, second)]
    };
    [
        signed(low, false, false),
        signed(low, false, true),
        signed(low, true, false),
        signed(high, false, false),
        signed(high, false, true),
        signed(high, true, false),
    ]
}

/// The system with the fewest adders, if all of its columns are multiples of one constant by
/// powers of two, all of one input.
pub(super) fn solve(system: &System, forms: &[Vec<i64>]) -> Option<System> {
    let [form] = forms else { return None };
    let mut used = form.iter().enumerate().filter(|(_, weight)| **weight != 0);
    let (Some((row, &constant)), None) = (used.next(), used.next()) else { return None };
    let steps = one_constant(constant)?;
    let node = |index: usize| match index {
        0 => row as u32,
        _ => (system.inputs + index - 1) as u32,
    };
    let term = |&(of, shift, negate): &(usize, u16, bool)| Term { node: node(of), shift, negate };
    let sums: Vec<Vec<Term>> = steps.iter().map(|step| step.iter().map(term).collect()).collect();
    let last = node(sums.len());
    let outputs =
        system.outputs.iter().map(|output| output.map(|term| Term { node: last, ..term }));
    Some(System { inputs: system.inputs, outputs: outputs.collect(), sums })
}
