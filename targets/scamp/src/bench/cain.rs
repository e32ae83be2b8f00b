//! Nodes that Cain's search expands in a second.

use crate::arch::ScampArch;
use crate::cain::{Settings, search};
use crate::goal::{Bag, Goal};
use crate::isa::Reg;
use crate::task::{Task, Wanted};
use quincunx_contract::bench::{Row, Run, Suite};
use quincunx_diag::{Diagnostic, Result};

/// Random kernels.
pub(super) const SUITE: Suite = Suite {
    name: "cain",
    doc: "Cain's search for ten random 3x3 kernels of eighths, 2000 nodes each, on one core",
    options: &[],
    run: measure,
};

/// Nodes per kernel.
const NODES: u64 = 2000;

fn measure(run: &Run) -> Result<Vec<Row>> {
    let arch = ScampArch::preset("scamp5")?;
    let settings = Settings { max_nodes: NODES, ..Settings::default() };
    let tasks = (1..=10).map(|seed| task(seed, &arch)).collect::<Result<Vec<_>>>()?;
    let calls = run.calls(|| {
        let nodes = |task: &Task| Ok(search(task, &settings, &arch)?.counts.nodes);
        tasks.iter().map(nodes).sum::<Result<u64>>()
    })?;
    let rate = calls.last as f64 / calls.seconds;
    Ok(vec![Row::named("random")("nodes_per_second", rate, "nodes/s", 0)])
}

/// A kernel of nine random eighths from 0 to 1, in and out of register A.
fn task(seed: u64, arch: &ScampArch) -> Result<Task> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut eighths = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as i64 % 9
    };
    let rows: Vec<Vec<i64>> = (0..3).map(|_| (0..3).map(|_| eighths()).collect()).collect();
    let a = Reg::new("A").ok_or_else(|| Diagnostic::bug("A is no register"))?;
    let goals = Bag(vec![Goal::from_rows(&rows)]);
    let wanted = Wanted { goals, depth: 3, inputs: vec![a], outputs: vec![a] };
    Task::new(wanted, arch.analogue.clone(), arch)
}
