//! How the runs of a function of an integer are computed.
//!
//! * **line**: `(m * x + n) >> k`, kept within the lowest and highest result. Every end of a run
//!   says on which side of a whole number the line must be at two neighbouring operands; the
//!   shortest `m` and `k` that satisfy all of them are found by trying. What is found is right for
//!   every operand, however long the exact factor was.
//! * **ties**: two such lines, one that rounds ties up and one that rounds them down, and the even
//!   one of the two.
//! * **table**: the operand is kept where results change, low bits that never matter are dropped,
//!   the rest is looked up.
//! * **tree**: comparisons with the ends of runs, by halves.
//!
//! The cheapest by a rough count of look-up tables of an FPGA is taken; without table instructions
//! (dialect d0) tables are trees.

mod build;
mod line;

use super::expr::Expr;
use super::steps::{Limits, Mode, Quantised, Steps};
use super::sums::signed_digits;
use crate::arch::DaisArch;
use crate::isa::Dialect;
use line::{Line, line};
use quincunx_num::{Int, Interval, Ratio, Rounding, bit_length};
use std::rc::Rc;

/// Most entries of a table.
const MAX_ENTRIES: i128 = 1 << 16;

/// Most runs of a tree.
const MAX_LEAVES: usize = 1 << 12;

/// A quantised function of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub(super) function: Rc<Expr>,
    pub(super) scale: Ratio,
    pub(super) rounding: Rounding,
    pub(super) limits: Limits,
    pub(super) operand: Interval,
}

/// How to compute one, as a function of the operand in units of its step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    method: Method,
    low: i128,
    high: i128,
}

#[derive(Clone, Debug, PartialEq)]
enum Method {
    Constant(i128),
    Line(Line),
    Ties {
        up: Line,
        down: Line,
    },
    Table(Table),
    Tree(Vec<(i128, i128)>),
    /// One method below an operand, another from there on.
    Halves {
        at: i128,
        below: Box<Plan>,
        above: Box<Plan>,
    },
}

impl Method {
    fn is_line(&self) -> bool {
        matches!(self, Method::Line(_) | Method::Constant(_))
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Table {
    /// The operand is kept between these.
    from: i128,
    to: i128,
    /// Low bits that are dropped.
    drop: u32,
    values: Vec<i32>,
}

impl Question {
    fn steps(&self, rounding: impl Into<Mode>) -> std::result::Result<Steps, String> {
        let quantised = Quantised {
            scale: self.scale.clone(),
            rounding: rounding.into(),
            exponent: self.operand.exponent(),
            operand: &self.operand,
        };
        quantised.steps(&self.function, self.limits)
    }

    /// The cheapest method.
    ///
    /// # Errors
    /// Why there is none, in words that continue the name of an operator.
    pub(super) fn plan(&self, arch: &DaisArch) -> std::result::Result<Plan, String> {
        let steps = self.steps(self.rounding)?;
        let (low, high) = steps.results();
        let width = arch.max_width;
        let mut best = cheapest(&steps, arch);
        // Ties that go to even results lie on no line.
        if self.rounding == Rounding::HalfEven
            && self.function.is_exact()
            && best.as_ref().is_none_or(|(_, method)| !method.is_line())
        {
            let up = line(&self.steps(Rounding::HalfCeil)?, width);
            let down = line(&self.steps(Mode::TiesDown)?, width);
            if let (Some(up), Some(down)) = (up, down) {
                // The lines share their multiple.
                let cost = line_cost(&up, &steps) + f64::from(6 * bits_of(&steps));
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, Method::Ties { up, down }));
                }
            }
        }
        let none = || {
            let operands = steps.last - steps.runs[0].0 + 1;
            let runs = steps.runs.len();
            format!(
                "its result changes {runs} times over {operands} operands, which no line, table or tree gives"
            )
        };
        best.map(|(_, method)| Plan { method, low, high }).ok_or_else(none)
    }
}

/// The cheapest single method for some runs.
fn cheapest(steps: &Steps, arch: &DaisArch) -> Option<(f64, Method)> {
    if let [(_, only)] = steps.runs[..] {
        return Some((0.0, Method::Constant(only)));
    }
    let mut best: Option<(f64, Method)> = None;
    let mut offer = |cost: f64, method: Method| {
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, method));
        }
    };
    if let Some(line) = line(steps, arch.max_width) {
        offer(line_cost(&line, steps), Method::Line(line));
    } else if let Some((cost, method)) = halves(steps, arch.max_width) {
        offer(cost, method);
    }
    if arch.dialect >= Dialect::D1Version0
        && let Some(table) = table(steps)
    {
        offer(table_cost(&table, steps), Method::Table(table));
    }
    if steps.runs.len() <= MAX_LEAVES {
        offer(tree_cost(steps), Method::Tree(steps.runs.clone()));
    }
    best
}

