//! Converters, biases and ReLU around kernels on super-pixels, before all judges.

use crate::common::{Random, scamp5};
use crate::digital::{Done, Job};
use crate::super_pixel::{Setting, bank, rows};
use quincunx_contract::{Claim, Engine, Log, Options, Refused, Target, compiler_of};
use quincunx_graph::execute::{Keep, exact};
use quincunx_graph::{Conv, Graph, Op, Param, Quantiser, Unary, Window};
use quincunx_num::{Overflow, Rounding};
use quincunx_scamp::TARGET;
use quincunx_scamp::files::{read_kernels, to_graph};
use quincunx_scamp::isa::{Class, Gate, Inst, Reg};
use quincunx_scamp::program::Program;
use quincunx_scamp::verify::verify_kernels;
use quincunx_tensor::{DType, Tensor, Tensors};

/// A channel of a converter: its bits, and the bit of the number, from 1, that its lowest one is.
#[derive(Clone, Copy)]
struct Converter {
    depth: usize,
    unit: usize,
}

impl Converter {
    fn random(random: &mut Random, bits: usize) -> Converter {
        let depth = random.range(1, bits.min(8));
        Converter { depth, unit: random.range(1, bits - depth + 1) }
    }

    fn text(self, analogue: &str, digital: &str) -> String {
        let Converter { depth, unit } = self;
        format!(
            "{{\"enabled\": true, \"bitDepth\": {depth}, \"unitBit\": {unit}, \
             \"analogueReg\": \"{analogue}\", \"digitalReg\": \"{digital}\"}}"
        )
    }
}

/// What is asked for around a filter, in numbers.
struct Wanted {
    bits: usize,
    adc: Option<Converter>,
    /// In quarters; with the unit of all.
    bias: Vec<Option<i64>>,
    unit: usize,
    relu: Vec<bool>,
    dac: Vec<Option<Converter>>,
}

const OUTPUTS: [&str; 2] = ["0:R5", "0:R6"];
const BIASED: [&str; 2] = ["0:R7", "0:R6"];

impl Wanted {
    fn random(random: &mut Random, bits: usize, outputs: usize) -> Wanted {
        let has = [0; 4].map(|_| random.chance(60));
        let mut each = |is_there: bool| -> Vec<bool> {
            (0..outputs).map(|_| is_there && random.chance(70)).collect()
        };
        let [bias, relu, dac] = [has[1], has[2], has[3]].map(&mut each);
        Wanted {
            bits,
            adc: has[0].then(|| Converter::random(random, bits)),
            unit: random.range(1, bits),
            bias: bias.into_iter().map(|b| b.then(|| random.below(9) as i64 - 4)).collect(),
            relu,
            dac: dac.into_iter().map(|d| d.then(|| Converter::random(random, bits))).collect(),
        }
    }

