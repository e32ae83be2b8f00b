//! Messages to memory: what a descriptor asks for, and doing it.
//!
//! Facts: `visa`, `iga` (`docs/bibliography.md`).

#![deny(clippy::arithmetic_side_effects)]

pub mod block;
mod flat;

pub use block::Block;
pub use flat::Flat;

use crate::arch::Platform;
use crate::isa::vector::{Message, Receiver};
use quincunx_diag::{Diagnostic, Result};

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Global.
    Global,
    /// Shared by the threads of a group.
    Shared,
}

/// Consecutive bytes of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Which memory.
    pub space: Space,
    /// Address of the first byte.
    pub address: u64,
    /// How many.
    pub length: usize,
}

/// Why memory cannot be accessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// First address of the access.
    pub address: u64,
    /// What is wrong, such as `no buffer is there`.
    pub reason: String,
}

/// The memory of a thread.
pub trait Storage {
    /// Reads bytes.
    ///
    /// # Errors
    /// When there are none.
    fn load(
        &mut self,
        space: Space,
        address: u64,
        bytes: &mut [u8],
    ) -> std::result::Result<(), Fault>;

    /// Writes bytes.
    ///
    /// # Errors
    /// When there are none, or they cannot be written.
    fn store(&mut self, space: Space, address: u64, bytes: &[u8])
    -> std::result::Result<(), Fault>;

    /// Bytes that loads read, if they lie in one piece. The hint says where the last ones were.
    fn bytes(&self, _place: Stretch, _hint: &mut usize) -> Option<&[u8]> {
        None
    }

    /// Bytes that stores write and loads read, if they lie in one piece.
    fn bytes_mut(&mut self, _place: Stretch, _hint: &mut usize) -> Option<&mut [u8]> {
        None
    }
}

/// No memory at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStorage;

impl Storage for NoStorage {
    fn load(&mut self, _: Space, address: u64, _: &mut [u8]) -> std::result::Result<(), Fault> {
        Err(Fault { address, reason: "the program has no memory".to_owned() })
    }

    fn store(&mut self, _: Space, address: u64, _: &[u8]) -> std::result::Result<(), Fault> {
        Err(Fault { address, reason: "the program has no memory".to_owned() })
    }
}

/// Kind of a message to a surface that a table lists, and its entry for memory without one (`iga`).
const TABLE: u32 = 3;
const STATELESS: u8 = 255;

/// What a message to memory asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Elements at the address of each lane, or consecutive ones at one address.
    Flat(Flat),
    /// A block of a matrix.
    Block(Block),
}

/// Bits of a descriptor.
fn bits(descriptor: u32, at: u32, width: u32) -> u32 {
    descriptor >> at & 1u32.wrapping_shl(width).wrapping_sub(1)
}

pub(crate) fn unsupported(text: String) -> Diagnostic {
    Diagnostic::unsupported("Q6149", text).help(
        "loads and stores of d32, d64, d8u32, d16u32, and blocks, with flat addresses are known",
    )
}

impl Request {
    /// The request of a descriptor.
    ///
    /// # Errors
    /// `Q6149` for one that this target does not know.
    pub fn new(
        message: &Message,
        descriptor: u32,
        lanes: u32,
        platform: Platform,
    ) -> Result<Request> {
        let surface = bits(descriptor, 29, 2);
        // The last entry of the table is no surface: addresses of 32 bits in global memory.
        let stateless =
            surface == TABLE && message.surface == STATELESS && bits(descriptor, 7, 2) == 2;
        if message.extended.is_some() || (surface != 0 && !stateless) {
            return Err(unsupported(
                "the message is for a surface, not for flat memory".to_owned(),
            ));
        }
        let space = match message.receiver {
            Receiver::Ugm => Space::Global,
            Receiver::Slm => Space::Shared,
            Receiver::Gateway => {
                return Err(unsupported("the gateway has no memory".to_owned()));
            }
        };
        match bits(descriptor, 0, 6) {
            0 | 4 => Flat::new(descriptor, space, lanes, platform).map(Request::Flat),
            3 | 7 if space == Space::Global && platform.is_second() => {
                Block::new(descriptor).map(Request::Block)
            }
            3 | 7 => Err(unsupported(format!("{} has no such blocks", platform.name()))),
            other => Err(unsupported(format!("memory has no operation {other} here"))),
        }
    }

    /// The counts of registers that stand in a message.
    ///
    /// # Errors
    /// `Q6149` when they are not those that the request needs.
    pub fn check_counts(
        &self,
        message: &Message,
        descriptor: u32,
        platform: Platform,
    ) -> Result<()> {
        let Request::Flat(flat) = self else {
            let address = bits(descriptor, 25, 4);
            return counts("the address", address, 1);
        };
        let grf = platform.grf_bytes();
        counts("the address", bits(descriptor, 25, 4), flat.address_registers(grf))?;
        let data = flat.data_registers(grf);
        if flat.store {
            return counts("the data", message.src1.1.into(), data);
        }
        match (message.dst, bits(descriptor, 20, 5)) {
            (None, 0) => Ok(()),
            (None, _) => Err(unsupported("null takes no registers".to_owned())),
            (Some(_), count) => counts("the answer", count, data),
        }
    }
}

fn counts(what: &str, found: u32, expected: u32) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let message = format!("{what} has {found} registers, expected {expected}");
    Err(Diagnostic::invalid("Q6149", message).help("counts follow from lanes, sizes and vector"))
}
