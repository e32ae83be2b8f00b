//! The instruction table, and the words around it that all instructions share.
//!
//! Facts: `da4ml-doc`, `da4ml`, `alkaid` (`docs/bibliography.md`). An operation of machine code is
//! eight 32-bit words: opcode, id0, id1, data (a 64-bit number, low word first), and the type of
//! the result as sign, integer and fraction bits. The type belongs to the slot
//! ([`SlotType`](crate::program::SlotType)); the rows describe the other words.
//!
//! Instructions that only alkaid has (`alir` is 1) never stand in such a word of a file. Their rows
//! use two words more, so that one table describes everything; files of alkaid hold lists of slots
//! and numbers instead, which follow from the operands of a row (see `isa/alir.rs`).

pub(crate) mod alir;
mod dialect;
mod words;

pub use dialect::Dialect;
pub use words::layout;
pub(crate) use words::{Fields, decode, encode, put_type, swap_data_halves, take_type};

use quincunx_diag::Result;
use quincunx_isa::{
    Cursor, Custom, FieldSpec, Kind, Operand, Piece, Term, instructions, operand_enum,
    operand_newtype,
};

/// Index of an operation and of the slot it fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// Index of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InputIndex(pub u32);

/// Index of a lookup table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableIndex(pub u32);

/// Programs are in memory, and have far fewer operations, inputs and tables than a word counts.
fn number(index: usize) -> u32 {
    u32::try_from(index).expect("the number of an operation, input or table fits a word")
}

impl Slot {
    /// The slot of an operation.
    pub(crate) fn of(index: usize) -> Slot {
        Slot(number(index))
    }
}

impl InputIndex {
    /// The index of an input.
    pub(crate) fn of(index: usize) -> InputIndex {
        InputIndex(number(index))
    }
}

impl TableIndex {
    /// The index of a table.
    pub(crate) fn of(index: usize) -> TableIndex {
        TableIndex(number(index))
    }
}

operand_newtype!(Slot(u32), InputIndex(u32), TableIndex(u32));

operand_enum! {
    /// What a bit operation on one operand computes.
    #[derive(Debug)]
    pub enum UnaryBits {
        /// Every bit inverted.
        Not = 0 "not",
        /// 1 if any bit is set.
        Any = 1 "any",
        /// 1 if all bits of the operand's type are set.
        All = 2 "all",
    }
}

operand_enum! {
    /// What a bit operation on two operands computes.
    #[derive(Debug)]
    pub enum BinaryBits {
        /// Conjunction.
        And = 0 "and",
        /// Disjunction.
        Or = 1 "or",
        /// Exclusive disjunction.
        Xor = 2 "xor",
    }
}

/// A slot in text: `%12`.
static SLOT: Custom = Custom {
    name: "slot such as %12",
    parse: parse_slot,
    print: print_slot,
    legal: |value| u32::try_from(value).is_ok(),
    random: |below| i128::from(below(1 << 31)),
};

fn parse_slot(cursor: &mut Cursor<'_>) -> Result<i128> {
    let start = cursor.position();
    if !cursor.eat("%") {
        return Err(cursor.expected("a slot such as %12"));
    }
    let number = cursor.integer()?;
    if !(SLOT.legal)(number) {
        return Err(cursor.out_of_range(format!("there is no slot {number}"), start));
    }
    Ok(number)
}

fn print_slot(slot: i128, out: &mut String) {
    out.push('%');
    out.push_str(&slot.to_string());
}

const fn word_field(name: &'static str, pieces: &'static [Piece], rest: i128) -> FieldSpec {
    FieldSpec { name, pieces, signed: true, rest }
}

/// `data` is the same bits as `data_low` and `data_high`, and those of the two-operand bit
/// operations lie in its upper half.
static FIELDS: &[FieldSpec] = &[
    word_field("opcode", &[Piece::fixed(0, 32)], 0),
    word_field("id0", &[Piece::fixed(32, 32)], -1),
    word_field("id1", &[Piece::fixed(64, 32)], -1),
    word_field("data", &[Piece::fixed(96, 64)], 0),
    word_field("data_low", &[Piece::fixed(96, 32)], 0),
    word_field("data_high", &[Piece::fixed(128, 32)], 0),
    FieldSpec::unsigned("negate0", &[Piece::fixed(128, 1)]),
    FieldSpec::unsigned("negate1", &[Piece::fixed(129, 1)]),
    FieldSpec::unsigned("bit_op", &[Piece::fixed(152, 8)]),
    word_field("k", &[Piece::fixed(160, 32)], 0),
    word_field("i", &[Piece::fixed(192, 32)], 0),
    word_field("f", &[Piece::fixed(224, 32)], 0),
    FieldSpec::unsigned("alir", &[Piece::fixed(256, 1)]),
    FieldSpec::unsigned("minus0", &[Piece::fixed(257, 1)]),
    FieldSpec::unsigned("minus1", &[Piece::fixed(258, 1)]),
    FieldSpec::unsigned("minus2", &[Piece::fixed(259, 1)]),
    word_field("scale", &[Piece::fixed(264, 16)], 0),
    word_field("id2", &[Piece::fixed(288, 32)], 0),
];

