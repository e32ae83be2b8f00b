//! Loads and stores at flat addresses.

use super::{Space, bits, unsupported};
use crate::arch::Platform;
use quincunx_diag::Result;

/// A load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flat {
    /// Which memory.
    pub space: Space,
    /// Writes memory.
    pub store: bool,
    /// Bytes of an address: 2, 4 or 8.
    pub address: u32,
    /// Bytes of an element in memory.
    pub memory: u32,
    /// Bytes of an element in registers; those that memory has not are 0.
    pub register: u32,
    /// Elements of a lane.
    pub vector: u32,
    /// One lane moves consecutive elements.
    pub transposed: bool,
    /// Lanes.
    pub lanes: u32,
}

impl Flat {
    pub(super) fn new(
        descriptor: u32,
        space: Space,
        lanes: u32,
        platform: Platform,
    ) -> Result<Flat> {
        let address = match bits(descriptor, 7, 2) {
            1 => 2,
            2 => 4,
            3 => 8,
            _ => return Err(unsupported("addresses have no size".to_owned())),
        };
        let (memory, register) = match bits(descriptor, 9, 3) {
            2 => (4, 4),
            3 => (8, 8),
            4 => (1, 4),
            5 => (2, 4),
            other => return Err(unsupported(format!("flat elements have no size code {other}"))),
        };
        let transposed = bits(descriptor, 15, 1) == 1;
        let vector = match bits(descriptor, 12, 3) {
            code @ 0..4 => code.saturating_add(1),
            code => 1u32.wrapping_shl(code.saturating_sub(1)),
        };
        if transposed && lanes != 1 {
            return Err(unsupported(format!("a transposed message has one lane, found {lanes}")));
        }
        if transposed && register != memory {
            return Err(unsupported("transposed elements have 32 or 64 bits".to_owned()));
        }
        if !transposed && vector > 4 {
            return Err(unsupported(format!("lanes move at most 4 elements, found {vector}")));
        }
        let most = platform.lanes().saturating_mul(2);
        if lanes > most {
            return Err(unsupported(format!("a message has at most {most} lanes, found {lanes}")));
        }
        if space == Space::Shared && address == 8 {
            return Err(unsupported("shared memory has no 64-bit addresses".to_owned()));
        }
        let store = bits(descriptor, 0, 6) == 4;
        Ok(Flat { space, store, address, memory, register, vector, transposed, lanes })
    }

    /// Registers of the addresses.
    pub fn address_registers(&self, grf: u32) -> u32 {
        self.lanes.saturating_mul(self.address).div_ceil(grf)
    }

    /// Bytes from one element of a lane's vector to the next: whole registers.
    pub fn part_bytes(&self, grf: u32) -> u32 {
        self.lanes.saturating_mul(self.register).next_multiple_of(grf)
    }

    /// Registers of the data.
    pub fn data_registers(&self, grf: u32) -> u32 {
        if self.transposed {
            return self.vector.saturating_mul(self.register).div_ceil(grf);
        }
        self.part_bytes(grf).saturating_mul(self.vector).checked_div(grf).unwrap_or(0)
    }

    /// The byte of the data where an element of a lane lies.
    pub fn element_byte(&self, lane: u32, element: u32, grf: u32) -> u32 {
        if self.transposed {
            return element.saturating_mul(self.register);
        }
        let part = element.saturating_mul(self.part_bytes(grf));
        part.saturating_add(lane.saturating_mul(self.register))
    }
}
