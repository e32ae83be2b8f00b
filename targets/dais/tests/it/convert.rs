//! Programs in other dialects mean the same.

use crate::common::random::{program, program_in};
use crate::common::{Case, FOLDERS, cases, same};
use quincunx_dais::binary::{Converted, Dialect, convert};
use quincunx_dais::files;
use quincunx_dais::isa::{Inst, TABLE};
use quincunx_dais::program::Program;
use quincunx_dais::simulate::Executor;
use quincunx_dais::text;
use quincunx_dais::verify::{Rules, verify};
use quincunx_diag::any_error;
use quincunx_isa::Coverage;
use quincunx_num::Dyadic;
use quincunx_testkit::Random;

fn in_dialect(program: &Program, dialect: Dialect) -> Program {
    let converted = convert(program, dialect).unwrap().program;
    assert!(converted.operations.iter().all(|operation| dialect.has(operation.inst)));
    assert!(!any_error(&verify(&converted, &Rules::EXECUTABLE)), "{}", text::print(&converted));
    converted
}

fn has_form(program: &Program, dialect: Dialect) -> bool {
    let older = |inst: Inst| {
        let minimum = inst.facts().dialect;
        minimum <= dialect || minimum == Dialect::A4
    };
    program.operations.iter().all(|operation| older(operation.inst))
}

/// The real number of every slot.
fn values(executor: &Executor) -> Vec<Dyadic> {
    let types = executor.program().operations.iter().map(|o| o.slot_type.kif().fraction);
    executor.slots().iter().zip(types).map(|(v, f)| Dyadic::new(v.clone(), -f)).collect()
}

/// Outputs and moved slots are the same on inputs of any size.
fn check(seed: u64, program: &Program, converted: &Converted) {
    let mut random = Random::new(seed);
    let mut before = Executor::new(program).unwrap();
    let mut after = Executor::new(&converted.program).unwrap();
    for _ in 0..6 {
        let inputs: Vec<f64> = program.input_shifts.iter().map(|_| random.float()).collect();
        let expected = before.run(&inputs).unwrap();
        let found = after.run(&inputs).unwrap();
        assert!(same(&found, &expected), "seed {seed}: {found:?}, {expected:?}");
        let (old, new) = (values(&before), values(&after));
        for (value, (slot, negate)) in old.iter().zip(&converted.moved) {
            let moved = &new[slot.0 as usize];
            assert_eq!(value, &if *negate { moved.neg() } else { moved.clone() }, "seed {seed}");
        }
    }
}

#[test]
fn random_programs_mean_the_same_in_every_dialect() {
    let mut coverage = Coverage::new(&TABLE);
    for seed in 0..500 {
        let program = program(&mut Random::new(seed), 40);
        program.operations.iter().for_each(|operation| coverage.mark(operation.inst.row()));
        for dialect in Dialect::ALL {
            if !has_form(&program, dialect) {
                assert_eq!(convert(&program, dialect).unwrap_err().code(), "Q1005");
                continue;
            }
            let converted = convert(&program, dialect).unwrap();
            in_dialect(&converted.program, dialect);
            check(seed, &program, &converted);
        }
    }
    assert_eq!(coverage.missing(), Vec::<&str>::new());
}

/// Programs of da4ml 0.4's instructions and alkaid's cross all borders, there and back.
#[test]
fn programs_of_old_dialects_come_back() {
    for seed in 0..300 {
        for origin in [Dialect::D0, Dialect::D1Version0, Dialect::D1] {
            let program = program_in(&mut Random::new(seed), 40, origin);
            let there = in_dialect(&program, Dialect::A4);
            let back = in_dialect(&there, origin);
            check(seed, &program, &Converted { program: back, moved: Vec::new() });
        }
    }
}

/// Results that leave their types stay what they are, although converted operations wrap others.
#[test]
fn overflows_are_kept() {
    let source = "
        .dais
        .inputs 1
        %0 = input 0 : (1, 3, 0)
        %1 = add %0, %0 : (1, 3, 0)
        %2 = neg %1 : (1, 3, 0)
        %3 = mul %2, %2 : (1, 7, 0)
        %4 = neg %0 : (1, 3, 0)
        %5 = mul %4, %4 : (1, 7, 0)
        %6 = sum %1, %1, %2 << 1 : (1, 3, 0)
        out %3
        out %5
        out %6
        out %2
    ";
    let program = text::read(source, "x").unwrap().0;
    let converted = convert(&program, Dialect::D1).unwrap();
    check(1, &program, &converted);
    let mut executor = Executor::new(&converted.program).unwrap();
    assert_eq!(executor.run(&[-8.0]).unwrap(), [256.0, 64.0, 0.0, 16.0]);
}

fn expect(case: &Case, program: &Program) {
    let mut executor = Executor::new(program).unwrap();
    for (inputs, expected) in case.inputs.iter().zip(&case.outputs) {
        assert!(same(&executor.run(inputs).unwrap(), expected), "{}", case.name);
    }
}

