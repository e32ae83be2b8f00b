//! A program of launches as the toolchain sees it.

mod origins;
mod run;
mod writer;

use super::{float_note, native_checks};
use crate::arch::DpasArch;
use crate::binary;
use crate::files::{launch, zebin};
use crate::options::Settings;
use crate::ports::buffers;
use crate::program::check::check;
use crate::program::device::{Device, Kernel};
use crate::program::{Program, Statement};
use crate::shape::RowStride;
use crate::simulate;
use crate::swsb::{self, Effects, Unit};
use crate::text;
use crate::time::{self, Cost};
use crate::verify::verify;
use crate::views;
use quincunx_contract::{
    Check, Demand, Engine, File, Interface, LayerTap, Machine, MemoryUse, Origin, Sample, Stats,
    View,
};
use quincunx_diag::{Diagnostic, Problems, Result, first_error};
use quincunx_num::Level;
use quincunx_report::Table;
use quincunx_tensor::Tensors;
use quincunx_timeline::Timeline;
use run::Launches;
use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A program of launches with its machine and settings.
pub struct DeviceArtifact {
    device: Arc<Device>,
    arch: DpasArch,
    settings: Settings,
    interface: Interface,
    costs: OnceLock<Result<Vec<Cost>>>,
}

impl DeviceArtifact {
    /// Puts ports on a program: its buffers. A given interface has those ports, with grids of its
    /// own.
    ///
    /// # Errors
    /// `Q6091` when a given interface is not that of the program.
    pub fn new(
        device: Device,
        interface: Option<Interface>,
        arch: DpasArch,
        settings: Settings,
    ) -> Result<DeviceArtifact> {
        if let Some(given) = &interface {
            buffers::fits(given, &device)?;
        }
        let interface = interface.unwrap_or_else(|| buffers::interface(&device));
        let (device, costs) = (Arc::new(device), OnceLock::new());
        Ok(DeviceArtifact { device, arch, settings, interface, costs })
    }

    /// The program.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The machine as a kernel sees it: with its registers.
    fn arch_of(&self, kernel: &Kernel) -> DpasArch {
        DpasArch { grfs: kernel.environment.grfs, ..self.arch.clone() }
    }

    /// The rules that instructions of a kernel break.
    fn rules_of(&self, kernel: &Kernel) -> Vec<Diagnostic> {
        let program = Program::Native(kernel.listing.clone());
        verify(&program, &self.arch_of(kernel), &self.settings.allow)
    }

    /// True if a kernel multiplies floats.
    fn has_floats(&self) -> bool {
        let items = self.device.kernels.iter().flat_map(|kernel| &kernel.listing.items);
        items.into_iter().any(|item| match &item.statement {
            Statement::Systolic(inst) => !inst.native().src1_type.is_integer(),
            _ => false,
        })
    }

    /// What is illegal in the instructions of a kernel.
    fn verify_kernel(&self, kernel: &Kernel) -> Vec<Diagnostic> {
        let arch = self.arch_of(kernel);
        let mut found = self.rules_of(kernel);
        if self.settings.check_dependencies {
            found.extend(swsb::check(&kernel.listing, &arch, self.settings.allow.stride));
        }
        found.extend(unwritten(kernel, &arch, self.settings.allow.stride));
        let named =
            |problem: Diagnostic| problem.with_note(format!("in kernel \"{}\"", kernel.name));
        found.into_iter().map(named).collect()
    }

    /// What launches cost.
    fn costs(&self) -> Result<&[Cost]> {
        let costs = || {
            self.runnable()?;
            let Settings { allow, dispatch_mask, .. } = self.settings;
            time::costs(&self.device, &self.arch, allow.stride, dispatch_mask)
        };
        self.costs.get_or_init(costs).as_deref().map_err(Clone::clone)
    }

    /// The program has launches, and no errors. Dependencies do not matter here.
    fn runnable(&self) -> Result<()> {
        let rules = |kernel| self.rules_of(kernel);
        first_error(
            check(&self.device).into_iter().chain(self.device.kernels.iter().flat_map(rules)),
        )?;
        if self.device.launches.is_empty() {
            let help = "write a launch file that names the kernels (docs/machines/dpas-launch.md)";
            let message = "the program has kernels and no launches";
            return Err(Diagnostic::unsupported("Q6123", message).help(help));
        }
        Ok(())
    }

    fn problems(&self) -> Vec<Diagnostic> {
        let mut found = Problems::default();
        found.extend(check(&self.device));
        for kernel in &self.device.kernels {
            found.extend(self.verify_kernel(kernel));
        }
        found.finish()
    }

    /// The program as a machine: prepared for vector instructions of a level, or for the executor.
    pub(crate) fn machine(&self, level: Option<Level>) -> Result<Box<dyn Machine>> {
        Ok(Box::new(self.launches(level)?))
    }

