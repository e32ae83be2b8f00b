//! When the launches of a program happen: one after the other.

use super::engine::Instruction;
use super::launch::{Cost, Memory, cost};
use super::trace::Prepared;
use crate::arch::DpasArch;
use crate::program::device::{Device, Kernel, Launch, Value};
use crate::program::payload::{local_ids, payload, placement};
use crate::shape::RowStride;
use crate::simulate;
use crate::simulate::thread::Program;
use quincunx_diag::{Diagnostic, Result};
use quincunx_timeline::{Event, Point, Roofline, Timeline};
use std::collections::BTreeMap;
use std::ops::Range;

/// A kernel for the timing model.
fn prepared(kernel: &Kernel, arch: &DpasArch, stride: RowStride) -> Result<Prepared> {
    let arch = DpasArch { grfs: kernel.environment.grfs, ..arch.clone() };
    let program = Program::new(&kernel.listing, &arch, stride)?;
    let items = kernel.listing.items.iter().zip(&program.steps);
    let instructions =
        items.map(|(item, step)| Instruction::new(&item.statement, step, &arch, stride)).collect();
    Ok(Prepared { program, instructions, arch })
}

/// The addresses of a buffer's memory, by the name of the buffer.
type Places<'a> = BTreeMap<&'a str, (&'a str, Range<u64>)>;

/// The buffers that own the memory of a launch's arguments, with their addresses.
fn buffers<'a>(launch: &'a Launch, places: &Places<'a>) -> BTreeMap<&'a str, Range<u64>> {
    let name = |value: &'a Value| match value {
        Value::Buffer(name) => places.get(name.as_str()),
        Value::Whole(_) | Value::Real(_) => None,
    };
    launch.arguments.iter().filter_map(name).cloned().collect()
}

fn bytes(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// Buffers in the second cache, whole, the last used last.
struct Cache<'a> {
    capacity: u64,
    held: Vec<(&'a str, u64)>,
}

impl<'a> Cache<'a> {
    /// Takes a buffer, if it fits; false if the cache did not hold it.
    fn take(&mut self, name: &'a str, size: u64) -> bool {
        let before = self.held.len();
        self.held.retain(|(other, _)| *other != name);
        let held = self.held.len() < before;
        if size <= self.capacity {
            self.held.push((name, size));
        }
        while self.held.iter().map(|(_, size)| size).sum::<u64>() > self.capacity {
            self.held.remove(0);
        }
        held
    }
}

/// What every launch of a program without errors costs.
///
/// # Errors
/// What the timing model cannot follow (`Q6170` to `Q6172`, `Q6149`), with launch and kernel.
pub fn costs(device: &Device, arch: &DpasArch, stride: RowStride, mask: u32) -> Result<Vec<Cost>> {
    let addresses = placement(&device.buffers);
    let mut places = Places::new();
    for (buffer, &base) in device.buffers.iter().zip(&addresses) {
        let owner = buffer.inside.as_ref().map_or(&buffer.name, |(outer, _)| outer);
        let place = device.buffer_index(owner).map(|at| (addresses[at], &device.buffers[at]));
        let (base, size) = place.map_or((base, buffer.bytes), |(base, own)| (base, own.bytes));
        places.insert(&buffer.name, (owner, base..base.saturating_add(size)));
    }
    let address = |name: &str| device.buffer_index(name).and_then(|at| addresses.get(at).copied());
    let mut kernels = BTreeMap::new();
    for kernel in &device.kernels {
        kernels.insert(kernel.name.as_str(), (kernel, prepared(kernel, arch, stride)?));
    }
    let mut cache = Cache { capacity: u64::from(arch.l2_kib) << 10, held: Vec::new() };
    let mut costs = Vec::new();
    for (index, launch) in device.launches.iter().enumerate() {
        let found = kernels.get(launch.kernel.as_str());
        let (kernel, prepared) = found.ok_or_else(|| Diagnostic::bug("a launch has no kernel"))?;
        let own = buffers(launch, &places);
        let cold: Vec<Range<u64>> = own
            .iter()
            .filter(|(name, range)| !cache.take(name, bytes(range)))
            .map(|(_, range)| range.clone())
            .collect();
        let memory = Memory { cold: &cold, buffers: own.values().map(bytes).sum() };
        let payload = payload(kernel, launch, &address)?;
        let local: Vec<u8> =
            (0..launch.threads).flat_map(|thread| local_ids(kernel, launch, thread)).collect();
        let started = simulate::launch::Launch {
            groups: launch.groups,
            threads: launch.threads,
            payload: &payload,
            local: &local,
            inline_bytes: kernel.environment.inline as usize,
            slm_bytes: kernel.environment.slm as usize,
            dispatch_mask: mask,
        };
        let found = started
            .check(&kernel.name, &prepared.arch)
            .and_then(|()| cost(prepared, &started, &memory));
        costs.push(found.map_err(|problem| {
            problem.with_note(format!("in launch {index}, kernel \"{}\"", kernel.name))
        })?);
    }
    Ok(costs)
}

/// Launches, one after the other, on the units of one core.
pub fn launches(device: &Device, arch: &DpasArch, costs: &[Cost]) -> Timeline {
    let mut timeline = Timeline::new("cycles");
    timeline.set_hertz(arch.clock_ghz * 1e9);
    let names = ["engine", "issue", "systolic array", "L1", "L2", "memory"];
    let lanes = names.map(|name| timeline.lane(name));
    let mut now = 0u64;
    let mut last = None;
    for (launch, cost) in device.launches.iter().zip(costs) {
        let [x, y, z] = launch.groups;
        let layer = launch.layer.as_deref().unwrap_or(&launch.kernel);
        let busy = [cost.cycles, cost.issue, cost.systolic, cost.l1, cost.l2, cost.memory];
        for (at, (lane, duration)) in lanes.into_iter().zip(busy).enumerate() {
            let detail =
                format!("{layer}: {x} x {y} x {z} groups of {}, {}", launch.threads, cost.limit());
            let name = launch.kernel.clone();
            let event = timeline.event(Event { lane, start: now, duration, name, detail });
            if at == 0
                && let Some(before) = last.replace(event)
            {
                timeline.depend(before, event, "launch");
            }
        }
        timeline.part(layer, now, now.saturating_add(cost.cycles));
        now = now.saturating_add(cost.cycles);
    }
    figures(&mut timeline, arch, costs);
    timeline.set_roofline(roofline(device, arch, costs));
    timeline
}

/// Cycles of all launches, one after the other.
pub fn total(costs: &[Cost]) -> u64 {
    costs.iter().fold(0, |sum, cost| sum.saturating_add(cost.cycles))
}

/// What limits the launches that take most of the time, of several the first by name.
pub fn limit(costs: &[Cost]) -> Option<&'static str> {
    let mut cycles: BTreeMap<&str, u64> = BTreeMap::new();
    for cost in costs {
        let sum = cycles.entry(cost.limit()).or_default();
        *sum = sum.saturating_add(cost.cycles);
    }
    cycles.into_iter().rev().max_by_key(|&(_, cycles)| cycles).map(|(limit, _)| limit)
}

