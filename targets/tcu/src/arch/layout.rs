//! Widths of the parts of an instruction, which follow from the machine's parameters
//! (`tensil`, `tensil-doc` 3.4 in `docs/bibliography.md`).

use super::TcuArch;
use crate::isa::TABLE;
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::Layout;

/// Bits of the header, the last byte.
pub const HEADER_BITS: u32 = 8;

/// Widest value of a Configure instruction.
const VALUE_BITS: u32 = 32;

/// Bits that count things: `ceil(log2 n)`.
fn log2(number: u64) -> u32 {
    number.next_power_of_two().trailing_zeros()
}

fn total(bits: &[u32]) -> u32 {
    bits.iter().copied().fold(0, u32::saturating_add)
}

/// The widths of one machine, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    /// Number of a thread.
    pub tid: u32,
    /// Stride of operand 0.
    pub stride0: u32,
    /// Stride of operand 1.
    pub stride1: u32,
    /// Number of a SIMD register, 0 for the input or output.
    pub register: u32,
    /// SIMD operation.
    pub simd_op: u32,
    /// SIMD sub-instruction.
    pub simd: u32,
    /// Address in operand 0.
    pub address0: u32,
    /// Address in operand 1.
    pub address1: u32,
    /// Number in operand 2.
    pub value2: u32,
    /// Operands without their padding.
    pub used: [u32; 3],
    /// Operands with their padding.
    pub operands: [u32; 3],
}

impl Widths {
    /// The widths of a machine.
    pub fn of(arch: &TcuArch) -> Widths {
        let (local, acc) = (log2(arch.local_depth), log2(arch.accumulator_depth));
        let (dram0, dram1) = (log2(arch.dram0_depth), log2(arch.dram1_depth));
        let register = log2(u64::from(arch.simd_registers_depth) + 1);
        // Sixteen operations, and Lookup where there are tables.
        let simd_op = if arch.lookup_tables.is_some() { 5 } else { 4 };
        let simd = total(&[simd_op, register, register, register]);
        let tables = log2(u64::from(arch.lookup_tables.unwrap_or(0)) + 1);
        let address0 = local.max(acc);
        let address1 = local.max(acc).max(dram0).max(dram1).max(tables);
        let value2 = local.min(acc).max(local.min(dram0)).max(local.min(dram1)).max(simd);
        let (stride0, stride1) = (log2(arch.stride0_depth.into()), log2(arch.stride1_depth.into()));
        let used = [total(&[address0, stride0]), total(&[address1, stride1]), value2];
        let operands = used.map(|bits| bits.next_multiple_of(8));
        let tid = log2(arch.number_of_threads.into());
        Widths {
            tid,
            stride0,
            stride1,
            register,
            simd_op,
            simd,
            address0,
            address1,
            value2,
            used,
            operands,
        }
    }

    /// Bits of the three operands.
    pub fn operand_bits(&self) -> u32 {
        total(&self.operands)
    }

    /// Bytes of an instruction without padding above the operands.
    pub fn bytes(&self) -> u32 {
        total(&[self.operand_bits(), HEADER_BITS]) / 8
    }
}

/// The instruction with the most bits in its operands, and how many.
fn longest(arch: &TcuArch) -> (&'static str, u32) {
    let widths = Widths::of(arch);
    let (local, acc) = (log2(arch.local_depth), log2(arch.accumulator_depth));
    let dram = log2(arch.dram0_depth.max(arch.dram1_depth));
    let candidates = [
        ("MatMul", total(&[local, widths.stride0, acc, widths.stride1, local.min(acc)])),
        (
            "DataMove",
            total(&[local, widths.stride0, acc.max(dram), widths.stride1, local.min(dram)]),
        ),
        ("SIMD", total(&[acc, acc, widths.simd])),
    ];
    // The first of several equally long ones.
    candidates.into_iter().rev().max_by_key(|&(_, bits)| bits).unwrap_or(("MatMul", 0))
}

