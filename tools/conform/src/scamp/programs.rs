//! Programs that compute kernels: those of Cain, of the paper, and shorter ones.

use super::kernels::{goals, rows_of};
use super::{
    Check, cases, first, machine, name_of, number_of, program, read_json, reason, text_of,
};
use crate::report::Report;
use quincunx_diag::any_error;
use quincunx_num::Ratio;
use quincunx_scamp::files::read_kernels;
use quincunx_scamp::fix::fix;
use quincunx_scamp::goal::{Bag, Cell, Goal};
use quincunx_scamp::isa::Reg;
use quincunx_scamp::program::Program;
use quincunx_scamp::search::{Proof, prove};
use quincunx_scamp::symbolic::{Level, Term, Value as Sum, run as follow};
use quincunx_scamp::task::{self, Task};
use quincunx_scamp::verify::{verify, verify_kernels};
use quincunx_scamp::{ScampArch, cain};
use serde_json::Value;
use std::path::Path;

/// An output register and what it must hold, in units of 2^-depth.
type Wanted = (Reg, Goal);

/// What a program must compute.
struct Filter {
    input: Reg,
    depth: u32,
    outputs: Vec<Wanted>,
}

fn register(value: &Value) -> Check<Reg> {
    value.as_str().and_then(Reg::new).ok_or_else(|| format!("{value} is not a register"))
}

fn depth_of(case: &Value) -> Check<u32> {
    u32::try_from(number_of(case, "approx_depth")?).map_err(|_| "no depth".to_owned())
}

/// The filter with an id in `kernels.json` beside the file.
fn filter(dir: &Path, id: &str) -> Check<Option<Filter>> {
    let path = dir.join("kernels.json");
    if !path.exists() {
        return Ok(None);
    }
    let list = read_json(&path)?;
    let case = cases(&list, "filters").iter().find(|case| case["id"] == id);
    let case = case.ok_or_else(|| format!("kernels.json has no {id}"))?;
    let names = case["kernels"].as_array().ok_or("no kernels")?.iter();
    let names = names.map(|kernel| register(&kernel["out"])).collect::<Check<Vec<_>>>()?;
    let outputs = names.into_iter().zip(goals(case)?).collect();
    Ok(Some(Filter { input: register(&case["input_register"])?, depth: depth_of(case)?, outputs }))
}

/// Goals with their unit, as the symbolic executor gives them.
fn sum(goal: &Goal, depth: u32, input: Reg) -> Sum {
    let unit = Ratio::from_parts(1.into(), (1_u64 << depth.min(63)).into());
    let term = |Cell { x, y, .. }: Cell| Term { source: input, x, y };
    goal.cells().map(|(cell, count)| (term(cell), &unit * Ratio::from(count))).collect()
}

/// The program is legal and every output holds its kernel.
fn check_program(program: &Program, filter: &Filter) -> Check {
    let problems = verify(program, &machine()?);
    if any_error(&problems) {
        return Err(first(problems));
    }
    check_kernels(program, filter, Level::Bus)
}

fn check_kernels(program: &Program, filter: &Filter, level: Level) -> Check {
    let state = follow(program, level).map_err(reason)?;
    for (output, goal) in &filter.outputs {
        if state.value(*output) != sum(goal, filter.depth, filter.input) {
            return Err(format!("{output} does not hold {}", goal.compact()));
        }
    }
    Ok(())
}

fn check_length(case: &Value, key: &str, program: &Program) -> Check {
    let (found, expected) = (program.length(), number_of(case, key)?);
    match found == expected {
        true => Ok(()),
        false => Err(format!("{found} instructions, expected {expected}")),
    }
}

fn check_steps(case: &Value, program: &Program) -> Check {
    let (found, expected) = (program.bus_steps(), number_of(case, "bus_ops")?);
    if found == expected { Ok(()) } else { Err(format!("{found} bus steps, expected {expected}")) }
}

