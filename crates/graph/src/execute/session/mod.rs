//! Prepared execution: a graph is analysed once and then run many times, fast.
//!
//! [`Session::new`] decides for every value in which **form** it is carried and turns every node
//! into steps over slots: weights are packed, layouts chosen, what depends on constants only is
//! computed, and the last reader of every slot is known, so that memory is freed or reused at
//! once.
//!
//! * A value **on a grid** (a result of a quantiser, a constant stored as codes, and what layers,
//!   poolings, movements and elementwise operators make of such values and of constants) is
//!   carried as integers with an exact unit, or as an expression of them that its reader
//!   evaluates. Quantisers of such values round the exact rational number: the result equals that
//!   of [`exact`](super::exact) bit for bit, see [`grid::round`]. Read as f32, such a value is
//!   computed in f64 and rounded once.
//! * Every **other** value is f32. Convolutions and products add in their own order, with
//!   fused multiplications where the processor has them, so results differ from
//!   [`float`](super::float) by rounding only. A quantiser of such a value rounds exactly what it
//!   is given.
//! * What has no fast form uses the operator of [`float`](super::float), or of
//!   [`exact`](super::exact) when all operands lie on grids and the result is exact.
//!
//! Results do not depend on the number of threads: every element is computed by one thread, in an
//! order that does not depend on its neighbours.

mod build;
mod data;
mod field;
mod grid;
mod movement;
mod real;
mod threads;
mod value;

use super::{Keep, find_input};
use crate::{Graph, NodeId, ValueId};
use build::Builder;
use data::{Data, Slot};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::Level;
use quincunx_tensor::{Shape, Tensor, Tensors};
use std::num::NonZeroUsize;
use std::sync::Arc;
use threads::Threads;

/// How a session computes.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Which values a run returns.
    pub keep: Keep,
    /// Threads that the work of one run is divided among. Results do not depend on it.
    pub threads: NonZeroUsize,
    /// Instructions of products. Integers do not depend on it, f32 sums by rounding only.
    pub level: Level,
}

impl Default for Settings {
    /// Outputs, one thread, the fastest instructions of this processor.
    fn default() -> Self {
        Settings { keep: Keep::Outputs, threads: NonZeroUsize::MIN, level: Level::best() }
    }
}

/// A graph that is ready to run, with its weights packed.
pub struct Session {
    graph: Arc<Graph>,
    threads: Threads,
    slots: usize,
    constants: Vec<(Slot, Arc<Data>)>,
    inputs: Vec<(ValueId, Slot)>,
    steps: Vec<Step>,
    /// First those that no step computes, then the others in the order of their steps.
    kept: Vec<Kept>,
    /// How many of them no step computes.
    early: usize,
}

/// What computes a slot from others. Operands come as shared pointers: one that nobody else holds
/// may be overwritten.
type Kernel = Box<dyn Fn(&Threads, Vec<Arc<Data>>) -> Result<Data> + Send + Sync>;

struct Step {
    node: Option<NodeId>,
    reads: Vec<Slot>,
    /// Slots that nothing reads afterwards.
    last: Vec<Slot>,
    write: Slot,
    /// Its result is only shown: no step reads it.
    is_shown: bool,
    kernel: Kernel,
}

/// A value that is returned.
struct Kept {
    name: String,
    slot: Slot,
    shape: Shape,
}

impl Session {
    /// Prepares a graph.
    ///
    /// # Errors
    /// `Q0312` for a graph too large to execute; errors of nodes that depend on constants only.
    pub fn new(graph: &Graph, settings: Settings) -> Result<Self> {
        super::check_size(graph, super::float::MAX_ELEMENTS)?;
        super::check_memory(graph, settings.keep, 4)?;
        Builder::new(graph, settings).finish()
    }

