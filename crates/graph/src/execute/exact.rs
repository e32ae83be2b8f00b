//! Exact arithmetic: a tensor is integers times one common fraction.
//!
//! Sums, products, pooling and constant divisions stay exact; numbers are rounded by quantisers
//! only, in the way the quantiser says.

#![deny(clippy::wildcard_enum_match_arm)]

mod elementwise;
mod movement;
mod reduce;

use super::window::{Number, Product, convolve, each_position, multiply, product_of};
use super::{Arithmetic, operand, unsupported};
use crate::{Binary, Conv, Gemm, Graph, Node, Op, Pool, PoolKind, Quantiser, Value};
use elementwise::{no_exact_result, parameter, wrapped};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Int, Ratio, round_quotient};
use quincunx_tensor::{DType, Shape, Tensor, View, element_count};

/// Exact real numbers: element `i` is `integers[i] * unit`.
///
/// Invariants: `unit` is positive, and there is one integer per element of `shape`.
#[derive(Clone, Debug, PartialEq)]
pub struct ExactTensor {
    shape: Shape,
    integers: Vec<Int>,
    unit: Ratio,
}

impl ExactTensor {
    /// Extents.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The integers, row-major.
    pub fn integers(&self) -> &[Int] {
        &self.integers
    }

    /// What one integer step is worth.
    pub fn unit(&self) -> &Ratio {
        &self.unit
    }

    /// The nearest f64 of every element; exact where an f64 can be.
    pub fn to_f64(&self) -> Vec<f64> {
        match Dyadic::from_ratio(&self.unit) {
            Some(unit) => self
                .integers
                .iter()
                .map(|v| Dyadic::new(v * unit.mantissa(), unit.exponent()).to_f64())
                .collect(),
            None => self
                .integers
                .iter()
                .map(|v| (Ratio::from(v.clone()) * &self.unit).to_f64().value())
                .collect(),
        }
    }

    /// Integers times a unit.
    pub(super) fn from_integers(shape: &[usize], integers: Vec<Int>, unit: &Ratio) -> Self {
        ExactTensor::new(shape, integers, unit.clone())
    }

    /// Numbers brought to their greatest common unit.
    pub(super) fn from_fractions(shape: &[usize], fractions: Vec<Ratio>) -> Self {
        elementwise::from_fractions(shape, fractions)
    }

    fn new(shape: &[usize], integers: Vec<Int>, unit: Ratio) -> Self {
        ExactTensor { shape: shape.into(), integers, unit }
    }

    /// Numbers given each with a unit of its own, brought to their greatest common unit.
    fn from_units(shape: &[usize], integers: Vec<Int>, units: &[Ratio]) -> Self {
        let mut common = units.first().cloned().unwrap_or(Ratio::ONE);
        for pair in units.windows(2) {
            if pair[0] != pair[1] {
                common = common_unit(&common, &pair[1]);
            }
        }
        let integers =
            integers.into_iter().zip(units).map(|(v, unit)| v * whole(unit / &common)).collect();
        ExactTensor::new(shape, integers, common)
    }

    fn with_unit(&self, unit: &Ratio) -> Vec<Int> {
        if *unit == self.unit {
            return self.integers.clone();
        }
        let factor = whole(&self.unit / unit);
        self.integers.iter().map(|v| v * &factor).collect()
    }

    fn broadcast(&self, shape: &[usize]) -> Result<Self> {
        let view = View::new(&self.integers, &self.shape)
            .broadcast(shape)
            .ok_or_else(|| Diagnostic::bug("operands do not broadcast after inference"))?;
        Ok(ExactTensor::new(shape, view.to_vec(), self.unit.clone()))
    }

    fn scaled(self, factor: &Ratio) -> Self {
        if factor.numerator() == &Int::ZERO {
            let zeros = vec![Int::ZERO; self.integers.len()];
            return ExactTensor::new(&self.shape, zeros, Ratio::ONE);
        }
        let negative = factor < &Ratio::ZERO;
        let unit = &self.unit * if negative { -factor.clone() } else { factor.clone() };
        let integers = match negative {
            true => self.integers.into_iter().map(|v| -v).collect(),
            false => self.integers,
        };
        ExactTensor { shape: self.shape, integers, unit }
    }

