//! What all pages and pictures have in common: a heading, colours for light and dark backgrounds,
//! and nothing that is loaded from elsewhere.

use crate::escape::html;
use crate::fit::middle;
use std::fmt::Write as _;

/// Name and version of the program.
pub const VERSION: &str = concat!("quincunx ", env!("CARGO_PKG_VERSION"));

/// Styles of pages; the names of colours are for the styles of what is on them.
const PAGE: &str = "\
:root { color-scheme: light dark; --paper: #fff; --ink: #222; --line: #ddd; --edge: #555; }
body { font: 14px sans-serif; margin: 2em; color: var(--ink); background: var(--paper); }
h1 { font-size: 1.5em; margin-bottom: 0.2em; overflow-wrap: anywhere; }
h2 { font-size: 1.1em; }
dl.about { display: grid; grid-template-columns: max-content auto; gap: 0.1em 1em; margin: 0 0 1.5em; }
dl.about dt { opacity: 0.7; }
dl.about dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin-bottom: 2em; }
th, td { padding: 0.2em 0.8em; border-bottom: 1px solid #8886; text-align: left; vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { overflow-x: auto; }
@media screen and (prefers-color-scheme: dark) {
:root { --paper: #1b1b1b; --ink: #ddd; --line: #444; --edge: #aaa; }
}
";

/// Styles of pictures, by class: what is behind, words, lines of axes, connections.
const PICTURE: &str = "\
.paper { fill: #fff; } .ink { fill: #222; } .grid { stroke: #ddd; } .edge { stroke: #555; }
@media screen and (prefers-color-scheme: dark) {
.paper { fill: #1b1b1b; } .ink { fill: #ddd; } .grid { stroke: #444; } .edge { stroke: #aaa; }
}
";

/// Pixels that a letter of a picture takes at a font size of 1, about.
const LETTER: f64 = 0.58;

/// What a page or a picture shows, of what, and for which machine. The version is added to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heading {
    title: String,
    subject: String,
    machine: String,
}

impl Heading {
    /// A heading that says what is shown: `Timeline`.
    pub fn new(title: impl Into<String>) -> Self {
        Heading { title: title.into(), ..Heading::default() }
    }

    /// The same with the name of the model or file that it is of.
    #[must_use]
    pub fn of(self, subject: impl Into<String>) -> Self {
        Heading { subject: subject.into(), ..self }
    }

    /// The same with the target and the machine.
    #[must_use]
    pub fn on(self, machine: impl Into<String>) -> Self {
        Heading { machine: machine.into(), ..self }
    }

    /// The same with this title.
    #[must_use]
    pub fn titled(self, title: impl Into<String>) -> Self {
        Heading { title: title.into(), ..self }
    }

    /// What is known of the subject, with names; the version last.
    fn facts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let facts = [("of", &*self.subject), ("machine", &*self.machine), ("made by", VERSION)];
        facts.into_iter().filter(|(_, text)| !text.is_empty())
    }

    /// All of it in one line.
    pub fn line(&self) -> String {
        let facts = self.facts().map(|(name, text)| match name {
            "made by" => text.to_owned(),
            _ => format!("{name} {text}"),
        });
        [self.title.clone()].into_iter().chain(facts).collect::<Vec<_>>().join(", ")
    }

    /// A whole page: the heading, then the body, with further styles.
    pub fn page(&self, style: &str, body: &str) -> String {
        let subject = match self.subject.is_empty() {
            true => String::new(),
            false => format!("{} - ", self.subject),
        };
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>{}{} - quincunx</title>\n<style>\n{PAGE}{style}</style>\n</head>\n<body>\n\
             <h1>{}</h1>\n<dl class=\"about\">\n",
            html(&subject),
            html(&self.title),
            html(&self.title)
        );
        for (name, text) in self.facts() {
            let _ = writeln!(out, "<dt>{name}</dt><dd>{}</dd>", html(text));
        }
        out + "</dl>\n" + body + "</body>\n</html>\n"
    }

    /// A whole picture (SVG) of so many pixels: the heading in the first [`Heading::HEIGHT`] of
    /// them, then the body. Classes for colours: `paper`, `ink`, `grid`, `edge`.
    pub fn picture(&self, [width, height]: [f64; 2], body: &str) -> String {
        let line = |y: f64, size: f64, text: &str| {
            let room = ((width - 2.0 * Heading::MARGIN) / (size * LETTER)) as usize;
            format!(
                "<text class=\"ink\" x=\"{}\" y=\"{y}\" font-size=\"{size}\">{}</text>\n",
                Heading::MARGIN,
                html(&shortened(text, room))
            )
        };
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <title>{}</title>\n<style>\n{PICTURE}</style>\n\
             <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n",
            html(&self.line())
        );
        let title = match self.subject.is_empty() {
            true => self.title.clone(),
            false => format!("{} of {}", self.title, self.subject),
        };
        out += &line(20.0, 15.0, &title);
        let rest = [&*self.machine, VERSION].into_iter().filter(|text| !text.is_empty());
        out += &line(38.0, 11.0, &rest.collect::<Vec<_>>().join(", "));
        out + body + "</svg>\n"
    }

    /// Pixels that the heading of a picture takes.
    pub const HEIGHT: f64 = 50.0;

    /// Pixels left of it.
    pub const MARGIN: f64 = 20.0;
}

/// The text without its middle where it is longer than so many characters.
pub fn shortened(text: &str, width: usize) -> String {
    let room = width.max(3) - 1;
    match text.chars().count() > room + 1 {
        true => middle(text, room / 2, room - room / 2),
        false => text.to_owned(),
    }
}
