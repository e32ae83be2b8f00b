//! Many walks: each goes some way, the better half goes on, until one is left.

use super::improve::{Place, Walk};
use super::plan::Plan;
use super::random::Random;
use super::{Best, Settings};

/// What a walk may look at before it is compared with others first, at least.
const FIRST_STRETCH: u64 = 1_000_000;

/// The same for a plan of many steps, by the square of their number.
const STRETCH_OF_STEPS: u64 = 1_500;

/// Most effort for one set of walks; what is beyond goes to further sets.
const SET: u64 = 500_000_000;

/// Walks of a set.
const MOST_WALKS: usize = 64;

/// Walks from plans, of which there is at least one, until the effort is spent.
pub(super) fn walk(starts: &[Plan], settings: Settings, best: &mut Best<'_>) {
    let effort = settings.effort.0;
    let mut seeds = Random(settings.seed);
    let mut walk = Walk::new(best.setting, Place::new(&starts[0], Random(seeds.next())));
    let sets = effort.div_ceil(SET).max(1);
    let mut champion: Option<Plan> = None;
    for set in 1..=sets {
        let end = effort / sets * set;
        // Later sets also go on from the best plan of the earlier ones.
        let from = starts.iter().chain(&champion);
        let mut resting = begin(from, end - end.min(walk.work()), &mut seeds);
        while !resting.is_empty() && walk.work() < end && !best.is_done() {
            let rounds = u64::from(resting.len().next_power_of_two().trailing_zeros()) + 1;
            let share = (end - walk.work()) / rounds / resting.len() as u64;
            for one in &mut resting {
                let limit = walk.work() + share.max(1);
                walk.swap(one);
                while walk.work() < limit && !best.is_done() {
                    quincunx_stop::check();
                    if walk.step(best) {
                        best.offer(walk.plan());
                    }
                }
                walk.swap(one);
            }
            resting.sort_by_key(|one| best.cost(&one.shortest));
            if resting.len() > 1 {
                resting.truncate(resting.len().div_ceil(2));
            }
        }
        champion = resting.into_iter().map(|one| one.shortest).next();
    }
}

/// As many walks as can go their first stretch in a part of the effort.
fn begin<'a>(
    starts: impl Iterator<Item = &'a Plan> + Clone,
    effort: u64,
    seeds: &mut Random,
) -> Vec<Place> {
    let steps = starts.clone().map(|plan| plan.steps.len() as u64).min().unwrap_or(0);
    let stretch = FIRST_STRETCH.max(STRETCH_OF_STEPS * steps * steps);
    let rounds = |walks: usize| u64::from(walks.trailing_zeros()) + 1;
    let fits = |walks: &usize| *walks as u64 * stretch * rounds(*walks) <= effort;
    let sizes = (0..).map(|power| 1 << power).take_while(|walks| *walks <= MOST_WALKS);
    let count = sizes.filter(fits).last().unwrap_or(1);
    starts.cycle().take(count).map(|plan| Place::new(plan, Random(seeds.next()))).collect()
}
