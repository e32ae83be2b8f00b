//! What one instruction can make of values, where registers are no limit.
//!
//! A proof must not miss a program, so that the forms are those of the rules and some more: what an
//! instruction computes if a source is 0, as registers hold that nobody has written; and what `abs`
//! computes while the sign of its operand stays the same.

use super::super::field::Residue;
use super::super::rules::{Content, Layout, Rule};
use super::factor::{Factor, TURNS};
use std::collections::BTreeSet;

/// The index of a factor.
pub(super) type Id = u8;

/// The forms of a set of macros.
pub(super) struct Forms {
    /// Every factor that occurs.
    pub(super) factors: Vec<Factor>,
    /// What they are when the array is turned.
    pub(super) residues: Vec<[Residue; TURNS]>,
    pub(super) outcomes: Vec<Outcome>,
    pub(super) singles: Vec<Single>,
    pub(super) binary: Vec<Binary>,
    pub(super) ternary: Vec<Ternary>,
    pub(super) twins: Vec<Twin>,
    pub(super) thirds: Vec<Third>,
    /// Most values that an instruction leaves.
    pub(super) most_results: usize,
}

/// All that an instruction with one source leaves.
pub(super) struct Outcome {
    /// The rule; `None` for what is there for the sake of the proof only.
    pub(super) rule: Option<u16>,
    pub(super) factors: Vec<Id>,
}

/// One of the values of an outcome.
pub(super) struct Single {
    pub(super) outcome: u16,
    pub(super) factor: Id,
    pub(super) inverse: Id,
}

/// `first a + second b`.
pub(super) struct Binary {
    pub(super) rule: Option<u16>,
    pub(super) first: Id,
    pub(super) second: Id,
    /// The sources may be exchanged.
    pub(super) commutes: bool,
    /// Both sources may be in one register, and the sum is not 0 then.
    pub(super) takes_equals: bool,
    /// Of the sum, where the first source is looked for, and of the second source then.
    pub(super) back_first: (Id, Id),
    /// The same where the second source is looked for.
    pub(super) back_second: (Id, Id),
    /// Of the sum, where both sources are one.
    pub(super) back_equals: Residue,
}

/// `factor (a + b + c)` of three registers.
pub(super) struct Ternary {
    pub(super) rule: Option<u16>,
    pub(super) factor: Id,
    pub(super) inverse: Id,
}

/// A sum of two or three results of one instruction.
pub(super) struct Twin {
    pub(super) outcome: u16,
    /// The index of the form of the sum: of `ternary` if there are three results, else of `binary`.
    pub(super) form: u16,
    pub(super) results: [Option<u8>; 3],
    /// The source over the sum.
    pub(super) inverse: Residue,
}

/// A sum of two results of one instruction and another value.
pub(super) struct Third {
    pub(super) outcome: u16,
    /// The index of the form among those with three sources.
    pub(super) form: u16,
    pub(super) results: [u8; 2],
    /// What the two results add, as a multiple of the source.
    pub(super) factor: Residue,
}

/// Forms before they are prepared.
#[derive(Default)]
struct Raw {
    unary: Vec<(Option<u16>, Vec<Factor>)>,
    binary: Vec<(Option<u16>, [Factor; 2], bool, bool)>,
    ternary: Vec<(Option<u16>, Factor)>,
}

impl Forms {
    /// The forms of rules; with `signs` a value may be copied and negated besides. `None` for rules of
    /// a kind that proofs do not know.
    pub(super) fn new(rules: &[Rule], signs: bool) -> Option<Forms> {
        let mut raw = Raw::default();
        for (index, rule) in (0..).zip(rules) {
            raw.add(index, rule)?;
        }
        raw.close(signs);
        raw.drop_smaller();
        let is_legal_size = raw.unary.len() + raw.binary.len() < 1 << 12;
        is_legal_size.then(|| raw.prepare()).flatten()
    }

