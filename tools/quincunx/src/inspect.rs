//! `inspect`: what is in a file, whatever it is.

use crate::detect::{FileKind, detect};
use crate::failure::sources_of;
use crate::formats::Format;
use crate::model::{Look, look};
use crate::open::{from_program, read};
use crate::time::by_segment;
use crate::{
    Executable, Failure, InputFile, Opened, Outcome, Setup, Share, is_quantised, open_folder,
    with_companions,
};
use quincunx_contract::folder::{DESCRIPTION, Folder, PlanRow};
use quincunx_contract::{Document, File, Grid, Log, Numerics, Target, Verb};
use quincunx_diag::{Diagnostic, Place, Result, Sources, suggestion};
use quincunx_graph::Graph;
use quincunx_import::{DeclaredInput, Options, Survey};
use quincunx_report::{Cell, Column, Heading, Report, Table};
use quincunx_tensor::{DType, Tensor, Tensors, npy, show_shape};
use std::collections::BTreeMap;
use std::path::Path;

/// What was found, with warnings of the readers.
pub struct Inspection {
    /// The result.
    pub report: Report,
    /// Statistics of programs, which are too long to be shown always.
    pub statistics: Vec<Table>,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
    /// Texts for the spans of warnings.
    pub sources: Sources,
}

impl From<Report> for Inspection {
    fn from(report: Report) -> Self {
        Inspection { report, statistics: Vec::new(), warnings: Vec::new(), sources: Sources::new() }
    }
}

/// Which tables of a program are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Those that are shown always.
    Brief,
    /// Statistics as well, which take a while.
    All,
}

impl Inspection {
    /// The parts with these names alone; all of them for `all`.
    ///
    /// # Errors
    /// `Q0617` for a name that none has.
    pub fn select(self, names: &[String]) -> Result<Inspection> {
        let whole = self.statistics.into_iter().fold(self.report, Report::table);
        let report = select(whole, names)?;
        Ok(Inspection { report, statistics: Vec::new(), ..self })
    }
}

/// The parts of a report with these names alone; all of them for `all`, or without names.
///
/// # Errors
/// `Q0617` for a name that none has.
pub fn select(report: Report, names: &[String]) -> Result<Report> {
    if names.is_empty() || names.iter().any(|name| name == "all") {
        return Ok(report);
    }
    let keys: Vec<String> = report.keys().map(str::to_owned).collect();
    if let Some(unknown) = names.iter().find(|&name| !keys.contains(name)) {
        let known = keys.iter().map(String::as_str).chain(["all"]);
        return Err(Diagnostic::usage("Q0617", format!("there is no table {unknown:?}"))
            .help(suggestion(unknown, "tables", known)));
    }
    Ok(report.only(|key| names.iter().any(|name| name == key)))
}

/// The tables of all programs that a verb shows; none of a program that has no such tables because it
/// is not legal, which `verify` says.
pub fn views(executable: &Executable, verb: Verb) -> Vec<Table> {
    let programs = executable.programs();
    let tables = programs.map(|(s, p)| (s.name.as_str(), p.shown_by(verb).unwrap_or_default()));
    by_segment(tables.collect())
}

/// Inspects a program folder. `options` replace the stored ones.
///
/// # Errors
/// As [`open_folder`].
pub fn folder(
    path: &Path,
    targets: &[&dyn Target],
    options: &[(String, String)],
    depth: Depth,
) -> Outcome<Inspection> {
    if !Folder::is_at(path) {
        return Err(Diagnostic::invalid("Q0615", "the folder is not a program folder")
            .in_file(path.display().to_string())
            .help(format!("a program folder has a file {DESCRIPTION}"))
            .into());
    }
    let opened = open_folder(path, targets, options)?;
    let mut summary = Table::properties("summary");
    summary.property("file", "program folder");
    for Share { setup, .. } in &opened.machines {
        summary.property("target", setup.name());
        summary.property("machine", setup.arch.name());
    }
    let executable = &opened.executable;
    add_stats(&mut summary, executable);
    let report = Report::new().table(summary).table(stages(executable));
    let report = report.table(ports(executable)).table(plan_table(&opened.plan));
    let report = views(executable, Verb::Inspect).into_iter().fold(report, Report::table);
    let statistics = statistics_of(executable, depth);
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let report = report.headed(heading(&name).on(opened.machine()));
    let Opened { warnings, sources, .. } = opened;
    Ok(Inspection { report, statistics, warnings, sources })
}

