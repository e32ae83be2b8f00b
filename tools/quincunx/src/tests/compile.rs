use super::*;
use crate::compile::{Compilation, Job, compile, explain, timings};
use crate::run::{layers, outputs, run, table};
use crate::{Calibration, InputFile, Silent};
use quincunx_graph::execute::{Keep, float};
use quincunx_report::{Format, Report};
use quincunx_tensor::Tensors;
use quincunx_tensor::npy::write_npz;

fn compiled(model: &Model) -> Compilation {
    compile(&Job::new(model, &setup(&[]))).unwrap()
}

/// Runs compiled and compares with the reference executor; all numbers here are exact in f32.
fn check(model: &Model) {
    let executable = compiled(model).result.unwrap();
    let data = images(model, 5);
    let traces = run(&executable, &data, &plain(), &Silent).unwrap();
    for (image, trace) in data.images.iter().zip(&traces) {
        let expected = float(&model.graph, image, Keep::Outputs).unwrap();
        assert_eq!(trace.outputs.len(), expected.len());
        for (name, tensor) in expected {
            assert_eq!(trace.outputs[&name].to_f64(), tensor.to_f64(), "{name}");
            assert_eq!(trace.outputs[&name].shape(), tensor.shape(), "{name}");
        }
    }
}

#[test]
fn mixed_plans_compute_what_the_model_means() {
    for model in [mixed(), relu_only(), neg_only(), passthrough()] {
        check(&model);
    }
}

#[test]
fn the_plan_alternates_between_machine_and_host() {
    let compilation = compiled(&mixed());
    let names: Vec<_> = compilation.plan.segments.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["device0", "host1", "device2"]);
    let text = Report::from(explain(&compilation.plan.rows)).render(Format::Csv);
    assert!(text.contains("neg,Neg,host1,host,0,0,toy has no Neg"), "{text}");
    assert!(!timings(&compilation.log).is_empty());
}

/// A program that breaks a rule of its machine is a bug of the compiler, which is found where that is
/// asked for.
#[test]
fn programs_are_checked_where_that_is_asked_for() {
    let model = mixed();
    let judged = |options: &[(&str, &str)], verify_each: bool| {
        let setup = setup(options);
        let compilation = compile(&Job { verify_each, ..Job::new(&model, &setup) });
        compilation.map(|compilation| compilation.plan.rows.len())
    };
    let rows = judged(&[], false).unwrap();
    assert_eq!(judged(&[], true).unwrap(), rows);
    assert_eq!(judged(&[("illegal", "true")], false).unwrap(), rows);
    let failure = judged(&[("illegal", "true")], true).unwrap_err();
    assert_eq!(failure.diagnostics[0].code(), "Q9004");
    assert_eq!(failure.diagnostics[0].notes(), ["in segment device0"]);
}

/// What turns out not to fit is left to the host, for the reason that the compiler gives; the rest
/// is divided again.
#[test]
fn what_does_not_fit_is_left_to_the_host() {
    let (model, setup) = (mixed(), setup(&[("tight", "true")]));
    let compilation = compile(&Job::new(&model, &setup)).unwrap();
    let reason = |node: &str| {
        let row = compilation.plan.rows.iter().find(|row| row.node == node).unwrap();
        row.reason.as_deref()
    };
    assert_eq!((reason("add"), reason("relu")), (Some("there is room for one operand"), None));
    // Only the attempt that counts is told of.
    let plans = compilation.log.passes.iter().filter(|(name, _)| *name == "plan");
    assert_eq!(plans.count(), 1);
    assert!(compilation.result.is_ok());
    let strict = compile(&Job { strict: true, ..Job::new(&model, &setup) }).unwrap();
    assert_eq!(strict.result.err().unwrap().exit_code(), 4);
}

