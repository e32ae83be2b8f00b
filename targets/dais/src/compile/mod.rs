//! Graph to program. Passes, in order:
//!
//! 1. [`claim`]: which nodes the machine takes;
//! 2. [`layers`]: every layer unrolled into operations with exact intervals, by way of
//!    [`linear`] (products with constant matrices, whose adders [`cmvm`] finds), [`quantiser`] and
//!    [`plan`] (functions that a quantiser follows);
//! 3. [`dead`]: operations that no output needs are removed;
//! 4. [`pipeline`]: registers, if asked for.
//!
//! What flows between layers is in [`number`].

mod builder;
pub(crate) mod claim;
pub(crate) mod cmvm;
mod dead;
mod exact;
mod expr;
mod known;
mod layers;
mod linear;
mod memory;
mod number;
pub(crate) mod pipeline;
mod plan;
pub(crate) mod product;
mod quantiser;
mod scalar;
mod select;
mod steps;
mod sums;
mod wire;

use crate::arch::DaisArch;
use crate::program::{InputIndex, Output, Program, Slot};
use crate::tap::Place;
use crate::text;
use builder::Builder;
pub(crate) use layers::Precision;
use layers::{Layer, Numbers};
use number::{Affine, Number};
use quincunx_contract::{Grid, Interface, LayerTap, Log, NotCompiled, Port, Scaling};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, Op, Quantiser, ValueId};
use quincunx_num::{Dyadic, Int, Interval, Ratio};
use wire::Wire;

/// What the compiler may choose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Every layer stays observable, even where no output needs it.
    pub(crate) keep_layers: bool,
    /// Nothing of the outputs is left to the driver.
    pub(crate) exact_outputs: bool,
    /// Bits of a softmax.
    pub(crate) precision: Precision,
    /// How products with constant matrices are searched.
    pub(crate) cmvm: cmvm::Settings,
}

/// A compiled program with its ports and taps.
pub(crate) struct Compiled {
    /// The program.
    pub(crate) program: Program,
    /// Its ports and taps.
    pub(crate) interface: Interface,
}

/// Compiles a graph all of whose nodes are claimed.
///
/// A bound on the levels of products is not one on those of the network: where the network is as
/// shallow without it, and better, that one is taken.
pub(crate) fn compile(
    graph: &Graph,
    arch: &DaisArch,
    settings: Settings,
    log: &mut Log,
) -> std::result::Result<Compiled, NotCompiled> {
    let before = settings.cmvm.unbounded().map(|_| log.clone());
    let bounded = compile_once(graph, arch, settings, log)?;
    let (Some(cmvm), Some(mut other)) = (settings.cmvm.unbounded(), before) else {
        return Ok(bounded);
    };
    other.start();
    let free = compile_once(graph, arch, Settings { cmvm, ..settings }, &mut other)?;
    let [mine, others] = [&bounded, &free].map(|compiled| Figures::of(&compiled.program));
    let goals = |figures: &Figures| settings.cmvm.goals(figures.adders, figures.bits);
    if others.depth > mine.depth || goals(&others) >= goals(&mine) {
        return Ok(bounded);
    }
    *log = other;
    Ok(free)
}

/// What a program is judged by.
struct Figures {
    adders: u64,
    /// Of all operations.
    bits: f64,
    /// Levels of the last output.
    depth: f64,
}

impl Figures {
    fn of(program: &Program) -> Figures {
        let operations = &program.operations;
        let outputs = program.outputs.iter().filter_map(|output| output.source);
        let latency = |slot: Slot| operations[slot.0 as usize].latency;
        Figures {
            adders: operations.iter().filter(|o| o.inst.terms().count() == 2).count() as u64,
            bits: operations.iter().map(|operation| operation.cost).sum(),
            depth: outputs.map(latency).fold(0.0, f64::max),
        }
    }
}