    fn transposed(&self, order: &[usize]) -> Self {
        let view = View::new(&self.integers, &self.shape).permute(order);
        ExactTensor::new(view.shape(), view.to_vec(), self.unit.clone())
    }
}

/// The greatest fraction both are whole multiples of.
fn common_unit(a: &Ratio, b: &Ratio) -> Ratio {
    let numerator = gcd(
        &(a.numerator() * Int::from(b.denominator().clone())),
        &(b.numerator() * Int::from(a.denominator().clone())),
    );
    Ratio::from_parts(numerator, a.denominator() * b.denominator())
}

fn gcd(a: &Int, b: &Int) -> Int {
    let (mut a, mut b) = (a.clone(), b.clone());
    while b != Int::ZERO {
        (a, b) = (b.clone(), a % b);
    }
    if a < Int::ZERO { -a } else { a }
}

/// The integer a fraction is known to be.
fn whole(value: Ratio) -> Int {
    debug_assert!(value.is_int(), "a unit divides evenly");
    value.numerator().clone()
}

/// Tag of the exact executor.
pub(super) struct Exact;

impl Arithmetic for Exact {
    type Tensor = ExactTensor;
    /// 400 MiB.
    const MAX_ELEMENTS: usize = 1 << 24;
    const BYTES: u64 = size_of::<Int>() as u64;

    fn input(tensor: &Tensor) -> Result<ExactTensor> {
        exact_numbers(tensor)
    }

    fn constant(value: &Value) -> Result<ExactTensor> {
        let constant = value.constant.as_ref().ok_or_else(|| Diagnostic::bug("not a constant"))?;
        let numbers = exact_numbers(&constant.tensor)?;
        match &constant.quantiser {
            Some(quantiser) => from_codes(quantiser, numbers),
            None => Ok(numbers),
        }
    }

    fn apply(graph: &Graph, node: &Node, operands: &[Option<&ExactTensor>]) -> Result<ExactTensor> {
        let shape = &graph[node.output].shape;
        let dtype = graph[node.output].dtype;
        let x = operand(operands, 0)?;
        match &node.op {
            Op::Identity
            | Op::Flatten { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Concat { .. }
            | Op::Slice { .. }
            | Op::Pad(_)
            | Op::Gather { .. }
            | Op::Expand { .. }
            | Op::Tile { .. } => movement::move_exact(node, operands, shape),
            Op::Resize(resize) if resize.is_nearest() => {
                movement::move_exact(node, operands, shape)
            }
            Op::Resize(resize) => movement::resize_exact(resize, x, shape),
            Op::Cast { to } | Op::CastUnbounded { to } => {
                let from = node.input(0).map_or(*to, |id| graph[id].dtype);
                movement::cast_exact(x, from, *to)
            }
            Op::ConvTranspose(conv) => movement::conv_transpose_exact(conv, operands, shape),
            Op::Conv(conv) => Ok(wrapped(conv_exact(conv, operands, shape)?, dtype)),
            Op::Gemm(gemm) => gemm_exact(gemm, operands, shape),
            Op::MatMul => {
                let b = operand(operands, 1)?;
                let product = product_of(&x.shape, &b.shape, shape);
                let sums = multiplied(&product, &x.integers, &b.integers);
                Ok(wrapped(ExactTensor::new(shape, sums, &x.unit * &b.unit), dtype))
            }
            Op::Pool(pool) => Ok(pool_exact(pool, x, shape)),
            Op::GlobalAveragePool => Ok(global_average(x, shape)),
            Op::Unary(unary) => Ok(wrapped(elementwise::unary(*unary, x)?, dtype)),
            Op::Binary(binary) => {
                let result = binary_exact(*binary, x, operand(operands, 1)?, shape, dtype)?;
                Ok(wrapped(result, dtype))
            }
            Op::Activation(activation) => elementwise::activation(*activation, x),
            Op::PRelu => elementwise::prelu(x, operand(operands, 1)?),
            Op::Compare(compare) => elementwise::compare(*compare, x, operand(operands, 1)?, shape),
            Op::Logic(logic) => elementwise::logic(*logic, x, operand(operands, 1)?, shape),
            Op::Where => {
                elementwise::choose(x, operand(operands, 1)?, operand(operands, 2)?, shape)
            }
            Op::GlobalMaxPool => reduce::global_max(x, shape),
            Op::Reduce(reduce) => Ok(wrapped(reduce::reduce(reduce, x, shape, dtype)?, dtype)),
            Op::ArgExtreme(arg) => Ok(reduce::arg_extreme(arg, x, shape)),
            Op::Recurrent(_)
            | Op::Softmax(_)
            | Op::LayerNorm(_)
            | Op::InstanceNorm(_)
            | Op::Lrn(_) => Err(no_exact_result(node.op.name())),
            Op::Quantise(quantiser) => from_codes(quantiser, to_codes(quantiser, x)?),
            Op::ToCodes(quantiser) => to_codes(quantiser, x),
            Op::FromCodes(quantiser) => from_codes(quantiser, x.clone()),
            Op::BatchNorm(_) => Err(unsupported(
                "a batch normalisation divides by a square root, which has no exact result",
            )
            .help("fold it into the layer before it")),
        }
    }
}

impl Number for Int {
    fn zero() -> Self {
        Int::ZERO
    }

