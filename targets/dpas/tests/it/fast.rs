//! Prepared plans against the executor, on random programs, at every level of this processor.

use crate::common::definition::fill;
use crate::common::{Random, arch, listing};
use quincunx_contract::bench::Run;
use quincunx_contract::{Options, Target as _};
use quincunx_diag::first_error;
use quincunx_dpas::TARGET;
use quincunx_dpas::arch::Platform;
use quincunx_dpas::binary::native;
use quincunx_dpas::precision::{Acc, Precision};
use quincunx_dpas::program::{Item, Listing, Program, Statement};
use quincunx_dpas::shape::{RowStride, Shape};
use quincunx_dpas::simulate::lower::native_operation;
use quincunx_dpas::simulate::{Model, Operation, Plan, Rules, State, Step};
use quincunx_dpas::verify::{Allow, verify};
use quincunx_num::Level;
use std::fmt::Write as _;

/// Bytes of a register file that is small enough for operands to meet.
const BYTES: usize = 8192;

fn precisions(random: &mut Random) -> (Precision, Precision) {
    let integers = &Precision::ALL[..8];
    match random.below(12) {
        0..5 => (random.pick(integers), random.pick(integers)),
        5 => {
            let small = [Precision::Bf8, Precision::Hf8];
            (random.pick(&small), random.pick(&small))
        }
        6 if random.below(4) == 0 => (Precision::Df, Precision::Df),
        _ => {
            let one =
                random.pick(&[Precision::Bf, Precision::Hf, Precision::Tf32, Precision::E2m1]);
            (one, one)
        }
    }
}

fn accumulator(random: &mut Random, weights: Precision) -> Acc {
    let all: &[Acc] = match weights {
        w if w.is_integer() => &[Acc::D, Acc::Ud],
        Precision::Bf => &[Acc::F, Acc::F, Acc::Bf],
        Precision::Hf => &[Acc::F, Acc::F, Acc::Hf],
        Precision::Df => &[Acc::Df],
        _ => &[Acc::F],
    };
    random.pick(all)
}

fn shape(random: &mut Random, lanes: u32) -> Shape {
    let (weights, activations) = precisions(random);
    let dst = accumulator(random, weights);
    Shape {
        weights,
        activations,
        depth: random.pick(&[1, 2, 4, 8, 8, 8]),
        repeat: if random.coin() { 8 } else { 1 + random.below(8) as u32 },
        lanes: if weights == Precision::Df { lanes / 2 } else { lanes },
        dst,
        src0: if random.below(6) == 0 { accumulator(random, weights) } else { dst },
        stride: random.pick(&[RowStride::Full, RowStride::Depth]),
    }
}

/// A product of a program whose products mostly have one shape: sums lie in the first half of the
/// registers, B and A behind them, but for accidents.
fn operation(random: &mut Random, main: Shape) -> Operation {
    let shape = if random.below(8) == 0 { shape(random, main.lanes) } else { main };
    let dst = 512 * random.below(4) as usize;
    let mut operation = Operation {
        shape,
        dst,
        src0: match random.below(8) {
            0 => None,
            1 => Some(512 * random.below(8) as usize),
            _ => Some(dst),
        },
        src1: 4096 + 512 * random.below(4) as usize,
        src2: 6144 + 256 * random.below(6) as usize,
        offset: 0,
        no_mask: true,
        fused: false,
        scales: None,
    };
    match random.below(24) {
        // Lanes that are off.
        0 => operation.no_mask = false,
        1 => (operation.no_mask, operation.offset) = (false, random.pick(&[4, 8, 16])),
        // Operands that are others' or lie anywhere.
        2 => operation.src1 = 4 * random.below(1500) as usize,
        3 => operation.src2 = random.below(6000) as usize,
        4 => operation.dst = 4 * random.below(1500) as usize,
        5 => operation.src0 = Some(4 * random.below(1500) as usize),
        6 => operation.src2 += random.below(64) as usize,
        7 if random.below(8) == 0 => operation.fused = true,
        8 if random.below(8) == 0 => operation.src1 = BYTES - 64,
        _ => {}
    }
    operation
}

