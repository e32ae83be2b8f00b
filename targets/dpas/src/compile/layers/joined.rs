//! Products of two values: attention.

use super::tail::{Factor, Tail};
use super::{Form, Numbers, Operation, Reason, View, Walk};
use crate::compile::axes::{Axes, Spot, Step};
use quincunx_graph::{Node, NodeId, Op};

/// Products of two values, a matrix product for every one of a batch.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Joined {
    /// Where the matrices of each begin: in the first operand, the second one and the result.
    pub(in super::super) starts: Vec<[Spot; 3]>,
    /// Rows of the first operand and the result.
    pub(in super::super) rows: usize,
    /// Columns of the first operand, rows of the second one.
    pub(in super::super) depth: usize,
    /// Columns of the second operand and the result.
    pub(in super::super) columns: usize,
    /// Pixels of the second operand are its columns; otherwise its rows.
    pub(in super::super) is_across: bool,
    /// A factor of the sums.
    pub(in super::super) factor: f32,
}

/// Most products of codes of 8 bits and their zeros, of which there are four kinds, in 32 bits.
const DEEPEST: usize = i32::MAX as usize / (4 * 255 * 255);

impl Walk<'_> {
    /// Products of two values.
    pub(super) fn joined(&mut self, id: NodeId, node: &Node) -> Reason<()> {
        let forms = [self.operand(node, 0)?, self.operand(node, 1)?];
        for form in &forms {
            self.check_operand(form)?;
        }
        let (size, platform) = (forms[0].numbers.size(), self.network.platform);
        let shapes = [0, 1].map(|at| node.input(at).map(|id| &self.graph[id].shape[..]));
        let [Some(a @ [a_batch @ .., rows, depth]), Some(b @ [b_batch @ .., _, columns])] = shapes
        else {
            return Err("one of its operands is a vector".to_owned());
        };
        // Every matrix of the batch has a place of its own.
        let most = i32::MAX as usize / size;
        let elements =
            |shape: &[usize]| shape.iter().fold(1, |all: usize, &one| all.saturating_mul(one));
        if [a, b, &self.graph[node.output].shape].into_iter().any(|shape| elements(shape) > most) {
            return Err("a value has more than 2 GiB".to_owned());
        }
        let axes = |at: usize, shape: &[usize]| {
            forms[at].axes(shape).ok_or("one of its operands is an image")
        };
        let [a_axes, b_axes] = [axes(0, a)?, axes(1, b)?];
        let [down, along] = [Step::Positions(1), Step::Channels(1)];
        let is = |axes: &Axes, shape: &[usize], steps: [Step; 2]| {
            let first = shape.len() - 2;
            (0..2).all(|at| axes.is(first + at, shape[first + at], steps[at]))
        };
        let is_down = is(&b_axes, b, [down, along]);
        let is_across = !is_down && is(&b_axes, b, [along, down]);
        if !is(&a_axes, a, [down, along]) || !(is_across || is_down) {
            return Err("its rows or columns are not next to each other in memory".to_owned());
        }
        // Turns of the sums: what lies behind rows of a part of the channels belongs to others.
        let is_whole = forms[0].extents[2] == *depth;
        if (is_across || !is_whole) && !(depth * size).is_multiple_of(32) {
            return Err("its sums are no multiple of 32 bytes of an operand long".to_owned());
        }
        let lanes = platform.lanes() as usize;
        if !is_across && forms[1].extents[2] != *columns && !columns.is_multiple_of(lanes) {
            return Err(format!("its heads are no multiple of {lanes} columns wide"));
        }
        if self.is_int8() && *depth > DEEPEST {
            return Err("its sums can leave 32 bits".to_owned());
        }
        let tail = self.tail(id);
        if self.numbers_of(&tail) == Numbers::Sums {
            return Err("nothing quantises its result".to_owned());
        }
        let shape = &self.graph[tail.output].shape;
        let (result, c_axes) = self.joined_form(&tail)?;
        let starts = batches(&shape[..shape.len() - 2]).map(|index| {
            let spot = |axes: &Axes, extents: &[usize]| {
                let skipped = index.len() - extents.len();
                let own = index[skipped..].iter().zip(extents);
                axes.spot(own.map(|(&at, &extent)| if extent == 1 { 0 } else { at }))
            };
            [spot(&a_axes, a_batch), spot(&b_axes, b_batch), c_axes.spot(index.iter().copied())]
        });
        let starts: Vec<[Spot; 3]> = starts.collect();
        // Messages begin there.
        if starts.iter().flatten().any(|spot| !(spot.channel * size).is_multiple_of(8)) {
            return Err("a part of its operands begins between multiples of 8 bytes".to_owned());
        }
        let (rows, depth, columns, factor) =
            (*rows, *depth, *columns, tail.factor.map_or(1.0, Factor::real));
        let joined = Joined { starts, rows, depth, columns, is_across, factor };
        self.push(tail, Operation::Joined(joined), node, result, None)
    }

    /// The form of the result of products of two values, and its axes: heads lie beside each other in
    /// memory if those who read it put them there.
    fn joined_form(&self, tail: &Tail) -> Reason<(Form, Axes)> {
        let (shape, numbers) = (&self.graph[tail.output].shape[..], self.numbers_of(tail));
        let form = Form::of(shape, numbers, View::Last)?;
        let readers = &self.consumers[tail.output.index()];
        let swaps = |&reader: &NodeId| matches!(&self.graph[reader].op, Op::Transpose { order } if swaps_rows(order));
        let is_read = !readers.is_empty() && !self.graph.outputs().contains(&tail.output);
        if let [outer @ .., heads, rows, columns] = shape
            && is_read
            && readers.iter().all(swaps)
            && columns.is_multiple_of(self.network.platform.lanes() as usize)
            && let Some(axes) = Axes::heads_inside(shape)
        {
            let extents = [1, outer.iter().product::<usize>() * rows, heads * columns];
            return Ok((Form { extents, view: View::Steps(axes), ..form }, axes));
        }
        let axes = Axes::channels_last(shape).ok_or("its result has too many axes")?;
        Ok((form, axes))
    }
}

/// The last two axes but one change places.
fn swaps_rows(order: &[usize]) -> bool {
    let Some(heads) = order.len().checked_sub(3) else { return false };
    let moved = (0..order.len()).map(|axis| match axis {
        _ if axis == heads => heads + 1,
        _ if axis == heads + 1 => heads,
        _ => axis,
    });
    moved.eq(order.iter().copied())
}

/// The indices of a batch, in order.
fn batches(extents: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    let index = move |at: usize| {
        let mut rest = at;
        let mut index: Vec<usize> = extents
            .iter()
            .rev()
            .map(|&extent| {
                let own = rest % extent;
                rest /= extent;
                own
            })
            .collect();
        index.reverse();
        index
    };
    (0..extents.iter().product()).map(index)
}
