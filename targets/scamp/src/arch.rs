//! The machine description: registers, macros, restrictions, costs; presets and the TOML file.

mod file;

use crate::isa::{Inst, Reg, TABLE};
use quincunx_contract::{Arch, ArchSource, Preset, unknown_preset};
use quincunx_diag::Result;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

/// Most elements of an array.
pub const MAX_ELEMENTS: u64 = 1 << 20;

/// Most registers of one kind.
pub const MAX_REGISTERS: usize = 256;

/// The presets.
pub const PRESETS: &[Preset] = &[
    Preset { name: "scamp5", summary: "SCAMP-5: 256 x 256 elements, registers A to F" },
    Preset { name: "scamp5-18reg", summary: "SCAMP-5 with 18 registers A to R, as in the paper" },
    Preset {
        name: "scamp5-wide",
        summary: "SCAMP-5 without the API's limits: 12 sources for any number of receivers",
    },
];

/// The registers with a part to play in digital instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Direction registers of DNEWS, in the order of [`crate::isa::Direction::ALL`].
    pub directions: [Reg; 4],
    /// Where it is 1, [`Roles::masked`] is written.
    pub mask: Reg,
    /// Written only where [`Roles::mask`] is 1.
    pub masked: Reg,
    /// What `scamp5_select_pattern` writes.
    pub select: Reg,
}

/// What instructions cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Microseconds of a bus step in the model `bus_0.19us`.
    pub bus_us: f64,
    /// Clock of the model `simcycles` in MHz.
    pub clock_mhz: f64,
}

/// A machine.
///
/// Invariants: names are unique and legal; every role and alias is a 1-bit register or FLAG; sizes
/// and limits are positive, `max_sources` has an entry; `width * height` is at most [`MAX_ELEMENTS`].
#[derive(Clone, Debug, PartialEq)]
pub struct ScampArch {
    /// Name of the machine.
    pub name: String,
    /// Elements from west to east.
    pub width: usize,
    /// Elements from north to south.
    pub height: usize,
    /// General analogue registers.
    pub analogue: Vec<Reg>,
    /// 1-bit registers; FLAG is always there.
    pub digital: Vec<Reg>,
    /// Any other name is a 1-bit register as well: programs with virtual registers.
    pub virtual_digital: bool,
    /// Further names of 1-bit registers.
    pub aliases: BTreeMap<Reg, Reg>,
    /// Registers with a part to play.
    pub roles: Roles,
    /// Row names of the macros it has.
    pub macros: BTreeSet<&'static str>,
    /// How the file names the set of macros.
    macro_set: file::MacroSet,
    /// Most sources of a bus instruction with one receiver, two and so on; the last one holds for
    /// more receivers as well.
    pub max_sources: Vec<usize>,
    /// Most receivers of a bus instruction.
    pub max_receivers: usize,
    /// Most operands of `where`.
    pub max_where: usize,
    /// Values saturate at plus and minus this, where saturation is simulated.
    pub saturation: f64,
    /// Costs.
    pub cost: Cost,
}

impl ScampArch {
    /// A preset.
    ///
    /// # Errors
    /// `Q5010` for an unknown name.
    pub fn preset(name: &str) -> Result<Self> {
        let file = match name {
            "scamp5" => file::ArchFile::preset(name, 6),
            "scamp5-18reg" => file::ArchFile::preset(name, 18),
            "scamp5-wide" => file::ArchFile::preset(name, 6).wide(),
            _ => return Err(unknown_preset("Q5010", "scamp", PRESETS, name)),
        };
        file.build()
    }

    /// A preset or the TOML text of a machine description.
    ///
    /// # Errors
    /// `Q5010` for an unknown preset, `Q5011` for a malformed file, `Q5012` for values that make no
    /// machine.
    pub fn from_source(source: &ArchSource) -> Result<Self> {
        source.load(PRESETS, Self::preset, |text| file::ArchFile::parse(text)?.build())
    }

