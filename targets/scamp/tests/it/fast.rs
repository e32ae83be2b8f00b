//! The fast simulator against the executor.

use crate::common::{
    Images, Random, generous, kernel_programs, legal_instruction, parse, reg, rows, scamp5,
};
use quincunx_num::Level;
use quincunx_scamp::isa::{Class, Inst};
use quincunx_scamp::program::{Named, Program, Space};
use quincunx_scamp::simulate::{Edge, Executor, Fast, Noise, Settings};
use std::collections::BTreeMap;

const ANALOGUE: [&str; 9] = ["A", "B", "C", "D", "E", "F", "NEWS", "PIX", "IN"];
const BITS: [&str; 15] = [
    "FLAG", "SELECT", "R0", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11",
    "R12",
];

fn images(size: usize, scale: f64, random: &mut Random) -> Images {
    let image = |name: &&str| {
        let codes = random.codes(size).into_iter();
        ((Space::Analogue, reg(name)), codes.map(|code| code * scale).collect())
    };
    ANALOGUE.iter().map(image).collect()
}

/// What is read: every register that is known at the end, and some before.
fn reads(program: &Program, executor: &Executor, random: &mut Random) -> Vec<(usize, Named)> {
    let analogue = ANALOGUE.iter().map(|name| (Space::Analogue, reg(name)));
    let bits = BITS.iter().map(|name| (Space::Digital, reg(name)));
    let known = |named: &Named| executor.plane(*named).is_some();
    let names: Vec<Named> = analogue.chain(bits).filter(known).collect();
    let length = program.instructions.len();
    let last = names.iter().map(|&name| (length - 1, name));
    let some = (0..4).map(|_| {
        let name = names[random.below(names.len() as u64) as usize];
        (random.below(length as u64) as usize, name)
    });
    last.chain(some.collect::<Vec<_>>()).collect()
}

/// What is read by the executor, bit by bit.
fn expected(executor: &Executor, images: &Images, reads: &[(usize, Named)]) -> Vec<Vec<u64>> {
    let (_, found) = executor.run_reading(images, reads).unwrap();
    bits(&found)
}

fn bits(images: &[Vec<f64>]) -> Vec<Vec<u64>> {
    images.iter().map(|image| image.iter().map(|number| number.to_bits()).collect()).collect()
}

/// What is read by the fast simulator; none where it cannot run the program on these images.
fn run(fast: &mut Fast, images: &Images, reads: usize) -> Option<Vec<Vec<f64>>> {
    let inputs: Vec<_> = images.iter().map(|(name, image)| (*name, image.into())).collect();
    let is_done = fast.run(&inputs);
    let image = |read| {
        let mut image = Vec::new();
        fast.read(read, &mut image);
        image
    };
    is_done.then(|| (0..reads).map(image).collect())
}

#[test]
fn random_programs_agree() {
    let mut random = Random::new(31);
    let (mut fast_runs, mut masked, mut gates) = (0, 0, BTreeMap::new());
    let class = |row: usize| legal_instruction(row, &mut Random::new(1)).class();
    let (bit_rows, others): (Vec<usize>, Vec<usize>) = rows()
        .filter(|&row| class(row) != Class::Emulator)
        .partition(|&row| matches!(class(row), Class::Digital(_) | Class::Pattern));
    let all = [&others[..], &bit_rows].concat();
    for case in 0..240 {
        // Half of them have 1-bit instructions as well, and are longer.
        let with_bits = case % 2 == 1;
        let rows = if with_bits { &all } else { &others };
        let length = 1 + random.below(if with_bits { 30 } else { 16 });
        let instructions = (0..length).map(|_| {
            let row = rows[random.below(rows.len() as u64) as usize];
            legal_instruction(row, &mut random)
        });
        let program = Program::new(instructions.collect());
        let (width, height) = (1 + random.below(24) as usize, 1 + random.below(12) as usize);
        let executor = Executor::new(&program, &generous(), width, height, Settings::default());
        let corner = [0, 0].map(|_: usize| random.below(9) as usize);
        let executor = executor.unwrap().within(corner[0], corner[1]);
        let reads = reads(&program, &executor, &mut random);
        for level in Level::available() {
            let Some(mut fast) = Fast::new(&executor, &reads, level) else { continue };
            // Whole numbers, then finer ones, then larger ones in the same buffers.
            for scale in [1.0, 1.0 / 256.0, 40.0, 1e5] {
                let images = images(width * height, scale, &mut random);
                let Some(found) = run(&mut fast, &images, reads.len()) else { continue };
                let expected = expected(&executor, &images, &reads);
                assert_eq!(
                    bits(&found),
                    expected,
                    "case {case} {scale}: {:?}",
                    program.instructions
                );
                fast_runs += 1;
                let masks = |inst: &Inst| matches!(inst, Inst::Where { .. });
                masked += usize::from(program.instructions.iter().any(masks));
                for inst in &program.instructions {
                    if matches!(inst.class(), Class::Digital(_) | Class::Pattern) {
                        *gates.entry(inst.row()).or_insert(0) += 1;
                    }
                }
            }
        }
    }
    assert!(fast_runs > 400 && masked > 40, "{fast_runs} {masked}");
    let missing = bit_rows.iter().find(|row| gates.get(row).is_none_or(|&runs| runs < 10));
    assert_eq!(missing, None, "{gates:?}");
}

