//! What one instruction makes of values, and which value it lacks to make a wanted one.

use super::field::Residue;
use super::plan::{Id, Plan, Setting};
use super::rules::{MAX_RESULTS, Rule};

/// Sources of an instruction, as many as its rule has.
pub(super) type Sources = [Id; 3];

/// Stands for a value that is not there.
pub(super) const WANTED: Id = Id::MAX;

/// No source.
pub(super) const NONE: Id = Id::MAX - 1;

/// Result `result` of a rule with one source.
struct Unary {
    rule: u16,
    result: u8,
    factor: usize,
    inverse: usize,
}

/// A rule with two sources: `f a + g b`.
struct Binary {
    rule: u16,
    factors: [usize; 2],
    inverses: [usize; 2],
    /// `g / f` and `f / g`.
    ratios: [usize; 2],
    commutes: bool,
    takes_equals: bool,
    /// What undoes `f + g`, where the rule takes one value twice and that is not 0.
    of_equals: Option<usize>,
}

/// A rule with three sources, in any order: `f a + g b + h c`.
struct Ternary {
    rule: u16,
    factors: [usize; 3],
    inverse: usize,
    /// `f / h` and `g / h`.
    ratios: [usize; 2],
}

/// The rules by number of sources. Factors are indices of a list, with which every value of a plan
/// is multiplied once ([`Products`]).
pub(super) struct Reach {
    factors: Vec<Residue>,
    constant: Vec<u16>,
    unary: Vec<Unary>,
    binary: Vec<Binary>,
    ternary: Vec<Ternary>,
    /// Some rule has a second result.
    pub(super) has_second: bool,
}

/// The values of a plan, each times every factor of the rules.
#[derive(Default)]
pub(super) struct Products {
    width: usize,
    list: Vec<Residue>,
}

impl Products {
    /// The products of a value.
    #[inline]
    pub(super) fn of(&self, id: Id) -> &[Residue] {
        &self.list[usize::from(id) * self.width..][..self.width]
    }

    /// A value itself.
    #[inline]
    pub(super) fn value(&self, id: Id) -> Residue {
        self.list[usize::from(id) * self.width]
    }

    /// The values of a step behind so many inputs go to the place of another step.
    pub(super) fn move_values(&mut self, inputs: usize, from: usize, to: usize) {
        let of_step = MAX_RESULTS * self.width;
        let start = inputs * self.width;
        let (first, last) = (from.min(to), from.max(to));
        let between = &mut self.list[start + first * of_step..start + (last + 1) * of_step];
        match from < to {
            true => between.rotate_left(of_step),
            false => between.rotate_right(of_step),
        }
    }
}

impl Reach {
    /// Prepares rules.
    pub(super) fn new(rules: &[Rule]) -> Reach {
        let has_second = rules.iter().any(|rule| rule.results.len() > 1);
        let mut reach = Reach {
            // What `Products::value` relies on.
            factors: vec![Residue::ONE],
            constant: Vec::new(),
            unary: Vec::new(),
            binary: Vec::new(),
            ternary: Vec::new(),
            has_second,
        };
        for (index, rule) in (0..).zip(rules) {
            reach.add(index, rule);
        }
        reach
    }

    fn add(&mut self, rule: u16, of: &Rule) {
        match of.results[0][..] {
            [] => self.constant.push(rule),
            [_] => {
                for (result, form) in (0..).zip(&of.results) {
                    let (factor, inverse) = (self.index(form[0]), self.index(form[0].inverse()));
                    self.unary.push(Unary { rule, result, factor, inverse });
                }
            }
            [f, g] => {
                let ratios = [g.times(f.inverse()), f.times(g.inverse())];
                let sum = f.plus(g);
                let of_equals = of.takes_equals && sum != Residue::ZERO;
                let binary = Binary {
                    rule,
                    factors: [self.index(f), self.index(g)],
                    inverses: [self.index(f.inverse()), self.index(g.inverse())],
                    ratios: ratios.map(|ratio| self.index(ratio)),
                    commutes: of.commutes,
                    takes_equals: of.takes_equals,
                    of_equals: of_equals.then(|| self.index(sum.inverse())),
                };
                self.binary.push(binary);
            }
            [f, g, h] => {
                let inverse = h.inverse();
                let ternary = Ternary {
                    rule,
                    factors: [self.index(f), self.index(g), self.index(h)],
                    inverse: self.index(inverse),
                    ratios: [f, g].map(|factor| self.index(factor.times(inverse))),
                };
                self.ternary.push(ternary);
            }
            _ => {}
        }
    }

    fn index(&mut self, factor: Residue) -> usize {
        let known = self.factors.iter().position(|other| *other == factor);
        known.unwrap_or_else(|| {
            self.factors.push(factor);
            self.factors.len() - 1
        })
    }

    /// Most values that [`Reach::backward`] visits for so many known ones.
    pub(super) fn most_wants(&self, known: usize) -> usize {
        let ternary = self.ternary.len() * known * known / 2;
        self.unary.len() + self.binary.len() * (2 * known + 1) + ternary
    }

