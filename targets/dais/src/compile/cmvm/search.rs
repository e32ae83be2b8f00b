//! Where to start, in which domain to search, and the search itself: destroy and repair.

use super::blocks;
use super::decompose::decompose;
use super::exact;
use super::greedy::{self, Taste};
use super::levels;
use super::polish;
use super::random::Random;
use super::resub;
use super::state::{self, State, base, least_levels};
use super::structure;
use super::system::{System, of_digits};
use super::{Effort, Objective, Problem, Settings, Solution};

/// What an effort means. Work is counted in changes of counts of pairs per adder, a measure of
/// time that is the same everywhere.
pub(super) struct Plan {
    /// Effort of exact searches for parts that a structure has several times.
    effort: Effort,
    /// Most pairs of terms that are counted at once; equal ones share their memory.
    pairs: usize,
    /// Lengths of paths in decompositions to start from; 1 is none.
    starts: &'static [usize],
    /// Weights times columns of a problem up to which greedy runs are made in order too, which
    /// take longer.
    in_order: usize,
    /// Decompositions that help little are left out, as those of large problems are.
    is_quick: bool,
    /// Most searches at the beginning; large problems have fewer.
    tries: u64,
    /// Phases of each.
    pub(super) first: &'static [Phases],
    /// Work of all phases; the rounds share what the first ones leave.
    pub(super) work: u64,
    /// Of all searches the best go on, fewer in every round.
    pub(super) rounds: &'static [Round],
    /// Phases for fewer levels, each with one bound on them.
    pub(super) balance: Phases,
    /// Phases for fewer bits.
    polish: Phases,
    /// Phases for fewer bits, at the price of adders.
    trade: Phases,
}

/// Phases of a search; every one begins by turning the system around.
pub(super) struct Phases {
    pub(super) count: u64,
    pub(super) work: u64,
}

/// The searches that go on, and the phases of each.
pub(super) struct Round {
    beam: usize,
    pub(super) phases: u64,
}

impl Plan {
    /// The plan for parts of a structure, of which there may be many.
    fn of_parts(&self) -> &Plan {
        if self.rounds.is_empty() { self } else { &DEFAULT }
    }

    /// Whether the pairs of a system are few enough.
    fn can_count(&self, system: &System) -> bool {
        blocks::pairs_of(system) <= self.pairs
    }

    /// The work that so many searches leave to the rounds.
    pub(super) fn left(&self, searches: u64) -> u64 {
        let spent: u64 = self.first.iter().map(|phases| phases.count * phases.work).sum();
        self.work.saturating_sub(searches * spent)
    }
}

const NONE: Phases = Phases { count: 0, work: 0 };
const FAST: Plan = Plan {
    effort: Effort::Fast,
    pairs: 1 << 21,
    starts: &[1, usize::MAX],
    in_order: 1 << 18,
    is_quick: true,
    tries: 1,
    first: &[Phases { count: 2, work: 200 }],
    work: 400,
    rounds: &[],
    balance: Phases { count: 1, work: 20 },
    polish: NONE,
    trade: Phases { count: 1, work: 200 },
};
/// Without what takes long for the few adders that it saves.
const QUICK: Plan = Plan {
    effort: Effort::Quick,
    in_order: 0,
    first: &[Phases { count: 1, work: 200 }],
    work: 200,
    balance: NONE,
    ..FAST
};
/// Of blocks, which come in numbers.
const GREEDY: Plan = Plan { first: &[], work: 0, in_order: 0, balance: NONE, polish: NONE, ..FAST };
const DEFAULT: Plan = Plan {
    effort: Effort::Default,
    pairs: 1 << 24,
    starts: &[1, 2, 3, usize::MAX],
    in_order: 1 << 18,
    is_quick: false,
    tries: 1,
    first: &[Phases { count: 20, work: 700 }],
    work: 14_000,
    rounds: &[],
    balance: Phases { count: 3, work: 450 },
    polish: Phases { count: 1, work: 600 },
    trade: Phases { count: 2, work: 4000 },
};
/// Begins like the default.
const MAX: Plan = Plan {
    effort: Effort::Max,
    pairs: 1 << 25,
    starts: DEFAULT.starts,
    in_order: DEFAULT.in_order,
    is_quick: false,
    tries: 4,
    first: &[Phases { count: 20, work: 700 }, Phases { count: 4, work: 2000 }],
    work: 320_000,
    rounds: &[Round { beam: 2, phases: 2 }, Round { beam: 2, phases: 2 }],
    balance: Phases { count: 6, work: 9000 },
    polish: Phases { count: 2, work: 9000 },
    trade: Phases { count: 4, work: 30_000 },
};

