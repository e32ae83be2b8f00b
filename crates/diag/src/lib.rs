//! Diagnostics: what went wrong, where, what was expected and what to do.
//!
//! Every error a user can cause is a [`Diagnostic`]. It carries a stable code (`Q0123`), a
//! [`Class`] that decides the exit code, the place (a span of a source text, a model node, a file
//! offset) and help. Parsers never stop at the first problem; they push into a list ([`Problems`]).
//!
//! Rendering is separate from the data: [`render`] offers the long form with source lines, the
//! one-line form and JSON.

mod hint;
mod problems;
pub mod render;
mod source;

pub use hint::{did_you_mean, nearest, suggestion};
pub use problems::{Problems, first, first_error};
pub use source::{Source, SourceId, Sources, Span};

use std::fmt;
use std::io;

/// Shorthand for results whose error is one diagnostic.
pub type Result<T> = std::result::Result<T, Diagnostic>;

/// How bad it is. Only [`Severity::Error`] makes a verb fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Additional information.
    Note,
    /// Suspicious but usable.
    Warning,
    /// The input cannot be used, or the answer is "no".
    Error,
}

/// What kind of problem it is; decides the exit code of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The answer to the question asked is "no" (exit 1).
    Answer,
    /// The command was used wrongly (exit 2).
    Usage,
    /// The input is malformed (exit 3).
    Invalid,
    /// The input is valid but not supported, or does not fit (exit 4).
    Unsupported,
    /// A bug in Quincunx (exit 70).
    Bug,
    /// The file system refuses: no such file, no permission, no space (exit 74).
    System,
}

impl Class {
    /// The process exit code of this class.
    pub fn exit_code(self) -> u8 {
        match self {
            Class::Answer => 1,
            Class::Usage => 2,
            Class::Invalid => 3,
            Class::Unsupported => 4,
            Class::Bug => 70,
            Class::System => 74,
        }
    }
}

