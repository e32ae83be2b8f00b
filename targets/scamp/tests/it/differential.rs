//! The simulator against the second one of these tests, and its errors of the device.

use crate::common::reference::Reference;
use crate::common::{
    Images, Random, generous, is_condition, legal_instruction, parse, reg, rows, scamp5,
};
use quincunx_num::Ratio;
use quincunx_scamp::isa::{Class, Gate, Inst, Reg, TABLE};
use quincunx_scamp::program::{Program, Space, access};
use quincunx_scamp::simulate::{Executor, Noise, Outcome, Settings, WorkLimit};

const WIDTH: usize = 5;
const HEIGHT: usize = 4;
const ANALOGUE: [&str; 9] = ["A", "B", "C", "D", "E", "F", "NEWS", "PIX", "IN"];
const BITS: [&str; 14] =
    ["R0", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "SELECT"];

/// Multiples of 6! cubed, so that three divisions by up to 6 stay whole.
const UNIT: f64 = 720.0 * 720.0 * 720.0;

/// Images for every register.
fn images(random: &mut Random) -> Images {
    let size = WIDTH * HEIGHT;
    let mut list: Images = Vec::new();
    for name in ANALOGUE {
        let image = random.codes(size).into_iter().map(|v| v * UNIT).collect();
        list.push(((Space::Analogue, reg(name)), image));
    }
    for name in BITS {
        list.push(((Space::Digital, reg(name)), random.bits(size)));
    }
    list
}

fn reference(images: &Images) -> Reference {
    let mut reference = Reference::new(WIDTH, HEIGHT);
    for ((space, register), image) in images {
        for (at, &value) in reference.elements().zip(image) {
            match space {
                Space::Analogue => {
                    let exact = Ratio::try_from(value).unwrap();
                    drop(reference.values.insert((*register, at), exact));
                }
                Space::Digital => drop(reference.bits.insert((*register, at), value != 0.0)),
            }
        }
    }
    reference
}

/// True if every register of every element is the same in both.
fn same(outcome: &Outcome, reference: &Reference) -> bool {
    let analogue = ANALOGUE.iter().all(|name| {
        let Some(found) = outcome.register((Space::Analogue, reg(name))) else { return true };
        reference
            .elements()
            .zip(found)
            .all(|(at, found)| reference.value(reg(name), at).to_f64().value() == found)
    });
    let bits = BITS.iter().chain(&["FLAG"]).all(|name| {
        let Some(found) = outcome.register((Space::Digital, reg(name))) else { return true };
        reference
            .elements()
            .zip(found)
            .all(|(at, found)| reference.bit(reg(name), at) == (found != 0.0))
    });
    analogue && bits
}

/// Two random instructions without conditions, then one of a row.
fn program_with(row: usize, random: &mut Random) -> Program {
    let list: Vec<usize> = rows().collect();
    let mut instructions = Vec::new();
    while instructions.len() < 2 {
        let other = list[random.below(list.len() as u64) as usize];
        let inst = legal_instruction(other, random);
        if !is_condition(&inst) {
            instructions.push(inst);
        }
    }
    instructions.push(legal_instruction(row, random));
    Program::new(instructions)
}

fn executor(program: &Program) -> Executor {
    Executor::new(program, &generous(), WIDTH, HEIGHT, Settings::default()).unwrap()
}

#[test]
fn every_instruction_agrees() {
    let mut random = Random::new(21);
    for row in rows() {
        for _ in 0..25 {
            let program = program_with(row, &mut random);
            let images = images(&mut random);
            let mut reference = reference(&images);
            program.instructions.iter().for_each(|inst| reference.step(inst));
            let outcome = executor(&program).run(&images).unwrap();
            assert!(same(&outcome, &reference), "{:?}", program.instructions);
        }
    }
}

/// Bus steps where some elements have no FLAG, and results that are not floats.
#[test]
fn masks_and_fractions() {
    let mut random = Random::new(22);
    let steps: Vec<usize> = rows()
        .filter(|&row| {
            let name = TABLE.rows[row].name;
            name.starts_with("Bus") || ["Where", "WhereBit", "Move", "Or"].contains(&name)
        })
        .collect();
    let mut fractions = 0;
    for _ in 0..300 {
        let row = |random: &mut Random| steps[random.below(steps.len() as u64) as usize];
        let instructions: Vec<Inst> = (0..8)
            .map(|_| {
                let row = row(&mut random);
                legal_instruction(row, &mut random)
            })
            .collect();
        let program = Program::new(instructions);
        let mut images = images(&mut random);
        images.iter_mut().flat_map(|(_, image)| image).for_each(|v| *v /= UNIT);
        let mut reference = reference(&images);
        program.instructions.iter().for_each(|inst| reference.step(inst));
        let outcome = executor(&program).run(&images).unwrap();
        assert!(same(&outcome, &reference), "{:?}", program.instructions);
        fractions += usize::from(outcome.used_fractions);
    }
    assert!(fractions > 20, "{fractions}");
}

