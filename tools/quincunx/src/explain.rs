//! `explain`: what the codes of messages mean, from the page of the book that says so.

use quincunx_diag::{Diagnostic, Result, did_you_mean};
use quincunx_report::{Column, Format, Heading, Report, Table};

/// A heading for each crate, and under it a table with a row for each code.
const PAGE: &str = include_str!("../../../docs/errors.md");

/// What the page says about a code.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// `Q` and four digits.
    pub code: &'static str,
    /// Folder of the crate that the code belongs to.
    pub home: &'static str,
    /// What is wrong, in a line.
    pub meaning: &'static str,
    /// Why that can be.
    pub cause: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// All codes, in the order of the page.
pub fn entries() -> impl Iterator<Item = Entry> {
    let mut home = "";
    PAGE.lines().filter_map(move |line| {
        home = line.strip_prefix("## ").unwrap_or(home);
        let row = line.strip_prefix("| Q").and(line.strip_prefix("| "))?.strip_suffix(" |")?;
        let [code, meaning, cause, remedy] = row.split(" | ").collect::<Vec<_>>()[..] else {
            return None;
        };
        Some(Entry { code, home, meaning, cause, remedy })
    })
}

/// Explains codes in a format and, if text is to fit, so many columns, or lists all when none is
/// given.
///
/// # Errors
/// `Q0650` for what is not a code, with a suggestion.
pub fn explain(codes: &[String], format: Format, columns: Option<usize>) -> Result<String> {
    let wanted = codes.iter().map(|code| find(code)).collect::<Result<Vec<_>>>()?;
    let report = match format {
        _ if wanted.is_empty() => table(entries(), &["code", "crate", "meaning"]),
        Format::Text => {
            let paragraphs: Vec<String> = wanted.iter().map(paragraph).collect();
            Report::new().text("codes", paragraphs.join("\n"))
        }
        _ => table(wanted, &["code", "crate", "meaning", "cause", "remedy"]),
    };
    Ok(report.headed(Heading::new("Codes of messages")).render_within(format, columns))
}

fn find(code: &str) -> Result<Entry> {
    entries().find(|entry| entry.code.eq_ignore_ascii_case(code)).ok_or_else(|| {
        let near = did_you_mean(code, entries().map(|entry| entry.code));
        Diagnostic::usage("Q0650", format!("no message has the code {code:?}"))
            .help(near.unwrap_or_else(|| "`quincunx explain` lists all codes".to_owned()))
    })
}

fn paragraph(entry: &Entry) -> String {
    let Entry { code, home, meaning, cause, remedy } = entry;
    format!("{code} ({home}): {meaning}\n  cause: {cause}\n  remedy: {remedy}\n")
}

/// The first columns of a row for each entry.
fn table(entries: impl IntoIterator<Item = Entry>, columns: &[&'static str]) -> Report {
    let mut table = Table::new("codes", columns.iter().copied().map(Column::text).collect());
    for Entry { code, home, meaning, cause, remedy } in entries {
        let cells = [code, home, meaning, cause, remedy];
        table.push(cells[..columns.len()].iter().map(|&cell| cell.into()).collect());
    }
    table.into()
}
