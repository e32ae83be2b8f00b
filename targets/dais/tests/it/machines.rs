//! Programs with registers: what alkaid's `stateful.FSM` saves, and the same as text. Their results
//! in alkaid, and as Verilog and VHDL, are judged in `tracers.rs`.

use crate::common::random::program;
use crate::common::simulators::{Bench, ghdl, icarus, present};
use crate::common::{rows, same};
use quincunx_contract::{ArchSource, Engine, File, Interface, Log, Options, Target};
use quincunx_dais::binary::{self, Dialect, convert};
use quincunx_dais::files::packed;
use quincunx_dais::files::{self, Pipeline};
use quincunx_dais::program::Program;
use quincunx_dais::rtl::{Design, Estimate, Language, Settings, emit};
use quincunx_dais::simulate::{Fast, PipelineExecutor, overflows};
use quincunx_dais::verify::{Rules, verify, verify_pipeline};
use quincunx_dais::{Cutoff, TARGET, text, to_pipeline};
use quincunx_diag::{Class, Severity, SourceId, any_error};
use quincunx_tensor::{Tensor, Tensors};
use quincunx_testkit::Random;
use std::num::NonZeroUsize;
use std::path::Path;

const ACCUMULATOR: &str = "\
.dais
.inputs 2
.state 2.5
%0 = input 0 : (1, 3, 2)
%1 = input 1 : (1, 5, 2)
%2 = add %0, %1 : (1, 6, 2)
%3 = quantise %2 : (1, 5, 2)
out %3
out %3
";

fn assemble(source: &str) -> Pipeline {
    text::parse(source, SourceId(0)).unwrap()
}

fn json(pipeline: &Pipeline) -> String {
    let stage = |stage| convert(stage, Dialect::A4).unwrap().program;
    let stages = pipeline.stages.iter().map(stage).collect();
    files::write_alir_pipeline_json(&Pipeline { stages }).unwrap()
}

fn example(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/dais").join(name);
    std::fs::read(path).unwrap()
}

fn steps(executor: &mut PipelineExecutor, inputs: &[&[f64]]) -> Vec<f64> {
    inputs.iter().flat_map(|row| executor.run(row).unwrap()).collect()
}

#[test]
fn registers_keep_what_they_hold() {
    let pipeline = assemble(ACCUMULATOR);
    assert_eq!(verify_pipeline(&pipeline, &Rules::default()), []);
    let mut executor = PipelineExecutor::new(&pipeline).unwrap();
    let inputs: [&[f64]; 5] = [&[1.0], &[-0.3], &[7.75], &[7.75], &[7.75]];
    let expected = [3.5, 3.0, 10.75, 18.5, 26.25];
    assert_eq!(steps(&mut executor, &inputs), expected);
    assert_eq!(steps(&mut executor, &inputs), [27.25, 26.75, -29.5, -21.75, -14.0]);
    let fast = Fast::new(&pipeline).unwrap().unwrap();
    assert_eq!((fast.inputs(), fast.outputs()), (1, 1));
    for threads in 1..4 {
        let threads = NonZeroUsize::new(threads).unwrap();
        assert_eq!(fast.run(5, &inputs.concat(), threads).unwrap(), expected);
    }
    // A step that fails changes nothing.
    let mut worker = fast.worker();
    let mut results = [0.0; 3];
    let fault = fast.run_on(&mut worker, 3, &[1.0, f64::NAN, 2.0], &mut results).unwrap_err();
    assert_eq!((fault.code(), results[0]), ("Q1102", 3.5));
    fast.run_on(&mut worker, 1, &[-0.3], &mut results[..1]).unwrap();
    assert_eq!(results[0], 3.0);
    assert_eq!(
        executor.run(&[1.0, 2.0]).unwrap_err().message(),
        "the program has 1 inputs, found 2 numbers"
    );
}

