//! Transposed convolutions, for any number type.

use super::window::{Number, indices};
use crate::ConvTranspose;

/// A transposed convolution without bias. Every sum runs over the input positions in row-major
/// order, then the input channel.
pub(super) fn convolve_transposed<T: Number>(
    conv: &ConvTranspose,
    x: &[T],
    x_shape: &[usize],
    w: &[T],
    w_shape: &[usize],
    out_shape: &[usize],
) -> Vec<T> {
    let (batch, channels, filters) = (x_shape[0], x_shape[1], out_shape[1]);
    let (depth, per_group) = (channels / conv.groups, w_shape[1]);
    let plane: usize = x_shape[2..].iter().product();
    let kernel: usize = w_shape[2..].iter().product();
    let positions: usize = out_shape[2..].iter().product();
    let mut out = vec![T::zero(); batch * filters * positions];
    for (source, position) in indices(&x_shape[2..]).enumerate() {
        let targets = targets(conv, &position, &out_shape[2..]);
        for (n, m) in (0..batch).flat_map(|n| (0..filters).map(move |m| (n, m))) {
            let (group, filter) = (m / per_group, m % per_group);
            let out = &mut out[(n * filters + m) * positions..][..positions];
            for c in group * depth..(group + 1) * depth {
                let x = &x[(n * channels + c) * plane + source];
                let w = &w[(c * per_group + filter) * kernel..][..kernel];
                for &(tap, target) in &targets {
                    out[target].multiply_add(x, &w[tap]);
                }
            }
        }
    }
    out
}

/// The taps of an input position, each with the output position it adds to.
fn targets(conv: &ConvTranspose, position: &[usize], output: &[usize]) -> Vec<(usize, usize)> {
    let target = |offsets: &[usize]| {
        (0..output.len()).try_fold(0, |target, axis| {
            let at = conv.target(axis, position[axis], offsets[axis], output[axis])?;
            Some(target * output[axis] + at)
        })
    };
    let taps = indices(&conv.window.kernel).enumerate();
    taps.filter_map(|(tap, offsets)| Some((tap, target(&offsets)?))).collect()
}
