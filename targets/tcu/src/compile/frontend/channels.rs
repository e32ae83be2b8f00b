//! Moving channels between the lanes of vectors, with matrices of zeros and ones.

use super::Frontend;
use super::chain::{Open, view};
use super::dims::{Dims, Held};
use super::moves::{AxisMap, at_positions, combinations, selection};
use crate::compile::hir::{Binary, MatMul, Op as Hir, Operand, Pair, Plane, Tap, TempId};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, Node, Op, Source, ValueId};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Most scalars in the matrices of a node that moves elements.
pub(super) const MAX_SCALARS: usize = 1 << 24;

/// Most elements of a result that is moved element by element.
const MAX_ELEMENTS: usize = 1 << 20;

/// The block of a joined tensor in which an operand begins, when it begins and ends with blocks.
pub(super) fn aligned_block(
    graph: &Graph,
    node: &Node,
    value: ValueId,
    lanes: usize,
) -> Option<u32> {
    let mut first = 0_usize;
    let last = node.inputs.len() - 1;
    for (index, operand) in node.operands().enumerate() {
        let channels = Dims::of_value(graph, operand).c;
        if operand == value {
            let fits =
                first.is_multiple_of(lanes) && (channels.is_multiple_of(lanes) || index == last);
            return fits.then_some((first / lanes) as u32);
        }
        first += channels;
    }
    None
}

/// The blocks of a tensor that hold the selected channels, when those are whole blocks.
pub(super) fn aligned(
    held: &Held,
    channels: Option<&[Option<usize>]>,
    lanes: usize,
) -> Option<Held> {
    let Some(channels) = channels else {
        return Some(held.clone());
    };
    let start = (*channels.first()?)?;
    let in_order = channels.iter().enumerate().all(|(at, &from)| from == Some(start + at));
    if !in_order || !start.is_multiple_of(lanes) {
        return None;
    }
    let end = start + channels.len();
    let planes = held.planes.get(start / lanes..end.div_ceil(lanes))?.into();
    let zero_padding = end.is_multiple_of(lanes) || (end == held.dims.c && held.zero_padding);
    let dims = Dims { c: channels.len(), ..held.dims };
    Some(Held { dims, planes, zero_padding, ..held.clone() })
}

/// What a matrix of zeros and ones moves: `(from, to)` rows and columns, and between which
/// positions.
pub(super) struct Move {
    pub(super) lanes: Vec<(usize, usize)>,
    pub(super) pairs: Vec<Pair>,
}

impl Move {
    /// Lanes of every position.
    pub(super) fn of(held: &Held, lanes: Vec<(usize, usize)>) -> Move {
        Move { lanes, pairs: pairs_of(held, held.dims.positions()) }
    }
}

