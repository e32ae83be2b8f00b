//! What the user may say about a model that is read.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Options of [`crate::read_onnx`] and [`crate::read_graph_def`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Folder that external data is looked up in. `None` refuses models with external data.
    #[serde(skip)]
    pub base_dir: Option<PathBuf>,
    /// Extents of symbolic dimensions by name; the others become 1. An unnamed dimension is called
    /// `input:axis`, for example `image:0`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bindings: BTreeMap<String, usize>,
    /// Shapes of inputs by input name. They replace what the model declares, and bind the symbols
    /// of that input.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub input_shapes: BTreeMap<String, Vec<usize>>,
    /// Shapes of the arrays of a data file. Where neither a binding nor a shape was given, open
    /// extents of the input of that name take those of its array, whose outermost axis may count
    /// images.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub data_shapes: BTreeMap<String, Vec<usize>>,
    /// Numbers of inputs by input name, which become constants: decimals separated by commas, one
    /// for every element or one for all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub input_values: BTreeMap<String, String>,
    /// Values that become inputs of the graph; what computes them is not looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// Values that become the outputs of the graph, instead of those of the model. Nodes that they
    /// do not need are not looked at. Empty for the outputs the model declares; a GraphDef declares
    /// none, there it means every result that nothing reads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
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
