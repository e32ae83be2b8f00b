//! Random numbers that are the same everywhere.

use quincunx_tensor::Tensor;
use std::ops::{Add, Sub};

/// A generator of numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

/// A type of whole numbers that can be drawn.
pub trait Whole: Copy + Add<Output = Self> + Sub<Output = Self> {
    /// One.
    const ONE: Self;

    /// The number as unsigned; negative ones and zero are 1.
    fn count(self) -> u64;

    /// A number that is less than what [`count`](Self::count) gave.
    fn of(drawn: u64) -> Self;
}

macro_rules! whole {
    ($($type:ty)*) => {$(
        impl Whole for $type {
            const ONE: Self = 1;

            fn count(self) -> u64 {
                u64::try_from(self).unwrap_or(1).max(1)
            }

            fn of(drawn: u64) -> Self {
                drawn as $type
            }
        }
    )*};
}

whole!(u8 u16 u32 u64 usize i8 i16 i32 i64);

/// What makes neighbouring numbers unlike each other; 0 stays 0.
fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// The numbers of one case under the base seed ([`seed`](crate::seed)).
    pub fn new(case: u64) -> Self {
        Random(case ^ mixed(crate::seed()))
    }

    /// 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "it never ends, and an iterator could")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A number in `0..n`; 0 if that is empty.
    pub fn below<N: Whole>(&mut self, n: N) -> N {
        N::of(self.next() % n.count())
    }

    /// A number in `low..=high`, which may not hold more numbers than the type.
    pub fn range<N: Whole>(&mut self, low: N, high: N) -> N {
        low + self.below(high - low + N::ONE)
    }

    /// True half of the time.
    pub fn coin(&mut self) -> bool {
        self.next() % 2 == 1
    }

    /// True so often.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// One of a list.
    pub fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    /// A number in -1..1.
    pub fn real(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    /// A number on a fine grid, sometimes far outside of the types of a machine.
    pub fn float(&mut self) -> f64 {
        let scale = self.pick(&[1.0, 64.0, 1e6]);
        self.range(-(1 << 19), 1 << 19) as f64 / f64::from(1 << 19) * scale
    }

    /// Numbers in -1..=1.
    pub fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.real() as f32).collect()
    }

    /// Numbers up to this magnitude.
    pub fn tensor(&mut self, shape: &[usize], magnitude: f64) -> Tensor {
        let numbers = (0..shape.iter().product()).map(|_| (self.real() * magnitude) as f32);
        Tensor::from_vec(shape, numbers.collect::<Vec<f32>>()).unwrap()
    }

    /// Codes of 8 bits as numbers.
    pub fn codes(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.below(256) as f64 - 128.0).collect()
    }

    /// Zeros and ones as numbers.
    pub fn bits(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.below(2) as f64).collect()
    }

    /// Random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}
