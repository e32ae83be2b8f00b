//! The graph as layers of the machine: which nodes become one kernel, in which codes their values
//! are held, and why the other nodes stay on the host.
//!
//! Ours. A layer is a node that computes, with the ReLU and the quantiser behind it, if nothing else
//! reads what lies between; of a product also the sum behind them, with its own.

mod joined;
mod tail;

pub(super) use joined::Joined;

use super::axes::Axes;
use super::kernel;
use super::weights::{self, Product};
use crate::arch::{DpasArch, Platform};
use crate::options::Precision;
use crate::program::Element;
use quincunx_contract::{Numerics, Refused};
use quincunx_graph::{
    Binary, Graph, Node, NodeId, Op, Pool, PoolKind, Quantiser, Softmax, ValueId, Window,
};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};
use tail::{NO_CLIP, Tail, clip, is_each};

/// Why a node stays on the host, otherwise a result.
pub(super) type Reason<T> = Result<T, String>;

/// Codes of 8 bits: `real = (code - zero) * scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Codes {
    /// They have a sign.
    pub(crate) signed: bool,
    /// Distance between two codes.
    pub(crate) scale: f64,
    /// The code of 0.
    pub(crate) zero: i32,
}

impl Codes {
    /// The codes that a quantiser gives.
    fn of(quantiser: &Quantiser) -> Reason<Codes> {
        let scalars = quantiser.is_uniform().then(|| quantiser.scalars(&[])).flatten();
        let Some([scalar]) = scalars.as_deref() else {
            return Err("its grid differs by channel".to_owned());
        };
        if scalar.width != 8 {
            return Err(format!("its codes have {} bits, the kernels have 8", scalar.width));
        }
        if scalar.rounding != Rounding::HalfEven || scalar.overflow != Overflow::Saturate {
            return Err("it does not round half to even and saturate".to_owned());
        }
        Ok(Codes { signed: scalar.signed, scale: scalar.scale, zero: scalar.zero as i32 })
    }

    /// The lowest and the highest code.
    pub(super) fn range(self) -> [i32; 2] {
        if self.signed { [-128, 127] } else { [0, 255] }
    }
}

/// How the elements of a graph's value are those of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// `[N, C, ...]`: channels are the second axis.
    Second,
    /// `[..., C]`: channels are the last axis, all others are positions.
    Last,
    /// `[N, C * H * W]`: an image flattened, channels outermost.
    Flat,
    /// Every axis has a step of its own, along positions or channels.
    Steps(Axes),
}

/// What numbers a value holds on the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Numbers {
    /// Codes of 8 bits.
    Codes(Codes),
    /// Whole sums of 32 bits, which the driver scales.
    Sums,
    /// Floats.
    Floats(Element),
}

impl Numbers {
    /// Their type in memory.
    pub(super) fn element(self) -> Element {
        match self {
            Numbers::Codes(codes) if codes.signed => Element::B,
            Numbers::Codes(_) => Element::Ub,
            Numbers::Sums => Element::D,
            Numbers::Floats(element) => element,
        }
    }

    /// Bytes of an element.
    pub(super) fn size(self) -> usize {
        self.element().bytes() as usize
    }
}

/// A value on the machine: images whose channels are innermost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Form {
    /// Images.
    pub(super) images: usize,
    /// Rows, columns, channels.
    pub(super) extents: [usize; 3],
    /// Its numbers.
    pub(super) numbers: Numbers,
    /// How the graph sees it.
    pub(super) view: View,
}

impl Form {
    /// The form of a value of a shape whose channels are the second axis, or the last.
    fn of(shape: &[usize], numbers: Numbers, view: View) -> Reason<Form> {
        let (images, extents) = match (view, shape) {
            (View::Second, &[n, c]) => (n, [1, 1, c]),
            (View::Second, &[n, c, w]) => (n, [1, w, c]),
            (View::Second, &[n, c, h, w]) => (n, [h, w, c]),
            (View::Last, [outer @ .., c]) => (1, [1, outer.iter().product(), *c]),
            _ => return Err(format!("a value of rank {}", shape.len())),
        };
        if images == 0 || extents.contains(&0) {
            return Err("a value without elements".to_owned());
        }
        Ok(Form { images, extents, numbers, view })
    }

