//! Dividing a graph between a machine and the host.

use crate::folder::PlanRow;
use crate::{
    Arch, Claim, Compiled, Compiler, Log, NotCompiled, Numbers, Options, Refusal, Refused, Target,
    compiler_of,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, Node, NodeId, Op, ValueId, passes};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Who executes a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// The machine.
    Device,
    /// The host, by the reference executor.
    Host,
}

impl Place {
    /// Name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Place::Device => "device",
            Place::Host => "host",
        }
    }
}

/// Nodes that run together on one place.
#[derive(Clone, Debug)]
pub struct Segment {
    /// `device0`, `host1`, …: unique, also the name of its folder.
    pub name: String,
    /// Who executes it.
    pub place: Place,
    /// Its nodes as a graph of their own. Inputs and outputs keep the value names of the whole
    /// graph, by which segments are connected.
    pub graph: Graph,
}

/// One row of the `explain` table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Node name.
    pub node: String,
    /// Operator name.
    pub op: &'static str,
    /// Name of its segment.
    pub segment: String,
    /// Who executes it.
    pub place: Place,
    /// Why the host, if it is the host; of a quantiser of the machine, that the driver executes it.
    pub reason: Option<String>,
    /// Multiplications with accumulation.
    pub macs: u64,
    /// Share of the graph's MACs, 0 to 1; 0 for all nodes of a graph without MACs.
    pub share: f64,
}

/// A graph divided into segments, in execution order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Segments; each reads only graph inputs and results of earlier segments.
    pub segments: Vec<Segment>,
    /// One row per node, in node order.
    pub rows: Vec<Row>,
    /// Names of the whole graph's outputs.
    pub outputs: Vec<String>,
}

impl Plan {
    /// Share of the MACs on the machine. A graph without MACs counts nodes instead.
    pub fn device_share(&self) -> f64 {
        let macs = self.total_macs();
        let weight = |row: &Row| if macs == 0 { 1 } else { row.macs };
        let total: u64 = self.rows.iter().map(weight).sum();
        let device: u64 = self.rows.iter().filter(|r| r.place == Place::Device).map(weight).sum();
        if total == 0 { 0.0 } else { device as f64 / total as f64 }
    }

    /// The same with this in front of the names of segments.
    #[must_use]
    pub fn with_prefix(mut self, prefix: &str) -> Plan {
        let segments = self.segments.iter_mut().map(|segment| &mut segment.name);
        let rows = self.rows.iter_mut().map(|row| &mut row.segment);
        segments.chain(rows).for_each(|name| name.insert_str(0, prefix));
        self
    }

    /// The graph of the segment with this name.
    pub fn segment(&self, name: &str) -> Option<&Graph> {
        self.segments.iter().find(|segment| segment.name == name).map(|s| &s.graph)
    }

    /// MACs of the whole graph.
    pub fn total_macs(&self) -> u64 {
        self.rows.iter().map(|row| row.macs).sum()
    }

    /// The segments as text.
    fn dump(&self) -> String {
        let text = |s: &Segment| format!("# {} ({})\n{}", s.name, s.place.name(), s.graph);
        self.segments.iter().map(text).collect()
    }

    /// True when a segment runs on the machine.
    pub fn uses_device(&self) -> bool {
        self.segments.iter().any(|segment| segment.place == Place::Device)
    }

    /// With `--strict`, a node on the host is an error: one diagnostic per such node.
    fn host_nodes(&self, target: &str) -> Vec<Diagnostic> {
        self.rows
            .iter()
            .filter_map(|row| {
                let reason = row.reason.as_ref()?;
                Some(
                    Diagnostic::unsupported(
                        "Q0504",
                        format!("{target} does not take it: {reason}"),
                    )
                    .at(quincunx_diag::Place::Node {
                        name: row.node.clone(),
                        op: row.op.to_owned(),
                        operands: String::new(),
                    })
                    .help("without --strict the host executes it"),
                )
            })
            .collect()
    }
}

/// Where a node runs: parts of the machine and of the host alternate along every path, and the
/// level counts the changes on the way to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// How many changes of place lie on the way.
    pub level: usize,
    /// Who executes it.
    pub place: Place,
}

/// The parts of the first nodes of a graph, in node order.
#[derive(Clone, Debug)]
pub struct Parts<'g> {
    graph: &'g Graph,
    parts: Vec<Part>,
}

impl<'g> Parts<'g> {
    /// No node has a part yet.
    pub fn new(graph: &'g Graph) -> Self {
        Parts { graph, parts: Vec::with_capacity(graph.nodes().len()) }
    }