/// Where a problem is, for the places that are not spans of a source text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A whole file, or a byte offset in a binary file.
    File {
        /// Path as the user gave it.
        path: String,
        /// Byte offset, if known.
        offset: Option<u64>,
    },
    /// A node of a model.
    Node {
        /// Node name as in the model.
        name: String,
        /// Operator name.
        op: String,
        /// Types and shapes of its operands, in words; may be empty.
        operands: String,
    },
    /// An instruction of a program, counted from 0.
    Instruction(usize),
    /// A line of a text that is a program's only numbering of its instructions, counted from 1.
    Line(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { path, offset: None } => write!(f, "{path}"),
            Place::File { path, offset: Some(at) } => write!(f, "{path}: byte {at}"),
            Place::Node { name, op, operands } if operands.is_empty() => {
                write!(f, "node \"{name}\" ({op})")
            }
            Place::Node { name, op, operands } => write!(f, "node \"{name}\" ({op}, {operands})"),
            Place::Instruction(index) => write!(f, "instruction {index}"),
            Place::Line(number) => write!(f, "line {number}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    severity: Severity,
    class: Class,
    code: &'static str,
    message: String,
    place: Option<Place>,
    labels: Vec<(Span, String)>,
    notes: Vec<String>,
    help: Option<String>,
    /// Errors that are not listed, for the note that says so.
    unlisted: usize,
}

/// One problem, with everything a person needs to act on it.
///
/// One pointer wide, so that it is cheap as the error of a `Result`.
#[derive(Clone, PartialEq, Eq)]
pub struct Diagnostic(Box<Inner>);

impl Diagnostic {
    fn new(
        severity: Severity,
        class: Class,
        code: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Diagnostic(Box::new(Inner {
            severity,
            class,
            code,
            message: message.into(),
            place: None,
            labels: Vec::new(),
            notes: Vec::new(),
            help: None,
            unlisted: 0,
        }))
    }

    /// A malformed input (exit 3).
    pub fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, Class::Invalid, code, message)
    }

    /// Valid but unsupported, or too big (exit 4).
    pub fn unsupported(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, Class::Unsupported, code, message)
    }

    /// The answer is "no" (exit 1).
    pub fn answer(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, Class::Answer, code, message)
    }

    /// The command was used wrongly (exit 2).
    pub fn usage(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, Class::Usage, code, message)
    }

    /// A broken invariant of Quincunx itself (exit 70).
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, Class::Bug, "Q9999", message)
    }

    /// The file system refuses to do this (exit 74), and why.
    pub fn system(code: &'static str, cannot: &str, error: &io::Error) -> Self {
        // Wrappers name temporary files, which say nothing to people.
        let why = error.get_ref().map_or_else(|| error.to_string(), |_| error.kind().to_string());
        Self::new(Severity::Error, Class::System, code, format!("cannot {cannot}: {why}"))
    }

    /// A warning.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, Class::Invalid, code, message)
    }

    /// A note.
    pub fn note(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Note, Class::Invalid, code, message)
    }

    /// Adds a marked piece of source text; the first one is the primary place.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.0.labels.push((span, text.into()));
        self
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.0.place = Some(place);
        self
    }

    /// Sets the place to a file.
    #[must_use]
    pub fn in_file(self, path: impl Into<String>) -> Self {
        self.at(Place::File { path: path.into(), offset: None })
    }

    /// Sets the place to a byte offset in a file whose name the caller adds later with
    /// [`Diagnostic::name_file`].
    #[must_use]
    pub fn at_byte(self, offset: u64) -> Self {
        self.at(Place::File { path: String::new(), offset: Some(offset) })
    }

    /// Fills in the file name where the reader did not know it. A diagnostic with another kind of
    /// place gets the name as a note.
    #[must_use]
    pub fn name_file(mut self, name: &str) -> Self {
        match &mut self.0.place {
            None => self.0.place = Some(Place::File { path: name.to_owned(), offset: None }),
            Some(Place::File { path, .. }) if path.is_empty() => name.clone_into(path),
            Some(Place::File { .. }) => {}
            Some(_) => {
                let note = format!("in {name}");
                if !self.0.notes.contains(&note) {
                    self.0.notes.push(note);
                }
            }
        }
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.0.notes.push(note.into());
        self
    }

    /// Sets the help: what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Sets the help when there is one, for the result of [`did_you_mean`].
    #[must_use]
    pub fn help_if(self, help: Option<String>) -> Self {
        match help {
            Some(text) => self.help(text),
            None => self,
        }
    }

    /// The same problem as a warning, for lenient readers.
    #[must_use]
    pub fn as_warning(mut self) -> Self {
        self.0.severity = Severity::Warning;
        self
    }

    /// The same problem as a note, where it was not asked about.
    #[must_use]
    pub fn as_note(mut self) -> Self {
        self.0.severity = Severity::Note;
        self
    }

    /// The same note, for a list that leaves errors out.
    fn standing_for(mut self, unlisted: usize) -> Self {
        self.0.unlisted = unlisted;
        self
    }

    /// Severity.
    pub fn severity(&self) -> Severity {
        self.0.severity
    }

    /// True for errors.
    pub fn is_error(&self) -> bool {
        self.0.severity == Severity::Error
    }

    /// Class.
    pub fn class(&self) -> Class {
        self.0.class
    }

    /// Stable code such as `Q0101`.
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// One sentence without a trailing full stop.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Place, if it is not a source span.
    pub fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }

    /// Marked source text; the first entry is the primary place.
    pub fn labels(&self) -> &[(Span, String)] {
        &self.0.labels
    }

    /// Notes.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }

    /// What to do, if known.
    pub fn help_text(&self) -> Option<&str> {
        self.0.help.as_deref()
    }
}

/// One line without source text: `error[Q0101]: message (place)`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.0.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}[{}]: {}", self.0.code, self.0.message)?;
        if let Some(place) = &self.0.place {
            write!(f, " ({place})")?;
        }
        if let Some(help) = &self.0.help {
            write!(f, "; help: {help}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Diagnostic {}

/// Lets `?` hand one problem to a caller that expects all of them.
impl From<Diagnostic> for Vec<Diagnostic> {
    fn from(problem: Diagnostic) -> Self {
        vec![problem]
    }
}

/// Errors of a list, also those that it counts only.
pub fn count_errors(diagnostics: &[Diagnostic]) -> usize {
    diagnostics.iter().map(|d| usize::from(d.is_error()) + d.0.unlisted).sum()
}

/// True when any entry is an error.
pub fn any_error(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(Diagnostic::is_error)
}
