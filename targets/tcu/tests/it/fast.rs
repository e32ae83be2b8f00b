//! The prepared simulator against the executor: random programs in every format, the peer's
//! programs, and what only the executor runs.

use crate::common::random::{image, program, rows, small};
use crate::common::{emulator_program, golden, hex, root};
use quincunx_contract::bench::Run;
use quincunx_contract::{Clipped, Engine, File, Log, Options, Target as _};
use quincunx_diag::Diagnostic;
use quincunx_num::Level;
use quincunx_tcu::TARGET;
use quincunx_tcu::TcuArch;
use quincunx_tcu::arch::DataType;
use quincunx_tcu::files::{Model, read_data};
use quincunx_tcu::isa::{Access, Compute, Inst, Register, SimdOp, TABLE};
use quincunx_tcu::package::{ConstData, Package};
use quincunx_tcu::program::{Memory, Program, Span, Step};
use quincunx_tcu::simulate::{Driver, Executor, Fast, Flow};
use quincunx_tensor::{Tensor, Tensors};
use quincunx_testkit::{Random, options};
use std::num::NonZeroUsize;

const MEMORIES: [Memory; 4] = [Memory::Dram0, Memory::Dram1, Memory::Local, Memory::Acc];

fn all_of(arch: &TcuArch) -> Vec<Span> {
    let span = |&memory: &Memory| Span { memory, base: 0, stride: 0, count: memory.depth(arch) };
    MEMORIES[..2].iter().map(span).collect()
}

/// Everything that a run leaves behind.
#[derive(Debug, PartialEq)]
struct After {
    memories: Vec<Vec<i32>>,
    saturations: Vec<(usize, Flow)>,
    returned: bool,
}

type Images = [Vec<i32>; 4];

fn by_executor(package: &Package, driver: &Driver, images: &Images) -> Option<After> {
    let arch = package.arch();
    let mut executor = Executor::new(arch);
    let returned = driver
        .run(&mut executor, &package.program, |state| {
            package.load(state)?;
            let mut pairs = MEMORIES.iter().zip(images);
            pairs.try_for_each(|(&memory, image)| state.write(memory, 0, image))
        })
        .ok()?;
    let read = |&memory: &Memory| {
        let mut scalars = vec![0; memory.depth(arch) as usize * arch.lanes()];
        executor.state.read(memory, 0, &mut scalars).unwrap();
        scalars
    };
    let memories = MEMORIES.iter().map(read).collect();
    Some(After { memories, saturations: executor.saturations().to_vec(), returned })
}

fn by_fast(fast: &mut Fast, arch: &TcuArch, images: &Images) -> After {
    let returned = fast.run(|fast| {
        let mut pairs = MEMORIES.iter().zip(images);
        pairs.try_for_each(|(&memory, image)| fast.write(memory, 0, image))
    });
    let read = |&memory: &Memory| {
        let mut scalars = vec![0; memory.depth(arch) as usize * arch.lanes()];
        fast.read(memory, 0, &mut scalars).unwrap();
        scalars
    };
    let memories = MEMORIES.iter().map(read).collect();
    After { memories, saturations: fast.saturations().to_vec(), returned: returned.unwrap() }
}

fn step(inst: Inst) -> Step {
    Step { tid: 0, inst }
}

/// Moves what is in the array and the registers into accumulators, and the weights times some
/// vectors behind them.
fn dump(arch: &TcuArch) -> Vec<Step> {
    let out = |write, op, left| {
        let compute = Compute { op, left, right: 0 };
        step(Inst::Simd { access: Access::Write, write, read: 0, destination: 0, compute })
    };
    let registers = arch.simd_registers_depth;
    let mut steps = vec![out(0, SimdOp::NoOp, 0)];
    steps.extend((1..=registers).map(|r| out(r, SimdOp::Move, r as u8)));
    let size = arch.accumulator_depth as u32 - registers - 2;
    let (local, local_stride, acc_stride) = (0, 0, 0);
    let acc = u64::from(registers) + 1;
    steps.push(step(Inst::MatMul {
        accumulate: false,
        local,
        local_stride,
        acc,
        acc_stride,
        size,
    }));
    steps
}

