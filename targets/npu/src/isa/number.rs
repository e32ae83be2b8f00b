//! Numbers that the text writes with or without a decimal point.

use quincunx_diag::Result;
use quincunx_isa::{Cursor, Custom, OperandValue};
use std::fmt;

/// A finite number as the text holds it: `0` is not `0.0`.
///
/// The bits are those of an f64, or a whole number of 32 bits in the payload of a NaN.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number(u64);

const WHOLE: u64 = 0xfff8_0001_0000_0000;

impl Number {
    /// 0 with a decimal point.
    pub const ZERO: Number = Number(0);

    /// A number with a decimal point; `None` for infinities and NaN.
    pub fn real(value: f64) -> Option<Number> {
        value.is_finite().then_some(Number(value.to_bits()))
    }

    /// A number without a decimal point.
    pub fn whole(value: i32) -> Number {
        Number(WHOLE | u64::from(value as u32))
    }

    /// The whole number, if it is written as one.
    pub fn as_whole(self) -> Option<i32> {
        (self.0 & 0xffff_ffff_0000_0000 == WHOLE).then_some(self.0 as u32 as i32)
    }

    /// The value.
    pub fn value(self) -> f64 {
        self.as_whole().map_or(f64::from_bits(self.0), f64::from)
    }

    /// The value as machine code has it.
    pub fn single(self) -> f32 {
        self.value() as f32
    }

    /// Appends the text: the shortest decimal that reads back as the same number, with an exponent
    /// of at least two digits below 0.0001 and from 1e16 on, as Python writes it.
    pub fn print(self, out: &mut Vec<u8>) {
        match self.as_whole() {
            Some(whole) => out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes()),
            None => print_real(f64::from_bits(self.0), out),
        }
    }

    /// Reads a number that takes all of the text.
    pub fn parse(text: &[u8]) -> Option<Number> {
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let (first, last) = (digits.first()?, digits.last()?);
        let plain = digits.iter().all(u8::is_ascii_digit);
        // `01`, `.5`, `1.` and words are not numbers.
        if !first.is_ascii_digit()
            || !last.is_ascii_digit()
            || (digits.len() > 1 && *first == b'0' && digits[1].is_ascii_digit())
        {
            return None;
        }
        let text = std::str::from_utf8(text).ok()?;
        if plain {
            let whole = text.parse().ok()?;
            // A whole number has no negative zero.
            return (text != "-0").then_some(Number::whole(whole));
        }
        let marks = b"0123456789.e+-";
        let known = digits.iter().all(|byte| marks.contains(byte));
        known.then(|| Number::real(text.parse().ok()?)).flatten()
    }
}

fn print_real(value: f64, out: &mut Vec<u8>) {
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value).as_bytes();
    let magnitude = value.abs();
    let plain = memchr::memchr(b'e', text).is_none();
    if plain && (value == 0.0 || (1e-4..1e16).contains(&magnitude)) {
        out.extend_from_slice(text);
        return;
    }
    // Digits and exponent of the shortest decimal, laid out anew.
    let (mantissa, exponent) = match memchr::memchr(b'e', text) {
        Some(at) => (&text[..at], std::str::from_utf8(&text[at + 1..]).expect("digits")),
        None => (text, "0"),
    };
    let mut exponent: i32 = exponent.parse().expect("a decimal has a whole exponent");
    if let Some(rest) = mantissa.strip_prefix(b"-") {
        out.push(b'-');
        return layout(rest, &mut exponent, out);
    }
    layout(mantissa, &mut exponent, out);
}

/// Writes digits with a point somewhere, times a power of ten.
fn layout(mantissa: &[u8], exponent: &mut i32, out: &mut Vec<u8>) {
    let point = mantissa.iter().position(|&byte| byte == b'.').unwrap_or(mantissa.len());
    let mut digits: Vec<u8> = mantissa.iter().copied().filter(u8::is_ascii_digit).collect();
    // The value is 0.DIGITS * 10^scale.
    let mut scale = point as i32 + *exponent;
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    digits.drain(..zeros.min(digits.len() - 1));
    scale -= zeros as i32;
    while digits.len() > 1 && digits.last() == Some(&b'0') {
        digits.pop();
    }
    let power = scale - 1;
    if (-4..16).contains(&power) {
        if scale <= 0 {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', -scale as usize));
            out.extend_from_slice(&digits);
        } else {
            let whole = scale as usize;
            digits.resize(digits.len().max(whole), b'0');
            out.extend_from_slice(&digits[..whole]);
            out.push(b'.');
            out.extend_from_slice(if digits.len() > whole { &digits[whole..] } else { b"0" });
        }
        return;
    }
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    out.extend_from_slice(
        format!("e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs()).as_bytes(),
    );
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.print(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl OperandValue for Number {
    fn to_raw(self) -> i128 {
        i128::from(self.0)
    }
    fn from_raw(raw: i128) -> Option<Self> {
        let number = Number(u64::try_from(raw).ok()?);
        (number.as_whole().is_some() || f64::from_bits(number.0).is_finite()).then_some(number)
    }
}

/// A number in text.
pub(super) static NUMBER: Custom = Custom {
    name: "number with or without a decimal point",
    parse: |cursor: &mut Cursor<'_>| -> Result<i128> {
        let rest = cursor.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let text = &rest[..length];
        match Number::parse(text.as_bytes()) {
            Some(number) if cursor.eat(text) => Ok(number.to_raw()),
            _ => Err(cursor.expected("a number")),
        }
    },
    print: |raw, out| out.push_str(&format!("{:?}", Number::from_raw(raw).unwrap_or(Number(0)))),
    legal: |raw| Number::from_raw(raw).is_some(),
    random: |below| {
        // What a machine word holds comes back the same.
        let single = f32::from_bits(below(1 << 32) as u32);
        let single = if single.is_finite() { single } else { below(1000) as f32 - 500.0 };
        Number(f64::from(single).to_bits()).to_raw()
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python prints for these numbers.
    #[test]
    fn numbers_print_as_python_does() {
        for text in [
            "0",
            "0.0",
            "-0.0",
            "6.0",
            "-128.0",
            "0.010357193648815155",
            "1e-05",
            "1.5e-07",
            "0.0001",
            "0.00012",
            "1e+16",
            "1.25e+20",
            "1000000000000000.0",
            "9007199254740993.0",
            "123456789012345.6",
            "5e-324",
            "1.7976931348623157e+308",
            "-2.5e-10",
            "43.62298146446928",
            "-2147483648",
            "100.0",
        ] {
            let number = Number::parse(text.as_bytes()).unwrap();
            let shown = format!("{number:?}");
            if text != "9007199254740993.0" {
                assert_eq!(shown, text);
            }
        }
        assert_eq!(
            format!("{:?}", Number::real(9007199254740992.0).unwrap()),
            "9007199254740992.0"
        );
    }

    #[test]
    fn other_texts_are_no_numbers() {
        for text in [
            "",
            "-",
            "01",
            "1.",
            ".5",
            "nan",
            "inf",
            "1e999",
            "0x1",
            "--1",
            "1_0",
            "-0",
            "+1",
            "2147483648",
        ] {
            assert!(Number::parse(text.as_bytes()).is_none(), "{text}");
        }
    }
}
