//! Which operators that move elements, and which layers beside them, the machine takes.

use quincunx_graph::{Coordinates, Graph, Node, Op, Pad, PadMode, Resize};

/// Why a node is not taken; `None` for other operators and for those that are.
pub(super) fn refuse_movement(graph: &Graph, node: &Node) -> Option<String> {
    match &node.op {
        Op::ConvTranspose(_) => {
            let mut weights = (1..3).filter_map(|index| node.input(index));
            let constant = weights.all(|id| graph[id].constant.is_some());
            (!constant).then(|| "its weights are not constant".to_owned())
        }
        Op::Recurrent(_) => Some(format!("{} has no exact result in fixed point", node.op.name())),
        Op::Cast { .. } | Op::CastUnbounded { .. } => {
            Some("the machine has one number format".to_owned())
        }
        Op::Gather { .. } if graph.movement(node).is_none() => {
            Some("its indices are not constant, or out of range".to_owned())
        }
        Op::Pad(Pad { mode: PadMode::Constant(value), .. }) if !value.is_finite() => {
            Some(format!("the number {value} has no fixed-point code"))
        }
        Op::Resize(resize) => refuse_resize(resize),
        _ => None,
    }
}

fn refuse_resize(resize: &Resize) -> Option<String> {
    if !resize.is_nearest() {
        return Some("it interpolates; only the nearest element is taken".to_owned());
    }
    match resize.coordinates {
        Coordinates::CropAndResize { extrapolation } if !extrapolation.is_finite() => {
            Some(format!("the number {extrapolation} has no fixed-point code"))
        }
        _ => None,
    }
}
