//! Compiled kernels on numbers in 1-bit registers, before all judges.

use crate::common::{Random, golden, scamp5};
use quincunx_contract::{Engine, File, Log, NotCompiled, Options, Program, Target, compiler_of};
use quincunx_diag::{Diagnostic, any_error};
use quincunx_graph::execute::{Keep, exact};
use quincunx_scamp::files::{KernelFile, read_kernels, to_graph};
use quincunx_scamp::isa::Inst;
use quincunx_scamp::verify::verify_kernels;
use quincunx_scamp::{Artifact, ScampArch, TARGET};
use quincunx_tensor::{Tensor, Tensors};

/// A kernel file with the machine and the array it is compiled for.
pub(crate) struct Job {
    pub(crate) text: String,
    pub(crate) arch: ScampArch,
    /// Rows and columns of the array, in pixels.
    pub(crate) array: (usize, usize),
    /// Rows and columns of the image.
    pub(crate) image: (usize, usize),
    pub(crate) given: Vec<(&'static str, String)>,
}

/// What became of a job.
pub(crate) struct Done {
    pub(crate) kernels: KernelFile,
    pub(crate) artifact: Box<dyn Program>,
    pub(crate) log: Log,
}

impl Done {
    pub(crate) fn program(&self) -> &quincunx_scamp::program::Program {
        self.artifact.as_any().downcast_ref::<Artifact>().unwrap().program()
    }
}

impl Job {
    /// A file of digital mode on the machine of the presets.
    pub(crate) fn digital(text: String, array: (usize, usize), image: (usize, usize)) -> Job {
        Job { text, arch: scamp5(), array, image, given: Vec::new() }
    }

    fn options(&self, kernels: &KernelFile) -> Options {
        let block = kernels.digital.as_ref().unwrap().block;
        let size = format!("{}x{}", self.array.1 * block.0, self.array.0 * block.1);
        let file = TARGET.model(&File::new("k.json", self.text.clone())).unwrap().unwrap();
        let own = [("size", size), ("effort", "fast".to_owned())];
        let all = file.options.into_iter().chain(own).chain(self.given.clone());
        let all: Vec<_> = all.map(|(name, value)| (name.to_owned(), value)).collect();
        Options::new(TARGET.info().options, &all).unwrap()
    }

    pub(crate) fn compile(&self) -> Result<Done, NotCompiled> {
        let kernels = read_kernels(&self.text).unwrap();
        let graph = to_graph(&kernels, self.image.0, self.image.1).unwrap();
        let options = self.options(&kernels);
        let mut log = Log::default();
        let compiler = compiler_of(&TARGET).unwrap();
        let compiled = compiler.compile(&graph, &self.arch, &options, &mut log)?;
        Ok(Done { kernels, artifact: compiled.program, log })
    }

    pub(crate) fn problem(&self) -> Diagnostic {
        match self.compile() {
            Ok(_) => panic!("it was compiled"),
            Err(problem) => problem.first(),
        }
    }

    /// Compiles, and asks every judge: the golden model, the exact executor, both engines, the
    /// program read back from its text, and plain integer arithmetic.
    pub(crate) fn judged(&self, seed: u64) -> Done {
        let kernels = read_kernels(&self.text).unwrap();
        let images = self.images(&kernels, seed);
        let reference = self.reference(&kernels, &images["image"].to_f64());
        self.judged_on(&images, &reference)
    }

    /// The same on images whose results are known.
    pub(crate) fn judged_on(&self, images: &Tensors, reference: &[f64]) -> Done {
        let done = self.compile().unwrap_or_else(|problem| panic!("{}", problem.first()));
        let kernels = &done.kernels;
        let graph = to_graph(kernels, self.image.0, self.image.1).unwrap();
        let compiler = compiler_of(&TARGET).unwrap();
        let options = self.options(kernels);
        let compiled = compiler.compile(&graph, &self.arch, &options, &mut Log::default()).unwrap();
        let golden = compiler.prepare(&graph, &self.arch, &compiled.numerics).unwrap();
        assert!(!any_error(&done.artifact.verify()), "{:?}", done.artifact.verify());
        let output = graph[graph.outputs()[0]].name.as_str();
        let expected = golden.run(images).unwrap()[output].to_f64();
        assert_eq!(expected, reference, "{}", self.text);
        let exactly = exact(&graph, images, Keep::Outputs).unwrap()[output].to_f64();
        assert_eq!(exactly, reference);
        let interface = done.artifact.interface().clone();
        let files = done.artifact.emit("asm", "program").unwrap();
        let again = compiled.program.emit("asm", "program").unwrap();
        assert_eq!(files, again);
        let read =
            TARGET.read(&files, Some(interface.clone()), &self.arch, &options, &mut Log::default());
        let read = read.unwrap_or_else(|problems| panic!("{problems:?}"));
        assert_eq!(*read.interface(), interface);
        let rim = interface.rims.iter().find(|rim| rim.value == output);
        for (program, engine) in [
            (&*done.artifact, Engine::Exec),
            (&*done.artifact, Engine::Fast),
            (&*read, Engine::Exec),
        ] {
            let found = program.load(engine).unwrap().run(images).unwrap();
            let found = &found[output];
            for (at, (a, b)) in found.to_f64().iter().zip(reference).enumerate() {
                if rim.is_none_or(|rim| rim.holds(found.shape(), at)) {
                    assert_eq!(a, b, "pixel {at} of {}: {files:?}", self.text);
                }
            }
        }
        done
    }

