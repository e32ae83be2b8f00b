//! What the verifier says about values: never less than what occurs, no more where it can know, and
//! an overflow is either announced or does not happen.

use crate::common::random::program;
use crate::common::{FOLDERS, cases};
use quincunx_dais::program::{Operation, Program, SlotType};
use quincunx_dais::simulate::Executor;
use quincunx_dais::text;
use quincunx_dais::verify::{Rules, slot_ranges, verify};
use quincunx_diag::Diagnostic;
use quincunx_num::{Dyadic, Int, Kif};
use quincunx_testkit::Random;
use std::fmt::Write as _;

fn assemble(source: &str) -> Program {
    text::read(source, "x").unwrap().0
}

fn found(program: &Program, code: &str) -> Vec<Diagnostic> {
    verify(program, &Rules::default()).into_iter().filter(|p| p.code() == code).collect()
}

/// The ranges of all slots in units of their steps.
fn bounds(program: &Program) -> Vec<(i64, i64)> {
    let int = |value: &Int| i64::try_from(value).unwrap();
    slot_ranges(program).unwrap().iter().map(|r| (int(r.low()), int(r.high()))).collect()
}

/// Numbers within the declared intervals of the inputs, ends included. An input that is read by
/// several operations may have several types; then any number within the first.
fn inputs(program: &Program, random: &mut Random) -> Vec<f64> {
    let mut numbers = vec![0.0; program.input_shifts.len()];
    for operation in program.operations.iter().rev() {
        let quincunx_dais::isa::Inst::Input { source } = operation.inst else { continue };
        let range = operation.slot_type.interval().unwrap();
        let count = u64::try_from(range.high() - range.low()).unwrap() + 1;
        let step = match random.below(4) {
            0 => 0,
            1 => count - 1,
            _ => random.below(count),
        };
        let value = Dyadic::new(range.low() + Int::from(step), range.exponent());
        let index = source.0 as usize;
        numbers[index] = value.to_f64() * 2f64.powi(-program.input_shifts[index]);
    }
    numbers
}

/// True if every input is read by one operation only.
fn has_one_type_per_input(program: &Program) -> bool {
    let mut seen = vec![0; program.input_shifts.len()];
    for operation in &program.operations {
        if let quincunx_dais::isa::Inst::Input { source } = operation.inst {
            seen[source.0 as usize] += 1;
        }
    }
    seen.iter().all(|&count| count <= 1)
}

#[test]
fn ranges_hold_what_occurs_and_overflows_are_announced() {
    let (mut overflows, mut silent) = (0, 0);
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let mut program = program(&mut random, 30);
        // Other intervals than the generator made, so that results leave their types.
        for operation in &mut program.operations {
            if random.below(6) == 0 {
                narrow(operation, &mut random);
            }
        }
        if quincunx_diag::any_error(&verify(&program, &Rules::default())) {
            continue;
        }
        let announced = ["Q1034", "Q1035", "Q1036", "Q1038"]
            .iter()
            .any(|code| !found(&program, code).is_empty());
        let ranges = bounds(&program);
        let mut executor = Executor::new(&program).unwrap();
        for _ in 0..10 {
            if !has_one_type_per_input(&program) {
                break;
            }
            let inputs = inputs(&program, &mut random);
            match executor.run_strict(&inputs) {
                Err(problem) if problem.code() == "Q1105" => {
                    assert!(announced, "seed {seed}: {problem}");
                    overflows += 1;
                }
                Err(problem) => assert_eq!(problem.code(), "Q1103", "seed {seed}: {problem}"),
                Ok(_) => {
                    silent += 1;
                    for (slot, value) in executor.slots().iter().enumerate() {
                        let value = i64::try_from(value).unwrap();
                        let (low, high) = ranges[slot];
                        assert!((low..=high).contains(&value), "seed {seed}, slot {slot}");
                    }
                }
            }
        }
    }
    assert!(overflows > 100 && silent > 800, "{overflows} overflows, {silent} without");
}

fn narrow(operation: &mut Operation, random: &mut Random) {
    let kif = operation.slot_type.kif();
    let less = random.range(1, 2);
    operation.slot_type = SlotType::Kif(Kif { integer: kif.integer - less, ..kif });
}

