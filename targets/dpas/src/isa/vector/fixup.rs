//! Between the operands of the text and the fields of a platform.

#![deny(clippy::arithmetic_side_effects)]

use super::immediate::Immediate;
use super::operands::{STRIDES, part};
use super::types::Type;
use super::{
    CONDITION_AT, CONTROL_AT, DST_AT, FLAG_AT, LOW_BITS, OPTIONS_AT, PREDICATE_BITS, SIZE_AT,
    SOURCES_AT,
};
use crate::isa::native::{offset_to_field, param};
use crate::isa::operands::{Class, DEPENDENCY, OFFSET_UNIT, SWSB_BITS, load_word, store_word};
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::{Fixup, Layout};

/// Arithmetic with one or two sources.
pub(super) static PLAIN: Fixup = Fixup {
    to_fields: |values, layout| to_fields(values, layout, Class::Other),
    to_values: |values, layout| to_values(values, layout, Class::Other),
};
/// `math`.
pub(super) static MATH: Fixup = Fixup {
    to_fields: |values, layout| to_fields(values, layout, Class::Math),
    to_values: |values, layout| to_values(values, layout, Class::Math),
};
/// Branches and waits, which have no condition.
pub(super) static PLAIN_BRANCH: Fixup = Fixup {
    to_fields: |values, layout| head_to_fields(values, layout, Class::Other).map(|_| ()),
    to_values: |values, layout| bare_to_values(values, layout, Class::Other),
};
/// `jmpi`, which always has W.
pub(super) static JUMP: Fixup = Fixup {
    to_fields: |values, layout| {
        values[CONTROL_AT] |= 1;
        head_to_fields(values, layout, Class::Other).map(|_| ())
    },
    to_values: |values, layout| {
        if values[CONTROL_AT] & 1 == 0 {
            return Err(Diagnostic::invalid("Q6017", "jmpi has no W"));
        }
        bare_to_values(values, layout, Class::Other)
    },
};
/// `send`.
pub(super) static MESSAGE: Fixup =
    Fixup { to_fields: message_to_fields, to_values: message_to_values };
/// An immediate of up to 64 bits, whose upper four lie in the place of the condition.
pub(super) static WIDE: Fixup = Fixup { to_fields: wide_to_fields, to_values: wide_to_values };

/// Declares the fixup of three sources of which some are immediates.
macro_rules! ternary {
    ($name:ident $immediates:literal) => {
        pub(super) static $name: Fixup = Fixup {
            to_fields: |values, layout| ternary_to_fields(values, layout, $immediates),
            to_values: |values, layout| ternary_to_values(values, layout, $immediates),
        };
    };
}
ternary!(TERNARY 0b000);
ternary!(TERNARY_0 0b001);
ternary!(TERNARY_2 0b100);
ternary!(TERNARY_02 0b101);

fn no_form(text: &str) -> Diagnostic {
    Diagnostic::invalid("Q6017", format!("machine code has no form for this: {text}"))
}

/// Control, size and options; gives the flag of the predicate, if there is one.
fn head_to_fields(values: &mut [i128], layout: &Layout, class: Class) -> Result<Option<i128>> {
    let control = values[CONTROL_AT];
    let predicated = part(control, 1, 4) != 0;
    let width = param(layout, PREDICATE_BITS);
    let shift = width.saturating_add(1) as u32;
    values[CONTROL_AT] = (control & 3) | part(control, 5, 1) << shift;
    let offset = offset_to_field(values[SIZE_AT] >> 3, layout)?;
    values[SIZE_AT] = values[SIZE_AT] & 7 | offset << 3;
    let options = values[OPTIONS_AT];
    let word = store_word(options as u32 & DEPENDENCY, class, layout)?;
    let bits = param(layout, SWSB_BITS) as u32;
    // Atomic and Breakpoint, and further bits of the format.
    let flags = options >> 10 & 3;
    let others = match class {
        Class::Send => options >> 14 & 3,
        _ => options >> 16 & 1,
    };
    let foreign = match class {
        Class::Send => options >> 16 != 0,
        _ => options >> 14 & 3 != 0,
    };
    if foreign {
        return Err(no_form("an option that this instruction does not have"));
    }
    values[OPTIONS_AT] = word | flags << bits | others << bits.saturating_add(2);
    let flag = predicated.then_some(control >> 6);
    values[FLAG_AT] = flag.unwrap_or(0);
    Ok(flag)
}

