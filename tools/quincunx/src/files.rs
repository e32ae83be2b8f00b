//! Files in.

use crate::foreign::{refuse, refuse_folder};
use crate::targets;
use bytes::Bytes;
use quincunx_contract::File;
use quincunx_diag::{Diagnostic, Result};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Largest file that is read: protocol buffers end at 2 GiB, so no model is larger.
const MAX_FILE: u64 = 1 << 31;

/// Most that is read from what has no size of its own: a pipe or a device.
const MAX_STREAM: u64 = 1 << 28;

/// Byte order mark in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// A file the user named, in memory; texts without a byte order mark.
#[derive(Clone, Debug)]
pub struct InputFile {
    /// Name for messages.
    pub name: String,
    /// Where it is; `None` for a stream.
    pub path: Option<PathBuf>,
    /// Contents.
    pub bytes: Bytes,
}

impl InputFile {
    /// Reads a file. Where there is none, and the name has a `#`, it is the file named before that, if
    /// that is one of parts; what follows names a part, which is for whoever reads the contents.
    ///
    /// # Errors
    /// `Q0602` when it cannot be read or is larger than 2 GiB; `Q0651` for a model of another tool.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let whole = name.rsplit_once('#').map(|(whole, _)| Path::new(whole));
        if let Some(whole) = whole.filter(|whole| !path.exists() && whole.is_file()) {
            let file = InputFile { name: name.clone(), ..Self::open_whole(whole)? };
            if targets().iter().any(|target| target.has_parts(&file.to_file())) {
                return Ok(file);
            }
        }
        Self::open_whole(path)
    }

    fn open_whole(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let fail = |error: io::Error| read_error(&error).in_file(&name);
        if path.is_dir() {
            refuse_folder(path)?;
            return Err(
                Diagnostic::invalid("Q0602", "expected a file, found a folder").in_file(name)
            );
        }
        let file = fs::File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if !metadata.is_file() {
            let input = Self::from_reader(&name, file)?;
            return Ok(InputFile { path: Some(path.to_owned()), ..input });
        }
        let mut bytes = Vec::new();
        if metadata.len() <= MAX_FILE {
            // Room for the whole file at once: growing would take twice the memory.
            bytes.try_reserve_exact(usize::try_from(metadata.len()).unwrap_or(0)).map_err(
                |_| {
                    Diagnostic::unsupported("Q0602", "there is not enough memory for it")
                        .in_file(&name)
                },
            )?;
        }
        read_up_to(file, MAX_FILE, &mut bytes).map_err(|problem| problem.in_file(&name))?;
        refuse(&name, &bytes)?;
        Ok(InputFile { name, path: Some(path.to_owned()), bytes: without_mark(bytes.into()) })
    }

    /// Reads a stream to its end.
    ///
    /// # Errors
    /// `Q0602` when it cannot be read or gives more than 256 MiB; `Q0651` for a model of another tool.
    pub fn from_reader(name: &str, reader: impl Read) -> Result<Self> {
        let mut bytes = Vec::new();
        read_up_to(reader, MAX_STREAM, &mut bytes).map_err(|problem| problem.in_file(name))?;
        refuse(name, &bytes)?;
        Ok(InputFile { name: name.to_owned(), path: None, bytes: without_mark(bytes.into()) })
    }

    /// The file for a target.
    pub fn to_file(&self) -> File {
        File::new(self.name.clone(), self.bytes.clone())
    }

    /// True when both are one file, or equal ones.
    pub fn same_as(&self, other: &InputFile) -> bool {
        let place = |file: &InputFile| fs::canonicalize(file.path.as_ref()?).ok();
        let same_place = place(self).is_some_and(|here| Some(here) == place(other));
        same_place || self.bytes == other.bytes
    }
}

/// The bytes without the byte order mark that some editors put before UTF-8 text.
fn without_mark(bytes: Bytes) -> Bytes {
    let is_text = bytes.starts_with(MARK) && std::str::from_utf8(&bytes).is_ok();
    if is_text { bytes.slice(MARK.len()..) } else { bytes }
}

/// Reads to the end, or refuses what is longer than `limit` bytes.
fn read_up_to(reader: impl Read, limit: u64, bytes: &mut Vec<u8>) -> Result<()> {
    reader.take(limit + 1).read_to_end(bytes).map_err(|error| read_error(&error))?;
    if bytes.len() as u64 > limit {
        let message = format!("it has more than {} MiB, the most that is read", limit >> 20);
        return Err(Diagnostic::invalid("Q0602", message));
    }
    Ok(())
}

fn read_error(error: &io::Error) -> Diagnostic {
    Diagnostic::system("Q0602", "read it", error)
}
