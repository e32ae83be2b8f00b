//! Opening programs: program folders and native files.

use crate::compile::{HOST_MODEL, Preparation};
use crate::detect::arrays_or_model;
use crate::executable::{Body, Executable, Host, Stage};
use crate::registry::find_among;
use crate::{Failure, InputSpec, Outcome, Setup};
use quincunx_contract::folder::{
    DESCRIPTION, Folder, MachineRecord, PlanRow, SegmentFiles, ValueRecord,
};
use quincunx_contract::plan::Place;
use quincunx_contract::{
    ArchSource, Clipped, File, Interface, Log, Numerics, Program, Sample, Target,
};
use quincunx_diag::{Diagnostic, Result, Sources};
use quincunx_graph::{Graph, ValueId};
use quincunx_import::Options as ReadOptions;
use quincunx_report::Heading;
use quincunx_tensor::{DType, npy, show_shape};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;

/// A machine with its share of a model.
pub struct Share<'a> {
    /// The machine.
    pub setup: Setup<'a>,
    /// How the model was prepared; `None` for native files.
    pub preparation: Option<Preparation>,
    /// Names of the nodes of the model that it was given; none stand for all.
    pub nodes: Vec<String>,
}

impl<'a> Share<'a> {
    /// A machine for native files.
    fn of_natives(setup: Setup<'a>) -> Self {
        Share { setup, preparation: None, nodes: Vec::new() }
    }
}

/// An opened program.
///
/// Invariant: there is a machine, and every stage is of one.
pub struct Opened<'a> {
    /// The machines it is for; several where a model was split.
    pub machines: Vec<Share<'a>>,
    /// What runs.
    pub executable: Executable,
    /// The plan; empty for native files.
    pub plan: Vec<PlanRow>,
    /// Warnings of the readers.
    pub warnings: Vec<Diagnostic>,
    /// Texts for the spans of warnings.
    pub sources: Sources,
}

impl Opened<'_> {
    /// Names of the machines.
    pub fn machine(&self) -> String {
        self.machines.iter().map(|share| share.setup.machine()).collect::<Vec<_>>().join(", ")
    }

    /// The heading of a page about it.
    pub fn heading(&self, title: &str, subject: &str) -> Heading {
        Heading::new(title).of(subject).on(self.machine())
    }

    /// Rows of the plan of a machine.
    pub fn plan_of(&self, machine: usize) -> Vec<PlanRow> {
        let stages = self.executable.stages.iter().filter(|stage| stage.machine == machine);
        let names: BTreeSet<&str> = stages.map(|stage| stage.name.as_str()).collect();
        self.plan.iter().filter(|row| names.contains(row.segment.as_str())).cloned().collect()
    }
}

/// Opens a program folder. `options` replace the stored ones; of several machines each takes those
/// that it has.
///
/// # Errors
/// A folder that is malformed, for an unknown target, or with files its target cannot read.
pub fn open_folder<'a>(
    path: &Path,
    targets: &[&'a dyn Target],
    options: &[(String, String)],
) -> Outcome<Opened<'a>> {
    let folder = Folder::read(path)?;
    let machines = shares(&folder, path, targets, options)?;
    let mut log = Log::default();
    let stages = folder.segments.iter().map(|segment| stage(&folder, &machines, segment, &mut log));
    let stages = stages.collect::<Outcome<Vec<_>>>()?;
    let sources = texts(&folder);
    let constants = match &folder.constants {
        Some(file) => npy::read_npz(file.bytes.clone()).map_err(|p| p.name_file(&file.name))?,
        None => Default::default(),
    };
    let inputs = folder.inputs.iter().map(|value| {
        Ok(InputSpec {
            name: value.name.clone(),
            dtype: value.dtype()?,
            shape: value.shape.clone(),
            sample: Sample::Fractions,
        })
    });
    let executable = Executable {
        inputs: inputs.collect::<Result<_>>()?,
        outputs: folder.outputs.iter().map(|value| value.name.clone()).collect(),
        constants,
        stages,
    };
    let name = path.join(DESCRIPTION).display().to_string();
    check_outputs(&executable).map_err(|problem| problem.name_file(&name))?;
    check_values(&folder, &executable).map_err(|problem| problem.name_file(&name))?;
    check_borders(&executable).map_err(|problem| problem.name_file(&name))?;
    let mut warnings = log.diagnostics;
    warnings.extend(executable.clipped().map(Clipped::warning));
    Ok(Opened { machines, executable, plan: folder.plan, warnings, sources })
}