/// The programs of a list; their kernels are in `kernels.json`.
fn run_list(dir: &Path, list: &[Value], report: &mut Report) {
    for (index, case) in list.iter().enumerate() {
        let parts = ["ops", "semantics"].iter().filter_map(|key| case[*key].as_str());
        let name = parts.fold(name_of(case, index), |name, part| format!("{name}.{part}"));
        let filter = text_of(case, "id").and_then(|id| filter(dir, id));
        match filter {
            Ok(None) => report.skip(&name, "kernels.json is missing"),
            Ok(Some(filter)) => report.case(&name, check_case(case, &filter)),
            Err(reason) => report.case(&name, Err(reason)),
        }
    }
}

fn check_case(case: &Value, filter: &Filter) -> Check {
    let program = program(&case["program"])?;
    check_program(&program, filter)?;
    check_length(case, "length", &program)?;
    check_steps(case, &program)
}

/// Cain's best programs.
pub(super) fn run(dir: &Path, value: &Value, report: &mut Report) {
    run_list(dir, cases(value, "programs"), report);
}

/// Shorter programs.
pub(super) fn run_best(dir: &Path, value: &Value, report: &mut Report) {
    run_list(dir, cases(value, "programs"), report);
}

/// Shortest lengths and lower bounds: our own proof finds the same, and the witness is a program.
pub(super) fn run_optimal(_: &Path, value: &Value, report: &mut Report) {
    for (index, case) in cases(value, "cases").iter().enumerate() {
        let mode = case["mode"].as_str().unwrap_or_default();
        let name = format!("{}.{mode}", name_of(case, index));
        let check = match case["program"].is_array() {
            true => check_witness(case),
            false => check_bound(case),
        };
        report.case(&name, check);
    }
}

fn check_witness(case: &Value) -> Check {
    let program = program(&case["program"])?;
    let filter = optimal_filter(case)?;
    check_program(&program, &filter)?;
    check_length(case, "optimal_length", &program)?;
    let (length, proof) = (program.length(), proof(case, &filter, None)?);
    match proof.bound == length && proof.program.is_some() {
        true => Ok(()),
        false => Err(format!("proved: {}; expected {length}, with a program", proof.describe())),
    }
}

/// Every shorter length is refuted by our proof as well.
fn check_bound(case: &Value) -> Check {
    let bound = number_of(case, "lower_bound")?;
    let proof = proof(case, &optimal_filter(case)?, Some(bound))?;
    match proof.bound == bound {
        true => Ok(()),
        false => Err(format!("proved: {}; expected {bound}", proof.describe())),
    }
}

fn optimal_filter(case: &Value) -> Check<Filter> {
    let goal = Goal::from_rows(&rows_of(&case["goal"])?);
    let output = if case["out"].is_null() { Reg::new("A") } else { Some(register(&case["out"])?) };
    let (input, output) = (Reg::new("A").ok_or("no A")?, output.ok_or("no A")?);
    Ok(Filter { input, depth: depth_of(case)?, outputs: vec![(output, goal)] })
}

/// Combinations that a proof may look at; those of the list take less than half as many.
const EFFORT: u64 = 50_000_000;

fn proof(case: &Value, filter: &Filter, below: Option<u64>) -> Check<Proof> {
    let (macros, leftovers) = match text_of(case, "mode")? {
        "all" => ("all", false),
        "basic" => ("basic", false),
        "all_with_div_leftovers" => ("all", true),
        mode => return Err(format!("there is no mode {mode}")),
    };
    let mut arch = machine()?;
    arch.macros = ScampArch::macro_set(macros).map_err(reason)?;
    prove(&task(filter, &arch)?, &arch, leftovers, EFFORT, below).map_err(reason)
}

/// The filter as a task with all registers, the outputs first.
fn task(filter: &Filter, arch: &ScampArch) -> Check<Task> {
    let outputs: Vec<Reg> = filter.outputs.iter().map(|(output, _)| *output).collect();
    let rest = arch.analogue.iter().filter(|register| !outputs.contains(register));
    let pool = outputs.iter().chain(rest).copied().collect();
    let goals = Bag(filter.outputs.iter().map(|(_, goal)| goal.clone()).collect());
    let wanted = task::Wanted { goals, depth: filter.depth, inputs: vec![filter.input], outputs };
    Task::new(wanted, pool, arch).map_err(reason)
}

