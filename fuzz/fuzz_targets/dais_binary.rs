//! Arbitrary bytes as dais machine code of every dialect.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_contract::File;
use quincunx_dais::binary::{self, Dialect, ReadOptions};
use quincunx_diag::any_error;
use quincunx_fuzz::{exercise_pipeline, exercise_target};

fuzz_target!(|bytes: &[u8]| {
    let _ = binary::recognises(bytes);
    exercise_target(&quincunx_dais::TARGET, &File::new("x", bytes.to_vec()), &[]);
    for dialect in Dialect::ALL.into_iter().map(Some).chain([None]) {
        for lenient in [false, true] {
            match binary::read(bytes, &ReadOptions { dialect, lenient }) {
                Ok(read) => exercise_pipeline(&read.program.into()),
                Err(problems) => assert!(any_error(&problems)),
            }
        }
    }
});
