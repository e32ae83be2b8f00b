//! Folding batch normalisations into the layer before them.

use super::rewrite::Rewrite;
use crate::{BatchNorm, Binary, Graph, Node, NodeId, Op, ValueId};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::Tensor;

/// Scale and shift of a batch normalisation, per channel, in f64.
struct Affine {
    factor: Vec<f64>,
    shift: Vec<f64>,
}

/// Folds every batch normalisation with constant parameters: into the weights and bias of the
/// convolution or Gemm it follows, when nothing else reads that layer's result and its weights
/// are plain constants, else into a product and a sum. Parameters are computed in f64 and rounded
/// to f32 once, so results change by rounding only.
///
/// # Errors
/// None for a graph that verifies.
pub fn fold_batch_norm(graph: &Graph) -> Result<Graph> {
    let consumers = graph.consumers();
    // The normalisation that follows each node, if it can be folded into it.
    let mut follower: Vec<Option<NodeId>> = vec![None; graph.nodes().len()];
    for (id, node) in graph.nodes() {
        if let (Op::BatchNorm(_), Some(x)) = (&node.op, node.input(0))
            && let Some(layer) = graph[x].producer
            && consumers[x.index()].len() == 1
            && !graph.outputs().contains(&x)
            && affine(graph, node).is_some()
            && has_plain_weights(graph, &graph[layer])
        {
            follower[layer.index()] = Some(id);
        }
    }
    let mut rewrite = Rewrite::new(graph)?;
    for (id, node) in graph.nodes() {
        match &node.op {
            _ if follower[id.index()].is_some() => {
                let norm = follower[id.index()].map(|norm| &graph[norm]);
                fold_into(graph, &mut rewrite, node, norm.expect("checked by the guard"))?;
            }
            Op::BatchNorm(_) if follower.contains(&Some(id)) => {}
            Op::BatchNorm(_) => match affine(graph, node) {
                Some(affine) => as_product_and_sum(graph, &mut rewrite, node, &affine)?,
                None => rewrite.copy(node)?,
            },
            _ => rewrite.copy(node)?,
        }
    }
    super::remove_dead(&rewrite.finish()?)
}

/// The constant parameters of a batch normalisation.
fn affine(graph: &Graph, node: &Node) -> Option<Affine> {
    let Op::BatchNorm(BatchNorm { epsilon }) = node.op else {
        return None;
    };
    let parameter = |index| plain_constant(graph, node.input(index)?).map(Tensor::to_f64);
    let (scale, bias) = (parameter(1)?, parameter(2)?);
    let (mean, variance) = (parameter(3)?, parameter(4)?);
    let factor: Vec<f64> =
        scale.iter().zip(&variance).map(|(s, v)| s / (v + f64::from(epsilon)).sqrt()).collect();
    let shift = bias.iter().zip(&mean).zip(&factor).map(|((b, m), f)| b - m * f).collect();
    Some(Affine { factor, shift })
}

fn plain_constant(graph: &Graph, value: ValueId) -> Option<&Tensor> {
    graph[value].constant.as_ref().filter(|c| c.quantiser.is_none()).map(|c| &c.tensor)
}

fn has_plain_weights(graph: &Graph, node: &Node) -> bool {
    let plain =
        |index: usize| node.input(index).is_none_or(|id| plain_constant(graph, id).is_some());
    let foldable = match &node.op {
        Op::Conv(_) => true,
        Op::Gemm(gemm) => {
            // A bias that broadcasts along the rows would become a matrix.
            let bias_is_row = node.input(2).is_none_or(|c| graph[c].shape.len() == 1);
            bias_is_row && gemm.alpha == 1.0 && gemm.beta == 1.0
        }
        _ => false,
    };
    foldable && node.input(1).is_some() && plain(1) && plain(2)
}

fn fold_into(graph: &Graph, rewrite: &mut Rewrite<'_>, layer: &Node, norm: &Node) -> Result<()> {
    let bug = || Diagnostic::bug("a foldable layer has plain weights");
    let affine = affine(graph, norm).ok_or_else(bug)?;
    let weights_id = layer.input(1).ok_or_else(bug)?;
    let weights = plain_constant(graph, weights_id).ok_or_else(bug)?;
    let channels = affine.factor.len();
    // Output channels are the outer axis of a convolution's weights and of a transposed Gemm's.
    let outer = !matches!(&layer.op, Op::Gemm(gemm) if !gemm.transpose_b);
    let per_channel = weights.len().checked_div(channels).unwrap_or(0).max(1);
    let channel = |i: usize| if outer { i / per_channel } else { i % channels };
    let folded = weights
        .to_f64()
        .iter()
        .enumerate()
        .map(|(i, w)| (w * affine.factor[channel(i)]) as f32)
        .collect();
    let bias = match layer.input(2).and_then(|b| plain_constant(graph, b)) {
        Some(bias) if bias.len() == channels => bias.to_f64(),
        Some(bias) => vec![bias.to_f64().first().copied().unwrap_or(0.0); channels],
        None => vec![0.0; channels],
    };
    let bias =
        (0..channels).map(|c| (bias[c] * affine.factor[c] + affine.shift[c]) as f32).collect();
    let base = &graph[weights_id].name;
    let w =
        rewrite.constant(&format!("{base}_folded"), Tensor::from_vec(weights.shape(), folded)?)?;
    let b = rewrite
        .constant(&format!("{base}_bias_folded"), Tensor::from_vec::<f32>(&[channels], bias)?)?;
    let x = rewrite.value(layer.input(0).ok_or_else(bug)?)?;
    // The folded layer computes what the normalisation computed, under that name.
    let output = rewrite.new.add_node(
        &layer.name,
        layer.op.clone(),
        &[Some(x), Some(w), Some(b)],
        &graph[norm.output].name,
    )?;
    rewrite.replace(norm.output, output);
    Ok(())
}