impl Frontend<'_> {
    /// Begins a layer with the gathering of channels. Without a result the node is complete.
    pub(super) fn move_channels(&mut self, node: &Node) -> Result<Option<(Open, TempId)>> {
        if let Op::Concat { axis } = node.op {
            if !is_channels(axis, &self.graph[node.output].shape) {
                return self.join_positions(axis, node).map(Some);
            }
            return self.join(node).map(|()| None);
        }
        let dims = Dims::of_value(self.graph, node.output);
        let x = node.input(0).ok_or_else(|| Diagnostic::bug("a moved tensor is absent"))?;
        let held = self.held(x)?;
        let last_lanes = lanes_used(&held, self.lanes);
        let (held, moves) = match selection(self.graph, node) {
            Some(selection) => {
                let channels = selection.channels.expect("positions alone are a view");
                let held = at_positions(held, selection.positions, dims);
                let moves = vec![select(&channels, &held, dims.positions())];
                (held, moves)
            }
            None => {
                let moves = mixed(self.graph, node).ok_or_else(too_large)?;
                let moves = moves.into_iter().map(|part| through(part, &held)).collect();
                (held, moves)
            }
        };
        let mut open = Open::new(node.name.clone(), dims);
        let planes = held.planes.clone();
        let temp = self.gather(&mut open, &node.name, &planes, last_lanes, moves)?;
        Ok(Some((open, temp)))
    }

    /// A product with matrices of zeros and ones.
    pub(super) fn gather(
        &mut self,
        open: &mut Open,
        node: &str,
        planes: &Arc<[Plane]>,
        last_lanes: u32,
        moves: Vec<Move>,
    ) -> Result<TempId> {
        let one = self.arch.data_type.encode(1.0);
        self.weigh_lanes(open, node, planes, last_lanes, moves, one)
    }

    /// The same with another number than one.
    pub(super) fn weigh_lanes(
        &mut self,
        open: &mut Open,
        node: &str,
        planes: &Arc<[Plane]>,
        last_lanes: u32,
        moves: Vec<Move>,
        weight: i32,
    ) -> Result<TempId> {
        let channels = open.dims.c;
        let rows = planes.len() * self.lanes;
        let mut taps = Vec::with_capacity(moves.len());
        for part in moves {
            let mut data = vec![0; rows * channels];
            part.lanes.iter().for_each(|&(from, to)| data[from * channels + to] = weight);
            let weights =
                self.add_const(&format!("lanes of {node}"), [rows, channels], data, [])?;
            let pairs = part.pairs.into();
            taps.push(Tap { weights, inputs: planes.clone(), last_lanes, pairs });
        }
        let output = open.temp(open.dims);
        let node = node.to_owned();
        open.push(Hir::MatMul(MatMul { node, taps, bias: None, ordered: true, output }));
        Ok(output)
    }

    /// Where a joined tensor lies when every operand is in its place.
    pub(super) fn joined(&mut self, node: &Node) -> Result<Option<Held>> {
        let id = self.graph[node.output].producer;
        if id.is_some_and(|id| self.in_parts[id.index()]) {
            return self.side_by_side(node);
        }
        let places = self.home(node.output)?;
        let parts = self.parts_of(node)?;
        let in_place = |part: &Part| part.is_in_place(&places, self.lanes);
        if !parts.iter().all(in_place) {
            return Ok(None);
        }
        let layer = parts.iter().map(|part| part.held.layer).max().flatten();
        let zero_padding = parts.last().is_none_or(|part| part.held.zero_padding);
        let dims = Dims::of_value(self.graph, node.output);
        Ok(Some(Held { dims, planes: places, map: None, zero_padding, layer, counts: None }))
    }

    /// The operands of a joining node with the channels they begin at.
    fn parts_of(&self, node: &Node) -> Result<Vec<Part>> {
        let mut first = 0;
        let end = Dims::of_value(self.graph, node.output).c;
        let part = |value| {
            let held = self.held(value)?;
            let start = first;
            first += held.dims.c;
            let aligned = start.is_multiple_of(self.lanes)
                && (first.is_multiple_of(self.lanes) || first == end);
            Ok(Part { value, held, first: start, aligned })
        };
        node.operands().map(part).collect()
    }

    /// Begins a layer with the joining of positions: operands are added where the others have zeros.
    fn join_positions(&mut self, axis: usize, node: &Node) -> Result<(Open, TempId)> {
        let graph = self.graph;
        let (dims, shape) = (Dims::of_value(graph, node.output), &graph[node.output].shape);
        let mut open = Open::new(node.name.clone(), dims);
        let (mut first, mut joined, mut zero_padding) = (0, None, true);
        for operand in node.operands() {
            let extent = graph[operand].shape[axis];
            let map = joined_positions(shape, axis, first, extent);
            let held = at_positions(self.held(operand)?, Some(map), dims);
            first += extent;
            zero_padding &= held.zero_padding;
            joined = Some(match joined {
                None => open.load(&held),
                Some(input) => {
                    let (output, other) = (open.temp(dims), Operand::Vars(view(&held)));
                    open.push(Hir::Binary { op: Binary::Add, input, other, output });
                    output
                }
            });
        }
        open.zero_padding = zero_padding;
        Ok((open, joined.ok_or_else(|| Diagnostic::bug("nothing is joined"))?))
    }

    /// Begins a layer that moves the elements of a tensor, in their order, to other extents.
    pub(super) fn reshape(
        &mut self,
        name: &str,
        held: &Held,
        dims: Dims,
    ) -> Result<(Open, TempId)> {
        let moves = moves(held.dims, dims, Some).ok_or_else(too_large)?;
        let moves = moves.into_iter().map(|part| through(part, held)).collect();
        let mut open = Open::new(name.to_owned(), dims);
        let used = lanes_used(held, self.lanes);
        let temp = self.gather(&mut open, name, &held.planes, used, moves)?;
        Ok((open, temp))
    }

    /// Brings the operands of a joining node that are not in their places there.
    fn join(&mut self, node: &Node) -> Result<()> {
        let places = self.home(node.output)?;
        let dims = Dims::of_value(self.graph, node.output);
        let lanes = self.lanes;
        let mut present = vec![false; places.len()];
        let mut layer = 0;
        for part in self.parts_of(node)? {
            let blocks = part.first / lanes..(part.first + part.held.dims.c).div_ceil(lanes);
            if part.aligned {
                present[blocks.clone()].fill(true);
                if !part.is_in_place(&places, lanes) {
                    layer = self.copy(part.value, places[blocks].into())?;
                }
            } else if part.held.map.is_some() {
                // Matrices read their operands as they are.
                self.materialise(part.value)?;
            }
        }
        let missing: Vec<usize> = (0..places.len()).filter(|&block| !present[block]).collect();
        let parts = self.parts_of(node)?;
        if !missing.is_empty() {
            layer = self.mix(node, &parts, &places, &missing)?;
        }
        let mixed = missing.last() == Some(&(places.len() - 1));
        let zero_padding = mixed || parts.last().is_some_and(|part| part.held.zero_padding);
        let layer = parts.iter().filter_map(|part| part.held.layer).fold(layer, u32::max);
        let held = Held {
            dims,
            planes: places,
            map: None,
            zero_padding,
            layer: Some(layer),
            counts: None,
        };
        self.hold_view(node.output, held)
    }

    /// Fills blocks of a joined tensor with the channels of several operands.
    fn mix(
        &mut self,
        node: &Node,
        parts: &[Part],
        places: &[Plane],
        missing: &[usize],
    ) -> Result<u32> {
        let dims = Dims::of_value(self.graph, node.output);
        let mut open = Open::new(node.name.clone(), self.dims_of_blocks(dims, missing));
        open.node(&node.name);
        let (planes, last_lanes, part) = self.sources_of_blocks(parts, missing, dims);
        let temp = self.gather(&mut open, &node.name, &planes, last_lanes, vec![part])?;
        open.save(temp, missing.iter().map(|&block| places[block]).collect());
        Ok(self.close(open))
    }

    /// Extents of some blocks of a tensor.
    fn dims_of_blocks(&self, dims: Dims, blocks: &[usize]) -> Dims {
        let channels = |&block: &usize| self.lanes.min(dims.c - block * self.lanes);
        Dims { c: blocks.iter().map(channels).sum(), ..dims }
    }

    /// The planes that some blocks of a joined tensor are made of, and how.
    fn sources_of_blocks(
        &self,
        parts: &[Part],
        missing: &[usize],
        dims: Dims,
    ) -> (Arc<[Plane]>, u32, Move) {
        let lanes = self.lanes;
        let mut planes: Vec<Plane> = Vec::new();
        let mut moved: Vec<(usize, usize)> = Vec::new();
        let mut last_lanes = lanes as u32;
        for part in parts {
            let row = planes.len() * lanes;
            let target = |channel: usize| {
                let (block, lane) =
                    ((part.first + channel) / lanes, (part.first + channel) % lanes);
                Some(missing.binary_search(&block).ok()? * lanes + lane)
            };
            let before = moved.len();
            moved.extend((0..part.held.dims.c).filter_map(|c| Some((row + c, target(c)?))));
            if moved.len() > before {
                planes.extend_from_slice(&part.held.planes);
                last_lanes = lanes_used(&part.held, lanes);
            }
        }
        let pair = |at: usize| Pair { input: at as u32, output: at as u32 };
        let pairs = (0..dims.positions()).map(pair).collect();
        (planes.into(), last_lanes, Move { lanes: moved, pairs })
    }
}

