//! AUKE's search: legal programs of its macros that compute the kernels, also with few registers.

use crate::common::{Random, golden_text, is_legal, reg, root, scamp5};
use quincunx_contract::ArchSource;
use quincunx_scamp::ScampArch;
use quincunx_scamp::auke::{Outcome, Settings, search};
use quincunx_scamp::files::read_kernels;
use quincunx_scamp::goal::{Bag, Cell, Goal};
use quincunx_scamp::isa::{Reg, TABLE};
use quincunx_scamp::program::{Named, access};
use quincunx_scamp::task::{Task, Wanted};

fn input(id: &str) -> Task {
    let file = read_kernels(&golden_text(&format!("cain_inputs/{id}.json"))).unwrap();
    Task::of_file(&file, &scamp5()).unwrap()
}

fn task(goals: Vec<Goal>, depth: u32, inputs: &[&str], outputs: &[&str], pool: &[&str]) -> Task {
    let list = |names: &[&str]| names.iter().map(|name| reg(name)).collect::<Vec<Reg>>();
    let (inputs, outputs) = (list(inputs), list(outputs));
    Task::new(Wanted { goals: Bag(goals), depth, inputs, outputs }, list(pool), &scamp5()).unwrap()
}

/// A program of the set `basic` that is legal, computes what is wanted, and uses the pool only.
fn judge(task: &Task, found: &Outcome, what: &str) {
    assert!(is_legal(&found.program), "{what}");
    assert_eq!(task.wanted.check(&found.program).unwrap(), [], "{what}");
    let basic = ScampArch::macro_set("basic").unwrap();
    for inst in &found.program.instructions {
        assert!(basic.contains(TABLE.rows[inst.row()].name), "{what}: {}", inst.text());
        let writes = access(inst).writes;
        let is_known =
            |(_, register): &Named| *register == Reg::NEWS || task.pool.contains(register);
        assert!(writes.iter().all(is_known), "{what}: {}", inst.text());
    }
    let lengths: usize = found.kernels.iter().map(|kernel| kernel.length).sum();
    let moves = found.program.instructions.len() - lengths;
    assert!(moves < task.wanted.outputs.len(), "{what}: {moves}");
}

fn find(task: &Task, max_nodes: u64) -> Outcome {
    search(task, Settings { max_nodes }, &scamp5()).unwrap()
}

/// Every analogue kernel file of the golden data, kernels in turn.
#[test]
fn kernel_files_have_programs() {
    let folder = std::fs::read_dir(root().join("cain_inputs")).unwrap();
    let mut names: Vec<String> =
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names.len(), 23);
    for name in names {
        let task = input(name.strip_suffix(".json").unwrap());
        judge(&task, &find(&task, 200), &name);
    }
}

/// No kernel of table 1 takes more instructions than AUKE's programs, which are not all legal; the
/// published lengths are of one kernel after the other.
#[test]
fn table_1() {
    let published: [(&str, &[usize]); 4] = [
        ("gauss3", &[12]),
        ("gauss5", &[50]),
        ("gauss5_3", &[50, 12]),
        ("analognet2", &[13, 21, 15]),
    ];
    for (id, lengths) in published {
        let task = input(id);
        let found = find(&task, 1000);
        judge(&task, &found, id);
        assert_eq!(found.kernels.len(), lengths.len());
        for (output, &length) in task.wanted.outputs.iter().zip(lengths) {
            let kernel = found.kernels.iter().find(|kernel| kernel.output == *output).unwrap();
            assert!(kernel.length <= length, "{id} {output}: {}", kernel.length);
        }
    }
}

/// Registers that are wanting make programs longer, until they are too few; then the error says how
/// many suffice.
#[test]
fn fewer_registers() {
    let gauss5 = input("gauss5").wanted;
    let with = |count: usize| {
        let pool: Vec<Reg> = scamp5().analogue[..count].to_vec();
        Task::new(gauss5.clone(), pool, &scamp5()).unwrap()
    };
    let mut longer = 0;
    for count in (3..=6).rev() {
        let found = find(&with(count), 200);
        judge(&with(count), &found, &format!("{count}"));
        assert!(found.program.instructions.len() >= longer);
        longer = found.program.instructions.len();
    }
    let problem = search(&with(2), Settings { max_nodes: 200 }, &scamp5()).unwrap_err();
    assert_eq!(problem.code(), "Q5130");
    assert_eq!(problem.class().exit_code(), 4);
    assert!(format!("{problem:?}").contains("3 suffice"), "{problem:?}");
}

