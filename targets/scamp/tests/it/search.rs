//! The default search: right, repeatable, never shorter than what is proved, not longer than Cain's
//! programs where these are short.

use crate::common::{Random, golden, golden_text, is_legal, program, reg, scamp5};
use quincunx_contract::ArchSource;
use quincunx_scamp::ScampArch;
use quincunx_scamp::files::read_kernels;
use quincunx_scamp::goal::{Bag, Cell, Goal};
use quincunx_scamp::isa::Reg;
use quincunx_scamp::program::Program;
use quincunx_scamp::search::{Effort, Settings, find};
use quincunx_scamp::task::{Task, Wanted};

fn arch(macros: &str) -> ScampArch {
    let text = format!("name = \"m\"\nmacros = \"{macros}\"\n");
    ScampArch::from_source(&ArchSource::Text { name: "m".into(), text }).unwrap()
}

fn settings(leftovers: bool, effort: u64) -> Settings {
    Settings { leftovers, effort: Effort(effort), seed: 1 }
}

/// A task of goals in outputs A, B, … with the input in A.
fn task(goals: Vec<Goal>, depth: u32, arch: &ScampArch) -> Task {
    let outputs = arch.analogue[..goals.len()].to_vec();
    task_of(goals, depth, outputs, arch)
}

fn task_of(goals: Vec<Goal>, depth: u32, outputs: Vec<Reg>, arch: &ScampArch) -> Task {
    let wanted = Wanted { goals: Bag(goals), depth, inputs: vec![reg("A")], outputs };
    Task::new(wanted, arch.analogue.clone(), arch).unwrap()
}

fn assert_right(task: &Task, found: &Program, what: &str) {
    assert!(is_legal(found), "{what}");
    assert_eq!(task.wanted.check(found).unwrap(), [], "{what}");
    let stray = found.instructions.iter().flat_map(|inst| inst.registers());
    assert!(stray.into_iter().all(|r| task.pool.contains(&r) || r == reg("A")), "{what}");
}

/// Cain's files: a program for each, by the first plan alone and after some search; the short ones
/// are as short as Cain's.
#[test]
fn files_of_cain() {
    let mut compared = 0;
    for case in golden("programs.json").as_array().unwrap() {
        let (id, ops) = (case["id"].as_str().unwrap(), case["ops"].as_str().unwrap());
        let file = read_kernels(&golden_text(&format!("cain_inputs/{id}.json"))).unwrap();
        let task = Task::of_file(&file, &arch(ops)).unwrap();
        let first = find(&task, &arch(ops), settings(false, 0)).unwrap();
        assert_right(&task, &first, id);
        let found = find(&task, &arch(ops), settings(false, 4_000_000)).unwrap();
        assert_right(&task, &found, id);
        let length = case["length"].as_u64().unwrap();
        assert!(found.length() <= first.length(), "{id} {ops}");
        if length <= 6 {
            assert!(found.length() <= length, "{id} {ops}: {} > {length}", found.length());
            compared += 1;
        }
    }
    assert!(compared > 3, "{compared}");
}

/// No program is shorter than what is proved, and those of at most 4 instructions are found.
#[test]
fn proved_lengths() {
    for case in golden("optimal.json")["cases"].as_array().unwrap() {
        let mode = case["mode"].as_str().unwrap();
        let arch = arch(if mode == "basic" { "basic" } else { "all" });
        let rows = case["goal"].as_array().unwrap().iter().map(|row| {
            row.as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect::<Vec<_>>()
        });
        let goal = Goal::from_rows(&rows.collect::<Vec<_>>());
        let depth = case["approx_depth"].as_u64().unwrap() as u32;
        let output = reg(case["out"].as_str().unwrap_or("A"));
        let task = task_of(vec![goal], depth, vec![output], &arch);
        let leftovers = mode == "all_with_div_leftovers";
        let found = find(&task, &arch, settings(leftovers, 2_000_000)).unwrap();
        assert_right(&task, &found, case["id"].as_str().unwrap());
        match case["optimal_length"].as_u64() {
            // Outputs of the proof are in any register, here in that of the input.
            Some(length) if length <= 4 => {
                assert!(
                    (length..=length + 1).contains(&found.length()),
                    "{case}: {}",
                    found.length()
                );
            }
            Some(length) => assert!(found.length() >= length, "{case}"),
            None => assert!(found.length() >= case["lower_bound"].as_u64().unwrap(), "{case}"),
        }
    }
}

