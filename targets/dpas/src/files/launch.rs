//! Launch files: TOML of ours that says which kernels run on which buffers, in which order
//! (`docs/machines/dpas-launch.md`). Code and data lie in files beside it.

mod data;
mod form;
mod write;

pub use write::write;

use crate::arch::Platform;
use crate::files::zebin;
use crate::program::Element;
use crate::program::Program;
use crate::program::check::MAX_MEMORY;
use crate::program::device::{
    Access, Argument, ArgumentKind, Buffer, Device, Environment, Implicit, Kernel, Launch, Layer,
    Place, Role, Tile, Value,
};
use crate::text::MAX_TEXT;
use form::{ArgumentForm, BufferForm, FileForm, KernelForm, LaunchForm, LayerForm, TileForm};
use quincunx_contract::{File, parse_toml};
use quincunx_diag::{Diagnostic, Problems, Result, SourceId, Span, suggestion};
use std::collections::BTreeMap;
use toml::Spanned;

/// The key that a launch file begins with.
const MARK: &str = "dpas_launch";

/// Most instructions of all kernels.
const MAX_INSTRUCTIONS: usize = 1 << 21;

/// The version of the form.
const VERSION: u32 = 1;

/// True for a text that begins with the key of launch files.
pub fn recognises(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let lines = text.lines().map(str::trim);
    let first = lines.into_iter().find(|line| !line.is_empty() && !line.starts_with('#'));
    let rest = first.and_then(|line| line.strip_prefix(MARK));
    rest.is_some_and(|rest| rest.trim_start().starts_with('='))
}

/// Names of the files that a launch file names, in order; none for a malformed one.
pub fn companions(bytes: &[u8]) -> Vec<String> {
    let form = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_TEXT);
    let form = form.and_then(|text| parse_toml::<FileForm>("Q6110", text).ok());
    let Some(form) = form else { return Vec::new() };
    let code = form.kernel.into_iter().map(|kernel| kernel.file.into_inner());
    let data = form.buffer.into_iter().filter_map(|buffer| Some(buffer.data?.into_inner()));
    let mut names: Vec<String> = Vec::new();
    let mut taken = std::collections::BTreeSet::new();
    for name in code.chain(data) {
        if taken.insert(name.clone()) {
            names.push(name);
        }
    }
    names
}

/// A program of launches and the warnings of its reading.
pub type Read = (Device, Vec<Diagnostic>);

/// Reads the launch file at a place among files, with the others as its companions. What the parts
/// say about each other is not checked ([`check`](crate::program::check::check)).
///
/// # Errors
/// `Q6110` for text that is no launch file, `Q6113` for values that mean nothing, `Q6111` for files
/// and kernels that are not there, `Q6114` for data that do not fit, `Q6115` for another platform,
/// and those of the files with code.
pub fn read(
    files: &[File],
    index: usize,
    platform: Platform,
) -> std::result::Result<Read, Vec<Diagnostic>> {
    let file = files.get(index).ok_or_else(|| Diagnostic::bug("no launch file"))?;
    let text = file.text()?;
    if text.len() > MAX_TEXT {
        let message = format!("the text has more than {MAX_TEXT} bytes");
        return Err(Diagnostic::unsupported("Q6032", message).name_file(&file.name).into());
    }
    let form: FileForm =
        parse_toml("Q6110", text).map_err(|problem| vec![problem.name_file(&file.name)])?;
    let source = SourceId::of(index);
    let names = files.iter().enumerate().map(|(at, file)| (file.base_name(), at));
    let mut reader = Reader {
        files,
        names: names.collect(),
        source,
        platform,
        problems: Problems::default(),
        code: BTreeMap::new(),
        data: 0,
        instructions: 0,
    };
    reader.head(&form);
    if reader.problems.any_error() {
        // Code of another machine would only give more of them.
        return Err(reader.problems.finish());
    }
    let mut device = Device::default();
    for kernel in form.kernel {
        let read = reader.kernel(kernel);
        device.kernels.extend(reader.kept(read)?);
    }
    for buffer in form.buffer {
        let read = reader.buffer(buffer);
        device.buffers.extend(reader.kept(read)?);
    }
    device.layers = form.layer.into_iter().map(|layer| reader.layer(layer)).collect();
    for launch in form.launch {
        let read = reader.launch(launch);
        device.launches.extend(reader.kept(read)?);
    }
    reader.problems.warnings().map(|warnings| (device, warnings))
}

