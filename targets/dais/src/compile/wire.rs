//! Binary fractions of the network while it is being compiled.

use crate::program::Slot;
use quincunx_num::{Dyadic, Int};

/// A binary fraction: known, or in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// Known at compile time.
    Constant(Dyadic),
    /// `(-1 if negate) * slot * 2^shift`; shifting and negating cost nothing until an operation
    /// needs the number.
    Slot {
        /// The slot.
        slot: Slot,
        /// Power of two.
        shift: i32,
        /// Negated.
        negate: bool,
    },
}

impl Wire {
    /// The number 0.
    pub(super) fn zero() -> Wire {
        Wire::Constant(Dyadic::ZERO)
    }

    /// The number 1.
    pub(super) fn one() -> Wire {
        Wire::Constant(Dyadic::new(Int::ONE, 0))
    }

    /// A whole number.
    pub(super) fn whole(value: i64) -> Wire {
        Wire::Constant(Dyadic::new(Int::from(value), 0))
    }

    /// What a slot holds.
    pub(super) fn of(slot: Slot) -> Wire {
        Wire::Slot { slot, shift: 0, negate: false }
    }

    /// `-self`.
    #[must_use]
    pub(super) fn negated(&self) -> Wire {
        match self {
            Wire::Constant(value) => Wire::Constant(value.neg()),
            Wire::Slot { slot, shift, negate } => {
                Wire::Slot { slot: *slot, shift: *shift, negate: !negate }
            }
        }
    }

    /// `self * 2^by`.
    #[must_use]
    pub(super) fn shifted(&self, by: i32) -> Wire {
        match self {
            Wire::Constant(value) => Wire::Constant(value.mul(&Dyadic::new(Int::ONE, by))),
            Wire::Slot { slot, shift, negate } => {
                Wire::Slot { slot: *slot, shift: shift.saturating_add(by), negate: *negate }
            }
        }
    }
}
