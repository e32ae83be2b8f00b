//! Tensors that need not exist as a whole: the layer that computes one and the next, which reads it,
//! can be computed together, tile by tile and some blocks of channels at a time.
//!
//! That needs a product with one tap which reads every position for itself, as a 1 x 1 convolution
//! does. It adds up its blocks of input channels in the same order either way, so that no number
//! changes.

use super::hir::{Layer, Network, Op, Operand, Plane, VarId};
use super::memory::{Life, planes};
use super::schedule::{product, root};

/// A tensor that can pass from a layer to the next tile by tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// The layer that computes it; the next one reads it.
    pub(crate) layer: usize,
    pub(crate) var: VarId,
}

/// All such tensors.
pub(crate) fn links(network: &Network, lives: &[Life]) -> Vec<Link> {
    let link = |(layer, pair): (usize, &[Layer])| {
        let [first, second] = pair else { return None };
        let var = passing(first, second)?;
        // Nobody else reads or writes it.
        let life = lives[var.0 as usize];
        (!life.host && (life.first, life.last) == (layer, layer + 1)).then_some(Link { layer, var })
    };
    network.layers.windows(2).enumerate().filter_map(link).collect()
}

/// The tensor that the second layer may read tile by tile.
fn passing(first: &Layer, second: &Layer) -> Option<VarId> {
    let product = product(second)?;
    let [tap] = &product.taps[..] else { return None };
    let var = tap.inputs.first()?.var;
    let saves = |op: &Op, var: VarId| match op {
        Op::Save { to, .. } => to.iter().any(|plane| plane.var == var),
        _ => false,
    };
    let saved = first.ops.iter().find_map(|op| match op {
        Op::Save { input, to, positions: None } if *to == tap.inputs => Some(*input),
        _ => None,
    })?;
    let positions = second.temps[product.output.0 as usize];
    let same = tap.pairs.len() == positions as usize
        && (0..).zip(tap.pairs.iter()).all(|(at, pair)| (pair.input, pair.output) == (at, at))
        && first.temps[saved.0 as usize] == positions
        && first.temps[root(first)?.0 as usize] == positions
        && second.temps[root(second)?.0 as usize] == positions
        && first.row == second.row;
    let one_var = tap.inputs.iter().all(|plane| plane.var == var)
        && first.ops.iter().filter(|op| saves(op, var)).count() == 1;
    // Tables would be loaded again and again.
    let looks_up = |layer: &Layer| layer.ops.iter().any(|op| matches!(op, Op::Lookup { .. }));
    // What the second layer reads otherwise must be there as a whole.
    let others = second.ops.iter().filter(|op| !matches!(op, Op::MatMul(_) | Op::Save { .. }));
    let mut others = others.flat_map(planes).map(|plane| plane.var);
    let is_made = |var: VarId| first.ops.iter().any(|op| saves(op, var));
    (same && one_var && !looks_up(first) && !looks_up(second) && !others.any(is_made))
        .then_some(var)
}

/// A tensor that can take the place of another one, which is read for the last time where it is
/// written: position by position, block by block, before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heir {
    pub(crate) before: VarId,
    pub(crate) after: VarId,
    /// The layer that reads the one and writes the other.
    pub(crate) layer: usize,
}

/// All such tensors: operands of sums and the sums.
pub(crate) fn heirs(network: &Network, lives: &[Life]) -> Vec<Heir> {
    // A tensor with all its planes in order.
    let whole = |planes: &[Plane]| {
        let var = planes.first()?.var;
        let blocks = network.vars[var.0 as usize].blocks;
        planes.iter().copied().eq((0..blocks).map(|block| Plane { var, block })).then_some(var)
    };
    let once = |layer: &Layer, var: VarId| {
        layer.ops.iter().filter(|op| planes(op).iter().any(|p| p.var == var)).count() == 1
    };
    let mut heirs = Vec::new();
    for (index, layer) in network.layers.iter().enumerate() {
        // Windows could read what another tile has written.
        if layer.ops.iter().any(|op| matches!(op, Op::Pool { .. } | Op::Interpolate { .. })) {
            continue;
        }
        let mut read = None;
        for op in &layer.ops {
            match op {
                Op::Binary { other: Operand::Vars(view), .. } if view.map.is_none() => {
                    read = whole(&view.planes).filter(|&var| once(layer, var)).or(read);
                }
                Op::Save { to, positions: None, .. } => {
                    let (Some(before), Some(after)) = (read, whole(to)) else { continue };
                    let [from, into] = [before, after].map(|var| &network.vars[var.0 as usize]);
                    let [last, next] = [before, after].map(|var| lives[var.0 as usize]);
                    if (from.positions, from.blocks) == (into.positions, into.blocks)
                        && !last.host
                        && !next.host
                        && (last.last, next.first) == (index, index)
                        && once(layer, after)
                    {
                        heirs.push(Heir { before, after, layer: index });
                    }
                }
                _ => {}
            }
        }
    }
    heirs
}

#[cfg(test)]
mod tests;
