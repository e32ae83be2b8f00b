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

/// Some of the known values: of each its index plus 1, in a byte; the largest in the lowest.
type Chosen = u32;

const _: () = assert!(MAX_SOURCES * 8 <= Chosen::BITS as usize);

/// All sums of a few known values.
#[derive(Default)]
struct Sums {
    /// Those of fewer values come first.
    list: Vec<(Residue, Chosen)>,
    /// How many are of no more values than this.
    ends: [usize; MAX_SOURCES + 1],
}

impl Sums {
    /// The sums of at most `most` of these.
    fn fill(&mut self, known: &[Known], most: usize) {
        self.list.clear();
        self.list.push((Residue::ZERO, 0));
        self.ends = [1; MAX_SOURCES + 1];
        let mut from = 0;
        for size in 1..=most {
            let to = self.list.len();
            for index in from..to {
                let (sum, chosen) = self.list[index];
                let rest = (1..).zip(known).skip((chosen & 0xff) as usize);
                self.list.extend(rest.map(|(at, one)| (sum.plus(one.1), chosen << 8 | at)));
            }
            from = to;
            self.ends[size..].fill(self.list.len());
        }
    }

    fn up_to(&self, most: usize) -> &[(Residue, Chosen)] {
        &self.list[..self.ends[most]]
    }
}

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

/// The kinds of steps, prepared.
pub(super) struct Reach {
    kinds: Vec<Kind>,
    patterns: Vec<Pattern>,
    /// Sums of general registers only, and of all.
    sums: [Sums; 2],
    /// The sums of two, by their indices.
    pairs: Table<[u8; 2]>,
    /// What one step makes: the kind and its sources.
    table: Table<(u8, Chosen)>,
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
            sums: Default::default(),
            pairs: Table::new(8),
            table: Table::new(12),
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
        let choices = Self::choices(place);
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
    fn choices(place: Place) -> SmallVec<[(Option<Whose>, Residue); REACHED]> {
        match place {
            Place::General => smallvec![(None, Residue::ONE)],
            Place::News => (0..REACHED as Whose).map(|whose| (Some(whose), read(whose))).collect(),
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

    /// All that one step makes of known values, into the table; sums of them into `sums`.
    fn forward(&mut self, known: &[Known], general: usize) {
        let most = self.kinds.iter().map(|kind| kind.sources).max().unwrap_or(0);
        self.sums[0].fill(&known[..general], most);
        self.sums[1].fill(known, most);
        self.table.clear();
        for (index, kind) in (0..).zip(&self.kinds) {
            for &(sum, chosen) in self.sums[1].up_to(kind.sources) {
                self.table.push(sum.times(kind.factor), (index, chosen));
            }
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
        let choices = Self::choices(place);
        let mut work = 0;
        for (index, kind) in (0..).zip(&self.kinds) {
            for pattern in self.patterns.iter().filter(|p| p.sources() <= kind.sources) {
                let is_news = pattern.news.is_some();
                if is_news && place == Place::News {
                    continue;
                }
                let reads_all = !is_news && place == Place::General;
                let others = &self.sums[usize::from(reads_all)];
                let others = others.up_to(kind.sources - pattern.sources());
                work += (others.len() * choices.len()) as u64;
                for &(news, factor) in &choices {
                    let wanted = target.times(factor).times(kind.inverse);
                    for &(sum, chosen) in others {
                        let value = wanted.minus(sum).times(pattern.inverse);
                        for &(kind_of_first, of_first) in self.table.find(value) {
                            let reads_news = (of_first & 0xff) as usize > general;
                            let results = self.kinds[usize::from(kind_of_first)].results;
                            let suits = pattern.results() <= results && !(is_news && reads_news);
                            if suits && found.len() < limit {
                                let first = made(kind_of_first, of_first, &known, pattern.news);
                                let mut second = made(index, chosen, &known, news);
                                second.sources.extend(pattern.named(next));
                                found.push(smallvec![first, second]);
                            }
                        }
                    }
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
            let value = result.times(written(whose));
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

fn made(kind: u8, chosen: Chosen, known: &[Known], news: Option<Whose>) -> Made {
    let indices = chosen.to_be_bytes().into_iter().filter(|&at| at > 0);
    Made { kind, sources: indices.map(|at| known[usize::from(at) - 1].0).collect(), news }
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
