//! Programs by other measures than their length: noise as it is simulated, ranges that hold.

use crate::common::{Random, golden, parse, program, reg, scamp5};
use quincunx_scamp::bus;
use quincunx_scamp::goal::{Bag, Goal};
use quincunx_scamp::isa::Reg;
use quincunx_scamp::program::{Program, Space};
use quincunx_scamp::search::{Effort, Measures, Objective, Settings, Wish, find, find_best};
use quincunx_scamp::simulate::{self, Executor, Noise};
use quincunx_scamp::symbolic::{Range, peak, variances};
use quincunx_scamp::task::{Task, Wanted};

fn task(rows: &[Vec<i64>], depth: u32) -> Task {
    let (a, goals) = (reg("A"), Bag(vec![Goal::from_rows(rows)]));
    let wanted = Wanted { goals, depth, inputs: vec![a], outputs: vec![a] };
    Task::new(wanted, scamp5().analogue, &scamp5()).unwrap()
}

fn settings(effort: u64) -> Settings {
    Settings { leftovers: false, effort: Effort(effort), seed: 1 }
}

fn wish(objective: Objective, range: Option<Range>) -> Wish {
    Wish { objective, sigma: [1.0, 2.0, 3.0], range }
}

/// What registers of the inner elements hold, for an image, with these settings; and how many writes
/// saturated.
fn run(
    program: &Program,
    outputs: &[Reg],
    image: &dyn Fn(usize) -> f64,
    settings: simulate::Settings,
) -> (Vec<Vec<f64>>, u64) {
    let side = 72;
    let mut program = program.clone();
    program.outputs = Some(outputs.to_vec());
    let executor = Executor::new(&program, &scamp5(), side, side, settings).unwrap();
    let image: Vec<f64> = (0..side * side).map(image).collect();
    let registers = ["A", "B", "C", "D", "E", "F"].map(reg);
    let images: Vec<_> =
        registers.iter().map(|&register| ((Space::Analogue, register), image.clone())).collect();
    let outcome = executor.run(&images).unwrap();
    let inner = |plane: Vec<f64>| {
        let rows = (6..side - 6).flat_map(|row| (6..side - 6).map(move |column| (row, column)));
        rows.map(|(row, column)| plane[row * side + column]).collect()
    };
    let planes =
        outputs.iter().map(|&output| inner(outcome.register((Space::Analogue, output)).unwrap()));
    (planes.collect(), outcome.saturated)
}

/// Variances that add up by hand.
#[test]
fn variances_of_single_instructions() {
    let of = |text: &str, output: &str| {
        variances(&parse(text), &[reg(output)], [1.0, 10.0, 100.0]).unwrap()[0]
    };
    assert_eq!(of("bus(B, A)", "B"), 1.0);
    assert_eq!(of("bus(B, A)", "A"), 0.0);
    assert_eq!(of("add(B, A, C)", "B"), 2.0);
    assert_eq!(of("divq(B, A)", "B"), 101.0);
    assert_eq!(of("bus2(B, C, A); bus(D, B, C)", "D"), 201.0);
    assert_eq!(of("bus3(B, C, D, A)", "B"), 10_000.0);
    // Twice a value has four times its variance; two neighbours' are independent.
    assert_eq!(of("bus(B, A); bus(NEWS, B); bus(C, B); bus(D, C, NEWS)", "D"), 4.0 + 3.0);
    assert_eq!(of("bus(B, A); bus(NEWS, B); bus(C, B, NEWS)", "C"), 2.0);
    assert_eq!(of("bus(NEWS, A); bus(C, XE, XW)", "C"), 3.0);
    let problem = variances(&parse("where(A); mov(B, A); all()"), &[reg("B")], [1.0; 3]);
    assert_eq!(problem.unwrap_err().code(), "Q5040");
}

/// The variance of simulated noise is the one that is computed.
#[test]
fn variances_are_those_of_simulations() {
    let sigma = [0.5, 1.0, 2.0];
    let mut compared = 0;
    for case in golden("programs.json").as_array().unwrap() {
        let id = case["id"].as_str().unwrap();
        if !["gauss3", "analognet2", "sobel_xy", "rand1_1"].contains(&id) {
            continue;
        }
        let program = program(&case["program"]);
        let outputs: Vec<Reg> = program
            .written(&scamp5())
            .iter()
            .map(|named| named.1)
            .filter(|r| *r != Reg::NEWS)
            .collect();
        let expected = variances(&program, &outputs, sigma).unwrap();
        let mut squares = vec![0.0; outputs.len()];
        let seeds = 6;
        for seed in 0..seeds {
            let noise = Some(Noise::of_writes(sigma, seed));
            let settings = simulate::Settings { noise, ..Default::default() };
            let (planes, _) = run(&program, &outputs, &|_| 0.0, settings);
            for (sum, plane) in squares.iter_mut().zip(planes) {
                *sum += plane.iter().map(|v| v * v).sum::<f64>() / plane.len() as f64;
            }
        }
        for ((output, expected), found) in outputs.iter().zip(expected).zip(squares) {
            let found = found / seeds as f64;
            assert!((found / expected - 1.0).abs() < 0.08, "{id} {output}: {found} {expected}");
            compared += 1;
        }
    }
    assert!(compared > 15, "{compared}");
}

