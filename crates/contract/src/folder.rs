//! The program folder: what `compile` writes and `run`, `verify` and `inspect` read.
//!
//! ```text
//! OUT/program.json          schema, version, target, machine, options, plan, segments
//! OUT/constants.npz         graph outputs that need no computation, if there are any
//! OUT/<segment>/<file>      native files of a device segment, the model of a host segment
//! ```
//!
//! `program.json` records size and SHA-256 of every other file. Equal programs give equal bytes.
//! A folder is there complete or not at all ([`crate::outputs`]); only a program folder is ever
//! replaced, and only if it holds nothing else.
//!
//! Folders are untrusted: names are single path components, nothing but regular files is opened,
//! and nothing is allocated on the word of `program.json` alone.

#![deny(clippy::arithmetic_side_effects)]

use crate::outputs::Outputs;
use crate::plan::{Place, Row};
use crate::{Arch, File, Interface, Numerics, Options};
use bytes::Bytes;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, ValueId};
use quincunx_tensor::{DType, element_count, show_shape};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Version of the format that is written and read.
pub const SCHEMA: u32 = 1;

/// Name of the description in the folder.
pub const DESCRIPTION: &str = "program.json";

/// Name of the file with constant outputs.
pub const CONSTANTS: &str = "constants.npz";

/// Largest description. Decoded it takes some ten times as much memory.
const MAX_DESCRIPTION: u64 = 16 << 20;

/// Largest native file.
const MAX_FILE: u64 = 1 << 30;

/// Most elements of a port or layer: those of a batch of 64 images behind the first layer of a large
/// network fit.
const MAX_ELEMENTS: usize = 1 << 26;

/// A compiled graph as it is stored.
///
/// Invariant: there is a machine, and every segment is of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Folder {
    /// The machines in the order in which they come; several where the model was split.
    pub machines: Vec<MachineRecord>,
    /// Who executes which node, and why.
    pub plan: Vec<PlanRow>,
    /// Inputs of the graph.
    pub inputs: Vec<ValueRecord>,
    /// Outputs of the graph.
    pub outputs: Vec<ValueRecord>,
    /// Segments in execution order.
    pub segments: Vec<SegmentFiles>,
    /// A `.npz` file with the outputs that are constants.
    pub constants: Option<File>,
}

/// A machine with what it was given, as they are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineRecord {
    /// Name of the target.
    pub target: String,
    /// The machine.
    pub arch: ArchRecord,
    /// Compiler options by name.
    pub options: BTreeMap<String, String>,
    /// How the model became the graph that was compiled, for who compiles it again to compare; in
    /// the words of the caller.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub preparation: serde_json::Value,
    /// Names of the nodes of the model that it was given; none stand for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// A machine as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchRecord {
    /// Its name.
    pub name: String,
    /// Its architecture file.
    pub file: String,
}

impl ArchRecord {
    /// The record of a machine.
    pub fn of(arch: &dyn Arch) -> Self {
        ArchRecord { name: arch.name().to_owned(), file: arch.to_file() }
    }
}

/// An input or output of the graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueRecord {
    /// Name.
    pub name: String,
    /// Name of the element type.
    pub dtype: String,
    /// Extents.
    pub shape: Vec<usize>,
}

impl ValueRecord {
    /// The record of a value.
    pub fn of(graph: &Graph, id: ValueId) -> Self {
        let value = &graph[id];
        ValueRecord {
            name: value.name.clone(),
            dtype: value.dtype.name().to_owned(),
            shape: value.shape.to_vec(),
        }
    }

    /// The element type.
    ///
    /// # Errors
    /// `Q0515` when no type has this name.
    pub fn dtype(&self) -> Result<DType> {
        DType::all().find(|d| d.name() == self.dtype).ok_or_else(|| {
            broken(format!("value \"{}\" has the unknown type \"{}\"", self.name, self.dtype))
        })
    }
}

/// One row of the plan as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRow {
    /// Node name.
    pub node: String,
    /// Operator name.
    pub op: String,
    /// Segment.
    pub segment: String,
    /// Who executes it.
    pub place: Place,
    /// Why the host, if it is the host.
    pub reason: Option<String>,
    /// Multiplications with accumulation.
    pub macs: u64,
}

