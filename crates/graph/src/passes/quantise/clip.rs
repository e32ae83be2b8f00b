//! How much of the observed range a grid covers.

use super::calibrate::Statistics;
use super::grids::{affine, power_of_two, uniform};
use super::{Grid, Settings};
use crate::Quantiser;

/// How the range of a grid follows from the numbers that were observed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Method {
    /// From the lowest to the highest number.
    MinMax,
    /// So that this share of all numbers, in percent, lies in the range; what is left is cut off in
    /// equal parts at both ends. From 50 to 100.
    Percentile(f64),
    /// The range with the least squared error: rounding inside and clipping outside. Also for
    /// weights of [`Grid::Affine`].
    #[default]
    Mse,
}

/// Steps in which the ends of a range are tried.
const STEPS: u32 = 64;

/// Exponents below that of the whole range that are tried.
const EXPONENTS: i32 = 6;

/// The quantiser of numbers that were observed; with `centred` an affine grid reaches as far below 0 as
/// above.
pub(super) fn choose(
    found: &Statistics,
    settings: &Settings,
    method: Method,
    centred: bool,
) -> Quantiser {
    if let Grid::Uniform { point } = settings.grid {
        return uniform(settings.activations, point);
    }
    let whole = found.range();
    let (low, high) = match (method, &found.histogram) {
        (Method::Percentile(percent), Some(histogram)) => {
            let (low, high) = histogram.without_tails((100.0 - percent) / 200.0);
            (low.max(whole.0), high.min(whole.1))
        }
        (Method::Mse, Some(_)) => return least_error(found, settings, centred),
        _ => whole,
    };
    covering(settings, low, high, centred)
}

fn covering(settings: &Settings, low: f64, high: f64, centred: bool) -> Quantiser {
    let (width, signed) = (settings.activations, settings.signed);
    match settings.grid {
        Grid::Affine if centred => {
            let most = high.max(-low);
            affine(-most, most, width, signed.unwrap_or(false))
        }
        Grid::PowerOfTwo => power_of_two(low, high, width, signed),
        Grid::Affine => affine(low, high, width, signed.unwrap_or(false)),
        Grid::Uniform { point } => uniform(width, point),
    }
}

fn least_error(found: &Statistics, settings: &Settings, centred: bool) -> Quantiser {
    let (low, high) = found.range();
    let (low, high) = (low.min(0.0), high.max(0.0));
    let covering = |settings, low, high| covering(settings, low, high, centred);
    let mut best = Best { found, error: f64::INFINITY, quantiser: covering(settings, low, high) };
    if settings.grid == Grid::PowerOfTwo {
        for exponent in 0..=EXPONENTS {
            let factor = 2.0_f64.powi(-exponent);
            best.attempt(covering_signed(settings, low, high, factor));
        }
        return best.quantiser;
    }
    let part = |step: u32| f64::from(step) / f64::from(STEPS);
    let mut ends = (STEPS, STEPS);
    // Both ends together, then each by itself.
    for step in (1..=STEPS).rev() {
        if best.attempt(covering(settings, low * part(step), high * part(step))) {
            ends = (step, step);
        }
    }
    for step in (1..=STEPS).rev() {
        if best.attempt(covering(settings, low * part(step), high * part(ends.1))) {
            ends.0 = step;
        }
    }
    for step in (1..=STEPS).rev() {
        best.attempt(covering(settings, low * part(ends.0), high * part(step)));
    }
    best.quantiser
}

/// A smaller range with the sign of the whole one.
fn covering_signed(settings: &Settings, low: f64, high: f64, factor: f64) -> Quantiser {
    let signed = settings.signed.unwrap_or(low < 0.0);
    power_of_two(low * factor, high * factor, settings.activations, Some(signed))
}

struct Best<'a> {
    found: &'a Statistics,
    error: f64,
    quantiser: Quantiser,
}

impl Best<'_> {
    /// Keeps the quantiser if it is better.
    fn attempt(&mut self, quantiser: Quantiser) -> bool {
        let error = squared_error(self.found, &quantiser);
        let better = error < self.error;
        if better {
            (self.error, self.quantiser) = (error, quantiser);
        }
        better
    }
}

