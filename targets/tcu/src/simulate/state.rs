//! Everything a machine holds.

use super::Dram;
use crate::arch::TcuArch;
use crate::isa::Register;
use crate::program::Memory;
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::OperandValue as _;

/// Bytes of a block by which DRAM offsets count.
const OFFSET_BLOCK: u64 = 1 << 16;

/// Memories, registers and weights; zero at the start, except the configuration.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) arch: TcuArch,
    /// Physical memory behind the two DRAM interfaces, by scalar.
    dram: Dram,
    local: Vec<i32>,
    acc: Vec<i32>,
    /// SIMD registers 1 and up, a vector each.
    registers: Vec<i32>,
    /// Rows of the array as a ring, whose first row, the bias, is at `bias`.
    weights: Vec<i32>,
    bias: usize,
    /// The last vector that the array gave.
    pub(super) array: Vec<i32>,
    /// The index of keys, then the lookup tables; entries are vectors.
    pub(super) tables: Vec<Vec<i32>>,
    configuration: [u32; 16],
}

impl State {
    /// A machine at its start.
    pub fn new(arch: &TcuArch) -> State {
        let lanes = arch.lanes();
        let vectors = |depth: u64| vec![0; depth as usize * lanes];
        let tables = arch.lookup_tables.map_or(0, |tables| tables as usize + 1);
        let entries = u64::from(arch.lookup_table_depth.unwrap_or(0));
        State {
            dram: Dram::new(),
            local: vectors(arch.local_depth),
            acc: vectors(arch.accumulator_depth),
            registers: vectors(arch.simd_registers_depth.into()),
            weights: vectors(u64::from(arch.array_size) + 1),
            bias: 0,
            array: vectors(1),
            tables: vec![vectors(entries); tables],
            configuration: default_configuration(),
            arch: arch.clone(),
        }
    }

    /// Back to the start.
    pub fn reset(&mut self) {
        self.dram.clear();
        for memory in [
            &mut self.local,
            &mut self.acc,
            &mut self.registers,
            &mut self.weights,
            &mut self.array,
        ] {
            memory.fill(0);
        }
        self.tables.iter_mut().for_each(|table| table.fill(0));
        self.bias = 0;
        self.configuration = default_configuration();
    }

    /// The machine.
    pub fn arch(&self) -> &TcuArch {
        &self.arch
    }

    /// Value of a configuration register.
    pub fn configuration(&self, register: Register) -> u32 {
        self.configuration[register as usize]
    }

    /// Sets a configuration register to the bits that it has.
    pub fn configure(&mut self, register: Register, value: u64) {
        let mask = (1_u64 << register.width()) - 1;
        self.configuration[register as usize] = (value & mask) as u32;
    }

    /// Copies vectors from consecutive addresses on.
    ///
    /// # Errors
    /// `Q3060` for addresses that the memory does not have.
    pub fn read(&self, memory: Memory, address: u64, out: &mut [i32]) -> Result<()> {
        let first = self.place(memory, address, out.len())?;
        match memory {
            Memory::Dram0 | Memory::Dram1 => self.dram.read(memory as usize, first, out),
            Memory::Local => out.copy_from_slice(&self.local[first as usize..][..out.len()]),
            Memory::Acc => out.copy_from_slice(&self.acc[first as usize..][..out.len()]),
        }
        Ok(())
    }

    /// Writes vectors to consecutive addresses.
    ///
    /// # Errors
    /// As [`State::read`]; `Q3064` when the DRAM banks together become too large.
    pub fn write(&mut self, memory: Memory, address: u64, values: &[i32]) -> Result<()> {
        let first = self.place(memory, address, values.len())?;
        match memory {
            Memory::Dram0 | Memory::Dram1 => {
                return self.dram.write(memory as usize, first, values);
            }
            Memory::Local => self.local[first as usize..][..values.len()].copy_from_slice(values),
            Memory::Acc => self.acc[first as usize..][..values.len()].copy_from_slice(values),
        }
        Ok(())
    }

    /// A SIMD register, 1 and up.
    ///
    /// # Errors
    /// `Q3061` when there is none of this number.
    pub fn register(&self, number: u32) -> Result<&[i32]> {
        let lanes = self.arch.lanes();
        let start = (number as usize).wrapping_sub(1).wrapping_mul(lanes);
        let end = start.wrapping_add(lanes);
        self.registers.get(start..end).ok_or_else(|| no_register(number))
    }

