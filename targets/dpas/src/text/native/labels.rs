//! Labels: where jumps of a text lead.

use crate::isa::vector::message::LABEL;
use crate::isa::vector::{self, Op};
use crate::program::{Listing, Statement};
use quincunx_diag::{Diagnostic, Result, SourceId, Span, did_you_mean};
use quincunx_isa::Cursor;
use std::collections::{BTreeMap, BTreeSet};

/// Labels of a text with the bytes at which they stand.
pub(super) struct Labels<'a> {
    text: &'a str,
    source: SourceId,
    places: BTreeMap<&'a str, usize>,
    at: usize,
}

impl<'a> Labels<'a> {
    pub(super) fn new(text: &'a str, source: SourceId) -> Labels<'a> {
        Labels { text, source, places: BTreeMap::new(), at: 0 }
    }

    /// Reads a label such as `L0:` if there is one; a statement may follow on the next line.
    pub(super) fn define(&mut self, cursor: &mut Cursor<'_>) -> Result<bool> {
        let word = cursor.peek_word();
        if word.is_empty() || !cursor.rest()[word.len()..].starts_with(':') {
            return Ok(false);
        }
        let start = cursor.position();
        cursor.eat(word);
        let span = cursor.span_from(start);
        cursor.eat(":");
        let end = start.saturating_add(word.len());
        let name = self.text.get(start..end).unwrap_or("");
        if self.places.insert(name, self.at).is_some() {
            let message = format!("label {} stands here and above", shown(word));
            return Err(Diagnostic::invalid("Q6028", message).label(span, ""));
        }
        Ok(true)
    }

    /// A statement of so many bytes follows.
    pub(super) fn next(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    /// Bytes from an instruction to a label, which is given by its place in the text.
    pub(super) fn distance(&self, label: i128, start: usize) -> Result<i128> {
        let label = label & !LABEL;
        let (at, length) = ((label >> 32) as usize, (label & 0xffff_ffff) as usize);
        let end = at.saturating_add(length);
        let name = self.text.get(at..end).unwrap_or("");
        let clamp = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        let span = Span { source: self.source, start: clamp(at), end: clamp(end) };
        let Some(&place) = self.places.get(name) else {
            let message = format!("there is no label {}", shown(name));
            return Err(Diagnostic::invalid("Q6029", message)
                .label(span, "")
                .help_if(did_you_mean(name, self.places.keys().copied())));
        };
        let distance = i128::try_from(place).ok().zip(i128::try_from(start).ok());
        let distance = distance.map_or(0, |(place, start)| place.saturating_sub(start));
        match i32::try_from(distance) {
            Ok(distance) => Ok(distance.into()),
            Err(_) => {
                let message = format!("label {} is too far away", shown(name));
                Err(Diagnostic::invalid("Q6029", message).label(span, ""))
            }
        }
    }
}

fn shown(name: &str) -> String {
    let name: String = name.chars().take(40).collect();
    format!("`{}`", name.escape_debug())
}

/// Targets of a jump, as bytes of the listing.
fn targets(inst: &vector::Inst, start: usize) -> impl Iterator<Item = Option<usize>> {
    inst.operands_of::<i32>().into_iter().map(move |jump| {
        let jump = isize::try_from(jump).ok()?;
        start.checked_add_signed(jump)
    })
}

/// Where blocks begin: at the start, at targets, and behind jumps and ends; nothing without a jump.
pub(super) fn blocks(listing: &Listing) -> BTreeSet<usize> {
    let starts = listing.starts();
    let is_legal = |at: &usize| starts.binary_search(at).is_ok();
    let mut blocks = BTreeSet::new();
    let mut jumps = false;
    for (item, (start, end)) in listing.items.iter().zip(starts.iter().zip(starts.iter().skip(1))) {
        let Statement::Vector(inst) = &item.statement else { continue };
        if inst.facts().op.jumps() {
            jumps = true;
            blocks.extend(targets(inst, *start).flatten().filter(is_legal));
            blocks.insert(*end);
        }
        if inst.facts().op == Op::Send && item.statement.options().is_end() {
            blocks.insert(*end);
        }
    }
    blocks.insert(0);
    if jumps { blocks } else { BTreeSet::new() }
}

/// Prints a jump with labels where these exist.
pub(super) fn print_jump(
    inst: &vector::Inst,
    start: usize,
    blocks: &BTreeSet<usize>,
    out: &mut String,
) {
    let mut raw = inst.to_raw();
    let wanted: Vec<String> = targets(inst, start)
        .zip(inst.operands_of::<i32>())
        .map(|(target, jump)| match target.filter(|target| blocks.contains(target)) {
            Some(target) => format!("L{target}"),
            None => jump.to_string(),
        })
        .collect();
    // The table prints the distance last but for the options; the text of a label takes its place.
    let row = &vector::TABLE.rows[raw.row];
    let places: Vec<usize> =
        ["jump", "second_jump"].iter().filter_map(|name| Some(row.operand(name)?.0)).collect();
    for (index, &place) in places.iter().enumerate() {
        raw.values[place] = MARK + index as i128;
    }
    let mut text = vector::TABLE.print(&raw);
    for (index, name) in wanted.iter().enumerate() {
        text = text.replacen(&(MARK + index as i128).to_string(), name, 1);
    }
    *out += &text;
}

/// A distance that no instruction has.
const MARK: i128 = 1 << 40;
