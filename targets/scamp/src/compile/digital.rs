//! Networks of digital and super-pixel mode: one convolution of whole numbers between quantisers, as
//! kernel files ask for it.

use super::goals::MAX_COUNT;
use super::weights::{exact_depth, reals, units};
use crate::arch::ScampArch;
use crate::artifact::Artifact;
use crate::digital::layout::{self, wished};
use crate::digital::ports::{Numbers, Wiring};
use crate::digital::ripple::Place;
use crate::digital::{self, Code};
use crate::files::{Bit, Layout, Mode, grid};
use crate::goal::{Cell, Goal};
use crate::isa::Inst;
use crate::options::Wishes;
use crate::ports::{Area, Span};
use crate::program::Program;
use quincunx_contract::{
    Claim, Compiled, Grid, Interface, Log, NotCompiled, Numerics, Options, Port, Refused, Section,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Conv, Graph, Node, NodeId, Op, Quantiser};
use quincunx_num::Rounding;
use std::collections::BTreeMap;

/// The nodes of such a network.
struct Network<'a> {
    enter: &'a Node,
    filter: &'a Node,
    leave: &'a Node,
    /// Bits of a number.
    bits: usize,
    goals: Vec<Goal>,
    /// Exponent of the unit of the goals.
    depth: u32,
    /// Channels of the image.
    channels: usize,
    /// Its rows and columns.
    size: [usize; 2],
}

/// One claim per node: all of them, or none.
///
/// # Errors
/// Options that contradict each other or the machine.
pub(super) fn claim(graph: &Graph, wishes: &Wishes, refused: &Refused) -> Result<Vec<Claim>> {
    let layout = wished(wishes)?;
    let bits = bits(layout.as_ref(), wishes);
    let reason = Network::new(graph, wishes.mode, bits).err();
    let refusal =
        graph.nodes().find_map(|(id, _)| refused.reason(id).map(|_| "another node is refused"));
    let reason = reason.or_else(|| refusal.map(str::to_owned));
    let claim = |(id, _): (NodeId, &Node)| match (refused.reason(id), &reason) {
        (Some(own), _) => Claim::Host(own.to_owned()),
        (None, Some(reason)) => Claim::Host(reason.clone()),
        (None, None) => Claim::Device,
    };
    Ok(graph.nodes().map(claim).collect())
}

fn bits(layout: Option<&Layout>, wishes: &Wishes) -> usize {
    layout.map_or(wishes.word.unwrap_or(1), |layout| layout.numbers.bits)
}

/// Compiles such a network.
///
/// # Errors
/// As [`digital::compile`], and what the layout is lacking.
pub(super) fn compile(
    graph: &Graph,
    arch: &ScampArch,
    wishes: &Wishes,
    options: &Options,
    log: &mut Log,
) -> std::result::Result<Compiled, NotCompiled> {
    let layout = wished(wishes)?;
    let bits = bits(layout.as_ref(), wishes);
    let network = Network::new(graph, wishes.mode, bits);
    let network = network.map_err(|reason| Diagnostic::unsupported("Q5058", reason))?;
    let refuse = |problem| NotCompiled::at_node(graph, network.filter, problem);
    let area = network.area(layout.as_ref(), wishes).map_err(refuse)?;
    let made = match (wishes.mode, &layout) {
        (Mode::SuperPixel, Some(layout)) => network.blocks(layout, arch, wishes),
        _ => network.digital(layout.as_ref(), arch, wishes),
    };
    let Made { mut instructions, inputs, outputs } = made.map_err(refuse)?;
    if let (true, Some(bit)) = (instructions.is_empty(), inputs[0].first()) {
        // Values are read after an instruction.
        instructions.push(Inst::Move { d: bit.register, a: bit.register });
    }
    let length = instructions.len();
    log.pass("search", format!("{length} instructions"), || {
        instructions.iter().map(|inst| inst.text() + "\n").collect()
    });
    let signed = wishes.mode == Mode::SuperPixel;
    let numbers = |node: &Node, output: bool, channels: Vec<Vec<Bit>>| {
        let id = if output { Some(node.output) } else { node.input(0) };
        let value = id.map_or_else(String::new, |id| graph[id].name.clone());
        Numbers { value, area, signed, channels }
    };
    let (input, result) =
        (numbers(network.enter, false, inputs), numbers(network.leave, true, outputs));
    let mut program = Program::new(instructions);
    program.inputs = Some(distinct(&input));
    program.outputs = Some(distinct(&result));
    let port = |numbers: &Numbers, grid: Grid| Port {
        name: numbers.value.clone(),
        shape: numbers.shape(),
        grid,
    };
    let enters = Grid::Codes(grid(signed, bits, Rounding::HalfEven));
    let wiring = Wiring { input: (port(&input, enters), input), results: vec![result] };
    let size = (wishes.height, wishes.width);
    let rims = wiring.rims(&program, arch, size).map_err(refuse)?;
    log.diagnostics.extend(rims.iter().map(super::spoilt));
    let interface = Interface {
        inputs: vec![wiring.input.0.clone()],
        outputs: wiring.results.iter().map(|numbers| port(numbers, Grid::Real)).collect(),
        layers: [&wiring.input.1]
            .into_iter()
            .chain(&wiring.results)
            .map(|numbers| numbers.tap(length.max(1) - 1))
            .collect(),
        sections: vec![network.section(graph)],
        rims,
        ..Interface::default()
    };
    let depths = BTreeMap::from([(network.filter.name.clone(), network.depth)]);
    let numerics = serde_json::json!({ "depths": depths, "scale": 0, "readout": "analogue" });
    let artifact = Artifact::compiled(program, interface, arch, options)?;
    Ok(Compiled { program: Box::new(artifact), numerics: Numerics(numerics) })
}

