//! What is no program is refused by all verbs (exit 3). What breaks a rule of its machine is refused
//! by all that take a program for what it says: `verify` answers no (1), `run`, `time` and `asm`
//! refuse it (3); `disasm` and `inspect` show it. What is legal is taken by all.

use crate::support::{Run, file, names_in, quincunx};
use std::path::Path;

/// How far a program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Unreadable,
    Illegal,
    Legal,
}
use Is::{Illegal, Legal, Unreadable};

/// All verbs on one file, `run` with `more` options.
fn check(path: &str, options: &[&str], more: &[&str], expected: Is, at: &str) {
    let place = Path::new(path).parent().unwrap();
    let before = names_in(place);
    let out = place.join("never").to_str().unwrap().to_owned();
    let run = |arguments: &[&str]| quincunx(&[arguments, &[path][..], options].concat());
    let verdict = |run: &Run, what: &str, code: i32| {
        assert_eq!(run.code, code, "{at}: {what}: {}", run.stderr);
        if code != 0 {
            assert!(run.stderr.contains("error[Q"), "{at}: {what}: {}", run.stderr);
            assert!(run.stdout.is_empty() || what == "verify", "{at}: {what}");
        }
    };
    let [verified, taken, shown] = match expected {
        Unreadable => [3, 3, 3],
        Illegal => [1, 3, 0],
        Legal => [0, 0, 0],
    };
    verdict(&run(&["verify"]), "verify", verified);
    verdict(&run(&[&["run", "--data", "ones"], more].concat()), "run", taken);
    verdict(&run(&["time"]), "time", taken);
    verdict(&run(&["asm", "--emit", "asm"]), "asm", taken);
    verdict(&run(&["disasm"]), "disasm", shown);
    verdict(&run(&["inspect"]), "inspect", shown);
    if expected != Legal {
        verdict(&run(&["asm", "-o", &out]), "asm", taken);
        assert_eq!(names_in(place), before, "{at}");
    }
}

/// A golden file.
fn golden(path: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(folder.join(path)).unwrap()
}

/// The text, then with each of the changes.
fn damaged(name: &str, text: &str, options: &[&str], more: &[&str], changes: &[(&str, &str, Is)]) {
    let place = tempfile::tempdir().unwrap();
    check(&file(place.path(), name, text.as_bytes()), options, more, Legal, name);
    for (from, to, expected) in changes {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let path = file(place.path(), name, changed.as_bytes());
        check(&path, options, more, *expected, &format!("{name}: {from} -> {to}"));
    }
}

#[test]
fn dais() {
    let changes = [
        ("[-40, 38.75, 0.25]", "[-80, 77.5, 0.5]", Legal),
        ("[-40, 38.75, 0.25]", "[-64, 63.75, 0.25]", Legal),
        // An absurd type, one of too many bits, and one that is none.
        ("[-40, 38.75, 0.25]", "(1, 100000, 3)", Illegal),
        ("[-40, 38.75, 0.25]", "(1, 99999999999999999999, 3)", Unreadable),
        ("[-40, 38.75, 0.25]", "(1, 80, 2)", Illegal),
        ("[-40, 38.75, 0.25]", "[-40, 38.75, 0.3]", Illegal),
        ("[-40, 38.75, 0.25]", "[38.75, -40, 0.25]", Illegal),
        ("%1 << 2", "%1 << 99999", Illegal),
        ("%1 << 2", "%7 << 2", Illegal),
        ("%1 << 2", "%1 << x", Unreadable),
        ("input 1", "input 2", Illegal),
        ("= relu", "= relo", Unreadable),
        ("%4 =", "%5 =", Unreadable),
        ("out %4", "out %9", Illegal),
    ];
    damaged("x.dasm", &golden("examples/dais/sum.dasm"), &["-t", "dais"], &[], &changes);
}

