//! Cain's search: plans of all traversals, generators and heuristics, and what it reports.

use crate::common::{Random, golden, golden_text, reg, scamp5};
use quincunx_diag::any_error;
use quincunx_report::Heading;
use quincunx_scamp::ScampArch;
use quincunx_scamp::cain::{
    CostFunction, Fate, Heuristic, OpSet, Outcome, SearchGraph, Settings, Strategy, Traversal,
    children, search,
};
use quincunx_scamp::files::read_kernels;
use quincunx_scamp::goal::{Bag, Cell, Goal};
use quincunx_scamp::task::{Task, Wanted};
use quincunx_scamp::verify::verify;

fn input(id: &str) -> (Task, Settings) {
    let file = read_kernels(&golden_text(&format!("cain_inputs/{id}.json"))).unwrap();
    (Task::of_file(&file, &scamp5()).unwrap(), Settings::of_file(&file).unwrap())
}

/// A task on the registers A to F, inputs from A on and outputs from A on.
fn task(kernels: &[&[&[i64]]], depth: u32) -> Task {
    let rows = |kernel: &&[&[i64]]| kernel.iter().map(|row| row.to_vec()).collect::<Vec<_>>();
    let goals = Bag(kernels.iter().map(|kernel| Goal::from_rows(&rows(kernel))).collect());
    of_goals(goals, depth)
}

fn of_goals(goals: Bag, depth: u32) -> Task {
    let arch = scamp5();
    let outputs = arch.analogue[..goals.0.len()].to_vec();
    let wanted = Wanted { goals, depth, inputs: vec![reg("A")], outputs };
    Task::new(wanted, arch.analogue.clone(), &arch).unwrap()
}

/// Every plan computes what is wanted, is legal, and uses only what the task has.
fn judge(task: &Task, outcome: &Outcome, arch: &ScampArch) {
    assert!(!outcome.plans.is_empty());
    let programs = outcome.plans.iter().map(|plan| &plan.program);
    for program in programs.chain([&outcome.best]) {
        assert_eq!(task.wanted.check(program).unwrap(), []);
        assert!(!any_error(&verify(program, arch)));
        assert_eq!(program.inputs.as_ref(), Some(&task.wanted.inputs));
        assert_eq!(program.outputs.as_ref(), Some(&task.wanted.outputs));
        for inst in &program.instructions {
            let row = quincunx_scamp::isa::TABLE.rows[inst.row()].name;
            assert!(task.macros.contains(row), "{}", inst.text());
        }
    }
    let least = outcome.plans.iter().map(|plan| plan.length).min().unwrap();
    assert!(outcome.best.length() >= least);
}

const SMALL: [(&[&[i64]], u32); 4] =
    [(&[&[1, 1]], 0), (&[&[1], &[-1]], 1), (&[&[1, 0, 1]], 0), (&[&[3]], 2)];

/// Every strategy. A random order finds next to nothing, as the paper says.
fn strategies() -> Vec<Strategy> {
    let mut list = vec![Strategy::AtomDistance { ops: OpSet::All }];
    for (_, heuristic) in Heuristic::ALL {
        list.push(Strategy::Exhaustive { heuristic, ops: OpSet::All });
        list.push(Strategy::AtomDistanceSorted { heuristic, ops: OpSet::All });
        list.push(Strategy::threshold(2, heuristic, OpSet::Basic));
    }
    list
}

fn is_random(strategy: &Strategy) -> bool {
    format!("{strategy:?}").contains("Random")
}

