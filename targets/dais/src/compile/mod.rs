//! Graph to program. Passes, in order:
//!
//! 1. [`claim`]: which nodes the machine takes;
//! 2. [`layers`]: every layer unrolled into operations with exact intervals, by way of
//!    [`linear`] (sums of constant multiples) and [`quantiser`];
//! 3. [`dead`]: operations that no output needs are removed.

mod builder;
pub(crate) mod claim;
mod dead;
mod layers;
mod linear;
mod quantiser;

use crate::arch::DaisArch;
use crate::program::{InputIndex, Output, Program, Slot};
use crate::tap::Place;
use crate::text;
use builder::{Builder, Wire};
use layers::Wires;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Constant, Graph, Op, Quantiser, ValueId};
use quincunx_num::{Dyadic, Int};
use quincunx_target::{Interface, LayerTap, Log, Port};

/// A compiled program with its ports and taps.
pub(crate) struct Compiled {
    /// The program.
    pub(crate) program: Program,
    /// Its ports and taps.
    pub(crate) interface: Interface,
}

/// Compiles a graph all of whose nodes are claimed.
///
/// With `keep_layers` every layer stays observable, even where no output needs it.
pub(crate) fn compile(
    graph: &Graph,
    arch: &DaisArch,
    keep_layers: bool,
    log: &mut Log,
) -> Result<Compiled> {
    let mut builder = Builder::new(arch);
    let (ports, values) = lower_graph(graph, &mut builder)?;
    let outputs = graph
        .outputs()
        .iter()
        .flat_map(|id| values[id.index()].iter().flatten())
        .map(|wire| output(&mut builder, wire))
        .collect::<Result<Vec<Output>>>()?;
    let inputs = ports.iter().map(|port| port.shape.iter().product::<usize>()).sum();
    let unrolled = Program {
        input_shifts: vec![0; inputs],
        outputs,
        operations: builder.operations,
        tables: Vec::new(),
        carry_size: arch.carry_size,
        adder_size: arch.adder_size,
        firmware_version: 0,
    };
    log.pass("unroll", format!("{} operations", unrolled.operations.len()), || {
        text::print(&unrolled)
    });
    let taps: Vec<(ValueId, &Wires)> = graph
        .nodes()
        .filter_map(|(_, node)| Some((node.output, values[node.output.index()].as_ref()?)))
        .collect();
    let tapped = taps.iter().filter(|_| keep_layers).flat_map(|(_, wires)| wires.iter());
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
            ..Interface::default()
        },
    })
}

/// Wires of every value, and the input ports.
fn lower_graph(
    graph: &Graph,
    builder: &mut Builder<'_>,
) -> Result<(Vec<Port>, Vec<Option<Wires>>)> {
    let mut values: Vec<Option<Wires>> = vec![None; graph.values().len()];
    let mut ports = Vec::new();
    for (id, value) in graph.values() {
        if let Some(constant) = &value.constant {
            values[id.index()] = Some(constant_wires(constant, &value.name)?);
        }
    }
    for &id in graph.inputs() {
        // An input that nothing reads has no grid; it occupies no input of the program.
        if let Some(quantiser) = claim::input_quantiser(graph, id) {
            let first: usize = ports.iter().map(|p: &Port| p.shape.iter().product::<usize>()).sum();
            values[id.index()] = Some(input_wires(builder, quantiser, &graph[id].shape, first)?);
            ports.push(port(graph, id, Some(quantiser.clone())));
        }
    }
    for (_, node) in graph.nodes() {
        let operands: Vec<Option<&Wires>> =
            node.inputs.iter().map(|i| i.and_then(|i| values[i.index()].as_ref())).collect();
        let encoded = matches!((&node.op, node.input(0)), (Op::Quantise(_), Some(x)) if graph.inputs().contains(&x));
        let wires = match (encoded, operands.first().copied().flatten()) {
            // The driver has moved the numbers onto this grid already.
            (true, Some(x)) => Ok(x.clone()),
            _ => {
                layers::lower(builder, graph, node, &operands).map_err(|p| p.at(graph.place(node)))
            }
        }?;
        values[node.output.index()] = Some(wires);
    }
    Ok((ports, values))
}

fn port(graph: &Graph, id: ValueId, quantiser: Option<Quantiser>) -> Port {
    Port { name: graph[id].name.clone(), shape: graph[id].shape.to_vec(), quantiser }
}

fn input_wires(
    builder: &mut Builder<'_>,
    quantiser: &Quantiser,
    shape: &[usize],
    first: usize,
) -> Result<Wires> {
    let bug = || Diagnostic::bug("an input's quantiser is fixed point");
    let scalars = quantiser.scalars(shape).ok_or_else(bug)?;
    scalars
        .iter()
        .enumerate()
        .map(|(index, scalar)| {
            let source = InputIndex(u32::try_from(first + index).unwrap_or(u32::MAX));
            builder.input(source, scalar.interval().ok_or_else(bug)?)
        })
        .collect()
}

/// The wires of a constant.
fn constant_wires(constant: &Constant, name: &str) -> Result<Wires> {
    let values = exact_values(constant).ok_or_else(|| {
        Diagnostic::bug(format!("the claimed constant \"{name}\" has no exact values"))
    })?;
    Ok(values.into_iter().map(Wire::Constant).collect())
}

/// Exact values of a constant; `None` when one is infinite or no number.
fn exact_values(constant: &Constant) -> Option<Vec<Dyadic>> {
    let Some(quantiser) = &constant.quantiser else {
        return constant.tensor.to_f64().into_iter().map(Dyadic::from_f64).collect();
    };
    let codes = constant.tensor.to_i64()?;
    let scalars = quantiser.scalars(constant.tensor.shape())?;
    codes
        .iter()
        .zip(&scalars)
        .map(|(&code, scalar)| {
            let steps = Dyadic::new(Int::from(code) - Int::from(scalar.zero), 0);
            Some(steps.mul(&Dyadic::from_f64(scalar.scale)?))
        })
        .collect()
}

fn slot_of(wire: &Wire) -> Option<Slot> {
    match wire {
        Wire::Slot { slot, .. } => Some(*slot),
        Wire::Constant(_) => None,
    }
}

fn output(builder: &mut Builder<'_>, wire: &Wire) -> Result<Output> {
    match wire {
        Wire::Constant(value) if value.is_zero() => {
            Ok(Output { source: None, shift: 0, negate: false })
        }
        Wire::Constant(value) => {
            Ok(Output { source: Some(builder.constant(value)?), shift: 0, negate: false })
        }
        &Wire::Slot { slot, shift, negate } => {
            builder::relative_shift(shift, 0)?;
            Ok(Output { source: Some(slot), shift, negate })
        }
    }
}

/// Where a layer's numbers are, unless an operation it needs was removed. The place lists one
/// number per element: `%slot`, `-%slot << 2` or an exact constant `=mantissa*2^exponent`.
fn tap(graph: &Graph, id: ValueId, wires: &Wires, moved: &[Option<Slot>]) -> Option<LayerTap> {
    let mut after = 0;
    let mut places = Vec::with_capacity(wires.len());
    for wire in wires {
        places.push(match wire {
            Wire::Constant(value) => Place::Constant(value.clone()),
            Wire::Slot { slot, shift, negate } => {
                let slot = moved[slot.0 as usize]?;
                after = after.max(slot.0 as usize);
                Place::Slot { slot, shift: *shift, negate: *negate }
            }
        });
    }
    let place = places.iter().map(Place::to_string).collect::<Vec<_>>().join(", ");
    Some(LayerTap { value: graph[id].name.clone(), shape: graph[id].shape.to_vec(), after, place })
}
