//! Every page and picture says what it shows, of what, for which machine and who made it, in light
//! and dark, without anything from elsewhere; and pictures of other numbers than greys.

use crate::support::{compiled, digits, file, programs, quincunx};
use quincunx::report::VERSION;
use std::path::Path;

/// A page or picture of this, for this machine, if there is one.
fn check(page: &str, title: &str, subject: &str, machine: &str) {
    let place = format!("{title} of {subject}: {}", &page[..page.len().min(2000)]);
    assert_eq!(page.matches("<h1>").count() + usize::from(page.starts_with("<svg")), 1, "{place}");
    let head = page.split("</title>").next().unwrap();
    assert!(head.contains(title) && head.contains(subject), "{place}");
    let about = page.split("<table").next().unwrap();
    for part in [title, subject, machine, VERSION] {
        assert!(about.contains(part), "{part}: {place}");
    }
    assert!(page.contains("prefers-color-scheme: dark"), "{place}");
    let own = page.replace("http://www.w3.org/2000/svg", "");
    for word in ["http", " src=", " href=", "url(", "@import", "<link", "<raw>"] {
        assert!(!own.contains(word), "{word}: {place}");
    }
}

#[test]
fn every_verb_heads_its_pages() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    // A name that is markup.
    let name = "a<raw>&.onnx";
    let shown = "a&lt;raw&gt;&amp;.onnx";
    let bytes = std::fs::read(digits("digits_pow2.onnx")).unwrap();
    let model = file(place.path(), name, &bytes);
    let quantised = place.path().join("q.onnx").to_str().unwrap().to_owned();
    let (test, native) = (digits("test.npz"), programs("scamp").remove(0));
    let trace = place.path().join("t.npz").to_str().unwrap().to_owned();
    let run = quincunx(&["run", &model, "-d", &test, "--images", "2", "-o", &trace]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let data = ["--data", &test, "--images", "2"];
    let float = digits("digits.onnx");
    let one = |arguments: &[&str], title: &str, subject: &str, machine: &str| {
        let with = |threads| {
            let more = ["--format", "html", "-j", threads, "--quiet"];
            quincunx(&[arguments, &more].concat())
        };
        let run = with("1");
        assert!(run.code < 2, "{arguments:?}: {}", run.stderr);
        check(&run.text(), title, subject, machine);
        // These measure.
        if !["bench", "compare"].contains(&arguments[0]) {
            assert_eq!(run.text(), with("3").text(), "{arguments:?}");
        }
    };
    let with_data = |arguments: &[&str], title: &str, subject: &str, machine: &str| {
        one(&[arguments, &data].concat(), title, subject, machine);
    };
    one(&["inspect", &model], "Contents", shown, "");
    one(&["inspect", &test], "Contents", "test.npz", "");
    one(&["inspect", &out], "Contents", "out", "dais d1");
    one(&["inspect", &native], "Contents", "sample_default_format.txt", "scamp ");
    one(&["compile", &model, "-t", "tcu"], "Compiled model", shown, "tcu pynqz1");
    with_data(&["run", &model], "Run", shown, "");
    with_data(&["run", &model, "-t", "dais"], "Run", shown, "dais d1");
    with_data(&["run", &out], "Run", "out", "dais d1");
    with_data(&["run", &model, "--compare", &trace], "Run", shown, "");
    one(&["verify", &out], "Verification", "out", "dais d1");
    one(&["time", &out], "Timeline", "out", "dais d1");
    with_data(&["compare", &model, "-t", "dais,tcu"], "Comparison", shown, "dais d1, tcu pynqz1");
    one(&["quantise", &float, "-o", &quantised], "Quantisation", "digits.onnx", "");
    one(&["diff", &model, &float], "Difference", shown, "");
    one(&["targets"], "Targets", "", "");
    one(&["targets", "dais", "--arch", "a4"], "Target", "dais", "dais a4");
    one(&["isa", "scamp"], "Manual of instructions", "", "scamp");
    one(&["explain"], "Codes of messages", "", "");
    let bench = ["bench", "num", "--size", "8", "--repeat", "1", "--level", "scalar"];
    one(&bench, "Speed of quincunx itself", "num", "");
}

#[test]
fn pictures_are_headed_and_have_legends() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let read = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
    let tcu = path("tcu-out");
    let block = programs("tcu")[0]
        .replace("compiled/t_leaky_artya7100t_iso.tmodel", "models/t_resblock.onnx");
    assert_eq!(quincunx(&["compile", &block, "-t", "tcu", "-o", &tcu]).code, 0);
    let model = digits("digits_pow2.onnx");
    let mut timed = programs("npu");
    timed.extend(programs("scamp"));
    timed.push(tcu.clone());
    for program in &timed {
        let run = quincunx(&["time", program, "--page", &path("page.html")]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let name = Path::new(program).file_name().unwrap().to_str().unwrap();
        let machine = if program == &tcu { "tcu pynqz1" } else { "" };
        check(&read("page.html"), "Timeline", name, machine);
        assert!(read("page.html").contains("class=\"legend\""));
    }
    let run = quincunx(&["time", &tcu, "--roofline", &path("roof.svg")]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    check(&read("roof.svg"), "Roofline", "tcu-out", "tcu pynqz1");
    for part in ["the most that the machine can do", "what a part of the program reaches"] {
        assert!(read("roof.svg").contains(part), "{part}");
    }
    // The graph of a model, drawn when it is compiled, and of a program.
    let svg = format!("svg={}", path("graph.svg"));
    let compile = ["compile", &model, "-t", "dais", "--emit", &svg];
    assert_eq!(quincunx(&compile).code, 0);
    check(&read("graph.svg"), "Adder graph", "digits_pow2.onnx", "dais d1");
    let dot = ["asm", &programs("dais")[0], "--emit", "dot", "-o", &path("graph.dot")];
    assert_eq!(quincunx(&dot).code, 0);
    assert!(read("graph.dot").contains("label=<Adder graph, of sum.dasm, machine dais d1"));
    for program in &programs("dais")[1..] {
        let run = quincunx(&["asm", program, "--emit", "svg", "-o", &path("graph.svg")]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let svg = read("graph.svg");
        // Every item tells its numbers, and every kind is in the legend.
        let items = svg.matches("<g><title>").count() + svg.matches("<circle").count();
        assert_eq!(svg.matches("<title>").count(), items + 1, "{program}");
        assert!(svg.contains("operand"), "{program}");
    }
}

#[test]
fn pictures_of_signed_numbers_are_scaled_and_say_how() {
    let place = tempfile::tempdir().unwrap();
    let picture = place.path().join("y.png").to_str().unwrap().to_owned();
    let (model, test) = (digits("digits.onnx"), digits("test.npz"));
    let arguments = ["run", &model, "--data", &test, "--images", "1", "-o", &picture];
    let run = quincunx(&arguments);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for part in ["note[Q0649]", "from -9.98", "to 4.87", "128 + 127 / ", "y.png"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    let shown = quincunx(&["inspect", &picture, "--format", "json", "--table", "rows"]).text();
    assert!(shown.contains("[1, 10]"), "{shown}");
    let quiet = quincunx(&[&arguments[..], &["--quiet"]].concat());
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
}