fn head_to_values(values: &mut [i128], layout: &Layout, class: Class) -> Result<bool> {
    let width = param(layout, PREDICATE_BITS) as u32;
    let stored = values[CONTROL_AT];
    let kind = part(stored, 1, width);
    let (inverted, flag) = (stored >> width.saturating_add(1), values[FLAG_AT]);
    if kind > 1 || (kind == 0 && inverted != 0) {
        return Err(no_form("its predicate control"));
    }
    values[CONTROL_AT] = stored & 1;
    if kind == 1 {
        values[CONTROL_AT] |= 2 | inverted << 5 | flag << 6;
    }
    let unit = param(layout, OFFSET_UNIT);
    let offset = (values[SIZE_AT] >> 3).saturating_mul(unit);
    values[SIZE_AT] = values[SIZE_AT] & 7 | offset << 3;
    let bits = param(layout, SWSB_BITS) as u32;
    let stored = values[OPTIONS_AT];
    let word = load_word(part(stored, 0, bits), class, layout)?;
    let (flags, others) = (part(stored, bits, 2), stored >> bits.saturating_add(2));
    let others = if class == Class::Send { others << 14 } else { others << 16 };
    values[OPTIONS_AT] = i128::from(word) | flags << 10 | others;
    values[FLAG_AT] = 0;
    Ok(kind == 1)
}

/// As [`head_to_values`], of an instruction without a condition.
fn bare_to_values(values: &mut [i128], layout: &Layout, class: Class) -> Result<()> {
    let flag = values[FLAG_AT];
    if !head_to_values(values, layout, class)? && flag != 0 {
        return Err(no_form("a flag that nothing uses"));
    }
    Ok(())
}

fn to_fields(values: &mut [i128], layout: &Layout, class: Class) -> Result<()> {
    let flag = head_to_fields(values, layout, class)?;
    let condition = values[CONDITION_AT];
    if condition != 0 {
        let own = condition >> 4;
        if flag.is_some_and(|flag| flag != own) {
            return Err(Diagnostic::invalid(
                "Q6018",
                "predicate and condition have different flags",
            )
            .help("they share one field of machine code: use one flag for both"));
        }
        values[FLAG_AT] = own;
        values[CONDITION_AT] = condition & 15;
    }
    Ok(())
}

fn to_values(values: &mut [i128], layout: &Layout, class: Class) -> Result<()> {
    let flag = values[FLAG_AT];
    let predicated = head_to_values(values, layout, class)?;
    match values[CONDITION_AT] {
        0 if flag != 0 && !predicated => Err(no_form("a flag that nothing uses")),
        0 => Ok(()),
        condition => {
            values[CONDITION_AT] = condition | flag << 4;
            Ok(())
        }
    }
}

/// Bits above which an immediate does not fit its field.
const IMMEDIATE_FIELD: u32 = 4 + 32 + 28;

fn wide_to_fields(values: &mut [i128], layout: &Layout) -> Result<()> {
    let immediate = values[SOURCES_AT];
    let wide = Immediate(immediate).ty().is_some_and(Type::is_wide);
    if wide && values[CONDITION_AT] != 0 {
        return Err(no_form("a condition with an immediate of 64 bits"));
    }
    to_fields(values, layout, Class::Other)?;
    if wide {
        values[CONDITION_AT] = immediate >> IMMEDIATE_FIELD;
        values[SOURCES_AT] = part(immediate, 0, IMMEDIATE_FIELD);
    }
    Ok(())
}

fn wide_to_values(values: &mut [i128], layout: &Layout) -> Result<()> {
    let wide = Immediate(values[SOURCES_AT]).ty().is_some_and(Type::is_wide);
    if wide {
        values[SOURCES_AT] |= std::mem::take(&mut values[CONDITION_AT]) << IMMEDIATE_FIELD;
    }
    to_values(values, layout, Class::Other)
}

/// The code of a vertical stride of three sources: 0, 1, 4, 8.
const VERTICAL: [i128; 4] = [0, 1, 3, 4];

/// Which operands are sources with a vertical stride.
fn has_vertical(source: usize) -> bool {
    source < 2
}

