//! How many registers suffice for layers that the registers do not suffice for.

use super::layers::{Head, Layer, Network};
use super::written;
use crate::arch::ScampArch;
use crate::options::{MAX_POOL, Search, Wishes};
use crate::search::Effort;
use quincunx_contract::{NotCompiled, Refusal};
use quincunx_diag::Diagnostic;
use quincunx_graph::Graph;

/// Problems of too few registers.
pub(super) const OF_REGISTERS: [&str; 3] = ["Q5056", "Q5091", "Q5100"];

/// Weights of a network up to which numbers of registers are tried: each takes a search.
const MAX_WEIGHTS: usize = 256;

/// The problems, with a number of registers that suffices where one was found by trying.
pub(super) fn advise(
    problem: NotCompiled,
    graph: &Graph,
    arch: &ScampArch,
    wishes: &Wishes,
    network: &Network,
) -> NotCompiled {
    let NotCompiled::Refused(list) = problem else { return problem };
    let is_of_registers = |refusal: &Refusal| OF_REGISTERS.contains(&refusal.problem.code());
    if !list.iter().any(is_of_registers) {
        return NotCompiled::Refused(list);
    }
    let enough = enough(graph, arch, wishes, network);
    let has = format!("; {} has {}", arch.name, arch.analogue.len());
    let advised = |Refusal { node, problem }: Refusal| {
        if !OF_REGISTERS.contains(&problem.code()) {
            return Refusal { node, problem };
        }
        // Plans show the message only.
        let (message, help) = match enough {
            Some(enough) => (
                format!("{}, {enough} registers suffice", problem.message()),
                format!("{enough} registers suffice (`--registers`){has}"),
            ),
            None => {
                (problem.message().to_owned(), format!("allow more registers (`--registers`){has}"))
            }
        };
        let advised = Diagnostic::unsupported(problem.code(), message).help(help);
        let notes = problem.notes().iter().cloned();
        Refusal { node, problem: notes.fold(advised, Diagnostic::with_note) }
    };
    NotCompiled::Refused(list.into_iter().map(advised).collect())
}

/// A number of registers with which the network was compiled, by the default search without effort,
/// after every smaller one that could be enough was tried.
fn enough(graph: &Graph, arch: &ScampArch, wishes: &Wishes, network: &Network) -> Option<usize> {
    let conv = |layer: &Layer| match layer.head {
        Head::Conv(node) => graph[node].input(1).map(|id| &graph[id].shape),
        Head::Copy => None,
    };
    let shapes: Vec<_> = network.layers.iter().filter_map(conv).collect();
    let weights = shapes.iter().map(|shape| shape.iter().product::<usize>());
    if weights.fold(0, usize::saturating_add) > MAX_WEIGHTS {
        return None;
    }
    let channels: usize = graph.inputs().iter().map(|&id| graph[id].shape[1]).sum();
    let least = wishes.pool.len().saturating_add(1).max(channels);
    (least..=MAX_POOL).find(|&count| {
        let (arch, new) = arch.with_more(count - wishes.pool.len());
        let mut wishes = Wishes { search: Search::Default, effort: Effort(0), ..wishes.clone() };
        wishes.pool.extend(new);
        written(graph, &arch, &wishes, network).is_ok()
    })
}
