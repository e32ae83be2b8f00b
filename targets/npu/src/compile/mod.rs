//! Graph to program.
//!
//! 1. [`layers`]: nodes become layers of the machine, or stay on the host for a reason.
//! 2. [`weights`]: constants become blocks of weights in DRAM.
//! 3. [`steps`], [`tiles`]: layers are cut into steps: images, rows, blocks of output channels.
//! 4. [`memory`], [`schedule`], [`team`]: places, transfers and lines with tokens, of every core,
//!    simulated as they are written.
//!
//! The last two are done for several ways to cut, and the timing model chooses.

mod export;
mod functions;
pub(crate) mod layers;
mod memory;
mod products;
mod schedule;
mod steps;
mod team;
mod tiles;
mod transfers;
mod turns;
mod weights;

use crate::arch::NpuArch;
use crate::artifact::Artifact;
use crate::isa::DataFmt;
use crate::ports::{NamedTensor, Part, Tap, View};
use crate::program::Program;
use crate::time::Model;
use export::Record;
use layers::{Act, Form, Grid, Layer, Network, Operation, Subset};
use quincunx_contract::{
    Compiled, Interface, LayerTap, Log, NotCompiled, Options, Port, Refused, Section,
};
use quincunx_diag::{Class, Diagnostic, Result};
use quincunx_graph::{Binary, Graph, Node, Op, ValueId};
use rustc_hash::FxHashMap;
use schedule::{DramTensor, Job, Misfit, Scheduled, schedule};
use std::collections::BTreeMap;
use steps::{Cutter, Knobs, Ways, fold_frame, format};
use team::Shares;
use weights::Rows;

/// DRAM tensors begin at multiples of this.
const ALIGN: u32 = 64;

/// How much is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    Fast,
    Default,
    Max,
}

/// What the user asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    pub(crate) model: Model,
    pub(crate) effort: Effort,
    pub(crate) subset: Subset,
}

/// Compiles a graph all of whose nodes are on the machine.
///
/// # Errors
/// Layers that do not fit, or what went wrong.
pub(crate) fn compile(
    graph: &Graph,
    arch: &NpuArch,
    wishes: Wishes,
    options: &Options,
    log: &mut Log,
) -> std::result::Result<Compiled, NotCompiled> {
    log.start();
    let network = Network::new(graph, &Refused::default(), wishes.subset);
    if let Some((&node, reason)) = network.reasons.iter().min_by_key(|(node, _)| node.index()) {
        let problem = Diagnostic::unsupported("Q4093", reason.clone());
        return Err(NotCompiled::at_node(graph, &graph[node], problem));
    }
    log.pass("layers", format!("{} layers", network.layers.len()), || dump(graph, &network));
    let folds = folds(graph, &network);
    let (mut image, weights) = weigh(graph, &network, &folds)?;
    log.pass("weights", format!("{} bytes", image.len()), String::new);
    let mut tensors = dram(graph, &network, &folds)?;
    tensors.0.extend(constants(graph, &network, &mut image)?);
    let images = network.forms.values().map(|form| form.images).max().unwrap_or(1);
    let shares = shares(images, arch.cores_x * arch.cores_y);
    let job = Job { network: &network, inputs: tensors.0, outputs: tensors.1, weights, shares };
    let mut cutter = Cutter {
        arch,
        model: wishes.model,
        network: &network,
        folds: &folds,
        minis: Default::default(),
        cuts: FxHashMap::default(),
    };
    let (ways, found) = search(&mut cutter, &job, wishes.effort, graph)?;
    log.pass("schedule", format!("{} cycles, {:?}", found.cycles, ways.all), String::new);
    let all = arch.cores_x * arch.cores_y;
    if found.programs.len() < all as usize {
        let used = found.programs.len();
        let message = format!("the program uses {used} of the machine's {all} cores");
        log.diagnostics.push(Diagnostic::note("Q4095", message));
    }
    let interface = interface(graph, &network, &folds, &found);
    let named = named(graph, &job, images);
    let memory = if image.is_empty() { Vec::new() } else { vec![(1, image.into())] };
    let program =
        Artifact::compiled(found.programs, named, memory, Some(interface), arch, options)?.sealed();
    let numerics = network.numerics(graph);
    let (tensors, weights) = ((job.inputs, job.outputs), job.weights);
    let record = Record::new(graph, network, folds, tensors, weights, found.layout);
    let program = Box::new(program.with_description(Box::new(record)));
    Ok(Compiled { program, numerics })
}

