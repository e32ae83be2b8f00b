//! Finding the native files of a program.

use crate::InputFile;
use crate::detect::is_model_or_arrays;
use crate::foreign::refuse_folder;
use quincunx_contract::Target;
use quincunx_diag::{Diagnostic, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most files of a folder that are looked at.
const MAX_FILES: usize = 4096;

/// Most bytes of a folder that are looked at, models and arrays not counted.
const MAX_BYTES: u64 = 1 << 29;

/// The files of a folder that a target recognises, in the order of their names. Models and arrays,
/// which can be large, are passed over by name or first bytes.
///
/// # Errors
/// `Q0602` when it cannot be read, `Q0611` when no target recognises a file in it, or it holds too
/// many files or bytes.
pub fn natives_in(folder: &Path, targets: &[&dyn Target]) -> Result<Vec<InputFile>> {
    refuse_folder(folder)?;
    let name = folder.display().to_string();
    let fail =
        |error: std::io::Error| Diagnostic::system("Q0602", "read it", &error).in_file(&name);
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.is_file() {
            paths.push(path);
        }
        if paths.len() > MAX_FILES {
            let message = format!("the folder holds more than {MAX_FILES} files");
            return Err(Diagnostic::unsupported("Q0611", message).in_file(&name));
        }
    }
    paths.sort();
    let mut files = Vec::new();
    let mut left = MAX_BYTES;
    for path in paths {
        if is_no_program(&path) {
            continue;
        }
        let size = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        left = left.checked_sub(size).ok_or_else(|| {
            let message = format!(
                "the folder holds more than {} MiB, the most that is read",
                MAX_BYTES >> 20
            );
            Diagnostic::unsupported("Q0611", message)
                .in_file(path.display().to_string())
                .help("name the files of the program instead of the folder")
        })?;
        let file = match InputFile::open(&path) {
            // A model of another tool lies beside the program.
            Err(problem) if problem.code() == "Q0651" => continue,
            file => file?,
        };
        if targets.iter().any(|target| target.recognises(&file.to_file())) {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(Diagnostic::invalid("Q0611", "no target recognises any file in the folder")
            .in_file(&name)
            .help(
                "a program folder holds program.json, other folders native files of one program",
            ));
    }
    Ok(files)
}

/// True for models and arrays, by their names or first bytes.
fn is_no_program(path: &Path) -> bool {
    let mut start = Vec::new();
    // What cannot be read is reported when it is opened.
    let read = fs::File::open(path).and_then(|file| file.take(16).read_to_end(&mut start));
    read.is_ok() && is_model_or_arrays(&path.to_string_lossy(), &start)
}

/// The files, followed by those that belong to them and lie beside them.
///
/// # Errors
/// `Q0641` for a file that belongs to another one and is not there, or too many of them.
pub fn with_companions(
    mut files: Vec<InputFile>,
    targets: &[&dyn Target],
) -> Result<Vec<InputFile>> {
    let mut here: BTreeSet<String> =
        files.iter().map(|file| file.to_file().base_name().to_owned()).collect();
    let mut index = 0;
    while index < files.len() {
        for name in companions(&files[index], targets) {
            if here.contains(&name) {
                continue;
            }
            if files.len() >= MAX_FILES {
                let message = format!("more than {MAX_FILES} files belong together");
                return Err(Diagnostic::unsupported("Q0641", message).in_file(&files[0].name));
            }
            files.push(open_beside(&files[index], &name)?);
            here.insert(name);
        }
        index += 1;
    }
    Ok(files)
}

/// What the target says whose file it is; a target that is named is asked about any file.
fn companions(file: &InputFile, targets: &[&dyn Target]) -> Vec<String> {
    let whole = file.to_file();
    let target = match targets {
        [only] => Some(only),
        _ => targets.iter().find(|target| target.recognises(&whole)),
    };
    target.map_or_else(Vec::new, |target| target.companions(&whole))
}

fn open_beside(file: &InputFile, name: &str) -> Result<InputFile> {
    let missing = |why: String| {
        Diagnostic::invalid("Q0641", format!("it belongs with {name:?}, {why}")).in_file(&file.name)
    };
    // The name comes out of a file: it must not lead elsewhere.
    let is_plain = Path::new(name).file_name().is_some_and(|only| only == name);
    if !is_plain || name.contains(['/', '\\']) {
        return Err(missing("expected a plain file name".to_owned()));
    }
    let Some(path) = &file.path else {
        return Err(missing("which is not given".to_owned()).help("give the file as well"));
    };
    let path = path.with_file_name(name);
    if let (Ok(real), Ok(folder)) = (path.canonicalize(), path.with_file_name(".").canonicalize())
        && !real.starts_with(folder)
    {
        return Err(missing("which is a link that leaves the folder".to_owned())
            .help("copy the file into the folder"));
    }
    // A pipe or a device would be waited for.
    if path.exists() && !path.is_file() {
        return Err(missing("which is not a regular file".to_owned()));
    }
    InputFile::open(&path)
        .map_err(|problem| missing(format!("which cannot be used: {}", problem.message())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::toy::Toy;
    use quincunx_diag::Severity;

    fn beside(name: &str, files: &[(&str, &str)]) -> Result<Vec<String>> {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(place.path().join(name), text).unwrap();
        }
        let first = InputFile::open(&place.path().join(name))?;
        let files = with_companions(vec![first], &[&Toy])?;
        Ok(files.iter().map(|file| file.to_file().base_name().to_owned()).collect())
    }

    #[test]
    fn companions_may_name_each_other() {
        let files = [
            ("a.toy", "toy\nwith b.toy"),
            ("b.toy", "toy\nwith a.toy c.toy b.toy"),
            ("c.toy", "toy\n"),
        ];
        assert_eq!(beside("a.toy", &files).unwrap(), ["a.toy", "b.toy", "c.toy"]);
    }

    #[test]
    fn companions_lie_in_the_same_folder() {
        for name in ["gone.toy", "../x", "/etc/hostname", "..", ".", "a\\x", "b/"] {
            let problem =
                beside("a.toy", &[("a.toy", &format!("toy\nwith {name}")), ("a\\x", "toy\n")]);
            let problem = problem.unwrap_err();
            assert_eq!((problem.code(), problem.severity()), ("Q0641", Severity::Error), "{name}");
        }
        let stream = InputFile::from_reader("<stdin>", &b"toy\nwith b.toy"[..]).unwrap();
        assert!(with_companions(vec![stream], &[&Toy]).unwrap_err().to_string().contains("b.toy"));
    }

    #[test]
    fn folders_are_searched_for_what_a_target_recognises() {
        let place = tempfile::tempdir().unwrap();
        let of = |targets: &[&dyn Target]| {
            let files = natives_in(place.path(), targets);
            files.map(|files| {
                files.iter().map(|f| f.to_file().base_name().to_owned()).collect::<Vec<_>>()
            })
        };
        fs::write(place.path().join("b.toy"), "toy\n").unwrap();
        fs::write(place.path().join("notes"), "about it").unwrap();
        fs::create_dir(place.path().join("more.toy")).unwrap();
        #[cfg(unix)]
        for (name, to) in [("a.toy", "b.toy"), ("gone.toy", "nowhere"), ("self.toy", ".")] {
            std::os::unix::fs::symlink(to, place.path().join(name)).unwrap();
        }
        assert_eq!(
            of(&[&Toy]).unwrap(),
            if cfg!(unix) { vec!["a.toy", "b.toy"] } else { vec!["b.toy"] }
        );
        assert_eq!(of(&[]).unwrap_err().code(), "Q0611");
    }

    #[test]
    fn large_files_of_folders_are_passed_over_or_refused() {
        let place = tempfile::tempdir().unwrap();
        // Files with holes: they have a size and no contents.
        let sparse = |name: &str, start: &[u8], size: u64| {
            fs::write(place.path().join(name), start).unwrap();
            let file = fs::OpenOptions::new().write(true).open(place.path().join(name)).unwrap();
            file.set_len(size).unwrap();
        };
        fs::write(place.path().join("b.toy"), "toy\n").unwrap();
        sparse("weights.onnx", b"", 1 << 40);
        sparse("arrays", b"PK", 1 << 40);
        assert_eq!(natives_in(place.path(), &[&Toy]).unwrap().len(), 1);
        sparse("dump", b"", MAX_BYTES);
        let problem = natives_in(place.path(), &[&Toy]).unwrap_err();
        assert_eq!((problem.code(), problem.class()), ("Q0611", quincunx_diag::Class::Unsupported));
        assert!(problem.help_text().unwrap().contains("name the files"));
    }

    #[cfg(unix)]
    #[test]
    fn companions_are_not_outside_of_the_folder() {
        let (place, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| place.path().join(name);
        fs::write(at("a.toy"), "toy\nwith b.toy").unwrap();
        fs::write(at("c.toy"), "toy\n").unwrap();
        fs::write(outside.path().join("b.toy"), "toy\n").unwrap();
        let files = || with_companions(vec![InputFile::open(&at("a.toy")).unwrap()], &[&Toy]);
        std::os::unix::fs::symlink("c.toy", at("b.toy")).unwrap();
        assert_eq!(files().unwrap().len(), 2);
        fs::remove_file(at("b.toy")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("b.toy"), at("b.toy")).unwrap();
        let problem = files().unwrap_err();
        assert_eq!(problem.code(), "Q0641");
        assert!(problem.message().contains("leaves the folder"), "{problem}");
    }

    #[cfg(unix)]
    #[test]
    fn companions_are_regular_files() {
        let place = tempfile::tempdir().unwrap();
        let first = place.path().join("a.toy");
        fs::write(&first, "toy\nwith pipe.toy").unwrap();
        let made = std::process::Command::new("mkfifo").arg(place.path().join("pipe.toy")).status();
        assert!(made.unwrap().success());
        let problem = with_companions(vec![InputFile::open(&first).unwrap()], &[&Toy]).unwrap_err();
        assert_eq!(problem.code(), "Q0641");
        assert!(problem.message().contains("not a regular file"), "{problem}");
    }
}
