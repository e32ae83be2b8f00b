//! Grouped and depthwise convolutions: nothing is stored, loaded or multiplied for blocks of other
//! groups.

use crate::common::graphs::judge;
use quincunx_contract::Compiled;
use quincunx_graph::{Conv, Graph, Op, Window};
use quincunx_tcu::isa::Inst;
use quincunx_tcu::{Artifact, TcuArch};
use quincunx_tensor::{DType, Tensor};
use quincunx_testkit::Random;

/// A convolution of 3 x 3 with bias and random weights, none of which is zero.
fn grouped(channels: usize, outputs: usize, groups: usize, size: usize, stride: usize) -> Graph {
    let mut random = Random::new(9);
    let mut graph = Graph::new("grouped");
    let x = graph.add_input("x", DType::F32, &[1, channels, size, size], &[]).unwrap();
    let mut constant = |graph: &mut Graph, name: &str, shape: &[usize]| {
        let real = |_| (random.below(64) as f32 + 1.0) / 256.0 - 0.127;
        let reals = (0..shape.iter().product()).map(real).collect();
        graph.add_constant(name, Tensor::from_vec::<f32>(shape, reals).unwrap()).unwrap()
    };
    let w = constant(&mut graph, "w", &[outputs, channels / groups, 3, 3]);
    let b = constant(&mut graph, "b", &[outputs]);
    let mut window = Window::new(&[3, 3]);
    window.pads.fill((1, 1));
    window.strides.fill(stride);
    let conv = Op::Conv(Conv { window, groups });
    let y = graph.add_node("conv", conv, &[Some(x), Some(w), Some(b)], "y").unwrap();
    graph.add_output(y);
    graph
}

/// Compiles without a problem, and all judges agree.
fn compile(graph: &Graph, arch: &TcuArch, rounding: &str) -> Compiled {
    let x = Random::new(4).tensor(&graph[graph.inputs()[0]].shape, 1.0);
    let inputs = [("x".to_owned(), x)].into();
    let agreed = judge(graph, &inputs, arch, &[("rounding", rounding)]);
    let compiled = agreed.unwrap_or_else(|problem| panic!("{problem}")).compiled;
    assert_eq!(compiled.program.verify(), []);
    compiled
}

/// Vectors that are multiplied, vectors of weights that are loaded, and vectors of constants.
fn counts(compiled: &Compiled) -> [u64; 3] {
    let artifact = compiled.program.as_any().downcast_ref::<Artifact>().unwrap();
    let package = artifact.package();
    let mut counts = [0, 0, package.model.as_ref().unwrap().consts[0].size];
    for step in &package.program.steps {
        match step.inst {
            Inst::MatMul { .. } | Inst::MatMulZeroes { .. } => counts[0] += step.inst.count(),
            Inst::LoadWeights { .. } => counts[1] += step.inst.count(),
            _ => {}
        }
    }
    counts
}

#[test]
fn depthwise_layers_multiply_only_their_own_channels() {
    let graph = grouped(64, 64, 64, 16, 1);
    let arch = TcuArch::preset("pynqz1").unwrap();
    // Without padding; every block of 8 channels has 9 taps of 8 rows and a bias.
    let pairs = (16 * 16 + 4 * 15 * 16 + 4 * 15 * 15) * 8;
    for rounding in ["compat", "free"] {
        let compiled = compile(&graph, &arch, rounding);
        let [multiplied, loaded, constants] = counts(&compiled);
        // The bias is a product of its own.
        assert!(multiplied <= pairs + 256 * 8, "{rounding}: {multiplied}");
        assert_eq!([loaded, constants], [8 * (9 * 8 + 1); 2], "{rounding}");
    }
}

#[test]
fn groups_of_any_size_are_right() {
    let mut shared = 0;
    for (channels, outputs, groups) in
        [(12, 20, 4), (20, 12, 4), (6, 30, 6), (30, 5, 5), (24, 48, 3), (9, 9, 3), (16, 32, 16)]
    {
        for (lanes, local) in [(8, 8192), (4, 4096), (8, 160)] {
            let arch = TcuArch {
                array_size: lanes,
                local_depth: local,
                ..TcuArch::preset("pynqz1").unwrap()
            };
            for (size, stride) in [(7, 1), (6, 2)] {
                let graph = grouped(channels, outputs, groups, size, stride);
                for rounding in ["compat", "free"] {
                    let compiled = compile(&graph, &arch, rounding);
                    // Blocks that a group of channels and one of outputs share.
                    let lanes = lanes as usize;
                    let overlap = |(column, plane): (usize, usize)| {
                        (0..groups).any(|group| {
                            let share = |all: usize, block: usize| {
                                let (low, high) =
                                    (all / groups * group, all / groups * (group + 1));
                                low < (block + 1) * lanes && high > block * lanes
                            };
                            share(outputs, column) && share(channels, plane)
                        })
                    };
                    let blocks = |count: usize| count.div_ceil(lanes);
                    let pairs = (0..blocks(outputs))
                        .flat_map(|column| (0..blocks(channels)).map(move |plane| (column, plane)));
                    let filled = pairs.filter(|&pair| overlap(pair)).count();
                    let [_, _, constants] = counts(&compiled);
                    let most = 9 * filled * lanes + blocks(outputs);
                    assert!(constants <= most as u64, "{channels} {outputs}: {constants} {most}");
                    shared += usize::from(filled < blocks(outputs) * blocks(channels));
                }
            }
        }
    }
    assert!(shared > 30, "{shared}");
}