    /// The axes of a value of this shape, whose positions follow each other.
    fn axes(&self, shape: &[usize]) -> Option<Axes> {
        match self.view {
            View::Last => Axes::channels_last(shape),
            View::Steps(axes) => Some(axes),
            View::Second | View::Flat => None,
        }
    }

    pub(super) fn codes(&self) -> Reason<Codes> {
        match self.numbers {
            Numbers::Codes(codes) => Ok(codes),
            Numbers::Sums | Numbers::Floats(_) => Err("an operand is not quantised".to_owned()),
        }
    }
}

/// A window that passes over the rows and columns of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Rows and columns.
    pub(super) kernel: [usize; 2],
    /// Strides.
    pub(super) stride: [usize; 2],
    /// Distances of points.
    pub(super) dilate: [usize; 2],
    /// Padding before.
    pub(super) before: [usize; 2],
    /// Padding behind.
    pub(super) behind: [usize; 2],
}

impl Frame {
    /// One point.
    pub(super) const POINT: Frame =
        Frame { kernel: [1, 1], stride: [1, 1], dilate: [1, 1], before: [0, 0], behind: [0, 0] };

    fn of(window: &Window) -> Reason<Frame> {
        let pair = |list: &[usize], missing: usize| match *list {
            [w] => Ok([missing, w]),
            [h, w] => Ok([h, w]),
            _ => Err(format!("a window of {} axes, images have two", list.len())),
        };
        let pads = |which: fn(&(usize, usize)) -> usize| -> Vec<usize> {
            window.pads.iter().map(which).collect()
        };
        Ok(Frame {
            kernel: pair(&window.kernel, 1)?,
            stride: pair(&window.strides, 1)?,
            dilate: pair(&window.dilations, 1)?,
            before: pair(&pads(|pad| pad.0), 0)?,
            behind: pair(&pads(|pad| pad.1), 0)?,
        })
    }
}

/// What a layer computes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operation {
    /// The driver moves an input of the program onto its grid.
    Enter,
    /// The same numbers in the same places.
    Alias,
    /// Sums of products with constants over a window.
    Product(Frame),
    /// The largest code of a window.
    Largest(Frame),
    /// The sum of two values.
    Add,
    /// Softmax over the channels.
    Softmax,
    /// Products of two values.
    Joined(Joined),
}

/// What becomes of the results of a product to which a value is added in the same kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Added {
    /// What is added.
    value: ValueId,
    /// Nodes of the product; the sum is the others.
    nodes: usize,
    /// The product's own codes, or floats.
    pub(super) numbers: Numbers,
    /// Real numbers between which they are kept.
    pub(super) clip: [f64; 2],
    /// The product is the second operand of the sum.
    pub(super) is_second: bool,
}

/// Of a product's results the largest of every window leave, where windows do not overlap. The frame of
/// the product passes over the windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pooled {
    /// Nodes of the product; the maximum is the others.
    nodes: usize,
    /// Rows and columns of a window.
    pub(super) kernel: [usize; 2],
    /// Strides of the product within a window.
    pub(super) stride: [usize; 2],
}

/// A layer.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    /// Its nodes, in graph order.
    pub(super) nodes: Vec<NodeId>,
    /// What it computes.
    pub(super) operation: Operation,
    /// Its operands on the machine, then what is added; of [`Operation::Enter`] the graph's input.
    pub(super) inputs: Vec<ValueId>,
    /// Its result: that of the last node.
    pub(super) output: ValueId,
    /// Real numbers between which its results are kept before they are rounded.
    pub(super) clip: [f64; 2],
    /// The constants of a product.
    pub(super) product: Option<Product>,
    /// A value is added to the product's results.
    pub(super) added: Option<Added>,
    /// The largest of the product's results leave.
    pub(super) pooled: Option<Pooled>,
}

impl Layer {
    /// Its nodes, by what has a result of its own in the machine's arithmetic.
    fn groups(&self) -> impl Iterator<Item = &[NodeId]> {
        let added = self.added.map(|added| added.nodes);
        let own = added.or(self.pooled.map(|pooled| pooled.nodes)).unwrap_or(self.nodes.len());
        let (own, behind) = self.nodes.split_at(own);
        [own, behind].into_iter().filter(|nodes| !nodes.is_empty())
    }
}