    fn multiply_add(&mut self, a: &Self, b: &Self) {
        // Rectified activations and pruned weights make zeros common.
        if a != &Int::ZERO && b != &Int::ZERO {
            *self += a * b;
        }
    }
}

/// Every element of a tensor as an exact number.
fn exact_numbers(tensor: &Tensor) -> Result<ExactTensor> {
    if let Some(integers) = tensor.to_i64() {
        let integers = integers.into_iter().map(Int::from).collect();
        return Ok(ExactTensor::new(tensor.shape(), integers, Ratio::ONE));
    }
    let exact: Vec<Dyadic> = tensor
        .to_f64()
        .iter()
        .map(|&v| {
            Dyadic::from_f64(v).ok_or_else(|| unsupported(format!("{v} is not an exact number")))
        })
        .collect::<Result<_>>()?;
    let unit = exact.iter().filter(|d| !d.is_zero()).map(Dyadic::exponent).min().unwrap_or(0);
    let integers = exact
        .iter()
        .map(|d| d.in_units(unit).expect("the finest unit of floats holds all of them"))
        .collect();
    Ok(ExactTensor::new(tensor.shape(), integers, Dyadic::new(Int::ONE, unit).to_ratio()))
}

pub(super) fn to_codes(quantiser: &Quantiser, x: &ExactTensor) -> Result<ExactTensor> {
    let scalars = scalars(quantiser, &x.shape)?;
    let mut steps = StepCache::default();
    let codes = x
        .integers
        .iter()
        .zip(&scalars)
        .map(|(integer, scalar)| {
            let (numerator, denominator) = steps.per_unit(scalar.scale, &x.unit);
            let code = round_quotient(&(integer * numerator), denominator, scalar.rounding);
            scalar.overflow.apply(&(code + Int::from(scalar.zero)), scalar.signed, scalar.width)
        })
        .collect();
    Ok(ExactTensor::new(&x.shape, codes, Ratio::ONE))
}

/// Steps of a quantiser per unit of a tensor; neighbours mostly share their scale.
#[derive(Default)]
struct StepCache {
    last: Option<(u64, Int, Int)>,
}

impl StepCache {
    fn per_unit(&mut self, scale: f64, unit: &Ratio) -> (&Int, &Int) {
        let key = scale.to_bits();
        if self.last.as_ref().is_none_or(|(last, _, _)| *last != key) {
            let scale = Dyadic::from_f64(scale).expect("scales are finite").to_ratio();
            let steps = unit / scale;
            self.last = Some((key, steps.numerator().clone(), steps.denominator().clone().into()));
        }
        let (_, numerator, denominator) = self.last.as_ref().expect("filled above");
        (numerator, denominator)
    }
}

fn from_codes(quantiser: &Quantiser, codes: ExactTensor) -> Result<ExactTensor> {
    let scalars = scalars(quantiser, &codes.shape)?;
    let integers =
        codes.integers.iter().zip(&scalars).map(|(code, s)| code - Int::from(s.zero)).collect();
    if let Some(scale) = quantiser.scale.as_uniform() {
        let unit = Dyadic::from_f64(scale).expect("scales are finite").to_ratio();
        return Ok(ExactTensor::new(&codes.shape, integers, unit));
    }
    let units: Vec<Ratio> = scalars.iter().map(crate::Scalar::ratio).collect();
    Ok(ExactTensor::from_units(&codes.shape, integers, &units))
}

fn scalars(quantiser: &Quantiser, shape: &[usize]) -> Result<Vec<crate::Scalar>> {
    quantiser
        .scalars(shape)
        .ok_or_else(|| Diagnostic::bug("a quantiser does not broadcast after inference"))
}

fn add(a: &ExactTensor, b: &ExactTensor) -> ExactTensor {
    let unit = common_unit(&a.unit, &b.unit);
    let sums = a.with_unit(&unit).into_iter().zip(b.with_unit(&unit)).map(|(a, b)| a + b).collect();
    ExactTensor::new(&a.shape, sums, unit)
}

/// Both as machine integers, where no sum of so many products leaves those.
fn small(a: &[Int], b: &[Int], terms: usize) -> Option<[Vec<i64>; 2]> {
    let narrow =
        |list: &[Int]| list.iter().map(|v| i64::try_from(v).ok()).collect::<Option<Vec<_>>>();
    let (a, b) = (narrow(a)?, narrow(b)?);
    let most = |list: &[i64]| list.iter().map(|v| u128::from(v.unsigned_abs())).max().unwrap_or(0);
    let sum = most(&a).checked_mul(most(&b))?.checked_mul(terms as u128)?;
    (sum <= i64::MAX as u128).then_some([a, b])
}

fn large(sums: Vec<i64>) -> Vec<Int> {
    sums.into_iter().map(Int::from).collect()
}

fn multiplied(product: &Product<'_>, a: &[Int], b: &[Int]) -> Vec<Int> {
    match small(a, b, product.extents[1]) {
        Some([a, b]) => large(multiply(product, &a, &b)),
        None => multiply(product, a, b),
    }
}

fn conv_exact(
    conv: &Conv,
    operands: &[Option<&ExactTensor>],
    shape: &[usize],
) -> Result<ExactTensor> {
    let (x, w) = (operand(operands, 0)?, operand(operands, 1)?);
    let terms = w.shape[1..].iter().product();
    let sums = match small(&x.integers, &w.integers, terms) {
        Some([a, b]) => large(convolve(conv, &a, &x.shape, &b, &w.shape, shape)),
        None => convolve(conv, &x.integers, &x.shape, &w.integers, &w.shape, shape),
    };
    let sums = ExactTensor::new(shape, sums, &x.unit * &w.unit);
    let Some(bias) = operands.get(2).copied().flatten() else {
        return Ok(sums);
    };
    let mut per_channel = Shape::from_elem(1, shape.len() - 1);
    per_channel[0] = shape[1];
    let bias = ExactTensor { shape: per_channel, ..bias.clone() }.broadcast(shape)?;
    Ok(add(&sums, &bias))
}

fn gemm_exact(
    gemm: &Gemm,
    operands: &[Option<&ExactTensor>],
    shape: &[usize],
) -> Result<ExactTensor> {
    let orient = |index: usize, transpose: bool| {
        operand(operands, index).map(|t| if transpose { t.transposed(&[1, 0]) } else { t.clone() })
    };
    let (a, b) = (orient(0, gemm.transpose_a)?, orient(1, gemm.transpose_b)?);
    let product = product_of(&a.shape, &b.shape, shape);
    let sums = multiplied(&product, &a.integers, &b.integers);
    let sums = ExactTensor::new(shape, sums, &a.unit * &b.unit).scaled(&parameter(gemm.alpha)?);
    match operands.get(2).copied().flatten() {
        Some(c) => Ok(add(&sums, &c.broadcast(shape)?.scaled(&parameter(gemm.beta)?))),
        None => Ok(sums),
    }
}

fn pool_exact(pool: &Pool, x: &ExactTensor, shape: &[usize]) -> ExactTensor {
    let planes = shape[0] * shape[1];
    let plane: usize = x.shape[2..].iter().product();
    let positions: usize = shape[2..].iter().product();
    let counts = match pool.kind {
        PoolKind::Max => vec![1; positions],
        PoolKind::Average { .. } => pool.divisors(&x.shape[2..], &shape[2..]),
    };
    // One divisor for all positions keeps one unit for the tensor.
    let divisor = counts.iter().fold(Int::ONE, |all, &n| {
        let n = Int::from(n);
        &all / gcd(&all, &n) * n
    });
    let mut out = vec![Int::ZERO; planes * positions];
    each_position(&pool.window, &x.shape[2..], &shape[2..], |position, taps| {
        let factor = &divisor / Int::from(counts[position]);
        for p in 0..planes {
            let x = &x.integers[p * plane..][..plane];
            let elements = taps.inside.iter().map(|&(source, _)| &x[source]);
            out[p * positions + position] = match pool.kind {
                PoolKind::Max => elements.max().cloned().unwrap_or_default(),
                PoolKind::Average { .. } => elements.sum::<Int>() * &factor,
            };
        }
    });
    ExactTensor::new(shape, out, &x.unit / Ratio::from(divisor))
}

fn global_average(x: &ExactTensor, shape: &[usize]) -> ExactTensor {
    let plane = element_count(&x.shape[2..]).unwrap_or(1);
    let sums = x.integers.chunks(plane).map(|p| p.iter().sum::<Int>()).collect();
    ExactTensor::new(shape, sums, &x.unit / Ratio::from(Int::from(plane)))
}

fn binary_exact(
    binary: Binary,
    a: &ExactTensor,
    b: &ExactTensor,
    shape: &[usize],
    dtype: DType,
) -> Result<ExactTensor> {
    match binary {
        Binary::Div if !dtype.is_float() => return elementwise::divide_integers(a, b, shape),
        Binary::Pow => return elementwise::power(a, b, shape),
        Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Max | Binary::Min => {}
    }
    let (a, b) = (a.broadcast(shape)?, b.broadcast(shape)?);
    let zip = |function: fn(&Int, &Int) -> Int| {
        let unit = common_unit(&a.unit, &b.unit);
        let (x, y) = (a.with_unit(&unit), b.with_unit(&unit));
        ExactTensor::new(shape, x.iter().zip(&y).map(|(x, y)| function(x, y)).collect(), unit)
    };
    Ok(match binary {
        Binary::Add => zip(|a, b| a + b),
        Binary::Sub => zip(|a, b| a - b),
        Binary::Max => zip(|a, b| a.max(b).clone()),
        Binary::Min => zip(|a, b| a.min(b).clone()),
        Binary::Mul => {
            let products = a.integers.iter().zip(&b.integers).map(|(a, b)| a * b).collect();
            ExactTensor::new(shape, products, &a.unit * &b.unit)
        }
        Binary::Div => divide(&a, &b)?,
        Binary::Pow => return Err(Diagnostic::bug("powers have a function of their own")),
    })
}

/// Quotients as numbers with a unit each; exact, but only sensible for few different divisors.
fn divide(a: &ExactTensor, b: &ExactTensor) -> Result<ExactTensor> {
    let unit = &a.unit / &b.unit;
    let mut units = Vec::with_capacity(b.integers.len());
    let mut integers = Vec::with_capacity(b.integers.len());
    for (x, divisor) in a.integers.iter().zip(&b.integers) {
        if divisor == &Int::ZERO {
            return Err(unsupported("division by zero has no exact result"));
        }
        let negative = divisor < &Int::ZERO;
        let magnitude = if negative { -divisor } else { divisor.clone() };
        units.push(&unit / Ratio::from(magnitude));
        integers.push(if negative { -x } else { x.clone() });
    }
    Ok(ExactTensor::from_units(&a.shape, integers, &units))
}