/// All traversals, generators and heuristics find plans for small kernels, the same ones each time.
/// Depth first, the search for three quarters loses itself in some orders; in random order, most do.
#[test]
fn all_searches_find_plans() {
    let traversals = [
        Traversal::Cgds,
        Traversal::CgdsN(3),
        Traversal::Dfs,
        Traversal::Bfs,
        Traversal::Hos,
        Traversal::Rt,
        Traversal::BestFirst,
    ];
    let arch = scamp5();
    for (kernel, depth) in SMALL {
        let task = task(&[kernel], depth);
        for traversal in traversals {
            for strategy in strategies() {
                let lost = traversal == Traversal::Dfs && depth == 2;
                let lucky = traversal == Traversal::Cgds && kernel == SMALL[0].0;
                if lost || is_random(&strategy) && !lucky {
                    continue;
                }
                let settings = Settings {
                    max_nodes: 500,
                    traversal,
                    strategy: strategy.clone(),
                    initial_max_depth: 6,
                    ..Settings::default()
                };
                let outcome = search(&task, &settings, &arch)
                    .unwrap_or_else(|e| panic!("{kernel:?} {traversal:?} {strategy:?}: {e:?}"));
                judge(&task, &outcome, &arch);
                let again = search(&task, &settings, &arch).unwrap();
                assert_eq!((&again.plans, again.counts), (&outcome.plans, outcome.counts));
            }
        }
    }
}

/// Cain's own run, by nodes and lengths of its plans: ours reaches 10 instructions as soon.
#[test]
fn gauss_as_cain_finds_it() {
    let (task, mut settings) = input("gauss3");
    settings.max_nodes = 1500;
    let outcome = search(&task, &settings, &scamp5()).unwrap();
    judge(&task, &outcome, &scamp5());
    let ours: Vec<(u64, u64)> =
        outcome.plans.iter().map(|plan| (plan.nodes, plan.length)).collect();
    let trace = golden("search_trace_gauss3.json");
    let number = |plan: &serde_json::Value, at: usize| plan[at].as_u64().unwrap();
    let cains: Vec<(u64, u64)> = trace["plans"]
        .as_array()
        .unwrap()
        .iter()
        .map(|plan| (number(plan, 0), number(plan, 1)))
        .collect();
    assert_eq!(ours[..2], cains[..2], "{ours:?} {cains:?}");
    assert_eq!(outcome.best.length(), 10, "{ours:?} {cains:?}");
}

/// Every analogue kernel file of the golden data, within nodes that take Cain some seconds.
#[test]
fn kernel_files_have_programs() {
    let arch = scamp5();
    let folder = std::fs::read_dir(crate::common::root().join("cain_inputs")).unwrap();
    let mut names: Vec<String> =
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names.len(), 23);
    for name in names {
        let (task, mut settings) = input(name.strip_suffix(".json").unwrap());
        settings.max_nodes = 1000;
        let outcome = search(&task, &settings, &arch).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        judge(&task, &outcome, &arch);
    }
}

#[test]
fn random_kernels_have_programs() {
    let arch = scamp5();
    let mut random = Random::new(17);
    for _ in 0..12 {
        let kernels = 1 + random.below(3);
        let mut goal = || {
            let mut row = || (0..3).map(|_| random.below(9) as i64 - 3).collect::<Vec<_>>();
            Goal::from_rows(&[row(), row(), row()])
        };
        let goals = Bag((0..kernels).map(|_| goal()).collect());
        let task = of_goals(goals, 3);
        let settings = Settings { max_nodes: 2000, ..Settings::default() };
        let outcome = search(&task, &settings, &arch)
            .unwrap_or_else(|e| panic!("{}: {e:?}", task.wanted.goals.compact()));
        judge(&task, &outcome, &arch);
    }
}

