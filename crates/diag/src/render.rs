//! Renderers: for people, one line, and JSON.
//!
//! Text from files can hold anything; characters that would steer a terminal are replaced before
//! they are printed.

use crate::{Diagnostic, Place, Severity, Source, Sources, Span};
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use serde_json::json;
use std::ops::Range;

/// Longer source lines are not shown; they are data, not text someone reads.
const MAX_SHOWN: usize = 1000;

/// The long form: message, place, source lines with labels, notes and help.
pub fn human(diagnostic: &Diagnostic, sources: &Sources, color: bool) -> String {
    let level = match diagnostic.severity() {
        Severity::Note => Level::NOTE,
        Severity::Warning => Level::WARNING,
        Severity::Error => Level::ERROR,
    };
    let title = level.primary_title(printable(diagnostic.message())).id(diagnostic.code());
    let mut group = Group::with_title(title);
    let spans = shown_spans(diagnostic, sources);
    for (id, source, lines) in excerpts(&spans) {
        let first_line = source.line_column(clamp(lines.start)).0;
        let annotations =
            spans.iter().enumerate().filter(|(_, s)| s.span.source == id).map(|(i, s)| {
                let kind = if i == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
                let range = s.range.start - lines.start..s.range.end - lines.start;
                kind.span(range).label(printable(s.label))
            });
        group = group.element(
            Snippet::source(printable(&source.text[lines.clone()]))
                .line_start(first_line)
                .path(printable(&source.name))
                .annotations(annotations),
        );
    }
    if spans.is_empty()
        && let Some(place) = place(diagnostic, sources)
    {
        group = group.element(Origin::path(printable(&place)));
    }
    for note in diagnostic.notes() {
        group = group.element(Level::NOTE.message(printable(note)));
    }
    if let Some(help) = diagnostic.help_text() {
        group = group.element(Level::HELP.message(printable(help)));
    }
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    renderer.render(&[group])
}

/// One line: `file:line:column: error[Q0123]: text`.
pub fn short(diagnostic: &Diagnostic, sources: &Sources) -> String {
    let severity = severity_name(diagnostic.severity());
    let text = format!("{severity}[{}]: {}", diagnostic.code(), diagnostic.message());
    let line = match place(diagnostic, sources) {
        Some(place) => format!("{place}: {text}"),
        None => text,
    };
    printable(&line).replace(['\n', '\t'], " ")
}

/// One JSON object on one line.
pub fn json(diagnostic: &Diagnostic, sources: &Sources) -> String {
    let label = |(span, text): &(Span, String)| {
        let (file, line, column) = locate(*span, sources).unzip3();
        json!({ "file": file, "line": line, "column": column, "start": span.start, "end": span.end, "text": text })
    };
    let (file, line, column) = first(diagnostic, sources).unzip3();
    json!({
        "severity": severity_name(diagnostic.severity()),
        "code": diagnostic.code(),
        "message": diagnostic.message(),
        "place": diagnostic.place().map(ToString::to_string),
        "file": file,
        "line": line,
        "column": column,
        "labels": diagnostic.labels().iter().map(label).collect::<Vec<_>>(),
        "notes": diagnostic.notes(),
        "help": diagnostic.help_text(),
        "exit": diagnostic.class().exit_code(),
    })
    .to_string()
}

fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// Where it is, in words: the first label, else the place.
pub fn place(diagnostic: &Diagnostic, sources: &Sources) -> Option<String> {
    match first(diagnostic, sources) {
        Some((file, line, column)) => Some(format!("{file}:{line}:{column}")),
        None => diagnostic.place().map(ToString::to_string),
    }
}

/// Marked source text; a byte of a file is one when the text of the file is known.
fn marks<'a>(diagnostic: &'a Diagnostic, sources: &Sources) -> Vec<(Span, &'a str)> {
    match diagnostic.place() {
        Some(Place::File { path, offset: Some(offset) }) if diagnostic.labels().is_empty() => {
            sources.character(path, *offset).into_iter().map(|span| (span, "")).collect()
        }
        _ => diagnostic.labels().iter().map(|(span, text)| (*span, text.as_str())).collect(),
    }
}