#[test]
fn random_kernels() {
    let mut random = Random::new(16);
    for round in 0..60 {
        let arch = arch(["all", "basic", "every"][round % 3]);
        let kernel = |random: &mut Random| {
            let rows = (0..3).map(|_| (0..3).map(|_| random.below(9) as i64 - 4).collect());
            Goal::from_rows(&rows.collect::<Vec<Vec<i64>>>())
        };
        let goals = (0..=round % 2).map(|_| kernel(&mut random)).collect();
        let task = task(goals, (round % 4) as u32, &arch);
        let leftovers = round % 5 == 0;
        let found = find(&task, &arch, settings(leftovers, 300_000)).unwrap();
        assert_right(&task, &found, &format!("{round}"));
        assert_eq!(found, find(&task, &arch, settings(leftovers, 300_000)).unwrap(), "{round}");
    }
}

#[test]
fn too_few_registers_or_macros() {
    let text = "name = \"m\"\nanalogue = [\"A\", \"B\"]\n";
    let two = ScampArch::from_source(&ArchSource::Text { name: "m".into(), text: text.into() });
    let two = two.unwrap();
    let kernel = Goal::from_rows(&[vec![1, 2, 1]]);
    let odd = Goal::from_rows(&[vec![1, 7, 1], vec![5, -3, 2], vec![0, 3, 1]]);
    let problem = find(&task(vec![odd], 0, &two), &two, settings(false, 0)).unwrap_err();
    assert_eq!(problem.code(), "Q5091");
    assert!(problem.help_text().unwrap().contains("suffice"));
    let text = "name = \"m\"\nmacros = [\"add\", \"sub\", \"mov\"]\n";
    let fixed = ScampArch::from_source(&ArchSource::Text { name: "m".into(), text: text.into() });
    let fixed = fixed.unwrap();
    let still = Goal::from_rows(&[vec![5]]);
    assert!(find(&task(vec![still], 0, &fixed), &fixed, settings(false, 100_000)).is_ok());
    let problem = find(&task(vec![kernel], 0, &fixed), &fixed, settings(false, 0)).unwrap_err();
    assert_eq!(problem.code(), "Q5090");
}

/// Long programs do not exhaust the stack of a thread; what is too long is refused.
#[test]
fn far_cells() {
    let far = |cells: usize| {
        let mut row = vec![0; cells];
        (row[0], row[cells - 1]) = (1, 1);
        task(vec![Goal::from_rows(&[row])], 0, &scamp5())
    };
    let found = find(&far(7000), &scamp5(), settings(false, 0)).unwrap();
    assert!(found.length() > 3000);
    let problem = find(&far(20_000), &scamp5(), settings(false, 0)).unwrap_err();
    assert_eq!(problem.code(), "Q5092");
}

/// The input as it is takes no instruction.
#[test]
fn nothing_to_do() {
    let same = task(vec![Goal::from_rows(&[vec![4]])], 2, &scamp5());
    let found = find(&same, &scamp5(), settings(false, 1_000_000)).unwrap();
    assert_eq!(found.length(), 0);
    let zero = task(vec![Goal::default()], 0, &scamp5());
    assert_eq!(find(&zero, &scamp5(), settings(false, 1_000_000)).unwrap().length(), 1);
}

