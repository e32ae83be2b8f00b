//! What one instruction can make of values, and which registers that takes: all from the table of
//! instructions, for any set of macros.

use super::field::Residue;
use crate::arch::ScampArch;
use crate::expand::bus_steps;
use crate::fix::modern;
use crate::isa::{Class, Inst, Reg, TABLE};
use crate::meaning::{Summand, meaning};
use crate::program::{Program, Space, access};
use crate::symbolic::{Level, Term, Value, run};
use crate::verify::verify;
use quincunx_diag::any_error;
use quincunx_isa::{Kind, OperandValue, RawInst, Values};
use quincunx_num::Ratio;
use std::collections::BTreeSet;

/// Most sources of a rule.
pub(super) const MAX_SOURCES: usize = 3;

/// Most results of a rule that are of use.
pub(super) const MAX_RESULTS: usize = 2;

/// A linear form of the sources: one factor for each.
pub(super) type Form = Vec<Residue>;

/// One way to compute values: a macro with its directions, or several that compute the same.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// What it computes: the documented result, then those that are left over, where these may be
    /// used.
    pub(super) results: Vec<Form>,
    /// How instructions do it, the one with the fewest bus steps first.
    pub(super) variants: Vec<Variant>,
    /// Sources may be exchanged.
    pub(super) commutes: bool,
    /// Two sources may be the same value.
    pub(super) takes_equals: bool,
    /// Registers that are occupied while it runs, beyond those of values that are not its own: by
    /// the mask of sources that die, with [`EQUAL`] if the first two are the same, and the mask
    /// of results that are used; [`IMPOSSIBLE`] where no variant does.
    needs: Vec<u8>,
}

/// Bit of the index of needs: the first two sources are one value.
pub(super) const EQUAL: usize = 1 << MAX_SOURCES;

/// Need of what cannot be done.
pub(super) const IMPOSSIBLE: u8 = u8::MAX;

/// An instruction that does what a rule says.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    /// The instruction with registers that stand for its operands.
    pub(super) inst: Inst,
    /// Bus steps.
    pub(super) bus: u64,
    /// Ways in which operands may share registers.
    pub(super) layouts: Vec<Layout>,
}

/// Which operands share a register, and what the registers hold before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The register of each operand in the order of the text, as an index from 0.
    pub(super) register: Vec<usize>,
    /// The register of each source.
    pub(super) sources: Vec<usize>,
    /// What each register holds afterwards.
    pub(super) after: Vec<Content>,
    /// Whether each register is written.
    pub(super) written: Vec<bool>,
}

/// What a register holds after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A source, untouched.
    Source(usize),
    /// A result.
    Result(usize),
    /// Nothing of use.
    Trash,
}

impl Layout {
    /// The first two sources are in one register.
    fn is_equal(&self) -> bool {
        self.sources.len() > 1 && self.sources[0] == self.sources[1]
    }

    /// It keeps every source but those of the mask of dying ones, and gives every result of the
    /// other mask.
    pub(super) fn suits(&self, equal: bool, dying: usize, used: usize) -> bool {
        let holds = |content| self.after.contains(&content);
        let keeps = |source: usize| {
            let same = if source == 1 && equal { 0 } else { source };
            dying >> source & 1 == 1 || holds(Content::Source(same))
        };
        let gives = |result: usize| used >> result & 1 == 0 || holds(Content::Result(result));
        self.is_equal() == equal
            && (0..self.sources.len()).all(keeps)
            && (0..MAX_RESULTS).all(gives)
    }
}

impl Rule {
    /// Registers that are occupied while it runs, beyond those of values that are not its own, with
    /// the masks of sources that die and of results that are read.
    pub(super) fn need(&self, equal: bool, dying: usize, used: usize) -> u8 {
        self.needs[index_of_need(equal, dying, used)]
    }
}

fn index_of_need(equal: bool, dying: usize, used: usize) -> usize {
    (used << (MAX_SOURCES + 1)) | (usize::from(equal) * EQUAL) | dying
}

/// What one macro with its directions does, of operands that are all in registers of their own.
struct Effect {
    /// The instruction on registers of any names.
    inst: Inst,
    /// Which operands are sources.
    sources: Vec<usize>,
    /// The summands of the documented result.
    main: Vec<Summand>,
    /// The result that is left over in another register, if there is one.
    left: Option<Vec<Summand>>,
}

/// Names of the operands of templates.
const NAMES: [&str; 4] = ["O0", "O1", "O2", "O3"];

