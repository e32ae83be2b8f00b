//! The golden model: what each layer computes in this machine's arithmetic.
//!
//! A tensor is integers in units of one fraction. Sums and products grow as they need, since the
//! machine's exact widths never overflow; quantisers round and then wrap or saturate. Functions
//! without an exact result are computed in f64 and rounded to the float type of the network, and so
//! is every operator on what they give. Written from the meaning of the layers, with plain loops; no
//! instruction and no part of the graph's own executor is used.

mod function;
mod linear;
mod movement;
mod numeric;
mod softmax;
mod truth;

use quincunx_contract::golden::{Layers, Values, Walk};
use quincunx_contract::{Golden, Numerics};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Binary, Graph, Node, Op, Pool, PoolKind, Value};
use quincunx_num::{Dyadic, Int, Overflow, Ratio, round_ratio};
use quincunx_tensor::DType;
use serde_json::json;

/// The numerics of a program of this target: nothing is rounded between quantisers but in a
/// softmax, whose results are right to so many bits.
pub(crate) fn numerics(softmax_bits: u32) -> Numerics {
    Numerics(json!({ "sums": "exact", "softmax_bits": softmax_bits }))
}

/// Exact numbers: element `i` is `codes[i] * unit`.
#[derive(Clone)]
struct Fixed {
    shape: Vec<usize>,
    codes: Vec<Int>,
    /// Positive.
    unit: Ratio,
    /// They come from a function without an exact result: operators on them round.
    float: bool,
}

impl Fixed {
    /// Numbers in their greatest common unit of the form `1 / n`.
    fn of(shape: &[usize], numbers: &[Ratio], float: bool) -> Fixed {
        let mut common = Int::ONE;
        for number in numbers {
            let own = Int::from(number.denominator().clone());
            common = &common / divisor(&common, &own) * own;
        }
        let scale = Ratio::from(common.clone());
        let codes = numbers.iter().map(|v| (v * &scale).numerator().clone()).collect();
        let unit = Ratio::from_parts_signed(Int::ONE, common);
        Fixed { shape: shape.to_vec(), codes, unit, float }
    }

    fn numbers(&self) -> impl Iterator<Item = Ratio> + '_ {
        self.codes.iter().map(|code| Ratio::from(code.clone()) * &self.unit)
    }

    /// The number that broadcasting puts at a position of a larger shape.
    fn at(&self, index: &[usize]) -> Ratio {
        Ratio::from(self.codes[offset(index, &self.shape)].clone()) * &self.unit
    }
}

/// The greatest common divisor of two positive integers.
fn divisor(a: &Int, b: &Int) -> Int {
    let (mut a, mut b) = (a.clone(), b.clone());
    while b != Int::ZERO {
        (a, b) = (b.clone(), a % b);
    }
    a
}

/// The golden model of a graph.
///
/// # Errors
/// `Q1124` for numerics of another kind.
pub(crate) fn prepare(graph: &Graph, numerics: &Numerics) -> Result<Box<dyn Golden>> {
    let bits = numerics.0.get("softmax_bits").and_then(serde_json::Value::as_u64);
    let bits = bits.and_then(|bits| u32::try_from(bits).ok());
    match bits.filter(|bits| (1..=32).contains(bits) && *numerics == self::numerics(*bits)) {
        Some(bits) => Ok(Box::new(Walk::new(graph, Fractions { bits })?)),
        None => {
            let message = "these numerics are not those of a dais program";
            Err(Diagnostic::invalid("Q1124", message))
        }
    }
}

/// Layers on exact fractions.
struct Fractions {
    /// Bits of a softmax.
    bits: u32,
}

impl Layers for Fractions {
    type Number = Fixed;

    fn constant(&self, value: &Value) -> Result<Option<Fixed>> {
        constant(value).map(Some)
    }

    fn input(&self, value: &Value, reals: &[f64]) -> Result<Fixed> {
        from_reals(&value.shape, reals)
    }

    fn layer(&self, node: &Node, values: &Values<'_, Fixed>) -> Result<Fixed> {
        let operands: Vec<Option<&Fixed>> =
            (0..node.inputs.len()).map(|index| values.operand(node, index)).collect();
        let graph = values.graph;
        let types: Vec<Option<DType>> =
            node.inputs.iter().map(|i| i.map(|i| graph[i].dtype)).collect();
        let Value { dtype, shape, .. } = &graph[node.output];
        let job = Job { types: &types, dtype: *dtype, shape, bits: self.bits };
        let result = match graph.movement(node) {
            Some(sources) => movement::moved(&sources, &operands, shape)?,
            None => layer(node, &operands, &job)?,
        };
        Ok(typed(result, *dtype))
    }

    fn reals(&self, value: &Fixed) -> Option<Vec<f64>> {
        let nearest = |number: Ratio| match Dyadic::from_ratio(&number) {
            Some(number) => number.to_f64(),
            None => number.to_f64().value(),
        };
        Some(value.numbers().map(nearest).collect())
    }
}

