//! Arbitrary bytes as npu machine code.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_fuzz::exercise_npu;
use quincunx_npu::{NpuArch, binary};

fuzz_target!(|bytes: &[u8]| {
    let Ok(arch) = NpuArch::preset("gemini") else { return };
    if let Ok(program) = binary::read(bytes, &arch) {
        exercise_npu(&program);
    }
});
