//! A first plan, by rule: kernels are taken bit by bit, moved copies of the inputs are added, and
//! sums are halved or doubled between the bits. It is long, and always there if the registers and
//! macros suffice.

use super::field::Residue;
use super::plan::{Id, MAX_STEPS, Plan, Setting, Step};
use crate::goal::{Cell, Goal};
use crate::task::Task;
use quincunx_diag::{Diagnostic, Result};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The plan with the fewest steps of those that fit.
///
/// # Errors
/// `Q5090` when the macros cannot do it, `Q5091` when there are too few registers, with the number
/// that suffices; `Q5092` for a plan of too many steps.
pub(super) fn first(task: &Task, setting: &Setting) -> Result<Plan> {
    let ways = [Way::Halves, Way::Units];
    let plans = ways.map(|way| Builder::new(setting).build(task, way));
    let mut plans: Vec<Plan> = match plans {
        [Err(_), Err(problem)] => return Err(problem),
        [a, b] => [a, b].into_iter().flatten().collect(),
    };
    plans.sort_by_key(|plan| plan.steps.len());
    let fits = |registers: usize| {
        let setting = Setting { registers, ..setting.clone() };
        plans.iter().find(|plan| plan.fits(&setting))
    };
    if let Some(plan) = fits(setting.registers) {
        return Ok(plan.clone());
    }
    let enough = (setting.registers..=setting.registers + MAX_STEPS).find(|&n| fits(n).is_some());
    let message = format!("{} registers are too few for these kernels", setting.registers);
    let problem = Diagnostic::unsupported("Q5091", message);
    Err(match enough {
        Some(enough) => problem.help(format!("{enough} registers suffice")),
        None => problem,
    })
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
    plan: Plan,
    /// Translations that one instruction makes, with its rule.
    moves: Vec<((i32, i32), u16)>,
}

impl<'a> Builder<'a> {
    fn new(setting: &'a Setting) -> Self {
        let inputs = setting.inputs.len();
        let plan = Plan { inputs, steps: Vec::new(), outputs: Vec::new() };
        let mut builder = Builder { setting, plan, moves: Vec::new() };
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

    fn build(mut self, task: &Task, way: Way) -> Result<Plan> {
        let depth = task.wanted.depth;
        let mut units: Vec<Id> = (0..self.plan.inputs as Id).collect();
        if way == Way::Units {
            for unit in &mut units {
                for _ in 0..depth {
                    *unit = self.half(*unit)?;
                }
            }
        }
        // Outputs in the registers of inputs come last, when the inputs are read no more.
        let is_home = |output: &usize| self.setting.homes.iter().any(|(home, _)| home == output);
        let mut order: Vec<usize> = (0..task.wanted.goals.0.len()).collect();
        order.sort_by_key(is_home);
        self.plan.outputs = vec![0; order.len()];
        for index in order {
            let bits = bits(&task.wanted.goals.0[index]);
            let sum = match way {
                Way::Halves => self.by_halves(&bits, depth, &units)?,
                Way::Units => self.by_doubles(&bits, &units)?,
            };
            let output = match sum {
                Some(sum) => sum,
                None => self.make(&[], &[], "makes a zero")?,
            };
            self.plan.outputs[index] = output;
        }
        self.plan.remove_dead();
        Ok(self.plan)
    }

    /// Adds the cells of one bit to a sum, the positive ones first.
    fn with_bit(
        &mut self,
        mut sum: Option<Id>,
        cells: &[(Cell, bool)],
        units: &[Id],
    ) -> Result<Option<Id>> {
        for &(Cell { x, y, z }, is_negative) in cells {
            let term = self.moved(units[z as usize], (x, y))?;
            sum = Some(self.add(sum, term, is_negative)?);
        }
        Ok(sum)
    }

    fn by_halves(&mut self, bits: &Bits, depth: u32, units: &[Id]) -> Result<Option<Id>> {
        let (mut sum, top) = (None, bits.keys().max().copied().unwrap_or(0));
        for bit in 0..=depth {
            if let Some(id) = sum {
                sum = Some(self.half(id)?);
            }
            if let Some(cells) = bits.get(&bit) {
                sum = self.with_bit(sum, cells, units)?;
            }
        }
        if top <= depth {
            return Ok(sum);
        }
        let above: Bits =
            bits.range(depth + 1..).map(|(bit, cells)| (bit - depth, cells.clone())).collect();
        let whole = self.by_doubles(&above, units)?;
        match (sum, whole) {
            (Some(sum), Some(whole)) => self.add(Some(sum), whole, false).map(Some),
            (sum, whole) => Ok(sum.or(whole)),
        }
    }

    fn by_doubles(&mut self, bits: &Bits, units: &[Id]) -> Result<Option<Id>> {
        let mut sum = None;
        for bit in (0..=bits.keys().max().copied().unwrap_or(0)).rev() {
            if let Some(id) = sum {
                let copy = self.copy(id)?;
                sum = Some(self.add(Some(id), copy, false)?);
            }
            if let Some(cells) = bits.get(&bit) {
                sum = self.with_bit(sum, cells, units)?;
            }
        }
        Ok(sum)
    }
}

/// The cells of each bit, with whether they count negatively; positive ones first.
type Bits = BTreeMap<u32, Vec<(Cell, bool)>>;

/// Counts as sums of powers of two with signs, no two of them neighbours.
fn bits(goal: &Goal) -> Bits {
    let mut bits = Bits::new();
    for (cell, count) in goal.cells() {
        let (mut rest, mut bit) = (i128::from(count), 0);
        while rest != 0 {
            if rest & 1 == 1 {
                let digit = 2 - (rest & 3);
                bits.entry(bit).or_default().push((cell, digit < 0));
                rest -= digit;
            }
            rest >>= 1;
            bit += 1;
        }
    }
    for cells in bits.values_mut() {
        cells.sort_by_key(|(_, is_negative)| *is_negative);
    }
    bits
}
