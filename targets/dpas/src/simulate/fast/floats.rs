//! Sums of products of floats.
//!
//! A block knows the magnitudes of its elements, so that it is known of which power of two `2^lo`
//! every product of two blocks is a multiple, and below which one, `2^hi`, all of them are.
//!
//! * `seq`: if `lo` is at least -149 and `hi` at most 128, every product is a number of f32, as it
//!   has at most 22 significant bits. Rounding it changes nothing, and a fused addition gives what
//!   a multiplication and an addition give.
//! * `stage`, `exact`: f64 adds up products without a rounding as long as all sums are multiples of
//!   `2^lo` and below `2^(lo + 53)`. That sum and the accumulator are added in f64 too, and then
//!   rounded to f32. The first of these roundings does harm only if it hits the middle between two
//!   numbers of f32: every other number of f64 lies on the same side of all middles as what it was
//!   rounded from. Rounding to odd never hits a middle by accident; it is the general way.
//!   Where all numbers are multiples of 2^-149, middles below the normal numbers of f32 do not
//!   occur, so that it is enough to look at 29 bits. Where f64 holds all sums of a chain, no
//!   rounding does harm.

use super::blocks::{Blocks, Magnitudes};
use super::chain::{Context, Product, Rows, fraction_bits, stage};
use super::sums::at_level;
use super::unpack::MagnitudesOf;
#[cfg(target_arch = "x86_64")]
use super::{avx512, chain::Ends, doubles512};
use crate::precision::Precision;
use crate::shape::Shape;
use crate::simulate::float::{Model, Real, Rules};
use quincunx_num::{Level, Loop};

/// Of what power of two numbers are multiples, and below which they are.
#[derive(Clone, Copy, Debug)]
struct Window {
    lo: i32,
    hi: i32,
}

/// More than any exponent, for numbers that are infinite or none.
const FAR: i32 = 1 << 16;

impl Window {
    /// Of numbers with so many bits of fraction. No number but zero has no window to speak of.
    fn of(magnitudes: Magnitudes, fraction_bits: i32) -> Window {
        let field = |bits: u32| ((bits >> 23) as i32).max(1);
        let hi = if magnitudes.most >= 0x7f80_0000 { FAR } else { field(magnitudes.most) - 126 };
        Window { lo: field(magnitudes.least) - 127 - fraction_bits, hi }
    }

    /// Of products of numbers of A and B, whose types are those of a shape.
    fn of_products([left, right]: [Magnitudes; 2], shape: &Shape) -> Window {
        let left = Window::of(left, fraction_bits(shape.activations));
        let right = Window::of(right, fraction_bits(shape.weights));
        Window { lo: left.lo + right.lo, hi: left.hi + right.hi }
    }

    /// Of all products of a chain.
    fn of_chain(products: &[Product], context: Context<'_>) -> Window {
        let mut both = [Magnitudes::NONE; 2];
        for (a, b) in products.iter().filter_map(|product| product.blocks) {
            both = [(both[0], a), (both[1], b)]
                .map(|(all, id)| all.with(context.blocks.magnitudes(id)));
        }
        Window::of_products(both, &context.shape)
    }

    /// Of f32 in registers.
    fn of_sums(bytes: &[u8], level: Level) -> Window {
        Window::of(at_level(level, MagnitudesOf(bytes)), 23)
    }

    /// True if all such products are numbers of f32.
    fn is_exact(self) -> bool {
        self.lo >= -149 && self.hi <= 128
    }

    /// True if f64 holds sums of `terms` such numbers, also if each was made larger by a rounding
    /// to f32 at times.
    fn holds(self, terms: usize) -> bool {
        self.below(terms, self.lo + 53)
    }

    /// True if such sums are below `2^exponent`.
    fn below(self, terms: usize, exponent: i32) -> bool {
        let carries = terms.next_power_of_two().trailing_zeros() as i32;
        self.hi + carries < exponent
    }
}

/// True if fused additions give the sums of all products of these blocks of A and B, whose types are
/// those of a shape.
pub(super) fn fused(
    [left, right]: [&[u32]; 2],
    (blocks, shape, rules): (&Blocks, &Shape, Rules),
) -> bool {
    // Every product of two halves is a number of f32, infinite or none included.
    if rules.model != Model::Seq
        || (shape.weights, shape.activations) == (Precision::Hf, Precision::Hf)
    {
        return true;
    }
    let all =
        |ids: &[u32]| ids.iter().fold(Magnitudes::NONE, |all, &id| all.with(blocks.magnitudes(id)));
    Window::of_products([all(left), all(right)], shape).is_exact()
}

/// Adds products of f32 one by one to sums of f32 with 512-bit vectors.
#[cfg(target_arch = "x86_64")]
pub(super) fn vectors<const N: usize>(
    file: &mut [u8],
    place: (Ends, usize),
    products: &[Product],
    context: Context<'_>,
) {
    let one = context.fused || context.rules.model != Model::Seq;
    let fused = one || Window::of_chain(products, context).is_exact();
    let blocks = context.blocks;
    match N {
        8 => avx512::narrow::singles(file, place, products, fused, blocks),
        _ => avx512::wide::singles(file, place, products, fused, blocks),
    }
}

