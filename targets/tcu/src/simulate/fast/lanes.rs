//! What SIMD operations and additions do, some lanes at a time.

use super::core::Core;
use super::format::Format;
use super::op::{Op, Placed, Write};
use crate::isa::SimdOp;
use crate::simulate::{Arithmetic, Flow};

/// Some lanes of two vectors.
#[inline(always)]
pub(super) fn combine<F: Format, const K: usize>(
    format: F,
    a: &[F::Cell],
    b: &[F::Cell],
    flow: &mut Flow,
    f: impl Fn(i32, i32) -> F::Exact,
) -> [F::Cell; K] {
    let mut exact = [F::exact(0); K];
    for ((exact, &a), &b) in exact.iter_mut().zip(a).zip(b) {
        *exact = f(a.into(), b.into());
    }
    let mut cells = [F::Cell::default(); K];
    let mut is_beyond = false;
    for (cell, &exact) in cells.iter_mut().zip(&exact) {
        *cell = F::cell(format.into_range(exact));
        is_beyond |= format.is_over(exact) | format.is_under(exact);
    }
    if is_beyond {
        // A copy, so that results which are in range need not be in memory.
        let beyond = exact;
        count(format, &beyond, flow);
    }
    cells
}

/// Counts what saturates; not inlined, since that is seldom and there are many loops.
#[cold]
#[inline(never)]
fn count<F: Format>(format: F, exact: &[F::Exact], flow: &mut Flow) {
    for &exact in exact {
        flow.over += u64::from(format.is_over(exact));
        flow.under += u64::from(format.is_under(exact));
    }
}

/// `sums = sums + values`, `K` lanes at a time.
#[inline(always)]
pub(super) fn add<F: Format, const K: usize>(
    format: F,
    sums: &mut [F::Cell],
    values: &[F::Cell],
    flow: &mut Flow,
) {
    for (values, sums) in values.chunks_exact(K).zip(sums.chunks_exact_mut(K)) {
        sums.copy_from_slice(&combine::<F, K>(format, sums, values, flow, F::sum));
    }
}

impl<F: Format> Core<F> {
    /// The same SIMD operation, not NoOp or Lookup, several times.
    #[inline(always)]
    pub(super) fn simd<const K: usize>(&mut self, op: SimdOp, batch: &[Placed]) {
        // A copy, which no store to a cell can change.
        let format = self.format;
        let one = format.one();
        let truth = |value: bool| F::exact(if value { one } else { 0 });
        let (is_true, less) = (F::Order::truth, F::Order::less);
        match op {
            SimdOp::NoOp | SimdOp::Zero => self.all::<K>(batch, |_, _| F::exact(0)),
            SimdOp::Move | SimdOp::Lookup => self.all::<K>(batch, |a, _| F::exact(a)),
            SimdOp::Not => self.all::<K>(batch, |a, _| truth(!is_true(a))),
            SimdOp::And => self.all::<K>(batch, |a, b| truth(is_true(a) & is_true(b))),
            SimdOp::Or => self.all::<K>(batch, |a, b| truth(is_true(a) | is_true(b))),
            SimdOp::Increment => self.all::<K>(batch, |a, _| F::sum(a, one)),
            SimdOp::Decrement => self.all::<K>(batch, |a, _| F::difference(a, one)),
            SimdOp::Add => self.all::<K>(batch, F::sum),
            SimdOp::Subtract => self.all::<K>(batch, F::difference),
            SimdOp::Multiply => self.all::<K>(batch, |a, b| format.product(a, b)),
            SimdOp::Abs => self.all::<K>(batch, |a, _| F::exact(format.magnitude(a))),
            SimdOp::GreaterThan => self.all::<K>(batch, |a, b| truth(less(b, a))),
            SimdOp::GreaterThanEqual => {
                self.all::<K>(batch, |a, b| truth(F::Order::not_greater(b, a)))
            }
            SimdOp::Min => self.all::<K>(batch, |a, b| F::exact(if less(b, a) { b } else { a })),
            SimdOp::Max => self.all::<K>(batch, |a, b| F::exact(if less(a, b) { b } else { a })),
        }
    }

    #[inline(always)]
    fn all<const K: usize>(&mut self, batch: &[Placed], f: impl Fn(i32, i32) -> F::Exact) {
        for placed in batch {
            let Op::Simd { left, right, result, .. } = placed.op else {
                unreachable!("a batch is of one kind")
            };
            let mut flow = Flow::default();
            self.each::<K>([left, right, result], &mut flow, &f);
            self.note(*placed, flow);
        }
    }

    #[inline(always)]
    fn each<const K: usize>(
        &mut self,
        [left, right, result]: [u32; 3],
        flow: &mut Flow,
        f: impl Fn(i32, i32) -> F::Exact,
    ) {
        let format = self.format;
        for lane in (0..self.layout.lanes).step_by(K) {
            let at = |place: u32| place as usize + lane..place as usize + lane + K;
            let (a, b) = (&self.cells[at(left)], &self.cells[at(right)]);
            let cells = combine::<F, K>(format, a, b, flow, &f);
            self.cells[at(result)].copy_from_slice(&cells);
        }
    }

    /// Writes a result of SIMD to an accumulator.
    #[inline(always)]
    pub(super) fn write_acc<const K: usize>(
        &mut self,
        result: u32,
        write: u32,
        mode: Write,
        flow: &mut Flow,
    ) {
        match mode {
            Write::Nothing => {}
            Write::Copy => self.each::<K>([result, result, write], flow, |a, _| F::exact(a)),
            Write::Add => self.each::<K>([write, result, write], flow, F::sum),
        }
    }

    /// Finds the closest key in every lane. The source may be a register that entries go to.
    pub(super) fn lookup(&mut self, source: u32, result: u32, registers: u32, flow: &mut Flow) {
        let (format, lanes, entries) = (self.format, self.layout.lanes, self.layout.entries);
        let mut differences = Vec::with_capacity(lanes);
        let mut found = Vec::with_capacity(lanes);
        for lane in 0..lanes {
            let value: i32 = self.cells[source as usize + lane].into();
            let keys = (0..entries).map(|e| self.cells[self.layout.tables + e * lanes + lane]);
            let (entry, key) = closest::<F::Order>(value, keys.map(Into::into));
            found.push(entry);
            let exact = F::difference(value, key);
            flow.over += u64::from(format.is_over(exact));
            flow.under += u64::from(format.is_under(exact));
            differences.push(F::cell(format.into_range(exact)));
        }
        for table in 1..self.layout.table_count {
            let register = registers as usize + (table - 1) * lanes;
            let first = self.layout.tables + table * entries * lanes;
            for (lane, entry) in found.iter().enumerate() {
                self.cells[register + lane] = self.cells[first + entry * lanes + lane];
            }
        }
        self.cells[result as usize..][..lanes].copy_from_slice(&differences);
    }
}

/// The entry whose key is closest, the lower key of two, and the key; 0 without keys.
fn closest<A: Arithmetic>(value: i32, mut keys: impl Iterator<Item = i32>) -> (usize, i32) {
    let Some(first) = keys.next() else { return (0, 0) };
    let mut best = (0, first);
    let mut nearest = A::distance(value, first);
    for (entry, key) in (1..).zip(keys) {
        let distance = A::distance(value, key);
        if distance < nearest || distance == nearest && A::less(key, best.1) {
            (best, nearest) = ((entry, key), distance);
        }
    }
    best
}
