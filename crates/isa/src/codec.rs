//! Instructions to words and back.

use crate::bits::Bits;
use crate::layout::{Field, Layout, RowLayout};
use crate::table::{FieldSpec, Fixup, Operand, RawInst, Row, Table, Values};
use quincunx_diag::{Diagnostic, Result};

/// The code of the problem that an operand does not fit its field.
pub const DOES_NOT_FIT: &str = "Q2103";

impl Table {
    /// The word of an instruction.
    ///
    /// # Errors
    /// `Q2103` for a value that its operand or field cannot hold; whatever the row's fixup says; an
    /// internal error when instruction, table and layout do not belong together.
    pub fn encode(&self, inst: &RawInst, layout: &Layout) -> Result<Bits> {
        let (_, row) = self.row_of(inst, layout)?;
        let mut word = row.match_value.or(&row.rest);
        self.store(inst, layout, |field, stored| field.set(&mut word, stored))?;
        Ok(word)
    }

    /// Whether an instruction has a word, without making it.
    ///
    /// # Errors
    /// As [`Table::encode`].
    pub fn fits(&self, inst: &RawInst, layout: &Layout) -> Result<()> {
        self.store(inst, layout, |_, _| ())
    }

    /// Gives every field and what it holds.
    fn store(
        &self,
        inst: &RawInst,
        layout: &Layout,
        mut put: impl FnMut(&Field, i128),
    ) -> Result<()> {
        let (spec, row) = self.row_of(inst, layout)?;
        if let Some(problem) = row.fault(spec, &inst.values) {
            return Err(problem);
        }
        let mut values = Values::new();
        values.extend_from_slice(&inst.values);
        if let Some(Fixup { to_fields, .. }) = spec.fixup {
            to_fields(&mut values, layout)?;
        }
        for ((operand, &field), &value) in spec.operands.iter().zip(&row.fields).zip(&values) {
            let Some(field) = field.map(|index| &layout.fields[index]) else { continue };
            let stored = operand.kind.to_stored(value).filter(|&stored| field.holds(stored));
            let stored = stored.ok_or_else(|| cannot_store(spec, operand, value, field));
            put(field, stored?);
        }
        Ok(())
    }

    /// The instruction of a word.
    ///
    /// With `lenient`, bits that the instruction does not use may have any value: that is a warning
    /// then, and those bits are lost. An instruction decoded without warnings encodes to the same
    /// word.
    ///
    /// # Errors
    /// `Q2111` when no row matches, `Q2112` when an unused bit does not have its rest value (a
    /// warning with `lenient`), `Q2113` when the number in a field means nothing, `Q2103` when it is
    /// out of the operand's range; whatever the row's fixup says; an internal error when the layout
    /// is of another table.
    pub fn decode(
        &self,
        word: &Bits,
        layout: &Layout,
        lenient: bool,
    ) -> Result<(RawInst, Vec<Diagnostic>)> {
        if !std::ptr::eq(self, layout.table()) {
            return Err(foreign_layout());
        }
        if !self.has_code() {
            return Err(Diagnostic::bug(format!("{} has no machine code", self.machine)));
        }
        let index = layout.matching(word);
        let index = index.ok_or_else(|| self.unknown(word, layout))?;
        let mut inst = RawInst { row: index, values: Values::new() };
        self.decode_operands(&mut inst, word, layout)?;
        let row = &layout.rows[index];
        let stray = word.without(&row.used).xor(&row.rest);
        let warnings = match stray.first_one() {
            None => Vec::new(),
            Some(bit) => {
                let problem = self.stray(index, bit, word, layout);
                if !lenient {
                    return Err(problem);
                }
                vec![problem.as_warning()]
            }
        };
        Ok((inst, warnings))
    }

