//! Programs with registers: stages that are short enough, the same numbers, and no more bits in
//! registers than da4ml has.

use crate::common::random::program;
use crate::common::{Case, cases, same};
use quincunx_contract::{ArchSource, Engine, File, Log, Options, Target};
use quincunx_dais::files::{self, Pipeline};
use quincunx_dais::isa::Inst;
use quincunx_dais::program::{InputIndex, Operation, Output, Program, Slot, SlotType};
use quincunx_dais::rtl::Design;
use quincunx_dais::simulate::{Fast, PipelineExecutor};
use quincunx_dais::verify::{Rules, verify_pipeline};
use quincunx_dais::{Cutoff, Staged, TARGET, register_bits, to_pipeline};
use quincunx_diag::any_error;
use quincunx_num::Kif;
use quincunx_tensor::{Tensor, Tensors};
use quincunx_testkit::{Random, within_seconds};
use std::num::NonZeroUsize;

fn case(name: &str) -> Case {
    cases(&["traced"]).into_iter().find(|case| case.name == format!("traced/{name}")).unwrap()
}

fn cost(pipeline: &Pipeline) -> f64 {
    pipeline.stages.iter().flat_map(|stage| &stage.operations).map(|o| o.cost).sum()
}

/// The longest chain of delays of any stage, from latencies as they were recorded.
fn longest(program: &Program, pipeline: &Pipeline) -> f64 {
    let recorded = program.operations.iter().any(|operation| operation.latency > 0.0);
    assert!(recorded);
    let mut most = 0.0_f64;
    for stage in &pipeline.stages {
        let mut ends: Vec<f64> = Vec::new();
        for operation in &stage.operations {
            let begin = operation.inst.operands().map(|o| ends[o.0 as usize]).fold(0.0, f64::max);
            let is_adder = matches!(operation.inst, Inst::Add { .. } | Inst::Sub { .. });
            ends.push(begin + f64::from(u8::from(is_adder)));
        }
        most = ends.into_iter().fold(most, f64::max);
    }
    most
}

fn check_numbers(name: &str, pipeline: &Pipeline, case: &Case) {
    assert!(!any_error(&verify_pipeline(pipeline, &Rules::default())), "{name}");
    let mut executor = PipelineExecutor::new(pipeline).unwrap();
    let fast = Fast::new(pipeline).unwrap().unwrap();
    for (inputs, expected) in case.inputs.iter().zip(&case.outputs) {
        assert!(same(&executor.run(inputs).unwrap(), expected), "{name}");
        let found = fast.run(1, inputs, NonZeroUsize::MIN).unwrap();
        assert!(same(&found, expected), "{name}");
    }
}

/// Stages, register bits and cost of `tests/golden/dais/manifest.json`: what da4ml makes of these.
#[test]
fn registers_are_no_more_than_those_of_da4ml() {
    for (name, latency, stages, bits, total) in
        [("jet_mlp_6b", 5.0, 5, 5240, 30623.0), ("tiny_mlp_4b", 2.0, 3, 239, 361.0)]
    {
        let case = case(name);
        for (_, json) in case.pipelines() {
            let theirs = files::read_json(&json, false).unwrap().pipeline;
            assert_eq!((theirs.stages.len(), register_bits(&theirs)), (stages, bits), "{name}");
        }
        let program = case.program();
        let cutoff = Cutoff { latency, retiming: true };
        let staged = to_pipeline(&program, cutoff, &[]).unwrap();
        let found = register_bits(&staged.pipeline);
        assert_eq!(staged.pipeline.stages.len(), stages, "{name}");
        assert!(found <= bits, "{name}: {found} bits, da4ml has {bits}");
        assert_eq!(cost(&staged.pipeline), total, "{name}");
        check_numbers(name, &staged.pipeline, &case);
        let plain = to_pipeline(&program, Cutoff { retiming: false, ..cutoff }, &[]).unwrap();
        assert_eq!(plain.pipeline.stages.len(), stages, "{name}");
        assert!(found <= register_bits(&plain.pipeline), "{name}");
        check_numbers(name, &plain.pipeline, &case);
    }
}

