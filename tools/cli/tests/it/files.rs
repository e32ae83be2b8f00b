//! What a command does to the file system: where results go, what they never replace, and what is
//! left of a command that fails or is ended.

use crate::support::{compiled, digits, file, names_in, quincunx};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a command that must be refused with this code, and leave a place as it was.
fn refused(place: &Path, arguments: &[&str], exit: i32, code: &str) {
    let before = names_in(place);
    let run = quincunx(arguments);
    assert_eq!((run.code, run.stdout.len()), (exit, 0), "{arguments:?}: {}", run.stderr);
    assert!(run.stderr.contains(&format!("error[{code}]")), "{arguments:?}: {}", run.stderr);
    assert_eq!(names_in(place), before, "{arguments:?}");
}

#[test]
fn results_replace_nothing_that_is_read() {
    let place = tempfile::tempdir().unwrap();
    let here = |name: &str| text(&place.path().join(name)).to_owned();
    let copy = |name: &str| file(place.path(), name, &fs::read(digits(name)).unwrap());
    let (model, data, beside) = (copy("digits.onnx"), copy("test.npz"), copy("calib.npz"));
    let out = compiled(place.path());
    let program = format!("{out}/device0/program.dasm");
    let link = here("link");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&model, &link).unwrap();
    #[cfg(not(unix))]
    fs::copy(&model, &link).unwrap();
    let tcu = ["compile", &model, "-t", "tcu", "--emit", &format!("tmodel={}", here("tcu/"))];
    assert_eq!(quincunx(&tcu).code, 0);
    let names = names_in(&place.path().join("tcu"));
    let tcu = |ending: &str| {
        here(&format!("tcu/{}", names.iter().find(|name| name.ends_with(ending)).unwrap()))
    };
    let (described, constants) = (tcu(".tmodel"), tcu(".tdata"));
    let bytes =
        || [&model, &data, &beside, &program, &constants].map(|path| fs::read(path).unwrap());
    let before = bytes();
    for arguments in [
        &["run", &model, "--data", &data, "-o", &data][..],
        &["run", &model, "--data", &data, "--trace-layers", &model],
        &["run", &model, "--data", &data, "-o", &here("./tcu/../digits.onnx")],
        &["run", &link, "--data", &data, "-o", &model],
        &["run", &out, "--data", &data, "-o", &program],
        &["quantise", &model, "-o", &model],
        &["quantise", &model, "-o", &beside],
        &["quantise", &model, "-o", &link, "--calibrate", "random:1"],
        &["inspect", &data, "-o", &data],
        &["disasm", &described, "-o", &constants],
        &["asm", &program, "-o", &program],
        &["diff", &out, &out, "-o", &program],
        &["time", &program, "--page", &program],
        &["compile", &model, "-t", "dais", "-o", &here("new"), "--emit", &format!("bin={model}")],
        &["compile", &model, "-t", "dais", "--emit", &format!("bin={beside}")],
    ] {
        refused(place.path(), arguments, 2, "Q0517");
        assert!(bytes() == before, "{arguments:?}");
    }
}

#[test]
fn two_results_have_two_places() {
    let place = tempfile::tempdir().unwrap();
    let here = |name: &str| text(&place.path().join(name)).to_owned();
    fs::create_dir(here("folder")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("folder", here("same")).unwrap();
    let (model, data) = (digits("digits_pow2.onnx"), digits("test.npz"));
    let (asm, bin) = (format!("asm={}", here("x")), format!("bin={}", here("x")));
    let inside = format!("bin={}", here("out/x"));
    for arguments in [
        &["run", &model, "--data", &data, "-o", &here("x"), "--trace-layers", &here("x")][..],
        &[
            "run",
            &model,
            "--data",
            &data,
            "-o",
            &here("folder/x"),
            "--trace-layers",
            &here(if cfg!(unix) { "same/x" } else { "folder/../folder/x" }),
        ],
        &["compile", &model, "-t", "dais", "--emit", &asm, "--emit", &bin, "-q"],
        &["compile", &model, "-t", "dais", "-o", &here("out"), "--emit", &inside],
    ] {
        let run = quincunx(arguments);
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.stderr);
        assert!(run.stderr.contains("error[Q0516]"), "{arguments:?}: {}", run.stderr);
        let left = if cfg!(unix) { vec!["folder", "same"] } else { vec!["folder"] };
        assert_eq!(names_in(place.path()), left);
    }
}

