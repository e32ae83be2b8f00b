//! What a command writes: files and program folders that appear together or not at all.
//!
//! Everything is written beside its place first and then takes its place in one step: an exchange
//! where something is replaced, so that there always is the old or the new. A step that fails undoes
//! those before it.

use crate::folder::{self, Folder};
use bytes::Bytes;
use quincunx_diag::{Diagnostic, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Folders that hold what is not in its place yet. Who changes the file system holds the lock.
static STAGES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn stages() -> MutexGuard<'static, Vec<PathBuf>> {
    STAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes everything temporary, for a process that then ends: no thread writes any more.
pub fn abandon() {
    let stages = stages();
    for stage in &*stages {
        // There is nobody left to tell.
        let _ = fs::remove_dir_all(stage);
    }
    std::mem::forget(stages);
}

/// How names of temporary folders begin.
const PREFIX: &str = ".quincunx-stage-";

/// How many temporary folders are tried, should others remove them.
const ATTEMPTS: usize = 64;

/// In a temporary folder: what takes a place, and what was there, by its name.
const NEW: &str = "new";
const OLD: &str = "old";

/// Stands between two changes of the file system; tests end the process there.
#[cfg(not(test))]
fn between_changes() {}
#[cfg(test)]
use tests::between_changes;

/// A folder for temporary files that is removed at the end, also by [`abandon`]. Who is killed
/// leaves it to the next that needs one in the same place.
#[derive(Debug)]
pub struct Stage {
    folder: tempfile::TempDir,
    /// Ends with the process; `None` where the system has no locks of folders.
    _lock: Option<fs::File>,
}

impl Stage {
    /// A new folder in `parent`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new_in(parent: &Path) -> io::Result<Self> {
        let mut stages = stages();
        sweep(parent);
        for _ in 0..ATTEMPTS {
            between_changes();
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            between_changes();
            let lock = match lock(folder.path()) {
                Ok(lock) if folder.path().exists() => Some(lock),
                // Somebody who sweeps took it for a leftover.
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(_) => None,
            };
            stages.push(folder.path().to_owned());
            return Ok(Stage { folder, _lock: lock });
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let mut stages = stages();
        stages.retain(|path| path != self.folder.path());
        between_changes();
        // What cannot be removed stays; the results are there.
        let _ = fs::remove_dir_all(self.folder.path());
        between_changes();
    }
}

/// Marks a folder as somebody's who lives.
fn lock(stage: &Path) -> io::Result<fs::File> {
    let folder = fs::File::open(stage)?;
    folder.try_lock()?;
    Ok(folder)
}

/// Removes folders of processes that were killed. What they had taken away comes back first.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let stage = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder || !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(_lock) = lock(&stage) else { continue };
        let mut taken = fs::read_dir(stage.join(OLD)).into_iter().flatten().flatten();
        let is_back = taken.all(|old| {
            let place = parent.join(old.file_name());
            fs::symlink_metadata(&place).is_ok() || fs::rename(old.path(), place).is_ok()
        });
        if is_back {
            // What cannot be removed stays.
            let _ = fs::remove_dir_all(stage);
        }
    }
}

/// The results of a command.
#[derive(Debug, Default)]
pub struct Outputs {
    /// By their real places.
    places: BTreeMap<PathBuf, Output>,
    /// Real places of files that may be replaced, with the names the user gave.
    possible: BTreeMap<PathBuf, PathBuf>,
    /// Real paths of the files that are read.
    sources: BTreeSet<PathBuf>,
    /// Devices and pipes, which are written to.
    streams: Vec<(PathBuf, Bytes)>,
}

#[derive(Debug)]
struct Output {
    /// As the user wrote it.
    name: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Contents that come later.
    Expected,
    /// A file.
    File(Bytes),
    /// A folder that is replaced as a whole, with its files.
    Folder(Vec<(PathBuf, Bytes)>),
}

impl Outputs {
    /// Announces a file, so that its place is checked before the work begins.
    ///
    /// # Errors
    /// `Q0516` when it is the place of another result, `Q0517` when it replaces what is read, `Q0518` when it cannot be written.
    pub fn expect(&mut self, path: &Path) -> Result<()> {
        if is_stream(path) {
            return Ok(());
        }
        check_file(path)?;
        check_parent(path)?;
        self.place(path, Kind::Expected)
    }

    /// As [`Outputs::expect`], for a program folder.
    ///
    /// # Errors
    /// As there; `Q0510` when something else is there.
    pub fn expect_folder(&mut self, path: &Path) -> Result<()> {
        folder::check_replaceable(&real(path))
            .map_err(|problem| problem.in_file(path.display().to_string()))?;
        check_parent(path)?;
        self.place(path, Kind::Expected)
    }

