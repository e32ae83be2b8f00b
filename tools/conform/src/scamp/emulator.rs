//! Programs with images: analogue, illegal, digital and super-pixel.

use super::{Check, cases, first, machine, name_of, number_of, program, reason, text_of};
use crate::report::Report;
use quincunx_contract::ArchSource;
use quincunx_diag::{SourceId, any_error};
use quincunx_scamp::ScampArch;
use quincunx_scamp::isa::Reg;
use quincunx_scamp::program::{Named, Program, Space};
use quincunx_scamp::simulate::{Edge, Executor, Settings};
use quincunx_scamp::text;
use quincunx_scamp::verify::verify;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

type Images = Vec<(Named, Vec<f64>)>;

/// Every register of every element in both edge modes, and the number of bus steps.
pub(super) fn run(_: &Path, value: &Value, report: &mut Report) {
    for (index, case) in cases(value, "cases").iter().enumerate() {
        let name = name_of(case, index);
        for (mode, edge) in [("stale", Edge::Stale), ("zero", Edge::Zero)] {
            report.case(&format!("{name}.{mode}"), check(case, mode, edge));
        }
        report.case(&format!("{name}.bus_ops"), check_steps(case));
    }
}

fn check_steps(case: &Value) -> Check {
    let (found, expected) = (program(&case["program"])?.bus_steps(), number_of(case, "bus_ops")?);
    if found == expected { Ok(()) } else { Err(format!("{found} bus steps, expected {expected}")) }
}

fn check(case: &Value, mode: &str, edge: Edge) -> Check {
    let (program, arch) = (program(&case["program"])?, machine()?);
    let problems = verify(&program, &arch);
    if any_error(&problems) {
        return Err(first(problems));
    }
    let settings = Settings { edge, ..Settings::default() };
    compare(case, &case[format!("outputs_{mode}_edge")], &program, &arch, settings, Space::Analogue)
}

/// Runs a case and compares the images of all outputs.
fn compare(
    case: &Value,
    outputs: &Value,
    program: &Program,
    arch: &ScampArch,
    settings: Settings,
    space: Space,
) -> Check {
    let size = |key| usize::try_from(number_of(case, key)?).map_err(|_| format!("no {key}"));
    let (width, height) = (size("width")?, size("height")?);
    let inputs = images(&case["inputs"], space)?;
    let expected = images(outputs, space)?;
    let mut program = program.clone();
    // All registers of the case take part, used or not.
    program.inputs = Some(inputs.iter().map(|((_, register), _)| *register).collect());
    if space == Space::Analogue {
        program.outputs = Some(expected.iter().map(|((_, register), _)| *register).collect());
    }
    let executor = Executor::new(&program, arch, width, height, settings).map_err(reason)?;
    let outcome = executor.run(&inputs).map_err(reason)?;
    for (named, image) in &expected {
        let found = outcome.register(*named).ok_or_else(|| format!("no register {}", named.1))?;
        if let Some(at) = (0..image.len()).find(|&at| found.get(at) != image.get(at)) {
            let (row, column) = (at / width, at % width);
            let place = format!("{} at row {row}, column {column}", named.1);
            return Err(format!("{place} is {:?}, expected {}", found.get(at), image[at]));
        }
    }
    match expected.is_empty() {
        true => Err("no outputs".to_owned()),
        false => Ok(()),
    }
}

fn images(value: &Value, space: Space) -> Check<Images> {
    let object = value.as_object().ok_or("no images")?;
    object.iter().map(|(name, rows)| Ok(((space, register(name)?), image(rows)?))).collect()
}

fn register(name: &str) -> Check<Reg> {
    Reg::new(name).ok_or_else(|| format!("{name:?} is not a register"))
}

fn image(rows: &Value) -> Check<Vec<f64>> {
    let rows = rows.as_array().ok_or("no rows")?;
    let numbers = rows.iter().flat_map(|row| row.as_array().into_iter().flatten());
    numbers.map(|number| number.as_f64().ok_or_else(|| "no number".to_owned())).collect()
}

/// Every program is refused, by the reader or by a rule, with a reason that names the cause.
pub(super) fn run_illegal(_: &Path, value: &Value, report: &mut Report) {
    for (index, case) in cases(value, "cases").iter().enumerate() {
        let name = case["program"].as_str().map_or_else(|| index.to_string(), str::to_owned);
        report.case(&name, check_illegal(case));
    }
}

fn check_illegal(case: &Value) -> Check {
    let problems = match text::parse(text_of(case, "program")?, SourceId(0)) {
        Ok(program) => verify(&program, &machine()?),
        Err(problems) => problems,
    };
    match any_error(&problems) {
        true => Ok(()),
        false => Err("it is accepted".to_owned()),
    }
}

/// Programs on 1-bit registers, on a machine with the roles that the case names.
pub(super) fn run_digital(_: &Path, value: &Value, report: &mut Report) {
    for (index, case) in cases(value, "cases").iter().enumerate() {
        report.case(&name_of(case, index), check_digital(case));
    }
}

fn check_digital(case: &Value) -> Check {
    let program = program(&case["program"])?;
    let arch = digital_machine(case, &program)?;
    let problems = verify(&program, &arch);
    if any_error(&problems) {
        return Err(first(problems));
    }
    compare(case, &case["outputs"], &program, &arch, Settings::default(), Space::Digital)
}

/// A machine with exactly the 1-bit registers of the case.
fn digital_machine(case: &Value, program: &Program) -> Check<ScampArch> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for inst in &program.instructions {
        names.extend(inst.registers().map(|register| register.to_string()));
    }
    for list in ["inputs", "outputs"] {
        names.extend(case[list].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
    }
    // Roles that the case does not name have a register that no program can write.
    let role = |value: &Value, spare: &str| value.as_str().unwrap_or(spare).to_owned();
    let mut roles: Vec<(&str, String)> = Vec::new();
    for direction in ["north", "east", "south", "west"] {
        let spare = format!("SPARE_{}", direction.to_uppercase());
        roles.push((direction, role(&case["dir_regs"][direction], &spare)));
    }
    for key in ["mask", "masked", "select"] {
        roles.push((key, role(&case[key], &format!("SPARE_{}", key.to_uppercase()))));
    }
    names.extend(roles.iter().map(|(_, name)| name.clone()));
    names.remove("FLAG");
    let list: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let mut text = format!("name = \"case\"\ndigital = [{}]\n", list.join(", "));
    text += "[aliases]\n[roles]\n";
    for (key, name) in &roles {
        text += &format!("{key} = {name:?}\n");
    }
    ScampArch::from_source(&ArchSource::Text { name: "case".to_owned(), text }).map_err(reason)
}