    /// Row names of a set of macros: `every`, `all`, `basic`, or mnemonics between commas or blanks.
    ///
    /// # Errors
    /// `Q5012` for a word that is no macro.
    pub fn macro_set(text: &str) -> Result<BTreeSet<&'static str>> {
        file::MacroSet::of(text).rows()
    }

    /// The 1-bit register of a name, aliases resolved; `None` if the machine has none.
    pub fn digital(&self, name: Reg) -> Option<Reg> {
        let register = *self.aliases.get(&name).unwrap_or(&name);
        let known = register == Reg::FLAG || self.digital.contains(&register);
        (known || self.virtual_digital).then_some(register)
    }

    /// The 1-bit registers that have no part to play.
    pub fn plain_bits(&self) -> Vec<Reg> {
        let Roles { directions, mask, masked, select } = self.roles;
        // RECT is the part of the array that is read out (`scamp5d`).
        let special = directions.into_iter().chain([mask, masked, select, Reg::RECT, Reg::FLAG]);
        let special: BTreeSet<Reg> = special.collect();
        self.digital.iter().copied().filter(|register| !special.contains(register)).collect()
    }

    /// True for a general analogue register.
    pub fn is_general(&self, register: Reg) -> bool {
        self.analogue.contains(&register)
    }

    /// The machine with so many more general registers, and these.
    pub(crate) fn with_more(&self, more: usize) -> (ScampArch, Vec<Reg>) {
        let names = (0..).filter_map(|number| Reg::new(&format!("Q{number}")));
        let new: Vec<Reg> = names.filter(|&name| !self.is_on_bus(name)).take(more).collect();
        let mut arch = self.clone();
        arch.analogue.extend(&new);
        (arch, new)
    }

    /// True for a register that can be on the analogue bus.
    pub fn is_on_bus(&self, register: Reg) -> bool {
        let special = [Reg::NEWS, Reg::PIX, Reg::IN].contains(&register);
        special || register.direction().is_some() || self.is_general(register)
    }

    /// Most sources of a bus instruction with so many receivers.
    pub fn most_sources(&self, receivers: usize) -> usize {
        let limit = self.max_sources.get(receivers.saturating_sub(1));
        limit.or(self.max_sources.last()).copied().unwrap_or(0)
    }

    /// True for an instruction that is not a macro, or one that the machine has; every controller has
    /// what it does outside of kernels.
    pub fn has(&self, inst: &Inst) -> bool {
        let is_macro = crate::expand::is_macro(inst) && !inst.class().is_controller();
        !is_macro || self.macros.contains(TABLE.rows[inst.row()].name)
    }
}

