//! Graph to program.
//!
//! 1. [`layers`]: which nodes the machine takes, and where their pixels are in the array.
//! 2. [`weights`], [`goals`]: weights become whole numbers of units of `2^-d`.
//! 3. [`find`]: a search finds a program for the kernels of a layer, all of them or some after the
//!    others; what is complete is read out, so that its registers are free again.
//! 4. Every program is checked: what its registers hold, and where the edge of the array spoils it.

mod find;
mod goals;
pub(crate) mod layers;
mod suffice;
mod weights;

use crate::arch::ScampArch;
use crate::artifact::Artifact;
use crate::cain;
use crate::goal::Bag;
use crate::isa::{Bus, Inst, Reg};
use crate::options::{Search, Wishes};
use crate::ports::{Array, Lie, Plane, lost, rims};
use crate::program::Program;
use crate::search::Effort;
use crate::task::{Task, Wanted};
use goals::Kernels;
use layers::{Layer, Network};
use quincunx_contract::{
    Claim, Compiled, Interface, Log, NotCompiled, Numerics, Options, Refused, Rim, Section,
};
use quincunx_diag::{Class, Diagnostic, Result};
use quincunx_graph::{Graph, Node, NodeId, Op, ValueId};
use smallvec::smallvec;
use std::collections::{BTreeMap, BTreeSet};
use weights::Nearness;

/// One claim per node.
///
/// # Errors
/// Options that contradict each other or the machine.
pub(crate) fn claim(
    graph: &Graph,
    arch: &ScampArch,
    options: &Options,
    refused: &Refused,
) -> Result<Vec<Claim>> {
    let network = Network::new(graph, arch, &Wishes::new(options, arch)?, refused);
    let claim = |id| match network.reasons.get(&id) {
        None => Claim::Device,
        Some(reason) => Claim::Host(reason.clone()),
    };
    Ok(graph.nodes().map(|(id, _)| claim(id)).collect())
}

/// Compiles a graph all of whose nodes are on the machine.
///
/// # Errors
/// Layers that do not fit, or what went wrong.
pub(crate) fn compile(
    graph: &Graph,
    arch: &ScampArch,
    options: &Options,
    log: &mut Log,
) -> std::result::Result<Compiled, NotCompiled> {
    log.start();
    let wishes = Wishes::new(options, arch)?;
    let network = Network::new(graph, arch, &wishes, &Refused::default());
    if let Some((&node, reason)) = network.reasons.iter().next() {
        let problem = Diagnostic::unsupported("Q5058", reason.clone());
        return Err(NotCompiled::at_node(graph, &graph[node], problem));
    }
    log.pass("layers", format!("{} layers", network.layers.len()), || format!("{network:#?}"));
    if wishes.search == Search::Cain {
        log.diagnostics.extend(cain::Settings::odd(&wishes.cain));
        if wishes.effort != Effort::named("default") {
            let message = "not used with `--search cain`: effort";
            log.diagnostics.push(Diagnostic::note("Q5059", message));
        }
    } else if !wishes.cain.is_empty() {
        let names: Vec<&str> = wishes.cain.keys().map(String::as_str).collect();
        let message = format!("not used without `--search cain`: {}", names.join(", "));
        log.diagnostics.push(Diagnostic::note("Q5059", message));
    }
    let mut writer = written(graph, arch, &wishes, &network)
        .map_err(|problem| suffice::advise(problem, graph, arch, &wishes, &network))?;
    let length = writer.program.instructions.len();
    log.pass("search", format!("{length} instructions"), || {
        writer.program.instructions.iter().map(|inst| inst.text() + "\n").collect()
    });
    log.diagnostics.append(&mut writer.notes);
    let interface = writer.interface()?;
    if let Some((value, problem)) = lost(&interface.rims) {
        return Err(writer.refuse_maker(value, problem));
    }
    log.diagnostics.extend(interface.rims.iter().map(spoilt));
    let numerics = serde_json::json!({ "depths": writer.depths });
    let artifact = Artifact::compiled(writer.program, interface, arch, options)?;
    Ok(Compiled { program: Box::new(artifact), numerics: Numerics(numerics) })
}

/// The program of all layers.
fn written<'a>(
    graph: &'a Graph,
    arch: &'a ScampArch,
    wishes: &'a Wishes,
    network: &'a Network,
) -> std::result::Result<Writer<'a>, NotCompiled> {
    let mut writer = Writer::new(graph, arch, wishes, network)?;
    for (index, layer) in network.layers.iter().enumerate() {
        let node = &graph[layer.conv];
        writer.layer(index, layer).map_err(|problem| match problem.code() {
            // Who asks for an error wants no host in its place.
            "Q5057" => problem.at(graph.place(node)).into(),
            _ => NotCompiled::at_node(graph, node, problem),
        })?;
    }
    Ok(writer)
}

