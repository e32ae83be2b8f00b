//! Arbitrary bytes as the `program.json` of a program folder.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_contract::folder::Folder;
use std::cell::OnceCell;
use tempfile::TempDir;

thread_local! {
    static PLACE: OnceCell<TempDir> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    PLACE.with(|place| {
        let place = place.get_or_init(|| TempDir::new().expect("a folder for temporary files"));
        std::fs::write(place.path().join("program.json"), bytes).expect("room for a file");
        if let Ok(folder) = Folder::read(place.path()) {
            let _ = folder.description();
        }
    });
});
