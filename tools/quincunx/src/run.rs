//! `run`: a program on inputs.

use crate::executable::{Executable, Machines, Session, Trace, top1};
use crate::{Dataset, InputSpec, Progress, Stack, parallel};
use quincunx_contract::{Clipped, Engine};
use quincunx_diag::{Diagnostic, Result};
use quincunx_report::{Cell, Column, Table};
use quincunx_tensor::{Tensor, Tensors, element_count};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Mutex, Once, PoisonError};

/// Numbers of an output that people see.
const SHOWN: usize = 10;

/// Most images that are handed to a simulator together.
const BATCH: usize = 1024;

/// Most numbers of their inputs, so that many large images do not fill the memory.
const BATCH_NUMBERS: usize = 1 << 22;

/// Numbers of stacked images that are checked, converted and computed before the next: they stay in the cache.
const STACK_NUMBERS: usize = 1 << 15;

/// Which values of the network are observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layers {
    /// None.
    None,
    /// Those with these names.
    Of(BTreeSet<String>),
    /// All.
    All,
}

impl Layers {
    /// Whether any value of the executable that is not an output is among them.
    fn any_in(&self, executable: &Executable) -> bool {
        match self {
            Layers::None => false,
            // The array of a file that holds one may have no name; it is an output.
            Layers::Of(names) => {
                let output = |name: &String| name.is_empty() || executable.outputs.contains(name);
                !names.iter().all(output)
            }
            Layers::All => true,
        }
    }

    /// Drops what is not wanted.
    fn keep(&self, trace: &mut Trace) {
        if let Layers::Of(names) = self {
            trace.host.retain(|name, _| names.contains(name));
            trace.device.retain(|name, _| names.contains(name));
        }
    }
}

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The values of the network in a trace, besides its outputs.
    pub layers: Layers,
    /// Which simulator.
    pub engine: Engine,
    /// Threads over images. Results do not depend on it; there is one if the program keeps a state.
    pub threads: NonZeroUsize,
}

/// Simulators of one executable that are loaded and wait for the next run: loading takes longer than
/// running an image. Threads may share it.
#[derive(Default)]
pub struct Idle(Mutex<Vec<(Engine, Machines)>>);

impl Idle {
    /// A session of this engine, of waiting simulators if there are some.
    fn take<'e>(&self, executable: &'e Executable, engine: Engine) -> Result<Session<'e>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            all.iter().position(|(own, _)| *own == engine).map(|place| all.swap_remove(place));
        drop(all);
        match known {
            Some((_, machines)) => Ok(executable.resume(machines)),
            None => executable.load_with(engine),
        }
    }

    fn give(&self, engine: Engine, machines: Machines) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((engine, machines));
    }
}

/// A session whose simulators wait for the next run once this one is done. What stopped or failed is in no
/// known state, and does not.
struct Borrowed<'e> {
    session: Option<Session<'e>>,
    engine: Engine,
    idle: Option<&'e Idle>,
    failed: bool,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let (idle, session) = (self.idle, self.session.take());
        if let (Some(idle), Some(session), false) = (idle, session, self.failed) {
            idle.give(self.engine, session.rest());
        }
    }
}

/// Runs every image, in order.
///
/// # Errors
/// The first image that cannot be run.
pub fn run(
    executable: &Executable,
    data: &Dataset,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Vec<Trace>> {
    run_with(executable, data, options, progress, None)
}

/// The same with simulators of this executable that wait from one call to the next; programs that keep a
/// state are loaded anew, since each run begins with the start values.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    executable: &Executable,
    data: &Dataset,
    options: &Options,
    progress: &dyn Progress,
    idle: Option<&Idle>,
) -> Result<Vec<Trace>> {
    let count = data.images.len();
    progress.start("run", count);
    let observed = options.layers.any_in(executable);
    let numbers = |input: &InputSpec| element_count(&input.shape).unwrap_or(usize::MAX);
    let image = executable.inputs.iter().map(numbers).fold(1, usize::saturating_add);
    let in_order = executable.programs().any(|(_, program)| program.keeps_state());
    let threads = if in_order { NonZeroUsize::MIN } else { options.threads };
    let batch = (count / threads).min(BATCH).min(BATCH_NUMBERS / image).max(1);
    let traces = parallel::map(
        count.div_ceil(batch),
        threads,
        || {
            let idle = idle.filter(|_| !in_order);
            let session = match idle {
                Some(idle) => idle.take(executable, options.engine)?,
                None => executable.load_with(options.engine)?,
            };
            Ok(Borrowed { session: Some(session), engine: options.engine, idle, failed: true })
        },
        |borrowed, index| {
            // It stays so where something unwinds the stack.
            borrowed.failed = true;
            let session = borrowed.session.as_mut().ok_or_else(|| Diagnostic::bug("no session"))?;
            let first = index * batch;
            let images = &data.images[first..count.min(first + batch)];
            let traces = if observed {
                let run = |image| {
                    let mut trace = session.run_layers(image)?;
                    options.layers.keep(&mut trace);
                    Ok(trace)
                };
                images.iter().map(run).collect()
            } else {
                session.run_batch(images)
            };
            let placed = |(index, trace): (usize, Result<Trace>)| {
                progress.step();
                trace.map_err(|problem| data.at_image(first + index, problem))
            };
            let traces =
                traces.into_iter().enumerate().map(placed).collect::<Result<Vec<Trace>>>()?;
            borrowed.failed = false;
            Ok(traces)
        },
    )?;
    Ok(traces.into_iter().flatten().collect())
}

