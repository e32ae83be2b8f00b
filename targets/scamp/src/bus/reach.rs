//! Which values one or two steps make of others, and which steps do: forwards from what there is,
//! backwards from what is wanted, and where the two meet.

use super::plan::{Id, Kind, MAX_SOURCES, NEWS, REACHED, SLOTS, Source, Whose, read, written};
use super::table::Table;
use crate::search::field::Residue;
use smallvec::{SmallVec, smallvec};

/// A value as it can be read, and what it is.
pub(super) type Known = (Source, Residue);

/// Steps in a row.
pub(super) type Steps = SmallVec<[Made; 2]>;

/// One step of a solution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Made {
    /// The index of the kind.
    pub(super) kind: u8,
    /// Its sources.
    pub(super) sources: SmallVec<[Source; MAX_SOURCES]>,
    /// The NEWS that receives.
    pub(super) news: Option<Whose>,
}

/// Where a value is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a general register.
    General,
    /// In NEWS.
    News,
}

/// What is there: values in general registers, and the one in NEWS.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// Values in general registers.
    pub(super) general: Vec<(Id, Residue)>,
    /// The value in NEWS.
    pub(super) news: Option<(Id, Residue)>,
}

impl State {
    /// All that a step can read: general registers first.
    fn known(&self) -> Vec<Known> {
        let general = self.general.iter().map(|&(id, value)| (Source::of(id), value));
        let whose = 0..REACHED as Whose;
        let news = self.news.iter().flat_map(|&(id, value)| {
            whose.clone().map(move |whose| (Source { id, whose }, value.times(read(whose))))
        });
        general.chain(news).collect()
    }
}

/// Some of the known values, by index, and their sum.
type Chosen = SmallVec<[u8; MAX_SOURCES]>;

/// How a later step reads what an earlier one made.
struct Pattern {
    /// The general copies that it reads.
    copies: usize,
    /// The NEWS that the earlier step writes.
    news: Option<Whose>,
    /// The NEWS that the later step reads.
    reads: SmallVec<[Whose; MAX_SOURCES]>,
    /// The inverse of the factor of the value in the sum.
    inverse: Residue,
}

impl Pattern {
    /// How many sources of the later step it is.
    fn sources(&self) -> usize {
        self.copies + self.reads.len()
    }

    /// How many receivers of the earlier step it takes.
    fn results(&self) -> usize {
        self.copies + usize::from(self.news.is_some())
    }
}

/// A step that makes a value.
struct Entry {
    kind: u8,
    chosen: Chosen,
    reads_news: bool,
}

/// The kinds of steps, prepared.
pub(super) struct Reach {
    kinds: Vec<Kind>,
    patterns: Vec<Pattern>,
    written: [Residue; REACHED],
    unwritten: [Residue; REACHED],
    pairs: Table<[u8; 2]>,
    table: Table<Entry>,
    /// Combinations looked at, the measure of effort.
    pub(super) work: u64,
}

impl Reach {
    /// Prepares kinds of steps.
    pub(super) fn new(kinds: &[Kind]) -> Reach {
        let most = kinds.iter().map(|kind| kind.sources).max().unwrap_or(0);
        Reach {
            kinds: kinds.to_vec(),
            patterns: patterns(most, kinds.iter().any(|kind| kind.results > 1)),
            written: std::array::from_fn(|whose| written(whose as Whose)),
            unwritten: std::array::from_fn(|whose| written(whose as Whose).inverse()),
            pairs: Table::new(),
            table: Table::new(),
            work: 0,
        }
    }

    /// Every way to make the target in one step.
    pub(super) fn one(
        &mut self,
        state: &State,
        target: Residue,
        place: Place,
        found: &mut Vec<Steps>,
    ) {
        let mut known = state.known();
        if place == Place::News {
            known.truncate(state.general.len());
        }
        self.fill_pairs(&known);
        let choices = self.choices(place);
        for (index, kind) in (0..).zip(&self.kinds) {
            for &(news, factor) in &choices {
                let wanted = target.times(factor).times(kind.inverse);
                self.work += 1 + (known.len() * known.len()) as u64 / 4;
                sums_to(&self.pairs, &known, wanted, kind.sources, &mut |chosen| {
                    let sources = chosen.iter().map(|&at| known[usize::from(at)].0).collect();
                    found.push(smallvec![Made { kind: index, sources, news }]);
                });
            }
        }
    }

