//! The files beside a model that hold its weights.

use crate::proto::{EXTERNAL, GraphProto, ModelProto, TensorProto};
use crate::tensor::entry;
use crate::{Format, Options, format_of};
use bytes::Bytes;
use prost::Message;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Where the external data of a model lies, as it says; nothing for what is not an ONNX model.
pub fn external_files(bytes: &Bytes, options: &Options) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let Some(base) = &options.base_dir else { return found };
    if format_of(bytes) == Format::Onnx
        && let Ok(ModelProto { graph: Some(graph), .. }) = ModelProto::decode(bytes.clone())
    {
        let mut note = |tensor: &TensorProto| {
            let location = entry(&tensor.external_data, "location");
            found.extend(location.map(|location| base.join(location)));
        };
        visit(&graph, &mut note);
    }
    found
}

/// Every tensor in another file, also of graphs in graphs, whose depth the decoder limits.
fn visit(graph: &GraphProto, note: &mut impl FnMut(&TensorProto)) {
    let attributes = || graph.node.iter().flat_map(|node| &node.attribute);
    let tensors = graph.initializer.iter().chain(attributes().filter_map(|a| a.t.as_deref()));
    tensors.filter(|tensor| tensor.data_location == Some(EXTERNAL)).for_each(&mut *note);
    attributes().filter_map(|a| a.g.as_deref()).for_each(|graph| visit(graph, note));
}
