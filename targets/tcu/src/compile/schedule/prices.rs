//! What the timing model asks for single vectors.

use crate::arch::TcuArch;
use crate::isa::{Access, Compute, Inst, SimdOp};
use crate::program::{Program, Step};
use crate::time::costs;

/// Cycles, by the model of today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prices {
    /// A vector between DRAM and local memory.
    pub(crate) dram: u64,
    /// A vector between accumulators and local memory.
    pub(crate) accumulator: u64,
    /// A row of weights.
    pub(crate) row: u64,
    /// A vector through the array.
    pub(crate) product: u64,
    /// Before the first vector behind a load of weights.
    pub(crate) start: u64,
    /// A SIMD instruction.
    pub(crate) simd: u64,
}

impl Prices {
    /// The prices of a machine.
    pub(crate) fn new(arch: &TcuArch) -> Prices {
        let (local, local_stride, address, stride, size) = (0, 0, 0, 0, 0);
        let product =
            Inst::MatMul { accumulate: false, local, local_stride, acc: 0, acc_stride: 0, size };
        let compute = Compute { op: SimdOp::Zero, left: 0, right: 0 };
        let insts = [
            Inst::Dram0ToLocal { local, local_stride, address, stride, size },
            Inst::AccToLocal { local, local_stride, address, stride, size },
            Inst::LoadWeights { local, stride, size },
            product,
            product,
            Inst::Simd { access: Access::None, write: 0, read: 0, destination: 0, compute },
        ];
        let steps = insts.into_iter().map(|inst| Step { tid: 0, inst }).collect();
        let program = Program { arch: arch.clone(), steps };
        let cycles: Vec<u64> = costs(&program, false).iter().map(|cost| cost.cycles).collect();
        Prices {
            dram: cycles[0],
            accumulator: cycles[1],
            row: cycles[2],
            product: cycles[4],
            start: cycles[3] - cycles[4],
            simd: cycles[5],
        }
    }
}