    pub(crate) fn launches(&self, level: Option<Level>) -> Result<Launches> {
        // Dependencies do not matter here: instructions are in order.
        self.runnable()?;
        let stride = self.settings.allow.stride;
        let kernels = self.device.kernels.iter().map(|kernel| {
            simulate::launch::Kernel::new(
                &kernel.name,
                &kernel.listing,
                &self.arch_of(kernel),
                stride,
            )
        });
        let kernels = kernels.collect::<Result<Vec<_>>>()?;
        let settings = run::Settings {
            rules: self.settings.rules,
            limit: self.settings.step_limit,
            dispatch_mask: self.settings.dispatch_mask,
            level,
            origin: self.origin()?,
            stride,
        };
        let note = self.has_floats().then(|| float_note(self.settings.rules));
        let device = Arc::clone(&self.device);
        Launches::new(device, kernels, &self.interface, settings, note)
    }

    /// The kernel and the index in it of the instruction that option origin names.
    fn origin(&self) -> Result<Option<(usize, usize)>> {
        let Some(number) = self.settings.origin else { return Ok(None) };
        let systolic = self.device.kernels.iter().enumerate().flat_map(|(at, kernel)| {
            let items = kernel.listing.items.iter().enumerate();
            let items = items.filter(|(_, item)| matches!(item.statement, Statement::Systolic(_)));
            items.map(move |(index, _)| (at, index))
        });
        let all: Vec<(usize, usize)> = systolic.collect();
        all.get(number).map(|&found| Some(found)).ok_or_else(|| {
            let message = format!("option origin is {number}, which is no systolic instruction");
            let help = format!("the kernels have {} of them, counted from 0", all.len());
            Diagnostic::usage("Q6003", message).help(help)
        })
    }

    /// One file for each kernel; the only kernel has the name of the program.
    fn each(
        &self,
        stem: &str,
        extension: &str,
        content: &dyn Fn(&Kernel) -> Result<Vec<u8>>,
    ) -> Result<Vec<File>> {
        let kernels = &self.device.kernels;
        if kernels.is_empty() {
            let message = "the program has no kernels".to_owned();
            return Err(Diagnostic::unsupported("Q6121", message));
        }
        let file = |(at, kernel): (usize, &Kernel)| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            let name = match kernels.len() {
                1 => format!("{stem}.{extension}"),
                _ if kernel.name.chars().all(is_plain) => {
                    format!("{stem}.{}.{extension}", kernel.name)
                }
                _ => format!("{stem}.{at}.{extension}"),
            };
            content(kernel).map(|bytes| File::new(name, bytes))
        };
        kernels.iter().enumerate().map(file).collect()
    }
}

/// A warning for the first register that a kernel reads, and of which neither the launch nor any
/// instruction writes a byte; none where an instruction is not understood.
fn unwritten(kernel: &Kernel, arch: &DpasArch, stride: RowStride) -> Option<Diagnostic> {
    let grf = arch.platform.grf_bytes() as usize;
    let registers = |range: Range<usize>| range.start / grf..range.end.div_ceil(grf);
    // r0, and r1 on where arguments arrive.
    let arguments = (kernel.environment.inline as usize).div_ceil(grf);
    let mut written = vec![false; kernel.environment.grfs as usize];
    written.iter_mut().take(arguments.saturating_add(1)).for_each(|one| *one = true);
    let items = &kernel.listing.items;
    let all: Vec<Effects> =
        items.iter().map(|item| swsb::effects(&item.statement, arch, stride)).collect();
    for range in all.iter().flat_map(|effects| &effects.writes) {
        written.get_mut(registers(range.clone())).into_iter().flatten().for_each(|one| *one = true);
    }
    if all.iter().any(|effects| effects.unit == Unit::Unknown) {
        return None;
    }
    items.iter().zip(&all).enumerate().find_map(|(index, (item, effects))| {
        let mut reads = effects.reads.iter().flat_map(|range| registers(range.clone()));
        let register = reads.find(|&register| written.get(register) == Some(&false))?;
        let message = format!("instruction {index} reads r{register}, which nothing writes");
        let problem = Diagnostic::warning("Q6125", message).help("it holds what was there before");
        Some(match item.span {
            Some(span) => problem.label(span, ""),
            None => problem,
        })
    })
}

impl quincunx_contract::Program for DeviceArtifact {
    fn interface(&self) -> &Interface {
        &self.interface
    }

    fn sample(&self, input: usize) -> Sample {
        let port = self.interface.inputs.get(input);
        port.map_or(Sample::Fractions, |port| buffers::sample(port, self.device.buffer(&port.name)))
    }

