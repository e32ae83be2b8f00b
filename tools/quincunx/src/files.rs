//! Files in, files out.

use bytes::Bytes;
use quincunx_contract::File;
use quincunx_diag::{Diagnostic, Result};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Largest file that is read: protocol buffers end at 2 GiB, so no model is larger.
const MAX_FILE: u64 = 1 << 31;

/// Most that is read from what has no size of its own: a pipe or a device.
const MAX_STREAM: u64 = 1 << 28;

/// A file the user named, in memory.
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
    /// Reads a file.
    ///
    /// # Errors
    /// `Q0602` when it cannot be read or is larger than 2 GiB.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let fail = |error: io::Error| read_error(&error).in_file(&name);
        if path.is_dir() {
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
        Ok(InputFile { name, path: Some(path.to_owned()), bytes: bytes.into() })
    }

    /// Reads a stream to its end.
    ///
    /// # Errors
    /// `Q0602` when it cannot be read or gives more than 256 MiB.
    pub fn from_reader(name: &str, reader: impl Read) -> Result<Self> {
        let mut bytes = Vec::new();
        read_up_to(reader, MAX_STREAM, &mut bytes).map_err(|problem| problem.in_file(name))?;
        Ok(InputFile { name: name.to_owned(), path: None, bytes: bytes.into() })
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
    Diagnostic::invalid("Q0602", format!("cannot read it: {error}"))
}

/// Writes a file under a temporary name in its folder and renames it, so that it is there complete
/// or not at all.
///
/// # Errors
/// `Q0603` when the file system refuses.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let fail = |error: io::Error| {
        Diagnostic::invalid("Q0603", format!("cannot write it: {}", reason(&error)))
            .in_file(path.display().to_string())
    };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return write_in_place(path, bytes).map_err(fail);
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".quincunx-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).map_err(fail)?;
    file.write_all(bytes).map_err(fail)?;
    file.persist(path).map_err(|error| fail(error.error))?;
    Ok(())
}

/// Devices and pipes are written to; a folder gives the system's error.
fn write_in_place(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(bytes)
}

/// What the system says; tempfile adds the name of its temporary file to that.
fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(_) => error.to_string(),
        None if error.kind() == io::ErrorKind::NotFound => "there is no such folder".to_owned(),
        None => error.kind().to_string(),
    }
}
