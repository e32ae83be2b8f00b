//! Sets of odd linear forms, and what one more adder makes of them.
//!
//! A form stands for all its multiples by powers of two and -1: at least one of its factors is odd,
//! and the first that is not zero is positive. An adder makes `±a * 2^i ± b * 2^j` of two forms, and
//! the form of that. Of the two shifts the lower one can be 0. Where both are, the sum may be
//! even, and the form is the sum shifted right.
//!
//! So three forms are made of each other by one adder if `±a * 2^i ± b * 2^j ± c * 2^k = 0`, which is
//! the same for all three: `c` is made of `a` and of whatever an adder makes of `a` and `c`.

/// The factors of the inputs.
pub(super) type Form<const N: usize> = [i32; N];

/// An adder: the shifts and signs of its two operands. Both are shifted right where the
/// sum is even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) shifts: [i16; 2],
    pub(super) negate: [bool; 2],
}

/// The form of a sum, how far it is shifted right, and whether it is negated; none of zero.
#[inline]
fn odd<const N: usize>(sum: Form<N>) -> Option<(Form<N>, u32, bool)> {
    let first = *sum.iter().find(|&&factor| factor != 0)?;
    let zeros = sum.iter().fold(0, |all, factor| all | factor).trailing_zeros();
    let negate = first < 0;
    let sign = if negate { -1 } else { 1 };
    Some((sum.map(|factor| (factor >> zeros) * sign), zeros, negate))
}

#[inline]
fn largest<const N: usize>(form: &Form<N>) -> i32 {
    form.iter().fold(0, |most, factor| most.max(factor.abs()))
}

/// Every form with factors below `bound` that one adder makes of two; some several times.
#[inline]
pub(super) fn sums<const N: usize>(
    a: &Form<N>,
    b: &Form<N>,
    bound: i32,
    mut found: impl FnMut(Form<N>, Step),
) {
    let mut emit = |a: Form<N>, b: Form<N>, shifts: [i16; 2]| {
        for minus in [false, true] {
            let sum = std::array::from_fn(|i| if minus { a[i] - b[i] } else { a[i] + b[i] });
            if let Some((form, right, negate)) = odd(sum)
                && largest(&form) < bound
            {
                let shifts = shifts.map(|shift| shift - right as i16);
                found(form, Step { shifts, negate: [negate, negate != minus] });
            }
        }
    };
    emit(*a, *b, [0, 0]);
    // A sum below the bound has no term of twice as much.
    let doubled = |form: Form<N>| {
        let next = form.map(|factor| factor * 2);
        (largest(&next) <= 2 * bound).then_some(next)
    };
    let (mut left, mut shift) = (*a, 0);
    while let Some(next) = doubled(left) {
        (left, shift) = (next, shift + 1);
        emit(left, *b, [shift, 0]);
    }
    if a == b {
        return;
    }
    let (mut right, mut shift) = (*b, 0);
    while let Some(next) = doubled(right) {
        (right, shift) = (next, shift + 1);
        emit(*a, right, [0, shift]);
    }
}

/// Forms of which one adder makes `form` by adding them to themselves: `form / (2^k ± 1)`.
fn halves<const N: usize>(form: &Form<N>, mut found: impl FnMut(Form<N>)) {
    let most = largest(form);
    let mut power = 2;
    while power - 1 <= most {
        for by in [power - 1, power + 1] {
            if by > 1 && form.iter().all(|factor| factor % by == 0) {
                found(form.map(|factor| factor / by));
            }
        }
        power *= 2;
    }
}

const EMPTY: u32 = u32::MAX;

/// Forms in the order in which they came, the last of which can be taken out again.
struct List<const N: usize> {
    forms: Vec<Form<N>>,
    /// The slot of every form.
    slots: Vec<u32>,
    /// Open addressing.
    table: Vec<(Form<N>, u32)>,
}

impl<const N: usize> List<N> {
    fn new() -> List<N> {
        List { forms: Vec::new(), slots: Vec::new(), table: vec![([0; N], EMPTY); 1 << 10] }
    }

    /// The slot of a form, or where it would go.
    #[inline]
    fn slot(&self, form: &Form<N>) -> usize {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |hash: u64, factor: &i32| (hash ^ *factor as u32 as u64).wrapping_mul(FACTOR);
        let mask = self.table.len() - 1;
        let mut slot = (form.iter().fold(0, mix) >> 32) as usize & mask;
        while self.table[slot].1 != EMPTY && self.table[slot].0 != *form {
            slot = (slot + 1) & mask;
        }
        slot
    }

    #[inline]
    fn place(&self, form: &Form<N>) -> Option<usize> {
        let place = self.table[self.slot(form)].1;
        (place != EMPTY).then_some(place as usize)
    }

