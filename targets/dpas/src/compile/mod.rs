//! Graph to program.
//!
//! 1. [`layers`]: nodes become layers of the machine, or stay on the host for a reason.
//! 2. [`place`]: values become buffers of images with a border of zeros.
//! 3. [`lower`]: every layer becomes kernels, one for every tile that it could have, and their
//!    constants; [`requantise`] proves that the kernels' codes are those of exact rounding.
//! 4. [`kernel`]: kernels as text.
//! 5. [`build`]: kernels are assembled and get their dependencies; the timing model chooses one for
//!    every layer, which becomes a launch.

mod axes;
mod build;
mod kernel;
mod layers;
mod lower;
mod place;
mod requantise;
#[cfg(test)]
mod tests;
mod weights;

use crate::arch::DpasArch;
use crate::artifact::DeviceArtifact;
use crate::options::{Precision, Settings};
use crate::ports::buffers;
use crate::program::device::{Buffer, Layer as DeviceLayer, Role};
use build::{Builder, Names};
use layers::{Form, Layer, Network, Numbers, Operation};
use lower::Work;
use place::Image;
use quincunx_contract::{Claim, Compiled, Interface, Log, NotCompiled, Refused, Scaling};
use quincunx_diag::Diagnostic;
use quincunx_graph::{Graph, NodeId, Op, ValueId};
use quincunx_num::{Dyadic, Ratio};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// For every node, whether the machine takes it.
pub(crate) fn claim(
    graph: &Graph,
    refused: &Refused,
    arch: &DpasArch,
    precision: Precision,
) -> Vec<Claim> {
    let network = Network::new(graph, refused, (precision, arch), &FxHashSet::default());
    let claim = |id| match network.reasons.get(&id) {
        None => Claim::Device,
        Some(reason) => Claim::Host(reason.clone()),
    };
    graph.nodes().map(|(id, _)| claim(id)).collect()
}

/// Compiles a graph all of whose nodes are on the machine.
///
/// # Errors
/// Layers that do not fit, or what went wrong.
pub(crate) fn compile(
    graph: &Graph,
    arch: &DpasArch,
    (settings, precision): (&Settings, Precision),
    log: &mut Log,
) -> std::result::Result<Compiled, NotCompiled> {
    log.start();
    let mut program = Builder::new(arch, settings.allow.stride);
    let network = network(graph, (precision, arch), &mut program);
    if let Some((&node, reason)) = network.reasons.iter().min_by_key(|(node, _)| node.index()) {
        let problem = Diagnostic::unsupported("Q6180", reason.clone());
        return Err(NotCompiled::at_node(graph, &graph[node], problem));
    }
    log.pass("layers", format!("{} layers", network.layers.len()), || dump(graph, &network));
    let images = images(&network, arch);
    for (value, image) in sorted(&images) {
        program.device.buffers.extend(buffers_of(graph, &network, value, image));
    }
    for layer in &network.layers {
        if matches!(layer.operation, Operation::Enter | Operation::Alias) {
            continue;
        }
        let work = work(&network, &images, layer, arch);
        program
            .add(&work, names(graph, &network, layer))
            .map_err(|problem| NotCompiled::at_node(graph, &graph[layer.nodes[0]], problem))?;
    }
    if let (true, Some((_, node))) = (program.device.launches.is_empty(), graph.nodes().next()) {
        let problem = Diagnostic::unsupported("Q6181", "nothing is left to compute");
        return Err(NotCompiled::at_node(graph, node, problem));
    }
    let kernels = program.device.kernels.len();
    log.pass("kernels", format!("{kernels} kernels"), String::new);
    let mut interface = buffers::interface(&program.device);
    finish(graph, &network, &mut interface);
    let artifact = DeviceArtifact::new(program.device, Some(interface), arch.clone(), *settings)?;
    let numerics = network.numerics(graph);
    Ok(Compiled { program: Box::new(artifact), numerics })
}

fn work<'a>(
    network: &'a Network,
    images: &FxHashMap<ValueId, Image>,
    layer: &'a Layer,
    arch: &'a DpasArch,
) -> Work<'a> {
    Work::new(layer, network, &|value: ValueId| images[&network.root(value)], arch)
}

