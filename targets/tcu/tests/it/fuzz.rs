//! Arbitrary and damaged files: no reader panics, and what a reader accepts can be verified,
//! written, timed, and run if that is little work.

use crate::common::random::{Random, program, small};
use crate::common::root;
use proptest::prelude::*;
use quincunx_contract::{Arch as _, ArchSource, Engine, File, Log, Options, Target as _};
use quincunx_diag::{SourceId, any_error};
use quincunx_tcu::arch::DataType;
use quincunx_tcu::verify::{Rules, verify};
use quincunx_tcu::{TARGET, TcuArch, binary, text};
use quincunx_tensor::{Tensor, Tensors, element_count};
use std::sync::LazyLock;

static MODELS: LazyLock<Vec<(String, Vec<File>)>> = LazyLock::new(|| {
    ["t_gemm_artya7100t_iso", "t_maxpool_tight8_iso", "t_conv3_same_artya7100t_mt_iso"]
        .map(|name| {
            let read = |name: &str| {
                File::new(name, std::fs::read(root().join("compiled").join(name)).unwrap())
            };
            let model = read(&format!("{name}.tmodel"));
            let others = TARGET.companions(&model).iter().map(|name| read(name)).collect();
            (model.text().unwrap().to_owned(), others)
        })
        .into()
});

/// Work of a run: vectors times lanes squared.
fn work(program: &quincunx_tcu::program::Program) -> u64 {
    let vectors: u64 = program.steps.iter().map(|step| step.inst.count()).sum();
    vectors * u64::from(program.arch.array_size).pow(2)
}

/// Everything that can be done with files that are accepted.
fn exercise(files: &[File], arch: &TcuArch) {
    for given in
        [&[][..], &[("lenient", "true"), ("timing", "two-engine"), ("sample-interval", "7")]]
    {
        let given: Vec<_> = given.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let options = Options::new(TARGET.info().options, &given).unwrap();
        for file in files {
            let _ = TARGET.recognises(file);
            let _ = TARGET.companions(file);
            if let Err(problems) = TARGET.document(file, arch, &options) {
                assert!(any_error(&problems));
            }
        }
        match TARGET.read(files, None, arch, &options, &mut Log::default()) {
            Ok(program) => exercise_program(&*program),
            Err(problems) => assert!(any_error(&problems)),
        }
    }
}

fn exercise_program(program: &dyn quincunx_contract::Program) {
    let artifact: &quincunx_tcu::Artifact = program.as_any().downcast_ref().unwrap();
    let inner = &artifact.package().program;
    let _ = program.verify();
    // Programs that are described must keep more rules than those that keep them from running.
    let rules = Rules { simd_write_gap: 0, flush_probe: true };
    let legal = !any_error(&verify(inner, &rules));
    let _ = (program.stats(), program.tables("memory"), program.time());
    for kind in TARGET.info().kinds {
        let _ = program.emit(kind.name, "x");
    }
    let printed = text::print(inner);
    assert_eq!(text::parse(&printed, SourceId(0), &inner.arch).unwrap(), *inner);
    let bytes = binary::write(inner).unwrap();
    assert_eq!(binary::read(&bytes, &inner.arch, false).unwrap().program, *inner);
    let Ok(mut machine) = program.load(Engine::Exec) else { return };
    assert!(legal);
    let zeros = program.interface().inputs.iter().map(|port| {
        let count = element_count(&port.shape).filter(|&count| count < 1 << 16)?;
        Some((port.name.clone(), Tensor::from_vec(&port.shape, vec![0.5; count]).unwrap()))
    });
    if let (Some(inputs), true) = (zeros.collect::<Option<Tensors>>(), work(inner) < 1 << 22) {
        let _ = machine.run(&inputs);
        let _ = machine.notes();
    }
}

/// Changes some bytes to others that mean something, and perhaps cuts the end off.
fn damaged(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    const MARKS: &[u8] = b"0123456789-.,:[](){}@^+<>=\"\\ \neINRaxO\xff\x00";
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random.below(3) {
        let at = random.below(bytes.len() as u64) as usize;
        let mark = MARKS[random.below(MARKS.len() as u64) as usize];
        match random.below(4) {
            0 => bytes[at] = mark,
            1 => bytes.insert(at, mark),
            2 if bytes.len() > 1 => drop(bytes.remove(at)),
            _ => bytes[at] ^= 1 << random.below(8),
        }
    }
    if random.below(8) == 0 {
        bytes.truncate(random.below(bytes.len() as u64) as usize);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let arch = small(DataType::Fp16bp8, 1);
        for name in ["x.tprog", "x.tmodel", "x.tdata", "x.tarch", "x.tasm", "x.tsamples", "x"] {
            exercise(&[File::new(name, bytes.clone())], &arch);
        }
    }

    /// Small instructions of four bytes are likelier to be legal.
    #[test]
    fn arbitrary_words(words in prop::collection::vec((0u8..64, 0u8..64, 0u8..128, 0u8..84), 1..40)) {
        let mut arch = TcuArch::preset("cmoda7").unwrap();
        (arch.dram0_depth, arch.dram1_depth, arch.local_depth, arch.accumulator_depth) = (16, 16, 16, 16);
        (arch.stride0_depth, arch.stride1_depth) = (4, 4);
        let bytes: Vec<u8> = words.iter().flat_map(|&(a, b, c, d)| [a, b, c, d]).collect();
        for threads in [1, 2] {
            arch.number_of_threads = threads;
            exercise(&[File::new("x.tprog", bytes.clone())], &arch);
        }
    }

    #[test]
    fn damaged_models(seed in any::<u64>()) {
        let mut random = Random(seed);
        let (text, others) = &MODELS[random.below(3) as usize];
        let model = File::new("x.tmodel", damaged(text.as_bytes(), &mut random));
        let files: Vec<File> = std::iter::once(model).chain(others.iter().cloned()).collect();
        exercise(&files, &small(DataType::Fp16bp8, 1));
    }

    #[test]
    fn damaged_programs(seed in any::<u64>()) {
        let mut random = Random(seed);
        let arch = small(DataType::ALL[random.below(5) as usize], 1 + random.below(2) as u32);
        let program = program(&mut random, &arch, 12);
        let bytes = damaged(&binary::write(&program).unwrap(), &mut random);
        exercise(&[File::new("x.tprog", bytes)], &arch);
        let printed = damaged(text::print(&program).as_bytes(), &mut random);
        exercise(&[File::new("x.tasm", printed)], &arch);
    }

    #[test]
    fn damaged_machines(seed in any::<u64>()) {
        let mut random = Random(seed);
        let arch = small(DataType::Fp16bp8, 1);
        let text = String::from_utf8_lossy(&damaged(arch.to_file().as_bytes(), &mut random)).into_owned();
        let source = ArchSource::Text { name: "x.tarch".to_owned(), text };
        if let Ok(arch) = TcuArch::from_source(&source) {
            let again = ArchSource::Text { name: "x.tarch".to_owned(), text: arch.to_file() };
            // Keys without a meaning are not written.
            let known = TcuArch { unknown: Vec::new(), ..arch.clone() };
            assert_eq!(TcuArch::from_source(&again).unwrap(), known);
            let _ = arch.layout();
            exercise(&[File::new("x.tprog", vec![0x10; 64])], &arch);
        }
    }
}
