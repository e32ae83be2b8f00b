//! A lower bound of the cycles that any program takes for a network on a machine, by upstream's
//! current cost model (`tensil` in `docs/bibliography.md`).
//!
//! Nothing of the compiler is used: the bound follows from the graph, the machine and the costs of
//! instructions. `docs/machines/tcu.md` says what is counted, why every program pays it, and what a program
//! would have to do for the bound not to hold.

mod demand;
mod elements;
mod products;
mod sums;

use crate::arch::TcuArch;
use crate::program::{Action, Memory, Program};
use crate::time::costs;
use demand::Demand;
use quincunx_graph::{Graph, Node, Op, Value, ValueId};
use std::collections::BTreeSet;

/// Cycles by what they are spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// Vectors through the array.
    pub products: u64,
    /// What a MatMul takes beyond its vectors.
    pub startups: u64,
    /// Rows pushed into the array.
    pub weights: u64,
    /// Instructions of the ALUs.
    pub simd: u64,
    /// Vectors between accumulators and local memory.
    pub accumulators: u64,
    /// Vectors between the DRAMs and local memory.
    pub drams: u64,
    /// Everything else: waiting and lookup tables.
    pub other: u64,
}

impl Classes {
    /// Cycles by class, in the order of the fields.
    pub fn cycles(&self) -> [u64; 7] {
        let Classes { products, startups, weights, simd, accumulators, drams, other } = *self;
        [products, startups, weights, simd, accumulators, drams, other]
    }

    /// All cycles.
    pub fn total(&self) -> u64 {
        self.cycles().iter().sum()
    }

    /// What a program spends.
    pub fn of_program(program: &Program) -> Classes {
        let mut classes = Classes::default();
        for (step, cost) in program.steps.iter().zip(costs(program, false)) {
            let class = match step.inst.action() {
                Action::Product { .. } => {
                    classes.products += step.inst.count();
                    classes.startups += cost.cycles - step.inst.count();
                    continue;
                }
                Action::Push { .. } => &mut classes.weights,
                Action::Simd { .. } => &mut classes.simd,
                Action::Move(moved) if moved.other.memory == Memory::Acc => {
                    &mut classes.accumulators
                }
                Action::Move(_) => &mut classes.drams,
                Action::Wait | Action::Table { .. } | Action::Configure { .. } => {
                    &mut classes.other
                }
            };
            *class += cost.cycles;
        }
        classes
    }
}

/// The least that any program of a graph spends. All nodes are the machine's; operators that it
/// does not have count nothing, as if the host computed them for nothing.
pub fn lower_bound(graph: &Graph, arch: &TcuArch) -> Classes {
    let lanes = u64::from(arch.array_size);
    let demand = Demand::new(graph);
    let mut bound = Classes::default();
    let mut known = BTreeSet::new();
    for (_, node) in graph.nodes() {
        match node.op {
            _ if demand.wanted(node.output).is_empty() => {}
            Op::Conv(_) | Op::Gemm(_) | Op::MatMul => {
                products::add(&mut bound, node, &demand, arch, &mut known);
            }
            _ => bound.simd += elements::instructions(node, &demand, arch),
        }
    }
    let leaving = demand.leaving();
    let vectors =
        |(id, _): (ValueId, &Value)| demand.layout(id).vectors(&leaving[id.index()], lanes);
    let left: u64 = graph.values().map(vectors).sum();
    let mut known = sums::Known::default();
    let sum = |(_, node): (_, &Node)| sums::moves(node, &demand, &leaving, arch, &mut known);
    bound.accumulators = left + demand.entering(lanes) + graph.nodes().map(sum).sum::<u64>();
    bound.drams += demand.ports(lanes);
    bound
}
