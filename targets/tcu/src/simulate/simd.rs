//! What SIMD instructions and lookups do in every lane.

#![deny(clippy::wildcard_enum_match_arm)]

use super::{Arithmetic, Executor, Flow};
use crate::isa::{Access, Compute, SimdOp};
use quincunx_diag::{Diagnostic, Result};

impl Executor {
    pub(super) fn simd<A: Arithmetic>(
        &mut self,
        access: Access,
        write: u64,
        read: u64,
        destination: u8,
        compute: Compute,
        flow: &mut Flow,
    ) -> Result<()> {
        if access.reads() {
            self.input.copy_from_slice(self.state.acc_and_array(read).0);
        } else {
            self.input.fill(0);
        }
        let is_transfer = compute.op == SimdOp::NoOp;
        match is_transfer {
            true if access.reads() => self.result.copy_from_slice(&self.input),
            true => self.result.copy_from_slice(&self.state.array),
            false if compute.op == SimdOp::Lookup => {
                self.lookup::<A>(compute, destination, flow)?
            }
            false => self.compute::<A>(compute, flow)?,
        }
        if destination > 0 && !is_transfer {
            self.state.register_mut(destination.into())?.copy_from_slice(&self.result);
        }
        if access.writes() {
            let (acc, _) = self.state.acc_and_array(write);
            match access.accumulates() {
                true => A::add_vector(&self.result, acc, flow),
                false => acc.copy_from_slice(&self.result),
            }
        }
        Ok(())
    }

    /// A source of a SIMD operation.
    fn source(&self, number: u8) -> Result<&[i32]> {
        if number == 0 { Ok(&self.input) } else { self.state.register(number.into()) }
    }

    fn compute<A: Arithmetic>(&mut self, compute: Compute, flow: &mut Flow) -> Result<()> {
        let Compute { op, left, right } = compute;
        // A source that the operation does not look at need not exist.
        let left = if op.arity() > 0 { left } else { 0 };
        let right = if op.arity() > 1 { right } else { 0 };
        let mut result = std::mem::take(&mut self.result);
        let sources = self.source(left)?.iter().zip(self.source(right)?);
        for (value, (&left, &right)) in result.iter_mut().zip(sources) {
            *value = scalar::<A>(op, left, right, flow);
        }
        self.result = result;
        Ok(())
    }

    pub(super) fn load_table(&mut self, local: u64, stride: u32, table: u64) -> Result<()> {
        let lanes = self.state.arch.lanes();
        let index = usize::try_from(table).unwrap_or(usize::MAX);
        let taken = self.state.tables.get_mut(index).map(std::mem::take);
        let mut table = taken.ok_or_else(|| {
            Diagnostic::invalid("Q3062", format!("the machine has no lookup table {table}"))
        })?;
        for (entry, i) in table.chunks_exact_mut(lanes).zip(0..) {
            entry.copy_from_slice(self.state.local(local + (i << stride)));
        }
        self.state.tables[index] = table;
        Ok(())
    }

    /// Finds the closest key in every lane, writes the entries of the tables behind the destination,
    /// and leaves the difference as the result.
    fn lookup<A: Arithmetic>(
        &mut self,
        compute: Compute,
        destination: u8,
        flow: &mut Flow,
    ) -> Result<()> {
        let lanes = self.state.arch.lanes();
        let mut result = std::mem::take(&mut self.result);
        result.copy_from_slice(self.source(compute.left)?);
        let tables = std::mem::take(&mut self.state.tables);
        for (lane, value) in result.iter_mut().enumerate() {
            let Some((entry, key)) = closest::<A>(*value, &tables, lane, lanes) else { continue };
            *value = A::subtract(*value, key, flow);
            for (table, register) in tables[1..].iter().zip(u32::from(destination) + 1..) {
                self.state.register_mut(register)?[lane] = table[entry * lanes + lane];
            }
        }
        self.state.tables = tables;
        self.result = result;
        Ok(())
    }
}

/// The entry whose key is closest to a number in a lane, the lower key of two, and the key.
fn closest<A: Arithmetic>(
    value: i32,
    tables: &[Vec<i32>],
    lane: usize,
    lanes: usize,
) -> Option<(usize, i32)> {
    let keys = tables.first()?.iter().skip(lane).step_by(lanes);
    let mut best: Option<(usize, i32, f64)> = None;
    for (entry, &key) in keys.enumerate() {
        let distance = A::distance(value, key);
        let is_better = best.is_none_or(|(_, known, nearest)| {
            distance < nearest || (distance == nearest && A::less(key, known))
        });
        if is_better {
            best = Some((entry, key, distance));
        }
    }
    best.map(|(entry, key, _)| (entry, key))
}

/// One lane of a SIMD operation other than NoOp and Lookup.
fn scalar<A: Arithmetic>(op: SimdOp, left: i32, right: i32, flow: &mut Flow) -> i32 {
    let truth = |value: bool| if value { A::ONE } else { 0 };
    match op {
        SimdOp::NoOp | SimdOp::Zero => 0,
        SimdOp::Move | SimdOp::Lookup => left,
        SimdOp::Not => truth(!A::truth(left)),
        SimdOp::And => truth(A::truth(left) && A::truth(right)),
        SimdOp::Or => truth(A::truth(left) || A::truth(right)),
        SimdOp::Increment => A::add(left, A::ONE, flow),
        SimdOp::Decrement => A::subtract(left, A::ONE, flow),
        SimdOp::Add => A::add(left, right, flow),
        SimdOp::Subtract => A::subtract(left, right, flow),
        SimdOp::Multiply => A::multiply(left, right, flow),
        SimdOp::Abs => A::magnitude(left),
        SimdOp::GreaterThan => truth(A::less(right, left)),
        SimdOp::GreaterThanEqual => truth(A::not_greater(right, left)),
        SimdOp::Min => match A::less(right, left) {
            true => right,
            false => left,
        },
        SimdOp::Max => match A::less(left, right) {
            true => right,
            false => left,
        },
    }
}
