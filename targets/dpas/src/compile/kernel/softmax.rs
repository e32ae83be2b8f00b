//! Softmax of rows: `e^(x - max)` over its sum, a row for every thread.

use super::{Kernel, Leave, LeaveFloats, Offset, Written, float};
use crate::arch::Platform;
use crate::program::Element;
use std::f32::consts::LOG2_E;

/// Bytes of the places of a row: where it begins in the operand and in the result.
const PLACES: usize = 8;

/// A softmax as a kernel sees it. Rows lie in memory up to a multiple of [`BLOCK`] bytes.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Shape {
    /// Elements of a row.
    pub(in super::super) length: usize,
    pub(in super::super) element: Element,
    pub(in super::super) end: End,
    /// Where the places of the rows lie in the constants.
    pub(in super::super) places: usize,
}

/// Bytes of the smallest block of a row.
pub(in super::super) const BLOCK: usize = 32;

/// How the shares of a sum leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum End {
    /// Of codes, as codes.
    Codes {
        /// Distance between two codes of the operand.
        step: f32,
        /// Codes of the result in 1.
        share: f32,
        /// How they leave.
        leave: Leave,
    },
    /// Of floats, as such.
    Floats(LeaveFloats),
}

impl End {
    fn element(self) -> Element {
        match self {
            End::Codes { leave, .. } => leave.element(),
            End::Floats(leave) => leave.element,
        }
    }
}

/// The factor of differences of elements in exponents of 2.
pub(in super::super) fn exponent(step: f32) -> f32 {
    step * LOG2_E
}

/// The kernel. Its arguments are the addresses of the operand, the result and the constants.
pub(in super::super) fn softmax(shape: &Shape, platform: Platform, grfs: u32) -> Written {
    let mut kernel = Kernel::new(platform, grfs);
    let k = &mut kernel;
    let n = k.lanes();
    let parts = shape.length.div_ceil(n);
    let [from, to] = [shape.element, shape.end.element()];
    let bytes = |element: Element| (parts * n * element.bytes() as usize).next_multiple_of(BLOCK);
    // Elements of 32 bits are where they are computed.
    let narrow = [from, to].into_iter().filter(|element| element.bytes() < 4);
    let packed = narrow.map(bytes).max().unwrap_or(0).div_ceil(platform.grf_bytes() as usize);
    let [x, packed, most, sum, places] = [parts, packed, 1, 1, 1].map(|count| k.take(count));
    let row = |element: Element| if element.bytes() < 4 { packed } else { x };
    let [input, output] = addresses(k, shape.places, places);
    for block in blocks(bytes(from)) {
        move_block(k, input, block, |k, at, bytes| k.load_block(row(from) + at, bytes, input));
    }
    if from.bytes() < 4 {
        k.unpack(packed, (x, parts), from);
    }
    drop_spare(k, x + parts - 1, shape.length - (parts - 1) * n);
    let larger = |lanes: usize, to: usize, a: String, b: String| {
        format!("sel ({lanes}|M0) (ge)f0.0 r{to}.0<1>:f {a}:f {b}:f")
    };
    fold(k, (x, parts), most, &larger);
    let all = x..x + parts;
    let (factor, share) = match shape.end {
        End::Codes { step, share, .. } => (exponent(step), share),
        End::Floats(_) => (LOG2_E, 1.0),
    };
    for x in all.clone() {
        k.line(format_args!("add ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f -r{most}.0<0;1,0>:f"));
    }
    for x in all.clone() {
        k.line(format_args!("mul ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f {}", float(factor)));
    }
    for x in all.clone() {
        k.line(format_args!("math.exp ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f"));
    }
    let added = |lanes: usize, to: usize, a: String, b: String| {
        format!("add ({lanes}|M0) r{to}.0<1>:f {a}:f {b}:f")
    };
    fold(k, (x, parts), sum, &added);
    k.line(format_args!("math.inv (1|M0) r{sum}.0<1>:f r{sum}.0<0;1,0>:f"));
    if share != 1.0 {
        k.line(format_args!("mul (1|M0) r{sum}.0<1>:f r{sum}.0<0;1,0>:f {}", float(share)));
    }
    for x in all.clone() {
        k.line(format_args!("mul ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f r{sum}.0<0;1,0>:f"));
    }
    let all: Vec<usize> = all.collect();
    match shape.end {
        End::Codes { leave, .. } => {
            for x in &all {
                k.line(format_args!("rnde ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f"));
            }
            leave.write(k, &all);
        }
        End::Floats(leave) => leave.write(k, &all),
    }
    if to.bytes() < 4 {
        k.pack((x, parts), packed, to);
    }
    for block in blocks(bytes(to)) {
        move_block(k, output, block, |k, at, bytes| k.store_block(output, row(to) + at, bytes));
    }
    kernel.finish()
}

/// The addresses of the row of the thread in the operand and in the result.
fn addresses(k: &mut Kernel, table: usize, places: usize) -> [usize; 2] {
    k.line(format_args!("mul (1|M0) r{places}.0<1>:d r0.1<0;1,0>:d {PLACES}:w"));
    let constants = k.argument(2);
    let row = Offset::Scalar { register: places, at: 0 };
    let pointer = k.pointer(constants, &[Offset::Bytes(table as i64), row]);
    k.load_block(places, PLACES, pointer);
    [0, 1].map(|at| {
        let base = k.argument(at);
        k.advance(base, 1, Offset::Scalar { register: places, at });
        base
    })
}

/// Blocks that messages move, powers of two, as first byte and bytes.
fn blocks(bytes: usize) -> Vec<(usize, usize)> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < bytes {
        let size = 512.min(1 << (bytes - at).ilog2());
        blocks.push((at, size));
        at += size;
    }
    blocks
}

/// Moves a block, and the address to the next one; `message` gets the block's first register and bytes.
fn move_block(
    k: &mut Kernel,
    address: usize,
    (at, bytes): (usize, usize),
    message: impl FnOnce(&mut Kernel, usize, usize),
) {
    message(k, at / k.platform.grf_bytes() as usize, bytes);
    k.advance(address, 1, Offset::Bytes(bytes as i64));
}

/// The lanes of a register behind so many become the lowest number, whose share is nothing.
fn drop_spare(k: &mut Kernel, register: usize, first: usize) {
    let mut at = first;
    while at < k.lanes() {
        let lanes = 1 << (k.lanes() - at).ilog2();
        let lowest = float(f32::NEG_INFINITY);
        k.line(format_args!("mov ({lanes}|M0) r{register}.{at}<1>:f {lowest}"));
        at += lanes;
    }
}

/// Brings the floats of so many registers to one: register after register, then halves of it.
fn fold(
    k: &mut Kernel,
    (first, count): (usize, usize),
    to: usize,
    line: &dyn Fn(usize, usize, String, String) -> String,
) {
    let mut lanes = k.lanes();
    k.line(format_args!("mov ({lanes}|M0) r{to}.0<1>:f r{first}.0<1;1,0>:f"));
    for x in first + 1..first + count {
        k.line(line(lanes, to, format!("r{to}.0<1;1,0>"), format!("r{x}.0<1;1,0>")));
    }
    while lanes > 1 {
        lanes /= 2;
        let region = if lanes == 1 { "<0;1,0>" } else { "<1;1,0>" };
        k.line(line(lanes, to, format!("r{to}.0{region}"), format!("r{to}.{lanes}{region}")));
    }
}
