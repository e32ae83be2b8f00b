//! The golden model: what each layer computes in this machine's arithmetic.
//!
//! A tensor is integers in units of one power of two. Sums and products grow as they need, since
//! the machine's exact widths never overflow; quantisers round and then wrap or saturate. Written
//! from the meaning of the layers, with plain loops; no instruction and no part of the graph's own
//! executor is used.

mod movement;
mod numeric;

use quincunx_diag::{Diagnostic, Place, Result};
use quincunx_graph::{Binary, Conv, Gemm, Graph, Node, Op, Pool, PoolKind, Value, Window};
use quincunx_num::{Dyadic, Int, round_shift, shift_floor};
use quincunx_target::Numerics;
use quincunx_tensor::{Tensor, Tensors, show_shape};
use serde_json::json;

/// The numerics of every program of this target: nothing is rounded between quantisers.
pub(crate) fn numerics() -> Numerics {
    Numerics(json!({ "sums": "exact" }))
}

/// Fixed-point numbers: element `i` is `codes[i] * 2^exponent`.
#[derive(Clone)]
struct Fixed {
    shape: Vec<usize>,
    codes: Vec<Int>,
    exponent: i32,
}

/// Every input and node result of the graph as real numbers, by value name.
///
/// # Errors
/// `Q1124` for numerics of another kind or inputs that do not fit.
pub(crate) fn golden(graph: &Graph, numerics: &Numerics, inputs: &Tensors) -> Result<Tensors> {
    if *numerics != self::numerics() {
        return Err(Diagnostic::invalid("Q1124", "these numerics are not those of a dais program"));
    }
    let mut values: Vec<Option<Fixed>> = vec![None; graph.values().len()];
    for (id, value) in graph.values() {
        if value.constant.is_some() {
            values[id.index()] = Some(constant(value)?);
        }
    }
    let mut result = Tensors::new();
    for &id in graph.inputs() {
        let value = input(&graph[id], inputs)?;
        result.insert(graph[id].name.clone(), to_tensor(&value)?);
        values[id.index()] = Some(value);
    }
    for (_, node) in graph.nodes() {
        let operands: Vec<Option<&Fixed>> =
            node.inputs.iter().map(|i| i.and_then(|i| values[i.index()].as_ref())).collect();
        let value = layer(node, &operands, &graph[node.output].shape).map_err(|p| {
            p.at(Place::Node {
                name: node.name.clone(),
                op: node.op.name().to_owned(),
                operands: String::new(),
            })
        })?;
        result.insert(graph[node.output].name.clone(), to_tensor(&value)?);
        values[node.output.index()] = Some(value);
    }
    Ok(result)
}

fn to_tensor(value: &Fixed) -> Result<Tensor> {
    let reals = value.codes.iter().map(|c| Dyadic::new(c.clone(), value.exponent).to_f64());
    Tensor::from_vec(&value.shape, reals.collect::<Vec<f64>>())
}

/// Real numbers in units of their smallest bit.
fn from_reals(shape: &[usize], reals: &[f64]) -> Result<Fixed> {
    let exact: Option<Vec<Dyadic>> = reals.iter().map(|&v| Dyadic::from_f64(v)).collect();
    let exact = exact
        .ok_or_else(|| Diagnostic::invalid("Q1124", "NaN and infinity have no fixed-point code"))?;
    let exponent = exact.iter().filter(|v| !v.is_zero()).map(Dyadic::exponent).min().unwrap_or(0);
    let codes = exact.iter().map(|v| v.in_units(exponent).unwrap_or_default()).collect();
    Ok(Fixed { shape: shape.to_vec(), codes, exponent })
}

fn input(value: &Value, inputs: &Tensors) -> Result<Fixed> {
    let tensor = inputs.get(&value.name).ok_or_else(|| {
        Diagnostic::invalid("Q1124", format!("input \"{}\" is not given", value.name))
    })?;
    if tensor.shape() != &value.shape[..] {
        return Err(Diagnostic::invalid(
            "Q1124",
            format!(
                "input \"{}\" has shape {}, expected {}",
                value.name,
                show_shape(tensor.shape()),
                show_shape(&value.shape)
            ),
        ));
    }
    from_reals(tensor.shape(), &tensor.to_f64())
}

