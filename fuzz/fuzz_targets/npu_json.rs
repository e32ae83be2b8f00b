//! Arbitrary text as frontend IR, scheduler IR and quantisation scales.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_npu::files;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(file) = files::read(bytes) {
        let _ = (file.validate(), file.tables());
        if let Ok(Some(graph)) = file.to_graph() {
            assert!(graph.verify().is_empty(), "the network of a frontend IR is wrong");
        }
        match files::read(&file.write()) {
            Ok(again) => assert!(again.value == file.value, "a written file reads differently"),
            Err(problem) => panic!("a written file is not read: {problem}"),
        }
    }
});
