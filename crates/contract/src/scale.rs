//! What the driver makes of the numbers of outputs.

use crate::Scaling;
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Int, Ratio};

/// `factor * number + addend` as the nearest f64.
pub fn scaled(number: &Dyadic, factor: &Ratio, addend: &Ratio) -> f64 {
    let value = factor * number.to_ratio() + addend;
    match Dyadic::from_ratio(&value) {
        Some(value) => value.to_f64(),
        None => value.to_f64().value(),
    }
}

/// An exact fraction: `-3/7`, `5`; `None` for other texts, and for longer ones than compilers write.
pub fn fraction(text: &str) -> Option<Ratio> {
    // They would cost quadratic time.
    if text.len() > 8192 {
        return None;
    }
    let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
    let (numerator, denominator): (Int, Int) = (numerator.parse().ok()?, denominator.parse().ok()?);
    (denominator > Int::ZERO).then(|| Ratio::from_parts_signed(numerator, denominator))
}

/// A [`Scaling`] in numbers.
#[derive(Clone, Debug)]
pub struct Scale {
    /// One per element, or one for all; so are the addends.
    factors: Vec<Ratio>,
    addends: Vec<Ratio>,
}

impl Scale {
    /// Reads a scaling for an output of so many elements.
    ///
    /// # Errors
    /// `code` for a malformed fraction or another number of them.
    pub fn parse(scaling: &Scaling, elements: usize, code: &'static str) -> Result<Scale> {
        let list = |texts: &[String]| {
            let fractions: Option<Vec<Ratio>> = texts.iter().map(|text| fraction(text)).collect();
            let fits = |list: &Vec<Ratio>| list.len() == 1 || list.len() == elements;
            fractions.filter(fits).ok_or_else(|| {
                let output = scaling.output.escape_debug();
                let message = format!("the scaling of output \"{output}\" is malformed");
                let help =
                    "expected one fraction such as -3/7 for all elements, or one per element";
                Diagnostic::invalid(code, message).help(help)
            })
        };
        Ok(Scale { factors: list(&scaling.factors)?, addends: list(&scaling.addends)? })
    }

    /// The real numbers of an output, each rounded once.
    pub fn apply(&self, numbers: impl Iterator<Item = Dyadic>) -> Vec<f64> {
        let at = |list: &'_ [Ratio], index: usize| -> Ratio {
            list[if list.len() == 1 { 0 } else { index }].clone()
        };
        let real = |(index, number): (usize, Dyadic)| {
            scaled(&number, &at(&self.factors, index), &at(&self.addends, index))
        };
        numbers.enumerate().map(real).collect()
    }
}