fn constant(value: &Value) -> Result<Fixed> {
    let bug = || Diagnostic::bug("a claimed constant is fixed point");
    let constant = value.constant.as_ref().ok_or_else(bug)?;
    let Some(quantiser) = &constant.quantiser else {
        return from_reals(&value.shape, &constant.tensor.to_f64());
    };
    let codes = constant.tensor.to_i64().ok_or_else(bug)?;
    let scalars = quantiser.scalars(&value.shape).ok_or_else(bug)?;
    let scales: Vec<Dyadic> =
        scalars.iter().map(|s| Dyadic::from_f64(s.scale).ok_or_else(bug)).collect::<Result<_>>()?;
    let exponent = scales.iter().map(Dyadic::exponent).min().unwrap_or(0);
    let codes = codes
        .iter()
        .zip(scalars.iter().zip(&scales))
        .map(|(&code, (scalar, scale))| {
            let steps = Int::from(code) - Int::from(scalar.zero);
            shift_floor(
                &(steps * scale.mantissa()),
                i64::from(scale.exponent()) - i64::from(exponent),
            )
        })
        .collect();
    Ok(Fixed { shape: value.shape.to_vec(), codes, exponent })
}

fn layer(node: &Node, operands: &[Option<&Fixed>], shape: &[usize]) -> Result<Fixed> {
    let operand = |index: usize| {
        operands
            .get(index)
            .copied()
            .flatten()
            .ok_or_else(|| Diagnostic::bug("an operand is absent"))
    };
    let x = operand(0)?;
    let c = operands.get(2).copied().flatten();
    Ok(match &node.op {
        Op::Identity => x.clone(),
        Op::Flatten { .. } | Op::Reshape { .. } => Fixed { shape: shape.to_vec(), ..x.clone() },
        Op::Transpose { order } => transpose(x, order),
        Op::Quantise(quantiser) => {
            let scalars = quantiser
                .scalars(shape)
                .ok_or_else(|| Diagnostic::bug("the quantiser broadcasts"))?;
            quantise(x, &scalars)?
        }
        Op::Conv(conv) => convolution(conv, x, operand(1)?, c, shape)?,
        Op::Gemm(gemm) => general_product(gemm, x, operand(1)?, c, shape)?,
        Op::MatMul => matrix_product(x, operand(1)?, shape),
        Op::Pool(pool) => pooling(pool, x, shape),
        Op::GlobalAveragePool => global_average(x, shape),
        Op::GlobalMaxPool => numeric::global_max(x, shape),
        Op::Unary(unary) => numeric::sign_operator(*unary, x)?,
        Op::Activation(activation) => numeric::activation(*activation, x)?,
        Op::PRelu => numeric::prelu(x, operand(1)?)?,
        Op::Where => numeric::choose(x, operand(1)?, operand(2)?, shape),
        Op::Reduce(reduce) => numeric::reduce(reduce, x, shape)?,
        Op::Binary(binary) => elementwise(*binary, x, operand(1)?, shape)?,
        Op::Concat { .. }
        | Op::Slice { .. }
        | Op::Pad(_)
        | Op::Gather { .. }
        | Op::Expand { .. }
        | Op::Tile { .. }
        | Op::Resize(_) => movement::moved(node, operands, shape)?,
        Op::ConvTranspose(conv) => {
            movement::transposed_convolution(conv, x, operand(1)?, c, shape)?
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
        | Op::Lrn(_) => {
            return Err(Diagnostic::bug(format!("{} is never claimed", node.op.name())));
        }
    })
}

/// Rounds to the quantiser's step, then wraps or saturates.
fn quantise(x: &Fixed, scalars: &[quincunx_graph::Scalar]) -> Result<Fixed> {
    let steps: Vec<i32> = scalars
        .iter()
        .map(|s| Dyadic::from_f64(s.scale).and_then(|d| d.log2()))
        .collect::<Option<_>>()
        .ok_or_else(|| Diagnostic::bug("a claimed quantiser is fixed point"))?;
    let exponent = steps.iter().copied().min().unwrap_or(0);
    let codes = x
        .codes
        .iter()
        .zip(scalars.iter().zip(&steps))
        .map(|(code, (scalar, &step))| {
            let rounded =
                round_shift(code, i64::from(step) - i64::from(x.exponent), scalar.rounding);
            let kept = scalar.overflow.apply(&rounded, scalar.signed, scalar.width);
            shift_floor(&kept, i64::from(step) - i64::from(exponent))
        })
        .collect();
    Ok(Fixed { shape: x.shape.clone(), codes, exponent })
}

/// The same numbers in a finer unit.
fn align(x: &Fixed, exponent: i32) -> Vec<Int> {
    let shift = i64::from(x.exponent) - i64::from(exponent);
    x.codes.iter().map(|code| shift_floor(code, shift)).collect()
}

/// Row-major offset of `index` in `shape`, aligned at the innermost axis; extents of 1 repeat.
fn offset(index: &[usize], shape: &[usize]) -> usize {
    let skipped = index.len() - shape.len();
    let mut offset = 0;
    for (axis, &extent) in shape.iter().enumerate() {
        offset = offset * extent + if extent == 1 { 0 } else { index[skipped + axis] };
    }
    offset
}

/// The multi-index of a row-major position.
fn index_of(mut position: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        index[axis] = position % shape[axis];
        position /= shape[axis];
    }
    index
}

