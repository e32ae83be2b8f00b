//! Largest elements of windows.

use super::rows::{Rows, Tile};
use super::{Kernel, Written, float};
use crate::arch::Platform;
use crate::program::Element;

/// A reduction as a kernel sees it. Rows and columns of the result are those of a product; every
/// tile has one block of eight rows.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Shape {
    pub(in super::super) tile: Tile,
    /// Loops over rows and columns of the window: how often, and how far.
    pub(in super::super) loops: [(usize, usize); 2],
    pub(in super::super) element: Element,
}

/// The kernel. Its arguments are the addresses of the operand, the result and the constants.
pub(in super::super) fn largest(shape: &Shape, platform: Platform, grfs: u32) -> Written {
    let mut kernel = Kernel::new(platform, grfs);
    let k = &mut kernel;
    let (n, element) = (k.lanes(), shape.element);
    let parts = 8 * shape.tile.width / (n * element.bytes() as usize);
    let [best, other, loaded, counters] =
        [parts, parts, shape.tile.registers(k), 1].map(|count| k.take(count));
    let rows = Rows::new(k, shape.tile, 1);
    let lowest = match element {
        Element::Ub => 0.0,
        Element::B => -128.0,
        _ => f32::NEG_INFINITY,
    };
    for x in best..best + parts {
        k.line(format_args!("mov ({n}|M0) r{x}.0<1>:f {}", float(lowest)));
    }
    let [(rows_of, down), (columns_of, right)] = shape.loops;
    k.repeat(rows_of, (counters, 0), &mut |k: &mut Kernel| {
        k.repeat(columns_of, (counters, 1), &mut |k: &mut Kernel| {
            rows.load(k, 0, loaded);
            rows.advance(k, 0, right as i64);
            k.unpack(loaded, (other, parts), element);
            for (x, y) in (best..best + parts).zip(other..) {
                k.line(format_args!(
                    "sel ({n}|M0) (ge)f0.0 r{x}.0<1>:f r{x}.0<1;1,0>:f r{y}.0<1;1,0>:f"
                ));
            }
        });
        rows.advance(k, 0, down as i64 - (columns_of * right) as i64);
    });
    k.pack((best, parts), loaded, element);
    rows.store(k, 0, loaded);
    kernel.finish()
}
