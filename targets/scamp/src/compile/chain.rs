//! Networks of digital and super-pixel mode: one convolution of whole numbers between quantisers, as
//! kernel files ask for it, and what super-pixels do around it.

use super::goals::MAX_COUNT;
use super::weights::{exact_depth, reals, units};
use crate::files::{Around, Layout, MAX_DEPTH, Mode, Stages, grid};
use crate::goal::{Cell, Goal};
use quincunx_graph::{Binary, Conv, Graph, Node, Op, Quantiser, Unary};
use quincunx_num::Rounding;

/// Farthest tap of a kernel.
const MAX_OFFSET: i32 = 1 << 10;

/// The nodes of such a network.
pub(super) struct Network<'a> {
    /// The first node, which reads the image.
    pub(super) first: &'a Node,
    pub(super) filter: &'a Node,
    /// The last node, whose value is the result.
    pub(super) last: &'a Node,
    /// Bits of a number.
    pub(super) bits: usize,
    pub(super) goals: Vec<Goal>,
    /// Exponent of the unit of the goals.
    pub(super) depth: u32,
    /// Channels of the image.
    pub(super) channels: usize,
    /// Its rows and columns.
    pub(super) size: [usize; 2],
    /// What is done around the kernels; registers are those of the layout.
    pub(super) around: Around,
}

/// Why a graph is no such network.
type Parsed<T> = std::result::Result<T, String>;

const ONLY: &str = "1-bit registers compute one convolution between quantisers only";

impl<'a> Network<'a> {
    /// The network of a graph.
    ///
    /// # Errors
    /// Why it is none.
    pub(super) fn new(
        graph: &'a Graph,
        mode: Mode,
        bits: usize,
        layout: Option<&Layout>,
    ) -> Parsed<Network<'a>> {
        let mut chain = Chain::new(graph)?;
        let (first, last) = (chain.nodes[0], chain.nodes[chain.nodes.len() - 1]);
        let signed = mode == Mode::SuperPixel;
        let factors = chain.constants(Binary::Mul)?;
        let enter = chain.quantiser()?;
        let Some((filter, Op::Conv(conv))) = chain.next().map(|node| (node, &node.op)) else {
            return Err(ONLY.to_owned());
        };
        let whole = grid(signed, bits, Rounding::Floor);
        let after = chain.quantiser()?;
        let wrap = (signed && *after != whole).then_some(after);
        let depth = depth(graph, filter, wrap)?;
        if wrap.is_some() != (signed && depth > 0) {
            return Err("super-pixels wrap before they are halved, nothing else does".to_owned());
        }
        if let Some(wrap) = wrap {
            let unit = 2.0_f64.powi(-(depth as i32));
            check(wrap, &Quantiser { scale: whole.scale.map(|_: f64| unit), ..whole.clone() })?;
        }
        check(if wrap.is_some() { chain.quantiser()? } else { after }, &whole)?;
        let goals = kernels(graph, filter, conv, depth)?;
        let shape = &graph[filter.input(0).ok_or(ONLY)?].shape;
        let mut around = around(layout, shape[1], goals.len())?;
        if around.enter(grid(signed, bits, Rounding::HalfEven)) != (factors, enter.clone()) {
            return Err(format!("the layout has no inputs with the grid {enter}"));
        }
        chain.finish(&mut around, bits, signed)?;
        add_bias(&mut around, graph, filter, signed && depth == 0)?;
        let (channels, size) = (shape[1], [shape[2], shape[3]]);
        Ok(Network { first, filter, last, bits, goals, depth, channels, size, around })
    }
}

/// What a layout asks for around kernels with so many inputs and results.
fn around(layout: Option<&Layout>, inputs: usize, outputs: usize) -> Parsed<Around> {
    let nothing = Stages::default();
    let any = vec![String::new(); outputs];
    let (stages, from, to) = match layout {
        Some(layout) if layout.outputs.len() == outputs && layout.inputs.len() >= inputs => {
            (&layout.numbers.stages, &layout.inputs[..inputs], &layout.outputs)
        }
        _ => (&nothing, &[][..], &any),
    };
    Around::new(stages, from, to).map_err(|problem| problem.message().to_owned())
}