/// The layers of a graph. The maximum of a product's results is found in its kernel where that does not
/// take more cycles than two kernels.
fn network(
    graph: &Graph,
    (precision, arch): (Precision, &DpasArch),
    program: &mut Builder<'_>,
) -> Network {
    let network = |apart: &FxHashSet<NodeId>| {
        Network::new(graph, &Refused::default(), (precision, arch), apart)
    };
    let together = network(&FxHashSet::default());
    let pools: Vec<(NodeId, &Layer)> = together.layers.iter().filter_map(pool).collect();
    if pools.is_empty() {
        return together;
    }
    let all: FxHashSet<NodeId> = pools.iter().map(|&(pool, _)| pool).collect();
    let apart = network(&all);
    let ways = [&together, &apart].map(|network| (network, images(network, arch)));
    let mut cycles = |(network, images): &(&Network, FxHashMap<ValueId, Image>),
                      nodes: &[NodeId]| {
        let own =
            network.layers.iter().filter(|layer| layer.nodes.iter().any(|id| nodes.contains(id)));
        let cycles = own.map(|layer| program.cycles(&work(network, images, layer, arch)));
        cycles.fold(0, u64::saturating_add)
    };
    let mut is_slower = |&(_, layer): &(NodeId, &Layer)| {
        let [together, apart] = [0, 1].map(|way| cycles(&ways[way], &layer.nodes));
        together > apart
    };
    let slower: FxHashSet<NodeId> =
        pools.iter().filter(|pool| is_slower(pool)).map(|&(pool, _)| pool).collect();
    match slower.len() {
        0 => together,
        count if count == all.len() => apart,
        _ => {
            // They hold all weights.
            drop((together, apart));
            network(&slower)
        }
    }
}

/// A layer that finds a maximum of a product, and the node that is the maximum.
fn pool(layer: &Layer) -> Option<(NodeId, &Layer)> {
    let last = layer.pooled.and(layer.nodes.last())?;
    Some((*last, layer))
}

/// Roots in the order of their first layer.
fn sorted(images: &FxHashMap<ValueId, Image>) -> Vec<(ValueId, Image)> {
    let mut all: Vec<(ValueId, Image)> = images.iter().map(|(&id, &image)| (id, image)).collect();
    all.sort_by_key(|(id, _)| id.index());
    all
}

/// Where every value lies: with a border as wide as its readers need.
fn images(network: &Network, arch: &DpasArch) -> FxHashMap<ValueId, Image> {
    let mut images: FxHashMap<ValueId, Image> = FxHashMap::default();
    for layer in &network.layers {
        let form = &network.forms[&layer.output];
        match layer.operation {
            Operation::Alias => continue,
            Operation::Enter => {
                let pixel = match form.extents[2] * form.numbers.size() {
                    bytes @ ..=4 => bytes.next_power_of_two().max(4),
                    bytes => lower::aligned(bytes.next_multiple_of(8), arch.platform),
                };
                images.insert(layer.output, Image::new(form, pixel));
            }
            _ => {
                let pixel = lower::pixel(form, arch.platform);
                images.insert(layer.output, Image::new(form, pixel));
            }
        }
    }
    for layer in &network.layers {
        let unit = match layer.operation {
            // Kernels that compute element by element load 64 bits.
            Operation::Largest(_) | Operation::Add => 8,
            Operation::Softmax => kernel::softmax::BLOCK,
            Operation::Joined(_) if arch.platform.is_second() => lower::LINE,
            Operation::Joined(_) => kernel::product::STEP,
            _ => 1,
        };
        // Other results leave in units of the pixels that they have.
        let leaves = matches!(layer.operation, Operation::Softmax | Operation::Joined(_));
        for &value in layer.inputs.iter().chain(leaves.then_some(&layer.output)) {
            if let Some(image) = images.get_mut(&network.root(value)) {
                image.pixel = image.pixel.next_multiple_of(unit);
            }
        }
        if let Operation::Joined(joined) = &layer.operation
            && let Some(image) = images.get_mut(&network.root(layer.inputs[1]))
        {
            // Loads of rows go to the end of the result's tiles.
            let form = &network.forms[&layer.output];
            let bytes =
                lower::padded(form, arch.platform) * network.forms[&layer.inputs[1]].numbers.size();
            image.has_zeros = true;
            if !joined.is_across && image.pixel < bytes && form.extents[2] == joined.columns {
                image.pixel = bytes.next_multiple_of(unit);
            }
        }
        let (Operation::Product(frame) | Operation::Largest(frame)) = layer.operation else {
            continue;
        };
        if let Some(image) = images.get_mut(&network.root(layer.inputs[0])) {
            for axis in 0..2 {
                image.before[axis] = image.before[axis].max(frame.before[axis]);
                image.behind[axis] = image.behind[axis].max(frame.behind[axis]);
            }
        }
    }
    images
}

/// The layer by which a value enters.
fn entering(network: &Network, root: ValueId) -> Option<&Layer> {
    let mut layers = network.layers.iter();
    layers.find(|layer| layer.operation == Operation::Enter && layer.output == root)
}

/// The name of a root's buffer: that of the port by which it enters, or of the value.
fn name(graph: &Graph, network: &Network, root: ValueId) -> String {
    let value = entering(network, root).map_or(root, |layer| layer.inputs[0]);
    graph[value].name.clone()
}

