//! The list of what is wrong, of bounded length.

use quincunx_diag::{Diagnostic, Severity};

/// More errors than this help nobody, and a hostile file must not fill the memory with them. Of
/// warnings as many are kept; they never hide an error.
pub(super) const MAX_PROBLEMS: usize = 100;

/// The problems found so far; only the first few of each severity are kept.
#[derive(Default)]
pub(super) struct Problems {
    list: Vec<Diagnostic>,
    pub(super) errors: usize,
    warnings: usize,
}

impl Problems {
    pub(super) fn push(&mut self, problem: Diagnostic) {
        let count = match problem.severity() {
            Severity::Error => &mut self.errors,
            _ => &mut self.warnings,
        };
        *count += 1;
        if *count <= MAX_PROBLEMS {
            self.list.push(problem);
        }
    }

    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        let kept = |count: usize| count.min(MAX_PROBLEMS);
        let more = self.warnings - kept(self.warnings);
        if self.errors >= MAX_PROBLEMS {
            let text = format!("stopped after {MAX_PROBLEMS} errors");
            self.list.push(Diagnostic::note("Q1049", text));
        } else if more > 0 {
            self.list.push(Diagnostic::note("Q1049", format!("{more} more warnings")));
        }
        self.list
    }
}
