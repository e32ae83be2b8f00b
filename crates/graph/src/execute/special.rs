//! Functions of one real number that the standard library lacks.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// The error function, with a relative error below 1e-14.
///
/// `erf(x) = 2 / sqrt(pi) * e^(-x²) * (x + 2/3 x³ + 4/15 x⁵ + …)`: every term has the sign of `x`,
/// so nothing cancels. From 6 on, the result is 1 to the last bit of an f64.
pub(super) fn erf(x: f64) -> f64 {
    if x.abs() >= 6.0 {
        return 1.0_f64.copysign(x);
    }
    let square = x * x;
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= 2.0 * square / odd;
        sum += term;
    }
    2.0 / PI.sqrt() * (-square).exp() * sum
}

/// `x * P(z <= x)` for `z` of the normal distribution.
pub(super) fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2))
}

/// [`gelu`] with the distribution approximated by a hyperbolic tangent.
pub(super) fn gelu_tanh(x: f64) -> f64 {
    let inner = (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}

/// `ln(1 + e^x)`, without overflow.
pub(super) fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// `1 / (1 + e^-x)`.
pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `erf` to 16 digits.
    #[test]
    fn error_function() {
        let table = [
            (1e-10, 1.128379167095513e-10),
            (0.1, 0.1124629160182849),
            (0.5, 0.5204998778130465),
            (1.0, 0.8427007929497149),
            (2.0, 0.9953222650189527),
            (3.5, 0.9999992569016276),
            (5.9, 1.0),
            (7.0, 1.0),
        ];
        for (x, expected) in table {
            assert!((erf(x) / expected - 1.0).abs() < 1e-14, "{x}: {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert_eq!(erf(0.0), 0.0);
        assert!(erf(f64::NAN).is_nan());
        assert_eq!(erf(f64::INFINITY), 1.0);
    }

    #[test]
    fn large_arguments_do_not_overflow() {
        assert_eq!(softplus(1000.0), 1000.0);
        assert_eq!(softplus(-1000.0), 0.0);
        assert_eq!((sigmoid(-1000.0), sigmoid(1000.0)), (0.0, 1.0));
        assert_eq!((gelu(100.0), gelu_tanh(100.0)), (100.0, 100.0));
    }
}
