//! Telling a GraphDef from an ONNX model. Both are protobuf without a magic number.

use crate::budget::next_field;

/// True when the bytes are a GraphDef: every field of the outermost message is one of a GraphDef
/// and of its wire type, and every node that is looked at has a name and an operator.
///
/// An ONNX model is none, since its field 1 is a number and a GraphDef's field 1 is a node.
pub fn is_graph_def(mut bytes: &[u8]) -> bool {
    let mut nodes = 0;
    while !bytes.is_empty() {
        let Some((number, payload, rest)) = next_field(bytes) else {
            return false;
        };
        bytes = rest;
        match (number, payload) {
            (1, Some(node)) if nodes < 4 && !is_node(node) => return false,
            (1, Some(_)) => nodes += 1,
            (2 | 4 | 5, Some(_)) | (3, None) => {}
            _ => return false,
        }
    }
    nodes > 0
}

/// True when the bytes are a TensorFlow SavedModel: a schema version and graphs with variables.
pub(crate) fn is_saved_model(bytes: &[u8]) -> bool {
    let Some((1, None, rest)) = next_field(bytes) else {
        return false;
    };
    let Some((2, Some(meta_graph), _)) = next_field(rest) else {
        return false;
    };
    let mut fields = meta_graph;
    while let Some((number, payload, rest)) = next_field(fields) {
        if let (2, Some(graph)) = (number, payload) {
            return is_graph_def(graph);
        }
        fields = rest;
    }
    false
}

fn is_node(mut bytes: &[u8]) -> bool {
    let (mut name, mut op) = (false, false);
    while let Some((number, payload, rest)) = next_field(bytes) {
        bytes = rest;
        match (number, payload) {
            (1, Some(text)) => name = is_word(text),
            (2, Some(text)) => op = is_word(text),
            (3..=7, Some(_)) => {}
            _ => return false,
        }
    }
    bytes.is_empty() && name && op
}

fn is_word(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&c| c.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_graph_def_is_one() {
        assert!(is_graph_def(b"\x0a\x10\x0a\x01x\x12\x0bPlaceholder"));
        assert!(is_graph_def(b"\x0a\x10\x0a\x01x\x12\x0bPlaceholder\x22\x02\x08\x01"));
        // An ONNX model: version 8, producer "x", an empty graph.
        assert!(!is_graph_def(b"\x08\x08\x12\x01x\x3a\x00"));
        for bytes in [&b""[..], b"PK\x03\x04", b"\x93NUMPY", b"\x0a\x00", b"\nhello\n"] {
            assert!(!is_graph_def(bytes), "{bytes:?}");
        }
    }
}
