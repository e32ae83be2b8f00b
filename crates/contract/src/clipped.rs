//! Numbers that a type does not hold.

use crate::program::{Grid, Port};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::Overflow;
use quincunx_tensor::Tensor;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Numbers of one kind that lay beyond the range of a type and became its ends, or, where the type
/// wraps round, something else.
///
/// Numbers from outside count when they are more than a step beyond the range: less is no more than
/// rounding. Results count when the machine saturates them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clipped {
    /// What they are: `weights of conv1`, `input x`, `results of conv1`.
    pub what: String,
    /// How many; at least 1.
    pub count: u64,
    /// Of how many, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// The lowest and the highest number of the type, where it is the same for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// The one farthest from zero, where that is known; `None` for infinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<f64>,
    /// The first instruction that gave one, of results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<usize>,
}

impl Clipped {
    /// Those of `reals` that lie more than a step beyond the range; `None` when there is none.
    pub fn count(
        what: impl FnOnce() -> String,
        range: [f64; 2],
        step: f64,
        reals: impl ExactSizeIterator<Item = f64>,
    ) -> Option<Clipped> {
        let (of, [low, high]) = (reals.len() as u64, [range[0] - step, range[1] + step]);
        let mut tally = Tally::default();
        reals.for_each(|real| tally.add(real, real < low || real > high));
        tally.clipped(what, of, Some(range))
    }

    /// Adds the same of another image.
    pub fn join(&mut self, other: &Clipped) {
        self.count += other.count;
        self.of = self.of.zip(other.of).map(|(a, b)| a + b);
        self.largest = self.largest.zip(other.largest).map(|(a, b)| farther(a, b));
        self.first = self.first.min(other.first);
    }

    /// Adds what one image clipped to what others did.
    pub fn gather(all: &mut Vec<Clipped>, more: &[Clipped]) {
        for clipped in more {
            match all.iter_mut().find(|known| known.what == clipped.what) {
                Some(known) => known.join(clipped),
                None => all.push(clipped.clone()),
            }
        }
    }

    /// The warning `Q0521`.
    pub fn warning(&self) -> Diagnostic {
        let warning = Diagnostic::warning("Q0521", self.to_string());
        match self.first {
            Some(first) => warning.with_note(format!("the first at instruction {first}")),
            None => warning,
        }
    }
}

/// `weights of conv1: 3 of 864 numbers lie beyond -128 to 127.996, as far as 200`.
impl fmt::Display for Clipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.count)?;
        if let Some(of) = self.of {
            write!(f, " of {of}")?;
        }
        write!(f, " numbers lie beyond ")?;
        match self.range {
            Some([low, high]) => write!(f, "{low} to {high}")?,
            None => write!(f, "the range of their type")?,
        }
        match self.largest {
            Some(largest) => write!(f, ", as far as {largest}"),
            None => Ok(()),
        }
    }
}

/// Numbers beyond a range, as they are counted.
#[derive(Default)]
struct Tally {
    count: u64,
    largest: f64,
}

impl Tally {
    fn add(&mut self, real: f64, is_beyond: bool) {
        if is_beyond {
            self.count += 1;
            self.largest = farther(self.largest, real);
        }
    }

    fn clipped(
        self,
        what: impl FnOnce() -> String,
        of: u64,
        range: Option<[f64; 2]>,
    ) -> Option<Clipped> {
        let largest = Some(self.largest).filter(|largest| largest.is_finite());
        let clipped =
            |count| Clipped { what: what(), count, of: Some(of), range, largest, first: None };
        (self.count > 0).then(|| clipped(self.count))
    }
}

fn farther(a: f64, b: f64) -> f64 {
    if b.abs() > a.abs() { b } else { a }
}

impl Port {
    /// What the driver clips of the numbers of this input.
    pub fn clipped(&self, tensor: &Tensor) -> Option<Clipped> {
        let quantiser = self.grid.quantiser()?;
        let what = || format!("input {}", self.name);
        let reals = tensor.reals();
        let reals = reals.iter().copied();
        let scalars = quantiser.scalars(if quantiser.is_uniform() { &[] } else { &self.shape })?;
        if let [scalar] = &scalars[..] {
            return Clipped::count(what, scalar.ends(), scalar.scale, reals);
        }
        let (of, mut tally) = (reals.len() as u64, Tally::default());
        for (real, scalar) in reals.zip(&scalars) {
            let [low, high] = scalar.ends();
            tally.add(real, real < low - scalar.scale || real > high + scalar.scale);
        }
        tally.clipped(what, of, None)
    }

