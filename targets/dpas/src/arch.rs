//! Machine parameters: the platform, its registers, and the numbers of its timing model.

use quincunx_contract::{Arch, ArchSource, Preset, parse_toml, unknown_preset};
use quincunx_diag::{Diagnostic, Result};
use serde::{Deserialize, Serialize};
use std::any::Any;

/// A generation of the instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// DG2: Arc A and Flex.
    XeHpg,
    /// Ponte Vecchio: Data Center GPU Max.
    XeHpc,
    /// Lunar Lake, Battlemage.
    Xe2,
    /// Panther Lake.
    Xe3,
}

impl Platform {
    /// Every platform, oldest first.
    pub const ALL: [Platform; 4] = [Platform::XeHpg, Platform::XeHpc, Platform::Xe2, Platform::Xe3];

    /// Name of the preset.
    pub fn name(self) -> &'static str {
        match self {
            Platform::XeHpg => "xehpg",
            Platform::XeHpc => "xehpc",
            Platform::Xe2 => "xe2",
            Platform::Xe3 => "xe3",
        }
    }

    /// The platform of a preset name.
    pub fn from_name(name: &str) -> Option<Platform> {
        Platform::ALL.into_iter().find(|platform| platform.name() == name)
    }

    /// Bytes of a general register.
    pub fn grf_bytes(self) -> u32 {
        if self == Platform::XeHpg { 32 } else { 64 }
    }

    /// Lanes of `dpas` with elements of 32 bits or less in dst.
    pub fn lanes(self) -> u32 {
        self.grf_bytes() / 4
    }

    /// True from Xe-HPC on: 10-bit dependency field, 16-bit accumulators, tf32; no `dpasw`.
    pub fn is_second(self) -> bool {
        self >= Platform::XeHpc
    }

    /// Dependency tokens.
    pub fn tokens(self) -> u8 {
        if self.is_second() { 32 } else { 16 }
    }
}

/// Parameters of a machine.
///
/// Invariant: `grfs` is 128 or 256, `depth` 4 or 8, `clock_ghz` positive and finite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DpasArch {
    /// Name of the machine.
    pub name: String,
    /// Generation.
    pub platform: Platform,
    /// General registers of a thread: 128 or 256.
    #[serde(default = "default_grfs")]
    pub grfs: u32,
    /// Stages of the physical array: a `dpas` of depth 8 passes `8 / depth` times.
    pub depth: u32,
    /// Clock in GHz.
    pub clock_ghz: f64,
}

/// The presets.
pub const PRESETS: &[Preset] = &[
    Preset { name: "xehpg", summary: "DG2 (Arc A, Flex): 8 lanes, registers of 32 bytes, dpasw" },
    Preset { name: "xehpc", summary: "Ponte Vecchio (Max): 16 lanes, registers of 64 bytes, tf32" },
    Preset { name: "xe2", summary: "Lunar Lake, Battlemage: as xehpc, array of 4 stages" },
    Preset { name: "xe3", summary: "Panther Lake: as xe2, 8-bit floats have an encoding" },
];

fn default_grfs() -> u32 {
    256
}

impl DpasArch {
    /// A preset. Clocks are those of Arc A770, Max 1550, Arc B580 and, for want of a figure, again
    /// 2.85 GHz for xe3 (ours).
    ///
    /// # Errors
    /// `Q6001` for an unknown name.
    pub fn preset(name: &str) -> Result<DpasArch> {
        let Some(platform) = Platform::from_name(name) else {
            return Err(unknown_preset("Q6001", "dpas", PRESETS, name));
        };
        let (depth, clock_ghz) = match platform {
            Platform::XeHpg => (4, 2.1),
            Platform::XeHpc => (8, 1.6),
            Platform::Xe2 | Platform::Xe3 => (4, 2.85),
        };
        Ok(DpasArch { name: name.to_owned(), platform, grfs: default_grfs(), depth, clock_ghz })
    }

    /// A preset or the TOML text of an architecture file.
    ///
    /// # Errors
    /// `Q6001` for an unknown preset, `Q6002` for a malformed file.
    pub fn from_source(source: &ArchSource) -> Result<DpasArch> {
        source.load(PRESETS, Self::preset, Self::parse)
    }

    fn parse(text: &str) -> Result<DpasArch> {
        let arch: DpasArch = parse_toml("Q6002", text)?;
        let wrong = if arch.grfs != 128 && arch.grfs != 256 {
            Some(format!("grfs is {}, expected 128 or 256", arch.grfs))
        } else if arch.depth != 4 && arch.depth != 8 {
            Some(format!("depth is {}, expected 4 or 8", arch.depth))
        } else if !(arch.clock_ghz.is_finite() && arch.clock_ghz > 0.0) {
            Some(format!("clock_ghz is {}, expected a positive number", arch.clock_ghz))
        } else {
            None
        };
        match wrong {
            Some(message) => Err(Diagnostic::invalid("Q6002", message)),
            None => Ok(arch),
        }
    }

    /// Bytes of the register file of a thread.
    pub fn file_bytes(&self) -> u32 {
        self.grfs * self.platform.grf_bytes()
    }
}

impl Arch for DpasArch {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![
            ("platform", self.platform.name().to_owned()),
            ("grfs", self.grfs.to_string()),
            ("depth", self.depth.to_string()),
            ("clock_ghz", format!("{:?}", self.clock_ghz)),
        ]
    }

    fn to_file(&self) -> String {
        format!(
            "name = {:?}\nplatform = \"{}\"\ngrfs = {}\ndepth = {}\nclock_ghz = {:?}\n",
            self.name,
            self.platform.name(),
            self.grfs,
            self.depth,
            self.clock_ghz
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
            let arch = DpasArch::preset(preset.name).unwrap();
            assert_eq!(DpasArch::parse(&arch.to_file()).unwrap(), arch);
        }
    }

    #[test]
    fn bad_files_are_refused() {
        let good = DpasArch::preset("xe2").unwrap().to_file();
        for (from, to) in [
            ("256", "100"),
            ("depth = 4", "depth = 5"),
            ("2.85", "-1.0"),
            ("2.85", "inf"),
            ("xe2\"\ngrfs", "xe9\"\ngrfs"),
            ("grfs", "gfrs"),
        ] {
            let text = good.replace(from, to);
            assert_ne!(text, good);
            assert_eq!(DpasArch::parse(&text).unwrap_err().code(), "Q6002", "{text}");
        }
        assert!(DpasArch::preset("xe4").unwrap_err().help_text().is_some());
    }
}
