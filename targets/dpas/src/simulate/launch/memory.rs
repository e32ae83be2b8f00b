//! Global memory: buffers at addresses.

use crate::simulate::AlignedBytes;
use crate::simulate::message::{Fault, Stretch};
use quincunx_diag::{Diagnostic, Result};

/// Bytes at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Name.
    pub name: String,
    /// Address of the first byte.
    pub base: u64,
    /// The bytes.
    pub bytes: AlignedBytes,
    /// Kernels may write them.
    pub writable: bool,
}

impl Buffer {
    fn end(&self) -> Option<u64> {
        self.base.checked_add(u64::try_from(self.bytes.len()).ok()?)
    }
}

/// Buffers that do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    buffers: Vec<Buffer>,
    /// Indices of the buffers in the order of their addresses.
    order: Vec<usize>,
}

impl Memory {
    /// Without buffers.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Adds a buffer.
    ///
    /// # Errors
    /// `Q6161` when it lies where another one is, leaves the 64-bit addresses, or has the name of
    /// another one.
    pub fn add(&mut self, buffer: Buffer) -> Result<()> {
        let name = &buffer.name;
        let Some(end) = buffer.end() else {
            let message = format!("buffer {name} leaves the addresses of 64 bits");
            return Err(Diagnostic::invalid("Q6161", message));
        };
        let clash = self.buffers.iter().find(|other| {
            other.name == buffer.name
                || (other.base < end && other.end().is_some_and(|end| buffer.base < end))
        });
        if let Some(other) = clash {
            let message = format!("buffer {name} has the name or the addresses of {}", other.name);
            return Err(Diagnostic::invalid("Q6161", message));
        }
        let at = self.order.partition_point(|&index| self.buffers[index].base < buffer.base);
        self.order.insert(at, self.buffers.len());
        self.buffers.push(buffer);
        Ok(())
    }

    /// The buffers in the order in which they were added.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The buffer with a name.
    pub fn buffer(&self, name: &str) -> Option<&Buffer> {
        self.buffers.iter().find(|buffer| buffer.name == name)
    }

    /// The buffer with a name; its bytes may be changed, their number may not.
    pub fn buffer_mut(&mut self, name: &str) -> Option<&mut Buffer> {
        self.buffers.iter_mut().find(|buffer| buffer.name == name)
    }

    /// Where bytes begin in the buffer that the hint becomes.
    fn place(&self, Stretch { address, length, .. }: Stretch, hint: &mut usize) -> Option<usize> {
        let within = |index: usize| {
            let buffer = self.buffers.get(index)?;
            let offset = usize::try_from(address.checked_sub(buffer.base)?).ok()?;
            let rest = buffer.bytes.len().checked_sub(offset)?;
            (offset < buffer.bytes.len() && length <= rest).then_some(offset)
        };
        within(*hint).or_else(|| {
            let behind = self.order.partition_point(|&index| self.buffers[index].base <= address);
            *hint = *self.order.get(behind.checked_sub(1)?)?;
            within(*hint)
        })
    }

    /// Bytes of one buffer.
    pub(super) fn bytes(&self, stretch: Stretch, hint: &mut usize) -> Option<&[u8]> {
        let offset = self.place(stretch, hint)?;
        self.buffers.get(*hint)?.bytes.get(offset..offset + stretch.length)
    }

    /// Bytes of one buffer that kernels may write.
    pub(super) fn bytes_mut(&mut self, stretch: Stretch, hint: &mut usize) -> Option<&mut [u8]> {
        let offset = self.place(stretch, hint)?;
        let buffer = self.buffers.get_mut(*hint)?;
        if buffer.writable { buffer.bytes.get_mut(offset..offset + stretch.length) } else { None }
    }

    /// The buffer that holds bytes, and where they begin in it.
    fn find(&self, address: u64, length: usize) -> std::result::Result<(usize, usize), Fault> {
        let behind = self.order.partition_point(|&index| self.buffers[index].base <= address);
        let fault = |reason: String| Fault { address, reason };
        let Some(&index) = behind.checked_sub(1).and_then(|at| self.order.get(at)) else {
            return Err(fault("no buffer is there".to_owned()));
        };
        let buffer = &self.buffers[index];
        let offset = usize::try_from(address - buffer.base).unwrap_or(usize::MAX);
        let size = buffer.bytes.len();
        if offset >= size {
            let name = &buffer.name;
            return Err(fault(format!(
                "no buffer is there; {name} ends {} bytes before",
                offset - size
            )));
        }
        if length > size - offset {
            return Err(fault(format!("{length} bytes leave buffer {}", buffer.name)));
        }
        Ok((index, offset))
    }

    pub(super) fn load(&self, address: u64, bytes: &mut [u8]) -> std::result::Result<(), Fault> {
        let (index, offset) = self.find(address, bytes.len())?;
        bytes.copy_from_slice(&self.buffers[index].bytes[offset..offset + bytes.len()]);
        Ok(())
    }

    pub(super) fn store(&mut self, address: u64, bytes: &[u8]) -> std::result::Result<(), Fault> {
        let (index, offset) = self.find(address, bytes.len())?;
        let buffer = &mut self.buffers[index];
        if !buffer.writable {
            let reason = format!("buffer {} is only read", buffer.name);
            return Err(Fault { address, reason });
        }
        buffer.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}
