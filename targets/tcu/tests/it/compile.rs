//! Compiled programs: the example network against its float form, and faults planted in programs.

use crate::common::graphs::of_peer;
use crate::common::root;
use quincunx_contract::plan::Place;
use quincunx_contract::{Compiled, Compiler, Engine, File, Log, Target};
use quincunx_diag::any_error;
use quincunx_graph::Graph;
use quincunx_graph::execute::{Keep, float};
use quincunx_graph::passes::fold_constants;
use quincunx_import::{Options as ImportOptions, read_onnx};
use quincunx_tcu::binary::Coder;
use quincunx_tcu::{TARGET, TcuArch};
use quincunx_tensor::{Tensor, Tensors, npy};
use quincunx_testkit::{Random, options};
use std::path::{Path, PathBuf};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits")
}

fn model(path: &Path) -> Graph {
    let bytes = std::fs::read(path).unwrap();
    fold_constants(&read_onnx(bytes.into(), &ImportOptions::beside(path)).unwrap()).unwrap()
}

fn compile(graph: &Graph, arch: &TcuArch, rounding: &str) -> Compiled {
    let compiled = TARGET.compile(
        graph,
        arch,
        &options(&TARGET, &[("rounding", rounding)]),
        &mut Log::default(),
    );
    let compiled = compiled.unwrap_or_else(|problem| panic!("{}", problem.first()));
    assert!(!any_error(&compiled.program.verify()));
    compiled
}

fn argmax(reals: &[f64]) -> i64 {
    let best = reals.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    reals.iter().position(|&real| real == best).unwrap() as i64
}

/// All 360 test images on three machines: as often right as the float network but for 0.5 %, every
/// number that of the golden model, and nearly all products on the machine.
#[test]
fn digits_are_recognised_as_by_the_float_network() {
    let graph = model(&examples().join("digits.onnx"));
    let arrays = npy::read_file(&examples().join("test.npz")).unwrap();
    let (images, labels) = (&arrays["image"], arrays["labels"].to_i64().unwrap());
    assert_eq!((labels.len(), images.shape()[0]), (360, 360));
    let image =
        |index: usize| Tensors::from([("image".to_owned(), images.outer_range(index..index + 1))]);
    let right = |logits: &dyn Fn(Tensors) -> Vec<f64>| {
        let is_right = |&index: &usize| argmax(&logits(image(index))) == labels[index];
        (0..labels.len()).filter(is_right).count()
    };
    let reference =
        right(&|image| float(&graph, &image, Keep::Outputs).unwrap()["logits"].to_f64());
    assert!(reference > 349, "{reference} of 360");
    for (name, arch) in [
        ("artya7100t", of_peer("artya7100t")),
        ("small4", of_peer("small4")),
        ("tight8", of_peer("tight8")),
    ] {
        let share = crate::common::plan(&graph, &arch).device_share();
        assert!(share >= 0.9, "{name}: {share} of the products");
        for rounding in ["compat", "free"] {
            let compiled = compile(&graph, &arch, rounding);
            let machine = std::cell::RefCell::new(compiled.program.load(Engine::Fast).unwrap());
            let found = right(&|image| {
                let golden = crate::common::golden_of(&graph, &compiled.numerics, &image).unwrap();
                let logits = &machine.borrow_mut().run(&image).unwrap()["logits"];
                assert_eq!(logits.to_f64(), golden["logits"].to_f64());
                logits.to_f64()
            });
            // 0.5 % of 360 images is 1.8.
            assert!(found + 1 >= reference, "{name} {rounding}: {found}, float {reference}");
        }
    }
}

/// The host moves numbers onto other grids; everything between compiles.
#[test]
fn quantised_models_compile_in_parts() {
    let arch = of_peer("artya7100t");
    for name in ["digits_pow2.onnx", "digits_qdq.onnx"] {
        let plan = crate::common::plan(&model(&examples().join(name)), &arch);
        let device = plan.segments.iter().filter(|segment| segment.place == Place::Device);
        let compiled: Vec<Compiled> =
            device.map(|segment| compile(&segment.graph, &arch, "compat")).collect();
        assert!(compiled.len() > 1, "{name}");
    }
}

/// A compiled program as files, with inputs and the golden model's outputs.
struct Subject {
    name: String,
    arch: TcuArch,
    rounding: &'static str,
    compiled: Compiled,
    files: Vec<File>,
    samples: Vec<(Tensors, Tensors)>,
}

