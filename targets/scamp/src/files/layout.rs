//! Where the bits of numbers are in digital and super-pixel mode.
//!
//! Facts: `cain` (`docs/bibliography.md`).

use super::kernel::{KernelFile, Mode, Read, collect_names, missing, object, wrong};
use super::stages::Stages;
use crate::isa::Reg;
use crate::program::{Named, Space};
use quincunx_diag::did_you_mean;
use quincunx_graph::{Param, Quantiser};
use quincunx_num::{Overflow, Rounding};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Largest side of a super-pixel, in elements.
const MAX_BLOCK: usize = 16;

/// One bit of a number: a 1-bit register of one element of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bit {
    /// The register.
    pub register: Reg,
    /// Row of the element in its block, from the north.
    pub row: usize,
    /// Column of the element in its block, from the west.
    pub column: usize,
}

/// Where a channel of a value is in a block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Channel {
    /// The bits of a number, least significant first.
    Number(Vec<Bit>),
    /// An analogue register of one element.
    Analogue(Bit),
}

impl Channel {
    /// Its registers in their elements.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Named, &Bit)> {
        let (space, bits) = match self {
            Channel::Number(bits) => (Space::Digital, &bits[..]),
            Channel::Analogue(place) => (Space::Analogue, std::slice::from_ref(place)),
        };
        bits.iter().map(move |bit| ((space, bit.register), bit))
    }
}

/// Numbers in 1-bit registers. Sums wrap, so that it does not matter whether they have a sign.
#[derive(Clone, Debug, PartialEq)]
pub struct DigitalLayout {
    /// Bits of a number.
    pub bits: usize,
    /// Width and height of the block of elements that is one pixel; 1 and 1 in digital mode.
    pub block: (usize, usize),
    /// Digital mode: the registers of a number by the name of its virtual register, least
    /// significant bit first.
    registers: BTreeMap<String, Vec<Reg>>,
    /// Super-pixel mode: row and column of every bit of a bank, least significant bit first.
    banks: Vec<Vec<(usize, usize)>>,
    /// What is around the kernels in super-pixel mode.
    pub(crate) stages: Stages,
}

impl DigitalLayout {
    /// The grid of its numbers: whole ones that wrap, with a sign in super-pixel mode.
    pub(crate) fn grid(&self, mode: Mode, rounding: Rounding) -> Quantiser {
        grid(mode == Mode::SuperPixel, self.bits, rounding)
    }

    /// Super-pixel mode: row and column of every bit of every bank, least significant bit first.
    pub(crate) fn banks(&self) -> &[Vec<(usize, usize)>] {
        &self.banks
    }

    /// The bits of a number, least significant first: the virtual register `name` of digital mode,
    /// or `BANK:REGISTER` of super-pixel mode, where bank 0 need not be named. `None` for a name
    /// that is neither.
    pub fn number(&self, name: &str) -> Option<Vec<Bit>> {
        if let Some(list) = self.registers.get(name) {
            let bit = |&register: &Reg| Bit { register, row: 0, column: 0 };
            return Some(list[..self.bits].iter().map(bit).collect());
        }
        let (bank, name) = name.split_once(':').unwrap_or(("0", name));
        let (bank, register) = (self.banks.get(bank.parse::<usize>().ok()?)?, Reg::new(name)?);
        Some(bank.iter().map(|&(row, column)| Bit { register, row, column }).collect())
    }
}

/// The grid of whole numbers of so many bits, which wrap.
pub(crate) fn grid(signed: bool, bits: usize, rounding: Rounding) -> Quantiser {
    Quantiser {
        rounding: Param::uniform(rounding),
        overflow: Param::uniform(Overflow::Wrap),
        ..Quantiser::symmetric(signed, u32::try_from(bits).unwrap_or(u32::MAX), 1.0)
    }
}

