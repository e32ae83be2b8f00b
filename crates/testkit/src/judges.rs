//! The judges of a compiled graph: the graph's executors, the golden model, the simulators.

use quincunx_contract::{
    Arch, Claim, Compiled, Engine, Log, NotCompiled, Options, Refused, Target, compiler_of,
};
use quincunx_diag::{Diagnostic, any_error};
use quincunx_graph::execute::{Keep, exact, float};
use quincunx_graph::{Graph, Node, ValueId};
use quincunx_tensor::{DType, Tensor, Tensors};
use std::collections::BTreeSet;

/// A graph on which golden model and simulators agree.
pub struct Agreed {
    /// The program.
    pub compiled: Compiled,
    /// Numbers of the inputs, and what the golden model makes of them.
    pub samples: Vec<(Tensors, Tensors)>,
    /// Values that the simulators showed.
    pub seen: BTreeSet<String>,
}

/// Compiles a graph and runs the program on these inputs: every value that the simulators show is
/// the golden model's, in every engine, and every output is there. The fast engine notes what the
/// readable one does; only where it clips something, the checked one may stop.
///
/// # Errors
///
/// Why the machine does not take the graph, or why it does not fit.
///
/// # Panics
///
/// If the judges differ, or the program is not legal.
pub fn agree(
    target: &dyn Target,
    arch: &dyn Arch,
    options: &Options,
    graph: &Graph,
    inputs: impl IntoIterator<Item = Tensors>,
) -> Result<Agreed, Vec<Diagnostic>> {
    assert!(graph.verify().is_empty(), "{:?}\n{graph}", graph.verify());
    let compiler = compiler_of(target)?;
    let claims = compiler.claim(graph, arch, options, &Refused::default())?;
    let refused = claims.into_iter().filter_map(|claim| match claim {
        Claim::Device => None,
        Claim::Host(reason) => Some(Diagnostic::unsupported("Q0000", reason)),
    });
    let refused: Vec<Diagnostic> = refused.collect();
    if !refused.is_empty() {
        return Err(refused);
    }
    let compiled = compiler.compile(graph, arch, options, &mut Log::default());
    let compiled = compiled.map_err(NotCompiled::into_diagnostics)?;
    let problems = compiled.program.verify();
    assert!(!any_error(&problems), "{problems:?}\n{graph}");
    let mut machines: Vec<_> = [Engine::Exec, Engine::Fast, Engine::Checked]
        .into_iter()
        .map(|engine| (engine, compiled.program.load(engine).unwrap()))
        .collect();
    let golden_model = compiler.prepare(graph, arch, &compiled.numerics).unwrap();
    let (mut samples, mut seen) = (Vec::new(), BTreeSet::new());
    for inputs in inputs {
        let golden = golden_model.run(&inputs);
        let golden = golden.unwrap_or_else(|problem| panic!("{problem}\n{graph}"));
        let mut noticed = (Vec::new(), Vec::new());
        for (engine, machine) in &mut machines {
            let outputs = match machine.run(&inputs) {
                Err(_) if *engine == Engine::Checked && !noticed.1.is_empty() => continue,
                outputs => outputs.unwrap(),
            };
            match engine {
                Engine::Exec => noticed = (machine.notes(), machine.clipped()),
                Engine::Fast => {
                    assert_eq!((machine.notes(), machine.clipped()), noticed, "{graph}");
                }
                Engine::Checked => {}
            }
            // A value may leave twice.
            let names: BTreeSet<ValueId> = graph.outputs().iter().copied().collect();
            assert_eq!(outputs.len(), names.len(), "{graph}");
            let traced = machine.run_traced(&inputs).unwrap();
            assert!(outputs.keys().all(|name| traced.contains_key(name)));
            for (name, found) in outputs.iter().chain(&traced) {
                let at = format!("{engine:?}, {name}, {}\n{graph}", compiled.numerics.0);
                same(found, &golden[name], &at);
            }
            seen.extend(traced.into_keys());
        }
        samples.push((inputs, golden));
    }
    Ok(Agreed { compiled, samples, seen })
}

impl Agreed {
    /// True if all values have the numbers of the exact executor; false if a value has no exact
    /// number.
    ///
    /// # Panics
    ///
    /// If a number differs.
    pub fn is_exact(&self, graph: &Graph) -> bool {
        self.samples.iter().all(|(inputs, golden)| match exact(graph, inputs, Keep::All) {
            Ok(reference) => {
                for (_, node) in graph.nodes() {
                    let name = &graph[node.output].name;
                    assert_eq!(golden[name].to_f64(), reference[name].to_f64(), "{name}\n{graph}");
                }
                true
            }
            Err(problem) => {
                assert_eq!(problem.code(), "Q0311", "{problem}\n{graph}");
                false
            }
        })
    }
}

/// Panics unless two tensors have the same numbers; zeros of both signs are one number, and what is
/// not a number is all the same.
pub fn same(found: &Tensor, expected: &Tensor, at: &str) {
    assert_eq!(found.shape(), expected.shape(), "{at}");
    let differs = |(a, b): &(f64, f64)| a != b && !(a.is_nan() && b.is_nan());
    let (found, expected) = (found.to_f64(), expected.to_f64());
    let pair = found.into_iter().zip(expected).enumerate().find(|(_, pair)| differs(pair));
    assert_eq!(pair, None, "{at}");
}

/// What the float executor makes of a node whose operands are these values, by name; nothing if one
/// is not among them.
pub fn alone(graph: &Graph, node: &Node, values: &Tensors) -> Option<Tensor> {
    let (mut alone, mut given, mut operands) = (Graph::new("alone"), Tensors::new(), Vec::new());
    for &id in &node.inputs {
        let Some(id) = id else {
            operands.push(None);
            continue;
        };
        let value = &graph[id];
        let operand = match (alone.value_named(&value.name), &value.constant) {
            (Some(there), _) => there,
            (None, Some(constant)) => alone.add_constant(&value.name, constant.clone()).unwrap(),
            (None, None) => {
                let mut tensor = values.get(&value.name)?.clone();
                if value.dtype == DType::F32 && tensor.dtype() != DType::F32 {
                    let reals = tensor.to_f64().into_iter().map(|real| real as f32).collect();
                    tensor = Tensor::from_vec::<f32>(&value.shape, reals).unwrap();
                }
                given.insert(value.name.clone(), tensor);
                alone.add_input(&value.name, value.dtype, &value.shape, &[]).unwrap()
            }
        };
        operands.push(Some(operand));
    }
    let output = alone.add_node(&node.name, node.op.clone(), &operands, "result").unwrap();
    alone.add_output(output);
    float(&alone, &given, Keep::Outputs).unwrap().remove("result")
}

/// For each node whose result and operands are among the values: the largest difference from what
/// the float executor makes of the operands, beside the node. Expected numbers are kept within the
/// limits first.
pub fn each_alone<'g>(
    graph: &'g Graph,
    values: &'g Tensors,
    [low, high]: [f64; 2],
) -> impl Iterator<Item = (&'g Node, f64)> {
    graph.nodes().filter_map(move |(_, node)| {
        let found = values.get(&graph[node.output].name)?.to_f64();
        let expected = alone(graph, node, values)?.to_f64();
        assert_eq!(found.len(), expected.len(), "{}\n{graph}", node.name);
        let distance =
            |(a, b): (f64, f64)| if a == b { 0.0 } else { (a - b.clamp(low, high)).abs() };
        let worst = found.into_iter().zip(expected).map(distance);
        Some((node, worst.fold(0.0, |worst, d| if d > worst || d.is_nan() { d } else { worst })))
    })
}
