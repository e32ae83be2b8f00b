//! Graphs become programs: what a machine with a compiler implements.

use crate::golden::Golden;
use crate::{Arch, Computing, Log, Options, Program, Target};
use quincunx_diag::{Class, Diagnostic, Result, first};
use quincunx_graph::execute::bounds::Precision;
use quincunx_graph::passes::Scheme;
use quincunx_graph::{Graph, Node, NodeId, Quantiser};
use quincunx_tensor::DType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which numbers a machine computes with.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Integers on grids: a float model is quantised by this scheme, its batch normalisations
    /// folded, and numbers of the host are moved onto a grid where they enter.
    Quantised(Scheme),
    /// Floats of one type, into which numbers of the host are rounded where they enter.
    Float {
        /// The type.
        dtype: DType,
        /// Batch normalisations are folded into the layers before them.
        fold: bool,
    },
    /// Its own, made of the network as it is: nothing is quantised or folded for the machine, and
    /// numbers enter on its own grid.
    Own {
        /// The machine's format, then others that a machine of this kind could have, in the order in
        /// which they are to be considered; none for floats.
        formats: Vec<Format>,
        /// Every value is to be multiplied by a power of two with which the first format holds it.
        rescale: bool,
    },
}

/// One grid for all numbers of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// Name.
    pub name: &'static str,
    /// The grid, the same for all elements.
    pub grid: Quantiser,
}

/// Whether a machine takes a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The machine executes the node.
    Device,
    /// The host executes it, for this reason.
    Host(String),
}

/// Nodes that are left to the host whatever the machine could do with them, with the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused(BTreeMap<NodeId, String>);

impl Refused {
    /// Leaves a node to the host; the first reason counts. False when it was left already.
    pub fn insert(&mut self, node: NodeId, reason: String) -> bool {
        let is_new = !self.0.contains_key(&node);
        self.0.entry(node).or_insert(reason);
        is_new
    }

    /// Why the node is left to the host, if it is.
    pub fn reason(&self, node: NodeId) -> Option<&str> {
        self.0.get(&node).map(String::as_str)
    }
}

/// What `compile` chose where the machine leaves a choice: per layer the accumulation order, folds
/// and approximations. Written to `program.json`; the golden model reads it back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Numerics(pub serde_json::Value);

/// A program with the numerics it implements.
pub struct Compiled {
    /// The program.
    pub program: Box<dyn Program>,
    /// What the compiler chose.
    pub numerics: Numerics,
}

/// Why a graph whose nodes were all claimed is not compiled after all.
#[derive(Clone, Debug, PartialEq)]
pub enum NotCompiled {
    /// These nodes do not fit: on the host, the rest may.
    Refused(Vec<Refusal>),
    /// Nothing that leaving nodes to the host would mend.
    Failed(Vec<Diagnostic>),
}

/// A node that does not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Its name.
    pub node: String,
    /// Why: the message becomes the reason in the plan.
    pub problem: Diagnostic,
}

impl NotCompiled {
    /// A problem with a node: what the machine cannot do is a reason to leave the node to the host,
    /// anything else a failure.
    pub fn at_node(graph: &Graph, node: &Node, problem: Diagnostic) -> Self {
        match problem.class() {
            Class::Unsupported => {
                NotCompiled::Refused(vec![Refusal { node: node.name.clone(), problem }])
            }
            _ => problem.at(graph.place(node)).into(),
        }
    }

    /// The first problem.
    pub fn first(self) -> Diagnostic {
        first(self.into_diagnostics())
    }

    /// The problems, for who cannot leave nodes to the host.
    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        match self {
            NotCompiled::Failed(problems) => problems,
            NotCompiled::Refused(refusals) => {
                refusals.into_iter().map(|refusal| refusal.problem).collect()
            }
        }
    }
}

impl From<Diagnostic> for NotCompiled {
    fn from(problem: Diagnostic) -> Self {
        NotCompiled::Failed(vec![problem])
    }
}

impl From<Vec<Diagnostic>> for NotCompiled {
    fn from(problems: Vec<Diagnostic>) -> Self {
        NotCompiled::Failed(problems)
    }
}

/// The compiler of a machine, and the golden model of what it compiles.
pub trait Compiler: Sync {
    /// Which numbers the machine computes with.
    fn numbers(&self, arch: &dyn Arch, options: &Options) -> Numbers;

    /// For every node of the graph, in node order, whether this machine takes it. Nodes of
    /// `refused` run on the host whatever is said about them; what the others can do may depend on
    /// that. The parts of a divided graph are in [`Parts`](crate::plan::Parts).
    ///
    /// # Errors
    /// Options that contradict each other or do not fit the machine.
    fn claim(
        &self,
        graph: &Graph,
        arch: &dyn Arch,
        options: &Options,
        refused: &Refused,
    ) -> Result<Vec<Claim>>;

    /// Compiles a graph all of whose nodes are claimed.
    ///
    /// # Errors
    /// Nodes that do not fit, or every reason why it fails.
    fn compile(
        &self,
        graph: &Graph,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Compiled, NotCompiled>;

    /// The layer-level model of a compiled graph in this machine's arithmetic, prepared for any
    /// number of images. It sees the graph and the numerics, never instructions.
    ///
    /// # Errors
    /// Numerics that are not of this graph.
    fn prepare(
        &self,
        graph: &Graph,
        arch: &dyn Arch,
        numerics: &Numerics,
    ) -> Result<Box<dyn Golden>>;

    /// What the machine rounds when it computes a node of a compiled graph, besides what the
    /// quantisers of the graph say. It follows from the machine's number formats, not from the golden
    /// model.
    fn precision(&self, _graph: &Graph, _node: &Node, computing: Computing<'_>) -> Precision {
        self.numbers(computing.arch, computing.options).precision()
    }

    /// What the native files of a compiled model are called in this machine's ecosystem, without
    /// their endings; `None` where there is no such rule, and the caller chooses.
    fn file_stem(&self, _model: &str, _arch: &dyn Arch) -> Option<String> {
        None
    }
}

/// The compiler of a target.
///
/// # Errors
/// `Q0520` when it has none.
pub fn compiler_of(target: &dyn Target) -> Result<&dyn Compiler> {
    target.compiler().ok_or_else(|| {
        let message = format!("{} has no compiler yet", target.info().name);
        Diagnostic::unsupported("Q0520", message)
            .help("its programs can be assembled, inspected, verified, run and timed")
    })
}
