//! The TOML form of a machine description, and its validation.

use super::{Cost, MAX_ELEMENTS, MAX_RECEIVERS, MAX_REGISTERS, MAX_WHERE, Roles, ScampArch};
use crate::isa::{Direction, Inst, MAX_SOURCES, Reg, TABLE};
use quincunx_contract::parse_toml;
use quincunx_diag::{Diagnostic, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The file. Absent keys have the values of `scamp5`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArchFile {
    name: String,
    #[serde(default = "side")]
    width: u64,
    #[serde(default = "side")]
    height: u64,
    #[serde(default = "analogue")]
    analogue: Vec<String>,
    #[serde(default = "digital")]
    digital: Vec<String>,
    #[serde(default)]
    virtual_digital: bool,
    #[serde(default = "every")]
    macros: MacroSet,
    #[serde(default = "max_sources")]
    max_sources: Sources,
    #[serde(default = "max_receivers")]
    max_receivers: usize,
    #[serde(default = "max_where")]
    max_where: usize,
    #[serde(default = "saturation")]
    saturation: f64,
    #[serde(default)]
    roles: RolesFile,
    #[serde(default = "aliases")]
    aliases: BTreeMap<String, String>,
    #[serde(default)]
    cost: CostFile,
}

/// Most sources of a bus instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Sources {
    /// Whatever the number of receivers.
    Same(usize),
    /// With one receiver, two and so on; the last one holds for more as well.
    Each(Vec<usize>),
}

impl Sources {
    fn limits(self) -> Result<Vec<usize>> {
        let list = match self {
            Sources::Same(limit) => vec![limit],
            Sources::Each(list) => list,
        };
        if !(1..=MAX_RECEIVERS).contains(&list.len()) {
            let message = format!("max_sources has {} entries", list.len());
            return Err(wrong(format!("{message}, expected 1 to {MAX_RECEIVERS}")));
        }
        list.iter().try_for_each(|&limit| within("max_sources", limit, MAX_SOURCES))?;
        Ok(list)
    }
}

/// A limit that is positive, and not above that of the instruction table.
fn within(key: &str, value: usize, limit: usize) -> Result<()> {
    match (1..=limit).contains(&value) {
        true => Ok(()),
        false => Err(wrong(format!("{key} is {value}, expected 1 to {limit}"))),
    }
}

/// A named set of macros, or mnemonics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum MacroSet {
    /// `every`: all rows of the table; `all` and `basic`: the sets of Cain.
    Named(String),
    /// Mnemonics; every form of each.
    List(Vec<String>),
}

impl MacroSet {
    /// The set that a text names.
    pub(super) fn of(text: &str) -> MacroSet {
        match text {
            "every" | "all" | "basic" => MacroSet::Named(text.to_owned()),
            list => {
                let words = list.split([',', ' ']).filter(|word| !word.is_empty());
                MacroSet::List(words.map(str::to_owned).collect())
            }
        }
    }

    /// Its rows.
    pub(super) fn rows(&self) -> Result<BTreeSet<&'static str>> {
        macro_rows(self)
    }
}

