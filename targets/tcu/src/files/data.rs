//! Constants, `.tdata`: the scalars of vectors in address order (`tensil` in
//! `docs/bibliography.md`).

use crate::arch::TcuArch;
use quincunx_diag::{Diagnostic, Result};

/// Reads whole vectors of scalars.
///
/// # Errors
/// `Q3034` when the length is not a multiple of a vector's.
pub fn read_data(bytes: &[u8], arch: &TcuArch) -> Result<Vec<i32>> {
    let vector = arch.vector_bytes();
    let rest = bytes.chunks_exact(vector).remainder().len();
    if rest != 0 {
        let message =
            format!("{} bytes are not a whole number of vectors of {vector} bytes", bytes.len());
        return Err(
            Diagnostic::invalid("Q3034", message).at_byte(bytes.len().saturating_sub(rest) as u64)
        );
    }
    let scalars = bytes.chunks_exact(arch.data_type.bytes());
    Ok(scalars.map(|bytes| arch.data_type.read(bytes)).collect())
}

/// Writes scalars.
pub fn write_data(scalars: &[i32], arch: &TcuArch) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(scalars.len().saturating_mul(arch.data_type.bytes()));
    for &scalar in scalars {
        arch.data_type.write(scalar, &mut bytes);
    }
    bytes
}
