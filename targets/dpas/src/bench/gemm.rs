//! `quincunx bench dpas:gemm`: how fast the launches of a compiled product are simulated.

use quincunx_contract::bench::{Row, Run};
use quincunx_contract::{Engine, Program as _};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Constant, Graph, Op, Quantiser};
use quincunx_num::Level;
use quincunx_tensor::{DType, Tensor, Tensors};

/// Rows, columns and depth of what is measured, and of what the executor repeats.
const SIZE: usize = 1024;
const SMALL: usize = 96;

/// Row `s8_1024`: a product of signed bytes, compiled for xe2; its launches without the ports.
pub(super) fn measure(run: &Run) -> Result<Vec<Row>> {
    let level = run.level()?;
    check(level)?;
    let (graph, inputs) = product(SIZE)?;
    let program = super::compile(&graph)?;
    let mut launches = program.launches(Some(level))?;
    launches.enter(&inputs)?;
    let mut failed = None;
    let rate = run.rate(SIZE.pow(3) as f64 / 1e9, || {
        failed = launches.run_launches(&mut |_, _| Ok(())).err().or(failed.take());
    });
    match failed {
        Some(problem) => Err(problem),
        None => Ok(vec![Row::named("s8_1024")("gmacs", rate, "GMAC/s", 2)]),
    }
}

/// A smaller product gives the executor's numbers.
fn check(level: Level) -> Result<()> {
    let (graph, inputs) = product(SMALL)?;
    let program = super::compile(&graph)?;
    let found = program.machine(Some(level))?.run(&inputs)?;
    if found != program.load(Engine::Exec)?.run(&inputs)? {
        return Err(Diagnostic::bug("the prepared simulator differs from the executor"));
    }
    Ok(())
}

/// A square product with constant weights, and its input.
pub(super) fn product(size: usize) -> Result<(Graph, Tensors)> {
    let mut state = 1_u64;
    let mut codes = |count: usize| -> Vec<i64> {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005);
            state = state.wrapping_add(1_442_695_040_888_963_407);
            i64::from((state >> 56) as u8 as i8)
        };
        (0..count).map(|_| next()).collect()
    };
    let scale = 1.0 / 64.0;
    let bytes = Quantiser::symmetric(true, 8, scale);
    let shape = [size, size];
    let mut graph = Graph::new("product");
    let a = graph.add_input("a", DType::F32, &shape, &[])?;
    let a = graph.add_node("quantise", Op::Quantise(bytes.clone()), &[Some(a)], "codes")?;
    let tensor = Tensor::from_vec(&shape, codes(size * size))?;
    let b = graph.add_constant("b", Constant { tensor, quantiser: Some(bytes) })?;
    let c = graph.add_node("product", Op::MatMul, &[Some(a), Some(b)], "c")?;
    graph.add_output(c);
    let reals = codes(size * size).into_iter().map(|code| code as f32 * scale as f32);
    let input = Tensor::from_vec(&shape, reals.collect::<Vec<f32>>())?;
    Ok((graph, Tensors::from_iter([("a".to_owned(), input)])))
}
