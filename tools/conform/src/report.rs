//! Results of cases and how they are printed.

use std::fmt;

/// How many cases of a run passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Totals {
    pub(crate) fn add(&mut self, other: &Totals) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { passed, failed, skipped } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// The result of one golden file or folder.
#[derive(Debug)]
pub(crate) struct Report {
    name: String,
    passed: usize,
    failures: Vec<(String, String)>,
    skipped: Vec<(String, String)>,
    notes: Vec<String>,
}

impl Report {
    pub(crate) fn new(name: &str) -> Report {
        Report {
            name: name.to_owned(),
            passed: 0,
            failures: Vec::new(),
            skipped: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a case that passed, or failed for a reason.
    pub(crate) fn case(&mut self, name: &str, result: Result<(), String>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(reason) => self.failures.push((name.to_owned(), reason)),
        }
    }

    /// Adds a case that needs a tool or a file that is not here.
    pub(crate) fn skip(&mut self, name: &str, reason: impl Into<String>) {
        self.skipped.push((name.to_owned(), reason.into()));
    }

    /// Adds a remark that is not a verdict.
    pub(crate) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals { passed: self.passed, failed: self.failures.len(), skipped: self.skipped.len() }
    }
}

/// The line of the file or folder, and one for every case that failed or was skipped.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.name, self.totals())?;
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        let failures = self.failures.iter().map(|case| (case, "failed"));
        let skipped = self.skipped.iter().map(|case| (case, "skipped"));
        for ((case, reason), what) in failures.chain(skipped) {
            // One line whatever the reason contains.
            let reason = reason.replace('\n', " ");
            writeln!(f, "  {}/{case} {what}: {reason}", self.name)?;
        }
        Ok(())
    }
}
