//! Graph to program. Passes, in order:
//!
//! 1. `claim`: which nodes the machine takes;
//! 2. `prepare`: the same graph with poolings of the largest as early as possible;
//! 3. `frontend`: the graph as layers of operations on positions and channels, `hir`, made
//!    with the `builder`;
//! 4. `shrink`: positions that nobody reads are taken out of tensors and layers;
//! 5. `finer`: layers that are too large for the machine, in smaller steps;
//! 6. `memory`: places of all tensors, and with `schedule` how every layer is cut into tiles
//!    and groups; `pinning` keeps tensors in local memory, and `links` finds those that need not
//!    exist as a whole;
//! 7. `lower`: instructions, by way of `lir`;
//! 8. `threads`: loads come early (`prefetch`), on a second thread where there is one;
//! 9. `gap`: instructions that do nothing where the machine wants some.

pub mod builder;
pub(crate) mod claim;
mod finer;
pub mod frontend;
mod gap;
mod heap;
pub mod hir;
#[cfg(test)]
mod interpret;
mod links;
pub mod lir;
mod lower;
mod memory;
mod packing;
mod pinning;
mod prefetch;
mod prepare;
mod runs;
mod schedule;
mod shrink;
mod strategy;
mod tables;
mod threads;
mod uses;

use crate::arch::TcuArch;
use crate::binary::Coder;
use crate::files::{Consts, Model, Prog, Vectors};
use crate::package::{ConstData, Package};
use crate::ports::grid;
use crate::ports::tensors::{Column, Columns};
use crate::program::Memory;
use crate::time::estimate;
use frontend::{Choices, CurveNumbers, Freedom, LookupNumbers, ProductNumbers, Shape};
use hir::{Binding, MatMul, Network, Plane, SumOrder, Table};
use lower::Lowered;
use memory::{Misfit, Placement, plane_layout};
use quincunx_contract::{Interface, LayerTap, Log, NotCompiled, Numerics, Port, Refusal, Section};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Graph;
use std::collections::{BTreeMap, VecDeque};
pub(crate) use strategy::Strategy;

/// What the user asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wishes {
    /// Freedom of the numbers.
    pub(crate) freedom: Freedom,
    /// The largest error of functions as polynomials, where there may be such.
    pub(crate) approximate: Option<f64>,
    /// The last vector of local memory and two of DRAM0 are left for the host's probe.
    pub(crate) driver_reserve: bool,
    /// What stays in local memory between layers.
    pub(crate) strategy: Strategy,
    /// Inputs are packed for the convolutions that read them.
    pub(crate) packed_inputs: bool,
    /// Instructions between a SIMD write and a move out of the accumulators.
    pub(crate) simd_write_gap: u64,
}

/// A compiled network.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// Program, description and constants.
    pub(crate) package: Package,
    /// Ports and values of layers.
    pub(crate) interface: Interface,
    /// What the compiler chose for the numbers.
    pub(crate) numerics: Numerics,
    /// Instructions and comments before them.
    pub(crate) comments: Vec<(usize, String)>,
}

/// Layers of a shape, with their places and plans.
struct Candidate {
    front: Front,
    placement: Placement,
    /// The sum of the plans' cycles.
    planned: u64,
    log: Log,
}

/// The layers of a graph, and what has to be said about them.
struct Front {
    lowered: frontend::Lowered,
    packed: packing::Settled,
}

/// Compiles a graph all of whose nodes are claimed. Of the shapes of layers that free numbers allow,
/// the one whose program takes the fewest cycles is taken. A program takes nearly as many cycles as
/// were planned; where plans leave no doubt, only the best becomes a program.
///
/// # Errors
/// `Q3085` to `Q3087` when no shape fits.
pub(crate) fn compile(
    graph: &Graph,
    arch: &TcuArch,
    wishes: &Wishes,
    log: &mut Log,
) -> std::result::Result<Compiled, NotCompiled> {
    let (candidates, mut problem) = candidates(graph, arch, wishes, log)?;
    let mut best: Option<(u64, Compiled, Log)> = None;
    for candidate in candidates {
        if best.as_ref().is_some_and(|best| !is_near(candidate.planned, Some(best.0))) {
            continue;
        }
        match finish(graph, arch, wishes, candidate) {
            Ok((compiled, own)) => {
                let cycles = estimate(&compiled.package.program, false).aggregate.cycles;
                if best.as_ref().is_none_or(|best| cycles < best.0) {
                    best = Some((cycles, compiled, own));
                }
            }
            Err(refused) => {
                problem.get_or_insert(refused);
            }
        }
    }
    match (best, problem) {
        (Some((_, compiled, own)), _) => {
            *log = own;
            Ok(compiled)
        }
        (None, Some(problem)) => Err(problem),
        (None, None) => Err(Diagnostic::bug("no shape of layers was planned").into()),
    }
}