/// The outputs of stacked images, for programs that take them so: [`outputs`] of what [`run_with`] gives,
/// without an object for every image. `None` where it takes [`run_with`] to say what there is to say.
pub fn run_stacked(
    executable: &Executable,
    stack: &Stack,
    options: &Options,
    progress: &dyn Progress,
    idle: &Idle,
) -> Option<Tensors> {
    let keeps_state = executable.programs().any(|(_, program)| program.keeps_state());
    if keeps_state || options.layers != Layers::None {
        return None;
    }
    let image = stack.arrays.values().map(Tensor::len).sum::<usize>() / stack.images;
    let most = (STACK_NUMBERS / image.max(1)).max(BATCH).min(BATCH_NUMBERS / image.max(1));
    let part = most.min(stack.images.div_ceil(options.threads.get())).max(1);
    let started = Once::new();
    let parts = parallel::map(
        stack.images.div_ceil(part),
        options.threads,
        || {
            let session = Some(idle.take(executable, options.engine)?);
            Ok(Borrowed { session, engine: options.engine, idle: Some(idle), failed: true })
        },
        |borrowed, index| {
            borrowed.failed = true;
            let session = borrowed.session.as_mut().ok_or_else(|| Diagnostic::bug("no session"))?;
            let range = index * part..stack.images.min((index + 1) * part);
            let arrays = stack.arrays.iter();
            let arrays =
                arrays.map(|(name, array)| (name.clone(), array.outer_range(range.clone())));
            let outputs = session.run_stacked(&arrays.collect(), range.len());
            if outputs.is_some() {
                started.call_once(|| progress.start("run", stack.images));
                range.for_each(|_| progress.step());
            }
            borrowed.failed = false;
            Ok(outputs)
        },
    );
    let parts = parts.ok()?.into_iter().collect::<Option<Vec<Tensors>>>()?;
    let joined = executable.outputs.iter().map(|name| {
        let own: Vec<Tensor> = parts.iter().map(|part| part[name].clone()).collect();
        let whole = match &own[..] {
            [only] => only.clone(),
            _ => Tensor::concat_outer(&own).ok()?,
        };
        // Outputs of one image may have an outermost axis of their own.
        let shape = match whole.shape() {
            [images, 1, rest @ ..] => [&[*images], rest].concat(),
            shape => shape.to_vec(),
        };
        Some((name.clone(), whole.reshape(&shape).ok()?))
    });
    joined.collect()
}

/// What the machine's type did not hold, of all images.
pub fn clipped(traces: &[Trace]) -> Vec<Clipped> {
    let mut all = Vec::new();
    traces.iter().for_each(|trace| Clipped::gather(&mut all, &trace.clipped));
    all
}

/// The outputs of all images, stacked along the outermost axis.
///
/// # Errors
/// Images whose outputs differ in shape, which no program gives.
pub fn outputs(traces: &[Trace]) -> Result<Tensors> {
    stack(traces, |trace| &trace.outputs)
}

/// The observed values of all images, stacked along the outermost axis.
///
/// # Errors
/// As [`outputs`].
pub fn layers(traces: &[Trace]) -> Result<Tensors> {
    let mut values = stack(traces, |trace| &trace.host)?;
    values.extend(stack(traces, |trace| &trace.device)?);
    Ok(values)
}

fn stack(traces: &[Trace], of: impl Fn(&Trace) -> &Tensors) -> Result<Tensors> {
    let Some(first) = traces.first().map(&of) else { return Ok(Tensors::new()) };
    if traces.len() == 1 {
        return Ok(first.clone());
    }
    let stacked = first.iter().map(|(name, tensor)| {
        let mut parts: Vec<Tensor> =
            traces.iter().filter_map(|trace| of(trace).get(name).cloned()).collect();
        if tensor.shape().first() != Some(&1) {
            let shape: Vec<usize> = [1].iter().chain(tensor.shape()).copied().collect();
            parts = parts.iter().map(|part| part.reshape(&shape)).collect::<Result<_>>()?;
        }
        Ok((name.clone(), Tensor::concat_outer(&parts)?))
    });
    stacked.collect()
}

/// One row per image and output; `first` is the number of the first image.
pub fn table(traces: &[Trace], first: usize) -> Table {
    let mut table = Table::new(
        "rows",
        vec![
            Column::number("image"),
            Column::text("output"),
            Column::text("type"),
            Column::text("shape"),
            Column::number("top1"),
            Column::text("values"),
        ],
    );
    for (image, trace) in traces.iter().enumerate() {
        for (name, tensor) in &trace.outputs {
            table.push(vec![
                (first + image).into(),
                name.as_str().into(),
                tensor.dtype().name().into(),
                format!("{:?}", tensor.shape()).into(),
                top1(tensor).map_or(Cell::Empty, Cell::from),
                Cell::List(cells(tensor), SHOWN),
            ]);
        }
    }
    table
}

/// All numbers; integers keep their digits.
fn cells(tensor: &Tensor) -> Vec<Cell> {
    match tensor.to_i64() {
        Some(values) => values.into_iter().map(Cell::Integer).collect(),
        None => tensor.to_f64().into_iter().map(Cell::Brief).collect(),
    }
}
