//! The instruction table: plain data that describes every instruction of one machine once.

use crate::cursor::Cursor;
use crate::layout::Layout;
use crate::template::Template;
use quincunx_diag::Result;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::fmt;
use std::sync::OnceLock;

/// Operand values of one instruction, in the order of the row's operands.
pub type Values<T = i128> = SmallVec<[T; 18]>;

/// A number of a field position that may depend on the machine's parameters.
#[derive(Clone, Copy, Debug)]
pub enum Term {
    /// A fixed number.
    Const(u32),
    /// A parameter, looked up when the layout is resolved.
    Param(&'static str),
    /// A sum.
    Sum(&'static [Term]),
}

/// A contiguous run of bits of a field.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Lowest bit.
    pub at: Term,
    /// Number of bits, at most 64; may be 0.
    pub width: Term,
}

/// A field of the instruction word. Fields of different rows may overlap.
#[derive(Clone, Copy, Debug)]
pub struct FieldSpec {
    /// Name.
    pub name: &'static str,
    /// The bits, low piece first; at most 127 bits together, no bit twice.
    pub pieces: &'static [Piece],
    /// True for two's complement.
    pub signed: bool,
    /// The value in instructions that use no bit of the field. Where such fields overlap, the last
    /// one in the table with a value other than 0 decides.
    pub rest: i128,
}

/// How the value of an operand is written in text and stored in its field.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A number that is not negative.
    Unsigned,
    /// A number.
    Signed,
    /// A number that is not negative, printed in hexadecimal.
    Hex,
    /// A number stored minus this one: a count of at least 1 stored minus 1 is `Biased(1)`.
    Biased(i128),
    /// A multiple of this positive number, stored divided by it.
    Scaled(i128),
    /// One of the names, stored as its number.
    Names(&'static [(&'static str, i128)]),
    /// False (0) or true (1). The text form is `{name?text}` in the syntax: the text is there when
    /// the flag is true.
    Flag,
    /// Text of its own.
    Custom(&'static Custom),
}

/// An operand kind with a text form of its own; the number in the field is the value.
pub struct Custom {
    /// What it is, for manuals and messages: `register list`.
    pub name: &'static str,
    /// Reads it. On an error the position of the cursor tells how far it got.
    pub parse: fn(&mut Cursor<'_>) -> Result<i128>,
    /// Writes what `parse` reads.
    pub print: fn(i128, &mut String),
    /// Whether the value exists. It must hold for every value that `parse` gives.
    pub legal: fn(i128) -> bool,
    /// A random legal value; the argument draws a number below its argument.
    pub random: fn(&mut dyn FnMut(u64) -> u64) -> i128,
}

/// One operand of a row.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// Name, as in the syntax and in the enum.
    pub name: &'static str,
    /// Documentation, one entry per line.
    pub doc: &'static [&'static str],
    /// Kind.
    pub kind: Kind,
    /// Field it is stored in. An operand without a field is only for the row's fixup.
    pub field: Option<&'static str>,
    /// The value when an optional group of the syntax is absent.
    pub default: Option<i128>,
    /// Allowed values (both ends included), besides what the kind and the field allow.
    pub range: Option<(i128, i128)>,
    /// True when the row's fixup changes the value between text and field, so that the width of
    /// the field says nothing about the value in the text.
    pub converted: bool,
}

/// Converts between the operand values in the text and the values that the fields and their kinds
/// can have, in place, for rows whose operands depend on each other or on the machine's parameters.
/// The kind of an operand still does its part: a [`Kind::Biased`] operand is stored minus the bias
/// after `to_fields`.
#[derive(Clone, Copy)]
pub struct Fixup {
    /// From the values of the text, before encoding.
    pub to_fields: fn(&mut [i128], &Layout) -> Result<()>,
    /// To the values of the text, after decoding.
    pub to_values: fn(&mut [i128], &Layout) -> Result<()>,
}

/// One instruction, or one form of it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name of the enum variant; unique.
    pub name: &'static str,
    /// Mnemonic; several rows may share it.
    pub mnemonic: &'static str,
    /// Text form, mnemonic included; `{mnemonic}` stands for it. `{a}` is an operand, `{a?text}` a flag, `[...]` an optional
    /// group that is absent when all its operands have their default; it is recognised by its text
    /// before its first operand, or else by that operand. A group without operands is text that
    /// may be missing when it is read: `Load[s]` prints as `Loads`. A doubled brace or bracket stands for
    /// itself; a blank stands for any run of blanks.
    pub syntax: &'static str,
    /// Documentation, one entry per line.
    pub doc: &'static [&'static str],
    /// Fields with a fixed value, by which decoding finds the row.
    pub matches: &'static [(&'static str, i128)],
    /// Operands.
    pub operands: &'static [Operand],
    /// Conversion for irregular rows.
    pub fixup: Option<Fixup>,
    /// The instructions that it is short for, in a form that the machine reads.
    pub steps: &'static [&'static str],
}

