//! Positions that nobody reads are neither computed nor saved.
//!
//! Products with strides may read every other position of a tensor only. What such readers leave
//! out is taken out of the tensor, and what the layer before it computes for nothing is left out
//! there, so that this goes on towards the inputs. No number that is left changes.

use super::hir::{Layer, MatMul, Network, Op, Operand, Pair, Plane, Pooling, View, Windows};
use std::sync::Arc;

/// Takes the positions that nobody reads out of all tensors but inputs and outputs. Values that
/// lose positions can no longer be observed.
pub(crate) fn shrink(network: &mut Network) {
    let sets = Sets::new(network);
    let mut needs = Needs::new(network, sets);
    // Tensors that are read side by side have the same positions, so that a reader may ask for more
    // of a tensor than the readers behind its writer do.
    needs.settle(network);
    // What nobody reads at all is none of this pass, but it has to be computed.
    if needs.keep_unread() {
        needs.settle(network);
    }
    let renumbered = needs.renumbered();
    if renumbered.iter().all(Option::is_none) {
        return;
    }
    let mut layers = std::mem::take(&mut network.layers);
    for layer in &mut layers {
        let temps = needs.temps(layer);
        Shrinking { network, needs: &needs, renumbered: &renumbered }.layer(layer, &temps);
    }
    network.layers = layers;
    let lost = |plane: &Plane| renumbered[needs.sets.of(plane.var.0)].is_some();
    network.observed.retain(|observed| !observed.planes.iter().any(lost));
    for (index, var) in network.vars.iter_mut().enumerate() {
        let set = needs.sets.of(index as u32);
        if renumbered[set].is_some() {
            var.positions = needs.read[set].iter().filter(|&&read| read).count() as u32;
        }
    }
}

/// Disjoint sets of numbers, each known by one of its members.
struct Sets(Vec<u32>);

impl Sets {
    fn single(count: usize) -> Sets {
        Sets((0..count as u32).collect())
    }

    /// Sets of tensors whose planes are read or written side by side.
    fn new(network: &Network) -> Sets {
        let mut sets = Sets::single(network.vars.len());
        for op in network.layers.iter().flat_map(|layer| &layer.ops) {
            let mut join = |planes: &[Plane]| {
                planes.windows(2).for_each(|pair| sets.join(pair[0].var.0, pair[1].var.0));
            };
            match op {
                Op::MatMul(product) => product.taps.iter().for_each(|tap| join(&tap.inputs)),
                Op::Load { from, .. }
                | Op::Mix { from, .. }
                | Op::Binary { other: Operand::Vars(from), .. } => join(&from.planes),
                Op::Save { to, .. } => join(to),
                _ => {}
            }
        }
        sets
    }

    /// Sets of temps of a layer that have the same positions.
    fn of_temps(layer: &Layer) -> Sets {
        let mut sets = Sets::single(layer.temps.len());
        for op in &layer.ops {
            match op {
                Op::Binary { input, other, output, .. } => {
                    sets.join(input.0, output.0);
                    if let Operand::Temp(other) = other {
                        sets.join(other.0, output.0);
                    }
                }
                Op::Unary { input, output, .. }
                | Op::Norm { input, output, .. }
                | Op::Lookup { input, output, .. } => {
                    sets.join(input.0, output.0);
                }
                _ => {}
            }
        }
        sets
    }

    fn of(&self, member: u32) -> usize {
        let mut member = member;
        while self.0[member as usize] != member {
            member = self.0[member as usize];
        }
        member as usize
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a.max(b)] = a.min(b) as u32;
    }
}

/// Which positions are read.
struct Needs {
    sets: Sets,
    /// Of every set of tensors, by its member.
    read: Vec<Vec<bool>>,
}

/// The positions of the temps of a layer that are needed, by set.
struct Temps {
    sets: Sets,
    needed: Vec<Vec<bool>>,
}

impl Temps {
    fn of(&self, temp: u32) -> &[bool] {
        &self.needed[self.sets.of(temp)]
    }

    /// Where the positions of a temp are among those that are left.
    fn places(&self, temp: u32) -> Places {
        Places::new(self.of(temp))
    }
}

