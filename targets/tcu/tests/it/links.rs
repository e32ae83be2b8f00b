//! Layers that are computed together, tile by tile, and sums in the places of their operands: the
//! numbers are those of layers one after the other.

use crate::common::graphs::{judge, shallow};
use crate::common::net::Net;
use quincunx_graph::Graph;
use quincunx_tcu::TcuArch;
use quincunx_tensor::Tensors;
use quincunx_testkit::Random;

/// Residual blocks with batch normalisations before or behind their products, as large as chance has
/// it.
fn residual(random: &mut Random) -> Graph {
    let shape = [1, 5, random.range(3, 14), random.range(3, 14)];
    let (mut net, x) = Net::new(&shape);
    net.seed = random.next();
    let wide = random.range(9, 40);
    let mut sum = net.conv("stem", x, wide, 1, 1);
    for block in 0..random.range(2, 5) {
        let named = |name: &str| format!("{name}{block}");
        let mut y = net.norm(&named("norm"), sum, 1.0);
        y = net.relu(&named("relu"), y);
        let kernels = [random.below(2), random.below(2)].map(|half: usize| 2 * half + 1);
        y = net.conv(&named("first"), y, random.range(3, 20), kernels[0], 1);
        if random.below(2) == 0 {
            y = net.relu(&named("between"), y);
        }
        y = net.conv(&named("second"), y, wide, kernels[1], 1);
        sum = net.add(&named("sum"), sum, y);
    }
    let y = net.relu("last", sum);
    let y = net.conv("out", y, random.range(3, 12), 1, 1);
    net.graph.add_output(y);
    net.graph
}

#[test]
fn layers_together_give_the_numbers_of_layers_one_after_the_other() {
    let (mut linked, mut inherited) = (0, 0);
    for case in 0..60 {
        let mut random = Random::new(case);
        let graph = residual(&mut random);
        let mut arch = shallow(TcuArch::preset("pynqz1").unwrap());
        arch.array_size = [4, 8][random.below(2_usize)];
        arch.local_depth = random.range(150, 1500);
        arch.accumulator_depth = random.range(30, 500);
        let x = random.tensor(&graph[graph.inputs()[0]].shape, 1.0);
        let inputs = Tensors::from([("x".to_owned(), x)]);
        let outputs = ["compat", "free"].map(|rounding| {
            let agreed = judge(&graph, &inputs, &arch, &[("rounding", rounding)]).unwrap();
            let interface = agreed.compiled.program.interface();
            linked += u32::from(interface.sections.iter().any(|s| s.name.contains(" and ")));
            let sums = interface.layers.iter().filter(|tap| tap.value.starts_with("sum"));
            let places: Vec<&str> = sums.map(|tap| &tap.place[..]).collect();
            let shared = places.windows(2).any(|pair| pair[0] == pair[1]);
            inherited += u32::from(shared && places[0].contains("Local"));
            agreed.samples[0].1["out_out"].to_f64()
        });
        let alone = judge(&graph, &inputs, &arch, &[("strategy", "local-isolated")]).unwrap();
        assert_eq!(outputs[0], alone.samples[0].1["out_out"].to_f64(), "{case}");
    }
    assert!(linked > 40 && inherited > 5, "{linked} {inherited}");
}
