//! The judges on random graphs: simulators, golden model, and the float executor node by node.

use crate::common::graphs::{judge, of_peer, random_graph_of, shallow};
use quincunx_graph::{Graph, Node, Op, Pool};
use quincunx_tcu::TcuArch;
use quincunx_tcu::arch::DataType;
use quincunx_testkit::{Agreed, Coverage, Random, each_alone};
use std::collections::BTreeMap;

/// Operators that the machine has no program for.
const REFUSED: &str = "Sign Not Sqrt Reciprocal Log Floor Ceil Round Sin Cos Tan Equal Less \
    LessOrEqual Greater GreaterOrEqual And Or Xor Where ReduceMin ReduceProd ReduceL1 ReduceL2 \
    ReduceSumSquare ReduceLogSum ReduceLogSumExp ArgMax ArgMin LogSoftmax LayerNormalization \
    InstanceNormalization LRN RNN LSTM GRU Cast QuantizeLinear DequantizeLinear";

/// Machines with wide and small memories, without strides, with none to three registers, of every
/// type.
fn machines() -> Vec<(&'static str, TcuArch)> {
    let of = |data_type, arch| TcuArch { data_type, ..arch };
    vec![
        ("pynqz1", pynq()),
        ("small4", of_peer("small4")),
        ("tight8", of_peer("tight8")),
        ("without strides", of_peer("nostride8")),
        ("three registers", TcuArch { simd_registers_depth: 3, ..of_peer("small4") }),
        ("no registers", TcuArch { simd_registers_depth: 0, ..pynq() }),
        ("floats", of(DataType::Float32, of_peer("small4"))),
        ("bytes", of(DataType::FP8BP4, of_peer("tight8"))),
        ("words", of(DataType::FP32BP16, of_peer("tight8"))),
        ("18 bits", of(DataType::FP18BP10, of_peer("small4"))),
        ("tables", with_tables(2, 32, pynq())),
        ("one table", with_tables(1, 16, of_peer("small4"))),
    ]
}

fn pynq() -> TcuArch {
    shallow(TcuArch::preset("pynqz1").unwrap())
}

fn with_tables(tables: u32, depth: u32, arch: TcuArch) -> TcuArch {
    TcuArch {
        simd_registers_depth: tables,
        lookup_tables: Some(tables),
        lookup_table_depth: Some(depth),
        ..arch
    }
}

/// A machine of any width and type, perhaps with tables, for which no graph is too large.
fn any(random: &mut Random) -> (&'static str, TcuArch) {
    let data_type = random.pick(&DataType::ALL);
    let mut arch = TcuArch { array_size: random.range(2, 9), data_type, ..pynq() };
    if random.chance(33) {
        arch = with_tables(random.range(1, 3), random.range(1, 40), arch);
        arch.simd_registers_depth += random.below(2_u32);
    }
    ("any", arch)
}

/// How many numbers an element of the result is made of.
fn terms(graph: &Graph, node: &Node) -> usize {
    let shape = |index: usize| graph[node.input(index).unwrap()].shape.to_vec();
    let product = |extents: &[usize]| extents.iter().product::<usize>();
    match &node.op {
        Op::Conv(_) => product(&shape(1)[1..]) + 1,
        Op::ConvTranspose(_) => shape(1)[0] * product(&shape(1)[2..]) + 1,
        Op::Gemm(_) | Op::MatMul => shape(0).last().unwrap() + 1,
        Op::Pool(Pool { window, .. }) => product(&window.kernel),
        Op::Reduce(reduce) => reduce.axes.iter().map(|&axis| shape(0)[axis]).product(),
        Op::GlobalAveragePool => product(&shape(0)[2..]),
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
fn nodes_are_near(graph: &Graph, arch: &TcuArch, agreed: &Agreed) -> usize {
    let limits @ [_, high] = match arch.data_type {
        DataType::Float32 => [f64::MIN, f64::MAX],
        fixed => [fixed.decode(-fixed.max() - 1), fixed.decode(fixed.max())],
    };
    let (_, golden) = &agreed.samples[0];
    let largest = |node: &Node| {
        let operands = node.operands().map(|id| &graph[id]).filter(|value| value.dtype.is_float());
        let numbers = operands.flat_map(|value| match &value.constant {
            Some(constant) => constant.tensor.to_f64(),
            None => golden[&value.name].to_f64(),
        });
        numbers.fold(0.0, |most: f64, real| most.max(real.abs()))
    };
    let numerics = &agreed.compiled.numerics.0;
    let mut compared = 0;
    for (node, worst) in each_alone(graph, golden, limits) {
        // Functions are as far off as the compiler says, and operands are rounded to f32.
        let of = |key: &str| numerics[key][&node.name]["max_error"].as_f64();
        let stated = of("lookups").or_else(|| of("curves"));
        let stated = stated.map(|error| error + 1e-5 * high.min(1e6));
        let bound = stated.or_else(|| bound(arch.data_type, terms(graph, node), largest(node)));
        if let Some(bound) = bound {
            assert!(worst <= bound, "{} is off by {worst}, more than {bound}\n{graph}", node.name);
            compared += 1;
        }
    }
    compared
}

#[test]
fn judges_agree_on_random_graphs() {
    let (machines, mut coverage) = (machines(), Coverage::default());
    let mut counts = BTreeMap::<&str, [usize; 3]>::new();
    for case in 0..1000 {
        let random = &mut Random::new(case);
        let listed = machines[case as usize / 2 % machines.len()].clone();
        let (name, arch) = if case % 2 == 0 { any(random) } else { listed };
        // Polynomials are for free numbers only.
        let curves = case % 5 == 4;
        let given: &[(&str, &str)] =
            if curves { &[("rounding", "free"), ("approximate", "0.1")] } else { &[] };
        let (graph, inputs) = random_graph_of(random, &arch, given);
        let [programs, values, nodes] = counts.entry(name).or_default();
        let mut cycles = Vec::new();
        for rounding in ["compat", "free"] {
            let plain = [("rounding", rounding)];
            let given = if curves { given } else { &plain };
            match judge(&graph, &inputs, &arch, given) {
                Ok(agreed) => {
                    *programs += 1;
                    *values += agreed.seen.len();
                    *nodes += nodes_are_near(&graph, &arch, &agreed);
                    coverage.mark(&graph);
                    // Means in steps, which compat does not have, are longer than one sum.
                    let steps = agreed.compiled.numerics.0.get("means").is_some();
                    let own = agreed.compiled.program.stats().cycles.unwrap();
                    cycles.push(if steps { (own * 8 / 9).saturating_sub(32) } else { own });
                }
                // The only excuse is that a layer does not fit, in compat neither.
                Err(problem) => {
                    let is_excuse =
                        ["Q3085", "Q3086", "Q3087"].contains(&problem.code()) && cycles.is_empty();
                    assert!(is_excuse && name != "any", "case {case}: {problem}\n{graph}");
                }
            }
        }
        if let [compat, free] = cycles[..] {
            assert!(free <= compat, "case {case}: {free} cycles, compat {compat}\n{graph}");
        }
    }
    for (name, [programs, values, nodes]) in counts {
        let enough = programs > 50 && values > 350 && nodes > 350;
        assert!(enough, "{name}: {programs} programs, {values} values, {nodes} nodes");
    }
    assert_eq!(coverage.never(), REFUSED);
}