#[test]
fn golden_programs_in_stages_of_any_length() {
    for case in cases(&["traced"]) {
        let program = case.program();
        for latency in [1.0, 2.0, 3.0, 7.0, 1000.0] {
            for retiming in [false, true] {
                let staged = to_pipeline(&program, Cutoff { latency, retiming }, &[]).unwrap();
                let name = format!("{}, {latency}, {retiming}", case.name);
                check_numbers(&name, &staged.pipeline, &case);
                // Products and lookups may take longer than a short stage, with a warning.
                let is_longer = staged.warnings.iter().any(|warning| warning.code() == "Q1160");
                assert_eq!(staged.latency > latency + 1e-6, is_longer, "{name}");
                assert!(!is_longer || latency < 1000.0 && !case.name.contains("mlp"), "{name}");
                let is_mlp = case.name.contains("mlp") || case.name.contains("conv");
                if is_mlp {
                    assert!(longest(&program, &staged.pipeline) <= latency, "{name}");
                }
                if latency == 1000.0 {
                    assert_eq!(staged.pipeline.stages.len(), 1, "{name}");
                }
            }
        }
    }
}

/// Random programs have random latencies, which need not grow along a path.
#[test]
fn random_programs_in_stages() {
    let (mut many, mut kept) = (0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed + 9000);
        let program = program(&mut random, 40);
        let roots: Vec<Slot> = (0..3).map(|_| Slot(random.below(40) as u32)).collect();
        let latency = f64::from(random.range(5, 9)) / 4.0;
        let retiming = random.below(2) == 1;
        let Ok(staged) = to_pipeline(&program, Cutoff { latency, retiming }, &roots) else {
            continue;
        };
        let mut whole = PipelineExecutor::new(&program.clone().into()).unwrap();
        let mut stages = PipelineExecutor::new(&staged.pipeline).unwrap();
        many += usize::from(staged.pipeline.stages.len() > 1);
        for _ in 0..8 {
            let inputs: Vec<f64> = program.input_shifts.iter().map(|_| random.float()).collect();
            let expected = whole.run(&inputs).unwrap();
            assert!(same(&stages.run(&inputs).unwrap(), &expected), "seed {seed}");
            for &root in &roots {
                let (stage, slot) = staged.places[root.0 as usize].unwrap();
                let found = &stages.stages()[stage].slots()[slot.0 as usize];
                assert_eq!(found, &whole.stages()[0].slots()[root.0 as usize], "seed {seed}");
                kept += 1;
            }
        }
        // A pipeline that is cut again stays as it is, and so do its stages one by one.
        assert_eq!(staged.pipeline.stages[0].input_shifts, program.input_shifts);
    }
    assert!(many > 60 && kept > 1000, "{many} {kept}");
}

/// Registers have the bits that the ports of generated logic have, also of inputs that are read as
/// several types and of outputs that are negated.
#[test]
fn register_bits_are_those_of_the_ports() {
    let mut many = 0;
    for seed in 0..100 {
        let program = program(&mut Random::new(seed + 500), 30);
        let cutoff = Cutoff { latency: 3.0, retiming: true };
        let Ok(Staged { pipeline, .. }) = to_pipeline(&program, cutoff, &[]) else { continue };
        let Ok(design) = Design::new(&pipeline) else { continue };
        if program.outputs.iter().any(|output| output.source.is_none()) {
            continue;
        }
        let bits = design.stages().iter().map(|stage| u64::from(stage.output_width()));
        let bits = u64::from(design.input_width()) + bits.sum::<u64>();
        assert_eq!(register_bits(&pipeline), bits, "seed {seed}");
        many += 1;
    }
    assert!(many > 30, "{many}");
}

fn operation(inst: Inst, width: i32, latency: f64) -> Operation {
    let slot_type = SlotType::Kif(Kif::new(true, width - 1, 0));
    Operation { inst, slot_type, latency, cost: 1.0 }
}

