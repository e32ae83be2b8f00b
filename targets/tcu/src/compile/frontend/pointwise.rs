//! Operations on every position and channel alone.

use super::chain::{Open, view};
use super::channels::{Move, lanes_used};
use super::constants::{Broadcast, constant, operand, reals};
use super::dims::{Dims, Held};
use super::{Fate, Frontend};
use crate::compile::hir::{self, Op as Hir, Operand, TempId};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Activation, BatchNorm, Binary, Graph, Node, Op, Unary, ValueId};
use quincunx_tensor::Shape;

/// The machine's operation of a number in a temp and another one; `swapped` when the temp holds the
/// second operand. A division is by constants.
fn binary_of(op: Binary, swapped: bool) -> Option<hir::Binary> {
    Some(match op {
        Binary::Add => hir::Binary::Add,
        Binary::Sub if swapped => hir::Binary::SubFrom,
        Binary::Sub => hir::Binary::Sub,
        Binary::Mul | Binary::Div => hir::Binary::Mul,
        Binary::Max => hir::Binary::Max,
        Binary::Min => hir::Binary::Min,
        Binary::Pow => return None,
    })
}

/// The power that a node takes, when that is 2 or 3 everywhere.
pub(super) fn power(graph: &Graph, node: &Node) -> Option<usize> {
    let powers = reals(operand(graph, node, 1)?).ok()?;
    let first = *powers.first()?;
    let is_known = (first == 2.0 || first == 3.0) && powers.iter().all(|&power| power == first);
    is_known.then_some(first as usize)
}

/// For every position of the result that of an operand, when the operand's channels are those of
/// the result, or one for all of them, and its positions broadcast.
pub(super) fn spread(graph: &Graph, value: ValueId, to: ValueId) -> Option<Option<Vec<u32>>> {
    let (shape, out) = (&graph[value].shape, &graph[to].shape);
    let (own, dims) = (Dims::of(shape)?, Dims::of(out)?);
    let is_one = shape.iter().product::<usize>() == 1;
    if !(shape.len() == out.len() || is_one) || !(own.c == dims.c || own.c == 1) {
        return None;
    }
    if (own.n, own.spatial()) == (dims.n, dims.spatial()) {
        return Some(None);
    }
    if is_one {
        return Some(Some(vec![0; dims.positions()]));
    }
    let numbers = Broadcast::new(shape, out);
    // Offsets count elements; without the channels they count positions.
    let positions = (0..dims.positions()).map(|position| {
        let (offset, _) = numbers.row(position);
        let (inner, outer) = (own.spatial(), own.spatial() * own.c);
        (offset / outer * inner + offset % inner) as u32
    });
    Some(Some(positions.collect()))
}

