//! Machine code as a list of 32-bit words, for programs that hold it in memory: the dialects of
//! da4ml ([`Dialect::D0`] to [`Dialect::D1`]; byte code of alkaid has no words).
//!
//! ```
//! use quincunx_dais::binary::Dialect;
//! use quincunx_dais::words::{Interpreter, from_words, to_words};
//!
//! // y = 2a - b, of numbers with 3 integer and 2 fraction bits, in the layout of da4ml 0.6.
//! let words = vec![
//!     1, 0, // version, firmware
//!     2, 1, 3, 0, // inputs, outputs, operations, tables
//!     0, 0, // input shifts
//!     2, 0, 1, // output: slot 2, no shift, negated
//!     -1, 0, -1, 0, 0, 1, 3, 2, // slot 0 = input 0
//!     -1, 1, -1, 0, 0, 1, 3, 2, // slot 1 = input 1
//!     1, 1, 0, 1, 0, 1, 5, 2, // slot 2 = slot 1 - (slot 0 << 1)
//! ];
//! let mut interpreter = Interpreter::new(&words)?;
//! assert_eq!((interpreter.inputs(), interpreter.outputs()), (2, 1));
//! assert_eq!(interpreter.run(&[1.5, -2.25])?, [5.25]);
//! assert_eq!(interpreter.run_batch(&[1.0, 0.0, 2.0, 0.5])?, [2.0, 3.5]);
//!
//! let program = from_words(&words, None).map_err(|mut problems| problems.remove(0))?;
//! assert_eq!(program.operations.len(), 3);
//! assert_eq!(to_words(&program, Dialect::D1)?, words);
//! assert_eq!(to_words(&program, Dialect::D0)?.len(), words.len() - 3);
//! # Ok::<(), quincunx_diag::Diagnostic>(())
//! ```

use crate::binary::{self, ReadOptions};
use crate::isa::Dialect;
use crate::program::Program;
use crate::simulate::Executor;
use quincunx_diag::{Diagnostic, Result, first};

/// The machine code of a program, one list element for each word.
///
/// # Errors
/// As [`binary::write`], and `Q1058` for byte code of alkaid.
pub fn to_words(program: &Program, dialect: Dialect) -> Result<Vec<i32>> {
    check_dialect(dialect)?;
    let bytes = binary::write(program, dialect)?;
    Ok(bytes.as_chunks().0.iter().map(|word| i32::from_le_bytes(*word)).collect())
}

/// The program of a list of words; the dialect is recognised if it is not given.
///
/// # Errors
/// As [`binary::read`], and `Q1058` for byte code of alkaid.
pub fn from_words(
    words: &[i32],
    dialect: Option<Dialect>,
) -> std::result::Result<Program, Vec<Diagnostic>> {
    dialect.map_or(Ok(()), check_dialect).map_err(|problem| vec![problem])?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let read = binary::read(&bytes, &ReadOptions { dialect, lenient: false })?;
    // Words that happen to begin as byte code does.
    check_dialect(read.dialect).map_err(|problem| vec![problem])?;
    Ok(read.program)
}

fn check_dialect(dialect: Dialect) -> Result<()> {
    if dialect != Dialect::A4 {
        return Ok(());
    }
    let message = "byte code of alkaid is not a list of 32-bit words";
    Err(Diagnostic::unsupported("Q1058", message).help("convert the program to dialect d1"))
}

/// Runs machine code that is held as a list of words: exactly, and on inputs of any size.
#[derive(Clone, Debug)]
pub struct Interpreter {
    executor: Executor,
}

impl Interpreter {
    /// Reads and checks a list of words, whose dialect is recognised.
    ///
    /// # Errors
    /// The first error of [`from_words`] or of the rules of [`crate::verify`].
    pub fn new(words: &[i32]) -> Result<Interpreter> {
        Interpreter::in_dialect(words, None)
    }

    /// As [`Interpreter::new`], for words whose dialect is known.
    ///
    /// # Errors
    /// As [`Interpreter::new`].
    pub fn in_dialect(words: &[i32], dialect: Option<Dialect>) -> Result<Interpreter> {
        let program = from_words(words, dialect).map_err(first)?;
        Ok(Interpreter { executor: Executor::new(&program)? })
    }

    /// Numbers that a run takes.
    pub fn inputs(&self) -> usize {
        self.executor.program().input_shifts.len()
    }

    /// Numbers that a run gives.
    pub fn outputs(&self) -> usize {
        self.executor.program().outputs.len()
    }

    /// One sample: a number for every input, a number for every output.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn run(&mut self, inputs: &[f64]) -> Result<Vec<f64>> {
        self.executor.run(inputs)
    }

    /// Samples one after the other, and their outputs one after the other.
    ///
    /// # Errors
    /// `Q1101` when the numbers are not a whole number of samples; as [`Executor::run`].
    pub fn run_batch(&mut self, inputs: &[f64]) -> Result<Vec<f64>> {
        let width = self.inputs();
        if width == 0 || !inputs.len().is_multiple_of(width) {
            let found = inputs.len();
            let message = format!("{found} numbers are not a whole number of samples of {width}");
            return Err(Diagnostic::invalid("Q1101", message));
        }
        let mut outputs = Vec::new();
        for sample in inputs.chunks_exact(width) {
            outputs.extend(self.executor.run(sample)?);
        }
        Ok(outputs)
    }

    /// The integers of all slots after the last run, in units of the steps of their types.
    pub fn slots(&self) -> &[quincunx_num::Int] {
        self.executor.slots()
    }
}
