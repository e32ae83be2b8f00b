//! `compile --split`: one model on several machines, one after the other.
//!
//! Every machine gets a part of the nodes, which it compiles as a model of its own. Between them go
//! real numbers, which the next machine moves onto its own grid ([`Handover`]).

use crate::compile::{
    Compilation, Job, compile, constant_outputs, folder, machine_record, summary_of,
};
use crate::executable::{Executable, Handover};
use crate::{Calibration, InputSpec, Model, Outcome, Setup, Stage};
use quincunx_contract::folder::Folder;
use quincunx_contract::plan::Row;
use quincunx_diag::{Diagnostic, Result, suggestion};
use quincunx_graph::execute::{self, Keep};
use quincunx_graph::{Graph, NodeId, passes};
use quincunx_report::{Cell, Column, Table};
use quincunx_tensor::Tensors;
use std::collections::{BTreeMap, BTreeSet};

/// What stands for all nodes that are not named.
const REST: &str = "rest";

/// A machine with the nodes that it is to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The machine, as it was written: `TARGET` or `TARGET@PRESET`.
    pub machine: String,
    /// Its nodes, in node order.
    pub nodes: Vec<NodeId>,
}

/// The model that is split: what can be computed beforehand is, so that every node that is left
/// belongs to a machine.
///
/// # Errors
/// Constants that cannot be computed.
pub fn foldable(model: &Model) -> Result<Model> {
    let graph = passes::remove_dead(&passes::fold_constants(&model.graph)?)?;
    Ok(Model { graph, ..model.clone() })
}

/// Reads `NODES@MACHINE, ...`: nodes are names, ranges `FIRST..LAST` of all nodes on the ways from one
/// to the other, and `rest`; several for one machine stand between commas. Machines come in the order in
/// which numbers pass through them.
///
/// # Errors
/// `Q0656` for what is no such list, a name that no node has, a node that is given twice or not at all;
/// `Q0657` for a part that reads what a later one computes.
pub fn parse(text: &str, graph: &Graph) -> Result<Vec<Wish>> {
    let mut owners: BTreeMap<NodeId, usize> = BTreeMap::new();
    let (mut machines, mut rest) = (Vec::new(), None);
    let mut pending: Vec<&str> = Vec::new();
    for item in text.split(',').map(str::trim) {
        let (name, machine) = split_machine(item, graph);
        pending.push(name);
        let Some(machine) = machine else { continue };
        for name in pending.drain(..) {
            if name == REST {
                if rest.replace(machines.len()).is_some() {
                    return Err(malformed("the rest is given twice"));
                }
                continue;
            }
            for node in named(name, graph)? {
                if owners.insert(node, machines.len()).is_some() {
                    let name = &graph[node].name;
                    return Err(malformed(format!("node \"{name}\" is given twice")));
                }
            }
        }
        machines.push(machine.to_owned());
    }
    if !pending.is_empty() || machines.is_empty() {
        return Err(malformed(format!("\"{}\" has no machine", pending.join(", "))));
    }
    let mut wishes: Vec<Wish> =
        machines.into_iter().map(|machine| Wish { machine, nodes: Vec::new() }).collect();
    for (id, node) in graph.nodes() {
        let owner = owners.get(&id).copied().or(rest).ok_or_else(|| {
            malformed(format!("node \"{}\" has no machine", node.name))
                .help(format!("give it to one, or all that is left with {REST}@MACHINE"))
        })?;
        wishes[owner].nodes.push(id);
    }
    wishes.retain(|wish| !wish.nodes.is_empty());
    check_order(&wishes, graph)?;
    Ok(wishes)
}

