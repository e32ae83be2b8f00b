//! What must hold in a program of launches before it can run.

use super::device::{
    Argument, ArgumentKind, Buffer, Device, Implicit, Kernel, Launch, Layer, Place, Role, Value,
};
use super::payload::{PACKED, number_size, payload};
use quincunx_diag::{Diagnostic, Problems, did_you_mean, suggestion};
use std::collections::{BTreeMap, BTreeSet};

/// Most bytes of all buffers together.
pub const MAX_MEMORY: u64 = 2 << 30;

/// Most bytes of cross-thread data.
pub const MAX_CROSS: u32 = 4096;

/// Most bytes of shared local memory of a group.
pub const MAX_SLM: u32 = 128 << 10;

/// Most barriers of a group.
pub const MAX_BARRIERS: u32 = 32;

/// Most threads of a group.
pub const MAX_THREADS: u32 = 128;

/// Most threads of a launch.
pub const MAX_LAUNCH: u64 = 1 << 28;

/// Most parts of cross-thread data, and most parameters.
const MAX_ARGUMENTS: usize = 256;

/// Most kernels, buffers and layers, and most launches.
const MAX_PARTS: usize = 1 << 14;
const MAX_LAUNCHES: usize = 1 << 18;

/// Everything that is wrong with a program, instructions of its kernels aside.
pub fn check(device: &Device) -> Vec<Diagnostic> {
    for (what, count, most) in [
        ("kernels", device.kernels.len(), MAX_PARTS),
        ("buffers", device.buffers.len(), MAX_PARTS),
        ("layers", device.layers.len(), MAX_PARTS),
        ("launches", device.launches.len(), MAX_LAUNCHES),
    ] {
        if count > most {
            let message = format!("the program has {count} {what}, expected at most {most}");
            return vec![Diagnostic::unsupported("Q6118", message)];
        }
    }
    // Of two parts with one name the first counts, as in lookups; that is an error in any case.
    let kernels = device.kernels.iter().rev().map(|kernel| (kernel.name.as_str(), kernel));
    let buffers = device.buffers.iter().rev().map(|buffer| (buffer.name.as_str(), buffer));
    let (kernels, buffers) = (kernels.collect(), buffers.collect());
    let mut checker = Checker { device, problems: Problems::default(), kernels, buffers };
    checker.names();
    device.kernels.iter().for_each(|kernel| checker.kernel(kernel));
    device.buffers.iter().for_each(|buffer| checker.buffer(buffer));
    checker.memory();
    device.launches.iter().enumerate().for_each(|(at, launch)| checker.launch(at, launch));
    checker.layers();
    checker.problems.finish()
}

struct Checker<'d> {
    device: &'d Device,
    problems: Problems,
    kernels: BTreeMap<&'d str, &'d Kernel>,
    buffers: BTreeMap<&'d str, &'d Buffer>,
}