/// The listings of the paper: Cain's is legal and computes AnalogNet2, AUKE's are illegal where the
/// list says so, compute their kernels if operands may repeat, and can be rewritten.
pub(super) fn run_paper(dir: &Path, value: &Value, report: &mut Report) {
    let filter = match filter(dir, "analognet2") {
        Ok(Some(filter)) => filter,
        Ok(None) => return report.skip("table2", "kernels.json is missing"),
        Err(reason) => return report.case("table2", Err(reason)),
    };
    let cain = &value["table2"]["cain"];
    report.case("cain", check_paper_cain(cain, &filter));
    report.case("cain.device_us", check_time(cain, &value["device_us"]["cain_21_instr"]));
    for (index, case) in cases(&value["table2"]["auke"], "").iter().enumerate() {
        let name = format!("auke.{}", case["kernel"].as_u64().unwrap_or(index as u64));
        report.case(&format!("{name}.legal"), check_legality(case));
        report.case(&format!("{name}.meaning"), check_auke(case, &filter));
        report.case(&format!("{name}.fixed"), check_fixed(case, &filter));
    }
    report.case("auke.total", check_totals(&value["table2"]));
}

fn check_paper_cain(case: &Value, filter: &Filter) -> Check {
    let program = program(&case["program"])?;
    check_program(&program, filter)?;
    check_length(case, "length", &program)?;
    check_operands(number_of(case, "add_sub_operands")?, &[program])
}

/// Operands of additions and subtractions, as the paper counts them.
fn check_operands(expected: u64, programs: &[Program]) -> Check {
    let instructions = || programs.iter().flat_map(|program| &program.instructions);
    let adds =
        instructions().filter(|i| ["add", "sub"].iter().any(|w| i.mnemonic().starts_with(w)));
    let found: usize = adds.map(|inst| inst.registers().count() - 1).sum();
    match found as u64 == expected {
        true => Ok(()),
        false => Err(format!("{found} operands, expected {expected}")),
    }
}

/// The paper gives whole microseconds.
fn check_time(case: &Value, expected: &Value) -> Check {
    use quincunx_scamp::time::{Model, total};
    let nanoseconds = total(&program(&case["program"])?, Model::Device, &machine()?);
    let (found, expected) = (nanoseconds as f64 / 1000.0, expected.as_f64().ok_or("no time")?);
    match found.round() == expected {
        true => Ok(()),
        false => Err(format!("{found} us, expected {expected} us")),
    }
}

fn check_legality(case: &Value) -> Check {
    let program = program(&case["program"])?;
    let legal = !any_error(&verify(&program, &machine()?));
    match Some(legal) == case["legal"].as_bool() {
        true => Ok(()),
        false => Err(format!("legal is {legal}")),
    }
}

/// The part of the filter that a listing of AUKE computes.
fn part(case: &Value, filter: &Filter) -> Check<Filter> {
    let output = register(&case["out"])?;
    let outputs = filter.outputs.iter().filter(|(register, _)| *register == output).cloned();
    Ok(Filter { input: filter.input, depth: filter.depth, outputs: outputs.collect() })
}

fn check_auke(case: &Value, filter: &Filter) -> Check {
    check_kernels(&program(&case["program"])?, &part(case, filter)?, Level::Meaning)
}

fn check_fixed(case: &Value, filter: &Filter) -> Check {
    let mut program = program(&case["program"])?;
    program.inputs = Some(vec![filter.input]);
    program.outputs = Some(vec![register(&case["out"])?]);
    let (fixed, _) = fix(&program, &machine()?);
    check_program(&fixed, &part(case, filter)?)
}