/// The model is no model: what is wrong with places is found before it is read.
#[test]
fn places_are_checked_before_the_work() {
    let place = tempfile::tempdir().unwrap();
    let here = |name: &str| text(&place.path().join(name)).to_owned();
    let model = file(place.path(), "model.onnx", b"no model");
    fs::create_dir(here("folder")).unwrap();
    fs::write(here("folder/mine"), "").unwrap();
    let in_file = format!("bin={}", here("model.onnx/x"));
    for (arguments, exit, code) in [
        (&["run", &model, "--data", "zeros", "-o", &here("no/x.npz")][..], 74, "Q0518"),
        (&["run", &model, "--data", "zeros", "-o", &here("folder")], 74, "Q0518"),
        (&["quantise", &model, "-o", &here("no/q.onnx")], 74, "Q0518"),
        (&["quantise", &model, "-o", "/proc/q.onnx"], 74, "Q0518"),
        (&["inspect", &model, "-o", &here("no/x")], 74, "Q0518"),
        (&["compile", &model, "-t", "dais", "-o", &here("no/x")], 74, "Q0518"),
        (&["compile", &model, "-t", "dais", "-o", &here("folder")], 2, "Q0510"),
        (&["compile", &model, "-t", "dais", "--emit", &in_file], 74, "Q0518"),
        (&["compile", &model, "-t", "dais", "--emit", "bin=/proc/x/"], 74, "Q0518"),
        (&["asm", &model, "-t", "dais", "-o", "/proc/x"], 74, "Q0518"),
        (&["inspect", &here("none")], 74, "Q0602"),
        (&["compile", &here("none"), "-t", "dais", "-o", &here("out")], 74, "Q0602"),
        (&["verify", &here("folder/none")], 74, "Q0602"),
        (&["bench", "import", "--models", &here("none")], 74, "Q0625"),
    ] {
        refused(place.path(), arguments, exit, code);
    }
}

#[test]
fn results_appear_together_or_not_at_all() {
    let place = tempfile::tempdir().unwrap();
    let here = |name: &str| text(&place.path().join(name)).to_owned();
    let (model, data) = (digits("digits_pow2.onnx"), digits("test.npz"));
    let (bin, full) = (format!("bin={}", here("p.bin")), "json=/dev/full");
    let timed = file(
        place.path(),
        "p.dasm",
        &quincunx(&["compile", &model, "-t", "dais", "--emit", "asm=-"]).stdout,
    );
    for arguments in [
        &["run", &model, "--data", &data, "-o", &here("x.npz"), "--trace-layers", "/dev/full"][..],
        &["compile", &model, "-t", "dais", "-o", &here("out"), "--emit", &bin, "--emit", full],
        &["time", &timed, "--page", &here("t.html"), "-o", "/dev/full"],
    ] {
        let run = quincunx(arguments);
        assert_eq!(run.code, 74, "{arguments:?}: {}", run.stderr);
        assert_eq!(names_in(place.path()), ["p.dasm"], "{arguments:?}");
    }
}

/// A file system that takes 1 KiB of every file.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_what_was_there() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let before = fs::read(format!("{out}/program.json")).unwrap();
    let table = file(place.path(), "table.txt", b"old");
    let model = digits("digits.onnx");
    let small = |arguments: &[&str]| {
        let limited = "trap '' XFSZ; ulimit -f 2; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_quincunx")]).args(arguments);
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(74), "{arguments:?}: {errors}");
        assert!(errors.contains("error[Q0518]"), "{errors}");
        assert_eq!(names_in(place.path()), ["out", "table.txt"]);
    };
    small(&["compile", &model, "-t", "dais", "-o", &out]);
    small(&["compile", &model, "-t", "tcu", "-o", &out, "--emit", &format!("asm={table}")]);
    small(&["quantise", &model, "-o", &table]);
    assert!(fs::read(format!("{out}/program.json")).unwrap() == before);
    assert_eq!(fs::read(table).unwrap(), b"old");
    assert_eq!(quincunx(&["verify", &out]).code, 0);
}

