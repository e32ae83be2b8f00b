//! Expressions as loops over f64, with an exact twin for single elements.

use super::super::data::{Data, Integer, Ints, Layout, with_ints};
use super::super::field::{Field, Spread, follows_inner};
use super::super::value::{Expr, GridValue};
use super::bounds::Bound;
use quincunx_diag::Result;
use quincunx_num::{Int, Level, Loop, Ratio};
use std::sync::Arc;

/// Elements that are evaluated at a time: few enough for the first-level cache.
pub(super) const CHUNK: usize = 512;

/// Constants in the order in which elements meet them.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    pub(super) spread: Spread,
    /// Of [`Spread::Inner`], one round and a chunk more, so that a chunk can start anywhere.
    reals: Vec<f64>,
    exact: Vec<Ratio>,
    pub(super) bound: Bound,
}

impl Numbers {
    pub(super) fn new(field: &Field, shape: &[usize], layout: Layout) -> Option<Self> {
        let (spread, exact) = field.spread(shape, layout)?;
        let bound = Bound::of(&exact)?;
        let mut reals: Vec<f64> = exact.iter().map(|value| value.to_f64().value()).collect();
        if spread == Spread::Inner {
            repeat(&mut reals);
        }
        Some(Numbers { spread, reals, exact, bound })
    }

    /// The numbers of the elements from `start` on.
    #[inline]
    fn at(&self, start: usize, count: usize) -> Reals<'_> {
        match self.spread {
            Spread::Uniform => Reals::One(self.reals[0]),
            Spread::Inner => Reals::Each(&self.reals[start % self.exact.len()..][..count]),
            Spread::Full => Reals::Each(&self.reals[start..][..count]),
        }
    }

    /// Calls `function(element, number)` for the elements from `start` on.
    #[inline]
    pub(super) fn zip(
        &self,
        level: Level,
        start: usize,
        values: &mut [f64],
        function: impl Fn(&mut f64, f64),
    ) {
        let numbers = self.at(start, values.len());
        level.run(Zip { values, numbers, function });
    }

    pub(super) fn exact(&self, index: usize) -> &Ratio {
        match self.spread {
            Spread::Uniform => &self.exact[0],
            Spread::Inner => &self.exact[index % self.exact.len()],
            Spread::Full => &self.exact[index],
        }
    }

    pub(super) fn exact_values(&self) -> &[Ratio] {
        &self.exact
    }
}

enum Reals<'a> {
    One(f64),
    Each(&'a [f64]),
}

/// A function of elements and numbers.
struct Zip<'a, F> {
    values: &'a mut [f64],
    numbers: Reals<'a>,
    function: F,
}

impl<F: Fn(&mut f64, f64)> Loop for Zip<'_, F> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        match self.numbers {
            Reals::One(number) => self.values.iter_mut().for_each(|v| (self.function)(v, number)),
            Reals::Each(numbers) => {
                let pairs = self.values.iter_mut().zip(numbers);
                pairs.for_each(|(v, number)| (self.function)(v, *number));
            }
        }
    }
}

/// Integers become f64.
struct Read<'a, T> {
    from: &'a [T],
    to: &'a mut [f64],
}

impl<T: Integer> Loop for Read<'_, T> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        self.to.iter_mut().zip(self.from).for_each(|(to, from)| *to = from.real());
    }
}

fn repeat(round: &mut Vec<f64>) {
    let count = round.len();
    for index in 0..CHUNK {
        round.push(round[index % count]);
    }
}

#[derive(Debug)]
struct Leaf {
    spread: Spread,
    zero: Numbers,
    unit: Numbers,
}

#[derive(Debug)]
enum Code {
    Leaf(usize),
    Const(Numbers),
    Sum(Box<Code>, Box<Code>),
    Product(Box<Code>, Box<Code>),
    Larger(Box<Code>, Box<Code>),
    Smaller(Box<Code>, Box<Code>),
    Sloped(Box<Code>, Numbers),
    Magnitude(Box<Code>),
}

/// An expression that is ready to be evaluated in one layout.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) layout: Layout,
    pub(super) elements: usize,
    pub(super) bound: Bound,
    leaves: Vec<Leaf>,
    code: Code,
}

impl Program {
    /// The program of an expression whose result has this shape; `None` when operands broadcast in
    /// a way it does not know, or numbers are out of the range of f64.
    pub(super) fn new(expr: &Expr, shape: &[usize]) -> Option<Self> {
        let layout = expr.layout();
        if layout == Layout::Last && shape.len() < 3 {
            return None;
        }
        let mut leaves = Vec::new();
        let (code, bound) = compile(expr, shape, layout, &mut leaves)?;
        Some(Program { layout, elements: shape.iter().product(), bound, leaves, code })
    }

