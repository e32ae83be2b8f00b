//! What every machine implements, and what is built on it for all machines alike.
//!
//! * [`Target`] reads native files; its [`Compiler`] turns graphs into programs; [`Program`] is a
//!   compiled or read program; [`Machine`] executes one; [`Golden`] is what its layers mean.
//! * [`plan`] divides a graph into segments for a machine and for the host, with a reason for every
//!   node the machine does not take.
//! * [`folder`] is the program folder that `compile` writes.
//!
//! No machine is known here.

pub mod bench;
mod clipped;
mod compiler;
mod demand;
mod document;
pub mod folder;
pub mod golden;
mod machine;
mod options;
mod origin;
pub mod outputs;
pub mod plan;
mod precision;
mod program;
mod scale;

pub use clipped::Clipped;
pub use compiler::{
    Claim, Compiled, Compiler, Format, NotCompiled, Numbers, Numerics, Refusal, Refused,
    compiler_of,
};
pub use demand::{Demand, MemoryUse};
pub use document::Document;
pub use golden::{Departure, Golden};
pub use machine::{key_hint, parse_toml, unknown_preset};
pub use options::{OptionInfo, OptionKind, Options, Use};
pub use origin::Origin;
pub use precision::Computing;
pub use program::{
    Check, ConstantUse, EmitKind, Engine, File, Grid, Interface, LayerTap, Machine, Port, Program,
    Rim, Sample, Scaling, Section, Stats, Verb, View,
};
pub use scale::{Scale, fraction, scaled};

use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Graph;
use quincunx_isa::Table as Instructions;
use quincunx_report::Table;
use std::any::Any;
use std::time::Instant;

/// What a target is, in words.
#[derive(Debug)]
pub struct Info {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Machine presets; the first is the default.
    pub presets: &'static [Preset],
    /// Options of the compiler and the readers.
    pub options: &'static [OptionInfo],
    /// Native file kinds `emit` can produce; the first is what is written when none is named.
    pub kinds: &'static [EmitKind],
    /// The kind that a program folder holds: everything that a program needs to run.
    pub folder_kind: &'static str,
}

/// A named set of machine parameters.
#[derive(Debug)]
pub struct Preset {
    /// Name.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
}

/// Where machine parameters come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchSource {
    /// The target's first preset.
    Default,
    /// A preset by name.
    Preset(String),
    /// The text of an architecture file.
    Text {
        /// File name for messages.
        name: String,
        /// Contents.
        text: String,
    },
}