#[test]
fn golden_programs_cross_the_border() {
    for case in cases(&FOLDERS) {
        let program = case.program();
        let there = in_dialect(&program, Dialect::A4);
        expect(&case, &there);
        let json = files::write_alir_json(&there).unwrap();
        expect(&case, &files::read_json(&json, false).unwrap().pipeline.stages[0]);
        let back = in_dialect(&there, Dialect::D1);
        expect(&case, &back);
        // Every negation is folded again, but for those of bits, which depend on the width.
        let has_bits = |o: &quincunx_dais::program::Operation| {
            matches!(o.inst, Inst::BitsNegated { .. } | Inst::QuantiseNegated { .. })
        };
        if !program.operations.iter().any(has_bits) {
            assert_eq!(back, program, "{}", case.name);
        }
    }
    for case in cases(&["alir4"]) {
        let program = case.program();
        let there = in_dialect(&program, Dialect::D1);
        expect(&case, &there);
        expect(&case, &in_dialect(&there, Dialect::A4));
    }
}

fn converted(body: &str, dialect: Dialect) -> String {
    let source = format!(".dais\n.inputs 2\n{body}");
    let program = text::read(&source, "x").unwrap().0;
    let printed = text::print(&in_dialect(&program, dialect));
    printed.strip_prefix(".dais\n.inputs 2\n").unwrap().to_owned()
}

const INPUTS: &str = "%0 = input 0 : (1, 3, 2)\n%1 = input 1 : (1, 2, 0)\n";

#[test]
fn negations_are_folded_into_their_readers() {
    for (readers, folded) in [
        ("%3 = relu %2 : (0, 3, 1)\nout %3\n", "%2 = relu -%0 : (0, 3, 1)\nout %2\n"),
        ("%3 = sub %1, %2 : (1, 6, 2)\nout %3\n", "%2 = add %1, %0 : (1, 6, 2)\nout %2\n"),
        ("%3 = add %2, %1 : (1, 6, 2)\nout %3\n", "%2 = sub %1, %0 : (1, 6, 2)\nout %2\n"),
        (
            "%3 = mux %1, %0, %2 << 1 : (1, 9, 3)\nout %3 << 1\n",
            "%2 = mux %1, %0, -%0 << 1 : (1, 9, 3)\nout %2 << 1\n",
        ),
        ("%3 = bits.or %2, %1 : (1, 6, 2)\nout %3\n", "%2 = bits.or -%0, %1 : (1, 6, 2)\nout %2\n"),
        ("out %2 << -1\n", "out -%0 << -1\n"),
        ("out -%2\n", "out %0\n"),
        // Nothing negates here; a quantiser to the full type does.
        (
            "%3 = mul %2, %1 : (1, 9, 2)\nout %3\nout %2\n",
            "%2 = quantise -%0 : (1, 4, 2)\n%3 = mul %2, %1 : (1, 9, 2)\nout %3\nout %2\n",
        ),
        (
            "%3 = sub %2, %1 : (1, 6, 2)\nout %3\n",
            "%2 = quantise -%0 : (1, 4, 2)\n%3 = sub %2, %1 : (1, 6, 2)\nout %3\n",
        ),
    ] {
        // A mux may shift one branch only.
        let fine =
            |text: &str| text.replace("(1, 3, 2)", "(1, 3, 3)").replace("(1, 4, 2)", "(1, 4, 3)");
        let start = format!("{INPUTS}%2 = neg %0 : (1, 4, 2)\n");
        let is_mux = readers.contains("mux");
        let (start, inputs) = match is_mux {
            true => (fine(&start), fine(INPUTS)),
            false => (start, INPUTS.to_owned()),
        };
        let body = format!("{start}{readers}");
        assert_eq!(converted(&body, Dialect::D1), format!("{inputs}{folded}"));
    }
}

#[test]
fn sums_and_scales_become_steps_of_da4ml() {
    for (alkaid, da4ml) in [
        (
            "%2 = sum -%0 << 2, %1, %1 << -1 : (1, 8, 2)\nout %2\n",
            "%2 = sub %1, %0 << 2 : [-35, 35, 1]\n%3 = add %2, %1 << -1 : (1, 8, 2)\nout %3\n",
        ),
        (
            "%2 = sum -%0, -%1, %0 << 1 : (1, 6, 2)\nout %2\n",
            "%2 = const 0 : [0, 0, 1]\n%3 = sub %2, %0 : [-7.75, 8, 0.25]\n\
             %4 = sub %3, %1 : [-10.75, 12, 0.25]\n%5 = add %4, %0 << 1 : (1, 6, 2)\nout %5\n",
        ),
        (
            "%2 = add_scaled %1, -3 >> 1 : (1, 4, 1)\nout %2\n",
            "%2 = add_const %1, -3 : (1, 4, 1)\nout %2\n",
        ),
        (
            "%2 = add_scaled %1, -3 >> 1 : (1, 4, 0)\nout %2\n",
            "%2 = add_const %1, -2 : (1, 4, 0)\nout %2\n",
        ),
        (
            "%2 = add_scaled %0, 3 >> 1 : (1, 4, 0)\nout %2\n",
            "%2 = const 3 : [1.5, 1.5, 0.5]\n%3 = add %0, %2 : (1, 4, 0)\nout %3\n",
        ),
        (
            "%2 = rescale %0 << -2 : (1, 1, 1)\nout %2\n",
            "%2 = const 0 : [0, 0, 1]\n%3 = add %2, %0 << -2 : [-2, 1.9375, 0.0625]\n\
             %4 = quantise %3 : (1, 1, 1)\nout %4\n",
        ),
    ] {
        let found = converted(&format!("{INPUTS}{alkaid}"), Dialect::D1);
        assert_eq!(found, format!("{INPUTS}{da4ml}"));
    }
}
