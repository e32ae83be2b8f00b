//! Poolings, reductions over positions and interpolation.

use super::chain::Open;
use super::dims::Dims;
use super::moves::{AxisMap, selection};
use super::{Freedom, Frontend};
use crate::compile::hir::{Op as Hir, Pooling, TempId, Windows};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{
    Graph, Interpolation, Node, Op, Pad, PadMode, Pool, PoolKind, Reduce, ReduceKind, Resize,
    Window,
};

/// Positions of a window that a layer can hold between its first operation and its pooling.
const FUSED_POSITIONS: usize = 256;

/// What becomes of the positions of a window.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Max,
    Mean,
    Sum,
}

/// Windows with the divisors of their averages.
pub(super) struct Pooled {
    pub(super) kind: Kind,
    pub(super) windows: Windows,
    /// One for every window.
    pub(super) divisors: Vec<usize>,
}

/// Input positions along an axis of every output position, as ranges of taps.
fn taps_along(window: &Window, axis: usize, input: usize, output: usize) -> Vec<Vec<usize>> {
    let source = |out: usize, tap: usize| window.source(axis, out, tap, input);
    (0..output)
        .map(|out| window.taps(axis, out, input).filter_map(|tap| source(out, tap)).collect())
        .collect()
}

/// Windows that combine the lists of positions along the two axes, for every image.
fn combine(x: Dims, rows: &[Vec<usize>], columns: &[Vec<usize>]) -> Windows {
    let mut windows = Windows { starts: vec![0], positions: Vec::new() };
    for n in 0..x.n {
        for row in rows {
            for column in columns {
                for h in row {
                    let start = (n * x.h + h) * x.w;
                    windows.positions.extend(column.iter().map(|w| (start + w) as u32));
                }
                windows.starts.push(windows.positions.len() as u32);
            }
        }
    }
    windows
}

fn pool(pool: &Pool, x: Dims, out: Dims) -> Pooled {
    let rank = pool.window.rank();
    let along =
        |axis: usize, input: usize, output: usize| taps_along(&pool.window, axis, input, output);
    let rows = if rank == 1 { vec![vec![0]] } else { along(0, x.h, out.h) };
    let columns = along(rank - 1, x.w, out.w);
    let one_image = pool.divisors(&[x.h, x.w][2 - rank..], &[out.h, out.w][2 - rank..]);
    let kind = if pool.kind == PoolKind::Max { Kind::Max } else { Kind::Mean };
    Pooled { kind, windows: combine(x, &rows, &columns), divisors: one_image.repeat(x.n) }
}

/// One window for every image, or for every row or column of one.
fn reduction(kind: Kind, x: Dims, [rows, columns]: [bool; 2]) -> Pooled {
    let along = |joined: bool, extent: usize| -> Vec<Vec<usize>> {
        match joined {
            true => vec![(0..extent).collect()],
            false => (0..extent).map(|at| vec![at]).collect(),
        }
    };
    let windows = combine(x, &along(rows, x.h), &along(columns, x.w));
    let divisor = if rows { x.h } else { 1 } * if columns { x.w } else { 1 };
    let divisors = vec![divisor; windows.len()];
    Pooled { kind, windows, divisors }
}

/// Which of the rows and columns a reduction joins; `None` when it joins other axes.
pub(super) fn joined_axes(reduce: &Reduce, shape: &[usize]) -> Option<[bool; 2]> {
    let rank = shape.len();
    let spatial = reduce.axes.iter().all(|&axis| axis >= 2 && axis < rank);
    let last = reduce.axes.contains(&(rank.wrapping_sub(1)));
    let others = reduce.axes.iter().filter(|&&axis| axis + 1 != rank).count();
    // Axes between the channels and the last one are rows together.
    let all_or_none = others == 0 || others + 3 == rank;
    (rank >= 3 && spatial && all_or_none).then_some([others > 0, last])
}

fn kind_of(kind: ReduceKind) -> Option<Kind> {
    Some(match kind {
        ReduceKind::Mean => Kind::Mean,
        ReduceKind::Sum => Kind::Sum,
        ReduceKind::Max => Kind::Max,
        _ => return None,
    })
}

/// The windows of a node that pools; `None` for other nodes.
pub(super) fn pooled(graph: &Graph, node: &Node) -> Option<Pooled> {
    let shape = &graph[node.input(0)?].shape;
    let (x, out) = (Dims::of(shape)?, Dims::of(&graph[node.output].shape)?);
    Some(match &node.op {
        Op::Pool(op) => pool(op, x, out),
        Op::GlobalAveragePool => reduction(Kind::Mean, x, [true, true]),
        Op::GlobalMaxPool => reduction(Kind::Max, x, [true, true]),
        Op::Reduce(reduce) => reduction(kind_of(reduce.kind)?, x, joined_axes(reduce, shape)?),
        _ => return None,
    })
}

