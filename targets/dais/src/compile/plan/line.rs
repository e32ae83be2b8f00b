//! Lines through the ends of runs.
//!
//! Every two ends bound the slope: the line must have risen by their difference between the operand
//! before the lower one and the upper one itself, and by no more between their inner operands. A
//! factor that fits no addend shows the two ends that say so, and what they say holds for every
//! shift. So slopes are narrowed down by halves until a factor fits or none is left.

use super::super::steps::Steps;
use super::super::sums::signed_digits;
use quincunx_num::{Int, Interval};

/// Longest shift of a line.
const MAX_DROP: u32 = 56;

/// Factors on either side of the one that was found, and longer shifts, that are tried for fewer
/// digits.
const CANDIDATES: i128 = 8;
const LONGER: u32 = 3;

/// `(factor * x + addend) >> drop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) factor: i128,
    pub(super) addend: i128,
    pub(super) drop: u32,
}

impl Line {
    /// Width of its longest number; `u32::MAX` if the addend is not a constant of the machine.
    fn width(&self, steps: &Steps) -> u32 {
        let product = |x: i128| Int::from(self.factor) * Int::from(x);
        let ends = (product(steps.runs[0].0), product(steps.last));
        let (low, high) = if self.factor < 0 { (ends.1, ends.0) } else { ends };
        let addend = Int::from(self.addend);
        let sum = Interval::new(&low + &addend, &high + addend, 0);
        match i64::try_from(self.addend) {
            Ok(_) => Interval::new(low, high, 0).kif().width().max(sum.kif().width()),
            Err(_) => u32::MAX,
        }
    }
}

/// The shortest line whose whole part, kept within the results, is the function, and whose numbers
/// have up to `width` bits.
pub(super) fn line(steps: &Steps, width: u32) -> Option<Line> {
    let rises = steps.runs.windows(2).all(|pair| pair[1].1 > pair[0].1);
    let falls = steps.runs.windows(2).all(|pair| pair[1].1 < pair[0].1);
    // A falling function is a rising one of the negative operand.
    let mirror = if falls { -1 } else { 1 };
    if !rises && !falls {
        return None;
    }
    // Every result above the first has the operand at which it begins.
    let mut ends: Vec<(i128, i128)> = Vec::new();
    let runs: Vec<(i128, i128)> = match falls {
        false => steps.runs.clone(),
        true => {
            let ends = steps.runs.iter().skip(1).map(|run| 1 - run.0).chain([-steps.last]);
            let mut runs: Vec<_> =
                steps.runs.iter().zip(ends).map(|(r, from)| (from, r.1)).collect();
            runs.reverse();
            runs
        }
    };
    for pair in runs.windows(2) {
        // A jump over results holds all of them; the lowest and the highest say it all.
        ends.push((pair[1].0, pair[0].1 + 1));
        if pair[1].1 > pair[0].1 + 1 {
            ends.push((pair[1].0, pair[1].1));
        }
    }
    shortest(&ends, mirror, steps, width)
}

/// The shortest line with all ends on the right side, of lines not much longer the one with fewest
/// digits.
fn shortest(ends: &[(i128, i128)], mirror: i128, steps: &Steps, width: u32) -> Option<Line> {
    let mut slopes = Slopes::of(ends)?;
    let mut best: Option<(u32, Line)> = None;
    let mut found_at = None;
    for drop in 0..=MAX_DROP {
        if found_at.is_some_and(|at| drop > at + LONGER) {
            break;
        }
        let middle = loop {
            let Some((low, high)) = slopes.factors(drop) else {
                return best.map(|(_, line)| line);
            };
            let middle = low + (high - low) / 2;
            match (low <= high).then(|| addend(ends, middle, drop)) {
                None => break None,
                Some(Fit::Overflow) => return best.map(|(_, line)| line),
                Some(Fit::Addend(_)) => break Some(middle),
                Some(Fit::Steeper(rise, run)) => slopes.low = (rise, run),
                Some(Fit::Flatter(rise, run)) => slopes.high = Some((rise, run)),
            }
        };
        let (Some(middle), Some((low, high))) = (middle, slopes.factors(drop)) else { continue };
        for factor in low.max(middle - CANDIDATES)..=high.min(middle + CANDIDATES) {
            let Fit::Addend(addend) = addend(ends, factor, drop) else { continue };
            let line = Line { factor: factor * mirror, addend, drop };
            let digits = signed_digits(&Int::from(factor)).len() as u32;
            if best.is_none_or(|(least, _)| digits < least) && line.width(steps) <= width {
                found_at.get_or_insert(drop);
                best = Some((digits, line));
            }
        }
    }
    best.map(|(_, line)| line)
}

/// Slopes that lines may have: above the first fraction, below the second.
struct Slopes {
    low: (i128, i128),
    high: Option<(i128, i128)>,
}

impl Slopes {
    /// As far as the first and last end tell.
    fn of(ends: &[(i128, i128)]) -> Option<Slopes> {
        let (first, last) = (*ends.first()?, *ends.last()?);
        let (run, rise) = (last.0 - first.0, last.1 - first.1);
        // One end only: any slope will do.
        Some(Slopes { low: (rise, run + 1), high: (run > 1).then_some((rise, run - 1)) })
    }

    /// The factors between them for a shift; `None` when no slope is left.
    fn factors(&self, drop: u32) -> Option<(i128, i128)> {
        let shifted = |rise: i128| rise.checked_mul(1 << drop);
        let low = shifted(self.low.0)?.div_euclid(self.low.1) + 1;
        let Some(high) = self.high else { return Some((low, low + CANDIDATES)) };
        let (below, above) = (self.low.0.checked_mul(high.1)?, high.0.checked_mul(self.low.1)?);
        (below < above).then_some(())?;
        Some((low, (shifted(high.0)? - 1).div_euclid(high.1)))
    }
}

/// What a factor leads to.
enum Fit {
    /// With this addend all ends are on the right side.
    Addend(i128),
    /// Slopes must be above `rise / run`.
    Steeper(i128, i128),
    /// Slopes must be below it.
    Flatter(i128, i128),
    Overflow,
}

/// The roundest addend with which a line of this slope has all ends on the right side.
fn addend(ends: &[(i128, i128)], factor: i128, drop: u32) -> Fit {
    let (mut low, mut high) = ((i128::MIN, 0), (i128::MAX, 0));
    for (index, &(from, result)) in ends.iter().enumerate() {
        let start = result.checked_mul(1 << drop);
        let needed = factor.checked_mul(from).and_then(|x| start?.checked_sub(x));
        let Some(needed) = needed else { return Fit::Overflow };
        low = low.max((needed, index));
        high = high.min((needed, index));
    }
    if low.0 - high.0 >= factor {
        let (from, result) = ends[low.1];
        let (until, most) = ends[high.1];
        let (rise, run) = (result - most, from - until + 1);
        return if run > 0 { Fit::Steeper(rise, run) } else { Fit::Flatter(-rise, -run) };
    }
    let (low, high) = (low.0, high.0 + factor - 1);
    // The multiple of the highest power of two in between.
    let mut best = low;
    for bits in 0..100 {
        let unit = 1_i128 << bits;
        let round = low.div_euclid(unit) * unit + if low.rem_euclid(unit) == 0 { 0 } else { unit };
        if round > high {
            break;
        }
        best = round;
    }
    Fit::Addend(best)
}