/// Options of the model's file count more than defaults, those of the user more than these.
#[test]
fn options_of_a_model_lie_between_defaults_and_users() {
    let given = vec![("tight", "true".to_owned()), ("full", "true".to_owned())];
    let model = Model { options: Some(("toy", given.clone())), ..mixed() };
    let users = [("full".to_owned(), "false".to_owned())];
    let setup = Setup::for_model(&TOY, &ArchSource::Default, &model, &users).unwrap();
    let set = ["tight", "full", "wrong"].map(|name| setup.options.flag(name));
    assert_eq!(set, [true, false, false]);
    let other = Model { options: Some(("other", given)), ..mixed() };
    let setup = Setup::for_model(&TOY, &ArchSource::Default, &other, &users).unwrap();
    assert!(!setup.options.flag("tight"));
}

#[test]
fn strict_refuses_host_nodes_but_still_has_a_plan() {
    let (model, setup) = (mixed(), setup(&[]));
    let compilation = compile(&Job { strict: true, ..Job::new(&model, &setup) }).unwrap();
    assert_eq!(compilation.plan.rows.len(), 4);
    let failure = compilation.result.err().unwrap();
    assert_eq!((failure.diagnostics.len(), failure.exit_code()), (2, 4));
    let all_on_device = relu_only();
    let compilation = compile(&Job { strict: true, ..Job::new(&all_on_device, &setup) }).unwrap();
    assert!(compilation.result.is_ok());
}

#[test]
fn a_compiler_failure_keeps_the_plan() {
    let (model, setup) = (mixed(), setup(&[("full", "true")]));
    let compilation = compile(&Job::new(&model, &setup)).unwrap();
    assert_eq!(compilation.plan.segments.len(), 3);
    // Both device segments report.
    assert_eq!(compilation.result.err().unwrap().diagnostics.len(), 2);
}

#[test]
fn dumps_follow_pass_names() {
    let (model, setup) = (mixed(), setup(&[]));
    let dumps = |after: &[&str]| {
        let dump_after = after.iter().map(|name| (*name).to_owned()).collect();
        let compilation = compile(&Job { dump_after, ..Job::new(&model, &setup) });
        compilation.map(|c| c.log.dumps.iter().map(|&(name, _)| name).collect::<Vec<_>>())
    };
    assert_eq!(dumps(&["plan", "toy-code"]).unwrap(), ["plan", "toy-code", "toy-code"]);
    // A machine that takes float models gets them with their batch normalisations.
    let all = ["import", "fold-constants", "remove-dead", "plan", "toy-code", "toy-code"];
    assert_eq!(dumps(&["all"]).unwrap(), all);
    let failure = dumps(&["plam"]).unwrap_err();
    assert_eq!(failure.exit_code(), 2);
    assert!(failure.to_string().contains("did you mean \"plan\"?"));
}

/// A machine that needs grids takes a network without floats as it is.
#[test]
fn integers_need_no_calibration() {
    let mut graph = Graph::new("integers");
    let x = graph.add_input("x", DType::I32, &[1, 4], &[]).unwrap();
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(x), Some(x)], "y").unwrap();
    graph.add_output(sum);
    let (model, setup) = (model(graph), setup(&[("quantised", "true")]));
    let compilation = compile(&Job::new(&model, &setup)).unwrap();
    assert_eq!(compilation.graph.nodes().len(), 1);
    assert!(compilation.result.is_ok());
}

#[test]
fn a_machine_that_needs_grids_needs_calibration_data() {
    let (model, setup) = (mixed(), setup(&[("quantised", "true")]));
    let array = Tensor::from_vec(&[2, 4], vec![0.5_f32; 8]).unwrap();
    let bytes = write_npz(&Tensors::from([("x".to_owned(), array)])).unwrap();
    let file = InputFile { name: "c.npz".into(), path: None, bytes: bytes.into() };
    let try_with = |file: Option<&InputFile>, evaluated: Option<&InputFile>| {
        let calibration = Calibration { file, evaluated, ..Calibration::default() };
        compile(&Job { calibration, ..Job::new(&model, &setup) })
    };
    let failure = try_with(None, None).err().unwrap();
    assert_eq!((failure.diagnostics[0].code(), failure.exit_code()), ("Q0608", 2));
    assert!(failure.to_string().contains("quantise"));
    let compilation = try_with(Some(&file), None).unwrap();
    assert!(crate::is_quantised(&compilation.graph));
    assert!(compilation.result.is_ok());
    let failure = try_with(Some(&file), Some(&file)).err().unwrap();
    assert_eq!((failure.diagnostics[0].code(), failure.exit_code()), ("Q0609", 2));
    // A copy of the data is the data.
    let copy = InputFile { name: "other.npz".into(), ..file.clone() };
    assert!(try_with(Some(&file), Some(&copy)).is_err());
    // A quantised model is not calibrated again.
    let quantised = super::model(compilation.graph);
    assert!(compile(&Job::new(&quantised, &setup)).is_ok());
}

