//! Convolution where every channel is its own group.

use super::ConvShape;
use crate::gemm::Left;
use crate::level::Level;

/// Adds the convolution to some places of the result, channels last. `weights` holds the channels
/// of each window element.
pub(super) fn add<L: Left>(
    shape: &ConvShape,
    image: &[L],
    pad: L,
    weights: &[L::Wide],
    places: impl Iterator<Item = [usize; 2]>,
    out: &mut [L::Sum],
    level: Level,
) {
    let pads = vec![pad; shape.channels];
    for (place, out) in places.zip(out.chunks_exact_mut(shape.channels)) {
        for (element, weights) in weights.chunks_exact(shape.channels).enumerate() {
            let (vertical, horizontal) = (element / shape.kernel[1], element % shape.kernel[1]);
            let y = shape.position(0, place[0], vertical);
            let x = shape.position(1, place[1], horizontal);
            let pixel = match y.zip(x) {
                Some((y, x)) => {
                    &image[(y * shape.size[1] + x) * shape.channels..][..shape.channels]
                }
                None => &pads,
            };
            add_products(pixel, weights, out, level);
        }
    }
}

/// `out += left * right`, element by element; of integers modulo 2^32.
fn add_products<L: Left>(left: &[L], right: &[L::Wide], out: &mut [L::Sum], level: Level) {
    match level {
        Level::Scalar => add_products_inline(left, right, out),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => {
            // SAFETY: `Convolution::for_level` checked that the processor has the level, and a
            // processor with either has AVX2.
            unsafe { add_products_avx2(left, right, out) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::Avx512 => unreachable!("is never available here"),
    }
}

/// The same code, for which the compiler may use AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_products_avx2<L: Left>(left: &[L], right: &[L::Wide], out: &mut [L::Sum]) {
    add_products_inline(left, right, out);
}

#[inline(always)]
fn add_products_inline<L: Left>(left: &[L], right: &[L::Wide], out: &mut [L::Sum]) {
    for ((out, left), right) in out.iter_mut().zip(left).zip(right) {
        *out = L::add_product(*out, left.wide(), *right);
    }
}
