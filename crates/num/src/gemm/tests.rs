//! Every level against sums in i64.

use super::{Left, Packed};
use crate::level::Level;
use crate::matrix::Matrix;
use proptest::prelude::*;

/// A small generator of numbers: xorshift.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Bytes of which some are extremes, which are where products wrap.
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let byte = |noise: u64| match noise >> 61 {
            0 => 0x80,
            1 => 0xff,
            2 => 0x7f,
            _ => noise.to_le_bytes()[2],
        };
        (0..count).map(|_| byte(self.next())).collect()
    }
}

/// `out + left * right` in i64, then modulo 2^32.
fn reference<L: Left<Sum = i32, Wide = i16>>(
    left: Matrix<'_, L>,
    right: Matrix<'_, L::Right>,
    out: &mut [i32],
    stride: usize,
) {
    for row in 0..left.rows() {
        for column in 0..right.columns() {
            let product = |k| {
                let (a, b) = (left.get(row, k).wide(), L::wide_right(right.get(k, column)));
                i64::from(a) * i64::from(b)
            };
            let sum: i64 = (0..left.columns()).map(product).sum();
            let place = &mut out[row * stride + column];
            *place = place.wrapping_add(sum as i32);
        }
    }
}

/// All levels on one shape; rows of all matrices lie `gap` further apart than they are long.
fn compare<L: Left<Sum = i32, Wide = i16>>(sizes: (usize, usize, usize), gap: usize, seed: u64)
where
    L::Right: bytemuck::Pod,
{
    let (m, k, n) = sizes;
    let mut noise = Noise(seed | 1);
    let bytes = noise.bytes((m * (k + gap)).max(k * (n + gap)) * size_of::<L>());
    let left: Vec<L> = bytemuck::pod_collect_to_vec(&bytes[..m * (k + gap) * size_of::<L>()]);
    let bytes = noise.bytes(bytes.len());
    let right: Vec<L::Right> =
        bytemuck::pod_collect_to_vec(&bytes[..k * (n + gap) * size_of::<L>()]);
    let left = Matrix::new(&left, m, k, k + gap, 1);
    let right = if seed.is_multiple_of(2) {
        Matrix::new(&right, k, n, n + gap, 1)
    } else {
        Matrix::new(&right, n, k, k, 1).transposed()
    };
    // What is there before is added to, and what lies between the rows stays.
    let before: Vec<i32> = (0..m * (n + gap)).map(|_| noise.next() as i32).collect();
    let mut expected = before.clone();
    reference::<L>(left, right, &mut expected, n + gap);
    for level in Level::available() {
        let packed = Packed::<L>::for_level(right, level);
        let mut out = before.clone();
        packed.multiply_add(left, &mut out, n + gap);
        assert!(out == expected, "{level} {m}x{k}x{n} gap {gap} seed {seed}");
        let sums: Vec<i32> = (0..n)
            .map(|c| (0..k).map(|r| i32::from(L::wide_right(right.get(r, c)))).sum())
            .collect();
        assert_eq!(packed.column_sums(), sums);
        assert_eq!((packed.level(), packed.rows(), packed.columns()), (level, k, n));
    }
}

fn compare_all(sizes: (usize, usize, usize), gap: usize, seed: u64) {
    compare::<u8>(sizes, gap, seed);
    compare::<i8>(sizes, gap, seed);
    compare::<i16>(sizes, gap, seed);
}

#[test]
fn sizes_around_every_edge() {
    for m in [0, 1, 2, 5, 6, 7, 8, 9, 13] {
        for k in [0, 1, 2, 3, 4, 5, 8, 11] {
            for n in [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 49] {
                compare_all((m, k, n), (m + n) % 3, (m * 64 + k * 8 + n) as u64);
            }
        }
    }
}

#[test]
fn sizes_around_the_blocks() {
    for k in [511, 512, 513, 1023, 1024, 1026, 2051] {
        compare_all((9, k, 33), 1, k as u64);
    }
    for m in [255, 256, 257, 513] {
        compare_all((m, 7, 5), 0, m as u64);
    }
}

