//! Proofs agree with trying all programs, which is done here in the simplest way: exact kernels, all
//! orders, nothing left out but what was seen before.

use crate::common::{Random, is_legal, reg, scamp5};
use quincunx_scamp::ScampArch;
use quincunx_scamp::goal::{Bag, Cell, Goal};
use quincunx_scamp::isa::Reg;
use quincunx_scamp::search::prove;
use quincunx_scamp::task::{Task, Wanted};
use std::collections::{BTreeMap, BTreeSet};

/// A kernel in units of `2^-DEPTH`: cells that are not 0, in order.
type Value = Vec<((i32, i32, u32), i64)>;

/// The values of all registers, in order.
type State = Vec<Value>;

const DEPTH: u32 = 8;

/// Levels with more states are the last.
const MAX_STATES: usize = 1_500;

fn sum(parts: &[(&Value, i64, (i32, i32))]) -> Value {
    let mut cells = BTreeMap::new();
    for &(value, factor, (east, north)) in parts {
        for &((x, y, z), count) in value {
            *cells.entry((x + east, y + north, z)).or_insert(0) += factor * count;
        }
    }
    cells.into_iter().filter(|(_, count)| *count != 0).collect()
}

fn half(value: &Value, factor: i64) -> Value {
    assert!(value.iter().all(|(_, count)| count % 2 == 0), "a unit is halved");
    value.iter().map(|&(cell, count)| (cell, factor * count / 2)).collect()
}

/// Translations of macros with so many directions.
fn moves(directions: usize) -> Vec<(i32, i32)> {
    let near = [(0, 1), (1, 0), (0, -1), (-1, 0)];
    match directions {
        0 => vec![(0, 0)],
        1 => near.to_vec(),
        _ => near.iter().flat_map(|a| near.map(|b| (a.0 + b.0, a.1 + b.1))).collect(),
    }
}

/// All that one instruction can add to the registers.
fn additions(state: &State, macros: &[&str], leftovers: bool) -> Vec<Vec<Value>> {
    let mut list = Vec::new();
    for &name in macros {
        let directions = usize::from(name.ends_with('x')) + usize::from(name.ends_with("2x"));
        for (i, a) in state.iter().enumerate() {
            match name {
                "neg" => list.push(vec![sum(&[(a, -1, (0, 0))])]),
                "divq" => list.push(vec![half(a, 1)]),
                "div" if leftovers => list.push(vec![half(a, 1), half(a, -1), a.clone()]),
                "diva" if leftovers => list.push(vec![half(a, 1), half(a, -1), half(a, -1)]),
                "div" | "diva" => list.push(vec![half(a, 1)]),
                _ => {}
            }
            for to in moves(directions) {
                if name.starts_with("mov") {
                    list.push(vec![sum(&[(a, 1, to)])]);
                }
                for (j, b) in state.iter().enumerate() {
                    match name {
                        _ if name.starts_with("sub") => {
                            list.push(vec![sum(&[(a, 1, to), (b, -1, (0, 0))])]);
                        }
                        _ if name.starts_with("add") && i < j => {
                            list.push(vec![sum(&[(a, 1, to), (b, 1, to)])]);
                        }
                        _ => {}
                    }
                    for c in state.iter().skip(j + 1).filter(|_| name == "add" && i < j) {
                        list.push(vec![sum(&[(a, 1, to), (b, 1, to), (c, 1, to)])]);
                    }
                }
            }
        }
    }
    list
}

