//! Arbitrary bytes as machine code, byte code and its shell.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_contract::File;
use quincunx_fuzz::exercise_target;

fuzz_target!(|bytes: &[u8]| {
    for name in ["x.xebin", "x.visab", "x"] {
        exercise_target(&quincunx_dpas::TARGET, &File::new(name, bytes.to_vec()), &[]);
    }
});