/// All instructions of a machine. Made by [`instructions!`](crate::instructions).
pub struct Table {
    /// Name of the machine.
    pub machine: &'static str,
    /// Documentation, one entry per line.
    pub doc: &'static [&'static str],
    /// Width of the instruction word in bits; `Term::Const(0)` for a machine without machine code.
    pub bits: Term,
    /// Parameters that fixups ask for besides those of the fields.
    pub params: &'static [&'static str],
    /// Fields.
    pub fields: &'static [FieldSpec],
    /// Rows.
    pub rows: &'static [Row],
    /// The compiled syntaxes, filled at the first use.
    templates: OnceLock<Vec<Template>>,
    /// The rows of every mnemonic in table order, filled at the first use.
    mnemonics: OnceLock<FxHashMap<&'static str, Vec<usize>>>,
}

/// An instruction as data: the row of its table and its operand values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RawInst {
    /// Index in [`Table::rows`].
    pub row: usize,
    /// Operand values.
    pub values: Values,
}

impl Row {
    /// The text form with the mnemonic in its place.
    pub fn form(&self) -> String {
        self.syntax.replace("{mnemonic}", self.mnemonic)
    }

    /// The operand with this name and its index.
    pub fn operand(&self, name: &str) -> Option<(usize, &'static Operand)> {
        self.operands.iter().enumerate().find(|(_, operand)| operand.name == name)
    }
}

impl Table {
    /// A table of these parts.
    pub const fn new(
        machine: &'static str,
        doc: &'static [&'static str],
        bits: Term,
        params: &'static [&'static str],
        fields: &'static [FieldSpec],
        rows: &'static [Row],
    ) -> Table {
        Table {
            machine,
            doc,
            bits,
            params,
            fields,
            rows,
            templates: OnceLock::new(),
            mnemonics: OnceLock::new(),
        }
    }

    /// False for a machine that has assembly text only: its word has 0 bits, and its operands need no
    /// fields.
    pub fn has_code(&self) -> bool {
        !matches!(self.bits, Term::Const(0))
    }

    /// Every mnemonic once, in table order.
    pub fn mnemonics(&self) -> Vec<&'static str> {
        let mut list = Vec::new();
        for row in self.rows {
            if !list.contains(&row.mnemonic) {
                list.push(row.mnemonic);
            }
        }
        list
    }

    /// The rows with this mnemonic.
    pub fn find(&self, mnemonic: &str) -> impl Iterator<Item = (usize, &'static Row)> + Clone {
        let index = self.mnemonics.get_or_init(|| {
            let mut index: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
            for (row, spec) in self.rows.iter().enumerate() {
                index.entry(spec.mnemonic).or_default().push(row);
            }
            index
        });
        let rows = self.rows;
        index.get(mnemonic).into_iter().flatten().map(move |&row| (row, &rows[row]))
    }

    /// The compiled syntax of every row.
    ///
    /// # Panics
    /// When a syntax is malformed, which is a bug in the table; [`Table::check`] reports it.
    pub(crate) fn templates(&self) -> &[Template] {
        self.templates.get_or_init(|| {
            let compile = |row| match Template::compile(row) {
                Ok(template) => template,
                Err(problem) => panic!("table {}, row {}: {problem}", self.machine, row.name),
            };
            let mut templates: Vec<Template> = self.rows.iter().map(compile).collect();
            for row in 1..templates.len() {
                let (above, own) = templates.split_at_mut(row);
                own[0].share(&self.rows[row], &above[row - 1], &self.rows[row - 1]);
            }
            templates
        })
    }

    /// Problems of the table that do not depend on a layout; a test of every table asserts that
    /// there are none. [`Layout::resolve`] checks the rest.
    pub fn check(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            let mut found = row.problems(self.has_code());
            if self.rows[..index].iter().any(|earlier| earlier.name == row.name) {
                found.push("its name is taken".to_owned());
            }
            problems.extend(found.into_iter().map(|text| format!("{}: {text}", row.name)));
        }
        problems
    }
}

impl Row {
    fn problems(&self, has_code: bool) -> Vec<String> {
        let mut problems = Vec::new();
        if self.doc.is_empty() {
            problems.push("it has no documentation".to_owned());
        }
        match Template::compile(self) {
            Err(problem) => problems.push(problem),
            Ok(template) => {
                for (index, operand) in self.operands.iter().enumerate() {
                    let found = self.operand_problems(index, operand, &template, has_code);
                    let name = operand.name;
                    problems.extend(found.iter().map(|text| format!("operand {name} {text}")));
                }
            }
        }
        problems
    }

    fn operand_problems(
        &self,
        index: usize,
        operand: &Operand,
        template: &Template,
        has_code: bool,
    ) -> Vec<&'static str> {
        let irregular = self.fixup.is_some();
        let mentions = template.mentions(index);
        let default_is_wrong = operand.default.is_some_and(|value| {
            let (low, high) = operand.range.unwrap_or((i128::MIN, i128::MAX));
            !operand.kind.has(value) || value < low || value > high
        });
        let checks = [
            (mentions == 0 && !irregular, "is not in the syntax"),
            (mentions > 1, "is more than once in the syntax"),
            (template.is_optional(index) && operand.default.is_none(), "has no default"),
            (default_is_wrong, "cannot have its default"),
            (operand.field.is_none() && !irregular && has_code, "has no field"),
            (operand.converted && !irregular, "is converted, but the row has no fixup"),
            (matches!(operand.kind, Kind::Scaled(..=0)), "has no positive scale"),
        ];
        let found = |(wrong, text): (bool, &'static str)| wrong.then_some(text);
        checks.into_iter().filter_map(found).collect()
    }
}