/// States after 0, 1, 2, … instructions. There is a 0 from the beginning, for which a register that
/// nobody has written may be taken; a second one is of no use.
fn levels(inputs: u32, macros: &[&str], leftovers: bool) -> Vec<BTreeSet<State>> {
    let input = |z| vec![((0, 0, z), 1 << DEPTH)];
    let start: State = [Value::new()].into_iter().chain((0..inputs).map(input)).collect();
    let mut levels = vec![BTreeSet::from([start])];
    while let Some(last) = levels.last().filter(|last| last.len() <= MAX_STATES)
        && levels.len() < 6
    {
        let mut next = BTreeSet::new();
        for state in last {
            for new in additions(state, macros, leftovers) {
                let mut state = state.clone();
                state.extend(new.into_iter().filter(|value| !value.is_empty()));
                state.sort();
                next.insert(state);
            }
        }
        levels.push(next);
    }
    levels
}

fn task(goals: &[Value], inputs: u32, arch: &ScampArch) -> Task {
    let goal = |value: &Value| {
        let mut goal = Goal::default();
        value.iter().for_each(|&((x, y, z), count)| goal.set(Cell { x, y, z }, count));
        goal
    };
    let outputs: Vec<Reg> = ["E", "F"].map(reg)[..goals.len()].to_vec();
    let inputs = ["A", "B"].map(reg)[..inputs as usize].to_vec();
    let rest = arch.analogue.iter().filter(|register| !outputs.contains(register));
    let pool = outputs.iter().chain(rest).copied().collect();
    let goals = Bag(goals.iter().map(goal).collect());
    Task::new(Wanted { goals, depth: DEPTH, inputs, outputs }, pool, arch).unwrap()
}

/// The first level with a state that has all goals.
fn shortest(goals: &[Value], levels: &[BTreeSet<State>]) -> Option<usize> {
    let count = |list: &[Value], value| list.iter().filter(|v| *v == value).count();
    let has = |state: &State| goals.iter().all(|g| count(state, g) >= count(goals, g));
    levels.iter().position(|states| states.iter().any(has))
}

fn sets() -> Vec<(&'static str, bool)> {
    vec![
        ("basic", false),
        ("all", false),
        ("all", true),
        ("movx add", false),
        ("mov add sub", false),
        ("subx sub2x", false),
        ("subx divq", false),
        ("addx div", true),
        ("add diva", true),
        ("sub neg movx", false),
        ("mov2x add2x mov", false),
        ("movx sub div", true),
        ("addx", false),
    ]
}

fn mnemonics(set: &str) -> Vec<&str> {
    match set {
        // Without the sum of three.
        "basic" => vec!["mov", "movx", "add of two", "sub", "neg", "divq"],
        "all" => {
            let plain = ["mov", "movx", "mov2x", "add", "addx", "add2x", "sub", "subx", "sub2x"];
            plain.into_iter().chain(["neg", "div", "diva"]).collect()
        }
        _ => set.split(' ').collect(),
    }
}

fn arch(set: &str) -> ScampArch {
    let mut arch = scamp5();
    arch.macros = ScampArch::macro_set(set).unwrap();
    arch
}

/// A goal that is an input, or 0: what it takes depends on registers and on `res`.
fn is_plain(goal: &Value) -> bool {
    matches!(goal[..], [] | [((0, 0, _), 256)])
}

/// What is proved is what trying everything finds: for values that short programs make and for
/// pairs of them, with one and with two inputs.
#[test]
fn proofs_agree_with_trying_everything() {
    let mut random = Random::new(7);
    let (mut agreed, mut programs) = (0, 0);
    for (round, (set, leftovers)) in sets().into_iter().enumerate() {
        let inputs = 1 + u32::from(round % 3 == 2);
        let (arch, levels) = (arch(set), levels(inputs, &mnemonics(set), leftovers));
        let states: Vec<&State> = levels.iter().flatten().collect();
        for trial in 0..60 {
            let late = states.len() as u64 / (1 + trial % 3);
            let state = states[states.len() - 1 - random.below(late) as usize];
            let mut value = |_| state[random.below(state.len() as u64) as usize].clone();
            let goals: Vec<Value> = (0..=trial % 2).map(&mut value).collect();
            if goals.iter().any(is_plain) {
                continue;
            }
            // One value for two goals may take more than was tried.
            let Some(length) = shortest(&goals, &levels) else { continue };
            let (length, task) = (length as u64, task(&goals, inputs, &arch));
            let proof = prove(&task, &arch, leftovers, u64::MAX, Some(length + 1)).unwrap();
            assert_eq!(proof.bound, length, "{set} {leftovers} {goals:?}");
            if let Some(program) = &proof.program {
                assert!(is_legal(program) && task.wanted.check(program).unwrap().is_empty());
                assert_eq!(program.length(), length);
                programs += 1;
            }
            agreed += 1;
        }
    }
    assert!(agreed > 300 && programs > agreed / 2, "{agreed} {programs}");
}