/// File, line and column of the primary mark.
fn first(diagnostic: &Diagnostic, sources: &Sources) -> Option<(String, usize, usize)> {
    marks(diagnostic, sources).first().and_then(|(span, _)| locate(*span, sources))
}

fn locate(span: Span, sources: &Sources) -> Option<(String, usize, usize)> {
    let source = sources.get(span.source)?;
    let (line, column) = source.line_column(span.start);
    Some((source.name.clone(), line, column))
}

/// Turns an optional triple into a triple of options.
trait Unzip3<A, B, C> {
    fn unzip3(self) -> (Option<A>, Option<B>, Option<C>);
}

impl<A, B, C> Unzip3<A, B, C> for Option<(A, B, C)> {
    fn unzip3(self) -> (Option<A>, Option<B>, Option<C>) {
        match self {
            Some((a, b, c)) => (Some(a), Some(b), Some(c)),
            None => (None, None, None),
        }
    }
}

/// A label whose text can be shown.
struct Shown<'a> {
    span: Span,
    source: &'a Source,
    range: Range<usize>,
    label: &'a str,
}

/// Labels in known texts, with their ranges moved onto character boundaries.
fn shown_spans<'a>(diagnostic: &'a Diagnostic, sources: &'a Sources) -> Vec<Shown<'a>> {
    marks(diagnostic, sources)
        .into_iter()
        .filter_map(|(span, label)| {
            let source = sources.get(span.source)?;
            let start = floor_boundary(&source.text, span.start as usize);
            let end = floor_boundary(&source.text, span.end as usize).max(start);
            let shown = Shown { span, source, range: start..end, label };
            (line_range(&source.text, &shown.range).len() <= MAX_SHOWN).then_some(shown)
        })
        .collect()
}

/// For each text with labels, in order of appearance, the lines that hold them.
fn excerpts<'a>(spans: &[Shown<'a>]) -> Vec<(crate::SourceId, &'a Source, Range<usize>)> {
    let mut excerpts: Vec<(crate::SourceId, &Source, Range<usize>)> = Vec::new();
    for shown in spans {
        let lines = line_range(&shown.source.text, &shown.range);
        match excerpts.iter_mut().find(|(id, _, _)| *id == shown.span.source) {
            Some((_, _, all)) => *all = all.start.min(lines.start)..all.end.max(lines.end),
            None => excerpts.push((shown.span.source, shown.source, lines)),
        }
    }
    excerpts
}

/// The whole lines around a range.
fn line_range(text: &str, range: &Range<usize>) -> Range<usize> {
    let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[range.end..].find('\n').map_or(text.len(), |at| range.end + at);
    start..end
}

fn floor_boundary(text: &str, offset: usize) -> usize {
    text.floor_char_boundary(offset)
}