    /// True if turning the array changes nothing but the order.
    pub(super) fn allow(&self, turn: usize) -> bool {
        let factor = |id: Id| self.factors[usize::from(id)].turned(turn);
        let id = |factor: Factor| self.factors.iter().position(|f| *f == factor).map(|id| id as Id);
        let set = |ids: &[Id]| {
            let mut ids: Vec<Option<Id>> = ids.iter().map(|&f| id(factor(f))).collect();
            ids.sort_unstable();
            ids
        };
        let plain = |ids: &[Id]| {
            let mut ids: Vec<Option<Id>> = ids.iter().copied().map(Some).collect();
            ids.sort_unstable();
            ids
        };
        let unary =
            |o: &Outcome| self.outcomes.iter().any(|p| plain(&p.factors) == set(&o.factors));
        let binary = |b: &Binary| {
            let wanted = (id(factor(b.first)), id(factor(b.second)), b.takes_equals);
            let of = |c: &Binary| (Some(c.first), Some(c.second), c.takes_equals);
            self.binary.iter().any(|c| of(c) == wanted)
        };
        let ternary =
            |t: &Ternary| self.ternary.iter().any(|s| Some(s.factor) == id(factor(t.factor)));
        self.outcomes.iter().all(unary)
            && self.binary.iter().all(binary)
            && self.ternary.iter().all(ternary)
    }
}

impl Raw {
    fn add(&mut self, index: u16, rule: &Rule) -> Option<()> {
        let forms = rule.results.iter().map(|form| {
            form.iter().map(|&residue| Factor::of(residue)).collect::<Option<Vec<_>>>()
        });
        let forms = forms.collect::<Option<Vec<_>>>()?;
        match (&forms[0][..], forms.len()) {
            ([], _) => {}
            ([_], _) => {
                for layout in rule.variants.iter().flat_map(|variant| &variant.layouts) {
                    self.unary.push((Some(index), left(layout, &forms)));
                }
            }
            (&[a, b], 1) => {
                self.binary.push((Some(index), [a, b], rule.commutes, rule.takes_equals))
            }
            (&[a, b, c], 1) if a == b && b == c && !repeats(rule) => {
                self.ternary.push((Some(index), a));
            }
            _ => return None,
        }
        Some(())
    }

    /// Adds what forms are when sources are 0.
    fn close(&mut self, signs: bool) {
        for &(_, factor) in &self.ternary {
            let is_pair = |b: &(Option<u16>, [Factor; 2], bool, bool)| b.1 == [factor; 2];
            if !self.binary.iter().any(is_pair) {
                self.binary.push((None, [factor; 2], true, false));
            }
        }
        let mut wanted: BTreeSet<Factor> = self.binary.iter().flat_map(|b| b.1).collect();
        if signs {
            wanted.extend([Factor::ONE, Factor::ONE.negated()]);
        }
        for factor in wanted {
            if !self.unary.iter().any(|(_, factors)| factors.contains(&factor)) {
                self.unary.push((None, vec![factor]));
            }
        }
    }

    /// Removes outcomes that are part of others, and repeated ones.
    fn drop_smaller(&mut self) {
        let mut kept: Vec<(Option<u16>, Vec<Factor>)> = Vec::new();
        let mut all = std::mem::take(&mut self.unary);
        all.sort_by_key(|(_, factors)| std::cmp::Reverse(factors.len()));
        for (rule, factors) in all {
            if !kept.iter().any(|(_, more)| contains(more, &factors)) {
                kept.push((rule, factors));
            }
        }
        self.unary = kept;
    }

