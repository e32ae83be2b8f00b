//! Systems with fewer levels: within a bound, or as few as cost no adder.

use super::Problem;
use super::greedy;
use super::random::Random;
use super::search::{self, FIRST, Phases, Plan};
use super::state::{State, least_levels};
use super::system::{System, terms_of};

/// The seed of searches with a bound on levels.
const SEED: u64 = 7;

/// Levels above the fewest that are tried first.
const NEAR: [u8; 2] = [2, 5];

/// How many times the levels are those that are tried first before it is worth a whole search.
const DEEP: u8 = 2;

/// The system with fewer levels, if that takes no more adders.
pub(super) fn balance(problem: &Problem, system: System, plan: &Plan) -> System {
    let is_large = system.cost() as u64 > search::FULL;
    if plan.balance.count == 0 || is_large || search::is_far(problem, &system) {
        return system;
    }
    let mut random = Random::new(SEED);
    let (mut low, mut high) = (least_levels(problem), highest(problem, &system));
    let mut best = system;
    // Greedy runs that mind levels do best where there are few more than the fewest; what is
    // brought down from above does so in the middle.
    let near = NEAR.map(|slack| low + slack);
    let is_deep = high / DEEP > near[0];
    for number in 0..plan.balance.count as usize {
        if low >= high {
            break;
        }
        let first = near.get(number).filter(|&&level| (low..high).contains(&level));
        let middle = *first.unwrap_or(&((low + high) / 2));
        let runs = first.map(|_| plan);
        let mut found = start(problem, &best, runs, middle, &mut random);
        let short = [Phases { count: 1, work: plan.balance.work }];
        for Phases { count, work } in if is_deep && number == 0 { plan.first } else { &short } {
            for _ in 0..*count {
                found = search::phase(problem, &found, Some(middle), *work, &mut random);
            }
        }
        if found.cost() <= best.cost() {
            (best, high) = (found, middle);
        } else {
            low = middle + 1;
        }
    }
    best
}

/// The best system that has `limit` levels at most: what was found without a limit where it has no
/// more, else what becomes of it, or of a greedy run that minds levels.
pub(super) fn bounded(problem: &Problem, free: System, plan: &Plan, limit: u8) -> System {
    let free = balance(problem, free, plan);
    if highest(problem, &free) <= limit {
        return free;
    }
    let mut random = Random::new(SEED);
    let mut best = start(problem, &free, Some(plan), limit, &mut random);
    let mut go_on = |count: u64, work: u64| {
        for _ in 0..count {
            best = search::phase(problem, &best, Some(limit), work, &mut random);
        }
    };
    plan.first.iter().for_each(|phases| go_on(phases.count, phases.work));
    let rounds: u64 = plan.rounds.iter().map(|round| round.phases).sum();
    if rounds > 0 {
        go_on(rounds, plan.left(1) / rounds);
    }
    best
}

/// What becomes of a system within a limit, or the best of the greedy runs of a plan.
fn start(
    problem: &Problem,
    system: &System,
    runs: Option<&Plan>,
    limit: u8,
    random: &mut Random,
) -> System {
    let mut state = State::new(system, problem.inputs(), Some(limit));
    tighten(&mut state, problem);
    greedy::extract_all(&mut state, FIRST, random);
    let runs = runs.and_then(|plan| search::start(problem, plan, Some(limit), random));
    runs.into_iter().chain([state.system()]).min_by_key(System::cost).expect("there are some")
}

/// The highest level of an output.
pub(super) fn highest(problem: &Problem, system: &System) -> u8 {
    State::new(system, problem.inputs(), Some(u8::MAX)).highest_level()
}

/// Brings all outputs to their limit: on the way of a late one down to its latest inputs, sums are
/// put into what reads them, those first that save a level, then those that cost least. What
/// remains late is written in digits again.
fn tighten(state: &mut State, problem: &Problem) {
    while let Some(root) = state.late_row() {
        match best_step(state, root) {
            Some((inner, reader)) => {
                state.inline(inner, reader);
                state.tidy(vec![inner, reader]);
            }
            None => {
                in_digits(state, problem, root);
                // Limits are above the levels of digits; if one were not, `solve` says so.
                if state.late_row() == Some(root) {
                    break;
                }
            }
        }
    }
    state.commit();
}

/// The sum to put into another on the longest way below an output; none if no sum is there whose
/// terms come before it is due.
fn best_step(state: &State, root: usize) -> Option<(usize, usize)> {
    let mut best = None;
    let mut row = root;
    loop {
        let level = |node: u32| state.level_of(node);
        let latest = state.terms(row).iter().map(|term| level(term.node)).max()?;
        let below = |&inner: &usize| level(state.node_of(inner)) == latest;
        let rows = state.terms(row).iter().filter_map(|term| state.row_of(term.node));
        let mut next: Option<(usize, usize)> = None;
        for inner in rows.filter(below) {
            let cost = match state.readers_of(inner).len() {
                1 if !state.is_root(inner) => 0,
                _ => state.terms(inner).len() - 1,
            };
            if next.is_none_or(|(least, _)| cost < least) {
                next = Some((cost, inner));
            }
        }
        let Some((cost, inner)) = next else { break };
        let saves = state.level_with(row, inner) < level(state.node_of(row));
        let helps = saves || state.has_slack(inner);
        let key = (!saves, cost);
        if helps && best.is_none_or(|(least, _)| key < least) {
            best = Some((key, (inner, row)));
        }
        row = inner;
    }
    best.map(|(_, step)| step)
}

/// Writes a column in its signed digits, which are there in time.
fn in_digits(state: &mut State, problem: &Problem, root: usize) {
    let (column, output) = state.column_of(root).expect("only outputs can be late");
    let sign = if output.negate { -1 } else { 1 };
    let rows = 0..problem.inputs().len();
    let form: Vec<i64> =
        rows.map(|row| (problem.weight(row, column) >> output.shift) * sign).collect();
    let mut touched = vec![root];
    while let Some(term) = state.terms(root).first() {
        touched.extend(state.row_of(term.node));
        state.remove(root, 0);
    }
    for term in terms_of(&form) {
        state.add(root, term);
    }
    state.tidy(touched);
}