#[test]
fn forms_keep_registers_or_refuse_them() {
    let pipeline = assemble(ACCUMULATOR);
    assert_eq!(text::print_pipeline(&pipeline), ACCUMULATOR);
    assert_eq!(packed::read(&packed::write(&pipeline)).unwrap(), pipeline);
    let many = ACCUMULATOR.replace(".state 2.5", ".state 2.5, 1e-3\n.state inf");
    assert_eq!(assemble(&many).stages[0].state, [2.5, 1e-3, f64::INFINITY]);
    assert!(text::parse(&ACCUMULATOR.replace("2.5", "x"), SourceId(0)).is_err());
    let read = files::read_json(&json(&pipeline), false).unwrap();
    assert_eq!((read.dialect, &read.warnings[..]), (Dialect::A4, &[][..]));
    assert_eq!(json(&read.pipeline), json(&pipeline));
    assert_eq!(read.pipeline.stages[0].state, [2.5]);
    let program = &pipeline.stages[0];
    let a4 = convert(program, Dialect::A4).unwrap().program;
    assert_eq!(a4.state, [2.5]);
    for refused in [
        binary::write(program, Dialect::D1).unwrap_err(),
        binary::write(&a4, Dialect::A4).unwrap_err(),
        files::write_json(program).unwrap_err(),
        files::write_pipeline_json(&pipeline).unwrap_err(),
        files::write_alir_json(&a4).unwrap_err(),
    ] {
        assert_eq!((refused.code(), refused.class()), ("Q1057", Class::Unsupported));
    }
    let cutoff = Cutoff { latency: 1.0, retiming: true };
    assert_eq!(to_pipeline(program, cutoff, &[]).unwrap_err().code(), "Q1164");
}

#[test]
fn q1041_registers_have_places_and_numbers() {
    let codes = |pipeline: &Pipeline| -> Vec<(String, Severity)> {
        let found = verify_pipeline(pipeline, &Rules::default());
        found.iter().map(|p| (p.code().to_owned(), p.severity())).collect()
    };
    let error = [("Q1041".to_owned(), Severity::Error)];
    for (from, to) in [("2.5", "NaN"), ("2.5", "1, 2, 3"), ("out %3\nout %3", "")] {
        let broken = assemble(&ACCUMULATOR.replace(from, to));
        assert_eq!(codes(&broken)[..1], error, "{to}");
        assert!(PipelineExecutor::new(&broken).is_err());
        assert!(Fast::new(&broken).is_err());
        assert!(Design::new(&broken).is_err());
    }
    let mut staged = assemble(ACCUMULATOR);
    staged.stages.extend(assemble(".dais\n.inputs 2\n%0 = input 0 : (1, 5, 2)\nout %0\n").stages);
    assert_eq!(codes(&staged), error);
}

/// A register is no input that somebody drives: it may hold all that its type does.
#[test]
fn declared_intervals_of_registers_prove_nothing() {
    let narrow =
        ACCUMULATOR.replace("1 : (1, 5, 2)", "1 : [0, 16, 0.25]").replace("(1, 6, 2)", "(1, 5, 2)");
    let codes = |source: &str| -> Vec<String> {
        let found = verify_pipeline(&assemble(source), &Rules::default());
        found.iter().map(|problem| problem.code().to_owned()).collect()
    };
    assert_eq!(codes(&narrow), ["Q1038"]);
    assert_eq!(codes(&narrow.replace(".state 2.5\n", "")), [] as [&str; 0]);
}

