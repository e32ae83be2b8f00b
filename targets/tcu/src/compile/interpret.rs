//! What a network of layers computes, one scalar at a time, as the sentences of [`super::hir`]
//! say it. The judge of the frontend in tests.

use super::hir::*;
use crate::arch::TcuArch;
use crate::simulate::{Arithmetic, Flow, with_arithmetic};
use std::collections::BTreeMap;

/// The tensors of DRAM0, each in its own order of vectors.
pub(crate) type Memory = Vec<Vec<i32>>;

/// Runs a network. `inputs` are the vectors of every input by name, in the order of its tensor;
/// the result is the memory afterwards.
pub(crate) fn interpret(
    network: &Network,
    arch: &TcuArch,
    inputs: &BTreeMap<String, Vec<i32>>,
) -> Memory {
    with_arithmetic!(arch.data_type, A => Machine::<A>::run(network, arch, inputs))
}

/// The scalars of a tensor in the order of the graph: `[N, C, S]`, row-major.
pub(crate) fn read_planes(
    network: &Network,
    arch: &TcuArch,
    memory: &Memory,
    planes: &[Plane],
    shape: &[usize],
) -> Vec<i32> {
    let (n, c) = match *shape {
        [c] => (1, c),
        [n, c, ..] => (n, c),
        [] => (1, 1),
    };
    let size = shape.iter().skip(2).product::<usize>();
    let mut values = Vec::new();
    for n in 0..n {
        for c in 0..c {
            for s in 0..size {
                let plane = planes[c / arch.lanes()];
                values.push(*lane(network, arch, memory, plane, n * size + s, c % arch.lanes()));
            }
        }
    }
    values
}

fn at(network: &Network, lanes: usize, plane: Plane, position: usize) -> usize {
    let var = &network.vars[plane.var.0 as usize];
    let (blocks, positions) = (var.blocks as usize, var.positions as usize);
    assert!(position < positions && plane.block < var.blocks, "{plane:?} at {position}");
    let vector = match var.order {
        Order::Interleaved => position * blocks + plane.block as usize,
        Order::Planar => plane.block as usize * positions + position,
    };
    vector * lanes
}

fn lane<'a>(
    network: &Network,
    arch: &TcuArch,
    memory: &'a Memory,
    plane: Plane,
    position: usize,
    lane: usize,
) -> &'a i32 {
    let lanes = arch.lanes();
    &memory[plane.var.0 as usize][at(network, lanes, plane, position) + lane]
}

struct Machine<'a, A> {
    network: &'a Network,
    lanes: usize,
    memory: Memory,
    /// Temps of the layer: positions by blocks of lanes, with their padding.
    temps: Vec<Option<Vec<i32>>>,
    flow: Flow,
    arithmetic: std::marker::PhantomData<A>,
}