fn check_totals(table: &Value) -> Check {
    let programs = cases(&table["auke"], "").iter().map(|case| program(&case["program"]));
    let programs = programs.collect::<Check<Vec<_>>>()?;
    let (found, expected) =
        (programs.iter().map(Program::length).sum::<u64>(), number_of(table, "auke_total")?);
    if found != expected {
        return Err(format!("{found} instructions, expected {expected}"));
    }
    check_operands(number_of(table, "auke_add_sub_operands")?, &programs)
}

/// Cain's program for two input channels, by its kernel file and by its impulse responses.
pub(super) fn run_multichannel(_: &Path, value: &Value, report: &mut Report) {
    report.case("kernels", check_channels(value));
    report.case("impulse", check_impulse(value));
}

fn check_channels(value: &Value) -> Check {
    let file = read_kernels(&value["cain_input"].to_string()).map_err(reason)?;
    let program = program(&value["cain_best"]["program"])?;
    let problems = verify(&program, &machine()?);
    if any_error(&problems) {
        return Err(first(problems));
    }
    let problems = verify_kernels(&program, &file, &machine()?).map_err(reason)?;
    if !problems.is_empty() {
        return Err(first(problems));
    }
    check_length(&value["cain_best"], "length", &program)
}

fn check_impulse(value: &Value) -> Check {
    let program = program(&value["cain_best"]["program"])?;
    let state = follow(&program, Level::Bus).map_err(reason)?;
    let channels = &value["cain_input"]["registerAllocator"]["initialRegisters"];
    for (output, entries) in value["impulse"].as_object().ok_or("no impulse")? {
        let found = state.value(register(&Value::from(output.as_str()))?);
        let entries = entries.as_array().ok_or("no entries")?;
        if entries.len() != found.len() {
            return Err(format!("{output} has {} summands", found.len()));
        }
        for entry in entries {
            let whole = |at: usize| entry[at].as_i64().and_then(|n| i32::try_from(n).ok());
            let (x, y) = whole(0).zip(whole(1)).ok_or("no offset")?;
            let source = register(&channels[entry[2].as_u64().ok_or("no channel")? as usize])?;
            let factor = entry[3].as_f64().ok_or("no factor")?;
            let is = found.get(&Term { source, x, y }).map(|factor| factor.to_f64().value());
            if is != Some(factor) {
                return Err(format!("{output} at ({x}, {y}) is {is:?}, expected {factor}"));
            }
        }
    }
    Ok(())
}

/// The plans that Cain found on its way: each computes the kernel. Our form of Cain's search finds a
/// plan as short as the best of them within as many nodes.
pub(super) fn run_trace(dir: &Path, value: &Value, report: &mut Report) {
    let filter = match filter(dir, "gauss3") {
        Ok(Some(filter)) => filter,
        Ok(None) => return report.skip("plans", "kernels.json is missing"),
        Err(reason) => return report.case("plans", Err(reason)),
    };
    for (index, plan) in cases(value, "plans").iter().enumerate() {
        let check = program(&plan[2]).and_then(|program| {
            check_program(&program, &filter)?;
            match plan[1].as_u64() == Some(program.length()) {
                true => Ok(()),
                false => Err(format!("{} instructions, expected {}", program.length(), plan[1])),
            }
        });
        report.case(&index.to_string(), check);
    }
    report.case("search", check_search(cases(value, "plans"), &filter));
}

/// Nodes of the search of the trace, as its note says.
const NODES: u64 = 1500;

fn check_search(plans: &[Value], filter: &Filter) -> Check {
    let shortest = plans.iter().filter_map(|plan| plan[1].as_u64()).min().ok_or("no plans")?;
    let mut arch = machine()?;
    arch.macros = ScampArch::macro_set("all").map_err(reason)?;
    let settings = cain::Settings { max_nodes: NODES, ..cain::Settings::default() };
    let found = cain::search(&task(filter, &arch)?, &settings, &arch).map_err(reason)?;
    let length = found.plans.iter().map(|plan| plan.length).min().ok_or("no plan was found")?;
    match length <= shortest {
        true => Ok(()),
        false => Err(format!("{length} instructions after {NODES} nodes, expected {shortest}")),
    }
}
