//! Numbers: single products, and programs on registers.

use super::{Check, arch, assemble, hex, listing, number, platform, string};
use quincunx_dpas::precision::{Acc, Precision};
use quincunx_dpas::shape::{RowStride, Shape};
use quincunx_dpas::simulate::lower::listing_steps;
use quincunx_dpas::simulate::{Model, Operation, Rules, State, Step};
use quincunx_dpas::text::to_hex;
use serde_json::Value;

/// One product: the result of every model that the case names.
pub(super) fn check(case: &Value) -> Check {
    let acc = |key| {
        let name = string(case, key)?;
        Acc::from_name(name).ok_or_else(|| format!("unknown type {name}"))
    };
    let precision = |key| {
        let name = string(case, key)?;
        Precision::from_name(name).ok_or_else(|| format!("unknown precision {name}"))
    };
    let small = |key| Ok::<u32, String>(u32::try_from(number(case, key)?).unwrap_or(u32::MAX));
    let shape = Shape {
        weights: precision("src1_prec")?,
        activations: precision("src2_prec")?,
        depth: small("sd")?,
        repeat: small("rc")?,
        lanes: small("exec")?,
        dst: acc("dst_type")?,
        src0: acc("src0_type")?,
        stride: RowStride::Full,
    };
    let sane = [1, 2, 4, 8].contains(&shape.depth)
        && (1..=8).contains(&shape.repeat)
        && (1..=32).contains(&shape.lanes);
    let shape = shape.checked().map_err(super::reason)?;
    if !sane {
        return Err("the case has an impossible size".to_owned());
    }
    let mut models = vec![("dst", Rules::default())];
    if !shape.weights.is_integer() {
        let all = [Model::Seq, Model::Fma, Model::Stage, Model::Exact];
        let named = all.map(|model| (model.name(), Rules { model, ftz: false }));
        models = named.to_vec();
    }
    let mut compared = 0;
    for (name, rules) in models {
        let mut key = if name == "dst" { name.to_owned() } else { format!("dst_{name}") };
        if key == "dst_fma" && case.get(&key).is_none() {
            // It is there only where it differs.
            "dst_seq".clone_into(&mut key);
        }
        let Ok(expected) = string(case, &key) else { continue };
        compare(&key, &product(case, shape, rules)?, &elements(expected, shape.dst)?, shape.dst)?;
        compared += 1;
    }
    if compared == 0 { Err("the case expects nothing".to_owned()) } else { Ok(()) }
}

/// Runs the product with its operands one behind the other.
fn product(case: &Value, shape: Shape, rules: Rules) -> Check<Vec<u8>> {
    let src0 = match case.get("src0") {
        Some(Value::String(digits)) => Some(elements(digits, shape.src0)?),
        _ => None,
    };
    let (src1, src2) = (dwords(string(case, "src1")?)?, dwords(string(case, "src2")?)?);
    let mut bytes = vec![0; shape.dst_bytes() as usize];
    let mut place = |data: &[u8]| {
        let at = bytes.len();
        bytes.extend_from_slice(data);
        at
    };
    let operation = Operation {
        shape,
        dst: 0,
        src0: src0.as_deref().map(&mut place),
        src1: place(&src1),
        src2: place(&src2),
        offset: 0,
        no_mask: true,
        fused: false,
        scales: None,
    };
    let mut state = State { threads: vec![bytes.into()], dispatch_mask: u32::MAX };
    Step::Multiply(operation).run(&mut state, rules).map_err(super::reason)?;
    Ok(state.threads[0][..shape.dst_bytes() as usize].to_vec())
}

/// Any NaN equals any NaN.
fn compare(what: &str, found: &[u8], expected: &[u8], acc: Acc) -> Check {
    let size = acc.bytes() as usize;
    if found.len() != expected.len() {
        return Err(format!("{what} has {} bytes, found {}", expected.len(), found.len()));
    }
    let pairs = found.chunks(size).zip(expected.chunks(size));
    for (index, (found, expected)) in pairs.enumerate() {
        if found != expected && !(is_nan(found, acc) && is_nan(expected, acc)) {
            let (found, expected) = (to_hex(found), to_hex(expected));
            return Err(format!("{what}: element {index} is {found}, expected {expected}"));
        }
    }
    Ok(())
}

