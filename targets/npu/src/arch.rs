//! Machine parameters.

use crate::isa;
use quincunx_contract::{Arch, ArchSource, Preset, parse_toml, unknown_preset};
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::Layout;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt;

/// Parameters of an npu machine. Facts: `gemini`, `qiming`, `npu-measured`
/// (`docs/bibliography.md`); the mesh and the energies are ours. A file gives a name and the
/// parameters that differ from `gemini`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default = "unnamed")]
pub struct NpuArch {
    /// Name of the machine; not empty.
    pub name: String,
    /// Bytes of the L2 buffer; a multiple of 1024, at most 8 MiB, the most that region tables of 13
    /// bits express.
    pub l2_bytes: u32,
    /// Address units of the weight buffer WL0.
    pub wl0_units: u32,
    /// Bytes of a WL0 address unit.
    pub wl0_unit: u32,
    /// WL0 addresses are multiples of this many units.
    pub wl0_align: u32,
    /// Words of 8 bytes of the activation buffer AL1.
    pub al1_words: u32,
    /// Results a mini tile may have in the output buffer OL1; 0 for no limit.
    pub ol1_results: u32,
    /// Bits of an L2 address in machine code, sign included, in words of 8 bytes.
    pub l2_address_bits: u32,
    /// Bits of a DRAM address in machine code.
    pub dram_address_bits: u32,
    /// Bits of a WL0 address in machine code.
    pub wl0_address_bits: u32,
    /// Rows of the array, each 8 input channels by columns of 8 output channels.
    pub rows: u32,
    /// Columns of the array.
    pub columns: u32,
    /// Clock in hertz.
    pub hertz: f64,
    /// DRAM bandwidth in bytes per second, of all cores together.
    pub dram_bytes_per_second: f64,
    /// Cycles per byte by which large DRAM operations are slower than the bandwidth says; a fit.
    pub dram_large_cycles_per_byte: f64,
    /// Cycles that large DRAM operations do not take; they are large where that is less than what
    /// the cycles per byte add.
    pub dram_large_offset: f64,
    /// Bytes per cycle from L2 to WL0, of reordering, and of reading a destination that is added.
    pub l2_bytes_per_cycle: u32,
    /// Bytes of a pixel that the vector unit works on in a cycle.
    pub vp_bytes_per_cycle: u32,
    /// Cycles of a configuration instruction.
    pub config_cycles: u32,
    /// Cycles of a control instruction; traces have 30 to 39.
    pub control_cycles: u32,
    /// Cycles before an instruction does its work.
    pub start_cycles: u32,
    /// The same of stores to DRAM.
    pub store_start_cycles: u32,
    /// Cycles of vector work besides those of its pixels.
    pub vp_cycles: u32,
    /// The same where codes become halves.
    pub vp_dequantise_cycles: u32,
    /// The same with two inputs.
    pub vp_two_cycles: u32,
    /// The same of windows of which the largest or smallest is taken.
    pub vp_compare_cycles: u32,
    /// The same of windows that are summed.
    pub vp_sum_cycles: u32,
    /// Positions that must share a weight for the array not to wait for weights.
    pub pe_weight_positions: f64,
    /// Cycles of the array for 8 results of each column to leave it.
    pub pe_output_cycles: f64,
    /// The same where its rows divide input channels, so that their sums are added first.
    pub pe_sum_cycles: f64,
    /// Cycles before the first of these sums.
    pub pe_sum_start_cycles: f64,
    /// Factor on the cycles of a block of output channels.
    pub pe_factor: f64,
    /// Columns of the mesh of cores. Core number i lies in column i mod `cores_x`, row
    /// i / `cores_x`.
    pub cores_x: u32,
    /// Rows of the mesh of cores.
    pub cores_y: u32,
    /// Cycles from a core to the next one in the mesh.
    pub hop_cycles: u32,
    /// Bytes per cycle between cores; transfers do not slow each other.
    pub link_bytes_per_cycle: u32,
    /// Energy of a DRAM byte in pJ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dram_pj_per_byte: Option<f64>,
    /// Energy of an L2 byte in pJ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l2_pj_per_byte: Option<f64>,
    /// Energy of a WL0 byte in pJ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wl0_pj_per_byte: Option<f64>,
    /// Energy of a multiplication with its addition in pJ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_pj: Option<f64>,
}

