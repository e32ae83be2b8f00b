//! The text dump: one line per input, constant, node and output.

use crate::{Graph, Op, Value, ValueId, Window};
use quincunx_tensor::show_shape;
use std::fmt;

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph {:?}", self.name)?;
        for &input in self.inputs() {
            writeln!(f, "  input  {}", Typed(&self[input]))?;
        }
        for (_, value) in self.values() {
            if let Some(constant) = &value.constant {
                write!(f, "  const  {}", Typed(value))?;
                if let Some(quantiser) = &constant.quantiser {
                    write!(f, " as {quantiser}")?;
                }
                writeln!(f)?;
            }
        }
        for (_, node) in self.nodes() {
            let operands: Vec<String> = node.inputs.iter().map(|i| self.operand_name(*i)).collect();
            let attributes = attributes(&node.op);
            let attributes =
                if attributes.is_empty() { attributes } else { format!(" {{{attributes}}}") };
            let (output, name) = (Typed(&self[node.output]), &node.name);
            writeln!(
                f,
                "  {output} = {}({}){attributes}  # {name}",
                node.op.name(),
                operands.join(", ")
            )?;
        }
        for &output in self.outputs() {
            writeln!(f, "  output {}", self[output].name)?;
        }
        Ok(())
    }
}

impl Graph {
    fn operand_name(&self, operand: Option<ValueId>) -> String {
        operand.map_or_else(|| "-".to_owned(), |id| self[id].name.clone())
    }
}

struct Typed<'a>(&'a Value);

impl fmt::Display for Typed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        let symbol = |axis: usize| value.symbols.get(axis).and_then(Option::as_ref);
        let extents: Vec<String> = value
            .shape
            .iter()
            .enumerate()
            .map(|(axis, extent)| match symbol(axis) {
                Some(symbol) => format!("{symbol}={extent}"),
                None => extent.to_string(),
            })
            .collect();
        write!(f, "{}: {}[{}]", value.name, value.dtype, extents.join(", "))
    }
}

fn attributes(op: &Op) -> String {
    match op {
        Op::Conv(conv) if conv.groups == 1 => window(&conv.window),
        Op::Conv(conv) => format!("{} groups {}", window(&conv.window), conv.groups),
        Op::Pool(pool) => {
            format!("{}{}", window(&pool.window), if pool.ceil { " ceil" } else { "" })
        }
        Op::Gemm(gemm) => format!(
            "alpha {} beta {} transpose {} {}",
            gemm.alpha, gemm.beta, gemm.transpose_a, gemm.transpose_b
        ),
        Op::BatchNorm(norm) => format!("epsilon {}", norm.epsilon),
        Op::Flatten { axis } => format!("axis {axis}"),
        Op::Reshape { shape } => format!("shape {shape:?}"),
        Op::Transpose { order } => format!("order {}", show_shape(order)),
        Op::Quantise(quantiser) | Op::ToCodes(quantiser) | Op::FromCodes(quantiser) => {
            quantiser.to_string()
        }
        Op::MatMul | Op::GlobalAveragePool | Op::Unary(_) | Op::Binary(_) | Op::Identity => {
            String::new()
        }
    }
}

fn window(window: &Window) -> String {
    let mut text = format!("kernel {:?} strides {:?}", window.kernel, window.strides);
    if window.pads.iter().any(|&pad| pad != (0, 0)) {
        text += &format!(" pads {:?}", window.pads);
    }
    if window.dilations.iter().any(|&d| d != 1) {
        text += &format!(" dilations {:?}", window.dilations);
    }
    text
}
