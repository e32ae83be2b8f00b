//! Results of the command: where they go, and that all of them appear or none.

use quincunx::diag::{Diagnostic, Result};
use quincunx::target::folder::Folder;
use quincunx::target::outputs::{Outputs, abandon};
use std::cell::RefCell;
use std::path::{Path, PathBuf};

thread_local! {
    /// The command is one transaction.
    static OUTPUTS: RefCell<Outputs> = RefCell::default();
}

pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Two results on one stream cannot be told apart.
pub(crate) fn two_on_stdout() -> Diagnostic {
    Diagnostic::usage("Q0707", "stdout is given for two results")
        .help("name a file for one of them")
}

fn each<'p>(
    paths: impl IntoIterator<Item = &'p Path>,
    mut act: impl FnMut(&mut Outputs, &Path) -> Result<()>,
) -> Result<()> {
    OUTPUTS.with_borrow_mut(|outputs| {
        paths.into_iter().filter(|path| !is_stdout(path)).try_for_each(|path| act(outputs, path))
    })
}

/// Checks where files will be written, before the work begins.
///
/// # Errors
/// As [`Outputs::expect`].
pub(crate) fn expect<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Result<()> {
    each(paths.into_iter().map(PathBuf::as_path), Outputs::expect)
}

/// As [`expect`], for a program folder.
///
/// # Errors
/// As [`Outputs::expect_folder`].
pub(crate) fn expect_folder(path: &Path) -> Result<()> {
    each([path], Outputs::expect_folder)
}

/// As [`expect`], for a file or a folder of files, which are not known yet.
///
/// # Errors
/// As [`Outputs::expect_below`].
pub(crate) fn expect_below(path: &Path) -> Result<()> {
    each([path], |outputs, path| outputs.expect_below(path))
}

/// Notes files that are read, which no result may replace.
///
/// # Errors
/// As [`Outputs::read`].
pub(crate) fn reads<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Result<()> {
    each(paths, Outputs::read)
}

/// Adds a file to the results.
///
/// # Errors
/// As [`Outputs::file`].
pub(crate) fn file(path: &Path, bytes: &[u8]) -> Result<()> {
    each([path], |outputs, path| outputs.file(path, bytes.to_vec()))
}

/// Adds a program folder to the results.
///
/// # Errors
/// As [`Outputs::folder`].
pub(crate) fn folder(path: &Path, folder: &Folder) -> Result<()> {
    each([path], |outputs, path| outputs.folder(path, folder))
}

/// Writes all results.
///
/// # Errors
/// As [`Outputs::commit`].
pub(crate) fn commit() -> Result<()> {
    OUTPUTS.take().commit()
}

/// Who is interrupted or told to end leaves no temporary files, and then ends by the signal.
#[cfg(unix)]
pub(crate) fn watch_signals() {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::{iterator::Signals, low_level::emulate_default_handler};
    // Without the thread a signal only leaves temporary files.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            abandon();
            let _ = emulate_default_handler(signal);
        }
    });
}

#[cfg(not(unix))]
pub(crate) fn watch_signals() {}
