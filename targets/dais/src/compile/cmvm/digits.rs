//! Signed digits: integers as sums of few signed powers of two.

/// Non-zero digits `(power, negative)` of the canonical form, lowest first: no two neighbours are
/// non-zero, which makes their number minimal.
pub(super) fn canonical(value: i64) -> impl Iterator<Item = (u32, bool)> {
    let mut rest = i128::from(value);
    let mut power = 0;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let zeros = rest.trailing_zeros();
        rest >>= zeros;
        power += zeros;
        // The digit is +1 or -1, whichever leaves a multiple of four.
        let negative = rest & 3 == 3;
        rest -= if negative { -1 } else { 1 };
        Some((power, negative))
    })
}

/// Number of non-zero digits of the canonical form.
pub(in crate::compile) fn count(value: i64) -> u32 {
    // Bits in which v and 3v differ are where the digits are, one place up. The negative number has as
    // many, and without the lowest bit, which is that of both, 3v does not overflow.
    let value = value.unsigned_abs();
    let half = value >> 1;
    ((value + half) ^ half).count_ones()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_digits_add_up_and_are_counted() {
        for value in (-5000..5000).chain([i64::MAX >> 8, -(i64::MAX >> 8), i64::MAX, i64::MIN]) {
            let digits: Vec<(u32, bool)> = canonical(value).collect();
            let sum: i128 =
                digits.iter().map(|&(power, neg)| if neg { -1 << power } else { 1 << power }).sum();
            assert_eq!(sum, i128::from(value));
            assert!(digits.windows(2).all(|pair| pair[1].0 >= pair[0].0 + 2), "{value}");
            assert_eq!(digits.len() as u32, count(value), "{value}");
        }
    }
}