/// Opens native files as one program. Without an interface its ports are raw memory.
///
/// # Errors
/// Everything its target says about them.
pub fn open_native<'a>(
    files: &[File],
    setup: Setup<'a>,
    interface: Option<Interface>,
) -> Outcome<Opened<'a>> {
    let mut log = Log::default();
    let program = read(&setup, files, interface, &mut log)?;
    let executable = from_program(program, Numerics::default());
    Ok(Opened {
        machines: vec![Share::of_natives(setup)],
        executable,
        plan: Vec::new(),
        warnings: log.diagnostics,
        sources: crate::failure::sources_of(files),
    })
}

/// The machines of a folder.
fn shares<'a>(
    folder: &Folder,
    path: &Path,
    targets: &[&'a dyn Target],
    options: &[(String, String)],
) -> Result<Vec<Share<'a>>> {
    let name = path.join(DESCRIPTION).display().to_string();
    let has = |record: &MachineRecord, option: &str| {
        let target = targets.iter().find(|target| target.info().name == record.target);
        target.is_some_and(|target| target.info().options.iter().any(|o| o.name == option))
    };
    let share = |record: &MachineRecord| {
        // What nobody has is said to be unknown.
        let nobody = |option: &str| !folder.machines.iter().any(|other| has(other, option));
        let is_own = |(option, _): &&(String, String)| has(record, option) || nobody(option);
        let own: Vec<_> = options.iter().filter(is_own).cloned().collect();
        let setup = setup_of(record, targets, &own)
            .map_err(|problem| problem.with_note(format!("in {}", path.display())))?;
        let preparation = preparation_of(record).map_err(|problem| problem.name_file(&name))?;
        Ok(Share { setup, preparation, nodes: record.nodes.clone() })
    };
    folder.machines.iter().map(share).collect()
}

/// How the model of a machine was prepared; folders of earlier versions do not say.
fn preparation_of(record: &MachineRecord) -> Result<Option<Preparation>> {
    let found = Option::<Preparation>::deserialize(&record.preparation).map_err(|error| {
        Diagnostic::invalid("Q0612", format!("not how a model was prepared: {error}"))
    })?;
    let ranges = found.iter().flat_map(|found| &found.calibrated).flatten();
    for (name, (low, high)) in ranges {
        if low > high {
            let message = format!("the range of \"{}\" is empty", name.escape_debug());
            return Err(Diagnostic::invalid("Q0612", message));
        }
    }
    Ok(found)
}

/// The target whose files these are.
///
/// # Errors
/// `Q0611` when no target recognises them.
pub fn recognise<'a>(files: &[File], targets: &[&'a dyn Target]) -> Result<&'a dyn Target> {
    let recognises = |target: &&&dyn Target| files.iter().any(|file| target.recognises(file));
    targets.iter().find(recognises).copied().ok_or_else(|| {
        let other = files.iter().find_map(|f| Some((f, arrays_or_model(&f.name, &f.bytes)?)));
        if let Some((file, found)) = other {
            let message = format!("expected a program, found {found}");
            return Diagnostic::invalid("Q0611", message).in_file(&file.name);
        }
        let problem = Diagnostic::invalid("Q0611", "no target recognises the file")
            .help("name the target with --target, or check that the file is a program");
        match files.first() {
            Some(file) => problem.in_file(&file.name),
            None => problem,
        }
    })
}

/// One program as an executable of its own.
pub(crate) fn from_program(program: Box<dyn Program>, numerics: Numerics) -> Executable {
    let interface = program.interface();
    let spec = |(index, port): (usize, &quincunx_contract::Port)| InputSpec {
        name: port.name.clone(),
        dtype: DType::F64,
        shape: port.shape.clone(),
        sample: program.sample(index),
    };
    let names = |ports: &[quincunx_contract::Port]| -> Vec<String> {
        ports.iter().map(|port| port.name.clone()).collect()
    };
    let outputs = names(&interface.outputs);
    Executable {
        inputs: interface.inputs.iter().enumerate().map(spec).collect(),
        outputs: outputs.clone(),
        constants: Default::default(),
        stages: vec![Stage {
            name: "program".to_owned(),
            machine: 0,
            inputs: names(&interface.inputs),
            outputs,
            body: Body::Device { program, numerics },
        }],
    }
}

