//! Operators that only move elements, in any layout, for f32 and integers.

use super::build::Builder;
use super::data::{Data, Layout};
use super::value::Form;
use crate::movement::{Source, sources};
use crate::{Node, Op, Pad, ValueId};
use quincunx_diag::Result;
use quincunx_tensor::{Shape, View};
use std::sync::Arc;

/// Most moves that are listed when a session is prepared, unless each is of several elements. More
/// are found in every run, so that a session does not hold lists larger than tensors.
const MAX_LISTED: usize = 1 << 12;

/// Elements that stand side by side in an operand and in the result.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// `None` for a number that is an attribute of the operator.
    operand: Option<u32>,
    start: u32,
    count: u32,
}

/// Where all elements of a result come from.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    /// Empty when they are found in every run.
    runs: Vec<Run>,
    elements: usize,
    /// The number that is an attribute, if some element is.
    pub(super) fill: Option<f64>,
    origin: Origin,
}

/// What sources are found from: an operator on operands in the order of a layout.
#[derive(Clone, Debug)]
struct Origin {
    op: Op,
    shapes: Vec<Shape>,
    indices: Option<Vec<i64>>,
    out: Shape,
}

impl Origin {
    fn sources(&self) -> Result<Vec<Source>> {
        let shapes: Vec<&[usize]> = self.shapes.iter().map(|shape| &shape[..]).collect();
        sources(&self.op, &shapes, self.indices.as_deref(), &self.out)
    }
}

/// How a movement is done.
pub(super) enum Movement {
    /// The elements stay; the result has this layout.
    Stay(Layout),
    /// As listed, in this layout.
    Runs(Box<Runs>, Layout),
    /// Row-major, axes exchanged.
    Permute(Vec<usize>),
}

impl Builder<'_> {
    /// How a node moves its operands when they are in this layout; `None` when it computes, or when
    /// it has no fast form. The operands have at least the rank that the layout needs.
    pub(super) fn movement(&self, node: &Node, layout: Layout) -> Option<Movement> {
        let first = node.input(0)?;
        let (x, out) = (self.shape(first), self.shape(node.output));
        if !node.op.only_moves() || x.contains(&0) || out.contains(&0) {
            return None;
        }
        match &node.op {
            Op::Identity => return Some(Movement::Stay(layout)),
            Op::Flatten { .. } | Op::Reshape { .. } if layout == Layout::Rows => {
                return Some(Movement::Stay(Layout::Rows));
            }
            Op::Transpose { order } => return transpose(order, layout),
            _ => {}
        }
        if layout == Layout::Last && x.len() != out.len() {
            return None;
        }
        let op = in_layout(&node.op, layout, out.len())?;
        let indices = match op {
            Op::Gather { .. } => Some(self.plain_constant(node.input(1)?)?.to_i64()?),
            _ => None,
        };
        let shapes: Vec<Shape> =
            self.moved_operands(node).map(|id| layout.shape(self.shape(id))).collect();
        let origin = Origin { op, shapes, indices, out: layout.shape(out) };
        Some(Movement::Runs(Box::new(Runs::new(origin)?), layout))
    }

    /// The operands whose elements are moved.
    pub(super) fn moved_operands<'a>(&self, node: &'a Node) -> impl Iterator<Item = ValueId> + 'a {
        let all = if matches!(node.op, Op::Gather { .. }) { 1 } else { usize::MAX };
        node.operands().take(all)
    }

    /// A movement of f32.
    pub(super) fn real_movement(&mut self, node: &Node) -> Result<Option<Form>> {
        let Some(first) = node.input(0).filter(|_| node.op.only_moves()) else { return Ok(None) };
        let mut layout = self.layout_of(first)?;
        let mut movement = self.movement(node, layout);
        if movement.is_none() && layout == Layout::Last {
            layout = Layout::Rows;
            movement = self.movement(node, layout);
        }
        let Some(movement) = movement else { return Ok(None) };
        let operands: Vec<ValueId> = self.moved_operands(node).collect();
        let reads = operands.iter().map(|&id| self.real(id, layout)).collect::<Result<Vec<_>>>()?;
        let form = match movement {
            Movement::Stay(to) => Form::Real(reads[0], to),
            Movement::Permute(order) => {
                let shape = self.shape(first).to_vec();
                let permute = move |data: &Data| {
                    let values = data.floats()?;
                    Ok(Data::Floats(View::new(&values, &shape).permute(&order).to_vec()))
                };
                let slot = self.emit(node.output, reads, Box::new(move |_, d| permute(&d[0])))?;
                Form::Real(slot, Layout::Rows)
            }
            Movement::Runs(runs, layout) => {
                let select = move |data: Vec<Arc<Data>>| {
                    let operands: Vec<_> =
                        data.iter().map(|data| data.floats()).collect::<Result<_>>()?;
                    let operands: Vec<&[f32]> = operands.iter().map(|v| &v[..]).collect();
                    let fill = runs.fill.unwrap_or(0.0) as f32;
                    Ok(Data::Floats(runs.apply(&operands, fill)?))
                };
                let slot = self.emit(node.output, reads, Box::new(move |_, data| select(data)))?;
                Form::Real(slot, layout)
            }
        };
        Ok(Some(form))
    }
}

