//! The formats.

use crate::escape::{self, visible, visible_lines};
use crate::fit::{self, Drawn};
use crate::{Column, Heading, Part, Report, Table};
use comfy_table::{Cell as TextCell, CellAlignment, ContentArrangement, LineStyle, TableStyle};
use std::fmt;
use std::str::FromStr;

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
    #[default]
    Text,
    /// For programs.
    Json,
    /// For documents.
    Markdown,
    /// For spreadsheets.
    Csv,
    /// For a browser: one file that needs nothing else.
    Html,
}

impl Format {
    /// Every format with its name on the command line.
    pub const ALL: [(&'static str, Format); 5] = [
        ("text", Format::Text),
        ("json", Format::Json),
        ("md", Format::Markdown),
        ("csv", Format::Csv),
        ("html", Format::Html),
    ];
}

/// The text names no format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFormat;

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected text, json, md, csv or html")
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Format::ALL.iter().find(|(name, _)| *name == text).map(|&(_, f)| f).ok_or(UnknownFormat)
    }
}

/// Most characters of a word in a table of a page; all of it shows when one points at it.
const LONG: usize = 48;

/// Name of the table that is the result, where there are others besides it.
pub const MAIN: &str = "rows";

pub(crate) fn text(parts: &[Part], columns: Option<usize>) -> String {
    let render = |part: &Part| match part {
        Part::Table(table) => text_table(table, columns.unwrap_or(usize::MAX)),
        Part::Text { text, folds, .. } => match columns.filter(|_| *folds) {
            Some(columns) => ended(&fit::lines(&visible_lines(text), columns)),
            None => ended(&visible_lines(text)),
        },
    };
    join(parts.iter().map(render))
}

fn text_table(table: &Table, limit: usize) -> String {
    let drawn = |(at, column): (usize, &Column)| Drawn {
        heading: column.heading(),
        cells: table.rows().iter().map(|row| visible(&row[at].show()).into_owned()).collect(),
        right: column.right,
    };
    let columns = table.shown().into_iter().map(drawn).collect();
    join(fit::blocks(columns, limit).iter().map(|block| text_block(block)))
}

fn text_block(columns: &[Drawn]) -> String {
    let rule = LineStyle::none().fill('─').junction('─');
    let mut text = comfy_table::Table::new();
    text.load_style(TableStyle::new().header_separator(rule));
    // What fits is decided already.
    text.set_content_arrangement(ContentArrangement::Disabled);
    let align = |right| if right { CellAlignment::Right } else { CellAlignment::Left };
    let cell = |text: &str, column: &Drawn| TextCell::new(text).set_alignment(align(column.right));
    text.set_header(columns.iter().map(|column| cell(&column.heading, column)));
    for row in 0..columns.first().map_or(0, |column| column.cells.len()) {
        text.add_row(columns.iter().map(|column| cell(&column.cells[row], column)));
    }
    for column in text.column_iter_mut() {
        column.set_padding((0, 1));
    }
    let lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
    ended(&lines.join("\n"))
}

pub(crate) fn json(report: &Report) -> String {
    // Keys are strings and numbers finite, so this cannot fail.
    serde_json::to_string_pretty(report).map_or_else(|e| e.to_string(), |text| text + "\n")
}

pub(crate) fn markdown(parts: &[Part]) -> String {
    let render = |part: &Part| match part {
        Part::Table(table) => markdown_table(table),
        Part::Text { text, .. } => {
            let fence = "`".repeat(3.max(longest_run(text, '`') + 1));
            format!("{fence}text\n{}{fence}\n", ended(&visible_lines(text)))
        }
    };
    join(parts.iter().map(render))
}

fn markdown_table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let shown = table.shown();
    let mut out = line(shown.iter().map(|(_, column)| column.heading()).collect());
    let rule = |right: bool| if right { "---:" } else { "---" }.to_owned();
    out += &line(shown.iter().map(|(_, column)| rule(column.right)).collect());
    for row in table.rows() {
        out += &line(shown.iter().map(|&(at, _)| escape::markdown(&row[at].show())).collect());
    }
    out
}

pub(crate) fn csv(parts: &[Part]) -> String {
    join(parts.iter().filter_map(|part| match part {
        Part::Table(table) => Some(csv_table(table)),
        Part::Text { .. } => None,
    }))
}

fn csv_table(table: &Table) -> String {
    let mut out =
        table.columns().iter().map(|c| escape::csv(&c.key)).collect::<Vec<_>>().join(",") + "\n";
    for row in table.rows() {
        let fields: Vec<String> = row.iter().map(|cell| escape::csv(&cell.raw())).collect();
        out += &(fields.join(",") + "\n");
    }
    out
}

pub(crate) fn html(heading: &Heading, parts: &[Part]) -> String {
    let mut body = String::new();
    for part in parts {
        // The table that is the result itself needs no name.
        if part.key() != MAIN {
            body += &format!("<h2>{}</h2>\n", escape::html(&part.key().replace('_', " ")));
        }
        match part {
            Part::Table(table) => body += &html_table(table),
            Part::Text { text, .. } => body += &format!("<pre>{}</pre>\n", escape::html(text)),
        }
    }
    heading.page("", &body)
}

impl Table {
    /// The table as an element of a page: headings in the first row, numbers with the class `number`,
    /// and what is shortened in full where one points at it.
    pub fn html(&self) -> String {
        html_table(self)
    }
}

fn html_table(table: &Table) -> String {
    let mut out = String::from("<table>\n");
    let class = |right: bool| if right { " class=\"number\"" } else { "" };
    out += "<tr>";
    let columns = table.shown();
    for (_, column) in &columns {
        out += &format!("<th{}>{}</th>", class(column.right), escape::html(&column.heading()));
    }
    out += "</tr>\n";
    let shown = |(at, column): (usize, &Column)| {
        let cells: Vec<String> = table.rows().iter().map(|row| row[at].show()).collect();
        if column.right { cells } else { fit::words(&cells, LONG) }
    };
    let shown: Vec<Vec<String>> = columns.iter().copied().map(shown).collect();
    for (number, row) in table.rows().iter().enumerate() {
        out += "<tr>";
        for (&(at, column), shown) in columns.iter().zip(&shown) {
            let cell = &row[at];
            let whole =
                cell.exact().or_else(|| Some(cell.show()).filter(|all| *all != shown[number]));
            let title = whole.map(|whole| format!(" title=\"{}\"", escape::html(&whole)));
            let (class, title) = (class(column.right), title.unwrap_or_default());
            out += &format!("<td{class}{title}>{}</td>", escape::html(&shown[number]));
        }
        out += "</tr>\n";
    }
    out + "</table>\n"
}

/// Parts with an empty line between them.
fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join("\n")
}

/// The text with exactly one line break at its end.
fn ended(text: &str) -> String {
    format!("{}\n", text.trim_end_matches('\n'))
}

fn longest_run(text: &str, wanted: char) -> usize {
    text.split(|c| c != wanted).map(str::len).max().unwrap_or(0)
}