    /// The part that the next node would be in.
    pub fn of_next(&self, node: &Node, place: Place) -> Part {
        let before = node.operands().filter_map(|operand| self.producing(operand));
        let level = before.map(|part| part.level + usize::from(part.place != place)).max();
        Part { level: level.unwrap_or(0), place }
    }

    /// Gives the next node its part.
    pub fn push(&mut self, part: Part) {
        self.parts.push(part);
    }

    /// The part of a node that has one.
    pub fn of(&self, node: NodeId) -> Part {
        self.parts[node.index()]
    }

    /// The part in which a value is computed; `None` for inputs and constants.
    pub fn producing(&self, value: ValueId) -> Option<Part> {
        Some(self.of(self.graph[value].producer?))
    }
}

/// A graph for a machine.
#[derive(Clone, Copy)]
pub struct Division<'a> {
    /// The graph: folded and quantised as the machine's [`Numbers`] want it.
    pub graph: &'a Graph,
    /// The target.
    pub target: &'a dyn Target,
    /// Its machine.
    pub arch: &'a dyn Arch,
    /// Options of its compiler.
    pub options: &'a Options,
}

/// A divided graph with what became of its segments.
pub struct Built {
    /// Who executes what, and why.
    pub plan: Plan,
    /// The programs, one entry per segment, `None` for those of the host; or everything that keeps
    /// them from being compiled.
    pub programs: std::result::Result<Vec<Option<Compiled>>, Vec<Diagnostic>>,
}

impl Built {
    /// Says which quantisers the driver executes, since they are the grids of ports.
    fn name_drivers(&mut self) {
        let Ok(programs) = &self.programs else { return };
        let mut names = BTreeSet::new();
        for (segment, compiled) in self.plan.segments.iter().zip(programs) {
            let Some(Compiled { program, .. }) = compiled else { continue };
            let graph = &segment.graph;
            let mut quantised: BTreeMap<ValueId, Vec<&Node>> = BTreeMap::new();
            for (_, node) in graph.nodes().filter(|(_, node)| matches!(node.op, Op::Quantise(_))) {
                node.input(0).into_iter().for_each(|x| quantised.entry(x).or_default().push(node));
            }
            for port in &program.interface().inputs {
                let is_driven = |node: &&&Node| matches!(&node.op, Op::Quantise(q) if port.grid.quantiser() == Some(q));
                let value = graph.value_named(&port.name);
                let readers = value.and_then(|value| quantised.get(&value)).into_iter().flatten();
                names.extend(readers.into_iter().find(is_driven).map(|node| node.name.clone()));
            }
        }
        for row in self.plan.rows.iter_mut().filter(|row| names.contains(&row.node)) {
            row.reason = Some("the driver rounds numbers to the grid of the port".to_owned());
        }
    }
}

