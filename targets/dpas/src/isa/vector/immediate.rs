//! Immediates: `5:d`, `0x1F:ud`, `-1:w`, `1.5:f`, `inf:hf`, `qnan(0x0):f`.
//!
//! A value is the type's code and above it the bits: 16-bit numbers twice, as machine code has them.

use super::operands::{parse_type, part};
use super::types::Type;
use quincunx_diag::Result;
use quincunx_isa::{Cursor, Custom, operand_newtype, print_hex, print_number};
use quincunx_num::{F16, FloatOverflow};
use std::fmt::Write as _;

/// An immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Immediate(pub i128);

operand_newtype!(Immediate(i128));

impl Immediate {
    /// An immediate of a type: its low bits.
    pub fn new(ty: Type, bits: u64) -> Immediate {
        let bits = match ty.bytes() {
            2 => (bits & 0xffff) | (bits & 0xffff) << 16,
            4 => bits & 0xffff_ffff,
            _ => bits,
        };
        Immediate(i128::from(bits) << 4 | ty as i128)
    }

    /// The type; `None` only for numbers that no reader makes.
    pub fn ty(self) -> Option<Type> {
        Type::from_code(self.0 & 15)
    }

    /// The bits of an element.
    pub fn bits(self) -> u64 {
        let bits = (self.0 >> 4) as u64;
        match self.ty().map(Type::bytes) {
            Some(2) => bits & 0xffff,
            _ => bits,
        }
    }
}

const TYPES: [Type; 9] =
    [Type::Uw, Type::Ud, Type::Uq, Type::W, Type::D, Type::Q, Type::Hf, Type::F, Type::Df];

/// Declares a kind of immediate: up to so many bytes.
macro_rules! immediate {
    ($name:ident $bytes:literal $doc:literal) => {
        #[doc = $doc]
        pub(super) static $name: Custom = Custom {
            name: "an immediate with its type",
            parse: |cursor| parse(cursor, $bytes),
            print,
            legal: |value| legal(value, $bytes),
            random: |below| random(below, $bytes),
        };
    };
}

immediate!(ANY 8 "An immediate of at most 64 bits.");
immediate!(DWORD 4 "An immediate of at most 32 bits.");
immediate!(WORD 2 "An immediate of 16 bits.");

fn legal(value: i128, most: u32) -> bool {
    let Some(ty) = Type::from_code(value & 15).filter(|ty| TYPES.contains(ty)) else {
        return false;
    };
    ty.bytes() <= most && Immediate::new(ty, (value >> 4) as u64).0 == value
}

fn random(below: &mut dyn FnMut(u64) -> u64, most: u32) -> i128 {
    let legal: Vec<Type> = TYPES.into_iter().filter(|ty| ty.bytes() <= most).collect();
    let ty = legal[below(legal.len() as u64) as usize];
    let bits = below(1 << 32) << 32 | below(1 << 32);
    Immediate::new(ty, bits).0
}

fn parse(cursor: &mut Cursor<'_>, most: u32) -> Result<i128> {
    let start = cursor.position();
    let line = cursor.rest_of_line();
    let length = line.find([':', ' ', '\t', '{']).unwrap_or(line.len());
    let text = &line[..length];
    if !text.starts_with(|c: char| c.is_ascii_digit() || "-iqs".contains(c)) {
        return Err(cursor.expected("an immediate"));
    }
    cursor.eat(text);
    let ty = parse_type(cursor)?;
    if !TYPES.contains(&ty) || ty.bytes() > most {
        return Err(cursor.out_of_range("this type cannot be an immediate here", start));
    }
    let bits = number(text, ty);
    let bits = bits.ok_or_else(|| cursor.out_of_range("this is no number of the type", start))?;
    Ok(Immediate::new(ty, bits).0)
}

/// The bits of a number of a type.
fn number(text: &str, ty: Type) -> Option<u64> {
    let (negative, magnitude) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let width = 8 * ty.bytes();
    if let Some(digits) = magnitude.strip_prefix("0x").or_else(|| magnitude.strip_prefix("0X")) {
        let bits = u64::from_str_radix(digits, 16).ok()?;
        let fits = width == 64 || bits >> width == 0;
        return fits.then_some(if negative { bits.wrapping_neg() } else { bits });
    }
    if ty.is_float() {
        return float(negative, magnitude, ty);
    }
    let value = text.parse::<i128>().ok()?;
    let (low, high) =
        (if ty.is_signed() { -(1i128 << (width - 1)) } else { 0 }, (1i128 << width) - 1);
    (low..=high).contains(&value).then_some(value as u64)
}