/// The rows of a plan as they are stored.
pub fn plan_rows(rows: &[Row]) -> Vec<PlanRow> {
    rows.iter()
        .map(|row| PlanRow {
            node: row.node.clone(),
            op: row.op.to_owned(),
            segment: row.segment.clone(),
            place: row.place,
            reason: row.reason.clone(),
            macs: row.macs,
        })
        .collect()
}

/// The values of options as they are stored.
pub fn option_values(options: &Options) -> BTreeMap<String, String> {
    options.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A segment with its files.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentFiles {
    /// Name, also of its folder.
    pub name: String,
    /// Who executes it.
    pub place: Place,
    /// Names of the values it reads.
    pub inputs: Vec<String>,
    /// Names of the values it computes for others.
    pub outputs: Vec<String>,
    /// Native files, or the model of a host segment.
    pub files: Vec<File>,
    /// Ports and observable values; `None` for the host.
    pub interface: Option<Interface>,
    /// What the compiler chose.
    pub numerics: Numerics,
    /// Position of its machine in [`Folder::machines`].
    pub machine: usize,
}

/// `program.json`.
#[derive(Serialize, Deserialize)]
struct Description {
    schema: u32,
    version: String,
    #[serde(flatten)]
    machine: MachineRecord,
    /// Those behind the first one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    more_machines: Vec<MachineRecord>,
    inputs: Vec<ValueRecord>,
    outputs: Vec<ValueRecord>,
    plan: Vec<PlanRow>,
    segments: Vec<SegmentRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    constants: Option<FileRecord>,
}

#[derive(Serialize, Deserialize)]
struct SegmentRecord {
    name: String,
    place: Place,
    inputs: Vec<String>,
    outputs: Vec<String>,
    files: Vec<FileRecord>,
    interface: Option<Interface>,
    numerics: Numerics,
    #[serde(default, skip_serializing_if = "is_first")]
    machine: usize,
}

fn is_first(position: &usize) -> bool {
    *position == 0
}

#[derive(Serialize, Deserialize)]
struct FileRecord {
    name: String,
    sha256: String,
    bytes: u64,
}

/// The fields that say whether the others can be understood.
#[derive(Deserialize)]
struct Version {
    schema: u32,
    version: String,
}

impl Folder {
    /// True when `path` is a folder with a description in it.
    pub fn is_at(path: &Path) -> bool {
        path.join(DESCRIPTION).is_file()
    }

    /// The files of the folder at `path`, as its description lists them; none when it cannot be read.
    pub fn files_at(path: &Path) -> Vec<PathBuf> {
        let description =
            read_limited(&path.join(DESCRIPTION), MAX_DESCRIPTION).and_then(|bytes| parse(&bytes));
        description
            .map_or_else(|_| Vec::new(), |d| written(&d).iter().map(|f| path.join(f)).collect())
    }

    /// Writes the folder, replacing a program folder that is there.
    ///
    /// # Errors
    /// `Q0510` when something else is there, `Q0511` when a name cannot be a file name, `Q0518`
    /// when the file system refuses.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut outputs = Outputs::default();
        outputs.folder(path, self)?;
        outputs.commit()
    }

    /// All files by their paths in the folder.
    ///
    /// # Errors
    /// `Q0511` when a name cannot be a file name, `Q0519` for what would be too large to be read.
    pub fn contents(&self) -> Result<Vec<(PathBuf, Bytes)>> {
        self.check_names()?;
        let mut contents = vec![(PathBuf::from(DESCRIPTION), self.description().into())];
        let constants = self.constants.iter();
        contents.extend(constants.map(|file| (PathBuf::from(CONSTANTS), file.bytes.clone())));
        for segment in &self.segments {
            let file = |f: &File| (Path::new(&segment.name).join(&f.name), f.bytes.clone());
            contents.extend(segment.files.iter().map(file));
        }
        for (path, bytes) in &contents {
            let limit = if path == Path::new(DESCRIPTION) { MAX_DESCRIPTION } else { MAX_FILE };
            check_size(path, bytes.len() as u64, limit)?;
        }
        Ok(contents)
    }

    /// The description, as it is written.
    ///
    /// # Panics
    /// When there is no machine, which is a bug of the caller.
    pub fn description(&self) -> String {
        let [machine, more_machines @ ..] = &self.machines[..] else {
            panic!("a program folder is for a machine")
        };
        let description = Description {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: machine.clone(),
            more_machines: more_machines.to_vec(),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            plan: self.plan.clone(),
            segments: self.segments.iter().map(SegmentFiles::record).collect(),
            constants: self.constants.as_ref().map(FileRecord::of),
        };
        // Only maps with keys that are not strings cannot be written, and there is none.
        serde_json::to_string_pretty(&description).map_or_else(|e| e.to_string(), |t| t + "\n")
    }

    /// Reads a folder.
    ///
    /// # Errors
    /// `Q0512` when a file cannot be read, `Q0513` for another version, `Q0514` when a file is not
    /// the one that was written, `Q0515` for a description that is malformed or contradicts itself.
    pub fn read(path: &Path) -> std::result::Result<Folder, Vec<Diagnostic>> {
        let file = path.join(DESCRIPTION);
        let name = file.display().to_string();
        let description = read_limited(&file, MAX_DESCRIPTION)
            .and_then(|bytes| parse(&bytes))
            .map_err(|problem| {
                let help =
                    (!file.exists()).then(|| format!("a program folder holds {DESCRIPTION}"));
                vec![problem.name_file(&name).help_if(help)]
            })?;
        let problems: Vec<Diagnostic> =
            check(&description).into_iter().map(|p| p.name_file(&name)).collect();
        if problems.is_empty() { description.load(path) } else { Err(problems) }
    }

    fn check_names(&self) -> Result<()> {
        let files = self.segments.iter().flat_map(|s| s.files.iter().map(|f| &f.name));
        let segments = self.segments.iter().map(|s| &s.name);
        match files.chain(segments).find(|name| !is_component(name)) {
            Some(name) => {
                Err(Diagnostic::usage("Q0511", format!("{name:?} cannot be a file name")))
            }
            None => Ok(()),
        }
    }
}