/// Adders for which a plan has two searches, if it has several.
const LARGE: u64 = 500;

/// Weights that are compared for a decomposition above which there is one only, and none if it does
/// not help much.
const MOST_COMPARED: usize = 1 << 20;

/// Levels above the fewest that are tried for few bits.
const SHALLOW: [u8; 2] = [0, 2];

/// Adders of a system up to which each has the full work; more share it.
pub(super) const FULL: u64 = 2000;

/// How many times the pairs of a side are those of the other one before it is left alone.
const FAR: usize = 2;

/// Pairs up to which the side of the matrix never is.
const CHEAP: usize = 1 << 18;

/// Digits for every adder of a system above which no search that begins with digits finds it.
const MOST_SAVED: usize = 16;

/// Pairs from which only the side of fewer is looked at.
const DEAR: usize = 1 << 20;

/// How many times the structure of a part of a problem counts.
const NESTED: u32 = 2;

/// Pairs that are extracted in order, at most.
const MOST_IN_ORDER: usize = 1 << 17;

/// Weights of a part of a problem below which it is searched.
const SMALL: usize = 300;

/// Sums of equal counts are taken by the width of the adder at first, at random later.
pub(super) const FIRST: Taste = Taste { sample: 2, noise: 0 };
pub(super) const REPAIR: Taste = Taste { sample: 1, noise: 160 };

/// The part of the work that goes into resubstitution.
const RESUBSTITUTION: u64 = 20;

/// Most sums that are dissolved at once.
const DISSOLVED: usize = 8;

/// How often, of 256 rounds, one more adder is allowed.
const CLIMB: u32 = 1;

/// Most levels of an output, so that `2^level` fits.
const MOST_LEVELS: u8 = 60;

/// Rounds after which pairs that were of no use are tried again.
const RETRY: u64 = 64;

/// Rounds in a row that may find nothing to dissolve at no cost. Where nearly all sums are outputs,
/// looking for others is most of the time.
const IDLE: u32 = 64;

/// The most levels of an output above the latest input, with the slack of the settings.
pub(super) fn limit(problem: &Problem, settings: &Settings) -> Option<u8> {
    settings.slack().map(|slack| {
        let slack = u8::try_from(slack).unwrap_or(u8::MAX);
        least_levels(problem).saturating_add(slack).min(MOST_LEVELS)
    })
}

/// The best systems whose outputs have `limit` levels at most: the one of the fewest adders, and if
/// the objective may want fewer bits at the price of adders, others: shallow ones have few bits.
pub(super) fn best_systems(
    problem: &Problem,
    effort: Effort,
    limit: Option<u8>,
    settings: &Settings,
) -> Vec<System> {
    let objective = settings.objective;
    let (plan, plan_of_blocks) = match effort {
        Effort::Quick => (&QUICK, &GREEDY),
        Effort::Fast => (&FAST, &GREEDY),
        Effort::Default => (&DEFAULT, &DEFAULT),
        Effort::Max => (&MAX, &MAX),
    };
    let search = |limit: Option<u8>| best_system(problem, plan, plan_of_blocks, limit);
    if !objective.trades_adders() {
        return vec![search(limit)];
    }
    let least = least_levels(problem);
    let shallow = SHALLOW.map(|slack| Some(least + slack));
    let shallow = shallow.into_iter().filter(|&other| limit.is_none() || other < limit);
    let mut systems = Vec::new();
    for limit in shallow.chain([limit]) {
        let fewest = search(limit);
        if plan.can_count(&fewest) {
            systems.push(polish::polish(problem, &fewest, &plan.trade, limit, true));
        }
        systems.push(fewest);
    }
    systems
}

/// An adder graph as a system with fewer bits and no more adders or levels.
pub(super) fn polished(problem: &Problem, graph: &Solution, limit: Option<u8>) -> System {
    let system = System::of_graph(problem.inputs().len(), graph);
    // The state puts sums that are read once into their readers.
    let system = State::new(&system, problem.inputs(), None).system();
    polish::polish(problem, &system, &DEFAULT.polish, limit, false)
}

