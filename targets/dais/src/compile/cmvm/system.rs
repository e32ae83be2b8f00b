//! Systems of sums, which all passes work on.
//!
//! Node `i` below `inputs` is an input, node `inputs + k` is the value of sum `k`, which adds
//! signed shifted nodes. A sum of `n` terms costs `n - 1` adders in whatever order they are added;
//! an empty sum is unused.

use super::{Adder, Output, Problem, Solution, digits};
use rustc_hash::FxHashMap;

/// `(-1 if negate) * node * 2^shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Term {
    pub(super) node: u32,
    pub(super) shift: i16,
    pub(super) negate: bool,
}

/// Sums that compute the columns of a matrix. No sum reads itself, directly or not.
#[derive(Clone, Debug)]
pub(super) struct System {
    pub(super) inputs: usize,
    pub(super) sums: Vec<Vec<Term>>,
    /// One per column; absent for zero.
    pub(super) outputs: Vec<Option<Term>>,
}

impl Term {
    /// The term times a power of two and perhaps -1.
    pub(super) fn scaled(self, shift: i16, negate: bool) -> Term {
        Term { node: self.node, shift: self.shift + shift, negate: self.negate != negate }
    }
}

impl System {
    /// Inputs alone.
    pub(super) fn of_inputs(inputs: usize) -> System {
        System { inputs, sums: Vec::new(), outputs: Vec::new() }
    }

    /// The sums of an adder graph, two terms each.
    pub(super) fn of_graph(inputs: usize, graph: &Solution) -> System {
        let term = |node: usize, shift: i32, negate| Term {
            node: node as u32,
            shift: shift as i16,
            negate,
        };
        let sum = |adder: &Adder| {
            vec![term(adder.a, 0, false), term(adder.b, adder.shift, adder.subtract)]
        };
        let sums = graph.adders.iter().map(sum).collect();
        let output = |output: &Output| term(output.node, output.shift, output.negate);
        let outputs = graph.outputs.iter().map(|place| place.as_ref().map(output)).collect();
        System { inputs, sums, outputs }
    }

    /// Adds the sums of another system, whose inputs are the given terms, absent ones being zero;
    /// its outputs.
    pub(super) fn apply(&mut self, part: &System, at: &[Option<Term>]) -> Vec<Option<Term>> {
        let mut made = at.to_vec();
        made.resize(part.inputs + part.sums.len(), None);
        let of = |made: &[Option<Term>], term: &Term| {
            made[term.node as usize].map(|there| there.scaled(term.shift, term.negate))
        };
        for sum in part.order() {
            let terms: Vec<Term> = part.sums[sum].iter().filter_map(|t| of(&made, t)).collect();
            made[part.inputs + sum] = match terms[..] {
                [] => None,
                [only] => Some(only),
                _ => {
                    self.sums.push(terms);
                    let node = self.node_of(self.sums.len() - 1);
                    Some(Term { node, shift: 0, negate: false })
                }
            };
        }
        part.outputs.iter().map(|output| of(&made, output.as_ref()?)).collect()
    }

    /// The same system among `inputs` inputs, of which its own are those in `rows`.
    pub(super) fn with_inputs(mut self, inputs: usize, rows: &[usize]) -> System {
        let own = self.inputs;
        let moved = |term: &mut Term| {
            let node = term.node as usize;
            term.node = if node < own { rows[node] } else { node - own + inputs } as u32;
        };
        self.sums.iter_mut().flatten().for_each(moved);
        self.outputs.iter_mut().flatten().for_each(moved);
        self.inputs = inputs;
        self
    }

    /// The sum that makes a node; none for an input.
    pub(super) fn sum_of(&self, node: u32) -> Option<usize> {
        (node as usize).checked_sub(self.inputs)
    }

    /// The node that a sum makes.
    pub(super) fn node_of(&self, sum: usize) -> u32 {
        (self.inputs + sum) as u32
    }

    /// The term behind sums of one term, which are only other names of it.
    pub(super) fn behind(&self, mut term: Term) -> Term {
        while let Some([only]) = self.sum_of(term.node).map(|sum| &self.sums[sum][..]) {
            term = only.scaled(term.shift, term.negate);
        }
        term
    }

