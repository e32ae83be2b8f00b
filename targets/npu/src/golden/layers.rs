//! Layers of the machine: what nodes that are computed together mean.

use super::functions::Function;
use super::misfit;
use super::numbers::{Activation, Form, Grid, Number};
use super::pools::Pooling;
use super::products::{Matrices, Product};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Activation as Kind, Binary, Graph, Node, Op, Unary, ValueId};
use std::collections::BTreeMap;

/// What a node of the graph is for the machine.
pub(super) enum Step {
    /// The first node of a layer, with which all of it is computed.
    First {
        /// The layer.
        layer: Layer,
        /// It has no other node.
        is_last: bool,
    },
    /// Another node of a layer.
    Passed {
        /// The result is the layer's.
        is_last: bool,
    },
}

/// A layer.
pub(super) struct Layer {
    operation: Operation,
    /// The first operand that is no constant.
    reads: usize,
    activation: Activation,
    /// What its result is.
    pub(super) form: Form,
}

enum Operation {
    /// Real numbers go onto a grid before the machine sees them.
    Enter(Grid),
    /// The same numbers.
    Alias,
    /// The same numbers in another order: where each comes from.
    Order(Vec<usize>),
    /// The operand, to be rounded again.
    Copy,
    Product(Product),
    Function(Function),
    /// Products of the matrices of two values.
    Matrices(Matrices),
    Pool(Pooling),
    /// Operands behind each other: images, and elements of an image of each.
    Join(usize, Vec<usize>),
}

impl Layer {
    /// The layer that these nodes are, each of which reads the one before it.
    ///
    /// # Errors
    /// `Q4096` for nodes that are no layer of the machine.
    pub(super) fn new(
        graph: &Graph,
        nodes: &[&Node],
        forms: &BTreeMap<ValueId, Form>,
    ) -> Result<Layer> {
        let [first, rest @ ..] = nodes else { return Err(misfit("a layer has no nodes")) };
        let is_computed =
            |at: &usize| first.input(*at).is_some_and(|x| graph[x].constant.is_none());
        let reads = (0..first.inputs.len()).find(is_computed).unwrap_or(0);
        let x = form(graph, forms, first, reads)?;
        let shape = |id: ValueId| &graph[id].shape[..];
        let output = shape(first.output);
        let input = first.input(0).map(shape).unwrap_or_default();
        // What is done, what the result is without a quantiser, and the nodes of the rest.
        let function = Function::new(graph, first, x)?.filter(|_| x != Form::Reals);
        let (operation, form, rest) = match &first.op {
            Op::Identity | Op::Flatten { .. } | Op::Reshape { .. } => (Operation::Alias, x, rest),
            Op::Transpose { order } => (Operation::Order(transposed(input, order)), x, rest),
            Op::Quantise(quantiser) if x == Form::Reals => {
                let grid = Grid::new(quantiser)?;
                (Operation::Enter(grid), Form::Codes(grid), rest)
            }
            _ if x == Form::Reals => return Err(misfit("a layer reads an input that is no code")),
            _ if let Some(function) = function => {
                if function.is_pair() {
                    let y = self::form(graph, forms, first, 1)?;
                    let is_half = |form: Form| form == Form::Halves;
                    if y == Form::Reals || is_half(x) != is_half(y) {
                        return Err(misfit("the operands of an operator have two forms"));
                    }
                }
                (Operation::Function(function), Form::Halves, rest)
            }
            Op::Quantise(_) | Op::Unary(Unary::Relu) | Op::Activation(_) => {
                (Operation::Copy, Form::Halves, nodes)
            }
            Op::MatMul if is_computed(&1) => {
                let y = self::form(graph, forms, first, 1)?;
                let shapes = [Some(input), first.input(1).map(shape)];
                (Operation::Matrices(matrices(shapes, [x, y])?), Form::Halves, rest)
            }
            Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul => {
                let (bias, rest) = bias(graph, first, rest);
                (Operation::Product(product(graph, first, bias, x)?), Form::Halves, rest)
            }
            Op::Concat { axis: 1 } => {
                let forms =
                    (0..first.inputs.len()).map(|index| self::form(graph, forms, first, index));
                let forms = forms.collect::<Result<Vec<Form>>>()?;
                let is_half = |form: &Form| *form == Form::Halves;
                if forms.contains(&Form::Reals) || forms.iter().any(|y| is_half(y) != is_half(&x)) {
                    return Err(misfit("operands that are joined have two forms"));
                }
                let images = output.first().copied().unwrap_or(0);
                let elements = |id: ValueId| shape(id).iter().skip(1).product();
                let parts = first.operands().map(elements).collect();
                let kept = if forms.iter().all(|&y| y == x) { x } else { Form::Halves };
                (Operation::Join(images, parts), kept, rest)
            }
            Op::Resize(resize) => {
                (Operation::Pool(Pooling::selecting(resize, input, output)?), x, rest)
            }
            Op::Pool(pool) => {
                let pooling = Pooling::new(pool, input, output)?;
                let form = if pooling.is_average() { Form::Halves } else { x };
                (Operation::Pool(pooling), form, rest)
            }
            Op::GlobalAveragePool => {
                (Operation::Pool(Pooling::global(true, input)?), Form::Halves, rest)
            }
            Op::GlobalMaxPool => (Operation::Pool(Pooling::global(false, input)?), x, rest),
            other => return Err(misfit(format!("no layer begins with {}", other.name()))),
        };
        let fixed =
            matches!(operation, Operation::Alias | Operation::Order(_) | Operation::Enter(_));
        if fixed && !rest.is_empty() {
            return Err(misfit("a layer that computes nothing has several nodes"));
        }
        let (activation, quantiser) = tail(rest)?;
        Ok(Layer { operation, reads, activation, form: quantiser.map_or(form, Form::Codes) })
    }

