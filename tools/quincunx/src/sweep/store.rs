//! Findings in a file, a row for each: SQLite, which others read too
//! (<https://www.sqlite.org/fileformat.html>).

use super::Sweep;
use super::finding::{Finding, Misfit, problem, status};
use quincunx_diag::{Diagnostic, Result};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a process waits for others that write.
const PATIENCE: Duration = Duration::from_secs(60);

/// A row has the figures that one looks for, and all of the finding. `point` is the names and values of
/// what varied, as JSON.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS points (
    key TEXT PRIMARY KEY, version TEXT NOT NULL, model TEXT NOT NULL, target TEXT NOT NULL,
    machine TEXT NOT NULL, point TEXT NOT NULL, status TEXT NOT NULL, code TEXT, problem TEXT,
    cycles INTEGER, microseconds REAL, accuracy REAL, rms_difference REAL, device_mac_share REAL,
    instructions INTEGER, bytes INTEGER, finding TEXT NOT NULL)";

/// Findings of any number of sweeps, by their keys.
#[derive(Debug)]
pub struct Store {
    connection: Mutex<Connection>,
    name: String,
}

impl Store {
    /// Opens a file, or makes a new one. Several processes may have it open.
    ///
    /// # Errors
    /// `Q0661` when it cannot be opened or is no store.
    pub fn open(path: &Path) -> Result<Store> {
        let name = path.display().to_string();
        refuse_others(path).map_err(|problem| problem.in_file(&name))?;
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(path)?;
            connection.busy_timeout(PATIENCE)?;
            connection.execute(TABLE, [])?;
            // Fails for a table with other columns.
            connection.prepare("SELECT key, finding, code, bytes FROM points")?;
            Ok(connection)
        };
        let connection = open().map_err(|error| refused(&error).in_file(&name))?;
        Ok(Store { connection: Mutex::new(connection), name })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known under a key.
    ///
    /// # Errors
    /// `Q0661` when the file cannot be read, or holds something else.
    pub fn get(&self, key: &str) -> Result<Option<Finding>> {
        let query = "SELECT finding FROM points WHERE key = ?1";
        let text: Option<String> = self
            .connection()
            .query_row(query, [key], |row| row.get(0))
            .optional()
            .map_err(|error| self.failed(&error))?;
        let read = |text: String| {
            serde_json::from_str(&text).map_err(|error| {
                let message = format!("the finding {key} is malformed: {error}");
                Diagnostic::invalid("Q0661", message).in_file(&self.name)
            })
        };
        text.map(read).transpose()
    }

    /// Keeps what was found; a failure says nothing about the combination, and is not kept.
    ///
    /// # Errors
    /// `Q0661` when the file cannot be written.
    pub fn put(
        &self,
        key: &str,
        point: &Value,
        sweep: &Sweep<'_>,
        finding: &Finding,
    ) -> Result<()> {
        if finding.result.as_ref().is_err_and(Misfit::is_failure) {
            return Ok(());
        }
        let text = serde_json::to_string(finding);
        let text = text.map_err(|error| Diagnostic::bug(error.to_string()))?;
        let figures = finding.result.as_ref().ok();
        let misfit = finding.result.as_ref().err();
        let stats = figures.map(|figures| &figures.stats);
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let values = params![
            key,
            crate::VERSION,
            sweep.model.name,
            sweep.setup.name(),
            sweep.setup.arch.name(),
            point.to_string(),
            status(&finding.result),
            misfit.map(|misfit| misfit.code.as_str()),
            problem(&finding.result),
            stats.and_then(|stats| stats.cycles).map(signed),
            stats.and_then(quincunx_contract::Stats::seconds).map(|seconds| seconds * 1e6),
            figures.and_then(super::Figures::accuracy),
            figures.and_then(|figures| figures.distance).map(|distance| distance.rms()),
            figures.map(|figures| figures.share),
            stats.map(|stats| signed(stats.instructions)),
            stats.map(|stats| signed(stats.bytes)),
            text,
        ];
        let insert = "INSERT OR REPLACE INTO points VALUES \
            (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
        let written = self.connection().execute(insert, values).map(drop);
        written.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &rusqlite::Error) -> Diagnostic {
        refused(error).in_file(&self.name)
    }
}

/// Refuses a file that holds something else: the library takes very short ones for new databases.
fn refuse_others(path: &Path) -> Result<()> {
    let mut start = [0; HEAD.len()];
    let read = File::open(path).and_then(|file| {
        let length = file.metadata()?.len();
        let found = file.take(HEAD.len() as u64).read(&mut start)?;
        Ok(length == 0 || start[..found] == *HEAD)
    });
    match read {
        Ok(false) => Err(refused(&"it is no database")),
        // What the system refuses, the library tells.
        _ => Ok(()),
    }
}

/// What a database begins with.
const HEAD: &[u8; 16] = b"SQLite format 3\0";

fn refused(error: &dyn Display) -> Diagnostic {
    let message = format!("it cannot be used as a store of findings: {error}");
    Diagnostic::invalid("Q0661", message).help("name a new file, or one that a sweep has written")
}
