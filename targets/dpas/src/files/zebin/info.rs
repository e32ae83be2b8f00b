//! `.ze_info`: what each kernel runs in, and its arguments.

use super::yaml::{self, Content, Node};
use crate::program::device::{
    Access, Argument, ArgumentKind, Environment, Implicit, Kernel, Place,
};
use crate::program::{Listing, Statement};
use quincunx_diag::{Diagnostic, Problems, Result};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The version of the form that is written.
pub(super) const VERSION: &str = "1.20";

/// A kernel without its code, and the byte of the file where it is described.
pub(super) type Described = (Kernel, u64);

/// Reads a text that begins at a byte of a file.
///
/// # Errors
/// `Q6103` for what is not YAML of this kind, `Q6104` for fields that are missing or have other
/// values than numbers and words.
pub(super) fn read(
    text: &str,
    start: u64,
) -> std::result::Result<(Vec<Described>, Vec<Diagnostic>), Vec<Diagnostic>> {
    let shift = |problem: Diagnostic| match problem.place() {
        Some(quincunx_diag::Place::File { offset: Some(at), .. }) => {
            let at = start.saturating_add(*at);
            problem.at_byte(at)
        }
        _ => problem,
    };
    let root = yaml::read(text).map_err(shift)?;
    let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    let reader = Reader { lines: breaks.map(|(at, _)| at).collect(), start };
    let mut problems = Problems::default();
    let mut kernels = Vec::new();
    let list = match reader.field(&root, "kernels") {
        Some(list) => reader.list(list)?,
        None => return Err(reader.fail(&root, "the field kernels is missing").into()),
    };
    for node in list {
        match reader.kernel(node, &mut problems) {
            Ok(kernel) => kernels.push((kernel, start.saturating_add(node.at as u64))),
            Err(problem) => problems.push(problem),
        }
    }
    problems.warnings().map(|warnings| (kernels, warnings))
}

struct Reader {
    /// Where lines end.
    lines: Vec<usize>,
    /// The byte of the file at which the text begins.
    start: u64,
}

impl Reader {
    /// Number of the line of a node, from 1.
    fn line(&self, node: &Node) -> usize {
        self.lines.partition_point(|end| *end < node.at).saturating_add(1)
    }

    fn place(&self, problem: Diagnostic, node: &Node) -> Diagnostic {
        problem.at_byte(self.start.saturating_add(node.at as u64))
    }

    fn fail(&self, node: &Node, what: &str) -> Diagnostic {
        let line = self.line(node);
        self.place(Diagnostic::invalid("Q6104", format!("line {line} of .ze_info: {what}")), node)
    }

