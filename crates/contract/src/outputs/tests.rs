use super::*;
use std::cell::Cell;
use std::env;
use std::process::{Command, Stdio, exit};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

/// What lies below a folder, with the contents of files.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(tree(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

fn moves(place: &Path) -> Vec<Move> {
    let mut moves = Vec::new();
    for path in ["new", "old", "made/a/b", "made/c", "there/x"] {
        let (name, path) = (PathBuf::from(path), place.join(path));
        stage_file(&mut moves, path, name, Bytes::from_static(b"2")).unwrap();
    }
    moves
}

/// A place with two old files, and what is there.
fn place() -> (tempfile::TempDir, BTreeMap<PathBuf, Vec<u8>>) {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("there")).unwrap();
    for old in ["old", "there/x"] {
        fs::write(place.path().join(old), "1").unwrap();
    }
    let before = tree(place.path());
    (place, before)
}

#[test]
fn a_step_that_fails_undoes_those_before_it() {
    for steps in 0..4 {
        let (place, before) = place();
        let left = Cell::new(steps);
        let staged = moves(place.path());
        assert_eq!(staged.len(), 4, "files of a new folder are one step");
        let outcome = all_or_none(&staged, |step, undo| match left.get() {
            0 if !undo => Err(io::ErrorKind::StorageFull.into()),
            count => {
                left.set(if undo { count } else { count - 1 });
                step.step(undo)
            }
        });
        assert_eq!(outcome.unwrap_err().class().exit_code(), 74);
        drop(staged);
        assert_eq!(tree(place.path()), before, "after {steps} steps");
    }
}

#[test]
fn all_steps_leave_the_new_and_nothing_else() {
    let (place, _) = place();
    let staged = moves(place.path());
    all_or_none(&staged, Move::step).unwrap();
    drop(staged);
    let found = tree(place.path());
    assert_eq!(found.len(), 5);
    assert!(found.values().all(|contents| contents == b"2"));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 4, "no temporary folder is left");
}

/// Systems without an exchange, and file systems that cannot.
#[test]
fn an_exchange_in_steps_is_one() {
    let place = tempfile::tempdir().unwrap();
    let (new, old) = (place.path().join("stage/new"), place.path().join("there"));
    fs::create_dir(place.path().join("stage")).unwrap();
    for is_folder in [false, true] {
        let file = |path: &Path| if is_folder { path.join("f") } else { path.to_owned() };
        for (path, contents) in [(&new, "2"), (&old, "1")] {
            let _ = fs::remove_file(path);
            if is_folder {
                fs::create_dir(path).unwrap();
            }
            fs::write(file(path), contents).unwrap();
        }
        exchange_in_steps(&new, &old).unwrap();
        let contents = [&new, &old].map(|path| fs::read(file(path)).unwrap());
        assert_eq!(contents, [b"1", b"2"]);
        assert!(exchange_in_steps(&place.path().join("stage/gone"), &old).is_err());
        assert_eq!(fs::read(file(&old)).unwrap(), b"2");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
    }
}

/// Tells a process of this test what becomes of it: how it writes and ends, in which place, and
/// before how many changes of the file system.
const FATE: &str = "QUINCUNX_TEST_FATE";

/// More changes than the test makes.
const CHANGES: usize = 60;

/// Changes until the end.
static LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Where the process ends: killed from outside, or as by the thread that waits for signals.
#[expect(clippy::exit, reason = "a signal ends the process of the test in the middle")]
pub(super) fn between_changes() {
    if LEFT.load(SeqCst) == usize::MAX || LEFT.fetch_sub(1, SeqCst) != 0 {
        return;
    }
    if env::var(FATE).is_ok_and(|fate| fate.starts_with("signal")) {
        thread::spawn(|| {
            abandon();
            exit(0)
        });
        return;
    }
    io::stdout().write_all(b"reached\n").unwrap();
    loop {
        thread::park();
    }
}

/// Replaces a folder and two files, and makes a file in a new folder.
fn write(way: &str, place: &Path, contents: &'static str) {
    let bytes = Bytes::from_static(contents.as_bytes());
    if way == "in steps" {
        for name in ["file", "folder"] {
            let new = Move::new(place.join(name), name.into()).unwrap();
            let inner: &[_] = if name == "file" { &[""] } else { &["a", "b/c"] };
            inner.iter().for_each(|path| new.write(Path::new(path), contents.as_bytes()).unwrap());
            exchange_in_steps(&new.staged(), &new.place).unwrap();
        }
        return;
    }
    let mut outputs = Outputs::default();
    let files = ["a", "b/c"].map(|name| (PathBuf::from(name), bytes.clone()));
    outputs.place(&place.join("folder"), Kind::Folder(files.to_vec())).unwrap();
    for name in ["file", "other", "made/x/y"] {
        outputs.file(&place.join(name), bytes.clone()).unwrap();
    }
    outputs.commit().unwrap();
}