/// A wrong result of any instruction is noticed by the comparison above.
#[test]
fn every_planted_fault_is_noticed() {
    let mut random = Random::new(23);
    for row in rows() {
        let noticed = (0..25).any(|_| {
            let program = program_with(row, &mut random);
            let images = images(&mut random);
            let mut reference = reference(&images);
            program.instructions.iter().for_each(|inst| reference.step(inst));
            let executor = executor(&program);
            let target = target(&program.instructions[2]);
            let Some((space, plane)) = target.and_then(|t| Some((t.0, executor.plane(t)?))) else {
                return false;
            };
            let outcome = executor.run_with(&images, &mut |index, planes| match space {
                _ if index != 2 => {}
                Space::Analogue => planes.analogue[plane][7] += 1.0,
                Space::Digital => planes.digital[plane][7] ^= true,
            });
            !same(&outcome.unwrap(), &reference)
        });
        // An instruction without effect has no result that could be wrong.
        let is_idle = TABLE.rows[row].name == "Refresh";
        assert_eq!(noticed, !is_idle, "{}", TABLE.rows[row].name);
    }
}

/// A register that an instruction writes.
fn target(inst: &Inst) -> Option<(Space, Reg)> {
    match (inst.class(), inst) {
        (Class::Condition | Class::All | Class::Digital(Gate::Where | Gate::All), _) => {
            Some((Space::Digital, Reg::FLAG))
        }
        (_, Inst::SelectPattern { .. }) => Some((Space::Digital, reg("SELECT"))),
        _ => access(inst).writes.into_iter().next(),
    }
}

fn run(source: &str, settings: Settings, value: f64) -> Outcome {
    let mut program = parse(source);
    program.inputs = Some(vec![reg("A")]);
    let executor = Executor::new(&program, &scamp5(), 16, 16, settings).unwrap();
    executor.run(&[((Space::Analogue, reg("A")), vec![value; 256])]).unwrap()
}

fn values(outcome: &Outcome, name: &str) -> Vec<f64> {
    outcome.register((Space::Analogue, reg(name))).unwrap()
}

#[test]
fn saturation_stops_and_is_counted() {
    let settings = Settings { saturation: Some(128.0), ..Settings::default() };
    let outcome = run("mov(B, A); add(C, A, B); neg(D, C)", settings, 100.0);
    assert_eq!(values(&outcome, "C"), [128.0; 256]);
    assert_eq!(values(&outcome, "D"), [-128.0; 256]);
    assert_eq!(outcome.saturated, 256);
}

/// The five steps of div cancel the mismatch of the registers in both halves; divq keeps it.
#[test]
fn div_corrects_the_mismatch() {
    let noise = Noise::of_mismatch(1.0, 4);
    let settings = Settings { noise: Some(noise), ..Settings::default() };
    let outcome = run("div(B, C, D, A); divq(E, A)", settings, 50.0);
    let off = |name: &str, ideal: f64| {
        values(&outcome, name).iter().map(|v| (v - ideal).abs()).fold(0.0, f64::max)
    };
    assert!(off("B", 25.0) < 1e-9 && off("C", -25.0) < 1e-9);
    assert!(off("D", 50.0) > 0.1 && off("E", 25.0) > 0.1);
}

#[test]
fn arrays_that_are_too_large() {
    let program = parse("res(A)");
    let new = |width| Executor::new(&program, &scamp5(), width, 1 << 13, Settings::default());
    assert_eq!(new(1 << 13).unwrap_err().code(), "Q5060");
    assert_eq!(new(0).unwrap_err().code(), "Q5060");
    // What a run may cost has a limit, which the help says how to raise.
    let long = parse(&"bus(A, B, C);".repeat(1000));
    let limited = |millions: u64| {
        let work = WorkLimit(millions * 1_000_000);
        Executor::new(&long, &scamp5(), 256, 256, Settings { work, ..Settings::default() })
    };
    let refused = limited(10).unwrap_err();
    assert_eq!(refused.code(), "Q5060");
    assert!(refused.help_text().is_some_and(|help| help.contains("--max-work")));
    assert!(limited(400).is_ok_and(|executor| executor.check_runs(2).is_err()));
    let thirds = parse("bus3(B, C, D, A)");
    let executor = Executor::new(&thirds, &scamp5(), 1024, 1024, Settings::default()).unwrap();
    let inputs = [((Space::Analogue, reg("A")), vec![1.0; 1 << 20])];
    assert_eq!(executor.run(&inputs).unwrap_err().code(), "Q5062");
    // Fractions that grow with every step are not followed for long.
    let growing = parse(&"bus3(B, C, D, A); bus2(A, E, B);".repeat(20_000));
    let work = WorkLimit(20_000_000);
    let settings = Settings { work, ..Settings::default() };
    let small = Executor::new(&growing, &scamp5(), 2, 2, settings).unwrap();
    let problem = small.run(&[((Space::Analogue, reg("A")), vec![1.0; 4])]).unwrap_err();
    assert_eq!(problem.code(), "Q5062");
    assert!(problem.help_text().is_some_and(|help| help.contains("--max-work")));
    assert_eq!(executor.run(&[(inputs[0].0, vec![1.0])]).unwrap_err().code(), "Q5061");
}
