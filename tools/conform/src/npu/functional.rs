//! Single operators against the outputs of a reference.

use super::build::{
    ConvCase, VectorCase, advanced, conv, lw, number, program, regions, vector, word,
};
use super::{Check, first, read_json};
use crate::folder;
use crate::report::Report;
use quincunx_npu::arch::NpuArch;
use quincunx_npu::isa::{DataFmt, Inst, Queues, YCutMode};
use quincunx_npu::simulate::{Executor, Settings, State};
use quincunx_tensor::{Tensor, npy};
use serde_json::Value;
use std::path::Path;

/// Runs every case.
pub(super) fn run(path: &Path, report: &mut Report) {
    let cases = match read_json(&path.join("cases.json")) {
        Err(reason) => return report.case("cases", Err(reason)),
        Ok(cases) => cases,
    };
    for case in cases.as_array().into_iter().flatten() {
        let name = case["name"].as_str().unwrap_or("?");
        report.case(name, operator(path, name, case));
    }
}

fn tensor(path: &Path, name: &str, part: &str) -> Check<Tensor> {
    let file = format!("{name}.{part}.npy");
    npy::read_npy(folder::read(&path.join(&file))?).map_err(|error| format!("{file}: {error}"))
}

fn operator(path: &Path, name: &str, case: &Value) -> Check {
    let expected = tensor(path, name, "y")?;
    let found = match word(case, "op")? {
        "pe_conv" => convolve(path, name, case, &expected)?,
        _ => vectorise(path, name, case, &expected)?,
    };
    let wanted = expected.to_f64();
    match found.iter().zip(&wanted).position(|(a, b)| a != b) {
        _ if found.len() != wanted.len() => Err("another number of results".to_owned()),
        Some(at) => Err(format!("element {at} is {}, expected {}", found[at], wanted[at])),
        None => Ok(()),
    }
}

fn shape4(tensor: &Tensor) -> Check<[u16; 4]> {
    let shape = tensor.shape();
    let list: Vec<u16> = match shape.len() {
        4 => shape.iter().map(|&extent| extent as u16).collect(),
        3 => std::iter::once(1).chain(shape.iter().map(|&extent| extent as u16)).collect(),
        2 => shape.iter().map(|&e| e as u16).chain([1, 1]).collect(),
        _ => return Err(format!("a tensor with {} axes", shape.len())),
    };
    list.try_into().map_err(|_| "four axes".to_owned())
}

/// NCHW numbers to pixels whose channels are padded to 8 bytes.
fn pack(values: &[f64], [n, c, h, w]: [u16; 4], half: bool) -> Vec<u8> {
    let [n, c, h, w] = [n, c, h, w].map(usize::from);
    let bytes = if half { 2 } else { 1 };
    let pitch = (c * bytes).div_ceil(8) * 8;
    let mut out = vec![0; n * h * w * pitch];
    for (index, &value) in values.iter().enumerate() {
        let (x, y) = (index % w, index / w % h);
        let (channel, image) = (index / (w * h) % c, index / (w * h * c));
        let at = ((image * h + y) * w + x) * pitch + channel * bytes;
        match half {
            true => {
                let half =
                    quincunx_num::F16::from_f64(value, quincunx_num::FloatOverflow::Infinity);
                let bits = half.map_or(0, quincunx_num::F16::to_bits) as u16;
                out[at..at + 2].copy_from_slice(&bits.to_le_bytes());
            }
            false => out[at] = value as i8 as u8,
        }
    }
    out
}

fn unpack(bytes: &[u8], [n, c, h, w]: [u16; 4], half: bool) -> Vec<f64> {
    let [n, c, h, w] = [n, c, h, w].map(usize::from);
    let width = if half { 2 } else { 1 };
    let pitch = (c * width).div_ceil(8) * 8;
    let element = |index: usize| {
        let (x, y) = (index % w, index / w % h);
        let (channel, image) = (index / (w * h) % c, index / (w * h * c));
        let at = ((image * h + y) * w + x) * pitch + channel * width;
        match half {
            true => {
                let bits = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
                quincunx_num::F16::from_bits(bits.into()).to_f64()
            }
            false => f64::from(bytes[at] as i8),
        }
    };
    (0..n * c * h * w).map(element).collect()
}

/// Inputs at 64 KiB and 2 MiB, output at 4 MiB.
const FIRST: i32 = 1 << 16;
const SECOND: i32 = 2 << 20;
const OUTPUT: i32 = 4 << 20;

fn simulate(insts: Vec<Inst>, prepare: impl FnOnce(&mut State) -> Check) -> Check<State> {
    let (prev, next) = (Queues::NONE, Queues::NONE);
    let begin = [Inst::CtSt { prev, next }, regions()];
    let insts = begin.into_iter().chain(insts).chain([Inst::CtEd { prev, next }]).collect();
    let arch = NpuArch::preset("gemini").map_err(|problem| problem.to_string())?;
    let executor = Executor::new(vec![program(insts)], &arch, Settings::default());
    let executor = executor.map_err(|problems| first(&problems))?;
    let mut state = executor.state();
    prepare(&mut state)?;
    executor.run(&mut state).map_err(|problem| problem.to_string())?;
    Ok(state)
}