/// Images of every core: as many for one as for another, about, and the most for the first.
fn shares(images: u32, cores: u32) -> Shares {
    let cores = cores.clamp(1, images.max(1));
    (0..cores).map(|core| images / cores + u32::from(core < images % cores)).collect()
}

/// Where the search for a way to cut begins, for groups of so many images.
fn start(group: u32) -> Knobs {
    let rows = if group == 1 { 8_000 } else { 1 << 40 };
    let direct = u32::from(group > 1);
    let (chunk, set, height, share, linger) = (group.min(2), 4, 16, 8, 2);
    Knobs { group, chunk, rows, set, height, share, linger, patience: 0, direct, lead: 8 }
}

/// Ways to cut that differ from one in one respect.
fn neighbours(knobs: Knobs) -> Vec<Knobs> {
    let mut found = layer_neighbours(knobs, true);
    found.extend([0, 1, 2, 4, 8].map(|linger| Knobs { linger, ..knobs }));
    found.extend([0, 4, 8, 16, 32].map(|lead| Knobs { lead, ..knobs }));
    found.retain(|&other| other != knobs);
    found
}

/// The same in what counts for a layer with or without weights.
fn layer_neighbours(knobs: Knobs, has_weights: bool) -> Vec<Knobs> {
    let mut found = Vec::new();
    // Several images are not cut into rows.
    if knobs.group == 1 {
        found.extend([4_000, 8_000, 16_000, 1 << 40].map(|rows| Knobs { rows, ..knobs }));
        found.extend([8, 16, 24].map(|height| Knobs { height, ..knobs }));
    }
    if has_weights {
        let chunks = [1, 2, 4, 8].into_iter().filter(|&chunk| chunk <= knobs.group);
        found.extend(chunks.map(|chunk| Knobs { chunk, ..knobs }));
        found.extend([1, 2, 4, 32].map(|set| Knobs { set, ..knobs }));
        found.extend([4, 6, 8, 12, 16].map(|share| Knobs { share, ..knobs }));
        found.extend([0, 4_000, 16_000].map(|patience| Knobs { patience, ..knobs }));
        found.extend([0, 1, 2, 3, 4].map(|direct| Knobs { direct, ..knobs }));
    }
    found.retain(|&other| other != knobs);
    found
}

/// A search over ways to cut.
struct Search<'s, 'c, 'a> {
    cutter: &'c mut Cutter<'a>,
    job: &'s Job<'a>,
    best: Option<(Ways, Scheduled)>,
    misfit: Option<Misfit>,
    seen: Vec<Knobs>,
}

impl Search<'_, '_, '_> {
    /// Tries a way to cut; true when it is the best so far.
    fn try_one(&mut self, knobs: Knobs) -> std::result::Result<bool, NotCompiled> {
        if self.seen.contains(&knobs) {
            return Ok(false);
        }
        self.seen.push(knobs);
        self.try_ways(Ways { all: knobs, layers: BTreeMap::new() })
    }

    fn try_ways(&mut self, ways: Ways) -> std::result::Result<bool, NotCompiled> {
        quincunx_stop::check();
        match schedule(self.cutter, self.job, &ways) {
            Ok(found) => {
                let best = self.best.as_ref().map(|(_, best)| best.cycles);
                // What is as good replaces the best too, so that the search moves on.
                if best.is_none_or(|best| found.cycles <= best) {
                    let better = best.is_none_or(|best| found.cycles < best);
                    self.best = Some((ways, found));
                    return Ok(better);
                }
                Ok(false)
            }
            Err(misfit) if misfit.problem.class() == Class::Unsupported => {
                self.misfit = Some(misfit);
                Ok(false)
            }
            Err(misfit) => Err(misfit.problem.into()),
        }
    }

    /// Cuts one layer after the other in another way, at random, and keeps what is no slower.
    fn single_layers(&mut self, effort: Effort) -> std::result::Result<(), NotCompiled> {
        let Some(best) = &self.best else { return Ok(()) };
        let found = &best.1;
        // Long programs take longer to write.
        let lines = found.programs.iter().map(|program| program.lines.len()).sum::<usize>().max(1);
        let trials = match effort {
            Effort::Fast => 0,
            Effort::Default => 1_000_000 / lines,
            Effort::Max => 8_000_000 / lines,
        };
        let network = self.job.network;
        let others = |ways: &Ways, layer: usize| match network.layers[layer].operation {
            Operation::Enter | Operation::Alias => Vec::new(),
            Operation::Conv { .. } => layer_neighbours(ways.of(layer), true),
            _ => layer_neighbours(ways.of(layer), false),
        };
        let is_cut = |layer: &usize| !others(&best.0, *layer).is_empty();
        let layers: Vec<usize> = (0..network.layers.len()).filter(is_cut).collect();
        let mut random = 1_u64;
        let mut below = |count: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % count.max(1)
        };
        for _ in 0..trials.min(20_000) {
            let Some((best, _)) = &self.best else { break };
            let mut ways = best.clone();
            let Some(&layer) = layers.get(below(layers.len())) else { break };
            let others = others(&ways, layer);
            ways.layers.insert(layer, others[below(others.len())]);
            self.try_ways(ways)?;
        }
        Ok(())
    }
}