    /// The name of a result when its bias was added.
    fn name(&self, output: usize) -> &'static str {
        if self.bias[output].is_some() { BIASED[output] } else { OUTPUTS[output] }
    }

    /// The fields of a file.
    fn fields(&self) -> String {
        let mut text = String::new();
        if let Some(adc) = self.adc {
            let channel = adc.text("A", "R5");
            text +=
                &format!(", \"adc\": {{\"analogueScratchReg\": \"B\", \"channels\": [{channel}]}}");
        }
        let which = 0..self.bias.len();
        let list = |names: Vec<&str>| {
            names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
        };
        let biased: Vec<usize> = which.clone().filter(|&at| self.bias[at].is_some()).collect();
        if !biased.is_empty() {
            let weights: Vec<String> = biased
                .iter()
                .map(|&at| (self.bias[at].unwrap() as f64 / 4.0).to_string())
                .collect();
            text += &format!(
                ", \"bias\": {{\"enabled\": true, \"unitBit\": {}, \"weights\": [{}], \"biasReg\": \"R8\", \
                 \"inRegisters\": [{}], \"outRegisters\": [{}]}}",
                self.unit,
                weights.join(", "),
                list(biased.iter().map(|&at| OUTPUTS[at]).collect()),
                list(biased.iter().map(|&at| BIASED[at]).collect())
            );
        }
        let names = which.clone().filter(|&at| self.relu[at]).map(|at| self.name(at)).collect();
        text += &format!(
            ", \"activation\": {{\"name\": \"relu\", \"enabled\": {}, \"registers\": [{}]}}",
            self.relu.contains(&true),
            list(names)
        );
        let registers = ["A", "C"];
        let channel = |at: usize| Some(self.dac[at]?.text(registers[at], self.name(at)));
        let channels: Vec<String> = which.filter_map(channel).collect();
        text + &format!(", \"dac\": {{\"channels\": [{}]}}", channels.join(", "))
    }

    /// An image: numbers with a sign, or analogue values in quarters, a little beyond their range.
    fn image(&self, random: &mut Random, count: usize) -> Vec<f32> {
        let pixel = |_| match self.adc {
            Some(_) => random.range(0, 1199) as f32 / 4.0 - 150.0,
            None => random.range(0, (1 << self.bits) - 1) as f32 - (1 << (self.bits - 1)) as f32,
        };
        (0..count).map(pixel).collect()
    }

    /// What enters, from a pixel.
    fn number(&self, pixel: f32) -> i64 {
        let Some(Converter { depth, unit }) = self.adc else { return pixel as i64 };
        let quarters = (pixel * 4.0) as i64;
        let code = quarters.div_euclid(4 << (8 - depth));
        limited(code, depth) << (unit - 1)
    }

    /// What leaves, from a sum that wraps.
    fn result(&self, output: usize, sum: i64) -> f64 {
        let mut number = sum;
        if let Some(quarters) = self.bias[output] {
            // Rounded towards 0.
            number = wrapped(number + quarters * (1 << (self.unit - 1)) / 4, self.bits);
        }
        if self.relu[output] && number < 0 {
            number = 0;
        }
        match self.dac[output] {
            None => number as f64,
            Some(Converter { depth, unit }) => {
                let code = limited(number.div_euclid(1 << (unit - 1)), depth);
                (code * (1 << (8 - depth))) as f64
            }
        }
    }
}

fn limited(code: i64, bits: usize) -> i64 {
    code.min((1 << (bits - 1)) - 1).max(-(1 << (bits - 1)))
}

fn wrapped(number: i64, bits: usize) -> i64 {
    let code = number.rem_euclid(1 << bits);
    if code >> (bits - 1) == 1 { code - (1 << bits) } else { code }
}