struct Reader<'f> {
    files: &'f [File],
    /// Places of the files by their names.
    names: BTreeMap<&'f str, usize>,
    source: SourceId,
    platform: Platform,
    problems: Problems,
    /// The kernels of the files that were read: several may be of one file.
    code: BTreeMap<String, Vec<Kernel>>,
    /// Bytes of the buffers with data so far.
    data: u64,
    /// Instructions of the kernels so far.
    instructions: usize,
}

impl Reader<'_> {
    /// What was read, if it could be; no more is read once there are many errors.
    fn kept<T>(&mut self, read: Result<T>) -> std::result::Result<Option<T>, Vec<Diagnostic>> {
        let kept = read.map_err(|problem| self.problems.push(problem)).ok();
        match self.problems.is_full() {
            true => Err(std::mem::take(&mut self.problems).finish()),
            false => Ok(kept),
        }
    }

    /// Bounds the instructions of all kernels: many kernels may be of one file.
    fn bounded(&mut self, kernel: Kernel, name: &Spanned<String>) -> Result<Kernel> {
        self.instructions = self.instructions.saturating_add(kernel.listing.items.len());
        if self.instructions <= MAX_INSTRUCTIONS {
            return Ok(kernel);
        }
        let message = format!("the kernels have more than {MAX_INSTRUCTIONS} instructions");
        Err(Diagnostic::unsupported("Q6118", message).label(self.span(name), ""))
    }

    fn span<T>(&self, value: &Spanned<T>) -> Span {
        let range = value.span();
        let small = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Span { source: self.source, start: small(range.start), end: small(range.end) }
    }

    fn place<T>(&self, value: &Spanned<T>) -> Place {
        Place(Some(self.span(value)))
    }

    fn wrong<T>(&self, code: &'static str, value: &Spanned<T>, message: String) -> Diagnostic {
        Diagnostic::invalid(code, message).label(self.span(value), "")
    }

    fn head(&mut self, form: &FileForm) {
        if *form.dpas_launch.get_ref() != VERSION {
            let found = form.dpas_launch.get_ref();
            let message = format!("{MARK} is {found}, expected {VERSION}");
            let problem = self.wrong("Q6113", &form.dpas_launch, message);
            self.problems.push(problem);
        }
        let name = form.platform.get_ref();
        let problem = match Platform::from_name(name) {
            Some(made_for) if made_for == self.platform => return,
            Some(made_for) => {
                let (made_for, own) = (made_for.name(), self.platform.name());
                let message = format!("the launches are for {made_for}, the machine is {own}");
                let problem = self.wrong("Q6115", &form.platform, message);
                problem.help(format!("choose it with --arch {made_for}"))
            }
            None => {
                let names = Platform::ALL.map(Platform::name);
                self.unknown("Q6113", &form.platform, "platform", "platforms", &names)
            }
        };
        self.problems.push(problem);
    }

    /// A word that is none of those that are known.
    fn unknown(
        &self,
        code: &'static str,
        word: &Spanned<String>,
        kind: &str,
        kinds: &str,
        known: &[&str],
    ) -> Diagnostic {
        let message = format!("there is no {kind} \"{}\"", word.get_ref().escape_debug());
        self.wrong(code, word, message).help(suggestion(
            word.get_ref(),
            kinds,
            known.iter().copied(),
        ))
    }

    /// The place of a companion among the files.
    fn companion(&self, name: &Spanned<String>) -> Result<usize> {
        self.names.get(name.get_ref().as_str()).copied().ok_or_else(|| {
            let names: Vec<&str> = self.files.iter().map(File::base_name).collect();
            self.unknown("Q6111", name, "file", "files", &names)
                .with_note("files of code and data lie beside the launch file")
        })
    }

    fn kernel(&mut self, form: KernelForm) -> Result<Kernel> {
        let index = self.companion(&form.file)?;
        let place = self.place(&form.name);
        if self.read_kernels(&form.file, index)? {
            let kernels = self.code.get(form.file.get_ref()).map_or(&[][..], |kernels| kernels);
            if let Some(given) = form.given() {
                let message = format!("{given} is given, and stands in the file of the kernel");
                return Err(self.wrong("Q6113", &form.name, message));
            }
            let name = form.entry.as_ref().unwrap_or(&form.name);
            let found = kernels.iter().find(|kernel| kernel.name == *name.get_ref());
            return match found {
                Some(found) => {
                    let name = form.name.get_ref().clone();
                    let kernel = Kernel { name, place, ..found.clone() };
                    self.bounded(kernel, &form.name)
                }
                None => {
                    let names: Vec<&str> = kernels.iter().map(|k| k.name.as_str()).collect();
                    Err(self.unknown("Q6111", name, "kernel", "kernels of the file", &names))
                }
            };
        }
        if let Some(entry) = &form.entry {
            let message = "an entry is given, and the file holds one listing".to_owned();
            return Err(self.wrong("Q6113", entry, message));
        }
        self.listing(form, index)
    }

    /// Reads the kernels of a zebin; false for other files.
    fn read_kernels(&mut self, name: &Spanned<String>, index: usize) -> Result<bool> {
        let Some(file) = self.files.get(index).filter(|file| zebin::recognises(&file.bytes)) else {
            return Ok(false);
        };
        if !self.code.contains_key(name.get_ref()) {
            let named = |problem: Diagnostic| problem.name_file(&file.name);
            let kernels = match zebin::read(&file.bytes, self.platform) {
                Ok((kernels, warnings)) => {
                    self.problems.extend(warnings.into_iter().map(named));
                    kernels
                }
                Err(found) => {
                    self.problems.extend(found.into_iter().map(named));
                    Vec::new()
                }
            };
            self.code.insert(name.get_ref().clone(), kernels);
        }
        if self.code.get(name.get_ref()).is_none_or(Vec::is_empty) {
            let message = format!("no kernel of \"{}\" can be used", name.get_ref());
            return Err(self.wrong("Q6111", name, message));
        }
        Ok(true)
    }

    /// A kernel of a listing or of plain machine code, whose environment the launch file gives.
    fn listing(&mut self, form: KernelForm, index: usize) -> Result<Kernel> {
        let file = self.files.get(index).ok_or_else(|| Diagnostic::bug("no such companion"))?;
        let read = super::read_at(file, self.platform, None, SourceId::of(index));
        let listing = match read {
            Ok((Program::Native(listing), warnings)) => {
                self.problems.extend(warnings);
                listing
            }
            Ok((Program::Visa(_), _)) => {
                let message = "the file is vISA, expected a native listing or a zebin".to_owned();
                return Err(self.wrong("Q6113", &form.file, message));
            }
            Err(found) => {
                self.problems.extend(found);
                let message = format!("\"{}\" cannot be used", form.file.get_ref());
                return Err(self.wrong("Q6111", &form.file, message));
            }
        };
        let environment = Environment {
            grfs: form.grf_count.unwrap_or(128),
            simd: form.simd_size.unwrap_or(self.platform.lanes()),
            slm: form.slm_size.unwrap_or(0),
            barriers: form.barrier_count.unwrap_or(0),
            inline: form.inline_data_payload_size.unwrap_or(0),
            local_ids: form.local_ids.unwrap_or(0),
        };
        let arguments = form.arguments.unwrap_or_default();
        let arguments =
            arguments.iter().map(|argument| self.argument(argument)).collect::<Result<_>>()?;
        let (name, place) = (form.name.get_ref().clone(), self.place(&form.name));
        self.bounded(Kernel { name, listing, environment, arguments, place }, &form.name)
    }

    fn argument(&self, form: &Spanned<ArgumentForm>) -> Result<Argument> {
        let own = form.get_ref();
        let refuse = |message: &str| self.wrong("Q6113", form, message.to_owned());
        let (kind, size) = match (own.pointer, own.surface, own.value, &own.implicit, &own.other) {
            (Some(index), None, None, None, None) => {
                let access = match &own.access {
                    None => Access::Both,
                    Some(word) => Access::from_name(word.get_ref()).ok_or_else(|| {
                        self.unknown("Q6113", word, "access", "kinds of access", Access::NAMES)
                    })?,
                };
                (ArgumentKind::Pointer { index, access }, 8)
            }
            (None, Some(index), None, None, None) => {
                let entry = own.entry.ok_or_else(|| refuse("a surface needs its entry"))?;
                (ArgumentKind::Surface { index, entry }, 0)
            }
            (None, None, Some(index), None, None) => {
                (ArgumentKind::Value { index, from: own.from.unwrap_or(0) }, 4)
            }
            (None, None, None, Some(word), None) => {
                let what = Implicit::from_name(word.get_ref()).ok_or_else(|| {
                    self.unknown("Q6113", word, "implicit argument", "they", Implicit::NAMES)
                })?;
                (ArgumentKind::Implicit(what), what.bytes())
            }
            (None, None, None, None, Some(word)) => (ArgumentKind::Other(word.clone()), 4),
            _ => {
                let message = "expected one of pointer, surface, value, implicit and other";
                return Err(refuse(message));
            }
        };
        let offset = match kind {
            ArgumentKind::Surface { .. } => own.offset.unwrap_or(0),
            _ => own.offset.ok_or_else(|| refuse("an argument needs its offset"))?,
        };
        Ok(Argument { kind, offset, size: own.size.unwrap_or(size) })
    }

    fn buffer(&mut self, form: BufferForm) -> Result<Buffer> {
        let word = &form.element;
        let element = Element::from_name(word.get_ref()).ok_or_else(|| {
            let names: Vec<&str> = Element::ALL.iter().map(|element| element.name()).collect();
            self.unknown("Q6113", word, "element type", "types", &names)
        })?;
        let word = &form.role;
        let role = Role::from_name(word.get_ref())
            .ok_or_else(|| self.unknown("Q6113", word, "role", "roles", Role::NAMES))?;
        let grid = match (form.scale, form.zero_point) {
            (None, None) => None,
            (Some(scale), zero) => Some((scale, zero.unwrap_or(0))),
            (None, Some(_)) => {
                let message = "a zero point is given and no scale".to_owned();
                return Err(self.wrong("Q6113", &form.name, message));
            }
        };
        let mut buffer = Buffer {
            name: form.name.get_ref().clone(),
            element,
            shape: form.shape,
            strides: form.strides,
            offset: form.offset.unwrap_or(0),
            bytes: 0,
            role,
            grid,
            fill: form.fill.unwrap_or(0),
            data: None,
            inside: form.inside.map(|outer| (outer, form.inside_offset.unwrap_or(0))),
            place: self.place(&form.name),
        };
        buffer.bytes = match form.bytes {
            Some(bytes) => bytes,
            None => buffer.extent().ok_or_else(|| {
                let message = format!("buffer \"{}\" has more than 2^64 bytes", buffer.name);
                self.wrong("Q6117", &form.name, message)
            })?,
        };
        if let Some(name) = &form.data {
            let index = self.companion(name)?;
            let file = self.files.get(index).ok_or_else(|| Diagnostic::bug("no companion"))?;
            self.data = self.data.saturating_add(buffer.bytes);
            if self.data > MAX_MEMORY {
                let message = format!("the buffers with data take more than {MAX_MEMORY} bytes");
                return Err(self.wrong("Q6118", name, message));
            }
            let data = data::read(&file.bytes, &buffer, form.data_offset);
            let place = |problem: Diagnostic| problem.label(self.span(name), "");
            buffer.data = Some(data.map_err(place)?);
        }
        Ok(buffer)
    }

    fn layer(&self, form: LayerForm) -> Layer {
        let place = self.place(&form.name);
        Layer {
            name: form.name.into_inner(),
            nodes: form.nodes,
            macs: form.macs,
            values: form.values,
            tiles: form.tiles.into_iter().map(tile).collect(),
            place,
        }
    }

    fn launch(&self, form: LaunchForm) -> Result<Launch> {
        let arguments = form.arguments.into_iter().map(|argument| match argument.get_ref() {
            toml::Value::String(name) => Ok(Value::Buffer(name.clone())),
            toml::Value::Integer(number) => Ok(Value::Whole(*number)),
            toml::Value::Float(real) => Ok(Value::Real(*real)),
            _ => {
                let message = "expected the name of a buffer, or a number".to_owned();
                Err(self.wrong("Q6113", &argument, message))
            }
        });
        let place = self.place(&form.kernel);
        Ok(Launch {
            kernel: form.kernel.into_inner(),
            groups: form.groups,
            threads: form.threads,
            local_size: form.local_size,
            arguments: arguments.collect::<Result<_>>()?,
            layer: form.layer,
            place,
        })
    }
}

fn tile(form: TileForm) -> Tile {
    Tile {
        rows: form.rows,
        channels: form.channels,
        weights: form.weights,
        grfs: form.grf_count,
        registers: form.registers,
        threads: form.threads,
        cycles: form.cycles,
        limit: form.limit,
        verdict: form.verdict,
    }
}
