//! The shape of one matrix product, and where its elements lie in registers.
//!
//! `D = C + A x B` with D, C of M x N, A of M x K, B of K x N. M is the repeat count, N the number
//! of lanes, K the depth times the products per lane and stage.

use crate::precision::{Acc, Precision};

/// Rows of A when the depth is below 8: where the next row starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RowStride {
    /// `8 * OPS` elements, whatever the depth (documentation, footprints of the assembler).
    #[default]
    Full,
    /// `depth * OPS` elements (sizes that the finalizer computes).
    Depth,
}

/// The shape of one product.
///
/// Invariant: the precisions can be multiplied with each other ([`ops`] gives a number), `depth`
/// is 1, 2, 4 or 8, `repeat` 1 to 8 and `lanes` 1 to 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Precision of src1, matrix B.
    pub weights: Precision,
    /// Precision of src2, matrix A.
    pub activations: Precision,
    /// Systolic depth.
    pub depth: u32,
    /// Repeat count, M.
    pub repeat: u32,
    /// Lanes, N.
    pub lanes: u32,
    /// Type of dst.
    pub dst: Acc,
    /// Type of src0.
    pub src0: Acc,
    /// Stride of the rows of A.
    pub stride: RowStride,
}

/// Products per lane and stage of two precisions; `None` when they cannot be multiplied.
pub fn ops(weights: Precision, activations: Precision) -> Option<u32> {
    let bits = weights.bits().max(activations.bits());
    Some(match (weights, activations) {
        (w, a) if w.is_integer() && a.is_integer() => {
            if bits == 8 {
                4
            } else {
                8
            }
        }
        (w, a) if w.is_fp8() && a.is_fp8() => 4,
        (Precision::Bf, Precision::Bf) | (Precision::Hf, Precision::Hf) => 2,
        (Precision::Tf32, Precision::Tf32) | (Precision::Df, Precision::Df) => 1,
        (Precision::E2m1, Precision::E2m1) => 8,
        _ => return None,
    })
}

impl Shape {
    /// Products per lane and stage.
    pub fn ops(&self) -> u32 {
        ops(self.weights, self.activations).unwrap_or(1)
    }

    /// Columns of A and rows of B.
    pub fn k(&self) -> u32 {
        self.depth * self.ops()
    }

    /// Bits of one lane of one row of src1: 32, and 64 for `df` (ours).
    fn channel_bits(&self) -> u32 {
        self.weights.bits().max(32)
    }

    /// Elements of B in one lane of one row of src1.
    pub fn per_channel(&self) -> u32 {
        self.channel_bits() / self.weights.bits()
    }

    /// Elements from one row of A to the next.
    pub fn row_stride(&self) -> u32 {
        match self.stride {
            RowStride::Full => 8 * self.ops(),
            RowStride::Depth => self.k(),
        }
    }

    /// First bit of the element of A in row `r`, column `k`, from the start of src2.
    pub fn a_bit(&self, r: u32, k: u32) -> u32 {
        (r * self.row_stride() + k) * self.activations.bits()
    }

    /// First bit of the element of B in row `k`, column `n`, from the start of src1.
    pub fn b_bit(&self, k: u32, n: u32) -> u32 {
        let (row, within) = (k / self.per_channel(), k % self.per_channel());
        (row * self.lanes + n) * self.channel_bits() + within * self.weights.bits()
    }

    /// First byte of the element of D in row `r`, column `n`, from the start of dst.
    pub fn d_byte(&self, r: u32, n: u32) -> u32 {
        (r * self.lanes + n) * self.dst.bytes()
    }

    /// First byte of the element of C in row `r`, column `n`, from the start of src0.
    pub fn c_byte(&self, r: u32, n: u32) -> u32 {
        (r * self.lanes + n) * self.src0.bytes()
    }

    /// Bytes of dst.
    pub fn dst_bytes(&self) -> u32 {
        self.repeat * self.lanes * self.dst.bytes()
    }

    /// Bytes of src0.
    pub fn src0_bytes(&self) -> u32 {
        self.repeat * self.lanes * self.src0.bytes()
    }

    /// Bytes of src1.
    pub fn src1_bytes(&self) -> u32 {
        self.k().div_ceil(self.per_channel()) * self.lanes * self.channel_bits() / 8
    }

    /// Bytes of src2, from the first to the last element.
    pub fn src2_bytes(&self) -> u32 {
        (self.a_bit(self.repeat - 1, self.k() - 1) + self.activations.bits()).div_ceil(8)
    }

    /// Bytes of the part of src2 that one of two fused threads holds: the first half of the
    /// 32-byte registers, the odd one included.
    pub fn fused_bytes(&self) -> u32 {
        32 * self.src2_bytes().div_ceil(32).div_ceil(2)
    }

    /// Alignment of src2 in bytes.
    pub fn src2_alignment(&self) -> u32 {
        (self.k() * self.activations.bits() / 8).max(1)
    }
}
