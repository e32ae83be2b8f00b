//! Programs of bus steps: right, legal, repeatable, cheaper than macros, and with corrected halving
//! free of mismatch.

use crate::common::{Random, golden, golden_text, parse, reg, scamp5};
use quincunx_contract::ArchSource;
use quincunx_diag::any_error;
use quincunx_scamp::ScampArch;
use quincunx_scamp::bus::{Halving, Settings, find};
use quincunx_scamp::files::read_kernels;
use quincunx_scamp::goal::{Bag, Goal};
use quincunx_scamp::program::{Program, Space};
use quincunx_scamp::search::Effort;
use quincunx_scamp::simulate::{self, Executor, Noise};
use quincunx_scamp::symbolic::mismatches;
use quincunx_scamp::task::{Task, Wanted};
use quincunx_scamp::verify::verify;

fn settings(halving: Halving, effort: u64) -> Settings {
    Settings { halving, effort: Effort(effort), seed: 1, range: None }
}

fn machine(keys: &str) -> ScampArch {
    let text = format!("name = \"m\"\n{keys}\n");
    ScampArch::from_source(&ArchSource::Text { name: "m".into(), text }).unwrap()
}

fn task(goals: Vec<Goal>, depth: u32, arch: &ScampArch) -> Task {
    let outputs = arch.analogue[..goals.len()].to_vec();
    let wanted = Wanted { goals: Bag(goals), depth, inputs: vec![reg("A")], outputs };
    Task::new(wanted, arch.analogue.clone(), arch).unwrap()
}

/// Steps of the bus only, without a warning, that compute what is wanted in registers of the pool.
fn assert_right(task: &Task, arch: &ScampArch, found: &Program, what: &str) {
    assert_eq!(verify(found, arch), [], "{what}");
    assert_eq!(task.wanted.check(found).unwrap(), [], "{what}");
    assert!(found.instructions.iter().all(|inst| inst.bus().is_some()), "{what}");
    assert_eq!(found.bus_steps(), found.length(), "{what}");
    let special = [(Space::Analogue, reg("NEWS"))];
    for named in found.written(arch) {
        assert!(task.pool.contains(&named.1) || special.contains(&named), "{what}: {named:?}");
    }
}

/// Cain's files, with both halvings, and those of the shortest ones that are known.
#[test]
fn files_of_cain() {
    for case in golden("programs.json").as_array().unwrap() {
        if case["ops"] != "all" {
            continue;
        }
        let id = case["id"].as_str().unwrap();
        let file = read_kernels(&golden_text(&format!("cain_inputs/{id}.json"))).unwrap();
        let task = Task::of_file(&file, &scamp5()).unwrap();
        for (halving, effort) in [(Halving::Quick, 4_000_000), (Halving::Corrected, 1_000_000)] {
            let found = find(&task, &scamp5(), settings(halving, effort)).unwrap();
            assert_right(&task, &scamp5(), &found, id);
            let most = match (id, halving) {
                ("box3" | "box2", _) => 4,
                ("laplace4" | "box3_q", Halving::Quick) => 6,
                _ => u64::MAX,
            };
            assert!(found.bus_steps() <= most, "{id}: {}", found.bus_steps());
        }
    }
}

/// The reference of 6 steps is legal and right; the search finds no longer one.
#[test]
fn gauss_in_six_steps() {
    let text = "/*Inputs in: [A]*/ bus(NEWS, A); bus2(B, C, XE, XW); bus2(D, E, B, A); bus(NEWS, D); \
        bus2(B, C, XN, XS); bus2(A, F, B, D); /*Null Instruction: [] <- [A]*/";
    let file = read_kernels(&golden_text("cain_inputs/gauss3.json")).unwrap();
    let task = Task::of_file(&file, &scamp5()).unwrap();
    assert_right(&task, &scamp5(), &parse(text), "reference");
    let found = find(&task, &scamp5(), settings(Halving::Quick, 60_000_000)).unwrap();
    assert_right(&task, &scamp5(), &found, "found");
    assert!(found.bus_steps() <= 6, "{}", found.bus_steps());
}

