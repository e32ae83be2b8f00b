//! Functions of one number as lookup tables of keys, values and slopes, or as polynomials.
//!
//! A lookup takes the entry of the key closest to a number. With one table the result is the value
//! there; with two it is the value plus the slope times the distance from the key. Keys lie close
//! where the function bends, and every entry is fitted to the numbers that lead to it, with the
//! rounding of the machine. The error that remains is measured against the function.

mod fit;
mod functions;
mod polynomial;
#[cfg(test)]
mod tests;

pub(crate) use functions::Function;
pub(crate) use polynomial::{Polynomial, has_polynomial, polynomial};

use super::hir::Table;
use crate::arch::{DataType, TcuArch};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Tables that are kept for the next question.
const KEPT: usize = 64;

/// The largest error of a softmax that is computed with tables.
const LARGEST_SOFTMAX_ERROR: f64 = 0.125;

/// What a machine's tables can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Format of keys and entries.
    pub(crate) data_type: DataType,
    /// Entries.
    pub(crate) depth: u32,
    /// There is a table for slopes.
    pub(crate) slopes: bool,
}

/// A table and how well it does.
#[derive(Clone, Debug)]
pub(crate) struct Fitted {
    /// The table.
    pub(crate) table: Table,
    /// The largest distance between the result of a lookup and the function, whose numbers beyond the
    /// range of the type are its ends.
    pub(crate) max_error: f64,
}

/// The tables of a machine, or why a function cannot use them.
pub(crate) fn form(arch: &TcuArch) -> Result<Form, String> {
    let (Some(tables), Some(depth)) = (arch.lookup_tables, arch.lookup_table_depth) else {
        return Err("the machine has none".to_owned());
    };
    if arch.data_type == DataType::Float32 {
        return Err("the error of tables of FLOAT32 is not known for every number".to_owned());
    }
    if tables > arch.simd_registers_depth {
        let registers = arch.simd_registers_depth;
        return Err(format!("a lookup writes {tables} registers, and the machine has {registers}"));
    }
    // A table passes through local memory, next to what a layer needs there at least.
    if u64::from(depth) + 2 > arch.local_depth {
        return Err("a table fills local memory".to_owned());
    }
    Ok(Form { data_type: arch.data_type, depth, slopes: tables > 1 })
}

/// The table of a function.
pub(crate) fn table(function: Function, form: Form) -> Arc<Fitted> {
    static KNOWN: Mutex<BTreeMap<String, Arc<Fitted>>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = format!("{} {form:?}", function.name());
    if let Some(fitted) = known().get(&key) {
        return fitted.clone();
    }
    let fitted = Arc::new(fit::fit(function, form));
    let mut known = known();
    if known.len() >= KEPT {
        known.clear();
    }
    known.insert(key, fitted.clone());
    fitted
}

/// The largest error of a softmax over so many numbers.
///
/// With `d` as the error of an exponential, `c` as that of a reciprocal and at least `1 - d` as the
/// sum, which may be off by `n * d`: a quotient is off by `(n + 1) * d / (1 - d)`, and the product
/// with the reciprocal by `(1 + d) * c` and half a step more.
pub(crate) fn softmax_error(count: usize, form: Form) -> f64 {
    let exp = table(Function::SoftmaxExp, form).max_error;
    let reciprocal = table(Function::SoftmaxReciprocal, form).max_error;
    let highest = form.data_type.decode(form.data_type.max());
    let mut error = (count as f64 + 1.0) * exp / (1.0 - exp).max(exp);
    if count as f64 * (1.0 + exp) > highest {
        // The sum stays below what it should be.
        error = error.max(1.0 / highest);
    }
    error + (1.0 + exp) * reciprocal + form.data_type.decode(1) / 2.0
}

/// Why a softmax over so many numbers is not computed with tables.
pub(crate) fn refuse_softmax(count: usize, arch: &TcuArch) -> Option<String> {
    match form(arch) {
        Err(reason) => Some(format!("Softmax needs lookup tables: {reason}")),
        Ok(form) => {
            let error = softmax_error(count, form);
            (error > LARGEST_SOFTMAX_ERROR).then(|| {
                format!("with the machine's tables a Softmax of {count} may be off by {error:.3}")
            })
        }
    }
}
