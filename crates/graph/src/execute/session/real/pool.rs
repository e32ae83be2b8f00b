//! Poolings, channels last.

use super::super::build::Builder;
use super::super::data::{Data, Layout};
use super::super::threads::Threads;
use super::super::value::Form;
use crate::{Node, Pool, PoolKind};
use quincunx_diag::Result;
use std::sync::Arc;

impl Builder<'_> {
    pub(super) fn real_pool(&mut self, node: &Node, pool: &Pool) -> Result<Option<Form>> {
        let x = self.operand(node, 0)?;
        let geometry = Geometry::new(pool, self.shape(x), self.shape(node.output));
        let slot = self.real(x, Layout::Last)?;
        let counts = pool.divisors(&self.shape(x)[2..], &self.shape(node.output)[2..]);
        let kind = pool.kind;
        let kernel = move |threads: &Threads, data: Vec<Arc<Data>>| {
            let x = data[0].floats()?;
            let mut out = vec![0.0; geometry.elements()];
            match kind {
                PoolKind::Max => geometry.run(*threads, &x, &mut out, |_, out, pixels| {
                    out.fill(f32::NEG_INFINITY);
                    for pixel in pixels {
                        for (best, &v) in out.iter_mut().zip(pixel) {
                            *best = if v > *best || v.is_nan() { v } else { *best };
                        }
                    }
                }),
                PoolKind::Average { .. } => {
                    geometry.run(*threads, &x, &mut out, |position, out, pixels| {
                        out.fill(0.0);
                        for pixel in pixels {
                            out.iter_mut().zip(pixel).for_each(|(sum, v)| *sum += v);
                        }
                        let count = counts[position] as f32;
                        out.iter_mut().for_each(|sum| *sum /= count);
                    });
                }
            }
            Ok(Data::Floats(out))
        };
        let slot = self.emit(node.output, vec![slot], Box::new(kernel))?;
        Ok(Some(Form::Real(slot, Layout::Last)))
    }

    /// The mean over all axes from the third on.
    pub(super) fn real_global_average(&mut self, node: &Node) -> Result<Option<Form>> {
        let x = self.operand(node, 0)?;
        let (shape, elements) = (self.shape(x), self.shape(node.output).iter().product());
        let (channels, plane) = (shape[1], shape[2..].iter().product::<usize>());
        if plane == 0 || channels == 0 {
            return Ok(None);
        }
        let slot = self.real(x, Layout::Last)?;
        let kernel = move |_: &Threads, data: Vec<Arc<Data>>| {
            let x = data[0].floats()?;
            let mut out = vec![0.0_f32; elements];
            for (out, image) in out.chunks_mut(channels).zip(x.chunks(plane * channels)) {
                for pixel in image.chunks_exact(channels) {
                    out.iter_mut().zip(pixel).for_each(|(sum, v)| *sum += v);
                }
                out.iter_mut().for_each(|sum| *sum /= plane as f32);
            }
            Ok(Data::Floats(out))
        };
        // One element per channel: the same in every layout.
        let slot = self.emit(node.output, vec![slot], Box::new(kernel))?;
        Ok(Some(Form::Real(slot, Layout::Rows)))
    }
}

/// Which pixels every position of a pooling reads.
pub(in super::super) struct Geometry {
    window: crate::Window,
    input: Vec<usize>,
    output: Vec<usize>,
    batch: usize,
    channels: usize,
}

impl Geometry {
    pub(in super::super) fn new(pool: &Pool, x: &[usize], out: &[usize]) -> Self {
        Geometry {
            window: pool.window.clone(),
            input: x[2..].to_vec(),
            output: out[2..].to_vec(),
            batch: x[0],
            channels: x[1],
        }
    }

    /// Elements of the result.
    pub(in super::super) fn elements(&self) -> usize {
        self.batch * self.channels * self.output.iter().product::<usize>()
    }

    /// Calls `visit(position, result, pixels)` for the channels of every position of every image.
    pub(in super::super) fn run<T: Copy + Sync, R: Send>(
        &self,
        threads: Threads,
        x: &[T],
        out: &mut [R],
        visit: impl Fn(usize, &mut [R], &mut dyn Iterator<Item = &[T]>) + Sync,
    ) {
        let positions: usize = self.output.iter().product();
        let inner: usize = self.output.iter().skip(1).product();
        let image: usize = self.input.iter().product::<usize>() * self.channels;
        if out.is_empty() {
            return;
        }
        let taps: usize = self.window.kernel.iter().product();
        let work = (out.len() as u64).saturating_mul(taps as u64);
        let rows = threads.part_size(self.output[0], 1, work);
        let parts: Vec<_> = out
            .chunks_mut(positions * self.channels)
            .enumerate()
            .flat_map(|(n, out)| {
                let parts = out.chunks_mut(rows * inner * self.channels).enumerate();
                parts.map(move |(index, out)| (n, index * rows, out))
            })
            .collect();
        threads.each(parts.into_iter(), |(n, first, out)| {
            let x = &x[n * image..][..image];
            for (index, out) in out.chunks_mut(self.channels).enumerate() {
                let position = first * inner + index;
                let mut pixels = self.pixels(position, x);
                visit(position, out, &mut pixels);
            }
        });
    }

    /// The pixels under the window at a position, row-major.
    fn pixels<'a, T>(&'a self, position: usize, x: &'a [T]) -> impl Iterator<Item = &'a [T]> + 'a {
        let mut rest = position;
        let mut ranges = vec![(0, 0); self.input.len()];
        for axis in (0..self.input.len()).rev() {
            let out = rest % self.output[axis];
            rest /= self.output[axis];
            let taps = self.window.taps(axis, out, self.input[axis]);
            let start = out * self.window.strides[axis] + taps.start * self.window.dilations[axis];
            // Without a tap inside, the product below is 0 and the start is not used.
            ranges[axis] = (start.saturating_sub(self.window.pads[axis].0), taps.len());
        }
        let count: usize = ranges.iter().map(|range| range.1).product();
        (0..count).map(move |index| {
            let (mut rest, mut offset, mut stride) = (index, 0, 1);
            for axis in (0..ranges.len()).rev() {
                let (start, taps) = ranges[axis];
                offset += (start + rest % taps * self.window.dilations[axis]) * stride;
                rest /= taps;
                stride *= self.input[axis];
            }
            &x[offset * self.channels..][..self.channels]
        })
    }
}
