//! Sums of two values.

use super::rows::{Rows, Tile};
use super::{Kernel, Leave, LeaveFloats, Written, float};
use crate::arch::Platform;
use crate::program::Element;

/// An operand: its factor and its zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Term {
    pub(in super::super) factor: f32,
    pub(in super::super) zero: i32,
    pub(in super::super) element: Element,
}

/// A sum as a kernel sees it. Rows of the operands have as many bytes as those of the result.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Shape {
    pub(in super::super) tile: Tile,
    pub(in super::super) end: End,
}

/// How a sum is made and leaves.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum End {
    /// Of codes, as codes.
    Codes([Term; 2], Leave),
    /// Of floats of a type, as such.
    Floats(LeaveFloats),
}

/// The kernel. Its arguments are the addresses of the operands, the result and the constants.
pub(in super::super) fn add(shape: &Shape, platform: Platform, grfs: u32) -> Written {
    let mut kernel = Kernel::new(platform, grfs);
    let k = &mut kernel;
    let element = match &shape.end {
        End::Codes(_, leave) => leave.element(),
        End::Floats(leave) => leave.element,
    };
    let n = k.lanes();
    let parts = 8 * shape.tile.width / (n * element.bytes() as usize);
    let registers = shape.tile.registers(k);
    let all = registers * shape.tile.blocks;
    let [x, y, a, b, factor] = [parts, parts, all, all, 1].map(|count| k.take(count));
    let rows = Rows::new(k, shape.tile, 2);
    rows.load(k, 0, a);
    rows.load(k, 1, b);
    if let End::Codes([_, second], _) = &shape.end {
        k.line(format_args!("mov ({n}|M0) r{factor}.0<1>:f {}", float(second.factor)));
    }
    for block in 0..shape.tile.blocks {
        let [a, b] = [a, b].map(|first| first + block * registers);
        sum(k, &shape.end, ([(a, x), (b, y)], parts), factor);
        k.pack((x, parts), a, element);
        rows.store(k, block, a);
    }
    kernel.finish()
}

/// Adds packed operands in so many registers of floats, those of the first one.
fn sum(k: &mut Kernel, end: &End, (operands, parts): ([(usize, usize); 2], usize), factor: usize) {
    let n = k.lanes();
    let [(_, x), (_, y)] = operands;
    let all: Vec<usize> = (x..x + parts).collect();
    match end {
        End::Codes(terms, leave) => {
            for ((from, to), term) in operands.into_iter().zip(terms) {
                k.unpack(from, (to, parts), term.element);
                k.add_number((to, parts), -term.zero as f32);
            }
            let first = float(terms[0].factor);
            for &x in &all {
                k.line(format_args!("mul ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f {first}"));
            }
            for (&x, y) in all.iter().zip(y..) {
                k.line(format_args!(
                    "mad ({n}|M0) r{x}.0<1>:f r{x}.0<1;0>:f r{y}.0<1;0>:f r{factor}.0<1>:f"
                ));
            }
            for &x in &all {
                k.line(format_args!("rnde ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f"));
            }
            leave.write(k, &all);
        }
        End::Floats(leave) => {
            for (from, to) in operands {
                k.unpack(from, (to, parts), leave.element);
            }
            for (&x, y) in all.iter().zip(y..) {
                k.line(format_args!("add ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f r{y}.0<1;1,0>:f"));
            }
            leave.write(k, &all);
        }
    }
}