/// Exchanges between the two layouts that programs know need no step.
fn transpose(order: &[usize], layout: Layout) -> Option<Movement> {
    let rank = order.len();
    let to_last = rank >= 3
        && order[0] == 0
        && order[rank - 1] == 1
        && order[1..].is_sorted_by_key(|axis| (*axis == 1, *axis));
    let to_first = rank >= 3
        && order[0] == 0
        && order[1] == rank - 1
        && order[2..].iter().enumerate().all(|(index, axis)| *axis == index + 1);
    match layout {
        Layout::Last if to_last => Some(Movement::Stay(Layout::Rows)),
        Layout::Rows if to_first => Some(Movement::Stay(Layout::Last)),
        Layout::Rows => Some(Movement::Permute(order.to_vec())),
        Layout::Last => None,
    }
}

/// The operator on operands whose axes are in the order of a layout.
fn in_layout(op: &Op, layout: Layout, rank: usize) -> Option<Op> {
    if layout == Layout::Rows {
        return Some(op.clone());
    }
    Some(match op {
        Op::Concat { axis } => Op::Concat { axis: layout.axis(*axis, rank) },
        Op::Slice { ranges } => {
            let mut ranges = ranges.clone();
            ranges.iter_mut().for_each(|range| range.axis = layout.axis(range.axis, rank));
            Op::Slice { ranges }
        }
        Op::Pad(pad) => Op::Pad(Pad { pads: layout.turn(&pad.pads).into(), ..pad.clone() }),
        Op::Tile { repeats } => Op::Tile { repeats: layout.turn(repeats) },
        Op::Expand { shape } => Op::Expand { shape: shape.clone() },
        Op::Resize(resize) => {
            let mut resize = resize.clone();
            resize.axes.iter_mut().for_each(|axis| *axis = layout.axis(*axis, rank));
            Op::Resize(resize)
        }
        _ => return None,
    })
}

impl Runs {
    fn new(origin: Origin) -> Option<Self> {
        let sources = origin.sources().ok()?;
        let fill = sources.iter().find_map(|source| match source {
            Source::Value(value) => Some(*value),
            Source::Operand { .. } => None,
        });
        let mut runs = joined(&sources);
        if runs.len() > MAX_LISTED.max(sources.len() / 8) {
            runs = Vec::new();
        }
        Some(Runs { runs, elements: sources.len(), fill, origin })
    }

    /// The result for these operands.
    pub(super) fn apply<T: Copy>(&self, operands: &[&[T]], fill: T) -> Result<Vec<T>> {
        let mut result = Vec::with_capacity(self.elements);
        if self.runs.is_empty() {
            result.extend(self.origin.sources()?.iter().map(|source| match *source {
                Source::Operand { operand, element } => {
                    operands[operand as usize][element as usize]
                }
                Source::Value(_) => fill,
            }));
        }
        for run in &self.runs {
            let (start, count) = (run.start as usize, run.count as usize);
            match run.operand {
                Some(operand) => {
                    result.extend_from_slice(&operands[operand as usize][start..][..count]);
                }
                None => result.resize(result.len() + count, fill),
            }
        }
        Ok(result)
    }
}

/// Sources that stand side by side.
fn joined(sources: &[Source]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for source in sources {
        let (operand, start) = match *source {
            Source::Operand { operand, element } => (Some(operand), element),
            Source::Value(_) => (None, 0),
        };
        match runs.last_mut() {
            Some(run)
                if run.operand == operand
                    && (operand.is_none() || run.start.checked_add(run.count) == Some(start)) =>
            {
                run.count += 1;
            }
            _ => runs.push(Run { operand, start, count: 1 }),
        }
    }
    runs
}
