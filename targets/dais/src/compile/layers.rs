//! One function per operator: from the wires of the operands to the wires of the result.

mod movement;
mod numeric;

use super::builder::{Builder, Wire};
use super::linear::sum;
use super::quantiser;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Binary, Conv, Gemm, Graph, Node, Op, Pool, PoolKind, Unary, Window};
use quincunx_num::Dyadic;
use quincunx_tensor::{Shape, View};

/// The numbers of one value, row-major.
pub(super) type Wires = Vec<Wire>;

/// Compiles one node. `operands` has one entry per operand of the node.
pub(super) fn lower(
    builder: &mut Builder<'_>,
    graph: &Graph,
    node: &Node,
    operands: &[Option<&Wires>],
) -> Result<Wires> {
    let shape = &graph[node.output].shape[..];
    let operand = |index: usize| {
        operands
            .get(index)
            .copied()
            .flatten()
            .ok_or_else(|| Diagnostic::bug("an operand is absent"))
    };
    let operand_shape = |index: usize| node.input(index).map_or(&[][..], |id| &graph[id].shape[..]);
    let x = operand(0)?;
    match &node.op {
        Op::Identity | Op::Flatten { .. } | Op::Reshape { .. } => Ok(x.clone()),
        Op::Transpose { order } => Ok(View::new(x, operand_shape(0)).permute(order).to_vec()),
        Op::Conv(conv) => {
            let layer = ConvLayer {
                conv,
                x,
                x_shape: operand_shape(0),
                w: &constants(operand(1)?)?,
                w_shape: operand_shape(1),
                bias: operands.get(2).copied().flatten().map(constants).transpose()?,
            };
            layer.lower(builder, shape)
        }
        Op::Gemm(gemm) => lower_gemm(builder, gemm, node, graph, operands),
        Op::MatMul => {
            let product = MatrixProduct {
                a: View::new(x, operand_shape(0)),
                b: View::new(operand(1)?, operand_shape(1)),
            };
            product.lower(builder, shape)
        }
        Op::Pool(pool) => lower_pool(builder, pool, x, operand_shape(0), shape),
        Op::GlobalAveragePool => lower_global_average(builder, x, operand_shape(0), shape),
        Op::GlobalMaxPool => numeric::lower_global_max(builder, x, operand_shape(0), shape),
        Op::Reduce(reduce) => numeric::lower_reduce(builder, reduce, x, operand_shape(0)),
        Op::Activation(activation) => {
            x.iter().map(|wire| numeric::lower_activation(builder, *activation, wire)).collect()
        }
        Op::PRelu => {
            let slopes = constants(&broadcast(operand(1)?, operand_shape(1), shape)?)?;
            x.iter().zip(&slopes).map(|(x, slope)| numeric::leaky(builder, x, slope)).collect()
        }
        Op::Where => {
            let conditions = constants(&broadcast(x, operand_shape(0), shape)?)?;
            let yes = broadcast(operand(1)?, operand_shape(1), shape)?;
            let no = broadcast(operand(2)?, operand_shape(2), shape)?;
            let branches = yes.into_iter().zip(no);
            let pick = |(c, (yes, no)): (&Dyadic, _)| if c.is_zero() { no } else { yes };
            Ok(conditions.iter().zip(branches).map(pick).collect())
        }
        Op::Unary(unary) => x.iter().map(|wire| lower_unary(builder, *unary, wire)).collect(),
        Op::Binary(binary) => {
            let a = broadcast(x, operand_shape(0), shape)?;
            let b = broadcast(operand(1)?, operand_shape(1), shape)?;
            a.iter().zip(&b).map(|(a, b)| lower_binary(builder, *binary, a, b)).collect()
        }
        Op::Quantise(quantiser) => {
            let scalars = quantiser
                .scalars(shape)
                .ok_or_else(|| Diagnostic::bug("the quantiser broadcasts"))?;
            x.iter().zip(&scalars).map(|(x, q)| quantiser::quantise(builder, x, q)).collect()
        }
        Op::Concat { .. }
        | Op::Slice { .. }
        | Op::Pad(_)
        | Op::Gather { .. }
        | Op::Expand { .. }
        | Op::Tile { .. }
        | Op::Resize(_) => movement::lower_movement(graph, node, operands),
        Op::ConvTranspose(conv) => {
            let layer = movement::TransposedLayer {
                conv,
                x,
                x_shape: operand_shape(0),
                w: &constants(operand(1)?)?,
                w_shape: operand_shape(1),
                bias: operands.get(2).copied().flatten().map(constants).transpose()?,
            };
            layer.lower(builder, shape)
        }
        Op::BatchNorm(_)
        | Op::Recurrent(_)
        | Op::Cast { .. }
        | Op::CastUnbounded { .. }
        | Op::ToCodes(_)
        | Op::FromCodes(_)
        | Op::Compare(_)
        | Op::Logic(_)
        | Op::ArgExtreme(_)
        | Op::Softmax(_)
        | Op::LayerNorm(_)
        | Op::InstanceNorm(_)
        | Op::Lrn(_) => Err(Diagnostic::bug(format!("{} is never claimed", node.op.name()))),
    }
}

