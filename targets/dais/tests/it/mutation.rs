//! A planted wrong result of any instruction is noticed by the comparison with the golden outputs.

use crate::common::{Case, cases, same};
use quincunx_dais::isa::TABLE;
use quincunx_dais::program::Program;
use quincunx_dais::simulate::Executor;
use quincunx_isa::Coverage;
use quincunx_num::Int;
use quincunx_testkit::plant;

type Fault = fn(&mut Int);

const FAULTS: [(&str, Fault); 3] = [
    ("one too much", |value| *value += Int::ONE),
    ("low bit flipped", |value| *value ^= Int::ONE),
    ("sign changed", |value| *value = -std::mem::take(value)),
];

/// True if the outputs of any sample differ, or a sample cannot be run, with a fault in one row.
fn is_noticed(case: &Case, program: &Program, row: usize, fault: Fault) -> bool {
    let mut executor = Executor::new(program).unwrap();
    case.inputs.iter().zip(&case.outputs).any(|(inputs, expected)| {
        let outputs = executor.run_with(inputs, &mut |_, operation, value| {
            if operation.inst.row() == row {
                fault(value);
            }
        });
        outputs.map_or(true, |outputs| !same(&outputs, expected))
    })
}

#[test]
fn every_instruction_is_executed() {
    let mut coverage = Coverage::new(&TABLE);
    for case in cases(&["ops", "fuzz", "alir4"]) {
        let mut executor = Executor::new(&case.program()).unwrap();
        executor.run_with(&case.inputs[0], &mut |_, o, _| coverage.mark(o.inst.row())).unwrap();
    }
    assert_eq!(coverage.missing(), Vec::<&str>::new());
}

#[test]
fn every_planted_fault_is_noticed() {
    let cases = cases(&["ops", "fuzz", "alir4"]).into_iter();
    let programs: Vec<(Program, Case)> = cases.map(|case| (case.program(), case)).collect();
    plant(&TABLE, 0..TABLE.rows.len(), &FAULTS, |row, fault| {
        programs.iter().any(|(program, case)| {
            program.operations.iter().any(|operation| operation.inst.row() == row)
                && is_noticed(case, program, row, fault)
        })
    });
}
