//! Running the launches of a program on its buffers.

use super::origins;
use crate::arch::DpasArch;
use crate::ports::buffers;
use crate::program::device::{Buffer, Device, Role};
use crate::program::payload::{local_ids, payload, placement};
use crate::program::{Listing, Statement};
use crate::shape::RowStride;
use crate::simulate::fast::kernel::Prepared;
use crate::simulate::launch::{
    self, Asked, Kernel, Limits, Memory, Store, Touched, Watched, last_store, run, run_prepared,
};
use crate::simulate::{AlignedBytes, Rules};
use crate::swsb::{Effects, Unit, effects};
use quincunx_contract::{Interface, Machine, Scale, Scaling};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::execute::given;
use quincunx_num::Dyadic;
use quincunx_num::Level;
use quincunx_report::Table;
use quincunx_tensor::{Tensor, Tensors, element_count};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Where the bytes of a buffer lie: the owner of the memory, and the bytes in it.
struct Bytes {
    owner: String,
    range: Range<usize>,
}

/// Launches that are ready to run.
pub(crate) struct Launches {
    device: Arc<Device>,
    /// Kernels by their names, with their places in the program; prepared for the fast simulator.
    kernels: BTreeMap<String, (Kernel, Option<Prepared>, usize)>,
    addresses: BTreeMap<String, u64>,
    memory: Memory,
    buffers: BTreeMap<String, (Buffer, Bytes)>,
    interface: Interface,
    /// What the driver makes of outputs.
    scales: BTreeMap<String, Scale>,
    settings: Settings,
    /// Said with the first run.
    note: Option<Diagnostic>,
    /// What was found about the operands of an instruction in the last run, and which thread came to it.
    origin: Option<(Table, Diagnostic)>,
}

/// How launches run.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    /// Float arithmetic.
    pub(super) rules: Rules,
    /// Most instructions of a launch.
    pub(super) limit: u64,
    /// Lanes that are switched on.
    pub(super) dispatch_mask: u32,
    /// Kernels are prepared for vector instructions of this processor.
    pub(super) level: Option<Level>,
    /// The instruction of whose operands is shown where they come from: kernel and index.
    pub(super) origin: Option<(usize, usize)>,
    /// How rows of A follow each other.
    pub(super) stride: RowStride,
}

impl Launches {
    /// Prepares a program without errors; its kernels are given in their order.
    ///
    /// # Errors
    /// Internal ones, for a program with errors; `Q6124` for scalings that are malformed.
    pub(super) fn new(
        device: Arc<Device>,
        kernels: Vec<Kernel>,
        interface: &Interface,
        settings: Settings,
        note: Option<Diagnostic>,
    ) -> Result<Launches> {
        let mut memory = Memory::new();
        let (mut buffers, mut addresses) = (BTreeMap::new(), BTreeMap::new());
        for (buffer, base) in device.buffers.iter().zip(placement(&device.buffers)) {
            addresses.insert(buffer.name.clone(), base);
            let size = usize::try_from(buffer.bytes).map_err(|_| too_large(buffer))?;
            let (owner, start) = match &buffer.inside {
                Some((outer, at)) => (outer, usize::try_from(*at).map_err(|_| too_large(buffer))?),
                None => {
                    let (name, bytes) = (buffer.name.clone(), AlignedBytes::new(size));
                    let writable = buffer.role != Role::Constant;
                    memory.add(launch::Buffer { name, base, bytes, writable })?;
                    (&buffer.name, 0)
                }
            };
            let bytes = Bytes { owner: owner.clone(), range: start..start + size };
            buffers.insert(buffer.name.clone(), (buffer.clone(), bytes));
        }
        let names = device.kernels.iter().map(|kernel| kernel.name.clone());
        let places = kernels.into_iter().enumerate().map(|(place, kernel)| {
            let prepare = |level| kernel.prepare(settings.rules, level);
            let prepared = settings.level.map(prepare);
            (kernel, prepared, place)
        });
        let kernels = names.zip(places).collect();
        let interface = interface.clone();
        let scales = scales(&interface)?;
        let mut launches = Launches {
            device,
            kernels,
            addresses,
            memory,
            buffers,
            interface,
            scales,
            settings,
            note,
            origin: None,
        };
        launches.reset(true)?;
        Ok(launches)
    }

