//! Instructions as words of machine code.

use super::{Inst, TABLE};
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::{Bits, Layout};
use quincunx_num::Kif;
use std::sync::LazyLock;

/// The one layout of the table, which has no parameters.
///
/// # Panics
/// When the table is malformed, which is a bug that the tests find.
pub fn layout() -> &'static Layout {
    static LAYOUT: LazyLock<Layout> = LazyLock::new(|| match Layout::fixed(&TABLE) {
        Ok(layout) => layout,
        Err(bug) => panic!("{bug}"),
    });
    &LAYOUT
}

/// The word of an instruction; its type fields are 0.
pub(crate) fn encode(inst: Inst) -> Result<Bits> {
    TABLE.encode(&inst.to_raw(), layout())
}

/// The instruction of a word whose type fields are 0. With `lenient`, unused fields that do not
/// have their rest value are warnings.
pub(crate) fn decode(word: &Bits, lenient: bool) -> Result<(Inst, Vec<Diagnostic>)> {
    let (raw, warnings) = TABLE.decode(word, layout(), lenient)?;
    let inst =
        Inst::from_raw(&raw).ok_or_else(|| Diagnostic::bug("a row decodes to no variant"))?;
    Ok((inst, warnings))
}

/// The words of an operation that JSON files spell out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) opcode: i32,
    pub(crate) id0: i32,
    pub(crate) id1: i32,
    pub(crate) data: i64,
}

impl Fields {
    pub(crate) fn to_word(self) -> Bits {
        let mut word = Bits::ZERO;
        set(&mut word, "opcode", self.opcode.into());
        set(&mut word, "id0", self.id0.into());
        set(&mut word, "id1", self.id1.into());
        set(&mut word, "data", self.data);
        word
    }

    pub(crate) fn of_word(word: &Bits) -> Fields {
        Fields {
            opcode: get(word, "opcode") as i32,
            id0: get(word, "id0") as i32,
            id1: get(word, "id1") as i32,
            data: get(word, "data"),
        }
    }
}

/// Writes the type of the result into a word.
pub(crate) fn put_type(word: &mut Bits, kif: Kif) {
    set(word, "k", kif.signed.into());
    set(word, "i", kif.integer.into());
    set(word, "f", kif.fraction.into());
}

/// Takes the type of the result out of a word. Error: `Q1054` for a sign word other than 0 and 1.
pub(crate) fn take_type(word: &mut Bits) -> Result<Kif> {
    let signed = match get(word, "k") {
        0 => false,
        1 => true,
        k => {
            let message = format!("the sign word of the type is {k}, expected 0 or 1");
            return Err(Diagnostic::invalid("Q1054", message));
        }
    };
    let kif = Kif::new(signed, get(word, "i") as i32, get(word, "f") as i32);
    put_type(word, Kif::ZERO);
    Ok(kif)
}

/// Exchanges the two data words, which the documented layout of D0 has in the other order.
pub(crate) fn swap_data_halves(word: &mut Bits) {
    let data = get(word, "data");
    set(word, "data", data.rotate_left(32));
}

/// All fields are at most 64 bits in one piece.
fn get(word: &Bits, field: &str) -> i64 {
    layout().read(field, word).expect("a field of the table") as i64
}

fn set(word: &mut Bits, field: &str, value: i64) {
    for &(at, width) in layout().pieces(field).expect("a field of the table") {
        word.set(at, width, value as u64);
    }
}
