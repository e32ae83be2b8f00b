//! Which values one, two or three instructions make of others: forwards from what there is,
//! backwards from what is wanted, and where the two meet.

use super::field::Residue;
use super::plan::Id;
use super::rules::{MAX_RESULTS, Rule};
use smallvec::{SmallVec, smallvec};

/// A value by its name and what it is.
pub(super) type Known = (Id, Residue);

/// Instructions in a row, each a rule and its sources.
pub(super) type Steps = SmallVec<[Made; 3]>;

/// One instruction of a solution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Made {
    /// The index of the rule.
    pub(super) rule: u16,
    /// The result that is wanted of it.
    pub(super) result: u8,
    /// The sources.
    pub(super) sources: SmallVec<[Id; 4]>,
}

/// Result `result` of a rule with one source.
struct Unary {
    rule: u16,
    result: u8,
    factor: Residue,
    inverse: Residue,
}

/// A rule with two sources.
struct Binary {
    rule: u16,
    factors: [Residue; 2],
    inverses: [Residue; 2],
    commutes: bool,
    /// It takes one value twice.
    takes_equals: bool,
    /// The inverse of what it makes of one value twice, where that is not 0.
    of_equals: Option<Residue>,
}

/// A rule with three sources.
struct Ternary {
    rule: u16,
    factors: [Residue; 3],
    inverses: [Residue; 3],
}

/// The rules by number of sources.
pub(super) struct Reach {
    constant: Vec<u16>,
    unary: Vec<Unary>,
    binary: Vec<Binary>,
    ternary: Vec<Ternary>,
    /// The factor of the second result of each rule with one source.
    left: Vec<Option<Residue>>,
    table: Table,
    fresh: Table,
    /// Combinations looked at, the measure of effort.
    pub(super) work: u64,
}

/// A value that one instruction makes.
#[derive(Clone, Debug)]
struct Entry {
    value: Residue,
    rule: u16,
    result: u8,
    /// Ids; as many as the rule has sources.
    sources: [Id; 3],
}

/// Values by residue.
#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    /// The next entry of the same slot, plus 1.
    next: Vec<u32>,
    /// The first entry of each slot, plus 1, with the age of the table in the upper half.
    slots: Vec<u64>,
    age: u32,
}

impl Table {
    fn clear(&mut self) {
        const SLOTS: usize = 1 << 12;
        if self.slots.is_empty() || self.age == u32::MAX {
            self.slots = vec![0; SLOTS];
            self.age = 0;
        }
        self.age += 1;
        self.entries.clear();
        self.next.clear();
    }

    fn slot(&self, value: Residue) -> usize {
        (value.bits() >> 20) as usize & (self.slots.len() - 1)
    }

    fn push(&mut self, entry: Entry) {
        let slot = self.slot(entry.value);
        self.next.push(self.first(slot));
        self.entries.push(entry);
        self.slots[slot] = u64::from(self.age) << 32 | self.entries.len() as u64;
    }

    /// The first entry of a slot, plus 1.
    #[inline]
    fn first(&self, slot: usize) -> u32 {
        let first = self.slots[slot];
        if (first >> 32) as u32 == self.age { first as u32 } else { 0 }
    }

    /// The entries of a value.
    #[inline]
    fn find(&self, value: Residue) -> impl Iterator<Item = &Entry> {
        let mut at = self.first(self.slot(value));
        std::iter::from_fn(move || {
            while at > 0 {
                let index = at as usize - 1;
                at = self.next[index];
                if self.entries[index].value == value {
                    return Some(&self.entries[index]);
                }
            }
            None
        })
    }
}

/// What a last instruction needs besides values that are known: a value, and its place.
struct Want {
    value: Residue,
    rule: u16,
    result: u8,
    /// Sources, [`WANTED`] where the wanted value goes.
    sources: [Id; 3],
}

/// Stands for the wanted value.
const WANTED: Id = Id::MAX;

/// No source.
const NONE: Id = Id::MAX - 1;

