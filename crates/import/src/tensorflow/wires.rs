//! Which node reads which result, and which nodes the outputs need.

use super::ops::{self, Row};
use super::proto::NodeDef;
use crate::budget::MAX_NODES;
use crate::options::Options;
use crate::sort::sort;
use quincunx_diag::{Diagnostic, Problems, did_you_mean};
use rustc_hash::{FxHashMap, FxHashSet};

/// Most results of one node.
pub(crate) const MOST_SLOTS: usize = 1 << 16;

/// Most bytes of the names of outputs that nobody chose.
const MAX_SINK_NAMES: usize = 1 << 25;

/// A result of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Port {
    pub(crate) node: usize,
    pub(crate) slot: usize,
}

/// The nodes of a file and how they are connected.
pub(crate) struct Wires<'m> {
    pub(crate) nodes: &'m [NodeDef],
    by_name: FxHashMap<&'m str, usize>,
    /// The data each node reads; an error is a name that nothing has.
    inputs: Vec<Vec<Result<Port, &'m str>>>,
    /// How often each result is read by a node that is needed.
    uses: FxHashMap<Port, usize>,
    needed: Vec<bool>,
    /// The outputs of the network.
    pub(crate) outputs: Vec<Port>,
    is_output: FxHashSet<Port>,
}

impl<'m> Wires<'m> {
    /// Connects the nodes; reports names that are given twice and outputs that do not exist.
    pub(crate) fn new(nodes: &'m [NodeDef], options: &Options, problems: &mut Problems) -> Self {
        let mut by_name = FxHashMap::default();
        for (index, node) in nodes.iter().enumerate() {
            if node.name.is_empty() || node.name.contains([':', '^']) {
                problems.push(Diagnostic::invalid(
                    "Q0409",
                    format!("\"{}\" is not a valid name of a node", node.name),
                ));
            }
            if by_name.insert(node.name.as_str(), index).is_some() {
                problems.push(Diagnostic::invalid(
                    "Q0409",
                    format!("two nodes are named \"{}\"", node.name),
                ));
            }
        }
        let data = |node: &'m NodeDef| {
            let names = node.input.iter().map(String::as_str).filter(|name| !name.starts_with('^'));
            names.map(|name| port(name, &by_name).ok_or(name)).collect()
        };
        let inputs = nodes.iter().map(data).collect();
        let mut wires = Wires {
            nodes,
            by_name,
            inputs,
            uses: FxHashMap::default(),
            needed: vec![false; nodes.len()],
            outputs: Vec::new(),
            is_output: FxHashSet::default(),
        };
        wires.outputs = match options.outputs.as_slice() {
            [] => wires.sinks(problems),
            names => wires.named(names, problems),
        };
        wires.is_output = wires.outputs.iter().copied().collect();
        wires.mark_needed();
        wires
    }

    /// The data a node reads.
    pub(crate) fn inputs(&self, node: usize) -> &[Result<Port, &'m str>] {
        &self.inputs[node]
    }

    /// The result that is operand `index` of a node.
    pub(crate) fn input(&self, node: usize, index: usize) -> Option<Port> {
        self.inputs[node].get(index)?.ok()
    }

    /// True when exactly one operand of one node is this result, and it is not an output.
    pub(crate) fn is_read_once(&self, port: Port) -> bool {
        self.uses.get(&port) == Some(&1) && !self.is_output.contains(&port)
    }

    /// Name of a result: the node's, with its number unless it is the first.
    pub(crate) fn name(&self, port: Port) -> String {
        let name = &self.nodes[port.node].name;
        match port.slot {
            0 => name.clone(),
            slot => format!("{name}:{slot}"),
        }
    }

    /// The nodes that the outputs need, in the order of the file.
    pub(crate) fn needed(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(|&index| self.needed[index])
    }

    /// The needed nodes so that each comes after those it reads.
    ///
    /// # Errors
    /// A node on a cycle.
    pub(crate) fn order(&self) -> Result<Vec<usize>, usize> {
        let reads = |index: usize| {
            let inputs = if self.needed[index] { &self.inputs[index][..] } else { &[] };
            inputs.iter().filter_map(|input| input.ok().map(|port| port.node))
        };
        let mut order = sort(self.nodes.len(), reads)?;
        order.retain(|&index| self.needed[index]);
        Ok(order)
    }

    /// Results of nodes that nothing reads, except of nodes that are not part of a network.
    fn sinks(&self, problems: &mut Problems) -> Vec<Port> {
        let mut is_read = vec![false; self.nodes.len()];
        for input in self.inputs.iter().flatten().flatten() {
            is_read[input.node] = true;
        }
        let part = |op: &str| {
            !matches!(op, "NoOp" | "Assert" | "Const" | "Placeholder" | "PlaceholderWithDefault")
        };
        let mut sinks = Vec::new();
        let mut names = 0;
        for node in (0..self.nodes.len()).filter(|&n| !is_read[n] && part(&self.nodes[n].op)) {
            sinks.extend((0..self.slots(node)).map(|slot| Port { node, slot }));
            names += self.slots(node) * self.nodes[node].name.len();
            if sinks.len() as u64 > MAX_NODES || names > MAX_SINK_NAMES {
                problems.push(Diagnostic::unsupported(
                    "Q0402",
                    format!(
                        "nothing reads more than {MAX_NODES} results of the model, or their names \
                         have more than {MAX_SINK_NAMES} bytes"
                    ),
                ));
                return Vec::new();
            }
        }
        sinks
    }

    /// Number of results of a node.
    fn slots(&self, node: usize) -> usize {
        ops::find(&self.nodes[node].op).map_or(1, |row: &Row| row.slots(&self.nodes[node]))
    }

    fn named(&self, names: &[String], problems: &mut Problems) -> Vec<Port> {
        let mut ports = Vec::new();
        for name in names {
            match port(name, &self.by_name) {
                Some(found) => ports.push(found),
                None => {
                    let known = self.nodes.iter().map(|node| node.name.as_str());
                    problems.push(
                        Diagnostic::usage("Q0415", format!("the model has no output \"{name}\""))
                            .help_if(did_you_mean(name, known)),
                    );
                }
            }
        }
        ports
    }

    fn mark_needed(&mut self) {
        let mut open: Vec<usize> = self.outputs.iter().map(|port| port.node).collect();
        while let Some(node) = open.pop() {
            if std::mem::replace(&mut self.needed[node], true) {
                continue;
            }
            for port in self.inputs[node].iter().flatten() {
                *self.uses.entry(*port).or_default() += 1;
                open.push(port.node);
            }
        }
    }
}

/// `node` or `node:slot`.
fn port(name: &str, by_name: &FxHashMap<&str, usize>) -> Option<Port> {
    if let Some(&node) = by_name.get(name) {
        return Some(Port { node, slot: 0 });
    }
    let (name, slot) = name.rsplit_once(':')?;
    let slot = slot.parse().ok().filter(|&slot| slot < MOST_SLOTS)?;
    Some(Port { node: *by_name.get(name)?, slot })
}
