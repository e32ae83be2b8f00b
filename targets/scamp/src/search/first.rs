//! A first plan, by rule: kernels are taken bit by bit, moved copies of the inputs are added, and
//! sums are halved or doubled between the bits. It is long, and always there if the registers and
//! macros suffice.

use super::field::Residue;
use super::plan::{Id, MAX_STEPS, Plan, Setting, Step};
use super::random::Random;
use super::share::{Pair, Sum, Term, share};
use super::too_few;
use crate::goal::{Cell, Goal};
use crate::task::Task;
use quincunx_diag::{Diagnostic, Result};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The plan with the fewest steps of those that fit; which common parts are shared depends on
/// `random` as well.
///
/// # Errors
/// `Q5090` when the macros cannot do it, `Q5091` when there are too few registers, `Q5092` for a plan
/// of too many steps.
pub(super) fn first(task: &Task, setting: &Setting, random: &mut Random) -> Result<Plan> {
    if let Some(plan) = shortest(task, setting, random, false)? {
        return Ok(plan);
    }
    // Results can be in the way of what others still read.
    let late = match setting.homes.len() {
        0 | 1 => None,
        _ => shortest(task, setting, random, true)?,
    };
    late.ok_or_else(|| too_few(task))
}

/// The plan with the fewest steps of those that fit; `late` moves results into the registers of
/// inputs at the end. `None` where none fits.
fn shortest(
    task: &Task,
    setting: &Setting,
    random: &mut Random,
    late: bool,
) -> Result<Option<Plan>> {
    let (mut plans, mut problem) = (Vec::new(), None);
    for way in [Way::Halves, Way::Units] {
        for shared in [0, 1, 2, 3, 4, 6, 8, 12, 16] {
            match Builder::new(setting, late).build(task, way, shared, random) {
                Ok(plan) => plans.push(plan),
                Err(reason) => problem = Some(reason),
            }
        }
    }
    if let Some(problem) = problem.filter(|_| plans.is_empty()) {
        return Err(problem);
    }
    plans.sort_by_key(|plan| plan.steps.len());
    Ok(plans.into_iter().find(|plan| plan.fits(setting)))
}

/// How the weights of bits come about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The inputs are added as they are, the smallest bit first, and sums are halved.
    Halves,
    /// The inputs are halved to units first; the largest bit comes first, and sums are doubled.
    Units,
}

struct Builder<'a> {
    setting: &'a Setting,
    /// Results move into the registers of inputs at the end.
    late: bool,
    plan: Plan,
    /// Translations that one instruction makes, with its rule.
    moves: Vec<((i32, i32), u16)>,
    /// Values that several sums share.
    pairs: Vec<Pair>,
    /// The inputs, or units of them, then the pairs that are there already.
    values: Vec<Option<Id>>,
}

impl<'a> Builder<'a> {
    fn new(setting: &'a Setting, late: bool) -> Self {
        let inputs = setting.inputs.len();
        let plan = Plan { inputs, steps: Vec::new(), outputs: Vec::new() };
        let (moves, pairs, values) = (Vec::new(), Vec::new(), Vec::new());
        let mut builder = Builder { setting, late, plan, moves, pairs, values };
        for x in -2..=2_i32 {
            for y in -2..=2_i32 {
                let form = [Residue::translation(x.into(), y.into())];
                if let Some(rule) = builder.rule(&form).filter(|_| (x, y) != (0, 0)) {
                    builder.moves.push(((x, y), rule));
                }
            }
        }
        builder
    }

    fn rule(&self, form: &[Residue]) -> Option<u16> {
        let rules = &self.setting.rules;
        rules.iter().position(|rule| rule.results[0] == form).map(|index| index as u16)
    }

    /// Adds an instruction of a form.
    fn make(&mut self, form: &[Residue], sources: &[Id], what: &str) -> Result<Id> {
        let Some(rule) = self.rule(form) else {
            let message = format!("none of the macros {what}");
            return Err(Diagnostic::unsupported("Q5090", message)
                .help("allow more with --ops, or in the machine description"));
        };
        self.push(rule, sources)
    }

    fn push(&mut self, rule: u16, sources: &[Id]) -> Result<Id> {
        if self.plan.steps.len() >= MAX_STEPS {
            let message = format!("the kernels take more than {MAX_STEPS} instructions");
            return Err(Diagnostic::unsupported("Q5092", message)
                .help("weights with fewer bits take fewer: --depth, --error"));
        }
        self.plan.steps.push(Step { rule, sources: SmallVec::from_slice(sources) });
        Ok(self.plan.id(self.plan.steps.len() - 1, 0))
    }

    fn copy(&mut self, id: Id) -> Result<Id> {
        self.make(&[Residue::ONE], &[id], "copies a value")
    }

    fn half(&mut self, id: Id) -> Result<Id> {
        self.make(&[Residue::of(2).inverse()], &[id], "halves a value")
    }

    /// The value seen from where its cell (x, y) is the centre; a new value in any case.
    fn moved(&mut self, mut id: Id, (x, y): (i32, i32)) -> Result<Id> {
        if (x, y) == (0, 0) {
            return self.copy(id);
        }
        let (mut x, mut y) = (x, y);
        while (x, y) != (0, 0) {
            let length = |x: i32, y: i32| x.abs() + y.abs();
            let best = self.moves.iter().min_by_key(|((dx, dy), _)| length(x - dx, y - dy));
            let Some(&((dx, dy), rule)) =
                best.filter(|((dx, dy), _)| length(x - dx, y - dy) < length(x, y))
            else {
                let message = format!("none of the macros moves a value toward ({x}, {y})");
                return Err(Diagnostic::unsupported("Q5090", message));
            };
            id = self.push(rule, &[id])?;
            (x, y) = (x - dx, y - dy);
        }
        Ok(id)
    }

