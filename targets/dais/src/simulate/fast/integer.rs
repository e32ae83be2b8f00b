//! The integers of lanes. Everything wraps; the ranges show that nothing does that matters.

/// Samples of a line: blocks are made of whole ones.
pub(super) const LINE: usize = 32;

/// Bytes to whose multiples registers are aligned: a line of the cache.
const ALIGNMENT: usize = 64;

/// The numbers of a block of samples.
#[derive(Clone, Debug, Default)]
pub(super) struct Register<T> {
    numbers: Vec<T>,
    /// The first one; those before it are unused.
    start: usize,
}

impl<T: Integer> Register<T> {
    /// Zeros for so many samples.
    pub(super) fn new(samples: usize) -> Register<T> {
        let spare = ALIGNMENT / size_of::<T>();
        let numbers = vec![T::default(); samples + spare];
        // Unaligned registers would only be slower.
        let start = numbers.as_ptr().align_offset(ALIGNMENT).min(spare);
        Register { numbers, start }
    }

    /// Those of the first samples.
    #[inline(always)]
    pub(super) fn first(&self, samples: usize) -> &[T] {
        &self.numbers[self.start..][..samples]
    }

    /// The same, to be written.
    #[inline(always)]
    pub(super) fn first_mut(&mut self, samples: usize) -> &mut [T] {
        &mut self.numbers[self.start..][..samples]
    }

    /// The same number everywhere.
    pub(super) fn fill(&mut self, value: T) {
        self.numbers.fill(value);
    }
}

/// What steps need of an integer.
pub(super) trait Integer: Copy + Default + PartialEq + Ord + 'static {
    const BITS: u32;
    /// The low bits.
    fn low_bits(value: i64) -> Self;
    fn wide(self) -> i64;
    fn real(self) -> f64;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn not(self) -> Self;
    fn left(self, by: u32) -> Self;
    fn right(self, by: u32) -> Self;
}

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Integer for $type {
            const BITS: u32 = <$type>::BITS;
            #[inline(always)]
            fn low_bits(value: i64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn wide(self) -> i64 {
                self.into()
            }
            #[inline(always)]
            fn real(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn not(self) -> Self {
                !self
            }
            #[inline(always)]
            fn left(self, by: u32) -> Self {
                self.wrapping_shl(by)
            }
            #[inline(always)]
            fn right(self, by: u32) -> Self {
                self.wrapping_shr(by)
            }
        }
    )*};
}

integer!(i16, i32, i64);