    /// Checks that files can be created in a folder, which need not exist, or as this file.
    ///
    /// # Errors
    /// `Q0518` when nothing can be created there.
    pub fn expect_below(&mut self, path: &Path) -> Result<()> {
        if is_stream(path) {
            return Ok(());
        }
        let real = real(path);
        let there = real.ancestors().find(|above| above.exists()).unwrap_or(&real);
        let is_file = there == real && there.is_file();
        let folder = if is_file { parent(there) } else { there };
        writable(folder).map_err(|error| unwritable(path, &error))?;
        if is_file {
            self.possible.insert(real, path.to_owned());
        }
        Ok(())
    }

    /// Adds a file.
    ///
    /// # Errors
    /// `Q0516` when it is the place of another result, `Q0517` when it replaces what is read, `Q0518` when a folder is there.
    pub fn file(&mut self, path: &Path, bytes: impl Into<Bytes>) -> Result<()> {
        if is_stream(path) {
            self.streams.push((path.to_owned(), bytes.into()));
            return Ok(());
        }
        check_file(path)?;
        self.place(path, Kind::File(bytes.into()))
    }

    /// Adds a program folder, which replaces one that is there.
    ///
    /// # Errors
    /// `Q0510` when something else is there, `Q0511` for a name that cannot be a file name, `Q0516`
    /// when it is the place of another result.
    pub fn folder(&mut self, path: &Path, folder: &Folder) -> Result<()> {
        folder::check_replaceable(&real(path))
            .map_err(|problem| problem.in_file(path.display().to_string()))?;
        self.place(path, Kind::Folder(folder.contents()?))
    }

    /// Notes a file that is read, which no result may replace.
    ///
    /// # Errors
    /// `Q0517` when a result would.
    pub fn read(&mut self, source: &Path) -> Result<()> {
        let source = real(source);
        let places = self.places.iter().map(|(place, output)| (place, &output.name));
        let replaced = places.chain(&self.possible).find(|(place, _)| source.starts_with(place));
        if let Some((_, name)) = replaced {
            return Err(overwrites(name, &source));
        }
        self.sources.insert(source);
        Ok(())
    }

    fn place(&mut self, path: &Path, kind: Kind) -> Result<()> {
        let place = real(path);
        if let Some(source) = self.sources.iter().find(|source| source.starts_with(&place)) {
            return Err(overwrites(path, source));
        }
        let nested = |other: &PathBuf| other.starts_with(&place) || place.starts_with(other);
        let clash = self.places.iter().find(|(other, output)| {
            let announced = matches!(output.kind, Kind::Expected);
            nested(other) && !(**other == place && announced && !matches!(kind, Kind::Expected))
        });
        if let Some((_, other)) = clash {
            let message = "another result goes to the same place";
            let same = (other.name != path).then(|| format!("it is also {}", other.name.display()));
            return Err(Diagnostic::usage("Q0516", message)
                .in_file(path.display().to_string())
                .help(same.unwrap_or_else(|| "choose another place for one of them".to_owned())));
        }
        self.places.insert(place, Output { name: path.to_owned(), kind });
        Ok(())
    }

    /// Writes everything, or nothing but to devices and pipes.
    ///
    /// # Errors
    /// `Q0518` when the file system refuses.
    pub fn commit(self) -> Result<()> {
        for (path, bytes) in &self.streams {
            let file = fs::OpenOptions::new().write(true).open(path);
            let written = file.and_then(|mut file| file.write_all(bytes));
            written.map_err(|error| unwritable(path, &error))?;
        }
        let mut moves: Vec<Move> = Vec::new();
        for (place, output) in self.places {
            match output.kind {
                Kind::Expected => {}
                Kind::File(bytes) => stage_file(&mut moves, place, output.name, bytes)?,
                Kind::Folder(files) => {
                    let whole = Move::new(place, output.name)?;
                    for (path, bytes) in files {
                        whole.write(&path, &bytes)?;
                    }
                    moves.push(whole);
                }
            }
        }
        let lock = stages();
        let outcome = all_or_none(&moves, Move::step);
        drop(lock);
        outcome
    }
}

/// A file joins the folder that is made for it, if there is none yet.
fn stage_file(moves: &mut Vec<Move>, place: PathBuf, name: PathBuf, bytes: Bytes) -> Result<()> {
    if let Some(folder) = moves.iter().find(|made| place.starts_with(&made.place)) {
        let inner = place.strip_prefix(&folder.place).unwrap_or(&place).to_owned();
        return folder.write(&inner, &bytes);
    }
    let missing = place.ancestors().take_while(|path| fs::symlink_metadata(path).is_err()).last();
    let top = missing.unwrap_or(&place).to_owned();
    let inner = place.strip_prefix(&top).unwrap_or(Path::new("")).to_owned();
    let new = Move::new(top, name)?;
    new.write(&inner, &bytes)?;
    moves.push(new);
    Ok(())
}

