//! Layouts and encodings of every architecture.

use super::{Check, arch, equal, fields, first, hex, list, same_bytes, text};
use crate::report::Report;
use quincunx_diag::SourceId;
use quincunx_tcu::binary::{self, Coder};
use quincunx_tcu::program::Program;
use serde_json::Value;

pub(super) fn run(json: &Value, report: &mut Report) {
    for case in list(json) {
        let name = text(case, "name");
        report.case(&format!("{name}/layout"), layout(case));
        let instructions = list(&case["instructions"]).map(|pair| (pair, "instruction"));
        let configures = list(&case["config_driver_only"]).map(|pair| (pair, "config"));
        for (index, (pair, kind)) in instructions.chain(configures).enumerate() {
            report.case(&format!("{name}/{kind}/{index}"), encoding(case, pair));
        }
    }
}

fn layout(case: &Value) -> Check {
    let layout = arch(&case["arch"])?.layout().map_err(|problem| problem.to_string())?;
    for (key, expected) in case["layout"].as_object().ok_or("the case has no layout")? {
        equal(key, layout.param(key).map(u64::from), expected.as_u64())?;
    }
    equal(
        "the layout's length",
        layout.bytes() as u64,
        super::number(&case["layout"], "instruction_bytes")?,
    )
}

/// A pair of fields and bytes: encodes, decodes, and is read from its text.
fn encoding(case: &Value, pair: &Value) -> Check {
    let arch = arch(&case["arch"])?;
    let (step, bytes) = (fields::step(&pair[0])?, hex(&pair[1])?);
    let coder = Coder::new(&arch).map_err(|problem| problem.to_string())?;
    let mut written = Vec::new();
    coder.write(&step, &mut written).map_err(|problem| problem.to_string())?;
    same_bytes("the encoding", &written, &bytes)?;
    let read = binary::read(&bytes, &arch, false).map_err(|problems| first(&problems))?;
    let program = Program { arch: arch.clone(), steps: vec![step] };
    equal("the decoded instruction", &read.program, &program)?;
    let printed = quincunx_tcu::text::print(&program);
    let parsed = quincunx_tcu::text::parse(&printed, SourceId(0), &arch);
    equal("the instruction of the text", parsed.map_err(|problems| first(&problems))?, program)
}
