//! `quincunx bench dpas:resnet50 --models DIR`: how fast a real network is compiled and simulated.

use super::compile;
use quincunx_contract::bench::{Row, Run};
use quincunx_contract::{Engine, Program as _};
use quincunx_diag::{Diagnostic, Result, first};
use quincunx_graph::{Graph, passes};
use quincunx_import::read_onnx;
use quincunx_tensor::{Tensor, Tensors, element_count};
use std::path::Path;

/// ResNet-50 on one image in the fast simulator: `milliseconds` of a run, from real numbers to real
/// numbers, without preparing the program; `compile_seconds`; `peak_bytes` of the process during runs.
pub(super) fn measure(run: &Run) -> Result<Vec<Row>> {
    let graph = read(run.options.get("models"))?;
    let start = std::time::Instant::now();
    let program = compile(&graph)?;
    // What the command reports of a program, its cycles among it.
    program.stats();
    let compile_seconds = start.elapsed().as_secs_f64();
    let image = inputs(&graph, 2)?;
    drop(graph);
    let mut machine = program.load(Engine::Fast)?;
    machine.run(&image)?;
    let calls = run.calls(|| machine.run(&image))?;
    let row = Row::named("resnet50");
    let mut rows = vec![
        row("milliseconds", calls.seconds * 1e3, "ms", 2),
        row("compile_seconds", compile_seconds, "s", 2),
    ];
    rows.extend(calls.peak.map(|bytes| row("peak_bytes", bytes as f64, "bytes", 0)));
    Ok(rows)
}

/// `FOLDER/resnet50.onnx`, quantised to int8 on one image of random numbers.
fn read(folder: &str) -> Result<Graph> {
    if folder.is_empty() {
        return Err(Diagnostic::usage("Q6195", "option models is empty, expected a folder")
            .help("give the folder with resnet50.onnx, as in --models DIR"));
    }
    let path = Path::new(folder).join("resnet50.onnx");
    let bytes = std::fs::read(&path).map_err(|error| {
        Diagnostic::system("Q6196", "read it", &error).in_file(path.to_string_lossy())
    })?;
    let graph = read_onnx(bytes.into(), &quincunx_import::Options::default()).map_err(first)?;
    let graph = passes::fold_batch_norm(&passes::fold_constants(&graph)?)?;
    let graph = passes::remove_dead(&graph)?;
    let ranges = passes::calibrate(&graph, [inputs(&graph, 1)?])?;
    passes::quantise(&graph, &ranges, &passes::Scheme::AFFINE_INT8)
}

/// Numbers from -1 to 1 for every input of a graph, of which the same seed gives the same.
fn inputs(graph: &Graph, mut seed: u64) -> Result<Tensors> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 40) as f32) / (1_u64 << 23) as f32 - 1.0
    };
    let mut tensors = Tensors::new();
    for &input in graph.inputs() {
        let value = &graph[input];
        let count = element_count(&value.shape).unwrap_or(0);
        let numbers: Vec<f32> = (0..count).map(|_| next()).collect();
        tensors.insert(value.name.clone(), Tensor::from_vec(&value.shape, numbers)?);
    }
    Ok(tensors)
}
