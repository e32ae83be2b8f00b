//! The choice of a search.

use crate::arch::ScampArch;
use crate::options::{Effort, Search, Wishes};
use crate::program::Program;
use crate::task::Task;
use crate::{cain, search};
use quincunx_diag::{Diagnostic, Result};

/// Where random walks begin.
const SEED: u64 = 1;

/// A program for a task, by the search that is wished. Whatever the search, its program is checked.
///
/// # Errors
/// What the search says; a bug when its program is wrong.
pub(super) fn find(task: &Task, arch: &ScampArch, wishes: &Wishes) -> Result<Program> {
    let program = match wishes.search {
        Search::Default => {
            let (leftovers, effort) = (wishes.leftovers, effort(wishes.effort));
            search::find(task, arch, search::Settings { leftovers, effort, seed: SEED })?
        }
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

/// The effort of the default search: some hundredths of a second, about a second, half a minute.
fn effort(effort: Effort) -> search::Effort {
    search::Effort(match effort {
        Effort::Fast => 2_000_000,
        Effort::Default => 100_000_000,
        Effort::Max => 3_000_000_000,
    })
}
