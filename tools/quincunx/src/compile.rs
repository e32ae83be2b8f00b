//! `compile`: a model becomes a program for a machine, with the host for what is left.

use crate::executable::{Body, Executable, Goldens, Host, Stage, stats};
use crate::model::{Prepared, prepare, sound};
use crate::ranges::Range;
use crate::{Calibration, InputSpec, Model, Outcome, Setup};
use quincunx_contract::folder::{
    self, ArchRecord, Folder, MachineRecord, PlanRow, SegmentFiles, ValueRecord,
};
use quincunx_contract::plan::{Built, Division, Place, Plan, Row, Segment};
use quincunx_contract::{Clipped, Compiled, File, Log, Program, Verb, compiler_of};
use quincunx_diag::{Diagnostic, Result, did_you_mean};
use quincunx_graph::execute::{Keep, float};
use quincunx_graph::passes::{Ranges, Scaled};
use quincunx_graph::{Graph, ValueId};
use quincunx_import::{ExportOptions, Options as ReadOptions};
use quincunx_report::{Cell, Column, Table};
use quincunx_tensor::{Tensors, npy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name of the model of a host segment in a program folder.
pub(crate) const HOST_MODEL: &str = "model.onnx";

/// What to compile.
pub struct Job<'a> {
    /// The model.
    pub model: &'a Model,
    /// The machine.
    pub setup: &'a Setup<'a>,
    /// A node that the machine does not take is an error.
    pub strict: bool,
    /// Batch normalisations are folded into the layers before them.
    pub fold_batch_norm: bool,
    /// Data to quantise a float model with.
    pub calibration: Calibration<'a>,
    /// Passes after which a text form is kept; `all` keeps every one.
    pub dump_after: Vec<String>,
    /// Graphs are checked behind every pass, and the programs by the rules of their machine.
    pub verify_each: bool,
}

impl<'a> Job<'a> {
    /// A job with defaults: not strict, batch normalisations folded.
    pub fn new(model: &'a Model, setup: &'a Setup<'a>) -> Self {
        Job {
            model,
            setup,
            strict: false,
            fold_batch_norm: true,
            calibration: Calibration::default(),
            dump_after: Vec::new(),
            verify_each: false,
        }
    }
}

/// A divided graph and, if that went well, its programs.
pub struct Compilation {
    /// The graph that was divided: folded and quantised.
    pub graph: Graph,
    /// The values of it that are those of the model times a power of two, by name.
    pub scaled: BTreeMap<String, Scaled>,
    /// Who executes what, and why. There even when compiling fails.
    pub plan: Plan,
    /// What native files are called where the machine's ecosystem has a rule for it.
    pub file_stem: Option<String>,
    /// What the passes told.
    pub log: Log,
    /// The numbers of values against those of the machine, if [`Calibration::report`] asks for it.
    pub ranges: Vec<Range>,
    /// How the model was prepared.
    pub preparation: Preparation,
    /// The programs.
    pub result: Outcome<Executable>,
}

/// How a model became the graph that was compiled. A program folder keeps it, so that `verify`
/// prepares the model in the same way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preparation {
    /// Which part of it was read, in which shapes.
    #[serde(default)]
    pub reading: ReadOptions,
    /// Batch normalisations were folded.
    pub fold_batch_norm: bool,
    /// The lowest and the highest number of every value, by which it was quantised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<BTreeMap<String, (f64, f64)>>,
}

impl Preparation {
    /// The ranges, for [`Calibration::known`].
    pub fn ranges(&self) -> Option<Ranges> {
        self.calibrated.clone().map(|ranges| ranges.into_iter().collect())
    }
}

