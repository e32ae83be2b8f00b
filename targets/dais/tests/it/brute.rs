//! Small programs of any kind on all inputs: types, shifts and operands are drawn with no regard for
//! what fits, so that results leave their types, widths are 0 and lookups miss their tables.

use crate::common::same;
use quincunx_dais::binary::{self, Dialect, ReadOptions, convert};
use quincunx_dais::files;
use quincunx_dais::isa::{Inst, TABLE, layout};
use quincunx_dais::program::{
    InputIndex, LookupTable, Operation, Output, Program, Slot, SlotType, TableIndex,
};
use quincunx_dais::simulate::{Executor, Fast};
use quincunx_dais::text;
use quincunx_dais::verify::{Rules, slot_ranges, verify};
use quincunx_diag::{Diagnostic, Place, any_error};
use quincunx_isa::Coverage;
use quincunx_num::{Int, Interval, Kif, Level};
use quincunx_testkit::Random;
use std::num::NonZeroUsize;

const PROGRAMS: u64 = 3000;

/// Operations of a program: few enough that messages name all of them.
const LENGTH: usize = 8;

fn is_legal(program: &Program) -> bool {
    let rules = Rules { values: false, ..Rules::EXECUTABLE };
    !any_error(&verify(program, &rules))
}

/// A legal program; its two inputs have a few values each.
fn wild(random: &mut Random) -> Program {
    let table = (0..1 + random.below(9)).map(|_| random.range(-5, 5)).collect();
    let table = LookupTable { values: table, range: None, operand_width: None, hash: None };
    let mut program = Program {
        input_shifts: vec![random.range(-1, 1), 0],
        tables: vec![table],
        adder_size: 1,
        carry_size: -1,
        ..Program::default()
    };
    while program.operations.len() < LENGTH {
        let index = program.operations.len() as u32;
        let inst = match index {
            0 | 1 => Inst::Input { source: InputIndex(index) },
            _ => instruction(random, index.into()),
        };
        let slot_type = slot_type(random);
        program.operations.push(Operation { inst, slot_type, latency: 0.0, cost: 0.0 });
        if !is_legal(&program) {
            program.operations.pop();
        }
    }
    for slot in 0..LENGTH as u32 {
        let (shift, negate) = (random.range(-2, 2), random.below(3) == 0);
        program.outputs.push(Output { source: Some(Slot(slot)), shift, negate });
    }
    program
}

/// Inputs are read once, so that intervals of two operations do not contradict each other.
fn instruction(random: &mut Random, index: u64) -> Inst {
    loop {
        let raw = TABLE.random(&mut |n| random.below(n), layout());
        let drawn =
            Inst::from_raw(&raw).unwrap().map_operands(|_| Slot(random.below(index) as u32));
        let mut small = || random.range(-3, 3);
        return match drawn {
            Inst::Input { .. } => continue,
            Inst::Add { a, b, .. } => Inst::Add { a, b, shift: small().into() },
            Inst::Sub { a, b, .. } => Inst::Sub { a, b, shift: small().into() },
            Inst::AddConstant { x, .. } => Inst::AddConstant { x, value: small().into() },
            Inst::Constant { .. } => Inst::Constant { value: small().into() },
            Inst::Mux { condition, when_set, when_clear, .. } => {
                Inst::Mux { condition, when_set, when_clear, shift: small() }
            }
            Inst::MuxNegated { condition, when_set, when_clear, .. } => {
                Inst::MuxNegated { condition, when_set, when_clear, shift: small() }
            }
            Inst::Lookup { x, .. } => Inst::Lookup { x, table: TableIndex(0), pad: small() },
            Inst::Bitwise { a, b, negate_a, negate_b, op, .. } => {
                Inst::Bitwise { a, b, shift: small(), negate_a, negate_b, op }
            }
            Inst::QuantiseShifted { x, .. } => Inst::QuantiseShifted { x, shift: small().into() },
            Inst::AddScaled { x, .. } => {
                Inst::AddScaled { x, value: small().into(), scale: small() }
            }
            Inst::Sum { a, b, c, negate_a, negate_b, negate_c, .. } => {
                let [shift_a, shift_b, shift_c] = [small(), small(), small()];
                Inst::Sum { a, b, c, shift_a, shift_b, shift_c, negate_a, negate_b, negate_c }
            }
            other => other,
        };
    }
}