/// Fifty random filters with random stages on paths of all forms.
#[test]
fn random_combinations() {
    let mut random = Random::new(31);
    let mut counts = [0; 5];
    for number in 0..50 {
        let block = [(2, 2), (4, 2), (2, 4), (1, 4), (4, 4)][random.below(5) as usize];
        let length = 2 + random.below(block.0 as u64 * block.1 as u64 - 1).min(6) as usize;
        let path = (0..100).find_map(|_| bank(&mut random, block, length)).unwrap();
        let outputs = random.range(1, 2);
        let wanted = Wanted::random(&mut random, length, outputs);
        let setting = Setting {
            block,
            banks: format!("[{}]", rows(&path, block)),
            registers: "[[\"R5\", \"R6\", \"R7\"]]",
            scratch: "\"R8\", \"R9\", \"R10\", \"R11\", \"RECT\"",
            more: wanted.fields(),
            ..Setting::small()
        };
        let depth = if random.chance(30) { 1 } else { 0 };
        let kernels: Vec<[i64; 3]> =
            (0..outputs).map(|_| [0; 3].map(|_| random.below(7) as i64 - 3)).collect();
        let entry = |(kernel, name): (&[i64; 3], &str)| {
            format!("\"{name}\": {{\"array\": [{kernel:?}], \"depth\": {}}}", -depth)
        };
        let filter: Vec<String> = kernels.iter().zip(OUTPUTS).map(entry).collect();
        let (height, width) = (3, 5);
        let job = setting.job(&filter.join(", "), (4, 7), (height, width));
        let image = wanted.image(&mut random, height * width);
        // Kernels of even numbers only have no halves.
        let halvings = read_kernels(&job.text).unwrap().approximation().0;
        let mut reference = Vec::new();
        for (output, kernel) in kernels.iter().enumerate() {
            for at in 0..height * width {
                let tap = |(tap, weight): (usize, &i64)| {
                    let column = (at % width + tap).checked_sub(1).filter(|&c| c < width);
                    let pixel = column.map_or(0, |c| wanted.number(image[at / width * width + c]));
                    pixel * (weight >> (depth - i64::from(halvings)))
                };
                let sum: i64 = kernel.iter().enumerate().map(tap).sum();
                let sum = wrapped(sum, length).div_euclid(1 << halvings);
                reference.push(wanted.result(output, sum));
            }
        }
        let image = Tensor::from_vec::<f32>(&[1, 1, height, width], image).unwrap();
        let done = job.judged_on(&Tensors::from([("image".to_owned(), image)]), &reference);
        let problems = verify_kernels(done.program(), &done.kernels, &scamp5());
        let problems = problems.unwrap_or_else(|problem| panic!("{number}: {problem}"));
        assert_eq!(problems, [], "{number}: {}", job.text);
        let has = [
            wanted.adc.is_some(),
            wanted.bias.iter().any(Option::is_some),
            wanted.relu.contains(&true),
            wanted.dac.iter().any(Option::is_some),
            halvings > 0,
        ];
        counts.iter_mut().zip(has).for_each(|(count, has)| *count += usize::from(has));
    }
    assert!(counts.iter().all(|&count| count > 9), "{counts:?}");
}

/// A file with all stages: numbers of six bits, converters of four.
fn whole(relu: bool) -> Job {
    let wanted = Wanted {
        bits: 6,
        adc: Some(Converter { depth: 4, unit: 2 }),
        bias: vec![Some(-7)],
        unit: 3,
        relu: vec![relu],
        dac: vec![Some(Converter { depth: 3, unit: 2 })],
    };
    let setting = Setting {
        block: (4, 2),
        banks: "[[[1, 2, 3, 0], [6, 5, 4, 0]]]".into(),
        scratch: "\"R8\", \"R9\", \"R10\", \"R11\"",
        more: wanted.fields(),
        ..Setting::small()
    };
    setting.job("\"0:R5\": [[1, -2, 1]]", (4, 6), (3, 4))
}

/// The example: edges above a threshold, of numbers of five bits.
#[test]
fn the_example() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scamp/superpixel.json");
    let text = std::fs::read_to_string(folder).unwrap();
    let job = Job { text, arch: scamp5(), array: (6, 6), image: (4, 5), given: Vec::new() };
    let mut random = Random::new(8);
    let pixels: Vec<f32> = (0..20).map(|_| random.range(0, 255) as f32 - 128.0).collect();
    let number = |row: Option<usize>, column: Option<usize>| match (row, column) {
        (Some(row @ 0..4), Some(column @ 0..5)) => (pixels[row * 5 + column] / 8.0).floor() as i64,
        _ => 0,
    };
    let pixel = |at: usize| {
        let (row, column) = (at / 5, at % 5);
        let near = number(row.checked_sub(1), Some(column))
            + number(Some(row + 1), Some(column))
            + number(Some(row), column.checked_sub(1))
            + number(Some(row), Some(column + 1));
        let edge = 4 * number(Some(row), Some(column)) - near - 6;
        // A bit of the converter is two.
        (wrapped(edge, 8).clamp(0, 63) * 2) as f64
    };
    let reference: Vec<f64> = (0..20).map(pixel).collect();
    let tensor = Tensor::from_vec::<f32>(&[1, 1, 4, 5], pixels.clone()).unwrap();
    let done = job.judged_on(&Tensors::from([("image".to_owned(), tensor)]), &reference);
    assert_eq!(verify_kernels(done.program(), &done.kernels, &scamp5()).unwrap(), []);
    assert_eq!(done.artifact.verify(), []);
    assert!(done.program().length() <= 270);
}