/// Inspects a file: a model, data, or a program of any target. With a setup, it is a program of
/// that target.
///
/// # Errors
/// `Q0615` when it is nothing known; otherwise what the reader of its format says.
pub fn file(
    file: &InputFile,
    targets: &[&dyn Target],
    setup: Option<Setup<'_>>,
    options: &Options,
    depth: Depth,
) -> Outcome<Inspection> {
    match (setup, detect(file, targets)) {
        (Some(setup), _) => native(file, &setup, targets, depth),
        (None, FileKind::Program(target)) => {
            native(file, &Setup::default_for(target)?, targets, depth)
        }
        (None, kind) => {
            let inspection = without_machine(file, kind, options)?;
            let report = inspection.report.headed(heading(file.to_file().base_name()));
            Ok(Inspection { report, ..inspection })
        }
    }
}

fn heading(subject: &str) -> Heading {
    Heading::new("Contents").of(subject)
}

/// What belongs to no machine.
fn without_machine(file: &InputFile, kind: FileKind<'_>, options: &Options) -> Outcome<Inspection> {
    let named = |problem: Diagnostic| problem.name_file(&file.name);
    match kind {
        FileKind::Npy => {
            let array = npy::read_npy(file.bytes.clone()).map_err(named)?;
            Ok(arrays("npy array", &Tensors::from([(String::new(), array)])).into())
        }
        FileKind::Npz => {
            let tensors = npy::read_npz(file.bytes.clone()).map_err(named)?;
            Ok(arrays("npz archive", &tensors).into())
        }
        FileKind::Array(format) => {
            let array = format.read(&file.bytes, DType::F64).map_err(named)?;
            let what = match format {
                Format::Csv => "rows of decimals",
                Format::Picture(_) => "grey picture",
            };
            Ok(arrays(what, &Tensors::from([(String::new(), array)])).into())
        }
        FileKind::Model => Ok(match look(file, options)? {
            Look::Native(model) => {
                with_graph(summary_of(model.format, None, &model.graph), &model.graph).into()
            }
            Look::Network(survey) => network(*survey, &file.name),
        }),
        FileKind::Program(_) | FileKind::Unknown => {
            Err(Diagnostic::invalid("Q0615", "the format of the file is not known")
                .in_file(&file.name)
                .help("models, .npy, .npz, program folders and programs of the targets are known")
                .into())
        }
    }
}

/// A program with the files that belong to it, or another file of the machine.
fn native(
    file: &InputFile,
    setup: &Setup<'_>,
    targets: &[&dyn Target],
    depth: Depth,
) -> Outcome<Inspection> {
    let whole = file.to_file();
    if let Some(document) = document(&whole, setup)? {
        return Ok(describe(document, setup, &[whole]));
    }
    let files = with_companions(vec![file.clone()], targets)?;
    program(&files.iter().map(InputFile::to_file).collect::<Vec<_>>(), setup, depth)
}

/// What is in a file of the machine that is not a program; `None` for any other file.
///
/// # Errors
/// Everything that keeps it from being read.
pub fn document(file: &File, setup: &Setup<'_>) -> Outcome<Option<Document>> {
    setup.target.document(file, &*setup.arch, &setup.options).map_err(|problems| {
        Failure::in_files(problems, std::slice::from_ref(file)).name_file(&file.name)
    })
}

fn describe(document: Document, setup: &Setup<'_>, files: &[File]) -> Inspection {
    let mut summary = Table::properties("summary");
    summary.property("file", document.kind);
    summary.property("target", setup.name());
    let report = document.tables.into_iter().fold(Report::new().table(summary), Report::table);
    let report = document.texts.into_iter().fold(report, |r, (key, text)| r.text(key, text));
    Inspection {
        report: report.headed(heading_of(setup, files)),
        statistics: Vec::new(),
        warnings: document.problems,
        sources: sources_of(files),
    }
}

/// The heading for native files.
fn heading_of(setup: &Setup<'_>, files: &[File]) -> Heading {
    heading(files.first().map_or("", File::base_name)).on(setup.machine())
}

