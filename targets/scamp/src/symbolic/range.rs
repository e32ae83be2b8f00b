//! Which values of a program can saturate, when those of the inputs are in a range.

use super::{Symbolic, Value};
use crate::expand::expand;
use crate::isa::{Class, Reg};
use crate::program::Program;
use quincunx_diag::{Diagnostic, Place, Result};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::str::FromStr;

/// What the inputs may be, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least value.
    pub low: f64,
    /// The greatest value.
    pub high: f64,
}

impl FromStr for Range {
    type Err = ();

    /// `LO..HI`, two finite numbers that rise.
    fn from_str(text: &str) -> std::result::Result<Range, ()> {
        let (low, high) = text.split_once("..").ok_or(())?;
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| ());
        let (low, high) = (number(low)?, number(high)?);
        let is_range = low.is_finite() && high.is_finite() && low <= high;
        is_range.then_some(Range { low, high }).ok_or(())
    }
}

/// A value that can be out of what a register holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Peak {
    /// The index of the instruction that writes it.
    pub instruction: usize,
    /// Where it is written.
    pub register: Reg,
    /// The largest magnitude it can have.
    pub magnitude: f64,
}

impl Range {
    /// The least range around two.
    pub(crate) fn or(self, other: Range) -> Range {
        Range { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The least range that holds this one and 0.
    pub(crate) fn with_zero(self) -> Range {
        self.or(Range { low: 0.0, high: 0.0 })
    }

    /// The largest magnitude of a linear combination of inputs in this range: each summand is as far
    /// from 0 on the one side, or on the other, as its factor lets it.
    fn magnitude(self, value: &Value) -> f64 {
        let (mut least, mut most) = (0.0, 0.0);
        for (term, factor) in value {
            let factor = factor.to_f64().value();
            let constant = term.source == Reg::NONE;
            let (low, high) = if constant { (1.0, 1.0) } else { (self.low, self.high) };
            most += (factor * low).max(factor * high);
            least += (factor * low).min(factor * high);
        }
        f64::max(most, -least)
    }
}

/// The first value of a program that can be larger than what a register holds; `None` when nothing
/// saturates, whatever the images in the range are. Inputs and what was in other registers before are
/// in the range.
///
/// # Errors
/// As [`super::run`].
pub fn peak(program: &Program, range: Range, limit: f64) -> Result<Option<Peak>> {
    let mut state = Symbolic { values: BTreeMap::new(), work: 0 };
    for (index, inst) in program.instructions.iter().enumerate() {
        for step in expand(inst) {
            state.bus_step(&step).map_err(|problem| problem.at(Place::Instruction(index)))?;
            let is_write = matches!(step.class(), Class::Bus | Class::Emulator);
            let written = if is_write { step.split().0 } else { SmallVec::new() };
            for register in written {
                let storage = if register.direction().is_some() { Reg::NEWS } else { register };
                let magnitude = range.magnitude(&state.value(storage));
                if magnitude > limit {
                    return Ok(Some(Peak { instruction: index, register, magnitude }));
                }
            }
        }
    }
    Ok(None)
}

impl Peak {
    /// The problem of a program in which it is.
    pub fn problem(&self, program: &Program, limit: f64) -> Diagnostic {
        let text = program.instructions[self.instruction].text();
        let Peak { instruction, register, magnitude } = self;
        let message = format!(
            "every program that was found saturates; in the best one instruction \
            {instruction}, {text}, writes values up to {magnitude} to {register}"
        );
        Diagnostic::unsupported("Q5102", format!("{message}, {limit} is the most"))
            .help("a smaller --range, or more effort; images that are halved first need half of it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbolic::Term;
    use quincunx_num::Ratio;

    #[test]
    fn ranges_are_read() {
        assert_eq!("-1.5..127".parse(), Ok(Range { low: -1.5, high: 127.0 }));
        for text in ["", "3", "1..0", "nan..1", "0..inf", "a..b"] {
            assert_eq!(text.parse::<Range>(), Err(()), "{text}");
        }
    }

    #[test]
    fn magnitudes_are_those_of_the_worst_image() {
        let term = |x| Term { source: Reg::NEWS, x, y: 0 };
        let value = Value::from([(term(0), Ratio::from(3)), (term(1), Ratio::from(-2))]);
        assert_eq!(Range { low: 0.0, high: 10.0 }.magnitude(&value), 30.0);
        assert_eq!(Range { low: -4.0, high: 10.0 }.magnitude(&value), 38.0);
        assert_eq!(Range { low: -10.0, high: 1.0 }.magnitude(&value), 32.0);
        assert_eq!(Range { low: 0.0, high: 1.0 }.magnitude(&Value::new()), 0.0);
    }
}
