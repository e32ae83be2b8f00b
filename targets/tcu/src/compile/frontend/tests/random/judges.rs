//! The simulator and the golden model on random graphs.

use super::{Generator, Random};
use crate::arch::DataType;
use crate::{TARGET, TcuArch};
use quincunx_contract::{Compiler, Engine, Log, Options, Target};
use quincunx_graph::Graph;
use quincunx_tensor::{Tensor, Tensors};
use std::collections::BTreeMap;

/// Input numbers of a few hundredths to a few units, on any grid.
fn random_inputs(graph: &Graph, random: &mut Random) -> Tensors {
    let mut tensor = |shape: &[usize]| {
        let reals = (0..shape.iter().product()).map(|_| random.real() * 3.0).collect();
        Tensor::from_vec::<f32>(shape, reals).unwrap()
    };
    let inputs = graph.inputs().iter().map(|&id| &graph[id]);
    inputs.map(|value| (value.name.clone(), tensor(&value.shape))).collect()
}

/// The same number, whatever the sign of a zero; not a number is all the same.
fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

#[test]
fn programs_have_the_numbers_of_the_golden_model() {
    let (mut values, mut programs) = (0, 0);
    for seed in 1000..3000 {
        let mut arch = TcuArch::preset("pynqz1").unwrap();
        let mut random = Random(seed);
        arch.array_size = random.range(2, 9) as u32;
        arch.data_type = DataType::ALL[seed as usize % 5];
        if seed % 3 == 0 {
            let tables = random.range(1, 3) as u32;
            arch.simd_registers_depth = tables + random.below(2) as u32;
            arch.lookup_tables = Some(tables);
            arch.lookup_table_depth = Some(random.range(1, 40) as u32);
        }
        let rounding = if seed % 2 == 0 { "compat" } else { "free" };
        let used = BTreeMap::new();
        let graph = Graph::new("random");
        let mut generator = Generator { random, graph, arch, count: 0, used };
        generator.build();
        let Generator { graph, arch, mut random, .. } = generator;
        if graph.outputs().is_empty() {
            continue;
        }
        let given = [("rounding".to_owned(), rounding.to_owned())];
        let options = Options::new(TARGET.info().options, &given).unwrap();
        let compiled = TARGET.compile(&graph, &arch, &options, &mut Log::default()).unwrap();
        let inputs = random_inputs(&graph, &mut random);
        let golden = TARGET.prepare(&graph, &arch, &compiled.numerics).unwrap().run(&inputs);
        let golden = golden.unwrap_or_else(|problem| panic!("seed {seed}: {problem}\n{graph}"));
        let mut machine = compiled.program.load(Engine::Exec).unwrap();
        programs += 1;
        for (name, found) in machine.run_traced(&inputs).unwrap() {
            let expected = golden[&name].to_f64();
            let found = found.to_f64();
            assert_eq!(found.len(), expected.len());
            let differs = found.iter().zip(&expected).position(|(&a, &b)| !same(a, b));
            let pair = differs.map(|at| (at, found[at], expected[at]));
            assert_eq!(pair, None, "seed {seed}, {name}\n{graph}{:?}", compiled.numerics);
            values += 1;
        }
    }
    assert!(programs > 1500 && values > 7500, "{programs} programs, {values} values");
}