/// The system of the fewest adders; parts of a problem that is too large have a plan of their own.
fn best_system(problem: &Problem, plan: &Plan, plan_of_blocks: &Plan, limit: Option<u8>) -> System {
    if let Some(system) = search_rows(problem, plan, limit) {
        return system;
    }
    let Some(blocks) = blocks::split(problem, plan.pairs) else { return of_digits(problem).0 };
    let slack = limit.map_or(0, |limit| limit - least_levels(problem));
    let limits = limit.map(|limit| blocks::limits(blocks.clone(), slack, limit));
    // Blocks of inputs that come at different times can be too late: nothing is shared then.
    if limits == Some(None) {
        return of_digits(problem).0;
    }
    let limits = limits.flatten();
    let solve = |(number, block): (usize, blocks::Block)| {
        let limit = limits.as_ref().map(|limits| limits[number]);
        let system = search_rows(&block.problem, plan_of_blocks, limit)
            .unwrap_or_else(|| of_digits(&block.problem).0);
        system.with_inputs(problem.inputs().len(), &block.rows)
    };
    blocks::join(blocks.enumerate().map(solve).collect())
}

/// [`search_block`] of the inputs that are used; of all where levels count from the latest of them.
fn search_rows(problem: &Problem, plan: &Plan, limit: Option<u8>) -> Option<System> {
    let rows = problem.used_rows();
    let is_relative = base(problem.inputs()) > 0;
    if is_relative || rows.is_empty() || rows.len() == problem.inputs().len() {
        return search_block(problem, plan, limit);
    }
    let system = search_block(&problem.with_rows(&rows), plan, limit)?;
    Some(system.with_inputs(problem.inputs().len(), &rows))
}

/// A search for a problem whose pairs can be counted; none if they cannot.
fn search_block(problem: &Problem, plan: &Plan, limit: Option<u8>) -> Option<System> {
    let free = walks(problem, plan, NESTED)?;
    if !plan.can_count(&free) {
        return limit.is_none().then_some(free);
    }
    let found = match limit {
        None => levels::balance(problem, free, plan),
        Some(limit) => levels::bounded(problem, free, plan, limit),
    };
    Some(polish::polish(problem, &found, &plan.polish, limit, false))
}

/// The best of searches that do not mind levels; they begin with the structure of the matrix too,
/// and with that of its parts so many times.
fn walks(problem: &Problem, plan: &Plan, nested: u32) -> Option<System> {
    let other = problem.transposed();
    let walk = |seed: u64| {
        let mut walk = Walk::start([problem, &other], plan, nested, Random::new(seed))?;
        walk.phases(plan.first);
        Some(walk)
    };
    let first = walk(1)?;
    // Parts have one, so that their number does not multiply.
    let tries = if nested < NESTED { 1 } else { plan.tries };
    let tries = tries.min(2 + LARGE / (1 + first.cost() as u64));
    let mut walks = vec![first];
    walks.extend(
        on_threads((2..=tries).map(|seed| move || walk(seed)).collect()).into_iter().flatten(),
    );
    let left = plan.left(tries);
    for round in plan.rounds {
        // Of equal ones the first.
        walks.sort_by_cached_key(Walk::cost);
        walks.truncate(round.beam);
        let all = plan.rounds.len() as u64 * walks.len() as u64 * round.phases;
        let phases = Phases { count: round.phases, work: left / all };
        let go_on = |walk: &mut Walk<'_>| walk.phases(std::slice::from_ref(&phases));
        on_threads(walks.iter_mut().map(|walk| || go_on(walk)).collect());
    }
    walks.into_iter().min_by_key(Walk::cost).map(Walk::result)
}

/// The results of tasks in their order, each on a thread of its own if there are several.
fn on_threads<T: Send>(tasks: Vec<impl FnOnce() -> T + Send>) -> Vec<T> {
    if tasks.len() < 2 {
        return tasks.into_iter().map(|task| task()).collect();
    }
    std::thread::scope(|scope| {
        let running: Vec<_> =
            tasks.into_iter().map(|task| scope.spawn(quincunx_stop::carried(task))).collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, T>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().map(join).collect()
    })
}

