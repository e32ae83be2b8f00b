//! Machine parameters.

use crate::isa;
use quincunx_contract::{Arch, ArchSource, Preset, parse_toml, unknown_preset};
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::Layout;
use serde::{Deserialize, Serialize};
use std::any::Any;

/// Parameters of an npu machine. Facts: `gemini`, `qiming`, `npu-measured`
/// (`docs/bibliography.md`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NpuArch {
    /// Name of the machine.
    pub name: String,
    /// Bytes of the L2 buffer; a multiple of 1024, at most 8 MiB, the most that region tables of 13
    /// bits express.
    #[serde(default = "eight_mib")]
    pub l2_bytes: u32,
    /// Address units of the weight buffer WL0.
    #[serde(default = "wl0_units")]
    pub wl0_units: u32,
    /// Bytes of a WL0 address unit.
    #[serde(default = "wl0_unit")]
    pub wl0_unit: u32,
    /// WL0 addresses are multiples of this many units.
    #[serde(default = "wl0_align")]
    pub wl0_align: u32,
    /// Words of 8 bytes of the activation buffer AL1.
    #[serde(default = "al1_words")]
    pub al1_words: u32,
    /// Results a mini tile may have in the output buffer OL1; 0 for no limit.
    #[serde(default)]
    pub ol1_results: u32,
    /// Bits of an L2 address in machine code, sign included, in words of 8 bytes.
    #[serde(default = "l2_address_bits")]
    pub l2_address_bits: u32,
    /// Bits of a DRAM address in machine code.
    #[serde(default = "dram_address_bits")]
    pub dram_address_bits: u32,
    /// Bits of a WL0 address in machine code.
    #[serde(default = "wl0_address_bits")]
    pub wl0_address_bits: u32,
    /// Rows of the array, each 8 input channels by columns of 8 output channels.
    #[serde(default = "eight")]
    pub rows: u32,
    /// Columns of the array.
    #[serde(default = "eight")]
    pub columns: u32,
    /// Clock in hertz.
    #[serde(default = "hertz")]
    pub hertz: f64,
    /// DRAM bandwidth in bytes per second.
    #[serde(default = "dram_rate")]
    pub dram_bytes_per_second: f64,
    /// Bytes per cycle from L2 to WL0, and of vector and reordering work.
    #[serde(default = "l2_rate")]
    pub l2_bytes_per_cycle: u32,
}

fn eight_mib() -> u32 {
    8 << 20
}
fn wl0_units() -> u32 {
    18_944
}
fn wl0_unit() -> u32 {
    64
}
fn wl0_align() -> u32 {
    32
}
fn al1_words() -> u32 {
    256
}
fn l2_address_bits() -> u32 {
    21
}
fn dram_address_bits() -> u32 {
    32
}
fn wl0_address_bits() -> u32 {
    16
}
fn eight() -> u32 {
    8
}
fn hertz() -> f64 {
    1e9
}
fn dram_rate() -> f64 {
    (1u64 << 34) as f64
}
fn l2_rate() -> u32 {
    32
}

/// The presets.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "gemini",
        summary: "one core of 8 TOPS: 8 MiB L2, 18944 WL0 units, 16 GiB/s DRAM",
    },
    Preset { name: "small", summary: "1 MiB L2 and 2048 WL0 units, else as gemini" },
];

impl NpuArch {
    /// A preset.
    ///
    /// # Errors
    /// `Q4001` for an unknown name.
    pub fn preset(name: &str) -> Result<Self> {
        let base = NpuArch {
            name: name.to_owned(),
            l2_bytes: eight_mib(),
            wl0_units: wl0_units(),
            wl0_unit: wl0_unit(),
            wl0_align: wl0_align(),
            al1_words: al1_words(),
            ol1_results: 0,
            l2_address_bits: l2_address_bits(),
            dram_address_bits: dram_address_bits(),
            wl0_address_bits: wl0_address_bits(),
            rows: 8,
            columns: 8,
            hertz: hertz(),
            dram_bytes_per_second: dram_rate(),
            l2_bytes_per_cycle: l2_rate(),
        };
        match name {
            "gemini" => Ok(base),
            "small" => Ok(NpuArch { l2_bytes: 1 << 20, wl0_units: 2048, ..base }),
            _ => Err(unknown_preset("Q4001", "npu", PRESETS, name)),
        }
    }

    /// A preset or the TOML text of an architecture file.
    ///
    /// # Errors
    /// `Q4001` for an unknown preset, `Q4002` for a malformed file.
    pub fn from_source(source: &ArchSource) -> Result<Self> {
        source.load(PRESETS, Self::preset, Self::parse)
    }

    /// Reads an architecture file.
    ///
    /// # Errors
    /// `Q4002`.
    pub fn parse(text: &str) -> Result<Self> {
        let arch: NpuArch = parse_toml("Q4002", text)?;
        arch.check()?;
        Ok(arch)
    }

