//! Kernel files as documents: what `inspect` shows of them.

use crate::arch::ScampArch;
use crate::cain;
use crate::files::{KernelFile, Mode, is_kernel_file, kernels, layout_of, to_graph};
use crate::options::Chosen;
use quincunx_contract::{ArchSource, Document, File, ModelFile, Options};
use quincunx_diag::{Diagnostic, Result, SourceId};
use quincunx_report::{Cell, Column, Table};
use std::collections::BTreeMap;

/// Most atoms of a goal that are listed one by one.
const MAX_ATOMS: u64 = 256;

/// The goals of a kernel file in the paper's compact form.
pub(crate) fn goals(file: &KernelFile) -> Table {
    let columns = vec![Column::text("output"), Column::number("atoms"), Column::text("goal")];
    let mut table = Table::new("goals", columns);
    let (depth, _) = file.approximation();
    if let Ok(bag) = file.goals(depth) {
        for (name, goal) in file.outputs().into_iter().zip(&bag.0) {
            table.push(vec![name.into(), goal.total().into(), goal.compact().into()]);
        }
    }
    table
}

/// The document of a kernel file; `None` for programs and unknown files.
pub(crate) fn document(
    file: &File,
    arch: &ScampArch,
    options: &Options,
) -> std::result::Result<Option<Document>, Vec<Diagnostic>> {
    if !file.text().is_ok_and(is_kernel_file) {
        return Ok(None);
    }
    let chosen = Chosen::new(options, arch)?;
    let contents = contents(&kernels(file, SourceId(0))?, chosen.height, chosen.width);
    contents.map(Some).map_err(|problem| problem.name_file(&file.name).into())
}

/// The network of a kernel file, on images as large as the array of the first preset; `None` for
/// any other file.
pub(crate) fn model(file: &File) -> std::result::Result<Option<ModelFile>, Vec<Diagnostic>> {
    if !file.text().is_ok_and(is_kernel_file) {
        return Ok(None);
    }
    let arch = ScampArch::from_source(&ArchSource::Default)?;
    let kernels = kernels(file, SourceId(0))?;
    let block = kernels.digital.as_ref().map_or((1, 1), |layout| layout.block);
    let graph = to_graph(&kernels, arch.height / block.1, arch.width / block.0);
    let graph = graph.map_err(|problem| problem.name_file(&file.name))?;
    Ok(Some(ModelFile { kind: "Cain kernels", graph, options: given(&kernels) }))
}

/// The options that a kernel file gives. Its weights are approximated already, so that its depth
/// takes them as they are.
fn given(file: &KernelFile) -> Vec<(&'static str, String)> {
    let mode = match file.mode {
        Mode::Analogue => "analogue",
        Mode::Digital => "digital",
        Mode::SuperPixel => "superpixel",
    };
    let mut options = vec![("mode", mode.to_owned())];
    if file.mode != Mode::Analogue {
        options.push(("layout", layout_of(file)));
        options.extend(text_format(file));
        return options;
    }
    options.push(("depth", file.approximation().0.to_string()));
    options.push(("input-registers", file.inputs.join(" ")));
    options.push(("output-registers", file.outputs().join(" ")));
    if !file.registers.is_empty() {
        options.push(("registers", file.registers.join(" ")));
    }
    let setting = |name: &str| file.settings.get(name);
    options.extend(setting(OPS).map(|ops| ("ops", ops.clone())));
    options.extend(text_format(file));
    let search = search_settings(file).into_iter().filter(|(name, _)| name != OPS);
    let search: serde_json::Map<String, serde_json::Value> =
        search.map(|(name, value)| (name, value.into())).collect();
    if !search.is_empty() {
        options.push(("cain", serde_json::Value::Object(search).to_string()));
    }
    options
}

/// The form of text that a kernel file asks for.
fn text_format(file: &KernelFile) -> Vec<(&'static str, String)> {
    let setting = |name: &str| file.settings.get(name);
    if setting("pairGen.outputFormat.name").is_none_or(|name| name != "jssFormat") {
        return Vec::new();
    }
    let name = setting("pairGen.outputFormat.simulatorName");
    let name = name.map(|name| ("simulator-name", name.clone()));
    [("text-format", "jss".to_owned())].into_iter().chain(name).collect()
}

/// The settings of Cain's search.
fn search_settings(file: &KernelFile) -> BTreeMap<String, String> {
    let is_of_search = |(name, _): &(&String, &String)| {
        ["runConfig.", "pairGen.strategy."].iter().any(|fields| name.starts_with(fields))
    };
    let settings = file.settings.iter().filter(is_of_search);
    settings.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The setting that names the macros.
const OPS: &str = "pairGen.strategy.ops";

/// What a kernel file holds. The graph is for an image of so many rows and columns.
fn contents(file: &KernelFile, height: usize, width: usize) -> Result<Document> {
    let (depth, error) = file.approximation();
    let bag = file.goals(depth)?;
    let mut properties = Table::properties("kernel_file");
    properties.property("name", file.name.as_str());
    properties.property("mode", format!("{:?}", file.mode).to_lowercase());
    properties.property("inputs", file.inputs.join(" "));
    properties.property("outputs", file.outputs().join(" "));
    properties.property("registers", file.registers.join(" "));
    properties.property("approximation depth", u64::from(depth));
    properties.property("approximation error", Cell::Brief(error));
    let mut settings = Table::properties("settings");
    for (name, value) in &file.settings {
        settings.property(name, value.as_str());
    }
    let atoms = |(name, goal): (&str, &crate::goal::Goal)| {
        let atoms = goal.atoms(MAX_ATOMS).unwrap_or_else(|| format!("{} atoms", goal.total()));
        format!("{name} = {atoms}\n")
    };
    let mut texts = vec![
        ("final_goals".to_owned(), format!("{}\n", bag.compact())),
        ("atoms".to_owned(), file.outputs().into_iter().zip(&bag.0).map(atoms).collect()),
    ];
    let mut problems = file.warnings.clone();
    let block = file.digital.as_ref().map_or((1, 1), |layout| layout.block);
    let search = search_settings(file);
    problems.extend(cain::Settings::odd(&search).into_iter().filter(|odd| odd.code() == "Q5053"));
    match to_graph(file, height / block.1, width / block.0) {
        Ok(graph) => texts.push(("graph".to_owned(), graph.to_string())),
        Err(problem) => problems.push(problem.as_warning()),
    }
    Ok(Document {
        kind: "Cain kernel file".to_owned(),
        tables: vec![properties, goals(file), settings],
        texts,
        problems,
    })
}
