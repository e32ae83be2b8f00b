//! Machine parameters and their file, `.tarch` (`tensil` in `docs/bibliography.md`).

mod data_type;
pub(crate) mod json;
mod layout;
mod presets;

pub use data_type::{DataType, FixedPoint, fixed_formats};
pub use layout::{HEADER_BITS, Widths};
pub use presets::PRESETS;

use json::{json_error, number, unknown_key, unknown_keys};
use quincunx_contract::{Arch, ArchSource, unknown_preset};
use quincunx_diag::{Diagnostic, Result};
use serde::{Deserialize, Deserializer, Serialize};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Display;

/// Deepest on-chip memory in vectors; `tensil-doc` 3.1 allows 2^16.
const MAX_ON_CHIP: u64 = 1 << 16;
/// Deepest DRAM bank in vectors; `tensil-doc` 3.1 allows 2^32.
const MAX_DRAM: u64 = 1 << 32;
/// Most scalars of all lookup tables together (ours): 64 MiB.
const MAX_TABLE_SCALARS: u64 = 1 << 24;
/// Longest instruction in bytes.
const MAX_INSTRUCTION: u32 = 32;

/// Numbers of a file with their smallest and largest values, in the order of [`TcuArch`].
const RANGES: [(&str, u64, u64); 15] = [
    ("array_size", 2, 256),
    ("dram0_depth", 1, MAX_DRAM),
    ("dram1_depth", 1, MAX_DRAM),
    ("local_depth", 1, MAX_ON_CHIP),
    ("accumulator_depth", 1, MAX_ON_CHIP),
    ("simd_registers_depth", 0, 16),
    ("stride0_depth", 1, 32),
    ("stride1_depth", 1, 32),
    ("number_of_threads", 1, 2),
    ("thread_queue_depth", 0, 1 << 16),
    ("instruction_bytes", 1, MAX_INSTRUCTION as u64),
    ("sample_block_size", 1, 1 << 20),
    ("lookup_tables", 1, 16),
    ("lookup_table_depth", 1, MAX_ON_CHIP),
    ("clock_mhz", 1, 100_000),
];

/// Parameters of one machine. Depths count vectors of `array_size` scalars.
///
/// Invariants, checked by [`TcuArch::validate`]: every number is in the range its field names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcuArch {
    /// Name: that of the preset or the file; files do not hold it.
    #[serde(skip)]
    pub name: String,
    /// Format of every scalar.
    pub data_type: DataType,
    /// Rows and columns of the array, and scalars of a vector; 2 to 256.
    #[serde(deserialize_with = "number")]
    pub array_size: u32,
    /// Vectors of DRAM bank 0, which holds variables; 1 to 2^32.
    #[serde(deserialize_with = "number")]
    pub dram0_depth: u64,
    /// Vectors of DRAM bank 1, which holds constants; 1 to 2^32.
    #[serde(deserialize_with = "number")]
    pub dram1_depth: u64,
    /// Vectors of local memory; 1 to 2^16.
    #[serde(deserialize_with = "number")]
    pub local_depth: u64,
    /// Accumulators, one vector each; 1 to 2^16.
    #[serde(deserialize_with = "number")]
    pub accumulator_depth: u64,
    /// Registers of each ALU; 0 to 16.
    #[serde(deserialize_with = "number")]
    pub simd_registers_depth: u32,
    /// Strides that operand 0 can encode, 1, 2, 4 and so on; 1 to 32.
    #[serde(deserialize_with = "number")]
    pub stride0_depth: u32,
    /// Strides that operand 1 can encode; 1 to 32.
    #[serde(deserialize_with = "number")]
    pub stride1_depth: u32,
    /// Instruction threads, 1 or 2; 1 where an older file does not say.
    #[serde(default = "one_thread", deserialize_with = "number")]
    pub number_of_threads: u32,
    /// Instructions that wait in each thread's queue; 8 where an older file does not say. Used by
    /// the timing models only.
    #[serde(default = "eight_deep", deserialize_with = "number")]
    pub thread_queue_depth: u32,
    /// Bytes of an instruction, where it is longer than its operands need.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_number")]
    pub instruction_bytes: Option<u32>,
    /// Performance samples in a block.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_number")]
    pub sample_block_size: Option<u32>,
    /// Lookup tables besides the index of keys; the machine has LoadLUT and Lookup when it is there.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_number")]
    pub lookup_tables: Option<u32>,
    /// Entries of the index and of each lookup table.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_number")]
    pub lookup_table_depth: Option<u32>,
    /// Clock in MHz, for times in seconds (ours).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_number")]
    pub clock_mhz: Option<u32>,
    /// Board the machine is built for (ours).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board: Option<String>,
    /// Keys of its file that mean nothing here; upstream ignores them as well. Not written.
    #[serde(skip)]
    pub unknown: Vec<String>,
}

