//! Loops over planes of whole numbers.

use super::super::lower::Pattern;
use super::flow::{Join, MAX_OFFSET};
use quincunx_num::{Level, Loop};
use std::ops::{BitAnd, BitOr, BitXor, Not};

/// A whole number of a plane; sums and products are modulo its size.
pub(super) trait Lane:
    Copy
    + Default
    + Eq
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
{
    /// Numbers up to this do not wrap.
    const MAX: f64;
    fn wrapped(value: i64) -> Self;
    fn real(self) -> f64;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn shifted(self, count: u32) -> Self;
    fn is_positive(self) -> bool;
}

macro_rules! lane {
    ($type:ty) => {
        impl Lane for $type {
            const MAX: f64 = <$type>::MAX as f64;
            #[inline(always)]
            fn wrapped(value: i64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn real(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn shifted(self, count: u32) -> Self {
                self >> count
            }
            #[inline(always)]
            fn is_positive(self) -> bool {
                self > 0
            }
        }
    };
}

lane!(i16);
lane!(i32);

/// A plane inside guards of zeros: rows have a guard behind them, and there are guards before the
/// first and behind the last row, so that every offset of a term leads to a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) width: usize,
    pub(super) height: usize,
}

const GUARD: usize = MAX_OFFSET as usize;

impl Frame {
    fn pitch(self) -> usize {
        self.width + GUARD
    }

    /// Numbers of a plane with its guards.
    pub(super) fn length(self) -> usize {
        (self.height + 2 * GUARD) * self.pitch() + GUARD
    }

    /// Where the numbers of a row begin, seen from so many rows further south and columns further
    /// east.
    fn row(self, row: usize, rows: i32, columns: i32) -> usize {
        let at = (row + GUARD) as isize + rows as isize;
        (at * self.pitch() as isize + GUARD as isize + columns as isize) as usize
    }
}

/// A plane that is added, from an offset, so many times.
#[derive(Clone, Copy)]
pub(super) struct Source<'a, T> {
    pub(super) plane: &'a [T],
    pub(super) rows: i32,
    pub(super) columns: i32,
    pub(super) times: T,
}

/// What becomes of a sum.
#[derive(Clone, Copy)]
pub(super) enum Then {
    Shift(u32),
    Compare,
}

/// A sum for every element.
pub(super) struct Sum<'a, T> {
    pub(super) frame: Frame,
    pub(super) target: &'a mut [T],
    pub(super) sources: &'a [Source<'a, T>],
    pub(super) then: Then,
}

impl<T: Lane> Sum<'_, T> {
    /// Adds so many sources to what the target holds, or sets it.
    #[inline(always)]
    fn pass<const N: usize>(&mut self, first: usize, then: Then) {
        let Frame { width, height } = self.frame;
        for row in 0..height {
            let at = self.frame.row(row, 0, 0);
            let target = &mut self.target[at..at + width];
            let sources: [(&[T], T); N] = std::array::from_fn(|index| {
                let Source { plane, rows, columns, times } = self.sources[first + index];
                let at = self.frame.row(row, rows, columns);
                (&plane[at..at + width], times)
            });
            let zero = T::default();
            for column in 0..width {
                let old = if first == 0 { zero } else { target[column] };
                let sum = sources
                    .iter()
                    .fold(old, |sum, (plane, times)| sum.add(plane[column].mul(*times)));
                target[column] = match then {
                    Then::Shift(count) => sum.shifted(count),
                    Then::Compare => T::wrapped(-i64::from(sum.is_positive())),
                };
            }
        }
    }
}

impl<T: Lane> Loop for Sum<'_, T> {
    type Result = ();

    #[inline(always)]
    fn run(mut self) {
        let (count, mut first) = (self.sources.len(), 0);
        loop {
            let left = count - first;
            let then = if left > 4 { Then::Shift(0) } else { self.then };
            match left {
                0 => self.pass::<0>(first, then),
                1 => self.pass::<1>(first, then),
                2 => self.pass::<2>(first, then),
                3 => self.pass::<3>(first, then),
                _ => self.pass::<4>(first, then),
            }
            first += 4;
            if first >= count {
                return;
            }
        }
    }
}

/// One of two numbers for every element.
pub(super) struct Choice<'a, T> {
    pub(super) frame: Frame,
    pub(super) target: &'a mut [T],
    pub(super) mask: &'a [T],
    pub(super) set: &'a [T],
    pub(super) clear: &'a [T],
}