/// The sum of squared errors of a quantiser that does not vary.
///
/// Where a step is much wider than a bin, the numbers of a bin are taken to lie in its middle; else
/// errors inside the range are taken to be spread evenly over a step.
fn squared_error(found: &Statistics, quantiser: &Quantiser) -> f64 {
    let Some(scalar) = quantiser.scalars(&[]).and_then(|scalars| scalars.first().copied()) else {
        return f64::INFINITY;
    };
    let Some(histogram) = &found.histogram else { return f64::INFINITY };
    let scale = scalar.scale;
    let code = |bound: quincunx_num::Int| i64::try_from(bound).unwrap_or(0);
    let (first, last) = scalar.range();
    let (first, last) = ((code(first) - scalar.zero) as f64, (code(last) - scalar.zero) as f64);
    let coarse = scale >= 4.0 * histogram.width();
    let error = |x: f64| {
        let steps = (x / scale).round_ties_even();
        let kept = steps.clamp(first, last);
        if coarse || kept != steps { (x - kept * scale).powi(2) } else { scale * scale / 12.0 }
    };
    let bins = histogram.bins().filter(|&(x, _)| x != 0.0);
    bins.map(|(x, count)| error(x) * count as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::super::Scheme;
    use super::*;

    /// Mostly small numbers and a few large ones.
    fn heavy_tails() -> Vec<f64> {
        let mut state = 5_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / f64::from(1 << 24) + 1e-6
        };
        (0..4000).map(|i| -next().ln() * if i % 3 == 0 { -1.0 } else { 1.5 }).collect()
    }

    fn found(numbers: &[f64]) -> Statistics {
        let mut found = Statistics::empty(Some(2048));
        numbers.iter().for_each(|&x| found.add(x));
        found
    }

    /// The error that the numbers themselves have.
    fn true_error(numbers: &[f64], quantiser: &Quantiser) -> f64 {
        let scalar = quantiser.scalars(&[]).unwrap()[0];
        let (low, high) = scalar.range();
        let (low, high) = (i64::try_from(low).unwrap(), i64::try_from(high).unwrap());
        let error = |x: &f64| {
            let code = (x / scalar.scale).round_ties_even() as i64 + scalar.zero;
            (x - (code.clamp(low, high) - scalar.zero) as f64 * scalar.scale).powi(2)
        };
        numbers.iter().map(error).sum()
    }

    #[test]
    fn the_least_error_is_found() {
        let numbers = heavy_tails();
        let found = found(&numbers);
        let (low, high) = found.range();
        for width in [2, 3, 4, 6, 8] {
            let scheme = Scheme::Affine { weights: 8, activations: width };
            let settings = Settings::from(&scheme);
            let chosen = true_error(&numbers, &choose(&found, &settings, Method::Mse, false));
            let whole = true_error(&numbers, &choose(&found, &settings, Method::MinMax, false));
            assert!(chosen <= whole * 1.02, "{width} bits: {chosen} {whole}");
            // Brute force over both ends.
            let parts = || (1..=40).map(|step| f64::from(step) / 40.0);
            let ranges = parts().flat_map(|a| parts().map(move |b| (low * a, high * b)));
            let best = ranges
                .map(|(low, high)| true_error(&numbers, &affine(low, high, width, false)))
                .fold(f64::INFINITY, f64::min);
            assert!(chosen <= best * 1.05, "{width} bits: {chosen} {best}");
        }
        let settings = Settings::from(&Scheme::PowerOfTwo { weights: 4, activations: 4 });
        let chosen = true_error(&numbers, &choose(&found, &settings, Method::Mse, false));
        let tried = (-8..8).map(|e| Quantiser::symmetric(true, 4, 2.0_f64.powi(e)));
        let best = tried.map(|q| true_error(&numbers, &q)).fold(f64::INFINITY, f64::min);
        assert!(chosen <= best * 1.01, "{chosen} {best}");
    }

    #[test]
    fn percentiles_cut_both_tails() {
        let numbers = heavy_tails();
        let mut sorted = numbers.clone();
        sorted.sort_by(f64::total_cmp);
        let found = found(&numbers);
        let settings = Settings::from(&Scheme::AFFINE_INT8);
        let scale = |percent| {
            let chosen = choose(&found, &settings, Method::Percentile(percent), false);
            chosen.scale.as_uniform().unwrap() * 255.0
        };
        let expected = sorted[sorted.len() - 1 - 40] - sorted[40];
        assert!((scale(98.0) / expected - 1.0).abs() < 0.02, "{} {expected}", scale(98.0));
        let whole = sorted[sorted.len() - 1] - sorted[0];
        assert!((scale(100.0) / whole - 1.0).abs() < 0.01);
    }
}
