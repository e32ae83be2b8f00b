//! The file that says which layer has how many bits.

use super::scheme_named;
use crate::{Failure, InputFile, Outcome};
use quincunx_contract::File;
use quincunx_contract::key_hint;
use quincunx_diag::{Diagnostic, SourceId, Span, did_you_mean};
use quincunx_graph::Graph;
use quincunx_graph::passes::{Grid, Overrides, Recipe, Scheme};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;
use wildmatch::WildMatch;

/// Largest file.
const MAX_BYTES: usize = 1 << 20;

/// Most entries with a pattern: each is compared with every name.
const MAX_PATTERNS: usize = 1000;

/// Settings for all layers and for single ones.
///
/// The file is TOML: the keys `weights` and `activations` (bits), `signed` (codes of activations)
/// and `scheme` (`"affine"`, `"pow2"` or such as `"uniform:FP16BP8"`) at the top hold for every layer; each `[[layer]]` has a
/// `name`, in which `*` stands for any characters and `?` for one, any of these keys, and `skip`.
/// Where several entries fit a layer, later ones outweigh.
#[derive(Clone, Debug)]
pub struct Widths {
    file: File,
    parsed: Parsed,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parsed {
    weights: Option<u32>,
    activations: Option<u32>,
    signed: Option<bool>,
    scheme: Option<SchemeName>,
    #[serde(default)]
    layer: Vec<Entry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
    weights: Option<u32>,
    activations: Option<u32>,
    signed: Option<bool>,
    scheme: Option<SchemeName>,
    skip: Option<bool>,
}

/// `affine`, `pow2`, or `uniform:FP16BP8`, which says the widths as well.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
struct SchemeName {
    grid: Grid,
    width: Option<u32>,
}

impl TryFrom<String> for SchemeName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let (grid, width) = match name.as_str() {
            "affine" => (Grid::Affine, None),
            "pow2" => (Grid::PowerOfTwo, None),
            name => match scheme_named(name) {
                Ok(Scheme::Uniform { width, point }) => (Grid::Uniform { point }, Some(width)),
                _ => {
                    let expected = "expected \"affine\", \"pow2\" or such as \"uniform:FP16BP8\"";
                    return Err(format!("there is no scheme {name:?}, {expected}"));
                }
            },
        };
        Ok(SchemeName { grid, width })
    }
}

impl Widths {
    /// Reads the file.
    ///
    /// # Errors
    /// `Q0628` with the place of what is malformed or unknown.
    pub fn read(input: &InputFile) -> Outcome<Self> {
        let file = input.to_file();
        if file.bytes.len() > MAX_BYTES {
            let message = format!("expected at most {} KiB", MAX_BYTES >> 10);
            return Err(Diagnostic::invalid("Q0628", message).in_file(&input.name).into());
        }
        let parsed: Parsed = toml::from_str(file.text()?).map_err(|error| {
            let problem = Diagnostic::invalid("Q0628", error.message().to_owned())
                .help_if(key_hint(error.message()));
            at(&file, problem, error.span())
        })?;
        let patterns = parsed.layer.iter().filter(|entry| is_pattern(entry.name.get_ref()));
        if patterns.count() > MAX_PATTERNS {
            let message = format!("more than {MAX_PATTERNS} entries with a pattern");
            return Err(Diagnostic::unsupported("Q0628", message).in_file(&input.name).into());
        }
        Ok(Widths { file, parsed })
    }