fn step(random: &mut Random, main: Shape) -> Step {
    match random.below(24) {
        0 => Step::Wait,
        _ => Step::Multiply(operation(random, main)),
    }
}

struct Case {
    main: Shape,
    steps: Vec<Step>,
    rules: Rules,
    state: State,
}

fn case(random: &mut Random) -> Case {
    let lanes = random.pick(&[8, 16, 16]);
    let main = shape(random, lanes);
    let mut steps: Vec<Step> = (0..1 + random.below(16)).map(|_| step(random, main)).collect();
    let fused = steps.iter().any(Step::is_fused);
    if fused && random.below(2) == 0 {
        steps.retain(|step| !step.is_fused());
    }
    let model = random.pick(&[Model::Seq, Model::Fma, Model::Stage, Model::Exact]);
    let rules = Rules { model, ftz: random.below(4) == 0 };
    let state = state(random, main, if fused { 2 } else { 1 });
    Case { main, steps, rules, state }
}

fn state(random: &mut Random, main: Shape, threads: usize) -> State {
    let mut state = State::new(threads, BYTES);
    if random.below(3) == 0 {
        state.dispatch_mask = random.next() as u32;
    }
    let acc = match main.dst {
        Acc::F => Precision::Tf32,
        Acc::Df => Precision::Df,
        Acc::Hf => Precision::Hf,
        Acc::Bf => Precision::Bf,
        Acc::D | Acc::Ud => Precision::U8,
    };
    let kind = random.below(8);
    for bytes in &mut state.threads {
        fill(random, acc, false, &mut bytes[..4096]);
        fill(random, main.weights, kind == 0, &mut bytes[4096..6144]);
        fill(random, main.activations, kind == 0, &mut bytes[6144..]);
        match kind {
            // Numbers of similar size, as in networks.
            1..5 => {
                similar(random, acc, &mut bytes[..4096]);
                similar(random, main.weights, &mut bytes[4096..6144]);
                similar(random, main.activations, &mut bytes[6144..]);
            }
            5 => {
                bytes[..4096].fill(0);
                similar(random, main.weights, &mut bytes[4096..6144]);
                bytes[6144..].chunks_mut(2).step_by(3).for_each(|code| code[1] = 0x80);
            }
            _ => {}
        }
    }
    state
}

/// Floats between 2^-9 and 4 with either sign, and zeros.
fn similar(random: &mut Random, precision: Precision, bytes: &mut [u8]) {
    let size = match precision {
        Precision::Bf | Precision::Hf => 2,
        Precision::Tf32 => 4,
        _ => return,
    };
    let (spread, odd) = (random.pick(&[2, 11]), random.below(4) == 0);
    for place in bytes.chunks_mut(size) {
        let exponent = 2 - random.below(spread);
        let mantissa = 1.0 + random.below(1 << 20) as f32 / (1 << 20) as f32;
        let number = if odd { mantissa } else { 1.5 } * 2f32.powi(exponent);
        let number = number.copysign(random.below(2) as f32 - 0.5);
        let number = if random.below(12) == 0 { 0.0 } else { number };
        let code = match precision {
            Precision::Hf => {
                let bits = number.to_bits();
                let low =
                    if number == 0.0 { 0 } else { ((bits & 0x7fff_ffff) >> 13) - (112 << 10) };
                bits >> 16 & 0x8000 | low
            }
            Precision::Bf => number.to_bits() >> 16,
            _ => number.to_bits(),
        };
        place.copy_from_slice(&code.to_le_bytes()[..size]);
    }
}