impl Checker<'_> {
    fn error(&mut self, code: &'static str, place: Place, message: String) {
        self.push(Diagnostic::invalid(code, message), place);
    }

    fn push(&mut self, problem: Diagnostic, place: Place) {
        self.problems.push(match place.0 {
            Some(span) => problem.label(span, ""),
            None => problem,
        });
    }

    /// Names of one kind differ.
    fn names(&mut self) {
        let device = self.device;
        let kernels = device.kernels.iter().map(|part| (&part.name, part.place));
        let buffers = device.buffers.iter().map(|part| (&part.name, part.place));
        let layers = device.layers.iter().map(|part| (&part.name, part.place));
        let kinds: [(&str, Vec<(&String, Place)>); 3] = [
            ("kernel", kernels.collect()),
            ("buffer", buffers.collect()),
            ("layer", layers.collect()),
        ];
        for (kind, names) in kinds {
            let mut taken = BTreeSet::new();
            for (name, place) in names {
                if name.is_empty() {
                    self.error("Q6113", place, format!("a {kind} has no name"));
                } else if !taken.insert(name) {
                    self.error("Q6112", place, format!("there are two {kind}s \"{name}\""));
                }
            }
        }
    }

    fn kernel(&mut self, kernel: &Kernel) {
        let environment = kernel.environment;
        let mut rule = |holds: bool, what: &str, found: u32, expected: &str| {
            if !holds {
                let name = &kernel.name;
                let message = format!("kernel \"{name}\" has {what} {found}, expected {expected}");
                self.error("Q6104", kernel.place, message);
            }
        };
        rule(matches!(environment.grfs, 128 | 256), "grf_count", environment.grfs, "128 or 256");
        let simd = environment.simd;
        rule(matches!(simd, 1 | 8 | 16 | 32), "simd_size", simd, "1, 8, 16 or 32");
        let bound = format!("at most {MAX_SLM}");
        rule(environment.slm <= MAX_SLM, "slm_size", environment.slm, &bound);
        let bound = format!("at most {MAX_BARRIERS}");
        rule(environment.barriers <= MAX_BARRIERS, "barrier_count", environment.barriers, &bound);
        let inline = environment.inline;
        rule(matches!(inline, 0 | 32 | 64), "inline_data_payload_size", inline, "0, 32 or 64");
        // 16 bits a lane and axis, in whole registers of either size.
        let ids = [0, 1, 2].map(|shift| 3u32.saturating_mul(32u32 << shift));
        let ids_fit = matches!(environment.local_ids as usize, 0 | PACKED)
            || ids.contains(&environment.local_ids);
        rule(ids_fit, "bytes of local ids", environment.local_ids, "0, 6, 96, 192 or 384");
        self.cross_thread_data(kernel);
    }

    /// The parts of the cross-thread data have their size and lie apart.
    fn cross_thread_data(&mut self, kernel: &Kernel) {
        let name = &kernel.name;
        if kernel.arguments.len() > MAX_ARGUMENTS || kernel.parameters() as usize > MAX_ARGUMENTS {
            let message = format!("kernel \"{name}\" has more than {MAX_ARGUMENTS} arguments");
            self.push(Diagnostic::unsupported("Q6105", message), kernel.place);
            return;
        }
        let mut parts: Vec<&Argument> = kernel.arguments.iter().filter(|a| a.size > 0).collect();
        parts.sort_by_key(|part| part.offset);
        let mut end = 0;
        for part in parts {
            let (offset, size) = (part.offset, part.size);
            let message = if offset < end {
                format!("two arguments of kernel \"{name}\" share byte {offset}")
            } else if offset.saturating_add(size) > MAX_CROSS {
                format!("an argument of kernel \"{name}\" ends behind byte {MAX_CROSS}")
            } else {
                end = offset.saturating_add(size);
                continue;
            };
            self.error("Q6105", kernel.place, message);
        }
        for part in &kernel.arguments {
            let expected = match &part.kind {
                ArgumentKind::Pointer { .. } => 8,
                ArgumentKind::Surface { .. } => 0,
                ArgumentKind::Offset { .. } => 4,
                ArgumentKind::Implicit(what) => Implicit::bytes(*what),
                ArgumentKind::Value { .. } | ArgumentKind::Other(_) => part.size,
            };
            if part.size != expected {
                let message = format!(
                    "an argument of kernel \"{name}\" has {} bytes, expected {expected}",
                    part.size
                );
                self.error("Q6105", kernel.place, message);
            }
        }
    }

    fn buffer(&mut self, buffer: &Buffer) {
        let (name, place) = (&buffer.name, buffer.place);
        let axes = buffer.shape.len();
        if buffer.strides.as_ref().is_some_and(|strides| strides.len() != axes) {
            let message =
                format!("buffer \"{name}\" has {axes} axes and another number of strides");
            self.error("Q6113", place, message);
        }
        let bytes = buffer.bytes;
        match buffer.extent() {
            Some(extent) if extent <= bytes => {}
            extent => {
                let needs = extent.map_or("more than 2^64".to_owned(), |extent| extent.to_string());
                let message = format!("buffer \"{name}\" has {bytes} bytes, its value {needs}");
                self.error("Q6117", place, message);
            }
        }
        let data = buffer.data.as_ref().map_or(0, |data| data.len() as u64);
        if data > bytes {
            let message = format!("buffer \"{name}\" has {bytes} bytes, its data {data}");
            self.error("Q6117", place, message);
        }
        match (buffer.role, &buffer.data) {
            (Role::Constant, None) if buffer.inside.is_none() => {
                self.error("Q6113", place, format!("constant \"{name}\" has no data"));
            }
            _ => {}
        }
        if buffer.grid.is_some_and(|(scale, _)| !(scale.is_finite() && scale > 0.0)) {
            let message = format!("the scale of buffer \"{name}\" is not a positive number");
            self.error("Q6113", place, message);
        }
        self.inside(buffer);
    }

    /// A buffer that shares the bytes of another lies within it.
    fn inside(&mut self, buffer: &Buffer) {
        let Some((outer, at)) = &buffer.inside else { return };
        let (name, place) = (&buffer.name, buffer.place);
        let Some(found) = self.buffers.get(outer.as_str()) else {
            let problem = self.unknown_buffer(outer);
            return self.push(problem, place);
        };
        if found.inside.is_some() {
            let message =
                format!("buffer \"{name}\" lies inside \"{outer}\", itself inside another");
            self.error("Q6113", place, message);
        } else if at.saturating_add(buffer.bytes) > found.bytes {
            let message = format!(
                "buffer \"{name}\" ends at byte {} of \"{outer}\", which has {}",
                at.saturating_add(buffer.bytes),
                found.bytes
            );
            self.error("Q6117", place, message);
        }
    }

    fn memory(&mut self) {
        let owners = self.device.buffers.iter().filter(|buffer| buffer.inside.is_none());
        let all = owners.fold(0u64, |all, buffer| all.saturating_add(buffer.bytes));
        if all > MAX_MEMORY {
            let message = format!("the buffers take {all} bytes, expected at most {MAX_MEMORY}");
            self.problems.push(Diagnostic::unsupported("Q6118", message));
        }
    }

    fn unknown_buffer(&self, name: &str) -> Diagnostic {
        let names = self.device.buffers.iter().map(|buffer| buffer.name.as_str());
        let message = format!("there is no buffer \"{}\"", name.escape_debug());
        Diagnostic::invalid("Q6111", message).help_if(did_you_mean(name, names))
    }

    fn launch(&mut self, at: usize, launch: &Launch) {
        let place = launch.place;
        if self.problems.is_full() {
            return;
        }
        let Some(&kernel) = self.kernels.get(launch.kernel.as_str()) else {
            let name = &launch.kernel;
            let names = self.device.kernels.iter().map(|kernel| kernel.name.as_str());
            let message = format!("launch {at} is of kernel \"{}\"", name.escape_debug());
            let problem = Diagnostic::invalid("Q6111", format!("{message}, which there is not"))
                .help(suggestion(name, "kernels", names));
            return self.push(problem, place);
        };
        self.size(at, launch, kernel);
        let given = launch.arguments.len();
        let takes = kernel.parameters() as usize;
        if given > takes {
            let name = &kernel.name;
            let message = format!("kernel \"{name}\" takes {takes} arguments, {given} are given");
            self.error("Q6116", place, format!("launch {at}: {message}"));
        }
        let is_number = |index: usize| number_size(kernel, index as u32) > 0;
        for (index, value) in launch.arguments.iter().enumerate().take(takes) {
            let Value::Buffer(name) = value else { continue };
            let known = self.buffers.contains_key(name.as_str()) || is_number(index);
            // Suggestions take time, and many errors are only counted.
            if !known && !self.problems.is_full() {
                let problem = self.unknown_buffer(name);
                self.push(problem, place);
            }
        }
        // The packer says what is missing or of the wrong kind; unknown buffers are told above.
        if kernel.arguments.iter().all(|a| a.offset.saturating_add(a.size) <= MAX_CROSS)
            && let Err(problem) = payload(kernel, launch, &|_| Some(0))
        {
            self.push(problem.with_note(format!("in launch {at}")), place);
        }
    }

    fn size(&mut self, at: usize, launch: &Launch, kernel: &Kernel) {
        let [x, y, z] = launch.groups;
        let place = launch.place;
        if launch.groups.contains(&0) {
            let message = format!("launch {at} has {x} x {y} x {z} groups, expected at least 1");
            return self.error("Q6119", place, message);
        }
        let threads = launch.threads;
        if !(1..=MAX_THREADS).contains(&threads) {
            let message = format!("launch {at} has {threads} threads a group");
            let message = format!("{message}, expected 1 to {MAX_THREADS}");
            return self.error("Q6119", place, message);
        }
        let counts = launch.groups.into_iter().chain([threads]).map(u64::from);
        if counts.fold(1u64, u64::saturating_mul) > MAX_LAUNCH {
            let message = format!("launch {at} has more than {MAX_LAUNCH} threads");
            self.push(Diagnostic::unsupported("Q6119", message), place);
        }
        if let Some(items) = launch.local_size {
            let all = items.iter().map(|&n| u64::from(n)).fold(1, u64::saturating_mul);
            let needs = all.div_ceil(u64::from(kernel.environment.simd.max(1)));
            if needs != u64::from(threads) {
                let message = format!("launch {at} has {all} work-items a group, {needs} threads");
                self.error("Q6119", place, format!("{message}, not {threads}"));
            }
        }
    }

    /// Launches of a layer follow each other, and its values have buffers.
    fn layers(&mut self) {
        let device = self.device;
        let places = device.layers.iter().enumerate();
        let known: BTreeMap<&str, usize> = places.map(|(at, l)| (l.name.as_str(), at)).collect();
        let (mut seen, mut before, mut last) = (BTreeSet::new(), None, 0);
        for (at, launch) in device.launches.iter().enumerate() {
            let layer = launch.layer.as_deref();
            if let Some(name) = layer.filter(|_| before != layer) {
                match known.get(name) {
                    None => {
                        let message =
                            format!("launch {at} is of layer \"{}\"", name.escape_debug());
                        let message = format!("{message}, which there is not");
                        let help = suggestion(name, "layers", known.keys().copied());
                        self.push(Diagnostic::invalid("Q6111", message).help(help), launch.place);
                    }
                    Some(_) if !seen.insert(name) => {
                        let message =
                            format!("launches of layer \"{name}\" do not follow each other");
                        self.error("Q6120", launch.place, message);
                    }
                    Some(&place) if place < last => {
                        let message =
                            format!("layer \"{name}\" is listed before one that runs earlier");
                        self.error("Q6120", launch.place, message);
                    }
                    Some(&place) => last = place,
                }
            }
            before = layer;
        }
        for layer in &device.layers {
            self.values(layer, seen.contains(layer.name.as_str()));
        }
    }

    fn values(&mut self, layer: &Layer, runs: bool) {
        if self.problems.is_full() {
            return;
        }
        for (value, name) in &layer.values {
            if !self.buffers.contains_key(name.as_str()) {
                let problem = self.unknown_buffer(name);
                let note = format!("for the value \"{value}\" of layer \"{}\"", layer.name);
                self.push(problem.with_note(note), layer.place);
            }
        }
        if !layer.values.is_empty() && !runs {
            let message = format!("layer \"{}\" has values and no launches", layer.name);
            self.error("Q6120", layer.place, message);
        }
    }
}
