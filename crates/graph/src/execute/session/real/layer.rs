//! Convolutions and matrix products.

use super::super::build::Builder;
use super::super::data::{Data, Layout};
use super::super::threads::Threads;
use super::super::value::Form;
use crate::execute::window::product_of;
use crate::{Conv, Gemm, Node, ValueId};
use quincunx_diag::Result;
use quincunx_num::{ConvShape, Convolution, Level, Matrix, Packed, multiply_f32};
use quincunx_tensor::View;
use std::borrow::Cow;
use std::sync::Arc;

impl Builder<'_> {
    pub(super) fn real_conv(&mut self, node: &Node, conv: &Conv) -> Result<Option<Form>> {
        let (x, w) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let Some(shape) = conv_shape(conv, self.shape(x), self.shape(w)) else {
            return Ok(None);
        };
        let mut reads = vec![self.real(x, Layout::Last)?];
        let weights = self.real_rows(w)?;
        let bias = node.input(2).map(|bias| self.real_rows(bias)).transpose()?;
        let level = self.settings.level;
        let packed = match self.constant_data(weights) {
            Some(data) => {
                let weights = data.floats()?;
                // Pads are zeros here, whose product with these is NaN; the reference leaves pads
                // out.
                if shape.pads != [0; 4] && weights.iter().any(|w| !w.is_finite()) {
                    return Ok(None);
                }
                Some(Convolution::<f32>::for_level(shape, &weights, level))
            }
            None => None,
        };
        if packed.is_none() {
            reads.push(weights);
        }
        reads.extend(bias);
        let layer = ConvLayer { shape, packed, level };
        let kernel = move |threads: &Threads, data: Vec<Arc<Data>>| layer.run(*threads, &data);
        let slot = self.emit(node.output, reads, Box::new(kernel))?;
        Ok(Some(Form::Real(slot, Layout::Last)))
    }

    pub(super) fn real_gemm(&mut self, node: &Node, gemm: &Gemm) -> Result<Option<Form>> {
        let (a, b) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let mut reads = vec![self.real_rows(a)?, self.real_rows(b)?];
        if let Some(c) = node.input(2) {
            reads.push(self.real_rows(c)?);
        }
        let rows = |id: ValueId| self.shape(id).to_vec();
        let layer = GemmLayer {
            gemm: gemm.clone(),
            shapes: [rows(a), rows(b), node.input(2).map(rows).unwrap_or_default()],
            out: rows(node.output),
            packed: self.pack_right(reads[1], self.shape(b), gemm.transpose_b)?,
        };
        let kernel = move |threads: &Threads, data: Vec<Arc<Data>>| layer.run(*threads, &data);
        let slot = self.emit(node.output, reads, Box::new(kernel))?;
        Ok(Some(Form::Real(slot, Layout::Rows)))
    }

    /// A right-hand side that is the same in every run.
    fn pack_right(
        &self,
        slot: super::super::data::Slot,
        shape: &[usize],
        transposed: bool,
    ) -> Result<Option<Packed<f32>>> {
        let Some(data) = self.constant_data(slot) else { return Ok(None) };
        let values = data.floats()?;
        let right = oriented(&values, shape, transposed);
        Ok(Some(Packed::for_level(right, self.settings.level)))
    }

    pub(super) fn real_matmul(&mut self, node: &Node) -> Result<Option<Form>> {
        let (a, b) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let reads = vec![self.real_rows(a)?, self.real_rows(b)?];
        let packed = match self.shape(b).len() {
            2 if self.shape(a).len() >= 2 => self.pack_right(reads[1], self.shape(b), false)?,
            _ => None,
        };
        let rows = |id: ValueId| self.shape(id).to_vec();
        let layer = MatMulLayer { a: rows(a), b: rows(b), out: rows(node.output), packed };
        let kernel = move |threads: &Threads, data: Vec<Arc<Data>>| layer.run(*threads, &data);
        let slot = self.emit(node.output, reads, Box::new(kernel))?;
        Ok(Some(Form::Real(slot, Layout::Rows)))
    }
}

/// The sizes of a convolution along one or two axes; `None` along more, or for empty tensors.
pub(in super::super) fn conv_shape(conv: &Conv, x: &[usize], w: &[usize]) -> Option<ConvShape> {
    let window = &conv.window;
    let pair = |values: &[usize], first: usize| match values {
        [only] => Some([first, *only]),
        [a, b] => Some([*a, *b]),
        _ => None,
    };
    let pads = match window.pads[..] {
        [(left, right)] => [0, left, 0, right],
        [(top, bottom), (left, right)] => [top, left, bottom, right],
        _ => return None,
    };
    let shape = ConvShape {
        channels: x[1],
        size: pair(&x[2..], 1)?,
        outputs: w[0],
        kernel: pair(&window.kernel, 1)?,
        strides: pair(&window.strides, 1)?,
        dilations: pair(&window.dilations, 1)?,
        pads,
        groups: conv.groups,
    };
    shape.output_size().filter(|_| !x.contains(&0)).map(|_| shape)
}

struct ConvLayer {
    shape: ConvShape,
    /// `None` when the weights are computed by the graph, and are the second operand.
    packed: Option<Convolution<f32>>,
    level: Level,
}

