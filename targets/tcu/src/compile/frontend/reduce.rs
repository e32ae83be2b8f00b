//! Reductions over channels.
//!
//! Lanes hold channels, so that a sum takes a product with a column of ones. A mean takes one with a
//! column of reciprocals, which stays within the range where a sum would not, and then a factor that
//! makes up for the rounding of the reciprocals. A largest channel is found as for a softmax.

use super::Frontend;
use super::chain::Open;
use super::channels::{Move, is_channels, lanes_used, moves};
use super::dims::Dims;
use crate::arch::TcuArch;
use crate::compile::hir::{Binary, Op as Hir, Operand, TempId};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, Node, Reduce, ReduceKind};

/// True for a reduction of the channels and nothing else.
pub(super) fn reduces_channels(graph: &Graph, reduce: &Reduce, node: &Node) -> bool {
    let known = matches!(reduce.kind, ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Max);
    let shape = node.input(0).map(|x| &graph[x].shape);
    known
        && shape.is_some_and(|shape| matches!(reduce.axes[..], [axis] if is_channels(axis, shape)))
}

/// Weights and factor of a mean over so many channels.
fn mean_of(arch: &TcuArch, channels: usize) -> [i32; 2] {
    let share = 1.0 / channels as f64;
    let weight = arch.data_type.encode(share);
    [weight, arch.data_type.encode(share / arch.data_type.decode(weight))]
}

/// Why the machine does not take a reduction of channels.
pub(super) fn refuse_reduction(
    graph: &Graph,
    arch: &TcuArch,
    kind: ReduceKind,
    node: &Node,
) -> Option<String> {
    let x = Dims::of_value(graph, node.input(0)?);
    let (one, out) = (Dims { c: 1, ..x }, Dims::of_value(graph, node.output));
    if kind == ReduceKind::Mean && mean_of(arch, x.c)[0] == 0 {
        let (name, channels) = (arch.data_type.name(), x.c);
        return Some(format!("{name} has no number near the reciprocal of {channels} channels"));
    }
    let moved = one.same_table(out) || moves(one, out, Some).is_some();
    (!moved).then(|| "moving its result to channels takes matrices that are too large".to_owned())
}

impl Frontend<'_> {
    /// Begins a layer that reduces channels. Without a result the node is complete.
    pub(super) fn reduce_channels(
        &mut self,
        kind: ReduceKind,
        node: &Node,
    ) -> Result<Option<(Open, TempId)>> {
        let x = node.input(0).ok_or_else(|| Diagnostic::bug("an operand is absent"))?;
        let (held, dims) = (self.held(x)?, Dims::of_value(self.graph, node.output));
        let one = Dims { c: 1, ..held.dims };
        let is_in_place = one.same_table(dims);
        let mut reduced = if kind == ReduceKind::Max {
            self.largest_channel(&node.name, &held)?
        } else {
            let (open, sum) = self.sum_channels(kind, node)?;
            if is_in_place {
                return Ok(Some((open, sum)));
            }
            self.keep(open, sum, one)
        };
        reduced.dims = one;
        if !is_in_place {
            return self.reshape(&node.name, &reduced, dims).map(Some);
        }
        reduced.dims = dims;
        self.hold_view(node.output, reduced)?;
        Ok(None)
    }

    /// Begins a layer with the sum or mean of the channels of every position.
    fn sum_channels(&mut self, kind: ReduceKind, node: &Node) -> Result<(Open, TempId)> {
        let x = node.input(0).ok_or_else(|| Diagnostic::bug("an operand is absent"))?;
        let (held, name) = (self.held(x)?, &node.name);
        let one = self.arch.data_type.encode(1.0);
        let [weight, factor] = match kind {
            ReduceKind::Mean => mean_of(self.arch, held.dims.c),
            _ => [one, one],
        };
        let part = Move::of(&held, (0..held.dims.c).map(|from| (from, 0)).collect());
        let mut open = Open::new(name.clone(), Dims { c: 1, ..held.dims });
        let used = lanes_used(&held, self.lanes);
        let mut sum = self.weigh_lanes(&mut open, name, &held.planes, used, vec![part], weight)?;
        if factor != one {
            let row = self.add_const(&format!("factor of {name}"), [1, 1], vec![factor], [])?;
            let (output, other) = (open.temp(open.dims), Operand::Const(row));
            open.push(Hir::Binary { op: Binary::Mul, input: sum, other, output });
            sum = output;
        }
        Ok((open, sum))
    }
}