/// The accumulator as alkaid's `FSM` saves it, without a start value.
fn file() -> String {
    let signal = |name: &str, rest: &str| format!("[\"{name}\",{rest},null]");
    let (one, two) = ("[[true,5,0]]", "[[true,5,0],[true,5,0]]");
    let input = |view: &str| {
        signal("INTERNAL_acc_inp", &format!("false,{two},null,null,false,null,\"w\",null,{view}"))
    };
    let inner = |name: &str, register: bool| {
        signal(name, &format!("false,{one},null,null,{register},null,\"rw\",null,[0,1]"))
    };
    let port = |name: &str, register: bool, mode: &str| {
        signal(name, &format!("true,{one},null,null,{register},null,\"{mode}\",null,[0,1]"))
    };
    let connect = |from: String, to: String| {
        format!("{{\"src\":{from},\"dst\":{to},\"enable_if\":null,\"alt_src\":null}}")
    };
    let connections = [
        connect(port("x", false, "r"), input("[0,1]")),
        connect(inner("s", true), input("[1,2]")),
        connect(inner("INTERNAL_acc_outp", false), port("y", true, "w")),
        connect(inner("INTERNAL_acc_outp", false), inner("s", true)),
    ]
    .join(",");
    let wide = "[-32.0,31.0,1.0]";
    let logic = format!(
        "[[2,1],[0,0],[3],[0],[false],[[[],-1,[0],{wide},0,0],[[],-1,[1],{wide},0,0],\
         [[0,1],0,[0],[-64.0,62.0,1.0],1.0,6],[[2],3,[0],{wide},1.0,0]],1,1,null]"
    );
    format!(
        "{{\"meta\":\"ALIRFSM\",\"spec_version\":4,\"fsm\":{{\"logic\":{{\"acc\":{logic}}},\
         \"conns\":[{connections}],\"signal_order\":[]}}}}"
    )
}

/// What a changed file gives for the inputs 1, 2, 3, and the codes of its warnings.
fn changed(changes: &[(&str, &str)]) -> (Vec<f64>, Vec<String>) {
    let mut text = file();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let read = files::read_json(&text, false).unwrap_or_else(|found| panic!("{found:?}"));
    assert!(!any_error(&verify_pipeline(&read.pipeline, &Rules::default())));
    let mut executor = PipelineExecutor::new(&read.pipeline).unwrap();
    let codes = read.warnings.iter().map(|warning| warning.code().to_owned());
    (steps(&mut executor, &[&[1.0], &[2.0], &[3.0]]), codes.collect())
}

#[test]
fn what_signals_mean() {
    let register = "\"s\",false,[[true,5,0]],null,null,true";
    let start = |value: &str| register.replace("null,null,true", &format!("null,{value},true"));
    assert_eq!(changed(&[]), (vec![1.0, 3.0, 6.0], vec!["Q1069".to_owned()]));
    // As wide registers hold it: rounded down and wrapped.
    for (value, outputs) in [
        ("[7.0]", [8.0, 10.0, 13.0]),
        ("[-0.5]", [0.0, 2.0, 5.0]),
        ("[100]", [-27.0, -25.0, -22.0]),
    ] {
        assert_eq!(changed(&[(register, &start(value))]), (outputs.to_vec(), Vec::new()));
    }
    let started = (register, &*start("[7.0]"));
    // A port that is a wire, which alkaid shows after the registers have changed.
    let port = "\"y\",true,[[true,5,0]],null,null,true,null";
    let wire = port.replace("true,null", "false,null");
    assert_eq!(changed(&[started, (port, &wire)]).0, [8.0, 10.0, 13.0]);
    // What registers held, in one more register or not.
    let from_step = "{\"src\":[\"INTERNAL_acc_outp\",false,[[true,5,0]],null,null,false,null,\"rw\",null,[0,1],null],\"dst\":[\"y\"";
    let from_state =
        format!("{{\"src\":[{},null,\"rw\",null,[0,1],null],\"dst\":[\"y\"", start("[7.0]"));
    assert_eq!(changed(&[started, (from_step, &from_state)]).0, [7.0, 8.0, 10.0]);
    assert_eq!(changed(&[started, (from_step, &from_state), (port, &wire)]).0, [7.0, 8.0, 10.0]);
    // The port as the register that is read.
    let fed_back = file().replace("[\"s\",false", "[\"y\",true");
    let parts: Vec<&str> = fed_back.split(",{\"src\"").collect();
    let fed_back = format!(
        "{},\"signal_order\":[]}}}}",
        [parts[0], parts[1], parts[2]].join(",{\"src\"") + "]"
    );
    let read =
        files::read_json(&fed_back, false).unwrap_or_else(|found| panic!("{fed_back} {found:?}"));
    let mut executor = PipelineExecutor::new(&read.pipeline).unwrap();
    assert_eq!(steps(&mut executor, &[&[1.0], &[2.0], &[3.0]]), [1.0, 3.0, 6.0]);
    // Results that begin later are said to.
    let late = |first: &str| port.replace("true,null", &format!("true,[[{first}],1]"));
    assert_eq!(changed(&[started, (port, &late("1"))]).1, [] as [&str; 0]);
    assert_eq!(
        changed(&[started, (port, &late("3"))]),
        (vec![8.0, 10.0, 13.0], vec!["Q1060".to_owned()])
    );
    // A port of fewer bits has no others.
    let narrow = "\"x\",true,[[true,1,0]]";
    assert_eq!(changed(&[started, ("\"x\",true,[[true,5,0]]", narrow)]).0, [8.0, 6.0, 5.0]);
}