/// `NODES@TARGET` or `NODES@TARGET@PRESET`; names of nodes may hold an `@`.
fn split_machine<'t>(item: &'t str, graph: &Graph) -> (&'t str, Option<&'t str>) {
    let is_nodes = |text: &str| {
        let mut ends = text.split("..");
        text == REST || ends.all(|name| graph.node_named(name).is_some())
    };
    let cuts = || item.match_indices('@').map(|(at, _)| (&item[..at], &item[at + 1..]));
    // A name that no node has is told of by who looks for it.
    let found = cuts().rev().find(|(nodes, _)| is_nodes(nodes)).or_else(|| cuts().next());
    found.map_or((item, None), |(nodes, machine)| (nodes, Some(machine)))
}

fn malformed(message: impl Into<String>) -> Diagnostic {
    Diagnostic::usage("Q0656", message.into())
        .help("a split is NODES@MACHINE, ..., as in \"conv1@scamp, rest@dais\"")
}

/// The nodes of a name or a range.
fn named(text: &str, graph: &Graph) -> Result<Vec<NodeId>> {
    let find = |name: &str| {
        graph.node_named(name).ok_or_else(|| {
            let names: Vec<&str> = graph.nodes().map(|(_, node)| &*node.name).collect();
            Diagnostic::usage("Q0656", format!("no node is named \"{name}\"")).help(suggestion(
                name,
                "nodes",
                names.iter().copied().chain([REST]),
            ))
        })
    };
    let range = text.split_once("..").filter(|_| graph.node_named(text).is_none());
    let Some((first, last)) = range else { return Ok(vec![find(text)?]) };
    let between = between(find(first.trim())?, find(last.trim())?, graph);
    match between.is_empty() {
        true => Err(malformed(format!("no way leads from \"{first}\" to \"{last}\""))),
        false => Ok(between),
    }
}

/// All nodes on the ways from one to another, in node order; none where there is no way.
fn between(first: NodeId, last: NodeId, graph: &Graph) -> Vec<NodeId> {
    let before = |id: NodeId| {
        let operands = graph[id].operands();
        operands.filter_map(|operand| graph[operand].producer).collect::<Vec<_>>()
    };
    // Behind the first one.
    let mut behind = vec![false; graph.nodes().len()];
    for (id, _) in graph.nodes() {
        behind[id.index()] = id == first || before(id).iter().any(|id| behind[id.index()]);
    }
    let mut wanted = vec![false; behind.len()];
    wanted[last.index()] = true;
    let ids: Vec<NodeId> = graph.nodes().map(|(id, _)| id).collect();
    for &id in ids.iter().rev().filter(|id| behind[id.index()]) {
        if wanted[id.index()] {
            before(id).iter().for_each(|id| wanted[id.index()] = true);
        }
    }
    ids.into_iter().filter(|id| behind[id.index()] && wanted[id.index()]).collect()
}

/// Numbers go from earlier machines to later ones alone.
fn check_order(wishes: &[Wish], graph: &Graph) -> Result<()> {
    let mut places = BTreeMap::new();
    for (place, wish) in wishes.iter().enumerate() {
        places.extend(wish.nodes.iter().map(|&id| (id, place)));
    }
    for (id, node) in graph.nodes() {
        for value in node.operands() {
            let Some(from) = graph[value].producer else { continue };
            if places[&from] > places[&id] {
                let (earlier, later) = (&wishes[places[&id]], &wishes[places[&from]]);
                let message = format!(
                    "\"{}\" on {} reads \"{}\", which \"{}\" on {} computes later",
                    node.name, earlier.machine, graph[value].name, graph[from].name, later.machine
                );
                let help = "machines come in the order in which numbers pass through them; one can \
                            come several times";
                return Err(Diagnostic::usage("Q0657", message).help(help));
            }
        }
    }
    Ok(())
}

/// The part of a model that these nodes are.
///
/// # Errors
/// None for nodes of the model.
pub fn part(model: &Model, nodes: &[NodeId]) -> Result<Model> {
    let graph = passes::extract(&model.graph, nodes)?;
    // Data beside the model is of the whole.
    Ok(Model { graph, path: None, ..model.clone() })
}

