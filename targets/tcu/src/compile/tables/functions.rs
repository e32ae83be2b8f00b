//! The functions that tables hold.

use quincunx_graph::{Activation, Op, Unary};

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// `e^x`.
    Exp,
    /// Error function.
    Erf,
    /// `ln(1 + e^x)`.
    Softplus,
    /// `x / 2 * (1 + erf(x / sqrt(2)))`.
    Gelu,
    /// The same with tanh.
    GeluTanh,
    /// Inverse tangent.
    Atan,
    /// `x * min(max(x / 6 + 1/2, 0), 1)`.
    HardSwish,
    /// `min(max(alpha * x + beta, 0), 1)`.
    HardSigmoid {
        /// Slope.
        alpha: f32,
        /// Offset.
        beta: f32,
    },
    /// `alpha * (e^x - 1)` below 0, times `gamma` everywhere.
    Elu {
        /// Factor of the exponential.
        alpha: f32,
        /// Factor of everything.
        gamma: f32,
    },
    /// `e^x` of numbers up to 0.
    SoftmaxExp,
    /// `1 / x` of numbers from 1/2.
    SoftmaxReciprocal,
}

impl Function {
    /// The function that a node computes.
    pub(crate) fn of(op: &Op) -> Option<Function> {
        Some(match *op {
            Op::Unary(unary) => match unary {
                Unary::Sigmoid => Function::Sigmoid,
                Unary::Tanh => Function::Tanh,
                Unary::Exp => Function::Exp,
                Unary::Erf => Function::Erf,
                Unary::Softplus => Function::Softplus,
                Unary::Gelu => Function::Gelu,
                Unary::GeluTanh => Function::GeluTanh,
                Unary::Atan => Function::Atan,
                Unary::HardSwish => Function::HardSwish,
                _ => return None,
            },
            Op::Activation(Activation::HardSigmoid { alpha, beta }) => {
                Function::HardSigmoid { alpha, beta }
            }
            Op::Activation(Activation::Elu { alpha }) => Function::Elu { alpha, gamma: 1.0 },
            Op::Activation(Activation::Selu { alpha, gamma }) => Function::Elu { alpha, gamma },
            _ => return None,
        })
    }

    /// Its name, by which tables are known.
    pub(crate) fn name(self) -> String {
        match self {
            Function::HardSigmoid { alpha, beta } => format!("HardSigmoid({alpha}, {beta})"),
            Function::Elu { alpha, gamma: 1.0 } => format!("Elu({alpha})"),
            Function::Elu { alpha, gamma } => format!("Selu({alpha}, {gamma})"),
            Function::SoftmaxExp => "exponential of Softmax".to_owned(),
            Function::SoftmaxReciprocal => "reciprocal of Softmax".to_owned(),
            _ => format!("{self:?}"),
        }
    }

    /// The function.
    pub(super) fn at(self, x: f64) -> f64 {
        match self {
            Function::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Function::Tanh => x.tanh(),
            Function::Exp | Function::SoftmaxExp => x.exp(),
            Function::Erf => erf(x),
            Function::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
            Function::Gelu => x / 2.0 * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
            Function::GeluTanh => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
                x / 2.0 * (1.0 + inner.tanh())
            }
            Function::Atan => x.atan(),
            Function::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Function::HardSigmoid { alpha, beta } => {
                (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0)
            }
            Function::Elu { alpha, gamma } => {
                let below = f64::from(alpha) * x.min(0.0).exp_m1();
                f64::from(gamma) * if x < 0.0 { below } else { x }
            }
            Function::SoftmaxReciprocal => 1.0 / x,
        }
    }

    /// The numbers that it is asked for.
    pub(super) fn domain(self) -> (f64, f64) {
        match self {
            Function::SoftmaxExp => (f64::NEG_INFINITY, 0.0),
            Function::SoftmaxReciprocal => (0.5, f64::INFINITY),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }

    /// Outside of this interval it is nearly a straight line over numbers of about one size.
    pub(super) fn bent(self) -> (f64, f64) {
        match self {
            Function::Exp => (-16.0, 16.0),
            Function::SoftmaxExp => (-16.0, 0.0),
            Function::Elu { .. } => (-24.0, 1.0),
            Function::HardSigmoid { alpha, beta } => {
                let reach = (2.0 + f64::from(beta).abs()) / f64::from(alpha).abs().max(1e-3);
                (-reach, reach)
            }
            _ => (-20.0, 20.0),
        }
    }
}

/// The error function, by its power series, and beyond 6 its limit.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    // Terms grow up to e^(x^2), which costs half of the 53 bits for x = 4 and all of them for 6;
    // from 3 on the continued fraction of the complement is exact enough instead.
    if x.abs() < 3.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..80 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return 2.0 / std::f64::consts::PI.sqrt() * sum;
    }
    let z = x.abs();
    let fraction = (1..60).rev().fold(z, |below, n| z + f64::from(n) / 2.0 / below);
    let complement = (-z * z).exp() / std::f64::consts::PI.sqrt() / fraction;
    x.signum() * (1.0 - complement)
}
