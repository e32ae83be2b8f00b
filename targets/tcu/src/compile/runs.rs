//! Rolling up transfers of single vectors into instructions with steps.

/// Vectors `a, a + 2^a_stride, …` and `b, b + 2^b_stride, …`, `count` of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) a: u64,
    pub(crate) a_stride: u32,
    pub(crate) b: u64,
    pub(crate) b_stride: u32,
    pub(crate) count: u32,
}

impl Run {
    /// The run with both starts moved.
    pub(crate) fn moved(self, a: u64, b: u64) -> Run {
        Run { a: self.a + a, b: self.b + b, ..self }
    }
}

/// Logarithm of the step from one address to the next, if an operand with so many strides has it.
fn stride(from: u64, to: u64, strides: u32) -> Option<u32> {
    let step = to.checked_sub(from)?;
    (step.is_power_of_two() && step.trailing_zeros() < strides).then(|| step.trailing_zeros())
}

/// Joins pairs of addresses, in order, into runs as long as they can be. Operands have so many
/// strides.
pub(crate) fn roll_up(
    pairs: impl IntoIterator<Item = (u64, u64)>,
    a_strides: u32,
    b_strides: u32,
) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut last = (0, 0);
    for (a, b) in pairs {
        if let Some(run) = runs.last_mut() {
            let step = stride(last.0, a, a_strides).zip(stride(last.1, b, b_strides));
            match step {
                Some(step) if run.count == 1 || step == (run.a_stride, run.b_stride) => {
                    (run.a_stride, run.b_stride) = step;
                    run.count += 1;
                    last = (a, b);
                    continue;
                }
                _ => {}
            }
        }
        runs.push(Run { a, a_stride: 0, b, b_stride: 0, count: 1 });
        last = (a, b);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_expand_to_what_was_rolled_up() {
        let pairs = [(3, 0), (4, 2), (5, 4), (6, 5), (6, 6), (10, 7), (14, 8), (13, 9), (200, 300)];
        for strides in [1, 2, 3, 8] {
            let runs = roll_up(pairs, strides, strides);
            let expand = |run: &Run| {
                let run = *run;
                (0..u64::from(run.count))
                    .map(move |i| (run.a + (i << run.a_stride), run.b + (i << run.b_stride)))
            };
            assert_eq!(runs.iter().flat_map(expand).collect::<Vec<_>>(), pairs);
            assert!(runs.iter().all(|run| run.a_stride.max(run.b_stride) < strides));
        }
        assert_eq!(roll_up(pairs, 8, 8).len(), 5);
    }
}
