//! Instructions as alkaid's lists: the slots an operation reads and the numbers it has.
//! Facts: `alkaid` (`docs/bibliography.md`).
//!
//! Nothing here repeats the table: the slots are those of [`Inst::operands`], the numbers are the
//! operands of the row that are neither slots nor flags, in the order of the row. Three
//! instructions differ: a quantiser spells out its shift, a constant to be added its scale, and a
//! sum has a sign and a shift for each term.

use super::{Dialect, Inst, Kind, Slot, TABLE, layout};
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::{Operand, RawInst, Row, Values};

/// Opcode of a sum.
pub(crate) const SUM: i32 = 11;

/// An operation in alkaid's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) opcode: i32,
    /// The slots it reads.
    pub(crate) addr: Vec<Slot>,
    /// Its numbers.
    pub(crate) data: Vec<i64>,
}

/// One term of a sum: operand, shift to the left, subtracted.
pub(crate) type Term = (Slot, i32, bool);

impl Lists {
    /// The lists of an instruction of the dialect, whose result has `fraction` fraction bits.
    ///
    /// # Errors
    /// A bug for an instruction that the dialect does not have.
    pub(crate) fn of(inst: Inst, fraction: i32) -> Result<Lists> {
        if !Dialect::A4.has(inst) {
            return Err(Diagnostic::bug(format!("alkaid has no form for {inst:?}")));
        }
        let row = &TABLE.rows[inst.row()];
        let mut data = numbers(row, &inst.to_raw());
        match inst {
            Inst::Quantise { .. } => data.push(0),
            Inst::AddConstant { .. } => data.push(fraction.into()),
            Inst::Sum { .. } => {
                data = inst.terms().flat_map(|(_, s, minus)| [(!minus).into(), s]).collect();
            }
            _ => {}
        }
        Ok(Lists { opcode: opcode(row), addr: inst.operands().collect(), data })
    }

    /// The instruction; sums of other than three terms, for which the program has no instruction,
    /// are the business of the caller.
    ///
    /// # Errors
    /// `Q1091` for an opcode that alkaid does not have, `Q1092` for lists of other lengths than the
    /// instruction has, and what the instruction table says about a number out of range.
    pub(crate) fn to_inst(&self, fraction: i32) -> Result<Inst> {
        let row = match (self.opcode, &self.data[..]) {
            (3, [0]) => row_with(3, false),
            (4, &[_, scale]) if scale == i64::from(fraction) => row_with(4, false),
            (opcode, _) => row_with(opcode, true).or_else(|| row_with(opcode, false)),
        };
        let row = row.ok_or_else(|| unknown_opcode(self.opcode))?;
        if self.opcode == SUM {
            return self.sum_of_three(row);
        }
        let spec = &TABLE.rows[row];
        let mut data = self.data.clone();
        // What such a row leaves out, the quantiser's shift and the scale of the constant, was
        // looked at to find the row.
        let left_out = usize::from(matches!(self.opcode, 3 | 4) && !is_alir(spec));
        data.truncate(data.len().saturating_sub(left_out));
        let (slots, numbers) =
            (spec.operands.iter().filter(is_slot).count(), numbers_of(spec).count());
        if (self.addr.len(), data.len()) != (slots, numbers) {
            return Err(self.lengths(spec, slots, numbers.saturating_add(left_out)));
        }
        let mut data = data.into_iter();
        let values = spec.operands.iter().map(|operand| match operand.kind {
            kind if is_number(kind) => data.next().expect("as many as were counted").into(),
            _ => 0,
        });
        let inst = checked(row, values.collect())?;
        let mut addr = self.addr.iter();
        Ok(inst.map_operands(|_| *addr.next().expect("as many as were counted")))
    }