impl Kind {
    /// What to write for it, for messages and manuals.
    pub fn describe(&self) -> String {
        match self {
            Kind::Unsigned => "unsigned number".to_owned(),
            Kind::Signed => "number".to_owned(),
            Kind::Hex => "hexadecimal number".to_owned(),
            Kind::Biased(bias) => format!("number, stored minus {bias}"),
            Kind::Scaled(scale) => format!("multiple of {scale}"),
            Kind::Names(names) => Kind::describe_names(names),
            Kind::Flag => "flag".to_owned(),
            Kind::Custom(custom) => custom.name.to_owned(),
        }
    }

    fn is(&self, other: &Kind) -> bool {
        match (self, other) {
            (Kind::Biased(own), Kind::Biased(other)) => own == other,
            (Kind::Scaled(own), Kind::Scaled(other)) => own == other,
            (Kind::Names(own), Kind::Names(other)) => own == other,
            (Kind::Custom(own), Kind::Custom(other)) => std::ptr::eq(*own, *other),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// One of the names, in words.
    pub(crate) fn describe_names(names: &[(&str, i128)]) -> String {
        let list: Vec<String> = names.iter().map(|(name, _)| format!("`{name}`")).collect();
        if let [only] = &list[..] { only.clone() } else { format!("one of {}", list.join(", ")) }
    }

    /// The value as stored, if it can be stored at all.
    pub(crate) fn to_stored(self, value: i128) -> Option<i128> {
        match self {
            Kind::Biased(bias) => value.checked_sub(bias),
            Kind::Scaled(scale) => {
                (value.checked_rem(scale)? == 0).then(|| value.checked_div(scale))?
            }
            _ => Some(value),
        }
    }

    /// The value of a stored number; whether the kind has this value is another question.
    pub(crate) fn to_value(self, stored: i128) -> Option<i128> {
        match self {
            Kind::Biased(bias) => stored.checked_add(bias),
            Kind::Scaled(scale) => stored.checked_mul(scale),
            _ => Some(stored),
        }
    }

    /// Whether the kind alone allows the value.
    pub(crate) fn has(&self, value: i128) -> bool {
        match self {
            Kind::Unsigned | Kind::Hex => value >= 0,
            Kind::Signed | Kind::Biased(_) => true,
            Kind::Scaled(scale) => value.checked_rem(*scale) == Some(0),
            Kind::Names(names) => names.iter().any(|&(_, number)| number == value),
            Kind::Flag => value == 0 || value == 1,
            Kind::Custom(custom) => (custom.legal)(value),
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl fmt::Debug for Fixup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fixup")
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({})", self.machine)
    }
}

impl Piece {
    /// Bits at a fixed place.
    pub const fn fixed(at: u32, width: u32) -> Piece {
        Piece { at: Term::Const(at), width: Term::Const(width) }
    }
}

impl FieldSpec {
    /// A field of unsigned numbers, 0 where it is not used.
    pub const fn unsigned(name: &'static str, pieces: &'static [Piece]) -> FieldSpec {
        FieldSpec { name, pieces, signed: false, rest: 0 }
    }

    /// A field of two's complement numbers, 0 where it is not used.
    pub const fn signed(name: &'static str, pieces: &'static [Piece]) -> FieldSpec {
        FieldSpec { name, pieces, signed: true, rest: 0 }
    }

    /// The same field with another value where it is not used.
    #[must_use]
    pub const fn rest(self, rest: i128) -> FieldSpec {
        FieldSpec { rest, ..self }
    }
}

impl Operand {
    /// True if a text is the same value of another operand, or of neither.
    pub(crate) fn reads_as(&self, other: &Operand) -> bool {
        self.field == other.field
            && self.range == other.range
            && self.converted == other.converted
            && self.kind.is(&other.kind)
    }

    /// An operand stored in a field. Name and documentation come from the row.
    pub const fn at(field: &'static str, kind: Kind) -> Operand {
        Operand { field: Some(field), ..Operand::free(kind) }
    }

    /// An operand that only the row's fixup stores.
    pub const fn free(kind: Kind) -> Operand {
        Operand {
            name: "",
            doc: &[],
            kind,
            field: None,
            default: None,
            range: None,
            converted: false,
        }
    }

    /// The value when an optional group of the syntax is absent.
    #[must_use]
    pub const fn or(self, default: i128) -> Operand {
        Operand { default: Some(default), ..self }
    }

    /// Allowed values, both ends included.
    #[must_use]
    pub const fn within(self, low: i128, high: i128) -> Operand {
        Operand { range: Some((low, high)), ..self }
    }

    /// The row's fixup changes the value between text and field.
    #[must_use]
    pub const fn converted(self) -> Operand {
        Operand { converted: true, ..self }
    }
}