/// A sum of eight inputs of 8 bits, the result of which is added to a ninth: with two levels a
/// stage, the registers of one of the two stages after the first hold two sums of 10 bits and the
/// ninth input.
#[test]
fn registers_by_hand() {
    let mut operations: Vec<Operation> =
        (0..9).map(|i| operation(Inst::Input { source: InputIndex(i) }, 8, 0.0)).collect();
    let mut level: Vec<u32> = (0..8).collect();
    let mut width = 8;
    for latency in [1.0, 2.0, 3.0] {
        width += 1;
        let mut next = Vec::new();
        for pair in level.chunks_exact(2) {
            let inst = Inst::Add { a: Slot(pair[0]), b: Slot(pair[1]), shift: 0 };
            next.push(operations.len() as u32);
            operations.push(operation(inst, width, latency));
        }
        level = next;
    }
    let sum = Inst::Sub { a: Slot(level[0]), b: Slot(8), shift: 0 };
    operations.push(operation(sum, 12, 4.0));
    let source = Some(Slot(operations.len() as u32 - 1));
    let outputs = vec![Output { source, shift: 0, negate: false }];
    let program = Program {
        input_shifts: vec![0; 9],
        operations,
        outputs,
        carry_size: -1,
        adder_size: 1,
        ..Program::default()
    };
    let bits = |latency: f64| {
        let staged = to_pipeline(&program, Cutoff { latency, retiming: true }, &[]).unwrap();
        (staged.pipeline.stages.len(), register_bits(&staged.pipeline))
    };
    // Inputs, then 4 sums of 9 bits, 2 of 10, 1 of 11, each with the ninth input, then the result.
    assert_eq!(bits(1.0), (4, 72 + (36 + 8) + (20 + 8) + (11 + 8) + 12));
    assert_eq!(bits(2.0), (2, 72 + (20 + 8) + 12));
    // Two stages are needed; two levels each are as good as three and one, and shorter.
    assert_eq!(bits(3.0), (2, 72 + (20 + 8) + 12));
    assert_eq!(bits(4.0), (1, 72 + 12));
    // Every level is longer: each is a stage, with a warning.
    assert_eq!(bits(0.5), bits(1.0));
    let staged = to_pipeline(&program, Cutoff { latency: 0.5, retiming: true }, &[]).unwrap();
    assert_eq!(staged.warnings[0].code(), "Q1160");
    assert_eq!(staged.latency, 1.0);
}

/// Programs with products of two variables, which take longer than most cutoffs, have no more stages
/// than with `to_pipeline` of da4ml 0.6.0, whose numbers these are, with and without retiming.
#[test]
fn long_operations_make_no_more_stages_than_in_da4ml() {
    const CUTOFFS: [f64; 8] = [0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0];
    for (name, theirs) in [
        ("misc_ops", [34, 17, 12, 9, 6, 4, 3, 2]),
        ("lut_max_einsum", [40, 20, 14, 10, 7, 4, 3, 2]),
    ] {
        let case = case(name);
        let program = case.program();
        for (latency, theirs) in CUTOFFS.into_iter().zip(theirs) {
            for retiming in [false, true] {
                let staged = to_pipeline(&program, Cutoff { latency, retiming }, &[]).unwrap();
                let ours = staged.pipeline.stages.len();
                assert!(ours <= theirs, "{name} at {latency}: {ours} stages, da4ml has {theirs}");
                let is_longer = staged.latency > latency + 1e-9;
                let is_named = staged.warnings.iter().any(|w| w.code() == "Q1160");
                assert!(is_named || !is_longer, "{name} at {latency}");
                check_numbers(name, &staged.pipeline, &case);
            }
        }
    }
}

/// A long chain, and as many values that could be anywhere along it: too many stages are refused at
/// once, as many as are allowed are balanced in time.
#[test]
fn long_chains_take_little_time() {
    for (length, free, ok) in [(100_000_u32, 100_000, false), (4000, 20_000, true)] {
        let mut operations = vec![operation(Inst::Input { source: InputIndex(0) }, 8, 0.0)];
        for _ in 0..free {
            let add = Inst::Add { a: Slot(0), b: Slot(0), shift: 0 };
            operations.push(operation(add, 9, 1.0));
        }
        for step in 0..length {
            let last = Slot(if step == 0 { 0 } else { free + step });
            let add = Inst::Add { a: last, b: Slot(1 + step * 7 % free), shift: 0 };
            operations.push(operation(add, 9, f64::from(step) + 2.0));
        }
        // What nothing reads would not be there.
        let sources = [free + length].into_iter().chain(1..=free).take(if ok { 200 } else { 1 });
        let output = |slot| Output { source: Some(Slot(slot)), shift: 0, negate: false };
        let program = Program {
            input_shifts: vec![0],
            operations,
            outputs: sources.map(output).collect(),
            ..Program::default()
        };
        let cutoff = Cutoff { latency: 1.0, retiming: true };
        match within_seconds(60, || to_pipeline(&program, cutoff, &[])) {
            Ok(staged) => assert!(ok && staged.pipeline.stages.len() > 4000),
            Err(problem) => assert!(!ok && problem.code() == "Q1162", "{problem}"),
        }
    }
}