/// The part of a model that nodes of these names are; all of it without names.
///
/// # Errors
/// `Q0613` for a name that no node has, and for names that are not in the order of the nodes.
pub(crate) fn part_named(model: &Model, names: &[String]) -> Result<Model> {
    if names.is_empty() {
        return Ok(model.clone());
    }
    let other = |message: String| {
        Diagnostic::invalid("Q0613", message)
            .help("give the model and the options the program was compiled with")
    };
    let find = |name: &String| {
        let id = model.graph.node_named(name);
        id.ok_or_else(|| other(format!("the model has no node \"{name}\"")))
    };
    let nodes = names.iter().map(find).collect::<Result<Vec<_>>>()?;
    if !nodes.is_sorted_by(|a, b| a < b) {
        return Err(other("the nodes of a machine have another order in this model".to_owned()));
    }
    part(model, &nodes)
}

/// What to split.
pub struct Split<'a> {
    /// The model, as [`foldable`] gives it.
    pub model: &'a Model,
    /// The machines with their nodes, in the order of [`parse`].
    pub parts: Vec<(Setup<'a>, Vec<NodeId>)>,
    /// A node that its machine does not take is an error.
    pub strict: bool,
    /// Batch normalisations are folded into the layers before them.
    pub fold_batch_norm: bool,
    /// Data to quantise a float model with.
    pub calibration: Calibration<'a>,
    /// As [`Job::verify_each`].
    pub verify_each: bool,
}

/// A part that is compiled.
pub struct Part<'a> {
    /// Its machine.
    pub setup: Setup<'a>,
    /// Names of its nodes in the model.
    pub nodes: Vec<String>,
    /// What became of it. Its executable is in [`Pipeline::executable`].
    pub compilation: Compilation,
}

/// A model on several machines.
pub struct Pipeline<'a> {
    /// The parts, in order.
    pub parts: Vec<Part<'a>>,
    /// The programs of all of them.
    pub executable: Executable,
}

/// What goes in front of the names of the segments of a machine.
pub(crate) fn prefix(position: usize, setup: &Setup<'_>) -> String {
    format!("{position}-{}-", setup.name())
}

/// Compiles every part for its machine.
///
/// # Errors
/// As [`compile`]; a part that its machine's compiler cannot compile.
pub fn compile_split<'a>(split: Split<'a>) -> Outcome<Pipeline<'a>> {
    let Split { model, parts, strict, fold_batch_norm, calibration, verify_each } = split;
    let models = parts.iter().map(|(_, nodes)| part(model, nodes)).collect::<Result<Vec<_>>>()?;
    let images = border_values(model, &models, calibration)?;
    let mut executable = Executable {
        inputs: InputSpec::of(&model.graph),
        outputs: model.graph.outputs().iter().map(|&id| model.graph[id].name.clone()).collect(),
        constants: constant_outputs(&model.graph)?,
        stages: Vec::new(),
    };
    let mut compiled = Vec::new();
    for (position, ((setup, nodes), part)) in parts.into_iter().zip(&models).enumerate() {
        let job = Job {
            strict,
            fold_batch_norm,
            verify_each,
            calibration: Calibration { images: images.as_deref(), ..calibration },
            ..Job::new(part, &setup)
        };
        let mut compilation = compile(&job)?;
        let prefix = prefix(position, &setup);
        compilation.plan = compilation.plan.with_prefix(&prefix);
        let result = std::mem::replace(&mut compilation.result, Err(Vec::new().into()));
        let Executable { constants, stages, .. } = result?;
        executable.constants.extend(constants);
        executable.stages.extend(stages.into_iter().map(|stage| Stage {
            name: format!("{prefix}{}", stage.name),
            machine: position,
            ..stage
        }));
        let nodes = nodes.iter().map(|&id| model.graph[id].name.clone()).collect();
        compiled.push(Part { setup, nodes, compilation });
    }
    Ok(Pipeline { parts: compiled, executable })
}