    /// A SIMD register for writing.
    ///
    /// # Errors
    /// As [`State::register`].
    pub fn register_mut(&mut self, number: u32) -> Result<&mut [i32]> {
        let lanes = self.arch.lanes();
        let start = (number as usize).wrapping_sub(1).wrapping_mul(lanes);
        let end = start.wrapping_add(lanes);
        self.registers.get_mut(start..end).ok_or_else(|| no_register(number))
    }

    /// The last vector that the array gave.
    pub fn array(&self) -> &[i32] {
        &self.array
    }

    /// A row of the array: 0 is the bias, `1 + k` the weights of lane `k`.
    pub fn weight_row(&self, row: usize) -> &[i32] {
        let lanes = self.arch.lanes();
        let slot = (self.bias + row) % (lanes + 1);
        &self.weights[slot * lanes..][..lanes]
    }

    /// Pushes a row into the array, which becomes the bias; fill it in.
    pub fn push_weights(&mut self) -> &mut [i32] {
        let lanes = self.arch.lanes();
        self.bias = (self.bias + lanes) % (lanes + 1);
        &mut self.weights[self.bias * lanes..][..lanes]
    }

    /// Pushes a vector of local memory into the array.
    pub(super) fn push_local(&mut self, address: u64) {
        let lanes = self.arch.lanes();
        self.bias = (self.bias + lanes) % (lanes + 1);
        let row = &mut self.weights[self.bias * lanes..][..lanes];
        row.copy_from_slice(&self.local[address as usize * lanes..][..lanes]);
    }

    /// A vector of local memory whose address was checked.
    pub(super) fn local(&self, address: u64) -> &[i32] {
        let lanes = self.arch.lanes();
        &self.local[address as usize * lanes..][..lanes]
    }

    /// An accumulator whose address was checked, and the last vector of the array.
    pub(super) fn acc_and_array(&mut self, address: u64) -> (&mut [i32], &[i32]) {
        let lanes = self.arch.lanes();
        (&mut self.acc[address as usize * lanes..][..lanes], &self.array)
    }

    /// An accumulator and a vector of local memory, both checked.
    pub(super) fn acc_and_local(&mut self, acc: u64, local: u64) -> (&mut [i32], &mut [i32]) {
        let lanes = self.arch.lanes();
        (
            &mut self.acc[acc as usize * lanes..][..lanes],
            &mut self.local[local as usize * lanes..][..lanes],
        )
    }

    /// Copies a vector between a DRAM bank and local memory, whose address was checked.
    pub(super) fn move_dram(
        &mut self,
        bank: Memory,
        address: u64,
        local: u64,
        to_local: bool,
    ) -> Result<()> {
        let lanes = self.arch.lanes();
        let place = self.place(bank, address, lanes)?;
        let vector = &mut self.local[local as usize * lanes..][..lanes];
        if to_local {
            self.dram.read(bank as usize, place, vector);
            return Ok(());
        }
        self.dram.write(bank as usize, place, vector)
    }

    /// Where `length` scalars from a vector on begin. DRAM offsets apply.
    fn place(&self, memory: Memory, address: u64, length: usize) -> Result<u64> {
        let lanes = self.arch.lanes() as u64;
        let vectors = (length as u64).div_ceil(lanes);
        let depth = memory.depth(&self.arch);
        if address.checked_add(vectors).is_none_or(|end| end > depth) {
            let last = address.saturating_add(vectors.saturating_sub(1));
            return Err(out_of_memory(memory, last, depth));
        }
        let offset = match memory {
            Memory::Dram0 => self.configuration(Register::Dram0Offset),
            Memory::Dram1 => self.configuration(Register::Dram1Offset),
            Memory::Local | Memory::Acc => 0,
        };
        let scalars = OFFSET_BLOCK / self.arch.data_type.bytes() as u64;
        Ok(u64::from(offset) * scalars + address * lanes)
    }
}

/// The configuration registers by number, at the start.
fn default_configuration() -> [u32; 16] {
    let mut configuration = [0; 16];
    let registers = Register::NAMES.iter().filter_map(|&(_, number)| Register::from_raw(number));
    for register in registers {
        configuration[register as usize] = register.default_value();
    }
    configuration
}

fn no_register(number: u32) -> Diagnostic {
    Diagnostic::invalid("Q3061", format!("the machine has no register R{number}"))
}

/// The error for an address that a memory does not have.
pub(super) fn out_of_memory(memory: Memory, address: u64, depth: u64) -> Diagnostic {
    let name = memory.name();
    let message = format!("{name}({address}) does not exist, {name} has {depth} vectors");
    Diagnostic::invalid("Q3060", message)
}
