//! Where the fields of a table lie in the instruction word, for one set of machine parameters.

use crate::bits::{Bits, MAX_BITS, mask};
use crate::table::{FieldSpec, Row, Table, Term};
use crate::template::{fault, range_of};
use quincunx_diag::{Diagnostic, Result};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A field at its place.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// Bits (lowest, number), low piece first.
    pieces: SmallVec<[(u32, u32); 2]>,
    runs: Vec<Run>,
    width: u32,
    signed: bool,
    /// The smallest and the largest number it holds.
    range: (i128, i128),
}

/// Bits of a field that lie side by side in 64 bits of the instruction word.
#[derive(Clone, Copy, Debug)]
struct Run {
    word: usize,
    /// The lowest bit in those 64.
    at: u32,
    /// The lowest bit in the value.
    shift: u32,
    /// As many ones as bits.
    mask: u64,
}

/// What encoding and decoding need to know of a row.
#[derive(Clone, Debug)]
pub(crate) struct RowLayout {
    /// The bits of the fixed fields, and their values.
    pub(crate) match_mask: Bits,
    pub(crate) match_value: Bits,
    /// All bits that the row uses.
    pub(crate) used: Bits,
    /// The values of all other bits.
    pub(crate) rest: Bits,
    /// Field index of each operand.
    pub(crate) fields: SmallVec<[Option<usize>; 8]>,
    /// Limits of the values of each operand.
    pub(crate) ranges: Vec<(i128, i128)>,
}

/// The layout of a table for one set of machine parameters.
#[derive(Clone, Debug)]
pub struct Layout {
    table: &'static Table,
    bits: u32,
    params: Vec<(&'static str, u32)>,
    /// The values of the table's `params`.
    own: Vec<u32>,
    pub(crate) fields: Vec<Field>,
    pub(crate) rows: Vec<RowLayout>,
    /// The field that all rows fix first, if there is one, and the rows of its values.
    lead: Option<(usize, FxHashMap<i128, Vec<usize>>)>,
}

impl Layout {
    /// Places the fields of a table. `params` gives the machine's parameters by name.
    ///
    /// # Errors
    /// `Q2121` when the instruction word would have more than [`MAX_BITS`] bits, `Q2122` when a
    /// field does not fit the word or cannot hold its rest value or a fixed value; an internal
    /// error when the table is wrong or lacks a parameter: a row whose fields overlap, or two rows
    /// that decoding could not tell apart.
    pub fn resolve(table: &'static Table, params: &dyn Fn(&str) -> Option<u32>) -> Result<Layout> {
        let mut resolver = Resolver { table, source: params, params: Vec::new() };
        let bits = resolver.term(table.bits)?;
        if bits > MAX_BITS {
            let message = format!("a {} instruction would have {bits} bits", table.machine);
            return Err(Diagnostic::unsupported("Q2121", message)
                .with_note(format!("an instruction has at most {MAX_BITS} bits")));
        }
        let own = table.params.iter().map(|name| resolver.param(name)).collect::<Result<_>>()?;
        let fields = table.fields.iter().map(|spec| resolver.field(spec, bits));
        let fields = fields.collect::<Result<_>>()?;
        let (params, rows) = (resolver.params, Vec::new());
        let mut layout = Layout { table, bits, params, own, fields, rows, lead: None };
        layout.rows = table.rows.iter().map(|row| layout.row(row)).collect::<Result<_>>()?;
        layout.lead = layout.leads();
        if table.has_code() {
            layout.check_ambiguity()?;
        }
        Ok(layout)
    }

    /// The layout of a table without parameters.
    ///
    /// # Errors
    /// As [`Layout::resolve`].
    pub fn fixed(table: &'static Table) -> Result<Layout> {
        Layout::resolve(table, &|_| None)
    }

    /// The table.
    pub fn table(&self) -> &'static Table {
        self.table
    }

    /// Bits of an instruction word.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Bytes of an instruction word.
    pub fn bytes(&self) -> usize {
        self.bits.div_ceil(8) as usize
    }

    /// A parameter that the table uses.
    pub fn param(&self, name: &str) -> Option<u32> {
        self.params.iter().find(|(key, _)| *key == name).map(|&(_, value)| value)
    }

    /// The parameter with this index in the table's `params`.
    ///
    /// # Panics
    /// When there is none.
    pub fn param_at(&self, index: usize) -> u32 {
        self.own[index]
    }

    /// Width of a field in bits.
    pub fn width(&self, field: &str) -> Option<u32> {
        self.find(field).map(|index| self.fields[index].width)
    }

    /// The pieces of a field as (lowest bit, number of bits), low piece first.
    pub fn pieces(&self, field: &str) -> Option<&[(u32, u32)]> {
        self.find(field).map(|index| &self.fields[index].pieces[..])
    }

    /// The smallest and the largest value of an operand; `None` if there is no such row or operand.
    pub fn range(&self, row: usize, operand: usize) -> Option<(i128, i128)> {
        self.rows.get(row)?.ranges.get(operand).copied()
    }