/// `bits` and `regMapping` of digital mode.
pub(super) fn digital(pair_gen: &Map<String, Value>) -> Read<DigitalLayout> {
    let name = "pairGen.bits";
    let bits = pair_gen.get("bits").and_then(Value::as_u64);
    let bits = bits.ok_or_else(|| missing(name, "a whole number"))?;
    let bits = usize::try_from(bits).ok().filter(|bits| (1..=32).contains(bits));
    let bits = bits.ok_or_else(|| wrong(name, "expected 1 to 32 bits".to_owned()))?;
    let mut registers = BTreeMap::new();
    for (key, list) in object(pair_gen, "regMapping")? {
        let (mut names, name) = (Vec::new(), format!("pairGen.regMapping.{key}"));
        collect_names(list, &name, None, &mut names)?;
        let list = names.iter().map(|name| Reg::new(name)).collect::<Option<Vec<_>>>();
        let list = list.filter(|list| list.len() >= bits);
        let list = list.ok_or_else(|| wrong(&name, format!("expected {bits} registers")))?;
        registers.insert(key.clone(), list);
    }
    let stages = Stages::read(pair_gen, bits)?;
    if let Some(stage) = stages.enabled().next() {
        let what = "digital mode has none, super-pixel mode has".to_owned();
        return Err(wrong(&format!("pairGen.{stage}"), what));
    }
    Ok(DigitalLayout { bits, block: (1, 1), registers, banks: Vec::new(), stages })
}

/// `width`, `height` and `bitOrder` of super-pixel mode.
pub(super) fn super_pixel(pair_gen: &Map<String, Value>) -> Read<DigitalLayout> {
    let side = |key: &str| {
        let name = format!("pairGen.{key}");
        let value = pair_gen.get(key).and_then(Value::as_u64);
        let value = value.ok_or_else(|| missing(&name, "a whole number"))?;
        let side = usize::try_from(value).unwrap_or(usize::MAX);
        match side.is_power_of_two() && side <= MAX_BLOCK {
            true => Ok(side),
            false => Err(wrong(&name, format!("{value}, expected a power of two to {MAX_BLOCK}"))),
        }
    };
    let block = (side("width")?, side("height")?);
    let name = "pairGen.bitOrder";
    let banks = pair_gen.get("bitOrder").and_then(Value::as_array);
    let banks = banks.ok_or_else(|| missing(name, "a list of banks"))?;
    let banks = banks.iter().map(|bank| bank_of(name, bank, block)).collect::<Read<Vec<_>>>()?;
    let bits = banks.first().map_or(0, Vec::len);
    if !(1..=32).contains(&bits) || banks.iter().any(|bank| bank.len() != bits) {
        let what = "expected banks that all have the same 1 to 32 bits";
        return Err(wrong(name, what.to_owned()));
    }
    let stages = Stages::read(pair_gen, bits)?;
    Ok(DigitalLayout { bits, block, registers: BTreeMap::new(), banks, stages })
}

/// The places of the bits of one bank: the file numbers them from 1, and 0 is not a bit.
fn bank_of(name: &str, bank: &Value, (width, height): (usize, usize)) -> Read<Vec<(usize, usize)>> {
    let rows = |value: &Value| value.as_array().cloned().ok_or_else(|| missing(name, "rows"));
    let mut places = BTreeMap::new();
    let table = rows(bank)?.iter().map(rows).collect::<Read<Vec<_>>>()?;
    if table.len() != height || table.iter().any(|row| row.len() != width) {
        return Err(wrong(name, format!("expected {height} rows of {width} numbers in a bank")));
    }
    for (row, entries) in table.iter().enumerate() {
        for (column, entry) in entries.iter().enumerate() {
            let number = entry.as_u64().ok_or_else(|| missing(name, "whole numbers"))?;
            if number > 0 && places.insert(number, (row, column)).is_some() {
                return Err(wrong(name, format!("bit {number} is twice in a bank")));
            }
        }
    }
    match places.keys().copied().eq(1..=places.len() as u64) {
        true => Ok(places.into_values().collect()),
        false => Err(wrong(name, "the bits of a bank are not numbered from 1 on".to_owned())),
    }
}