/// Compiles with these settings.
fn compile_once(
    graph: &Graph,
    arch: &DaisArch,
    settings: Settings,
    log: &mut Log,
) -> std::result::Result<Compiled, NotCompiled> {
    let digits = graph.nodes().map(|(_, node)| claim::digits(graph, node)).sum();
    let mut builder = Builder::new(arch, settings.cmvm.for_digits(digits));
    let (ports, mut values) = lower_graph(graph, &mut builder, settings)?;
    let mut outputs = Vec::new();
    let mut scalings = Vec::new();
    for &id in graph.outputs() {
        let numbers = values[id.index()].take();
        let numbers = numbers.ok_or_else(|| Diagnostic::bug("an output was not lowered"))?;
        let mut finish = |number| {
            let number = exact::finished(&mut builder, number)?;
            let number = match settings.exact_outputs {
                true => exact::computed(&mut builder, &number)?,
                false => number,
            };
            let (output, affine) = output(&mut builder, &number)?;
            outputs.push(output);
            Ok((number, affine))
        };
        let finished: Result<(Numbers, Vec<Affine>)> = numbers.iter().map(&mut finish).collect();
        let finished = finished.and_then(|(numbers, affines)| {
            let scaling = scaling(graph, id, &affines);
            match scaling.is_some() && settings.exact_outputs {
                true => Err(exact::too_far()),
                false => Ok((numbers, scaling)),
            }
        });
        let (numbers, scaling) = finished.map_err(|problem| match graph[id].producer {
            Some(producer) => NotCompiled::at_node(graph, &graph[producer], problem),
            None => problem.into(),
        })?;
        scalings.extend(scaling);
        values[id.index()] = Some(numbers);
    }
    let inputs = ports.iter().map(|port| port.shape.iter().product::<usize>()).sum();
    // The rest of the builder is as large as the program.
    let Builder { operations, tables, .. } = builder;
    let unrolled = Program {
        input_shifts: vec![0; inputs],
        outputs,
        operations,
        tables,
        carry_size: arch.carry_size,
        adder_size: arch.adder_size,
        ..Program::default()
    };
    log.pass("unroll", format!("{} operations", unrolled.operations.len()), || {
        text::print(&unrolled)
    });
    let taps: Vec<(ValueId, &Numbers)> = graph
        .nodes()
        .filter_map(|(_, node)| Some((node.output, values[node.output.index()].as_ref()?)))
        .collect();
    let tapped =
        taps.iter().filter(|_| settings.keep_layers).flat_map(|(_, numbers)| numbers.iter());
    let (program, moved) = dead::remove_dead(unrolled, tapped.filter_map(slot_of));
    log.pass("eliminate-dead", format!("{} operations", program.operations.len()), || {
        text::print(&program)
    });
    let layers = taps.iter().filter_map(|(id, wires)| tap(graph, *id, wires, &moved)).collect();
    let output_ports = graph.outputs().iter().map(|&id| port(graph, id, None)).collect();
    Ok(Compiled {
        program,
        interface: Interface {
            inputs: ports,
            outputs: output_ports,
            layers,
            scalings,
            ..Interface::default()
        },
    })
}

/// Numbers of every value, and the input ports.
fn lower_graph(
    graph: &Graph,
    builder: &mut Builder<'_>,
    settings: Settings,
) -> std::result::Result<(Vec<Port>, Vec<Option<Numbers>>), NotCompiled> {
    let mut values: Vec<Option<Numbers>> = vec![None; graph.values().len()];
    let mut ports = Vec::new();
    let mut first = 0;
    for (id, value) in graph.values() {
        if value.constant.is_some() {
            values[id.index()] = Some(value_numbers(graph, id)?);
        }
    }
    for &id in graph.inputs() {
        // An input that nothing reads has no grid; it occupies no input of the program.
        let read = graph.nodes().any(|(_, node)| node.operands().any(|operand| operand == id));
        if let Some(quantiser) = claim::input_quantiser(graph, id).filter(|_| read) {
            let numbers = input_numbers(builder, &quantiser, &graph[id].shape, first)?;
            first += numbers.len();
            values[id.index()] = Some(numbers);
            ports.push(port(graph, id, Some(quantiser)));
        }
    }
    for (_, node) in graph.nodes() {
        let operands: Vec<Option<&Numbers>> =
            node.inputs.iter().map(|i| i.and_then(|i| values[i.index()].as_ref())).collect();
        let encoded = matches!((&node.op, node.input(0)), (Op::Quantise(_), Some(x)) if graph.inputs().contains(&x));
        let numbers = match (encoded, operands.first().copied().flatten()) {
            // The driver has moved the numbers onto this grid already.
            (true, Some(x)) => x.clone(),
            _ => {
                let precision = settings.precision;
                let layer = Layer { graph, node, operands: &operands, precision };
                let numbers = layer.lower_typed(builder);
                numbers.map_err(|problem| NotCompiled::at_node(graph, node, problem))?
            }
        };
        values[node.output.index()] = Some(numbers);
    }
    Ok((ports, values))
}

fn port(graph: &Graph, id: ValueId, quantiser: Option<Quantiser>) -> Port {
    let grid = quantiser.map_or(Grid::Real, Grid::Codes);
    Port { name: graph[id].name.clone(), shape: graph[id].shape.to_vec(), grid }
}

/// The numbers of a program's input. On a grid of which some scale is not a power of two, every
/// element enters as a whole number of its steps.
fn input_numbers(
    builder: &mut Builder<'_>,
    quantiser: &Quantiser,
    shape: &[usize],
    first: usize,
) -> Result<Numbers> {
    let bug = || Diagnostic::bug("an input's quantiser broadcasts");
    let scalars = quantiser.scalars(shape).ok_or_else(bug)?;
    let in_steps = !quantiser.is_fixed_point();
    let mut numbers = Vec::with_capacity(scalars.len());
    for (index, scalar) in scalars.iter().enumerate() {
        let source = InputIndex::of(first + index);
        let (low, high) = scalar.range();
        let zero = Int::from(scalar.zero);
        let steps = Interval::new(low - &zero, high - zero, 0);
        numbers.push(match (in_steps, scalar.interval()) {
            (false, Some(grid)) => builder.input(source, grid)?.into(),
            _ => {
                let wire = builder.input(source, steps)?;
                Number::scaled(builder, &wire, &scalar.ratio(), &Ratio::ZERO)?
            }
        });
    }
    Ok(numbers)
}

