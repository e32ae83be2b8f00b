//! Lengths of the programs of the default search: `quincunx bench scamp:lengths --dir DIR`.

use crate::arch::ScampArch;
use crate::bus::{self, Halving};
use crate::files::read_filters;
use crate::search::{Effort, SEED, Settings, find, proved};
use crate::task::{Task, Wanted};
use crate::verify::verify;
use quincunx_contract::OptionInfo;
use quincunx_contract::bench::{Row, Run, Suite};
use quincunx_diag::{Diagnostic, Result, any_error};
use std::path::Path;

/// Every filter of a list.
pub(super) const SUITE: Suite = Suite {
    name: "lengths",
    doc: "programs for every filter of DIR/kernels.json: macros, bus steps, seconds",
    options: &[
        OptionInfo::text("dir", "folder with a list of filters, kernels.json", ""),
        OptionInfo::one_of("ops", "Cain's set of macros", "all", &["all", "basic"]),
        OptionInfo::flag("leftovers", "what macros leave in further registers may be used", false),
        OptionInfo::flag("bus", "programs of bus steps instead of macros", false),
        OptionInfo::one_of("halving", "how values are halved with --bus", "quick", &Halving::NAMES),
        OptionInfo::one_of("effort", "how hard to search", "default", &Effort::NAMES),
    ],
    run: measure,
};

/// Several rows per filter.
///
/// * `macros`, `bus`: instructions and bus steps of the program.
/// * `first_seconds`: until there is a first program, by rule.
/// * `seconds`: of the search.
/// * `proved_lower_bound`: no program of these macros has fewer instructions, as the share of the
///   effort that is for proofs shows.
/// * `verified`: 1 for a legal program that computes the kernels exactly.
/// * With `--bus` besides `macro_bus`: bus steps of the program of macros with the same halving, and
///   `ratio`: `bus` to these.
fn measure(run: &Run) -> Result<Vec<Row>> {
    let path = Path::new(run.options.get("dir")).join("kernels.json");
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Diagnostic::system("Q5094", "read it", &error).in_file(path.to_string_lossy())
    })?;
    let mut arch = ScampArch::preset("scamp5")?;
    arch.macros = ScampArch::macro_set(run.options.get("ops"))?;
    if run.options.flag("bus") {
        arch.macros = halving(run).macros(&arch.macros);
    }
    let mut rows = Vec::new();
    for file in read_filters(&text).map_err(|problem| problem.name_file(&path.to_string_lossy()))? {
        let wanted = Wanted::of_file(&file)?;
        let rest = arch.analogue.iter().filter(|register| !wanted.outputs.contains(register));
        let pool = wanted.outputs.iter().chain(rest).copied().collect();
        rows.extend(of_task(run, &file.name, &Task::new(wanted, pool, &arch)?, &arch)?);
    }
    Ok(rows)
}

fn halving(run: &Run) -> Halving {
    Halving::named(run.options.get("halving"))
}

fn of_task(run: &Run, name: &str, task: &Task, arch: &ScampArch) -> Result<Vec<Row>> {
    let leftovers = run.options.flag("leftovers");
    let settings = |effort| Settings { leftovers, effort, seed: SEED };
    let is_bus = run.options.flag("bus");
    let bus_settings =
        |effort| bus::Settings { halving: halving(run), effort, seed: SEED, range: None };
    let search = |effort| match is_bus {
        false => {
            let program = find(task, arch, settings(effort))?;
            match effort {
                Effort(0) => Ok((program, None)),
                _ => {
                    proved(program, task, arch, settings(effort)).map(|(p, proof)| (p, Some(proof)))
                }
            }
        }
        true => Ok((bus::find(task, arch, bus_settings(effort))?, None)),
    };
    let first = run.calls(|| search(Effort(0)))?;
    let effort = Effort::named(run.options.get("effort"));
    let found = run.calls(|| search(effort))?;
    let (program, proof) = &found.last;
    let is_right = task.wanted.check(program)?.is_empty() && !any_error(&verify(program, arch));
    let row = Row::named(name);
    let mut rows = vec![
        row("macros", program.length() as f64, "instructions", 0),
        row("bus", program.bus_steps() as f64, "steps", 0),
        row("first_seconds", first.seconds, "s", 4),
        row("seconds", found.seconds, "s", 3),
        row("verified", f64::from(u8::from(is_right)), "", 0),
    ];
    if let Some(proof) = proof {
        rows.push(row("proved_lower_bound", proof.bound as f64, "instructions", 0));
    }
    if is_bus {
        let macros = find(task, arch, settings(effort))?.bus_steps() as f64;
        rows.push(row("macro_bus", macros, "steps", 0));
        rows.push(row("ratio", program.bus_steps() as f64 / macros.max(1.0), "", 3));
    }
    Ok(rows)
}