/// The values of wires that are all constant.
fn constants(wires: &Wires) -> Result<Vec<Dyadic>> {
    wires
        .iter()
        .map(|wire| match wire {
            Wire::Constant(value) => Ok(value.clone()),
            Wire::Slot { .. } => Err(Diagnostic::bug("the operand is constant")),
        })
        .collect()
}

fn broadcast(wires: &Wires, from: &[usize], to: &[usize]) -> Result<Wires> {
    let view = View::new(wires, from).broadcast(to);
    Ok(view.ok_or_else(|| Diagnostic::bug("operands broadcast"))?.to_vec())
}

/// Input positions (with their tap) that one output position of a window reads.
fn taps(window: &Window, out: &[usize], input: &[usize]) -> Vec<(usize, usize)> {
    let mut taps = vec![(0, 0)];
    for axis in 0..window.rank() {
        let mut next = Vec::new();
        for &(offset, tap) in &taps {
            for t in window.taps(axis, out[axis], input[axis]) {
                let padded = out[axis] * window.strides[axis] + t * window.dilations[axis];
                let at = padded - window.pads[axis].0;
                next.push((offset * input[axis] + at, tap * window.kernel[axis] + t));
            }
        }
        taps = next;
    }
    taps
}

/// Every index of the given extents, row-major.
fn positions(extents: &[usize]) -> Vec<Shape> {
    extents.iter().fold(vec![Shape::new()], |all, &extent| {
        let longer = |index: &Shape, i: usize| index.iter().copied().chain([i]).collect();
        all.iter().flat_map(|index| (0..extent).map(move |i| longer(index, i))).collect()
    })
}

struct ConvLayer<'a> {
    conv: &'a Conv,
    x: &'a Wires,
    x_shape: &'a [usize],
    w: &'a [Dyadic],
    w_shape: &'a [usize],
    bias: Option<Vec<Dyadic>>,
}

impl ConvLayer<'_> {
    fn lower(&self, builder: &mut Builder<'_>, shape: &[usize]) -> Result<Wires> {
        let input = &self.x_shape[2..];
        let positions: Vec<_> =
            positions(&shape[2..]).iter().map(|out| taps(&self.conv.window, out, input)).collect();
        let mut result = Vec::new();
        for n in 0..shape[0] {
            for m in 0..shape[1] {
                for taps in &positions {
                    let bias = self.bias.as_ref().map_or(Dyadic::ZERO, |bias| bias[m].clone());
                    result.push(sum(builder, &self.terms(n, m, taps), &bias)?);
                }
            }
        }
        Ok(result)
    }

    fn terms(&self, n: usize, m: usize, taps: &[(usize, usize)]) -> Vec<(Wire, Dyadic)> {
        let (filters, depth) = (self.w_shape[0], self.w_shape[1]);
        let plane: usize = self.x_shape[2..].iter().product();
        let kernel: usize = self.w_shape[2..].iter().product();
        let first_channel = m / (filters / self.conv.groups) * depth;
        let mut terms = Vec::with_capacity(depth * taps.len());
        for c in 0..depth {
            for &(source, tap) in taps {
                let x = &self.x[(n * self.x_shape[1] + first_channel + c) * plane + source];
                terms.push((x.clone(), self.w[(m * depth + c) * kernel + tap].clone()));
            }
        }
        terms
    }
}

/// A product of two matrices, or of matrices along outer axes.
struct MatrixProduct<'a> {
    a: View<'a, Wire>,
    b: View<'a, Wire>,
}