impl Reach {
    /// Prepares rules.
    pub(super) fn new(rules: &[Rule]) -> Reach {
        let mut reach = Reach {
            constant: Vec::new(),
            unary: Vec::new(),
            binary: Vec::new(),
            ternary: Vec::new(),
            left: rules.iter().map(|rule| rule.results.get(1).map(|form| form[0])).collect(),
            table: Table::default(),
            fresh: Table::default(),
            work: 0,
        };
        for (index, rule) in (0..).zip(rules) {
            match rule.results[0][..] {
                [] => reach.constant.push(index),
                [_] => {
                    for (result, form) in (0..).zip(&rule.results) {
                        let (factor, inverse) = (form[0], form[0].inverse());
                        reach.unary.push(Unary { rule: index, result, factor, inverse });
                    }
                }
                [a, b] => reach.binary.push(Binary {
                    rule: index,
                    factors: [a, b],
                    inverses: [a.inverse(), b.inverse()],
                    commutes: rule.commutes,
                    takes_equals: rule.takes_equals,
                    of_equals: (rule.takes_equals && a.plus(b) != Residue::ZERO)
                        .then(|| a.plus(b).inverse()),
                }),
                [a, b, c] => reach.ternary.push(Ternary {
                    rule: index,
                    factors: [a, b, c],
                    inverses: [a.inverse(), b.inverse(), c.inverse()],
                }),
                _ => {}
            }
        }
        reach
    }

    /// All that one instruction makes of known values, of which at least one is from index `from`
    /// on.
    fn forward(&mut self, known: &[Known], from: usize, out: &mut Table) {
        let mut push = |value, rule, result, sources| {
            out.push(Entry { value, rule, result, sources });
        };
        if from == 0 {
            for &rule in &self.constant {
                push(Residue::ZERO, rule, 0, [NONE; 3]);
            }
        }
        for &(id, value) in &known[from..] {
            for unary in &self.unary {
                push(unary.factor.times(value), unary.rule, unary.result, [id, NONE, NONE]);
            }
        }
        for binary in &self.binary {
            let [f, g] = binary.factors;
            for (i, &(a, x)) in known.iter().enumerate() {
                let fx = f.times(x);
                for (j, &(b, y)) in known.iter().enumerate() {
                    let is_new = i >= from || j >= from;
                    let is_kind = match i == j {
                        true => binary.takes_equals,
                        false => !binary.commutes || i < j,
                    };
                    if is_new && is_kind {
                        push(fx.plus(g.times(y)), binary.rule, 0, [a, b, NONE]);
                    }
                }
            }
        }
        for ternary in &self.ternary {
            let [f, g, h] = ternary.factors;
            for (i, &(a, x)) in known.iter().enumerate() {
                for (j, &(b, y)) in known.iter().enumerate().skip(i + 1) {
                    let sum = f.times(x).plus(g.times(y));
                    for (k, &(c, z)) in known.iter().enumerate().skip(j + 1) {
                        if i >= from || j >= from || k >= from {
                            push(sum.plus(h.times(z)), ternary.rule, 0, [a, b, c]);
                        }
                    }
                }
            }
        }
        self.work += out.entries.len() as u64;
    }

    /// The values that would make the target in one instruction together with known ones. With
    /// `from` above 0 only those where a known value from there on takes part.
    fn backward(
        &mut self,
        known: &[Known],
        from: usize,
        target: Residue,
        visit: &mut impl FnMut(&Want),
    ) {
        let mut count = 0;
        let mut want = |value, rule, result, sources| {
            count += 1;
            visit(&Want { value, rule, result, sources });
        };
        if from == 0 {
            for unary in &self.unary {
                let value = unary.inverse.times(target);
                want(value, unary.rule, unary.result, [WANTED, NONE, NONE]);
            }
        }
        for binary in &self.binary {
            let [f, g] = binary.factors;
            let [over_f, over_g] = binary.inverses;
            if let Some(inverse) = binary.of_equals.filter(|_| from == 0) {
                want(inverse.times(target), binary.rule, 0, [WANTED, WANTED, NONE]);
            }
            for &(id, value) in &known[from..] {
                let first = over_f.times(target.minus(g.times(value)));
                want(first, binary.rule, 0, [WANTED, id, NONE]);
                if !binary.commutes {
                    let second = over_g.times(target.minus(f.times(value)));
                    want(second, binary.rule, 0, [id, WANTED, NONE]);
                }
            }
        }
        // Rules with three sources take them in any order.
        for ternary in &self.ternary {
            let [f, g, _] = ternary.factors;
            for (i, &(a, x)) in known.iter().enumerate() {
                for &(b, y) in known.iter().skip((i + 1).max(from)) {
                    let rest = target.minus(f.times(x)).minus(g.times(y));
                    want(ternary.inverses[2].times(rest), ternary.rule, 0, [a, b, WANTED]);
                }
            }
        }
        self.work += count;
    }

