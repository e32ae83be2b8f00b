//! Operators that move elements cost nothing: wires change places.

use super::super::builder::{Builder, Wire};
use super::super::linear::sum;
use super::{Wires, positions};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{ConvTranspose, Graph, Node, Source};
use quincunx_num::Dyadic;

/// The wires of a node that only moves elements.
pub(super) fn lower_movement(
    graph: &Graph,
    node: &Node,
    operands: &[Option<&Wires>],
) -> Result<Wires> {
    let bug = || Diagnostic::bug("a claimed movement has constant positions");
    let sources = graph.movement(node).ok_or_else(bug)?;
    let wire = |source: Source| match source {
        Source::Operand { operand, element } => {
            let wires = operands.get(operand as usize).copied().flatten().ok_or_else(bug)?;
            Ok(wires[element as usize].clone())
        }
        Source::Value(value) => Dyadic::from_f64(value).map(Wire::Constant).ok_or_else(bug),
    };
    sources.into_iter().map(wire).collect()
}

/// A transposed convolution with constant weights.
pub(super) struct TransposedLayer<'a> {
    pub(super) conv: &'a ConvTranspose,
    pub(super) x: &'a Wires,
    pub(super) x_shape: &'a [usize],
    pub(super) w: &'a [Dyadic],
    pub(super) w_shape: &'a [usize],
    pub(super) bias: Option<Vec<Dyadic>>,
}

impl TransposedLayer<'_> {
    pub(super) fn lower(&self, builder: &mut Builder<'_>, shape: &[usize]) -> Result<Wires> {
        let places: usize = shape[2..].iter().product();
        let mut result = Vec::new();
        for n in 0..shape[0] {
            for m in 0..shape[1] {
                let mut terms = vec![Vec::new(); places];
                self.collect(n, m, &shape[2..], &mut terms);
                let bias = self.bias.as_ref().map_or(Dyadic::ZERO, |bias| bias[m].clone());
                for terms in &terms {
                    result.push(sum(builder, terms, &bias)?);
                }
            }
        }
        Ok(result)
    }

    /// The products that reach every place of one channel of the result.
    fn collect(&self, n: usize, m: usize, out: &[usize], terms: &mut [Vec<(Wire, Dyadic)>]) {
        let (channels, filters) = (self.x_shape[1], self.w_shape[1]);
        let depth = channels / self.conv.groups;
        let (group, filter) = (m / filters, m % filters);
        let input = positions(&self.x_shape[2..]);
        let taps = positions(&self.conv.window.kernel);
        for c in group * depth..(group + 1) * depth {
            for (source, position) in input.iter().enumerate() {
                for (tap, offsets) in taps.iter().enumerate() {
                    let place = (0..out.len()).try_fold(0, |place, axis| {
                        let (at, offset) = (position[axis], offsets[axis]);
                        let at = self.conv.target(axis, at, offset, out[axis])?;
                        Some(place * out[axis] + at)
                    });
                    if let Some(place) = place {
                        let x = &self.x[(n * channels + c) * input.len() + source];
                        let w = &self.w[(c * filters + filter) * taps.len() + tap];
                        terms[place].push((x.clone(), w.clone()));
                    }
                }
            }
        }
    }
}