impl<T: Lane> Loop for Choice<'_, T> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        for row in 0..self.frame.height {
            let at = self.frame.row(row, 0, 0);
            let range = at..at + self.frame.width;
            let numbers = self.mask[range.clone()].iter();
            let numbers = numbers.zip(&self.set[range.clone()]).zip(&self.clear[range.clone()]);
            for (target, ((mask, &set), &clear)) in self.target[range].iter_mut().zip(numbers) {
                *target = (*mask & set) | (!*mask & clear);
            }
        }
    }
}

/// Two 1-bit planes, joined.
pub(super) struct Logic<'a, T> {
    pub(super) frame: Frame,
    pub(super) target: &'a mut [T],
    pub(super) join: Join,
    pub(super) a: &'a [T],
    pub(super) b: &'a [T],
}

impl<T: Lane> Logic<'_, T> {
    #[inline(always)]
    fn each(self, join: impl Fn(T, T) -> T) {
        for row in 0..self.frame.height {
            let at = self.frame.row(row, 0, 0);
            let range = at..at + self.frame.width;
            let bits = self.a[range.clone()].iter().zip(&self.b[range.clone()]);
            for (target, (&a, &b)) in self.target[range].iter_mut().zip(bits) {
                *target = join(a, b);
            }
        }
    }
}

impl<T: Lane> Loop for Logic<'_, T> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        match self.join {
            Join::And => self.each(|a, b| a & b),
            Join::Or => self.each(|a, b| a | b),
            Join::Xor => self.each(|a, b| a ^ b),
            Join::Nor => self.each(|a, b| !(a | b)),
        }
    }
}

/// Sets a plane to all ones where a pattern holds.
pub(super) fn pattern<T: Lane>(frame: Frame, target: &mut [T], pattern: Pattern) {
    let bit = |is_set: bool| T::wrapped(-i64::from(is_set));
    let columns = (0..frame.width).map(|at| bit(pattern.has_column(at, frame.width)));
    let columns: Vec<T> = columns.collect();
    for row in 0..frame.height {
        let at = frame.row(row, 0, 0);
        let target = &mut target[at..at + frame.width];
        match pattern.has_row(row) {
            true => target.copy_from_slice(&columns),
            false => target.fill(T::default()),
        }
    }
}

/// Added to a float of less than 2^51, this leaves a whole number in the low bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// The largest magnitude of floats times a power of two; `None` unless all are whole numbers of less
/// than 2^51 then, and none is -0.
pub(super) fn whole(image: &[f64], scale: f64, level: Level) -> Option<f64> {
    struct Check<'a>(&'a [f64], f64);
    impl Loop for Check<'_> {
        type Result = (u64, i64);

        #[inline(always)]
        fn run(self) -> (u64, i64) {
            let Check(image, scale) = self;
            image.iter().fold((0, 0), |(lost, most), value| {
                let scaled = value * scale;
                let rounded = (scaled + MAGIC) - MAGIC;
                // Magnitudes of floats are in the order of their bits, NaN behind all others.
                let magnitude = scaled.abs().to_bits() as i64;
                let lost = lost | (scaled.to_bits() ^ rounded.to_bits());
                (lost, if magnitude > most { magnitude } else { most })
            })
        }
    }
    let (lost, most) = level.run(Check(image, scale));
    let most = f64::from_bits(most as u64);
    (lost == 0 && most < (1_u64 << 51) as f64).then_some(most)
}

/// Sets a plane to floats times a power of two, which are whole numbers then.
pub(super) struct Load<'a, T> {
    pub(super) frame: Frame,
    pub(super) target: &'a mut [T],
    pub(super) image: &'a [f64],
    pub(super) scale: f64,
}

impl<T: Lane> Loop for Load<'_, T> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        for (row, numbers) in self.image.chunks_exact(self.frame.width).enumerate() {
            let at = self.frame.row(row, 0, 0);
            for (target, number) in self.target[at..at + self.frame.width].iter_mut().zip(numbers) {
                *target = T::wrapped((number * self.scale + MAGIC).to_bits() as i64);
            }
        }
    }
}

/// Appends a plane as floats.
pub(super) struct Store<'a, T> {
    pub(super) frame: Frame,
    pub(super) plane: &'a [T],
    pub(super) scale: f64,
    pub(super) image: &'a mut Vec<f64>,
}

impl<T: Lane> Loop for Store<'_, T> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let Frame { width, height } = self.frame;
        for row in 0..height {
            let at = self.frame.row(row, 0, 0);
            let numbers = self.plane[at..at + width].iter();
            self.image.extend(numbers.map(|number| number.real() * self.scale));
        }
    }
}