/// What `write` leaves, without the new folder.
fn written(place: &Path) {
    for name in ["folder/a", "folder/b/c", "file", "other"] {
        fs::create_dir_all(place.join(name).parent().unwrap()).unwrap();
        fs::write(place.join(name), "1").unwrap();
    }
}

/// Writes in a process of its own, which ends before this change; `false` if it had no such.
fn ended(test: &str, way: &str, place: &Path, change: usize) -> bool {
    let mut child = Command::new(env::current_exe().unwrap())
        .args([&format!("outputs::tests::{test}"), "--exact", "--nocapture"])
        .env(FATE, format!("{way}|{}|{change}", place.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = io::BufReader::new(child.stdout.take().unwrap());
    let reached = io::BufRead::lines(output).any(|line| line.unwrap().contains("reached"));
    if reached {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    assert_ne!(reached, status.success(), "{status}");
    reached
}

/// Whether this is the process that writes, which then has.
fn is_child() -> bool {
    let Ok(fate) = env::var(FATE) else { return false };
    let [way, place, change] = fate.split('|').collect::<Vec<_>>()[..] else { panic!("{fate}") };
    LEFT.store(change.parse().unwrap(), SeqCst);
    write(way, Path::new(place), "2");
    LEFT.store(usize::MAX, SeqCst);
    true
}

/// Each result is the old or the new as a whole, in the order in which they are replaced.
fn assert_whole(place: &Path, at: &str) {
    let read = |name: &str| fs::read_to_string(place.join(name)).unwrap_or_else(|_| "1".to_owned());
    assert_eq!(read("folder/a"), read("folder/b/c"), "{at}");
    for name in ["folder/a", "folder/b/c", "file", "other"] {
        assert!(
            ["1", "2"].map(str::as_bytes).contains(&&*fs::read(place.join(name)).unwrap()),
            "{at}: {name}"
        );
    }
    let places = ["file", "folder/a", "made/x/y", "other"].map(read);
    assert!(places.is_sorted_by(|one, next| one >= next), "{at}: {places:?}");
}

/// Nothing but the results are there.
fn assert_new(place: &Path, at: &str) {
    let found = tree(place);
    assert!(found.values().all(|contents| contents == b"2"), "{at}: {found:?}");
    assert_eq!(found.len(), 5, "{at}: {found:?}");
    assert_eq!(fs::read_dir(place).unwrap().count(), 4, "{at}: {found:?}");
}

#[test]
fn who_is_killed_between_any_two_changes_leaves_the_old_or_the_new() {
    if is_child() {
        return;
    }
    for way in ["in steps", "at once"] {
        for change in 0.. {
            let (place, at) = (tempfile::tempdir().unwrap(), format!("{way}, change {change}"));
            written(place.path());
            let reached = ended(
                "who_is_killed_between_any_two_changes_leaves_the_old_or_the_new",
                way,
                place.path(),
                change,
            );
            if way == "in steps" {
                // A folder may be hidden until the next command comes.
                drop(Stage::new_in(place.path()).unwrap());
            }
            assert_whole(place.path(), &at);
            write("at once", place.path(), "2");
            assert_new(place.path(), &at);
            if !reached {
                assert!((10..CHANGES).contains(&change), "{change} changes");
                break;
            }
        }
    }
}

#[test]
fn a_signal_between_any_two_changes_leaves_nothing_else() {
    if is_child() {
        return;
    }
    for change in 0..CHANGES {
        let (place, at) = (tempfile::tempdir().unwrap(), format!("change {change}"));
        written(place.path());
        ended(
            "a_signal_between_any_two_changes_leaves_nothing_else",
            "signal",
            place.path(),
            change,
        );
        assert_whole(place.path(), &at);
        let left = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_str().unwrap().starts_with('.')).collect();
        assert!(left.is_empty(), "{at}: {left:?}");
    }
}

/// Folders of processes that live are theirs.
#[test]
fn only_leftovers_are_swept() {
    let place = tempfile::tempdir().unwrap();
    let first = Stage::new_in(place.path()).unwrap();
    let mine = place.path().join(".quincunx-mine");
    let (dead, file) = (format!("{PREFIX}dead"), format!("{PREFIX}file"));
    fs::create_dir(&mine).unwrap();
    fs::create_dir_all(place.path().join(&dead).join(NEW)).unwrap();
    fs::write(place.path().join(&file), "").unwrap();
    let second = Stage::new_in(place.path()).unwrap();
    assert!(!place.path().join(dead).exists());
    for there in [first.path(), second.path(), &mine, &place.path().join(file)] {
        assert!(there.exists(), "{}", there.display());
    }
}
