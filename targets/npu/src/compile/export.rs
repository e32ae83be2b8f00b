//! A compiled program as files of the ecosystem: scheduler IR, frontend IR, quantisation scales.
//!
//! The formats hold less than programs: what has no form is refused. Before files are given, the
//! program is derived from them again and compared.

mod network;
mod schedule;

use super::layers::{Act, Frame, Layer, Network, Operation};
use super::schedule::{DramTensor, Layout};
use super::steps::{fold_frame, folded, format};
use super::weights;
use crate::arch::NpuArch;
use crate::artifact::Describe;
use crate::derive::{Manner, derive};
use crate::files::schedule::Area;
use crate::files::{IrFile, Json, Kind, Style};
use crate::isa::DataFmt;
use crate::program::Program;
use crate::work::{Copy, Weights, Work, element_bytes, resolve};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, Op, ValueId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What the files say of a program besides its lines.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) network: Network,
    /// The layers by their numbers.
    layers: Vec<Described>,
    /// Names of the values that lie in memory.
    names: FxHashMap<ValueId, String>,
    pub(super) folds: FxHashMap<ValueId, u32>,
    pub(super) inputs: Vec<DramTensor>,
    pub(super) outputs: Vec<DramTensor>,
    /// First byte of the weights of every layer.
    pub(super) weights: FxHashMap<usize, u32>,
    pub(super) layout: Layout,
}

/// What the graph says of a layer.
#[derive(Debug)]
struct Described {
    name: String,
    /// Name and scales of its weights.
    weights: Option<(String, Vec<f64>)>,
    /// Why the formats have no such layer.
    unknown: Option<&'static str>,
}