#[test]
fn q1068_machines_that_cannot_be_read() {
    let refused = |changes: &[(&str, &str)], why: &str| {
        let mut text = file();
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        let problems = files::read_json(&text, false).unwrap_err();
        assert_eq!((problems[0].code(), problems[0].class()), ("Q1068", Class::Unsupported));
        assert!(problems[0].message().contains(why), "{problems:?}");
        assert!(problems[0].place().is_some() && problems[0].help_text().is_some());
    };
    let register = "\"s\",false,[[true,5,0]],null,null,true";
    let signal = |types: &str, reset: &str| {
        format!("[\"c\",true,[{types}],{reset},null,false,null,\"r\",null,[0,1],null]")
    };
    let bit = signal("[false,1,0]", "null");
    let reset = |by: &str, to: &str| format!("\"s\",false,[[true,5,0]],{by},{to},true");
    refused(&[(register, &reset(&bit, "null"))], "\"s\" has no values to be reset to");
    refused(&[(register, &reset(&bit, "[]"))], "\"s\" has no values to be reset to");
    let wide = signal("[true,5,0]", "null");
    refused(&[(register, &reset(&wide, "[0.0]"))], "the condition \"c\" is not one bit");
    let twice = signal("[false,1,0]", &bit);
    refused(&[(register, &reset(&twice, "[0.0]"))], "the condition \"c\" is not one bit");
    let enable = ("\"enable_if\":null", &*format!("\"enable_if\":{bit}"));
    refused(&[enable], "nothing else is written to the wire \"INTERNAL_acc_inp\"");
    let other = ("\"alt_src\":null", &*format!("\"alt_src\":{wide}"));
    refused(&[other], "nothing decides what is written to \"INTERNAL_acc_inp\"");
    let two = signal("[true,5,0],[true,5,0]", "null").replace("[0,1]", "[0,2]");
    let others = ("\"alt_src\":null", &*format!("\"alt_src\":{two}"));
    refused(&[enable, others], "\"c\" has another type than \"INTERNAL_acc_inp\"");
    refused(&[("[1,2],null]", "[1,2],[\"i\",3]]")], "has an index");
    refused(&[("[1,2],null]", "[1,3],null]")], "has a part that is not there");
    refused(&[("[1,2],null]", "[0,2],null]")], "has parts of different lengths");
    refused(
        &[("[1,2],null]", "[0,1],null]")],
        "two connections write number 0 of \"INTERNAL_acc_inp\"",
    );
    refused(&[("false,null,\"r\"", "false,[[0,2],3],\"r\"")], "has a schedule with gaps");
    refused(
        &[("false,null,\"r\"", "false,[[2],1],\"r\"")],
        "\"x\" has a schedule that begins later",
    );
    refused(&[(register, "\"s\",false,[[true,4,0]],null,null,true")], "has a type that drops bits");
    refused(&[(register, "\"s\",false,[[true,5,0]],null,[1.0,2.0],true")], "other start values");
    refused(&[(register, "\"s\",false,[[true,5,0]],null,[Infinity],true")], "other start values");
    refused(&[(register, "\"s\",false,[[true,5,0]],null,null,false")], "no register is on the way");
    refused(&[("\"y\",true", "\"y\",false")], "no program writes an output port");
    refused(&[("\"x\",true", "\"x\",false")], "nothing writes number 0 of \"x\"");
    refused(&[("\"x\",true", "\"t\",false"), ("\"y\",true", "\"t\",false")], "\"t\" has two forms");
    let circle = ("\"INTERNAL_acc_outp\"", "\"s\"");
    refused(
        &[
            ("\"s\"", "\"w\""),
            circle,
            ("\"w\"", "\"s\""),
            (register, "\"s\",false,[[true,5,0]],null,null,false"),
        ],
        "part of a circle",
    );
    // An error of a program names it.
    let problems =
        files::read_json(&file().replace("[0,0],[3],", "[0,0],[9],"), false).unwrap_err();
    assert_eq!(
        (problems[0].code(), problems[0].notes()),
        ("Q1004", &["in program \"acc\"".to_owned()][..])
    );
}