    /// Numbers of the whole range, and beyond.
    pub(crate) fn images(&self, kernels: &KernelFile, seed: u64) -> Tensors {
        let mut random = Random::new(seed);
        let bits = kernels.digital.as_ref().unwrap().bits;
        let shape = [1, kernels.channels(), self.image.0, self.image.1];
        let count = shape.iter().product();
        let top = 1_usize << bits.min(16);
        let values = (0..count).map(|_| random.range(0, 2 * top) as f32 - top as f32).collect();
        Tensors::from([("image".to_owned(), Tensor::from_vec::<f32>(&shape, values).unwrap())])
    }

    /// The kernels in whole numbers, zeros around the image.
    fn reference(&self, kernels: &KernelFile, image: &[f64]) -> Vec<f64> {
        let layout = kernels.digital.as_ref().unwrap();
        let (height, width) = (self.image.0 as i64, self.image.1 as i64);
        let signed = layout.block != (1, 1);
        let modulus = 1_i64 << layout.bits;
        let wrap = |value: i64| {
            let code = value.rem_euclid(modulus);
            if signed && code >= modulus / 2 { code - modulus } else { code }
        };
        let (depth, _) = kernels.approximation();
        let mut results = Vec::new();
        for goal in kernels.goals(depth).unwrap().0 {
            for (row, column) in (0..height).flat_map(|row| (0..width).map(move |c| (row, c))) {
                let mut sum = 0;
                for (cell, count) in goal.cells() {
                    let (r, c) = (row - i64::from(cell.y), column + i64::from(cell.x));
                    if (0..height).contains(&r) && (0..width).contains(&c) {
                        let at = (i64::from(cell.z) * height + r) * width + c;
                        sum += count * wrap(image[at as usize] as i64);
                    }
                }
                let sum = if signed { wrap(sum) } else { sum };
                results.push(wrap(sum >> depth) as f64);
            }
        }
        results
    }
}

/// Registers of numbers for a file, `count` numbers of so many bits, beginning with `DA`.
fn mapping(count: usize, bits: usize, registers: &[String]) -> String {
    let number = |index: usize| {
        let list = &registers[index * bits..(index + 1) * bits];
        format!("\"D{}\": {list:?}", char::from(b'A' + index as u8))
    };
    (0..count).map(number).collect::<Vec<_>>().join(", ")
}

/// A file of digital mode with filters, and registers `A0`, `A1` and so on.
pub(crate) fn file(
    filter: &str,
    inputs: &str,
    numbers: usize,
    bits: usize,
    scratch: usize,
) -> String {
    let names: Vec<String> = (0..numbers * bits + scratch).map(|n| format!("V{n}")).collect();
    let scratch = &names[numbers * bits..];
    let pool: Vec<String> =
        (0..numbers).map(|n| format!("\"D{}\"", char::from(b'A' + n as u8))).collect();
    format!(
        "{{\"name\": \"d\", \"target\": \"scamp5\", \"mode\": \"digital\", \"goalSystem\": \"atom\", \
         \"maxApproximationDepth\": 3, \"maxApproximationError\": 0, \"filter\": {{{filter}}}, \
         \"registerAllocator\": {{\"name\": \"linearScan\", \"availableRegisters\": [{}], \
         \"initialRegisters\": [{inputs}]}}, \"pairGen\": {{\"bits\": {bits}, \
         \"scratchRegs\": {scratch:?}, \"regMapping\": {{{}}}}}}}",
        pool.join(", "),
        mapping(numbers, bits, &names)
    )
}

/// The presets with any name of a 1-bit register.
fn virtual_arch() -> ScampArch {
    let mut arch = scamp5();
    arch.virtual_digital = true;
    arch
}

pub(crate) fn job(text: String, array: (usize, usize), image: (usize, usize)) -> Job {
    Job { arch: virtual_arch(), ..Job::digital(text, array, image) }
}

/// The box of upstream's example, whose programs are all wrong there: 94 instructions.
#[test]
fn the_box_of_upstream() {
    let cases = golden("digital_programs.json");
    let filter = "\"DA\": [[1, 1, 1], [1, 1, 1], [1, 1, 1]]";
    let text = file(filter, "\"DA\"", 3, 2, 4);
    let done = job(text.clone(), (12, 12), (9, 8)).judged(3);
    let length = done.program().length();
    assert!(length < 70, "{length}");
    assert_eq!(verify_kernels(done.program(), &done.kernels, &virtual_arch()).unwrap(), []);
    // What the sums should have been upstream.
    for case in cases["cases"].as_array().unwrap() {
        let done = job(text.clone(), (6, 6), (6, 6)).compile().unwrap_or_else(|_| panic!());
        let rows = |name: &str| -> Vec<f64> {
            let rows = case["inputs"][name].as_array().unwrap().iter();
            rows.flat_map(|row| row.as_array().unwrap()).map(|b| b.as_f64().unwrap()).collect()
        };
        let codes: Vec<f32> = rows("DA1")
            .iter()
            .zip(rows("DA2"))
            .map(|(low, high)| (low + 2.0 * high) as f32)
            .collect();
        let image = Tensor::from_vec::<f32>(&[1, 1, 6, 6], codes).unwrap();
        let images = Tensors::from([("image".to_owned(), image)]);
        let found = done.artifact.load(Engine::Exec).unwrap().run(&images).unwrap();
        let expected = case["mathematically_correct_value_mod4"].as_array().unwrap().iter();
        let expected =
            expected.flat_map(|row| row.as_array().unwrap()).map(|n| n.as_f64().unwrap());
        assert_eq!(found["filtered"].to_f64(), expected.collect::<Vec<_>>());
    }
}

fn kernel(random: &mut Random, reach: usize) -> String {
    let rows = (0..random.range(1, reach + 1)).map(|_| {
        let row: Vec<String> = (0..reach)
            .map(|_| if random.chance(40) { 0 } else { random.range(0, 9) as i64 - 4 })
            .map(|n| n.to_string())
            .collect();
        format!("[{}]", row.join(", "))
    });
    format!("[{}]", rows.collect::<Vec<_>>().join(", "))
}

/// Fifty random filters: bits, results, halves, weights below 0, images at the edge and away from it.
#[test]
fn random_filters() {
    let mut random = Random::new(11);
    let mut halves = 0;
    for number in 0..50 {
        let (bits, outputs) = (random.range(1, 6), random.range(1, 3));
        let filter: Vec<String> = (0..outputs)
            .map(|index| {
                let depth = if random.chance(40) { -(random.range(0, 3) as i64) } else { 0 };
                let array = kernel(&mut random, 3);
                let name = char::from(b'A' + index as u8);
                format!("\"D{name}\": {{\"array\": {array}, \"depth\": {depth}}}")
            })
            .collect();
        let text = file(&filter.join(", "), "\"DA\"", 4, bits, 24);
        let array = (7 + random.range(0, 4), 8);
        let job = job(text, array, (random.range(5, array.0), random.range(4, 8)));
        let done = job.judged(number);
        halves += usize::from(done.kernels.approximation().0 > 0);
        assert_eq!(verify_kernels(done.program(), &done.kernels, &job.arch).unwrap(), []);
        for inst in &done.program().instructions {
            let plain = matches!(
                inst,
                Inst::Or { .. }
                    | Inst::Nor { .. }
                    | Inst::Not { .. }
                    | Inst::Move { .. }
                    | Inst::Set { .. }
                    | Inst::Clear { .. }
                    | Inst::Dnews0 { .. }
            );
            assert!(plain, "{}", inst.text());
        }
    }
    assert!(halves > 5, "{halves}");
}

/// Several channels, and results in the registers of inputs.
#[test]
fn channels_and_exchanged_registers() {
    let filter = "\"DA\": [[[0, 1]]], \"DB\": [[[1, 0]]]";
    let done = job(file(filter, "\"DA\", \"DB\"", 3, 3, 1), (4, 4), (4, 4)).judged(1);
    // Three bits change places over a register.
    assert!(done.program().length() <= 9);
    let filter =
        "\"DC\": [[[1, 0], [0, 2], [1, -1]], [[0, 0], [3, 1], [0, 0]]], \"DA\": [[[0, 0]]]";
    job(file(filter, "\"DA\", \"DB\"", 4, 4, 12), (6, 7), (6, 7)).judged(2);
}

/// Without a layout the general registers of the machine are used, and direction registers between
/// moves.
#[test]
fn the_registers_of_the_machine() {
    let text = "{\"name\": \"d\", \"target\": \"scamp5\", \"mode\": \"digital\", \"goalSystem\": \"atom\", \
        \"maxApproximationDepth\": 0, \"maxApproximationError\": 0, \
        \"filter\": {\"DB\": [[1, 2, 1]]}, \"registerAllocator\": {\"name\": \"linearScan\", \
        \"availableRegisters\": [\"DA\"], \"initialRegisters\": [\"DA\"]}, \"pairGen\": {\"bits\": 3, \
        \"regMapping\": {\"DA\": [\"R5\", \"S1\", \"R7\"], \"DB\": [\"R8\", \"R9\", \"R10\"]}}}";
    let mut job = Job::digital(text.to_owned(), (8, 8), (8, 8));
    job.judged(4);
    job.given = vec![("layout", String::new()), ("bits", "3".to_owned())];
    job.judged(5);
    job.given[1].1 = "6".to_owned();
    assert_eq!(job.problem().code(), "Q5058");
}

/// Every mistake in a layout is a diagnostic.
#[test]
fn problems_of_layouts() {
    let good = file("\"DA\": [[1, 1, 1]]", "\"DA\"", 3, 2, 4);
    let problem = |text: &str, given: &[(&'static str, &str)]| {
        let mut job = job(text.to_owned(), (6, 6), (6, 6));
        job.given = given.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        job.problem()
    };
    let code = |text: &str, given: &[(&'static str, &str)]| problem(text, given).code();
    assert_eq!(code(&good, &[("bits", "3")]), "Q5120");
    assert_eq!(code(&good, &[("layout", "")]), "Q5120");
    assert_eq!(code(&good, &[("layout", "[]")]), "Q5120");
    assert_eq!(code(&good, &[("layout", "{\"bits\": 2, \"regMapping\": {}, \"x\": 1}")]), "Q5120");
    assert_eq!(code(&good, &[("input-registers", "A")]), "Q5120");
    // Two bits in one register, a direction as scratch, the masked register.
    assert_eq!(code(&good.replace("\"V1\"", "\"V0\""), &[]), "Q5120");
    assert_eq!(code(&good.replace("\"V6\"", "\"R3\""), &[]), "Q5120");
    assert_eq!(code(&good.replace("\"V6\"", "\"RP\""), &[]), "Q5120");
    let few = problem(&file("\"DA\": [[1, 1, 1], [1, 1, 1]]", "\"DA\"", 1, 4, 0), &[]);
    assert_eq!(few.code(), "Q5121");
    // As many as the message says suffice.
    let help = few.help_text().unwrap().to_owned();
    let count: usize = help.split(' ').next().unwrap().parse().unwrap();
    assert!(count > 4);
    let more = file("\"DA\": [[1, 1, 1], [1, 1, 1]]", "\"DA\"", 1, 4, count - 4);
    job(more, (6, 6), (6, 6)).judged(1);
    let mut real = job(good, (6, 6), (6, 6));
    real.arch = scamp5();
    assert_eq!(real.problem().code(), "Q5123");
}

/// A result that the edge spoils has a rim; what is stored of it is checked.
#[test]
fn rims_are_those_of_the_program() {
    let mut spoilt = 0;
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let filter = format!("\"DA\": {}", kernel(&mut random, 5));
        let text = file(&filter, "\"DA\"", 2, 3, 30);
        let job = job(text, (9, 9), (9, 9));
        let done = job.judged(seed);
        let mut interface = done.artifact.interface().clone();
        spoilt += usize::from(!interface.rims.is_empty());
        let warned = done.log.diagnostics.iter().any(|problem| problem.code() == "Q5065");
        assert_eq!(warned, !interface.rims.is_empty());
        match interface.rims.pop() {
            None => continue,
            Some(_) => {
                let files = done.artifact.emit("asm", "p").unwrap();
                let options = job.options(&done.kernels);
                let read =
                    TARGET.read(&files, Some(interface), &job.arch, &options, &mut Log::default());
                assert_eq!(read.err().unwrap()[0].code(), "Q5070");
            }
        }
    }
    assert!(spoilt > 0);
}