#[test]
fn random_kernels() {
    let mut random = Random::new(51);
    let machines = [
        scamp5(),
        ScampArch::preset("scamp5-wide").unwrap(),
        machine("max_receivers = 4\nmax_sources = [3, 2, 1, 1]"),
        machine("analogue = [\"A\", \"B\", \"C\", \"D\", \"E\"]\nmax_sources = [2, 2]"),
    ];
    for round in 0..40 {
        let arch = &machines[round % machines.len()];
        let kernel = |random: &mut Random| {
            let rows = (0..3).map(|_| (0..3).map(|_| random.below(9) as i64 - 4).collect());
            Goal::from_rows(&rows.collect::<Vec<Vec<i64>>>())
        };
        let goals = (0..=round / 4 % 2).map(|_| kernel(&mut random)).collect();
        let task = task(goals, (round % 5) as u32, arch);
        let halving = if round % 3 == 0 { Halving::Corrected } else { Halving::Quick };
        let found = find(&task, arch, settings(halving, 200_000)).unwrap();
        assert_right(&task, arch, &found, &format!("{round}"));
        assert_eq!(found, find(&task, arch, settings(halving, 200_000)).unwrap(), "{round}");
    }
}

/// Inputs outside of the pool are not written; two inputs, and an output where an input was.
#[test]
fn registers_of_inputs() {
    let arch = scamp5();
    let mut goal = Goal::from_rows(&[vec![1, -2, 1], vec![0, 3, 0]]);
    goal.set(quincunx_scamp::goal::Cell { x: 1, y: 0, z: 1 }, 3);
    for (inputs, outputs, pool) in [
        (["E", "F"], "A", &["A", "B", "C", "D"][..]),
        (["A", "B"], "B", &["A", "B", "C", "D", "E", "F"]),
        (["A", "F"], "A", &["A", "B", "C", "D"]),
    ] {
        let wanted = Wanted {
            goals: Bag(vec![goal.clone()]),
            depth: 2,
            inputs: inputs.map(reg).to_vec(),
            outputs: vec![reg(outputs)],
        };
        let pool = pool.iter().map(|name| reg(name)).collect();
        let task = Task::new(wanted, pool, &arch).unwrap();
        for halving in [Halving::Quick, Halving::Corrected] {
            let found = find(&task, &arch, settings(halving, 300_000)).unwrap();
            assert_right(&task, &arch, &found, &format!("{inputs:?} {halving:?}"));
        }
    }
}

#[test]
fn nothing_to_do() {
    let same = task(vec![Goal::from_rows(&[vec![4]])], 2, &scamp5());
    let found = find(&same, &scamp5(), settings(Halving::Quick, 1_000_000)).unwrap();
    assert_eq!(found.length(), 0);
    let zero = task(vec![Goal::default()], 0, &scamp5());
    assert_eq!(find(&zero, &scamp5(), settings(Halving::Quick, 100_000)).unwrap().length(), 1);
}

#[test]
fn machines_that_cannot() {
    let kernel = Goal::from_rows(&[vec![1, 2, 1]]);
    let single = machine("max_receivers = 1");
    let problem = |task: &Task, arch: &ScampArch, halving| {
        find(task, arch, settings(halving, 0)).unwrap_err()
    };
    let halved = task(vec![kernel.clone()], 2, &single);
    assert_eq!(problem(&halved, &single, Halving::Quick).code(), "Q5101");
    let whole = task(vec![kernel.clone()], 0, &single);
    let found = find(&whole, &single, settings(Halving::Quick, 100_000)).unwrap();
    assert_right(&whole, &single, &found, "one receiver");
    let few = machine("max_sources = [4, 1]");
    let halved = task(vec![kernel.clone()], 2, &few);
    assert_eq!(problem(&halved, &few, Halving::Corrected).code(), "Q5101");
    assert!(find(&halved, &few, settings(Halving::Quick, 0)).is_ok());
    let one = machine("analogue = [\"A\"]");
    assert_eq!(problem(&task(vec![kernel], 0, &one), &one, Halving::Quick).code(), "Q5100");
    let mut row = vec![0; 20_000];
    (row[0], row[19_999]) = (1, 1);
    let far = task(vec![Goal::from_rows(&[row])], 0, &scamp5());
    assert_eq!(problem(&far, &scamp5(), Halving::Quick).code(), "Q5092");
}

/// The result of a program on a device that has mismatch and no other error, without the rim.
fn results(program: &Program, mismatch: f64) -> Vec<f64> {
    let side = 24;
    let noise = (mismatch > 0.0).then_some(Noise::of_mismatch(mismatch, 5));
    let settings = simulate::Settings { noise, ..simulate::Settings::default() };
    let executor = Executor::new(program, &scamp5(), side, side, settings).unwrap();
    let mut random = Random::new(7);
    let image = (0..side * side).map(|_| random.below(256) as f64 - 128.0).collect();
    let a = (Space::Analogue, reg("A"));
    let outcome = executor.run(&[(a, image)]).unwrap();
    let plane = outcome.register(a).unwrap();
    let inner = (8..side - 8).flat_map(|row| (8..side - 8).map(move |column| row * side + column));
    inner.map(|at| plane[at]).collect()
}

