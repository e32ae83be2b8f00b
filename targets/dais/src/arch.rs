//! Machine parameters: which dialect may be used and how wide a slot may be.

use crate::isa::Dialect;
use quincunx_contract::{Arch, ArchSource, Preset, parse_toml, unknown_preset};
use quincunx_diag::{Diagnostic, Result};
use serde::{Deserialize, Serialize};
use std::any::Any;

/// Parameters of a dais machine.
///
/// Invariant: `max_width` is 1 to [`MAX_WIDTH`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaisArch {
    /// Name of the machine.
    pub name: String,
    /// Opcodes the compiler may use, and the layout of its machine code.
    #[serde(default = "default_dialect", with = "dialect_name")]
    pub dialect: Dialect,
    /// Widest slot in bits the compiler may declare.
    #[serde(default = "default_width")]
    pub max_width: u32,
    /// Bits of one unit of adder cost; negative counts adders.
    #[serde(default = "default_adder_size")]
    pub adder_size: i32,
    /// Bits a carry chain passes in one unit of latency; negative for unlimited.
    #[serde(default = "default_carry_size")]
    pub carry_size: i32,
}

/// Widest slot any tool of this target accepts.
pub const MAX_WIDTH: u32 = 4096;

/// The presets.
pub const PRESETS: &[Preset] = &[
    Preset { name: "d1", summary: "all opcodes of da4ml 0.6, slots of up to 64 bits" },
    Preset { name: "a4", summary: "instructions of alkaid 0.8, slots of up to 64 bits" },
    Preset { name: "seed", summary: "opcodes -1 to 7 only, slots of up to 64 bits" },
    Preset { name: "wide", summary: "all opcodes, slots of up to 4096 bits" },
];

/// Dialects by name.
mod dialect_name {
    use super::Dialect;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        dialect: &Dialect,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(dialect.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Dialect, D::Error> {
        let name = String::deserialize(deserializer)?;
        Dialect::from_name(&name).map_err(|problem| D::Error::custom(problem.message()))
    }
}

fn default_dialect() -> Dialect {
    Dialect::D1
}

fn default_width() -> u32 {
    64
}

fn default_adder_size() -> i32 {
    1
}

fn default_carry_size() -> i32 {
    -1
}

impl DaisArch {
    /// A preset.
    ///
    /// # Errors
    /// `Q1121` for an unknown name.
    pub fn preset(name: &str) -> Result<Self> {
        let (dialect, max_width) = match name {
            "d1" => (Dialect::D1, 64),
            "a4" => (Dialect::A4, 64),
            "seed" => (Dialect::D0, 64),
            "wide" => (Dialect::D1, MAX_WIDTH),
            _ => return Err(unknown_preset("Q1121", "dais", PRESETS, name)),
        };
        Ok(DaisArch {
            name: name.to_owned(),
            dialect,
            max_width,
            adder_size: default_adder_size(),
            carry_size: default_carry_size(),
        })
    }

    /// A preset or the TOML text of an architecture file.
    ///
    /// # Errors
    /// `Q1121` for an unknown preset, `Q1122` for a malformed file.
    pub fn from_source(source: &ArchSource) -> Result<Self> {
        source.load(PRESETS, Self::preset, Self::parse)
    }

    fn parse(text: &str) -> Result<Self> {
        let arch: DaisArch = parse_toml("Q1122", text)?;
        if !(1..=MAX_WIDTH).contains(&arch.max_width) {
            return Err(Diagnostic::invalid(
                "Q1122",
                format!("max_width is {}, expected 1 to {MAX_WIDTH}", arch.max_width),
            ));
        }
        if arch.adder_size == 0 || arch.carry_size == 0 {
            return Err(Diagnostic::invalid("Q1122", "adder_size and carry_size must not be 0")
                .help("a negative size means unlimited"));
        }
        Ok(arch)
    }
}

impl Arch for DaisArch {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![
            ("dialect", self.dialect.name().to_owned()),
            ("max_width", self.max_width.to_string()),
            ("adder_size", self.adder_size.to_string()),
            ("carry_size", self.carry_size.to_string()),
        ]
    }

    fn to_file(&self) -> String {
        format!(
            "name = {:?}\ndialect = \"{}\"\nmax_width = {}\nadder_size = {}\ncarry_size = {}\n",
            self.name,
            self.dialect.name(),
            self.max_width,
            self.adder_size,
            self.carry_size
        )
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
            let arch = DaisArch::preset(preset.name).unwrap();
            assert_eq!(DaisArch::parse(&arch.to_file()).unwrap(), arch);
        }
    }

    #[test]
    fn bad_files_are_refused() {
        for text in [
            "",
            "name = 3",
            "name = \"a\"\nmax_width = 0",
            "name = \"a\"\nmax_widht = 8",
            "name = \"a\"\ncarry_size = 0",
        ] {
            assert_eq!(DaisArch::parse(text).unwrap_err().code(), "Q1122", "{text}");
        }
        assert!(DaisArch::preset("d2").unwrap_err().help_text().is_some());
    }
}
