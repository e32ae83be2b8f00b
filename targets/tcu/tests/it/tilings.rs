//! Machines with few accumulators: every tile that is planned has them.

use crate::common::graphs::{Random, of_peer, random_graph};
use quincunx_contract::{Compiler, Engine, Log, NotCompiled, Options, Target};
use quincunx_diag::Diagnostic;
use quincunx_graph::{Conv, Graph, Op, Reduce, ReduceKind, Unary, Window};
use quincunx_tcu::{TARGET, TcuArch};
use quincunx_tensor::{DType, Tensor, Tensors};

/// Compiles a graph; what the program gives at every layer is what the golden model has.
fn judge(
    graph: &Graph,
    inputs: &Tensors,
    arch: &TcuArch,
    rounding: &str,
) -> Result<(), Diagnostic> {
    let given = [("rounding".to_owned(), rounding.to_owned())];
    let options = Options::new(TARGET.info().options, &given).unwrap();
    let compiled = TARGET.compile(graph, arch, &options, &mut Log::default());
    let compiled = compiled.map_err(NotCompiled::first)?;
    assert!(compiled.program.verify().iter().all(|problem| !problem.is_error()));
    let golden = crate::common::golden_of(graph, &compiled.numerics, inputs).unwrap();
    let mut machine = compiled.program.load(Engine::Exec).unwrap();
    let traced = machine.run_traced(inputs).unwrap();
    for (value, found) in traced.into_iter().chain(machine.run(inputs).unwrap()) {
        assert_eq!(found.to_f64(), golden[&value].to_f64(), "{rounding} {value}\n{graph}");
    }
    Ok(())
}

/// Tiles whose temps have other numbers of positions than the largest one: which results replace
/// their operands depends on the tile, so that a smaller tile may need more accumulators. Found
/// among 1500 random graphs for each machine.
#[test]
fn smaller_tiles_may_need_more_accumulators() {
    for (name, seed) in [("small4", 1041), ("tight8", 441)] {
        let arch = of_peer(name);
        let (graph, inputs) = random_graph(seed, &arch);
        for rounding in ["compat", "free"] {
            judge(&graph, &inputs, &arch, rounding).unwrap_or_else(|p| panic!("{name}: {p}"));
        }
    }
}

/// Poolings of more positions than there are accumulators, alone and behind a product.
#[test]
fn no_pooling_is_too_large() {
    let arch = of_peer("tight8");
    assert_eq!(arch.accumulator_depth, 24);
    let reduce = |kind| Op::Reduce(Reduce { kind, axes: vec![2, 3], keep_dims: true });
    let poolings = [
        Op::GlobalAveragePool,
        Op::GlobalMaxPool,
        reduce(ReduceKind::Mean),
        reduce(ReduceKind::Sum),
    ];
    for (number, pooling) in (0..).zip(poolings) {
        for behind_product in [false, true] {
            let mut random = Random(number);
            let mut tensor = |shape: &[usize]| {
                let reals = (0..shape.iter().product()).map(|_| random.real()).collect();
                Tensor::from_vec::<f32>(shape, reals).unwrap()
            };
            let mut graph = Graph::new("pooling");
            let mut x = graph.add_input("x", DType::F32, &[1, 10, 9, 7], &[]).unwrap();
            if behind_product {
                let w = graph.add_constant("w", tensor(&[12, 10, 3, 3])).unwrap();
                let conv = Op::Conv(Conv { window: Window::new(&[3, 3]), groups: 1 });
                x = graph.add_node("conv", conv, &[Some(x), Some(w)], "y").unwrap();
                x = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(x)], "z").unwrap();
            }
            let out = graph.add_node("pool", pooling.clone(), &[Some(x)], "out").unwrap();
            graph.add_output(out);
            let inputs = Tensors::from([("x".to_owned(), tensor(&[1, 10, 9, 7]))]);
            for rounding in ["compat", "free"] {
                judge(&graph, &inputs, &arch, rounding).unwrap_or_else(|problem| {
                    panic!("{} {behind_product}: {problem}", pooling.name())
                });
            }
        }
    }
}

/// What small machines still refuse says which layer, what it needs, and what would help.
#[test]
fn small_machines_refuse_little() {
    for (name, most) in [("small4", 4), ("tight8", 8)] {
        let arch = of_peer(name);
        let (mut all, mut refused) = (0, 0);
        for seed in 1..300 {
            let (graph, inputs) = random_graph(seed, &arch);
            for rounding in ["compat", "free"] {
                all += 1;
                let Err(problem) = judge(&graph, &inputs, &arch, rounding) else { continue };
                refused += 1;
                assert!(problem.help_text().is_some(), "{problem}");
                match problem.code() {
                    "Q3086" => assert!(needs_more(problem.message()), "{problem}"),
                    "Q3085" | "Q3087" => {}
                    _ => panic!("{problem}"),
                }
            }
        }
        assert!(all > 500 && refused <= most, "{name}: {refused} of {all}");
    }
}

/// More of something than there is: "5 of 4 vectors of local memory and 3 of 2 accumulators".
fn needs_more(message: &str) -> bool {
    let words: Vec<&str> = message.split(' ').collect();
    words.windows(3).any(|three| match (three[0].parse::<u64>(), three[2].parse::<u64>()) {
        (Ok(needed), Ok(there)) => three[1] == "of" && needed > there,
        _ => false,
    })
}
