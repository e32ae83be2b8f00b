//! Layers that need more accumulators than there are, in finer steps: a pooling of more positions
//! than fit becomes a sum (or a maximum) of one position after the other, and one that follows other
//! operations gets a layer of its own first. The numbers are the same, operation by operation.

use super::hir::{
    Binary, Const, ConstId, Layer, Network, Op, Operand, Order, Plane, Pooling, TempId, Var, VarId,
    View, Windows,
};
use super::schedule::{inputs, output};
use std::sync::Arc;

/// Rewrites a layer in finer steps; false if there are none.
pub(crate) fn refine(network: &mut Network, index: usize, lanes: u32) -> bool {
    let layer = &network.layers[index];
    let gathers = |op: &Op| matches!(op, Op::Pool { .. } | Op::Interpolate { .. });
    let Some(mut at) = layer.ops.iter().rposition(gathers) else { return false };
    let source_of = |at: usize| inputs(&layer.ops[at]).next();
    // The steps of a mean follow each other; the first one needs most.
    while at > 0 && gathers(&layer.ops[at - 1]) && output(&layer.ops[at - 1]) == source_of(at) {
        at -= 1;
    }
    let Some(source) = source_of(at) else { return false };
    let load = layer.ops.iter().position(|op| output(op) == Some(source));
    let readers = layer.ops.iter().flat_map(inputs).filter(|&temp| temp == source).count();
    match load.map(|load| (load, &layer.ops[load])) {
        Some((load, Op::Load { from, .. })) if readers == 1 => {
            let from = from.clone();
            expand(network, index, load, at, &from);
            true
        }
        _ => divide(network, index, at, source, lanes),
    }
}

/// Gives an operation and those behind it a layer of their own, which loads its operand.
fn divide(network: &mut Network, index: usize, at: usize, source: TempId, lanes: u32) -> bool {
    let layer = &network.layers[index];
    let before: Vec<TempId> = layer.ops[..at].iter().filter_map(output).collect();
    let mut first = Layer { ops: layer.ops[..at].to_vec(), row: 1, ..layer.clone() };
    let mut second = Layer {
        name: format!("{}, second part", layer.name),
        nodes: Vec::new(),
        macs: 0,
        ops: Vec::new(),
        ..layer.clone()
    };
    for op in &layer.ops[at..] {
        match op {
            Op::Save { input, .. } if before.contains(input) => first.ops.push(op.clone()),
            _ if inputs(op).any(|temp| temp != source && before.contains(&temp)) => return false,
            _ => second.ops.push(op.clone()),
        }
    }
    let saved = first.ops.iter().find_map(|op| match op {
        Op::Save { input, to, positions: None } if *input == source => Some(to.clone()),
        _ => None,
    });
    let planes = saved.unwrap_or_else(|| {
        let (positions, blocks) = (layer.temps[source.0 as usize], layer.channels.div_ceil(lanes));
        let var = VarId(network.vars.len() as u32);
        let name = format!("part of {}", layer.name);
        network.vars.push(Var { name, positions, blocks, order: Order::Planar });
        let planes: Arc<[Plane]> = (0..blocks).map(|block| Plane { var, block }).collect();
        first.ops.push(Op::Save { input: source, to: planes.clone(), positions: None });
        planes
    });
    let from = View { planes, map: None, zero_padding: false };
    second.ops.insert(0, Op::Load { from, output: source });
    network.layers[index] = first;
    network.layers.insert(index + 1, second);
    let later = network.observed.iter_mut().filter(|observed| observed.layer as usize >= index);
    later.for_each(|observed| observed.layer += 1);
    true
}

/// A layer whose operations are replaced.
struct Expansion<'a> {
    temps: Vec<u32>,
    consts: &'a mut Vec<Const>,
    channels: u32,
    name: String,
    ops: Vec<Op>,
}

impl Expansion<'_> {
    fn temp(&mut self, positions: u32) -> TempId {
        self.temps.push(positions);
        TempId(self.temps.len() as u32 - 1)
    }

    fn load(&mut self, from: View, positions: u32) -> TempId {
        let output = self.temp(positions);
        self.ops.push(Op::Load { from, output });
        output
    }

    fn binary(&mut self, op: Binary, input: TempId, other: Operand) -> TempId {
        let output = self.temp(self.temps[input.0 as usize]);
        self.ops.push(Op::Binary { op, input, other, output });
        output
    }

    /// A factor for every position, in all channels.
    fn factors(&mut self, factors: &[i32]) -> Operand {
        let same = factors.iter().all(|&factor| factor == factors[0]);
        let rows = if same { &factors[..1] } else { factors };
        let data = rows.iter().flat_map(|&f| std::iter::repeat_n(f, self.channels as usize));
        let (name, rows) = (format!("factors of {}", self.name), rows.len() as u32);
        let data = data.collect();
        self.consts.push(Const { name, rows, channels: self.channels, data });
        Operand::Const(ConstId(self.consts.len() as u32 - 1))
    }
}

