//! What a tile of a layer needs: positions of every temp and of the inputs of its product.

use crate::compile::hir::{Layer, MatMul, Op, Operand, Pair, Plane, Tap, TempId, Windows};
use std::ops::Range;
use std::sync::Arc;

/// Positions in order, with the place of each among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Positions {
    /// Positions in order.
    pub(crate) list: Vec<u32>,
    /// Place of every position, `u32::MAX` of those that are not there; empty when the list is an
    /// interval.
    places: Vec<u32>,
}

impl Positions {
    /// The marked positions.
    fn new(marks: &[bool]) -> Positions {
        let list: Vec<u32> =
            (0..marks.len() as u32).filter(|&position| marks[position as usize]).collect();
        let interval = match (list.first(), list.last()) {
            (Some(first), Some(last)) => (last - first) as usize + 1 == list.len(),
            _ => true,
        };
        let mut places = Vec::new();
        if !interval {
            places = vec![u32::MAX; marks.len()];
            for (place, &position) in list.iter().enumerate() {
                places[position as usize] = place as u32;
            }
        }
        Positions { list, places }
    }

    /// Number of positions.
    pub(crate) fn len(&self) -> u32 {
        self.list.len() as u32
    }

    /// Place of a position.
    pub(crate) fn place(&self, position: u32) -> Option<u32> {
        if self.places.is_empty() {
            let place = position.checked_sub(*self.list.first()?)?;
            return (place < self.len()).then_some(place);
        }
        self.places.get(position as usize).copied().filter(|&place| place != u32::MAX)
    }

    /// From the first position to behind the last.
    fn span(&self) -> Range<u32> {
        match (self.list.first(), self.list.last()) {
            (Some(&first), Some(&last)) => first..last + 1,
            _ => 0..0,
        }
    }
}

/// Input planes of a product that are read at the same positions, with the taps that do.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Planes.
    pub(crate) planes: Arc<[Plane]>,
    /// Taps.
    pub(crate) taps: Vec<usize>,
    /// Positions that the planes have.
    pub(crate) positions: u32,
}

/// The product of a layer; layers have at most one.
pub(crate) fn product(layer: &Layer) -> Option<&MatMul> {
    layer.ops.iter().find_map(|op| match op {
        Op::MatMul(product) => Some(product),
        _ => None,
    })
}

/// The sources of a product.
pub(crate) fn sources(product: &MatMul, positions: impl Fn(Plane) -> u32) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    for (index, tap) in product.taps.iter().enumerate() {
        match sources.iter_mut().find(|source| source.planes == tap.inputs) {
            Some(source) => source.taps.push(index),
            None => sources.push(Source {
                planes: tap.inputs.clone(),
                taps: vec![index],
                positions: tap.inputs.first().map_or(0, |&plane| positions(plane)),
            }),
        }
    }
    sources
}

/// What one tile needs.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// Positions of every temp.
    pub(crate) temps: Vec<Positions>,
    /// Positions of every source.
    pub(crate) sources: Vec<Positions>,
    /// Pairs of all taps: products of one plane with one block of output.
    pub(crate) pairs: Vec<u64>,
}

/// The pairs of a tap that lead to positions of a tile.
pub(crate) fn pairs_of<'a>(
    tap: &'a Tap,
    outputs: &'a Positions,
) -> impl Iterator<Item = (Pair, u32)> + 'a {
    let span = outputs.span();
    let first = tap.pairs.partition_point(|pair| pair.output < span.start);
    tap.pairs[first..]
        .iter()
        .take_while(move |pair| pair.output < span.end)
        .filter_map(|&pair| outputs.place(pair.output).map(|place| (pair, place)))
}

/// The temp that an operation writes.
pub(crate) fn output(op: &Op) -> Option<TempId> {
    match op {
        Op::MatMul(product) => Some(product.output),
        Op::Load { output, .. }
        | Op::Mix { output, .. }
        | Op::Binary { output, .. }
        | Op::Unary { output, .. }
        | Op::Norm { output, .. }
        | Op::Lookup { output, .. }
        | Op::Pool { output, .. }
        | Op::Interpolate { output, .. } => Some(*output),
        Op::Save { .. } => None,
    }
}

