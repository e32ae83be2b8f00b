//! Arbitrary text as dais assembly and as an architecture file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_contract::ArchSource;
use quincunx_dais::arch::DaisArch;
use quincunx_dais::text;
use quincunx_diag::{SourceId, any_error};
use quincunx_fuzz::exercise_pipeline;

fuzz_target!(|source: &str| {
    let _ = text::recognises(source);
    match text::parse(source, SourceId(0)) {
        Ok(pipeline) => exercise_pipeline(&pipeline),
        Err(problems) => assert!(any_error(&problems)),
    }
    let _ = DaisArch::from_source(&ArchSource::Text { name: "x".into(), text: source.into() });
});
