//! What a schedule moves between DRAM and the core, and where it lies in DRAM.

use super::contradiction;
use crate::files::layers::{Layers, Operation};
use crate::files::schedule::{Area, Buffer, Holds, Schedule, Slot, Workload};
use crate::isa::DataFmt;
use crate::work::{Extents, buffer_row_bytes, channel_bytes, dense_row_bytes, element_bytes};
use quincunx_diag::Result;
use std::collections::BTreeMap;

/// A transfer: a tensor as the first workload lists it that has it.
pub(super) struct Transfer<'a> {
    /// Position of that workload.
    pub(super) workload: usize,
    pub(super) moved: Moved<'a>,
}

/// What is moved where.
#[derive(Clone, Copy)]
pub(super) enum Moved<'a> {
    /// Weights to L2.
    Weights(&'a Buffer<'a>),
    /// Weights to WL0.
    Resident(&'a Slot<'a>, Area),
    /// Activations to L2.
    Load(&'a Buffer<'a>),
    /// Activations to DRAM.
    Store(&'a Buffer<'a>, &'a str),
}

impl Moved<'_> {
    fn address(&self) -> i64 {
        match self {
            Moved::Weights(buffer) | Moved::Load(buffer) | Moved::Store(buffer, _) => {
                buffer.address
            }
            Moved::Resident(slot, _) => slot.address,
        }
    }

    fn layer(&self) -> Option<&str> {
        match self {
            Moved::Weights(buffer) => match buffer.holds {
                Holds::Weights(layer) => Some(layer),
                _ => None,
            },
            Moved::Resident(slot, _) => Some(slot.layer),
            Moved::Store(_, layer) => Some(layer),
            Moved::Load(_) => None,
        }
    }
}

/// All transfers in their order.
///
/// # Errors
/// `Q4073` for a transfer that no workload lists, or two at different places.
pub(super) fn transfers<'a>(schedule: &'a Schedule<'a>) -> Result<Vec<Transfer<'a>>> {
    let mut found: Vec<Option<Transfer<'a>>> = Vec::new();
    found.resize_with(schedule.transfers, || None);
    for (position, workload) in schedule.workloads.iter().enumerate() {
        for (order, at, moved) in listed(workload) {
            let Some(place) = found.get_mut(order) else { continue };
            match place {
                None => *place = Some(Transfer { workload: position, moved }),
                Some(first) => {
                    let same = first.moved.address() == moved.address()
                        && first.moved.layer() == moved.layer();
                    if !same {
                        let message = format!(
                            "the tensor of order {order} lies elsewhere in workload {}",
                            first.workload
                        );
                        return Err(at.wrong("Q4073", message));
                    }
                }
            }
        }
    }
    let whole = found.into_iter().enumerate().map(|(order, transfer)| {
        transfer.ok_or_else(|| {
            contradiction(schedule, format!("no workload lists the tensor of order {order}"))
        })
    });
    whole.collect()
}

/// What a workload lists that may come from DRAM or go there.
fn listed<'a>(
    workload: &'a Workload<'a>,
) -> impl Iterator<Item = (usize, &'a crate::files::At<'a>, Moved<'a>)> {
    let buffers = workload.buffers.iter().map(|buffer| {
        let moved = match buffer.holds {
            Holds::Weights(_) => Moved::Weights(buffer),
            Holds::Input => Moved::Load(buffer),
            Holds::Output(layer) => Moved::Store(buffer, layer),
        };
        (buffer.order, &buffer.at, moved)
    });
    let slots = workload.slots.iter().filter_map(|slot| {
        let area = *slot.areas.first()?;
        Some((slot.order?, &slot.at, Moved::Resident(slot, area)))
    });
    buffers.chain(slots)
}

/// A tensor in DRAM, without gaps.
#[derive(Clone, Copy)]
pub(super) struct Tensor {
    pub(super) address: i64,
    /// Images, channels, rows, columns.
    pub(super) extents: [i64; 4],
    pub(super) format: DataFmt,
}

impl Tensor {
    /// Byte of an element.
    pub(super) fn byte(&self, [n, c, h, w]: [i64; 4]) -> i64 {
        let [_, channels, rows, columns] = self.extents;
        let element = ((n * rows + h) * columns + w) * channels + c;
        self.address.saturating_add(element * i64::from(element_bytes(self.format)))
    }
}

/// What lies in DRAM.
pub(super) struct Dram<'a> {
    /// Activations by layer or input.
    pub(super) tensors: BTreeMap<&'a str, Tensor>,
    /// First byte of the weights of every layer.
    pub(super) weights: BTreeMap<&'a str, i64>,
}

impl<'a> Dram<'a> {
    /// Weights in the order of layers; inputs, then tensors in the order in which they are first
    /// stored.
    ///
    /// # Errors
    /// `Q4073` for a layer that is missing.
    pub(super) fn new(layers: &'a Layers<'a>, transfers: &[Transfer<'a>]) -> Result<Dram<'a>> {
        let mut dram = Dram { tensors: BTreeMap::new(), weights: BTreeMap::new() };
        let mut order: Vec<_> = layers.layers.iter().collect();
        order.sort_by_key(|(_, layer)| layer.index);
        let mut end = 0_i64;
        for (name, layer) in order {
            if let Operation::Conv(conv) = layer.operation {
                dram.weights.insert(name, end);
                end = end.saturating_add(conv.weights[0] * row_bytes(conv.weights));
            }
        }
        let mut end = 0;
        for &(name, extents, format) in &layers.inputs {
            dram.allocate(name, extents, format, &mut end);
        }
        for transfer in transfers {
            let Moved::Store(buffer, name) = transfer.moved else { continue };
            let Some(layer) = layers.layers.get(name) else {
                return Err(buffer.at.wrong("Q4073", format!("the network has no layer {name:?}")));
            };
            dram.allocate(name, layer.output, layer.format, &mut end);
        }
        Ok(dram)
    }

    fn allocate(&mut self, name: &'a str, extents: [i64; 4], format: DataFmt, end: &mut i64) {
        self.tensors.entry(name).or_insert_with(|| {
            let tensor = Tensor { address: *end, extents, format };
            *end = tensor.byte([extents[0], 0, 0, 0]);
            tensor
        });
    }
}

/// Bytes of the weights of an output channel in DRAM and L2, parameters included.
pub(super) fn row_bytes(weights: [i64; 4]) -> i64 {
    channel_bytes(1, dense_row_bytes(row(weights), 1)) as i64
}

/// Units of WL0 of so many output channels.
pub(super) fn units(weights: [i64; 4], channels: i64) -> i64 {
    let blocks = (channels as u32).div_ceil(64);
    channel_bytes(blocks, buffer_row_bytes(row(weights), 1)) as i64
}

/// Input channels, rows and columns of an output channel.
pub(super) fn row([_, c, r, s]: [i64; 4]) -> Extents {
    [c, r, s].map(|extent| extent as u32)
}
