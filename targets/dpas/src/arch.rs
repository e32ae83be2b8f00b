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
    /// Crescent Island: its systolic instructions only.
    Xe3p,
}

impl Platform {
    /// Every platform, oldest first.
    pub const ALL: [Platform; 5] =
        [Platform::XeHpg, Platform::XeHpc, Platform::Xe2, Platform::Xe3, Platform::Xe3p];

    /// Those of which more than systolic instructions is known.
    pub const WHOLE: [Platform; 4] =
        [Platform::XeHpg, Platform::XeHpc, Platform::Xe2, Platform::Xe3];

    /// Name of the preset.
    pub fn name(self) -> &'static str {
        match self {
            Platform::XeHpg => "xehpg",
            Platform::XeHpc => "xehpc",
            Platform::Xe2 => "xe2",
            Platform::Xe3 => "xe3",
            Platform::Xe3p => "xe3p",
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

    /// True where 8-bit and 4-bit floats are multiplied, sums of bf start from them, and integers of
    /// different widths are not (`iga`, `igc`).
    pub fn has_small_floats(self) -> bool {
        self == Platform::Xe3p
    }

    /// Dependency tokens.
    pub fn tokens(self) -> u8 {
        if self.is_second() { 32 } else { 16 }
    }
}

/// Parameters of a machine.
///
/// Invariant: `grfs` is 128 or 256, `depth` 4 or 8, the other counts are at least 1, clock and
/// bandwidth positive and finite.
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
    /// Xe cores.
    #[serde(default = "absent")]
    pub cores: u32,
    /// Vector engines of a core, each with a systolic array.
    #[serde(default = "absent")]
    pub engines: u32,
    /// KiB of the first cache of a core, which is also its shared memory.
    #[serde(default = "absent")]
    pub l1_kib: u32,
    /// Bytes a cycle between the first cache and the engines of a core.
    #[serde(default = "absent")]
    pub l1_bytes: u32,
    /// KiB of the second cache.
    #[serde(default = "absent")]
    pub l2_kib: u32,
    /// Bytes a cycle between the second cache and a core.
    #[serde(default = "absent")]
    pub l2_bytes: u32,
    /// Bandwidth of memory in GB/s.
    #[serde(default = "absent_real")]
    pub memory_gbs: f64,
}

/// The presets.
pub const PRESETS: &[Preset] = &[
    Preset { name: "xehpg", summary: "DG2 (Arc A, Flex): 8 lanes, registers of 32 bytes, dpasw" },
    Preset { name: "xehpc", summary: "Ponte Vecchio (Max): 16 lanes, registers of 64 bytes, tf32" },
    Preset { name: "xe2", summary: "Lunar Lake, Battlemage: as xehpc, array of 4 stages" },
    Preset { name: "xe3", summary: "Panther Lake: as xe2, 8-bit floats have an encoding" },
    Preset {
        name: "xe3p",
        summary: "Crescent Island, systolic instructions only: 8-bit and 4-bit floats, bdpas, Fwd",
    },
    Preset { name: "a770", summary: "Arc A770 (xehpg): 32 cores of 16 engines, 560 GB/s" },
    Preset { name: "max1550", summary: "Max 1550 (xehpc): 128 cores of 8 engines, 3277 GB/s" },
    Preset { name: "b580", summary: "Arc B580 (xe2): 20 cores of 8 engines, 456 GB/s" },
    Preset { name: "b70", summary: "Arc Pro B70 (xe2): 32 cores of 8 engines, 608 GB/s" },
];

fn default_grfs() -> u32 {
    256
}

/// Stands for a number that a file leaves out; it is not in any range.
fn absent() -> u32 {
    u32::MAX
}

fn absent_real() -> f64 {
    f64::NAN
}

/// Most of each count.
const MOST: u32 = 1 << 20;

impl DpasArch {
    /// A preset; those of platforms are `a770`, `max1550` and `b580`, and `xe3` the graphics of
    /// Panther Lake with 12 cores. No figures of `xe3p` are published: it has those of `xe3`.
    ///
    /// Cores, clocks, sizes of caches and bandwidths are those of `intel-products`, of `b70` those
    /// of `b70-probe` (`docs/bibliography.md`). 64 bytes a cycle and core from the second cache, and
    /// 512 from the first one of Max, are from `intel-xe`. Ours, for want of figures: 128 bytes a
    /// cycle from the other first caches, the clock of `xe3`, the second cache of `b70` (that of
    /// `b580`, a third more).
    ///
    /// Sizes and widths of caches, and all figures of Panther Lake, have not been checked against
    /// these documents yet.
    ///
    /// # Errors
    /// `Q6001` for an unknown name.
    pub fn preset(name: &str) -> Result<DpasArch> {
        use Platform::{Xe2, Xe3, Xe3p, XeHpc, XeHpg};
        // Platform, depth, clock, cores, engines, first cache (KiB, bytes a cycle), second (MiB),
        // memory.
        let row = match name {
            "xehpg" | "a770" => (XeHpg, 4, 2.1, 32, 16, 192, 128, 16, 560.0),
            "xehpc" | "max1550" => (XeHpc, 8, 1.6, 128, 8, 512, 512, 408, 3277.0),
            "xe2" | "b580" => (Xe2, 4, 2.85, 20, 8, 256, 128, 18, 456.0),
            "b70" => (Xe2, 4, 2.8, 32, 8, 256, 128, 24, 608.0),
            "xe3" => (Xe3, 4, 2.85, 12, 8, 256, 128, 16, 153.6),
            "xe3p" => (Xe3p, 4, 2.85, 12, 8, 256, 128, 16, 153.6),
            _ => return Err(unknown_preset("Q6001", "dpas", PRESETS, name)),
        };
        let (platform, depth, clock_ghz, cores, engines, l1_kib, l1_bytes, l2_mib, memory_gbs) =
            row;
        Ok(DpasArch {
            name: name.to_owned(),
            platform,
            grfs: default_grfs(),
            depth,
            clock_ghz,
            cores,
            engines,
            l1_kib,
            l1_bytes,
            l2_kib: l2_mib << 10,
            l2_bytes: 64,
            memory_gbs,
        })
    }

