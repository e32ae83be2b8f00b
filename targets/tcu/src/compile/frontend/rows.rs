//! Convolutions of few channels: what a row of the kernel reads becomes separate vectors.
//!
//! Vectors of a tensor with three channels leave most lanes empty. Where numbers are free, the
//! elements of a row that a row of the kernel reads, column by column and channel by channel, are
//! cut into vectors of `width` elements, which a layer before the product makes with matrices of
//! zeros and ones. Vectors that several output positions read are made once.

use super::Frontend;
use super::chain::Open;
use super::channels::Move;
use super::dims::{Dims, Held};
use crate::compile::hir::{Order, Pair, Plane};
use quincunx_diag::Result;
use quincunx_graph::{Node, Window};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Cycles of a vector that is made: it leaves the accumulators, is saved and loaded.
const SAVING: usize = 3;

/// How the rows of a kernel are cut.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// Elements of a vector.
    pub(super) width: usize,
    /// Vectors of a row of the kernel.
    pub(super) parts: usize,
    /// By the element of an input row that a vector begins with: its place among the vectors of the
    /// row, and how many elements are needed.
    starts: BTreeMap<i64, (u32, usize)>,
    /// Elements from one output column to the next.
    step: i64,
    /// Elements of padding.
    pad: i64,
}

impl Rows {
    fn new(window: &Window, x: Dims, columns: usize, width: usize) -> Rows {
        let axis = window.rank() - 1;
        let elements = window.kernel[axis] * x.c;
        let (step, pad) = (window.strides[axis] * x.c, window.pads[axis].0 * x.c);
        let parts = elements.div_ceil(width);
        let (step, pad) = (step as i64, pad as i64);
        let mut rows = Rows { width, parts, starts: BTreeMap::new(), step, pad };
        for column in 0..columns {
            for part in 0..parts {
                let needed = width.min(elements - part * width);
                let start = rows.start(column, part);
                // Vectors beside the row are zeros only.
                if start + needed as i64 > 0 && start < (x.w * x.c) as i64 {
                    let entry = rows.starts.entry(start).or_insert((0, 0));
                    entry.1 = entry.1.max(needed);
                }
            }
        }
        for (place, entry) in rows.starts.values_mut().enumerate() {
            entry.0 = place as u32;
        }
        rows
    }

    /// The first element of a vector.
    fn start(&self, column: usize, part: usize) -> i64 {
        column as i64 * self.step - self.pad + (part * self.width) as i64
    }

    /// Products that make the vectors of a row.
    fn moves(&self, x: Dims) -> usize {
        let columns = |(&start, &(_, needed)): (&i64, &(u32, usize))| {
            let first = start.div_euclid(x.c as i64).max(0);
            let last = (start + needed as i64 - 1).div_euclid(x.c as i64).min(x.w as i64 - 1);
            (last - first + 1) as usize
        };
        self.starts.iter().map(columns).sum()
    }

    /// Lanes of the vectors of a part that hold elements.
    pub(super) fn lanes(&self, part: usize, columns: usize) -> u32 {
        let needed = (0..columns).filter_map(|column| {
            self.starts.get(&self.start(column, part)).map(|&(_, needed)| needed)
        });
        needed.max().unwrap_or(1) as u32
    }
}

impl Frontend<'_> {
    /// How the rows of a convolution's kernel are cut, where that saves cycles.
    pub(super) fn rows_of(&self, window: &Window, held: &Held, out: Dims) -> Option<Rows> {
        let x = held.dims;
        let axis = window.rank() - 1;
        let plain = held.planes.len() == 1 && held.counts.is_none() && window.dilations[axis] == 1;
        if !self.choices.joins() || !plain || 2 * x.c > self.lanes {
            return None;
        }
        let taps: usize = window.kernel.iter().product();
        let kernel_rows = taps / window.kernel[axis];
        let (blocks, images) = (out.blocks(self.lanes), x.n);
        let now = taps * out.positions() * blocks;
        let cycles = |rows: &Rows| {
            let made = rows.moves(x) + SAVING * rows.starts.len();
            kernel_rows * rows.parts * out.positions() * blocks + made * x.h * images
        };
        let all = (x.c..=self.lanes).map(|width| Rows::new(window, x, out.w, width));
        let best = all.min_by_key(cycles)?;
        (cycles(&best) < now - now / 8).then_some(best)
    }

    /// The layer that makes the vectors: a plane with those of every row of every image.
    pub(super) fn make_rows(&mut self, node: &Node, held: &Held, rows: &Rows) -> Result<Plane> {
        let x = held.dims;
        let count = rows.starts.len();
        let dims = Dims { n: x.n, c: rows.width, h: x.h, w: count };
        let name = format!("rows of {}", node.name);
        let var = self.builder.add_var(&name, dims.positions() as u32, 1, Order::Planar);
        // Vectors that begin with the same channel are made with the same matrices.
        let mut kinds: BTreeMap<(i64, usize), Vec<(i64, u32)>> = BTreeMap::new();
        for (&start, &(place, needed)) in &rows.starts {
            let channel = start.rem_euclid(x.c as i64);
            kinds.entry((channel, needed)).or_default().push((start - channel, place));
        }
        let mut moves = Vec::new();
        for ((channel, needed), vectors) in kinds {
            for column in 0..(channel as usize + needed).div_ceil(x.c) {
                let lane = |from: usize| {
                    let to = (column * x.c + from).checked_sub(channel as usize)?;
                    (to < needed).then_some((from, to))
                };
                let lanes = (0..x.c).filter_map(lane).collect();
                let mut pairs = Vec::new();
                for row in 0..x.n * x.h {
                    pairs.extend(vectors.iter().filter_map(|&(start, place)| {
                        let from = start.div_euclid(x.c as i64) + column as i64;
                        let from = usize::try_from(from).ok().filter(|&from| from < x.w)?;
                        let input = held.position(row * x.w + from)?;
                        Some(Pair { input, output: (row * count) as u32 + place })
                    }));
                }
                moves.push(Move { lanes, pairs });
            }
        }
        let mut open = Open::new(name, dims);
        let last_lanes = super::channels::lanes_used(held, self.lanes);
        let temp = self.gather(&mut open, &node.name, &held.planes, last_lanes, moves)?;
        let plane = Plane { var, block: 0 };
        open.save(temp, Arc::new([plane]));
        self.close(open);
        Ok(plane)
    }

    /// What every row of the kernel and part of it multiplies.
    pub(super) fn row_pairs(
        &self,
        window: &Window,
        x: Dims,
        out: Dims,
        rows: &Rows,
    ) -> Vec<Vec<Pair>> {
        let kernel_rows = if window.rank() == 1 { 1 } else { window.kernel[0] };
        let count = rows.starts.len();
        let mut taps = Vec::with_capacity(kernel_rows * rows.parts);
        for kernel_row in 0..kernel_rows {
            for part in 0..rows.parts {
                let mut pairs = Vec::with_capacity(out.positions());
                for at in 0..x.n * out.h {
                    let (n, h) = (at / out.h, at % out.h);
                    let row = match window.rank() {
                        1 => Some(0),
                        _ => window.source(0, h, kernel_row, x.h),
                    };
                    let Some(row) = row else { continue };
                    pairs.extend((0..out.w).filter_map(|column| {
                        let &(place, _) = rows.starts.get(&rows.start(column, part))?;
                        let input = ((n * x.h + row) * count) as u32 + place;
                        Some(Pair { input, output: (at * out.w + column) as u32 })
                    }));
                }
                taps.push(pairs);
            }
        }
        taps
    }
}
