//! Golden cases of dpas; the layout is described in `tests/golden/dpas/README.md`.

mod kernel;
mod numeric;
mod schedule;
mod visa;

use crate::report::Report;
use crate::{Request, folder};
use quincunx_diag::{Diagnostic, Result, SourceId};
use quincunx_dpas::arch::{DpasArch, Platform};
use quincunx_dpas::binary;
use quincunx_dpas::program::Listing;
use quincunx_dpas::text::{self, from_hex, to_hex};
use serde_json::Value;

/// The reason why a case failed.
type Check<T = ()> = std::result::Result<T, String>;

/// Runs every file of the layout that is present.
pub(crate) fn run(request: &Request<'_>, emit: &mut dyn FnMut(Report)) -> Result<()> {
    let files = folder::list(request.dir)?.files;
    let stems: Vec<String> =
        files.iter().filter_map(|name| name.strip_suffix(".json")).map(str::to_owned).collect();
    request.check_names(&stems)?;
    for stem in stems.iter().filter(|stem| request.wants(stem)) {
        let Some(case) = runner(stem) else { continue };
        let mut report = Report::new(stem);
        match cases(request, stem) {
            Ok((file, list)) => {
                for (index, value) in list.iter().enumerate() {
                    let name = match value.get("id").and_then(Value::as_u64) {
                        Some(id) => id.to_string(),
                        None => index.to_string(),
                    };
                    report.case(&name, case(&file, value));
                }
                if stem.starts_with("swsb_auto") {
                    report.note(schedule::share(&list));
                }
            }
            Err(reason) => report.case("file", Err(reason)),
        }
        emit(report);
    }
    Ok(())
}

/// Checks one case of a file; the first value is the file without its cases.
type Case = fn(&Value, &Value) -> Check;

/// What is done with the cases of a file.
fn runner(stem: &str) -> Option<Case> {
    let kinds: [(&str, Case); 10] = [
        ("kernel_native_", native),
        ("kernel_ldst_", kernel::spellings),
        ("kernel_programs", kernel::program),
        ("native_", native),
        ("numeric_int", |_, case| numeric::check(case)),
        ("numeric_float", |_, case| numeric::check(case)),
        ("programs", |_, case| numeric::program(case)),
        ("swsb_auto", |_, case| schedule::check(case)),
        ("visa_text", |_, case| visa::text(case)),
        ("visa_binary", |_, case| visa::binary(case)),
    ];
    kinds.into_iter().find(|(prefix, _)| stem.starts_with(prefix)).map(|(_, case)| case)
}

fn cases(request: &Request<'_>, stem: &str) -> Check<(Value, Vec<Value>)> {
    let text = folder::read_text(&request.dir.join(format!("{stem}.json")))?;
    let mut file: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    match file.get_mut("cases").map(Value::take) {
        Some(Value::Array(list)) => Ok((file, list)),
        _ => Err("the file has no cases".to_owned()),
    }
}

/// Assembling gives the bytes, disassembling the canonical text, and that the bytes again.
fn native(file: &Value, case: &Value) -> Check {
    let platform = platform(file)?;
    let (asm, disasm) = (string(case, "asm")?, string(case, "disasm")?);
    let bytes = hex(string(case, "hex")?)?;
    same("bytes of the input", &to_hex(&assemble(asm, platform)?), &to_hex(&bytes))?;
    same("bytes of the canonical text", &to_hex(&assemble(disasm, platform)?), &to_hex(&bytes))?;
    let (listing, warnings) = binary::native::read(&bytes, platform);
    if let Some(warning) = warnings.first() {
        return Err(warning.message().to_owned());
    }
    same("text", &squeeze(&text::native::print(&listing)), &squeeze(disasm))
}

fn assemble(text: &str, platform: Platform) -> Check<Vec<u8>> {
    binary::native::write(&listing(text, platform)?, platform).map_err(reason)
}

fn listing(text: &str, platform: Platform) -> Check<Listing> {
    text::native::read(text, platform, SourceId(0)).map_err(|found| first(&found))
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn same(what: &str, found: &str, expected: &str) -> Check {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: found {found}, expected {expected}"))
}

fn string<'a>(value: &'a Value, key: &str) -> Check<&'a str> {
    value.get(key).and_then(Value::as_str).ok_or_else(|| format!("the case has no text {key}"))
}

fn number(value: &Value, key: &str) -> Check<u64> {
    value.get(key).and_then(Value::as_u64).ok_or_else(|| format!("the case has no number {key}"))
}

fn hex(digits: &str) -> Check<Vec<u8>> {
    from_hex(digits).ok_or_else(|| "expected hexadecimal digits".to_owned())
}

fn platform(value: &Value) -> Check<Platform> {
    let name = string(value, "platform")?;
    Platform::from_name(name).ok_or_else(|| format!("unknown platform {name}"))
}

fn arch(platform: Platform) -> Check<DpasArch> {
    DpasArch::preset(platform.name()).map_err(reason)
}

fn reason(problem: Diagnostic) -> String {
    format!("{} {}", problem.code(), problem.message())
}

fn first(found: &[Diagnostic]) -> String {
    found.iter().find(|d| d.is_error()).map_or_else(String::new, |d| reason(d.clone()))
}