/// The temps that an operation reads.
pub(crate) fn inputs(op: &Op) -> impl Iterator<Item = TempId> {
    let (first, second) = match op {
        Op::MatMul(_) | Op::Load { .. } | Op::Mix { .. } => (None, None),
        Op::Binary { input, other: Operand::Temp(other), .. } => (Some(*input), Some(*other)),
        Op::Binary { input, .. }
        | Op::Unary { input, .. }
        | Op::Norm { input, .. }
        | Op::Lookup { input, .. }
        | Op::Pool { input, .. }
        | Op::Interpolate { input, .. }
        | Op::Save { input, .. } => (Some(*input), None),
    };
    first.into_iter().chain(second)
}

/// The temp that is saved last: tiles are intervals of its positions.
pub(crate) fn root(layer: &Layer) -> Option<TempId> {
    layer.ops.iter().rev().find_map(|op| match op {
        Op::Save { input, .. } => Some(*input),
        _ => None,
    })
}

/// Marks what an operation needs of its inputs for the marked positions of its output.
fn mark_inputs(op: &Op, marks: &mut [Vec<bool>]) {
    let Some(output) = output(op) else { return };
    let wanted = std::mem::take(&mut marks[output.0 as usize]);
    match op {
        Op::Pool { windows, input, .. } | Op::Interpolate { windows, input, .. } => {
            let marks = &mut marks[input.0 as usize];
            for position in (0..wanted.len()).filter(|&position| wanted[position]) {
                let sources = windows.of(position as u32).iter();
                for &source in sources.filter(|&&source| source != Windows::ZERO) {
                    marks[source as usize] = true;
                }
            }
        }
        _ => {
            for input in inputs(op) {
                for (mark, &wanted) in marks[input.0 as usize].iter_mut().zip(&wanted) {
                    *mark |= wanted;
                }
            }
        }
    }
    marks[output.0 as usize] = wanted;
}

/// What a tile needs that computes an interval of the root, and further positions of temps.
pub(crate) fn demand(
    layer: &Layer,
    sources: &[Source],
    tile: &Range<u32>,
    further: &[(TempId, Vec<u32>)],
) -> Demand {
    let mut marks: Vec<Vec<bool>> =
        layer.temps.iter().map(|&positions| vec![false; positions as usize]).collect();
    if let Some(root) = root(layer) {
        marks[root.0 as usize][tile.start as usize..tile.end as usize].fill(true);
    }
    for (temp, positions) in further {
        positions.iter().for_each(|&position| marks[temp.0 as usize][position as usize] = true);
    }
    layer.ops.iter().rev().for_each(|op| mark_inputs(op, &mut marks));
    let temps: Vec<Positions> = marks.iter().map(|marks| Positions::new(marks)).collect();
    let mut needs = Vec::new();
    let mut pairs = vec![0; sources.len()];
    if let Some(product) = product(layer) {
        let outputs = &temps[product.output.0 as usize];
        for (source, pairs) in sources.iter().zip(&mut pairs) {
            let mut marks = vec![false; source.positions as usize];
            for &tap in &source.taps {
                for (pair, _) in pairs_of(&product.taps[tap], outputs) {
                    marks[pair.input as usize] = true;
                    *pairs += 1;
                }
            }
            needs.push(Positions::new(&marks));
        }
    }
    Demand { temps, sources: needs, pairs }
}

/// Positions of saved temps that no tile of the root needs: the last tile computes them as well.
pub(crate) fn uncovered(layer: &Layer) -> Vec<(TempId, Vec<u32>)> {
    let Some(root) = root(layer) else { return Vec::new() };
    let saved = layer.ops.iter().filter_map(|op| match op {
        Op::Save { input, positions, .. } if *input != root => Some((*input, positions)),
        _ => None,
    });
    let whole = demand(layer, &[], &(0..layer.temps[root.0 as usize]), &[]);
    let missing = |temp: TempId, some: &Option<Arc<[u32]>>| {
        let places = &whole.temps[temp.0 as usize];
        let is_missing = |&position: &u32| places.place(position).is_none();
        match some {
            Some(some) => some.iter().copied().filter(is_missing).collect(),
            None => (0..layer.temps[temp.0 as usize]).filter(is_missing).collect(),
        }
    };
    let all = saved.map(|(temp, some)| (temp, missing(temp, some)));
    all.filter(|(_, positions): &(TempId, Vec<u32>)| !positions.is_empty()).collect()
}