/// Replaces an operation on positions that are loaded by operations on one position after the other.
fn expand(network: &mut Network, index: usize, load: usize, at: usize, from: &View) {
    let Network { layers, consts, .. } = network;
    let layer = &mut layers[index];
    let ops = std::mem::take(&mut layer.ops);
    let (temps, name) = (std::mem::take(&mut layer.temps), layer.name.clone());
    let mut new = Expansion { temps, consts, channels: layer.channels, name, ops: Vec::new() };
    for (number, op) in ops.into_iter().enumerate() {
        match op {
            _ if number == load => {}
            Op::Pool { kind, windows, output, .. } if number == at => {
                let result = pool(&mut new, from, &kind, &windows);
                rename(&mut new.ops, result, output);
            }
            Op::Interpolate { windows, weights, output, .. } if number == at => {
                let result = interpolate(&mut new, from, &windows, &weights);
                rename(&mut new.ops, result, output);
            }
            op => new.ops.push(op),
        }
    }
    let Expansion { temps, ops, .. } = new;
    (layer.temps, layer.ops) = (temps, ops);
}

/// Lets the operation that has been added last write another temp.
fn rename(ops: &mut [Op], from: TempId, to: TempId) {
    let Some(Op::Load { output, .. } | Op::Binary { output, .. }) = ops.last_mut() else {
        unreachable!("finer steps end with a load or a binary operation");
    };
    debug_assert_eq!(*output, from);
    *output = to;
}

/// A view of one position of the operand for every position of the result.
fn view(from: &View, places: impl Iterator<Item = Option<u32>>) -> View {
    let through = |place: Option<u32>| match &from.map {
        Some(map) => map[place? as usize],
        None => place,
    };
    View { map: Some(places.map(through).collect()), ..from.clone() }
}

fn pool(new: &mut Expansion<'_>, from: &View, kind: &Pooling, windows: &Windows) -> TempId {
    let outputs = windows.len() as u32;
    let longest = (0..outputs).map(|at| windows.of(at).len()).max().unwrap_or(0);
    let place = |at: u32, number: usize| {
        let window = windows.of(at);
        // The largest does not change when one of them is taken twice.
        let other = window.first().filter(|_| *kind == Pooling::Max);
        window.get(number).or(other).copied()
    };
    let nth = |number| view(from, (0..outputs).map(|at| place(at, number)));
    let op = if *kind == Pooling::Max { Binary::Max } else { Binary::Add };
    let mut result = new.load(nth(0), outputs);
    for number in 1..longest {
        result = new.binary(op, result, Operand::Vars(nth(number)));
    }
    match kind {
        Pooling::Max => result,
        Pooling::Average { multipliers } => {
            let factors = new.factors(multipliers);
            new.binary(Binary::Mul, result, factors)
        }
    }
}

fn interpolate(new: &mut Expansion<'_>, from: &View, windows: &Windows, weights: &[i32]) -> TempId {
    let outputs = windows.len() as u32;
    // Positions without weight are left out.
    let entries = |at: u32| -> Vec<(u32, i32)> {
        let first = windows.starts[at as usize] as usize;
        let weighted = windows.of(at).iter().copied().zip(weights[first..].iter().copied());
        weighted.filter(|&(_, weight)| weight != 0).collect()
    };
    let entries: Vec<Vec<(u32, i32)>> = (0..outputs).map(entries).collect();
    let longest = entries.iter().map(Vec::len).max().unwrap_or(0);
    let mut sum: Option<TempId> = None;
    for number in 0..longest.max(1) {
        let nth = || entries.iter().map(|entries| entries.get(number));
        let part = new.load(view(from, nth().map(|entry| entry.map(|e| e.0))), outputs);
        let factors: Vec<i32> = nth().map(|entry| entry.map_or(0, |e| e.1)).collect();
        let factors = new.factors(&factors);
        let part = new.binary(Binary::Mul, part, factors);
        sum = Some(match sum {
            Some(sum) => new.binary(Binary::Add, sum, Operand::Temp(part)),
            None => part,
        });
    }
    sum.expect("there is at least one part")
}
