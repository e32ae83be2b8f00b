//! Arbitrary text as a kernel file of Cain.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_scamp::files::{read_kernels, to_graph};

fuzz_target!(|source: &str| {
    let Ok(file) = read_kernels(source) else { return };
    let (depth, _) = file.approximation();
    if let Ok(bag) = file.goals(depth) {
        let _ = bag.compact();
        bag.0.iter().for_each(|goal| drop(goal.atoms(100)));
    }
    if let Ok(graph) = to_graph(&file, 4, 4) {
        assert!(graph.verify().is_empty(), "a kernel file made an invalid graph");
    }
});
