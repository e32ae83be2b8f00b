//! The walk: a plan by rule that takes the fewest registers.
//!
//! Every input goes from cell to cell of the kernel, and what it is there is added up. Cells are visited
//! by their binary digits: for digits above the unit of the inputs the sum is doubled in between, for
//! those below it the input is halved. Besides inputs that stay, there are the walking input, the sum,
//! and what is doubled or halved.

use super::steps::{Op, Steps};
use super::transform::Transform;
use crate::cain::goals::{Place, Shape, x_of, y_of, z_of};

/// A digit of a cell.
#[derive(Clone, Copy)]
struct Stop {
    place: Place,
    bit: u32,
    is_minus: bool,
}

/// The steps of a walk, for inputs of `2^depth` units.
pub(super) fn walk(goal: &Shape, inputs: usize, depth: u32) -> Steps {
    let digits = |&(place, count): &(Place, i32)| {
        let set = (0..32).filter(move |bit| count.unsigned_abs() >> bit & 1 == 1);
        set.map(move |bit| Stop { place, bit, is_minus: count < 0 })
    };
    let stops: Vec<Stop> = goal.cells.iter().flat_map(digits).collect();
    let at = (0..inputs).map(|input| (Transform::NONE, input)).collect();
    let mut walk = Walk { steps: Steps::new(inputs), depth, at, sum: None };
    let most = stops.iter().map(|stop| stop.bit).max().unwrap_or(0);
    for bit in (depth + 1..=most).rev() {
        walk.visit(stops.iter().filter(|stop| stop.bit == bit).copied().collect());
        walk.double();
    }
    walk.visit(stops.into_iter().filter(|stop| stop.bit <= depth).collect());
    walk.end()
}

struct Walk {
    steps: Steps,
    depth: u32,
    /// Where each input is, and its value there.
    at: Vec<(Transform, usize)>,
    /// The sum, and whether it is to be negated.
    sum: Option<(usize, bool)>,
}

impl Walk {
    /// Adds up what inputs are at some stops, one input after the other, each halved as little as
    /// possible and then as near as possible.
    fn visit(&mut self, mut stops: Vec<Stop>) {
        while !stops.is_empty() {
            let rank = |&index: &usize| {
                let Stop { place, bit, .. } = stops[index];
                let (at, _) = self.at[z_of(place) as usize];
                let way = at.inverse().then(self.target(&stops[index])).length();
                (z_of(place), std::cmp::Reverse(bit), way, place)
            };
            let next = (0..stops.len()).min_by_key(rank).unwrap_or(0);
            let stop = stops.remove(next);
            let target = self.target(&stop);
            let (at, value) = self.at[z_of(stop.place) as usize];
            let value = self.steps.transform(value, at.inverse().then(target));
            self.at[z_of(stop.place) as usize] = (target, value);
            self.sum = Some(match self.sum {
                None => (value, stop.is_minus),
                Some((sum, is_minus)) if stop.is_minus != is_minus => {
                    (self.steps.push(Op::Subtract, &[sum, value]), is_minus)
                }
                Some((sum, is_minus)) if sum == value => (self.steps.twice(sum), is_minus),
                Some((sum, is_minus)) => (self.steps.push(Op::Add, &[sum, value]), is_minus),
            });
        }
    }

    fn target(&self, stop: &Stop) -> Transform {
        let halvings = self.depth.saturating_sub(stop.bit) as i32;
        Transform { x: x_of(stop.place), y: y_of(stop.place), halvings, negated: false }
    }

    fn double(&mut self) {
        self.sum = self.sum.map(|(sum, is_minus)| (self.steps.twice(sum), is_minus));
    }

    fn end(mut self) -> Steps {
        self.steps.output = match self.sum {
            None => self.steps.push(Op::Zero, &[]),
            Some((sum, true)) => self.steps.push(Op::Negate, &[sum]),
            Some((sum, false)) => sum,
        };
        self.steps
    }
}
