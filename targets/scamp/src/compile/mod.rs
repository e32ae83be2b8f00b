//! Graph to program.
//!
//! 1. [`layers`]: which nodes the machine takes, and where their pixels are in the array.
//! 2. [`weights`], [`goals`]: weights become whole numbers of units of `2^-d`.
//! 3. [`writer`], [`groups`], [`find`]: a search finds a program for the kernels of a layer, all of
//!    them or some after the others; what is complete is read out, so that its registers are free
//!    again. [`clear`] makes zeros around an image that a padding needs, [`ranges`] knows how large
//!    values can be.
//! 4. [`stages`]: what is behind the kernels, channel by channel: biases, ReLU, pooling, comparisons.
//! 5. Every program is checked: what its registers hold, and where the edge of the array spoils it.

mod chain;
mod clear;
mod digital;
mod find;
mod goals;
mod groups;
pub(crate) mod layers;
pub(crate) mod levels;
mod ranges;
mod stages;
mod suffice;
mod weights;
mod writer;

use crate::arch::ScampArch;
use crate::artifact::Artifact;
use crate::cain;
use crate::files::Mode;
use crate::options::{Search, Wishes};
use crate::ports::lost;
use crate::search::Effort;
use layers::Network;
use quincunx_contract::{
    Claim, Compiled, Log, NotCompiled, Numerics, Options, Refusal, Refused, Rim,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Graph;
use suffice::OF_REGISTERS;
use writer::Writer;

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
            code if OF_REGISTERS.contains(&code) => writer.crowded(layer, node, problem),
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