    fn decode_operands(&self, inst: &mut RawInst, word: &Bits, layout: &Layout) -> Result<()> {
        let (spec, row) = (&self.rows[inst.row], &layout.rows[inst.row]);
        let values = &mut inst.values;
        for (operand, &field) in spec.operands.iter().zip(&row.fields) {
            let Some(index) = field else {
                // Only the fixup knows.
                values.push(0);
                continue;
            };
            let stored = layout.fields[index].get(word);
            let value = operand.kind.to_value(stored);
            let value = value.filter(|&value| operand.converted || operand.kind.has(value));
            values.push(value.ok_or_else(|| unknown_value(spec, operand, stored))?);
        }
        if let Some(Fixup { to_values, .. }) = spec.fixup {
            to_values(values, layout)?;
        }
        row.fault(spec, values).map_or(Ok(()), Err)
    }

    fn row_of<'a>(
        &'a self,
        inst: &RawInst,
        layout: &'a Layout,
    ) -> Result<(&'a Row, &'a RowLayout)> {
        if !std::ptr::eq(self, layout.table()) {
            return Err(foreign_layout());
        }
        match (self.rows.get(inst.row), layout.rows.get(inst.row)) {
            (Some(spec), Some(row)) if spec.operands.len() == inst.values.len() => Ok((spec, row)),
            _ => Err(Diagnostic::bug(format!("table {}: no such instruction", self.machine))),
        }
    }

    /// The error for a word that no row matches; names the field that all rows begin with.
    fn unknown(&self, word: &Bits, layout: &Layout) -> Diagnostic {
        let lead = |row: &Row| row.matches.first().map(|&(name, _)| name);
        let common = self.rows.first().and_then(lead);
        let common = common.filter(|_| self.rows.iter().all(|row| lead(row) == common));
        let message = match common.and_then(|name| Some((name, layout.read(name, word)?))) {
            Some((name, value)) => {
                if self.rows.iter().any(|row| row.matches.first() == Some(&(name, value))) {
                    format!("no form of {name} {value} has these fixed bits")
                } else {
                    format!("no instruction has {name} {value}")
                }
            }
            None => "no instruction matches the word".to_owned(),
        };
        Diagnostic::invalid("Q2111", message).with_note(hex(word, layout))
    }

    /// The error for a bit that does not have its rest value. It names the field that the bit is
    /// part of, if the instruction uses no bit of that field.
    fn stray(&self, row: usize, bit: u32, word: &Bits, layout: &Layout) -> Diagnostic {
        let (mnemonic, used) = (self.rows[row].mnemonic, &layout.rows[row].used);
        let unused = |(_, field): &(_, &Field)| {
            field.mask().get(bit, 1) == 1 && field.mask().and(used).is_zero()
        };
        let message = match self.fields.iter().zip(&layout.fields).find(unused) {
            Some((FieldSpec { name, rest, .. }, field)) => {
                let value = field.get(word);
                format!("{mnemonic} does not use field {name}, which is {value}, expected {rest}")
            }
            None => format!("{mnemonic} does not use bit {bit}, which is 1, expected 0"),
        };
        Diagnostic::invalid("Q2112", message).with_note(hex(word, layout))
    }
}

/// The error for a value that a fixup gave.
fn cannot_store(spec: &Row, operand: &Operand, value: i128, field: &Field) -> Diagnostic {
    let (name, mnemonic) = (operand.name, spec.mnemonic);
    let bound = |stored| operand.kind.to_value(stored).unwrap_or(stored);
    let (low, high) = field.range();
    let expected = format!("{}..={}", bound(low), bound(high));
    let text = format!("operand {name} of {mnemonic} is stored as {value}, expected {expected}");
    Diagnostic::invalid(DOES_NOT_FIT, text)
}

fn unknown_value(spec: &Row, operand: &Operand, stored: i128) -> Diagnostic {
    let (name, kind) = (operand.name, operand.kind.describe());
    let message = format!("the number {stored} means nothing as operand {name} of");
    Diagnostic::invalid("Q2113", format!("{message} {}, expected {kind}", spec.mnemonic))
}

fn foreign_layout() -> Diagnostic {
    Diagnostic::bug("the layout belongs to another instruction table")
}

fn hex(word: &Bits, layout: &Layout) -> String {
    let bytes = word.to_le_bytes();
    let digits: Vec<String> =
        bytes.iter().take(layout.bytes()).map(|byte| format!("{byte:02x}")).collect();
    format!("the bytes of the instruction are {}", digits.join(" "))
}