/// The instructions of a row with every choice of directions, each operand in a register of its own.
fn instances(row: usize) -> Vec<Inst> {
    let mut registers = NAMES.into_iter().filter_map(Reg::new);
    let mut list = vec![Values::new()];
    for operand in TABLE.rows[row].operands {
        let choices: Vec<i128> = match operand.kind {
            Kind::Names(names) => names.iter().map(|&(_, number)| number).collect(),
            _ => registers.next().map(|register| register.to_raw()).into_iter().collect(),
        };
        let with = |values: &Values| {
            let values = values.clone();
            choices.iter().map(move |&choice| values.iter().copied().chain([choice]).collect())
        };
        list = list.iter().flat_map(with).collect::<Vec<Values>>();
    }
    list.into_iter().filter_map(|values| Inst::from_raw(&RawInst { row, values })).collect()
}

/// What the documented result of an instruction is of which of its operands.
pub(super) fn template(inst: &Inst) -> Option<(Form, Vec<usize>)> {
    let mut names = NAMES.into_iter().filter_map(Reg::new);
    let effect = effect(inst.map_registers(|own| names.next().unwrap_or(own)))?;
    Some((effect.form(&effect.main)?, effect.sources))
}

fn effect(inst: Inst) -> Option<Effect> {
    let assignments = meaning(&inst)?;
    let operands: Vec<Reg> = inst.registers().collect();
    let of = |target: Reg| assignments.iter().rev().find(|a| a.target == target);
    let main = of(*operands.first()?)?.terms.clone();
    let place = |term: &Summand| operands.iter().position(|&operand| operand == term.register);
    let sources = main.iter().map(place).collect::<Option<Vec<_>>>()?;
    let is_copy = |terms: &[Summand]| {
        terms.len() == 1 && terms[0].factor == Ratio::ONE && terms[0].steps.is_empty()
    };
    let others = operands[1..].iter().filter_map(|&operand| of(operand));
    let left = others.map(|a| a.terms.clone()).find(|terms| !is_copy(terms) && *terms != main);
    Some(Effect { inst, sources, main, left })
}

impl Effect {
    /// A sum of operands as factors of the sources.
    fn form(&self, terms: &[Summand]) -> Option<Form> {
        let factor = |&operand: &usize| {
            let register = self.inst.registers().nth(operand)?;
            let term = terms.iter().find(|term| term.register == register)?;
            let (x, y) = steps(term);
            let whole = |number: &quincunx_num::Int| i64::try_from(number).ok().map(Residue::of);
            let denominator = quincunx_num::Int::from(term.factor.denominator().clone());
            let factor = whole(term.factor.numerator())?.times(whole(&denominator)?.inverse());
            Some(factor.times(Residue::translation(x.into(), y.into())))
        };
        self.sources.iter().map(factor).collect()
    }

    /// A sum of operands as what the executor calls it when the operands are in these registers.
    fn value(terms: &[Summand], of: impl Fn(Reg) -> Reg) -> Value {
        let mut value = Value::new();
        for term in terms {
            let (x, y) = steps(term);
            let sum = value.entry(Term { source: of(term.register), x, y }).or_insert(Ratio::ZERO);
            *sum = &*sum + &term.factor;
        }
        value.retain(|_, factor| *factor != Ratio::ZERO);
        value
    }

    /// The layout in which every operand has the register of this index, if the machine can do that
    /// and the documented result comes of it.
    fn layout(&self, register: &[usize], arch: &ScampArch, leftovers: bool) -> Option<Layout> {
        let names = &arch.analogue;
        let operands: Vec<Reg> = self.inst.registers().collect();
        let of = |name: Reg| {
            let index = operands.iter().position(|&operand| operand == name);
            index.map_or(name, |index| names[register[index]])
        };
        let inst = self.inst.map_registers(of);
        let program = Program::new(vec![inst]);
        if any_error(&verify(&program, arch)) {
            return None;
        }
        let state = run(&program, Level::Bus).ok()?;
        let written = access(&inst).writes;
        let sources: Vec<usize> = self.sources.iter().map(|&operand| register[operand]).collect();
        let main = Effect::value(&self.main, of);
        let left = self.left.as_ref().filter(|_| leftovers).map(|terms| Effect::value(terms, of));
        let is_written = |index: usize| written.contains(&(Space::Analogue, names[index]));
        let content = |index: usize| {
            let value = state.value(names[index]);
            let is_written = is_written(index);
            let source = sources.iter().position(|&source| {
                let same = Value::from([(Term { source: names[source], x: 0, y: 0 }, Ratio::ONE)]);
                value == same && (leftovers || source == index)
            });
            match source.filter(|_| leftovers || !is_written) {
                _ if index == register[0] => (value == main).then_some(Content::Result(0)),
                Some(source) => Some(Content::Source(source)),
                None if left.as_ref() == Some(&value) => Some(Content::Result(1)),
                None => Some(Content::Trash),
            }
        };
        let count = register.iter().max()? + 1;
        let after = (0..count).map(content).collect::<Option<Vec<_>>>()?;
        let written = (0..count).map(is_written).collect();
        Some(Layout { register: register.to_vec(), sources, after, written })
    }
}

