//! From sums of products to codes: the steps that kernels do in f32, and the proof that they give
//! the codes of exact rounding.
//!
//! A sum is `acc`, a whole number; its code is `round(acc * scale + bias)`, ties to even, kept
//! between two ends. In f32 this is `round(acc * high + bias)`, in which a sum near a tie can fall
//! on its wrong side. The longer steps round to an even code first, look at what that left, which is
//! `acc * high - code + acc * low + bias`, whose leading digits cancel, and add that, rounded too: what
//! is halfway then comes to the even code.
//!
//! Both are monotone up to what they can be wrong by, which is less than the distance of two sums.
//! So they are right everywhere when they are right at the sums next to every tie.

use super::weights::Sum;
use quincunx_num::Dyadic;

/// How kernels turn sums into codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Steps {
    /// One product, one rounding.
    Plain,
    /// What rounding left is looked at.
    Corrected,
}

/// The exact meaning of a channel: the meaning of its sums over the scale of the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    pub(super) sum: Sum,
    /// Scale of the output; positive.
    pub(super) output: f64,
}

/// The constants of a channel, as kernels hold them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Factors {
    /// Nearest f32 of the scale; for the corrected steps a number of fewer digits.
    pub(super) high: f32,
    /// What is missing, about.
    pub(super) low: f32,
    /// Addend in steps of the output.
    pub(super) bias: f32,
}

/// What codes mean: their zero, and the ends, as differences from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) low: i32,
    pub(super) high: i32,
}

/// Numbers of this size are even: adding it rounds to such.
pub(super) const EVEN: f32 = 1.5 * (1 << 24) as f32;

/// Units of the factor of the corrected steps in 1.
const HIGH_UNITS: f64 = (1 << 23) as f64;

/// More than the plain steps are wrong by, in codes, while the code is no more than 512.
const PLAIN_ERROR: f64 = 1.0 / 4096.0;

/// More than the corrected ones are.
const CORRECTED_ERROR: f64 = 1.0 / ((1 << 22) as f64);

impl Factors {
    /// The difference of the code of a sum from its zero, before it is kept between the ends: what
    /// kernels compute, in this order.
    pub(super) fn code(self, steps: Steps, acc: i32) -> f32 {
        let acc = acc as f32;
        let code = acc.mul_add(self.high, self.bias);
        if steps == Steps::Plain {
            return code.round_ties_even();
        }
        let code = code + EVEN - EVEN;
        let left = acc.mul_add(self.low, acc.mul_add(self.high, -code)) + self.bias;
        code + left.round_ties_even()
    }
}

/// A sum beside a tie.
struct Near {
    acc: i32,
    /// The code it belongs to.
    code: i32,
}

impl Channel {
    fn scale(&self) -> f64 {
        let [input, weight] = self.sum.scales;
        input * weight / f64::from(self.sum.divisor) / self.output
    }

    /// What is missing in sums, in codes.
    fn bias(&self) -> f64 {
        self.sum.rest().to_f64() / self.output
    }

    /// Whether a sum's exact code is at least `code`.
    fn reaches(&self, acc: i64, code: i32) -> bool {
        let exact = |x: f64| Dyadic::from_f64(x).unwrap_or(Dyadic::ZERO);
        let [input, weight] = self.sum.scales.map(exact);
        let sum = exact(acc as f64).mul(&input).mul(&weight).add(&self.sum.rest());
        let tie = exact(f64::from(code) - 0.5).mul(&exact(self.output));
        let tie = tie.mul(&exact(self.sum.divisor.into()));
        match sum.cmp(&tie) {
            std::cmp::Ordering::Equal => code % 2 == 0,
            order => order.is_gt(),
        }
    }

    /// The smallest sum whose exact code is at least `code`, and how far it is from the tie, in
    /// codes, about; with the scale and the bias.
    fn first(&self, code: i32, (scale, bias): (f64, f64)) -> (i64, f64) {
        let tie = f64::from(code) - 0.5;
        let place = (tie - bias) / scale;
        // What these operations can be off, many times over.
        let doubt = (place.abs() + (bias / scale).abs() + 1.0) * 1e-13;
        let mut first = place.ceil();
        if (place - place.round()).abs() <= doubt {
            first = place.round() - 1.0;
            while !self.reaches(first as i64, code) {
                first += 1.0;
            }
        }
        (first as i64, (first - place) * scale)
    }