/// What a layer needs to know besides its operands.
struct Job<'a> {
    /// Types of the operands.
    types: &'a [Option<DType>],
    /// Type of the result.
    dtype: DType,
    /// Shape of the result.
    shape: &'a [usize],
    /// Bits of a softmax.
    bits: u32,
}

/// Integers wrap into their type; floats that were rounded are rounded again.
fn typed(value: Fixed, dtype: DType) -> Fixed {
    if dtype.is_float() {
        return match value.float {
            true => {
                let rounded: Vec<Ratio> =
                    value.numbers().map(|v| function::rounded(&v, dtype)).collect();
                Fixed::of(&value.shape, &rounded, true)
            }
            false => value,
        };
    }
    let Some((signed, width)) = truth::integers(dtype) else { return value };
    let wrap = |number: Ratio| {
        Overflow::Wrap.apply(&round_ratio(&number, quincunx_num::Rounding::Floor), signed, width)
    };
    let codes = value.numbers().map(wrap).collect();
    Fixed { codes, unit: Ratio::ONE, ..value }
}

/// Real numbers in units of their smallest bit.
fn from_reals(shape: &[usize], reals: &[f64]) -> Result<Fixed> {
    let exact: Option<Vec<Dyadic>> = reals.iter().map(|&v| Dyadic::from_f64(v)).collect();
    let exact = exact
        .ok_or_else(|| Diagnostic::invalid("Q1124", "NaN and infinity have no fixed-point code"))?;
    let exponent = exact.iter().filter(|v| !v.is_zero()).map(Dyadic::exponent).min().unwrap_or(0);
    let codes = exact
        .iter()
        .map(|v| v.in_units(exponent).expect("the smallest exponent divides all"))
        .collect();
    let unit = Dyadic::new(Int::ONE, exponent).to_ratio();
    Ok(Fixed { shape: shape.to_vec(), codes, unit, float: false })
}

fn constant(value: &Value) -> Result<Fixed> {
    let bug = || Diagnostic::bug("a claimed constant has exact values");
    let constant = value.constant.as_ref().ok_or_else(bug)?;
    let Some(quantiser) = &constant.quantiser else {
        if let Some(integers) = constant.tensor.to_i64() {
            let codes = integers.into_iter().map(Int::from).collect();
            let shape = value.shape.to_vec();
            return Ok(Fixed { shape, codes, unit: Ratio::ONE, float: false });
        }
        return from_reals(&value.shape, &constant.tensor.to_f64());
    };
    let codes = constant.tensor.to_i64().ok_or_else(bug)?;
    let scalars = quantiser.scalars(&value.shape).ok_or_else(bug)?;
    let real = |(&code, scalar): (&i64, &quincunx_graph::Scalar)| {
        Ratio::from(Int::from(code) - Int::from(scalar.zero)) * exact(scalar.scale)
    };
    let numbers: Vec<Ratio> = codes.iter().zip(&scalars).map(real).collect();
    Ok(Fixed::of(&value.shape, &numbers, false))
}

fn exact(value: f64) -> Ratio {
    Dyadic::from_f64(value).unwrap_or(Dyadic::ZERO).to_ratio()
}

fn layer(node: &Node, operands: &[Option<&Fixed>], job: &Job<'_>) -> Result<Fixed> {
    let shape = job.shape;
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
        Op::Quantise(quantiser) => {
            let steps = codes(quantiser, x, shape, false)?;
            reals(quantiser, &steps, shape, false)?
        }
        Op::ToCodes(quantiser) => codes(quantiser, x, shape, true)?,
        Op::FromCodes(quantiser) => reals(quantiser, x, shape, true)?,
        Op::Conv(conv) => linear::convolution(conv, x, operand(1)?, c, shape)?,
        Op::ConvTranspose(conv) => linear::transposed(conv, x, operand(1)?, c, shape)?,
        Op::Gemm(gemm) => linear::general_product(gemm, x, operand(1)?, c, shape)?,
        Op::MatMul => linear::matrix_product(x, operand(1)?, shape),
        Op::Pool(pool) => pooling(pool, x, shape),
        Op::GlobalAveragePool => numeric::global(x, shape, true),
        Op::GlobalMaxPool => numeric::global(x, shape, false),
        Op::BatchNorm(norm) => numeric::batch_norm(norm, operands, job)?,
        Op::Unary(unary) => function::unary(*unary, x, job.dtype)?,
        Op::Activation(activation) => function::activation(*activation, x, job.dtype)?,
        Op::PRelu => function::prelu(x, operand(1)?),
        Op::Binary(binary) => elementwise(*binary, x, operand(1)?, job)?,
        Op::Where => truth::choose(x, operand(1)?, operand(2)?, shape),
        Op::Compare(compare) => truth::compare(*compare, x, operand(1)?, shape),
        Op::Logic(logic) => truth::logic(*logic, x, operand(1)?, shape),
        Op::ArgExtreme(arg) => truth::arg_extreme(arg, x, shape),
        Op::Cast { to } | Op::CastUnbounded { to } => {
            truth::cast(x, job.types.first().copied().flatten(), *to)
        }
        Op::Softmax(layer) => softmax::softmax(layer, x, job.bits, job.dtype)?,
        Op::Reduce(reduce) => numeric::reduce(reduce, x, job)?,
        Op::Resize(resize) => movement::interpolated(resize, x, shape),
        Op::Identity
        | Op::Flatten { .. }
        | Op::Reshape { .. }
        | Op::Transpose { .. }
        | Op::Concat { .. }
        | Op::Slice { .. }
        | Op::Pad(_)
        | Op::Gather { .. }
        | Op::Expand { .. }
        | Op::Tile { .. } => {
            return Err(Diagnostic::bug("its elements come from unknown places"));
        }
        Op::Recurrent(_) | Op::LayerNorm(_) | Op::InstanceNorm(_) | Op::Lrn(_) => {
            return Err(Diagnostic::bug(format!("{} is never claimed", node.op.name())));
        }
    })
}

