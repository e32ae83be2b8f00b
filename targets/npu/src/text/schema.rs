//! The instruction table as sequences of fixed text and values.

use crate::arch::NpuArch;
use crate::isa::Enumeration;
use crate::isa::{Number, TABLE, TRUTH, enumeration_of};
use quincunx_diag::Result;
use quincunx_isa::{Custom, Kind, Layout, OperandValue as _, Row};
use std::sync::LazyLock;

/// What stands between two pieces of fixed text.
#[derive(Clone, Copy)]
pub(super) enum Slot {
    /// A whole number, a multiple of the scale.
    Whole { low: i64, high: i64, scale: i64 },
    /// A number with or without a point.
    Number,
    /// A list of queues.
    Queues,
    /// `False` or `True`.
    Truth,
    /// A member of an enumeration.
    Member(&'static Enumeration),
}

/// Fixed text and the value behind it.
pub(super) struct Step {
    pub(super) before: Vec<u8>,
    pub(super) slot: Slot,
}

/// The fields of one row in text: `{'SME': `, value, `, 'RS': `, value, …, `}`.
pub(super) struct RowText {
    pub(super) steps: Vec<Step>,
    pub(super) after: Vec<u8>,
}

/// The text forms of all rows, with the ranges of one machine.
pub struct Schema {
    pub(super) rows: Vec<RowText>,
}

impl Schema {
    /// The schema of a machine.
    ///
    /// # Errors
    /// `Q2122` when addresses are too wide for the instruction word.
    pub fn new(arch: &NpuArch) -> Result<Schema> {
        let layout = arch.layout()?;
        let rows = TABLE.rows.iter().enumerate();
        Ok(Schema { rows: rows.map(|(index, row)| row_text(index, row, &layout)).collect() })
    }

    /// The schema of the first preset.
    pub fn standard() -> &'static Schema {
        static STANDARD: LazyLock<Schema> = LazyLock::new(|| {
            let arch = NpuArch::preset("gemini");
            let schema = arch.and_then(|arch| Schema::new(&arch));
            schema.expect("a preset has a schema")
        });
        &STANDARD
    }
}

/// Splits the syntax of a row. The kit has checked that it is well formed and that every operand
/// occurs once.
fn row_text(index: usize, row: &'static Row, layout: &Layout) -> RowText {
    let fields = row.syntax.split_once(' ').map_or("", |(_, fields)| fields);
    let mut rest = fields;
    let (mut steps, mut literal) = (Vec::new(), Vec::new());
    while let Some(next) = rest.bytes().next() {
        rest = &rest[1..];
        let doubled = b"{}[]".contains(&next) && rest.as_bytes().first() == Some(&next);
        match next {
            b'{' if !doubled => {
                let (name, after) = rest.split_once('}').expect("a template closes its braces");
                rest = after;
                let operand = row.operands.iter().position(|operand| operand.name == name);
                let operand = operand.expect("a template names operands");
                debug_assert_eq!(operand, steps.len(), "operands stand in the order of the text");
                let slot = slot(index, operand, row.operands[operand].kind, layout);
                steps.push(Step { before: std::mem::take(&mut literal), slot });
            }
            _ => {
                literal.push(next);
                rest = if doubled { &rest[1..] } else { rest };
            }
        }
    }
    RowText { steps, after: literal }
}

fn slot(row: usize, operand: usize, kind: Kind, layout: &Layout) -> Slot {
    match kind {
        Kind::Custom(custom) => custom_slot(custom),
        _ => {
            let (low, high) = layout.range(row, operand).expect("every operand has a range");
            let clamp = |value: i128| value.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            let scale = if let Kind::Scaled(scale) = kind { clamp(scale) } else { 1 };
            Slot::Whole { low: clamp(low), high: clamp(high), scale }
        }
    }
}

fn custom_slot(custom: &'static Custom) -> Slot {
    if std::ptr::eq(custom, &TRUTH) {
        Slot::Truth
    } else if let Some(enumeration) = enumeration_of(custom) {
        Slot::Member(enumeration)
    } else if (custom.legal)(Number::whole(0).to_raw()) {
        Slot::Number
    } else {
        Slot::Queues
    }
}

/// The row of a mnemonic.
pub(super) fn row_of(mnemonic: &[u8]) -> Option<usize> {
    static SORTED: LazyLock<Vec<(&'static [u8], usize)>> = LazyLock::new(|| {
        let rows = TABLE.rows.iter().enumerate();
        let mut list: Vec<_> = rows.map(|(row, spec)| (spec.mnemonic.as_bytes(), row)).collect();
        list.sort_unstable();
        list
    });
    SORTED.binary_search_by(|(known, _)| (*known).cmp(mnemonic)).ok().map(|at| SORTED[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_has_a_schema() {
        for preset in crate::arch::PRESETS {
            let schema = Schema::new(&NpuArch::preset(preset.name).unwrap()).unwrap();
            assert_eq!(schema.rows.len(), TABLE.rows.len());
        }
        assert_eq!(Schema::standard().rows.len(), TABLE.rows.len());
        assert_eq!(TABLE.check(), Vec::<String>::new());
    }

    /// Each row has its text in the order of its operands, which reading relies on.
    #[test]
    fn operands_stand_in_the_order_of_the_text() {
        for (row, text) in TABLE.rows.iter().zip(&Schema::standard().rows) {
            assert_eq!(text.steps.len(), row.operands.len(), "{}", row.name);
        }
    }
}
