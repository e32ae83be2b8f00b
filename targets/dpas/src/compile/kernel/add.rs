//! The sum of two values on grids of their own.

use super::largest::tile;
use super::{Kernel, Leave, LeaveFloats, Map, Offset, Unit, bytes, float};
use crate::arch::Platform;
use crate::program::Element;

/// An operand: its factor, its zero, and whether its codes have a sign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Term {
    pub(in super::super) factor: f32,
    pub(in super::super) zero: i32,
    pub(in super::super) signed: bool,
}

/// A sum as a kernel sees it. Every tile has one block of rows.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Shape {
    pub(in super::super) columns: usize,
    pub(in super::super) map: Map,
    /// Type of the result; of operands that are floats too.
    pub(in super::super) element: Element,
    pub(in super::super) end: End,
}

/// How a sum is made and leaves.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum End {
    /// Of codes, as codes.
    Codes([Term; 2], Leave),
    /// Of floats, as floats.
    Floats(LeaveFloats),
}

/// The kernel. Its arguments are the addresses of the operands, the result and the constants.
pub(in super::super) fn add(shape: &Shape, platform: Platform, grfs: u32) -> Option<String> {
    let mut kernel = Kernel::new(platform, grfs);
    let k = &mut kernel;
    let (lanes, grf, columns) = (k.lanes(), platform.grf_bytes() as usize, shape.columns);
    let (read, written) = (shape.element.bytes() as usize, shape.written());
    let width = columns * lanes * written;
    let s = k.take(1);
    let vectors = width / lanes;
    let loaded = [0, 1].map(|_| k.take(2 * vectors));
    let (pairs, packed, table) = (k.take(2), k.take(2 * vectors), k.take(2));
    let [lane_bytes, t, x, y, factor] = [0; 5].map(|_| k.take(1));
    let [a, b, c, constants] = [0, 1, 2, 3].map(|at| k.argument(at));
    tile(k, s, width, &[a, b, c]);
    let pointer = k.pointer(constants, &[Offset::Bytes(shape.map.lanes_out as i64)]);
    k.load_block(lane_bytes, grf, pointer);
    if let End::Codes([_, second], _) = &shape.end {
        let second = float(second.factor);
        k.line(format_args!("mov ({lanes}|M0) r{factor}.0<1>:f {second}"));
    }
    let rows = Offset::Scalar { register: s, at: 0 };
    let [in_a, in_b] = shape.map.rows_in;
    for (place, base) in [(in_a, a), (in_b, b), (shape.map.rows_out, c)] {
        let pointer = k.pointer(constants, &[Offset::Bytes(place as i64), rows]);
        k.load_block(table, 32, pointer);
        if base == c {
            for part in 0..8 * columns {
                let byte = part * lanes * read;
                let places = loaded.map(|first| (first + byte / grf, byte % grf / read));
                let to = (packed, part * lanes * written);
                match &shape.end {
                    End::Codes(terms, leave) => {
                        sum(k, (*terms, *leave), places, [x, y, factor]);
                        k.pack((x, "f"), to, leave.bytes(), y);
                    }
                    End::Floats(leave) => {
                        sum_of_floats(k, shape.element, places, [x, y]);
                        leave.write(k, &[x]);
                        k.pack_floats(x, to, leave.element);
                    }
                }
            }
        }
        for vector in 0..vectors {
            let first = vector * lanes * 8 / width;
            k.lane_addresses(pairs, base, (table, first, width / 8), lane_bytes, t);
            match base {
                _ if base == a => k.gather(loaded[0] + 2 * vector, Unit::Qword, pairs),
                _ if base == b => k.gather(loaded[1] + 2 * vector, Unit::Qword, pairs),
                _ => k.scatter(pairs, packed + 2 * vector),
            }
        }
    }
    (kernel.taken() <= grfs).then(|| kernel.finish())
}

/// Codes of two operands become that of their sum, in f32.
fn sum(
    k: &mut Kernel,
    (terms, leave): ([Term; 2], Leave),
    places: [(usize, usize); 2],
    [x, y, factor]: [usize; 3],
) {
    let n = k.lanes();
    for (((register, at), term), to) in places.into_iter().zip(terms).zip([x, y]) {
        let kind = bytes(term.signed);
        k.line(format_args!("mov ({n}|M0) r{to}.0<1>:d r{register}.{at}<1;1,0>:{kind}"));
        if term.zero != 0 {
            let zero = -term.zero;
            k.line(format_args!("add ({n}|M0) r{to}.0<1>:d r{to}.0<1;1,0>:d {zero}:w"));
        }
        k.line(format_args!("mov ({n}|M0) r{to}.0<1>:f r{to}.0<1;1,0>:d"));
    }
    let first = float(terms[0].factor);
    k.line(format_args!("mul ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f {first}"));
    k.line(format_args!("mad ({n}|M0) r{x}.0<1>:f r{x}.0<1;0>:f r{y}.0<1;0>:f r{factor}.0<1>:f"));
    k.line(format_args!("rnde ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f"));
    leave.write(k, &[x]);
}

fn sum_of_floats(
    k: &mut Kernel,
    element: Element,
    places: [(usize, usize); 2],
    [x, y]: [usize; 2],
) {
    let (n, kind) = (k.lanes(), element.name());
    for ((register, at), to) in places.into_iter().zip([x, y]) {
        k.line(format_args!("mov ({n}|M0) r{to}.0<1>:f r{register}.{at}<1;1,0>:{kind}"));
    }
    k.line(format_args!("add ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f r{y}.0<1;1,0>:f"));
}

impl Shape {
    /// Bytes of an element of the result.
    fn written(&self) -> usize {
        match &self.end {
            End::Codes(..) => 1,
            End::Floats(leave) => leave.element.bytes() as usize,
        }
    }
}