    /// Brings the integers of the leaves, in the order of [`Expr::leaves`], together with the
    /// program.
    pub(super) fn bind<'a>(&'a self, data: &'a [Arc<Data>]) -> Result<Evaluation<'a>> {
        let ints = data.iter().map(|data| data.ints()).collect::<Result<Vec<_>>>()?;
        let level = Level::best();
        let small = |(leaf, ints): (&Leaf, &&Ints)| {
            if leaf.spread == Spread::Full {
                return Vec::new();
            }
            let mut reals = vec![0.0; with_ints!(ints, values => values.len())];
            leaf.load(level, ints, 0, &mut reals);
            if leaf.spread == Spread::Inner {
                repeat(&mut reals);
            }
            reals
        };
        let broadcast = self.leaves.iter().zip(&ints).map(small).collect();
        Ok(Evaluation { program: self, level, ints, broadcast })
    }
}

fn compile(
    expr: &Expr,
    shape: &[usize],
    layout: Layout,
    leaves: &mut Vec<Leaf>,
) -> Option<(Code, Bound)> {
    let mut pair = |a: &Expr, b: &Expr| {
        let (a, a_bound) = compile(a, shape, layout, leaves)?;
        let (b, b_bound) = compile(b, shape, layout, leaves)?;
        Some((Box::new(a), Box::new(b), a_bound, b_bound))
    };
    let (code, bound) = match expr {
        Expr::Leaf(grid) => {
            let (leaf, bound) = leaf(grid, shape, layout)?;
            leaves.push(leaf);
            (Code::Leaf(leaves.len() - 1), bound)
        }
        Expr::Const(field) => {
            let numbers = Numbers::new(field, shape, layout)?;
            let bound = numbers.bound;
            (Code::Const(numbers), bound)
        }
        Expr::Sum(a, b) => {
            let (a, b, x, y) = pair(a, b)?;
            (Code::Sum(a, b), x.sum(y))
        }
        Expr::Product(a, b) => {
            let (a, b, x, y) = pair(a, b)?;
            (Code::Product(a, b), x.product(y))
        }
        Expr::Larger(a, b) => {
            let (a, b, x, y) = pair(a, b)?;
            (Code::Larger(a, b), x.either(y))
        }
        Expr::Smaller(a, b) => {
            let (a, b, x, y) = pair(a, b)?;
            (Code::Smaller(a, b), x.either(y))
        }
        Expr::Sloped(a, slope) => {
            let (a, bound) = compile(a, shape, layout, leaves)?;
            let slope = Numbers::new(slope, shape, layout)?;
            let bound = bound.sloped(slope.bound);
            (Code::Sloped(Box::new(a), slope), bound)
        }
        Expr::Magnitude(a) => {
            let (a, bound) = compile(a, shape, layout, leaves)?;
            (Code::Magnitude(Box::new(a)), bound)
        }
    };
    bound.is_sound().then_some((code, bound))
}

fn leaf(grid: &GridValue, shape: &[usize], layout: Layout) -> Option<(Leaf, Bound)> {
    let (spread, own_shape, own_layout) = if grid.shape[..] == *shape {
        (Spread::Full, shape, layout)
    } else if grid.shape.iter().product::<usize>() == 1 {
        (Spread::Uniform, &grid.shape[..], Layout::Rows)
    } else if follows_inner(&grid.shape, shape, layout) {
        (Spread::Inner, &grid.shape[..], Layout::Rows)
    } else {
        return None;
    };
    let numbers = |field: &Field| Numbers::new(field, own_shape, own_layout);
    let (zero, unit) = (numbers(&grid.zero)?, numbers(&grid.unit)?);
    let zeros = zero.exact.iter().map(|zero| zero.to_f64().value());
    let (least, most) = zeros.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
    // Integers beyond 53 bits would be rounded when they are read.
    let limit = 1_i64 << 52;
    if grid.low < -limit || grid.high > limit || least.abs().max(most.abs()) > limit as f64 {
        return None;
    }
    let centred = Bound::of_integers(grid.low as f64 - most, grid.high as f64 - least);
    let bound = centred.product(unit.bound);
    Some((Leaf { spread, zero, unit }, bound))
}

