//! `verify`: is a program legal, and does it do what its model says?

use crate::bisect::{self, Bisection};
use crate::compare::first_difference;
use crate::compile::{Job, divide_as_stored, goldens};
use crate::executable::{Body, Handover, Stage, Trace};
use crate::{
    Calibration, Dataset, Failure, Model, Opened, Outcome, Progress, Share, parallel, split,
};
use quincunx_contract::plan::Plan;
use quincunx_contract::{Check, Clipped, Departure, Program};
use quincunx_diag::{Diagnostic, Place, Result, any_error, count_errors};
use quincunx_graph::passes::Scaled;
use quincunx_graph::{Graph, ValueId};
use quincunx_report::{Column, Table};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// The rules of the machine, on every program; an empty list means legal.
pub fn verify(opened: &Opened<'_>) -> Vec<Diagnostic> {
    of_each(opened, |program| program.verify())
}

/// Refuses programs that break rules of their machine, for verbs that take them for what they say.
///
/// # Errors
/// What [`Program::illegal`] finds.
pub fn refuse_illegal(opened: &Opened<'_>) -> Outcome<()> {
    let illegal = of_each(opened, |program| program.illegal());
    match illegal.is_empty() {
        true => Ok(()),
        false => Err(Failure::from(illegal).with_sources(&opened.sources)),
    }
}

/// Problems of every program, with the segments they are in.
fn of_each(
    opened: &Opened<'_>,
    problems: impl Fn(&dyn Program) -> Vec<Diagnostic>,
) -> Vec<Diagnostic> {
    let several = opened.executable.programs().count() > 1;
    let mut found = Vec::new();
    for (stage, program) in opened.executable.programs() {
        let problems = problems(program).into_iter();
        found.extend(problems.map(|problem| match problem.place() {
            Some(Place::Instruction(_) | Place::Line(_)) | None if several => {
                problem.with_note(format!("in segment {}", stage.name))
            }
            _ => problem,
        }));
    }
    found
}

/// What the rules establish, as a table: a row per family of rules. Lists that have no room for all
/// problems name some of every code.
pub fn checks(opened: &Opened<'_>, problems: &[Diagnostic]) -> Table {
    let mut families: Vec<Check> = Vec::new();
    for check in opened.executable.programs().flat_map(|(_, program)| program.checks()) {
        match families.iter_mut().find(|family| family.holds == check.holds) {
            Some(family) => family.count += check.count,
            None => families.push(check),
        }
    }
    let legal = !any_error(problems);
    let listed = problems.iter().filter(|problem| problem.is_error()).count();
    let more = if count_errors(problems) > listed { " or more" } else { "" };
    let columns = vec![
        Column::text("rule"),
        Column::text("result"),
        Column::number("checked"),
        Column::text("of"),
    ];
    let mut table = Table::new("checks", columns);
    for check in families {
        let broken = problems.iter().filter(|problem| check.has(problem.code())).count();
        let result = match broken {
            0 if check.needs_legal && !legal => "not checked".to_owned(),
            0 => "holds".to_owned(),
            1 => format!("1 problem{more}"),
            _ => format!("{broken} problems{more}"),
        };
        table.push(vec![
            check.holds.into(),
            result.into(),
            check.count.into(),
            check.things.into(),
        ]);
    }
    table
}

/// Images on which every observed value of the program equals the golden model of `model`.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// Images that were run.
    pub images: usize,
    /// Images without a difference.
    pub bit_exact: usize,
    /// The first difference.
    pub difference: Option<Diagnostic>,
    /// What the machine's type did not hold, of all images.
    pub clipped: Vec<Clipped>,
    /// Values that went from one machine to another, of every image.
    pub handovers: Vec<Handover>,
    /// Where the program departs from the numbers of the machine's own tools, with the largest
    /// differences on all images; `None` when that was not asked for.
    pub departures: Option<Vec<Departure>>,
}

/// The model that a program is to be one of. What the program keeps of its preparation counts where
/// nothing else is said here.
pub struct Against<'a> {
    /// The model.
    pub model: &'a Model,
    /// Batch normalisations are not folded, whatever the program keeps.
    pub no_fold_batch_norm: bool,
    /// Data to quantise a float model with.
    pub calibration: Calibration<'a>,
}

/// The plans of all machines, as the program says that they were, with the scales of their values.
///
/// # Errors
/// `Q0613` when the program is not one of this model.
fn plans(
    opened: &Opened<'_>,
    against: &Against<'_>,
) -> Outcome<Vec<(Plan, BTreeMap<String, Scaled>)>> {
    let Against { model, no_fold_batch_norm, calibration } = *against;
    let several = opened.machines.len() > 1;
    let whole = if several { split::foldable(model)? } else { model.clone() };
    let part = |share: &Share<'_>| split::part_named(&whole, &share.nodes);
    let parts = opened.machines.iter().map(part).collect::<Result<Vec<_>>>()?;
    let images = match several && calibration.is_given() {
        true => split::border_values(&whole, &parts, calibration)?,
        false => None,
    };
    let mut plans = Vec::new();
    for (position, (share, part)) in opened.machines.iter().zip(&parts).enumerate() {
        let kept = share.preparation.as_ref();
        let known = kept.and_then(|kept| kept.ranges());
        let job = Job {
            fold_batch_norm: kept.is_none_or(|kept| kept.fold_batch_norm) && !no_fold_batch_norm,
            calibration: Calibration {
                known: known.as_ref(),
                images: images.as_deref(),
                ..calibration
            },
            ..Job::new(part, &share.setup)
        };
        let plan = divide_as_stored(&job, &opened.plan_of(position))?;
        let why = "its plan has other nodes than this model";
        let (plan, scaled) = plan.ok_or_else(|| other_model(why))?;
        let plan = match several {
            true => plan.with_prefix(&split::prefix(position, &share.setup)),
            false => plan,
        };
        plans.push((plan, scaled));
    }
    for (stage, _) in opened.executable.programs() {
        check_segment(stage, &plans[stage.machine].0)?;
    }
    Ok(plans)
}