/// The warning about what the edge of the array spoils.
fn spoilt(rim: &Rim) -> Diagnostic {
    let message = format!("the edge of the array spoils pixels of \"{}\"", rim.value);
    let [.., rows, columns] = &rim.inside[..] else { return Diagnostic::warning("Q5065", message) };
    let (rows, columns) =
        (format!("{} to {}", rows.0, rows.1), format!("{} to {}", columns.0, columns.1));
    Diagnostic::warning("Q5065", message)
        .with_note(format!("right are rows {rows} and columns {columns}, the ends not included"))
        .help("nobody judges them; a smaller image, or a larger array (`--size`), has none")
}

/// A program as it is written.
struct Writer<'a> {
    graph: &'a Graph,
    arch: &'a ScampArch,
    wishes: &'a Wishes,
    network: &'a Network,
    program: Program,
    /// Registers of the values that are still needed.
    live: BTreeMap<ValueId, Vec<Reg>>,
    inputs: Vec<Lie>,
    results: Vec<Lie>,
    sections: Vec<Section>,
    /// The depth of the weights of every layer.
    depths: BTreeMap<String, u32>,
    notes: Vec<Diagnostic>,
}

impl<'a> Writer<'a> {
    /// Gives the inputs their registers.
    fn new(
        graph: &'a Graph,
        arch: &'a ScampArch,
        wishes: &'a Wishes,
        network: &'a Network,
    ) -> std::result::Result<Self, NotCompiled> {
        let mut writer = Writer {
            graph,
            arch,
            wishes,
            network,
            program: Program::new(Vec::new()),
            live: BTreeMap::new(),
            inputs: Vec::new(),
            results: Vec::new(),
            sections: Vec::new(),
            depths: BTreeMap::new(),
            notes: Vec::new(),
        };
        let list = if wishes.inputs.is_empty() { &wishes.pool } else { &wishes.inputs };
        let channels: usize = graph.inputs().iter().map(|&id| graph[id].shape[1]).sum();
        if !wishes.inputs.is_empty() && wishes.inputs.len() != channels {
            let message = format!("option input-registers names {} registers", list.len());
            let message = format!("{message} for {channels} channels of images");
            return Err(Diagnostic::invalid("Q5055", message).into());
        }
        let mut registers = list.iter().copied();
        for &id in graph.inputs() {
            let channels = graph[id].shape[1];
            let own: Vec<Reg> = registers.by_ref().take(channels).collect();
            if own.len() < channels {
                let message = format!("{} registers for {channels} channels of images", own.len());
                let problem = Diagnostic::unsupported("Q5056", message);
                return Err(writer.refuse_readers(id, &problem));
            }
            let plane = |&register: &Reg| Plane { register, after: 0, bias: 0.0 };
            writer.inputs.push(writer.lie(id, own.iter().map(plane).collect()));
            writer.live.insert(id, own);
        }
        let named = writer.inputs.iter().flat_map(|lie| lie.planes.iter().map(|p| p.register));
        writer.program.inputs = Some(named.collect());
        Ok(writer)
    }

    /// The layers that read a value do not fit.
    fn refuse_readers(&self, id: ValueId, problem: &Diagnostic) -> NotCompiled {
        let reads = |layer: &&Layer| self.graph[layer.conv].input(0) == Some(id);
        let layer = self.network.layers.iter().find(reads);
        match layer {
            Some(layer) => {
                NotCompiled::at_node(self.graph, &self.graph[layer.conv], problem.clone())
            }
            None => problem.clone().into(),
        }
    }

    /// The layer that makes a value does not fit.
    fn refuse_maker(&self, value: &str, problem: Diagnostic) -> NotCompiled {
        let is_value = |id: NodeId| self.graph[self.graph[id].output].name == value;
        let makes = |layer: &&Layer| layer.nodes().any(is_value);
        match self.network.layers.iter().find(makes) {
            Some(layer) => NotCompiled::at_node(self.graph, &self.graph[layer.conv], problem),
            None => problem.into(),
        }
    }

    fn lie(&self, id: ValueId, planes: Vec<Plane>) -> Lie {
        let area = self.network.areas[&id];
        Lie { value: self.graph[id].name.clone(), area, planes }
    }

