//! The largest code of a window.

use super::{Kernel, Map, Offset, Unit, float};
use crate::arch::Platform;
use crate::program::Element;

/// A reduction as a kernel sees it. Rows and columns of the result are those of a product; every
/// tile has one block of rows.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Shape {
    pub(in super::super) columns: usize,
    pub(in super::super) map: Map,
    /// Loops over rows and columns of the window: how often, and how far.
    pub(in super::super) loops: [(usize, usize); 2],
    pub(in super::super) element: Element,
}

/// The kernel. Its arguments are the addresses of the operand, the result and the constants.
pub(in super::super) fn largest(shape: &Shape, platform: Platform, grfs: u32) -> Option<String> {
    let mut kernel = Kernel::new(platform, grfs);
    let k = &mut kernel;
    let (lanes, grf, columns) = (k.lanes(), platform.grf_bytes() as usize, shape.columns);
    let size = shape.element.bytes() as usize;
    let (width, vectors) = (columns * lanes * size, columns * size);
    let (s, best, loaded) = (k.take(1), k.take(8 * columns), k.take(2 * vectors));
    let (addresses, packed) = (k.take(2 * vectors), k.take(2 * vectors));
    let [tables, lane_bytes, t, u] = [2, 1, 1, 1].map(|count| k.take(count));
    let [a, c, constants] = [0, 1, 2].map(|at| k.argument(at));
    tile(k, s, width, &[a, c]);
    let rows = Offset::Scalar { register: s, at: 0 };
    let pairs = |k: &mut Kernel, table: usize, places: [usize; 2], base: usize| {
        let pointer = k.pointer(constants, &[Offset::Bytes(places[0] as i64), rows]);
        k.load_block(table, 32, pointer);
        let pointer = k.pointer(constants, &[Offset::Bytes(places[1] as i64)]);
        k.load_block(lane_bytes, grf, pointer);
        for vector in 0..vectors {
            let first = vector * lanes * 8 / width;
            let pairs = addresses + 2 * vector;
            k.lane_addresses(pairs, base, (table, first, width / 8), lane_bytes, t);
        }
    };
    pairs(k, tables, [shape.map.rows_in[0], shape.map.lanes_out], a);
    let kind = shape.element.name();
    let (wide, lowest) = match shape.element {
        Element::Ub => ("d", "0:w".to_owned()),
        Element::B => ("d", "-128:w".to_owned()),
        _ => ("f", float(f32::NEG_INFINITY)),
    };
    for register in best..best + 8 * columns {
        k.line(format_args!("mov ({lanes}|M0) r{register}.0<1>:{wide} {lowest}"));
    }
    let [(rows_of, down), (columns_of, right)] = shape.loops;
    k.repeat(rows_of, (s, 6), &mut |k: &mut Kernel| {
        k.repeat(columns_of, (s, 7), &mut |k: &mut Kernel| {
            for vector in 0..vectors {
                k.gather(loaded + 2 * vector, Unit::Qword, addresses + 2 * vector);
                k.advance(addresses + 2 * vector, lanes, Offset::Bytes(right as i64));
            }
            for part in 0..8 * columns {
                let byte = part * lanes * size;
                let (from, at) = (loaded + byte / grf, byte % grf / size);
                let to = best + part;
                k.line(format_args!(
                    "mov ({lanes}|M0) r{u}.0<1>:{wide} r{from}.{at}<1;1,0>:{kind}"
                ));
                k.line(format_args!(
                    "sel ({lanes}|M0) (ge)f0.0 r{to}.0<1>:{wide} r{to}.0<1;1,0>:{wide} r{u}.0<1;1,0>:{wide}"
                ));
            }
        });
        for vector in 0..vectors {
            let back = down as i64 - (columns_of * right) as i64;
            k.advance(addresses + 2 * vector, lanes, Offset::Bytes(back));
        }
    });
    for part in 0..8 * columns {
        let to = (packed, part * lanes * size);
        match wide {
            "d" => k.pack((best + part, "d"), to, kind, u),
            _ => k.pack_floats(best + part, to, shape.element),
        }
    }
    pairs(k, tables, [shape.map.rows_out, shape.map.lanes_out], c);
    for vector in 0..vectors {
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