/// An operand of a joining node.
struct Part {
    value: ValueId,
    held: Held,
    /// The channel of the result that it begins at.
    first: usize,
    /// It begins and ends with blocks.
    aligned: bool,
}

impl Part {
    /// True when it lies where the result is.
    fn is_in_place(&self, places: &[Plane], lanes: usize) -> bool {
        let own = places.get(self.first / lanes..).unwrap_or(&[]);
        self.aligned && self.held.map.is_none() && own.starts_with(&self.held.planes)
    }
}

/// The lanes of the last plane that can hold other numbers than zeros.
pub(super) fn lanes_used(held: &Held, lanes: usize) -> u32 {
    match held.dims.c % lanes {
        _ if held.counts.is_some() => lanes as u32,
        0 => lanes as u32,
        _ if !held.zero_padding => lanes as u32,
        rest => rest as u32,
    }
}

fn pairs_of(held: &Held, positions: usize) -> Vec<Pair> {
    let pair = |at: usize| Some(Pair { input: held.position(at)?, output: at as u32 });
    (0..positions).filter_map(pair).collect()
}

fn select(channels: &AxisMap, held: &Held, positions: usize) -> Move {
    let lane = |(to, &from): (usize, &Option<usize>)| Some((from?, to));
    let lanes = channels.iter().enumerate().filter_map(lane).collect();
    Move { lanes, pairs: pairs_of(held, positions) }
}

