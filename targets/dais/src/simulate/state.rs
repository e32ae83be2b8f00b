//! What a running program holds: its inputs, the buffer and registers.

use crate::program::Program;
use quincunx_num::{Dyadic, Int};

/// Inputs, buffer and registers of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The inputs, as exact numbers; the input operations bring them to their types.
    pub inputs: Vec<Dyadic>,
    /// The buffer: slot `i` is an integer in units of `2^-fraction` of its type. Slots that the
    /// run has not reached yet are 0.
    pub slots: Vec<Int>,
    /// What the registers hold in the next run.
    pub registers: Vec<Dyadic>,
}

impl State {
    /// An empty buffer, and registers with their start values.
    pub fn new(program: &Program) -> State {
        let start = |&value| Dyadic::from_f64(value).unwrap_or(Dyadic::ZERO);
        let registers = program.state.iter().map(start).collect();
        State { inputs: Vec::new(), slots: vec![Int::ZERO; program.operations.len()], registers }
    }
}