/// Inspects native files of one program.
///
/// # Errors
/// Everything its target says about them.
pub fn program(files: &[File], setup: &Setup<'_>, depth: Depth) -> Outcome<Inspection> {
    let mut log = Log::default();
    let program = read(setup, files, None, &mut log)?;
    let executable = from_program(program, Numerics::default());
    let mut summary = Table::properties("summary");
    summary.property("file", "program");
    summary.property("target", setup.name());
    add_stats(&mut summary, &executable);
    for (name, value) in executable.programs().flat_map(|(_, p)| p.stats().figures) {
        summary.property(name, value);
    }
    let report = Report::new().table(summary).table(ports(&executable));
    let report = views(&executable, Verb::Inspect).into_iter().fold(report, Report::table);
    let statistics = statistics_of(&executable, depth);
    let report = report.headed(heading_of(setup, files));
    Ok(Inspection { report, statistics, warnings: log.diagnostics, sources: sources_of(files) })
}

fn statistics_of(executable: &Executable, depth: Depth) -> Vec<Table> {
    if depth == Depth::All { views(executable, Verb::Table) } else { Vec::new() }
}

fn add_stats(summary: &mut Table, executable: &Executable) {
    let stats = executable.stats();
    summary.property("instructions", stats.instructions);
    summary.property("bytes", stats.bytes);
    summary.property("cycles", stats.cycles);
}

fn stages(executable: &Executable) -> Table {
    let columns = ["segment", "place", "reads", "computes"].map(Column::text).to_vec();
    let mut table = Table::new("segments", columns);
    for stage in &executable.stages {
        let place = match stage.body {
            crate::Body::Host(_) => "host",
            crate::Body::Device { .. } => "device",
        };
        table.push(vec![
            stage.name.as_str().into(),
            place.into(),
            stage.inputs.join(", ").into(),
            stage.outputs.join(", ").into(),
        ]);
    }
    table
}

fn ports(executable: &Executable) -> Table {
    let columns = ["segment", "port", "direction", "shape", "grid"].map(Column::text).to_vec();
    let mut table = Table::new("ports", columns);
    for (stage, program) in executable.programs() {
        let interface = program.interface();
        let inputs = interface.inputs.iter().map(|port| (port, "in"));
        let outputs = interface.outputs.iter().map(|port| (port, "out"));
        for (port, direction) in inputs.chain(outputs) {
            table.push(vec![
                stage.name.as_str().into(),
                port.name.as_str().into(),
                direction.into(),
                show_shape(&port.shape).into(),
                match &port.grid {
                    Grid::Real => Cell::Empty,
                    grid => grid.to_string().into(),
                },
            ]);
        }
    }
    table
}

fn plan_table(plan: &[PlanRow]) -> Table {
    let columns = vec![
        Column::text("node"),
        Column::text("op"),
        Column::text("segment"),
        Column::text("place"),
        Column::number("macs"),
        Column::text("reason"),
    ];
    let mut table = Table::new("plan", columns);
    for row in plan {
        table.push(vec![
            row.node.as_str().into(),
            row.op.as_str().into(),
            row.segment.as_str().into(),
            row.place.name().into(),
            row.macs.into(),
            row.reason.clone().into(),
        ]);
    }
    table
}

/// A network, also one of which parts could not be read.
fn network(survey: Survey, file: &str) -> Inspection {
    let graph = &survey.graph;
    let mut summary = summary_of(survey.format.name(), Some(&survey), graph);
    if !survey.problems.is_empty() {
        summary.property("nodes_not_read", survey.unread.values().sum::<u64>());
    }
    let report = Report::new().table(summary).table(inputs(&survey.inputs));
    let report = report.table(operators(graph));
    let report = match survey.problems.is_empty() {
        true => report,
        false => report.table(unread(&survey)).table(reasons(&survey)),
    };
    let report = report.text("graph", graph.to_string());
    let advice = survey.advice().map(|advice| advice.in_file(file));
    Inspection { warnings: advice.into_iter().collect(), ..report.into() }
}

