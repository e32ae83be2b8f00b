//! Matrix products and convolutions.

use super::arithmetic::Arithmetic;
use super::choices::Step;
use super::windows::Reads;

/// A sum of products of every position with weights.
pub(super) struct Product {
    /// Output channels.
    pub(super) outputs: usize,
    /// The weights of the product itself, and of the one that is summed along.
    pub(super) factors: Vec<Factor>,
    /// One scalar for every output.
    pub(super) bias: Option<Vec<i32>>,
    /// What is summed, in order.
    pub(super) steps: Vec<Step>,
}

/// Weights in scalars.
pub(super) struct Factor {
    /// Input channels.
    pub(super) channels: usize,
    /// Groups of channels; a group of outputs has products with a group of inputs only.
    pub(super) groups: usize,
    /// For every tap and input channel the weights of the outputs of its group.
    pub(super) rows: Vec<i32>,
}

impl Product {
    /// The outputs of every position, given the input channels of every position of every factor.
    pub(super) fn apply<A: Arithmetic>(&self, inputs: &[(&[i32], &Reads)]) -> Vec<i32> {
        let positions = inputs.first().map_or(0, |(_, reads)| reads.len());
        let mut block = vec![0; self.outputs];
        let mut sums = vec![0; self.outputs * positions];
        for (position, sum) in sums.chunks_exact_mut(self.outputs).enumerate() {
            for (index, step) in self.steps.iter().enumerate() {
                match &self.bias {
                    Some(bias) if step.has_bias => block.copy_from_slice(bias),
                    _ => block.fill(0),
                }
                let (x, reads) = inputs[step.source];
                let factor = &self.factors[step.source];
                for (tap, channels) in &step.parts {
                    // Zeros change nothing.
                    let Some(source) = reads.of(position)[*tap] else { continue };
                    let input = &x[source * factor.channels..][..factor.channels];
                    factor.multiply::<A>(*tap, channels, input, &mut block);
                }
                if index == 0 {
                    sum.copy_from_slice(&block);
                    continue;
                }
                for (sum, &term) in sum.iter_mut().zip(&block) {
                    *sum = A::add(*sum, term);
                }
            }
        }
        sums
    }
}

impl Factor {
    /// Adds the products of some channels of a position.
    fn multiply<A: Arithmetic>(
        &self,
        tap: usize,
        channels: &std::ops::Range<usize>,
        input: &[i32],
        out: &mut [i32],
    ) {
        let (depth, width) = (self.channels / self.groups, out.len() / self.groups);
        for channel in channels.clone() {
            let x = input[channel];
            if x == 0 && A::SKIPS_ZERO {
                continue;
            }
            let row = &self.rows[(tap * self.channels + channel) * width..][..width];
            let group = channel / depth;
            for (sum, &weight) in out[group * width..][..width].iter_mut().zip(row) {
                *sum = A::product_sum(x, weight, *sum);
            }
        }
    }
}

/// Channels of every position from planes of every channel: `[N, C, P]` to `[N, P, C]`. The other
/// way round as well.
pub(super) fn swapped(data: &[i32], outer: usize, inner: usize) -> Vec<i32> {
    let image = |image: &[i32]| -> Vec<i32> {
        (0..inner).flat_map(|i| (0..outer).map(move |o| image[o * inner + i])).collect()
    };
    match outer * inner {
        0 => Vec::new(),
        size => data.chunks_exact(size).flat_map(image).collect(),
    }
}