/// The golden models of an executable whose machines were given such plans.
///
/// # Errors
/// Numerics of another graph.
pub(crate) fn goldens(
    executable: &Executable,
    machines: &[(&Plan, &Setup<'_>)],
) -> Result<Goldens> {
    executable.goldens(|stage, numerics| {
        let bug = || Diagnostic::bug("a device stage has no graph for its golden model");
        let (plan, setup) = machines.get(stage.machine).ok_or_else(bug)?;
        let graph = plan.segment(&stage.name).ok_or_else(bug)?;
        compiler_of(setup.target)?.prepare(graph, &*setup.arch, numerics)
    })
}

/// Prepares a model and divides it as a program folder says that it was; nothing is compiled. Also the
/// values of it that are those of the model times a power of two. `None` when the folder is of another model.
///
/// # Errors
/// As [`compile`].
pub(crate) fn divide_as_stored(
    job: &Job<'_>,
    rows: &[PlanRow],
) -> Outcome<Option<(Plan, BTreeMap<String, Scaled>)>> {
    let Setup { target, ref arch, ref options } = *job.setup;
    let arch = &**arch;
    let numbers = compiler_of(target)?.numbers(arch, options);
    let mut log = Log::default();
    let Prepared { graph, scaled, .. } =
        prepare(job.model, job.fold_batch_norm, &numbers, job.calibration, &mut log)?;
    let plan = Division { graph: &graph, target, arch, options }.as_stored(rows)?;
    Ok(plan.map(|plan| (plan, scaled)))
}

/// Compiles a model.
///
/// # Errors
/// `Q0520` for a target without a compiler; a model that cannot be prepared or divided. Failures of the machine's own compiler are in
/// [`Compilation::result`], so that the plan can be shown before them.
pub fn compile(job: &Job<'_>) -> Outcome<Compilation> {
    let setup = job.setup;
    let compiler = compiler_of(setup.target)?;
    let (dump_after, verify_each) = (job.dump_after.clone(), job.verify_each);
    let mut log = Log { dump_after, verify_each, ..Log::default() };
    let numbers = compiler.numbers(&*setup.arch, &setup.options);
    let prepared = prepare(job.model, job.fold_batch_norm, &numbers, job.calibration, &mut log)?;
    let (plan, result) = build(&prepared, setup, job.strict, &mut log)?;
    let Prepared { graph, calibrated, ranges, scaled, .. } = prepared;
    check_dump_names(&log)?;
    let file_stem = compiler.file_stem(&job.model.file_name(), &*setup.arch);
    let calibrated = calibrated.map(|ranges| ranges.into_iter().collect());
    let reading = job.model.reading.clone();
    let preparation = Preparation { reading, fold_batch_norm: job.fold_batch_norm, calibrated };
    Ok(Compilation { graph, scaled, plan, file_stem, log, ranges, preparation, result })
}

/// The text form after a pass. What comes behind it counts for nothing: neither is it told of, nor does
/// it matter whether it works.
///
/// # Errors
/// `Q0610` for a pass that there is not; as [`compile`] for what comes before it.
pub fn stop_after(job: &Job<'_>, pass: &str) -> Outcome<String> {
    let setup = job.setup;
    let (dump_after, verify_each) = (vec![pass.to_owned()], job.verify_each);
    let mut log = Log { dump_after, verify_each, ..Log::default() };
    let numbers = compiler_of(setup.target)?.numbers(&*setup.arch, &setup.options);
    let prepared = prepare(job.model, job.fold_batch_norm, &numbers, job.calibration, &mut log);
    if log.dumps.is_empty() {
        let built = build(&prepared?, setup, job.strict, &mut log);
        if log.dumps.is_empty() {
            // What failed before it; without a failure there is no such pass.
            let (_, result) = built?;
            result?;
            check_dump_names(&log)?;
        }
    }
    Ok(log.dumps.into_iter().map(|(_, text)| text).collect())
}

/// Divides a graph that is ready for the machine, and compiles its segments.
///
/// # Errors
/// A graph that cannot be divided; failures of the machine's own compiler are in the result.
pub(crate) fn build(
    prepared: &Prepared,
    setup: &Setup<'_>,
    strict: bool,
    log: &mut Log,
) -> Outcome<(Plan, Outcome<Executable>)> {
    let (target, arch, options) = (setup.target, &*setup.arch, &setup.options);
    let graph = &prepared.graph;
    let division = Division { graph, target, arch, options };
    let Built { plan, programs } = division.build(prepared.refused.clone(), strict, log)?;
    plan.segments.iter().try_for_each(|segment| sound(log, "plan", &segment.graph))?;
    let result = match programs {
        Ok(programs) => {
            let executable = executable(graph, &plan, programs)?;
            if log.verify_each {
                legal(&executable)?;
            }
            log.diagnostics.extend(executable.clipped().map(Clipped::warning));
            Ok(executable)
        }
        Err(problems) => Err(problems.into()),
    };
    Ok((plan, result))
}

/// Refuses programs that break rules of their machine, which is a bug of its compiler.
fn legal(executable: &Executable) -> Outcome<()> {
    let problems = executable.programs().flat_map(|(stage, program)| {
        let told = |problem: Diagnostic| problem.with_note(format!("in segment {}", stage.name));
        program.illegal().into_iter().map(told).collect::<Vec<_>>()
    });
    match problems.collect::<Vec<_>>() {
        none if none.is_empty() => Ok(()),
        problems => Err(problems.into()),
    }
}

/// The stages of a plan; `programs` are those of its segments.
fn executable(graph: &Graph, plan: &Plan, programs: Vec<Option<Compiled>>) -> Result<Executable> {
    let stage = |(segment, program): (&Segment, Option<Compiled>)| {
        let names =
            |ids: &[ValueId]| ids.iter().map(|&id| segment.graph[id].name.clone()).collect();
        Stage {
            name: segment.name.clone(),
            machine: 0,
            inputs: names(segment.graph.inputs()),
            outputs: names(segment.graph.outputs()),
            body: match program {
                Some(Compiled { program, numerics }) => Body::Device { program, numerics },
                None => Body::Host(Box::new(Host::new(segment.graph.clone()))),
            },
        }
    };
    Ok(Executable {
        inputs: InputSpec::of(graph),
        outputs: plan.outputs.clone(),
        constants: constant_outputs(graph)?,
        stages: plan.segments.iter().zip(programs).map(stage).collect(),
    })
}

/// Outputs that no node computes, as numbers.
pub(crate) fn constant_outputs(graph: &Graph) -> Result<Tensors> {
    let mut constants = Graph::new("constants");
    for &id in graph.outputs() {
        let value = &graph[id];
        if let Some(constant) = &value.constant
            && constants.value_named(&value.name).is_none()
        {
            let id = constants.add_constant(&value.name, constant.clone())?;
            constants.add_output(id);
        }
    }
    float(&constants, &Tensors::new(), Keep::Outputs)
}

/// A pass name nobody knows is a typing error.
fn check_dump_names(log: &Log) -> Result<()> {
    for wanted in &log.dump_after {
        let known = || log.passes.iter().map(|&(name, _)| name).chain(["all"]);
        if !known().any(|name| name == wanted) {
            let mut names: Vec<&str> = known().collect();
            names.dedup();
            let help = did_you_mean(wanted, known())
                .unwrap_or_else(|| format!("passes are: {}", names.join(", ")));
            return Err(
                Diagnostic::usage("Q0610", format!("no pass is named {wanted:?}")).help(help)
            );
        }
    }
    Ok(())
}

/// Rows of a plan as a table: one row per node.
pub fn explain(rows: &[Row]) -> Table {
    explain_with(rows, None, |_| Cell::Empty)
}

/// The same with a further column.
pub(crate) fn explain_with(
    rows: &[Row],
    column: Option<Column>,
    cell: impl Fn(&Row) -> Cell,
) -> Table {
    let columns = [
        Column::text("node"),
        Column::text("op"),
        Column::text("segment"),
        Column::text("place"),
        Column::number("macs"),
        Column::number("share"),
        Column::text("reason"),
    ];
    let more = column.is_some();
    let mut table = Table::new("rows", columns.into_iter().chain(column).collect());
    for row in rows {
        let cells = [
            row.node.as_str().into(),
            row.op.into(),
            row.segment.as_str().into(),
            row.place.name().into(),
            row.macs.into(),
            Cell::Share(row.share),
            row.reason.clone().into(),
        ];
        table.push(cells.into_iter().chain(more.then(|| cell(row))).collect());
    }
    table
}

/// What became of a model, as properties: the machine, its share of the work, the size of the
/// programs and how fast the machine runs them. Host segments are not timed.
pub fn summary(plan: &Plan, executable: &Executable, setup: &Setup<'_>) -> Table {
    summary_of(plan, executable.programs().collect(), setup)
}

/// The same of the programs of one of several machines.
pub(crate) fn summary_of(
    plan: &Plan,
    programs: Vec<(&Stage, &dyn Program)>,
    setup: &Setup<'_>,
) -> Table {
    let device = plan.rows.iter().filter(|row| row.place == Place::Device);
    let segments = plan.segments.iter().filter(|segment| segment.place == Place::Device).count();
    let stats = stats(programs.iter().copied());
    let mut table = Table::properties("summary");
    table.property("target", setup.name());
    table.property("machine", setup.arch.name());
    table.property("macs", plan.total_macs());
    table.property("macs on the machine", device.map(|row| row.macs).sum::<u64>());
    table.property(
        "share of macs",
        (plan.total_macs() > 0).then(|| Cell::Share(plan.device_share())),
    );
    table.property("segments on the machine", segments);
    table.property("segments on the host", plan.segments.len() - segments);
    table.property("instructions", stats.instructions);
    table.property("bytes", stats.bytes);
    table.property("cycles", stats.cycles);
    table.property("microseconds", stats.seconds().map(|seconds| Cell::Brief(seconds * 1e6)));
    table.property("images per second", stats.rate().map(Cell::Brief));
    let tables: Vec<_> = programs
        .into_iter()
        .map(|(stage, program)| {
            (stage.name.as_str(), program.shown_by(Verb::Compile).unwrap_or_default())
        })
        .collect();
    let several = tables.len() > 1;
    for (segment, tables) in tables {
        let prefix = if several { format!("{segment}: ") } else { String::new() };
        tables.into_iter().for_each(|more| table.append_properties(&prefix, more));
    }
    table
}

/// What keeps programs from running at the machine's clock.
pub fn clock_warnings(executable: &Executable) -> Vec<Diagnostic> {
    let several = executable.programs().count() > 1;
    let of = |(stage, program): (&Stage, &dyn Program)| {
        let warnings = program.clock_warnings().into_iter();
        let placed = warnings.map(|warning| match several {
            true => warning.with_note(format!("in segment {}", stage.name)),
            false => warning,
        });
        placed.collect::<Vec<_>>()
    };
    executable.programs().flat_map(of).collect()
}

/// Seconds of every pass as a table.
pub fn timings(log: &Log) -> Table {
    let columns =
        vec![Column::text("pass"), Column::number("seconds").unit("s"), Column::text("result")];
    let mut table = Table::new("timings", columns);
    for ((name, summary), seconds) in log.passes.iter().zip(&log.seconds) {
        table.push(vec![(*name).into(), Cell::Real(*seconds, 6), summary.as_str().into()]);
    }
    table
}

/// The program folder of a compiled model.
///
/// # Errors
/// A program or host segment that cannot be written as files.
pub fn to_folder(
    compilation: &Compilation,
    executable: &Executable,
    setup: &Setup<'_>,
) -> Outcome<Folder> {
    let machine = machine_record(compilation, setup, Vec::new());
    let stem = compilation.file_stem.as_deref();
    folder(&compilation.graph, executable, &compilation.plan.rows, vec![machine], |_| (setup, stem))
}

/// What a folder keeps of a machine that was given these nodes of the model.
pub(crate) fn machine_record(
    compilation: &Compilation,
    setup: &Setup<'_>,
    nodes: Vec<String>,
) -> MachineRecord {
    MachineRecord {
        target: setup.name().to_owned(),
        arch: ArchRecord::of(&*setup.arch),
        options: folder::option_values(&setup.options),
        preparation: serde_json::json!(compilation.preparation),
        nodes,
    }
}

/// The program folder of an executable that computes what a graph does; `machine_of` gives the machine
/// of a stage and what its files are called.
pub(crate) fn folder<'s>(
    graph: &Graph,
    executable: &Executable,
    rows: &[Row],
    machines: Vec<MachineRecord>,
    machine_of: impl Fn(&Stage) -> (&'s Setup<'s>, Option<&'s str>),
) -> Outcome<Folder> {
    let record = |ids: &[ValueId]| ids.iter().map(|&id| ValueRecord::of(graph, id)).collect();
    let files = |stage: &Stage| {
        let (setup, stem) = machine_of(stage);
        segment_files(stage, setup.target.info().folder_kind, stem.unwrap_or("program"))
    };
    let constants = match executable.constants.is_empty() {
        true => None,
        false => Some(File::new(folder::CONSTANTS, npy::write_npz(&executable.constants)?)),
    };
    Ok(Folder {
        machines,
        plan: folder::plan_rows(rows),
        inputs: record(graph.inputs()),
        outputs: record(graph.outputs()),
        segments: executable.stages.iter().map(files).collect::<Result<_>>()?,
        constants,
    })
}

fn segment_files(stage: &Stage, kind: &str, stem: &str) -> Result<SegmentFiles> {
    let (place, files, interface, numerics) = match &stage.body {
        Body::Host(host) => {
            let bytes = quincunx_import::write_onnx(&host.graph, &ExportOptions::default())?;
            (Place::Host, vec![File::new(HOST_MODEL, bytes)], None, Default::default())
        }
        Body::Device { program, numerics } => {
            let files = program.emit(program.folder_kind().unwrap_or(kind), stem)?;
            (Place::Device, files, Some(program.interface().clone()), numerics.clone())
        }
    };
    Ok(SegmentFiles {
        name: stage.name.clone(),
        place,
        inputs: stage.inputs.clone(),
        outputs: stage.outputs.clone(),
        files,
        interface,
        numerics,
        machine: stage.machine,
    })
}