/// Without recorded latencies, as in machine code, those of the model count.
#[test]
fn machine_code_has_the_latencies_of_the_model() {
    let case = case("tiny_mlp_4b");
    let code = crate::common::read_binary(&case.file(".bin").unwrap()).program;
    let staged = to_pipeline(&code, Cutoff { latency: 2.0, retiming: true }, &[]).unwrap();
    assert_eq!(staged.pipeline.stages.len(), 3);
    check_numbers("machine code", &staged.pipeline, &case);
}

fn options(given: &[(&str, &str)]) -> Options {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Options::new(TARGET.info().options, &given).unwrap()
}

fn read(files: &[File], given: &[(&str, &str)]) -> Box<dyn quincunx_contract::Program> {
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    TARGET.read(files, None, &*arch, &options(given), &mut Log::default()).unwrap()
}

/// Machine code has neither latencies nor costs, and is shown with those of the model: as the file
/// that it was made of, of which the tool recorded them.
#[test]
fn machine_code_is_timed_as_the_file_it_was_made_of() {
    use quincunx_contract::Verb;
    let case = case("tiny_mlp_4b");
    let json = File::new("tiny.json", case.json());
    for given in [&[][..], &[("latency-cutoff", "2")]] {
        let recorded = read(std::slice::from_ref(&json), given);
        let code = read(&recorded.emit("bin", "tiny").unwrap(), &[]);
        let staged =
            read(&read(std::slice::from_ref(&json), &[]).emit("bin", "tiny").unwrap(), given);
        let figure = |program: &dyn quincunx_contract::Program, name: &str| {
            let figures = program.stats().figures;
            let found = figures.into_iter().find(|(known, _)| *known == name);
            found.unwrap().1.parse::<f64>().unwrap()
        };
        for program in [&code, &staged] {
            assert_eq!(figure(&**program, "latency"), figure(&*recorded, "latency"));
            // Types of machine code are a little wider than intervals.
            let ratio = figure(&**program, "cost") / figure(&*recorded, "cost");
            assert!((1.0..1.05).contains(&ratio), "{ratio}");
            let longest = |program: &dyn quincunx_contract::Program| {
                let timeline = program.time().unwrap();
                timeline
                    .figures()
                    .iter()
                    .find(|f| f.name == "latency of a stage")
                    .unwrap()
                    .value
                    .clone()
            };
            assert_eq!(longest(&**program), longest(&*recorded));
            let tables = program.shown_by(Verb::Time).unwrap();
            assert_eq!(tables[0].key(), "stages");
        }
    }
}

#[test]
fn files_become_pipelines_and_files_of_stages() {
    let case = case("tiny_mlp_4b");
    let file = File::new("tiny.json", case.json());
    let staged = read(&[file], &[("latency-cutoff", "2")]);
    assert_eq!(staged.stats().cycles, Some(3));
    let mut code = staged.emit("bin", "tiny").unwrap();
    let names: Vec<&str> = code.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["tiny.stage0.dais", "tiny.stage1.dais", "tiny.stage2.dais"]);
    // Numbers in names decide, not the order in which files are given.
    code.reverse();
    let text = staged.emit("asm", "tiny").unwrap();
    let json = staged.emit("json", "tiny").unwrap();
    let inputs =
        Tensors::from([("in".to_owned(), Tensor::from_vec(&[4], case.inputs[0].clone()).unwrap())]);
    for files in [code, text, json] {
        // What is a pipeline is not divided again.
        let again = read(&files, &[("latency-cutoff", "1")]);
        assert_eq!(again.stats().cycles, Some(3));
        for engine in [Engine::Exec, Engine::Fast] {
            let outputs = again.load(engine).unwrap().run(&inputs).unwrap();
            assert!(same(&outputs["out"].to_f64(), &case.outputs[0]));
        }
    }
}