/// A graph as layers.
#[derive(Clone, Debug)]
pub(super) struct Network {
    /// Layers, in graph order of their first nodes.
    pub(super) layers: Vec<Layer>,
    /// The values on the machine.
    pub(super) forms: FxHashMap<ValueId, Form>,
    /// For every node that no layer has, why.
    pub(super) reasons: FxHashMap<NodeId, String>,
    /// What is computed with.
    pub(super) precision: Precision,
    /// The machine.
    platform: Platform,
    /// Of values that are the same numbers in the same places, those they are.
    aliases: FxHashMap<ValueId, ValueId>,
}

impl Network {
    /// The layers of a graph without the nodes that are refused; those of `apart` are not computed in the
    /// kernels of products before them.
    pub(super) fn new(
        graph: &Graph,
        refused: &Refused,
        (precision, arch): (Precision, &DpasArch),
        apart: &FxHashSet<NodeId>,
    ) -> Network {
        let mut walk = Walk {
            graph,
            refused,
            apart,
            consumers: graph.consumers(),
            taken: vec![false; graph.nodes().len()],
            network: Network::empty(precision, arch.platform),
        };
        walk.enter_floats();
        for (id, node) in graph.nodes() {
            if !walk.taken[id.index()]
                && let Err(reason) = walk.visit(id, node)
            {
                walk.network.reasons.insert(id, reason);
            }
        }
        walk.network
    }

    fn empty(precision: Precision, platform: Platform) -> Network {
        Network {
            layers: Vec::new(),
            forms: FxHashMap::default(),
            reasons: FxHashMap::default(),
            precision,
            platform,
            aliases: FxHashMap::default(),
        }
    }

    /// The names of every layer's nodes, for the golden model.
    pub(super) fn numerics(&self, graph: &Graph) -> Numerics {
        let names = |(layer, nodes): (&Layer, &[NodeId])| {
            let names = nodes.iter().map(|&node| graph[node].name.as_str());
            let mut layer_json = serde_json::json!({ "nodes": names.collect::<Vec<_>>() });
            if let Numbers::Floats(element) = self.forms[&layer.output].numbers {
                layer_json["stored"] = stored(element).into();
                // An image that is multiplied at once goes position by position.
                let input = layer.inputs.first().and_then(|input| self.forms.get(input));
                if let (Operation::Product(_), Some(Form { view: View::Flat, extents, .. })) =
                    (&layer.operation, input)
                    && nodes.first() == layer.nodes.first()
                {
                    layer_json["channels"] = extents[2].into();
                }
            }
            if layer.operation == Operation::Softmax {
                layer_json["lanes"] = self.platform.lanes().into();
            }
            layer_json
        };
        let groups = |layer| Layer::groups(layer).map(move |nodes| (layer, nodes));
        let layers: Vec<serde_json::Value> =
            self.layers.iter().flat_map(groups).map(names).collect();
        Numerics(serde_json::json!({ "precision": self.precision.name(), "layers": layers }))
    }

    /// The value whose memory a value has.
    pub(super) fn root(&self, value: ValueId) -> ValueId {
        self.aliases.get(&value).copied().unwrap_or(value)
    }
}

/// The name of a type of floats in numerics.
fn stored(element: Element) -> &'static str {
    match element {
        Element::Bf => "bf16",
        Element::Hf => "fp16",
        _ => "f32",
    }
}

struct Walk<'a> {
    graph: &'a Graph,
    refused: &'a Refused,
    apart: &'a FxHashSet<NodeId>,
    consumers: Vec<Vec<NodeId>>,
    taken: Vec<bool>,
    network: Network,
}

