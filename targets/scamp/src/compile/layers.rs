//! Which nodes the machine takes: convolutions of images, and what follows in their registers: ReLU,
//! pooling, comparisons with constants.

use super::weights::reals;
use super::{clear, levels};
use crate::arch::ScampArch;
use crate::options::{BiasPlace, Wishes};
use crate::ports::{Area, Span};
use quincunx_contract::Refused;
use quincunx_graph::{
    Compare, Conv, Graph, Node, NodeId, Op, Pool, PoolKind, Unary, ValueId, Window,
};
use std::collections::BTreeMap;

/// Nodes that the machine computes together: a head of all channels at once, then steps on each
/// channel alone.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// The image it reads.
    pub(crate) operand: ValueId,
    /// What the head computes.
    pub(crate) head: Head,
    /// What is done to each channel in its register.
    pub(crate) stages: Vec<Stage>,
    /// The bias is added on the array.
    pub(crate) biased: bool,
    /// Zeros are made around the operand first.
    pub(crate) cleared: bool,
}

/// What the channels of a layer are at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// A convolution.
    Conv(NodeId),
    /// The operand itself.
    Copy,
}

/// A step on every channel alone.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    /// Its node.
    pub(crate) node: NodeId,
    /// What it does.
    pub(crate) kind: Kind,
}

/// What a step does.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// 0 for what is below it.
    Relu,
    /// The largest under a window.
    Largest([Taps; 2]),
    /// The mean under a window.
    Mean([Taps; 2]),
    /// A comparison with a number, or one for each channel, which gives 1-bit images.
    Compare(Compare, Vec<f64>),
    /// 1-bit images as numbers.
    Same,
}

/// Taps of a window along an axis, which begin at the pixel that they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taps {
    /// How many.
    pub(crate) count: usize,
    /// Elements from one to the next.
    pub(crate) apart: usize,
}

impl Layer {
    /// Its nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let head = match self.head {
            Head::Conv(node) => Some(node),
            Head::Copy => None,
        };
        head.into_iter().chain(self.stages.iter().map(|stage| stage.node))
    }

    /// Its node that others name it by.
    pub(crate) fn name_node(&self) -> Option<NodeId> {
        self.nodes().next()
    }

    /// Its last value.
    pub(crate) fn last(&self, graph: &Graph) -> Option<ValueId> {
        self.nodes().last().map(|node| graph[node].output)
    }
}