    /// Reads a field of a word, whether the instruction uses it or not.
    pub fn read(&self, field: &str, word: &Bits) -> Option<i128> {
        self.find(field).map(|index| self.fields[index].get(word))
    }

    /// True if some row fixes the field that all rows fix first as the word has it; also where there is no
    /// such field.
    pub fn may_match(&self, word: &Bits) -> bool {
        self.lead
            .as_ref()
            .is_none_or(|(field, rows)| rows.contains_key(&self.fields[*field].get(word)))
    }

    /// The row whose fixed bits a word has.
    pub(crate) fn matching(&self, word: &Bits) -> Option<usize> {
        let matches = |&index: &usize| {
            let row = &self.rows[index];
            word.and(&row.match_mask).xor(&row.match_value).is_zero()
        };
        match &self.lead {
            Some((field, rows)) => {
                rows.get(&self.fields[*field].get(word))?.iter().copied().find(matches)
            }
            None => (0..self.rows.len()).find(matches),
        }
    }

    fn leads(&self) -> Option<(usize, FxHashMap<i128, Vec<usize>>)> {
        let (name, _) = self.table.rows.first()?.matches.first()?;
        let mut rows: FxHashMap<i128, Vec<usize>> = FxHashMap::default();
        for (index, row) in self.table.rows.iter().enumerate() {
            let (_, value) = row.matches.first().filter(|(own, _)| own == name)?;
            rows.entry(*value).or_default().push(index);
        }
        Some((self.find(name)?, rows))
    }

    fn find(&self, field: &str) -> Option<usize> {
        self.table.fields.iter().position(|spec| spec.name == field)
    }

    fn row(&self, row: &'static Row) -> Result<RowLayout> {
        let bug = |text: String| {
            let machine = self.table.machine;
            Diagnostic::bug(format!("table {machine}, row {}: {text}", row.name))
        };
        let lookup = |name: &str| self.find(name).ok_or_else(|| bug(format!("no field {name}")));
        let mut result = RowLayout::new();
        for &(name, value) in row.matches {
            let field = &self.fields[lookup(name)?];
            let mask = field.mask();
            if !result.match_mask.and(&mask).is_zero() {
                return Err(bug(format!("field {name} overlaps another one")));
            }
            if !field.holds(value) {
                return Err(cannot_hold(self.table, name, field, value));
            }
            result.match_mask = result.match_mask.or(&mask);
            field.set(&mut result.match_value, value);
        }
        result.used = result.match_mask;
        for operand in row.operands {
            let index = operand.field.map(lookup).transpose()?;
            let stored = index.map(|index| self.fields[index].range());
            result.fields.push(index);
            result.ranges.push(range_of(operand, stored));
            let mask = index.map_or(Bits::ZERO, |index| self.fields[index].mask());
            if !result.used.and(&mask).is_zero() {
                return Err(bug(format!("the field of operand {} overlaps another", operand.name)));
            }
            result.used = result.used.or(&mask);
        }
        result.rest = self.rest(&result.used);
        Ok(result)
    }

    /// The bits outside `used`: the rest values of the fields that do not touch it.
    fn rest(&self, used: &Bits) -> Bits {
        let mut word = Bits::ZERO;
        for (spec, field) in self.table.fields.iter().zip(&self.fields) {
            if spec.rest != 0 && field.mask().and(used).is_zero() {
                field.set(&mut word, spec.rest);
            }
        }
        word
    }

    fn check_ambiguity(&self) -> Result<()> {
        for (index, row) in self.rows.iter().enumerate() {
            for (earlier, other) in self.rows[..index].iter().enumerate() {
                let common = row.match_mask.and(&other.match_mask);
                if row.match_value.xor(&other.match_value).and(&common).is_zero() {
                    let (a, b) = (self.table.rows[earlier].name, self.table.rows[index].name);
                    let machine = self.table.machine;
                    let text = format!("table {machine}: rows {a} and {b} can match one word");
                    return Err(Diagnostic::bug(text));
                }
            }
        }
        Ok(())
    }
}

impl RowLayout {
    fn new() -> RowLayout {
        RowLayout {
            match_mask: Bits::ZERO,
            match_value: Bits::ZERO,
            used: Bits::ZERO,
            rest: Bits::ZERO,
            fields: SmallVec::new(),
            ranges: Vec::new(),
        }
    }

    /// The error for the first value that an operand cannot have, if there is one.
    pub(crate) fn fault(&self, spec: &Row, values: &[i128]) -> Option<Diagnostic> {
        let mut operands = spec.operands.iter().zip(&self.ranges).zip(values);
        operands
            .find_map(|((operand, &range), &value)| fault(spec, operand, value, range))
            .map(|fault| fault.diagnostic())
    }
}

impl Field {
    fn new(signed: bool) -> Field {
        Field { pieces: SmallVec::new(), runs: Vec::new(), width: 0, signed, range: (0, 0) }
    }

