//! A first look at a model: what can be read of it, and why not the rest.

use crate::inputs::shape_help;
use crate::model::{Format, format_of};
use crate::{Options, reader, tensorflow};
use bytes::Bytes;
use quincunx_diag::{Class, Diagnostic, Problems};
use quincunx_graph::{Graph, depends_on_extents};
use quincunx_tensor::{DType, Shape};
use std::collections::BTreeMap;

/// An input of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredInput {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Its shape in the file, with the names of open extents, `?` for one without a name.
    pub declared: String,
    /// The shape that it is read with.
    pub shape: Shape,
    /// It was given a value, so that it is a constant of the graph.
    pub fixed: bool,
}

/// What was found in a model, of which parts may be unsupported.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Form of the file.
    pub format: Format,
    /// Versions of the operator domains, that of the standard one with an empty name.
    pub opsets: Vec<(String, i64)>,
    /// The inputs whose types can be read.
    pub inputs: Vec<DeclaredInput>,
    /// The nodes that could be read. All of them when `problems` is empty.
    pub graph: Graph,
    /// Elements of all constants of the file, where a part could not be read.
    pub parameters: Option<u64>,
    /// Operators, with their domain unless it is the standard one, of the nodes that were not read,
    /// with their number.
    pub unread: BTreeMap<String, u64>,
    /// Why these were not read: what is unsupported, or of unknown shape.
    pub problems: Vec<Diagnostic>,
    /// Values before the first nodes that were not read: as outputs they make the model readable.
    pub outputs_before: Vec<String>,
    /// Where there are none: results of the first nodes that were not read, as inputs.
    pub inputs_after: Vec<String>,
    /// Which option gives open extents a size, where that may be the reason.
    pub shape_help: Option<String>,
}

/// Looks at a model of either format.
///
/// # Errors
/// Only for what is not a sound model, and for options that do not fit it: see
/// [`crate::read_model`].
pub fn survey(bytes: Bytes, options: &Options) -> Result<Survey, Vec<Diagnostic>> {
    match format_of(&bytes) {
        Format::Onnx => reader::survey_onnx(bytes, options),
        Format::GraphDef => tensorflow::survey_graph_def(bytes, options),
    }
}

impl Survey {
    /// What can be done about what was not read; `None` when everything was.
    pub fn advice(&self) -> Option<Diagnostic> {
        if self.problems.is_empty() {
            return None;
        }
        // A cut would not help where the shapes are to blame.
        let only_shapes = self.shape_help.is_some()
            && self.problems.iter().filter(|p| p.is_error()).all(depends_on_extents);
        let cut = match (&self.outputs_before[..], &self.inputs_after[..]) {
            _ if only_shapes => None,
            ([], []) => None,
            ([], after) => Some(format!("cut the model behind it: --inputs {}", after.join(","))),
            (before, _) => Some(format!("cut the model before it: --outputs {}", before.join(","))),
        };
        let branch = self.unread.contains_key("If").then(|| {
            "give the input that chooses the branch of If a value: --input-value NAME=NUMBER".into()
        });
        let help: Vec<String> = self.shape_help.iter().cloned().chain(branch).chain(cut).collect();
        let message =
            "a part of the model is unsupported or of unknown shape; other verbs refuse it";
        let help = (!help.is_empty()).then(|| help.join("; or "));
        Some(Diagnostic::warning("Q0421", message).help_if(help))
    }

    /// A survey of a model with these problems, whose inputs with open extents are `open`.
    ///
    /// # Errors
    /// The problems, when they are not only about what is unsupported or of unknown shape.
    pub(crate) fn judged(
        self,
        problems: Problems,
        open: &[(String, String)],
    ) -> Result<Survey, Vec<Diagnostic>> {
        let problems = problems.finish();
        let tolerable = |problem: &Diagnostic| {
            !problem.is_error()
                || problem.class() == Class::Unsupported
                || problem.code() == "Q0414"
                || !open.is_empty() && depends_on_extents(problem)
        };
        if !problems.iter().all(tolerable) {
            return Err(problems);
        }
        let help = problems.iter().any(depends_on_extents).then(|| shape_help(open)).flatten();
        Ok(Survey { problems, shape_help: help, ..self })
    }
}
