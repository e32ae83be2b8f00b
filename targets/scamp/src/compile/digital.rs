//! Programs for networks of digital and super-pixel mode, which [`super::chain`] finds.

use super::chain::Network;
use crate::arch::ScampArch;
use crate::artifact::Artifact;
use crate::digital::finish::Finish;
use crate::digital::layout::{self, wished};
use crate::digital::ports::{Numbers, Wiring};
use crate::digital::ripple::Place;
use crate::digital::{self, Code, convert};
use crate::files::{Bit, Channel, Converter, Layout, Mode};
use crate::isa::{Inst, Reg};
use crate::options::Wishes;
use crate::ports::{Area, Span};
use crate::program::Program;
use quincunx_contract::{
    Claim, Compiled, Grid, Interface, Log, NotCompiled, Numerics, Options, Port, Refused, Section,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, Node, NodeId};
use std::collections::BTreeMap;

/// One claim per node: all of them, or none.
///
/// # Errors
/// Options that contradict each other or the machine.
pub(super) fn claim(graph: &Graph, wishes: &Wishes, refused: &Refused) -> Result<Vec<Claim>> {
    let layout = wished(wishes)?;
    let bits = bits(layout.as_ref(), wishes);
    let reason = Network::new(graph, wishes.mode, bits, layout.as_ref()).err();
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
    let network = Network::new(graph, wishes.mode, bits, layout.as_ref());
    let network = network.map_err(|reason| Diagnostic::unsupported("Q5058", reason))?;
    let refuse = |problem| NotCompiled::at_node(graph, network.filter, problem);
    let area = network.area(layout.as_ref(), wishes).map_err(refuse)?;
    let made = match (wishes.mode, &layout) {
        (Mode::SuperPixel, Some(layout)) => network.blocks(layout, arch, wishes),
        _ => network.digital(layout.as_ref(), arch, wishes),
    };
    let Made { mut instructions, inputs, outputs } = made.map_err(refuse)?;
    if let (true, Some(Channel::Number(bits))) = (instructions.is_empty(), inputs.first()) {
        // Values are read after an instruction.
        instructions.extend(bits.first().map(|b| Inst::Move { d: b.register, a: b.register }));
    }
    let length = instructions.len();
    log.pass("search", format!("{length} instructions"), || {
        instructions.iter().map(|inst| inst.text() + "\n").collect()
    });
    let signed = wishes.mode == Mode::SuperPixel;
    let numbers = |node: &Node, output: bool, channels: Vec<Channel>| {
        let id = if output { Some(node.output) } else { node.input(0) };
        let value = id.map_or_else(String::new, |id| graph[id].name.clone());
        Numbers { value, area, signed, channels }
    };
    let (input, result) =
        (numbers(network.first, false, inputs), numbers(network.last, true, outputs));
    let mut program = Program::new(instructions);
    program.inputs = Some(distinct(&input));
    program.outputs = Some(distinct(&result));
    let wiring = Wiring { input, results: vec![result] };
    let size = (wishes.height, wishes.width);
    let rims = wiring.rims(&program, arch, size).map_err(refuse)?;
    log.diagnostics.extend(rims.iter().map(super::spoilt));
    let interface = Interface {
        inputs: vec![wiring.input.port()],
        outputs: wiring.results.iter().map(|r| Port { grid: Grid::Real, ..r.port() }).collect(),
        layers: [&wiring.input]
            .into_iter()
            .chain(&wiring.results)
            .map(|numbers| numbers.tap(length.max(1) - 1))
            .collect(),
        sections: vec![network.section(graph)],
        rims,
        ..Interface::default()
    };
    let depths = BTreeMap::from([(network.filter.name.clone(), network.depth)]);
    let biased: Vec<&String> =
        network.filter.input(2).map(|_| &network.filter.name).into_iter().collect();
    let numerics = serde_json::json!({
        "depths": depths, "scale": 0, "biased": biased, "readout": "analogue",
    });
    let artifact = Artifact::compiled(program, interface, arch, options)?;
    Ok(Compiled { program: Box::new(artifact), numerics: Numerics(numerics) })
}

/// Registers of numbers, each once.
fn distinct(numbers: &Numbers) -> Vec<Reg> {
    let mut list = Vec::new();
    for ((_, register), _) in numbers.places() {
        if !list.contains(&register) {
            list.push(register);
        }
    }
    list
}

/// A program, and where its inputs and results are.
struct Made {
    instructions: Vec<Inst>,
    inputs: Vec<Channel>,
    outputs: Vec<Channel>,
}

impl Network<'_> {
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
        let bits = |numbers: Vec<Vec<Reg>>| {
            let bit = |register| Bit { register, row: 0, column: 0 };
            let number = |list: Vec<Reg>| Channel::Number(list.into_iter().map(bit).collect());
            numbers.into_iter().map(number).collect()
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
        let around = &self.around;
        let counts = (self.channels, self.goals.len());
        let home = layout::super_pixel(layout, counts, around, arch)?;
        let has_converters = !around.adc.is_empty() || around.dac.iter().any(Option::is_some);
        if has_converters && !(wishes.has(&convert::MACROS) && arch.max_where > 1) {
            let message =
                "converters need the macros add, movx, neg, res and sub, and where of two";
            return Err(Diagnostic::unsupported("Q5127", message).help("`--ops all` has them"));
        }
        let finish = |at: usize| Finish {
            bias: around.bias.as_ref().map_or(0, |bias| bias[at]),
            relu: around.relu[at],
        };
        let finish: Vec<Finish> = (0..self.goals.len()).map(finish).collect();
        let mut instructions = Vec::new();
        if let Some(scratch) = layout.numbers.stages.scratch {
            instructions = convert::adc(&home, &around.adc, scratch)?;
        }
        let effort = wishes.effort;
        instructions.extend(digital::compile_blocks(
            &self.goals,
            self.depth,
            &finish,
            &home,
            effort,
        )?);
        instructions.extend(convert::dac(&home, &around.dac)?);
        let channel = |(place, converter): (&Place, Option<&Converter>)| match converter {
            Some(converter) => {
                let (row, column) = convert::element(&home, place.bank, converter);
                Channel::Analogue(Bit { register: converter.analogue, row, column })
            }
            None => {
                let bit =
                    |&(row, column): &(usize, usize)| Bit { register: place.register, row, column };
                Channel::Number(home.banks[place.bank].iter().map(bit).collect())
            }
        };
        let inputs = home.inputs.iter().enumerate().map(|(at, place)| (place, around.adc.get(at)));
        let outputs = home.outputs.iter().zip(around.dac.iter().map(Option::as_ref));
        let (inputs, outputs) = (inputs.map(channel).collect(), outputs.map(channel).collect());
        Ok(Made { instructions, inputs, outputs })
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

/// Longest side of an array of super-pixels.
const MAX_SIDE: usize = 256;
