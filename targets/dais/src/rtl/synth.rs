//! Yosys on a design: what `synth_xilinx` makes of it.

use super::print::Top;
use super::{Design, Language, module_name};
use crate::program::Pipeline;
use quincunx_contract::outputs::Stage;
use quincunx_diag::{Diagnostic, Result};
use quincunx_report::{Column, Table};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What Yosys counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synthesis {
    /// LUTs of all sizes.
    pub luts: u64,
    /// Carry blocks.
    pub carries: u64,
    /// Flip-flops.
    pub flip_flops: u64,
    /// Shift registers that replace chains of flip-flops.
    pub shift_registers: u64,
    /// Multiplier blocks.
    pub multipliers: u64,
    /// All other cells but buffers, by name.
    pub others: Vec<(String, u64)>,
    /// What Yosys calls itself.
    pub version: String,
}

impl Synthesis {
    /// The counts as a table of one row.
    pub(crate) fn table(&self) -> Table {
        let numbers = ["LUT", "CARRY4", "FF", "SRL", "DSP"].map(Column::number);
        let mut columns = vec![Column::text("tool")];
        columns.extend(numbers);
        columns.push(Column::text("others"));
        let mut table = Table::new("logic_synthesis", columns);
        let others = self.others.iter().map(|(name, count)| format!("{name} {count}"));
        table.push(vec![
            self.version.as_str().into(),
            self.luts.into(),
            self.carries.into(),
            self.flip_flops.into(),
            self.shift_registers.into(),
            self.multipliers.into(),
            others.collect::<Vec<_>>().join(", ").into(),
        ]);
        table
    }
}

/// Runs `synth_xilinx` of the Yosys on the path, or of `$QUINCUNX_YOSYS`.
///
/// # Errors
/// As [`Design::new`]; `Q1186` without Yosys, `Q1187` when it fails.
pub fn synthesise(pipeline: &Pipeline, registers: u32) -> Result<Synthesis> {
    let name = module_name("logic_of_program");
    let design = Design::new(pipeline)?;
    let top = Top { name: &name, design: &design, pipeline, registers, inputs: &[], scalings: &[] };
    let text = super::print::print(&top, Language::Verilog);
    let folder = Stage::new_in(&std::env::temp_dir()).map_err(|error| unwritable(&error))?;
    let file = folder.path().join("design.v");
    std::fs::write(&file, text).map_err(|error| unwritable(&error))?;
    let version = run(&["-V"], folder.path())?;
    // The text that `stat` prints is another one in later versions; its JSON is the same.
    let script = format!(
        "read_verilog design.v; synth_xilinx -flatten -noiopad -noclkbuf -top {name}; \
         tee -q -o cells.json stat -json"
    );
    run(&["-p", &script], folder.path())?;
    let cells = std::fs::read_to_string(folder.path().join("cells.json"));
    let mut synthesis = parse(&cells.unwrap_or_default())?;
    synthesis.version = version.lines().next().unwrap_or_default().trim().to_owned();
    Ok(synthesis)
}

fn unwritable(error: &std::io::Error) -> Diagnostic {
    Diagnostic::system("Q1187", "write the design for Yosys", error)
}

fn run(arguments: &[&str], folder: &Path) -> Result<String> {
    let program = std::env::var("QUINCUNX_YOSYS").unwrap_or_else(|_| "yosys".to_owned());
    let output = Command::new(&program).args(arguments).current_dir(folder).output();
    let output = output.map_err(|error| {
        Diagnostic::unsupported("Q1186", format!("{program:?} cannot be started: {error}"))
            .help("install Yosys (apt-get install yosys), or name it in QUINCUNX_YOSYS")
    })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = errors.lines().chain(text.lines()).rfind(|line| line.contains("ERROR"));
    let message = format!("Yosys fails: {}", last.unwrap_or("no message").trim());
    Err(Diagnostic::unsupported("Q1187", message))
}

/// Sums up the list of cells of the design.
fn parse(statistics: &str) -> Result<Synthesis> {
    let found: Option<Value> = serde_json::from_str(statistics).ok();
    let cells = found.as_ref().and_then(|all| all["design"]["num_cells_by_type"].as_object());
    let cells = cells.ok_or_else(|| Diagnostic::unsupported("Q1187", "Yosys lists no cells"))?;
    let mut synthesis = Synthesis::default();
    for (name, count) in cells {
        let count = count.as_u64().unwrap_or(0);
        *match name.as_str() {
            "LUT1" | "LUT2" | "LUT3" | "LUT4" | "LUT5" | "LUT6" | "INV" => &mut synthesis.luts,
            "CARRY4" => &mut synthesis.carries,
            "FDRE" | "FDSE" | "FDCE" | "FDPE" => &mut synthesis.flip_flops,
            "SRL16E" | "SRLC32E" => &mut synthesis.shift_registers,
            "DSP48E1" => &mut synthesis.multipliers,
            _ => {
                synthesis.others.push((name.clone(), count));
                continue;
            }
        } += count;
    }
    Ok(synthesis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cells_are_summed_up() {
        // As versions 0.23 and 0.70 write it.
        let text = r#"{
   "creator": "Yosys 0.70 (git sha1 28ba3cb92, Release)",
   "modules": { "\\m": { "num_cells": 9, "num_cells_by_type": { "CARRY4": 9 } } },
      "design": {
         "num_cells":         12,
         "num_cells_by_type": {
            "CARRY4": 3, "FDRE": 2, "INV": 1, "LUT2": 4, "LUT6": 1, "MUXF7": 1
         }
      }
}"#;
        let found = parse(text).unwrap();
        assert_eq!((found.luts, found.carries, found.flip_flops), (6, 3, 2));
        assert_eq!(found.others, [("MUXF7".to_owned(), 1)]);
        assert_eq!(parse("nothing").unwrap_err().code(), "Q1187");
    }
}