fn clamp(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// The text with every character that steers a terminal or reorders text replaced by as many `?`
/// as it has bytes, so that offsets stay right.
fn printable(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for character in text.chars() {
        let steers = character.is_control() && !matches!(character, '\n' | '\t')
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        if steers {
            result.extend(std::iter::repeat_n('?', character.len_utf8()));
        } else {
            result.push(character);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceId;

    fn sources() -> (Sources, SourceId) {
        let mut sources = Sources::new();
        let id = sources.add("a.dasm", "first line\n%1 = ad %0, größer\nlast");
        (sources, id)
    }

    fn span(source: SourceId, start: u32, end: u32) -> Span {
        Span { source, start, end }
    }

    #[test]
    fn long_form_shows_the_line_and_the_help() {
        let (sources, id) = sources();
        let problem = Diagnostic::invalid("Q0001", "unknown instruction")
            .label(span(id, 16, 18), "not an instruction")
            .with_note("a note")
            .help("did you mean \"add\"?");
        let text = human(&problem, &sources, false);
        for part in [
            "error[Q0001]: unknown instruction",
            "a.dasm:2:6",
            "2 | %1 = ad %0, größer",
            "^^ not an instruction",
            "note: a note",
            "help: did you mean \"add\"?",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("first line") && !text.contains('\u{1b}'));
        assert!(human(&problem, &sources, true).contains('\u{1b}'));
    }

    #[test]
    fn short_form_is_one_line() {
        let (sources, id) = sources();
        let problem = Diagnostic::warning("Q0002", "two\nlines").label(span(id, 11, 13), "");
        assert_eq!(short(&problem, &sources), "a.dasm:2:1: warning[Q0002]: two lines");
        let node = Diagnostic::unsupported("Q0003", "no").at(Place::Node {
            name: "c".to_owned(),
            op: "Conv".to_owned(),
            operands: "f32[1]".to_owned(),
        });
        assert_eq!(short(&node, &sources), "node \"c\" (Conv, f32[1]): error[Q0003]: no");
        assert!(human(&node, &sources, false).contains("--> node \"c\" (Conv, f32[1])"));
    }

    #[test]
    fn json_form_parses() {
        let (sources, id) = sources();
        let problem =
            Diagnostic::invalid("Q0004", "bad").label(span(id, 16, 18), "here").help("do");
        let value: serde_json::Value = serde_json::from_str(&json(&problem, &sources)).unwrap();
        assert_eq!(value["line"], 2);
        assert_eq!(value["exit"], 3);
        assert_eq!(value["labels"][0]["text"], "here");
        assert_eq!(value["help"], "do");
    }

    #[test]
    fn bytes_of_known_texts_are_shown_as_lines() {
        let (mut sources, _) = sources();
        sources.add("code", "ab\u{0}c");
        let at = |name: &str, offset| {
            Diagnostic::invalid("Q0007", "bad").at_byte(offset).name_file(name)
        };
        let text = human(&at("a.dasm", 16), &sources, false);
        assert!(text.contains("a.dasm:2:6") && text.contains("2 | %1 = ad %0, größer"), "{text}");
        assert!(text.contains("     ^"), "{text}");
        assert_eq!(short(&at("a.dasm", 16), &sources), "a.dasm:2:6: error[Q0007]: bad");
        let value: serde_json::Value =
            serde_json::from_str(&json(&at("a.dasm", 16), &sources)).unwrap();
        assert_eq!((&value["file"], &value["line"]), (&"a.dasm".into(), &2.into()));
        assert_eq!(value["place"], "a.dasm: byte 16");
        // Behind the end, at the end of a line, in what is not text, and in an unknown file.
        assert!(human(&at("a.dasm", u64::MAX), &sources, false).contains("3 | last"));
        assert!(human(&at("a.dasm", 10), &sources, false).contains("1 | first line"));
        assert_eq!(short(&at("code", 1), &sources), "code: byte 1: error[Q0007]: bad");
        assert_eq!(short(&at("other", 1), &sources), "other: byte 1: error[Q0007]: bad");
    }

    #[test]
    fn odd_spans_do_not_panic() {
        let (mut sources, id) = sources();
        let empty = sources.add("empty", "");
        let long = sources.add("long", "x".repeat(100_000));
        let spans = [
            span(id, 0, 0),
            span(id, 28, 29), // inside of ö
            span(id, 500, 9000),
            span(id, 30, 2),
            span(empty, 0, 0),
            span(empty, 7, 9),
            span(long, 50_000, 50_001),
            span(SourceId(99), 0, 4),
        ];
        for first in spans {
            for second in spans {
                let problem =
                    Diagnostic::invalid("Q0005", "odd").label(first, "a").label(second, "b");
                for text in [
                    human(&problem, &sources, false),
                    short(&problem, &sources),
                    json(&problem, &sources),
                ] {
                    assert!(text.contains("odd") && text.len() < 10_000, "{first:?} {second:?}");
                }
            }
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut sources = Sources::new();
        let id = sources.add("evil\u{1b}[2J", "a\u{1b}[31mb\u{202e}c\r\u{7}");
        let problem =
            Diagnostic::invalid("Q0006", "name \u{1b}]0;x\u{7}").label(span(id, 1, 3), "\u{9b}1m");
        let shown = human(&problem, &sources, false) + &short(&problem, &sources);
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n') && !shown.contains('\u{202e}'));
        assert!(!json(&problem, &sources).contains('\u{1b}'));
    }
}