/// Products, whose kernels random instructions hardly reach: `legal_step` gives a size at random.
fn products(random: &mut Random, arch: &TcuArch) -> Vec<Step> {
    let lanes = arch.array_size;
    let below = |random: &mut Random, n: u64| random.below(n) as u32;
    let local = below(random, arch.local_depth - u64::from(lanes));
    let mut steps = vec![step(Inst::LoadWeights { local, stride: 0, size: lanes })];
    for _ in 0..1 + random.below(3) {
        let (local_stride, acc_stride) = (below(random, 2), below(random, 2));
        let room = (arch.local_depth >> local_stride).min(arch.accumulator_depth >> acc_stride);
        let size = below(random, room);
        let local = below(random, arch.local_depth - (u64::from(size) << local_stride));
        let acc = random.below(arch.accumulator_depth - (u64::from(size) << acc_stride));
        let accumulate = random.below(2) == 0;
        steps.push(step(match random.below(4) {
            0 => Inst::MatMulZeroes { accumulate, acc, acc_stride, size },
            _ => Inst::MatMul { accumulate, local, local_stride, acc, acc_stride, size },
        }));
    }
    steps
}

fn machine(random: &mut Random, data_type: DataType) -> TcuArch {
    let threads = 1 + random.below(2) as u32;
    let sizes = [2, 3, 4, 7, 8, 8, 12, 16, 24, 33];
    TcuArch {
        array_size: random.pick(&sizes),
        local_depth: 80,
        accumulator_depth: 40,
        ..small(data_type, threads)
    }
}

/// Numbers near zero, where nothing saturates, or anywhere.
fn images(random: &mut Random, arch: &TcuArch) -> Images {
    let small = random.below(3) > 0 && arch.data_type != DataType::Float32;
    let by = if small { arch.data_type.width() / 2 - 1 } else { 0 };
    MEMORIES.map(|memory| {
        let scalars = image(random, arch, memory.depth(arch));
        scalars.into_iter().map(|scalar| scalar >> by).collect()
    })
}

/// Compares both on a package, several runs with different images from one preparation.
fn compare(package: &Package, driver: &Driver, images: &[Images]) -> Option<Vec<After>> {
    let arch = package.arch();
    let spans = all_of(arch);
    let mut all = Vec::new();
    for level in Level::available() {
        let mut fast = Fast::for_level(package, driver, &spans, level)?;
        all = Vec::new();
        for images in images {
            let expected = by_executor(package, driver, images).unwrap();
            let found = by_fast(&mut fast, arch, images);
            assert_eq!(found, expected, "{level:?} {:?} {:#?}", arch, package.program.steps);
            all.push(found);
        }
    }
    Some(all)
}

fn reaches_tracepoint(package: &Package, driver: &Driver) -> bool {
    let mut executor = Executor::new(package.arch());
    driver.run(&mut executor, &package.program, |_| Ok(())).unwrap();
    !executor.notices().is_empty()
}

#[test]
fn random_programs() {
    for data_type in DataType::ALL {
        let mut random = Random::new(data_type.width().into());
        let (mut clean, mut saturated) = (0, 0);
        let mut seen = vec![0; TABLE.rows.len()];
        for _ in 0..60 {
            let arch = machine(&mut random, data_type);
            let mut program = program(&mut random, &arch, 12);
            for _ in 0..4 {
                let at = random.below(program.steps.len() as u64) as usize;
                let more = products(&mut random, &arch);
                program.steps.splice(at..at, more);
            }
            program.steps.iter().for_each(|step| seen[step.inst.row()] += 1);
            let mut package = Package::from(program);
            let scalars = image(&mut random, &arch, 3);
            package.consts.push(ConstData { name: "c".to_owned(), base: 2, scalars });
            let images = [(); 2].map(|()| images(&mut random, &arch));
            for dumps in [false, true] {
                if dumps {
                    package.program.steps.extend(dump(&arch));
                }
                let flush_probe = random.below(2) == 0;
                let driver = Driver { flush_probe, ..package.driver() };
                let Some(runs) = compare(&package, &driver, &images) else {
                    assert!(reaches_tracepoint(&package, &driver));
                    continue;
                };
                for after in runs {
                    match after.saturations.is_empty() {
                        true => clean += 1,
                        false => saturated += 1,
                    }
                }
            }
        }
        let missing = seen.iter().filter(|&&count| count == 0).count();
        assert_eq!((missing, rows(&small(data_type, 1)).len()), (0, seen.len()));
        let is_fixed = data_type != DataType::Float32;
        assert!(clean > 20 && (saturated > 20) == is_fixed, "{clean} {saturated}");
    }
}

