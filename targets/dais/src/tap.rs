//! Where a number of the network is in a program: the notation of layer taps.

use crate::program::Slot;
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Int};
use std::fmt;

/// The place of one number: `%12`, `-%12 << 3`, or `=5*2^-2` where the compiler knew it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// `(-1 if negate) * slot * 2^shift`.
    Slot {
        /// The slot.
        slot: Slot,
        /// Power of two.
        shift: i32,
        /// Negated.
        negate: bool,
    },
    /// A constant.
    Constant(Dyadic),
}

impl Place {
    /// The number, given the value of every slot as a binary fraction.
    pub(crate) fn read(&self, slot_value: impl Fn(Slot) -> Dyadic) -> Dyadic {
        match self {
            Place::Constant(value) => value.clone(),
            Place::Slot { slot, shift, negate } => {
                let sign = Int::from(if *negate { -1 } else { 1 });
                slot_value(*slot).mul(&Dyadic::new(sign, *shift))
            }
        }
    }

    /// Parses a list separated by commas, as [`fmt::Display`] writes the entries.
    ///
    /// # Errors
    /// `Q1123` names the entry that is malformed.
    pub(crate) fn parse_list(text: &str) -> Result<Vec<Place>> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        text.split(", ")
            .map(|entry| {
                Self::parse(entry).ok_or_else(|| {
                    Diagnostic::invalid(
                        "Q1123",
                        format!("\"{entry}\" is not the place of a number"),
                    )
                    .help("expected %slot, -%slot << shift or =mantissa*2^exponent")
                })
            })
            .collect()
    }

    fn parse(entry: &str) -> Option<Place> {
        if let Some(constant) = entry.strip_prefix('=') {
            let (mantissa, exponent) = constant.split_once("*2^")?;
            // Longer numbers never come from this compiler and would cost quadratic time.
            let mantissa: Int =
                if mantissa.len() <= 4096 { mantissa.parse().ok()? } else { return None };
            return Some(Place::Constant(Dyadic::new(mantissa, exponent.parse().ok()?)));
        }
        let (negate, rest) = entry.strip_prefix('-').map_or((false, entry), |rest| (true, rest));
        let (slot, shift) = match rest.split_once(" << ") {
            Some((slot, shift)) => (slot, shift.parse().ok()?),
            None => (rest, 0),
        };
        Some(Place::Slot { slot: Slot(slot.strip_prefix('%')?.parse().ok()?), shift, negate })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Constant(value) => write!(f, "={}*2^{}", value.mantissa(), value.exponent()),
            Place::Slot { slot, shift, negate } => {
                write!(f, "{}%{}", if *negate { "-" } else { "" }, slot.0)?;
                if *shift != 0 {
                    write!(f, " << {shift}")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_round_trip() {
        let places = [
            Place::Slot { slot: Slot(3), shift: 0, negate: false },
            Place::Slot { slot: Slot(12), shift: -4, negate: true },
            Place::Constant(Dyadic::new(Int::from(-5), -2)),
            Place::Constant(Dyadic::ZERO),
        ];
        let text = places.iter().map(Place::to_string).collect::<Vec<_>>().join(", ");
        assert_eq!(text, "%3, -%12 << -4, =-5*2^-2, =0*2^0");
        assert_eq!(Place::parse_list(&text).unwrap(), places);
        assert_eq!(Place::parse_list("").unwrap(), []);
        for bad in ["%", "3", "%3 <<", "=1", "=x*2^0", "%3,%4", "--%1"] {
            assert_eq!(Place::parse_list(bad).unwrap_err().code(), "Q1123", "{bad}");
        }
    }
}