/// Zeros, equal outputs, copies of the input, several channels and inputs outside the pool.
#[test]
fn odd_tasks_have_programs() {
    let arch = scamp5();
    let settings = Settings { max_nodes: 2000, ..Settings::default() };
    let check = |task: &Task, length: u64| {
        let outcome = search(task, &settings, &arch)
            .unwrap_or_else(|e| panic!("{}: {e:?}", task.wanted.goals.compact()));
        judge(task, &outcome, &arch);
        assert_eq!(outcome.best.length(), length);
    };
    check(&task(&[&[&[1]]], 0), 0);
    check(&task(&[&[&[0]]], 0), 1);
    check(&task(&[&[&[1]], &[&[1]]], 0), 1);
    check(&task(&[&[&[0]], &[&[0]], &[&[1]]], 0), 2);
    let mut outside = task(&[&[&[1, 1]]], 1);
    outside.pool.retain(|&register| register != reg("A"));
    outside.wanted.outputs = vec![reg("B")];
    let outside = Task::new(outside.wanted, outside.pool, &arch).unwrap();
    check(&outside, 3);
    let mut sum = Goal::default();
    let cells = [(0, 0, 0), (1, 0, 1), (0, 1, 1)];
    cells.into_iter().for_each(|(x, y, z)| sum.set(Cell { x, y, z }, 1));
    let (inputs, outputs) = (vec![reg("B"), reg("A")], vec![reg("A")]);
    let wanted = Wanted { goals: Bag(vec![sum]), depth: 0, inputs, outputs };
    check(&Task::new(wanted, arch.analogue.clone(), &arch).unwrap(), 3);
}

/// Every limit of the settings acts.
#[test]
fn settings_act() {
    let (task, settings) = input("gauss3");
    let arch = scamp5();
    let settings = Settings { max_nodes: 300, ..settings };
    let run = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings.clone();
        change(&mut settings);
        search(&task, &settings, &arch).map(|outcome| (outcome.best.length(), outcome.counts))
    };
    let (plain, counts) = run(&|_| {}).unwrap();
    assert_eq!(counts.nodes, 300);
    assert_eq!(run(&|s| s.max_nodes = 3).unwrap_err().code(), "Q5085");
    assert_eq!(run(&|s| s.initial_max_depth = 3).unwrap_err().code(), "Q5085");
    assert_eq!(run(&|s| s.initial_max_cost = 3).unwrap_err().code(), "Q5085");
    assert_eq!(run(&|s| s.allowable_atoms_coefficient = 0.0).unwrap_err().code(), "Q5085");
    let (_, tight) = run(&|s| s.initial_max_depth = 12).unwrap();
    let (_, loose) = run(&|s| {
        s.initial_max_depth = 12;
        s.goal_reductions_per_step = 9;
        s.goal_reductions_tolerance = 9;
    })
    .unwrap();
    assert!(tight.goals > 0 && loose.goals == 0, "{tight:?} {loose:?}");
    let (_, forced) = run(&|s| s.forced_depth_reduction = 100).unwrap();
    assert_eq!(forced.plans, 1);
    let (_, forced) = run(&|s| s.forced_cost_reduction = 100).unwrap();
    assert_eq!(forced.plans, 1);
    let functions = [
        CostFunction::CircuitDepth,
        CostFunction::InstructionCost,
        CostFunction::CircuitDepthThenLength,
        CostFunction::LengthThenCircuitDepth,
    ];
    for function in functions {
        let (length, counts) = run(&|s| s.cost_function = function).unwrap();
        assert!(length <= plain + 4 && counts.plans > 0, "{function:?}");
    }
}

/// What files say of the search.
#[test]
fn settings_of_files() {
    let text = golden_text("cain_inputs/gauss3.json");
    let of = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        Settings::of_file(&read_kernels(&text.replace(from, to)).unwrap())
    };
    let plain = of("\"name\"", "\"name\"").unwrap();
    assert_eq!(plain.max_nodes, 120_000);
    assert_eq!(plain.strategy, Strategy::threshold(10, Heuristic::Pattern, OpSet::All));
    assert_eq!(of("\"workers\": 2", "\"workers\": 2, \"maxNodes\": 7").unwrap().max_nodes, 7);
    let cgdsn = of("\"CGDS\"", "\"CGDSN\", \"CGDSN\": 4").unwrap();
    assert_eq!(cgdsn.traversal, Traversal::CgdsN(4));
    let basic = of("\"ops\": \"all\"", "\"ops\": \"basic\"").unwrap();
    assert_eq!(basic.strategy, Strategy::threshold(10, Heuristic::Pattern, OpSet::Basic));
    let nested = "\"threshold\": 10, \"above\": {\"name\": \"AtomDistance\", \"ops\": \"basic\"}";
    let Strategy::Threshold { above, .. } = of("\"threshold\": 10", nested).unwrap().strategy
    else {
        panic!("no threshold")
    };
    assert_eq!(*above, Strategy::AtomDistance { ops: OpSet::Basic });
    for (from, to) in [
        ("\"CGDS\"", "\"CGDSN\""),
        ("\"CGDS\"", "\"A*\""),
        ("\"PlanLength\"", "\"Price\""),
        ("\"Pattern\"", "\"Pattern3\""),
        ("\"Threshold\"", "\"Thresh\""),
        ("\"initialMaxDepth\": 200", "\"initialMaxDepth\": -1"),
    ] {
        assert_eq!(of(from, to).unwrap_err().code(), "Q5052", "{to}");
    }
}