#[test]
fn calibration_data_is_found_beside_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let array = Tensor::from_vec(&[2, 4], vec![0.5_f32; 8]).unwrap();
    let bytes = write_npz(&Tensors::from([("x".to_owned(), array)])).unwrap();
    std::fs::write(folder.path().join("calib.npz"), bytes).unwrap();
    let model = Model { path: Some(folder.path().join("model.onnx")), ..mixed() };
    let setup = setup(&[("quantised", "true")]);
    assert!(compile(&Job::new(&model, &setup)).is_ok());
    let data = InputFile::open(&folder.path().join("calib.npz")).unwrap();
    let calibration = Calibration { evaluated: Some(&data), ..Calibration::default() };
    assert!(compile(&Job { calibration, ..Job::new(&model, &setup) }).is_err());
}

#[test]
fn runs_do_not_depend_on_threads() {
    let model = mixed();
    let executable = compiled(&model).result.unwrap();
    let data = images(&model, 11);
    let one = run(&executable, &data, &traced(), &Silent).unwrap();
    for number in [2, 3, 11, 64] {
        assert_eq!(
            one,
            run(&executable, &data, &Options { threads: threads(number), ..traced() }, &Silent)
                .unwrap()
        );
    }
}

#[test]
fn traces_hold_the_layers_that_are_wanted() {
    let model = mixed();
    let executable = compiled(&model).result.unwrap();
    let data = images(&model, 3);
    let observed = |wanted| {
        let options = Options { layers: wanted, ..plain() };
        let traces = run(&executable, &data, &options, &Silent).unwrap();
        (outputs(&traces).unwrap(), layers(&traces).unwrap())
    };
    let (all_outputs, all) = observed(Layers::All);
    let is_output = |name: &String| executable.outputs.contains(name);
    let one = all.keys().find(|name| !is_output(name)).unwrap().clone();
    let wanted = Layers::Of([one.clone(), "nothing".to_owned()].into());
    assert_eq!(
        observed(wanted),
        (all_outputs.clone(), Tensors::from([(one.clone(), all[&one].clone())]))
    );
    // Who wants outputs only gets what a plain run gives.
    let only = Layers::Of(executable.outputs.iter().cloned().collect());
    assert_eq!(observed(only), observed(Layers::None));
    assert!(all.len() > 1 && observed(Layers::None).1.is_empty());
}

#[test]
fn outputs_and_layers_are_stacked() {
    let model = passthrough();
    let executable = compiled(&model).result.unwrap();
    let traces = run(&executable, &images(&model, 3), &traced(), &Silent).unwrap();
    let stacked = outputs(&traces).unwrap();
    assert_eq!(stacked["r"].shape(), [3, 4]);
    assert_eq!(stacked["c"].shape(), [3, 2]);
    assert_eq!(layers(&traces).unwrap().keys().collect::<Vec<_>>(), ["r"]);
    assert_eq!(outputs(&traces[..1]).unwrap()["r"].shape(), [1, 4]);
    let text = Report::from(table(&traces, 0)).render(Format::Csv);
    assert!(text.contains("0,c,i64,[2],1,5 6"), "{text}");
}

#[test]
fn missing_inputs_and_wrong_types_are_diagnostics() {
    let model = neg_only();
    let executable = compiled(&model).result.unwrap();
    let mut session = executable.load().unwrap();
    assert!(session.run(&Tensors::new()).is_err());
    let fraction = Tensor::from_vec(&[1, 4], vec![true as u8; 4]).unwrap();
    // Bytes are exact in f32.
    assert!(session.run(&Tensors::from([("x".to_owned(), fraction)])).is_ok());
}
