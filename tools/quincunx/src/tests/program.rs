use super::*;
use crate::compile::{Job, compile, to_folder};
use crate::import::Options;
use crate::inspect::Depth;
use crate::run::run;
use crate::time::{left_out, time};
use crate::verify::{Against, against_model, verify};
use crate::{Calibration, Silent, assemble, inspect, manual, open_folder, open_native, recognise};
use quincunx_contract::folder::Folder;
use quincunx_contract::{File, Target};
use quincunx_report::Format;
use std::path::PathBuf;

const TARGETS: &[&dyn Target] = &[&TOY];

fn write(model: &Model, options: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let setup = setup(options);
    let compilation = compile(&Job::new(model, &setup)).unwrap();
    let executable = compilation.result.as_ref().unwrap();
    let folder = to_folder(&compilation, executable, &setup).unwrap();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out");
    folder.write(&path).unwrap();
    (place, path)
}

#[test]
fn a_program_folder_runs_alone() {
    for model in [mixed(), relu_only(), neg_only(), passthrough()] {
        let (_place, path) = write(&model, &[]);
        let opened = open_folder(&path, TARGETS, &[]).unwrap();
        let setup = setup(&[]);
        let compiled = compile(&Job::new(&model, &setup)).unwrap().result.unwrap();
        let data = images(&model, 3);
        let traces = run(&opened.executable, &data, &traced(), &Silent).unwrap();
        assert_eq!(traces, run(&compiled, &data, &traced(), &Silent).unwrap());
        assert!(verify(&opened).is_empty());
    }
}

#[test]
fn verify_finds_a_program_that_is_not_its_model() {
    let model = mixed();
    let (_place, path) = write(&model, &[]);
    let data = images(&model, 30);
    let agreement = |options: &[(&str, &str)], model: &Model| {
        let options: Vec<_> =
            options.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let opened = open_folder(&path, TARGETS, &options).unwrap();
        let calibration = Calibration::default();
        let against = Against { model, no_fold_batch_norm: false, calibration };
        against_model(&opened, &against, &data, false, ONE, &Silent)
    };
    let right = agreement(&[], &model).unwrap();
    assert_eq!((right.images, right.bit_exact, right.difference.is_none()), (30, 30, true));
    let wrong = agreement(&[("wrong", "true")], &model).unwrap();
    assert!(wrong.bit_exact < 30 && wrong.difference.is_some());
    assert_eq!(agreement(&[], &neg_only()).unwrap_err().exit_code(), 3);
}

#[test]
fn time_is_per_program_and_says_what_it_leaves_out() {
    let timed = |model| {
        let (_place, path) = write(&model, &[]);
        let executable = open_folder(&path, TARGETS, &[]).unwrap().executable;
        let names = time(&executable).map(|timings| {
            timings.into_iter().map(|timing| timing.segment).collect::<Vec<_>>().join(" ")
        });
        (names, left_out(&executable).map(|note| note.message().to_owned()))
    };
    let (names, note) = timed(mixed());
    assert_eq!(names.unwrap(), "device0 device2");
    assert!(note.unwrap().ends_with("computes it: host1"));
    assert_eq!(timed(relu_only()).1, None);
    assert_eq!(timed(neg_only()).0.unwrap_err().diagnostics[0].code(), "Q0640");
}

#[test]
fn native_files_have_raw_ports() {
    let file = File::new("a.toy", "toy\nrelu y x\nadd z y y\n");
    assert_eq!(recognise(std::slice::from_ref(&file), TARGETS).unwrap().info().name, "toy");
    let opened = open_native(&[file], setup(&[]), None).unwrap();
    let data = crate::Dataset::generate("ones", &opened.executable.inputs, 1).unwrap().unwrap();
    let traces = run(&opened.executable, &data, &plain(), &Silent).unwrap();
    assert_eq!(traces[0].outputs["z"].to_f64(), [2.0; 4]);
    assert!(recognise(&[File::new("b", "other")], TARGETS).is_err());
}

#[test]
fn verify_reports_illegal_programs_and_running_them_fails() {
    let opened = open_native(&[File::new("a.toy", "toy\nrelu y q\n")], setup(&[]), None).unwrap();
    assert_eq!(verify(&opened)[0].code(), "Q9004");
    let data = crate::Dataset::generate("ones", &opened.executable.inputs, 1).unwrap().unwrap();
    assert!(run(&opened.executable, &data, &plain(), &Silent).is_err());
}

#[test]
fn lenient_readers_warn() {
    let file = File::new("a.toy", "toy\nrelu y x\nwhat\n");
    let strict = open_native(std::slice::from_ref(&file), setup(&[]), None);
    assert_eq!(strict.err().unwrap().exit_code(), 3);
    let lenient = open_native(&[file], setup(&[("lenient", "true")]), None).unwrap();
    assert_eq!(lenient.warnings.len(), 1);
}

#[test]
fn files_are_converted_between_kinds() {
    let file = File::new("a.toy", "toy\nrelu y x\n");
    let convert =
        |kinds: &[_]| assemble::convert(std::slice::from_ref(&file), &setup(&[]), kinds, "b", true);
    let [one, two] = &convert(&[None, Some("two")]).unwrap().files[..] else { panic!("two kinds") };
    assert_eq!(one[..], [File::new("b.toy", "toy\nrelu y x\n")]);
    assert_eq!(two.len(), 2);
    let empty = [File::new("e.toy", "toy\n")];
    let failure = assemble::convert(&empty, &setup(&[]), &[Some("two")], "e", true).err().unwrap();
    assert_eq!(failure.diagnostics[0].code(), "Q9005");
    assert_eq!(failure.sources.get(quincunx_diag::SourceId(0)).unwrap().name, "e.toy");
    let failure = convert(&[Some("twoo")]).err().unwrap();
    assert_eq!(failure.exit_code(), 2);
    assert!(failure.to_string().contains("did you mean \"two\"?"));
}

