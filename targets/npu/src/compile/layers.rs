//! The graph as layers of the machine: which nodes become one instruction's arithmetic, in which
//! numbers their values are held, and why the other nodes stay on the host.
//!
//! Ours. A layer is a node that computes, with the activation and the quantiser behind it, if
//! nothing else reads what lies between.

use super::functions::Function;
use super::products::Product;
use super::turns::{Turn, turn};
use super::weights;
use crate::ports::{Loop, View};
use crate::work::Extents;
use quincunx_contract::{Numerics, Refused};
use quincunx_graph::{
    Activation, Binary, ConvTranspose, Graph, LayerNorm, Node, NodeId, Op, Pool, PoolKind,
    Quantiser, Resize, ResizeTaps, Unary, ValueId, Window,
};
use quincunx_num::{Overflow, Rounding};
use rustc_hash::FxHashMap;

/// How the machine holds a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Grid {
    /// Signed codes of 8 bits: `(code - zero) * scale`.
    Codes {
        /// Distance between two codes.
        scale: f64,
        /// The code of 0, from -128 to 127.
        zero: i32,
    },
    /// IEEE half precision.
    Half,
}

/// A value on the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Form {
    /// Images of the batch.
    pub(crate) images: u32,
    /// Channels, rows and columns.
    pub(crate) extents: Extents,
    /// Its numbers.
    pub(crate) grid: Grid,
    /// Where its numbers lie, in the order of the graph. Shapes do not matter: a value of another
    /// shape with the same numbers in the same order has the same view.
    pub(crate) view: View,
}

impl Form {
    /// The same positions with other channels, where those of a value of this shape are its last
    /// axis; `None` where they are not.
    fn with_channels(self, shape: &[usize], channels: usize) -> Reason<Option<Form>> {
        let [c, h, w] = self.extents.map(|extent| extent as usize);
        let Some((last, axes)) = self.view.split(shape).and_then(|axes| {
            let (last, axes) = axes.split_last()?;
            Some((last.clone(), axes.concat()))
        }) else {
            return Ok(None);
        };
        let innermost: &[Loop] = if c == 1 { &[] } else { &[(c as u64, 1)] };
        if last != innermost {
            return Ok(None);
        }
        self::shape(&[self.images as usize, channels, h, w])?;
        let position = |(extent, step): Loop| (extent, step / c as u64 * channels as u64);
        let loops: Vec<Loop> =
            axes.into_iter().map(position).chain([(channels as u64, 1)]).collect();
        let view = View::new(&loops).ok_or("its numbers lie in too many loops")?;
        Ok(Some(Form { extents: [channels, h, w].map(|extent| extent as u32), view, ..self }))
    }

    /// Whether an axis of a value of this shape is that of its channels.
    fn is_channels(&self, shape: &[usize], axis: usize) -> bool {
        let c = self.extents[0];
        let innermost: &[Loop] = if c == 1 { &[] } else { &[(c.into(), 1)] };
        let axes = self.view.split(shape);
        axes.is_some_and(|axes| axes.get(axis).is_some_and(|axis| axis[..] == *innermost))
    }

    /// The axis of the channels.
    pub(crate) fn channel_axis(&self, shape: &[usize]) -> Option<usize> {
        (0..shape.len()).find(|&axis| self.is_channels(shape, axis))
    }

    /// A value of shape `[N, C, H, W]`.
    fn image(images: u32, extents: Extents, grid: Grid) -> Form {
        let [c, h, w] = extents;
        Form { images, extents, grid, view: View::image([images, c, h, w]) }
    }

    /// The same memory as images of shape `[N, C, H, W]` or `[N, C]`, if that is what it holds.
    fn as_image(self, shape: &[usize]) -> Reason<Form> {
        let (images, extents) = self::shape(shape)?;
        let image = Form::image(images, extents, self.grid);
        let same = (image.images, image.extents[0], image.view)
            == (self.images, self.extents[0], self.view);
        same.then_some(image)
            .ok_or_else(|| "an operand lies in memory as an image of other extents".to_owned())
    }
}

impl Form {
    /// The same memory as tokens of shape `[N, T, C]`, if that is what it holds.
    fn as_tokens(self, shape: &[usize]) -> Option<Form> {
        let [n, _, c] = *shape else { return None };
        let tokens = entering(shape, self.grid, true).ok()?;
        let same = (n, c) == (self.images as usize, self.extents[0] as usize);
        (same && tokens.view == self.view).then_some(tokens)
    }
}

/// What follows the sum of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    /// Nothing.
    None,
    /// Negative numbers become 0.
    Relu,
    /// Negative numbers are multiplied.
    Leaky(f32),
    /// Numbers are kept between 0 and this.
    Cap(f32),
}

/// Window of a convolution or pooling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Frame {
    /// Rows and columns of the kernel.
    pub(crate) kernel: [u32; 2],
    /// Strides.
    pub(crate) stride: [u32; 2],
    /// Distances of kernel points.
    pub(crate) dilate: [u32; 2],
    /// Distances of input points, between which zeros are inserted.
    pub(crate) insert: [u32; 2],
    /// First input row and column: minus the padding.
    pub(crate) start: [i32; 2],
}

impl Frame {
    pub(crate) const POINT: Frame =
        Frame { kernel: [1, 1], stride: [1, 1], dilate: [1, 1], insert: [1, 1], start: [0, 0] };

    fn of(window: &Window) -> Frame {
        let pair = |list: &[usize]| [list[0] as u32, list[1] as u32];
        Frame {
            kernel: pair(&window.kernel),
            stride: pair(&window.strides),
            dilate: pair(&window.dilations),
            insert: [1, 1],
            start: [0, 1].map(|axis| -(window.pads[axis].0 as i32)),
        }
    }