impl Frontend<'_> {
    /// The first operand of a layer that begins by loading it.
    pub(super) fn first_operand(&mut self, node: &Node) -> Result<Held> {
        let index = match node.op {
            Op::Binary(_) => self.main_operand(node).ok_or_else(|| {
                Diagnostic::bug("an operation of constants alone reached the machine")
            })?,
            _ => 0,
        };
        let value = node.input(index).ok_or_else(|| Diagnostic::bug("an operand is absent"))?;
        match node.op {
            Op::Binary(_) => self.spread_operand(value, node.output),
            _ => self.held(value),
        }
    }

    /// The operand that is in accumulators when the other one is added and so on. Constants never
    /// are.
    fn main_operand(&self, node: &Node) -> Option<usize> {
        let is_constant = |index: usize| {
            node.input(index).is_some_and(|value| constant(self.graph, value).is_some())
        };
        (0..2).find(|&index| !is_constant(index))
    }

    /// An operand with the positions and channels of the result.
    fn spread_operand(&mut self, value: ValueId, to: ValueId) -> Result<Held> {
        let dims = Dims::of_value(self.graph, to);
        let one = Dims::of_value(self.graph, value).c == 1 && dims.c > 1;
        let held = if one { self.in_all_lanes(value, dims)? } else { self.held(value)? };
        let positions = spread(self.graph, value, to)
            .ok_or_else(|| Diagnostic::bug("an operand does not broadcast on the machine"))?;
        let Some(positions) = positions else {
            return Ok(Held { dims, ..held });
        };
        let map = held.mapped(positions.into_iter().map(|at| Some(at as usize)));
        Ok(Held { dims, map: Some(map), ..held })
    }

    /// The only channel of a tensor, copied to all lanes by a product with a row of ones. The block
    /// is read in the place of every block of the result.
    fn in_all_lanes(&mut self, value: ValueId, dims: Dims) -> Result<Held> {
        let mut copies = match self.copies.get(&value.index()) {
            Some(known) => known.clone(),
            None => {
                let (held, lanes) = (self.held(value)?, self.lanes);
                let name = format!("copies of {}", self.graph[value].name);
                let all = Dims { c: lanes, ..held.dims };
                let mut open = Open::new(name.clone(), all);
                let part = Move::of(&held, (0..lanes).map(|to| (0, to)).collect());
                let used = lanes_used(&held, lanes);
                let temp = self.gather(&mut open, &name, &held.planes, used, vec![part])?;
                let copies = self.keep(open, temp, all);
                self.copies.insert(value.index(), copies.clone());
                copies
            }
        };
        copies.planes = vec![copies.planes[0]; dims.blocks(self.lanes)].into();
        Ok(copies)
    }

    /// True when a binary operation can read `value` from a temp of these extents.
    pub(super) fn binary_continues(&self, node: &Node, value: ValueId, dims: Dims) -> bool {
        dims.same_table(Dims::of_value(self.graph, node.output))
            && dims.same_table(Dims::of_value(self.graph, value))
            && matches!(spread(self.graph, value, node.output), Some(None))
    }

    /// Appends the operation of a node on a temp, which holds `value` or, at the start of a layer,
    /// the main operand.
    pub(super) fn apply(
        &mut self,
        open: &mut Open,
        node: &Node,
        input: TempId,
        value: Option<ValueId>,
    ) -> Result<TempId> {
        match &node.op {
            Op::Binary(op) => self.binary(open, *op, node, input, value),
            op if self.is_looked_up(op) => self.function(open, node, input),
            Op::Unary(op) => self.unary(open, *op, input, node),
            Op::Activation(Activation::LeakyRelu { alpha })
                if self.adds_leaks(open.dims, *alpha) =>
            {
                self.leaky_sums.insert(node.name.clone());
                let data_type = self.arch.data_type;
                let factor = data_type.encode((*alpha).into()) - data_type.encode(1.0);
                let output = open.temp(open.dims);
                open.push(Hir::Unary { op: hir::Unary::LeakySum { factor }, input, output });
                Ok(output)
            }
            Op::Activation(Activation::HardSigmoid { alpha, beta }) => {
                self.hard_sigmoid(open, input, node, [*alpha, *beta])
            }
            Op::Activation(op) => self.activation(open, *op, input),
            Op::PRelu => self.prelu(open, node, input),
            Op::BatchNorm(norm) => self.batch_norm(open, norm, node, input),
            _ => self.window(open, node, input),
        }
    }

    fn binary(
        &mut self,
        open: &mut Open,
        op: Binary,
        node: &Node,
        input: TempId,
        value: Option<ValueId>,
    ) -> Result<TempId> {
        let bug = || Diagnostic::bug("a binary operation has two operands of the machine");
        if op == Binary::Pow {
            let power = power(self.graph, node).ok_or_else(bug)?;
            return Ok((1..power)
                .fold(input, |product, _| with_temp(open, hir::Binary::Mul, product, input)));
        }
        let main = match value {
            Some(value) => usize::from(node.input(0) != Some(value)),
            None => self.main_operand(node).ok_or_else(bug)?,
        };
        let divides = op == Binary::Div;
        let op = binary_of(op, main == 1).ok_or_else(bug)?;
        let other = node.input(1 - main).ok_or_else(bug)?;
        let graph = self.graph;
        let dims = Dims::of_value(graph, node.output);
        let same = value == Some(other) || (value.is_none() && node.input(main) == Some(other));
        let operand = if same {
            Operand::Temp(input)
        } else if constant(graph, other).is_some() {
            let number: fn(f32) -> f32 = if divides { |real| 1.0 / real } else { |real| real };
            Operand::Const(self.table(other, &graph[node.output].shape, &node.name, number)?)
        } else {
            let held = self.spread_operand(other, node.output)?;
            open.zero_padding &= held.zero_padding;
            Operand::Vars(view(&held))
        };
        let output = open.temp(dims);
        open.push(Hir::Binary { op, input, other: operand, output });
        Ok(output)
    }

    /// A function of a constant over a shape: one row, or one for every position.
    fn table(
        &mut self,
        value: ValueId,
        shape: &Shape,
        node: &str,
        number: fn(f32) -> f32,
    ) -> Result<hir::ConstId> {
        let bug = || Diagnostic::bug("a claimed constant broadcasts");
        let described = constant(self.graph, value).ok_or_else(bug)?;
        let name = format!("{} of {node}", self.graph[value].name);
        let reals: Vec<f32> = reals(described)?.iter().map(|&real| number(real)).collect();
        let numbers = self.encoded(|| name.clone(), &reals);
        let dims = Dims::of(shape).ok_or_else(bug)?;
        let broadcast = Broadcast::new(&self.graph[value].shape, shape);
        let rows = if broadcast.is_row() { 1 } else { dims.positions() };
        let mut data = Vec::with_capacity(rows * dims.c);
        for position in 0..rows {
            let (offset, stride) = broadcast.row(position);
            data.extend((0..dims.c).map(|c| numbers[offset + c * stride]));
        }
        self.add_const(&name, [rows, dims.c], data, [value])
    }

    fn unary(&mut self, open: &mut Open, op: Unary, input: TempId, node: &Node) -> Result<TempId> {
        let dims = open.dims;
        match op {
            Unary::Relu => {
                if let Some(norm) = self.free.before(node.output) {
                    return self.limit(open, &self.graph[norm], input);
                }
                let output = open.temp(dims);
                open.push(Hir::Unary { op: hir::Unary::Relu, input, output });
                Ok(output)
            }
            Unary::Neg | Unary::Abs => {
                let minus = vec![self.arch.data_type.encode(-1.0); dims.c];
                let name = format!("minus one of {}", node.name);
                let other = Operand::Const(self.add_const(&name, [1, dims.c], minus, [])?);
                let negated = open.temp(dims);
                open.push(Hir::Binary { op: hir::Binary::Mul, input, other, output: negated });
                if op == Unary::Neg {
                    return Ok(negated);
                }
                Ok(with_temp(open, hir::Binary::Max, input, negated))
            }
            Unary::HardSwish => {
                let gate = self.hard_sigmoid(open, input, node, [1.0 / 6.0, 0.5])?;
                Ok(with_temp(open, hir::Binary::Mul, input, gate))
            }
            _ => self.curve(open, node, input),
        }
    }

    /// `min(max(sat(sat(x * alpha) + beta), 0), 1)`.
    fn hard_sigmoid(
        &mut self,
        open: &mut Open,
        input: TempId,
        node: &Node,
        [alpha, beta]: [f32; 2],
    ) -> Result<TempId> {
        let dims = open.dims;
        let mut row = |what: &str, real: f32| {
            let name = format!("{what} of {}", node.name);
            let data = self.encoded(|| name.clone(), &vec![real; dims.c]);
            self.add_const(&name, [1, dims.c], data, [])
        };
        let (scale, offset) = (row("slopes", alpha)?, row("offsets", beta)?);
        let line = open.temp(dims);
        open.push(Hir::Norm { scale, offset, input, output: line });
        let output = open.temp(dims);
        let op = hir::Unary::Clip { low: 0, high: self.arch.data_type.encode(1.0) };
        open.push(Hir::Unary { op, input: line, output });
        Ok(output)
    }

    /// A ReLU before which a batch normalisation is left out: the larger of its operand and
    /// `-offset / scale`.
    fn limit(&mut self, open: &mut Open, node: &Node, input: TempId) -> Result<TempId> {
        let Op::BatchNorm(norm) = &node.op else {
            return Err(Diagnostic::bug("only a batch normalisation is moved"));
        };
        let [scale, offset] = affine(self.graph, norm, node)?;
        let limits: Vec<f32> = offset.iter().zip(&scale).map(|(o, s)| -(o / s)).collect();
        let values: Vec<ValueId> = node.operands().skip(1).collect();
        let name = format!("limits of {}", node.name);
        let data = self.encoded(|| name.clone(), &limits);
        let row = self.add_const(&name, [1, open.dims.c], data, values)?;
        let output = open.temp(open.dims);
        let other = Operand::Const(row);
        open.push(Hir::Binary { op: hir::Binary::Max, input, other, output });
        Ok(output)
    }

    fn activation(&mut self, open: &mut Open, op: Activation, input: TempId) -> Result<TempId> {
        let data_type = self.arch.data_type;
        let op = match op {
            Activation::LeakyRelu { alpha } => {
                hir::Unary::LeakyRelu { alpha: data_type.encode(alpha.into()) }
            }
            Activation::Clip { min, max } => {
                let low = data_type.encode(min.unwrap_or(f32::NEG_INFINITY).into());
                let high = data_type.encode(max.unwrap_or(f32::INFINITY).into());
                let zero = data_type.encode(0.0);
                let keeps_zero =
                    min.is_none_or(|min| min <= 0.0) && max.is_none_or(|max| max >= 0.0);
                open.zero_padding &= keeps_zero;
                if low == zero && max.is_none() {
                    hir::Unary::Relu
                } else {
                    hir::Unary::Clip { low, high }
                }
            }
            _ => return Err(Diagnostic::bug("a claimed activation has no instructions")),
        };
        let output = open.temp(open.dims);
        open.push(Hir::Unary { op, input, output });
        Ok(output)
    }

    fn prelu(&mut self, open: &mut Open, node: &Node, input: TempId) -> Result<TempId> {
        let slope = node.input(1).ok_or_else(|| Diagnostic::bug("a slope is absent"))?;
        let described = operand(self.graph, node, 1)
            .ok_or_else(|| Diagnostic::bug("a claimed slope is constant"))?;
        let numbers = reals(described)?;
        let readers = self.consumers[slope.index()].len();
        // A constant is a parameter or lies in memory, never both.
        if let ([alpha], 1) = (&numbers[..], readers) {
            let fate = Fate::Parameter(node.name.clone());
            self.builder.note_constant(&self.graph[slope].name, fate)?;
            self.count_clipped(|| format!("slope of {}", node.name), &numbers);
            return self.activation(open, Activation::LeakyRelu { alpha: *alpha }, input);
        }
        let shape = &self.graph[node.output].shape;
        let other = Operand::Const(self.table(slope, shape, &node.name, |real| real)?);
        let product = open.temp(open.dims);
        open.push(Hir::Binary { op: hir::Binary::Mul, input, other, output: product });
        Ok(with_temp(open, hir::Binary::Max, input, product))
    }

    fn batch_norm(
        &mut self,
        open: &mut Open,
        norm: &BatchNorm,
        node: &Node,
        input: TempId,
    ) -> Result<TempId> {
        let id = self.graph[node.output].producer;
        if id.is_some_and(|id| self.free.is_moved(id)) {
            return Ok(input);
        }
        let taken = id.is_some_and(|id| self.free.offsets.contains(&id.index()));
        let [scale, offset] = affine(self.graph, norm, node)?;
        let dims = open.dims;
        let mut row = |what: &str, numbers: &[f32], from: &[usize]| {
            let name = format!("{what} of {}", node.name);
            let data = self.encoded(|| name.clone(), numbers);
            let values = from.iter().filter_map(|&operand| node.input(operand));
            self.add_const(&name, [1, dims.c], data, values)
        };
        let scale = row("scale", &scale, &[1, 4])?;
        if taken {
            let output = open.temp(dims);
            let other = Operand::Const(scale);
            open.push(Hir::Binary { op: hir::Binary::Mul, input, other, output });
            return Ok(output);
        }
        let offset = row("offset", &offset, &[2, 3])?;
        let output = open.temp(dims);
        open.push(Hir::Norm { scale, offset, input, output });
        Ok(output)
    }
}

/// An operation of two temps.
pub(super) fn with_temp(open: &mut Open, op: hir::Binary, input: TempId, other: TempId) -> TempId {
    let output = open.temp(open.dims);
    open.push(Hir::Binary { op, input, other: Operand::Temp(other), output });
    output
}

/// Scale and offset of a batch normalisation, computed in binary32.
pub(super) fn affine(graph: &Graph, norm: &BatchNorm, node: &Node) -> Result<[Vec<f32>; 2]> {
    let parameter = |index: usize| {
        let constant = operand(graph, node, index)
            .ok_or_else(|| Diagnostic::bug("a claimed parameter is constant"))?;
        reals(constant)
    };
    let (gamma, beta, mean, variance) =
        (parameter(1)?, parameter(2)?, parameter(3)?, parameter(4)?);
    let scale: Vec<f32> =
        gamma.iter().zip(&*variance).map(|(g, v)| g / (v + norm.epsilon).sqrt()).collect();
    let shifted = beta.iter().zip(&*mean).zip(&scale);
    let offset = shifted.map(|((b, m), s)| b - m * s).collect();
    Ok([scale, offset])
}
