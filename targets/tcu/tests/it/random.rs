//! Three judges on random graphs: both simulators, the golden model, and the float executor.

use crate::common::graphs::{Generator, Random, of_peer, tensor};
use quincunx_contract::{Compiled, Compiler, Engine, Log, Options, Target};
use quincunx_graph::execute::{Keep, float};
use quincunx_graph::{Graph, Node, Op, Pool};
use quincunx_tcu::arch::DataType;
use quincunx_tcu::{TARGET, TcuArch};
use quincunx_tensor::{Tensor, Tensors};
use std::collections::BTreeMap;

/// Graphs for every machine.
const GRAPHS: u64 = 50;

/// Machines with wide and small memories, without strides, with three registers, of every type.
fn machines() -> Vec<(&'static str, TcuArch)> {
    let pynq = || TcuArch::preset("pynqz1").unwrap();
    let of = |data_type, arch| TcuArch { data_type, ..arch };
    vec![
        ("pynqz1", pynq()),
        ("small4", of_peer("small4")),
        ("tight8", of_peer("tight8")),
        ("without strides", of_peer("nostride8")),
        ("three registers", TcuArch { simd_registers_depth: 3, ..of_peer("small4") }),
        ("floats", of(DataType::Float32, of_peer("small4"))),
        ("bytes", of(DataType::Fp8bp4, of_peer("tight8"))),
        ("words", of(DataType::Fp32bp16, of_peer("tight8"))),
        ("18 bits", of(DataType::Fp18bp10, of_peer("small4"))),
        ("tables", with_tables(2, 32, pynq())),
        ("one table", with_tables(1, 16, of_peer("small4"))),
    ]
}

fn with_tables(tables: u32, depth: u32, arch: TcuArch) -> TcuArch {
    TcuArch {
        simd_registers_depth: tables,
        lookup_tables: Some(tables),
        lookup_table_depth: Some(depth),
        ..arch
    }
}

fn random_graph(seed: u64, arch: &TcuArch) -> (Graph, Random, BTreeMap<String, usize>) {
    let (random, graph) = (Random(seed), Graph::new("random"));
    let mut generator =
        Generator { random, graph, arch: arch.clone(), count: 0, used: BTreeMap::new() };
    generator.build();
    (generator.graph, generator.random, generator.used)
}

fn inputs(graph: &Graph, random: &mut Random) -> Tensors {
    let values = graph.inputs().iter().map(|&id| &graph[id]);
    values.map(|value| (value.name.clone(), tensor(&value.shape, random))).collect()
}

fn compile(graph: &Graph, arch: &TcuArch, rounding: &str) -> Option<Compiled> {
    let given = [("rounding".to_owned(), rounding.to_owned())];
    let options = Options::new(TARGET.info().options, &given).unwrap();
    match TARGET.compile(graph, arch, &options, &mut Log::default()) {
        Ok(compiled) => Some(compiled),
        Err(problem) => {
            // The only excuse is that a layer does not fit.
            let problem = problem.first();
            assert!(["Q3085", "Q3086", "Q3087"].contains(&problem.code()), "{problem}\n{graph}");
            None
        }
    }
}

/// The same number, whatever the sign of a zero; not a number is all the same.
fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

/// Both simulators against the golden model; how many values were compared.
fn simulate(graph: &Graph, compiled: &Compiled, inputs: &Tensors, golden: &Tensors) -> usize {
    let mut compared = 0;
    for engine in [Engine::Exec, Engine::Fast] {
        let mut machine = compiled.program.load(engine).unwrap();
        let mut found = machine.run_traced(inputs).unwrap();
        let mut outputs = machine.run(inputs).unwrap();
        assert_eq!(outputs.len(), graph.outputs().len());
        found.append(&mut outputs);
        for &output in graph.outputs() {
            assert!(found.contains_key(&graph[output].name));
        }
        for (name, tensor) in found {
            let (found, expected) = (tensor.to_f64(), golden[&name].to_f64());
            assert_eq!(found.len(), expected.len());
            let differs = found.iter().zip(&expected).position(|(&a, &b)| !same(a, b));
            let pair = differs.map(|at| (at, found[at], expected[at]));
            assert_eq!(pair, None, "{engine:?}, {name}\n{graph}");
            compared += 1;
        }
    }
    compared
}

/// How many numbers an element of the result is made of.
fn terms(graph: &Graph, node: &Node) -> usize {
    let shape = |index: usize| graph[node.input(index).unwrap()].shape.to_vec();
    let product = |extents: &[usize]| extents.iter().product::<usize>();
    match &node.op {
        Op::Conv(_) => product(&shape(1)[1..]) + 1,
        Op::Gemm(_) | Op::MatMul => shape(0)[1] + 1,
        Op::Pool(Pool { window, .. }) => product(&window.kernel),
        Op::Reduce(_) | Op::GlobalAveragePool => product(&shape(0)[2..]),
        Op::Resize(_) => 64,
        _ => 2,
    }
}