    /// The window with which a turned kernel passes over an image with zeros between its points.
    fn transposed(conv: &ConvTranspose) -> Reason<Frame> {
        let window = &conv.window;
        if window.rank() != 2 {
            return Err(format!("{}-D convolution; the array has two axes", window.rank()));
        }
        if conv.groups > 1 || window.dilations.iter().any(|&distance| distance > 1) {
            return Err("it is transposed, and grouped or dilated".to_owned());
        }
        let plain = Frame::of(window);
        let start = [0, 1].map(|axis| -(plain.kernel[axis] as i32 - 1) - plain.start[axis]);
        if start.iter().any(|&start| start > 0) {
            return Err("its padding cuts off whole points of the image".to_owned());
        }
        Ok(Frame { stride: [1, 1], insert: plain.stride, start, ..plain })
    }
}

/// What a layer computes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operation {
    /// The driver moves an input of the program onto the grid.
    Enter,
    /// The same numbers in the same places.
    Alias,
    /// A convolution, or a product with weights.
    Conv {
        /// Window.
        frame: Frame,
        /// Groups of channels.
        groups: u32,
    },
    /// Products of matrices of two values.
    Product(Product),
    /// The same numbers with other axes innermost.
    Turn(Turn),
    /// A reduction of windows.
    Pool {
        /// Window.
        frame: Frame,
        /// The largest; otherwise the mean.
        largest: bool,
    },
    /// The sum of two values.
    Add,
    /// The difference of two values.
    Subtract,
    /// The product of two values, element by element.
    Multiply,
    /// A function of a value.
    Function(Function),
    /// The same numbers on another grid.
    Copy,
    /// The same numbers as some channels of the result.
    Slice {
        /// The first of these channels.
        first: u32,
        /// The result is complete with them.
        is_last: bool,
    },
    /// Every row and column this often.
    Enlarge {
        /// How often.
        factors: [u32; 2],
    },
}

impl Operation {
    /// It is an instruction on two values.
    pub(crate) fn has_two(&self) -> bool {
        matches!(self, Operation::Add | Operation::Subtract | Operation::Multiply)
    }
}

/// A layer.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// Its nodes, in graph order.
    pub(crate) nodes: Vec<NodeId>,
    /// What it computes.
    pub(crate) operation: Operation,
    /// Its operands on the machine; of [`Operation::Enter`] the graph's input.
    pub(crate) inputs: Vec<ValueId>,
    /// Its result: that of the last node.
    pub(crate) output: ValueId,
    /// What follows the sum.
    pub(crate) act: Act,
}

/// A graph as layers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network {
    /// Layers, in graph order of their first nodes.
    pub(crate) layers: Vec<Layer>,
    /// The values on the machine.
    pub(crate) forms: FxHashMap<ValueId, Form>,
    /// Numbers of every channel, of single precision, that layers read as operands.
    pub(crate) constants: Vec<ValueId>,
    /// For every node that no layer has, why.
    pub(crate) reasons: FxHashMap<NodeId, String>,
    /// Which instructions are used.
    pub(crate) subset: Subset,
    /// Of values that are the same numbers in the same places, those they are.
    aliases: FxHashMap<ValueId, ValueId>,
}

/// Which instructions programs consist of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Subset {
    /// All of them.
    #[default]
    Full,
    /// Those that published programs have: inputs are of half precision, and quantised by the vector
    /// queue.
    Published,
}

impl Network {
    /// The layers of a graph without the nodes that are refused.
    pub(crate) fn new(graph: &Graph, refused: &Refused, subset: Subset) -> Network {
        let consumers = graph.consumers();
        let mut walk = Walk {
            graph,
            refused,
            consumers,
            taken: vec![false; graph.nodes().len()],
            entered: FxHashMap::default(),
            network: Network { subset, ..Network::default() },
        };
        for (id, node) in graph.nodes() {
            if walk.taken[id.index()] {
                continue;
            }
            if let Err(reason) = walk.visit(id, node) {
                walk.network.reasons.insert(id, reason);
            }
        }
        walk.network
    }

    /// The names of every layer's nodes, for the golden model.
    pub(crate) fn numerics(&self, graph: &Graph) -> Numerics {
        let names = |layer: &Layer| {
            let nodes: Vec<&str> =
                layer.nodes.iter().map(|&node| graph[node].name.as_str()).collect();
            serde_json::json!({ "nodes": nodes })
        };
        let named = self.layers.iter().filter(|layer| !layer.nodes.is_empty());
        let layers: Vec<serde_json::Value> = named.map(names).collect();
        let mut numerics = serde_json::json!({ "layers": layers });
        if self.subset == Subset::Published {
            numerics["half_inputs"] = true.into();
        }
        Numerics(numerics)
    }

    /// The layer that makes a value, looking through aliases.
    pub(crate) fn root(&self, value: ValueId) -> ValueId {
        self.aliases.get(&value).copied().unwrap_or(value)
    }
}

pub(crate) type Reason<T> = Result<T, String>;

struct Walk<'a> {
    graph: &'a Graph,
    refused: &'a Refused,
    consumers: Vec<Vec<NodeId>>,
    taken: Vec<bool>,
    /// The quantiser with which an input of the program enters, and the value it becomes.
    entered: FxHashMap<ValueId, (Quantiser, ValueId)>,
    network: Network,
}

/// What follows a computing node, as far as it belongs to its layer.
struct Tail {
    nodes: Vec<NodeId>,
    act: Act,
    grid: Option<Grid>,
    output: ValueId,
}

/// Which activations an instruction has.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Array,
    /// The vector queue on single positions.
    Vector,
    /// The vector queue on windows.
    Window,
}