/// The same for two chains with the same B, where additions may be fused.
#[cfg(target_arch = "x86_64")]
pub(super) fn twins<const N: usize>(
    file: &mut [u8],
    ends: [Ends; 2],
    products: [&[Product]; 2],
    context: Context<'_>,
) {
    match N {
        8 => avx512::narrow::twins(file, ends, products, context.blocks),
        _ => avx512::wide::twins(file, ends, products, context.blocks),
    }
}

/// Adds products one by one.
pub(super) fn singles<const N: usize>(
    sums: &mut [[f32; N]],
    products: &[Product],
    context: Context<'_>,
) {
    let (level, ftz) = (context.level, context.rules.ftz);
    let fused = context.rules.model != Model::Seq;
    let blocks = context.blocks;
    match (fused, ftz) {
        (false, false) => {
            at_level(level, Rows { sums, products, blocks, step: |sum, a, b| sum + a * b });
        }
        (false, true) => {
            let step = |sum: f32, a: f32, b: f32| (sum + (a * b).flush()).flush();
            at_level(level, Rows { sums, products, blocks, step });
        }
        (true, false) => {
            at_level(
                level,
                Rows { sums, products, blocks, step: |sum, a: f32, b| a.mul_add(b, sum) },
            );
        }
        (true, true) => {
            let step = |sum: f32, a: f32, b: f32| a.mul_add(b, sum).flush();
            at_level(level, Rows { sums, products, blocks, step });
        }
    }
}

/// Adds products of which f64 holds the sum of every stage exactly; after each, sums are rounded.
/// False if it may not hold one; the sums are as before then.
pub(super) fn doubles<const N: usize>(
    sums: &mut [[f32; N]],
    products: &[Product],
    context: Context<'_>,
) -> bool {
    let Window { lo, hi } = Window::of_chain(products, context);
    let longest = products.iter().map(|product| stage(product, context)).max();
    if hi >= FAR / 2 || !(Window { lo, hi }).holds(longest.unwrap_or(1)) {
        return false;
    }
    #[cfg(target_arch = "x86_64")]
    if context.level == Level::Avx512 && !context.rules.ftz && lo >= -149 {
        let all = sums.as_flattened_mut();
        let start = Window::of_sums(bytemuck::cast_slice(all), context.level);
        let both = Window { lo: lo.min(start.lo), hi: hi.max(start.hi) };
        let terms = 1 + products.iter().map(Product::columns).sum::<usize>();
        let negative_zero = all.iter().fold(false, |any, sum| any | (sum.to_bits() == 1 << 31));
        let exact = both.holds(terms) && both.below(terms, 127) && !negative_zero;
        doubles512::doubles(all, N, products, exact, context);
        return true;
    }
    at_level(context.level, Stages { sums, products, context });
    true
}

/// Stages in f64, and roundings to odd.
struct Stages<'a, const N: usize> {
    sums: &'a mut [[f32; N]],
    products: &'a [Product],
    context: Context<'a>,
}

impl<const N: usize> Loop for Stages<'_, N> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let ftz = self.context.rules.ftz;
        for product in self.products {
            let left = self.context.blocks.elements::<f64>(product.left);
            let right = self.context.blocks.elements::<f64>(product.right).as_chunks::<N>().0;
            let right = &right[..product.columns()];
            let stage = stage(product, self.context);
            for (row, sums) in self.sums.iter_mut().enumerate() {
                let left = &left[row * product.stride()..][..product.columns()];
                for (left, right) in left.chunks(stage).zip(right.chunks(stage)) {
                    // Zeros that are all negative add up to a negative one.
                    let mut terms = [-0.0; N];
                    for (&a, b) in left.iter().zip(right) {
                        for (term, &b) in terms.iter_mut().zip(b) {
                            *term += a * b;
                        }
                    }
                    for (sum, term) in sums.iter_mut().zip(terms) {
                        let new = sum_to_odd((*sum).into(), term) as f32;
                        *sum = if ftz { new.flush() } else { new };
                    }
                }
            }
        }
    }
}

/// `a + b`; where that is not a number of f64, the one of its two neighbours whose last bit is 1.
#[inline(always)]
pub(super) fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    // What the rounding has left out, exactly.
    let part = sum - a;
    let rest = (a - (sum - part)) + (b - part);
    let bits = sum.to_bits();
    // Towards zero, if the rounding went away from it.
    let away = u64::from((rest > 0.0) != (sum > 0.0));
    let odd = f64::from_bits(bits.wrapping_sub(away) | 1);
    // A rest that is not a number belongs to a sum that is infinite or none.
    if rest.abs() > 0.0 { odd } else { sum }
}