impl SegmentFiles {
    fn record(&self) -> SegmentRecord {
        SegmentRecord {
            name: self.name.clone(),
            place: self.place,
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            files: self.files.iter().map(FileRecord::of).collect(),
            interface: self.interface.clone(),
            numerics: self.numerics.clone(),
            machine: self.machine,
        }
    }
}

impl FileRecord {
    fn of(file: &File) -> Self {
        FileRecord {
            name: file.name.clone(),
            sha256: sha256(&file.bytes),
            bytes: file.bytes.len() as u64,
        }
    }

    fn load(&self, folder: &Path) -> Result<File> {
        let path = folder.join(&self.name);
        let bytes = read_limited(&path, MAX_FILE)?;
        if bytes.len() as u64 != self.bytes || sha256(&bytes) != self.sha256 {
            return Err(Diagnostic::invalid(
                "Q0514",
                format!("the file is not the one that {DESCRIPTION} describes"),
            )
            .in_file(path.display().to_string())
            .help("compile the model again"));
        }
        Ok(File { name: self.name.clone(), bytes: bytes.into() })
    }
}

impl Description {
    fn load(self, path: &Path) -> std::result::Result<Folder, Vec<Diagnostic>> {
        let mut problems = Vec::new();
        let mut load = |record: &FileRecord, folder: &Path| match record.load(folder) {
            Ok(file) => Some(file),
            Err(problem) => {
                problems.push(problem);
                None
            }
        };
        let constants = self.constants.as_ref().and_then(|record| load(record, path));
        let mut segments = Vec::new();
        for segment in self.segments {
            let folder = path.join(&segment.name);
            let files = segment.files.iter().filter_map(|record| load(record, &folder)).collect();
            segments.push(SegmentFiles {
                name: segment.name,
                place: segment.place,
                inputs: segment.inputs,
                outputs: segment.outputs,
                files,
                interface: segment.interface,
                numerics: segment.numerics,
                machine: segment.machine,
            });
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Folder {
            machines: [self.machine].into_iter().chain(self.more_machines).collect(),
            plan: self.plan,
            inputs: self.inputs,
            outputs: self.outputs,
            segments,
            constants,
        })
    }
}

