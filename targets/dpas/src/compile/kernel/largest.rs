//! The largest code of a window.

use super::{Kernel, Map, Offset, Unit, bytes};
use crate::arch::Platform;

/// A reduction as a kernel sees it. Rows and columns of the result are those of a product; every
/// tile has one block of rows.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Shape {
    pub(in super::super) columns: usize,
    pub(in super::super) map: Map,
    /// Loops over rows and columns of the window: how often, and how far.
    pub(in super::super) loops: [(usize, usize); 2],
    pub(in super::super) signed: bool,
}

/// The kernel. Its arguments are the addresses of the operand, the result and the constants.
pub(in super::super) fn largest(shape: &Shape, platform: Platform, grfs: u32) -> Option<String> {
    let mut kernel = Kernel::new(platform, grfs);
    let k = &mut kernel;
    let (lanes, grf, columns) = (k.lanes(), platform.grf_bytes() as usize, shape.columns);
    let width = columns * lanes;
    let (s, best, loaded) = (k.take(1), k.take(8 * columns), k.take(2 * columns));
    let (addresses, packed) = (k.take(2 * columns), k.take(2 * columns));
    let [tables, lane_bytes, t, u] = [2, 1, 1, 1].map(|count| k.take(count));
    let [a, c, constants] = [0, 1, 2].map(|at| k.argument(at));
    tile(k, s, width, &[a, c]);
    let rows = Offset::Scalar { register: s, at: 0 };
    let pairs = |k: &mut Kernel, table: usize, places: [usize; 2], base: usize| {
        let pointer = k.pointer(constants, &[Offset::Bytes(places[0] as i64), rows]);
        k.load_block(table, 32, pointer);
        let pointer = k.pointer(constants, &[Offset::Bytes(places[1] as i64)]);
        k.load_block(lane_bytes, grf, pointer);
        for vector in 0..columns {
            let first = vector * lanes * 8 / width;
            let pairs = addresses + 2 * vector;
            k.lane_addresses(pairs, base, (table, first, width / 8), lane_bytes, t);
        }
    };
    pairs(k, tables, [shape.map.rows_in[0], shape.map.lanes_out], a);
    let kind = bytes(shape.signed);
    let lowest = if shape.signed { -128 } else { 0 };
    for register in best..best + 8 * columns {
        k.line(format_args!("mov ({lanes}|M0) r{register}.0<1>:d {lowest}:w"));
    }
    let [(rows_of, down), (columns_of, right)] = shape.loops;
    k.repeat(rows_of, (s, 6), &mut |k: &mut Kernel| {
        k.repeat(columns_of, (s, 7), &mut |k: &mut Kernel| {
            for vector in 0..columns {
                k.gather(loaded + 2 * vector, Unit::Qword, addresses + 2 * vector);
                k.advance(addresses + 2 * vector, lanes, Offset::Bytes(right as i64));
            }
            for part in 0..8 * columns {
                let (from, at) = (loaded + part * lanes / grf, part * lanes % grf);
                let to = best + part;
                k.line(format_args!("mov ({lanes}|M0) r{u}.0<1>:d r{from}.{at}<1;1,0>:{kind}"));
                k.line(format_args!(
                    "sel ({lanes}|M0) (ge)f0.0 r{to}.0<1>:d r{to}.0<1;1,0>:d r{u}.0<1;1,0>:d"
                ));
            }
        });
        for vector in 0..columns {
            let back = down as i64 - (columns_of * right) as i64;
            k.advance(addresses + 2 * vector, lanes, Offset::Bytes(back));
        }
    });
    for part in 0..8 * columns {
        k.pack((best + part, "d"), (packed, part * lanes), kind, u);
    }
    pairs(k, tables, [shape.map.rows_out, shape.map.lanes_out], c);
    for vector in 0..columns {
        k.scatter(addresses + 2 * vector, packed + 2 * vector);
    }
    (kernel.taken() <= grfs).then(|| kernel.finish())
}

/// Puts the bytes of the tile's rows in a table into dword 0 of a register, and moves pointers to
/// its columns.
pub(super) fn tile(k: &mut Kernel, s: usize, width: usize, pointers: &[usize]) {
    k.line(format_args!("mul (1|M0) r{s}.0<1>:d r0.1<0;1,0>:d 32:w"));
    k.line(format_args!("mul (1|M0) r{s}.1<1>:d r0.6<0;1,0>:d {width}:d"));
    for &pointer in pointers {
        k.advance(pointer, 1, Offset::Scalar { register: s, at: 1 });
    }
}