/// The best schedule of several ways to cut. Of long batches eight images are tried, since more of
/// them repeat what these do.
fn search<'a>(
    cutter: &mut Cutter<'a>,
    job: &Job<'a>,
    effort: Effort,
    graph: &Graph,
) -> std::result::Result<(Ways, Scheduled), NotCompiled> {
    let images = job.shares[0];
    let shares = job.shares.iter().map(|&share| share.min(8)).collect();
    let trial = Job { shares, ..job.clone() };
    let mut search = Search { cutter, job: &trial, best: None, misfit: None, seen: Vec::new() };
    for group in [8, 4, 2, 1].into_iter().filter(|&group| group <= images) {
        for linger in [2, 0] {
            search.try_one(Knobs { linger, ..start(group) })?;
        }
    }
    let rounds = match effort {
        Effort::Fast => 0,
        Effort::Default => 2,
        Effort::Max => 8,
    };
    for _ in 0..rounds {
        let Some((ways, _)) = &search.best else { break };
        let knobs = ways.all;
        let mut better = false;
        for other in neighbours(knobs) {
            better |= search.try_one(other)?;
        }
        if !better {
            break;
        }
    }
    search.single_layers(effort)?;
    let Search { best, misfit, .. } = search;
    let (ways, found) = best.ok_or_else(|| refuse(graph, cutter.network, misfit))?;
    let found = match trial.shares == job.shares {
        true => found,
        false => schedule(cutter, job, &ways).map_err(|misfit| misfit.problem)?,
    };
    Ok((ways, found))
}

/// The node of a layer that does not fit goes to the host: where all layers together do not fit, that
/// of the layer with the largest tensors.
fn refuse(graph: &Graph, network: &Network, misfit: Option<Misfit>) -> NotCompiled {
    let misfit = misfit.unwrap_or_else(|| Diagnostic::bug("no way to cut was tried").into());
    let Misfit { layer, problem } = misfit;
    let bytes = |layer: &&Layer| {
        let form = |value: &ValueId| {
            let Form { images, extents: [c, h, w], .. } = network.forms[value];
            u64::from(images) * u64::from(c) * u64::from(h) * u64::from(w)
        };
        let inputs: u64 =
            layer.inputs.iter().filter(|v| network.forms.contains_key(v)).map(form).sum();
        inputs + form(&layer.output)
    };
    let computes = |layer: &&Layer| {
        !layer.nodes.is_empty() && !matches!(layer.operation, Operation::Enter | Operation::Alias)
    };
    let largest = || network.layers.iter().filter(computes).max_by_key(bytes);
    match layer.map(|index| &network.layers[index]).or_else(largest) {
        Some(layer) => NotCompiled::at_node(graph, &graph[layer.nodes[0]], problem),
        None => problem.into(),
    }
}

