//! The fewest adders of single constants, several constants of one input, and tiny matrices.

use super::deepen::Search;
use super::digits;
use super::forms::{Form, Set};
use super::prove::prove;
use super::random::Random;
use super::state::State;
use super::system::{System, Term, of_digits};
use super::trees;
use super::wiring::wire;
use super::{Effort, Input, Objective, Problem, Solution, better};

/// Most inputs on the side that has fewer of them than outputs.
const MOST_INPUTS: usize = 4;

/// Most factors of inputs in different outputs.
const MOST_FACTORS: usize = 64;

/// Bits of weights that are tried.
const MOST_BITS: u32 = 26;

/// Most weights of a matrix whose least adders are counted.
const MOST_COUNTED: usize = 1 << 16;

/// What is known of the fewest adders of a problem.
pub(super) struct Exact {
    /// The best solution that was found.
    pub(super) solution: Option<Solution>,
    /// No solution has fewer adders.
    pub(super) least: usize,
}

/// How long to look.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// Steps.
    tries: u64,
    /// Most inputs on the side that has fewer of them.
    inputs: usize,
}

impl Budget {
    /// That of an effort; the least is for products of one input only, which take little time.
    pub(super) fn new(effort: Effort) -> Budget {
        match effort {
            Effort::Quick => Budget { tries: 1 << 12, inputs: 1 },
            Effort::Fast => Budget { tries: 1 << 18, inputs: MOST_INPUTS },
            Effort::Default => Budget { tries: 1 << 22, inputs: MOST_INPUTS },
            Effort::Max => Budget { tries: 1 << 27, inputs: MOST_INPUTS },
        }
    }
}

/// Looks for the fewest adders, with outputs of `limit` levels at most.
pub(super) fn solve(
    problem: &Problem,
    limit: Option<u32>,
    Budget { tries, inputs }: Budget,
    objective: Objective,
) -> Exact {
    let rows = problem.used_rows();
    let none = Exact { solution: None, least: 0 };
    if rows.is_empty() || problem.weights.len() > MOST_COUNTED {
        return none;
    }
    let used = problem.with_rows(&rows);
    let (straight, forms) = of_digits(&used);
    let side = Side::new(problem, &rows, &used, straight, &forms);
    let least = side.least;
    let judge = Judge { side: &side, limit, objective, best: None };
    let factors = side.forms.len() * side.inputs.len();
    let most = side.forms.iter().flatten().map(|weight| weight.unsigned_abs()).max().unwrap_or(0);
    if factors > MOST_FACTORS || most >= 1 << MOST_BITS || side.inputs.len() > inputs {
        return Exact { least, ..none };
    }
    match side.inputs.len() {
        1 => judge.search::<1>(tries),
        2 => judge.search::<2>(tries),
        3..=MOST_INPUTS => judge.search::<MOST_INPUTS>(tries),
        _ => Exact { least, ..none },
    }
}

/// The matrix or its transpose, whichever has fewer inputs: different outputs of one have to be
/// made in any case, so that less is open.
struct Side<'a> {
    problem: &'a Problem,
    /// The rows of the problem that are used.
    rows: &'a [usize],
    inputs: Vec<Input>,
    /// Different columns, odd.
    forms: Vec<Vec<i64>>,
    /// Digits of the columns, with the outputs of this side.
    system: System,
    /// Of the transpose, the digits of the matrix.
    turned: Option<System>,
    least: usize,
}