    fn field<'n>(&self, node: &'n Node, name: &str) -> Option<&'n Node> {
        let Content::Map(entries) = &node.content else { return None };
        entries.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    fn list<'n>(&self, node: &'n Node) -> Result<&'n [Node]> {
        match &node.content {
            Content::List(items) => Ok(items),
            Content::Scalar(text) if text.is_empty() => Ok(&[]),
            _ => Err(self.fail(node, "expected a list")),
        }
    }

    /// The items of a list that may be missing.
    fn items<'n>(&self, node: &'n Node, name: &str) -> Result<&'n [Node]> {
        self.field(node, name).map_or(Ok(&[]), |list| self.list(list))
    }

    fn word<'n>(&self, node: &'n Node) -> Result<&'n str> {
        match &node.content {
            Content::Scalar(text) => Ok(text),
            _ => Err(self.fail(node, "expected a word")),
        }
    }

    fn text<'n>(&self, node: &'n Node, name: &str) -> Result<&'n str> {
        match self.field(node, name) {
            Some(found) => self.word(found),
            None => Err(self.fail(node, &format!("the field {name} is missing"))),
        }
    }

    fn number(&self, node: &Node, name: &str) -> Result<Option<u32>> {
        let Some(found) = self.field(node, name) else { return Ok(None) };
        let word = self.word(found)?;
        let number = match word.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        };
        let message = || format!("{name} is {word:?}, expected a number of 32 bits");
        number.map(Some).ok_or_else(|| self.fail(found, &message()))
    }

    fn needed(&self, node: &Node, name: &str) -> Result<u32> {
        let number = self.number(node, name)?;
        number.ok_or_else(|| self.fail(node, &format!("the field {name} is missing")))
    }

    fn kernel(&self, node: &Node, problems: &mut Problems) -> Result<Kernel> {
        let name = self.text(node, "name")?.to_owned();
        let environment = self
            .field(node, "execution_env")
            .ok_or_else(|| self.fail(node, &format!("kernel {name:?} has no execution_env")))?;
        let number = |field| self.number(environment, field).map(|found| found.unwrap_or(0));
        let environment = Environment {
            grfs: self.needed(environment, "grf_count")?,
            simd: self.needed(environment, "simd_size")?,
            slm: number("slm_size")?,
            barriers: number("barrier_count")?,
            inline: number("inline_data_payload_size")?,
            local_ids: self.local_ids(node)?,
        };
        let mut entries = BTreeMap::new();
        for entry in self.items(node, "binding_table_indices")? {
            entries.insert(self.needed(entry, "arg_index")?, self.needed(entry, "bti_value")?);
        }
        let mut arguments = Vec::new();
        for part in self.items(node, "payload_arguments")? {
            let argument = self.argument(part, &entries)?;
            if let Some(Argument { kind: ArgumentKind::Other(word), .. }) = &argument {
                let line = self.line(part);
                let message = format!("line {line} of .ze_info: kernel {name:?} takes a {word:?}");
                let message = format!("{message}, which is not known: its bytes will be zero");
                problems.push(self.place(Diagnostic::warning("Q6106", message), part));
            }
            arguments.extend(argument);
        }
        let (listing, place) = (Listing::default(), Place::default());
        Ok(Kernel { name, listing, environment, arguments, place })
    }

    fn local_ids(&self, node: &Node) -> Result<u32> {
        let mut all = 0u32;
        for part in self.items(node, "per_thread_payload_arguments")? {
            let (kind, size) = (self.text(part, "arg_type")?, self.needed(part, "size")?);
            if !matches!(kind, "local_id" | "packed_local_ids") || all > 0 {
                let what = format!("{kind:?} is not known among the data of a thread");
                return Err(self.fail(part, &what));
            }
            all = size;
        }
        Ok(all)
    }

    /// A part of the cross-thread data; nothing for one without bytes that no message reaches.
    fn argument(&self, node: &Node, entries: &BTreeMap<u32, u32>) -> Result<Option<Argument>> {
        let word = self.text(node, "arg_type")?;
        let (offset, size) = (self.needed(node, "offset")?, self.needed(node, "size")?);
        let kind = match word {
            "arg_bypointer" => {
                let index = self.needed(node, "arg_index")?;
                let global = matches!(self.field(node, "addrspace"), Some(space)
                    if matches!(self.word(space)?, "global" | "constant"));
                match (self.text(node, "addrmode")?, entries.get(&index)) {
                    ("stateless", _) if global => {
                        ArgumentKind::Pointer { index, access: self.access(node)? }
                    }
                    ("stateful", Some(&entry)) if global && size == 0 => {
                        ArgumentKind::Surface { index, entry }
                    }
                    _ if size == 0 => return Ok(None),
                    (mode, _) => ArgumentKind::Other(format!("{mode} pointer")),
                }
            }
            "buffer_address" => ArgumentKind::Pointer {
                index: self.needed(node, "arg_index")?,
                access: Access::Both,
            },
            "buffer_offset" => ArgumentKind::Offset { index: self.needed(node, "arg_index")? },
            "arg_byvalue" => ArgumentKind::Value {
                index: self.needed(node, "arg_index")?,
                from: self.number(node, "source_offset")?.unwrap_or(0),
            },
            _ => match Implicit::from_name(word) {
                Some(what) => ArgumentKind::Implicit(what),
                None => ArgumentKind::Other(word.to_owned()),
            },
        };
        Ok(Some(Argument { kind, offset, size }))
    }

    fn access(&self, node: &Node) -> Result<Access> {
        let Some(field) = self.field(node, "access_type") else { return Ok(Access::Both) };
        let word = self.word(field)?;
        let known = || format!("access_type is {word:?}, expected {}", Access::NAMES.join(", "));
        Access::from_name(word).ok_or_else(|| self.fail(field, &known()))
    }
}

