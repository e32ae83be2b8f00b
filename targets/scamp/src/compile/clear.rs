//! Zeros around an image: a later convolution with padding reads there what earlier layers left.

use super::Writer;
use crate::arch::ScampArch;
use crate::isa::{Inst, Reg};
use crate::options::Wishes;
use crate::ports::Area;
use quincunx_diag::{Diagnostic, Result};

/// Rows and columns that patterns tell apart.
const PATTERNS: usize = 256;

/// The 1-bit registers that a mask is made with; it stays in the first.
const BITS: usize = 3;

/// The first row and the one behind the last, from the north, and the same of the columns from the
/// east, as patterns count them.
fn ends(area: Area, width: usize) -> Option<[[usize; 2]; 2]> {
    let (rows, columns) = (area.rows.end()?, area.columns.end()?);
    let columns = [width.checked_sub(columns)?, width.checked_sub(area.columns.first)?];
    Some([[area.rows.first, rows], columns])
}

/// Says why zeros cannot be made around an image.
pub(super) fn check(
    area: Area,
    arch: &ScampArch,
    wishes: &Wishes,
) -> std::result::Result<(), String> {
    if wishes.bits.len() < BITS || !arch.macros.contains("Res") {
        return Err(format!("that takes {BITS} plain 1-bit registers, and `res`"));
    }
    let ends = ends(area, wishes.width).ok_or("it lies beyond the array")?;
    match ends.iter().all(|[_, end]| *end <= PATTERNS) {
        true => Ok(()),
        false => Err(format!("patterns reach {PATTERNS} rows, and columns from the east")),
    }
}

/// Numbers that patterns hold, the bits that do not matter beside each: together they are those from
/// `first` to the one before `end`, which is at most [`PATTERNS`].
fn blocks([mut first, end]: [usize; 2]) -> Vec<[u8; 2]> {
    let mut list = Vec::new();
    while first < end {
        let fits = |&any: &usize| first & any == 0 && first + any < end;
        let any = (0..=8).rev().map(|bits| (1 << bits) - 1).find(fits).unwrap_or(0);
        list.push([first as u8, any as u8]);
        first += any + 1;
    }
    list
}

impl Writer<'_> {
    /// Sets registers to 0 in all elements around an image.
    pub(super) fn clear(&mut self, area: Area, registers: &[Reg]) -> Result<()> {
        let &[outside, columns, other, ..] = &self.wishes.bits[..] else {
            return Err(Diagnostic::bug("no 1-bit registers are free for a mask"));
        };
        if self.outside != Some(area) {
            let ends = ends(area, self.wishes.width);
            let [rows, of_columns] = ends.ok_or_else(|| Diagnostic::bug("no place for a mask"))?;
            self.load_any(outside, other, blocks(rows).iter().map(|&[r, rx]| [r, 0, rx, 255]));
            let list = blocks(of_columns);
            self.load_any(columns, other, list.iter().map(|&[c, cx]| [0, c, 255, cx]));
            self.push([
                Inst::Not { d: outside, a: outside },
                Inst::Not { d: columns, a: columns },
                or(outside, columns),
            ]);
            self.outside = Some(area);
        }
        self.push([Inst::WhereBit { a: outside }]);
        self.push(registers.iter().map(|&y| Inst::Res { y }));
        self.push([Inst::AllBits {}]);
        Ok(())
    }

    /// Sets a 1-bit register where any of some patterns is; `other` serves for all but the first.
    fn load_any(&mut self, d: Reg, other: Reg, patterns: impl Iterator<Item = [u8; 4]>) {
        for (index, [r, c, rx, cx]) in patterns.enumerate() {
            let is_first = index == 0;
            self.push([Inst::LoadPattern { d: if is_first { d } else { other }, r, c, rx, cx }]);
            if !is_first {
                self.push([or(d, other)]);
            }
        }
    }
}

fn or(d: Reg, b: Reg) -> Inst {
    Inst::Or { d, a: d, b, c: Reg::NONE, e: Reg::NONE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_all_numbers_of_a_range() {
        for ends in [[0, 256], [116, 140], [3, 4], [1, 255], [0, 0]] {
            let holds = |number: u8| {
                let holds = |&&[value, any]: &&[u8; 2]| number & !any == value;
                blocks(ends).iter().filter(holds).count()
            };
            for number in 0..=255 {
                let is_in = (ends[0]..ends[1]).contains(&usize::from(number));
                assert_eq!(holds(number), usize::from(is_in), "{ends:?} {number}");
            }
        }
        assert_eq!(blocks([0, 256]).len(), 1);
        assert_eq!(blocks([116, 140]).len(), 4);
    }
}