/// Inputs and results that share a register in different banks, all of them converted.
#[test]
fn banks_with_converters() {
    let wanted = |unit, depth| Wanted {
        bits: 3,
        adc: Some(Converter { depth, unit }),
        bias: vec![None; 2],
        unit: 1,
        relu: vec![false; 2],
        dac: vec![Some(Converter { depth: 2, unit }); 2],
    };
    for (unit, depth) in [(1, 3), (1, 2), (2, 2), (1, 1)] {
        let wanted = wanted(unit, depth);
        let [first, second] =
            [("A", "0:R5"), ("C", "1:R5")].map(|(a, d)| wanted.adc.unwrap().text(a, d));
        let [third, fourth] =
            [("A", "0:R6"), ("C", "1:R6")].map(|(a, d)| wanted.dac[0].unwrap().text(a, d));
        let setting = Setting {
            block: (4, 2),
            banks: "[[[1, 2, 0, 0], [0, 3, 0, 0]], [[0, 0, 1, 2], [0, 0, 0, 3]]]".into(),
            inputs: "\"0:R5\", \"1:R5\"",
            registers: "[[\"R5\", \"R6\", \"R7\"], [\"R5\", \"R6\"]]",
            scratch: "\"R8\", \"R9\", \"R10\"",
            more: format!(
                ", \"adc\": {{\"analogueScratchReg\": \"B\", \"channels\": [{first}, {second}]}}, \
                 \"dac\": {{\"channels\": [{third}, {fourth}]}}"
            ),
        };
        let filter = "\"0:R6\": [[[1, 1]]], \"1:R6\": [[[-1, 1]]]";
        let mut random = Random::new(5);
        let image = wanted.image(&mut random, 2 * 12);
        let number = |at: usize| wanted.number(image[at]);
        let sum = (0..12).map(|at| wanted.result(0, wrapped(number(at) + number(12 + at), 3)));
        let difference =
            (0..12).map(|at| wanted.result(1, wrapped(number(12 + at) - number(at), 3)));
        let reference: Vec<f64> = sum.chain(difference).collect();
        let tensor = Tensor::from_vec::<f32>(&[1, 2, 3, 4], image.clone()).unwrap();
        let job = setting.job(filter, (3, 4), (3, 4));
        let done = job.judged_on(&Tensors::from([("image".to_owned(), tensor)]), &reference);
        assert_eq!(verify_kernels(done.program(), &done.kernels, &scamp5()).unwrap(), []);
    }
}

