//! Damaged and hostile files into every verb: a diagnostic with exit 3 (or 4 where what is left is
//! a valid file that is not supported), nothing on stdout, no panic, nothing left behind.

use crate::support::{compiled, digits, file, names_in, quincunx};
use std::fs;
use std::path::Path;

/// Deterministic bytes without any structure.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Runs every verb that reads a program, model or data file on `path`.
fn every_verb(path: &str, place: &Path, codes: &[i32]) {
    let out = place.join("never").to_str().unwrap().to_owned();
    let (model, data) = (digits("digits.onnx"), digits("test.npz"));
    let before = names_in(place);
    for arguments in [
        &["inspect", path, "-o", &out][..],
        &["compile", path, "--target", "dais", "-o", &out],
        &["run", path, "--data", "zeros", "-o", &out, "--target", "dais"],
        &["run", path, "--data", "zeros", "-o", &out],
        &["verify", path, "-o", &out],
        &["verify", path, "--target", "dais", "--lenient"],
        &["compare", path, "--data", &data, "-o", &out],
        &["compare", &model, "--data", path, "-o", &out],
        &["compare", &model, "--data", &data, "--calibrate", path, "-o", &out],
        &["quantise", path, "--calibrate", "zeros", "-o", &out],
        &["quantise", &model, "--calibrate", path, "-o", &out],
        &["asm", path, "-o", &out],
        &["asm", path, "-o", &out, "--target", "dais"],
        &["disasm", path, "-o", &out],
        &["disasm", path, "-o", &out, "--target", "dais"],
        &["inspect", path, "--target", "dais"],
        &["targets", "dais", "--arch", path],
        &["run", &model, "--data", &data, "--compare", path],
        &["run", path, "--data", &data, "--trace-layers", &format!("{out}-too"), "-o", &out],
        &["diff", &data, path, "-o", &out],
        &["diff", &data, &data, "--order", path, "-o", &out],
    ] {
        let run = quincunx(arguments);
        // What is not a program has no rules to be lenient about, which is found before it is read.
        // Two files of different kinds are not compared at all.
        let usage = run.code == 2 && ["Q0708", "Q0630"].iter().any(|c| run.stderr.contains(c));
        let expected = usage || codes.contains(&run.code);
        assert!(expected, "{arguments:?}: {} {}", run.code, run.stderr);
        assert!(run.stdout.is_empty(), "{arguments:?}");
        assert!(run.stderr.contains("error["), "{arguments:?}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{arguments:?}: {}", run.stderr);
    }
    assert_eq!(names_in(place), before, "nothing is left behind");
}

#[test]
fn bytes_without_structure() {
    let place = tempfile::tempdir().unwrap();
    for (seed, length) in [(1, 0), (2, 1), (3, 64), (4, 5000)] {
        let path = file(place.path(), "noise", &noise(seed, length));
        every_verb(&path, place.path(), &[3]);
    }
}

#[test]
fn magic_numbers_with_nothing_behind_them() {
    let place = tempfile::tempdir().unwrap();
    for magic in [
        &b"PK\x03\x04"[..],
        b"PK\x05\x06",
        b"\x93NUMPY\x01\x00",
        b"{",
        b"{}",
        b"[",
        b".dais\n?",
        b"\x08\x07\x12",
    ] {
        let mut bytes = magic.to_vec();
        every_verb(&file(place.path(), "magic", &bytes), place.path(), &[3, 4]);
        bytes.extend(noise(5, 100));
        every_verb(&file(place.path(), "magic", &bytes), place.path(), &[3, 4]);
    }
}

#[test]
fn models_cut_short() {
    let place = tempfile::tempdir().unwrap();
    let model = fs::read(digits("digits.onnx")).unwrap();
    for part in [1, 3, 7] {
        let bytes = &model[..model.len() * part / 8];
        every_verb(&file(place.path(), "cut.onnx", bytes), place.path(), &[3, 4]);
    }
}

