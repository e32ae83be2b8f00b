//! How long the fractions of a run may become.

use quincunx_diag::{Diagnostic, Result};

/// Most bits of all fractions together, and of all that a run computes.
const MAX_BITS: u64 = 1 << 30;
const MAX_BITS_COMPUTED: u64 = 1 << 32;

/// What fractions may still cost: their length has no bound of its own.
#[derive(Default)]
pub(super) struct Budget {
    computed: u64,
}

impl Budget {
    /// Accounts for a step that wrote so many bits; these stand for every plane.
    ///
    /// # Errors
    /// `Q5062` when they are too many.
    pub(super) fn spend(&mut self, bits: u64, planes: usize) -> Result<()> {
        self.computed = self.computed.saturating_add(bits);
        let stored = bits.saturating_mul(planes as u64);
        if stored <= MAX_BITS && self.computed <= MAX_BITS_COMPUTED {
            return Ok(());
        }
        let message = "the results are no floats, and too long as fractions";
        Err(Diagnostic::unsupported("Q5062", message).help("run it on a smaller array"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_have_a_budget() {
        let mut budget = Budget::default();
        assert!(budget.spend(MAX_BITS / 7, 7).is_ok());
        assert_eq!(budget.spend(MAX_BITS / 7 + 1, 7).unwrap_err().code(), "Q5062");
        let steps = (0..100).take_while(|_| budget.spend(MAX_BITS, 1).is_ok()).count();
        assert_eq!(steps, 3);
    }
}