const fn slot(field: &'static str) -> Operand {
    Operand::at(field, Kind::Custom(&SLOT))
}

/// A shift to the left; absent in text when it is 0.
const fn shift(field: &'static str) -> Operand {
    Operand { default: Some(0), ..Operand::at(field, Kind::Signed) }
}

/// What the row of an instruction says of it besides its words.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The first dialect that has it: opcodes -1 to 7 are those of da4ml 0.4, da4ml 0.5 added 8,
    /// da4ml 0.6 added 9 and 10, alkaid the rest.
    pub dialect: Dialect,
    /// It brings its result to the type of its slot. The result of the others must fit.
    pub quantises: bool,
    /// It negates an operand, for which alkaid has an instruction of its own.
    pub negates: bool,
}

const fn since(dialect: Dialect) -> Facts {
    Facts { dialect, quantises: false, negates: false }
}

impl Facts {
    const fn quantising(self) -> Facts {
        Facts { quantises: true, ..self }
    }

    const fn negating(self) -> Facts {
        Facts { negates: true, ..self }
    }
}

instructions! {
    /// DAIS: distributed-arithmetic instructions in SSA form. Operation `i` fills slot `i` and
    /// reads earlier slots. A value is an integer in units of `2^-f` of its type `(k, i, f)`; shifts
    /// to the right round down; to quantise is to drop the bits that the type does not have.
    pub enum Inst, table TABLE = "dais";
    bits Term::Const(320); params []; fields FIELDS;
    facts Facts;

    /// Quantises an input, scaled by the power of two that the program declares for it.
    Input = "input" "input {source}" ["opcode" = -1] is [since(Dialect::D0).quantising()] {
        /// The input.
        source: InputIndex = Operand::at("id0", Kind::Unsigned),
    }
    /// Adds `b * 2^shift` to `a`; bits below the result's step are dropped.
    Add = "add" "add {a}, {b}[ << {shift}]" ["opcode" = 0] is [since(Dialect::D0)] {
        /// First operand; it is not shifted.
        a: Slot = slot("id0"),
        /// Second operand.
        b: Slot = slot("id1"),
        /// Shift of the second operand.
        shift: i64 = shift("data"),
    }
    /// Subtracts `b * 2^shift` from `a`; bits below the result's step are dropped.
    Sub = "sub" "sub {a}, {b}[ << {shift}]" ["opcode" = 1] is [since(Dialect::D0)] {
        /// First operand; it is not shifted.
        a: Slot = slot("id0"),
        /// Second operand.
        b: Slot = slot("id1"),
        /// Shift of the second operand.
        shift: i64 = shift("data"),
    }
    /// Quantises `x`, or gives 0 if `x` is negative.
    Relu = "relu" "relu {x}" ["opcode" = 2] is [since(Dialect::D0).quantising()] {
        /// Operand.
        x: Slot = slot("id0"),
    }
    /// Quantises `-x`, or gives 0 if `-x` is negative.
    ReluNegated = "relu" "relu -{x}" ["opcode" = -2, "alir" = 0]
        is [since(Dialect::D0).quantising().negating()] {
        /// Operand.
        x: Slot = slot("id0"),
    }
    /// Quantises `x`.
    Quantise = "quantise" "quantise {x}" ["opcode" = 3, "alir" = 0]
        is [since(Dialect::D0).quantising()] {
        /// Operand.
        x: Slot = slot("id0"),
    }
    /// Quantises `-x`; the negation comes first.
    QuantiseNegated = "quantise" "quantise -{x}" ["opcode" = -3]
        is [since(Dialect::D0).quantising().negating()] {
        /// Operand.
        x: Slot = slot("id0"),
    }
    /// Adds `value` steps of the result to `x`.
    AddConstant = "add_const" "add_const {x}, {value}" ["opcode" = 4, "alir" = 0]
        is [since(Dialect::D0)] {
        /// Operand.
        x: Slot = slot("id0"),
        /// The constant in units of the result's step.
        value: i64 = Operand::at("data", Kind::Signed),
    }
    /// Gives `value` steps of the result.
    Constant = "const" "const {value}" ["opcode" = 5] is [since(Dialect::D0)] {
        /// The constant in units of the result's step.
        value: i64 = Operand::at("data", Kind::Signed),
    }
    /// Quantises `when_set` if the top bit of `condition` is set, else `when_clear * 2^shift`.
    Mux = "mux" "mux {condition}, {when_set}, {when_clear}[ << {shift}]" ["opcode" = 6]
        is [since(Dialect::D0).quantising()] {
        /// Taken if the bit is set.
        when_set: Slot = slot("id0"),
        /// Taken if the bit is clear.
        when_clear: Slot = slot("id1"),
        /// Its top bit decides: the sign bit of a signed type, the highest of an unsigned one.
        condition: Slot = slot("data_low"),
        /// Shift of `when_clear`.
        shift: i32 = shift("data_high"),
    }
    /// Quantises `when_set` if the top bit of `condition` is set, else `-when_clear * 2^shift`.
    MuxNegated = "mux" "mux {condition}, {when_set}, -{when_clear}[ << {shift}]" ["opcode" = -6]
        is [since(Dialect::D0).quantising().negating()] {
        /// Taken if the bit is set.
        when_set: Slot = slot("id0"),
        /// Taken negated if the bit is clear.
        when_clear: Slot = slot("id1"),
        /// Its top bit decides: the sign bit of a signed type, the highest of an unsigned one.
        condition: Slot = slot("data_low"),
        /// Shift of `when_clear`.
        shift: i32 = shift("data_high"),
    }
    /// Multiplies `a` by `b`; the result has the fraction bits of both.
    Multiply = "mul" "mul {a}, {b}" ["opcode" = 7] is [since(Dialect::D0)] {
        /// First factor.
        a: Slot = slot("id0"),
        /// Second factor.
        b: Slot = slot("id1"),
    }
    /// Gives the entry of a table that belongs to `x`. Entry 0 belongs to the value `pad` steps
    /// above the lowest of the operand's type; a value without entry is an error at run time.
    Lookup = "lookup" "lookup {x}, table {table}[, pad {pad}]" ["opcode" = 8]
        is [since(Dialect::D1Version0)] {
        /// Operand.
        x: Slot = slot("id0"),
        /// The table.
        table: TableIndex = Operand::at("data_low", Kind::Unsigned),
        /// Steps from the lowest value of the operand's type to the value of entry 0.
        pad: i32 = shift("data_high"),
    }
    /// Inverts the bits of `x`, or tests whether any or all of them are set. An inversion keeps the
    /// bits of the operand's type only, unless the result is signed.
    Bits = "bits" "bits.{op} {x}" ["opcode" = 9] is [since(Dialect::D1)] {
        /// Operand.
        x: Slot = slot("id0"),
        /// What to compute.
        op: UnaryBits = Operand::at("data", Kind::Names(UnaryBits::NAMES)),
    }
    /// Inverts the bits of `-x`, or tests whether any or all of them are set.
    BitsNegated = "bits" "bits.{op} -{x}" ["opcode" = -9] is [since(Dialect::D1).negating()] {
        /// Operand.
        x: Slot = slot("id0"),
        /// What to compute.
        op: UnaryBits = Operand::at("data", Kind::Names(UnaryBits::NAMES)),
    }
    /// Combines the bits of `a` and `b * 2^shift`, each perhaps negated, in two's complement. The
    /// operands are aligned first, so that no bit is lost.
    Bitwise = "bits" "bits.{op} {negate_a?-}{a}, {negate_b?-}{b}[ << {shift}]" ["opcode" = 10]
        is [since(Dialect::D1)] {
        /// First operand; it is not shifted.
        a: Slot = slot("id0"),
        /// Second operand.
        b: Slot = slot("id1"),
        /// Shift of the second operand.
        shift: i32 = shift("data_low"),
        /// The first operand is negated.
        negate_a: bool = Operand::at("negate0", Kind::Flag),
        /// The second operand is negated.
        negate_b: bool = Operand::at("negate1", Kind::Flag),
        /// What to compute.
        op: BinaryBits = Operand::at("bit_op", Kind::Names(BinaryBits::NAMES)),
    }
    /// Negates `x`.
    Negate = "neg" "neg {x}" ["opcode" = -2, "alir" = 1] is [since(Dialect::A4)] {
        /// Operand.
        x: Slot = slot("id0"),
    }
    /// Quantises `x * 2^shift`.
    QuantiseShifted = "rescale" "rescale {x} << {shift}" ["opcode" = 3, "alir" = 1]
        is [since(Dialect::A4).quantising()] {
        /// Operand.
        x: Slot = slot("id0"),
        /// Shift of the operand.
        shift: i64 = Operand::at("data", Kind::Signed),
    }
    /// Adds `value * 2^-scale` to `x`; bits below the result's step are dropped.
    AddScaled = "add_scaled" "add_scaled {x}, {value}[ >> {scale}]" ["opcode" = 4, "alir" = 1]
        is [since(Dialect::A4)] {
        /// Operand.
        x: Slot = slot("id0"),
        /// The constant in units of `2^-scale`.
        value: i64 = Operand::at("data", Kind::Signed),
        /// Fraction bits of the constant.
        scale: i32 = shift("scale"),
    }
    /// Adds three operands, each shifted and perhaps negated; bits below the result's step are
    /// dropped.
    Sum = "sum" "sum {negate_a?-}{a}[ << {shift_a}], {negate_b?-}{b}[ << {shift_b}], {negate_c?-}{c}[ << {shift_c}]" ["opcode" = 11, "alir" = 1]
        is [since(Dialect::A4)] {
        /// First operand.
        a: Slot = slot("id0"),
        /// Second operand.
        b: Slot = slot("id1"),
        /// Third operand.
        c: Slot = slot("id2"),
        /// Shift of the first operand.
        shift_a: i32 = shift("data_low"),
        /// Shift of the second operand.
        shift_b: i32 = shift("data_high"),
        /// Shift of the third operand.
        shift_c: i32 = shift("scale"),
        /// The first operand is subtracted.
        negate_a: bool = Operand::at("minus0", Kind::Flag),
        /// The second operand is subtracted.
        negate_b: bool = Operand::at("minus1", Kind::Flag),
        /// The third operand is subtracted.
        negate_c: bool = Operand::at("minus2", Kind::Flag),
    }
}