fn parse(bytes: &[u8]) -> Result<Description> {
    let malformed = |error: serde_json::Error| {
        broken(format!("not a program description: {error}"))
            .help("the file is damaged or of another format")
    };
    let version: Version = serde_json::from_slice(bytes).map_err(malformed)?;
    if version.schema != SCHEMA {
        return Err(Diagnostic::unsupported(
            "Q0513",
            format!("the folder has schema {}, expected {SCHEMA}", version.schema),
        )
        .with_note(format!("it was written by version {:?}", version.version))
        .help("compile the model again"));
    }
    serde_json::from_slice(bytes).map_err(malformed)
}

/// Contradictions in a description.
fn check(description: &Description) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let mut fail = |message: String| problems.push(broken(message));
    for value in description.inputs.iter().chain(&description.outputs) {
        if let Err(problem) = value.dtype() {
            fail(problem.message().to_owned());
        }
        if let Err(message) = check_shape(&value.name, &value.shape) {
            fail(message);
        }
    }
    if let Some(file) = &description.constants
        && file.name != CONSTANTS
    {
        fail(format!("constants are in {:?}, expected {CONSTANTS:?}", file.name));
    }
    let mut names = BTreeSet::new();
    let mut known: BTreeSet<&str> = description.inputs.iter().map(|v| v.name.as_str()).collect();
    for segment in &description.segments {
        if !is_component(&segment.name) || !names.insert(&segment.name) {
            fail(format!("{:?} cannot be the name of another segment", segment.name));
        }
        if segment.machine > description.more_machines.len() {
            fail(format!("segment {:?} is of a machine that is not there", segment.name));
        }
        check_segment(segment, &known, &mut fail);
        known.extend(segment.outputs.iter().map(String::as_str));
    }
    if description.constants.is_none() {
        for output in &description.outputs {
            if !known.contains(output.name.as_str()) {
                fail(format!("nothing computes the output \"{}\"", output.name));
            }
        }
    }
    problems
}

fn check_segment(segment: &SegmentRecord, known: &BTreeSet<&str>, fail: &mut impl FnMut(String)) {
    let name = &segment.name;
    let mut files = BTreeSet::new();
    for file in &segment.files {
        if !is_component(&file.name) || !files.insert(&file.name) {
            fail(format!("{:?} cannot be the name of another file of {name:?}", file.name));
        }
    }
    for input in &segment.inputs {
        if !known.contains(input.as_str()) {
            fail(format!("nothing computes \"{input}\", which segment {name:?} reads"));
        }
    }
    match (&segment.interface, segment.place) {
        (Some(interface), Place::Device) => {
            check_interface(interface).into_iter().for_each(&mut *fail);
            let same = |ports: &[crate::Port], names: &[String]| {
                ports.iter().map(|p| &p.name).collect::<BTreeSet<_>>() == names.iter().collect()
            };
            if !same(&interface.inputs, &segment.inputs)
                || !same(&interface.outputs, &segment.outputs)
            {
                fail(format!("ports of segment {name:?} are not the values it reads and computes"));
            }
        }
        (None, Place::Host) => {}
        (Some(_), Place::Host) => fail(format!("host segment {name:?} has ports")),
        (None, Place::Device) => fail(format!("device segment {name:?} has no ports")),
    }
}

fn check_interface(interface: &Interface) -> Vec<String> {
    let mut problems = Vec::new();
    for port in interface.inputs.iter().chain(&interface.outputs) {
        if let Err(message) = check_shape(&port.name, &port.shape) {
            problems.push(message);
            continue;
        }
        if !port.grid.fits(&port.shape) {
            problems.push(format!("the quantiser of port \"{}\" is not valid", port.name));
        }
    }
    for layer in &interface.layers {
        problems.extend(check_shape(&layer.value, &layer.shape).err());
    }
    problems
}

