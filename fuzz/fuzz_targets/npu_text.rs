//! Arbitrary text as npu assembly and as an architecture file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_contract::File;
use quincunx_diag::{SourceId, any_error};
use quincunx_fuzz::{exercise_npu, exercise_target};
use quincunx_npu::NpuArch;
use quincunx_npu::text::{self, Schema};

fuzz_target!(|bytes: &[u8]| {
    for lenient in [false, true] {
        match text::read(bytes, SourceId(0), Schema::standard(), lenient) {
            Ok(read) => exercise_npu(&read.program),
            Err(problems) => assert!(any_error(&problems)),
        }
    }
    exercise_target(&quincunx_npu::TARGET, &File::new("x.asm.txt", bytes.to_vec()), &[]);
    let _ = NpuArch::parse(&String::from_utf8_lossy(bytes));
});
