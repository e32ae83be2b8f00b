//! Minifloats against tables made with ml_dtypes (`minifloat/make_tables.py`): every code decoded,
//! and encoding at every number, at every midpoint and beside it.

use quincunx_num::{
    Bf16, E2M1, E2M3, E3M2, E4M3, E4M3Fnuz, E5M2, E5M2Fnuz, F16, FloatOverflow, Minifloat,
    Specials, Tf32, e8m0_to_f64,
};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::process::Command;

const TABLES: &str = include_str!("../minifloat/tables.txt");

/// Every how many entries a large table has a sample.
const SAMPLE: usize = 4099;

/// The entry `FORMAT KIND DATA` of the tables.
fn entry(format: &str, kind: &str) -> &'static str {
    let start = format!("{format} {kind} ");
    TABLES
        .lines()
        .find_map(|line| line.strip_prefix(&start))
        .unwrap_or_else(|| panic!("the tables lack {start}"))
}

fn hex(text: &str) -> Vec<u32> {
    text.split(' ').map(|word| u32::from_str_radix(word, 16).unwrap()).collect()
}

/// Compares a list with its table, or with the digest and the sample of its table.
fn check(format: &str, kind: &str, width: u32, ours: &[u32]) {
    if width <= 8 {
        let table = hex(entry(format, kind));
        assert_eq!(ours.len(), table.len(), "{format} {kind}");
        for (index, (ours, theirs)) in ours.iter().zip(table).enumerate() {
            assert_eq!(*ours, theirs, "{format} {kind} {index}: {ours:#x}, not {theirs:#x}");
        }
        return;
    }
    let sample: Vec<u32> = ours.iter().step_by(SAMPLE).copied().collect();
    assert_eq!(sample, hex(entry(format, &format!("{kind}-sample"))), "{format} {kind}");
    let bytes: Vec<u8> = ours.iter().flat_map(|value| value.to_le_bytes()).collect();
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, entry(format, &format!("{kind}-sha256")), "{format} {kind}");
}

/// The inputs of the encoding tables, as `inputs` of the script defines them.
fn inputs<const E: u32, const M: u32, S: Specials>() -> Vec<f32> {
    let number = |code| Minifloat::<E, M, S>::from_bits(code).to_f64();
    let largest = Minifloat::<E, M, S>::MAX.to_bits();
    let mut positive = Vec::new();
    for code in 0..=largest {
        let below = code.min(largest - 1);
        let middle = (number(code) + (number(below + 1) - number(below)) / 2.0) as f32;
        let bits = middle.to_bits();
        positive.extend([(number(code) as f32).to_bits(), bits - 1, bits, bits + 1]);
    }
    positive.extend([1, 0x007f_ffff, 0x0080_0000, 0x7f7f_ffff, 0x7f80_0000]);
    if Minifloat::<E, M, S>::NAN.is_some() {
        positive.extend([0x7fc0_0000, 0x7f80_0001]);
    }
    let negative = positive.iter().map(|bits| bits | 1 << 31);
    positive.iter().copied().chain(negative).map(f32::from_bits).collect()
}

fn matches_the_tables<const E: u32, const M: u32, S: Specials>(format: &str) {
    let width = Minifloat::<E, M, S>::WIDTH;
    let codes = (0..1_u32 << width).map(Minifloat::<E, M, S>::from_bits);
    let decoded: Vec<u32> = codes.map(|code| code.to_f32().to_bits()).collect();
    check(format, "decode", width, &decoded);

    // Formats without NaN cannot say that a number is above their range; ml_dtypes saturates.
    let overflow = match Minifloat::<E, M, S>::NAN {
        Some(_) => FloatOverflow::Infinity,
        None => FloatOverflow::Saturate,
    };
    let encode = |value| Minifloat::<E, M, S>::from_f32(value, overflow).unwrap().to_bits();
    let encoded: Vec<u32> = inputs::<E, M, S>().into_iter().map(encode).collect();
    check(format, "encode", width, &encoded);
}

fn round_trips<const E: u32, const M: u32, S: Specials>() {
    for bits in 0..1_u32 << Minifloat::<E, M, S>::WIDTH {
        let code = Minifloat::<E, M, S>::from_bits(bits);
        let back = Minifloat::<E, M, S>::from_f64(code.to_f64(), FloatOverflow::Infinity);
        let expected = if code.is_nan() { Minifloat::<E, M, S>::NAN } else { Some(code) };
        assert_eq!(back, expected);
        assert_eq!(code.to_f64().is_nan(), code.is_nan());
        assert_eq!(code.to_f64().is_infinite(), code.is_infinite());
        assert_eq!(f64::from(code.to_f32()).to_bits(), code.to_f64().to_bits());
    }
}