/// The largest difference from the float executor that a node may have for these operands, or
/// nothing if sums of them may leave the type. Every number is off by half a step at most when it is
/// encoded, every product by half a step when it is rounded.
fn bound(data_type: DataType, terms: usize, largest: f64) -> Option<f64> {
    let terms = terms as f64;
    // Products, their factors perhaps multiplied by the alpha of a Gemm or the like.
    let most = terms * largest.max(1.0).powi(2);
    match data_type {
        DataType::Float32 => Some(1e-5 * most),
        _ => {
            let step = data_type.decode(1);
            let fits = most < data_type.decode(data_type.max());
            fits.then_some(step * (terms * (1.5 * largest + 1.0) + 1.0))
        }
    }
}

/// Every node alone: the float executor on the golden model's operands. How many were compared.
fn nodes_are_near(graph: &Graph, arch: &TcuArch, compiled: &Compiled, golden: &Tensors) -> usize {
    let (low, high) = match arch.data_type {
        DataType::Float32 => (f64::MIN, f64::MAX),
        fixed => (fixed.decode(-fixed.max() - 1), fixed.decode(fixed.max())),
    };
    let mut compared = 0;
    'nodes: for (_, node) in graph.nodes() {
        let Some(found) = golden.get(&graph[node.output].name) else { continue };
        let (mut alone, mut operands) = (Graph::new("alone"), Vec::new());
        let (mut given, mut largest) = (Tensors::new(), 0.0_f64);
        for &id in &node.inputs {
            let Some(id) = id else { continue 'nodes };
            let value = &graph[id];
            let operand = match (&value.constant, golden.get(&value.name)) {
                (Some(constant), _) => Err(constant.clone()),
                (None, Some(tensor)) => Ok(tensor.to_f64()),
                // Not there when it is folded into what reads it.
                (None, None) => continue 'nodes,
            };
            let name = value.name.clone();
            let reals = operand.as_ref().map_or_else(|c| c.tensor.to_f64(), Clone::clone);
            if !matches!((&node.op, &operand), (Op::Gather { .. }, Err(_))) {
                largest = reals.iter().fold(largest, |most, real| most.max(real.abs()));
            }
            let there = alone.value_named(&name);
            operands.push(Some(match (there, operand) {
                (Some(there), _) => there,
                (None, Err(constant)) => alone.add_constant(&name, constant).unwrap(),
                (None, Ok(reals)) => {
                    let reals = reals.iter().map(|&real| real as f32).collect();
                    let tensor = Tensor::from_vec::<f32>(&value.shape, reals).unwrap();
                    given.insert(name.clone(), tensor);
                    alone.add_input(&name, value.dtype, &value.shape, &[]).unwrap()
                }
            }));
        }
        // Functions from tables are as far off as the compiler says, and operands are rounded to f32.
        let stated = compiled.numerics.0["lookups"][&node.name]["max_error"].as_f64();
        let stated = stated.map(|error| error + 1e-5 * high.min(1e6));
        let Some(bound) = stated.or_else(|| bound(arch.data_type, terms(graph, node), largest))
        else {
            continue;
        };
        let output = alone.add_node(&node.name, node.op.clone(), &operands, "result").unwrap();
        alone.add_output(output);
        let expected = float(&alone, &given, Keep::Outputs).unwrap()["result"].to_f64();
        let pairs = found.to_f64().into_iter().zip(expected);
        let distance = |(a, b): (f64, f64)| (a - b.clamp(low, high)).abs();
        let worst = pairs.map(distance).fold(0.0, f64::max);
        assert!(worst <= bound, "{} is off by {worst}, more than {bound}\n{graph}", node.name);
        compared += 1;
    }
    compared
}

#[test]
fn three_judges_agree_on_random_graphs() {
    let mut used = BTreeMap::<String, usize>::new();
    for (number, (name, arch)) in (0..).zip(machines()) {
        let (mut graphs, mut seed) = (0, 100_000 * number);
        let (mut values, mut nodes, mut large) = (0, 0, 0);
        while graphs < GRAPHS {
            seed += 1;
            let (graph, mut random, kinds) = random_graph(seed, &arch);
            if graph.outputs().is_empty() {
                continue;
            }
            let inputs = inputs(&graph, &mut random);
            let programs = ["compat", "free"].map(|rounding| compile(&graph, &arch, rounding));
            let [Some(compat), Some(free)] = programs else {
                large += 1;
                assert!(large <= GRAPHS, "{name}: too many graphs do not fit");
                continue;
            };
            for compiled in [compat, free] {
                let golden = crate::common::golden_of(&graph, &compiled.numerics, &inputs);
                let golden = golden.unwrap_or_else(|e| panic!("{name}, {seed}: {e}\n{graph}"));
                values += simulate(&graph, &compiled, &inputs, &golden);
                nodes += nodes_are_near(&graph, &arch, &compiled, &golden);
            }
            kinds.into_iter().for_each(|(kind, count)| *used.entry(kind).or_default() += count);
            graphs += 1;
        }
        assert!(values > 1000 && nodes > 200, "{name}: {values} values, {nodes} nodes");
    }
    assert!(used.len() >= 37, "{used:?}");
}