/// Rounds to the quantiser's step, adds the zero point, then wraps or saturates. The result counts
/// from the zero point unless whole codes are wanted.
fn codes(
    quantiser: &quincunx_graph::Quantiser,
    x: &Fixed,
    shape: &[usize],
    whole: bool,
) -> Result<Fixed> {
    let scalars = quantiser.scalars(shape);
    let scalars = scalars.ok_or_else(|| Diagnostic::bug("the quantiser broadcasts"))?;
    let code = |(number, scalar): (Ratio, &quincunx_graph::Scalar)| {
        let zero = Int::from(scalar.zero);
        let rounded = round_ratio(&(number / exact(scalar.scale)), scalar.rounding) + &zero;
        let kept = scalar.overflow.apply(&rounded, scalar.signed, scalar.width);
        if whole { kept } else { kept - zero }
    };
    let codes = x.numbers().zip(&scalars).map(code).collect();
    Ok(Fixed { shape: shape.to_vec(), codes, unit: Ratio::ONE, float: false })
}

/// Steps times scales; the zero point is taken off whole codes.
fn reals(
    quantiser: &quincunx_graph::Quantiser,
    steps: &Fixed,
    shape: &[usize],
    whole: bool,
) -> Result<Fixed> {
    let scalars = quantiser.scalars(shape);
    let scalars = scalars.ok_or_else(|| Diagnostic::bug("the quantiser broadcasts"))?;
    let real = |(step, scalar): (Ratio, &quincunx_graph::Scalar)| {
        let zero = Ratio::from(if whole { scalar.zero } else { 0 });
        (step - zero) * exact(scalar.scale)
    };
    let numbers: Vec<Ratio> = steps.numbers().zip(&scalars).map(real).collect();
    Ok(Fixed::of(shape, &numbers, false))
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

fn elementwise(binary: Binary, a: &Fixed, b: &Fixed, job: &Job<'_>) -> Result<Fixed> {
    let float = a.float || b.float;
    let (mut numbers, mut inexact) = (Vec::new(), float);
    for position in 0..job.shape.iter().product() {
        let index = index_of(position, job.shape);
        let (x, y) = (a.at(&index), b.at(&index));
        numbers.push(match binary {
            Binary::Add => x + y,
            Binary::Sub => x - y,
            Binary::Mul => x * y,
            Binary::Max => x.max(y),
            Binary::Min => x.min(y),
            Binary::Div if y.is_zero() => {
                return Err(Diagnostic::invalid(
                    "Q1124",
                    "a division by zero has no fixed-point code",
                ));
            }
            Binary::Div => x / y,
            Binary::Pow => {
                let whole = u32::try_from(y.numerator()).ok().filter(|&n| y.is_int() && n <= 64);
                match whole.filter(|_| !float) {
                    Some(power) => (0..power).fold(Ratio::ONE, |product, _| product * &x),
                    None => {
                        inexact = true;
                        let power = y.to_f64().value();
                        function::in_f64(&x, job.dtype, |base| base.powf(power))?
                    }
                }
            }
        });
    }
    Ok(Fixed::of(job.shape, &numbers, inexact))
}

fn pooling(pool: &Pool, x: &Fixed, shape: &[usize]) -> Fixed {
    let input = &x.shape[2..];
    let plane: usize = input.iter().product();
    let divisors = pool.divisors(input, &shape[2..]);
    let mut numbers = Vec::new();
    for p in 0..shape[0] * shape[1] {
        for (position, &divisor) in divisors.iter().enumerate() {
            let out = index_of(position, &shape[2..]);
            let reads = pool.window.reads(&out, input);
            let elements = reads.iter().map(|&(source, _)| x.codes[p * plane + source].clone());
            let (code, count) = match pool.kind {
                PoolKind::Max => (elements.max().unwrap_or_default(), 1),
                PoolKind::Average { .. } => (elements.sum(), divisor),
            };
            numbers.push(Ratio::from_parts(code, count.into()) * &x.unit);
        }
    }
    Fixed::of(shape, &numbers, x.float)
}