    /// The last layer that reads a value.
    fn last_reader(&self, id: ValueId) -> Option<usize> {
        let reads = |layer: &Layer| self.graph[layer.conv].input(0) == Some(id);
        self.network.layers.iter().rposition(reads)
    }

    fn layer(&mut self, index: usize, layer: &Layer) -> Result<()> {
        let (node, conv) = match &self.graph[layer.conv] {
            node @ Node { op: Op::Conv(conv), .. } => (node, conv),
            node => return Err(Diagnostic::bug(format!("{:?} is no convolution", node.name))),
        };
        let bug = || Diagnostic::bug(format!("nothing holds the operand of {:?}", node.name));
        let x = node.input(0).ok_or_else(bug)?;
        let nearness = Nearness { depth: self.wishes.depth, error: self.wishes.error };
        let area = self.network.areas[&x];
        let kernels = goals::kernels(self.graph, node, conv, area, nearness)?;
        self.note(node, &kernels);
        let result = layer.relu.map_or(node.output, |relu| self.graph[relu].output);
        let part = Part {
            inputs: self.live.get(&x).cloned().ok_or_else(bug)?,
            is_last: self.last_reader(x) == Some(index),
            is_kept: self.last_reader(result).is_some(),
            relu: layer.relu.is_some(),
        };
        let first = self.program.instructions.len();
        let planes = self.groups(&part, &kernels, x)?;
        self.section(layer, first, &planes);
        if part.is_last {
            self.live.remove(&x);
        }
        if part.is_kept {
            let registers = planes.iter().map(|plane| plane.sum.register).collect();
            self.live.insert(result, registers);
        }
        self.results.push(self.lie(node.output, planes.iter().map(|plane| plane.sum).collect()));
        if layer.relu.is_some() {
            let planes = planes.iter().map(|plane| plane.result).collect();
            self.results.push(self.lie(result, planes));
        }
        Ok(())
    }

    fn note(&mut self, node: &Node, kernels: &Kernels) {
        self.depths.insert(node.name.clone(), kernels.depth);
        if kernels.error > 0.0 {
            let (name, depth, error) = (&node.name, kernels.depth, kernels.error);
            let message = format!("\"{name}\": weights are multiples of 2^-{depth}");
            let message = format!("{message}, the sum of their errors is {error:.3e}");
            self.notes.push(Diagnostic::note("Q5066", message));
        }
    }

    /// Results one group after the other, each of as many as registers suffice for.
    fn groups(&mut self, part: &Part, kernels: &Kernels, x: ValueId) -> Result<Vec<Done>> {
        let others = self.live.iter().filter(|(id, _)| **id != x).flat_map(|(_, list)| list);
        let busy: BTreeSet<Reg> = others.copied().collect();
        let pool: Vec<Reg> =
            self.wishes.pool.iter().copied().filter(|r| !busy.contains(r)).collect();
        let spare: Vec<Reg> = pool.iter().copied().filter(|r| !part.inputs.contains(r)).collect();
        let (total, mut done) = (kernels.goals.0.len(), Vec::new());
        while done.len() < total {
            let left = total - done.len();
            let mut size = left;
            loop {
                let is_end = part.is_last && size == left;
                let pool = if is_end { &pool } else { &spare };
                match self.group(part, kernels, done.len()..done.len() + size, pool) {
                    Ok(group) => {
                        done.extend(group);
                        break;
                    }
                    Err(problem)
                        if problem.class() == Class::Unsupported
                            && size > 1
                            && !part.is_whole(self.wishes) =>
                    {
                        size -= 1;
                    }
                    Err(problem) => return Err(problem),
                }
            }
        }
        Ok(done)
    }

