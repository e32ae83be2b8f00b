//! 1,000 seeded corruptions of valid programs: each is rejected, or reported, or does no harm.
//!
//! Harmless is a program that keeps the rules: strict runs, within the declared intervals of the
//! inputs, find no result outside its type, no lookup outside its table, and the same outputs come
//! out of every form the program can be written in.

use crate::common::random::program;
use crate::common::{Case, cases, same};
use quincunx_dais::binary::{self, Dialect, ReadOptions, convert};
use quincunx_dais::files::Pipeline;
use quincunx_dais::isa::Inst;
use quincunx_dais::program::{InputIndex, Program, Slot, SlotType, TableIndex};
use quincunx_dais::simulate::Executor;
use quincunx_dais::text;
use quincunx_dais::verify::{Rules, verify, verify_pipeline};
use quincunx_diag::{Diagnostic, any_error};
use quincunx_num::{Dyadic, Int, Kif};
use quincunx_testkit::{Random, Verdict, campaign};

/// Problems that say that values may leave their types or tables.
const ABOUT_VALUES: [&str; 6] = ["Q1022", "Q1034", "Q1035", "Q1036", "Q1038", "Q1039"];

fn base(random: &mut Random, golden: &[Case]) -> Program {
    match random.below(3) {
        0 => golden[random.below(golden.len())].program(),
        _ => program(random, 30),
    }
}

/// Changes one thing; the name of what was changed, and whether that breaks a rule for sure.
fn corrupt(program: &mut Program, random: &mut Random) -> (&'static str, bool) {
    let count = program.operations.len() as u64;
    let index = random.below(count) as usize;
    let later = Slot(index as u32 + random.below(5) as u32);
    let inputs = program.input_shifts.len() as u32;
    let operation = &mut program.operations[index];
    let kif = operation.slot_type.kif();
    match random.below(10) {
        0 if operation.inst.operands().count() > 0 => {
            operation.inst = operation.inst.map_operands(|_| later);
            ("a later slot", true)
        }
        1 => {
            operation.inst = Inst::Input { source: InputIndex(inputs + random.below(9) as u32) };
            ("no such input", true)
        }
        2 => {
            let table = TableIndex(program.tables.len() as u32);
            operation.inst = Inst::Lookup { x: Slot(0), table, pad: 0 };
            ("no such table", true)
        }
        3 if !program.outputs.is_empty() => {
            let output = random.below(program.outputs.len() as u64) as usize;
            program.outputs[output].source = Some(Slot(count as u32 + random.below(3) as u32));
            ("no such slot", true)
        }
        4 => {
            let (min, max, step) =
                [(0.0, 3.0, 0.3), (3.0, 1.0, 1.0), (0.1, 1.0, 0.5), (0.0, f64::INFINITY, 1.0)]
                    [random.below(4) as usize];
            operation.slot_type = SlotType::Interval { min, max, step };
            ("no interval", true)
        }
        5 => {
            operation.slot_type = SlotType::Kif(Kif::new(true, 70, 3));
            ("a wide type", true)
        }
        6 if !program.tables.is_empty() => {
            let table = random.below(program.tables.len() as u64) as usize;
            let length = program.tables[table].values.len();
            program.tables[table].values.truncate(random.below(length as u64) as usize);
            ("a shorter table", false)
        }
        7 => {
            let slots = index.max(1) as u64;
            let mut slot = || Slot(random.below(slots) as u32);
            operation.inst = operation.inst.map_operands(|_| slot());
            ("other operands", index == 0 && operation.inst.operands().count() > 0)
        }
        8 => {
            let fraction = kif.fraction + random.range(-2, 2);
            operation.slot_type = SlotType::Kif(Kif { fraction, ..kif });
            ("another step", false)
        }
        _ => {
            let integer = kif.integer - random.range(1, 3);
            let signed = kif.signed ^ (random.below(4) == 0);
            operation.slot_type = SlotType::Kif(Kif { integer, signed, ..kif });
            ("a smaller type", false)
        }
    }
}