/// A bias of the convolution itself, which is added to whole sums only.
fn add_bias(around: &mut Around, graph: &Graph, filter: &Node, is_whole: bool) -> Parsed<()> {
    let Some(id) = filter.input(2) else { return Ok(()) };
    let bias = reals(&graph[id]).ok_or("its bias is computed")?;
    let all = around.bias.get_or_insert_with(|| vec![0; bias.len()]);
    for (sum, &bias) in all.iter_mut().zip(&bias) {
        let amount = is_whole.then(|| amount(bias)).flatten();
        *sum += amount.ok_or("super-pixels add biases of whole numbers to whole sums only")?;
    }
    Ok(())
}

/// A whole number that a bias can be.
fn amount(bias: f64) -> Option<i64> {
    (bias.fract() == 0.0 && bias.abs() < MAX_COUNT).then_some(bias as i64)
}

/// Nodes each of which reads the one before it.
struct Chain<'a> {
    graph: &'a Graph,
    nodes: Vec<&'a Node>,
    at: usize,
}

impl<'a> Chain<'a> {
    fn new(graph: &'a Graph) -> Parsed<Chain<'a>> {
        let nodes: Vec<&Node> = graph.nodes().map(|(_, node)| node).collect();
        let is_chain = nodes.windows(2).all(|pair| pair[1].input(0) == Some(pair[0].output))
            && nodes.first().and_then(|n| n.input(0)).is_some_and(|id| graph.inputs() == [id])
            && nodes.last().is_some_and(|node| graph.outputs() == [node.output]);
        match is_chain {
            true => Ok(Chain { graph, nodes, at: 0 }),
            false => Err(ONLY.to_owned()),
        }
    }

    fn peek(&self) -> Option<&'a Node> {
        self.nodes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a Node> {
        let node = self.peek();
        self.at += 1;
        node
    }

    fn quantiser(&mut self) -> Parsed<&'a Quantiser> {
        match self.next().map(|node| &node.op) {
            Some(Op::Quantise(found)) => Ok(found),
            Some(other) => Err(format!("{ONLY}, and it is {}", other.name())),
            None => Err(ONLY.to_owned()),
        }
    }

    /// The constants of an operator, one for each channel, if it is the next one.
    fn constants(&mut self, wanted: Binary) -> Parsed<Option<Vec<f64>>> {
        match self.peek().filter(|node| node.op == Op::Binary(wanted)) {
            Some(node) => {
                self.at += 1;
                self.operand(node).map(Some)
            }
            None => Ok(None),
        }
    }

    fn operand(&self, node: &Node) -> Parsed<Vec<f64>> {
        let channels = self.graph[node.output].shape.get(1).copied().unwrap_or(0);
        let value = node.input(1).map(|id| &self.graph[id]);
        let list = value.and_then(reals).ok_or("its constant is computed")?;
        let shape = value.map_or(&[][..], |value| &value.shape);
        // Channels are the third axis from behind.
        let of_channels = list.len() == channels && shape.iter().rev().nth(2) == Some(&channels);
        match list[..] {
            [one] => Ok(vec![one; channels]),
            _ if of_channels => Ok(list),
            _ => Err("its constant is not one for each channel".to_owned()),
        }
    }

