//! Problems found while a model is read.

use quincunx_diag::Diagnostic;

/// More problems than this are only counted.
const MOST: usize = 500;

/// All problems of a model, up to a limit.
#[derive(Default)]
pub(crate) struct Problems {
    shown: Vec<Diagnostic>,
    suppressed: usize,
}

impl Problems {
    /// Records a problem.
    pub(crate) fn push(&mut self, problem: Diagnostic) {
        if self.is_full() {
            self.suppressed += 1;
        } else {
            self.shown.push(problem);
        }
    }

    /// True when problems are only counted, so that nothing more need be known about them.
    pub(crate) fn is_full(&self) -> bool {
        self.shown.len() >= MOST
    }

    /// True when there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// `value` when there is no problem.
    ///
    /// # Errors
    /// The problems, and a note that counts those left out.
    pub(crate) fn or<T>(mut self, value: T) -> Result<T, Vec<Diagnostic>> {
        if self.shown.is_empty() {
            return Ok(value);
        }
        if self.suppressed > 0 {
            let note = format!("{} more problems are not shown", self.suppressed);
            self.shown.push(Diagnostic::note("Q0418", note));
        }
        Err(self.shown)
    }
}

/// An operator with another number of operands than it takes.
pub(crate) fn wrong_count(
    operator: &str,
    (fewest, most): (usize, usize),
    found: usize,
) -> Diagnostic {
    let expected = match (fewest, most) {
        (a, b) if a == b => a.to_string(),
        (a, usize::MAX) => format!("at least {a}"),
        (a, b) => format!("{a} to {b}"),
    };
    let message = format!("{operator} takes {expected} operands, found {found}");
    Diagnostic::invalid("Q0408", message)
}