    /// Every way to make the target in one instruction.
    pub(super) fn one(&mut self, known: &[Known], target: Residue, found: &mut Vec<Steps>) {
        if target == Residue::ZERO {
            let constant = |&rule: &u16| smallvec![made(rule, 0, [NONE; 3], NONE)];
            found.extend(self.constant.iter().map(constant));
        }
        self.backward(known, 0, target, &mut |want| {
            for (position, &(id, value)) in known.iter().enumerate() {
                if value == want.value && is_canonical(want, id, &known[position + 1..]) {
                    found.push(smallvec![made(want.rule, want.result, want.sources, id)]);
                }
            }
        });
    }

    /// Ways to make the target in two instructions, of which the second reads the first, whose
    /// results are named `next` and so on; at most `limit`.
    pub(super) fn two(
        &mut self,
        known: &[Known],
        target: Residue,
        next: Id,
        limit: usize,
        found: &mut Vec<Steps>,
    ) {
        let mut table = std::mem::take(&mut self.table);
        table.clear();
        self.forward(known, 0, &mut table);
        let limit = found.len() + limit;
        self.backward(known, 0, target, &mut |want| {
            for entry in table.find(want.value) {
                if found.len() < limit {
                    found
                        .push(smallvec![first(entry), second(want, next + Id::from(entry.result))]);
                }
            }
        });
        self.table = table;
    }

    /// Ways to make the target in three instructions, of which each is read by a later one; the
    /// first instruction is tried from number `start` on, and the search ends after the one that
    /// brings the number of ways to `limit`.
    pub(super) fn three(
        &mut self,
        known: &[Known],
        target: Residue,
        next: Id,
        (start, limit): (usize, usize),
        found: &mut Vec<Steps>,
    ) {
        let mut table = std::mem::take(&mut self.table);
        let mut fresh = std::mem::take(&mut self.fresh);
        table.clear();
        self.forward(known, 0, &mut table);
        let count = table.entries.len();
        let limit = found.len() + limit;
        let mut more: Vec<Known> = known.to_vec();
        let after = next + MAX_RESULTS as Id;
        for offset in 0..count {
            let entry = &table.entries[(start + offset) % count];
            if entry.result > 0 {
                continue;
            }
            more.truncate(known.len());
            more.extend(self.results(entry, known, next));
            fresh.clear();
            self.forward(&more, known.len(), &mut fresh);
            for (from, others) in [(0, &fresh), (known.len(), &table)] {
                self.backward(&more, from, target, &mut |want| {
                    for other in others.find(want.value) {
                        let last = second(want, after + Id::from(other.result));
                        found.push(smallvec![first(entry), first(other), last]);
                    }
                });
            }
            if found.len() >= limit {
                break;
            }
        }
        (self.table, self.fresh) = (table, fresh);
    }

    /// The values of an instruction, with names from `next` on.
    fn results(&self, entry: &Entry, known: &[Known], next: Id) -> SmallVec<[Known; MAX_RESULTS]> {
        let mut results = smallvec![(next, entry.value)];
        if let Some(factor) = self.left[usize::from(entry.rule)] {
            let source = known.iter().find(|(id, _)| *id == entry.sources[0]);
            results.extend(source.map(|(_, value)| (next + 1, factor.times(*value))));
        }
        results
    }
}

/// A known value may be the wanted one: it is not among the other sources. Of the ways to write a sum
/// of three only one counts, in which the wanted value is the last of the known ones.
fn is_canonical(want: &Want, id: Id, after: &[Known]) -> bool {
    let is_known = |&source: &Id| source != WANTED && source != NONE;
    let mut named = want.sources.into_iter().filter(is_known);
    let is_ternary = want.sources[2] == WANTED;
    !named.any(|source| source == id || is_ternary && after.iter().any(|(id, _)| *id == source))
}

fn made(rule: u16, result: u8, sources: [Id; 3], wanted: Id) -> Made {
    let sources = sources.into_iter().filter(|&id| id != NONE);
    let sources = sources.map(|id| if id == WANTED { wanted } else { id }).collect();
    Made { rule, result, sources }
}

fn first(entry: &Entry) -> Made {
    made(entry.rule, entry.result, entry.sources, NONE)
}

fn second(want: &Want, wanted: Id) -> Made {
    made(want.rule, want.result, want.sources, wanted)
}
