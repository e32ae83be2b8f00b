//! Which values get a grid, and which share one.

use super::parameters::biased_product;
use super::recipe::{Grid, Overrides, Recipe, Settings};
use crate::grid::moves;
use crate::{Activation, Binary, Graph, Node, NodeId, Op, ReduceKind, Unary, ValueId};
use quincunx_tensor::DType;

/// What happens where in a graph.
pub(super) struct Places {
    /// Settings of every node.
    pub(super) nodes: Vec<Settings>,
    /// For every value that gets a quantiser, its settings.
    pub(super) values: Vec<Option<Settings>>,
    /// For every value, the value whose grid it is on: itself where a quantiser is inserted or a
    /// float constant is joined with others.
    pub(super) origin: Vec<Option<ValueId>>,
    /// Leader of every origin; origins with one leader share a grid.
    leader: Vec<Option<ValueId>>,
}

impl Places {
    /// The origin that stands for all that share a grid with this one.
    pub(super) fn leader(&self, mut origin: ValueId) -> ValueId {
        while let Some(next) = self.leader[origin.index()] {
            origin = next;
        }
        origin
    }

    fn unite(&mut self, a: ValueId, b: ValueId) {
        let (a, b) = (self.leader(a), self.leader(b));
        if a != b {
            self.leader[b.index()] = Some(a);
        }
    }
}

/// Walks the graph once.
pub(super) fn find(graph: &Graph, recipe: &Recipe) -> Places {
    let count = graph.values().len();
    let mut walk = Walk {
        graph,
        consumers: graph.consumers(),
        is_output: vec![false; count],
        places: Places {
            nodes: Vec::with_capacity(graph.nodes().len()),
            values: vec![None; count],
            origin: vec![None; count],
            leader: vec![None; count],
        },
    };
    graph.outputs().iter().for_each(|output| walk.is_output[output.index()] = true);
    let mut inherited = vec![Overrides::default(); count];
    for (id, node) in graph.nodes() {
        let own = recipe.layers.get(&node.name).copied().unwrap_or_default();
        let before = node.operands().find(|&x| walk.absorber(x) == Some(id));
        let overrides = before.map_or(own, |x| inherited[x.index()].with(&own));
        inherited[node.output.index()] = overrides;
        walk.places.nodes.push(overrides.apply(recipe.default));
    }
    for &input in graph.inputs() {
        let overrides = recipe.layers.get(&graph[input].name).copied().unwrap_or_default();
        // No layer computes it: layers that are skipped read it as it is.
        walk.place(input, Settings { skip: true, ..overrides.apply(recipe.default) });
    }
    for (id, node) in graph.nodes() {
        walk.visit(node, walk.places.nodes[id.index()]);
    }
    walk.places
}

struct Walk<'a> {
    graph: &'a Graph,
    consumers: Vec<Vec<NodeId>>,
    is_output: Vec<bool>,
    places: Places,
}

