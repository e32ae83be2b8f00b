//! What a netlist computes: one short function for all cells, on the bits as numbers from 0 on.

use super::netlist::{Cell, Netlist, Piece, Wires};
use super::wires::{join, low_bits};
use quincunx_num::{Int, power_of_two};

/// The bits that leave a module when these enter.
pub(super) fn evaluate(netlist: &Netlist, live: &[bool], input: &Int) -> Int {
    let mut values = vec![Int::ZERO; netlist.nets().len()];
    for (index, net) in netlist.nets().iter().enumerate().filter(|&(index, _)| live[index]) {
        values[index] = low_bits(&cell(netlist, &net.cell, &values, input), net.width);
    }
    gather(&netlist.output(), &values)
}

/// The result of a cell; bits above its width do not count.
fn cell(netlist: &Netlist, cell: &Cell, values: &[Int], input: &Int) -> Int {
    let at = |wires: &Wires| gather(wires, values);
    let truth = |value: bool| Int::from(u8::from(value));
    match cell {
        Cell::Port => input.clone(),
        Cell::Wires(x) => at(x),
        Cell::Add(a, b) => at(a) + at(b),
        Cell::Subtract(a, b) => at(a) - at(b),
        Cell::Multiply { a, b, signed } => number(a, *signed, values) * number(b, *signed, values),
        Cell::Not(x) => !at(x),
        Cell::And(a, b) => at(a) & at(b),
        Cell::Or(a, b) => at(a) | at(b),
        Cell::Xor(a, b) => at(a) ^ at(b),
        Cell::Any(x) => truth(at(x) != Int::ZERO),
        Cell::All(x) => truth(at(x) == power_of_two(x.width()) - Int::ONE),
        Cell::Select { condition, set, clear } => {
            if at(condition) == Int::ONE {
                at(set)
            } else {
                at(clear)
            }
        }
        Cell::Rom { rom, index } => {
            usize::try_from(&at(index)).map_or(Int::ZERO, |index| netlist.roms()[*rom].entry(index))
        }
    }
}

/// The bits as an integer in two's complement or without a sign.
fn number(wires: &Wires, signed: bool, values: &[Int]) -> Int {
    let (bits, width) = (gather(wires, values), wires.width());
    if signed && bits >= power_of_two(width - 1) { bits - power_of_two(width) } else { bits }
}

/// The bits of wires, given those of the nets.
pub(super) fn gather(wires: &Wires, values: &[Int]) -> Int {
    let parts = wires.pieces().iter().map(|piece| {
        let bits = match piece {
            Piece::Constant { value, .. } => value.clone(),
            Piece::Bits { net, low, width } => {
                low_bits(&(&values[net.index()] >> *low as usize), *width)
            }
            Piece::Repeat { net, bit, count } => {
                let bit = low_bits(&(&values[net.index()] >> *bit as usize), 1);
                bit * (power_of_two(*count) - Int::ONE)
            }
        };
        (bits, piece.width())
    });
    join(&parts.collect::<Vec<_>>())
}
