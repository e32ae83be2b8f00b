//! The JSON files around a program: frontend IR, scheduler IR, quantisation scales.
//!
//! Facts: `gemini` (`docs/bibliography.md`). A file keeps the order of its keys, the digits of its
//! numbers and its layout, so that writing gives the bytes that were read.

#![deny(clippy::arithmetic_side_effects)]

mod at;
mod frontend;
mod graph;
mod json;
pub(crate) mod layers;
mod scales;
pub(crate) mod schedule;
mod scheduler;

pub(crate) use at::At;
pub use json::{Json, Style};

use quincunx_diag::{Diagnostic, Problems, Result, any_error};
use quincunx_graph::Graph;
use quincunx_report::Table;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The network as the frontend gives it, layer by layer.
    Frontend,
    /// Workloads, transfers and buffers.
    Scheduler,
    /// Scales and zero points of a network.
    Scales,
    /// JSON of another tool.
    Unknown,
}

impl Kind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Frontend => "frontend IR",
            Kind::Scheduler => "scheduler IR",
            Kind::Scales => "quantisation scales",
            Kind::Unknown => "JSON",
        }
    }
}

/// A file.
#[derive(Clone, Debug, PartialEq)]
pub struct IrFile {
    /// What it is.
    pub kind: Kind,
    /// Its contents.
    pub value: Json,
    /// Its layout.
    pub style: Style,
}

/// Reads a file.
///
/// # Errors
/// `Q4070` for text that is not JSON, with its place; `Q4071` for JSON too large or too deep.
pub fn read(bytes: &[u8]) -> Result<IrFile> {
    let (value, style) = json::parse(bytes)?;
    let kind = kind_of(&value);
    Ok(IrFile { kind, value, style })
}

fn kind_of(value: &Json) -> Kind {
    let Json::Object(members) = value else { return Kind::Unknown };
    if value.get("-1").is_some() && value.get("buffersize").is_some() {
        return Kind::Scheduler;
    }
    let any = |keys: &[&str]| {
        members.iter().any(|(_, member)| keys.iter().all(|key| member.get(key).is_some()))
    };
    if any(&["layer_index", "operation"]) {
        Kind::Frontend
    } else if any(&["output_dtype"]) {
        Kind::Scales
    } else {
        Kind::Unknown
    }
}

impl IrFile {
    /// The bytes of the file.
    pub fn write(&self) -> Vec<u8> {
        json::write(&self.value, &self.style)
    }

    /// Rules that the file breaks.
    pub fn validate(&self) -> Vec<Diagnostic> {
        let mut problems = Problems::default();
        match self.kind {
            Kind::Frontend => frontend::check(&self.value, &mut problems),
            Kind::Scheduler => scheduler::check(&self.value, &mut problems),
            Kind::Scales => scales::check(&self.value, &mut problems),
            Kind::Unknown => {}
        }
        problems.finish()
    }

    /// The network of a frontend IR, in real numbers; `None` for any other file.
    ///
    /// # Errors
    /// `Q4072` to `Q4074` for what breaks the rules; those of the graph for what does not fit.
    pub fn to_graph(&self) -> std::result::Result<Option<Graph>, Vec<Diagnostic>> {
        if self.kind != Kind::Frontend {
            return Ok(None);
        }
        let problems = self.validate();
        if any_error(&problems) {
            return Err(problems);
        }
        Ok(Some(graph::to_graph(&self.value)?))
    }

    /// Tables about the file.
    pub fn tables(&self) -> Vec<Table> {
        match self.kind {
            Kind::Frontend => frontend::tables(&self.value),
            Kind::Scheduler => scheduler::tables(&self.value),
            Kind::Scales => scales::tables(&self.value),
            Kind::Unknown => Vec::new(),
        }
    }
}

/// A list of whole numbers.
fn whole_list(value: Option<&Json>) -> Option<Vec<i64>> {
    value?.list()?.iter().map(Json::whole).collect()
}