impl Frontend<'_> {
    /// True when a pooling can read its operand from a temp, of which a vector takes so many
    /// products: windows are small, and no position is in several windows or it pays to compute
    /// some positions twice.
    pub(super) fn pool_continues(&self, node: &Node, products: usize) -> bool {
        let Some(pooled) = pooled(self.graph, node) else {
            return false;
        };
        let x = node.input(0).map_or(0, |x| Dims::of_value(self.graph, x).positions());
        let mut seen = vec![false; x];
        let disjoint = pooled
            .windows
            .positions
            .iter()
            .all(|&at| !std::mem::replace(&mut seen[at as usize], true));
        let longest = (0..pooled.windows.len() as u32).map(|at| pooled.windows.of(at).len()).max();
        (disjoint || self.overlap_pays(node, products))
            && longest.is_some_and(|longest| longest <= FUSED_POSITIONS)
    }

    /// True when computing the rows that windows of two tiles share twice costs less than to save
    /// and load all rows.
    fn overlap_pays(&self, node: &Node, products: usize) -> bool {
        let (Op::Pool(Pool { kind: PoolKind::Max, window, .. }), Some(x)) =
            (&node.op, node.input(0))
        else {
            return false;
        };
        if window.rank() != 2 || window.dilations[0] != 1 || products == 0 {
            return false;
        }
        let (x, out) = (Dims::of_value(self.graph, x), Dims::of_value(self.graph, node.output));
        let (kernel, stride) = (window.kernel[0], window.strides[0]);
        let depth = self.arch.accumulator_depth as usize;
        // Rows of output whose windows fit in the accumulators.
        let fixed = kernel.saturating_sub(stride) * x.w;
        let rows = depth.saturating_sub(fixed) / (stride * x.w + out.w);
        let vectors = x.positions() * x.blocks(self.lanes);
        // A vector that stays in local memory passes through neither bank.
        let moves = if vectors as u64 > self.arch.local_depth / 2 { 4 } else { 2 };
        let twice = kernel.saturating_sub(stride) * products;
        rows > 0 && 5 * twice < 4 * moves * rows * stride
    }

    /// True for a padding with zeros that only a pooling of the largest reads which can take the
    /// layer along.
    pub(super) fn pad_continues(&self, node: &Node, open: &Open) -> bool {
        let [reader] = self.consumers[node.output.index()][..] else { return false };
        let reader = &self.graph[reader];
        let largest = matches!(reader.op, Op::Pool(Pool { kind: PoolKind::Max, .. }))
            && !reader.operands().any(|operand| operand != node.output);
        let products = open.products();
        largest
            && products > 0
            && !self.is_output[node.output.index()]
            && self.padding(node).is_some()
            && !has_empty_window(self.graph, reader)
            && self.pool_continues(reader, products)
    }

    /// For every position of a tensor that is padded with zeros that of the operand.
    pub(super) fn padding(&self, node: &Node) -> Option<AxisMap> {
        let zeros = matches!(&node.op, Op::Pad(Pad { mode: PadMode::Constant(0.0), .. }));
        let selection = selection(self.graph, node).filter(|_| zeros)?;
        selection.positions.filter(|_| selection.channels.is_none())
    }

    /// Appends a pooling or interpolation.
    pub(super) fn window(&mut self, open: &mut Open, node: &Node, input: TempId) -> Result<TempId> {
        if let Op::Resize(resize) = &node.op {
            return self.interpolate(open, resize, node, input);
        }
        let pooled = pooled(self.graph, node)
            .ok_or_else(|| Diagnostic::bug(format!("{} has no instructions", node.op.name())))?;
        if let Some(mean) = self.mean(open, node, &pooled, input) {
            return Ok(mean);
        }
        let data_type = self.arch.data_type;
        let multipliers = |divisors: &[usize]| -> std::sync::Arc<[i32]> {
            divisors.iter().map(|&d| data_type.encode(1.0 / d as f64)).collect()
        };
        let uniform = pooled.divisors.iter().all(|&divisor| divisor == pooled.divisors[0]);
        let kind = match pooled.kind {
            Kind::Max => Pooling::Max,
            Kind::Sum => Pooling::Average { multipliers: multipliers(&[1]) },
            Kind::Mean if uniform => {
                Pooling::Average { multipliers: multipliers(&pooled.divisors[..1]) }
            }
            Kind::Mean => Pooling::Average { multipliers: multipliers(&pooled.divisors) },
        };
        let windows = match open.padded.take() {
            Some(padded) => unpadded(&pooled.windows, &padded),
            None => pooled.windows,
        };
        let output = open.temp(Dims::of_value(self.graph, node.output));
        open.push(Hir::Pool { kind, windows, input, output });
        Ok(output)
    }

    fn interpolate(
        &mut self,
        open: &mut Open,
        resize: &Resize,
        node: &Node,
        input: TempId,
    ) -> Result<TempId> {
        let (x, out) = (open.dims, Dims::of_value(self.graph, node.output));
        let rank = self.graph[node.output].shape.len();
        let compat = self.choices.freedom == Freedom::Compat
            && resize.interpolation == Interpolation::Linear;
        let along = |axis: usize, input: usize, output: usize| match resize
            .axes
            .iter()
            .position(|&resized| resized == axis)
        {
            Some(index) if compat => resize.taps(index, input, output),
            Some(index) => resize.taps(index, input, output).into_iter().map(merged).collect(),
            None => (0..output).map(|at| vec![(at, 1.0)]).collect::<Vec<_>>(),
        };
        let rows = if rank == 4 { along(2, x.h, out.h) } else { vec![vec![(0, 1.0)]] };
        let columns = along(rank - 1, x.w, out.w);
        let mut windows = Windows { starts: vec![0], positions: Vec::new() };
        let mut weights = Vec::new();
        for n in 0..x.n {
            for row in &rows {
                for column in &columns {
                    // Upstream goes through the columns first, and adds up nothing beforehand.
                    let entries: Vec<Entry> = match compat {
                        true => pairs(column, row).map(|(w, h)| (h, w)).collect(),
                        false => pairs(row, column).collect(),
                    };
                    self.weigh(x, n, &entries, &mut windows.positions, &mut weights);
                    windows.starts.push(windows.positions.len() as u32);
                }
            }
        }
        let output = open.temp(out);
        open.push(Hir::Interpolate { windows, weights, input, output });
        Ok(output)
    }

    /// Appends the positions and weights of one output position. Weights of zero are left out;
    /// positions outside of the input give zero.
    fn weigh(
        &self,
        x: Dims,
        n: usize,
        entries: &[Entry],
        positions: &mut Vec<u32>,
        weights: &mut Vec<i32>,
    ) {
        let before = positions.len();
        let zero = self.arch.data_type.encode(0.0);
        for &((h, a), (w, b)) in entries {
            let weight = self.arch.data_type.encode(a * b);
            if weight != zero {
                positions.push(((n * x.h + h) * x.w + w) as u32);
                weights.push(weight);
            }
        }
        if positions.len() == before {
            positions.push((n * x.spatial()) as u32);
            weights.push(zero);
        }
    }
}

