//! What became of the constants of a graph: every one is a parameter of operations or lies in
//! DRAM1, never both.

use super::builder::{ConstantUse, Fate};
use super::hir::{ConstId, Network};
use super::schedule::product;
use crate::arch::TcuArch;
use quincunx_contract::ConstantUse as Record;
use quincunx_graph::Graph;
use std::collections::{BTreeMap, BTreeSet};

/// The uses in order, those of one constant by one user as one. The vectors of numbers that several
/// constants make together count for the first of them.
pub(super) fn constants(
    graph: &Graph,
    network: &Network,
    uses: &[ConstantUse],
    arch: &TcuArch,
) -> Vec<Record> {
    let taps: BTreeMap<ConstId, u64> = unused_rows(network, arch).collect();
    let unused = |id: ConstId| taps.get(&id).copied().unwrap_or(0);
    let mut counted: BTreeSet<ConstId> = BTreeSet::new();
    let mut records: Vec<Record> = Vec::new();
    // The last record of every constant.
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    for ConstantUse { name, fate } in uses {
        let (user, vectors) = match fate {
            Fate::Parameter(user) => (user.as_str(), 0),
            Fate::Const(id) => {
                let constant = &network.consts[id.0 as usize];
                let blocks = u64::from(constant.channels.div_ceil(arch.array_size));
                let vectors = (u64::from(constant.rows) - unused(*id)) * blocks;
                // The weights of a convolution are a constant for every tap.
                let user = constant.name.strip_suffix(" tap 0").unwrap_or(&constant.name);
                (user, if counted.insert(*id) { vectors } else { 0 })
            }
        };
        let parameter = matches!(fate, Fate::Parameter(_));
        let known = last.get(name.as_str()).map(|&at| &mut records[at]);
        match known {
            Some(known) if !parameter || known.user == user => known.vectors += vectors,
            _ => {
                last.insert(name, records.len());
                let constant = graph.value_named(name).and_then(|id| graph[id].constant.as_ref());
                records.push(Record {
                    name: name.clone(),
                    user: user.to_owned(),
                    parameter,
                    scalars: constant.map_or(0, |constant| constant.tensor.len() as u64),
                    vectors,
                });
            }
        }
    }
    records.extend(at_compile_time(graph, &records));
    records
}

/// Rows of weights behind the last channel, which are not stored.
fn unused_rows<'a>(
    network: &'a Network,
    arch: &'a TcuArch,
) -> impl Iterator<Item = (ConstId, u64)> + 'a {
    let products = network.layers.iter().filter_map(product);
    let taps = products.flat_map(|product| &product.taps);
    taps.map(|tap| (tap.weights, u64::from(arch.array_size - tap.last_lanes)))
}

/// Constants that decide what operators mean, and of which nothing is left: indices of a gather.
fn at_compile_time(graph: &Graph, records: &[Record]) -> Vec<Record> {
    let mut known: BTreeSet<&str> = records.iter().map(|record| record.name.as_str()).collect();
    let mut more = Vec::new();
    for (_, node) in graph.nodes() {
        for value in node.operands().map(|id| &graph[id]) {
            let Some(constant) = &value.constant else { continue };
            if known.insert(&value.name) {
                more.push(Record {
                    name: value.name.clone(),
                    user: node.name.clone(),
                    parameter: true,
                    scalars: constant.tensor.len() as u64,
                    vectors: 0,
                });
            }
        }
    }
    more
}

/// One line for every use.
pub(super) fn dump(records: &[Record]) -> String {
    let line = |record: &Record| {
        let Record { name, user, parameter, scalars, vectors } = record;
        match parameter {
            true => format!("{name}: {scalars} numbers, a parameter of {user}\n"),
            false => format!("{name}: {scalars} numbers, {vectors} vectors of data for {user}\n"),
        }
    };
    records.iter().map(line).collect()
}
