//! The text dump: one line per input, constant, node and output.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::{Activation, Graph, Op, Reduce, Unary, Value, ValueId, Window};
use crate::{Cell, PadMode, RecurrentOutput, Resize, ResizeTarget};
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
        Op::ConvTranspose(conv) => {
            let padding = &conv.output_padding;
            format!("{} groups {} output padding {padding:?}", window(&conv.window), conv.groups)
        }
        Op::Recurrent(layer) => format!(
            "hidden {} {}{} gives {}",
            layer.hidden,
            layer.direction.name(),
            if layer.cell == (Cell::Gru { linear_before_reset: true }) { " linear" } else { "" },
            match layer.output {
                RecurrentOutput::States => "states",
                RecurrentOutput::LastState => "last state",
                RecurrentOutput::LastCell => "last cell",
            }
        ),
        Op::Concat { axis } | Op::Gather { axis } => format!("axis {axis}"),
        Op::Slice { ranges } => {
            let ranges = ranges.iter().map(|r| match r.step {
                1 => format!("axis {} from {} to {}", r.axis, bound(r.start), bound(r.end)),
                step => format!(
                    "axis {} from {} to {} step {step}",
                    r.axis,
                    bound(r.start),
                    bound(r.end)
                ),
            });
            ranges.collect::<Vec<_>>().join(", ")
        }
        Op::Pad(pad) => format!("pads {:?} {}", pad.pads, pad_mode(pad.mode)),
        Op::Expand { shape } => format!("shape {}", show_shape(shape)),
        Op::Tile { repeats } => format!("repeats {}", show_shape(repeats)),
        Op::Resize(resize) => resize_attributes(resize),
        Op::Cast { to } => format!("to {to}"),
        Op::CastUnbounded { to } => format!("to {to} unbounded"),
        Op::Flatten { axis } => format!("axis {axis}"),
        Op::Reshape { shape } => format!("shape {shape:?}"),
        Op::Transpose { order } => format!("order {}", show_shape(order)),
        Op::Quantise(quantiser) | Op::ToCodes(quantiser) | Op::FromCodes(quantiser) => {
            quantiser.to_string()
        }
        Op::Activation(activation) => activation_attributes(*activation),
        Op::Reduce(Reduce { axes, keep_dims, .. }) => format!("axes {axes:?}{}", keep(*keep_dims)),
        Op::ArgExtreme(arg) => {
            let last = if arg.last { " last" } else { "" };
            format!("axis {}{}{last}", arg.axis, keep(arg.keep_dims))
        }
        Op::Softmax(softmax) => format!("axis {}", softmax.axis),
        Op::LayerNorm(norm) => format!("axis {} epsilon {}", norm.axis, norm.epsilon),
        Op::InstanceNorm(norm) => format!("epsilon {}", norm.epsilon),
        Op::Lrn(lrn) => {
            format!("size {} alpha {} beta {} bias {}", lrn.size, lrn.alpha, lrn.beta, lrn.bias)
        }
        Op::Unary(Unary::GeluTanh) => "tanh".to_owned(),
        Op::MatMul
        | Op::GlobalAveragePool
        | Op::GlobalMaxPool
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::PRelu
        | Op::Compare(_)
        | Op::Logic(_)
        | Op::Where
        | Op::Identity => String::new(),
    }
}

fn activation_attributes(activation: Activation) -> String {
    let limit = |limit: Option<f32>| limit.map_or_else(|| "none".to_owned(), |v| v.to_string());
    match activation {
        Activation::LeakyRelu { alpha } | Activation::Elu { alpha } => format!("alpha {alpha}"),
        Activation::Selu { alpha, gamma } => format!("alpha {alpha} gamma {gamma}"),
        Activation::HardSigmoid { alpha, beta } => format!("alpha {alpha} beta {beta}"),
        Activation::Clip { min, max } => format!("min {} max {}", limit(min), limit(max)),
    }
}

/// A bound of a slice; the largest numbers stand for the ends of the axis.
fn bound(bound: i64) -> String {
    match bound {
        i64::MAX => "end".to_owned(),
        i64::MIN => "start".to_owned(),
        bound => bound.to_string(),
    }
}

fn pad_mode(mode: PadMode) -> String {
    match mode {
        PadMode::Constant(value) => format!("constant {value}"),
        PadMode::Edge => "edge".to_owned(),
        PadMode::Reflect => "reflect".to_owned(),
        PadMode::Wrap => "wrap".to_owned(),
    }
}

fn resize_attributes(resize: &Resize) -> String {
    let target = match &resize.target {
        ResizeTarget::Scales(scales) => format!("scales {scales:?}"),
        ResizeTarget::Sizes(sizes) => format!("sizes {sizes:?}"),
    };
    let mut text = format!(
        "axes {:?} {target} {:?} {:?}",
        resize.axes, resize.coordinates, resize.interpolation
    );
    if resize.exclude_outside {
        text += " exclude outside";
    }
    if !resize.roi.is_empty() {
        text += &format!(" roi {:?}", resize.roi);
    }
    text
}

fn keep(keep_dims: bool) -> &'static str {
    if keep_dims { " keep" } else { "" }
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
