//! Whether a program keeps up with the clock, and what it takes of the part.

use super::Artifact;
use crate::compile::pipeline::slowest;
use crate::isa::Inst;
use crate::rtl::{Design, Estimate, capacity};
use crate::time::stage_latency;
use quincunx_contract::{Demand, MemoryUse};
use quincunx_diag::{Diagnostic, Result};
use quincunx_report::{Cell, Table};

/// Sums of latencies this far apart are equal, as for da4ml.
const EPSILON: f64 = 1e-9;

/// Operations of a program above which its logic is not estimated, which would take a gigabyte and
/// is more than any part has.
const MOST_ESTIMATED: usize = 1 << 18;

/// Steps in a unit of latency, to which a cutoff is rounded down.
const STEPS: f64 = 1000.0;

impl Artifact {
    /// The longest stage in units of latency.
    fn longest(&self) -> f64 {
        self.timed().stages.iter().map(stage_latency).fold(0.0, f64::max)
    }

    /// Units of latency that fit a clock period, less its uncertainty.
    fn room(&self) -> f64 {
        self.rtl.clock * (1.0 - self.rtl.uncertainty) / self.rtl.level_delay
    }

    /// The clock period in ns that so many units of latency need.
    fn period(&self, latency: f64) -> f64 {
        latency * self.rtl.level_delay / (1.0 - self.rtl.uncertainty)
    }

    fn meets_clock(&self) -> bool {
        self.longest() <= self.room() + EPSILON
    }

    /// `Q1190` when a stage takes longer than the clock allows, with the cutoff or else the clock
    /// with which none does.
    pub(super) fn clock_problem(&self) -> Option<Diagnostic> {
        if self.meets_clock() {
            return None;
        }
        let longest = self.longest();
        let (clock, room) = (self.rtl.clock, (self.room() * STEPS).floor() / STEPS);
        let message = format!(
            "a stage takes {longest} adder levels, a clock of {clock} ns has time for {room}"
        );
        let (delay, uncertain) = (self.rtl.level_delay, self.rtl.uncertainty * 100.0);
        let assumed = format!(
            "assumed are {delay} ns for a level (--level-delay) and {uncertain} % uncertainty"
        );
        // An operation stays whole, so the slowest one bounds the cutoff.
        let slowest = self.pipeline.stages.iter().map(slowest).fold(0.0, f64::max);
        let slower = (self.period(longest) * STEPS).ceil() / STEPS;
        // Where latencies are counted, shorter stages have whole numbers of levels.
        let whole = room.floor();
        let cutoff = if whole >= slowest && whole > 0.0 { whole } else { room };
        let help = match slowest <= room + EPSILON {
            true => {
                format!("--latency-cutoff {cutoff} makes stages that fit; so does --clock {slower}")
            }
            false => {
                format!("one operation takes {slowest} levels; --clock {slower} is long enough")
            }
        };
        Some(Diagnostic::warning("Q1190", message).with_note(assumed).help(help))
    }

    /// What the program takes as logic, and how fast that is.
    pub(super) fn logic(&self) -> Result<Table> {
        let mut table = Table::properties("logic");
        let stages = &self.pipeline.stages;
        let all = || stages.iter().flat_map(|stage| &stage.operations);
        let adders = all().filter(|o| matches!(o.inst, Inst::Add { .. } | Inst::Sub { .. }));
        table.property("adders", adders.count());
        if let Some(estimate) = self.estimate() {
            table.property("LUTs, estimated", estimate.luts);
            table.property("flip-flops, estimated", estimate.flip_flops);
            if estimate.multipliers > 0 {
                table.property("multipliers, estimated", estimate.multipliers);
            }
            self.shares(&estimate, &mut table);
        } else if self.operations() > MOST_ESTIMATED {
            let reason = format!("not of more than {MOST_ESTIMATED} operations");
            table.property("LUTs, estimated", reason.as_str());
        }
        let scaled = self.ports.interface.scalings.len();
        if scaled > 0 {
            table.property("outputs that the driver scales", scaled);
        }
        table.property("latency in cycles", stages.len());
        table.property("latency in ns", Cell::Brief(stages.len() as f64 * self.rtl.clock));
        table.property("initiation interval in cycles", 1_u64);
        table.property("clock period in ns", Cell::Number(self.rtl.clock));
        table.property("adder levels of a stage", Cell::Number(self.longest()));
        let room = (self.room() * STEPS).floor() / STEPS;
        table.property("adder levels that fit the clock", Cell::Number(room));
        table.property("meets the clock", if self.meets_clock() { "yes" } else { "no" });
        Ok(table)
    }

    /// What the program takes of the part. A result is there with every clock: what holds it up is the
    /// clock, or adders in a row that are too many for it.
    pub(super) fn uses(&self) -> Demand {
        let (estimate, part) = (self.estimate(), capacity(&self.rtl.part));
        let share = estimate.as_ref().zip(part.as_ref());
        let registers = |estimate: &Estimate| MemoryUse {
            name: "flip-flops".to_owned(),
            unit: "bits",
            used: estimate.flip_flops,
            size: part.as_ref().map(|part| part.flip_flops),
        };
        let limit = if self.meets_clock() { "clock" } else { "adder levels" };
        Demand {
            seconds: Some(self.pipeline.stages.len() as f64 * self.rtl.clock * 1e-9),
            utilisation: share.map(|(estimate, part)| estimate.luts as f64 / part.luts as f64),
            limit: Some(limit.to_owned()),
            memories: estimate.iter().map(registers).collect(),
        }
    }

    /// LUTs and flip-flops; none where no logic can be made of the program, or too much.
    pub(super) fn estimate(&self) -> Option<Estimate> {
        if self.operations() > MOST_ESTIMATED {
            return None;
        }
        Some(Estimate::of(&Design::new(&self.pipeline).ok()?, self.registers()))
    }

    /// Shares of the part, if it is known.
    fn shares(&self, estimate: &Estimate, table: &mut Table) {
        table.property("part", self.rtl.part.as_str());
        let Some(part) = capacity(&self.rtl.part) else { return };
        let share = |used: u64, there: u64| Cell::Share(used as f64 / there as f64);
        table.property("share of its LUTs", share(estimate.luts, part.luts));
        table.property("share of its flip-flops", share(estimate.flip_flops, part.flip_flops));
        if estimate.multipliers > 0 {
            table.property(
                "share of its multipliers",
                share(estimate.multipliers, part.multipliers),
            );
        }
    }
}