/// Runs both on the same state; they agree on every byte, and on the first problem.
fn check(steps: &[Step], rules: Rules, state: &State, level: Level, name: &dyn std::fmt::Debug) {
    let mut expected = state.clone();
    let problem = steps.iter().try_for_each(|step| step.run(&mut expected, rules)).err();
    let mut plan = Plan::for_level(steps, BYTES, rules, level);
    // A second run of a plan starts afresh.
    for _ in 0..2 {
        let mut found = state.clone();
        let result = plan.run(&mut found).err();
        let code = |problem: &Option<quincunx_diag::Diagnostic>| problem.as_ref().map(|p| p.code());
        assert_eq!(code(&result), code(&problem), "{name:?} {level:?}");
        for (found, expected) in found.threads.iter().zip(&expected.threads) {
            let byte = found.iter().zip(expected.iter()).position(|(a, b)| a != b);
            if let Some(byte) = byte {
                let (a, b) = (&found[byte & !3..][..4], &expected[byte & !3..][..4]);
                panic!("{name:?} {level:?} byte {byte}: {a:x?} not {b:x?}: {rules:?} {steps:?}");
            }
        }
    }
}

#[test]
fn plans_do_what_the_executor_does() {
    let mut random = Random::new(1804);
    let (mut all, mut alone) = (0, 0);
    for index in 0..4000 {
        let Case { steps, rules, state, .. } = case(&mut random);
        for level in Level::available() {
            check(&steps, rules, &state, level, &index);
        }
        all += steps.iter().filter(|step| matches!(step, Step::Multiply(_))).count();
        alone += Plan::new(&steps, BYTES, rules).unprepared();
    }
    // Most products are prepared: the test would be idle otherwise.
    assert!(alone * 4 < all, "{alone} of {all}");
}

/// Every pair of precisions, in every model, at the depth of the hardware.
#[test]
fn every_precision_is_prepared() {
    let mut random = Random::new(5);
    for weights in Precision::ALL {
        for activations in Precision::ALL {
            let accs = [Acc::D, Acc::Ud, Acc::F, Acc::Hf, Acc::Bf];
            for (dst, lanes) in accs.into_iter().flat_map(|acc| [(acc, 8), (acc, 16)]) {
                let shape = Shape {
                    weights,
                    activations,
                    depth: 8,
                    repeat: 8,
                    lanes,
                    dst,
                    src0: dst,
                    stride: RowStride::Full,
                };
                let fits = dst.is_integer() == weights.is_integer() && weights != Precision::Df;
                let Some(shape) = shape.checked().ok().filter(|_| fits) else { continue };
                let product = |src1: usize, src2: usize| {
                    let (dst, src0) = (0, Some(0));
                    let (offset, no_mask, fused) = (0, true, false);
                    Step::Multiply(Operation {
                        shape,
                        dst,
                        src0,
                        src1,
                        src2,
                        offset,
                        no_mask,
                        fused,
                        scales: None,
                    })
                };
                let steps = [product(4096, 6144), product(4608, 6656), product(4096, 7168)];
                for model in [Model::Seq, Model::Fma, Model::Stage, Model::Exact] {
                    let rules = Rules { model, ftz: false };
                    let state = state(&mut random, shape, 1);
                    for level in Level::available() {
                        let plan = Plan::for_level(&steps, BYTES, rules, level);
                        assert_eq!(plan.unprepared(), 0, "{shape:?}");
                        check(&steps, rules, &state, level, &shape);
                    }
                }
            }
        }
    }
}

/// One changed field of one product: the plan of the changed program does what the executor does,
/// and mostly something else than the plan of the program as it was.
#[test]
fn changed_programs_are_not_what_they_were() {
    let mut random = Random::new(77);
    let mut different = 0;
    for index in 0..1000 {
        let Case { main, mut steps, rules, state } = case(&mut random);
        let mut before = state.clone();
        let mut plan = Plan::new(&steps, BYTES, rules);
        let worked = plan.run(&mut before).is_ok();
        let products: Vec<usize> =
            (0..steps.len()).filter(|&at| matches!(steps[at], Step::Multiply(_))).collect();
        if products.is_empty() {
            continue;
        }
        let at = random.pick(&products);
        if let Step::Multiply(product) = &mut steps[at] {
            change(&mut random, main, product);
        }
        for level in Level::available() {
            check(&steps, rules, &state, level, &index);
        }
        let mut after = state.clone();
        let works = Plan::new(&steps, BYTES, rules).run(&mut after).is_ok();
        different += usize::from(worked != works || before != after);
    }
    assert!(different > 500, "{different}");
}