/// The windows on what is padded: zeros come first, once.
fn unpadded(windows: &Windows, padded: &[Option<usize>]) -> Windows {
    let mut result = Windows { starts: vec![0], positions: Vec::new() };
    for output in 0..windows.len() as u32 {
        let sources = windows.of(output).iter().map(|&at| padded[at as usize]);
        if sources.clone().any(|source| source.is_none()) {
            result.positions.push(Windows::ZERO);
        }
        result.positions.extend(sources.flatten().map(|source| source as u32));
        result.starts.push(result.positions.len() as u32);
    }
    result
}

/// A row and a column with their weights.
type Entry = ((usize, f64), (usize, f64));

/// Every entry of the first list with every one of the second.
fn pairs<'a>(
    first: &'a [(usize, f64)],
    second: &'a [(usize, f64)],
) -> impl Iterator<Item = Entry> + 'a {
    first.iter().flat_map(|&a| second.iter().map(move |&b| (a, b)))
}

/// Taps of one position with those of equal elements added up.
fn merged(taps: Vec<(usize, f64)>) -> Vec<(usize, f64)> {
    let mut merged: Vec<(usize, f64)> = Vec::with_capacity(taps.len());
    for (element, weight) in taps {
        match merged.iter_mut().find(|(known, _)| *known == element) {
            Some((_, sum)) => *sum += weight,
            None => merged.push((element, weight)),
        }
    }
    merged
}

/// True when a window lies in the padding only.
pub(super) fn has_empty_window(graph: &Graph, node: &Node) -> bool {
    let Op::Pool(pool) = &node.op else {
        return false;
    };
    let Some(x) = node.input(0) else {
        return false;
    };
    let (input, output) = (&graph[x].shape[2..], &graph[node.output].shape[2..]);
    (0..pool.window.rank()).any(|axis| {
        (0..output[axis]).any(|out| pool.window.taps(axis, out, input[axis]).is_empty())
    })
}

/// True for a reduction that the machine computes.
pub(super) fn is_reduced(reduce: &Reduce, shape: &[usize]) -> bool {
    kind_of(reduce.kind).is_some() && joined_axes(reduce, shape).is_some()
}

/// True when a resizing leaves all axes but rows and columns as they are.
pub(super) fn interpolates_positions(resize: &Resize, x: &[usize], out: &[usize]) -> bool {
    let stays = |(index, &axis): (usize, &usize)| {
        let taps = resize.taps(index, x[axis], out[axis]);
        // A prefix of an axis has such taps, too.
        axis >= 2
            || x[axis] == out[axis]
                && taps.into_iter().enumerate().all(|(at, taps)| {
                    let mut mixed = merged(taps);
                    mixed.retain(|&(_, weight)| weight != 0.0);
                    mixed == [(at, 1.0)]
                })
    };
    resize.axes.iter().enumerate().all(stays)
}