impl Inst {
    /// The slots it reads, in the order of the row. A slot read twice comes twice.
    pub fn operands(&self) -> impl Iterator<Item = Slot> + use<> {
        self.operands_of().into_iter()
    }

    /// The same instruction on other slots; `map` is called in the order of [`Inst::operands`].
    #[must_use]
    pub fn map_operands(mut self, mut map: impl FnMut(Slot) -> Slot) -> Inst {
        self.visit_operands(|slot| *slot = map(*slot));
        self
    }

    /// The terms of an addition, subtraction or sum: operand, shift to the left, subtracted.
    #[deny(clippy::wildcard_enum_match_arm)]
    pub fn terms(&self) -> impl Iterator<Item = (Slot, i64, bool)> + Clone + use<> {
        let terms = match *self {
            Inst::Add { a, b, shift } => [Some((a, 0, false)), Some((b, shift, false)), None],
            Inst::Sub { a, b, shift } => [Some((a, 0, false)), Some((b, shift, true)), None],
            Inst::Sum { a, b, c, shift_a, shift_b, shift_c, negate_a, negate_b, negate_c } => [
                Some((a, i64::from(shift_a), negate_a)),
                Some((b, i64::from(shift_b), negate_b)),
                Some((c, i64::from(shift_c), negate_c)),
            ],
            Inst::Input { .. } | Inst::Constant { .. } | Inst::Lookup { .. } => [None; 3],
            Inst::Relu { .. } | Inst::ReluNegated { .. } | Inst::Negate { .. } => [None; 3],
            Inst::Quantise { .. } | Inst::QuantiseNegated { .. } => [None; 3],
            Inst::QuantiseShifted { .. } | Inst::AddConstant { .. } => [None; 3],
            Inst::AddScaled { .. } | Inst::Multiply { .. } => [None; 3],
            Inst::Mux { .. } | Inst::MuxNegated { .. } => [None; 3],
            Inst::Bits { .. } | Inst::BitsNegated { .. } | Inst::Bitwise { .. } => [None; 3],
        };
        terms.into_iter().flatten()
    }

    /// Its mnemonic; several instructions may share one.
    pub fn mnemonic(&self) -> &'static str {
        TABLE.rows[self.row()].mnemonic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_well_formed() {
        assert_eq!(TABLE.check(), Vec::<String>::new());
        assert_eq!(layout().bytes(), 40);
    }

    #[test]
    fn operands_come_in_the_order_of_the_words() {
        let [condition, when_set, when_clear] = [Slot(1), Slot(2), Slot(3)];
        let mux = Inst::Mux { condition, when_set, when_clear, shift: 0 };
        assert_eq!(mux.operands().collect::<Vec<_>>(), [Slot(2), Slot(3), Slot(1)]);
        assert_eq!(Inst::Constant { value: 1 }.operands().count(), 0);
    }
}
