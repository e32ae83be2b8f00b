//! How long a launch takes.
//!
//! Its groups fill the machine in waves, as many as its cores hold at a time; consecutive groups share
//! a core (ours). A launch takes as long as the engine that holds the most threads in each wave, or as
//! what messages move takes at the first cache, the second or memory, whichever is longest.

use super::engine::{Residents, Work, run};
use super::trace::{LINE, Place, Prepared, Trace, trace};
use crate::arch::DpasArch;
use crate::simulate::launch::Launch;
use quincunx_diag::{Diagnostic, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// What a launch costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Cycles.
    pub cycles: u64,
    /// Waves of groups.
    pub waves: u64,
    /// Threads that an engine holds in a full wave.
    pub threads: u64,
    /// Instructions of all threads.
    pub instructions: u64,
    /// Multiplications with accumulation of all threads.
    pub macs: u64,
    /// Cycles that systolic arrays work, of all arrays together.
    pub array: u64,
    /// Cycles that the busiest engine issues, its array works, and that the engine takes where caches
    /// and memory are not too slow.
    pub issue: u64,
    /// As `issue`: its systolic array.
    pub systolic: u64,
    /// As `issue`: until its threads have ended.
    pub engine: u64,
    /// Cycles that the first cache of a core needs.
    pub l1: u64,
    /// Cycles that the second cache needs for a core.
    pub l2: u64,
    /// Cycles that memory needs.
    pub memory: u64,
    /// Bytes that memory moves.
    pub bytes: u64,
}

/// Share of time from which on a unit is the limit of an engine.
const BUSY: f64 = 0.75;

impl Cost {
    /// What limits the launch: `memory`, `L2`, `L1`, `systolic`, `issue` or `latency`.
    pub fn limit(&self) -> &'static str {
        let roofs = [(self.memory, "memory"), (self.l2, "L2"), (self.l1, "L1")];
        let longest = roofs.iter().max_by_key(|(cycles, _)| *cycles);
        if let Some((cycles, name)) = longest
            && *cycles > self.engine
        {
            return name;
        }
        let units = [(self.systolic, "systolic"), (self.issue, "issue")];
        let busy = |cycles: u64| cycles as f64 >= BUSY * self.engine as f64;
        units.into_iter().find(|(cycles, _)| busy(*cycles)).map_or("latency", |(_, name)| name)
    }
}

/// Where the messages of a launch go.
pub(super) struct Memory<'a> {
    /// Addresses of buffers that the second cache does not hold.
    pub(super) cold: &'a [Range<u64>],
    /// Bytes of all buffers of the launch.
    pub(super) buffers: u64,
}

/// Along what groups and threads differ: x, y, z of groups, then the bits of a thread's number.
const AXES: usize = 3 + 10;

/// Lines of a thread by the axes (a bit each) that their addresses depend on.
struct Traffic {
    /// Lines that the first cache moves.
    lines: u64,
    /// Lines that the thread is the first of its like to touch.
    fresh: BTreeMap<usize, u64>,
}

impl Traffic {
    /// Bytes that differ among so many consecutive groups, on the average.
    fn distinct(&self, launch: &Launch<'_>, groups: f64) -> f64 {
        let threads = groups * f64::from(launch.threads);
        let extents = extents(launch, groups);
        let lines = self.fresh.iter().map(|(axes, lines)| {
            let own = extents.iter().enumerate().filter(|(axis, _)| axes >> axis & 1 == 1);
            let copies: f64 = own.map(|(_, extent)| *extent).product();
            *lines as f64 * copies.min(threads)
        });
        lines.sum::<f64>() * LINE as f64
    }
}

/// The extents of so many consecutive groups along the axes, on the average.
fn extents(launch: &Launch<'_>, groups: f64) -> [f64; AXES] {
    let [x, y, _] = launch.groups.map(f64::from);
    let mut extents = [2.0; AXES];
    extents[..3].copy_from_slice(&[x.min(groups), y.min(groups / x), groups / (x * y)]);
    extents.map(|extent| extent.max(1.0))
}

/// The neighbour of a thread along an axis; `None` where there is none.
fn neighbour(place: Place, launch: &Launch<'_>, axis: usize) -> Option<Place> {
    let mut other = place;
    match other.group.get_mut(axis) {
        Some(index) => *index = index.checked_sub(1)?,
        None => other.thread ^= 1 << (axis - 3),
    }
    (other.thread < launch.threads).then_some(other)
}

/// The trace of a thread in the middle of a launch, and what it moves.
fn traffic(kernel: &Prepared, launch: &Launch<'_>) -> Result<(Trace, Traffic)> {
    let arch = &kernel.arch;
    let capacity = (u64::from(arch.l1_kib) << 10) / LINE / u64::from(arch.threads());
    let middle = Place { group: launch.groups.map(|extent| extent / 2), thread: 0 };
    let own = trace(kernel, launch, middle, capacity as usize)?;
    let mut axes = vec![0usize; own.accesses.len()];
    for axis in 0..AXES {
        let Some(place) = neighbour(middle, launch, axis) else { continue };
        let other = trace(kernel, launch, place, capacity as usize)?;
        for (at, (axes, access)) in axes.iter_mut().zip(&own.accesses).enumerate() {
            let same = other.accesses.get(at).is_some_and(|other| other.base == access.base);
            if access.base.is_none() || !same {
                *axes |= 1 << axis;
            }
        }
    }
    let mut traffic = Traffic { lines: 0, fresh: BTreeMap::new() };
    for (axes, access) in axes.into_iter().zip(&own.accesses) {
        traffic.lines += u64::from(access.lines);
        *traffic.fresh.entry(axes).or_default() += u64::from(access.fresh);
    }
    Ok((own, traffic))
}

