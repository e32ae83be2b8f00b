//! Arbitrary text as a file of widths per layer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx::InputFile;
use quincunx::quantise::Widths;

fuzz_target!(|text: &str| {
    let bytes = text.as_bytes().to_vec().into();
    let file = InputFile { name: "widths.toml".to_owned(), path: None, bytes };
    let _ = Widths::read(&file);
});
