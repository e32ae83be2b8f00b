//! Arbitrary text as a dais program in JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_dais::files;
use quincunx_diag::any_error;
use quincunx_fuzz::exercise_pipeline;

fuzz_target!(|text: &str| {
    for lenient in [false, true] {
        match files::read_json(text, lenient) {
            Ok(read) => exercise_pipeline(&read.pipeline),
            Err(problems) => assert!(any_error(&problems)),
        }
    }
});