fn is_nan(bytes: &[u8], acc: Acc) -> bool {
    let code = bytes.iter().rev().fold(0u32, |code, &byte| code << 8 | u32::from(byte));
    match acc {
        Acc::F => f32::from_bits(code).is_nan(),
        Acc::Bf => code & 0x7fff > 0x7f80,
        Acc::Hf => code & 0x7fff > 0x7c00,
        _ => false,
    }
}

/// Numbers written high digit first, as bytes in memory order.
fn numbers(digits: &str, size: usize) -> Check<Vec<u8>> {
    let bytes = hex(digits)?;
    if bytes.len() % size != 0 {
        return Err(format!("the digits are not numbers of {size} bytes"));
    }
    Ok(bytes.chunks(size).flat_map(|number| number.iter().rev().copied()).collect())
}

fn dwords(digits: &str) -> Check<Vec<u8>> {
    numbers(digits, 4)
}

fn elements(digits: &str, acc: Acc) -> Check<Vec<u8>> {
    numbers(digits, acc.bytes() as usize)
}

/// A program on registers that a generator fills: the registers that change, and no others.
pub(super) fn program(case: &Value) -> Check {
    let platform = platform(case)?;
    let arch = arch(platform)?;
    let grf = platform.grf_bytes() as usize;
    let count = usize::try_from(number(case, "grfs")?).unwrap_or(usize::MAX).min(256);
    let before = fill(number(case, "seed")?, count * grf, string(case, "fill")?)?;
    let register = |bytes: &[u8], name: &str| -> Check<Vec<u8>> {
        let index = name.strip_prefix('r').and_then(|digits| digits.parse::<usize>().ok());
        let place = index.and_then(|index| bytes.get(index.checked_mul(grf)?..)?.get(..grf));
        place.map(<[u8]>::to_vec).ok_or_else(|| format!("there is no register {name}"))
    };
    for (name, digits) in object(case, "init_check")? {
        if register(&before, name)? != dwords(digits.as_str().unwrap_or_default())? {
            return Err(format!("{name} is not filled as expected"));
        }
    }
    let mut state = State { threads: vec![before.clone().into()], dispatch_mask: u32::MAX };
    let model = Model::from_name(string(case, "model")?).unwrap_or_default();
    let steps = case.get("program").and_then(Value::as_array).ok_or("there is no program")?;
    for step in steps {
        let asm = string(step, "asm")?;
        super::same("bytes", &to_hex(&assemble(asm, platform)?), string(step, "hex")?)?;
        let listing = listing(asm, platform)?;
        for step in listing_steps(&listing, &arch, RowStride::Full).map_err(super::reason)? {
            step.run(&mut state, Rules { model, ftz: false }).map_err(super::reason)?;
        }
    }
    let changed = object(case, "changed")?;
    for index in 0..count {
        let name = format!("r{index}");
        let expected = match changed.get(&name).and_then(Value::as_str) {
            Some(digits) => dwords(digits)?,
            None => register(&before, &name)?,
        };
        let found = register(&state.threads[0], &name)?;
        if found != expected {
            let (found, expected) = (to_hex(&found), to_hex(&expected));
            return Err(format!("{name} is {found}, expected {expected}"));
        }
    }
    Ok(())
}

fn object<'a>(case: &'a Value, key: &str) -> Check<&'a serde_json::Map<String, Value>> {
    case.get(key).and_then(Value::as_object).ok_or_else(|| format!("the case has no {key}"))
}

/// SplitMix64, as the README says.
fn fill(seed: u64, bytes: usize, kind: &str) -> Check<Vec<u8>> {
    let change: fn(u16) -> u16 = match kind {
        "raw" => |half| half,
        "bf" => |half| half & 0x81ff | 0x3e00,
        "hf" => |half| half & 0x8fff | 0x3000,
        _ => return Err(format!("unknown fill {kind}")),
    };
    let mut state = seed;
    let dwords = (0..bytes / 4).map(|_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        [change(z as u16), change((z >> 16) as u16)]
    });
    Ok(dwords.flatten().flat_map(u16::to_le_bytes).collect())
}
