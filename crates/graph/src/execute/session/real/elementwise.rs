//! Operators on single elements.

use super::super::build::Builder;
use super::super::data::{Data, Layout, Slot};
use super::super::threads::Threads;
use super::super::value::Form;
use super::take_floats;
use crate::execute::float::elementwise::{real_activation, real_unary};
use crate::{Activation, BatchNorm, Binary, Node, Unary, ValueId};
use quincunx_diag::Result;
use std::sync::Arc;

/// Elements that a thread works on at a time.
const PART: usize = 1 << 14;

/// Operations that a function through f64 counts as.
const FUNCTION: u64 = 16;

/// How the second operand of a pair meets the first.
#[derive(Clone, Copy, PartialEq)]
enum Spread {
    /// Element by element.
    Full,
    /// One number for everything.
    Uniform,
    /// One number for every position along the innermost axis.
    Inner,
}

impl Builder<'_> {
    pub(super) fn real_unary(&mut self, node: &Node, unary: Unary) -> Result<Option<Form>> {
        match unary {
            Unary::Relu => self.real_map(node, 1, |v| if v < 0.0 { 0.0 } else { v }),
            Unary::Neg => self.real_map(node, 1, |v| -v),
            Unary::Abs => self.real_map(node, 1, f32::abs),
            _ => match real_unary(unary) {
                Some(function) => {
                    self.real_map(node, FUNCTION, move |v| function(f64::from(v)) as f32)
                }
                None => Ok(None),
            },
        }
    }

    pub(super) fn real_activation(
        &mut self,
        node: &Node,
        activation: Activation,
    ) -> Result<Option<Form>> {
        match activation {
            Activation::LeakyRelu { alpha } => {
                self.real_map(node, 1, move |v| if v < 0.0 { alpha * v } else { v })
            }
            Activation::Clip { min, max } => {
                let min = min.unwrap_or(f32::NEG_INFINITY);
                let max = max.unwrap_or(f32::INFINITY);
                // NaN stays NaN.
                self.real_map(node, 1, move |v| {
                    let raised = if v < min { min } else { v };
                    if raised > max { max } else { raised }
                })
            }
            _ => self.real_map(node, FUNCTION, move |v| {
                real_activation(activation, f64::from(v)) as f32
            }),
        }
    }

    /// A function of every element, in whatever layout there is.
    fn real_map(
        &mut self,
        node: &Node,
        work: u64,
        function: impl Fn(f32) -> f32 + Send + Sync + 'static,
    ) -> Result<Option<Form>> {
        let x = self.operand(node, 0)?;
        let (slot, layout) = self.real_as_is(x)?;
        let kernel = move |threads: &Threads, mut data: Vec<Arc<Data>>| {
            let mut values = take_floats(data.swap_remove(0))?;
            let work = values.len() as u64 * work;
            let part = threads.part_size(values.len(), PART, work);
            threads.each(values.chunks_mut(part), |part| {
                part.iter_mut().for_each(|value| *value = function(*value));
            });
            Ok(Data::Floats(values))
        };
        let slot = self.emit(node.output, vec![slot], Box::new(kernel))?;
        Ok(Some(Form::Real(slot, layout)))
    }

    pub(super) fn real_binary(&mut self, node: &Node, binary: Binary) -> Result<Option<Form>> {
        let (a, b) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let layout = match (self.layout_of(a)?, self.layout_of(b)?) {
            (Layout::Rows, Layout::Rows) => Layout::Rows,
            _ if self.shape(node.output).len() >= 3 => Layout::Last,
            _ => Layout::Rows,
        };
        let spreads = (self.spread(a, node.output, layout), self.spread(b, node.output, layout));
        let (Some(a_spread), Some(b_spread)) = spreads else { return Ok(None) };
        // The first operand has the shape of the result, which it may be written over.
        let swapped = a_spread != Spread::Full;
        if swapped && b_spread != Spread::Full {
            return Ok(None);
        }
        let (whole, other, spread) = if swapped { (b, a, a_spread) } else { (a, b, b_spread) };
        let reads = vec![self.real(whole, layout)?, self.spread_slot(other, spread, layout)?];
        let inner = layout.shape(self.shape(node.output)).last().copied().unwrap_or(1);
        let kernel: super::super::Kernel = match (binary, swapped) {
            (Binary::Add, _) => pairs(|a, b| a + b, spread, inner),
            (Binary::Mul, _) => pairs(|a, b| a * b, spread, inner),
            (Binary::Sub, false) => pairs(|a, b| a - b, spread, inner),
            (Binary::Sub, true) => pairs(|a, b| b - a, spread, inner),
            (Binary::Div, false) => pairs(|a, b| a / b, spread, inner),
            (Binary::Div, true) => pairs(|a, b| b / a, spread, inner),
            (Binary::Max | Binary::Min | Binary::Pow, _) => return Ok(None),
        };
        let slot = self.emit(node.output, reads, kernel)?;
        Ok(Some(Form::Real(slot, layout)))
    }

    /// How a value meets a result of this layout; `None` for other ways to broadcast.
    fn spread(&self, value: ValueId, output: ValueId, layout: Layout) -> Option<Spread> {
        let (shape, output) = (self.shape(value), self.shape(output));
        if shape == output {
            return Some(Spread::Full);
        }
        let count: usize = shape.iter().product();
        if count == 1 {
            return Some(Spread::Uniform);
        }
        let axis = match layout {
            Layout::Rows => output.len() - 1,
            Layout::Last => 1,
        };
        let from_end = output.len() - axis;
        let matches = shape.len() >= from_end && shape[shape.len() - from_end] == output[axis];
        (matches && count == output[axis]).then_some(Spread::Inner)
    }

    /// A broadcast operand has one axis that matters, so its rows are what every layout reads.
    fn spread_slot(&mut self, value: ValueId, spread: Spread, layout: Layout) -> Result<Slot> {
        self.real(value, if spread == Spread::Full { layout } else { Layout::Rows })
    }

    /// `(x - mean) * (scale / sqrt(variance + epsilon)) + bias`.
    pub(super) fn real_batch_norm(
        &mut self,
        node: &Node,
        norm: &BatchNorm,
    ) -> Result<Option<Form>> {
        let x = self.operand(node, 0)?;
        if self.shape(x).len() < 2 {
            return Ok(None);
        }
        let layout = if self.shape(x).len() == 2 { Layout::Rows } else { Layout::Last };
        let mut reads = vec![self.real(x, layout)?];
        for index in 1..5 {
            let parameter = self.operand(node, index)?;
            reads.push(self.real_rows(parameter)?);
        }
        let epsilon = f64::from(norm.epsilon);
        let kernel = move |threads: &Threads, mut data: Vec<Arc<Data>>| {
            let parameters: Vec<Vec<f32>> = data[1..]
                .iter()
                .map(|data| Ok(data.floats()?.into_owned()))
                .collect::<Result<_>>()?;
            let [scale, bias, mean, variance] = &parameters[..] else {
                return Err(quincunx_diag::Diagnostic::bug("a normalisation has five operands"));
            };
            let factor: Vec<f32> = scale
                .iter()
                .zip(variance)
                .map(|(&s, &v)| (f64::from(s) / (f64::from(v) + epsilon).sqrt()) as f32)
                .collect();
            let mut values = take_floats(data.swap_remove(0))?;
            let channels = factor.len().max(1);
            let part = threads.part_size(values.len(), channels, values.len() as u64);
            threads.each(values.chunks_mut(part), |part| {
                for pixel in part.chunks_mut(channels) {
                    let parameters = factor.iter().zip(mean).zip(bias);
                    for (value, ((factor, mean), bias)) in pixel.iter_mut().zip(parameters) {
                        *value = (*value - mean) * factor + bias;
                    }
                }
            });
            Ok(Data::Floats(values))
        };
        let slot = self.emit(node.output, reads, Box::new(kernel))?;
        Ok(Some(Form::Real(slot, layout)))
    }
}

/// A function of pairs; the first operand is overwritten.
fn pairs(
    function: impl Fn(f32, f32) -> f32 + Send + Sync + Copy + 'static,
    spread: Spread,
    inner: usize,
) -> super::super::Kernel {
    Box::new(move |threads, mut data| {
        let other = data.pop().unwrap_or_else(|| Arc::new(Data::Floats(Vec::new())));
        let mut values = take_floats(data.swap_remove(0))?;
        let other = other.floats()?;
        let step = if spread == Spread::Inner { inner } else { 1 };
        let size = threads.part_size(values.len(), step, values.len() as u64);
        threads.each(values.chunks_mut(size).enumerate(), |(index, part)| match spread {
            Spread::Full => {
                let other = &other[index * size..];
                part.iter_mut().zip(other).for_each(|(v, o)| *v = function(*v, *o));
            }
            Spread::Uniform => part.iter_mut().for_each(|v| *v = function(*v, other[0])),
            Spread::Inner => {
                for row in part.chunks_mut(inner.max(1)) {
                    row.iter_mut().zip(&*other).for_each(|(v, o)| *v = function(*v, *o));
                }
            }
        });
        Ok(Data::Floats(values))
    })
}
