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

/// Numbers of pairs that are shared in the plans of one way.
const SHARED: [usize; 8] = [0, 1, 2, 3, 4, 6, 8, 12];

/// The plans that fit, those with the fewest steps first; which common parts are shared depends on
/// `random` as well.
///
/// # Errors
/// `Q5090` when the macros cannot do it, `Q5091` when there are too few registers, `Q5092` for plans
/// of too many steps.
pub(super) fn plans(task: &Task, setting: &Setting, random: &mut Random) -> Result<Vec<Plan>> {
    let mut plans = fitting(task, setting, random, false)?;
    // Results can be in the way of what others still read.
    if plans.is_empty() && setting.homes.len() > 1 {
        plans = fitting(task, setting, random, true)?;
    }
    if plans.is_empty() { Err(too_few(task)) } else { Ok(plans) }
}

/// The plans that fit, the shortest first; `late` moves results into the registers of inputs at the
/// end.
fn fitting(task: &Task, setting: &Setting, random: &mut Random, late: bool) -> Result<Vec<Plan>> {
    let goals: Vec<Bits> = task.wanted.goals.0.iter().map(bits).collect();
    let (mut plans, mut problem) = (Vec::new(), None);
    let mut build = |goals: &[Bits], pairs: &[Pair], way| match Builder::new(setting, late).build(
        task.wanted.depth,
        goals,
        pairs,
        way,
    ) {
        Ok(plan) => plans.push(plan),
        Err(reason) => problem = Some(reason),
    };
    let is_small = |bits: &Bits| bits.keys().all(|bit| *bit <= task.wanted.depth);
    if goals.iter().all(is_small) {
        build(&goals, &[], Way::Levels);
    }
    let mut sums: Vec<Sum> = goals.iter().flat_map(|bits| bits.values().cloned()).collect();
    let mut pairs: Vec<Pair> = Vec::new();
    for limit in SHARED {
        share(&mut sums, &mut pairs, setting.inputs.len(), limit, random);
        if pairs.len() < limit {
            break;
        }
        let mut rest = sums.iter().cloned();
        let with_rest = |bits: &Bits| bits.keys().copied().zip(rest.by_ref()).collect();
        let shared: Vec<Bits> = goals.iter().map(with_rest).collect();
        build(&shared, &pairs, Way::Halves);
        build(&shared, &pairs, Way::Units);
    }
    if let Some(problem) = problem.filter(|_| plans.is_empty()) {
        return Err(problem);
    }
    plans.retain(|plan| plan.fits(setting));
    plans.sort_by_key(|plan| plan.steps.len());
    Ok(plans)
}

/// Steps that are saved if two values meet elsewhere than where one of them is.
const FAR: u32 = 8;

/// Registers that halving one value takes.
const HALF: usize = 3;

/// How the weights of bits come about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The inputs are added as they are, the smallest bit first, and sums are halved.
    Halves,
    /// The inputs are halved to units first; the largest bit comes first, and sums are doubled.
    Units,
    /// The inputs are halved between the bits, the largest of which comes first; as many sums as
    /// possible grow at once.
    Levels,
}

/// A place.
type At = (i32, i32);

/// A value that stands for its translation by (x, y).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Framed {
    id: Id,
    at: At,
}

fn minus(a: At, b: At) -> At {
    (a.0.saturating_sub(b.0), a.1.saturating_sub(b.1))
}

fn length((x, y): At) -> u32 {
    x.unsigned_abs().saturating_add(y.unsigned_abs())
}

struct Builder<'a> {
    setting: &'a Setting,
    /// Results move into the registers of inputs at the end.
    late: bool,
    plan: Plan,
    /// Translations that one instruction makes, with its rule.
    moves: Vec<(At, u16)>,
    /// Values that several sums share.
    pairs: &'a [Pair],
    /// The inputs, or parts of them, then the pairs that are there already.
    values: Vec<Option<Framed>>,
}