fn change(random: &mut Random, main: Shape, product: &mut Operation) {
    let register = 64 * random.below(BYTES as u64 / 64) as usize;
    match random.below(10) {
        0 => product.dst = register,
        1 => product.src0 = Some(register),
        2 => product.src0 = None,
        3 => product.src1 = register,
        4 => product.src2 = register,
        5 => product.shape.repeat = 1 + product.shape.repeat % 8,
        6 => product.shape.depth = if product.shape.depth == 8 { 4 } else { 8 },
        7 => (product.no_mask, product.offset) = (!product.no_mask, 8),
        8 => {
            let (lanes, repeat) = (product.shape.lanes, product.shape.repeat);
            product.shape =
                Shape { repeat, ..shape(random, if lanes < 8 { main.lanes } else { lanes }) };
        }
        _ => std::mem::swap(&mut product.src1, &mut product.src2),
    }
}

/// A number for C, A or B (0, 1, 2) where one of the conditions of the fast ways just fails.
fn edge(random: &mut Random, (kind, far): (usize, i32), operand: usize) -> f32 {
    let power = |random: &mut Random, low: i32, high: i32| {
        let exponent = low + random.below((high - low) as u64) as i32;
        (1.0 + random.below(4) as f32 / 4.0) * 2f32.powi(exponent)
    };
    let number = match (kind, operand) {
        // Sums that begin subnormal, and products that do not change them.
        (0, 0) => f32::from_bits(random.below(1 << 24) as u32),
        (0, _) if random.coin() => 0.0,
        (0, _) => power(random, -8, 1),
        // Large numbers that cancel and leave small ones.
        (1, 1) if random.coin() => 1.992_187_5 * 2f32.powi(-far),
        (1, 2) => random.pick(&[1.0, 1.992_187_5]),
        (1, _) => random.pick(&[1.0, 1.5]),
        // Zeros of both signs.
        (2, 2) => 1.0,
        (2, _) => 0.0,
        // Subnormal elements.
        (3, 1) => f32::from_bits((random.below(1 << 7) as u32) << 16),
        (3, 2) => power(random, 15, 40),
        (3, _) => power(random, -100, -90),
        // Sums at the end of the range.
        (_, 0) => power(random, 120, 127),
        (_, _) => power(random, 55, 64),
    };
    let negative = match kind {
        // Products that are -0, but for few.
        2 => operand != 1 || random.below(40) == 0,
        _ => random.below(3) == 0,
    };
    if negative { -number } else { number }
}

/// Numbers around the conditions under which a fast way is the same as the slow one.
#[test]
fn conditions_hold_at_their_edges() {
    let mut random = Random::new(9);
    for index in 0..2000 {
        let precision = random.pick(&[Precision::Bf, Precision::Bf, Precision::Tf32]);
        let shape = Shape {
            weights: precision,
            activations: precision,
            depth: 8,
            repeat: 8,
            lanes: random.pick(&[8, 16]),
            dst: Acc::F,
            src0: Acc::F,
            stride: RowStride::Full,
        };
        let mut state = State::new(1, BYTES);
        let kind = (index % 5, 30 + random.below(20));
        let (sums, factors) = state.threads[0].split_at_mut(4096);
        for place in sums.chunks_mut(4) {
            place.copy_from_slice(&edge(&mut random, kind, 0).to_le_bytes());
        }
        let size = precision.bits() as usize / 8;
        for (at, place) in factors.chunks_mut(size).enumerate() {
            let operand = if at * size < 2048 { 2 } else { 1 };
            let bits = edge(&mut random, kind, operand).to_bits() >> (32 - precision.bits());
            place.copy_from_slice(&bits.to_le_bytes()[..size]);
        }
        let product = |src1: usize, src2: usize| {
            let (dst, src0) = (0, Some(0));
            let (offset, no_mask, fused) = (0, true, false);
            Step::Multiply(Operation {
                shape,
                dst,
                src0,
                src1,
                src2,
                offset,
                no_mask,
                fused,
                scales: None,
            })
        };
        let steps = [product(4096, 6144), product(4608, 6656)];
        let steps = &steps[..1 + random.below(2) as usize];
        let model = random.pick(&[Model::Seq, Model::Seq, Model::Fma, Model::Stage, Model::Exact]);
        let rules = Rules { model, ftz: random.below(8) == 0 };
        for level in Level::available() {
            check(steps, rules, &state, level, &(index, kind));
        }
    }
}

