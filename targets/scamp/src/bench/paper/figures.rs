//! Figures 3 and 4: lengths of Cain's programs for random filters.

use super::plot::{Chart, Line};
use super::samples::{kernels, map, median, task};
use super::{Made, Wishes};
use crate::arch::ScampArch;
use crate::cain::{Heuristic, OpSet, Outcome, Settings, Strategy, search};
use crate::goal::Goal;
use quincunx_contract::bench::Row;
use quincunx_diag::Result;

/// Nodes at which figure 3 (left) is read.
const AT: [u64; 10] = [100, 250, 500, 1000, 2500, 5000, 7500, 10_000, 15_000, 20_000];

/// Registers of figure 4.
const MANY: usize = 18;

fn settings(max_nodes: u64, heuristic: Heuristic) -> Settings {
    let strategy = Strategy::threshold(10, heuristic, OpSet::All);
    Settings { max_nodes, strategy, ..Settings::default() }
}

/// What Cain's search finds; `None` if it is nothing.
fn found(
    goals: Vec<Goal>,
    registers: usize,
    settings: &Settings,
    arch: &ScampArch,
) -> Result<Option<Outcome>> {
    match search(&task(goals, 3, registers, arch)?, settings, arch) {
        Ok(outcome) => Ok(Some(outcome)),
        Err(problem) if problem.code() == "Q5085" => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// The median length of the best plans for one random kernel after so many nodes; the number of
/// filters with a plan, also with a random order in place of the heuristic.
pub(super) fn fig3_left(wishes: &Wishes<'_>) -> Result<Made> {
    let (samples, nodes) = (wishes.samples(100), wishes.nodes(20_000));
    let of = |heuristic: Heuristic| {
        let settings = settings(nodes, heuristic);
        map(samples, wishes.run.threads, |seed| {
            let goals = kernels(seed as u64, 1);
            let found = found(goals, wishes.arch.analogue.len(), &settings, &wishes.arch)?;
            let plan = |plan: &crate::cain::Plan| (plan.nodes, plan.length);
            Ok(found.map_or(Vec::new(), |found| found.plans.iter().map(plan).collect::<Vec<_>>()))
        })
    };
    let (found, random) = (of(Heuristic::Pattern)?, of(Heuristic::Random)?);
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for at in AT.into_iter().filter(|at| *at <= nodes) {
        let best = |plans: &Vec<(u64, u64)>| {
            let early = plans.iter().filter(|(nodes, _)| *nodes <= at);
            early.map(|(_, length)| *length).min()
        };
        if let Some(length) = median(&found.iter().map(best).collect::<Vec<_>>()) {
            let name = format!("fig3-left, {at} nodes");
            rows.push(Row::named(&name)("median", length, "instructions", 1));
            points.push((at as f64, length));
        }
    }
    for (name, plans) in [("heuristic", &found), ("random", &random)] {
        let solved = plans.iter().filter(|plans| !plans.is_empty()).count();
        let name = format!("fig3-left, {name}");
        rows.push(Row::named(&name)("filters_with_plans", solved as f64, "filters", 0));
        rows.push(Row::named(&name)("filters", samples as f64, "filters", 0));
    }
    let chart = Chart {
        title: "Figure 3, left: median length of the best plan",
        x: "nodes",
        y: "instructions",
        lines: vec![Line { name: "Cain's search", points }],
    };
    Ok(Made { rows, picture: Some(chart.svg()) })
}

/// Lengths for filters of one to four random kernels.
pub(super) fn fig3_right(wishes: &Wishes<'_>) -> Result<Made> {
    let (samples, settings) =
        (wishes.samples(25), settings(wishes.nodes(10_000), Heuristic::Pattern));
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for count in 1..=4 {
        let lengths = map(samples, wishes.run.threads, |seed| {
            let goals = kernels(1000 + seed as u64, count);
            let found = found(goals, wishes.arch.analogue.len(), &settings, &wishes.arch)?;
            Ok(found.map(|found| found.best.length()))
        })?;
        let name = format!("fig3-right, {count} kernels");
        let row = Row::named(&name);
        let known: Vec<u64> = lengths.iter().flatten().copied().collect();
        rows.push(row("filters_with_plans", known.len() as f64, "filters", 0));
        if let Some(length) = median(&lengths) {
            rows.push(row("median", length, "instructions", 1));
            points.push((count as f64, length));
        }
        for (metric, length) in [("shortest", known.iter().min()), ("longest", known.iter().max())]
        {
            let length = length.map(|&length| row(metric, length as f64, "instructions", 0));
            rows.extend(length);
        }
    }
    let chart = Chart {
        title: "Figure 3, right: median length with 6 registers",
        x: "kernels",
        y: "instructions",
        lines: vec![Line { name: "Cain's search", points }],
    };
    Ok(Made { rows, picture: Some(chart.svg()) })
}

/// Lengths for filters of one to ten random kernels with 18 registers: compiled together, and each
/// kernel alone with the registers that the other outputs leave.
pub(super) fn fig4(wishes: &Wishes<'_>) -> Result<Made> {
    let mut arch = ScampArch::preset("scamp5-18reg")?;
    arch.macros = ScampArch::macro_set("all")?;
    let (samples, settings) =
        (wishes.samples(10), settings(wishes.nodes(2000), Heuristic::Pattern));
    let (mut rows, mut alone_line, mut together_line) = (Vec::new(), Vec::new(), Vec::new());
    for count in 1..=10 {
        let lengths = map(samples, wishes.run.threads, |seed| {
            let goals = kernels(2000 + 16 * seed as u64 + count as u64, count);
            let length = |goals: Vec<Goal>, registers: usize| {
                Ok(found(goals, registers, &settings, &arch)?.map(|found| found.best.length()))
            };
            let mut alone = Some(0);
            for goal in &goals {
                let own = length(vec![goal.clone()], MANY - (count - 1))?;
                alone = alone.zip(own).map(|(sum, own)| sum + own);
            }
            Ok((alone, length(goals, MANY)?))
        })?;
        let name = format!("fig4, {count} kernels");
        let row = Row::named(&name);
        let (alone, together): (Vec<_>, Vec<_>) = lengths.into_iter().unzip();
        for (metric, lengths, line) in
            [("alone", alone, &mut alone_line), ("together", together, &mut together_line)]
        {
            if let Some(length) = median(&lengths) {
                rows.push(row(metric, length, "instructions", 1));
                line.push((count as f64, length));
            }
        }
    }
    let chart = Chart {
        title: "Figure 4: median length with 18 registers",
        x: "kernels",
        y: "instructions",
        lines: vec![
            Line { name: "each alone, sum", points: alone_line },
            Line { name: "together", points: together_line },
        ],
    };
    Ok(Made { rows, picture: Some(chart.svg()) })
}