/// A line on either side of zero: what leaky rectifiers and roundings to or from zero need.
fn halves(steps: &Steps, width: u32) -> Option<(f64, Method)> {
    let first = steps.runs[0].0;
    // Where the sign of the result changes, and where the sign of the operand does.
    let by_result = steps.runs.iter().position(|run| run.1 >= 0).map(|at| steps.runs[at].0);
    let falling = steps.runs.iter().position(|run| run.1 <= 0).map(|at| steps.runs[at].0);
    let places = [by_result, falling, Some(0)].into_iter().flatten();
    let places = places.filter(|&at| at > first && at <= steps.last);
    let mut best: Option<(f64, Method)> = None;
    for at in places {
        let (below, above) = (part(steps, first, at - 1), part(steps, at, steps.last));
        let (Some(left), Some(right)) = (one_line(&below, width), one_line(&above, width)) else {
            continue;
        };
        let cost = left.0 + right.0 + f64::from(bits_of(steps));
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            let (below, above) = (Box::new(left.1), Box::new(right.1));
            best = Some((cost, Method::Halves { at, below, above }));
        }
    }
    best
}

fn one_line(steps: &Steps, width: u32) -> Option<(f64, Plan)> {
    let (low, high) = steps.results();
    let plan = |method| Plan { method, low, high };
    if let [(_, only)] = steps.runs[..] {
        return Some((0.0, plan(Method::Constant(only))));
    }
    let line = line(steps, width)?;
    Some((line_cost(&line, steps), plan(Method::Line(line))))
}

/// The runs between two operands.
fn part(steps: &Steps, first: i128, last: i128) -> Steps {
    let from = steps.runs.partition_point(|run| run.0 <= first).max(1) - 1;
    let to = steps.runs.partition_point(|run| run.0 <= last);
    let mut runs = steps.runs[from..to].to_vec();
    runs[0].0 = first;
    Steps { runs, last }
}

/// The part of the operand on which results change, looked up.
fn table(steps: &Steps) -> Option<Table> {
    let (low, high) = steps.results();
    if i32::try_from(low).is_err() || i32::try_from(high).is_err() {
        return None;
    }
    // Of the outer runs one operand each is enough.
    let inner = &steps.runs[1..];
    let (from, to) = (inner.first()?.0 - 1, inner.last()?.0);
    // Low bits matter where a run begins.
    let drop = inner.iter().map(|run| run.0.trailing_zeros()).min();
    let drop = drop.expect("there is an inner run").min(60);
    let (from, to) = (from >> drop, to >> drop);
    if to - from >= MAX_ENTRIES {
        return None;
    }
    let mut values = Vec::with_capacity(usize::try_from(to - from + 1).ok()?);
    let mut run = 0;
    for entry in from..=to {
        let x = entry << drop;
        while steps.runs.get(run + 1).is_some_and(|next| next.0 <= x) {
            run += 1;
        }
        values.push(i32::try_from(steps.runs[run].1).ok()?);
    }
    Some(Table { from, to, drop, values })
}

fn bits_of(steps: &Steps) -> u32 {
    let (low, high) = steps.results();
    Interval::new(Int::from(low), Int::from(high), 0).kif().width()
}

fn width(low: i128, high: i128) -> u32 {
    Interval::new(Int::from(low), Int::from(high), 0).kif().width()
}

/// Bits of adders, and of two comparisons with their choices.
fn line_cost(line: &Line, steps: &Steps) -> f64 {
    let operand = width(steps.runs[0].0, steps.last);
    let digits = signed_digits(&Int::from(line.factor.unsigned_abs())).len() as u32;
    let long = operand + bit_length(&Int::from(line.factor.unsigned_abs()));
    f64::from(digits.saturating_sub(1) * long + 4 * bits_of(steps) + 4)
}

/// Tables of six inputs, as da4ml counts them, and keeping the operand in range.
fn table_cost(table: &Table, steps: &Steps) -> f64 {
    let entry = width(table.from, table.to);
    let keep = 2 * width(steps.runs[0].0 >> table.drop, steps.last >> table.drop);
    f64::from(entry).mul_add(0.5, f64::from(keep))
        + (f64::from(entry) - 5.0).max(0.0).exp2() * f64::from(bits_of(steps).div_ceil(2))
}