    fn check(&self) -> Result<()> {
        let limits = [
            ("l2_bytes", self.l2_bytes, 1024, 8 << 20),
            ("wl0_units", self.wl0_units, 1, 1 << 24),
            ("wl0_unit", self.wl0_unit, 32, 4096),
            ("wl0_align", self.wl0_align, 1, 4096),
            ("al1_words", self.al1_words, 1, 1 << 20),
            ("ol1_results", self.ol1_results, 0, 1 << 20),
            ("l2_address_bits", self.l2_address_bits, 4, 24),
            ("dram_address_bits", self.dram_address_bits, 8, 32),
            ("wl0_address_bits", self.wl0_address_bits, 4, 24),
            ("rows", self.rows, 1, 1024),
            ("columns", self.columns, 1, 1024),
            ("l2_bytes_per_cycle", self.l2_bytes_per_cycle, 1, 1 << 20),
        ];
        for (name, value, low, high) in limits {
            if !(low..=high).contains(&value) {
                let message = format!("{name} is {value}, expected {low} to {high}");
                return Err(Diagnostic::invalid("Q4002", message));
            }
        }
        if !self.l2_bytes.is_multiple_of(1024) || !self.wl0_unit.is_multiple_of(32) {
            let message = "l2_bytes is a multiple of 1024 and wl0_unit one of 32";
            return Err(Diagnostic::invalid("Q4002", message));
        }
        for (name, value) in
            [("hertz", self.hertz), ("dram_bytes_per_second", self.dram_bytes_per_second)]
        {
            if !(1.0..=1e18).contains(&value) {
                let message = format!("{name} is {value}, expected 1 to 1e18");
                return Err(Diagnostic::invalid("Q4002", message));
            }
        }
        self.layout().map(drop)
    }

    /// Where the fields of the machine code lie on a machine.
    ///
    /// # Errors
    /// `Q2122` when the addresses of the architecture are too wide for the instruction word.
    pub fn layout(&self) -> Result<Layout> {
        Layout::resolve(&isa::TABLE, &|name| match name {
            "l2_address_bits" => Some(self.l2_address_bits),
            "dram_address_bits" => Some(self.dram_address_bits),
            "wl0_address_bits" => Some(self.wl0_address_bits),
            _ => None,
        })
    }

    /// Cycles per byte of DRAM traffic.
    pub fn cycles_per_dram_byte(&self) -> f64 {
        self.hertz / self.dram_bytes_per_second
    }

    /// Bytes of the weight buffer.
    pub fn wl0_bytes(&self) -> u64 {
        u64::from(self.wl0_units) * u64::from(self.wl0_unit)
    }
}

impl Arch for NpuArch {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![
            ("l2_bytes", self.l2_bytes.to_string()),
            ("wl0_units", self.wl0_units.to_string()),
            ("wl0_unit", self.wl0_unit.to_string()),
            ("wl0_align", self.wl0_align.to_string()),
            ("al1_words", self.al1_words.to_string()),
            ("ol1_results", self.ol1_results.to_string()),
            ("l2_address_bits", self.l2_address_bits.to_string()),
            ("dram_address_bits", self.dram_address_bits.to_string()),
            ("wl0_address_bits", self.wl0_address_bits.to_string()),
            ("rows", self.rows.to_string()),
            ("columns", self.columns.to_string()),
            ("hertz", format!("{:?}", self.hertz)),
            ("dram_bytes_per_second", format!("{:?}", self.dram_bytes_per_second)),
            ("l2_bytes_per_cycle", self.l2_bytes_per_cycle.to_string()),
        ]
    }

    fn to_file(&self) -> String {
        let name = format!("name = {:?}\n", self.name);
        let line = |(key, value): &(&str, String)| format!("{key} = {value}\n");
        name + &self.parameters().iter().map(line).collect::<String>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_round_trip() {
        for preset in PRESETS {
            let arch = NpuArch::preset(preset.name).unwrap();
            assert_eq!(NpuArch::parse(&arch.to_file()).unwrap(), arch);
        }
    }

    #[test]
    fn bad_files_are_refused() {
        for text in [
            "",
            "name = 3",
            "name = \"a\"\nl2_bytes = 1000",
            "name = \"a\"\nl2_bytse = 1024",
            "name = \"a\"\nhertz = 0.0",
            "name = \"a\"\nwl0_unit = 0",
        ] {
            assert_eq!(NpuArch::parse(text).unwrap_err().code(), "Q4002", "{text}");
        }
        // The three addresses of vp_self leave no bit to spare.
        let wide = "name = \"a\"\nl2_address_bits = 22";
        assert_eq!(NpuArch::parse(wide).unwrap_err().code(), "Q2122");
        assert!(NpuArch::preset("gemni").unwrap_err().help_text().is_some());
    }
}
