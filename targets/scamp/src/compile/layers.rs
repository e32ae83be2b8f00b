//! Which nodes the machine takes: convolutions of images, and the ReLU behind them.

use super::weights::reals;
use crate::arch::ScampArch;
use crate::files::Mode;
use crate::options::Wishes;
use crate::ports::{Area, Span};
use quincunx_contract::Refused;
use quincunx_graph::{Conv, Graph, Node, NodeId, Op, Unary, ValueId};
use std::collections::BTreeMap;

/// Nodes that the machine computes together.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// The convolution.
    pub(crate) conv: NodeId,
    /// The ReLU behind it.
    pub(crate) relu: Option<NodeId>,
}

impl Layer {
    /// Its nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        [self.conv].into_iter().chain(self.relu)
    }
}

/// A value on the machine.
#[derive(Clone, Copy, Debug)]
struct Held {
    area: Area,
    /// All elements around its pixels hold 0.
    clean: bool,
    /// It is complete on the machine.
    whole: bool,
}

/// A graph as far as the machine takes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network {
    /// Layers in the order of the graph.
    pub(crate) layers: Vec<Layer>,
    /// Why a node is the host's.
    pub(crate) reasons: BTreeMap<NodeId, String>,
    /// Where the pixels of values are.
    pub(crate) areas: BTreeMap<ValueId, Area>,
}

/// A window and what it is applied to.
struct Geometry<'a> {
    conv: &'a Conv,
    input: Area,
}

impl Network {
    /// Looks at every node.
    pub(crate) fn new(
        graph: &Graph,
        arch: &ScampArch,
        wishes: &Wishes,
        refused: &Refused,
    ) -> Network {
        let mut builder = Builder {
            graph,
            arch,
            wishes,
            consumers: graph.consumers(),
            network: Network::default(),
            held: BTreeMap::new(),
        };
        for (id, node) in graph.nodes() {
            let reason = refused.reason(id).map(str::to_owned);
            let taken = reason.map_or_else(|| builder.take(id, node), Err);
            if let Err(reason) = taken {
                builder.network.reasons.insert(id, reason);
            }
        }
        builder.network
    }
}

struct Builder<'a> {
    graph: &'a Graph,
    arch: &'a ScampArch,
    wishes: &'a Wishes,
    consumers: Vec<Vec<NodeId>>,
    network: Network,
    /// Results of the machine.
    held: BTreeMap<ValueId, Held>,
}

type Taken = Result<(), String>;

impl Builder<'_> {
    fn take(&mut self, id: NodeId, node: &Node) -> Taken {
        match &node.op {
            _ if self.wishes.mode != Mode::Analogue => {
                Err("programs of 1-bit registers are not compiled".to_owned())
            }
            Op::Conv(conv) => self.conv(id, node, conv),
            Op::Unary(Unary::Relu) => self.relu(id, node),
            other => Err(format!("the machine has no {}", other.name())),
        }
    }

    fn conv(&mut self, id: NodeId, node: &Node, conv: &Conv) -> Taken {
        let x = node.input(0).ok_or("it has no operand")?;
        let value = &self.graph[x];
        let &[images, _, height, width] = &value.shape[..] else {
            return Err("only images of rows and columns are convolved".to_owned());
        };
        if images != 1 {
            return Err(format!("{images} images at once, the array holds one"));
        }
        if !value.dtype.is_float() || value.constant.is_some() {
            return Err("the image is not one of real numbers that is computed".to_owned());
        }
        self.check_constants(node)?;
        let (rows, columns) = (self.arch_size().0, self.arch_size().1);
        let centred = Span::centred(height, rows).zip(Span::centred(width, columns));
        let fresh =
            |(rows, columns)| Held { area: Area { rows, columns }, clean: true, whole: true };
        let held = self.held.get(&x).copied().or(centred.map(fresh));
        let held = held.ok_or_else(|| {
            format!("an image of {width} x {height} does not fit the array of {columns} x {rows}")
        })?;
        if !held.whole {
            return Err("it reads a sum whose bias is added outside of the array".to_owned());
        }
        if !held.clean && conv.window.pads.iter().any(|&pads| pads != (0, 0)) {
            return Err("around the image there are no zeros any more".to_owned());
        }
        let output = &self.graph[node.output].shape;
        let geometry = Geometry { conv, input: held.area };
        let area = geometry.output(output[2], output[3]).filter(|area| area.fits(rows, columns));
        let area = area.ok_or("pixels of the result lie beyond the array")?;
        self.network.areas.entry(x).or_insert(held.area);
        self.network.areas.insert(node.output, area);
        let whole = node.input(2).is_none();
        self.held.insert(node.output, Held { area, clean: false, whole });
        self.network.layers.push(Layer { conv: id, relu: None });
        Ok(())
    }

    /// Rows and columns of the array.
    fn arch_size(&self) -> (usize, usize) {
        (self.wishes.height, self.wishes.width)
    }

    fn check_constants(&self, node: &Node) -> Taken {
        for (index, what) in [(1, "weights"), (2, "bias")] {
            let Some(id) = node.input(index) else { continue };
            let numbers = reals(&self.graph[id]);
            let numbers = numbers.ok_or_else(|| format!("the {what} is no constant"))?;
            if let Some(bad) = numbers.iter().find(|number| !number.is_finite()) {
                return Err(format!("the {what} holds {bad}"));
            }
        }
        Ok(())
    }

    fn relu(&mut self, id: NodeId, node: &Node) -> Taken {
        let behind = "only the result of a convolution on the machine becomes a ReLU there";
        let x = node.input(0).ok_or(behind)?;
        let held = self.held.get(&x).copied().ok_or(behind)?;
        if !held.whole {
            return Err("the bias before it is added outside of the array".to_owned());
        }
        if self.consumers[x.index()].len() > 1 {
            return Err("others read what it would overwrite".to_owned());
        }
        if self.arch.max_where == 0 || !self.arch.macros.contains("Res") {
            return Err("the machine lacks `where` or `res`".to_owned());
        }
        let computes =
            |layer: &&mut Layer| layer.relu.is_none() && self.graph[layer.conv].output == x;
        let layer = self.network.layers.iter_mut().find(computes).ok_or(behind)?;
        layer.relu = Some(id);
        self.held.insert(node.output, held);
        self.network.areas.insert(node.output, held.area);
        Ok(())
    }
}

impl Geometry<'_> {
    /// Where the results are; `None` where the array surely has no such elements. A result lies
    /// where the middle of its window is.
    fn output(&self, height: usize, width: usize) -> Option<Area> {
        let along = |axis: usize, span: Span, count: usize| {
            let window = &self.conv.window;
            let middle = (window.kernel[axis] / 2).checked_mul(window.dilations[axis])?;
            let ahead = i64::try_from(middle).ok()? - i64::try_from(window.pads[axis].0).ok()?;
            let ahead = ahead.checked_mul(i64::try_from(span.step).ok()?)?;
            let first = i64::try_from(span.first).ok()?.checked_add(ahead)?;
            Some(Span {
                first: usize::try_from(first).ok()?,
                step: span.step.checked_mul(window.strides[axis])?,
                count,
            })
        };
        let rows = along(0, self.input.rows, height)?;
        Some(Area { rows, columns: along(1, self.input.columns, width)? })
    }
}