    fn prepare(self) -> Option<Forms> {
        let mut forms = Forms {
            factors: vec![Factor::ONE],
            residues: Vec::new(),
            outcomes: Vec::new(),
            singles: Vec::new(),
            binary: Vec::new(),
            ternary: Vec::new(),
            twins: Vec::new(),
            thirds: Vec::new(),
            most_results: self.unary.iter().map(|(_, factors)| factors.len()).max().unwrap_or(1),
        };
        for (rule, factors) in self.unary {
            let outcome = forms.outcomes.len() as u16;
            for &factor in &factors {
                let (factor, inverse) = (forms.id(factor), forms.id(factor.inverse()));
                if !forms.singles.iter().any(|single| single.factor == factor) {
                    forms.singles.push(Single { outcome, factor, inverse });
                }
            }
            let factors = factors.into_iter().map(|factor| forms.id(factor)).collect();
            forms.outcomes.push(Outcome { rule, factors });
        }
        for (rule, [a, b], commutes, takes_equals) in self.binary {
            let sum = a.residue(0).plus(b.residue(0));
            let [over_a, over_b] = [a, b].map(Factor::inverse);
            let of_b = b.times(over_a).negated();
            let of_a = a.times(over_b).negated();
            let binary = Binary {
                rule,
                first: forms.id(a),
                second: forms.id(b),
                commutes,
                takes_equals: takes_equals && sum != Residue::ZERO,
                back_first: (forms.id(over_a), forms.id(of_b)),
                back_second: (forms.id(over_b), forms.id(of_a)),
                back_equals: sum.inverse(),
            };
            forms.binary.push(binary);
        }
        for (rule, factor) in self.ternary {
            let (factor, inverse) = (forms.id(factor), forms.id(factor.inverse()));
            forms.id(Factor::ONE.negated());
            forms.ternary.push(Ternary { rule, factor, inverse });
        }
        forms.residues =
            forms.factors.iter().map(|f| std::array::from_fn(|turn| f.residue(turn))).collect();
        forms.add_twins();
        (forms.factors.len() <= usize::from(Id::MAX)).then_some(forms)
    }
}

impl Forms {
    fn id(&mut self, factor: Factor) -> Id {
        let known = self.factors.iter().position(|known| *known == factor);
        known.unwrap_or_else(|| {
            self.factors.push(factor);
            self.factors.len() - 1
        }) as Id
    }

    /// The factor of an index as a residue.
    pub(super) fn residue(&self, id: Id) -> Residue {
        self.residues[usize::from(id)][0]
    }

    /// Sums of several results of one instruction.
    fn add_twins(&mut self) {
        let (mut twins, mut thirds) = (Vec::new(), Vec::new());
        let mut twin = |outcome, form, results, sum: Residue| {
            if sum != Residue::ZERO {
                twins.push(Twin { outcome, form, results, inverse: sum.inverse() });
            }
        };
        for (outcome, Outcome { factors, .. }) in (0..).zip(&self.outcomes) {
            let value = |result: u8| self.residue(factors[usize::from(result)]);
            let count = factors.len() as u8;
            let pairs = (0..count).flat_map(|a| (0..count).map(move |b| (a, b)));
            for (a, b) in pairs.filter(|(a, b)| a != b) {
                for (form, binary) in (0..).zip(&self.binary) {
                    let first = self.residue(binary.first).times(value(a));
                    let sum = first.plus(self.residue(binary.second).times(value(b)));
                    twin(outcome, form, [Some(a), Some(b), None], sum);
                }
                for (form, ternary) in (0..).zip(&self.ternary).filter(|_| a < b) {
                    let factor = self.residue(ternary.factor);
                    let sum = factor.times(value(a).plus(value(b)));
                    thirds.push(Third { outcome, form, results: [a, b], factor: sum });
                    for c in b + 1..count {
                        let all = sum.plus(factor.times(value(c)));
                        twin(outcome, form, [Some(a), Some(b), Some(c)], all);
                    }
                }
            }
        }
        (self.twins, self.thirds) = (twins, thirds);
    }
}

/// The factors of all that is new after an instruction with one source.
fn left(layout: &Layout, forms: &[Vec<Factor>]) -> Vec<Factor> {
    let new = layout.after.iter().enumerate().filter_map(|(register, content)| match content {
        Content::Result(result) => Some(forms[*result][0]),
        Content::Source(_) if layout.sources[0] != register => Some(Factor::ONE),
        Content::Source(_) | Content::Trash => None,
    });
    let mut factors: Vec<Factor> = new.collect();
    factors.sort_unstable();
    factors
}

/// Two sources may be in one register.
fn repeats(rule: &Rule) -> bool {
    let twice = |layout: &Layout| {
        let sources = &layout.sources;
        (1..sources.len()).any(|index| sources[..index].contains(&sources[index]))
    };
    rule.variants.iter().flat_map(|variant| &variant.layouts).any(twice)
}

/// The first list has all of the second, as often.
fn contains(more: &[Factor], fewer: &[Factor]) -> bool {
    let count = |list: &[Factor], factor| list.iter().filter(|f| **f == factor).count();
    fewer.iter().all(|&factor| count(more, factor) >= count(fewer, factor))
}