/// A value on the machine.
#[derive(Clone, Copy, Debug)]
struct Held {
    area: Area,
    /// All elements around its pixels hold 0.
    clean: bool,
    /// The layer whose bias is still missing.
    incomplete: Option<usize>,
    /// It is in 1-bit registers.
    bits: bool,
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
    /// Registers hold values times `2^scale`.
    pub(crate) scale: i32,
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
        let numbers = builder.numbers();
        let scale = wishes.scale.or_else(|| levels::scale(&numbers)).unwrap_or(0);
        Network { scale, ..builder.network }
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
            Op::Conv(conv) => self.conv(id, node, conv),
            Op::Unary(Unary::Relu) => self.relu(id, node),
            Op::Pool(pool) => self.pool(id, node, pool),
            Op::Compare(compare) => self.compare(id, node, *compare),
            Op::Cast { to } if to.is_float() => self.cast(id, node),
            other => Err(format!("the machine has no {}", other.name())),
        }
    }

    /// The image that a node reads, complete in analogue registers.
    fn image(&self, x: ValueId) -> Result<Held, String> {
        let value = &self.graph[x];
        let &[images, _, height, width] = &value.shape[..] else {
            return Err("it does not read images of rows and columns".to_owned());
        };
        if images != 1 {
            return Err(format!("{images} images at once, the array holds one"));
        }
        if let Some(held) = self.held.get(&x) {
            return match (held.bits, held.incomplete) {
                (true, _) => Err("1-bit registers are only read out".to_owned()),
                (_, Some(layer)) => self.completes(layer).map(|()| *held),
                (_, None) => Ok(*held),
            };
        }
        if !value.dtype.is_float() || value.constant.is_some() {
            return Err("the image is not one of real numbers that is computed".to_owned());
        }
        let (rows, columns) = (self.wishes.height, self.wishes.width);
        let centred = Span::centred(height, rows).zip(Span::centred(width, columns));
        let (rows, columns) = centred.ok_or_else(|| {
            format!("an image of {width} x {height} does not fit the array of {columns} x {rows}")
        })?;
        Ok(Held { area: Area { rows, columns }, clean: true, incomplete: None, bits: false })
    }

    /// The bias of a layer can be added on the array.
    fn completes(&self, layer: usize) -> Taken {
        match self.wishes.bias {
            BiasPlace::Driver => Err("the bias before it is added outside of the array".to_owned()),
            BiasPlace::Auto | BiasPlace::Array => {
                self.loads("bias before it", &self.biases(&self.network.layers[layer]))
            }
        }
    }

    fn biases(&self, layer: &Layer) -> Vec<f64> {
        let Head::Conv(node) = layer.head else { return Vec::new() };
        let bias = self.graph[node].input(2).and_then(|id| reals(&self.graph[id]));
        bias.unwrap_or_default()
    }

    /// IN can hold the numbers.
    fn loads(&self, what: &str, numbers: &[f64]) -> Taken {
        let beyond = |number: &&f64| !levels::fits(**number, self.wishes.scale);
        match numbers.iter().find(beyond) {
            None => Ok(()),
            Some(number) => {
                let most = levels::MAX;
                Err(format!("the {what} has {number}, more than {most} of IN at this scale"))
            }
        }
    }

    /// Every number that IN is to hold.
    fn numbers(&self) -> Vec<f64> {
        let layers = &self.network.layers;
        let biases = layers.iter().filter(|layer| layer.biased).flat_map(|l| self.biases(l));
        let compared =
            layers.iter().flat_map(|layer| &layer.stages).flat_map(|stage| match &stage.kind {
                Kind::Compare(_, numbers) => numbers.clone(),
                Kind::Relu | Kind::Largest(_) | Kind::Mean(_) | Kind::Same => Vec::new(),
            });
        biases.chain(compared).collect()
    }

    fn conv(&mut self, id: NodeId, node: &Node, conv: &Conv) -> Taken {
        let x = node.input(0).ok_or("it has no operand")?;
        let held = self.image(x)?;
        self.check_constants(node)?;
        let cleared = !held.clean && conv.window.pads.iter().any(|&pads| pads != (0, 0));
        if cleared {
            clear::check(held.area, self.arch, self.wishes)
                .map_err(|why| format!("zeros around the image cannot be made: {why}"))?;
        }
        let middle = |axis: usize| {
            let elements =
                (conv.window.kernel[axis] / 2).checked_mul(conv.window.dilations[axis])?;
            let ahead = i64::try_from(elements).ok()?;
            ahead.checked_sub(i64::try_from(conv.window.pads[axis].0).ok()?)
        };
        let area = self.area(node, &conv.window, held.area, middle)?;
        let (head, stages) = (Head::Conv(id), Vec::new());
        let layer = Layer { operand: x, head, stages, biased: false, cleared };
        let has_bias = node.input(2).is_some();
        if has_bias && self.wishes.bias == BiasPlace::Array {
            self.loads("bias", &self.biases(&layer))?;
        }
        self.complete(held);
        if let Some(operand) = self.held.get_mut(&x) {
            operand.clean |= cleared;
        }
        self.network.areas.entry(x).or_insert(held.area);
        self.network.areas.insert(node.output, area);
        let biased = has_bias && self.wishes.bias == BiasPlace::Array;
        let number = self.network.layers.len();
        let incomplete = (has_bias && !biased).then_some(number);
        self.held.insert(node.output, Held { area, clean: false, incomplete, bits: false });
        self.network.layers.push(Layer { biased, ..layer });
        Ok(())
    }

    /// A value is read on the array: its bias is added there.
    fn complete(&mut self, held: Held) {
        if let Some(layer) = held.incomplete {
            self.network.layers[layer].biased = true;
            self.held.values_mut().filter(|h| h.incomplete == Some(layer)).for_each(|h| {
                h.incomplete = None;
            });
        }
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

    /// Where the results of a window are, so many pixels ahead of its first tap.
    fn area(
        &self,
        node: &Node,
        window: &Window,
        input: Area,
        ahead: impl Fn(usize) -> Option<i64>,
    ) -> Result<Area, String> {
        let output = &self.graph[node.output].shape;
        let along = |axis: usize, span: Span| {
            let ahead = ahead(axis)?.checked_mul(i64::try_from(span.step).ok()?)?;
            let first = i64::try_from(span.first).ok()?.checked_add(ahead)?;
            Some(Span {
                first: usize::try_from(first).ok()?,
                step: span.step.checked_mul(window.strides[axis])?,
                count: output[axis + 2],
            })
        };
        let area = along(0, input.rows).zip(along(1, input.columns));
        let area = area.map(|(rows, columns)| Area { rows, columns });
        let area = area.filter(|area| area.fits(self.wishes.height, self.wishes.width));
        Ok(area.ok_or("pixels of the result lie beyond the array")?)
    }

    fn relu(&mut self, id: NodeId, node: &Node) -> Taken {
        if self.arch.max_where == 0 || !self.arch.macros.contains("Res") {
            return Err("the machine lacks `where` or `res`".to_owned());
        }
        let held = self.operand(node)?;
        self.stage(
            id,
            node,
            Kind::Relu,
            Held { clean: held.clean && held.incomplete.is_none(), ..held },
        )
    }

    /// The operand of a step: on the machine, or an input of the graph. What the host has computed
    /// stays there.
    fn operand(&self, node: &Node) -> Result<Held, String> {
        let x = node.input(0).ok_or("it has no operand")?;
        let is_near = self.held.contains_key(&x) || self.graph.inputs().contains(&x);
        match is_near {
            true => self.image(x),
            false => Err("what it reads is not on the machine".to_owned()),
        }
    }

    fn pool(&mut self, id: NodeId, node: &Node, pool: &Pool) -> Taken {
        let held = self.operand(node)?;
        let window = &pool.window;
        let input = &self.graph[node.input(0).ok_or("it has no operand")?].shape;
        let output = &self.graph[node.output].shape;
        let inside = |axis: usize| {
            let last = (output[axis + 2].checked_sub(1)?).checked_mul(window.strides[axis])?;
            let end = last.checked_add(window.span(axis)?)?;
            (window.pads[axis] == (0, 0) && end <= input[axis + 2]).then_some(())
        };
        if (0..2).any(|axis| inside(axis).is_none()) {
            return Err("windows reach beyond the image".to_owned());
        }
        let taps = |axis: usize, span: Span| {
            let apart = window.dilations[axis].checked_mul(span.step)?;
            Some(Taps { count: window.kernel[axis], apart })
        };
        let taps = taps(0, held.area.rows).zip(taps(1, held.area.columns));
        let (rows, columns) = taps.ok_or("the window is too large")?;
        let kind = match pool.kind {
            PoolKind::Max if self.arch.max_where < 2 || !self.wishes.has(&["Mov", "Movx"]) => {
                return Err("`where` of two operands, `mov` and `movx` are needed".to_owned());
            }
            PoolKind::Max => Kind::Largest([rows, columns]),
            PoolKind::Average { .. } if !(rows.count * columns.count).is_power_of_two() => {
                let count = rows.count * columns.count;
                return Err(format!("a mean of {count} is no sum of halves"));
            }
            PoolKind::Average { .. } => Kind::Mean([rows, columns]),
        };
        let area = self.area(node, window, held.area, |_| Some(0))?;
        self.stage(id, node, kind, Held { area, clean: false, ..held })
    }

    fn compare(&mut self, id: NodeId, node: &Node, compare: Compare) -> Taken {
        let (x, number) = (node.input(0), node.input(1));
        let (x, number) = x.zip(number).ok_or("it lacks an operand")?;
        if compare == Compare::Equal {
            return Err("the machine has no Equal".to_owned());
        }
        let held = self.operand(node)?;
        let numbers = reals(&self.graph[number]).ok_or("it does not compare with a constant")?;
        let channels = self.graph[x].shape[1];
        let extents = &self.graph[number].shape;
        let from_end = |back: usize| extents.len().checked_sub(back).map_or(1, |at| extents[at]);
        let per_channel = from_end(1) == 1 && from_end(2) == 1 && numbers.len() == channels;
        if numbers.len() != 1 && !per_channel || extents.len() > 4 {
            return Err("it compares with more than a number for each channel".to_owned());
        }
        if let Some(bad) = numbers.iter().find(|number| !number.is_finite()) {
            return Err(format!("it compares with {bad}"));
        }
        self.loads("comparison", &numbers)?;
        if self.arch.max_where < 2 || self.wishes.bits.is_empty() {
            return Err("the machine lacks `where` of two operands, or 1-bit registers".to_owned());
        }
        self.stage(id, node, Kind::Compare(compare, numbers), Held { bits: true, ..held })
    }

    fn cast(&mut self, id: NodeId, node: &Node) -> Taken {
        let other = "only what a comparison on the machine gives is cast there";
        let x = node.input(0).ok_or(other)?;
        let held = self.held.get(&x).copied().filter(|held| held.bits).ok_or(other)?;
        let last = |layer: &&mut Layer| layer.last(self.graph) == Some(x);
        let layer = self.network.layers.iter_mut().find(last).ok_or(other)?;
        layer.stages.push(Stage { node: id, kind: Kind::Same });
        self.held.insert(node.output, held);
        self.network.areas.insert(node.output, held.area);
        Ok(())
    }

    /// Takes a step on every channel: in the registers of the layer before, where nobody else needs
    /// what is there, else on a copy.
    fn stage(&mut self, node_id: NodeId, node: &Node, kind: Kind, after: Held) -> Taken {
        let x = node.input(0).ok_or("it has no operand")?;
        let before = self.image(x)?;
        self.complete(before);
        let is_alone = self.consumers[x.index()].len() == 1;
        let stage = Stage { node: node_id, kind };
        let graph = self.graph;
        let last = |layer: &&mut Layer| layer.last(graph) == Some(x);
        match self.network.layers.iter_mut().find(last).filter(|_| is_alone) {
            Some(layer) => layer.stages.push(stage),
            None => {
                let stages = vec![stage];
                let (head, biased, cleared) = (Head::Copy, false, false);
                let layer = Layer { operand: x, head, stages, biased, cleared };
                self.network.areas.entry(x).or_insert(before.area);
                self.network.layers.push(layer);
            }
        }
        self.held.insert(node.output, Held { incomplete: None, ..after });
        self.network.areas.insert(node.output, after.area);
        Ok(())
    }
}