    fn sum_of_three(&self, row: usize) -> Result<Inst> {
        let terms = self.terms()?;
        let &[(a, shift_a, negate_a), (b, shift_b, negate_b), (c, shift_c, negate_c)] = &terms[..]
        else {
            return Err(self.lengths(&TABLE.rows[row], 3, 6));
        };
        let sum = Inst::Sum { a, b, c, shift_a, shift_b, shift_c, negate_a, negate_b, negate_c };
        checked(row, sum.to_raw().values)
    }

    fn lengths(&self, row: &Row, slots: usize, numbers: usize) -> Diagnostic {
        let (found, data, mnemonic) = (self.addr.len(), self.data.len(), row.mnemonic);
        let message = format!("`{mnemonic}` with {found} slots and {data} numbers");
        let help = format!("it has {slots} slots and {numbers} numbers");
        Diagnostic::invalid("Q1092", message).help(help)
    }

    /// The terms of a sum.
    ///
    /// # Errors
    /// `Q1092` when slots, signs and shifts are not equally many, `Q1094` for a sign that is none or
    /// a shift of more than 32 bits.
    pub(crate) fn terms(&self) -> Result<Vec<Term>> {
        let (slots, numbers) = (self.addr.len(), self.data.len());
        if slots.checked_mul(2) != Some(numbers) {
            let message = format!("a sum of {slots} slots has {numbers} numbers");
            return Err(Diagnostic::invalid("Q1092", message)
                .help("a sign (1 or 0) and a shift belong to every slot"));
        }
        let term = |(slot, pair): (&Slot, &[i64])| match (pair[0], i32::try_from(pair[1])) {
            (sign @ (0 | 1), Ok(shift)) => Ok((*slot, shift, sign == 0)),
            _ => {
                let message = format!("sign {} and shift {} of a term", pair[0], pair[1]);
                Err(Diagnostic::invalid("Q1094", message).help("a sign is 1 or 0"))
            }
        };
        self.addr.iter().zip(self.data.chunks_exact(2)).map(term).collect()
    }
}

/// The opcode that the table gives to a row.
fn opcode(row: &Row) -> i32 {
    let found = row.matches.iter().find(|(field, _)| *field == "opcode");
    found.and_then(|&(_, value)| i32::try_from(value).ok()).expect("every row has an opcode")
}

fn is_alir(row: &Row) -> bool {
    row.matches.contains(&("alir", 1))
}

/// The row of an opcode of alkaid that is its alone, or that it shares.
fn row_with(wanted: i32, alone: bool) -> Option<usize> {
    TABLE.rows.iter().position(|row| {
        // Below -1 da4ml negates an operand, which alkaid does in an instruction of its own.
        let is_known = is_alir(row) || opcode(row) >= -1;
        opcode(row) == wanted && is_known && is_alir(row) == alone
    })
}

/// The instruction of a row; the table checks the ranges of its values.
fn checked(row: usize, values: Values) -> Result<Inst> {
    let raw = RawInst { row, values };
    TABLE.encode(&raw, layout())?;
    Inst::from_raw(&raw).ok_or_else(|| Diagnostic::invalid("Q1094", "a number means nothing"))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "a filter passes references")]
fn is_slot(operand: &&Operand) -> bool {
    matches!(operand.kind, Kind::Custom(_))
}

fn is_number(kind: Kind) -> bool {
    !matches!(kind, Kind::Custom(_) | Kind::Flag)
}

/// Indices of the operands of a row that are numbers.
fn numbers_of(row: &Row) -> impl Iterator<Item = usize> {
    let numbers = row.operands.iter().enumerate().filter(|(_, operand)| is_number(operand.kind));
    numbers.map(|(index, _)| index)
}

fn numbers(row: &Row, raw: &RawInst) -> Vec<i64> {
    numbers_of(row)
        .map(|index| i64::try_from(raw.values[index]).expect("a number of at most 64 bits"))
        .collect()
}

fn unknown_opcode(opcode: i32) -> Diagnostic {
    let message = format!("alkaid has no instruction with opcode {opcode}");
    Diagnostic::invalid("Q1091", message).help("opcodes are -2 to 11; -2 negates")
}
