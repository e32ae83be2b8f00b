//! Arbitrary bytes as every kind of tcu file; the first byte says which, and on which machine.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_contract::{Engine, File, Log, Options, Target as _};
use quincunx_diag::{SourceId, any_error};
use quincunx_tcu::{Artifact, TARGET, TcuArch, binary, text};
use quincunx_tensor::{Tensor, Tensors, element_count};

/// Vectors times lanes squared that a run may take.
const MOST_WORK: u64 = 1 << 24;
/// Scalars of an input.
const MOST_SCALARS: usize = 1 << 16;

const EXTENSIONS: [&str; 6] = ["tprog", "tmodel", "tdata", "tarch", "tasm", "tsamples"];

/// A machine with few vectors, so that arbitrary addresses often exist.
fn machine(kind: u8) -> TcuArch {
    let mut arch = TcuArch::preset("cmoda7").unwrap_or_else(|problem| panic!("{problem}"));
    (arch.dram0_depth, arch.dram1_depth) = (32, 16);
    (arch.local_depth, arch.accumulator_depth) = (16, 8);
    arch.number_of_threads = 1 + u32::from(kind & 1);
    if kind & 2 != 0 {
        arch.simd_registers_depth = 5;
        (arch.lookup_tables, arch.lookup_table_depth) = (Some(2), Some(4));
    }
    arch
}

fn exercise(program: &dyn quincunx_contract::Program) {
    let legal = !any_error(&program.verify());
    let _ = (program.stats(), program.view("memory"), program.time());
    for kind in TARGET.info().kinds {
        let _ = program.emit(kind.name, "x");
    }
    let Some(artifact) = program.as_any().downcast_ref::<Artifact>() else { return };
    let inner = &artifact.package().program;
    let printed = text::parse(&text::print(inner), SourceId(0), &inner.arch);
    assert!(printed.is_ok_and(|read| read == *inner));
    let bytes = binary::write(inner).unwrap_or_default();
    assert!(binary::read(&bytes, &inner.arch, false).is_ok_and(|read| read.program == *inner));
    let Ok(mut machine) = program.load(Engine::Exec) else { return };
    assert!(legal);
    let vectors: u64 = inner.steps.iter().map(|step| step.inst.count()).sum();
    if vectors.saturating_mul(u64::from(inner.arch.array_size).pow(2)) > MOST_WORK {
        return;
    }
    let inputs: Option<Tensors> = program
        .interface()
        .inputs
        .iter()
        .map(|port| {
            let count = element_count(&port.shape).filter(|&count| count <= MOST_SCALARS)?;
            Some((port.name.clone(), Tensor::from_vec(&port.shape, vec![0.5; count]).ok()?))
        })
        .collect();
    if let Some(inputs) = inputs {
        let _ = machine.run(&inputs);
        let _ = machine.notes();
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    let arch = machine(kind >> 4);
    let extension = EXTENSIONS.get(usize::from(kind & 7)).copied().unwrap_or("x");
    let given = ("lenient".to_owned(), (kind & 8 != 0).to_string());
    let Ok(options) = Options::new(TARGET.info().options, &[given]) else { return };
    let file = File::new(format!("x.{extension}"), bytes.to_vec());
    let _ = (TARGET.recognises(&file), TARGET.companions(&file));
    if let Err(problems) = TARGET.document(&file, &arch, &options) {
        assert!(any_error(&problems));
    }
    match TARGET.read(&[file], None, &arch, &options, &mut Log::default()) {
        Ok(program) => exercise(&*program),
        Err(problems) => assert!(any_error(&problems)),
    }
});
