//! Instructions as steps on the bytes of a thread.

#![deny(clippy::arithmetic_side_effects)]

use super::exec::{Operation, Step};
use crate::arch::DpasArch;
use crate::isa::native;
use crate::isa::native::Native;
use crate::isa::visa::{Var, Virtual};
use crate::precision::Acc;
use crate::program::{Element, FIRST_VARIABLE, Kernel, Listing, Statement};
use crate::shape::{RowStride, Shape, ops};
use quincunx_diag::{Diagnostic, Result};

/// The product of a native instruction.
///
/// # Errors
/// `Q6041` when its precisions cannot be multiplied, `Q6057` when src2 starts within a byte.
pub fn native_operation(inst: &Native, arch: &DpasArch, stride: RowStride) -> Result<Operation> {
    let at = |(register, byte): (u8, u32)| byte_of(register, byte, arch) as usize;
    if inst.src2_odd_bits != 0 {
        return Err(Diagnostic::invalid("Q6057", "src2 does not start at a whole byte"));
    }
    Ok(Operation {
        shape: Shape {
            weights: inst.src1_type,
            activations: inst.src2_type,
            depth: inst.depth,
            repeat: inst.repeat,
            lanes: inst.lanes,
            dst: inst.dst_type,
            src0: inst.src0_type,
            stride,
        }
        .checked()?,
        dst: at(inst.dst),
        src0: inst.src0.map(at),
        src1: at((inst.src1, 0)),
        src2: at(inst.src2),
        offset: inst.offset,
        no_mask: inst.no_mask,
        fused: inst.fused,
        scales: inst.scales.map(|scales| scales.map(|scale| scale.map(at))),
    })
}

impl Shape {
    /// The shape, if its precisions can be multiplied.
    ///
    /// # Errors
    /// `Q6041` if not.
    pub fn checked(self) -> Result<Shape> {
        if ops(self.weights, self.activations).is_some() {
            return Ok(self);
        }
        let (w, a) = (self.weights.name(), self.activations.name());
        let message = format!("{w} and {a} cannot be multiplied with each other");
        Err(Diagnostic::invalid("Q6041", message)
            .help("integers go with integers, bf8 and hf8 with each other, others with themselves"))
    }
}

/// The steps of a listing.
///
/// # Errors
/// As [`native_operation`], and `Q6072` for raw bytes.
pub fn listing_steps(listing: &Listing, arch: &DpasArch, stride: RowStride) -> Result<Vec<Step>> {
    let step = |statement: &Statement| match statement {
        Statement::Systolic(inst) => {
            native_operation(&native::Inst::native(inst), arch, stride).map(Step::Multiply)
        }
        Statement::Vector(inst) => Ok(Step::Vector(inst.terms())),
        Statement::Raw(_) => {
            Err(Diagnostic::unsupported("Q6072", "raw machine code cannot be simulated"))
        }
    };
    let place = |item: &crate::program::Item| {
        step(&item.statement).map_err(|problem| match item.span {
            Some(span) => problem.label(span, ""),
            None => problem,
        })
    };
    listing.items.iter().map(place).collect()
}

/// The byte of the register file that is a byte of a register.
pub(crate) fn byte_of(register: u8, byte: u32, arch: &DpasArch) -> u32 {
    arch.platform.grf_bytes().saturating_mul(register.into()).saturating_add(byte)
}

/// Where the variables of a kernel lie in the bytes of a thread: each at a multiple of two
/// registers, in the order of declaration; aliases in the variable that they share.
#[derive(Clone, Debug)]
pub struct Memory {
    /// First byte of each declared variable.
    pub offsets: Vec<usize>,
    /// The variable that holds the bytes of each, by its place among the declared ones.
    pub roots: Vec<usize>,
    /// Bytes in all.
    pub bytes: usize,
}

/// Most bytes of all variables of a kernel together.
pub const MAX_MEMORY: u64 = 4 << 20;

