//! The instruction-description kit.
//!
//! A machine's instructions are described once, as rows of a [`Table`], by the macro
//! [`instructions!`]. From the rows come the enum, parsing ([`Table::parse`]), printing
//! ([`Table::print`]), encoding and decoding ([`Table::encode`], [`Table::decode`]), range checks,
//! the manual ([`Table::manual`]) and random instructions for tests ([`Table::random`]).
//!
//! Field positions and widths may depend on the machine's parameters; a [`Layout`] resolves them
//! once.

mod bits;
mod codec;
mod coverage;
mod cursor;
mod layout;
mod macros;
mod manual;
mod random;
mod table;
mod template;
mod text;
mod value;

pub use bits::{Bits, MAX_BITS};
pub use codec::DOES_NOT_FIT;
pub use coverage::Coverage;
pub use cursor::{Cursor, Style, is_word};
pub use layout::Layout;
pub use manual::ManualFormat;
pub use table::{
    Custom, FieldSpec, Fixup, Kind, Operand, Piece, RawInst, Row, Table, Term, Values,
};
pub use template::{print_hex, print_number};
pub use text::{Lines, parse_lines};
pub use value::OperandValue;
