//! Byte code of single virtual instructions and of streams of them.

use crate::isa::{visa, visa_layout};
use crate::program::VirtualItem;
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::{Bits, Layout};

/// Layout of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// As documented: 33 bytes.
    #[default]
    Documented,
    /// As readers since 2026 expect: 35 bytes, with a predicate, which must be 0.
    Predicated,
}

impl Form {
    /// The layout in the instruction table; `short_index` for versions below 3.4.
    pub fn layout(self, short_index: bool) -> &'static Layout {
        visa_layout(short_index, self == Form::Predicated)
    }
}

/// Reads a stream in a known form, or in the one of the two in which it can be read; the
/// documented one if it can be read in both.
///
/// # Errors
/// `Q6034` for an opcode that is not known, `Q6030` for a stream that ends in an instruction,
/// those of the kit for numbers that mean nothing.
pub fn read(
    bytes: &[u8],
    short_index: bool,
    form: Option<Form>,
) -> Result<(Vec<VirtualItem>, Form)> {
    let read = |form: Form| read_form(bytes, form.layout(short_index)).map(|items| (items, form));
    match form {
        Some(form) => read(form),
        None => {
            read(Form::Documented).or_else(|problem| read(Form::Predicated).map_err(|_| problem))
        }
    }
}

fn read_form(bytes: &[u8], layout: &Layout) -> Result<Vec<VirtualItem>> {
    let length = layout.bytes();
    let mut items = Vec::new();
    for (at, chunk) in (0..).step_by(length).zip(bytes.chunks(length)) {
        let opcode = i128::from(chunk[0]);
        let is_opcode = |row: &quincunx_isa::Row| row.matches.first() == Some(&("opcode", opcode));
        if !visa::TABLE.rows.iter().any(is_opcode) {
            let message = format!("the opcode {opcode:#04x} is not known, nor its length");
            // Byte code has no lengths of instructions: without the tables of all opcodes nothing
            // tells where the next one begins, so that nothing can be kept as raw bytes either.
            return Err(Diagnostic::unsupported("Q6034", message).at_byte(at).help(
                "byte code does not say how long an instruction is, so what follows cannot be \
                 found; only dpas and dpasw are read: take their lines out of the kernel's text \
                 form, or disassemble its native machine code, where the rest stays as `.raw`",
            ));
        }
        if chunk.len() < length {
            let message = format!("the instruction has {} of {length} bytes", chunk.len());
            return Err(Diagnostic::invalid("Q6030", message).at_byte(at));
        }
        let word = Bits::from_le_bytes(chunk).ok_or_else(|| Diagnostic::bug("a long word"))?;
        let (raw, _) =
            visa::TABLE.decode(&word, layout, false).map_err(|problem| problem.at_byte(at))?;
        let inst = visa::Inst::from_raw(&raw);
        let inst = inst.ok_or_else(|| Diagnostic::bug("a row decodes to no variant"))?;
        items.push(VirtualItem { inst, span: None });
    }
    Ok(items)
}

/// Writes a stream.
///
/// # Errors
/// `Q6016` for a variable that does not fit the index.
pub fn write(items: &[VirtualItem], short_index: bool, form: Form) -> Result<Vec<u8>> {
    let layout = form.layout(short_index);
    let mut bytes = Vec::with_capacity(layout.bytes().saturating_mul(items.len()));
    for item in items {
        let word = visa::TABLE.encode(&item.inst.to_raw(), layout)?;
        bytes.extend_from_slice(&word.to_le_bytes()[..layout.bytes()]);
    }
    Ok(bytes)
}