impl Walk<'_> {
    fn visit(&mut self, id: NodeId, node: &Node) -> Reason<()> {
        if let Some(reason) = self.refused.reason(id) {
            return Err(reason.to_owned());
        }
        match &node.op {
            Op::Quantise(quantiser) => self.quantise(id, node, quantiser),
            Op::Identity | Op::Flatten { .. } | Op::Reshape { .. } => self.alias(id, node, None),
            Op::Transpose { order } => self.alias(id, node, Some(order)),
            Op::Conv(conv) => {
                let window = &conv.window;
                if window.rank() != 2 {
                    return Err(format!("{}-D convolution; the array has two axes", window.rank()));
                }
                let form = self.image(node, 0)?;
                let (_, extents) = shape(&self.graph[node.output].shape)?;
                let result = Form::image(form.images, extents, form.grid);
                self.product(id, node, Frame::of(window), conv.groups as u32, result)
            }
            Op::ConvTranspose(conv) => {
                let frame = Frame::transposed(conv)?;
                let form = self.image(node, 0)?;
                let (_, extents) = shape(&self.graph[node.output].shape)?;
                self.product(id, node, frame, 1, Form::image(form.images, extents, form.grid))
            }
            Op::Gemm(gemm) if gemm.transpose_a => Err("the left operand is transposed".to_owned()),
            Op::MatMul if self.is_computed(node, 1) => self.matrices(id, node),
            Op::Gemm(_) | Op::MatMul => self.dense(id, node),
            Op::Pool(pool) => self.pool(id, node, pool),
            Op::GlobalMaxPool | Op::GlobalAveragePool => {
                let form = self.image(node, 0)?;
                let [_, rows, columns] = form.extents;
                let frame = Frame { kernel: [rows, columns], ..Frame::POINT };
                self.window(id, node, frame, node.op == Op::GlobalMaxPool)
            }
            Op::Binary(binary) => self.binary(id, node, *binary),
            Op::Concat { axis: 1 } => self.join(id, node),
            Op::Resize(resize) => self.enlarge(id, node, resize),
            Op::Unary(Unary::Relu) => {
                let form = self.form(node, 0)?;
                let tail = Tail { act: Act::Relu, ..self.tail(id, Unit::Vector, false)? };
                self.push(tail, Operation::Copy, node, 1, form, None)
            }
            Op::Unary(unary) => match function(*unary) {
                Some(function) => self.function(id, node, function),
                None => Err(no_form(&node.op)),
            },
            Op::Activation(activation) => self.activation(id, node, *activation),
            Op::Softmax(softmax) if !softmax.log => {
                self.over_channels(node, softmax.axis)?;
                self.function(id, node, Function::Softmax)
            }
            Op::LayerNorm(norm) => self.normalise(id, node, norm),
            other => Err(no_form(other)),
        }
    }

    /// The form of an operand.
    fn form(&self, node: &Node, operand: usize) -> Reason<Form> {
        let value = node.input(operand).ok_or("an operand is missing")?;
        if let Some(&form) = self.network.forms.get(&value)
            && self.graph[value].constant.is_none()
        {
            return Ok(form);
        }
        let name = &self.graph[value].name;
        Err(match self.graph[value].constant {
            Some(_) => format!("operand {name:?} is a constant"),
            None => format!(
                "its input {name:?} is not on the machine: no quantiser of 8 bits lies \
                             before it"
            ),
        })
    }

    /// The form of an operand that is an image.
    fn image(&self, node: &Node, operand: usize) -> Reason<Form> {
        let form = self.form(node, operand)?;
        form.as_image(node.input(operand).map_or(&[], |value| &self.graph[value].shape))
    }

    fn quantise(&mut self, id: NodeId, node: &Node, quantiser: &Quantiser) -> Reason<()> {
        let grid = codes(quantiser)?;
        let input = node.input(0).ok_or("an operand is missing")?;
        if let Some(&form) = self.network.forms.get(&input) {
            let tail =
                Tail { nodes: vec![id], act: Act::None, grid: Some(grid), output: node.output };
            return self.push(tail, Operation::Copy, node, 1, form, None);
        }
        let value = &self.graph[input];
        if value.constant.is_some() {
            return Err("it quantises a constant".to_owned());
        }
        let form = entering(&value.shape, grid, self.is_matrix(node.output))?;
        if let Some((other, first)) = self.entered.get(&input) {
            if other != quantiser {
                return Err("its input enters on the grid of another quantiser".to_owned());
            }
            let (inputs, operation) = (vec![*first], Operation::Alias);
            return self.place(id, node, operation, inputs, form);
        }
        if self.network.forms.values().any(|other| other.images != form.images) {
            return Err("its batch has another size than that of other inputs".to_owned());
        }
        self.entered.insert(input, (quantiser.clone(), node.output));
        if self.network.subset == Subset::Published {
            let form = Form { grid: Grid::Half, ..form };
            self.network.forms.insert(input, form);
            let (nodes, operation, act) = (Vec::new(), Operation::Enter, Act::None);
            let enter = Layer { nodes, operation, inputs: vec![input], output: input, act };
            self.network.layers.push(enter);
            let tail = Tail { nodes: vec![id], act, grid: Some(grid), output: node.output };
            return self.push(tail, Operation::Copy, node, 1, form, None);
        }
        self.place(id, node, Operation::Enter, vec![input], form)
    }

    /// A layer of one node whose form is known.
    fn place(
        &mut self,
        id: NodeId,
        node: &Node,
        operation: Operation,
        inputs: Vec<ValueId>,
        form: Form,
    ) -> Reason<()> {
        self.taken[id.index()] = true;
        if operation == Operation::Alias {
            let root = self.network.root(inputs[0]);
            self.network.aliases.insert(node.output, root);
        }
        self.network.forms.insert(node.output, form);
        let output = node.output;
        let layer = Layer { nodes: vec![id], operation, inputs, output, act: Act::None };
        self.network.layers.push(layer);
        Ok(())
    }

    /// The same numbers under another shape, or with their axes in another order.
    fn alias(&mut self, id: NodeId, node: &Node, order: Option<&[usize]>) -> Reason<()> {
        let form = self.form(node, 0)?;
        let input = node.input(0).ok_or("an operand is missing")?;
        let view = match order {
            None => Some(form.view),
            Some(order) => form.view.transposed(&self.graph[input].shape, order),
        };
        let view = view.ok_or("its axes cross those that its operand has in memory")?;
        let form = Form { view, ..form };
        let last = self.graph[node.output].shape.last().copied().unwrap_or(1);
        if order.is_some()
            && self.check_full().is_ok()
            && let Some((turn, result)) =
                turn(&form, last).filter(|(_, result)| self.wants(node, &form, result))
        {
            let tail = Tail { nodes: vec![id], act: Act::None, grid: None, output: node.output };
            return self.push(tail, Operation::Turn(turn), node, 1, result, Some(form.grid));
        }
        let shape = &self.graph[node.output].shape;
        let form = form.as_image(shape).ok().or(form.as_tokens(shape)).unwrap_or(form);
        self.place(id, node, Operation::Alias, vec![input], form)
    }

    /// Whether a reader of a transposed value can read it only when its numbers were moved.
    fn wants(&self, node: &Node, now: &Form, turned: &Form) -> bool {
        let shape = &self.graph[node.output].shape;
        let last = shape.len().wrapping_sub(1);
        let wants = |reader: &NodeId| {
            let reader = &self.graph[*reader];
            let axis = match &reader.op {
                Op::MatMul | Op::Gemm(_) if self.is_computed(reader, 1) => return false,
                Op::MatMul | Op::Gemm(_) => last,
                Op::Softmax(softmax) => softmax.axis,
                Op::LayerNorm(norm) => norm.axis,
                Op::Binary(_) => {
                    let memory = |form: &Form| (form.extents, form.view);
                    let mut others = reader.operands().filter(|&other| other != node.output);
                    let other = others.find_map(|other| self.network.forms.get(&other));
                    return other.is_some_and(|other| {
                        memory(other) == memory(turned) && memory(other) != memory(now)
                    });
                }
                _ => return false,
            };
            axis == last && !now.is_channels(shape, last) && turned.is_channels(shape, last)
        };
        self.consumers[node.output.index()].iter().any(wants)
    }

    fn dense(&mut self, id: NodeId, node: &Node) -> Reason<()> {
        let form = self.form(node, 0)?;
        let input = node.input(0).ok_or("an operand is missing")?;
        let (from, to) = (&self.graph[input].shape, &self.graph[node.output].shape);
        let (Some(&depth), Some(&outputs)) = (from.last(), to.last()) else {
            return Err("an operand is a number".to_owned());
        };
        let [c, rows, columns] = form.extents;
        // Every position is multiplied on its own, or all positions of an image together.
        if let Some(result) = form.with_channels(from, outputs)? {
            return self.product(id, node, Frame::POINT, 1, result);
        }
        let whole = u64::from(c) * u64::from(rows) * u64::from(columns);
        if depth as u64 != whole || image_order(&form).is_none() {
            return Err("its sums go over numbers of several positions in memory".to_owned());
        }
        let (_, extents) = shape(&[form.images as usize, outputs])?;
        let result = Form::image(form.images, extents, form.grid);
        self.product(id, node, Frame { kernel: [rows, columns], ..Frame::POINT }, 1, result)
    }

    /// Products of two values read it.
    fn is_matrix(&self, value: ValueId) -> bool {
        let mut readers = self.consumers[value.index()].iter().map(|&reader| &self.graph[reader]);
        readers.any(|node| node.op == Op::MatMul && self.is_computed(node, 1))
    }

    fn is_computed(&self, node: &Node, operand: usize) -> bool {
        node.input(operand).is_some_and(|value| self.graph[value].constant.is_none())
    }

    /// Products of matrices of two values.
    fn matrices(&mut self, id: NodeId, node: &Node) -> Reason<()> {
        if self.network.subset == Subset::Published {
            return Err("published programs reorder nothing (--subset published)".to_owned());
        }
        let forms = [self.form(node, 0)?, self.form(node, 1)?];
        let shape = |operand| node.input(operand).map_or(&[][..], |x| &self.graph[x].shape);
        let tail = self.tail(id, Unit::Array, true)?;
        // What is transposed next becomes slices of channels, as the operands of attention are.
        let readers = &self.consumers[tail.output.index()];
        let turns = readers.iter().any(|&r| matches!(self.graph[r].op, Op::Transpose { .. }));
        let grain = if tail.grid.is_some() { 8 } else { 4 };
        let operands = [(forms[0], shape(0)), (forms[1], shape(1))];
        let (product, result) = Product::new(operands, turns.then_some(grain))?;
        self.push(tail, Operation::Product(product), node, 2, result, None)
    }

    fn product(
        &mut self,
        id: NodeId,
        node: &Node,
        frame: Frame,
        groups: u32,
        result: Form,
    ) -> Reason<()> {
        let form = self.form(node, 0)?;
        if form.grid == Grid::Half {
            return Err(
                "its input is of half precision; the array takes codes of 8 bits".to_owned()
            );
        }
        super::weights::check(self.graph, node)?;
        limits(&frame, 31)?;
        let special = u8::from(groups > 1) + u8::from(frame.dilate != [1, 1]);
        if special > 1 {
            return Err("it is both grouped and dilated".to_owned());
        }
        let bias = self.bias(node, &result);
        let mut tail = self.tail(bias.unwrap_or(id), Unit::Array, true)?;
        if bias.is_some() {
            tail.nodes.insert(0, id);
        }
        let unknown = special > 0
            || frame.insert != [1, 1]
            || matches!(tail.act, Act::Leaky(_) | Act::Cap(_));
        if self.network.subset == Subset::Published && unknown {
            return Err(
                "published programs have no such instruction (--subset published)".to_owned()
            );
        }
        self.push(tail, Operation::Conv { frame, groups }, node, 1, result, None)
    }

    /// The sum with a number for every channel that alone reads a product.
    fn bias(&self, node: &Node, result: &Form) -> Option<NodeId> {
        let (id, sum) = self.only_reader(node.output)?;
        let at = (0..2).find(|&at| self.constant(sum, at).is_some())?;
        let shape = &self.graph[sum.output].shape;
        let channels = result.extents[0] as usize;
        let fits = node.op == Op::MatMul
            && sum.op == Op::Binary(Binary::Add)
            && *shape == self.graph[node.output].shape
            && weights::of_channels(self.graph, sum, at, channels, shape.len() - 1).is_some();
        fits.then_some(id)
    }

    fn pool(&mut self, id: NodeId, node: &Node, pool: &Pool) -> Reason<()> {
        let window = &pool.window;
        if window.rank() != 2 {
            return Err(format!("pooling along {} axes; the machine has two", window.rank()));
        }
        if window.dilations.iter().any(|&distance| distance > 1) {
            return Err("its windows are dilated".to_owned());
        }
        let form = self.image(node, 0)?;
        let frame = Frame::of(window);
        let largest = pool.kind == PoolKind::Max;
        let (_, [_, rows, columns]) = shape(&self.graph[node.output].shape)?;
        let reach = |axis: usize, outputs: u32| {
            let last = i64::from(outputs - 1) * i64::from(frame.stride[axis]);
            i64::from(frame.start[axis]) + last + i64::from(frame.kernel[axis])
        };
        let [_, height, width] = form.extents;
        let empty = |axis: usize, outputs: u32, extent: u32| {
            let last = reach(axis, outputs) - i64::from(frame.kernel[axis]);
            frame.start[axis] + frame.kernel[axis] as i32 <= 0 || last >= extent.into()
        };
        if empty(0, rows, height) || empty(1, columns, width) {
            return Err("a window lies wholly in the padding".to_owned());
        }
        let inside = frame.start == [0, 0]
            && reach(0, rows) <= height.into()
            && reach(1, columns) <= width.into();
        if !largest && !inside {
            return Err("the mean of windows that reach into the padding".to_owned());
        }
        self.window(id, node, frame, largest)
    }

    fn window(&mut self, id: NodeId, node: &Node, frame: Frame, largest: bool) -> Reason<()> {
        let form = self.image(node, 0)?;
        limits(&frame, 63)?;
        let tail = self.tail(id, Unit::Window, !largest)?;
        let kept = (largest && tail.act == Act::None).then_some(form.grid);
        let (_, extents) = shape(&self.graph[node.output].shape)?;
        let result = Form::image(form.images, extents, form.grid);
        self.push(tail, Operation::Pool { frame, largest }, node, 1, result, kept)
    }

    /// Two operands, of which one may be constant, or for some axes have one number for all of
    /// another's.
    fn binary(&mut self, id: NodeId, node: &Node, binary: Binary) -> Reason<()> {
        if let Some(at) = (0..2).find(|&at| self.constant(node, at).is_some()) {
            return self.with_constant(id, node, binary, at);
        }
        let operation = match binary {
            Binary::Add => Operation::Add,
            Binary::Sub => Operation::Subtract,
            Binary::Mul => Operation::Multiply,
            _ => return Err(no_form(&node.op)),
        };
        let shape = &self.graph[node.output].shape;
        let is_whole = |at: usize| node.input(at).is_some_and(|x| self.graph[x].shape == *shape);
        let swaps = !is_whole(0) && operation != Operation::Subtract;
        let first = usize::from(swaps);
        let (form, other) = (self.form(node, first)?, self.form(node, 1 - first)?);
        let memory = |form: Form| (form.images, form.extents, form.view);
        let axes = match memory(form) == memory(other) && is_whole(1 - first) {
            true => Some(7),
            false => self.part(node, first),
        };
        if !is_whole(first)
            || axes.is_none()
            || (form.grid == Grid::Half) != (other.grid == Grid::Half)
        {
            return Err("its operands have different shapes or formats".to_owned());
        }
        if operation != Operation::Add || axes != Some(7) {
            self.check_full()?;
        }
        let tail = self.tail(id, Unit::Vector, true)?;
        self.push(tail, operation, node, 2, form, None)?;
        self.reads(|inputs| {
            if swaps {
                inputs.reverse()
            }
        });
        Ok(())
    }

    /// The bits of the axes along which an operand, an image, is as large as the other one.
    fn part(&self, node: &Node, whole: usize) -> Option<u8> {
        let (form, other) = (self.image(node, whole).ok()?, self.image(node, 1 - whole).ok()?);
        let rank = |at: usize| node.input(at).map(|x| self.graph[x].shape.len());
        let same = form.images == other.images && rank(0) == rank(1);
        axes(form.extents, other.extents).filter(|&axes| axes > 0 && same)
    }

    /// Changes what the newest layer reads.
    fn reads(&mut self, change: impl FnOnce(&mut Vec<ValueId>)) {
        if let Some(layer) = self.network.layers.last_mut() {
            change(&mut layer.inputs);
        }
    }

    /// What published programs do not have.
    fn check_full(&self) -> Reason<()> {
        match self.network.subset {
            Subset::Full => Ok(()),
            Subset::Published => {
                Err("published programs have no such instruction (--subset published)".to_owned())
            }
        }
    }

    /// One operand, number `at`, is constant: one number, or one for every channel.
    fn with_constant(&mut self, id: NodeId, node: &Node, binary: Binary, at: usize) -> Reason<()> {
        let form = self.form(node, 1 - at)?;
        let x = node.input(1 - at).ok_or("an operand is missing")?;
        let shape = &self.graph[x].shape;
        if *shape != self.graph[node.output].shape {
            return Err("its constant has more numbers than its other operand".to_owned());
        }
        let channels = form.extents[0] as usize;
        // Where channels are no axis, only one number fits.
        let axis = form.channel_axis(shape).unwrap_or(shape.len());
        let numbers = weights::of_channels(self.graph, node, at, channels, axis);
        let numbers = numbers.ok_or("its constant is not one finite number per channel")?;
        let uniform = numbers.iter().all(|&number| number == numbers[0]);
        let number = numbers[0] as f32;
        let limit = match binary {
            Binary::Max => Some(Function::Clip(Some(number), None)),
            Binary::Min => Some(Function::Clip(None, Some(number))),
            _ => None,
        };
        let affine = weights::affine(binary, at, numbers[0]);
        match (limit, affine) {
            (Some(function), _) if uniform => self.function(id, node, function)?,
            (_, Some((factor, addend))) if uniform => {
                let [factor, addend] = [factor, addend].map(|x| x.map(|x| x as f32));
                self.function(id, node, Function::Affine(factor, addend))?;
            }
            (None, Some(_)) => {
                self.check_full()?;
                if form.grid == Grid::Half {
                    return Err("its input is of half precision; the array takes codes of 8 bits"
                        .to_owned());
                }
                let tail = self.tail(id, Unit::Array, true)?;
                let (frame, groups) = (Frame::POINT, form.extents[0]);
                self.push(tail, Operation::Conv { frame, groups }, node, 1, form, None)?;
            }
            _ => return Err(format!("{} with these constants", no_form(&node.op))),
        }
        self.reads(|inputs| *inputs = vec![x]);
        Ok(())
    }

    fn constant(&self, node: &Node, operand: usize) -> Option<ValueId> {
        node.input(operand).filter(|&value| self.graph[value].constant.is_some())
    }

    fn activation(&mut self, id: NodeId, node: &Node, activation: Activation) -> Reason<()> {
        if let Some(act) = self::activation(&node.op, Unit::Vector) {
            let form = self.form(node, 0)?;
            let tail = Tail { act, ..self.tail(id, Unit::Vector, false)? };
            return self.push(tail, Operation::Copy, node, 1, form, None);
        }
        let (function, numbers) = match activation {
            Activation::LeakyRelu { alpha } => (Function::Leaky(alpha), [alpha, 0.0]),
            Activation::HardSigmoid { alpha, beta } => {
                (Function::HardSigmoid(alpha, beta), [alpha, beta])
            }
            Activation::Clip { min, max } if min.is_some() || max.is_some() => {
                (Function::Clip(min, max), [min.unwrap_or(0.0), max.unwrap_or(0.0)])
            }
            _ => return Err(no_form(&node.op)),
        };
        if numbers.iter().any(|number| !number.is_finite()) {
            return Err("its parameters are not finite".to_owned());
        }
        self.function(id, node, function)
    }

    /// A function on the vector queue.
    fn function(&mut self, id: NodeId, node: &Node, function: Function) -> Reason<()> {
        self.check_full()?;
        let operand = (0..2).find(|&operand| self.constant(node, operand).is_none());
        let form = self.form(node, operand.unwrap_or(0))?;
        let tail = self.tail(id, Unit::Vector, false)?;
        if !function.is_single() && form.grid == Grid::Half {
            return Err(
                "its input is of half precision; several instructions begin with codes of \
                        8 bits"
                    .to_owned(),
            );
        }
        let positions = form.extents[1..].iter().map(|&extent| u64::from(extent)).product::<u64>();
        let positions = positions * u64::from(form.images);
        if function.reduces() && positions > MAX_POSITIONS {
            return Err(format!(
                "it reduces the channels of {positions} positions one by one, of which at most \
                 {MAX_POSITIONS} are taken"
            ));
        }
        self.push(tail, Operation::Function(function), node, 1, form, None)
    }

    /// Whether an axis is that of the channels.
    fn over_channels(&self, node: &Node, axis: usize) -> Reason<()> {
        let shape = node.input(0).map_or(&[][..], |x| &self.graph[x].shape);
        match self.form(node, 0)?.is_channels(shape, axis) {
            true => Ok(()),
            false => Err("its axis is not that of the channels in memory".to_owned()),
        }
    }

    fn normalise(&mut self, id: NodeId, node: &Node, norm: &LayerNorm) -> Reason<()> {
        let shape = node.input(0).map_or(&[][..], |x| &self.graph[x].shape);
        self.over_channels(node, norm.axis)?;
        if norm.axis + 1 != shape.len() {
            return Err("it normalises more than the channels of a position".to_owned());
        }
        let form = self.form(node, 0)?;
        let (channels, epsilon) = (form.extents[0], norm.epsilon);
        if !(epsilon.is_finite() && epsilon > 0.0) || channels > 8191 {
            return Err("its epsilon is not positive, or it has more than 8191 channels".to_owned());
        }
        let (mut parameters, mut bounds) = (Vec::new(), [1.0, 0.0]);
        for at in (1..3).filter(|&at| node.input(at).is_some()) {
            let numbers = weights::of_channels(self.graph, node, at, channels as usize, norm.axis);
            let numbers = numbers.ok_or("a parameter is not one finite number per channel")?;
            bounds[at - 1] = numbers.iter().fold(0.0_f64, |most, number| most.max(number.abs()));
            parameters.extend(node.input(at));
        }
        let other = |value: &ValueId| {
            self.network.forms.get(value).is_some_and(|form| form.extents[0] != 2 * channels)
        };
        if parameters.iter().any(other) {
            return Err("a parameter is also one of another number of channels".to_owned());
        }
        let [factor, addend] = [1, 2].map(|at| node.input(at).is_some());
        self.function(id, node, Function::LayerNorm { epsilon, factor, addend, bounds })?;
        for &value in &parameters {
            // As halves of numbers of single precision.
            let extents = [2 * channels, 1, 1];
            self.network.forms.insert(value, Form { extents, grid: Grid::Half, ..form });
            if !self.network.constants.contains(&value) {
                self.network.constants.push(value);
            }
        }
        self.reads(|inputs| inputs.extend(parameters));
        Ok(())
    }

    /// Channels behind each other: a layer for each operand, of which the first has the nodes.
    fn join(&mut self, id: NodeId, node: &Node) -> Reason<()> {
        let tail = self.tail(id, Unit::Vector, false)?;
        let forms = (0..node.inputs.len()).map(|operand| self.image(node, operand));
        let forms = forms.collect::<Reason<Vec<Form>>>()?;
        let is_half = |form: &Form| form.grid == Grid::Half;
        let first = forms[0];
        if forms.iter().any(|form| is_half(form) != is_half(&first)) {
            return Err("its operands have different formats".to_owned());
        }
        let grain = if is_half(&first) { 4 } else { 8 };
        let inner = &forms[..forms.len() - 1];
        if inner.iter().any(|form| !form.extents[0].is_multiple_of(grain)) {
            return Err(format!("channels of an operand are no multiple of {grain}"));
        }
        let kept = forms.iter().all(|form| form.grid == first.grid).then_some(first.grid);
        let grid = tail.grid.or(kept).unwrap_or(Grid::Half);
        let (images, extents) = shape(&self.graph[node.output].shape)?;
        tail.nodes.iter().for_each(|node| self.taken[node.index()] = true);
        self.network.forms.insert(tail.output, Form::image(images, extents, grid));
        let mut nodes = tail.nodes;
        let mut first = 0;
        for (index, form) in forms.iter().enumerate() {
            let is_last = index + 1 == forms.len();
            self.network.layers.push(Layer {
                nodes: std::mem::take(&mut nodes),
                operation: Operation::Slice { first, is_last },
                inputs: node.input(index).into_iter().collect(),
                output: tail.output,
                act: Act::None,
            });
            first += form.extents[0];
        }
        Ok(())
    }

    fn enlarge(&mut self, id: NodeId, node: &Node, resize: &Resize) -> Reason<()> {
        let form = self.image(node, 0)?;
        let input = node.input(0).ok_or("an operand is missing")?;
        let (from, to) = (&self.graph[input].shape, &self.graph[node.output].shape);
        let mut factors = [1, 1];
        let whole = |axis: usize, index: usize| {
            let factor = to[axis] / from[axis].max(1);
            let taps = resize.taps(index, from[axis], to[axis]);
            let repeats = |(place, taps): (usize, &ResizeTaps)| taps[..] == [(place / factor, 1.0)];
            let fits = (1..=15).contains(&factor) && taps.iter().enumerate().all(repeats);
            fits.then_some(factor as u32)
        };
        for (index, &axis) in resize.axes.iter().enumerate() {
            match (axis, whole(axis, index)) {
                (2 | 3, Some(factor)) if from.len() == 4 => factors[axis - 2] = factor,
                (0 | 1, Some(1)) => {}
                _ => return Err("it does more than repeat rows and columns".to_owned()),
            }
        }
        let tail = self.tail(id, Unit::Vector, false)?;
        let (images, extents) = shape(to)?;
        let result = Form::image(images, extents, form.grid);
        self.push(tail, Operation::Enlarge { factors }, node, 1, result, Some(form.grid))
    }

    /// Adds a layer whose result is held as `result` is, but for its grid. Without a quantiser behind
    /// it, that is `kept` or half precision.
    fn push(
        &mut self,
        tail: Tail,
        operation: Operation,
        node: &Node,
        operands: usize,
        result: Form,
        kept: Option<Grid>,
    ) -> Reason<()> {
        let grid = tail.grid.or(kept).unwrap_or(Grid::Half);
        let form = |input| self.network.forms.get(&input);
        if node.input(0).and_then(form).is_some_and(|form| form.images != result.images) {
            return Err("it changes the number of images".to_owned());
        }
        tail.nodes.iter().for_each(|node| self.taken[node.index()] = true);
        self.network.forms.insert(tail.output, Form { grid, ..result });
        let inputs = (0..operands).filter_map(|index| node.input(index)).collect();
        let Tail { nodes, act, output, .. } = tail;
        self.network.layers.push(Layer { nodes, operation, inputs, output, act });
        Ok(())
    }

    /// The activation and the quantiser that only read the result of a node, and so on.
    fn tail(&self, id: NodeId, unit: Unit, acts: bool) -> Reason<Tail> {
        let output = self.graph[id].output;
        let mut tail = Tail { nodes: vec![id], act: Act::None, grid: None, output };
        while let Some((next, node)) = self.only_reader(tail.output) {
            match &node.op {
                Op::Quantise(quantiser) => match codes(quantiser) {
                    Ok(grid) => tail.grid = Some(grid),
                    Err(_) => break,
                },
                op if acts && tail.act == Act::None => match activation(op, unit) {
                    Some(Act::Cap(_)) if unit == Unit::Vector && self.check_full().is_err() => {
                        break;
                    }
                    Some(act) => tail.act = act,
                    None => break,
                },
                _ => break,
            }
            tail.nodes.push(next);
            tail.output = node.output;
            if tail.grid.is_some() {
                break;
            }
        }
        Ok(tail)
    }

    fn only_reader(&self, value: ValueId) -> Option<(NodeId, &Node)> {
        let [reader] = self.consumers[value.index()][..] else { return None };
        let free = !self.graph.outputs().contains(&value) && self.refused.reason(reader).is_none();
        let node = &self.graph[reader];
        // An operand that is read twice is read by more than one layer would pass on.
        let once = node.operands().filter(|&operand| operand == value).count() == 1;
        (free && once).then_some((reader, node))
    }
}

