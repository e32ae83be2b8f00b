//! What may pass from a layer to the next, in a residual block.

use super::*;
use crate::TcuArch;
use crate::compile::frontend::{Choices, network};
use crate::compile::memory::lives;
use quincunx_import::{Options, read_onnx};

/// `relu(conv1x1(b) + a)` of `b = relu(conv3x3(a))` and `a = relu(conv3x3(x))`.
fn block() -> Network {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = folder.join("../../tests/golden/tcu/models/t_resblock.onnx");
    let graph = read_onnx(std::fs::read(path).unwrap().into(), &Options::default()).unwrap();
    let arch = TcuArch::preset("pynqz1").unwrap();
    network(&graph, &arch, &Choices::default()).unwrap().network
}

fn saved(network: &Network, layer: usize) -> VarId {
    let saved = network.layers[layer].ops.iter().find_map(|op| match op {
        Op::Save { to, .. } => Some(to[0].var),
        _ => None,
    });
    saved.unwrap()
}

#[test]
fn what_single_positions_read_may_pass() {
    let mut network = block();
    let found = links(&network, &lives(&network));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].layer, found[0].var), (1, saved(&network, 1)));
    // Positions are read in another order.
    let Op::MatMul(product) = &mut network.layers[2].ops[0] else { panic!("a product") };
    let mut tap = product.taps[0].clone();
    tap.pairs = tap.pairs.iter().rev().copied().collect();
    product.taps[0] = tap.clone();
    assert!(links(&network, &lives(&network)).is_empty());
    // Somebody else reads it.
    let mut network = block();
    let last = network.layers[2].clone();
    network.layers.push(last);
    assert!(links(&network, &lives(&network)).is_empty());
}

#[test]
fn sums_may_take_the_places_of_operands() {
    let mut network = block();
    // What the host reads stays where it is.
    assert!(heirs(&network, &lives(&network)).is_empty());
    network.outputs.clear();
    let heir = Heir { before: saved(&network, 0), after: saved(&network, 2), layer: 2 };
    assert_eq!(heirs(&network, &lives(&network)), [heir]);
    // The operand is read later.
    let mut later = network.layers[1].clone();
    later.ops.retain(|op| matches!(op, Op::MatMul(_)));
    network.layers.push(later);
    assert!(heirs(&network, &lives(&network)).is_empty());
}
