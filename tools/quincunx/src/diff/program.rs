//! Program folders, native files and models.

use super::{Difference, Settings, arrays, json, text};
use crate::assemble::TEXT_KIND;
use crate::executable::{Body, Stage};
use crate::open::read;
use crate::{Failure, InputFile, Outcome, Setup, open_folder, with_companions};
use quincunx_contract::folder::{Folder, SegmentFiles};
use quincunx_contract::{Log, Program, Target};
use quincunx_diag::{Class, Diagnostic};
use quincunx_graph::Graph;
use quincunx_report::Table;
use quincunx_tensor::{Tensors, npy};
use std::path::Path;

/// The descriptions, constant outputs, and the programs of segments whose files differ.
pub(super) fn folders(
    paths: [&Path; 2],
    targets: &[&dyn Target],
    settings: &Settings,
    found: &mut Difference,
) -> Outcome<()> {
    found.kind = "program folders";
    let (a, b) = (Folder::read(paths[0])?, Folder::read(paths[1])?);
    found.add_paths(json::changes(&description(&a)?, &description(&b)?, settings.tolerance));
    if a.constants != b.constants {
        let (a, b) = (constants(&a)?, constants(&b)?);
        found.add_arrays(arrays::table(&a, &b, settings)?);
    }
    let opened = [open_folder(paths[0], targets, &[])?, open_folder(paths[1], targets, &[])?];
    for segment in &a.segments {
        let Some(other) = b.segments.iter().find(|other| other.name == segment.name) else {
            continue;
        };
        if segment.files == other.files {
            continue;
        }
        let texts = opened.each_ref().map(|opened| {
            let stage = opened.executable.stages.iter().find(|stage| stage.name == segment.name);
            stage.map(stage_text).transpose()
        });
        let [Some(a), Some(b)] = [texts[0].clone()?, texts[1].clone()?] else { continue };
        let names = paths.map(|path| path.join(&segment.name).display().to_string());
        found.add_text(text::unified((&names[0], &a), (&names[1], &b), settings.context));
    }
    same_files(&a.segments, &b.segments, found);
    Ok(())
}

/// Files may differ where texts do not.
fn same_files(a: &[SegmentFiles], b: &[SegmentFiles], found: &mut Difference) {
    found.same &= a.iter().map(|s| &s.files).eq(b.iter().map(|s| &s.files));
}

fn description(folder: &Folder) -> Outcome<serde_json::Value> {
    let value = serde_json::from_str(&folder.description());
    Ok(value.map_err(|error| Diagnostic::bug(format!("a description is not JSON: {error}")))?)
}

fn constants(folder: &Folder) -> Outcome<Tensors> {
    match &folder.constants {
        Some(file) => Ok(npy::read_npz(file.bytes.clone()).map_err(|p| p.name_file(&file.name))?),
        None => Ok(Tensors::new()),
    }
}

fn stage_text(stage: &Stage) -> Outcome<String> {
    match &stage.body {
        Body::Host(host) => Ok(host.graph.to_string()),
        Body::Device { program, .. } => Ok(program_text(&**program)?),
    }
}

fn program_text(program: &dyn Program) -> quincunx_diag::Result<String> {
    let files = program.emit(TEXT_KIND, "program")?;
    let text: String = files.iter().map(|file| String::from_utf8_lossy(&file.bytes)).collect();
    // Some dialects end their lines so; between programs this is not a difference.
    Ok(text.replace("\r\n", "\n"))
}

/// The program of a native file and those that belong to it.
fn open(file: &InputFile, setup: &Setup<'_>, targets: &[&dyn Target]) -> Outcome<Box<dyn Program>> {
    let files = with_companions(vec![file.clone()], targets)?;
    let files: Vec<_> = files.iter().map(InputFile::to_file).collect();
    read(setup, &files, None, &mut Log::default())
}

/// What the target itself says about two programs.
fn own_difference(
    files: [&InputFile; 2],
    setup: &Setup<'_>,
    targets: &[&dyn Target],
) -> Outcome<Option<Vec<Table>>> {
    match (open(files[0], setup, targets), open(files[1], setup, targets)) {
        (Ok(a), Ok(b)) => Ok(setup.target.diff(&*a, &*b)),
        // Texts that are not programs can still be compared.
        _ => Ok(None),
    }
}

/// Assembly texts as they are written; other native files as assembly text.
pub(super) fn natives(
    files: [&InputFile; 2],
    target: &dyn Target,
    targets: &[&dyn Target],
    settings: &Settings,
    found: &mut Difference,
) -> Outcome<()> {
    let setup = Setup::default_for(target)?;
    if let Some(tables) = own_difference(files, &setup, targets)? {
        for table in tables {
            found.add_arrays((table.is_empty(), table));
        }
        return Ok(());
    }
    let written = |file: &InputFile| super::is_text(file) && !is_json(file);
    if files.iter().all(|file| written(file)) {
        super::lines(files, settings, found);
        return Ok(());
    }
    let forms = files.map(|file| (written(file), is_json(file)));
    let [a, b] = files
        .map(|file| native_text(file, open(file, &setup, targets)?, &setup, forms[0] != forms[1]));
    found.add_text(text::unified((&files[0].name, &a?), (&files[1].name, &b?), settings.context));
    Ok(())
}

/// Assembly text of the program of a native file. Forms differ in what they say besides the instructions; for
/// files of two forms it is the text of what the target's first form says.
fn native_text(
    file: &InputFile,
    mut program: Box<dyn Program>,
    setup: &Setup<'_>,
    two_forms: bool,
) -> Outcome<String> {
    if two_forms
        && let Some(kind) = setup.target.info().kinds.first()
        && let Ok([only]) = program.emit(kind.name, "program").as_deref()
    {
        program = read(setup, std::slice::from_ref(only), None, &mut Log::default())?;
    }
    match program_text(&*program) {
        Err(problem) if problem.class() == Class::Unsupported && super::is_text(file) => {
            Ok(String::from_utf8_lossy(&file.bytes).into_owned())
        }
        text => text.map_err(|problem| {
            Failure::in_files(vec![problem.name_file(&file.name)], &[file.to_file()])
        }),
    }
}

fn is_json(file: &InputFile) -> bool {
    serde_json::from_slice::<serde_json::Value>(&file.bytes).is_ok()
}

/// Two graphs: their text forms, and their constants where names are the same.
pub(super) fn graphs(
    [a, b]: [&Graph; 2],
    settings: &Settings,
    found: &mut Difference,
) -> Outcome<()> {
    let constants = |graph: &Graph| -> Tensors {
        let constants = graph.values().filter_map(|(_, value)| {
            Some((value.name.clone(), value.constant.as_ref()?.tensor.clone()))
        });
        constants.collect()
    };
    let (left, right) = (constants(a), constants(b));
    if left != right {
        found.add_arrays(arrays::table(&left, &right, settings)?);
    }
    let names = found.names.clone();
    let (a, b) = (a.to_string(), b.to_string());
    found.add_text(text::unified((&names[0], &a), (&names[1], &b), settings.context));
    Ok(())
}