/// Prepares and divides the model as it was compiled and compares the program with its golden model.
///
/// # Errors
/// `Q0613` when the program is not one of this model; inputs that do not fit; faults at run time.
pub fn against_model(
    opened: &Opened<'_>,
    against: &Against<'_>,
    data: &Dataset,
    with_departures: bool,
    threads: NonZeroUsize,
    progress: &dyn Progress,
) -> Outcome<Agreement> {
    let executable = &opened.executable;
    let plans = plans(opened, against)?;
    let plans = plans.iter().map(|(plan, _)| plan);
    let setups = opened.machines.iter().map(|share| &share.setup);
    let goldens = goldens(executable, &plans.zip(setups).collect::<Vec<_>>())?;
    progress.start("verify", data.images.len());
    let results = parallel::map(
        data.images.len(),
        threads,
        || executable.load(),
        |session, index| {
            let image = &data.images[index];
            let mut observed =
                session.run_traced(image).map_err(|problem| data.at_image(index, problem))?;
            let mut golden = executable.golden(&goldens, image)?;
            executable.blank(&mut observed.device)?;
            executable.blank(&mut golden.device)?;
            let departures = match with_departures {
                true => executable.departures(&goldens, image)?,
                false => Vec::new(),
            };
            progress.step();
            let difference = first_difference(&observed.device, &golden.device);
            let Trace { clipped, handovers, .. } = observed;
            Ok((difference, departures, clipped, handovers))
        },
    )?;
    let (mut differences, mut departures, mut clipped) = (Vec::new(), Vec::new(), Vec::new());
    let mut handovers = Vec::new();
    for (difference, of_image, beyond, handed) in results {
        handovers.extend(handed);
        differences.push(difference);
        departures.push(of_image);
        Clipped::gather(&mut clipped, &beyond);
    }
    let difference = differences.iter().enumerate().find_map(|(image, text)| {
        Some(Diagnostic::answer("Q0620", format!("image {image}: {}", text.as_ref()?)))
    });
    Ok(Agreement {
        images: differences.len(),
        bit_exact: differences.iter().filter(|d| d.is_none()).count(),
        difference,
        clipped,
        handovers,
        departures: with_departures.then(|| largest(departures)),
    })
}

/// Prepares and divides the model as it was compiled and looks for where the program parts from it.
///
/// # Errors
/// As [`against_model`].
pub fn bisect_against(
    opened: &Opened<'_>,
    against: &Against<'_>,
    data: &Dataset,
    progress: &dyn Progress,
) -> Outcome<Bisection> {
    let plans = plans(opened, against)?;
    let machines: Vec<_> = plans
        .iter()
        .zip(&opened.machines)
        .map(|((plan, scaled), share)| bisect::Machine { plan, setup: &share.setup, scaled })
        .collect();
    let executable = &opened.executable;
    let case = bisect::Case { executable, machines: &machines, model: &against.model.graph };
    Ok(bisect::bisect(&case, data, progress)?)
}

/// The largest differences over all images, each of which has the same departures.
fn largest(images: Vec<Vec<Departure>>) -> Vec<Departure> {
    let mut all = images.into_iter();
    let mut most = all.next().unwrap_or_default();
    for image in all {
        for (most, one) in most.iter_mut().zip(image) {
            most.alone = most.alone.max(one.alone);
            most.mean = most.mean.max(one.mean);
            most.together = most.together.max(one.together);
        }
    }
    most
}

/// The program reads and computes the values of the model's segment.
fn check_segment(stage: &Stage, plan: &Plan) -> Result<()> {
    let same = |graph: &Graph, ids: &[ValueId], names: &[String]| {
        let mut of_graph: Vec<&str> = ids.iter().map(|&id| graph[id].name.as_str()).collect();
        let mut of_stage: Vec<&str> = names.iter().map(String::as_str).collect();
        of_graph.sort_unstable();
        of_stage.sort_unstable();
        of_graph == of_stage
    };
    let graph = plan.segment(&stage.name);
    let fits = graph.is_some_and(|graph| {
        same(graph, graph.inputs(), &stage.inputs) && same(graph, graph.outputs(), &stage.outputs)
    });
    if fits && matches!(stage.body, Body::Device { .. }) {
        return Ok(());
    }
    let name = &stage.name;
    Err(other_model(&format!("segment {name:?} is not a segment of this model on this machine")))
}

fn other_model(why: &str) -> Diagnostic {
    Diagnostic::invalid("Q0613", why)
        .help("give the model and the options the program was compiled with")
}
