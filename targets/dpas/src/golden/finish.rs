//! From whole numbers of a unit to results: scaling, activation, grid.

use super::misfit;
use super::numbers::{Form, Grid, Number};
use quincunx_diag::Result;
use quincunx_graph::{Activation, Node, Op, Unary};
use quincunx_num::{Dyadic, Int, Ratio, Rounding, round_ratio};

/// The nodes at the end of a layer: at most one activation, then at most one quantiser.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    /// Real numbers are brought to at least the first, then to at most the second.
    pub(super) limits: [f64; 2],
    pub(super) grid: Option<Grid>,
}

impl Tail {
    /// # Errors
    /// `Q6190` for other nodes, or for more of them.
    pub(super) fn new(nodes: &[&Node]) -> Result<Tail> {
        let mut tail = Tail { limits: [f64::NEG_INFINITY, f64::INFINITY], grid: None };
        let limits = nodes.first().and_then(|node| limits(&node.op));
        let rest = &nodes[usize::from(limits.is_some())..];
        tail.limits = limits.unwrap_or(tail.limits);
        if tail.limits.iter().any(|limit| limit.is_nan()) {
            return Err(misfit("a limit is not a number"));
        }
        if let [node, rest @ ..] = rest {
            let Op::Quantise(quantiser) = &node.op else {
                return Err(misfit(format!("{} ends no layer", node.op.name())));
            };
            if !rest.is_empty() {
                return Err(misfit(format!("{:?} is followed by too much", node.name)));
            }
            tail.grid = Some(Grid::new(quantiser)?);
        }
        Ok(tail)
    }

    /// What is left of a number.
    fn limit(&self, real: f64) -> f64 {
        real.max(self.limits[0]).min(self.limits[1])
    }

    /// It has no activation but perhaps ReLU.
    pub(super) fn is_relu_at_most(&self) -> bool {
        let [low, high] = self.limits;
        (low == 0.0 || low == f64::NEG_INFINITY) && high == f64::INFINITY
    }
}

/// The limits of an activation; `None` for another operator.
fn limits(op: &Op) -> Option<[f64; 2]> {
    match *op {
        Op::Unary(Unary::Relu) => Some([0.0, f64::INFINITY]),
        Op::Activation(Activation::Clip { min, max }) => {
            Some([min.map_or(f64::NEG_INFINITY, f64::from), max.map_or(f64::INFINITY, f64::from)])
        }
        _ => None,
    }
}

/// What whole numbers mean.
pub(super) struct Unit {
    /// What 1 is worth.
    pub(super) one: Ratio,
    /// Real number to be added: what a bias is more than whole numbers of units.
    pub(super) rest: Ratio,
}

/// What whole numbers become.
pub(super) struct Finish {
    /// One for all, or one for every channel.
    scalings: Vec<Scaling>,
    /// Numbers of a channel that follow one another.
    run: usize,
    tail: Tail,
}

impl Finish {
    /// `units` are what whole numbers mean: one for all, or one for every channel, of which `run`
    /// numbers follow one another.
    pub(super) fn new(units: Vec<Unit>, run: usize, tail: Tail) -> Finish {
        let step = tail.grid.map_or(Ratio::ONE, |grid| ratio(grid.scale));
        let scaling = |unit: Unit| Scaling::new(unit.one / &step, unit.rest / &step);
        let scalings = units.into_iter().map(scaling).collect();
        Finish { scalings, run: run.max(1), tail }
    }

    /// The form of the results.
    pub(super) fn form(&self) -> Form {
        self.tail.grid.map_or(Form::Results, Form::Codes)
    }

    /// The results of whole numbers below 2^53.
    pub(super) fn apply(&self, wholes: &[i64]) -> Number {
        let runs = wholes.chunks(self.run).zip(self.scalings.iter().cycle());
        let Some(grid) = self.tail.grid else {
            let real = |(run, scaling)| each(run, move |whole| Scaling::real(scaling, whole));
            return Number::Results(
                runs.flat_map(real).map(|real| self.tail.limit(real)).collect(),
            );
        };
        // Rounding is monotone: the code of a limited number is the number's code, limited.
        let [low, high] = self.tail.limits.map(|limit| grid.code(limit));
        let code = |(run, scaling)| each(run, move |whole| Scaling::code(scaling, whole));
        let limited = |code: i16| code.clamp(grid.low, grid.high()).max(low).min(high);
        Number::Codes(runs.flat_map(code).map(limited).collect(), grid)
    }
}

fn each<'a, T>(run: &'a [i64], of: impl Fn(i64) -> T + 'a) -> impl Iterator<Item = T> + 'a {
    run.iter().map(move |&whole| of(whole))
}

/// A factor of whole numbers, and what is added to products.
struct Scaling {
    factor: Ratio,
    addend: Ratio,
    /// The nearest f64 of both.
    near: [f64; 2],
    /// They are these.
    is_near_exact: bool,
    /// The factor is a power of two and nothing is added, so that all products are exact.
    is_power: bool,
}

impl Scaling {
    fn new(factor: Ratio, addend: Ratio) -> Scaling {
        let dyadic = [&factor, &addend].map(Dyadic::from_ratio);
        let near = |exact: &Ratio, dyadic: &Option<Dyadic>| {
            dyadic.as_ref().map_or_else(|| exact.to_f64().value(), Dyadic::to_f64)
        };
        let is_f64 = |dyadic: &Option<Dyadic>| dyadic.as_ref().is_some_and(Dyadic::is_f64);
        let is_alone = addend == Ratio::ZERO;
        Scaling {
            near: [near(&factor, &dyadic[0]), near(&addend, &dyadic[1])],
            is_near_exact: is_alone && is_f64(&dyadic[0]),
            is_power: is_alone && dyadic[0].as_ref().is_some_and(|one| one.log2().is_some()),
            factor,
            addend,
        }
    }

    fn exact(&self, whole: i64) -> Ratio {
        Ratio::from(whole) * &self.factor + &self.addend
    }

    /// The number, rounded half to even; not exact beyond 1000.
    fn code(&self, whole: i64) -> i16 {
        /// The roundings of factor, addend, product and sum are less than this wrong.
        const ERROR: f64 = 8.0 * f64::EPSILON;
        let product = whole as f64 * self.near[0];
        let sum = (product + self.near[1]).clamp(-1024.0, 1024.0);
        let from_tie = (sum - sum.floor() - 0.5).abs();
        if self.is_power || from_tie > (product.abs() + self.near[1].abs() + 1.0) * ERROR {
            return sum.round_ties_even() as i16;
        }
        let exact = round_ratio(&self.exact(whole), Rounding::HalfEven);
        // It is no farther from the sum than 1.
        i16::try_from(&exact).unwrap_or(0)
    }

    /// The number, rounded once to f64.
    fn real(&self, whole: i64) -> f64 {
        if self.is_near_exact {
            return whole as f64 * self.near[0];
        }
        let exact = self.exact(whole);
        Dyadic::from_ratio(&exact).map_or_else(|| exact.to_f64().value(), |exact| exact.to_f64())
    }
}

/// A finite number, exactly.
pub(super) fn ratio(real: f64) -> Ratio {
    Dyadic::from_f64(real).unwrap_or(Dyadic::ZERO).to_ratio()
}

/// The nearest whole number to a quotient, ties to even; `None` beyond 2^52.
pub(super) fn whole_quotient(a: &Ratio, b: &Ratio) -> Option<i64> {
    let whole: Int = round_ratio(&(a / b), Rounding::HalfEven);
    i64::try_from(&whole).ok().filter(|whole| whole.unsigned_abs() <= 1 << 52)
}