/// A search that is on the side of the matrix or of its transpose in turns: what is a common sum
/// in one is a common reader in the other, so that a search on one side leaves what the other
/// finds.
struct Walk<'a> {
    /// The matrix and its transpose.
    sides: [&'a Problem; 2],
    plan: &'a Plan,
    /// The system is that of the transpose.
    turned: bool,
    system: System,
    random: Random,
    begun: bool,
}

impl<'a> Walk<'a> {
    fn start(
        sides: [&'a Problem; 2],
        plan: &'a Plan,
        nested: u32,
        mut random: Random,
    ) -> Option<Walk<'a>> {
        let [problem, other] = sides;
        let [own, others] = sides.map(blocks::pairs_of_digits);
        // A search takes as many times longer as there are more pairs.
        let far = if own.min(others) > DEAR { 1 } else { FAR };
        let is_here = own <= far * others || !(CHEAP..=plan.pairs).contains(&own);
        let is_there = !is_here || (far > 1 && others <= far * own);
        let by_structure =
            (nested > 0).then(|| by_structure(problem, plan, nested - 1, &mut random)).flatten();
        let is_found = by_structure.as_ref().is_some_and(|system| is_far(problem, system));
        let (is_here, is_there) = (is_here && !is_found, is_there && !is_found);
        let here = is_here.then(|| start(problem, plan, None, &mut random)).flatten();
        let there = is_there.then(|| start(other, plan, None, &mut random)).flatten();
        let here = by_structure.into_iter().chain(here).min_by_key(System::cost);
        let cost = here.as_ref().map(System::cost);
        let there = there.filter(|there| cost.is_none_or(|cost| there.transposed().cost() < cost));
        // Where only the other side can be counted, searches take too long.
        let there = there.filter(|_| !is_here || cost.is_some());
        let turned = there.is_some();
        let system = there.or(here)?;
        Some(Walk { sides, plan, turned, system, random, begun: false })
    }

    fn phases(&mut self, all: &[Phases]) {
        for phases in all {
            for _ in 0..phases.count {
                self.phase(phases.work);
            }
        }
    }

    fn phase(&mut self, work: u64) {
        if std::mem::replace(&mut self.begun, true) {
            self.turn();
        }
        self.system = phase(self.side(), &self.system, None, work, &mut self.random);
    }

    /// Goes to the other side, where that is possible.
    fn turn(&mut self) {
        let turned = self.system.transposed();
        if self.plan.can_count(&turned) {
            self.system = turned;
            self.turned = !self.turned;
        }
    }

    fn side(&self) -> &'a Problem {
        self.sides[usize::from(self.turned)]
    }

    /// Number of adders on the side of the matrix.
    fn cost(&self) -> usize {
        if self.turned { self.system.transposed().cost() } else { self.system.cost() }
    }

    /// The system on the side of the matrix.
    fn result(mut self) -> System {
        if !self.turned {
            return self.system;
        }
        self.system = self.system.transposed();
        match self.plan.can_count(&self.system) {
            // The state inlines sums that are read once.
            true => State::new(&self.system, self.sides[0].inputs(), None).system(),
            false => self.system,
        }
    }
}

/// Whether a system has so few adders that nothing which begins with digits comes near.
pub(super) fn is_far(problem: &Problem, system: &System) -> bool {
    system.cost() * MOST_SAVED < of_digits(problem).0.cost()
}

/// The best system that follows from the structure of a matrix.
fn by_structure(
    problem: &Problem,
    plan: &Plan,
    nested: u32,
    random: &mut Random,
) -> Option<System> {
    let plan_of_parts = plan.of_parts();
    let mut solve = |part: &Problem, copies: usize| {
        let exact = plan_of_parts.effort;
        let exact = if copies > 1 { exact } else { exact.min(Effort::Fast) };
        solve_part(part, plan_of_parts, nested, exact, random)
    };
    let mut systems = structure::systems(problem, &mut solve);
    systems.retain(|system| plan.can_count(system));
    let extracted = systems.iter().map(|system| {
        let mut state = State::new(system, problem.inputs(), None);
        greedy::extract_all(&mut state, FIRST, random);
        state.system()
    });
    extracted.min_by_key(System::cost)
}

