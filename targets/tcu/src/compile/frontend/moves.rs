//! Operators that rename, select and repeat: which positions and channels of the operand the
//! result is made of.

use super::constants::operand;
use super::dims::{Dims, Held};
use super::support::{flattens_for_products, is_on_grid, renames};
use super::{Frontend, channels};
use quincunx_diag::Result;
use quincunx_graph::{Graph, Node, Op, Pad, PadMode, Pool, SliceRange};
use quincunx_tensor::Shape;

/// For every position along an axis of the result the position along that axis of the operand;
/// `None` for zeros.
pub(super) type AxisMap = Vec<Option<usize>>;

/// Positions and channels of the operand that a result is made of.
pub(super) struct Selection {
    /// For every position of the result that of the operand; `None` without a change.
    pub(super) positions: Option<AxisMap>,
    /// The same for channels.
    pub(super) channels: Option<AxisMap>,
}

/// The selection that a node is, when each axis is selected alone.
pub(super) fn selection(graph: &Graph, node: &Node) -> Option<Selection> {
    let (x, out) = (&graph[node.input(0)?].shape, &graph[node.output].shape);
    if x.len() != out.len() || x.is_empty() {
        return None;
    }
    let maps = axis_maps(graph, node, x, out)?;
    let channel_axis = usize::from(x.len() > 1);
    let same = |axis: usize| is_whole(&maps[axis], x[axis]);
    let channels = (!same(channel_axis)).then(|| maps[channel_axis].clone());
    let others: Vec<usize> = (0..x.len()).filter(|&axis| axis != channel_axis).collect();
    let positions = (!others.iter().all(|&axis| same(axis))).then(|| {
        let chosen = others.iter().map(|&axis| (&maps[axis][..], x[axis]));
        combinations(chosen)
    });
    Some(Selection { positions, channels })
}

fn is_whole(map: &[Option<usize>], extent: usize) -> bool {
    map.len() == extent && map.iter().enumerate().all(|(at, &from)| from == Some(at))
}

/// All combinations of positions along axes, the last one fastest.
pub(super) fn combinations<'a>(
    axes: impl Iterator<Item = (&'a [Option<usize>], usize)>,
) -> AxisMap {
    let mut offsets = vec![Some(0)];
    for (map, extent) in axes {
        let mut next = Vec::with_capacity(offsets.len() * map.len());
        for offset in offsets {
            next.extend(map.iter().map(|&at| Some(offset? * extent + at?)));
        }
        offsets = next;
    }
    offsets
}

fn axis_maps(graph: &Graph, node: &Node, x: &Shape, out: &Shape) -> Option<Vec<AxisMap>> {
    let mut maps: Vec<AxisMap> = x.iter().map(|&extent| (0..extent).map(Some).collect()).collect();
    match &node.op {
        Op::Slice { ranges } => {
            ranges.iter().for_each(|range| maps[range.axis] = slice(range, x[range.axis]));
        }
        Op::Pad(pad) => {
            for (axis, map) in maps.iter_mut().enumerate() {
                *map = padded(pad, axis, x[axis], out[axis]);
            }
        }
        Op::Resize(resize) if resize.is_nearest() => {
            for (index, &axis) in resize.axes.iter().enumerate() {
                let taps = resize.taps(index, x[axis], out[axis]);
                maps[axis] = taps.iter().map(|taps| taps.first().map(|tap| tap.0)).collect();
            }
        }
        Op::Gather { axis } => {
            let indices = operand(graph, node, 1)?;
            let indices = indices.tensor.to_i64().filter(|_| indices.quantiser.is_none())?;
            maps[*axis] = gathered(&indices, x[*axis])?;
        }
        Op::Expand { .. } => {
            for (axis, map) in maps.iter_mut().enumerate().filter(|&(axis, _)| x[axis] == 1) {
                *map = vec![Some(0); out[axis]];
            }
        }
        Op::Tile { .. } => {
            for (axis, map) in maps.iter_mut().enumerate() {
                *map = (0..out[axis]).map(|at| Some(at % x[axis])).collect();
            }
        }
        Op::Pool(pool) if is_selection(pool) => {
            for (axis, map) in maps.iter_mut().enumerate().skip(2) {
                let stride = pool.window.strides[axis - 2];
                *map = (0..out[axis]).map(|at| Some(at * stride)).collect();
            }
        }
        _ => return None,
    }
    Some(maps)
}

/// A pooling that takes single elements.
pub(super) fn is_selection(pool: &Pool) -> bool {
    let window = &pool.window;
    window.kernel.iter().all(|&extent| extent == 1)
        && window.pads.iter().all(|&pads| pads == (0, 0))
        && !pool.ceil
}

fn slice(range: &SliceRange, extent: usize) -> AxisMap {
    let (start, count) = range.resolve(extent);
    let step = usize::try_from(range.step.unsigned_abs()).unwrap_or(usize::MAX);
    let at = |i: usize| if range.step > 0 { start + i * step } else { start - i * step };
    (0..count).map(|i| Some(at(i))).collect()
}

fn padded(pad: &Pad, axis: usize, extent: usize, out: usize) -> AxisMap {
    let (before, last) = (pad.pads[axis].0, extent as i64 - 1);
    let source = |at: i64| match pad.mode {
        PadMode::Constant(_) => (0..=last).contains(&at).then_some(at),
        PadMode::Edge => Some(at.clamp(0, last)),
        PadMode::Wrap => Some(at.rem_euclid(extent as i64)),
        PadMode::Reflect => {
            let period = (2 * last).max(1);
            let phase = at.rem_euclid(period);
            Some(phase.min(period - phase).min(last))
        }
    };
    (0..out).map(|at| source(at as i64 - before).map(|at| at as usize)).collect()
}

fn gathered(indices: &[i64], extent: usize) -> Option<AxisMap> {
    let resolve = |&index: &i64| {
        let from_end = if index < 0 { index.checked_add(extent as i64)? } else { index };
        usize::try_from(from_end).ok().filter(|&at| at < extent).map(Some)
    };
    indices.iter().map(resolve).collect()
}

impl Frontend<'_> {
    /// Where the result of a node lies that needs no layer; `None` when it needs one.
    pub(super) fn view(&mut self, node: &Node) -> Result<Option<Held>> {
        let graph = self.graph;
        if let Op::Concat { axis } = node.op {
            let channels = channels::is_channels(axis, &graph[node.output].shape);
            return if channels { self.joined(node) } else { Ok(None) };
        }
        let Some(x) = node.input(0).filter(|&x| graph[x].constant.is_none()) else {
            return Ok(None);
        };
        let dims = Dims::of_value(graph, node.output);
        if renames(graph, node) || is_on_grid(self.arch, &node.op) {
            return Ok(Some(Held { dims, ..self.held(x)? }));
        }
        if flattens_for_products(graph, self.arch, node) {
            return self.held(x).map(Some);
        }
        let Some(selection) = selection(graph, node) else {
            return Ok(None);
        };
        let held = self.held(x)?;
        let Some(held) = channels::aligned(&held, selection.channels.as_deref(), self.lanes) else {
            return Ok(None);
        };
        Ok(Some(at_positions(held, selection.positions, dims)))
    }
}

/// The positions of a tensor that a result is made of.
pub(super) fn at_positions(held: Held, positions: Option<AxisMap>, dims: Dims) -> Held {
    let map = match positions {
        Some(positions) => Some(held.mapped(positions.into_iter())),
        None => held.map.clone(),
    };
    Held { dims, map, ..held }
}
