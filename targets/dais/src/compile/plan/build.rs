//! Building what a plan says.

use super::super::builder::Builder;
use super::super::quantiser::{clamp, floor};
use super::super::sums::multiple_of;
use super::super::wire::Wire;
use super::line::Line;
use super::{Method, Plan, Table};
use crate::isa::BinaryBits;
use quincunx_diag::Result;
use quincunx_num::{Dyadic, Int, Interval};

impl Plan {
    /// Lowest and highest result.
    pub(in crate::compile) fn range(&self) -> Interval {
        Interval::new(Int::from(self.low), Int::from(self.high), 0)
    }

    /// The result for an operand in units of its step.
    ///
    /// # Errors
    /// When an operation does not fit the machine.
    pub(in crate::compile) fn build(&self, builder: &mut Builder<'_>, x: &Wire) -> Result<Wire> {
        if builder.measuring && self.low != self.high {
            return Ok(Wire::of(builder.next_slot(self.range())));
        }
        self.construct(builder, x)
    }

    /// The same, also to find out whether it fits.
    pub(in crate::compile) fn construct(
        &self,
        builder: &mut Builder<'_>,
        x: &Wire,
    ) -> Result<Wire> {
        match &self.method {
            Method::Constant(value) => Ok(constant(*value)),
            Method::Line(line) => {
                let rounded = line.build(builder, x)?;
                self.keep(builder, &rounded)
            }
            Method::Ties { up, down } => {
                let up = up.build(builder, x)?;
                let up = self.keep(builder, &up)?;
                let down = down.build(builder, x)?;
                let down = self.keep(builder, &down)?;
                // The higher one is one more at a tie, and right if it is even.
                let bit = Interval::new(Int::ZERO, Int::ONE, 0);
                let tie = builder.subtract(&up, &down)?;
                let tie = builder.cut(&tie, bit.clone())?;
                let odd = builder.cut(&up, bit)?;
                let wrong = builder.combine_truths(BinaryBits::And, &tie, &odd)?;
                let even = builder.subtract(&up, &wrong)?;
                builder.cut(&even, self.range())
            }
            Method::Table(table) => table.build(builder, x),
            Method::Tree(runs) => tree(builder, x, runs),
            Method::Halves { at, below, above } => {
                let test = builder.add(x, &constant(-at))?;
                let below = below.construct(builder, x)?;
                let above = above.construct(builder, x)?;
                builder.select(&test, &below, &above, self.range())
            }
        }
    }

    fn keep(&self, builder: &mut Builder<'_>, x: &Wire) -> Result<Wire> {
        clamp(builder, x, &self.range())
    }
}

fn constant(value: i128) -> Wire {
    Wire::Constant(Dyadic::new(Int::from(value), 0))
}

impl Line {
    fn build(&self, builder: &mut Builder<'_>, x: &Wire) -> Result<Wire> {
        let product = multiple_of(builder, x, &Dyadic::new(Int::from(self.factor), 0))?;
        let sum = builder.add(&product, &constant(self.addend))?;
        let drop = i32::try_from(self.drop).expect("fewer bits than a wire has");
        floor(builder, &sum.shifted(-drop), 0)
    }
}

impl Table {
    fn build(&self, builder: &mut Builder<'_>, x: &Wire) -> Result<Wire> {
        let drop = i32::try_from(self.drop).expect("fewer bits than a wire has");
        let x = floor(builder, &x.shifted(-drop), 0)?;
        let kept = Interval::new(Int::from(self.from), Int::from(self.to), 0);
        let x = clamp(builder, &x, &kept)?;
        // The slot may count downwards, in other units, or begin elsewhere.
        let (slot, values) = match &x {
            Wire::Constant(_) => return tree(builder, &x, &self.runs()),
            &Wire::Slot { slot, shift, negate } => {
                let slots = builder.interval(slot).shifted(shift);
                let unit = slots.exponent();
                let entry = |code: &Int| {
                    let real = Dyadic::new(if negate { -code } else { code.clone() }, unit);
                    let entry = real.in_units(0).and_then(|v| i128::try_from(&v).ok());
                    let entry = entry.unwrap_or(self.from).clamp(self.from, self.to) - self.from;
                    self.values[usize::try_from(entry).expect("clamped to the entries")]
                };
                let mut code = slots.low().clone();
                let mut values = Vec::new();
                while &code <= slots.high() {
                    values.push(entry(&code));
                    code += Int::ONE;
                }
                (slot, values)
            }
        };
        builder.lookup(slot, values, 0)
    }

    fn runs(&self) -> Vec<(i128, i128)> {
        self.values.iter().zip(self.from..).map(|(&value, x)| (x, value.into())).collect()
    }
}

/// Comparisons with the ends of runs.
fn tree(builder: &mut Builder<'_>, x: &Wire, runs: &[(i128, i128)]) -> Result<Wire> {
    if let [(_, only)] = runs {
        return Ok(constant(*only));
    }
    let (below, above) = runs.split_at(runs.len() / 2);
    let test = builder.add(x, &constant(-above[0].0))?;
    let (low, high) = (tree(builder, x, below)?, tree(builder, x, above)?);
    let range = builder.range(&low).union(&builder.range(&high));
    builder.select(&test, &low, &high, range)
}
