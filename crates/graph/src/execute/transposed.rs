//! Transposed convolutions, for any number type.

use super::window::{Number, indices};
use crate::ConvTranspose;

/// A transposed convolution without bias. Every sum runs over the input channel, then the input
/// positions in row-major order.
pub(super) fn convolve_transposed<T: Number>(
    conv: &ConvTranspose,
    (x, x_shape): (&[T], &[usize]),
    (w, w_shape): (&[T], &[usize]),
    out_shape: &[usize],
) -> Vec<T> {
    let (batch, channels, filters) = (x_shape[0], x_shape[1], out_shape[1]);
    let (depth, per_group) = (channels / conv.groups, w_shape[1]);
    let plane: usize = x_shape[2..].iter().product();
    let kernel: usize = w_shape[2..].iter().product();
    let positions: usize = out_shape[2..].iter().product();
    let targets = targets(conv, &x_shape[2..], &out_shape[2..]);
    let mut out = vec![T::zero(); batch * filters * positions];
    for n in 0..batch {
        for m in 0..filters {
            let (group, filter) = (m / per_group, m % per_group);
            let out = &mut out[(n * filters + m) * positions..][..positions];
            for c in group * depth..(group + 1) * depth {
                let x = &x[(n * channels + c) * plane..][..plane];
                let w = &w[(c * per_group + filter) * kernel..][..kernel];
                for &(source, tap, target) in &targets {
                    out[target].multiply_add(&x[source], &w[tap]);
                }
            }
        }
    }
    out
}

/// Every `(input position, tap, output position)` that meet.
fn targets(conv: &ConvTranspose, input: &[usize], output: &[usize]) -> Vec<(usize, usize, usize)> {
    let mut targets = Vec::new();
    for (source, position) in indices(input).enumerate() {
        for (tap, offsets) in indices(&conv.window.kernel).enumerate() {
            let target = (0..input.len()).try_fold(0, |target, axis| {
                let at = conv.target(axis, position[axis], offsets[axis], output[axis])?;
                Some(target * output[axis] + at)
            });
            targets.extend(target.map(|target| (source, tap, target)));
        }
    }
    targets
}
