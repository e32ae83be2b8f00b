//! Images that the simulator computes in a second: `quincunx bench scamp:run`.

use crate::TARGET;
use quincunx_contract::bench::{Row, Run, Suite};
use quincunx_contract::{
    ArchSource, Compiled, Compiler as _, Engine, File, Log, NotCompiled, Options, Target as _,
};
use quincunx_diag::{Diagnostic, Result, first};
use quincunx_graph::{Compare, Conv, Graph, Op, Window};
use quincunx_tensor::{DType, Tensor, Tensors};

/// The three kernels of AnalogNet2 on the whole array, and the part of a network that is on the array.
pub(super) const SUITE: Suite = Suite {
    name: "run",
    doc: "images a second on one core: 256x256 through the three kernels of AnalogNet2, 24x24 through \
          kernels and thresholds of a network",
    options: &[],
    run: measure,
};

/// The kernels of AnalogNet2 (`cain`, Table 1 and the repository).
const KERNELS: &str = r#"{"filters": [{"id": "analognet2", "input_register": "A", "kernels": [
    {"out": "A", "log2_scale": -2, "coeffs": [[0, 0, 0], [-3, 1, 0], [-3, 0, 2]]},
    {"out": "B", "log2_scale": -2, "coeffs": [[-4, -1, 1], [-1, 2, 0], [1, 1, 0]]},
    {"out": "C", "log2_scale": -2, "coeffs": [[-1, 2, 0], [-1, 1, -3], [0, -3, 0]]}]}]}"#;

/// Kernels in quarters and thresholds of `examples/scamp/digits`.
const DIGITS: [[i8; 9]; 3] =
    [[2, 4, 4, 1, 2, 1, -4, -4, -3], [4, 2, 3, 4, 0, -1, 1, 1, -2], [1, 1, -3, 4, 0, 1, 4, -2, -2]];
const THRESHOLDS: [f32; 3] = [14.0 / 64.0, 36.0 / 64.0, 39.0 / 64.0];

/// `frames_per_second`: from pixels to the results as real numbers, without preparing the program; the
/// median of the fastest runs.
fn measure(run: &Run) -> Result<Vec<Row>> {
    let options = Options::new(TARGET.info().options, &[("effort".into(), "fast".into())])?;
    let model = TARGET.model(&File::new("analognet2.json#analognet2", KERNELS)).map_err(first)?;
    let model = model.ok_or_else(|| Diagnostic::bug("the kernels are no kernel file"))?;
    [("analognet2_256", model.graph, 1.0), ("digits_24", digits()?, 1.0 / 64.0)]
        .into_iter()
        .map(|(name, graph, unit)| {
            let seconds = seconds(run, &graph, unit, &options)?;
            Ok(Row::named(name)("frames_per_second", seconds.recip(), "frames/s", 0))
        })
        .collect()
}

/// Seconds of an image whose pixels are up to 255 units.
fn seconds(run: &Run, graph: &Graph, unit: f64, options: &Options) -> Result<f64> {
    let arch = TARGET.arch(&ArchSource::Default)?;
    let compiled = TARGET.compile(graph, &*arch, options, &mut Log::default());
    let Compiled { program, .. } = compiled.map_err(NotCompiled::first)?;
    let mut machine = program.load(Engine::Fast)?;
    let input = &graph[graph.inputs()[0]];
    let pixel = |index: usize| (index.wrapping_mul(0x9e37_79b9) >> 13 & 0xff) as f64 * unit;
    let pixels = (0..input.shape.iter().product()).map(pixel).collect();
    let image = Tensor::from_vec::<f64>(&input.shape, pixels)?;
    let image = Tensors::from([(input.name.clone(), image)]);
    machine.run(&image)?;
    Ok(run.seconds(|| machine.run(&image)))
}

/// The layers of the network that are on the array.
fn digits() -> Result<Graph> {
    let mut graph = Graph::new("digits");
    let x = graph.add_input("image", DType::F32, &[1, 1, 24, 24], &[])?;
    let weights = DIGITS.iter().flatten().map(|&count| f32::from(count) / 4.0).collect();
    let weights = Tensor::from_vec::<f32>(&[3, 1, 3, 3], weights)?;
    let weights = graph.add_constant("kernels", weights)?;
    let mut window = Window::new(&[3, 3]);
    window.pads.fill((1, 1));
    let conv = Op::Conv(Conv { window, groups: 1 });
    let y = graph.add_node("conv", conv, &[Some(x), Some(weights)], "y")?;
    let numbers = Tensor::from_vec::<f32>(&[3, 1, 1], THRESHOLDS.to_vec())?;
    let numbers = graph.add_constant("thresholds", numbers)?;
    let greater = Op::Compare(Compare::Greater);
    let bits = graph.add_node("above", greater, &[Some(y), Some(numbers)], "bits")?;
    graph.add_output(bits);
    Ok(graph)
}