/// Reads native files; spans of its diagnostics point into them.
pub(crate) fn read(
    setup: &Setup<'_>,
    files: &[File],
    interface: Option<Interface>,
    log: &mut Log,
) -> Outcome<Box<dyn Program>> {
    setup.target.read(files, interface, &*setup.arch, &setup.options, log).map_err(|problems| {
        let failure = Failure::in_files(problems, files);
        match files {
            [only] => failure.name_file(&only.name),
            _ => failure,
        }
    })
}

/// The texts of the only program. Spans of several would point into each other's files.
fn texts(folder: &Folder) -> Sources {
    let mut programs = folder.segments.iter().filter(|segment| segment.place == Place::Device);
    match (programs.next(), programs.next()) {
        (Some(only), None) => crate::failure::sources_of(&only.files),
        _ => Sources::new(),
    }
}

/// Opens the program of a folder as its native files alone would be: with ports as they lie in the
/// machine's memory. `options` replace the stored ones.
///
/// # Errors
/// As [`open_folder`]; `Q0618` when the folder does not hold one program and nothing else.
pub fn open_raw<'a>(
    path: &Path,
    targets: &[&'a dyn Target],
    options: &[(String, String)],
) -> Outcome<Opened<'a>> {
    let folder = Folder::read(path)?;
    let machines = shares(&folder, path, targets, options)?;
    let ([SegmentFiles { place: Place::Device, files, numerics, .. }], [share]) =
        (&folder.segments[..], &machines[..])
    else {
        let message = "raw ports are those of one program, and the folder holds other segments";
        return Err(Diagnostic::usage("Q0618", message)
            .in_file(path.display().to_string())
            .help("run the native files of a segment alone")
            .into());
    };
    let mut log = Log::default();
    let program = read(&share.setup, files, None, &mut log)?;
    let executable = from_program(program, numerics.clone());
    let (warnings, sources) = (log.diagnostics, texts(&folder));
    Ok(Opened { machines, executable, plan: Vec::new(), warnings, sources })
}

fn setup_of<'a>(
    record: &MachineRecord,
    targets: &[&'a dyn Target],
    options: &[(String, String)],
) -> Result<Setup<'a>> {
    // What a file says wrongly is invalid input, not wrong usage.
    let invalid = |problem: Diagnostic| {
        Diagnostic::invalid("Q0612", problem.message())
            .help_if(problem.help_text().map(str::to_owned))
    };
    let target = find_among(targets, &record.target).map_err(invalid)?;
    // A machine whose file has no name in it is called like its file.
    let name = record.arch.name.clone();
    let arch = ArchSource::Text { name, text: record.arch.file.clone() };
    let stored: Vec<(String, String)> =
        record.options.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    Setup::new(target, &arch, &stored).map_err(invalid)?;
    let all: Vec<_> = stored.into_iter().chain(options.iter().cloned()).collect();
    Setup::new(target, &arch, &all)
}

