//! Elementwise operators on grids, as expressions.

use super::super::build::Builder;
use super::super::field::Field;
use super::super::value::{Expr, Form};
use super::program::Program;
use crate::{Activation, Binary, Node, Op, Unary, ValueId};
use quincunx_diag::Result;
use quincunx_num::{Dyadic, Int, Ratio};
use std::sync::Arc;

/// Most operators of one expression; what is larger becomes exact numbers first.
const MAX_SIZE: usize = 12;

impl Builder<'_> {
    /// The expression of a node on elements.
    pub(super) fn grid_expr(&mut self, node: &Node) -> Result<Option<Form>> {
        let mut operands = Vec::new();
        for id in node.operands() {
            match self.expr_of(id)? {
                Some(expr) => operands.push(expr),
                None => return Ok(None),
            }
        }
        let Some(expr) = combine(&node.op, &operands) else { return Ok(None) };
        Ok(self.lazy(node.output, expr))
    }

    /// A value that its readers evaluate, if that is possible.
    pub(super) fn lazy(&self, output: ValueId, expr: Arc<Expr>) -> Option<Form> {
        if expr.size() > MAX_SIZE {
            return None;
        }
        Program::new(&expr, self.shape(output)).map(|_| Form::Lazy(expr))
    }

    /// A value as an expression; `None` when it is not a constant and not on a grid, or held as
    /// exact numbers.
    pub(super) fn expr_of(&mut self, id: ValueId) -> Result<Option<Arc<Expr>>> {
        Ok(match self.form(id)? {
            Form::Grid(grid) => Some(Arc::new(Expr::Leaf(*grid))),
            Form::Lazy(expr) => Some(expr),
            Form::Real(..) => self.constant_field(id).map(|field| Arc::new(Expr::Const(field))),
            Form::Exact(_) => None,
        })
    }

    /// The exact numbers of a constant, plain or stored as codes.
    pub(super) fn constant_field(&self, id: ValueId) -> Option<Field> {
        let constant = self.graph[id].constant.as_ref()?;
        let shape = self.shape(id);
        let Some(quantiser) = &constant.quantiser else {
            return Field::of_floats(shape, &constant.tensor.to_f64());
        };
        let codes = constant.tensor.to_i64()?;
        let scalars = quantiser.scalars(shape)?;
        let real = |(code, scalar): (&i64, &crate::Scalar)| {
            Ratio::from(Int::from(*code) - Int::from(scalar.zero)) * scalar.ratio()
        };
        Field::new(shape, codes.iter().zip(&scalars).map(real).collect())
    }
}

fn combine(op: &Op, operands: &[Arc<Expr>]) -> Option<Arc<Expr>> {
    let x = Arc::clone(operands.first()?);
    let other = operands.get(1).cloned();
    Some(match op {
        Op::Unary(unary) => return combine_unary(*unary, x),
        Op::Activation(activation) => return combine_activation(*activation, x),
        Op::PRelu => match &*other? {
            Expr::Const(slope) => Arc::new(Expr::Sloped(x, slope.clone())),
            _ => return None,
        },
        Op::Binary(Binary::Add) => Arc::new(Expr::Sum(x, other?)),
        Op::Binary(Binary::Sub) => Arc::new(Expr::Sum(x, negative(other?))),
        Op::Binary(Binary::Mul) => Arc::new(Expr::Product(x, other?)),
        Op::Binary(Binary::Max) => Arc::new(Expr::Larger(x, other?)),
        Op::Binary(Binary::Min) => Arc::new(Expr::Smaller(x, other?)),
        Op::Binary(Binary::Div) => match &*other? {
            Expr::Const(divisor) if divisor.values.iter().all(|v| !v.is_zero()) => {
                let inverse = divisor.map(|v| Ratio::ONE / v);
                Arc::new(Expr::Product(x, Arc::new(Expr::Const(inverse))))
            }
            _ => return None,
        },
        _ => return None,
    })
}

fn negative(x: Arc<Expr>) -> Arc<Expr> {
    match &*x {
        Expr::Const(field) => Arc::new(Expr::Const(field.map(|v| -v.clone()))),
        _ => Arc::new(Expr::Product(x, Expr::number(-Ratio::ONE))),
    }
}

fn combine_unary(unary: Unary, x: Arc<Expr>) -> Option<Arc<Expr>> {
    Some(match unary {
        Unary::Relu => Arc::new(Expr::Larger(x, Expr::number(Ratio::ZERO))),
        Unary::Neg => negative(x),
        Unary::Abs => Arc::new(Expr::Magnitude(x)),
        Unary::HardSwish => {
            let slope = exact(Activation::HARD_SWISH_SLOPE)?;
            let gate = hard_sigmoid(Arc::clone(&x), slope, exact(0.5)?);
            Arc::new(Expr::Product(x, gate))
        }
        _ => return None,
    })
}

fn combine_activation(activation: Activation, x: Arc<Expr>) -> Option<Arc<Expr>> {
    match activation {
        Activation::LeakyRelu { alpha } => {
            Some(Arc::new(Expr::Sloped(x, Field::of(exact(alpha)?))))
        }
        Activation::HardSigmoid { alpha, beta } => {
            Some(hard_sigmoid(x, exact(alpha)?, exact(beta)?))
        }
        Activation::Clip { min, max } => {
            let mut x = x;
            if let Some(min) = min.filter(|min| *min != f32::NEG_INFINITY) {
                x = Arc::new(Expr::Larger(x, Expr::number(exact(min)?)));
            }
            if let Some(max) = max.filter(|max| *max != f32::INFINITY) {
                x = Arc::new(Expr::Smaller(x, Expr::number(exact(max)?)));
            }
            Some(x)
        }
        Activation::Elu { .. } | Activation::Selu { .. } => None,
    }
}

fn hard_sigmoid(x: Arc<Expr>, alpha: Ratio, beta: Ratio) -> Arc<Expr> {
    let line = Expr::Sum(Arc::new(Expr::Product(x, Expr::number(alpha))), Expr::number(beta));
    let raised = Expr::Larger(Arc::new(line), Expr::number(Ratio::ZERO));
    Arc::new(Expr::Smaller(Arc::new(raised), Expr::number(Ratio::ONE)))
}

fn exact(value: f32) -> Option<Ratio> {
    Dyadic::from_f64(f64::from(value)).map(|value| value.to_ratio())
}
