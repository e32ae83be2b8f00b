//! The program of a layer: its results one group after the other, each of as many as registers
//! suffice for.

use super::goals::{self, Kernels};
use super::layers::{Head, Kind, Layer};
use super::ranges::Ranges;
use super::weights::Nearness;
use super::{Writer, find, levels};
use crate::goal::Bag;
use crate::isa::{Inst, Reg};
use crate::options::Wishes;
use crate::ports::Plane;
use crate::program::Space;
use crate::search::{Effort, Wish};
use crate::task::{Task, Wanted};
use quincunx_diag::{Class, Diagnostic, Result};
use quincunx_graph::{Node, Op, ValueId};
use std::collections::BTreeSet;

/// What is known about a layer before its program is found.
struct Part<'a> {
    layer: &'a Layer,
    inputs: Vec<Reg>,
    /// No later layer reads the inputs.
    is_last: bool,
    /// A later layer reads the result.
    is_kept: bool,
}

impl Part<'_> {
    /// All results must be there at once.
    fn is_whole(&self, wishes: &Wishes) -> bool {
        self.is_kept || !wishes.outputs.is_empty()
    }
}

impl Writer<'_> {
    /// Writes a layer.
    pub(super) fn layer(&mut self, index: usize, layer: &Layer) -> Result<()> {
        let name = &self.node(layer)?.name;
        let bug = || Diagnostic::bug(format!("nothing holds the operand of {name:?}"));
        let x = layer.operand;
        let kernels = self.kernels(layer)?;
        let values: Vec<ValueId> = layer.nodes().map(|node| self.graph[node].output).collect();
        let result = *values.last().ok_or_else(bug)?;
        let part = Part {
            layer,
            inputs: self.live.get(&x).cloned().ok_or_else(bug)?,
            is_last: self.last_reader(x) == Some(index),
            is_kept: self.last_reader(result).is_some(),
        };
        for stage in &layer.stages {
            if let Kind::Compare(_, numbers) = &stage.kind {
                self.note_levels(&self.graph[stage.node].name, "compared numbers", numbers);
            }
        }
        let first = self.program.instructions.len();
        if layer.cleared {
            self.clear(self.network.areas[&x], &part.inputs)?;
        }
        let planes = self.groups(&part, &kernels, x)?;
        if part.is_last {
            self.live.remove(&x);
        }
        if let Some(last) = planes.last() {
            self.section(layer, first, last)?;
            if part.is_kept {
                let registers = last.iter().map(|plane| plane.register.1).collect();
                self.live.insert(result, registers);
            }
        }
        for (&value, planes) in values.iter().zip(planes) {
            self.results.push(self.lie(value, planes));
        }
        Ok(())
    }

    /// What the head of a layer computes.
    fn kernels(&mut self, layer: &Layer) -> Result<Kernels> {
        let x = layer.operand;
        let Head::Conv(id) = layer.head else {
            return Ok(Kernels::copy(self.graph[x].shape[1]));
        };
        let (node, conv) = match &self.graph[id] {
            node @ Node { op: Op::Conv(conv), .. } => (node, conv),
            node => return Err(Diagnostic::bug(format!("{:?} is no convolution", node.name))),
        };
        let nearness = Nearness { depth: self.wishes.depth, error: self.wishes.error };
        let area = self.network.areas[&x];
        let kernels = goals::kernels(self.graph, node, conv, area, nearness)?;
        self.note(node, &kernels, layer.biased);
        Ok(kernels)
    }

    fn note(&mut self, node: &Node, kernels: &Kernels, biased: bool) {
        self.depths.insert(node.name.clone(), kernels.depth);
        let name = &node.name;
        if kernels.error > 0.0 {
            let (depth, error) = (kernels.depth, kernels.error);
            let message = format!("\"{name}\": weights are multiples of 2^-{depth}");
            let message = format!("{message}, the sum of their errors is {error:.3e}");
            self.notes.push(Diagnostic::note("Q5066", message));
        }
        if biased {
            self.biased.insert(name.clone());
            self.note_levels(name, "biases", &kernels.bias);
        }
    }

    /// Says how far IN is from some numbers.
    fn note_levels(&mut self, name: &str, what: &str, numbers: &[f64]) {
        let scale = self.network.scale;
        let error = numbers.iter().map(|&number| levels::error(number, scale)).fold(0.0, f64::max);
        if error > 0.0 {
            let message = format!("\"{name}\": {what} are multiples of 2^{}", -scale);
            let message = format!("{message} on the array, the largest error is {error:.3e}");
            self.notes.push(Diagnostic::note("Q5111", message).help("`--scale` sets the multiple"));
        }
    }

    /// Results one group after the other, each of as many as registers suffice for: for every value of
    /// the layer, its channels.
    fn groups(&mut self, part: &Part, kernels: &Kernels, x: ValueId) -> Result<Vec<Vec<Plane>>> {
        let others = self.live.iter().filter(|(id, _)| **id != x).flat_map(|(_, list)| list);
        let busy: BTreeSet<Reg> = others.copied().collect();
        let pool: Vec<Reg> =
            self.wishes.pool.iter().copied().filter(|r| !busy.contains(r)).collect();
        let spare: Vec<Reg> = pool.iter().copied().filter(|r| !part.inputs.contains(r)).collect();
        let (total, mut done) = (kernels.goals.0.len(), 0);
        let mut values = vec![Vec::new(); part.layer.nodes().count()];
        // What fitted once fits again; at the end, the registers of the operand are free as well.
        let mut most = total;
        while done < total {
            let left = total - done;
            let mut size = left.min(most + usize::from(part.is_last));
            loop {
                let is_end = part.is_last && size == left;
                let pool = if is_end { &pool } else { &spare };
                match self.group(part, kernels, done..done + size, pool) {
                    Ok(group) => {
                        values.iter_mut().zip(group).for_each(|(all, own)| all.extend(own));
                        break;
                    }
                    Err(problem)
                        if problem.class() == Class::Unsupported
                            && size > 1
                            && !part.is_whole(self.wishes) =>
                    {
                        size -= 1;
                    }
                    Err(problem) => return Err(problem),
                }
            }
            (done, most) = (done + size, size);
        }
        Ok(values)
    }

    /// The registers of some results.
    fn outputs(
        &self,
        part: &Part,
        kernels: &Kernels,
        count: usize,
        pool: &[Reg],
    ) -> Result<Vec<Reg>> {
        let (named, all) = (&self.wishes.outputs, kernels.goals.0.len());
        if !named.is_empty() && (named.len() != all || self.network.layers.len() > 1) {
            let layers = self.network.layers.len();
            let message = format!("option output-registers names {} registers", named.len());
            let message = format!("{message} for {all} results of {layers} layers");
            return Err(Diagnostic::invalid("Q5055", message)
                .help("it names one for each result of a single layer"));
        }
        let is_copy = part.layer.head == Head::Copy && count == all;
        let outputs: Vec<Reg> = if !named.is_empty() {
            named.clone()
        } else if is_copy && part.inputs.iter().all(|input| pool.contains(input)) {
            part.inputs.clone()
        } else {
            let free = pool.iter().filter(|register| !part.inputs.contains(register));
            let own = pool.iter().filter(|register| part.inputs.contains(register));
            free.chain(own).copied().take(count).collect()
        };
        if outputs.len() < count || outputs.iter().any(|output| !pool.contains(output)) {
            let message = format!("{count} results at once, {} registers are free", pool.len());
            return Err(Diagnostic::unsupported("Q5056", message));
        }
        Ok(outputs)
    }

    /// Some results at once: for every value of the layer, their channels.
    fn group(
        &mut self,
        part: &Part,
        kernels: &Kernels,
        range: std::ops::Range<usize>,
        pool: &[Reg],
    ) -> Result<Vec<Vec<Plane>>> {
        let outputs = self.outputs(part, kernels, range.len(), pool)?;
        let rest = pool.iter().filter(|register| !outputs.contains(register)).copied();
        let ranges = self.ranges(part, kernels, range.clone())?;
        let means = self.means(part.layer, &outputs, rest.collect(), ranges.as_ref())?;
        // Outputs come first in a pool.
        let pool: Vec<Reg> = outputs.iter().chain(&means.temporaries).copied().collect();
        let goals = Bag(kernels.goals.0[range.clone()].to_vec());
        let inputs = part.inputs.clone();
        let wanted = Wanted { goals, depth: kernels.depth, inputs, outputs: outputs.clone() };
        let task =
            Task { macros: self.wishes.macros.clone(), ..Task::new(wanted, pool, self.arch)? };
        let names: Vec<String> = outputs.iter().map(Reg::to_string).collect();
        let of = format!("\"{}\" in {}", self.node(part.layer)?.name, names.join(" "));
        // The groups of a layer share the effort.
        let share = self.wishes.effort.0.saturating_mul(range.len() as u64);
        let effort = Effort(share / kernels.goals.0.len().max(1) as u64);
        let wish = Wish { range: ranges.as_ref().map(Ranges::operand), ..self.wishes.wish };
        let wishes = Wishes { effort, wish, ..self.wishes.clone() };
        let found = find::find(&of, &task, self.arch, &wishes)?;
        let first = self.program.instructions.len();
        self.told.add(found.told);
        self.program.instructions.extend(found.program.instructions);
        if let (true, Some(&x)) = (self.program.instructions.is_empty(), outputs.first()) {
            // Values are read after an instruction.
            self.program.instructions.push(Inst::Mov { y: x, x });
        }
        let (mut values, mut after) = (Vec::new(), vec![0.0; range.len()]);
        if part.layer.biased {
            self.biases(&kernels.bias[range.clone()], &task.wanted, first)?;
        } else {
            after.copy_from_slice(&kernels.bias[range.clone()]);
        }
        if part.layer.head != Head::Copy {
            let registers = outputs.iter().map(|&y| (Space::Analogue, y));
            values.push(self.planes(registers, &after));
        }
        let none = vec![0.0; range.len()];
        for stage in part.layer.stages.iter().enumerate() {
            let registers = self.stage(stage, range.start, &outputs, &means)?;
            values.push(self.planes(registers.into_iter(), &none));
        }
        if let (Some(ranges), Some(result)) = (ranges, part.layer.last(self.graph)) {
            let own = ranges.result();
            self.ranges.entry(result).and_modify(|all| *all = all.or(own)).or_insert(own);
        }
        Ok(values)
    }

    /// How large values of some results can be, where a range was asked for.
    fn ranges(
        &self,
        part: &Part,
        kernels: &Kernels,
        channels: std::ops::Range<usize>,
    ) -> Result<Option<Ranges>> {
        let Some(&operand) = self.ranges.get(&part.layer.operand) else { return Ok(None) };
        let limits = (self.network.scale, self.arch.saturation);
        Ranges::new(part.layer, kernels, channels, operand, limits).map(Some)
    }
}