    /// A preset or the TOML text of an architecture file.
    ///
    /// # Errors
    /// `Q6001` for an unknown preset, `Q6002` for a malformed file.
    pub fn from_source(source: &ArchSource) -> Result<DpasArch> {
        source.load(PRESETS, Self::preset, Self::parse)
    }

    fn parse(text: &str) -> Result<DpasArch> {
        let mut arch: DpasArch = parse_toml("Q6002", text)?;
        let preset = DpasArch::preset(arch.platform.name())?;
        let defaults = preset.counts().map(|(_, value)| value);
        for (value, default) in arch.counts_mut().into_iter().zip(defaults) {
            if *value == absent() {
                *value = default;
            }
        }
        if arch.memory_gbs.is_nan() {
            arch.memory_gbs = preset.memory_gbs;
        }
        match arch.fault() {
            Some(message) => Err(Diagnostic::invalid("Q6002", message)),
            None => Ok(arch),
        }
    }

    fn fault(&self) -> Option<String> {
        if self.grfs != 128 && self.grfs != 256 {
            return Some(format!("grfs is {}, expected 128 or 256", self.grfs));
        }
        if self.depth != 4 && self.depth != 8 {
            return Some(format!("depth is {}, expected 4 or 8", self.depth));
        }
        for (name, value) in [("clock_ghz", self.clock_ghz), ("memory_gbs", self.memory_gbs)] {
            if !(value.is_finite() && value > 0.0) {
                return Some(format!("{name} is {value}, expected a positive number"));
            }
        }
        let wrong = self.counts().into_iter().find(|(_, value)| !(1..=MOST).contains(value));
        wrong.map(|(name, value)| format!("{name} is {value}, expected 1 to {MOST}"))
    }

    /// The counts that a file may leave out.
    fn counts(&self) -> [(&'static str, u32); 6] {
        [
            ("cores", self.cores),
            ("engines", self.engines),
            ("l1_kib", self.l1_kib),
            ("l1_bytes", self.l1_bytes),
            ("l2_kib", self.l2_kib),
            ("l2_bytes", self.l2_bytes),
        ]
    }

    fn counts_mut(&mut self) -> [&mut u32; 6] {
        [
            &mut self.cores,
            &mut self.engines,
            &mut self.l1_kib,
            &mut self.l1_bytes,
            &mut self.l2_kib,
            &mut self.l2_bytes,
        ]
    }

    /// Bytes of the register file of a thread.
    pub fn file_bytes(&self) -> u32 {
        self.grfs * self.platform.grf_bytes()
    }

    /// Threads that an engine holds: 8, and 4 with 256 registers (`intel-xe`).
    pub fn threads(&self) -> u32 {
        1024 / self.grfs.max(128)
    }

    /// Bytes that memory moves in a cycle.
    pub fn memory_bytes(&self) -> f64 {
        self.memory_gbs / self.clock_ghz
    }
}

impl Arch for DpasArch {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![
            ("platform", self.platform.name().to_owned()),
            ("grfs", self.grfs.to_string()),
            ("depth", self.depth.to_string()),
            ("clock_ghz", format!("{:?}", self.clock_ghz)),
        ];
        all.extend(self.counts().map(|(name, value)| (name, value.to_string())));
        all.push(("memory_gbs", format!("{:?}", self.memory_gbs)));
        all
    }

    fn to_file(&self) -> String {
        let mut text = format!("name = {:?}\n", self.name);
        for (name, value) in self.parameters() {
            let quote = if name == "platform" { "\"" } else { "" };
            text += &format!("{name} = {quote}{value}{quote}\n");
        }
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
            ("cores = 20", "cores = 0"),
            ("memory_gbs = 456.0", "memory_gbs = 0.0"),
        ] {
            let text = good.replace(from, to);
            assert_ne!(text, good);
            assert_eq!(DpasArch::parse(&text).unwrap_err().code(), "Q6002", "{text}");
        }
        let old = good.lines().filter(|line| line.contains("=")).take(5);
        let old = old.collect::<Vec<_>>().join("\n");
        assert_eq!(DpasArch::parse(&old).unwrap(), DpasArch::preset("xe2").unwrap());
        assert!(DpasArch::preset("xe4").unwrap_err().help_text().is_some());
    }
}