impl Walk<'_> {
    fn visit(&mut self, node: &Node, settings: Settings) {
        let (graph, output) = (self.graph, node.output);
        if graph[output].dtype != DType::F32 {
            return;
        }
        if let Op::Concat { .. } = node.op {
            self.join(node, settings);
        } else if moves(&node.op) {
            let origin = node.input(0).and_then(|x| self.places.origin[x.index()]);
            if settings.skip && !self.is_kept(origin) && graph.grid(output).is_none() {
                self.place(output, settings);
            } else {
                self.places.origin[output.index()] = origin;
            }
        } else if self.computes(node, settings.grid) {
            self.place(output, settings);
        }
    }

    /// True when layers that are skipped find the numbers of this origin on a grid.
    fn is_kept(&self, origin: Option<ValueId>) -> bool {
        let settings = origin.and_then(|id| self.places.values[id.index()]);
        settings.is_some_and(|settings| !settings.skip)
    }

    /// Gives a value a grid, if something reads it. With `skip` it is for layers only that are
    /// quantised.
    fn place(&mut self, value: ValueId, settings: Settings) {
        let readers = &self.consumers[value.index()];
        let reads = |r: &NodeId| !settings.skip || !self.places.nodes[r.index()].skip;
        let wanted = readers.iter().any(reads);
        if self.graph[value].dtype != DType::F32 || !wanted || self.feeds_quantiser(value) {
            return;
        }
        self.places.values[value.index()] = Some(settings);
        self.places.origin[value.index()] = Some(value);
    }

    /// The operands of a Concat share a grid when they can, else the result gets one.
    fn join(&mut self, node: &Node, settings: Settings) {
        let graph = self.graph;
        if settings.grid != Grid::Affine {
            return;
        }
        if settings.skip {
            if graph.grid(node.output).is_none() {
                self.place(node.output, settings);
            }
            return;
        }
        let origins: Option<Vec<ValueId>> = node
            .operands()
            .map(|operand| match &graph[operand].constant {
                Some(constant) if constant.quantiser.is_none() => Some(operand),
                _ => self.places.origin[operand.index()],
            })
            .collect();
        let Some(origins) = origins.filter(|origins| self.may_share(origins)) else {
            if graph.grid(node.output).is_none() {
                self.place(node.output, settings);
            }
            return;
        };
        for &origin in &origins {
            self.places.origin[origin.index()] = Some(origin);
            self.places.unite(origins[0], origin);
        }
        self.places.origin[node.output.index()] = origins.first().copied();
    }

    /// Grids can be shared where all layers want the same one.
    fn may_share(&self, origins: &[ValueId]) -> bool {
        let wish = |settings: &Settings| {
            (settings.grid, settings.activations, settings.signed.unwrap_or(false))
        };
        let mut wishes =
            origins.iter().filter_map(|id| self.places.values[id.index()].as_ref()).map(wish);
        let first = wishes.next();
        first.is_some_and(|(grid, ..)| grid == Grid::Affine) && wishes.all(|w| Some(w) == first)
    }

    /// The ReLU or Clip, or behind a product leaky ReLU or bias, that is the only reader of a value and
    /// is quantised instead of it.
    fn absorber(&self, value: ValueId) -> Option<NodeId> {
        let producer = &self.graph[self.graph[value].producer?];
        let product =
            matches!(producer.op, Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul)
                || biased_product(self.graph, producer).is_some();
        let linear = product
            || matches!(producer.op, Op::Binary(_) | Op::GlobalAveragePool | Op::BatchNorm(_));
        let [reader] = self.consumers[value.index()][..] else { return None };
        let absorbs = match self.graph[reader].op {
            Op::Unary(Unary::Relu) | Op::Activation(Activation::Clip { .. }) => linear,
            Op::Activation(Activation::LeakyRelu { .. }) => product,
            Op::Binary(Binary::Add) => biased_product(self.graph, &self.graph[reader]).is_some(),
            _ => false,
        };
        (absorbs && !self.is_output[value.index()]).then_some(reader)
    }

    /// True when the node's result is made of new numbers and needs a grid of its own.
    fn computes(&self, node: &Node, grid: Grid) -> bool {
        let affine = grid == Grid::Affine;
        let instead = self.absorber(node.output).map(|reader| &self.graph[reader].op);
        match &node.op {
            Op::Conv(_)
            | Op::Gemm(_)
            | Op::MatMul
            | Op::Binary(_)
            | Op::GlobalAveragePool
            | Op::BatchNorm(_) => match instead {
                Some(Op::Unary(Unary::Relu)) => false,
                // Fixed-point machines of one format round before a sum.
                Some(Op::Binary(_)) => matches!(grid, Grid::Uniform { .. }),
                Some(_) => !affine,
                None => true,
            },
            Op::ConvTranspose(_) => instead.is_none() || !affine,
            Op::Pool(pool) => pool.kind != crate::PoolKind::Max,
            Op::Reduce(reduce) => !matches!(reduce.kind, ReduceKind::Max | ReduceKind::Min),
            Op::Unary(_)
            | Op::Activation(_)
            | Op::PRelu
            | Op::Where
            | Op::Softmax(_)
            | Op::LayerNorm(_)
            | Op::InstanceNorm(_)
            | Op::Recurrent(_)
            | Op::Lrn(_) => true,
            Op::Resize(resize) => !resize.is_nearest() || affine,
            Op::Pad(_) | Op::Cast { .. } | Op::CastUnbounded { .. } => affine,
            Op::GlobalMaxPool
            | Op::Compare(_)
            | Op::Logic(_)
            | Op::ArgExtreme(_)
            | Op::Concat { .. }
            | Op::Slice { .. }
            | Op::Gather { .. }
            | Op::Expand { .. }
            | Op::Tile { .. }
            | Op::Flatten { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Identity
            | Op::Quantise(_)
            | Op::ToCodes(_)
            | Op::FromCodes(_) => false,
        }
    }

    fn feeds_quantiser(&self, value: ValueId) -> bool {
        let readers = &self.consumers[value.index()];
        !readers.is_empty()
            && readers.iter().all(|&r| matches!(self.graph[r].op, Op::Quantise(_) | Op::ToCodes(_)))
    }
}