    /// Some results at once.
    fn group(
        &mut self,
        part: &Part,
        kernels: &Kernels,
        range: std::ops::Range<usize>,
        pool: &[Reg],
    ) -> Result<Vec<Done>> {
        let named = &self.wishes.outputs;
        if !named.is_empty()
            && (named.len() != kernels.goals.0.len() || self.network.layers.len() > 1)
        {
            let (results, layers) = (kernels.goals.0.len(), self.network.layers.len());
            let message = format!("option output-registers names {} registers", named.len());
            let message = format!("{message} for {results} results of {layers} layers");
            return Err(Diagnostic::invalid("Q5055", message)
                .help("it names one for each result of a single layer"));
        }
        let free = pool.iter().filter(|register| !part.inputs.contains(register));
        let own = pool.iter().filter(|register| part.inputs.contains(register));
        let outputs: Vec<Reg> = match named.is_empty() {
            true => free.chain(own).copied().take(range.len()).collect(),
            false => named.clone(),
        };
        if outputs.len() < range.len() || outputs.iter().any(|output| !pool.contains(output)) {
            let message = format!("{} results at once, {} registers", range.len(), pool.len());
            return Err(Diagnostic::unsupported("Q5056", format!("{message} are free")));
        }
        // Outputs come first in a pool.
        let rest = pool.iter().filter(|register| !outputs.contains(register));
        let pool: Vec<Reg> = outputs.iter().chain(rest).copied().collect();
        let goals = Bag(kernels.goals.0[range.clone()].to_vec());
        let inputs = part.inputs.clone();
        let wanted = Wanted { goals, depth: kernels.depth, inputs, outputs: outputs.clone() };
        let task =
            Task { macros: self.wishes.macros.clone(), ..Task::new(wanted, pool, self.arch)? };
        let found = find::find(&task, self.arch, self.wishes)?;
        self.program.instructions.extend(found.instructions);
        if let (true, Some(&x)) = (self.program.instructions.is_empty(), outputs.first()) {
            // Values are read after an instruction.
            self.program.instructions.push(Inst::Mov { y: x, x });
        }
        let after = self.program.instructions.len().saturating_sub(1);
        let mut done = Vec::new();
        for (&register, &bias) in outputs.iter().zip(&kernels.bias[range]) {
            if part.relu {
                self.relu(register);
            }
            let result = self.program.instructions.len().saturating_sub(1);
            done.push(Done {
                sum: Plane { register, after, bias },
                result: Plane { register, after: result, bias },
            });
        }
        Ok(done)
    }

    /// Sets a register to 0 where it is below 0. Only own registers are written while FLAG is not set
    /// everywhere.
    fn relu(&mut self, register: Reg) {
        let none = Reg::NONE;
        let negated =
            Inst::of_bus(&Bus { receivers: smallvec![Reg::NEWS], sources: smallvec![register] });
        let list = &mut self.program.instructions;
        list.extend([
            negated,
            Inst::Where { s0: Reg::NEWS, s1: none, s2: none },
            Inst::Res { y: register },
            Inst::All {},
        ]);
    }

    fn section(&mut self, layer: &Layer, first: usize, planes: &[Done]) {
        let ends: BTreeSet<usize> = planes.iter().map(|plane| plane.result.after).collect();
        let mut pieces: Vec<usize> = ends.into_iter().map(|after| after + 1).collect();
        if pieces.len() < 2 {
            pieces.clear();
        }
        self.sections.push(Section {
            name: self.graph[layer.conv].name.clone(),
            nodes: layer.nodes().map(|id| self.graph[id].name.clone()).collect(),
            first,
            macs: self.graph.macs(&self.graph[layer.conv]),
            figures: BTreeMap::new(),
            pieces,
        });
    }

    /// Ports, layer taps, and what the edge spoils; the program's list of outputs.
    ///
    /// # Errors
    /// A bug for a program of which nobody knows what the edge spoils.
    fn interface(&mut self) -> Result<Interface> {
        let mut outputs: Vec<Reg> = Vec::new();
        for plane in self.results.iter().flat_map(|lie| &lie.planes) {
            if !outputs.contains(&plane.register) {
                outputs.push(plane.register);
            }
        }
        self.program.outputs = Some(outputs);
        let port = |id: &ValueId| {
            let mut lies = self.inputs.iter().chain(&self.results);
            lies.find(|lie| lie.value == self.graph[*id].name).map(Lie::port)
        };
        let Wishes { height, width, edge, .. } = *self.wishes;
        let rims = rims(&self.program, &self.inputs, &self.results, Array { height, width, edge });
        let rims = rims.map_err(|problem| Diagnostic::bug(problem.message()))?;
        Ok(Interface {
            inputs: self.graph.inputs().iter().flat_map(port).collect(),
            outputs: self.graph.outputs().iter().flat_map(port).collect(),
            layers: self.inputs.iter().chain(&self.results).map(Lie::tap).collect(),
            sections: std::mem::take(&mut self.sections),
            rims,
            ..Interface::default()
        })
    }
}

/// What is known about a layer before its program is found.
struct Part {
    inputs: Vec<Reg>,
    /// No later layer reads the inputs.
    is_last: bool,
    /// A later layer reads the result.
    is_kept: bool,
    relu: bool,
}

impl Part {
    /// All results must be there at once.
    fn is_whole(&self, wishes: &Wishes) -> bool {
        self.is_kept || !wishes.outputs.is_empty()
    }
}

/// A channel of a result that is computed.
struct Done {
    /// The convolution.
    sum: Plane,
    /// Behind the ReLU, if there is one.
    result: Plane,
}