/// The numbers of a constant.
fn value_numbers(graph: &Graph, id: ValueId) -> Result<Numbers> {
    let value = &graph[id];
    let none = || Diagnostic::bug(format!("\"{}\" has no exact values", value.name));
    let constant = value.constant.as_ref().ok_or_else(none)?;
    let exact = |value: Dyadic| Number::from(Wire::Constant(value));
    let Some(quantiser) = &constant.quantiser else {
        // Integers of 64 bits are not f64.
        if let Some(integers) = constant.tensor.to_i64() {
            let whole = |integer: i64| exact(Dyadic::new(Int::from(integer), 0));
            return Ok(integers.into_iter().map(whole).collect());
        }
        let numbers = constant.tensor.to_f64();
        return numbers
            .into_iter()
            .map(|v| Dyadic::from_f64(v).map(exact).ok_or_else(none))
            .collect();
    };
    let codes = constant.tensor.to_i64().ok_or_else(none)?;
    let scalars = quantiser.scalars(constant.tensor.shape()).ok_or_else(none)?;
    let number = |(&code, scalar): (&i64, &quincunx_graph::Scalar)| {
        let steps = Dyadic::new(Int::from(code) - Int::from(scalar.zero), 0);
        Ok(exact(steps.mul(&Dyadic::from_f64(scalar.scale).ok_or_else(none)?)))
    };
    codes.iter().zip(&scalars).map(number).collect()
}

fn slot_of(number: &Number) -> Option<Slot> {
    match number.wire {
        Wire::Slot { slot, .. } if number.affine().is_some() => Some(slot),
        _ => None,
    }
}

/// An output, and what the driver makes of it: what outputs cannot shift or hold is left to it.
fn output(builder: &mut Builder<'_>, number: &Number) -> Result<(Output, Affine)> {
    let Affine { unit, offset } = number.carried_out()?;
    let nothing = Output { source: None, shift: 0, negate: false };
    Ok(match &number.wire {
        Wire::Constant(value) if value.is_zero() => (nothing, Affine { unit, offset }),
        Wire::Constant(value) => match i64::try_from(value.mantissa()) {
            Ok(_) => {
                let source = Some(builder.constant(value)?);
                (Output { source, ..nothing }, Affine { unit, offset })
            }
            Err(_) => {
                let offset = unit * value.to_ratio() + offset;
                (nothing, Affine { unit: Ratio::ONE, offset })
            }
        },
        &Wire::Slot { slot, shift, negate } => {
            let output = Output { source: Some(slot), shift, negate };
            match builder::relative_shift(shift, 0) {
                Ok(_) => (output, Affine { unit, offset }),
                Err(_) => {
                    let unit = unit * Dyadic::new(Int::ONE, shift).to_ratio();
                    (Output { shift: 0, ..output }, Affine { unit, offset })
                }
            }
        }
    })
}

/// What the driver makes of an output, if anything.
fn scaling(graph: &Graph, id: ValueId, numbers: &[Affine]) -> Option<Scaling> {
    numbers.iter().find(|number| **number != Affine::ONE)?;
    let list = |part: fn(&Affine) -> &Ratio| {
        let all: Vec<String> = numbers.iter().map(|number| part(number).to_string()).collect();
        match all.iter().all(|other| *other == all[0]) {
            true => all[..1].to_vec(),
            false => all,
        }
    };
    Some(Scaling {
        output: graph[id].name.clone(),
        factors: list(|affine| &affine.unit),
        addends: list(|affine| &affine.offset),
    })
}

/// Where a layer's numbers are, unless an operation it needs was removed or they are functions
/// that only a quantiser makes numbers of. The place lists one number per element.
fn tap(graph: &Graph, id: ValueId, numbers: &Numbers, moved: &[Option<Slot>]) -> Option<LayerTap> {
    let mut after = 0;
    let mut places = Vec::with_capacity(numbers.len());
    for number in numbers {
        let place = match &number.wire {
            Wire::Constant(value) => Place::Constant(value.clone()),
            Wire::Slot { slot, shift, negate } => {
                let slot = moved[slot.0 as usize]?;
                after = after.max(slot.0 as usize);
                Place::Slot { slot, stage: 0, shift: *shift, negate: *negate }
            }
        };
        let Affine { unit, offset } = number.affine()?;
        places.push(match number.form {
            None => place,
            Some(_) => Place::Scaled { place: Box::new(place), factor: unit, addend: offset },
        });
    }
    let place = places.iter().map(Place::to_string).collect::<Vec<_>>().join(", ");
    Some(LayerTap { value: graph[id].name.clone(), shape: graph[id].shape.to_vec(), after, place })
}
