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

    /// Multiplies `count` vectors of local memory, or zeros, by the weights into accumulators.
    ///
    /// # Errors
    /// `Q3080` for an address of another memory, `Q3081` for a count of 0 or more than 2^32.
    pub fn emit_mat_mul(
        &mut self,
        accumulate: bool,
        (local_stride, local): (u32, MemoryAddress),
        (acc_stride, acc): (u32, MemoryAddress),
        count: u64,
    ) -> Result<()> {
        let size = size(count)?;
        expect("the result", acc, &[Tag::Accumulator])?;
        expect("the input", local, &[Tag::Local, Tag::Zeroes])?;
        let acc = acc.raw;
        self.push(match local.tag {
            Tag::Zeroes => {
                nowhere(local, local_stride)?;
                Inst::MatMulZeroes { accumulate, acc, acc_stride, size }
            }
            _ => {
                let local = narrow(local)?;
                Inst::MatMul { accumulate, local, local_stride, acc, acc_stride, size }
            }
        });
        Ok(())
    }

    /// Pushes `count` vectors of local memory, the last one first, or zeros into the weights.
    ///
    /// # Errors
    /// As [`Lir::emit_mat_mul`].
    pub fn emit_load_weights(
        &mut self,
        (stride, local): (u32, MemoryAddress),
        count: u64,
    ) -> Result<()> {
        let size = size(count)?;
        expect("the weights", local, &[Tag::Local, Tag::Zeroes])?;
        self.push(match local.tag {
            Tag::Zeroes => {
                nowhere(local, stride)?;
                Inst::LoadWeightsZeroes { size }
            }
            _ => Inst::LoadWeights { local: narrow(local)?, stride, size },
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
        (local_stride, local): (u32, MemoryAddress),
        (stride, other): (u32, MemoryAddress),
        count: u64,
    ) -> Result<()> {
        let size = size(count)?;
        expect("the local side", local, &[Tag::Local])?;
        expect("the other side", other, &[Tag::Vars, Tag::Consts, Tag::Accumulator])?;
        if accumulate && (to_local || other.tag != Tag::Accumulator) {
            return Err(adds_to_nothing());
        }
        let (local, address) = (narrow(local)?, other.raw);
        self.push(match (other.tag, to_local) {
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
    pub fn emit_load_lut(
        &mut self,
        (stride, local): (u32, MemoryAddress),
        table: u64,
    ) -> Result<()> {
        expect("the table", local, &[Tag::Local])?;
        self.push(Inst::LoadLut { local: narrow(local)?, stride, table });
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
fn nowhere(address: MemoryAddress, stride: u32) -> Result<()> {
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
        let (local, acc) = (at(Tag::Local, 1), at(Tag::Accumulator, 2));
        let move_one = Simd { op: SimdOp::Move, left: 0, right: 0, destination: 1 };
        let code = |result: Result<()>| result.unwrap_err().code();
        assert_eq!(code(lir.emit_mat_mul(false, (0, at(Tag::Temp, 0)), (0, acc), 1)), "Q3080");
        assert_eq!(code(lir.emit_mat_mul(false, (0, local), (0, at(Tag::Temp, 0)), 1)), "Q3080");
        assert_eq!(code(lir.emit_load_weights((0, at(Tag::Temp, 0)), 1)), "Q3080");
        assert_eq!(
            code(lir.emit_data_move(true, false, (0, local), (0, at(Tag::Temp, 0)), 1)),
            "Q3080"
        );
        assert_eq!(code(lir.emit_simd(false, move_one, Some(at(Tag::Temp, 0)), None)), "Q3080");
        assert_eq!(code(lir.emit_simd(true, move_one, None, Some(acc))), "Q3080");
        assert_eq!(code(lir.emit_data_move(true, true, (0, local), (0, acc), 1)), "Q3080");
        let zeros = at(Tag::Zeroes, 3);
        assert_eq!(code(lir.emit_mat_mul(false, (0, zeros), (0, acc), 1)), "Q3081");
        assert_eq!(code(lir.emit_load_weights((1, at(Tag::Zeroes, 0)), 1)), "Q3081");
        assert_eq!(code(lir.emit_load_weights((0, local), 0)), "Q3081");
        assert!(lir.is_empty());
    }
}
