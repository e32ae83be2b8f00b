//! Arbitrary bytes as the `program.json` of a program folder, and as the program in one whose hash is
//! right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx::compile::{Job, compile, to_folder};
use quincunx::verify::{refuse_illegal, verify};
use quincunx::{InputFile, Model, Setup, find_target, open_folder, targets};
use quincunx_contract::folder::Folder;
use quincunx_diag::Class;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

thread_local! {
    static PLACE: OnceCell<TempDir> = const { OnceCell::new() };
}

/// A folder for `program.json`, and a program folder.
fn place() -> TempDir {
    let place = TempDir::new().expect("a folder for temporary files");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/digits/digits_pow2.onnx");
    let file = InputFile::open(&path).expect("a file of the repository");
    let model = Model::read(&file).expect("a model");
    let setup = find_target("dais").and_then(Setup::default_for).expect("a target");
    let compiled = compile(&Job::new(&model, &setup)).expect("it compiles");
    let executable = compiled.result.as_ref().expect("it compiles");
    let folder = to_folder(&compiled, executable, &setup).expect("it has a folder");
    folder.write(&place.path().join("out")).expect("room for a folder");
    place
}

fn exercise(path: PathBuf, bytes: &[u8]) {
    std::fs::write(path.join("device0/program.dasm"), bytes).expect("room for a file");
    quincunx_testkit::mend_folder(&path);
    let Ok(opened) = open_folder(&path, targets(), &[]) else { return };
    let problems = verify(&opened);
    let illegal = problems.iter().any(|p| p.is_error() && p.class() == Class::Invalid);
    assert_eq!(refuse_illegal(&opened).is_err(), illegal);
    assert!(illegal || opened.executable.load().is_ok(), "verify finds nothing, run does");
}

fuzz_target!(|bytes: &[u8]| {
    PLACE.with(|kept| {
        let place = kept.get_or_init(place).path();
        std::fs::write(place.join("program.json"), bytes).expect("room for a file");
        if let Ok(folder) = Folder::read(place) {
            let _ = folder.description();
        }
        exercise(place.join("out"), bytes);
    });
});
