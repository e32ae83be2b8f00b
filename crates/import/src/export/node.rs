//! One node of a graph as nodes of a file.

use crate::export::writer::{Writer, extents, float, int, ints, operation, text};
use crate::proto::AttributeProto;
use quincunx_diag::Result;
use quincunx_graph::{
    Activation, Binary, Node, Op, Pool, PoolKind, Reduce, ReduceKind, Unary, Window,
};
use quincunx_tensor::{DType, Tensor};

impl Writer<'_> {
    /// Writes a node of the graph.
    pub(crate) fn write_node(&mut self, node: &Node) -> Result<()> {
        match &node.op {
            Op::Quantise(quantiser) => self.write_quantise(node, quantiser),
            Op::ToCodes(quantiser) => self.write_to_codes(node, quantiser),
            Op::FromCodes(quantiser) => self.write_from_codes(node, quantiser),
            Op::Reshape { shape } => {
                let base = format!("{}_shape", self.name(node.output));
                let shape = Tensor::from_vec(&[shape.len()], shape.clone())?;
                let shape = self.fresh_initialiser(&base, &shape);
                self.plain(node, Some(shape), Vec::new());
                Ok(())
            }
            Op::Activation(Activation::Clip { min, max }) => self.write_clip(node, *min, *max),
            Op::Reduce(reduce) => self.write_reduce(node, reduce),
            Op::Slice { ranges } => self.write_slice(node, ranges),
            Op::Pad(pad) => self.write_pad(node, pad),
            // Nothing is resized.
            Op::Resize(resize) if resize.axes.is_empty() => {
                let source = node.input(0).map_or("", |id| self.name(id));
                let written = operation("Identity", &[source], self.name(node.output), Vec::new());
                self.node(&node.name, written);
                Ok(())
            }
            Op::Resize(resize) => self.write_resize(node, resize),
            Op::Expand { shape: numbers } | Op::Tile { repeats: numbers } => {
                let list = self.list(node, "shape", extents(numbers))?;
                self.with_operands(node, &[list], Vec::new());
                Ok(())
            }
            Op::Recurrent(layer) => {
                self.write_recurrent(node, layer);
                Ok(())
            }
            Op::Pool(Pool { kind: PoolKind::Average { .. }, window, .. })
                if window.dilations.iter().any(|&d| d != 1) =>
            {
                self.need_opset(19);
                self.plain(node, None, attributes(&node.op));
                Ok(())
            }
            op => {
                self.need_opset(self.opset_of(node));
                self.plain(node, None, attributes(op));
                Ok(())
            }
        }
    }

    /// The lowest opset that has an operator in the form that is written.
    fn opset_of(&self, node: &Node) -> i64 {
        let dtype = node.input(0).map_or(DType::F32, |id| self.graph[id].dtype);
        match &node.op {
            Op::Unary(Unary::HardSwish) => 14,
            Op::Unary(Unary::Relu) if !dtype.is_float() => 14,
            Op::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div)
                if dtype.size() < 4 =>
            {
                14
            }
            Op::LayerNorm(_) => 17,
            Op::Unary(Unary::Gelu | Unary::GeluTanh) => 20,
            _ => 0,
        }
    }

    /// Limits are operands of the type of `x`.
    fn write_clip(&mut self, node: &Node, min: Option<f32>, max: Option<f32>) -> Result<()> {
        let double = self.graph[node.output].dtype == DType::F64;
        let mut limit = |limit: Option<f32>, what: &str| {
            let scalar = limit.map(|v| match double {
                true => Tensor::scalar(f64::from(v)),
                false => Tensor::scalar(v),
            });
            let base = format!("{}_{what}", self.name(node.output));
            scalar.map_or_else(String::new, |v| self.fresh_initialiser(&base, &v))
        };
        let limits = [limit(min, "min"), limit(max, "max")];
        self.with_operands(node, &limits, Vec::new());
        Ok(())
    }

    /// Axes are an operand: of sums since opset 13, of others since opset 18.
    fn write_reduce(&mut self, node: &Node, reduce: &Reduce) -> Result<()> {
        if reduce.kind != ReduceKind::Sum {
            self.need_opset(18);
        }
        let axes = extents(&reduce.axes);
        let base = format!("{}_axes", self.name(node.output));
        let noop = int("noop_with_empty_axes", axes.is_empty().into());
        let axes = self.fresh_initialiser(&base, &Tensor::from_vec(&[axes.len()], axes)?);
        self.with_operands(node, &[axes], vec![int("keepdims", reduce.keep_dims.into()), noop]);
        Ok(())
    }

    /// A node with more operands than in the graph; those absent at the end are left out.
    pub(crate) fn with_operands(
        &mut self,
        node: &Node,
        more: &[String],
        attributes: Vec<AttributeProto>,
    ) {
        let own = node.inputs.iter().map(|input| input.map_or("", |id| self.name(id)));
        let mut inputs: Vec<&str> = own.chain(more.iter().map(String::as_str)).collect();
        while inputs.last() == Some(&"") {
            inputs.pop();
        }
        let written = operation(node.op.name(), &inputs, self.name(node.output), attributes);
        self.node(&node.name, written);
    }

    /// A node whose operator has the same form in ONNX, with perhaps one more operand.
    fn plain(&mut self, node: &Node, last: Option<String>, attributes: Vec<AttributeProto>) {
        let mut inputs: Vec<&str> =
            node.inputs.iter().map(|input| input.map_or("", |id| self.name(id))).collect();
        inputs.extend(last.as_deref());
        let written = operation(node.op.name(), &inputs, self.name(node.output), attributes);
        self.node(&node.name, written);
    }
}