    /// The sums next to ties that are nearer than `error`, and the codes they must get.
    fn near(&self, ends: Ends, error: f64) -> Vec<Near> {
        let (mut near, scale, bias) = (Vec::new(), self.scale(), self.bias());
        for code in ends.low + 1..=ends.high {
            let (first, above) = self.first(code, (scale, bias));
            let below = scale - above;
            for (acc, code, distance) in [(first, code, above), (first - 1, code - 1, below)] {
                if let (true, Ok(acc)) = (distance.abs() < error, i32::try_from(acc)) {
                    near.push(Near { acc, code });
                }
            }
        }
        near
    }

    /// Constants with which the fewest steps give exact codes between the ends; `None` where there
    /// are none.
    pub(super) fn prove(&self, ends: Ends) -> Option<(Steps, Factors)> {
        let scale = self.scale();
        let high = scale as f32;
        let factors =
            Factors { high, low: (scale - f64::from(high)) as f32, bias: self.bias() as f32 };
        if !(high.is_normal() && factors.bias.is_finite()) {
            return None;
        }
        let proves = |steps, factors: Factors, near: &[Near]| {
            let is_right = |one: &Near| {
                let code = factors.code(steps, one.acc);
                code.clamp(ends.low as f32, ends.high as f32) == one.code as f32
            };
            near.iter().all(is_right)
        };
        // Sums must lie farther apart than the steps are wrong by; the nearest code of the addend
        // must be one that f32 holds well.
        if scale > 2.0 * PLAIN_ERROR && proves(Steps::Plain, factors, &self.near(ends, PLAIN_ERROR))
        {
            return Some((Steps::Plain, factors));
        }
        self.corrected(factors, ends).map(|factors| (Steps::Corrected, factors))
    }

    /// Constants with which the corrected steps are right: a sum that comes to lie on the wrong side
    /// of its tie is moved over it by a little more or less of `low`, or of the bias.
    pub(super) fn corrected(&self, factors: Factors, ends: Ends) -> Option<Factors> {
        // Below, sums that matter are no longer exact in f32.
        let scale = self.scale();
        if scale <= 1.0 / 32_768.0 {
            return None;
        }
        // Products of so few digits leave something that is exact.
        let high = ((scale * HIGH_UNITS).round() / HIGH_UNITS) as f32;
        let factors = Factors { high, low: (scale - f64::from(high)) as f32, ..factors };
        // All sums next to ties: what is moved is not more than a part of their distance.
        let near = self.near(ends, f64::INFINITY);
        let is_wrong = |factors: Factors, one: &Near| {
            let code = factors.code(Steps::Corrected, one.acc);
            code.clamp(ends.low as f32, ends.high as f32) != one.code as f32
        };
        let size = |one: &Near| f64::from(one.acc).abs().max(1.0);
        let wrong = near.iter().filter(|one| is_wrong(factors, one));
        let Some(least) = wrong.map(size).reduce(f64::min) else { return Some(factors) };
        let most = near.iter().map(size).fold(1.0, f64::max);
        // The least steps that f32 sees beside a half, and more of them; none first.
        let both = |step: f64| [step, -step];
        let turns = (0..8).map(|power| CORRECTED_ERROR / 8.0 / least * f64::from(1 << power));
        let turns = turns.take_while(|step| step * most < scale / 4.0).flat_map(both);
        let moves = (1..64).map(|count| CORRECTED_ERROR / 16.0 * f64::from(count)).flat_map(both);
        let moves: Vec<f64> = [0.0].into_iter().chain(moves).collect();
        let add = |factor: f32, step: f64| (f64::from(factor) + step) as f32;
        let changed = |turn: f64, by: f64| Factors {
            low: add(factors.low, turn),
            bias: add(factors.bias, by),
            ..factors
        };
        let is_right = |factors: &Factors| !near.iter().any(|one| is_wrong(*factors, one));
        let turns: Vec<f64> = turns.chain([0.0]).collect();
        let pairs = moves.iter().flat_map(|&by| turns.iter().map(move |&turn| changed(turn, by)));
        pairs.into_iter().find(is_right)
    }
}