fn as_product_and_sum(
    graph: &Graph,
    rewrite: &mut Rewrite<'_>,
    node: &Node,
    affine: &Affine,
) -> Result<()> {
    let rank = graph[node.output].shape.len();
    let mut shape = vec![1; rank.saturating_sub(1)];
    if let Some(channels) = shape.first_mut() {
        *channels = affine.factor.len();
    }
    let tensor =
        |values: &[f64]| Tensor::from_vec(&shape, values.iter().map(|&v| v as f32).collect());
    let factor = rewrite.constant(&format!("{}_factor", node.name), tensor(&affine.factor)?)?;
    let shift = rewrite.constant(&format!("{}_shift", node.name), tensor(&affine.shift)?)?;
    let x = rewrite.operands(node)?[0];
    let name = format!("{}_product", node.name);
    let product = rewrite.insert(&name, Op::Binary(Binary::Mul), &[x, Some(factor)], &name)?;
    rewrite.emit(node, Op::Binary(Binary::Add), &[Some(product), Some(shift)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::{Keep, float};
    use crate::{Conv, Gemm, Unary, Window};
    use quincunx_tensor::{DType, Tensors};

    fn ramp(shape: &[usize], start: f32) -> Tensor {
        let count: usize = shape.iter().product();
        Tensor::from_vec(shape, (0..count).map(|i| start + (i * 7 % 11) as f32 * 0.125).collect())
            .unwrap()
    }

    fn batch_norm(graph: &mut Graph, x: ValueId, channels: usize) -> ValueId {
        let parameters: Vec<_> = ["scale", "bias", "mean", "var"]
            .iter()
            .enumerate()
            .map(|(i, name)| {
                Some(graph.add_constant(name, ramp(&[channels], 0.5 + i as f32)).unwrap())
            })
            .collect();
        let inputs: Vec<_> = [Some(x)].into_iter().chain(parameters).collect();
        graph.add_node("bn", Op::BatchNorm(BatchNorm { epsilon: 1e-5 }), &inputs, "y").unwrap()
    }

    fn assert_same_meaning(graph: &Graph, folded: &Graph, x: Tensor) {
        assert!(folded.verify().is_empty());
        let inputs = Tensors::from([("x".to_owned(), x)]);
        let before = float(graph, &inputs, Keep::Outputs).unwrap()["y"].to_f64();
        let after = float(folded, &inputs, Keep::Outputs).unwrap()["y"].to_f64();
        for (a, b) in before.iter().zip(&after) {
            assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0), "{a} {b}");
        }
    }

    #[test]
    fn folds_into_a_convolution() {
        let mut graph = Graph::new("g");
        let x = graph.add_input("x", DType::F32, &[1, 2, 4, 4], &[]).unwrap();
        let w = graph.add_constant("w", ramp(&[3, 2, 3, 3], -0.5)).unwrap();
        let conv = Op::Conv(Conv { window: Window::new(&[3, 3]), groups: 1 });
        let c = graph.add_node("conv", conv, &[Some(x), Some(w)], "c").unwrap();
        let y = batch_norm(&mut graph, c, 3);
        graph.add_output(y);
        let folded = fold_batch_norm(&graph).unwrap();
        assert_eq!(folded.nodes().len(), 1);
        assert_same_meaning(&graph, &folded, ramp(&[1, 2, 4, 4], -1.0));
    }

    #[test]
    fn folds_into_a_gemm_with_either_weight_order() {
        for transpose_b in [false, true] {
            let mut graph = Graph::new("g");
            let x = graph.add_input("x", DType::F32, &[2, 4], &[]).unwrap();
            let shape = if transpose_b { [3, 4] } else { [4, 3] };
            let w = graph.add_constant("w", ramp(&shape, -0.5)).unwrap();
            let b = graph.add_constant("b", ramp(&[3], 0.25)).unwrap();
            let gemm = Op::Gemm(Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b });
            let c = graph.add_node("gemm", gemm, &[Some(x), Some(w), Some(b)], "c").unwrap();
            let y = batch_norm(&mut graph, c, 3);
            graph.add_output(y);
            let folded = fold_batch_norm(&graph).unwrap();
            assert_eq!(folded.nodes().len(), 1);
            assert_same_meaning(&graph, &folded, ramp(&[2, 4], -1.0));
        }
    }

    #[test]
    fn becomes_product_and_sum_elsewhere() {
        let mut graph = Graph::new("g");
        let x = graph.add_input("x", DType::F32, &[1, 3, 2, 2], &[]).unwrap();
        let r = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(x)], "r").unwrap();
        let y = batch_norm(&mut graph, r, 3);
        graph.add_output(y);
        let folded = fold_batch_norm(&graph).unwrap();
        assert_eq!(folded.nodes().len(), 3);
        assert_same_meaning(&graph, &folded, ramp(&[1, 3, 2, 2], -1.0));
    }
}