fn artifact(name: &str, options: &[(&str, &str)]) -> Box<dyn quincunx_contract::Program> {
    let given: Vec<_> = options.iter().map(|&(n, v)| (n.to_owned(), v.to_owned())).collect();
    let options = Options::new(TARGET.info().options, &given).unwrap();
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    let file = File::new(name, example(name));
    TARGET.read(&[file], None, &*arch, &options, &mut Log::default()).unwrap()
}

/// All engines behind the ports, sample by sample, many together, and with layers.
#[test]
fn machines_behind_ports() {
    let program = artifact("filter.json", &[]);
    assert!(program.keeps_state());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/dais/filter_in.npy");
    let images: Vec<Tensors> = rows(&path)
        .into_iter()
        .map(|row| Tensors::from([("in".to_owned(), Tensor::from_vec(&[1], row).unwrap())]))
        .collect();
    let mut expected = None;
    for engine in [Engine::Exec, Engine::Checked, Engine::Fast] {
        let run = |batch: usize| -> Vec<Tensors> {
            let mut machine = program.load(engine).unwrap();
            let run = |(number, images): (usize, &[Tensors])| match number % 3 {
                2 => images.iter().map(|image| machine.run_traced(image).unwrap()).collect(),
                _ => machine.run_batch(images).into_iter().map(|r| r.unwrap()).collect::<Vec<_>>(),
            };
            images.chunks(batch).enumerate().flat_map(run).collect()
        };
        let first = expected.get_or_insert_with(|| run(1)).clone();
        for batch in [1, 3, 16] {
            assert_eq!(run(batch), first, "{engine:?} {batch}");
        }
        // A fault in the middle of a batch is its own.
        let mut machine = program.load(engine).unwrap();
        let mut faulty = images.clone();
        let nan = Tensor::from_vec(&[1], vec![f64::NAN]).unwrap();
        faulty.insert(2, Tensors::from([("in".to_owned(), nan)]));
        let mut found = machine.run_batch(&faulty);
        assert!(found.remove(2).is_err());
        let found: Vec<Tensors> = found.into_iter().map(|result| result.unwrap()).collect();
        assert_eq!(found, first, "{engine:?}");
    }
    // The buffer is an output before the registers.
    let buffer = artifact("filter.json", &[("dump-buffer", "true")]);
    let mut machine = buffer.load(Engine::Fast).unwrap();
    for (image, expected) in images.iter().zip(expected.unwrap()) {
        assert_eq!(machine.run(image).unwrap()["out"], expected["out"]);
    }
}

#[test]
fn figures_of_machines() {
    let program = artifact("filter.json", &[]);
    assert_eq!(program.time().unwrap().total(), 1);
    for view in program.views().iter().filter(|view| view.name != "synthesis") {
        assert!(!program.tables(view.name).unwrap().is_empty());
    }
    let pipeline = assemble(ACCUMULATOR);
    let design = Design::new(&pipeline).unwrap();
    assert_eq!((design.input_width(), design.state_width(), design.output_width()), (6, 8, 8));
    assert_eq!(Estimate::of(&design, 0).flip_flops, 8);
    assert_eq!(Estimate::of(&design, 1).flip_flops, 16);
    for kind in ["json", "gz", "asm", "packed", "verilog", "vhdl", "dot", "svg"] {
        assert!(!program.emit(kind, "filter").unwrap().is_empty(), "{kind}");
    }
    assert_eq!(program.emit("bin", "filter").unwrap_err().code(), "Q1057");
}

