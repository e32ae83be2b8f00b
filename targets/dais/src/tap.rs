//! Where a number of the network is in a program: the notation of layer taps.

use crate::program::Slot;
use quincunx_contract::{fraction, scaled};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Int, Ratio};
use std::fmt;

/// Shifts and exponents of places lie within plus and minus this.
const MAX_EXPONENT: i32 = 1 << 14;

/// The place of one number: `%12`, `-%12 << 3`, `%12@2` in stage 2 of a pipeline, or `=5*2^-2` where
/// the compiler knew it; and with what is to be made of that number, as in `%12 * 3/7 + 1/5`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// `(-1 if negate) * slot * 2^shift`.
    Slot {
        /// The slot.
        slot: Slot,
        /// The stage whose slot it is; 0 for a program that is not a pipeline.
        stage: usize,
        /// Power of two.
        shift: i32,
        /// Negated.
        negate: bool,
    },
    /// A constant.
    Constant(Dyadic),
    /// `factor * place + addend`.
    Scaled {
        /// A slot or a constant.
        place: Box<Place>,
        /// Factor.
        factor: Ratio,
        /// Addend.
        addend: Ratio,
    },
}

impl Place {
    /// The number as the nearest f64, given the value of every slot as a binary fraction.
    pub(crate) fn read(&self, slot_value: impl Fn(usize, Slot) -> Dyadic) -> f64 {
        match self {
            Place::Scaled { place, factor, addend } => {
                scaled(&place.fraction(slot_value), factor, addend)
            }
            _ => self.fraction(slot_value).to_f64(),
        }
    }

    /// The stage and slot it reads, if any.
    pub(crate) fn slot(&self) -> Option<(usize, Slot)> {
        self.binary().map(|(stage, slot, ..)| (stage, slot))
    }

    /// The stage and slot it reads, if any, with power of two and sign.
    pub(crate) fn binary(&self) -> Option<(usize, Slot, i32, bool)> {
        match self {
            &Place::Slot { slot, stage, shift, negate } => Some((stage, slot, shift, negate)),
            Place::Constant(_) => None,
            Place::Scaled { place, .. } => place.binary(),
        }
    }

    /// The number, given the binary fraction that it is made of where that is not constant.
    pub(crate) fn real(&self, fraction: f64) -> f64 {
        match self {
            Place::Slot { .. } => fraction,
            Place::Constant(value) => value.to_f64(),
            Place::Scaled { place, factor, addend } => {
                let fraction = place.real(fraction);
                let fraction = Dyadic::from_f64(fraction).unwrap_or(Dyadic::ZERO);
                scaled(&fraction, factor, addend)
            }
        }
    }

    fn fraction(&self, slot_value: impl Fn(usize, Slot) -> Dyadic) -> Dyadic {
        match self {
            Place::Scaled { place, .. } => place.fraction(slot_value),
            Place::Constant(value) => value.clone(),
            Place::Slot { slot, stage, shift, negate } => {
                let sign = Int::from(if *negate { -1 } else { 1 });
                slot_value(*stage, *slot).mul(&Dyadic::new(sign, *shift))
            }
        }
    }

    /// The place of the same number after slots have moved: for each stage and old slot the new
    /// one, and whether that holds the negated value.
    pub(crate) fn moved(self, moved: &[Vec<(Slot, bool)>]) -> Place {
        let Some((stage, old)) = self.slot() else { return self };
        match moved.get(stage).and_then(|stage| stage.get(old.0 as usize)) {
            Some(&(new, flip)) => self.replaced(stage, new, flip),
            None => self,
        }
    }

    /// The same with another slot that holds the number, in a stage.
    pub(crate) fn to(self, stage: usize, slot: Slot) -> Place {
        self.replaced(stage, slot, false)
    }