/// The bound of goals of one input, and the length of the program that goes with it.
fn bound(set: &str, goals: &[&[i64]], outputs: &[&str]) -> (u64, Option<u64>) {
    let goals = Bag(goals.iter().map(|row| Goal::from_rows(&[row.to_vec()])).collect());
    let outputs = outputs.iter().copied().map(reg).collect();
    let wanted = Wanted { goals, depth: 0, inputs: vec![reg("A")], outputs };
    let arch = arch(set);
    let task = Task::new(wanted, arch.analogue.clone(), &arch).unwrap();
    let proof = prove(&task, &arch, false, 1_000_000, None).unwrap();
    if let Some(program) = &proof.program {
        assert!(is_legal(program) && task.wanted.check(program).unwrap().is_empty());
    }
    (proof.bound, proof.program.map(|program| program.length()))
}

/// Inputs as outputs, copies and zeros.
#[test]
fn goals_that_are_there_almost() {
    assert_eq!(bound("all", &[&[1]], &["A"]), (0, Some(0)));
    assert_eq!(bound("all", &[&[1]], &["B"]), (1, Some(1)));
    assert_eq!(bound("all", &[&[1], &[1]], &["A", "B"]), (1, Some(1)));
    assert_eq!(bound("all", &[&[1], &[1]], &["B", "C"]), (2, Some(2)));
    assert_eq!(bound("all", &[&[0]], &["A"]), (1, Some(1)));
    assert_eq!(bound("all", &[&[-1], &[0], &[1]], &["B", "C", "A"]), (2, Some(2)));
    assert_eq!(bound("all", &[&[-1], &[-1]], &["B", "C"]), (2, Some(2)));
    // A value twice as large takes a copy, or what is as good.
    assert_eq!(bound("all", &[&[2]], &["A"]), (2, Some(2)));
    assert_eq!(bound("all", &[&[1, -1, 0]], &["A"]).0, 1);
}

/// No macro makes it: the bound grows with the effort, and there is no program.
#[test]
fn what_macros_cannot_do() {
    let (bound, program) = bound("mov", &[&[2]], &["A"]);
    assert!(bound > 3 && program.is_none(), "{bound}");
}

/// The sum of nine cells takes six instructions.
#[test]
fn a_box_of_nine_takes_six() {
    let arch = arch("all");
    let goals = Bag(vec![Goal::from_rows(&vec![vec![1; 3]; 3])]);
    let a = vec![reg("A")];
    let wanted = Wanted { goals, depth: 0, inputs: a.clone(), outputs: a };
    let task = Task::new(wanted, arch.analogue.clone(), &arch).unwrap();
    let proof = prove(&task, &arch, false, 100_000_000, None).unwrap();
    let program = proof.program.as_ref().unwrap();
    assert_eq!((proof.bound, program.length()), (6, 6));
    assert!(is_legal(program) && task.wanted.check(program).unwrap().is_empty());
    assert!(proof.work < 30_000_000, "{}", proof.work);
    let words = "no program of res mov add sub neg div diva movx mov2x addx add2x subx sub2x has \
                 fewer than 6 instructions, without what macros leave in further registers";
    assert_eq!(proof.describe(), words);
}