/// `gemini` without a name.
fn unnamed() -> NpuArch {
    NpuArch {
        name: String::new(),
        l2_bytes: 8 << 20,
        wl0_units: 18_944,
        wl0_unit: 64,
        wl0_align: 32,
        al1_words: 256,
        ol1_results: 0,
        l2_address_bits: 21,
        dram_address_bits: 32,
        wl0_address_bits: 16,
        rows: 8,
        columns: 8,
        hertz: 1e9,
        dram_bytes_per_second: (1u64 << 34) as f64,
        dram_large_cycles_per_byte: 1.1e-5,
        dram_large_offset: 1.5,
        l2_bytes_per_cycle: 32,
        vp_bytes_per_cycle: 32,
        config_cycles: 21,
        control_cycles: 34,
        start_cycles: 20,
        store_start_cycles: 30,
        vp_cycles: 14,
        vp_dequantise_cycles: 28,
        vp_two_cycles: 18,
        vp_compare_cycles: 16,
        vp_sum_cycles: 21,
        pe_weight_positions: 2.5,
        pe_output_cycles: 19.0,
        pe_sum_cycles: 8.0,
        pe_sum_start_cycles: 62.0,
        pe_factor: 1.005,
        cores_x: 1,
        cores_y: 1,
        hop_cycles: 8,
        link_bytes_per_cycle: 32,
        dram_pj_per_byte: None,
        l2_pj_per_byte: None,
        wl0_pj_per_byte: None,
        mac_pj: None,
    }
}

/// The value of a parameter.
#[derive(Clone, Copy)]
enum Value {
    Whole(u32),
    Real(f64),
}

impl Value {
    fn number(self) -> f64 {
        match self {
            Value::Whole(number) => number.into(),
            Value::Real(number) => number,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Whole(number) => write!(f, "{number}"),
            // With a decimal point or an exponent, as files have it.
            Value::Real(number) => write!(f, "{number:?}"),
        }
    }
}

/// Name, value, smallest and largest value of a parameter.
type Parameter = (&'static str, Value, f64, f64);

/// Cores that a mesh may have: so many files a program may have.
const MAX_CORES: usize = 64;

/// The presets.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "gemini",
        summary: "one core of 8 TOPS: 8 MiB L2, 18944 WL0 units, 16 GiB/s DRAM",
    },
    Preset { name: "small", summary: "1 MiB L2 and 2048 WL0 units, else as gemini" },
    Preset { name: "gemini-2x1", summary: "2 cores of gemini beside each other, one DRAM port" },
    Preset { name: "gemini-2x2", summary: "4 cores of gemini in a square, one DRAM port" },
];

