//! Tiny problems: the fewest adders, by trying.
//!
//! Adders are `±a * 2^i ± b * 2^j`; results are never shifted right.

use super::system::{System, Term};

/// Most inputs, and most different outputs, of a problem that is tried.
const MOST_ENDS: usize = 4;

/// Bits of weights that are tried; longer ones need more adders than can be tried.
const MOST_BITS: u32 = 14;

/// Most adders that are tried.
const MOST_ADDERS: usize = 6;

/// The factors of the inputs in a sum.
type Form = [i64; MOST_ENDS];

/// A number that is made of two earlier ones, `±a * 2^i ± b * 2^j`.
type Step = [(usize, u16, bool); 2];

/// The system with the fewest adders if those are fewer than `below`, `forms` being what its sums
/// are; `None` if there is none, if the problem is not tiny, or if `tries` adders do not suffice.
pub(super) fn fewer(
    system: &System,
    forms: &[Vec<i64>],
    below: usize,
    tries: u64,
) -> Option<System> {
    let is_used = |&row: &usize| forms.iter().any(|form| form[row] != 0);
    let rows: Vec<usize> = (0..system.inputs).filter(is_used).take(MOST_ENDS + 1).collect();
    if rows.is_empty() || rows.len() > MOST_ENDS || forms.len() > MOST_ENDS {
        return None;
    }
    let most = forms.iter().flatten().map(|weight| weight.unsigned_abs()).max()?;
    if most >= 1 << MOST_BITS || below > MOST_ADDERS + 1 {
        return None;
    }
    let target = |form: &Vec<i64>| {
        let mut target = Form::default();
        target.iter_mut().zip(&rows).for_each(|(factor, &row)| *factor = form[row]);
        target
    };
    let targets: Vec<Form> = forms.iter().map(target).collect();
    let mut trial = Trial::new(rows.len(), targets, most, tries);
    let enough = (trial.least()..below).find(|&adders| trial.reach(adders, (0, 0, 0)));
    enough.map(|_| trial.system(system, &rows))
}

/// True when every output is a multiple of one number times one input by a power of two; then the
/// fewest adders are tried at once.
pub(super) fn is_one_constant(forms: &[Vec<i64>]) -> bool {
    matches!(forms, [form] if form.iter().filter(|&&weight| weight != 0).count() == 1)
}

/// Numbers that are made so far, each of two before it; the first ones are the inputs. Odd forms
/// with a positive first factor stand for all their multiples.
struct Trial {
    inputs: usize,
    targets: Vec<Form>,
    /// Shifts lie below this.
    shifts: u16,
    /// Factors lie below this.
    bound: i64,
    nodes: Vec<Form>,
    steps: Vec<Step>,
    /// Adders that may still be tried.
    tries: u64,
}

impl Trial {
    fn new(inputs: usize, targets: Vec<Form>, most: u64, tries: u64) -> Trial {
        let unit = |input| {
            let mut form = Form::default();
            form[input] = 1;
            form
        };
        Trial {
            inputs,
            targets,
            shifts: 64 - most.leading_zeros() as u16 + 1,
            bound: (most as i64) << 2,
            nodes: (0..inputs).map(unit).collect(),
            steps: Vec::new(),
            tries,
        }
    }

    /// Fewer adders cannot do: every target that is not an input is the result of one, and as many
    /// inputs as it adds up, less one, are needed for it.
    fn least(&self) -> usize {
        let inputs = |form: &Form| form.iter().filter(|&&factor| factor != 0).count();
        let longest = self.targets.iter().map(inputs).max().unwrap_or(0);
        self.missing().count().max(longest.saturating_sub(1))
    }

    fn missing(&self) -> impl Iterator<Item = &Form> {
        self.targets.iter().filter(|target| !self.nodes.contains(target))
    }

