//! Which 1-bit registers hold which numbers: the option `layout`, or the general registers of the
//! machine.

use super::block::Block;
use super::place::Room;
use super::ripple::{Home, Place};
use crate::arch::ScampArch;
use crate::files::{Around, Converter, Layout, Mode, read_layout};
use crate::isa::Reg;
use crate::options::Wishes;
use quincunx_diag::{Diagnostic, Result};
use std::collections::BTreeSet;

pub(crate) fn wrong(message: impl Into<String>) -> Diagnostic {
    Diagnostic::invalid("Q5120", message.into())
}

/// The layout that is wished; `None` where only the number of bits is.
///
/// # Errors
/// `Q5120` for a layout that is none, or contradicts the other options.
pub(crate) fn wished(wishes: &Wishes) -> Result<Option<Layout>> {
    let given = [
        ("input-registers", wishes.inputs.is_empty()),
        ("output-registers", wishes.outputs.is_empty()),
    ];
    if let Some((name, _)) = given.iter().find(|(_, is_empty)| !is_empty) {
        let message = format!("option {name} names analogue registers, the mode has none");
        return Err(wrong(message).help("option layout names the registers of numbers"));
    }
    let text = &wishes.layout;
    if text.is_empty() {
        return match (wishes.mode, wishes.word) {
            (Mode::SuperPixel, _) => Err(wrong("the mode superpixel needs option layout")
                .help("width, height and bitOrder say where the bits of a number are")),
            (_, None) => {
                Err(wrong("the mode digital needs option bits or layout").help("such as --bits 4"))
            }
            (_, Some(_)) => Ok(None),
        };
    }
    let layout = read_layout(text, wishes.mode).map_err(|problem| {
        Diagnostic::invalid("Q5120", format!("option layout: {}", problem.message()))
    })?;
    if let Some(bits) = wishes.word.filter(|bits| *bits != layout.numbers.bits) {
        let message = format!("option bits is {bits}, the layout has {}", layout.numbers.bits);
        return Err(wrong(message).help("leave one of them out"));
    }
    Ok(Some(layout))
}

/// A register of the machine under its own name.
///
/// # Errors
/// `Q5123` for one that the machine lacks.
pub(crate) fn own(register: Reg, arch: &ScampArch) -> Result<Reg> {
    arch.digital(register).filter(|own| *own != Reg::FLAG).ok_or_else(|| {
        let message = format!("{} has no 1-bit register {register}", arch.name);
        let names: Vec<String> = arch.digital.iter().map(Reg::to_string).collect();
        Diagnostic::invalid("Q5123", message).help(format!(
            "it has {}; virtual_digital = true in a machine description allows any name",
            names.join(" ")
        ))
    })
}