/// A network that no kernel file made: the convolution has a bias, and ReLU follows.
#[test]
fn networks_have_biases_and_relu() {
    let grid = |rounding| Quantiser {
        rounding: Param::uniform(rounding),
        overflow: Param::uniform(Overflow::Wrap),
        ..Quantiser::symmetric(true, 4, 1.0)
    };
    let mut graph = Graph::new("net");
    let x = graph.add_input("x", DType::F32, &[1, 1, 3, 4], &[]).unwrap();
    let x = graph.add_node("in", Op::Quantise(grid(Rounding::HalfEven)), &[Some(x)], "q").unwrap();
    let weights = Tensor::from_vec::<f32>(&[2, 1, 1, 1], vec![1.0, -2.0]).unwrap();
    let bias = Tensor::from_vec::<f32>(&[2], vec![3.0, -1.0]).unwrap();
    let [w, b] =
        [("w", weights), ("b", bias)].map(|(name, t)| graph.add_constant(name, t).unwrap());
    let conv = Op::Conv(Conv { window: Window::new(&[1, 1]), groups: 1 });
    let y = graph.add_node("conv", conv, &[Some(x), Some(w), Some(b)], "c").unwrap();
    let y = graph.add_node("out", Op::Quantise(grid(Rounding::Floor)), &[Some(y)], "o").unwrap();
    let y = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(y)], "y").unwrap();
    graph.add_output(y);
    let layout = "{\"width\": 2, \"height\": 2, \"bitOrder\": [[[1, 2], [4, 3]]], \"inputs\": [\"R5\"], \
        \"outputs\": [\"R6\", \"R7\"], \"registers\": [\"R6\", \"R7\", \"R8\"], \
        \"scratchRegs\": [\"R9\", \"R10\", \"R11\"]}";
    let options = [("mode", "superpixel"), ("layout", layout), ("size", "8x6")];
    let options: Vec<_> = options.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    let options = Options::new(TARGET.info().options, &options).unwrap();
    let compiler = compiler_of(&TARGET).unwrap();
    let claims = compiler.claim(&graph, &scamp5(), &options, &Refused::default()).unwrap();
    assert!(claims.iter().all(|claim| *claim == Claim::Device), "{claims:?}");
    let compiled = compiler.compile(&graph, &scamp5(), &options, &mut Log::default());
    let compiled = compiled.unwrap_or_else(|problem| panic!("{}", problem.first()));
    let pixels: Vec<f32> = (-6..6).map(|n| n as f32).collect();
    let expected: Vec<f64> = [(1, 3), (-2, -1)]
        .iter()
        .flat_map(|(w, b)| (-6..6).map(move |n| wrapped(w * n + b, 4).max(0) as f64))
        .collect();
    let tensor = Tensor::from_vec::<f32>(&[1, 1, 3, 4], pixels).unwrap();
    let images = Tensors::from([("x".to_owned(), tensor)]);
    let golden = compiler.prepare(&graph, &scamp5(), &compiled.numerics).unwrap();
    assert_eq!(golden.run(&images).unwrap()["y"].to_f64(), expected);
    assert_eq!(exact(&graph, &images, Keep::Outputs).unwrap()["y"].to_f64(), expected);
    let found = compiled.program.load(Engine::Exec).unwrap().run(&images).unwrap();
    assert_eq!(found["y"].to_f64(), expected);
}

/// Converters do not move values out of a block, so that images may fill the array.
#[test]
fn the_edge_spoils_nothing() {
    let mut job = whole(true);
    job.text = job.text.replace("[[1, -2, 1]]", "[[-1]]");
    job.array = job.image;
    let done = job.compile().unwrap_or_else(|problem| panic!("{}", problem.first()));
    assert_eq!(done.artifact.interface().rims, []);
    assert_eq!(done.log.diagnostics, []);
}

