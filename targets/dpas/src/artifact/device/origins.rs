//! The operands of a systolic instruction with the elements of buffers behind them.

use crate::layout::operand_bits;
use crate::program::device::{Buffer, Device};
use crate::simulate::launch::Origin;
use quincunx_diag::Diagnostic;
use quincunx_report::{Cell, Column, Table};
use std::collections::BTreeMap;

/// A row for every element of A, B and C: where it lies in the registers, and from where it was loaded.
pub(super) fn table(
    origin: &Origin,
    (device, addresses): (&Device, &BTreeMap<String, u64>),
    register_bytes: usize,
) -> Table {
    let columns = vec![
        Column::text("element"),
        Column::text("operand"),
        Column::text("register"),
        Column::number("byte"),
        Column::number("bit"),
        Column::text("buffer"),
        Column::text("value"),
        Column::number("offset").titled("at byte"),
    ];
    let mut table = Table::new("origin", columns);
    for operand in operand_bits(&origin.operation).into_iter().filter(|own| own.operand != "dst") {
        let byte = operand.start + operand.bit as usize / 8;
        let mut cells: Vec<Cell> = vec![
            operand.name.into(),
            operand.operand.into(),
            format!("r{}", byte / register_bytes).into(),
            (byte % register_bytes).into(),
            u64::from(operand.bit % 8).into(),
        ];
        match origin.address(byte) {
            None => cells.extend(["computed".into(), Cell::Empty, Cell::Empty]),
            Some(address) => match behind(device, addresses, address) {
                None => cells.extend(["no buffer".into(), Cell::Empty, Cell::Empty]),
                Some((buffer, offset)) => {
                    let value = element(buffer, offset);
                    let value = value.map_or_else(|| "border".to_owned(), |index| show(&index));
                    cells.extend([buffer.name.clone().into(), value.into(), offset.into()]);
                }
            },
        }
        table.push(cells);
    }
    table
}

/// Who came to the instruction first.
pub(super) fn note(origin: &Origin, kernel: &str, launch: usize) -> Diagnostic {
    let ([x, y, z], thread) = (origin.group, origin.thread);
    Diagnostic::note(
        "Q6126",
        format!(
            "the operands are those of thread {thread} of group {x} {y} {z} of launch {launch}, \
             kernel \"{kernel}\", as it comes to the instruction first"
        ),
    )
}

/// Nobody did.
pub(super) fn never() -> Diagnostic {
    Diagnostic::warning("Q6126", "no thread comes to the instruction that option origin names")
}

/// The buffer that owns an address, and the byte in it.
fn behind<'a>(
    device: &'a Device,
    addresses: &BTreeMap<String, u64>,
    address: u64,
) -> Option<(&'a Buffer, u64)> {
    let owners = device.buffers.iter().filter(|buffer| buffer.inside.is_none());
    owners.into_iter().find_map(|buffer| {
        let offset = address.checked_sub(*addresses.get(&buffer.name)?)?;
        (offset < buffer.bytes).then_some((buffer, offset))
    })
}

/// The indices of the element of a buffer's value that has a byte; `None` where no element lies.
fn element(buffer: &Buffer, byte: u64) -> Option<Vec<usize>> {
    let size = u64::from(buffer.element.bytes());
    let mut rest = usize::try_from(byte.checked_sub(buffer.offset)? / size).ok()?;
    let strides = buffer.steps()?;
    let mut order: Vec<usize> = (0..strides.len()).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(strides[axis]));
    let mut index = vec![0; strides.len()];
    for axis in order {
        let (stride, extent) = (strides[axis].max(1), *buffer.shape.get(axis)?);
        index[axis] = (rest / stride).min(extent.checked_sub(1)?);
        rest -= index[axis] * stride;
    }
    (rest == 0).then_some(index)
}

fn show(index: &[usize]) -> String {
    let all: Vec<String> = index.iter().map(usize::to_string).collect();
    format!("[{}]", all.join(","))
}
