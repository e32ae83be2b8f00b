//! Masks made of patterns: where 1-bit registers may be 1, and where 0, whatever the images are.

use crate::isa::{Gate, Inst, Reg};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The rectangle of elements in which a bit may have a value, as far beyond the images on every side
/// as [`super::Reach::beyond`] says it; `None` where no element has it.
pub(super) type Extent = Option<[i64; 4]>;

/// Where a 1-bit register may be 1, and where it may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mask {
    pub(super) ones: Extent,
    pub(super) zeros: Extent,
}

/// The array whose patterns are followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// Rows and columns.
    pub(super) size: [usize; 2],
    /// The register that is not always written.
    pub(super) masked: Reg,
}

const EVERYWHERE: Extent = Some([1 << 40; 4]);

/// The least rectangle around two.
fn around(a: Extent, b: Extent) -> Extent {
    match (a, b) {
        (Some(a), Some(b)) => Some(std::array::from_fn(|side| a[side].max(b[side]))),
        (a, b) => a.or(b),
    }
}

/// What two rectangles have in common, perhaps nothing.
fn common(a: Extent, b: Extent) -> Extent {
    a.zip(b).map(|(a, b)| std::array::from_fn(|side| a[side].min(b[side])))
}

impl Mask {
    fn of(value: bool) -> Mask {
        let mask = Mask { ones: EVERYWHERE, zeros: None };
        if value { mask } else { mask.not() }
    }

    fn not(self) -> Mask {
        Mask { ones: self.zeros, zeros: self.ones }
    }

    fn or(self, other: Mask) -> Mask {
        Mask { ones: around(self.ones, other.ones), zeros: common(self.zeros, other.zeros) }
    }

    fn and(self, other: Mask) -> Mask {
        self.not().or(other.not()).not()
    }

    /// The mask of a pattern, where so many elements are between images and edges.
    fn pattern([r, c, rx, cx]: [u8; 4], size: [usize; 2], margin: &[i64; 4]) -> Mask {
        let [height, width] = size;
        // The first that agrees and the one behind the last.
        let ends = |value: u8, any: u8, size: usize| {
            let first = usize::from(value & !any);
            let last = usize::from(value | any).min(size.saturating_sub(1));
            (first <= last).then_some([first, last.saturating_add(1)])
        };
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let extent = ends(r, rx, height).zip(ends(c, cx, width)).map(|(rows, columns)| {
            // Columns are counted from the east.
            let free = [
                rows[0],
                columns[0],
                height.saturating_sub(rows[1]),
                width.saturating_sub(columns[1]),
            ];
            std::array::from_fn(|side| margin[side].saturating_sub(number(free[side])))
        });
        Mask { ones: extent, zeros: EVERYWHERE }
    }
}

/// The masks of 1-bit registers that do not depend on the images.
#[derive(Clone, Debug, Default)]
pub(super) struct Masks(BTreeMap<Reg, Mask>);

impl Masks {
    pub(super) fn get(&self, register: Reg) -> Option<Mask> {
        self.0.get(&register).copied()
    }

    /// The register is no longer known.
    pub(super) fn forget(&mut self, register: Reg) {
        self.0.remove(&register);
    }

    /// Goes over a gate of known masks; `None` where its result is not known.
    pub(super) fn gate(&mut self, inst: &Inst, gate: Gate, field: Field) -> Option<()> {
        let (writes, reads) = inst.split();
        let reads = reads.iter().map(|&register| self.get(register));
        let reads = reads.collect::<Option<SmallVec<[Mask; 4]>>>()?;
        let fold = |join: fn(Mask, Mask) -> Mask| reads.iter().copied().reduce(join);
        let mask = match gate {
            Gate::Or | Gate::Copy => fold(Mask::or)?,
            Gate::Nor | Gate::Not => fold(Mask::or)?.not(),
            Gate::And => fold(Mask::and)?,
            Gate::Nand => fold(Mask::and)?.not(),
            Gate::Constant(value) => Mask::of(value),
            Gate::Xor | Gate::Imply | Gate::Mux | Gate::Neighbours { .. } => return None,
            Gate::Refresh | Gate::Where | Gate::All => return None,
        };
        self.set(&writes, mask, field)
    }

    /// Goes over a pattern; `None` where it is not one of a register with a name.
    pub(super) fn pattern(&mut self, inst: &Inst, margin: &[i64; 4], field: Field) -> Option<()> {
        let bytes = <[u8; 4]>::try_from(&inst.operands_of::<u8>()[..]).ok()?;
        let (writes, _) = inst.split();
        (!writes.is_empty()).then_some(())?;
        self.set(&writes, Mask::pattern(bytes, field.size, margin), field)
    }

    fn set(&mut self, registers: &[Reg], mask: Mask, field: Field) -> Option<()> {
        let is_plain = |register: &Reg| ![Reg::FLAG, field.masked].contains(register);
        registers.iter().all(is_plain).then_some(())?;
        self.0.extend(registers.iter().map(|&register| (register, mask)));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows 4 to 11 and columns 3 to 4 from the west of an array of 16 x 8, as seen from an image that
    /// leaves two elements free.
    #[test]
    fn rectangles_of_patterns() {
        let rows = |r, rx| Mask::pattern([r, 0, rx, 255], [16, 8], &[2; 4]);
        let columns = |c, cx| Mask::pattern([0, c, 255, cx], [16, 8], &[2; 4]);
        let rows = rows(4, 3).or(rows(8, 3));
        assert_eq!(rows.ones, Some([-2, 2, -2, 2]));
        let inside = rows.and(columns(3, 0).or(columns(4, 0)));
        assert_eq!(inside.ones, Some([-2, -1, -2, -1]));
        assert_eq!(inside.not().zeros, inside.ones);
        assert_eq!(inside.zeros, EVERYWHERE);
        // Beyond the array.
        assert_eq!(Mask::pattern([32, 0, 3, 255], [16, 8], &[2; 4]).ones, None);
    }
}