/// Something new that is to take its place.
struct Move {
    place: PathBuf,
    /// For messages.
    name: PathBuf,
    stage: Stage,
    replaces: bool,
}

impl Move {
    fn new(place: PathBuf, name: PathBuf) -> Result<Self> {
        let stage = Stage::new_in(parent(&place)).map_err(|error| unwritable(&name, &error))?;
        let replaces = fs::symlink_metadata(&place).is_ok();
        Ok(Move { place, name, stage, replaces })
    }

    fn staged(&self) -> PathBuf {
        self.stage.path().join(NEW)
    }

    /// Where a part of it is written now; the thing itself has no path in it.
    fn path(&self, inner: &Path) -> PathBuf {
        if inner.as_os_str().is_empty() { self.staged() } else { self.staged().join(inner) }
    }

    fn write(&self, inner: &Path, bytes: &[u8]) -> Result<()> {
        let _lock = stages();
        let path = self.path(inner);
        between_changes();
        fs::create_dir_all(parent(&path))
            .and_then(|()| {
                between_changes();
                fs::write(&path, bytes)
            })
            .and_then(|()| self.keep_modes(inner))
            .map_err(|error| unwritable(&self.name, &error))
    }

    /// Gives a file and the folders around it the permissions of those that they replace.
    fn keep_modes(&self, inner: &Path) -> io::Result<()> {
        for path in inner.ancestors() {
            let old = self.place.components().chain(path.components()).collect::<PathBuf>();
            match fs::symlink_metadata(old) {
                Ok(old) if !old.is_symlink() => {
                    fs::set_permissions(self.path(path), old.permissions())?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes its place, or leaves it again.
    fn step(&self, undo: bool) -> io::Result<()> {
        between_changes();
        match (self.replaces, undo) {
            (true, _) => exchange(&self.staged(), &self.place),
            (false, false) => fs::rename(self.staged(), &self.place),
            (false, true) => fs::rename(&self.place, self.staged()),
        }
    }
}

/// Every step, or none: one that fails undoes those before it.
fn all_or_none(moves: &[Move], step: impl Fn(&Move, bool) -> io::Result<()>) -> Result<()> {
    for (index, next) in moves.iter().enumerate() {
        if let Err(error) = step(next, false) {
            for done in moves[..index].iter().rev() {
                // The first error is the one to report.
                let _ = step(done, true);
            }
            return Err(unwritable(&next.name, &error));
        }
    }
    Ok(())
}

/// Lets two things that exist take each other's place, in one step where the system can.
fn exchange(new: &Path, old: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE) {
            Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => {}
            outcome => return Ok(outcome?),
        }
    }
    exchange_in_steps(new, old)
}

/// As [`exchange`]; a file is there all the time, a folder is not for a moment.
fn exchange_in_steps(new: &Path, old: &Path) -> io::Result<()> {
    let aside = new.with_file_name(OLD);
    fs::create_dir_all(&aside)?;
    let aside = aside.join(old.file_name().unwrap_or_default());
    fs::hard_link(old, &aside).or_else(|_| fs::rename(old, &aside))?;
    between_changes();
    if let Err(error) = fs::rename(new, old) {
        // A second name of the old file stays where it is when it is renamed to the first.
        let _ = fs::rename(&aside, old).and_then(|()| fs::remove_file(&aside));
        return Err(error);
    }
    between_changes();
    fs::rename(&aside, new)
}

/// The path without links, also when its last parts do not exist.
pub fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(real), ..) => real,
        (Err(_), Some(parent), Some(name)) => real(parent).join(name),
        _ => path,
    }
}

/// True for a device or a pipe.
fn is_stream(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Checks that no folder is in the place of a file.
fn check_file(path: &Path) -> Result<()> {
    match path.is_dir() {
        true => Err(unwritable(path, &io::ErrorKind::IsADirectory.into())),
        false => Ok(()),
    }
}

/// Checks that something can be created beside `path`.
fn check_parent(path: &Path) -> Result<()> {
    writable(parent(&real(path))).map_err(|error| unwritable(path, &error))
}

/// Creates a file without keeping it.
fn writable(folder: &Path) -> io::Result<()> {
    let _lock = stages();
    tempfile::tempfile_in(folder).map(drop)
}

fn overwrites(path: &Path, source: &Path) -> Diagnostic {
    let message =
        format!("it would replace {:?}, which the command reads", source.display().to_string());
    Diagnostic::usage("Q0517", message)
        .in_file(path.display().to_string())
        .help("choose another place for the result")
}

fn unwritable(path: &Path, error: &io::Error) -> Diagnostic {
    let missing = error.kind() == io::ErrorKind::NotFound;
    Diagnostic::system("Q0518", "write it", error)
        .in_file(path.display().to_string())
        .help_if(missing.then(|| "create the folder first".to_owned()))
}

#[cfg(test)]
mod tests;