fn transpose(x: &Fixed, order: &[usize]) -> Fixed {
    let shape: Vec<usize> = order.iter().map(|&axis| x.shape[axis]).collect();
    let codes = (0..x.codes.len())
        .map(|position| {
            let out = index_of(position, &shape);
            let mut source = vec![0; out.len()];
            order.iter().zip(&out).for_each(|(&axis, &i)| source[axis] = i);
            x.codes[offset(&source, &x.shape)].clone()
        })
        .collect();
    Fixed { shape, codes, exponent: x.exponent }
}

fn elementwise(binary: Binary, a: &Fixed, b: &Fixed, shape: &[usize]) -> Result<Fixed> {
    let count: usize = shape.iter().product();
    let pick = |codes: &[Int], from: &[usize], position: usize| {
        codes[offset(&index_of(position, shape), from)].clone()
    };
    if binary == Binary::Div {
        return divide(a, b, shape);
    }
    if binary == Binary::Mul {
        let product = |p| pick(&a.codes, &a.shape, p) * pick(&b.codes, &b.shape, p);
        let codes = (0..count).map(product).collect();
        return Ok(Fixed { shape: shape.to_vec(), codes, exponent: a.exponent + b.exponent });
    }
    let exponent = a.exponent.min(b.exponent);
    let (x, y) = (align(a, exponent), align(b, exponent));
    let codes = (0..count)
        .map(|position| {
            let (x, y) = (pick(&x, &a.shape, position), pick(&y, &b.shape, position));
            match binary {
                Binary::Add => x + y,
                Binary::Sub => x - y,
                Binary::Max => x.max(y),
                _ => x.min(y),
            }
        })
        .collect();
    Ok(Fixed { shape: shape.to_vec(), codes, exponent })
}