/// The shapes whose plans are near the best, that one first, and why the first one that does not fit
/// does not.
fn candidates(
    graph: &Graph,
    arch: &TcuArch,
    wishes: &Wishes,
    log: &Log,
) -> std::result::Result<(Vec<Candidate>, Option<NotCompiled>), NotCompiled> {
    let (mut candidates, mut problem): (Vec<Candidate>, _) = (Vec::new(), None);
    let mut shapes = VecDeque::from([Shape::default()]);
    while let Some(shape) = shapes.pop_front() {
        quincunx_stop::check();
        let mut log = log.clone();
        let mut front = front(graph, arch, wishes, shape, &mut log)?;
        if shape == Shape::default() {
            shapes.extend(std::mem::take(&mut front.lowered.others));
        }
        match place(&mut front.lowered.network, arch, wishes) {
            Ok(placement) => {
                let planned = placement.plans.iter().map(|plan| plan.cycles).sum();
                candidates.push(Candidate { front, placement, planned, log });
                let fewest = candidates.iter().map(|candidate| candidate.planned).min();
                candidates.retain(|candidate| is_near(candidate.planned, fewest));
                // The same layers with sums in a given order are not planned shorter.
                if shape == Shape::Plain && !is_near(planned, fewest) {
                    shapes.retain(|&shape| shape != Shape::Ordered);
                }
            }
            Err(misfit) => {
                problem.get_or_insert_with(|| refusal(graph, &front.lowered.network, misfit));
            }
        }
    }
    candidates.sort_by_key(|candidate| candidate.planned);
    Ok((candidates, problem))
}

/// True when a program with so many planned cycles may be the fastest. Plans of large networks are
/// off by less than one per cent; small ones are quickly compiled.
fn is_near(planned: u64, fewest: Option<u64>) -> bool {
    fewest.is_none_or(|fewest| planned <= fewest + fewest / 50 + 10_000)
}

/// The layers of one shape.
fn front(
    graph: &Graph,
    arch: &TcuArch,
    wishes: &Wishes,
    shape: Shape,
    log: &mut Log,
) -> std::result::Result<Front, NotCompiled> {
    let choices = Choices { freedom: wishes.freedom, shape, approximate: wishes.approximate };
    let packed = if wishes.packed_inputs { Some(packing::pack(graph, arch)?) } else { None };
    let of_layers = packed.as_ref().map_or(graph, |packed| &packed.graph);
    let prepared = prepare::prepare(of_layers)?;
    let mut lowered = frontend::network(prepared.as_ref().unwrap_or(of_layers), arch, &choices)?;
    let network = &mut lowered.network;
    let packed = packed.map(|packed| packed.settle(network)).unwrap_or_default();
    network.observed.retain(|observed| graph.value_named(&observed.name).is_some());
    shrink::shrink(network);
    let layers = network.layers.len();
    log.pass("layers", format!("{layers} layers"), || format!("{network:#?}"));
    Ok(Front { lowered, packed })
}