/// The buffers of a root: its own, and for every output that is the same memory one inside.
fn buffers_of(graph: &Graph, network: &Network, root: ValueId, image: Image) -> Vec<Buffer> {
    let (own, enters) = (name(graph, network, root), entering(network, root).is_some());
    let outputs = || graph.outputs().iter().filter(|&&output| network.root(output) == root);
    let role = match (enters, outputs().any(|&output| output == root)) {
        (true, _) => Role::Input,
        (false, true) => Role::Output,
        (false, false) => Role::Scratch,
    };
    let others = outputs().filter(|&&output| enters || output != root).map(|&output| {
        let name = graph[output].name.clone();
        let inside = buffer(graph, network, (output, name), image, Role::Output);
        Buffer { inside: Some((own.clone(), 0)), fill: 0, ..inside }
    });
    let first = buffer(graph, network, (root, own.clone()), image, role);
    [first].into_iter().chain(others).collect()
}

fn buffer(
    graph: &Graph,
    network: &Network,
    (value, name): (ValueId, String),
    image: Image,
    role: Role,
) -> Buffer {
    let form = &network.forms[&value];
    let shape = &graph[value].shape;
    let grid = match form.numbers {
        Numbers::Codes(codes) => Some((codes.scale, i64::from(codes.zero))),
        Numbers::Sums | Numbers::Floats(_) => None,
    };
    let element = form.numbers.element();
    let mut buffer = Buffer::new(name, element, shape, role);
    let (strides, first) = image.strides(form, shape);
    buffer.strides = Some(strides);
    buffer.offset = first as u64;
    buffer.bytes = image.bytes() as u64;
    buffer.grid = grid;
    if let Numbers::Codes(codes) = form.numbers {
        // What the border holds.
        buffer.fill = codes.zero as u8;
    }
    buffer
}

/// Grids of ports as the graph has them, and what the driver makes of sums.
fn finish(graph: &Graph, network: &Network, interface: &mut Interface) {
    for layer in network.layers.iter().filter(|layer| layer.operation == Operation::Enter) {
        let name = &graph[layer.inputs[0]].name;
        let port = interface.inputs.iter_mut().find(|port| port.name == *name);
        let quantise = layer.nodes.first().map(|&node| &graph[node].op);
        if let (Some(port), Some(Op::Quantise(quantiser))) = (port, quantise) {
            port.grid = quincunx_contract::Grid::Codes(quantiser.clone());
        }
    }
    for layer in &network.layers {
        let (Some(product), Numbers::Sums) = (&layer.product, network.forms[&layer.output].numbers)
        else {
            continue;
        };
        let channels = |text: &dyn Fn(&weights::Sum) -> String| -> Vec<String> {
            product.sums.iter().map(text).collect()
        };
        let exact = |x: f64| Dyadic::from_f64(x).unwrap_or(Dyadic::ZERO);
        let factors = channels(&|sum| {
            let [a, b] = sum.scales.map(exact);
            (a.mul(&b).to_ratio() / Ratio::from(sum.divisor)).to_string()
        });
        let addends = channels(&|sum| sum.rest().to_ratio().to_string());
        let shape = &graph[layer.output].shape;
        let form = &network.forms[&layer.output];
        let spread = |list: Vec<String>| spread(&list, shape, form);
        let output = graph[layer.output].name.clone();
        interface.scalings.push(Scaling {
            output,
            factors: spread(factors),
            addends: spread(addends),
        });
    }
}

/// What every channel has, for every element; one for all where they are the same.
fn spread(list: &[String], shape: &[usize], form: &Form) -> Vec<String> {
    if list.iter().all(|one| *one == list[0]) {
        return list[..1].to_vec();
    }
    let inner: usize = match form.view {
        layers::View::Second => shape.iter().skip(2).product(),
        _ => 1,
    };
    let count = shape.iter().product::<usize>();
    (0..count).map(|at| list[at / inner % list.len()].clone()).collect()
}

/// What a layer is called.
fn names(graph: &Graph, network: &Network, layer: &Layer) -> Names {
    let nodes: Vec<String> = layer.nodes.iter().map(|&id| graph[id].name.clone()).collect();
    let buffer = |value: ValueId| name(graph, network, network.root(value));
    let buffers = layer.inputs.iter().chain([&layer.output]).map(|&value| buffer(value));
    let constants = graph.fresh_value_name(&format!("{}.constants", nodes[0]));
    let buffers = buffers.collect();
    let last = graph[layer.output].name.clone();
    let layer = DeviceLayer {
        name: nodes[0].clone(),
        macs: layer.nodes.iter().map(|&node| graph.macs(&graph[node])).sum(),
        nodes,
        values: BTreeMap::from([(last, buffer(layer.output))]),
        ..DeviceLayer::default()
    };
    Names { layer, buffers, constants }
}

/// The layers as text.
fn dump(graph: &Graph, network: &Network) -> String {
    let line = |(index, layer): (usize, &Layer)| {
        let names: Vec<&str> = layer.nodes.iter().map(|&node| graph[node].name.as_str()).collect();
        let form = &network.forms[&layer.output];
        format!("{index}: {} {:?} -> {form:?}\n", names.join("+"), layer.operation)
    };
    network.layers.iter().enumerate().map(line).collect()
}