/// The programs of the study, which the fast simulator must be able to run.
#[test]
fn kernels_agree() {
    let mut random = Random::new(32);
    for (name, program) in kernel_programs() {
        let executor = Executor::new(&program, &scamp5(), 40, 30, Settings::default()).unwrap();
        let reads = reads(&program, &executor, &mut random);
        let mut fast = Fast::new(&executor, &reads, Level::best()).expect(&name);
        for scale in [1.0, 0.125] {
            let images = images(40 * 30, scale, &mut random);
            let found = run(&mut fast, &images, reads.len()).expect(&name);
            assert_eq!(bits(&found), expected(&executor, &images, &reads), "{name}");
        }
    }
}

fn executor(text: &str, settings: Settings) -> Executor {
    Executor::new(&parse(text), &scamp5(), 4, 4, settings).unwrap()
}

#[test]
fn what_it_cannot_do_is_left_to_the_executor() {
    let read = [(0, (Space::Analogue, reg("B")))];
    let fast = |text, settings| Fast::new(&executor(text, settings), &read, Level::Scalar);
    let noise = Noise::of_writes([0.1; 3], 1);
    for settings in [
        Settings { edge: Edge::Stale, ..Settings::default() },
        Settings { saturation: Some(128.0), ..Settings::default() },
        Settings { noise: Some(noise), ..Settings::default() },
    ] {
        assert!(fast("movx(B, A, north)", settings).is_none());
    }
    for text in ["bus3(A, B, C, D)", "where(A); movx(B, A, north); all()"] {
        let read = [(1.min(parse(text).instructions.len() - 1), (Space::Analogue, reg("B")))];
        assert!(Fast::new(&executor(text, Settings::default()), &read, Level::Scalar).is_none());
    }
}

#[test]
fn numbers_it_cannot_hold_are_left_to_the_executor() {
    let read = [(0, (Space::Analogue, reg("B")))];
    let executor = executor("add(B, A, C)", Settings::default());
    let mut fast = Fast::new(&executor, &read, Level::best()).unwrap();
    let mut sum = |a: f64, c: f64| {
        let images = vec![
            ((Space::Analogue, reg("A")), vec![a; 16]),
            ((Space::Analogue, reg("C")), vec![c; 16]),
        ];
        run(&mut fast, &images, 1).map(|found| found[0][5])
    };
    assert_eq!(sum(1.0, 2.5), Some(3.5));
    assert_eq!(sum(-0.0, 1.0), None);
    assert_eq!(sum(f64::NAN, 1.0), None);
    assert_eq!(sum(f64::INFINITY, 1.0), None);
    assert_eq!(sum(1e300, 1.0), None);
    assert_eq!(sum(0.1, 1.0), None);
    // Neither 16 bits nor 32 are passed without notice.
    assert_eq!(sum(20_000.0, 20_000.0), Some(40_000.0));
    let near = f64::from(1 << 29);
    assert_eq!(sum(near, near - 1.0), None);
}
