//! What instructions compute, against plain loops.

use crate::common::cases::{Case, FP16, INT8, all, codes, load, round, store, tile};
use crate::common::extra::{vector, vp_self};
use crate::common::{Random, arch, axes, chain, inst, num, problems, with};
use quincunx_isa::Coverage;
use quincunx_npu::isa::TABLE;
use quincunx_npu::ports::Ports;
use quincunx_npu::program::Program;
use quincunx_npu::simulate::{Executor, Settings};
use quincunx_tensor::{Tensor, Tensors};

/// The first output that differs.
fn difference(case: &Case) -> Option<String> {
    let executor = Executor::new(case.programs.clone(), &arch(), Settings::default());
    let executor = match executor {
        Ok(executor) => executor,
        Err(problems) => return Some(format!("{problems:?}")),
    };
    let ports = Ports::tensors(executor.work(), executor.order());
    let mut state = executor.state();
    ports.write(&case.inputs, &mut state).unwrap();
    executor.run(&mut state).unwrap();
    let outputs = ports.read(&state).unwrap();
    case.expected.iter().find_map(|(name, expected)| {
        let found = outputs[name].to_f64();
        let at = found.iter().zip(expected).position(|(a, b)| a != b)?;
        Some(format!("{name}[{at}] is {}, expected {}", found[at], expected[at]))
    })
}

#[test]
fn outputs_are_those_of_plain_loops() {
    for case in all() {
        assert_eq!(difference(&case), None, "{}", case.name);
    }
}

/// The programs break no rule, and use every instruction.
#[test]
fn the_programs_are_legal_and_reach_every_instruction() {
    let mut coverage = Coverage::new(&TABLE);
    for case in all() {
        let errors: Vec<_> =
            problems(&case.programs).into_iter().filter(|p| p.is_error()).collect();
        assert_eq!(errors, [], "{}", case.name);
        for inst in case.programs.iter().flat_map(|program| program.instructions()) {
            coverage.mark(inst.row());
        }
    }
    assert_eq!(coverage.missing(), Vec::<&str>::new());
}

/// Outputs of a program.
fn outputs(program: Program, inputs: &Tensors, settings: Settings) -> Tensors {
    let executor = Executor::new(vec![program], &arch(), settings).unwrap();
    let ports = Ports::tensors(executor.work(), executor.order());
    let mut state = executor.state();
    ports.write(inputs, &mut state).unwrap();
    executor.run(&mut state).unwrap();
    ports.read(&state).unwrap()
}

/// Channels, kernel rows and columns of the convolution with long sums.
const LONG: [usize; 3] = [64, 9, 7];

/// A convolution of one position whose sums are above 2^24, less about as much, beginning with a
/// block of channels.
fn long_sum(phase: i128, inputs: &Tensors) -> Vec<f64> {
    let [c, r, s] = LONG;
    let row = |stem: &str| axes(stem, "crs", &LONG.map(|extent| extent as i128));
    let mut insts = load(INT8, 0, 0, 1, LONG).to_vec();
    insts.push(with("lw_cfg", &[("bas", 1), ("df", INT8)], &[row("source"), row("dest")]));
    let size = [vec![("size_k".to_owned(), 3)], row("size")].concat();
    insts.push(with("lw_mov", &[("ss", 1), ("x_cut", 3)], &[size]));
    let fm = [("if_sign", 1), ("of_sign", 1), ("sf", INT8), ("wf", INT8), ("df", INT8)];
    insts.push(with("pe_cfg_fm", &fm, &[tile("source", LONG), tile("dest", [3, 1, 1])]));
    let pm = [("qc", 2), ("qk", num(1.0)), ("stride_h", 1), ("stride_w", 1), ("x_cut", 3)];
    insts.push(inst("pe_cfg_pm", &pm));
    let tp = [("kernel_r", r as i128), ("kernel_s", s as i128), ("mtk0", 1), ("mtc0", 1)];
    insts.push(with("pe_cfg_tp", &tp, &[axes("tile", "nkchw", &[1, 3, c as i128, 1, 1])]));
    insts.push(inst("pe_conv", &[("ps", phase), ("dtaddr", 65536)]));
    insts.extend(store(INT8, 65536, 65536, 1, [3, 1, 1]));
    let settings = Settings { float_accumulation: true, ..Settings::default() };
    outputs(chain(insts, None), inputs, settings)["dram0_65536"].to_f64()
}