/// A file system of 1.5 MB, which has room for half of a second program folder; then read-only, also
/// for who may do anything.
#[cfg(target_os = "linux")]
#[test]
#[allow(clippy::print_stdout, reason = "a test that skips says so")]
fn a_small_or_read_only_file_system_keeps_what_was_there() {
    const SCRIPT: &str = r#"
        set -e
        mount -t tmpfs -o size=1500k tmpfs "$1/disk"
        cp -r "$1/out" "$1/disk/out"
        cd "$1/disk"
        refused() {
            code=0
            "$quincunx" "$@" >/dev/null 2>"$place/errors" || code=$?
            cat "$place/errors"
            grep -q "error.Q0518.*: $expected" "$place/errors"
            [ $code = 74 ] && [ "$(ls -A)" = out ] && diff -r out "$place/out"
        }
        place="$1" quincunx="$2" model="$3" expected="No space left"
        refused compile "$model" -t dais -o out
        refused compile "$model" -t dais -o new --emit json=new.json
        expected="Read-only"
        mount -o remount,ro "$1/disk"
        refused compile "$model" -t dais -o out
        refused compile "$model" -t dais --emit bin=new/
        refused quantise "$model" -o new.onnx
        refused inspect out -o table.txt
        "$quincunx" verify out
    "#;
    let namespace = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount"]).args(arguments);
        command.output().ok()
    };
    if !namespace(&["true"]).is_some_and(|output| output.status.success()) {
        println!("skipped: this system lets nobody mount; see the test before");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    compiled(place.path());
    fs::create_dir(place.path().join("disk")).unwrap();
    let (binary, model) = (env!("CARGO_BIN_EXE_quincunx"), digits("digits.onnx"));
    let ran = namespace(&["sh", "-xc", SCRIPT, "sh", text(place.path()), binary, &model]).unwrap();
    let said = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(ran.status.success(), "{}{}", said[0], said[1]);
}

#[cfg(unix)]
#[test]
fn what_is_replaced_keeps_its_permissions_and_its_links() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let place = tempfile::tempdir().unwrap();
    let here = |name: &str| text(&place.path().join(name)).to_owned();
    let mode = |path: &str| fs::metadata(path).unwrap().mode() & 0o777;
    let set =
        |path: &str, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let out = compiled(place.path());
    let program = format!("{out}/device0/program.dasm");
    set(&out, 0o750);
    set(&program, 0o640);
    compiled(place.path());
    assert_eq!((mode(&out), mode(&program)), (0o750, 0o640));

    let table = file(place.path(), "table.txt", b"old");
    set(&table, 0o604);
    symlink("table.txt", here("link")).unwrap();
    assert_eq!(quincunx(&["inspect", &out, "-o", &here("link")]).code, 0);
    assert!(fs::symlink_metadata(here("link")).unwrap().is_symlink());
    assert_eq!(mode(&table), 0o604);
    assert_ne!(fs::read(&table).unwrap(), b"old");

    // New ones follow the mask of the process.
    let masked = "umask 027; exec \"$@\"";
    let status = Command::new("sh")
        .args(["-c", masked, "sh", env!("CARGO_BIN_EXE_quincunx")])
        .args(["compile", &digits("digits_pow2.onnx"), "-t", "dais", "-q", "-o", &here("new")])
        .args(["--emit", &format!("bin={}", here("new.bin"))])
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    assert_eq!((mode(&here("new")), mode(&here("new.bin"))), (0o750, 0o640));
    assert_eq!(mode(&here("new/device0/program.dasm")), 0o640);
}