impl Leaf {
    fn load(&self, level: Level, ints: &Ints, start: usize, out: &mut [f64]) {
        let count = out.len();
        with_ints!(ints, values => {
            level.run(Read { from: &values[start..][..count], to: out });
        });
        if self.zero.reals != [0.0] {
            self.zero.zip(level, start, out, |v, zero| *v -= zero);
        }
        self.unit.zip(level, start, out, |v, unit| *v *= unit);
    }
}

/// A program with the integers of one run.
pub(super) struct Evaluation<'a> {
    program: &'a Program,
    pub(super) level: Level,
    ints: Vec<&'a Ints>,
    broadcast: Vec<Vec<f64>>,
}

impl Evaluation<'_> {
    /// Computes the elements from `start` on; at most [`CHUNK`].
    pub(super) fn evaluate(&self, start: usize, out: &mut [f64]) {
        self.code(&self.program.code, start, out);
    }

    fn code(&self, code: &Code, start: usize, out: &mut [f64]) {
        match code {
            Code::Leaf(index) => self.leaf(*index, start, out),
            Code::Const(numbers) => numbers.zip(self.level, start, out, |v, number| *v = number),
            Code::Sum(a, b) => self.pair(a, b, start, out, |a, b| *a += b),
            Code::Product(a, b) => self.pair(a, b, start, out, |a, b| *a *= b),
            Code::Larger(a, b) => {
                self.pair(a, b, start, out, |a, b| *a = if *a < b { b } else { *a });
            }
            Code::Smaller(a, b) => {
                self.pair(a, b, start, out, |a, b| *a = if *a > b { b } else { *a });
            }
            Code::Sloped(a, slope) => {
                self.code(a, start, out);
                let sloped = |v: &mut f64, slope| *v = if *v < 0.0 { *v * slope } else { *v };
                slope.zip(self.level, start, out, sloped);
            }
            Code::Magnitude(a) => {
                self.code(a, start, out);
                out.iter_mut().for_each(|v| *v = v.abs());
            }
        }
    }

    #[inline]
    fn pair(
        &self,
        a: &Code,
        b: &Code,
        start: usize,
        out: &mut [f64],
        function: impl Fn(&mut f64, f64),
    ) {
        self.code(a, start, out);
        if let Code::Const(numbers) = b {
            return numbers.zip(self.level, start, out, function);
        }
        let mut other = [0.0; CHUNK];
        let other = &mut other[..out.len()];
        self.code(b, start, other);
        self.level.run(Zip { values: out, numbers: Reals::Each(other), function });
    }

    fn leaf(&self, index: usize, start: usize, out: &mut [f64]) {
        let (leaf, reals) = (&self.program.leaves[index], &self.broadcast[index]);
        match leaf.spread {
            Spread::Full => leaf.load(self.level, self.ints[index], start, out),
            Spread::Uniform => out.fill(reals[0]),
            Spread::Inner => {
                let round = reals.len() - CHUNK;
                out.copy_from_slice(&reals[start % round..][..out.len()]);
            }
        }
    }

    /// One element, exactly.
    pub(super) fn exact(&self, index: usize) -> Ratio {
        self.exact_code(&self.program.code, index)
    }

    fn exact_code(&self, code: &Code, index: usize) -> Ratio {
        let of = |code: &Code| self.exact_code(code, index);
        match code {
            Code::Leaf(leaf) => self.exact_leaf(*leaf, index),
            Code::Const(numbers) => numbers.exact(index).clone(),
            Code::Sum(a, b) => of(a) + of(b),
            Code::Product(a, b) => of(a) * of(b),
            Code::Larger(a, b) => of(a).max(of(b)),
            Code::Smaller(a, b) => of(a).min(of(b)),
            Code::Sloped(a, slope) => {
                let value = of(a);
                if value < Ratio::ZERO { value * slope.exact(index) } else { value }
            }
            Code::Magnitude(a) => {
                let value = of(a);
                if value < Ratio::ZERO { -value } else { value }
            }
        }
    }

    fn exact_leaf(&self, leaf: usize, index: usize) -> Ratio {
        let ints = self.ints[leaf];
        let leaf = &self.program.leaves[leaf];
        let place = match leaf.spread {
            Spread::Full => index,
            Spread::Uniform => 0,
            Spread::Inner => index % with_ints!(ints, values => values.len()),
        };
        let integer = Ratio::from(Int::from(ints.get(place)));
        (integer - leaf.zero.exact(place)) * leaf.unit.exact(place)
    }
}
