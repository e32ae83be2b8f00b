//! Messages of a thread.

use super::Thread;
use crate::isa::vector::{Message, Receiver, Terms};
use crate::simulate::message::{Block, Fault, Flat, Request, Space, Storage};
use quincunx_diag::{Diagnostic, Result};

/// Operation of the gateway: a signal to the barrier of the group.
const SIGNAL: u32 = 4;
/// Operation of the gateway: the end of a thread.
const END: u32 = 0x10;
/// Bytes of the payload of a block.
const PAYLOAD: usize = 64;

fn fault(problem: Fault) -> Diagnostic {
    let message = format!("memory at {:#x}: {}", problem.address, problem.reason);
    Diagnostic::invalid("Q6150", message)
}

impl Thread {
    pub(super) fn send(&mut self, terms: &Terms, memory: &mut dyn Storage) -> Result<()> {
        let Some(message) = terms.message else { return Ok(()) };
        let descriptor = match message.descriptor {
            Some(descriptor) => descriptor,
            None => self.address_dword(0),
        };
        if message.receiver == Receiver::Gateway {
            return self.gateway(descriptor, terms);
        }
        let lanes = terms.size.lanes();
        let request = Request::new(&message, descriptor, lanes, self.platform)?;
        request.check_counts(&message, descriptor, self.platform)?;
        match request {
            Request::Flat(flat) => self.flat(&flat, &message, self.mask(terms), memory),
            Request::Block(block) if self.mask(terms) & 1 == 1 => {
                self.block(&block, &message, descriptor, memory)
            }
            Request::Block(_) => Ok(()),
        }
    }

    fn address_dword(&self, index: usize) -> u32 {
        let (words, _) = self.address.as_chunks::<4>();
        words.get(index).map_or(0, |word| u32::from_le_bytes(*word))
    }

    fn gateway(&mut self, descriptor: u32, terms: &Terms) -> Result<()> {
        match (descriptor & 63, terms.options.is_end()) {
            (END, true) => Ok(()),
            (SIGNAL, false) if self.signalled => {
                Err(Diagnostic::invalid("Q6154", "the thread has signalled the barrier already"))
            }
            (SIGNAL, false) => {
                self.signalled = true;
                Ok(())
            }
            _ => {
                let message = format!("the gateway does not know the message {descriptor:#010x}");
                Err(Diagnostic::unsupported("Q6149", message)
                    .help("the signal of a barrier and the end of a thread are known"))
            }
        }
    }

    /// Bytes of registers.
    fn registers(&self, first: Option<u8>, bytes: usize) -> Result<std::ops::Range<usize>> {
        let start = usize::from(first.unwrap_or(0)) * self.grf_bytes;
        let end = start + bytes;
        if first.is_none() || end > self.grf.len() {
            let message = format!("registers of a message end at byte {end} of {}", self.grf.len());
            return Err(Diagnostic::invalid("Q6070", message));
        }
        Ok(start..end)
    }

    fn flat(
        &mut self,
        flat: &Flat,
        message: &Message,
        mask: u32,
        memory: &mut dyn Storage,
    ) -> Result<()> {
        let grf = self.grf_bytes as u32;
        let length = flat.address_registers(grf) as usize * self.grf_bytes;
        let addresses = self.registers(message.src0, length)?;
        let size = flat.address as usize;
        let address = |lane: u32, file: &[u8]| {
            let at = addresses.start + lane as usize * size;
            let mut word = [0; 8];
            word[..size].copy_from_slice(&file[at..at + size]);
            u64::from_le_bytes(word)
        };
        let first = if flat.store { message.src1.0 } else { message.dst };
        let data_bytes = flat.data_registers(grf) as usize * self.grf_bytes;
        // A prefetch checks its addresses only.
        let data = match (first, flat.store) {
            (None, false) => None,
            _ => Some(self.registers(first, data_bytes)?),
        };
        let mut answer = vec![0; data_bytes];
        let mut written = vec![false; data_bytes];
        for lane in (0..flat.lanes).filter(|lane| mask >> lane & 1 == 1) {
            let base = address(lane, &self.grf);
            if base % u64::from(flat.memory) != 0 {
                let reason = format!("no multiple of {} bytes", flat.memory);
                return Err(fault(Fault { address: base, reason }));
            }
            for element in 0..flat.vector {
                let offset = u64::from(element * flat.memory);
                let Some(place) = base.checked_add(offset) else {
                    let reason = "the address has more than 64 bits".to_owned();
                    return Err(fault(Fault { address: base, reason }));
                };
                let at = flat.element_byte(lane, element, grf) as usize;
                let (memory_bytes, register) = (flat.memory as usize, flat.register as usize);
                if flat.store {
                    let start = data.as_ref().map_or(0, |data| data.start) + at;
                    let bytes = &self.grf[start..start + memory_bytes];
                    memory.store(flat.space, place, bytes).map_err(fault)?;
                } else {
                    memory
                        .load(flat.space, place, &mut answer[at..at + memory_bytes])
                        .map_err(fault)?;
                    written[at..at + register].fill(true);
                }
            }
        }
        if let (Some(data), false) = (data, flat.store) {
            let bytes = answer.iter().zip(&written);
            for (place, (byte, _)) in self.grf[data].iter_mut().zip(bytes).filter(|(_, b)| *b.1) {
                *place = *byte;
            }
        }
        Ok(())
    }

    fn block(
        &mut self,
        block: &Block,
        message: &Message,
        descriptor: u32,
        memory: &mut dyn Storage,
    ) -> Result<()> {
        let payload = self.registers(message.src0, PAYLOAD)?;
        let mut bytes = [0; PAYLOAD];
        bytes.copy_from_slice(&self.grf[payload]);
        let surface = block.surface(&bytes)?;
        let expected = block.registers(&surface);
        let first = if block.store { message.src1.0 } else { message.dst };
        let count = match (block.store, first) {
            (true, _) => u32::from(message.src1.1),
            // A prefetch.
            (false, None) => return Ok(()),
            (false, Some(_)) => message.answer_registers(descriptor),
        };
        // 31 stands for 32.
        if count != expected && !(count == 32 && expected == 31) {
            let message = format!("the block has {expected} registers, the message {count}");
            return Err(Diagnostic::invalid("Q6153", message));
        }
        let data = self.registers(first, expected as usize * self.grf_bytes)?;
        let size = block.size as usize;
        if !block.store {
            // Padding and what lies outside of the matrix is 0.
            self.grf[data.clone()].fill(0);
        }
        for (number, y, x) in elements(&surface) {
            let Some(address) = surface.address(block.size, number, x, y) else { continue };
            let at = data.start + block.element_byte(&surface, number, x, y) as usize;
            let bytes = &mut self.grf[at..at + size];
            match block.store {
                true => memory.store(Space::Global, address, bytes),
                false => memory.load(Space::Global, address, bytes),
            }
            .map_err(fault)?;
        }
        Ok(())
    }
}

/// Number of the block, row and column of every element.
fn elements(
    surface: &crate::simulate::message::block::Surface,
) -> impl Iterator<Item = (u32, u32, u32)> + use<> {
    let (blocks, height, width) = (surface.blocks, surface.block_height, surface.block_width);
    (0..blocks).flat_map(move |block| {
        (0..height).flat_map(move |y| (0..width).map(move |x| (block, y, x)))
    })
}