impl Arch for ScampArch {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let list =
            |registers: &[Reg]| registers.iter().map(Reg::to_string).collect::<Vec<_>>().join(" ");
        vec![
            ("width", self.width.to_string()),
            ("height", self.height.to_string()),
            ("analogue", list(&self.analogue)),
            ("digital", list(&self.digital)),
            ("virtual_digital", self.virtual_digital.to_string()),
            ("macros", self.macro_set.to_string()),
            ("max_sources", numbers(&self.max_sources)),
            ("max_receivers", self.max_receivers.to_string()),
            ("max_where", self.max_where.to_string()),
            ("saturation", self.saturation.to_string()),
            ("directions", list(&self.roles.directions)),
            ("mask", self.roles.mask.to_string()),
            ("masked", self.roles.masked.to_string()),
            ("select", self.roles.select.to_string()),
            ("bus_us", self.cost.bus_us.to_string()),
            ("clock_mhz", self.cost.clock_mhz.to_string()),
        ]
    }

    fn to_file(&self) -> String {
        file::ArchFile::of(self).to_text()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Most receivers of a bus instruction of the table.
const MAX_RECEIVERS: usize = 6;

/// Most operands of `where` of the table.
const MAX_WHERE: usize = 3;

fn numbers(list: &[usize]) -> String {
    list.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ScampArch> {
        ScampArch::from_source(&ArchSource::Text { name: "x".into(), text: text.into() })
    }

    #[test]
    fn files_round_trip() {
        for preset in PRESETS {
            let arch = ScampArch::preset(preset.name).unwrap();
            assert_eq!(parse(&arch.to_file()).unwrap(), arch);
        }
        let text = "name = \"m\"\nmacros = [\"mov\", \"addx\"]\ndigital = [\"R1\"]\n[aliases]\nQ = \"R1\"\n\
            [roles]\nnorth = \"R1\"\neast = \"R1\"\nsouth = \"R1\"\nwest = \"R1\"\nmask = \"R1\"\n\
            masked = \"FLAG\"\nselect = \"R1\"\n";
        let arch = parse(text).unwrap();
        assert_eq!(parse(&arch.to_file()).unwrap(), arch);
        assert_eq!(arch.digital(Reg::new("Q").unwrap()), Reg::new("R1"));
        assert_eq!(arch.macros.len(), 3, "{:?}", arch.macros);
    }

    #[test]
    fn presets_differ_in_registers_only() {
        let six = ScampArch::preset("scamp5").unwrap();
        let eighteen = ScampArch::preset("scamp5-18reg").unwrap();
        assert_eq!((six.analogue.len(), eighteen.analogue.len()), (6, 18));
        assert_eq!(six.digital, eighteen.digital);
        assert_eq!(six.digital(Reg::new("RP").unwrap()), Reg::new("R12"));
        assert_eq!(six.digital(Reg::new("S6").unwrap()), Reg::new("R11"));
        assert_eq!(six.digital(Reg::new("DA1").unwrap()), None);
    }

    #[test]
    fn sources_are_limited_by_the_number_of_receivers() {
        let limits = |arch: &ScampArch| [1, 2, 3, 6].map(|n| arch.most_sources(n));
        assert_eq!(limits(&ScampArch::preset("scamp5").unwrap()), [4, 2, 1, 1]);
        assert_eq!(limits(&ScampArch::preset("scamp5-wide").unwrap()), [12; 4]);
        assert_eq!(limits(&parse("name = \"m\"\nmax_sources = 5").unwrap()), [5; 4]);
        assert_eq!(limits(&parse("name = \"m\"\nmax_sources = [7, 3]").unwrap()), [7, 3, 3, 3]);
    }

    #[test]
    fn bad_files_are_refused() {
        for (text, code) in [
            ("", "Q5011"),
            ("name = 3", "Q5011"),
            ("name = \"a\"\nwidht = 8", "Q5011"),
            ("name = \"a\"\nwidth = 0", "Q5012"),
            ("name = \"a\"\nwidth = 2000000", "Q5012"),
            ("name = \"a\"\nanalogue = [\"a\"]", "Q5012"),
            ("name = \"a\"\nanalogue = []", "Q5012"),
            ("name = \"a\"\nanalogue = [\"A\", \"A\"]", "Q5012"),
            ("name = \"a\"\nanalogue = [\"NEWS\"]", "Q5012"),
            ("name = \"a\"\nanalogue = [\"XE\"]", "Q5012"),
            ("name = \"a\"\nmacros = \"some\"", "Q5012"),
            ("name = \"a\"\nmacros = [\"bus\"]", "Q5012"),
            ("name = \"a\"\nmax_sources = 13", "Q5012"),
            ("name = \"a\"\nmax_sources = [4, 0]", "Q5012"),
            ("name = \"a\"\nmax_sources = []", "Q5012"),
            ("name = \"a\"\nmax_sources = [1, 1, 1, 1, 1, 1, 1]", "Q5012"),
            ("name = \"a\"\nmax_sources = \"many\"", "Q5011"),
            ("name = \"a\"\nmax_where = 4", "Q5012"),
            ("name = \"a\"\nmax_receivers = 0", "Q5012"),
            ("name = \"a\"\nsaturation = -1.0", "Q5012"),
            ("name = \"a\"\n[cost]\nbus_us = nan", "Q5012"),
            ("name = \"a\"\n[cost]\nbus_us = 0.0001", "Q5012"),
            ("name = \"a\"\n[cost]\nclock_mhz = 2000.0", "Q5012"),
            ("name = \"a\"\n[roles]\nmask = \"R99\"", "Q5012"),
            ("name = \"a\"\n[aliases]\nR1 = \"R2\"", "Q5012"),
        ] {
            assert_eq!(parse(text).unwrap_err().code(), code, "{text}");
        }
        assert!(ScampArch::preset("scamp6").unwrap_err().help_text().is_some());
    }
}