    /// Prepares a graph whose values are looked at one by one with [`Session::values`], and need not be
    /// there together.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn for_values(graph: &Graph, settings: Settings) -> Result<Self> {
        super::check_size(graph, super::float::MAX_ELEMENTS)?;
        super::check_memory(graph, Keep::Outputs, 4)?;
        Builder::new(graph, Settings { keep: Keep::All, ..settings }).finish()
    }

    /// Runs the graph.
    ///
    /// # Errors
    /// `Q0310` for a missing input, or one of another type or shape; `Q0311` for an operator or
    /// type that the arithmetic does not cover.
    pub fn run(&self, inputs: &Tensors) -> Result<Tensors> {
        let named = |value: Result<(&str, Tensor)>| value.map(|(name, x)| (name.to_owned(), x));
        self.values(inputs)?.map(named).collect()
    }

    /// Runs the graph value by value: each that is kept comes once, when it is there, and is freed
    /// as soon as nothing else reads it.
    ///
    /// # Errors
    /// As [`Session::run`], here or with the values.
    pub fn values(&self, inputs: &Tensors) -> Result<Values<'_>> {
        let mut slots: Vec<Option<Arc<Data>>> = vec![None; self.slots];
        for &(id, slot) in &self.inputs {
            let tensor = find_input(&self.graph, id, inputs)?;
            slots[slot.index()] = Some(Arc::new(Data::Tensor(tensor.clone())));
        }
        for (slot, data) in &self.constants {
            slots[slot.index()] = Some(Arc::clone(data));
        }
        Ok(Values { session: self, slots, step: 0, shown: 0 })
    }

    fn step(&self, step: &Step, slots: &mut [Option<Arc<Data>>]) -> Result<Data> {
        quincunx_stop::check();
        let take = |slot: &Slot| slots[slot.index()].clone().ok_or_else(|| absent(*slot));
        let operands = step.reads.iter().map(take).collect::<Result<Vec<_>>>()?;
        // The operands hold what is read for the last time alone, and free it in the end.
        step.last.iter().for_each(|slot| slots[slot.index()] = None);
        (step.kernel)(&self.threads, operands).map_err(|problem| match step.node {
            Some(node) => problem.at(self.graph.place(&self.graph[node])),
            None => problem,
        })
    }
}

/// A run that gives the values that are kept one by one: [`Session::values`].
pub struct Values<'s> {
    session: &'s Session,
    slots: Vec<Option<Arc<Data>>>,
    /// Steps that were done.
    step: usize,
    /// Values that were given.
    shown: usize,
}

impl<'s> Values<'s> {
    /// The next value, if it is there already.
    fn shown(&mut self) -> Option<Result<(&'s str, Tensor)>> {
        let Kept { name, slot, shape } = self.session.kept.get(self.shown)?;
        let newest = self.step.checked_sub(1).map(|step| self.session.steps[step].write);
        if self.shown >= self.session.early && newest != Some(*slot) {
            return None;
        }
        self.shown += 1;
        let data = self.slots[slot.index()].as_ref().ok_or_else(|| absent(*slot));
        Some(data.and_then(|data| Ok((name.as_str(), data.to_tensor(shape)?))))
    }
}

impl<'s> Iterator for Values<'s> {
    type Item = Result<(&'s str, Tensor)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(value) = self.shown() {
                return Some(value);
            }
            let steps = &self.session.steps;
            let before = self.step.checked_sub(1).map(|step| &steps[step]);
            if let Some(before) = before.filter(|before| before.is_shown) {
                self.slots[before.write.index()] = None;
            }
            let step = steps.get(self.step)?;
            self.step += 1;
            match self.session.step(step, &mut self.slots) {
                Ok(result) => self.slots[step.write.index()] = Some(Arc::new(result)),
                Err(problem) => {
                    // Nothing follows.
                    (self.step, self.shown) = (steps.len(), self.session.kept.len());
                    return Some(Err(problem));
                }
            }
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({}, {} steps)", self.graph.name, self.steps.len())
    }
}

fn absent(slot: Slot) -> Diagnostic {
    Diagnostic::bug(format!("slot {} was not computed before it was read", slot.index()))
}