    /// Puts the settings into a recipe for `graph`, which was made from `original`.
    ///
    /// # Errors
    /// `Q0633` for entries that fit no layer; `Q0315` for widths out of range.
    pub fn apply(&self, recipe: &mut Recipe, original: &Graph, graph: &Graph) -> Outcome<()> {
        let parsed = &self.parsed;
        let all = Overrides {
            grid: parsed.scheme.map(|scheme| scheme.grid),
            weights: parsed.weights.or(parsed.scheme.and_then(|scheme| scheme.width)),
            activations: parsed.activations.or(parsed.scheme.and_then(|scheme| scheme.width)),
            signed: parsed.signed,
            skip: None,
        };
        recipe.default = all.apply(recipe.default);
        self.check(recipe, None)?;
        let nodes: BTreeSet<&str> = graph.nodes().map(|(_, node)| node.name.as_str()).collect();
        let inputs: BTreeSet<&str> =
            graph.inputs().iter().map(|&id| graph[id].name.as_str()).collect();
        let mut problems = Vec::new();
        for entry in &parsed.layer {
            let found = fitting(entry.name.get_ref(), &nodes);
            let found_inputs = fitting(entry.name.get_ref(), &inputs);
            if found.is_empty() && (found_inputs.is_empty() || entry.skip.is_some()) {
                let is_input = !found_inputs.is_empty();
                problems.push(self.unknown(entry, is_input, original, &nodes, &inputs));
                continue;
            }
            for name in found.into_iter().chain(found_inputs) {
                let layer = recipe.layers.entry(name.to_owned()).or_default();
                *layer = layer.with(&entry.overrides());
            }
            self.check(recipe, Some(entry))?;
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(Failure::in_files(problems, std::slice::from_ref(&self.file)))
    }

    /// Checks widths, with the place of the entry that was applied last.
    fn check(&self, recipe: &Recipe, entry: Option<&Entry>) -> Outcome<()> {
        recipe.check().map_err(|problem| at(&self.file, problem, entry.map(|e| e.name.span())))
    }

    fn unknown(
        &self,
        entry: &Entry,
        is_input: bool,
        original: &Graph,
        nodes: &BTreeSet<&str>,
        inputs: &BTreeSet<&str>,
    ) -> Diagnostic {
        let name = entry.name.get_ref();
        let message = match (is_input, is_pattern(name)) {
            (true, _) => format!("{name:?} is an input, which cannot be skipped"),
            (_, true) => format!("no layer matches {name:?}"),
            (_, false) => format!("there is no layer {name:?}"),
        };
        let help = if original.node_named(name).is_some() {
            Some("the node was folded into another one".to_owned())
        } else {
            did_you_mean(name, nodes.iter().chain(inputs).copied())
        };
        Diagnostic::invalid("Q0633", message).label(span(entry.name.span()), "").help_if(help)
    }
}

impl Entry {
    fn overrides(&self) -> Overrides {
        Overrides {
            grid: self.scheme.map(|scheme| scheme.grid),
            weights: self.weights.or(self.scheme.and_then(|scheme| scheme.width)),
            activations: self.activations.or(self.scheme.and_then(|scheme| scheme.width)),
            signed: self.signed,
            skip: self.skip,
        }
    }
}

fn span(range: Range<usize>) -> Span {
    let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Span { source: SourceId(0), start: offset(range.start), end: offset(range.end) }
}

fn at(file: &File, problem: Diagnostic, place: Option<Range<usize>>) -> Failure {
    match place {
        Some(range) => {
            Failure::in_files(vec![problem.label(span(range), "")], std::slice::from_ref(file))
        }
        None => problem.name_file(&file.name).into(),
    }
}

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

fn fitting<'a>(name: &str, names: &BTreeSet<&'a str>) -> Vec<&'a str> {
    if !is_pattern(name) {
        return names.get(name).copied().into_iter().collect();
    }
    let pattern = WildMatch::new(name);
    names.iter().copied().filter(|name| pattern.matches(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, name: &str) -> bool {
        fitting(pattern, &BTreeSet::from([name])) == [name]
    }

    #[test]
    fn patterns() {
        for (pattern, name) in [
            ("conv*", "conv1"),
            ("*", ""),
            ("*", "x"),
            ("c?nv", "cönv"),
            ("*1", "conv11"),
            ("a*b*c", "a-b-b-cc"),
            ("**", "x"),
            ("*/[0]?", "a/b/[0]{"),
            (r"a\*", r"a\b"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("conv*", "Conv1"), ("?", ""), ("a*b", "abc"), ("", "x"), ("x?", "x"), ("?*?", "x")]
        {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn long_patterns_are_quick() {
        let pattern = format!("{}b", "*a".repeat(2000));
        assert!(!fits(&pattern, &"a".repeat(5000)));
    }
}
