//! Arbitrary bytes as npu machine code.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_contract::File;
use quincunx_fuzz::{exercise_npu, exercise_target};
use quincunx_npu::{NpuArch, binary};

fuzz_target!(|bytes: &[u8]| {
    let Ok(arch) = NpuArch::preset("gemini") else { return };
    // Words behind a header that counts them.
    let words = &bytes[..bytes.len() / 16 * 16];
    let count = (words.len() / 16) as u32;
    let counted = [&b"QNPU\x01\0\0\0"[..], &count.to_le_bytes(), words].concat();
    for bytes in [bytes, &counted] {
        if let Ok(program) = binary::read(bytes, &arch) {
            exercise_npu(&program);
        }
        exercise_target(&quincunx_npu::TARGET, &File::new("x.qnpu", bytes.to_vec()), &[]);
    }
});
