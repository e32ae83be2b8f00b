//! Arbitrary text as dais assembly and as an architecture file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_contract::{ArchSource, File};
use quincunx_dais::arch::DaisArch;
use quincunx_dais::text;
use quincunx_diag::{SourceId, any_error};
use quincunx_fuzz::{exercise_pipeline, exercise_target};

fuzz_target!(|source: &str| {
    let _ = text::recognises(source);
    match text::parse(source, SourceId(0)) {
        Ok(pipeline) => exercise_pipeline(&pipeline),
        Err(problems) => assert!(any_error(&problems)),
    }
    exercise_target(&quincunx_dais::TARGET, &File::new("x", source.as_bytes().to_vec()), &[]);
    let _ = DaisArch::from_source(&ArchSource::Text { name: "x".into(), text: source.into() });
});
