//! Weights become whole numbers of units of `2^-d`.
//!
//! Facts: `cain` (`docs/bibliography.md`) for the rule by which the depth `d` is chosen.

use crate::files::MAX_DEPTH;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Value;

/// Halvings up to which weights are taken exactly where nothing else is asked for.
const EXACT: u32 = 8;

/// The share of all weights that their errors may be where nothing else is asked for.
const SHARE: f64 = 1.0 / 64.0;

/// How near weights are to be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Nearness {
    /// Most halvings.
    pub(crate) depth: Option<u32>,
    /// Largest sum of errors.
    pub(crate) error: Option<f64>,
}

/// The real numbers of a constant; `None` for what is computed.
pub(crate) fn reals(value: &Value) -> Option<Vec<f64>> {
    let constant = value.constant.as_ref()?;
    let numbers = constant.tensor.to_f64();
    let Some(quantiser) = &constant.quantiser else { return Some(numbers) };
    let scalars = quantiser.scalars(&value.shape)?;
    Some(
        numbers.iter().zip(&scalars).map(|(code, of)| (code - of.zero as f64) * of.scale).collect(),
    )
}

/// The nearest whole number of units of `2^-depth`, halves upwards.
pub(crate) fn units(weight: f64, depth: i32) -> f64 {
    let count = weight * 2.0_f64.powi(depth);
    // Adding a half could round; the difference of a number and its integer part is exact.
    count.floor() + f64::from(u8::from(count - count.floor() >= 0.5))
}

/// The first depth at which all weights are whole.
pub(super) fn exact_depth(weights: &[f64]) -> Option<u32> {
    (0..=MAX_DEPTH).find(|&depth| error_at(weights, depth) == 0.0)
}

fn error_at(weights: &[f64], depth: u32) -> f64 {
    let depth = depth as i32;
    let unit = 2.0_f64.powi(-depth);
    weights.iter().map(|&weight| (weight - units(weight, depth) * unit).abs()).sum()
}

/// The depth of weights and the sum of their errors there: the first depth with an error that is
/// small enough. Without an error, and none small enough, the largest depth.
///
/// # Errors
/// `Q5057` for weights that are no numbers, and for an error that is not reached.
pub(crate) fn approximate(weights: &[f64], nearness: Nearness) -> Result<(u32, f64)> {
    if let Some(bad) = weights.iter().find(|weight| !weight.is_finite()) {
        return Err(Diagnostic::unsupported("Q5057", format!("a weight is {bad}")));
    }
    let first = |most: u32, error: f64| {
        (0..=most).map(|d| (d, error_at(weights, d))).find(|(_, found)| *found <= error)
    };
    match nearness {
        Nearness { depth: None, error: None } => {
            let share = SHARE * weights.iter().map(|weight| weight.abs()).sum::<f64>();
            let found = first(EXACT, 0.0).or_else(|| first(MAX_DEPTH, share));
            Ok(found.unwrap_or((MAX_DEPTH, error_at(weights, MAX_DEPTH))))
        }
        Nearness { depth: Some(depth), error: None } => {
            Ok(first(depth, 0.0).unwrap_or((depth, error_at(weights, depth))))
        }
        Nearness { depth, error: Some(error) } => {
            let most = depth.unwrap_or(MAX_DEPTH);
            first(most, error)
                .ok_or_else(|| unreached(weights, most, error, first(MAX_DEPTH, error)))
        }
    }
}

fn unreached(weights: &[f64], depth: u32, error: f64, needed: Option<(u32, f64)>) -> Diagnostic {
    let found = error_at(weights, depth);
    let message = format!("the sum of errors of the weights is {found} at depth {depth}");
    let message = format!("{message}, expected at most {error}");
    Diagnostic::unsupported("Q5057", message).help(match needed {
        Some((depth, _)) => format!("depth {depth} is needed"),
        None => format!("depths up to {MAX_DEPTH} do not reach it"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_of_cain_and_its_default() {
        let weights = [0.3, -0.7, 0.5];
        let with = |depth, error| approximate(&weights, Nearness { depth, error });
        assert_eq!(with(Some(0), None).unwrap(), (0, 0.3 + 0.3 + 0.5));
        assert_eq!(with(None, Some(0.2)).unwrap().0, 2);
        let problem = with(Some(1), Some(0.2)).unwrap_err();
        assert_eq!((problem.code(), problem.help_text()), ("Q5057", Some("depth 2 is needed")));
        let (depth, error) = with(None, None).unwrap();
        assert!(depth == 6 && error <= 1.5 / 64.0, "{depth} {error}");
        let exact = [1.0 / 256.0, -3.0];
        assert_eq!(approximate(&exact, Nearness::default()).unwrap(), (8, 0.0));
        let problem = approximate(&[f64::NAN], Nearness::default()).unwrap_err();
        assert_eq!(problem.code(), "Q5057");
    }
}