impl ConvLayer {
    fn run(&self, threads: Threads, data: &[Arc<Data>]) -> Result<Data> {
        let x = data[0].floats()?;
        let own;
        let (convolution, bias) = match &self.packed {
            Some(packed) => (packed, data.get(1)),
            None => {
                own = Convolution::for_level(self.shape, &data[1].floats()?, self.level);
                (&own, data.get(2))
            }
        };
        let starts = match bias {
            Some(bias) => bias.floats()?,
            None => Cow::Owned(vec![0.0; self.shape.outputs]),
        };
        Ok(Data::Floats(convolve(threads, convolution, &x, 0.0, &starts)))
    }
}

/// Convolves images, channels last.
pub(in super::super) fn convolve<L: quincunx_num::Left>(
    threads: Threads,
    convolution: &Convolution<L>,
    images: &[L],
    pad: L,
    starts: &[L::Sum],
) -> Vec<L::Sum> {
    let shape = convolution.shape();
    let [height, width] = convolution.output_size();
    let image = shape.channels * shape.size[0] * shape.size[1];
    let row = width * shape.outputs;
    let batch = images.len() / image;
    let work = (batch * height * row) as u64 * (shape.channels / shape.groups) as u64;
    let rows = threads.part_size(height, 1, work);
    let mut out = vec![L::Sum::default(); batch * height * row];
    let parts: Vec<_> = out
        .chunks_mut(height * row)
        .zip(images.chunks_exact(image))
        .flat_map(|(out, image)| {
            out.chunks_mut(rows * row).enumerate().map(move |(index, out)| (image, index, out))
        })
        .collect();
    threads.each(parts.into_iter(), |(image, index, out)| {
        let first = index * rows;
        convolution.rows(image, pad, starts, first..first + out.len() / row, out);
    });
    out
}

/// A matrix of this shape, or the one it is the transposed form of.
fn oriented<'a>(values: &'a [f32], shape: &[usize], transposed: bool) -> Matrix<'a, f32> {
    let matrix = Matrix::row_major(values, shape[0], shape[1]);
    if transposed { matrix.transposed() } else { matrix }
}

/// `left * right`, rows divided among threads.
fn product(
    threads: Threads,
    left: Matrix<'_, f32>,
    right: Matrix<'_, f32>,
    packed: Option<&Packed<f32>>,
    out: &mut [f32],
) {
    let columns = right.columns();
    if out.is_empty() {
        return;
    }
    let work = (left.rows() * left.columns() * columns) as u64;
    let rows = threads.part_size(left.rows(), 8, work);
    threads.each(out.chunks_mut(rows * columns).enumerate(), |(index, out)| {
        let left = Matrix::new(
            &left.data()[(index * rows * left.row_stride()).min(left.data().len())..],
            out.len() / columns,
            left.columns(),
            left.row_stride(),
            left.column_stride(),
        );
        match packed {
            Some(packed) if left.column_stride() == 1 => packed.multiply_add(left, out, columns),
            _ => multiply_f32(left, right, 0.0, out, columns),
        }
    });
}

struct GemmLayer {
    gemm: Gemm,
    shapes: [Vec<usize>; 3],
    out: Vec<usize>,
    packed: Option<Packed<f32>>,
}

impl GemmLayer {
    fn run(&self, threads: Threads, data: &[Arc<Data>]) -> Result<Data> {
        let (a, b) = (data[0].floats()?, data[1].floats()?);
        let left = oriented(&a, &self.shapes[0], self.gemm.transpose_a);
        let right = oriented(&b, &self.shapes[1], self.gemm.transpose_b);
        let mut out = vec![0.0; self.out.iter().product()];
        product(threads, left, right, self.packed.as_ref(), &mut out);
        if self.gemm.alpha != 1.0 {
            out.iter_mut().for_each(|v| *v *= self.gemm.alpha);
        }
        if let Some(c) = data.get(2) {
            let c = c.floats()?;
            let c = View::new(&c, &self.shapes[2]).broadcast(&self.out);
            let c = c.ok_or_else(|| quincunx_diag::Diagnostic::bug("a bias does not broadcast"))?;
            out.iter_mut().zip(c.iter()).for_each(|(v, c)| *v += self.gemm.beta * c);
        }
        Ok(Data::Floats(out))
    }
}

struct MatMulLayer {
    a: Vec<usize>,
    b: Vec<usize>,
    out: Vec<usize>,
    packed: Option<Packed<f32>>,
}

impl MatMulLayer {
    fn run(&self, threads: Threads, data: &[Arc<Data>]) -> Result<Data> {
        let (a, b) = (data[0].floats()?, data[1].floats()?);
        let mut out = vec![0.0; self.out.iter().product()];
        if let Some(packed) = &self.packed {
            // One right-hand side for all rows of all matrices.
            let depth = packed.rows();
            let rows = out.len() / packed.columns().max(1);
            let right = Matrix::row_major(&b, depth, packed.columns());
            product(threads, Matrix::row_major(&a, rows, depth), right, Some(packed), &mut out);
            return Ok(Data::Floats(out));
        }
        let pieces = product_of(&self.a, &self.b, &self.out);
        let [m, depth, n] = pieces.extents;
        for (batch, (left, right)) in pieces.offsets().enumerate() {
            let left = Matrix::row_major(&a[left * m * depth..], m, depth);
            let right = Matrix::row_major(&b[right * depth * n..], depth, n);
            product(threads, left, right, None, &mut out[batch * m * n..][..m * n]);
        }
        Ok(Data::Floats(out))
    }
}
