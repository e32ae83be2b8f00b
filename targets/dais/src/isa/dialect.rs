//! The dialects.

use super::Inst;
use quincunx_diag::{Diagnostic, Result, did_you_mean};

/// A binary layout with its instruction set, in the order in which they appeared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// The layout of `da4ml-doc` as all tools write it (da4ml 0.4): no version, opcodes -1 to 7,
    /// low data word first.
    D0,
    /// The layout of `da4ml-doc` as it is documented: as [`Dialect::D0`], but high data word
    /// first. No tool writes it; only what a program means tells the two apart.
    D0Doc,
    /// da4ml 0.5: specification version 0, with tables and opcode 8.
    D1Version0,
    /// da4ml 0.6: specification version 1, with opcodes 9 and 10.
    D1,
    /// alkaid 0.8 (ALIR): an explicit negation instead of negated opcodes, sums of several operands,
    /// constants and quantisers with a scale of their own.
    A4,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Dialect; 5] =
        [Dialect::D0, Dialect::D0Doc, Dialect::D1Version0, Dialect::D1, Dialect::A4];

    /// Name for options and messages.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::D0 => "d0",
            Dialect::D0Doc => "d0-doc",
            Dialect::D1Version0 => "d1-v0",
            Dialect::D1 => "d1",
            Dialect::A4 => "a4",
        }
    }

    /// The dialect with this name.
    ///
    /// # Errors
    /// `Q1050` with a suggestion when there is none.
    pub fn from_name(name: &str) -> Result<Dialect> {
        let found = Dialect::ALL.into_iter().find(|dialect| dialect.name() == name);
        found.ok_or_else(|| {
            let names = Dialect::ALL.map(Dialect::name);
            Diagnostic::usage("Q1050", format!("unknown dialect \"{name}\""))
                .with_note(format!("dialects: {}", names.join(", ")))
                .help_if(did_you_mean(name, names))
        })
    }

    /// True if the dialect has the instruction.
    pub fn has(self, inst: Inst) -> bool {
        let facts = inst.facts();
        let negates_operands = facts.negates
            || matches!(inst, Inst::Bitwise { negate_a, negate_b, .. } if negate_a || negate_b);
        facts.dialect <= self && !(self == Dialect::A4 && negates_operands)
    }

    /// True for the layouts that begin with a version.
    pub(crate) fn has_version(self) -> bool {
        matches!(self, Dialect::D1Version0 | Dialect::D1)
    }
}