/// Every mistake is a diagnostic, and nothing that a file asks for is ignored.
#[test]
fn problems_of_stages() {
    let whole = whole(true);
    for (from, to, code) in [
        ("\"bitDepth\": 4", "\"bitDepth\": 9", "Q5052"),
        ("\"bitDepth\": 4", "\"bitDepth\": 6", "Q5052"),
        ("\"unitBit\": 2", "\"unitBit\": 0", "Q5052"),
        ("\"analogueScratchReg\": \"B\", ", "", "Q5051"),
        ("\"weights\": [-1.75]", "\"weights\": []", "Q5052"),
        ("\"weights\": [-1.75]", "\"weights\": [1e30]", "Q5051"),
        ("\"weights\"", "\"weight\"", "Q5052"),
        ("\"relu\"", "\"elu\"", "Q5052"),
        ("\"relu\", \"enabled\": true", "\"relu\"", "Q5051"),
        ("\"mode\": \"superpixel\"", "\"mode\": \"digital\", \"goalSystem\": \"atom\"", "Q5051"),
    ] {
        let text = whole.text.replacen(from, to, 1);
        assert_ne!(text, whole.text, "{from}");
        assert_eq!(read_kernels(&text).unwrap_err().code(), code, "{to}");
    }
    // Stages on what is no input or result.
    for (from, to) in [
        ("\"digitalReg\": \"R5\"", "\"digitalReg\": \"R6\""),
        ("\"inRegisters\": [\"0:R5\"]", "\"inRegisters\": [\"0:R6\"]"),
        ("\"registers\": [\"0:R7\"]", "\"registers\": [\"0:R5\"]"),
        ("\"digitalReg\": \"0:R7\"", "\"digitalReg\": \"0:R5\""),
    ] {
        let text = whole.text.replacen(from, to, 1);
        assert_ne!(text, whole.text, "{from}");
        let problem = to_graph(&read_kernels(&text).unwrap(), 4, 4).unwrap_err();
        assert_eq!(problem.code(), "Q5052", "{to}");
    }
    let code = |from: &str, to: &str| {
        let job = Job { text: whole.text.replace(from, to), ..self::whole(true) };
        job.problem().code()
    };
    assert_eq!(code("\"analogueReg\": \"A\"", "\"analogueReg\": \"B\""), "Q5120");
    assert_eq!(code("\"analogueReg\": \"A\"", "\"analogueReg\": \"Q\""), "Q5123");
    assert_eq!(code("\"biasReg\": \"R8\"", "\"biasReg\": \"R7\""), "Q5120");
    assert_eq!(code("\"R8\", \"R9\", \"R10\", \"R11\"", "\"R8\""), "Q5121");
    let few = Job { given: vec![("ops", "mov movx".into())], ..self::whole(true) };
    assert_eq!(few.problem().code(), "Q5127");
    // Kernels without channels, and no input.
    let text = whole
        .text
        .replace("[[1, -2, 1]]", "[[[]]]")
        .replace("[\"0:R5\"]}, \"pairGen", "[]}, \"pairGen");
    let problem = to_graph(&read_kernels(&text).unwrap(), 4, 4).unwrap_err();
    assert_eq!(problem.code(), "Q5052");
    // Two inputs, one of them converted.
    let text = whole.text.replace("[\"0:R5\"]}, \"pairGen", "[\"0:R5\", \"0:R6\"]}, \"pairGen");
    let text = text.replace("[[1, -2, 1]]", "[[[1, 1]]]");
    let problem = to_graph(&read_kernels(&text).unwrap(), 4, 4).unwrap_err();
    assert_eq!(problem.code(), "Q5127");
}

fn is_noticed(done: &Done, instructions: Vec<Inst>) -> bool {
    let program = Program { instructions, ..done.program().clone() };
    let found = verify_kernels(&program, &done.kernels, &scamp5());
    found.is_ok_and(|problems| problems.iter().any(|problem| problem.code() == "Q5042"))
}

/// Weights, comparisons, moves and signs that are wrong are noticed.
#[test]
fn planted_faults() {
    for relu in [false, true] {
        let done = whole(relu).compile().unwrap_or_else(|problem| panic!("{}", problem.first()));
        assert_eq!(verify_kernels(done.program(), &done.kernels, &scamp5()).unwrap(), []);
        let list = &done.program().instructions;
        // Behind ReLU no number has a sign.
        let is_idle = |at: usize| relu && matches!(list[at], Inst::LoadIn { v: -128 }) && at > 20;
        let mut planted = 0;
        for (at, inst) in list.iter().enumerate() {
            if is_idle(at) || at > 2 && is_idle(at - 2) {
                continue;
            }
            let mut others = list.clone();
            match *inst {
                Inst::LoadIn { v } => others[at] = Inst::LoadIn { v: v / 2 },
                Inst::Movx { y, x, d } => others[at] = Inst::Movx { y, x, d: d.opposite() },
                Inst::Neg { y, x } => others[at] = Inst::Mov { y, x },
                Inst::Add { y, a, b } => others[at] = Inst::Sub { y, a, b },
                Inst::Sub { y, a, b } => others[at] = Inst::Add { y, a, b },
                Inst::Where { s0, s1, s2 } => {
                    let other = if s1 == Reg::NONE { Reg::IN } else { Reg::NONE };
                    others[at] = Inst::Where { s0, s1: other, s2 };
                }
                Inst::WhereBit { .. } => drop(others.remove(at)),
                _ if inst.class() == Class::Digital(Gate::Not) => drop(others.remove(at)),
                _ => continue,
            }
            planted += 1;
            assert!(is_noticed(&done, others), "{relu}: {at} {}", inst.text());
        }
        assert!(planted > 30, "{planted}");
    }
}
