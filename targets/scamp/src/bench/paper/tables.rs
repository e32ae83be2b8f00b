//! Tables 1 and 2, and the numbers of children of the outputs of AnalogNet2.

use super::samples::task;
use super::{Made, Wishes};
use crate::arch::ScampArch;
use crate::goal::Goal;
use crate::isa::Inst;
use crate::program::Program;
use crate::task::Task;
use crate::{auke, cain, search};
use quincunx_contract::bench::Row;
use quincunx_diag::Result;

/// Nodes of Cain's search; the paper gives it 60 seconds.
const CAIN_NODES: u64 = 20_000;

/// Nodes of AUKE's search.
const AUKE_NODES: u64 = 5_000;

/// A filter of table 1 with the lengths that the paper has for AUKE, Cain with all macros, and Cain
/// with AUKE's.
struct Filter {
    name: &'static str,
    depth: u32,
    kernels: &'static [&'static [&'static [i64]]],
    auke: &'static [u32],
    cain_all: u32,
    cain_basic: u32,
}

const GAUSS3: &[&[i64]] = &[&[1, 2, 1], &[2, 4, 2], &[1, 2, 1]];
const GAUSS5: &[&[i64]] =
    &[&[0, 1, 2, 1, 0], &[1, 4, 6, 4, 1], &[2, 6, 10, 6, 2], &[1, 4, 6, 4, 1], &[0, 1, 2, 1, 0]];
const GAUSS3_OF_64: &[&[i64]] = &[&[4, 8, 4], &[8, 16, 8], &[4, 8, 4]];
const ANALOGNET2: [&[&[i64]]; 3] = [
    &[&[0, 0, 0], &[-3, 1, 0], &[-3, 0, 2]],
    &[&[-4, -1, 1], &[-1, 2, 0], &[1, 1, 0]],
    &[&[-1, 2, 0], &[-1, 1, -3], &[0, -3, 0]],
];

/// The second kernel of AnalogNet2 as section 3 has it, with another sign than table 1.
const SECOND_OF_SECTION_3: &[&[i64]] = &[&[-4, -1, -1], &[-1, 2, 0], &[1, 1, 0]];

const FILTERS: &[Filter] = &[
    Filter {
        name: "gauss3",
        depth: 4,
        kernels: &[GAUSS3],
        auke: &[12],
        cain_all: 10,
        cain_basic: 12,
    },
    Filter {
        name: "gauss5",
        depth: 6,
        kernels: &[GAUSS5],
        auke: &[50],
        cain_all: 19,
        cain_basic: 25,
    },
    Filter {
        name: "gauss5_3",
        depth: 6,
        kernels: &[GAUSS5, GAUSS3_OF_64],
        auke: &[50, 12],
        cain_all: 26,
        cain_basic: 39,
    },
    Filter {
        name: "analognet2",
        depth: 2,
        kernels: &ANALOGNET2,
        auke: &[13, 21, 15],
        cain_all: 21,
        cain_basic: 30,
    },
];

fn goals(kernels: &[&[&[i64]]]) -> Vec<Goal> {
    let rows = |kernel: &&[&[i64]]| kernel.iter().map(|row| row.to_vec()).collect::<Vec<_>>();
    kernels.iter().map(|kernel| Goal::from_rows(&rows(kernel))).collect()
}

/// The machine with a set of macros.
fn with(macros: &str, arch: &ScampArch) -> Result<ScampArch> {
    let mut arch = arch.clone();
    arch.macros = ScampArch::macro_set(macros)?;
    Ok(arch)
}

fn by_cain(task: &Task, arch: &ScampArch) -> Result<Program> {
    let settings = cain::Settings { max_nodes: CAIN_NODES, ..cain::Settings::default() };
    Ok(cain::search(task, &settings, arch)?.best)
}

fn by_us(task: &Task, arch: &ScampArch) -> Result<Program> {
    let effort = search::Effort::named("default");
    let settings = search::Settings { leftovers: false, effort, seed: search::SEED };
    search::find(task, arch, settings)
}

fn by_auke(task: &Task, arch: &ScampArch) -> Result<auke::Outcome> {
    auke::search(task, auke::Settings { max_nodes: AUKE_NODES }, arch)
}

/// Lengths of programs, AUKE's for each kernel, kernels in turn, and with fewer registers.
pub(super) fn table1(wishes: &Wishes<'_>) -> Result<Made> {
    let arch = &wishes.arch;
    let mut rows = Vec::new();
    let number = |value: u64| value as f64;
    for filter in FILTERS {
        let row = Row::named(filter.name);
        let mut push = |metric, value| rows.push(row(metric, value, "instructions", 0));
        push("published_auke", f64::from(filter.auke.iter().sum::<u32>()));
        push("published_cain_all", f64::from(filter.cain_all));
        push("published_cain_basic", f64::from(filter.cain_basic));
        for macros in ["all", "basic"] {
            let arch = with(macros, arch)?;
            let task = task(goals(filter.kernels), filter.depth, arch.analogue.len(), &arch)?;
            let (cain, ours) = match macros {
                "all" => ("cain_all", "ours_all"),
                _ => ("cain_basic", "ours_basic"),
            };
            push(cain, number(by_cain(&task, &arch)?.length()));
            push(ours, number(by_us(&task, &arch)?.length()));
        }
        for (registers, metric) in [(6, "auke"), (5, "auke_5"), (4, "auke_4"), (3, "auke_3")] {
            let task = task(goals(filter.kernels), filter.depth, registers, arch)?;
            // Several kernels do not fit few registers.
            if let Ok(found) = by_auke(&task, arch) {
                push(metric, number(found.program.length()));
            }
        }
        for (kernel, &published) in filter.kernels.iter().zip(filter.auke) {
            let name = format!("{}/{}", filter.name, Goal::compact(&goals(&[kernel])[0]));
            let row = Row::named(&name);
            rows.push(row("published_auke", f64::from(published), "instructions", 0));
            let task = task(goals(&[kernel]), filter.depth, arch.analogue.len(), arch)?;
            let found = by_auke(&task, arch)?.program.length();
            rows.push(row("auke", number(found), "instructions", 0));
        }
    }
    Ok(Made { rows, picture: None })
}

/// Sources of additions and subtractions.
fn operands(program: &Program) -> usize {
    let is_sum =
        |inst: &&Inst| inst.mnemonic().starts_with("add") || inst.mnemonic().starts_with("sub");
    let sums = program.instructions.iter().filter(is_sum);
    // The first register is the result.
    sums.map(|inst| inst.registers().count() - 1).sum()
}

/// Operands of additions and subtractions, and time on the bus, of programs for AnalogNet2 as table 1
/// and as section 3 have it.
pub(super) fn table2(wishes: &Wishes<'_>) -> Result<Made> {
    let mut rows = Vec::new();
    let published = [("published AUKE", 49.0, 40.0, 35.0), ("published Cain", 21.0, 27.0, 9.0)];
    for (name, length, operands, time) in published {
        let row = Row::named(name);
        rows.push(row("macros", length, "instructions", 0));
        rows.push(row("operands", operands, "", 0));
        rows.push(row("time", time, "us", 2));
    }
    let [first, second, third] = ANALOGNET2;
    for (printing, second) in [("table 1", second), ("section 3", SECOND_OF_SECTION_3)] {
        let arch = with("all", &wishes.arch)?;
        let of =
            |arch: &ScampArch| task(goals(&[first, second, third]), 2, arch.analogue.len(), arch);
        let programs = [
            ("AUKE", by_auke(&of(&wishes.arch)?, &wishes.arch)?.program),
            ("Cain", by_cain(&of(&arch)?, &arch)?),
            ("ours", by_us(&of(&arch)?, &arch)?),
        ];
        for (who, program) in programs {
            let name = format!("{who}, {printing}");
            let row = Row::named(&name);
            rows.push(row("macros", program.length() as f64, "instructions", 0));
            rows.push(row("operands", operands(&program) as f64, "", 0));
            rows.push(row("bus", program.bus_steps() as f64, "steps", 0));
            let time = program.bus_steps() as f64 * arch.cost.bus_us;
            rows.push(row("time", time, "us", 2));
        }
    }
    Ok(Made { rows, picture: None })
}

/// Children of the outputs of AnalogNet2: all, and those that AtomDistance makes.
pub(super) fn children(wishes: &Wishes<'_>) -> Result<Made> {
    let arch = with("all", &wishes.arch)?;
    let task = task(goals(&ANALOGNET2), 2, arch.analogue.len(), &arch)?;
    let (heuristic, ops) = (cain::Heuristic::Pattern, cain::OpSet::All);
    let strategies = [
        ("all children", 37_163.0, cain::Strategy::Exhaustive { heuristic, ops }),
        ("children by distance", 239.0, cain::Strategy::AtomDistanceSorted { heuristic, ops }),
    ];
    let mut rows = Vec::new();
    for (name, published, strategy) in strategies {
        let settings = cain::Settings { strategy, ..cain::Settings::default() };
        let row = Row::named(name);
        rows.push(row("published", published, "children", 0));
        rows.push(row("children", cain::children(&task, &settings)? as f64, "children", 0));
    }
    Ok(Made { rows, picture: None })
}