fn one_thread() -> u32 {
    1
}

fn eight_deep() -> u32 {
    8
}

fn some_number<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<u32>, D::Error> {
    number(deserializer).map(Some)
}

impl TcuArch {
    /// A preset.
    ///
    /// # Errors
    /// `Q3001` for an unknown name.
    pub fn preset(name: &str) -> Result<Self> {
        presets::preset(name).ok_or_else(|| unknown_preset("Q3001", "tcu", PRESETS, name))
    }

    /// A preset or the text of an architecture file.
    ///
    /// # Errors
    /// `Q3001` for an unknown preset; those of [`TcuArch::parse`].
    pub fn from_source(source: &ArchSource) -> Result<Self> {
        let mut arch = source.load(PRESETS, Self::preset, Self::parse)?;
        if let ArchSource::Text { name, .. } = source {
            stem(name).clone_into(&mut arch.name);
        }
        Ok(arch)
    }

    /// Reads an architecture file.
    ///
    /// # Errors
    /// `Q3002` for text that is not such a file, those of [`TcuArch::validate`].
    pub fn parse(text: &str) -> Result<Self> {
        let mut arch: TcuArch = serde_json::from_str(text).map_err(|error| {
            no_number(text).unwrap_or_else(|| json_error("Q3002", text, &error))
        })?;
        arch.validate()?;
        arch.unknown = unknown_keys(text, &arch);
        Ok(arch)
    }

    /// A warning (`Q3004`) for every key of its file that means nothing here.
    pub fn warnings(&self) -> Vec<Diagnostic> {
        self.unknown.iter().map(|key| unknown_key(key)).collect()
    }

    /// Checks every number.
    ///
    /// # Errors
    /// `Q3002` naming the number, `Q3003` for instructions that are too short.
    pub fn validate(&self) -> Result<()> {
        let values = [
            self.array_size.into(),
            self.dram0_depth,
            self.dram1_depth,
            self.local_depth,
            self.accumulator_depth,
            self.simd_registers_depth.into(),
            self.stride0_depth.into(),
            self.stride1_depth.into(),
            self.number_of_threads.into(),
            self.thread_queue_depth.into(),
            optional(self.instruction_bytes),
            optional(self.sample_block_size),
            optional(self.lookup_tables),
            optional(self.lookup_table_depth),
            optional(self.clock_mhz),
        ];
        let more = [
            (("lookup_table_depth", 1, self.local_depth), optional(self.lookup_table_depth)),
            (("scalars of all lookup tables", 0, MAX_TABLE_SCALARS), self.table_scalars()),
        ];
        for ((name, low, high), value) in RANGES.into_iter().zip(values).chain(more) {
            if !(low..=high).contains(&value) {
                return Err(out_of_range(name, value, low, high));
            }
        }
        if self.lookup_tables.is_some() != self.lookup_table_depth.is_some() {
            let message = "lookup_tables and lookup_table_depth belong together";
            return Err(Diagnostic::invalid("Q3002", message));
        }
        layout::check_bytes(self)
    }

    /// Scalars of the index and the lookup tables together.
    fn table_scalars(&self) -> u64 {
        let entries = self.lookup_table_depth.map_or(0, u64::from);
        let tables = self.lookup_tables.map_or(0, |tables| u64::from(tables) + 1);
        entries.saturating_mul(tables).saturating_mul(self.array_size.into())
    }