/// Sums whose terms are all different inputs: every value between the bounds occurs.
#[test]
fn ranges_of_trees_are_exact() {
    let program = assemble(
        "
        .dais
        .inputs 3
        %0 = input 0 : [-2, 3, 1]
        %1 = input 1 : [0, 1.5, 0.5]
        %2 = input 2 : [-1, 0, 1]
        %3 = sub %0, %1 << 1 : (1, 4, 0)
        %4 = add %3, %2 << -1 : (1, 4, 1)
        %5 = sum -%4, %2 << 3, -%2 : (1, 6, 1)
        %6 = add %3, %2 << -1 : (1, 4, 0)
        out %4
        out %5
        out %6
        ",
    );
    let ranges = bounds(&program);
    let mut executor = Executor::new(&program).unwrap();
    let mut seen: Vec<(Int, Int)> = vec![(1000.into(), Int::from(-1000)); 7];
    for x in -2..=3 {
        for y in 0..=3 {
            for z in -1..=0 {
                executor.run(&[x.into(), f64::from(y) / 2.0, z.into()]).unwrap();
                for (bounds, value) in seen.iter_mut().zip(executor.slots()) {
                    bounds.0 = bounds.0.clone().min(value.clone());
                    bounds.1 = bounds.1.clone().max(value.clone());
                }
            }
        }
    }
    for (slot, (low, high)) in seen.iter().enumerate().filter(|(slot, _)| *slot != 5) {
        let seen = (i64::try_from(low).unwrap(), i64::try_from(high).unwrap());
        assert_eq!(ranges[slot], seen, "slot {slot}");
    }
    // Terms that depend on each other: no less than what occurs.
    assert!(Int::from(ranges[5].0) <= seen[5].0 && Int::from(ranges[5].1) >= seen[5].1);
}

#[test]
fn terms_that_cancel_are_seen() {
    let source = "
        .dais
        .inputs 2
        %0 = input 0 : (1, 7, 0)
        %1 = input 1 : (1, 7, 0)
        %2 = add %0, %0 << 1 : (1, 9, 0)
        %3 = add %2, %1 << 3 : (1, 11, 0)
        %4 = sub %3, %0 << 1 : (1, 11, 0)
        %5 = sub %4, %1 << 3 : (1, 7, 0)
        out %5
    ";
    assert_eq!(verify(&assemble(source), &Rules::default()), []);
    assert_eq!(bounds(&assemble(source))[5], (-128, 127));
    let narrower = source.replace("<< 3 : (1, 7, 0)", "<< 3 : (1, 6, 0)");
    let problems = verify(&assemble(&narrower), &Rules::default());
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].code(), "Q1036");
    assert_eq!(problems[0].message(), "`sub` may overflow: its results are -128 to 127");
    assert!(problems[0].notes().iter().any(|n| n.contains("(1, 6, 0) holds -64 to 63")));
    assert_eq!(
        problems[0].help_text(),
        Some("type (1, 7, 0) holds all of them; quantise to drop bits on purpose")
    );
}

/// The sum of 256 inputs, and half of it many times over, each in the narrowest type: to
/// write all of these as sums of inputs would take too long.
#[test]
fn exact_operands_prove_what_follows() {
    const INPUTS: usize = 256;
    let mut source = format!(".dais\n.inputs {INPUTS}\n");
    for input in 0..INPUTS {
        writeln!(source, "%{input} = input {input} : [-3, 3, 1]").unwrap();
    }
    let mut next = INPUTS;
    for index in 0..INPUTS - 1 {
        let terms = next - INPUTS + 2;
        let left = if index == 0 { 0 } else { next - 1 };
        let most = 3 * terms;
        writeln!(source, "%{next} = add %{left}, %{} : [-{most}, {most}, 1]", index + 1).unwrap();
        next += 1;
    }
    let sum = next - 1;
    let most = 3 * INPUTS / 2;
    for _ in 0..1000 {
        writeln!(source, "%{next} = sub %{sum}, %{sum} << -1 : [-{most}, {most}, 0.5]").unwrap();
        writeln!(source, "out %{next}").unwrap();
        next += 1;
    }
    assert_eq!(verify(&assemble(&source), &Rules::default()), []);
}

/// Dialects without negation write it as a quantiser that drops nothing, and shifts of a whole sum
/// as a sum with zero.
#[test]
fn quantisers_and_zeros_that_change_nothing_are_seen_through() {
    let source = "
        .dais
        .inputs 1
        %0 = input 0 : [0, 255, 1]
        %1 = add_const %0, -100 : [-100, 155, 1]
        %2 = quantise -%1 : [-155, 100, 1]
        %3 = const -100 : [-100, -100, 1]
        %4 = mux %2, %3, -%0 : [-255, 0, 1]
        %5 = add %4, %4 : (1, 8, 0)
        %6 = const 0 : [0, 0, 1]
        %7 = add %6, %0 << 1 : [0, 510, 2]
        %8 = sub %7, %0 << 1 : (0, 1, 0)
        out %5
        out %8
    ";
    assert_eq!(verify(&assemble(source), &Rules::default()), []);
    assert_eq!(bounds(&assemble(source))[4], (-100, 0));
    let lossy =
        source.replace("%2 = quantise -%1 : [-155, 100, 1]", "%2 = quantise -%1 : (1, 7, 0)");
    assert_eq!(found(&assemble(&lossy), "Q1036").len(), 1);
}

#[test]
fn stages_know_what_the_stage_before_gives() {
    // The second stage declares more than the first can give.
    let source = "
        .dais
        .inputs 1
        %0 = input 0 : [0, 3, 1]
        out %0 << 1
        .stage
        .inputs 1
        %0 = input 0 : (0, 4, 0)
        %1 = add %0, %0 : (0, 4, 0)
        out %1
    ";
    let pipeline = text::parse(source, quincunx_diag::SourceId(0)).unwrap();
    let rules = Rules::default();
    assert_eq!(quincunx_dais::verify::verify_pipeline(&pipeline, &rules), []);
    assert_eq!(found(&pipeline.stages[1], "Q1036").len(), 1);
}