/// Sums that leave i32 come out modulo 2^32 at every level, saturate at none.
#[test]
fn sums_wrap() {
    fn check<L: Left<Sum = i32, Wide = i16>>(left: L, right: L::Right, k: usize) {
        let product = i64::from(left.wide()) * i64::from(L::wide_right(right));
        let expected = (product * k as i64) as i32;
        assert_ne!(i64::from(expected), product * k as i64, "the case wraps");
        let (left, right) = (vec![left; k], vec![right; k * 3]);
        for level in Level::available() {
            let packed = Packed::<L>::for_level(Matrix::row_major(&right, k, 3), level);
            let mut out = [0; 3];
            packed.multiply_add(Matrix::row_major(&left, 1, k), &mut out, 3);
            assert_eq!(out, [expected; 3], "{level}");
        }
    }
    check::<u8>(255, -128, 66_000);
    check::<u8>(255, 127, 66_400);
    check::<i8>(-128, -128, 131_072);
    check::<i8>(-128, 127, 132_200);
    check::<i16>(-32768, -32768, 2);
    check::<i16>(-32768, -32768, 3);
    check::<i16>(32767, -32768, 5);
    check::<i16>(32767, 32767, 4);
}

/// `vpmaddubsw` would saturate here.
#[test]
fn pairs_do_not_saturate() {
    for level in Level::available() {
        let right = [127_i8; 4];
        let packed = Packed::<u8>::for_level(Matrix::row_major(&right, 4, 1), level);
        let mut out = [0];
        packed.multiply_add(Matrix::row_major(&[255; 4], 1, 4), &mut out, 1);
        assert_eq!(out, [4 * 255 * 127]);
    }
}

#[test]
#[should_panic(expected = "the result has room")]
fn a_short_result_is_refused() {
    let packed = Packed::<u8>::new(Matrix::row_major(&[1; 8], 2, 4));
    packed.multiply_add(Matrix::row_major(&[1; 4], 2, 2), &mut [0; 7], 4);
}

#[test]
#[should_panic(expected = "every element")]
fn a_short_matrix_is_refused() {
    Matrix::new(&[0_u8; 7], 2, 4, 4, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn levels_agree(m in 0_usize..40, k in 0_usize..300, n in 0_usize..80, gap in 0_usize..9, seed: u64) {
        compare_all((m, k, n), gap, seed);
    }
}

/// Products of small whole numbers, whose sums are exact in any order, at every level.
#[test]
fn f32_equals_the_definition() {
    for (m, k, n) in
        [(1, 1, 1), (5, 3, 17), (9, 255, 33), (13, 256, 16), (7, 300, 40), (3, 1025, 65)]
    {
        let mut noise = Noise(m as u64 * 77 + k as u64);
        let mut numbers = |count: usize| {
            (0..count).map(|_| (noise.next() >> 60) as f32 - 8.0).collect::<Vec<_>>()
        };
        let (left, right, before) = (numbers(m * k), numbers(n * k), numbers(m * (n + 1)));
        let left = Matrix::row_major(&left, m, k);
        let right = Matrix::row_major(&right, n, k).transposed();
        let mut expected = before.clone();
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            expected[row * (n + 1) + column] +=
                (0..k).map(|i| left.get(row, i) * right.get(i, column)).sum::<f32>();
        }
        for level in Level::available() {
            let mut out = before.clone();
            Packed::<f32>::for_level(right, level).multiply_add(left, &mut out, n + 1);
            assert!(out == expected, "{level} {m}x{k}x{n}");
        }
    }
}

/// How rows are divided among calls does not change a bit.
#[test]
fn f32_rows_are_independent() {
    let (m, k, n) = (29, 700, 37);
    let number = |i: usize| (i as f32 * 0.618).fract() - 0.4;
    let left: Vec<f32> = (0..m * k).map(number).collect();
    let right: Vec<f32> = (0..k * n).map(|i| number(i * 3 + 1)).collect();
    for level in Level::available() {
        let packed = Packed::<f32>::for_level(Matrix::row_major(&right, k, n), level);
        let mut whole = vec![0.0; m * n];
        packed.multiply_add(Matrix::row_major(&left, m, k), &mut whole, n);
        for part in [1, 3, 8, 28] {
            let mut parts = vec![0.0; m * n];
            for (left, out) in left.chunks(part * k).zip(parts.chunks_mut(part * n)) {
                packed.multiply_add(Matrix::row_major(left, out.len() / n, k), out, n);
            }
            assert!(parts == whole, "{level} by {part}");
        }
    }
}
