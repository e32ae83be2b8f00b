//! The low-level intermediate representation: instructions with tagged addresses, whose flags the
//! backend infers (`tensil-doc` 2.7 and 2.8 in `docs/bibliography.md`).
//!
//! [`Lir`] is public and usable without the rest of the compiler.

use crate::arch::TcuArch;
use crate::isa::{Access, Compute, Inst, SimdOp};
use crate::program::{Memory, Program, Step};
use quincunx_diag::{Diagnostic, Result};

/// What an address is an address of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tag {
    /// DRAM0.
    Vars,
    /// DRAM1.
    Consts,
    /// Data between operations of a layer: refused here, since it has no place in the machine.
    Temp,
    /// Local memory.
    Local,
    /// Accumulators.
    Accumulator,
    /// Vectors of zeros, which come from nowhere.
    Zeroes,
}

impl Tag {
    fn name(self) -> &'static str {
        match self {
            Tag::Vars => "Vars",
            Tag::Consts => "Consts",
            Tag::Temp => "Temp",
            Tag::Local => "Local",
            Tag::Accumulator => "Accumulator",
            Tag::Zeroes => "Zeroes",
        }
    }
}

/// A tagged address. Addresses count vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryAddress {
    /// What it is an address of.
    pub tag: Tag,
    /// The address.
    pub raw: u64,
}

impl MemoryAddress {
    /// An address.
    pub fn new(tag: Tag, raw: u64) -> MemoryAddress {
        MemoryAddress { tag, raw }
    }

    /// Every `2^stride`-th vector from this one on.
    pub fn with_stride(self, stride: u32) -> Strided {
        Strided { address: self, stride }
    }
}

/// Vectors of a memory with a step from one to the next; an address alone has the stride 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strided {
    /// The first one.
    pub address: MemoryAddress,
    /// Logarithm of the step.
    pub stride: u32,
}

impl From<MemoryAddress> for Strided {
    fn from(address: MemoryAddress) -> Strided {
        address.with_stride(0)
    }
}

/// Sources and destination of a SIMD instruction: 0 is the input, or no register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simd {
    /// Operation.
    pub op: SimdOp,
    /// Left source.
    pub left: u8,
    /// Right source.
    pub right: u8,
    /// Register that receives the result as well.
    pub destination: u8,
}

impl Simd {
    /// An instruction.
    pub fn new(op: SimdOp, left: u8, right: u8, destination: u8) -> Simd {
        Simd { op, left, right, destination }
    }
}

/// A program under construction.
#[derive(Clone, Debug)]
pub struct Lir {
    arch: TcuArch,
    steps: Vec<Step>,
    /// Instruction and comment, in order.
    comments: Vec<(usize, String)>,
    thread: u8,
}

impl Lir {
    /// An empty program.
    pub fn new(arch: &TcuArch) -> Lir {
        Lir { arch: arch.clone(), steps: Vec::new(), comments: Vec::new(), thread: 0 }
    }

    /// The machine.
    pub fn arch(&self) -> &TcuArch {
        &self.arch
    }

    /// Instructions so far.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// True without instructions.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The thread of the instructions that follow.
    pub fn set_thread(&mut self, thread: u8) {
        self.thread = thread;
    }

    /// Remarks on the next instruction; they appear in assembly text.
    pub fn comment(&mut self, text: impl Into<String>) {
        self.comments.push((self.steps.len(), text.into()));
    }

    /// The program, and the comments with the instructions they stand before.
    pub fn finish(self) -> (Program, Vec<(usize, String)>) {
        (Program { arch: self.arch, steps: self.steps }, self.comments)
    }

    /// The registers that instructions from `first` on use, if that is more than there are.
    pub(crate) fn check_registers(&self, first: usize) -> std::result::Result<(), u8> {
        let used = self.steps[first..].iter().map(|step| match step.inst {
            Inst::Simd { destination, compute: Compute { left, right, .. }, .. } => {
                destination.max(left).max(right)
            }
            _ => 0,
        });
        let used = used.max().unwrap_or(0);
        if u32::from(used) <= self.arch.simd_registers_depth { Ok(()) } else { Err(used) }
    }

