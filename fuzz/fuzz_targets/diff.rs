//! Arbitrary bytes, divided at the first zero, as the two files of `diff`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx::InputFile;
use quincunx::diff::{Settings, Side, diff};

fuzz_target!(|bytes: &[u8]| {
    let middle = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len() / 2);
    let side = |bytes: &[u8]| {
        let bytes = bytes.to_vec().into();
        Side::File(InputFile { name: "file".to_owned(), path: None, bytes })
    };
    let (a, b) = (side(&bytes[..middle]), side(&bytes[middle..]));
    let _ = diff(&a, &b, quincunx::targets(), &Settings::default());
    let same = diff(&a, &a, quincunx::targets(), &Settings::default());
    if let Ok(same) = same {
        assert!(same.is_same(), "a file differs from itself");
    }
});