fn stage(
    folder: &Folder,
    machines: &[Share<'_>],
    segment: &SegmentFiles,
    log: &mut Log,
) -> Outcome<Stage> {
    let name_file = |failure: Failure| failure.name_file(&segment.name);
    let body = match segment.place {
        Place::Host => {
            Body::Host(Box::new(Host::new(host_graph(segment, &folder.inputs).map_err(name_file)?)))
        }
        Place::Device => {
            let setup = &machines[segment.machine].setup;
            let program = read(setup, &segment.files, segment.interface.clone(), log)?;
            Body::Device { program, numerics: segment.numerics.clone() }
        }
    };
    Ok(Stage {
        name: segment.name.clone(),
        machine: segment.machine,
        inputs: segment.inputs.clone(),
        outputs: segment.outputs.clone(),
        body,
    })
}

/// The graph of a host segment. Extents that the inputs of the network leave open in its file are those
/// that they had when it was compiled.
fn host_graph(segment: &SegmentFiles, inputs: &[ValueRecord]) -> Outcome<Graph> {
    let wrong = |message: &str| Diagnostic::invalid("Q0612", message.to_owned());
    let [file] = &segment.files[..] else {
        return Err(wrong("expected one file in a host segment").into());
    };
    if file.name != HOST_MODEL {
        return Err(wrong("expected a host segment to hold a model").into());
    }
    let own = inputs.iter().filter(|input| segment.inputs.contains(&input.name));
    let input_shapes = own.map(|input| (input.name.clone(), input.shape.clone())).collect();
    let options = ReadOptions { input_shapes, ..ReadOptions::default() };
    let graph = quincunx_import::read_onnx(file.bytes.clone(), &options)?;
    let within = |ids: &[ValueId], names: &[String]| {
        ids.iter().all(|&id| names.iter().any(|name| *name == graph[id].name))
    };
    let complete = segment
        .outputs
        .iter()
        .all(|name| graph.outputs().iter().any(|&id| graph[id].name == *name));
    if !within(graph.inputs(), &segment.inputs) || !complete {
        return Err(wrong("the model of a host segment has other inputs or outputs").into());
    }
    Ok(graph)
}

/// Every output is computed, given or constant.
fn check_outputs(executable: &Executable) -> Result<()> {
    let known = |name: &String| {
        executable.constants.contains_key(name)
            || executable.inputs.iter().any(|input| input.name == *name)
            || executable.stages.iter().any(|stage| stage.outputs.contains(name))
    };
    match executable.outputs.iter().find(|name| !known(name)) {
        Some(name) => {
            Err(Diagnostic::invalid("Q0612", format!("nothing computes the output {name:?}")))
        }
        None => Ok(()),
    }
}

/// Inputs and outputs of the network have the types and shapes that its segments and constants say.
/// A port has no element type: numbers cross it as real numbers.
fn check_values(folder: &Folder, executable: &Executable) -> Result<()> {
    for record in folder.inputs.iter().chain(&folder.outputs) {
        let values = executable.stages.iter().filter_map(|stage| declared(stage, &record.name));
        let constant = executable.constants.get(&record.name);
        let constant = constant.map(|c| (Some(c.dtype()), c.shape().to_vec()));
        for (dtype, shape) in values.chain(constant) {
            check_value(record, dtype, &shape)?;
        }
    }
    Ok(())
}

/// Who reads a value of another segment expects the shape that it has there.
fn check_borders(executable: &Executable) -> Result<()> {
    for reader in &executable.stages {
        for name in &reader.inputs {
            let writer = executable.stages.iter().find(|stage| stage.outputs.contains(name));
            let shape = |stage| Some(declared(stage, name)?.1);
            let (Some(has), Some(wants)) = (writer.and_then(shape), shape(reader)) else {
                continue;
            };
            if has != wants {
                let (has, wants) = (show_shape(&has), show_shape(&wants));
                let message =
                    format!("{name:?} has the shape {has}, {} reads {wants}", reader.name);
                return Err(Diagnostic::invalid("Q0612", message));
            }
        }
    }
    Ok(())
}

/// What a stage says about a value that it reads or computes.
fn declared(stage: &Stage, name: &str) -> Option<(Option<DType>, Vec<usize>)> {
    match &stage.body {
        Body::Host(host) => {
            let value = &host.graph[host.graph.value_named(name)?];
            Some((Some(value.dtype), value.shape.to_vec()))
        }
        Body::Device { program, .. } => {
            let interface = program.interface();
            let mut ports = interface.inputs.iter().chain(&interface.outputs);
            let port = ports.find(|port| port.name == name)?;
            Some((None, port.shape.clone()))
        }
    }
}

fn check_value(record: &ValueRecord, dtype: Option<DType>, shape: &[usize]) -> Result<()> {
    let fail = |what: &str, found: String, expected: String| {
        let name = &record.name;
        let message = format!("{what} of {name:?} is {found}, its segment has {expected}");
        Err(Diagnostic::invalid("Q0612", message))
    };
    if record.shape != shape {
        return fail("the shape", show_shape(&record.shape), show_shape(shape));
    }
    match dtype {
        Some(dtype) if dtype != record.dtype()? => {
            fail("the type", record.dtype.clone(), dtype.to_string())
        }
        _ => Ok(()),
    }
}
