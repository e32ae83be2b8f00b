//! Random programs with the memories before and after.

use super::{Check, arch, equal, fields, first, hex, list, same_bytes, text};
use crate::report::Report;
use quincunx_diag::Diagnostic;
use quincunx_tcu::binary;
use quincunx_tcu::files::{read_data, write_data};
use quincunx_tcu::program::Memory;
use quincunx_tcu::simulate::Executor;
use quincunx_tcu::time::estimate;
use quincunx_tcu::verify::{Rules, verify};
use serde_json::Value;

pub(super) fn run(json: &Value, report: &mut Report) {
    for case in list(json) {
        report.case(text(case, "name"), check(case));
    }
}

fn check(case: &Value) -> Check {
    let failed = |problem: Diagnostic| problem.to_string();
    let arch = arch(&case["arch"])?;
    let bytes = hex(&case["prog"])?;
    let read = binary::read(&bytes, &arch, false).map_err(|problems| first(&problems))?;
    let steps: Vec<_> = list(&case["instructions"]).map(fields::step).collect::<Check<_>>()?;
    equal("the decoded program", &read.program.steps, &steps)?;
    same_bytes("the program", &binary::write(&read.program).map_err(failed)?, &bytes)?;
    let problems = verify(&read.program, &Rules::default());
    if let Some(problem) = problems.iter().find(|problem| problem.is_error()) {
        return Err(format!("the verifier rejects it: {problem}"));
    }
    let mut executor = Executor::new(&arch);
    for (key, memory) in
        [("dram0", Memory::Dram0), ("dram1", Memory::Dram1), ("local", Memory::Local)]
    {
        let image = read_data(&hex(&case[key])?, &arch).map_err(failed)?;
        executor.state.write(memory, 0, &image).map_err(failed)?;
    }
    executor.run(&read.program.steps).map_err(failed)?;
    let expected = hex(&case["dram0_after"])?;
    let mut found = vec![0; expected.len() / arch.data_type.bytes()];
    executor.state.read(Memory::Dram0, 0, &mut found).map_err(failed)?;
    same_bytes("DRAM0 after the program", &write_data(&found, &arch), &expected)?;
    let sum = estimate(&read.program, false).aggregate;
    let figures = &case["estimate_aggregate_cycles_energy"];
    let expected = [&figures[0], &figures[1]].map(Value::as_u64);
    equal("[cycles, energy]", [Some(sum.cycles), Some(sum.energy)], expected)
}
