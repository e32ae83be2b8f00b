//! Operators that only move and select elements, on integer codes.
//!
//! Models in the `QOperator` form apply `MaxPool`, `Reshape` and the like to codes. Such an operator
//! commutes with the grid, so it is applied to the real numbers, and its results are codes on the
//! same grid.

use crate::context::NodeContext;
use crate::ops::Row;
use crate::proto::NodeProto;
use crate::reader::{Codes, Importer, Known};
use quincunx_diag::Result;
use quincunx_graph::{Op, ValueId};

impl<'m> Importer<'m> {
    /// The codes that operand 0 is, if they lie on one grid and the operator keeps it.
    pub(crate) fn moved_codes(&self, node: &NodeProto, row: &Row) -> Option<Codes> {
        let Some(Known::Codes(codes)) = self.known.get(node.input.first()?.as_str()) else {
            return None;
        };
        let quantiser = &codes.quantiser;
        let uniform = quantiser.scale.as_uniform().is_some()
            && quantiser.zero.as_uniform().is_some()
            && quantiser.width.as_uniform().is_some();
        // Other codes among the operands would have grids of their own.
        let others = node.input.iter().skip(1);
        let alone = others.clone().all(|name| {
            matches!(
                self.known.get(name.as_str()),
                None | Some(Known::Constant(_) | Known::Value(_))
            )
        });
        (row.moves && uniform && alone && is_selecting(node)).then(|| (**codes).clone())
    }

    /// Converts a node of which [`Importer::moved_codes`] gave the codes.
    pub(crate) fn convert_on_codes(
        &mut self,
        node: &'m NodeProto,
        row: &Row,
        name: &str,
        codes: Codes,
    ) -> Result<()> {
        let operand = node.input[0].as_str();
        let real = self.on_grid(&codes)?;
        let Codes { quantiser, node: source, .. } = codes;
        let codes_of = |source: ValueId, node: String| {
            let quantiser = quantiser.clone();
            Known::Codes(Box::new(Codes { source, quantiser, node, on_grid: true }))
        };
        self.known.insert(operand, Known::Value(real));
        let outputs = || node.output.iter().map(String::as_str).filter(|name| !name.is_empty());
        let before: Vec<_> = outputs().map(|output| self.renamed.get(output).cloned()).collect();
        for output in outputs() {
            let fresh = self.value_names.fresh(output);
            self.renamed.insert(output, fresh);
        }
        let converted = NodeContext::new(self, node, name, row.domain).and_then(|mut node| {
            (row.convert)(&mut node)?;
            node.attributes.finish()
        });
        self.known.insert(operand, codes_of(real, source));
        for (output, before) in outputs().zip(before) {
            match before {
                Some(before) => self.renamed.insert(output, before),
                None => self.renamed.remove(output),
            };
            if let Some(Known::Value(id)) = self.known.get(output) {
                let label = self.node_names.fresh(name);
                let known = codes_of(*id, label);
                self.known.insert(output, known);
            }
        }
        converted
    }

    /// The real numbers that codes stand for.
    pub(crate) fn on_grid(&mut self, codes: &Codes) -> Result<ValueId> {
        if codes.on_grid {
            return Ok(codes.source);
        }
        let label = self.node_names.fresh(&codes.node);
        let output = self.value_names.fresh(&codes.node);
        self.graph.add_node(
            &label,
            Op::Quantise(codes.quantiser.clone()),
            &[Some(codes.source)],
            &output,
        )
    }
}

/// False where an operator of the table mixes elements after all: `Resize` that interpolates.
fn is_selecting(node: &NodeProto) -> bool {
    node.op_type.as_deref() != Some("Resize")
        || node.attribute.iter().all(|attribute| {
            let mode = attribute.name.as_deref() == Some("mode");
            !mode || attribute.s.as_deref() == Some(b"nearest")
        })
}
