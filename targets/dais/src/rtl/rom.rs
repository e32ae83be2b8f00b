//! Tables in the order of the bits that choose from them.

use crate::program::{LookupTable, lookup_offset};
use quincunx_num::{Int, Kif, bit_length};

/// The entries of a table by the low bits of its operand, read as a number from 0 on, and how many
/// bits that are. What the operand reads outside of the table is 0 or another entry.
pub(crate) fn entries_by_bits(table: &LookupTable, operand: Kif, pad: i32) -> (u32, Vec<i32>) {
    let values = &table.values;
    // Entry 0 belongs to this operand.
    let first = -lookup_offset(operand, pad);
    let needed = bit_length(&Int::from(values.len().saturating_sub(1)));
    let width = needed.min(operand.width());
    let entry = |bits: u64| {
        // If these are all bits of the operand there is one such operand; if not, the table has
        // every residue once.
        let entry = match width == operand.width() {
            true => operand.wrap(&Int::from(bits)) - &first,
            false => super::wires::low_bits(&(Int::from(bits) - &first), width),
        };
        usize::try_from(&entry).ok().and_then(|entry| values.get(entry)).copied()
    };
    (width, (0..1_u64 << width).map(|bits| entry(bits).unwrap_or_default()).collect())
}