impl fmt::Display for MacroSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MacroSet::Named(name) => f.write_str(name),
            MacroSet::List(names) => f.write_str(&names.join(" ")),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RolesFile {
    north: String,
    east: String,
    south: String,
    west: String,
    mask: String,
    masked: String,
    select: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CostFile {
    bus_us: f64,
    clock_mhz: f64,
}

impl Default for RolesFile {
    fn default() -> Self {
        let [north, east, south, west, mask, masked, select] =
            ["R3", "R4", "R1", "R2", "R0", "R12", "SELECT"].map(str::to_owned);
        RolesFile { north, east, south, west, mask, masked, select }
    }
}

impl Default for CostFile {
    fn default() -> Self {
        CostFile { bus_us: 0.19, clock_mhz: 10.0 }
    }
}

fn side() -> u64 {
    256
}

/// The first `count` letters.
fn letters(count: u8) -> Vec<String> {
    (b'A'..b'A' + count).map(|letter| char::from(letter).to_string()).collect()
}

fn analogue() -> Vec<String> {
    letters(6)
}

fn digital() -> Vec<String> {
    let numbered = (0..=12).map(|number| format!("R{number}"));
    numbered.chain(["SELECT", "RECT"].map(str::to_owned)).collect()
}

fn every() -> MacroSet {
    MacroSet::Named("every".to_owned())
}

/// The limits of the API (`scamp5d`).
fn max_sources() -> Sources {
    Sources::Each(vec![4, 2, 1])
}

fn max_receivers() -> usize {
    3
}

fn max_where() -> usize {
    MAX_WHERE
}

fn saturation() -> f64 {
    128.0
}

/// The device's names of its registers, and those of a public simulator.
fn aliases() -> BTreeMap<String, String> {
    let named = [("RF", 0), ("RS", 1), ("RW", 2), ("RN", 3), ("RE", 4), ("RP", 12)];
    let named = named.map(|(alias, number)| (alias.to_owned(), format!("R{number}")));
    let general = (0..7).map(|number| (format!("S{number}"), format!("R{}", number + 5)));
    named.into_iter().chain(general).collect()
}

fn wrong(message: String) -> Diagnostic {
    Diagnostic::invalid("Q5012", message)
}

fn register(name: &str) -> Result<Reg> {
    Reg::new(name).ok_or_else(|| {
        wrong(format!("{name:?} is not the name of a register"))
            .help("a name is a capital letter, then letters, digits and _")
    })
}

fn registers(names: &[String], taken: &[Reg], key: &str) -> Result<Vec<Reg>> {
    if names.len() > MAX_REGISTERS {
        return Err(wrong(format!("{key} has {} names, at most {MAX_REGISTERS}", names.len())));
    }
    let mut list = Vec::new();
    for name in names {
        let register = register(name)?;
        if list.contains(&register) || taken.contains(&register) {
            return Err(wrong(format!("the name {name} in {key} is taken")));
        }
        list.push(register);
    }
    Ok(list)
}

/// The rows of a set of macros.
fn macro_rows(set: &MacroSet) -> Result<BTreeSet<&'static str>> {
    let is_macro = |index: usize| {
        let class = Inst::FACTS[index].class;
        !TABLE.rows[index].steps.is_empty() && !class.is_controller()
    };
    let macros =
        || (0..TABLE.rows.len()).filter(|&index| is_macro(index)).map(|index| &TABLE.rows[index]);
    // Cain's sets (`cain` in `docs/bibliography.md`).
    const ALL: &str =
        "Mov Movx Mov2x Add Addx Add2x Add3 Sub Subx Sub2x Div DivFrom Diva Res Res2 Neg";
    const BASIC: &str = "Mov Movx Add Sub Neg Divq Res";
    match set {
        MacroSet::Named(name) => match name.as_str() {
            "every" => Ok(macros().map(|row| row.name).collect()),
            "all" => Ok(ALL.split(' ').collect()),
            "basic" => Ok(BASIC.split(' ').collect()),
            _ => Err(wrong(format!("there is no macro set {name:?}"))
                .help("expected every, all, basic or a list of mnemonics")),
        },
        MacroSet::List(names) => {
            let mut rows = BTreeSet::new();
            for name in names {
                let forms = macros().filter(|row| row.mnemonic == name);
                let mut forms = forms.map(|row| row.name).peekable();
                if forms.peek().is_none() {
                    return Err(wrong(format!("{name:?} is not a macro")));
                }
                rows.extend(forms);
            }
            Ok(rows)
        }
    }
}

impl ArchFile {
    /// A preset with so many general registers.
    pub(super) fn preset(name: &str, registers: u8) -> ArchFile {
        ArchFile {
            name: name.to_owned(),
            width: side(),
            height: side(),
            analogue: letters(registers),
            digital: digital(),
            virtual_digital: false,
            macros: every(),
            max_sources: max_sources(),
            max_receivers: max_receivers(),
            max_where: max_where(),
            saturation: saturation(),
            roles: RolesFile::default(),
            aliases: aliases(),
            cost: CostFile::default(),
        }
    }

    /// The same with as many sources as the instruction table has.
    pub(super) fn wide(self) -> ArchFile {
        ArchFile { max_sources: Sources::Same(MAX_SOURCES), ..self }
    }

    /// Reads the text.
    pub(super) fn parse(text: &str) -> Result<ArchFile> {
        parse_toml("Q5011", text)
    }