fn activation(op: &Op, unit: Unit) -> Option<Act> {
    match op {
        Op::Unary(Unary::Relu) => Some(Act::Relu),
        Op::Activation(Activation::LeakyRelu { alpha }) if unit == Unit::Array => {
            alpha.is_finite().then_some(Act::Leaky(*alpha))
        }
        Op::Activation(Activation::Clip { min: Some(min), max: Some(max) })
            if unit != Unit::Window && *min == 0.0 && *max > 0.0 && max.is_finite() =>
        {
            Some(Act::Cap(*max))
        }
        _ => None,
    }
}

/// For every number of an image in the order of a value, where it lies in memory; `None` where the
/// images do not follow one another.
pub(crate) fn image_order(form: &Form) -> Option<Vec<usize>> {
    let whole = form.extents.iter().map(|&extent| extent as usize).product::<usize>();
    let images = form.images as usize;
    let axes = form.view.split(&[images, whole])?;
    let outer: &[Loop] = if images == 1 { &[] } else { &[(images as u64, whole as u64)] };
    let view = (axes[0] == outer).then(|| View::new(&axes[1]))??;
    Some(view.places().map(|place| place as usize).collect())
}

/// How an input of this shape is held: one of three axes has its channels last, and one of four if
/// asked for.
fn entering(shape: &[usize], grid: Grid, last: bool) -> Reason<Form> {
    let [n, h, w, c] = match *shape {
        [n, t, c] => [n, t, 1, c],
        [n, h, w, c] if last => [n, h, w, c],
        _ => {
            let (images, extents) = self::shape(shape)?;
            return Ok(Form::image(images, extents, grid));
        }
    };
    let (images, extents) = self::shape(&[n, c, h, w])?;
    Ok(Form { images, extents, grid, view: View::dense((n * h * w * c) as u64) })
}