fn slot_type(random: &mut Random) -> SlotType {
    let signed = random.below(2) == 1;
    let kif = Kif::new(signed, random.range(-1, 3), random.range(-1, 2));
    let (low, high) = kif.range();
    let count = u64::try_from(&high - &low).unwrap() + 1;
    if random.below(2) == 0 {
        return SlotType::Kif(kif);
    }
    let bound = |at: u64| &low + Int::from(at);
    let [a, b] = [0, 1].map(|_| random.below(count));
    SlotType::of_interval(&Interval::new(bound(a.min(b)), bound(a.max(b)), -kif.fraction))
}

/// All inputs within the declared intervals.
fn samples(program: &Program) -> Vec<Vec<f64>> {
    let values = |slot: usize| -> Vec<f64> {
        let range = program.operations[slot].slot_type.interval().unwrap();
        let (low, high) =
            (i64::try_from(range.low()).unwrap(), i64::try_from(range.high()).unwrap());
        let unit = 2f64.powi(range.exponent() - program.input_shifts[slot]);
        (low..=high).map(|value| value as f64 * unit).collect()
    };
    let (a, b) = (values(0), values(1));
    a.iter().flat_map(|&a| b.iter().map(move |&b| vec![a, b])).collect()
}

/// Operations that warnings about values speak of.
fn announced(problems: &[Diagnostic]) -> Vec<usize> {
    let codes = ["Q1034", "Q1035", "Q1036"];
    let mut slots = Vec::new();
    for problem in problems.iter().filter(|problem| codes.contains(&problem.code())) {
        match problem.place() {
            Some(Place::Instruction(index)) => slots.push(*index),
            _ => {
                let named = problem.notes()[0].split(", ");
                slots.extend(named.map(|slot| slot[1..].parse::<usize>().unwrap()));
            }
        }
    }
    slots
}

fn place(problem: &Diagnostic) -> usize {
    match problem.place() {
        Some(Place::Instruction(index)) => *index,
        _ => panic!("{problem}"),
    }
}

/// The first result that leaves its type on some input is one that `verify` warned of, a lookup
/// that misses its table is one that it named, and what stays within the types is within the ranges.
#[test]
fn no_proof_is_wrong() {
    let mut coverage = Coverage::new(&TABLE);
    let (mut overflows, mut outside, mut clean) = (0, 0, 0);
    for seed in 0..PROGRAMS {
        let program = wild(&mut Random::new(seed));
        program.operations.iter().for_each(|operation| coverage.mark(operation.inst.row()));
        let problems = verify(&program, &Rules { values: true, ..Rules::EXECUTABLE });
        let warned = announced(&problems);
        // Here programs rely on declared intervals of results; all inputs are the declared ones.
        let trusts = problems.iter().any(|problem| problem.code() == "Q1038");
        let reads_outside = problems.iter().any(|problem| problem.code() == "Q1039");
        let ranges = slot_ranges(&program).unwrap();
        let mut executor = Executor::new(&program).unwrap();
        let mut is_clean = true;
        for sample in samples(&program) {
            let shown = || format!("seed {seed}, {sample:?}\n{}", text::print(&program));
            match executor.run_strict(&sample) {
                Ok(_) => {
                    for (slot, value) in executor.slots().iter().enumerate() {
                        let fraction = program.operations[slot].slot_type.kif().fraction;
                        let range = &ranges[slot];
                        let value = quincunx_num::Dyadic::new(value.clone(), -fraction);
                        assert!(
                            range.min() <= value && value <= range.max(),
                            "%{slot} {}",
                            shown()
                        );
                    }
                }
                Err(problem) if problem.code() == "Q1105" => {
                    let slot = place(&problem);
                    assert!(warned.contains(&slot) || trusts, "{problem} {}", shown());
                    overflows += 1;
                    is_clean = false;
                }
                Err(problem) => {
                    assert_eq!(problem.code(), "Q1103");
                    assert!(reads_outside || trusts, "{problem} {}", shown());
                    outside += 1;
                    is_clean = false;
                }
            }
        }
        clean += usize::from(is_clean);
    }
    assert_eq!(coverage.missing(), Vec::<&str>::new());
    assert!(overflows > 1000 && outside > 100 && clean > 100, "{overflows} {outside} {clean}");
}

