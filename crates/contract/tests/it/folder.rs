//! The program folder: what is written is read, nothing else is replaced, and hostile folders give
//! diagnostics.

use proptest::prelude::*;
use quincunx_contract::folder::{
    ArchRecord, DESCRIPTION, Folder, MachineRecord, PlanRow, SegmentFiles, ValueRecord,
};
use quincunx_contract::plan::Place;
use quincunx_contract::{
    Clipped, ConstantUse, File, Grid, Interface, LayerTap, Numerics, Port, Rim, Scaling, Section,
};
use quincunx_diag::Diagnostic;
use quincunx_graph::Quantiser;
use std::fs;
use std::path::{Path, PathBuf};

fn value(name: &str) -> ValueRecord {
    ValueRecord { name: name.to_owned(), dtype: "f32".to_owned(), shape: vec![1, 4] }
}

fn port(name: &str) -> Port {
    let quantiser = Quantiser::symmetric(true, 8, 0.1);
    Port { name: name.to_owned(), shape: vec![1, 4], grid: Grid::Codes(quantiser) }
}

fn sample() -> Folder {
    let device = SegmentFiles {
        name: "device0".to_owned(),
        place: Place::Device,
        inputs: vec!["x".to_owned()],
        outputs: vec!["y".to_owned()],
        files: vec![File::new("a.bin", vec![1, 2, 3]), File::new("b.bin", vec![])],
        interface: Some(Interface {
            inputs: vec![port("x")],
            outputs: vec![port("y")],
            layers: vec![LayerTap {
                value: "y".to_owned(),
                shape: vec![1, 4],
                after: 7,
                place: "%7".to_owned(),
            }],
            rims: vec![Rim { value: "h".to_owned(), inside: vec![(0, 1)] }],
            scalings: vec![Scaling {
                output: "y".to_owned(),
                factors: vec!["3/7".to_owned()],
                addends: vec!["0".to_owned()],
            }],
            sections: vec![Section {
                name: "first".to_owned(),
                nodes: vec!["relu".to_owned()],
                first: 0,
                macs: 12,
                figures: [("tiles".to_owned(), 3)].into(),
                pieces: vec![2, 7],
            }],
            constants: vec![ConstantUse {
                name: "w".to_owned(),
                user: "first".to_owned(),
                parameter: true,
                scalars: 1,
                vectors: 0,
            }],
            clipped: vec![Clipped {
                what: "weights of first".to_owned(),
                count: 2,
                of: Some(9),
                range: Some([-8.0, 7.9375]),
                largest: Some(12.5),
                first: None,
            }],
        }),
        numerics: Numerics(serde_json::json!({ "order": [1, 2] })),
        machine: 0,
    };
    let host = SegmentFiles {
        name: "host1".to_owned(),
        place: Place::Host,
        inputs: vec!["y".to_owned()],
        outputs: vec!["z".to_owned()],
        files: vec![File::new("model.onnx", &b"model"[..])],
        interface: None,
        numerics: Numerics::default(),
        machine: 1,
    };
    let machine = |nodes: &[&str]| MachineRecord {
        target: "toy".to_owned(),
        arch: ArchRecord { name: "small".to_owned(), file: "small\n".to_owned() },
        options: [("effort".to_owned(), "fast".to_owned())].into(),
        preparation: serde_json::json!({ "fold": true, "ranges": { "x": [-1.5, 2.0] } }),
        nodes: nodes.iter().map(|&node| node.to_owned()).collect(),
    };
    Folder {
        machines: vec![machine(&["relu"]), machine(&[])],
        plan: vec![PlanRow {
            node: "relu".to_owned(),
            op: "Relu".to_owned(),
            segment: "device0".to_owned(),
            place: Place::Device,
            reason: None,
            macs: 0,
        }],
        inputs: vec![value("x")],
        outputs: vec![value("z"), value("c")],
        segments: vec![device, host],
        constants: Some(File::new("constants.npz", &b"npz"[..])),
    }
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out");
    (place, path)
}

