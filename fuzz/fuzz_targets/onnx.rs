//! Arbitrary bytes as an ONNX model.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_fuzz::exercise_graph;
use quincunx_import::{Options, read_onnx};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(graph) = read_onnx(bytes.to_vec().into(), &Options::default()) {
        exercise_graph(&graph);
    }
});
