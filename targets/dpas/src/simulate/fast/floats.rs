//! Sums of products of floats.
//!
//! A block knows the magnitudes of its elements, so that it is known of which power of two `2^lo`
//! every product of two blocks is a multiple, and below which one, `2^hi`, all of them are.
//!
//! * `seq`: if `lo` is at least -149 and `hi` at most 128, every product is a number of f32, as it
//!   has at most 22 significant bits. Rounding it changes nothing, and a fused addition gives what
//!   a multiplication and an addition give.
//! * `stage`, `exact`: f64 adds up products without a rounding as long as all sums are multiples of
//!   `2^lo` and below `2^(lo + 53)`. Where that holds for the accumulators too, the only rounding
//!   is that to f32. Where it does not, the f64 that is added last is rounded to odd: 53 bits, the
//!   last of which says if something is missing, are enough to round to the 24 of f32.

#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::blocks::{Magnitudes, magnitudes};
use super::chain::{Context, Product, ROWS, Rows, fraction_bits, stage};
use crate::simulate::float::{Model, Real};
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

    fn of_products(product: &Product, context: Context<'_>) -> Window {
        let Some((left, right)) = product.blocks else { return Window { lo: 0, hi: FAR } };
        let shape = &product.operation.shape;
        let blocks = context.blocks;
        let left = Window::of(blocks.magnitudes(left), fraction_bits(shape.activations));
        let right = Window::of(blocks.magnitudes(right), fraction_bits(shape.weights));
        Window { lo: left.lo + right.lo, hi: left.hi + right.hi }
    }

    /// True if f64 holds sums of `terms` such numbers, also if each was made larger by a rounding
    /// to f32 at times.
    fn holds(self, terms: usize) -> bool {
        let carries = terms.next_power_of_two().trailing_zeros() as i32;
        self.hi + carries < self.lo + 53
    }
}

/// True if every product is a number of f32.
pub(super) fn is_exact(product: &Product, context: Context<'_>) -> bool {
    let Window { lo, hi } = Window::of_products(product, context);
    lo >= -149 && hi <= 128
}

/// Adds products one by one.
pub(super) fn singles<const N: usize>(
    sums: &mut [[f32; N]],
    products: &[Product],
    context: Context<'_>,
) {
    let (level, ftz) = (context.level, context.rules.ftz);
    let fused = context.rules.model != Model::Seq;
    #[cfg(target_arch = "x86_64")]
    if level == Level::Avx512 && !ftz {
        let sums = sums.as_flattened_mut();
        return match N {
            8 => avx512::narrow::singles(sums, products, fused, context),
            _ => avx512::wide::singles(sums, products, fused, context),
        };
    }
    let blocks = context.blocks;
    match (fused, ftz) {
        (false, false) => {
            level.run(Rows { sums, products, blocks, step: |sum, a, b| sum + a * b });
        }
        (false, true) => {
            let step = |sum: f32, a: f32, b: f32| (sum + (a * b).flush()).flush();
            level.run(Rows { sums, products, blocks, step });
        }
        (true, false) => {
            with_fused(
                level,
                Rows { sums, products, blocks, step: |sum, a: f32, b| a.mul_add(b, sum) },
            );
        }
        (true, true) => {
            let step = |sum: f32, a: f32, b: f32| a.mul_add(b, sum).flush();
            with_fused(level, Rows { sums, products, blocks, step });
        }
    }
}

/// Runs a loop with fused additions in it.
fn with_fused<L: Loop>(level: Level, work: L) -> L::Result {
    #[cfg(target_arch = "x86_64")]
    if level != Level::Scalar {
        // SAFETY: The processor has the level, and with it the instructions.
        return unsafe { fused(work) };
    }
    level.run(work)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn fused<L: Loop>(work: L) -> L::Result {
    work.run()
}

/// Adds products whose sums f64 holds exactly, and rounds after every stage. False if it may not
/// hold them; the sums are as before then.
pub(super) fn exact_doubles<const N: usize>(
    sums: &mut [[f32; N]],
    products: &[Product],
    context: Context<'_>,
) -> bool {
    let start = Window::of(magnitudes(sums.as_flattened()), 23);
    let (mut all, mut terms) = (start, 1);
    for product in products {
        let Window { lo, hi } = Window::of_products(product, context);
        all = Window { lo: all.lo.min(lo), hi: all.hi.max(hi) };
        terms += product.k;
    }
    if !all.holds(terms) {
        return false;
    }
    #[cfg(target_arch = "x86_64")]
    if context.level == Level::Avx512 && !context.rules.ftz {
        avx512::doubles(sums.as_flattened_mut(), N, products, context);
        return true;
    }
    context.level.run(Stages::<N, false> { sums, products, context });
    true
}

/// Adds a product of which f64 holds the sum of each stage exactly, but perhaps not that with the
/// accumulator. False if it may not hold the former.
pub(super) fn rounded_doubles<const N: usize>(
    sums: &mut [[f32; N]],
    product: &Product,
    context: Context<'_>,
) -> bool {
    let window = Window::of_products(product, context);
    let holds = window.hi < FAR / 2 && window.holds(stage(product, context.rules));
    if holds {
        let products = std::slice::from_ref(product);
        context.level.run(Stages::<N, true> { sums, products, context });
    }
    holds
}

/// Stages in f64; with `ODD`, the accumulators need not be in the window.
struct Stages<'a, const N: usize, const ODD: bool> {
    sums: &'a mut [[f32; N]],
    products: &'a [Product],
    context: Context<'a>,
}

impl<const N: usize, const ODD: bool> Loop for Stages<'_, N, ODD> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let ftz = self.context.rules.ftz;
        for product in self.products {
            let left = self.context.blocks.elements::<f64>(product.left);
            let right = self.context.blocks.elements::<f64>(product.right).as_chunks::<N>().0;
            let right = &right[..product.k];
            let stage = stage(product, self.context.rules);
            for (row, sums) in self.sums.iter_mut().enumerate().take(ROWS) {
                let left = &left[row * product.left_stride..][..product.k];
                for (left, right) in left.chunks(stage).zip(right.chunks(stage)) {
                    // Zeros that are all negative add up to a negative one.
                    let mut terms = [-0.0; N];
                    for (&a, b) in left.iter().zip(right) {
                        for (term, &b) in terms.iter_mut().zip(b) {
                            *term += a * b;
                        }
                    }
                    for (sum, term) in sums.iter_mut().zip(terms) {
                        let (old, term) = (f64::from(*sum), term);
                        let new = if ODD { sum_to_odd(old, term) } else { old + term };
                        let new = new as f32;
                        *sum = if ftz { new.flush() } else { new };
                    }
                }
            }
        }
    }
}

/// `a + b`; where that is not a number of f64, the one of its two neighbours whose last bit is 1.
#[inline(always)]
fn sum_to_odd(a: f64, b: f64) -> f64 {
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