#[test]
fn programs_of_the_emulator() {
    for case in golden("emulator_programs.json").as_array().unwrap() {
        let package = Package::from(emulator_program(case));
        let read = |key: &str| read_data(&hex(&case[key]), package.arch()).unwrap();
        let images = [read("dram0"), read("dram1"), read("local"), Vec::new()];
        let driver = Driver { flush_probe: false, ..package.driver() };
        compare(&package, &driver, &[images]).unwrap();
    }
}

/// The peer's compiled programs, through the pieces that their descriptions name.
#[test]
fn compiled_programs() {
    for case in golden("compiled_models.json").as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let folder = root().join("compiled");
        let text = std::fs::read_to_string(folder.join(format!("{name}.tmodel"))).unwrap();
        let model = Model::parse(&text).unwrap();
        let files = model.file_names().into_iter().map(|file| {
            let bytes = std::fs::read(folder.join(&file)).unwrap();
            (file, bytes)
        });
        let (package, _) = Package::new(model, &files.collect::<Vec<_>>(), false).unwrap();
        let (arch, driver) = (package.arch(), package.driver());
        let model = package.model.as_ref().unwrap();
        let spans: Vec<Span> = model
            .inputs
            .iter()
            .chain(&model.outputs)
            .map(|p| Span { memory: Memory::Dram0, base: p.base, stride: 0, count: p.size })
            .collect();
        for level in Level::available() {
            let mut fast = Fast::for_level(&package, &driver, &spans, level).unwrap();
            // The second run starts from what the first one left.
            for _ in 0..2 {
                let returned = fast.run(|fast| {
                    let images = case["inputs_hex"].as_array().unwrap();
                    model.inputs.iter().zip(images).try_for_each(|(piece, image)| {
                        let image = read_data(&hex(image), arch)?;
                        fast.write(Memory::Dram0, piece.base, &image)
                    })
                });
                assert!(returned.unwrap());
                for output in case["outputs"].as_array().unwrap() {
                    let expected = read_data(&hex(&output["hex"]), arch).unwrap();
                    let mut found = vec![0; expected.len()];
                    fast.read(Memory::Dram0, output["base"].as_u64().unwrap(), &mut found).unwrap();
                    assert!(found == expected, "{name} {level:?}");
                }
            }
        }
    }
}

fn of(arch: &TcuArch, insts: &[Inst]) -> Package {
    let steps = insts.iter().map(|&inst| step(inst)).collect();
    Package::from(Program { arch: arch.clone(), steps })
}

