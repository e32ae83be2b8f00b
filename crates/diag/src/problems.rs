//! Lists of problems, of bounded length.

use crate::Diagnostic;
use std::collections::BTreeMap;

/// Errors that are listed, and as many warnings and notes: more help nobody, and a hostile file must
/// not fill the memory with them.
const MOST: usize = 100;

/// Problems of each code that are listed in any case: many of one kind must not hide another.
const EACH: usize = 3;

/// The problems found so far: the first 100 errors and, apart from them, the first 100 warnings and
/// notes, but at least three of every code. The others are counted.
#[derive(Debug, Default)]
pub struct Problems {
    list: Vec<Diagnostic>,
    errors: Count,
    others: Count,
    /// By code, errors apart from the others.
    codes: BTreeMap<(bool, &'static str), Count>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    found: usize,
    listed: usize,
}

impl Problems {
    /// Adds a problem, or counts it.
    pub fn push(&mut self, problem: Diagnostic) {
        let is_error = problem.is_error();
        let all = if is_error { &mut self.errors } else { &mut self.others };
        let same = self.codes.entry((is_error, problem.code())).or_default();
        let is_listed = all.listed < MOST || same.listed < EACH;
        for count in [all, same] {
            count.found += 1;
            count.listed += usize::from(is_listed);
        }
        if is_listed {
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
        self.errors.found > 0
    }

    /// True when most further errors are only counted, so that little need be known about them.
    pub fn is_full(&self) -> bool {
        self.errors.listed >= MOST
    }

    /// The problems in the order in which they were found, and a note (`Q0101`) with the total of
    /// every code that is not listed in full.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        let hidden = |is_error: bool| {
            let codes = self.codes.iter().filter(move |((error, _), _)| *error == is_error);
            codes.filter(|(_, count)| count.listed < count.found)
        };
        let text = |what: &str, all: Count, is_error: bool| {
            let codes = hidden(is_error).map(|((_, code), Count { found, listed })| {
                format!("{code} {found} times, {listed} shown")
            });
            let list = codes.collect::<Vec<_>>().join("; ");
            (all.listed < all.found).then(|| format!("{} {what} in all: {list}", all.found))
        };
        let errors = text("errors", self.errors, true);
        let others = text("warnings", self.others, false);
        let said: Vec<_> = errors.into_iter().chain(others).collect();
        if !said.is_empty() {
            let more = self.errors.found - self.errors.listed;
            self.list.push(Diagnostic::note("Q0101", said.join("; ")).standing_for(more));
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
    let mut problems = problems.into_iter().skip_while(|problem| !problem.is_error());
    let Some(first) = problems.next() else { return Ok(()) };
    Err(match crate::count_errors(&problems.collect::<Vec<_>>()) {
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
        assert!(!problems.any_error() && !problems.is_full());
        problems.extend((0..100).map(|_| error()));
        assert!(problems.is_full() && problems.any_error());
        problems.push(warning());
        // Errors have room of their own, and 100 of them are all of them.
        let said = "102 warnings in all: Q0002 102 times, 100 shown".to_owned();
        assert_eq!(last(problems), (201, said));

        let mut problems = Problems::default();
        problems.extend((0..102).map(|_| error()).chain((0..101).map(|_| warning())));
        let list = problems.finish();
        assert_eq!((list.len(), crate::count_errors(&list)), (201, 102));
        let said = "102 errors in all: Q0001 102 times, 100 shown; \
                    101 warnings in all: Q0002 101 times, 100 shown";
        assert_eq!(list[200].message(), said);
        assert!(Problems::default().is_empty());
        assert!(Problems::default().warnings().unwrap().is_empty());
    }

    #[test]
    fn no_code_is_hidden() {
        let mut problems = Problems::default();
        problems.extend((0..150).map(|_| error()));
        problems.extend((0..52).map(|_| Diagnostic::invalid("Q0003", "late")));
        problems.push(Diagnostic::invalid("Q0004", "once"));
        let list = problems.finish();
        let count = |code| list.iter().filter(|problem| problem.code() == code).count();
        assert_eq!(["Q0001", "Q0003", "Q0004", "Q0101"].map(count), [100, 3, 1, 1]);
        let said = "203 errors in all: Q0001 150 times, 100 shown; Q0003 52 times, 3 shown";
        assert_eq!(list.last().unwrap().message(), said);
        assert_eq!(crate::count_errors(&list), 203);
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