    /// Reads the field.
    pub(crate) fn get(&self, word: &Bits) -> i128 {
        let parts = self.runs.iter().map(|run| (word.0[run.word] >> run.at & run.mask, run.shift));
        // Most fields are narrow, and shifts of 128 bits take long.
        let value = match self.width {
            ..=64 => parts.fold(0, |sum, (part, shift)| sum | part << shift).into(),
            _ => parts.fold(0, |sum, (part, shift)| sum | i128::from(part) << shift),
        };
        if self.signed && self.width > 0 {
            let unused = 128 - self.width;
            return value << unused >> unused;
        }
        value
    }

    /// Writes the field; bits of the value past its width are dropped.
    pub(crate) fn set(&self, bits: &mut Bits, value: i128) {
        let part = |run: &Run| match self.width {
            ..=64 => value as u64 >> run.shift,
            _ => (value >> run.shift) as u64,
        };
        // Together for each word, which stays in a register meanwhile.
        for runs in self.runs.chunk_by(|run, next| run.word == next.word) {
            let word = &mut bits.0[runs[0].word];
            *word = runs.iter().fold(*word, |word, run| {
                word & !(run.mask << run.at) | (part(run) & run.mask) << run.at
            });
        }
    }

    /// Appends bits of the word.
    fn push(&mut self, mut at: u32, mut width: u32) {
        self.pieces.push((at, width));
        while width > 0 {
            let (word, low) = ((at / 64) as usize, at % 64);
            let own = width.min(64 - low);
            match self.runs.last_mut() {
                // The next bit of the same word.
                Some(run) if run.word == word && run.at + run.mask.count_ones() == low => {
                    run.mask |= mask(own) << run.mask.count_ones();
                }
                _ => self.runs.push(Run { word, at: low, shift: self.width, mask: mask(own) }),
            }
            self.width += own;
            at += own;
            width -= own;
        }
        self.range = match (self.width, self.signed) {
            (0, _) => (0, 0),
            (width, true) => (-(1 << (width - 1)), (1 << (width - 1)) - 1),
            (width, false) => (0, i128::MAX >> (127 - width)),
        };
    }

    /// The smallest and the largest number it holds.
    pub(crate) fn range(&self) -> (i128, i128) {
        self.range
    }

    pub(crate) fn holds(&self, value: i128) -> bool {
        let (low, high) = self.range();
        (low..=high).contains(&value)
    }

    pub(crate) fn mask(&self) -> Bits {
        let mut bits = Bits::ZERO;
        self.set(&mut bits, -1);
        bits
    }
}

struct Resolver<'a> {
    table: &'static Table,
    source: &'a dyn Fn(&str) -> Option<u32>,
    params: Vec<(&'static str, u32)>,
}

impl Resolver<'_> {
    fn param(&mut self, name: &'static str) -> Result<u32> {
        if let Some(&(_, value)) = self.params.iter().find(|(key, _)| *key == name) {
            return Ok(value);
        }
        let value = (self.source)(name).ok_or_else(|| {
            Diagnostic::bug(format!("table {}: no parameter {name}", self.table.machine))
        })?;
        self.params.push((name, value));
        Ok(value)
    }

    fn term(&mut self, term: Term) -> Result<u32> {
        match term {
            Term::Const(number) => Ok(number),
            Term::Param(name) => self.param(name),
            Term::Sum(terms) => terms.iter().try_fold(0u32, |sum, &term| {
                // Saturation is enough: such a position is refused as out of the word.
                Ok(sum.saturating_add(self.term(term)?))
            }),
        }
    }

    fn field(&mut self, spec: &FieldSpec, bits: u32) -> Result<Field> {
        let (machine, name) = (self.table.machine, spec.name);
        let mut field = Field::new(spec.signed);
        let mut taken = Bits::ZERO;
        for piece in spec.pieces {
            let (at, width) = (self.term(piece.at)?, self.term(piece.width)?);
            let misfit = if at.checked_add(width).is_none_or(|end| end > bits) {
                Some(format!("the word has {bits} bits"))
            } else if width > 64 {
                Some("a piece has at most 64 bits".to_owned())
            } else if field.width + width > 127 {
                Some("a field has at most 127 bits".to_owned())
            } else {
                None
            };
            if let Some(note) = misfit {
                let message = format!("field {name} of {machine} cannot have {width} bits at {at}");
                return Err(Diagnostic::unsupported("Q2122", message).with_note(note));
            }
            let mut piece = Field::new(false);
            piece.push(at, width);
            if !taken.and(&piece.mask()).is_zero() {
                return Err(Diagnostic::bug(format!(
                    "table {machine}: field {name} has a bit twice"
                )));
            }
            taken = taken.or(&piece.mask());
            field.push(at, width);
        }
        if spec.rest != 0 && !field.holds(spec.rest) {
            return Err(cannot_hold(self.table, name, &field, spec.rest));
        }
        Ok(field)
    }
}

/// The error for a fixed value that does not fit its field, which parameters have made too narrow.
fn cannot_hold(table: &Table, name: &str, field: &Field, value: i128) -> Diagnostic {
    let (machine, width) = (table.machine, field.width);
    let message = format!("field {name} of {machine} has {width} bits and cannot hold {value}");
    Diagnostic::unsupported("Q2122", message)
}
