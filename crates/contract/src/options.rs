//! Options of a target's compiler and readers: `--set name=value`.

use quincunx_diag::{Diagnostic, Result, did_you_mean, suggestion};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A declared option.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// Name.
    pub name: &'static str,
    /// One line.
    pub doc: &'static str,
    /// Value when not given.
    pub default: &'static str,
    /// What a value may be.
    pub kind: OptionKind,
    /// A word that stands for no value.
    pub word: Option<&'static str>,
    /// What it changes.
    pub uses: &'static [Use],
}

/// What an option changes, from which follow the verbs that take it
/// ([`verbs_of`](crate::Target#method.verbs_of)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The program that is read from native files.
    Read,
    /// The program that becomes of a model, or what the machine takes of it.
    Compile,
    /// The ports or the numbers of a run.
    Run,
    /// What a run tells besides its numbers.
    Notes,
    /// The rules of legality.
    Verify,
    /// Times.
    Time,
    /// The summary of what was compiled.
    Summary,
    /// Native files that are written.
    Write,
    /// What is shown of a program or of another file.
    Show,
}

impl Use {
    /// The verbs that do this; `compiles` says whether the machine has a compiler.
    pub(crate) fn verbs(self, compiles: bool) -> &'static [&'static str] {
        match (self, compiles) {
            (Use::Read, _) => &["run", "verify", "time", "asm", "disasm", "inspect"],
            (Use::Compile, true) => &["compile", "run", "compare", "report", "sweep"],
            // With a model, `verify` runs the program; `sweep` does for accuracies.
            (Use::Run, true) => &["run", "verify", "compare", "report", "sweep"],
            (Use::Run, false) | (Use::Notes, _) => &["run"],
            (Use::Verify, _) => &["verify"],
            (Use::Time, _) => &["time", "report"],
            (Use::Summary, true) => &["compile"],
            (Use::Write, true) => &["compile", "asm"],
            (Use::Write, false) => &["asm"],
            (Use::Show, _) => &["inspect"],
            (Use::Compile | Use::Summary, false) => &[],
        }
    }
}

/// What the value of an option may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionKind {
    /// `true` or `false`.
    Flag,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A whole number between these, with `0x` in hexadecimal.
    Whole(i128, i128),
    /// A number between these.
    Real(f64, f64),
    /// Any text; whoever reads it checks more.
    Text,
    /// The path of a file that the target reads; empty for none.
    File,
}

impl OptionInfo {
    const fn new(
        name: &'static str,
        doc: &'static str,
        default: &'static str,
        kind: OptionKind,
    ) -> OptionInfo {
        OptionInfo { name, doc, default, kind, word: None, uses: &[] }
    }

    /// An option that is on or off.
    pub const fn flag(name: &'static str, doc: &'static str, on: bool) -> OptionInfo {
        OptionInfo::new(name, doc, if on { "true" } else { "false" }, OptionKind::Flag)
    }

    /// An option with words as values.
    pub const fn one_of(
        name: &'static str,
        doc: &'static str,
        default: &'static str,
        words: &'static [&'static str],
    ) -> OptionInfo {
        OptionInfo::new(name, doc, default, OptionKind::OneOf(words))
    }

    /// An option with whole numbers as values.
    pub const fn whole(
        name: &'static str,
        doc: &'static str,
        default: &'static str,
        range: RangeInclusive<i128>,
    ) -> OptionInfo {
        let (from, to) = (*range.start(), *range.end());
        OptionInfo::new(name, doc, default, OptionKind::Whole(from, to))
    }

    /// An option with numbers as values.
    pub const fn real(
        name: &'static str,
        doc: &'static str,
        default: &'static str,
        range: RangeInclusive<f64>,
    ) -> OptionInfo {
        let (from, to) = (*range.start(), *range.end());
        OptionInfo::new(name, doc, default, OptionKind::Real(from, to))
    }

    /// An option with any text as value.
    pub const fn text(name: &'static str, doc: &'static str, default: &'static str) -> OptionInfo {
        OptionInfo::new(name, doc, default, OptionKind::Text)
    }

    /// An option that names a file, or none.
    pub const fn file(name: &'static str, doc: &'static str) -> OptionInfo {
        OptionInfo::new(name, doc, "", OptionKind::File)
    }

    /// The same with a word that stands for no number.
    #[must_use]
    pub const fn or(self, word: &'static str) -> OptionInfo {
        OptionInfo { word: Some(word), ..self }
    }

    /// The same, which changes this. Options of suites of `bench` need not say so.
    #[must_use]
    pub const fn used_by(self, uses: &'static [Use]) -> OptionInfo {
        OptionInfo { uses, ..self }
    }

    /// The values, in words; empty for any text.
    pub fn values(&self) -> String {
        let values = match self.kind {
            OptionKind::Flag => "true, false".to_owned(),
            OptionKind::OneOf(words) => words.join(", "),
            OptionKind::Whole(from, to) => format!("{from} to {to}"),
            OptionKind::Real(from, to) => format!("{from} to {to}"),
            OptionKind::Text | OptionKind::File => String::new(),
        };
        self.word.map_or(values.clone(), |word| format!("{word}, {values}"))
    }

    fn allows(&self, value: &str) -> bool {
        self.word == Some(value)
            || match self.kind {
                OptionKind::Flag => ["true", "false"].contains(&value),
                OptionKind::OneOf(words) => words.contains(&value),
                OptionKind::Whole(from, to) => {
                    whole(value).is_some_and(|number| (from..=to).contains(&number))
                }
                OptionKind::Real(from, to) => {
                    value.parse().is_ok_and(|number| (from..=to).contains(&number))
                }
                OptionKind::Text | OptionKind::File => true,
            }
    }

    /// `Q0502`: what was expected instead of a value.
    fn refuse(&self, value: &str) -> Diagnostic {
        let kind = match self.kind {
            OptionKind::Flag | OptionKind::OneOf(_) => "one of ",
            OptionKind::Whole(..) => "a whole number: ",
            OptionKind::Real(..) | OptionKind::Text | OptionKind::File => "a number: ",
        };
        let (name, shown, values) = (self.name, value.escape_debug(), self.values());
        let message = format!("option {name} is \"{shown}\", expected {kind}{values}");
        let words = match self.kind {
            OptionKind::OneOf(words) => words,
            _ => &[],
        };
        Diagnostic::usage("Q0502", message)
            .help_if(did_you_mean(value, words.iter().copied().chain(self.word)))
    }
}