    /// Multiplies `count` vectors of local memory, or zeros, by the weights into accumulators.
    ///
    /// # Errors
    /// `Q3080` for an address of another memory, `Q3081` for a count of 0 or more than 2^32.
    pub fn emit_mat_mul(
        &mut self,
        accumulate: bool,
        local: impl Into<Strided>,
        acc: impl Into<Strided>,
        count: u64,
    ) -> Result<()> {
        let (local, acc, size) = (local.into(), acc.into(), size(count)?);
        expect("the result", acc.address, &[Tag::Accumulator])?;
        expect("the input", local.address, &[Tag::Local, Tag::Zeroes])?;
        let (local_stride, acc_stride, acc) = (local.stride, acc.stride, acc.address.raw);
        self.push(match local.address.tag {
            Tag::Zeroes => {
                nowhere(local)?;
                Inst::MatMulZeroes { accumulate, acc, acc_stride, size }
            }
            _ => {
                let local = narrow(local.address)?;
                Inst::MatMul { accumulate, local, local_stride, acc, acc_stride, size }
            }
        });
        Ok(())
    }

    /// Pushes `count` vectors of local memory, the last one first, or zeros into the weights.
    ///
    /// # Errors
    /// As [`Lir::emit_mat_mul`].
    pub fn emit_load_weights(&mut self, local: impl Into<Strided>, count: u64) -> Result<()> {
        let (local, size) = (local.into(), size(count)?);
        let Strided { address, stride } = local;
        expect("the weights", address, &[Tag::Local, Tag::Zeroes])?;
        self.push(match address.tag {
            Tag::Zeroes => {
                nowhere(local)?;
                Inst::LoadWeightsZeroes { size }
            }
            _ => Inst::LoadWeights { local: narrow(address)?, stride, size },
        });
        Ok(())
    }

    /// Copies `count` vectors between local memory and another one, from which `to_local` says the
    /// direction; with `accumulate` they are added to accumulators.
    ///
    /// # Errors
    /// As [`Lir::emit_mat_mul`]; `Q3080` for adding to anything but accumulators.
    pub fn emit_data_move(
        &mut self,
        to_local: bool,
        accumulate: bool,
        local: impl Into<Strided>,
        other: impl Into<Strided>,
        count: u64,
    ) -> Result<()> {
        let (local, other, size) = (local.into(), other.into(), size(count)?);
        let Strided { address: MemoryAddress { tag, raw: address }, stride } = other;
        expect("the local side", local.address, &[Tag::Local])?;
        expect("the other side", other.address, &[Tag::Vars, Tag::Consts, Tag::Accumulator])?;
        if accumulate && (to_local || tag != Tag::Accumulator) {
            return Err(adds_to_nothing());
        }
        let (local, local_stride) = (narrow(local.address)?, local.stride);
        self.push(match (tag, to_local) {
            (Tag::Vars, true) => Inst::Dram0ToLocal { local, local_stride, address, stride, size },
            (Tag::Vars, false) => Inst::LocalToDram0 { local, local_stride, address, stride, size },
            (Tag::Consts, true) => {
                Inst::Dram1ToLocal { local, local_stride, address, stride, size }
            }
            (Tag::Consts, false) => {
                Inst::LocalToDram1 { local, local_stride, address, stride, size }
            }
            (_, true) => Inst::AccToLocal { local, local_stride, address, stride, size },
            (_, false) if accumulate => {
                Inst::LocalAddToAcc { local, local_stride, address, stride, size }
            }
            (_, false) => Inst::LocalToAcc { local, local_stride, address, stride, size },
        });
        Ok(())
    }

    /// Computes with the ALUs. An accumulator is read or written where an address is given; with
    /// `accumulate` the result is added to the one that is written.
    ///
    /// # Errors
    /// As [`Lir::emit_mat_mul`]; `Q3080` for adding without an accumulator to add to.
    pub fn emit_simd(
        &mut self,
        accumulate: bool,
        Simd { op, left, right, destination }: Simd,
        write: Option<MemoryAddress>,
        read: Option<MemoryAddress>,
    ) -> Result<()> {
        for address in [write, read].into_iter().flatten() {
            expect("an operand of the ALUs", address, &[Tag::Accumulator])?;
        }
        if accumulate && write.is_none() {
            return Err(adds_to_nothing());
        }
        let access = match (read.is_some(), write.is_some(), accumulate) {
            (false, false, _) => Access::None,
            (true, false, _) => Access::Read,
            (false, true, false) => Access::Write,
            (true, true, false) => Access::ReadWrite,
            (false, true, true) => Access::WriteAdd,
            (true, true, true) => Access::ReadWriteAdd,
        };
        let write = write.map_or(Ok(0), narrow)?;
        let read = read.map_or(0, |address| address.raw);
        let compute = Compute { op, left, right };
        self.push(Inst::Simd { access, write, read, destination, compute });
        Ok(())
    }