    /// Numbers that the host computed, with the ends of the grid for infinities: a softmax of the
    /// host may mask with them. Wrapping grids and real numbers have no such ends.
    ///
    /// # Errors
    /// `Q0505` for NaN, and for infinities without an end.
    pub fn bounded(&self, tensor: &Tensor) -> Result<Tensor> {
        let reals = tensor.reals();
        if matches!(self.grid, Grid::Float(_)) || reals.iter().all(|real| real.is_finite()) {
            return Ok(tensor.clone());
        }
        let mut reals = reals.into_owned();
        let scalars = self.grid.quantiser().and_then(|quantiser| quantiser.scalars(&self.shape));
        for (index, real) in reals.iter_mut().enumerate().filter(|(_, real)| !real.is_finite()) {
            let scalar = scalars.as_ref().and_then(|scalars| scalars.get(index));
            let saturating = scalar.filter(|scalar| scalar.overflow != Overflow::Wrap);
            let Some(scalar) = saturating.filter(|_| !real.is_nan()) else {
                let name = self.name.escape_debug();
                let message = format!("\"{name}\" holds {real}, for which the machine has no code");
                return Err(Diagnostic::invalid("Q0505", message));
            };
            *real = scalar.ends()[usize::from(*real > 0.0)];
        }
        Tensor::from_vec(tensor.shape(), reals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_graph::{Param, Quantiser};
    use quincunx_tensor::DType;

    fn port(grid: Grid, count: usize) -> Port {
        Port { name: "x".to_owned(), shape: vec![count], grid }
    }

    fn tensor(reals: &[f64]) -> Tensor {
        Tensor::from_vec(&[reals.len()], reals.to_vec()).unwrap()
    }

    #[test]
    fn numbers_more_than_a_step_beyond_the_range_are_clipped() {
        let port_of = |quantiser| port(Grid::Codes(quantiser), 4);
        let reals = tensor(&[-3.0, -2.5, 2.0, 2.25]);
        let clipped = port_of(Quantiser::symmetric(true, 3, 0.5)).clipped(&reals).unwrap();
        let text = "input x: 2 of 4 numbers lie beyond -2 to 1.5, as far as -3";
        assert_eq!(clipped.to_string(), text);
        assert_eq!(port_of(Quantiser::symmetric(true, 4, 0.5)).clipped(&reals), None);
        let scale = Param::new(&[4], vec![0.5, 0.5, 0.5, 0.25]).unwrap();
        let each = Quantiser { scale, ..Quantiser::symmetric(true, 3, 0.5) };
        let clipped = port_of(each).clipped(&reals).unwrap();
        assert_eq!((clipped.count, clipped.range), (2, None));
        assert_eq!(port(Grid::Real, 4).clipped(&reals), None);
        let infinite = port_of(Quantiser::symmetric(true, 3, 0.5)).clipped(&tensor(&[
            f64::INFINITY,
            0.0,
            0.0,
            9.0,
        ]));
        assert_eq!(infinite.map(|clipped| (clipped.count, clipped.largest)), Some((2, None)));
    }

    #[test]
    fn infinities_of_the_host_become_the_ends_where_there_are_some() {
        let infinities = tensor(&[f64::INFINITY, -f64::INFINITY, 0.25]);
        let codes = |overflow| {
            let overflow = Param::uniform(overflow);
            Grid::Codes(Quantiser { overflow, ..Quantiser::symmetric(true, 3, 0.5) })
        };
        let found = port(codes(Overflow::Saturate), 3).bounded(&infinities).unwrap();
        assert_eq!(found.to_f64(), [1.5, -2.0, 0.25]);
        for grid in [codes(Overflow::Wrap), Grid::Real] {
            assert_eq!(port(grid, 3).bounded(&infinities).unwrap_err().code(), "Q0505");
        }
        let float = port(Grid::Float(DType::F16), 3).bounded(&infinities).unwrap();
        assert_eq!(float.to_f64(), infinities.to_f64());
        let nan = port(codes(Overflow::Saturate), 1).bounded(&tensor(&[f64::NAN]));
        assert_eq!(nan.unwrap_err().code(), "Q0505");
    }

    #[test]
    fn images_add_up() {
        let one = |count, largest: f64| Clipped {
            what: "input x".to_owned(),
            count,
            of: Some(10),
            range: Some([-1.0, 1.0]),
            largest: Some(largest),
            first: None,
        };
        let mut all = vec![one(1, 3.0)];
        Clipped::gather(&mut all, &[one(2, -4.0)]);
        let other = Clipped { what: "results of y".to_owned(), first: Some(7), ..one(1, 2.0) };
        Clipped::gather(&mut all, std::slice::from_ref(&other));
        let texts: Vec<String> = all.iter().map(Clipped::to_string).collect();
        assert_eq!(texts[0], "input x: 3 of 20 numbers lie beyond -1 to 1, as far as -4");
        assert_eq!(all[1], other);
        assert_eq!(other.warning().code(), "Q0521");
    }
}