/// Division by powers of two, or their negatives.
fn divide(a: &Fixed, b: &Fixed, shape: &[usize]) -> Result<Fixed> {
    let bug = || Diagnostic::bug("a claimed divisor is a power of two");
    let mut quotients = Vec::new();
    for position in 0..shape.iter().product() {
        let index = index_of(position, shape);
        let divisor = Dyadic::new(b.codes[offset(&index, &b.shape)].clone(), b.exponent);
        let numerator = Dyadic::new(a.codes[offset(&index, &a.shape)].clone(), a.exponent);
        let sign = Int::from(if divisor.mantissa() < &Int::ZERO { -1 } else { 1 });
        if divisor.mantissa() * &sign != Int::ONE {
            return Err(bug());
        }
        quotients.push(numerator.mul(&Dyadic::new(sign, -divisor.exponent())));
    }
    let exponent =
        quotients.iter().filter(|q| !q.is_zero()).map(Dyadic::exponent).min().unwrap_or(0);
    let codes =
        quotients.iter().map(|q| q.in_units(exponent).ok_or_else(bug)).collect::<Result<_>>()?;
    Ok(Fixed { shape: shape.to_vec(), codes, exponent })
}

/// Adds a bias that broadcasts to the sums.
fn add_bias(sums: Fixed, bias: Option<Fixed>) -> Result<Fixed> {
    match bias {
        Some(bias) => {
            let shape = sums.shape.clone();
            elementwise(Binary::Add, &sums, &bias, &shape)
        }
        None => Ok(sums),
    }
}

/// Input offsets and taps that a window reads at one output position.
fn window_reads(window: &Window, out: &[usize], input: &[usize]) -> Vec<(usize, usize)> {
    let mut reads = vec![(0, 0)];
    for axis in 0..input.len() {
        // Positions along this axis that lie in the input, with their taps.
        let inside: Vec<(usize, usize)> = (0..window.kernel[axis])
            .filter_map(|tap| {
                let padded = out[axis] * window.strides[axis] + tap * window.dilations[axis];
                let position = padded.checked_sub(window.pads[axis].0)?;
                (position < input[axis]).then_some((position, tap))
            })
            .collect();
        reads = reads
            .iter()
            .flat_map(|&(offset, taps)| {
                inside.iter().map(move |&(position, tap)| {
                    (offset * input[axis] + position, taps * window.kernel[axis] + tap)
                })
            })
            .collect();
    }
    reads
}

fn convolution(
    conv: &Conv,
    x: &Fixed,
    w: &Fixed,
    bias: Option<&Fixed>,
    shape: &[usize],
) -> Result<Fixed> {
    let input = &x.shape[2..];
    let (plane, taps): (usize, usize) = (input.iter().product(), w.shape[2..].iter().product());
    let (filters, depth) = (w.shape[0], w.shape[1]);
    let mut codes = Vec::new();
    for n in 0..shape[0] {
        for m in 0..filters {
            let group = m / (filters / conv.groups);
            for position in 0..shape[2..].iter().product() {
                let reads = window_reads(&conv.window, &index_of(position, &shape[2..]), input);
                let mut sum = Int::ZERO;
                for c in 0..depth {
                    for &(source, tap) in &reads {
                        let channel = n * x.shape[1] + group * depth + c;
                        sum += &x.codes[channel * plane + source]
                            * &w.codes[(m * depth + c) * taps + tap];
                    }
                }
                codes.push(sum);
            }
        }
    }
    let sums = Fixed { shape: shape.to_vec(), codes, exponent: x.exponent + w.exponent };
    let bias = bias.map(|b| {
        let mut per_channel = vec![1; shape.len() - 1];
        per_channel[0] = filters;
        Fixed { shape: per_channel, ..b.clone() }
    });
    add_bias(sums, bias)
}