/// Refuses an instruction width that cannot hold the operands.
pub(super) fn check_bytes(arch: &TcuArch) -> Result<()> {
    let (needed, Some(bytes)) = (Widths::of(arch).bytes(), arch.instruction_bytes) else {
        return Ok(());
    };
    if bytes >= needed {
        return Ok(());
    }
    let (name, bits) = longest(arch);
    let message = format!("instruction_bytes is {bytes}, expected at least {needed}");
    Err(Diagnostic::invalid("Q3003", message)
        .with_note(format!("the longest instruction is {name} with {bits} bits in its operands"))
        .help("leave instruction_bytes out for the smallest width"))
}

impl TcuArch {
    /// Where the fields of instructions lie.
    ///
    /// # Errors
    /// Those of [`Layout::resolve`].
    pub fn layout(&self) -> Result<Layout> {
        let widths = Widths::of(self);
        let [o0, o1, o2] = widths.operands;
        let bytes = self.instruction_bytes.unwrap_or(0).max(widths.bytes());
        let bits = bytes.saturating_mul(8);
        Layout::resolve(&TABLE, &|name| {
            Some(match name {
                "instruction_bits" => bits,
                "instruction_bytes" => bits / 8,
                "header_at" => bits.saturating_sub(HEADER_BITS),
                "operand0_bits" => o0,
                "operand1_bits" => o1,
                "operand2_bits" => o2,
                "operand0_address_bits" => widths.address0,
                "operand1_address_bits" => widths.address1,
                "operand2_value_bits" => widths.value2,
                "stride0_bits" => widths.stride0,
                "stride1_bits" => widths.stride1,
                "simd_register_bits" => widths.register,
                "simd_op_bits" => widths.simd_op,
                "simd_bits" => widths.simd,
                "tid_bits" => widths.tid,
                "value_bits" => VALUE_BITS.min(widths.operand_bits().saturating_sub(4)),
                _ => return None,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tensil-doc` 3.4: a 2-byte argument with an 11-bit address and a 3-bit stride has the stride in
    /// bits 13 to 11 and zeros above.
    #[test]
    fn the_example_of_the_seed() {
        let mut arch = TcuArch::preset("pynqz1").unwrap();
        arch.local_depth = 1 << 11;
        let layout = arch.layout().unwrap();
        assert_eq!(layout.pieces("address0"), Some(&[(0, 11)][..]));
        assert_eq!(layout.pieces("stride0"), Some(&[(11, 3)][..]));
        assert_eq!(layout.param("operand0_bits"), Some(16));
        assert_eq!(layout.pieces("address1").unwrap()[0].0, 16);
    }

    #[test]
    fn too_few_bytes_name_the_longest_instruction() {
        let mut arch = TcuArch::preset("pynqz1").unwrap();
        for (registers, tables, name) in [(1, None, "DataMove"), (16, Some(3), "SIMD")] {
            arch.simd_registers_depth = registers;
            arch.lookup_tables = tables;
            arch.lookup_table_depth = tables.map(|_| 4);
            (arch.dram0_depth, arch.dram1_depth) =
                if name == "SIMD" { (8, 8) } else { (1 << 20, 2) };
            arch.local_depth = if name == "SIMD" { 8 } else { 1 << 13 };
            let needed = Widths::of(&arch).bytes();
            arch.instruction_bytes = Some(needed);
            assert!(arch.validate().is_ok());
            arch.instruction_bytes = Some(needed - 1);
            let problem = arch.validate().unwrap_err();
            assert_eq!(problem.code(), "Q3003");
            assert!(problem.notes()[0].contains(name), "{problem}: {:?}", problem.notes());
        }
    }

    #[test]
    fn padding_lies_above_the_operands() {
        let mut arch = TcuArch::preset("pynqz1").unwrap();
        arch.instruction_bytes = Some(16);
        let layout = arch.layout().unwrap();
        assert_eq!(layout.bytes(), 16);
        assert_eq!(layout.pieces("opcode"), Some(&[(124, 4)][..]));
        assert_eq!(layout.pieces("size2").unwrap()[0].0, 40);
    }
}