    fn replaced(self, stage: usize, slot: Slot, flip: bool) -> Place {
        match self {
            Place::Slot { shift, negate, .. } => {
                Place::Slot { slot, stage, shift, negate: negate ^ flip }
            }
            Place::Scaled { place, factor, addend } => {
                let place = Box::new(place.replaced(stage, slot, flip));
                Place::Scaled { place, factor, addend }
            }
            constant @ Place::Constant(_) => constant,
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
                    let entry: String = entry.chars().take(40).collect();
                    let entry = entry.escape_debug();
                    let message = format!("\"{entry}\" is not the place of a number");
                    Diagnostic::invalid("Q1123", message).help(
                        "expected %slot, -%slot@stage << shift or =mantissa*2^exponent, \
                         then * factor + addend",
                    )
                })
            })
            .collect()
    }

    fn parse(entry: &str) -> Option<Place> {
        if let Some((place, affine)) = entry.split_once(" * ") {
            let (factor, addend) = affine.split_once(" + ")?;
            let place = Box::new(Place::parse_simple(place)?);
            return Some(Place::Scaled {
                place,
                factor: fraction(factor)?,
                addend: fraction(addend)?,
            });
        }
        Place::parse_simple(entry)
    }

    fn parse_simple(entry: &str) -> Option<Place> {
        // Numbers of other magnitudes never come from this compiler and would fill the memory.
        let exponent = |text: &str| {
            text.parse::<i32>().ok().filter(|e| (-MAX_EXPONENT..=MAX_EXPONENT).contains(e))
        };
        if let Some(constant) = entry.strip_prefix('=') {
            let (mantissa, power) = constant.split_once("*2^")?;
            // Longer numbers never come from this compiler and would cost quadratic time.
            let mantissa: Int =
                if mantissa.len() <= 4096 { mantissa.parse().ok()? } else { return None };
            return Some(Place::Constant(Dyadic::new(mantissa, exponent(power)?)));
        }
        let (negate, rest) = entry.strip_prefix('-').map_or((false, entry), |rest| (true, rest));
        let (slot, shift) = match rest.split_once(" << ") {
            Some((slot, shift)) => (slot, exponent(shift)?),
            None => (rest, 0),
        };
        let (slot, stage) = match slot.split_once('@') {
            Some((slot, stage)) => (slot, stage.parse().ok()?),
            None => (slot, 0),
        };
        let slot = Slot(slot.strip_prefix('%')?.parse().ok()?);
        Some(Place::Slot { slot, stage, shift, negate })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Constant(value) => write!(f, "={}*2^{}", value.mantissa(), value.exponent()),
            Place::Scaled { place, factor, addend } => write!(f, "{place} * {factor} + {addend}"),
            Place::Slot { slot, stage, shift, negate } => {
                write!(f, "{}%{}", if *negate { "-" } else { "" }, slot.0)?;
                if *stage != 0 {
                    write!(f, "@{stage}")?;
                }
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
            Place::Slot { slot: Slot(3), stage: 0, shift: 0, negate: false },
            Place::Slot { slot: Slot(12), stage: 0, shift: -4, negate: true },
            Place::Slot { slot: Slot(7), stage: 2, shift: 1, negate: true },
            Place::Constant(Dyadic::new(Int::from(-5), -2)),
            Place::Constant(Dyadic::ZERO),
            Place::Scaled {
                place: Box::new(Place::Slot { slot: Slot(4), stage: 0, shift: 1, negate: true }),
                factor: Ratio::from_parts_signed(Int::from(3), Int::from(7)),
                addend: Ratio::from_parts_signed(Int::from(-1), Int::from(5)),
            },
        ];
        let text = places.iter().map(Place::to_string).collect::<Vec<_>>().join(", ");
        let written = "%3, -%12 << -4, -%7@2 << 1, =-5*2^-2, =0*2^0, -%4 << 1 * 3/7 + -1/5";
        assert_eq!(text, written);
        assert_eq!(Place::parse_list(&text).unwrap(), places);
        assert_eq!(Place::parse_list("").unwrap(), []);
        for bad in ["%", "3", "%3 <<", "=1", "=x*2^0", "%3,%4", "--%1", "%1 * 3/0 + 0", "%1 * 3"] {
            assert_eq!(Place::parse_list(bad).unwrap_err().code(), "Q1123", "{bad}");
        }
        for bad in ["%1@", "%@1", "%1 << 99999", "-%1 << -2147483648", "=1*2^2147483647"] {
            assert_eq!(Place::parse_list(bad).unwrap_err().code(), "Q1123", "{bad}");
        }
    }
}