    /// The file of a machine.
    pub(super) fn of(arch: &ScampArch) -> ArchFile {
        let names = |list: &[Reg]| list.iter().map(Reg::to_string).collect();
        let [north, east, south, west] = arch.roles.directions.map(|register| register.to_string());
        ArchFile {
            name: arch.name.clone(),
            width: arch.width as u64,
            height: arch.height as u64,
            analogue: names(&arch.analogue),
            digital: names(&arch.digital),
            virtual_digital: arch.virtual_digital,
            macros: arch.macro_set.clone(),
            max_sources: Sources::Each(arch.max_sources.clone()),
            max_receivers: arch.max_receivers,
            max_where: arch.max_where,
            saturation: arch.saturation,
            roles: RolesFile {
                north,
                east,
                south,
                west,
                mask: arch.roles.mask.to_string(),
                masked: arch.roles.masked.to_string(),
                select: arch.roles.select.to_string(),
            },
            aliases: arch.aliases.iter().map(|(a, r)| (a.to_string(), r.to_string())).collect(),
            cost: CostFile { bus_us: arch.cost.bus_us, clock_mhz: arch.cost.clock_mhz },
        }
    }

    /// The text.
    pub(super) fn to_text(&self) -> String {
        toml::to_string(self).expect("numbers and text have a TOML form")
    }

    /// The machine.
    pub(super) fn build(self) -> Result<ScampArch> {
        let (width, height) = (self.width, self.height);
        if width == 0 || height == 0 || width.saturating_mul(height) > MAX_ELEMENTS {
            let message = format!("the array has {width} x {height} elements");
            return Err(wrong(format!("{message}, expected 1 to {MAX_ELEMENTS}")));
        }
        let mut special = vec![Reg::NEWS, Reg::PIX, Reg::IN];
        special.extend(Direction::ALL.map(Reg::toward));
        let analogue = registers(&self.analogue, &special, "analogue")?;
        if analogue.is_empty() {
            return Err(wrong("analogue names no register".to_owned()));
        }
        let digital = registers(&self.digital, &[Reg::FLAG], "digital")?;
        let max_sources = self.max_sources.clone().limits()?;
        within("max_receivers", self.max_receivers, MAX_RECEIVERS)?;
        within("max_where", self.max_where, MAX_WHERE)?;
        let (bus_us, clock_mhz) = (self.cost.bus_us, self.cost.clock_mhz);
        // Times are whole nanoseconds.
        for (key, value, low, high) in [
            ("saturation", self.saturation, 1e-6, 1e9),
            ("bus_us", bus_us, 1e-3, 1e6),
            ("clock_mhz", clock_mhz, 1e-6, 1e3),
        ] {
            if !(low..=high).contains(&value) {
                return Err(wrong(format!("{key} is {value}, expected {low} to {high}")));
            }
        }
        let aliases = self.aliases(&digital)?;
        let roles = self.roles(&digital, &aliases)?;
        Ok(ScampArch {
            name: self.name,
            width: width as usize,
            height: height as usize,
            analogue,
            digital,
            virtual_digital: self.virtual_digital,
            aliases,
            roles,
            macros: self.macros.rows()?,
            macro_set: self.macros,
            max_sources,
            max_receivers: self.max_receivers,
            max_where: self.max_where,
            saturation: self.saturation,
            cost: Cost { bus_us, clock_mhz },
        })
    }

    /// Aliases of registers that are there; those of the presets for other registers are dropped.
    fn aliases(&self, digital: &[Reg]) -> Result<BTreeMap<Reg, Reg>> {
        let presets = aliases();
        let mut list = BTreeMap::new();
        for (alias, name) in &self.aliases {
            let (alias_register, target) = (register(alias)?, register(name)?);
            if !digital.contains(&target) || digital.contains(&alias_register) {
                if presets.get(alias) == Some(name) {
                    continue;
                }
                return Err(wrong(format!(
                    "the alias {alias} = {name} does not name a 1-bit register, or is taken"
                )));
            }
            list.insert(alias_register, target);
        }
        Ok(list)
    }

    fn roles(&self, digital: &[Reg], aliases: &BTreeMap<Reg, Reg>) -> Result<Roles> {
        let role = |key: &str, name: &str| {
            let named = register(name)?;
            let register = *aliases.get(&named).unwrap_or(&named);
            let known = digital.contains(&register) || register == Reg::FLAG;
            if known || self.virtual_digital || digital.is_empty() {
                Ok(register)
            } else {
                Err(wrong(format!("the role {key} is {name}, which is not a 1-bit register")))
            }
        };
        let roles = &self.roles;
        Ok(Roles {
            directions: [
                role("north", &roles.north)?,
                role("east", &roles.east)?,
                role("south", &roles.south)?,
                role("west", &roles.west)?,
            ],
            mask: role("mask", &roles.mask)?,
            masked: role("masked", &roles.masked)?,
            select: role("select", &roles.select)?,
        })
    }
}
