//! What the user may say about a model that is read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Options of [`crate::read_onnx`] and [`crate::read_graph_def`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Folder that external data is looked up in. `None` refuses models with external data.
    pub base_dir: Option<PathBuf>,
    /// Extents of symbolic dimensions by name; the others become 1. An unnamed dimension is called
    /// `input:axis`, for example `image:0`.
    pub bindings: BTreeMap<String, usize>,
    /// Shapes of inputs by input name. They replace what the model declares, and bind the symbols
    /// of that input.
    pub input_shapes: BTreeMap<String, Vec<usize>>,
    /// Values that become inputs of the graph; what computes them is not looked at.
    pub inputs: Vec<String>,
    /// Values that become the outputs of the graph, instead of those of the model. Nodes that they
    /// do not need are not looked at. Empty for the outputs the model declares; a GraphDef declares
    /// none, there it means every result that nothing reads.
    pub outputs: Vec<String>,
}

impl Options {
    /// Default options for the model file `path`: external data is looked up beside it.
    pub fn beside(path: &Path) -> Self {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        Options { base_dir: Some(folder.to_owned()), ..Options::default() }
    }
}
