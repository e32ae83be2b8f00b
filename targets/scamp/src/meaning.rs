//! What every macro is documented to do: the second definition next to the bus steps, by which
//! tests judge the expansions and `--fix` knows what an instruction that is illegal on the bus was
//! meant to compute.
//!
//! Facts: `cain`, `scamp5d`, `scamp-measured` (`docs/bibliography.md`). `N` is NEWS,
//! `x@d` the register `x` of the neighbour in the direction of operand `d`; all right-hand sides
//! are old values.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::isa::{Direction, Facts, Inst, Reg, TABLE};
use quincunx_isa::{Kind, OperandValue};
use quincunx_num::Ratio;
use std::sync::LazyLock;

/// One assignment of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// What is set.
    pub target: Reg,
    /// The summands.
    pub terms: Vec<Summand>,
}

/// A summand: `factor` times a register of the element at the end of `steps`.
#[derive(Clone, Debug, PartialEq)]
pub struct Summand {
    /// The register; [`Reg::NONE`] for the number 1.
    pub register: Reg,
    /// The factor.
    pub factor: Ratio,
    /// The way to the element.
    pub steps: Vec<Direction>,
}

/// A register or a number of a formula.
#[derive(Clone, Copy)]
enum Name {
    Fixed(Reg),
    Operand(usize),
    /// An operand that is a number.
    Number(usize),
}

struct Formula {
    target: Name,
    /// Register, numerator, denominator and the operands that are its directions.
    terms: Vec<(Name, i64, u64, Vec<usize>)>,
}

static COMPILED: LazyLock<Vec<Vec<Formula>>> = LazyLock::new(|| {
    let compile = |(index, facts): (usize, &Facts)| {
        let formula = |text: &&str| match compile_formula(index, text) {
            Some(formula) => formula,
            // A bug in the table, which its test finds.
            None => panic!("the meaning of {} has {text}", TABLE.rows[index].name),
        };
        facts.meaning.iter().map(formula).collect()
    };
    Inst::FACTS.iter().enumerate().map(compile).collect()
});

fn compile_name(row: usize, word: &str) -> Option<Name> {
    match (word, TABLE.rows[row].operand(word)) {
        (_, Some((index, operand))) if matches!(operand.kind, Kind::Signed) => {
            Some(Name::Number(index))
        }
        (_, Some((index, _))) => Some(Name::Operand(index)),
        ("IN", None) => Some(Name::Fixed(Reg::IN)),
        ("N", None) => Some(Name::Fixed(Reg::NEWS)),
        ("PIX", None) => Some(Name::Fixed(Reg::PIX)),
        _ => None,
    }
}

/// Compiles an assignment of a row; `None` for text that is none.
fn compile_formula(row: usize, text: &str) -> Option<Formula> {
    let (target, sum) = text.split_once(" = ")?;
    let (mut terms, mut sign) = (Vec::new(), 1);
    for word in sum.split(' ').filter(|word| *word != "0") {
        if word == "+" || word == "-" {
            sign = if word == "-" { -1 } else { 1 };
            continue;
        }
        let (word, sign) = word.strip_prefix('-').map_or((word, sign), |rest| (rest, -sign));
        let (word, divisor) = word.strip_suffix("/2").map_or((word, 1), |rest| (rest, 2));
        let mut parts = word.split('@');
        let register = compile_name(row, parts.next()?)?;
        let direction = |part: &str| match compile_name(row, part)? {
            Name::Operand(index) => Some(index),
            Name::Fixed(_) | Name::Number(_) => None,
        };
        terms.push((register, sign, divisor, parts.map(direction).collect::<Option<_>>()?));
    }
    Some(Formula { target: compile_name(row, target)?, terms })
}

/// What a macro is documented to do; `None` for `abs` and for what is not a macro. The operands may
/// be any, also those that are illegal on the bus; the last assignment to a register counts.
pub fn meaning(inst: &Inst) -> Option<Vec<Assignment>> {
    if inst.facts().meaning.is_empty() {
        return None;
    }
    let values = inst.to_raw().values;
    let register = |name: Name| match name {
        Name::Fixed(register) => Some(register),
        Name::Operand(index) => Reg::from_raw(*values.get(index)?),
        Name::Number(_) => Some(Reg::NONE),
    };
    let number = |name: Name| match name {
        Name::Number(index) => values.get(index).and_then(|&value| i64::try_from(value).ok()),
        Name::Fixed(_) | Name::Operand(_) => Some(1),
    };
    let assignment = |formula: &Formula| {
        let summand = |(name, sign, divisor, steps): &(Name, i64, u64, Vec<usize>)| {
            Some(Summand {
                register: register(*name)?,
                factor: Ratio::from_parts((sign * number(*name)?).into(), (*divisor).into()),
                steps: steps
                    .iter()
                    .map(|&index| Direction::from_raw(*values.get(index)?))
                    .collect::<Option<_>>()?,
            })
        };
        let terms = formula.terms.iter().map(summand).collect::<Option<_>>()?;
        Some(Assignment { target: register(formula.target)?, terms })
    };
    COMPILED[inst.row()].iter().map(assignment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_linear_macro_has_a_meaning() {
        for (row, formulas) in TABLE.rows.iter().zip(&*COMPILED) {
            let is_linear = !row.steps.is_empty() && row.name != "Abs";
            assert_eq!(is_linear, !formulas.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn directions_add_up() {
        let (a, b) = (Reg::new("A").unwrap(), Reg::new("B").unwrap());
        let inst = Inst::Mov2x { y: a, x: b, d: Direction::North, e: Direction::East };
        let last = meaning(&inst).unwrap().pop().unwrap();
        assert_eq!((last.target, last.terms[0].register), (a, b));
        assert_eq!(last.terms[0].steps, [Direction::North, Direction::East]);
    }
}
