//! Plans to begin with: by rule, and from short runs of Cain's search and AUKE's.

use super::random::Random;
use super::{Settings, first, lift};
use crate::arch::ScampArch;
use crate::auke;
use crate::cain::{self, Heuristic, OpSet, Strategy, Traversal};
use crate::search::plan::{Plan, Setting};
use crate::task::Task;
use quincunx_diag::{Class, Result};

/// Combinations of values that take as long as a node of Cain's search, for kernels of few cells.
const WORK_OF_A_NODE: u64 = 60_000;

/// The same for a node of AUKE's search, of which there are fewer.
const WORK_OF_A_SPLIT: u64 = 200_000;

/// Cells of all kernels above which a node takes longer, by the square of their number.
const FEW_CELLS: u64 = 30;

/// Nodes of Cain's search below which a run finds nothing.
const LEAST_NODES: u64 = 50;

/// Most plans that one run of Cain's search contributes.
const PLANS: usize = 4;

/// Most atoms of a goal whose splits are all tried.
const ATOMS: u64 = 4;

/// Different plans, the shortest first.
///
/// # Errors
/// As [`first::plans`] when there is no plan at all; a bug of Cain's search.
pub(super) fn starts(
    task: &Task,
    setting: &Setting,
    arch: &ScampArch,
    settings: Settings,
) -> Result<Vec<Plan>> {
    let by_rule = first::plans(task, setting, &mut Random(settings.seed));
    let mut plans = Vec::new();
    let runs = runs();
    let cells = task.wanted.goals.0.iter().map(|goal| goal.cells().count() as u64).sum::<u64>();
    let square = (cells * cells).div_ceil(FEW_CELLS * FEW_CELLS).max(1);
    let nodes = settings.effort.0 / WORK_OF_A_NODE / square;
    let count = (nodes / 2 / LEAST_NODES).min(runs.len() as u64);
    for (run, (strategy, traversal)) in (0..count).zip(runs) {
        // Where only long runs find anything, one is long.
        let max_nodes = if run == 0 { nodes / 2 } else { nodes / 2 / (count - 1) };
        let seed = settings.seed;
        let cain = cain::Settings { max_nodes, seed, strategy, traversal, ..Default::default() };
        match cain::search(task, &cain, arch) {
            Ok(outcome) => {
                let lifted = |plan: &cain::Plan| lift::lift(&plan.program, setting, task);
                let mut found: Vec<Plan> = outcome.plans.iter().filter_map(lifted).collect();
                found.sort_by_key(|plan| plan.steps.len());
                found.dedup();
                plans.extend(found.into_iter().take(PLANS));
            }
            // What it does not find is no loss: there are plans by rule.
            Err(problem) if problem.class() == Class::Unsupported => {}
            Err(problem) => return Err(problem),
        }
    }
    plans.extend(of_auke(task, setting, arch, settings)?);
    match by_rule {
        Ok(some) => plans.extend(some),
        Err(problem) if plans.is_empty() => return Err(problem),
        Err(_) => {}
    }
    plans.sort_by_key(|plan| plan.steps.len());
    plans.dedup();
    Ok(plans)
}

/// The plan of AUKE's search, whose splits are those that kernels made of smaller ones ask for.
fn of_auke(
    task: &Task,
    setting: &Setting,
    arch: &ScampArch,
    settings: Settings,
) -> Result<Option<Plan>> {
    let max_nodes = settings.effort.0 / WORK_OF_A_SPLIT;
    if max_nodes == 0 {
        return Ok(None);
    }
    match auke::search(task, auke::Settings { max_nodes }, arch) {
        Ok(found) => Ok(lift::lift(&found.program, setting, task)),
        Err(problem) if problem.class() == Class::Unsupported => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// Runs of Cain's search that begin with very different parts, the most useful first.
fn runs() -> Vec<(Strategy, Traversal)> {
    let ops = OpSet::Task;
    let threshold = |heuristic| Strategy::Threshold {
        threshold: ATOMS,
        above: Box::new(Strategy::AtomDistanceSorted { heuristic, ops }),
        below: Box::new(Strategy::Exhaustive { heuristic, ops }),
    };
    let sorted = |heuristic| Strategy::AtomDistanceSorted { heuristic, ops };
    vec![
        (threshold(Heuristic::Pattern), Traversal::Cgds),
        (Strategy::AtomDistance { ops }, Traversal::Dfs),
        (sorted(Heuristic::Pattern), Traversal::Dfs),
        (Strategy::AtomDistance { ops }, Traversal::Cgds),
        (threshold(Heuristic::Paper), Traversal::CgdsN(3)),
        (sorted(Heuristic::Pattern2), Traversal::Dfs),
        (Strategy::AtomDistance { ops }, Traversal::CgdsN(3)),
        (sorted(Heuristic::PaperAsPrinted), Traversal::Cgds),
    ]
}