/// Sums of f32 numbers depend on the order, which the phase changes.
#[test]
fn float_sums_are_those_of_plain_loops() {
    let [c, r, s] = LONG;
    let mut random = Random::new(31);
    let mut large = |count: usize| -> Vec<f64> {
        (0..count).map(|_| 127.0 - random.below(60) as f64).collect()
    };
    let (x, weights) = (large(c * r * s), large(3 * c * r * s));
    let eight = |k: usize, position: usize, block: usize| -> f64 {
        (block * 8..block * 8 + 8)
            .map(|ci| x[ci * r * s + position] * weights[(k * c + ci) * r * s + position])
            .sum()
    };
    let total = |k: usize| -> f64 {
        (0..r * s).flat_map(|at| (0..c / 8).map(move |block| eight(k, at, block))).sum()
    };
    let offsets: Vec<f64> = (0..3).map(|k| -f64::from(total(k) as f32)).collect();
    assert!(offsets.iter().all(|&offset| offset < -f64::from(1 << 24)));
    let tensor = |shape: &[usize], list: &[f64]| Tensor::from_vec(shape, list.to_vec()).unwrap();
    let inputs = Tensors::from([
        ("dram0_0".to_owned(), tensor(&[1, c, r, s], &x)),
        ("dram1_0_w".to_owned(), tensor(&[3, c, r, s], &weights)),
        ("dram1_0_a".to_owned(), tensor(&[3], &[1.0; 3])),
        ("dram1_0_b".to_owned(), tensor(&[3], &offsets)),
    ]);
    let mut found = Vec::new();
    for phase in 0..8 {
        let expected: Vec<f64> = (0..3)
            .map(|k| {
                let mut sum = 0.0_f32;
                for position in 0..r * s {
                    for step in 0..8 {
                        sum += eight(k, position, (step + phase) % 8) as f32;
                    }
                }
                round(sum + offsets[k] as f32)
            })
            .collect();
        assert_eq!(long_sum(phase as i128, &inputs), expected, "phase {phase}");
        found.push(expected);
    }
    assert!(found.iter().any(|list| *list != found[0]), "the phase changes nothing: {found:?}");
}

/// Lines of one workload with the same addresses work on the images of a batch, if asked for.
#[test]
fn images_of_a_batch_advance_if_asked_for() {
    let shape = [5, 2, 3];
    for format in [INT8, FP16] {
        let mut insts = load(INT8, 0, 0, 3, shape).to_vec();
        insts.extend(vector(shape, [INT8, format], false, 0.5, 1.0, 1.0));
        insts.extend([vp_self(0, 4096), vp_self(0, 4096), vp_self(0, 4096)]);
        insts.extend(store(format, 4096, 4096, 3, shape));
        let mut program = chain(insts, None);
        let vectors = program.lines.iter_mut().filter(|line| line.inst.mnemonic() == "vp_self");
        for (tile, line) in vectors.enumerate() {
            let map = line.map.as_mut().unwrap();
            (map.wkl, map.tile) = (7, Some(tile as i32));
        }
        let x = codes(&mut Random::new(8), &[3, 5, 2, 3]);
        let value = |code: f64| {
            let value = code * 0.5 + 1.0;
            if format == INT8 { round(value as f32) } else { value }
        };
        let expected: Vec<f64> = x.to_f64().into_iter().map(value).collect();
        let inputs = Tensors::from([("dram0_0".to_owned(), x)]);
        let advance = Settings { advance_images: true, ..Settings::default() };
        let found = outputs(program.clone(), &inputs, advance);
        assert_eq!(found["dram0_4096"].to_f64(), expected);
        // As written, every line works on image 0.
        let mut first = expected;
        first[30..].fill(0.0);
        let found = outputs(program, &inputs, Settings::default());
        assert_eq!(found["dram0_4096"].to_f64(), first);
    }
}

/// Raw ports are DRAM byte by byte: pixels with their channels, weights with their parameters.
#[test]
fn raw_ports_are_bytes() {
    let case = all().into_iter().find(|case| case.name == "conv").unwrap();
    let executor = Executor::new(case.programs, &arch(), Settings::default()).unwrap();
    let ports = Ports::bytes(executor.work(), &arch()).unwrap();
    let (x, w) = (&case.inputs["dram0_0"], &case.inputs["dram1_0_w"]);
    let ([n, c, h, wide], [k, _, r, s]) = ([2, 11, 6, 5], [10, 11, 3, 2]);
    let byte = |code: f64| f64::from(code as i8 as u8);
    let (x, w) = (x.to_f64(), w.to_f64());
    let mut activations = Vec::new();
    for pixel in 0..n * h * wide {
        let (image, place) = (pixel / (h * wide), pixel % (h * wide));
        activations.extend((0..c).map(|c_at| byte(x[(image * c + c_at) * h * wide + place])));
    }
    let mut weights = Vec::new();
    for ko in 0..k {
        for place in 0..r * s {
            weights.extend((0..c).map(|c_at| byte(w[(ko * c + c_at) * r * s + place])));
            weights.extend([0.0; 5]);
        }
        let parameters =
            ["a", "b"].map(|part| case.inputs[&format!("dram1_0_{part}")].to_f64()[ko]);
        for parameter in parameters {
            weights.extend((parameter as f32).to_le_bytes().map(f64::from));
        }
        weights.extend([0.0; 24]);
    }
    let port = |list: Vec<f64>| Tensor::from_vec(&[list.len()], list).unwrap();
    let inputs = Tensors::from([
        ("dram0".to_owned(), port(activations)),
        ("dram1".to_owned(), port(weights)),
    ]);
    let mut state = executor.state();
    ports.write(&inputs, &mut state).unwrap();
    executor.run(&mut state).unwrap();
    let bytes = ports.read(&state).unwrap()["dram0"].to_f64();
    let (name, expected) = &case.expected[0];
    let base: usize = name.strip_prefix("dram0_").unwrap().parse().unwrap();
    let [rows, columns] = [6, 6];
    assert_eq!(expected.len(), n * k * rows * columns);
    assert_eq!(bytes.len(), base + expected.len());
    for (element, &code) in expected.iter().enumerate() {
        let (image, rest) = (element / (k * rows * columns), element % (k * rows * columns));
        let (channel, place) = (rest / (rows * columns), rest % (rows * columns));
        let at = base + (image * rows * columns + place) * k + channel;
        assert_eq!(bytes[at], byte(code), "{element}");
    }
}