/// The program of planned layers.
fn finish(
    graph: &Graph,
    arch: &TcuArch,
    wishes: &Wishes,
    candidate: Candidate,
) -> std::result::Result<(Compiled, Log), NotCompiled> {
    let Candidate { front, placement, mut log, .. } = candidate;
    let Front { lowered: layers, packed } = front;
    let frontend::Lowered { network, mut numbers, lookups, constants, clipped, .. } = layers;
    let lowered = instructions(&network, arch, wishes, &placement, &mut log);
    let mut lowered = lowered.map_err(|misfit| refusal(graph, &network, misfit))?;
    let mut interface = interface(&network, arch, &placement, &lowered);
    interface.constants = uses::constants(graph, &network, &constants, arch);
    interface.clipped = clipped;
    let folded = interface.constants.iter().filter(|constant| constant.parameter).count();
    let emitted = interface.constants.len() - folded;
    log.pass("constants", format!("{folded} are parameters, {emitted} are data"), || {
        uses::dump(&interface.constants)
    });
    for (layer, order) in network.layers.iter().zip(&lowered.orders) {
        let product = schedule::product(layer).filter(|product| !product.ordered);
        if let (Some(product), Some(order)) = (product, order) {
            choose(numbers.entry(product.node.clone()).or_default(), order, product);
        }
    }
    for node in &packed.nodes {
        numbers.entry(node.clone()).or_default().packed = true;
    }
    for (node, lookup) in &lookups {
        log.diagnostics.push(table_note(node, lookup, arch));
    }
    log.diagnostics.extend(layers.curves.iter().map(|(node, curve)| curve_note(node, curve)));
    let mut numerics = serde_json::json!({
        "data_type": arch.data_type.name(),
        "lanes": arch.array_size,
        "rounding": if wishes.freedom == Freedom::Free { "free" } else { "compat" },
        "nodes": numbers,
    });
    if !lookups.is_empty() {
        let tables = network.tables.iter().map(|table| (table.name.clone(), contents(table)));
        numerics["tables"] = serde_json::Value::Object(tables.collect());
        numerics["lookups"] = serde_json::json!(lookups);
    }
    if !layers.means.is_empty() {
        numerics["means"] = serde_json::json!(layers.means);
    }
    if !layers.leaky_sums.is_empty() {
        numerics["leaky_sums"] = serde_json::json!(layers.leaky_sums);
    }
    if !layers.curves.is_empty() {
        numerics["curves"] = serde_json::json!(layers.curves);
    }
    let comments = std::mem::take(&mut lowered.comments);
    let mut package = package(&graph.name, &network, arch, &placement, lowered)?;
    if let Some(model) = &mut package.model {
        model.packed = packed.inputs;
    }
    let numerics = Numerics(numerics);
    Ok((Compiled { package, interface, numerics, comments }, log))
}

/// A table in the numerics: scalars as the machine holds them.
fn contents(table: &Table) -> serde_json::Value {
    let mut contents = serde_json::json!({ "keys": &table.keys[..], "values": &table.values[..] });
    if let Some(slopes) = &table.slopes {
        contents["slopes"] = serde_json::json!(&slopes[..]);
    }
    contents
}

/// How far a node is from its function.
fn table_note(node: &str, lookup: &LookupNumbers, arch: &TcuArch) -> Diagnostic {
    let entries = arch.lookup_table_depth.expect("a machine without tables takes no lookup");
    let kind = if arch.lookup_tables > Some(1) { "with slopes" } else { "without slopes" };
    let message = format!(
        "\"{node}\": lookup tables of {entries} entries {kind}, largest error {}",
        short(lookup.max_error)
    );
    Diagnostic::note("Q3105", message)
}

/// The same for a function that is computed as a polynomial.
fn curve_note(node: &str, curve: &CurveNumbers) -> Diagnostic {
    let (degree, error) = (2 * curve.coefficients.len() - 1, short(curve.max_error));
    let message = format!("\"{node}\": polynomial of degree {degree}, largest error {error}");
    Diagnostic::note("Q3105", message)
}

/// Two digits behind the zeros, rounded up.
fn short(error: f64) -> f64 {
    let unit = 10.0_f64.powi(1 - error.max(f64::MIN_POSITIVE).log10().floor() as i32);
    (error * unit).ceil() / unit
}

/// Comments, each with the instruction before which it stands.
pub(crate) type Comments = Vec<(usize, String)>;

