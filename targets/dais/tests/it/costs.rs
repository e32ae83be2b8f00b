//! The cost model gives what da4ml recorded in its programs.

use crate::common::cases;
use quincunx_dais::files;
use quincunx_dais::isa::Inst;
use quincunx_dais::time::{Origin, model};

/// Every operation of the programs that da4ml traced, of pipelines as well. (Programs of the solver
/// are compared by `quincunx-conform dais`, folder `cmvm`.)
#[test]
fn recorded_costs_and_latencies_are_reproduced() {
    let programs = cases(&["traced"]).into_iter().flat_map(|case| {
        let single = (case.name.clone(), case.json());
        std::iter::once(single).chain(case.pipelines()).collect::<Vec<_>>()
    });
    let mut count = 0;
    for (name, json) in programs {
        for program in files::read_json(&json, false).unwrap().pipeline.stages {
            // A pipeline delays what would straddle two stages, which is not the model's business.
            let is_stage = name.contains("pipeline");
            let found = model(&program, Origin::Tracer).unwrap();
            for (operation, (latency, cost)) in program.operations.iter().zip(found) {
                let close = |a: f64, b: f64| (a - b).abs() < 1e-6 * a.abs().max(1.0);
                let recorded = (operation.latency, operation.cost);
                let is_timed = !is_stage || matches!(operation.inst, Inst::Input { .. });
                assert!(
                    !is_timed || close(recorded.0, latency),
                    "{name}: {operation:?}, {latency}"
                );
                assert!(close(recorded.1, cost), "{name}: {operation:?}, {cost}");
                count += 1;
            }
        }
    }
    assert!(count > 4000, "{count}");
}