#[test]
fn inspect_shows_folders_and_programs() {
    let (_place, path) = write(&mixed(), &[]);
    let text =
        inspect::folder(&path, TARGETS, &[], Depth::All).unwrap().report.render(Format::Text);
    assert!(text.contains("program folder") && text.contains("host1"), "{text}");
    let file = crate::InputFile {
        name: "a.toy".into(),
        path: None,
        bytes: b"toy\nrelu y x\n".to_vec().into(),
    };
    let text = inspect::file(&file, TARGETS, None, &Options::default(), Depth::Brief)
        .unwrap()
        .report
        .render(Format::Text);
    assert!(text.contains("instructions"), "{text}");
    let nothing = crate::InputFile { bytes: b"nothing".to_vec().into(), ..file };
    assert_eq!(
        inspect::file(&nothing, TARGETS, None, &Options::default(), Depth::Brief)
            .err()
            .unwrap()
            .exit_code(),
        3
    );
    assert!(inspect::folder(path.parent().unwrap(), TARGETS, &[], Depth::Brief).is_err());
}

#[test]
fn manuals_describe_targets() {
    let text = manual::list(TARGETS).render(Format::Text);
    assert!(text.contains("toy") && text.contains("asm, two"), "{text}");
    let text = manual::describe(&TOY, &ArchSource::Default).unwrap().render(Format::Text);
    assert!(text.contains("lenient") && text.contains("width"), "{text}");
    for (_, format) in Format::ALL {
        assert!(manual::isa(&TOY, None, format, None).is_ok());
        assert!(manual::isa(&TOY, Some("mul"), format, None).is_err());
    }
}

#[test]
fn equal_compilations_give_equal_folders() {
    let bytes = |path: &PathBuf| {
        let folder = Folder::read(path).unwrap();
        (folder.description(), folder.segments)
    };
    let ((_a, first), (_b, second)) = (write(&mixed(), &[]), write(&mixed(), &[]));
    assert_eq!(bytes(&first), bytes(&second));
}

#[test]
fn a_folder_for_another_target_or_with_other_options_is_invalid() {
    let (_place, path) = write(&mixed(), &[]);
    let mut folder = Folder::read(&path).unwrap();
    let none: &[&dyn Target] = &[];
    assert_eq!(open_folder(&path, none, &[]).err().unwrap().exit_code(), 3);
    folder.machines[0].options.insert("lenientt".to_owned(), "true".to_owned());
    folder.write(&path).unwrap();
    assert_eq!(open_folder(&path, TARGETS, &[]).err().unwrap().exit_code(), 3);
    // What the user says wrongly is wrong usage.
    folder.machines[0].options.remove("lenientt");
    folder.write(&path).unwrap();
    let given = [("lenientt".to_owned(), "true".to_owned())];
    assert_eq!(open_folder(&path, TARGETS, &given).err().unwrap().exit_code(), 2);
}

#[test]
fn segments_that_do_not_fit_each_other_are_refused() {
    let (_place, path) = write(&mixed(), &[]);
    let mut folder = Folder::read(&path).unwrap();
    let host = &mut folder.segments[1];
    assert_eq!(
        (&host.inputs[..], &host.outputs[..]),
        (&["r".to_owned()][..], &["m".to_owned()][..])
    );
    let mut wider = Graph::new("host1");
    let r = wider.add_input("r", DType::F32, &[2, 4], &[]).unwrap();
    let m = wider.add_node("mul", Op::Unary(Unary::Neg), &[Some(r)], "m").unwrap();
    wider.add_output(m);
    host.files[0].bytes = quincunx_import::write_onnx(&wider, &Default::default()).unwrap().into();
    folder.write(&path).unwrap();
    let failure = open_folder(&path, TARGETS, &[]).err().unwrap();
    let text = failure.to_string();
    assert!(text.contains("\"r\" has the shape [1, 4], host1 reads [2, 4]"), "{text}");
    assert_eq!(failure.exit_code(), 3);
}

/// A host segment that reads an input whose extents the model leaves open keeps those it was compiled
/// for.
#[test]
fn open_extents_stay_bound() {
    let mut graph = Graph::new("open");
    let rows = [Some("rows".to_owned()), None];
    let x = graph.add_input("x", DType::F32, &[3, 4], &rows).unwrap();
    let neg = graph.add_node("neg", Op::Unary(Unary::Neg), &[Some(x)], "n").unwrap();
    let relu = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(neg)], "y").unwrap();
    graph.add_output(relu);
    let model = model(graph);
    let (_place, path) = write(&model, &[]);
    let opened = open_folder(&path, TARGETS, &[]).unwrap();
    assert_eq!(opened.executable.stages.len(), 2);
    let data = images(&model, 2);
    let traces = run(&opened.executable, &data, &plain(), &Silent).unwrap();
    assert_eq!(traces[1].outputs["y"].shape(), [3, 4]);
}

#[test]
fn a_damaged_program_is_reported() {
    let (_place, path) = write(&mixed(), &[]);
    let program = path.join("device0/program.toy");
    std::fs::write(&program, "toy\nrelu r y\n").unwrap();
    let failure = open_folder(&path, TARGETS, &[]).err().unwrap();
    assert_eq!((failure.diagnostics[0].code(), failure.exit_code()), ("Q0514", 3));
}