/// A random program whose last inputs and outputs are registers.
fn random(seed: u64) -> Option<Pipeline> {
    let mut random = Random::new(seed);
    let mut program: Program = program(&mut random, 20);
    let most = program.input_shifts.len().min(program.outputs.len().saturating_sub(1)).min(3);
    program.state = (0..most).map(|_| random.float()).collect();
    (most > 0 && !any_error(&verify(&program, &Rules::EXECUTABLE))).then(|| program.into())
}

/// The prepared simulator, the logic and JSON agree with the executor.
#[test]
fn random_machines_agree() {
    let (mut machines, mut designs, mut written) = (0, 0, 0);
    for seed in 0..300 {
        let Some(pipeline) = random(seed) else { continue };
        machines += 1;
        let mut random = Random::new(seed);
        let (inputs, _) = pipeline.stages[0].ends();
        let samples: Vec<Vec<f64>> =
            (0..12).map(|_| (0..inputs).map(|_| random.float()).collect()).collect();
        let mut executor = PipelineExecutor::new(&pipeline).unwrap();
        let mut fits = true;
        let results: Result<Vec<Vec<f64>>, _> = samples
            .iter()
            .map(|row| {
                executor.run_with(row, &mut |_, _, operation, value| {
                    fits &= !overflows(operation, value);
                })
            })
            .collect();
        if let Some(fast) = Fast::new(&pipeline).unwrap() {
            let found = fast.run(samples.len(), &samples.concat(), NonZeroUsize::new(2).unwrap());
            let expected = results.as_ref().map(|rows| rows.concat());
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "seed {seed}");
        }
        let (Ok(results), true) = (results, fits) else { continue };
        if let Ok(design) = Design::new(&pipeline) {
            designs += 1;
            let mut state = design.start().clone();
            for (row, expected) in samples.iter().zip(&results) {
                let found = design.unpack(&design.step(&mut state, &design.pack(row).unwrap()));
                assert!(same(&found, expected), "seed {seed}: {found:?} {expected:?}");
            }
        }
        let a4 = convert(&pipeline.stages[0], Dialect::A4).unwrap().program;
        if let Ok(text) = files::write_alir_pipeline_json(&a4.into()) {
            written += 1;
            let read =
                files::read_json(&text, false).unwrap_or_else(|found| panic!("{text} {found:?}"));
            let mut again = PipelineExecutor::new(&read.pipeline).unwrap();
            for (row, expected) in samples.iter().zip(&results) {
                assert!(same(&again.run(row).unwrap(), expected), "seed {seed}: {text}");
            }
        }
    }
    assert!(machines >= 100 && designs >= 20 && written >= 10, "{machines} {designs} {written}");
}

/// Whole projects, with random vectors; some that leave their types are drawn again.
#[test]
fn machines_as_projects_are_simulated() {
    let benches = |language| -> Vec<Bench> {
        let sources = [
            ("acc", assemble(ACCUMULATOR)),
            ("tight", assemble(&ACCUMULATOR.replace("(1, 6, 2)", "(1, 5, 2)"))),
            ("alone", assemble(&ACCUMULATOR.replace("input 0", "input 1"))),
            (
                "staged",
                files::read_json(&String::from_utf8(example("staged.json")).unwrap(), false)
                    .unwrap()
                    .pipeline,
            ),
        ];
        let mut benches = Vec::new();
        for (name, pipeline) in sources {
            for registers in [None, Some(1)] {
                let name = format!("{name}{}", registers.unwrap_or(0));
                let settings = Settings { registers, ..Settings::default() };
                let interface = Interface::default();
                let files = emit(&pipeline, &interface, language, &settings, &name).unwrap();
                benches.push(Bench { name, files });
            }
        }
        benches
    };
    if present("iverilog") {
        icarus(&benches(Language::Verilog));
    }
    if present("ghdl") {
        ghdl(&benches(Language::Vhdl));
    }
}