fn ternary_to_fields(values: &mut [i128], layout: &Layout, immediates: u8) -> Result<()> {
    let low = param(layout, LOW_BITS) as u32;
    let dst = values[DST_AT];
    let float = dst >> 3 & 1;
    let stride = part(dst, 5, 2);
    if !matches!(stride, 1 | 2) {
        return Err(no_form("dst has stride 1 or 2 here"));
    }
    let byte = unit(dst >> 16, low)?;
    values[DST_AT] =
        part(dst, 0, 5) | stride.saturating_sub(1) << 5 | part(dst, 7, 9) << 6 | byte << 15;
    for source in 0..3usize {
        let index = SOURCES_AT.saturating_add(source);
        let value = values[index];
        if value >> 3 & 1 != float {
            return Err(no_form("floats and integers"));
        }
        if immediates >> source & 1 == 1 {
            values[index] = value & 7 | part(value, 4, 16) << 3;
            continue;
        }
        let byte = unit(value >> 23, low)?;
        let head = value & 7 | part(value, 6, 2) << 3 | part(value, 8, 9) << 5;
        let code =
            VERTICAL.iter().position(|&code| code == part(value, 20, 3)).unwrap_or(0) as i128;
        let modifiers = part(value, 4, 2);
        values[index] = match has_vertical(source) {
            true => head | code << 14 | byte << 16 | modifiers << 21,
            false => head | byte << 14 | modifiers << 19,
        };
    }
    to_fields(values, layout, Class::Other)
}

/// A byte in a register in the unit of the platform.
fn unit(byte: i128, low: u32) -> Result<i128> {
    match part(byte, 0, low) {
        0 => Ok(byte >> low),
        _ => Err(no_form("registers of three sources start at even bytes")),
    }
}

fn ternary_to_values(values: &mut [i128], layout: &Layout, immediates: u8) -> Result<()> {
    let low = param(layout, LOW_BITS) as u32;
    let dst = values[DST_AT];
    let float = (dst >> 3 & 1) << 3;
    let stride = part(dst, 5, 1).saturating_add(1);
    values[DST_AT] =
        part(dst, 0, 5) | stride << 5 | part(dst, 6, 9) << 7 | (dst >> 15) << 16 << low;
    for source in 0..3usize {
        let index = SOURCES_AT.saturating_add(source);
        let value = values[index];
        if immediates >> source & 1 == 1 {
            let bits = part(value, 3, 16);
            values[index] = value & 7 | float | (bits | bits << 16) << 4;
            continue;
        }
        let head = value & 7 | float | part(value, 3, 2) << 6 | part(value, 5, 9) << 8;
        values[index] = match has_vertical(source) {
            true => {
                let vertical = VERTICAL[part(value, 14, 2) as usize];
                let byte = part(value, 16, 5) << low;
                head | vertical << 20 | byte << 23 | (value >> 21) << 4
            }
            false => head | (part(value, 14, 5) << low) << 23 | (value >> 19) << 4,
        };
    }
    debug_assert!(STRIDES.len() > 4, "the codes of VERTICAL are codes of strides");
    to_values(values, layout, Class::Other)
}

/// Index of the extended descriptor of a message.
const EXTENDED_AT: usize = 8;
/// `ExBSO` in the options.
const EX_BSO: i128 = 1 << 15;

fn message_to_fields(values: &mut [i128], layout: &Layout) -> Result<()> {
    // Where the extended descriptor is in a0, the number of registers is in the instruction.
    let in_register = values[EXTENDED_AT] & 1 == 1;
    if !in_register && values[OPTIONS_AT] & EX_BSO != 0 {
        return Err(no_form("ExBSO without an extended descriptor in a0"));
    }
    if in_register {
        values[OPTIONS_AT] |= EX_BSO;
    }
    head_to_fields(values, layout, Class::Send).map(|_| ())
}

fn message_to_values(values: &mut [i128], layout: &Layout) -> Result<()> {
    bare_to_values(values, layout, Class::Send)?;
    let in_register = values[EXTENDED_AT] & 1 == 1;
    if in_register != (values[OPTIONS_AT] & EX_BSO != 0) {
        return Err(no_form("the length of a message in a0"));
    }
    Ok(())
}