/// Positions of which channels are reduced in a layer: each takes four lines.
const MAX_POSITIONS: u64 = 1 << 13;

fn no_form(op: &Op) -> String {
    format!("{} has no form on this machine", op.name())
}

/// Functions of single numbers that have no attributes.
fn function(unary: Unary) -> Option<Function> {
    Some(match unary {
        Unary::Sigmoid => Function::Sigmoid,
        Unary::HardSwish => Function::HardSwish,
        Unary::Tanh => Function::Tanh,
        Unary::Erf => Function::Erf,
        Unary::Gelu => Function::Gelu,
        Unary::GeluTanh => Function::GeluTanh,
        Unary::Neg => Function::Affine(Some(-1.0), None),
        _ => return None,
    })
}

/// The bits of the axes along which a tensor is another one's size (channels 1, rows 4, columns 2),
/// if it has one number along the others.
pub(crate) fn axes(whole: Extents, part: Extents) -> Option<u8> {
    let mut axes = 0;
    for (bit, (whole, part)) in [1, 4, 2].into_iter().zip(whole.into_iter().zip(part)) {
        match (whole == part, part) {
            (true, _) => axes |= bit,
            (false, 1) => {}
            _ => return None,
        }
    }
    Some(axes)
}

/// Images and extents of a shape.
pub(crate) fn shape(shape: &[usize]) -> Reason<(u32, Extents)> {
    let [n, c, h, w] = match *shape {
        [n, c] => [n, c, 1, 1],
        [n, c, h, w] => [n, c, h, w],
        _ => {
            return Err(format!(
                "a tensor of rank {}; the machine has images of two axes",
                shape.len()
            ));
        }
    };
    let limits = [(n, 1 << 16), (c, 16_383), (h, 4095), (w, 4095)];
    if limits.iter().any(|&(extent, limit)| extent == 0 || extent > limit) {
        return Err(format!("extents {n}x{c}x{h}x{w} leave the fields of the instructions"));
    }
    Ok((n as u32, [c, h, w].map(|extent| extent as u32)))
}

