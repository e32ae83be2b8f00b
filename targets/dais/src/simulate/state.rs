//! What a running program holds: its inputs and the buffer.

use quincunx_num::{Dyadic, Int};

/// Inputs and buffer of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The inputs, as exact numbers; the input operations bring them to their types.
    pub inputs: Vec<Dyadic>,
    /// The buffer: slot `i` is an integer in units of `2^-fraction` of its type. Slots that the
    /// run has not reached yet are 0.
    pub slots: Vec<Int>,
}

impl State {
    /// An empty buffer of this many slots.
    pub fn new(slots: usize) -> State {
        State { inputs: Vec::new(), slots: vec![Int::ZERO; slots] }
    }
}