    /// Scalars of a vector.
    pub fn lanes(&self) -> usize {
        self.array_size as usize
    }

    /// Bytes of a vector in DRAM and in files.
    pub fn vector_bytes(&self) -> usize {
        self.lanes().saturating_mul(self.data_type.bytes())
    }

    /// Whole vectors that so many scalars fill.
    pub fn vectors(&self, scalars: usize) -> u64 {
        scalars.checked_div(self.lanes()).unwrap_or(0) as u64
    }
}

fn out_of_range(name: &str, value: impl Display, low: u64, high: u64) -> Diagnostic {
    Diagnostic::invalid("Q3002", format!("{name} is {value}, expected {low} to {high}"))
}

/// The first number of a file that is none, or too big for any of them.
fn no_number(text: &str) -> Option<Diagnostic> {
    let given: BTreeMap<String, serde_json::Value> = serde_json::from_str(text).ok()?;
    RANGES.into_iter().find_map(|(name, low, high)| {
        let value = given.get(name).filter(|value| number::<u32, _>(*value).is_err())?;
        let is_short = !value.is_object() && !value.is_array() && value.to_string().len() < 40;
        let in_range = number::<u64, _>(value).is_ok_and(|value| (low..=high).contains(&value));
        (is_short && !in_range).then(|| out_of_range(name, value, low, high))
    })
}

/// An absent number is in every range.
fn optional(number: Option<u32>) -> u64 {
    number.map_or(1, u64::from)
}

/// A file name without folders and extension.
fn stem(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.strip_suffix(".tarch").unwrap_or(name)
}

impl TcuArch {
    /// What a file need not give.
    fn further(&self) -> [(&'static str, Option<String>); 6] {
        let text = |number: Option<u32>| number.map(|number| number.to_string());
        [
            ("instruction_bytes", text(self.instruction_bytes)),
            ("sample_block_size", text(self.sample_block_size)),
            ("lookup_tables", text(self.lookup_tables)),
            ("lookup_table_depth", text(self.lookup_table_depth)),
            ("clock_mhz", text(self.clock_mhz)),
            ("board", self.board.clone()),
        ]
    }
}

impl Arch for TcuArch {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut list = vec![
            ("data_type", self.data_type.name().to_owned()),
            ("array_size", self.array_size.to_string()),
            ("dram0_depth", self.dram0_depth.to_string()),
            ("dram1_depth", self.dram1_depth.to_string()),
            ("local_depth", self.local_depth.to_string()),
            ("accumulator_depth", self.accumulator_depth.to_string()),
            ("simd_registers_depth", self.simd_registers_depth.to_string()),
            ("stride0_depth", self.stride0_depth.to_string()),
            ("stride1_depth", self.stride1_depth.to_string()),
            ("number_of_threads", self.number_of_threads.to_string()),
            ("thread_queue_depth", self.thread_queue_depth.to_string()),
        ];
        list.extend(self.further().into_iter().filter_map(|(name, value)| Some((name, value?))));
        list
    }

    fn absent(&self) -> Vec<&'static str> {
        let absent =
            |(name, value): (&'static str, Option<String>)| value.is_none().then_some(name);
        self.further().into_iter().filter_map(absent).collect()
    }