    /// Adds a term of either sign to a sum.
    fn add(&mut self, sum: Option<Id>, term: Id, is_negative: bool) -> Result<Id> {
        let (one, minus) = (Residue::ONE, Residue::of(-1));
        match (sum, is_negative) {
            (None, false) => Ok(term),
            (None, true) => self.make(&[minus], &[term], "negates a value"),
            (Some(sum), false) => self.make(&[one, one], &[sum, term], "adds two values"),
            (Some(sum), true) => self.make(&[one, minus], &[sum, term], "subtracts two values"),
        }
    }

    fn build(mut self, task: &Task, way: Way, shared: usize, random: &mut Random) -> Result<Plan> {
        let setting = self.setting;
        let (depth, inputs) = (task.wanted.depth, self.plan.inputs);
        let mut goals: Vec<Bits> = task.wanted.goals.0.iter().map(bits).collect();
        let mut sums: Vec<Sum> = goals.iter().flat_map(|bits| bits.values().cloned()).collect();
        self.pairs = share(&mut sums, inputs, shared, random);
        for (new, old) in sums.into_iter().zip(goals.iter_mut().flat_map(|bits| bits.values_mut()))
        {
            *old = new;
            old.sort_by_key(|term| term.negative);
        }
        self.values = (0..inputs).map(|input| Some(input as Id)).collect();
        self.values.resize(inputs + self.pairs.len(), None);
        if way == Way::Units {
            for input in 0..inputs {
                let mut unit = input as Id;
                for _ in 0..depth {
                    unit = self.half(unit)?;
                }
                self.values[input] = Some(unit);
            }
        }
        // Outputs in the registers of inputs come last, when the inputs are read no more.
        let is_home = |output: &usize| self.setting.homes.iter().any(|(home, _)| home == output);
        let mut order: Vec<usize> = (0..goals.len()).collect();
        order.sort_by_key(is_home);
        self.plan.outputs = vec![0; order.len()];
        for index in order {
            let sum = match way {
                Way::Halves => self.by_halves(&goals[index], depth)?,
                Way::Units => self.by_doubles(&goals[index])?,
            };
            let output = match sum {
                Some(sum) => sum,
                None => self.make(&[], &[], "makes a zero")?,
            };
            self.plan.outputs[index] = output;
        }
        let late = if self.late { &setting.homes[..] } else { &[] };
        for &(output, _) in late {
            self.plan.outputs[output] = self.copy(self.plan.outputs[output])?;
        }
        self.plan.remove_dead();
        Ok(self.plan)
    }

    /// A value of terms, made when it is needed first.
    fn value(&mut self, value: usize) -> Result<Id> {
        if let Some(id) = self.values[value] {
            return Ok(id);
        }
        let Pair { first, second } = self.pairs[value - self.plan.inputs];
        let first = self.value(first)?;
        let id = self.with_term(Some(first), second)?;
        self.values[value] = Some(id);
        Ok(id)
    }

    fn with_term(&mut self, sum: Option<Id>, term: Term) -> Result<Id> {
        let value = self.value(term.value)?;
        let moved = self.moved(value, (term.x, term.y))?;
        self.add(sum, moved, term.negative)
    }

    /// Adds the terms of one bit to a sum.
    fn with_bit(&mut self, mut sum: Option<Id>, terms: &Sum) -> Result<Option<Id>> {
        for &term in terms {
            sum = Some(self.with_term(sum, term)?);
        }
        Ok(sum)
    }

    fn by_halves(&mut self, bits: &Bits, depth: u32) -> Result<Option<Id>> {
        let (mut sum, top) = (None, bits.keys().max().copied().unwrap_or(0));
        for bit in 0..=depth {
            if let Some(id) = sum {
                sum = Some(self.half(id)?);
            }
            if let Some(terms) = bits.get(&bit) {
                sum = self.with_bit(sum, terms)?;
            }
        }
        if top <= depth {
            return Ok(sum);
        }
        let above = bits.range(depth + 1..).map(|(bit, terms)| (bit - depth, terms.clone()));
        let whole = self.by_doubles(&above.collect())?;
        match (sum, whole) {
            (Some(sum), Some(whole)) => self.add(Some(sum), whole, false).map(Some),
            (sum, whole) => Ok(sum.or(whole)),
        }
    }

    fn by_doubles(&mut self, bits: &Bits) -> Result<Option<Id>> {
        let mut sum = None;
        for bit in (0..=bits.keys().max().copied().unwrap_or(0)).rev() {
            if let Some(id) = sum {
                let copy = self.copy(id)?;
                sum = Some(self.add(Some(id), copy, false)?);
            }
            if let Some(terms) = bits.get(&bit) {
                sum = self.with_bit(sum, terms)?;
            }
        }
        Ok(sum)
    }
}

/// The terms of each bit.
type Bits = BTreeMap<u32, Sum>;

/// Counts as sums of powers of two with signs, no two of them neighbours.
fn bits(goal: &Goal) -> Bits {
    let mut bits = Bits::new();
    for (Cell { x, y, z }, count) in goal.cells() {
        let (mut rest, mut bit) = (i128::from(count), 0);
        while rest != 0 {
            if rest & 1 == 1 {
                let digit = 2 - (rest & 3);
                let term = Term { value: z as usize, x, y, negative: digit < 0 };
                bits.entry(bit).or_default().push(term);
                rest -= digit;
            }
            rest >>= 1;
            bit += 1;
        }
    }
    bits
}