/// Compiles layers that were made with a [`builder::Builder`] to a program with its ports, and with
/// comments before instructions.
///
/// # Errors
/// `Q3085` to `Q3087` when something does not fit.
pub(crate) fn layers(
    network: &Network,
    name: &str,
    arch: &TcuArch,
    wishes: &Wishes,
) -> Result<(Package, Interface, Comments)> {
    // Layers that are too large are divided.
    let network = &mut network.clone();
    let placement = place(network, arch, wishes).map_err(|misfit| misfit.problem)?;
    let lowered = instructions(network, arch, wishes, &placement, &mut Log::default());
    let mut lowered = lowered.map_err(|misfit| misfit.problem)?;
    let interface = interface(network, arch, &placement, &lowered);
    let comments = std::mem::take(&mut lowered.comments);
    let package = package(name, network, arch, &placement, lowered)?;
    Ok((package, interface, comments))
}

/// The instructions of layers.
fn instructions(
    network: &Network,
    arch: &TcuArch,
    wishes: &Wishes,
    placement: &Placement,
    log: &mut Log,
) -> std::result::Result<Lowered, Misfit> {
    let planned: u64 = placement.plans.iter().map(|plan| plan.cycles).sum();
    log.pass("schedule", format!("{planned} cycles planned"), || plans(network, placement));
    let mut lowered = lower::lower(network, arch, placement)?;
    if let Some(order) = threads::overlap(&lowered.program) {
        lowered.program.steps = order.steps;
        lowered.follow(&order.places);
    }
    if wishes.simd_write_gap > 0 {
        let places = gap::keep_gap(&mut lowered.program.steps, wishes.simd_write_gap);
        lowered.follow(&places);
    }
    let instructions = lowered.program.steps.len();
    log.pass("lower", format!("{instructions} instructions"), || {
        crate::text::print(&lowered.program)
    });
    Ok(lowered)
}

/// The nodes of layers that do not fit are left to the host.
fn refusal(graph: &Graph, network: &Network, misfit: Misfit) -> NotCompiled {
    // A layer that was divided has its nodes in the first part.
    let nodes_of = |layer: usize| {
        let nodes = network.layers[..=layer].iter().rev().map(|layer| &layer.nodes);
        nodes.into_iter().find(|nodes| !nodes.is_empty())
    };
    let nodes = misfit.layers.iter().filter_map(|&layer| nodes_of(layer)).flatten();
    let known = nodes.filter(|node| graph.node_named(node).is_some());
    let problem = &misfit.problem;
    let refuse = |node: &String| Refusal { node: node.clone(), problem: problem.clone() };
    match known.map(refuse).collect::<Vec<_>>() {
        nodes if nodes.is_empty() => misfit.problem.into(),
        nodes => NotCompiled::Refused(nodes),
    }
}

/// Places and plans everything, in finer steps where a layer does not fit.
fn place(
    network: &mut Network,
    arch: &TcuArch,
    wishes: &Wishes,
) -> std::result::Result<Placement, Misfit> {
    loop {
        match memory::place(network, arch, wishes.driver_reserve, wishes.strategy) {
            Ok(placement) => return Ok(placement),
            Err(Misfit { finer: Some(layer), .. })
                if finer::refine(network, layer, arch.array_size) => {}
            Err(misfit) => return Err(misfit),
        }
    }
}

/// The order of an unordered product.
fn choose(numbers: &mut ProductNumbers, order: &SumOrder, product: &MatMul) {
    numbers.taps = Some(order.taps.clone());
    numbers.chunk = Some(order.chunk);
    numbers.bias = product.bias.and(order.taps.first()).map(|&tap| [tap, 0]);
}

/// The files of a program.
fn package(
    name: &str,
    network: &Network,
    arch: &TcuArch,
    placement: &Placement,
    lowered: Lowered,
) -> Result<Package> {
    let bytes = lowered.program.steps.len() as u64 * Coder::new(arch)?.bytes() as u64;
    let vectors = |binding: &Binding| {
        let var = &network.vars[binding.var.0 as usize];
        Vectors {
            name: binding.name.clone(),
            base: placement.vars[binding.var.0 as usize].base,
            size: u64::from(var.positions) * u64::from(var.blocks),
        }
    };
    let size = lowered.constants.len();
    let consts = Consts { file_name: format!("{name}.tdata"), base: 0, size };
    let model = Model {
        name: name.to_owned(),
        prog: Prog { file_name: format!("{name}.tprog"), size: bytes },
        consts: if size > 0 { vec![consts] } else { Vec::new() },
        inputs: network.inputs.iter().map(vectors).collect(),
        outputs: network.outputs.iter().map(vectors).collect(),
        arch: arch.clone(),
        load_consts_to_local: placement.constants.is_some(),
        packed: BTreeMap::new(),
        unknown: Vec::new(),
    };
    let data =
        ConstData { name: format!("{name}.tdata"), base: 0, scalars: lowered.constants.scalars };
    let consts = if size > 0 { vec![data] } else { Vec::new() };
    Ok(Package { program: lowered.program, model: Some(model), consts })
}