#[test]
fn data_cut_short_or_changed() {
    let place = tempfile::tempdir().unwrap();
    let data = fs::read(digits("test.npz")).unwrap();
    let model = digits("digits.onnx");
    for part in 1..8 {
        let path = file(place.path(), "cut.npz", &data[..data.len() * part / 8]);
        for arguments in [
            &["compare", &model, "--data", &path][..],
            &["run", &model, "--target", "dais", "--data", &path],
            &["compile", &model, "--target", "dais", "--calibrate", &path],
            &["inspect", &path],
        ] {
            let run = quincunx(arguments);
            assert_eq!((run.code, run.stdout.len()), (3, 0), "{arguments:?}: {}", run.stderr);
        }
    }
    for seed in 0..20_usize {
        let mut bytes = data.clone();
        let at = seed * 7919 % bytes.len();
        bytes[at] ^= 0x41;
        let run = quincunx(&["inspect", &file(place.path(), "changed.npz", &bytes)]);
        assert!([0, 3].contains(&run.code), "{}", run.stderr);
    }
}

#[test]
fn programs_cut_short_or_changed() {
    let place = tempfile::tempdir().unwrap();
    let model = digits("digits.onnx");
    for kind in ["bin", "json", "asm"] {
        let emit = format!("{kind}=-");
        let whole = quincunx(&["compile", &model, "--target", "dais", "--emit", &emit]).stdout;
        for part in [1, 4, 7] {
            let bytes = &whole[..whole.len() * part / 8 - 1];
            let path = file(place.path(), "program", bytes);
            for verb in ["verify", "disasm", "inspect"] {
                let run = quincunx(&[verb, &path, "--target", "dais"]);
                // A text cut at the right place is a shorter program.
                let codes: &[i32] = if kind == "asm" { &[0, 1, 3] } else { &[1, 3] };
                assert!(codes.contains(&run.code), "{kind} {verb}: {} {}", run.code, run.stderr);
            }
        }
        for seed in 0..10_usize {
            let mut bytes = whole.clone();
            let at = seed * 104_729 % bytes.len();
            bytes[at] ^= 0x55;
            let path = file(place.path(), "program", &bytes);
            let run = quincunx(&["run", &path, "--target", "dais", "--data", "ones"]);
            assert!([0, 1, 3, 4].contains(&run.code), "{kind}: {} {}", run.code, run.stderr);
        }
    }
}

#[test]
fn damaged_program_folders() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let description = Path::new(&out).join("program.json");
    let whole = fs::read_to_string(&description).unwrap();
    let check = |text: &str, code: i32| {
        fs::write(&description, text).unwrap();
        for arguments in
            [&["run", &out, "--data", "zeros"][..], &["verify", &out], &["inspect", &out]]
        {
            let run = quincunx(arguments);
            assert_eq!((run.code, run.stdout.len()), (code, 0), "{arguments:?}: {}", run.stderr);
        }
    };
    for part in 0..8 {
        check(&whole[..whole.len() * part / 8], 3);
    }
    check(&whole.replace("device0", "../device0"), 3);
    check(&whole.replace("program.dasm", "/etc/passwd"), 3);
    check(&whole.replacen("\"sha256\": \"", "\"sha256\": \"0", 1), 3);
    check(&whole.replacen("\"target\": \"dais\"", "\"target\": \"abacus\"", 1), 3);
    check(&whole.replacen("\"schema\": 1", "\"schema\": 99", 1), 4);
    check(&whole.replace("\"place\": \"%", "\"place\": \"%9999999999"), 3);
    // The network's own shapes are those of the ports.
    let outputs = whole.find("\"outputs\": [").unwrap();
    let (before, after) = whole.split_at(outputs);
    assert!(after.contains("10\n"));
    check(&format!("{before}{}", after.replacen("10\n", "11\n", 1)), 3);
    let (before, after) = whole.split_at(whole.find("\"inputs\": [").unwrap());
    check(&format!("{before}{}", after.replacen("8\n", "9\n", 1)), 3);
}
