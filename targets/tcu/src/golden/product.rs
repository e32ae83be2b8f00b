//! Matrix products and convolutions.

use super::arithmetic::Arithmetic;
use super::choices::Step;
use super::windows::Reads;

/// A product of every position with weights.
pub(super) struct Product {
    /// Input channels.
    pub(super) channels: usize,
    /// Output channels.
    pub(super) outputs: usize,
    /// Groups of channels; a group of outputs has products with a group of inputs only.
    pub(super) groups: usize,
    /// For every tap and input channel the weights of the outputs of its group.
    pub(super) rows: Vec<i32>,
    /// One scalar for every output.
    pub(super) bias: Option<Vec<i32>>,
    /// What is summed, in order.
    pub(super) steps: Vec<Step>,
}

impl Product {
    /// The outputs of every position, given the input channels of every position.
    pub(super) fn apply<A: Arithmetic>(&self, x: &[i32], reads: &Reads) -> Vec<i32> {
        let zeros = vec![0; self.channels];
        let mut block = vec![0; self.outputs];
        let mut sums = vec![0; self.outputs * reads.len()];
        for (position, sum) in sums.chunks_exact_mut(self.outputs).enumerate() {
            let sources = reads.of(position);
            for (index, step) in self.steps.iter().enumerate() {
                let input = sources[step.tap]
                    .map_or(&zeros[..], |source| &x[source * self.channels..][..self.channels]);
                self.multiply_block::<A>(step, input, &mut block);
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

    /// The product of one block of the channels of a position.
    fn multiply_block<A: Arithmetic>(&self, step: &Step, input: &[i32], out: &mut [i32]) {
        match &self.bias {
            Some(bias) if step.has_bias => out.copy_from_slice(bias),
            _ => out.fill(0),
        }
        let (depth, width) = (self.channels / self.groups, self.outputs / self.groups);
        for channel in step.channels.clone() {
            let x = input[channel];
            if x == 0 && A::SKIPS_ZERO {
                continue;
            }
            let row = &self.rows[(step.tap * self.channels + channel) * width..][..width];
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