/// The registers of digital mode for `channels` inputs and `results`.
///
/// # Errors
/// `Q5120` for a layout that contradicts itself, `Q5121` for too few registers, `Q5123` for those
/// that the machine lacks.
pub(crate) fn digital(
    layout: Option<&Layout>,
    bits: usize,
    (channels, results): (usize, usize),
    arch: &ScampArch,
) -> Result<Room> {
    let directions = arch.roles.directions;
    let Some(layout) = layout else {
        // Nobody needs the mask.
        let mut pool = arch.plain_bits();
        pool.extend(own(arch.roles.mask, arch));
        if channels * bits > pool.len() {
            let message =
                format!("{channels} inputs of {bits} bits, {} has {}", arch.name, pool.len());
            return Err(Diagnostic::unsupported("Q5121", message + " general 1-bit registers")
                .help(format!("{} suffice for the inputs alone", channels * bits)));
        }
        let inputs = pool.chunks(bits).take(channels).map(<[Reg]>::to_vec).collect();
        return Ok(Room { pool, inputs, outputs: None, directions, lends: true });
    };
    check_counts(layout, channels, results)?;
    let number = |name: &String| {
        let bits = layout.numbers.number(name);
        let bits = bits.ok_or_else(|| wrong(format!("the layout has no registers of {name:?}")))?;
        bits.iter().map(|bit| own(bit.register, arch)).collect::<Result<Vec<Reg>>>()
    };
    let numbers = |names: &[String]| names.iter().map(number).collect::<Result<Vec<_>>>();
    let (inputs, outputs) = (numbers(&layout.inputs[..channels])?, numbers(&layout.outputs)?);
    distinct("inputs", inputs.iter().flatten())?;
    distinct("outputs", outputs.iter().flatten())?;
    let mut pool: Vec<Reg> = numbers(&layout.registers)?.into_iter().flatten().collect();
    pool.extend(outputs.iter().flatten());
    for &register in &layout.scratch {
        pool.push(own(register, arch)?);
    }
    let mut seen = BTreeSet::new();
    pool.retain(|register| seen.insert(*register));
    let used = || pool.iter().chain(inputs.iter().flatten());
    if let Some(bad) = used().find(|register| directions.contains(register)) {
        return Err(wrong(format!("{bad} says where moves come from, it cannot hold a bit")));
    }
    let (mask, masked) = (arch.roles.mask, arch.roles.masked);
    if used().any(|register| *register == masked) {
        return Err(wrong(format!("{masked} is written where {mask} is 1 only"))
            .help("digital mode needs registers that are always written"));
    }
    Ok(Room { pool, inputs, outputs: Some(outputs), directions, lends: true })
}

/// The registers and banks of super-pixel mode for `channels` inputs and `results`, with what is done
/// around the kernels.
///
/// # Errors
/// As [`digital`].
pub(crate) fn super_pixel(
    layout: &Layout,
    (channels, results): (usize, usize),
    around: &Around,
    arch: &ScampArch,
) -> Result<Home> {
    check_counts(layout, channels, results)?;
    check_roles(layout, arch)?;
    let banks = &layout.numbers;
    let place = |name: &String| {
        let (bank, register) = name.split_once(':').unwrap_or(("0", name));
        let bank = bank.parse().ok().filter(|bank| *bank < banks.banks().len());
        let register = Reg::new(register);
        let (bank, register) = bank.zip(register).ok_or_else(|| {
            wrong(format!("{name:?} is no number, expected BANK:REGISTER"))
                .help(format!("banks are 0 to {}", banks.banks().len().saturating_sub(1)))
        })?;
        Ok(Place { bank, register: own(register, arch)? })
    };
    let places = |names: &[String]| names.iter().map(place).collect::<Result<Vec<Place>>>();
    let (inputs, outputs) = (places(&layout.inputs[..channels])?, places(&around.outputs)?);
    for (what, list) in [("inputs", &inputs), ("outputs", &outputs)] {
        let mut seen = BTreeSet::new();
        let twice = list.iter().find(|place| !seen.insert((place.bank, place.register)));
        if let Some(Place { bank, register }) = twice {
            return Err(wrong(format!("{bank}:{register} is twice among the {what}")));
        }
    }
    let mut pool: Vec<Reg> = places(&layout.registers)?.iter().map(|p| p.register).collect();
    pool.extend(outputs.iter().map(|place| place.register));
    for &register in &layout.scratch {
        pool.push(own(register, arch)?);
    }
    let mut seen = BTreeSet::new();
    pool.retain(|register| seen.insert(*register));
    let of_bias = layout.numbers.stages.bias.as_ref().map(|bias| own(bias.register, arch));
    let of_bias = of_bias.transpose()?;
    pool.retain(|register| of_bias != Some(*register));
    let mut ends = inputs.iter().chain(&outputs).map(|place| place.register);
    if let Some(register) = of_bias.filter(|of_bias| ends.any(|end| end == *of_bias)) {
        return Err(wrong(format!("{register} holds the constants of biases, and a number")));
    }
    check_converters(&around.adc, layout.numbers.stages.scratch, arch)?;
    check_converters(around.dac.iter().flatten(), None, arch)?;
    let roles = &arch.roles;
    let special = [roles.mask, roles.masked, roles.select];
    let own_places = inputs.iter().map(|place| &place.register).chain(&of_bias);
    let mut used = pool.iter().chain(own_places);
    if let Some(bad) = used.find(|r| special.contains(r) || roles.directions.contains(r)) {
        return Err(wrong(format!("{bad} has a part of its own to play, it cannot hold a number")));
    }
    let home = inputs.first().map_or(0, |place| place.bank);
    for place in inputs.iter().chain(&outputs) {
        check_shape(banks.banks(), home, place.bank)?;
    }
    Ok(Home {
        block: Block::new(banks.block, banks.banks()[home].clone())?,
        banks: banks.banks().to_vec(),
        pool,
        inputs,
        outputs,
        of_bias,
        directions: roles.directions,
        mask: roles.mask,
        masked: roles.masked,
        select: roles.select,
    })
}

