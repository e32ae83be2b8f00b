//! The choice of a search.

use super::plain;
use crate::arch::ScampArch;
use crate::options::{Effort, Search, Wishes};
use crate::program::Program;
use crate::task::Task;
use crate::{cain, search};
use quincunx_diag::{Class, Diagnostic, Result};

/// Where random walks begin.
const SEED: u64 = 1;

/// A program for a task, by the search that is wished. Whatever the search, its program is checked.
///
/// # Errors
/// What the search says; a bug when its program is wrong.
pub(super) fn find(task: &Task, arch: &ScampArch, wishes: &Wishes) -> Result<Program> {
    let program = match wishes.search {
        Search::Default => short(task, arch, wishes)?,
        Search::Cain => cain::search(task, &cain::Settings::of_fields(&wishes.cain)?, arch)?.best,
    };
    match task.wanted.check(&program)?.first() {
        None => Ok(program),
        Some(problem) => {
            let message = format!("a search went wrong: {}", problem.message());
            Err(Diagnostic::bug(message))
        }
    }
}

/// A short program; where none is found, the plain one.
fn short(task: &Task, arch: &ScampArch, wishes: &Wishes) -> Result<Program> {
    let effort = search::Effort(match wishes.effort {
        Effort::Fast => 0,
        Effort::Default => 1_000_000,
        Effort::Max => 50_000_000,
    });
    let settings = search::Settings { leftovers: wishes.leftovers, effort, seed: SEED };
    match search::find(task, arch, settings) {
        Err(problem) if problem.class() == Class::Unsupported => {
            plain::find(task, arch).map_err(|_| problem)
        }
        found => found,
    }
}