/// The best of a few greedy runs; none where pairs cannot be counted.
pub(super) fn start(
    problem: &Problem,
    plan: &Plan,
    limit: Option<u8>,
    random: &mut Random,
) -> Option<System> {
    let (digits, forms) = of_digits(problem);
    let levels = state::levels(problem.inputs());
    let mut best: Option<State> = None;
    let compared = forms.len() * forms.len() * problem.inputs().len();
    for &depth in plan.starts {
        let is_large = compared > MOST_COMPARED;
        if is_large && depth != 1 && depth != usize::MAX {
            continue;
        }
        let mut system = digits.clone();
        if depth > 1 {
            decompose(&mut system, &forms, depth, &levels, limit);
        }
        // What does not become much smaller takes the time of another start for little.
        let is_near = system.cost() * 4 > digits.cost() * 3;
        if !plan.can_count(&system) || ((is_large || plan.is_quick) && depth > 1 && is_near) {
            continue;
        }
        let can_order = compared <= plan.in_order && blocks::pairs_of(&system) <= MOST_IN_ORDER;
        for in_order in [false, true] {
            if in_order && !can_order {
                continue;
            }
            let mut state = State::new(&system, problem.inputs(), limit);
            match in_order {
                false => greedy::extract_all(&mut state, FIRST, random),
                true => greedy::extract_in_order(&mut state),
            }
            if best.as_ref().is_none_or(|best| state.cost() < best.cost()) {
                best = Some(state);
            }
        }
    }
    best.map(|state| state.system())
}

/// The best system of a part of a problem: of a small one after a search.
fn solve_part(
    part: &Problem,
    plan: &Plan,
    nested: u32,
    exact: Effort,
    random: &mut Random,
) -> System {
    if part.weights.len() <= SMALL
        && let Some(system) = walks(part, plan, nested)
    {
        let exact = exact::solve(part, None, exact::Budget::new(exact), Objective::Adders).solution;
        let exact = exact.map(|solution| System::of_graph(part.inputs().len(), &solution));
        let best = std::iter::once(system).chain(exact).min_by_key(System::cost);
        return best.expect("there is one");
    }
    let here = start(part, plan, None, random);
    let there = start(&part.transposed(), plan, None, random).map(|system| system.transposed());
    here.into_iter().chain(there).min_by_key(System::cost).unwrap_or_else(|| of_digits(part).0)
}

/// The system after resubstitution and destroying and repairing, with outputs of `limit` levels at
/// most; `work` is for every adder.
pub(super) fn phase(
    problem: &Problem,
    system: &System,
    limit: Option<u8>,
    work: u64,
    random: &mut Random,
) -> System {
    let mut state = State::new(system, problem.inputs(), limit);
    let work = work * (state.cost() as u64).min(FULL);
    resub::resubstitute(&mut state, work / RESUBSTITUTION, random);
    improve(&mut state, work, random)
}

/// Puts up to `most` random sums of a kind into their readers; false if none was there.
pub(super) fn dissolve_some(
    state: &mut State,
    most: usize,
    kind: impl Fn(&State, usize) -> bool,
    random: &mut Random,
) -> bool {
    let mut any = false;
    for _ in 0..1 + random.below(most) {
        let row = random.below(state.len());
        if kind(state, row) {
            any = true;
            let touched = state.dissolve(row);
            state.tidy(touched);
        }
    }
    any
}

/// Dissolves a few sums and extracts pairs again, and keeps what is not worse, rarely what is one
/// adder worse; the best system on the way.
fn improve(state: &mut State, work: u64, random: &mut Random) -> System {
    state.commit();
    let end = state.pairs.work + work;
    let mut best: Option<(usize, System)> = None;
    let (mut rounds, mut idle) = (0, 0);
    while state.pairs.work < end && (0..state.len()).any(|row| state.is_inner(row)) {
        quincunx_stop::check();
        let before = state.cost();
        let climbs = random.chance(CLIMB);
        if climbs && best.as_ref().is_none_or(|(cost, _)| before < *cost) {
            best = Some((before, state.system()));
        }
        idle = if dissolve_some(state, DISSOLVED, State::is_inner, random) { 0 } else { idle + 1 };
        if idle > IDLE {
            state.pairs.work += 1 + state.len() as u64 / 8;
        }
        rounds += 1;
        if rounds % RETRY == 0 {
            state.pairs.restore();
        }
        greedy::extract_all(state, REPAIR, random);
        if state.cost() > before + usize::from(climbs) {
            state.undo(0);
        }
        state.commit();
    }
    match best {
        Some((cost, system)) if cost < state.cost() => system,
        _ => state.system(),
    }
}
