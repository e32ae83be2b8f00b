//! Random graphs of what a machine takes, their judges, and machines of the peer's programs.

use quincunx_contract::{Claim, Compiler, Refused};
use quincunx_diag::Diagnostic;
use quincunx_graph::{Graph, Node, Quantiser};
use quincunx_tcu::{TARGET, TcuArch};
use quincunx_tensor::Tensors;
use quincunx_testkit::{Agreed, Random, Recipe, agree, options};

/// A machine of the peer's programs. Its DRAM, which runs clear, is as deep as small networks need.
pub(crate) fn of_peer(name: &str) -> TcuArch {
    let cases = super::golden("compiled_models.json");
    let case = cases.as_array().unwrap().iter().find(|case| case["arch"] == name);
    shallow(super::arch(&case.unwrap()["arch_params"]))
}

pub(crate) fn shallow(arch: TcuArch) -> TcuArch {
    let [dram0_depth, dram1_depth] = [arch.dram0_depth, arch.dram1_depth].map(|d| d.min(1 << 16));
    TcuArch { dram0_depth, dram1_depth, ..arch }
}

/// A graph of what the machine takes, and numbers for its inputs.
pub(crate) fn random_graph(random: &mut Random, arch: &TcuArch) -> (Graph, Tensors) {
    random_graph_of(random, arch, &[])
}

/// The same with these options.
pub(crate) fn random_graph_of(
    random: &mut Random,
    arch: &TcuArch,
    given: &[(&str, &str)],
) -> (Graph, Tensors) {
    let options = options(&TARGET, given);
    // The node that was added is the last one.
    let accept = |graph: &Graph, _: &Node| {
        let claims = TARGET.claim(graph, arch, &options, &Refused::default()).unwrap();
        claims.last() == Some(&Claim::Device)
    };
    let grid = arch.data_type.binary_point().map(|point| {
        Quantiser::symmetric(true, arch.data_type.width(), 0.5_f64.powi(point as i32))
    });
    Recipe { grid, layers: [4, 16], spread: 2.0, accept: &accept, ..Recipe::REAL }.graph(random)
}

/// Compiles with these options: all judges agree, or the first problem.
pub(crate) fn judge(
    graph: &Graph,
    inputs: &Tensors,
    arch: &TcuArch,
    given: &[(&str, &str)],
) -> Result<Agreed, Diagnostic> {
    let agreed = agree(&TARGET, arch, &options(&TARGET, given), graph, [inputs.clone()]);
    agreed.map_err(|problems| problems.into_iter().next().unwrap())
}