/// The midpoints between neighbouring numbers, and that above the largest number.
fn midpoints<const E: u32, const M: u32, S: Specials>() -> impl Iterator<Item = f64> {
    let largest = usize::try_from(Minifloat::<E, M, S>::MAX.to_bits()).unwrap();
    let positive = inputs::<E, M, S>().into_iter().take(4 * (largest + 1));
    positive.skip(2).step_by(4).map(f64::from)
}

/// The f64 numbers beside a midpoint round to different sides, so there is no rounding to f32 in
/// between, which would make ties of them.
fn rounds_once<const E: u32, const M: u32, S: Specials>() {
    let round = |value| Minifloat::<E, M, S>::from_f64(value, FloatOverflow::Saturate).unwrap();
    for (code, middle) in midpoints::<E, M, S>().enumerate() {
        let lower = Minifloat::<E, M, S>::from_bits(u32::try_from(code).unwrap());
        let upper = lower.to_bits() + u32::from(lower != Minifloat::<E, M, S>::MAX);
        assert_eq!(round(middle.next_down()), lower, "{middle:e}");
        assert_eq!(round(middle.next_up()).to_bits(), upper, "{middle:e}");
    }
}

/// Saturation changes results that are not finite, and nothing else.
fn saturates<const E: u32, const M: u32, S: Specials>() {
    for input in inputs::<E, M, S>().into_iter().filter(|input| !input.is_nan()) {
        let saturated = Minifloat::<E, M, S>::from_f32(input, FloatOverflow::Saturate).unwrap();
        match Minifloat::<E, M, S>::from_f32(input, FloatOverflow::Infinity) {
            Some(code) if code.to_f64().is_finite() => assert_eq!(code, saturated),
            _ => {
                let largest = f64::from(Minifloat::<E, M, S>::MAX.to_f32());
                assert_eq!(saturated.to_f64(), largest.copysign(f64::from(input)));
                assert!(f64::from(input).abs() > largest);
            }
        }
    }
}

macro_rules! formats {
    ($($name:ident $format:ty;)*) => {$(
        #[test]
        fn $name() {
            fn all<const E: u32, const M: u32, S: Specials>(_: fn(Minifloat<E, M, S>)) {
                matches_the_tables::<E, M, S>(stringify!($name));
                round_trips::<E, M, S>();
                rounds_once::<E, M, S>();
                saturates::<E, M, S>();
            }
            all(|_: $format| ());
        }
    )*};
}

formats! {
    f16 F16;
    bf16 Bf16;
    tf32 Tf32;
    e5m2 E5M2;
    e4m3 E4M3;
    e5m2fnuz E5M2Fnuz;
    e4m3fnuz E4M3Fnuz;
    e3m2 E3M2;
    e2m3 E2M3;
    e2m1 E2M1;
}

#[test]
fn e8m0() {
    for (code, bits) in hex(entry("e8m0", "decode")).into_iter().enumerate() {
        let scale = e8m0_to_f64(u8::try_from(code).unwrap());
        assert_eq!((scale as f32).to_bits(), bits, "{code}");
    }
}

#[test]
fn what_has_no_code_is_refused() {
    for overflow in [FloatOverflow::Infinity, FloatOverflow::Saturate] {
        assert_eq!(E2M1::from_f64(f64::NAN, overflow), None);
        assert_eq!(E4M3::from_f64(-f64::NAN, overflow).unwrap().to_bits(), 0x7f);
    }
    assert_eq!(E2M1::from_f64(7.0, FloatOverflow::Infinity), None);
    assert_eq!(E2M1::from_f64(-7.0, FloatOverflow::Saturate).unwrap().to_f64(), -6.0);
    assert_eq!(E5M2::from_f64(f64::INFINITY, FloatOverflow::Saturate), Some(E5M2::MAX));
}

/// The committed tables are what the script prints.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn tables_are_those_of_ml_dtypes() {
    let python = std::env::var("QUINCUNX_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let works = Command::new(&python).args(["-c", "import numpy, ml_dtypes"]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
        assert!(!required, "{python} with numpy and ml_dtypes is required");
        eprintln!("skipped: {python} with numpy and ml_dtypes not found");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/minifloat/make_tables.py");
    let output = Command::new(python).arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.lines().eq(TABLES.lines()), "make the tables again and read the difference");
}
