//! The networks that suites compile: files of a folder, quantised on a random image.

use crate::artifact::Artifact;
use crate::{Npu, TARGET};
use quincunx_contract::{Arch, Compiler as _, Log, NotCompiled, Options, Target as _};
use quincunx_diag::{Diagnostic, Result, first};
use quincunx_graph::{Graph, passes};
use quincunx_import::read_onnx;
use quincunx_tensor::{Tensor, Tensors, element_count};
use std::path::Path;

/// A float network with the ranges of its values.
pub(super) struct Network {
    graph: Graph,
    ranges: passes::Ranges,
}

/// Numbers from -1 to 1, of which the same seed gives the same.
fn random(count: usize, mut seed: u64) -> Vec<f32> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 40) as f32) / (1_u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Random numbers for every input of a graph.
pub(super) fn inputs(graph: &Graph, seed: u64) -> Result<Tensors> {
    let mut tensors = Tensors::new();
    for &input in graph.inputs() {
        let value = &graph[input];
        let count = element_count(&value.shape).unwrap_or(0);
        let tensor = Tensor::from_vec(&value.shape, random(count, seed))?;
        tensors.insert(value.name.clone(), tensor);
    }
    Ok(tensors)
}

impl Network {
    /// `FOLDER/NAME.onnx`, calibrated on one image of random numbers.
    ///
    /// # Errors
    /// `Q4085` without a folder, `Q4086` for a file that cannot be read; what is wrong with the
    /// network.
    pub(super) fn read(folder: &str, name: &str) -> Result<Network> {
        if folder.is_empty() {
            return Err(Diagnostic::usage("Q4085", "option models is empty, expected a folder")
                .help("give the folder with the networks, as in --models DIR"));
        }
        let bytes = super::bytes(&Path::new(folder).join(format!("{name}.onnx")))?;
        let graph = read_onnx(bytes.into(), &quincunx_import::Options::default()).map_err(first)?;
        let graph = passes::fold_batch_norm(&passes::fold_constants(&graph)?)?;
        let graph = passes::remove_dead(&graph)?;
        let ranges = passes::calibrate(&graph, [inputs(&graph, 1)?])?;
        Ok(Network { graph, ranges })
    }

    /// The quantised network for so many images.
    ///
    /// # Errors
    /// What rebinding its batch or quantising says.
    pub(super) fn quantised(&self, images: usize) -> Result<Graph> {
        let symbols = self.graph.inputs().iter().flat_map(|&input| &self.graph[input].symbols);
        let batch = symbols.flatten().next().cloned();
        let graph = match batch {
            Some(symbol) => self.graph.rebind(&symbol, images)?,
            None => self.graph.clone(),
        };
        passes::quantise(&graph, &self.ranges, &passes::Scheme::AFFINE_INT8)
    }
}

/// The program of a graph whose nodes are all on the machine.
///
/// # Errors
/// Why it is not compiled.
pub(super) fn compile(graph: &Graph, arch: &dyn Arch, chosen: &[(&str, &str)]) -> Result<Artifact> {
    let chosen: Vec<(String, String)> =
        chosen.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let options = Options::new(TARGET.info().options, &chosen)?;
    let compiled = Npu.compile(graph, arch, &options, &mut Log::default());
    let program = compiled.map_err(NotCompiled::first)?.program;
    let program: Box<dyn std::any::Any> = program;
    let artifact =
        program.downcast().map_err(|_| Diagnostic::bug("a program of another machine"))?;
    Ok(*artifact)
}