/// Offsets move the banks, and moves cross pages, with and without holes between them.
#[test]
fn far_apart_in_dram() {
    let mut arch = small(DataType::FP16BP8, 1);
    (arch.dram0_depth, arch.stride1_depth) = (1 << 32, 32);
    let (local, local_stride) = (0, 0);
    let offset = |value| Inst::Configure { register: Register::Dram0Offset, value };
    let insts = [
        Inst::LocalToDram0 { local, local_stride, address: 5461, stride: 0, size: 2 },
        Inst::LocalToDram0 { local: 3, local_stride, address: 7, stride: 13, size: 7 },
        Inst::LocalToDram0 { local: 11, local_stride: 1, address: 1, stride: 29, size: 3 },
        offset(77),
        Inst::LocalToDram0 { local: 1, local_stride, address: 5460, stride: 0, size: 9 },
        Inst::Dram0ToLocal { local: 20, local_stride, address: 5462, stride: 1, size: 2 },
        offset(0),
        Inst::Dram0ToLocal { local: 12, local_stride, address: 5462, stride: 0, size: 1 },
        Inst::Dram0ToLocal { local: 14, local_stride, address: 1, stride: 29, size: 3 },
        Inst::Dram0ToLocal { local: 18, local_stride, address: 7, stride: 14, size: 1 },
        Inst::Dram0ToLocal { local: 23, local_stride, address: 1 << 31, stride: 0, size: 0 },
    ];
    let package = of(&arch, &insts);
    let driver = Driver { flush_probe: true, dram0_offset: 3, ..package.driver() };
    let scalars = image(&mut Random::new(1), &arch, arch.local_depth);
    let mut executor = Executor::new(&arch);
    let load = driver
        .run(&mut executor, &package.program, |state| state.write(Memory::Local, 0, &scalars));
    // The program moved the bank away from the probe.
    assert!(!load.unwrap());
    let span = Span { memory: Memory::Dram0, base: 0, stride: 0, count: 6000 };
    let mut fast = Fast::new(&package, &driver, &[span]).unwrap();
    assert!(!fast.run(|fast| fast.write(Memory::Local, 0, &scalars)).unwrap());
    for (memory, count) in [(Memory::Local, arch.local_depth), (Memory::Dram0, 6000)] {
        let [mut expected, mut found] = [(); 2].map(|()| vec![0; count as usize * arch.lanes()]);
        executor.state.read(memory, 0, &mut expected).unwrap();
        fast.read(memory, 0, &mut found).unwrap();
        assert!(found == expected && expected.iter().any(|&scalar| scalar != 0), "{memory:?}");
    }
    let problem = fast.read(Memory::Dram0, 1 << 32, &mut [0; 3]).unwrap_err();
    assert_eq!(problem.code(), "Q3060");
}

/// What fails, takes notice of a tracepoint or needs too much memory is left to the executor.
#[test]
fn some_programs_are_not_prepared() {
    let arch = small(DataType::FP16BP8, 1);
    let is_prepared = |insts: &[Inst], change: &dyn Fn(&mut Driver)| {
        let package = of(&arch, insts);
        let mut driver = package.driver();
        change(&mut driver);
        Fast::new(&package, &driver, &[]).is_some()
    };
    let plain: &dyn Fn(&mut Driver) = &|_| ();
    let compute = |op, left| Compute { op, left, right: 0 };
    let simd = |destination, compute| Inst::Simd {
        access: Access::None,
        write: 0,
        read: 0,
        destination,
        compute,
    };
    let moved = |address, stride, size| Inst::LocalToDram0 {
        local: 0,
        local_stride: 0,
        address,
        stride,
        size,
    };
    assert!(is_prepared(&[moved(0, 0, 1), simd(5, compute(SimdOp::Zero, 9))], plain));
    assert!(!is_prepared(&[moved(23, 0, 1)], plain));
    assert!(!is_prepared(&[simd(6, compute(SimdOp::Zero, 0))], plain));
    assert!(!is_prepared(&[simd(0, compute(SimdOp::Move, 6))], plain));
    assert!(is_prepared(&[simd(3, compute(SimdOp::Lookup, 0))], plain));
    assert!(!is_prepared(&[simd(4, compute(SimdOp::Lookup, 0))], plain));
    assert!(!is_prepared(&[Inst::LoadLut { local: 0, stride: 0, table: 3 }], plain));
    // Configuration, counter, and two instructions of the program.
    let two = [moved(0, 0, 0); 2];
    assert!(!is_prepared(&two, &|driver| driver.tracepoint = Some(1)));
    assert!(is_prepared(&two, &|driver| driver.tracepoint = Some(1000)));
    let mut wide = arch.clone();
    (wide.dram0_depth, wide.local_depth) = (1 << 32, 1 << 13);
    let insts =
        [Inst::Dram0ToLocal { local: 0, local_stride: 0, address: 0, stride: 13, size: 8191 }];
    let package = of(&wide, &insts);
    assert!(Fast::new(&package, &package.driver(), &[]).is_none());
}

fn read(
    files: &[File],
    arch: &TcuArch,
    given: &[(&str, &str)],
) -> Box<dyn quincunx_contract::Program> {
    TARGET.read(files, None, arch, &options(&TARGET, given), &mut Log::default()).ok().unwrap()
}

