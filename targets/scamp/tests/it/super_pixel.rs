//! Compiled kernels on super-pixels, before all judges.

use crate::common::{Random, golden, scamp5};
use crate::digital::Job;
use quincunx_contract::Engine;
use quincunx_diag::any_error;
use quincunx_scamp::isa::{Class, Gate, Inst};
use quincunx_scamp::verify::verify_kernels;
use quincunx_tensor::{Tensor, Tensors};

/// What a file says of super-pixels.
pub(crate) struct Setting {
    pub(crate) block: (usize, usize),
    /// Rows of numbers, for every bank.
    pub(crate) banks: String,
    /// Names of input numbers.
    pub(crate) inputs: &'static str,
    /// Registers of every bank.
    pub(crate) registers: &'static str,
    pub(crate) scratch: &'static str,
    /// Further fields of `pairGen`, after a comma.
    pub(crate) more: String,
}

impl Setting {
    /// Blocks of four elements, numbers of four bits.
    pub(crate) fn small() -> Setting {
        Setting {
            block: (2, 2),
            banks: "[[[1, 2], [4, 3]]]".to_owned(),
            inputs: "\"0:R5\"",
            registers: "[[\"R5\", \"R6\", \"R7\"]]",
            scratch: "\"R8\", \"R9\"",
            more: String::new(),
        }
    }

    fn file(&self, filter: &str) -> String {
        let Setting { block: (width, height), banks, inputs, registers, scratch, more } = self;
        format!(
            "{{\"name\": \"s\", \"target\": \"scamp5\", \"mode\": \"superpixel\", \
             \"maxApproximationDepth\": 3, \"maxApproximationError\": 0, \"filter\": {{{filter}}}, \
             \"registerAllocator\": {{\"name\": \"linearScan\", \"availableRegisters\": {registers}, \
             \"initialRegisters\": [{inputs}]}}, \"pairGen\": {{\"width\": {width}, \
             \"height\": {height}, \"scratchRegs\": [{scratch}], \"bitOrder\": {banks}{more}}}}}"
        )
    }

    pub(crate) fn job(&self, filter: &str, array: (usize, usize), image: (usize, usize)) -> Job {
        Job { text: self.file(filter), arch: scamp5(), array, image, given: Vec::new() }
    }
}

/// Blocks, paths and images of upstream's examples, whose responses are mirrored there.
#[test]
fn the_examples_of_upstream() {
    let four_banks = "[[[1, 2, 0, 0], [4, 3, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], \
        [[0, 0, 1, 2], [0, 0, 4, 3], [0, 0, 0, 0], [0, 0, 0, 0]], \
        [[0, 0, 0, 0], [0, 0, 0, 0], [1, 2, 0, 0], [4, 3, 0, 0]], \
        [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 2], [0, 0, 4, 3]]]";
    let large = Setting {
        block: (4, 4),
        banks: four_banks.to_owned(),
        registers: "[[\"R5\", \"R6\", \"R7\"], [\"R5\"], [\"R5\"], [\"R5\"]]",
        ..Setting::small()
    };
    let filter = "\"0:R5\": [[0, 1, 0], [1, 0, 1], [0, 1, 0]]";
    for (index, setting) in [large, Setting::small()].iter().enumerate() {
        let cases = golden("superpixel_programs.json");
        let case = &cases["cases"].as_array().unwrap()[index];
        let done = setting.job(filter, (5, 5), (3, 3)).judged(1);
        let digits: Vec<f32> = case["input_values"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|row| row.as_array().unwrap())
            .map(|n| n.as_f64().unwrap() as f32)
            .collect();
        let pixel = |row: i64, column: i64| {
            let inside = (0..3).contains(&row) && (0..3).contains(&column);
            if inside { f64::from(digits[(row * 3 + column) as usize]) } else { 0.0 }
        };
        let sum = |row: i64, column: i64| {
            let near = [(-1, 0), (0, -1), (0, 1), (1, 0)];
            let sum: f64 = near.iter().map(|(r, c)| pixel(row + r, column + c)).sum();
            if sum > 7.0 { sum - 16.0 } else { sum }
        };
        let wanted: Vec<f64> = (0..9).map(|at| sum(at / 3, at % 3)).collect();
        let image = Tensor::from_vec::<f32>(&[1, 1, 3, 3], digits.clone()).unwrap();
        let images = Tensors::from([("image".to_owned(), image)]);
        let found = done.artifact.load(Engine::Exec).unwrap().run(&images).unwrap();
        assert_eq!(found["filtered"].to_f64(), wanted);
    }
}

