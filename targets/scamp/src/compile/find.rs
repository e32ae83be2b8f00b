//! The choice of a search.

use crate::arch::ScampArch;
use crate::options::{Search, Wishes};
use crate::program::Program;
use crate::task::Task;
use crate::{bus, cain, search};
use quincunx_diag::{Diagnostic, Result};

/// A program for a task, by the search that is wished. Whatever the search, its program is checked.
///
/// # Errors
/// What the search says; a bug when its program is wrong.
pub(super) fn find(task: &Task, arch: &ScampArch, wishes: &Wishes) -> Result<Program> {
    let program = match wishes.search {
        Search::Default if let Some(halving) = wishes.bus => {
            let effort = wishes.effort;
            bus::find(task, arch, bus::Settings { halving, effort, seed: search::SEED })?
        }
        Search::Default => {
            let (leftovers, effort) = (wishes.leftovers, wishes.effort);
            search::attempt(task, arch, search::Settings { leftovers, effort, seed: search::SEED })?
        }
        Search::Cain => {
            // The task has the macros that are wished already.
            let settings = cain::Settings::of_fields(&wishes.cain, cain::OpSet::Task)?;
            cain::search(task, &settings, arch)?.best
        }
    };
    match task.wanted.check(&program)?.first() {
        None => Ok(program),
        Some(problem) => {
            let message = format!("a search went wrong: {}", problem.message());
            Err(Diagnostic::bug(message))
        }
    }
}