/// The products of machine code that are legal.
fn legal_products(bytes: &[u8]) -> Vec<Step> {
    let arch = arch(Platform::XeHpg);
    let step = |item: Item| {
        let Statement::Systolic(inst) = &item.statement else { return None };
        let product = native_operation(&inst.native(), &arch, RowStride::Full).ok()?;
        let alone = Program::Native(Listing { items: vec![item] });
        let found = verify(&alone, &arch, &Allow::default());
        first_error(found).ok().map(|()| Step::Multiply(product))
    };
    native::read(bytes, Platform::XeHpg).0.items.into_iter().filter_map(step).collect()
}

/// Machine code with one bit changed.
#[test]
fn changed_machine_code_is_prepared_anew() {
    let mut random = Random::new(31);
    let mut changed = 0;
    for index in 0..1000 {
        let types = random.pick(&[
            ("d", "b", "ub"),
            ("d", "u4", "b"),
            ("f", "bf", "bf"),
            ("f", "hf", "hf"),
        ]);
        let (acc, weights, activations) = types;
        let mut text = String::new();
        for _ in 0..6 {
            let (dst, src1) = (8 * random.below(3), 64 + 8 * random.below(4));
            let src2 = 128 + 8 * random.below(4);
            let _ = writeln!(
                text,
                "dpas.8x8 (8|M0) r{dst}:{acc} r{dst}:{acc} r{src1}:{weights} r{src2}.0:{activations}"
            );
        }
        let mut bytes = native::write(&listing(&text, Platform::XeHpg), Platform::XeHpg).unwrap();
        let before = legal_products(&bytes);
        assert_eq!(before.len(), 6);
        bytes[random.below(96) as usize] ^= 1 << random.below(8);
        let after = legal_products(&bytes);
        changed += usize::from(before != after);
        let Step::Multiply(first) = before[0] else { unreachable!("a product") };
        let model = random.pick(&[Model::Seq, Model::Fma, Model::Stage, Model::Exact]);
        let rules = Rules { model, ftz: random.below(8) == 0 };
        let state = state(&mut random, first.shape, 1);
        for level in Level::available() {
            check(&after, rules, &state, level, &index);
        }
    }
    assert!(changed > 300, "{changed}");
}

/// The suite compares what it measures with the executor.
#[test]
fn the_suite_measures_rows() {
    let suite = TARGET.suites().iter().find(|suite| suite.name == "sim").unwrap();
    let rows = ("rows".to_owned(), "s2s2,bf_exact".to_owned());
    let options = Options::new(suite.options, &[rows]).unwrap();
    let one = std::num::NonZeroUsize::MIN;
    let rows = (suite.run)(&Run { threads: one, repeat: one, options }).unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["s2s2", "bf_exact"]);
    assert!(rows.iter().all(|row| row.metric == "gmacs" && row.value > 0.0));

    // Every kernel that is measured came back as it was.
    let suite = TARGET.suites().iter().find(|suite| suite.name == "asm").unwrap();
    let options = Options::new(suite.options, &[]).unwrap();
    let rows = (suite.run)(&Run { threads: one, repeat: one, options }).unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["assemble", "disassemble"]);

    let suite = TARGET.suites().iter().find(|suite| suite.name == "resnet50").unwrap();
    for (folder, code) in [("", "Q6195"), ("/no/such/folder", "Q6196")] {
        let models = ("models".to_owned(), folder.to_owned());
        let options = Options::new(suite.options, &[models]).unwrap();
        let found = (suite.run)(&Run { threads: one, repeat: one, options });
        assert_eq!(found.err().unwrap().code(), code);
    }
}
