//! `sweep`: every row is what `compile` makes for that machine alone.

use quincunx::compare::{Comparison, compare};
use quincunx::compile::{Job, compile};
use quincunx::report::{Format, Heading};
use quincunx::sweep::{
    Choice, Store, Sweep, Variation, coordinates, listed, nothing_fits, of_options, picture,
    report, scatter, sweep, told,
};
use quincunx::target::ArchSource;
use quincunx::{
    Calibration, Dataset, InputFile, InputSpec, Model, Outcome, Setup, Silent, find_target,
};
use serde_json::{Map, Value};
use std::num::NonZeroUsize;
use std::path::Path;

fn digits() -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/digits.onnx");
    Model::read(&InputFile::open(&path).unwrap()).unwrap()
}

fn setup(target: &str, options: &[(&str, &str)], file: Option<&str>) -> Setup<'static> {
    let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    let source = file.map_or(ArchSource::Default, |text| ArchSource::Text {
        name: "machine".to_owned(),
        text: text.to_owned(),
    });
    let options: Vec<_> = options.iter().map(own).collect();
    Setup::new(find_target(target).unwrap(), &source, &options).unwrap()
}

struct Case {
    setup: Setup<'static>,
    vary: Vec<Variation>,
    strict: bool,
}

fn case(target: &str, options: &[(&str, &str)], vary: &[&str]) -> Case {
    let vary = vary.iter().map(|text| text.parse().unwrap()).collect();
    Case { setup: setup(target, options, None), vary, strict: false }
}

impl Case {
    /// The rows and all that is told, as JSON.
    fn run(&self, threads: usize) -> Outcome<(Vec<Map<String, Value>>, String)> {
        let model = digits();
        let job = Sweep {
            model: &model,
            setup: &self.setup,
            vary: &self.vary,
            choice: Choice::Grid,
            over: &[],
            data: None,
            strict: self.strict,
            fold_batch_norm: true,
            calibration: Calibration::default(),
            threads: NonZeroUsize::new(threads).unwrap(),
        };
        let rows = sweep(&job, None, &Silent)?;
        let none = rows.iter().all(|row| row.result.is_err());
        assert_eq!(nothing_fits(&rows).is_some(), none);
        let text = report(&job, &rows).render(Format::Json);
        let drawn = picture(&job, &rows, &Heading::new(""));
        let compiled = rows.iter().filter(|row| row.result.is_ok()).count();
        assert_eq!(drawn.matches("<circle").count(), compiled);
        let pareto = rows.iter().filter(|row| row.pareto).count();
        assert_eq!(drawn.matches("cycles, nothing beats it").count(), pareto);
        let json: Value = serde_json::from_str(&text).unwrap();
        let rows = json["rows"].as_array().unwrap().iter();
        Ok((rows.map(|row| row.as_object().unwrap().clone()).collect(), text))
    }

    /// What the compiler told, with notes.
    fn told(&self) -> Vec<String> {
        let model = digits();
        let job = Sweep {
            model: &model,
            setup: &self.setup,
            vary: &self.vary,
            choice: Choice::Grid,
            over: &[],
            data: None,
            strict: false,
            fold_batch_norm: true,
            calibration: Calibration::default(),
            threads: NonZeroUsize::MIN,
        };
        let rows = sweep(&job, None, &Silent).unwrap();
        let text = |d: &quincunx::diag::Diagnostic| format!("{d}: {}", d.notes().join("; "));
        told(&job, &rows).iter().map(text).collect()
    }

    fn rows(&self) -> Vec<Map<String, Value>> {
        self.run(1).unwrap().0
    }

    fn problem(&self) -> (String, Option<String>) {
        let problem = self.run(1).err().unwrap().diagnostics.remove(0);
        (problem.code().to_owned(), problem.help_text().map(str::to_owned))
    }
}

/// The same machines by files that are written here, one by one.
#[test]
fn rows_are_what_compile_makes() {
    let model = digits();
    let options = [("effort", "fast")];
    let rows = case("npu", &options, &["rows=2,8", "wl0_units=64,128,18944"]).rows();
    assert_eq!(rows.len(), 6);
    for (index, row) in rows.iter().enumerate() {
        let (height, units) = ([2, 8][index / 3], [64, 128, 18944][index % 3]);
        assert_eq!((&row["rows"], &row["wl0_units"]), (&height.into(), &units.into()));
        let file = format!("name = \"a\"\nrows = {height}\nwl0_units = {units}\n");
        let setup = setup("npu", &options, Some(&file));
        let compilation = compile(&Job::new(&model, &setup)).unwrap();
        let stats = compilation.result.unwrap().stats();
        assert_eq!(row["cycles"], stats.cycles.unwrap());
        assert_eq!(row["bytes"], stats.bytes);
        assert_eq!(row["device_mac_share"], compilation.plan.device_share());
        // One layer needs more than 64 units.
        let whole = units > 64;
        assert_eq!(row["status"], if whole { "ok" } else { "in part" });
        assert_eq!(row["problem"].as_str().is_some_and(|why| why.contains("WL0")), !whole);
    }
}

