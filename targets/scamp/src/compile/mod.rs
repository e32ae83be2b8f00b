//! Graph to program.
//!
//! 1. [`layers`]: which nodes the machine takes, and where their pixels are in the array.
//! 2. [`weights`], [`goals`]: weights become whole numbers of units of `2^-d`.
//! 3. [`find`]: a search finds a program for the kernels of a layer, all of them or some after the
//!    others; what is complete is read out, so that its registers are free again.
//!    [`clear`] makes zeros around an image that a padding needs.
//! 4. [`stages`]: what is behind the kernels, channel by channel: biases, ReLU, pooling, comparisons.
//! 5. Every program is checked: what its registers hold, and where the edge of the array spoils it.

mod clear;
mod digital;
mod find;
mod goals;
pub(crate) mod layers;
pub(crate) mod levels;
mod ranges;
mod stages;
mod suffice;
mod weights;

use crate::arch::ScampArch;
use crate::artifact::Artifact;
use crate::cain;
use crate::files::Mode;
use crate::goal::Bag;
use crate::isa::{Inst, Reg};
use crate::options::{Search, Wishes};
use crate::ports::{Area, Array, Lie, Plane, lost, rims};
use crate::program::{Named, Program, Space};
use crate::readout::Readout;
use crate::search::{Effort, Wish};
use crate::symbolic::Range;
use crate::task::{Task, Wanted};
use goals::Kernels;
use layers::{Head, Kind, Layer, Network};
use quincunx_contract::{
    Claim, Compiled, Interface, Log, NotCompiled, Numerics, Options, Refusal, Refused, Rim, Section,
};
use quincunx_diag::{Class, Diagnostic, Result};
use quincunx_graph::{Graph, Node, NodeId, Op, ValueId};
use ranges::Ranges;
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
    let wishes = Wishes::new(options, arch)?;
    if wishes.mode != Mode::Analogue {
        return digital::claim(graph, &wishes, refused);
    }
    let network = Network::new(graph, arch, &wishes, refused);
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
    if wishes.mode != Mode::Analogue {
        return digital::compile(graph, arch, &wishes, options, log);
    }
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
        .map_err(|problem| suffice::advise(problem, graph, arch, &wishes, &network))
        .map_err(|problem| match wishes.outputs.is_empty() {
            true => problem,
            // Who names the registers of results wants no host in their place.
            false => failed(graph, problem),
        })?;
    let length = writer.program.instructions.len();
    log.pass("search", format!("{length} instructions"), || {
        writer.program.instructions.iter().map(|inst| inst.text() + "\n").collect()
    });
    std::mem::take(&mut writer.told).log(log);
    log.diagnostics.append(&mut writer.notes);
    for lie in &writer.results {
        if let Some(why) = lie.unreadable() {
            let message = format!("\"{}\" cannot be read out as {}: {why}", lie.value, lie.readout);
            let problem = Diagnostic::unsupported("Q5112", message)
                .help("compare it with a constant on the array, or choose another --readout");
            return Err(writer.refuse_maker(&lie.value, problem));
        }
    }
    let interface = writer.interface()?;
    if let Some((value, problem)) = lost(&interface.rims) {
        return Err(writer.refuse_maker(value, problem));
    }
    log.diagnostics.extend(interface.rims.iter().map(spoilt));
    let numerics = serde_json::json!({
        "depths": writer.depths,
        "scale": network.scale,
        "biased": writer.biased,
        "readout": wishes.readout.to_string(),
    });
    let artifact = Artifact::compiled(writer.program, interface, arch, options)?;
    Ok(Compiled { program: Box::new(artifact), numerics: Numerics(numerics) })
}