impl Walk<'_> {
    fn visit(&mut self, id: NodeId, node: &Node) -> Reason<()> {
        if let Some(reason) = self.refused.reason(id) {
            return Err(reason.to_owned());
        }
        match &node.op {
            Op::Quantise(_) if !self.is_int8() => Err("the kernels compute with floats".to_owned()),
            Op::Quantise(quantiser) if self.is_input(node) => self.enter(id, node, quantiser),
            Op::Quantise(_) => self.product(id, node, Frame::POINT),
            Op::Identity
            | Op::Flatten { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Gather { .. } => self.alias(id, node),
            Op::Conv(conv) => self.product(id, node, Frame::of(&conv.window)?),
            Op::Gemm(gemm) if gemm.transpose_a => Err("the left operand is transposed".to_owned()),
            Op::MatMul if self.is_value(node, 1) => self.joined(id, node),
            Op::Gemm(_) | Op::MatMul => self.product(id, node, Frame::POINT),
            Op::Pool(pool) => self.pool(id, node, pool),
            Op::GlobalAveragePool | Op::GlobalMaxPool => {
                let [rows, columns, _] = self.operand(node, 0)?.extents;
                let frame = Frame { kernel: [rows, columns], ..Frame::POINT };
                match node.op {
                    Op::GlobalMaxPool => self.largest(id, node, frame),
                    _ => self.product(id, node, frame),
                }
            }
            Op::Binary(Binary::Add) => self.add(id, node),
            Op::Softmax(softmax) => self.softmax(id, node, softmax),
            op if clip(op).is_some() => self.product(id, node, Frame::POINT),
            Op::Binary(_) if self.is_value(node, 0) && self.factor(node).is_some() => {
                self.product(id, node, Frame::POINT)
            }
            other => Err(format!("{} has no kernel", other.name())),
        }
    }

    /// Inputs of a network of floats enter as such.
    fn enter_floats(&mut self) {
        let Some(element) = self.network.precision.element() else { return };
        for &input in self.graph.inputs() {
            // What cannot enter has no form, which its readers tell.
            let _ = self.enter_as(input, Numbers::Floats(element));
        }
    }

    /// A value of the graph's input or of the host enters as these numbers.
    fn enter_as(&mut self, value: ValueId, numbers: Numbers) -> Reason<Form> {
        let form = Form::of(&self.graph[value].shape, numbers, self.entering_view(value))?;
        self.network.forms.insert(value, form);
        self.network.layers.push(Layer {
            nodes: Vec::new(),
            operation: Operation::Enter,
            inputs: vec![value],
            output: value,
            clip: NO_CLIP,
            product: None,
            added: None,
            pooled: None,
        });
        Ok(form)
    }

    /// How an entering value is seen: its channels are the last axis for products of matrices that it
    /// leads to, else the second one.
    fn entering_view(&self, value: ValueId) -> View {
        let (mut values, mut seen) = (vec![value], FxHashSet::default());
        let mut is_matrix = self.consumers[value.index()].is_empty();
        while let Some(value) = values.pop() {
            for &reader in &self.consumers[value.index()] {
                let node = &self.graph[reader];
                match &node.op {
                    Op::Conv(_) | Op::Pool(_) | Op::GlobalAveragePool | Op::GlobalMaxPool => {
                        return View::Second;
                    }
                    Op::MatMul | Op::Gemm(_) | Op::Transpose { .. } => is_matrix = true,
                    op if is_each(op)
                        || matches!(
                            op,
                            Op::Identity
                                | Op::Softmax(_)
                                | Op::Reshape { .. }
                                | Op::Slice { .. }
                                | Op::Gather { .. }
                        ) =>
                    {
                        values.extend(seen.insert(reader).then_some(node.output));
                    }
                    _ => {}
                }
            }
        }
        if is_matrix { View::Last } else { View::Second }
    }

    fn is_int8(&self) -> bool {
        self.network.precision == Precision::Int8
    }

    /// An operand is neither constant nor missing.
    fn is_value(&self, node: &Node, operand: usize) -> bool {
        node.input(operand).is_some_and(|value| self.graph[value].constant.is_none())
    }

    fn is_input(&self, node: &Node) -> bool {
        node.input(0).is_some_and(|value| {
            let value = &self.graph[value];
            value.producer.is_none() && value.constant.is_none()
        })
    }

    /// The form of an operand that is on the machine.
    fn form(&self, node: &Node, operand: usize) -> Reason<Form> {
        let id = node.input(operand).ok_or("an operand is missing")?;
        let form = self.network.forms.get(&id).copied();
        form.ok_or_else(|| match &self.graph[id] {
            value if value.constant.is_some() => "an operand is constant".to_owned(),
            value if value.producer.is_none() => "its input is not quantised".to_owned(),
            value => format!("its input \"{}\" is on the host", value.name),
        })
    }

    /// The form of an operand of a node that computes enough for a value of the host to enter for it.
    fn operand(&mut self, node: &Node, operand: usize) -> Reason<Form> {
        let missing = match self.form(node, operand) {
            Ok(form) => return Ok(form),
            Err(missing) => missing,
        };
        let id = node.input(operand).ok_or("an operand is missing")?;
        let value = &self.graph[id];
        if value.producer.is_none() {
            return Err(missing);
        }
        let numbers = match (self.network.precision.element(), self.graph.grid(id)) {
            (Some(element), _) if value.dtype == DType::F32 => Ok(Numbers::Floats(element)),
            (Some(_), _) => Err("its elements are no floats".to_owned()),
            (None, Some(grid)) => Codes::of(grid).map(Numbers::Codes),
            (None, None) => Err("nothing quantises it".to_owned()),
        };
        let form = numbers.and_then(|numbers| self.enter_as(id, numbers));
        form.map_err(|reason| format!("{missing}: {reason}"))
    }

    /// An input enters.
    fn enter(&mut self, id: NodeId, node: &Node, quantiser: &Quantiser) -> Reason<()> {
        let codes = Codes::of(quantiser)?;
        let shape = &self.graph[node.output].shape;
        let form = Form::of(shape, Numbers::Codes(codes), self.entering_view(node.output))?;
        let tail = self.alone(id);
        self.push(tail, Operation::Enter, node, form, None)
    }

    /// The same numbers under another shape.
    fn alias(&mut self, id: NodeId, node: &Node) -> Reason<()> {
        let form = self.form(node, 0)?;
        let input = node.input(0).ok_or("an operand is missing")?;
        let (from, to) = (&self.graph[input].shape, &self.graph[node.output].shape);
        let [h, w, c] = form.extents;
        let keeps = matches!(node.op, Op::Identity | Op::Flatten { .. } | Op::Reshape { .. });
        if to.contains(&0) {
            return Err("a value without elements".to_owned());
        }
        let view = match (form.view, &to[..]) {
            _ if from == to && keeps => form.view,
            (View::Last | View::Steps(_), _) => {
                let axes = form.axes(from).and_then(|axes| self.moved(node, axes));
                let axes = axes.ok_or("its axes have no steps of their own in memory")?;
                let is_last = Axes::channels_last(to).is_some_and(|last| axes.are(&last, to));
                let is_all = to.iter().product::<usize>() == h * w * c;
                match is_last && is_all && to.last() == Some(&c) {
                    true => View::Last,
                    false => View::Steps(axes),
                }
            }
            _ if !keeps => {
                return Err("it changes the order of elements in memory".to_owned());
            }
            (View::Second, &[n, k]) if n == form.images && k == h * w * c => match h * w {
                1 => View::Second,
                _ => View::Flat,
            },
            (View::Second, &[n, k, ref ones @ ..])
                if n == form.images && k == c && h * w == 1 && ones.iter().all(|&one| one == 1) =>
            {
                View::Second
            }
            _ => return Err("it changes the order of elements in memory".to_owned()),
        };
        let is_dense = |&reader: &NodeId| matches!(self.graph[reader].op, Op::MatMul | Op::Gemm(_));
        let readers = &self.consumers[node.output.index()];
        let ends = self.graph.outputs().contains(&node.output);
        if view == View::Flat && (ends || !readers.iter().all(is_dense)) {
            return Err("an image is flattened for something else than a product".to_owned());
        }
        let root = self.network.root(input);
        let tail = self.alone(id);
        self.network.aliases.insert(tail.output, root);
        self.push(tail, Operation::Alias, node, Form { view, ..form }, None)
    }

    /// The axes of a node's result, which is the same memory as its operand.
    fn moved(&self, node: &Node, axes: Axes) -> Option<Axes> {
        let from = &self.graph[node.input(0)?].shape;
        match &node.op {
            Op::Transpose { order } => Some(axes.transposed(order)),
            Op::Slice { ranges } => ranges.iter().try_fold(axes, |axes, range| {
                let (start, _) = range.resolve(from[range.axis]);
                Some(axes.sliced(range.axis, start, usize::try_from(range.step).ok()?))
            }),
            Op::Gather { axis } => {
                let index = &self.graph[node.input(1)?];
                let [number] = index.constant.as_ref()?.tensor.to_i64()?[..] else { return None };
                let extent = i64::try_from(from[*axis]).ok()?;
                let number = if number < 0 { number + extent } else { number };
                let start = usize::try_from(number).ok().filter(|&start| start < from[*axis])?;
                index.shape.is_empty().then_some(())?;
                Some(axes.sliced(*axis, start, 1).without(*axis))
            }
            _ => axes.reshaped(from, &self.graph[node.output].shape),
        }
    }

    fn pool(&mut self, id: NodeId, node: &Node, pool: &Pool) -> Reason<()> {
        let frame = Frame::of(&pool.window)?;
        let shape = |value: ValueId| self.graph[value].shape.iter().skip(2).copied();
        let sides = node.input(0).into_iter().flat_map(shape).zip(shape(node.output));
        let is_empty = |(axis, (inputs, outputs)): (usize, (usize, usize))| {
            (0..outputs).any(|output| pool.window.taps(axis, output, inputs).is_empty())
        };
        if sides.enumerate().any(is_empty) {
            return Err("one of its windows has no elements".to_owned());
        }
        match pool.kind {
            PoolKind::Max => self.largest(id, node, frame),
            PoolKind::Average { .. } => self.product(id, node, frame),
        }
    }

    fn largest(&mut self, id: NodeId, node: &Node, frame: Frame) -> Reason<()> {
        let form = self.form(node, 0)?;
        self.check_operand(&form)?;
        let shape = &self.graph[node.output].shape;
        let result = Form::of(shape, form.numbers, View::Second)?;
        if form.view != View::Second {
            return Err("its operand is no image".to_owned());
        }
        let frame = self.grown(frame, &form, &result);
        let is_lowest = form.codes().is_ok_and(|codes| codes.zero == codes.range()[0]);
        if (frame.before, frame.behind) != ([0, 0], [0, 0]) && !is_lowest {
            return Err("its padding would win: zero is not the lowest number".to_owned());
        }
        let tail = self.alone(id);
        self.push(tail, Operation::Largest(frame), node, result, None)
    }

    /// A frame with as much padding behind as the result needs, which can be more than is declared
    /// (extents rounded up) or less.
    fn grown(&self, frame: Frame, form: &Form, result: &Form) -> Frame {
        let behind = [0, 1].map(|axis| {
            let reach = (result.extents[axis] - 1) * frame.stride[axis]
                + (frame.kernel[axis] - 1) * frame.dilate[axis]
                + 1;
            reach.saturating_sub(frame.before[axis] + form.extents[axis])
        });
        Frame { behind, ..frame }
    }

    /// Sums of products with constants.
    fn product(&mut self, id: NodeId, node: &Node, frame: Frame) -> Reason<()> {
        let form = match is_each(&node.op) {
            true => self.form(node, 0)?,
            false => self.operand(node, 0)?,
        };
        self.check_operand(&form)?;
        let mut tail = self.tail(id);
        match &node.op {
            Op::Quantise(quantiser) => {
                tail = Tail { codes: Some(Codes::of(quantiser)?), ..self.alone(id) };
            }
            op => {
                tail.clip = clip(op).unwrap_or(tail.clip);
                tail.factor = self.factor(node).or(tail.factor);
            }
        }
        let numbers = self.numbers_of(&tail);
        let shape = &self.graph[tail.output].shape;
        let mut frame = frame;
        let mut result = match &node.op {
            Op::MatMul | Op::Gemm(_) => Form::of(shape, numbers, View::Last)?,
            op if is_each(op) => Form { numbers, ..form },
            _ => Form::of(shape, numbers, View::Second)?,
        };
        match (&node.op, form.view) {
            // An image is multiplied at once; its rows are then the only positions.
            (Op::MatMul | Op::Gemm(_), View::Flat) => {
                let [h, w, _] = form.extents;
                frame = Frame { kernel: [h, w], ..Frame::POINT };
                result = Form { images: form.images, extents: [1, 1, result.extents[2]], ..result };
                result.view = View::Second;
            }
            (Op::MatMul | Op::Gemm(_), View::Second) if shape.len() == 2 => {
                result = Form { images: form.images, extents: [1, 1, result.extents[2]], ..result };
                result.view = View::Second;
            }
            (Op::MatMul | Op::Gemm(_), View::Last) => {}
            (Op::MatMul | Op::Gemm(_), View::Second) => {
                return Err("it multiplies along an axis that is not innermost".to_owned());
            }
            (Op::MatMul | Op::Gemm(_), View::Steps(_)) => {
                return Err("its operand's last axis is not the channels in memory".to_owned());
            }
            (_, View::Flat) => return Err("its operand is a flattened image".to_owned()),
            (op, View::Last | View::Steps(_)) if !is_each(op) => {
                return Err("its operand is no image".to_owned());
            }
            _ => {}
        }
        let frame = self.grown(frame, &form, &result);
        let mut product = weights::product(self.graph, node, tail.bias, &form, &frame)?;
        if let Some(factor) = tail.factor {
            product.times(factor.real());
            for sum in &mut product.sums {
                factor.scale(sum)?;
            }
        }
        if numbers == Numbers::Sums {
            if clip(&node.op).is_some()
                || !matches!(node.op, Op::Conv(_) | Op::Gemm(_) | Op::MatMul)
            {
                return Err("nothing quantises its result".to_owned());
            }
            if !self.graph.outputs().contains(&tail.output)
                || !self.consumers[tail.output.index()].is_empty()
            {
                return Err("its sums are neither quantised nor an output".to_owned());
            }
        }
        let (tail, result) = self.with_sum(tail, result);
        let (tail, result, frame) = self.with_pool(tail, (result, frame));
        self.push(tail, Operation::Product(frame), node, result, Some(product))
    }

    /// A product of this form with the sum of its results, of at most 16 bits, and a value that another
    /// kernel has computed before, if nothing else reads the results; else as it is.
    fn with_sum(&self, tail: Tail, result: Form) -> (Tail, Form) {
        match self.sum_of(&tail, result) {
            Some((sum, form)) => {
                let nodes = tail.nodes.into_iter().chain(sum.nodes).collect();
                (Tail { nodes, ..sum }, form)
            }
            None => (tail, result),
        }
    }

    fn sum_of(&self, tail: &Tail, result: Form) -> Option<(Tail, Form)> {
        let reader = self.only_reader(tail.output).filter(|_| result.numbers.size() <= 2);
        let (id, sum) = reader.filter(|(_, node)| node.op == Op::Binary(Binary::Add))?;
        let is_second = sum.input(1) == Some(tail.output);
        let value = sum.input(usize::from(!is_second))?;
        let root = self.network.root(value);
        let enters = |layer: &Layer| layer.operation == Operation::Enter && layer.output == root;
        let is_computed = !self.network.layers.iter().any(enters);
        let own = *self.network.forms.get(&value).filter(|_| is_computed)?;
        let forms = if is_second { [own, result] } else { [result, own] };
        let (nodes, numbers, clip) = (tail.nodes.len(), result.numbers, tail.clip);
        let added = Some(Added { value, nodes, numbers, clip, is_second });
        let tail = Tail { added, ..self.tail(id) };
        self.sum_form(&forms, &tail).ok().map(|form| (tail, form))
    }

    /// A product with the maximum of its results in windows that do not overlap, if nothing else reads the
    /// results; else as it is.
    fn with_pool(&self, tail: Tail, (result, frame): (Form, Frame)) -> (Tail, Form, Frame) {
        match self.pool_of(&tail, result) {
            Some((id, pooled, form)) => {
                let output = self.graph[id].output;
                let nodes = tail.nodes.into_iter().chain([id]).collect();
                let by = |axis: usize| frame.stride[axis] * pooled.kernel[axis];
                let pooled = Pooled { stride: frame.stride, ..pooled };
                let frame = Frame { stride: [by(0), by(1)], ..frame };
                (Tail { nodes, output, pooled: Some(pooled), ..tail }, form, frame)
            }
            None => (tail, result, frame),
        }
    }

    fn pool_of(&self, tail: &Tail, result: Form) -> Option<(NodeId, Pooled, Form)> {
        let is_narrow = result.view == View::Second && result.numbers != Numbers::Sums;
        let is_own = tail.added.is_none() && is_narrow;
        let reader = self.only_reader(tail.output).filter(|_| is_own);
        let (id, node) = reader.filter(|(id, _)| !self.apart.contains(id))?;
        let Op::Pool(Pool { kind: PoolKind::Max, window, .. }) = &node.op else { return None };
        let own = Frame::of(window).ok()?;
        let form = Form::of(&self.graph[node.output].shape, result.numbers, View::Second).ok()?;
        let fits = |axis: usize| {
            let windows = form.extents[axis] * own.kernel[axis];
            own.stride[axis] == own.kernel[axis] && windows <= result.extents[axis]
        };
        let is_plain = (own.before, own.dilate) == ([0, 0], [1, 1]) && fits(0) && fits(1);
        let pooled = Pooled { nodes: tail.nodes.len(), kernel: own.kernel, stride: own.stride };
        (is_plain && own.kernel != [1, 1]).then_some((id, pooled, form))
    }

    fn add(&mut self, id: NodeId, node: &Node) -> Reason<()> {
        self.form(node, 0).or_else(|_| self.form(node, 1))?;
        let forms = [self.operand(node, 0)?, self.operand(node, 1)?];
        let tail = self.tail(id);
        let form = self.sum_form(&forms, &tail)?;
        self.push(tail, Operation::Add, node, form, None)
    }

    fn softmax(&mut self, id: NodeId, node: &Node, softmax: &Softmax) -> Reason<()> {
        let form = self.form(node, 0)?;
        self.check_operand(&form)?;
        let channels = match form.view {
            View::Second => Some(1),
            View::Last => Some(self.graph[node.output].shape.len() - 1),
            View::Flat | View::Steps(_) => None,
        };
        if channels != Some(softmax.axis) {
            return Err("its axis is not innermost in memory".to_owned());
        }
        if softmax.log {
            return Err("LogSoftmax has no kernel".to_owned());
        }
        let tail = self.tail(id);
        let numbers = self.numbers_of(&tail);
        match (form.numbers, numbers) {
            (_, Numbers::Sums) => return Err("nothing quantises its result".to_owned()),
            (Numbers::Codes(from), Numbers::Codes(to)) => {
                let share = (1.0 / to.scale) as f32;
                if tail.clip != NO_CLIP {
                    return Err("its result is kept between ends".to_owned());
                }
                if !kernel::softmax::exponent(from.scale as f32).is_normal() || !share.is_normal() {
                    return Err("the grid of its operand or result is too far from 1".to_owned());
                }
            }
            _ => {}
        }
        self.push(tail, Operation::Softmax, node, Form { numbers, ..form }, None)
    }

    /// The form of the sum of two values.
    fn sum_form(&self, forms: &[Form; 2], tail: &Tail) -> Reason<Form> {
        for form in forms {
            self.check_operand(form)?;
        }
        let same =
            |a: &Form, b: &Form| (a.images, a.extents, a.view) == (b.images, b.extents, b.view);
        if !same(&forms[0], &forms[1]) || forms[0].view == View::Flat {
            return Err("its operands have different extents".to_owned());
        }
        if !self.is_int8() {
            return Ok(forms[0]);
        }
        let Some(codes) = tail.codes else {
            return Err("nothing quantises its result".to_owned());
        };
        if tail.clip[1] != f64::INFINITY || (tail.clip[0] != 0.0 && tail.clip[0].is_finite()) {
            return Err("its result is kept between other ends than those of ReLU".to_owned());
        }
        if forms.iter().any(|form| {
            let factor = form.codes().map_or(0.0, |own| (own.scale / codes.scale) as f32);
            !factor.is_normal()
        }) {
            return Err("the grids of its operands are too far from that of its result".to_owned());
        }
        Ok(Form { numbers: Numbers::Codes(codes), ..forms[0] })
    }

    fn push(
        &mut self,
        tail: Tail,
        operation: Operation,
        node: &Node,
        form: Form,
        product: Option<Product>,
    ) -> Reason<()> {
        let Tail { nodes, clip, output, added, pooled, .. } = tail;
        nodes.iter().for_each(|node| self.taken[node.index()] = true);
        self.network.forms.insert(output, form);
        let operands = match operation {
            Operation::Add | Operation::Joined(_) => 2,
            _ => 1,
        };
        let inputs = (0..operands).filter_map(|at| node.input(at));
        let inputs = inputs.chain(added.map(|added| added.value)).collect();
        self.network.layers.push(Layer {
            nodes,
            operation,
            inputs,
            output,
            clip,
            product,
            added,
            pooled,
        });
        Ok(())
    }

    /// An operand has the numbers that kernels compute with.
    fn check_operand(&self, form: &Form) -> Reason<()> {
        match self.network.precision.element() {
            None => form.codes().map(drop),
            Some(element) if form.numbers == Numbers::Floats(element) => Ok(()),
            Some(_) => Err("an operand has another type".to_owned()),
        }
    }

    /// In which numbers a result is held: those of its quantiser, whole sums without; floats of 32
    /// bits where nothing reads them.
    fn numbers_of(&self, tail: &Tail) -> Numbers {
        let is_end = self.consumers[tail.output.index()].is_empty();
        match self.network.precision.element() {
            None => tail.codes.map_or(Numbers::Sums, Numbers::Codes),
            Some(_) if is_end => Numbers::Floats(Element::F),
            Some(element) => Numbers::Floats(element),
        }
    }
}