/// Each objective is served at least as well as by the shortest program, and the front is one.
#[test]
fn objectives() {
    for (rows, depth) in [
        (vec![vec![1, 2, 1], vec![2, 4, 2], vec![1, 2, 1]], 4),
        (vec![vec![3, 0, 1], vec![-1, 5, 0], vec![0, 2, 6]], 3),
    ] {
        let task = task(&rows, depth);
        let sigma = wish(Objective::Macros, None).sigma;
        let shortest = find(&task, &scamp5(), settings(1_500_000)).unwrap();
        let shortest = Measures::of(&shortest, &task, sigma).unwrap();
        for objective in [Objective::Macros, Objective::Bus, Objective::Noise] {
            let best = || {
                find_best(&task, &scamp5(), settings(3_000_000), &wish(objective, None)).unwrap()
            };
            let found = best();
            assert_eq!(found.program, best().program);
            assert_eq!(task.wanted.check(&found.program).unwrap(), []);
            let own = Measures::of(&found.program, &task, sigma).unwrap();
            match objective {
                Objective::Macros => assert!(own.macros <= shortest.macros),
                Objective::Bus => assert!(own.bus <= shortest.bus),
                Objective::Noise => assert!(own.noise <= shortest.noise),
            }
            for (at, (a, program)) in found.front.iter().enumerate() {
                assert_eq!(*a, Measures::of(program, &task, sigma).unwrap());
                let covers =
                    |b: &Measures| b.macros <= a.macros && b.bus <= a.bus && b.noise <= a.noise;
                let others = found.front.iter().enumerate().filter(|(other, _)| *other != at);
                assert!(!others.map(|(_, (b, _))| b).any(covers), "{:?}", found.front);
            }
        }
    }
}

/// No write of a program for a range saturates, whatever the image; and where that cannot be, the
/// register and the instruction are named.
#[test]
fn ranges_hold() {
    let mut random = Random::new(5);
    for (rows, depth, range) in [
        (vec![vec![1, 2, 1], vec![2, 4, 2], vec![1, 2, 1]], 4, Range { low: 0.0, high: 127.0 }),
        (vec![vec![-1, 0, 3], vec![2, 0, 1]], 3, Range { low: -100.0, high: 127.0 }),
    ] {
        let task = task(&rows, depth);
        let found =
            find_best(&task, &scamp5(), settings(2_000_000), &wish(Objective::Macros, Some(range)));
        let halving = bus::Halving::Quick;
        let of_bus =
            bus::Settings { halving, effort: Effort(1_000_000), seed: 1, range: Some(range) };
        for program in [found.unwrap().program, bus::find(&task, &scamp5(), of_bus).unwrap()] {
            assert_eq!(task.wanted.check(&program).unwrap(), []);
            assert_eq!(peak(&program, range, 128.0).unwrap(), None);
            let settings = simulate::Settings { saturation: Some(128.0), ..Default::default() };
            let bits: Vec<bool> = (0..72 * 72).map(|_| random.chance(50)).collect();
            let image = |at: usize| if bits[at] { range.high } else { range.low };
            assert_eq!(run(&program, &[reg("A")], &image, settings).1, 0);
        }
    }
    let twice = parse("mov(B, A); add(C, A, B); divq(C, C)");
    let first = peak(&twice, Range { low: -70.0, high: 50.0 }, 128.0).unwrap().unwrap();
    assert_eq!((first.instruction, first.register, first.magnitude), (1, reg("NEWS"), 140.0));
    let four = task(&[vec![4, 1]], 0);
    let range = Some(Range { low: 0.0, high: 100.0 });
    let problem = find_best(&four, &scamp5(), settings(100_000), &wish(Objective::Bus, range));
    let problem = problem.unwrap_err();
    assert_eq!(problem.code(), "Q5102");
    assert!(problem.message().contains("instruction") && problem.message().contains('('));
}