impl Memory {
    /// Places the variables.
    ///
    /// # Errors
    /// `Q6066` when they take more than [`MAX_MEMORY`] bytes.
    pub fn new(kernel: &Kernel, grf: u32) -> Result<Memory> {
        let unit = u64::from(grf).max(64).saturating_mul(2);
        let (mut offsets, mut end) = (Vec::new(), 0u64);
        let (mut roots, chains) = (Vec::new(), kernel.roots());
        for (at, (variable, &(root, offset))) in kernel.variables.iter().zip(&chains).enumerate() {
            let root = root.saturating_sub(FIRST_VARIABLE) as usize;
            roots.push(root);
            if root == at {
                offsets.push(end as usize);
                end = end.saturating_add(variable.bytes().next_multiple_of(unit));
            } else {
                offsets.push(offsets[root].saturating_add(offset as usize));
            }
            if end > MAX_MEMORY {
                let message = format!("the variables take more than {} MiB", MAX_MEMORY >> 20);
                return Err(Diagnostic::unsupported("Q6066", message));
            }
        }
        Ok(Memory { offsets, roots, bytes: end as usize })
    }

    fn at(&self, variable: Var, offset: usize) -> Result<usize> {
        let index = variable.index().and_then(|index| index.checked_sub(FIRST_VARIABLE));
        let base = index.and_then(|index| self.offsets.get(index as usize));
        base.map(|base| base.saturating_add(offset)).ok_or_else(|| {
            let message = format!("variable {} is not declared", variable.index().unwrap_or(0));
            Diagnostic::invalid("Q6060", message)
        })
    }
}

/// The type of an accumulator variable: on machines with 16-bit accumulators, `w` and `uw` are an
/// old spelling of `bf` when A is bf.
pub fn acc_of(element: Element, inst: &Virtual, second: bool) -> Option<Acc> {
    Some(match element {
        Element::D => Acc::D,
        Element::Ud => Acc::Ud,
        Element::F => Acc::F,
        Element::Df => Acc::Df,
        Element::Hf => Acc::Hf,
        Element::Bf => Acc::Bf,
        Element::W | Element::Uw if second && inst.a == crate::precision::Precision::Bf => Acc::Bf,
        _ => return None,
    })
}

/// The product of a virtual instruction.
///
/// # Errors
/// `Q6060` for a variable that is not declared, `Q6051` for a type that is not an accumulator,
/// `Q6041`.
pub fn visa_operation(
    inst: &Virtual,
    kernel: &Kernel,
    memory: &Memory,
    arch: &DpasArch,
    stride: RowStride,
) -> Result<Operation> {
    let second = arch.platform.is_second();
    let element = |variable: Var| variable.index().and_then(|index| kernel.variable(index));
    let acc = |variable: Var| {
        let declared = element(variable).ok_or_else(|| undeclared(variable))?;
        acc_of(declared.element, inst, second).ok_or_else(|| {
            let message = format!("{} is not a type of an accumulator", declared.element.name());
            Diagnostic::invalid("Q6051", message)
        })
    };
    let dst = acc(inst.dst.0)?;
    let src0 = (inst.src0.0 != Var::NULL).then_some(inst.src0);
    let size = element(inst.src2.0).map_or(0, |variable| variable.element.bytes());
    let column = size.saturating_mul(inst.src2.2.into());
    let src2_offset = byte_of(inst.src2.1, column, arch) as usize;
    Ok(Operation {
        shape: Shape {
            weights: inst.w,
            activations: inst.a,
            depth: inst.depth,
            repeat: inst.repeat,
            lanes: inst.exec.lanes(),
            dst,
            src0: src0.map_or(Ok(dst), |(variable, _)| acc(variable))?,
            stride,
        }
        .checked()?,
        dst: memory.at(inst.dst.0, usize::from(inst.dst.1))?,
        src0: src0.map(|(var, at)| memory.at(var, usize::from(at))).transpose()?,
        src1: memory.at(inst.src1.0, usize::from(inst.src1.1))?,
        src2: memory.at(inst.src2.0, src2_offset)?,
        offset: inst.exec.offset(),
        no_mask: inst.exec.no_mask(),
        fused: inst.fused,
        scales: None,
    })
}

fn undeclared(variable: Var) -> Diagnostic {
    let message = format!("variable {} is not declared", variable.index().unwrap_or(0));
    Diagnostic::invalid("Q6060", message)
}