/// Outputs and notes of every engine for the same images, twice.
fn engines_agree(
    program: &dyn quincunx_contract::Program,
    scale: f64,
) -> (Vec<Diagnostic>, Vec<Clipped>) {
    let mut random = Random::new(3);
    let mut real = || (random.below(512) as f64 - 256.0) / 256.0 * scale;
    let ports = &program.interface().inputs;
    let image = ports.iter().map(|port| {
        let reals = (0..port.shape.iter().product()).map(|_| real()).collect();
        (port.name.clone(), Tensor::from_vec(&port.shape, reals).unwrap())
    });
    let inputs: Tensors = image.collect();
    let mut exec = program.load(Engine::Exec).unwrap();
    let mut fast = program.load(Engine::Fast).unwrap();
    for _ in 0..2 {
        let outputs = exec.run(&inputs).unwrap();
        let found = fast.run(&inputs).unwrap();
        assert!(outputs.keys().eq(found.keys()));
        assert!(outputs.values().zip(found.values()).all(|(a, b)| a.to_f64() == b.to_f64()));
        assert_eq!(fast.notes(), exec.notes());
        assert_eq!(fast.clipped(), exec.clipped());
    }
    (exec.notes(), exec.clipped())
}

#[test]
fn engines_give_the_same_outputs_and_notes() {
    let arch = TcuArch::preset("cmoda7").unwrap();
    let mut saturated = 0;
    for case in golden("compiled_models.json").as_array().unwrap() {
        let folder = root().join("compiled");
        let open = |name: &str| File::new(name, std::fs::read(folder.join(name)).unwrap());
        let first = open(&format!("{}.tmodel", case["name"].as_str().unwrap()));
        let others = TARGET.companions(&first);
        let files: Vec<File> =
            std::iter::once(first).chain(others.iter().map(|n| open(n))).collect();
        for scale in [1.0, 100.0] {
            saturated += engines_agree(&*read(&files, &arch, &[]), scale).1.len();
        }
    }
    assert!(saturated > 5, "{saturated}");
}

/// Watches and tracepoints are noticed as ever, and a probe that is lost.
#[test]
fn nothing_goes_unnoticed() {
    let arch = small(DataType::FP8BP4, 1);
    let source = "DataMove(<-) Local(0) DRAM0(0)\nDataMove(->) Local(0) Acc(3)\n\
        DataMove(->Acc) Local(0) Acc(3)\nConfigure DRAM0Offset 1\n";
    let file = [File::new("x.tasm", source)];
    for (given, codes) in [
        (&[][..], &["Q3066"][..]),
        (&[("watch", "Acc(3)")], &["Q3069", "Q3069", "Q3066"]),
        (&[("tracepoint", "2")], &["Q3068", "Q3066"]),
    ] {
        let (notes, clipped) = engines_agree(&*read(&file, &arch, given), 8.0);
        assert_eq!(clipped.len(), 1);
        let found: Vec<_> = notes.iter().map(Diagnostic::code).collect();
        assert_eq!(found, codes);
    }
}

/// The suite measures a program that is given.
#[test]
fn the_suite_measures() {
    let suite = TARGET.suites().iter().find(|suite| suite.name == "run").unwrap();
    let measure = |given: &[(&str, &str)]| {
        let given: Vec<_> = given.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let options = Options::new(suite.options, &given).unwrap();
        let one = NonZeroUsize::MIN;
        (suite.run)(&Run { threads: one, repeat: one, options })
    };
    let path = root().join("compiled/t_resblock_artya7100t_consts.tmodel");
    let rows = measure(&[("program", path.to_str().unwrap())]).unwrap();
    assert_eq!(rows.iter().map(|row| row.metric).collect::<Vec<_>>(), ["gmacs", "seconds"]);
    let name = "t_resblock_artya7100t_consts/8";
    assert!(rows.iter().all(|row| row.name.starts_with(name) && row.value > 0.0), "{rows:?}");
    assert_eq!(measure(&[]).unwrap_err().code(), "Q3102");
    assert_eq!(measure(&[("models", "/nowhere")]).unwrap_err().code(), "Q3100");
    assert_eq!(measure(&[("program", "no.tmodel")]).unwrap_err().code(), "Q3100");
    let no_model = path.with_extension("tprog");
    assert_eq!(measure(&[("program", no_model.to_str().unwrap())]).unwrap_err().code(), "Q3100");
}
