//! The kernels of a convolution as goals.

use super::weights::{Nearness, approximate, reals, units};
use crate::goal::{Bag, Cell, Goal, MAX_OFFSET};
use crate::ports::Area;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Conv, Graph, Node};

/// Most units in a cell.
pub(super) const MAX_COUNT: f64 = (1_u64 << 52) as f64;

/// What a convolution computes.
#[derive(Clone, Debug)]
pub(super) struct Kernels {
    /// One goal for every result, in units of `2^-depth`.
    pub(super) goals: Bag,
    /// The exponent of the unit.
    pub(super) depth: u32,
    /// Sum of the errors of the weights.
    pub(super) error: f64,
    /// What is added to every pixel of a result.
    pub(super) bias: Vec<f64>,
}

impl Kernels {
    /// Every channel as it is.
    pub(super) fn copy(channels: usize) -> Kernels {
        let one = |channel| Goal::identity(u32::try_from(channel).unwrap_or(u32::MAX), 0);
        let goals = Bag((0..channels).map(one).collect());
        Kernels { goals, depth: 0, error: 0.0, bias: vec![0.0; channels] }
    }
}

/// The kernels of a convolution of an image that lies so.
///
/// # Errors
/// `Q5057` for weights that are not reached, `Q5054` for those that are too large.
pub(super) fn kernels(
    graph: &Graph,
    node: &Node,
    conv: &Conv,
    input: Area,
    nearness: Nearness,
) -> Result<Kernels> {
    let missing = || Diagnostic::bug(format!("{:?} was taken without weights", node.name));
    let id = node.input(1).ok_or_else(missing)?;
    let weights = reals(&graph[id]).ok_or_else(missing)?;
    let &[outputs, depth, rows, columns] = &graph[id].shape[..] else { return Err(missing()) };
    let (d, error) = approximate(&weights, nearness)?;
    let share = outputs / conv.groups.max(1);
    let mut goals = vec![Goal::default(); outputs];
    let mut numbers = weights.iter();
    for (output, goal) in goals.iter_mut().enumerate() {
        for inner in 0..depth {
            let channel = output / share.max(1) * depth + inner;
            for (row, column) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
                let count = units(*numbers.next().ok_or_else(missing)?, d as i32);
                if count.abs() >= MAX_COUNT {
                    let message = format!("a weight is {count} units of 2^-{d}");
                    return Err(Diagnostic::unsupported("Q5054", message));
                }
                let [dy, dx] = [0, 1].map(|axis| i64::try_from(conv.window.dilations[axis]));
                let south = offset(row, rows / 2, dy, input.rows.step);
                let east = offset(column, columns / 2, dx, input.columns.step);
                let (Some(east), Some(south)) = (east, south) else {
                    let message = format!("a kernel reaches further than {MAX_OFFSET} elements");
                    return Err(Diagnostic::unsupported("Q5054", message));
                };
                let z = u32::try_from(channel).unwrap_or(u32::MAX);
                goal.set(Cell { x: east, y: -south, z }, count as i64);
            }
        }
    }
    let bias = node.input(2).and_then(|id| reals(&graph[id])).unwrap_or_else(|| vec![0.0; outputs]);
    Ok(Kernels { goals: Bag(goals), depth: d, error, bias })
}

/// Elements from the middle of a window to a tap; `None` for one that is too far.
fn offset<E>(
    at: usize,
    middle: usize,
    dilation: std::result::Result<i64, E>,
    step: usize,
) -> Option<i32> {
    let taps = i64::try_from(at).ok()? - i64::try_from(middle).ok()?;
    let elements = taps.checked_mul(dilation.ok()?)?.checked_mul(i64::try_from(step).ok()?)?;
    i32::try_from(elements).ok().filter(|offset| offset.unsigned_abs() <= MAX_OFFSET)
}