/// Inputs whose columns become channels: images of few channels that only one convolution reads,
/// with a stride along the columns.
fn folds(graph: &Graph, network: &Network) -> FxHashMap<ValueId, u32> {
    let mut folds = FxHashMap::default();
    for layer in &network.layers {
        let Operation::Conv { frame, groups: 1 } = layer.operation else { continue };
        let root = network.root(layer.inputs[0]);
        let readers = |value: ValueId| {
            let reads = |other: &&Layer| {
                other.inputs.contains(&value) && other.operation != Operation::Enter
            };
            network.layers.iter().filter(reads).count()
        };
        let maker = |value: ValueId| network.layers.iter().find(|other| other.output == value);
        // An input, or one that the vector queue quantises before.
        let half = maker(root)
            .filter(|other| other.operation == Operation::Copy && other.act == Act::None)
            .map(|other| other.inputs[0]);
        let entered = half.unwrap_or(root);
        let enters = maker(entered).is_some_and(|other| other.operation == Operation::Enter)
            && readers(entered) == 1;
        let [c, _, w] = network.forms[&root].extents;
        let fold = frame.stride[1];
        let fits = fold > 1
            && c * fold <= 8
            && w.is_multiple_of(fold)
            && frame.dilate == [1, 1]
            && fold_frame(frame, fold).0.start[1] >= -16
            // The windows of the folded image must not end before those of the image.
            && fold_frame(frame, fold).0.kernel[1] <= 31;
        let is_output = graph.outputs().iter().any(|&output| network.root(output) == root);
        if enters && readers(root) == 1 && layer.inputs[0] == root && fits && !is_output {
            folds.insert(root, fold);
            folds.insert(entered, fold);
        }
    }
    folds
}

/// The DRAM image of all weights, and where those of every layer begin.
fn weigh(
    graph: &Graph,
    network: &Network,
    folds: &FxHashMap<ValueId, u32>,
) -> std::result::Result<(Vec<u8>, FxHashMap<usize, u32>), NotCompiled> {
    let (mut image, mut places) = (Vec::new(), FxHashMap::default());
    for (index, layer) in network.layers.iter().enumerate() {
        if let Operation::Product(product) = &layer.operation {
            let scale = |value: ValueId| match network.forms[&value].grid {
                Grid::Codes { scale, .. } => scale,
                Grid::Half => 1.0,
            };
            let factor = scale(layer.inputs[0]) * scale(layer.inputs[1]);
            let address = u32::try_from(image.len()).map_err(|_| {
                Diagnostic::unsupported("Q4094", "the weights have more than 4 GiB")
            })?;
            places.insert(index, address);
            image.extend(product.parameters(factor as f32));
            continue;
        }
        let Operation::Conv { frame, groups } = layer.operation else { continue };
        let root = network.root(layer.inputs[0]);
        let form = network.forms[&layer.inputs[0]];
        let ([c, ..], Grid::Codes { scale, zero }) = (form.extents, form.grid) else { continue };
        let node = &graph[layer.nodes[0]];
        let row = [c / groups, frame.kernel[0], frame.kernel[1]];
        let rows = match node.op {
            Op::Binary(binary) => {
                let axis = form.channel_axis(&graph[node.output].shape);
                let rows = |axis| {
                    Rows::of_channels(graph, node, binary, [c as usize, axis], (scale, zero))
                };
                axis.and_then(rows)
            }
            _ => {
                let sum = layer.nodes.get(1).map(|&id| &graph[id]);
                let sum = sum.filter(|node| node.op == Op::Binary(Binary::Add));
                Rows::new(graph, node, sum, row, (scale, zero))
            }
        };
        let Some(mut rows) = rows else {
            let problem =
                Diagnostic::unsupported("Q4093", "its bias is not one number per channel");
            return Err(NotCompiled::at_node(graph, node, problem));
        };
        if !matches!(node.op, Op::Conv(_) | Op::ConvTranspose(_)) && frame.kernel != [1, 1] {
            rows = rows.reordered(&layers::image_order(&form).unwrap_or_default());
        }
        if let Some(&fold) = folds.get(&root) {
            rows = rows.folded(fold as usize, fold_frame(frame, fold).1 as usize);
        }
        let Ok(address) = u32::try_from(image.len() + rows.bytes() * rows.channels as usize) else {
            let problem = Diagnostic::unsupported("Q4094", "the weights have more than 4 GiB");
            return Err(NotCompiled::at_node(graph, node, problem));
        };
        places.insert(index, address - (rows.bytes() * rows.channels as usize) as u32);
        rows.write(&mut image);
    }
    Ok((image, places))
}

