//! Fewer bits with the same adders.

use super::Problem;
use super::greedy;
use super::levels::highest;
use super::random::Random;
use super::search::{self, FULL, Phases, REPAIR};
use super::state::State;
use super::system::System;

/// The seed of this search.
const SEED: u64 = 11;

/// Most sums that are dissolved at once.
const DISSOLVED: usize = 4;

/// The system with fewer bits, and no more levels; with no more adders either, unless they are
/// traded.
pub(super) fn polish(
    problem: &Problem,
    system: &System,
    phases: &Phases,
    limit: Option<u8>,
    trades: bool,
) -> System {
    let mut system = system.clone();
    if phases.count == 0 {
        return system;
    }
    let limit = limit.unwrap_or_else(|| highest(problem, &system));
    let mut random = Random::new(SEED);
    for _ in 0..phases.count {
        let mut state = State::new(&system, problem.inputs(), Some(limit));
        let work = phases.work * (state.cost() as u64).min(FULL);
        narrow(&mut state, work, trades, &mut random);
        system = state.system();
    }
    system
}

/// Dissolves a few sums and extracts pairs again, and keeps what has fewer adders, or no more of
/// them and no more bits; what has fewer bits, or no more of them and no more adders, if adders are
/// traded.
fn narrow(state: &mut State, work: u64, trades: bool, random: &mut Random) {
    state.commit();
    let end = state.pairs.work + work;
    let mut bits: Vec<u32> = (0..state.len()).map(|row| state.bits_of(row)).collect();
    while state.pairs.work < end && (0..state.len()).any(|row| state.is_read(row)) {
        state.pairs.work += 1 + state.len() as u64 / 8;
        let before = state.cost();
        search::dissolve_some(state, DISSOLVED, State::is_read, random);
        greedy::extract_all(state, REPAIR, random);
        let changed = state.changed();
        bits.resize(state.len(), 0);
        let new: Vec<u32> = changed.iter().map(|&row| state.bits_of(row)).collect();
        let old: u32 = changed.iter().map(|&row| bits[row]).sum();
        let by_bits = new.iter().sum::<u32>().cmp(&old);
        let by_adders = state.cost().cmp(&before);
        let order = if trades { by_bits.then(by_adders) } else { by_adders.then(by_bits) };
        if order.is_gt() {
            state.undo(0);
        } else {
            changed.iter().zip(new).for_each(|(&row, new)| bits[row] = new);
        }
        state.commit();
    }
}