/// The part of the time that the multiplications take when all arrays of the machine work.
pub fn systolic_share(arch: &DpasArch, costs: &[Cost]) -> f64 {
    let arrays = f64::from(arch.cores) * f64::from(arch.engines);
    let cycles: f64 = costs.iter().map(|cost| cost.array as f64 / arrays).sum();
    cycles / total(costs).max(1) as f64
}

fn figures(timeline: &mut Timeline, arch: &DpasArch, costs: &[Cost]) {
    let cycles = total(costs).max(1) as f64;
    let share = |part: f64| format!("{:.2} %", 100.0 * part / cycles);
    let sum = |part: &dyn Fn(&Cost) -> u64| costs.iter().map(part).sum::<u64>();
    let held = costs.iter().map(|cost| cost.cycles as f64 * cost.threads as f64);
    let occupancy = held.sum::<f64>() / f64::from(arch.threads());
    let (macs, bytes) = (sum(&|cost| cost.macs), sum(&|cost| cost.bytes));
    timeline.figure("cores", arch.cores);
    timeline.figure("systolic share of peak", share(systolic_share(arch, costs) * cycles));
    timeline.figure("systolic arrays of a core busy", share(sum(&|cost| cost.systolic) as f64));
    timeline.figure("threads held", share(occupancy));
    timeline.figure("multiply-accumulates", macs);
    timeline.figure("operations per second", rate(2.0 * macs as f64 / cycles * arch.clock_ghz));
    timeline.figure("memory bytes", bytes);
}

/// Thousand millions as text.
fn rate(giga: f64) -> String {
    if giga >= 1000.0 { format!("{:.1} T", giga / 1000.0) } else { format!("{giga:.1} G") }
}

/// The most multiplications in a cycle of all arrays: of the launch that does the most for each
/// cycle of an array.
fn peak(arch: &DpasArch, costs: &[Cost]) -> f64 {
    let arrays = f64::from(arch.cores) * f64::from(arch.engines);
    let of = |cost: &Cost| cost.macs as f64 / cost.array.max(1) as f64;
    arrays * costs.iter().map(of).fold(0.0, f64::max)
}

fn roofline(device: &Device, arch: &DpasArch, costs: &[Cost]) -> Roofline {
    let point = |(launch, cost): (&Launch, &Cost)| {
        let (macs, cycles) = (cost.macs as f64, cost.cycles.max(1) as f64);
        let name = launch.layer.as_ref().unwrap_or(&launch.kernel).clone();
        let point = Point { name, intensity: macs / cost.bytes as f64, rate: macs / cycles };
        (cost.macs > 0).then_some(point)
    };
    Roofline {
        peak: peak(arch, costs),
        bandwidth: arch.memory_bytes(),
        intensity_unit: "MACs for each byte of memory",
        rate_unit: "MACs in a cycle",
        points: device.launches.iter().zip(costs).filter_map(point).collect(),
    }
}