/// Ports, and the values that can be read.
fn interface(
    network: &Network,
    arch: &TcuArch,
    placement: &Placement,
    lowered: &Lowered,
) -> Interface {
    let port = |binding: &Binding| Port {
        name: binding.name.clone(),
        shape: binding.shape.clone(),
        grid: grid(arch.data_type),
    };
    let column = |plane: &Plane| {
        let place = placement.vars[plane.var.0 as usize];
        let var = &network.vars[plane.var.0 as usize];
        let in_local = place.memory == Memory::Local;
        let (step, offset) = plane_layout(var, plane.block, in_local);
        Column { memory: place.memory, base: place.base + offset, step }
    };
    // What passes from a layer to the next is nowhere as a whole.
    let passes = |plane: &Plane| placement.rooms.iter().any(|r| r.link == Some(plane.var));
    let whole = network.observed.iter().filter(|observed| !observed.planes.iter().any(passes));
    let layers = whole.map(|observed| LayerTap {
        value: observed.name.clone(),
        shape: observed.shape.clone(),
        after: lowered.ends[observed.layer as usize],
        place: Columns(observed.planes.iter().map(column).collect()).to_string(),
    });
    Interface {
        inputs: network.inputs.iter().map(port).collect(),
        outputs: network.outputs.iter().map(port).collect(),
        layers: layers.collect(),
        sections: sections(network, placement, lowered),
        ..Interface::default()
    }
}

/// The instructions of every layer, and how it was cut. Two layers that are computed together are
/// one.
fn sections(network: &Network, placement: &Placement, lowered: &Lowered) -> Vec<Section> {
    let starts = [0].into_iter().chain(lowered.ends.iter().copied());
    let section = |(index, first): (usize, usize)| {
        if index > 0 && placement.link(index - 1).is_some() {
            return None;
        }
        let plan = &placement.plans[index];
        let pieces = lowered.tiles[index].clone();
        let partitions = plan.tiles.len() as u64;
        let all = index..index + if placement.link(index).is_some() { 2 } else { 1 };
        let layers = &network.layers[all.clone()];
        let figures = [
            ("stages", pieces.len() as u64 / partitions.max(1)),
            ("partitions", partitions),
            ("stage_blocks", plan.group.into()),
            ("weight_rows_stay", all.clone().map(|index| placement.plans[index].rows_stay).sum()),
            ("planes_stay", plan.resident.iter().copied().map(u64::from).sum()),
            ("partitions_outside", (plan.nest == schedule::Nest::Tiles).into()),
        ];
        let figures = figures.map(|(name, value)| (name.to_owned(), value)).into();
        let name = layers.iter().map(|layer| &layer.name[..]).collect::<Vec<_>>().join(" and ");
        let nodes = layers.iter().flat_map(|layer| layer.nodes.clone()).collect();
        let macs = layers.iter().map(|layer| layer.macs).sum();
        Some(Section { name, nodes, first, macs, figures, pieces })
    };
    (0..network.layers.len()).zip(starts).filter_map(section).collect()
}

/// One line for every layer.
fn plans(network: &Network, placement: &Placement) -> String {
    let line = |(index, plan): (usize, &schedule::Plan)| {
        format!(
            "{}{}: {} tiles, groups of {}, {:?} outside, planes {:?} and {} rows stay, {} cycles\n",
            network.layers[index].name,
            if placement.link(index).is_some() { ", together with the next" } else { "" },
            plan.tiles.len(),
            plan.group,
            plan.nest,
            plan.resident,
            plan.rows_stay,
            plan.cycles
        )
    };
    placement.plans.iter().enumerate().map(line).collect()
}
