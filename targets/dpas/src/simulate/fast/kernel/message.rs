//! Prepared loads and stores at flat addresses.

use crate::arch::DpasArch;
use crate::isa::vector::{Receiver, Terms};
use crate::simulate::exec::enabled;
use crate::simulate::message::{Flat, Request, Storage, Stretch};
use crate::simulate::thread::{LANES, Thread};
use quincunx_num::Loop;

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
    /// Where the last bytes were.
    hint: usize,
}

/// A message, and the thread and the memory between which it moves data. The result is
/// that of [`Transfer::run`].
pub(super) struct Move<'a> {
    pub(super) transfer: &'a mut Transfer,
    pub(super) thread: &'a mut Thread,
    pub(super) memory: &'a mut dyn Storage,
}

impl Loop for Move<'_> {
    type Result = bool;

    #[inline(always)]
    fn run(self) -> bool {
        self.transfer.run(self.thread, self.memory)
    }
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
            hint: 0,
        })
    }

    /// Does it, or nothing: then it may fail, or lanes are off.
    #[inline(always)]
    fn run(&mut self, thread: &mut Thread, memory: &mut dyn Storage) -> bool {
        let all = u32::MAX >> (32 - self.flat.lanes);
        if enabled(thread.dispatch_mask, self.offset, self.no_mask) & all != all {
            return false;
        }
        match (self.flat.transposed, self.flat.memory) {
            (true, _) => self.block(&mut thread.grf, memory),
            (false, 8) if self.flat.vector == 1 && self.flat.address == 8 => {
                self.words(&mut thread.grf, memory)
            }
            (false, 8) => self.lanes::<8, 8>(&mut thread.grf, memory),
            (false, 4) => self.lanes::<4, 4>(&mut thread.grf, memory),
            (false, 2) => self.lanes::<2, 4>(&mut thread.grf, memory),
            _ => self.lanes::<1, 4>(&mut thread.grf, memory),
        }
        .is_some()
    }

    #[inline(always)]
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
    #[inline(always)]
    fn block(&mut self, file: &mut [u8], memory: &mut dyn Storage) -> Option<()> {
        let address = self.address(file, 0);
        // A power of two.
        if address & u64::from(self.flat.memory - 1) != 0 {
            return None;
        }
        let length = (self.flat.vector * self.flat.memory) as usize;
        let data = self.data..self.data + length;
        let stretch = Stretch { space: self.flat.space, address, length };
        match self.flat.store {
            true => memory.bytes_mut(stretch, &mut self.hint)?.copy_from_slice(&file[data]),
            false => file[data].copy_from_slice(memory.bytes(stretch, &mut self.hint)?),
        }
        Some(())
    }

    /// An element of 64 bits for every lane, at addresses of 64 bits. Often four lanes share a run
    /// of bytes.
    #[inline(always)]
    fn words(&mut self, file: &mut [u8], memory: &mut dyn Storage) -> Option<()> {
        const RUN: usize = 4;
        let count = self.flat.lanes as usize;
        let (words, _) = file[self.addresses..][..8 * count].as_chunks::<8>();
        let (runs, rest) = words.as_chunks::<RUN>();
        let mut apart = u64::from(!rest.is_empty());
        for [start, a, b, c] in runs {
            let start = u64::from_le_bytes(*start);
            apart |= u64::from_le_bytes(*a).wrapping_sub(start) ^ 8;
            apart |= u64::from_le_bytes(*b).wrapping_sub(start) ^ 16;
            apart |= u64::from_le_bytes(*c).wrapping_sub(start) ^ 24;
        }
        if apart != 0 {
            return self.lanes::<8, 8>(file, memory);
        }
        let mut starts = [0; LANES / RUN];
        let starts = &mut starts[..runs.len()];
        let (mut least, mut most, mut low) = (u64::MAX, 0, 0);
        for (start, run) in starts.iter_mut().zip(runs) {
            *start = u64::from_le_bytes(run[0]);
            least = least.min(*start);
            most = most.max(*start);
            low |= *start;
        }
        if low % 8 != 0 {
            return None;
        }
        let length = usize::try_from(most - least).ok()?.checked_add(8 * RUN)?;
        let stretch = Stretch { space: self.flat.space, address: least, length };
        let (data, _) = file[self.data..][..8 * count].as_chunks_mut::<{ 8 * RUN }>();
        if self.flat.store {
            let bytes = memory.bytes_mut(stretch, &mut self.hint)?;
            for (start, data) in starts.iter().zip(data) {
                bytes[(start - least) as usize..][..8 * RUN].copy_from_slice(data);
            }
            return Some(());
        }
        let bytes = memory.bytes(stretch, &mut self.hint)?;
        for (start, data) in starts.iter().zip(data) {
            let place = &bytes[(start - least) as usize..];
            data.copy_from_slice(&place[..8 * RUN]);
            prefetch(place.as_ptr().wrapping_add(128));
        }
        Some(())
    }

    /// Elements of `M` bytes in memory and `R` in registers for every lane.
    #[inline(always)]
    fn lanes<const M: usize, const R: usize>(
        &mut self,
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
        let stretch = Stretch { space: self.flat.space, address: least, length };
        let data = &mut file[self.data..][..self.part * vector];
        if self.flat.store {
            let bytes = memory.bytes_mut(stretch, &mut self.hint)?;
            for (lane, &address) in addresses.iter().enumerate() {
                let at = (address - least) as usize;
                for element in 0..vector {
                    let from = element * self.part + lane * R;
                    bytes[at + M * element..][..M].copy_from_slice(&data[from..][..M]);
                }
            }
            return Some(());
        }
        let bytes = memory.bytes(stretch, &mut self.hint)?;
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

/// Asks for bytes that loops often load next.
#[inline(always)]
pub(super) fn prefetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: Any address may be asked for.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
