//! The instruction that stored an element of a layer.

use super::DeviceArtifact;
use crate::ports::buffers;
use crate::program::device::{Buffer, Kernel};
use crate::simulate::launch::Store;
use crate::text::native::print_statement;
use quincunx_contract::{LayerTap, Origin};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::Tensors;

impl DeviceArtifact {
    /// Runs the launches up to the one behind which a layer is read, with an eye on the bytes of an
    /// element.
    ///
    /// # Errors
    /// As a run.
    pub(super) fn origin_of(
        &self,
        inputs: &Tensors,
        tap: &LayerTap,
        element: usize,
    ) -> Result<Option<Origin>> {
        let mut launches = self.launches(None)?;
        launches.enter(inputs)?;
        let (buffer, base, _) = launches.buffer(&tap.place)?;
        let at = buffer.places().nth(element);
        let at = at.ok_or_else(|| Diagnostic::bug("an element of a layer is lost"))?;
        let start = base.saturating_add(at as u64);
        let bytes = start..start.saturating_add(buffer.element.bytes().into());
        let mut last = None;
        for index in 0..=tap.after {
            if let Some((kernel, store)) = launches.watch(index, bytes.clone())? {
                last = Some((index, &self.device.kernels[kernel], store));
            }
        }
        let Some((launch, kernel, store)) = last else { return Ok(None) };
        let (buffer, _, own) = launches.buffer(&tap.place)?;
        let held = buffers::number(buffer, own, at);
        let held = held.ok_or_else(|| Diagnostic::bug("an element leaves its buffer"))?;
        let Store { index, group: [x, y, z], thread, .. } = store;
        Ok(Some(Origin {
            place: format!(
                "instruction {index} of kernel \"{}\", launch {launch}, group {x} {y} {z}, \
                 thread {thread}",
                kernel.name
            ),
            text: text(kernel, index),
            operands: self.operands(kernel, buffer, &store),
            result: (format!("{}, byte {at}", tap.place), held.to_string()),
        }))
    }

    /// The registers that were stored, with the instruction that wrote them.
    fn operands(&self, kernel: &Kernel, buffer: &Buffer, store: &Store) -> Vec<(String, String)> {
        let Some(byte) = store.source else { return Vec::new() };
        let grf = self.arch.platform.grf_bytes() as usize;
        let made = store.maker.map_or(String::new(), |maker| {
            format!(", written by instruction {maker}: {}", text(kernel, maker))
        });
        let number = buffers::number(buffer, &store.held, 0);
        let number = number.map_or_else(String::new, |number| number.to_string());
        vec![(format!("r{}, byte {}{made}", byte / grf, byte % grf), number)]
    }
}

fn text(kernel: &Kernel, index: usize) -> String {
    let mut text = String::new();
    if let Some(item) = kernel.listing.items.get(index) {
        print_statement(&item.statement, &mut text);
    }
    text
}