impl NpuArch {
    /// A preset.
    ///
    /// # Errors
    /// `Q4001` for an unknown name.
    pub fn preset(name: &str) -> Result<Self> {
        let base = NpuArch { name: name.to_owned(), ..unnamed() };
        match name {
            "gemini" => Ok(base),
            "small" => Ok(NpuArch { l2_bytes: 1 << 20, wl0_units: 2048, ..base }),
            "gemini-2x1" => Ok(NpuArch { cores_x: 2, ..base }),
            "gemini-2x2" => Ok(NpuArch { cores_x: 2, cores_y: 2, ..base }),
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

    /// Every parameter that has a value, in the order of the file.
    fn table(&self) -> Vec<Parameter> {
        let whole = |name, value, low: u32, high: u32| {
            (name, Value::Whole(value), f64::from(low), f64::from(high))
        };
        let real = |name, value, low, high| (name, Value::Real(value), low, high);
        let mut table = vec![
            whole("l2_bytes", self.l2_bytes, 1024, 8 << 20),
            whole("wl0_units", self.wl0_units, 1, 1 << 24),
            whole("wl0_unit", self.wl0_unit, 32, 4096),
            whole("wl0_align", self.wl0_align, 1, 4096),
            whole("al1_words", self.al1_words, 1, 1 << 20),
            whole("ol1_results", self.ol1_results, 0, 1 << 20),
            whole("l2_address_bits", self.l2_address_bits, 4, 24),
            whole("dram_address_bits", self.dram_address_bits, 8, 32),
            whole("wl0_address_bits", self.wl0_address_bits, 4, 24),
            whole("rows", self.rows, 1, 1024),
            whole("columns", self.columns, 1, 1024),
            real("hertz", self.hertz, 1.0, 1e18),
            real("dram_bytes_per_second", self.dram_bytes_per_second, 1.0, 1e18),
            real("dram_large_cycles_per_byte", self.dram_large_cycles_per_byte, 0.0, 1e3),
            real("dram_large_offset", self.dram_large_offset, 0.0, 1e9),
            whole("l2_bytes_per_cycle", self.l2_bytes_per_cycle, 1, 1 << 20),
            whole("vp_bytes_per_cycle", self.vp_bytes_per_cycle, 1, 1 << 20),
        ];
        for (name, cycles) in [
            ("config_cycles", self.config_cycles),
            ("control_cycles", self.control_cycles),
            ("start_cycles", self.start_cycles),
            ("store_start_cycles", self.store_start_cycles),
            ("vp_cycles", self.vp_cycles),
            ("vp_dequantise_cycles", self.vp_dequantise_cycles),
            ("vp_two_cycles", self.vp_two_cycles),
            ("vp_compare_cycles", self.vp_compare_cycles),
            ("vp_sum_cycles", self.vp_sum_cycles),
        ] {
            table.push(whole(name, cycles, 0, 1 << 20));
        }
        table.extend([
            real("pe_weight_positions", self.pe_weight_positions, 0.0, 1e6),
            real("pe_output_cycles", self.pe_output_cycles, 0.0, 1e6),
            real("pe_sum_cycles", self.pe_sum_cycles, 0.0, 1e6),
            real("pe_sum_start_cycles", self.pe_sum_start_cycles, 0.0, 1e6),
            real("pe_factor", self.pe_factor, 1.0, 100.0),
            whole("cores_x", self.cores_x, 1, 64),
            whole("cores_y", self.cores_y, 1, 64),
            whole("hop_cycles", self.hop_cycles, 0, 1 << 20),
            whole("link_bytes_per_cycle", self.link_bytes_per_cycle, 1, 1 << 20),
        ]);
        let given = |(name, pj): (_, Option<f64>)| Some(real(name, pj?, 0.0, 1e9));
        table.extend(self.energies().into_iter().filter_map(given));
        table
    }

    /// Energies in pJ, which a file need not give.
    fn energies(&self) -> [(&'static str, Option<f64>); 4] {
        [
            ("dram_pj_per_byte", self.dram_pj_per_byte),
            ("l2_pj_per_byte", self.l2_pj_per_byte),
            ("wl0_pj_per_byte", self.wl0_pj_per_byte),
            ("mac_pj", self.mac_pj),
        ]
    }

    fn check(&self) -> Result<()> {
        let wrong = |message: String| Err(Diagnostic::invalid("Q4002", message));
        if self.name.is_empty() {
            return wrong("name is missing or empty".to_owned());
        }
        for (name, value, low, high) in self.table() {
            if !(low..=high).contains(&value.number()) {
                return wrong(format!("{name} is {value}, expected {low} to {high}"));
            }
        }
        if !self.l2_bytes.is_multiple_of(1024) || !self.wl0_unit.is_multiple_of(32) {
            return wrong("l2_bytes is a multiple of 1024 and wl0_unit one of 32".to_owned());
        }
        if self.cores() > MAX_CORES {
            return wrong(format!(
                "cores_x times cores_y is {}, expected at most {MAX_CORES}",
                self.cores()
            ));
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

    /// How many cores the mesh has.
    pub fn cores(&self) -> usize {
        self.cores_x as usize * self.cores_y as usize
    }

    /// Hops between two cores: columns and rows that lie between them.
    pub fn hops(&self, from: usize, to: usize) -> u64 {
        let columns = self.cores_x.max(1) as usize;
        let distance = |of: fn(usize, usize) -> usize| of(from, columns).abs_diff(of(to, columns));
        (distance(|core, columns| core % columns) + distance(|core, columns| core / columns)) as u64
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
        self.table().into_iter().map(|(name, value, ..)| (name, value.to_string())).collect()
    }

    fn absent(&self) -> Vec<&'static str> {
        let absent = |(name, pj): (&'static str, Option<f64>)| pj.is_none().then_some(name);
        self.energies().into_iter().filter_map(absent).collect()
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
        let arch =
            NpuArch { dram_pj_per_byte: Some(31.2), mac_pj: Some(0.25), cores_y: 3, ..unnamed() };
        let arch = NpuArch { name: "a \"quoted\" name".to_owned(), ..arch };
        assert_eq!(NpuArch::parse(&arch.to_file()).unwrap(), arch);
    }

    /// What files may hold is what `parameters` shows: no field is missing there.
    #[test]
    fn every_parameter_is_shown() {
        let one = Some(1.0);
        let arch = NpuArch { dram_pj_per_byte: one, l2_pj_per_byte: one, ..unnamed() };
        let arch = NpuArch { wl0_pj_per_byte: one, mac_pj: one, name: "a".to_owned(), ..arch };
        let json = serde_json::to_value(&arch).unwrap();
        let fields: Vec<&String> = json.as_object().unwrap().keys().collect();
        let mut shown: Vec<&str> = arch.parameters().into_iter().map(|(name, _)| name).collect();
        shown.push("name");
        assert!(fields.iter().all(|field| shown.contains(&field.as_str())), "{fields:?}");
        assert_eq!(fields.len(), shown.len());
    }

    /// A file with a name alone is `gemini`.
    #[test]
    fn what_files_leave_out_is_as_in_gemini() {
        assert_eq!(
            NpuArch::parse("name = \"gemini\"").unwrap(),
            NpuArch::preset("gemini").unwrap()
        );
    }

    #[test]
    fn cores_lie_in_rows() {
        let arch = NpuArch::preset("gemini-2x2").unwrap();
        assert_eq!(arch.cores(), 4);
        let hops: Vec<u64> = (0..4).map(|core| arch.hops(1, core)).collect();
        assert_eq!(hops, [1, 0, 2, 1]);
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
            "l2_bytes = 1024",
            "name = \"\"",
            "name = \"a\"\npe_factor = nan",
            "name = \"a\"\npe_output_cycles = -1.0",
            "name = \"a\"\nlink_bytes_per_cycle = 0",
            "name = \"a\"\nmac_pj = -0.5",
            "name = \"a\"\nconfig_cycles = 1048577",
            "name = \"a\"\ncores_x = 16\ncores_y = 5",
        ] {
            assert_eq!(NpuArch::parse(text).unwrap_err().code(), "Q4002", "{text}");
        }
        // The three addresses of vp_self leave no bit to spare.
        let wide = "name = \"a\"\nl2_address_bits = 22";
        assert_eq!(NpuArch::parse(wide).unwrap_err().code(), "Q2122");
        assert!(NpuArch::preset("gemni").unwrap_err().help_text().is_some());
    }
}
