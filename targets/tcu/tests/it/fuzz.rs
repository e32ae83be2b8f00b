//! Arbitrary and damaged files: no reader panics, and what a reader accepts can be verified,
//! written, timed, and run if that is little work.

use crate::common::random::{program, small};
use crate::common::root;
use proptest::prelude::*;
use quincunx_contract::{Arch as _, ArchSource, Engine, File, Program, Target as _};
use quincunx_diag::{SourceId, any_error};
use quincunx_tcu::arch::DataType;
use quincunx_tcu::verify::{Rules, verify};
use quincunx_tcu::{Artifact, TARGET, TcuArch, binary, text};
use quincunx_testkit::{Random, damaged};
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

/// The program behind a file.
fn of(program: &dyn Program) -> &quincunx_tcu::program::Program {
    &program.as_any().downcast_ref::<Artifact>().unwrap().package().program
}

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
        let is_little = |program: &dyn Program| work(of(program)) < 1 << 22;
        let read = quincunx_testkit::exercise(&TARGET, arch, given, files, &is_little);
        let Some(program) = read else { continue };
        let inner = of(&*program);
        // Programs that are described must keep more rules than those that keep them from running.
        let rules = Rules { simd_write_gap: 0, flush_probe: true };
        let is_legal = !any_error(&verify(inner, &rules));
        assert!(is_legal || program.load(Engine::Exec).is_err());
        let printed = text::print(inner);
        assert_eq!(text::parse(&printed, SourceId(0), &inner.arch).unwrap(), *inner);
        let bytes = binary::write(inner).unwrap();
        assert_eq!(binary::read(&bytes, &inner.arch, false).unwrap().program, *inner);
    }
}

/// What means something in these files.
const MARKS: &[u8] = b"0123456789-.,:[](){}@^+<>=\"\\ \neINRaxO\xff\x00";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let arch = small(DataType::FP16BP8, 1);
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
        let mut random = Random::new(seed);
        let (text, others) = &MODELS[random.below(3_usize)];
        let model = File::new("x.tmodel", damaged(text.as_bytes(), MARKS, &mut random));
        let files: Vec<File> = std::iter::once(model).chain(others.iter().cloned()).collect();
        exercise(&files, &small(DataType::FP16BP8, 1));
    }

    #[test]
    fn damaged_programs(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let arch = small(random.pick(&DataType::ALL), random.range(1, 2));
        let program = program(&mut random, &arch, 12);
        let bytes = damaged(&binary::write(&program).unwrap(), MARKS, &mut random);
        exercise(&[File::new("x.tprog", bytes)], &arch);
        let printed = damaged(text::print(&program).as_bytes(), MARKS, &mut random);
        exercise(&[File::new("x.tasm", printed)], &arch);
    }

    #[test]
    fn damaged_machines(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let arch = small(DataType::FP16BP8, 1);
        let bytes = damaged(arch.to_file().as_bytes(), MARKS, &mut random);
        let text = String::from_utf8_lossy(&bytes).into_owned();
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