fn check_shape(name: &str, shape: &[usize]) -> std::result::Result<(), String> {
    match element_count(shape) {
        Some(count) if count <= MAX_ELEMENTS => Ok(()),
        _ => Err(format!("shape {} of \"{name}\" is too large", show_shape(shape))),
    }
}

fn broken(message: String) -> Diagnostic {
    Diagnostic::invalid("Q0515", message)
}

/// True when the name is one component of a path on every system, and an ordinary one.
fn is_component(name: &str) -> bool {
    let forbidden = |c: char| c.is_control() || matches!(c, '/' | '\\' | ':');
    !name.is_empty() && name.len() <= 255 && !name.starts_with('.') && !name.contains(forbidden)
}

/// Whether a program folder is there that will be replaced; anything else there is an error.
pub(crate) fn check_replaceable(path: &Path) -> Result<bool> {
    let refuse = |why: String| {
        Err(Diagnostic::usage("Q0510", why)
            .in_file(path.display().to_string())
            .help("choose another folder, or remove it yourself"))
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(io_error("replace", path, &error)),
        Ok(metadata) if !metadata.is_dir() => {
            return refuse("it exists and is not a folder".into());
        }
        Ok(_) => {}
    }
    let present = list(path)?;
    if present.is_empty() {
        return Ok(true);
    }
    let description = match read_limited(&path.join(DESCRIPTION), MAX_DESCRIPTION) {
        Ok(bytes) => parse(&bytes),
        Err(_) => return refuse("the folder exists and is not a program folder".into()),
    };
    let Ok(description) = description else {
        return refuse("the folder exists and is not a program folder of this version".into());
    };
    let written = written(&description);
    match present.iter().find(|found| !written.contains(*found)) {
        Some(other) => refuse(format!(
            "the program folder also holds {:?}, which would be lost",
            other.display().to_string()
        )),
        None => Ok(true),
    }
}

/// What belongs to the folder, relative to it.
fn written(description: &Description) -> BTreeSet<PathBuf> {
    let mut written = BTreeSet::from([PathBuf::from(DESCRIPTION), PathBuf::from(CONSTANTS)]);
    for segment in &description.segments {
        written.insert(PathBuf::from(&segment.name));
        written.extend(segment.files.iter().map(|f| Path::new(&segment.name).join(&f.name)));
    }
    written
}

/// Everything in a folder and in its folders, relative to it, in order.
fn list(path: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut visit = |relative: &Path, deeper: &mut Vec<PathBuf>| -> io::Result<()> {
        for entry in fs::read_dir(path.join(relative))? {
            let entry = entry?;
            let name = relative.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                deeper.push(name.clone());
            }
            found.push(name);
        }
        Ok(())
    };
    let mut todo = vec![PathBuf::new()];
    while let Some(relative) = todo.pop() {
        visit(&relative, &mut todo).map_err(|e| io_error("read", path, &e))?;
    }
    found.sort();
    Ok(found)
}

/// Reads a regular file of at most `limit` bytes.
/// What is written must be read again.
fn check_size(path: &Path, size: u64, limit: u64) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    let message = format!("it would have {size} bytes, a program folder's may have {limit}");
    Err(Diagnostic::unsupported("Q0519", message)
        .in_file(path.display().to_string())
        .help("leave more of the network to the host, or divide the model with --outputs"))
}

fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let found = fs::symlink_metadata(path);
    if found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        // The folder is there; what it lacks makes it a damaged one.
        let name = path.display().to_string();
        return Err(Diagnostic::invalid("Q0512", "there is no such file").in_file(name));
    }
    let metadata = found.map_err(|e| io_error("read", path, &e))?;
    let problem = if !metadata.is_file() {
        "it is not a regular file".to_owned()
    } else if metadata.len() > limit {
        format!("it is larger than {limit} bytes")
    } else {
        return fs::read(path).map_err(|e| io_error("read", path, &e));
    };
    Err(Diagnostic::invalid("Q0512", problem).in_file(path.display().to_string()))
}

fn io_error(what: &str, path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::system("Q0512", &format!("{what} it"), error).in_file(path.display().to_string())
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
