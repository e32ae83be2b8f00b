//! Lists of problems, of bounded length.

use crate::{Diagnostic, Severity};

/// Errors that are listed, and as many warnings and notes: more help nobody, and a hostile file must
/// not fill the memory with them.
const MOST: usize = 100;

/// The problems found so far: the first 100 errors and, apart from them, the first 100 warnings and
/// notes.
#[derive(Debug, Default)]
pub struct Problems {
    list: Vec<Diagnostic>,
    errors: usize,
    others: usize,
    stopped: bool,
}

impl Problems {
    /// Adds a problem; one too many is only counted.
    pub fn push(&mut self, problem: Diagnostic) {
        let count = match problem.severity() {
            Severity::Error => &mut self.errors,
            Severity::Warning | Severity::Note => &mut self.others,
        };
        *count += 1;
        if *count <= MOST {
            self.list.push(problem);
        }
    }

    /// Adds an error about a malformed input.
    pub fn error(&mut self, code: &'static str, message: impl Into<String>) {
        self.push(Diagnostic::invalid(code, message));
    }

    /// Adds a warning.
    pub fn warn(&mut self, code: &'static str, message: impl Into<String>) {
        self.push(Diagnostic::warning(code, message));
    }

    /// Adds an error where a rule does not hold.
    pub fn rule(&mut self, holds: bool, code: &'static str, message: impl FnOnce() -> String) {
        if !holds {
            self.error(code, message());
        }
    }

    /// True when no problem was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// True when an error was found.
    pub fn any_error(&self) -> bool {
        self.errors > 0
    }

    /// True when further errors are only counted, so that nothing more need be known about them.
    pub fn is_full(&self) -> bool {
        self.errors >= MOST
    }

    /// As [`Problems::is_full`], for a caller that then stops looking, which the list will say.
    pub fn stop(&mut self) -> bool {
        self.stopped |= self.is_full();
        self.stopped
    }

    /// The problems in the order in which they were found, and a note (`Q0101`) when there are or may
    /// be more of them.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        let more = |found: usize, what: &str| match found.saturating_sub(MOST) {
            0 => None,
            1 => Some(format!("1 more {what}")),
            more => Some(format!("{more} more {what}s")),
        };
        let errors = match self.stopped {
            true => Some(format!("stopped after {MOST} errors")),
            false => more(self.errors, "error"),
        };
        let said: Vec<_> = [errors, more(self.others, "warning")].into_iter().flatten().collect();
        if !said.is_empty() {
            self.list.push(Diagnostic::note("Q0101", said.join(", ")));
        }
        self.list
    }

    /// The warnings and notes.
    ///
    /// # Errors
    /// All problems when one of them is an error.
    pub fn warnings(self) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
        match self.any_error() {
            true => Err(self.finish()),
            false => Ok(self.finish()),
        }
    }
}

impl Extend<Diagnostic> for Problems {
    fn extend<I: IntoIterator<Item = Diagnostic>>(&mut self, problems: I) {
        problems.into_iter().for_each(|problem| self.push(problem));
    }
}

/// Nothing, or the first error, with a note about how many more there are.
///
/// # Errors
/// The first error of the list.
pub fn first_error(problems: impl IntoIterator<Item = Diagnostic>) -> crate::Result<()> {
    let mut errors = problems.into_iter().filter(Diagnostic::is_error);
    let Some(first) = errors.next() else { return Ok(()) };
    Err(match errors.count() {
        0 => first,
        1 => first.with_note("1 more error"),
        more => first.with_note(format!("{more} more errors")),
    })
}

/// The error of a list that a failure came with, as [`first_error`].
pub fn first(problems: Vec<Diagnostic>) -> Diagnostic {
    let bug = || Diagnostic::bug("a failure without an error");
    first_error(problems).err().unwrap_or_else(bug)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> Diagnostic {
        Diagnostic::invalid("Q0001", "wrong")
    }

    fn warning() -> Diagnostic {
        Diagnostic::warning("Q0002", "odd")
    }

    fn last(problems: Problems) -> (usize, String) {
        let list = problems.finish();
        (list.len(), list.last().map_or(String::new(), |last| last.message().to_owned()))
    }

    #[test]
    fn a_list_says_how_many_it_left_out() {
        let mut problems = Problems::default();
        problems.extend((0..101).map(|_| warning()));
        assert!(!problems.any_error() && !problems.is_full() && !problems.stop());
        problems.extend((0..100).map(|_| error()));
        assert!(problems.is_full() && problems.any_error());
        problems.push(warning());
        // Errors have room of their own, and 100 of them are all of them.
        assert_eq!(last(problems), (201, "2 more warnings".to_owned()));

        let mut problems = Problems::default();
        problems.extend((0..102).map(|_| error()).chain((0..101).map(|_| warning())));
        assert_eq!(last(problems), (201, "2 more errors, 1 more warning".to_owned()));
    }

    #[test]
    fn whoever_stops_says_so() {
        let mut problems = Problems::default();
        while !problems.stop() {
            problems.push(error());
        }
        problems.push(error());
        assert_eq!(last(problems), (101, "stopped after 100 errors".to_owned()));
        assert!(
            Problems::default().is_empty() && Problems::default().warnings().unwrap().is_empty()
        );
    }

    #[test]
    fn the_first_error_counts_the_others() {
        assert!(first_error([warning()]).is_ok());
        let notes =
            |errors| first_error((0..errors).map(|_| error())).unwrap_err().notes().to_vec();
        assert!(notes(1).is_empty());
        assert_eq!(
            (first(vec![warning(), error()]).code(), first(vec![]).code()),
            ("Q0001", "Q9999")
        );
        assert_eq!(
            (notes(2), notes(3)),
            (vec!["1 more error".into()], vec!["2 more errors".into()])
        );
    }
}