/// The places of the marked positions among them; `None` when all are marked.
struct Places(Option<Vec<Option<u32>>>);

impl Places {
    fn new(marks: &[bool]) -> Places {
        if marks.iter().all(|&mark| mark) {
            return Places(None);
        }
        let mut next = 0;
        let place = |&mark: &bool| {
            next += u32::from(mark);
            mark.then(|| next - 1)
        };
        Places(Some(marks.iter().map(place).collect()))
    }

    fn of(&self, position: u32) -> Option<u32> {
        match &self.0 {
            None => Some(position),
            Some(places) => places[position as usize],
        }
    }

    fn all(&self) -> bool {
        self.0.is_none()
    }
}

impl Needs {
    fn new(network: &Network, sets: Sets) -> Needs {
        let mut read: Vec<Vec<bool>> =
            network.vars.iter().map(|var| vec![false; var.positions as usize]).collect();
        for binding in network.inputs.iter().chain(&network.outputs) {
            read[sets.of(binding.var.0)].fill(true);
        }
        // Planes side by side have the same positions; where a network does not keep to that,
        // nothing is taken out.
        for (index, var) in network.vars.iter().enumerate() {
            let set = sets.of(index as u32);
            if network.vars[set].positions != var.positions {
                read[set].fill(true);
            }
        }
        Needs { sets, read }
    }

    /// What a layer needs of its temps. A temp that nobody needs stays as it is.
    fn temps(&self, layer: &Layer) -> Temps {
        let sets = Sets::of_temps(layer);
        let mut needed: Vec<Vec<bool>> =
            layer.temps.iter().map(|&positions| vec![false; positions as usize]).collect();
        for op in &layer.ops {
            if let Op::Save { input, to, .. } = op {
                let read =
                    to.first().map_or(&[][..], |plane| &self.read[self.sets.of(plane.var.0)]);
                let marks = &mut needed[sets.of(input.0)];
                marks.iter_mut().zip(read).for_each(|(mark, &read)| *mark |= read);
            }
        }
        for op in &layer.ops {
            // Its positions are numbered by row, and stay.
            if let Op::Mix { output, .. } = op {
                needed[sets.of(output.0)].fill(true);
            }
        }
        while layer.ops.iter().rev().fold(false, |grown, op| grown | back(op, &sets, &mut needed)) {
        }
        for marks in needed.iter_mut().filter(|marks| !marks.contains(&true)) {
            marks.fill(true);
        }
        Temps { sets, needed }
    }

    /// Notes what all layers read, until nothing is new.
    fn settle(&mut self, network: &Network) {
        while network.layers.iter().rev().fold(false, |grown, layer| self.layer(layer) | grown) {}
    }

    /// Takes tensors that nobody reads as read; true when there are some.
    fn keep_unread(&mut self) -> bool {
        let mut any = false;
        for read in self.read.iter_mut().filter(|read| !read.contains(&true)) {
            any |= !read.is_empty();
            read.fill(true);
        }
        any
    }

    /// Notes what a layer reads; true when that is new.
    fn layer(&mut self, layer: &Layer) -> bool {
        let temps = self.temps(layer);
        let mut grown = false;
        for op in &layer.ops {
            match op {
                Op::MatMul(product) => {
                    let needed = temps.of(product.output.0);
                    for tap in &product.taps {
                        let Some(plane) = tap.inputs.first() else { continue };
                        let read = &mut self.read[self.sets.of(plane.var.0)];
                        for pair in tap.pairs.iter().filter(|p| needed[p.output as usize]) {
                            grown |= !std::mem::replace(&mut read[pair.input as usize], true);
                        }
                    }
                }
                Op::Load { from, output } => grown |= self.view(from, temps.of(output.0)),
                Op::Mix { from, .. } => grown |= self.view(from, &all_of(from)),
                Op::Binary { other: Operand::Vars(from), output, .. } => {
                    grown |= self.view(from, temps.of(output.0));
                }
                _ => {}
            }
        }
        grown
    }