/// Numbers within the declared interval of the operation that reads an input last.
fn inputs(program: &Program, random: &mut Random) -> Vec<f64> {
    let mut numbers = vec![0.0; program.input_shifts.len()];
    for operation in &program.operations {
        let Inst::Input { source } = operation.inst else { continue };
        let range = operation.slot_type.interval().unwrap();
        let last = u64::try_from(range.high() - range.low()).unwrap_or(u64::MAX - 1);
        let step = [0, last, random.below(last + 1)][random.below(3) as usize];
        let value = Dyadic::new(range.low() + Int::from(step), range.exponent()).to_f64();
        numbers[source.0 as usize] = value * 2f64.powi(-program.input_shifts[source.0 as usize]);
    }
    numbers
}

/// Inputs that several operations read may leave the interval of one of them.
fn reads_inputs_once(program: &Program) -> bool {
    let mut readers = vec![0; program.input_shifts.len()];
    for operation in &program.operations {
        if let Inst::Input { source } = operation.inst {
            readers[source.0 as usize] += 1;
        }
    }
    readers.iter().all(|&count| count < 2)
}

fn says(problems: &[Diagnostic], codes: &[&str]) -> bool {
    problems.iter().any(|problem| codes.contains(&problem.code()))
}

/// What is wrong with a program that `verify` has let pass.
fn harm(program: &Program, problems: &[Diagnostic], random: &mut Random) -> Option<String> {
    let mut executor = match Executor::new(program) {
        Ok(executor) => executor,
        Err(problem) => return Some(format!("cannot be run: {problem}")),
    };
    let d1 = convert(program, Dialect::D1).unwrap().program;
    let bytes = binary::write(&d1, Dialect::D1).unwrap();
    let read = binary::read(&bytes, &ReadOptions::default()).unwrap().program;
    let mut others = [
        Executor::new(&text::read(&text::print(program), "x").unwrap().0).unwrap(),
        Executor::new(&convert(program, Dialect::A4).unwrap().program).unwrap(),
        Executor::new(&read).unwrap(),
    ];
    for _ in 0..8 {
        let sample = inputs(program, random);
        match executor.run_strict(&sample) {
            Err(problem) if says(problems, &ABOUT_VALUES) => drop(problem),
            Err(_) if !reads_inputs_once(program) => {}
            Err(problem) => return Some(problem.to_string()),
            Ok(outputs) => {
                for other in &mut others {
                    if !same(&other.run(&sample).unwrap(), &outputs) {
                        return Some("another form gives other outputs".to_owned());
                    }
                }
            }
        }
    }
    None
}

#[test]
fn no_corruption_is_missed() {
    let golden = cases(&["ops", "fuzz", "alir4"]);
    let mut reported = 0;
    let [rejected, harmless] = campaign(|random| {
        let mut program = base(random, &golden);
        assert!(!any_error(&verify(&program, &Rules::default())));
        let (what, breaks) = corrupt(&mut program, random);
        let problems = verify(&program, &Rules::default());
        if any_error(&problems) {
            return Some(Verdict::Rejected);
        }
        let harm = harm(&program, &problems, random);
        Some(match harm.or_else(|| breaks.then(|| "accepted".to_owned())) {
            Some(harm) => Verdict::Missed(format!("{what}: {harm}")),
            None => {
                reported += usize::from(says(&problems, &ABOUT_VALUES));
                Verdict::Harmless
            }
        })
    });
    assert!(rejected > 500 && reported > 50 && harmless > 100, "{rejected} {reported} {harmless}");
}

/// The numbers of ports of two stages that do not fit.
#[test]
fn stages_that_do_not_fit_are_rejected() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let (first, second) = (program(&mut random, 12), program(&mut random, 12));
        let fits = first.outputs.len() == second.input_shifts.len();
        let pipeline = Pipeline { stages: vec![first, second] };
        let problems = verify_pipeline(&pipeline, &Rules::default());
        assert_eq!(says(&problems, &["Q1040"]), !fits, "seed {seed}");
    }
}
