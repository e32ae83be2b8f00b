//! Random legal programs. Instructions come from the generator of the instruction table.

use quincunx_diag::any_error;
use quincunx_tcu::TcuArch;
use quincunx_tcu::arch::DataType;
use quincunx_tcu::binary::Coder;
use quincunx_tcu::isa::{Inst, TABLE};
use quincunx_tcu::program::{Program, Step};
use quincunx_tcu::verify::{Rules, verify};
use quincunx_testkit::Random;

/// A small machine with everything; depths that are not powers of two leave addresses that encode
/// but do not exist.
pub(crate) fn small(data_type: DataType, threads: u32) -> TcuArch {
    TcuArch {
        data_type,
        array_size: 3,
        dram0_depth: 24,
        dram1_depth: 20,
        local_depth: 24,
        accumulator_depth: 12,
        simd_registers_depth: 5,
        stride0_depth: 3,
        stride1_depth: 3,
        number_of_threads: threads,
        thread_queue_depth: 2,
        lookup_tables: Some(2),
        lookup_table_depth: Some(4),
        ..TcuArch::preset("pynqz1").unwrap()
    }
}

/// A random instruction that is legal alone.
pub(crate) fn legal_step(random: &mut Random, arch: &TcuArch, row: usize) -> Step {
    let coder = Coder::new(arch).unwrap();
    for _ in 0..100_000 {
        let raw = TABLE.random_of(row, &mut |n| random.below(n), coder.layout());
        let tid = random.below(arch.number_of_threads) as u8;
        let step = Step { tid, inst: Inst::from_raw(&raw).unwrap() };
        let program = Program { arch: arch.clone(), steps: vec![step] };
        if !any_error(&verify(&program, &Rules::default())) {
            return step;
        }
    }
    panic!("row {} is never legal", TABLE.rows[row].name);
}

/// The rows that a machine has.
pub(crate) fn rows(arch: &TcuArch) -> Vec<usize> {
    let is_there = |row: &usize| match TABLE.rows[*row].name {
        "Configure" => arch.number_of_threads == 1,
        "LoadLut" => arch.lookup_tables.is_some(),
        _ => true,
    };
    (0..TABLE.rows.len()).filter(is_there).collect()
}

/// A random legal program.
pub(crate) fn program(random: &mut Random, arch: &TcuArch, length: usize) -> Program {
    let rows = rows(arch);
    let mut steps = Vec::new();
    while steps.len() < length {
        let row = random.pick(&rows);
        let step = legal_step(random, arch, row);
        // DRAM offsets far away leave nothing to read; small ones keep both ways in use.
        steps.push(match step.inst {
            Inst::Configure { register, value } => {
                Step { inst: Inst::Configure { register, value: value & 1 }, ..step }
            }
            _ => step,
        });
    }
    Program { arch: arch.clone(), steps }
}

/// Random contents of a memory.
pub(crate) fn image(random: &mut Random, arch: &TcuArch, vectors: u64) -> Vec<i32> {
    let scalar = |random: &mut Random| {
        let wide = random.below(4) == 0;
        let magnitude = if wide { arch.data_type.max() / 2 } else { arch.data_type.max() >> 5 };
        let raw = (random.below(2 * magnitude as u64 + 1) as i64 - i64::from(magnitude)) as i32;
        match arch.data_type {
            DataType::Float32 => (raw as f32 / 1e8).to_bits().cast_signed(),
            _ if random.below(6) == 0 => 0,
            _ => raw,
        }
    };
    (0..vectors as usize * arch.lanes()).map(|_| scalar(random)).collect()
}