/// A whole number, decimal or hexadecimal.
fn whole(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Values of a target's options; every name and value was checked against its declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    values: BTreeMap<&'static str, String>,
}

impl Options {
    /// The defaults with some values replaced.
    ///
    /// # Errors
    /// `Q0501` for an unknown name, `Q0502` for a value that is not allowed.
    pub fn new(declared: &'static [OptionInfo], given: &[(String, String)]) -> Result<Self> {
        let values = declared.iter().map(|o| (o.name, o.default.to_owned())).collect();
        Options { values }.with(declared, given)
    }

    /// These options with some values replaced.
    ///
    /// # Errors
    /// As [`Options::new`].
    pub fn with(
        &self,
        declared: &'static [OptionInfo],
        given: &[(String, String)],
    ) -> Result<Self> {
        let mut values = self.values.clone();
        for (name, value) in given {
            let Some(option) = declared.iter().find(|o| o.name == name) else {
                let names = declared.iter().map(|o| o.name);
                return Err(Diagnostic::usage("Q0501", format!("unknown option \"{name}\""))
                    .help(suggestion(name, "options", names)));
            };
            if !option.allows(value) {
                return Err(option.refuse(value));
            }
            values.insert(option.name, value.clone());
        }
        Ok(Options { values })
    }

    /// The value of a declared option.
    ///
    /// # Panics
    /// When the option was not declared, which is a bug of the target.
    pub fn get(&self, name: &str) -> &str {
        match self.values.get(name) {
            Some(value) => value,
            None => panic!("option {name} is read but not declared"),
        }
    }

    /// True when a declared option is `true`.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == "true"
    }

    /// The number of an option, `None` when it is the word for none.
    pub fn whole_or<T: TryFrom<i128>>(&self, name: &str) -> Option<T> {
        whole(self.get(name)).and_then(|number| number.try_into().ok())
    }

    /// The number of an option.
    ///
    /// # Panics
    /// When its declaration allows other values, which is a bug of the target.
    pub fn whole<T: TryFrom<i128>>(&self, name: &str) -> T {
        match self.whole_or(name) {
            Some(number) => number,
            None => panic!("option {name} is not declared as such a number"),
        }
    }

    /// As [`Options::whole_or`].
    pub fn real_or(&self, name: &str) -> Option<f64> {
        self.get(name).parse().ok()
    }

    /// As [`Options::whole`].
    ///
    /// # Panics
    /// When its declaration allows other values, which is a bug of the target.
    pub fn real(&self, name: &str) -> f64 {
        match self.real_or(name) {
            Some(number) => number,
            None => panic!("option {name} is not declared as a number"),
        }
    }

    /// All names and values, in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(&name, value)| (name, value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &[OptionInfo] = &[
        OptionInfo::flag("on", "a flag", true),
        OptionInfo::one_of("side", "a word", "left", &["left", "right"]),
        OptionInfo::whole("mask", "a number", "0", 0..=0xffff),
        OptionInfo::whole("count", "a number or a word", "auto", -1..=16).or("auto"),
        OptionInfo::real("share", "a number", "0.5", 0.0..=1.0),
        OptionInfo::text("name", "a text", ""),
    ];

    fn options(name: &str, value: &str) -> Result<Options> {
        Options::new(DECLARED, &[(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn values_have_the_declared_type() {
        let options = |name, value| options(name, value).unwrap();
        assert!(options("side", "right").flag("on") && !options("on", "false").flag("on"));
        assert_eq!(options("mask", "0xff").whole::<u8>("mask"), 255);
        assert_eq!(options("mask", "7").whole_or::<i8>("count"), None);
        assert_eq!(options("count", "-1").whole_or::<i8>("count"), Some(-1));
        assert_eq!(options("share", "1e-1").real("share"), 0.1);
        assert_eq!(options("name", "any").get("name"), "any");
        let values: Vec<String> = DECLARED.iter().map(OptionInfo::values).collect();
        assert_eq!(
            values,
            ["true, false", "left, right", "0 to 65535", "auto, -1 to 16", "0 to 1", ""]
        );
    }

    #[test]
    fn other_values_are_refused() {
        for (name, value) in [
            ("on", "yes"),
            ("side", "up"),
            ("mask", "-1"),
            ("mask", "65536"),
            ("mask", "x"),
            ("count", "none"),
            ("share", "nan"),
            ("share", "2"),
            ("share", ""),
        ] {
            assert_eq!(options(name, value).unwrap_err().code(), "Q0502", "{name} {value}");
        }
        let problem = options("side", "rigt").unwrap_err();
        assert_eq!(problem.message(), "option side is \"rigt\", expected one of left, right");
        assert_eq!(problem.help_text(), Some("did you mean \"right\"?"));
        let problem = options("sid", "left").unwrap_err();
        assert_eq!(
            (problem.code(), problem.help_text()),
            ("Q0501", Some("did you mean \"side\"?"))
        );
    }
}
