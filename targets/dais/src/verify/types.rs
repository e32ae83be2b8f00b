//! Rules about single types and tables.

use crate::program::{LookupTable, SlotType, lookup_offset};
use quincunx_diag::Diagnostic;
use quincunx_num::{Dyadic, Int, Kif};

/// The entries that the operand of a lookup reads, if they are not in the table. An interval says
/// exactly which; a type given by its bits may be wider than the values, so that it is enough if
/// it reads any entry.
pub(super) fn uncovered(
    declared: SlotType,
    kif: Kif,
    table: &LookupTable,
    pad: i32,
) -> Option<(Int, Int)> {
    let interval = declared.interval()?;
    let offset = lookup_offset(kif, pad);
    let (first, last) = (interval.low() + &offset, interval.high() + &offset);
    let end = Int::from(table.values.len());
    let covered = match declared {
        SlotType::Interval { .. } => first >= Int::ZERO && last < end,
        SlotType::Kif(_) => last >= Int::ZERO && first < end,
    };
    (!covered).then_some((first, last))
}

/// What is wrong with `(min, max, step)`, if anything. A zero interval may have any step.
pub(crate) fn interval_problem(min: f64, max: f64, step: f64) -> Option<Diagnostic> {
    if min == 0.0 && max == 0.0 || (SlotType::Interval { min, max, step }).short().is_some() {
        return None;
    }
    let Some(exponent) = Dyadic::from_f64(step).and_then(|step| step.log2()) else {
        let message = format!("the step {step} is not a power of two");
        return Some(Diagnostic::invalid("Q1010", message));
    };
    let (Some(low), Some(high)) = (Dyadic::from_f64(min), Dyadic::from_f64(max)) else {
        let message = format!("the bounds {min} and {max} are not finite");
        return Some(Diagnostic::invalid("Q1011", message));
    };
    if min > max {
        return Some(Diagnostic::invalid("Q1011", format!("min {min} is above max {max}")));
    }
    let off_grid = |bound: &Dyadic| bound.in_units(exponent).is_none();
    let bound = [(low, min), (high, max)].into_iter().find(|(bound, _)| off_grid(bound))?.1;
    Some(Diagnostic::invalid("Q1012", format!("{bound} is not a multiple of the step {step}")))
}