/// Members of an object.
type Members = Vec<(&'static str, Json)>;

/// Lines that compute, by the number of their layer.
type Examples<'w> = BTreeMap<usize, &'w Work>;

impl Record {
    /// What is kept of a graph and its schedule.
    pub(super) fn new(
        graph: &Graph,
        network: Network,
        folds: FxHashMap<ValueId, u32>,
        (inputs, outputs): (Vec<DramTensor>, Vec<DramTensor>),
        weights: FxHashMap<usize, u32>,
        layout: Layout,
    ) -> Record {
        let mut names = FxHashMap::default();
        for layer in &network.layers {
            for &value in layer.inputs.iter().chain([&layer.output]) {
                let root = network.root(value);
                // An input is called as its tensor is, not as its codes.
                let enters = network.layers.iter().find(|other| other.output == root);
                let named = match enters.filter(|layer| layer.operation == Operation::Enter) {
                    Some(enter) => enter.inputs[0],
                    None => root,
                };
                names.insert(root, graph[named].name.clone());
            }
        }
        let layers = network.layers.iter().map(|layer| described(graph, layer)).collect();
        Record { network, layers, names, folds, inputs, outputs, weights, layout }
    }

    fn name(&self, value: ValueId) -> &str {
        self.names.get(&self.network.root(value)).map_or("", String::as_str)
    }

    /// Images, channels, rows and columns as they lie in memory.
    fn extents(&self, value: ValueId) -> [i64; 4] {
        let form = self.network.forms[&value];
        let fold = self.folds.get(&self.network.root(value)).copied().unwrap_or(1);
        let [c, h, w] = folded(form.extents, fold);
        [form.images, c, h, w].map(i64::from)
    }

    fn format(&self, value: ValueId) -> DataFmt {
        format(self.network.forms[&value].grid)
    }

    /// Bits of an element.
    fn bits(&self, value: ValueId) -> i64 {
        i64::from(element_bytes(self.format(value))) * 8
    }

    /// The window of a layer on its input as it lies in memory.
    fn frame(&self, layer: &Layer) -> Frame {
        match layer.operation {
            Operation::Conv { frame, .. } => {
                let fold = self.folds.get(&self.network.root(layer.inputs[0]));
                fold.map_or(frame, |&fold| fold_frame(frame, fold).0)
            }
            Operation::Pool { frame, .. } => frame,
            _ => Frame::POINT,
        }
    }

    fn refuse(&self, layer: usize, why: &str) -> Diagnostic {
        let name = self.layers.get(layer).map_or("", |layer| &layer.name);
        refuse(format!("layer {name:?}: {why}"))
    }

    /// Refuses layers that the formats do not have.
    fn check_layers(&self) -> Result<()> {
        for (index, layer) in self.layers.iter().enumerate() {
            if let Some(why) = layer.unknown {
                return Err(self.refuse(index, why));
            }
        }
        Ok(())
    }

    /// Refuses files that mean another program.
    fn check(&self, files: &[IrFile; 3], program: &Program, arch: &NpuArch) -> Result<()> {
        let [schedule, network, scales] = files;
        let mut warnings = Vec::new();
        let derived = derive(
            ("schedule", schedule),
            ("network", network),
            Some(("scales", scales)),
            arch,
            Manner::Ours,
            &mut warnings,
        );
        let problem = |found: &Diagnostic| refuse(format!("the files break a rule: {found}"));
        let derived = derived.map_err(|problems| {
            problems.first().map_or_else(|| refuse("there are none".to_owned()), problem)
        })?;
        if let Some(warning) = warnings.first() {
            return Err(problem(warning));
        }
        let [own, other] = [program, &derived].map(essence);
        let differs = own.iter().zip(&other).position(|(a, b)| a.1 != b.1);
        let differs = differs.or_else(|| {
            let short = own.len().min(other.len());
            (own.len() != other.len()).then(|| short.min(own.len().saturating_sub(1)))
        });
        match differs {
            None => Ok(()),
            Some(at) => Err(self.refuse(own[at].0, "its lines have fields that no file holds")),
        }
    }
}

impl Describe for Record {
    fn files(&self, program: &Program, arch: &NpuArch) -> Result<[(&'static str, IrFile); 3]> {
        self.check_layers()?;
        let work = resolve(program);
        let mut examples = Examples::new();
        for (line, work) in program.lines.iter().zip(&work) {
            if let (Some(map), Ok(work @ (Work::Conv(_) | Work::Vector(_)))) = (&line.map, work) {
                examples.entry(map.slyr.max(0) as usize).or_insert(work);
            }
        }
        let python = |indent| Style::Python { indent: Some(indent), newline: false };
        let schedule = schedule::schedule(self, program, &work, arch)?;
        let files = [
            IrFile { kind: Kind::Scheduler, value: schedule, style: Style::JsonCpp },
            IrFile { kind: Kind::Frontend, value: self.frontend(&examples), style: python(3) },
            IrFile { kind: Kind::Scales, value: self.scales(&examples), style: python(4) },
        ];
        self.check(&files, program, arch)?;
        let [schedule, network, scales] = files;
        Ok([("sched", schedule), ("frontend", network), ("scales", scales)])
    }
}

/// A problem of what the formats cannot say.
fn refuse(message: String) -> Diagnostic {
    Diagnostic::unsupported("Q4103", message).help(
        "write assembly text; plain convolutions, dense layers, pools, sums and quantisers of one \
         core have a schedule",
    )
}

fn described(graph: &Graph, layer: &Layer) -> Described {
    let node = layer.nodes.first().map(|&node| &graph[node]);
    let weights = node.filter(|_| matches!(layer.operation, Operation::Conv { .. }));
    let weights = weights.and_then(|node| {
        let scales = weights::scales(graph, node)?;
        Some((graph[node.input(1)?].name.clone(), scales))
    });
    let name = graph[layer.output].name.clone();
    let by_constants = node.is_some_and(|node| matches!(node.op, Op::Binary(_)));
    let plain = matches!(layer.act, Act::None | Act::Relu);
    let unknown = match &layer.operation {
        _ if !plain => Some("the formats have no activation but ReLU"),
        Operation::Enter | Operation::Alias | Operation::Pool { .. } => None,
        Operation::Add | Operation::Copy => None,
        Operation::Conv { frame, groups } => match (groups, frame.dilate, frame.insert) {
            (1, [1, 1], [1, 1]) if !by_constants && weights.is_some() => None,
            (1, [1, 1], [1, 1]) => Some("the formats have no products with constants of channels"),
            (1, [1, 1], _) => Some("the formats have no transposed convolutions"),
            (1, ..) => Some("the formats have no dilated convolutions"),
            _ => Some("the formats have no convolutions in groups"),
        },
        Operation::Product(_) => Some("the formats have no products of activations"),
        Operation::Turn(_) => Some("the formats have no transpositions"),
        Operation::Subtract => Some("the formats have no differences"),
        Operation::Multiply => Some("the formats have no products of elements"),
        Operation::Function(_) => Some("the formats have no functions"),
        Operation::Slice { .. } => Some("the formats have no concatenations"),
        Operation::Enlarge { .. } => Some("the formats do not enlarge images"),
    };
    Described { name, weights, unknown }
}

/// What a program computes in order, then what it moves: with the layer of each. Where activations
/// lie in DRAM and in how many parts inputs are loaded is not what the files say.
fn essence(program: &Program) -> Vec<(usize, Work)> {
    let (mut computes, mut stores, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for (line, work) in program.lines.iter().zip(resolve(program)) {
        let map = line.map.as_ref();
        let own = map.and_then(|map| map.clyr.first()).or(map.map(|map| &map.slyr));
        let layer = own.map_or(0, |&layer| layer.max(0) as usize);
        match work {
            Ok(work @ (Work::Conv(_) | Work::Vector(_) | Work::Reorder(_))) => {
                computes.push((layer, work));
            }
            Ok(Work::Copy(copy)) if !copy.load => {
                stores.push((layer, Work::Copy(Copy { dram: 0, ..copy })));
            }
            Ok(Work::Weights(moved)) => weights.push((layer, moved)),
            _ => {}
        }
    }
    // Only their order in the DRAM queue is that of the program.
    let key = |(_, moved): &(usize, Weights)| match moved.uses_dram() {
        true => String::new(),
        false => format!("{moved:?}"),
    };
    weights.sort_by_cached_key(key);
    let weights = weights.into_iter().map(|(layer, moved)| (layer, Work::Weights(moved)));
    computes.into_iter().chain(stores).chain(weights).collect()
}

/// A box of extents from a corner.
fn area(lower: [i64; 4], extents: [i64; 4]) -> Area {
    Area { lower, upper: std::array::from_fn(|axis| lower[axis] + extents[axis] - 1) }
}

/// A list of numbers.
fn list(numbers: impl IntoIterator<Item = i64>) -> Json {
    numbers.into_iter().map(Json::from).collect()
}
