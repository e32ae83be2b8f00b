//! Random legal instructions for tests.

use crate::layout::Layout;
use crate::table::{Kind, Operand, RawInst, Table};

/// Draws before a row is given up.
const MAX_DRAWS: u32 = 10_000;

impl Table {
    /// A random instruction that the layout can encode; edge values are favoured. `below(n)` draws
    /// a number in `0..n`; equal draws give equal instructions.
    ///
    /// # Panics
    /// When the row that was drawn rejects ten thousand draws, which is a bug in the table.
    pub fn random(&self, below: &mut dyn FnMut(u64) -> u64, layout: &Layout) -> RawInst {
        let row = below(self.rows.len() as u64) as usize;
        self.random_of(row, below, layout)
    }

    /// A random instruction of one row; see [`Table::random`].
    ///
    /// # Panics
    /// When there is no such row, or it rejects ten thousand draws, which is a bug in the table.
    pub fn random_of(
        &self,
        row: usize,
        below: &mut dyn FnMut(u64) -> u64,
        layout: &Layout,
    ) -> RawInst {
        for _ in 0..MAX_DRAWS {
            let draw = |(index, operand)| {
                let range = layout.range(row, index).unwrap_or((0, 0));
                random_value(operand, range, below)
            };
            let values = self.rows[row].operands.iter().enumerate().map(draw).collect();
            let inst = RawInst { row, values };
            if self.encode(&inst, layout).is_ok() {
                return inst;
            }
        }
        panic!("table {}: row {} rejects all random values", self.machine, self.rows[row].name);
    }
}

fn random_value(
    operand: &Operand,
    (low, high): (i128, i128),
    below: &mut dyn FnMut(u64) -> u64,
) -> i128 {
    // Operands that no field limits still get values of a sensible size.
    let (low, high) = (low.max(-(1 << 63)), high.min(1 << 64));
    match operand.kind {
        Kind::Names(names) => pick(names, below).map_or(0, |&(_, number)| number),
        Kind::Flag => low.max(i128::from(below(2))).min(high),
        Kind::Custom(custom) => (custom.random)(below),
        Kind::Scaled(scale) if scale > 0 => {
            let (first, last) =
                (low.div_euclid(scale) + i128::from(low % scale != 0), high.div_euclid(scale));
            in_range(first, last, below) * scale
        }
        _ => match operand.default.filter(|value| (low..=high).contains(value)) {
            Some(value) if below(4) == 0 => value,
            _ => in_range(low, high, below),
        },
    }
}

fn in_range(low: i128, high: i128, below: &mut dyn FnMut(u64) -> u64) -> i128 {
    let last = u64::try_from((high - low).max(0)).unwrap_or(u64::MAX);
    let near = below(last.min(15).saturating_add(1));
    match below(8) {
        0 => low,
        1 => low.max(high),
        2 => low + i128::from(near),
        3 => low.max(high - i128::from(near)),
        4 if low < 0 && high >= 0 => 0,
        _ => low + i128::from(below(last.saturating_add(1))),
    }
}

fn pick<'a, T>(list: &'a [T], below: &mut dyn FnMut(u64) -> u64) -> Option<&'a T> {
    list.get(below(list.len().max(1) as u64) as usize)
}
