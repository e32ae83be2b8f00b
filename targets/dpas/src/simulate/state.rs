//! What a simulator holds.

/// The registers, or the variables, of one thread or of two fused ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Bytes of each thread, lowest address first.
    pub threads: Vec<Vec<u8>>,
    /// Lanes that are switched on.
    pub dispatch_mask: u32,
}

impl State {
    /// Zeroed threads with all lanes on.
    pub fn new(threads: usize, bytes: usize) -> State {
        State { threads: vec![vec![0; bytes]; threads], dispatch_mask: u32::MAX }
    }
}