/// Parameters of one machine.
pub trait Arch: Any + Send + Sync {
    /// Preset name, or the name the file gives.
    fn name(&self) -> &str;
    /// Name and value of every parameter, in the order of the file format.
    fn parameters(&self) -> Vec<(&'static str, String)>;
    /// Names of parameters that its file does not give and could.
    fn absent(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// The architecture file, so that [`Target::arch`] on it gives the same machine.
    fn to_file(&self) -> String;
    /// For the target to find its own type again.
    fn as_any(&self) -> &dyn Any;
}

/// A model that a file of a machine's ecosystem holds.
#[derive(Clone, Debug)]
pub struct ModelFile {
    /// What it is, in words: `Cain kernels`.
    pub kind: &'static str,
    /// The network.
    pub graph: Graph,
    /// Options of the target that the file gives, in place of their defaults; what the user gives
    /// counts more.
    pub options: Vec<(&'static str, String)>,
}

/// What a compiler tells while it works.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Warnings and notes, in order.
    pub diagnostics: Vec<Diagnostic>,
    /// Pass name and one line about what it did, in order.
    pub passes: Vec<(&'static str, String)>,
    /// After which passes (by name) to keep a text form; `all` keeps every one.
    pub dump_after: Vec<String>,
    /// What has rules of its own is checked behind every pass: graphs, and programs.
    pub verify_each: bool,
    /// The text forms kept.
    pub dumps: Vec<(&'static str, String)>,
    /// Seconds from one finished pass (or [`Log::start`]) to the next, one entry per pass.
    pub seconds: Vec<f64>,
    /// When the running pass started.
    pub started: Option<Instant>,
}

impl Log {
    /// The first pass starts now.
    pub fn start(&mut self) {
        self.started = Some(Instant::now());
    }

    /// Records a finished pass. `dump` is only called when its text is wanted.
    pub fn pass(
        &mut self,
        name: &'static str,
        summary: impl Into<String>,
        dump: impl FnOnce() -> String,
    ) {
        self.passes.push((name, summary.into()));
        self.seconds.push(self.started.map_or(0.0, |started| started.elapsed().as_secs_f64()));
        if self.dump_after.iter().any(|wanted| wanted == name || wanted == "all") {
            self.dumps.push((name, dump()));
        }
        self.start();
    }
}

/// A machine family: compiler, reader and instruction set.
pub trait Target: Sync {
    /// Name, presets, options.
    fn info(&self) -> &'static Info;

    /// Machine parameters.
    ///
    /// # Errors
    /// An unknown preset (with a suggestion) or an invalid file.
    fn arch(&self, source: &ArchSource) -> Result<Box<dyn Arch>>;

    /// What turns graphs into programs; without a compiler there are still readers, checks,
    /// simulators and timing.
    fn compiler(&self) -> Option<&dyn Compiler> {
        None
    }

    /// True for a file of which `FILE#NAME` names a part.
    fn has_parts(&self, _file: &File) -> bool {
        false
    }

    /// A file of the machine's ecosystem that is a model: a kernel, an intermediate representation
    /// of a network. `None` for any other file.
    ///
    /// # Errors
    /// Everything that keeps such a file from being a graph.
    fn model(&self, _file: &File) -> std::result::Result<Option<ModelFile>, Vec<Diagnostic>> {
        Ok(None)
    }

    /// Reads native files or assembly text. Warnings of a lenient reading go to the log. Without
    /// an interface the ports are raw memory.
    ///
    /// # Errors
    /// Everything wrong with the files, or an interface that does not fit them.
    fn read(
        &self,
        files: &[File],
        interface: Option<Interface>,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Box<dyn Program>, Vec<Diagnostic>>;

    /// True when a file looks like one of this target's native files or documents.
    fn recognises(&self, file: &File) -> bool;

    /// Names of further files that belong to this one and lie in its folder; they are read with it.
    fn companions(&self, _file: &File) -> Vec<String> {
        Vec::new()
    }

    /// A file of the machine's ecosystem that is not a program: a kernel, an intermediate
    /// representation, measurements, a machine description. `None` for any other file.
    ///
    /// # Errors
    /// Everything that keeps such a file from being read.
    fn document(
        &self,
        _file: &File,
        _arch: &dyn Arch,
        _options: &Options,
    ) -> std::result::Result<Option<Document>, Vec<Diagnostic>> {
        Ok(None)
    }

    /// Differences between two programs in terms of the machine, as tables; `None` when their
    /// texts say it best.
    fn diff(&self, _left: &dyn Program, _right: &dyn Program) -> Option<Vec<Table>> {
        None
    }

    /// The instruction tables.
    fn isa(&self) -> &'static [&'static Instructions];

    /// Measurements of this target's own speed, for `bench`.
    fn suites(&self) -> &'static [bench::Suite] {
        &[]
    }
}

/// The verbs that take options of targets.
pub const VERBS: [&str; 10] =
    ["compile", "run", "verify", "time", "compare", "report", "sweep", "asm", "disasm", "inspect"];

impl dyn Target + '_ {
    /// The verbs in which an option of the target changes anything.
    pub fn verbs_of(&self, option: &OptionInfo) -> Vec<&'static str> {
        let compiles = self.compiler().is_some();
        let takes = |verb: &&str| option.uses.iter().any(|u| u.verbs(compiles).contains(verb));
        VERBS.into_iter().filter(takes).collect()
    }
}