    /// The result, given the operands of the first node.
    pub(super) fn apply<'v>(
        &self,
        operand: &dyn Fn(usize) -> Result<&'v Number>,
    ) -> Result<Number> {
        let x = operand(self.reads)?;
        let numbers = match &self.operation {
            Operation::Alias => return Ok(x.clone()),
            Operation::Order(places) => return x.ordered(places).ok_or_else(unexpected),
            Operation::Enter(grid) => match x {
                Number::Reals(reals) => return Ok(Number::Codes(grid.enter(reals), *grid)),
                _ => return Err(unexpected()),
            },
            Operation::Product(product) => match x {
                Number::Codes(codes, _) => product.apply(codes),
                _ => return Err(unexpected()),
            },
            Operation::Matrices(matrices) => match (x, operand(1)?) {
                (Number::Codes(x, _), Number::Codes(y, _)) => matrices.apply(x, y),
                _ => return Err(unexpected()),
            },
            Operation::Copy => x.opened().ok_or_else(unexpected)?,
            Operation::Function(function) => {
                let other = if function.is_pair() { Some(operand(1)?) } else { None };
                function.apply(x, other, self.form == Form::Halves).ok_or_else(unexpected)?
            }
            Operation::Join(images, parts) => {
                let opened = |index| operand(index)?.opened().ok_or_else(unexpected);
                let opened = (0..parts.len()).map(opened).collect::<Result<Vec<_>>>()?;
                let mut joined = Vec::new();
                for image in 0..*images {
                    for (numbers, &count) in opened.iter().zip(parts) {
                        joined.extend_from_slice(&numbers[image * count..(image + 1) * count]);
                    }
                }
                joined
            }
            Operation::Pool(pooling) => pooling.apply(&x.opened().ok_or_else(unexpected)?),
        };
        Ok(self.form.round(numbers, self.activation))
    }
}

/// Where the numbers of a tensor of this shape come from when axis i of the result is axis `order[i]`.
fn transposed(shape: &[usize], order: &[usize]) -> Vec<usize> {
    let step = |axis: usize| shape[axis + 1..].iter().product::<usize>();
    order.iter().fold(vec![0], |starts, &axis| {
        let along = |start: usize| (0..shape[axis]).map(move |at| start + at * step(axis));
        starts.into_iter().flat_map(along).collect()
    })
}

