//! Reports of Vivado and Quartus: what a synthesis tool says that a design takes and how fast it
//! is, beside our estimate of the program.

mod parse;

pub use parse::{Figures, MAX_LENGTH, Tool, VendorReport, is_report, parse};

use crate::{Executable, Outcome};
use quincunx_contract::{Program, Verb};
use quincunx_diag::{Diagnostic, Result};
use quincunx_report::{Cell, Column, Report, Table};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Folders within each other that are looked into: tools write into folders of a project.
const MAX_DEPTH: usize = 3;

/// Most files and folders that are looked at.
const MAX_ENTRIES: usize = 1 << 14;

/// The paths of all reports in a folder and the folders in it, in order.
///
/// # Errors
/// `Q0602` when a folder cannot be read, `Q0664` when there is too much in it.
pub fn reports_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![(folder.to_owned(), 1)];
    let mut seen = 0;
    while let Some((folder, depth)) = waiting.pop() {
        let name = folder.display().to_string();
        let fail = |error| Diagnostic::system("Q0602", "read it", &error).in_file(&name);
        for entry in fs::read_dir(&folder).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            seen += 1;
            if seen > MAX_ENTRIES {
                let message = format!("the folder holds more than {MAX_ENTRIES} files");
                let help = "name the folder in which the reports lie";
                return Err(Diagnostic::unsupported("Q0664", message).in_file(&name).help(help));
            }
            // Links are not followed: they may lead in a circle.
            let kind = entry.file_type().map_err(fail)?;
            if kind.is_dir() && depth < MAX_DEPTH {
                waiting.push((entry.path(), depth + 1));
            } else if kind.is_file() && is_report(&entry.file_name().to_string_lossy()) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a report.
///
/// # Errors
/// `Q0602` when it cannot be read, `Q0664` when it is too long or not what its name says.
pub fn read(path: &Path) -> Result<VendorReport> {
    let name = path.display().to_string();
    let fail = |error| Diagnostic::system("Q0602", "read it", &error).in_file(&name);
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(fail)?;
    file.take(MAX_LENGTH as u64 + 1).read_to_end(&mut bytes).map_err(fail)?;
    parse(&name, &bytes)
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The file of the report, or what our estimate is of.
    pub name: String,
    /// Who says so.
    pub tool: &'static str,
    /// The design, if the report names it.
    pub design: Option<String>,
    /// The numbers.
    pub figures: Figures,
    /// Clock cycles, one for every stage, which only we know.
    pub latency: Option<u64>,
}

impl Row {
    /// The line of a report, whose file lies below a folder.
    pub fn of_report(report: VendorReport, folder: &Path) -> Row {
        let path = Path::new(&report.file);
        let name = path.strip_prefix(folder).unwrap_or(path).display().to_string();
        let VendorReport { tool, design, figures, .. } = report;
        Row { name, tool: tool.name(), design, figures, latency: None }
    }

    fn cells(&self) -> Vec<Cell> {
        let Figures { lut, alm, ff, dsp, bram, fmax, wns } = self.figures;
        let number = |value: Option<f64>| value.map_or(Cell::Empty, Cell::Brief);
        let mut cells = vec![self.name.as_str().into(), self.tool.into()];
        cells.push(self.design.as_deref().map_or(Cell::Empty, Into::into));
        cells.extend([lut, alm, ff, dsp, bram, fmax, wns].map(number));
        cells.push(self.latency.map_or(Cell::Empty, Cell::Count));
        cells
    }
}

/// Our estimate of every program.
///
/// # Errors
/// `Q0648` for a machine whose programs are not logic; a program that cannot be estimated.
pub fn estimates(executable: &Executable, name: &str) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for (stage, program) in executable.programs() {
        let figures = estimate(program)?;
        let one = executable.programs().nth(1).is_none();
        let name = if one { name.to_owned() } else { format!("{name}, {}", stage.name) };
        let latency = program.stats().cycles;
        rows.push(Row { name, tool: "Quincunx, estimated", design: None, figures, latency });
    }
    Ok(rows)
}

fn estimate(program: &dyn Program) -> Result<Figures> {
    let tables = program.shown_by(Verb::Time)?;
    let table = tables.into_iter().find(|table| table.key() == "logic_estimate");
    let table = table.ok_or_else(|| {
        let message = "programs of this machine are not logic, so there is no estimate";
        Diagnostic::unsupported("Q0648", message).help("give the reports alone")
    })?;
    // Names and numbers as other programs read them.
    let json = serde_json::to_value(Report::new().table(table)).unwrap_or_default();
    let figure = |key: &str| json["logic_estimate"][0][key].as_f64();
    Ok(Figures { lut: figure("LUT"), ff: figure("FF"), dsp: figure("DSP"), ..Figures::default() })
}

/// All lines as a table.
pub fn table(rows: &[Row]) -> Report {
    let numbers = ["LUT", "ALM", "FF", "DSP", "BRAM"].map(Column::number);
    let mut columns = vec![Column::text("report"), Column::text("tool"), Column::text("design")];
    columns.extend(numbers);
    columns.push(Column::number("fmax").titled("Fmax [MHz]").unit("MHz"));
    columns.push(Column::number("wns").titled("WNS [ns]").unit("ns"));
    columns.push(Column::number("latency").unit("cycles"));
    let mut table = Table::new("rows", columns);
    rows.iter().for_each(|row| table.push(row.cells()));
    Report::new().table(table)
}
