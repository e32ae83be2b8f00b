//! One node of a graph as nodes of a file.

use crate::export::writer::{Writer, float, int, ints, operation};
use crate::proto::AttributeProto;
use quincunx_diag::Result;
use quincunx_graph::{Node, Op, Pool, PoolKind, Window};
use quincunx_tensor::Tensor;

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
            Op::Pool(Pool { kind: PoolKind::Average { .. }, window, .. })
                if window.dilations.iter().any(|&d| d != 1) =>
            {
                self.need_opset(19);
                self.plain(node, None, attributes(&node.op));
                Ok(())
            }
            op => {
                self.plain(node, None, attributes(op));
                Ok(())
            }
        }
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
        Op::BatchNorm(norm) => vec![float("epsilon", norm.epsilon)],
        Op::Flatten { axis } => vec![int("axis", i64::try_from(*axis).unwrap_or(i64::MAX))],
        Op::Transpose { order } => vec![ints("perm", order.iter().copied())],
        Op::MatMul
        | Op::GlobalAveragePool
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Reshape { .. }
        | Op::Identity
        | Op::Quantise(_)
        | Op::ToCodes(_)
        | Op::FromCodes(_) => Vec::new(),
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
