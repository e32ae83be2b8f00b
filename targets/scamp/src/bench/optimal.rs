//! Programs and proofs against known shortest lengths: `quincunx bench scamp:optimal --dir DIR`.

use crate::arch::ScampArch;
use crate::goal::{Bag, Goal};
use crate::isa::Reg;
use crate::search::{Effort, Proof, SEED, Settings, find, prove};
use crate::task::{Task, Wanted};
use crate::verify::verify;
use quincunx_contract::OptionInfo;
use quincunx_contract::bench::{Row, Run, Suite};
use quincunx_diag::{Diagnostic, Result, any_error};
use serde::Deserialize;
use std::path::Path;

/// Every case of a list of shortest lengths.
pub(super) const SUITE: Suite = Suite {
    name: "optimal",
    doc: "programs and proofs for every case of DIR/optimal.json, the shortest lengths of which are known",
    options: &[OptionInfo::text("dir", "folder with a list of shortest lengths, optimal.json", "")],
    run: measure,
};

/// Combinations of values that a proof may look at.
const PROOF: u64 = 60_000_000;

/// The list.
#[derive(Deserialize)]
struct List {
    cases: Vec<Case>,
}

/// A kernel, which macros there are, and what is known.
#[derive(Deserialize)]
struct Case {
    id: String,
    /// `basic`, `all`, or `all_with_div_leftovers`.
    mode: String,
    goal: Vec<Vec<i64>>,
    approx_depth: u32,
    optimal_length: Option<u64>,
    /// No program is shorter.
    lower_bound: Option<u64>,
    /// The register of the result.
    out: Option<String>,
}

/// Rows `id/mode`, with `seconds`, and
///
/// * `matched` where the shortest length is known to be at most 5, or 6 with `basic`: 1 if the program
///   has that length, and it is proved;
/// * `sound` elsewhere: 1 if the program is not shorter than the list says, and the bound that was
///   proved not larger than what is known.
fn measure(run: &Run) -> Result<Vec<Row>> {
    let path = Path::new(run.options.get("dir")).join("optimal.json");
    let name = path.to_string_lossy().into_owned();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Diagnostic::system("Q5094", "read it", &error).in_file(name.clone()))?;
    let list: List = serde_json::from_str(&text).map_err(|error| {
        let message = format!("not a list of shortest lengths, line {}: {error}", error.line());
        Diagnostic::invalid("Q5096", message).in_file(name.clone())
    })?;
    let rows = list.cases.iter().map(|case| of_case(run, case));
    let rows = rows.collect::<Result<Vec<_>>>().map_err(|problem| problem.name_file(&name))?;
    Ok(rows.concat())
}

fn of_case(run: &Run, case: &Case) -> Result<Vec<Row>> {
    let leftovers = case.mode == "all_with_div_leftovers";
    let set = if leftovers { "all" } else { &case.mode };
    if !["all", "basic"].contains(&set) {
        let message = format!("case {} has the mode {:?}", case.id, case.mode);
        return Err(Diagnostic::invalid("Q5096", message)
            .help("modes are basic, all and all_with_div_leftovers"));
    }
    let mut arch = ScampArch::preset("scamp5")?;
    arch.macros = ScampArch::macro_set(set)?;
    let task = task(case, &arch)?;
    let settings = Settings { leftovers, effort: Effort::named("fast"), seed: SEED };
    let found = run.calls(|| {
        let program = find(&task, &arch, settings)?;
        let proof = prove(&task, &arch, leftovers, PROOF, Some(program.length()))?;
        Ok((proof.program.clone().unwrap_or(program), proof))
    })?;
    let (program, proof) = found.last;
    let is_right = task.wanted.check(&program)?.is_empty() && !any_error(&verify(&program, &arch));
    let (metric, good) = judged(case, program.length(), &proof);
    let name = format!("{}/{}", case.id, case.mode);
    let row = Row::named(&name);
    Ok(vec![
        row(metric, f64::from(u8::from(good && is_right)), "", 0),
        row("seconds", found.seconds, "s", 3),
    ])
}

/// The metric of a case, and whether it is 1.
fn judged(case: &Case, length: u64, proof: &Proof) -> (&'static str, bool) {
    let near = if case.mode == "basic" { 6 } else { 5 };
    let least = case.optimal_length.or(case.lower_bound).unwrap_or(0);
    match case.optimal_length {
        Some(shortest) if shortest <= near => {
            ("matched", length == shortest && proof.bound == shortest)
        }
        shortest => {
            let is_sound = length >= least && proof.bound <= length;
            ("sound", is_sound && shortest.is_none_or(|shortest| proof.bound <= shortest))
        }
    }
}

/// The case as a task: the input in A, all registers in the pool.
fn task(case: &Case, arch: &ScampArch) -> Result<Task> {
    let register = |name: &str| {
        let message = || format!("case {}: {name:?} is not the name of a register", case.id);
        Reg::new(name).ok_or_else(|| Diagnostic::invalid("Q5096", message()))
    };
    let (input, output) = (register("A")?, register(case.out.as_deref().unwrap_or("A"))?);
    let goals = Bag(vec![Goal::from_rows(&case.goal)]);
    let wanted =
        Wanted { goals, depth: case.approx_depth, inputs: vec![input], outputs: vec![output] };
    let rest = arch.analogue.iter().filter(|register| **register != output);
    let pool = [output].iter().chain(rest).copied().collect();
    Task::new(wanted, pool, arch)
}