/// Inputs and outputs in DRAM, one behind the other. An output that is an input lies there already.
fn dram(
    graph: &Graph,
    network: &Network,
    folds: &FxHashMap<ValueId, u32>,
) -> Result<(Vec<DramTensor>, Vec<DramTensor>)> {
    let mut next = 0_u64;
    let mut tensor = |value: ValueId, fold: u32| {
        let form = network.forms[&value];
        let extents = steps::folded(form.extents, fold);
        let format = format(form.grid);
        let elements = form.extents.iter().map(|&extent| u64::from(extent)).product::<u64>();
        let bytes = elements * u64::from(form.images) * if format == DataFmt::FP16 { 2 } else { 1 };
        let address = next;
        next = (next + bytes).next_multiple_of(ALIGN.into());
        match u32::try_from(next) {
            Ok(_) => {
                let (address, is_constant) = (address as u32, false);
                Ok(DramTensor { value, address, is_constant, extents, format })
            }
            Err(_) => {
                let message = "inputs and outputs have more than 4 GiB";
                Err(Diagnostic::unsupported("Q4094", message))
            }
        }
    };
    let entering = network.layers.iter().filter(|layer| layer.operation == Operation::Enter);
    let inputs = entering.map(|layer| {
        let fold = folds.get(&layer.output).copied().unwrap_or(1);
        tensor(layer.output, fold)
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let mut outputs = Vec::new();
    for &output in graph.outputs() {
        let root = network.root(output);
        let mut known = inputs.iter().chain(&outputs);
        if !known.any(|known: &DramTensor| known.value == root) {
            outputs.push(tensor(root, 1)?);
        }
    }
    Ok((inputs, outputs))
}

/// Appends the numbers of channels that layers read to the data of the weights.
fn constants(graph: &Graph, network: &Network, image: &mut Vec<u8>) -> Result<Vec<DramTensor>> {
    let tensor = |&value: &ValueId| {
        let Form { extents, grid, .. } = network.forms[&value];
        image.resize(image.len().next_multiple_of(ALIGN as usize), 0);
        let address = u32::try_from(image.len())
            .map_err(|_| Diagnostic::unsupported("Q4094", "the weights have more than 4 GiB"))?;
        let channels = extents[0] as usize / 2;
        for number in weights::numbers(&graph[value], channels).into_iter().flatten() {
            image.extend((number as f32).to_le_bytes());
        }
        Ok(DramTensor { value, address, is_constant: true, extents, format: format(grid) })
    };
    network.constants.iter().map(tensor).collect()
}

/// The names of the tensors in DRAM.
fn named(graph: &Graph, job: &Job<'_>, images: u32) -> Vec<NamedTensor> {
    let record = |value: ValueId, output: bool, tensor: &DramTensor, form: &Form| {
        let [c, h, w] = form.extents;
        let extents = [images, c, h, w];
        let is_image = form.view == View::image(extents);
        NamedTensor {
            name: graph[value].name.clone(),
            output,
            base: 0,
            address: tensor.address,
            extents,
            format: NamedTensor::format_name(tensor.format).to_owned(),
            view: if is_image { Vec::new() } else { form.view.loops().to_vec() },
        }
    };
    let form = |value| &job.network.forms[&value];
    let entering = job.network.layers.iter().filter(|layer| layer.operation == Operation::Enter);
    let mut named = Vec::new();
    for (layer, tensor) in entering.zip(&job.inputs) {
        named.push(record(layer.inputs[0], false, tensor, form(layer.output)));
    }
    for &output in graph.outputs() {
        let root = job.network.root(output);
        let tensor = job.outputs.iter().chain(&job.inputs).find(|tensor| tensor.value == root);
        named.extend(tensor.map(|t| record(output, true, t, form(output))));
    }
    named
}

/// Ports, layers and sections.
fn interface(
    graph: &Graph,
    network: &Network,
    folds: &FxHashMap<ValueId, u32>,
    found: &Scheduled,
) -> Interface {
    let mut interface = Interface::default();
    let port = |value: ValueId, grid| Port {
        name: graph[value].name.clone(),
        shape: graph[value].shape.to_vec(),
        grid,
    };
    for layer in network.layers.iter().filter(|layer| layer.operation == Operation::Enter) {
        let quantise = layer.nodes.first().map(|&node| &graph[node].op);
        let grid = match quantise {
            Some(Op::Quantise(quantiser)) => quincunx_contract::Grid::Codes(quantiser.clone()),
            _ => quincunx_contract::Grid::Float(quincunx_tensor::DType::F16),
        };
        interface.inputs.push(port(layer.inputs[0], grid));
    }
    for &output in graph.outputs() {
        let root = network.root(output);
        let grid = match network.forms[&root].grid {
            Grid::Half => quincunx_contract::Grid::Float(quincunx_tensor::DType::F16),
            Grid::Codes { scale, zero } => {
                let mut quantiser = quincunx_graph::Quantiser::symmetric(true, 8, scale);
                quantiser.zero = quincunx_graph::Param::uniform(zero.into());
                quincunx_contract::Grid::Codes(quantiser)
            }
        };
        interface.outputs.push(port(output, grid));
    }
    interface.layers = taps(graph, network, folds, found);
    interface.sections = sections(graph, network, &found.programs[0]);
    interface
}

/// Where every value of the machine can be read.
fn taps(
    graph: &Graph,
    network: &Network,
    folds: &FxHashMap<ValueId, u32>,
    found: &Scheduled,
) -> Vec<LayerTap> {
    let mut parts: FxHashMap<ValueId, Vec<(u32, Part)>> = FxHashMap::default();
    for landing in &found.landings {
        let part = Part {
            core: landing.core,
            line: landing.line,
            address: landing.address as usize,
            images: landing.images.1 as usize,
        };
        parts.entry(landing.value).or_default().push((landing.images.0, part));
    }
    let mut taps = Vec::new();
    for layer in &network.layers {
        // A value of which a layer is a part has its place from the last one.
        if let Operation::Slice { is_last: false, .. } = layer.operation {
            continue;
        }
        let root = network.root(layer.output);
        let Some(parts) = parts.get(&root) else { continue };
        let mut parts = parts.clone();
        parts.sort_by_key(|&(image, _)| image);
        if parts.iter().map(|(_, part)| part.images as u32).sum::<u32>()
            != network.forms[&root].images
        {
            continue;
        }
        let parts: Vec<Part> = parts.into_iter().map(|(_, part)| part).collect();
        let form = network.forms[&layer.output];
        let tap = Tap {
            format: format(form.grid),
            grid: match form.grid {
                Grid::Codes { scale, zero } => (scale, zero),
                Grid::Half => (1.0, 0),
            },
            extents: form.extents,
            fold: folds.get(&root).copied().unwrap_or(1),
            view: form.view,
            parts,
            made: None,
        };
        taps.push(LayerTap {
            value: graph[layer.output].name.clone(),
            shape: graph[layer.output].shape.to_vec(),
            after: tap.parts.iter().map(|part| part.line).max().unwrap_or(0),
            place: tap.show(),
        });
    }
    taps
}

/// The layers of the program: where the first line of each begins, in every group of images. All
/// multiplications of a layer are told with its first section.
fn sections(graph: &Graph, network: &Network, program: &Program) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    // The newest workload that has begun, its layer, and which layers have begun.
    let (mut newest, mut current) = (-1, None);
    let mut begun = vec![false; network.layers.len()];
    for (index, line) in program.lines.iter().enumerate() {
        let map = line.map.as_ref().filter(|map| map.slyr >= 0 && map.wkl > newest);
        let Some(map) = map else { continue };
        newest = map.wkl;
        let number = map.slyr as usize;
        if current.replace(number) == Some(number) || number >= begun.len() {
            continue;
        }
        let layer = &network.layers[number];
        if layer.nodes.is_empty() {
            continue;
        }
        let nodes: Vec<String> = layer.nodes.iter().map(|&node| graph[node].name.clone()).collect();
        let is_first = !std::mem::replace(&mut begun[number], true);
        let macs = |node: &Node| if is_first { graph.macs(node) } else { 0 };
        let macs = layer.nodes.iter().map(|&node| macs(&graph[node])).sum();
        let name = nodes.first().cloned().unwrap_or_default();
        sections.push(Section { name, nodes, first: index, macs, ..Section::default() });
    }
    sections
}

/// The layers as text.
fn dump(graph: &Graph, network: &Network) -> String {
    let line = |(index, layer): (usize, &Layer)| {
        let names: Vec<&str> = layer.nodes.iter().map(|&node| graph[node].name.as_str()).collect();
        let form = &network.forms[&layer.output];
        format!("{index}: {} {:?} {:?} -> {form:?}\n", names.join("+"), layer.operation, layer.act)
    };
    network.layers.iter().enumerate().map(line).collect()
}