/// The same with positions of the planes as inputs.
fn through(mut part: Move, held: &Held) -> Move {
    part.pairs.retain_mut(|pair| match held.position(pair.input as usize) {
        Some(input) => {
            pair.input = input;
            true
        }
        None => false,
    });
    part
}

fn too_large() -> Diagnostic {
    Diagnostic::bug("a moved tensor is too large")
}

/// True for the axis of the channels.
pub(super) fn is_channels(axis: usize, shape: &[usize]) -> bool {
    axis == usize::from(shape.len() > 1)
}

/// For every position of a joined tensor that of an operand that begins at this index of the axis.
fn joined_positions(shape: &[usize], axis: usize, first: usize, extent: usize) -> AxisMap {
    let map = |at: usize| -> AxisMap {
        let of = |index: usize| match at == axis {
            true => index.checked_sub(first).filter(|&index| index < extent),
            false => Some(index),
        };
        (0..shape[at]).map(of).collect()
    };
    let others: Vec<usize> = (0..shape.len()).filter(|&at| !is_channels(at, shape)).collect();
    let maps: Vec<AxisMap> = others.iter().map(|&at| map(at)).collect();
    let extents = others.iter().map(|&at| if at == axis { extent } else { shape[at] });
    combinations(maps.iter().map(Vec::as_slice).zip(extents))
}

/// Matrices for a node that moves elements between positions and channels; `None` when they would
/// be too large.
pub(super) fn mixed(graph: &Graph, node: &Node) -> Option<Vec<Move>> {
    let x = Dims::of(&graph[node.input(0)?].shape)?;
    let out = Dims::of(&graph[node.output].shape)?;
    if out.positions() * out.c > MAX_ELEMENTS || node.operands().count() != 1 {
        return None;
    }
    let sources = graph.movement(node)?;
    moves(x, out, |element| match sources[element] {
        Source::Operand { element, .. } => Some(element as usize),
        Source::Value(_) => None,
    })
}

/// The same, given the element of the operand that every element of the result is.
pub(super) fn moves(
    x: Dims,
    out: Dims,
    source: impl Fn(usize) -> Option<usize>,
) -> Option<Vec<Move>> {
    if out.positions() * out.c > MAX_ELEMENTS {
        return None;
    }
    let (size, from_size) = (out.spatial(), x.spatial());
    let mut known: FxHashMap<Vec<(usize, usize)>, usize> = FxHashMap::default();
    let mut moves: Vec<Move> = Vec::new();
    for position in 0..out.positions() {
        let (n, s) = (position / size, position % size);
        let mut found: FxHashMap<usize, usize> = FxHashMap::default();
        let mut parts: Vec<(usize, Vec<(usize, usize)>)> = Vec::new();
        for c in 0..out.c {
            let element = source((n * out.c + c) * size + s)?;
            let input = element / from_size / x.c * from_size + element % from_size;
            let part = *found.entry(input).or_insert(parts.len());
            if part == parts.len() {
                parts.push((input, Vec::new()));
            }
            parts[part].1.push((element / from_size % x.c, c));
        }
        for (input, lanes) in parts {
            let index = *known.entry(lanes).or_insert_with_key(|lanes| {
                moves.push(Move { lanes: lanes.clone(), pairs: Vec::new() });
                moves.len() - 1
            });
            moves[index].pairs.push(Pair { input: input as u32, output: position as u32 });
            if moves.len().saturating_mul(x.c * out.c) > MAX_SCALARS {
                return None;
            }
        }
    }
    Some(moves)
}