/// A window that the fields of the instructions hold.
fn limits(frame: &Frame, kernel: u32) -> Reason<()> {
    let fits = frame.kernel.iter().all(|&extent| extent <= kernel)
        && frame.stride.iter().all(|&stride| stride <= 15)
        && frame.dilate.iter().chain(&frame.insert).all(|&distance| distance <= 15)
        && frame.start.iter().all(|&start| start >= -16);
    let [r, s] = frame.kernel;
    let fail =
        || format!("kernel {r}x{s}, its stride or padding leave the fields of the instructions");
    if fits { Ok(()) } else { Err(fail()) }
}

/// The signed codes of 8 bits that a quantiser gives.
fn codes(quantiser: &Quantiser) -> Reason<Grid> {
    let scalars = quantiser.is_uniform().then(|| quantiser.scalars(&[])).flatten();
    let Some([scalar]) = scalars.as_deref() else {
        return Err("its grid differs by channel".to_owned());
    };
    if scalar.width != 8 {
        return Err(format!("its codes have {} bits; the machine has 8", scalar.width));
    }
    if scalar.rounding != Rounding::HalfEven || scalar.overflow != Overflow::Saturate {
        return Err("it does not round half to even and saturate".to_owned());
    }
    let zero = scalar.zero as i32 - if scalar.signed { 0 } else { 128 };
    Ok(Grid::Codes { scale: scalar.scale, zero })
}