impl<'a> Side<'a> {
    fn new(
        problem: &'a Problem,
        rows: &'a [usize],
        used: &Problem,
        straight: System,
        forms: &[Vec<i64>],
    ) -> Side<'a> {
        let (inputs, columns) = (rows.len(), forms.len());
        let flat = (0..inputs).flat_map(|row| forms.iter().map(move |form| form[row]));
        let dense =
            Problem { inputs: used.inputs.clone(), columns, weights: flat.collect() }.transposed();
        let (other, other_forms) = of_digits(&dense);
        let least = least(forms).max((least(&other_forms) + inputs).saturating_sub(columns));
        let is_turned = inputs > columns;
        let (inputs, forms, system, turned) = match is_turned {
            true => (dense.inputs, other_forms, other, Some(straight)),
            false => (used.inputs.clone(), forms.to_vec(), straight, None),
        };
        Side { problem, rows, inputs, forms, system, turned, least }
    }

    /// Adders of the matrix for those of this side.
    fn adders(&self, adders: usize) -> usize {
        match self.turned {
            Some(_) => (adders + self.system.outputs.len()).saturating_sub(self.inputs.len()),
            None => adders,
        }
    }

    /// A system for the problem from sums for the forms of this side.
    fn finish(&self, sums: Vec<Vec<Term>>, nodes: &[usize]) -> System {
        let inputs = self.inputs.len();
        let output = |term: &Term| match self.system.sum_of(term.node) {
            Some(target) => Term { node: nodes[target] as u32, ..*term },
            None => *term,
        };
        let outputs = self.system.outputs.iter().map(|term| term.as_ref().map(output)).collect();
        let system = System { inputs, sums, outputs };
        let system = match &self.turned {
            None => system,
            Some(straight) => {
                let turned = system.transposed();
                let output = |term: &Term| {
                    let column = straight.sum_of(term.node)?;
                    turned.outputs[column].map(|there| there.scaled(term.shift, term.negate))
                };
                let outputs = straight.outputs.iter().map(|term| output(term.as_ref()?)).collect();
                let system = System { outputs, ..turned };
                // The state puts sums that are read once into their readers.
                let inputs: Vec<Input> =
                    self.rows.iter().map(|&row| self.problem.inputs[row]).collect();
                State::new(&system, &inputs, None).system()
            }
        };
        system.with_inputs(self.problem.inputs.len(), self.rows)
    }
}

/// Adders that columns need at least: one for each that is not an input; as many as double one digit
/// to those of a column; one less than a column has inputs.
fn least(forms: &[Vec<i64>]) -> usize {
    let used = |form: &&Vec<i64>| form.iter().filter(|&&weight| weight != 0).count();
    let digits = |form: &Vec<i64>| form.iter().map(|&w| digits::count(w)).sum::<u32>();
    let doublings = |form: &Vec<i64>| digits(form).next_power_of_two().trailing_zeros() as usize;
    let made = forms.iter().filter(|form| digits(form) > 1).count();
    let longest = forms.iter().map(|form| doublings(form).max(used(&form) - 1)).max();
    made.max(longest.unwrap_or(0))
}

/// Keeps the best solution.
struct Judge<'a> {
    side: &'a Side<'a>,
    limit: Option<u32>,
    objective: Objective,
    best: Option<Solution>,
}

impl Judge<'_> {
    fn search<const N: usize>(mut self, tries: u64) -> Exact {
        let (side, least) = (self.side, self.side.least);
        let form = |form: &Vec<i64>| -> Form<N> {
            std::array::from_fn(|at| form.get(at).map_or(0, |&weight| weight as i32))
        };
        let targets: Vec<Form<N>> = side.forms.iter().map(form).collect();
        let most = side.forms.iter().flatten().map(|weight| weight.unsigned_abs()).max();
        let most = most.unwrap_or(1) as u32;
        // The power of two above twice the largest factor.
        let bound = 2 * (most + 1).next_power_of_two() as i32;
        let inputs = side.inputs.len();
        let set = Set::new(inputs, targets.clone(), bound);
        let digits: u32 = side.forms.iter().flatten().map(|&w| digits::count(w)).sum();
        let most = digits as usize;
        let mut judge = |nodes: &[Form<N>]| self.take(nodes, &targets, bound);
        let mut search = Search::new(set, &mut judge);
        // On the side of the transpose adders of the matrix are others.
        let start = (0..=most).find(|&adders| side.adders(adders) >= least).unwrap_or(0);
        // Of a single form no choice at random is better than the next one in order.
        let share = if targets.len() == 1 { tries } else { tries / 2 };
        let tried = search.exhaust(start, most + 1, share);
        if !search.is_settled() {
            search.climb(most, tries - share, &mut Random::new(1));
        }
        let least = least.max(side.adders(tried));
        Exact { solution: self.best, least }
    }

    /// Whether a set is in time; the best one is kept.
    fn take<const N: usize>(&mut self, nodes: &[Form<N>], targets: &[Form<N>], bound: i32) -> bool {
        let place = |target: &Form<N>| nodes.iter().position(|node| node == target);
        let Some(places) = targets.iter().map(place).collect::<Option<Vec<usize>>>() else {
            return false;
        };
        for early in [false, true] {
            let sums = wire(nodes, &self.side.inputs, bound, early);
            let system = self.side.finish(sums, &places);
            let (adders, outputs) =
                trees::adders(self.side.problem, &system, self.limit, Effort::Default);
            let Ok(found) = prove(self.side.problem, adders, &outputs) else { continue };
            if self.limit.is_none_or(|limit| found.depth <= limit) {
                let best = self.best.take();
                self.best = better(self.objective, best, Some(found));
                return true;
            }
        }
        false
    }
}