/// Registers of numbers, each once.
fn distinct(numbers: &Numbers) -> Vec<crate::isa::Reg> {
    let mut list = Vec::new();
    for register in numbers.registers() {
        if !list.contains(&register) {
            list.push(register);
        }
    }
    list
}

/// A program, and the bits of its inputs and results.
struct Made {
    instructions: Vec<Inst>,
    inputs: Vec<Vec<Bit>>,
    outputs: Vec<Vec<Bit>>,
}

impl<'a> Network<'a> {
    /// The network of a graph.
    ///
    /// # Errors
    /// Why it is none.
    fn new(graph: &'a Graph, mode: Mode, bits: usize) -> std::result::Result<Network<'a>, String> {
        let nodes: Vec<&Node> = graph.nodes().map(|(_, node)| node).collect();
        let (enter, filter, wrap, leave) = match nodes[..] {
            [enter, filter, leave] => (enter, filter, None, leave),
            [enter, filter, wrap, leave] => (enter, filter, Some(wrap), leave),
            _ => return Err(ONLY.to_owned()),
        };
        let chain = [enter].into_iter().chain([filter]).chain(wrap).chain([leave]);
        let pairs = chain.clone().zip(chain.skip(1));
        let is_chain = pairs.clone().all(|(a, b)| b.input(0) == Some(a.output))
            && enter.input(0).is_some_and(|id| graph.inputs() == [id])
            && graph.outputs() == [leave.output];
        let Op::Conv(conv) = &filter.op else { return Err(ONLY.to_owned()) };
        if !is_chain {
            return Err(ONLY.to_owned());
        }
        let signed = mode == Mode::SuperPixel;
        check_grid(enter, &grid(signed, bits, Rounding::HalfEven))?;
        check_grid(leave, &grid(signed, bits, Rounding::Floor))?;
        let depth = depth(graph, filter, wrap)?;
        if let Some(wrap) = wrap {
            let mut fine = grid(signed, bits, Rounding::Floor);
            fine.scale = fine.scale.map(|_: f64| 2.0_f64.powi(-(depth as i32)));
            check_grid(wrap, &fine)?;
        }
        if wrap.is_some() != (signed && depth > 0) {
            return Err(
                "super-pixels wrap before they are halved, and nothing else does".to_owned()
            );
        }
        let goals = kernels(graph, filter, conv, depth)?;
        let shape = &graph[enter.output].shape;
        let (channels, size) = (shape[1], [shape[2], shape[3]]);
        Ok(Network { enter, filter, leave, bits, goals, depth, channels, size })
    }

    /// Corners of the blocks of the image, in the middle of the array.
    fn area(&self, layout: Option<&Layout>, wishes: &Wishes) -> Result<Area> {
        let block = layout.map_or((1, 1), |layout| layout.numbers.block);
        if !wishes.height.is_multiple_of(block.1) || !wishes.width.is_multiple_of(block.0) {
            let (height, width) = (wishes.height, wishes.width);
            let message = format!(
                "{} x {} blocks do not divide {width} x {height} elements",
                block.0, block.1
            );
            return Err(Diagnostic::unsupported("Q5126", message).help("choose another `--size`"));
        }
        let span = |count: usize, size: usize, block: usize| {
            let span = Span::centred(count, size / block)?;
            Some(Span { first: span.first * block, step: block, count })
        };
        let [height, width] = self.size;
        let rows = span(height, wishes.height, block.1);
        let columns = span(width, wishes.width, block.0);
        let (rows, columns) = rows.zip(columns).ok_or_else(|| {
            let message = format!("an image of {width} x {height} does not fit the array");
            Diagnostic::unsupported("Q5058", message)
        })?;
        Ok(Area { rows, columns })
    }

    /// A program of digital mode.
    fn digital(&self, layout: Option<&Layout>, arch: &ScampArch, wishes: &Wishes) -> Result<Made> {
        let room = layout::digital(layout, self.bits, (self.channels, self.goals.len()), arch)?;
        let code = digital::compile(&self.goals, self.depth, self.bits, &room, wishes.effort)?;
        let Code { instructions, outputs } = code;
        let bits = |numbers: Vec<Vec<crate::isa::Reg>>| {
            let bit = |register| Bit { register, row: 0, column: 0 };
            numbers.into_iter().map(|list| list.into_iter().map(bit).collect()).collect()
        };
        Ok(Made { instructions, inputs: bits(room.inputs), outputs: bits(outputs) })
    }

    /// A program of super-pixel mode.
    fn blocks(&self, layout: &Layout, arch: &ScampArch, wishes: &Wishes) -> Result<Made> {
        let side = wishes.width.max(wishes.height);
        if side > MAX_SIDE {
            let message =
                format!("patterns have 8 bits of a row, the array has {side} elements a side");
            return Err(Diagnostic::unsupported("Q5126", message).help("choose another `--size`"));
        }
        let home = layout::super_pixel(layout, (self.channels, self.goals.len()), arch)?;
        let instructions = digital::compile_blocks(&self.goals, self.depth, &home, wishes.effort)?;
        let number = |place: &Place| {
            let bit =
                |&(row, column): &(usize, usize)| Bit { register: place.register, row, column };
            home.banks[place.bank].iter().map(bit).collect()
        };
        let numbers = |places: &[Place]| places.iter().map(number).collect();
        Ok(Made { instructions, inputs: numbers(&home.inputs), outputs: numbers(&home.outputs) })
    }

    fn section(&self, graph: &Graph) -> Section {
        Section {
            name: self.filter.name.clone(),
            nodes: graph.nodes().map(|(_, node)| node.name.clone()).collect(),
            first: 0,
            macs: graph.macs(self.filter),
            figures: BTreeMap::new(),
            pieces: Vec::new(),
        }
    }
}

const ONLY: &str = "1-bit registers compute one convolution between quantisers only";

fn check_grid(node: &Node, expected: &Quantiser) -> std::result::Result<(), String> {
    match &node.op {
        Op::Quantise(found) if found == expected => Ok(()),
        Op::Quantise(found) => Err(format!("its grid is {found}, the mode has {expected}")),
        other => Err(format!("{ONLY}, and it is {}", other.name())),
    }
}

/// The depth of the weights: that of the quantiser that wraps sums, or the first one at which they are
/// whole.
fn depth(graph: &Graph, filter: &Node, wrap: Option<&Node>) -> std::result::Result<u32, String> {
    let weights =
        filter.input(1).and_then(|id| reals(&graph[id])).ok_or("its weights are computed")?;
    let exact = exact_depth(&weights).ok_or("its weights are no multiples of a power of two")?;
    let Some(Op::Quantise(fine)) = wrap.map(|node| &node.op) else { return Ok(exact) };
    let scale = fine.scale.as_uniform().unwrap_or(1.0);
    let depth = (exact..=crate::files::MAX_DEPTH).find(|d| 2.0_f64.powi(-(*d as i32)) == scale);
    depth.ok_or_else(|| "sums wrap in another unit than that of the weights".to_owned())
}

/// The kernels of a convolution that leaves the image as large as it is.
fn kernels(
    graph: &Graph,
    filter: &Node,
    conv: &Conv,
    depth: u32,
) -> std::result::Result<Vec<Goal>, String> {
    let (x, w) = filter.input(0).zip(filter.input(1)).ok_or("it has no operands")?;
    let (from, to) = (&graph[x].shape, &graph[filter.output].shape);
    let (&[1, channels, ..], &[outputs, inner, rows, columns]) = (&from[..], &graph[w].shape[..])
    else {
        return Err("only one image of rows and columns is convolved".to_owned());
    };
    let plain =
        conv.groups == 1 && inner == channels && conv.window.strides.iter().all(|&s| s == 1);
    if !plain || from[2..] != to[2..] || filter.input(2).is_some() {
        return Err("it has strides, groups or a bias, or changes the size".to_owned());
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

/// Longest side of an array of super-pixels.
const MAX_SIDE: usize = 256;

/// Farthest tap of a kernel.
const MAX_OFFSET: i32 = 1 << 10;