/// A comparison and a choice for every end.
fn tree_cost(steps: &Steps) -> f64 {
    let each = width(steps.runs[0].0, steps.last) + bits_of(steps) / 2;
    f64::from(each) * (steps.runs.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::expr::Format;
    use super::*;
    use quincunx_num::Dyadic;

    fn question(unit: (i64, i64), offset: (i64, i64), rounding: Rounding) -> Question {
        let ratio = |(a, b): (i64, i64)| Ratio::from_parts_signed(Int::from(a), Int::from(b));
        Question {
            function: Rc::new(Expr::Line { unit: ratio(unit), offset: ratio(offset) }),
            scale: Ratio::ONE,
            rounding,
            limits: Limits { low: -100, high: 27 },
            operand: Interval::new(Int::from(-700), Int::from(900), 0),
        }
    }

    /// Every method against rounded fractions, for every operand.
    #[test]
    fn methods_give_the_steps() {
        for rounding in Rounding::ALL {
            for (unit, offset) in
                [((3, 7), (1, 5)), ((-11, 64), (0, 1)), ((1, 6), (1, 2)), ((29, 3), (-1, 9))]
            {
                let question = question(unit, offset, rounding);
                let steps = question.steps(rounding).unwrap();
                let expected = |x: i128| {
                    let value = question.function.at(&Ratio::from(Int::from(x))).unwrap().value;
                    let code = quincunx_num::round_ratio(&value, rounding);
                    i128::try_from(&code).unwrap().clamp(-100, 27)
                };
                for x in -700..=900 {
                    assert_eq!(steps.at(x), expected(x), "{rounding} {unit:?} {x}");
                }
                if let Some(line) = line(&steps, 64) {
                    for x in -700..=900 {
                        let value = (line.factor * x + line.addend) >> line.drop;
                        let (low, high) = steps.results();
                        assert_eq!(value.clamp(low, high), expected(x), "{rounding} {line:?}");
                    }
                }
                if let Some(table) = table(&steps) {
                    for x in -700..=900 {
                        let entry = (x >> table.drop).clamp(table.from, table.to) - table.from;
                        assert_eq!(i128::from(table.values[entry as usize]), expected(x));
                    }
                }
            }
        }
    }

    /// 16-bit results of a layer, of which two ends alone do not tell the slope well enough.
    #[test]
    fn long_results_lie_on_lines() {
        let scale = |value: f32| Dyadic::from_f64(f64::from(value)).unwrap().to_ratio();
        let question = Question {
            function: Rc::new(Expr::Line {
                unit: scale(0.0012) * scale(0.017),
                offset: Ratio::ZERO,
            }),
            scale: scale(0.0004),
            rounding: Rounding::HalfEven,
            limits: Limits { low: -33_768, high: 31_767 },
            operand: Interval::new(Int::from(-13_000_000), Int::from(14_000_000), 0),
        };
        let steps = question.steps(Rounding::HalfEven).unwrap();
        assert_eq!(steps.runs.len(), 65_536);
        let line = line(&steps, 64).unwrap();
        let at = |x: i128| ((line.factor * x + line.addend) >> line.drop).clamp(-33_768, 31_767);
        for &(from, result) in &steps.runs[1..] {
            assert_eq!((at(from - 1), at(from)), (result - 1, result));
        }
        assert!(line.drop <= 40, "{line:?}");
    }

    fn magnitude(unit: (i64, i64), offset: (i64, i64)) -> Question {
        let mut question = question(unit, offset, Rounding::HalfEven);
        let negative = Ratio::from(-1);
        question.function = Rc::new(Expr::Leaky(negative, Format::Single, question.function));
        question.limits = Limits { low: 0, high: 15 };
        question
    }

    /// Ties down against rounded fractions.
    #[test]
    fn ties_go_down() {
        let question = magnitude((1, 6), (1, 2));
        let steps = question.steps(Mode::TiesDown).unwrap();
        for x in -700..=900 {
            let value = question.function.at(&Ratio::from(Int::from(x))).unwrap().value;
            let up = i128::try_from(&quincunx_num::round_ratio(&-value, Rounding::HalfCeil));
            assert_eq!(steps.at(x), (-up.unwrap()).clamp(0, 15), "{x}");
        }
    }

    /// More numbers than are rounded one by one.
    #[test]
    fn magnitudes_of_long_numbers_have_plans() {
        let long = Interval::new(Int::from(-9_000_000), Int::from(9_000_000), 0);
        let question = Question { operand: long, ..magnitude((3, 1_000_000), (1, 5)) };
        let plan = question.plan(&DaisArch::preset("d1").unwrap()).unwrap();
        assert_eq!((plan.low, plan.high), (0, 15), "{plan:?}");
    }

    /// Modes without ties, and ties to one side, lie on a line; ties to even do not.
    #[test]
    fn lines_are_found_where_there_are_some() {
        for (rounding, found) in [
            (Rounding::Floor, true),
            (Rounding::Ceil, true),
            (Rounding::HalfCeil, true),
            (Rounding::HalfEven, false),
        ] {
            let question = question((1, 6), (0, 1), rounding);
            assert_eq!(line(&question.steps(rounding).unwrap(), 64).is_some(), found, "{rounding}");
        }
        let arch = DaisArch::preset("seed").unwrap();
        let plan = question((1, 6), (0, 1), Rounding::HalfEven).plan(&arch).unwrap();
        assert!(matches!(plan.method, Method::Tree(_) | Method::Ties { .. }), "{plan:?}");
    }
}