/// Fields of a layout: those of `pairGen` that say where bits are, then names of numbers.
const FIELDS: [&str; 21] = [
    "bits",
    "regMapping",
    "scratchRegs",
    "width",
    "height",
    "bitOrder",
    "selectReg",
    "maskReg",
    "maskedReg",
    "northReg",
    "eastReg",
    "southReg",
    "westReg",
    "flagReg",
    "adc",
    "dac",
    "bias",
    "activation",
    "inputs",
    "outputs",
    "registers",
];

/// What a compiler needs to know of digital and super-pixel mode.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    /// Where the bits of numbers are.
    pub(crate) numbers: DigitalLayout,
    /// The numbers of the input channels.
    pub(crate) inputs: Vec<String>,
    /// The numbers of the results.
    pub(crate) outputs: Vec<String>,
    /// Numbers whose registers may be written.
    pub(crate) registers: Vec<String>,
    /// Further registers that may be written.
    pub(crate) scratch: Vec<Reg>,
    /// Registers with a part to play, by the names of their fields.
    pub(crate) roles: BTreeMap<&'static str, Reg>,
}

/// Reads a layout: a JSON object with the fields of `pairGen`, and `inputs`, `outputs` and
/// `registers`.
///
/// # Errors
/// `Q5050` for text that is not JSON, `Q5051` and `Q5052` for its fields.
pub(crate) fn read_layout(text: &str, mode: Mode) -> Read<Layout> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| wrong("layout", error.to_string()))?;
    let Value::Object(fields) = value else { return Err(missing("layout", "a JSON object")) };
    if let Some(unknown) = fields.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        let problem = wrong(unknown, "the field is unknown".to_owned());
        return Err(problem.help_if(did_you_mean(unknown, FIELDS)));
    }
    let numbers = match mode {
        Mode::SuperPixel => super_pixel(&fields)?,
        Mode::Digital | Mode::Analogue => digital(&fields)?,
    };
    let names = |key: &str| {
        let mut list = Vec::new();
        match fields.get(key) {
            Some(value) => collect_names(value, key, None, &mut list).map(|()| list),
            None => Ok(list),
        }
    };
    let register = |key: &str, name: &str| {
        let expected = || wrong(key, format!("{name:?} is not the name of a register"));
        Reg::new(name).ok_or_else(expected)
    };
    let scratch = names("scratchRegs")?;
    let scratch = scratch.iter().map(|name| register("scratchRegs", name)).collect::<Read<_>>()?;
    let mut roles = BTreeMap::new();
    for key in FIELDS.into_iter().filter(|key| key.ends_with("Reg")) {
        if let Some(value) = fields.get(key) {
            let name = value.as_str().ok_or_else(|| missing(key, "a name"))?;
            roles.insert(key, register(key, name)?);
        }
    }
    let (inputs, outputs, registers) = (names("inputs")?, names("outputs")?, names("registers")?);
    Ok(Layout { numbers, inputs, outputs, registers, scratch, roles })
}

/// The layout of a kernel file as text.
pub(crate) fn layout_of(file: &KernelFile) -> String {
    let mut fields = Map::new();
    for (name, text) in &file.settings {
        let Some(name) = name.strip_prefix("pairGen.") else { continue };
        let value = || serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into());
        let mut path = name.splitn(2, '.');
        let (key, inner) = (path.next().unwrap_or(name), path.next());
        if !FIELDS.contains(&key) {
            continue;
        }
        match inner {
            None => drop(fields.insert(key.to_owned(), value())),
            Some(inner) => {
                let object = fields.entry(key).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(object) = object {
                    object.insert(inner.to_owned(), value());
                }
            }
        }
    }
    let names = |list: Vec<String>| Value::from(list);
    fields.insert("inputs".to_owned(), names(file.inputs.clone()));
    let outputs = file.outputs().into_iter().map(str::to_owned).collect();
    fields.insert("outputs".to_owned(), names(outputs));
    fields.insert("registers".to_owned(), names(file.registers.clone()));
    Value::Object(fields).to_string()
}
