//! No program takes fewer cycles than the bound.

use crate::common::graphs::{random_graph, shallow};
use crate::common::networks::residual;
use quincunx_contract::{Compiler, Log};
use quincunx_graph::{Conv, Graph, Op, Unary, Window};
use quincunx_tcu::arch::DataType;
use quincunx_tcu::bound::{Classes, lower_bound};
use quincunx_tcu::{Artifact, TARGET, TcuArch};
use quincunx_tensor::{DType, Tensor};
use quincunx_testkit::{Random, options};

/// What the program of a graph spends, if there is one.
fn spent(graph: &Graph, arch: &TcuArch, rounding: &str) -> Option<Classes> {
    let options = options(&TARGET, &[("rounding", rounding)]);
    let compiled = TARGET.compile(graph, arch, &options, &mut Log::default()).ok()?;
    let artifact = compiled.program.as_any().downcast_ref::<Artifact>().unwrap();
    let classes = Classes::of_program(&artifact.package().program);
    assert_eq!(Some(classes.total()), compiled.program.stats().cycles);
    Some(classes)
}

/// A machine with any width, type, memories and registers.
fn machine(random: &mut Random) -> TcuArch {
    let preset = shallow(TcuArch::preset("pynqz1").unwrap());
    let tables = random.chance(20);
    TcuArch {
        array_size: random.range(2, 17),
        data_type: random.pick(&DataType::ALL),
        local_depth: random.pick(&[64, 300, 2048, 8192]),
        accumulator_depth: random.pick(&[16, 100, 2048]),
        simd_registers_depth: random.range(1, 4),
        lookup_tables: tables.then_some(1),
        lookup_table_depth: tables.then_some(16),
        ..preset
    }
}

#[test]
fn no_program_takes_fewer_cycles() {
    let mut programs = 0;
    for case in 0..1000 {
        let random = &mut Random::new(case);
        let arch = machine(random);
        let (graph, _) = random_graph(random, &arch);
        let bound = lower_bound(&graph, &arch);
        for rounding in ["compat", "free"] {
            let Some(spent) = spent(&graph, &arch, rounding) else { continue };
            assert!(
                bound.total() <= spent.total(),
                "case {case}, {rounding}: {spent:?}, bound {bound:?}, {arch:?}\n{graph}"
            );
            programs += 1;
        }
    }
    assert!(programs > 1900, "{programs} programs");
}

/// Where layers are not tiny, programs come near.
#[test]
fn programs_of_networks_come_near() {
    for (array_size, share) in [(4, 0.9), (8, 0.9), (16, 0.8)] {
        let arch = TcuArch { array_size, ..TcuArch::preset("pynqz1").unwrap() };
        let graph = residual(16);
        let bound = lower_bound(&graph, &arch).total() as f64;
        let [compat, free] = ["compat", "free"].map(|rounding| spent(&graph, &arch, rounding));
        let [compat, free] = [compat, free].map(|spent| spent.unwrap().total() as f64);
        assert!(bound <= free && free <= compat && bound > share * free, "{bound} of {free}");
    }
}

/// A convolution of 8 channels with a border, a bias and a ReLU on 4 x 4 positions.
fn convolution() -> Graph {
    let mut graph = Graph::new("convolution");
    let x = graph.add_input("x", DType::F32, &[1, 8, 4, 4], &[]).unwrap();
    let mut constant = |name: &str, shape: &[usize]| {
        let count = shape.iter().product::<usize>();
        let reals = (0..count).map(|at| at as f32 / 100.0).collect();
        graph.add_constant(name, Tensor::from_vec(shape, reals).unwrap()).unwrap()
    };
    let (weights, bias) = (constant("w", &[8, 8, 3, 3]), constant("b", &[8]));
    let mut window = Window::new(&[3, 3]);
    window.pads.fill((1, 1));
    let inputs = [Some(x), Some(weights), Some(bias)];
    let y = graph.add_node("conv", Op::Conv(Conv { window, groups: 1 }), &inputs, "y").unwrap();
    let z = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(y)], "z").unwrap();
    graph.add_output(z);
    graph
}

/// Counted by hand: along an axis taps read 3, 4 and 3 positions.
#[test]
fn a_convolution_is_counted_as_by_hand() {
    let arch = TcuArch { array_size: 8, ..TcuArch::preset("pynqz1").unwrap() };
    let wide = Classes {
        products: 10 * 10,
        startups: 9 * 8,
        weights: 9 * 9,
        simd: 16,
        accumulators: 16,
        drams: 9 * 8 + 1 + 16 + 16,
        other: 0,
    };
    assert_eq!(lower_bound(&convolution(), &arch), wide);
    // Ten accumulators hold 9 positions in a run, but not 12 or 16: five taps take a second one.
    let narrow = TcuArch { accumulator_depth: 10, ..arch.clone() };
    let again = Classes { startups: 14 * 8, weights: 9 * 9 + 5 * 8, ..wide };
    assert_eq!(lower_bound(&convolution(), &narrow), again);
    // Half of the lanes: two blocks of inputs by two of outputs.
    let half = TcuArch { array_size: 4, ..arch };
    let blocks = Classes {
        products: 4 * 100,
        startups: 36 * 4,
        weights: 36 * 5,
        simd: 32,
        accumulators: 32,
        drams: 36 * 4 + 2 + 32 + 32,
        other: 0,
    };
    assert_eq!(lower_bound(&convolution(), &half), blocks);
    let spent = spent(&convolution(), &half, "free").unwrap();
    assert!(spent.total() < blocks.total() + blocks.total() / 8, "{spent:?}");
}