/// Kernels that are too large are refused, not searched for.
#[test]
fn large_kernels_are_refused() {
    let arch = scamp5();
    let wide = vec![vec![1; 1200]];
    let many = vec![vec![1; 20]; 20];
    for goal in [Goal::from_rows(&wide), Goal::from_rows(&many), Goal::from_rows(&[vec![1 << 40]])]
    {
        let task = of_goals(Bag(vec![goal]), 0);
        assert_eq!(search(&task, &Settings::default(), &arch).unwrap_err().code(), "Q5086");
    }
    let task = of_goals(Bag(vec![Goal::from_rows(&[vec![1]])]), 40);
    assert_eq!(search(&task, &Settings::default(), &arch).unwrap_err().code(), "Q5086");
}

/// The children of the paper's example: every pair of every instruction, and those by distances.
#[test]
fn children_of_the_paper() {
    let kernels: [&[&[i64]]; 3] = [
        &[&[0, 0, 0], &[-3, 1, 0], &[-3, 0, 2]],
        &[&[-4, -1, -1], &[-1, 2, 0], &[1, 1, 0]],
        &[&[-1, 2, 0], &[-1, 1, -3], &[0, -3, 0]],
    ];
    let task = task(&kernels, 2);
    let (heuristic, ops) = (Heuristic::Pattern, OpSet::All);
    let count = |strategy| children(&task, &Settings { strategy, ..Settings::default() }).unwrap();
    let exhaustive = count(Strategy::Exhaustive { heuristic, ops });
    let sorted = count(Strategy::AtomDistanceSorted { heuristic, ops });
    let plain = count(Strategy::AtomDistance { ops });
    assert_eq!((exhaustive, sorted, plain), (37_160, 216, 216));
    // With divq, which the set `all` of today leaves out, it is the number of the paper.
    let ops = OpSet::Task;
    assert_eq!(count(Strategy::Exhaustive { heuristic, ops }), 37_163);
}

/// Nodes of a search for a kernel on a line, as many as that, with the usual settings.
fn recorded(kernel: &[i64], recorded_nodes: usize) -> SearchGraph {
    let settings = Settings { max_nodes: 100, recorded_nodes, ..Settings::default() };
    search(&task(&[&[kernel]], 0), &settings, &scamp5()).unwrap().graph
}