fn convolve(path: &Path, name: &str, case: &Value, expected: &Tensor) -> Check<Vec<f64>> {
    let (x, w) = (tensor(path, name, "x")?, tensor(path, name, "w")?);
    let (a, b) = (tensor(path, name, "a")?.to_f64(), tensor(path, name, "b")?.to_f64());
    let input = shape4(&x)?;
    let weights = shape4(&w)?;
    let output = shape4(expected)?;
    let [top, _, left, _] = case["padding_tblr"].as_array().map_or([0; 4], |pads| {
        std::array::from_fn(|i| pads.get(i).and_then(Value::as_i64).unwrap_or(0) as i32)
    });
    let [k, c, r, s] = weights;
    let half = word(case, "out")? == "float16";
    let pitch = i32::from(c).div_euclid(8) * 8 + if c % 8 == 0 { 0 } else { 8 };
    let start = (-top * i32::from(input[3]) - left) * pitch;
    let stride = number(case, "stride")? as u8;
    let mut insts = lw(k, [c, r, s], 0);
    insts.extend(conv(&ConvCase {
        source: [input[1], input[2], input[3]],
        dest: [output[1], output[2], output[3]],
        tile: [output[0], k, c, output[2], output[3]],
        kernel: [r as u8, s as u8],
        stride: [stride, stride],
        mini: (1, 1, [0, 0]),
        y_cut: YCutMode::CUT_H,
        start: [-top as i8, -left as i8],
        pad: number(case, "PADV")?,
        relu: case["relu"] == Value::Bool(true),
        quantiser: (number(case, "QK")?, number(case, "QB")?),
        output: if half { DataFmt::FP16 } else { DataFmt::INT8 },
        places: (FIRST + start, OUTPUT),
    }));
    let mut state = simulate(insts, |state| {
        let bytes = pack(&x.to_f64(), input, false);
        state.l2(0)[FIRST as usize..][..bytes.len()].copy_from_slice(&bytes);
        let block = weight_block(&w.to_f64(), weights, &a, &b);
        state.dram[1].write(0, &block).map_err(|problem| problem.to_string())
    })?;
    Ok(unpack(&state.l2(0)[OUTPUT as usize..], output, half))
}

/// Weights as DRAM holds them: per output channel `[r][s][c]` with padded channels, then a and b.
fn weight_block(values: &[f64], [k, c, r, s]: [u16; 4], a: &[f64], b: &[f64]) -> Vec<u8> {
    let [k, c, r, s] = [k, c, r, s].map(usize::from);
    let width = c.div_ceil(8) * 8;
    let row = width * r * s + 32;
    let mut out = vec![0; k * row];
    for (index, &value) in values.iter().enumerate() {
        let (column, line) = (index % s, index / s % r);
        let (channel, own) = (index / (s * r) % c, index / (s * r * c));
        out[own * row + (line * s + column) * width + channel] = value as i8 as u8;
    }
    for (own, (&a, &b)) in a.iter().zip(b).enumerate() {
        let at = own * row + width * r * s;
        out[at..at + 4].copy_from_slice(&(a as f32).to_le_bytes());
        out[at + 4..at + 8].copy_from_slice(&(b as f32).to_le_bytes());
    }
    out
}

fn vectorise(path: &Path, name: &str, case: &Value, expected: &Tensor) -> Check<Vec<f64>> {
    let x = tensor(path, name, "x")?;
    let (input, output) = (shape4(&x)?, shape4(expected)?);
    let mode = word(case, "mode")?;
    let halves = [mode == "fp16->int8", mode == "int8->fp16"];
    let or = |key: &str, value: f64| case.get(key).and_then(Value::as_f64).unwrap_or(value);
    let pad = or("pad", 0.0) as i8;
    let width = if halves[0] { 2 } else { 1 };
    let pitch = (i32::from(input[1]) * width + 7) / 8 * 8;
    let offset = -i32::from(pad) * (i32::from(input[3]) + 1) * pitch;
    let window = or("kernel", 1.0) as u8;
    let formats = halves.map(|half| if half { DataFmt::FP16 } else { DataFmt::INT8 });
    let two = mode == "add";
    let mut insts = vector(&VectorCase {
        pool: ["max", "avg"].contains(&mode),
        formats,
        source: [input[1], input[2], input[3]],
        tile: [output[1], output[2], output[3]],
        window: [window, window],
        stride: or("stride", 1.0) as u8,
        pad,
        two,
        relu: case.get("relu") == Some(&Value::Bool(true)),
        max: mode == "max",
        dequantise: case.get("IQK0").is_some(),
        first: (or("IQK0", 1.0), or("IQB0", 0.0)),
        second: (or("IQK1", 0.0), or("IQB1", 0.0)),
        mean: or("MG0V", 0.0),
        quantiser: (or("QK", 1.0), or("QB", 0.0)),
        places: (FIRST + offset, SECOND, OUTPUT),
    });
    for image in 1..i32::from(input[0]) {
        let step = |[_, c, h, w]: [u16; 4], half: bool| {
            let pitch = (i32::from(c) * if half { 2 } else { 1 } + 7) / 8 * 8;
            image * pitch * i32::from(h) * i32::from(w)
        };
        let (from, to) = (step(input, halves[0]), step(output, halves[1]));
        insts.push(advanced(insts[8], from, to));
    }
    let second = if two { Some(tensor(path, name, "z")?) } else { None };
    let mut state = simulate(insts, |state| {
        let bytes = pack(&x.to_f64(), input, halves[0]);
        state.l2(0)[FIRST as usize..][..bytes.len()].copy_from_slice(&bytes);
        if let Some(second) = second {
            let bytes = pack(&second.to_f64(), input, halves[0]);
            state.l2(0)[SECOND as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    })?;
    Ok(unpack(&state.l2(0)[OUTPUT as usize..], output, halves[1]))
}