    fn view(&mut self, view: &View, needed: &[bool]) -> bool {
        let Some(plane) = view.planes.first() else { return false };
        let read = &mut self.read[self.sets.of(plane.var.0)];
        let mut grown = false;
        for position in (0..needed.len()).filter(|&position| needed[position]) {
            let from = view.map.as_ref().map_or(Some(position as u32), |map| map[position]);
            if let Some(from) = from {
                grown |= !std::mem::replace(&mut read[from as usize], true);
            }
        }
        grown
    }

    /// The new positions of tensors that lose some, by set.
    fn renumbered(&self) -> Vec<Option<Places>> {
        let places = |read: &Vec<bool>| Some(Places::new(read)).filter(|places| !places.all());
        self.read.iter().map(places).collect()
    }
}

/// Marks what the windows of an operation read; true when that is new.
fn back(op: &Op, sets: &Sets, needed: &mut [Vec<bool>]) -> bool {
    let (Op::Pool { windows, input, output, .. } | Op::Interpolate { windows, input, output, .. }) =
        op
    else {
        return false;
    };
    let wanted = std::mem::take(&mut needed[sets.of(output.0)]);
    let marks = &mut needed[sets.of(input.0)];
    let mut grown = false;
    for position in (0..wanted.len()).filter(|&position| wanted[position]) {
        for &source in windows.of(position as u32).iter().filter(|&&at| at != Windows::ZERO) {
            grown |= !std::mem::replace(&mut marks[source as usize], true);
        }
    }
    needed[sets.of(output.0)] = wanted;
    grown
}

/// Layers on their way to fewer positions.
struct Shrinking<'a> {
    network: &'a mut Network,
    needs: &'a Needs,
    renumbered: &'a [Option<Places>],
}