/// Simulated mismatch cancels with corrected halving, and does not with quick.
#[test]
fn corrected_halving_cancels_mismatch() {
    for rows in [
        vec![vec![1, 2, 1], vec![2, 4, 2], vec![1, 2, 1]],
        vec![vec![3, 0, 1], vec![-1, 5, 0], vec![0, 2, 6]],
    ] {
        let task = task(vec![Goal::from_rows(&rows)], 4, &scamp5());
        for halving in [Halving::Quick, Halving::Corrected] {
            let found = find(&task, &scamp5(), settings(halving, 500_000)).unwrap();
            let (ideal, real) = (results(&found, 0.0), results(&found, 1.0));
            let error = ideal.iter().zip(&real).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            let left = mismatches(&found).contains_key(&reg("A"));
            match halving {
                Halving::Quick => assert!(error > 0.05 && left, "{error}"),
                Halving::Corrected => assert!(error < 1e-9 && !left, "{error}"),
            }
        }
    }
}

/// The macros: `divq` keeps the mismatch of its receivers, of `div` only the copy of the source has
/// some.
#[test]
fn mismatch_of_macros() {
    let quick = mismatches(&parse("divq(B, A)"));
    assert!(quick.contains_key(&reg("B")));
    let left = mismatches(&parse("div(B, C, D, A)"));
    assert!(!left.contains_key(&reg("B")) && !left.contains_key(&reg("C")), "{left:?}");
    assert!(left.contains_key(&reg("D")));
    // What one neighbour's receivers have too much does not cancel what another's have.
    let moved = mismatches(&parse("bus2(B, C, A); bus(XE, B); bus(D, NEWS, C)"));
    assert_eq!(moved[&reg("D")].len(), 4);
    assert!(!any_error(&verify(&parse("bus2(B, C, A); bus(D, B, C)"), &scamp5())));
    assert_eq!(mismatches(&parse("bus2(B, C, A); bus(D, B, C)")).get(&reg("D")), None);
}

/// A value as what its polynomial is at a point of a prime field, for brute force: apart from the
/// search's own.
mod point {
    const PRIME: u128 = (1 << 61) - 1;
    const X: u64 = 0x0123_4567_89ab_cdef;
    const Y: u64 = 0x0fed_cba9_8765_4321;

    pub(super) fn plus(a: u64, b: u64) -> u64 {
        let sum = a + b;
        if u128::from(sum) >= PRIME { sum - PRIME as u64 } else { sum }
    }

    pub(super) fn times(a: u64, b: u64) -> u64 {
        (u128::from(a) * u128::from(b) % PRIME) as u64
    }

    pub(super) fn power(base: u64, exponent: u64) -> u64 {
        (0..64).rev().fold(1, |result, bit| {
            let square = times(result, result);
            if exponent >> bit & 1 == 1 { times(square, base) } else { square }
        })
    }

    pub(super) fn inverse(a: u64) -> u64 {
        power(a, PRIME as u64 - 2)
    }

    /// A whole number.
    pub(super) fn number(n: i64) -> u64 {
        i128::from(n).rem_euclid(PRIME as i128) as u64
    }

    /// What is (x, y) away, as a factor.
    pub(super) fn away(x: i32, y: i32) -> u64 {
        let of = |unit, n: i32| {
            let power = power(unit, n.unsigned_abs().into());
            if n < 0 { inverse(power) } else { power }
        };
        times(of(X, x), of(Y, y))
    }
}

/// What brute force needs to know: the factors of an element and its neighbours, of halving and of the
/// target.
struct Brute {
    reached: [u64; 5],
    half: u64,
    target: u64,
}