impl MatrixProduct<'_> {
    fn lower(&self, builder: &mut Builder<'_>, shape: &[usize]) -> Result<Wires> {
        // A vector on the left is a row, on the right a column.
        let a_is_vector = self.a.shape().len() == 1;
        let b_is_vector = self.b.shape().len() == 1;
        let depth = self.a.shape().last().copied().unwrap_or(0);
        let mut result = Vec::new();
        for out in positions(shape) {
            let split = out.len() - usize::from(!a_is_vector) - usize::from(!b_is_vector);
            let (outer, inner) = out.split_at(split);
            let row = (!a_is_vector).then(|| inner[0]);
            let column = (!b_is_vector).then(|| inner[inner.len() - 1]);
            let mut products = Vec::with_capacity(depth);
            for k in 0..depth {
                let a = self.a.at(&element(self.a.shape(), outer, row, k, false));
                let b = self.b.at(&element(self.b.shape(), outer, column, k, true));
                products.push((a, b));
            }
            result.push(dot(builder, &products)?);
        }
        Ok(result)
    }
}

/// Index of an operand's element; outer axes of extent 1 broadcast.
fn element(
    shape: &[usize],
    outer: &[usize],
    other: Option<usize>,
    k: usize,
    k_first: bool,
) -> Shape {
    let inner_rank = 1 + usize::from(other.is_some());
    let outer_rank = shape.len() - inner_rank;
    let skipped = outer.len() - outer_rank;
    let mut index: Shape = (0..outer_rank)
        .map(|axis| if shape[axis] == 1 { 0 } else { outer[skipped + axis] })
        .collect();
    match (other, k_first) {
        (None, _) => index.push(k),
        (Some(column), true) => index.extend([k, column]),
        (Some(row), false) => index.extend([row, k]),
    }
    index
}

/// A sum of products, of which those with a constant factor are shift-adds.
fn dot(builder: &mut Builder<'_>, products: &[(Wire, Wire)]) -> Result<Wire> {
    let mut terms = Vec::new();
    let one = Dyadic::new(quincunx_num::Int::ONE, 0);
    for (a, b) in products {
        terms.push(match (a, b) {
            (wire, Wire::Constant(weight)) | (Wire::Constant(weight), wire) => {
                (wire.clone(), weight.clone())
            }
            _ => (builder.multiply(a, b)?, one.clone()),
        });
    }
    sum(builder, &terms, &Dyadic::ZERO)
}

fn lower_gemm(
    builder: &mut Builder<'_>,
    gemm: &Gemm,
    node: &Node,
    graph: &Graph,
    operands: &[Option<&Wires>],
) -> Result<Wires> {
    let oriented = |index: usize, transpose: bool| {
        let wires = operands[index].ok_or_else(|| Diagnostic::bug("an operand is absent"))?;
        let shape = node.input(index).map_or(&[][..], |id| &graph[id].shape[..]);
        let view = View::new(wires, shape);
        Ok(if transpose { view.permute(&[1, 0]) } else { view })
    };
    let product =
        MatrixProduct { a: oriented(0, gemm.transpose_a)?, b: oriented(1, gemm.transpose_b)? };
    let shape = &graph[node.output].shape[..];
    let products = product.lower(builder, shape)?;
    let alpha = Wire::Constant(factor(gemm.alpha)?);
    let beta = Wire::Constant(factor(gemm.beta)?);
    let addends = match (operands.get(2).copied().flatten(), node.input(2)) {
        (Some(c), Some(id)) => broadcast(c, &graph[id].shape, shape)?,
        _ => vec![Wire::zero(); products.len()],
    };
    products
        .iter()
        .zip(&addends)
        .map(|(product, addend)| {
            let product = builder.multiply(product, &alpha)?;
            let addend = builder.multiply(addend, &beta)?;
            builder.add(&product, &addend)
        })
        .collect()
}

fn factor(value: f32) -> Result<Dyadic> {
    Dyadic::from_f64(f64::from(value)).ok_or_else(|| Diagnostic::bug("the factor is finite"))
}

fn lower_pool(
    builder: &mut Builder<'_>,
    pool: &Pool,
    x: &Wires,
    x_shape: &[usize],
    shape: &[usize],
) -> Result<Wires> {
    let plane: usize = x_shape[2..].iter().product();
    let positions = positions(&shape[2..]);
    let mut result = Vec::new();
    for p in 0..shape[0] * shape[1] {
        for out in &positions {
            let taps = taps(&pool.window, out, &x_shape[2..]);
            let elements: Vec<&Wire> =
                taps.iter().map(|&(source, _)| &x[p * plane + source]).collect();
            result.push(match pool.kind {
                PoolKind::Max => max_of(builder, &elements)?,
                PoolKind::Average { .. } => {
                    let divisor = average_divisor(pool, out, &x_shape[2..]);
                    mean(builder, &elements, divisor)?
                }
            });
        }
    }
    Ok(result)
}