/// An input outside of the pool is read and never written.
#[test]
fn inputs_may_be_read_only() {
    let arch = scamp5();
    let goal = Goal::from_rows(&[vec![1, -2, 1], vec![0, 3, 0]]);
    let (input, pool) = (reg("F"), ["A", "B", "C", "D"].map(reg).to_vec());
    let wanted =
        Wanted { goals: Bag(vec![goal]), depth: 2, inputs: vec![input], outputs: vec![reg("A")] };
    let task = Task::new(wanted, pool, &arch).unwrap();
    for leftovers in [false, true] {
        let found = find(&task, &arch, settings(leftovers, 2_000_000)).unwrap();
        assert_eq!(task.wanted.check(&found).unwrap(), []);
        assert!(found.written(&arch).into_iter().all(|(_, register)| register != input));
        assert!(is_legal(&program(&serde_json::json!(
            found.instructions.iter().map(|inst| inst.text()).collect::<Vec<_>>()
        ))));
    }
}

/// The number of registers that a diagnostic names suffices, and the search says so again with them;
/// inputs and outputs stay where they are.
#[test]
fn named_registers_suffice() {
    let arch = scamp5();
    let kernels = [vec![vec![1, 2, 1], vec![2, 4, 2], vec![1, 2, 1]], vec![vec![3, -5, 7]]];
    for (pool, outputs) in [("AB", "A"), ("B", "B"), ("ABC", "AB"), ("AB", "BA")] {
        let list = |text: &str| -> Vec<Reg> { text.chars().map(|c| reg(&c.to_string())).collect() };
        let goals = Bag(outputs.chars().zip(&kernels).map(|(_, k)| Goal::from_rows(k)).collect());
        let wanted = Wanted { goals, depth: 4, inputs: list("A"), outputs: list(outputs) };
        let task = |pool: Vec<Reg>| Task::new(wanted.clone(), pool, &arch).unwrap();
        let problem = find(&task(list(pool)), &arch, settings(false, 0)).unwrap_err();
        assert_eq!(problem.code(), "Q5091");
        let help = problem.help_text().unwrap();
        let enough: usize = help.split(' ').next().unwrap().parse().unwrap();
        assert!(enough > pool.len() && enough <= 6, "{help}");
        let is_new = |r: &Reg| !list(pool).contains(r) && *r != reg("A");
        let more = arch.analogue.iter().copied().filter(is_new);
        let wide: Vec<Reg> = list(pool).into_iter().chain(more).take(enough).collect();
        let found = find(&task(wide.clone()), &arch, settings(false, 0)).unwrap();
        assert_right(&task(wide), &found, help);
    }
}

/// Results that leave in the registers of inputs which the others read.
#[test]
fn results_change_places() {
    let arch = scamp5();
    let (a, b) = (reg("A"), reg("B"));
    let channel = |z: u32| {
        let mut goal = Goal::default();
        for (x, count) in [(0, 1), (1, 2)] {
            goal.set(Cell { x, y: 0, z }, count);
        }
        goal.set(Cell { x: 0, y: 1, z: 1 - z }, 1);
        goal
    };
    let goals = Bag(vec![channel(1), channel(0)]);
    let wanted = Wanted { goals, depth: 1, inputs: vec![a, b], outputs: vec![a, b] };
    let task = Task::new(wanted, arch.analogue.clone(), &arch).unwrap();
    let found = find(&task, &arch, settings(false, 0)).unwrap();
    assert_right(&task, &found, "places");
}

/// Large kernels: the effort bounds what is done, whatever their size, and what comes out is right.
#[test]
fn large_kernels() {
    let mut random = Random::new(12);
    for (size, most, effort) in [(5, 255, 20_000_000), (12, 255, 2_000_000), (22, 15, 100_000)] {
        let row = |random: &mut Random| (0..size).map(|_| random.below(most) as i64 - 7).collect();
        let rows: Vec<Vec<i64>> = (0..size).map(|_| row(&mut random)).collect();
        let task = task(vec![Goal::from_rows(&rows)], 8, &scamp5());
        let found = find(&task, &scamp5(), settings(false, effort)).unwrap();
        assert_right(&task, &found, &format!("{size}"));
        assert_eq!(found, find(&task, &scamp5(), settings(false, effort)).unwrap(), "{size}");
        // About an instruction for every bit of a weight.
        let digits: u32 = rows.iter().flatten().map(|n| n.unsigned_abs().count_ones()).sum();
        assert!(found.length() <= u64::from(digits * 3 / 2), "{size}: {}", found.length());
    }
}