    #[inline]
    fn insert(&mut self, form: Form<N>) {
        let slot = self.slot(&form);
        if self.table[slot].1 == EMPTY {
            self.table[slot] = (form, self.forms.len() as u32);
            self.forms.push(form);
            self.slots.push(slot as u32);
            if self.forms.len() * 4 > self.table.len() {
                self.grow();
            }
        }
    }

    fn grow(&mut self) {
        self.table = vec![([0; N], EMPTY); self.table.len() * 4];
        for place in 0..self.forms.len() {
            let slot = self.slot(&self.forms[place]);
            self.table[slot] = (self.forms[place], place as u32);
            self.slots[place] = slot as u32;
        }
    }

    fn truncate(&mut self, len: usize) {
        // What came last is at the end of every run of slots.
        for slot in self.slots.drain(len..) {
            self.table[slot as usize].1 = EMPTY;
        }
        self.forms.truncate(len);
    }
}

/// Forms that are made, and what one more adder can make of them.
pub(super) struct Set<const N: usize> {
    /// Factors lie below this.
    bound: i32,
    /// The inputs, then what is made, operands first.
    nodes: Vec<Form<N>>,
    /// The inputs, and all that one adder makes of nodes.
    near: List<N>,
    targets: Vec<Form<N>>,
    /// Sums that may still be looked at.
    pub(super) tries: u64,
}

/// A state to go back to.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    nodes: usize,
    near: usize,
}

impl<const N: usize> Set<N> {
    /// The inputs.
    pub(super) fn new(inputs: usize, targets: Vec<Form<N>>, bound: i32) -> Set<N> {
        let near = List::new();
        let mut set = Set { bound, nodes: Vec::new(), near, targets, tries: u64::MAX };
        for input in 0..inputs {
            let unit = std::array::from_fn(|i| i32::from(i == input));
            set.near.insert(unit);
            set.make(unit);
        }
        set
    }

    pub(super) fn nodes(&self) -> &[Form<N>] {
        &self.nodes
    }

    /// Targets that are not made yet.
    pub(super) fn missing(&self) -> usize {
        self.targets.iter().filter(|target| !self.nodes.contains(target)).count()
    }

    /// Number of forms that are an input or an adder away.
    pub(super) fn near(&self) -> usize {
        self.near.forms.len()
    }

    /// The form in a place of those, unless it is made.
    pub(super) fn candidate(&self, place: usize) -> Option<Form<N>> {
        let form = self.near.forms[place];
        (!self.nodes.contains(&form)).then_some(form)
    }

    /// The place of a form that is an adder away.
    pub(super) fn place(&self, form: &Form<N>) -> Option<usize> {
        self.near.place(form)
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { nodes: self.nodes.len(), near: self.near.forms.len() }
    }

    pub(super) fn undo(&mut self, mark: Mark) {
        self.nodes.truncate(mark.nodes);
        self.near.truncate(mark.near);
    }

    /// Makes a form that is an adder away.
    pub(super) fn make(&mut self, form: Form<N>) {
        self.nodes.push(form);
        let mut count = 0;
        for node in &self.nodes {
            sums(&form, node, self.bound, |sum, _| {
                count += 1;
                self.near.insert(sum);
            });
        }
        self.tries = self.tries.saturating_sub(count);
    }

    /// Makes all targets that are an adder away. They have to be made, and one adder is the least
    /// it takes.
    pub(super) fn make_targets(&mut self) {
        let near = |set: &Set<N>| {
            let is_near =
                |target: &&Form<N>| set.near.place(target).is_some() && !set.nodes.contains(target);
            set.targets.iter().find(is_near).copied()
        };
        while let Some(target) = near(self) {
            self.make(target);
        }
    }

    /// The places, at least `from`, of the forms which bring a target from two adders away to one;
    /// once for every such target.
    pub(super) fn bridges(&mut self, from: usize) -> Vec<usize> {
        let mut all = Vec::new();
        let mut count = 0;
        for target in self.targets.iter().filter(|target| !self.nodes.contains(target)) {
            let before = all.len();
            let mut look = |form: Form<N>| {
                count += 1;
                let place = self.near.place(&form);
                all.extend(place.filter(|&p| p >= from && !self.nodes.contains(&form)));
            };
            for node in &self.nodes {
                sums(target, node, self.bound, |form, _| look(form));
            }
            halves(target, &mut look);
            all[before..].sort_unstable();
            let mut kept = before;
            for at in before..all.len() {
                if kept == before || all[kept - 1] != all[at] {
                    all[kept] = all[at];
                    kept += 1;
                }
            }
            all.truncate(kept);
        }
        self.tries = self.tries.saturating_sub(count);
        all
    }
}