    /// Fills a lookup table from local memory: 0 is the index of keys.
    ///
    /// # Errors
    /// As [`Lir::emit_mat_mul`].
    pub fn emit_load_lut(&mut self, local: impl Into<Strided>, table: u64) -> Result<()> {
        let Strided { address, stride } = local.into();
        expect("the table", address, &[Tag::Local])?;
        self.push(Inst::LoadLut { local: narrow(address)?, stride, table });
        Ok(())
    }

    /// Does nothing for an instruction; a thread waits for another one with it.
    pub fn emit_wait(&mut self, thread: u8) {
        self.push(Inst::NoOp { thread });
    }

    fn push(&mut self, inst: Inst) {
        self.steps.push(Step { tid: self.thread, inst });
    }
}

fn expect(what: &str, address: MemoryAddress, tags: &[Tag]) -> Result<()> {
    if tags.contains(&address.tag) {
        return Ok(());
    }
    let names: Vec<&str> = tags.iter().map(|tag| tag.name()).collect();
    let found = address.tag.name();
    let message = format!("{what} is a {found} address, expected {}", names.join(" or "));
    Err(Diagnostic::invalid("Q3080", message))
}

fn adds_to_nothing() -> Diagnostic {
    Diagnostic::invalid("Q3080", "only what goes to accumulators can be added to what is there")
}

/// Zeros come from nowhere: they have neither an address nor a stride.
fn nowhere(Strided { address, stride }: Strided) -> Result<()> {
    if address.raw == 0 && stride == 0 {
        return Ok(());
    }
    let message = format!("zeros with the address {} and the stride {stride}", address.raw);
    Err(Diagnostic::invalid("Q3081", message).help("give 0 for both"))
}

fn size(count: u64) -> Result<u32> {
    let size = count.checked_sub(1).and_then(|size| u32::try_from(size).ok());
    size.ok_or_else(|| Diagnostic::invalid("Q3081", format!("{count} vectors, expected 1 to 2^32")))
}

fn narrow(address: MemoryAddress) -> Result<u32> {
    u32::try_from(address.raw).map_err(|_| {
        let name = address.tag.name();
        Diagnostic::invalid("Q3081", format!("{name} address {} is beyond 2^32", address.raw))
    })
}

/// The tag of a memory.
impl From<Memory> for Tag {
    fn from(memory: Memory) -> Tag {
        match memory {
            Memory::Dram0 => Tag::Vars,
            Memory::Dram1 => Tag::Consts,
            Memory::Local => Tag::Local,
            Memory::Acc => Tag::Accumulator,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing that is asked for is left out without a word.
    #[test]
    fn what_has_no_place_in_an_instruction_is_refused() {
        let mut lir = Lir::new(&TcuArch::preset("pynqz1").unwrap());
        let at = MemoryAddress::new;
        let (local, acc, temp) = (at(Tag::Local, 1), at(Tag::Accumulator, 2), at(Tag::Temp, 0));
        let move_one = Simd::new(SimdOp::Move, 0, 0, 1);
        let code = |result: Result<()>| result.unwrap_err().code();
        assert_eq!(code(lir.emit_mat_mul(false, temp, acc, 1)), "Q3080");
        assert_eq!(code(lir.emit_mat_mul(false, local, temp, 1)), "Q3080");
        assert_eq!(code(lir.emit_load_weights(temp, 1)), "Q3080");
        assert_eq!(code(lir.emit_data_move(true, false, local, temp, 1)), "Q3080");
        assert_eq!(code(lir.emit_simd(false, move_one, Some(temp), None)), "Q3080");
        assert_eq!(code(lir.emit_simd(true, move_one, None, Some(acc))), "Q3080");
        assert_eq!(code(lir.emit_data_move(true, true, local, acc, 1)), "Q3080");
        assert_eq!(code(lir.emit_mat_mul(false, at(Tag::Zeroes, 3), acc, 1)), "Q3081");
        assert_eq!(code(lir.emit_load_weights(at(Tag::Zeroes, 0).with_stride(1), 1)), "Q3081");
        assert_eq!(code(lir.emit_load_weights(local, 0)), "Q3081");
        assert!(lir.is_empty());
    }
}
