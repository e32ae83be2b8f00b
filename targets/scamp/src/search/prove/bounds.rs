//! What the instructions that are left can do at most.

use super::deepen::{Candidate, Search, Way};
use super::forms::{Forms, Id};

/// What the goals ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// Most halvings of a goal.
    pub(super) halves: i32,
    /// Most cells of a goal.
    pub(super) cells: u32,
    /// Most sources of an instruction.
    pub(super) sources: usize,
    /// Most halvings of an instruction; 0 if sums halve as well, so that nothing is known.
    pub(super) step: u32,
}

impl Bounds {
    /// With the halvings and cells of goals.
    pub(super) fn new(forms: &Forms, halves: i32, cells: u32) -> Bounds {
        let of = |id: Id| forms.factors[usize::from(id)].halves;
        let unary = forms.outcomes.iter().flat_map(|outcome| outcome.factors.iter().copied());
        let binary = forms.binary.iter().flat_map(|binary| [binary.first, binary.second]);
        let mut sums = binary.chain(forms.ternary.iter().map(|ternary| ternary.factor));
        let step = match sums.any(|id| of(id) != 0) {
            true => 0,
            false => unary.map(of).max().unwrap_or(0).unsigned_abs(),
        };
        let sources = match (&forms.binary[..], &forms.ternary[..]) {
            (_, [_, ..]) => 3,
            ([_, ..], []) => 2,
            ([], []) => 1,
        };
        Bounds { halves, cells, sources, step }
    }

    /// Halvings that a form adds to those of its sources.
    pub(super) fn halves_of(&self, forms: &Forms, way: Way) -> i32 {
        let Way::Outcome(index) = way else { return 0 };
        let factors = forms.outcomes[usize::from(index)].factors.iter();
        factors.map(|&id| forms.factors[usize::from(id)].halves).max().unwrap_or(0)
    }

    /// `remaining` instructions after the candidate may make the goals, of which then so many are
    /// missing.
    ///
    /// * Each instruction makes one value with more halvings than all before by `step` at most.
    /// * A kernel has no more cells than its summands together.
    /// * In a shortest program every result is read, or is a goal: an instruction reads no more than
    ///   its sources, and its own result has to be read as well.
    pub(super) fn admit(
        &self,
        search: &Search<'_>,
        candidate: &Candidate,
        remaining: usize,
        missing: usize,
    ) -> bool {
        let halves = search.elements.iter().map(|e| e.halves).max().unwrap_or(0);
        let deficit = self.halves - halves.max(candidate.halves);
        let deficit = deficit.max(0).unsigned_abs();
        let halvings = if self.step == 0 { 0 } else { deficit.div_ceil(self.step) as usize };
        if halvings > remaining {
            return false;
        }
        let mut unread: u64 = 0;
        for (step, chosen) in search.steps.iter().enumerate() {
            unread |= u64::from(!chosen.used) << step;
        }
        for &source in candidate.made.sources() {
            if let Some(step) = search.elements[usize::from(source)].step {
                unread &= !(1 << step);
            }
        }
        let is_wanted = candidate.results.iter().any(|value| search.is_target(*value));
        let unread = unread.count_ones() as usize + usize::from(!is_wanted);
        let reads = self.sources * (remaining - halvings) + halvings;
        unread + remaining <= reads + missing.min(remaining)
            && self.grows(search, candidate, remaining, halvings)
    }

    /// Kernels can become as large as the goal.
    fn grows(
        &self,
        search: &Search<'_>,
        candidate: &Candidate,
        remaining: usize,
        halvings: usize,
    ) -> bool {
        let mut top = [0; 3];
        for element in &search.elements {
            insert(&mut top, element.cells);
        }
        for _ in &candidate.results {
            insert(&mut top, candidate.cells);
        }
        self.reach(search.forms, top, remaining - halvings, halvings) >= self.cells
    }

    /// The cells of the largest kernel after so many sums and halvings, in any order.
    fn reach(&self, forms: &Forms, top: [u32; 3], sums: usize, halvings: usize) -> u32 {
        if top[0] >= self.cells || sums == 0 {
            return top[0];
        }
        let [a, b, c] = top;
        let third = if forms.ternary.is_empty() { 0 } else { c };
        let mut sum = a.saturating_add(b).saturating_add(third);
        if forms.binary.iter().any(|form| form.takes_equals) {
            sum = sum.max(a.saturating_mul(2));
        }
        let twins = |count| {
            // Results of one instruction are different values.
            let mut top = top;
            (0..count).for_each(|_| insert(&mut top, a));
            top
        };
        let mut after = top;
        insert(&mut after, sum);
        let mut most = self.reach(forms, after, sums - 1, halvings);
        if halvings > 0 {
            most = most.max(self.reach(forms, twins(forms.most_results), sums, halvings - 1));
        }
        // Other instructions leave several values as well.
        if forms.most_results > 1 {
            most = most.max(self.reach(forms, twins(forms.most_results), sums - 1, halvings));
        }
        most
    }
}

fn insert(top: &mut [u32; 3], cells: u32) {
    let [a, b, c] = *top;
    *top = match () {
        () if cells > a => [cells, a, b],
        () if cells > b => [a, cells, b],
        () if cells > c => [a, b, cells],
        () => [a, b, c],
    };
}