/// Refusals that are failures.
fn failed(graph: &Graph, problem: NotCompiled) -> NotCompiled {
    let NotCompiled::Refused(list) = problem else { return problem };
    let placed = |Refusal { node, problem }: Refusal| {
        let node = graph.nodes().find(|(_, other)| other.name == node);
        match node {
            Some((_, node)) => problem.at(graph.place(node)),
            None => problem,
        }
    };
    NotCompiled::Failed(list.into_iter().map(placed).collect())
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
        let node = writer.node(layer)?;
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
    /// Convolutions whose bias is added on the array.
    biased: BTreeSet<String>,
    /// How large values are in registers, where a range was asked for.
    ranges: BTreeMap<ValueId, Range>,
    /// What IN holds.
    loaded: Option<i8>,
    /// The image around which a 1-bit register is 1.
    outside: Option<Area>,
    notes: Vec<Diagnostic>,
    told: find::Told,
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
            biased: BTreeSet::new(),
            ranges: BTreeMap::new(),
            loaded: None,
            outside: None,
            notes: Vec::new(),
            told: find::Told::default(),
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
            let plane =
                |&own: &Reg| Plane { register: (Space::Analogue, own), after: 0, bias: 0.0 };
            if let Some(Range { low, high }) = wishes.wish.range {
                let times = 2.0_f64.powi(network.scale);
                writer.ranges.insert(id, Range { low: low * times, high: high * times });
            }
            writer.inputs.push(writer.lie(id, own.iter().map(plane).collect()));
            writer.live.insert(id, own);
        }
        let named = writer.inputs.iter().flat_map(|lie| lie.planes.iter().map(|p| p.register.1));
        writer.program.inputs = Some(named.collect());
        Ok(writer)
    }

    /// The layers that read a value do not fit.
    fn refuse_readers(&self, id: ValueId, problem: &Diagnostic) -> NotCompiled {
        let layer = self.network.layers.iter().find(|layer| layer.operand == id);
        match layer.and_then(Layer::name_node) {
            Some(node) => NotCompiled::at_node(self.graph, &self.graph[node], problem.clone()),
            None => problem.clone().into(),
        }
    }

    /// The layer that makes a value does not fit.
    fn refuse_maker(&self, value: &str, problem: Diagnostic) -> NotCompiled {
        let is_value = |id: NodeId| self.graph[self.graph[id].output].name == value;
        let makes = |layer: &&Layer| layer.nodes().any(is_value);
        let layer = self.network.layers.iter().find(makes);
        match layer.and_then(Layer::name_node) {
            Some(node) => NotCompiled::at_node(self.graph, &self.graph[node], problem),
            None => problem.into(),
        }
    }

    fn lie(&self, id: ValueId, planes: Vec<Plane>) -> Lie {
        let area = self.network.areas[&id];
        let is_analogue = planes.iter().all(|plane| plane.register.0 == Space::Analogue);
        let times = if is_analogue { 2.0_f64.powi(self.network.scale) } else { 1.0 };
        let is_output = self.graph.outputs().contains(&id) && !self.graph.inputs().contains(&id);
        let readout = if is_output { self.wishes.readout } else { Readout::Analogue };
        Lie { value: self.graph[id].name.clone(), area, times, readout, planes }
    }

    /// The node that a layer is named by.
    fn node(&self, layer: &Layer) -> Result<&'a Node> {
        let node = layer.name_node().ok_or_else(|| Diagnostic::bug("a layer without nodes"))?;
        Ok(&self.graph[node])
    }

    /// The last layer that reads a value.
    fn last_reader(&self, id: ValueId) -> Option<usize> {
        self.network.layers.iter().rposition(|layer| layer.operand == id)
    }

    fn layer(&mut self, index: usize, layer: &Layer) -> Result<()> {
        let name = &self.node(layer)?.name;
        let bug = || Diagnostic::bug(format!("nothing holds the operand of {name:?}"));
        let x = layer.operand;
        let kernels = self.kernels(layer)?;
        let values: Vec<ValueId> = layer.nodes().map(|node| self.graph[node].output).collect();
        let result = *values.last().ok_or_else(bug)?;
        let part = Part {
            layer,
            inputs: self.live.get(&x).cloned().ok_or_else(bug)?,
            is_last: self.last_reader(x) == Some(index),
            is_kept: self.last_reader(result).is_some(),
        };
        for stage in &layer.stages {
            if let Kind::Compare(_, numbers) = &stage.kind {
                self.note_levels(&self.graph[stage.node].name, "compared numbers", numbers);
            }
        }
        let first = self.program.instructions.len();
        if layer.cleared {
            self.clear(self.network.areas[&x], &part.inputs)?;
        }
        let planes = self.groups(&part, &kernels, x)?;
        if part.is_last {
            self.live.remove(&x);
        }
        if let Some(last) = planes.last() {
            self.section(layer, first, last)?;
            if part.is_kept {
                let registers = last.iter().map(|plane| plane.register.1).collect();
                self.live.insert(result, registers);
            }
        }
        for (&value, planes) in values.iter().zip(planes) {
            self.results.push(self.lie(value, planes));
        }
        Ok(())
    }

    /// What the head of a layer computes.
    fn kernels(&mut self, layer: &Layer) -> Result<Kernels> {
        let x = layer.operand;
        let Head::Conv(id) = layer.head else {
            return Ok(Kernels::copy(self.graph[x].shape[1]));
        };
        let (node, conv) = match &self.graph[id] {
            node @ Node { op: Op::Conv(conv), .. } => (node, conv),
            node => return Err(Diagnostic::bug(format!("{:?} is no convolution", node.name))),
        };
        let nearness = Nearness { depth: self.wishes.depth, error: self.wishes.error };
        let area = self.network.areas[&x];
        let kernels = goals::kernels(self.graph, node, conv, area, nearness)?;
        self.note(node, &kernels, layer.biased);
        Ok(kernels)
    }

    fn note(&mut self, node: &Node, kernels: &Kernels, biased: bool) {
        self.depths.insert(node.name.clone(), kernels.depth);
        let name = &node.name;
        if kernels.error > 0.0 {
            let (depth, error) = (kernels.depth, kernels.error);
            let message = format!("\"{name}\": weights are multiples of 2^-{depth}");
            let message = format!("{message}, the sum of their errors is {error:.3e}");
            self.notes.push(Diagnostic::note("Q5066", message));
        }
        if biased {
            self.biased.insert(name.clone());
            self.note_levels(name, "biases", &kernels.bias);
        }
    }

    /// Says how far IN is from some numbers.
    fn note_levels(&mut self, name: &str, what: &str, numbers: &[f64]) {
        let scale = self.network.scale;
        let error = numbers.iter().map(|&number| levels::error(number, scale)).fold(0.0, f64::max);
        if error > 0.0 {
            let message = format!("\"{name}\": {what} are multiples of 2^{}", -scale);
            let message = format!("{message} on the array, the largest error is {error:.3e}");
            self.notes.push(Diagnostic::note("Q5111", message).help("`--scale` sets the multiple"));
        }
    }

    /// Results one group after the other, each of as many as registers suffice for: for every value of
    /// the layer, its channels.
    fn groups(&mut self, part: &Part, kernels: &Kernels, x: ValueId) -> Result<Vec<Vec<Plane>>> {
        let others = self.live.iter().filter(|(id, _)| **id != x).flat_map(|(_, list)| list);
        let busy: BTreeSet<Reg> = others.copied().collect();
        let pool: Vec<Reg> =
            self.wishes.pool.iter().copied().filter(|r| !busy.contains(r)).collect();
        let spare: Vec<Reg> = pool.iter().copied().filter(|r| !part.inputs.contains(r)).collect();
        let (total, mut done) = (kernels.goals.0.len(), 0);
        let mut values = vec![Vec::new(); part.layer.nodes().count()];
        // What fitted once fits again; at the end, the registers of the operand are free as well.
        let mut most = total;
        while done < total {
            let left = total - done;
            let mut size = left.min(most + usize::from(part.is_last));
            loop {
                let is_end = part.is_last && size == left;
                let pool = if is_end { &pool } else { &spare };
                match self.group(part, kernels, done..done + size, pool) {
                    Ok(group) => {
                        values.iter_mut().zip(group).for_each(|(all, own)| all.extend(own));
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
            (done, most) = (done + size, size);
        }
        Ok(values)
    }

    /// The registers of some results.
    fn outputs(
        &self,
        part: &Part,
        kernels: &Kernels,
        count: usize,
        pool: &[Reg],
    ) -> Result<Vec<Reg>> {
        let (named, all) = (&self.wishes.outputs, kernels.goals.0.len());
        if !named.is_empty() && (named.len() != all || self.network.layers.len() > 1) {
            let layers = self.network.layers.len();
            let message = format!("option output-registers names {} registers", named.len());
            let message = format!("{message} for {all} results of {layers} layers");
            return Err(Diagnostic::invalid("Q5055", message)
                .help("it names one for each result of a single layer"));
        }
        let is_copy = part.layer.head == Head::Copy && count == all;
        let outputs: Vec<Reg> = if !named.is_empty() {
            named.clone()
        } else if is_copy && part.inputs.iter().all(|input| pool.contains(input)) {
            part.inputs.clone()
        } else {
            let free = pool.iter().filter(|register| !part.inputs.contains(register));
            let own = pool.iter().filter(|register| part.inputs.contains(register));
            free.chain(own).copied().take(count).collect()
        };
        if outputs.len() < count || outputs.iter().any(|output| !pool.contains(output)) {
            let message = format!("{count} results at once, {} registers are free", pool.len());
            return Err(Diagnostic::unsupported("Q5056", message));
        }
        Ok(outputs)
    }

    /// Some results at once: for every value of the layer, their channels.
    fn group(
        &mut self,
        part: &Part,
        kernels: &Kernels,
        range: std::ops::Range<usize>,
        pool: &[Reg],
    ) -> Result<Vec<Vec<Plane>>> {
        let outputs = self.outputs(part, kernels, range.len(), pool)?;
        let rest = pool.iter().filter(|register| !outputs.contains(register)).copied();
        let ranges = self.ranges(part, kernels, range.clone())?;
        let means = self.means(part.layer, &outputs, rest.collect(), ranges.as_ref())?;
        // Outputs come first in a pool.
        let pool: Vec<Reg> = outputs.iter().chain(&means.temporaries).copied().collect();
        let goals = Bag(kernels.goals.0[range.clone()].to_vec());
        let inputs = part.inputs.clone();
        let wanted = Wanted { goals, depth: kernels.depth, inputs, outputs: outputs.clone() };
        let task =
            Task { macros: self.wishes.macros.clone(), ..Task::new(wanted, pool, self.arch)? };
        let names: Vec<String> = outputs.iter().map(Reg::to_string).collect();
        let of = format!("\"{}\" in {}", self.node(part.layer)?.name, names.join(" "));
        // The groups of a layer share the effort.
        let share = self.wishes.effort.0.saturating_mul(range.len() as u64);
        let effort = Effort(share / kernels.goals.0.len().max(1) as u64);
        let wish = Wish { range: ranges.as_ref().map(Ranges::operand), ..self.wishes.wish };
        let wishes = Wishes { effort, wish, ..self.wishes.clone() };
        let found = find::find(&of, &task, self.arch, &wishes)?;
        let first = self.program.instructions.len();
        self.told.add(found.told);
        self.program.instructions.extend(found.program.instructions);
        if let (true, Some(&x)) = (self.program.instructions.is_empty(), outputs.first()) {
            // Values are read after an instruction.
            self.program.instructions.push(Inst::Mov { y: x, x });
        }
        let (mut values, mut after) = (Vec::new(), vec![0.0; range.len()]);
        if part.layer.biased {
            self.biases(&kernels.bias[range.clone()], &task.wanted, first)?;
        } else {
            after.copy_from_slice(&kernels.bias[range.clone()]);
        }
        if part.layer.head != Head::Copy {
            let registers = outputs.iter().map(|&y| (Space::Analogue, y));
            values.push(self.planes(registers, &after));
        }
        let none = vec![0.0; range.len()];
        for stage in part.layer.stages.iter().enumerate() {
            let registers = self.stage(stage, range.start, &outputs, &means)?;
            values.push(self.planes(registers.into_iter(), &none));
        }
        if let (Some(ranges), Some(result)) = (ranges, part.layer.last(self.graph)) {
            let own = ranges.result();
            self.ranges.entry(result).and_modify(|all| *all = all.or(own)).or_insert(own);
        }
        Ok(values)
    }

    /// How large values of some results can be, where a range was asked for.
    fn ranges(
        &self,
        part: &Part,
        kernels: &Kernels,
        channels: std::ops::Range<usize>,
    ) -> Result<Option<Ranges>> {
        let Some(&operand) = self.ranges.get(&part.layer.operand) else { return Ok(None) };
        let limits = (self.network.scale, self.arch.saturation);
        Ranges::new(part.layer, kernels, channels, operand, limits).map(Some)
    }

    /// What registers hold now.
    fn planes(&self, registers: impl Iterator<Item = Named>, biases: &[f64]) -> Vec<Plane> {
        let after = self.program.instructions.len().saturating_sub(1);
        let plane = |(register, &bias)| Plane { register, after, bias };
        registers.zip(biases).map(plane).collect()
    }

    fn section(&mut self, layer: &Layer, first: usize, planes: &[Plane]) -> Result<()> {
        let ends: BTreeSet<usize> = planes.iter().map(|plane| plane.after).collect();
        let mut pieces: Vec<usize> = ends.into_iter().map(|after| after + 1).collect();
        if pieces.len() < 2 {
            pieces.clear();
        }
        let names = |id: NodeId| self.graph[id].name.clone();
        self.sections.push(Section {
            name: self.node(layer)?.name.clone(),
            nodes: layer.nodes().map(names).collect(),
            first,
            macs: layer.nodes().map(|id| self.graph.macs(&self.graph[id])).sum(),
            figures: BTreeMap::new(),
            pieces,
        });
        Ok(())
    }

    /// Ports, layer taps, and what the edge spoils; the program's list of outputs.
    ///
    /// # Errors
    /// A bug for a program of which nobody knows what the edge spoils.
    fn interface(&mut self) -> Result<Interface> {
        let mut outputs: Vec<Reg> = Vec::new();
        for plane in self.results.iter().flat_map(|lie| &lie.planes) {
            if !outputs.contains(&plane.register.1) {
                outputs.push(plane.register.1);
            }
        }
        self.program.outputs = Some(outputs);
        let port = |id: &ValueId| {
            let mut lies = self.inputs.iter().chain(&self.results);
            lies.find(|lie| lie.value == self.graph[*id].name).map(Lie::port)
        };
        let Wishes { height, width, edge, .. } = *self.wishes;
        let array = Array { height, width, edge, masked: self.arch.roles.masked };
        let rims = rims(&self.program, &self.inputs, &self.results, array);
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
struct Part<'a> {
    layer: &'a Layer,
    inputs: Vec<Reg>,
    /// No later layer reads the inputs.
    is_last: bool,
    /// A later layer reads the result.
    is_kept: bool,
}

impl Part<'_> {
    /// All results must be there at once.
    fn is_whole(&self, wishes: &Wishes) -> bool {
        self.is_kept || !wishes.outputs.is_empty()
    }
}