/// Refuses analogue registers that the machine lacks, and those that hold two values.
fn check_converters<'a>(
    list: impl IntoIterator<Item = &'a Converter>,
    scratch: Option<Reg>,
    arch: &ScampArch,
) -> Result<()> {
    let mut seen = BTreeSet::new();
    for register in list.into_iter().map(|converter| converter.analogue).chain(scratch) {
        if !arch.is_general(register) {
            let message = format!("{} has no analogue register {register}", arch.name);
            let names: Vec<String> = arch.analogue.iter().map(Reg::to_string).collect();
            let problem = Diagnostic::invalid("Q5123", message);
            return Err(problem.help(format!("it has {}", names.join(" "))));
        }
        if !seen.insert(register) {
            return Err(wrong(format!("{register} holds two values of a converter")));
        }
    }
    Ok(())
}

/// Banks are the same path at other places.
fn check_shape(banks: &[Vec<(usize, usize)>], one: usize, other: usize) -> Result<()> {
    let from = |bank: &[(usize, usize)]| {
        let (row, column) = bank[0];
        bank.iter()
            .map(|&(r, c)| (r as i64 - row as i64, c as i64 - column as i64))
            .collect::<Vec<_>>()
    };
    match from(&banks[one]) == from(&banks[other]) {
        true => Ok(()),
        false => Err(wrong(format!("the banks {one} and {other} have paths of different shapes"))),
    }
}

/// Refuses registers with parts to play that are others on the machine.
fn check_roles(layout: &Layout, arch: &ScampArch) -> Result<()> {
    let roles = &arch.roles;
    let [north, east, south, west] = roles.directions;
    let own_roles = [
        ("northReg", north),
        ("eastReg", east),
        ("southReg", south),
        ("westReg", west),
        ("maskReg", roles.mask),
        ("maskedReg", roles.masked),
        ("selectReg", roles.select),
    ];
    for (key, machine) in own_roles {
        if let Some(&register) = layout.roles.get(key)
            && own(register, arch)? != machine
        {
            let message = format!("{key} is {register}, on {} it is {machine}", arch.name);
            return Err(wrong(message).help("[roles] of a machine description says which it is"));
        }
    }
    Ok(())
}

fn check_counts(layout: &Layout, channels: usize, results: usize) -> Result<()> {
    for (what, names, count) in
        [("inputs", &layout.inputs, channels), ("outputs", &layout.outputs, results)]
    {
        if names.len() < count || what == "outputs" && names.len() != count {
            return Err(wrong(format!("the layout names {} {what} for {count}", names.len())));
        }
    }
    Ok(())
}

/// Refuses a register that holds two bits.
pub(crate) fn distinct<'a>(what: &str, list: impl Iterator<Item = &'a Reg>) -> Result<()> {
    let mut seen = BTreeSet::new();
    let mut list = list;
    match list.find(|register| !seen.insert(**register)) {
        Some(twice) => Err(wrong(format!("{twice} holds two bits of the {what}"))),
        None => Ok(()),
    }
}
