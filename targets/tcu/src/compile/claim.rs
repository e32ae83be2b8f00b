//! Which nodes the machine takes, and why not the others.

use super::frontend::refusal;
use crate::arch::TcuArch;
use quincunx_contract::Claim;
use quincunx_graph::Graph;

/// One claim per node, given the largest error of functions as polynomials.
pub(crate) fn claim(graph: &Graph, arch: &TcuArch, approximate: Option<f64>) -> Vec<Claim> {
    let claim = |node| match refusal(graph, arch, approximate, node) {
        None => Claim::Device,
        Some(reason) => Claim::Host(reason),
    };
    graph.nodes().map(|(_, node)| claim(node)).collect()
}