    /// Whether all targets can be made with that many more adders. Adders whose results are not
    /// targets are tried in one order only, `after` the last one: by their later operand, which
    /// new ones have later than all others.
    fn reach(&mut self, adders: usize, after: (usize, usize, usize)) -> bool {
        let missing = self.missing().count();
        if missing == 0 || missing > adders {
            return missing == 0;
        }
        let near = self.missing().find_map(|target| Some((*target, self.one_adder(target)?)));
        if let Some((target, step)) = near {
            // It has to be made, and one adder is the least it takes.
            return self.with(target, step, adders, after);
        }
        if missing == adders {
            return false;
        }
        for a in after.0..self.nodes.len() {
            for b in 0..=a {
                for kind in 0..6 * usize::from(self.shifts) {
                    if (a, b, kind) <= after {
                        continue;
                    }
                    if self.tries == 0 {
                        return false;
                    }
                    let Some((form, step)) = self.adder(a, b, kind) else { continue };
                    self.tries -= 1;
                    if self.with(form, step, adders, (a, b, kind)) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// [`Trial::reach`] with one number more; without it again if that fails.
    fn with(
        &mut self,
        form: Form,
        step: Step,
        adders: usize,
        after: (usize, usize, usize),
    ) -> bool {
        self.nodes.push(form);
        self.steps.push(step);
        let reached = self.reach(adders - 1, after);
        if !reached {
            self.nodes.pop();
            self.steps.pop();
        }
        reached
    }

    /// The adder of this kind, one of six for every shift, if its result is odd, positive, small and
    /// new.
    fn adder(&self, a: usize, b: usize, kind: usize) -> Option<(Form, Step)> {
        let shift = (kind / 6) as u16;
        if shift == 0 && kind >= 3 {
            // The same with the operands exchanged.
            return None;
        }
        let (x, y) = if kind % 6 < 3 { ((a, 0), (b, shift)) } else { ((b, 0), (a, shift)) };
        let (minus_x, minus_y) = [(false, false), (false, true), (true, false)][kind % 3];
        let step = [(x.0, x.1, minus_x), (y.0, y.1, minus_y)];
        let form = self.value(&step);
        let first = form.iter().find(|&&factor| factor != 0)?;
        let is_small = form.iter().all(|factor| factor.abs() < self.bound);
        let is_odd = form.iter().any(|factor| factor % 2 != 0);
        (*first > 0 && is_small && is_odd && !self.nodes.contains(&form)).then_some((form, step))
    }

    /// The adder that makes a target. As targets are odd, one of its operands is not shifted.
    fn one_adder(&self, target: &Form) -> Option<Step> {
        for (a, node) in self.nodes.iter().enumerate() {
            for negate in [false, true] {
                let sign = if negate { -1 } else { 1 };
                let rest: Form = std::array::from_fn(|i| target[i] - sign * node[i]);
                let Some(&first) = rest.iter().find(|&&factor| factor != 0) else { continue };
                let shift = rest.iter().fold(0, |bits, factor| bits | factor).trailing_zeros();
                let odd = rest.map(|factor| (factor >> shift) * first.signum());
                if let Some(b) = self.nodes.iter().position(|node| *node == odd) {
                    return Some([(a, 0, negate), (b, shift as u16, first < 0)]);
                }
            }
        }
        None
    }

    fn value(&self, step: &Step) -> Form {
        let [(a, a_shift, a_minus), (b, b_shift, b_minus)] = *step;
        let term = |of: usize, shift, minus, i: usize| {
            let value: i64 = self.nodes[of][i] << shift;
            if minus { -value } else { value }
        };
        std::array::from_fn(|i| term(a, a_shift, a_minus, i) + term(b, b_shift, b_minus, i))
    }

    /// The numbers as sums, for the outputs of a system whose sums are the targets.
    fn system(&self, of: &System, rows: &[usize]) -> System {
        let node = |index: usize| match index.checked_sub(self.inputs) {
            None => rows[index] as u32,
            Some(sum) => (of.inputs + sum) as u32,
        };
        let term = |&(index, shift, negate): &(usize, u16, bool)| Term {
            node: node(index),
            shift,
            negate,
        };
        let sums = self.steps.iter().map(|step| step.iter().map(term).collect()).collect();
        let made = |target: usize| {
            let found = self.nodes.iter().position(|node| *node == self.targets[target]);
            node(found.expect("a solved system has a node for every target"))
        };
        let output = |term: &Term| match of.sum_of(term.node) {
            Some(target) => Term { node: made(target), ..*term },
            None => *term,
        };
        let outputs = of.outputs.iter().map(|term| term.as_ref().map(output)).collect();
        System { inputs: of.inputs, sums, outputs }
    }
}