/// The example of docs/machines/scamp.md, after figure 2 of the paper: the seventh step is a plan, the fifth a
/// move that makes two goals one, the eighth leads to a bag that was there before.
#[test]
fn a_search_on_a_line() {
    let graph = recorded(&[-1, 2, -1], 12);
    let nodes = &graph.nodes;
    assert_eq!(nodes.len(), 12);
    assert_eq!(nodes[0].edge, None);
    assert_eq!(nodes[0].bag.compact(), "{<-1 2 -1>}");
    assert!(nodes[..7].iter().all(|node| node.fate == Fate::Expanded));
    let Fate::Plan(program) = &nodes[7].fate else { panic!("{:?}", nodes[7]) };
    assert_eq!((program.len(), nodes[7].bag.compact()), (7, "{<1>}".to_owned()));
    // The way to the plan is steps 1 to 7 one after the other.
    let froms = nodes[1..8].iter().map(|node| node.edge.as_ref().unwrap().from);
    assert_eq!(froms.collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    let shared = nodes[5].edge.as_ref().unwrap();
    assert!(shared.instruction.starts_with("mov"), "{shared:?}");
    assert_eq!(nodes[5].bag.0.len() + 1, nodes[4].bag.0.len());
    // Then it goes on with another child of the outputs.
    assert_eq!(nodes[8].edge.as_ref().unwrap().from, 0);
    assert_eq!(nodes[8].fate, Fate::Repeats(1));
    assert_eq!(recorded(&[-1, 2, -1], 0), SearchGraph::default());
    assert_eq!(recorded(&[-1, 2, -1], 3).nodes.len(), 3);
}

/// Every recorded child holds what its parent holds, without what the step makes, with what it reads.
#[test]
fn recorded_steps_are_steps() {
    let set = |bag: &Bag| {
        let mut goals: Vec<String> = bag.0.iter().map(Goal::compact).collect();
        goals.sort();
        goals.dedup();
        goals
    };
    let (task, settings) = input("analognet2");
    let settings = Settings { max_nodes: 200, recorded_nodes: 150, ..settings };
    let graph = search(&task, &settings, &scamp5()).unwrap().graph;
    assert_eq!(graph.nodes.len(), 150);
    for node in &graph.nodes[1..] {
        let edge = node.edge.as_ref().unwrap();
        let before = graph.nodes[edge.from].bag.before(&edge.uppers, &edge.lowers).unwrap();
        assert_eq!(set(&node.bag), set(&before), "{edge:?}");
        if let Fate::Repeats(earlier) = node.fate {
            assert_eq!(set(&node.bag), set(&graph.nodes[earlier].bag));
        }
    }
    assert!(graph.nodes.iter().any(|node| matches!(node.fate, Fate::Plan(_))));
}

/// Drawings have every node and every step, once, and boxes do not overlap.
#[test]
fn drawings_of_searches() {
    let graph = recorded(&[-1, 2, -1], 30);
    let dot = graph.dot("a \"line\"");
    assert!(dot.starts_with("digraph \"a \\\"line\\\"\" {\n") && dot.ends_with("}\n"));
    let count = |text: &str, part: &str| text.matches(part).count();
    assert_eq!((count(&dot, " [label="), count(&dot, " -> ")), (30 + 29, 29));
    assert!(dot.contains("n0 -> n1 [label=\"1: "));
    assert!(dot.contains("left out: the same as 1\\l") && dot.contains("plan: 7 instructions\\l"));
    let svg = graph.svg(&Heading::new("Search").of("<line>"));
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("<line>"));
    assert_eq!((count(&svg, "<rect class=\"paper\" x="), count(&svg, "<path fill")), (30, 29));
    assert!(svg.contains(">29: ") && svg.contains("plan: 7 instructions"));
    let number = |text: &str, name: &str| {
        let (_, rest) = text.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse::<f64>().unwrap()
    };
    let boxes = svg.lines().filter(|line| line.starts_with("<rect class=\"paper\" x="));
    let boxes: Vec<[f64; 4]> =
        boxes.map(|line| ["x", "y", "width", "height"].map(|name| number(line, name))).collect();
    let size = ["width", "height"].map(|name| number(&svg, name));
    for (at, a) in boxes.iter().enumerate() {
        assert!(a[0] >= 0.0 && a[0] + a[2] <= size[0] && a[1] + a[3] <= size[1], "{a:?} {size:?}");
        for b in &boxes[..at] {
            let apart =
                |axis: usize| a[axis] >= b[axis] + b[axis + 2] || b[axis] >= a[axis] + a[axis + 2];
            assert!(apart(0) || apart(1), "{a:?} {b:?}");
        }
    }
}
