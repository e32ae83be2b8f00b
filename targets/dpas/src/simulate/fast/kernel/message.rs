//! Prepared loads and stores at flat addresses.

use crate::arch::DpasArch;
use crate::isa::vector::{Receiver, Terms};
use crate::simulate::exec::enabled;
use crate::simulate::message::{Flat, Request, Storage};
use crate::simulate::thread::{LANES, Thread};

/// A message whose operands lie in the registers, and without a predicate.
pub(super) struct Transfer {
    flat: Flat,
    /// First byte of the addresses and of the data.
    addresses: usize,
    data: usize,
    /// Bytes from one element of a lane to the next.
    part: usize,
    offset: u32,
    no_mask: bool,
}

impl Transfer {
    /// A message that can be prepared.
    pub(super) fn new(terms: &Terms, arch: &DpasArch) -> Option<Transfer> {
        let message = terms.message?;
        let descriptor = message.descriptor?;
        if message.receiver == Receiver::Gateway
            || terms.control.predicate().is_some()
            || terms.options.is_end()
        {
            return None;
        }
        let request = Request::new(&message, descriptor, terms.size.lanes(), arch.platform).ok()?;
        request.check_counts(&message, descriptor, arch.platform).ok()?;
        let Request::Flat(flat) = request else { return None };
        let grf = arch.platform.grf_bytes();
        let place = |first: Option<u8>, registers: u32| {
            let start = u32::from(first?) * grf;
            (start + registers * grf <= arch.file_bytes()).then_some(start as usize)
        };
        let data = if flat.store { message.src1.0 } else { message.dst };
        Some(Transfer {
            flat,
            addresses: place(message.src0, flat.address_registers(grf))?,
            data: place(data, flat.data_registers(grf))?,
            part: flat.part_bytes(grf) as usize,
            offset: terms.size.offset(),
            no_mask: terms.control.no_mask(),
        })
    }

    /// Does it, or nothing: then it may fail, or lanes are off.
    #[inline]
    pub(super) fn run(&self, thread: &mut Thread, memory: &mut dyn Storage) -> bool {
        let all = u32::MAX >> (32 - self.flat.lanes);
        if enabled(thread.dispatch_mask, self.offset, self.no_mask) & all != all {
            return false;
        }
        match (self.flat.transposed, self.flat.memory) {
            (true, _) => self.block(&mut thread.grf, memory),
            (false, 8) => self.lanes::<8, 8>(&mut thread.grf, memory),
            (false, 4) => self.lanes::<4, 4>(&mut thread.grf, memory),
            (false, 2) => self.lanes::<2, 4>(&mut thread.grf, memory),
            _ => self.lanes::<1, 4>(&mut thread.grf, memory),
        }
        .is_some()
    }

    fn address(&self, file: &[u8], lane: usize) -> u64 {
        let word =
            |at: usize| u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]]);
        match self.flat.address {
            8 => {
                let at = self.addresses + 8 * lane;
                u64::from(word(at)) | u64::from(word(at + 4)) << 32
            }
            4 => word(self.addresses + 4 * lane).into(),
            _ => {
                let at = self.addresses + 2 * lane;
                u16::from_le_bytes([file[at], file[at + 1]]).into()
            }
        }
    }

    /// Consecutive elements at one address.
    fn block(&self, file: &mut [u8], memory: &mut dyn Storage) -> Option<()> {
        let address = self.address(file, 0);
        if address % u64::from(self.flat.memory) != 0 {
            return None;
        }
        let length = (self.flat.vector * self.flat.memory) as usize;
        let data = self.data..self.data + length;
        match self.flat.store {
            true => {
                memory.bytes_mut(self.flat.space, address, length)?.copy_from_slice(&file[data])
            }
            false => file[data].copy_from_slice(memory.bytes(self.flat.space, address, length)?),
        }
        Some(())
    }

    /// Elements of `M` bytes in memory and `R` in registers for every lane.
    fn lanes<const M: usize, const R: usize>(
        &self,
        file: &mut [u8],
        memory: &mut dyn Storage,
    ) -> Option<()> {
        let (count, vector) = (self.flat.lanes as usize, self.flat.vector as usize);
        let mut addresses = [0u64; LANES];
        let addresses = &mut addresses[..count];
        if self.flat.address == 8 {
            let (words, _) = file[self.addresses..][..8 * count].as_chunks::<8>();
            for (address, word) in addresses.iter_mut().zip(words) {
                *address = u64::from_le_bytes(*word);
            }
        } else {
            for (lane, address) in addresses.iter_mut().enumerate() {
                *address = self.address(file, lane);
            }
        }
        let (mut least, mut most, mut low) = (u64::MAX, 0, 0);
        for &address in addresses.iter() {
            least = least.min(address);
            most = most.max(address);
            low |= address;
        }
        let length = usize::try_from(most - least).ok()?.checked_add(M * vector)?;
        if low % M as u64 != 0 {
            return None;
        }
        let data = &mut file[self.data..][..self.part * vector];
        if self.flat.store {
            let bytes = memory.bytes_mut(self.flat.space, least, length)?;
            for (lane, &address) in addresses.iter().enumerate() {
                let at = (address - least) as usize;
                for element in 0..vector {
                    let from = element * self.part + lane * R;
                    bytes[at + M * element..][..M].copy_from_slice(&data[from..][..M]);
                }
            }
            return Some(());
        }
        let bytes = memory.bytes(self.flat.space, least, length)?;
        for (lane, &address) in addresses.iter().enumerate() {
            let at = (address - least) as usize;
            for element in 0..vector {
                let mut word = [0; R];
                word[..M].copy_from_slice(&bytes[at + M * element..][..M]);
                data[element * self.part + lane * R..][..R].copy_from_slice(&word);
            }
        }
        Some(())
    }
}