#[test]
fn kernels_without_a_sum() {
    let identity = || Goal::identity(0, 2);
    let mut west = Goal::default();
    west.set(Cell { x: -1, y: 0, z: 0 }, -1);
    let cases = [
        (identity(), "A", 0),
        (identity(), "B", 1),
        (Goal::default(), "A", 1),
        (Goal::default(), "B", 1),
        (west.clone(), "A", 4),
        (west, "B", 4),
    ];
    for (goal, output, length) in cases {
        let task = task(vec![goal], 2, &["A"], &[output], &["A", "B", "C"]);
        let found = find(&task, 50);
        judge(&task, &found, output);
        assert_eq!(found.program.instructions.len(), length, "{:?}", found.program);
    }
}

/// Results that replace inputs, which other kernels need; an input outside of the pool.
#[test]
fn results_in_the_place_of_inputs() {
    let of = |cells: &[(i32, u32, i64)]| {
        let mut goal = Goal::default();
        cells.iter().for_each(|&(x, z, count)| goal.set(Cell { x, y: 0, z }, count));
        goal
    };
    let cross = [of(&[(1, 0, 1), (0, 1, 2)]), of(&[(-1, 1, 1), (0, 0, -3)])];
    let all = ["A", "B", "C", "D", "E", "F"];
    let swapped = task(cross.to_vec(), 1, &["A", "B"], &["A", "B"], &all);
    judge(&swapped, &find(&swapped, 100), "swapped");
    let read_only = task(cross.to_vec(), 1, &["A", "B"], &["B", "C"], &all[1..]);
    judge(&read_only, &find(&read_only, 100), "read only");
}

#[test]
fn random_kernels() {
    let mut random = Random::new(5);
    let all = ["A", "B", "C", "D", "E", "F"];
    let mut splits = 0;
    for round in 0..60 {
        let channels = 1 + round % 2;
        let kernel = |random: &mut Random| {
            let mut goal = Goal::default();
            for _ in 0..=random.below(9) {
                let [x, y] = [0, 1].map(|_| random.below(5) - 2);
                let z = random.below(channels as u64) as u32;
                goal.set(Cell { x, y, z }, random.below(17) as i64 - 8);
            }
            goal
        };
        let goals: Vec<Goal> = (0..=round % 3).map(|_| kernel(&mut random)).collect();
        let count = goals.len();
        let outputs = &all[round % 3..round % 3 + count];
        let task = task(goals, (round % 5) as u32, &all[..channels], outputs, &all);
        let settings = Settings { max_nodes: 60 };
        match search(&task, settings, &scamp5()) {
            Ok(found) => {
                judge(&task, &found, &format!("{round}"));
                let again = search(&task, settings, &scamp5()).unwrap();
                assert_eq!(found.program, again.program);
                splits += found.kernels.iter().filter(|kernel| kernel.graph.is_some()).count();
            }
            // Three kernels of two images may be too many.
            Err(problem) => {
                assert_eq!((problem.code(), count + channels), ("Q5130", 5), "{problem:?}");
            }
        }
    }
    assert!(splits > 60, "{splits}");
}

#[test]
fn what_is_refused() {
    let far = {
        let mut goal = Goal::default();
        goal.set(Cell { x: 1000, y: 0, z: 0 }, 1);
        goal
    };
    let far = task(vec![far], 0, &["A"], &["A"], &["A", "B"]);
    let settings = Settings { max_nodes: 10 };
    assert_eq!(search(&far, settings, &scamp5()).unwrap_err().code(), "Q5132");
    let text = "name = \"m\"\nmacros = \"all\"\n".to_owned();
    let all = ScampArch::from_source(&ArchSource::Text { name: "m".into(), text }).unwrap();
    assert_eq!(search(&input("gauss3"), settings, &all).unwrap_err().code(), "Q5131");
}

/// The texts: each split, and each graph, is of the kernel; relaxation only takes instructions away.
#[test]
fn splits_and_graphs() {
    let task = input("analognet2");
    let found = find(&task, 300);
    for kernel in &found.kernels {
        let output =
            task.wanted.outputs.iter().position(|output| *output == kernel.output).unwrap();
        let goal = task.wanted.goals.0[output].compact();
        assert!(kernel.splits.starts_with(&format!("{goal} = ")), "{}", kernel.splits);
        let ((graph, longer), (relaxed, length)) =
            (kernel.graph.clone().unwrap(), kernel.relaxed.clone().unwrap());
        assert_eq!(kernel.length, length as usize);
        assert!(length <= longer);
        for dot in [graph, relaxed] {
            assert!(dot.starts_with("digraph") && dot.ends_with("}\n"));
            assert!(dot.contains(&format!("[label=\"1/2^2 {goal}\"]")), "{dot}");
        }
    }
    let names: Vec<&str> = found.texts().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["splits", "graph", "relaxed"]);
    let lines = found.lines();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line.contains("instructions") && line.contains("nodes")));
}
