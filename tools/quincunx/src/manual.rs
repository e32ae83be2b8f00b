//! `isa` and `targets`: what the machines are.

use quincunx_contract::{ArchSource, Info, Target};
use quincunx_diag::{Diagnostic, Result, did_you_mean};
use quincunx_isa::{Layout, ManualFormat, Row, Table as Instructions};
use quincunx_report::{Column, Format, Heading, Report, Table};

/// The manual of all instructions of a target, or of one mnemonic, in a format and, if text is to
/// fit, so many columns.
///
/// # Errors
/// A mnemonic that does not exist, with a suggestion.
pub fn isa(
    target: &dyn Target,
    mnemonic: Option<&str>,
    format: Format,
    columns: Option<usize>,
) -> Result<String> {
    let tables = tables_with(target, mnemonic)?;
    let manual = |table: &'static Instructions, format| {
        // Where fields lie is known when no parameter of the machine moves them.
        table.manual(mnemonic, Layout::fixed(table).ok().as_ref(), format)
    };
    let joined = |format| -> Result<String> {
        Ok(tables.iter().map(|table| manual(table, format)).collect::<Result<Vec<_>>>()?.join("\n"))
    };
    match (format, &tables[..]) {
        (Format::Markdown, _) => joined(ManualFormat::Markdown),
        (Format::Json, [only]) => manual(only, ManualFormat::Json),
        (Format::Json, several) => {
            let parts = several.iter().map(|table| manual(table, ManualFormat::Json));
            let parts =
                parts.map(|part| Ok(part?.trim_end().to_owned())).collect::<Result<Vec<_>>>();
            Ok(format!("{{\n\"schema\": 1,\n\"tables\": [\n{}\n]\n}}", parts?.join(",\n")))
        }
        (Format::Csv, _) => Ok(Report::from(instruction_table(&tables, mnemonic)).render(format)),
        (Format::Text | Format::Html, _) => {
            let heading = Heading::new("Manual of instructions").on(target.info().name);
            let report = Report::new().text("manual", joined(ManualFormat::Text)?);
            Ok(report.headed(heading).render_within(format, columns))
        }
    }
    .map(|text| format!("{}\n", text.trim_end()))
}

/// The tables of a target; of a mnemonic, those that have it.
fn tables_with(target: &dyn Target, mnemonic: Option<&str>) -> Result<Vec<&'static Instructions>> {
    let tables = target.isa();
    let has = |table: &&&Instructions| table.manual(mnemonic, None, ManualFormat::Text).is_ok();
    let found: Vec<_> = tables.iter().filter(has).copied().collect();
    let (Some(name), true) = (mnemonic, found.is_empty()) else { return Ok(found) };
    let mut known: Vec<&str> = tables.iter().flat_map(|table| table.mnemonics()).collect();
    known.sort_unstable();
    known.dedup();
    let message = format!("{} has no instruction {name:?}", target.info().name);
    Err(Diagnostic::usage("Q0639", message)
        .help_if(did_you_mean(name, known.iter().copied()))
        .with_note(format!("the instructions are {}", known.join(", "))))
}

fn instruction_table(tables: &[&Instructions], mnemonic: Option<&str>) -> Table {
    let columns = ["name", "mnemonic", "syntax", "doc"].map(Column::text).to_vec();
    let mut table = Table::new("rows", columns);
    let wanted = |row: &&Row| mnemonic.is_none_or(|mnemonic| row.mnemonic == mnemonic);
    for row in tables.iter().flat_map(|table| table.rows).filter(wanted) {
        let doc: Vec<&str> = row.doc.iter().map(|line| line.trim()).collect();
        table.push(vec![
            row.name.into(),
            row.mnemonic.into(),
            row.syntax.into(),
            doc.join(" ").into(),
        ]);
    }
    table
}

/// One row per target.
pub fn list(targets: &[&dyn Target]) -> Report {
    let columns = ["target", "machines", "files", "summary"].map(Column::text).to_vec();
    let mut table = Table::new("rows", columns);
    for target in targets {
        let Info { name, summary, presets, kinds, .. } = target.info();
        let presets: Vec<&str> = presets.iter().map(|preset| preset.name).collect();
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        table.push(vec![
            (*name).into(),
            presets.join(", ").into(),
            kinds.join(", ").into(),
            (*summary).into(),
        ]);
    }
    Report::from(table).headed(Heading::new("Targets"))
}

/// Machines, options and kinds of files of one target, and the parameters of one machine.
///
/// # Errors
/// An unknown machine or a malformed architecture file.
pub fn describe(target: &dyn Target, arch: &ArchSource) -> Result<Report> {
    let info = target.info();
    let mut presets =
        Table::new("machines", vec![Column::text("machine"), Column::text("summary")]);
    for preset in info.presets {
        presets.push(vec![preset.name.into(), preset.summary.into()]);
    }
    let columns = ["option", "default", "values", "verbs", "summary"].map(Column::text).to_vec();
    let mut options = Table::new("options", columns);
    for option in info.options {
        options.push(vec![
            option.name.into(),
            option.default.into(),
            option.values().into(),
            target.verbs_of(option).join(", ").into(),
            option.doc.into(),
        ]);
    }
    let mut kinds = Table::new("files", vec![Column::text("kind"), Column::text("summary")]);
    for kind in info.kinds {
        kinds.push(vec![kind.name.into(), kind.doc.into()]);
    }
    let arch = target.arch(arch)?;
    let mut parameters =
        Table::new("parameters", vec![Column::text("parameter"), Column::text("value")]);
    parameters.push(vec!["name".into(), arch.name().into()]);
    for (name, value) in arch.parameters() {
        parameters.push(vec![name.into(), value.into()]);
    }
    for name in arch.absent() {
        parameters.push(vec![name.into(), "not given".into()]);
    }
    let tables = [presets, options, kinds, parameters];
    let heading = Heading::new("Target").of(info.name).on(format!("{} {}", info.name, arch.name()));
    let summary = format!("{}: {}", info.name, info.summary);
    let report = Report::new().headed(heading).text("summary", summary);
    Ok(tables.into_iter().filter(|table| !table.is_empty()).fold(report, Report::table))
}