/// East is east: one pixel, and what lies beside it.
#[test]
fn nothing_is_mirrored() {
    for (filter, wanted) in [
        ("[[0, 0, 1]]", [0.0, 1.0, 0.0, 0.0, 0.0]),
        ("[[1, 0, 0]]", [0.0, 0.0, 0.0, 1.0, 0.0]),
        ("[[0, -2, 0]]", [0.0, 0.0, -2.0, 0.0, 0.0]),
    ] {
        let filter = format!("\"0:R6\": {filter}");
        let done = Setting::small().job(&filter, (1, 5), (1, 5)).judged(1);
        let image = Tensor::from_vec::<f32>(&[1, 1, 1, 5], vec![0.0, 0.0, 1.0, 0.0, 0.0]).unwrap();
        let images = Tensors::from([("image".to_owned(), image)]);
        let found = done.artifact.load(Engine::Exec).unwrap().run(&images).unwrap();
        assert_eq!(found["filtered"].to_f64(), wanted, "{filter}");
    }
}

/// A path through a block that never crosses itself, and its numbers.
pub(crate) fn bank(
    random: &mut Random,
    (width, height): (usize, usize),
    length: usize,
) -> Option<Vec<usize>> {
    let mut path = vec![random.below((width * height) as u64) as usize];
    while path.len() < length {
        let last = path[path.len() - 1];
        let (row, column) = (last / width, last % width);
        let near = |at: &usize| {
            let (r, c) = (at / width, at % width);
            r.abs_diff(row) + c.abs_diff(column) == 1 && !path.contains(at)
        };
        let next: Vec<usize> = (0..width * height).filter(near).collect();
        path.push(*next.get(random.below(next.len().max(1) as u64) as usize)?);
    }
    Some(path)
}

pub(crate) fn rows(path: &[usize], (width, height): (usize, usize)) -> String {
    let number = |at: usize| path.iter().position(|&other| other == at).map_or(0, |p| p + 1);
    let row = |row: usize| {
        let list: Vec<String> = (0..width).map(|c| number(row * width + c).to_string()).collect();
        format!("[{}]", list.join(", "))
    };
    let list: Vec<String> = (0..height).map(row).collect();
    format!("[{}]", list.join(", "))
}

/// Fifty random filters on paths of all forms: halves, weights below 0, two results.
#[test]
fn random_filters() {
    let mut random = Random::new(23);
    let mut halves = 0;
    for number in 0..50 {
        let block = [(2, 2), (4, 2), (2, 4), (1, 4), (4, 4)][random.below(5) as usize];
        let length = 2 + random.below(block.0 as u64 * block.1 as u64 - 1).min(6) as usize;
        let path = (0..100).find_map(|_| bank(&mut random, block, length)).unwrap();
        let setting = Setting {
            block,
            banks: format!("[{}]", rows(&path, block)),
            registers: "[[\"R5\", \"R6\", \"R7\", \"R8\", \"R10\"]]",
            scratch: "\"R9\", \"R11\", \"RECT\"",
            ..Setting::small()
        };
        let kernel = |random: &mut Random| {
            let row = |random: &mut Random| {
                let mut entry = || match random.below(3) {
                    0 => 0,
                    _ => random.below(9) as i64 - 4,
                };
                format!("[{}, {}, {}]", entry(), entry(), entry())
            };
            let count = 1 + random.below(3);
            (0..count).map(|_| row(random)).collect::<Vec<_>>().join(", ")
        };
        let depth = if random.chance(40) { -1 } else { 0 };
        let mut filter =
            format!("\"0:R6\": {{\"array\": [{}], \"depth\": {depth}}}", kernel(&mut random));
        if random.chance(30) {
            filter += &format!(", \"0:R5\": [{}]", kernel(&mut random));
        }
        let array = (5 + random.below(3) as usize, 6);
        let image = (4 + random.below(2) as usize, 4 + random.below(3) as usize);
        let done = setting.job(&filter, array, image).judged(number);
        assert_eq!(verify_kernels(done.program(), &done.kernels, &scamp5()).unwrap(), []);
        halves += usize::from(done.kernels.approximation().0 > 0);
    }
    assert!(halves > 5, "{halves}");
}