    /// What follows the kernels. What the layout does not ask for may be in the network alone, but for
    /// converters.
    fn finish(&mut self, around: &mut Around, bits: usize, signed: bool) -> Parsed<()> {
        let bias = match self.constants(Binary::Add)? {
            Some(list) => {
                check(self.quantiser()?, &grid(signed, bits, Rounding::Floor))?;
                let list = list.into_iter().map(amount).collect::<Option<Vec<i64>>>();
                Some(list.filter(|_| signed).ok_or("only super-pixels add biases, whole numbers")?)
            }
            None => None,
        };
        if around.bias.is_some() && around.bias != bias {
            return Err("the layout has another bias".to_owned());
        }
        let relu = match self.peek().map(|node| (node, &node.op)) {
            Some((_, Op::Unary(Unary::Relu))) => Some(vec![true; around.relu.len()]),
            Some((node, Op::PRelu)) => {
                let slopes = self.operand(node)?;
                if slopes.iter().any(|slope| ![0.0, 1.0].contains(slope)) {
                    return Err("its slopes are not 0 or 1".to_owned());
                }
                Some(slopes.iter().map(|slope| *slope == 0.0).collect())
            }
            _ => None,
        };
        self.at += usize::from(relu.is_some());
        let relu = relu.unwrap_or_else(|| vec![false; around.relu.len()]);
        if around.relu.contains(&true) && around.relu != relu {
            return Err("the layout has another activation".to_owned());
        }
        (around.bias, around.relu) = (bias, relu);
        if let Some((limit, factors)) = around.leave(bits) {
            check(self.quantiser()?, &limit)?;
            if self.constants(Binary::Mul)? != factors {
                return Err("the layout converts results in another way".to_owned());
            }
        }
        if self.at == self.nodes.len() { Ok(()) } else { Err(ONLY.to_owned()) }
    }
}

fn check(found: &Quantiser, expected: &Quantiser) -> Parsed<()> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("its grid is {found}, the mode has {expected}")),
    }
}

/// The depth of the weights: that of the quantiser that wraps sums, or the first one at which they are
/// whole.
fn depth(graph: &Graph, filter: &Node, wrap: Option<&Quantiser>) -> Parsed<u32> {
    let weights =
        filter.input(1).and_then(|id| reals(&graph[id])).ok_or("its weights are computed")?;
    let exact = exact_depth(&weights).ok_or("its weights are no multiples of a power of two")?;
    let Some(fine) = wrap else { return Ok(exact) };
    let scale = fine.scale.as_uniform().unwrap_or(1.0);
    let depth = (exact..=MAX_DEPTH).find(|d| 2.0_f64.powi(-(*d as i32)) == scale);
    depth.ok_or_else(|| "sums wrap in another unit than that of the weights".to_owned())
}

/// The kernels of a convolution that leaves the image as large as it is.
fn kernels(graph: &Graph, filter: &Node, conv: &Conv, depth: u32) -> Parsed<Vec<Goal>> {
    let (x, w) = filter.input(0).zip(filter.input(1)).ok_or("it has no operands")?;
    let (from, to) = (&graph[x].shape, &graph[filter.output].shape);
    let (&[1, channels, ..], &[outputs, inner, rows, columns]) = (&from[..], &graph[w].shape[..])
    else {
        return Err("only one image of rows and columns is convolved".to_owned());
    };
    let plain =
        conv.groups == 1 && inner == channels && conv.window.strides.iter().all(|&s| s == 1);
    if !plain || from[2..] != to[2..] {
        return Err("it has strides or groups, or changes the size".to_owned());
    }
    let weights = reals(&graph[w]).ok_or("its weights are computed")?;
    let mut goals = vec![Goal::default(); outputs];
    for (at, weight) in weights.iter().enumerate() {
        let (column, row) = (at % columns, at / columns % rows);
        let (z, output) = (at / columns / rows % inner, at / columns / rows / inner);
        let offset = |tap: usize, axis: usize| {
            let [d, p] = [conv.window.dilations[axis], conv.window.pads[axis].0];
            i32::try_from(tap as i64 * d as i64 - p as i64).ok().filter(|o| o.abs() < MAX_OFFSET)
        };
        let (south, east) =
            offset(row, 0).zip(offset(column, 1)).ok_or("it spans too many cells")?;
        let count = units(*weight, depth as i32);
        if count.abs() >= MAX_COUNT {
            return Err("a weight has too many units".to_owned());
        }
        goals[output].set(Cell { x: east, y: -south, z: z as u32 }, count as i64);
    }
    Ok(goals)
}
