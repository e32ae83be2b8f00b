//! Files that are not programs: machines, constants, performance samples.

use crate::arch::{TcuArch, Widths};
use crate::files::{Samples, analyse, read_data};
use crate::options::block;
use quincunx_contract::{Arch as _, ArchSource, Document, File, Options};
use quincunx_diag::{Diagnostic, Result};
use quincunx_report::{Cell, Column, Table};

/// Vectors of constants that are shown.
const SHOWN: usize = 8;

/// The document of a file; `None` for programs and unknown files.
pub(crate) fn document(file: &File, arch: &TcuArch, options: &Options) -> Result<Option<Document>> {
    let document = match file.extension().as_str() {
        "tarch" => machine(file),
        "tdata" => constants(file, arch),
        "tsamples" => samples(file, arch, options),
        _ => return Ok(None),
    };
    document.map(Some).map_err(|problem| problem.name_file(&file.name))
}

fn machine(file: &File) -> Result<Document> {
    let (name, text) = (file.name.clone(), file.text()?.to_owned());
    let arch = TcuArch::from_source(&ArchSource::Text { name, text })?;
    let mut parameters = Table::properties("parameters");
    for (name, value) in arch.parameters() {
        parameters.property(name, value);
    }
    let layout = arch.layout()?;
    let widths = Widths::of(&arch);
    let mut encoding = Table::properties("encoding");
    encoding.property("instruction bytes", Cell::Count(layout.bytes() as u64));
    for (index, (used, width)) in widths.used.into_iter().zip(widths.operands).enumerate() {
        encoding.property(&format!("operand {index}"), format!("{used} of {width} bits"));
    }
    Ok(Document {
        kind: "tcu architecture".to_owned(),
        tables: vec![parameters, encoding],
        problems: arch.warnings().into_iter().map(|w| w.name_file(&file.name)).collect(),
        ..Document::default()
    })
}

fn constants(file: &File, arch: &TcuArch) -> Result<Document> {
    let scalars = read_data(&file.bytes, arch)?;
    let lanes = arch.lanes();
    let mut summary = Table::properties("summary");
    summary.property("vectors", Cell::Count(arch.vectors(scalars.len())));
    summary.property("scalars", Cell::Count(scalars.len() as u64));
    summary.property("zeros", Cell::Count(scalars.iter().filter(|&&s| s == 0).count() as u64));
    let reals = || scalars.iter().map(|&scalar| arch.data_type.decode(scalar));
    if !scalars.is_empty() {
        summary.property("least", Cell::Number(reals().fold(f64::INFINITY, f64::min)));
        summary.property("greatest", Cell::Number(reals().fold(f64::NEG_INFINITY, f64::max)));
    }
    let columns = vec![Column::number("address"), Column::text("values")];
    let mut vectors = Table::new("vectors", columns);
    for (address, vector) in scalars.chunks(lanes).take(SHOWN).enumerate() {
        let values = vector.iter().map(|&s| Cell::Number(arch.data_type.decode(s))).collect();
        vectors.push(vec![Cell::Count(address as u64), Cell::List(values, SHOWN)]);
    }
    Ok(Document {
        kind: format!("tcu constants of {}", arch.name),
        tables: vec![summary, vectors],
        ..Document::default()
    })
}

fn samples(file: &File, arch: &TcuArch, options: &Options) -> Result<Document> {
    let samples = Samples::read(&file.bytes, block(options, arch.sample_block_size))?;
    let problems: Vec<Diagnostic> =
        samples.problems().into_iter().map(|problem| problem.name_file(&file.name)).collect();
    Ok(Document {
        kind: "tcu performance samples".to_owned(),
        tables: analyse(&samples),
        texts: Vec::new(),
        problems,
    })
}