/// Numbers of every magnitude, and what are not numbers.
fn odd_samples(random: &mut Random) -> Vec<Vec<f64>> {
    const ODD: [f64; 14] = [
        0.0,
        -0.0,
        -0.1,
        5e-324,
        -5e-324,
        1e300,
        -1e300,
        f64::MAX,
        f64::MIN,
        9.3e18,
        -9.3e18,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    let mut number = || match random.below(3) {
        0 => random.float(),
        _ => ODD[random.below(ODD.len() as u64) as usize],
    };
    (0..6).map(|_| vec![number(), number()]).collect()
}

#[test]
fn fast_is_exec() {
    for seed in 0..PROGRAMS {
        let mut random = Random::new(seed);
        let program = wild(&mut random);
        let mut executor = Executor::new(&program).unwrap();
        for level in Level::available() {
            let Some(fast) = Fast::with(&program.clone().into(), &[], level).unwrap() else {
                continue;
            };
            for sample in samples(&program).into_iter().chain(odd_samples(&mut random)) {
                let found = fast.run(1, &sample, NonZeroUsize::MIN);
                match (executor.run(&sample), found) {
                    (Ok(expected), Ok(found)) => {
                        assert!(same(&found, &expected), "seed {seed}, {sample:?}: {found:?}");
                    }
                    (expected, found) => {
                        let text = |result: Result<Vec<f64>, Diagnostic>| match result {
                            Ok(numbers) => format!("{numbers:?}"),
                            Err(problem) => problem.to_string(),
                        };
                        assert_eq!(text(found), text(expected), "seed {seed}, {sample:?}");
                    }
                }
            }
        }
    }
}

/// Whatever form a program is written in gives its outputs again, results that leave their types
/// included, or is refused.
#[test]
fn every_form_means_the_same_or_is_refused() {
    let mut written = [0_u64; 6];
    for seed in 0..PROGRAMS {
        let program = wild(&mut Random::new(seed));
        for (count, (name, other)) in written.iter_mut().zip(forms(&program)) {
            let Some(other) = other else { continue };
            *count += 1;
            let shown = || format!("seed {seed}, {name}\n{}", text::print(&program));
            let mut executor = Executor::new(&program).unwrap();
            let mut again =
                Executor::new(&other).unwrap_or_else(|problem| panic!("{problem}, {}", shown()));
            for sample in samples(&program) {
                match (executor.run(&sample), again.run(&sample)) {
                    (Ok(expected), Ok(found)) => {
                        assert!(same(&found, &expected), "{found:?}, {expected:?}, {}", shown());
                    }
                    (Err(expected), Err(found)) => {
                        assert_eq!(found.code(), expected.code(), "{}", shown());
                    }
                    (expected, found) => panic!("{expected:?}, {found:?}, {}", shown()),
                }
            }
        }
    }
    // JSON has no step of types without bits, which are frequent here.
    let [text, d1, a4, both, json, alkaid] = written;
    assert_eq!([text, d1, a4, both], [PROGRAMS; 4]);
    assert!(json > 40 && alkaid > 40, "{json} {alkaid}");
}

/// The program written and read again; `None` where it was refused.
fn forms(program: &Program) -> [(&'static str, Option<Program>); 6] {
    let json = |text: String| files::read_json(&text, false).unwrap().pipeline.stages.remove(0);
    let bytes = |program: &Program, dialect| {
        let bytes = binary::write(program, dialect).ok()?;
        let options = ReadOptions { dialect: Some(dialect), lenient: false };
        Some(binary::read(&bytes, &options).unwrap().program)
    };
    let d1 = convert(program, Dialect::D1).unwrap().program;
    let a4 = convert(program, Dialect::A4).unwrap().program;
    [
        ("text", Some(text::read(&text::print(program), "x").unwrap().0)),
        ("d1", bytes(&d1, Dialect::D1)),
        ("a4", bytes(&a4, Dialect::A4)),
        ("d1 and a4", bytes(&convert(&d1, Dialect::A4).unwrap().program, Dialect::A4)),
        ("JSON of d1", files::write_json(&d1).ok().map(json)),
        ("JSON of a4", files::write_alir_json(&a4).ok().map(json)),
    ]
}