    fn bytes_mut<'m>(memory: &'m mut Memory, bytes: &Bytes) -> Result<&'m mut [u8]> {
        let owner = memory.buffer_mut(&bytes.owner);
        let own = owner.and_then(|owner| owner.bytes.get_mut(bytes.range.clone()));
        own.ok_or_else(|| Diagnostic::bug("a buffer lies outside of its memory"))
    }

    /// Gives memory its first content; constants keep theirs.
    fn reset(&mut self, constants: bool) -> Result<()> {
        let device = Arc::clone(&self.device);
        for buffer in &device.buffers {
            let Some((_, bytes)) = self.buffers.get(&buffer.name) else { continue };
            if !constants && self.is_constant(bytes) {
                continue;
            }
            let own = Self::bytes_mut(&mut self.memory, bytes)?;
            if buffer.inside.is_none() || buffer.fill != 0 {
                own.fill(buffer.fill);
            }
            if let Some(data) = &buffer.data {
                own[..data.len()].copy_from_slice(data);
            }
        }
        Ok(())
    }

    fn is_constant(&self, bytes: &Bytes) -> bool {
        let owner = self.buffers.get(&bytes.owner);
        owner.is_some_and(|(owner, _)| owner.role == Role::Constant)
    }

    fn start(&mut self, index: usize) -> Result<()> {
        let own = &self.device.launches[index];
        let given = Given::new(self, index)?;
        let kernel = &self.device.kernels[given.place];
        let started = given.launch(&self.device, self.settings.dispatch_mask);
        let found = self.kernels.get_mut(&own.kernel);
        let (ready, prepared, _) =
            found.ok_or_else(|| Diagnostic::bug("a launch has no kernel"))?;
        let Settings { origin, rules, stride, limit, .. } = self.settings;
        if let (Some((_, instruction)), None) =
            (origin.filter(|(at, _)| *at == given.place), &self.origin)
        {
            let asked = Asked { index: instruction, rules, limit };
            let place = (&*ready, all_touched(&kernel.listing, ready.arch(), stride));
            let found = launch::origin(place, (&started, &self.memory), asked)?;
            let (buffers, grf) = ((&*self.device, &self.addresses), ready.grf_bytes());
            self.origin = found.map(|origin| {
                let note = origins::note(&origin, &kernel.name, index);
                (origins::table(&origin, buffers, grf), note)
            });
        }
        let limits = Limits { steps: limit };
        let memory = &mut self.memory;
        let done = match prepared {
            Some(prepared) => run_prepared(ready, prepared, &started, memory, limits),
            None => run(ready, &started, memory, self.settings.rules, limits),
        };
        done.map(drop).map_err(|problem| {
            let layer = own.layer.as_ref().map_or(String::new(), |name| format!(", layer {name}"));
            problem.with_note(format!("in launch {index}{layer}"))
        })
    }

    /// Runs a launch; the last store to bytes of a buffer's value, with the place of the kernel.
    pub(super) fn watch(
        &mut self,
        index: usize,
        bytes: Range<u64>,
    ) -> Result<Option<(usize, Store)>> {
        let given = Given::new(self, index)?;
        let started = given.launch(&self.device, self.settings.dispatch_mask);
        let (device, Settings { rules, limit, stride, .. }) = (&self.device, self.settings);
        let kernel = self.kernels.get(&device.launches[index].kernel);
        let (ready, ..) = kernel.ok_or_else(|| Diagnostic::bug("a launch has no kernel"))?;
        let touched = all_touched(&device.kernels[given.place].listing, ready.arch(), stride);
        let watched = Watched { bytes, rules, limit };
        let found = last_store((ready, &touched), (&started, &mut self.memory), &watched)?;
        Ok(found.map(|store| (given.place, store)))
    }

    /// The buffer with a name, the address of its first byte, and what it holds now.
    pub(super) fn buffer(&self, name: &str) -> Result<(&Buffer, u64, &[u8])> {
        let lost = || Diagnostic::bug("a port has no buffer");
        let (buffer, bytes) = self.buffers.get(name).ok_or_else(lost)?;
        let owner = self.memory.buffer(&bytes.owner);
        let own = owner.and_then(|owner| owner.bytes.get(bytes.range.clone()));
        let own = own.ok_or_else(|| Diagnostic::bug("a buffer lies outside of its memory"))?;
        Ok((buffer, *self.addresses.get(name).ok_or_else(lost)?, own))
    }

    /// The numbers of a buffer on a grid; those of its own without one.
    fn value(
        &self,
        name: &str,
        grid: Option<&quincunx_contract::Grid>,
        shape: &[usize],
    ) -> Result<Tensor> {
        let (buffer, _, own) = self.buffer(name)?;
        let grid = grid.cloned().unwrap_or_else(|| buffers::grid(buffer));
        buffers::load(&grid, shape, buffer, own)
    }

    /// Puts inputs into memory, which is otherwise as it was at first.
    pub(crate) fn enter(&mut self, inputs: &Tensors) -> Result<()> {
        self.reset(false)?;
        for port in &self.interface.inputs {
            let found = self.buffers.get(&port.name);
            let (buffer, bytes) = found.ok_or_else(|| Diagnostic::bug("a port has no buffer"))?;
            let own = Self::bytes_mut(&mut self.memory, bytes)?;
            buffers::store(port, buffer, given(inputs, &port.name)?, own)?;
        }
        Ok(())
    }

    /// Runs the launches in order, with something to do after each.
    pub(crate) fn run_launches(
        &mut self,
        after: &mut dyn FnMut(&Launches, usize) -> Result<()>,
    ) -> Result<()> {
        (0..self.device.launches.len()).try_for_each(|index| {
            self.start(index)?;
            after(self, index)
        })
    }

    fn run_all(&mut self, inputs: &Tensors, traced: bool) -> Result<Tensors> {
        self.enter(inputs)?;
        let mut results = Tensors::new();
        self.run_launches(&mut |launches, index| {
            let taps = launches.interface.layers.iter();
            for tap in taps.filter(|tap| traced && tap.after == index) {
                results.insert(tap.value.clone(), launches.value(&tap.place, None, &tap.shape)?);
            }
            Ok(())
        })?;
        for port in &self.interface.outputs {
            let mut value = self.value(&port.name, Some(&port.grid), &port.shape)?;
            if let Some(scale) = self.scales.get(&port.name) {
                let exact = |&x: &f64| Dyadic::from_f64(x).unwrap_or(Dyadic::ZERO);
                let numbers = scale.apply(value.reals().iter().map(exact));
                value = Tensor::from_vec(&port.shape, numbers)?;
            }
            results.insert(port.name.clone(), value);
        }
        Ok(results)
    }
}

