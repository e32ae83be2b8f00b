//! Rules about single instructions, and about the distance between instructions.

use super::Rules;
use crate::arch::TcuArch;
use crate::isa::{Inst, SimdOp};
use crate::program::{Action, Memory, Program, Span, Step, written_registers};
use quincunx_diag::Diagnostic;

/// Checks the instructions of a program one after the other.
pub(super) struct Checker<'a> {
    arch: &'a TcuArch,
    rules: &'a Rules,
    /// The last SIMD instruction that wrote an accumulator.
    simd_write: Option<usize>,
    /// Which lookup tables were loaded.
    loaded: u32,
    /// The warning about the probe was given; one is enough.
    probe_warned: bool,
}

impl<'a> Checker<'a> {
    pub(super) fn new(program: &'a Program, rules: &'a Rules) -> Self {
        let arch = &program.arch;
        Checker { arch, rules, simd_write: None, loaded: 0, probe_warned: false }
    }

    pub(super) fn step(&mut self, index: usize, step: &Step, found: &mut Vec<Diagnostic>) {
        let effects = step.inst.effects(self.arch);
        for span in effects.spans() {
            self.reach(span, found);
        }
        self.strides(&step.inst, found);
        self.weights(&step.inst, found);
        self.simd(&step.inst, found);
        self.tables(&step.inst, found);
        configuration(&step.inst, found);
        self.distance(index, &step.inst, found);
    }

    /// Every vector exists.
    fn reach(&mut self, span: &Span, found: &mut Vec<Diagnostic>) {
        let depth = span.memory.depth(self.arch);
        let name = span.memory.name();
        if span.last() >= depth {
            let last = span.last();
            let message = format!("{name}({last}) does not exist, {name} has {depth} vectors");
            let mut problem = Diagnostic::invalid("Q3040", message);
            if span.count > 1 {
                let (count, step) = (span.count, 1_u64 << span.stride);
                let base = span.base;
                problem =
                    problem.with_note(format!("{count} vectors from {base} in steps of {step}"));
            }
            // What is added to is both read and written.
            if !found.contains(&problem) {
                found.push(problem);
            }
        }
        let reserved = depth.saturating_sub(2);
        let is_probe = self.rules.flush_probe && span.memory == Memory::Dram0;
        if is_probe && !self.probe_warned && span.last() >= reserved && span.last() < depth {
            self.probe_warned = true;
            let message = "the last two vectors of DRAM0 are for the host's flush probe";
            found.push(
                Diagnostic::warning("Q3053", message)
                    .help("without a probe give --flush-probe=false"),
            );
        }
    }

    fn strides(&self, inst: &Inst, found: &mut Vec<Diagnostic>) {
        let depths = [self.arch.stride0_depth, self.arch.stride1_depth];
        for (stride, depth) in inst.strides().into_iter().zip(depths) {
            let stride = stride.unwrap_or(0);
            if stride >= depth {
                let message = format!("the stride 2^{stride} is not one of {depth}");
                found.push(Diagnostic::invalid("Q3043", message));
            }
        }
    }

    fn weights(&self, inst: &Inst, found: &mut Vec<Diagnostic>) {
        let Action::Push { local: from, count } = inst.action() else { return };
        let local = self.arch.local_depth;
        let rows = u64::from(self.arch.array_size) + 1;
        if from.is_none() && count > local {
            let message = format!("{count} rows of zeros, expected at most {local}");
            found.push(Diagnostic::invalid("Q3041", message));
        } else if count > rows {
            let message = format!("{count} rows for an array of {rows}; the first are pushed out");
            found.push(Diagnostic::warning("Q3042", message));
        }
    }

    fn simd(&self, inst: &Inst, found: &mut Vec<Diagnostic>) {
        let Inst::Simd { access, destination, compute, .. } = *inst else { return };
        let registers = self.arch.simd_registers_depth;
        let named = destination.max(compute.left).max(compute.right);
        if u32::from(named) > registers {
            let message = format!("register R{named} does not exist, the machine has {registers}");
            found.push(Diagnostic::invalid("Q3044", message));
        }
        let last = written_registers(self.arch, compute.op, destination).max().unwrap_or(0);
        if compute.op == SimdOp::Lookup && last > registers {
            let message = format!("the results of the lookup need registers up to R{last}");
            found.push(
                Diagnostic::invalid("Q3045", message)
                    .with_note(format!("the machine has {registers} registers")),
            );
        }
        let ignored = compute.left != 0 && compute.right != 0 && compute.op != SimdOp::NoOp;
        if access.reads() && ignored {
            let message = "an accumulator is read, but no source is the input";
            found.push(Diagnostic::invalid("Q3046", message));
        }
        if access.accumulates() && !access.writes() {
            let message = "the flag to accumulate does nothing without the one to write";
            found.push(Diagnostic::warning("Q3047", message));
        }
    }

    fn tables(&mut self, inst: &Inst, found: &mut Vec<Diagnostic>) {
        match *inst {
            Inst::LoadLut { table, .. } => self.loaded |= 1 << table.min(31),
            Inst::Simd { compute, .. } if compute.op == SimdOp::Lookup => {
                let tables = self.arch.lookup_tables.unwrap_or(0);
                if let Some(table) = (0..=tables).find(|table| self.loaded >> table & 1 == 0) {
                    let message = format!("table {table} was not loaded, its entries are zeros");
                    found.push(Diagnostic::warning("Q3055", message));
                    // Once for every table is enough.
                    self.loaded |= 1 << table;
                }
            }
            _ => {}
        }
    }

    fn distance(&mut self, index: usize, inst: &Inst, found: &mut Vec<Diagnostic>) {
        match *inst {
            Inst::Simd { access, .. } if access.writes() => self.simd_write = Some(index),
            Inst::AccToLocal { .. } => {
                let Some(write) = self.simd_write else { return };
                let (between, gap) = (
                    index.saturating_sub(write).saturating_sub(1) as u64,
                    self.rules.simd_write_gap,
                );
                if between < gap {
                    let message =
                        format!("{between} instructions since the last SIMD write, expected {gap}");
                    found.push(
                        Diagnostic::invalid("Q3051", message)
                            .with_note(format!("instruction {write} writes an accumulator"))
                            .help("put NoOps in between"),
                    );
                }
            }
            _ => {}
        }
    }
}

fn configuration(inst: &Inst, found: &mut Vec<Diagnostic>) {
    let Inst::Configure { register, value } = *inst else { return };
    let (name, width) = (register.name(), register.width());
    if width == 0 {
        let message = format!("the configuration register {name} does nothing");
        found.push(Diagnostic::warning("Q3048", message));
    } else if value >> width != 0 {
        let message = format!("{value} does not fit {name}, which has {width} bits");
        found.push(Diagnostic::invalid("Q3049", message));
    }
}
