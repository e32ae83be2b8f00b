//! What goes to a terminal of 80 columns fits it, whatever the names are.

use crate::support::{digits, file, programs, quincunx};
use quincunx::targets;
use std::path::Path;

/// Which fields of a message of protobuf are names, and which hold messages with some.
enum Fields {
    Name,
    Of(&'static [(u64, Fields)]),
}

/// Names of values: of ports, and of the value alone.
const VALUE: Fields = Fields::Of(&[(1, Fields::Name)]);

/// An ONNX model: nodes, constants, inputs and outputs of its graph.
const ONNX: Fields = Fields::Of(&[(
    7,
    Fields::Of(&[
        (1, Fields::Of(&[(1, Fields::Name), (2, Fields::Name), (3, Fields::Name)])),
        (2, Fields::Name),
        (5, Fields::Of(&[(8, Fields::Name)])),
        (11, VALUE),
        (12, VALUE),
        (13, VALUE),
    ]),
)]);

/// A frozen TensorFlow graph: names and inputs of its nodes.
const GRAPH_DEF: Fields = Fields::Of(&[(1, Fields::Of(&[(1, Fields::Name), (3, Fields::Name)]))]);

/// What converters put before the names of a network of functions.
fn scope() -> String {
    format!("StatefulPartitionedCall/{}", "functional_1/block_12_expand_project/".repeat(8))
}

/// The message with long names.
fn renamed(bytes: &[u8], fields: &Fields) -> Vec<u8> {
    let Fields::Of(list) = fields else {
        // No name stays none.
        let scope = if bytes.is_empty() { String::new() } else { scope() };
        return [scope.as_bytes(), bytes].concat();
    };
    let (mut out, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let start = rest;
        let key = number(&mut rest);
        let skipped = match key & 7 {
            0 => {
                number(&mut rest);
                0
            }
            1 => 8,
            2 => {
                let length = usize::try_from(number(&mut rest)).unwrap();
                let (body, behind) = rest.split_at(length);
                rest = behind;
                let inner = list.iter().find(|(field, _)| *field == key >> 3);
                let body = inner.map_or(body.to_vec(), |(_, fields)| renamed(body, fields));
                put(&mut out, key);
                put(&mut out, body.len() as u64);
                out.extend(body);
                continue;
            }
            5 => 4,
            kind => panic!("no field has the kind {kind}"),
        };
        rest = &rest[skipped..];
        out.extend(&start[..start.len() - rest.len()]);
    }
    out
}

fn number(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (&byte, behind) = rest.split_first().unwrap();
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Runs a verb for a terminal of 80 columns and returns what it prints there.
fn fitting(arguments: &[&str], code: i32) -> String {
    let run = quincunx(&[arguments, &["--columns", "80"]].concat());
    assert_eq!(run.code, code, "{arguments:?}: {}", run.stderr);
    let text = run.text();
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{arguments:?}\n{line}");
    }
    text
}

/// A model of a file with long names.
fn long_named(place: &Path, from: &Path, fields: &Fields) -> String {
    let name = from.file_name().unwrap().to_str().unwrap();
    file(place, name, &renamed(&std::fs::read(from).unwrap(), fields))
}

#[test]
fn views_of_programs_fit() {
    for target in targets() {
        let name = target.info().name;
        let machine: &[&str] =
            if name == "dpas" { &["--arch", "xehpc", "--swsb", "auto"] } else { &[] };
        for program in programs(name) {
            let shown = |verb, options: &[&str]| {
                fitting(&[&[verb, program.as_str()], machine, options].concat(), 0)
            };
            shown("inspect", &["--table", "all"]);
            shown("verify", &[]);
            assert!(shown("time", &["--events", "30"]).contains('│'), "{program}");
            assert!(shown("run", &["--data", "random:1"]).contains("image"), "{program}");
        }
        fitting(&["targets", name], 0);
        fitting(&["isa", name], 0);
    }
    fitting(&["targets"], 0);
    fitting(&["explain"], 0);
    fitting(&["explain", "Q0601", "Q1190"], 0);
}

/// Every verb on a model and on what becomes of it.
fn check(place: &Path, model: &str, target: &str) {
    let path = |name: &str| place.join(format!("{target}-{name}")).to_str().unwrap().to_owned();
    let (out, trace) = (path("out"), path("trace.npz"));
    fitting(&["inspect", model, "--table", "all"], 0);
    fitting(&["run", model, "--data", "random:1"], 0);
    fitting(&["compile", model, "--target", target, "--table", "all"], 0);
    fitting(&["compile", model, "--target", target, "--output", &out, "--timings"], 0);
    fitting(&["inspect", &out, "--table", "all"], 0);
    fitting(&["verify", &out, "--model", model, "--data", "random:1"], 0);
    let shown = fitting(&["time", &out, "--events", "30"], 0);
    assert!(shown.contains('│'), "{shown}");
    fitting(
        &["run", model, "--data", "random:1", "--trace-layers", &trace, "-o", &path("o.npz")],
        0,
    );
    fitting(&["run", model, "--data", "random:1", "--compare", &trace], 0);
    fitting(&["inspect", &trace], 0);
    fitting(&["diff", &trace, &trace], 0);
    let compare = ["compare", model, "--data", "random:1", "--target", target, "--layers"];
    let shown = fitting(&compare, 0);
    // JSON has every name in full.
    let json = quincunx(&[&compare[..], &["--format", "json"]].concat()).text();
    assert!(shown.contains('…') && !shown.contains(&scope()) && json.contains(&scope()), "{shown}");
}

#[test]
fn names_of_hundreds_of_characters_fit() {
    let place = tempfile::tempdir().unwrap();
    let model = long_named(place.path(), Path::new(&digits("digits_pow2.onnx")), &ONNX);
    check(place.path(), &model, "dais");
    check(place.path(), &model, "tcu");
    let float = long_named(place.path(), Path::new(&digits("digits.onnx")), &ONNX);
    let quantised = place.path().join("q.onnx").to_str().unwrap().to_owned();
    fitting(&["quantise", &float, "--calibrate", "random:1", "--output", &quantised], 0);
}

#[test]
fn converted_tensorflow_graphs_fit() {
    let place = tempfile::tempdir().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/import/tests/graphdef");
    let model = long_named(place.path(), &folder.join("cnn.pb"), &GRAPH_DEF);
    check(place.path(), &model, "tcu");
    let quantised = place.path().join("q.onnx").to_str().unwrap().to_owned();
    fitting(&["quantise", &model, "--calibrate", "random:1", "--output", &quantised], 0);
    check(place.path(), &quantised, "dais");
}