/// `sum over k of a[.., i, k] * b[.., k, j]`; a vector on the left has no `i`, on the right no `j`.
fn matrix_product(a: &Fixed, b: &Fixed, shape: &[usize]) -> Fixed {
    let depth = a.shape.last().copied().unwrap_or(0);
    let (has_row, has_column) = (a.shape.len() > 1, b.shape.len() > 1);
    let inner = usize::from(has_row) + usize::from(has_column);
    let codes = (0..shape.iter().product())
        .map(|position| {
            let out = index_of(position, shape);
            let (outer, inner) = out.split_at(out.len() - inner);
            let mut sum = Int::ZERO;
            for k in 0..depth {
                let mut at_a = outer.to_vec();
                at_a.extend(has_row.then(|| inner[0]));
                at_a.push(k);
                let mut at_b = outer.to_vec();
                at_b.push(k);
                at_b.extend(has_column.then(|| inner[inner.len() - 1]));
                sum += &a.codes[offset(&at_a, &a.shape)] * &b.codes[offset(&at_b, &b.shape)];
            }
            sum
        })
        .collect();
    Fixed { shape: shape.to_vec(), codes, exponent: a.exponent + b.exponent }
}

fn general_product(
    gemm: &Gemm,
    a: &Fixed,
    b: &Fixed,
    c: Option<&Fixed>,
    shape: &[usize],
) -> Result<Fixed> {
    let a = if gemm.transpose_a { transpose(a, &[1, 0]) } else { a.clone() };
    let b = if gemm.transpose_b { transpose(b, &[1, 0]) } else { b.clone() };
    let scaled = |x: Fixed, factor: f32| {
        let factor = Dyadic::from_f64(f64::from(factor))
            .ok_or_else(|| Diagnostic::bug("the factor is finite"))?;
        let codes = x.codes.iter().map(|code| code * factor.mantissa()).collect();
        Ok(Fixed { codes, exponent: x.exponent + factor.exponent(), ..x })
    };
    let sums = scaled(matrix_product(&a, &b, shape), gemm.alpha)?;
    add_bias(sums, c.map(|c| scaled(c.clone(), gemm.beta)).transpose()?)
}

fn pooling(pool: &Pool, x: &Fixed, shape: &[usize]) -> Fixed {
    let input = &x.shape[2..];
    let plane: usize = input.iter().product();
    let mut means = Vec::new();
    for p in 0..shape[0] * shape[1] {
        for position in 0..shape[2..].iter().product() {
            let out = index_of(position, &shape[2..]);
            let reads = window_reads(&pool.window, &out, input);
            let elements = reads.iter().map(|&(source, _)| x.codes[p * plane + source].clone());
            means.push(match pool.kind {
                PoolKind::Max => (elements.max().unwrap_or_default(), 1),
                PoolKind::Average { count_include_pad } => {
                    let count = if count_include_pad {
                        padded_count(pool, &out, input)
                    } else {
                        reads.len()
                    };
                    (elements.sum(), count)
                }
            });
        }
    }
    in_common_unit(shape, x.exponent, &means)
}

/// Taps that lie in the input or its padding.
fn padded_count(pool: &Pool, out: &[usize], input: &[usize]) -> usize {
    let window = &pool.window;
    let along = |axis: usize| {
        let end = window.pads[axis].0 + input[axis] + window.pads[axis].1;
        let at = |tap: usize| out[axis] * window.strides[axis] + tap * window.dilations[axis];
        (0..window.kernel[axis]).filter(|&tap| at(tap) < end).count()
    };
    (0..input.len()).map(along).product()
}

/// Sums divided by their counts, which are powers of two, in one unit.
fn in_common_unit(shape: &[usize], exponent: i32, means: &[(Int, usize)]) -> Fixed {
    let log2 = |count: usize| i32::try_from(count.max(1).trailing_zeros()).unwrap_or(0);
    let deepest = means.iter().map(|&(_, count)| log2(count)).max().unwrap_or(0);
    let codes = means
        .iter()
        .map(|(sum, count)| shift_floor(sum, i64::from(deepest - log2(*count))))
        .collect();
    Fixed { shape: shape.to_vec(), codes, exponent: exponent - deepest }
}

fn global_average(x: &Fixed, shape: &[usize]) -> Fixed {
    let plane: usize = x.shape[2..].iter().product();
    let means: Vec<(Int, usize)> =
        x.codes.chunks(plane.max(1)).map(|p| (p.iter().sum(), plane)).collect();
    in_common_unit(shape, x.exponent, &means)
}