#[test]
fn emitted_files_go_where_the_help_says() {
    let place = tempfile::tempdir().unwrap();
    let emit = |target: &str, kinds: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quincunx"));
        command.current_dir(place.path()).args(["compile", &digits("digits.onnx"), "-qt", target]);
        for kind in kinds {
            command.args(["--emit", kind]);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    fs::create_dir(place.path().join("there")).unwrap();
    emit("dais", &["bin", "json=one.json", "asm=there", "svg=new/", "bin=deep/er/x.bin"]);
    assert_eq!(names_in(place.path()), ["deep", "digits.dais", "new", "one.json", "there"]);
    let inside = |folder| names_in(&place.path().join(folder));
    assert_eq!(inside("there"), ["digits.dasm"]);
    assert_eq!(inside("new"), ["digits.svg"]);
    assert_eq!(inside("deep/er"), ["x.bin"]);
    emit("tcu", &["tmodel=several"]);
    assert_eq!(inside("several").len(), 3);
}

#[test]
fn texts_may_begin_with_a_byte_order_mark() {
    let place = tempfile::tempdir().unwrap();
    let compile =
        |kind: &str| quincunx(&["compile", &digits("digits.onnx"), "-t", "dais", "--emit", kind]);
    let marked = |name: &str, text: &[u8]| {
        file(place.path(), name, &[b"\xef\xbb\xbf".as_slice(), text].concat())
    };
    let row = vec!["0.5"; 64].join(",");
    let (plain, data) =
        (file(place.path(), "d.csv", row.as_bytes()), marked("m.csv", row.as_bytes()));
    for kind in ["asm", "json", "bin"] {
        let native = compile(&format!("{kind}=-")).stdout;
        let program = file(place.path(), &format!("p.{kind}"), &native);
        let run = |program: &str, data: &str| quincunx(&["run", program, "--data", data]);
        let expected = run(&program, &plain);
        assert_eq!(expected.code, 0, "{}", expected.stderr);
        assert!(run(&program, &data).stdout == expected.stdout, "{kind}");
        if kind != "bin" {
            let program = marked(&format!("m.{kind}"), &native);
            assert!(run(&program, &data).stdout == expected.stdout, "{kind}");
        }
    }
    let named = b"name = \"mine\"\n";
    // Two of the targets need more than a name, and say so of both.
    for (target, code) in [("dais", 0), ("npu", 0), ("scamp", 0), ("dpas", 3), ("tcu", 3)] {
        let [plain, marked] = [file(place.path(), "a.toml", named), marked("b.toml", named)]
            .map(|path| quincunx(&["targets", target, "--arch", &path]));
        assert_eq!((plain.code, marked.code), (code, code), "{target}: {}", marked.stderr);
        assert_eq!(plain.text(), marked.text(), "{target}");
        assert_eq!(plain.stderr.lines().next(), marked.stderr.lines().next(), "{target}");
    }
    let widths = marked("w.toml", b"weights = 4\n");
    let out = text(&place.path().join("q.onnx")).to_owned();
    let run = quincunx(&["quantise", &digits("digits.onnx"), "--widths", &widths, "-o", &out]);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// A command that is ended at many moments: what it replaces is the old or the new.
#[cfg(unix)]
fn ended_by(signal: i32) -> tempfile::TempDir {
    use std::os::unix::process::ExitStatusExt;
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let models = [digits("digits.onnx"), digits("digits_pow2.onnx")];
    let start = |model: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quincunx"));
        command.args(["compile", model, "-q", "-t", "dais", "--effort", "fast", "-o", &out]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let started = std::time::Instant::now();
    assert!(start(&models[1]).wait().unwrap().success());
    let whole = started.elapsed();
    let mut ended = 0;
    for round in 0..12_u32 {
        let child = start(&models[round as usize % 2]);
        // Mostly near the end, where files are written.
        std::thread::sleep(if round < 3 { whole * round / 4 } else { whole * (38 + round) / 50 });
        let kill =
            Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).output();
        assert!(kill.is_ok());
        let output = child.wait_with_output().unwrap();
        ended += usize::from(output.status.signal() == Some(signal));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.signal().is_some() || output.status.success(), "{errors}");
        let run = quincunx(&["verify", &out]);
        assert_eq!(run.code, 0, "round {round}: {}", run.stderr);
    }
    assert!(ended > 1, "{ended} of the runs were ended");
    place
}

#[cfg(unix)]
#[test]
fn who_is_killed_leaves_the_old_or_the_new() {
    let place = ended_by(9);
    compiled(place.path());
    assert_eq!(names_in(place.path()), ["out"], "the next command removes what is left");
}

#[cfg(unix)]
#[test]
fn who_is_interrupted_leaves_no_temporary_files() {
    for signal in [2, 15] {
        let place = ended_by(signal);
        assert_eq!(names_in(place.path()), ["out"]);
    }
}
