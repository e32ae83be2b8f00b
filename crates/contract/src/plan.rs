//! Dividing a graph between a machine and the host.

use crate::{Arch, Claim, Target};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, NodeId, passes};
use serde::{Deserialize, Serialize};

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
    /// Why the host, if it is the host.
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
        let weight = |row: &Row| if self.total_macs() == 0 { 1 } else { row.macs };
        let total: u64 = self.rows.iter().map(weight).sum();
        let device: u64 = self.rows.iter().filter(|r| r.place == Place::Device).map(weight).sum();
        if total == 0 { 0.0 } else { device as f64 / total as f64 }
    }

    /// MACs of the whole graph.
    pub fn total_macs(&self) -> u64 {
        self.rows.iter().map(|row| row.macs).sum()
    }

    /// True when a segment runs on the machine.
    pub fn uses_device(&self) -> bool {
        self.segments.iter().any(|segment| segment.place == Place::Device)
    }

    /// With `--strict`, a node on the host is an error: one diagnostic per such node.
    pub fn host_nodes(&self, target: &str) -> Vec<Diagnostic> {
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

/// Divides `graph` between `target` and the host.
///
/// Claimed nodes go to the machine, all others to the host. Nodes of one place that can run
/// together share a segment: segments alternate along every path, so their order is acyclic.
///
/// # Errors
/// A bug diagnostic when a target claims another number of nodes than there are.
pub fn plan(graph: &Graph, target: &dyn Target, arch: &dyn Arch) -> Result<Plan> {
    let claims = target.claim(graph, arch);
    if claims.len() != graph.nodes().len() {
        return Err(Diagnostic::bug("a target must claim or refuse every node"));
    }
    let places: Vec<Place> = claims
        .iter()
        .map(|claim| if *claim == Claim::Device { Place::Device } else { Place::Host })
        .collect();
    let levels = levels(graph, &places);
    let mut keys: Vec<(usize, Place)> =
        levels.iter().copied().zip(places.iter().copied()).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut segments = Vec::new();
    let mut segment_of = vec![0; claims.len()];
    for (number, &(level, place)) in keys.iter().enumerate() {
        let nodes: Vec<NodeId> = graph
            .nodes()
            .map(|(id, _)| id)
            .filter(|id| (levels[id.index()], places[id.index()]) == (level, place))
            .collect();
        nodes.iter().for_each(|id| segment_of[id.index()] = number);
        segments.push(Segment {
            name: format!("{}{number}", place.name()),
            place,
            graph: match place {
                Place::Device if !target.info().own_grid => {
                    passes::extract_on_grids(graph, &nodes)?
                }
                Place::Device | Place::Host => passes::extract(graph, &nodes)?,
            },
        });
    }
    let total: u64 = graph.nodes().map(|(_, node)| graph.macs(node)).sum();
    let rows = graph
        .nodes()
        .zip(claims)
        .map(|((id, node), claim)| {
            let macs = graph.macs(node);
            Row {
                node: node.name.clone(),
                op: node.op.name(),
                segment: segments[segment_of[id.index()]].name.clone(),
                place: places[id.index()],
                reason: match claim {
                    Claim::Device => None,
                    Claim::Host(reason) => Some(reason),
                },
                macs,
                share: if total == 0 { 0.0 } else { macs as f64 / total as f64 },
            }
        })
        .collect();
    let outputs = graph.outputs().iter().map(|&id| graph[id].name.clone()).collect();
    Ok(Plan { segments, rows, outputs })
}

/// How many changes of place lie on the way to each node.
fn levels(graph: &Graph, places: &[Place]) -> Vec<usize> {
    let mut levels = vec![0; places.len()];
    for (id, node) in graph.nodes() {
        levels[id.index()] = node
            .operands()
            .filter_map(|operand| graph[operand].producer)
            .map(|p| levels[p.index()] + usize::from(places[p.index()] != places[id.index()]))
            .max()
            .unwrap_or(0);
    }
    levels
}
