//! Quantisers that cover a range.

use crate::{Param, Quantiser};

/// Finest scale of an affine grid, so that products of two scales are normal f32 numbers.
const FINEST: f64 = 1.0 / (1_u64 << 60) as f64;

/// The finest fixed-point grid of `width` bits that covers `low..=high`; unsigned when nothing is
/// negative, unless the sign is given.
pub(super) fn power_of_two(low: f64, high: f64, width: u32, signed: Option<bool>) -> Quantiser {
    let signed = signed.unwrap_or(low < 0.0);
    let magnitude_bits = width.saturating_sub(u32::from(signed)).min(62);
    let top = ((1_u64 << magnitude_bits) - 1) as f64;
    let bottom = (1_u64 << magnitude_bits) as f64;
    let covers = |exponent: i32| {
        let scale = 2.0_f64.powi(exponent);
        if magnitude_bits == 0 {
            // The codes are -1 and 0: no scale reaches a positive number.
            return high.max(-low) <= scale;
        }
        high <= top * scale && (-low <= bottom * scale || !signed)
    };
    let exponent = (-64..=64).find(|&e| covers(e)).unwrap_or(64);
    let exponent = if low == 0.0 && high == 0.0 { 0 } else { exponent };
    Quantiser::symmetric(signed, width, 2.0_f64.powi(exponent))
}

/// The grid of a fixed-point format.
pub(super) fn uniform(width: u32, point: u32) -> Quantiser {
    Quantiser::symmetric(true, width, f64::from(point).exp2().recip())
}

/// The finest grid of `width` bits with a zero point that covers `low..=high` and 0.
///
/// Zero points are even, since QONNX adds the zero point before it rounds half to even, and ONNX
/// after. Scales have 12 significant bits ([`short`]).
pub(super) fn affine(low: f64, high: f64, width: u32, signed: bool) -> Quantiser {
    let (low, high) = (low.min(0.0), high.max(0.0));
    let levels = (1_i64 << width) - 1;
    let first = if signed { -(1_i64 << (width - 1)) } else { 0 };
    let (mut scale, mut zero) = (1.0, 0);
    if low < high {
        let ideal = (levels as f64 * (-low / (high - low))) as i64;
        // Both ends must be covered with the codes on their side of the zero point.
        let finest = |zero: i64| ratio(-low, zero).max(ratio(high, levels - zero));
        let even = ideal - ideal % 2;
        let above = (even + 2).min(levels - 1);
        zero = if finest(above) < finest(even) { above } else { even };
        scale = short(finest(zero));
    }
    let zero = Param::uniform(first + zero);
    Quantiser { zero, ..Quantiser::symmetric(signed, width, scale) }
}

fn ratio(extent: f64, codes: i64) -> f64 {
    if extent == 0.0 { 0.0 } else { extent / codes as f64 }
}

/// Scale of the symmetric grid of `width` bits that covers numbers up to `magnitude` with as many
/// positive as negative codes.
pub(super) fn symmetric_scale(magnitude: f64, width: u32) -> f64 {
    if magnitude == 0.0 {
        return 1.0;
    }
    short(magnitude / ((1_i64 << (width - 1)) - 1) as f64)
}

/// The number rounded up to 12 significant bits. The product of two such scales, the grid of a
/// layer's sums, then is an f32 and can be written in ONNX as it is.
fn short(scale: f64) -> f64 {
    let scale = scale.max(FINEST);
    let unit = 2.0_f64.powi(scale.log2().floor() as i32 - 11);
    (scale / unit).ceil() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_is_the_finest_that_covers() {
        let scale = |low, high, width| {
            let q = power_of_two(low, high, width, None);
            (q.signed.as_uniform().unwrap(), q.scale.as_uniform().unwrap())
        };
        assert_eq!(scale(0.0, 1.0, 8), (false, 2.0_f64.powi(-7)));
        assert_eq!(scale(0.0, 255.0, 8), (false, 1.0));
        assert_eq!(scale(-1.0, 0.5, 8), (true, 2.0_f64.powi(-7)));
        assert_eq!(scale(-1.0, 1.0, 8), (true, 2.0_f64.powi(-6)));
        assert_eq!(scale(0.0, 0.0, 8), (false, 1.0));
        assert_eq!(scale(-0.6, 0.0, 1), (true, 1.0));
        assert_eq!(scale(-0.2, 0.4, 1), (true, 0.5));
    }

    /// Ends of many ranges lie within the codes, 0 has an even code, and the grid is at most a
    /// little coarser than the range over the number of steps.
    #[test]
    fn affine_grids_cover_their_range() {
        let ends = [0.0, 1e-30, 1e-3, 0.3, 1.0, 2.7, 1000.0, 3e38];
        for (a, b) in ends.iter().flat_map(|&a| ends.iter().map(move |&b| (a, b))) {
            for (width, signed) in [(2, false), (4, true), (8, false), (8, true), (16, true)] {
                let quantiser = affine(-a, b, width, signed);
                quantiser.check().unwrap();
                let scalar = quantiser.scalars(&[]).unwrap()[0];
                let (low, high) = scalar.range();
                let real =
                    |code| (i64::try_from(code).unwrap() - scalar.zero) as f64 * scalar.scale;
                assert!(real(low) <= -a && real(high) >= b, "{a} {b} {quantiser}");
                assert_eq!(scalar.zero % 2, 0);
                assert_eq!(f64::from(scalar.scale as f32), scalar.scale);
                let steps = ((1_u64 << width) - 1) as f64;
                let ideal = ((a + b) / steps).max(FINEST);
                let limit = ideal * steps / (steps - 2.0).max(0.5) * 1.001;
                assert!(a + b == 0.0 || scalar.scale <= limit, "{a} {b} {quantiser}");
            }
        }
    }

    #[test]
    fn products_of_scales_are_f32() {
        for i in 1..200 {
            let (x, w) = (short(f64::from(i) * 0.0137), short(1.0 / f64::from(i)));
            assert!(x >= f64::from(i) * 0.0137 && x <= f64::from(i) * 0.0137 * 1.0005);
            assert_eq!(f64::from((x * w) as f32), x * w);
        }
    }
}
