//! Graph to program. Passes, in order:
//!
//! 1. `claim`: which nodes the machine takes;
//! 2. `frontend`: the graph as layers of operations on positions and channels, `hir`, made
//!    with the `builder`;
//! 3. `memory`: places of all tensors, and with `schedule` how every layer is cut into tiles
//!    and groups;
//! 4. `lower`: instructions, by way of `lir`;
//! 5. `gap`: instructions that do nothing where the machine wants some.

pub mod builder;
pub(crate) mod claim;
pub mod frontend;
mod gap;
mod heap;
pub mod hir;
#[cfg(test)]
mod interpret;
pub mod lir;
mod lower;
mod memory;
mod runs;
mod schedule;

use crate::arch::TcuArch;
use crate::binary::Coder;
use crate::files::{Consts, Model, Prog, Vectors};
use crate::package::{ConstData, Package};
use crate::ports::grid;
use crate::program::Memory;
use crate::tensors::{Column, Columns};
use frontend::{Choices, Freedom, ProductNumbers};
use hir::{Binding, MatMul, Network, Plane, SumOrder};
use lower::Lowered;
use memory::{Placement, plane_layout};
use quincunx_diag::Result;
use quincunx_graph::Graph;
use quincunx_target::{Interface, LayerTap, Log, Numerics, Port};

/// What the user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// Freedom of the numbers.
    pub(crate) freedom: Freedom,
    /// The last vector of local memory and two of DRAM0 are left for the host's probe.
    pub(crate) driver_reserve: bool,
    /// Tensors may stay in local memory between layers.
    pub(crate) keep_local: bool,
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
    /// Cycles in which any program of these layers multiplies: one for every input vector that is
    /// not padding, and every block of output channels.
    pub(crate) products: u64,
}

/// Compiles a graph all of whose nodes are claimed.
///
/// # Errors
/// `Q3085` to `Q3087` when something does not fit.
pub(crate) fn compile(
    graph: &Graph,
    arch: &TcuArch,
    wishes: &Wishes,
    log: &mut Log,
) -> Result<Compiled> {
    let choices = Choices { freedom: wishes.freedom };
    let frontend::Lowered { network, mut numbers, .. } = frontend::network(graph, arch, &choices)?;
    let layers = network.layers.len();
    log.pass("layers", format!("{layers} layers"), || format!("{network:#?}"));
    let placement = memory::place(&network, arch, wishes.driver_reserve, wishes.keep_local)?;
    let planned: u64 = placement.plans.iter().map(|plan| plan.cycles).sum();
    log.pass("schedule", format!("{planned} cycles planned"), || plans(&network, &placement));
    let mut lowered = lower::lower(&network, arch, &placement)?;
    if wishes.simd_write_gap > 0 {
        let places = gap::keep_gap(&mut lowered.program.steps, wishes.simd_write_gap);
        lowered.ends.iter_mut().for_each(|end| *end = places[*end]);
        lowered.comments.iter_mut().for_each(|(at, _)| *at = places[*at]);
    }
    let instructions = lowered.program.steps.len();
    log.pass("lower", format!("{instructions} instructions"), || {
        crate::text::print(&lowered.program)
    });
    let interface = interface(&network, arch, &placement, &lowered);
    for (layer, order) in network.layers.iter().zip(&lowered.orders) {
        let product = schedule::product(layer).filter(|product| !product.ordered);
        if let (Some(product), Some(order)) = (product, order) {
            choose(numbers.entry(product.node.clone()).or_default(), order, product);
        }
    }
    let numerics = serde_json::json!({
        "data_type": arch.data_type.name(),
        "lanes": arch.array_size,
        "rounding": if wishes.freedom == Freedom::Free { "free" } else { "compat" },
        "nodes": numbers,
    });
    let comments = std::mem::take(&mut lowered.comments);
    let products = network.layers.iter().map(|layer| schedule::products(layer, arch)).sum();
    let bytes = instructions as u64 * Coder::new(arch)?.bytes() as u64;
    let package = package((&graph.name, bytes), &network, arch, &placement, lowered);
    Ok(Compiled { package, interface, numerics: Numerics(numerics), comments, products })
}

/// The order of an unordered product.
fn choose(numbers: &mut ProductNumbers, order: &SumOrder, product: &MatMul) {
    numbers.taps = Some(order.taps.clone());
    numbers.chunk = Some(order.chunk);
    numbers.bias = product.bias.and(order.taps.first()).map(|&tap| [tap, 0]);
}

/// The files of a program.
fn package(
    (name, bytes): (&str, u64),
    network: &Network,
    arch: &TcuArch,
    placement: &Placement,
    lowered: Lowered,
) -> Package {
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
        load_consts_to_local: false,
        unknown: Vec::new(),
    };
    let data =
        ConstData { name: format!("{name}.tdata"), base: 0, scalars: lowered.constants.scalars };
    let consts = if size > 0 { vec![data] } else { Vec::new() };
    Package { program: lowered.program, model: Some(model), consts }
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
        quantiser: grid(arch),
    };
    let column = |plane: &Plane| {
        let place = placement.vars[plane.var.0 as usize];
        let var = &network.vars[plane.var.0 as usize];
        let in_local = place.memory == Memory::Local;
        let (step, offset) = plane_layout(var, plane.block, in_local);
        Column { memory: place.memory, base: place.base + offset, step }
    };
    let layers = network.observed.iter().map(|observed| LayerTap {
        value: observed.name.clone(),
        shape: observed.shape.clone(),
        after: lowered.ends[observed.layer as usize],
        place: Columns(observed.planes.iter().map(column).collect()).to_string(),
    });
    Interface {
        inputs: network.inputs.iter().map(port).collect(),
        outputs: network.outputs.iter().map(port).collect(),
        layers: layers.collect(),
    }
}

/// One line for every layer.
fn plans(network: &Network, placement: &Placement) -> String {
    let line = |(index, plan): (usize, &schedule::Plan)| {
        format!(
            "{}: {} tiles, groups of {}, {:?} outside, inputs {}, {} rows stay, {} cycles\n",
            network.layers[index].name,
            plan.tiles.len(),
            plan.group,
            plan.nest,
            if plan.inputs_stay { "stay" } else { "do not stay" },
            plan.rows_stay,
            plan.cycles
        )
    };
    placement.plans.iter().enumerate().map(line).collect()
}
