//! Why a verb has no result.

use quincunx_contract::File;
use quincunx_diag::{Class, Diagnostic, Sources};
use std::fmt;

/// Result of a verb.
pub type Outcome<T> = Result<T, Failure>;

/// Diagnostics, at least one of them an error, with the texts their spans point into.
#[derive(Clone)]
pub struct Failure {
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// Texts for the spans.
    pub sources: Sources,
}

impl Failure {
    /// A failure whose spans point into these files; `SourceId(i)` is the file at position `i`.
    pub fn in_files(diagnostics: Vec<Diagnostic>, files: &[File]) -> Self {
        Failure { diagnostics, sources: sources_of(files) }
    }

    /// The same failure, whose spans point into these texts.
    #[must_use]
    pub fn with_sources(mut self, sources: &Sources) -> Self {
        self.sources = sources.clone();
        self
    }

    /// Fills in the file name where the diagnostics have no place.
    #[must_use]
    pub fn name_file(mut self, name: &str) -> Self {
        self.diagnostics = self
            .diagnostics
            .into_iter()
            .map(|d| if d.labels().is_empty() { d.name_file(name) } else { d })
            .collect();
        self
    }

    /// The exit code of the command line.
    pub fn exit_code(&self) -> u8 {
        exit_code(&self.diagnostics)
    }
}

/// Texts of files for the spans of diagnostics; binary files are empty texts.
pub fn sources_of(files: &[File]) -> Sources {
    let mut sources = Sources::new();
    for file in files {
        sources.add(file.name.clone(), file.text().unwrap_or_default());
    }
    sources
}

/// The exit code for a list of diagnostics: a bug outweighs a file system that refuses, which
/// outweighs malformed input, wrong usage, what is not supported, and an answer that is "no". 0
/// without an error.
pub fn exit_code(diagnostics: &[Diagnostic]) -> u8 {
    let order = [
        Class::Bug,
        Class::System,
        Class::Invalid,
        Class::Usage,
        Class::Unsupported,
        Class::Answer,
    ];
    let has = |class: &Class| diagnostics.iter().any(|d| d.is_error() && d.class() == *class);
    order.into_iter().find(has).map_or(0, Class::exit_code)
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        vec![diagnostic].into()
    }
}

impl From<Vec<Diagnostic>> for Failure {
    fn from(diagnostics: Vec<Diagnostic>) -> Self {
        Failure { diagnostics, sources: Sources::new() }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.diagnostics).finish()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.diagnostics.iter().enumerate() {
            let line_break = if index == 0 { "" } else { "\n" };
            write!(f, "{line_break}{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