/// What a graph holds. Numbers about constants are those of the file where not all of it was read.
fn summary_of(format: &str, survey: Option<&Survey>, graph: &Graph) -> Table {
    let macs: u64 = graph.nodes().map(|(_, node)| graph.macs(node)).sum();
    let constants = graph.values().filter_map(|(_, value)| value.constant.as_ref());
    let read: u64 = constants.map(|c| c.tensor.len() as u64).sum();
    let mut summary = Table::properties("summary");
    summary.property("file", format);
    summary.property("name", graph.name.as_str());
    if let Some(survey) = survey.filter(|survey| !survey.opsets.is_empty()) {
        let opset = |(name, version): &(String, i64)| match name.as_str() {
            "" => version.to_string(),
            domain => format!("{domain} {version}"),
        };
        let opsets: Vec<String> = survey.opsets.iter().map(opset).collect();
        summary.property("opset", opsets.join(", "));
    }
    summary.property("nodes", graph.nodes().len());
    summary.property("parameters", survey.and_then(|s| s.parameters).unwrap_or(read));
    summary.property("macs", macs);
    summary.property("quantised", if is_quantised(graph) { "yes" } else { "no" });
    summary
}

fn inputs(inputs: &[DeclaredInput]) -> Table {
    let columns = ["input", "type", "declared", "shape"].map(Column::text).to_vec();
    let mut table = Table::new("inputs", columns);
    for input in inputs {
        let shape = show_shape(&input.shape);
        table.push(vec![
            input.name.as_str().into(),
            input.dtype.name().into(),
            input.declared.as_str().into(),
            if input.fixed { format!("{shape} constant") } else { shape }.into(),
        ]);
    }
    table
}

/// The operators that were not read, in the words of the file.
fn unread(survey: &Survey) -> Table {
    let columns = vec![Column::text("op"), Column::number("nodes")];
    let mut table = Table::new("not_read", columns);
    for (operator, &nodes) in &survey.unread {
        table.push(vec![operator.as_str().into(), nodes.into()]);
    }
    table
}

/// Why nodes were not read: a row for each operator and reason, with the first node.
fn reasons(survey: &Survey) -> Table {
    let columns = vec![
        Column::text("op"),
        Column::number("problems"),
        Column::text("first"),
        Column::text("reason"),
    ];
    let mut rows: Vec<(&str, usize, &str, &str)> = Vec::new();
    for problem in survey.problems.iter().filter(|problem| problem.is_error()) {
        let (op, node) = match problem.place() {
            Some(Place::Node { name, op, .. }) => (op.as_str(), name.as_str()),
            _ => ("", ""),
        };
        match rows.iter_mut().find(|row| (row.0, row.3) == (op, problem.message())) {
            Some(row) => row.1 += 1,
            None => rows.push((op, 1, node, problem.message())),
        }
    }
    let mut table = Table::new("unsupported", columns);
    for (op, count, first, reason) in rows {
        table.push(vec![op.into(), count.into(), first.into(), reason.into()]);
    }
    table
}

/// A graph after its summary.
fn with_graph(summary: Table, graph: &Graph) -> Report {
    Report::new().table(summary).table(operators(graph)).text("graph", graph.to_string())
}

fn operators(graph: &Graph) -> Table {
    let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (_, node) in graph.nodes() {
        let entry = counts.entry(node.op.name()).or_default();
        entry.0 += 1;
        entry.1 += graph.macs(node);
    }
    let columns = vec![Column::text("op"), Column::number("nodes"), Column::number("macs")];
    let mut table = Table::new("operators", columns);
    for (op, (nodes, macs)) in counts {
        table.push(vec![op.into(), nodes.into(), macs.into()]);
    }
    table
}

fn arrays(what: &str, tensors: &Tensors) -> Report {
    let mut summary = Table::properties("summary");
    summary.property("file", what);
    summary.property("arrays", tensors.len());
    let columns = vec![
        Column::text("array"),
        Column::text("type"),
        Column::text("shape"),
        Column::number("min"),
        Column::number("max"),
    ];
    let mut table = Table::new("rows", columns);
    for (name, tensor) in tensors {
        let (min, max) = extremes(tensor).unzip();
        table.push(vec![
            name.as_str().into(),
            tensor.dtype().name().into(),
            show_shape(tensor.shape()).into(),
            number(min),
            number(max),
        ]);
    }
    Report::new().table(summary).table(table)
}

/// Lowest and highest number that is not NaN.
fn extremes(tensor: &Tensor) -> Option<(f64, f64)> {
    let values = tensor.to_f64().into_iter().filter(|value| !value.is_nan());
    values.fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((value.min(low), value.max(high)))
    })
}

fn number(value: Option<f64>) -> Cell {
    value.map_or(Cell::Empty, Cell::Number)
}