/// A value has another form than the one with which the layers were prepared.
fn unexpected() -> Diagnostic {
    Diagnostic::bug("an operand has another form than expected")
}

/// The form of an operand.
fn form(graph: &Graph, forms: &BTreeMap<ValueId, Form>, node: &Node, index: usize) -> Result<Form> {
    let form = node.input(index).and_then(|id| forms.get(&id)).copied();
    form.ok_or_else(|| {
        let name = node.input(index).map_or("", |id| graph[id].name.as_str());
        misfit(format!("operand {index}, {name:?}, is no value of the machine"))
    })
}

/// Products of as many matrices of codes as of others.
fn matrices(shapes: [Option<&[usize]>; 2], forms: [Form; 2]) -> Result<Matrices> {
    let [Form::Codes(x), Form::Codes(y)] = forms else {
        return Err(misfit("a product reads numbers of 16 bits"));
    };
    match shapes {
        [Some([batch @ .., _, k]), Some([others @ .., depth, n])]
            if batch == others && k == depth =>
        {
            Ok(Matrices { grids: [x, y], depth: *k, columns: *n })
        }
        _ => Err(misfit("operands of a product are not as many matrices")),
    }
}

/// The bias of a product, which a sum behind it can add, and the nodes behind them.
fn bias<'n>(graph: &Graph, node: &Node, rest: &'n [&'n Node]) -> (Option<ValueId>, &'n [&'n Node]) {
    let is_constant = |&operand: &ValueId| graph[operand].constant.is_some();
    match rest {
        [sum, behind @ ..] if node.op == Op::MatMul && sum.op == Op::Binary(Binary::Add) => {
            match sum.operands().find(is_constant) {
                Some(bias) => (Some(bias), behind),
                None => (None, rest),
            }
        }
        _ => (node.input(2), rest),
    }
}

/// A product with weights.
fn product(graph: &Graph, node: &Node, bias: Option<ValueId>, x: Form) -> Result<Product> {
    let Form::Codes(grid) = x else { return Err(misfit("a product reads numbers of 16 bits")) };
    match &node.op {
        Op::Conv(conv) => Product::of_conv(graph, node, conv, grid),
        Op::ConvTranspose(conv) => Product::of_transposed(graph, node, conv, grid),
        Op::Gemm(gemm) => Product::of_matrix(graph, node, Some(gemm), bias, grid),
        _ => Product::of_matrix(graph, node, None, bias, grid),
    }
}

/// Activation and grid at the end of a layer, each of which may be absent.
fn tail(nodes: &[&Node]) -> Result<(Activation, Option<Grid>)> {
    let activation = nodes.first().map(|node| activation(&node.op)).transpose()?.flatten();
    let rest = &nodes[usize::from(activation.is_some())..];
    let grid = match rest {
        [] => None,
        [node] => match &node.op {
            Op::Quantise(quantiser) => Some(Grid::new(quantiser)?),
            other => return Err(misfit(format!("{} ends no layer", other.name()))),
        },
        [node, ..] => return Err(misfit(format!("{:?} is followed by too much", node.name))),
    };
    Ok((activation.unwrap_or(Activation::None), grid))
}

/// An activation; `None` for another operator.
fn activation(op: &Op) -> Result<Option<Activation>> {
    Ok(match *op {
        Op::Unary(Unary::Relu) => Some(Activation::Relu),
        Op::Activation(Kind::LeakyRelu { alpha }) => Some(Activation::Leaky(alpha)),
        Op::Activation(Kind::Clip { min: Some(0.0), max: Some(most) }) if most >= 0.0 => {
            Some(Activation::Limit(most))
        }
        Op::Activation(other) => {
            return Err(misfit(format!("the machine has no {}", other.name())));
        }
        _ => None,
    })
}