/// What a launch costs.
///
/// # Errors
/// `Q6172` for a group that no core holds, and those of a thread's trace.
pub(super) fn cost(kernel: &Prepared, launch: &Launch<'_>, memory: &Memory<'_>) -> Result<Cost> {
    let arch = &kernel.arch;
    let of_core = groups_of_core(arch, launch)?;
    let (trace, traffic) = traffic(kernel, launch)?;
    let groups = launch.groups.iter().fold(1u64, |n, extent| n.saturating_mul((*extent).into()));
    let threads = groups.saturating_mul(launch.threads.into());
    let steps = || trace.steps.iter().map(|step| &kernel.instructions[*step as usize]);
    let mut cost = Cost {
        instructions: threads.saturating_mul(trace.steps.len() as u64),
        macs: threads.saturating_mul(steps().map(|step| step.macs).sum()),
        array: threads.saturating_mul(steps().map(|step| step.array()).sum()),
        ..Cost::default()
    };
    let is_cold = |address: u64| memory.cold.iter().any(|range| range.contains(&address));
    let (cores, full) = (u64::from(arch.cores), of_core.saturating_mul(arch.cores.into()));
    let (waves, rest) = (groups / full, groups % full);
    for (times, of_core) in [(waves, of_core), (1, rest.div_ceil(cores))] {
        if times > 0 && of_core > 0 {
            let engines = u64::from(arch.engines);
            let residents = Residents {
                threads: (of_core * u64::from(launch.threads)).div_ceil(engines) as usize,
                together: u64::from(launch.threads).div_ceil(engines) as usize,
            };
            let work = run(&kernel.instructions, &trace, residents, &is_cold);
            cost.add(times, residents, work);
        }
    }
    cost.moves(launch, &traffic, arch, of_core, memory);
    Ok(cost)
}

/// Groups that a core holds at a time.
fn groups_of_core(arch: &DpasArch, launch: &Launch<'_>) -> Result<u64> {
    let slots = u64::from(arch.engines) * u64::from(arch.threads());
    let by_threads = slots / u64::from(launch.threads).max(1);
    let shared = (u64::from(arch.l1_kib) << 10).checked_div(launch.slm_bytes as u64);
    match by_threads.min(shared.unwrap_or(by_threads)) {
        0 => {
            let (threads, bytes) = (launch.threads, launch.slm_bytes);
            let message = format!(
                "a group of {threads} threads that share {bytes} bytes does not fit a core, which \
                 has {slots} threads and {} KiB",
                arch.l1_kib
            );
            Err(Diagnostic::unsupported("Q6172", message).help("make groups smaller"))
        }
        groups => Ok(groups),
    }
}

impl Cost {
    /// Adds so many waves of the same work.
    fn add(&mut self, times: u64, residents: Residents, work: Work) {
        let sums = [
            (&mut self.waves, 1),
            (&mut self.issue, work.issued),
            (&mut self.systolic, work.systolic),
            (&mut self.engine, work.cycles),
        ];
        for (sum, value) in sums {
            *sum = sum.saturating_add(value.saturating_mul(times));
        }
        self.threads = self.threads.max(residents.threads as u64);
    }

    /// What caches and memory need; the launch is not faster than they are.
    fn moves(
        &mut self,
        launch: &Launch<'_>,
        traffic: &Traffic,
        arch: &DpasArch,
        of_core: u64,
        memory: &Memory<'_>,
    ) {
        let groups: f64 = launch.groups.map(f64::from).iter().product();
        let (cores, of_core) = (f64::from(arch.cores), of_core as f64);
        let per_core = (groups / cores).max(1.0);
        let cycles = |bytes: f64, rate: f64| (bytes / rate).round() as u64;
        let moved = traffic.lines as f64 * LINE as f64 * f64::from(launch.threads);
        self.l1 = cycles(moved * per_core, arch.l1_bytes.into());
        let held = per_core.min(of_core);
        let own = traffic.distinct(launch, held) * per_core / held;
        self.l2 = cycles(own, arch.l2_bytes.into());
        let at_once = groups.min(of_core * cores);
        let mut all = traffic.distinct(launch, at_once) * groups / at_once;
        if memory.buffers <= u64::from(arch.l2_kib) << 10 {
            // The second cache keeps them, if it does not hold them already.
            let cold = memory.cold.iter().map(|range| range.end.saturating_sub(range.start));
            all = all.min(cold.fold(0, u64::saturating_add) as f64);
        }
        self.bytes = all.round() as u64;
        self.memory = cycles(all, arch.memory_bytes());
        self.cycles = self.engine.max(self.l1).max(self.l2).max(self.memory);
    }
}
