//! Operations on single elements that take several of the machine's.

use super::arithmetic::Arithmetic;
use super::choices::Curve;
use super::layers::{binary, each};
use super::{Layer, Scalars, never_claimed, uses_table, weights};
use quincunx_diag::Result;
use quincunx_graph::{Activation, Binary, Node, Op, Unary};

impl<A: Arithmetic> Layer<'_, A> {
    /// A node of this kind; `None` for others, and for what a table gives.
    pub(super) fn elements(
        &self,
        node: &Node,
        x: &Scalars,
        shape: &[usize],
    ) -> Result<Option<Scalars>> {
        if self.choices.lookups.contains_key(&node.name) {
            return Ok(None);
        }
        if let Some(curve) = self.choices.curves.get(&node.name).filter(|_| uses_table(&node.op)) {
            return Ok(Some(each(x, |x| polynomial::<A>(curve, x))));
        }
        let one = self.choices.data_type.encode(1.0);
        let hard = |x: i32, alpha: f32, beta: f32| {
            let [alpha, beta] =
                [alpha, beta].map(|real| self.choices.data_type.encode(real.into()));
            A::min(A::max(A::add(A::multiply(x, alpha), beta), 0), one)
        };
        Ok(Some(match &node.op {
            Op::Binary(Binary::Div) => self.quotient(node, x, shape)?,
            Op::Binary(Binary::Pow) => self.power(node, x, shape)?,
            Op::Unary(Unary::HardSwish) => each(x, |x| A::multiply(x, hard(x, 1.0 / 6.0, 0.5))),
            Op::Activation(Activation::HardSigmoid { alpha, beta }) => {
                each(x, |x| hard(x, *alpha, *beta))
            }
            _ => return Ok(None),
        }))
    }

    /// Products with the reciprocals of constants, which are computed in binary32.
    fn quotient(&self, node: &Node, x: &Scalars, shape: &[usize]) -> Result<Scalars> {
        let divisor = node.input(1).ok_or_else(|| never_claimed("an absent operand"))?;
        let divisor = &self.graph[divisor];
        let encode = |&real: &f64| self.choices.data_type.encode((1.0 / real as f32).into());
        let data = weights::reals(divisor)?.iter().map(encode).collect();
        binary::<A>(Binary::Mul, x, &Scalars::new(&divisor.shape, data), shape)
    }

    /// `sat(x * x)`, for the third power once more times `x`.
    fn power(&self, node: &Node, x: &Scalars, shape: &[usize]) -> Result<Scalars> {
        let exponent = node.input(1).ok_or_else(|| never_claimed("an absent operand"))?;
        let exponents = weights::reals(&self.graph[exponent])?;
        let first = exponents.first().copied();
        let square = binary::<A>(Binary::Mul, x, x, shape)?;
        match first.filter(|&first| exponents.iter().all(|&exponent| exponent == first)) {
            Some(2.0) => Ok(square),
            Some(3.0) => binary::<A>(Binary::Mul, &square, x, shape),
            _ => Err(never_claimed("such a power")),
        }
    }
}

/// Power after power: the clipped operand times its scale is `z`, and the sum of all coefficients
/// times powers of `z * z`, from the highest on, is multiplied by `z`.
fn polynomial<A: Arithmetic>(curve: &Curve, x: i32) -> i32 {
    let z = A::multiply(A::min(A::max(x, -curve.reach), curve.reach), curve.scale);
    let square = A::multiply(z, z);
    let mut sum = 0;
    for (index, &coefficient) in curve.coefficients.iter().enumerate().rev() {
        let is_first = index + 1 == curve.coefficients.len();
        sum = if is_first { coefficient } else { A::add(A::multiply(sum, square), coefficient) };
    }
    let result = A::add(A::multiply(sum, z), curve.middle);
    let result = A::min(A::max(result, curve.limits[0]), curve.limits[1]);
    if curve.times { A::multiply(result, x) } else { result }
}
