//! Arbitrary text as native assembly, vISA and an architecture file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_contract::{ArchSource, File};
use quincunx_dpas::arch::DpasArch;
use quincunx_fuzz::exercise_target;

fuzz_target!(|source: &str| {
    for name in ["x.xeasm", "x.visaasm"] {
        let file = File::new(name, source.as_bytes().to_vec());
        exercise_target(&quincunx_dpas::TARGET, &file, &[]);
        exercise_target(&quincunx_dpas::TARGET, &file, &[("swsb", "auto"), ("df", "true")]);
    }
    let _ = DpasArch::from_source(&ArchSource::Text { name: "x".into(), text: source.into() });
});
