//! Machine descriptions: a preset by its name, or the text of a file.

use crate::{Arch, ArchSource, Preset};
use quincunx_diag::{Diagnostic, Result, did_you_mean, suggestion};
use serde::de::DeserializeOwned;

impl ArchSource {
    /// The machine: the first of `presets`, the one that is named, or what `parse` makes of the
    /// text. Problems of a file get its name.
    ///
    /// # Errors
    /// What `preset` and `parse` say.
    pub fn load<A>(
        &self,
        presets: &[Preset],
        preset: impl FnOnce(&str) -> Result<A>,
        parse: impl FnOnce(&str) -> Result<A>,
    ) -> Result<A> {
        match self {
            ArchSource::Default => match presets.first() {
                Some(first) => preset(first.name),
                None => Err(Diagnostic::bug("a target has at least one preset")),
            },
            ArchSource::Preset(name) => preset(name),
            ArchSource::Text { name, text } => parse(text).map_err(|p| p.name_file(name)),
        }
    }
}

/// What is said about a name that no preset has.
pub fn unknown_preset(
    code: &'static str,
    target: &str,
    presets: &[Preset],
    name: &str,
) -> Diagnostic {
    let names = presets.iter().map(|preset| preset.name);
    Diagnostic::usage(code, format!("{target} has no preset \"{}\"", name.escape_debug()))
        .help(suggestion(name, "presets", names))
}

/// Reads a TOML file; the problem stands where the file is wrong.
///
/// # Errors
/// `code` for text that is not TOML, or has other keys and types than `A`.
pub fn parse_toml<A: DeserializeOwned>(code: &'static str, text: &str) -> Result<A> {
    toml::from_str(text).map_err(|error| {
        let problem = Diagnostic::invalid(code, error.message().to_owned())
            .help_if(key_hint(error.message()));
        match error.span() {
            Some(span) => problem.at_byte(span.start as u64),
            None => problem,
        }
    })
}

/// The key that was probably meant, where the message of a reader is about an unknown one: it names
/// that and then those that are known in backquotes.
pub fn key_hint(message: &str) -> Option<String> {
    let mut names = message.strip_prefix("unknown field `")?.split('`');
    let unknown = names.next()?;
    // Names and what stands between them alternate.
    did_you_mean(unknown, names.skip(1).step_by(2))
}

impl dyn Arch + '_ {
    /// The target's own type of a machine.
    ///
    /// # Errors
    /// A bug when it is the machine of another target.
    pub fn of_target<A: Arch>(&self) -> Result<&A> {
        let own = self.as_any().downcast_ref();
        own.ok_or_else(|| Diagnostic::bug("the architecture is of another target"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const PRESETS: &[Preset] =
        &[Preset { name: "small", summary: "s" }, Preset { name: "big", summary: "b" }];

    fn load(source: &ArchSource) -> Result<BTreeMap<String, u32>> {
        let preset = |name: &str| match name {
            "small" | "big" => Ok(BTreeMap::from([(name.to_owned(), 1)])),
            _ => Err(unknown_preset("Q0599", "toy", PRESETS, name)),
        };
        source.load(PRESETS, preset, |text| parse_toml("Q0598", text))
    }

    #[test]
    fn a_source_is_the_first_preset_a_named_one_or_a_file() {
        let text = |text: &str| ArchSource::Text { name: "m.toml".into(), text: text.into() };
        let key = |source| load(&source).unwrap().into_keys().next().unwrap();
        assert_eq!(key(ArchSource::Default), "small");
        assert_eq!(key(ArchSource::Preset("big".into())), "big");
        assert_eq!(key(text("lanes = 8")), "lanes");
    }

    #[test]
    fn unknown_keys_have_a_suggestion() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only its keys matter")]
        struct Machine {
            lanes: u32,
            rows: u32,
        }
        let help = |text: &str| {
            let problem = parse_toml::<Machine>("Q0598", text).unwrap_err();
            problem.help_text().map(str::to_owned)
        };
        assert_eq!(help("row = 1").as_deref(), Some("did you mean \"rows\"?"));
        assert_eq!(help("lane = 1").as_deref(), Some("did you mean \"lanes\"?"));
        assert_eq!(help("banana = 1"), None);
        assert_eq!(help("lanes = true"), None);
    }

    #[test]
    fn problems_have_a_place_or_a_suggestion() {
        let problem = load(&ArchSource::Preset("smal".into())).unwrap_err();
        assert_eq!((problem.code(), problem.message()), ("Q0599", "toy has no preset \"smal\""));
        assert_eq!(problem.help_text(), Some("did you mean \"small\"?"));
        let text = "lanes = 8\nrows = x\n".to_owned();
        let problem = load(&ArchSource::Text { name: "m.toml".into(), text }).unwrap_err();
        let place = problem.place().unwrap().to_string();
        assert_eq!((problem.code(), place.as_str()), ("Q0598", "m.toml: byte 17"));
    }
}