    /// The receivers that a wanted value may have, with what it is multiplied by to be the result.
    fn choices(&self, place: Place) -> SmallVec<[(Option<Whose>, Residue); REACHED]> {
        match place {
            Place::General => smallvec![(None, Residue::ONE)],
            Place::News => (0..).zip(self.unwritten).map(|(w, factor)| (Some(w), factor)).collect(),
        }
    }

    fn fill_pairs(&mut self, known: &[Known]) {
        self.pairs.clear();
        for (j, b) in (0..).zip(known) {
            for (i, a) in (0..j).zip(known) {
                self.pairs.push(a.1.plus(b.1), [i, j]);
            }
        }
        self.work += self.pairs.entries.len() as u64;
    }

    /// All that one step makes of known values, into the table.
    fn forward(&mut self, known: &[Known], general: usize) {
        self.table.clear();
        let Reach { kinds, table, .. } = self;
        for (index, kind) in (0..).zip(kinds) {
            subsets(known, kind.sources, &mut |chosen, sum| {
                let reads_news = chosen.last().is_some_and(|&at| usize::from(at) >= general);
                let entry = Entry { kind: index, chosen: chosen.clone(), reads_news };
                table.push(sum.times(kind.factor), entry);
            });
        }
        self.work += self.table.entries.len() as u64;
    }

    /// Ways to make the target in two steps, of which the second reads the first, whose values are
    /// named `next` and so on; at most `limit`.
    pub(super) fn two(
        &mut self,
        state: &State,
        (target, place): (Residue, Place),
        next: Id,
        limit: usize,
        found: &mut Vec<Steps>,
    ) {
        let (known, general) = (state.known(), state.general.len());
        self.forward(&known, general);
        let limit = found.len() + limit;
        let choices = self.choices(place);
        let mut work = 0;
        for (index, kind) in (0..).zip(&self.kinds) {
            for pattern in self.patterns.iter().filter(|p| p.sources() <= kind.sources) {
                let is_news = pattern.news.is_some();
                if is_news && place == Place::News {
                    continue;
                }
                let is_all = !is_news && place == Place::General;
                let others = if is_all { &known[..] } else { &known[..general] };
                for &(news, factor) in &choices {
                    let wanted = target.times(factor).times(kind.inverse);
                    subsets(others, kind.sources - pattern.sources(), &mut |chosen, sum| {
                        work += 1;
                        let value = wanted.minus(sum).times(pattern.inverse);
                        for entry in self.table.find(value) {
                            let kind_of_first = &self.kinds[usize::from(entry.kind)];
                            let suits = pattern.results() <= kind_of_first.results
                                && !(is_news && entry.reads_news);
                            if suits && found.len() < limit {
                                let first = made(entry.kind, &entry.chosen, &known, pattern.news);
                                let mut second = made(index, chosen, &known, news);
                                second.sources.extend(pattern.named(next));
                                found.push(smallvec![first, second]);
                            }
                        }
                    });
                }
            }
        }
        self.work += work;
    }