/// Points by hand: as (time, share, numbers), smaller is better in all but the share.
#[test]
fn no_other_machine_beats_those_that_are_marked() {
    let case = case(
        "tcu",
        &[],
        &["array_size=2,4,8", "local_depth=256,2048", "data_type=FP16BP8,FP32B16"],
    );
    let rows = case.rows();
    assert_eq!(rows.len(), 12);
    let key = |row: &Map<String, Value>| {
        let number = |name: &str| row[name].as_f64().unwrap();
        let values = [number("cycles"), -number("device_mac_share"), number("array_size")];
        (row["data_type"].clone(), [&values[..], &[number("local_depth")]].concat())
    };
    let mut marked = 0;
    for row in &rows {
        let (word, own) = key(row);
        let beaten = rows.iter().map(key).any(|(other, point)| {
            let pairs = || point.iter().zip(&own);
            other == word && pairs().all(|(a, b)| a <= b) && pairs().any(|(a, b)| a < b)
        });
        assert_eq!(row["pareto"].is_null(), beaten, "{row:?}");
        marked += usize::from(!beaten);
    }
    assert!((2..rows.len()).contains(&marked), "{marked}");
}

#[test]
fn threads_change_nothing() {
    let case = case("npu", &[("effort", "fast")], &["rows=2,4,8", "wl0_units=64,128"]);
    let [one, two, many] = [1, 2, 7].map(|threads| case.run(threads).unwrap().1);
    assert!(one == two && one == many);
}

