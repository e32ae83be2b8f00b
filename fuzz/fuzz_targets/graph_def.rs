//! Arbitrary bytes as a frozen TensorFlow graph.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_fuzz::exercise_graph;
use quincunx_import::{Options, format_of, read_graph_def};

fuzz_target!(|bytes: &[u8]| {
    let _ = format_of(bytes);
    if let Ok(graph) = read_graph_def(bytes.to_vec().into(), &Options::default()) {
        exercise_graph(&graph);
    }
});
