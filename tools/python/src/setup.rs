//! Machines with their options.

use quincunx::compare::quick;
use quincunx::target::{ArchSource, Target};
use quincunx::{InputFile, Model, Outcome, Setup, find_target};
use std::path::Path;

/// Options by name.
pub(crate) type Options = Vec<(String, String)>;

/// A machine as Python code gives it: the target, a preset, a path or the text of a machine file, and
/// options.
pub(crate) type Wanted = (String, Option<String>, Options);

/// `text` where it has lines, else a preset, else a file.
fn source(target: &dyn Target, arch: Option<&str>) -> Outcome<ArchSource> {
    let Some(arch) = arch else { return Ok(ArchSource::Default) };
    if arch.contains('\n') {
        return Ok(ArchSource::Text { name: "<arch>".to_owned(), text: arch.to_owned() });
    }
    let is_preset = target.info().presets.iter().any(|preset| preset.name == arch);
    let path = Path::new(arch);
    if is_preset || !(path.exists() || arch.contains(['/', '\\', '.'])) {
        return Ok(ArchSource::Preset(arch.to_owned()));
    }
    let file = InputFile::open(path)?;
    let text = file.to_file().text()?.to_owned();
    Ok(ArchSource::Text { name: file.name, text })
}

/// The machine for a model, or for programs.
pub(crate) fn setup(
    (target, arch, options): &Wanted,
    model: Option<&Model>,
) -> Outcome<Setup<'static>> {
    let target = find_target(target)?;
    let source = source(target, arch.as_deref())?;
    let setup = match model {
        Some(model) => Setup::for_model(target, &source, model, options),
        None => Setup::new(target, &source, options),
    };
    Ok(setup?)
}

/// The machine for a model in a comparison, whose searches are short unless something else is said.
pub(crate) fn quick_setup(
    (target, arch, options): &Wanted,
    model: &Model,
) -> Outcome<Setup<'static>> {
    let options = quick(find_target(target)?, options.clone());
    setup(&(target.clone(), arch.clone(), options), Some(model))
}
