//! What the machine does with scalars, written from the definition: exact integers, one rounding to
//! the nearest number (ties to the even one), and the ends of the range for what is beyond them.

/// The scalar operations of a format. A scalar is the integer of fixed point, or the bits of a
/// binary32.
pub(super) trait Arithmetic {
    /// A factor 0 leaves every sum as it is. Not so for floats, where the other one may be infinite.
    const SKIPS_ZERO: bool;

    /// `x * y + z`.
    fn product_sum(x: i32, y: i32, z: i32) -> i32;
    /// `x + y`.
    fn add(x: i32, y: i32) -> i32;
    /// `x - y`.
    fn subtract(x: i32, y: i32) -> i32;
    /// `x < y`.
    fn less(x: i32, y: i32) -> bool;

    /// `x * y`.
    fn multiply(x: i32, y: i32) -> i32 {
        Self::product_sum(x, y, 0)
    }

    /// The larger.
    fn max(x: i32, y: i32) -> i32 {
        if Self::less(x, y) { y } else { x }
    }

    /// The smaller.
    fn min(x: i32, y: i32) -> i32 {
        if Self::less(y, x) { y } else { x }
    }
}

/// Integers of `WIDTH` bits in units of `2^-POINT`.
pub(super) struct Fixed<const WIDTH: u32, const POINT: u32>;

impl<const WIDTH: u32, const POINT: u32> Fixed<WIDTH, POINT> {
    fn saturated(exact: i64) -> i32 {
        let end = 1_i64 << (WIDTH - 1);
        exact.clamp(-end, end - 1) as i32
    }

    /// An integer in units of `2^-(2 * POINT)` in units of `2^-POINT`.
    fn rounded(exact: i64) -> i64 {
        let half = 1_i64 << (POINT - 1);
        let below = exact >> POINT;
        let rest = exact - (below << POINT);
        below + i64::from(rest > half || rest == half && below & 1 == 1)
    }
}

impl<const WIDTH: u32, const POINT: u32> Arithmetic for Fixed<WIDTH, POINT> {
    const SKIPS_ZERO: bool = true;

    // A product has at most 62 bits below the sign, so that the sum stays below 2^63.
    fn product_sum(x: i32, y: i32, z: i32) -> i32 {
        Self::saturated(Self::rounded(i64::from(x) * i64::from(y) + (i64::from(z) << POINT)))
    }

    fn add(x: i32, y: i32) -> i32 {
        Self::saturated(i64::from(x) + i64::from(y))
    }

    fn subtract(x: i32, y: i32) -> i32 {
        Self::saturated(i64::from(x) - i64::from(y))
    }

    fn less(x: i32, y: i32) -> bool {
        x < y
    }
}

/// IEEE binary32; a product is rounded before it is added, and nothing saturates.
pub(super) struct Float;

fn real(scalar: i32) -> f32 {
    f32::from_bits(scalar.cast_unsigned())
}

fn scalar(real: f32) -> i32 {
    real.to_bits().cast_signed()
}

impl Arithmetic for Float {
    const SKIPS_ZERO: bool = false;

    fn product_sum(x: i32, y: i32, z: i32) -> i32 {
        let product = real(x) * real(y);
        scalar(product + real(z))
    }

    fn add(x: i32, y: i32) -> i32 {
        scalar(real(x) + real(y))
    }

    fn subtract(x: i32, y: i32) -> i32 {
        scalar(real(x) - real(y))
    }

    fn less(x: i32, y: i32) -> bool {
        real(x) < real(y)
    }

    // Adding 0 would lose the sign of a zero.
    fn multiply(x: i32, y: i32) -> i32 {
        scalar(real(x) * real(y))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Small = Fixed<8, 4>;

    #[test]
    fn every_small_product_is_the_nearest_scalar() {
        for x in -128..128 {
            for y in -128..128 {
                for z in [-128, -37, -1, 0, 1, 8, 100, 127] {
                    let exact = f64::from(x) * f64::from(y) / 16.0 + f64::from(z);
                    let expected = exact.round_ties_even().clamp(-128.0, 127.0);
                    assert_eq!(f64::from(Small::product_sum(x, y, z)), expected, "{x} {y} {z}");
                }
            }
        }
    }

    #[test]
    fn wide_products_do_not_overflow() {
        type Wide = Fixed<32, 16>;
        let ends = [i32::MIN, i32::MIN + 1, -1, 0, 1, i32::MAX];
        for (x, y, z) in ends.into_iter().flat_map(|x| {
            ends.into_iter().flat_map(move |y| ends.into_iter().map(move |z| (x, y, z)))
        }) {
            let exact = i128::from(x) * i128::from(y) + (i128::from(z) << 16);
            let (below, rest) = (exact >> 16, exact & 0xffff);
            let up = rest > 0x8000 || (rest == 0x8000 && below & 1 == 1);
            let expected =
                (below + i128::from(up)).clamp(i128::from(i32::MIN), i128::from(i32::MAX));
            assert_eq!(i128::from(Wide::product_sum(x, y, z)), expected, "{x} {y} {z}");
            assert_eq!(i64::from(Wide::subtract(x, y)), {
                (i64::from(x) - i64::from(y)).clamp(i32::MIN.into(), i32::MAX.into())
            });
        }
    }

    #[test]
    fn float_products_round_twice() {
        let [x, y, z] = [1.0 + f32::EPSILON, 1.0 - f32::EPSILON, -1.0].map(scalar);
        // Fused, the result would be -2^-46.
        assert_eq!(real(Float::product_sum(x, y, z)), 0.0);
        assert!(real(Float::max(scalar(f32::NAN), x)).is_nan());
    }
}
