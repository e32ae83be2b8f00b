//! Text in a terminal of so many columns: words that are too long lose their middle, texts are
//! folded at blanks, and columns of a table that still do not fit stand in a block of their own
//! below, behind the first column again, in rows that have more to say. Numbers stay whole.

use std::collections::{BTreeMap, BTreeSet};

/// Fewest characters of a column of texts that is folded.
const FEWEST: usize = 20;

/// How far further lines of a line that is folded are indented.
const HANGING: usize = 4;

/// Between columns.
const GAP: usize = 2;

/// A column that is drawn: its heading, its entries with their lines, and its alignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub(crate) heading: String,
    pub(crate) cells: Vec<String>,
    pub(crate) right: bool,
}

impl Drawn {
    fn width(&self) -> usize {
        let lines = self.cells.iter().flat_map(|cell| cell.lines());
        lines.map(length).chain([length(&self.heading)]).max().unwrap_or(0)
    }

    /// The column in so many characters. Headings and numbers stay as they are.
    fn within(mut self, width: usize) -> Drawn {
        if self.width() > width && !self.right {
            let width = width.max(length(&self.heading));
            let short = shorten(self.cells.iter().flat_map(|cell| cell.split(' ')), width);
            self.cells = self.cells.iter().map(|cell| fold(cell, &short, width)).collect();
        }
        self
    }
}

/// The columns as blocks of at most so many characters in width.
pub(crate) fn blocks(mut columns: Vec<Drawn>, limit: usize) -> Vec<Vec<Drawn>> {
    // The rule below the headings is one longer than the rows.
    let limit = limit.saturating_sub(1);
    let widths: Vec<usize> = columns.iter().map(Drawn::width).collect();
    let total = |cap: usize| {
        let of = |(column, &width): (&Drawn, &usize)| match column.right {
            true => width,
            false => width.min(cap.max(length(&column.heading))),
        };
        columns.iter().zip(&widths).map(of).sum::<usize>() + GAP * columns.len().saturating_sub(1)
    };
    if total(usize::MAX) <= limit {
        return vec![columns];
    }
    let blank = |column: &Drawn| column.cells.iter().all(String::is_empty);
    if columns.iter().skip(1).any(blank) {
        // There is no room for what says nothing.
        let mut place = 0..;
        columns.retain(|column| place.next() == Some(0) || !blank(column));
        return blocks(columns, limit.saturating_add(1));
    }
    if let Some(cap) = (FEWEST..limit).rev().find(|&cap| total(cap) <= limit) {
        return vec![columns.into_iter().map(|column| column.within(cap)).collect()];
    }
    let mut columns = columns.into_iter();
    let Some(first) = columns.next() else { return Vec::new() };
    let first = first.within((limit / 3).max(FEWEST));
    let mut blocks = vec![vec![first.clone()]];
    let mut used = first.width();
    for column in columns {
        let room = limit.saturating_sub(first.width() + GAP).max(FEWEST);
        let column = column.within(room);
        let more = column.width() + GAP;
        match blocks.last_mut() {
            Some(block) if block.len() == 1 || used + more <= limit => {
                block.push(column);
                used += more;
            }
            _ => {
                used = first.width() + more;
                blocks.push(vec![first.clone(), column]);
            }
        }
    }
    blocks.into_iter().enumerate().map(|(number, block)| told(block, number == 0)).collect()
}

/// The block without rows that say nothing; all of them in the first one.
fn told(mut block: Vec<Drawn>, first: bool) -> Vec<Drawn> {
    let rows = block.first().map_or(0, |column| column.cells.len());
    let says = |row: usize| first || block.iter().skip(1).any(|c| !c.cells[row].is_empty());
    let kept: Vec<bool> = (0..rows).map(says).collect();
    for column in &mut block {
        let mut kept = kept.iter();
        column.cells.retain(|_| kept.next() == Some(&true));
    }
    block
}

/// The words that are longer than `width`, without their middles: distinct words stay distinct.
fn shorten<'a>(words: impl Iterator<Item = &'a str>, width: usize) -> BTreeMap<&'a str, String> {
    let all: BTreeSet<&str> = words.collect();
    let (long, kept): (Vec<&str>, Vec<&str>) =
        all.into_iter().partition(|word| length(word) > width);
    // Names that are made of paths differ at their ends more often than at their beginnings.
    for (tail, of) in [(1, 2), (2, 3), (4, 5), (1, 1), (1, 5)] {
        let room = width.saturating_sub(1);
        let cut: Vec<String> = long
            .iter()
            .map(|word| middle(word, room - room * tail / of, room * tail / of))
            .collect();
        let distinct: BTreeSet<&str> =
            cut.iter().map(String::as_str).chain(kept.iter().copied()).collect();
        if distinct.len() == long.len() + kept.len() {
            return long.into_iter().zip(cut).collect();
        }
    }
    // Their numbers keep apart what differs in its middle only.
    let digits = long.len().to_string().len();
    let room = width.saturating_sub(digits + 2);
    let numbered = long.into_iter().enumerate().map(|(number, word)| {
        let cut = middle(word, room / 2, room - room / 2);
        (word, format!("{cut}~{number}"))
    });
    numbered.collect()
}

/// The names in at most so many characters, of which the middles are left out. Distinct names stay
/// distinct.
pub fn distinct<'a>(names: impl IntoIterator<Item = &'a str>, width: usize) -> Vec<String> {
    let names: Vec<&str> = names.into_iter().collect();
    let short = shorten(names.iter().copied(), width);
    names.iter().map(|name| short.get(name).map_or(*name, String::as_str).to_owned()).collect()
}

/// The texts with words of at most so many characters. Distinct words stay distinct.
pub(crate) fn words(texts: &[String], width: usize) -> Vec<String> {
    let short = shorten(texts.iter().flat_map(|text| text.split(' ')), width);
    let word = |word| short.get(word).map_or(word, String::as_str);
    texts.iter().map(|text| text.split(' ').map(word).collect::<Vec<_>>().join(" ")).collect()
}

/// The text with its long lines folded; further lines of one are indented.
pub(crate) fn lines(text: &str, limit: usize) -> String {
    let long = |line: &&str| length(line) > limit;
    let indent = |line: &str| (line.len() - line.trim_start_matches(' ').len()).min(limit / 2);
    let deepest = text.lines().filter(long).map(indent).max().unwrap_or(0);
    let room = limit.saturating_sub(deepest + HANGING).max(1);
    let short = shorten(text.lines().filter(long).flat_map(|line| line.split(' ')), room);
    let folded = text.lines().map(|line| match long(&line) {
        true => {
            let start = " ".repeat(indent(line));
            let next = format!("\n{start}{}", " ".repeat(HANGING));
            let width = limit.saturating_sub(start.len() + HANGING);
            start + &fold(line.trim_start_matches(' '), &short, width).replace('\n', &next)
        }
        false => line.to_owned(),
    });
    folded.collect::<Vec<_>>().join("\n")
}

/// The first and the last characters of a word.
pub(crate) fn middle(word: &str, head: usize, tail: usize) -> String {
    let count = length(word);
    let start: String = word.chars().take(head).collect();
    let end: String = word.chars().skip(count.saturating_sub(tail)).collect();
    format!("{start}…{end}")
}

/// The text in lines, broken at blanks.
fn fold(text: &str, short: &BTreeMap<&str, String>, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let word = short.get(word).map_or(word, String::as_str);
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

fn length(text: &str) -> usize {
    text.chars().count()
}
