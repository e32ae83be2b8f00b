//! Functions as polynomials, on machines without lookup tables.

use super::chain::Open;
use super::pointwise::with_temp;
use super::{CurveNumbers, Frontend};
use crate::compile::hir::{Binary, Op as Hir, Operand, TempId, Unary};
use crate::compile::tables::{Function, Polynomial, has_polynomial, polynomial};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Node;

impl Frontend<'_> {
    /// Appends the function of a node.
    pub(super) fn curve(&mut self, open: &mut Open, node: &Node, x: TempId) -> Result<TempId> {
        let bug = || Diagnostic::bug("a claimed operation has no instructions");
        let function = Function::of(&node.op).filter(|&function| has_polynomial(function));
        let (function, bound) = function.zip(self.choices.approximate).ok_or_else(bug)?;
        let fitted = polynomial(function, self.arch.data_type, bound);
        let (polynomial, max_error) = fitted.map_err(Diagnostic::bug)?;
        let result = self.terms(open, &node.name, &polynomial, x)?;
        let Polynomial { reach, scale, coefficients, middle, limits, times } = polynomial;
        let curve = CurveNumbers { reach, scale, coefficients, middle, limits, times, max_error };
        self.curves.insert(node.name.clone(), curve);
        Ok(result)
    }

    /// The operations of a polynomial, from the highest power down.
    fn terms(
        &mut self,
        open: &mut Open,
        name: &str,
        polynomial: &Polynomial,
        x: TempId,
    ) -> Result<TempId> {
        let [first, second, rest @ ..] = &polynomial.powers()[..] else {
            return Err(Diagnostic::bug("a polynomial has two coefficients"));
        };
        let reach = polynomial.reach;
        let mut z = clipped(open, x, [-reach, reach]);
        if polynomial.scale != self.arch.data_type.encode(1.0) {
            z = self.with_scalar(open, name, Binary::Mul, z, polynomial.scale)?;
        }
        let square = with_temp(open, Binary::Mul, z, z);
        let scaled = self.with_scalar(open, name, Binary::Mul, square, *first)?;
        let mut sum = self.with_scalar(open, name, Binary::Add, scaled, *second)?;
        for &coefficient in rest {
            let product = with_temp(open, Binary::Mul, sum, square);
            sum = self.with_scalar(open, name, Binary::Add, product, coefficient)?;
        }
        let mut result = with_temp(open, Binary::Mul, sum, z);
        if polynomial.middle != 0 {
            result = self.with_scalar(open, name, Binary::Add, result, polynomial.middle)?;
        }
        result = clipped(open, result, polynomial.limits);
        if polynomial.times {
            result = with_temp(open, Binary::Mul, result, x);
        }
        Ok(result)
    }

    /// An operation with one number for all channels; padding stays zeros.
    fn with_scalar(
        &mut self,
        open: &mut Open,
        name: &str,
        op: Binary,
        input: TempId,
        scalar: i32,
    ) -> Result<TempId> {
        let channels = open.dims.c;
        let name = format!("numbers of {name}");
        let row = self.add_const(&name, [1, channels], vec![scalar; channels], [])?;
        let output = open.temp(open.dims);
        open.push(Hir::Binary { op, input, other: Operand::Const(row), output });
        Ok(output)
    }
}

fn clipped(open: &mut Open, input: TempId, [low, high]: [i32; 2]) -> TempId {
    let output = open.temp(open.dims);
    open.push(Hir::Unary { op: Unary::Clip { low, high }, input, output });
    output
}