impl Division<'_> {
    /// Divides the graph between the machine and the host.
    ///
    /// Claimed nodes go to the machine, all others to the host. Nodes of one place that can run
    /// together share a segment: segments alternate along every path, so their order is acyclic.
    ///
    /// # Errors
    /// `Q0520` without a compiler; what the target says about its options; a bug when it claims
    /// another number of nodes than there are.
    pub fn plan(&self) -> Result<Plan> {
        self.divide(compiler_of(self.target)?, &Refused::default())
    }

    /// Divides the graph and compiles the segments of the machine. Nodes that turn out not to fit
    /// are left to the host for that reason, beside those that are `refused`, and the graph is divided
    /// again. When `strict`, a node on the host is an error.
    ///
    /// # Errors
    /// As [`Division::plan`].
    pub fn build(&self, mut refused: Refused, strict: bool, log: &mut Log) -> Result<Built> {
        let compiler = compiler_of(self.target)?;
        loop {
            let plan = self.divide(compiler, &refused)?;
            // Only the last attempt is told of.
            let mut attempt = log.clone();
            attempt.pass("plan", format!("segments: {}", plan.segments.len()), || plan.dump());
            let on_host = plan.host_nodes(self.target.info().name);
            if strict && !on_host.is_empty() {
                *log = attempt;
                return Ok(Built { plan, programs: Err(on_host) });
            }
            let (mut programs, mut problems, mut refusals) = (Vec::new(), Vec::new(), Vec::new());
            for segment in &plan.segments {
                let mut compile =
                    || compiler.compile(&segment.graph, self.arch, self.options, &mut attempt);
                match (segment.place == Place::Device).then(&mut compile).transpose() {
                    Ok(compiled) => programs.push(compiled),
                    Err(NotCompiled::Failed(more)) => problems.extend(more),
                    Err(NotCompiled::Refused(more)) => refusals.extend(more),
                }
            }
            if refusals.is_empty() {
                *log = attempt;
                let programs = if problems.is_empty() { Ok(programs) } else { Err(problems) };
                let mut built = Built { plan, programs };
                built.name_drivers();
                return Ok(built);
            }
            // Every round leaves at least one more node to the host, so that there is a last one.
            for Refusal { node, problem } in refusals {
                let (id, reason) = (self.graph.node_named(&node), problem.message().to_owned());
                if !id.is_some_and(|id| refused.insert(id, reason)) {
                    let message = format!("\"{node}\" cannot be refused: it is not on the machine");
                    return Err(Diagnostic::bug(message));
                }
            }
        }
    }

    /// Divides the graph as a program folder says that it was; `None` when its rows are not the nodes
    /// of this graph.
    ///
    /// # Errors
    /// `Q0520` without a compiler.
    pub fn as_stored(&self, rows: &[PlanRow]) -> Result<Option<Plan>> {
        let compiler = compiler_of(self.target)?;
        let nodes = self.graph.nodes();
        let is_row = |((_, node), row): ((NodeId, &Node), &PlanRow)| node.name == row.node;
        if nodes.len() != rows.len() || !nodes.zip(rows).all(is_row) {
            return Ok(None);
        }
        let claim = |row: &PlanRow| match row.place {
            Place::Device => Claim::Device,
            Place::Host => Claim::Host(row.reason.clone().unwrap_or_default()),
        };
        self.assemble(compiler, rows.iter().map(claim).collect()).map(Some)
    }

    fn divide(&self, compiler: &dyn Compiler, refused: &Refused) -> Result<Plan> {
        let graph = self.graph;
        let mut claims = compiler.claim(graph, self.arch, self.options, refused)?;
        if claims.len() != graph.nodes().len() {
            return Err(Diagnostic::bug("a target must claim or refuse every node"));
        }
        for ((id, _), claim) in graph.nodes().zip(&mut claims) {
            if let Some(reason) = refused.reason(id) {
                *claim = Claim::Host(reason.to_owned());
            }
        }
        self.assemble(compiler, claims)
    }

    /// The plan of claims, one per node.
    fn assemble(&self, compiler: &dyn Compiler, claims: Vec<Claim>) -> Result<Plan> {
        let graph = self.graph;
        let mut parts = Parts::new(graph);
        for ((_, node), claim) in graph.nodes().zip(&claims) {
            let place = if *claim == Claim::Device { Place::Device } else { Place::Host };
            parts.push(parts.of_next(node, place));
        }
        let on_grids = matches!(compiler.numbers(self.arch, self.options), Numbers::Quantised(_));
        let segments = segments(graph, &parts, on_grids)?;
        Ok(Plan {
            rows: rows(graph, &parts, &segments, claims),
            segments: segments.into_values().collect(),
            outputs: graph.outputs().iter().map(|&id| graph[id].name.clone()).collect(),
        })
    }
}

/// The nodes of every part as a graph, in execution order.
fn segments(graph: &Graph, parts: &Parts<'_>, on_grids: bool) -> Result<BTreeMap<Part, Segment>> {
    let mut nodes: BTreeMap<Part, Vec<NodeId>> = BTreeMap::new();
    for (id, _) in graph.nodes() {
        nodes.entry(parts.of(id)).or_default().push(id);
    }
    let segment = |(number, (part, nodes)): (usize, (Part, Vec<NodeId>))| {
        let place = part.place;
        let pinned = on_grids && place == Place::Device;
        let extract = if pinned { passes::extract_on_grids } else { passes::extract };
        let graph = extract(graph, &nodes)?;
        Ok((part, Segment { name: format!("{}{number}", place.name()), place, graph }))
    };
    nodes.into_iter().enumerate().map(segment).collect()
}

/// One row per node.
fn rows(
    graph: &Graph,
    parts: &Parts<'_>,
    segments: &BTreeMap<Part, Segment>,
    claims: Vec<Claim>,
) -> Vec<Row> {
    let total: u64 = graph.nodes().map(|(_, node)| graph.macs(node)).sum();
    let row = |((id, node), claim): ((NodeId, &Node), Claim)| {
        let (part, macs) = (parts.of(id), graph.macs(node));
        Row {
            node: node.name.clone(),
            op: node.op.name(),
            segment: segments[&part].name.clone(),
            place: part.place,
            reason: match claim {
                Claim::Device => None,
                Claim::Host(reason) => Some(reason),
            },
            macs,
            share: if total == 0 { 0.0 } else { macs as f64 / total as f64 },
        }
    };
    graph.nodes().zip(claims).map(row).collect()
}
