//! Nodes and values of the file in the words of messages.

use crate::dtype;
use crate::proto::{NodeProto, TensorTypeProto};
use crate::reader::{Importer, Known};
use quincunx_diag::Place;
use quincunx_graph::ValueId;
use quincunx_tensor::show_shape;

impl Importer<'_> {
    /// Types and shapes of the operands, as far as they are known.
    pub(crate) fn describe(&self, node: &NodeProto) -> String {
        let shown = node.input.iter().take(8).map(|name| self.describe_value(name));
        let mut text = shown.collect::<Vec<_>>().join(", ");
        if node.input.len() > 8 {
            text += ", …";
        }
        text
    }

    fn describe_value(&self, name: &str) -> String {
        let of = |id: ValueId| {
            let value = &self.graph[id];
            format!("{}{}", value.dtype, show_shape(&value.shape))
        };
        match self.known.get(name) {
            _ if name.is_empty() => "absent".to_owned(),
            Some(Known::Value(id)) => of(*id),
            Some(Known::Constant(constant)) => {
                format!("{}{}", constant.tensor.dtype(), show_shape(constant.tensor.shape()))
            }
            Some(Known::Codes(codes)) => {
                format!("codes{}", show_shape(&self.graph[codes.source].shape))
            }
            Some(Known::Lost) | None => match self.declared.get(name) {
                Some(declared) => describe_declared(declared),
                None => "unknown".to_owned(),
            },
        }
    }
}

/// The place of a node of the file.
pub(crate) fn place(node: &NodeProto, name: &str, operands: String) -> Place {
    let op = node.op_type.clone().unwrap_or_default();
    Place::Node { name: name.to_owned(), op, operands }
}

fn describe_declared(declared: &TensorTypeProto) -> String {
    let dtype =
        dtype::from_onnx(declared.elem_type.unwrap_or(0)).map_or_else(|name| name, |d| d.name());
    let Some(shape) = &declared.shape else {
        return format!("{dtype}[…]");
    };
    let extents: Vec<String> = shape
        .dim
        .iter()
        .take(16)
        .map(|dim| match (dim.dim_value, &dim.dim_param) {
            (Some(value), _) => value.to_string(),
            // One long name may stand in many messages.
            (None, Some(symbol)) => symbol.chars().take(32).collect(),
            (None, None) => "?".to_owned(),
        })
        .collect();
    format!("{dtype}[{}]", extents.join(", "))
}