/// What a launch is given.
struct Given {
    /// The kernel's place in the program.
    place: usize,
    /// Its launch.
    index: usize,
    payload: Vec<u8>,
    local: Vec<u8>,
}

impl Given {
    fn new(launches: &Launches, index: usize) -> Result<Given> {
        let own = &launches.device.launches[index];
        let found = launches.kernels.get(&own.kernel);
        let &(_, _, place) = found.ok_or_else(|| Diagnostic::bug("a launch has no kernel"))?;
        let kernel = &launches.device.kernels[place];
        let payload = payload(kernel, own, &|name| launches.addresses.get(name).copied())?;
        let local = (0..own.threads).flat_map(|t| local_ids(kernel, own, t)).collect();
        Ok(Given { place, index, payload, local })
    }

    fn launch(&self, device: &Device, dispatch_mask: u32) -> launch::Launch<'_> {
        let (own, kernel) = (&device.launches[self.index], &device.kernels[self.place]);
        launch::Launch {
            groups: own.groups,
            threads: own.threads,
            payload: &self.payload,
            local: &self.local,
            inline_bytes: kernel.environment.inline as usize,
            slm_bytes: kernel.environment.slm as usize,
            dispatch_mask,
        }
    }
}

/// What the instructions of a kernel read and write.
fn all_touched(listing: &Listing, arch: &DpasArch, stride: RowStride) -> Vec<Touched> {
    listing.items.iter().map(|item| touched(&item.statement, arch, stride)).collect()
}

/// What an instruction reads and writes.
fn touched(statement: &Statement, arch: &DpasArch, stride: RowStride) -> Touched {
    let Effects { unit, reads, writes } = effects(statement, arch, stride);
    Touched { known: unit != Unit::Unknown, reads, writes }
}

/// What the driver makes of outputs, by their names.
fn scales(interface: &Interface) -> Result<BTreeMap<String, Scale>> {
    let scale = |scaling: &Scaling| {
        let port = interface.outputs.iter().find(|port| port.name == scaling.output);
        let elements = port.and_then(|port| element_count(&port.shape)).unwrap_or(0);
        Ok((scaling.output.clone(), Scale::parse(scaling, elements, "Q6124")?))
    };
    interface.scalings.iter().map(scale).collect()
}

fn too_large(buffer: &Buffer) -> Diagnostic {
    Diagnostic::bug(format!("buffer \"{}\" is too large", buffer.name))
}

impl Machine for Launches {
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors> {
        self.run_all(inputs, false)
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        self.run_all(inputs, true)
    }

    fn notes(&mut self) -> Vec<Diagnostic> {
        let origin = match (self.settings.origin, &self.origin) {
            (None, _) => None,
            (Some(_), Some((_, note))) => Some(note.clone()),
            (Some(_), None) => Some(origins::never()),
        };
        self.note.take().into_iter().chain(origin).collect()
    }

    fn tables(&mut self) -> Vec<Table> {
        self.origin.take().map(|(table, _)| table).into_iter().collect()
    }
}