/// What does not fit says so in its row, and the others are compiled.
#[test]
fn misfits_are_rows() {
    let mut case = case("npu", &[("effort", "fast")], &["al1_words=1,256", "wl0_units=1,18944"]);
    case.strict = true;
    let rows = case.rows();
    let status: Vec<_> = rows.iter().map(|row| row["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["misfit", "misfit", "misfit", "ok"]);
    for (row, words) in rows.iter().zip(["WL0", "AL1", "WL0"]) {
        let problem = row["problem"].as_str().unwrap();
        assert!(problem.contains("conv1") && problem.contains(words), "{problem}");
        assert!(row["cycles"].is_null() && row["pareto"].is_null());
    }
    case.vary.truncate(1);
    case.vary[0].values.truncate(1);
    assert_eq!(case.rows()[0]["status"], "misfit");
}

/// What the compiler tells of several machines is shown once.
#[test]
fn notes_name_their_machines() {
    let told = case("npu", &[("effort", "fast")], &["cores_x=1,3", "rows=4,8"]).told();
    let message = "note[Q4095]: the program uses 1 of the machine's 3 cores";
    assert_eq!(
        told,
        [format!("{message}: on 2 of 4 machines: cores_x=3 rows=4; cores_x=3 rows=8")]
    );
    let told = case("tcu", &[], &["array_size=4,8", "data_type=FP16BP8,FP8BP4"]).told();
    let [clipped] = &told[..] else { panic!("{told:?}") };
    let machines = "array_size=4 data_type=FP8BP4; array_size=8 data_type=FP8BP4";
    assert!(clipped.starts_with("warning[Q0521]: scale of bn2: 8 of 8 numbers"), "{clipped}");
    assert!(clipped.ends_with(&format!(": on 2 of 4 machines: {machines}")), "{clipped}");
}

/// A machine that there cannot be is a row, unless a value is to blame alone.
#[test]
fn refused_machines_are_rows_and_refused_values_errors() {
    let options = [("effort", "fast")];
    let rows = case("npu", &options, &["cores_x=1,16", "cores_y=1,5"]).rows();
    assert_eq!(rows[3]["status"], "no machine");
    assert!(rows[3]["problem"].as_str().unwrap().contains("expected at most 64"));
    assert!(rows[..3].iter().all(|row| row["status"] == "ok"));
    for (vary, code, help) in [
        (&["rows=8,0"][..], "Q4002", None),
        (&["columns=8", "rows=0,8"], "Q4002", None),
        (&["colums=8"], "Q0652", Some("did you mean \"columns\"?")),
        (&["rows=8,4,8"], "Q0653", None),
        (&["rows=8", "rows=4"], "Q0653", None),
    ] {
        let (found, hint) = case("npu", &options, vary).problem();
        assert_eq!((&*found, hint.as_deref()), (code, help), "{vary:?}");
    }
    let numbers: Vec<String> = (1..=70).map(|number| number.to_string()).collect();
    let long = ["rows", "columns"].map(|name| format!("{name}={}", numbers.join(",")));
    assert_eq!(case("npu", &options, &[&*long[0], &*long[1]]).problem().0, "Q0653");
    for text in ["", "rows", "=4", "rows=", "rows=4,,8"] {
        assert!(text.parse::<Variation>().is_err(), "{text}");
    }
}

/// The first test images with their classes.
fn images(model: &Model) -> Dataset {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/test.npz");
    let inputs = InputSpec::of(&model.graph);
    let all = Dataset::read(&InputFile::open(&path).unwrap(), &inputs).unwrap();
    all.select(&"24".parse().unwrap()).unwrap()
}

const ARRAY: [(&str, &str); 2] = [("effort", "fast"), ("size", "16x16")];

/// The rows of a sweep over options, with the accuracies, as JSON.
fn accuracies(
    data: &Dataset,
    [vary, over]: [&[&str]; 2],
    threads: usize,
) -> Outcome<Vec<Map<String, Value>>> {
    let parse = |list: &[&str]| list.iter().map(|v| v.parse().unwrap()).collect::<Vec<Variation>>();
    let (model, setup) = (digits(), setup("scamp", &ARRAY, None));
    let job = Sweep {
        model: &model,
        setup: &setup,
        vary: &parse(vary),
        choice: Choice::Grid,
        over: &parse(over),
        data: Some(data),
        strict: false,
        fold_batch_norm: true,
        calibration: Calibration::default(),
        threads: NonZeroUsize::new(threads).unwrap(),
    };
    let rows = sweep(&job, None, &Silent)?;
    let drawn = picture(&job, &rows, &Heading::new(""));
    assert_eq!(drawn.matches("<title>").count(), 1 + rows.len());
    assert_eq!(drawn.matches(": accuracy").count(), rows.len());
    let json: Value = serde_json::from_str(&report(&job, &rows).render(Format::Json)).unwrap();
    let rows = json["rows"].as_array().unwrap().iter();
    Ok(rows.map(|row| row.as_object().unwrap().clone()).collect())
}

/// What `compare` finds for one choice of options.
fn compared(data: &Dataset, options: &[(&str, &str)]) -> f64 {
    let model = digits();
    let setup = setup("scamp", &[&ARRAY[..], options].concat(), None);
    let comparison = Comparison {
        model: &model,
        data,
        calibration: Calibration::default(),
        fold_batch_norm: true,
        layers: false,
        threads: NonZeroUsize::MIN,
    };
    let rows = compare(&comparison, &[setup], &Silent).unwrap();
    rows[0].figures.as_ref().unwrap().accuracy.unwrap()
}

/// Options vary; the accuracy is the one of `compare`, and that of what varies within a row its mean
/// with the least and the largest.
#[test]
fn accuracies_are_what_compare_finds() {
    let data = images(&digits());
    let rows = accuracies(&data, [&["depth=0,8"], &[]], 1).unwrap();
    for (row, depth) in rows.iter().zip([0, 8]) {
        assert_eq!((&row["depth"], &row["status"]), (&depth.into(), &"in part".into()));
        let found = compared(&data, &[("depth", &depth.to_string())]);
        assert_eq!(row["accuracy"].as_f64().unwrap(), found);
        assert!(!row.contains_key("least_accuracy"));
    }
    let vary: [&[&str]; 2] = [&["noise-bus=0,0.3"], &["seed=1,2"]];
    let rows = accuracies(&data, vary, 1).unwrap();
    assert_eq!(rows, accuracies(&data, vary, 2).unwrap());
    let of = |seed| compared(&data, &[("noise-bus", "0.3"), ("seed", seed)]);
    let (one, two) = (of("1"), of("2"));
    let number = |name: &str| rows[1][name].as_f64().unwrap();
    assert_eq!(number("accuracy"), (one + two) / 2.0);
    assert_eq!(number("least_accuracy"), one.min(two));
    assert_eq!(number("largest_accuracy"), one.max(two));
    // The array without noise is more accurate, which beats the other one.
    assert!(rows[0]["accuracy"].as_f64().unwrap() > number("accuracy"));
    assert_eq!((&rows[0]["pareto"], &rows[1]["pareto"]), (&"yes".into(), &Value::Null));
}

/// Images without classes give the error of every type; it is the one of `compare`, and finer types
/// have a smaller one while their range holds the numbers.
#[test]
fn errors_are_what_compare_finds() {
    let (model, data) = (digits(), Dataset { labels: None, ..images(&digits()) });
    let types = ["FP16BP4", "FP16BP8", "FP16BP10", "FP32BP16"];
    let case = case("tcu", &[], &[&format!("data_type={}", types.join(","))]);
    let job = Sweep {
        model: &model,
        setup: &case.setup,
        vary: &case.vary,
        choice: Choice::Grid,
        over: &[],
        data: Some(&data),
        strict: false,
        fold_batch_norm: true,
        calibration: Calibration::default(),
        threads: NonZeroUsize::MIN,
    };
    let rows = sweep(&job, None, &Silent).unwrap();
    let json: Value = serde_json::from_str(&report(&job, &rows).render(Format::Json)).unwrap();
    let preset = case.setup.arch.to_file();
    let mut errors = Vec::new();
    for (row, data_type) in json["rows"].as_array().unwrap().iter().zip(types) {
        let file = preset.replace("FP16BP8", data_type);
        let comparison = Comparison {
            model: &model,
            data: &data,
            calibration: Calibration::default(),
            fold_batch_norm: true,
            layers: false,
            threads: NonZeroUsize::MIN,
        };
        let compared = compare(&comparison, &[setup("tcu", &[], Some(&file))], &Silent).unwrap();
        let largest = compared[0].figures.as_ref().unwrap().max_difference;
        let rms = row["rms_difference"].as_f64().unwrap();
        assert_eq!(row["max_difference"].as_f64().unwrap(), largest, "{data_type}");
        assert!(rms > largest / 20.0 && rms < largest, "{rms}, largest {largest}");
        assert!(row.get("accuracy").is_none() && row["cycles"].as_u64() > Some(0));
        let constants = if data_type == "FP32BP16" { 2 } else { 1 };
        let first = json["rows"][0]["constant_bytes"].as_u64().unwrap();
        assert_eq!(row["constant_bytes"].as_u64().unwrap(), constants * first);
        errors.push(rms);
    }
    let [coarse, usual, short, wide] = errors[..] else { panic!("{errors:?}") };
    // What is finer is nearer, but for the type whose range the numbers leave.
    assert!(coarse > usual && usual > wide && short > usual, "{errors:?}");
}

/// Machines of dais have a dialect, and its readers an option of this name.
#[test]
fn a_parameter_is_meant_where_an_option_has_its_name() {
    let case = case("dais", &[("effort", "fast")], &["dialect=d1,a4"]);
    assert_eq!(of_options(&case.setup, &case.vary).unwrap(), Vec::<&Variation>::new());
    assert_ne!(case.rows()[0]["bytes"], case.rows()[1]["bytes"]);
    let vary: Vec<Variation> = ["depth=1", "width=8"].map(|v| v.parse().unwrap()).into();
    assert_eq!(of_options(&setup("scamp", &[], None), &vary).unwrap(), [&vary[0]]);
}

#[test]
fn options_and_data_that_do_not_do_are_refused() {
    let data = images(&digits());
    let refused = |data: &Dataset, vary: &str, over: &str| {
        let problem = accuracies(data, [&[vary], &[over]], 1).err().unwrap();
        problem.diagnostics[0].code()
    };
    assert_eq!(refused(&data, "noise-bus=-1", "seed=1"), "Q0502");
    assert_eq!(refused(&data, "noise-buss=1", "seed=1"), "Q0652");
    assert_eq!(refused(&data, "seed=1", "seed=2"), "Q0653");
    let unknown = Dataset { labels: None, ..data };
    assert_eq!(refused(&unknown, "depth=1", "seed=1"), "Q0655");
}

/// The rows of a choice of combinations, with what a store knows, and how many were computed.
fn chosen(choice: Choice, store: Option<&Store>, threads: usize) -> Outcome<String> {
    let (model, setup) = (digits(), setup("tcu", &[], None));
    let vary = ["array_size=4,8", "local_depth=2048,4096,8192", "quantise.weights=4,8"];
    let vary: Vec<Variation> = vary.iter().map(|text| text.parse().unwrap()).collect();
    let data = images(&model);
    let job = Sweep {
        model: &model,
        setup: &setup,
        vary: &vary,
        choice,
        over: &[],
        data: Some(&data),
        strict: false,
        fold_batch_norm: true,
        calibration: Calibration::default(),
        threads: NonZeroUsize::new(threads).unwrap(),
    };
    let rows = sweep(&job, store, &Silent)?;
    for draw in [scatter, coordinates] {
        let drawn = draw(&job, &rows, &Heading::new("")).matches("<title>").count();
        assert_eq!(drawn, 1 + rows.len());
    }
    Ok(report(&job, &rows).only(|key| key == "rows").render(Format::Csv))
}

#[test]
fn draws_and_lists_are_rows_of_the_grid() {
    let lines = |choice| chosen(choice, None, 2).unwrap();
    let cut = |text: &str| -> Vec<String> {
        // Which rows are best depends on the others.
        text.lines().map(|line| line.replacen(",yes,", ",,", 1)).collect()
    };
    let grid = cut(&lines(Choice::Grid));
    assert_eq!(grid.len(), 13);
    let drawn = lines(Choice::Random { count: 5, seed: 3 });
    assert_eq!(drawn, lines(Choice::Random { count: 5, seed: 3 }));
    assert_eq!(cut(&drawn).iter().filter(|line| grid.contains(line)).count(), 6);
    assert_ne!(drawn, lines(Choice::Random { count: 5, seed: 4 }));
    let all = Choice::Random { count: 12, seed: 0 };
    assert_eq!(cut(&lines(all)), grid);
    let listed = cut(&lines(Choice::These(vec![vec![1, 2, 0], vec![0, 0, 1]])));
    assert_eq!(listed, [0, 11, 2].map(|line: usize| grid[line].clone()));
    let wrong = chosen(Choice::These(vec![vec![1, 3, 0]]), None, 1);
    assert_eq!(wrong.unwrap_err().diagnostics[0].code(), "Q0653");
}

#[test]
fn what_a_store_knows_is_the_same_for_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("found.sqlite");
    let store = Store::open(&path).unwrap();
    let some = Choice::Random { count: 4, seed: 1 };
    let first = chosen(some.clone(), Some(&store), 1).unwrap();
    let grid = chosen(Choice::Grid, Some(&store), 2).unwrap();
    assert_eq!(grid, chosen(Choice::Grid, None, 1).unwrap());
    // From the file alone: another process would find it so.
    let again = Store::open(&path).unwrap();
    assert_eq!(chosen(some, Some(&again), 1).unwrap(), first);
    assert_eq!(chosen(Choice::Grid, Some(&again), 1).unwrap(), grid);
}

#[test]
fn tables_of_combinations_are_read() {
    let read = |text: &str| {
        let bytes = text.as_bytes().to_vec().into();
        listed(&InputFile { name: "list.csv".to_owned(), path: None, bytes })
    };
    let (vary, choice) = read("rows, wl0_units\n2,64\n8,64\n2,128\n").unwrap();
    let values: Vec<_> = vary.iter().map(|variation| variation.values.clone()).collect();
    assert_eq!(values, [["2", "8"], ["64", "128"]]);
    assert_eq!(choice, Choice::These(vec![vec![0, 0], vec![1, 0], vec![0, 1]]));
    for wrong in ["", "rows\n", "rows,\n1,2\n", "rows,a\n1\n", "rows\n \n1,2", "rows,a\n1,\n"] {
        assert_eq!(read(wrong).unwrap_err().diagnostics[0].code(), "Q0663", "{wrong:?}");
    }
    let long = format!("rows\n{}", "1\n".repeat(5000));
    assert_eq!(read(&long).unwrap_err().diagnostics[0].code(), "Q0663");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]

    /// Neither a table of combinations nor a store breaks on any bytes.
    #[test]
    fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400)) {
        let _ = listed(&InputFile { name: "a.csv".to_owned(), path: None, bytes: bytes.clone().into() });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sqlite");
        std::fs::write(&path, &bytes).unwrap();
        match Store::open(&path) {
            Ok(store) => assert!(bytes.is_empty() && store.get("key").unwrap().is_none()),
            Err(problem) => assert_eq!(problem.code(), "Q0661"),
        }
    }
}
