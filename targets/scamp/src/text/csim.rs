//! AUKE's instructions ("CSIM"), one per line: `north(B,A)`, `div2(B,A)`, `neg`, `add`, `sub`.
//!
//! Facts: `auke`, `cain-paper` (`docs/bibliography.md`). `add`, `sub` and `neg` are spelled as the
//! macros are.

use super::print::list;
use crate::isa::{Direction, Inst, Reg, register};
use crate::program::Program;
use quincunx_diag::{Diagnostic, Place, Result};
use quincunx_isa::{Term, instructions};
use std::fmt::Write as _;

instructions! {
    /// The instructions of AUKE's CSIM text that are spelled differently from macros.
    pub enum Csim, table CSIM = "scamp-csim";
    bits Term::Const(0); params []; fields &[];

    /// `y` := `x` of the neighbour in the north; movx.
    North = "north" "north({y}, {x})" [] {
        y: Reg = register(),
        x: Reg = register(),
    }
    /// `y` := `x` of the neighbour in the east; movx.
    East = "east" "east({y}, {x})" [] {
        y: Reg = register(),
        x: Reg = register(),
    }
    /// `y` := `x` of the neighbour in the south; movx.
    South = "south" "south({y}, {x})" [] {
        y: Reg = register(),
        x: Reg = register(),
    }
    /// `y` := `x` of the neighbour in the west; movx.
    West = "west" "west({y}, {x})" [] {
        y: Reg = register(),
        x: Reg = register(),
    }
    /// `y` := `x / 2`; divq.
    Div2 = "div2" "div2({y}, {x})" [] {
        y: Reg = register(),
        x: Reg = register(),
    }
}

impl From<Csim> for Inst {
    fn from(csim: Csim) -> Inst {
        let movx = |y, x, d| Inst::Movx { y, x, d };
        match csim {
            Csim::North { y, x } => movx(y, x, Direction::North),
            Csim::East { y, x } => movx(y, x, Direction::East),
            Csim::South { y, x } => movx(y, x, Direction::South),
            Csim::West { y, x } => movx(y, x, Direction::West),
            Csim::Div2 { y, x } => Inst::Divq { y, x },
        }
    }
}

/// True if a statement begins with an instruction of this table.
pub(super) fn is_csim(text: &str) -> bool {
    let word = &text[..text.find('(').unwrap_or(0)];
    CSIM.rows.iter().any(|row| row.mnemonic == word)
}

/// The CSIM text of a program. The lists of inputs and outputs stand in comments of Cain's words, where
/// the reader finds them. A comment gives the transform of a move, a halving or a negation as
/// (x, y, halvings, negated).
///
/// # Errors
/// `Q5004` for an instruction that the text has no word for.
pub(super) fn print(program: &Program) -> Result<String> {
    let mut out = String::new();
    // Writing to a string cannot fail.
    if let Some(inputs) = &program.inputs {
        let _ = writeln!(out, "// Inputs in: {}", list(inputs));
    }
    for (index, inst) in program.instructions.iter().enumerate() {
        let (text, transform) = match *inst {
            Inst::Movx { y, x, d } | Inst::MovDirection { y, x, d } => {
                let (dx, dy) = d.step();
                (format!("{}({y},{x})", d.name()), Some((dx, dy, 0, 0)))
            }
            Inst::Divq { y, x } => (format!("div2({y},{x})"), Some((0, 0, 1, 0))),
            Inst::Neg { y, x } => (format!("neg({y},{x})"), Some((0, 0, 0, 1))),
            Inst::Add { y, a, b } => (format!("add({y},{a},{b})"), None),
            Inst::Sub { y, a, b } => (format!("sub({y},{a},{b})"), None),
            _ => {
                let message = format!("CSIM has no word for {}", inst.text());
                return Err(Diagnostic::unsupported("Q5004", message)
                    .at(Place::Instruction(index))
                    .help("CSIM has movx, divq, neg, add and sub of two operands only"));
            }
        };
        let _ = match transform {
            Some((x, y, halvings, negated)) => {
                writeln!(out, "{text} // ({x}, {y}, {halvings}, {negated})")
            }
            None => writeln!(out, "{text}"),
        };
    }
    if let Some(outputs) = &program.outputs {
        let _ = writeln!(out, "// Null Instruction: [] <- {}", list(outputs));
    }
    Ok(out)
}