    /// Multiplies the values of a plan, in the place of those of another.
    pub(super) fn products(&self, plan: &Plan, setting: &Setting, products: &mut Products) {
        products.width = self.factors.len();
        products.list.clear();
        for value in plan.values(setting) {
            match value {
                // Most of these are results that a rule does not have.
                Residue::ZERO => products.list.resize(products.list.len() + products.width, value),
                _ => products.list.extend(self.factors.iter().map(|factor| factor.times(value))),
            }
        }
    }

    /// Visits all that one instruction makes of known values: its results, of which only rules with
    /// one source have a second one, its rule and sources. Gives the number of visits.
    #[inline(always)]
    pub(super) fn forward(
        &self,
        known: &[Id],
        products: &Products,
        mut visit: impl FnMut([Option<Residue>; MAX_RESULTS], u16, Sources),
    ) -> u64 {
        let mut count = 0;
        for &rule in &self.constant {
            visit([Some(Residue::ZERO), None], rule, [NONE; 3]);
        }
        for &a in known {
            let of_a = products.of(a);
            for (index, unary) in self.unary.iter().enumerate() {
                if unary.result == 0 {
                    let next = self.unary.get(index + 1).filter(|next| next.rule == unary.rule);
                    let second = next.map(|next| of_a[next.factor]);
                    visit([Some(of_a[unary.factor]), second], unary.rule, [a, NONE, NONE]);
                }
            }
            count += self.unary.len();
        }
        for (i, &a) in known.iter().enumerate() {
            let of_a = products.of(a);
            for (j, &b) in known.iter().enumerate() {
                let of_b = products.of(b);
                for binary in &self.binary {
                    let is_kind = match i == j {
                        true => binary.takes_equals,
                        false => !binary.commutes || i < j,
                    };
                    if is_kind {
                        let [f, g] = binary.factors;
                        visit([Some(of_a[f].plus(of_b[g])), None], binary.rule, [a, b, NONE]);
                    }
                }
                count += self.binary.len();
            }
        }
        for ternary in &self.ternary {
            let [f, g, h] = ternary.factors;
            for (i, &a) in known.iter().enumerate() {
                for (j, &b) in known.iter().enumerate().skip(i + 1) {
                    let sum = products.of(a)[f].plus(products.of(b)[g]);
                    for &c in &known[j + 1..] {
                        visit([Some(sum.plus(products.of(c)[h])), None], ternary.rule, [a, b, c]);
                    }
                    count += known.len() - j - 1;
                }
            }
        }
        count as u64
    }

    /// Visits the values with which, together with known ones, one instruction makes the target: the
    /// value, the rule, the number of the result that the target is, and the sources, [`WANTED`]
    /// where the value goes. Gives the number of visits.
    #[inline(always)]
    pub(super) fn backward(
        &self,
        target: Residue,
        known: &[Id],
        products: &Products,
        mut visit: impl FnMut(Residue, u16, u8, Sources),
    ) -> u64 {
        let undone = |inverse: usize| self.factors[inverse].times(target);
        for unary in &self.unary {
            visit(undone(unary.inverse), unary.rule, unary.result, [WANTED, NONE, NONE]);
        }
        for binary in &self.binary {
            let [first, second] = binary.inverses.map(undone);
            if let Some(inverse) = binary.of_equals {
                visit(undone(inverse), binary.rule, 0, [WANTED, WANTED, NONE]);
            }
            for &id in known {
                let of = products.of(id);
                visit(first.minus(of[binary.ratios[0]]), binary.rule, 0, [WANTED, id, NONE]);
                if !binary.commutes {
                    visit(second.minus(of[binary.ratios[1]]), binary.rule, 0, [id, WANTED, NONE]);
                }
            }
        }
        for ternary in &self.ternary {
            let rest = undone(ternary.inverse);
            let [f, g] = ternary.ratios;
            for (i, &a) in known.iter().enumerate() {
                let rest = rest.minus(products.of(a)[f]);
                for &b in &known[i + 1..] {
                    visit(rest.minus(products.of(b)[g]), ternary.rule, 0, [a, b, WANTED]);
                }
            }
        }
        self.most_wants(known.len()) as u64
    }

    /// As [`Reach::backward`], for an instruction that makes two values: the value, the rule, and the
    /// numbers of their results.
    pub(super) fn backward_both(
        &self,
        targets: [Residue; MAX_RESULTS],
        mut visit: impl FnMut(Residue, u16, [u8; MAX_RESULTS]),
    ) {
        for one in &self.unary {
            for other in self.unary.iter().filter(|other| other.rule == one.rule) {
                let value = self.factors[one.inverse].times(targets[0]);
                let makes_both = self.factors[other.factor].times(value) == targets[1];
                if one.result != other.result && makes_both {
                    visit(value, one.rule, [one.result, other.result]);
                }
            }
        }
    }
}