fn entries(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Writes the sample with its description edited as text and returns what reading says.
fn edited(edit: impl Fn(&str) -> String) -> Vec<Diagnostic> {
    let (_place, path) = place();
    sample().write(&path).unwrap();
    let description = sample().description();
    let changed = edit(&description);
    assert_ne!(changed, description, "the edit changes something");
    fs::write(path.join(DESCRIPTION), changed).unwrap();
    Folder::read(&path).unwrap_err()
}

#[test]
fn what_is_written_is_read() {
    let (place, path) = place();
    sample().write(&path).unwrap();
    assert_eq!(Folder::read(&path).unwrap(), sample());
    assert!(Folder::is_at(&path));
    assert_eq!(entries(place.path()), ["out"], "nothing is left behind");
    assert_eq!(fs::read(path.join("device0/a.bin")).unwrap(), [1, 2, 3]);
}

#[test]
fn a_program_folder_is_replaced_as_a_whole() {
    let (place, path) = place();
    sample().write(&path).unwrap();
    let mut smaller = sample();
    smaller.segments.pop();
    smaller.outputs = vec![value("y")];
    smaller.constants = None;
    smaller.write(&path).unwrap();
    assert_eq!(Folder::read(&path).unwrap(), smaller);
    assert_eq!(entries(&path).len(), 2);
    assert_eq!(entries(place.path()), ["out"]);
}

/// What is written can be read, and replaced.
#[test]
fn nothing_too_large_to_be_read_is_written() {
    let (place, path) = place();
    let mut large = sample();
    large.machines[0].options.insert("note".to_owned(), "x".repeat(16 << 20));
    let problem = large.write(&path).unwrap_err();
    assert_eq!((problem.code(), problem.class().exit_code()), ("Q0519", 4));
    assert!(entries(place.path()).is_empty());
}

#[test]
fn an_empty_folder_is_used() {
    let (_place, path) = place();
    fs::create_dir(&path).unwrap();
    sample().write(&path).unwrap();
    assert!(Folder::read(&path).is_ok());
}

#[test]
fn nothing_else_is_replaced() {
    let refused = |prepare: &dyn Fn(&Path)| {
        let (place, path) = place();
        prepare(&path);
        let before = entries(place.path());
        let problem = sample().write(&path).unwrap_err();
        assert_eq!((problem.code(), problem.class().exit_code()), ("Q0510", 2));
        assert_eq!(entries(place.path()), before);
    };
    refused(&|path| fs::write(path, "a file").unwrap());
    refused(&|path| {
        fs::create_dir(path).unwrap();
        fs::write(path.join("thesis.txt"), "years of work").unwrap();
    });
    refused(&|path| {
        fs::create_dir(path).unwrap();
        fs::write(path.join(DESCRIPTION), "{}").unwrap();
    });
    refused(&|path| {
        sample().write(path).unwrap();
        fs::write(path.join("device0/notes.txt"), "mine").unwrap();
    });
}

#[test]
fn an_unwritable_place_is_a_diagnostic() {
    let (_place, path) = place();
    let problem = sample().write(&path.join("missing/out")).unwrap_err();
    assert_eq!((problem.code(), problem.class().exit_code()), ("Q0518", 74));
}

#[test]
fn names_that_are_no_file_names_are_refused() {
    for name in ["", ".", "..", "a/b", "/a", "a\\b", "c:", ".hidden", "a\nb"] {
        let mut folder = sample();
        folder.segments[0].files[0].name = name.to_owned();
        let (place, path) = place();
        assert_eq!(folder.write(&path).unwrap_err().code(), "Q0511", "{name:?}");
        assert!(entries(place.path()).is_empty());
        let problems =
            edited(|text| text.replace("\"a.bin\"", &serde_json::json!(name).to_string()));
        assert_eq!(problems[0].code(), "Q0515", "{name:?}");
        let problems = edited(|text| {
            text.replace("\"name\": \"host1\"", &format!("\"name\": {}", serde_json::json!(name)))
        });
        assert_eq!(problems[0].code(), "Q0515", "{name:?}");
    }
}

#[test]
fn damaged_files_are_found() {
    for (file, bytes) in
        [("device0/a.bin", &[1, 2, 4][..]), ("device0/b.bin", &[0]), ("constants.npz", b"")]
    {
        let (_place, path) = place();
        sample().write(&path).unwrap();
        fs::write(path.join(file), bytes).unwrap();
        assert_eq!(Folder::read(&path).unwrap_err()[0].code(), "Q0514", "{file}");
        fs::remove_file(path.join(file)).unwrap();
        assert_eq!(Folder::read(&path).unwrap_err()[0].code(), "Q0512", "{file}");
    }
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    let (_place, path) = place();
    sample().write(&path).unwrap();
    let file = path.join("device0/a.bin");
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    assert_eq!(Folder::read(&path).unwrap_err()[0].code(), "Q0512");
}

#[test]
fn another_schema_is_unsupported() {
    let problems = edited(|text| text.replace("\"schema\": 1", "\"schema\": 2"));
    assert_eq!((problems[0].code(), problems[0].class().exit_code()), ("Q0513", 4));
}

#[test]
fn contradictions_are_reported() {
    let code = |from: &str, to: &str| edited(|text| text.replacen(from, to, 1))[0].code();
    // Nothing computes it; no such type; host with ports; shape that cannot be.
    assert_eq!(code("\"f32\"", "\"f33\""), "Q0515");
    assert_eq!(code("\"place\": \"host\"", "\"place\": \"moon\""), "Q0515");
    let problems = edited(|text| text.replace("\"constants\"", "\"other\""));
    assert!(problems[0].message().contains("nothing computes the output \"c\""));
    let problems = edited(|text| text.replacen("\"y\"", "\"w\"", 1));
    assert!(
        problems.iter().any(|p| p.message().contains("nothing computes \"y\"")),
        "{problems:?}"
    );
    let problems = edited(|text| text.replacen("          4\n", "          4000000000000\n", 9));
    assert!(problems.iter().any(|p| p.message().contains("too large")), "{problems:?}");
    let problems = edited(|text| {
        text.replace(
            "\"interface\": null",
            "\"interface\": {\"inputs\":[],\"outputs\":[],\"layers\":[]}",
        )
    });
    assert!(problems[0].message().contains("has ports"));
    let problems = edited(|text| text.replace("\"machine\": 1", "\"machine\": 2"));
    assert!(problems[0].message().contains("machine that is not there"), "{problems:?}");
}

#[test]
fn broken_quantisers_are_refused() {
    let wide = |text: &str| text.replace("0.1\n", "-0.1\n");
    assert!(edited(wide)[0].message().contains("quantiser"));
    // Two parameters that broadcast to a shape far larger than the port.
    let mut folder = sample();
    let many = |shape: &str| {
        let values = vec!["0"; 3000].join(",");
        format!("{{\"shape\":{shape},\"values\":[{values},1]}}")
    };
    let quantiser = folder.segments[0].interface.as_mut().unwrap().inputs[0].grid.clone();
    let text = serde_json::to_string(&quantiser).unwrap();
    let text = text.replacen("{\"shape\":[],\"values\":[0]}", &many("[3001,1]"), 1);
    let problems = edited(|description| {
        let plain = serde_json::to_string_pretty(&quantiser).unwrap();
        let start = description.find("\"quantiser\": ").unwrap() + "\"quantiser\": ".len();
        let mut depth = 0;
        let length = description[start..].find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0
        });
        assert!(!plain.is_empty());
        let end = start + length.unwrap() + 1;
        format!("{}{text}{}", &description[..start], &description[end..])
    });
    assert!(problems[0].message().contains("quantiser"), "{problems:?}");
}

#[test]
fn nested_json_does_not_overflow_the_stack() {
    let deep = format!("{{\"schema\":1,\"version\":\"\",\"x\":{}", "[".repeat(100_000));
    assert_eq!(edited(|_| deep.clone())[0].code(), "Q0515");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_as_description_give_diagnostics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (_place, path) = place();
        fs::create_dir(&path).unwrap();
        fs::write(path.join(DESCRIPTION), bytes).unwrap();
        prop_assert!(Folder::read(&path).is_err());
    }

    #[test]
    fn mutated_descriptions_never_panic(at in 0_usize..4000, byte in any::<u8>()) {
        let (_place, path) = place();
        sample().write(&path).unwrap();
        let mut bytes = sample().description().into_bytes();
        let index = at % bytes.len();
        bytes[index] = byte;
        fs::write(path.join(DESCRIPTION), bytes).unwrap();
        let _ = Folder::read(&path);
    }
}