    /// Number of adders.
    pub(super) fn cost(&self) -> usize {
        self.sums.iter().map(|terms| terms.len().saturating_sub(1)).sum()
    }

    /// Sums that outputs need, operands first.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order = Vec::new();
        let mut seen = vec![false; self.sums.len()];
        let mut stack: Vec<(usize, usize)> = Vec::new();
        for output in self.outputs.iter().flatten() {
            stack.extend(self.sum_of(output.node).map(|sum| (sum, 0)));
            while let Some((sum, at)) = stack.pop() {
                if at == 0 && std::mem::replace(&mut seen[sum], true) {
                    continue;
                }
                let Some(term) = self.sums[sum].get(at) else {
                    order.push(sum);
                    continue;
                };
                stack.push((sum, at + 1));
                stack.extend(self.sum_of(term.node).filter(|&s| !seen[s]).map(|s| (s, 0)));
            }
        }
        order
    }

    /// The system with every edge turned around, which computes the transposed matrix: what a
    /// node reads becomes what reads it, outputs become inputs.
    ///
    /// Every node is a sum over its readers then; the numbers of adders differ by the difference
    /// of the numbers of inputs and outputs that are used.
    pub(super) fn transposed(&self) -> System {
        let inputs = self.outputs.len();
        // Sum `n` of the new system belongs to node `n` of the old one.
        let mut sums: Vec<Vec<Term>> = vec![Vec::new(); self.inputs + self.sums.len()];
        for (column, output) in self.outputs.iter().enumerate() {
            if let &Some(Term { node, shift, negate }) = output {
                sums[node as usize].push(Term { node: column as u32, shift, negate });
            }
        }
        for sum in self.order() {
            let reader = (inputs + self.inputs + sum) as u32;
            for &Term { node, shift, negate } in &self.sums[sum] {
                sums[node as usize].push(Term { node: reader, shift, negate });
            }
        }
        let output = |row: usize| {
            let node = (inputs + row) as u32;
            (!sums[row].is_empty()).then_some(Term { node, shift: 0, negate: false })
        };
        let outputs = (0..self.inputs).map(output).collect();
        System { inputs, sums, outputs }
    }
}

/// Every column as the sum of the signed digits of its weights. Columns that are multiples of
/// others by a power of two are computed once.
pub(super) fn of_digits(problem: &Problem) -> (System, Vec<Vec<i64>>) {
    let inputs = problem.inputs().len();
    let mut system = System { inputs, sums: Vec::new(), outputs: Vec::new() };
    let mut forms: Vec<Vec<i64>> = Vec::new();
    let mut known: FxHashMap<Vec<i64>, usize> = FxHashMap::default();
    for column in 0..problem.columns() {
        let weights: Vec<i64> = (0..inputs).map(|row| problem.weight(row, column)).collect();
        let Some(first) = weights.iter().find(|&&w| w != 0) else {
            system.outputs.push(None);
            continue;
        };
        let shift = weights.iter().fold(0, |all, w| all | w).trailing_zeros();
        let negate = *first < 0;
        let sign = if negate { -1 } else { 1 };
        let odd: Vec<i64> = weights.iter().map(|w| (w >> shift) * sign).collect();
        let sum = known.get(&odd).copied().unwrap_or_else(|| {
            system.sums.push(terms_of(&odd));
            known.insert(odd.clone(), forms.len());
            forms.push(odd);
            forms.len() - 1
        });
        let node = system.node_of(sum);
        system.outputs.push(Some(Term { node, shift: shift as i16, negate }));
    }
    (system, forms)
}

/// The digits of a linear form.
pub(super) fn terms_of(weights: &[i64]) -> Vec<Term> {
    let digits = |(row, &weight): (usize, &i64)| {
        let term = move |(shift, negate)| Term { node: row as u32, shift: shift as i16, negate };
        digits::canonical(weight).map(term)
    };
    weights.iter().enumerate().flat_map(digits).collect()
}