impl Brute {
    /// A program of at most so many steps makes the target of these values: all are tried that do not
    /// read and write NEWS in one step. Nothing is overwritten but NEWS.
    fn is_made(&self, general: &[u64], news: Option<u64>, steps: usize) -> bool {
        let seen = news.iter().flat_map(|&value| self.reached.map(|way| point::times(value, way)));
        let all: Vec<u64> = general.iter().copied().chain(seen).collect();
        for chosen in (0_u32..1 << all.len()).filter(|chosen| chosen.count_ones() <= 4) {
            let of = |at: &usize| chosen >> at & 1 == 1;
            let sum = (0..all.len()).filter(of).fold(0, |sum, at| point::plus(sum, all[at]));
            let result = point::times(sum, point::number(-1));
            let half = point::times(result, self.half);
            let can_halve = chosen.count_ones() <= 2;
            if result == self.target || can_halve && half == self.target {
                return true;
            }
            // NEWS is one of the receivers, unless it is read.
            let writes = chosen >> general.len() == 0;
            let with =
                |more: &[u64], news| self.is_made(&[general, more].concat(), news, steps - 1);
            let with_news = |more: &[u64], result| {
                self.reached.iter().any(|&way| with(more, Some(point::times(result, way))))
            };
            let goes_on = || {
                with(&[result], news)
                    || writes && with_news(&[], result)
                    || can_halve && (with(&[half; 2], news) || writes && with_news(&[half], half))
            };
            if steps > 1 && goes_on() {
                return true;
            }
        }
        false
    }
}

/// Brute force: where there is a program of up to three steps, the search finds one as short, and
/// none that is shorter elsewhere.
#[test]
fn the_shortest_by_brute_force() {
    let arch = scamp5();
    let reached = [(0, 0), (0, 1), (1, 0), (0, -1), (-1, 0)].map(|(x, y)| point::away(x, y));
    let mut optimal = 0;
    for (rows, depth) in [
        (vec![vec![-1]], 0),
        (vec![vec![1, 1]], 0),
        (vec![vec![1], vec![0], vec![0]], 0),
        (vec![vec![0, 1, 0], vec![1, 0, 1], vec![0, 1, 0]], 0),
        (vec![vec![0, -1, 0], vec![-1, 1, -1], vec![0, -1, 0]], 0),
        (vec![vec![1, 2, 1]], 2),
        (vec![vec![1, 0, 1]], 1),
        (vec![vec![0, 1], vec![1, 0]], 1),
        (vec![vec![1, -1, 0]], 1),
        (vec![vec![1, 1], vec![1, 1]], 0),
    ] {
        let goal = Goal::from_rows(&rows);
        let cell = |(cell, count): (quincunx_scamp::goal::Cell, i64)| {
            point::times(point::number(count), point::away(cell.x, cell.y))
        };
        let sum = goal.cells().map(cell).fold(0, point::plus);
        let target = point::times(sum, point::inverse(1 << depth));
        let brute = Brute { reached, half: point::inverse(2), target };
        let shortest = (1..=3).find(|&steps| brute.is_made(&[1], None, steps));
        let wanted = Wanted {
            goals: Bag(vec![goal]),
            depth,
            inputs: vec![reg("A")],
            outputs: vec![reg("B")],
        };
        let task = Task::new(wanted, arch.analogue.clone(), &arch).unwrap();
        let found = find(&task, &arch, settings(Halving::Quick, 2_000_000)).unwrap();
        assert_right(&task, &arch, &found, &format!("{rows:?}"));
        match shortest {
            Some(steps) => assert_eq!(found.bus_steps(), steps as u64, "{rows:?}"),
            None => assert!(found.bus_steps() > 3, "{rows:?}"),
        }
        optimal += usize::from(shortest.is_some());
    }
    assert!((4..10).contains(&optimal), "{optimal}");
}

/// Kernels made of smaller ones, and several kernels, at the effort of a default run.
#[test]
fn lengths_of_the_study() {
    for (id, most) in [("gauss3", 5), ("gauss5", 12), ("gauss5_3", 13), ("analognet2", 24)] {
        let file = read_kernels(&golden_text(&format!("cain_inputs/{id}.json"))).unwrap();
        let task = Task::of_file(&file, &scamp5()).unwrap();
        let effort = Effort::named("default");
        let settings = Settings { effort, ..settings(Halving::Quick, 0) };
        let found = find(&task, &scamp5(), settings).unwrap();
        assert_right(&task, &scamp5(), &found, id);
        assert!(found.bus_steps() <= most, "{id}: {}", found.bus_steps());
    }
}

/// Four results in six registers: there is a program even where registers are scarce.
#[test]
fn scarce_registers() {
    let mut random = Random::new(8);
    let kernel = |_| {
        let rows = (0..3).map(|_| (0..3).map(|_| random.below(9) as i64).collect());
        Goal::from_rows(&rows.collect::<Vec<Vec<i64>>>())
    };
    let task = task((0..4).map(kernel).collect(), 3, &scamp5());
    for effort in [0, 2_000_000, 8_000_000] {
        let found = find(&task, &scamp5(), settings(Halving::Quick, effort)).unwrap();
        assert_right(&task, &scamp5(), &found, &format!("{effort}"));
    }
}