impl Subject {
    fn new(path: &Path, arch: TcuArch, rounding: &'static str, random: &mut Random) -> Subject {
        let graph = model(path);
        let compiled = compile(&graph, &arch, rounding);
        let files = compiled.program.emit("tmodel", "fault").unwrap();
        let sample = |_| {
            let mut tensor = |shape: &[usize]| {
                let real = |_| random.below(1024) as f32 / 256.0 - 2.0;
                Tensor::from_vec(shape, (0..shape.iter().product()).map(real).collect()).unwrap()
            };
            let inputs = compiled.program.interface().inputs.iter();
            let inputs: Tensors =
                inputs.map(|port| (port.name.clone(), tensor(&port.shape))).collect();
            let golden = crate::common::golden_of(&graph, &compiled.numerics, &inputs).unwrap();
            (inputs, golden)
        };
        let samples: Vec<(Tensors, Tensors)> = (0..2).map(sample).collect();
        let name = format!("{} {rounding}", path.file_stem().unwrap().to_string_lossy());
        Subject { name, arch, rounding, compiled, files, samples }
    }

    /// What happens to the program with other bytes in its files.
    fn judge(&self, files: &[File]) -> Verdict {
        let interface = Some(self.compiled.program.interface().clone());
        let options = options(&TARGET, &[("rounding", self.rounding)]);
        let read = TARGET.read(files, interface, &self.arch, &options, &mut Log::default());
        let Ok(program) = read else { return Verdict::Rejected };
        if any_error(&program.verify()) {
            return Verdict::Rejected;
        }
        let Ok(mut machine) = program.load(Engine::Exec) else { return Verdict::Rejected };
        for (inputs, golden) in &self.samples {
            let Ok(found) = machine.run(inputs) else { return Verdict::Noticed };
            let differs =
                |(name, tensor): (&String, &Tensor)| tensor.to_f64() != golden[name].to_f64();
            if found.iter().any(differs) {
                return Verdict::Noticed;
            }
        }
        Verdict::Harmless
    }

    fn file(&self, extension: &str) -> usize {
        self.files.iter().position(|file| file.extension() == extension).unwrap()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Reader or verifier.
    Rejected,
    /// Outputs differ from the golden model's, or the simulator stops.
    Noticed,
    /// Outputs are the golden model's.
    Harmless,
}

/// A fault: the extension of the file it is planted in, and how many of 250 may change no output.
type Fault = (&'static str, &'static str, usize, fn(&mut [u8], usize, &mut Random));

/// What changes no output: the maximum with 0 of a positive number, operands that an instruction
/// does not read, loads that do not depend on each other, and constants of lanes without a channel.
const FAULTS: [Fault; 4] = [
    ("an instruction is missing", "tprog", 20, |bytes, size, random| {
        let at = random.below((bytes.len() / size) as u64) as usize * size;
        bytes[at..at + size].fill(0);
    }),
    ("a bit of an instruction is flipped", "tprog", 25, |bytes, _, random| {
        let bit = random.below(8 * bytes.len() as u64) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
    }),
    ("two instructions change places", "tprog", 160, |bytes, size, random| {
        let count = (bytes.len() / size) as u64;
        let first = random.below(count - 1) as usize * size;
        bytes[first..first + 2 * size].rotate_left(size);
    }),
    ("a constant is another one", "tdata", 70, |bytes, size, random| {
        let at = random.below((bytes.len() / size) as u64) as usize * size;
        // The second byte of a number: more than rounding could hide.
        bytes[at + 1] ^= 0x10;
    }),
];

fn subjects(random: &mut Random) -> Vec<Subject> {
    let models = root().join("models");
    let digits = examples().join("digits.onnx");
    let mut list = Vec::new();
    for rounding in ["compat", "free"] {
        for (name, arch) in [
            ("t_conv3_same", "tight8"),
            ("t_resblock", "small4"),
            ("t_conv_bn_relu", "nostride8"),
            ("t_gemm", "tight8"),
        ] {
            let path = models.join(format!("{name}.onnx"));
            list.push(Subject::new(&path, of_peer(arch), rounding, random));
        }
        list.push(Subject::new(&digits, of_peer("artya7100t"), rounding, random));
    }
    list
}

/// 1,000 seeded faults in compiled programs, each rejected, noticed, or shown to change no output.
#[test]
fn planted_faults_are_noticed() {
    let random = &mut Random::new(5);
    let subjects = subjects(random);
    for subject in &subjects {
        assert_eq!(subject.judge(&subject.files), Verdict::Harmless, "{}", subject.name);
    }
    for (what, extension, limit, plant) in FAULTS {
        let mut counts = [0; 3];
        for round in 0..250 {
            let subject = &subjects[round % subjects.len()];
            let size = match extension {
                "tprog" => Coder::new(&subject.arch).unwrap().bytes(),
                _ => subject.arch.data_type.bytes(),
            };
            let mut files = subject.files.clone();
            let file = &mut files[subject.file(extension)];
            let mut bytes = file.bytes.to_vec();
            plant(&mut bytes, size, random);
            file.bytes = bytes.into();
            counts[subject.judge(&files) as usize] += 1;
        }
        let [_, noticed, harmless] = counts;
        assert!(harmless <= limit, "{what}: {harmless} change nothing");
        // What is not rejected runs, and it is the comparison that notices.
        assert!(noticed > 50, "{what}: {noticed}");
    }
}
