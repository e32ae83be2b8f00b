//! Sums of chains, as they are read from registers and written to them.

use crate::precision::Acc;
use crate::shape::Shape;
use crate::simulate::exec::{Operation, SINGLE};
use crate::simulate::float::Real;
use quincunx_num::{Level, Loop};

/// Numbers that vectors are read from.
#[repr(align(64))]
pub(super) struct Aligned<T>(pub(super) T);

/// Runs a loop that was compiled for a level of this processor. [`Level::run`] asks the processor
/// every time, and gives the middle level no fused additions.
#[cfg(target_arch = "x86_64")]
pub(super) fn at_level<L: Loop>(level: Level, work: L) -> L::Result {
    match level {
        Level::Scalar => work.run(),
        // SAFETY: A plan has a level only if the processor has it, and with it the instructions.
        Level::Avx2 => unsafe { avx2(work) },
        // SAFETY: As above.
        Level::Avx512 => unsafe { avx512(work) },
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn at_level<L: Loop>(_: Level, work: L) -> L::Result {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2<L: Loop>(work: L) -> L::Result {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn avx512<L: Loop>(work: L) -> L::Result {
    work.run()
}

/// A type of sums.
pub(super) trait Sum: bytemuck::Pod + Default {
    /// From an element of src0.
    fn load(acc: Acc, code: u64) -> Self;
    /// As it is written to dst: NaN is canonical.
    fn store(acc: Acc, sum: Self) -> u64;
    fn canonical(self) -> Self;
    fn flush(self) -> Self;
}

impl Sum for i32 {
    fn load(_: Acc, code: u64) -> i32 {
        code as u32 as i32
    }

    fn store(_: Acc, sum: i32) -> u64 {
        (sum as u32).into()
    }

    #[inline(always)]
    fn canonical(self) -> i32 {
        self
    }

    #[inline(always)]
    fn flush(self) -> i32 {
        self
    }
}

impl Sum for f32 {
    fn load(acc: Acc, code: u64) -> f32 {
        (SINGLE.load)(acc, code)
    }

    fn store(acc: Acc, sum: f32) -> u64 {
        (SINGLE.store)(acc, sum)
    }

    #[inline(always)]
    fn canonical(self) -> f32 {
        Real::canonical(self)
    }

    #[inline(always)]
    fn flush(self) -> f32 {
        Real::flush(self)
    }
}

/// Reads src0.
pub(super) struct Load<'a, const N: usize, T> {
    pub(super) operation: &'a Operation,
    pub(super) file: &'a [u8],
    pub(super) sums: &'a mut [[T; N]],
    pub(super) ftz: bool,
}

impl<const N: usize, T: Sum> Loop for Load<'_, N, T> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let Some(src0) = self.operation.src0 else { return };
        let acc = self.operation.shape.src0;
        let size = acc.bytes() as usize;
        let rows = self.file[src0..].chunks_exact(N * size);
        for (sums, row) in self.sums.iter_mut().zip(rows) {
            if size == 4 && cfg!(target_endian = "little") {
                bytemuck::cast_slice_mut(&mut sums[..]).copy_from_slice(&row[..4 * N]);
            } else {
                for (sum, element) in sums.iter_mut().zip(row.chunks_exact(size)) {
                    let code = element.iter().rev().fold(0, |code, &b| code << 8 | u64::from(b));
                    *sum = T::load(acc, code);
                }
            }
            if self.ftz {
                sums.iter_mut().for_each(|sum| *sum = sum.flush());
            }
        }
    }
}

/// Writes the lanes of dst that are on.
pub(super) struct Store<'a, const N: usize, T> {
    pub(super) operation: &'a Operation,
    pub(super) file: &'a mut [u8],
    pub(super) sums: &'a [[T; N]],
    pub(super) enabled: u32,
}

impl<const N: usize, T: Sum> Loop for Store<'_, N, T> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let Shape { dst: acc, .. } = self.operation.shape;
        let size = acc.bytes() as usize;
        let all = u32::MAX >> (32 - N);
        let rows = self.file[self.operation.dst..].chunks_exact_mut(N * size);
        for (sums, row) in self.sums.iter().zip(rows) {
            let mut sums = *sums;
            sums.iter_mut().for_each(|sum| *sum = sum.canonical());
            if size == 4 && self.enabled & all == all && cfg!(target_endian = "little") {
                row[..4 * N].copy_from_slice(bytemuck::cast_slice(&sums[..]));
                continue;
            }
            let places = row.chunks_exact_mut(size).zip(sums).enumerate();
            for (_, (place, sum)) in places.filter(|(n, _)| self.enabled >> n & 1 == 1) {
                place.copy_from_slice(&T::store(acc, sum).to_le_bytes()[..size]);
            }
        }
    }
}