impl<'a> Builder<'a> {
    fn new(setting: &'a Setting, late: bool) -> Self {
        let inputs = setting.inputs.len();
        let plan = Plan { inputs, steps: Vec::new(), outputs: Vec::new() };
        let (moves, pairs, values) = (Vec::new(), &[][..], Vec::new());
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

    /// The value seen from where its cell (x, y) is the centre.
    fn moved(&mut self, mut id: Id, (x, y): At) -> Result<Id> {
        let (mut x, mut y) = (x, y);
        while (x, y) != (0, 0) {
            let best = self.moves.iter().min_by_key(|(by, _)| length(minus((x, y), *by)));
            let Some(&((dx, dy), rule)) =
                best.filter(|(by, _)| length(minus((x, y), *by)) < length((x, y)))
            else {
                let message = format!("none of the macros moves a value toward ({x}, {y})");
                return Err(Diagnostic::unsupported("Q5090", message));
            };
            id = self.push(rule, &[id])?;
            (x, y) = (x - dx, y - dy);
        }
        Ok(id)
    }

    fn build(mut self, depth: u32, goals: &[Bits], pairs: &'a [Pair], way: Way) -> Result<Plan> {
        let inputs = self.plan.inputs;
        self.pairs = pairs;
        self.values = (0..inputs).map(|id| Some(Framed { id: id as Id, at: (0, 0) })).collect();
        self.values.resize(inputs + pairs.len(), None);
        if way == Way::Units {
            for _ in 0..depth {
                self.halve_inputs()?;
            }
        }
        // Outputs in the registers of inputs come last, when the inputs are read no more.
        let is_home = |output: &usize| self.setting.homes.iter().any(|(home, _)| home == output);
        let mut order: Vec<usize> = (0..goals.len()).collect();
        order.sort_by_key(is_home);
        self.plan.outputs = vec![Id::MAX; order.len()];
        let mut sums = vec![None; order.len()];
        // A half takes registers besides; what does not fit is done later, of units.
        let at_once = self.setting.registers.saturating_sub(HALF).clamp(1, order.len().max(1));
        if way == Way::Levels {
            for bit in (0..=depth).rev() {
                for &index in order.iter().take(at_once) {
                    let next = (0..bit).rev().find_map(|bit| goals[index].get(&bit));
                    if let Some(terms) = goals[index].get(&bit) {
                        sums[index] = self.chain(sums[index], terms, next.map(|t| &t[..]))?;
                    }
                }
                if bit > 0 {
                    self.halve_inputs()?;
                }
            }
        }
        for (position, index) in order.into_iter().enumerate() {
            let sum = match way {
                Way::Halves => self.by_halves(&goals[index], depth)?,
                Way::Levels if position < at_once => sums[index],
                Way::Units | Way::Levels => self.by_doubles(&goals[index])?,
            };
            let output = match sum {
                Some(sum) => self.output(sum, index)?,
                None => self.make(&[], &[], "makes a zero")?,
            };
            self.plan.outputs[index] = output;
        }
        let late = if self.late { &self.setting.homes[..] } else { &[] };
        for &(output, _) in late {
            self.plan.outputs[output] = self.copy(self.plan.outputs[output])?;
        }
        self.plan.remove_dead();
        Ok(self.plan)
    }

    fn halve_inputs(&mut self) -> Result<()> {
        for input in 0..self.plan.inputs {
            if let Some(Framed { id, at }) = self.values[input] {
                self.values[input] = Some(Framed { id: self.half(id)?, at });
            }
        }
        Ok(())
    }

    /// A sum in its place, as a value that is no other output, and no input but that in whose register
    /// it is wanted.
    fn output(&mut self, sum: Framed, output: usize) -> Result<Id> {
        let Framed { id, .. } = self.moved_to(sum, (0, 0))?;
        let is_input = usize::from(id) < self.plan.inputs;
        let is_there = self.setting.homes.contains(&(output, usize::from(id)));
        let is_taken = is_input && !is_there || self.plan.outputs.contains(&id);
        if is_taken { self.copy(id) } else { Ok(id) }
    }

    fn moved_to(&mut self, value: Framed, at: At) -> Result<Framed> {
        let by = minus(value.at, at);
        let id = if by == (0, 0) { value.id } else { self.moved(value.id, by)? };
        Ok(Framed { id, at })
    }

    /// A value of terms, made when it is needed first.
    fn value(&mut self, value: usize) -> Result<Framed> {
        if let Some(made) = self.values[value] {
            return Ok(made);
        }
        let Pair { first, second } = self.pairs[value - self.plan.inputs];
        let first = Term { value: first, x: 0, y: 0, negative: false };
        let sum = self.chain(None, &[first, second], None)?;
        self.values[value] = sum;
        sum.ok_or_else(|| Diagnostic::bug("a pair has terms"))
    }

    /// Adds terms of one weight to a sum, each a step from where the one before was; `next` are the
    /// terms that come afterwards.
    fn chain(
        &mut self,
        mut sum: Option<Framed>,
        terms: &[Term],
        next: Option<&[Term]>,
    ) -> Result<Option<Framed>> {
        let mut rest = terms.to_vec();
        let mut near = sum.map(|sum| sum.at);
        let first = |terms: &[Term], near: Option<At>, is_start: bool| {
            let rank = |term: &Term| match near {
                _ if is_start && term.negative => u32::MAX,
                Some(near) => length(minus((term.x, term.y), near)),
                // The end is in the centre.
                None => u32::MAX - 1 - length((term.x, term.y)),
            };
            (0..terms.len()).min_by_key(|&index| rank(&terms[index]))
        };
        while let Some(index) = first(&rest, near, sum.is_none()) {
            let term = rest.remove(index);
            let at = (term.x, term.y);
            let after = first(&rest, Some(at), false).map(|index| rest[index]);
            let after = after.or_else(|| {
                let next = next?;
                first(next, Some(at), false).map(|index| next[index])
            });
            let target = match after {
                Some(term) if term.negative => at,
                Some(term) => (term.x, term.y),
                None => (0, 0),
            };
            sum = Some(self.with_term(sum, term, target)?);
            near = Some(at);
        }
        Ok(sum)
    }

    /// A sum with one more term, if possible as seen from `target`.
    fn with_term(&mut self, sum: Option<Framed>, term: Term, target: At) -> Result<Framed> {
        let (one, minus_one) = (Residue::ONE, Residue::of(-1));
        let value = self.value(term.value)?;
        let at = (term.x.saturating_add(value.at.0), term.y.saturating_add(value.at.1));
        let value = Framed { id: value.id, at };
        let translation = |(x, y): At| Residue::translation(x.into(), y.into());
        let Some(sum) = sum else {
            if !term.negative {
                return Ok(value);
            }
            let id = self.make(&[minus_one], &[value.id], "negates a value")?;
            return Ok(Framed { id, at });
        };
        if term.negative {
            // The sum moves to the term and loses it in one instruction, or in more.
            let form = [translation(minus(sum.at, at)), minus_one];
            if let Some(rule) = self.rule(&form) {
                return Ok(Framed { id: self.push(rule, &[sum.id, value.id])?, at });
            }
            let sum = self.moved_to(sum, at)?;
            let what = "subtracts two values";
            return Ok(Framed { id: self.make(&[one, minus_one], &[sum.id, value.id], what)?, at });
        }
        let end = length(minus(at, target));
        let apart = length(minus(sum.at, target)).saturating_add(end);
        let (sum, value) =
            match apart.saturating_add(FAR) < length(minus(sum.at, at)).saturating_add(end) {
                // They meet in the middle.
                true => (self.moved_to(sum, target)?, self.moved_to(value, target)?),
                false => (self.moved_to(sum, at)?, value),
            };
        let at = value.at;
        let value = if sum.id == value.id { self.copy(value.id)? } else { value.id };
        let factor = translation(minus(at, target));
        if let Some(rule) = self.rule(&[factor, factor]) {
            return Ok(Framed { id: self.push(rule, &[sum.id, value])?, at: target });
        }
        Ok(Framed { id: self.make(&[one, one], &[sum.id, value], "adds two values")?, at })
    }

    fn by_halves(&mut self, bits: &Bits, depth: u32) -> Result<Option<Framed>> {
        let (mut sum, top) = (None, bits.keys().max().copied().unwrap_or(0));
        for bit in 0..=depth {
            if let Some(Framed { id, at }) = sum {
                sum = Some(Framed { id: self.half(id)?, at });
            }
            if let Some(terms) = bits.get(&bit) {
                let next = bits.range(bit + 1..=depth.max(bit + 1)).next();
                sum = self.chain(sum, terms, next.map(|(_, terms)| &terms[..]))?;
            }
        }
        if top <= depth {
            return Ok(sum);
        }
        let above = bits.range(depth + 1..).map(|(bit, terms)| (bit - depth, terms.clone()));
        let whole = self.by_doubles(&above.collect())?;
        match (sum, whole) {
            (Some(sum), Some(whole)) => {
                let (sum, whole) = (self.moved_to(sum, (0, 0))?, self.moved_to(whole, (0, 0))?);
                let form = [Residue::ONE; 2];
                let id = self.make(&form, &[sum.id, whole.id], "adds two values")?;
                Ok(Some(Framed { id, at: (0, 0) }))
            }
            (sum, whole) => Ok(sum.or(whole)),
        }
    }

    fn by_doubles(&mut self, bits: &Bits) -> Result<Option<Framed>> {
        let mut sum = None;
        for bit in (0..=bits.keys().max().copied().unwrap_or(0)).rev() {
            if let Some(Framed { id, at }) = sum {
                let copy = self.copy(id)?;
                let id = self.make(&[Residue::ONE; 2], &[id, copy], "adds two values")?;
                sum = Some(Framed { id, at });
            }
            if let Some(terms) = bits.get(&bit) {
                let next = bits.range(..bit).next_back();
                sum = self.chain(sum, terms, next.map(|(_, terms)| &terms[..]))?;
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
