//! The verbs agree on what is legal: what `verify` finds nothing in is timed, assembled and run;
//! what it refuses is refused by all of these. Judged on damaged programs of every target.

use quincunx::assemble::convert;
use quincunx::compile::{Job, compile, to_folder};
use quincunx::target::{ArchSource, File, Program};
use quincunx::verify::{refuse_illegal, verify};
use quincunx::{InputFile, Model, Setup, find_target, open_folder, open_native, targets};
use quincunx_diag::{Class, Diagnostic};
use quincunx_tensor::Tensor;
use quincunx_testkit::{
    Random, damaged_inside, damaged_lines, exercise, mend_folder, within_seconds,
};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Damaged copies of every file.
const COPIES: u64 = 60;

/// What means something in texts.
const MARKS: &[u8] = b"0123456789-.,:;[](){}<>@%$|=#\"\\/*^+ \nABNRXeilx\x00\x01\x7f\xff";

/// Options that keep runs short, and files with the machines they are for.
type Base = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

const BASES: [Base; 5] = [
    (
        "dais",
        &[],
        &[
            "examples/dais/sum.dasm",
            "tests/golden/dais/alir4/bits.json.gz",
            "tests/golden/dais/ops/lookup.bin",
        ],
    ),
    ("tcu", &[], &["tests/golden/tcu/compiled/t_add_artya7100t_iso.tprog"]),
    (
        "npu",
        &[],
        &[
            "tests/golden/npu/fragments/f01_ct_only.asm.txt",
            "tests/golden/npu/fragments/f02_load_quantise_store.asm.txt",
        ],
    ),
    ("scamp", &[("size", "8x8")], &["tests/golden/scamp/sample_default_format.txt"]),
    (
        "dpas",
        &[],
        &[
            "tests/golden/dpas/files/plain.xeasm",
            "tests/golden/dpas/files/dump.xebin",
            "tests/golden/dpas/files/gemm.visaasm",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn setup(target: &'static str, given: &[(&str, &str)]) -> Setup<'static> {
    let given: Vec<_> = given.iter().map(|&(n, v)| (n.to_owned(), v.to_owned())).collect();
    Setup::new(find_target(target).unwrap(), &ArchSource::Default, &given).unwrap()
}

/// The file, and the program in every kind of file.
fn forms(setup: &Setup<'_>, path: &str) -> Vec<File> {
    let name = Path::new(path).file_name().unwrap().to_str().unwrap();
    let file = File::new(name, std::fs::read(root().join(path)).unwrap());
    let mut forms = vec![file.clone()];
    for kind in setup.target.info().kinds {
        let Ok(converted) =
            convert(std::slice::from_ref(&file), setup, &[Some(kind.name)], "x", false)
        else {
            continue;
        };
        // Pictures and logic are not read.
        let read =
            |file: &File| convert(std::slice::from_ref(file), setup, &[None], "x", false).is_ok();
        forms.extend(converted.files.into_iter().flatten().filter(read));
    }
    forms
}

fn is_little(program: &dyn Program) -> bool {
    program.stats().cycles.is_none_or(|cycles| cycles < 1 << 18)
}

fn breaks_rules(problems: &[Diagnostic]) -> bool {
    problems.iter().any(|p| p.is_error() && p.class() == Class::Invalid)
}

/// What became of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Unreadable,
    Illegal,
    Legal,
}

/// All verbs on a file, which agree.
fn judged(setup: &Setup<'static>, given: &[(&str, &str)], file: &File) -> Found {
    let files = std::slice::from_ref(file);
    exercise(setup.target, &*setup.arch, given, files, &is_little);
    let again = self::setup(setup.name(), given);
    let written = convert(files, setup, &[None], "x", true);
    let opened = match open_native(files, again, None) {
        Ok(opened) => opened,
        Err(failure) => {
            assert!([3, 4].contains(&failure.exit_code()), "{failure}");
            assert!(written.is_err(), "a program that is not read is written");
            return Found::Unreadable;
        }
    };
    let illegal = breaks_rules(&verify(&opened));
    assert_eq!(refuse_illegal(&opened).is_err(), illegal);
    match written {
        Ok(_) => assert!(!illegal, "asm writes what verify refuses"),
        Err(failure) if illegal => assert_eq!(failure.exit_code(), 3, "{failure}"),
        // A kind of file may lack what the program has.
        Err(failure) => assert!([3, 4].contains(&failure.exit_code()), "{failure}"),
    }
    if illegal { Found::Illegal } else { Found::Legal }
}

#[test]
fn the_verbs_agree_on_damaged_programs_of_every_target() {
    for (name, given, paths) in BASES {
        let setup = setup(name, given);
        let mut found = BTreeMap::<Found, usize>::new();
        for path in paths {
            for form in forms(&setup, path) {
                for copy in 0..COPIES {
                    let mut random = Random::new(copy);
                    let bytes = match form.text() {
                        Ok(text) if copy % 3 == 0 => damaged_lines(text, &mut random).into_bytes(),
                        _ => damaged_inside(&form.bytes, MARKS, &mut random),
                    };
                    let file = File::new(form.name.clone(), bytes);
                    let judged = catch_unwind(AssertUnwindSafe(|| {
                        within_seconds(5, || judged(&setup, given, &file))
                    }));
                    // Tests show what is printed last.
                    let judged =
                        judged.unwrap_or_else(|_| panic!("{name}: {} copy {copy}", form.name));
                    *found.entry(judged).or_default() += 1;
                }
            }
        }
        assert_eq!(found.len(), 3, "{name}: {found:?}");
    }
}

/// Program folders whose native files are damaged and whose hashes fit them again.
#[test]
fn the_verbs_agree_on_damaged_folders() {
    let model = InputFile::open(&root().join("examples/digits/digits_pow2.onnx")).unwrap();
    let model = Model::read(&model).unwrap();
    for (name, copies) in [("dais", 20), ("tcu", 60)] {
        let setup = setup(name, &[]);
        let compiled = compile(&Job::new(&model, &setup)).unwrap();
        let whole = to_folder(&compiled, compiled.result.as_ref().unwrap(), &setup).unwrap();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        let mut found = BTreeMap::<Found, usize>::new();
        for copy in 0..copies {
            whole.write(&path).unwrap();
            let mut random = Random::new(copy);
            let files = whole.contents().unwrap();
            let natives = files.iter().filter(|(name, _)| name.components().count() > 1);
            let (native, bytes) = random.pick(&natives.collect::<Vec<_>>());
            let damaged = match std::str::from_utf8(bytes) {
                Ok(text) if random.coin() => damaged_lines(text, &mut random).into_bytes(),
                _ => damaged_inside(bytes, MARKS, &mut random),
            };
            std::fs::write(path.join(native), damaged).unwrap();
            mend_folder(&path);
            let found = found.entry(within_seconds(10, || opened(&path))).or_default();
            *found += 1;
        }
        assert!(found.len() > 1 && found.contains_key(&Found::Unreadable), "{name}: {found:?}");
    }
}

/// A folder is opened, judged and run.
fn opened(path: &Path) -> Found {
    let Ok(opened) = open_folder(path, targets(), &[]) else { return Found::Unreadable };
    let problems = verify(&opened);
    let illegal = breaks_rules(&problems);
    assert_eq!(refuse_illegal(&opened).is_err(), illegal);
    let zeros = opened.executable.inputs.iter().map(|input| {
        let count = input.shape.iter().product();
        (input.name.clone(), Tensor::from_vec(&input.shape, vec![0.0_f64; count]).unwrap())
    });
    match opened.executable.load().and_then(|mut session| session.run(&zeros.collect())) {
        Err(problem) if problem.class() == Class::Invalid => {
            assert!(!problems.is_empty(), "verify finds nothing, run does: {problem}");
        }
        _ => {}
    }
    if illegal { Found::Illegal } else { Found::Legal }
}