/// What the parts read on the calibration data, if there is any.
pub(crate) fn border_values(
    model: &Model,
    parts: &[Model],
    calibration: Calibration<'_>,
) -> Outcome<Option<Vec<Tensors>>> {
    if !calibration.has_data(model) {
        return Ok(None);
    }
    let inputs =
        |part: &Model| part.graph.inputs().iter().map(|&id| part.graph[id].name.clone()).collect();
    let wanted: BTreeSet<String> =
        parts.iter().flat_map(|part| -> Vec<String> { inputs(part) }).collect();
    let settings = execute::Settings { keep: Keep::All, ..execute::Settings::default() };
    let session = execute::Session::new(&model.graph, settings)?;
    let border = |image: &Tensors| {
        let mut values = session.run(image)?;
        values.extend(image.clone());
        values.retain(|name, _| wanted.contains(name));
        Ok(values)
    };
    let images = calibration.samples(model, &model.graph)?;
    Ok(Some(images.iter().map(border).collect::<Result<_>>()?))
}

/// What became of every part, as properties.
pub fn summary(pipeline: &Pipeline<'_>) -> Table {
    let mut table = Table::properties("summary");
    for (position, Part { setup, compilation, .. }) in pipeline.parts.iter().enumerate() {
        let programs = pipeline.executable.programs();
        let own = programs.filter(|(stage, _)| stage.machine == position).collect();
        let prefix = format!("{position} {}: ", setup.name());
        table.append_properties(&prefix, summary_of(&compilation.plan, own, setup));
    }
    table
}

impl Pipeline<'_> {
    /// Who executes what, and why: one row per node of every part.
    pub fn rows(&self) -> Vec<Row> {
        let rows = self.parts.iter().flat_map(|part| &part.compilation.plan.rows);
        let total: u64 = rows.clone().map(|row| row.macs).sum();
        let share = |macs: u64| if total == 0 { 0.0 } else { macs as f64 / total as f64 };
        rows.map(|row| Row { share: share(row.macs), ..row.clone() }).collect()
    }

    /// The program folder.
    ///
    /// # Errors
    /// A program or host segment that cannot be written as files.
    pub fn to_folder(&self, model: &Model) -> Outcome<Folder> {
        let record =
            |part: &Part<'_>| machine_record(&part.compilation, &part.setup, part.nodes.clone());
        let machines = self.parts.iter().map(record).collect();
        folder(&model.graph, &self.executable, &self.rows(), machines, |stage| {
            let part = &self.parts[stage.machine];
            (&part.setup, part.compilation.file_stem.as_deref())
        })
    }
}

/// Values that went from one machine to another, over all images: how the next machine holds them and
/// how far that is from what was computed. `None` where there is one machine.
pub fn handovers<'h>(handovers: impl IntoIterator<Item = &'h Handover>) -> Option<Table> {
    let mut all: Vec<Handover> = Vec::new();
    for handover in handovers {
        let same = |known: &&mut Handover| {
            known.value == handover.value && known.segments == handover.segments
        };
        match all.iter_mut().find(same) {
            Some(known) => known.distance = known.distance.join(handover.distance),
            None => all.push(handover.clone()),
        }
    }
    let words = ["value", "from", "to", "grid"].map(Column::text).into_iter();
    let numbers = ["elements", "max_error", "rms_error"].map(Column::number);
    let noise = Column::number("signal_to_noise").unit("dB");
    let mut table = Table::new("handovers", words.chain(numbers).chain([noise]).collect());
    for Handover { value, segments: [from, to], grid, distance } in &all {
        let decibels = distance.decibels();
        table.push(vec![
            value.as_str().into(),
            from.as_str().into(),
            to.as_str().into(),
            grid.to_string().into(),
            distance.elements.into(),
            Cell::Brief(distance.max),
            Cell::Brief(distance.rms()),
            decibels.map_or(Cell::Empty, |decibels| Cell::Real(decibels, 1)),
        ]);
    }
    (!all.is_empty()).then_some(table)
}