#[test]
fn tcu() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tcu/compiled");
    let program = folder.join("t_add_artya7100t_iso.tprog");
    let text = quincunx(&["disasm", program.to_str().unwrap(), "-t", "tcu"]).text();
    let changes = [
        ("Local(0) DRAM1(0)", "Local(8190) DRAM1(0)", Illegal),
        ("Local(0) DRAM1(0)", "Local(9999999) DRAM1(0)", Unreadable),
        ("Local(0) DRAM1(0)", "Local(99999999999999999999) DRAM1(0)", Unreadable),
        ("O=Move(I)", "O=Move(R1)", Legal),
        ("O=Move(I)", "O=Move(R2)", Unreadable),
        ("O=Move(I)", "O=Remove(I)", Unreadable),
        ("[3] 0 MatMul", "[3] 1 MatMul", Unreadable),
        ("[3] 0 MatMul", "[3] 0 MatMole", Unreadable),
        ("[3] 0 MatMul", "[4] 0 MatMul", Unreadable),
    ];
    damaged("x.tasm", &text, &["-t", "tcu"], &[], &changes);
}

#[test]
fn npu() {
    let changes = [
        ("'BufCut': [0, 8191", "'BufCut': [0, 1", Illegal),
        ("'BufCut': [0, 8191", "'BufCut': [0, 99999", Unreadable),
        ("'BufCut': [0, 8191, ", "'BufCut': [", Unreadable),
        ("'Next_Insts': ['LD']", "'Next_Insts': []", Illegal),
        ("'Next_Insts': ['LD']", "'Next_Insts': ['XX']", Unreadable),
        ("lda_cfg", "lda_cgf", Unreadable),
        ("'SME': 1", "'SME': 1e9", Unreadable),
        ("[ct_st", "[ct_ed", Illegal),
    ];
    let text = golden("tests/golden/npu/fragments/f02_load_quantise_store.asm.txt");
    damaged("x.asm.txt", &text, &["-t", "npu"], &[], &changes);
}

#[test]
fn scamp() {
    let changes = [
        ("movx(B, A, south)", "movx(B, A, north)", Legal),
        ("movx(B, A, south)", "movx(B, A, up)", Unreadable),
        ("movx(B, A, south)", "movx(Z, A, south)", Illegal),
        ("movx(B, A, south)", "movx(B, A)", Unreadable),
        ("movx(B, A, south)", "movy(B, A, south)", Unreadable),
        ("diva(A, B, C)", "diva(A, A, C)", Illegal),
        ("scamp5_kernel_end();", "", Illegal),
        ("diva(A, B, C)", "diva(R1, B, C)", Illegal),
    ];
    let text = golden("tests/golden/scamp/sample_default_format.txt");
    damaged("x.txt", &text, &["-t", "scamp"], &["--size", "8x8"], &changes);
}

#[test]
fn dpas() {
    let changes = [
        (".8.8 (M1, 16)", ".7.8 (M1, 16)", Unreadable),
        (".8.8 (M1, 16)", ".8.9 (M1, 16)", Unreadable),
        ("num_elts=64", "num_elts=1", Illegal),
        ("num_elts=64", "num_elts=99999999999999999999", Unreadable),
        ("V34(0,0)", "V99(0,0)", Illegal),
        ("dpas.s8", "dpas.s9", Unreadable),
    ];
    let text = golden("tests/golden/dpas/files/gemm.visaasm");
    damaged("x.visaasm", &text, &["-t", "dpas", "--arch", "xehpc"], &[], &changes);
    // Dependencies that are missing break a rule, unless they are not asked for.
    let text = golden("tests/golden/dpas/files/plain.xeasm");
    let place = tempfile::tempdir().unwrap();
    let path = file(place.path(), "plain.xeasm", text.as_bytes());
    check(&path, &["-t", "dpas", "--arch", "xehpc"], &[], Illegal, "plain");
    check(&path, &["-t", "dpas", "--arch", "xehpc", "--swsb", "auto"], &[], Legal, "plain");
    check(&path, &["-t", "dpas", "--arch", "xehpc", "--swsb", "ignore"], &[], Legal, "plain");
}