/// Bits of the exponent field, bits of the fraction.
fn format_of(ty: Type) -> (u32, u32) {
    match ty {
        Type::Hf => (5, 10),
        Type::F => (8, 23),
        _ => (11, 52),
    }
}

fn float(negative: bool, text: &str, ty: Type) -> Option<u64> {
    let (exponent, fraction) = format_of(ty);
    let sign = u64::from(negative) << (exponent + fraction);
    let infinity = ((1u64 << exponent) - 1) << fraction;
    let quiet = 1u64 << (fraction - 1);
    if text == "inf" {
        return Some(sign | infinity);
    }
    for (name, bit) in [("qnan(0x", quiet), ("snan(0x", 0)] {
        if let Some(rest) = text.strip_prefix(name) {
            let payload = u64::from_str_radix(rest.strip_suffix(')')?, 16).ok()?;
            let legal = payload < quiet && payload | bit != 0;
            return legal.then_some(sign | infinity | bit | payload);
        }
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    Some(match ty {
        Type::Hf => {
            let value = F16::from_f64(text.parse().ok()?, FloatOverflow::Infinity)?;
            sign | u64::from(value.to_bits())
        }
        Type::F => sign | u64::from(text.parse::<f32>().ok()?.to_bits()),
        _ => sign | text.parse::<f64>().ok()?.to_bits(),
    })
}

fn print(value: i128, out: &mut String) {
    let immediate = Immediate(value);
    let Some(ty) = Type::from_code(part(value, 0, 4)) else { return };
    let bits = immediate.bits();
    let unused = 64 - 8 * ty.bytes();
    match ty {
        ty if ty.is_float() => {
            // Writing to a string cannot fail.
            let _ = print_float(bits, ty, out);
        }
        ty if ty.is_signed() => print_number(((bits << unused) as i64 >> unused).into(), out),
        _ => print_hex(bits, 1, out),
    }
    out.push(':');
    *out += ty.name();
}

/// As the vendor's assembler: six or seven digits where they give the number again (halves are
/// taken as f32), else the bits.
fn print_float(bits: u64, ty: Type, out: &mut String) -> std::fmt::Result {
    let (exponent, fraction) = format_of(ty);
    let infinity = ((1u64 << exponent) - 1) << fraction;
    let (sign, magnitude) =
        (bits >> (exponent + fraction), bits & ((1 << (exponent + fraction)) - 1));
    if magnitude >= infinity {
        *out += if sign == 1 { "-" } else { "" };
        let (payload, quiet) =
            (magnitude & ((1 << (fraction - 1)) - 1), magnitude >> (fraction - 1) & 1);
        return match (magnitude == infinity, quiet) {
            (true, _) => write!(out, "inf"),
            (false, 1) => write!(out, "qnan(0x{payload:X})"),
            (false, _) => write!(out, "snan(0x{payload:X})"),
        };
    }
    let value = match ty {
        Type::Hf => f64::from(F16::from_bits(bits as u32).to_f32()),
        Type::F => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    };
    let again = |text: &str| match ty {
        Type::Df => text.parse() == Ok(value),
        _ => text.parse() == Ok(value as f32),
    };
    let short = general(value);
    if again(&short) {
        *out += &short;
        *out += if short.contains(['.', 'e']) { "" } else { ".0" };
        return Ok(());
    }
    let long = two_digits(&format!("{value:.6e}"));
    if again(&long) {
        return write!(out, "{long}");
    }
    write!(out, "0x{bits:X}")
}

/// The exponent with a sign and at least two digits.
fn two_digits(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// Six digits without zeros at the end: plain for exponents -4 to 5, else with an exponent.
fn general(value: f64) -> String {
    let scientific = format!("{value:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match exponent {
        -4..=5 => trim(&format!("{value:.*}", (5 - exponent) as usize)),
        _ => two_digits(&format!("{}e{exponent}", trim(mantissa))),
    }
}
