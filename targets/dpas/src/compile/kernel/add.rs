//! The sum of two values on grids of their own.

use super::largest::tile;
use super::{Kernel, Leave, Map, Offset, Unit, bytes, float};
use crate::arch::Platform;

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
    pub(in super::super) terms: [Term; 2],
    pub(in super::super) leave: Leave,
}

/// The kernel. Its arguments are the addresses of the operands, the result and the constants.
pub(in super::super) fn add(shape: &Shape, platform: Platform, grfs: u32) -> Option<String> {
    let mut kernel = Kernel::new(platform, grfs);
    let k = &mut kernel;
    let (lanes, grf, columns) = (k.lanes(), platform.grf_bytes() as usize, shape.columns);
    let width = columns * lanes;
    let s = k.take(1);
    let loaded = [0, 1].map(|_| k.take(2 * columns));
    let (pairs, packed, table) = (k.take(2), k.take(2 * columns), k.take(2));
    let [lane_bytes, t, x, y, factor] = [0; 5].map(|_| k.take(1));
    let [a, b, c, constants] = [0, 1, 2, 3].map(|at| k.argument(at));
    tile(k, s, width, &[a, b, c]);
    let pointer = k.pointer(constants, &[Offset::Bytes(shape.map.lanes_out as i64)]);
    k.load_block(lane_bytes, grf, pointer);
    let second = float(shape.terms[1].factor);
    k.line(format_args!("mov ({lanes}|M0) r{factor}.0<1>:f {second}"));
    let rows = Offset::Scalar { register: s, at: 0 };
    let [in_a, in_b] = shape.map.rows_in;
    for (place, base) in [(in_a, a), (in_b, b), (shape.map.rows_out, c)] {
        let pointer = k.pointer(constants, &[Offset::Bytes(place as i64), rows]);
        k.load_block(table, 32, pointer);
        if base == c {
            for part in 0..8 * columns {
                let [a, b] = loaded.map(|first| (first + part * lanes / grf, part * lanes % grf));
                sum(k, shape, [a, b], [x, y, factor]);
                k.pack((x, "f"), (packed, part * lanes), shape.leave.bytes(), y);
            }
        }
        for vector in 0..columns {
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
fn sum(k: &mut Kernel, shape: &Shape, places: [(usize, usize); 2], [x, y, factor]: [usize; 3]) {
    let n = k.lanes();
    for (((register, at), term), to) in places.into_iter().zip(shape.terms).zip([x, y]) {
        let kind = bytes(term.signed);
        k.line(format_args!("mov ({n}|M0) r{to}.0<1>:d r{register}.{at}<1;1,0>:{kind}"));
        if term.zero != 0 {
            let zero = -term.zero;
            k.line(format_args!("add ({n}|M0) r{to}.0<1>:d r{to}.0<1;1,0>:d {zero}:w"));
        }
        k.line(format_args!("mov ({n}|M0) r{to}.0<1>:f r{to}.0<1;1,0>:d"));
    }
    let first = float(shape.terms[0].factor);
    k.line(format_args!("mul ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f {first}"));
    k.line(format_args!("mad ({n}|M0) r{x}.0<1>:f r{x}.0<1;0>:f r{y}.0<1;0>:f r{factor}.0<1>:f"));
    k.line(format_args!("rnde ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f"));
    shape.leave.write(k, x);
}
