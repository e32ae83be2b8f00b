//! vISA: verdicts on kernels, and byte code.

use super::{Check, arch, first, hex, platform, reason, same, string};
use quincunx_diag::{Diagnostic, SourceId, any_error};
use quincunx_dpas::binary::visa::{Form, read, write};
use quincunx_dpas::program::Program;
use quincunx_dpas::text::{self, to_hex};
use quincunx_dpas::verify::{Allow, verify};
use serde_json::Value;

/// Rules of the cases (by a part of their text) and the codes that stand for them.
const RULES: [(&str, &[u32]); 19] = [
    ("src1 variable must be", &[6052]),
    ("src2 variable must be", &[6052]),
    ("dst cannot be %null", &[6053]),
    ("integer precisions need", &[6043]),
    ("bf/hf precisions need", &[6044]),
    ("dst/src0 type must be", &[6051, 6048]),
    ("depth 1", &[6061]),
    ("src1 GRF aligned", &[6056]),
    ("dst/src0 aligned", &[6054, 6055]),
    ("src2 byte alignment", &[6057]),
    ("FP8 precision", &[6046]),
    ("exec-size", &[6040]),
    ("u1/s1", &[6047]),
    ("float W and A", &[6042]),
    ("cannot be mixed", &[6041]),
    ("unknown predicate", &[6026]),
    ("takes no predicate", &[6025]),
    ("dpasw removed", &[6049]),
    ("digit must be", &[2101, 2103]),
];

/// The number of a code; 0 for a code without one.
fn number(problem: &Diagnostic) -> u32 {
    problem.code().trim_start_matches('Q').parse().unwrap_or(0)
}

/// Codes of texts that are not kernels: those of the instruction kit and of our grammar.
fn is_syntax(problem: &Diagnostic) -> bool {
    (2100..2200).contains(&number(problem)) || [6020, 6024, 6027].contains(&number(problem))
}

/// Codes that name the platform.
fn is_platform(problem: &Diagnostic) -> bool {
    [6046, 6049].contains(&number(problem))
}

/// The verdict of a kernel, and the rule behind it.
pub(super) fn text(case: &Value) -> Check {
    let arch = arch(platform(case)?)?;
    let (expected, rule) = (string(case, "verdict")?, string(case, "rule")?);
    let found = match text::visa::read(string(case, "visaasm")?, SourceId(0)) {
        Err(problems) => problems,
        Ok((kernel, _)) => {
            let printed = text::visa::print(&kernel);
            let again = text::visa::read(&printed, SourceId(0)).map_err(|found| first(&found))?;
            if again.0 != kernel {
                return Err(format!("the printed kernel is another one: {printed}"));
            }
            verify(&Program::Visa(kernel), &arch, &Allow::default())
        }
    };
    let errors = || found.iter().filter(|problem| problem.is_error());
    let verdict = match (any_error(&found), found.is_empty()) {
        (false, true) => "accept",
        (false, false) => "warn",
        _ if errors().any(is_syntax) => "reject-syntax",
        _ if errors().any(is_platform) => "reject-platform",
        _ => "reject",
    };
    if verdict != expected {
        return Err(format!("found {verdict} ({}), expected {expected}: {rule}", first(&found)));
    }
    let known = RULES.iter().find(|(part, _)| rule.contains(part));
    match known {
        Some((_, codes)) if verdict != "accept" => {
            let named = found.iter().any(|problem| codes.contains(&number(problem)));

            if named { Ok(()) } else { Err(format!("found {}, expected {codes:?}", first(&found))) }
        }
        _ => Ok(()),
    }
}

/// Text to both layouts and back.
pub(super) fn binary(case: &Value) -> Check {
    let source = string(case, "text")?;
    let (kernel, _) = text::visa::read(source, SourceId(0)).map_err(|found| first(&found))?;
    for (key, form) in [("hex_doc", Form::Documented), ("hex_2026", Form::Predicated)] {
        let expected = string(case, key)?;
        let bytes = write(&kernel.instructions, false, form).map_err(reason)?;
        same(key, &to_hex(&bytes), expected)?;
        // The form is recognised.
        let (items, found) = read(&hex(expected)?, false, None).map_err(reason)?;
        if found != form || items != kernel.instructions {
            return Err(format!("{key} is read as another instruction"));
        }
        let [item] = &items[..] else { return Err("expected one instruction".to_owned()) };
        same("text", &text::visa::print_instruction(&item.inst, &kernel), source)?;
    }
    Ok(())
}