    /// A step that may be of use, by a number: what it makes is not asked for.
    pub(super) fn any(&mut self, state: &State, random: &mut impl FnMut(usize) -> usize) -> Made {
        let known = state.known();
        let is_news = random(3) == 0;
        let known = if is_news { &known[..state.general.len()] } else { &known[..] };
        let kind = random(self.kinds.len());
        let count = random(self.kinds[kind].sources.min(known.len()) + 1);
        let mut sources: SmallVec<[Source; MAX_SOURCES]> = SmallVec::new();
        while sources.len() < count {
            let source = known[random(known.len())].0;
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        let news = is_news.then(|| random(REACHED) as Whose);
        self.work += 1;
        Made { kind: kind as u8, sources, news }
    }

    /// What is there after a step, whose values are named `next` and so on.
    pub(super) fn after(&self, state: &State, made: &Made, next: Id) -> State {
        let mut after = state.clone();
        let value = |source: &Source| {
            let of_id = |&&(id, _): &&(Id, Residue)| id == source.id;
            let own = state.general.iter().chain(&state.news).find(of_id);
            own.map_or(Residue::ZERO, |(_, value)| value.times(read(source.whose)))
        };
        let kind = &self.kinds[usize::from(made.kind)];
        let sum = made.sources.iter().map(value).fold(Residue::ZERO, Residue::plus);
        let result = sum.times(kind.factor);
        let general = kind.results - usize::from(made.news.is_some());
        after.general.extend((0..general).map(|slot| (next + slot as Id, result)));
        if let Some(whose) = made.news {
            let value = result.times(self.written[usize::from(whose)]);
            after.news = Some((next + NEWS as Id, value));
        }
        after
    }
}

impl Pattern {
    /// The sources of the later step, when the values of the earlier one are named `next` and so on.
    fn named(&self, next: Id) -> impl Iterator<Item = Source> {
        let copies = (0..self.copies).map(move |slot| Source::of(next + slot as Id));
        let id = next + NEWS as Id;
        copies.chain(self.reads.iter().map(move |&whose| Source { id, whose }))
    }
}

fn made(kind: u8, chosen: &Chosen, known: &[Known], news: Option<Whose>) -> Made {
    let sources = chosen.iter().map(|&at| known[usize::from(at)].0).collect();
    Made { kind, sources, news }
}

/// Calls `visit` with every choice of at most `most` known values, the indices rising.
fn subsets(known: &[Known], most: usize, visit: &mut impl FnMut(&Chosen, Residue)) {
    fn grow(
        known: &[Known],
        (from, most): (usize, usize),
        chosen: &mut Chosen,
        sum: Residue,
        visit: &mut impl FnMut(&Chosen, Residue),
    ) {
        visit(chosen, sum);
        if most == 0 {
            return;
        }
        for at in from..known.len() {
            chosen.push(at as u8);
            grow(known, (at + 1, most - 1), chosen, sum.plus(known[at].1), visit);
            chosen.pop();
        }
    }
    grow(known, (0, most), &mut Chosen::new(), Residue::ZERO, visit);
}

/// Calls `visit` with every choice of at most `most` known values, of which there is a table of pairs,
/// that sums up to what is wanted.
fn sums_to(
    pairs: &Table<[u8; 2]>,
    known: &[Known],
    wanted: Residue,
    most: usize,
    visit: &mut impl FnMut(&[u8]),
) {
    if wanted == Residue::ZERO {
        visit(&[]);
    }
    for (i, a) in (0..).zip(known) {
        if a.1 == wanted {
            visit(&[i]);
        }
    }
    if most >= 2 {
        pairs.find(wanted).for_each(|pair| visit(pair));
    }
    if most >= 3 {
        for (i, a) in (0..).zip(known) {
            for &[j, k] in pairs.find(wanted.minus(a.1)).filter(|pair| i < pair[0]) {
                visit(&[i, j, k]);
            }
        }
    }
    if most >= 4 {
        for (sum, [i, j]) in &pairs.entries {
            for &[k, l] in pairs.find(wanted.minus(*sum)).filter(|pair| *j < pair[0]) {
                visit(&[*i, *j, k, l]);
            }
        }
    }
}

/// Every pattern with at most `most` sources; with `copies`, those too for which the earlier step
/// has two receivers.
fn patterns(most: usize, copies: bool) -> Vec<Pattern> {
    let mut list: Vec<(Residue, Pattern)> = Vec::new();
    let mut add = |copies: usize, news: Option<Whose>, reads: SmallVec<[Whose; MAX_SOURCES]>| {
        let of_news = reads.iter().map(|&whose| read(whose)).fold(Residue::ZERO, Residue::plus);
        let of_news = news.map_or(Residue::ZERO, |whose| of_news.times(written(whose)));
        let factor = of_news.plus(Residue::of(copies as i64));
        let pattern = Pattern { copies, news, reads, inverse: factor.inverse() };
        let same = |(own, other): &(Residue, Pattern)| {
            *own == factor && other.results() <= pattern.results() && other.copies == pattern.copies
        };
        if !list.iter().any(same) && pattern.sources() <= most {
            list.push((factor, pattern));
        }
    };
    add(1, None, SmallVec::new());
    if copies {
        add(2, None, SmallVec::new());
    }
    for mask in 1_u8..1 << REACHED {
        let reads: SmallVec<[Whose; MAX_SOURCES]> =
            (0..REACHED as Whose).filter(|whose| mask >> whose & 1 == 1).collect();
        for whose in 0..REACHED as Whose {
            add(0, Some(whose), reads.clone());
            if copies {
                add(1, Some(whose), reads.clone());
            }
        }
    }
    list.into_iter().map(|(_, pattern)| pattern).collect()
}

const _: () = assert!(SLOTS > NEWS);