/// The number by which an average at this position divides.
pub(super) fn average_divisor(pool: &Pool, out: &[usize], input: &[usize]) -> usize {
    let window = &pool.window;
    let include = pool.kind == PoolKind::Average { count_include_pad: true };
    let counted = |axis: usize| {
        let (before, after) = window.pads[axis];
        let end = before + input[axis] + if include { after } else { 0 };
        let start = if include { 0 } else { before };
        let at = |tap: usize| out[axis] * window.strides[axis] + tap * window.dilations[axis];
        (0..window.kernel[axis]).filter(|&tap| (start..end).contains(&at(tap))).count()
    };
    (0..window.rank()).map(counted).product::<usize>().max(1)
}

fn max_of(builder: &mut Builder<'_>, elements: &[&Wire]) -> Result<Wire> {
    let mut level: Vec<Wire> = elements.iter().map(|&wire| wire.clone()).collect();
    while level.len() > 1 {
        let mut next = Vec::with_capacity(level.len().div_ceil(2));
        for pair in level.chunks(2) {
            next.push(match pair {
                [a, b] => builder.max(a, b)?,
                rest => rest[0].clone(),
            });
        }
        level = next;
    }
    level.pop().ok_or_else(|| Diagnostic::bug("a window has an element"))
}

/// The mean of the elements, for a divisor that is a power of two.
fn mean(builder: &mut Builder<'_>, elements: &[&Wire], divisor: usize) -> Result<Wire> {
    let one = Dyadic::new(quincunx_num::Int::ONE, 0);
    let terms: Vec<_> = elements.iter().map(|&wire| (wire.clone(), one.clone())).collect();
    let shift = i32::try_from(divisor.trailing_zeros()).unwrap_or(0);
    Ok(sum(builder, &terms, &Dyadic::ZERO)?.shifted(-shift))
}

fn lower_global_average(
    builder: &mut Builder<'_>,
    x: &Wires,
    x_shape: &[usize],
    shape: &[usize],
) -> Result<Wires> {
    let plane: usize = x_shape[2..].iter().product();
    (0..shape[0] * shape[1])
        .map(|p| mean(builder, &x[p * plane..][..plane].iter().collect::<Vec<_>>(), plane))
        .collect()
}

fn lower_unary(builder: &mut Builder<'_>, unary: Unary, x: &Wire) -> Result<Wire> {
    match unary {
        Unary::Relu => builder.relu(x),
        Unary::Neg => Ok(x.negated()),
        Unary::Abs => builder.max(x, &x.negated()),
        Unary::Sign
        | Unary::Not
        | Unary::Sqrt
        | Unary::Reciprocal
        | Unary::Exp
        | Unary::Log
        | Unary::Erf
        | Unary::Floor
        | Unary::Ceil
        | Unary::Round
        | Unary::Sigmoid
        | Unary::HardSwish
        | Unary::Tanh
        | Unary::Gelu
        | Unary::GeluTanh
        | Unary::Softplus
        | Unary::Sin
        | Unary::Cos
        | Unary::Tan
        | Unary::Atan => Err(Diagnostic::bug(format!("{} is never claimed", unary.name()))),
    }
}

fn lower_binary(builder: &mut Builder<'_>, binary: Binary, a: &Wire, b: &Wire) -> Result<Wire> {
    match binary {
        Binary::Add => builder.add(a, b),
        Binary::Sub => builder.subtract(a, b),
        Binary::Mul => builder.multiply(a, b),
        Binary::Max => builder.max(a, b),
        Binary::Min => builder.min(a, b),
        Binary::Div => match b {
            Wire::Constant(divisor) => divide(builder, a, divisor),
            Wire::Slot { .. } => Err(Diagnostic::bug("the divisor is constant")),
        },
        Binary::Pow => Err(Diagnostic::bug("Pow is never claimed")),
    }
}

/// `a / divisor` for a divisor that is a power of two, or its negative.
fn divide(builder: &mut Builder<'_>, a: &Wire, divisor: &Dyadic) -> Result<Wire> {
    let negative = divisor.mantissa() < &quincunx_num::Int::ZERO;
    let quotient = a.shifted(-divisor.exponent());
    let quotient = if negative { quotient.negated() } else { quotient };
    // Constants need no operation; others keep their slot.
    builder.add(&quotient, &Wire::zero())
}
