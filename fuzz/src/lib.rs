//! What is done with files that a reader has accepted.

use quincunx_contract::{ArchSource, File, Target};
use quincunx_dais::binary::{self, Dialect};
use quincunx_dais::files::{self, Pipeline};
use quincunx_dais::program::Program;
use quincunx_dais::simulate::{Executor, Fast, PipelineExecutor};
use quincunx_dais::text;
use quincunx_dais::verify::{Rules, verify, verify_pipeline};
use quincunx_diag::any_error;
use quincunx_graph::{Graph, passes};
use quincunx_import::{ExportOptions, Options, read_onnx, write_onnx};
use std::num::NonZeroUsize;

/// Largest graph that is transformed and written; reading alone is bounded by the reader.
const MOST_NODES: usize = 2000;

/// A graph that an importer has accepted verifies; the passes keep it so; what can be exported is
/// read again.
///
/// # Panics
/// When that is not so.
pub fn exercise_graph(graph: &Graph) {
    assert!(graph.verify().is_empty(), "an importer made an invalid graph");
    let _ = graph.to_string();
    if graph.nodes().len() > MOST_NODES {
        return;
    }
    let all = [
        passes::fold_constants,
        passes::recognise_functions,
        passes::fold_batch_norm,
        passes::remove_dead,
    ];
    for pass in all {
        if let Ok(after) = pass(graph) {
            assert!(after.verify().is_empty(), "a pass made an invalid graph");
        }
    }
    if let Ok(bytes) = write_onnx(graph, &ExportOptions::default()) {
        let again = read_onnx(bytes.into(), &Options::default());
        assert!(again.is_ok(), "an exported model is not read: {again:?}");
    }
}

/// Everything that can be done with a pipeline that a reader has accepted.
///
/// # Panics
/// When the prepared simulator gives something else than the executor.
pub fn exercise_pipeline(pipeline: &Pipeline) {
    let _ = verify_pipeline(pipeline, &Rules::default());
    let _ = files::write_pipeline_json(pipeline);
    pipeline.stages.iter().for_each(exercise_program);
    let inputs = pipeline.stages.first().map_or(0, |stage| stage.input_shifts.len());
    let Ok(mut executor) = PipelineExecutor::new(pipeline) else { return };
    for number in [0.0, -1e300, f64::NAN] {
        let inputs = vec![number; inputs];
        let expected = executor.run(&inputs);
        if let Ok(Some(fast)) = Fast::new(pipeline) {
            let found = fast.run(1, &inputs, NonZeroUsize::MIN);
            assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        }
    }
}

/// Writing, printing and reading again, verifying, running.
///
/// # Panics
/// When the printed program is not read as the same program, or a legal program has no executor.
pub fn exercise_program(program: &Program) {
    for dialect in Dialect::ALL {
        let _ = binary::write(program, dialect);
    }
    let printed = text::print(program);
    let (read, _) = text::read(&printed, "x").expect("printed programs can be read");
    assert_eq!(text::print(&read), printed);
    let legal = !any_error(&verify(program, &Rules::EXECUTABLE));
    let executor = Executor::new(program);
    assert_eq!(executor.is_ok(), legal);
    if let Ok(mut executor) = executor {
        let inputs = program.input_shifts.len();
        let _ = executor.run(&vec![0.0; inputs]);
        let _ = executor.run_strict(&vec![-1e300; inputs]);
    }
}

/// What the verbs do with a file, on every preset of a target; see [`quincunx_testkit::exercise`].
/// Programs of few cycles are run.
///
/// # Panics
/// When verbs disagree on what is legal, or what is printed is not read as the same.
pub fn exercise_target(target: &dyn Target, file: &File, settings: &[(&str, &str)]) {
    let is_little = |program: &dyn quincunx_contract::Program| {
        program.stats().cycles.is_none_or(|cycles| cycles < 1 << 16)
    };
    for preset in target.info().presets {
        let arch = target.arch(&ArchSource::Preset(preset.name.to_owned()));
        let arch = arch.expect("a preset is a machine");
        let files = std::slice::from_ref(file);
        quincunx_testkit::exercise(target, &*arch, settings, files, &is_little);
    }
}

/// Everything that can be done with an npu program that a reader has accepted, short of running it.
///
/// # Panics
/// When what is printed is not read again.
pub fn exercise_npu(program: &quincunx_npu::program::Program) {
    use quincunx_npu::{NpuArch, binary, text, time, verify, work};
    let Ok(arch) = NpuArch::preset("gemini") else { return };
    let printed = text::print(program);
    let source = quincunx_diag::SourceId(0);
    let again = text::read(&printed, source, text::Schema::standard(), true);
    assert!(again.is_ok_and(|read| text::print(&read.program) == printed));
    let _ = binary::write(program, &arch, true);
    let resolved = [work::resolve(program)];
    time::durations(program, &resolved[0], &arch, time::Model::PHYSICAL);
    verify::verify(&verify::Subject { programs: &[program], work: &resolved, arch: &arch });
}
