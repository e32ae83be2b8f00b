//! Folders of golden files.

use quincunx_diag::{Diagnostic, Result};
use std::fs;
use std::path::Path;

/// Names of the files and of the folders in a folder, each sorted. Hidden ones are left out.
pub(crate) struct Entries {
    pub(crate) files: Vec<String>,
    pub(crate) folders: Vec<String>,
}

/// Lists a folder.
pub(crate) fn list(folder: &Path) -> Result<Entries> {
    let unreadable = |error: std::io::Error| {
        Diagnostic::invalid("Q0802", format!("the folder cannot be read: {error}"))
            .in_file(folder.display().to_string())
    };
    let mut entries = Entries { files: Vec::new(), folders: Vec::new() };
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if name.starts_with('.') {
            continue;
        }
        let list = if path.is_dir() { &mut entries.folders } else { &mut entries.files };
        list.push(name.to_owned());
    }
    entries.files.sort();
    entries.folders.sort();
    Ok(entries)
}

/// Refuses a path that is not a folder.
pub(crate) fn check(folder: &Path) -> Result<()> {
    list(folder).map(drop)
}

/// Reads a file; the error is a reason for a failed case.
pub(crate) fn read(path: &Path) -> std::result::Result<Vec<u8>, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    fs::read(path).map_err(|error| format!("{name}: {error}"))
}

/// Reads a text.
pub(crate) fn read_text(path: &Path) -> std::result::Result<String, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    String::from_utf8(read(path)?).map_err(|_| format!("{name}: not UTF-8"))
}