impl<A: Arithmetic> Machine<'_, A> {
    fn run(network: &Network, arch: &TcuArch, inputs: &BTreeMap<String, Vec<i32>>) -> Memory {
        let lanes = arch.lanes();
        // What nobody has written must not be read.
        let size = |var: &Var| var.positions as usize * var.blocks as usize * lanes;
        let memory =
            network.vars.iter().map(|var| vec![i32::from(12_345_i16); size(var)]).collect();
        let mut machine = Machine::<A> {
            network,
            lanes,
            memory,
            temps: Vec::new(),
            flow: Flow::default(),
            arithmetic: std::marker::PhantomData,
        };
        for input in &network.inputs {
            let vectors = &inputs[&input.name];
            let to = &mut machine.memory[input.var.0 as usize];
            assert_eq!(vectors.len(), to.len());
            to.copy_from_slice(vectors);
        }
        for layer in &network.layers {
            machine.layer(layer);
        }
        machine.memory
    }

    fn layer(&mut self, layer: &Layer) {
        let blocks = (layer.channels as usize).div_ceil(self.lanes);
        self.temps = vec![None; layer.temps.len()];
        assert!(matches!(layer.ops.last(), Some(Op::Save { .. })));
        for op in &layer.ops {
            let (output, values) = match op {
                Op::Save { input, to, positions } => {
                    self.save(*input, to, positions.as_deref(), blocks);
                    continue;
                }
                Op::MatMul(product) => (product.output, self.product(product, layer, blocks)),
                Op::Load { from, output } => {
                    let positions = layer.temps[output.0 as usize] as usize;
                    (*output, self.view(from, positions, blocks))
                }
                Op::Mix { from, weights, output } => {
                    let positions = layer.temps[output.0 as usize] as usize;
                    (*output, self.mix(from, *weights, positions, blocks))
                }
                Op::Binary { op, input, other, output } => {
                    (*output, self.binary(*op, *input, other, blocks))
                }
                Op::Unary { op, input, output } => {
                    let values = self.temp(*input).to_vec();
                    (*output, values.into_iter().map(|x| self.unary(*op, x)).collect())
                }
                Op::Norm { scale, offset, input, output } => {
                    (*output, self.norm(*scale, *offset, *input, blocks))
                }
                Op::Lookup { table, input, output } => {
                    let values = self.temp(*input).to_vec();
                    (*output, values.into_iter().map(|x| self.lookup(*table, x)).collect())
                }
                Op::Pool { kind, windows, input, output } => {
                    (*output, self.pool(kind, windows, *input, blocks))
                }
                Op::Interpolate { windows, weights, input, output } => {
                    (*output, self.interpolate(windows, weights, *input, blocks))
                }
            };
            let positions = layer.temps[output.0 as usize] as usize;
            assert_eq!(values.len(), positions * blocks * self.lanes, "{}", layer.name);
            assert!(self.temps[output.0 as usize].is_none(), "a temp is written once");
            self.temps[output.0 as usize] = Some(values);
        }
    }

    fn temp(&self, id: TempId) -> &[i32] {
        self.temps[id.0 as usize].as_ref().expect("a temp is written before it is read")
    }

    /// Row `row` of a constant, padded with zeros.
    fn row(&self, id: ConstId, row: usize, blocks: usize) -> Vec<i32> {
        let constant = &self.network.consts[id.0 as usize];
        let channels = constant.channels as usize;
        assert_eq!(constant.data.len(), constant.rows as usize * channels);
        let mut values = constant.data[row * channels..][..channels].to_vec();
        values.resize(blocks * self.lanes, 0);
        values
    }

    fn save(&mut self, input: TempId, to: &[Plane], some: Option<&[u32]>, blocks: usize) {
        let values = self.temp(input).to_vec();
        assert_eq!(to.len(), blocks);
        let positions = values.chunks(blocks * self.lanes).zip(0_u32..);
        let saved = positions.filter(|(_, position)| some.is_none_or(|s| s.contains(position)));
        for (position, (vectors, _)) in saved.enumerate() {
            for (plane, vector) in to.iter().zip(vectors.chunks(self.lanes)) {
                let start = at(self.network, self.lanes, *plane, position);
                self.memory[plane.var.0 as usize][start..][..self.lanes].copy_from_slice(vector);
            }
        }
    }

    fn view(&self, view: &View, positions: usize, blocks: usize) -> Vec<i32> {
        assert_eq!(view.planes.len(), blocks);
        let mut values = Vec::new();
        for position in 0..positions {
            let from = match &view.map {
                Some(map) => {
                    assert_eq!(map.len(), positions);
                    map[position].map(|from| from as usize)
                }
                None => Some(position),
            };
            for &plane in view.planes.iter() {
                let vector = match from {
                    Some(from) => self.vector(plane, from).to_vec(),
                    None => vec![0; self.lanes],
                };
                values.extend(vector);
            }
        }
        values
    }

    fn vector(&self, plane: Plane, position: usize) -> &[i32] {
        let start = at(self.network, self.lanes, plane, position);
        &self.memory[plane.var.0 as usize][start..][..self.lanes]
    }

    fn product(&mut self, product: &MatMul, layer: &Layer, blocks: usize) -> Vec<i32> {
        let width = blocks * self.lanes;
        let positions = layer.temps[product.output.0 as usize] as usize;
        let mut sums: Vec<Option<Vec<i32>>> = vec![None; positions];
        for (index, tap) in product.taps.iter().enumerate() {
            let rows = self.network.consts[tap.weights.0 as usize].rows as usize;
            assert_eq!(rows, tap.inputs.len() * self.lanes, "{}", product.node);
            assert!(tap.pairs.is_sorted_by(|a, b| a.output < b.output));
            let mut pairs = tap.pairs.iter().peekable();
            for (output, sum) in sums.iter_mut().enumerate() {
                let pair = pairs.next_if(|pair| pair.output as usize == output);
                for (block, &plane) in tap.inputs.iter().enumerate() {
                    let bias = product
                        .bias
                        .filter(|bias| (bias.tap as usize, bias.block as usize) == (index, block));
                    if pair.is_none() && bias.is_none() && sum.is_some() {
                        continue;
                    }
                    let mut y = match bias {
                        Some(bias) => self.row(bias.row, 0, blocks),
                        None => vec![0; width],
                    };
                    if let Some(pair) = pair {
                        let x = self.vector(plane, pair.input as usize).to_vec();
                        self.accumulate(tap.weights, block, &x, &mut y);
                    }
                    match sum {
                        Some(sum) => A::add_vector(&y, sum, &mut self.flow),
                        None => *sum = Some(y),
                    }
                }
            }
            assert!(pairs.next().is_none(), "pairs are sorted and within the result");
        }
        sums.into_iter().flat_map(|sum| sum.expect("a product has a tap")).collect()
    }

    fn accumulate(&mut self, weights: ConstId, block: usize, x: &[i32], y: &mut [i32]) {
        let constant = &self.network.consts[weights.0 as usize];
        let channels = constant.channels as usize;
        for (lane, &x) in x.iter().enumerate() {
            let row = &constant.data[(block * self.lanes + lane) * channels..][..channels];
            A::accumulate_product(x, row, &mut y[..channels], &mut self.flow);
        }
    }

    fn mix(&mut self, from: &View, weights: ConstId, outputs: usize, blocks: usize) -> Vec<i32> {
        let constant = &self.network.consts[weights.0 as usize];
        let (depth, count) = (constant.channels as usize, constant.rows as usize);
        let width = blocks * self.lanes;
        let x = self.view(from, outputs / count * depth, blocks);
        let mut values = Vec::with_capacity(outputs * width);
        for output in 0..outputs {
            let (row, numbers) =
                (output / count, &constant.data[output % count * depth..][..depth]);
            for lane in 0..width {
                let mut sum: Option<i32> = None;
                for (block, numbers) in numbers.chunks(self.lanes).enumerate() {
                    let mut y = [0];
                    for (k, &number) in numbers.iter().enumerate() {
                        let at = row * depth + block * self.lanes + k;
                        A::accumulate_product(
                            number,
                            &[x[at * width + lane]],
                            &mut y,
                            &mut self.flow,
                        );
                    }
                    sum = Some(sum.map_or(y[0], |sum| A::add(sum, y[0], &mut self.flow)));
                }
                values.push(sum.expect("there are inputs"));
            }
        }
        values
    }

    fn binary(&mut self, op: Binary, input: TempId, other: &Operand, blocks: usize) -> Vec<i32> {
        let x = self.temp(input).to_vec();
        let width = blocks * self.lanes;
        let positions = x.len() / width;
        let y = match other {
            Operand::Temp(other) => self.temp(*other).to_vec(),
            Operand::Vars(view) => self.view(view, positions, blocks),
            Operand::Const(id) => {
                let rows = self.network.consts[id.0 as usize].rows as usize;
                assert!(rows == 1 || rows == positions);
                (0..positions).flat_map(|row| self.row(*id, row % rows, blocks)).collect()
            }
        };
        assert_eq!(x.len(), y.len());
        let flow = &mut self.flow;
        let apply = |(x, y): (i32, i32)| match op {
            Binary::Add => A::add(x, y, flow),
            Binary::Sub => A::subtract(x, y, flow),
            Binary::SubFrom => A::subtract(y, x, flow),
            Binary::Mul => A::multiply(x, y, flow),
            Binary::Max => larger::<A>(x, y),
            Binary::Min => smaller::<A>(x, y),
        };
        x.into_iter().zip(y).map(apply).collect()
    }

    fn unary(&mut self, op: Unary, x: i32) -> i32 {
        match op {
            Unary::Relu => larger::<A>(x, 0),
            Unary::LeakyRelu { alpha } => larger::<A>(x, A::multiply(x, alpha, &mut self.flow)),
            Unary::LeakySum { factor } => {
                let product = A::multiply(smaller::<A>(x, 0), factor, &mut self.flow);
                A::add(x, product, &mut self.flow)
            }
            Unary::Clip { low, high } => smaller::<A>(larger::<A>(x, low), high),
        }
    }

    fn norm(&mut self, scale: ConstId, offset: ConstId, input: TempId, blocks: usize) -> Vec<i32> {
        let (scale, offset) = (self.row(scale, 0, blocks), self.row(offset, 0, blocks));
        let mut values = self.temp(input).to_vec();
        for (index, x) in values.iter_mut().enumerate() {
            let c = index % scale.len();
            let product = A::multiply(*x, scale[c], &mut self.flow);
            *x = A::add(product, offset[c], &mut self.flow);
        }
        values
    }

    fn lookup(&mut self, table: TableId, x: i32) -> i32 {
        let table = &self.network.tables[table.0 as usize];
        let distance = |&entry: &usize| (i64::from(x) - i64::from(table.keys[entry])).abs();
        let entry = (0..table.keys.len()).min_by_key(distance).expect("tables have entries");
        let Some(slopes) = &table.slopes else { return table.values[entry] };
        let difference = A::subtract(x, table.keys[entry], &mut self.flow);
        let rise = A::multiply(difference, slopes[entry], &mut self.flow);
        A::add(table.values[entry], rise, &mut self.flow)
    }

    fn pool(
        &mut self,
        kind: &Pooling,
        windows: &Windows,
        input: TempId,
        blocks: usize,
    ) -> Vec<i32> {
        let width = blocks * self.lanes;
        let x = self.temp(input).to_vec();
        let mut values = Vec::new();
        for output in 0..windows.len() {
            let window = windows.of(output as u32);
            for c in 0..width {
                let mut of = window.iter().map(|&at| match at {
                    Windows::ZERO => 0,
                    _ => x[at as usize * width + c],
                });
                let first = of.next().expect("windows have positions");
                values.push(match kind {
                    Pooling::Max => of.fold(first, larger::<A>),
                    Pooling::Average { multipliers } => {
                        let sum = of.fold(first, |s, x| A::add(s, x, &mut self.flow));
                        let multiplier = multipliers[output % multipliers.len()];
                        A::multiply(sum, multiplier, &mut self.flow)
                    }
                });
            }
        }
        values
    }

    fn interpolate(
        &mut self,
        windows: &Windows,
        weights: &[i32],
        input: TempId,
        blocks: usize,
    ) -> Vec<i32> {
        let width = blocks * self.lanes;
        let x = self.temp(input).to_vec();
        let mut values = Vec::new();
        for output in 0..windows.len() {
            let start = windows.starts[output] as usize;
            for c in 0..width {
                let mut sum = None;
                for (index, &at) in windows.of(output as u32).iter().enumerate() {
                    let x = x[at as usize * width + c];
                    let product = A::multiply(x, weights[start + index], &mut self.flow);
                    sum = Some(match sum {
                        Some(sum) => A::add(sum, product, &mut self.flow),
                        None => product,
                    });
                }
                values.push(sum.expect("windows have positions"));
            }
        }
        values
    }
}

fn larger<A: Arithmetic>(x: i32, y: i32) -> i32 {
    if A::less(x, y) { y } else { x }
}

fn smaller<A: Arithmetic>(x: i32, y: i32) -> i32 {
    if A::less(y, x) { y } else { x }
}