impl Shrinking<'_> {
    fn layer(&mut self, layer: &mut Layer, temps: &Temps) {
        let pairs_of = |layer: &Layer| -> u64 {
            let products = layer.ops.iter().filter_map(|op| match op {
                Op::MatMul(product) => Some(product),
                _ => None,
            });
            let taps = products.flat_map(|product| &product.taps);
            taps.map(|tap| tap.pairs.len() as u64 * tap.inputs.len() as u64).sum()
        };
        let before = pairs_of(layer);
        for op in &mut layer.ops {
            self.op(op, temps);
        }
        let after = pairs_of(layer);
        if before > after {
            layer.macs = (u128::from(layer.macs) * u128::from(after) / u128::from(before)) as u64;
        }
        let saved = layer.ops.iter().rev().find_map(|op| match op {
            Op::Save { input, .. } => Some(input.0),
            _ => None,
        });
        if let Some(saved) = saved {
            layer.row = row(layer.row, temps.of(saved));
        }
        for (temp, positions) in layer.temps.iter_mut().enumerate() {
            *positions = temps.of(temp as u32).iter().filter(|&&needed| needed).count() as u32;
        }
    }

    fn op(&mut self, op: &mut Op, temps: &Temps) {
        match op {
            Op::MatMul(product) => self.product(product, &temps.places(product.output.0)),
            Op::Load { from, output } => self.view(from, temps.of(output.0)),
            Op::Mix { from, .. } => {
                let all = all_of(from);
                self.view(from, &all);
            }
            Op::Binary { other, output, .. } => match other {
                Operand::Vars(view) => self.view(view, temps.of(output.0)),
                Operand::Const(id) => {
                    let needed = temps.of(output.0);
                    let constant = &self.network.consts[id.0 as usize];
                    if constant.rows > 1 && needed.contains(&false) {
                        let channels = constant.channels as usize;
                        let rows = constant.data.chunks(channels.max(1)).zip(needed);
                        let rows = rows.filter(|&(_, &needed)| needed);
                        let data: Arc<[i32]> = rows.flat_map(|(row, _)| row).copied().collect();
                        let rows = needed.iter().filter(|&&needed| needed).count() as u32;
                        let constant = super::hir::Const { rows, data, ..constant.clone() };
                        id.0 = self.network.consts.len() as u32;
                        self.network.consts.push(constant);
                    }
                }
                Operand::Temp(_) => {}
            },
            Op::Pool { kind, windows, input, output } => {
                let needed = temps.of(output.0);
                if let Pooling::Average { multipliers } = kind
                    && multipliers.len() > 1
                {
                    let each = multipliers.iter().zip(needed).filter(|&(_, &needed)| needed);
                    *multipliers = each.map(|(&multiplier, _)| multiplier).collect();
                }
                *windows = left(windows, needed, &temps.places(input.0));
            }
            Op::Interpolate { windows, weights, input, output } => {
                let needed = temps.of(output.0);
                let entries = windows.starts.windows(2).zip(needed);
                let entries = entries.filter(|&(_, &needed)| needed);
                let entries = entries.flat_map(|(ends, _)| ends[0]..ends[1]);
                *weights = entries.map(|entry| weights[entry as usize]).collect();
                *windows = left(windows, needed, &temps.places(input.0));
            }
            Op::Save { input, to, positions } => {
                let Some(plane) = to.first() else { return };
                let set = self.needs.sets.of(plane.var.0);
                let read = match self.renumbered[set] {
                    Some(_) => &self.needs.read[set],
                    None => return,
                };
                let needed = temps.of(input.0);
                let left = (0..needed.len()).filter(|&position| needed[position]);
                let saved: Vec<bool> = left.map(|position| read[position]).collect();
                let all = (0..saved.len() as u32).filter(|&place| saved[place as usize]);
                *positions = saved.contains(&false).then(|| all.collect());
            }
            Op::Unary { .. } | Op::Norm { .. } | Op::Lookup { .. } => {}
        }
    }

    fn product(&self, product: &mut MatMul, outputs: &Places) {
        for tap in &mut product.taps {
            let Some(plane) = tap.inputs.first() else { continue };
            let inputs = self.renumbered[self.needs.sets.of(plane.var.0)].as_ref();
            if inputs.is_none() && outputs.all() {
                continue;
            }
            let pair = |pair: &Pair| {
                let input = inputs.map_or(Some(pair.input), |inputs| inputs.of(pair.input))?;
                Some(Pair { input, output: outputs.of(pair.output)? })
            };
            tap.pairs = tap.pairs.iter().filter_map(pair).collect();
        }
    }

    fn view(&self, view: &mut View, needed: &[bool]) {
        let Some(plane) = view.planes.first() else { return };
        let inputs = self.renumbered[self.needs.sets.of(plane.var.0)].as_ref();
        if inputs.is_none() && !needed.contains(&false) {
            return;
        }
        let left = (0..needed.len()).filter(|&position| needed[position]);
        let map: Vec<Option<u32>> = left
            .map(|position| {
                let from = view.map.as_ref().map_or(Some(position as u32), |map| map[position])?;
                inputs.map_or(Some(from), |inputs| inputs.of(from))
            })
            .collect();
        let same = map.iter().enumerate().all(|(place, &from)| from == Some(place as u32));
        view.map = (!same).then(|| map.into());
    }
}

/// All positions that a view with a map reads.
fn all_of(view: &View) -> Vec<bool> {
    vec![true; view.map.as_ref().map_or(0, |map| map.len())]
}

/// The windows of the output positions that are needed.
fn left(windows: &Windows, needed: &[bool], inputs: &Places) -> Windows {
    let mut left = Windows { starts: vec![0], positions: Vec::new() };
    for position in (0..needed.len()).filter(|&position| needed[position]) {
        let sources = windows.of(position as u32).iter();
        left.positions.extend(sources.filter_map(|&source| match source {
            Windows::ZERO => Some(source),
            _ => inputs.of(source),
        }));
        left.starts.push(left.positions.len() as u32);
    }
    left
}

/// Positions of a row after some are taken out: those of every row that has any, if these are as
/// many, or else 1.
fn row(row: u32, needed: &[bool]) -> u32 {
    let count = |row: &[bool]| row.iter().filter(|&&needed| needed).count() as u32;
    let mut rows = needed.chunks(row.max(1) as usize).map(count).filter(|&count| count > 0);
    let first = rows.next().unwrap_or(1);
    if rows.all(|other| other == first) { first } else { 1 }
}

#[cfg(test)]
mod tests;