    fn emit(&self, kind: &str, stem: &str) -> Result<Vec<File>> {
        let platform = self.arch.platform;
        match kind {
            "launch" => {
                first_error(check(&self.device))?;
                launch::write(&self.device, platform, stem)
            }
            "zebin" => {
                let bytes = zebin::write(&self.device.kernels, platform)?;
                Ok(vec![File::new(format!("{stem}.zebin"), bytes)])
            }
            "asm" => self.each(stem, "xeasm", &|kernel| {
                Ok(text::native::print(&kernel.listing).into_bytes())
            }),
            "bin" => {
                self.each(stem, "xebin", &|kernel| binary::native::write(&kernel.listing, platform))
            }
            "stream" => {
                let message = "native kernels have no byte code";
                Err(Diagnostic::unsupported("Q6093", message).help("emit launch, zebin or asm"))
            }
            _ => Err(Diagnostic::bug(format!("no {kind} files are declared"))),
        }
    }

    fn verify(&self) -> Vec<Diagnostic> {
        self.problems()
    }

    fn checks(&self) -> Vec<Check> {
        let known = |kernel: &Kernel| {
            let items = kernel.listing.items.iter();
            items.filter(|item| !matches!(item.statement, Statement::Raw(_))).count()
        };
        let instructions = self.device.kernels.iter().map(known).sum();
        let mut checks = native_checks(instructions, true, self.settings.check_dependencies);
        let arguments = &[("Q6104", "Q6105"), ("Q6116", "Q6116")];
        let launches = self.device.launches.len();
        checks.push(Check::new(
            "kernels have an environment and get their arguments",
            arguments,
            launches,
            "launches",
        ));
        let memory = &[("Q6111", "Q6113"), ("Q6117", "Q6120")];
        checks.push(Check::new(
            "names mean something, sizes fit and launches are in the order of layers",
            memory,
            launches + self.device.buffers.len(),
            "launches and buffers",
        ));
        checks
    }

    fn load(&self, engine: Engine) -> Result<Box<dyn Machine>> {
        self.machine((engine == Engine::Fast).then(Level::best))
    }

    fn origin(&self, inputs: &Tensors, tap: &LayerTap, element: usize) -> Result<Option<Origin>> {
        self.interface.layer(tap, element)?;
        self.origin_of(inputs, tap, element)
    }

    fn demand(&self) -> Result<Demand> {
        let (costs, device) = (self.costs()?, &self.device);
        let own = device.buffers.iter().filter(|buffer| buffer.inside.is_none());
        let bytes = own.fold(0_u64, |sum, buffer| sum.saturating_add(buffer.bytes));
        let shared = device.kernels.iter().map(|kernel| u64::from(kernel.environment.slm)).max();
        let l1 = u64::from(self.arch.l1_kib) << 10;
        let shared = shared.filter(|&bytes| bytes > 0);
        let shared = shared.map(|bytes| MemoryUse::bytes("shared memory", bytes, Some(l1)));
        let memory = MemoryUse::bytes("memory", bytes, None);
        Ok(Demand {
            seconds: Some(time::total(costs) as f64 / (self.arch.clock_ghz * 1e9)),
            utilisation: Some(time::systolic_share(&self.arch, costs)),
            limit: time::limit(costs).map(str::to_owned),
            memories: [memory].into_iter().chain(shared).collect(),
        })
    }

    fn time(&self) -> Result<Timeline> {
        Ok(time::launches(&self.device, &self.arch, self.costs()?))
    }

    fn stats(&self) -> Stats {
        let device = &self.device;
        let code = |kernel: &Kernel| {
            let bytes = binary::native::write(&kernel.listing, self.arch.platform);
            bytes.map_or(0, |bytes| bytes.len() as u64)
        };
        let data = device.buffers.iter().filter_map(|buffer| buffer.data.as_ref());
        Stats {
            instructions: device.kernels.iter().map(|k| k.listing.items.len() as u64).sum(),
            bytes: device.kernels.iter().map(code).sum::<u64>()
                + data.map(|data| data.len() as u64).sum::<u64>(),
            cycles: self.costs().ok().map(time::total),
            interval: None,
            hertz: Some(self.arch.clock_ghz * 1e9),
            figures: vec![
                ("platform", self.arch.platform.name().to_owned()),
                ("kernels", device.kernels.len().to_string()),
                ("buffers", device.buffers.len().to_string()),
                ("launches", device.launches.len().to_string()),
            ],
        }
    }

    fn views(&self) -> &'static [View] {
        views::VIEWS
    }

    fn tables(&self, view: &str) -> Result<Vec<Table>> {
        match view {
            "layers" => Ok(vec![views::layers(&self.device, &self.arch, self.costs()?)]),
            _ => {
                let stride = self.settings.allow.stride;
                Ok(vec![views::table(&self.device, view, &self.arch, stride)])
            }
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