#[test]
fn dead_operations_are_reported_together() {
    let program = assemble(
        "
        .dais
        .inputs 2
        %0 = input 0 : (1, 3, 0)
        %1 = input 1 : (1, 3, 0)
        %2 = add %0, %0 : (1, 4, 0)
        %3 = neg %2 : (1, 5, 0)
        %4 = relu %0 : (0, 3, 0)
        out %4
        ",
    );
    let problems = verify(&program, &Rules::default());
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].code(), "Q1037");
    assert_eq!(problems[0].message(), "2 of 5 operations: no output needs them");
    assert_eq!(problems[0].notes(), ["%2, %3"]);
}

/// The peers' programs are proved free of overflows, but for those of random operations.
#[test]
fn programs_of_tracers_cannot_overflow() {
    for case in cases(&FOLDERS).into_iter().chain(cases(&["alir4"])) {
        if case.name.starts_with("traced") || case.name.starts_with("alir4") {
            let problems = found(&case.program(), "Q1036");
            assert_eq!(problems, [], "{}", case.name);
        }
    }
}

/// An operand beyond the numbers of a machine word reads all entries.
#[test]
fn wide_operands_read_whole_tables() {
    for (operand, expected) in [("(0, 66, 0)", (-3, 9)), ("(0, 1, 0)", (1, 9))] {
        let program = assemble(&format!(
            ".dais\n.inputs 1\n.table 0\n.values 1, 9, -3\n%0 = input 0 : {operand}\n\
             %1 = lookup %0, table 0 : (1, 4, 0)\nout %1\n"
        ));
        let range = &slot_ranges(&program).unwrap()[1];
        let ends = (i64::try_from(range.low()).unwrap(), i64::try_from(range.high()).unwrap());
        assert_eq!(ends, expected, "{operand}");
    }
}

/// Comparisons of every kind decide between their operands; all inputs are tried.
#[test]
fn comparisons_bound_the_branches() {
    let conditions = [
        "add %0, %1",
        "sub %0, %1",
        "sub %1, %0 << 1",
        "sub %0, %1 << -1",
        "add_const %0, -5",
        "add_const %1, 3",
        "add_scaled %0, 3 >> 2",
        "neg %0",
        "sum -%0, %1 << 1, %1",
        "quantise %0",
        "sub %0, %0 << 2",
        "add_scaled %1, -1 >> 1",
    ];
    let mut exact = 0;
    for condition in conditions {
        for choice in 0..32 {
            let (set, clear, sign) = (choice % 4, choice / 4 % 4, ["", "-"][choice / 16]);
            let source = format!(
                ".dais\n.inputs 2\n%0 = input 0 : (1, 1, 2)\n%1 = input 1 : (1, 1, 2)\n\
                 %2 = neg %0 : (1, 2, 2)\n%3 = {condition} : (1, 6, 2)\n\
                 %4 = mux %3, %{set}, {sign}%{clear} : (1, 7, 2)\nout %4\n"
            );
            let program = assemble(&source);
            let (low, high) = bounds(&program)[4];
            let mut executor = Executor::new(&program).unwrap();
            let (mut least, mut most) = (i64::MAX, i64::MIN);
            for x in -8..8 {
                for y in -8..8 {
                    executor.run(&[f64::from(x) / 4.0, f64::from(y) / 4.0]).unwrap();
                    let value = i64::try_from(&executor.slots()[4]).unwrap();
                    assert!((low..=high).contains(&value), "{value} in\n{source}");
                    (least, most) = (least.min(value), most.max(value));
                }
            }
            exact += usize::from((low, high) == (least, most));
        }
    }
    assert!(exact > 150, "{exact} ranges are exact");
}

/// The least and greatest of two numbers and clipping, written as tracers write them.
#[test]
fn clipping_is_exact() {
    let program = assemble(
        "
        .dais
        .inputs 2
        %0 = input 0 : (1, 3, 0)
        %1 = input 1 : [-2, 3, 1]
        %2 = sub %0, %1 : (1, 4, 0)
        %3 = mux %2, %0, %1 : (1, 3, 0)
        %4 = mux %2, %1, %0 : (1, 3, 0)
        %5 = mux %0, %0, -%0 : (1, 4, 0)
        %6 = add_const %0, -5 : (1, 4, 0)
        %7 = const 5 : (0, 3, 0)
        %8 = mux %6, %0, %7 : (1, 3, 0)
        out %3
        ",
    );
    let found = bounds(&program);
    assert_eq!(found[3], (-8, 3), "the smaller");
    assert_eq!(found[4], (-2, 7), "the larger");
    assert_eq!(found[5], (-8, 0), "minus the magnitude");
    assert_eq!(found[8], (-8, 5), "at most 5");
}