    fn to_file(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("numbers and text have a JSON form");
        text.push('\n');
        text
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
            let arch = TcuArch::preset(preset.name).unwrap();
            arch.validate().unwrap();
            let file = format!("somewhere/{}.tarch", preset.name);
            let source = ArchSource::Text { name: file, text: arch.to_file() };
            assert_eq!(TcuArch::from_source(&source).unwrap(), arch);
        }
        let mut full = TcuArch::preset("bench8").unwrap();
        full.data_type = DataType::Float32;
        full.instruction_bytes = Some(12);
        full.sample_block_size = Some(64);
        full.lookup_tables = Some(2);
        full.lookup_table_depth = Some(32);
        full.simd_registers_depth = 3;
        full.name.clear();
        assert_eq!(TcuArch::parse(&full.to_file()).unwrap(), full);
    }

    #[test]
    fn older_files_and_numbers_as_text_are_read() {
        let text = r#"{"data_type":"FP32B16","array_size":8,"dram0_depth":"4096","dram1_depth":64,
            "local_depth":32,"accumulator_depth":16,"simd_registers_depth":0,"stride0_depth":1,
            "stride1_depth":1}"#;
        let arch = TcuArch::parse(text).unwrap();
        assert_eq!((arch.number_of_threads, arch.thread_queue_depth), (1, 8));
        assert_eq!((arch.data_type, arch.dram0_depth), (DataType::FP32BP16, 4096));
    }

    #[test]
    fn unknown_keys_are_ignored_and_named() {
        let good = TcuArch::preset("pynqz1").unwrap().to_file();
        let more = r#""lookup_table": 1, "axi": {"array_size": 3}, "array_size": 8"#;
        let arch = TcuArch::parse(&good.replacen("\"array_size\": 8", more, 1)).unwrap();
        assert_eq!(arch.unknown, ["axi", "lookup_table"]);
        assert_eq!(arch.to_file(), good);
        let warnings = arch.warnings();
        assert!(warnings.iter().all(|w| w.code() == "Q3004" && !w.is_error()));
        assert!(warnings[1].help_text().unwrap().contains("lookup_table"));
        assert_eq!(TcuArch::parse(&good).unwrap().warnings(), []);
    }

    #[test]
    fn lookup_tables_have_bounded_memory() {
        let mut arch = TcuArch::preset("pynqz1").unwrap();
        (arch.array_size, arch.local_depth) = (256, 1 << 16);
        (arch.lookup_tables, arch.lookup_table_depth) = (Some(15), Some(1 << 12));
        arch.validate().unwrap();
        arch.lookup_table_depth = Some(1 + (1 << 12));
        assert_eq!(arch.validate().unwrap_err().code(), "Q3002");
    }

    #[test]
    fn bad_files_are_refused() {
        let good = TcuArch::preset("pynqz1").unwrap().to_file();
        for (from, to) in [
            ("FP16BP8", "FP16BP13"),
            ("\"array_size\": 8", "\"array_size\": 1"),
            ("\"array_size\": 8", "\"array_size\": 257"),
            ("\"array_size\": 8", "\"array_size\": -8"),
            ("\"array_size\": 8", "\"array_size\": 8.5"),
            ("\"array_size\": 8", "\"array_size\": 5000000000"),
            ("\"array_size\": 8", "\"array_size\": true"),
            ("\"array_size\": 8", "\"array_size\": \"x\""),
            ("\"array_size\": 8,", ""),
            ("\"array_size\": 8", "\"array_size\": 8, \"lookup_tables\": 1"),
            ("\"array_size\": 8", "\"array_size\": 8, \"clock_mhz\": 0"),
            ("\"local_depth\": 8192", "\"local_depth\": 65537"),
            ("\"accumulator_depth\": 2048", "\"accumulator_depth\": 0"),
            ("\"dram0_depth\": 1048576", "\"dram0_depth\": 4294967297"),
            ("\"simd_registers_depth\": 1", "\"simd_registers_depth\": 17"),
            ("\"stride0_depth\": 8", "\"stride0_depth\": 0"),
            ("\"stride1_depth\": 8", "\"stride1_depth\": 33"),
            ("\"number_of_threads\": 1", "\"number_of_threads\": 3"),
            ("}", ""),
        ] {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good);
            let problem = TcuArch::parse(&text).unwrap_err();
            assert_eq!(problem.code(), "Q3002", "{from} -> {to}");
            if let Some((name, value)) = to.split_once("\": ").filter(|_| !to.contains(',')) {
                let named = format!("{} is {value}, expected ", &name[1..]);
                assert!(problem.message().starts_with(&named), "{}", problem.message());
            }
        }
        assert!(TcuArch::preset("pynqz2").unwrap_err().help_text().is_some());
    }
}
