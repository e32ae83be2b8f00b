//! Images that the simulator computes in a second: `quincunx bench scamp:run`.

use crate::TARGET;
use quincunx_contract::bench::{Row, Run, Suite};
use quincunx_contract::{
    ArchSource, Compiled, Compiler as _, Engine, File, Log, NotCompiled, Options, Target as _,
};
use quincunx_diag::{Diagnostic, Result, first};
use quincunx_tensor::{Tensor, Tensors};

/// The three kernels of AnalogNet2 on the whole array.
pub(super) const SUITE: Suite = Suite {
    name: "run",
    doc: "images of 256x256 through the three kernels of AnalogNet2 in a second, on one core",
    options: &[],
    run: measure,
};

/// The kernels of AnalogNet2 (`cain`, Table 1 and the repository).
const KERNELS: &str = r#"{"filters": [{"id": "analognet2", "input_register": "A", "kernels": [
    {"out": "A", "log2_scale": -2, "coeffs": [[0, 0, 0], [-3, 1, 0], [-3, 0, 2]]},
    {"out": "B", "log2_scale": -2, "coeffs": [[-4, -1, 1], [-1, 2, 0], [1, 1, 0]]},
    {"out": "C", "log2_scale": -2, "coeffs": [[-1, 2, 0], [-1, 1, -3], [0, -3, 0]]}]}]}"#;

const SIZE: usize = 256;

/// `frames_per_second`: from pixels to the three results as real numbers, without preparing the
/// program; the median of the fastest runs.
fn measure(run: &Run) -> Result<Vec<Row>> {
    let arch = TARGET.arch(&ArchSource::Default)?;
    let options = Options::new(TARGET.info().options, &[("effort".into(), "fast".into())])?;
    let model = TARGET.model(&File::new("analognet2.json#analognet2", KERNELS)).map_err(first)?;
    let model = model.ok_or_else(|| Diagnostic::bug("the kernels are no kernel file"))?;
    let compiled = TARGET.compile(&model.graph, &*arch, &options, &mut Log::default());
    let Compiled { program, .. } = compiled.map_err(NotCompiled::first)?;
    let mut machine = program.load(Engine::Fast)?;
    let pixel = |index: usize| (index.wrapping_mul(0x9e37_79b9) >> 13 & 0xff) as f64;
    let image = Tensor::from_vec(&[1, 1, SIZE, SIZE], (0..SIZE * SIZE).map(pixel).collect())?;
    let image = Tensors::from([("image".to_owned(), image)]);
    machine.run(&image)?;
    let seconds = run.seconds(|| machine.run(&image));
    let row = Row::named("analognet2_256");
    Ok(vec![row("frames_per_second", seconds.recip(), "frames/s", 0)])
}