fn attributes(op: &Op) -> Vec<AttributeProto> {
    match op {
        Op::Conv(conv) => {
            let mut all = window(&conv.window, true);
            all.push(int("group", i64::try_from(conv.groups).unwrap_or(i64::MAX)));
            all
        }
        Op::Gemm(gemm) => vec![
            float("alpha", gemm.alpha),
            float("beta", gemm.beta),
            int("transA", gemm.transpose_a.into()),
            int("transB", gemm.transpose_b.into()),
        ],
        Op::Pool(pool) => {
            let max = pool.kind == PoolKind::Max;
            let dilated = pool.window.dilations.iter().any(|&d| d != 1);
            let mut all = window(&pool.window, max || dilated);
            all.push(int("ceil_mode", pool.ceil.into()));
            if let PoolKind::Average { count_include_pad } = pool.kind {
                all.push(int("count_include_pad", count_include_pad.into()));
            }
            all
        }
        Op::ConvTranspose(conv) => {
            let mut all = window(&conv.window, true);
            all.push(int("group", i64::try_from(conv.groups).unwrap_or(i64::MAX)));
            all.push(ints("output_padding", conv.output_padding.iter().copied()));
            all
        }
        Op::Concat { axis: joined } | Op::Gather { axis: joined } => vec![axis(*joined)],
        Op::Cast { to } => vec![int("to", crate::dtype::to_onnx(*to).into())],
        Op::CastUnbounded { to } => {
            vec![int("to", crate::dtype::to_onnx(*to).into()), int("saturate", 0)]
        }
        Op::BatchNorm(norm) => vec![float("epsilon", norm.epsilon)],
        Op::Flatten { axis } => vec![int("axis", i64::try_from(*axis).unwrap_or(i64::MAX))],
        Op::Transpose { order } => vec![ints("perm", order.iter().copied())],
        Op::Activation(activation) => activation_attributes(*activation),
        Op::ArgExtreme(arg) => vec![
            axis(arg.axis),
            int("keepdims", arg.keep_dims.into()),
            int("select_last_index", arg.last.into()),
        ],
        Op::Softmax(softmax) => vec![axis(softmax.axis)],
        Op::LayerNorm(norm) => vec![axis(norm.axis), float("epsilon", norm.epsilon)],
        Op::InstanceNorm(norm) => vec![float("epsilon", norm.epsilon)],
        Op::Lrn(lrn) => vec![
            int("size", i64::try_from(lrn.size).unwrap_or(i64::MAX)),
            float("alpha", lrn.alpha),
            float("beta", lrn.beta),
            float("bias", lrn.bias),
        ],
        Op::Unary(Unary::GeluTanh) => vec![text("approximate", "tanh")],
        Op::MatMul
        | Op::GlobalAveragePool
        | Op::GlobalMaxPool
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::PRelu
        | Op::Compare(_)
        | Op::Logic(_)
        | Op::Where
        | Op::Reduce(_)
        | Op::Recurrent(_)
        | Op::Slice { .. }
        | Op::Pad(_)
        | Op::Expand { .. }
        | Op::Tile { .. }
        | Op::Resize(_)
        | Op::Reshape { .. }
        | Op::Identity
        | Op::Quantise(_)
        | Op::ToCodes(_)
        | Op::FromCodes(_) => Vec::new(),
    }
}

fn axis(axis: usize) -> AttributeProto {
    int("axis", i64::try_from(axis).unwrap_or(i64::MAX))
}

fn activation_attributes(activation: Activation) -> Vec<AttributeProto> {
    match activation {
        Activation::LeakyRelu { alpha } | Activation::Elu { alpha } => vec![float("alpha", alpha)],
        Activation::Selu { alpha, gamma } => vec![float("alpha", alpha), float("gamma", gamma)],
        Activation::HardSigmoid { alpha, beta } => {
            vec![float("alpha", alpha), float("beta", beta)]
        }
        Activation::Clip { .. } => Vec::new(),
    }
}

fn window(window: &Window, dilations: bool) -> Vec<AttributeProto> {
    let (before, after) = (window.pads.iter().map(|p| p.0), window.pads.iter().map(|p| p.1));
    let mut all = vec![
        ints("kernel_shape", window.kernel.iter().copied()),
        ints("strides", window.strides.iter().copied()),
        ints("pads", before.chain(after)),
    ];
    if dilations {
        all.push(ints("dilations", window.dilations.iter().copied()));
    }
    all
}