/// Inputs and results in other banks, some of them in one register.
#[test]
fn banks() {
    let setting = Setting {
        block: (4, 2),
        banks: "[[[1, 2, 0, 0], [0, 3, 0, 0]], [[0, 0, 1, 2], [0, 0, 0, 3]]]".to_owned(),
        inputs: "\"0:R5\", \"1:R5\"",
        registers: "[[\"R5\", \"R6\", \"R7\"], [\"R5\", \"R6\"]]",
        scratch: "\"R8\", \"R9\", \"R10\"",
        ..Setting::small()
    };
    // Sums of both; each in the place of the other; one of them in a register of its own.
    for filter in [
        "\"0:R5\": [[[1, 1]]]",
        "\"1:R6\": [[[1, 0], [0, 1]]]",
        "\"0:R5\": [[[0, 1]]], \"1:R5\": [[[1, 0]]]",
        "\"0:R6\": [[[0, 0]]], \"1:R6\": [[[2, 1], [-1, 0]]], \"0:R7\": [[[1, -1]]]",
        "\"0:R5\": [[[1, 0]]], \"1:R5\": [[[1, 0]]]",
    ] {
        setting.job(filter, (4, 6), (3, 4)).judged(2);
    }
    let setting = Setting { inputs: "\"1:R5\"", ..setting };
    setting.job("\"0:R5\": [[1, 1]]", (4, 6), (3, 4)).judged(3);
}

/// A sum is 10 instructions and one for each bit, and as many as turn the directions.
#[test]
fn sums_are_short() {
    let done = Setting::small().job("\"0:R6\": [[0, 1, 1]]", (4, 4), (4, 4)).judged(4);
    let is_frame = |inst: &&Inst| inst.class() != Class::Frame;
    let list: Vec<Inst> = done.program().instructions.iter().filter(is_frame).copied().collect();
    // CLR SET, two steps to the east; a pattern for each of three directions and CLR; the sum.
    assert_eq!(list.len(), 4 + 4 + 14, "{list:?}");
    let ripples =
        list.iter().filter(|inst| matches!(inst.class(), Class::Digital(Gate::Neighbours { .. })));
    assert_eq!(ripples.count(), 2 + 4);
    let problems = verify_kernels(done.program(), &done.kernels, &scamp5()).unwrap();
    assert!(!any_error(&problems), "{problems:?}");
}

/// Every mistake is a diagnostic.
#[test]
fn problems_of_super_pixels() {
    let filter = "\"0:R6\": [[0, 1, 1]]";
    let code = |setting: &Setting| setting.job(filter, (4, 4), (4, 4)).problem().code();
    let small = Setting::small;
    assert_eq!(code(&Setting { banks: "[[[1, 3], [4, 2]]]".into(), ..small() }), "Q5120");
    assert_eq!(code(&Setting { scratch: "\"R0\"", ..small() }), "Q5120");
    assert_eq!(code(&Setting { scratch: "\"X\"", ..small() }), "Q5123");
    assert_eq!(code(&Setting { inputs: "\"1:R5\"", ..small() }), "Q5120");
    assert_eq!(code(&Setting { more: ", \"northReg\": \"R4\"".into(), ..small() }), "Q5120");
    let bent = "[[[1, 2], [4, 3]], [[2, 1], [3, 4]]]";
    let other = small().job(filter, (4, 4), (4, 4));
    let text = other.text.replace("\"0:R6\"", "\"1:R6\"").replace("[[[1, 2], [4, 3]]]", bent);
    assert_eq!(Job { text, ..other }.problem().code(), "Q5120");
    let few = Setting { registers: "[[\"R5\"]]", scratch: "", ..small() };
    let problem = few.job(filter, (4, 4), (4, 4)).problem();
    assert_eq!(problem.code(), "Q5121");
    assert!(problem.help_text().unwrap().starts_with("4 suffice"), "{:?}", problem.help_text());
    let enough = Setting { registers: "[[\"R5\"]]", scratch: "\"R8\", \"R9\"", ..small() };
    enough.job(filter, (4, 4), (4, 4)).judged(1);
    let halved = "\"0:R6\": {\"array\": [[1, 1]], \"depth\": -4}";
    assert_eq!(
        small().job(&halved.replace("-4", "-3"), (4, 4), (4, 4)).judged(1).kernels.max_depth,
        3
    );
    let text = small().file(halved).replace("ApproximationDepth\": 3", "ApproximationDepth\": 4");
    let deep = Job { text, ..small().job(halved, (4, 4), (4, 4)) };
    assert_eq!(deep.problem().code(), "Q5122");
    let mut odd = small().job(filter, (4, 4), (4, 4));
    odd.given = vec![("size", "8x9".to_owned())];
    assert_eq!(odd.problem().code(), "Q5126");
    odd.given = vec![("size", "512x8".to_owned())];
    assert_eq!(odd.problem().code(), "Q5126");
}
