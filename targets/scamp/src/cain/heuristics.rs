//! What a bag of goals costs: the order in which children are tried.
//!
//! Facts: `cain-paper` section 3.3, `cain` (`docs/bibliography.md`).

use super::goals::{Shape, mix};
use smallvec::SmallVec;

/// How proposed children are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heuristic {
    /// Cain's: distances of atoms, halved for goals that are part of another one; negative atoms
    /// count as one step; repeated goals; halvings.
    Pattern,
    /// Pattern without the relief for goals that are part of another one.
    Pattern2,
    /// Equations 11 to 14 of the paper, the relief of equation 12 given to goals that are part of
    /// another one, as its text says.
    Paper,
    /// Equations 11 to 14 as they are printed: the relief is for goals that are part of no other.
    PaperAsPrinted,
    /// No order: a number drawn from the bag and the seed.
    Random,
}

impl Heuristic {
    /// All of them with their names in kernel files.
    pub const ALL: [(&'static str, Heuristic); 5] = [
        ("Pattern", Heuristic::Pattern),
        ("Pattern2", Heuristic::Pattern2),
        ("Paper", Heuristic::Paper),
        ("PaperAsPrinted", Heuristic::PaperAsPrinted),
        ("Random", Heuristic::Random),
    ];

    pub(super) fn is_of_paper(self) -> bool {
        matches!(self, Heuristic::Paper | Heuristic::PaperAsPrinted)
    }

    /// What the distances of a goal are divided by.
    fn relief(self, is_part: bool) -> i64 {
        match self {
            Heuristic::Pattern | Heuristic::Paper => 1 + i64::from(is_part),
            Heuristic::PaperAsPrinted => 1 + i64::from(!is_part),
            Heuristic::Pattern2 | Heuristic::Random => 1,
        }
    }
}

/// The heuristic for one search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) heuristic: Heuristic,
    /// The exponent of the unit.
    pub(super) depth: u32,
    pub(super) seed: u64,
}

/// What a bound needs of a goal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Brief {
    pub(super) form: u64,
    /// The square of the atoms; 0 where all are in one element.
    pub(super) square: i64,
    pub(super) low: i64,
    pub(super) high: i64,
}

impl Brief {
    pub(super) fn of(shape: &Shape) -> Brief {
        let square = if shape.is_point() { 0 } else { shape.total * shape.total };
        Brief { form: shape.form, square, low: shape.low, high: shape.high }
    }
}

impl Cost {
    /// Distances of a goal with signs, before the relief.
    pub(super) fn ways(&self, way: i64, minus: i64) -> i64 {
        if self.heuristic.is_of_paper() { way } else { way + minus }
    }

    /// The largest relief there is.
    pub(super) fn most_relief(&self) -> i64 {
        self.heuristic.relief(true).max(self.heuristic.relief(false))
    }

    /// Distances of a bag.
    fn dists(&self, goals: &[&Shape]) -> f64 {
        let mut sum = 0.0;
        for (index, goal) in goals.iter().enumerate() {
            let mut others = goals.iter().enumerate().filter(|(at, _)| *at != index);
            let is_part = self.most_relief() > 1 && others.any(|(_, other)| goal.is_within(other));
            let ways = self.ways(goal.way, goal.minus) as f64;
            sum += goal.total as f64 + ways / self.heuristic.relief(is_part) as f64;
        }
        sum
    }

    /// The penalty of goals that are not translations of each other: each class counts once, in the
    /// paper only classes of one goal.
    pub(super) fn reps(&self, goals: &[Brief]) -> f64 {
        let mut sum = 0;
        for (index, goal) in goals.iter().enumerate() {
            let is_equal = |other: &Brief| other.form == goal.form;
            let repeats = goals[..index].iter().any(is_equal)
                || self.heuristic.is_of_paper() && goals[index + 1..].iter().any(is_equal);
            sum += if repeats { 0 } else { goal.square };
        }
        sum as f64
    }

    /// The penalty of halvings that are still to come.
    pub(super) fn divs(&self, low: i64, high: i64) -> f64 {
        let unit = 1_i64 << self.depth;
        if self.heuristic.is_of_paper() {
            return if low == 0 { 0.0 } else { unit as f64 / low as f64 };
        }
        (if low == 0 { 0 } else { unit / low } + high / unit) as f64
    }

    /// What a bag costs; `copies` for one that a plain `mov` makes. What costs `limit` or more may get
    /// any such number.
    pub(super) fn of(&self, goals: &[&Shape], copies: bool, limit: f64) -> f64 {
        if self.heuristic == Heuristic::Random {
            let sum = goals.iter().fold(self.seed, |sum, goal| sum.wrapping_add(goal.key()));
            return (mix(sum) >> 12) as f64;
        }
        let briefs: SmallVec<[Brief; 8]> = goals.iter().map(|goal| Brief::of(goal)).collect();
        let (low, high) = range(&briefs);
        let times = if copies && !self.heuristic.is_of_paper() { 2.0 } else { 1.0 };
        let (reps, divs) = (self.reps(&briefs), self.divs(low, high));
        let relief = self.most_relief() as f64;
        let nearest = goals
            .iter()
            .map(|goal| goal.total as f64 + self.ways(goal.way, goal.minus) as f64 / relief);
        let least = times * (nearest.sum::<f64>() + reps + divs);
        if least >= limit { least } else { times * (self.dists(goals) + reps + divs) }
    }
}

/// Least and largest count of goals; 0 without any.
pub(super) fn range(goals: &[Brief]) -> (i64, i64) {
    let lows = goals.iter().map(|goal| goal.low).filter(|&low| low > 0);
    (lows.min().unwrap_or(0), goals.iter().map(|goal| goal.high).max().unwrap_or(0))
}