/// Where the element of a summand is.
fn steps(term: &Summand) -> (i32, i32) {
    term.steps.iter().fold((0, 0), |(x, y), direction| {
        let (east, north) = direction.step();
        (x + east, y + north)
    })
}

/// Every way to give operands registers, as restricted growth strings: a register of an index
/// is used only if those of smaller ones are.
fn partitions(operands: usize, registers: usize) -> Vec<Vec<usize>> {
    let mut list = vec![Vec::new()];
    for _ in 0..operands {
        let grow = |prefix: &Vec<usize>| {
            let next = prefix.iter().max().map_or(0, |max| max + 1);
            let prefix = prefix.clone();
            (0..=next.min(registers - 1)).map(move |index| [&prefix[..], &[index]].concat())
        };
        list = list.iter().flat_map(grow).collect();
    }
    list
}

/// The rules of a set of macros on a machine, the most useful ones of equal effect once. With
/// `leftovers` what macros leave in further registers counts as results, as their documentation
/// promises it; without, only the first register does, and a source that is written is lost.
pub(super) fn rules(
    macros: &BTreeSet<&'static str>,
    arch: &ScampArch,
    leftovers: bool,
) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for (index, row) in TABLE.rows.iter().enumerate() {
        if !macros.contains(row.name) {
            continue;
        }
        for inst in instances(index) {
            let usual = inst.class() == Class::Macro && modern(&inst) == inst;
            if let Some(effect) = effect(inst).filter(|_| usual) {
                add(&mut rules, &effect, arch, leftovers);
            }
        }
    }
    for rule in &mut rules {
        rule.variants.sort_by_key(|variant| variant.bus);
        let takes_equals = rule.layouts().any(Layout::is_equal);
        rule.takes_equals = takes_equals;
        rule.needs = needs(rule);
    }
    rules.retain(|rule| rule.needs.iter().any(|&need| need != IMPOSSIBLE));
    rules
}

/// Adds an instruction to the rule of what it computes.
fn add(rules: &mut Vec<Rule>, effect: &Effect, arch: &ScampArch, leftovers: bool) {
    let left = effect.left.as_ref().filter(|_| leftovers);
    let forms = [Some(&effect.main), left].into_iter().flatten();
    let Some(results) = forms.map(|terms| effect.form(terms)).collect::<Option<Vec<_>>>() else {
        return;
    };
    let operands = effect.inst.registers().count();
    let layouts = partitions(operands, arch.analogue.len());
    let layouts = layouts.iter().filter_map(|list| effect.layout(list, arch, leftovers)).collect();
    let variant = Variant { inst: effect.inst, bus: bus_steps(&effect.inst), layouts };
    let same = |rule: &&mut Rule| rule.results[0] == results[0];
    match rules.iter_mut().find(same) {
        Some(rule) if rule.variants.iter().any(|old| old.replaces(&variant)) => {}
        Some(rule) => {
            if rule.results.len() < results.len() {
                rule.results = results;
            }
            rule.variants.push(variant);
        }
        None => {
            let commutes = results[0].len() > 1 && results[0].iter().all(|f| *f == results[0][0]);
            let takes_equals = false;
            let variants = vec![variant];
            rules.push(Rule { results, variants, commutes, takes_equals, needs: Vec::new() });
        }
    }
}

impl Variant {
    /// It can do all that the other can, and is as cheap.
    fn replaces(&self, other: &Variant) -> bool {
        self.bus <= other.bus && other.layouts.iter().all(|layout| self.layouts.contains(layout))
    }
}

impl Rule {
    fn layouts(&self) -> impl Iterator<Item = &Layout> {
        self.variants.iter().flat_map(|variant| &variant.layouts)
    }
}

fn needs(rule: &Rule) -> Vec<u8> {
    let sizes = [1 << MAX_RESULTS, 2, 1 << MAX_SOURCES];
    let mut needs = vec![IMPOSSIBLE; sizes.iter().product()];
    for used in 0..sizes[0] {
        for equal in [false, true] {
            for dying in 0..sizes[2] {
                let suits = |layout: &&Layout| layout.suits(equal, dying, used);
                let occupied = |layout: &Layout| layout.occupied(dying);
                let least = rule.layouts().filter(suits).map(occupied).min();
                needs[index_of_need(equal, dying, used)] = least.unwrap_or(IMPOSSIBLE);
            }
        }
    }
    needs
}

impl Layout {
    /// Registers that it takes beyond those of sources that live on.
    fn occupied(&self, dying: usize) -> u8 {
        let lives = |&(source, _): &(usize, &usize)| dying >> source & 1 == 0;
        let alive: BTreeSet<usize> =
            self.sources.iter().enumerate().filter(lives).map(|(_, &register)| register).collect();
        (self.after.len() - alive.len()) as u8
    }
}