/// Writes the text of kernels.
pub(super) fn write(kernels: &[Kernel]) -> String {
    let mut out = format!("---\nversion: '{VERSION}'\nkernels:\n");
    for kernel in kernels {
        // A string takes everything that is written to it.
        write_kernel(kernel, &mut out).expect("text can be appended");
    }
    out + "...\n"
}

fn write_kernel(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    let environment = kernel.environment;
    writeln!(out, "  - name: {}\n    execution_env:", yaml::written(&kernel.name))?;
    let number = |out: &mut String, name, value: u32| match value {
        0 => Ok(()),
        _ => writeln!(out, "      {name}: {value}"),
    };
    number(out, "barrier_count", environment.barriers)?;
    number(out, "grf_count", environment.grfs)?;
    let systolic = |statement: &Statement| matches!(statement, Statement::Systolic(_));
    if kernel.listing.items.iter().any(|item| systolic(&item.statement)) {
        writeln!(out, "      has_dpas: true")?;
    }
    number(out, "inline_data_payload_size", environment.inline)?;
    number(out, "simd_size", environment.simd)?;
    number(out, "slm_size", environment.slm)?;
    if !kernel.arguments.is_empty() {
        writeln!(out, "    payload_arguments:")?;
    }
    for argument in &kernel.arguments {
        write_argument(argument, out)?;
    }
    if environment.local_ids > 0 {
        let packed = environment.local_ids as usize == crate::program::payload::PACKED;
        let kind = if packed { "packed_local_ids" } else { "local_id" };
        writeln!(out, "    per_thread_payload_arguments:\n      - arg_type: {kind}")?;
        writeln!(out, "        offset: 0\n        size: {}", environment.local_ids)?;
    }
    let surfaces: Vec<(u32, u32)> = kernel.arguments.iter().filter_map(surface).collect();
    if !surfaces.is_empty() {
        writeln!(out, "    binding_table_indices:")?;
    }
    for (index, entry) in surfaces {
        writeln!(out, "      - bti_value: {entry}\n        arg_index: {index}")?;
    }
    Ok(())
}

fn surface(argument: &Argument) -> Option<(u32, u32)> {
    match argument.kind {
        ArgumentKind::Surface { index, entry } => Some((index, entry)),
        _ => None,
    }
}

fn write_argument(argument: &Argument, out: &mut String) -> std::fmt::Result {
    let kind = match &argument.kind {
        ArgumentKind::Pointer { .. } | ArgumentKind::Surface { .. } => "arg_bypointer".to_owned(),
        ArgumentKind::Offset { .. } => "buffer_offset".to_owned(),
        ArgumentKind::Value { .. } => "arg_byvalue".to_owned(),
        ArgumentKind::Implicit(what) => what.name().to_owned(),
        ArgumentKind::Other(word) => yaml::written(word),
    };
    writeln!(out, "      - arg_type: {kind}\n        offset: {}", argument.offset)?;
    writeln!(out, "        size: {}", argument.size)?;
    if let Some(index) = argument.kind.index() {
        writeln!(out, "        arg_index: {index}")?;
    }
    match &argument.kind {
        ArgumentKind::Pointer { access, .. } => {
            writeln!(out, "        addrmode: stateless\n        addrspace: global")?;
            writeln!(out, "        access_type: {}", access.name())
        }
        ArgumentKind::Surface { .. } => {
            writeln!(out, "        addrmode: stateful\n        addrspace: global")
        }
        ArgumentKind::Value { from: from @ 1.., .. } => {
            writeln!(out, "        source_offset: {from}")
        }
        _ => Ok(()),
    }
}
